"""What was committed between two snapshots: in which segments of which logs it stands.

Everything at or below a snapshot S was applied when S was read, so it stands in some log. Of the
logs of members it stands in sealed segments, once each has been asked to seal its own; who became
a member later has committed nothing at or below S. All other commits are in logs that are nobody's
any more: those of the dead that are recovered. Such a log is told from one of somebody who is about
to join by the order in which things are looked at: which segments there are, then who has a
session, then the assignment. Who joins shows itself before it appends; so a log that had a segment,
and whose owner neither has a session nor is in the assignment then, has no owner, or one that never
commits. Who has a session, and has acknowledged a version of the assignment while it names him no
more, was recovered, too, and has not noticed.

The low-water mark is read last: nothing above it was gone when the segments were listed.

In one log the timestamps of commits rise. So of its segments those from the first that may hold a
commit above `after` to the first that holds one above `upto` are wanted, and it is enough to look
from the end backwards. What is in a segment to which nobody appends any more is remembered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from schema.errors import Corruption, SnapshotTooOld, Unavailable
from storage.log.following import Span, span
from storage.log.format import is_sealed, segment_name
from storage.log.segments import require_no_gap
from storage.ports import Coordination, LogReader, Logs
from txlayer.assignment import PATH, Assignment, Word
from txlayer.lowwater import LowWater

SegmentId = tuple[int, int]
"""Epoch and sequence."""


@dataclass(frozen=True, slots=True)
class LogSegment:
    """One to which nobody appends any more; it has so many bytes."""

    log: str
    epoch: int
    sequence: int
    bytes: int


@dataclass(frozen=True, slots=True)
class _Known:
    span: Span | None
    bytes: int


class Following:
    """Of one node."""

    def __init__(
        self, reader: LogReader, logs: Logs | None, coordination: Coordination, low_water: LowWater
    ) -> None:
        """`logs` are those of all who ever were members, if there are several."""
        self._reader = reader
        self._logs = logs
        self._coordination = coordination
        self._low_water = low_water
        self._known: dict[tuple[str, int, int], _Known] = {}
        self._one = asyncio.Lock()

    async def between(
        self, after: int, upto: int, sealed: Mapping[str, SegmentId]
    ) -> list[LogSegment]:
        """All segments with commits above `after` and at or below `upto`, a snapshot that was read
        before the members sealed their logs; `sealed` says before which segment each of them did.

        Raises SnapshotTooOld when some may be gone, Unavailable, Corruption.
        """
        async with self._one:
            listed = await self._of_nobody(sealed)
            for name, end in sealed.items():
                listed[name] = [s for s in await self._reader.segments(name) if s < end]
            found: list[LogSegment] = []
            for name, segments in listed.items():
                require_no_gap(segments)
                found += await self._wanted(name, segments, sealed.get(name), after, upto)
            await self._require_kept(after)
            self._forget_dropped(listed)
            return found

    async def _of_nobody(self, members: Collection[str]) -> dict[str, list[SegmentId]]:
        """Segments of the logs that nobody owns any more; see above for the order."""
        if self._logs is None:
            return {}
        names = [name for name in await self._logs.touched() if name not in members]
        listed = {name: await self._reader.segments(name) for name in names}
        shown = await self._coordination.members()
        known = await self._coordination.read(PATH)
        named = Assignment.decode(known.value).names if known is not None else set()
        words = {name: Word.decode(data) for name, data in shown.items()}
        joining = {name for name, word in words.items() if word is not None and not word.version}
        return {name: found for name, found in listed.items() if name not in named | joining}

    async def _wanted(
        self, log: str, segments: list[SegmentId], end: SegmentId | None, after: int, upto: int
    ) -> list[LogSegment]:
        last = dict(segments)  # epoch → its last sequence
        found: list[LogSegment] = []
        for epoch, sequence in reversed(segments):
            owned = end is not None and epoch == end[0]
            must_end = owned or sequence != last[epoch]
            known = await self._look(log, epoch, sequence, must_end=must_end)
            if known.span is None or known.span.first > upto:
                continue
            if known.span.last > after:
                found.append(LogSegment(log, epoch, sequence, known.bytes))
            if known.span.first <= after:
                break
        return found[::-1]

    async def _look(self, log: str, epoch: int, sequence: int, *, must_end: bool) -> _Known:
        place = (log, epoch, sequence)
        known = self._known.get(place)
        if known is None:
            data = await self._reader.read(*place)
            if data is None:
                raise Unavailable("A log was cut while it was looked at.", cure="Ask again.")
            name = segment_name(epoch, sequence)
            if must_end and not is_sealed(data, epoch, sequence):
                raise Corruption(
                    f"Segment {name} of log {log} has no seal.", position=f"{name}:{len(data)}"
                )
            found = await asyncio.to_thread(span, data, epoch, sequence)
            known = self._known[place] = _Known(found, len(data))
        return known

    async def _require_kept(self, after: int) -> None:
        mark = await self._low_water.read()
        if mark is None or after < mark:
            raise SnapshotTooOld(
                f"Changes after {after} are not all in the logs any more: they are kept from"
                f" {mark} on.",
                cure="Read the relations anew, and their changes from then on; or keep logs for"
                " longer: log_retention_s.",
                kept_from=mark,
            )

    def _forget_dropped(self, listed: Mapping[str, Sequence[SegmentId]]) -> None:
        there = {(name, *segment) for name, segments in listed.items() for segment in segments}
        self._known = {place: known for place, known in self._known.items() if place in there}
