"""The oracle of batches of deferred views. It looks from outside of all processes.

- The group's state never goes back, and a batch that was begun is the next to be finished.
- At each finished batch, every view has the rows that its SELECT has over the base relations at
  that snapshot, as an independent function computes them.
- All processes that do one batch put the same value under each key, and if they get to its end,
  the same keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

import msgspec.structs

from hornbeam_server.maintain.deltas.batches import SmallBatch, Writes
from hornbeam_server.maintain.deltas.catalog_programs import Programs, programs_of
from hornbeam_server.node.deferred_views import BatchWork
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.codec import encode_catalog
from hornbeam_server.schema.types import Row
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.storage.simulated.store import SimulatedStore, SimulatedTables
from hornbeam_server.txlayer.views.refresh_groups import GroupState, path_of
from tests.sim.simulated_cluster import Cluster

GROUP = "default"
Expected = Callable[[int, Mapping[str, list[Row]]], Mapping[str, list[Row]]]
"""From a snapshot and the rows of all base relations there to those of all views."""
Keys = set[tuple[str, bytes]]
"""Tables and keys."""


class BatchOracle:
    """The checks of one run."""

    def __init__(self, cluster: Cluster, expected: Expected) -> None:
        self._cluster = cluster
        self._expected = expected
        self._values: dict[tuple[str, bytes, int], bytes] = {}
        """What was put, by table, key and timestamp."""
        self._keys: dict[tuple[object, ...], Keys] = {}
        """The tables and keys of whole batches, by their snapshots and their views."""
        known = cluster.registry.read(path_of(GROUP))
        self.state = GroupState() if known is None else _decoded(known.value)
        self.shown = {self.state.as_of, *self.state.before} - {0}
        """Every value that `as_of` has had."""
        self._failure: AssertionError | None = None
        self._write = cluster.registry.write
        cluster.registry.write = self._watched

    def _watched(self, path: str, value: bytes, expected: int) -> int:
        """Write a value in the coordination service, and check it if it is the group's state. The
        first failure is kept for `look`: a process whose write failed would go on in its way."""
        version = self._write(path, value, expected)
        if path == path_of(GROUP) and self._failure is None:
            try:
                self._check(_decoded(value))
            except AssertionError as error:
                self._failure = error
        return version

    def _check(self, state: GroupState) -> None:
        """Check the next state of the group, at once: later its snapshot may be purged."""
        before, self.state = self.state, state
        _require_order(before, state)
        if state.as_of > before.as_of:
            self.shown.add(state.as_of)
            self._verify(state.as_of)

    def look(self) -> None:
        """Raise the first failure of a state of the group, or of a batch that was finished."""
        if self._failure is not None:
            raise self._failure

    def putting(self, writes: Writes, upto: int) -> Keys:
        """Check what a process is about to put; return its keys."""
        keys = {(table, put.key) for table, puts in writes.items() for put in puts}
        for table, puts in writes.items():
            for put in puts:
                known = self._values.setdefault((table, put.key, upto), put.value)
                assert known == put.value, f"{table} gets two values of one key at {upto}"
        return keys

    def has_put(self, work: BatchWork, keys: Keys) -> None:
        """Check all that a process has put for a batch."""
        numbers = dict(work.catalog.incarnations)
        names = sorted((name, numbers.get(name, 0)) for name in (*work.refreshed, *work.built))
        batch = (work.as_of, work.upto, *names)
        known = self._keys.setdefault(batch, keys)
        assert known == keys, f"the batch {batch} has other rows again: {sorted(known ^ keys)[:5]}"

    def _verify(self, at: int) -> None:
        """Check all views of the group at snapshot `at`, in the store itself."""
        catalog = self._catalog()
        if catalog is None:
            return
        codecs = Codecs(catalog)
        base = {name: self._rows(codecs, name, at) for name in catalog.schema.names}
        for name, rows in self._expected(at, base).items():
            if name in self.state.views and self.state.holds(catalog, name):
                width = len(catalog.deferred_view[name].columns)
                found = [row[:width] for row in self._rows(codecs, name, at)]
                assert Counter(found) == Counter(rows), f"{name} at {at}: {found}, not {rows}"

    def _rows(self, codecs: Codecs, name: str, at: int) -> list[Row]:
        codec = codecs(name)
        return [
            codec.decode(value)
            for value in stored(self._cluster.tables, codec.layout.table, at).values()
        ]

    def _catalog(self) -> Catalog | None:
        """The newest catalog that a node has; None while its tables are created or dropped."""
        catalogs = [node.database.catalog for node in self._cluster.nodes if node.database]
        newest = max(catalogs, key=lambda catalog: catalog.version, default=None)
        tables = set(self._cluster.tables.tables())
        if newest is None or not {newest.layout(n).table for n in newest.stored} <= tables:
            return None
        return newest

    async def check_stored(self, catalog: Catalog) -> None:
        """`check_built` at the group's snapshot."""
        assert all(self.state.holds(catalog, view.name) for view in catalog.deferred)
        await check_built(self._cluster.tables, catalog, self.state.as_of)


async def check_built(tables: SimulatedTables, catalog: Catalog, at: int) -> None:
    """Check that all stored rows of all deferred views at snapshot `at`, and of the states of their
    groups, are those of a build."""
    names = tuple(view.name for view in catalog.deferred)
    batch = SmallBatch(programs(catalog), at, at, (), names)
    built: Writes = {}
    async for _, writes in batch.writes({}, SimulatedStore(tables)):
        built |= writes
    for view in catalog.deferred:
        for name in view.stored:
            table = catalog.layout(name).table
            expected = {put.key: put.value for put in built.get(table, ())}
            assert stored(tables, table, at) == expected, f"{name} at {at}"


def stored(tables: SimulatedTables, table: str, at: int) -> dict[bytes, bytes]:
    """The rows of a table in the store itself, at snapshot `at`, by key."""
    cells = tables.chunk(table, b"", None, at, False, 1 << 30)
    return {cell.key: cell.value for cell in cells}


def _decoded(state: bytes) -> GroupState:
    return msgspec.json.decode(state, type=GroupState)


def _require_order(before: GroupState, after: GroupState) -> None:
    """Check one change of the group's state: a batch begins where none is under way, and ends after
    the one before; or the batch under way is finished."""
    if msgspec.structs.replace(after, problem=before.problem) == before:
        return
    begun = before.batch
    if after.batch is not None:
        assert after.as_of == before.as_of, "as_of moves while a batch is under way"
        assert begun is None or after.batch.upto == begun.upto, "another batch is under way"
        assert after.batch.upto > after.as_of, f"a batch ends at {after.as_of}, where it begins"
    else:
        assert begun is not None, "a batch is finished that was not begun"
        assert after.as_of == begun.upto, f"the batch to {begun.upto} ends at {after.as_of}"


def programs(catalog: Catalog, usable: frozenset[str] | None = None) -> Programs:
    """The programs of a catalog, compiled once for all versions in which the views are the same."""
    same = replace(catalog, version=1, row_counts=(), since=0)
    return programs_of(encode_catalog(same).decode(), usable)
