"""Concurrent work (storage/together.py)."""

import asyncio
import threading
import time
from functools import partial

import pytest

from hornbeam_server.storage.hbase.calls import THREADS, Calls
from hornbeam_server.storage.tables import AT_ONCE, create_tables
from hornbeam_server.storage.together import all_settled, settled, some_at_once


async def test_work_runs_concurrently_and_results_keep_their_order():
    begun, free = [], asyncio.Event()

    async def work(number):
        begun.append(number)
        await free.wait()
        return number

    asked = asyncio.ensure_future(all_settled([work(1), work(2), work(3)]))
    await asyncio.sleep(0.01)
    assert sorted(begun) == [1, 2, 3]
    free.set()
    assert await asked == [1, 2, 3]
    assert await all_settled([]) == []


@pytest.mark.parametrize("failing", [0, 1, 2])
async def test_when_one_fails_the_others_are_still_awaited(failing):
    done = []

    async def work(number):
        if number == failing:
            raise ValueError(number)
        await asyncio.sleep(0.01)
        done.append(number)

    with pytest.raises(ValueError, match=str(failing)):
        await all_settled([work(number) for number in range(3)])
    assert len(done) == 2


async def test_a_cancelled_caller_leaves_nothing_running():
    ended = []

    async def work(number):
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            ended.append(number)

    asked = asyncio.ensure_future(all_settled([work(number) for number in range(3)]))
    await asyncio.sleep(0.01)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert sorted(ended) == [0, 1, 2]


async def test_futures_need_no_tasks():
    before = asyncio.all_tasks()
    futures = [asyncio.get_running_loop().create_future() for _ in range(3)]
    asked = asyncio.ensure_future(all_settled(futures))
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asked, *before}
    for number, future in enumerate(futures):
        future.set_result(number)
    assert await asked == [0, 1, 2]


async def test_a_wait_ends_with_its_future_or_after_its_time():
    loop = asyncio.get_running_loop()
    future, began = loop.create_future(), loop.time()
    await settled(future, 0.02)
    assert future.done()
    assert loop.time() - began > 0.01
    future = loop.create_future()
    loop.call_soon(future.set_result, None)
    await settled(future, 60)
    await settled(future, 60)
    gone = loop.create_future()
    waiting = asyncio.ensure_future(settled(gone, 60))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert gone.done()


class SlowTables:
    """Makes tables one after the other, as a slow HBase does, by the calls of HBase's adapter."""

    def __init__(self, calls: Calls) -> None:
        self.calls, self.one = calls, threading.Lock()
        self.made: list[str] = []
        self.asked = self.most = 0

    async def create_table(self, table, splits):
        self.asked += 1
        self.most = max(self.most, self.asked)
        await self.calls.in_thread(lambda: self._make(table))
        self.asked -= 1

    def _make(self, table):
        with self.one:
            time.sleep(0.01)
            self.made.append(table)


async def test_no_table_of_many_waits_longer_than_a_call_may_wait():
    tables = [f"t{number}" for number in range(3 * THREADS)]
    calls = Calls([("127.0.0.1", 9)], "test", timeout_s=0.01 * THREADS / 2)
    store = SlowTables(calls)
    await create_tables(store, tables)
    await calls.close()
    assert sorted(store.made) == sorted(tables)
    assert store.most == AT_ONCE


async def test_some_works_run_at_once_and_no_more():
    running, most = 0, 0

    async def work(number):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return number

    works = [partial(work, number) for number in range(7)]
    assert await some_at_once(works, 3) == list(range(7))
    assert most == 3
