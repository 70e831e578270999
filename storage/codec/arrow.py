"""Rows as Arrow record batches: the Arrow type of each column type, and rows as columns.

UUID and JSON have Arrow's canonical extension types. A column of an ENUM has the positions of its
labels, which are ordered as the labels are; a column of texts has the labels themselves.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence

import pyarrow as pa

from hornbeam_server.schema.enumerations import position_of
from hornbeam_server.schema.intervals import Interval
from hornbeam_server.schema.model import Column
from hornbeam_server.schema.rows import projection
from hornbeam_server.schema.types import (
    MAX_DECIMAL_PRECISION,
    REAL,
    ColumnType,
    Kind,
    Row,
    Value,
    enumeration_of,
)

_ARROW: dict[Kind, pa.DataType] = {
    Kind.INTEGER: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.DOUBLE: pa.float64(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.TEXT: pa.string(),
    Kind.BYTES: pa.binary(),
    Kind.DATE: pa.date32(),
    Kind.TIME: pa.time64("us"),
    Kind.TIMESTAMP: pa.timestamp("us"),
    Kind.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
    Kind.INTERVAL: pa.month_day_nano_interval(),
    Kind.UUID: pa.uuid(),
    Kind.JSON: pa.json_(),
    Kind.ENUM: pa.string(),
}


def arrow_type(type_: ColumnType) -> pa.DataType:
    if type_ == REAL:
        return pa.float32()
    if type_.kind is Kind.DECIMAL:
        return pa.decimal128(type_.precision or MAX_DECIMAL_PRECISION, type_.scale or 0)
    if type_.element is not None:
        return pa.list_(arrow_type(type_.element))
    return _ARROW[type_.kind]


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """The Arrow schema of `columns`. All fields are nullable: a view row may be read before its
    NOT NULL is checked."""
    return pa.schema([(column.name, arrow_type(column.type)) for column in columns])


def to_record_batch(columns: Sequence[Column], rows: Sequence[Row]) -> pa.RecordBatch:
    """Convert rows, whose values have the columns' types, to one batch."""
    values: Iterable[Sequence[Value]] = zip(*rows, strict=True) if rows else ((),) * len(columns)
    schema = arrow_schema(columns)
    stored = (_positions(some, column.type) for some, column in zip(values, columns, strict=True))
    arrays = [_array(column, field.type) for column, field in zip(stored, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _positions(values: Sequence[Value], type_: ColumnType) -> Sequence[Value]:
    """The values of a column, with positions instead of labels."""
    if type_.enumeration is not None:
        return list(map(position_of, values))
    if enumeration_of(type_) is not None:
        return [v if v is None else tuple(map(position_of, v)) for v in values]  # type: ignore[arg-type]
    return values


def picked_batch(
    columns: Sequence[Column], at: Sequence[int], rows: Sequence[Row]
) -> pa.RecordBatch:
    """The values at the positions `at`, at least one, of rows that have `columns`."""
    if list(at) == list(range(len(columns))):
        return to_record_batch(columns, rows)
    pick = projection(at)
    return to_record_batch([columns[i] for i in at], [pick(row) for row in rows])


def _array(values: Sequence[Value], type_: pa.DataType) -> pa.Array:
    if type_ == pa.uuid():
        packed = [value.bytes if isinstance(value, uuid.UUID) else None for value in values]
        return pa.ExtensionArray.from_storage(type_, pa.array(packed, type_.storage_type))
    if type_ == pa.month_day_nano_interval():
        return pa.array([_nanoseconds(value) for value in values], type_)
    if pa.types.is_list(type_):
        return _lists(values, type_.value_type)
    if isinstance(type_, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(type_, pa.array(values, type_.storage_type))
    return pa.array(values, type_)


def _lists(values: Sequence[Value], element: pa.DataType) -> pa.Array:
    """Arrays as a column of lists: the elements of all of them, and where each begins."""
    elements: list[Value] = []
    begins: list[int | None] = []
    for value in values:
        begins.append(len(elements) if isinstance(value, tuple) else None)
        elements += value if isinstance(value, tuple) else ()
    begins.append(len(elements))
    return pa.ListArray.from_arrays(pa.array(begins, pa.int32()), _array(elements, element))


def _nanoseconds(value: Value) -> tuple[int, int, int] | None:
    if not isinstance(value, Interval):
        return None
    return value.months, value.days, value.microseconds * 1_000
