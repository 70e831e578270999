"""The changes of relations between two snapshots, and the log segments that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from hornbeam_server.maintain.deltas.batches import SegmentBytes
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.storage.log.following import final_segment
from hornbeam_server.storage.ports import LogReader
from hornbeam_server.storage.source import LogSource
from hornbeam_server.storage.together import some_at_once
from hornbeam_server.txlayer.cluster.segment_positions import LogSegment

READS = 8
"""Maximum number of segments that are read at a time."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The segments of the logs that hold all commits above `after` and at or below `upto`, and
    possibly other commits.

    `catalog` is that of `upto`. It also decodes rows written under earlier catalogs, because
    the places of columns never change. `begun` has the relations that are newer than `after`, with
    the timestamp of their creation: commits before it concern another relation of the same name.
    `loaded` has the relations whose initial load, or copy, ended after `after`, with the timestamp
    of its end: the rows that it put are in no log.
    """

    after: int
    upto: int
    catalog: Catalog
    begun: dict[str, int]
    loaded: dict[str, int]
    source: LogSource
    segments: tuple[LogSegment, ...]

    @property
    def bytes(self) -> int:
        """The size of the segments."""
        return sum(segment.bytes for segment in self.segments)


async def segments_of(found: Changes, reader: LogReader) -> list[SegmentBytes]:
    """The content of the segments. Raises SnapshotTooOld, Corruption, Unavailable."""
    reads = [
        partial(final_segment, reader, one.log, one.epoch, one.sequence, one.bytes)
        for one in found.segments
    ]
    return [
        SegmentBytes(data, one.epoch, one.sequence)
        for data, one in zip(await some_at_once(reads, READS), found.segments, strict=True)
    ]


def begun(catalogs: Sequence[Catalog]) -> dict[str, int]:
    """The relations of the newest catalog that the oldest does not have, with the timestamp of
    their creation. `catalogs` are successive versions, the newest first."""
    newest, found = catalogs[0], dict[str, int]()
    tables = {name: newest.layout(name).table for name in newest.schema.names}
    for later, earlier in pairwise(catalogs):
        known = {earlier.layout(name).table for name in earlier.schema.names}
        for name, table in tables.items():
            if table not in known:
                found.setdefault(name, later.since)
    return found


def loaded(catalogs: Sequence[Catalog]) -> dict[str, int]:
    """The relations whose initial load, or copy, ended between the oldest and the newest of
    `catalogs`, with the timestamp of its end. The rows that it put are in no log. `catalogs` are
    successive versions, the newest first."""
    found: dict[str, int] = {}
    for later, earlier in pairwise(catalogs):
        for name in earlier.load.relations if earlier.load is not None else ():
            if later.load is None and later.layout(name) == earlier.loaded.layout(name):
                found.setdefault(later.stored_name(name), later.since)
        for copy in earlier.copies:
            kept = copy.relation in later.schema
            if kept and later.layout(copy.relation).table == earlier.layout(copy.name).table:
                found.setdefault(later.stored_name(copy.relation), later.since)
    names = catalogs[0].named
    return {names[stored]: since for stored, since in found.items() if stored in names}
