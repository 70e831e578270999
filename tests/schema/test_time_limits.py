"""Time limits that set a timer only when the work waits."""

from __future__ import annotations

import asyncio

import pytest

from hornbeam_server.schema.time_limits import within


async def test_work_that_does_not_wait_sets_no_timer(monkeypatch):
    async def work():
        return 7

    def timer(*_):
        raise AssertionError("a timer is set")

    monkeypatch.setattr(asyncio.get_running_loop(), "call_at", timer)
    assert await within(60, work()) == 7


async def test_work_that_waits_gets_results_and_errors_of_what_it_awaits():
    loop = asyncio.get_running_loop()
    found, failed = loop.create_future(), loop.create_future()
    loop.call_soon(found.set_result, 3)
    loop.call_later(0.001, failed.set_exception, ValueError("it failed"))

    async def work():
        with pytest.raises(ValueError, match="it failed"):
            await failed
        await asyncio.sleep(0)
        return await found

    assert await within(60, work()) == 3


async def test_work_that_waits_too_long_ends():
    ended = []

    async def work():
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    with pytest.raises(TimeoutError):
        await within(0.01, work())
    assert ended
    await asyncio.sleep(0)  # the task itself is not cancelled


async def test_cancelling_the_caller_cancels_the_work():
    ended = []

    async def work():
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    waiting = asyncio.ensure_future(within(60, work()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended


@pytest.mark.parametrize("waits", [False, True])
async def test_errors_of_the_work_are_raised(waits):
    async def work():
        if waits:
            await asyncio.sleep(0)
        raise KeyError("wrong")

    with pytest.raises(KeyError, match="wrong"):
        await within(60, work())
