"""Dropping old segments of the log, and whole logs of those who have gone.

A segment may go when everything in it is applied and durable in the store (it lies before the
last checkpoint) and lies below the *horizon*: followers of the log need nothing of that any more.

The log of a member may go when it is recovered, which the assignment says by naming the member no
more, was taken over before the horizon, and holds no commit above that. Only followers read it
then: outcomes are looked up in the store, and what is unfinished only at members and while nobody
is dead. Its fence needs no folder: what its owner sends late finds none, and makes none.

Followers are told what has gone by the low-water mark (`txlayer/lowwater.py`), which is raised to
the last commit in what is dropped, before it is.

The log of somebody who has not joined yet must not be taken for one of these. Who joins shows
itself within `JOIN_S` of beginning to open its log, or gives up; so a name that nobody has borne
for `GONE_S` since its log was seen will never be a member's. All that is measured by monotonic
clocks, and each name is new: neither a jump of wall time nor a leader that was replaced long ago,
or knows an old assignment, removes what is needed.
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
from hornbeam_server.txlayer.assignment import PATH, Assignment
from hornbeam_server.txlayer.lowwater import LowWater
from hornbeam_server.txlayer.recovery import segment_records

JOIN_S = 30.0
GONE_S = 2 * JOIN_S

_LOG = structlog.get_logger(__name__)


async def drop_old_segments(
    log: Log, checkpointed: Position, horizon: int, low_water: LowWater
) -> int:
    """Drop what may go; returns the number of segments. Seals the open segment when what is in
    it has come of age, so that a quiet database gets rid of its log as well.

    `checkpointed` is where the last durable checkpoint stands (`Committer.checkpointed`).
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
    """Removes them; for the node that leads."""

    def __init__(
        self, logs: Logs, coordination: Coordination, clock: Clock, low_water: LowWater
    ) -> None:
        self._logs = logs
        self._coordination = coordination
        self._clock = clock
        self._low_water = low_water
        self._gone: dict[str, float] = {}
        """Logs of nobody, and since when they are known to be."""

    async def remove(self, horizon: int) -> int:
        """Remove what may go; returns how many. Raises Unavailable; to be called again and again.

        Each log goes at once or not at all, so that nothing is left half-done. One that cannot be
        reached does not keep the others from it.
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
            _LOG.warning("a log of nobody is kept: it is damaged", name=name, error=str(error))
            return False
        if last is not None:
            if last >= horizon:
                return False
            await self._low_water.raise_to(last)
        await self._logs.remove(name)
        return True

    async def _last_commit(self, name: str) -> int | None:
        """None: there is none in it. Raises Corruption."""
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
    """Old, and not empty: sealing an empty segment gains nothing."""
    async with aclosing(segment_records(log, segment)) as inside:
        async for _ in inside:
            return await _last_commit(log, segment, horizon) is not None
    return False


def _ts(record: Record) -> int:
    return record.ts if isinstance(record, Batch) else record.hlc
