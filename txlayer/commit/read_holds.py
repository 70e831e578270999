"""The versions of the catalog and the snapshots that queries and transactions read at this node."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager


class Readers:
    """The queries and transactions that read at this node. A table is dropped only when no query
    can read it; a version of a row is purged only when no snapshot in use needs it."""

    def __init__(self) -> None:
        self._inside: Counter[int] = Counter()
        self._snapshots: dict[int, int] = {}
        self._left = asyncio.Condition()

    @asynccontextmanager
    async def reading(self, version: int) -> AsyncIterator[None]:
        self._inside[version] += 1
        try:
            yield
        finally:
            self._inside[version] -= 1
            async with self._left:
                self._left.notify_all()

    @contextmanager
    def holding(self, at: int) -> Iterator[None]:
        """Keep snapshot `at` from being purged while the context lasts, however long that is."""
        snapshots = self._snapshots
        snapshots[at] = snapshots.get(at, 0) + 1
        try:
            yield
        finally:
            if snapshots[at] == 1:
                del snapshots[at]
            else:
                snapshots[at] -= 1

    def oldest_version(self, newest: int) -> int:
        """The oldest version of the catalog that is read; without readers, `newest`."""
        return min([version for version, n in self._inside.items() if n], default=newest)

    def oldest_snapshot(self) -> int:
        """The oldest snapshot that is read; 0: none."""
        return min(self._snapshots, default=0)

    async def wait_until_past(self, version: int) -> None:
        """Return when no reader of a version below `version` is left."""
        async with self._left:
            await self._left.wait_for(
                lambda: not any(n for v, n in self._inside.items() if v < version)
            )
