"""Workload files and query logs."""

import re
from pathlib import Path

import pytest

from hornbeam_server.schema.catalog import WorkloadStatement
from hornbeam_server.schema.errors import SchemaError
from hornbeam_server.schema.workload import load_query_log, load_workload, weighted_by_log


def test_names_and_weights_are_read_and_semicolons_in_text_ignored() -> None:
    text = """-- A comment `-- name: X` names a statement; this line does not.
-- name: first
-- weight: 2.5
SELECT ';' AS "a;b" -- ; no end
 , /* ; */ $$ ; $$ FROM t;
SELECT 1; -- weight: 3
select :p, ?
-- name: inside
from t
;;
SELECT 2
"""
    assert load_workload(text) == (
        WorkloadStatement(
            "first", "SELECT ';' AS \"a;b\" -- ; no end\n , /* ; */ $$ ; $$ FROM t", 2.5
        ),
        WorkloadStatement("s1", "SELECT 1"),
        WorkloadStatement("inside", "select :p, ?\n-- name: inside\nfrom t", 3.0),
        WorkloadStatement("s2", "SELECT 2"),
    )


def test_generated_names_avoid_given_ones() -> None:
    loaded = load_workload("SELECT 1; -- name: s1\nSELECT 2; SELECT 3")
    assert [statement.name for statement in loaded] == ["s2", "s1", "s3"]


def test_annotations_inside_text_are_text() -> None:
    (statement,) = load_workload("SELECT '\n-- name: x\n'")
    assert statement == WorkloadStatement("s1", "SELECT '\n-- name: x\n'")


def test_the_tpcw_workload_is_read() -> None:
    file = Path(__file__).parents[2] / "demo" / "tpcw" / "workload.sql"
    loaded = load_workload(file.read_text())
    assert len(loaded) == len(re.findall("^-- name: ", file.read_text(), re.MULTILINE))
    assert loaded[0].name == "get_name"
    assert not any(statement.sql.endswith(";") for statement in loaded)


@pytest.mark.parametrize("text", ["", " -- nothing\n", ";;\n/* a */"])
def test_empty_text_has_no_statements(text: str) -> None:
    assert load_workload(text) == ()


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("-- name: a\nSELECT 1;\n  -- name: a\nSELECT 2", 3, 6, "Two statements are named a"),
        ("-- name: a\n-- name: b\nSELECT 1", 2, 4, "has two names"),
        ("SELECT 1;\n-- name: b\n", 2, 4, "belongs to no statement"),
        ("-- name: a b\nSELECT 1", 1, 4, "cannot name a statement"),
        ("-- name:\nSELECT 1", 1, 4, "cannot name a statement"),
        ("-- weight: many\nSELECT 1", 1, 4, "not a number"),
        ("-- weight: -1\nSELECT 1", 1, 4, "not a number"),
        ("-- weight: inf\nSELECT 1", 1, 4, "not a number"),
        ("SELECT 1;\nSELECT 'a", 2, 8, "not closed"),
    ],
)
def test_errors_state_file_line_and_column(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(SchemaError, match=message) as caught:
        load_workload(text, "app.sql")
    assert (caught.value.file, caught.value.line, caught.value.column) == ("app.sql", line, column)
    assert caught.value.cure


def test_a_log_is_grouped_by_statement_without_constants() -> None:
    lines = [
        "SELECT a FROM t WHERE b = 5 AND c = 'x'",
        "select a from t   where b = -7 and c = 'y' -- again",
        "BEGIN",
        '{"sql": "SELECT a FROM t WHERE b = $1 AND c = :c", "count": 40, "user": "me"}',
        "",
        "UPDATE t SET a = 1.5 WHERE d = DATE '2024-01-01'; COMMIT",
        "UPDATE t SET a = ? WHERE d = ?",
    ]
    assert load_query_log(lines) == (
        WorkloadStatement("s1", "SELECT a FROM t WHERE b = ? AND c = ?", 42.0),
        WorkloadStatement("s2", "UPDATE t SET a = ? WHERE d = ?", 2.0),
    )


def test_numbers_with_syntactic_meaning_are_kept() -> None:
    sql = (
        "SELECT CAST(a AS DECIMAL(10, 2)), d + INTERVAL '1' DAY FROM t "
        "GROUP BY 1, 2 ORDER BY 2 DESC LIMIT 10"
    )
    (statement,) = load_query_log([sql])
    assert statement.sql == sql.replace("LIMIT 10", "LIMIT ?")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"sql": 3}', "not an entry"),
        ('{"count": 3}', "not an entry"),
        ('{"sql": "SELECT 1", "count": -3}', "negative"),
        ("SELECT FROM WHERE", "not SQL"),
        ("SELECT 'a", "not SQL"),
    ],
)
def test_a_bad_line_is_named(line: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message) as caught:
        load_query_log(["SELECT 1", line], "app.log")
    assert (caught.value.file, caught.value.line) == ("app.log", 2)


def test_a_query_log_weighs_named_statements_and_adds_the_others():
    workload = load_workload(
        "-- name: by_id\nSELECT a FROM t WHERE id = ?;\n-- name: idle\nSELECT 1;"
    )
    log = load_query_log(
        ["select a from t where id = 7", "SELECT a FROM t WHERE id = 8", "SELECT b FROM t"]
    )
    weighted = weighted_by_log(workload, log)
    assert [(s.name, s.weight) for s in weighted] == [("by_id", 2.0), ("idle", 1.0), ("log1", 1.0)]
    assert weighted[0].sql == workload[0].sql
