"""Aggregate views from the workload: the candidates, their costs, the choice, and its reasons."""

from __future__ import annotations

import pytest

from hornbeam_server.node.schema_plans import PlanRequest, plan_schema, stored_view
from hornbeam_server.query.binding.algebra import StatementKind
from hornbeam_server.schema.catalog import Catalog, Forest
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.model import Schema
from hornbeam_server.viewselect.aggregate_cost import groups_of, upkeep_of
from hornbeam_server.viewselect.aggregates import AggregateInputs
from hornbeam_server.viewselect.cost import Objective
from hornbeam_server.viewselect.plan import PlanOptions, plan
from hornbeam_server.viewselect.statistics import Statistics
from hornbeam_server.viewselect.workload import Write, read_workload
from tests.viewselect.viewselect_world import bound, outputs_by_hash_seed

SHOP = """
CREATE TABLE kind (k_id INTEGER PRIMARY KEY, k_name TEXT, k_old BOOLEAN);
CREATE TABLE item (i_id INTEGER PRIMARY KEY, i_k_id INTEGER NOT NULL REFERENCES kind, i_size TEXT);
CREATE TABLE sale (s_id INTEGER PRIMARY KEY, s_i_id INTEGER NOT NULL REFERENCES item,
  s_day DATE, s_state TEXT, s_qty INTEGER, s_price DECIMAL(9,2), s_weight DOUBLE);
"""
ROWS = {"kind": 100, "item": 2_500, "sale": 90_000}
JOINED = "FROM sale JOIN item ON s_i_id = i_id JOIN kind ON i_k_id = k_id"


def searched(workload, ddl=SHOP, **options):
    """The objective with the candidates of a workload."""
    schema = load_ddl(ddl)
    base = Catalog(0, schema, Forest(schema.names))
    statements = bound(schema, workload)
    return Objective(
        schema, read_workload(schema, statements), Statistics(ROWS), None,
        AggregateInputs(base, stored_view, **options),
    )  # fmt: skip


def candidates(workload, **options):
    """The SELECTs of the candidates, by name."""
    found = searched(workload, **options).aggregates.candidates
    return {each.name: " ".join(each.view.declared.sql.split()) for each in found}


def planned(workload, ddl=SHOP, **options):
    schema = load_ddl(ddl)
    base = Catalog(0, schema, Forest(schema.names))
    return plan(
        schema, bound(schema, workload), PlanOptions(**options), Statistics(ROWS),
        inputs=AggregateInputs(base, stored_view),
    )  # fmt: skip


def chosen(found):
    return [view.name for view in found.aggregates]


# -- candidates


def test_parameters_become_leading_groups_and_constants_a_filter():
    sql = (
        f"SELECT i_size, sum(s_qty) {JOINED}"
        " WHERE s_state <> 'open' AND s_day > ? AND k_name = ? GROUP BY i_size"
    )
    assert candidates(sql) == {
        "sale__item__kind__by_k_name_s_day_i_size": (
            "SELECT k_name AS k_name, s_day AS s_day, i_size AS i_size, count(*) AS row_count,"
            f" sum(s_qty) AS sum_s_qty {JOINED} WHERE (s_state <> 'open')"
            " GROUP BY k_name, s_day, i_size"
        )
    }


def test_a_subquery_makes_its_condition_vary():
    sql = "SELECT count(*) FROM sale WHERE s_i_id > (SELECT max(i_id) - 9 FROM item)"
    assert list(candidates(sql)) == ["sale__grouped_by_s_i_id"]


def test_columns_that_joins_make_equal_have_one_name():
    one = "SELECT i_id, count(*) FROM sale, item WHERE s_i_id = i_id GROUP BY i_id;"
    other = "SELECT sum(s_qty) FROM item i JOIN sale s ON i.i_id = s.s_i_id WHERE s.s_i_id = ?;"
    (sql,) = candidates(one + other).values()
    assert "s_i_id AS s_i_id, count(*) AS row_count, sum(s_qty) AS sum_s_qty" in sql


def test_equal_groups_share_one_candidate_and_others_have_a_common_one():
    workload = (
        "SELECT s_day, sum(s_qty) FROM sale GROUP BY s_day;"
        "SELECT count(s_price) FROM sale WHERE s_day = ?;"
        "SELECT s_state, max(s_price) FROM sale GROUP BY s_state;"
    )
    found = candidates(workload)
    assert set(found) == {
        "sale__grouped_by_s_day",
        "sale__grouped_by_s_state",
        "sale__grouped_by_s_day_s_state",
    }
    assert "count(s_price)" in found["sale__grouped_by_s_day"]
    assert "sum(s_qty)" in found["sale__grouped_by_s_day"]
    for call in ("count(s_price)", "sum(s_qty)", "max(s_price)"):
        assert call in found["sale__grouped_by_s_day_s_state"]


def test_an_average_is_kept_as_a_sum_and_a_count():
    inputs = "SELECT s_day, avg(s_qty), count(*) FROM sale GROUP BY s_day;"
    found = searched(inputs + "SELECT sum(s_qty), count(*) FROM sale WHERE s_day = ?")
    (view,) = found.aggregates.candidates
    assert "sum(s_qty) AS sum_s_qty" in view.view.declared.sql
    assert "avg" not in view.view.declared.sql


def test_relations_that_occur_twice_have_numbered_aliases():
    ddl = SHOP.replace("s_day DATE", "s_gift INTEGER NOT NULL REFERENCES item, s_day DATE")
    workload = (
        "SELECT a.i_size, b.i_size, count(*) FROM sale, item a, item b"
        " WHERE s_i_id = a.i_id AND s_gift = b.i_id GROUP BY a.i_size, b.i_size"
    )
    (sql,) = candidates(workload, ddl=ddl).values()
    assert "item_1.i_size AS i_size" in sql
    assert "item_2.i_size AS i_size_" in sql


def test_expressions_are_grouped_and_named():
    sql = "SELECT lower(s_state), count(*) FROM sale GROUP BY lower(s_state)"
    found = candidates(sql)
    assert list(found) == ["sale__grouped_by_value"]
    assert "AS group_1" in found["sale__grouped_by_value"]


def test_a_maximum_at_the_end_of_a_key_needs_no_view():
    found = searched("SELECT max(s_id) FROM sale")
    assert not found.aggregates.candidates
    assert found.score(()).blocks[0].cost < 30
    assert "one row at the end of a key" in planned("SELECT max(s_id) FROM sale").text()


def test_names_avoid_those_of_the_schema():
    ddl = SHOP + "CREATE TABLE sale__grouped_by_s_day (x INTEGER PRIMARY KEY);"
    found = candidates("SELECT s_day, count(*) FROM sale GROUP BY s_day", ddl=ddl)
    assert list(found) == ["sale__grouped_by_s_day_"]


def test_a_candidate_that_exists_has_its_name():
    workload = "SELECT s_day, count(*) FROM sale GROUP BY s_day"
    ((_, view),) = [(v.name, v.view) for v in searched(workload).aggregates.candidates]
    assert list(candidates(workload, stored={"mine": view.declared.sql})) == ["mine"]


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT s_day, sum(s_weight) FROM sale GROUP BY s_day", "of DOUBLE"),
        ("SELECT string_agg(s_state, ',') FROM sale", "does not follow from counts"),
        ("SELECT s_qty + ?, count(*) FROM sale GROUP BY s_qty + ?", "parameter"),
        ("SELECT sum(s_qty + ?) FROM sale", "an aggregate has a parameter"),
        ("SELECT count(*) FROM sale, item WHERE s_qty = i_id", "No single relation"),
        ("SELECT count(*) FROM sale LEFT JOIN item ON s_i_id = i_id", "outer"),
        ("SELECT count(DISTINCT s_qty) FROM sale WHERE s_day > ?", "equal groups only"),
    ],
)
def test_the_plan_says_why_a_block_has_no_view(sql, why):
    found = planned(f"-- name: q\n{sql}")
    (query,) = found.explanation.queries
    assert not found.aggregates
    assert any(why in words for words in query.aggregates), query.aggregates
    assert f"aggregates: {query.aggregates[0]}" in found.text()


# -- costs


@pytest.mark.parametrize(
    ("columns", "groups"),
    [
        ("s_id", 90_000),
        ("s_i_id", 2_500),
        ("s_i_id, i_size, k_name", 2_500),
        ("k_old", 2),
        ("k_id, k_name", 100),
        ("k_name", 10),
        ("i_size", 50),
        ("k_name, i_size", 500),
        ("s_day, s_i_id", 90_000),
    ],
)
def test_groups_are_estimated_from_keys_and_foreign_keys(columns, groups):
    found = searched(f"SELECT {columns}, count(*) {JOINED} GROUP BY {columns}").aggregates
    (view,) = found.candidates
    assert view.groups == groups
    assert groups_of(view.grouping, load_ddl(SHOP), ROWS) == groups


def test_upkeep_follows_what_a_write_changes():
    objective = searched(f"SELECT k_name, sum(s_qty) {JOINED} GROUP BY k_name")
    (view,) = objective.aggregates.candidates

    def cost(kind, relation, *columns, rows=1.0):
        write = Write("w", kind, relation, 1.0, rows, frozenset(columns))
        return upkeep_of(view.view, view.grouping, view.groups, ROWS, write)

    insert, update, delete = StatementKind.INSERT, StatementKind.UPDATE, StatementKind.DELETE
    assert cost(update, "sale", "s_state") == cost(update, "item", "i_size") == 0
    assert cost(insert, "item") == cost(insert, "kind") == cost(delete, "kind") == 0
    assert cost(insert, "sale") == cost(delete, "sale") == cost(update, "sale", "s_qty") > 0
    many = cost(delete, "sale", rows=1_000.0)
    assert many < 1_000 * cost(insert, "sale"), "one put for each group"
    assert cost(update, "kind", "k_name") > cost(update, "item", "i_k_id") > cost(insert, "sale")


def test_storage_counts_cells_and_values():
    objective = searched("SELECT k_name, sum(s_qty) " + JOINED + " GROUP BY k_name")
    valued = searched("SELECT k_name, max(s_qty) " + JOINED + " GROUP BY k_name")
    sizes = [o.score(o.aggregates.candidates).size for o in (objective, valued)]
    assert 500 < sizes[0] < 5_000
    assert sizes[1] > 10 * sizes[0], "a maximum stores the values of its groups"


# -- choice

READS = f"-- name: q\nSELECT k_name, sum(s_qty) {JOINED} GROUP BY k_name;\n"
WRITES = "-- weight: {}\nINSERT INTO sale VALUES (?, ?, ?, ?, ?, ?, ?);"


def test_a_view_is_chosen_if_its_upkeep_pays():
    seldom, often = (planned(READS + WRITES.format(weight)) for weight in (1, 100))
    assert chosen(seldom) == ["sale__item__kind__by_k_name"]
    (query,) = seldom.explanation.queries
    assert query.views == ("sale__item__kind__by_k_name",)
    assert query.cost < query.base_cost / 100
    assert query.reads == ("sale__item__kind__by_k_name: all of it",)
    assert not chosen(often)
    (query,) = often.explanation.queries
    assert query.aggregates == ("view sale__item__kind__by_k_name was dropped: it does not pay",)


def test_an_aggregate_view_drops_join_views_that_served_only_its_block():
    joins = planned(READS, aggregates=False)
    assert joins.views
    assert not joins.aggregates
    both = planned(READS)
    assert chosen(both)
    assert not both.views


def test_a_finer_view_replaces_two_if_that_is_better():
    workload = (
        "SELECT k_name, count(*) {0} GROUP BY k_name; SELECT k_old, count(*) {0} GROUP BY k_old;"
    )
    found = planned(workload.format(JOINED) + WRITES.format(8))
    assert chosen(found) == ["sale__item__kind__by_k_name_k_old"]


def test_a_declared_view_that_answers_is_used_and_no_second_one_proposed():
    view = (
        "CREATE MATERIALIZED VIEW mine WITH (refresh = 'immediate') AS"
        f" SELECT k_name, sum(s_qty) AS qty {JOINED} GROUP BY k_name;"
    )
    found = planned(READS, ddl=SHOP + view)
    assert not found.aggregates
    (query,) = found.explanation.queries
    assert query.views == ("mine",)
    assert query.cost == query.base_cost
    assert not query.aggregates


def test_a_statement_may_read_declared_views_beside_its_aggregates():
    view = (
        "CREATE MATERIALIZED VIEW mine WITH (refresh = 'immediate') AS"
        " SELECT s_state, count(*) AS n FROM sale GROUP BY s_state;"
    )
    sql = "SELECT s_day FROM sale GROUP BY s_day HAVING count(*) > (SELECT max(n) FROM mine)"
    request = PlanRequest(SHOP + view, sql, row_counts=ROWS)
    found = plan_schema(request, Catalog(0, Schema(()), Forest(()))).plan
    assert chosen(found) == ["sale__grouped_by_s_day"]
    assert found.explanation.queries[0].deferred == ("mine",)


def test_the_method_of_the_paper_and_a_budget_of_zero_choose_none():
    assert not planned(READS, method="paper").aggregates
    none = planned(READS, budget=0.0)
    assert not none.aggregates
    assert "was dropped: the budget" in none.explanation.queries[0].aggregates[0]


def test_the_plan_shows_aggregate_views_in_all_its_forms():
    found = planned(READS)
    (name,) = chosen(found)
    (view,) = [view for view in found.json()["views"] if view["sql"]]
    assert view["name"] == name
    assert view["path"] == ("sale", "item", "kind")
    assert view["serves"] == ("q",)
    assert view["value"] > 0
    assert f"{name}: SELECT k_name AS k_name, count(*)" in found.text()
    assert f"Σ {name}" in found.svg()
    assert f"Σ {name}" in found.mermaid()


def test_a_plan_with_aggregates_does_not_depend_on_hash_seeds():
    script = (
        "from tests.viewselect.test_viewselect_aggregates import *\n"
        "from tests.viewselect.viewselect_world import TPCW, TPCW_WORKLOAD\n"
        "from hornbeam_server.demo.tpcw import TOTALS\n"
        "print(planned(TPCW_WORKLOAD + TOTALS.read_text(), ddl=TPCW).text())\n"
    )
    assert len(outputs_by_hash_seed(script)) == 1
