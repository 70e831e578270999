"""Virtual time: it passes only when a simulation lets it, and is the same on every run.

All clocks of a simulated cluster share one `VirtualTime`, so one `advance` wakes the sleepers of
all of them in the order of their deadlines. Each clock shows its own wall time, which may be
wrong: `skew_ms` ahead of the true one (negative: behind), and may be set at any moment to let it
jump. Monotonic time and sleeping are never wrong.
"""

from __future__ import annotations

import asyncio
import heapq
from typing import NamedTuple

START_MS = 1_700_000_000_000
_STEPS = 64
"""Turns of the event loop that tasks get between two moments. asyncio does not tell when nothing
is left to run; no chain of awaits between two sleeps is as long as this."""


class _Sleeper(NamedTuple):
    until: float
    number: int
    """Among equal deadlines the first to sleep wakes first."""
    woken: asyncio.Future[None]


class VirtualTime:
    """Seconds since the start of a simulation, and who sleeps in it."""

    def __init__(self) -> None:
        self.now = 0.0
        self._sleepers: list[_Sleeper] = []
        self._number = 0

    async def sleep(self, seconds: float) -> None:
        """Returns once `advance` has passed the deadline; without waiting only for 0 and less."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        self._number += 1
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, _Sleeper(self.now + seconds, self._number, woken))
        await woken

    async def advance(self, seconds: float) -> None:
        """Let `seconds` pass. Whoever wakes meanwhile runs at its own deadline, in order.

        Raises ValueError for less than none.
        """
        if seconds < 0:
            raise ValueError("time never goes back")
        end = self.now + seconds
        await settle()
        while self._sleepers and self._sleepers[0].until <= end:
            sleeper = heapq.heappop(self._sleepers)
            if sleeper.woken.done():  # cancelled
                continue
            self.now = max(self.now, sleeper.until)
            sleeper.woken.set_result(None)
            await settle()
        self.now = end


async def settle() -> None:
    """Let everything run that can run without time passing."""
    for _ in range(_STEPS):
        await asyncio.sleep(0)


class SimulatedClock:
    """A `Clock` of one process; clocks made with the same `time` belong together."""

    def __init__(
        self, time: VirtualTime | None = None, *, start_ms: int = START_MS, skew_ms: int = 0
    ) -> None:
        self.time = time if time is not None else VirtualTime()
        self.start_ms = start_ms
        self.skew_ms = skew_ms

    def wall_ms(self) -> int:
        return self.start_ms + self.skew_ms + int(self.time.now * 1000)

    def monotonic(self) -> float:
        return self.time.now

    async def sleep(self, seconds: float) -> None:
        await self.time.sleep(seconds)

    async def advance(self, seconds: float) -> None:
        """Let time pass for all clocks that share this one's."""
        await self.time.advance(seconds)
