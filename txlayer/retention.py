"""Dropping old segments of the log, and whole logs of those who have gone.

A segment may go when everything in it is applied and durable in the store (it lies before the
last checkpoint) and it is older than the retention, during which followers of the log may still
read it.

The log of a member may go when it is recovered, which the assignment says by naming the member no
more, and was taken over longer ago than the retention. Nobody reads it then: outcomes are looked up
in the store, and what is unfinished only at members and while nobody is dead. Its fence needs no
folder: what its owner sends late finds none, and makes none.

The log of somebody who has not joined yet must not be taken for one of these. Who joins shows
itself within `JOIN_S` of beginning to open its log, or gives up; so a name that nobody has borne
for `GONE_S` since its log was seen will never be a member's. All that is measured by monotonic
clocks, and each name is new: neither a jump of wall time nor a leader that was replaced long ago,
or knows an old assignment, removes what is needed.
"""

from __future__ import annotations

from contextlib import aclosing
from itertools import pairwise

from storage.ports import Clock, Coordination, Log, Logs, Position, Segment
from txlayer.assignment import PATH, Assignment
from txlayer.records import Batch, Record
from txlayer.recovery import segment_records

JOIN_S = 30.0
GONE_S = 2 * JOIN_S


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


class GoneLogs:
    """Removes them; for the node that leads."""

    def __init__(
        self, logs: Logs, coordination: Coordination, clock: Clock, retention_s: float
    ) -> None:
        self._logs = logs
        self._coordination = coordination
        self._clock = clock
        self._retention_s = retention_s
        self._gone: dict[str, float] = {}
        """Logs of nobody, and since when they are known to be."""

    async def remove(self) -> int:
        """Remove what may go; returns how many. Raises Unavailable; to be called again and again.

        Each log goes at once or not at all, so that nothing is left half-done.
        """
        touched = await self._logs.touched()
        known = await self._coordination.read(PATH)
        shown = await self._coordination.members()
        if known is None:
            return 0
        named = {*shown, *Assignment.decode(known.value).names}
        now = self._clock.monotonic()
        self._gone = {name: self._gone.get(name, now) for name in touched.keys() - named}
        horizon = self._clock.wall_ms() - int(self._retention_s * 1000)
        old = [
            name
            for name, since in self._gone.items()
            if now - since >= GONE_S and touched[name] < horizon
        ]
        for name in sorted(old):
            await self._logs.remove(name)
        return len(old)


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
