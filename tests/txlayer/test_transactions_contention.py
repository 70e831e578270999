"""Transactions that lost their locks too often run one at a time, through the slow lane."""

import asyncio
from dataclasses import replace

import pytest

from hornbeam_server.schema.errors import TransactionAborted
from hornbeam_server.txlayer.locking.locks import LockOwner, Mode
from hornbeam_server.txlayer.transactions import manager
from tests.txlayer.database_world import on_shop, run_all, until
from tests.txlayer.test_transactions_statements import FILL, statements

ADD = "UPDATE product SET p_stock = p_stock + 1 WHERE p_id = 1"


async def test_a_transaction_cancelled_when_granted_the_slow_lane_frees_it(tmp_path, monkeypatch):
    """The lock is granted and the task is cancelled in one pass of the loop; it must not stay
    held."""
    monkeypatch.setattr(manager, "ATTEMPTS_IN_PARALLEL", 0)
    async with on_shop(tmp_path) as database:
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


async def test_requests_with_idempotency_keys_take_turns_on_one_row(tmp_path):
    """No request loses its locks: a request that waits for its key's lock holds no row."""
    async with on_shop(tmp_path) as database:
        await run_all(database, *FILL)
        (before,) = (await database.fetch("SELECT p_stock FROM product WHERE p_id = 1"))[0]
        keys = [str(n) for n in range(12)]
        requests = [statements(ADD, idempotency_key=key) for key in keys]
        await asyncio.gather(*map(database.transact, requests))
        (after,) = (await database.fetch("SELECT p_stock FROM product WHERE p_id = 1"))[0]
        assert after == before + 12
        assert database.manager.retried == 0


async def test_a_refused_copy_of_a_request_leaves_the_first_unfinished(tmp_path, monkeypatch):
    """Two copies of a request both assume its lock; the lock of the second is not in force."""
    async with on_shop(tmp_path) as database:
        await run_all(database, *FILL)
        manager, going_on, under_way = database.manager, asyncio.Event(), asyncio.Event()
        prepare, commit, name = manager._prepare, database.committer.commit, []

        def slowly(prepared):
            name.append(prepared.transaction_id)
            under_way.set()
            return asyncio.ensure_future(later(prepared))

        async def later(prepared):
            await going_on.wait()
            return await commit(prepared)

        async def prepared_by_the_first(attempt, held):
            found.append(await prepare(attempt, held))
            return found[0]

        async def prepared_already(_):
            return found[0]

        def gone(_):
            raise TransactionAborted("A node that had granted a lock has gone.")

        found = []
        request = statements(ADD, idempotency_key="again")
        monkeypatch.setattr(database.committer, "commit", slowly)
        monkeypatch.setattr(manager, "_prepare", prepared_by_the_first)
        first = asyncio.ensure_future(database.transact(request))
        await under_way.wait()
        with monkeypatch.context() as patched:
            patched.setattr(manager, "_prepared", prepared_already)
            patched.setattr(manager._locks, "require_in_force", gone)
            with pytest.raises(TransactionAborted):
                await database.transact(replace(request, timeout_s=0.01))
        assert list(manager.unfinished) == name
        going_on.set()
        await first
        assert not manager.unfinished
