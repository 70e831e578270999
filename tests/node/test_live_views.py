"""Live and deferred views that a node keeps itself."""

import asyncio
import dataclasses
import shutil
import threading

import msgspec
import pytest
from msgspec.structs import replace

from hornbeam_server.node.bulk_access import BulkAccess
from hornbeam_server.node.deferred_views import DeferredViews
from hornbeam_server.node.live.computation import Computation
from hornbeam_server.node.live.maintainer import due_after
from hornbeam_server.node.live.outcomes import Left
from hornbeam_server.schema.errors import NotFound, Unavailable
from hornbeam_server.storage.ports import Versioned
from hornbeam_server.txlayer.commit import change_ring
from hornbeam_server.txlayer.views.refresh_groups import Problem, path_of
from tests.node.live_world import (
    TABLES,
    TOTALS,
    apply,
    fill,
    opened,
    order,
    reached,
    require_equal,
    state_of,
    until,
    view,
)

SMALL = "SELECT o_id, CAST(o_note AS INTEGER) AS number FROM orders"
LIVE = {"resident_refresh": True}


async def test_a_live_view_follows_inserts_updates_and_deletes(tmp_path):
    async with opened(tmp_path, view(), **LIVE) as db:
        await fill(db)
        await reached(db, await order(db, 100, 1, 7))
        assert ("c1", 4, 19) in await require_equal(db)
        await db.execute("UPDATE orders SET o_total = 0 WHERE o_id = 100")
        await db.execute("DELETE FROM orders WHERE o_id = 1")
        done = await db.execute("UPDATE customer SET c_name = 'c9' WHERE c_id = 0")
        state = await reached(db, done.commit_ts)
        assert ("c9", 4, 18) in await require_equal(db)
        assert (state.last.by, state.problem) == ("local", None)


async def test_changes_come_from_the_ring_while_the_database_is_open(tmp_path, monkeypatch):
    async with opened(tmp_path, view(), **LIVE) as db:
        await fill(db)
        await reached(db, db.watermark())
        sealed = []
        monkeypatch.setattr(db.committer, "seal", lambda: sealed.append(1))
        await reached(db, await order(db, 100, 1, 7))
        await require_equal(db)
        assert not sealed


async def test_what_has_left_the_ring_comes_from_the_log(tmp_path, monkeypatch):
    monkeypatch.setattr(change_ring, "RING_BYTES", 1)
    async with opened(tmp_path, view(), **LIVE) as db:
        await fill(db)
        await reached(db, await order(db, 100, 1, 7))
        assert len(await require_equal(db)) == 2
        assert not db.committer.ring.between(0, 1 << 62)


async def test_a_database_that_is_opened_again_catches_up(tmp_path):
    async with opened(tmp_path, view(), **LIVE) as db:
        await fill(db)
        await reached(db, await order(db, 100, 1, 7))
    async with opened(tmp_path, resident_refresh=False) as db:
        before = await state_of(db)
        ts = await order(db, 101, 1, 7)
        await db.execute("DELETE FROM orders WHERE o_id = 100")
        await asyncio.sleep(0.1)
        assert (await state_of(db)).as_of == before.as_of < ts
    async with opened(tmp_path, **LIVE) as db:
        await reached(db, ts + 1)
        await require_equal(db)


async def test_a_batch_that_was_left_is_done_after_the_database_is_opened_again(tmp_path):
    async with opened(tmp_path, view(), resident_refresh=False) as db:
        await fill(db)
        begun = await db.deferred.begin("live", db.snapshot_after)
        await order(db, 100, 1, 7)
    async with opened(tmp_path, **LIVE) as db:
        await reached(db, begun.upto + 1)
        await require_equal(db)


async def test_a_batch_is_computed_while_it_is_recorded_and_put_afterwards(tmp_path, monkeypatch):
    async with opened(tmp_path, view(), **LIVE) as db:
        await fill(db)
        await reached(db, db.watermark())
        computed, recorded = asyncio.Event(), []
        compute, record, put = Computation.rows, DeferredViews.record, BulkAccess.put

        async def then_computed(*arguments, **options):
            found = await compute(*arguments, **options)
            computed.set()
            return found

        async def after_computing(deferred, group, plan):
            await computed.wait()  # without end, if it were computed later
            await record(deferred, group, plan)
            recorded.append(plan.state.batch.upto)

        async def once_recorded(bulk, writes, upto, *, forced):
            assert upto in recorded
            await put(bulk, writes, upto, forced=forced)

        monkeypatch.setattr(Computation, "rows", then_computed)
        monkeypatch.setattr(DeferredViews, "record", after_computing)
        monkeypatch.setattr(BulkAccess, "put", once_recorded)
        state = await reached(db, await order(db, 100, 1, 7))
        assert state.as_of in recorded
        await require_equal(db)


async def test_a_batch_that_another_process_has_recorded_meanwhile_is_done_instead(
    tmp_path, monkeypatch
):
    async with opened(tmp_path, view(), **LIVE) as db:
        await fill(db)
        await reached(db, db.watermark())
        planned, others, put = [], [], []
        record, put_rows = DeferredViews.record, BulkAccess.put

        async def second(deferred, group, plan):
            if not others:
                planned.append(plan.state.batch.upto)
                monkeypatch.setattr(DeferredViews, "record", record)
                await order(db, 101, 1, 7)
                others.append((await db.deferred.begin(group, db.snapshot_after)).upto)
            await record(deferred, group, plan)

        async def remembered(bulk, writes, upto, *, forced):
            put.append(upto)
            await put_rows(bulk, writes, upto, forced=forced)

        monkeypatch.setattr(DeferredViews, "record", second)
        monkeypatch.setattr(BulkAccess, "put", remembered)
        await reached(db, await order(db, 100, 1, 7))
        assert planned < others
        assert put[0] == others[0]
        assert planned[0] not in put
        await require_equal(db)


async def test_no_batch_ends_where_it_begins_while_the_schema_changes(tmp_path):
    """The watermark stays below the timestamp of a change until the change is in force."""
    async with opened(tmp_path, view(), resident_refresh=False) as db:
        await fill(db)
        async with db.committer.held() as at:
            with pytest.raises(Unavailable, match="a change of the schema is under way"):
                await db.snapshot_after(at - 1)
        assert (await db.snapshot_after(at - 1))[1] >= at


async def test_a_restored_backup_catches_up_from_its_own_snapshot(tmp_path):
    async with opened(tmp_path, view(), **LIVE) as db:
        await fill(db)
        await reached(db, await order(db, 100, 1, 7))
    shutil.copytree(tmp_path / "data", tmp_path / "backup")
    async with opened(tmp_path, **LIVE) as db:
        await reached(db, await order(db, 101, 1, 7))
    shutil.rmtree(tmp_path / "data")
    (tmp_path / "backup").rename(tmp_path / "data")
    async with opened(tmp_path, **LIVE) as db:
        await reached(db, await order(db, 102, 2, 7))
        rows = await require_equal(db)
        assert sum(row[1] for row in rows) == 12


async def test_a_group_that_an_earlier_version_has_left_goes_on(tmp_path):
    async with opened(tmp_path, view(refresh="deferred"), resident_refresh=False) as db:
        await fill(db)
        begun = await db.deferred.begin("default", db.snapshot_after)
    file = tmp_path / "data" / "coordination" / "values.json"
    values = msgspec.json.decode(file.read_bytes(), type=dict[str, Versioned])
    known = values[path_of("default")]
    state = msgspec.json.decode(known.value)
    del state["problem"]  # a field that earlier versions do not have
    values[path_of("default")] = Versioned(msgspec.json.encode(state), known.version)
    file.write_bytes(msgspec.json.encode(values))
    async with opened(tmp_path, **LIVE) as db:
        await reached(db, begun.upto, "default")
        await require_equal(db)


async def test_deferred_views_are_kept_as_well_and_groups_are_independent(tmp_path):
    views = view(), view("slow", refresh="deferred"), view("other", refresh="deferred", group="g")
    async with opened(tmp_path, *views, **LIVE) as db:
        await fill(db)
        ts = await order(db, 100, 1, 7)
        for group, name in (("live", "totals"), ("default", "slow"), ("g", "other")):
            await reached(db, ts, group)
            await require_equal(db, name)


async def test_a_view_that_cannot_be_refreshed_stops_its_group_alone_until_it_is_rebuilt(tmp_path):
    views = view("numbers", SMALL, group="bad"), view()
    async with opened(tmp_path, *views, **LIVE) as db:
        await fill(db)
        await reached(db, await order(db, 100, 1, 7, "5"), "bad")
        await order(db, 101, 1, 7, "five")

        async def stopped():
            return (await state_of(db, "bad")).problem

        problem = await until(stopped)
        assert "View numbers cannot be refreshed" in problem.message
        assert "five" in problem.message
        assert "--rebuild numbers" in problem.cure
        await reached(db, await order(db, 102, 1, 7))  # the other group goes on
        await require_equal(db)
        await db.execute("DELETE FROM orders WHERE o_id = 101")
        await db.deferred.rebuild(["numbers"])
        state = await reached(db, db.watermark(), "bad")
        assert state.problem is None
        assert (100, 5) in await require_equal(db, "numbers")


async def test_schema_changes_do_not_wait_for_batches_and_are_followed(tmp_path):
    async with opened(tmp_path, view(), **LIVE) as db:
        await fill(db)
        writing = asyncio.ensure_future(write(db))
        more = view("counts", "SELECT o_c_id, count(*) AS n FROM orders GROUP BY o_c_id")
        await apply(db, view(), more)
        wider = TABLES.replace("o_note TEXT", "o_note TEXT, o_more INT DEFAULT 3")
        await apply(db, view(), more, tables=wider)
        await apply(db, view("totals", TOTALS.replace("sum(", "max(")), more, tables=wider)
        await writing
        ts = (await db.execute("INSERT INTO orders (o_id, o_c_id) VALUES (900, 1)")).commit_ts
        await reached(db, ts)
        await require_equal(db)
        await require_equal(db, "counts")
        await apply(db, tables=wider)  # drops both views
        assert not db.committer.ring
        await order_without_note(db, 901)


async def test_a_view_that_is_declared_during_a_batch_is_built_without_further_commits(
    tmp_path, monkeypatch
):
    ending, go_on = asyncio.Event(), asyncio.Event()

    async with opened(tmp_path, view(), **LIVE) as db:
        await fill(db)
        await reached(db, db.watermark())
        finish = db.deferred.finish

        async def late(*arguments, **options):
            ending.set()
            await go_on.wait()
            return await finish(*arguments, **options)

        monkeypatch.setattr(db.deferred, "finish", late)
        await order(db, 100, 1, 7)
        await ending.wait()
        await apply(db, view(), view("names", "SELECT c_name FROM customer"))
        go_on.set()
        await reached(db, db.watermark(), seconds=30)  # less than the pause without news
        await require_equal(db, "names")


async def write(db):
    for number in range(200, 300):
        await order_without_note(db, number)


async def order_without_note(db, number):
    await db.execute("INSERT INTO orders (o_id, o_c_id, o_total) VALUES (?, 1, 1)", (number,))


async def test_a_view_over_a_dropped_relation_goes_with_it(tmp_path):
    async with opened(tmp_path, view(), view("left", "SELECT c_id FROM customer"), **LIVE) as db:
        await fill(db)
        customers = TABLES[: TABLES.index("CREATE TABLE orders")]
        await apply(db, view("left", "SELECT c_id FROM customer"), tables=customers)
        done = await db.execute("INSERT INTO customer VALUES (77, 'x')")
        await reached(db, done.commit_ts)
        assert (77,) in await require_equal(db, "left")


def test_a_pause_follows_a_batch_which_is_short_even_after_a_long_build():
    assert due_after(10.0, 0.1, 0.25) == 10.25
    assert due_after(10.0, 0.5, 0.25) == 11.0
    assert due_after(10.0, 60.0, 0.25) == 71.0


async def test_closing_does_not_wait_for_a_batch(tmp_path, monkeypatch):
    entered, end = threading.Event(), threading.Event()

    async def slow(*_):
        entered.set()
        await asyncio.sleep(3600)
        end.set()

    async with opened(tmp_path, view(), **LIVE) as db:
        await fill(db)
        await reached(db, db.watermark())
        monkeypatch.setattr("hornbeam_server.maintain.deltas.batches.refresh", slow)
        await order(db, 100, 1, 7)
        await asyncio.to_thread(entered.wait, 10)
    assert entered.is_set()
    assert not end.is_set()
    monkeypatch.undo()
    async with opened(tmp_path, **LIVE) as db:  # the batch is done again
        await reached(db, await order(db, 101, 1, 7))
        await require_equal(db)


async def test_a_database_without_such_views_has_no_task_for_them(tmp_path):
    def tasks():
        return {task.get_coro().__qualname__ for task in asyncio.all_tasks()}

    async with opened(tmp_path, "", **LIVE) as db:
        await fill(db)
        assert not any("_Kept" in name for name in tasks())
        assert db.committer.ring is None
        await apply(db, view())
        assert any("_Kept" in name for name in tasks())
    async with opened(tmp_path, resident_refresh=False) as db:
        assert not any("_Kept" in name for name in tasks())
        assert db.committer.ring is None


async def test_what_is_too_large_for_a_node_is_left_and_said(tmp_path):
    async with opened(tmp_path, **LIVE) as db:
        await apply(db)
        await fill(db, orders=30)
    async with opened(tmp_path, resident_rows=10, **LIVE) as db:
        await apply(db, view())

        async def problem():
            return (await state_of(db)).problem

        found = await until(problem)
        assert "totals is to be built from about 33 rows" in found.message
        assert "hornbeam refresh" in found.cure
        with pytest.raises(Left, match="about 33 rows"):
            await db.live.refresh("live")
        (status,) = await db.deferred.status()
        assert await db.live.left(status) == "totals is to be built from about 33 rows"
    async with opened(tmp_path, **LIVE) as db:
        state = await reached(db, db.watermark())
        assert state.problem is None
        await require_equal(db)
        (status,) = await db.deferred.status()
        assert await db.live.left(status) == ""
        stopped = replace(status.state, problem=Problem("It is left.", left="it is large"))
        status = dataclasses.replace(status, state=stopped)
        assert await db.live.left(status) == "it is large"
    async with opened(tmp_path, resident_refresh=False) as db:
        (status,) = await db.deferred.status()
        assert await db.live.left(status) == "resident_refresh is off"
        with pytest.raises(Left, match="resident_refresh is off"):
            await db.live.refresh("live")


async def test_a_join_that_reads_a_grown_relation_whole_is_left_and_said(tmp_path):
    select = "SELECT o_id, c_id FROM orders JOIN customer ON o_total > c_id"
    async with opened(tmp_path, resident_rows=15, **LIVE) as db:
        await apply(db)
        await fill(db)
        await apply(db, view("pairs", select, interval="1 h"))
        await db.live.refresh("live")
        assert await require_equal(db, "pairs")
        for number in range(100, 105):
            await order(db, number, 1, number)
        await db.live.refresh("live")
        await order(db, 105, 1, 9)
        with pytest.raises(Left, match="may read all 16 rows of orders"):
            await db.live.refresh("live")


async def test_a_request_goes_on_from_a_batch_that_was_left(tmp_path):
    async with opened(tmp_path, view(interval="1 h"), resident_refresh=False) as db:
        await fill(db)
        begun = await db.deferred.begin("live", db.snapshot_after)
    async with opened(tmp_path, **LIVE) as db:
        ts = await order(db, 100, 1, 7)
        state = await db.live.refresh("live")
        assert state.as_of >= ts > begun.upto
        await require_equal(db)


async def test_closing_ends_a_refresh_on_request(tmp_path, monkeypatch):
    entered = asyncio.Event()

    async def slow(*_):
        entered.set()
        await asyncio.sleep(3600)

    async with opened(tmp_path, view(interval="1 h"), **LIVE) as db:
        await fill(db)
        await db.live.refresh("live")
        await order(db, 100, 1, 7)
        monkeypatch.setattr(db.live._batches, "run", slow)
        asked = asyncio.ensure_future(db.live.refresh("live"))
        await entered.wait()
    with pytest.raises(Unavailable, match="The node is ending"):
        await asked


async def test_a_view_is_refreshed_on_request(tmp_path):
    async with opened(tmp_path, view(interval="1 h"), **LIVE) as db:
        await fill(db)
        await db.live.refresh("live")
        ts = await order(db, 100, 1, 7)
        state = await db.live.refresh("live")
        assert state.as_of >= ts
        await require_equal(db)
        with pytest.raises(NotFound):
            await db.live.refresh("unknown")


async def test_a_view_after_which_nothing_was_committed_is_not_old(tmp_path):
    async with opened(tmp_path, view(), **LIVE) as db:
        await fill(db)
        ts = await order(db, 100, 1, 7)
        await reached(db, ts)
        await asyncio.sleep(0.05)
        async with db.query("SELECT * FROM totals", max_staleness_s=0.01) as result:
            assert result.snapshot >= ts
        (status,) = await db.deferred.status()
        assert status.lag_s == 0.0
    async with opened(tmp_path, resident_refresh=False) as db:
        with pytest.raises(Unavailable, match="s old"):
            async with db.query("SELECT * FROM totals", max_staleness_s=0.01):
                pass


async def test_a_query_waits_until_a_view_shows_a_bookmark(tmp_path):
    async with opened(tmp_path, view(), **LIVE) as db:
        await fill(db)
        await db.live.refresh("live")
        for number in range(100, 103):
            ts = await order(db, number, 1, 7)
            sql = "SELECT sum(n) FROM totals"
            async with db.query(sql, view_bookmark=ts, view_wait_s=30) as result:
                assert result.snapshot >= ts
                assert await result.stream.all() == [(number - 89,)]


async def test_a_view_that_does_not_become_fresh_is_refused_at_the_end_of_the_wait(tmp_path):
    async with opened(tmp_path, view(interval="1 h"), **LIVE) as db:
        await fill(db)
        await db.live.refresh("live")
        fresh = await db.fetch("SELECT * FROM totals", view_bookmark=db.watermark())
        assert fresh == await db.fetch("SELECT * FROM totals")  # nothing was committed since
        ts = await order(db, 100, 1, 7)
        for wait_s in (0.0, 0.02):
            with pytest.raises(Unavailable, match=f"and not yet the bookmark {ts}"):
                await db.fetch("SELECT * FROM totals", view_bookmark=ts, view_wait_s=wait_s)
            with pytest.raises(Unavailable, match=r"s old, older than 0\.001 s"):
                await db.fetch("SELECT * FROM totals", max_staleness_s=0.001, view_wait_s=wait_s)
        waiting = asyncio.ensure_future(
            db.fetch("SELECT sum(n) FROM totals", view_bookmark=ts, view_wait_s=30)
        )
        await asyncio.sleep(0.03)
        await apply(db, view(interval="1 h"), view("more", "SELECT c_id FROM customer"))
        assert await waiting == [(11,)]  # the change of the schema did not wait for the query
