"""The gate that admits either many transactions or one schema change.

Writers pass one by one and are counted; a schema change closes the gate, waits until those
inside have left, and opens it again. A schema change is short: the long work (building views)
happens with the gate open.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hornbeam_server.schema.errors import Unavailable


class Gate:
    """Shared entry for transactions, exclusive closing for a schema change."""

    def __init__(self) -> None:
        self._inside = 0
        self._open = asyncio.Event()
        self._open.set()
        self._empty = asyncio.Event()
        self._empty.set()
        self._closing = asyncio.Lock()
        self._over = False

    async def enter(self, deadline: float | None = None) -> None:
        """Wait until the gate is open, and enter. Raises Unavailable at the deadline, in seconds of
        the event loop's clock, and after `end`."""
        if not self._open.is_set():
            await self._wait_until_open(deadline)
        if self._over:
            raise _closed("This node has ended")
        self._inside += 1
        self._empty.clear()

    async def _wait_until_open(self, deadline: float | None) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                while not self._open.is_set():
                    await self._open.wait()
        except TimeoutError:
            raise _closed("The schema is being changed") from None

    def end(self) -> None:
        """Refuse all transactions from now on, including those that wait."""
        self._over = True
        self._open.set()

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
        """Admit no more transactions; those inside go on. Idempotent."""
        self._open.clear()

    def open(self) -> None:
        """Admit transactions again. Idempotent."""
        self._open.set()

    @asynccontextmanager
    async def closed(self) -> AsyncIterator[None]:
        """Keep all transactions out while the context lasts; waits until those inside have left."""
        async with self._closing:
            self.close()
            try:
                await self._empty.wait()
                yield
            finally:
                self.open()


def _closed(why: str) -> Unavailable:
    return Unavailable(f"{why}; nothing was written.", cure="Try again.")
