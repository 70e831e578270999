"""Closing a database under load, and opening it again."""

import asyncio

import pytest

from hornbeam_server.node.database import Database
from hornbeam_server.schema.errors import HornbeamError, Unavailable
from hornbeam_server.storage.local.system import SystemClock
from hornbeam_server.txlayer.ddl import claim
from tests.txlayer.database_world import check, opened, run_all, settings, shop
from tests.txlayer.test_transactions_statements import FILL


async def test_closing_under_load_keeps_every_acknowledged_commit(tmp_path):
    """Each writer is answered or refused; every acknowledged row is there after the next start."""
    database = await Database.open(settings(tmp_path))
    await database.keeper.apply(shop())
    await run_all(database, *FILL)
    acknowledged, refused = [], []

    async def write(n):
        for i in range(1_000):
            number = 1_000 + n * 1_000 + i
            try:
                await database.execute(f"INSERT INTO orders VALUES ({number}, {1 + i % 3}, 1)")
            except HornbeamError as error:
                refused.append(error)
                return
            acknowledged.append(number)

    writers = [asyncio.ensure_future(write(n)) for n in range(8)]
    await asyncio.sleep(0.2)
    await database.close()
    await asyncio.gather(*writers)
    assert len(refused) == 8
    assert acknowledged

    async with opened(tmp_path) as database:
        rows = await database.fetch("SELECT o_id FROM orders WHERE o_id >= 1000")
        assert {number for (number,) in rows} >= set(acknowledged)
        await database.keeper.wait_built()
        await check(database)


async def test_closing_under_open_queries(tmp_path):
    async with opened(tmp_path, shop()) as database:
        await run_all(database, *FILL)
        async with database.query("SELECT * FROM orders") as result:
            assert len(await result.stream.all()) == 4
    async with opened(tmp_path) as database:
        assert database.ready()
        await check(database)


async def test_a_database_that_was_not_closed_recovers(tmp_path):
    """The process ends without closing: acknowledged commits are in the log, if not in the
    store."""
    database = await Database.open(settings(tmp_path))
    await database.keeper.apply(shop())
    await database.keeper.wait_built()
    await run_all(database, *FILL)
    last = await database.execute("UPDATE customer SET c_name = 'last' WHERE c_id = 1")
    # Only what the operating system would do: release locks and files.
    database._housekeeping_task.cancel()
    for task in (*database.committer._stages, *database.committer._timers):
        task.cancel()
    await database.log.close()
    await database.store.close()
    await database._coordination.close()

    async with opened(tmp_path) as database:
        assert database.watermark() >= last.commit_ts
        found = await database.fetch("SELECT c_name FROM customer WHERE c_id = 1")
        assert found == [("last",)]
        later = await database.execute("UPDATE customer SET c_name = 'later' WHERE c_id = 1")
        assert later.commit_ts > last.commit_ts
        await check(database)


async def test_the_interval_of_checkpoints_is_the_setting(tmp_path):
    class Recorder(SystemClock):
        def __init__(self):
            self.slept = set()

        async def sleep(self, seconds):
            self.slept.add(seconds)
            await super().sleep(seconds)

    clock = Recorder()
    wanted = settings(tmp_path).model_copy(update={"checkpoint_interval_s": 0.37})
    async with await Database.open(wanted, clock=clock) as database:
        await database.keeper.apply(shop())
    assert 0.37 in clock.slept


async def test_closing_during_a_change_of_the_catalog(tmp_path, monkeypatch):
    """The caller learns that the change may not have happened; no task goes on."""
    before = asyncio.all_tasks()
    database = await Database.open(settings(tmp_path))
    under_way, put = asyncio.Event(), database.store.put

    async def no_catalog(writes, at):
        if claim.TABLE in writes:
            under_way.set()
            await asyncio.Event().wait()
        await put(writes, at)

    monkeypatch.setattr(database.store, "put", no_catalog)
    change = asyncio.ensure_future(database.keeper.apply(shop()))
    await under_way.wait()
    await database.close()
    with pytest.raises(Unavailable, match="outcome is unknown"):
        await change
    assert asyncio.all_tasks() == before
    async with opened(tmp_path) as database:
        assert not database.catalog.schema.names


async def test_a_change_goes_on_without_its_caller(tmp_path):
    async with opened(tmp_path) as database:
        change = asyncio.ensure_future(database.keeper.apply(shop()))
        await asyncio.sleep(0)
        change.cancel()
        with pytest.raises(asyncio.CancelledError):
            await change
        await database.keeper.wait_built()
        assert database.catalog.schema.names
