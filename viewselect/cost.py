"""The objective of view selection: savings of the workload's queries minus the views' upkeep.

The unit is *row reads per unit of workload*, the unit of `query/optimizer/access_paths.py`. Its
planner also computes the costs of queries, with and without views, each with the best indexes for
their filters. So selection and the executor agree on costs. A block's cost is multiplied by its
statement's weight. Upkeep is update frequency × fan-out × cost per view row, for the view's rows
and the rows of its view-indexes. Storage is in bytes, and breaks ties.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from hornbeam_server.query.binding.algebra import Block, StatementKind
from hornbeam_server.query.optimizer.access_paths import GET_COST, SEEK_COST, Access, Reach, Term
from hornbeam_server.query.optimizer.cover import MAX_CANDIDATES
from hornbeam_server.query.optimizer.join_order import KnownPaths, order_joins
from hornbeam_server.schema.catalog import Catalog, Forest, Index, JoinView, Layout, State
from hornbeam_server.schema.graph import topological_order
from hornbeam_server.schema.model import Column, KeyPart, Relation, Schema
from hornbeam_server.schema.types import Kind
from hornbeam_server.viewselect.cover import (
    Use,
    ViewPath,
    best_cover,
    join_view,
    occurrences,
    over_views,
)
from hornbeam_server.viewselect.indexes import (
    Wanted,
    base_indexes,
    maintenance_indexes,
    shared,
    wanted_indexes,
)
from hornbeam_server.viewselect.watch import Watch
from hornbeam_server.viewselect.workload import ReadBlock, Workload, Write

WRITE_COST = 4.0
"""Cost of writing one row, including its share of the log, in scanned rows."""
ROUND_COST = 20.0
"""Cost of one round trip to the store, for any number of rows, in scanned rows. Every source of a
query, and every level of a path that upkeep reads, takes one. It is a batch of awaits on the
embedded store, and an RPC over HBase."""
HIDDEN_SHARE = 0.1
"""Share of a block's cost that counts when WHERE has conditions besides its filters (a subquery,
OR): the executor may use them, but they cannot be priced here."""
MIN_GAIN = 0.1
"""Minimum share of a block's cost that one more index must save."""
MAX_TRIED = 8
"""Maximum relations of a block whose indexes are tried one by one: the number of plans grows with
the square of the relations. For a larger block, all indexes are chosen at once."""
ROOT_ROWS = 1_000
"""Assumed rows of a relation that references nothing."""
FAN_OUT = 10
"""Assumed rows of a relation per row of its largest parent (1 if the foreign key is the primary
key)."""

_BYTES = {
    Kind.INTEGER: 5, Kind.BIGINT: 9, Kind.DECIMAL: 8, Kind.DOUBLE: 9, Kind.BOOLEAN: 1,
    Kind.BYTES: 64, Kind.DATE: 6, Kind.TIMESTAMP: 10, Kind.TIMESTAMPTZ: 10, Kind.UUID: 17,
    Kind.JSON: 128,
}  # fmt: skip
_ROW_OVERHEAD = 24
"""Format byte, array header, timestamp, table id: bytes per stored row."""


@dataclass(frozen=True)
class Statistics:
    """Statistics of the data. Missing row counts default to ROOT_ROWS, or FAN_OUT × the rows of the
    largest parent. Missing bytes follow from the column types; a text counts as half its maximum
    length (at most 64 bytes). `expected`: relations whose row counts the caller has given."""

    row_counts: Mapping[str, int] = field(default_factory=dict)
    row_bytes: Mapping[str, float] = field(default_factory=dict)
    expected: frozenset[str] = frozenset()

    def rows(self, schema: Schema) -> dict[str, int]:
        """Rows of every relation."""
        found: dict[str, int] = {}
        for name in topological_order(schema):
            guess = _guessed_rows(schema.relation(name), found)
            found[name] = max(1, self.row_counts.get(name, guess))
        return found

    def origin(self, name: str) -> Literal["counted", "given", "assumed"]:
        """The origin of a relation's row count."""
        if name in self.expected:
            return "given"
        return "counted" if name in self.row_counts else "assumed"

    def bytes_of(self, schema: Schema, relation: str) -> float:
        """Average bytes of a stored row."""
        guess = _ROW_OVERHEAD + sum(map(column_bytes, schema.relation(relation).columns))
        return float(self.row_bytes.get(relation, guess))


def _guessed_rows(relation: Relation, known: Mapping[str, int]) -> int:
    keys = [key for key in relation.foreign_keys if key.parent != relation.name]
    if not keys:
        return ROOT_ROWS
    whole = [key for key in keys if set(key.columns) >= set(relation.primary_key)]
    if whole:
        return min(known[key.parent] for key in whole)
    return FAN_OUT * max(known[key.parent] for key in keys)


def column_bytes(column: Column) -> float:
    """Average bytes of a value, by type."""
    if column.type.kind is Kind.TEXT:
        return 2 + min(64.0, (column.type.length or 40) / 2)
    return _BYTES[column.type.kind]


@dataclass(frozen=True)
class BlockCost:
    """A block over views: its cost in row reads per execution, and the indexes that it assumes."""

    uses: tuple[Use, ...]
    cost: float
    indexes: tuple[Wanted, ...]


@dataclass(frozen=True)
class ViewCost:
    """The cost of a view. `upkeep` is in row reads per unit of workload; `fan_out` is view rows per
    row of the topmost relation; `size` is in bytes and includes the view-indexes."""

    rows: int
    size: float
    upkeep: float
    fan_out: float
    by_statement: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Score:
    """The objective of a set of views. `joins` is the weight of the joins that the views cover."""

    views: tuple[ViewPath, ...]
    blocks: tuple[BlockCost, ...]
    costs: Mapping[ViewPath, ViewCost]
    indexes: tuple[Wanted, ...]
    saved: float
    upkeep: float
    size: float
    joins: float

    @property
    def objective(self) -> float:
        return self.saved - self.upkeep

    @property
    def order(self) -> tuple[float, float]:
        """A sort key; greater is better."""
        return round(self.objective, 6), -self.size


class Objective:
    """Scores sets of views, and caches the results."""

    def __init__(
        self,
        schema: Schema,
        workload: Workload,
        statistics: Statistics,
        watch: Watch | None = None,
    ) -> None:
        self.schema, self.statistics = schema, statistics
        self.watch = Watch() if watch is None else watch
        self.rows = statistics.rows(schema)
        self.base = readable_catalog(schema, self.rows, (), base_indexes(schema))
        writes = tuple(replace(w, rows=self._written_rows(w, workload)) for w in workload.writes)
        self.workload = replace(workload, writes=writes)
        self._views: dict[ViewPath, JoinView] = {}
        self._blocks: dict[tuple[int, tuple[Use, ...]], BlockCost] = {}
        self._uses: dict[tuple[int, ViewPath], tuple[Use, ...]] = {}
        self._covers: dict[tuple[int, tuple[ViewPath, ...]], tuple[Use, ...]] = {}
        self._view_costs: dict[tuple[ViewPath, tuple[Wanted, ...]], ViewCost] = {}
        self._scores: dict[frozenset[ViewPath], Score] = {}
        self._reads_of: dict[ViewPath, frozenset[int]] = {}

    @cached_property
    def base_size(self) -> float:
        """Bytes of the base relations, without indexes."""
        names = self.schema.names
        return sum(self.rows[n] * self.statistics.bytes_of(self.schema, n) for n in names)

    @property
    def scored(self) -> int:
        """Number of sets of views scored so far, a measure of the work."""
        return len(self._scores)

    def view(self, path: ViewPath) -> JoinView:
        if path not in self._views:
            self._views[path] = join_view(self.schema, path)
        return self._views[path]

    def score(self, views: Iterable[ViewPath]) -> Score:
        """The score of a set of views; their order does not matter."""
        key = frozenset(views)
        if key not in self._scores:
            self.watch.check()
            ordered = tuple(sorted(key, key=lambda view: (view.relations, view.keys)))
            self._scores[key] = self._score(ordered)
        return self._scores[key]

    def _score(self, views: tuple[ViewPath, ...]) -> Score:
        reads = self.workload.reads
        useful: dict[int, list[ViewPath]] = {}
        for view in views:
            for number in self._useful_for(view):
                useful.setdefault(number, []).append(view)
        blocks = tuple(self._over(read, tuple(useful.get(read.number, ()))) for read in reads)
        indexes = shared(wanted for block in blocks for wanted in block.indexes)
        costs = {view: self._view_cost(view, indexes) for view in views}
        pairs = list(zip(reads, blocks, strict=True))
        return Score(
            views, blocks, costs, indexes,
            saved=sum(r.weight * (self.block_cost(r, ()).cost - b.cost) for r, b in pairs),
            upkeep=sum(cost.upkeep for cost in costs.values()),
            size=sum(cost.size for cost in costs.values()),
            joins=sum(r.weight * (len(u.aliases) - 1) for r, b in pairs for u in b.uses),
        )  # fmt: skip

    def worth(self, score: Score) -> dict[ViewPath, float]:
        """The estimated savings of each view minus its upkeep, without pricing any plan: a block's
        savings are divided among its views in proportion to the joins that they cover."""
        found = {view: -cost.upkeep for view, cost in score.costs.items()}
        for read, block in zip(self.workload.reads, score.blocks, strict=True):
            joins = sum(len(use.aliases) - 1 for use in block.uses)
            for use in block.uses:
                share = (len(use.aliases) - 1) / joins
                saved = self.block_cost(read, ()).cost - block.cost
                found[use.view] += read.weight * saved * share
        return found

    # queries

    def _over(self, read: ReadBlock, useful: tuple[ViewPath, ...]) -> BlockCost:
        """The cost of a block over the best of the views that it could use."""
        key = read.number, useful
        if key not in self._covers:
            uses = [use for view in useful for use in self._occurrences(read, view)]
            if len(uses) > MAX_CANDIDATES:
                self.watch.cut(
                    f"views of SELECTs that could use more than {MAX_CANDIDATES}: only those are "
                    "compared that hold the most joins", read.statement
                )  # fmt: skip
            self._covers[key] = best_cover(uses)
        return self.block_cost(read, self._covers[key])

    def _useful_for(self, view: ViewPath) -> frozenset[int]:
        """Numbers of the blocks that could use a view."""
        if view not in self._reads_of:
            reads = (read for read in self.workload.reads if self._occurrences(read, view))
            self._reads_of[view] = frozenset(read.number for read in reads)
        return self._reads_of[view]

    def _occurrences(self, read: ReadBlock, view: ViewPath) -> tuple[Use, ...]:
        key = read.number, view
        if key not in self._uses:
            self._uses[key] = tuple(occurrences(read, view, self.schema))
        return self._uses[key]

    def block_cost(self, read: ReadBlock, uses: tuple[Use, ...]) -> BlockCost:
        """Cost of one execution of a block, with `uses` of views and the indexes that help it."""
        key = read.number, uses
        if key not in self._blocks:
            self._blocks[key] = self._block_cost(read, uses)
        return self._blocks[key]

    def _block_cost(self, read: ReadBlock, uses: tuple[Use, ...]) -> BlockCost:
        views = {use.view: self.view(use.view) for use in uses}
        block = over_views(read.block, uses, views)
        bare = readable_catalog(self.schema, self.rows, views.values(), self.base.indexes)
        candidates = {
            wanted: wanted.index(bare).name
            for source in block.sources
            for wanted in wanted_indexes(block, source.alias, bare, read.statement)
        }
        known: KnownPaths = {}

        def price(indexes: tuple[Wanted, ...]) -> tuple[float, frozenset[str]]:
            self.watch.spend(len(block.sources))
            steps = plan_steps(_with(bare, indexes), block, known)
            return _cost(block, steps), frozenset(step.layout.name for step in steps)

        choose = _one_by_one
        if len(read.block.sources) > MAX_TRIED:
            choose = _all_at_once
            self.watch.cut(
                f"indexes of SELECTs that read more than {MAX_TRIED} relations: they are chosen "
                "all at once, not one by one", read.statement
            )  # fmt: skip
        cost, chosen = choose(candidates, price)
        return BlockCost(uses, cost, (*chosen, *self._hidden(read, block, uses, bare, chosen)))

    def _hidden(
        self,
        read: ReadBlock,
        block: Block,
        uses: tuple[Use, ...],
        bare: Catalog,
        chosen: tuple[Wanted, ...],
    ) -> Iterator[Wanted]:
        """View-indexes for conditions that cannot be priced (`o_c_id IN (SELECT …)`).

        A view that would be scanned must have the access paths of its base relations: the keys and
        indexes whose first column the block uses outside its joins.
        """
        steps = () if block.conjunctive else plan_steps(_with(bare, chosen), block)
        scanned = {step.alias for step in steps if step.reach is Reach.SCAN}
        joined = {(j.left, column) for j in read.block.equi_joins for column in j.left_columns}
        joined |= {(j.right, column) for j in read.block.equi_joins for column in j.right_columns}
        for use in uses:
            names = self.view(use.view).names
            path = use.view.relations[-len(use.aliases) :]
            for alias, relation in zip(use.aliases, path, strict=True):
                used = read.block.columns.get(alias, frozenset())
                for column in self._leading(relation):
                    if use.alias in scanned and column in used and (alias, column) not in joined:
                        on = self.view(use.view).name
                        part = KeyPart(names[relation, column])
                        yield Wanted(on, (part,), block.columns[use.alias], (read.statement,))

    def _leading(self, relation: str) -> dict[str, None]:
        """First columns of the key and the indexes of a relation."""
        names = (relation, *(index.name for index in self.base.indexes_on(relation)))
        return dict.fromkeys(self.base.layout(name).key[0].column for name in names)

    # upkeep

    def _view_cost(self, path: ViewPath, indexes: Iterable[Wanted]) -> ViewCost:
        name = self.view(path).name
        key = path, tuple(wanted for wanted in indexes if wanted.on == name)
        if key not in self._view_costs:
            self._view_costs[key] = self._new_view_cost(*key)
        return self._view_costs[key]

    def _new_view_cost(self, path: ViewPath, indexes: tuple[Wanted, ...]) -> ViewCost:
        view = self.view(path)
        rows = self.rows[view.last]
        layouts = self._index_layouts(view, indexes)
        row_bytes = sum(self.statistics.bytes_of(self.schema, r) for r in view.path)
        row_bytes += sum(_ROW_OVERHEAD + sum(map(column_bytes, x.columns)) for x in layouts)
        held = [frozenset(layout.column_names) for layout in layouts]
        by_statement: dict[str, float] = {}
        for write in self.workload.writes:
            cost = self._write_cost(view, held, write)
            if cost:
                by_statement[write.statement] = by_statement.get(write.statement, 0.0) + cost
        return ViewCost(
            rows, rows * row_bytes, sum(by_statement.values()), rows / self.rows[view.path[0]],
            tuple(by_statement.items()),
        )  # fmt: skip

    def _index_layouts(self, view: JoinView, wanted: Iterable[Wanted]) -> list[Layout]:
        """View-indexes, and the maintenance indexes needed in addition."""
        catalog = _with(readable_catalog(self.schema, self.rows, [view], ()), wanted)
        upkeep = tuple(maintenance_indexes(view, catalog, self.workload.updates))
        catalog = replace(catalog, indexes=(*catalog.indexes, *upkeep))
        return [catalog.layout(index.name) for index in catalog.indexes]

    def _write_cost(self, view: JoinView, indexes: Sequence[frozenset[str]], write: Write) -> float:
        """Row reads per unit of workload to maintain `view` under one write statement."""
        if write.relation not in view.path:
            return 0.0
        last = write.relation == view.last
        climb = len(view.edges) * (ROUND_COST + GET_COST)
        frequency = write.weight * write.rows
        if write.kind is StatementKind.INSERT:
            return frequency * (climb + WRITE_COST * (1 + len(indexes))) if last else 0.0
        per_row = GET_COST + WRITE_COST * (1 + len(indexes))
        if write.kind is StatementKind.DELETE:
            return write.weight * (ROUND_COST + write.rows * per_row) if last else 0.0
        touched = {view.names[write.relation, column] for column in write.columns}
        per_row = GET_COST + WRITE_COST * (1 + sum(bool(touched & held) for held in indexes))
        if last:
            moved = bool(set(view.edges[-1].columns) & write.columns)
            return write.weight * (ROUND_COST + moved * climb + write.rows * per_row)
        fan_out = self.rows[view.last] / self.rows[write.relation]
        return write.weight * (ROUND_COST + write.rows * (SEEK_COST + fan_out * per_row))

    def _written_rows(self, write: Write, workload: Workload) -> float:
        """Rows that one UPDATE or DELETE touches; an INSERT counts as one row."""
        for read in workload.reads:
            if read.plain and read.statement == write.statement:
                steps = order_joins(self.base, read.block)
                found = [s.rows for s in steps if s.source.name == write.relation]
                return min(found, default=1.0)
        return 1.0


Price = Callable[[tuple[Wanted, ...]], tuple[float, frozenset[str]]]
"""Indexes → the block's cost with them, and the names of the layouts that its plan reads."""


def _one_by_one(candidates: Mapping[Wanted, str], price: Price) -> tuple[float, tuple[Wanted, ...]]:
    """The cost of a block and its indexes, chosen greedily: repeatedly add the index that saves the
    most, as long as it saves enough. `candidates` maps indexes to their names."""
    (cost, _), chosen, left = price(()), tuple[Wanted, ...](), list(candidates)
    while left:
        trials = [(price((*chosen, w))[0], w) for w in left]
        best, wanted = min(trials, key=lambda trial: trial[0])
        if best > cost * (1 - MIN_GAIN):
            break
        cost, chosen = best, (*chosen, wanted)
        left = [w for w in left if w != wanted]
    return cost, chosen


def _all_at_once(
    candidates: Mapping[Wanted, str], price: Price
) -> tuple[float, tuple[Wanted, ...]]:
    """The same for a large block: take the indexes that its plan uses when it has all of them, then
    drop each index that does not save enough."""
    cost, used = price(tuple(candidates))
    chosen = tuple(wanted for wanted, name in candidates.items() if name in used)
    for wanted in chosen:
        fewer = tuple(w for w in chosen if w != wanted)
        without, _ = price(fewer)
        if cost > without * (1 - MIN_GAIN):
            cost, chosen = without, fewer
    return cost, chosen


def plan_steps(
    catalog: Catalog, block: Block, known: KnownPaths | None = None
) -> tuple[Access, ...]:
    """The executor's access paths to the sources of `block`, in the order of its plan."""
    order = tuple((o.alias, Term(o.column, o.descending, o.nulls_first)) for o in block.order)
    limited = block.limit and bool(order)
    return order_joins(catalog, block, order=order, limited=limited, known=known)


def _cost(block: Block, steps: Sequence[Access]) -> float:
    """Row reads of the executor's own plan for `block`."""
    share = 1.0 if block.conjunctive else HIDDEN_SHARE
    return sum(ROUND_COST + share * step.cost for step in steps)


def readable_catalog(
    schema: Schema, rows: Mapping[str, int], views: Iterable[JoinView], indexes: Iterable[Index]
) -> Catalog:
    """A catalog in which every view and index is readable; its version has no meaning."""
    views, indexes = tuple(views), tuple(indexes)
    names = (*(view.name for view in views), *(index.name for index in indexes))
    states = tuple((name, State.READABLE) for name in names)
    return Catalog(
        0, schema, Forest(schema.names), views, indexes, states, row_counts=tuple(rows.items())
    )


def _with(catalog: Catalog, wanted: Iterable[Wanted]) -> Catalog:
    """`catalog` with more indexes; an index that exists already is not added again."""
    made = {i.name: i for w in wanted if (i := w.index(catalog)).name not in catalog.index}
    states = tuple((name, State.READABLE) for name in made)
    return replace(
        catalog,
        indexes=(*catalog.indexes, *made.values()),
        states=(*catalog.states, *states),
    )
