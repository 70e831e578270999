"""The changes of relations between two snapshots, for readers of the logs outside the nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.storage.source import LogSource
from hornbeam_server.txlayer.cluster.segment_positions import LogSegment


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


def begun(catalogs: Sequence[Catalog]) -> dict[str, int]:
    """The relations of the newest catalog that the oldest does not have, with the timestamp of
    their creation. `catalogs` are successive versions, the newest first."""
    newest, found = catalogs[0], {}
    for name in newest.schema.names:
        table = newest.layout(name).table
        for later, earlier in pairwise(catalogs):
            if name not in earlier.schema or earlier.layout(name).table != table:
                found[name] = later.since
                break
    return found


def loaded(catalogs: Sequence[Catalog]) -> dict[str, int]:
    """The relations whose initial load, or copy, ended between the oldest and the newest of
    `catalogs`, with the timestamp of its end. The rows that it put are in no log. `catalogs` are
    successive versions, the newest first."""
    found = {}
    for later, earlier in pairwise(catalogs):
        for name in earlier.load.relations if earlier.load is not None else ():
            if later.load is None and later.layout(name) == earlier.loaded.layout(name):
                found[name] = later.since
        for copy in earlier.copies:
            kept = copy.relation in later.schema
            if kept and later.layout(copy.relation).table == earlier.layout(copy.name).table:
                found[copy.relation] = later.since
    return found
