"""Laws of chosen aggregate views on random schemas and workloads: they can be defined, built and
kept; the statements that the plan says they serve are answered from them, with equal answers; and a
larger budget keeps all views of a smaller one."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hornbeam_server.node.database import Database
from hornbeam_server.node.schema_plans import PlanRequest, stored_aggregate
from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.schema.catalog import Catalog, Forest, State
from hornbeam_server.schema.ddl import render_ddl
from hornbeam_server.schema.model import Schema
from hornbeam_server.txlayer.statements.requests import Statement, TransactionRequest
from hornbeam_server.viewselect.aggregates import AggregateInputs
from hornbeam_server.viewselect.plan import PlanOptions, SelectionPlan, plan
from hornbeam_server.viewselect.statistics import Statistics
from tests.depth import depth
from tests.duckdb_oracle import connect
from tests.query.aggregate_world import World
from tests.query.query_world import Data
from tests.query.test_aggregate_views_law import _query, _view
from tests.strategies import SIMPLE_KINDS, rows_for, schemas
from tests.txlayer.database_world import settings as database_settings
from tests.txlayer.test_immediate_views import run
from tests.viewselect.viewselect_world import bound

ORACLE = connect()
ROWS = 2_000
"""Assumed rows of each relation, so that views pay."""


@dataclass
class Case:
    schema: Schema
    data: Data
    queries: list[tuple[str, list[Any]]]

    @property
    def workload(self) -> str:
        return "\n".join(
            f"-- name: q{number}\n-- weight: {1 + number % 3}\n{sql};"
            for number, (sql, _) in enumerate(self.queries)
        )

    def plan(self, budget: float | None = None) -> SelectionPlan:
        base = Catalog(0, self.schema, Forest(self.schema.names))
        rows = dict.fromkeys(self.schema.names, ROWS)
        return plan(
            self.schema, bound(self.schema, self.workload), PlanOptions(budget=budget),
            Statistics(rows), inputs=AggregateInputs(base, stored_aggregate),
        )  # fmt: skip


@st.composite
def cases(draw: st.DrawFn) -> Case:
    schema = draw(schemas(min_relations=2, max_relations=4, kinds=SIMPLE_KINDS, with_indexes=False))
    queries: list[tuple[str, list[Any]]] = []
    for _ in range(draw(st.integers(1, 2))):
        spec = _view(draw, schema)
        for _ in range(draw(st.integers(1, 2))):
            sql, _, parameters = _query(draw, spec)
            queries.append((sql, parameters))
    return Case(schema, draw(rows_for(schema, max_rows=6)), queries)


@pytest.fixture(scope="module")
def engine():
    engine = QueryEngine()
    yield engine
    engine.close()


def served(selection: SelectionPlan) -> dict[str, set[str]]:
    """For each statement, the aggregate views that serve it, as the plan says."""
    chosen = {view.name for view in selection.aggregates}
    return {q.statement: chosen & {*q.views} for q in selection.explanation.queries}


@settings(max_examples=depth(14, long=40))
@given(cases())
def test_what_a_plan_says_is_served_is_served_with_equal_answers(engine, case):
    selection = case.plan()
    states = tuple((view.name, State.READABLE) for view in selection.aggregates)
    names = case.schema.names
    catalog = Catalog(
        1, case.schema, Forest(names), states=states, immediate=selection.aggregates,
        row_counts=tuple(dict.fromkeys(names, ROWS).items()),
    )  # fmt: skip
    world = World(engine, catalog, case.data, ORACLE)
    by_statement = served(selection)
    for number, (sql, parameters) in enumerate(case.queries):
        shown = (sql, [view.declared.sql for view in selection.aggregates])
        assert by_statement[f"q{number}"] <= set(world.prepared(sql).served_by), shown
        found = world.ask(sql, parameters)
        wanted = world.ask(sql, parameters, use_views=False)
        assert Counter(map(repr, found.rows)) == Counter(map(repr, wanted.rows)), shown


def test_plans_of_the_law_choose_views_that_serve():
    """Else the law says little."""
    counts = []

    @settings(max_examples=20, derandomize=True, database=None)
    @given(cases())
    def count(case):
        counts.append(sum(map(bool, served(case.plan()).values())))

    count()
    assert sum(map(bool, counts)) > len(counts) / 3


@settings(max_examples=depth(5, long=15))
@given(cases(), st.lists(st.floats(0, 2), min_size=2, max_size=4))
def test_a_larger_budget_keeps_all_views_of_a_smaller_one(case, budgets):
    plans = [case.plan(budget) for budget in sorted(budgets)]
    for small, large in pairwise(plans):
        assert {*small.chosen.score.views} <= {*large.chosen.score.views}
        names = [{view.name for view in each.aggregates} for each in (small, large)]
        assert names[0] <= names[1]
        assert small.chosen.score.objective <= large.chosen.score.objective + 1e-6
    for each in plans:
        assert each.chosen.score.size <= each.options.budget * each.objective.base_size


@settings(max_examples=depth(4, long=10))
@given(cases())
def test_plans_are_deterministic(case):
    assert case.plan().text() == case.plan().text()


@settings(
    max_examples=depth(2, long=5),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(cases(), st.data())
def test_chosen_views_are_built_and_kept(tmp_path_factory, case, data):
    split = data.draw(st.integers(0, len(case.schema.names)))
    asyncio.run(_build_and_keep(tmp_path_factory.mktemp("chosen"), case, split))


async def _build_and_keep(folder, case, split):
    """Load the first relations, apply the plan, load the others, and change and delete rows."""
    ddl, rows = render_ddl(case.schema), dict.fromkeys(case.schema.names, ROWS)
    async with await Database.open(database_settings(folder)) as database:
        for workload in ("", case.workload):
            request = PlanRequest(ddl, workload, row_counts=rows)
            planned = database.plan_schema(request)
            await database.apply_schema(request, planned.plan_id)
            await database.keeper.wait_built()
            names = case.schema.names[:split] if not workload else case.schema.names[split:]
            for name in names:
                columns = case.schema.relation(name).column_names
                await database.load(name, columns, case.data.get(name, []))
        await _change(database, case)
        assert (await database.verify()).differences == 0
        by_statement = served(planned.plan)
        for number, (sql, parameters) in enumerate(case.queries):
            assert by_statement[f"q{number}"] <= set(database.prepare(sql).served_by)
            found = await database.fetch(sql, parameters)
            wanted = await database.fetch(sql, parameters, use_views=False)
            assert Counter(map(repr, found)) == Counter(map(repr, wanted)), sql


async def _change(database, case):
    """Empty a column of each relation, and delete a row that no other row references."""
    for relation in case.schema.relations:
        keys = {c for key in relation.foreign_keys for c in key.columns} | {*relation.primary_key}
        for column in relation.columns:
            if column.nullable and column.name not in keys:
                await run(database, f"UPDATE {relation.name} SET {column.name} = NULL")
                break
    last = case.schema.relations[-1]
    if not case.schema.children(last.name) and case.data.get(last.name):
        row = case.data[last.name][0]
        key = [row[last.positions[column]] for column in last.primary_key]
        where = " AND ".join(f"{column} = ?" for column in last.primary_key)
        statement = Statement(f"DELETE FROM {last.name} WHERE {where}", tuple(key))
        await database.transact(TransactionRequest((statement,)))
