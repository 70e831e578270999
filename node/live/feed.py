"""The changes that a batch applies: from the newest commits in memory, else from the logs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hornbeam_server.maintain.deltas.batches import SegmentBytes, SmallBatch
from hornbeam_server.maintain.deltas.zsets import ZSet
from hornbeam_server.node.bulk_access import BulkAccess
from hornbeam_server.node.deferred_views import BatchWork
from hornbeam_server.node.live.outcomes import Left
from hornbeam_server.storage.log.following import batches_between, changes
from hornbeam_server.txlayer.commit.change_ring import Applied, commits_of
from hornbeam_server.txlayer.commit.newest_commits import NewestCommits

SEGMENT_BYTES = 32 << 20
"""Maximum bytes of segments that one batch of a node reads."""


class Decoded(NamedTuple):
    """The changes of a batch by relation, the number of changed rows, and the timestamp of the
    oldest commit; 0 without commits."""

    rows: Mapping[str, ZSet]
    changed: int
    oldest: int


Changes = Callable[[SmallBatch], Decoded]
"""Decodes the changes of a batch. Pure: it may run in another thread."""


class Fed(NamedTuple):
    """The changes of a batch, not yet decoded. `commits`, in the order of their timestamps, are
    those of which they consist; None: they had to be read from logs."""

    changes: Changes
    commits: Sequence[Applied] | None


NOTHING = Fed(lambda _: Decoded({}, 0, 0), ())


@dataclass(frozen=True)
class Feed:
    """The changes between two snapshots, of all nodes."""

    bulk: BulkAccess
    commits: NewestCommits

    async def of(self, work: BatchWork) -> Fed:
        """The changes of a batch. Raises Left if they are too many, SnapshotTooOld, Unsupported,
        Unavailable, Corruption."""
        if not work.refreshed:
            return NOTHING
        applied = await self.commits.between(work.as_of, work.upto)
        if applied is None:
            return Fed(await self._of_segments(work), None)
        await self.bulk.require_logged(work)
        return of_commits(applied)

    async def _of_segments(self, work: BatchWork) -> Changes:
        found = await self.bulk.changes(work.as_of, work.upto)
        self.bulk.deferred.require_logged(work, found.loaded)
        if found.bytes > SEGMENT_BYTES:
            raise Left(f"{found.bytes >> 20} MB of logs are to be read")
        read = await self.bulk.segments_of(found)
        return lambda batch: _of_segments(batch, read)


def of_commits(applied: Sequence[Applied]) -> Fed:
    """The changes of commits in memory."""
    return Fed(lambda batch: _of_memory(batch, applied), applied)


def _of_segments(batch: SmallBatch, read: Iterable[SegmentBytes]) -> Decoded:
    logged = [
        each for segment in read for each in batches_between(*segment, batch.as_of, batch.upto)
    ]
    commits = (commit for each in logged for commit in changes(each))
    return Decoded(*batch.changes_of(commits), min((each.ts for each in logged), default=0))


def _of_memory(batch: SmallBatch, applied: Sequence[Applied]) -> Decoded:
    rows, count = batch.changes_of(commits_of(applied))
    return Decoded(rows, count, applied[0].ts if applied else 0)
