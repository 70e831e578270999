"""Concurrent requests share one call, as transactions share one append in group commit.

While a call of a route is on its way, new requests for that route are collected, and leave with the
next call. On a free route the next call leaves at once, with all requests of the same turn of the
event loop; so a single request waits for no other. Nor does a request wait long for a slow call,
perhaps for a region that is away: the next call then starts without waiting for it. A request is
never answered by a call that left before it.

Each request is answered as if it were alone. A refused call is repeated for each of its requests,
since one of them may be the cause; any other failure fails all of them. If a request is cancelled,
the call goes on for the others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.storage.hbase.gateways import CallFailed

Route = TypeVar("Route", bound=Hashable)
Item = TypeVar("Item")
Answer = TypeVar("Answer")
PATIENCE_S = 0.05
"""Several times the duration of a shared call when nothing is wrong, in seconds."""


@dataclass(eq=False, slots=True)
class _Asked(Generic[Item, Answer]):
    items: Sequence[Item]
    since: float
    answers: asyncio.Future[list[Answer]]


class SharedCalls(Generic[Route, Item, Answer]):
    """`send` makes one call on a route, and returns an answer for each of its items, in order."""

    def __init__(
        self,
        send: Callable[[Route, list[Item]], Awaitable[list[Answer]]],
        timeout_s: float,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """A request that has waited longer than `timeout_s` is not sent. A call occupies its route
        for `patience_s` at most."""
        self._send = send
        self._timeout_s = timeout_s
        self._patience_s = patience_s
        self._waiting: dict[Route, list[_Asked[Item, Answer]]] = {}
        """The waiting requests of each route that has a call on its way or about to leave."""
        self._under_way: set[asyncio.Task[None]] = set()

    def ask(self, route: Route, items: Sequence[Item]) -> asyncio.Future[list[Answer]]:
        """The answers to `items`, or the error of `send`. Cancelling the future withdraws the
        request."""
        loop = asyncio.get_running_loop()
        asked: _Asked[Item, Answer] = _Asked(items, time.monotonic(), loop.create_future())
        if route in self._waiting:
            self._waiting[route].append(asked)
        else:
            self._waiting[route] = [asked]
            loop.call_soon(self._leave, route)
        return asked.answers

    async def finish(self) -> None:
        """Return when no call is on its way or about to leave."""
        while self._waiting or self._under_way:
            if self._under_way:
                await asyncio.wait(self._under_way)
            else:
                await asyncio.sleep(0)

    def _leave(self, route: Route) -> None:
        """Send the requests that wait on a free route; later requests wait for the next call. There
        is one task per call and none per route, which would cost as much again."""
        sharing = [one for one in self._waiting[route] if self._is_wanted(one)]
        if not sharing:
            del self._waiting[route]
            return
        self._waiting[route] = []
        call = asyncio.ensure_future(self._share(route, sharing))
        self._under_way.add(call)
        call.add_done_callback(self._under_way.discard)

        def go_on(_: object = None) -> None:
            """Free the route when the call has ended or `patience_s` has passed, whichever comes
            first."""
            if not patience.cancelled():
                patience.cancel()
                self._leave(route)

        patience = asyncio.get_running_loop().call_later(self._patience_s, go_on)
        call.add_done_callback(go_on)

    async def _share(self, route: Route, sharing: Sequence[_Asked[Item, Answer]]) -> None:
        try:
            answers = await self._send(route, [item for one in sharing for item in one.items])
        except CallFailed as failed:
            if failed.refused and len(sharing) > 1:
                wanted = [one for one in sharing if self._is_wanted(one)]
                await asyncio.gather(*(self._share(route, [one]) for one in wanted))
            else:
                _fail(sharing, failed)
        except asyncio.CancelledError:
            for one in sharing:
                one.answers.cancel()
            raise
        except Exception as error:
            _fail(sharing, error)
        else:
            _hand_out(sharing, answers)

    def _is_wanted(self, one: _Asked[Item, Answer]) -> bool:
        if one.answers.done():
            return False
        if time.monotonic() - one.since > self._timeout_s:
            _fail([one], Unavailable("HBase is too slow: the calls before took too long."))
            return False
        return True


def _hand_out(sharing: Sequence[_Asked[Item, Answer]], answers: list[Answer]) -> None:
    begin = 0
    for one in sharing:
        end = begin + len(one.items)
        if not one.answers.done():
            one.answers.set_result(answers[begin:end])
        begin = end


def _fail(sharing: Sequence[_Asked[Item, Answer]], error: Exception) -> None:
    for one in sharing:
        if not one.answers.done():
            one.answers.set_exception(error)
