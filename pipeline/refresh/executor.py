"""The steps of a batch of deferred views, in the driver or in executors: reading changes, and
running stages of delta programs over parts of them (`pipeline/refresh/driver.py` orders the steps).

All data are sent as rows of ((target, bucket), payload): the number of the stage that takes the
row, the part of the stage's input that it belongs to (`Stage.partition_by`), and an Arrow stream.
So values keep Hornbeam's types, independent of Spark's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from hornbeam_server.maintain.deltas.batches import Nothing, Writes, about, encoded
from hornbeam_server.maintain.deltas.clock import CLOCK, ticked
from hornbeam_server.maintain.deltas.executors import FEW, project, run
from hornbeam_server.maintain.deltas.relations import (
    WEIGHT,
    Field,
    Typed,
    evaluate,
    stored_fields,
    weighted,
)
from hornbeam_server.maintain.deltas.stages import Input, Stage, input_schema
from hornbeam_server.maintain.deltas.zsets import ZSet
from hornbeam_server.pipeline.sources.changes import Segment, content
from hornbeam_server.pipeline.sources.types import for_spark
from hornbeam_server.pipeline.spark.export import Export
from hornbeam_server.pipeline.spark.sink import Sink, open_sink
from hornbeam_server.query.dialect.duckdb_types import quoted
from hornbeam_server.schema.collector import settle_collector
from hornbeam_server.schema.rows import projection
from hornbeam_server.schema.types import ColumnType, Kind
from hornbeam_server.storage.log.following import batches_between, changes
from hornbeam_server.storage.ports import TableStore
from hornbeam_server.storage.snapshot import RowReader, Snapshot
from hornbeam_server.storage.source import LogSource

CHUNK_ROWS = 32_768
"""Changes of one relation that are projected at a time."""
COUNTS, MADE = -1, -2
"""Targets of result rows: the counts of a task, and the rows that a dry run would have put."""
_BUCKET = Field("_bucket", "INTEGER", ColumnType(Kind.INTEGER))
StageRow = tuple[tuple[int, int], bytes]
"""Target and bucket, and an Arrow stream of rows (or nothing)."""
RelationTask = tuple[str, bytes, bytes | None]
"""A relation and a range of its keys."""
Task = tuple[Segment, int, int] | RelationTask
"""A segment of a log, the number of a share, and the count of shares; or a part of a relation."""
Source = tuple[bool, str] | int
"""The origin of rows: a pair of (True for all rows of a relation, False for its changes) and the
relation's name; or the number of a stage."""


class Counts(msgspec.Struct, frozen=True):
    """The number of changes of relations that were read, and of rows that were put."""

    changes: int = 0
    rows: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.changes + other.changes, self.rows + other.rows)


@dataclass(frozen=True)
class Job:
    """The part of a batch that executors need. Stages of all programs are numbered together."""

    export: Export
    url: str
    as_of: int
    upto: int
    stages: tuple[Stage, ...]
    views: tuple[str, ...]
    """The view of each stage."""
    levels: tuple[int, ...]
    built: frozenset[int]
    """Stages of views that are being built: nothing is stored for them yet."""
    feeds: Mapping[Source, tuple[tuple[int, Input], ...]]
    """The stages that take rows from each source, each with the input that takes them."""
    buckets: int
    dry: bool = False
    """Rows are not put, but returned (`MADE`)."""

    def targets(self, level: int) -> frozenset[int]:
        return frozenset(target for target, at in enumerate(self.levels) if at == level)

    def seeds(self) -> list[StageRow]:
        """The changes of the clock, and empty rows for the stages that must run even on empty
        input. A stage runs only if it gets a row."""
        run = [((t, 0), b"") for t, stage in enumerate(self.stages) if not stage.partition_by]
        for whole, before in ((True, None), (False, self.as_of)):
            run += _sent(self, (whole, CLOCK), ticked(before, self.upto))
        return run

    @property
    def timed(self) -> bool:
        """Do rows of views enter and leave by time?"""
        return (False, CLOCK) in self.feeds

    def relations(self, *, whole: bool) -> list[str]:
        """The relations whose rows (`whole`), or else whose changes, the stages read."""
        named = [source for source in self.feeds if not isinstance(source, int)]
        return [name for is_whole, name in named if is_whole is whole and name != CLOCK]


def reading(job: Job, logs: LogSource) -> Callable[[Task], Iterator[StageRow]]:
    of_relations = reading_relations(job)

    def read(task: Task) -> Iterator[StageRow]:
        if isinstance(task[0], Segment):
            return _read_segment(job, logs, *task)
        return of_relations(task)

    return read


def reading_relations(job: Job) -> Callable[[RelationTask], Iterator[StageRow]]:
    return lambda task: _read_relation(job, *task)


def _read_segment(
    job: Job, logs: LogSource, segment: Segment, share: int, shares: int
) -> Iterator[StageRow]:
    """The rows of one share of a segment: every `shares`-th batch."""
    settle_collector()
    buffers = [_Changes(job, name, whole=False) for name in job.relations(whole=False)]
    wanted = {into.stored_name: into for into in buffers}
    data, read = asyncio.run(content(logs, segment)), 0
    place = (segment.epoch, segment.sequence)
    found = batches_between(data, *place, job.as_of, job.upto)
    for batch in islice(found, share, None, shares):
        for commit in changes(batch):
            for name, old, new in commit.changes:
                if (into := wanted.get(name)) is None:
                    continue
                read += 1
                if old is not None:
                    into.gone.append(old)
                if new is not None:
                    into.come.append(new)
        for into in wanted.values():
            if into.full:
                yield from into.sent()
    for into in wanted.values():
        yield from into.sent()
    yield _counts(Counts(changes=read))


def _read_relation(job: Job, name: str, start: bytes, end: bytes | None) -> Iterator[StageRow]:
    settle_collector()
    into = _Changes(job, name, whole=True)
    with asyncio.Runner() as runner:
        store = runner.run(_opened(job.export))
        cells = store.scan(into.table, start, end, job.upto)
        try:
            while (batch := runner.run(anext(cells, None))) is not None:
                into.come += [cell.value for cell in batch]
                if into.full:
                    job.export.require_kept()
                    yield from into.sent()
        finally:
            runner.run(store.close())
    job.export.require_kept()
    yield from into.sent()


async def _opened(export: Export) -> TableStore:
    return export.open()


class _Changes:
    """A buffer of rows of a relation for the stages that take them. It is flushed at `CHUNK_ROWS`
    rows or somewhat more."""

    def __init__(self, job: Job, name: str, *, whole: bool) -> None:
        self._job = job
        self._source: Source = (whole, name)
        self._codec = job.export.codecs()(name)
        columns = self._codec.layout.columns
        named = {f.name for _, part in job.feeds[self._source] for f in part.columns}
        self._at = [i for i, column in enumerate(columns) if column.name in named]
        self._columns = [columns[i] for i in self._at]
        self.gone: list[bytes] = []
        self.come: list[bytes] = []

    @property
    def table(self) -> str:
        return self._codec.layout.table

    @property
    def stored_name(self) -> str:
        """The name of the relation in the logs."""
        return self._codec.layout.stored_name

    @property
    def full(self) -> bool:
        return len(self.gone) + len(self.come) >= CHUNK_ROWS

    def sent(self) -> Iterator[StageRow]:
        """The buffered rows; empties the buffer."""
        parts = [part for part in ((self.gone, -1), (self.come, 1)) if part[0]]
        self.gone, self.come = [], []
        if parts:
            yield from _sent(self._job, self._source, self._zset(parts))

    def _zset(self, parts: Sequence[tuple[Sequence[bytes], int]]) -> ZSet:
        fields = stored_fields(self._columns)
        if sum(len(values) for values, _ in parts) <= FEW:
            pick, decode = projection(self._at), self._codec.decode_all
            return ZSet(fields, rows=[(pick(row), w) for some, w in parts for row in decode(some)])
        return ZSet(fields, table=pa.concat_tables([self._table(*part) for part in parts]))

    def _table(self, values: Sequence[bytes], weight: int) -> pa.Table:
        batch = for_spark(self._columns, self._codec.many.to_arrow(values, self._at))
        table = pa.Table.from_batches([batch])
        return table.append_column(WEIGHT, pa.array([weight] * len(values), pa.int8()))


def _sent(job: Job, source: Source, changes: ZSet) -> Iterator[StageRow]:
    """The rows of a source for each stage that takes them, divided into buckets."""
    for target, part in job.feeds.get(source, ()):
        with about(job.views[target]):
            rows = project(part, changes).table
        by = job.stages[target].partition_by
        for bucket, inside in _in_buckets(part, rows, by, job.buckets):
            yield (target, bucket), _to_bytes(inside)


def _in_buckets(
    part: Input, rows: pa.Table, by: Sequence[str], buckets: int
) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each bucket. Values that DuckDB regards as equal are in the same bucket."""
    if not rows.num_rows:
        return
    if not by or buckets == 1:
        yield 0, rows
        return
    fields = weighted(part.output)
    sql = f"SELECT *, hash({', '.join(map(quoted, by))}) % {buckets} FROM rows"
    found = evaluate(sql, {"rows": Typed(fields, rows)}, (*fields, _BUCKET)).table
    numbers = found[_BUCKET.name]
    rows = found.drop_columns([_BUCKET.name])
    for bucket in numbers.unique().to_pylist():
        yield bucket, rows.filter(pc.equal(numbers, bucket))


def running(job: Job) -> Callable[[Iterable[StageRow]], Iterator[StageRow]]:
    """A function that runs the stages that take the rows of a partition, each bucket separately."""

    def run_all(given: Iterable[StageRow]) -> Iterator[StageRow]:
        settle_collector()
        waiting: dict[tuple[int, int], list[bytes]] = {}
        for place, payload in given:
            waiting.setdefault(place, []).append(payload)
        if not waiting:
            return
        with asyncio.Runner() as runner:
            worker = runner.run(_Worker.open(job))
            try:
                while waiting:
                    (target, _), payloads = waiting.popitem()
                    with about(job.views[target]):
                        changed, made = runner.run(worker.run(target, payloads))
                    yield from _sent(job, target, changed)
                    if job.dry:
                        yield (MADE, 0), msgspec.msgpack.encode(made)
                    else:
                        with about(job.views[target]):
                            runner.run(worker.put(made))
                        yield _counts(Counts(rows=sum(map(len, made.values()))))
            finally:
                runner.run(worker.close())

    return run_all


class _Worker:
    """The store that a task reads, and the sink that it puts rows into."""

    def __init__(self, job: Job, store: TableStore, sink: Sink | None) -> None:
        self._job = job
        self._store = store
        self._sink = sink
        self._codecs = job.export.codecs()
        self._old = Snapshot(store, self._codecs, job.as_of)

    @classmethod
    async def open(cls, job: Job) -> _Worker:
        return cls(job, job.export.open(), None if job.dry else open_sink(job.export, job.url))

    async def close(self) -> None:
        if self._sink is not None:
            await self._sink.close()
        await self._store.close()

    async def run(self, target: int, payloads: Iterable[bytes]) -> tuple[ZSet, Writes]:
        """The output of a stage for a part of its input, and the rows to be put."""
        job, stage = self._job, self._job.stages[target]
        tables = [pa.ipc.open_stream(payload).read_all() for payload in payloads if payload]
        table = pa.concat_tables([input_schema(stage).empty_table(), *tables])
        old: RowReader = self._old
        if target in job.built:
            old = Nothing(self._codecs.catalog)
        result = await run(stage, ZSet(stage.columns, table=table), old)
        job.export.require_kept()
        return result.changed, encoded(result.mutations, self._codecs)

    async def put(self, made: Writes) -> None:
        assert self._sink is not None
        tables = {self._codecs(name).layout.table: puts for name, puts in made.items()}
        await self._sink.put(tables, self._job.upto)


def _to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _counts(counts: Counts) -> StageRow:
    return (COUNTS, 0), msgspec.msgpack.encode(counts)


def puts_in(row: StageRow) -> Writes:
    """The puts in a row with target `MADE`."""
    return msgspec.msgpack.decode(row[1], type=Writes)


def counted(rows: Iterable[StageRow]) -> Counts:
    """The sum of the counts that tasks report."""
    reported = (payload for (target, _), payload in rows if target == COUNTS)
    return sum((msgspec.msgpack.decode(one, type=Counts) for one in reported), Counts())
