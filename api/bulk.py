"""Bodies of bulk loads: CSV and Arrow streams to rows of our values."""

from __future__ import annotations

import io
import re
from collections import deque
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv

from query.duck import from_record_batch
from schema.errors import (
    ConstraintViolation,
    InvalidRequest,
    LimitExceeded,
    TypeMismatch,
    UnknownName,
)
from schema.model import Relation
from schema.sqltext import literal_sql

ARROW = "application/vnd.apache.arrow.stream"
MAX_EXPANSION = 8
"""A compressed Arrow stream may unpack to so many times its size (and a MiB)."""
_CSV = {"text/csv", "application/csv", ""}
_QUOTED = re.compile(rb'"(?<![^,\r\n]")(?:[^"]|"")*+("?)')
"""A field that begins with a quote; its group is the quote that ends it, empty if none does."""
Rows = Sequence[Sequence[Any]]


def read_rows(
    body: bytes, content_type: str, relation: Relation, max_rows: int
) -> tuple[list[str], Rows]:
    """Column names and rows of a body.

    Raises InvalidRequest for a body that cannot be read, UnknownName for a column that is not
    the relation's, LimitExceeded for too many rows.
    """
    media_type = content_type.split(";", maxsplit=1)[0].strip().lower()
    if media_type != ARROW and media_type not in _CSV:
        raise InvalidRequest(
            f"A body of type {media_type} cannot be loaded.", cure=f"Send text/csv or {ARROW}."
        )
    try:
        if media_type == ARROW:
            return _arrow_rows(body, relation, max_rows)
        return _csv_rows(body, relation, max_rows)
    except (pa.ArrowException, OSError, UnicodeError, ArithmeticError) as error:
        # Names that are no UTF-8, and decimals of a scale that is none, are noticed by Python.
        raise InvalidRequest(f"The body cannot be read as {media_type}: {error}") from None


def _arrow_rows(body: bytes, relation: Relation, max_rows: int) -> tuple[list[str], Rows]:
    rows: list[Sequence[Any]] = []
    unpacked = 0
    with pa.ipc.open_stream(body) as reader:
        names = _checked_names(list(reader.schema.names), relation)
        for batch in reader:
            batch.validate(full=True)  # offsets in it may lie
            unpacked += batch.nbytes
            if unpacked > MAX_EXPANSION * len(body) + (1 << 20):
                raise LimitExceeded(
                    f"The stream unpacks to more than {MAX_EXPANSION} times its size.",
                    cure="Send it uncompressed, in several requests.",
                )
            _check_count(len(rows) + batch.num_rows, max_rows)
            rows += from_record_batch(batch)
    return names, rows


def _csv_rows(body: bytes, relation: Relation, max_rows: int) -> tuple[list[str], Rows]:
    """All fields as text: our own coercion is exact. An empty unquoted field is NULL."""
    if _cut_in_quotes(body):  # pyarrow takes what there is for the whole field
        raise InvalidRequest(
            "The body ends inside a quoted field.", cure="Send all of it; nothing was loaded."
        )
    table = pyarrow.csv.read_csv(
        io.BytesIO(body),
        # Without threads errors name the row. A row must lie within a block.
        read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=max(len(body), 1)),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={name: pa.string() for name in relation.column_names},
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        ),
    )
    names = _checked_names(table.column_names, relation)
    _check_count(table.num_rows, max_rows)
    columns = [column.to_pylist() for column in table.columns]
    return names, list(zip(*columns, strict=True))


def _cut_in_quotes(body: bytes) -> bool:
    last = deque(_QUOTED.finditer(body), maxlen=1)
    return bool(last) and not last[0][1]


def _checked_names(names: list[str], relation: Relation) -> list[str]:
    for place, name in enumerate(names):
        if name not in relation.positions:
            raise UnknownName(
                f"Relation {relation.name} has no column {name!r}.",
                cure=f"Its columns are {', '.join(relation.column_names)}.",
                column=name,
            )
        if name in names[:place]:
            raise InvalidRequest(f"Column {name!r} is given twice.")
    return names


def _check_count(rows: int, max_rows: int) -> None:
    if rows > max_rows:
        raise LimitExceeded(
            f"More than {max_rows} rows in one load.", cure="Send them in several requests."
        )


def name_bad_row(
    error: TypeMismatch, relation: Relation, columns: Sequence[str], rows: Rows
) -> TypeMismatch:
    """`error` with the first row and column that do not fit; rows count from 1, data only."""
    types = [relation.column(name).type for name in columns]
    for number, row in enumerate(rows, start=1):
        for name, type_, value in zip(columns, types, row, strict=True):
            try:
                type_.coerce(value)
            except TypeMismatch as found:
                message = f"Row {number}, column {name}: {found.message}"
                details = {**found.details, "row": number, "column": name}
                return TypeMismatch(message, cure="Nothing was loaded.", **details)
    return error


def name_orphan(
    error: ConstraintViolation, relation: Relation, columns: Sequence[str], rows: Rows
) -> ConstraintViolation:
    """`error` with the first row that references what does not exist, if it is about that."""
    wanted, name = error.details.get("key"), error.details.get("constraint")
    keys = [key for key in relation.foreign_keys if key.name == name]
    if wanted is None or not keys or not {*keys[0].columns} <= {*columns}:
        return error
    places = [columns.index(column) for column in keys[0].columns]
    types = [relation.column(column).type for column in keys[0].columns]
    for number, row in enumerate(rows, start=1):
        values = (type_.coerce(row[i]) for type_, i in zip(types, places, strict=True))
        if [literal_sql(value) for value in values] == wanted:
            return type(error)(error.message, cure=error.cure, **error.details, row=number)
    return error
