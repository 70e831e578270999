"""Typed Arrow tables, and SQL over them: everything row-wise in delta programs is DuckDB's work.

A table's columns are `Fields`. A *Z-set* is a table with one more column, `_w`: +1 for a row that
comes, -1 for one that goes. Weights are never added up to others, so that
`SUM(x) FILTER (_w = 1) - SUM(x) FILTER (_w = -1)` has the type and the exactness of `SUM(x)`.

Arrow has no HUGEINT, and UUID and JSON travel as text: on the way in each column is cast to the
DuckDB type that its field names, so an expression sees what it would see in the whole query.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from maintain.changes import Change
from query.duck import (
    arrow_schema,
    arrow_type,
    column_type,
    connect,
    from_record_batch,
    quoted,
    to_record_batch,
)
from query.session import translated
from schema.model import Column
from schema.types import ColumnType, Kind, Row

WEIGHT = "_w"
MEMORY_MB = 1_024
_TEXT_IN_ARROW = (Kind.UUID, Kind.JSON)


@dataclass(frozen=True, slots=True)
class Field:
    """A column: `duck` is the name of its type in DuckDB, `type` what it is stored as."""

    name: str
    duck: str
    type: ColumnType
    nullable: bool = True

    def column(self, name: str | None = None) -> Column:
        return Column(self.name if name is None else name, self.type)


Fields = tuple[Field, ...]
WEIGHT_FIELD = Field(WEIGHT, "TINYINT", ColumnType(Kind.INTEGER), nullable=False)


@dataclass(frozen=True, slots=True)
class Typed:
    """A table and what its columns are. Column order is that of `fields`."""

    fields: Fields
    table: pa.Table

    @property
    def empty(self) -> bool:
        return not self.table.num_rows

    def renamed(self, fields: Fields) -> Typed:
        """The same columns under other names."""
        return Typed(fields, self.table.rename_columns(_names(fields)))

    def rows(self) -> list[Row]:
        """As Python values of the fields' stored types."""
        types = [field.type for field in self.fields]
        batches = self.table.to_batches()
        return [row for batch in batches for row in from_record_batch(batch, types)]


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
        Field(column.name, _plain(column.type).sql(), _plain(column.type), column.nullable)
        for column in columns
    )


def _plain(type_: ColumnType) -> ColumnType:
    """Without the length of a text, which no expression knows."""
    return ColumnType(Kind.TEXT) if type_.kind is Kind.TEXT else type_


def changed_rows(columns: Sequence[Column], changes: Iterable[Change]) -> pa.Table:
    """Net changes of one relation as a Z-set: old rows go, new rows come."""
    rows: list[Row] = []
    for change in changes:
        if change.old is not None:
            rows.append((*change.old, -1))
        if change.new is not None:
            rows.append((*change.new, 1))
    batch = to_record_batch([*columns, Column(WEIGHT, ColumnType(Kind.INTEGER))], rows)
    return pa.Table.from_batches([batch]).cast(changes_schema(columns))


def changes_schema(columns: Iterable[Column]) -> pa.Schema:
    """The Arrow schema of a relation's changes. UUID and JSON may as well come as text."""
    return arrow_schema(columns).append(pa.field(WEIGHT, pa.int8()))


def evaluate(
    sql: str,
    tables: Mapping[str, Typed],
    fields: Fields,
    steps: Mapping[str, str] | None = None,
) -> Typed:
    """The rows of `sql`, which may name `tables` and, in order, the results of `steps`.

    Raises what DuckDB's errors are here (SqlError, TypeMismatch, LimitExceeded).
    """
    head = {name: _source(f"arrow_{name}", typed.fields) for name, typed in tables.items()}
    head |= steps or {}
    with_ = ", ".join(f"{quoted(name)} AS ({select})" for name, select in head.items())
    with _database().cursor() as cursor:
        for name, typed in tables.items():
            cursor.register(f"arrow_{name}", typed.table)
        try:
            table = cursor.sql(f"WITH {with_} {sql}").to_arrow_table()
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise translated(error) from None
    return Typed(fields, table.rename_columns(_names(fields)).cast(schema_of(fields)))


def _names(fields: Fields) -> list[str]:
    return [field.name for field in fields]


def _source(name: str, fields: Fields) -> str:
    columns = (f"CAST({quoted(f.name)} AS {f.duck}) AS {quoted(f.name)}" for f in fields)
    return f"SELECT {', '.join(columns)} FROM {quoted(name)}"


@functools.cache
def _database() -> duckdb.DuckDBPyConnection:
    # One thread: what runs side by side is parts, and small tables are done in half the time.
    return connect(memory_limit_mb=MEMORY_MB, threads=1)


def describe(sql: str, tables: Mapping[str, Fields]) -> Fields:
    """Names and types of a query's columns. Raises SqlError and Unsupported."""
    return _described(sql, tuple(tables.items()))


@functools.lru_cache(maxsize=4_096)  # each batch compiles its views: the same questions each time
def _described(sql: str, tables: tuple[tuple[str, Fields], ...]) -> Fields:
    with _database().cursor() as cursor:
        try:
            for name, fields in tables:
                cursor.execute(f"CREATE TEMP TABLE {quoted(name)} ({_declared(fields)})")
            relation = cursor.sql(sql)
            found = list(zip(relation.columns, relation.types, strict=True))
        except duckdb.Error as error:
            raise translated(error) from None
    return tuple(Field(name, _duck(str(type_)), column_type(type_)) for name, type_ in found)


def _declared(fields: Fields) -> str:
    return ", ".join(f"{quoted(field.name)} {field.duck}" for field in fields)


def _duck(name: str) -> str:
    """A NULL without type is text, as in every answer of ours."""
    return "VARCHAR" if name == '"NULL"' else name


def columns_sql(fields: Iterable[Field], table: str = "") -> str:
    prefix = f"{table}." if table else ""
    return ", ".join(prefix + quoted(field.name) for field in fields)


def net(zset: Typed) -> Typed:
    """The same change without the rows that both come and go."""
    least_most = pc.min_max(zset.table[WEIGHT])
    if least_most["min"] == least_most["max"]:
        return zset
    columns = columns_sql(zset.fields[:-1])
    steps = {
        name: f"SELECT {columns} FROM z WHERE _w = {weight}"
        for name, weight in (("comes", 1), ("goes", -1))
    }
    sql = (
        f"SELECT {columns}, 1 FROM (SELECT * FROM comes EXCEPT ALL SELECT * FROM goes) UNION ALL "
        f"SELECT {columns}, -1 FROM (SELECT * FROM goes EXCEPT ALL SELECT * FROM comes)"
    )
    return evaluate(sql, {"z": zset}, zset.fields, steps)


def with_weight(rows: Typed, weight: int) -> Typed:
    """Rows that all come, or all go."""
    fields = weighted(rows.fields)
    weights = pa.repeat(pa.scalar(weight, pa.int8()), rows.table.num_rows)
    return Typed(fields, rows.table.append_column(schema_of(fields).field(WEIGHT), weights))


def concat(fields: Fields, parts: Iterable[Typed]) -> Typed:
    """All rows of tables of the same fields."""
    schema = schema_of(fields)
    tables = [part.table.cast(schema) for part in parts]
    return Typed(fields, pa.concat_tables([schema.empty_table(), *tables]))
