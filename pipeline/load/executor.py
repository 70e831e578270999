"""The executors' part of an initial load: staging files, then writing ranges of keys.

*Staging*: a staged record is either a row, encoded with its key as it will be stored, or a reject.
It has further columns that Spark compares: for each UNIQUE index the encoded values (NULL if one of
them is NULL), and for each foreign key to the relation itself, or to a relation of its circle that
is loaded with it, the key that it references. Order
and equality of encoded keys are those of the values (`storage/codec/KEYS.md`), so Spark needs no
Python for either. A record is identified by its *origin*: the number of its file in the given
order, and its place in the file. Of two rows with the same key the one with the smaller origin is
loaded.

*Writing*: a task writes a range of a relation's keys, with rows in key order. It looks up each
row's parents, and puts the row together with all rows that derive from it: those of the relation's
indexes, of the views whose last relation it is, and of the indexes on these views. Parents that are
part of the load are in their tables already, and no transaction writes to the other parents while
the load is under way (`Catalog.load`). So it does not matter at which snapshot a range is written,
or how often.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import (
    AsyncIterator,
    Callable,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from typing import NamedTuple, cast

import msgspec
import pyarrow as pa

from hornbeam.errors import Error
from hornbeam_server.maintain.indexes import condition_of, key_of
from hornbeam_server.maintain.recompute import build_batches, scanned_relation
from hornbeam_server.maintain.spans import Span
from hornbeam_server.pipeline.build.executor import REMEMBERED, Failed, stored
from hornbeam_server.pipeline.load.files import CHUNK_ROWS, Chunk, Split, as_text, cut_short, read
from hornbeam_server.pipeline.spark.export import Export
from hornbeam_server.pipeline.spark.sink import Sink, open_sink
from hornbeam_server.schema.catalog import Catalog, Index
from hornbeam_server.schema.codec import decode_catalog
from hornbeam_server.schema.collector import settle_collector
from hornbeam_server.schema.errors import ForeignKeyViolation, HornbeamError, LimitExceeded
from hornbeam_server.schema.model import ForeignKey, Relation
from hornbeam_server.schema.row_identity import of_loaded
from hornbeam_server.schema.rows import Projection, projection
from hornbeam_server.schema.types import Row
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.storage.foreign_keys import absent_keys
from hornbeam_server.storage.limits import require_storable
from hornbeam_server.storage.ports import Put
from hornbeam_server.storage.snapshot import RememberingSnapshot, RowReader

CHUNK_BYTES = 8 << 20
PLACE_BITS = 44
"""Bits of an origin that hold the place: enough for files of 16 TiB, and half a million files."""


class Rejected(NamedTuple):
    """A record that is not loaded, by its origin. `code` is the code of an error
    (`schema.errors`)."""

    origin: int
    code: str
    reason: str
    record: str


# ---------------------------------------------------------------- staging


@dataclass(frozen=True)
class Staging:
    """The input of executors that stage files for a relation. `together` are the relation and those
    of its circle that are loaded with it. `splits` are pairs of the file's number and a split;
    `catalog` is encoded; `current_timestamp` is the value of DEFAULT CURRENT_TIMESTAMP."""

    catalog: str
    relation: str
    together: frozenset[str]
    splits: tuple[tuple[int, Split], ...]
    current_timestamp: dt.datetime

    @property
    def model(self) -> Catalog:
        """The catalog, decoded again at every call."""
        return decode_catalog(self.catalog.encode())

    def stage(self, number: int) -> Iterator[pa.RecordBatch]:
        """Staged records of a split. Runs in an executor."""
        settle_collector()
        encoder = Encoder(self.model, self.relation, self.together)
        file, split = self.splits[number]
        for chunk in read(split, encoder.relation, self.current_timestamp):
            yield encoder.staged(file << PLACE_BITS, chunk)


def unique_indexes(catalog: Catalog, relation: str) -> list[Index]:
    return [index for index in catalog.indexes_on(relation) if index.unique]


def references_within(relation: Relation, together: Container[str]) -> list[ForeignKey]:
    """The foreign keys to relations of `together`, none of which is written before all of them are
    checked."""
    return [key for key in relation.foreign_keys if key.parent in together]


class Encoder:
    """Encodes rows of a relation as staged records. `schema` is that of the records: compared
    columns are u0, u1, … for the UNIQUE indexes, and p0, p1, … for the foreign keys.
    """

    def __init__(self, catalog: Catalog, relation: str, together: frozenset[str]) -> None:
        codecs = Codecs(catalog)
        self.relation = catalog.schema.relation(relation)
        self._codec = codecs(relation)
        self._table = self._codec.layout.table
        compared: dict[str, Callable[[Row], bytes | None]] = {}
        for number, index in enumerate(unique_indexes(catalog, relation)):
            compared[f"u{number}"] = _encoded(
                key_of(catalog, index),
                codecs(index.name).prefix,
                condition_of(catalog, index.name),
                nulls_distinct=index.nulls_distinct,
            )
        for number, key in enumerate(references_within(self.relation, together)):
            encode = codecs(key.parent).key_of
            if key.to_unique:
                encode = codecs(catalog.unique_index(key).name).prefix
            positions = [self.relation.positions[name] for name in key.columns]
            compared[f"p{number}"] = _encoded(projection(positions), encode)
        self._compared = compared
        texts = ("code", "reason", "record")
        fields = [("origin", pa.int64()), ("k", pa.binary()), ("v", pa.binary())]
        fields += [(name, pa.string()) for name in texts]
        self.schema = pa.schema([*fields, *((name, pa.binary()) for name in compared)])

    def staged(self, file: int, chunk: Chunk) -> pa.RecordBatch:
        """The staged records of a chunk. `file` is the origin of place 0 of the file."""
        codec, rows = self._codec, chunk.rows
        if not self.relation.declared_key:
            at = self.relation.key_positions[0]
            rows = [
                (*row[:at], of_loaded(file + place), *row[at + 1 :])
                for place, row in zip(chunk.places, rows, strict=True)
            ]
        keys, values = list(map(codec.key, rows)), list(map(codec.encode, rows))
        columns: list[list[object]] = [[file + place for place in chunk.places], [*keys], [*values]]
        columns += ([None] * len(rows) for _ in ("code", "reason", "record"))
        columns += ([*map(of, rows)] for of in self._compared.values())
        try:
            require_storable({self._table: [*map(Put, keys, values)]})
        except LimitExceeded:
            self._reject_large(columns, rows)
        bad = (
            (file + place, None, None, *fault, record, *(None for _ in self._compared))
            for place, fault, record in chunk.bad
        )
        for record in bad:
            for column, value in zip(columns, record, strict=True):
                column.append(value)
        return pa.RecordBatch.from_pydict(
            dict(zip(self.schema.names, columns, strict=True)), self.schema
        )

    def _reject_large(self, columns: Sequence[list[object]], rows: Sequence[Row]) -> None:
        _, keys, values, codes, reasons, records, *compared = columns
        for i, (key, value) in enumerate(zip(keys, values, strict=True)):
            try:
                require_storable({self._table: [Put(key, value)]})  # type: ignore[arg-type]
            except LimitExceeded as error:
                codes[i], reasons[i] = error.code, error.message
                records[i] = shown(self.relation, rows[i])
                for column in (keys, values, *compared):
                    column[i] = None


def _encoded(
    project: Projection,
    encode: Callable[[Row], bytes],
    holds: Callable[[Row], bool] | None = None,
    *,
    nulls_distinct: bool = True,
) -> Callable[[Row], bytes | None]:
    def encoded(row: Row) -> bytes | None:
        if holds is not None and not holds(row):
            return None
        values = project(row)
        return None if nulls_distinct and None in values else encode(values)

    return encoded


def shown(relation: Relation, row: Row) -> str:
    project = projection([relation.positions[name] for name in relation.visible_names])
    return cut_short(as_text(relation.visible_names, project(row)))


# ---------------------------------------------------------------- packed rows


class Packed(msgspec.Struct, frozen=True, array_like=True):
    """Staged rows in key order, as columns."""

    origins: list[int]
    keys: list[bytes]
    values: list[bytes]


_PACK = msgspec.msgpack.Encoder()
_UNPACK = msgspec.msgpack.Decoder(Packed)


def pack(rows: Iterable[tuple[int, bytes, bytes]]) -> Iterator[bytes]:
    """Rows of origin, key and value, packed into values of some thousand rows: Spark stores and
    reads a packed value at the cost of one row."""
    for chunk in _chunks(rows):
        yield _PACK.encode(Packed(*map(list, zip(*chunk, strict=True))))


def _chunks(rows: Iterable[tuple[int, bytes, bytes]]) -> Iterator[list[tuple[int, bytes, bytes]]]:
    chunk, size = [], 0
    for row in rows:
        chunk.append(row)
        size += len(row[2])
        if len(chunk) == CHUNK_ROWS or size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def unpack(data: bytes) -> Packed:
    return _UNPACK.decode(data)


# ---------------------------------------------------------------- writing


@dataclass(frozen=True, slots=True)
class Task:
    """Write the rows of a relation with keys in `span`, except those with origins in `without`.

    `together`: see `Staging`. `checks_only`: find rejects, and put nothing. More than `limit`
    rejects end the task early.
    """

    export: Export
    url: str = field(repr=False)  # of a node; it may hold a key
    relation: str
    together: frozenset[str]
    span: Span
    without: frozenset[int] = frozenset()
    limit: int = 0
    checks_only: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """`rows` is the number of rows that are durably in the relation's table, together with the rows
    that derive from them. `rejected` are rows without a parent, and rows from which a row derives
    that is too large. `numbers`: minimum and maximum of each identity column."""

    rows: int
    rejected: tuple[Rejected, ...]
    numbers: dict[str, tuple[int, int]] = field(default_factory=dict)


def attempt(task: Task, packed: Iterable[bytes]) -> Done | Failed:
    """Run a task in an executor. Errors are returned, since Spark would return exceptions as pages
    of text."""
    settle_collector()
    try:
        return asyncio.run(_load(task, packed))
    except (HornbeamError, Error) as error:
        return Failed(str(error))


async def _load(task: Task, packed: Iterable[bytes]) -> Done:
    store = task.export.open()
    try:
        sink = open_sink(task.export, task.url)
        try:
            codecs = Codecs(task.export.codecs().catalog.loaded)
            reader = RememberingSnapshot(store, codecs, task.export.snapshot)
            return await Writer(task, codecs, reader, sink).write(packed)
        finally:
            await sink.close()
    finally:
        await store.close()


def made_of(catalog: Catalog, relation: str, names: Iterable[str]) -> list[tuple[str, ...]]:
    """The views and indexes in `names` each of whose rows derives from one row of `relation`,
    grouped by source."""
    groups: dict[str, list[str]] = {}
    for name in names:
        if name not in catalog.schema and scanned_relation(catalog, name) == relation:
            groups.setdefault(catalog.layout(name).source, []).append(name)
    return [tuple(group) for group in groups.values()]


class Writer:
    """Runs a task. `codecs` are those of the catalog that is in force after the load."""

    def __init__(self, task: Task, codecs: Codecs, reader: RememberingSnapshot, sink: Sink) -> None:
        catalog = codecs.catalog
        self._task = task
        self._codecs = codecs
        self._codec = codecs(task.relation)
        self._reader = reader
        self._sink = sink
        self._relation = catalog.schema.relation(task.relation)
        self._references = References(self._relation, task.together)
        self._numbered = [
            self._relation.positions[column]
            for relation, column in catalog.counters
            if relation == task.relation and not self._relation.column(column).hidden
        ]
        filled = task.export.codecs().catalog.loading
        self._groups = made_of(catalog, task.relation, filled)

    async def write(self, packed: Iterable[bytes]) -> Done:
        task, rejected = self._task, list[Rejected]()
        written = remembered = 0
        numbers: dict[str, tuple[int, int]] = {}
        for data in packed:
            origins, found, rows = self._wanted(unpack(data))
            orphans = await self._references.orphans(self._reader, rows)
            faults = {i: (ForeignKeyViolation.code, reason) for i, reason in orphans.items()}
            writes = await self._made(found, rows, faults)
            rejected += (
                Rejected(origins[i], code, reason, shown(self._relation, rows[i]))
                for i, (code, reason) in sorted(faults.items())
            )
            if len(rejected) > task.limit:
                break
            if not task.checks_only and len(faults) < len(rows):
                await self._sink.put(writes, task.export.snapshot)
                written += len(rows) - len(faults)
                self._note([r for i, r in enumerate(rows) if i not in faults], numbers)
            remembered += len(rows)
            if remembered > REMEMBERED:
                self._reader.forget()
                remembered = 0
        task.export.require_kept()
        if not task.checks_only:
            await self._sink.flush()
        return Done(written, tuple(rejected[: task.limit + 1]), numbers)

    def _note(self, rows: Sequence[Row], numbers: dict[str, tuple[int, int]]) -> None:
        """Update the minimum and maximum of each identity column."""
        for position in self._numbered:
            found = [cast(int, row[position]) for row in rows]
            name = self._relation.columns[position].name
            found += numbers.get(name, ())
            numbers[name] = (min(found), max(found))

    def _wanted(self, packed: Packed) -> tuple[list[int], list[Put], list[Row]]:
        """Origins, puts and rows of the packed rows that the task writes."""
        (start, end), without = self._task.span, self._task.without
        origins, keys, values = packed.origins, packed.keys, packed.values
        first, last = keys[0], keys[-1]
        if without or first < start or (end is not None and last >= end):
            wanted = [
                i
                for i, (origin, key) in enumerate(zip(origins, keys, strict=True))
                if key >= start and (end is None or key < end) and origin not in without
            ]
            origins = [origins[i] for i in wanted]
            keys, values = ([each[i] for i in wanted] for each in (keys, values))
        return origins, list(map(Put, keys, values)), self._codec.decode_all(values)

    async def _made(
        self, found: Sequence[Put], rows: Sequence[Row], faults: dict[int, tuple[str, str]]
    ) -> Mapping[str, Sequence[Put]]:
        """All puts, by table, for the rows without faults. A row from which a view or index row
        derives that is too large is added to `faults`, with code and reason."""
        good = [i for i in range(len(rows)) if i not in faults]
        writes = await self._made_of(found, rows, good)
        try:
            require_storable(writes)
        except LimitExceeded:
            for i in good:
                try:
                    require_storable(await self._made_of(found, rows, [i]))
                except LimitExceeded as error:
                    faults[i] = (error.code, error.message)
            writes = await self._made_of(found, rows, [i for i in good if i not in faults])
        return writes

    async def _made_of(
        self, found: Sequence[Put], rows: Sequence[Row], numbers: Sequence[int]
    ) -> Mapping[str, Sequence[Put]]:
        codecs, writes = self._codecs, dict[str, Sequence[Put]]()
        if numbers:
            writes[self._codec.layout.table] = [found[i] for i in numbers]
            of = [rows[i] for i in numbers]
            for names in self._groups:
                built = build_batches(codecs.catalog, codecs, names, self._reader, _once(of))
                async for batch in built:
                    writes |= stored(codecs, batch)
        return writes


async def _once(rows: list[Row]) -> AsyncIterator[list[Row]]:
    yield rows


class References:
    """Foreign keys of a relation, except those to relations of `together` (`Staging`). A key with a
    NULL references nothing."""

    def __init__(self, relation: Relation, together: Container[str]) -> None:
        self._relation = relation
        self._keys: list[tuple[ForeignKey, Projection]] = [
            (key, projection([relation.positions[name] for name in key.columns]))
            for key in relation.foreign_keys
            if key.parent not in together
        ]

    async def orphans(self, reader: RowReader, rows: Sequence[Row]) -> dict[int, str]:
        """The rows that lack a parent, by their position in `rows`, each with the reason."""
        reasons: dict[int, str] = {}
        for key, project in self._keys:
            values = [project(row) for row in rows]
            wanted = list(dict.fromkeys(v for v in values if None not in v))
            absent = await absent_keys(reader, key, wanted)
            for i, value in enumerate(values):
                if value in absent:
                    reasons.setdefault(i, dangling(self._relation, key, rows[i]))
        return reasons


def no_parent(origin: int, reason: str, record: str) -> Rejected:
    return Rejected(origin, ForeignKeyViolation.code, reason, record)


def dangling(relation: Relation, key: ForeignKey, row: Row) -> str:
    """The message for a missing parent, in the words that transactions use."""
    given = ((name, row[relation.positions[name]]) for name in key.columns)
    shown = ", ".join(f"{name} = {value!s}" for name, value in given)
    return f"{relation.name} references {key.parent} ({cut_short(shown)}), which does not exist."
