"""Why a plan is as it is: per query, relation, view and join, in frozen reports.

`report` prints them. All costs are in row reads (`cost`), weights as in the workload.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from query.access import Access, Reach, describe_keys
from query.algebra import Block, ForeignKeyJoin
from viewselect.cost import BlockCost, plan_steps
from viewselect.cover import Use, over_views, view_name
from viewselect.outcome import Outcome
from viewselect.workload import EdgeId, ReadBlock, edge_of

if TYPE_CHECKING:
    from viewselect.plan import SelectionPlan

_REACH = {
    Reach.POINT: "one row by",
    Reach.PREFIX: "a prefix of",
    Reach.RANGE: "a range of",
    Reach.SCAN: "all of",
}


@dataclass(frozen=True)
class QueryReport:
    """One read statement. `cost` and `base_cost` (without views, with the indexes it would want)
    are per execution; `reads` says what is read and by what, `uncovered` what joins stay. SELECTs
    that read `deferred` views are in none of these."""

    statement: str
    weight: float
    base_cost: float
    cost: float
    views: tuple[str, ...]
    indexes: tuple[str, ...]
    reads: tuple[str, ...]
    uncovered: tuple[str, ...]
    deferred: tuple[str, ...]


@dataclass(frozen=True)
class RelationReport:
    """Where a relation hangs. `path` runs from the root to it."""

    relation: str
    root: str
    path: tuple[str, ...]
    rows: int
    why: str


@dataclass(frozen=True)
class ViewReport:
    """A view's price and worth. `value` is what the objective would lose without it."""

    name: str
    path: tuple[str, ...]
    rows: int
    size: float
    fan_out: float
    upkeep: float
    value: float
    by_statement: tuple[tuple[str, float], ...]
    serves: tuple[str, ...]
    indexes: tuple[str, ...]


@dataclass(frozen=True)
class IndexReport:
    name: str
    on: str
    columns: tuple[str, ...]
    include: tuple[str, ...]
    purpose: str
    reason: str


@dataclass(frozen=True)
class MethodReport:
    """One method under the plan's options. `joins` are covered by its views, `reachable` by all
    views along its trees, both by weight."""

    method: str
    chosen: bool
    objective: float
    saved: float
    upkeep: float
    size: float
    joins: float
    reachable: float
    trees: tuple[str, ...]
    views: tuple[str, ...]


@dataclass(frozen=True)
class Explanation:
    """Everything there is to say; sizes in bytes. `joins` is the weight of all joins."""

    roots: tuple[str, ...] | None
    budget: float | None
    base_size: float
    joins: float
    methods: tuple[MethodReport, ...]
    relations: tuple[RelationReport, ...]
    views: tuple[ViewReport, ...]
    dropped: tuple[tuple[str, str], ...]
    indexes: tuple[IndexReport, ...]
    queries: tuple[QueryReport, ...]


def explain(plan: SelectionPlan) -> Explanation:
    """Explain a plan; computed when asked for."""
    objective = plan.objective
    return Explanation(
        roots=plan.options.given_roots,
        budget=plan.options.budget,
        base_size=objective.base_size,
        joins=sum(plan.workload.join_weights.values()),
        methods=tuple(_method(plan, outcome) for outcome in plan.outcomes.values()),
        relations=tuple(_relation(plan, name) for name in plan.graph.relations),
        views=tuple(_views(plan)),
        dropped=tuple(_dropped(plan)),
        indexes=tuple(_indexes(plan)),
        queries=tuple(_queries(plan)),
    )


def _method(plan: SelectionPlan, outcome: Outcome) -> MethodReport:
    score = outcome.score
    return MethodReport(
        method=outcome.method,
        chosen=outcome is plan.chosen,
        objective=score.objective,
        saved=score.saved,
        upkeep=score.upkeep,
        size=score.size,
        joins=score.joins,
        reachable=outcome.reachable,
        trees=tuple(f"{e.parent} → {e.child}" for e in outcome.parents.values()),
        views=tuple(str(view) for view in score.views),
    )


# -- relations


def _relation(plan: SelectionPlan, name: str) -> RelationReport:
    path = plan.forest.path(name)
    rows = plan.objective.rows[name]
    return RelationReport(name, path[0], path, rows, _why_there(plan, name))


def _why_there(plan: SelectionPlan, name: str) -> str:
    if name in (plan.options.given_roots or ()):
        return "a given root"
    edge = plan.chosen.parents.get(name)
    if edge is None:
        return _why_no_parent(plan, name)
    if plan.options.method == "paper":
        return f"by {edge.foreign_key.name}: on the heaviest path that the paper's steps allow"
    if not edge.weight:
        return f"by {edge.foreign_key.name}: a delete of {edge.parent} goes down it"
    others = [
        f"{words} {_less(plan.chosen.score.objective - value)}"
        for (relation, key), value in plan.chosen.alternatives.items()
        if relation == name
        for words in [f"by {key} to {_parent(plan, name, key)}" if key else "without parent"]
    ]
    return f"by {edge.foreign_key.name}; others: " + ", ".join(others)


def _less(difference: float) -> str:
    return f"(−{difference:,.0f})" if difference >= 0.5 else "(as good)"


def _parent(plan: SelectionPlan, name: str, key: str) -> str:
    return plan.schema.relation(name).foreign_key(key).parent


def _why_no_parent(plan: SelectionPlan, name: str) -> str:
    edges = plan.graph.into(name)
    if not edges:
        return "references no other relation"
    if not any(edge.weight for edge in edges):
        return "the workload joins it to no relation that it references"
    if plan.options.given_roots is not None and plan.options.method != "paper":
        trees = {*plan.options.given_roots, *plan.chosen.parents}
        if not any(edge.parent in trees for edge in edges):
            return "no relation that it references is in the tree of a given root"
    return "a root: no edge to a relation that it references is worth its upkeep"


# -- views


def _views(plan: SelectionPlan) -> Iterator[ViewReport]:
    score = plan.chosen.score
    for path in score.views:
        view, cost = plan.objective.view(path), score.costs[path]
        without = plan.objective.score({*score.views} - {path})
        serves = dict.fromkeys(
            read.statement
            for read, block in zip(plan.workload.reads, score.blocks, strict=True)
            if any(use.view == path for use in block.uses)
        )
        yield ViewReport(
            view.name, view.path, cost.rows, cost.size, cost.fan_out, cost.upkeep,
            score.objective - without.objective, cost.by_statement, tuple(serves),
            tuple(index.name for index in plan.indexes if index.on == view.name),
        )  # fmt: skip


def _dropped(plan: SelectionPlan) -> Iterator[tuple[str, str]]:
    for item in plan.chosen.selection.dropped:
        worth, size = f"{abs(item.value):,.0f} row reads", size_words(item.size)
        if item.budget:
            reason = f"dropped by the budget: worth {worth} for {size}"
        else:
            reason = f"does not pay: upkeep is {worth} more than it saves beside the others"
        yield str(item.view), reason


def size_words(size: float) -> str:
    """Bytes for people."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:,.1f} TB"


def _indexes(plan: SelectionPlan) -> Iterator[IndexReport]:
    for index in plan.indexes:
        columns = tuple(p.column + (" desc" if p.descending else "") for p in index.columns)
        yield IndexReport(
            index.name, index.on, columns, index.include, index.purpose.value, index.reason
        )


# -- queries


def _queries(plan: SelectionPlan) -> Iterator[QueryReport]:
    by_statement: dict[str, list[tuple[ReadBlock, BlockCost]]] = {}
    for read, block in zip(plan.workload.reads, plan.chosen.score.blocks, strict=True):
        if not read.plain:
            by_statement.setdefault(read.statement, []).append((read, block))
    for statement in plan.workload.statements:
        blocks = by_statement.get(statement.name, [])
        deferred = _deferred(plan, statement.name)
        if not blocks and not deferred:
            continue
        steps = [step for read, block in blocks for step in _steps(plan, read, block)]
        names = [view_name(plan.schema, use.view) for _, b in blocks for use in b.uses]
        used = [s.layout.name for s in steps if s.layout is not s.source]
        yield QueryReport(
            statement=statement.name,
            weight=statement.weight,
            base_cost=sum(plan.objective.block_cost(read, ()).cost for read, _ in blocks),
            cost=sum(block.cost for _, block in blocks),
            views=tuple(dict.fromkeys(names)),
            indexes=tuple(dict.fromkeys(used)),
            reads=tuple(_read_words(step) for step in steps),
            uncovered=tuple(
                dict.fromkeys(why for read, b in blocks for why in _uncovered(plan, read, b))
            ),
            deferred=deferred,
        )


def _deferred(plan: SelectionPlan, statement: str) -> tuple[str, ...]:
    reads = (read for read in plan.workload.deferred if read.statement == statement)
    return tuple(dict.fromkeys(view for read in reads for view in read.views))


def _steps(plan: SelectionPlan, read: ReadBlock, block: BlockCost) -> tuple[Access, ...]:
    views = {use.view: plan.objective.view(use.view) for use in block.uses}
    return plan_steps(plan.catalog, over_views(read.block, block.uses, views))


def _read_words(step: Access) -> str:
    what = step.source.name if step.alias == step.source.name else (
        f"{step.source.name} ({step.alias})")  # fmt: skip
    by = "its key" if step.layout is step.source else f"index {step.layout.name}"
    if step.reach is Reach.SCAN:
        words = f"{what}: {_REACH[step.reach]} {'it' if step.layout is step.source else by}"
    else:
        words = f"{what}: {_REACH[step.reach]} {by}, {describe_keys(step)}"
    words += ", in the wanted order" if step.ordered else ""
    return words + ("" if step.covering else ", then the rows by key")


def _uncovered(plan: SelectionPlan, read: ReadBlock, chosen: BlockCost) -> Iterator[str]:
    """Every join that no view takes out of a block, with the reason."""
    block = read.block
    if len(block.sources) < 2:
        return
    if not block.inner_only:
        yield "its outer, semi or anti joins: such a block is answered from its relations"
        return
    inside = {frozenset(pair) for use in chosen.uses for pair in pairwise(use.aliases)}
    of_keys = {frozenset((join.child, join.parent)) for join in block.fk_joins}
    for join in block.fk_joins:
        if not join.implied and frozenset((join.child, join.parent)) not in inside:
            yield f"{join.parent} → {join.child}: {_why_not(plan, block, join, chosen.uses)}"
    joined = set[str]()
    for equi in block.equi_joins:
        joined |= {equi.left, equi.right}
        if frozenset((equi.left, equi.right)) not in of_keys:
            self_join = block.relation(equi.left) == block.relation(equi.right)
            yield (
                f"{equi.left} ⋈ {equi.right}: {'a self-join' if self_join else 'a join'} "
                "that follows no foreign key"
            )
    for source in block.sources:
        if source.alias not in joined:
            yield f"{source.alias} ({source.relation}): not joined by an equality of an inner join"


def _why_not(plan: SelectionPlan, block: Block, join: ForeignKeyJoin, uses: tuple[Use, ...]) -> str:
    child, edge = block.relation(join.child), edge_of(block, join)
    parent = join.foreign_key.parent
    if child == parent:
        return "a self-reference takes no part in trees"
    chosen = plan.forest.parent.get(child)
    if chosen is None:
        return f"{child} is a root: {_why_there(plan, child)}"
    if chosen != join.foreign_key:
        return _other_edge(plan, edge, parent)
    for dropped in plan.chosen.selection.dropped:
        if edge in dropped.view.edges and set(dropped.view.relations) <= _relations(block):
            reason = "the budget" if dropped.budget else "it does not pay"
            return f"view {dropped.view} was dropped: {reason}"
    taken = [use for use in uses if join.parent in use.aliases or join.child in use.aliases]
    if taken:
        names = ", ".join(str(use.view) for use in taken)
        return f"a tree edge, but views are paths, and {names} holds {join.parent} or {join.child}"
    return "a tree edge, but no kept view holds it"


def _relations(block: Block) -> set[str]:
    return {source.relation for source in block.sources}


def _other_edge(plan: SelectionPlan, edge: EdgeId, parent: str) -> str:
    child, key = edge
    chosen = plan.forest.parent[child]
    value = plan.chosen.alternatives.get(edge)
    because = "" if value is None else (
        f" because that is worth {plan.chosen.score.objective - value:,.0f} row reads more"
    )  # fmt: skip
    words = f"by {chosen.name}" if chosen.parent == parent else f"to {chosen.parent}"
    return f"{key} is not a tree edge: {child} belongs {words}{because}"
