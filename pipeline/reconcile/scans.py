"""The work of the executors: each task reads one part of a scan, and returns its findings.

**Views** need no checksums. A range of a view and the range of base rows that it derives from are
read together in one process, and compared as bytes, some thousand rows at a time. Rows are decoded
and compared one by one only where the bytes differ.

**Indexes** need checksums: the index rows of a range of base rows may lie anywhere in the index.
Every row has a bucket, by its key, and a 128-bit hash. The hash of an expected row is added to its
bucket, the hash of a stored row is subtracted. Buckets that sum to 0 over all tasks are equal,
independent of the order. The rows of the other buckets are read again, and grouped by Spark
(`bucket_rows`). The same is done with the rows of deferred views (`deferred.py`).
"""

from __future__ import annotations

import asyncio
import gc
from bisect import bisect_left
from collections import ChainMap, Counter
from collections.abc import AsyncIterator, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from operator import itemgetter
from typing import NamedTuple
from zlib import crc32

from hornbeam_server.pipeline.reconcile.expected import (
    BaseCodec,
    Broken,
    Found,
    IndexProgram,
    Parents,
    ViewProgram,
    reference,
)
from hornbeam_server.pipeline.reconcile.plan import (
    CellScan,
    RelationScan,
    StoredScan,
    Task,
    constraint,
)
from hornbeam_server.pipeline.reconcile.report import Compared, Difference, Fault, Range, Tally
from hornbeam_server.pipeline.spark.export import Export
from hornbeam_server.query.expressions.declared import row_checks
from hornbeam_server.schema.errors import Corruption
from hornbeam_server.storage.codec.rows import LayoutCodec
from hornbeam_server.storage.foreign_keys import absent_keys
from hornbeam_server.storage.ports import Cell, Put, TableStore
from hornbeam_server.storage.snapshot import Snapshot

BUCKETS = 4_096
"""Buckets of an index. With ten million rows, one difference causes about 2 400 rows to be read
again."""
BATCH = 8_192
"""Rows that are compared at a time."""
_MODULO = 1 << 128


class Bucket(NamedTuple):
    """A bucket of keys of an index, or of a stored table of a deferred view."""

    name: str
    number: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """Findings of one task, or the sum of several. Addition is commutative and associative."""

    compared: tuple[Compared, ...] = ()
    sums: Mapping[Bucket, int] = field(default_factory=dict)
    """Checksum of the expected rows of a bucket minus that of the stored rows. Over all tasks it is
    0 if they are equal."""
    unknown: frozenset[tuple[str, bytes]] = frozenset()
    """Source of an index, and key: rows of the source that cannot be determined, so that their
    index rows are unknown."""

    def __add__(self, other: Outcome) -> Outcome:
        sums = Counter(self.sums)
        sums.update(other.sums)
        return Outcome(
            self.compared + other.compared,
            {bucket: rest for bucket, total in sums.items() if (rest := total % _MODULO)},
            self.unknown | other.unknown,
        )


class OneSide(NamedTuple):
    """The value that is stored at a key, or the value that is expected there."""

    value: bytes
    stored: bool


def run(export: Export, task: Task) -> Outcome:
    """Run the comparison of a task. Runs in an executor, one task at a time in a process. Raises
    SnapshotTooOld, Unavailable, Corruption for a table that does not exist."""
    with _without_collector():
        return asyncio.run(_run(export, task))


@contextmanager
def _without_collector() -> Iterator[None]:
    """Disable the garbage collector. Rows form no cycles; searching them takes half of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def _run(export: Export, task: Task) -> Outcome:
    store = export.open()
    try:
        match task.scan:
            case StoredScan():
                outcome = await _stored_sums(export, store, task.scan, task.range)
            case RelationScan():
                outcome = await _RelationPass(export, store, task.scan, task.range).compare()
            case CellScan():
                outcome = await _damaged_cells(export, store, task.scan, task.range)
        export.require_kept()
        return outcome
    finally:
        await store.close()


def bucket_rows(
    export: Export, task: Task, wanted: Container[Bucket]
) -> Iterator[tuple[tuple[str, bytes], OneSide]]:
    """The rows of a task that are in `wanted` buckets, with index and key."""
    with _without_collector(), asyncio.Runner() as runner:
        rows = _bucket_rows(export, task, wanted)
        while (batch := runner.run(anext(rows, None))) is not None:
            yield from batch


async def _bucket_rows(
    export: Export, task: Task, wanted: Container[Bucket]
) -> AsyncIterator[list[tuple[tuple[str, bytes], OneSide]]]:
    store = export.open()
    try:
        match task.scan:
            case StoredScan(name):
                async for cells in _cells(export, store, name, task.range):
                    yield [
                        ((name, cell.key), OneSide(cell.value, stored=True))
                        for cell in cells
                        if bucket(name, cell.key) in wanted
                    ]
            case RelationScan():
                made = _RelationPass(export, store, task.scan, task.range)
                async for index, rows in made.index_rows():
                    yield [
                        ((index, key), OneSide(value, stored=False))
                        for key, value in rows
                        if bucket(index, key) in wanted
                    ]
        export.require_kept()
    finally:
        await store.close()


def bucket(index: str, key: bytes) -> Bucket:
    return Bucket(index, crc32(key) % BUCKETS)


def checksum(key: bytes, value: bytes) -> int:
    """The hash of a row. Keys are self-delimiting, so no other row has the same bytes."""
    return int.from_bytes(blake2b(key + value, digest_size=16).digest())


async def _stored_sums(
    export: Export, store: TableStore, scan: StoredScan, where: Range
) -> Outcome:
    tally, sums = Tally(scan.name, where), _Sums()
    async for cells in _cells(export, store, scan.name, where):
        tally.rows += len(cells)
        sums.subtract((cell.key, cell.value) for cell in cells)
    return Outcome((tally.done(),), sums.by_bucket(scan.name))


async def _damaged_cells(
    export: Export, store: TableStore, scan: CellScan, where: Range
) -> Outcome:
    """The cells of an immediate view that are damaged by themselves."""
    tally, codec = Tally(scan.name, where), export.codecs()(scan.layout)
    async for cells in _cells(export, store, scan.layout, where):
        tally.rows += len(cells)
        if _are_right(codec, cells):
            continue
        for found in (_damage(codec, cell.key, cell.value) for cell in cells):
            if found.fault is not Fault.EXTRA:
                tally.add(found)
    return Outcome((tally.done(),))


def _are_right(codec: LayoutCodec, cells: Sequence[Cell]) -> bool:
    """Is each cell a row under its own key?"""
    try:
        return codec.many.keys([c.value for c in cells]) == [c.key for c in cells]
    except Corruption:
        return False


def made_sums(rows: Iterable[tuple[str, Put]]) -> Iterator[Outcome]:
    """The checksums of the expected rows of deferred views. `rows` are pairs of layout and put.
    Runs in an executor."""
    sums: dict[str, _Sums] = {}
    for name, row in rows:
        sums.setdefault(name, _Sums()).add([row])
    yield Outcome(sums=dict(ChainMap(*(one.by_bucket(name) for name, one in sums.items()))))


def made_rows(
    wanted: Container[Bucket], rows: Iterable[tuple[str, Put]]
) -> Iterator[tuple[tuple[str, bytes], OneSide]]:
    """The expected rows of deferred views that are in `wanted` buckets."""
    for name, (key, value) in rows:
        if bucket(name, key) in wanted:
            yield (name, key), OneSide(value, stored=False)


class _Sums:
    """Checksums of rows of one index by bucket."""

    def __init__(self) -> None:
        self._sums = [0] * BUCKETS

    def add(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        sums = self._sums
        for key, value in rows:
            sums[crc32(key) % BUCKETS] += checksum(key, value)

    def subtract(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        sums = self._sums
        for key, value in rows:
            sums[crc32(key) % BUCKETS] -= checksum(key, value)

    def by_bucket(self, index: str) -> dict[Bucket, int]:
        return {
            Bucket(index, number): total % _MODULO
            for number, total in enumerate(self._sums)
            if total
        }


async def _cells(
    export: Export, store: TableStore, name: str, where: Range
) -> AsyncIterator[list[Cell]]:
    table = export.codecs().catalog.layout(name).table
    async for cells in store.scan(table, where.start, where.end, export.snapshot):
        export.require_kept()
        yield cells


class _RelationPass:
    """One range of a relation, with the view and index rows that derive from it."""

    def __init__(self, export: Export, store: TableStore, scan: RelationScan, where: Range) -> None:
        self._export, self._store, self._scan, self._range = export, store, scan, where
        self._codecs = codecs = export.codecs()
        catalog = codecs.catalog
        relation = catalog.schema.relation(scan.relation)
        self._base = BaseCodec(codecs(scan.relation))
        self._parents = Parents(codecs, store, export.snapshot)
        self._reader = Snapshot(store, codecs, export.snapshot)
        self._indexes = [
            (name, catalog.layout(name).source, IndexProgram(catalog, codecs, name))
            for name in scan.indexes
        ]
        views = {*scan.views, *(source for _, source, _ in self._indexes)} - {scan.relation}
        self._views = {
            name: ViewProgram(catalog, catalog.view[name], codecs(name).begin) for name in views
        }
        self._foreign_keys = [
            (constraint(relation.name, fk.name), fk, reference(catalog, relation.name, fk))
            for fk in relation.foreign_keys
            if fk.name in scan.foreign_keys
        ]
        self._checks = [
            (constraint(relation.name, each.check.name), each)
            for each in (row_checks(relation) if scan.checks else ())
            if each.check.name in scan.checks
        ]

    async def compare(self) -> Outcome:
        constraints = [*(name for name, *_ in self._foreign_keys), *(n for n, _ in self._checks)]
        names = [self._scan.relation, *self._scan.views, *constraints]
        tallies = {name: Tally(name, self._range) for name in names}
        stored = {
            name: _StoredView(
                self._codecs(name), _cells(self._export, self._store, name, self._range)
            )
            for name in self._scan.views
        }
        sums = {name: _Sums() for name, *_ in self._indexes}
        unknown = set[tuple[str, bytes]]()
        async for cells, end in self._batches():
            found = self._base.read_all(cells)
            self._check_base(cells, found, tallies[self._scan.relation])
            await self._check_foreign_keys(cells, found, tallies)
            self._check_rows(cells, found, tallies)
            rows = await self._made(found)
            for name, view in stored.items():
                expected = _Expected.of(cells, rows[name], self._views[name])
                await view.compare(expected, end, tallies[name])
            for name, made in self._index_cells(rows):
                sums[name].add(made)
            unknown |= _unknown(cells, rows)
        done = tuple(tally.done() for tally in tallies.values())
        by_bucket = [one.by_bucket(name) for name, one in sums.items()]
        return Outcome(done, dict(ChainMap(*by_bucket)), frozenset(unknown))

    async def index_rows(self) -> AsyncIterator[tuple[str, Iterator[tuple[bytes, bytes]]]]:
        """Keys and values that are expected in each index."""
        async for cells, _ in self._batches():
            for name, made in self._index_cells(await self._made(self._base.read_all(cells))):
                yield name, made

    async def _batches(self) -> AsyncIterator[tuple[list[Cell], bytes | None]]:
        """Batches of the range's base rows, each with the key before which it ends. At least one
        batch."""
        batch: list[Cell] = []
        async for cells in _cells(self._export, self._store, self._scan.relation, self._range):
            if len(batch) >= BATCH:
                yield batch, cells[0].key
                batch = []
            batch += cells
        yield batch, self._range.end

    async def _made(self, found: Sequence[Found]) -> dict[str, list[Found]]:
        """For each source of views and indexes, the source's row for each base row."""
        made = {name: await view.join(found, self._parents) for name, view in self._views.items()}
        return {self._scan.relation: list(found), **made}

    def _index_cells(
        self, rows: Mapping[str, Sequence[Found]]
    ) -> Iterator[tuple[str, Iterator[tuple[bytes, bytes]]]]:
        for name, source, program in self._indexes:
            cells = (program.cell(one[0]) for one in rows[source] if isinstance(one, tuple))
            yield name, (cell for cell in cells if cell is not None)

    def _check_base(self, cells: Sequence[Cell], found: Sequence[Found], tally: Tally) -> None:
        tally.rows += len(cells)
        if Broken.UNREADABLE not in found:
            return
        for cell, one in zip(cells, found, strict=True):
            if one is Broken.UNREADABLE:
                tally.add(_damage(self._codecs(self._scan.relation), cell.key, cell.value))

    def _check_rows(
        self, cells: Sequence[Cell], found: Sequence[Found], tallies: Mapping[str, Tally]
    ) -> None:
        """Evaluate the CHECKs over base rows."""
        for name, check in self._checks:
            tally = tallies[name]
            tally.rows += len(cells)
            for cell, one in zip(cells, found, strict=True):
                if isinstance(one, tuple) and not check.holds(one[0]):
                    tally.add(Difference(Fault.EXTRA, cell.key, one[0], None))

    async def _check_foreign_keys(
        self, cells: Sequence[Cell], found: Sequence[Found], tallies: Mapping[str, Tally]
    ) -> None:
        for name, foreign_key, refer in self._foreign_keys:
            tally = tallies[name]
            tally.rows += len(cells)
            keys = [refer(one[0]) for one in found if isinstance(one, tuple)]
            wanted = [key for key in dict.fromkeys(keys) if None not in key]
            if foreign_key.to_unique:
                orphaned = await absent_keys(self._reader, foreign_key, wanted)
            else:
                known = await self._parents.fetch(foreign_key.parent, wanted)
                orphaned = {key for key in wanted if known[key] is Broken.ABSENT}
            if not orphaned:
                continue
            for cell, one in zip(cells, found, strict=True):
                if isinstance(one, tuple) and refer(one[0]) in orphaned:
                    tally.add(Difference(Fault.MISSING, cell.key, one[0], None))


class _Expected(NamedTuple):
    """Rows that a view should hold, in key order."""

    keys: list[bytes]
    values: list[bytes]
    unknown: frozenset[bytes]
    """Keys whose expected rows are unknown."""

    @classmethod
    def of(cls, cells: Sequence[Cell], rows: Sequence[Found], view: ViewProgram) -> _Expected:
        pairs = list(zip(cells, rows, strict=True))
        return cls(
            [cell.key for cell, row in pairs if isinstance(row, tuple)],
            [view.value(row) for row in rows if isinstance(row, tuple)],
            frozenset(cell.key for cell, row in pairs if row is Broken.UNREADABLE),
        )


class _StoredView:
    """The stored rows of one view, read in step with the base rows."""

    def __init__(self, codec: LayoutCodec, batches: AsyncIterator[list[Cell]]) -> None:
        self._codec = codec
        self._batches = batches
        self._read: list[Cell] = []
        self._ended = False

    async def compare(self, expected: _Expected, end: bytes | None, tally: Tally) -> None:
        """Compare the stored rows before `end` that have not been compared yet."""
        cells = await self._before(end)
        tally.rows += len(cells)
        keys, values = [cell.key for cell in cells], [cell.value for cell in cells]
        tally.leave_out(len(expected.unknown))
        if (keys, values) == (expected.keys, expected.values):
            return
        wanted = dict(zip(expected.keys, expected.values, strict=True))
        stored = dict(zip(keys, values, strict=True))
        for key in sorted((wanted.keys() | stored.keys()) - expected.unknown):
            found = difference(self._codec, key, wanted.get(key), stored.get(key))
            if found is not None:
                tally.add(found)

    async def _before(self, end: bytes | None) -> list[Cell]:
        read = self._read
        while not self._ended and (end is None or not read or read[-1].key < end):
            batch = await anext(self._batches, None)
            read += batch or ()
            self._ended = batch is None
        at = len(read) if end is None else bisect_left(read, end, key=_key)
        self._read = read[at:]
        return read[:at]


_key = itemgetter(0)


def difference(
    codec: LayoutCodec, key: bytes, wanted: bytes | None, stored: bytes | None
) -> Difference | None:
    """The difference of the values at one key, if any. Different bytes may be equal rows: 1.0 and
    1.00 are."""
    if wanted == stored:
        return None
    expected = None if wanted is None else codec.decode(wanted)
    if stored is None:
        return Difference(Fault.MISSING, key, None, expected)
    found = _damage(codec, key, stored)
    if found.fault is not Fault.EXTRA or expected is None:
        return found._replace(expected=expected)
    if found.stored == expected:
        return None
    return Difference(Fault.DIFFERENT, key, found.stored, expected)


def _damage(codec: LayoutCodec, key: bytes, stored: bytes) -> Difference:
    """The fault of a stored row by itself, independent of the expected row. EXTRA: the row is
    sound."""
    try:
        row = codec.decode(stored)
    except Corruption:
        return Difference(Fault.UNDECODABLE, key, None, None)
    fault = Fault.EXTRA if codec.key(row) == key else Fault.MISPLACED
    return Difference(fault, key, row, None)


def _unknown(cells: Sequence[Cell], rows: Mapping[str, Sequence[Found]]) -> set[tuple[str, bytes]]:
    """Source and key of the rows that cannot be determined."""
    return {
        (source, cell.key)
        for source, made in rows.items()
        if Broken.UNREADABLE in made
        for cell, one in zip(cells, made, strict=True)
        if one is Broken.UNREADABLE
    }
