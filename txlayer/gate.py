"""Many transactions or one schema change: the gate between them.

Writers pass one by one and are counted; a schema change closes the gate, waits until those
inside have left, and opens it again. A schema change is short: the long work (building views)
happens with the gate open.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Gate:
    """Shared passage, exclusive closing."""

    def __init__(self) -> None:
        self._inside = 0
        self._open = asyncio.Event()
        self._open.set()
        self._empty = asyncio.Event()
        self._empty.set()
        self._closing = asyncio.Lock()

    async def enter(self) -> None:
        while not self._open.is_set():
            await self._open.wait()
        self._inside += 1
        self._empty.clear()

    def leave(self) -> None:
        self._inside -= 1
        if self._inside == 0:
            self._empty.set()

    @property
    def inside(self) -> int:
        return self._inside

    @property
    def is_open(self) -> bool:
        return self._open.is_set()

    def close(self) -> None:
        """Nobody enters any more; those inside go on. Idempotent."""
        self._open.clear()

    def open(self) -> None:
        """Idempotent."""
        self._open.set()

    @asynccontextmanager
    async def closed(self) -> AsyncIterator[None]:
        """Nobody is inside, and nobody enters, while the context lasts."""
        async with self._closing:
            self.close()
            try:
                await self._empty.wait()
                yield
            finally:
                self.open()
