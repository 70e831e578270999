"""The writing side of the data source: append a data frame's rows to a relation.

    frame.write.format("hornbeam").options(url=…, relation="orders").mode("append").save()

Each partition sends its rows from an executor to the nodes, in batches of `batchRows`. Each batch
is one transaction (`POST /v1/load/{relation}`), with all constraints, views and indexes.

**At most once.** Spark may compute and write a partition several times: after a failure, or
concurrently (speculation). So a batch has an idempotency key made of the write's id, the
partition's number, and the position of its first row in the partition. Batches are cut by the
number of rows only, independent of Spark's record batches. Of several requests with the same key at
most one is committed; the others get its recorded answer, if they contain the same rows. If a
recomputed frame gives other rows, or another order, the request is refused and the write fails:
then it is unknown which rows are missing, and guessing would duplicate or lose rows.

**Not atomic.** Committed batches stay, even if others fail; therefore `overwrite` is refused. To
repeat a failed write, use the same `writeId`.

A refusal by the server is permanent, so it is not a failure of the task, which Spark would retry.
It goes to the driver as the partition's result, and the driver fails the write with one sentence.
The other partitions continue.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from hornbeam.errors import Error
from hornbeam.transport import ARROW, Transport, open_transport, parse_url, persistently
from hornbeam_server.schema.errors import (
    InvalidRequest,
    NotFound,
    TypeMismatch,
    UnknownName,
    Unsupported,
)
from hornbeam_server.schema.types import ColumnType, Kind

BATCH_ROWS = 5_000
BODY_BYTES = 32 << 20
"""A larger batch is sent in halves. Nodes accept 64 MiB by default."""
TIMEOUT_S = 600.0

_WHOLE = (spark.ByteType, spark.ShortType, spark.IntegerType)
_FITTING: Final[dict[Kind, tuple[type[spark.DataType], ...]]] = {
    Kind.INTEGER: (*_WHOLE, spark.LongType),
    Kind.BIGINT: (*_WHOLE, spark.LongType),
    Kind.DECIMAL: (*_WHOLE, spark.LongType, spark.DecimalType),
    Kind.DOUBLE: (*_WHOLE, spark.FloatType, spark.DoubleType),
    Kind.BOOLEAN: (spark.BooleanType,),
    Kind.TEXT: (spark.StringType,),
    Kind.BYTES: (spark.BinaryType,),
    Kind.DATE: (spark.DateType,),
    Kind.TIMESTAMP: (spark.TimestampNTZType,),
    Kind.TIMESTAMPTZ: (spark.TimestampType,),
    Kind.TIME: (spark.StringType,),
    Kind.INTERVAL: (spark.StringType,),
    Kind.UUID: (spark.StringType,),
    Kind.JSON: (spark.StringType,),
    Kind.ENUM: (spark.StringType,),
}
"""Spark types whose values a column takes without conversion; numbers must be in its range."""
_KINDS = {
    ColumnType(kind).sql().partition("(")[0]: kind for kind in _FITTING if kind is not Kind.ENUM
} | {
    "VARCHAR": Kind.TEXT,
    "REAL": Kind.DOUBLE,
}


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The number of rows that a partition has committed. `refused` is the reason if its next batch
    was refused."""

    rows: int
    refused: str | None = None


@dataclass(frozen=True)
class Writer(DataSourceArrowWriter):
    """The writer of one data frame, created in the driver and sent to the executors."""

    url: str = field(repr=False)  # it may hold a key
    relation: str
    write_id: str
    batch_rows: int

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write a partition in an executor. Raises DatabaseError for an error that a retry may
        avoid."""
        context = TaskContext.get()
        assert context is not None
        partition, rows = context.partitionId(), 0
        transport = open_transport(parse_url(self.url), TIMEOUT_S)
        try:
            for batch in rebatched(iterator, self.batch_rows):
                for part in sendable(batch):
                    self._send(transport, f"{self.write_id}-{partition}-{rows}", part)
                    rows += part.rows
        except Error as error:
            if error.retryable or error.outcome == "unknown":
                raise
            return Written(rows, f"Partition {partition}, from row {rows + 1} on: {_reason(error)}")
        finally:
            transport.close()
        return Written(rows)

    def _send(self, transport: Transport, key: str, body: Body) -> None:
        headers = {"Content-Type": ARROW, "Idempotency-Key": f"spark-{key}"}
        path = f"/v1/load/{quote(self.relation, safe='')}"
        persistently(lambda: transport.post(path, body.content, headers))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Check the partitions' results in the driver. Raises InvalidRequest if a batch was
        refused."""
        written = [message for message in messages if isinstance(message, Written)]
        refused = [message.refused for message in written if message.refused is not None]
        if refused:
            rows = sum(message.rows for message in written)
            raise InvalidRequest(
                f"{refused[0]} Of {len(written)} partitions {len(refused)} were refused; {rows}"
                f" rows of the frame are in {self.relation}.",
                cure=f"Mend that, and write the same frame with the option writeId={self.write_id}:"
                " what is there is not inserted again.",
            )


def _reason(error: Error) -> str:
    if error.code == "idempotency-mismatch":
        return (
            "the rows are not those that were sent before, so the missing rows are not known."
            " Make the frame give the same rows in the same order whenever it is computed."
        )
    reason: str = error.problem.get("detail", str(error))
    return reason


def open_writer(
    url: str,
    relation: str,
    schema: spark.StructType,
    *,
    overwrite: bool,
    batch_rows: str | None,
    write_id: str | None,
) -> Writer:
    """Check the frame's schema in the driver, before the job. Raises HornbeamError and
    DatabaseError."""
    if overwrite:
        raise Unsupported(
            "Nothing can be overwritten: a write is many transactions, and between them readers"
            " would see a part of the rows.",
            cure=f'Write with mode("append"); empty {relation} before, if that is wanted.',
        )
    transport = open_transport(parse_url(url), TIMEOUT_S)
    try:
        relations = transport.json("GET", "/v1/schema")["relations"]
    finally:
        transport.close()
    _require_fitting(relation, relations, schema)
    return Writer(url, relation, write_id or uuid.uuid4().hex, _batch_rows(batch_rows))


def _batch_rows(asked: str | None) -> int:
    if asked is None:
        return BATCH_ROWS
    if not asked.isdecimal() or int(asked) < 1:
        raise InvalidRequest(
            f"batchRows is {asked}; it is a number of rows, at least 1.",
            cure=f"Leave it out for {BATCH_ROWS} rows in each transaction.",
        )
    return int(asked)


def _require_fitting(
    relation: str, relations: Sequence[Mapping[str, Any]], schema: spark.StructType
) -> None:
    """Check that the frame's columns fit the relation. Raises NotFound, UnknownName, TypeMismatch,
    InvalidRequest."""
    known = {document["name"]: document for document in relations}
    if relation not in known:
        raise NotFound(
            f"There is no relation {relation}.", cure=f"There are: {', '.join(known) or 'none'}."
        )
    columns = {column["name"]: column for column in known[relation]["columns"]}
    names = schema.fieldNames()
    for field_ in schema.fields:
        if field_.name not in columns:
            raise UnknownName(
                f"Relation {relation} has no column {field_.name!r}.",
                cure=f"Its columns are {', '.join(columns)}.",
            )
        if names.count(field_.name) > 1:
            raise InvalidRequest(
                f"The frame has column {field_.name!r} twice.", cure="Drop or rename one of them."
            )
        _require_type(relation, columns[field_.name], field_.dataType)
    for name, column in columns.items():
        if name not in names and not column["nullable"] and column["default"] is None:
            raise InvalidRequest(
                f"The frame lacks column {name!r}, which is NOT NULL in {relation} and has no"
                " default.",
                cure="Add the column to the frame.",
            )


def _require_type(relation: str, column: Mapping[str, Any], found: spark.DataType) -> None:
    name = column["type"].removesuffix("[]")
    is_enum = column.get("labels") is not None
    fitting = _FITTING[Kind.ENUM if is_enum else _KINDS[name.partition("(")[0]]]
    array = name != column["type"]
    given = found.elementType if array and isinstance(found, spark.ArrayType) else found
    plain = isinstance(found, spark.ArrayType) is array and isinstance(given, fitting)
    if not plain and not isinstance(found, spark.NullType):
        wanted = fitting[-1]()
        wanted = spark.ArrayType(wanted) if array else wanted
        raise TypeMismatch(
            f"Column {column['name']!r} of {relation} is {column['type']}; the frame's is"
            f" {found.simpleString()}.",
            cure=f"CAST it to {wanted.simpleString()} in the frame.",
        )


# ---------------------------------------------------------------- batches


class Body(NamedTuple):
    """The number of rows, and the rows as an Arrow stream."""

    rows: int
    content: bytes


def rebatched(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """The same rows in tables of `rows` rows. Only the last table may be smaller."""
    waiting: list[pa.RecordBatch] = []
    missing = rows
    for batch in batches:
        left = batch
        while left.num_rows >= missing:
            yield pa.Table.from_batches([*waiting, left.slice(0, missing)])
            left, waiting, missing = left.slice(missing), [], rows
        if left.num_rows:
            waiting.append(left)
            missing -= left.num_rows
    if waiting:
        yield pa.Table.from_batches(waiting)


def sendable(table: pa.Table) -> Iterator[Body]:
    """`table` as the body of one request; in halves, if that is too large."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content = sink.getvalue()
    if content.size <= BODY_BYTES or table.num_rows == 1:
        yield Body(table.num_rows, content.to_pybytes())
        return
    middle = table.num_rows // 2
    yield from sendable(table.slice(0, middle))
    yield from sendable(table.slice(middle))
