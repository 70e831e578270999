"""The oracle: at every commit, every view and index equals its definition over the base rows.

The logs hold what was committed, with all bytes that were written. The oracle replays them
together, timestamp by timestamp; several nodes may commit at one timestamp, and no snapshot lies in
between. After each timestamp it recomputes from the base rows the views whose own rows or base rows
have changed. At the end the store must hold exactly what the logs say, and so must every snapshot
that was read meanwhile.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from operator import attrgetter

from hornbeam_server.maintain.recompute import recompute
from hornbeam_server.node.database import Database
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.types import Row
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.storage.log.format import scan_segment
from hornbeam_server.storage.log.records import Batch, Commit, commits, decode, merged_writes
from hornbeam_server.storage.ports import NEWEST, TOMBSTONE
from hornbeam_server.storage.snapshot import ReadItem
from tests.sim.simulated_cluster import Cluster


async def check_every_commit(
    cluster: Cluster, database: Database, acknowledged: Mapping[str, int]
) -> None:
    """Raises AssertionError with the commit at which something differs. `acknowledged` has the
    commit timestamps that clients know, by transaction id."""
    catalog, codecs = database.catalog, database.manager.state.codecs
    maintained = [n for n in (*catalog.view, *catalog.index) if catalog.maintained(n)]
    names = {codecs(name).layout.table: name for name in (*catalog.schema.names, *maintained)}
    rows = {name: {} for name in names.values()}
    reads = {name: {name, *_bases(catalog, name)} for name in maintained}
    changed = set(rows)
    reported = dict(acknowledged)
    for ts, at_once in groupby(every_batch(cluster), key=attrgetter("ts")):
        for batch in at_once:
            for commit in commits(batch):
                changed |= _take(commit, names, codecs, rows)
                at = reported.pop(commit.transaction_id.hex(), ts)
                assert at == ts, f"committed at {ts}, and its client got {at}"
        stale = [name for name in maintained if not reads[name].isdisjoint(changed)]
        base = {name: list(rows[name].values()) for name in catalog.schema.names}
        for name in stale:
            expected = Counter(recompute(catalog, base, name))
            assert Counter(rows[name].values()) == expected, f"{name} at {ts}"
        changed.clear()
    assert not reported, f"acknowledged, and not in a log: {sorted(reported)[:3]}"
    for name, expected in rows.items():
        cells = cluster.tables.chunk(codecs(name).layout.table, b"", None, NEWEST, False, 1 << 30)
        found = {cell.key: codecs(name).decode(cell.value) for cell in cells}
        assert found == expected, f"the store's {name} is not what the log says"


def _take(
    commit: Commit, names: Mapping[str, str], codecs: Codecs, rows: Mapping[str, dict[bytes, Row]]
) -> set[str]:
    """Apply the writes of a commit to `rows`; return the names of the changed relations and
    views."""
    changed = {names[table]: puts for table, puts in commit.writes.items() if table in names}
    for name, puts in changed.items():
        codec, stored = codecs(name), rows[name]
        for put in puts:
            if put.value == TOMBSTONE:
                stored.pop(put.key, None)
            else:
                stored[put.key] = codec.decode(put.value)
    return set(changed)


def _bases(catalog: Catalog, name: str) -> Sequence[str]:
    """The base relations of a view or index."""
    source = catalog.layout(name).source
    return catalog.view[source].path if source in catalog.view else (source,)


def check_every_snapshot(
    cluster: Cluster, database: Database, seen: Iterable[tuple[int, Sequence[ReadItem]]]
) -> None:
    """Raises AssertionError unless each row that was read at a snapshot is the newest in the logs
    at or below it, however late it came into a log."""
    codecs, names = database.manager.state.codecs, database.catalog.schema.names
    tables = {name: codecs(name).layout.table for name in names}
    written: dict[tuple[str, bytes], list[tuple[int, bool]]] = {}
    for batch in every_batch(cluster):
        for table, puts in merged_writes(c.writes for c in commits(batch)).items():
            for put in puts:
                there = put.value != TOMBSTONE
                written.setdefault((table, put.key), []).append((batch.ts, there))
    for at, items in seen:
        for item in items:
            if item.layout in tables:
                versions = written.get((tables[item.layout], item.key), [])
                place = bisect_right(versions, (at, True))
                ts, there = versions[place - 1] if place else (None, False)
                assert item.ts == (ts if there else None), (
                    f"{item.layout} was read at {at} in version {item.ts}, and the log has {ts}"
                )


def every_batch(cluster: Cluster) -> list[Batch]:
    """All batches, in the order of their timestamps, which is also the order of each log."""
    found: list[Batch] = []
    for segments in cluster.whole_logs().values():
        of_one = list(_batches_of(segments))
        for before, after in pairwise(of_one):
            assert before.ts < after.ts, f"commit {after.ts} follows {before.ts} in the log"
        found += of_one
    return sorted(found, key=attrgetter("ts"))


def _batches_of(segments: Mapping[str, bytes]) -> Iterator[Batch]:
    for name, data in sorted(segments.items()):
        for payload, _ in scan_segment(data, name).frames:
            record = decode(payload)
            if isinstance(record, Batch):
                yield record
