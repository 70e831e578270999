"""Commits that are answered when the log has them, and are not in the store yet."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from hornbeam_server.maintain.immediate.definition import define
from hornbeam_server.schema.catalog import Catalog, State
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.schema.model import DeclaredView, Refresh
from hornbeam_server.storage.ports import NEWEST
from hornbeam_server.txlayer.commit import committer as committers
from hornbeam_server.txlayer.statements.requests import Statement, TransactionRequest
from hornbeam_server.txlayer.transactions.outcomes import transaction_id_for
from tests.txlayer.database_world import catalog_of
from tests.txlayer.nodes_world import nodes
from tests.txlayer.test_committer import batches, begin, held_puts, running
from tests.txlayer.txlayer_world import TABLE, MemoryStore, World, settle
from tests.virtual_time import in_virtual_time

ACCOUNTS = """
CREATE TABLE owner (o_id INTEGER PRIMARY KEY, o_name TEXT);
CREATE TABLE account (
  a_id INTEGER PRIMARY KEY, a_o_id INTEGER REFERENCES owner, a_balance INTEGER);
CREATE INDEX by_balance ON account (a_balance);
"""
TOTALS = "SELECT a_o_id, count(*) AS n, sum(a_balance) AS total FROM account GROUP BY a_o_id"


class RemoteStore(MemoryStore):
    remote = True


def remote_world(**options) -> World:
    return World(RemoteStore(), **options)


# ------------------------------------------------------------ the committer


async def test_a_commit_is_answered_when_it_is_logged_and_read_before_it_is_applied():
    world = remote_world()
    begun = held_puts(world)
    async with running(world):
        committed = await begin(world, 1, "a")
        assert len(batches(world)) == 1
        assert committed.readable
        assert world.store.cells == {}
        assert world.committer.watermark() < committed.ts <= world.committer.readable()
        (cell,) = await world.committer.reader.get(TABLE, [b"a"], committed.ts)
        assert (cell.ts, cell.value) == (committed.ts, b"a=1")
        assert await world.committer.reader.get(TABLE, [b"a"], committed.ts - 1) == [None]
        assert not committed.applied_future.done()
        await settle()
        begun[committed.ts].set()
        await committed.applied_future
        assert world.committer.watermark() >= committed.ts
        assert world.committer._laid_over.layers(TABLE, NEWEST) == []
        (cell,) = await world.committer.reader.get(TABLE, [b"a"], NEWEST)
        assert cell.value == b"a=1"


@pytest.mark.parametrize("bound", ["MAX_LAID_ROWS", "MAX_LAID_BYTES"])
async def test_what_is_too_much_to_be_laid_over_the_store_is_answered_when_applied(
    monkeypatch, bound
):
    world = remote_world()
    begun = held_puts(world)
    async with running(world):
        first = await begin(world, 1, "a")
        monkeypatch.setattr(committers, bound, 3)
        second = begin(world, 2, "b")
        await settle()
        monkeypatch.undo()
        third = begin(world, 3, "c")  # behind a batch that is not readable
        await settle()
        assert not second.done()
        assert not third.done()
        assert first.ts <= world.committer.readable() < max(begun) or len(begun) == 1
        while not third.done():
            for put in begun.values():
                put.set()
            await settle()
        assert (await second).applied_future is None
        assert (await third).ts <= world.committer.readable()


async def test_a_committer_that_has_failed_keeps_its_logged_rows():
    alive = [True]
    world = remote_world(alive=lambda: alive[0])

    def fault(_ts):
        alive[0] = False
        raise Unavailable("away")

    world.store.fault = fault
    async with running(world):
        committed = await begin(world, 1, "a")
        await world.clock.advance(2)
        assert world.committer.failed is not None
        assert world.committer.readable() >= committed.ts > world.committer.watermark()
        (cell,) = await world.committer.reader.get(TABLE, [b"a"], committed.ts)
        assert cell.value == b"a=1"
        assert not committed.applied_future.done()


async def test_readable_waits_for_a_held_timestamp():
    world = remote_world()
    async with running(world):
        async with world.committer.held() as at:
            assert world.committer.readable() < at
            waiting = asyncio.ensure_future(world.committer.until_readable(at))
            committed = begin(world, 1, "a")
            await settle()
            assert not waiting.done()
            assert world.committer.readable() < at
        await waiting
        await committed
        assert world.committer.readable() >= at


# ------------------------------------------------------------ nodes


def accounts() -> Catalog:
    """Accounts with an index and an immediate view."""
    declared = DeclaredView("totals", TOTALS, refresh=Refresh.IMMEDIATE)
    made = catalog_of(load_ddl(ACCOUNTS))
    catalog = replace(made, schema=replace(made.schema, views=(declared,)))
    return replace(
        catalog,
        immediate=(define(declared, catalog).view,),
        states=(*catalog.states, ("totals", State.BUILDING)),
    )


@asynccontextmanager
async def two_nodes():
    """Two nodes with an account of 100, whose puts can be held back."""
    world = await nodes(0, 0, catalog=accounts())
    a, b = world.living
    await a.transact("INSERT INTO owner VALUES (1, 'x'), (2, 'y')")
    opened = await a.transact("INSERT INTO account VALUES (1, 1, 100), (2, 2, 100)")
    await b.fetch("SELECT 1 FROM account", bookmark=opened.commit_ts)
    try:
        yield world, a, b
    finally:
        await world.end()


def held_back(node) -> asyncio.Event:
    """Let no put of commits of a node begin until the event is set."""
    released, put = asyncio.Event(), node.database.committer._put

    async def late(batch):
        await released.wait()
        await put(batch)

    node.database.committer._put = late
    return released


def request(*statements: str, **options) -> TransactionRequest:
    return TransactionRequest(tuple(Statement(sql) for sql in statements), **options)


BALANCE = "SELECT a_balance FROM account WHERE a_id = 1"
ADD = "UPDATE account SET a_balance = a_balance + 1 WHERE a_id = 1"


@in_virtual_time
async def test_a_node_reads_what_it_has_logged_and_others_what_is_applied():
    async with two_nodes() as (_, a, b):
        released = held_back(a)
        committed = await a.transact(ADD)
        assert committed.applied
        assert await a.value(BALANCE) == 101
        assert await a.value(BALANCE, bookmark=committed.commit_ts) == 101
        assert await a.value("SELECT a_id FROM account WHERE a_balance = 101") == 1
        assert await a.fetch("SELECT a_id FROM account WHERE a_balance = 100") == [(2,)]
        assert await a.value("SELECT total FROM totals WHERE a_o_id = 1") == 101
        assert await b.value(BALANCE) == 100
        reading = b.begin(b.database.fetch(BALANCE, bookmark=committed.commit_ts))
        strong = b.begin(b.database.fetch(BALANCE, strong=True))
        outside = a.begin(a.database.reads.snapshot_after(committed.commit_ts - 1))
        await asyncio.sleep(1)
        assert not any(each.done() for each in (reading, strong, outside))
        released.set()
        assert await reading == await strong == [(101,)]
        assert (await outside)[1] >= committed.commit_ts
        assert await a.differences() == 0


@in_virtual_time
async def test_locks_are_kept_until_a_commit_is_applied():
    async with two_nodes() as (_, a, b):
        released = held_back(a)
        await a.transact(ADD)
        here, there = a.begin(a.database.execute(ADD)), b.begin(b.database.execute(ADD))
        await asyncio.sleep(1)
        assert not any(each.done() for each in (here, there))
        released.set()
        commits = await asyncio.gather(here, there)
        newest = max(each.commit_ts for each in commits)
        assert await b.value(BALANCE, bookmark=newest) == 103


@in_virtual_time
async def test_a_transaction_waits_for_locks_of_one_that_is_logged_and_does_not_begin_again():
    async with two_nodes() as (_, a, _b):
        released = held_back(a)
        both = ("UPDATE account SET a_balance = 7 WHERE a_id = 2", ADD)
        await a.transact(ADD)
        retried = a.database.manager.retried
        second = a.begin(a.database.transact(request(*both)))
        await asyncio.sleep(1)
        assert not second.done()
        assert a.database.manager.retried == retried
        released.set()
        await second
        assert await a.value(BALANCE) == 102


@in_virtual_time
async def test_an_answered_transaction_is_reported_by_all_nodes():
    async with two_nodes() as (_, a, b):
        released = held_back(a)
        committed = await a.transact(ADD, idempotency_key="k", owner="me")
        number = committed.transaction_id
        assert number == transaction_id_for("k", "me")
        found = await a.do(a.database.outcome(number))
        assert found.commit_ts == committed.commit_ts
        assert await b.do(b.database.unfinished(number)) == "me"
        again = b.begin(b.database.transact(request(ADD, idempotency_key="k", owner="me")))
        await asyncio.sleep(1)
        assert not again.done()
        released.set()
        assert (await again).commit_ts == committed.commit_ts
        assert await b.do(b.database.unfinished(number)) is None


@in_virtual_time
async def test_a_commit_that_its_node_has_answered_and_not_applied_outlives_the_node():
    async with two_nodes() as (world, a, b):
        for dying, other in ((a, b), (b, None)):
            held_back(dying)
            committed = await dying.transact(ADD)
            dying.die()
            reader = other or await world.launch()
            await world.settled()
            before = 100 if dying is a else 101
            assert await reader.value(BALANCE, bookmark=committed.commit_ts) == before + 1
            total = "SELECT total FROM totals WHERE a_o_id = 1"
            assert await reader.value(total, bookmark=committed.commit_ts) == before + 1
            assert await reader.differences() == 0


@in_virtual_time
async def test_a_retired_node_reads_its_logged_commits_and_exports_none_of_them():
    async with two_nodes() as (_, a, _b):
        held_back(a)
        committed = await a.transact(ADD)
        assert await a.value(BALANCE, bookmark=committed.commit_ts) == 101
        a.database.ownership.retire()
        snapshots = a.database.ownership.snapshots
        assert snapshots.newest() < committed.commit_ts <= snapshots.newest(logged=True)
        assert await a.value(BALANCE) == 101
        with pytest.raises(Unavailable):
            await a.do(snapshots.read_point(committed.commit_ts))
