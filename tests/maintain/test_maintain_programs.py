"""One test per kind of change that maintenance distinguishes, with the reads that it needs."""

import asyncio

from hornbeam_server.maintain.changes import Change
from hornbeam_server.schema.catalog import State
from hornbeam_server.schema.model import Schema
from hornbeam_server.schema.turns import ROWS_A_TURN
from tests.maintain.maintain_world import SCHEMA, World, catalog, index, relation, view

CUSTOMER_ORDERS = view(SCHEMA, "customer", "orders")
WHOLE = view(SCHEMA, "country", "customer", "orders", "line")
BASE_INDEXES = (index("customer", "co"), index("orders", "c"))
"""Indexes for foreign keys; `line` needs none, since its key begins with its order."""
DOWN = index(WHOLE.name, "country_co")
FROM_CUSTOMER = index(WHOLE.name, "customer_c")
BY_VALUE = index(WHOLE.name, "orders_v", ["line_v"])


def shop(*indexes, views=(WHOLE,), states=None):
    """A world with country 1 ← customers 10, 11; 10 ← orders 100, 101; 100 ← lines 1, 2; 101 ←
    line 1. Customer 12 has no country, and order 120 with line 1."""
    world = World(catalog(SCHEMA, views, (*BASE_INDEXES, *indexes), states))
    world.put("country", (1, 7), (2, 7))
    world.put("customer", (10, 1, 7), (11, 1, 7), (12, None, 7))
    world.put("orders", (100, 10, 7), (101, 10, 7), (120, 12, 7))
    world.put("line", (100, 1, 7), (100, 2, 7), (101, 1, 7), (120, 1, 7))
    world.check()
    return world


def written(mutations, name=WHOLE.name):
    return [(m.old, m.new) for m in mutations if m.layout == name]


def lines(world):
    return sorted(row[-3:-1] for row in world.rows[WHOLE.name].values())


def test_inserting_a_last_row_reads_each_level_above_once():
    world = shop(DOWN)
    mutations = world.put("line", (100, 3, 5), (120, 2, 5), (101, 2, 5))
    assert [new for _, new in written(mutations)] == [
        (1, 7, 10, 1, 7, 100, 10, 7, 100, 3, 5),
        (1, 7, 10, 1, 7, 101, 10, 7, 101, 2, 5),
    ]
    assert world.reads == {("get", "orders"): 1, ("get", "customer"): 1, ("get", "country"): 1}
    world.check()


def test_deleting_a_last_row_reads_only_the_view():
    world = shop(DOWN, BY_VALUE)
    mutations = world.commit({"line": {(100, 1): None}})
    assert written(mutations) == [((1, 7, 10, 1, 7, 100, 10, 7, 100, 1, 7), None)]
    assert written(mutations, BY_VALUE.name) == [((7, 100, 1, 7), None)]
    assert world.reads == {("get", WHOLE.name): 1}
    world.check()


def test_updating_a_last_row_replaces_its_slice():
    world = shop()
    [(old, new)] = written(world.put("line", (100, 1, 8)))
    assert (old[-1], new[-1], old[:-1]) == (7, 8, new[:-1])
    assert world.reads == {("get", WHOLE.name): 1}
    world.check()


def test_an_ancestor_finds_its_view_rows_by_the_maintenance_index():
    world = shop(DOWN)
    assert len(written(world.put("country", (1, 8)))) == 3
    assert world.reads == {("prefixes", DOWN.name): 1, ("get", WHOLE.name): 1}
    world.check()


def test_a_direct_parent_finds_its_view_rows_by_the_view_key():
    world = shop(DOWN)
    assert len(written(world.put("orders", (100, 10, 8), (101, 10, 8)))) == 3
    assert world.reads == {("prefixes", WHOLE.name): 1}
    world.check()


def test_a_direct_parent_without_a_view_index_uses_the_foreign_key_index():
    world = shop(views=[CUSTOMER_ORDERS])
    assert len(written(world.put("customer", (10, 1, 8)), CUSTOMER_ORDERS.name)) == 2
    assert world.reads == {
        ("prefixes", BASE_INDEXES[1].name): 1,
        ("get", CUSTOMER_ORDERS.name): 1,
    }
    world.check()


def test_without_readable_indexes_the_child_relation_is_scanned():
    unreadable = dict.fromkeys((i.name for i in BASE_INDEXES), State.BUILDING)
    world = shop(DOWN, states={**unreadable, DOWN.name: State.CATCHING_UP})
    assert len(written(world.put("country", (1, 8)))) == 3
    assert world.reads == {
        ("scan", "customer"): 1,
        ("scan", "orders"): 1,
        ("prefixes", "line"): 1,
        ("get", WHOLE.name): 1,
    }
    world.check()


def test_an_update_of_a_row_in_no_view_writes_the_base_row_only():
    world = shop(DOWN)
    assert [m.layout for m in world.put("country", (2, 8))] == ["country"]
    assert [m.layout for m in world.put("customer", (12, None, 8))] == ["customer"]
    world.check()


def test_a_subtree_moves_with_its_row():
    world = shop(DOWN, FROM_CUSTOMER)
    pairs = written(world.put("customer", (10, 2, 7)))
    assert [(old[0], new[0]) for old, new in pairs] == [(1, 2)] * 3
    assert not any(kind == "scan" for kind, _ in world.reads)
    assert all(count == 1 for count in world.reads.values())
    world.check()


def test_a_subtree_three_levels_deep_appears_and_disappears_with_a_null():
    world = shop(DOWN, FROM_CUSTOMER)
    mutations = world.put("customer", (12, 2, 7))
    assert [new[0] for _, new in written(mutations)] == [2]
    world.check()
    assert [new for _, new in written(world.put("customer", (12, None, 7)))] == [None]
    world.check()
    world.put("customer", (12, 1, 9), (10, None, 9))
    assert lines(world) == [(120, 1)]
    world.check()


def test_a_move_and_updates_above_and_below_are_one_mutation():
    world = shop(DOWN, FROM_CUSTOMER)
    mutations = world.commit({
        "country": {(1,): (1, 8), (2,): (2, 8)},
        "customer": {(10,): (10, 2, 8)},
        "orders": {(100,): (100, 10, 8)},
        "line": {(100, 1): (100, 1, 8)},
    })  # fmt: skip
    assert len(written(mutations)) == 3
    assert world.rows[WHOLE.name][100, 1] == (2, 8, 10, 2, 8, 100, 10, 8, 100, 1, 8)
    world.check()


def test_a_customer_and_its_order_may_be_updated_together():
    world = shop(DOWN, FROM_CUSTOMER)
    mutations = world.commit({
        "customer": {(10,): (10, 1, 8)}, "orders": {(100,): (100, 10, 8)},
    })  # fmt: skip
    assert len(written(mutations)) == 3
    assert world.rows[WHOLE.name][100, 1] == (1, 7, 10, 1, 8, 100, 10, 8, 100, 1, 7)
    world.check()


def test_rows_may_leave_and_enter_a_subtree_that_moves():
    world = shop(DOWN, FROM_CUSTOMER)
    world.commit({
        "customer": {(10,): (10, 2, 7), (11,): (11, None, 7)},
        "orders": {(100,): (100, 11, 7), (120,): (120, 10, 7)},
    })  # fmt: skip
    assert lines(world) == [(101, 1), (120, 1)]
    world.check()


def test_a_whole_chain_may_be_inserted_at_once():
    world = shop(DOWN, BY_VALUE)
    mutations = world.commit({
        "line": {(500, 1): (500, 1, 0)},
        "orders": {(500,): (500, 50, 0)},
        "customer": {(50,): (50, 5, 0)},
        "country": {(5,): (5, 0)},
    })  # fmt: skip
    assert written(mutations) == [(None, (5, 0, 50, 5, 0, 500, 50, 0, 500, 1, 0))]
    assert not world.reads
    world.check()


def test_a_whole_chain_may_be_deleted_at_once():
    world = shop(DOWN, BY_VALUE)
    mutations = world.commit({
        "customer": {(10,): None}, "orders": {(100,): None, (101,): None},
        "line": {(100, 1): None, (100, 2): None, (101, 1): None},
    })  # fmt: skip
    assert [new for _, new in written(mutations)] == [None] * 3
    world.check()


def test_children_of_a_deleted_row_may_be_set_to_null():
    world = shop(DOWN, BY_VALUE)
    world.commit({"customer": {(10,): None}, "orders": {(100,): (100, None, 7), (101,): None},
                  "line": {(101, 1): None}})  # fmt: skip
    assert lines(world) == []
    world.check()


def test_a_row_deleted_and_inserted_again_is_an_update():
    world = shop(DOWN, BY_VALUE)
    assert len(written(world.put("customer", (10, 2, 0)))) == 3
    world.check()


def test_a_change_of_a_key_moves_the_children():
    world = shop(DOWN, BY_VALUE)
    mutations = world.commit({
        "orders": {(100,): None, (900,): (900, 10, 7)},
        "line": {(100, 1): None, (100, 2): None, (900, 1): (900, 1, 7)},
    })  # fmt: skip
    assert len(written(mutations)) == 3
    world.check()


def test_a_building_view_is_written_but_never_read():
    states = {WHOLE.name: State.BUILDING, DOWN.name: State.BUILDING}
    world = shop(DOWN, BY_VALUE, states=states)
    world.put("country", (1, 8))
    world.put("customer", (10, 2, 8))
    world.put("customer", (12, 2, 8))
    world.put("line", (100, 1, 9))
    world.commit({"line": {(100, 2): None}})
    assert len(world.rows[WHOLE.name]) == 3
    world.check()


def test_views_and_indexes_that_are_not_maintained_are_not_written():
    states = {WHOLE.name: State.QUARANTINED, BASE_INDEXES[0].name: State.DROPPING}
    world = shop(DOWN, states=states)
    layouts = {m.layout for m in world.put("customer", (10, 2, 8))}
    assert layouts == {"customer"}


def test_many_rows_below_an_ancestor_are_read_in_parts():
    world = World(catalog(SCHEMA, [WHOLE], (*BASE_INDEXES, DOWN, BY_VALUE)))
    world.put("country", (1, 7))
    world.put("customer", (10, 1, 7))
    world.put("orders", *((i, 10, 7) for i in range(50)))
    world.put("line", *((i % 50, i, 7) for i in range(1000)))
    assert len(written(world.put("country", (1, 8)))) == 1000
    parts = -(-1000 // ROWS_A_TURN)
    assert world.reads == {("prefixes", DOWN.name): 1, ("get", WHOLE.name): parts}
    world.check()


def test_views_share_their_reads():
    views = [view(SCHEMA, *WHOLE.path[i:]) for i in range(3)]
    world = shop(DOWN, views=views)
    world.put("line", (100, 3, 5))
    assert world.reads == {("get", "orders"): 1, ("get", "customer"): 1, ("get", "country"): 1}
    world.check()


def test_a_self_reference_is_an_ordinary_column():
    employee = relation("employee", "e boss d", "e", ("boss", "employee", "e"),
                        ("d", "department", "d"))  # fmt: skip
    schema = Schema((relation("department", "d v", "d"), employee))
    world = World(
        catalog(schema, [view(schema, "department", "employee")], [index("employee", "d")])
    )
    world.put("department", (1, 0))
    world.put("employee", (1, None, 1), (2, 1, 1), (3, 3, None))
    world.put("employee", (2, 2, 1))
    world.put("department", (1, 1))
    assert len(world.rows["department-employee"]) == 2
    world.check()


def test_a_view_keyed_by_an_ancestor_key_needs_no_index():
    warehouse = relation("w", "w v", "w")
    district = relation("d", "w d v", "w d", ("w", "w", "w"))
    customer = relation("c", "c d w v", "w d c", ("w d", "d", "w d"))
    schema = Schema((warehouse, district, customer))
    world = World(catalog(schema, [view(schema, "w", "d", "c")]))
    world.put("w", (1, 0), (2, 0))
    world.put("d", (1, 2, 0), (2, 1, 0))
    world.put("c", (5, 2, 1, 0), (5, 1, 2, 0), (6, 1, 2, 0))
    assert len(written(world.put("w", (2, 9)), "w-d-c")) == 2
    assert world.reads == {("prefixes", "w-d-c"): 1}
    assert len(written(world.put("d", (2, 1, 9)), "w-d-c")) == 2
    assert world.reads == {("prefixes", "w-d-c"): 1}
    world.check()


def test_a_change_that_changes_nothing_writes_nothing():
    world = shop(DOWN)
    row = world.rows["country"][1,]
    mutations = asyncio.run(world.programs.mutations([Change("country", row, row)], world))
    assert mutations == []
