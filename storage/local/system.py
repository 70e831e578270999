"""Time and ids of the machine."""

from __future__ import annotations

import asyncio
import secrets
import time


class SystemClock:
    """The `Clock` of the machine."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class RandomIds:
    """`Ids` from the system's source of randomness."""

    def new(self) -> str:
        return secrets.token_hex(16)
