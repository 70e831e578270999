"""The data source `hornbeam`: relations and views as Spark's data frames, at one snapshot.

    register(spark)
    spark.read.format("hornbeam").option("url", "hornbeam://node:8780").option("view", "v").load()

The driver asks a node for an export (`POST /v1/exports`): a snapshot, the catalog, and the location
of the rows. The executors read the rows there, a partition per region of HBase (or part of a
checkpoint), without the nodes. If an executor is still running when rows of the snapshot may be
purged, it fails; it never returns an incomplete result.

Options:

- `url`: the URL of a node, as the client library takes it, with an administrator's key if needed;
- `relation` or `view`: its name;
- `columns`: names, separated by commas; all by default. PySpark does not push down projections;
- `asOf`: a snapshot that the database has returned; the default includes all acknowledged commits.
  A deferred view can be read only at its group's snapshot.

Filters on the first columns of the key narrow the scan.

    frame.write.format("hornbeam").options(url=…, relation="orders").mode("append").save()

appends to a relation through the nodes (`pipeline.sources.writer`). Options are `url`, `relation`
and

- `batchRows`: rows per transaction, 5 000 by default;
- `writeId`: a name of the write; a repeated write with the same name inserts its rows once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from hornbeam.transport import open_transport, parse_url
from hornbeam_server.pipeline.sources.changes import ChangesSource
from hornbeam_server.pipeline.sources.filters import key_range
from hornbeam_server.pipeline.sources.options import OptionSource
from hornbeam_server.pipeline.sources.types import chosen, for_spark, spark_schema, to_batch
from hornbeam_server.pipeline.sources.writer import Writer, open_writer
from hornbeam_server.pipeline.spark.export import Export, begin
from hornbeam_server.schema.catalog import Catalog, Layout, State
from hornbeam_server.schema.collector import settle_collector
from hornbeam_server.schema.errors import InvalidRequest, NotFound
from hornbeam_server.schema.model import Column
from hornbeam_server.storage.codec.keyrange import KeyRange
from hornbeam_server.storage.folded import FoldedReads

TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Part(InputPartition):
    """Keys from `start` to before `end`; None: to the last."""

    start: bytes
    end: bytes | None


def register(spark: SparkSession) -> None:
    """Register the data sources with a session, and enable filter pushdown, without which Spark
    refuses data sources that implement it."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(Hornbeam)
    spark.dataSource.register(ChangesSource)


class Hornbeam(OptionSource):
    """The data source of one relation or view. Spark creates it with the options above."""

    READING = frozenset({"url", "relation", "view", "columns", "asof"})
    WRITING = frozenset({"url", "relation", "batchrows", "writeid"})
    OPTIONS = READING | WRITING

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._export: Export | None = None

    @classmethod
    def name(cls) -> str:
        return "hornbeam"

    def schema(self) -> StructType:
        return spark_schema(self._columns(self._layout()))

    def reader(self, schema: StructType) -> Reader:
        layout = self._layout()
        return Reader(self._begun(), layout.name, self._columns(layout))

    def writer(self, schema: StructType, overwrite: bool) -> Writer:
        self.require_only(self.WRITING)
        return open_writer(
            self.required("url"),
            self.required("relation"),
            schema,
            overwrite=overwrite,
            batch_rows=self.options.get("batchRows"),
            write_id=self.options.get("writeId"),
        )

    def _begun(self) -> Export:
        """The export, requested from a node once."""
        if self._export is None:
            asked = self.options.get("asOf")
            transport = open_transport(parse_url(self.required("url")), TIMEOUT_S)
            try:
                at = None if asked is None else int(asked)
                self._export = begin(transport, at, self.options.get("view"))
            finally:
                transport.close()
        return self._export

    def _layout(self) -> Layout:
        self.require_only(self.READING)
        relation, view = self.options.get("relation"), self.options.get("view")
        if (relation is None) == (view is None):
            raise InvalidRequest(
                "One of the options relation and view is to be set.",
                cure="Leave one of them out." if relation is not None else "Set one of them.",
            )
        catalog = self._begun().codecs().catalog
        return catalog.layout(_readable(catalog, relation, view))

    def _columns(self, layout: Layout) -> list[Column]:
        visible = self._begun().codecs().catalog.visible(layout.name)
        return chosen(replace(layout, columns=visible), self.options.get("columns"))


def _readable(catalog: Catalog, relation: str | None, view: str | None) -> str:
    if relation is not None:
        if relation not in catalog.schema:
            raise NotFound(
                f"There is no relation {relation}.",
                cure=f"There are: {', '.join(catalog.schema.names) or 'none'}.",
            )
        return relation
    assert view is not None
    if view not in catalog.all_views:
        raise NotFound(
            f"There is no view {view}.",
            cure=f"There are: {', '.join(catalog.all_views) or 'none'}.",
        )
    if catalog.state[view] is not State.READABLE:
        raise NotFound(f"View {view} is {catalog.state[view]}, not readable.", cure="Try later.")
    return view


class Reader(DataSourceReader):
    """The reader of one layout, created in the driver and sent to the executors."""

    def __init__(self, export: Export, name: str, columns: Sequence[Column]) -> None:
        self._export = export
        self._name = name
        self._columns = columns
        self._range = KeyRange()

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        """Narrow the scan by the filters. Returns all of them, so that Spark applies them again."""
        self._range = key_range(self._export.codecs()(self._name).layout, filters)
        yield from filters

    def partitions(self) -> Sequence[Part]:
        """A part for each of the store's splits of the table, within the filters' range. A view
        without GROUP BY is one part: its row exists even without cells."""
        codecs = self._export.codecs()
        codec, fold = codecs(self._name), codecs.fold(self._name)
        first, last = codec.range(self._range)
        if fold is not None and not fold.grouped:
            return [Part(first, last)]
        splits: Sequence[bytes] = asyncio.run(self._splits(codec.layout.table))
        if fold is not None:  # a part has whole groups
            is_cell = codecs(fold.cells).is_key
            splits = list(dict.fromkeys(fold.group_key(key) for key in splits if is_cell(key)))
        inner = [key for key in splits if key > first and (last is None or key < last)]
        return [Part(a, b) for a, b in zip([first, *inner], [*inner, last], strict=True)]

    async def _splits(self, table: str) -> list[bytes]:
        store = self._export.open()
        try:
            return await store.splits(table)
        finally:
            await store.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a part in an executor, one part at a time in a process. Raises SnapshotTooOld,
        Corruption."""
        assert isinstance(partition, Part)
        settle_collector()
        with asyncio.Runner() as runner:
            batches = self._batches(partition)
            try:
                while (batch := runner.run(anext(batches, None))) is not None:
                    yield batch
            finally:
                runner.run(batches.aclose())

    async def _batches(self, part: Part) -> AsyncGenerator[pa.RecordBatch, None]:
        codecs = self._export.codecs()
        codec, fold = codecs(self._name), codecs.fold(self._name)
        at = [codec.layout.positions[column.name] for column in self._columns]
        store = self._export.open()
        try:
            if fold is not None:
                folded = FoldedReads(store, codecs, fold, self._export.snapshot, None)
                async for groups in folded.between(part.start, part.end):
                    self._export.require_kept()
                    yield to_batch(self._columns, at, [group.row for group in groups])
                self._export.require_kept()
                return
            cells = store.scan(codec.layout.table, part.start, part.end, self._export.snapshot)
            async for batch in cells:
                found = codec.many.to_arrow([cell.value for cell in batch], at)
                self._export.require_kept()
                yield for_spark(self._columns, found)
            self._export.require_kept()
        finally:
            await store.close()
