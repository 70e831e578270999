"""Type mapping between Hornbeam, DuckDB and Arrow, and the opening of DuckDB databases.

UUID and JSON are sent as Arrow's canonical extension types, so DuckDB has UUID and JSON columns.
DuckDB returns them as plain text; callers that need UUIDs pass the column types.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from hornbeam_server.schema.enumerations import Label, position_of
from hornbeam_server.schema.errors import TypeMismatch, Unsupported
from hornbeam_server.schema.intervals import Interval
from hornbeam_server.schema.seconds import time_at
from hornbeam_server.schema.types import (
    JSONB,
    MAX_DECIMAL_PRECISION,
    REAL,
    UNORDERED,
    ColumnType,
    Kind,
    Row,
    array_of,
    enumeration_of,
)

if TYPE_CHECKING:  # only workers load DuckDB, not the server process
    import duckdb
    from duckdb.sqltypes import DuckDBPyType

THREADS = 2

_DUCKDB: dict[str, ColumnType] = {
    "tinyint": ColumnType(Kind.INTEGER),
    "smallint": ColumnType(Kind.INTEGER),
    "integer": ColumnType(Kind.INTEGER),
    "utinyint": ColumnType(Kind.INTEGER),
    "usmallint": ColumnType(Kind.INTEGER),
    "uinteger": ColumnType(Kind.BIGINT),
    "bigint": ColumnType(Kind.BIGINT),
    "ubigint": ColumnType(Kind.DECIMAL, 20, 0),
    "hugeint": ColumnType(Kind.DECIMAL, MAX_DECIMAL_PRECISION, 0),
    "float": REAL,
    "double": ColumnType(Kind.DOUBLE),
    "boolean": ColumnType(Kind.BOOLEAN),
    "varchar": ColumnType(Kind.TEXT),
    "enum": ColumnType(Kind.TEXT),
    '"null"': ColumnType(Kind.TEXT),
    "null": ColumnType(Kind.TEXT),
    "json": ColumnType(Kind.JSON),
    "blob": ColumnType(Kind.BYTES),
    "date": ColumnType(Kind.DATE),
    "time": ColumnType(Kind.TIME),
    "timestamp": ColumnType(Kind.TIMESTAMP),
    "timestamp_s": ColumnType(Kind.TIMESTAMP),
    "timestamp_ms": ColumnType(Kind.TIMESTAMP),
    "timestamp with time zone": ColumnType(Kind.TIMESTAMPTZ),
    "interval": ColumnType(Kind.INTERVAL),
    "uuid": ColumnType(Kind.UUID),
}


MEANING: dict[str, str | bool | int | float | list[str]] = {
    "default_null_order": "nulls_last_on_asc_first_on_desc",
    "integer_division": True,
    "ieee_floating_point_ops": False,  # a division by zero is an error
}
"""DuckDB's settings for PostgreSQL's meaning."""


def connect(
    *, memory_limit_mb: int = 128, threads: int = THREADS, spill_folder: Path | None = None
) -> duckdb.DuckDBPyConnection:
    """Open an in-memory database that can read only registered relations. It has none of our
    functions and macros (`Definitions`).

    SQL in it cannot reach files, the network, extensions, Python variables or DuckDB's settings.
    Without `spill_folder`, a query that needs more memory than the limit fails.
    """
    import duckdb

    connection = duckdb.connect(
        ":memory:",
        config={
            "threads": threads,
            "memory_limit": f"{memory_limit_mb}MiB",
            "temp_directory": str(spill_folder) if spill_folder is not None else "",
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
            "python_enable_replacements": False,
            **MEANING,
        },
    )
    connection.execute("SET GLOBAL TimeZone = 'UTC'")  # GLOBAL also covers cursors
    # Last, because DuckDB refuses to set temp_directory without external access.
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def bound(value: Any) -> Any:
    """A parameter's value for DuckDB, which knows no intervals with months in Python, and has
    positions instead of labels."""
    if isinstance(value, Label):
        return value.position
    if isinstance(value, tuple) and any(isinstance(each, Label) for each in value):
        return list(map(position_of, value))
    spans = isinstance(value, tuple) and any(isinstance(each, Interval) for each in value)
    if not isinstance(value, Interval) and not spans:
        return value
    import duckdb
    from duckdb.sqltypes import INTERVAL

    if isinstance(value, Interval):
        return duckdb.Value(value.plain(), INTERVAL)
    plain = [each if each is None else each.plain() for each in value]
    return duckdb.Value(plain, duckdb.list_type(INTERVAL))


def quoted(name: str) -> str:
    """`name` as a quoted identifier in SQL for DuckDB; `name` may contain any characters."""
    return '"' + name.replace('"', '""') + '"'


def column_type(type_: DuckDBPyType | pa.DataType) -> ColumnType:
    """The ColumnType for a DuckDB or Arrow type. Raises Unsupported if there is none."""
    if isinstance(type_, pa.DataType):
        return _from_arrow(type_)
    if type_.id == "decimal":
        parameters = dict(type_.children)
        return ColumnType(Kind.DECIMAL, int(parameters["precision"]), int(parameters["scale"]))
    if type_.id in ("list", "array"):
        return _array_of(column_type(dict(type_.children)["child"]), type_)
    found = _DUCKDB.get(str(type_).lower()) or _DUCKDB.get(type_.id)
    if found is None:
        raise _unsupported(type_)
    return found


def _array_of(element: ColumnType, type_: object) -> ColumnType:
    """The type of arrays. Raises Unsupported for elements that an array cannot have."""
    if element.kind in UNORDERED:
        raise _unsupported(type_)
    return array_of(element)


def _from_arrow(type_: pa.DataType) -> ColumnType:
    if _is_list(type_):
        return _array_of(_from_arrow(type_.value_type), type_)
    if pa.types.is_decimal(type_):
        return ColumnType(Kind.DECIMAL, type_.precision, type_.scale)
    if pa.types.is_float32(type_):
        return REAL
    for belongs, kind in _ARROW_KINDS:
        if belongs(type_):
            return ColumnType(kind)
    if type_ == pa.uint64():
        return _DUCKDB["ubigint"]
    raise _unsupported(type_)


_ARROW_KINDS: tuple[tuple[Callable[[pa.DataType], bool], Kind], ...] = (
    (lambda t: t == pa.uuid(), Kind.UUID),
    (lambda t: isinstance(t, pa.JsonType), Kind.JSON),
    (lambda t: t in (pa.int64(), pa.uint32()), Kind.BIGINT),
    (lambda t: pa.types.is_integer(t) and t.bit_width <= 32, Kind.INTEGER),
    (pa.types.is_floating, Kind.DOUBLE),
    (pa.types.is_boolean, Kind.BOOLEAN),
    (lambda t: pa.types.is_timestamp(t) and t.tz is not None, Kind.TIMESTAMPTZ),
    (pa.types.is_timestamp, Kind.TIMESTAMP),
    (pa.types.is_date, Kind.DATE),
    (lambda t: t == pa.month_day_nano_interval(), Kind.INTERVAL),
    (pa.types.is_time, Kind.TIME),
    (lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t), Kind.BYTES),
    (lambda t: pa.types.is_string(t) or pa.types.is_large_string(t), Kind.TEXT),
    (lambda t: pa.types.is_string_view(t) or pa.types.is_null(t), Kind.TEXT),
    (lambda t: pa.types.is_dictionary(t) and pa.types.is_string(t.value_type), Kind.TEXT),
)


def _is_list(type_: pa.DataType) -> bool:
    return any(
        belongs(type_)
        for belongs in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    )


def _unsupported(type_: object) -> Unsupported:
    if str(type_) == "BIGNUM":
        return Unsupported(
            f"A number has more than {MAX_DECIMAL_PRECISION} digits.",
            cure="Write it with a point or an exponent, as a DOUBLE, or CAST it to TEXT.",
        )
    return Unsupported(
        f"A result column of type {type_} cannot be returned.", cure="CAST it to TEXT in the query."
    )


def from_record_batch(
    batch: pa.RecordBatch, types: Sequence[ColumnType | None] | None = None
) -> list[Row]:
    """Convert a batch to rows of Python values. Text becomes UUIDs if `types` says so; without
    `types`, Arrow's types apply.

    Raises Unsupported for types without a Python value, TypeMismatch for dates outside Python's
    range (years 1 to 9999).
    """
    wanted = types or [None] * batch.num_columns
    columns = [from_array(c, type_) for c, type_ in zip(batch.columns, wanted, strict=True)]
    return list(zip(*columns, strict=True)) if columns else [()] * batch.num_rows


def with_known_types(
    types: Sequence[ColumnType], known: Sequence[ColumnType | None]
) -> list[ColumnType]:
    """DuckDB's types of a result's columns, with the ENUMs and JSONB that binding knows: DuckDB has
    texts and JSON for them."""
    if len(known) != len(types):
        return list(types)
    return [
        mine if mine is not None and (enumeration_of(mine) or mine == JSONB) else type_
        for type_, mine in zip(types, known, strict=True)
    ]


def from_array(column: pa.Array, wanted: ColumnType | None) -> list[Any]:
    """`from_record_batch` for one column."""
    type_ = wanted or column_type(column.type)
    kind = type_.kind
    if type_.element is not None:
        return _tuples(column, None if wanted is None else type_.element)
    if type_.enumeration is not None:
        labels = type_.enumeration.by_position
        return [None if value is None else labels[value] for value in column.to_pylist()]
    if kind is Kind.UUID:
        return [_uuid(value) for value in column.to_pylist()]
    if kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        try:
            return _moments(column, kind)
        except (ValueError, OverflowError, pa.ArrowInvalid) as error:
            message = f"A date or timestamp lies outside the years 1 to 9999: {error}"
            raise TypeMismatch(message) from None
    if kind is Kind.TIME:
        return _times(column)
    if kind is Kind.INTERVAL:
        return [_interval(value) for value in column.to_pylist()]
    plain = column.storage if isinstance(column, pa.ExtensionArray) else column
    return list(plain.to_pylist())


def _tuples(column: pa.Array, element: ColumnType | None) -> list[tuple[Any, ...] | None]:
    elements = from_array(column.flatten(), element)
    found: list[tuple[Any, ...] | None] = []
    begin = 0
    for length in pc.list_value_length(column).to_pylist():
        found.append(None if length is None else tuple(elements[begin : begin + length]))
        begin += length or 0
    return found


def _uuid(value: uuid.UUID | str | None) -> uuid.UUID | None:
    """The UUID of a value: DuckDB's batches hold text, Hornbeam's own batches hold UUIDs."""
    return uuid.UUID(value) if isinstance(value, str) else value


def _moments(column: pa.Array, kind: Kind) -> list[Any]:
    """The dates or timestamps of a column, computed from the integers in Arrow's buffers. This is
    ten times as fast as Arrow's own conversion."""
    if kind is Kind.DATE:
        days = column.cast(pa.date32()).cast(pa.int32()).to_pylist()
        return [None if day is None else dt.date.fromordinal(_EPOCH_DAY + day) for day in days]
    epoch = _EPOCH if kind is Kind.TIMESTAMP else _EPOCH.replace(tzinfo=dt.UTC)
    ticks = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
    return [None if tick is None else epoch + dt.timedelta(microseconds=tick) for tick in ticks]


def _interval(value: Any) -> Interval | None:
    """The interval of Arrow's (months, days, nanoseconds)."""
    return None if value is None else Interval(value[0], value[1], value[2] // 1_000)


def _times(column: pa.Array) -> list[Any]:
    ticks = column.cast(pa.time64("us")).cast(pa.int64()).to_pylist()
    try:
        return [None if tick is None else time_at(tick) for tick in ticks]
    except ValueError as error:
        raise TypeMismatch(f"A result is no time of day: {error}.") from None


_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_DAY = _EPOCH.toordinal()
