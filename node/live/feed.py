"""The changes that a batch applies: from the ring of this node's commits, else from the logs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hornbeam_server.maintain.deltas.batches import SegmentBytes, SmallBatch
from hornbeam_server.maintain.deltas.zsets import ZSet
from hornbeam_server.node.bulk_access import BulkAccess
from hornbeam_server.node.deferred_views import BatchWork
from hornbeam_server.node.live.outcomes import Left
from hornbeam_server.storage.log.following import final_segment
from hornbeam_server.storage.ports import LogReader
from hornbeam_server.txlayer.commit.change_ring import Applied, ChangeRing, commits_of

SEGMENT_BYTES = 32 << 20
"""Maximum bytes of segments that one batch of a node reads."""

Changes = Callable[[SmallBatch], tuple[dict[str, ZSet], int]]
"""Decodes the changes of a batch, by relation, and counts the changed rows. Pure: it may run in
another thread."""


@dataclass(frozen=True)
class Feed:
    """The changes between two snapshots, of all nodes."""

    bulk: BulkAccess
    reader: LogReader | None
    ring: ChangeRing | None
    """The newest commits, if this node alone commits."""
    watermark: int
    """The ring has all commits at or below it. Above it, a later owner of the log may have more."""

    async def changes(self, work: BatchWork) -> Changes:
        """The changes of a batch. Raises Left if they are too many, SnapshotTooOld, Unsupported,
        Unavailable, Corruption."""
        if not work.refreshed:
            return lambda _: ({}, 0)
        known = work.upto <= self.watermark
        if known and self.ring is not None and self.ring.has(work.as_of):
            await self.bulk.require_logged(work)
            return _of_ring(self.ring.between(work.as_of, work.upto))
        return await self._of_segments(work)

    async def _of_segments(self, work: BatchWork) -> Changes:
        found = await self.bulk.changes(work.as_of, work.upto)
        self.bulk.deferred.require_logged(work, found.loaded)
        size = sum(segment.bytes for segment in found.segments)
        if size > SEGMENT_BYTES:
            raise Left(f"{size >> 20} MB of logs are to be read")
        assert self.reader is not None  # else `changes` has refused
        read = [
            SegmentBytes(
                await final_segment(self.reader, one.log, one.epoch, one.sequence, one.bytes),
                one.epoch,
                one.sequence,
            )
            for one in found.segments
        ]
        return lambda batch: batch.changes(read)


def _of_ring(batches: Iterable[Applied]) -> Changes:
    return lambda batch: batch.changes_of(commits_of(batches))
