"""Batches of deferred views on Spark: their delta programs, run set-at-a-time.

    with open_transport(parse_url(url), TIMEOUT_S) as node:
        done = refresh(spark.sparkContext, node, url, "default")

`POST /v1/groups/{group}/batches` answers the two snapshots of a batch, and its views. Executors
read the changes between the snapshots from the logs, or all rows of the relations of a view that is
being built. They run the stages of the programs (`maintain/deltas`), with lookups in the store as
of the first snapshot. They put the rows that differ, with the second snapshot as their timestamp
(`pipeline/spark/sink.py`). The driver itself runs a small batch (`maintain/deltas/batches.py`).
When all rows are put, the driver reports the batch as finished (`…/batches/{upto}`); from then on
queries read the views at the second snapshot. If a job dies before that report, the next job runs
the batch again, with the same result: see `txlayer/views/refresh_groups.py`.

**Levels.** All views of a group are refreshed together. The level of a stage is one above the
highest level of its inputs. All stages of a level, of all views, run as one Spark stage.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import quote

import msgspec
from pyspark import RDD, SparkContext, StorageLevel

from hornbeam.transport import Transport, persistently
from hornbeam_server.maintain.deltas.batches import SegmentBytes, SmallBatch, about
from hornbeam_server.maintain.deltas.catalog_programs import Programs, programs_of
from hornbeam_server.maintain.deltas.stages import Input, Stage
from hornbeam_server.pipeline.refresh.executor import (
    COUNTS,
    MADE,
    Counts,
    Job,
    RelationTask,
    Source,
    StageRow,
    Task,
    counted,
    puts_in,
    reading,
    reading_relations,
    running,
)
from hornbeam_server.pipeline.refresh.recompute import recompute
from hornbeam_server.pipeline.sources.changes import Changes, content
from hornbeam_server.pipeline.spark.export import Export
from hornbeam_server.pipeline.spark.sink import open_sink
from hornbeam_server.schema.collector import settle_collector
from hornbeam_server.schema.model import Refresh
from hornbeam_server.schema.views import DeferredView
from hornbeam_server.storage.ports import Put

HERE_BYTES = 2 << 20
"""Up to this many bytes of logs, a batch runs in the driver."""
BUCKET_BYTES = 32 << 20
"""Approximate bytes of logs or rows for each bucket of a stage's input."""
SHARE_BYTES = 1 << 20
"""Approximate bytes of a segment for each task."""
ROW_BYTES = 100
"""Estimated size of a row, where only the number of rows is known."""
SPILLING = StorageLevel.MEMORY_AND_DISK


class Batch(msgspec.Struct, frozen=True):
    """A batch, as `POST /v1/groups/{group}/batches` answers it."""

    group: str
    as_of: int
    upto: int
    refreshed: tuple[str, ...]
    built: tuple[str, ...]
    usable: frozenset[str]
    export: Export
    changes: Changes


@dataclass(frozen=True, slots=True)
class Done:
    """A batch that is finished."""

    group: str
    upto: int
    views: tuple[str, ...]
    counts: Counts
    seconds: float


def refresh(context: SparkContext, node: Transport, url: str, group: str) -> Done:
    """Run the batch of a group that is under way, or else the next. `url` is that of a node, for
    executors. Raises DatabaseError, Unsupported, and Spark's errors."""
    began = time.monotonic()
    path = f"/v1/groups/{quote(group, safe='')}/batches"
    batch = msgspec.convert(persistently(lambda: node.json("POST", path, {})), Batch)
    counts = run(context, batch, node, url)
    seconds = time.monotonic() - began
    body = {"changes": counts.changes, "rows": counts.rows, "seconds": seconds}
    persistently(lambda: node.json("POST", f"{path}/{batch.upto}", body))
    return Done(group, batch.upto, (*batch.refreshed, *batch.built), counts, seconds)


def run(context: SparkContext, batch: Batch, node: Transport, url: str) -> Counts:
    """Put all rows of a batch."""
    programs = programs_of(batch.export.catalog, batch.usable, frozenset(batch.built))
    counts, views = Counts(), programs.catalog.deferred_view
    timed = any(views[name].timed for name in batch.refreshed)
    if batch.built or batch.changes.segments or timed:
        counts = _follow(context, batch, programs, url)
    for name in (*batch.refreshed, *batch.built):
        if _is_answered(batch, views[name]):
            counts += Counts(rows=_answer(batch, programs, name, node, url))
    return counts


def _follow(context: SparkContext, batch: Batch, programs: Programs, url: str) -> Counts:
    """Refresh or build the views that are maintained from changes (`Refresh.follows_changes`)."""
    if not batch.built and _size(batch.changes) <= HERE_BYTES:
        small = SmallBatch(programs, batch.as_of, batch.upto, batch.refreshed)
        return asyncio.run(_run_here(batch, small, url)) if small.views else Counts()
    job = _job(batch, programs, url)
    return _run_there(context, batch, job) if job.stages else Counts()


def _is_answered(batch: Batch, view: DeferredView) -> bool:
    """Whether the batch recomputes the view. It does not if nothing was committed since the last
    batch."""
    changed = batch.changes.segments or not batch.changes.loaded.keys().isdisjoint(view.relations)
    recomputed = view.declared.refresh is Refresh.RECOMPUTE
    return recomputed and bool(changed or view.name in batch.built)


def _answer(batch: Batch, programs: Programs, name: str, node: Transport, url: str) -> int:
    path = f"/v1/groups/{quote(batch.group, safe='')}/batches/{batch.upto}/results"

    def agree(digest: str) -> None:
        persistently(lambda: node.json("POST", path, {"view": name, "digest": digest}))

    as_of = None if name in batch.built else batch.as_of
    program, catalog = programs[name], programs.catalog
    with about(name):
        return asyncio.run(recompute(batch.export, url, catalog, program, as_of, agree))


def _size(changes: Changes) -> int:
    return sum(segment.bytes for segment in changes.segments)


async def _run_here(batch: Batch, small: SmallBatch, url: str) -> Counts:
    """Run a small batch in this process: Spark would take longer to distribute the data."""
    settle_collector()
    segments = [
        SegmentBytes(await content(batch.changes.source, each), each.epoch, each.sequence)
        for each in batch.changes.segments
    ]
    changes, count = small.changes(segments)
    store, sink, rows = batch.export.open(), open_sink(batch.export, url), 0
    try:
        async for name, writes in small.writes(changes, store):
            batch.export.require_kept()
            if writes:
                with about(name):
                    await sink.put(writes, batch.upto)
            rows += sum(map(len, writes.values()))
    finally:
        await sink.close()
        await store.close()
    return Counts(count, rows)


def _run_there(context: SparkContext, batch: Batch, job: Job) -> Counts:
    """Run a batch in Spark's executors."""
    tasks = _tasks(batch, job, context.defaultParallelism)
    read = context.parallelize(tasks, max(len(tasks), 1)).flatMap(
        reading(job, batch.changes.source)
    )
    made = [read.persist(SPILLING), context.parallelize(job.seeds(), 1)]
    try:
        counts = _counted(made[0])
        if not (batch.built or counts.changes or job.timed):
            return counts
        for level in sorted(set(job.levels)):
            made.append(_level(context.union(made), job, level).persist(SPILLING))
            counts += _counted(made[-1])
    finally:
        for rows in made:
            rows.unpersist()
    return counts


@contextmanager
def rebuilt(
    context: SparkContext, export: Export, names: Sequence[str]
) -> Iterator[RDD[tuple[str, Put]]]:
    """The rows that a build of views that follow changes would put as of an export, with their
    layouts. Nothing is put. Spark computes the rows when they are used."""
    at = export.snapshot
    programs = programs_of(export.catalog, built=frozenset(names))
    job = _job_of(export, programs, "", at, at, built=names, dry=True)
    tasks = _relation_tasks(export, job)
    read = context.parallelize(tasks, max(len(tasks), 1)).flatMap(reading_relations(job))
    rows = [read.persist(SPILLING), context.parallelize(job.seeds(), 1)]
    try:
        for level in sorted(set(job.levels)):
            rows.append(_level(context.union(rows), job, level).persist(SPILLING))
        yield context.union(rows).filter(lambda row: row[0][0] == MADE).flatMap(_made)
    finally:
        for each in rows:
            each.unpersist()


def _made(row: StageRow) -> Iterator[tuple[str, Put]]:
    return ((name, put) for name, puts in puts_in(row).items() for put in puts)


def _level(made: RDD[StageRow], job: Job, level: int) -> RDD[StageRow]:
    """The rows that the stages of one level compute from their input rows."""
    targets = job.targets(level)
    mine = made.filter(lambda row: row[0][0] in targets)
    parts = min(job.buckets * len(targets), job.buckets + 2 * made.context.defaultParallelism)
    return mine.partitionBy(parts).mapPartitions(running(job))


def _counted(rows: RDD[StageRow]) -> Counts:
    """The sum of the counts. Makes Spark compute all of the rows."""
    return counted(rows.filter(lambda row: row[0][0] == COUNTS).collect())


def _job(batch: Batch, programs: Programs, url: str) -> Job:
    return _job_of(
        batch.export,
        programs,
        url,
        batch.as_of,
        batch.upto,
        batch.refreshed,
        batch.built,
        size=_size(batch.changes),
    )


def _job_of(
    export: Export,
    programs: Programs,
    url: str,
    as_of: int,
    upto: int,
    refreshed: Sequence[str] = (),
    built: Sequence[str] = (),
    *,
    size: int = 0,
    dry: bool = False,
) -> Job:
    """The job of a batch. `size`: bytes to read, without the relations that are read whole."""
    stages: list[Stage] = []
    views: list[str] = []
    levels: list[int] = []
    of_built: set[int] = set()
    feeds: dict[Source, list[tuple[int, Input]]] = {}
    catalog = programs.catalog
    for name in (*refreshed, *built):
        if not catalog.deferred_view[name].declared.refresh.follows_changes:
            continue
        program = programs[name]
        whole, first = name in built, len(stages)
        if whole:
            rows = sum(catalog.row_count.get(relation, 0) for relation in program.relations)
            size = max(size, rows * ROW_BYTES)
        for number, stage in enumerate(program.stages, first):
            level = 0
            for part in stage.inputs:
                source: Source = (
                    first + part.source if isinstance(part.source, int) else (whole, part.source)
                )
                feeds.setdefault(source, []).append((number, part))
                level = max(level, levels[source] + 1 if isinstance(source, int) else 0)
            stages.append(stage)
            views.append(name)
            levels.append(level)
            if whole:
                of_built.add(number)
    return Job(
        export,
        url,
        as_of,
        upto,
        tuple(stages),
        tuple(views),
        tuple(levels),
        frozenset(of_built),
        {source: tuple(parts) for source, parts in feeds.items()},
        size // BUCKET_BYTES + 1,
        dry,
    )


def _tasks(batch: Batch, job: Job, most: int) -> list[Task]:
    """The reading tasks of a batch. A large segment is cut into up to `most` shares. Each task
    reads the whole segment, which is quick, but decodes only its share of the rows."""
    tasks = list[Task]()
    for segment in batch.changes.segments if job.relations(whole=False) else ():
        shares = min(segment.bytes // SHARE_BYTES + 1, most)
        tasks += [(segment, share, shares) for share in range(shares)]
    return [*tasks, *_relation_tasks(batch.export, job)]


def _relation_tasks(export: Export, job: Job) -> list[RelationTask]:
    catalog, tasks = export.codecs().catalog, list[RelationTask]()
    for name in job.relations(whole=True):
        cuts = asyncio.run(_splits(export, catalog.layout(name).table))
        tasks += [(name, a, b) for a, b in zip([b"", *cuts], [*cuts, None], strict=True)]
    return tasks


async def _splits(export: Export, table: str) -> list[bytes]:
    store = export.open()
    try:
        return await store.splits(table)
    finally:
        await store.close()
