"""The entry point: `plan` chooses trees, views and indexes; `SelectionPlan` holds them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from hornbeam_server.query.binding.algebra import BoundStatement
from hornbeam_server.schema.catalog import Catalog, Forest, Index, State, WorkloadStatement
from hornbeam_server.schema.copies import Copy
from hornbeam_server.schema.errors import InvalidRequest
from hornbeam_server.schema.model import Schema
from hornbeam_server.schema.views import ImmediateView, JoinView
from hornbeam_server.viewselect.aggregates import AggregateInputs
from hornbeam_server.viewselect.cost import Objective
from hornbeam_server.viewselect.explain import explain
from hornbeam_server.viewselect.explanation import Explanation
from hornbeam_server.viewselect.forest import ForestSearch
from hornbeam_server.viewselect.graph import Edge, Graph, schema_graph
from hornbeam_server.viewselect.indexes import base_indexes, free_name, maintenance_indexes
from hornbeam_server.viewselect.outcome import Outcome
from hornbeam_server.viewselect.paper import paper_forest
from hornbeam_server.viewselect.picture import forest_mermaid, forest_svg
from hornbeam_server.viewselect.pricing import readable_catalog
from hornbeam_server.viewselect.report import plan_json, plan_summary, plan_text
from hornbeam_server.viewselect.select import (
    Selection,
    choose_aggregates,
    keep_budget,
    select_views,
)
from hornbeam_server.viewselect.statistics import Statistics
from hornbeam_server.viewselect.watch import Watch
from hornbeam_server.viewselect.workload import Workload, read_workload

__all__ = ["PlanOptions", "SelectionPlan", "Statistics", "plan"]


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The administrator's options.

    If `roots` is None, or with `learn_roots`, the plan chooses the roots. `budget` limits the size
    of views and their indexes, as a multiple of the base relations' bytes. `aggregates`: aggregate
    views may be chosen.
    """

    roots: tuple[str, ...] | None = None
    learn_roots: bool = False
    method: str = "optimal"
    budget: float | None = None
    aggregates: bool = True

    @property
    def given_roots(self) -> tuple[str, ...] | None:
        return None if self.learn_roots else self.roots

    def check(self, schema: Schema) -> None:
        """Raise InvalidRequest for an unknown method or root, or an invalid budget."""
        if self.method not in ("optimal", "paper"):
            raise InvalidRequest(
                f"There is no method {self.method!r}.", cure="Choose optimal or paper."
            )
        if self.budget is not None and not (math.isfinite(self.budget) and self.budget >= 0):
            raise InvalidRequest(f"Budget {self.budget} is no size.", cure="Say, 2.0.")
        for root in self.roots or ():
            if root not in schema:
                raise InvalidRequest(
                    f"Root {root} is no relation of the schema.",
                    cure=f"Choose among {', '.join(schema.names)}.",
                )


@dataclass(frozen=True)
class SelectionPlan:
    """The trees, views and indexes for a schema and workload, and the data behind the choice.

    `outcomes` has both methods under the same options; `options.method` is the chosen one.
    """

    schema: Schema
    options: PlanOptions
    statistics: Statistics
    graph: Graph
    objective: Objective
    outcomes: Mapping[str, Outcome]
    forest: Forest
    views: tuple[JoinView, ...]
    aggregates: tuple[ImmediateView, ...]
    indexes: tuple[Index, ...]

    @property
    def chosen(self) -> Outcome:
        return self.outcomes[self.options.method]

    @property
    def workload(self) -> Workload:
        return self.objective.workload

    @cached_property
    def catalog(self) -> Catalog:
        """The catalog as if the plan were built, with the row counts of its cost estimates. For
        explanations only."""
        groups = {view.name: view.groups for view in self.chosen.score.aggregates}
        immediate = (*self.objective.aggregates.declared, *self.aggregates)
        made = readable_catalog(
            self.schema, {**self.objective.rows, **groups}, self.views, self.indexes, immediate
        )
        return replace(made, forest=self.forest)

    @cached_property
    def explanation(self) -> Explanation:
        return explain(self)

    def text(self) -> str:
        """The whole explanation as plain text."""
        return plan_text(self.explanation)

    def summary(self) -> str:
        """Trees, views and the comparison of methods, without queries."""
        return plan_summary(self.explanation)

    def json(self) -> dict[str, Any]:
        """The whole explanation as JSON."""
        return plan_json(self.explanation)

    def svg(self) -> str:
        return forest_svg(self.catalog)

    def mermaid(self) -> str:
        return forest_mermaid(self.catalog)

    def to_catalog(
        self, version: int, base: Catalog | None = None, copies: tuple[Copy, ...] = ()
    ) -> Catalog:
        """The catalog that applies this plan after `base`, with `copies` of relations.

        Join views and indexes that exist in `base` and do not change keep their state and table.
        All others are BUILDING, with an incarnation that their name never had before. If the schema
        has no data, the caller may mark them READABLE. Immediate views are the chosen ones only,
        still without state and incarnation.
        """
        base = base or Catalog(0, Schema(()), Forest(()))
        changed = {copy.relation: copy.changed for copy in copies}
        catalog = Catalog(
            version, self.schema, self.forest, self.views, self.indexes,
            workload=self.workload.statements,
            row_counts=tuple(self._known_rows(base).items()), load=base.load,
            method=self.options.method, budget=self.options.budget,
            immediate=self.aggregates, aggregates=self.options.aggregates, copies=copies,
        )  # fmt: skip
        numbers = dict(base.incarnations)
        states: dict[str, State] = {}
        stored_as = dict(base.stored_as)
        for name in (*self.schema.names, *catalog.view, *catalog.index):
            before = _renamed_from(name, catalog, base)
            if before is not None:
                numbers[name], states[name] = numbers.get(before, 0), base.state[before]
                stored_as[name] = base.stored_name(before)
                continue
            kept = name not in changed and _unchanged(name, catalog, base)
            known = name in numbers or name in base.schema or name in base.state
            numbers[name] = numbers.get(name, 0) + int(known and not kept)
            if name not in self.schema:
                states[name] = base.state[name] if kept else State.BUILDING
            if not kept and name not in self.schema:
                stored_as.pop(name, None)
        return replace(
            catalog,
            states=tuple(states.items()),
            incarnations=tuple(numbers.items()),
            stored_as=tuple(stored_as.items()),
            beginnings=tuple(begun for begun in base.beginnings if begun.cell),
        )

    def _known_rows(self, base: Catalog) -> dict[str, int]:
        """Counted rows of the relations and views that still exist, without assumed rows."""
        names = {*self.schema.names, *(view.name for view in self.views)}
        counted = {**base.row_count, **self.statistics.row_counts}
        return {name: rows for name, rows in counted.items() if name in names}


def _unchanged(name: str, new: Catalog, base: Catalog) -> bool:
    """Do the stored rows of `name` stay unchanged?"""
    if name in new.schema:
        return name in base.schema
    if base.state.get(name) in (None, State.DROPPING):
        return False
    if name in new.view:
        return name in base.view and _joins_alike(name, new, name, base)
    index, before = new.index[name], base.index.get(name)
    if before is None or _source_before(index.on, new, base) != before.on:
        return False
    return _indexed_alike(index, new, before, base)


def _renamed_from(name: str, new: Catalog, base: Catalog) -> str | None:
    """The index or join view of `base` that has the rows of `name`, a new one, under another name
    that no other one needs."""
    if name in new.schema or _unchanged(name, new, base):
        return None
    if name in new.view:
        others = (view for view in base.view if _joins_alike(name, new, view, base))
    else:
        source = _source_before(new.index[name].on, new, base)
        known = () if source is None else base.indexes_on(source)
        others = (i.name for i in known if _indexed_alike(new.index[name], new, i, base))
    return next((other for other in others if _is_free(other, new, base)), None)


def _is_free(name: str, new: Catalog, base: Catalog) -> bool:
    """May the rows of an index or join view of `base` get another name?"""
    if base.state[name] is State.DROPPING:
        return False
    return not (name in new.view or name in new.index) or not _unchanged(name, new, base)


def _source_before(name: str, new: Catalog, base: Catalog) -> str | None:
    """The relation or join view of `base` that has the rows of `name`; None if none has."""
    return name if _unchanged(name, new, base) else _renamed_from(name, new, base)


def _joins_alike(view: str, new: Catalog, before: str, base: Catalog) -> bool:
    """Do the rows of a join view have the same values at the same places as those of the view
    `before` of `base`? The names do not matter."""
    path = new.view[view].path
    if path != base.view[before].path or not all(_unchanged(name, new, base) for name in path):
        return False
    if not {copy.relation for copy in new.copies}.isdisjoint(path):
        return False
    widths, known = ([len(c.schema.relation(n).columns) for n in path] for c in (new, base))
    return widths == known and _joined(new.view[view], new) == _joined(base.view[before], base)


def _joined(view: JoinView, catalog: Catalog) -> list[tuple[list[int], list[int]]]:
    """The places of the columns that each edge of the view equates."""
    return [
        (
            [catalog.schema.relation(child).positions[column] for column in edge.columns],
            [catalog.schema.relation(edge.parent).positions[c] for c in edge.parent_columns],
        )
        for child, edge in zip(view.path[1:], view.edges, strict=True)
    ]


def _indexed_alike(index: Index, new: Catalog, before: Index, base: Catalog) -> bool:
    """Do the rows of an index have the same values?"""
    for copy in new.copies:
        if copy.relation == index.on:
            if copy.moves_key(base.schema.relation(index.on)):
                return False
            # Columns have other places in a copy, and the same names.
            columns = {*(part.column for part in index.columns), *index.include}
            same = replace(before, name=index.name, purpose=index.purpose, reason=index.reason)
            return same == index and index.is_whole and copy.changed.isdisjoint(columns)
    return _indexed(index, new) == _indexed(before, base)


def _indexed(index: Index, catalog: Catalog) -> tuple[object, ...]:
    """An index by the places of its columns in the rows of its source."""
    places = catalog.layout(index.on).positions
    computed = {each.column: (each.sql, each.type) for each in index.expressions}
    parts = [
        (computed.get(part.column) or places[part.column], part.descending)
        for part in index.columns
    ]
    include = [places[column] for column in index.include]
    return index.unique, index.nulls_distinct, parts, include, index.where


def plan(
    schema: Schema,
    workload: Sequence[tuple[WorkloadStatement, BoundStatement]],
    options: PlanOptions,
    statistics: Statistics,
    *,
    base: Catalog | None = None,
    watch: Watch | None = None,
    inputs: AggregateInputs | None = None,
) -> SelectionPlan:
    """Choose trees, views and indexes. Raises InvalidRequest, and StatementTimeout
    when `watch` is stopped.

    Row counts missing in `statistics` are taken from `base`, the current catalog. Without `inputs`,
    no aggregate views are chosen, and declared ones are not considered.
    """
    options.check(schema)
    if base is not None:
        known = {name: rows for name, rows in base.row_count.items() if name in schema}
        statistics = replace(statistics, row_counts={**known, **statistics.row_counts})
    read = read_workload(schema, workload)
    graph = schema_graph(schema, read.join_weights)
    if inputs is not None:
        inputs = replace(inputs, propose=options.aggregates)
    objective = Objective(schema, read, statistics, watch, inputs)
    outcomes = _outcomes(graph, objective, options)
    chosen = outcomes[options.method]
    views = tuple(objective.view(path) for path in chosen.score.views)
    aggregates = tuple(view.view for view in chosen.score.aggregates)
    return SelectionPlan(
        schema, options, statistics, graph, objective, outcomes,
        _forest(graph, chosen.parents), views, aggregates, _indexes(objective, chosen, views),
    )  # fmt: skip


def _outcomes(graph: Graph, objective: Objective, options: PlanOptions) -> dict[str, Outcome]:
    """Run both methods. The paper's method cannot learn roots: without given roots it uses all
    relations that reference nothing. It has no aggregate views."""
    paper = paper_forest(graph, options.roots or ())
    edges = {edge.id for edge in paper.values()}
    literal = Selection(objective.score(select_views(objective.workload, edges)))
    alone = choose_aggregates(objective)
    search = ForestSearch(graph, objective, options.given_roots, alone.score.aggregates)
    best = search.best(paper)
    selection = search.selection(best)
    selection = replace(selection, dropped=(*alone.dropped, *selection.dropped))
    found = {
        "paper": Outcome("paper", paper, literal, _reachable(objective, paper)),
        "optimal": Outcome(
            "optimal", best, selection, _reachable(objective, best),
            _alternatives(search, best),
        ),
    }  # fmt: skip
    if options.budget is None:
        return found
    limit = options.budget * objective.base_size
    return {
        name: replace(outcome, selection=keep_budget(objective, outcome.selection, limit))
        for name, outcome in found.items()
    }


def _reachable(objective: Objective, parents: Mapping[str, Edge]) -> float:
    """Weight of the joins that the trees' views could cover, regardless of their upkeep."""
    edges = {edge.id for edge in parents.values()}
    return objective.score(select_views(objective.workload, edges)).joins


def _alternatives(
    search: ForestSearch, parents: Mapping[str, Edge]
) -> dict[tuple[str, str | None], float]:
    """(relation, foreign key or None) → the objective if that were the relation's tree edge."""
    if search.objective.watch.spent:
        search.objective.watch.cut("reasons: what other trees would be worth was not computed")
        return {}
    return {
        (relation, edge.foreign_key.name if edge else None): search.value(
            search.flipped(parents, relation, edge)
        )[0]
        for relation, options in search.options.items()
        for edge in options
        if edge != parents.get(relation)
    }


def _forest(graph: Graph, parents: Mapping[str, Edge]) -> Forest:
    """The forest of `parents`. Every relation without parent is a root, if only of itself."""
    roots = tuple(name for name in graph.relations if name not in parents)
    edges = ((name, parents[name].foreign_key) for name in graph.relations if name in parents)
    return Forest(roots, tuple(edges))


def _indexes(objective: Objective, chosen: Outcome, views: Sequence[JoinView]) -> tuple[Index, ...]:
    """All indexes of the plan, with unique names."""
    schema, rows = objective.schema, objective.rows
    found = list(base_indexes(schema))
    bare = readable_catalog(schema, rows, views, found)
    declared = (view.name for view in schema.views)
    aggregates = (view.name for view in chosen.score.aggregates)
    of_views = (index.name for index in schema.indexes)
    taken = {*schema.names, *declared, *aggregates, *of_views, *bare.view, *bare.index}
    wanted = [item.index(bare) for item in chosen.score.indexes]
    with_views = readable_catalog(schema, rows, views, wanted)
    for view in views:
        wanted += maintenance_indexes(view, with_views, objective.workload.updates)
    for index in wanted:
        name = free_name(index.name, taken)
        taken.add(name)
        found.append(replace(index, name=name))
    return tuple(found)
