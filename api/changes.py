"""The changes of relations between two snapshots, to be read from the logs beside the nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.storage.source import LogSource
from hornbeam_server.txlayer.following import LogSegment


@dataclass(frozen=True, slots=True)
class Changes:
    """All commits above `after` and at or below `upto` stand in `segments`, among others.

    `catalog` is that of `upto`; rows written under earlier ones are read by it, too, since columns
    are only ever appended. `begun` names the relations that are newer than `after`, and since when
    they are there: what bore such a name before was another relation. Of those in `loaded` the
    rows of an initial load are missing, which was over then.
    """

    after: int
    upto: int
    catalog: Catalog
    begun: dict[str, int]
    loaded: dict[str, int]
    source: LogSource
    segments: tuple[LogSegment, ...]


def begun(catalogs: Sequence[Catalog]) -> dict[str, int]:
    """The relations of the first of successive versions that the last does not have, and since
    when they are there."""
    newest, found = catalogs[0], {}
    for name in newest.schema.names:
        table = newest.layout(name).table
        for later, earlier in pairwise(catalogs):
            if name not in earlier.schema or earlier.layout(name).table != table:
                found[name] = later.since
                break
    return found


def loaded(catalogs: Sequence[Catalog]) -> dict[str, int]:
    """The relations whose initial load has ended between the last of successive versions and the
    first, and when: their rows are in no log."""
    found = {}
    for later, earlier in pairwise(catalogs):
        for name in earlier.load.relations if earlier.load is not None else ():
            if later.load is None and later.layout(name) == earlier.loaded.layout(name):
                found[name] = later.since
    return found
