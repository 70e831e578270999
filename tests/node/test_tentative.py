"""Tentative reads of live and deferred views."""

import asyncio
import re
from collections import Counter

import pytest

from hornbeam_server.api.rest.metrics import Metrics
from hornbeam_server.node.live import tentative as tentative_reads
from hornbeam_server.node.live.ahead import Tentative
from hornbeam_server.node.live.computation import Computation
from hornbeam_server.schema.errors import SnapshotTooOld, Unavailable, Unsupported
from hornbeam_server.schema.sizes import Limit
from hornbeam_server.storage.ports import NEWEST
from hornbeam_server.txlayer.views.refresh_groups import Finished
from tests.node.live_world import apply, fill, opened, order, state_of, until, view

STILL = {"interval": "1 h"}
LIVE = {"resident_refresh": True}
NOTES = "SELECT o_c_id, string_agg(o_note, ',' ORDER BY o_id) AS notes FROM orders GROUP BY o_c_id"
LARGE = "SELECT o_id FROM orders WHERE o_total > (SELECT min(c_id) * 99 FROM customer)"
SMALL = "SELECT o_id, CAST(o_note AS INTEGER) AS number FROM orders"
ALL = "SELECT * FROM totals"


async def settled(db, *groups):
    """Let groups have no batch to do before the next commit."""
    for group in groups or ("live",):

        async def follows(group=group):
            return (await db.live.refresh(group)).catalog_version == db.catalog.version

        await until(follows)
        assert await db.keeper.wait_built() is None


async def tentative(db, sql=ALL, **options):
    """The rows of a tentative query, its snapshot, and its label."""
    async with db.query(sql, tentative=True, **options) as result:
        return await result.stream.all(), result.snapshot, result.tentative


async def require_tentative(db, name="totals"):
    """Check that a view, read tentatively, has the rows of its SELECT at that snapshot."""
    rows, at, label = await tentative(db, f"SELECT * FROM {name}")
    select = db.catalog.deferred_view[name].declared.sql
    assert label.reason == ""
    assert Counter(rows) == Counter(await db.fetch(select, snapshot=at, use_views=False))
    return rows, at, label.as_of


async def stored(db):
    """All that is stored: cells with their timestamps, and the states of the groups."""
    cells = [
        (table, cell)
        for table in await db.store.tables()
        async for batch in db.store.scan(table, b"", None, NEWEST)
        for cell in batch
    ]
    return cells, [status.state for status in await db.deferred.status()]


async def test_a_tentative_answer_has_what_is_committed_since_the_last_batch(tmp_path):
    async with opened(tmp_path, view(**STILL), **LIVE) as db:
        await fill(db)
        await settled(db)
        before = await state_of(db)
        assert ("c1", 3, 12) in await db.fetch(ALL)
        ts = await order(db, 100, 1, 7)
        rows, at, as_of = await require_tentative(db)
        assert ("c1", 4, 19) in rows
        assert as_of == before.as_of < ts <= at
        await db.execute("UPDATE customer SET c_name = 'c9' WHERE c_id = 0")
        await db.execute("DELETE FROM orders WHERE o_id = 1")
        everything = await stored(db)
        rows, _, _ = await require_tentative(db)
        assert {row[0] for row in rows} == {"c0", "c1", "c9"}
        assert await stored(db) == everything
        assert ("c1", 3, 12) in await db.fetch(ALL)
        await db.live.refresh("live")
        assert Counter(await db.fetch(ALL)) == Counter(rows)


async def test_readers_share_a_computation_until_the_next_commit(tmp_path, monkeypatch):
    begun = []
    of = Computation.of

    async def counted(self, work, *more):
        begun.append(work.upto)
        return await of(self, work, *more)

    async with opened(tmp_path, view(**STILL), **LIVE) as db:
        await fill(db)
        await settled(db)
        monkeypatch.setattr(Computation, "of", counted)
        for number in range(100, 103):
            ts = await order(db, number, 1, 7)
            answers = await asyncio.gather(*(tentative(db) for _ in range(20)))
            assert {at for _, at, _ in answers} == {begun[-1]}
            assert begun[-1] >= ts
            group = ("c1", number - 96, 12 + 7 * (number - 99))
            assert all(group in rows for rows, _, _ in answers)
        assert len(begun) == 3


async def test_rows_of_an_unfinished_batch_do_not_shine_through(tmp_path):
    async with opened(tmp_path, view(**STILL), **LIVE) as db:
        await fill(db)
        await settled(db)
        await order(db, 100, 1, 7)
        await order(db, 101, 0, 7)
        work = await db.deferred.begin("live", db.snapshot_after)
        computed = await db.reads.tentative._computation.of(work, 100)
        for writes in computed.writes:
            await db.put(writes, work.upto)
        await db.execute("DELETE FROM orders WHERE o_id = 100")  # as it was before the batch
        await order(db, 102, 2, 7)
        rows, _, as_of = await require_tentative(db)
        assert ("c1", 3, 12) in rows
        assert as_of == work.as_of
        await db.live.refresh("live")
        assert Counter(await db.fetch(ALL)) == Counter(rows)


async def test_relations_and_views_are_read_at_one_snapshot(tmp_path):
    both = "SELECT (SELECT count(*) FROM orders), (SELECT sum(n) FROM totals)"
    async with opened(tmp_path, view(**STILL), view("notes", NOTES, **STILL), **LIVE) as db:
        await fill(db)
        await settled(db)
        assert await db.fetch(both) == [(10, 10)]
        for number in range(100, 103):
            await order(db, number, 1, 7, "x")
            assert (await tentative(db, both))[0] == [(number - 89, number - 89)]
        joined = "SELECT n, notes FROM totals JOIN notes ON c_name = 'c1' AND o_c_id = 1"
        assert (await tentative(db, joined))[0] == [(6, "x,x,x")]
        assert await db.fetch(both) == [(10, 10)]
        rows, at, label = await tentative(db, "SELECT count(*) FROM orders")
        assert rows == [(13,)]
        assert (label.as_of, label.reason) == (at, "")


async def test_the_plan_of_a_tentative_read_says_that_it_is_one(tmp_path):
    async with opened(tmp_path, view(**STILL), **LIVE) as db:
        await fill(db)
        await settled(db)
        before = await state_of(db)
        ts = await order(db, 100, 1, 7)
        said = "tentative: totals at the newest snapshot if the node can, else as stored"
        assert (await db.explained(ALL, tentative=True)).notes == (said,)
        assert (await db.explained(ALL)).notes == ()
        planned, ran = (await db.analyzed(ALL, tentative=True)).notes
        found = re.fullmatch(r"tentative: stored at (\d+), computed from there to (\d+)", ran)
        assert planned == said
        assert int(found[1]) == before.as_of < ts <= int(found[2])
        assert (await db.analyzed("SELECT count(*) FROM orders", tentative=True)).notes == ()
        # Deferred views that are not named answer neither a tentative read nor a strong one.
        aggregate = db.catalog.deferred_view["totals"].declared.sql
        stale = (await db.explained(aggregate, max_staleness_s=3600.0)).notes
        assert any("totals" in note for note in stale)
        for consistency in ({"tentative": True}, {"strong": True}):
            explained = await db.explained(aggregate, max_staleness_s=3600.0, **consistency)
            assert not any("totals" in note for note in explained.notes)


async def test_a_transaction_reads_tentatively_at_its_snapshot(tmp_path):
    async with opened(tmp_path, view(**STILL), **LIVE) as db:
        await fill(db)
        await settled(db)
        await order(db, 100, 1, 7)
        rows, at, label = await tentative(db, trace=True)
        await order(db, 101, 1, 7)
        await require_tentative(db)
        again, same, _ = await tentative(db, snapshot=at)
        assert (Counter(again), same) == (Counter(rows), at)
        await db.live.refresh("live")
        again, same, after = await tentative(db, snapshot=at)
        assert (Counter(again), same) == (Counter(rows), at)
        assert after.as_of == label.as_of < (await state_of(db)).as_of
        with pytest.raises(Unsupported, match="cannot be read as of snapshot"):
            await db.fetch(ALL, snapshot=at)


async def test_a_tentative_answer_is_as_fresh_as_a_reader_asks(tmp_path, monkeypatch):
    async with opened(tmp_path, view(**STILL), **LIVE) as db:
        await fill(db)
        await settled(db)
        ts = await order(db, 100, 1, 7)
        options = {"view_bookmark": ts, "max_staleness_s": 0.001, "view_wait_s": 60}
        rows, at, _ = await tentative(db, **options)
        assert ("c1", 4, 19) in rows
        assert at >= ts
        monkeypatch.setattr(db.deferred, "_lag_s", lambda *_: 5.0)  # a node does not answer
        with pytest.raises(Unavailable, match="older than 1 s"):
            await tentative(db, max_staleness_s=1)


async def test_views_whose_rows_are_not_kept_any_more_are_not_read(tmp_path, monkeypatch):
    async with opened(tmp_path, view(**STILL), **LIVE) as db:
        await fill(db)
        await settled(db)
        ts = await order(db, 100, 1, 7)
        _, at, _ = await tentative(db)
        monkeypatch.setattr(db.deferred, "_hold_ms", -1)
        with pytest.raises(SnapshotTooOld):
            await tentative(db)
        with pytest.raises(SnapshotTooOld):
            await tentative(db, bookmark=ts + 1)
        monkeypatch.undo()
        await db.live.refresh("live")
        monkeypatch.setattr(db.reads.tentative, "_retention_ms", 0)
        with pytest.raises(Unsupported, match=f"cannot be read as of snapshot {at}"):
            await tentative(db, snapshot=at)


async def test_what_a_node_does_not_compute_is_answered_as_stored(tmp_path, monkeypatch):
    views = [view(**STILL), view("notes", NOTES, **STILL), view("large", LARGE, **STILL)]
    views.append(view("small", SMALL, group="bad", **STILL))
    index = "CREATE INDEX by_total ON orders (o_total);"
    top = view("top", "SELECT max(o_total) FROM orders", "recompute", group="whole")
    async with opened(tmp_path, index, *views, **LIVE) as db:
        await fill(db)
        await settled(db, "live", "bad")
        await order(db, 100, 1, 7, "five")
        await db.execute("UPDATE orders SET o_c_id = 1 WHERE o_c_id = 0")
        await db.execute("DELETE FROM customer WHERE c_id = 0")
        before = await stored(db)
        then, as_of = await db.fetch(ALL), (await state_of(db)).as_of

        async def reason(name, group="live"):
            rows, at, label = await tentative(db, f"SELECT * FROM {name}")
            assert at == label.as_of == (await state_of(db, group)).as_of
            assert rows == await db.fetch(f"SELECT * FROM {name}")
            return label.reason

        assert "View small cannot be refreshed" in await reason("small", "bad")
        monkeypatch.setattr(db.reads.tentative, "_most_changes", 0)
        assert await reason("totals") == "6 changes are to be applied"
        monkeypatch.undo()
        monkeypatch.setattr(tentative_reads, "LOOKED_UP", Limit(10, "What is read", "read", ""))
        assert "more than 10 bytes" in await reason("notes")
        monkeypatch.setattr(tentative_reads, "LOOKED_UP", Limit(100, "What is read", "read", ""))
        assert "more than 100 bytes" in await reason("large")  # with the entries of a range
        monkeypatch.undo()
        assert await stored(db) == before
        assert (await db.fetch(ALL), (await state_of(db)).as_of) == (then, as_of)
        await require_tentative(db)
        await require_tentative(db, "notes")
        await require_tentative(db, "large")
        with pytest.raises(Unsupported, match="several groups"):
            await tentative(db, "SELECT * FROM totals, small")
        await apply(db, index, *views, top)
        work = await db.deferred.begin("whole", db.snapshot_after)
        await db.deferred.finish("whole", work.upto, Finished())
        assert await reason("top", "whole") == "top is recomputed in each batch"
        text = (await Metrics().render(db))[0].decode()
        assert "\nhornbeam_tentative_queries_total 3.0\n" in text
        assert "\nhornbeam_tentative_queries_as_stored_total 5.0\n" in text


async def test_changes_that_are_not_in_memory_come_from_the_logs(tmp_path, monkeypatch):
    monkeypatch.setattr(tentative_reads, "SEALING_S", 3600.0)
    async with opened(tmp_path, view(**STILL), **LIVE) as db:
        await fill(db)
        await settled(db)
        await order(db, 100, 1, 7)
    async with opened(tmp_path, resident_refresh=False) as db:
        rows, at, as_of = await require_tentative(db)
        assert ("c1", 4, 19) in rows
        assert as_of < at
        ts = await order(db, 101, 1, 7)
        assert await tentative(db) == (rows, at, Tentative(as_of))  # it is shared
        monkeypatch.setattr(tentative_reads, "SEALING_S", 0.02)
        later, then, _ = await tentative(db, bookmark=ts)
        assert ("c1", 5, 26) in later
        assert then >= ts
        monkeypatch.setattr(tentative_reads, "SEALING_S", 0.0)
        await order(db, 102, 1, 7)
        assert ("c1", 6, 33) in (await require_tentative(db))[0]
