"""Retention drops old segments of the log, and whole logs of members that have gone.

A segment may be dropped when all its batches are applied and durable in the store (it lies before
the last checkpoint) and lie below the *horizon*: followers of the log no longer need it then.

The log of a former member may be removed when it is recovered (the assignment no longer names the
member), was taken over before the horizon, and holds no commit at or above the horizon. Only
followers read such a log: outcomes are looked up in the store, and unfinished transactions at
members, while no member is dead. The fence needs no folder: a late write of the former owner finds
none, and creates none.

Followers learn of dropped segments by the low-water mark (`txlayer/cluster/low_water_mark.py`). It
is raised to the last commit in a segment or log before that is dropped.

The log of a node that has not joined yet must not be removed. A joining node opens its session
within `JOIN_S` after it began to open its log, or gives up. So a name that has had no session for
`GONE_S` since its log was found will never be a member's. These times are measured by monotonic
clocks, and each name is new. So neither a jump of wall time nor a leader that was replaced long
ago, or knows an old assignment, removes a log that is needed.
"""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from itertools import pairwise

import structlog

from hornbeam_server.schema.errors import Corruption
from hornbeam_server.storage.log.following import span
from hornbeam_server.storage.log.records import Batch, Record
from hornbeam_server.storage.ports import START, Clock, Coordination, Log, Logs, Position, Segment
from hornbeam_server.storage.together import all_tried
from hornbeam_server.txlayer.cluster.assignment import PATH, Assignment
from hornbeam_server.txlayer.cluster.low_water_mark import LowWater
from hornbeam_server.txlayer.commit.recovery import segment_records

JOIN_S = 30.0
GONE_S = 2 * JOIN_S

_LOG = structlog.get_logger(__name__)


async def drop_old_segments(
    log: Log, checkpointed: Position, horizon: int, low_water: LowWater
) -> int:
    """Drop the segments that are not needed any more; returns their number. Seals the open segment
    when all its records are below the horizon, so that an idle database drops its log too.

    All batches before `checkpointed` are applied and durable (`Committer.checkpointed`). Raises
    Corruption, Unavailable.
    """
    segments = await log.segments()
    if segments and not segments[-1].sealed and await _has_come_of_age(log, segments[-1], horizon):
        await log.roll()
        segments = await log.segments()
    last_commit, upto = 0, START
    for segment, following in pairwise(segments):
        end = Position(following.epoch, following.sequence, 0)
        if end[:2] > checkpointed[:2]:
            break
        last = await _last_commit(log, segment, horizon)
        if last is None:
            break
        last_commit, upto = max(last, last_commit), end
    if upto == START:
        return 0
    if last_commit:
        await low_water.raise_to(last_commit)
    return await log.drop_before(upto)


class GoneLogs:
    """The removal of logs of members that have gone; the leader does it."""

    def __init__(
        self, logs: Logs, coordination: Coordination, clock: Clock, low_water: LowWater
    ) -> None:
        self._logs = logs
        self._coordination = coordination
        self._clock = clock
        self._low_water = low_water
        self._gone: dict[str, float] = {}
        """When a log was first found without an owner (monotonic seconds), by name."""

    async def remove(self, horizon: int) -> int:
        """Remove the logs that are not needed any more; returns their number. To be called
        repeatedly. Raises Unavailable.

        Each log is removed in one step. A log that cannot be reached does not prevent the removal
        of the others.
        """
        touched = await self._logs.touched()
        known = await self._coordination.read(PATH)
        shown = await self._coordination.members()
        if known is None:
            return 0
        named = {*shown, *Assignment.decode(known.value).names}
        now = self._clock.monotonic()
        self._gone = {name: self._gone.get(name, now) for name in touched.keys() - named}
        old = [
            name
            for name, since in self._gone.items()
            if now - since >= GONE_S and touched[name] < horizon
        ]
        removed = 0

        async def remove(name: str) -> None:
            nonlocal removed
            removed += await self._remove(name, horizon)

        await all_tried(partial(remove, name) for name in sorted(old))
        return removed

    async def _remove(self, name: str, horizon: int) -> bool:
        try:
            last = await self._last_commit(name)
        except Corruption as error:
            _LOG.warning("an ownerless log is kept: it is damaged", name=name, error=str(error))
            return False
        if last is not None:
            if last >= horizon:
                return False
            await self._low_water.raise_to(last)
        await self._logs.remove(name)
        return True

    async def _last_commit(self, name: str) -> int | None:
        """The timestamp of the last commit in a log. None: it has no commit. Raises Corruption."""
        for epoch, sequence in reversed(await self._logs.segments(name)):
            data = await self._logs.read(name, epoch, sequence)
            found = None if data is None else span(data, epoch, sequence)
            if found is not None:
                return found.last
        return None


async def _last_commit(log: Log, segment: Segment, horizon: int) -> int | None:
    """The timestamp of the segment's last commit, 0 if it has none, if all of its records are older
    than `horizon`; else None. Reads no further than needed."""
    last = 0
    async with aclosing(segment_records(log, segment)) as inside:
        async for _, record in inside:
            if _ts(record) >= horizon:
                return None
            if isinstance(record, Batch):
                last = record.ts
    return last


async def _has_come_of_age(log: Log, segment: Segment, horizon: int) -> bool:
    """Does the segment have records, all of them older than `horizon`? An empty segment does not
    count: to seal it gains nothing."""
    async with aclosing(segment_records(log, segment)) as inside:
        async for _ in inside:
            return await _last_commit(log, segment, horizon) is not None
    return False


def _ts(record: Record) -> int:
    return record.ts if isinstance(record, Batch) else record.hlc
