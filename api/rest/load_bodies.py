"""Bodies of bulk loads: CSV and Arrow streams are read into rows of Python values."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from hornbeam_server.query.dialect.duckdb_types import from_record_batch
from hornbeam_server.schema.assignment import assign_of_file
from hornbeam_server.schema.errors import (
    ConstraintViolation,
    InvalidRequest,
    LimitExceeded,
    TypeMismatch,
)
from hornbeam_server.schema.model import Relation
from hornbeam_server.schema.named_columns import require_columns, spelled
from hornbeam_server.schema.sqltext import literal_sql

ARROW = "application/vnd.apache.arrow.stream"
MAX_EXPANSION = 8
"""Maximum ratio of the unpacked size of an Arrow stream to its size (plus 1 MiB)."""
_QUOTES = re.compile(rb'"+')
_DELIMITER = re.compile(r";\s*delimiter=\"?([^;\"\s]+)", re.IGNORECASE)
_WINDOW = 1 << 20
MAX_REFERRED_BYTES = 64 << 20
"""Maximum bytes, in all rows together, of texts that are sent once and referred to by many rows."""
HEADER_BYTES = 1 << 20
"""The header line with the names of the columns must be shorter."""
STEP_ROWS = 10_000
"""Rows that one call converts to Python values. No other thread runs during the call."""
Rows = Sequence[Sequence[Any]]


def read_rows(
    body: bytes, content_type: str, relation: Relation, max_rows: int
) -> tuple[list[str], Rows]:
    """The column names and rows of a body: an Arrow stream if `content_type` says so, else CSV.

    Raises InvalidRequest for a body that cannot be read, UnknownName for a column that the relation
    does not have, LimitExceeded for too many rows or a body that unpacks to too many bytes.
    """
    media_type = content_type.split(";", maxsplit=1)[0].strip().lower()
    try:
        if media_type == ARROW:
            return _arrow_rows(body, relation, max_rows)
        return _csv_rows(body, relation, max_rows, _delimiter(content_type))
    except (pa.ArrowException, OSError, UnicodeError, ArithmeticError, csv.Error) as error:
        # The last three come from Python: names that are no UTF-8, decimals of an invalid scale,
        # and names of more than 131 072 characters.
        raise InvalidRequest(
            f"The body cannot be read as {media_type}: {error}",
            cure="Send a complete file of this type; nothing was loaded.",
        ) from None


def _arrow_rows(body: bytes, relation: Relation, max_rows: int) -> tuple[list[str], Rows]:
    rows: list[Sequence[Any]] = []
    unpacked = referred = 0
    with pa.ipc.open_stream(body) as reader:
        names = spelled(relation, reader.schema.names)
        require_columns(relation, names)
        for batch in reader:
            batch.validate(full=True)  # its offsets may be wrong
            unpacked += batch.nbytes
            if unpacked > MAX_EXPANSION * len(body) + (1 << 20):
                raise LimitExceeded(
                    f"The stream unpacks to more than {MAX_EXPANSION} times its size.",
                    cure="Send it uncompressed, in several requests.",
                )
            _check_count(len(rows) + batch.num_rows, max_rows)
            referred += sum(map(_referred_bytes, batch.columns))
            if referred > MAX_REFERRED_BYTES:
                raise LimitExceeded(
                    "The stream's dictionaries or views unpack to more than"
                    f" {MAX_REFERRED_BYTES} bytes.",
                    cure="Send plain columns, in several requests.",
                )
            for start in range(0, batch.num_rows, STEP_ROWS):
                rows += from_record_batch(batch.slice(start, STEP_ROWS))
    return names, rows


def _referred_bytes(column: pa.Array) -> int:
    """The bytes of the texts that rows refer to, counted per row: every row may refer to one
    text."""
    if pa.types.is_dictionary(column.type):
        lengths = _text_lengths(column.dictionary).cast(pa.int64()).take(column.indices)
        return pc.sum(lengths).as_py() or 0
    if pa.types.is_string_view(column.type):
        return pc.sum(_text_lengths(column).cast(pa.int64())).as_py() or 0
    return 0


def _text_lengths(texts: pa.Array) -> pa.Array:
    if pa.types.is_string_view(texts.type):  # each view has four numbers; the first is its length
        numbers = memoryview(texts.buffers()[1]).cast("i")
        first, last = texts.offset, texts.offset + len(texts)
        return pa.array(numbers[4 * first : 4 * last : 4].tolist(), pa.int32())
    if pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type):
        return pc.binary_length(texts)
    return pa.nulls(len(texts), pa.int32())


def _delimiter(content_type: str) -> str:
    """The sign between fields: the parameter `delimiter` of the media type, percent-encoded. Raises
    InvalidRequest."""
    found = _DELIMITER.search(content_type)
    sign = "," if found is None else unquote(found[1])
    if len(sign) != 1 or not sign.isascii() or sign in '"\r\n':
        raise InvalidRequest(
            f"{sign!r} is no delimiter of CSV.",
            cure="Give one ASCII sign: text/csv; delimiter=%3B for a semicolon.",
        )
    return sign


def _csv_rows(
    body: bytes, relation: Relation, max_rows: int, delimiter: str
) -> tuple[list[str], Rows]:
    """Read all fields as text: the coercion to column types, later, is exact. An empty unquoted
    field is NULL. So an empty line is a row if there is one column, as in PostgreSQL's COPY; else
    it is skipped."""
    _check_width(body, relation, delimiter.encode())
    if _cut_in_quotes(body, delimiter.encode()):  # pyarrow would take the cut field for a whole one
        raise InvalidRequest(
            "The body ends inside a quoted field.", cure="Send all of it; nothing was loaded."
        )
    header = _header(body, delimiter)
    table = pyarrow.csv.read_csv(
        io.BytesIO(body),
        # Without threads errors name the row. A row must lie within a block.
        read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=max(len(body), 1)),
        parse_options=pyarrow.csv.ParseOptions(
            delimiter=delimiter, newlines_in_values=True, ignore_empty_lines=len(header) != 1
        ),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(header, pa.string()),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        ),
    )
    names = spelled(relation, table.column_names)
    require_columns(relation, names)
    _check_count(table.num_rows, max_rows)
    rows: list[Sequence[Any]] = []
    for start in range(0, table.num_rows, STEP_ROWS):
        part = table.slice(start, STEP_ROWS)
        rows += zip(*(column.to_pylist() for column in part.columns), strict=True)
    return names, rows


def _first_line(body: bytes) -> bytes:
    return re.split(rb"[\r\n]", body[:HEADER_BYTES], maxsplit=1)[0]


def _header(body: bytes, delimiter: str) -> list[str]:
    """The names in the first line."""
    first = _first_line(body).removeprefix(b"\xef\xbb\xbf").decode()
    return next(csv.reader([first], delimiter=delimiter), [])


def _check_width(body: bytes, relation: Relation, delimiter: bytes) -> None:
    """Raises InvalidRequest for a header with far more names than the relation has columns: each
    name would take memory. Names may hold commas."""
    header = _first_line(body)
    names = 1 + header.count(delimiter)
    limit = 100 + sum(1 + name.encode().count(delimiter) for name in relation.visible_names)
    if names > limit or len(header) == HEADER_BYTES:
        raise InvalidRequest(
            f"The first line has {len(header)} bytes and {names} names; {relation.name} has"
            f" {len(relation.visible_names)} columns.",
            cure="Begin the CSV with a line of the names of its columns.",
        )


def _cut_in_quotes(body: bytes, delimiter: bytes) -> bool:
    """Does the body end inside a quoted field? A quoted field begins after a separator. In a run of
    quotes inside the field two quotes stand for one, and an odd quote ends the field. The search
    makes many short calls, so that other threads go on."""
    opening = re.compile(b"[\r\n" + re.escape(delimiter) + b']"')
    at = 0 if body.startswith(b'"') else _opening_quote(body, 0, opening)
    while at >= 0:
        quotes = _QUOTES.search(body, at + 1)
        while quotes is not None and len(quotes[0]) % 2 == 0:
            quotes = _QUOTES.search(body, quotes.end())
        if quotes is None:
            return True
        at = _opening_quote(body, quotes.end(), opening)
    return False


def _opening_quote(body: bytes, start: int, opening: re.Pattern[bytes]) -> int:
    """The position of the quote that opens the next quoted field; -1: there is none."""
    for low in range(start, len(body), _WINDOW):
        found = opening.search(body, low, low + _WINDOW + 1)
        if found is not None:
            return found.start() + 1
    return -1


def _check_count(rows: int, max_rows: int) -> None:
    if rows > max_rows:
        raise LimitExceeded(
            f"More than {max_rows} rows in one load.", cure="Send them in several requests."
        )


def name_bad_row(
    error: TypeMismatch, relation: Relation, columns: Sequence[str], rows: Rows
) -> TypeMismatch:
    """`error` with the first row and column whose value does not fit. Rows are counted from 1,
    without the header."""
    types = [relation.column(name).type for name in columns]
    for number, row in enumerate(rows, start=1):
        for name, type_, value in zip(columns, types, row, strict=True):
            try:
                assign_of_file(type_, value)
            except TypeMismatch as found:
                message = f"Row {number}, column {name}: {found.message}"
                details = {**found.details, "row": number, "column": name}
                return TypeMismatch(message, cure="Nothing was loaded.", **details)
    return error


def name_orphan(
    error: ConstraintViolation, relation: Relation, columns: Sequence[str], rows: Rows
) -> ConstraintViolation:
    """`error` with the first row that references a missing parent, if that is the violation."""
    wanted, name = error.details.get("key"), error.details.get("constraint")
    keys = [key for key in relation.foreign_keys if key.name == name]
    if wanted is None or not keys or not {*keys[0].columns} <= {*columns}:
        return error
    places = [columns.index(column) for column in keys[0].columns]
    types = [relation.column(column).type for column in keys[0].columns]
    for number, row in enumerate(rows, start=1):
        values = (assign_of_file(type_, row[i]) for type_, i in zip(types, places, strict=True))
        if [literal_sql(value) for value in values] == wanted:
            details = {**error.details, "row": number}
            return type(error)(error.message, cure=error.cure, **details)
    return error
