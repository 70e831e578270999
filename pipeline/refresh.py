"""Batches of deferred views on Spark: their delta programs, run set-at-a-time.

    with open_transport(parse_url(url), TIMEOUT_S) as node:
        done = refresh(spark.sparkContext, node, url, "default")

A node says from which snapshot to which, and which views (`POST /v1/groups/{group}/batches`).
Executors read the changes between both from the logs, or for a view that is built all rows of its
relations, run the stages of the programs (`maintain/deltas`), look up what these ask for in the
store as of the first snapshot, and put the rows that differ with the second one as their timestamp
(`pipeline/sink.py`). Where there is little to do, the driver does that itself. When all are put,
the node is told (`…/batches/{upto}`), and queries read there from then on. A job that dies before
that is done again by whoever begins next, with the same result: see `txlayer/groups.py`.

**Levels.** All views of a group go together. A stage is of the level behind the highest one of its
inputs; all stages of a level, of all views, are one stage of Spark's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from urllib.parse import quote

import msgspec
from pyspark import RDD, SparkContext, StorageLevel

from hornbeam.transport import Transport, persistently
from maintain.deltas.program import DeltaProgram, compile_view
from maintain.deltas.stages import Input, Stage
from pipeline.changes import Changes
from pipeline.export import Export
from pipeline.recomputing import recompute
from pipeline.staging import (
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
from pipeline.told import about
from schema.catalog import Catalog, DeferredView, State
from schema.errors import Corruption
from schema.model import Refresh
from storage.ports import Put

HERE_BYTES = 2 << 20
"""Of logs that are read and worked through in the driver."""
BUCKET_BYTES = 32 << 20
"""Of logs or of rows that one bucket of a stage's input stands for, about."""
SHARE_BYTES = 1 << 20
"""Of a segment that is worth a task of its own."""
ROW_BYTES = 100
"""A row's, where only their number is known."""
SPILLING = StorageLevel.MEMORY_AND_DISK


class Batch(msgspec.Struct, frozen=True):
    """As `POST /v1/groups/{group}/batches` answers."""

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
    """Do the batch of a group that is under way, or else the next. `url` is that of a node, for
    executors. Raises DatabaseError, Unsupported, and what Spark raises."""
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
    catalog = _usable(batch.export.codecs().catalog, batch.usable)
    counts = Counts()
    if batch.built or batch.changes.segments:
        counts = _follow(context, batch, _job(batch, catalog, url))
    for name in (*batch.refreshed, *batch.built):
        if _is_answered(batch, catalog.deferred_view[name]):
            counts += Counts(rows=_answer(batch, catalog, name, node, url))
    return counts


def _follow(context: SparkContext, batch: Batch, job: Job) -> Counts:
    """Those that are kept from changes."""
    if not job.stages:
        return Counts()
    if not batch.built and _size(batch.changes) <= HERE_BYTES:
        return _run_here(batch, job)
    return _run_there(context, batch, job)


def _is_answered(batch: Batch, view: DeferredView) -> bool:
    """Anew, that is; there is nothing to do where nothing was committed."""
    changed = batch.changes.segments or not batch.changes.loaded.keys().isdisjoint(view.relations)
    anew = view.declared.refresh is Refresh.RECOMPUTE
    return anew and bool(changed or view.name in batch.built)


def _answer(batch: Batch, catalog: Catalog, name: str, node: Transport, url: str) -> int:
    path = f"/v1/groups/{quote(batch.group, safe='')}/batches/{batch.upto}/results"

    def agree(digest: str) -> None:
        persistently(lambda: node.json("POST", path, {"view": name, "digest": digest}))

    as_of = None if name in batch.built else batch.as_of
    program = program_of(catalog, catalog.deferred_view[name])
    with about(name):
        return asyncio.run(recompute(batch.export, url, catalog, program, as_of, agree))


def _size(changes: Changes) -> int:
    return sum(segment.bytes for segment in changes.segments)


def _run_here(batch: Batch, job: Job) -> Counts:
    """In this process: what is little takes less time than Spark takes to send it round."""
    read, here = reading(job, batch.changes.source), running(job)
    rows = [row for task in _tasks(batch, job, 1) for row in read(task)]
    counts = counted(rows)
    if counts.changes:
        rows += job.seeds()
        for level in sorted(set(job.levels)):
            targets = job.targets(level)
            made = list(here([row for row in rows if row[0][0] in targets]))
            counts += counted(made)
            rows += made
    return counts


def _run_there(context: SparkContext, batch: Batch, job: Job) -> Counts:
    """In Spark's executors."""
    tasks = _tasks(batch, job, context.defaultParallelism)
    read = context.parallelize(tasks, max(len(tasks), 1)).flatMap(
        reading(job, batch.changes.source)
    )
    made = [read.persist(SPILLING), context.parallelize(job.seeds(), 1)]
    try:
        counts = _counted(made[0])
        if not batch.built and not counts.changes:
            return counts
        for level in sorted(set(job.levels)):
            made.append(_level(context.union(made), job, level).persist(SPILLING))
            counts += _counted(made[-1])
    finally:
        for rows in made:
            rows.unpersist()
    return counts


@contextmanager
def made_anew(
    context: SparkContext, export: Export, names: Sequence[str]
) -> Iterator[RDD[tuple[str, Put]]]:
    """What a build of views that are kept from changes would put as of an export, by layout;
    nothing is. It is computed when it is asked for."""
    at = export.snapshot
    job = _job_of(export, export.codecs().catalog, "", at, at, built=names, dry=True)
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
    """The rows that the stages of one level make of those that are for them."""
    targets = job.targets(level)
    mine = made.filter(lambda row: row[0][0] in targets)
    parts = min(job.buckets * len(targets), job.buckets + 2 * made.context.defaultParallelism)
    return mine.partitionBy(parts).mapPartitions(running(job))


def _counted(rows: RDD[StageRow]) -> Counts:
    """Computes all of the rows."""
    return counted(rows.filter(lambda row: row[0][0] == COUNTS).collect())


def _job(batch: Batch, catalog: Catalog, url: str) -> Job:
    return _job_of(
        batch.export,
        catalog,
        url,
        batch.as_of,
        batch.upto,
        batch.refreshed,
        batch.built,
        size=_size(batch.changes),
    )


def _job_of(
    export: Export,
    catalog: Catalog,
    url: str,
    as_of: int,
    upto: int,
    refreshed: Sequence[str] = (),
    built: Sequence[str] = (),
    *,
    size: int = 0,
    dry: bool = False,
) -> Job:
    """`size`: of what is read, in bytes, beside the relations of which all rows are."""
    stages: list[Stage] = []
    views: list[str] = []
    levels: list[int] = []
    of_built: set[int] = set()
    feeds: dict[Source, list[tuple[int, Input]]] = {}
    for name in (*refreshed, *built):
        view = catalog.deferred_view[name]
        if view.declared.refresh is not Refresh.DEFERRED:
            continue
        program = program_of(catalog, view)
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


def program_of(catalog: Catalog, view: DeferredView) -> DeltaProgram:
    """Raises Corruption when what is stored is not what the program keeps."""
    program = compile_view(view.declared, catalog)
    kept = (program.columns, program.hidden, program.key, program.states)
    if kept != (view.columns, view.hidden, view.key, view.states):
        raise Corruption(
            f"View {view.name} was planned by another version of Hornbeam, and stored otherwise.",
            cure="Plan and apply the schema again; the view is then made anew.",
        )
    return program


def _usable(catalog: Catalog, usable: Iterable[str]) -> Catalog:
    """Nothing is looked up in what was not there all the time since the batch before."""
    states = ((name, state if name in usable else State.BUILDING) for name, state in catalog.states)
    return replace(catalog, states=tuple(states))


def _tasks(batch: Batch, job: Job, most: int) -> list[Task]:
    """A segment is cut into `most` shares, if it is large: all of it is read for each, which is
    quick, and that share of its rows decoded."""
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
