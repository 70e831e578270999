"""A WHERE finds the same rows in UPDATE and DELETE as in SELECT, whatever it compares with."""

from contextlib import asynccontextmanager
from decimal import Decimal

import pytest

from hornbeam_server.schema.ddl import load_ddl
from tests.txlayer.database_world import catalog_of, opened, run_all

DDL = """
CREATE TABLE t (id INTEGER PRIMARY KEY, d DECIMAL(10,2), n VARCHAR(3));
CREATE TABLE wide (w_id INTEGER PRIMARY KEY, w_big BIGINT, w_d DECIMAL(20,2), w_n TEXT);
CREATE TABLE ts (k TIMESTAMP PRIMARY KEY, v INTEGER);
CREATE TABLE tz (k TIMESTAMP WITH TIME ZONE PRIMARY KEY, v INTEGER);
CREATE TABLE dk (k DATE PRIMARY KEY, v INTEGER);
CREATE TABLE p (k BYTEA PRIMARY KEY, v INTEGER);
CREATE TABLE de (k DECIMAL(10,2) PRIMARY KEY, v INTEGER);
"""
ROWS = (
    "INSERT INTO t VALUES (1, 1.00, 'abc')",
    "INSERT INTO wide VALUES (1, 1, 1.00, 'abc'), (2, 1099511627776, 123456789012345678, 'abcd')",
    "INSERT INTO ts VALUES (TIMESTAMP '2024-01-01', 1)",
    "INSERT INTO tz VALUES (TIMESTAMPTZ '2024-01-01 00:00:00+00', 1)",
    "INSERT INTO dk VALUES (DATE '2024-01-01', 1)",
    "INSERT INTO p VALUES ('abcd'::BLOB, 1), ('YWJjZA=='::BLOB, 2)",
    "INSERT INTO de VALUES (1.50, 1)",
)
MOMENTS = [
    "'2024-1-1'",
    "'2024-01-01'",
    "'2024-01-01 00:00:00'",
    "'2024-01-01 02:00:00+02'",
    "'2024-01-02'",
    "DATE '2024-01-01'",
    "TIMESTAMP '2024-01-01 00:00:00'",
    "TIMESTAMP '2024-01-01 00:00:01'",
    "TIMESTAMPTZ '2024-01-01 00:00:00+00'",
    "TIMESTAMPTZ '2024-01-01 02:00:00+02'",
    "TIMESTAMPTZ '2024-01-01 00:00:00+02'",
    "CURRENT_TIMESTAMP",
    "NULL",
]
KEYS = [
    *((relation, value) for relation in ("ts", "tz", "dk") for value in MOMENTS),
    *(("p", value) for value in ("'abcd'", "'abcd'::BLOB", "'YWJjZA=='", "'YWJjZA=='::BLOB")),
    *(("de", value) for value in ("1.5", "1.500", "1.504", "15e-1", "'1.5'", "-1.5")),
    *(("de", f"CAST(1.504 AS {type_})") for type_ in ("DECIMAL(9,2)", "DECIMAL(9,3)", "DOUBLE")),
]


@asynccontextmanager
async def on_rows(folder):
    async with opened(folder, catalog_of(load_ddl(DDL))) as database:
        await run_all(database, *ROWS)
        yield database


@pytest.mark.parametrize("left_to_duckdb", [False, True])
@pytest.mark.parametrize(
    ("condition", "value", "found"),
    [
        ("d = ?", Decimal("1.004"), 0),
        ("d < ?", Decimal("1.004"), 1),
        ("d = ?", Decimal("1.000"), 1),
        ("n <> ?", "abcdef", 1),
        ("n = ?", "abcdef", 0),
    ],
)
async def test_a_parameter_is_compared_without_conversion(
    tmp_path, condition, value, found, left_to_duckdb
):
    """A parameter rounded to the column's scale would delete a row that the WHERE does not match;
    one longer than the column's type must not be refused."""
    where = f"id = 1 AND {condition}" + (" AND md5(n) <> ''" if left_to_duckdb else "")
    async with on_rows(tmp_path) as database:
        done = await database.execute(f"DELETE FROM t WHERE {where}", [value])
        assert done.statements[0].affected == found


async def test_a_key_is_found_by_every_value_that_equals_it_in_sql(tmp_path):
    """Values are timestamps with and without zone, texts, and dates in all forms that SQL reads."""
    async with on_rows(tmp_path) as database:
        for relation, value in KEYS:
            condition = f"k = {value}"
            found = await database.fetch(f"SELECT k, v FROM {relation} WHERE {condition}")
            judged = await database.fetch(f"SELECT k, v, {condition} FROM {relation}")
            expected = [(k, v) for k, v, equal in judged if equal]
            done = await database.execute(
                f"UPDATE {relation} SET v = v WHERE {condition} RETURNING k, v"
            )
            assert list(done.statements[0].rows) == found == expected, f"{relation}: {condition}"


@pytest.mark.parametrize(
    ("sql", "value", "changed"),
    [
        ("UPDATE t SET n = 'x' WHERE id = :x AND d = :x", 1, 1),
        ("UPDATE t SET n = 'x' WHERE d = :x AND id = :x", 1, 1),
        ("UPDATE de SET v = 2 WHERE k = CAST(? AS DECIMAL(4,1))", Decimal("1.5"), 1),
        ("UPDATE de SET v = 2 WHERE k = CAST(? AS DOUBLE)", 1.5, 1),
        ("UPDATE p SET v = 3 WHERE k = ?", b"abcd", 1),
        ("UPDATE p SET v = 3 WHERE k = ?", "YWJjZA==", 1),
    ],
)
async def test_a_key_is_found_by_a_parameter(tmp_path, sql, value, changed):
    async with on_rows(tmp_path) as database:
        given = {"x": value} if ":x" in sql else [value]
        done = await database.execute(sql, given)
        assert done.statements[0].affected == changed


@pytest.mark.parametrize(
    "condition",
    [
        "id IN (SELECT w_big FROM wide)",
        "d IN (SELECT w_d FROM wide)",
        "n IN (SELECT w_n FROM wide)",
        "id IN (SELECT w_big FROM wide) AND d IN (SELECT w_d FROM wide)",
    ],
)
async def test_a_column_may_be_narrower_than_a_subquery(tmp_path, condition):
    """The values of the subquery need not fit into the column's type."""
    async with on_rows(tmp_path) as database:
        found = await database.fetch(f"SELECT avg(id) FROM t WHERE {condition}")
        assert found == [(1.0,)]
        done = await database.execute(f"DELETE FROM t WHERE {condition} AND md5(n) <> ''")
        assert done.statements[0].affected == 1
