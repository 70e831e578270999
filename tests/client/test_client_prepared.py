"""PREPARE, EXECUTE and DEALLOCATE on a connection, and statements that have nothing to do."""

from __future__ import annotations

import datetime as dt

import pytest

import hornbeam
from hornbeam.errors import NotSupportedError, ProgrammingError
from tests.client.client_world import embedded
from tests.client.test_client_views import rows, run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("db")


@pytest.fixture
def db(folder):
    with hornbeam.connect(embedded(folder), autocommit=True) as connection:
        run(connection, "DROP TABLE IF EXISTS t")
        run(connection, "CREATE TABLE t (i INTEGER PRIMARY KEY, j TEXT, d DATE)")
        run(connection, "INSERT INTO t VALUES (1, 'a', '2024-01-01'), (2, 'b', NULL)")
        yield connection


def test_a_prepared_query_takes_values_in_any_order_and_number(db):
    run(db, "PREPARE q AS SELECT i, $2 FROM t WHERE i = $1 OR i = $1 + 1 OR j = $2 ORDER BY i;")
    assert rows(db, "EXECUTE q (1, 'x')") == [(1, "x"), (2, "x")]
    assert rows(db, "execute Q(0 + 2, lower('A'))") == [(1, "a"), (2, "a")]


def test_values_are_cast_to_the_declared_types(db):
    run(db, "PREPARE q (DATE, unknown) AS SELECT $1, $2")
    assert rows(db, "EXECUTE q ('2024-02-29', 5)") == [(dt.date(2024, 2, 29), 5)]
    run(db, "PREPARE w (INTEGER, TEXT, DATE) AS INSERT INTO t VALUES ($1, $2, $3) RETURNING d")
    assert rows(db, "EXECUTE w (3, ';', '2024-03-01')") == [(dt.date(2024, 3, 1),)]
    assert rows(db, "EXECUTE w ('4', NULL, NULL)") == [(None,)]


def test_signs_in_texts_slices_and_limits_are_no_trap(db):
    run(db, "PREPARE q AS SELECT (ARRAY[1, 2, 3])[$1:$2], '$1', $$ $1 $$ LIMIT $1")
    assert rows(db, "EXECUTE q (2, 3)") == [([2, 3], "$1", " $1 ")]


def test_execute_takes_parameters_of_the_client(db):
    run(db, "PREPARE q AS SELECT j FROM t WHERE i = $1")
    assert db.cursor().execute("EXECUTE q (? + 1)", [1]).fetchall() == [("b",)]


def test_a_statement_without_values_has_none(db):
    run(db, "PREPARE q AS SELECT count(*) FROM t")
    assert rows(db, "EXECUTE q") == rows(db, "EXECUTE q ()") == [(2,)]


def test_a_prepared_write_is_part_of_its_transaction(db):
    run(db, "PREPARE w AS UPDATE t SET j = $2 WHERE i = $1")
    run(db, "BEGIN")
    assert run(db, "EXECUTE w (1, 'new')").rowcount == 1
    run(db, "ROLLBACK")
    assert rows(db, "SELECT j FROM t WHERE i = 1") == [("a",)]
    assert run(db, "EXECUTE w (1, 'new')").rowcount == 1  # it outlives the transaction
    assert rows(db, "SELECT j FROM t WHERE i = 1") == [("new",)]


def test_values_of_execute_may_have_comments(db):
    run(db, "PREPARE q (INTEGER, INTEGER) AS SELECT $1 + $2")
    assert rows(db, "EXECUTE q (1 -- one\n, /* two */ 2 -- two\n)") == [(3,)]


def test_explain_shows_the_plan_of_execute(db):
    run(db, "PREPARE q AS SELECT j FROM t WHERE i = $1")
    assert any("row by key of t" in line for (line,) in rows(db, "EXPLAIN EXECUTE q (1)"))


def test_names_are_given_once_and_can_be_forgotten(db):
    run(db, "PREPARE q AS SELECT 1")
    with pytest.raises(ProgrammingError, match="There is a prepared statement q already"):
        run(db, "PREPARE q AS SELECT 2")
    run(db, "DEALLOCATE PREPARE q")
    with pytest.raises(ProgrammingError, match="There is no prepared statement q"):
        run(db, "DEALLOCATE q")
    run(db, 'PREPARE "Q" AS SELECT 2')
    run(db, "DEALLOCATE ALL")
    with pytest.raises(ProgrammingError, match="There is no prepared statement Q"):
        run(db, 'EXECUTE "Q"')


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("PREPARE q AS SELECT nothing FROM t", "Column nothing is unknown"),
        ("PREPARE q AS SELECT $0", "There is no value \\$0"),
        ("PREPARE q", "This PREPARE cannot be read"),
        ("PREPARE q (INTEGER AS SELECT 1", "This PREPARE cannot be read"),
        ("EXECUTE two (1)", "two takes 2 values, not 1"),
        ("EXECUTE two (1, 2, 3)", "two takes 2 values, not 3"),
        ("EXECUTE two 1", "This EXECUTE cannot be read"),
        ("DEALLOCATE", "This DEALLOCATE cannot be read"),
        ("VACUUM nothing", "Relation nothing is unknown"),
    ],
)
def test_a_wrong_statement_is_refused(db, sql, message):
    run(db, "PREPARE two AS SELECT $1, $2")
    with pytest.raises(ProgrammingError, match=message):
        run(db, sql)


def test_only_queries_and_writes_are_prepared(db):
    with pytest.raises(NotSupportedError, match="PREPARE takes a query, INSERT"):
        run(db, "PREPARE q AS CREATE TABLE u (i INTEGER)")


@pytest.mark.parametrize(
    ("sql", "notice"),
    [
        ("VACUUM", "VACUUM has nothing to do"),
        ("vacuum (full, analyze) public.t (i, j), t", "VACUUM has nothing to do"),
        ("VACUUM FULL VERBOSE t", "VACUUM has nothing to do"),
        ("ANALYSE t (i)", "ANALYZE has nothing to do"),
        ("CHECKPOINT;", "CHECKPOINT has nothing to do"),
    ],
)
def test_upkeep_reports_that_there_is_nothing_to_do(db, sql, notice):
    cursor = run(db, sql)
    assert cursor.description is None
    assert cursor.notice.startswith(notice)
    assert cursor.execute("SELECT 1").notice == ""


@pytest.mark.parametrize(
    ("sql", "cure"),
    [("COPY t TO STDOUT", "hornbeam load"), ("FLUSH", "Leave it out"), ("USE x", "Connect")],
)
def test_other_statements_are_refused_with_a_cure(db, sql, cure):
    with pytest.raises(NotSupportedError, match=cure):
        run(db, sql)
