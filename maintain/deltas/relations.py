"""Typed Arrow tables, and SQL over them: DuckDB does all row-wise work of delta programs.

A table's columns are `Fields`. A *Z-set* is a table with one more column, `_w`: +1 for an inserted
row, -1 for a deleted row. There are no other weights, so
`SUM(x) FILTER (_w = 1) - SUM(x) FILTER (_w = -1)` has the type and the exactness of `SUM(x)`.

Arrow has no HUGEINT, and UUID and JSON travel as text. So each column is cast on input to the
DuckDB type of its field, and an expression reads the same values as in the whole query.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from hornbeam_server.query.binding.names import OutputColumn
from hornbeam_server.query.dialect.duckdb_types import from_record_batch, quoted, with_known_types
from hornbeam_server.query.workers.control import Options
from hornbeam_server.query.workers.messages import (
    Describe,
    Described,
    Next,
    Query,
    Register,
    Request,
    Rows,
)
from hornbeam_server.query.workers.pool import ThreadWorkers
from hornbeam_server.schema.model import Column
from hornbeam_server.schema.sqltext import literal_sql
from hornbeam_server.schema.types import (
    REAL,
    ColumnType,
    Kind,
    Row,
    Value,
    array_of,
    as_text,
    enumeration_of,
)
from hornbeam_server.storage.codec.arrow import arrow_type, to_record_batch

WEIGHT = "_w"
MEMORY_MB = 1_024
DESCRIBE_S = 30.0
"""Time limit for describing a query, in seconds: DuckDB evaluates some constants for it."""
_TEXT_IN_ARROW = (Kind.UUID, Kind.JSON)


@dataclass(frozen=True, slots=True)
class Field:
    """A column: `duck` is the name of its type in DuckDB, `type` is its stored type."""

    name: str
    duck: str
    type: ColumnType
    nullable: bool = True

    def column(self, name: str | None = None) -> Column:
        return Column(self.name if name is None else name, self.type)


Fields = tuple[Field, ...]


def has_spans(field: Field | Column) -> bool:
    """Does the column hold intervals? Equal intervals may have other parts, and so may the arrays
    of them."""
    return Kind.INTERVAL in (field.type.kind, (field.type.element or field.type).kind)


WEIGHT_FIELD = Field(WEIGHT, "TINYINT", ColumnType(Kind.INTEGER), nullable=False)


@dataclass(frozen=True, slots=True)
class Typed:
    """A table and its typed columns, in the order of `fields`."""

    fields: Fields
    table: pa.Table

    @property
    def empty(self) -> bool:
        return not self.table.num_rows

    def renamed(self, fields: Fields) -> Typed:
        """The same columns under other names."""
        return Typed(fields, self.table.rename_columns(_names(fields)))

    def rows(self) -> list[Row]:
        """The rows as Python values of the fields' stored types."""
        types = [field.type for field in self.fields]
        batches = self.table.to_batches()
        rows = [row for batch in batches for row in from_record_batch(batch, types)]
        return with_one_nan(self.fields, rows)


NAN = float("nan")


def with_one_nan(fields: Fields, rows: list[Row]) -> list[Row]:
    """The same rows with `NAN` for each NaN."""
    doubles = [i for i, field in enumerate(fields) if field.type.kind is Kind.DOUBLE]
    if any(row[i] != row[i] for row in rows for i in doubles):
        return [tuple(map(one_nan, row)) for row in rows]
    return rows


def one_nan(value: Value) -> Value:
    """`value`, and `NAN` for NaN: as a single object it is equal to itself in tuples and
    dictionaries, as NaN is in DuckDB."""
    return NAN if value != value else value  # noqa: PLR0124


def weighted(fields: Fields) -> Fields:
    """The fields of a Z-set."""
    return (*fields, WEIGHT_FIELD)


def schema_of(fields: Fields) -> pa.Schema:
    """The Arrow schema of tables of these fields, without extension types."""
    return pa.schema([(field.name, _arrow(field)) for field in fields])


def _arrow(field: Field) -> pa.DataType:
    if field == WEIGHT_FIELD:
        return pa.int8()
    return pa.string() if field.type.kind in _TEXT_IN_ARROW else arrow_type(field.type)


def nothing(fields: Fields) -> Typed:
    return Typed(fields, schema_of(fields).empty_table())


def from_rows(fields: Fields, rows: Sequence[Row]) -> Typed:
    """Stored rows as a table."""
    text = ColumnType(Kind.TEXT)
    columns = [Column(f.name, text if f.type.kind in _TEXT_IN_ARROW else f.type) for f in fields]
    uuids = [i for i, field in enumerate(fields) if field.type.kind is Kind.UUID]
    batch = to_record_batch(columns, [_with_text(row, uuids) for row in rows] if uuids else rows)
    return Typed(fields, pa.Table.from_batches([batch]))


def _with_text(row: Row, places: Iterable[int]) -> Row:
    values = list(row)
    for i in places:
        values[i] = None if values[i] is None else str(values[i])
    return tuple(values)


def stored_fields(columns: Iterable[Column]) -> Fields:
    """Fields of stored columns, under their own names."""
    return tuple(
        Field(column.name, duck_type(_plain(column.type)), _plain(column.type), column.nullable)
        for column in columns
    )


def labelled(fields: Fields, known: Sequence[OutputColumn]) -> Fields:
    """The columns of a SELECT with the ENUMs that binding knows. DuckDB may have texts."""
    types = with_known_types([field.type for field in fields], [column.type for column in known])
    pairs = zip(fields, types, strict=True)
    return tuple(replace(f, type=type_) if f.type != type_ else f for f, type_ in pairs)


def duck_type(type_: ColumnType) -> str:
    """The name of a type in DuckDB, which has texts for labels."""
    return as_text(type_).sql()


def _plain(type_: ColumnType) -> ColumnType:
    """The type without a text's length and without its declared form: expressions ignore both."""
    return ColumnType(Kind.TEXT) if type_.kind is Kind.TEXT else type_.stored()


def evaluate(
    sql: str,
    tables: Mapping[str, Typed],
    fields: Fields,
    steps: Mapping[str, str] | None = None,
) -> Typed:
    """The rows of `sql`. It may name `tables` and the results of `steps`; a step may name tables
    and earlier steps.

    Raises SqlError, TypeMismatch, LimitExceeded, MemoryExceeded.
    """
    head = {name: _source(f"arrow_{name}", typed.fields) for name, typed in tables.items()}
    head |= steps or {}
    with_ = ", ".join(f"{quoted(name)} AS ({select})" for name, select in head.items())
    requests: list[Request] = [
        Register(f"arrow_{name}", typed.table) for name, typed in tables.items()
    ]
    found = answer(f"WITH {with_} {sql}", requests)
    schema = schema_of(fields)
    if found is None:
        return Typed(fields, schema.empty_table())
    return Typed(fields, found.rename_columns(_names(fields)).cast(schema))


def answer(sql: str, registered: Sequence[Request] = ()) -> pa.Table | None:
    """The result of a query in DuckDB; None if it has no rows. Raises as `evaluate` does."""
    requests: list[Request] = [*registered, Query(sql, {})]
    batches: list[pa.RecordBatch] = []
    with _WORKERS.worker() as worker:
        while True:
            rows = worker.ask_in_thread(requests)
            assert isinstance(rows, Rows)
            if rows.batch is not None:
                batches.append(rows.batch)
            if rows.last or rows.batch is None:
                return pa.Table.from_batches(batches) if batches else None
            requests = [Next()]


def _names(fields: Fields) -> list[str]:
    return [field.name for field in fields]


def _source(name: str, fields: Fields) -> str:
    columns = (f"CAST({quoted(f.name)} AS {f.duck}) AS {quoted(f.name)}" for f in fields)
    return f"SELECT {', '.join(columns)} FROM {quoted(name)}"


_WORKERS = ThreadWorkers(Options(memory_mb=MEMORY_MB, threads=1))
"""One thread per worker: parts run in parallel, and small tables take half the time this way."""
os.register_at_fork(after_in_child=_WORKERS.forget)


def describe(sql: str, tables: Mapping[str, Fields]) -> Fields:
    """Names and types of a query's columns. Raises SqlError and Unsupported."""
    return _described(sql, tuple(tables.items()))


@functools.lru_cache(maxsize=4_096)  # each batch compiles its views and repeats the same queries
def _described(sql: str, tables: tuple[tuple[str, Fields], ...]) -> Fields:
    declared = [f"CREATE TEMP TABLE {quoted(n)} ({_declared(fields)})" for n, fields in tables]
    with _WORKERS.worker() as worker:
        for table in declared:
            worker.ask_in_thread([Query(table, {})], DESCRIBE_S)
        found = worker.ask_in_thread([Describe(sql)], DESCRIBE_S)
    assert isinstance(found, Described)
    columns = zip(found.names, found.duck, found.types, strict=True)
    labels = {
        labels_in_duckdb(f.type): f.type for _, fields in tables for f in fields if _has_labels(f)
    }
    labels |= {f"{name}[]": array_of(type_) for name, type_ in labels.items() if not type_.element}
    labels |= {
        name.removesuffix("[]"): type_.element for name, type_ in labels.items() if type_.element
    }
    return tuple(
        Field(name, duck_type(labels[duck]), labels[duck])
        if duck in labels
        else Field(name, _duck(duck), type_)
        for name, duck, type_ in columns
    )


def _declared(fields: Fields) -> str:
    return ", ".join(
        f"{quoted(f.name)} {labels_in_duckdb(f.type) if _has_labels(f) else f.duck}" for f in fields
    )


def _has_labels(field: Field) -> bool:
    return enumeration_of(field.type) is not None


def labels_in_duckdb(type_: ColumnType) -> str:
    """An ENUM as one of DuckDB, by which DuckDB tells which of its results are of this type. Its
    values are the positions, and the name of the type, which is no position."""
    labels = enumeration_of(type_)
    assert labels is not None
    values = ", ".join(map(literal_sql, (*labels.positions, f"~{labels.full}")))
    return f"ENUM({values}){'[]' if type_.element else ''}"


def _duck(name: str) -> str:
    """The type's name, with VARCHAR for an untyped NULL, as in every answer of the server. Our
    parser reads DuckDB's FLOAT as DOUBLE."""
    if name.startswith("ENUM("):
        return "VARCHAR"
    return {'"NULL"': "VARCHAR", "FLOAT": REAL.sql(), "FLOAT[]": f"{REAL.sql()}[]"}.get(name, name)


def columns_sql(fields: Iterable[Field], table: str = "") -> str:
    prefix = f"{table}." if table else ""
    return ", ".join(prefix + quoted(field.name) for field in fields)


def net(zset: Typed) -> Typed:
    """The same change without pairs of an insert and a delete of the same row. Rows whose intervals
    are equal, and have other parts, are not the same."""
    least_most = pc.min_max(zset.table[WEIGHT])
    if least_most["min"] == least_most["max"]:
        return zset
    columns = columns_sql(zset.fields[:-1])
    spans = [f"CAST({quoted(f.name)} AS VARCHAR)" for f in zset.fields if has_spans(f)]
    compared = ", ".join([columns, *spans])
    steps = {
        name: f"SELECT {compared} FROM z WHERE _w = {weight}"
        for name, weight in (("comes", 1), ("goes", -1))
    }
    sql = (
        f"SELECT {columns}, 1 FROM (SELECT * FROM comes EXCEPT ALL SELECT * FROM goes) UNION ALL "
        f"SELECT {columns}, -1 FROM (SELECT * FROM goes EXCEPT ALL SELECT * FROM comes)"
    )
    return evaluate(sql, {"z": zset}, zset.fields, steps)


def with_weight(rows: Typed, weight: int) -> Typed:
    """Rows as a Z-set, all with the same weight."""
    fields = weighted(rows.fields)
    weights = pa.repeat(pa.scalar(weight, pa.int8()), rows.table.num_rows)
    return Typed(fields, rows.table.append_column(schema_of(fields).field(WEIGHT), weights))


def concat(fields: Fields, parts: Iterable[Typed]) -> Typed:
    """All rows of tables that have the same fields."""
    schema = schema_of(fields)
    tables = [part.table.cast(schema) for part in parts]
    return Typed(fields, pa.concat_tables([schema.empty_table(), *tables]))
