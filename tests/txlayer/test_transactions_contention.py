"""Transactions that lost their locks too often go one by one, through the slow lane."""

import asyncio

import pytest
from database_world import on_shop, run_all, until
from test_transactions_statements import FILL, statements

from txlayer import manager
from txlayer.locks import LockOwner, Mode

ADD = "UPDATE product SET p_stock = p_stock + 1 WHERE p_id = 1"


def test_whoever_gives_up_as_the_slow_lane_becomes_free_leaves_it(tmp_path, monkeypatch):
    """Granted and given up between two looks of the event loop: nobody else would ever get it."""
    monkeypatch.setattr(manager, "ATTEMPTS_IN_PARALLEL", 0)

    async def test(database):
        await run_all(database, *FILL)
        locks, first = database.locks, LockOwner(0)
        await locks.acquire(first, [manager._SLOW_LANE], Mode.EXCLUSIVE)
        second = asyncio.ensure_future(database.transact(statements(ADD)))
        await until(lambda: locks.waiting_count == 1)
        locks.release_all(first)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert locks.held_count == 0
        await database.transact(statements(ADD, timeout_s=1))

    on_shop(tmp_path, test)
