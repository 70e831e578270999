"""Time limits of work that mostly does not wait: a timer is set only when the work waits."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`. Raises TimeoutError, where `work` waits, when it has waited `seconds`.

    A timer that is set and cancelled takes as long as a read of a row of this process.
    """
    try:
        awaited = work.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    async with asyncio.timeout(seconds):
        return await _Rest(work, awaited)


class _Rest(Generic[T]):
    """The rest of `work`, which waits for `awaited`."""

    def __init__(self, work: Coroutine[Any, Any, T], awaited: Any) -> None:
        self._work = work
        self._awaited = awaited

    def __await__(self) -> Generator[Any, Any, T]:
        work, awaited = self._work, self._awaited
        try:
            while True:
                try:
                    sent = yield awaited
                except BaseException as error:
                    awaited = work.throw(error)
                else:
                    awaited = work.send(sent)
        except StopIteration as ended:
            result: T = ended.value
            return result
