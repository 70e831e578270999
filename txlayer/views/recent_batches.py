"""The rows that the last batches of live and deferred views have put, as far as this node knows
them: it did them, or has asked the node that did."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Mapping
from typing import NamedTuple

KEPT_BYTES = 4 << 20
"""Maximum bytes of keys that are kept for a group."""
KEY_BYTES = 60
"""The memory of an object of bytes besides its content."""


class Batch(NamedTuple):
    """A batch from snapshot `after` to `upto`, with the keys of the rows that it has put, by
    physical table."""

    after: int
    upto: int
    keys: Mapping[str, Collection[bytes]]
    bytes: int


class RecentBatches:
    """The last batches of one group, the oldest first."""

    def __init__(self) -> None:
        self._batches: deque[Batch] = deque()
        self._bytes = 0
        self._news = asyncio.Event()
        self.finished = 0
        """The snapshot of the last batch that was finished through this node."""

    def tell(self, upto: int) -> None:
        """The batch to snapshot `upto` is finished, through this node."""
        self.finished = max(self.finished, upto)
        self._news.set()
        self._news = asyncio.Event()

    async def news(self) -> None:
        """Return when the next batch is finished."""
        await self._news.wait()

    def add(self, after: int, upto: int, keys: Mapping[str, Collection[bytes]]) -> None:
        if any((batch.after, batch.upto) == (after, upto) for batch in self._batches):
            return
        size = sum(len(key) + KEY_BYTES for some in keys.values() for key in some)
        self._batches.append(Batch(after, upto, keys, size))
        self._bytes += size
        while self._bytes > KEPT_BYTES:
            self._bytes -= self._batches.popleft().bytes

    def above(self, after: int) -> list[Batch]:
        """The batches that end above a snapshot."""
        return [batch for batch in self._batches if batch.upto > after]

    def between(self, after: int, upto: int, table: str) -> set[bytes] | None:
        """The keys in a table that were put by the batches from snapshot `after` to `upto`; None if
        this node does not know all of them any more."""
        found: set[bytes] = set()
        for batch in self._batches:
            if batch.after == after:
                found.update(batch.keys.get(table, ()))
                after = batch.upto
        return found if after == upto else None
