"""`hornbeam materialize`: build views and indexes by Spark, online.

The only state is the set of finished keys of each build, which the leader stores durably
(`GET /v1/builds`). The driver cuts the missing keys where the store would split a scan, and sends
out one range after the other, each with an export of its own. An executor builds as much of its
range as it can in `SLICE_S` (`pipeline.build.executor`). The driver reports the finished part, and
the rest of the range goes back into the queue. So a driver or an executor that dies loses some
seconds of work, no range can outlive its snapshot, however large it is, and a new driver continues
where the last one ended. Two concurrent drivers build the same rows twice, which is harmless.

Immediate views come last, one after the other, each as a whole (`pipeline.build.immediate`).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

from hornbeam.transport import Transport
from hornbeam_server.maintain.spans import Span, cut, united
from hornbeam_server.pipeline.build import immediate
from hornbeam_server.pipeline.build.cuts import cuts_of
from hornbeam_server.pipeline.build.executor import Done, Failed, Task, attempt
from hornbeam_server.pipeline.build.leader import Build, Group, Leader, Over, begun
from hornbeam_server.pipeline.spark.export import Export, beside
from hornbeam_server.pipeline.spark.session import LOCAL, session
from hornbeam_server.schema.catalog import State
from hornbeam_server.schema.errors import HornbeamError, Unavailable

SLICE_S = 10.0
"""Seconds that a task builds before it reports its progress."""
ATTEMPTS = 3
"""Attempts in all for a range that fails."""
TIMEOUT_S = 600.0
Progress = Callable[[int, int | None], None]
"""Called with the rows scanned so far, including those of earlier runs, and the rows in all (None:
not known)."""
Run = Callable[[Task], Done | Failed]
"""Runs a task, on Spark or locally. Called from several threads, one for each running task."""


@dataclass(frozen=True, slots=True)
class Part:
    """A range of keys that is missing in a group, and how often building it has failed."""

    group: Group
    span: Span
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """Result of a run: the views and indexes that it built."""

    names: tuple[str, ...]
    readable: tuple[str, ...]
    """Views and indexes that were requested, but were readable before."""
    rows: int
    scanned: int
    seconds: float


def materialize(
    url: str,
    names: Sequence[str],
    *,
    master: str = LOCAL,
    rate: float | None = None,
    rebuild: bool = False,
    progress: Progress = lambda _scanned, _total: None,
) -> Report:
    """Build views with their indexes, or indexes. No names: build all that are left to be built.

    `rate`: maximum of rows per second that are scanned in the relations. `rebuild`: build readable
    views and indexes again, too. Raises HornbeamError, and the client's errors.
    """
    node = beside(url, TIMEOUT_S)
    try:
        asked = begun(node, names, rebuild=rebuild)
        if not any(build.state is State.BUILDING for build in asked):
            return Report((), tuple(build.name for build in asked), 0, 0, 0.0)
        with session(master) as spark:
            return build_all(spark.sparkContext, node, url, asked, rate, progress)
    finally:
        node.close()


def build_all(
    context: SparkContext,
    node: Transport,
    url: str,
    builds: Sequence[Build],
    rate: float | None,
    progress: Progress,
) -> Report:
    """Build all `builds`, those of immediate views last. Raises the errors of `Driver.build`, and
    the first error of an immediate view after the others are built."""
    began = time.monotonic()
    _, total = _expected([build for build in builds if build.state is State.BUILDING])
    ranged = [build for build in builds if not build.whole]
    driver = Driver(node, url, on_spark(context), context.defaultParallelism, rate)
    report = driver.build(ranged, lambda scanned, _: progress(scanned, total))
    leader, names, errors = Leader(node), [*report.names], list[HornbeamError]()
    rows, scanned = report.rows, report.scanned
    wholes = [build for build in builds if build.whole and build.state is State.BUILDING]
    for build in wholes:

        def show(now: int, before: int = scanned) -> None:
            progress(before + now, total)

        try:
            built = immediate.build(context, leader, url, build, rate, show)
        except HornbeamError as error:
            errors.append(error)
            continue
        names.append(build.name)
        rows, scanned = rows + built.rows, scanned + built.scanned
    leader.wait_readable({build.table for build in wholes if build.name in names})
    if errors:
        raise errors[0]
    readable = tuple(build.name for build in builds if build.name not in names)
    return Report(tuple(names), readable, rows, scanned, time.monotonic() - began)


def on_spark(context: SparkContext) -> Run:
    """A function that runs each task as a Spark job."""

    def run(task: Task) -> Done | Failed:
        try:
            (done,) = context.parallelize([task], 1).map(attempt).collect()
        except Py4JJavaError as error:  # executors were lost repeatedly
            return Failed(str(error.java_exception))
        return done

    return run


class Driver:
    """Builds through `run`, `workers` tasks at a time."""

    def __init__(
        self, node: Transport, url: str, run: Run, workers: int, rate: float | None = None
    ) -> None:
        self._leader = Leader(node)
        self._url = url
        self._run = run
        self._workers = workers
        self._rate = None if rate is None else rate / workers
        self._rows = self._scanned = 0

    def build(self, builds: Sequence[Build], progress: Progress) -> Report:
        """Build the missing ranges of `builds`. Raises NotFound when a build was cancelled,
        Unavailable when a range fails ATTEMPTS times, and the client's errors."""
        began = time.monotonic()
        missing = [build for build in builds if build.state is State.BUILDING]
        scanned, total = _expected(missing)
        progress(scanned, total)
        waiting = deque(self._parts(missing))
        under_way: dict[Future[Done | Failed], tuple[Part, Export]] = {}
        pool = ThreadPoolExecutor(self._workers, thread_name_prefix="range")
        try:
            while waiting or under_way:
                while waiting and len(under_way) < self._workers:
                    part = waiting.popleft()
                    with suppress(Over):
                        export = self._leader.export(part.group)
                        under_way[pool.submit(self._run, self._task(part, export))] = (part, export)
                for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                    part, export = under_way.pop(future)
                    self._leader.end(export)
                    with suppress(Over):
                        waiting.extendleft(self._ended(part, future.result()))
                    progress(scanned + self._scanned, total)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        self._leader.wait_readable({build.table for build in missing})
        built = tuple(build.name for build in missing)
        readable = tuple(build.name for build in builds if build.name not in built)
        return Report(built, readable, self._rows, self._scanned, time.monotonic() - began)

    def _parts(self, builds: Sequence[Build]) -> Iterator[Part]:
        for source in dict.fromkeys(build.source for build in builds):
            group = [build for build in builds if build.source == source]
            made = Group(
                group[0].relation,
                tuple(build.name for build in group),
                tuple(build.table for build in group),
            )
            # A range that one member of the group lacks is built for all of them.
            lacking = united(span for build in group for span in build.spans())
            with suppress(Over):
                inner, behind = self._laid_out(made)
                for span in cut(lacking, sorted({*inner, *behind})):
                    if behind and span.start >= behind[0]:
                        self._leader.finished(made, span)
                    else:
                        yield Part(made, span)

    def _laid_out(self, group: Group) -> tuple[list[bytes], list[bytes]]:
        """Keys to cut the relation of a group at, and the first key after its last row, if such a
        key exists. The snapshot is late enough (`pipeline.build.executor`), so the range after the
        last row needs no build and is reported as finished. Otherwise the build might chase a
        writer that appends, and never end.
        """
        export = self._leader.export(group)
        try:
            return asyncio.run(_laid_out(export, group.relation, 2 * self._workers))
        finally:
            self._leader.end(export)

    def _task(self, part: Part, export: Export) -> Task:
        return Task(export, self._url, part.group.names, *part.span, SLICE_S, self._rate)

    def _ended(self, part: Part, done: Done | Failed) -> list[Part]:
        """Report the finished part of `part`; returns the rest, which is still to be built."""
        if isinstance(done, Failed):
            self._leader.require_wanted(part.group)
            if part.failed + 1 == ATTEMPTS:
                raise Unavailable(done.message, cure="What is finished is kept: try again.")
            return [replace(part, failed=part.failed + 1)]
        built = Span(part.span.start, done.end)
        self._leader.finished(part.group, built, done.rows, done.scanned)
        self._rows += sum(done.rows.values())
        self._scanned += done.scanned
        if done.end is None or done.end == part.span.end:
            return []
        return [Part(part.group, Span(done.end, part.span.end))]


def _expected(builds: Sequence[Build]) -> tuple[int, int | None]:
    """Rows scanned before and rows in all. Each source counts once."""
    by_source = {build.source: (build.scanned, build.total) for build in builds}
    totals = [total for _, total in by_source.values()]
    known = None if None in totals else sum(total or 0 for total in totals)
    return sum(scanned for scanned, _ in by_source.values()), known


async def _laid_out(export: Export, relation: str, parts: int) -> tuple[list[bytes], list[bytes]]:
    store = export.open()
    try:
        return await cuts_of(store, export.codecs()(relation), export.snapshot, parts)
    finally:
        await store.close()
