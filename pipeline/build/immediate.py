"""Builds of immediate views by Spark, while transactions write.

All cells of the base lane are built at one snapshot T: the view over the relations at T, minus the
sums over the other lanes at T (docs/protocols/lanes.md, "A build while transactions write").
`pipeline.build.sums` adds up both sides; the tasks that get the sums put the cells at T.

**Why a build may begin again, and two may run at once.** The other lanes have at T what commits
have added since T0, when the view was put into force. So the base lane is the view as of T0,
*whatever T is*. A build that is repeated at a later T', a task that Spark runs again, and a late
put of a process that was given up, all put the same amounts. Nothing is finished before everything
is: a driver that dies leaves cells that the next one puts again.

T is a snapshot at or above T0, because the catalog that came with it has the view as being built.
A build must end while its snapshot is kept (`snapshot_retention_s`).

**Errors.** What may pass is tried again. An error that the rows cause, such as a sum out of its
type, is reported to the node, which quarantines the view and drops its tables.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from hornbeam.errors import Error
from hornbeam_server.maintain.immediate.build import base_put
from hornbeam_server.maintain.spans import Span
from hornbeam_server.pipeline.build.cuts import cuts_of
from hornbeam_server.pipeline.build.leader import Build, Group, Leader, Over
from hornbeam_server.pipeline.build.sums import Amounts, Job, Part, Place, program_of, sums
from hornbeam_server.pipeline.spark.errors import error_of
from hornbeam_server.pipeline.spark.export import POLL_S, Export
from hornbeam_server.pipeline.spark.sink import Sink, open_sink
from hornbeam_server.schema.collector import settle_collector
from hornbeam_server.schema.errors import (
    Corruption,
    HornbeamError,
    LimitExceeded,
    NotFound,
    SnapshotTooOld,
    SqlError,
    Unavailable,
)
from hornbeam_server.schema.types import Row
from hornbeam_server.storage.codec.folds import minus
from hornbeam_server.storage.ports import Put

ATTEMPTS = 3
"""Attempts in all, each at a snapshot of its own."""
REPORT_S = 5.0
"""Seconds between two reports of progress to the node. A cancelled build ends with the next."""
TASK_ROWS = 200_000
"""Approximate rows of the fact that a task reads."""
PUT_ROWS = 5_000
_PASSING = (Unavailable, SnapshotTooOld, NotFound, Error)
_OF_ROWS = (LimitExceeded, Corruption, SqlError)
"""Errors that the rows cause, so that every attempt meets them."""
Scanned = Callable[[int], None]
"""Called with the rows of the fact that were scanned so far."""
Counts = Mapping[str, int]
"""Cells that are stored, by physical table."""


@dataclass(frozen=True, slots=True)
class Built:
    """A finished build: groups that are stored, and rows of the fact that were scanned."""

    rows: int
    scanned: int


def build(
    context: SparkContext,
    leader: Leader,
    url: str,
    wanted: Build,
    rate: float | None = None,
    progress: Scanned = lambda _scanned: None,
) -> Built:
    """Build an immediate view. `rate`: maximum rows of the fact that are scanned a second. Raises
    NotFound when the build was cancelled, Unavailable, and the client's errors. LimitExceeded,
    Corruption and SqlError have quarantined the view."""
    group = Group(wanted.relation, (wanted.name,), (wanted.table,))
    failed = 0
    while True:
        try:
            return _attempt(context, leader, url, group, rate, progress)
        except Over:
            return Built(0, 0)
        except (HornbeamError, Error) as error:
            try:
                leader.require_wanted(group)
            except Over:
                return Built(0, 0)
            if isinstance(error, _OF_ROWS):
                leader.failed(wanted.table, str(error))
            if not isinstance(error, _PASSING):
                raise
            failed += 1
            if failed == ATTEMPTS:
                raise Unavailable(str(error), cure="Try again: hornbeam materialize.") from None


def _attempt(
    context: SparkContext,
    leader: Leader,
    url: str,
    group: Group,
    rate: float | None,
    progress: Scanned,
) -> Built:
    """Build the view at a snapshot of its own."""
    (name,), (table,) = group.names, group.tables
    export = leader.export(group)
    try:
        workers = context.defaultParallelism
        job = Job(
            export, name, True, context.accumulator(0), None if rate is None else rate / workers
        )
        counts: Counter[str] = Counter()

        def run() -> None:
            made = sums(context, job, parts_of(export, name, workers))
            for found in made.mapPartitions(partial(_put_all, export, url)).collect():
                counts.update(found)

        reported, at = 0, time.monotonic()
        with closing(_watched(context, run, lambda: job.scanned.value)) as values:
            for scanned in values:
                progress(scanned)
                if time.monotonic() - at > REPORT_S:
                    leader.finished(group, Span(b"", b""), scanned=scanned - reported)
                    reported, at = scanned, time.monotonic()
        rows, scanned = counts[table], job.scanned.value
        leader.finished(group, Span(b"", None), {table: rows}, scanned - reported)
        progress(scanned)
        return Built(rows, scanned)
    finally:
        leader.end(export)


def _watched(
    context: SparkContext, work: Callable[[], None], value: Callable[[], int]
) -> Generator[int, None, None]:
    """Run `work` in a Spark job group, and give `value` every POLL_S seconds until it ends. Raises
    the errors of `work`; cancels its jobs when the caller ends early."""
    group = f"hornbeam build {time.monotonic_ns()}"

    def run() -> None:
        context.setJobGroup(group, "hornbeam build")
        with _reported():
            work()

    with ThreadPoolExecutor(1, thread_name_prefix="build") as pool:
        future = pool.submit(run)
        try:
            while not wait([future], timeout=POLL_S).done:
                yield value()
            future.result()
        finally:
            if not future.done():
                context.cancelJobGroup(group)


@contextmanager
def _reported() -> Iterator[None]:
    """Raise errors of executors as the errors that they are."""
    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise error_of(error) from None


def parts_of(export: Export, name: str, workers: int) -> list[Part]:
    """The parts of the fact of an immediate view, and of its cells."""
    return asyncio.run(_parts_of(export, name, workers))


async def _parts_of(export: Export, name: str, workers: int) -> list[Part]:
    codecs, program = export.codecs(), program_of(export, name)
    rows = codecs.catalog.row_count.get(program.fact, 0)
    store = export.open()
    try:
        wanted = max(2 * workers, rows // TASK_ROWS)
        keys, _ = await cuts_of(store, codecs(program.fact), export.snapshot, wanted)
        parts = _between(program.fact, keys)
        for cells in program.contribution.all_cells():
            parts += _between(cells.name, await store.splits(codecs(cells.name).layout.table))
        return parts
    finally:
        await store.close()


def _between(layout: str, keys: Iterable[bytes]) -> list[Part]:
    cuts = sorted({key for key in keys if key})
    return [Part(layout, a, b) for a, b in zip([b"", *cuts], [*cuts, None], strict=True)]


# ------------------------------------------------------------ executors


def _put_all(export: Export, url: str, found: Iterable[tuple[Place, Amounts]]) -> Iterator[Counts]:
    """Put the cells of the base lane of some places. Runs in an executor. Raises LimitExceeded for
    a sum out of its type, and the errors of the sink."""
    settle_collector()
    places = iter(found)
    first = list(islice(places, PUT_ROWS))
    if first:
        yield asyncio.run(_put_in_chunks(export, url, first, places))


async def _put_in_chunks(
    export: Export,
    url: str,
    chunk: Sequence[tuple[Place, Amounts]],
    rest: Iterator[tuple[Place, Amounts]],
) -> Counts:
    counts: Counter[str] = Counter()
    sink = open_sink(export, url)
    try:
        while chunk:
            counts.update(await _put(export, sink, chunk))
            chunk = list(islice(rest, PUT_ROWS))
        export.require_kept()
        await sink.flush()
    finally:
        await sink.close()
    return counts


async def _put(export: Export, sink: Sink, places: Iterable[tuple[Place, Amounts]]) -> Counts:
    codecs = export.codecs()
    puts: dict[str, list[Put]] = {}
    for (layout, _), found in places:
        codec = codecs(layout)
        put = base_put(codec, found.group, difference(found))
        puts.setdefault(codec.layout.table, []).append(put)
    await sink.put(puts, export.snapshot)
    return {table: sum(1 for put in some if put.value) for table, some in puts.items()}


def difference(found: Amounts) -> Row:
    """What the relations give, minus what is stored."""
    expected, stored = found.expected, found.stored
    if not expected:
        return tuple(minus(amount - amount, amount) for amount in stored)
    return tuple(map(minus, expected, stored)) if stored else tuple(expected)
