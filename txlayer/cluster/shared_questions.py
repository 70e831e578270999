"""Questions to other members that all who wait for the answer share.

    news(key, 7) ─┐
    news(key, 9) ─┴─▶ ask(key, 7) ─▶ both return

One question is open for each key, after the lowest snapshot that a waiter has named. Its answer
ends it for all: a waiter with a later snapshot may find nothing new. A waiter with an earlier
snapshot than the question's has it asked again, since what lies between the two was no news until
then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass(eq=False)
class _Question:
    """A question that is open, and those who wait for its answer."""

    after: int
    task: asyncio.Task[None]
    waiters: set[asyncio.Future[None]] = field(default_factory=set)


class SharedQuestions(Generic[K]):
    """The open questions of one member by key."""

    def __init__(self, ask: Callable[[K, int], Awaitable[None]]) -> None:
        """`ask(key, after)` returns once there may be news above snapshot `after`."""
        self._ask = ask
        self._open: dict[K, _Question] = {}

    async def news(self, key: K, after: int) -> None:
        """Return once there may be news above snapshot `after`. Raises the errors of `ask`."""
        question = self._open.get(key)
        if question is None:
            question = self._open[key] = _Question(after, self._begun(key, after))
        elif after < question.after:
            question.task.cancel()
            question.after, question.task = after, self._begun(key, after)
        waiter = asyncio.get_running_loop().create_future()
        question.waiters.add(waiter)
        try:
            await waiter
        finally:
            question.waiters.discard(waiter)
            if not question.waiters and self._open.get(key) is question:
                question.task.cancel()
                del self._open[key]

    def _begun(self, key: K, after: int) -> asyncio.Task[None]:
        return asyncio.ensure_future(self._answered(key, after))

    async def _answered(self, key: K, after: int) -> None:
        """Ask, and end the question for its waiters. It is open until then: who leaves it without
        waiters cancels this task."""
        failure: Exception | None = None
        try:
            await self._ask(key, after)
        except Exception as error:
            failure = error
        for waiter in self._open.pop(key).waiters:
            if not waiter.done():
                waiter.set_exception(failure) if failure else waiter.set_result(None)
