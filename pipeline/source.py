"""The data source `hornbeam`: relations and views as Spark's data frames, at one snapshot.

    register(spark)
    spark.read.format("hornbeam").option("url", "hornbeam://node:8780").option("view", "v").load()

The driver asks a node for an export (`POST /v1/exports`): a snapshot, the catalog, and where the
rows lie. The executors read them there, a partition per region of HBase (or part of a checkpoint),
and the nodes hear no more of it. An executor that has not ended when rows of the snapshot may be
purged fails; it never gives fewer rows.

Options:

- `url`: of a node, as the client library takes it, with an administrator's key if one is needed;
- `relation` or `view`: its name;
- `columns`: names, separated by commas; all by default. PySpark tells no source which it needs;
- `asOf`: a snapshot that the database has given; by default all that was acknowledged is there.

Filters on the first columns of the key narrow what is read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator, MutableMapping, Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from hornbeam.transport import open_transport, parse_url
from pipeline.filters import key_range
from pipeline.types import spark_schema, to_batch
from schema.catalog import Catalog, Layout, State
from schema.codec import decode_catalog
from schema.errors import InvalidRequest, NotFound, SnapshotTooOld
from schema.model import Column
from storage.codec.keyrange import KeyRange
from storage.codec.rows import Codecs
from storage.source import Source, open_source

OPTIONS = frozenset({"url", "relation", "view", "columns", "asof"})
TIMEOUT_S = 60.0


class _Export(msgspec.Struct, frozen=True):
    """As `POST /v1/exports` answers."""

    name: str
    snapshot: int
    catalog: str
    source: Source
    until_ms: int


@dataclass(frozen=True)
class Part(InputPartition):
    """Keys from `start` to before `end`; None: to the last."""

    start: bytes
    end: bytes | None


def register(spark: SparkSession) -> None:
    """Make the data source known to a session, and have Spark hand its filters over, without which
    it refuses sources that can use them."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(Hornbeam)


class Hornbeam(DataSource):
    """One relation or view; made by Spark with the options above."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        unknown = sorted({name.lower() for name in options} - OPTIONS)
        if unknown:
            raise InvalidRequest(
                f"There is no option {', '.join(unknown)}.",
                cure=f"There are: {', '.join(OPTIONS)}.",
            )
        self._export: _Export | None = None

    @classmethod
    def name(cls) -> str:
        return "hornbeam"

    def schema(self) -> StructType:
        return spark_schema(self._columns(self._layout()))

    def reader(self, schema: StructType) -> Reader:
        layout = self._layout()
        return Reader(self._begun(), layout.name, self._columns(layout))

    def _begun(self) -> _Export:
        """The export, asked for once."""
        if self._export is None:
            asked = self.options.get("asOf")
            transport = open_transport(parse_url(self._required("url")), TIMEOUT_S)
            try:
                body = {"snapshot": None if asked is None else int(asked)}
                answer = transport.json("POST", "/v1/exports", body)
            finally:
                transport.close()
            self._export = msgspec.convert(answer, _Export)
        return self._export

    def _required(self, name: str) -> str:
        found = self.options.get(name)
        if found is None:
            raise InvalidRequest(
                f"The option {name} is missing.", cure="docs/spark.md lists the options."
            )
        return found

    def _layout(self) -> Layout:
        relation, view = self.options.get("relation"), self.options.get("view")
        if (relation is None) == (view is None):
            raise InvalidRequest("One of the options relation and view is to be set.")
        catalog = decode_catalog(self._begun().catalog.encode())
        return catalog.layout(_readable(catalog, relation, view))

    def _columns(self, layout: Layout) -> list[Column]:
        wanted = self.options.get("columns")
        if wanted is None:
            return list(layout.columns)
        names = [name.strip() for name in wanted.split(",")]
        unknown = [name for name in names if name not in layout.positions]
        if unknown:
            raise NotFound(f"{layout.name} has no column {', '.join(unknown)}.")
        return [layout.columns[layout.positions[name]] for name in names]


def _readable(catalog: Catalog, relation: str | None, view: str | None) -> str:
    if relation is not None:
        if relation not in catalog.schema:
            raise NotFound(f"There is no relation {relation}.")
        return relation
    assert view is not None
    if view not in catalog.view:
        raise NotFound(f"There is no view {view}.")
    if catalog.state[view] is not State.READABLE:
        raise NotFound(f"View {view} is {catalog.state[view]}, not readable.", cure="Try later.")
    return view


class Reader(DataSourceReader):
    """Of one layout. Made in the driver; sent to the executors with all it has."""

    def __init__(self, export: _Export, name: str, columns: Sequence[Column]) -> None:
        self._export = export
        self._name = name
        self._columns = columns
        self._range = KeyRange()

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        """Narrow what is read; Spark looks at all of them again."""
        self._range = key_range(self._codecs()(self._name).layout, filters)
        yield from filters

    def partitions(self) -> Sequence[Part]:
        """As the store has the table laid out, within the filters' range."""
        codec = self._codecs()(self._name)
        first, last = codec.range(self._range)
        splits = asyncio.run(self._splits(codec.layout.table))
        inner = [key for key in splits if key > first and (last is None or key < last)]
        return [Part(a, b) for a, b in zip([first, *inner], [*inner, last], strict=True)]

    async def _splits(self, table: str) -> list[bytes]:
        store = open_source(self._export.source)
        try:
            return await store.splits(table)
        finally:
            await store.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In an executor, one at a time in a process. Raises SnapshotTooOld, Corruption."""
        assert isinstance(partition, Part)
        with asyncio.Runner() as runner:
            batches = self._batches(partition)
            try:
                while (batch := runner.run(anext(batches, None))) is not None:
                    yield batch
            finally:
                runner.run(batches.aclose())

    async def _batches(self, part: Part) -> AsyncGenerator[pa.RecordBatch, None]:
        codec = self._codecs()(self._name)
        at = [codec.layout.positions[column.name] for column in self._columns]
        store = open_source(self._export.source)
        try:
            cells = store.scan(codec.layout.table, part.start, part.end, self._export.snapshot)
            async for batch in cells:
                rows = codec.decode_all([cell.value for cell in batch])
                self._require_kept()
                yield to_batch(self._columns, at, rows)
            self._require_kept()
        finally:
            await store.close()

    def _require_kept(self) -> None:
        """Nothing of the snapshot has been purged before now."""
        if time.time() * 1000 > self._export.until_ms:
            raise SnapshotTooOld(
                f"Snapshot {self._export.snapshot} is older than what is kept.",
                cure="Set snapshot_retention_s higher at the nodes, or read less at a time.",
            )

    def _codecs(self) -> Codecs:
        return Codecs(decode_catalog(self._export.catalog.encode()))
