"""The changes of relations, read from the nodes' logs: the data source `hornbeam.changes`, as a
batch between two snapshots or as a stream, and `Changes` for jobs that read several relations.

    spark.readStream.format("hornbeam.changes").option("url", …).option("relation", "orders").load()

A node lists the log segments that hold the commits (`POST /v1/changes`). Executors read the
segments directly, a partition per segment, without the nodes. Rows are the relation's columns and

- `_w`: 1 for an inserted row, -1 for a deleted row; an update is both;
- `_ts`: the timestamp of the commit, and `_tx`: its transaction's id.

For each row, the sum of `_w` over the changes between two snapshots is its number of occurrences at
the second snapshot minus that at the first. Both ends are snapshots, so transactions are complete,
and each change appears exactly once. Changes that the logs have dropped are an error
(SnapshotTooOld).

A relation that was dropped and created again is another relation. Rows that were committed before
a column was appended have that column's default.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark
from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadLimit

from hornbeam.transport import Transport, open_transport, parse_url, persistently
from hornbeam_server.pipeline.sources.options import OptionSource
from hornbeam_server.pipeline.sources.types import chosen, spark_schema, to_batch
from hornbeam_server.schema.catalog import Catalog, Layout
from hornbeam_server.schema.codec import decode_catalog
from hornbeam_server.schema.collector import settle_collector
from hornbeam_server.schema.errors import (
    InvalidRequest,
    NotFound,
    SnapshotTooOld,
    StalePlan,
)
from hornbeam_server.schema.types import Row
from hornbeam_server.storage.codec.rows import LayoutCodec
from hornbeam_server.storage.log.following import batches_between, changes, final_segment
from hornbeam_server.storage.source import LogSource, open_logs

TIMEOUT_S = 600.0
"""Time limit of a request. A node reads every segment once; at the first request it reads the
segments of an hour."""
BATCH_ROWS = 8_192
WEIGHT, TIMESTAMP, TRANSACTION = "_w", "_ts", "_tx"
_ADDED = (
    spark.StructField(WEIGHT, spark.ByteType()),
    spark.StructField(TIMESTAMP, spark.LongType()),
    spark.StructField(TRANSACTION, spark.StringType()),
)


class Segment(msgspec.Struct, frozen=True):
    """A closed segment of a log: nothing is appended to it any more."""

    log: str
    epoch: int
    sequence: int
    bytes: int


class Changes(msgspec.Struct, frozen=True):
    """Changes of all relations above snapshot `after` and up to snapshot `upto`, as `POST
    /v1/changes` answers them. They can be read until the log retention drops the segments."""

    after: int
    upto: int
    catalog: str
    begun: dict[str, int]
    loaded: dict[str, int]
    source: LogSource
    segments: tuple[Segment, ...]

    def frame(self, session: SparkSession, relation: str) -> DataFrame:
        """The changes of one relation, with all its columns. No node is asked again. The data
        source must be registered with the session (`pipeline.sources.reader.register`)."""
        found = msgspec.json.encode(self).decode()
        reading = session.read.format(ChangesSource.name())
        return reading.option("found", found).option("relation", relation).load()

    def parts(self, layout: Layout, at: Iterable[int]) -> list[Part]:
        """A part for each segment. `layout` is that of a relation, or a later version of it. `at`
        are the positions of the wanted columns. Raises SnapshotTooOld for a relation that a load
        has filled, since a load writes no changes to the logs."""
        if layout.name in self.loaded:
            since = self.loaded[layout.name]
            raise SnapshotTooOld(
                f"{layout.name} was loaded without the logs: its changes are kept from {since} on.",
                cure="Read it as of then, or later, and its changes from there on.",
            )
        after = max(self.after, self.begun.get(layout.name, 0))
        asked = Asked(self.source, layout, tuple(at), after, self.upto)
        return [Part(asked, segment) for segment in self.segments] if after < self.upto else []


@dataclass(frozen=True)
class Asked:
    """Changes of one relation above `after` and up to `upto`."""

    source: LogSource
    layout: Layout
    at: tuple[int, ...]
    after: int
    upto: int


@dataclass(frozen=True)
class Part(InputPartition):
    """The input of one task: a segment, and the changes to read from it."""

    asked: Asked
    segment: Segment


def between(transport: Transport, after: int | None, upto: int | None = None) -> Changes:
    """The changes above `after` and up to `upto`. The default of both is the newest snapshot.
    Retries, also at other nodes, while a dead node is being recovered. Raises DatabaseError."""
    body = {"after": after, "upto": upto}
    answer = persistently(lambda: transport.json("POST", "/v1/changes", body))
    return msgspec.convert(answer, Changes)


def layout_of(catalog: Catalog, relation: str) -> Layout:
    """The layout of a relation. Raises NotFound."""
    if relation not in catalog.schema:
        raise NotFound(
            f"There is no relation {relation}.",
            cure=f"There are: {', '.join(catalog.schema.names) or 'none'}.",
        )
    return catalog.layout(relation)


def change_schema(layout: Layout, at: Iterable[int]) -> spark.StructType:
    """The schema of a relation's changes. Raises InvalidRequest when a column has the name of an
    added column."""
    columns = [layout.columns[i] for i in at]
    taken = {field.name for field in _ADDED} & {column.name for column in columns}
    if taken:
        raise InvalidRequest(
            f"Column {', '.join(sorted(taken))} of {layout.name} bears the name of one that is"
            " added to changes.",
            cure="Leave it out with the option columns.",
        )
    return spark.StructType([*spark_schema(columns).fields, *_ADDED])


# ------------------------------------------------------------ executors


def read(part: Part) -> Iterator[pa.RecordBatch]:
    """Read a part in an executor. Raises SnapshotTooOld when the segment has been dropped,
    Corruption with the position when it is damaged, Unavailable."""
    settle_collector()
    asked, columns = part.asked, [part.asked.layout.columns[i] for i in part.asked.at]
    rows: list[Row] = []
    added: list[tuple[int, int, str]] = []
    for row, change in _changes(part):
        rows.append(row)
        added.append(change)
        if len(rows) == BATCH_ROWS:
            yield _with_added(to_batch(columns, asked.at, rows), added)
            rows, added = [], []
    if rows:
        yield _with_added(to_batch(columns, asked.at, rows), added)


def _changes(part: Part) -> Iterator[tuple[Row, tuple[int, int, str]]]:
    """Rows with weight, timestamp and transaction id, in the order of the log."""
    asked, segment = part.asked, part.segment
    name, decode = asked.layout.stored_name, LayoutCodec(asked.layout).decode
    data = asyncio.run(content(asked.source, segment))
    place = (segment.epoch, segment.sequence)
    for batch in batches_between(data, *place, asked.after, asked.upto):
        for commit in changes(batch):
            for relation, old, new in commit.changes:
                if relation != name:
                    continue
                if old is not None:
                    yield decode(old), (-1, batch.ts, commit.transaction_id.hex())
                if new is not None:
                    yield decode(new), (1, batch.ts, commit.transaction_id.hex())


async def content(source: LogSource, segment: Segment) -> bytes:
    """The bytes of a segment. Raises SnapshotTooOld, Corruption, Unavailable."""
    logs = open_logs(source)
    try:
        place = (segment.log, segment.epoch, segment.sequence)
        return await final_segment(logs, *place, segment.bytes)
    finally:
        await logs.close()


def _with_added(batch: pa.RecordBatch, added: Sequence[tuple[int, int, str]]) -> pa.RecordBatch:
    weights, stamps, transactions = zip(*added, strict=True)
    arrays = [pa.array(weights, pa.int8()), pa.array(stamps, pa.int64())]
    arrays.append(pa.array(transactions, pa.string()))
    names = [field.name for field in _ADDED]
    return pa.RecordBatch.from_arrays([*batch.columns, *arrays], [*batch.schema.names, *names])


# ------------------------------------------------------------ the data source


class ChangesSource(OptionSource):
    """The changes of one relation. Options besides `url`, `relation` and `columns`: `after`, a
    snapshot, which a batch requires; a stream begins by default at the newest snapshot. `upto`, for
    batches only, is by default the newest snapshot. `found`, `Changes` as JSON, replaces `url`,
    `after` and `upto`."""

    OPTIONS = frozenset({"url", "relation", "columns", "after", "upto", "found"})

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._found: Changes | None = None

    @classmethod
    def name(cls) -> str:
        return "hornbeam.changes"

    def schema(self) -> spark.StructType:
        return change_schema(*self._chosen())

    def reader(self, schema: spark.StructType) -> ChangesReader:
        if self._number("after") is None and "found" not in self.options:
            raise InvalidRequest(
                "The option after is missing: the snapshot whose changes are wanted.",
                cure="docs/spark.md says where snapshots come from.",
            )
        return ChangesReader(self._begun().parts(*self._chosen()))

    def streamReader(self, schema: spark.StructType) -> ChangesStream:
        if self.options.get("upto") is not None:
            raise InvalidRequest(
                "A stream has no end: the option upto is for batches.",
                cure="Leave it out, or use spark.read.",
            )
        return ChangesStream(self.required("url"), *self._chosen(), self._begun().after)

    def _begun(self) -> Changes:
        """The changes, requested from a node once."""
        given = self.options.get("found")
        if given is not None:
            return msgspec.json.decode(given, type=Changes)
        if self._found is None:
            with closing(_open(self.required("url"))) as transport:
                self._found = between(transport, self._number("after"), self._number("upto"))
        return self._found

    def _chosen(self) -> tuple[Layout, list[int]]:
        catalog = decode_catalog(self._begun().catalog.encode())
        layout = layout_of(catalog, self.required("relation"))
        columns = chosen(layout, self.options.get("columns"))
        return layout, [layout.positions[column.name] for column in columns]

    def _number(self, name: str) -> int | None:
        text = self.options.get(name)
        if text is None:
            return None
        if not text.isdecimal():
            raise InvalidRequest(
                f"The option {name} is a snapshot, not {text}.",
                cure="Give a whole number that the database has returned as a snapshot.",
            )
        return int(text)


class ChangesReader(DataSourceReader):
    """The reader of a batch, created in the driver."""

    def __init__(self, parts: list[Part]) -> None:
        self._parts = parts

    def partitions(self) -> Sequence[Part]:
        return self._parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Part)
        return read(partition)


class ChangesStream(DataSourceStreamReader):
    """The reader of a stream. An offset is {"snapshot": a snapshot, "table": the relation's table,
    which distinguishes it from another relation with the same name}. Offsets are the only state:
    the driver asks a node for the segments between two offsets, also for a batch that is repeated
    after a restart."""

    def __init__(self, url: str, layout: Layout, at: list[int], after: int) -> None:
        self._url = url
        self._layout = layout
        self._at = at
        self._after = after
        self._found: Changes | None = None

    def initialOffset(self) -> dict[str, Any]:
        return {"snapshot": self._after, "table": self._layout.table}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The newest snapshot; `start` if there are no new segments."""
        self._found = self._between(start, None)
        return {**start, "snapshot": self._found.upto} if self._found.segments else start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Part]:
        found = self._found
        if found is None or (found.after, found.upto) != (start["snapshot"], end["snapshot"]):
            found = self._between(start, end["snapshot"])
        return found.parts(self._newest_layout(found, start), self._at)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Part)
        return read(partition)

    def _between(self, start: dict[str, Any], upto: int | None) -> Changes:
        with closing(_open(self._url)) as transport:
            found = between(transport, start["snapshot"], upto)
        self._newest_layout(found, start)
        return found

    def _newest_layout(self, found: Changes, start: dict[str, Any]) -> Layout:
        """The layout with the most columns: that of the stream's begin or that of `found`. Columns
        may have been appended since the stream began, or since the batch that is repeated. Raises
        StalePlan when the relation was dropped and created again."""
        name = self._layout.name
        layouts = (self._layout, layout_of(decode_catalog(found.catalog.encode()), name))
        if any(layout.table != start["table"] for layout in layouts):
            raise StalePlan(
                f"Relation {name} was dropped and created again; its changes end there.",
                cure="Begin another stream, with a checkpoint folder of its own.",
            )
        return max(layouts, key=lambda layout: len(layout.columns))


def _open(url: str) -> Transport:
    return open_transport(parse_url(url), TIMEOUT_S)
