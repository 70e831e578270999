"""Conversion of column types to Spark's types, and of rows to Arrow batches for Spark.

Types are converted exactly, except that TIME, INTERVAL, UUID and JSON, which Spark lacks, become
text, also as elements of arrays. A TIMESTAMP without a time zone is Spark's TIMESTAMP_NTZ.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
from pyspark.sql import types as spark

from hornbeam_server.query.dialect.duckdb_types import from_array
from hornbeam_server.schema.assignment import text_of
from hornbeam_server.schema.catalog import Layout
from hornbeam_server.schema.errors import NotFound
from hornbeam_server.schema.model import Column
from hornbeam_server.schema.types import MAX_DECIMAL_PRECISION, REAL, ColumnType, Kind, Row
from hornbeam_server.storage.codec.arrow import arrow_type

_TEXT = frozenset({Kind.TIME, Kind.INTERVAL, Kind.UUID, Kind.JSON, Kind.ENUM})
_SPARK: dict[Kind, spark.DataType] = {
    Kind.INTEGER: spark.IntegerType(),
    Kind.BIGINT: spark.LongType(),
    Kind.DOUBLE: spark.DoubleType(),
    Kind.BOOLEAN: spark.BooleanType(),
    Kind.TEXT: spark.StringType(),
    Kind.BYTES: spark.BinaryType(),
    Kind.DATE: spark.DateType(),
    Kind.TIMESTAMP: spark.TimestampNTZType(),
    Kind.TIMESTAMPTZ: spark.TimestampType(),
    Kind.TIME: spark.StringType(),
    Kind.INTERVAL: spark.StringType(),
    Kind.UUID: spark.StringType(),
    Kind.JSON: spark.StringType(),
    Kind.ENUM: spark.StringType(),
}


def spark_type(type_: ColumnType) -> spark.DataType:
    if type_.kind is Kind.DECIMAL:
        return spark.DecimalType(type_.precision or MAX_DECIMAL_PRECISION, type_.scale or 0)
    if type_ == REAL:
        return spark.FloatType()
    if type_.element is not None:
        return spark.ArrayType(spark_type(type_.element))
    return _SPARK[type_.kind]


def spark_schema(columns: Iterable[Column]) -> spark.StructType:
    """Columns as a Spark schema. All are nullable: Spark would rely on NOT NULL, which rows of
    older schemas may violate."""
    return spark.StructType([spark.StructField(c.name, spark_type(c.type)) for c in columns])


def chosen(layout: Layout, names: str | None) -> list[Column]:
    """Columns by their names, separated by commas; None: all except a row identity. Raises
    NotFound."""
    if names is None:
        return [column for column in layout.columns if not column.hidden]
    wanted = [name.strip() for name in names.split(",")]
    unknown = [name for name in wanted if name not in layout.positions]
    if unknown:
        raise NotFound(
            f"{layout.name} has no column {', '.join(unknown)}.",
            cure=f"Its columns are {', '.join(layout.column_names)}.",
        )
    return [layout.columns[layout.positions[name]] for name in wanted]


def to_batch(columns: Sequence[Column], at: Sequence[int], rows: Sequence[Row]) -> pa.RecordBatch:
    """The values at the positions `at` of rows, at least one, which have the types of `columns`."""
    values = list(zip(*rows, strict=True))
    arrays = [_array(column.type, values[i]) for column, i in zip(columns, at, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])


def for_spark(columns: Sequence[Column], batch: pa.RecordBatch) -> pa.RecordBatch:
    """`to_batch` for values that are Arrow's already: those of `columns`, in their order."""
    arrays = [
        _array(column.type, from_array(values, column.type)) if _is_text(column.type) else values
        for column, values in zip(columns, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])


def _is_text(type_: ColumnType) -> bool:
    """Does Spark have text for values of this type?"""
    return (type_ if type_.element is None else type_.element).kind in _TEXT


def _array(type_: ColumnType, values: Sequence[object]) -> pa.Array:
    if type_.element is not None and _is_text(type_):
        texts = [v if v is None else [_text(e) for e in v] for v in values]  # type: ignore[attr-defined]
        return pa.array(texts, pa.list_(pa.string()))
    if type_.kind not in _TEXT:
        return pa.array(values, arrow_type(type_))
    return pa.array(map(_text, values), pa.string())


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else text_of(value)
