"""The driver of a reconciliation: compare at one snapshot, repair, and compare again.

Repair goes through a node. It gets the keys that differ, and recomputes their rows in transactions,
under the locks of their roots. The damaged ranges are compared again at a later snapshot, which
includes concurrent writes, until no difference is left or a round makes no progress.

Immediate views are compared at the same snapshot (`immediate`), and repaired by a build. Deferred
views come last: group by group, each as of its group's snapshot (`deferred`).
"""

from __future__ import annotations

import asyncio
import base64
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from operator import add, attrgetter
from urllib.parse import quote

from pyspark import SparkContext

from hornbeam.transport import Transport, persistently
from hornbeam_server.pipeline.reconcile import deferred, immediate, plan, scans
from hornbeam_server.pipeline.reconcile.deferred import Group, Rows
from hornbeam_server.pipeline.reconcile.plan import (
    CellScan,
    RelationScan,
    StoredScan,
    Subject,
    Task,
)
from hornbeam_server.pipeline.reconcile.report import Checked, Compared, Kind, Range, Report, Tally
from hornbeam_server.pipeline.reconcile.scans import OneSide, Outcome
from hornbeam_server.pipeline.spark import export as exports
from hornbeam_server.pipeline.spark.export import Export
from hornbeam_server.pipeline.spark.session import Progress, watched
from hornbeam_server.storage.codec.rows import Codecs

REPAIRED_AT_ONCE = 1_000
"""Keys in one request to a node."""
SLICES_PER_CORE = 8
Results = dict[tuple[str, Range], Compared]
Judged = tuple[tuple[str, bytes], Iterable[OneSide]]


def reconcile(
    context: SparkContext,
    transport: Transport,
    url: str,
    names: Sequence[str] = (),
    *,
    repair: bool = False,
    progress: Progress = lambda _done, _total: None,
) -> tuple[Report, Codecs]:
    """Compare the views and indexes `names`, and the indexes on these views. No names: compare all,
    and all foreign keys and CHECKs. `url` is that of a node, for executors.

    Returns the report, and the codecs that decode its keys. Raises NotFound, Spark's errors, and
    the client's errors.
    """
    with _export(transport) as export:
        codecs = export.codecs()
        catalog = codecs.catalog
        later = [name for name in names if name in catalog.deferred_view]
        kept = [name for name in names if name not in catalog.declared_view]
        groups = deferred.groups(transport, later if names else None)
        chosen = plan.with_indexes(catalog, kept) if names else plan.all_names(catalog)
        views = [name for group in groups for name in group.views if name in catalog.deferred_view]
        added_up = plan.immediate_names(catalog, names)
        wanted = plan.scans(catalog, chosen, constraints=not names, declared=[*views, *added_up])
        tasks = tasks_of(export, wanted)
        results = compare(context, export, tasks, progress)
        broken = _broken(wanted, results)
        sums = _compared_sums(context, export, added_up, broken, progress)
    repaired = Counter[str]()
    if repair:
        results, repaired = _mend(context, transport, tasks, results, progress)
        sums, rebuilt = _rebuilt(context, transport, url, sums, added_up, broken, progress)
        repaired += rebuilt
    wanted += plan.cell_scans(catalog, added_up)
    subjects = {name: what for scan in wanted for name, what in plan.subjects(scan).items()}
    checked = _checked(subjects, results | sums, repaired)
    for group in groups:
        checked += _deferred(context, transport, url, group, broken, repair, progress)
    order = list(Kind)
    checked.sort(key=lambda item: order.index(item.kind))
    return Report(export.snapshot, tuple(checked)), codecs


def _checked(
    subjects: Mapping[str, Subject],
    results: Results,
    repaired: Mapping[str, int],
    as_of: int | None = None,
) -> list[Checked]:
    by_name: dict[str, list[Compared]] = {name: [] for name in subjects}
    for compared in results.values():
        by_name[compared.name].append(compared)
    return [
        Checked(
            name,
            *subject,
            tuple(sorted(by_name[name], key=lambda one: one.range.start)),
            repaired.get(name, 0),
            as_of,
        )
        for name, subject in subjects.items()
    ]


def _broken(wanted: Iterable[plan.Scan], results: Results) -> frozenset[str]:
    """The relations that have rows that cannot be read, or lie under wrong keys."""
    relations = {scan.relation for scan in wanted if isinstance(scan, RelationScan)}
    return frozenset(name for name, _ in _damaged(frozenset(relations), results))


@contextmanager
def _export(transport: Transport) -> Iterator[Export]:
    export = exports.begin(transport)
    try:
        yield export
    finally:
        exports.end(transport, export)


def tasks_of(export: Export, wanted: Sequence[plan.Scan]) -> list[Task]:
    """Tasks for `wanted`, cut where the store has split the tables."""
    return asyncio.run(_tasks(export, wanted))


async def _tasks(export: Export, wanted: Sequence[plan.Scan]) -> list[Task]:
    catalog = export.codecs().catalog
    store = export.open()
    try:
        names = {name for scan in wanted for name in plan.tables(catalog, scan)}
        splits = {name: await store.splits(catalog.layout(name).table) for name in names}
    finally:
        await store.close()
    return plan.tasks(catalog, wanted, splits.__getitem__)


def compare(
    context: SparkContext,
    export: Export,
    tasks: Sequence[Task],
    progress: Progress,
    made: Rows | None = None,
) -> Results:
    """The findings of `tasks` as of `export`. `made`: the expected rows of deferred views, whose
    tasks read only the stored rows."""
    if not tasks:
        return {}
    slices = _slices(context, tasks)
    with watched(context, slices, progress):
        outcomes = context.parallelize(tasks, slices).map(partial(scans.run, export))
        if made is not None:
            outcomes = outcomes.union(made.mapPartitions(scans.made_sums))
        outcome: Outcome = outcomes.treeReduce(add)
    results = {(one.name, one.range): one for one in outcome.compared}
    for found in _unequal_rows(context, export, tasks, outcome, made):
        key = (found.name, found.range)
        results[key] = results[key] + found
    return results


def _unequal_rows(
    context: SparkContext,
    export: Export,
    tasks: Sequence[Task],
    outcome: Outcome,
    made: Rows | None,
) -> list[Compared]:
    """The rows that differ in buckets with different checksums. Reads the buckets again."""
    buckets = frozenset(outcome.sums)
    names = frozenset(bucket.name for bucket in buckets)
    again = _narrowed(tasks, names, frozenset())
    if not again:
        return []
    ranges = {name: [task.range for task in again if _is_stored(task.scan, name)] for name in names}
    rows = context.parallelize(again, _slices(context, again)).flatMap(
        partial(scans.bucket_rows, export, wanted=buckets)
    )
    if made is not None:
        rows = rows.union(made.mapPartitions(partial(scans.made_rows, buckets)))
    judge = partial(_judge, export, ranges, outcome.unknown)
    judged = rows.groupByKey(context.defaultParallelism).mapPartitions(judge)
    found: list[Compared] = judged.collect()
    return found


def _is_stored(scan: plan.Scan, name: str) -> bool:
    return isinstance(scan, StoredScan) and scan.name == name


def _slices(context: SparkContext, tasks: Sequence[Task]) -> int:
    """The number of slices of `tasks`. Small tasks share a slice: Spark takes longer to start a
    task than the task takes to read."""
    return min(len(tasks), SLICES_PER_CORE * context.defaultParallelism)


def _judge(
    export: Export,
    ranges: Mapping[str, Sequence[Range]],
    unknown: frozenset[tuple[str, bytes]],
    rows: Iterable[Judged],
) -> Iterator[Compared]:
    """The differences by range, given both sides of all keys of some buckets. Runs in an
    executor."""
    codecs = export.codecs()
    tallies: dict[tuple[str, Range], Tally] = {}
    for (name, key), sides in rows:
        values = {side.stored: side.value for side in sides}
        found = scans.difference(codecs(name), key, values.get(False), values.get(True))
        if found is None:
            continue
        where = ranges[name][bisect_right(ranges[name], key, key=attrgetter("start")) - 1]
        tally = tallies.setdefault((name, where), Tally(name, where))
        if unknown and _source_key(codecs, name, key) in unknown:
            tally.leave_out(1)
        else:
            tally.add(found)
    for tally in tallies.values():
        yield tally.done()


def _source_key(codecs: Codecs, index: str, key: bytes) -> tuple[str, bytes] | None:
    """The source of an index, and the key of the source row that the index row at `key` belongs to.
    None: `key` is no key of the index."""
    codec = codecs(index)
    if not codec.is_key(key):
        return None
    source = codecs(codec.layout.source)
    columns = (part.column for part in codec.layout.key)
    by_column = dict(zip(columns, codec.decode_key(key), strict=True))
    return codec.layout.source, source.key_of([by_column[p.column] for p in source.layout.key])


def _narrowed(
    tasks: Sequence[Task], indexes: frozenset[str], views: frozenset[tuple[str, Range]]
) -> list[Task]:
    """The parts of `tasks` that compare `indexes`, or the ranges of views in `views`."""
    kept: list[Task] = []
    for scan, where in ((task.scan, task.range) for task in tasks):
        match scan:
            case StoredScan(name) if name in indexes:
                kept.append(Task(scan, where))
            case RelationScan():
                less = replace(
                    scan,
                    views=tuple(name for name in scan.views if (name, where) in views),
                    indexes=tuple(name for name in scan.indexes if name in indexes),
                    foreign_keys=(),
                    checks=(),
                )
                if less.views or less.indexes:
                    kept.append(Task(less, where))
    return kept


# ---------------------------------------------------------------- repair


def _mend(
    context: SparkContext,
    transport: Transport,
    tasks: Sequence[Task],
    results: Results,
    progress: Progress,
) -> tuple[Results, Counter[str]]:
    """Results after repair, and rows written by name. A range with more differences than KEPT_KEYS
    takes several rounds."""
    names = frozenset(name for task in tasks for name in _repairable(task.scan))
    repaired = Counter[str]()
    damaged = _damaged(names, results)
    while damaged:
        before = sum(results[one].differences for one in damaged)
        for name, where in damaged:
            repaired[name] += _write(transport, name, results[name, where].keys)
        with _export(transport) as export:
            # Raises NotFound for a view or index that was dropped, or is being rebuilt, since then.
            plan.with_indexes(export.codecs().catalog, sorted({name for name, _ in damaged}))
            again = _narrowed(tasks, frozenset(name for name, _ in damaged), damaged)
            results = results | compare(context, export, again, progress)
        damaged = _damaged(names, results)
        if sum(results[one].differences for one in damaged) >= before:
            break
    return results, repaired


def _repairable(scan: plan.Scan) -> tuple[str, ...]:
    match scan:
        case RelationScan():
            return scan.views
        case StoredScan(name):
            return (name,)
        case CellScan():
            return ()


def _damaged(names: frozenset[str], results: Results) -> frozenset[tuple[str, Range]]:
    return frozenset(
        one for one, compared in results.items() if one[0] in names and compared.differences
    )


def _write(transport: Transport, name: str, keys: Sequence[bytes]) -> int:
    """Repair the rows of `keys` at a node. Returns how many rows were wrong."""
    written = 0
    for start in range(0, len(keys), REPAIRED_AT_ONCE):
        some = keys[start : start + REPAIRED_AT_ONCE]
        body = {"keys": [base64.b64encode(key).decode() for key in some]}
        answer = persistently(
            partial(transport.json, "POST", f"/v1/repair/{quote(name, safe='')}", body)
        )
        written += answer["repaired"]
    return written


# ---------------------------------------------------------------- immediate views


def _compared_sums(
    context: SparkContext,
    export: Export,
    names: Sequence[str],
    broken: Set[str],
    progress: Progress,
) -> Results:
    """The findings for immediate views. `broken`: relations with unreadable rows. The sums of views
    over them are unknown."""
    catalog = export.codecs().catalog
    results: Results = {}
    for name in names:
        tasks = tasks_of(export, plan.cell_scans(catalog, [name]))
        if not broken.isdisjoint(catalog.immediate_view[name].relations):
            results |= _left_out(context, export, tasks)
            continue
        results |= compare(context, export, tasks, progress)
        for found in immediate.differences(context, export, name, tasks, progress):
            key = (found.name, found.range)
            results[key] = results[key] + found
    return results


def _rebuilt(
    context: SparkContext,
    transport: Transport,
    url: str,
    results: Results,
    names: Sequence[str],
    broken: Set[str],
    progress: Progress,
) -> tuple[Results, Counter[str]]:
    """Results after damaged immediate views are built again, and the differences that are gone, by
    name."""
    before = Counter[str]()
    for name, where in results:
        before[name] += results[name, where].differences
    damaged = [name for name in names if _is_damaged(before, name)]
    if not damaged:
        return results, Counter()
    immediate.rebuild(context, transport, url, damaged)
    with _export(transport) as export:
        again = _compared_sums(context, export, damaged, broken, progress)
    kept = {key: one for key, one in results.items() if not _is_of(key[0], damaged)}
    after = Counter[str]()
    for name, where in again:
        after[name] += again[name, where].differences
    mended = {name: before[name] - after[name] for name in before if _is_of(name, damaged)}
    return kept | again, +Counter(mended)


def _is_of(name: str, views: Iterable[str]) -> bool:
    """Whether `name` is one of the views, or the state of one."""
    return any(name == view or name.startswith(f"{view}.") for view in views)


# ---------------------------------------------------------------- deferred views


def _deferred(
    context: SparkContext,
    transport: Transport,
    url: str,
    group: Group,
    broken: Set[str],
    repair: bool,
    progress: Progress,
) -> list[Checked]:
    """Compare the deferred views of a group, and repair them if wanted. `broken`: relations with
    unreadable rows. The expected rows of views over them are unknown."""
    found = _compared_group(context, transport, group, broken, progress)
    if not repair or not any(one.differences for one in found):
        return found
    before = {one.name: one.differences for one in found}
    damaged = [name for name in group.views if _is_damaged(before, name)]
    deferred.rebuild(context, transport, url, group._replace(views=tuple(damaged)))
    again = _compared_group(context, transport, group, broken, progress)
    return [replace(one, repaired=max(before[one.name] - one.differences, 0)) for one in again]


def _is_damaged(differences: Mapping[str, int], view: str) -> bool:
    """Whether the view or its state (`Kind.STATE`) has differences."""
    return any(count and _is_of(name, [view]) for name, count in differences.items())


def _compared_group(
    context: SparkContext,
    transport: Transport,
    group: Group,
    broken: Set[str],
    progress: Progress,
) -> list[Checked]:
    with deferred.export_as_of(transport, group) as export:
        catalog = export.codecs().catalog
        unsound = [
            name
            for name in group.views
            if not broken.isdisjoint(catalog.deferred_view[name].relations)
        ]
        sound = [name for name in group.views if name not in unsound]
        with deferred.expected(context, export, sound) as made:
            tasks = tasks_of(export, plan.deferred_scans(catalog, sound))
            results = compare(context, export, tasks, progress, made)
        tasks = tasks_of(export, plan.deferred_scans(catalog, unsound))
        results |= _left_out(context, export, tasks)
    wanted = plan.deferred_scans(catalog, group.views)
    subjects = {name: what for scan in wanted for name, what in plan.subjects(scan).items()}
    return _checked(subjects, results, {}, export.snapshot)


def _left_out(context: SparkContext, export: Export, tasks: Sequence[Task]) -> Results:
    """Results for views whose expected rows are unknown: rows are only counted, as left out."""
    if not tasks:
        return {}
    outcomes = context.parallelize(tasks, _slices(context, tasks)).map(partial(scans.run, export))
    outcome: Outcome = outcomes.treeReduce(add)
    return {(one.name, one.range): replace(one, left_out=one.rows) for one in outcome.compared}
