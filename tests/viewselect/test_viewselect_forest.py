"""The default method: its choice for TPC-W and Company, and that it beats the paper."""

import pytest

from hornbeam_server.viewselect.forest import ForestSearch
from hornbeam_server.viewselect.paper import paper_forest
from hornbeam_server.viewselect.select import keep_budget, keep_paying, select_views
from tests.viewselect.viewselect_world import (
    COMPANY,
    COMPANY_WORKLOAD,
    MICRO,
    MICRO_WORKLOAD,
    PAPER_ROOTS,
    SMALL_TPCW,
    TPCW,
    TPCW_WORKLOAD,
    World,
    paths,
    trees,
)


def search_of(world, roots):
    return ForestSearch(world.graph, world.objective, roots)


def literal(world, roots):
    forest = paper_forest(world.graph, roots)
    return select_views(world.workload, {edge.id for edge in forest.values()})


@pytest.fixture(scope="module", params=[{}, SMALL_TPCW], ids=["default rows", "counted rows"])
def tpcw(request):
    return World(TPCW, TPCW_WORKLOAD, request.param)


def test_tpcw_trees_follow_customer_author_and_country(tpcw):
    search = search_of(tpcw, PAPER_ROOTS)
    assert trees(search.best()) == {
        "orders": "customer",
        "order_line": "orders",
        "cc_xacts": "orders",
        "item": "author",
        "shopping_cart_line": "item",
        "address": "country",
    }


def test_tpcw_customer_gets_views(tpcw):
    search = search_of(tpcw, PAPER_ROOTS)
    views = paths(search.selection(search.best()).score.views)
    assert {("customer", "orders"), ("author", "item"), ("country", "address")} <= views


def test_tpcw_beats_the_paper(tpcw):
    """The views beat the paper's, as they are and pruned. In joins they also do without pruning."""
    search = search_of(tpcw, PAPER_ROOTS)
    forest, views = search.best(), literal(tpcw, PAPER_ROOTS)
    ours = search.selection(forest).score
    assert ours.objective > tpcw.objective.score(views).objective
    pruned = keep_paying(tpcw.objective, views).score
    assert ours.objective > pruned.objective
    assert ours.joins > pruned.joins
    all_ours = select_views(tpcw.workload, {edge.id for edge in forest.values()})
    assert tpcw.objective.score(all_ours).joins > tpcw.objective.score(views).joins


def test_tpcw_learned_roots_are_no_worse_than_the_paper_s(tpcw):
    given, learned = search_of(tpcw, PAPER_ROOTS), search_of(tpcw, None)
    assert learned.value(learned.best()) >= given.value(given.best())


def test_tpcw_learning_puts_customer_under_address(tpcw):
    """Then get_customer is one look-up by the user's name, with address and country."""
    search = search_of(tpcw, None)
    assert trees(search.best())["customer"] == "address"


def test_local_search_is_as_good_as_searching_all_forests(tpcw):
    for roots in (PAPER_ROOTS, None):
        search = search_of(tpcw, roots)
        best = max(map(search.value, search.forests()))
        assert search.value(search.climb(search.best_edges())) == best


def test_company_is_no_worse_than_the_paper():
    world = World(COMPANY, COMPANY_WORKLOAD)
    roots = ("address", "department")
    search = search_of(world, roots)
    score = search.selection(search.best(paper_forest(world.graph, roots))).score
    assert score.objective >= world.objective.score(literal(world, roots)).objective


def test_a_view_that_hardly_speeds_its_query_up_is_not_worth_slower_writes():
    """Both queries read all rows, and a view saves a tenth of them."""
    world = World(MICRO, MICRO_WORKLOAD)
    search = search_of(world, None)
    best = search.selection(search.best()).score
    whole = {edge.child: edge for edge in world.graph.edges}
    both = select_views(world.workload, {edge.id for edge in whole.values()})
    assert paths(both) == {("customer", "orders"), ("customer", "orders", "order_line")}
    assert frozenset(best.views) == both

    written = World(MICRO, f"{MICRO_WORKLOAD};\n-- name: order\nINSERT INTO orders VALUES (?, ?)")
    search = search_of(written, None)
    chosen = search.selection(search.best()).score
    assert ("customer", "orders") not in paths(chosen.views)
    assert chosen.objective > search.value(whole)[0]


def test_a_long_scan_does_not_outvote_look_ups():
    """The view along one tree saves a scan a few of its many row reads, the view along the other
    one saves look-ups half of their few."""
    ddl = """
    CREATE TABLE a (a INTEGER PRIMARY KEY, av TEXT);
    CREATE TABLE b (b INTEGER PRIMARY KEY, bv TEXT);
    CREATE TABLE c (c INTEGER PRIMARY KEY, c_a INTEGER REFERENCES a, c_b INTEGER REFERENCES b);
    """
    scan = "SELECT * FROM a, c WHERE a = c_a;\n"
    look_up = "SELECT * FROM b, c WHERE b = c_b AND c = ?;\n"
    world = World(ddl, scan + look_up, {"a": 500, "b": 1_000, "c": 100_000})
    (scanned,), (looked_up,) = (
        select_views(world.workload, {("c", key)}) for key in ("c_c_a_fkey", "c_c_b_fkey")
    )
    saved = [world.objective.score({view}).saved for view in (scanned, looked_up)]
    assert saved[0] > saved[1]
    assert trees(search_of(world, None).best()) == {"c": "b"}


def test_edges_that_do_not_lead_to_a_given_root_are_dropped():
    world = World(MICRO, MICRO_WORKLOAD)
    search = search_of(world, ("orders",))
    assert trees(search.best()) == {"order_line": "orders"}
    assert search.feasible(paper_forest(world.graph, ("customer",))) == {
        "order_line": world.graph.edge["order_line", "order_line_ol_o_id_fkey"]
    }


def test_relations_with_many_writes_and_few_reads_get_no_view():
    writes = "-- weight: 1000\nUPDATE customer SET c_name = ? WHERE c_id = ?;"
    reads = "SELECT * FROM customer, orders WHERE c_id = o_c_id AND o_id = ?;"
    world = World(MICRO, writes + reads)
    search = search_of(world, None)
    selection = search.selection({e.child: e for e in world.graph.edges})
    assert not selection.score.views
    (dropped,) = selection.dropped
    assert dropped.view.relations == ("customer", "orders")
    assert dropped.value < 0
    assert not dropped.budget
    seldom = World(MICRO, writes.replace("1000", "0.01") + reads)
    search = search_of(seldom, None)
    assert paths(search.selection(search.best()).score.views) == {("customer", "orders")}


def test_weights_decide_between_two_parents():
    ddl = """
    CREATE TABLE a (a INTEGER PRIMARY KEY, av TEXT);
    CREATE TABLE b (b INTEGER PRIMARY KEY, bv TEXT);
    CREATE TABLE c (c INTEGER PRIMARY KEY, c_a INTEGER REFERENCES a, c_b INTEGER REFERENCES b);
    """
    with_a = "-- weight: {}\nSELECT * FROM a, c WHERE a = c_a AND c = ?;\n"
    with_b = "-- weight: {}\nSELECT * FROM b, c WHERE b = c_b AND c = ?;\n"
    for weights, parent in (((1, 2), "b"), ((2, 1), "a")):
        world = World(ddl, with_a.format(weights[0]) + with_b.format(weights[1]))
        assert trees(search_of(world, None).best()) == {"c": parent}


def test_a_view_serves_the_queries_of_a_shorter_one_when_its_keys_are_not_null():
    """The lower end of customer → orders → order_line answers orders ⋈ order_line."""
    workload = (
        "-- weight: 10\nSELECT * FROM customer, orders, order_line"
        " WHERE c_id = o_c_id AND o_id = ol_o_id AND ol_o_id = ?;"
        "SELECT o_c_id, ol_qty FROM orders, order_line WHERE o_id = ol_o_id AND ol_o_id = ?;"
    )
    world = World(MICRO, workload)
    search = search_of(world, ("customer",))
    selection = search.selection(search.best())
    assert paths(selection.score.views) == {("customer", "orders", "order_line")}
    assert selection.score.joins == 21


def test_cascading_foreign_keys_become_tree_edges():
    world = World(
        "CREATE TABLE a (a INTEGER PRIMARY KEY);"
        "CREATE TABLE b (b INTEGER PRIMARY KEY, b_a INTEGER REFERENCES a ON DELETE CASCADE);"
        "CREATE TABLE c (c INTEGER PRIMARY KEY, c_a INTEGER REFERENCES a);",
        "SELECT a FROM a",
    )
    assert trees(search_of(world, None).best()) == {"b": "a"}
    assert trees(search_of(world, ("c",)).best()) == {}


def test_the_budget_drops_the_lowest_value_per_byte_first(tpcw):
    search = search_of(tpcw, PAPER_ROOTS)
    free = search.selection(search.best())
    kept = keep_budget(tpcw.objective, free, 0.5 * free.score.size)
    dropped = [item for item in kept.dropped if item.budget]
    assert dropped
    density = {
        view: (free.score.objective - tpcw.objective.score({*free.score.views} - {view}).objective)
        / cost.size
        for view, cost in free.score.costs.items()
    }
    assert dropped[0].view == min(density, key=density.get)
    assert kept.score.size <= 0.5 * free.score.size


def test_a_budget_of_zero_keeps_no_views(tpcw):
    search = search_of(tpcw, PAPER_ROOTS)
    nothing = keep_budget(tpcw.objective, search.selection(search.best()), 0)
    assert not nothing.score.views
    assert nothing.score.objective == 0


def test_an_edge_that_no_query_joins_may_lead_to_the_given_root():
    world = World(MICRO, "SELECT * FROM orders, order_line WHERE o_id = ol_o_id")
    assert trees(search_of(world, ("customer",)).best()) == {
        "orders": "customer",
        "order_line": "orders",
    }
    assert trees(search_of(world, None).best()) == {"order_line": "orders"}
