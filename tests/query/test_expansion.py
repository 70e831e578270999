"""Law: a nest of calls costs time and text in proportion to its length.

A macro of DuckDB copies its arguments, and a rule of types may ask for the same part twice. In a
nest, both would double at each level.
"""

from __future__ import annotations

import time

import pytest
from sqlglot import exp

from hornbeam_server.query.binding.binder import bind
from hornbeam_server.query.dialect.duckdb_sql import duckdb_sql
from hornbeam_server.query.dialect.expansion import LARGE, copies_of
from hornbeam_server.query.dialect.macros import definitions
from hornbeam_server.query.parsing.parse import parse
from hornbeam_server.query.planner import plan_residual
from hornbeam_server.schema.errors import SqlError
from tests.duckdb_oracle import connect
from tests.query.query_world import make_catalog

CATALOG = make_catalog()
ROWS = """
SELECT 5 AS i_id, 'ab' AS i_title, CAST(1.5 AS DECIMAL(10, 2)) AS i_price,
    DATE '2024-05-06' AS i_pub
"""
NESTS = {
    "arrays": ("ARRAY[i_id]", "({} || ARRAY[1])"),
    "elements": ("ARRAY[i_id]", "({} || 1)"),
    "texts": ("i_title", "({} || 'x')"),
    "a value of any type": ("i_id", "({} || i_title)"),
    "documents": ("to_jsonb(i_id)", "({} || '[1]'::jsonb)"),
    "of any type": ("i_id", "to_jsonb({})"),
    "jsonb_set": ("jsonb_build_object('a', i_id)", "jsonb_set({}, '{{a}}', '1')"),
    "branches": ("i_id", "CASE WHEN i_id = 1 THEN {} ELSE 0 END"),
    "conditions": ("i_id", "CASE WHEN {} = 1 THEN 1 ELSE 0 END"),
    "operands": ("i_id", "CASE {} WHEN 1 THEN 2 WHEN 3 THEN 4 ELSE 0 END"),
    "coalesce": ("i_id", "coalesce({}, 1)"),
    "nullif": ("i_id", "nullif({}, 1)"),
    "in": ("i_id", "CAST({} IN (1, 2) AS INTEGER)"),
    "between": ("i_id", "CAST({} BETWEEN 1 AND 2 AS INTEGER)"),
    "symmetric": ("i_id", "CAST({} BETWEEN SYMMETRIC 1 AND 2 AS INTEGER)"),
    "symmetric bounds": ("i_id", "CAST(1 BETWEEN SYMMETRIC {} AND 2 AS INTEGER)"),
    "numbers and texts": ("i_id", "CAST(CAST({} AS TEXT) AS INTEGER)"),
    "times and texts": ("'2024-01-01'", "CAST(CAST({} AS TIMESTAMP) AS TEXT)"),
    "shifts": ("i_id", "({} << 1)"),
    "quotients": ("i_price", "({} / 2)"),
    "slices": ("ARRAY[i_id]", "({})[1:2]"),
    "justify_interval": ("INTERVAL '1 day'", "justify_interval({})"),
    "substring": ("i_title", "substring({} from 0 for 3)"),
    "position": ("i_title", "CAST(position('a' in {}) AS TEXT)"),
    "overlay": ("i_title", "overlay({} placing 'a' from 1)"),
    "to_hex": ("i_id", "length(to_hex({}))"),
    "format": ("i_title", "format('%s', {})"),
    "initcap": ("i_title", "initcap({})"),
    "lpad": ("i_title", "lpad({}, 3, 'x')"),
    "pg_typeof": ("i_title", "CAST(pg_typeof({}) AS TEXT)"),
    "split_part": ("i_title", "split_part({}, ',', 1)"),
    "array_to_string": ("i_title", "array_to_string(ARRAY[{}], ',')"),
    "string_to_array": ("i_title", "array_to_string(string_to_array({}, ','), ',')"),
    "array_positions": ("ARRAY[1]", "array_positions({}, 2)"),
}  # fmt: skip
DEPTH = 20


def _nest(name: str, depth: int) -> str:
    value, step = NESTS[name]
    for _ in range(depth):
        value = step.format(value)
    return f"SELECT {value} AS v FROM item"


def _written(sql: str) -> str:
    return plan_residual(bind(sql, CATALOG), CATALOG, "a test").sql


@pytest.fixture(scope="module")
def database():
    plan = plan_residual(bind("SELECT i_id FROM item", CATALOG), CATALOG, "a test")
    ((read,),) = plan.blocks
    with connect() as connection:
        connection.execute(f'CREATE TABLE "{read.name}" AS {ROWS}')
        yield connection


@pytest.mark.parametrize("name", NESTS)
def test_a_nest_of_calls_is_planned_and_run_in_proportion_to_its_length(database, name):
    started = time.process_time()
    half, whole = _written(_nest(name, DEPTH // 2)), _written(_nest(name, DEPTH))
    assert len(whole) < 3 * len(half) + 5_000
    (plain,) = database.execute(_written(_nest(name, 1))).fetchone()
    (deep,) = database.execute(whole).fetchone()
    assert type(plain) is type(deep)
    assert time.process_time() - started < 10


def test_a_large_statement_computes_each_argument_once_and_has_the_same_value(database):
    text = f"SELECT {'nullif(' * 3}2 + 3{', 1)' * 3}, {'nullif(' * 30}2 + 3{', 1)' * 30}"
    written = _written(text)
    assert written.lower().count("list_transform") > 10
    assert database.execute(written).fetchall() == [(5, 5)]
    branch = f"CASE {'nullif(' * 30}2 + 3{', 1)' * 30} WHEN 1 THEN 1 WHEN 5 THEN count(*) END"
    assert database.execute(_written(f"SELECT {branch}")).fetchall() == [(1,)]


def test_a_small_statement_is_left_as_it_is():
    written = _written("SELECT nullif(nullif(i_id, 1), 2) FROM item")
    assert "list_transform" not in written.lower()


@pytest.mark.parametrize("name", ["date", "text", "list"])
def test_a_nest_that_the_parser_reads_again_and_again_is_refused(name):
    sql = "1"
    for _ in range(60):
        sql = f"{name}[{sql}]"
    started = time.process_time()
    with pytest.raises(SqlError):
        bind(f"SELECT {sql} FROM item", CATALOG)
    assert time.process_time() - started < 2


def test_the_copies_of_a_macro_include_those_of_the_macros_that_it_calls():
    assert copies_of("hornbeam_array_contained") == copies_of("hornbeam_array_contains") == 3
    assert copies_of("abs") == 1
    assert all(copies_of(name) < LARGE for name in definitions())


def test_aggregates_over_subqueries_with_aggregates_are_refused():
    sql = "1"
    for _ in range(30):
        sql = f"(SELECT sum({sql}))"
    with pytest.raises(SqlError, match="has a subquery"):
        _written(f"SELECT {sql}")


def test_symmetric_bounds_are_written_as_they_are_read():
    tree = bind("SELECT i_id BETWEEN SYMMETRIC 3 AND 1 FROM item", CATALOG).ast
    assert isinstance(tree.expressions[0].unalias(), exp.Between)
    assert "hornbeam_between_symmetric(" in duckdb_sql(tree).lower()


def test_nested_casts_to_text_are_not_copied_at_each_level(monkeypatch):
    """A copy at each level would cost time in proportion to the square of the depth."""
    tree, copied = parse("SELECT " + "CAST(" * 90 + "s" + " AS VARCHAR(9))" * 90 + " FROM t"), []
    copy = exp.Cast.copy
    monkeypatch.setattr(exp.Cast, "copy", lambda node: copied.append(node) or copy(node))
    assert duckdb_sql(tree).count("CAST(") == 90
    assert not copied
