"""Coroutines that compute for long, in a thread with an event loop of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from hornbeam_server.storage.together import to_the_end

T = TypeVar("T")


class _Side:
    """A coroutine in a thread. `cancel` may be called in any thread, at any time."""

    def __init__(self) -> None:
        self._cancelled = False
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return asyncio.run(self._work(work))

    async def _work(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._running = asyncio.get_running_loop(), task
        if self._cancelled:  # before there was a task
            raise asyncio.CancelledError
        return await work()

    def cancel(self) -> None:
        self._cancelled = True
        if self._running is not None:
            loop, task = self._running
            with contextlib.suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(task.cancel)


async def in_side_loop(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The result of the coroutine that `work` returns, which runs in a thread of its own loop.

    A cancellation cancels it, and waits until it has ended: it may read the store until then.
    """
    side = _Side()
    return await to_the_end(asyncio.to_thread(side.run, work), side.cancel)
