"""`hornbeam materialize`: build views and indexes by Spark, online.

The only state is the set of finished keys of each build, which the leader stores durably
(`GET /v1/builds`). The driver cuts the missing keys where the store would split a scan, and sends
out one range after the other, each with an export of its own. An executor builds as much of its
range as it can in `SLICE_S` (`pipeline.build.executor`). The driver reports the finished part, and
the rest of the range goes back into the queue. So a driver or an executor that dies loses some
seconds of work, no range can outlive its snapshot, however large it is, and a new driver continues
where the last one ended. Two concurrent drivers build the same rows twice, which is harmless.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType

import msgspec
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

from hornbeam.errors import DatabaseError
from hornbeam.transport import Transport, persistently
from hornbeam_server.maintain.spans import Span, cut, united
from hornbeam_server.pipeline.build.executor import Done, Failed, Task, attempt
from hornbeam_server.pipeline.spark.export import Export, begin, beside, end
from hornbeam_server.pipeline.spark.session import LOCAL, session
from hornbeam_server.schema.catalog import State
from hornbeam_server.schema.errors import NotFound, Unavailable
from hornbeam_server.storage.codec.keys import successor
from hornbeam_server.storage.codec.rows import LayoutCodec
from hornbeam_server.storage.rocks.store import between

SLICE_S = 10.0
"""Seconds that a task builds before it reports its progress."""
ATTEMPTS = 3
"""Attempts in all for a range that fails."""
POLL_S, PATIENCE_S = 0.2, 30.0
TIMEOUT_S = 600.0
Progress = Callable[[int, int | None], None]
"""Called with the rows scanned so far, including those of earlier runs, and the rows in all (None:
not known)."""
Run = Callable[[Task], Done | Failed]
"""Runs a task, on Spark or locally. Called from several threads, one for each running task."""


class Build(msgspec.Struct, frozen=True):
    """A build, as `/v1/builds` answers it."""

    name: str
    table: str
    source: str
    relation: str
    state: State
    missing: list[tuple[str, str | None]]
    scanned: int
    total: int | None

    def spans(self) -> list[Span]:
        """The ranges of keys that are not built yet."""
        return [
            Span(bytes.fromhex(start), None if end is None else bytes.fromhex(end))
            for start, end in self.missing
        ]


@dataclass(frozen=True, slots=True)
class Group:
    """Views and indexes of one source, which are built together. `tables` are those of `names`."""

    relation: str
    names: tuple[str, ...]
    tables: tuple[str, ...]


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
            context = spark.sparkContext
            driver = Driver(node, url, on_spark(context), context.defaultParallelism, rate)
            return driver.build(asked, progress)
    finally:
        node.close()


def on_spark(context: SparkContext) -> Run:
    """A function that runs each task as a Spark job."""

    def run(task: Task) -> Done | Failed:
        try:
            (done,) = context.parallelize([task], 1).map(attempt).collect()
        except Py4JJavaError as error:  # executors were lost repeatedly
            return Failed(str(error.java_exception))
        return done

    return run


def begun(node: Transport, names: Sequence[str], *, rebuild: bool = False) -> list[Build]:
    """Request builds from the node, for this process to run; returns them. Raises DatabaseError."""
    if not names:
        return left(node)
    body = {"names": list(names), "rebuild": rebuild}
    return msgspec.convert(node.json("POST", "/v1/builds", body), list[Build])


def left(node: Transport) -> list[Build]:
    """The pending builds that nodes leave to an external process. Raises DatabaseError."""
    answer = persistently(lambda: node.json("GET", "/v1/builds"))
    return msgspec.convert(answer, list[Build])


class _Over(Exception):
    """Another process has ended the build of a group, and it is readable."""


class Driver:
    """Builds through `run`, `workers` tasks at a time."""

    def __init__(
        self, node: Transport, url: str, run: Run, workers: int, rate: float | None = None
    ) -> None:
        self._node = node
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
                    with suppress(_Over):
                        export = self._export(part.group)
                        under_way[pool.submit(self._run, self._task(part, export))] = (part, export)
                for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                    part, export = under_way.pop(future)
                    end(self._node, export)
                    with suppress(_Over):
                        waiting.extendleft(self._ended(part, future.result()))
                    progress(scanned + self._scanned, total)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        self._wait_readable({build.table for build in missing})
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
            with suppress(_Over):
                inner, behind = self._laid_out(made)
                for span in cut(lacking, sorted({*inner, *behind})):
                    if behind and span.start >= behind[0]:
                        self._finished(made, span)
                    else:
                        yield Part(made, span)

    def _laid_out(self, group: Group) -> tuple[list[bytes], list[bytes]]:
        """Keys to cut the relation of a group at, and the first key after its last row, if such a
        key exists. The snapshot is late enough (`pipeline.build.executor`), so the range after the
        last row needs no build and is reported as finished. Otherwise the build might chase a
        writer that appends, and never end.
        """
        export = self._export(group)
        try:
            return asyncio.run(_laid_out(export, group.relation, 2 * self._workers))
        finally:
            end(self._node, export)

    def _export(self, group: Group) -> Export:
        """An export whose catalog has the group's tables as being built, so that its snapshot is
        late enough (`pipeline.build.executor`). Waits up to PATIENCE_S, since a node may not have
        received that catalog yet. Raises Unavailable after that."""
        give_up = time.monotonic() + PATIENCE_S
        while True:
            export = persistently(lambda: begin(self._node))
            if _all(export, group, State.BUILDING):
                return export
            end(self._node, export)
            self._require_wanted(group)
            if time.monotonic() > give_up:
                raise Unavailable(
                    "A node has not heard of the catalog in force for too long.",
                    cure="Look which node's catalog_version in hornbeam status is behind, and"
                    " restart it.",
                )
            time.sleep(POLL_S)

    def _task(self, part: Part, export: Export) -> Task:
        return Task(export, self._url, part.group.names, *part.span, SLICE_S, self._rate)

    def _ended(self, part: Part, done: Done | Failed) -> list[Part]:
        """Report the finished part of `part`; returns the rest, which is still to be built."""
        if isinstance(done, Failed):
            self._require_wanted(part.group)
            if part.failed + 1 == ATTEMPTS:
                raise Unavailable(done.message, cure="What is finished is kept: try again.")
            return [replace(part, failed=part.failed + 1)]
        built = Span(part.span.start, done.end)
        self._finished(part.group, built, done.rows, done.scanned)
        if done.end is None or done.end == part.span.end:
            return []
        return [Part(part.group, Span(done.end, part.span.end))]

    def _left(self) -> set[str]:
        return {build.table for build in left(self._node)}

    def _finished(
        self,
        group: Group,
        span: Span,
        rows: Mapping[str, int] = MappingProxyType({}),
        scanned: int = 0,
    ) -> None:
        """Report a finished range to the node, which stores it."""
        body = {
            "rows": dict.fromkeys(group.tables, 0) | dict(rows),
            "start": span.start.hex(),
            "end": None if span.end is None else span.end.hex(),
            "scanned": scanned,
        }
        try:
            persistently(lambda: self._node.json("POST", "/v1/built", body))
        except DatabaseError as error:
            if error.code == "not-found":
                self._require_wanted(group)
            raise
        self._rows += sum(rows.values())
        self._scanned += scanned

    def _require_wanted(self, group: Group) -> None:
        """Raise _Over when the group is readable, NotFound when its build was cancelled."""
        if self._left().issuperset(group.tables):
            return
        export = persistently(lambda: begin(self._node))
        end(self._node, export)
        if _all(export, group, State.READABLE):
            raise _Over
        if not _all(export, group, State.BUILDING):  # else the node's catalog is not up to date
            raise NotFound(
                f"{', '.join(group.names)} is not to be built any more: its build was cancelled, or"
                " the schema has changed.",
                cure="Look at hornbeam view list.",
            )

    def _wait_readable(self, tables: set[str]) -> None:
        while self._left() & tables:
            time.sleep(POLL_S)


def _all(export: Export, group: Group, state: State) -> bool:
    """Whether all members of the group are in this state, in the group's tables."""
    catalog = export.codecs().catalog
    return all(
        catalog.state.get(name) is state and catalog.layout(name).table == table
        for name, table in zip(group.names, group.tables, strict=True)
    )


def _expected(builds: Sequence[Build]) -> tuple[int, int | None]:
    """Rows scanned before and rows in all. Each source counts once."""
    by_source = {build.source: (build.scanned, build.total) for build in builds}
    totals = [total for _, total in by_source.values()]
    known = None if None in totals else sum(total or 0 for total in totals)
    return sum(scanned for scanned, _ in by_source.values()), known


async def _laid_out(export: Export, relation: str, parts: int) -> tuple[list[bytes], list[bytes]]:
    """The keys at which the store splits the relation, and the first key after its last row. If
    these give fewer than `parts` ranges, further cuts lie evenly between the first and last key.
    Each of these is the key of a row: a scan must not begin within the versions of a row."""
    store, codec = export.open(), export.codecs()(relation)
    table = codec.layout.table

    async def keys(start: bytes = b"", *, reverse: bool = False) -> list[bytes]:
        """The first key from `start` on, or the last key; empty if there is none."""
        found = store.scan(table, start, None, export.snapshot, reverse=reverse, limit=1)
        return [cell.key async for cells in found for cell in cells]

    try:
        splits, last = await store.splits(table), await keys(reverse=True)
        if not last:
            return [], [b""]
        (first,) = await keys()
        wanted = _evenly(codec, first, last[0], parts - len(splits) - 1)
        inner = [key for start in wanted for key in await keys(start)]
        behind = successor(last[0])
        return [*splits, *inner], [] if behind is None else [behind]
    finally:
        await store.close()


def _evenly(codec: LayoutCodec, first: bytes, last: bytes, count: int) -> list[bytes]:
    """At most `count` keys between two keys: evenly by the first column that differs, if it is an
    integer, else as if the keys were numbers."""
    if count <= 0:
        return []
    lows, highs = codec.decode_key(first), codec.decode_key(last)
    same = next((i for i, (a, b) in enumerate(zip(lows, highs, strict=True)) if a != b), 0)
    low, high = lows[same], highs[same]
    if not (type(low) is int and type(high) is int):
        return between(first, last, count)
    steps = sorted({low + (high - low) * i // (count + 1) for i in range(1, count + 1)})
    return [codec.prefix((*lows[:same], step)) for step in steps]
