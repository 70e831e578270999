"""The plan as a whole: options, catalogs, its explanations, and its agreement with execution."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from hornbeam_server.query.binding.binder import bind
from hornbeam_server.query.optimizer.rewrite import rewrite
from hornbeam_server.schema.catalog import Catalog, Forest, State
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import InvalidRequest
from hornbeam_server.viewselect.cover import ViewPath, join_view, view_name
from hornbeam_server.viewselect.picture import forest_svg
from hornbeam_server.viewselect.plan import PlanOptions, plan
from hornbeam_server.viewselect.statistics import Statistics
from tests.viewselect.viewselect_world import (
    COMPANY,
    COMPANY_WORKLOAD,
    MICRO,
    MICRO_WORKLOAD,
    PAPER_ROOTS,
    TPCW,
    TPCW_WORKLOAD,
    World,
    outputs_by_hash_seed,
)

SVG = "{http://www.w3.org/2000/svg}"


def planned(ddl, workload, base=None, **options):
    world = World(ddl, workload)
    return plan(world.schema, world.bound, PlanOptions(**options), world.statistics, base=base)


@pytest.fixture(scope="module")
def tpcw():
    return planned(TPCW, TPCW_WORKLOAD, roots=PAPER_ROOTS)


@pytest.mark.parametrize(
    "options",
    [
        {"roots": ("author", "unknown")},
        {"method": "guess"},
        {"budget": -1.0},
        {"budget": float("nan")},
    ],
)
def test_impossible_options_are_refused(options):
    with pytest.raises(InvalidRequest) as caught:
        planned(MICRO, MICRO_WORKLOAD, **options)
    assert caught.value.cure


def test_an_empty_workload_gives_no_views():
    found = planned(MICRO, "")
    assert not found.views
    assert found.text()
    assert found.forest == Forest(("customer", "orders", "order_line"))


def test_an_empty_schema_can_be_planned_and_drawn():
    found = planned("", "")
    ElementTree.fromstring(found.svg())
    assert found.mermaid() == "flowchart TD\n"


def test_method_paper_keeps_the_paper_s_views_without_pruning():
    found = planned(TPCW, TPCW_WORKLOAD, roots=PAPER_ROOTS, method="paper")
    assert found.forest.parent["orders"].parent == "address"
    assert "country__address__orders__cc_xacts" in [view.name for view in found.views]
    assert not found.chosen.selection.dropped


def test_the_budget_bounds_views_and_their_indexes():
    free = planned(TPCW, TPCW_WORKLOAD, roots=PAPER_ROOTS)
    assert free.chosen.score.size > 0.2 * free.objective.base_size
    tight = planned(TPCW, TPCW_WORKLOAD, roots=PAPER_ROOTS, budget=0.2)
    assert 0 < tight.chosen.score.size <= 0.2 * tight.objective.base_size
    assert "dropped by the budget" in tight.text()


def test_row_counts_come_from_statistics_then_catalog_then_defaults():
    base = replace(Catalog(3, load_ddl(MICRO), Forest(())), row_counts=(("customer", 7),))
    world = World(MICRO, MICRO_WORKLOAD)
    known = plan(world.schema, world.bound, PlanOptions(), Statistics({"orders": 20}), base=base)
    assert known.objective.rows == {"customer": 7, "orders": 20, "order_line": 200}
    assert known.to_catalog(4, base).row_count == {"customer": 7, "orders": 20}


def test_a_one_to_one_child_has_its_parent_s_rows():
    rows = Statistics().rows(load_ddl(TPCW))
    assert rows["cc_xacts"] == rows["orders"] == 10 * rows["customer"]


# -- names


def test_view_columns_keep_their_names_unless_ambiguous():
    schema = load_ddl(
        "CREATE TABLE a (id INTEGER PRIMARY KEY, name TEXT, b_id TEXT);"
        "CREATE TABLE b (id INTEGER PRIMARY KEY, a_id INTEGER REFERENCES a, other TEXT)"
    )
    (edge,) = schema.relation("b").foreign_keys
    view = join_view(schema, ViewPath(("a", "b"), (edge.name,)))
    assert [column.name for column in view.columns] == [
        "a_id_", "name", "b_id", "b_id_", "a_id", "other",
    ]  # fmt: skip


def test_names_of_different_paths_differ():
    schema = load_ddl("CREATE TABLE a__b (x INTEGER PRIMARY KEY)")
    ambiguous = [ViewPath(("a", "b__c"), ("k",)), ViewPath(("a__b", "c"), ("k",))]
    assert len({view_name(schema, path) for path in ambiguous}) == 2
    assert view_name(schema, ViewPath(("a", "b"), ("k",))) == "a__b_"


# -- catalogs


def test_a_first_catalog_builds_everything(tpcw):
    catalog = tpcw.to_catalog(1)
    assert set(catalog.state) == {*catalog.view, *catalog.index}
    assert set(catalog.state.values()) == {State.BUILDING}
    tables = [catalog.layout(n).table for n in (*tpcw.schema.names, *catalog.state)]
    assert len(set(tables)) == len(tables)
    assert catalog.workload == tpcw.workload.statements


def test_planning_again_changes_nothing(tpcw):
    first = tpcw.to_catalog(1)
    ready = replace(first, states=tuple((name, State.READABLE) for name in first.state))
    again = planned(TPCW, TPCW_WORKLOAD, roots=PAPER_ROOTS, base=ready).to_catalog(2, ready)
    assert again == replace(ready, version=2)


def test_new_items_are_built_and_unchanged_ones_are_kept():
    reads = "SELECT * FROM customer, orders WHERE c_id = o_c_id AND o_id = ?;"
    first = planned(MICRO, reads).to_catalog(1)
    ready = replace(first, states=tuple((name, State.READABLE) for name in first.state))
    more = reads + "SELECT * FROM customer, orders WHERE c_id = o_c_id AND c_name = ?"
    second = planned(MICRO, more, base=ready).to_catalog(2, ready)
    assert second.state == {
        "customer__orders": State.READABLE,
        "orders__by_o_c_id": State.READABLE,
        "customer__orders__by_c_name": State.BUILDING,
    }


def test_a_view_that_is_added_again_gets_a_new_table():
    reads = "SELECT * FROM customer, orders WHERE c_id = o_c_id AND o_id = ?;"
    first = planned(MICRO, reads).to_catalog(1)
    without = planned(MICRO, "").to_catalog(2, first)
    assert "customer__orders" not in without.view
    back = planned(MICRO, reads).to_catalog(3, without)
    assert back.layout("customer__orders").table != first.layout("customer__orders").table
    assert back.state["customer__orders"] is State.BUILDING


def test_an_appended_column_rebuilds_the_views_that_contain_it():
    reads = "SELECT * FROM customer, orders WHERE c_id = o_c_id AND c_name = ?;"
    first = planned(MICRO, reads).to_catalog(1)
    ready = replace(first, states=tuple((name, State.READABLE) for name in first.state))
    wider = MICRO.replace("c_name TEXT", "c_name TEXT, c_mail TEXT")
    second = planned(wider, reads, base=ready).to_catalog(2, ready)
    assert second.state["customer__orders"] is State.BUILDING
    assert second.state["customer__orders__by_c_name"] is State.BUILDING
    assert second.state["orders__by_o_c_id"] is State.READABLE
    for name in ("customer__orders", "customer__orders__by_c_name"):
        assert second.layout(name).table != ready.layout(name).table
    assert second.layout("customer").table == ready.layout("customer").table


# -- agreement with execution


@pytest.mark.parametrize("method", ["optimal", "paper"])
@pytest.mark.parametrize("roots", [PAPER_ROOTS, None])
def test_queries_are_rewritten_over_the_views_that_the_plan_names(method, roots):
    found = planned(TPCW, TPCW_WORKLOAD, roots=roots, method=method)
    sql = {statement.name: statement.sql for statement in found.workload.statements}
    served = 0
    for query in found.explanation.queries:
        uses = rewrite(bind(sql[query.statement], found.catalog), found.catalog).uses
        assert {use.view for use in uses} == set(query.views), query.statement
        served += bool(uses)
    assert served >= 9


# -- explanations


def report(found, statement):
    return next(q for q in found.explanation.queries if q.statement == statement)


def test_the_plan_explains_why_joins_are_not_covered(tpcw):
    (why,) = report(tpcw, "most_recent_order_lines").uncovered
    assert why.startswith(
        "item → order_line: order_line_ol_i_id_fkey is not a tree edge: "
        "order_line belongs to orders because that is worth"
    )
    assert "dropped: it does not pay" in report(tpcw, "get_cart").uncovered[0]
    assert "a given root" in report(tpcw, "get_customer").uncovered[0]
    assert "not joined by an equality" in report(tpcw, "related_books").uncovered[0]
    assert report(tpcw, "get_book").uncovered == ()


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT * FROM employee e LEFT JOIN address a ON a.aid = e.ehomeaid", "outer"),
        ("SELECT * FROM employee e, employee f WHERE e.ename = f.ename", "a self-join that follo"),
        ("SELECT * FROM employee e, address a WHERE a.city = e.ename", "follows no foreign key"),
        (
            "SELECT * FROM works_on w, employee e, dependent d"
            " WHERE w.wo_eid = e.eid AND d.dp_eid = e.eid",
            "views are paths",
        ),
    ],
)
def test_the_plan_names_the_reason_for_each_uncovered_join(sql, why):
    other = "SELECT * FROM works_on w, employee e WHERE w.wo_eid = e.eid AND e.ename = ?"
    found = planned(COMPANY, f"-- name: q\n{sql};\n-- name: other\n{other}")
    assert any(why in words for words in report(found, "q").uncovered)


def test_the_budget_may_be_the_reason():
    sql = "-- name: q\nSELECT * FROM customer, orders WHERE c_id = o_c_id AND c_name = ?"
    assert planned(MICRO, sql).views
    found = planned(MICRO, sql, budget=0.0)
    assert not found.views
    assert all("the budget" in why for why in report(found, "q").uncovered)


def test_the_plan_shows_what_the_paper_s_method_serves_besides(tpcw):
    besides = {each.statement: each for each in tpcw.explanation.besides}
    cart = besides["get_cart"]
    assert (round(cart.plan_cost), round(cart.cost)) == (294, 124)
    assert cart.views == ("item__shopping_cart_line",)
    assert cart.upkeep > 800
    assert cart.value < 0
    assert "paper serves besides: get_cart 294 → 124" in tpcw.summary()
    paper = planned(TPCW, TPCW_WORKLOAD, roots=PAPER_ROOTS, method="paper")
    assert "optimal serves besides: most_recent_order_id" in paper.text()


def test_the_plan_says_how_much_faster_reads_and_slower_writes_become(tpcw):
    paper, optimal = tpcw.explanation.methods
    assert optimal.faster > paper.faster > 1
    assert 0 < optimal.slower < paper.slower


def test_the_plan_names_the_views_and_indexes_of_a_query(tpcw):
    query = report(tpcw, "search_subject")
    assert query.views == ("author__item",)
    assert query.indexes == ("author__item__by_i_subject_i_title",)
    assert "in the wanted order" in query.reads[0]
    assert query.cost < query.base_cost


def test_the_plan_prices_every_view(tpcw):
    for view in tpcw.explanation.views:
        assert view.size > 0
        assert view.value > 0, "what does not pay is not kept"
        assert view.upkeep == pytest.approx(sum(cost for _, cost in view.by_statement))
        assert view.serves


def test_the_plan_compares_both_methods(tpcw):
    paper, optimal = tpcw.explanation.methods
    assert (paper.method, optimal.method, optimal.chosen) == ("paper", "optimal", True)
    assert optimal.objective > paper.objective
    assert "country → address → orders → cc_xacts" in paper.views
    for text in (tpcw.text(), tpcw.summary()):
        assert "paper" in text
        assert "optimal *" in text


def test_every_relation_has_its_tree_and_a_reason(tpcw):
    relations = {relation.relation: relation for relation in tpcw.explanation.relations}
    assert relations["order_line"].path == ("customer", "orders", "order_line")
    assert relations["customer"].why == "a given root"
    assert all(relation.why for relation in relations.values())


def test_the_plan_is_valid_json(tpcw):
    document = json.loads(json.dumps(tpcw.json(), allow_nan=False))
    assert {query["statement"] for query in document["queries"]} >= {"get_book", "get_cart"}
    assert document["base_size"] > 0


# -- pictures


def test_the_drawing_shows_every_relation_edge_and_view(tpcw):
    root = ElementTree.fromstring(tpcw.svg())
    texts = {node.text for node in root.iter(f"{SVG}text")}
    assert set(tpcw.schema.names) <= texts
    assert "▤ customer → orders" in texts
    edges = list(root.iter(f"{SVG}path"))
    dashed = [edge for edge in edges if edge.get("stroke-dasharray")]
    assert len(edges) == 12
    assert len(edges) - len(dashed) == len(tpcw.forest.parents)


def test_boxes_do_not_overlap_and_lie_inside(tpcw):
    root = ElementTree.fromstring(tpcw.svg())
    boxes = [
        [float(node.get(name)) for name in ("x", "y", "width", "height")]
        for node in root.iter(f"{SVG}rect")
        if node.get("x")
    ]
    assert len(boxes) == len(tpcw.schema.names)
    width, height = float(root.get("width")), float(root.get("height"))
    for i, (x, y, w, h) in enumerate(boxes):
        assert x >= 0
        assert x + w <= width
        assert y + h <= height
        for x2, y2, w2, h2 in boxes[:i]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y


def test_names_are_escaped_in_pictures():
    schema = load_ddl('CREATE TABLE "a<b&c" (x INTEGER PRIMARY KEY)')
    catalog = Catalog(1, schema, Forest(schema.names))
    assert "a<b&c" in {n.text for n in ElementTree.fromstring(forest_svg(catalog)).iter()}


def test_mermaid_draws_tree_edges_solid(tpcw):
    lines = tpcw.mermaid().splitlines()
    assert sum("-->|" in line for line in lines) == len(tpcw.forest.parents)
    assert sum("-.->|" in line for line in lines) == 12 - len(tpcw.forest.parents)


def test_a_plan_does_not_depend_on_hash_seeds():
    """Client and server plan separately and compare the results."""
    script = (
        "from tests.viewselect.viewselect_world import *\n"
        "from hornbeam_server.viewselect.plan import PlanOptions, plan\n"
        "w = World(TPCW, TPCW_WORKLOAD)\n"
        "print(plan(w.schema, w.bound, PlanOptions(), w.statistics).text())\n"
    )
    assert len(outputs_by_hash_seed(script)) == 1


def test_company_with_the_paper_s_workload_explains_itself():
    found = planned(COMPANY, COMPANY_WORKLOAD, roots=("address", "department"))
    assert "TREES (roots address, department)" in found.text()
    assert "TREES (learned roots)" in planned(COMPANY, COMPANY_WORKLOAD).summary()


def test_the_plan_notes_columns_that_differ_from_their_declared_type() -> None:
    schema = load_ddl("CREATE TABLE t (k INT PRIMARY KEY, n NUMERIC, r REAL, c CHAR(2));")
    found = plan(schema, [], PlanOptions(learn_roots=True), Statistics({"t": 10}))
    said = found.text()
    for words in ("t.n: NUMERIC without", "t.c: CHAR(n) is kept without"):
        assert words in said
    assert found.json()["notes"] == schema.notes
