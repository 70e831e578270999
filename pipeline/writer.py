"""The data source's other direction: a data frame's rows, appended to a relation.

    frame.write.format("hornbeam").options(url=…, relation="orders").mode("append").save()

Each partition sends its rows from an executor to the nodes, so many at a time as `batchRows` says:
each batch is one transaction (`POST /v1/load/{relation}`), with all constraints, views and indexes.

**Never twice.** Spark may compute and write a partition several times: after a failure, or twice
beside each other (speculation). So a batch has an idempotency key made of the write's id, the
partition's number, and the place of its first row there; batches are cut by rows alone, whatever
pieces Spark hands them over in. Of requests with one key at most one is committed, and the others
are answered from its record, if they hold the same rows. If they do not, since the frame gave other
rows or another order when it was computed anew, they are refused, and the write ends with that: it
is not known then which rows are missing, and guessing would double or lose some.

**Not atomic.** Batches that are committed stay, whatever becomes of the others; that is why
`overwrite` is refused. A write that has failed is repeated with the same `writeId`.

What the server refuses does not change by trying again, so it is no failure of the task: it goes
to the driver as the partition's result, which ends the write with one sentence. The other
partitions go on.
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
from schema.errors import InvalidRequest, NotFound, TypeMismatch, UnknownName, Unsupported
from schema.types import ColumnType, Kind

BATCH_ROWS = 5_000
BODY_BYTES = 32 << 20
"""A batch that would be larger is sent in halves; nodes take 64 MiB unless told otherwise."""
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
    Kind.UUID: (spark.StringType,),
    Kind.JSON: (spark.StringType,),
}
"""Types of Spark's whose values a column takes as they are; numbers if they are in its range."""
_KINDS = {ColumnType(kind).sql().partition("(")[0]: kind for kind in Kind} | {"VARCHAR": Kind.TEXT}


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """A partition's rows are committed, or so many before the batch that was refused, and why."""

    rows: int
    refused: str | None = None


@dataclass(frozen=True)
class Writer(DataSourceArrowWriter):
    """Of one write. Made in the driver; sent to the executors with all it has."""

    url: str = field(repr=False)  # it may hold a key
    relation: str
    write_id: str
    batch_rows: int

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """In an executor. Raises DatabaseError for what another attempt may do better."""
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
        """In the driver. Raises InvalidRequest if something was refused."""
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
            "the rows are not those that were sent before, so nobody knows which are missing."
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
    """In the driver, before the job. Raises HornbeamError and DatabaseError."""
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
        raise InvalidRequest(f"batchRows is {asked}; it is a number of rows, at least 1.")
    return int(asked)


def _require_fitting(
    relation: str, relations: Sequence[Mapping[str, Any]], schema: spark.StructType
) -> None:
    """Raises NotFound, UnknownName, TypeMismatch, InvalidRequest."""
    known = {document["name"]: document for document in relations}
    if relation not in known:
        raise NotFound(f"There is no relation {relation}.")
    columns = {column["name"]: column for column in known[relation]["columns"]}
    names = schema.fieldNames()
    for field_ in schema.fields:
        if field_.name not in columns:
            raise UnknownName(
                f"Relation {relation} has no column {field_.name!r}.",
                cure=f"Its columns are {', '.join(columns)}.",
            )
        if names.count(field_.name) > 1:
            raise InvalidRequest(f"The frame has column {field_.name!r} twice.")
        _require_type(relation, columns[field_.name], field_.dataType)
    for name, column in columns.items():
        if name not in names and not column["nullable"] and column["default"] is None:
            raise InvalidRequest(
                f"The frame lacks column {name!r}, which is NOT NULL in {relation} and has no"
                " default."
            )


def _require_type(relation: str, column: Mapping[str, Any], found: spark.DataType) -> None:
    kind = _KINDS[column["type"].partition("(")[0]]
    if not isinstance(found, (*_FITTING[kind], spark.NullType)):
        raise TypeMismatch(
            f"Column {column['name']!r} of {relation} is {column['type']}; the frame's is"
            f" {found.simpleString()}.",
            cure=f"CAST it to {_FITTING[kind][-1]().simpleString()} in the frame.",
        )


# ---------------------------------------------------------------- batches


class Body(NamedTuple):
    """So many rows as an Arrow stream."""

    rows: int
    content: bytes


def rebatched(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """The same rows, `rows` at a time but for the last, however many there are in each batch."""
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
    """`table` as one request's body; in halves, if that is too large."""
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
