"""Immediate views in a reconciliation.

For each group, and each value of a group, Spark adds up what the rows of the relations give, and
what all lanes store (`pipeline.build.sums`). Both are as of the report's snapshot. So no two
results have to be sorted or joined, and there is one pass over the cells and the relations. A
difference belongs to a group, not to a cell: nothing shows which lane is wrong. In the report, its
key and its rows have the lane `ALL_LANES`, and the sums over all lanes.

A damaged view is repaired by building it again in new tables (decision 52).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter

from pyspark import SparkContext

from hornbeam.transport import Transport
from hornbeam_server.pipeline.build.driver import build_all
from hornbeam_server.pipeline.build.immediate import difference, parts_of
from hornbeam_server.pipeline.build.leader import begun
from hornbeam_server.pipeline.build.sums import Amounts, Job, Place, sums
from hornbeam_server.pipeline.reconcile.plan import CellScan, Task
from hornbeam_server.pipeline.reconcile.report import Compared, Difference, Fault, Range, Tally
from hornbeam_server.pipeline.spark.export import Export
from hornbeam_server.pipeline.spark.session import Progress, watched
from hornbeam_server.schema.types import Row
from hornbeam_server.storage.codec.rows import LayoutCodec

ALL_LANES = 0
"""In reports, the lane of a sum over all lanes. No cell has it."""
Places = Mapping[str, tuple[str, Sequence[Range]]]
"""For each layout of cells: its name in the report, and the ranges of its keys, in order."""


def differences(
    context: SparkContext, export: Export, name: str, tasks: Sequence[Task], progress: Progress
) -> list[Compared]:
    """The groups and values of an immediate view whose sums differ, by the ranges of `tasks`.
    Raises the errors of Spark."""
    places: dict[str, tuple[str, list[Range]]] = {}
    for task in tasks:
        assert isinstance(task.scan, CellScan)
        places.setdefault(task.scan.layout, (task.scan.name, []))[1].append(task.range)
    job = Job(export, name, False, context.accumulator(0))
    parts = parts_of(export, name, context.defaultParallelism)
    with watched(context, 2 * len(parts), progress):
        found = sums(context, job, parts).mapPartitions(partial(_judge, export, places))
        judged: list[Compared] = found.collect()
    return judged


def rebuild(context: SparkContext, node: Transport, url: str, names: Sequence[str]) -> None:
    """Build readable immediate views again. `url` is that of a node, for executors. Raises the
    errors of `build_all`."""
    builds = begun(node, names, rebuild=True)
    build_all(context, node, url, builds, None, lambda _scanned, _total: None)


def _judge(
    export: Export, places: Places, found: Iterable[tuple[Place, Amounts]]
) -> Iterator[Compared]:
    """The places whose sums differ. Runs in an executor."""
    codecs = export.codecs()
    tallies: dict[tuple[str, Range], Tally] = {}
    for (layout, _), amounts in found:
        if not any(difference(amounts)):
            continue
        name, ranges = places[layout]
        one = _difference(codecs(layout), amounts)
        where = ranges[bisect_right(ranges, one.key, key=attrgetter("start")) - 1]
        tallies.setdefault((name, where), Tally(name, where)).add(one)
    for tally in tallies.values():
        yield tally.done()


def _difference(codec: LayoutCodec, amounts: Amounts) -> Difference:
    key = (*amounts.group, ALL_LANES)
    expected, stored = (_row(key, side) for side in (amounts.expected, amounts.stored))
    fault = Fault.DIFFERENT
    if stored is None or expected is None:
        fault = Fault.MISSING if stored is None else Fault.EXTRA
    return Difference(fault, codec.key_of(key), stored, expected)


def _row(key: Row, amounts: Sequence[object]) -> Row | None:
    return (*key, *amounts) if any(amounts) else None  # type: ignore[arg-type]
