"""Sort and check the staged records of one relation (`pipeline.load.executor`) in Spark, mostly
without Python. Spark sorts the rows, and divides them into ranges of keys. Then it finds duplicate
keys, and references to the relation itself, or within a circle of relations, whose parent does not
exist. Rows that these checks reject stay among the sorted rows; the writer skips them.

Staged records and sorted rows are on the executors' disks until the job ends. When an executor is
lost, Spark computes its part again from the files.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from hornbeam_server.maintain.spans import Span
from hornbeam_server.pipeline.build.executor import Failed
from hornbeam_server.pipeline.load.executor import (
    Done,
    Encoder,
    Rejected,
    Staging,
    Task,
    attempt,
    dangling,
    no_parent,
    pack,
    references_within,
    shown,
    unique_indexes,
    unpack,
)
from hornbeam_server.schema.errors import UniqueViolation
from hornbeam_server.schema.model import ForeignKey
from hornbeam_server.schema.types import Row
from hornbeam_server.storage.codec.rows import Codecs

RANGE_ROWS, RANGE_BYTES = 50_000, 64 << 20
"""Approximate size of a range: a task writes it in seconds, and loses at most that much work."""
_SMALL_ROWS = 1_000
_FEW = 1_000
"""Up to this many rejects are listed in the query's text; more are excluded by a join."""
_DDL = {"int64": "BIGINT", "binary": "BINARY", "string": "STRING"}
Places = Mapping[int, tuple[str, int]]
"""File and line (in Parquet: row) of records, by origin."""


class StagedSource(DataSource):
    """A data source of the staged records of a `Staging`, with a partition for each split."""

    @classmethod
    def name(cls) -> str:
        return "hornbeam.staged"

    def _staging(self) -> Staging:
        made = pickle.loads(base64.b64decode(self.options["staging"]))
        assert isinstance(made, Staging)
        return made

    def schema(self) -> str:
        staging = self._staging()
        schema = Encoder(staging.model, staging.relation, staging.together).schema
        return ", ".join(f"{field.name} {_DDL[str(field.type)]}" for field in schema)

    def reader(self, schema: StructType) -> StagedReader:
        return StagedReader(self._staging())


def packed(staging: Staging) -> dict[str, str]:
    """Options of `StagedSource`. Spark passes a data source nothing but options, as text."""
    return {"staging": base64.b64encode(pickle.dumps(staging)).decode()}


class StagedReader(DataSourceReader):
    def __init__(self, staging: Staging) -> None:
        self._staging = staging

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(len(self._staging.splits))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from self._staging.stage(partition.value)


class Sifted:
    """The records of one relation. `rejected` are the origins of records that are not loaded."""

    def __init__(self, spark: SparkSession, staging: Staging) -> None:
        self._spark = spark
        self._staging = staging
        catalog = staging.model
        self.relation = catalog.schema.relation(staging.relation)
        self._codec = Codecs(catalog)(staging.relation)
        self._unique = unique_indexes(catalog, staging.relation)
        spark.dataSource.register(StagedSource)
        staged = spark.read.format(StagedSource.name()).options(**packed(staging)).load()
        self._staged = staged.persist(StorageLevel.DISK_ONLY)
        self._unreadable = 0
        self.rejected: set[int] = set()

    @property
    def _good(self) -> DataFrame:
        good = self._staged.where("k IS NOT NULL")
        if not self.rejected:
            return good
        if len(self.rejected) <= _FEW:
            return good.where(f"origin NOT IN ({', '.join(map(str, sorted(self.rejected)))})")
        gone = self._spark.createDataFrame([(o,) for o in self.rejected], "origin BIGINT")
        return good.join(F.broadcast(gone), "origin", "left_anti")

    def _reject(self, found: Sequence[Rejected]) -> Sequence[Rejected]:
        self.rejected.update(each.origin for each in found)
        return found

    def sorted(self, parallelism: int) -> Sorted:
        """Read the files and sort their rows. Call it before the other methods."""
        length = F.coalesce(F.sum(F.length("k") + F.length("v")), F.lit(0))
        asked = self._staged.agg(F.count("k"), length, F.count("code"))
        ((count, size, self._unreadable),) = asked.collect()
        least = min(2 * parallelism, count // _SMALL_ROWS)
        ranges = max(-(-count // RANGE_ROWS), -(-size // RANGE_BYTES), least, 1)
        rows = self._staged.where("k IS NOT NULL").select("origin", "k", "v")
        parts = rows.repartitionByRange(ranges, "k").sortWithinPartitions("k")
        return Sorted(parts, count, size)

    def unreadable(self, limit: int) -> Sequence[Rejected]:
        """Records that cannot be read as rows: the first `limit` + 1 of them."""
        if not self._unreadable:
            return []
        bad = self._staged.where("k IS NULL").select("origin", "code", "reason", "record")
        return self._reject([Rejected(*row) for row in bad.orderBy("origin").take(limit + 1)])

    def doubled(
        self, rows: Sorted, limit: int, places: Callable[[Iterable[int]], Places]
    ) -> Iterator[Sequence[Rejected]]:
        """Rows whose primary key an earlier row has, then rows whose value of a UNIQUE index an
        earlier row has; for each key the first `limit` + 1. A row that is rejected for one key is
        not compared for the next.

        `rows` say whether primary keys are duplicated; Spark looks for them only in that case."""
        if rows.has_doubles:
            yield self._doubled("k", "primary key", limit, places)
        for number, index in enumerate(self._unique):
            yield self._doubled(f"u{number}", index.name, limit, places)

    def _doubled(
        self, column: str, name: str, limit: int, places: Callable[[Iterable[int]], Places]
    ) -> Sequence[Rejected]:
        good = self._good.where(F.col(column).isNotNull())
        counted = good.groupBy(column).agg(F.min("origin").alias("first"), F.count("*").alias("n"))
        several = counted.where("n > 1").select(column, "first").take(limit + 1)
        if not several:
            return []
        firsts = self._spark.createDataFrame(several, f"{column} BINARY, first BIGINT")
        again = good.join(F.broadcast(firsts), column).where("origin > first")
        found = again.select("origin", "first", "v").orderBy("origin").take(limit + 1)
        firsts_places = places(first for _, first, _ in found)
        return self._reject(
            [
                Rejected(
                    origin,
                    UniqueViolation.code,
                    f"{self.relation.name} has a row with this {name} already: {path}:{line}.",
                    self._shown(value),
                )
                for origin, first, value in found
                for path, line in [firsts_places[first]]
            ]
        )

    @cached_property
    def references(self) -> list[ForeignKey]:
        """The foreign keys that `orphans` looks at: those to relations that are loaded together."""
        return references_within(self.relation, self._staging.together)

    def orphans(self, number: int, parents: Sifted, limit: int) -> Sequence[Rejected]:
        """Rows that reference, by the foreign key `number` of `references`, a row of `parents` that
        is not loaded."""
        key = self.references[number]
        column = f"p{number}"
        good = self._good
        references = good.where(F.col(column).isNotNull()).select("origin", "v", column)
        keys = parents.values_of(key).select(F.col("referenced").alias(column))
        lost = references.join(keys, column, "left_anti").select("origin", "v")
        found = lost.orderBy("origin").take(limit + 1)
        return self._reject([self._lost(key, origin, self._row(v)) for origin, v in found])

    def values_of(self, key: ForeignKey) -> DataFrame:
        """The values that rows of this relation have in the columns that `key` references."""
        column = "k"
        if key.to_unique:
            column = f"u{self._unique.index(self._staging.model.unique_index(key))}"
        return self._good.select(F.col(column).alias("referenced"))

    def _lost(self, key: ForeignKey, origin: int, row: Row) -> Rejected:
        return no_parent(origin, dangling(self.relation, key, row), shown(self.relation, row))

    def _row(self, value: bytes) -> Row:
        return self._codec.decode(bytes(value))

    def _shown(self, value: bytes) -> str:
        return shown(self.relation, self._row(value))

    def close(self) -> None:
        self._staged.unpersist()


def orphans(group: Sequence[Sifted], limit: int) -> Iterator[tuple[Sifted, Sequence[Rejected]]]:
    """Rows of relations that are loaded together, each of which references a row of them that is
    not loaded. Repeats the search until no such row is left, since a rejected row may be a
    parent."""
    by_name = {each.relation.name: each for each in group}
    keys = [(each, n, key) for each in group for n, key in enumerate(each.references)]
    settled = 0
    while settled < len(keys):
        for each, number, key in keys:
            found = each.orphans(number, by_name[key.parent], limit)
            settled = 0 if found else settled + 1
            if found:
                yield each, found


class Sorted:
    """The rows of one relation in ranges of keys, each range a partition."""

    def __init__(self, rows: DataFrame, count: int, size: int) -> None:
        self.count = count
        self.size = size
        packed = F.arrow_udf(_packed, "binary").asNondeterministic()  # type: ignore[attr-defined]
        chunks = rows.select(packed("origin", "k", "v").alias("rows")).where("rows IS NOT NULL")
        self._rows = chunks.rdd.persist(StorageLevel.DISK_ONLY)
        self._seen = dict(sorted(self._rows.mapPartitionsWithIndex(_see).collect()))
        """Summary of each range that has rows, by its partition's number."""

    @cached_property
    def ranges(self) -> list[tuple[int | None, Span]]:
        """Ranges that cover all keys, each with its partition's number (None: no rows)."""
        if not self._seen:
            return [(None, Span(b"", None))]
        cuts = [seen.first for seen in self._seen.values()][1:]
        return list(zip(self._seen, map(Span, [b"", *cuts], [*cuts, None]), strict=True))

    @property
    def has_doubles(self) -> bool:
        """Whether two rows have the same key."""
        return any(seen.doubled for seen in self._seen.values())

    def run(self, task: Task, number: int | None) -> Done | Failed:
        """Run a task on the rows of one partition, as a Spark job."""
        if number is None:
            return Done(0, ())
        try:
            (done,) = self._rows.context.runJob(self._rows, _Attempt(task), [number])
        except Py4JJavaError as error:  # executors were lost repeatedly
            return Failed(str(error.java_exception))
        return done

    def close(self) -> None:
        self._rows.unpersist()


class _Attempt:
    """A task as a function that Spark sends to an executor."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def __call__(self, packed: Iterable[tuple[bytes]]) -> list[Done | Failed]:
        return [attempt(self._task, (rows for (rows,) in packed))]


def _packed(batches: Iterator[tuple[pa.Array, pa.Array, pa.Array]]) -> Iterator[pa.Array]:
    """Packed rows, padded with nulls to the length of each batch.

    Transferring rows as Python objects would cost several times as much.
    """
    for batch in batches:
        chunks = list(pack(zip(*(column.to_pylist() for column in batch), strict=True)))
        yield pa.array([*chunks, *[None] * (len(batch[0]) - len(chunks))], pa.binary())


class _Seen(NamedTuple):
    """The first key of a range, and whether the range has a duplicate key."""

    first: bytes
    doubled: bool


def _see(number: int, packed: Iterable[tuple[bytes]]) -> Iterator[tuple[int, _Seen]]:
    """The summary of a range; nothing for an empty range.

    Reads all rows: Spark does not reuse a Python worker that has unread input, and a new worker
    imports all modules again. Rows with the same key are adjacent.
    """
    seen: _Seen | None = None
    last: bytes | None = None
    for (rows,) in packed:
        keys = unpack(rows).keys
        doubled = keys[0] == last or len({*keys}) < len(keys)
        seen = (
            _Seen(keys[0], doubled)
            if seen is None
            else seen._replace(doubled=seen.doubled or doubled)
        )
        last = keys[-1]
    if seen is not None:
        yield number, seen
