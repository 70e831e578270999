"""Fair scheduling: which statements run and which wait.

A *place* is the right to run a worker. The number of places is small because processors are few.
These rules let a short statement start soon, regardless of the other clients' load:

1. A free place goes to the waiting client that holds the fewest places; among those, to the one
   that has waited longest.
2. A statement that has run for `QUICK_S` seconds is *long*. While other statements wait, at least
   one place is kept free of long statements. If long statements hold all places, the youngest
   restartable one of the client with the most places is stopped. It restarts when fewer long
   statements run.
3. A place is freed when its statement's time limit is over: the worker is killed then.

The state is kept without I/O; `now` and `call_later` are arguments.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextvars import ContextVar
from typing import Protocol

CLIENT: ContextVar[str] = ContextVar("client", default="")
"""The client for which the current task works: places are shared fairly among clients."""
QUICK_S = 0.5


class Preempted(Exception):
    """The statement was stopped in favour of others before its first row. The caller may restart it
    as a long statement."""


class Timer(Protocol):
    def cancel(self) -> None: ...


class Place:
    """The right of one statement to run its worker. `stop` ends the statement; it is None while
    the statement cannot be stopped."""

    def __init__(self, client: str, since: float, *, long: bool) -> None:
        self.client = client
        self.since = since
        self.known_long = long
        self.stop: Callable[[], None] | None = None
        self.preempted = False


class Places:
    """The places of one worker pool. All methods are called from one event loop."""

    def __init__(
        self,
        number: int,
        now: Callable[[], float],
        call_later: Callable[[float, Callable[[], None]], Timer],
        *,
        quick_s: float = QUICK_S,
    ) -> None:
        """Use at least 2 places: one for short statements, one for long statements."""
        self._number = max(number, 2)
        self._now = now
        self._call_later = call_later
        self._quick_s = quick_s
        self._held: set[Place] = set()
        self._waiting: OrderedDict[asyncio.Future[Place], tuple[str, bool]] = OrderedDict()
        self._timer: Timer | None = None

    async def take(self, client: str, *, long: bool = False) -> Place:
        """Wait for a place; the caller gives it back. `long`: the statement is known to be long."""
        if not self._waiting and self._admits(long):
            return self._hold(client, long)
        future: asyncio.Future[Place] = asyncio.get_running_loop().create_future()
        self._waiting[future] = client, long
        self._share()
        try:
            return await future
        except asyncio.CancelledError:
            self._waiting.pop(future, None)
            if future.done() and not future.cancelled():
                self.give_back(future.result())
            raise

    def give_back(self, place: Place) -> None:
        """Release `place` and let the next statement run. Idempotent."""
        self._held.discard(place)
        self._share()

    def _share(self) -> None:
        """Assign free places to waiting statements. If all places are held, see `_make_room`."""
        held = Counter(place.client for place in self._held)
        while (chosen := self._next(held)) is not None:
            client, long = self._waiting.pop(chosen)
            chosen.set_result(self._hold(client, long))
            held[client] += 1
        self._make_room()

    def _next(self, held: Counter[str]) -> asyncio.Future[Place] | None:
        waiting = self._waiting.items()  # a done future was cancelled; `take` removes it
        fitting = [f for f, (_, long) in waiting if not f.done() and self._admits(long)]
        return min(fitting, key=lambda future: held[self._waiting[future][0]], default=None)

    def _admits(self, long: bool) -> bool:
        return len(self._held) < self._number and not (long and self._longs() >= self._number - 1)

    def _longs(self) -> int:
        return sum(map(self._is_long, self._held))

    def _is_long(self, place: Place) -> bool:
        return place.known_long or self._now() - place.since >= self._quick_s

    def _hold(self, client: str, long: bool) -> Place:
        place = Place(client, self._now(), long=long)
        self._held.add(place)
        return place

    def _make_room(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if all(long for _, long in self._waiting.values()) or len(self._held) < self._number:
            return
        if any(place.preempted for place in self._held):
            return  # the preempted statement frees its place soon
        young = [place.since for place in self._held if not self._is_long(place)]
        if young:
            wait = max(young) + self._quick_s - self._now()
            self._timer = self._call_later(max(wait, 0.001), self._make_room)
            return
        held = Counter(place.client for place in self._held)
        stoppable = [place for place in self._held if place.stop is not None]
        if stoppable:
            victim = max(stoppable, key=lambda place: (held[place.client], place.since))
            victim.preempted = True
            assert victim.stop is not None
            victim.stop()
        else:  # all statements already return rows and cannot restart: check again later
            self._timer = self._call_later(self._quick_s, self._make_room)
