"""Deferred views at a node: which batch a query reads, and which versions a purge keeps. These
tests write batches by hand; `tests/pipeline` runs them with Spark."""

import asyncio
from dataclasses import replace

import pytest

from hornbeam_server.maintain.deltas.program import compile_view
from hornbeam_server.schema.catalog import State
from hornbeam_server.schema.errors import (
    NotFound,
    SnapshotTooOld,
    StalePlan,
    Unavailable,
    Unsupported,
)
from hornbeam_server.schema.model import Column, DeclaredView, KeyPart
from hornbeam_server.schema.types import ColumnType, Kind
from hornbeam_server.schema.views import DeferredView, StateLayout
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.storage.local.system import SystemClock
from hornbeam_server.storage.ports import TOMBSTONE, Put
from hornbeam_server.storage.snapshot import Snapshot
from hornbeam_server.txlayer.statements.requests import Statement
from hornbeam_server.txlayer.views.refresh_groups import Finished
from tests.txlayer.database_world import on_shop

HOUR_S = 3_600


class JumpingClock(SystemClock):
    """A clock that a test can set ahead."""

    def __init__(self):
        self.ahead_s = 0

    def wall_ms(self):
        return super().wall_ms() + self.ahead_s * 1000


TEXT, BIGINT = ColumnType(Kind.TEXT), ColumnType(Kind.BIGINT)
DONE = Finished(1, 1, 0.1)


def view(name, group="default"):
    """Return the declaration of a view that counts customers by name."""
    columns = (Column("name", TEXT), Column("n", BIGINT))
    sums = StateLayout("sums", columns, (KeyPart("name"),))
    declared = DeclaredView(name, "SELECT 1", group=group)
    hidden = (Column("_copy", BIGINT),)
    return DeferredView(
        declared, ("customer",), columns, hidden, (KeyPart("name"), KeyPart("_copy")), (sums,)
    )


async def declare(db, *views):
    async def added(current):
        building = ((one.name, State.BUILDING) for one in views)
        return replace(
            current,
            version=current.version + 1,
            deferred=(*current.deferred, *views),
            states=(*current.states, *building),
        )

    await db.keeper.change(added)
    await db.keeper.wait_built()


async def put(db, upto, name, **counted):
    """Write a count for each name at timestamp `upto`; None writes a tombstone."""
    codec = Codecs(db.catalog)(name)
    puts = []
    for text, n in counted.items():
        key = codec.key((text, n, 1))
        puts.append(Put(key, TOMBSTONE if n is None else codec.encode((text, n, 1))))
    await db.put({codec.layout.table: puts}, upto)


async def batch(db, group="default", **views):
    """The rows that differ, by view."""
    work = await db.deferred.begin(group, db.snapshot_after)
    for name, counted in views.items():
        await put(db, work.upto, name, **counted)
    await db.deferred.finish(group, work.upto, DONE)
    return work


async def customers(db, *names):
    for name in names:
        number = db.watermark() % 1_000_000_000
        await db.execute("INSERT INTO customer (c_id, c_name) VALUES (?, ?)", (number, name))
        await asyncio.sleep(0.002)  # the next customer gets another key and timestamp


async def test_a_view_is_read_as_of_the_last_finished_batch(tmp_path):
    async with on_shop(tmp_path) as db:
        await declare(db, view("byname"))
        with pytest.raises(Exception, match="cannot be read: it is building"):
            await db.fetch("SELECT * FROM byname")
        await customers(db, "ann")
        first = await batch(db, byname={"ann": 1})
        assert (first.refreshed, first.built) == ((), ("byname",))
        assert db.catalog.readable("byname")

        await customers(db, "ann", "bob")
        work = await db.deferred.begin("default", db.snapshot_after)
        assert (work.refreshed, work.built) == (("byname",), ())
        assert work.as_of == first.upto < work.upto
        await put(db, work.upto, "byname", ann=2)
        assert await db.fetch("SELECT * FROM byname") == [("ann", 1)]  # half of a batch
        again = await db.deferred.begin("default", db.snapshot_after)
        assert again == work
        await put(db, work.upto, "byname", ann=2, bob=1)
        await db.deferred.finish("default", work.upto, DONE)
        assert sorted(await db.fetch("SELECT * FROM byname")) == [("ann", 2), ("bob", 1)]
        async with db.query("SELECT count(*), sum(n) FROM byname v") as result:
            assert await result.stream.all() == [(2, 3)]
            assert result.snapshot == work.upto
        with pytest.raises(StalePlan):
            await db.deferred.finish("default", work.upto + 1, DONE)


async def test_relations_beside_a_view_are_read_at_its_snapshot(tmp_path):
    both = "SELECT n, (SELECT count(*) FROM customer) FROM byname"
    async with on_shop(tmp_path) as db:
        await declare(db, view("byname"))
        await customers(db, "ann")
        first = await batch(db, byname={"ann": 1})
        await customers(db, "ann")
        assert await db.fetch(both) == [(1, 1)]
        assert await db.fetch("SELECT count(*) FROM customer") == [(2,)]
        await batch(db, byname={"ann": 2})
        assert await db.fetch(both) == [(2, 2)]
        assert await db.fetch(both, snapshot=first.upto) == [(1, 1)]
        between = first.upto + 1
        with pytest.raises(Unsupported, match="cannot be read as of snapshot"):
            await db.fetch(both, snapshot=between)


async def test_unsupported_reads_of_a_deferred_view_are_refused(tmp_path):
    async with on_shop(tmp_path) as db:
        await declare(db, view("byname"), view("other", group="slow"))
        await batch(db)
        await batch(db, "slow")
        with pytest.raises(Unsupported, match="several groups"):
            await db.fetch("SELECT * FROM byname, other")
        with pytest.raises(Unsupported, match="what is strong"):
            await db.fetch("SELECT * FROM byname", strong=True)
        pending = [Statement("INSERT INTO customer (c_id, c_name) VALUES (1, 'x')", ())]
        with pytest.raises(Unsupported, match="what this transaction writes"):
            await db.fetch("SELECT * FROM byname", pending=pending)
        with pytest.raises(Unavailable, match="older than 0 s"):
            await db.fetch("SELECT * FROM byname", max_staleness_s=0)
        assert await db.fetch("SELECT * FROM byname", max_staleness_s=60) == []
        with pytest.raises(Unsupported, match="byname is a view"):
            await db.execute("DELETE FROM byname")
        with pytest.raises(NotFound, match="no group fast"):
            await db.deferred.begin("fast", db.snapshot_after)


async def test_hidden_columns_are_not_visible(tmp_path):
    async with on_shop(tmp_path) as db:
        await declare(db, view("byname"))
        await batch(db, byname={"ann": 1})
        for sql in (
            "SELECT * FROM byname",
            "SELECT v.* FROM byname v ORDER BY n",
            "SELECT DISTINCT * FROM byname",
            "SELECT * FROM (SELECT * FROM byname) AS t",
            "FROM byname",
        ):
            assert await db.fetch(sql) == [("ann", 1)], sql
        with pytest.raises(Exception, match="_copy"):
            await db.fetch("SELECT _copy FROM byname")
        with pytest.raises(Exception, match="sums"):
            await db.fetch('SELECT * FROM "byname.sums"')


async def test_a_new_or_rebuilt_view_is_built_beside_the_others(tmp_path):
    async with on_shop(tmp_path) as db:
        await declare(db, view("byname"))
        first = await batch(db, byname={"ann": 1})
        await declare(db, view("second"))
        work = await batch(db, byname={"ann": 2}, second={"ann": 2})
        assert (work.refreshed, work.built) == (("byname",), ("second",))
        with pytest.raises((Unsupported, SnapshotTooOld)):
            await db.fetch("SELECT * FROM second", snapshot=first.upto)

        table = db.catalog.layout("byname").table
        await db.deferred.rebuild(["byname"])
        await db.keeper.wait_built()
        assert db.catalog.layout("byname").table != table
        assert table not in await db.store.tables()
        with pytest.raises(Exception, match="cannot be read: it is building"):
            await db.fetch("SELECT * FROM byname")
        work = await batch(db, byname={"bob": 1})
        assert (work.refreshed, work.built) == (("second",), ("byname",))
        assert await db.fetch("SELECT * FROM byname") == [("bob", 1)]
        assert await db.fetch("SELECT * FROM second") == [("ann", 2)]


async def test_a_view_that_is_rebuilt_during_a_batch_is_built_by_the_next(tmp_path):
    async with on_shop(tmp_path) as db:
        await declare(db, view("byname"))
        await batch(db, byname={"ann": 1})
        work = await db.deferred.begin("default", db.snapshot_after)
        await db.deferred.rebuild(["byname"])
        again = await db.deferred.begin("default", db.snapshot_after)
        assert again.upto == work.upto
        assert (again.refreshed, again.built) == ((), ())
        await db.deferred.finish("default", work.upto, DONE)
        assert not db.catalog.readable("byname")
        after = await batch(db, byname={"bob": 1})
        assert (after.refreshed, after.built) == ((), ("byname",))
        assert await db.fetch("SELECT * FROM byname") == [("bob", 1)]


async def test_a_purge_keeps_the_versions_that_batches_and_readers_need(tmp_path):
    clock = JumpingClock()
    async with on_shop(tmp_path, clock=clock) as db:
        await declare(db, view("byname"))
        await customers(db, "ann")
        work = await batch(db, byname={"ann": 1})
        as_of = work.upto
        work = await db.deferred.begin("default", db.snapshot_after)
        await put(db, work.upto, "byname", ann=None, bob=1)
        await db.execute("DELETE FROM customer WHERE c_name = 'ann'")
        clock.ahead_s = 2 * HOUR_S  # every version is older than the retention now
        await customers(db, "eve")
        await db.purge()
        assert await db.deferred.held() == [as_of, work.upto - 1]
        assert await db.fetch("SELECT * FROM byname") == [("ann", 1)]
        assert await db.fetch("SELECT n, c_name FROM byname, customer") == [(1, "ann")]
        with pytest.raises(SnapshotTooOld):
            await put(db, as_of, "byname", late=1)
        await put(db, work.upto, "byname", ann=None, bob=1)
        await db.deferred.finish("default", work.upto, DONE)
        assert await db.fetch("SELECT * FROM byname") == [("bob", 1)]


async def test_versions_for_a_stale_group_expire(tmp_path):
    clock = JumpingClock()
    async with on_shop(tmp_path, clock=clock) as db:
        await declare(db, view("byname"))
        await batch(db, byname={"ann": 1})
        clock.ahead_s = 24 * HOUR_S + 60
        assert len(await db.deferred.held()) == 1  # a batch may have begun a minute ago
        clock.ahead_s = 26 * HOUR_S
        assert await db.deferred.held() == []
        with pytest.raises(SnapshotTooOld, match="was not refreshed for"):
            await db.fetch("SELECT * FROM byname")
        with pytest.raises(SnapshotTooOld, match="Rebuild its views"):
            await db.deferred.begin("default", db.snapshot_after)
        await db.deferred.rebuild(["byname"])
        assert (await batch(db, byname={"bob": 1})).built == ("byname",)
        assert await db.fetch("SELECT * FROM byname") == [("bob", 1)]


async def test_a_batch_that_only_builds_may_be_done_long_after_it_began(tmp_path):
    """The first batch of a group, and the first after all it had has expired."""
    clock = JumpingClock()
    async with on_shop(tmp_path, clock=clock) as db:
        await declare(db, view("byname"))
        for expired_s in (0, 26 * HOUR_S):
            clock.ahead_s += expired_s
            if expired_s:
                await db.deferred.rebuild(["byname"])
            await customers(db, "ann")
            work = await db.deferred.begin("default", db.snapshot_after)
            await db.execute("DELETE FROM customer")
            clock.ahead_s += 2 * HOUR_S  # every version is older than the retention now
            await customers(db, "eve")
            await db.purge()
            assert await db.deferred.held() == [work.upto - 1]
            reader = Snapshot(db.store, Codecs(db.catalog), work.upto)
            assert [row[1] async for batch in reader.scan("customer") for row in batch] == ["ann"]
            await put(db, work.upto, "byname", ann=1)
            await db.deferred.finish("default", work.upto, DONE)
            assert await db.fetch("SELECT * FROM byname") == [("ann", 1)]
            await db.execute("DELETE FROM customer")


async def test_a_late_report_of_a_batch_does_not_end_the_next_one(tmp_path):
    """Nothing is committed, so the newest snapshot stays where it is."""
    async with on_shop(tmp_path) as db:
        await declare(db, view("byname"))
        first = await batch(db, byname={"ann": 1})
        await db.deferred.rebuild(["byname"])
        second = await db.deferred.begin("default", db.snapshot_after)
        assert second.built == ("byname",)
        assert second.upto > first.upto
        await db.deferred.finish("default", first.upto, DONE)
        with pytest.raises(Exception, match="cannot be read: it is building"):
            await db.fetch("SELECT * FROM byname")
        assert (await batch(db, byname={"ann": 1})).upto == second.upto
        assert await db.fetch("SELECT * FROM byname") == [("ann", 1)]


async def test_verify_finds_wrong_rows_of_a_deferred_view(tmp_path):
    """The batches here write rows by hand, which need not equal the result of the view's SELECT."""
    sql = "SELECT c_name AS name, count(*) AS n FROM customer GROUP BY c_name"
    async with on_shop(tmp_path) as db:
        declared = DeclaredView("byname", sql)
        program = compile_view(declared, db.catalog)
        kept = (program.relations, program.columns, program.hidden, program.key, program.states)
        await declare(db, DeferredView(declared, *kept))
        await customers(db, "ann", "ann", "bob")
        codec = Codecs(db.catalog)("byname")

        async def make(*rows):
            work = await db.deferred.begin("default", db.snapshot_after)
            puts = [Put(codec.key(row), codec.encode(row)) for row in rows]
            await db.put({codec.layout.table: puts}, work.upto)
            await db.deferred.finish("default", work.upto, DONE)

        async def found(*names):
            report = await db.verify(names or None)
            ((missing, extra),) = [
                (item.missing, item.extra) for item in report.checked if item.name == "byname"
            ]
            return missing, extra

        with pytest.raises(NotFound, match="no readable deferred view byname"):
            await db.verify(["byname"])
        await make(("ann", 2), ("bob", 1))
        assert await found() == await found("byname") == (0, 0)
        await customers(db, "eve")
        assert await found() == (0, 0)  # verified at the view's snapshot, before eve
        await make(("ann", 1))
        assert await found("byname") == (2, 1)  # eve's row is missing, and ann's count differs
        await make(("ann", 2), ("eve", 1), ("zoe", 3))
        assert await found("byname", "customer__orders") == (0, 1)
