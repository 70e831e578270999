"""Aggregate views for the workload: the candidates, and the blocks that they answer.

A candidate is the SELECT of an aggregate block, generalised (`grouping`), or the SELECT of two of
them that aggregate the same rows. Which blocks it answers is asked of the executor's own rewriting,
so selection and execution agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from sqlglot import exp

from hornbeam_server.query.binding.algebra import Block
from hornbeam_server.query.binding.binder import BoundQuery, bind
from hornbeam_server.query.dialect.functions import is_aggregate
from hornbeam_server.query.optimizer.access_paths import Term, choose, exact
from hornbeam_server.query.optimizer.aggregate_answers import Answer, Names, answer
from hornbeam_server.query.optimizer.aggregate_blocks import (
    AggregateBlock,
    NotAnswered,
    aggregate_block,
    aggregates,
    own_nodes,
)
from hornbeam_server.query.optimizer.rewrite import rewrite
from hornbeam_server.query.optimizer.select_trees import Namer, selects_of
from hornbeam_server.schema.catalog import Catalog, State, WorkloadStatement
from hornbeam_server.schema.errors import HornbeamError
from hornbeam_server.schema.model import DeclaredView, Refresh, Schema
from hornbeam_server.schema.trees import nodes_of, unlink
from hornbeam_server.schema.views import ImmediateView
from hornbeam_server.viewselect.aggregate_cost import groups_of
from hornbeam_server.viewselect.grouping import Grouping, generalised
from hornbeam_server.viewselect.indexes import base_indexes, free_name
from hornbeam_server.viewselect.pricing import readable_catalog
from hornbeam_server.viewselect.watch import Watch
from hornbeam_server.viewselect.workload import ReadBlock

MAX_CANDIDATES = 32
"""Maximum aggregate views that are compared: those of the statements with the greatest weight."""

Define = Callable[[DeclaredView, Catalog], ImmediateView]
"""From a declared view to its storage. Raises SqlError if transactions cannot maintain it."""


@dataclass(frozen=True, eq=False)
class AggregateView:
    """A candidate. `groups` is the estimated number of its rows, `statements` those that it was
    proposed for."""

    view: ImmediateView
    grouping: Grouping
    groups: int
    statements: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.view.name

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Answered:
    """A block over the aggregate view `view`. Among the views that answer a block, the executor
    takes the one with the smallest `rank`."""

    view: ImmediateView
    block: Block
    rank: tuple[float, bool, str]


@dataclass(frozen=True)
class Unanswered:
    """An aggregate block for which there is no candidate, with the reason."""

    statement: str
    reason: str


@dataclass(frozen=True)
class Aggregates:
    """The candidates, and all answers: (number of a read block, name of a view) → answer.
    `declared` are the immediate views that the schema declares. `ends` are the read blocks that one
    row at the end of a key answers."""

    candidates: tuple[AggregateView, ...] = ()
    declared: tuple[ImmediateView, ...] = ()
    answers: Mapping[tuple[int, str], Answered] = field(default_factory=dict)
    unanswered: tuple[Unanswered, ...] = ()
    ends: frozenset[int] = frozenset()

    def best(self, number: int, chosen: Iterable[AggregateView]) -> Answered | None:
        """The answer that the executor takes for a read block, if `chosen` are there besides the
        declared views."""
        names = (*(view.name for view in self.declared), *(view.name for view in chosen))
        found = (self.answers[number, name] for name in names if (number, name) in self.answers)
        return min(found, key=lambda each: each.rank, default=None)


@dataclass(frozen=True)
class AggregateInputs:
    """What the search for aggregate views needs besides schema and workload. `names` is a catalog
    of all names that statements use. `propose`: candidates are wanted. `stored`: the SELECTs of
    chosen views that exist, by name; a candidate with such a SELECT gets that name."""

    names: Catalog
    define: Define
    propose: bool = True
    stored: Mapping[str, str] = field(default_factory=dict)


def find_aggregates(
    statements: Sequence[WorkloadStatement],
    reads: Sequence[ReadBlock],
    inputs: AggregateInputs,
    rows: Mapping[str, int],
    watch: Watch,
) -> Aggregates:
    """The candidates for a workload, and the blocks that they and the declared views answer."""
    return _Search(statements, reads, inputs, rows, watch).run()


@dataclass
class _Statement:
    """A SELECT of the workload, bound. `numbers` maps its blocks to read blocks."""

    name: str
    weight: float
    bound: BoundQuery
    numbers: dict[int, int]
    selects: dict[int, exp.Select]


@dataclass
class _Proposal:
    """A grouping with the statements that propose it."""

    grouping: Grouping
    statements: dict[str, None]


class _Search:
    """The search for aggregate views for one workload."""

    def __init__(
        self,
        statements: Sequence[WorkloadStatement],
        reads: Sequence[ReadBlock],
        inputs: AggregateInputs,
        rows: Mapping[str, int],
        watch: Watch,
    ) -> None:
        self.inputs, self.rows, self.watch = inputs, rows, watch
        self.schema: Schema = inputs.names.schema
        self.indexes = base_indexes(self.schema)
        self.base = readable_catalog(self.schema, rows, (), self.indexes)
        self.declared = tuple(self._declared())
        self.taken = {*self.schema.names, *(index.name for index in self.indexes)}
        self.taken |= {view.name for view in self.schema.views}
        self.statements = tuple(self._bound(statements, reads))
        self.ends = frozenset(self._ends())
        self.answers: dict[tuple[int, str], Answered] = {}
        self.unanswered: list[Unanswered] = []
        self.groupings: dict[tuple[str, int], Grouping] = {}

    def run(self) -> Aggregates:
        try:
            for view in self.declared:
                self._match(view, self._alone(view))
            candidates = tuple(self._candidates()) if self.inputs.propose else ()
            for candidate in candidates:
                self._match(candidate.view, self._alone(candidate.view), candidate.grouping)
            useful = {name for _, name in self.answers}
            for candidate in candidates:
                if candidate.name not in useful:
                    self.unanswered += self._reasons(candidate)
        finally:
            for statement in self.statements:
                unlink(statement.bound.ast)
        return Aggregates(
            tuple(candidate for candidate in candidates if candidate.name in useful),
            self.declared,
            self.answers,
            tuple(dict.fromkeys(self.unanswered)),
            self.ends,
        )

    def _declared(self) -> Iterator[ImmediateView]:
        """The declared immediate views; errors in them are reported when they are applied."""
        for declared in self.schema.views:
            if declared.refresh is Refresh.IMMEDIATE:
                try:
                    yield self.inputs.define(declared, self.base)
                except HornbeamError:
                    continue

    def _alone(self, view: ImmediateView) -> Catalog:
        """A catalog in which `view` is the only immediate view, and readable. Its groups are not
        given, since execution does not count them either when it compares views. Statements may
        still name the other declared views."""
        known = readable_catalog(self.schema, self.rows, (), self.indexes, [view])
        named = tuple(other for other in self.inputs.names.deferred if other.name != view.name)
        states = tuple((other.name, State.READABLE) for other in named)
        return replace(known, deferred=named, states=(*known.states, *states))

    def _bound(
        self, statements: Sequence[WorkloadStatement], reads: Sequence[ReadBlock]
    ) -> Iterator[_Statement]:
        """The SELECTs with an aggregate block over relations."""
        by_name: dict[str, list[ReadBlock]] = {}
        for read in reads:
            if not read.plain:
                by_name.setdefault(read.statement, []).append(read)
        for statement in statements:
            self.watch.check()
            mine = by_name.get(statement.name, [])
            if not mine:
                continue
            bound = bind(statement.sql, self.inputs.names)
            numbers = dict(_numbers(bound, mine, self.schema))
            selects = selects_of(bound.ast)
            if any(aggregates(selects[number]) for number in numbers):
                yield _Statement(statement.name, statement.weight, bound, numbers, selects)
            else:
                unlink(bound.ast)

    def _ends(self) -> Iterator[int]:
        """The read blocks that one row at the end of a key answers."""
        for statement in self.statements:
            for number, read in statement.numbers.items():
                block = statement.bound.statement.blocks[number]
                if _is_end_of_key(block, statement.selects[number], self.base):
                    yield read

    # -- candidates

    def _candidates(self) -> Iterator[AggregateView]:
        """The candidates for the blocks that no declared view answers, heaviest first."""
        proposals = list(_merged(self._proposals()))
        proposals += _merged(_common(proposals))
        if len(proposals) > MAX_CANDIDATES:
            self.watch.cut(f"aggregate views: only {MAX_CANDIDATES} were compared")
        for proposal in proposals[:MAX_CANDIDATES]:
            candidate = self._candidate(proposal)
            if candidate is not None:
                yield candidate

    def _proposals(self) -> Iterator[_Proposal]:
        for statement in sorted(self.statements, key=lambda each: -each.weight):
            for number, read in statement.numbers.items():
                select = statement.selects[number]
                answered = read in self.ends or self._is_answered(read)
                if aggregates(select) and not answered:
                    block = statement.bound.statement.blocks[number]
                    try:
                        found = self._grouping(number, block, select)
                    except NotAnswered as reason:
                        self.unanswered.append(Unanswered(statement.name, str(reason)))
                    else:
                        self.groupings[statement.name, number] = found
                        yield _Proposal(found, {statement.name: None})

    def _is_answered(self, read: int) -> bool:
        return any((read, view.name) in self.answers for view in self.declared)

    def _grouping(self, number: int, block: Block, select: exp.Select) -> Grouping:
        found: AggregateBlock = aggregate_block(number, block, select, self.inputs.names)
        try:
            return generalised(found, self.inputs.names)
        finally:
            unlink(found.select)

    def _candidate(self, proposal: _Proposal) -> AggregateView | None:
        """The view of a proposal, if transactions can maintain it."""
        grouping, statements = proposal.grouping, tuple(proposal.statements)
        sql = grouping.sql()
        known = [name for name, stored in self.inputs.stored.items() if stored == sql]
        name = free_name(known[0] if known else grouping.name(), self.taken)
        try:
            view = self.inputs.define(DeclaredView(name, sql, refresh=Refresh.IMMEDIATE), self.base)
        except HornbeamError as error:
            reason = f"{error.message.rstrip('.')}"
            self.unanswered += [Unanswered(statement, reason) for statement in statements]
            return None
        self.taken.add(name)
        groups = groups_of(grouping, self.schema, self.rows)
        return AggregateView(replace(view, chosen=True), grouping, groups, statements)

    # -- answers

    def _match(
        self, view: ImmediateView, catalog: Catalog, grouping: Grouping | None = None
    ) -> None:
        """Find the blocks that `view` answers, the only immediate view of `catalog`. `grouping` is
        its SELECT, if it is a candidate."""
        for statement in self.statements:
            relations = {s.relation for b in statement.bound.statement.blocks for s in b.sources}
            numbers = [n for n in statement.numbers if self._may_answer(statement, n, grouping)]
            if not numbers or not relations.issuperset(view.relations[:1]):
                continue
            self.watch.spend(len(relations))
            ranks = {
                number: found.cost
                for number, found, _ in _answers(statement, numbers, catalog)
                if found is not None
            }
            if ranks:
                for number, block in _rewritten(statement, catalog):
                    if number in ranks:
                        rank = ranks[number], view.chosen, view.name
                        read = statement.numbers[number]
                        self.answers[read, view.name] = Answered(view, block, rank)

    def _may_answer(self, statement: _Statement, number: int, grouping: Grouping | None) -> bool:
        """May a candidate answer a block? Over the same rows, it must have all groups."""
        own = self.groupings.get((statement.name, number))
        if own is None or grouping is None or own.input != grouping.input:
            return True
        return own.group_set <= grouping.group_set

    def _reasons(self, candidate: AggregateView) -> Iterator[Unanswered]:
        """Why a candidate does not answer the statements that it was proposed for."""
        catalog = self._alone(candidate.view)
        for statement in self.statements:
            if statement.name in candidate.statements:
                for _, _, notes in _answers(statement, statement.numbers, catalog):
                    yield from (Unanswered(statement.name, note) for note in notes)


def _numbers(
    bound: BoundQuery, reads: Sequence[ReadBlock], schema: Schema
) -> Iterator[tuple[int, int]]:
    """Yield (number of a block in its statement, number of the read block)."""
    left = iter(reads)
    for number, block in enumerate(bound.statement.blocks):
        if all(source.relation in schema for source in block.sources):
            yield number, next(left).number


def _is_end_of_key(block: Block, select: exp.Select, catalog: Catalog) -> bool:
    """Is a block a single MIN or MAX of a column whose values a key has in order? Execution then
    reads one row."""
    calls = [n for part in select.expressions for n in own_nodes(part) if is_aggregate(n)]
    if len(calls) != 1 or len(block.sources) != 1 or select.args.get("group"):
        return False
    (call,) = calls
    if not isinstance(call, exp.Min | exp.Max) or "column" not in call.this.meta:
        return False
    term = Term(call.this.meta["column"][2], descending=isinstance(call, exp.Max))
    access = choose(catalog, block, block.sources[0].alias, order=[term], limited=True)
    return access.ordered == 1 and exact(access, block)


def _answers(
    statement: _Statement, numbers: Iterable[int], catalog: Catalog
) -> Iterator[tuple[int, Answer | None, list[str]]]:
    """Yield the blocks `numbers` of a statement, each with its answer over the only immediate view
    of `catalog`, whose SELECT is unlinked, or the reasons why there is none."""
    ctes = frozenset(cte.alias for cte in nodes_of(statement.bound.ast, exp.CTE))
    names = Names(Namer(statement.bound.ast), ctes)
    for number in numbers:
        block = statement.bound.statement.blocks[number]
        found, notes = answer(number, block, statement.selects[number], catalog, names)
        if found is not None:
            unlink(found.select)
        yield number, found, notes


def _rewritten(statement: _Statement, catalog: Catalog) -> Iterator[tuple[int, Block]]:
    """Yield the blocks of a statement that are answered from the only immediate view."""
    found = rewrite(statement.bound, catalog)
    try:
        for use in found.uses:
            for block in found.bound.statement.blocks:
                if any((s.alias, s.relation) == (use.alias, use.view) for s in block.sources):
                    yield use.block, block
    finally:
        if found.bound is not statement.bound:
            unlink(found.bound.ast)


def _merged(proposals: Iterable[_Proposal]) -> Iterator[_Proposal]:
    """One proposal for all with equal joins, filters and grouping columns, with the aggregates of
    all of them."""
    merged: dict[object, _Proposal] = {}
    for each in proposals:
        key = each.grouping.input, each.grouping.group_set
        if key in merged:
            known = merged[key]
            grouping = known.grouping.with_other(each.grouping)
            merged[key] = _Proposal(grouping, known.statements | each.statements)
        else:
            merged[key] = each
    yield from merged.values()


def _common(proposals: Sequence[_Proposal]) -> Iterator[_Proposal]:
    """For each two proposals over the same rows: one that is grouped by the columns of both, unless
    one of the two is."""
    for one, other in combinations(proposals, 2):
        mine, theirs = one.grouping.group_set, other.grouping.group_set
        if one.grouping.input == other.grouping.input and not (mine <= theirs or theirs <= mine):
            grouping = one.grouping.with_other(other.grouping)
            yield _Proposal(grouping, one.statements | other.statements)
