"""Bodies of bulk loads: CSV and Arrow streams to rows of our values."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv

from query.duck import from_record_batch
from schema.errors import InvalidRequest
from schema.model import Relation

ARROW = "application/vnd.apache.arrow.stream"
Rows = Sequence[Sequence[Any]]


def read_rows(body: bytes, content_type: str, relation: Relation) -> tuple[list[str], Rows]:
    """Column names and rows of a body. Raises InvalidRequest."""
    try:
        if content_type.split(";", maxsplit=1)[0].strip() == ARROW:
            return _arrow_rows(body)
        return _csv_rows(body, relation)
    except (pa.ArrowException, OSError) as error:
        raise InvalidRequest(f"The body cannot be read as {content_type}: {error}") from None


def _arrow_rows(body: bytes) -> tuple[list[str], Rows]:
    with pa.ipc.open_stream(body) as reader:
        rows = [row for batch in reader for row in from_record_batch(batch)]
        return list(reader.schema.names), rows


def _csv_rows(body: bytes, relation: Relation) -> tuple[list[str], Rows]:
    """All fields as text: our own coercion is exact. An empty unquoted field is NULL."""
    options = pyarrow.csv.ConvertOptions(
        column_types={name: pa.string() for name in relation.column_names},
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=[""],
    )
    table = pyarrow.csv.read_csv(io.BytesIO(body), convert_options=options)
    columns = [column.to_pylist() for column in table.columns]
    return list(table.column_names), list(zip(*columns, strict=True)) if columns else []
