"""`hornbeam load --spark`: load files into empty relations, and build their views and indexes.

1. *Read*: the files are read, and each record is a row or a reject (`pipeline.load.files`). Spark
   sorts the rows. It rejects rows whose primary key, then rows whose UNIQUE value, an earlier row
   has (`pipeline.load.sort_and_check`). Up to here the load changes nothing in the database.
2. *Begin*: the leader creates new tables. From then on no transaction writes to the relations that
   the loaded rows reference.
3. *Write*, relation by relation, parents first: executors put ranges of keys, with the rows of
   views and indexes that derive from them (`pipeline.load.executor`), each range at an export of
   its own. The finished ranges are the only state; the node stores them. Of relations that
   reference one another in a circle, all rows are checked before the first one is written.
4. *Publish*: all rows become visible at once.

So a driver that dies loses some seconds of writing. The next driver reads the files again, and
continues with the missing keys. The load's identity shows that the files are the same, and the same
files give the same rows. The rejects do not depend on the driver either: each is written to the
file of rejects once, before the range that contains it is finished.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import time
from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Protocol

import msgspec
from pyspark.sql import SparkSession

from hornbeam.errors import DatabaseError
from hornbeam.transport import Transport, persistently
from hornbeam_server.maintain.spans import Span, cut
from hornbeam_server.pipeline.build.executor import Failed
from hornbeam_server.pipeline.load.executor import (
    PLACE_BITS,
    Done,
    Rejected,
    Staging,
    Task,
    unique_indexes,
)
from hornbeam_server.pipeline.load.files import File, Split, inspect, lines_of, splits
from hornbeam_server.pipeline.load.rejects import MAX_REJECTS, Reject, Rejects, TooMany
from hornbeam_server.pipeline.load.sort_and_check import Places, Sifted, Sorted, orphans
from hornbeam_server.pipeline.spark.export import Export, begin, begin_when, beside, end
from hornbeam_server.pipeline.spark.session import LOCAL, session
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.codec import decode_catalog
from hornbeam_server.schema.errors import InvalidRequest, NotFound, Unavailable
from hornbeam_server.schema.graph import components, parents, topological_order
from hornbeam_server.schema.model import Relation

ATTEMPTS = 3
"""Attempts in all for a range that fails."""
SIDE_BY_SIDE = 4
"""Maximum number of relations read and sorted in parallel: a small one does not fill all cores."""
TIMEOUT_S = 600.0
REGION_BYTES = 256 << 20
MAX_REGIONS = 64
"""New tables are pre-split into regions of about REGION_BYTES, at most MAX_REGIONS of them, so that
parallel writers use different regions."""
Progress = Callable[[int, int | None], None]
"""Called with the rows written, including those of earlier runs, and the rows in all (None: not
known yet)."""


class Load(msgspec.Struct, frozen=True):
    """A load, as `/v1/loads` answers it."""

    relations: list[str]
    identity: str
    number: int
    missing: dict[str, list[tuple[str, str | None]]]
    rows: dict[str, int]

    def spans(self, relation: str) -> list[Span]:
        """The ranges of keys of a relation that are not written yet."""
        return [
            Span(bytes.fromhex(start), None if end is None else bytes.fromhex(end))
            for start, end in self.missing.get(relation, ())
        ]


class _Loads(msgspec.Struct, frozen=True):
    load: Load | None


@dataclass(frozen=True)
class Input:
    """Files of one relation. Of two rows with the same key the one in the earlier file is
    loaded."""

    relation: Relation
    files: tuple[File, ...]
    splits: tuple[tuple[int, Split], ...]

    def places(self, origins: Iterable[int]) -> Places:
        """The file and line of each record, by its origin."""
        by_file: dict[int, list[int]] = {}
        for origin in origins:
            by_file.setdefault(origin >> PLACE_BITS, []).append(origin & (1 << PLACE_BITS) - 1)
        return {
            number << PLACE_BITS | place: (self.files[number].path, line)
            for number, places in by_file.items()
            for place, line in lines_of(
                self.files[number], [s for n, s in self.splits if n == number], places
            ).items()
        }


@dataclass(frozen=True)
class Plan:
    """The relations to load, parents first, with their files. `catalog` is encoded. The relations
    of each of the `circles` reference one another, and stand beside each other."""

    catalog: str
    inputs: tuple[Input, ...]
    digest: str
    circles: tuple[frozenset[str], ...] = ()

    @property
    def names(self) -> list[str]:
        return [each.relation.name for each in self.inputs]

    def together(self, relation: str) -> frozenset[str]:
        """The relation, and the relations of its circle that are loaded, too."""
        return next((c for c in self.circles if relation in c), frozenset({relation}))

    def require_same(self, catalog: Catalog) -> None:
        """Check that columns and UNIQUE indexes are those that the files were read for. Once the
        load has begun they cannot change. Raises InvalidRequest."""
        planned = decode_catalog(self.catalog.encode())
        for name in self.names:
            same = planned.schema.relation(name) == catalog.schema.relation(name)
            if not same or unique_indexes(planned, name) != unique_indexes(catalog, name):
                raise InvalidRequest(
                    f"The schema of {name} was changed while its files were read.",
                    cure="Give this load up, and begin it again: hornbeam load --cancel.",
                )


@dataclass(frozen=True, slots=True)
class Report:
    """Result of a load. By relation: `rows` were written by this run, `there` by an earlier run."""

    rows: dict[str, int]
    there: dict[str, int]
    rejected: dict[str, int]
    version: int
    seconds: float


def load(
    url: str,
    sources: Mapping[str, Sequence[str]],
    *,
    master: str = LOCAL,
    rejects: str | None = None,
    max_rejects: int = MAX_REJECTS,
    resume: bool = False,
    single_lines: bool = False,
    progress: Progress = lambda _written, _staged: None,
) -> Report:
    """Load files by relation. Without a file for `rejects` no reject is allowed. `single_lines`: no
    record of CSV spans lines, so CSV files may be split.

    Raises HornbeamError, and the client's errors.
    """
    node = beside(url, TIMEOUT_S)
    try:
        plan = planned(node, sources, single_lines=single_lines)
        with session(master) as spark:
            return Driver(node, url, plan, progress).load(
                spark, rejects, max_rejects, resume=resume
            )
    finally:
        node.close()


def planned(
    node: Transport, sources: Mapping[str, Sequence[str]], *, single_lines: bool = False
) -> Plan:
    """The plan of a load. Inspects the files. Raises NotFound, InvalidRequest, UnknownName."""
    export = persistently(lambda: begin(node))
    try:
        catalog = export.codecs().catalog
        unknown = [name for name in sources if name not in catalog.schema]
        if unknown:
            raise NotFound(
                f"There is no relation {', '.join(unknown)}.",
                cure=f"There are: {', '.join(catalog.schema.names) or 'none'}.",
            )
        groups = _in_order(catalog, sources)
        asyncio.run(_require_empty(export, sources))
    finally:
        end(node, export)
    inputs = [
        _input(catalog.schema.relation(name), sources[name], single_lines)
        for group in groups
        for name in group
    ]
    facts = [
        (each.relation.name, [(file.path, file.size, file.modified_ns) for file in each.files])
        for each in inputs
    ]
    digest = hashlib.sha256(repr((facts, single_lines)).encode()).hexdigest()[:32]
    circles = tuple(frozenset(group) for group in groups if len(group) > 1)
    return Plan(export.catalog, tuple(inputs), digest, circles)


def _in_order(catalog: Catalog, names: Container[str]) -> list[list[str]]:
    """The relations to load, parents first; those of a circle in one group, in an order in which
    all rows of join views find their parents. Raises InvalidRequest if there is no such order."""
    edges = {
        (child, edge.parent)
        for view in catalog.views
        for child, edge in zip(view.path[1:], view.edges, strict=True)
    }
    rank = {name: n for n, name in enumerate(topological_order(catalog.schema, edges))}
    above = {
        name: [parent for parent in of_name if parent in names]
        for name, of_name in parents(catalog.schema).items()
        if name in names
    }
    groups = [sorted(group, key=rank.__getitem__) for group in components(above)]
    order = {name: n for n, name in enumerate(name for group in groups for name in group)}
    for child, parent in edges:
        if child in order and parent in order and order[child] < order[parent]:
            raise InvalidRequest(
                f"Views join {parent} and {child} in both directions of a circle.",
                cure="Load them by transactions: hornbeam load, without --spark.",
            )
    return groups


async def _require_empty(export: Export, names: Iterable[str]) -> None:
    """Check early that the relations are empty. The node checks it, too, but only after all files
    are read. Raises InvalidRequest."""
    store, codecs = export.open(), export.codecs()
    try:
        for name in names:
            rows = store.scan(codecs(name).layout.table, b"", None, export.snapshot, limit=1)
            async for _ in rows:
                raise InvalidRequest(
                    f"{name} has rows: Spark loads relations that are empty.",
                    cure="Append to it by transactions: hornbeam load, without --spark.",
                )
    finally:
        await store.close()


def _input(relation: Relation, paths: Sequence[str], single_lines: bool) -> Input:
    files = tuple(inspect(path, relation) for path in paths)
    parts = (
        (number, split)
        for number, file in enumerate(files)
        for split in splits(file, single_lines=single_lines)
    )
    return Input(relation, files, tuple(parts))


def under_way(node: Transport) -> Load | None:
    """The load that is under way, if any. Raises DatabaseError."""
    return msgspec.convert(persistently(lambda: node.json("GET", "/v1/loads")), _Loads).load


class Rows(Protocol):
    """The rows of a relation in ranges of keys (`pipeline.load.sort_and_check.Sorted`)."""

    count: int
    size: int

    @property
    def ranges(self) -> Sequence[tuple[int | None, Span]]:
        """Ranges that cover all keys, in order, each with the number that `run` takes."""

    def run(self, task: Task, number: int | None) -> Done | Failed:
        """Run a task on a range. Called from several threads, one for each running task."""


@dataclass(frozen=True, slots=True)
class Part:
    """A range of missing keys, and how often writing it has failed."""

    number: int | None
    span: Span
    failed: int = 0


class Driver:
    """Carries out one plan."""

    def __init__(self, node: Transport, url: str, plan: Plan, progress: Progress) -> None:
        self._node = node
        self._url = url
        self._plan = plan
        self._progress = progress
        self._written = 0
        self._rows = dict.fromkeys(plan.names, 0)
        self._staged: int | None = None
        self.identity, self.number = "", 0

    def load(self, spark: SparkSession, path: str | None, most: int, *, resume: bool) -> Report:
        """Run the load from reading to publishing. `most` is the maximum of rejects."""
        began = time.monotonic()
        there = self.identify(resume=resume)
        with Rejects(
            None if path is None else Path(path), most, resume=there is not None
        ) as rejects:
            sifted = [Sifted(spark, self._staging(each)) for each in self._plan.inputs]
            try:
                return self._load(spark, sifted, rejects, there, began)
            except TooMany:  # the load cannot be resumed
                with suppress(DatabaseError):
                    self.cancel()
                raise
            finally:
                for each in sifted:
                    each.close()

    def _load(
        self,
        spark: SparkSession,
        sifted: Sequence[Sifted],
        rejects: Rejects,
        there: Load | None,
        began: float,
    ) -> Report:
        workers = spark.sparkContext.defaultParallelism
        with ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="sort") as pool:
            sorting = [pool.submit(each.sorted, workers) for each in sifted]
        rows: dict[str, Rows] = {
            each.relation.name: self.sift(each, input_, future.result(), rejects)
            for each, input_, future in zip(sifted, self._plan.inputs, sorting, strict=True)
        }
        before = dict(there.rows) if there is not None else {}
        self.begin(rows, before)
        both = zip(sifted, self._plan.inputs, strict=True)
        for _, group in groupby(both, key=lambda e: self._plan.together(e[1].relation.name)):
            members = list(group)
            self._settle(members, rows, rejects, workers)
            for each, input_ in members:
                without = frozenset(each.rejected)
                self.write(input_, rows[input_.relation.name], rejects, workers, without)
        version = self.publish()
        return Report(self._rows, before, rejects.counts, version, time.monotonic() - began)

    # ------------------------------------------------------------ reading

    def identify(self, *, resume: bool) -> Load | None:
        """The load to resume; None: no load is under way. Raises InvalidRequest.

        A resumed load uses the time of its first run for DEFAULT CURRENT_TIMESTAMP.
        """
        there = under_way(self._node)
        if there is None:
            now = dt.datetime.now(dt.UTC).replace(microsecond=0)
            self.identity = f"{self._plan.digest} {now.isoformat()}"
            return None
        if there.identity.split(" ")[0] != self._plan.digest:
            raise InvalidRequest(
                f"A load of {', '.join(there.relations)} is under way, of other files or with other"
                " options.",
                cure="Go on with that one, or give it up: hornbeam load --cancel.",
            )
        if not resume:
            raise InvalidRequest(
                "This load was begun before, and is not complete.",
                cure="Go on with --resume, or give it up: hornbeam load --cancel.",
            )
        self.identity = there.identity
        return there

    def _staging(self, each: Input) -> Staging:
        current_timestamp = dt.datetime.fromisoformat(self.identity.split(" ")[1])
        name, catalog = each.relation.name, self._plan.catalog
        return Staging(catalog, name, self._plan.together(name), each.splits, current_timestamp)

    def sift(self, sifted: Sifted, each: Input, rows: Sorted, rejects: Rejects) -> Rows:
        """Reject bad records that are found without other relations. Raises InvalidRequest."""
        self._reject(each, rejects, sifted.unreadable(rejects.most))
        for found in sifted.doubled(rows, rejects.most, each.places):
            self._reject(each, rejects, found)
            rows.count -= len(found)
        return rows

    def _reject(self, each: Input, rejects: Rejects, found: Sequence[Rejected]) -> None:
        """Write rejects to the file of rejects. Raises InvalidRequest when they are too many."""
        places = each.places(rejected.origin for rejected in found)
        rejects.add(
            Reject(each.relation.name, *places[origin], code, reason, record)
            for origin, code, reason, record in found
        )

    # ------------------------------------------------------------ writing

    def begin(self, rows: Mapping[str, Rows], before: Mapping[str, int]) -> None:
        """Begin the load at the node, which creates its tables if they do not exist. Raises
        DatabaseError."""
        splits = {
            name: [span.start.hex() for span in evenly([s for _, s in each.ranges], each.size)]
            for name, each in rows.items()
        }
        body = {"relations": self._plan.names, "identity": self.identity, "splits": splits}
        answer = persistently(lambda: self._node.json("POST", "/v1/loads", body))
        self.number = int(answer["load"]["number"])
        self._written = sum(before.values())
        self._staged = sum(each.count for each in rows.values())
        self._progress(self._written, self._staged)

    def _settle(
        self,
        group: Sequence[tuple[Sifted, Input]],
        rows: Mapping[str, Rows],
        rejects: Rejects,
        workers: int,
    ) -> None:
        """Reject the rows that lack a parent in any relation, of a relation that references itself
        or of relations in a circle. All of them must be known before a row is written: other rows
        may reference them."""
        if not any(sifted.references for sifted, _ in group):
            return
        for sifted, each in group:
            without, of = frozenset(sifted.rejected), rows[each.relation.name]
            parts = [Part(number, span) for number, span in of.ranges]
            checked = self._done(each, of, rejects, workers, parts, without, checks_only=True)
            for _, done in checked:
                sifted.rejected.update(rejected.origin for rejected in done.rejected)
        inputs = {each.relation.name: each for _, each in group}
        for sifted, found in orphans([sifted for sifted, _ in group], rejects.most):
            self._reject(inputs[sifted.relation.name], rejects, found)

    def write(
        self,
        each: Input,
        rows: Rows,
        rejects: Rejects,
        workers: int,
        without: frozenset[int] = frozenset(),
    ) -> None:
        """Write the missing ranges of a relation. Raises InvalidRequest, NotFound when the load was
        cancelled, Unavailable when a range fails ATTEMPTS times, and the client's errors."""
        name = each.relation.name
        missing = self._under_way().spans(name)
        parts = [
            Part(number, piece) for number, span in rows.ranges for piece in common(span, missing)
        ]
        for part, done in self._done(each, rows, rejects, workers, parts, without):
            if done.rejected and len(self._plan.together(name)) > 1:
                raise InvalidRequest(
                    f"{done.rejected[0].reason} Rows of its circle, which may reference it, are"
                    " written already.",
                    cure="Give this load up (hornbeam load --cancel), and leave the row out.",
                )
            self._finished(name, part.span, done)

    def _done(
        self,
        each: Input,
        rows: Rows,
        rejects: Rejects,
        workers: int,
        parts: Sequence[Part],
        without: frozenset[int] = frozenset(),
        *,
        checks_only: bool = False,
    ) -> Iterable[tuple[Part, Done]]:
        """Run all parts, `workers` at a time, and write their rejects to the file of rejects."""
        waiting = deque(parts)
        running: dict[Future[Done | Failed], tuple[Part, Export]] = {}
        pool = ThreadPoolExecutor(workers, thread_name_prefix="range")

        def begin_more() -> None:
            while waiting and len(running) < workers:
                part = waiting.popleft()
                export = self._export()
                task = Task(
                    export,
                    self._url,
                    each.relation.name,
                    self._plan.together(each.relation.name),
                    part.span,
                    without,
                    rejects.most,
                    checks_only,
                )
                running[pool.submit(rows.run, task, part.number)] = (part, export)

        try:
            while waiting or running:
                begin_more()
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    part, export = running.pop(future)
                    end(self._node, export)
                    done = future.result()
                    if isinstance(done, Failed):
                        waiting.appendleft(self._again(part, done))
                        continue
                    self._reject(each, rejects, done.rejected)
                    begin_more()  # before the yield: the caller may take long
                    yield part, done
        finally:
            # Exports of running tasks are left to expire: executors still read them.
            pool.shutdown(wait=False, cancel_futures=True)

    def _again(self, part: Part, failed: Failed) -> Part:
        self._under_way()
        if part.failed + 1 == ATTEMPTS:
            raise Unavailable(
                failed.message, cure="What is finished is kept: try again with --resume."
            )
        return replace(part, failed=part.failed + 1)

    def _export(self) -> Export:
        """An export whose catalog contains this load. Raises Unavailable if no node has that
        catalog for too long."""
        return begin_when(self._node, self._is_ours, self._under_way)

    def _is_ours(self, export: Export) -> bool:
        catalog = export.codecs().catalog
        if catalog.load is None or catalog.load.identity != self.identity:
            return False
        self._plan.require_same(catalog)
        return True

    def _under_way(self) -> Load:
        """The load, as the node has it. Raises NotFound when it is not under way any more."""
        found = under_way(self._node)
        if found is None or found.identity != self.identity:
            raise NotFound(
                "This load is not under way any more: it was cancelled, or another process ended"
                " it.",
                cure="Look whether its rows are there. If not, load again, without --resume.",
            )
        return found

    def _finished(self, relation: str, span: Span, done: Done) -> None:
        """Report a finished range to the node, which stores it."""
        body = {
            "number": self.number,
            "relation": relation,
            "start": span.start.hex(),
            "end": None if span.end is None else span.end.hex(),
            "rows": done.rows,
            "numbers": done.numbers,
        }
        persistently(lambda: self._node.json("POST", "/v1/loads/finished", body))
        self._rows[relation] += done.rows
        self._written += done.rows
        self._progress(self._written, self._staged)

    def publish(self) -> int:
        """Publish the rows. Returns the version of the catalog that has them. Raises
        DatabaseError."""
        body = {"number": self.number}
        answer = persistently(lambda: self._node.json("POST", "/v1/loads/publish", body))
        return int(answer["version"])

    def cancel(self) -> None:
        """Cancel this load, if it is under way."""
        there = under_way(self._node)
        if there is not None and there.identity == self.identity:
            persistently(lambda: self._node.json("DELETE", "/v1/loads"))


def common(span: Span, missing: Sequence[Span]) -> list[Span]:
    """The parts of `span` that are in `missing`."""
    inside = cut(missing, [key for key in span if key is not None])
    return [s for s in inside if s.start >= span.start and (span.end is None or s.start < span.end)]


def evenly(spans: Sequence[Span], size: int) -> list[Span]:
    """The spans at whose starts a table of `size` bytes is pre-split."""
    wanted = min(size // REGION_BYTES, MAX_REGIONS - 1, len(spans) - 1)
    return [spans[len(spans) * i // (wanted + 1)] for i in range(1, wanted + 1)]
