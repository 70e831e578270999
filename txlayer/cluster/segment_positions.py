"""The log segments that hold the commits between two snapshots.

Every commit at or below a snapshot S was applied when S was read, so it is in some log. Commits of
members are in sealed segments, once each member has been asked to seal its log; a node that became
a member later has committed nothing at or below S. All other commits are in logs without an owner:
those of dead nodes that are recovered. The order of reads separates such a log from the log of a
joining node: first the list of segments, then the sessions, then the assignment. A joining node
shows itself before it appends. So a log that had a segment, and whose owner has no session and is
not in the assignment afterwards, has no owner, or one that never commits. A node that has a session
and has acknowledged a version of the assignment, but is not in it any more, was recovered, too, and
has not noticed.

The low-water mark is read last: nothing above it was gone when the segments were listed.

In one log the timestamps of commits rise. So the wanted segments of a log are those from the first
that may hold a commit above `after` to the last that holds one at or below `upto`, and it is enough
to look from the end backwards. The timestamps in final segments are cached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from hornbeam_server.schema.errors import Corruption, SnapshotTooOld, Unavailable
from hornbeam_server.storage.log.following import Span, span
from hornbeam_server.storage.log.format import is_sealed, segment_name
from hornbeam_server.storage.log.segments import require_no_gap
from hornbeam_server.storage.ports import Coordination, LogReader, Logs
from hornbeam_server.storage.together import some_at_once
from hornbeam_server.txlayer.cluster.assignment import PATH, Assignment, Word
from hornbeam_server.txlayer.cluster.low_water_mark import LowWater

SegmentId = tuple[int, int]
"""The epoch and the sequence number of a segment."""
LOGS = 8
"""Maximum number of logs that are looked at a time."""


@dataclass(frozen=True, slots=True)
class LogSegment:
    """A final segment: no node appends to it any more. `bytes` is its size."""

    log: str
    epoch: int
    sequence: int
    bytes: int


@dataclass(frozen=True, slots=True)
class _Known:
    span: Span | None
    bytes: int


class Following:
    """One node's search for the segments that hold given commits."""

    def __init__(
        self, reader: LogReader, logs: Logs | None, coordination: Coordination, low_water: LowWater
    ) -> None:
        """`logs` are the logs of all present and former members; None where there is one log."""
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
        before the members sealed their logs. `sealed` has each member's first unsealed segment.

        Raises SnapshotTooOld when some segments may be gone, Unavailable, Corruption.
        """
        async with self._one:
            listed = await self._ownerless(sealed)
            listed |= {
                name: [segment for segment in segments if segment < sealed[name]]
                for name, segments in (await self._listed(sealed)).items()
            }
            for segments in listed.values():
                require_no_gap(segments)
            wanted = [
                partial(self._wanted, name, segments, sealed.get(name), after, upto)
                for name, segments in listed.items()
            ]
            found = await some_at_once(wanted, LOGS)
            await self._require_kept(after)
            self._forget_dropped(listed)
            return [segment for segments in found for segment in segments]

    async def _listed(self, names: Collection[str]) -> dict[str, list[SegmentId]]:
        listed = await some_at_once([partial(self._reader.segments, name) for name in names], LOGS)
        return dict(zip(names, listed, strict=True))

    async def _ownerless(self, members: Collection[str]) -> dict[str, list[SegmentId]]:
        """The segments of logs without an owner. The module docstring has the order of reads."""
        if self._logs is None:
            return {}
        names = [name for name in await self._logs.touched() if name not in members]
        listed = await self._listed(names)
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
                cure="Read the relations again, and their changes from then on; or keep logs for"
                " longer: log_retention_s.",
                kept_from=mark,
            )

    def _forget_dropped(self, listed: Mapping[str, Sequence[SegmentId]]) -> None:
        there = {(name, *segment) for name, segments in listed.items() for segment in segments}
        self._known = {place: known for place, known in self._known.items() if place in there}
