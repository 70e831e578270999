"""Processes that were replaced and do not know it: one test for each violation that was found."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from hornbeam_server.schema.catalog import Index, Purpose, State
from hornbeam_server.schema.errors import InvalidRequest, Unavailable, UniqueViolation
from hornbeam_server.schema.model import DeclaredIndex, KeyPart
from hornbeam_server.storage.simulated.chaos import Chaos, Profile
from hornbeam_server.storage.simulated.coordination import SESSION_S
from hornbeam_server.txlayer.commit.failpoints import Step, no_steps
from hornbeam_server.txlayer.statements.requests import Statement, TransactionRequest
from tests.sim.simulated_cluster import Cluster
from tests.sim.simulation import require_nothing_stuck
from tests.sim.stories import opened, run
from tests.sim.workload_bank import SCHEMA
from tests.txlayer.database_world import catalog_of
from tests.virtual_time import in_virtual_time

INSERT = "INSERT INTO account VALUES (?, ?)"
BY_BALANCE = DeclaredIndex("by_balance", "account", (KeyPart("a_balance"),), (), False)


@asynccontextmanager
async def one_owner(**options):
    """(node that serves accounts, cluster)."""
    cluster = Cluster(asyncio.get_running_loop(), Chaos(1, Profile()), **options)
    try:
        await cluster.start()
        (owner,) = cluster.nodes
        await run(owner, opened(owner.database))
        await run(owner, owner.database.committer.drain())  # commits are answered before
        yield owner, cluster
    finally:
        await cluster.stop()


@asynccontextmanager
async def two_owners(*, skew_ms=0):
    """(zombie that has just thawed, its successor, cluster). The successor's clock is off by
    `skew_ms`."""
    async with one_owner() as (first, cluster):
        first.process.freeze()
        await asyncio.sleep(SESSION_S + 2)
        second = cluster.nodes[-1]
        assert second is not first
        second.clock.skew_ms = skew_ms
        first.process.thaw()
        yield first, second, cluster


@in_virtual_time
async def test_a_zombie_commits_nothing():
    async with two_owners() as (zombie, owner, _):
        with pytest.raises(Unavailable):
            await run(zombie, zombie.database.execute(INSERT, (7, 7)))
        assert not zombie.database.ready()
        await run(owner, owner.database.execute(INSERT, (8, 8)))
        rows = await run(owner, owner.database.fetch("SELECT a_id FROM account"))
        assert sorted(rows) == [(0,), (1,), (2,), (8,)]


@in_virtual_time
async def test_a_watermark_that_stands_still_is_found():
    """A timestamp that is never released holds the watermark back."""
    async with one_owner() as (owner, cluster):
        await require_nothing_stuck(cluster)
        held = owner.database.committer.held()
        await run(owner, held.__aenter__())
        with pytest.raises(AssertionError, match="stands still"):
            await require_nothing_stuck(cluster)


@in_virtual_time
async def test_a_zombie_refuses_nothing_for_good_and_answers_no_read_of_the_newest():
    async with two_owners() as (zombie, owner, _):
        await run(owner, owner.database.execute("DELETE FROM account WHERE a_id = 1"))
        requests = (
            "INSERT INTO account VALUES (2, 0)",  # the zombie still has this row
            "UPDATE account SET a_balance = 0 WHERE a_id = 1",  # changes nothing
            "INSERT INTO page VALUES (1, 0, 0, 0)",  # has no parent
        )
        for sql in requests:
            with pytest.raises(Unavailable):
                await run(zombie, zombie.database.execute(sql))
        with pytest.raises(Unavailable):
            await run(zombie, zombie.database.fetch("SELECT * FROM account"))
        with pytest.raises(UniqueViolation):
            await run(owner, owner.database.execute(requests[0]))


@pytest.mark.parametrize("skew_ms", [-3_600_000, -400, 0, 400])
@in_virtual_time
async def test_a_snapshot_keeps_its_rows_after_a_take_over(skew_ms):
    async with two_owners(skew_ms=skew_ms) as (zombie, owner, _):
        at, sql = zombie.database.watermark(), "SELECT a_id, a_balance FROM account"
        before = await run(zombie, zombie.database.fetch(sql, snapshot=at))
        await run(owner, owner.database.execute("UPDATE account SET a_balance = 0 WHERE a_id < 3"))
        again = await run(zombie, zombie.database.fetch(sql, snapshot=at))
        assert sorted(again) == sorted(before) == [(0, 100), (1, 100), (2, 100)]


@in_virtual_time
async def test_a_zombie_does_not_accept_bookmarks_or_snapshots_of_its_successor():
    async with two_owners() as (zombie, owner, _):
        done = await run(owner, owner.database.execute(INSERT, (9, 9)))
        sql = "SELECT count(*) FROM account"
        for ahead in (0, 10_000):  # slightly later than its own clock, and much later
            bookmark = done.commit_ts + ahead
            with pytest.raises(Unavailable):
                await run(zombie, zombie.database.fetch(sql, bookmark=bookmark))
            with pytest.raises(Unavailable):
                await run(zombie, zombie.database.fetch(sql, snapshot=bookmark))
        assert await run(owner, owner.database.fetch(sql, bookmark=done.commit_ts)) == [(4,)]
        with pytest.raises(InvalidRequest):
            await run(owner, owner.database.fetch(sql, bookmark=done.commit_ts + 10_000))
        with pytest.raises(InvalidRequest):
            await run(owner, owner.database.fetch(sql, snapshot=done.commit_ts + 10_000))


@in_virtual_time
async def test_a_zombie_reports_no_corruption_for_a_view_that_its_successor_dropped():
    async with one_owner(scan_rows=1) as (zombie, cluster):
        pages = [(n, 0, 0, 0) for n in range(3)]
        columns = ["p_a_id", "p_no", "p_amount", "p_entries"]
        await run(zombie, zombie.database.load("page", columns, pages))
        chunk, brought = cluster.tables.chunk, []

        def one_row(*which):
            brought.append(which)
            if len(brought) == 2:  # it has read a part of the rows
                zombie.process.freeze()
            return chunk(*which)

        cluster.tables.chunk = one_row
        sql = "SELECT a_balance, p_amount FROM account, page WHERE a_id = p_a_id"
        reading = run(zombie, zombie.database.fetch(sql))
        await asyncio.sleep(SESSION_S + 2)
        owner = cluster.nodes[-1]
        without = catalog_of(SCHEMA, views=[], base=owner.database.catalog)
        await run(owner, owner.database.keeper.apply(without))
        await run(owner, owner.database.keeper.wait_built())
        zombie.process.thaw()
        with pytest.raises(Unavailable):
            await reading


@in_virtual_time
async def test_a_zombie_puts_no_catalog_into_force():
    """The zombie has checked that balances are unique, and freezes before it writes the new
    version."""
    async with one_owner() as (zombie, cluster):
        await run(zombie, zombie.database.execute("DELETE FROM account WHERE a_id > 0"))
        cluster.steps = lambda step: step == Step.ADMITTED and zombie.process.freeze()
        changing = run(zombie, zombie.database.keeper.apply(_unique(zombie.database.catalog)))
        await asyncio.sleep(SESSION_S + 2)
        assert zombie.process.frozen
        owner = cluster.nodes[-1]
        await run(owner, owner.database.execute(INSERT, (7, 100)))
        zombie.process.thaw()
        with pytest.raises(Unavailable):
            await changing
        owner.process.crash()
        await asyncio.sleep(SESSION_S)
        last = await cluster.owner()
        assert "by_balance" not in last.catalog
        rows = await cluster.nodes[-1].process.start(last.fetch("SELECT a_id FROM account"))
        assert sorted(rows) == [(0,), (7,)]
        await cluster.nodes[-1].process.start(last.execute(INSERT, (8, 100)))


@in_virtual_time
async def test_a_zombie_reports_no_corruption_for_tables_that_its_successor_dropped():
    async with one_owner(scan_rows=1) as (zombie, cluster):
        await run(
            zombie,
            zombie.database.execute("UPDATE account SET a_balance = a_id WHERE a_id < 3"),
        )
        cluster.steps = lambda step: step == Step.BUILDING and zombie.process.freeze()
        changing = run(zombie, zombie.database.keeper.apply(_unique(zombie.database.catalog)))
        await asyncio.sleep(SESSION_S + 2)
        assert zombie.process.frozen
        cluster.steps = no_steps
        zombie.process.thaw()
        with pytest.raises(Unavailable):
            await changing


@in_virtual_time
async def test_a_zombie_does_not_restore_rows_that_its_successor_purged():
    """The zombie freezes while it builds an index. Its successor builds it too, and later purges a
    row together with the tombstone that hides it."""
    async with one_owner(snapshot_retention_s=2.0) as (zombie, cluster):
        chunk = cluster.tables.chunk

        def frozen_while_it_scans(*which):
            zombie.process.freeze()
            return chunk(*which)

        cluster.steps = lambda step: (
            step == Step.SWITCHED and setattr(cluster.tables, "chunk", frozen_while_it_scans)
        )
        wanted = catalog_of(
            replace(SCHEMA, indexes=(BY_BALANCE,)), views=[], base=zombie.database.catalog
        )
        await run(zombie, zombie.database.keeper.apply(wanted))
        await asyncio.sleep(0.1)
        assert zombie.process.frozen
        cluster.steps, cluster.tables.chunk = no_steps, chunk
        await asyncio.sleep(SESSION_S + 2)
        owner = cluster.nodes[-1]
        await run(owner, owner.database.keeper.wait_built())
        await run(owner, owner.database.execute("DELETE FROM account WHERE a_id = 1"))
        await asyncio.sleep(5)
        assert "by_balance" in owner.database.catalog.index
        zombie.process.thaw()
        await asyncio.sleep(1)
        sql = "SELECT a_id FROM account WHERE a_balance = 100"
        assert BY_BALANCE.name in owner.database.prepare(sql).served_by
        assert sorted(await run(owner, owner.database.fetch(sql))) == [(0,), (2,)]


def _unique(catalog):
    index = Index("by_balance", "account", (KeyPart("a_balance"),), unique=True,
                  purpose=Purpose.DECLARED)  # fmt: skip
    return replace(
        catalog,
        version=catalog.version + 1,
        indexes=(*catalog.indexes, index),
        states=(*catalog.states, (index.name, State.BUILDING)),
    )


@in_virtual_time
async def test_a_key_sent_ten_times_and_again_after_a_take_over_has_one_effect():
    async with one_owner() as (first, cluster):
        move = Statement("UPDATE account SET a_balance = a_balance + 1 WHERE a_id = 0")
        request = TransactionRequest((move,), idempotency_key="once")
        answers = [run(first, first.database.transact(request)) for _ in range(10)]
        await asyncio.sleep(0.001)
        first.process.crash_after(40)
        await asyncio.sleep(SESSION_S)
        last = await cluster.owner()
        again = await asyncio.gather(
            *[cluster.nodes[-1].process.start(last.transact(request)) for _ in range(10)]
        )
        reported = {task.result().commit_ts for task in answers if task.done()}
        assert reported | {answer.commit_ts for answer in again} == {again[0].commit_ts}
        sql = "SELECT a_balance FROM account WHERE a_id = 0"
        assert await cluster.nodes[-1].process.start(last.fetch(sql)) == [(101,)]
