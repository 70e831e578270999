"""The newest applied changes of one process, for the views that its node keeps, and for those who
subscribe to changes.

A reader asks for the commits between two snapshots. The ring has all commits of the process above
`since`; commits at or below `since` are in the log only. The ring holds the records of commits as
the log has them, and the reader decodes them. It is bounded in bytes: the oldest batches leave
first, and `since` rises.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from hornbeam_server.storage.log.following import Changed, changed
from hornbeam_server.storage.ports import Put

RING_BYTES = 32 << 20
"""Maximum bytes of records in a ring. Log segments have what does not fit."""
_NO_CELLS: Mapping[str, Sequence[Put]] = MappingProxyType({})


class Applied(NamedTuple):
    """One batch: its timestamp, the records of its commits, each in consecutive pieces, and the
    cells of immediate views that it changes, by physical table."""

    ts: int
    commits: Sequence[Sequence[bytes]]
    cells: Mapping[str, Sequence[Put]]
    bytes: int


class ChangeRing:
    """The changes of the newest applied batches of one committer, in the order of timestamps."""

    def __init__(self, since: int) -> None:
        """`since`: a timestamp at or above those of all batches that are applied already."""
        self.since = since
        self._batches: deque[Applied] = deque()
        self._bytes = 0
        self._added = asyncio.Event()

    def add(
        self,
        ts: int,
        commits: Sequence[Sequence[bytes]],
        cells: Mapping[str, Sequence[Put]] = _NO_CELLS,
    ) -> None:
        """Add an applied batch. Its timestamp is above those of all earlier ones."""
        size = sum(len(piece) for pieces in commits for piece in pieces)
        size += sum(len(key) + len(value) for puts in cells.values() for key, value in puts)
        self._batches.append(Applied(ts, commits, cells, size))
        self._bytes += size
        while self._bytes > RING_BYTES:
            oldest = self._batches.popleft()
            self._bytes -= oldest.bytes
            self.since = max(self.since, oldest.ts)
        self._added.set()
        self._added = asyncio.Event()

    def has(self, after: int) -> bool:
        """Does the ring have all commits of its process above snapshot `after`?"""
        return after >= self.since

    def is_current(self, after: int) -> bool:
        """Is it certain that no commit above `after` is applied?"""
        newest = self._batches[-1].ts if self._batches else self.since
        return after >= max(newest, self.since)

    async def news(self, after: int) -> None:
        """Return once a commit above `after` may be applied."""
        while self.is_current(after):
            await self._added.wait()

    def between(self, after: int, upto: int) -> list[Applied]:
        """The batches above snapshot `after` and at or below snapshot `upto`. Requires that the
        ring `has` those above `after`."""
        return [batch for batch in self._batches if after < batch.ts <= upto]


def commits_of(batches: Iterable[Applied]) -> Iterator[Changed]:
    """The commits of batches, decoded. Raises Corruption."""
    for batch in batches:
        for pieces in batch.commits:
            yield changed(batch.ts, b"".join(pieces))
