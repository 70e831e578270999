"""Live views with conditions on the current time: rows enter and leave without a commit."""

import asyncio

import pytest

from hornbeam_server.schema.errors import Unavailable, Unsupported
from tests.node.live_world import apply, opened, state_of, until, view

EVENTS = """
CREATE TABLE event (id INT PRIMARY KEY, kind TEXT, at TIMESTAMPTZ);
CREATE INDEX event_at ON event (at);
"""
RECENT = "SELECT kind, count(*) AS n FROM event WHERE at > now() - INTERVAL '1 hour' GROUP BY kind"
SOON = "SELECT id FROM event WHERE at <= now()"
LIVE = {"resident_refresh": True}
INSERT = "INSERT INTO event SELECT ?, ?, now() + CAST(? AS INTERVAL)"


async def keep(db, *views):
    await apply(db, *views, tables=EVENTS)
    await db.live.refresh("live")


async def insert(db, number, kind, after):
    """Insert an event whose time is `after` the current time."""
    await db.execute(INSERT, (number, kind, after))


async def shown(db, name, rows):
    """Wait until a view has exactly these rows."""

    async def has():
        return sorted(await db.fetch(f"SELECT * FROM {name}")) == rows

    await until(has)


async def test_rows_leave_and_enter_without_a_commit(tmp_path):
    async with opened(tmp_path, **LIVE) as db:
        await keep(db, view("recent", RECENT), view("begun", SOON))
        await insert(db, 1, "a", "-30 minutes")
        await insert(db, 2, "a", "-59 minutes -59 seconds -300 milliseconds")
        await insert(db, 3, "b", "-2 hours")
        await insert(db, 4, "b", "700 milliseconds")
        newest = db.watermark()
        await shown(db, "recent", [("a", 1), ("b", 1)])
        await shown(db, "begun", [(1,), (2,), (3,), (4,)])
        assert db.watermark() >= newest
        report = await db.verify(["recent", "begun"])
        assert (len(report.checked), report.differences) == (2, 0)


async def test_a_view_over_the_current_time_grows_old_without_commits(tmp_path):
    async with opened(tmp_path, **LIVE) as db:
        await keep(db, view("recent", RECENT, interval="1 h"))
        await insert(db, 1, "a", "-30 minutes")
        await db.live.refresh("live")
        await asyncio.sleep(0.02)
        with pytest.raises(Unavailable, match=r"s old, older than 0\.001 s"):
            await db.fetch("SELECT * FROM recent", max_staleness_s=0.001)
        assert await db.fetch("SELECT * FROM recent", max_staleness_s=60.0) == [("a", 1)]
        (status,) = await db.deferred.status()
        assert status.lag_s > 0


async def test_a_view_over_the_current_time_does_not_stay_for_a_later_bookmark(tmp_path):
    async with opened(tmp_path, **LIVE) as db:
        kinds = view("kinds", "SELECT kind, count(*) AS n FROM event GROUP BY kind", interval="1 h")
        await keep(db, view("recent", RECENT, interval="1 h"), kinds)
        await insert(db, 1, "a", "-30 minutes")
        as_of = (await db.live.refresh("live")).as_of
        await asyncio.sleep(0.02)
        bookmark = db.watermark()
        assert bookmark > as_of
        assert await db.fetch("SELECT * FROM kinds", view_bookmark=bookmark) == [("a", 1)]
        with pytest.raises(Unavailable, match=f"not yet the bookmark {bookmark}"):
            await db.fetch("SELECT * FROM recent", view_bookmark=bookmark)


async def test_tentative_reads_follow_the_time_without_commits(tmp_path):
    async with opened(tmp_path, **LIVE) as db:
        await keep(db, view("begun", SOON, interval="1 h"))
        await insert(db, 1, "a", "-1 hour")
        await insert(db, 2, "a", "400 milliseconds")
        await db.live.refresh("live")

        async def rows():
            async with db.query("SELECT * FROM begun", tentative=True) as result:
                return sorted(await result.stream.all())

        async def entered():
            return await rows() == [(1,), (2,)]

        assert await rows() == [(1,)]
        await until(entered, seconds=5.0)


async def test_a_database_that_is_opened_again_goes_on_from_the_time_of_its_last_batch(tmp_path):
    async with opened(tmp_path, **LIVE) as db:
        await keep(db, view("begun", SOON))
        await insert(db, 1, "a", "-1 hour")
        await insert(db, 2, "a", "500 milliseconds")
        await shown(db, "begun", [(1,)])
        before = (await state_of(db)).as_of
    async with opened(tmp_path, **LIVE) as db:
        await shown(db, "begun", [(1,), (2,)])
        assert (await state_of(db)).as_of > before
        assert (await db.verify(["begun"])).differences == 0


async def test_a_statement_over_the_current_time_has_its_own(tmp_path):
    async with opened(tmp_path, **LIVE) as db:
        await keep(db, view("recent", RECENT, interval="1 h"))
        await insert(db, 1, "a", "-59 minutes -59 seconds -700 milliseconds")
        await db.live.refresh("live")
        assert await db.fetch("SELECT * FROM recent") == [("a", 1)]

        async def gone():
            return not await db.fetch(RECENT)

        await until(gone)
        assert await db.fetch("SELECT * FROM recent") == [("a", 1)]


async def test_transactions_do_not_keep_such_a_view(tmp_path):
    async with opened(tmp_path) as db:
        with pytest.raises(Unsupported, match="current time") as caught:
            await keep(db, f"CREATE MATERIALIZED VIEW recent AS {RECENT};")
        assert "refresh = 'live'" in caught.value.cure
