"""The objective of view selection: how much faster reads become, minus how much slower writes do.

A read statement with weight w that costs b without views and c with them counts w × ln(b/c). A
write statement with weight w, own cost b and the upkeep u of all views counts −w × ln((b + u)/b).
So a statement counts by its weight and its factor, however many rows it reads: in a sum of row
reads, one scan outvotes all look-ups. The objective over the sum of the weights is the logarithm of
a geometric mean, that of all statements' factors. TPC-D and TPC-H have a geometric mean as their
power metric for the same reason (decision 53).

Costs are in row reads, the unit of `query/optimizer/access_paths.py`. Its planner also computes the
costs of queries, with and without views, each with the best indexes for their filters. So selection
and the executor agree on costs. Upkeep is update frequency × fan-out × cost per view row, for the
view's rows and the rows of its view-indexes. Storage is in bytes, and breaks ties.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from hornbeam_server.query.binding.algebra import Block, StatementKind
from hornbeam_server.query.optimizer.access_paths import GET_COST, SEEK_COST, Reach
from hornbeam_server.query.optimizer.cover import MAX_CANDIDATES
from hornbeam_server.query.optimizer.join_order import order_joins
from hornbeam_server.schema.catalog import Catalog, Layout
from hornbeam_server.schema.model import KeyPart, Schema
from hornbeam_server.schema.views import JoinView
from hornbeam_server.viewselect.aggregate_cost import size_of, upkeep_of
from hornbeam_server.viewselect.aggregates import (
    AggregateInputs,
    Aggregates,
    AggregateView,
    Answered,
    find_aggregates,
)
from hornbeam_server.viewselect.cover import (
    Use,
    ViewPath,
    best_cover,
    join_view,
    occurrences,
    over_views,
)
from hornbeam_server.viewselect.indexes import Wanted, base_indexes, maintenance_indexes, shared
from hornbeam_server.viewselect.pricing import (
    MAX_TRIED,
    ROUND_COST,
    WRITE_COST,
    best_indexes,
    plan_steps,
    readable_catalog,
    with_indexes,
)
from hornbeam_server.viewselect.statistics import ROW_OVERHEAD, Statistics, column_bytes
from hornbeam_server.viewselect.watch import Watch
from hornbeam_server.viewselect.workload import ReadBlock, Workload, Write
from hornbeam_server.viewselect.writes import own_cost

Choice = ViewPath | AggregateView
"""A candidate: a join view or an aggregate view."""


@dataclass(frozen=True)
class BlockCost:
    """A block over views: its cost in row reads per execution, and the indexes that it assumes.
    `uses` are the join views, `answered` is the aggregate view that it is answered from."""

    uses: tuple[Use, ...]
    cost: float
    indexes: tuple[Wanted, ...]
    answered: Answered | None = None


@dataclass(frozen=True)
class ViewCost:
    """The cost of a view. `upkeep` is in row reads per unit of workload, and `by_write` has it for
    each write of the workload; `fan_out` is view rows per
    row of the topmost relation, of an aggregate view the rows of the fact per group; `size` is in
    bytes and includes the view-indexes."""

    rows: int
    size: float
    upkeep: float
    fan_out: float
    by_write: tuple[float, ...]


@dataclass(frozen=True)
class Score:
    """The objective of a set of views, `gain` − `loss`. `saved` and `upkeep` are in row reads per
    unit of workload. `joins` is the weight of the joins that the views cover."""

    views: tuple[ViewPath, ...]
    aggregates: tuple[AggregateView, ...]
    blocks: tuple[BlockCost, ...]
    costs: Mapping[Choice, ViewCost]
    indexes: tuple[Wanted, ...]
    saved: float
    upkeep: float
    gain: float
    loss: float
    size: float
    joins: float

    @property
    def choices(self) -> tuple[Choice, ...]:
        return (*self.views, *self.aggregates)

    @property
    def objective(self) -> float:
        return self.gain - self.loss

    @property
    def order(self) -> tuple[float, float]:
        """A sort key; greater is better."""
        return round(self.objective, 9), -self.size


class Objective:
    """Scores sets of views, and caches the results."""

    def __init__(
        self,
        schema: Schema,
        workload: Workload,
        statistics: Statistics,
        watch: Watch | None = None,
        inputs: AggregateInputs | None = None,
    ) -> None:
        self.schema, self.statistics = schema, statistics
        self.watch = Watch() if watch is None else watch
        self.rows = statistics.rows(schema)
        self.base = readable_catalog(schema, self.rows, (), base_indexes(schema))
        writes = tuple(replace(w, rows=self._written_rows(w, workload)) for w in workload.writes)
        self.workload = replace(workload, writes=writes)
        self.aggregates = Aggregates()
        if inputs is not None:
            self.aggregates = find_aggregates(
                workload.statements, workload.reads, inputs, self.rows, self.watch
            )
        self._views: dict[ViewPath, JoinView] = {}
        self._blocks: dict[tuple[int, tuple[Use, ...]], BlockCost] = {}
        self._uses: dict[tuple[int, ViewPath], tuple[Use, ...]] = {}
        self._covers: dict[tuple[int, tuple[ViewPath, ...]], tuple[Use, ...]] = {}
        self._answered: dict[tuple[int, str], BlockCost] = {}
        self._view_costs: dict[tuple[ViewPath, tuple[Wanted, ...]], ViewCost] = {}
        self._aggregate_costs: dict[AggregateView, ViewCost] = {}
        self._scores: dict[frozenset[Choice], Score] = {}
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

    def score(self, choices: Iterable[Choice]) -> Score:
        """The score of a set of views; their order does not matter."""
        key = frozenset(choices)
        if key not in self._scores:
            self.watch.check()
            views = [choice for choice in key if isinstance(choice, ViewPath)]
            aggregates = [choice for choice in key if isinstance(choice, AggregateView)]
            self._scores[key] = self._score(
                tuple(sorted(views, key=lambda view: (view.relations, view.keys))),
                tuple(sorted(aggregates, key=lambda view: view.name)),
            )
        return self._scores[key]

    def _score(self, views: tuple[ViewPath, ...], aggregates: tuple[AggregateView, ...]) -> Score:
        reads = self.workload.reads
        useful: dict[int, list[ViewPath]] = {}
        for view in views:
            for number in self._useful_for(view):
                useful.setdefault(number, []).append(view)
        blocks = tuple(
            self._over(read, tuple(useful.get(read.number, ())), aggregates) for read in reads
        )
        indexes = shared(wanted for block in blocks for wanted in block.indexes)
        costs: dict[Choice, ViewCost] = {view: self._view_cost(view, indexes) for view in views}
        costs |= {view: self._aggregate_cost(view) for view in aggregates}
        pairs = list(zip(reads, blocks, strict=True))
        return Score(
            views, aggregates, blocks, costs, indexes,
            saved=sum(r.weight * (self.base_cost(r).cost - b.cost) for r, b in pairs),
            upkeep=sum(cost.upkeep for cost in costs.values()),
            gain=math.fsum(
                weight * math.log(base / cost) for weight, base, cost in self.by_statement(blocks)
            ),
            loss=sum(self._losses(costs.values())),
            size=sum(cost.size for cost in costs.values()),
            joins=sum(r.weight * _joins(r, b) for r, b in pairs),
        )  # fmt: skip

    def by_statement(self, blocks: Sequence[BlockCost]) -> Iterable[tuple[float, float, float]]:
        """For each read statement: its weight, and its cost without chosen views and with
        `blocks`."""
        found: dict[str, tuple[float, float, float]] = {}
        for read, block in zip(self.workload.reads, blocks, strict=True):
            if not read.plain:
                _, base, cost = found.get(read.statement, (0.0, 0.0, 0.0))
                base, cost = base + self.base_cost(read).cost, cost + block.cost
                found[read.statement] = read.weight, base, cost
        return found.values()

    def worth(self, score: Score) -> dict[Choice, float]:
        """The estimated part of each view in the objective, without pricing any plan: what a block
        saves, as a share of its cost without views, is divided among its views in proportion to the
        joins that they cover, and what a write loses in proportion to their upkeep."""
        found = dict.fromkeys(score.costs, 0.0)
        for number, loss in enumerate(self._losses(score.costs.values())):
            upkeep = {view: cost.by_write[number] for view, cost in score.costs.items()}
            for view, part in upkeep.items():
                found[view] -= loss * part / (sum(upkeep.values()) or 1.0)
        of_name = {view.name: view for view in score.aggregates}
        for read, block in zip(self.workload.reads, score.blocks, strict=True):
            saved = read.weight * (1 - block.cost / self.base_cost(read).cost)
            if block.answered is not None and block.answered.view.name in of_name:
                found[of_name[block.answered.view.name]] += saved
            joins = sum(len(use.aliases) - 1 for use in block.uses)
            for use in block.uses:
                found[use.view] += saved * (len(use.aliases) - 1) / joins
        return found

    # queries

    def base_cost(self, read: ReadBlock) -> BlockCost:
        """The cost of a block without chosen views. Declared views are there in any case."""
        return self._over(read, (), ())

    def _over(
        self,
        read: ReadBlock,
        useful: tuple[ViewPath, ...],
        aggregates: tuple[AggregateView, ...],
    ) -> BlockCost:
        """The cost of a block over the best of the views that it could use. As in execution, an
        aggregate view goes before join views."""
        answered = self.aggregates.best(read.number, aggregates)
        if answered is not None:
            return self._answered_cost(read, answered)
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
        if read.number in self.aggregates.ends:
            return BlockCost((), ROUND_COST + SEEK_COST + 1, ())
        views = {use.view: self.view(use.view) for use in uses}
        block = over_views(read.block, uses, views)
        bare = readable_catalog(self.schema, self.rows, views.values(), self.base.indexes)
        cost, chosen = self._priced(read, block, bare)
        return BlockCost(uses, cost, (*chosen, *self._hidden(read, block, uses, bare, chosen)))

    def _answered_cost(self, read: ReadBlock, answered: Answered) -> BlockCost:
        """Cost of one execution of a block that an aggregate view answers."""
        key = read.number, answered.view.name
        if key not in self._answered:
            cost, chosen = self._priced(read, answered.block, self.over_aggregate(answered))
            self._answered[key] = BlockCost((), cost, chosen, answered)
        return self._answered[key]

    def over_aggregate(self, answered: Answered) -> Catalog:
        """A catalog with the view of an answer."""
        groups = {view.name: view.groups for view in self.aggregates.candidates}
        rows = {**self.rows, **groups}
        return readable_catalog(self.schema, rows, (), self.base.indexes, [answered.view])

    def _priced(
        self, read: ReadBlock, block: Block, bare: Catalog
    ) -> tuple[float, tuple[Wanted, ...]]:
        together = len(read.block.sources) > MAX_TRIED
        if together:
            self.watch.cut(
                f"indexes of SELECTs that read more than {MAX_TRIED} relations: they are chosen "
                "all at once, not one by one", read.statement
            )  # fmt: skip
        return best_indexes(block, bare, read.statement, self.watch, together=together)

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
        steps = () if block.conjunctive else plan_steps(with_indexes(bare, chosen), block)
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
        names = (relation, *(index.name for index in self.base.whole_indexes_on(relation)))
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
        row_bytes += sum(ROW_OVERHEAD + sum(map(column_bytes, x.columns)) for x in layouts)
        held = [frozenset(layout.column_names) for layout in layouts]
        costs = [self._write_cost(view, held, write) for write in self.workload.writes]
        fan_out = rows / self.rows[view.path[0]]
        return ViewCost(rows, rows * row_bytes, sum(costs), fan_out, tuple(costs))

    def _losses(self, costs: Iterable[ViewCost]) -> list[float]:
        """What each write of the workload loses in the objective if it maintains all views."""
        upkeep = map(math.fsum, zip(*(cost.by_write for cost in costs), strict=True))
        writes = zip(self.workload.writes, self._own_costs, upkeep, strict=False)
        return [
            write.weight * math.log1p(more / (write.weight * own)) if more else 0.0
            for write, own, more in writes
        ]

    @cached_property
    def _own_costs(self) -> list[float]:
        """The cost of one execution of each write of the workload."""
        found: dict[str, float] = {}
        for read in self.workload.reads:
            if read.plain:
                cost = self.block_cost(read, ()).cost
                found[read.statement] = found.get(read.statement, 0.0) + cost
        return [own_cost(w, found.get(w.statement, 0.0), self.base) for w in self.workload.writes]

    def _aggregate_cost(self, view: AggregateView) -> ViewCost:
        if view not in self._aggregate_costs:
            costs = [
                upkeep_of(view.view, view.grouping, view.groups, self.rows, write)
                for write in self.workload.writes
            ]
            size = size_of(view.view, view.grouping, view.groups, self.schema, self.rows)
            fan_out = self.rows[view.grouping.fact] / view.groups
            self._aggregate_costs[view] = ViewCost(
                view.groups, size, sum(costs), fan_out, tuple(costs)
            )
        return self._aggregate_costs[view]

    def _index_layouts(self, view: JoinView, wanted: Iterable[Wanted]) -> list[Layout]:
        """View-indexes, and the maintenance indexes needed in addition."""
        catalog = with_indexes(readable_catalog(self.schema, self.rows, [view], ()), wanted)
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


def _joins(read: ReadBlock, block: BlockCost) -> int:
    """The number of joins of a block that its views cover."""
    if block.answered is not None:
        return len(read.block.sources) - len(block.answered.block.sources)
    return sum(len(use.aliases) - 1 for use in block.uses)
