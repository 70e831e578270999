"""Queries that join many relations: planned in bounded time, small ones like an exact search, and
the plan states where the search was cut."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam_server.node.schema_plans import PlanRequest, plan_schema
from hornbeam_server.query.binding.algebra import Block
from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.query.optimizer.access_paths import Access, choose
from hornbeam_server.query.optimizer.cover import best_disjoint
from hornbeam_server.query.optimizer.join_order import MAX_BEGINNINGS, order_joins
from hornbeam_server.schema.catalog import Catalog, Forest
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import StatementTimeout
from hornbeam_server.schema.model import Schema
from hornbeam_server.viewselect.indexes import base_indexes
from hornbeam_server.viewselect.pricing import readable_catalog
from hornbeam_server.viewselect.watch import MAX_EFFORT, Watch
from tests.depth import depth
from tests.star_world import schema, workload
from tests.viewselect.viewselect_world import TPCW, TPCW_WORKLOAD, World

NONE = Catalog(0, Schema(()), Forest(()))


def exact_order(catalog: Catalog, block: Block, looked_up: bool) -> tuple[Access, ...]:
    """Search without a cache: price every path to every source again after every step."""
    aliases = [source.alias for source in block.sources]
    alone = {alias: choose(catalog, block, alias) for alias in aliases}

    def next_(alias: str, fetched: Mapping[str, float]) -> Access:
        joined = choose(catalog, block, alias, fetched=fetched, joined=looked_up)
        if not joined.join_columns:
            return alone[alias]
        return joined if looked_up or joined.cost <= alone[alias].cost else alone[alias]

    def steps(first: str) -> list[Access]:
        found, left = [alone[first]], [alias for alias in aliases if alias != first]
        while left:
            fetched = {step.alias: step.rows for step in found}
            choices = [next_(alias, fetched) for alias in left]
            found.append(min(choices, key=lambda path: (not path.join_columns, path.cost)))
            left.remove(found[-1].alias)
        return found

    beginnings = sorted(alone, key=lambda alias: alone[alias].cost)[:MAX_BEGINNINGS]
    return tuple(min(map(steps, beginnings), key=lambda found: sum(s.cost for s in found)))


@settings(deadline=None, max_examples=depth(8, long=25))
@given(st.integers(0, 10_000), st.booleans(), st.data())
def test_joins_are_ordered_like_a_search_without_a_cache(seed, looked_up, data):
    world = World(schema(seed), workload(2, seed, 9))
    sizes = st.sampled_from([1, 30, 5_000, 200_000])
    rows = {name: data.draw(sizes) for name in world.schema.names}
    catalog = readable_catalog(world.schema, rows, (), base_indexes(world.schema))
    for read in world.workload.reads:
        found = order_joins(catalog, read.block, looked_up=looked_up)
        assert found == exact_order(catalog, read.block, looked_up)


@given(
    st.lists(
        st.tuples(st.frozensets(st.sampled_from("abcdefg"), min_size=2), st.integers(-5, 5)),
        max_size=9,
    )
)
def test_the_best_disjoint_sets_equal_an_exhaustive_search(given_sets):
    sets = [members for members, _ in given_sets]
    weights = [(len(members) - 1, second) for members, second in given_sets]
    every = [
        some
        for size in range(len(sets) + 1)
        for some in combinations(range(len(sets)), size)
        if sum(len(sets[n]) for n in some) == len(frozenset().union(*(sets[n] for n in some)))
    ]

    def total(some):
        return tuple(sum(weights[n][part] for n in some) for part in (0, 1))

    found = best_disjoint(sets, weights)
    assert found in every
    assert total(found) == max(map(total, every))


def test_a_hundred_wide_queries_are_planned_within_half_a_minute():
    shares: list[float] = []
    watch = Watch(shares.append)
    began = time.process_time()
    planned = plan_schema(PlanRequest(schema(), workload(113, 0, 17)), NONE, watch).plan
    text = planned.text()
    assert time.process_time() - began < 30
    assert planned.views
    assert planned.chosen.score.objective > 0
    cut = planned.json()["cut"]
    assert any("trees" in words for words in cut)
    assert any("all at once" in words and "q112" not in words for words in cut)
    assert all(words in text for words in cut)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert watch.effort < 3 * MAX_EFFORT


@pytest.mark.parametrize(
    ("ddl", "statements"), [(TPCW, TPCW_WORKLOAD), (schema(1), workload(8, 1, 5))]
)
def test_a_complete_search_is_not_reported_as_cut(ddl, statements):
    planned = plan_schema(PlanRequest(ddl, statements), NONE).plan
    assert planned.json()["cut"] == ()
    assert "CUT SHORT" not in planned.text()


def test_a_plan_does_not_depend_on_the_machine(monkeypatch):
    monkeypatch.setattr("hornbeam_server.viewselect.watch.MAX_EFFORT", 900)
    request = PlanRequest(schema(2), workload(20, 2, 8))
    first, second = (plan_schema(request, NONE) for _ in range(2))
    assert first.plan.text() == second.plan.text()
    assert first.plan_id == second.plan_id
    assert first.plan.json()["cut"]


def test_a_search_that_is_stopped_ends_at_once():
    watch = Watch()
    stopped: list[float] = []

    def stop() -> None:
        watch.stop()
        stopped.append(time.process_time())

    timer = threading.Timer(2.0, stop)
    timer.start()
    with pytest.raises(StatementTimeout):
        plan_schema(PlanRequest(schema(), workload(113, 0, 17)), NONE, watch)
    assert time.process_time() - stopped[0] < 0.5
    timer.join()


@pytest.mark.parametrize("size", [17, 40])
def test_a_select_of_many_relations_is_prepared_quickly(size):
    relations = load_ddl(schema())
    views = plan_schema(PlanRequest(schema(), workload(30, 0, 6)), NONE).plan.catalog
    sql = workload(1, 5, size).partition("\n")[2].rstrip(";") if size < 18 else _wide(size)
    engine = QueryEngine()
    try:
        for catalog in (views, Catalog(1, relations, Forest(relations.names))):
            began = time.process_time()
            engine.prepare(sql, catalog)
            assert time.process_time() - began < 2.0
    finally:
        engine.close()


def _wide(size: int) -> str:
    facts = ", ".join(f"film_word AS a{n}" for n in range(size - 1))
    joins = " AND ".join(f"a{n}.film_word_film0 = film_id" for n in range(size - 1))
    return f"SELECT film_id FROM film, {facts} WHERE {joins} AND film_id = 5"
