"""The oracle: at every commit, every view and index equals its definition over the base rows.

The log holds what was committed, in order, with all bytes that were written. It is replayed here
batch by batch; after each the views that it could have changed are recomputed from the base rows:
those whose own rows or base rows are in it. At the end the store must
hold exactly what the log says, and so must have every snapshot that was read meanwhile.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence

from simulated_cluster import Cluster

from api.database import Database
from maintain.recompute import recompute
from schema.catalog import Catalog
from storage.log.format import scan_segment
from storage.ports import NEWEST, TOMBSTONE
from storage.snapshot import ReadItem
from txlayer.records import Batch, commits, decode, merged_writes


async def check_every_commit(
    cluster: Cluster, database: Database, acknowledged: dict[str, int]
) -> None:
    """Raises AssertionError with the commit at which something differs."""
    catalog, codecs = database.catalog, database.manager.state.codecs
    maintained = [n for n in (*catalog.view, *catalog.index) if catalog.maintained(n)]
    names = {codecs(name).layout.table: name for name in (*catalog.schema.names, *maintained)}
    rows = {name: {} for name in names.values()}
    reads = {name: {name, *_bases(catalog, name)} for name in maintained}
    changed = set(rows)
    last_ts, told = 0, Counter(acknowledged.values())
    for batch in _batches(cluster):
        assert batch.ts > last_ts, f"commit {batch.ts} follows {last_ts} in the log"
        last_ts = batch.ts
        for commit in commits(batch):
            for table, puts in commit.writes.items():
                if table in names:
                    changed.add(names[table])
                    codec, stored = codecs(names[table]), rows[names[table]]
                    for put in puts:
                        if put.value == TOMBSTONE:
                            stored.pop(put.key, None)
                        else:
                            stored[put.key] = codec.decode(put.value)
        told.pop(batch.ts, None)
        stale = [name for name in maintained if not reads[name].isdisjoint(changed)]
        base = {name: list(rows[name].values()) for name in catalog.schema.names}
        for name in stale:
            expected = Counter(recompute(catalog, base, name))
            assert Counter(rows[name].values()) == expected, f"{name} at {batch.ts}"
        changed.clear()
    assert not told, f"acknowledged, and not in the log: {sorted(told)[:3]}"
    for name, expected in rows.items():
        cells = cluster.tables.chunk(codecs(name).layout.table, b"", None, NEWEST, False, 1 << 30)
        found = {cell.key: codecs(name).decode(cell.value) for cell in cells}
        assert found == expected, f"the store's {name} is not what the log says"


def _bases(catalog: Catalog, name: str) -> Sequence[str]:
    """The relations that a view or index is made of."""
    source = catalog.layout(name).source
    return catalog.view[source].path if source in catalog.view else (source,)


def check_every_snapshot(
    cluster: Cluster, database: Database, seen: Iterable[tuple[int, Sequence[ReadItem]]]
) -> None:
    """Raises AssertionError unless each row that was read at a snapshot is the newest one that the
    log has up to there, however late it came into the log."""
    codecs, names = database.manager.state.codecs, database.catalog.schema.names
    tables = {name: codecs(name).layout.table for name in names}
    written: dict[tuple[str, bytes], list[tuple[int, bool]]] = {}
    for batch in _batches(cluster):
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


def _batches(cluster: Cluster) -> list[Batch]:
    """Everything that was committed, in the order of the log."""
    found = []
    for name, data in sorted(cluster.whole_log().items()):
        for payload, _ in scan_segment(data, name).frames:
            record = decode(payload)
            if isinstance(record, Batch):
                found.append(record)
    return found
