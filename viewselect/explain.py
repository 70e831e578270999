"""Explanation of a plan, per query, relation, view and join, as frozen reports.

`report` prints them. Costs are in row reads (`cost`); weights are the workload's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from hornbeam_server.query.binding.algebra import Block, ForeignKeyJoin
from hornbeam_server.query.optimizer.access_paths import Access, Reach, describe_keys
from hornbeam_server.viewselect.aggregates import AggregateView
from hornbeam_server.viewselect.cost import BlockCost, Choice, ViewCost
from hornbeam_server.viewselect.cover import Use, over_views, view_name
from hornbeam_server.viewselect.explanation import (
    BesidesReport,
    Explanation,
    IndexReport,
    MethodReport,
    QueryReport,
    RelationReport,
    ViewReport,
)
from hornbeam_server.viewselect.outcome import Outcome
from hornbeam_server.viewselect.pricing import plan_steps
from hornbeam_server.viewselect.statistics import FAN_OUT, ROOT_ROWS
from hornbeam_server.viewselect.workload import EdgeId, ReadBlock, edge_of

if TYPE_CHECKING:
    from hornbeam_server.viewselect.plan import SelectionPlan

_REACH = {
    Reach.POINT: "one row by",
    Reach.PREFIX: "a prefix of",
    Reach.RANGE: "a range of",
    Reach.SCAN: "all of",
}


NOTE = (
    f"Rows that are neither counted nor given are assumed: {ROOT_ROWS:,} of a relation that"
    f" references nothing, {FAN_OUT} for each row of the largest relation that one references."
    " Sizes, costs and choices rest on them. Give the rows that are expected (--rows"
    " RELATION=NUMBER, row_counts in REST), or plan again when there are rows."
)


def explain(plan: SelectionPlan) -> Explanation:
    """Explain a plan. This scores further sets of views, so it takes time."""
    objective = plan.objective
    assumed = _assumed(plan, plan.graph.relations)
    values = _values(plan)
    return Explanation(
        roots=plan.options.given_roots,
        budget=plan.options.budget,
        base_size=objective.base_size,
        joins=sum(plan.workload.join_weights.values()),
        methods=tuple(_method(plan, outcome) for outcome in plan.outcomes.values()),
        besides=tuple(_besides(plan)),
        relations=tuple(_relation(plan, name) for name in plan.graph.relations),
        views=(*_views(plan, values), *_aggregates(plan, values)),
        dropped=tuple(_dropped(plan)),
        indexes=tuple(_indexes(plan)),
        queries=tuple(_queries(plan)),
        cut=objective.watch.cuts,
        notes=plan.schema.notes,
        assumed=assumed,
        note=NOTE if assumed else "",
    )


def _method(plan: SelectionPlan, outcome: Outcome) -> MethodReport:
    score = outcome.score
    reads = sum(weight for weight, *_ in plan.objective.by_statement(score.blocks))
    writes = sum(write.weight for write in plan.workload.writes)
    return MethodReport(
        method=outcome.method,
        chosen=outcome is plan.chosen,
        objective=score.objective,
        faster=math.exp(score.gain / max(reads, 1e-9)),
        slower=math.expm1(score.loss / max(writes, 1e-9)),
        saved=score.saved,
        upkeep=score.upkeep,
        size=score.size,
        joins=score.joins,
        reachable=outcome.reachable,
        trees=tuple(f"{e.parent} → {e.child}" for e in outcome.parents.values()),
        views=tuple(str(view) for view in score.choices),
    )


def _besides(plan: SelectionPlan) -> Iterator[BesidesReport]:
    """The reads that the other method serves at a lower cost, and the price of serving them."""
    if plan.objective.watch.spent:
        plan.objective.watch.cut("what the other method serves besides: its price was not computed")
        return
    score = plan.chosen.score
    (other,) = (outcome.score for outcome in plan.outcomes.values() if outcome is not plan.chosen)
    found: dict[str, list[tuple[BlockCost, BlockCost]]] = {}
    for read, mine, theirs in zip(plan.workload.reads, score.blocks, other.blocks, strict=True):
        if not read.plain:
            found.setdefault(read.statement, []).append((mine, theirs))
    for statement, blocks in found.items():
        plan_cost, cost = (sum(each.cost for each in side) for side in zip(*blocks, strict=True))
        lacking = {use.view for _, theirs in blocks for use in theirs.uses} - {*score.views}
        if cost < plan_cost and lacking:
            more = plan.objective.score({*score.choices, *lacking})
            yield BesidesReport(
                statement, plan_cost, cost,
                tuple(sorted(view_name(plan.schema, view) for view in lacking)),
                more.upkeep - score.upkeep, more.objective - score.objective,
            )  # fmt: skip


def _assumed(plan: SelectionPlan, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in names if plan.statistics.origin(name) == "assumed")


# -- relations


def _relation(plan: SelectionPlan, name: str) -> RelationReport:
    path = plan.forest.path(name)
    rows = plan.objective.rows[name]
    origin = plan.statistics.origin(name)
    return RelationReport(name, path[0], path, rows, _why_there(plan, name), origin)


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
    return f"by {edge.foreign_key.name}" + ("; others: " if others else "") + ", ".join(others)


def _less(difference: float) -> str:
    return f"(−{difference:,.2f})" if difference >= 0.005 else "(as good)"


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
    return "no edge to a relation that it references is worth its upkeep"


# -- views


def _views(plan: SelectionPlan, values: Mapping[Choice, float]) -> Iterator[ViewReport]:
    score = plan.chosen.score
    for path in score.views:
        view, cost = plan.objective.view(path), score.costs[path]
        serves = dict.fromkeys(
            read.statement
            for read, block in zip(plan.workload.reads, score.blocks, strict=True)
            if any(use.view == path for use in block.uses)
        )
        yield ViewReport(
            view.name, view.path, cost.rows, cost.size, cost.fan_out, cost.upkeep,
            values[path], _upkeep(plan, cost), tuple(serves),
            tuple(index.name for index in plan.indexes if index.on == view.name),
            _assumed(plan, view.path),
        )  # fmt: skip


def _aggregates(plan: SelectionPlan, values: Mapping[Choice, float]) -> Iterator[ViewReport]:
    score = plan.chosen.score
    for view in score.aggregates:
        cost = score.costs[view]
        serves = dict.fromkeys(
            read.statement
            for read, block in zip(plan.workload.reads, score.blocks, strict=True)
            if block.answered is not None and block.answered.view.name == view.name
        )
        yield ViewReport(
            view.name, view.view.relations, cost.rows, cost.size, cost.fan_out, cost.upkeep,
            values[view], _upkeep(plan, cost), tuple(serves), (),
            _assumed(plan, view.view.relations), view.view.declared.sql,
        )  # fmt: skip


def _upkeep(plan: SelectionPlan, cost: ViewCost) -> tuple[tuple[str, float], ...]:
    """The upkeep of a view by write statement."""
    found: dict[str, float] = {}
    for write, part in zip(plan.workload.writes, cost.by_write, strict=True):
        if part:
            found[write.statement] = found.get(write.statement, 0.0) + part
    return tuple(found.items())


def _values(plan: SelectionPlan) -> Mapping[Choice, float]:
    """The loss of the objective without each view; an estimate if the search was cut."""
    score = plan.chosen.score
    if plan.objective.watch.spent:
        plan.objective.watch.cut("values of views: each is its part in what its queries save")
        return plan.objective.worth(score)
    without = {view: plan.objective.score({*score.choices} - {view}) for view in score.choices}
    return {view: score.objective - other.objective for view, other in without.items()}


def _dropped(plan: SelectionPlan) -> Iterator[tuple[str, str]]:
    for item in plan.chosen.selection.dropped:
        worth, size = f"{abs(item.value):,.2f}", size_words(item.size)
        if item.budget:
            reason = f"dropped by the budget: worth {worth} for {size}"
        else:
            reason = f"does not pay: slower writes count {worth} more than faster reads"
        yield str(item.view), reason


def size_words(size: float) -> str:
    """A number of bytes with a readable unit (decimal)."""
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
        steps = [s for read, block in blocks for s in _steps(plan, read, block)]
        names = [view_name(plan.schema, use.view) for _, b in blocks for use in b.uses]
        names += [b.answered.view.name for _, b in blocks if b.answered is not None]
        used = [s.layout.name for s in steps if s.layout is not s.source]
        yield QueryReport(
            statement=statement.name,
            weight=statement.weight,
            base_cost=sum(plan.objective.base_cost(read).cost for read, _ in blocks),
            cost=sum(block.cost for _, block in blocks),
            views=tuple(dict.fromkeys(names)),
            indexes=tuple(dict.fromkeys(used)),
            reads=tuple(words for read, block in blocks for words in _reads(plan, read, block)),
            uncovered=tuple(
                dict.fromkeys(why for read, b in blocks for why in _uncovered(plan, read, b))
            ),
            aggregates=tuple(dict.fromkeys(_unanswered(plan, statement.name, blocks))),
            deferred=deferred,
        )


def _unanswered(
    plan: SelectionPlan, statement: str, blocks: Iterable[tuple[ReadBlock, BlockCost]]
) -> Iterator[str]:
    """Why no view answers the aggregate blocks of a statement."""
    found = plan.objective.aggregates
    for reason in found.unanswered:
        if reason.statement == statement:
            yield reason.reason
    for dropped in plan.chosen.selection.dropped:
        if not isinstance(dropped.view, AggregateView):
            continue
        name = dropped.view.name
        if any(b.answered is None and (r.number, name) in found.answers for r, b in blocks):
            why = "the budget" if dropped.budget else "it does not pay"
            yield f"view {name} was dropped: {why}"


def _deferred(plan: SelectionPlan, statement: str) -> tuple[str, ...]:
    reads = (read for read in plan.workload.deferred if read.statement == statement)
    return tuple(dict.fromkeys(view for read in reads for view in read.views))


def _reads(plan: SelectionPlan, read: ReadBlock, block: BlockCost) -> Iterator[str]:
    if read.number in plan.objective.aggregates.ends and block.answered is None:
        (source,) = read.block.sources
        yield f"{source.relation}: one row at the end of a key"
    else:
        yield from map(_read_words, _steps(plan, read, block))


def _steps(plan: SelectionPlan, read: ReadBlock, block: BlockCost) -> tuple[Access, ...]:
    if block.answered is not None:
        return plan_steps(plan.catalog, block.answered.block)
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
    """Every join of a block that no view covers, with the reason."""
    block = read.block
    if len(block.sources) < 2 or chosen.answered is not None:
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
        view = dropped.view
        if isinstance(view, AggregateView) or edge not in view.edges:
            continue
        if set(view.relations) <= _relations(block):
            reason = "the budget" if dropped.budget else "it does not pay"
            return f"view {view} was dropped: {reason}"
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
        f" because that is worth {plan.chosen.score.objective - value:,.2f} more"
    )  # fmt: skip
    words = f"by {chosen.name}" if chosen.parent == parent else f"to {chosen.parent}"
    return f"{key} is not a tree edge: {child} belongs {words}{because}"
