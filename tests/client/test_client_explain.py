"""EXPLAIN and its options."""

from __future__ import annotations

import json
import re

import pytest

import hornbeam
from hornbeam.errors import DataError, NotSupportedError, ProgrammingError
from tests.client.client_world import embedded
from tests.client.test_client_views import rows, run


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    with hornbeam.connect(embedded(tmp_path_factory.mktemp("db")), autocommit=True) as connection:
        run(connection, "CREATE TABLE t (i INTEGER PRIMARY KEY, j TEXT)")
        run(connection, "CREATE TABLE s (k INTEGER PRIMARY KEY, i INTEGER)")
        run(connection, "INSERT INTO t SELECT i, 'x' FROM generate_series(1, 500) AS g (i)")
        run(connection, "INSERT INTO s SELECT i, i FROM generate_series(1, 20) AS g (i)")
        yield connection


def text(db, sql):
    return "\n".join(line for (line,) in rows(db, sql))


def test_analyze_counts_the_rows_and_the_time_of_each_step(db):
    found = text(db, "EXPLAIN ANALYZE SELECT j FROM s JOIN t ON t.i = s.i WHERE k <= 7")
    assert re.search(r"1\. s: key range of s.*7 rows in 1 read, \d+\.\d{3} ms\)", found)
    assert re.search(r"2\. t: row by key of t.*7 rows in 1 read, \d+\.\d{3} ms\)", found)
    assert re.search(r"result: 7 rows in \d+\.\d{3} ms, \d+\.\d{3} ms of it for reads", found)


def test_steps_over_one_relation_are_counted_apart(db):
    sql = "SELECT j FROM t WHERE i <= 3 AND j IN (SELECT j FROM t WHERE i <= 9)"
    counted = re.findall(r"\((\d+) rows in 1 read\)", text(db, f"EXPLAIN ({QUIET}) {sql}"))
    assert sorted(counted) == ["3", "9"]


def test_analyze_counts_what_duckdb_reads(db):
    sql = "SELECT i, row_number() OVER (ORDER BY j) FROM t WHERE i < 100"
    found = text(db, f"EXPLAIN ({QUIET}) {sql}")
    assert "1. t: key range of t, where i < 100 (99 rows in 1 read)" in found
    assert found.endswith("result: 99 rows")


def test_a_sort_that_spills_shows_the_plan_that_ran(db):
    run(db, "CREATE TABLE many (i INTEGER PRIMARY KEY, j INTEGER)")
    for start in range(0, 24_000, 12_000):
        series = f"generate_series({start}, {start + 11_999}) AS g (i)"
        run(db, f"INSERT INTO many SELECT i, -i FROM {series}")
    found = text(db, f"EXPLAIN ({QUIET}) SELECT i, j FROM many ORDER BY j")
    assert "in DuckDB, because of many rows" in found
    assert re.search(r"1\. many: scan of many.*\(24000 rows in", found)


QUIET = "ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF"


def test_options_choose_the_parts_of_the_text(db):
    sql = "SELECT i AS a FROM t WHERE i = 1"
    assert "(about 1 row)" in text(db, f"EXPLAIN {sql}")
    assert "about" not in text(db, f"EXPLAIN (COSTS OFF) {sql}")
    assert text(db, f"EXPLAIN ({QUIET}, ANALYZE FALSE) {sql}") == text(
        db, f"EXPLAIN (COSTS OFF) {sql}"
    )
    assert "output: a INTEGER" in text(db, f"EXPLAIN ANALYSE VERBOSE {sql}")
    assert "output: a INTEGER" in text(db, f"EXPLAIN VERBOSE {sql}")
    assert "ran" not in text(db, f"EXPLAIN VERBOSE {sql}")


def test_a_query_in_parentheses_is_no_list_of_options(db):
    assert text(db, "EXPLAIN (SELECT 1)")
    assert text(db, "EXPLAIN ((SELECT 1) UNION (SELECT 2))")


def test_json_is_one_row(db):
    ((found,),) = rows(db, "EXPLAIN (ANALYZE ON, FORMAT JSON) SELECT max(i) FROM t")
    (plan,) = json.loads(found) if isinstance(found, str) else found
    assert plan["ran"]["rows"] == 1
    assert plan["steps"][0]["read"]["rows"] == 1


def test_analyze_runs_the_query(db):
    with pytest.raises(DataError, match="Division by zero"):
        run(db, "EXPLAIN ANALYZE SELECT 1 / (i - i) FROM t")
    assert text(db, "EXPLAIN SELECT 1 / (i - i) FROM t")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ("(FORMAT XML)", NotSupportedError, "FORMAT XML of EXPLAIN is not supported"),
        ("(ANALYZE, BUFFERS)", NotSupportedError, "BUFFERS of EXPLAIN is not supported"),
        ("(TIMING)", ProgrammingError, "TIMING of EXPLAIN needs ANALYZE"),
        ("(SPEED)", ProgrammingError, "EXPLAIN has no option SPEED"),
        ("(ANALYZE maybe)", ProgrammingError, "ANALYZE of EXPLAIN is on or off"),
    ],
)
def test_other_options_are_refused(db, options, error, message):
    with pytest.raises(error, match=message):
        run(db, f"EXPLAIN {options} SELECT 1")


@pytest.mark.parametrize(
    ("statement", "strategy", "steps"),
    [
        ("INSERT INTO t (i) VALUES (901), (902)", "insert 2 rows into t", ()),
        ("INSERT INTO t SELECT i + 900, j FROM t WHERE i = 1", "into t: one access", ("i = 1",)),
        (
            "UPDATE t SET j = 'y' WHERE i = 7",
            "update one row of t by its key",
            ("row by key of t",),
        ),
        ("DELETE FROM t WHERE i > 3", "delete the rows of t that a query finds", ("key range",)),
        (
            "MERGE INTO t USING s ON t.i = s.i WHEN MATCHED THEN DELETE",
            "merge the rows of a query into t",
            ("scan of s", "row by key of t"),
        ),
        (
            "WITH g AS (DELETE FROM t WHERE i = 1 RETURNING i) INSERT INTO t (i) VALUES (901)",
            "delete one row of t by its key; insert 1 row into t",
            ("row by key of t",),
        ),
    ],
)
def test_a_write_is_explained_and_not_run(db, statement, strategy, steps):
    before = rows(db, "SELECT * FROM t ORDER BY i")
    lines = text(db, f"EXPLAIN {statement}").splitlines()
    assert strategy in next(line for line in lines if line.startswith("strategy: "))
    shown = [line for line in lines if line.startswith("  ")]
    assert len(shown) == len(steps)
    assert all(any(step in line for line in shown) for step in steps)
    assert rows(db, "SELECT * FROM t ORDER BY i") == before


def test_a_write_is_not_analyzed(db):
    with pytest.raises(NotSupportedError, match="EXPLAIN ANALYZE a query"):
        run(db, "EXPLAIN ANALYZE DELETE FROM t")
    assert rows(db, "SELECT count(*) FROM t") == [(500,)]
