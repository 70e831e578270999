"""Time and ids of one simulated process.

All clocks of a simulation follow its event loop. Each has its own wall time, which may be wrong.
Monotonic time and sleeping are never wrong.
"""

from __future__ import annotations

import asyncio
import random

START_MS = 1_700_000_000_000


class SimulatedClock:
    """A `Clock` on the running loop, `skew_ms` ahead of the true time (negative: behind).

    The wall clock jumps when `skew_ms` is set.
    """

    def __init__(self, *, start_ms: int = START_MS, skew_ms: int = 0) -> None:
        self._loop = asyncio.get_running_loop()
        self.start_ms = start_ms
        self.skew_ms = skew_ms

    def wall_ms(self) -> int:
        return self.start_ms + self.skew_ms + int(self._loop.time() * 1000)

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SimulatedIds:
    """`Ids` from a seeded generator."""

    def __init__(self, generator: random.Random) -> None:
        self._random = generator

    def new(self) -> str:
        return f"{self._random.getrandbits(128):032x}"
