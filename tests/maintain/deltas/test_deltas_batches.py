"""A small batch needs no Spark: an embedded database refreshes and builds its deferred views."""

import asyncio
import random

import pytest

from hornbeam_server.maintain.deltas import batches
from hornbeam_server.maintain.deltas.batches import SmallBatch
from hornbeam_server.maintain.deltas.catalog_programs import programs_of
from hornbeam_server.maintain.deltas.program import refresh
from hornbeam_server.node.schema_plans import PlanRequest
from hornbeam_server.schema.catalog import State
from hornbeam_server.schema.codec import encode_catalog
from hornbeam_server.schema.errors import Corruption, SnapshotTooOld, SqlError, Unavailable
from hornbeam_server.storage.log.following import final_segment
from hornbeam_server.storage.snapshot import Snapshot
from hornbeam_server.storage.source import open_logs
from hornbeam_server.txlayer.views.refresh_groups import Finished
from tests.maintain.deltas.deltas_world import segment_bytes
from tests.txlayer.database_world import opened, until
from tests.txlayer.test_transactions_schema import hold_builds

DDL = """
CREATE TABLE shop (s_id INTEGER PRIMARY KEY, s_region TEXT);
CREATE TABLE sale (e_id INTEGER PRIMARY KEY, e_s_id INTEGER REFERENCES shop (s_id), e_value INTEGER,
    e_text TEXT);
CREATE INDEX sale_by_shop ON sale (e_s_id);
CREATE MATERIALIZED VIEW sums WITH (refresh = 'deferred') AS
    SELECT s_region, count(*) AS n, sum(e_value) AS total, max(e_value) AS high
    FROM sale JOIN shop ON e_s_id = s_id GROUP BY s_region;
CREATE MATERIALIZED VIEW empty WITH (refresh = 'deferred') AS
    SELECT s_id FROM shop WHERE NOT EXISTS (SELECT 1 FROM sale WHERE e_s_id = s_id);
CREATE MATERIALIZED VIEW again WITH (refresh = 'recompute') AS SELECT s_id FROM shop LIMIT 1;
"""
WITHOUT_KEYS = DDL.replace(" REFERENCES shop (s_id)", "")  # a foreign key has an index
SELECTS = {
    "sums": "SELECT s_region, count(*), sum(e_value), max(e_value)"
    " FROM sale JOIN shop ON e_s_id = s_id GROUP BY s_region",
    "empty": "SELECT s_id FROM shop WHERE NOT EXISTS (SELECT 1 FROM sale WHERE e_s_id = s_id)",
}


async def declared(db, ddl=DDL):
    request = PlanRequest(ddl, "")
    await db.apply_schema(request, db.plan_schema(request).plan_id)
    await db.keeper.wait_built()


async def begun(db):
    """The next batch, and the segments that it reads."""
    found = await db.begin_batch("default")
    work, logs = found.work, open_logs(found.changes.source)
    segments = await segment_bytes(logs, found.changes.segments)
    await logs.close()
    encoded, built = encode_catalog(work.catalog).decode(), frozenset(work.built)
    programs = programs_of(encoded, work.usable, built)
    return SmallBatch(programs, work.as_of, work.upto, work.refreshed, work.built), segments


async def written(db, batch, segments):
    """The number of changed rows, and the puts of each view."""
    changes, count = batch.changes(segments)
    return count, {name: writes async for name, writes in batch.writes(changes, db.store)}


async def refreshed(db):
    batch, segments = await begun(db)
    count, puts = await written(db, batch, segments)
    for writes in puts.values():
        await db.put(writes, batch.upto)
    await db.deferred.finish("default", batch.upto, Finished(count))
    return batch, count, puts


async def check(db, upto):
    for name, select in SELECTS.items():
        async with db.query(f"SELECT * FROM {name}") as result:
            assert result.snapshot == upto
            rows = sorted(map(repr, await result.stream.all()))
        assert rows == sorted(map(repr, await db.fetch(select, snapshot=upto))), name


async def write(db, draw):
    number, shop = draw.randrange(30), draw.randrange(5)
    statement = draw.choice(
        [
            f"INSERT INTO sale VALUES ({number}, {shop}, {draw.randrange(9)}, 'x')",
            f"DELETE FROM sale WHERE e_id = {number}",
            f"UPDATE sale SET e_s_id = {shop}, e_value = NULL WHERE e_id = {number}",
            f"UPDATE shop SET s_region = 'r{draw.randrange(3)}' WHERE s_id = {shop}",
        ]
    )
    if "INSERT" in statement and await db.fetch(f"SELECT 1 FROM sale WHERE e_id = {number}"):
        return
    await db.execute(statement)


async def test_batches_follow_one_another_and_a_new_view_is_built_beside(tmp_path):
    draw = random.Random(7)
    async with opened(tmp_path) as db:
        await declared(db)
        await db.load("shop", ["s_id", "s_region"], [(n, f"r{n % 3}") for n in range(5)])
        batch, count, puts = await refreshed(db)
        assert (batch.refreshed, set(batch.built)) == ((), {"sums", "empty", "again"})
        assert (count, set(puts), set(batch.views)) == (0, set(SELECTS), set(SELECTS))
        await check(db, batch.upto)
        for turn in range(6):
            for _ in range(20):
                await write(db, draw)
            if turn == 3:
                await db.deferred.rebuild(["sums"])
            batch, count, _ = await refreshed(db)
            assert count
            assert batch.built == (("sums",) if turn == 3 else ())
            await check(db, batch.upto)
        await asyncio.sleep(0.002)
        batch, count, puts = await refreshed(db)
        assert (count, puts) == (0, {})
        await check(db, batch.upto)


async def test_the_views_of_a_batch_read_a_row_once(tmp_path, monkeypatch):
    ddl = (
        DDL
        + """CREATE MATERIALIZED VIEW counts WITH (refresh = 'deferred') AS
        SELECT s_region, e_text, count(*) AS n FROM sale JOIN shop ON e_s_id = s_id
        GROUP BY s_region, e_text;"""
    )
    read = []
    get = Snapshot.get

    async def noted(reader, layout, keys, *, room=None):
        read.extend((layout, key) for key in keys)
        return await get(reader, layout, keys, room=room)

    async with opened(tmp_path) as db:
        await declared(db, ddl)
        await db.load("shop", ["s_id", "s_region"], [(n, f"r{n % 3}") for n in range(5)])
        await refreshed(db)
        for number in range(4):
            await db.execute(f"INSERT INTO sale VALUES ({number}, {number % 2}, 1, 'x')")
        batch, segments = await begun(db)
        monkeypatch.setattr(Snapshot, "get", noted)
        await written(db, batch, segments)
    assert sorted(key for layout, key in read if layout == "shop") == [(0,), (1,)]


async def test_a_view_whose_relations_are_unchanged_is_not_computed(tmp_path, monkeypatch):
    ddl = (
        DDL
        + """CREATE MATERIALIZED VIEW regions WITH (refresh = 'deferred') AS
        SELECT s_region, count(*) AS n FROM shop GROUP BY s_region;"""
    )
    computed = []

    async def noted(program, *given):
        computed.append(program.name)
        return await refresh(program, *given)

    async with opened(tmp_path) as db:
        await declared(db, ddl)
        await db.load("shop", ["s_id", "s_region"], [(n, f"r{n % 3}") for n in range(5)])
        await refreshed(db)
        await db.execute("INSERT INTO sale VALUES (1, 1, 1, 'x')")
        batch, segments = await begun(db)
        monkeypatch.setattr(batches, "refresh", noted)
        count, puts = await written(db, batch, segments)
    assert (count, sorted(computed)) == (1, ["empty", "sums"])
    assert sorted(puts) == ["empty", "regions", "sums"]
    assert puts["regions"] == {}


async def test_a_batch_that_is_run_again_yields_the_same_puts_whatever_was_written_since(tmp_path):
    draw = random.Random(3)
    async with opened(tmp_path) as db:
        await declared(db)
        await db.load("shop", ["s_id", "s_region"], [(n, f"r{n % 3}") for n in range(5)])
        await refreshed(db)
        for _ in range(30):
            await write(db, draw)
        batch, segments = await begun(db)
        first = await written(db, batch, segments)
        await db.put(first[1]["sums"], batch.upto)  # a driver that dies before it puts the rest
        for _ in range(30):
            await write(db, draw)
        again, more = await begun(db)
        assert (again.as_of, again.upto, again.refreshed) == (
            batch.as_of, batch.upto, batch.refreshed,
        )  # fmt: skip
        assert await written(db, again, more) == first
        await refreshed(db)
        await check(db, batch.upto)


async def test_errors_of_rows_and_of_the_log_say_where(tmp_path):
    ddl = DDL + (
        "CREATE MATERIALIZED VIEW cast_ WITH (refresh = 'deferred') AS"
        " SELECT e_id, CAST(e_text AS INTEGER) AS number FROM sale;"
    )
    async with opened(tmp_path) as db:
        await declared(db, ddl)
        await db.load("shop", ["s_id", "s_region"], [(1, "r")])
        await refreshed(db)
        await db.execute("INSERT INTO sale VALUES (1, 1, 1, 'no number')")
        with pytest.raises(SqlError, match="View cast_ cannot be refreshed, nor the others"):
            await refreshed(db)
        found = await db.begin_batch("default")
        (segment, *_) = found.changes.segments
        logs = open_logs(found.changes.source)
        place = (segment.log, segment.epoch, segment.sequence)
        with pytest.raises(Corruption, match=r"has \d+ bytes; it had 1\."):
            await final_segment(logs, *place, 1)
        with pytest.raises(SnapshotTooOld, match="is not kept any more"):
            await final_segment(logs, segment.log, segment.epoch, segment.sequence + 99, 1)
        await logs.close()


async def test_a_new_view_waits_for_the_indexes_that_are_being_built(tmp_path):
    """The batches after its first look rows up in them, as of the end of the first."""
    tables = WITHOUT_KEYS.partition("CREATE INDEX")[0]
    async with opened(tmp_path) as db:
        await declared(db, tables)
        await db.load("shop", ["s_id", "s_region"], [(n, f"r{n % 3}") for n in range(5)])
        await db.load("sale", ["e_id", "e_s_id"], [(n, n % 5) for n in range(2_000)])
        held = hold_builds(db)
        request = PlanRequest(WITHOUT_KEYS, "")
        await db.apply_schema(request, db.plan_schema(request).plan_id)
        await until(lambda: held.waiting > 0)
        batch, _, _ = await refreshed(db)
        assert batch.built == ("again",)  # its relation has no such index
        assert db.catalog.state["sums"] is State.BUILDING
        held.go.set()
        await db.keeper.wait_built()
        batch, _, _ = await refreshed(db)
        assert set(batch.built) >= set(SELECTS)
        await check(db, batch.upto)
        await db.execute("UPDATE sale SET e_s_id = 1 WHERE e_id = 2")
        batch, count, _ = await refreshed(db)
        assert (count, batch.built) == (1, ())
        await check(db, batch.upto)


async def test_a_group_of_views_that_all_wait_has_no_batch(tmp_path):
    tables = WITHOUT_KEYS.partition("CREATE INDEX")[0]
    views = WITHOUT_KEYS.partition("CREATE MATERIALIZED VIEW again")[0]
    async with opened(tmp_path) as db:
        await declared(db, tables)
        await db.load("sale", ["e_id"], [(n,) for n in range(2_000)])
        held = hold_builds(db)
        request = PlanRequest(views, "")
        await db.apply_schema(request, db.plan_schema(request).plan_id)
        await until(lambda: held.waiting > 0)
        with pytest.raises(Unavailable, match="sums, empty cannot be built before sale_by_shop"):
            await db.begin_batch("default")
        held.go.set()
        await db.keeper.wait_built()
        batch, _, _ = await refreshed(db)
        await check(db, batch.upto)
