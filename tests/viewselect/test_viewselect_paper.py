"""Candidate generation and selection of the paper (Synergy), on its own examples."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.viewselect.cover import marked_paths
from hornbeam_server.viewselect.dag import to_dag
from hornbeam_server.viewselect.forest import ForestSearch
from hornbeam_server.viewselect.graph import schema_graph
from hornbeam_server.viewselect.paper import paper_forest, rooted_graphs, rooted_tree
from hornbeam_server.viewselect.select import select_views
from hornbeam_server.viewselect.statistics import Statistics
from tests.strategies import schemas
from tests.viewselect.viewselect_world import (
    COMPANY,
    COMPANY_WORKLOAD,
    MICRO,
    MICRO_WORKLOAD,
    PAPER_ROOTS,
    TPCW,
    TPCW_WORKLOAD,
    World,
    paths,
    trees,
)


@pytest.fixture(scope="module")
def company():
    return World(COMPANY, COMPANY_WORKLOAD)


def test_the_graph_has_an_edge_per_foreign_key_weighted_with_joins(company):
    weights = {edge.id: edge.weight for edge in company.graph.edges}
    assert weights["employee", "employee_ehomeaid_fkey"] == 1
    assert weights["employee", "employee_eofficeaid_fkey"] == 0
    assert weights["works_on", "works_on_wo_eid_fkey"] == 2
    assert len(weights) == 9


def test_weights_of_statements_weight_the_edges():
    world = World(COMPANY, "-- weight: 2.5\n" + COMPANY_WORKLOAD)
    assert world.workload.join_weights["employee", "employee_ehomeaid_fkey"] == 2.5


def test_the_dag_keeps_the_heavier_of_two_parallel_edges(company):
    dag = to_dag(company.graph)
    assert [e.foreign_key.name for e in dag.edges if (e.parent, e.child) == ("address", "employee")
            ] == ["employee_ehomeaid_fkey"]  # fmt: skip
    assert len(dag.edges) == 8


def test_of_equal_parallel_edges_the_first_declared_is_kept(company):
    dag = to_dag(schema_graph(company.schema, {}))
    kept = [e.id[1] for e in dag.edges if (e.parent, e.child) == ("address", "employee")]
    assert kept == ["employee_ehomeaid_fkey"]


def test_company_assigns_each_relation_to_one_root(company):
    graphs = rooted_graphs(to_dag(company.graph), ("address", "department"))
    assert {child for child, _ in graphs["address"]} == {"employee", "works_on", "dependent"}
    assert {child for child, _ in graphs["department"]} == {"department_location", "project"}


def test_company_has_the_trees_of_the_paper(company):
    assert trees(paper_forest(company.graph, ("address", "department"))) == {
        "employee": "address",
        "works_on": "employee",
        "dependent": "employee",
        "department_location": "department",
        "project": "department",
    }


def test_company_has_the_views_of_the_paper(company):
    forest = paper_forest(company.graph, ("address", "department"))
    edges = {edge.id for edge in forest.values()}
    assert paths(select_views(company.workload, edges)) == {
        ("address", "employee"),
        ("employee", "works_on"),
    }


def test_a_path_does_not_cross_another_root(company):
    """Section V-B2, step 3(b): a path includes a single root relation."""
    forest = paper_forest(company.graph, ("address", "employee"))
    assert trees(forest) == {"works_on": "employee", "dependent": "address"}


def test_relations_without_foreign_keys_are_the_default_roots(company):
    assert paper_forest(company.graph, ()) == paper_forest(company.graph, ("address", "department"))


def test_the_tree_of_a_diamond_keeps_one_path_to_each_relation():
    """Section V-B2, step 4: of two paths through a rooted graph, the heavier is kept."""
    world = World(
        """
        CREATE TABLE top (t INTEGER PRIMARY KEY);
        CREATE TABLE lft (l INTEGER PRIMARY KEY, l_t INTEGER REFERENCES top);
        CREATE TABLE rgt (r INTEGER PRIMARY KEY, r_t INTEGER REFERENCES top);
        CREATE TABLE low (o INTEGER PRIMARY KEY, o_l INTEGER REFERENCES lft,
          o_r INTEGER REFERENCES rgt);
        """,
        "SELECT o FROM low, rgt WHERE o_r = r; SELECT l FROM lft, top WHERE l_t = t",
    )
    assert trees(rooted_tree(world.graph, "top")) == {"lft": "top", "rgt": "top", "low": "lft"}
    heavier = World(world.schema, "SELECT o FROM low, rgt, top WHERE o_r = r AND r_t = t")
    assert trees(rooted_tree(heavier.graph, "top"))["low"] == "rgt"


def test_micro_benchmark_views_are_the_two_queries():
    world = World(MICRO, MICRO_WORKLOAD)
    forest = paper_forest(world.graph, ("customer",))
    assert paths(select_views(world.workload, {e.id for e in forest.values()})) == {
        ("customer", "orders"),
        ("customer", "orders", "order_line"),
    }


def test_the_literal_method_puts_tpcw_orders_under_address():
    """The joins of Country outweigh those of Customer, so `orders` is a child of `address`."""
    world = World(TPCW, TPCW_WORKLOAD)
    forest = paper_forest(world.graph, PAPER_ROOTS)
    assert trees(forest) == {
        "address": "country",
        "orders": "address",
        "cc_xacts": "orders",
        "item": "author",
        "order_line": "item",
        "shopping_cart_line": "item",
    }
    views = select_views(world.workload, {edge.id for edge in forest.values()})
    assert not any("customer" in view.relations for view in views)
    assert ("country", "address", "orders", "cc_xacts") in paths(views)


EDGES = frozenset(
    {
        ("employee", "employee_ehomeaid_fkey"),
        ("works_on", "works_on_wo_eid_fkey"),
        ("dependent", "dependent_dp_eid_fkey"),
    }
)


class TestMarking:
    """Marking of paths in a query (section VI-A)."""

    def uses(self, sql: str, edges=EDGES):
        world = World(COMPANY, "-- name: q\n" + sql)
        return {use.aliases for use in marked_paths(world.read("q"), edges)}

    def test_the_longest_path_is_marked_first_and_uses_its_relations_once(self):
        """Works_on and Dependent are children of Employee; only one path can contain Employee."""
        assert self.uses(
            "SELECT * FROM address a, employee e, works_on w, dependent d"
            " WHERE a.aid = e.ehomeaid AND e.eid = w.wo_eid AND e.eid = d.dp_eid"
        ) == {("a", "e", "w")}

    def test_remaining_relations_form_their_own_path(self):
        world = World(
            """
            CREATE TABLE a (a INTEGER PRIMARY KEY);
            CREATE TABLE b (b INTEGER PRIMARY KEY, b_a INTEGER REFERENCES a);
            CREATE TABLE c (c INTEGER PRIMARY KEY, c_b INTEGER REFERENCES b);
            CREATE TABLE d (d INTEGER PRIMARY KEY, d_a INTEGER REFERENCES a);
            CREATE TABLE e (e INTEGER PRIMARY KEY, e_d INTEGER REFERENCES d);
            """,
            "-- name: q\nSELECT * FROM a, b, c, d, e"
            " WHERE b_a = a.a AND c_b = b.b AND d_a = a.a AND e_d = d.d",
        )
        edges = {edge.id for edge in world.graph.edges}
        uses = marked_paths(world.read("q"), edges)
        assert [use.aliases for use in uses] == [("a", "b", "c"), ("d", "e")]

    def test_edges_outside_the_trees_are_not_marked(self):
        assert self.uses("SELECT * FROM department d, employee e WHERE d.dno = e.edno") == set()

    def test_a_relation_may_occur_twice(self):
        assert self.uses(
            "SELECT * FROM address a, employee e, address b, employee f"
            " WHERE a.aid = e.ehomeaid AND b.aid = f.ehomeaid AND e.ename = f.ename"
        ) == {("a", "e"), ("b", "f")}

    def test_outer_joins_are_not_marked(self):
        assert (
            self.uses("SELECT * FROM employee e LEFT JOIN address a ON a.aid = e.ehomeaid") == set()
        )

    def test_a_write_is_not_marked(self):
        world = World(
            COMPANY, "-- name: q\nDELETE FROM works_on WHERE wo_eid IN (SELECT eid FROM "
            "employee, address WHERE aid = ehomeaid)",
        )  # fmt: skip
        assert all(not marked_paths(read, EDGES) for read in world.workload.reads)


CIRCLE = """
CREATE TABLE staff (s_id INTEGER PRIMARY KEY, s_store INTEGER NOT NULL REFERENCES store (t_id));
CREATE TABLE store (t_id INTEGER PRIMARY KEY, t_manager INTEGER NOT NULL REFERENCES staff (s_id));
CREATE TABLE rental (r_id INTEGER PRIMARY KEY, r_staff INTEGER REFERENCES staff (s_id));
"""


@pytest.mark.parametrize(
    ("workload", "kept", "tree"),
    [
        ("SELECT s_id FROM staff", "staff_s_store_fkey", {}),
        (
            "SELECT s_id FROM staff, store WHERE t_manager = s_id AND t_id = ?",
            "store_t_manager_fkey",
            {"store": "staff"},
        ),
        (
            "SELECT r_id FROM rental, staff, store WHERE r_staff = s_id AND s_store = t_id",
            "staff_s_store_fkey",
            {"staff": "store", "rental": "staff"},
        ),
    ],
)
def test_of_a_circle_the_joined_edge_is_kept(workload, kept, tree):
    world = World(CIRCLE, workload)
    names = [edge.foreign_key.name for edge in world.graph.edges]
    assert names == [kept, "rental_r_staff_fkey"]
    for forest in (paper_forest(world.graph, ()), ForestSearch(
            world.graph, world.objective, None).best()):  # fmt: skip
        assert trees(forest).items() >= tree.items()


@given(schemas(circles=True, max_relations=6), st.data())
def test_graphs_of_any_schema_have_no_circles(schema, data):
    edges = [(r.name, fk.name) for r in schema.relations for fk in r.foreign_keys]
    weights = {edge: data.draw(st.integers(0, 3)) for edge in edges}
    graph = schema_graph(schema, weights)
    assert sorted(graph.relations) == sorted(schema.names)
    assert all(graph.rank[edge.parent] < graph.rank[edge.child] for edge in graph.edges)
    assert Statistics().rows(schema).keys() == {*schema.names}
