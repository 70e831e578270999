"""Which indexes are created, and for which purpose."""

import pytest

from hornbeam_server.schema.catalog import Purpose
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.viewselect.indexes import base_indexes
from hornbeam_server.viewselect.plan import PlanOptions, plan
from tests.viewselect.viewselect_world import (
    COMPANY,
    MICRO,
    PAPER_ROOTS,
    TPCW,
    TPCW_WORKLOAD,
    World,
)


def planned(ddl, workload, **options):
    world = World(ddl, workload)
    return plan(world.schema, world.bound, PlanOptions(**options), world.statistics)


def columns(found, purpose):
    """Return {index: its columns} of one purpose; a minus marks a descending column."""
    return {
        index.name: [("-" if part.descending else "") + part.column for part in index.columns]
        for index in found.indexes
        if index.purpose is purpose
    }


def test_foreign_keys_get_indexes_unless_a_key_or_index_begins_with_them():
    schema = load_ddl(
        MICRO + "CREATE TABLE note (n INTEGER PRIMARY KEY, n_o_id INTEGER REFERENCES orders);"
        "CREATE INDEX by_order ON note (n_o_id, n)"
    )
    found = {index.name: index for index in base_indexes(schema)}
    assert list(found) == ["by_order", "orders__by_o_c_id"]
    assert found["by_order"].purpose is Purpose.DECLARED
    assert found["orders__by_o_c_id"].purpose is Purpose.FOREIGN_KEY
    assert "customer" in found["orders__by_o_c_id"].reason


def test_self_references_get_an_index_too():
    schema = load_ddl("CREATE TABLE p (p INTEGER PRIMARY KEY, boss INTEGER REFERENCES p)")
    assert [index.name for index in base_indexes(schema)] == ["p__by_boss"]


def test_foreign_keys_over_the_same_columns_share_an_index():
    schema = load_ddl(
        "CREATE TABLE a (a INTEGER PRIMARY KEY); CREATE TABLE b (b INTEGER PRIMARY KEY);"
        "CREATE TABLE c (c INTEGER PRIMARY KEY, x INTEGER REFERENCES a,"
        " FOREIGN KEY (x) REFERENCES b)"
    )
    assert [index.name for index in base_indexes(schema)] == ["c__by_x"]


def test_an_unserved_filter_gets_a_covering_index():
    found = planned(MICRO, "-- name: q\nSELECT c_id FROM customer WHERE c_name = ?")
    (index,) = [i for i in found.indexes if i.purpose is Purpose.FILTER]
    assert (index.name, index.include) == ("customer__by_c_name", ())
    assert index.reason == "serves the filters of q"


def test_filters_on_a_key_or_an_index_get_no_other_index():
    found = planned(
        MICRO + "CREATE INDEX named ON customer (c_name)",
        "SELECT * FROM customer WHERE c_id = ?; SELECT * FROM customer WHERE c_name = ?;"
        "SELECT * FROM orders WHERE o_c_id = ?; SELECT * FROM order_line WHERE ol_o_id = ?",
    )
    assert not columns(found, Purpose.FILTER)


def test_an_index_has_equality_then_order_columns():
    found = planned(
        COMPANY,
        "SELECT * FROM employee WHERE ename = ? ORDER BY edno DESC, eid LIMIT 5",
    )
    assert columns(found, Purpose.FILTER) == {
        "employee__by_ename_edno_desc_eid": ["ename", "-edno", "eid"]
    }


def test_an_index_has_equality_then_range_columns():
    found = planned(
        COMPANY, "SELECT * FROM works_on WHERE hours > ? AND wo_pno + 0 = 1 AND hours < ?"
    )
    assert columns(found, Purpose.FILTER) == {"works_on__by_hours": ["hours"]}
    both = planned(COMPANY, "SELECT eid FROM employee WHERE ename = ? AND edno > ?")
    assert columns(both, Purpose.FILTER) == {"employee__by_ename_edno": ["ename", "edno"]}


def test_like_gets_an_index_only_with_a_literal_prefix():
    for pattern, made in (("?", False), ("'%x'", False), ("'ab%'", True)):
        found = planned(COMPANY, f"SELECT * FROM employee WHERE ename LIKE {pattern}")
        assert bool(columns(found, Purpose.FILTER)) is made, pattern


def test_indexes_with_a_common_prefix_are_merged():
    found = planned(
        COMPANY,
        "-- name: a\nSELECT street FROM address WHERE city = ?;"
        "-- name: b\nSELECT aid FROM address WHERE city = ? ORDER BY street LIMIT 3",
    )
    (index,) = [i for i in found.indexes if i.purpose is Purpose.FILTER]
    assert index.name == "address__by_city_street"
    assert index.reason in ("serves the filters of b, a", "serves the filters of a, b")


def test_a_view_index_serves_a_filter_on_an_ancestor_and_the_order():
    found = planned(TPCW, TPCW_WORKLOAD, roots=PAPER_ROOTS)
    made = columns(found, Purpose.VIEW)
    assert made["customer__orders__by_c_uname_o_date_desc_o_id_desc"] == [
        "c_uname", "-o_date", "-o_id",
    ]  # fmt: skip
    whole = found.catalog.index["author__item__by_i_subject_i_title"]
    assert len(found.catalog.layout(whole.name).columns) == 28, "SELECT * is covered"


def test_filters_served_by_a_view_need_no_base_index():
    found = planned(TPCW, TPCW_WORKLOAD, roots=PAPER_ROOTS)
    assert not any(name.startswith("item__by_i_subject") for name in found.catalog.index)
    assert "customer__by_c_uname" in columns(found, Purpose.FILTER)


def test_a_subquery_condition_gets_an_index_on_the_view():
    """Otherwise `orders.o_c_id IN (SELECT …)` would read the whole view."""
    often = TPCW_WORKLOAD.replace("admin_related\n", "admin_related\n-- weight: 20\n")
    found = planned(TPCW, often, roots=PAPER_ROOTS)
    assert "orders__order_line__by_o_c_id" in columns(found, Purpose.VIEW)


def test_updated_far_ancestors_get_maintenance_indexes():
    workload = (
        "-- weight: 100\nSELECT * FROM customer, orders, order_line"
        " WHERE c_id = o_c_id AND o_id = ol_o_id AND ol_o_id = ?;{}"
    )
    update = "UPDATE customer SET c_name = ? WHERE c_id = ?"
    never = planned(MICRO, workload.format("INSERT INTO customer VALUES (?, ?)"))
    assert [view.path for view in never.views] == [("customer", "orders", "order_line")]
    assert not columns(never, Purpose.MAINTENANCE)
    found = planned(MICRO, workload.format(update))
    assert columns(found, Purpose.MAINTENANCE) == {
        "customer__orders__order_line__by_c_id": ["c_id"]
    }


def test_a_view_index_replaces_a_maintenance_index():
    """The view index serves maintenance because o_c_id and c_id are equal in every view row."""
    found = planned(
        MICRO,
        "-- weight: 100\nSELECT * FROM customer, orders, order_line"
        " WHERE c_id = o_c_id AND o_id = ol_o_id AND c_id = ?;"
        "UPDATE customer SET c_name = ? WHERE c_id = ?",
    )
    assert [view.path for view in found.views] == [("customer", "orders", "order_line")]
    assert len(columns(found, Purpose.VIEW)) == 1
    assert not columns(found, Purpose.MAINTENANCE)


@pytest.mark.parametrize("column", ["d.dno", "e.edno"])
def test_of_columns_that_a_view_makes_equal_an_index_has_one(column):
    """Whichever of them the statement compares, and also in ORDER BY."""
    joins = (
        "SELECT * FROM department AS d, employee AS e, works_on AS wo"
        " WHERE d.dno = e.edno AND e.eid = wo.wo_eid"
    )
    found = planned(COMPANY, f"{joins} AND {column} = ?", roots=("address", "department"))
    assert columns(found, Purpose.VIEW) == {"department__employee__works_on__by_dno": ["dno"]}
    (query,) = found.explanation.queries
    assert query.indexes == ("department__employee__works_on__by_dno",)
    ordered = f"{joins} AND {column} = ? ORDER BY e.edno, d.dno, e.eid, wo_pno LIMIT 4"
    found = planned(COMPANY, ordered, roots=("address", "department"))
    assert columns(found, Purpose.VIEW) == {
        "department__employee__works_on__by_dno_eid_wo_pno": ["dno", "eid", "wo_pno"]
    }
    assert "in the wanted order" in found.explanation.queries[0].reads[0]


def test_a_key_serves_filters_of_a_column_that_the_view_makes_equal():
    """e.eid equals wo_eid, the first column of the view's key."""
    found = planned(
        COMPANY,
        "SELECT * FROM employee AS e, works_on AS wo WHERE e.eid = wo.wo_eid AND e.eid = ?",
    )
    assert [view.path for view in found.views] == [("employee", "works_on")]
    assert not columns(found, Purpose.VIEW)


def test_existing_names_are_avoided():
    found = planned(
        "CREATE TABLE a (x INTEGER PRIMARY KEY, y TEXT);"
        "CREATE TABLE a__by_y (z INTEGER PRIMARY KEY)",
        "SELECT x FROM a WHERE y = ?",
    )
    assert columns(found, Purpose.FILTER) == {"a__by_y_": ["y"]}
