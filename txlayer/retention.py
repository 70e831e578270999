"""Dropping old segments of the log.

A segment may go when everything in it is applied and durable in the store (it lies before the
last checkpoint) and it is older than the retention, during which followers of the log may still
read it.
"""

from __future__ import annotations

from contextlib import aclosing
from itertools import pairwise

from storage.ports import Clock, Log, Position, Segment
from txlayer.records import Batch, Record
from txlayer.recovery import segment_records


async def drop_old_segments(
    log: Log, checkpointed: Position, retention_s: float, clock: Clock
) -> int:
    """Drop what may go; returns the number of segments. Seals the open segment when what is in
    it has come of age, so that a quiet database gets rid of its log as well.

    `checkpointed` is where the last durable checkpoint stands (`Committer.checkpointed`).
    """
    horizon = clock.wall_ms() - int(retention_s * 1000)
    segments = await log.segments()
    if segments and not segments[-1].sealed and await _has_come_of_age(log, segments[-1], horizon):
        await log.roll()
        segments = await log.segments()
    keep_from: Position | None = None
    for segment, following in pairwise(segments):
        if not await _is_old(log, segment, horizon):
            break
        keep_from = Position(following.epoch, following.sequence, 0)
    return await log.drop_before(min(keep_from, checkpointed)) if keep_from else 0


async def _is_old(log: Log, segment: Segment, horizon: int) -> bool:
    """Are all of the segment's records older than `horizon`? Reads no further than needed."""
    async with aclosing(segment_records(log, segment)) as inside:
        async for _, record in inside:
            if _ts(record) >= horizon:
                return False
    return True


async def _has_come_of_age(log: Log, segment: Segment, horizon: int) -> bool:
    """Old, and not empty: sealing an empty segment gains nothing."""
    async with aclosing(segment_records(log, segment)) as inside:
        async for _ in inside:
            return await _is_old(log, segment, horizon)
    return False


def _ts(record: Record) -> int:
    return record.ts if isinstance(record, Batch) else record.hlc
