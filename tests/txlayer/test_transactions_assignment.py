"""Expressions assigned to columns of dates, timestamps and numbers: as DuckDB casts them."""

import datetime as dt
from contextlib import asynccontextmanager
from decimal import Decimal

import duckdb
import pytest

from hornbeam_server.query.duckdb import scalar
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import SqlError
from hornbeam_server.txlayer.statements import write_expressions
from hornbeam_server.txlayer.statements.requests import Statement, TransactionRequest
from tests.txlayer.database_world import catalog_of, opened, run_all

DDL = """
CREATE TABLE moments (
  m_id INTEGER PRIMARY KEY, m_day DATE, m_at TIMESTAMP, m_instant TIMESTAMP WITH TIME ZONE,
  m_amount DECIMAL(9,2), m_ratio DOUBLE, m_many BIGINT, m_text TEXT);
"""
NUMBERS = "CREATE TABLE n (k INTEGER PRIMARY KEY, v INTEGER);"
DAY, AT = "DATE '2024-02-29'", "TIMESTAMP '2024-02-29 23:30:00.000001'"
INSTANT = "TIMESTAMPTZ '2024-02-29 23:30:00-03:00'"
ZONED = dt.datetime(2024, 3, 1, 1, 30, tzinfo=dt.timezone(dt.timedelta(hours=2)))
ASSIGNED = [
    *((column, value) for column in ("m_day", "m_at", "m_instant") for value in (DAY, AT, INSTANT)),
    ("m_at", f"{INSTANT} + INTERVAL 1 HOUR"),
    ("m_day", f"date_trunc('month', {AT})"),
    ("m_amount", "1 + 2"),
    *(("m_amount", f"{sign}{number}") for sign in "+-" for number in ("0.125", "0.375", "0.1249")),
    ("m_amount", "CAST(0.125 AS DOUBLE)"),
    ("m_amount", "'0.125'"),
    ("m_ratio", "1 + 2"),
    ("m_ratio", "CAST(2.5 AS DECIMAL(9,2))"),
    ("m_many", "CAST(7 AS INTEGER)"),
    ("m_at", "NULL"),
]


@asynccontextmanager
async def on_moments(folder):
    async with opened(folder, catalog_of(load_ddl(DDL))) as database:
        yield database


async def test_expressions_are_assigned_as_duckdb_casts_them(tmp_path):
    oracle = duckdb.connect()
    oracle.execute("SET TimeZone = 'UTC'")
    oracle.execute(DDL)

    async with on_moments(tmp_path) as database:
        for number, (column, value) in enumerate(ASSIGNED):
            by_values, by_select, by_update = range(number * 3, number * 3 + 3)
            for statement in (
                f"INSERT INTO moments (m_id, {column}) VALUES ({by_values}, {value})",
                f"INSERT INTO moments (m_id, {column}) SELECT {by_select}, {value}",
                f"INSERT INTO moments (m_id) VALUES ({by_update})",
                f"UPDATE moments SET {column} = {value} WHERE m_id = {by_update}",
            ):
                oracle.execute(statement)
                await database.execute(statement)
        found = await database.fetch("SELECT * FROM moments ORDER BY m_id")

    expected = oracle.execute(
        "SELECT * REPLACE (timezone('UTC', m_instant) AS m_instant) FROM moments ORDER BY m_id"
    ).fetchall()
    naive = [
        tuple(v.replace(tzinfo=None) if getattr(v, "tzinfo", None) else v for v in row)
        for row in found
    ]
    assert naive == expected


async def test_the_current_time_is_stored_in_columns_without_zone(tmp_path):
    async with on_moments(tmp_path) as database:
        await database.execute(
            "INSERT INTO moments (m_id, m_day, m_at, m_instant)"
            " VALUES (1, CURRENT_TIMESTAMP, CURRENT_TIMESTAMP, now())"
        )
        ((day, at, instant),) = await database.fetch("SELECT m_day, m_at, m_instant FROM moments")

    assert at.tzinfo is None
    assert instant.tzinfo is not None
    assert abs(at.replace(tzinfo=dt.UTC) - instant) < dt.timedelta(seconds=10)
    assert abs(day - instant.date()) <= dt.timedelta(days=1)


@pytest.mark.parametrize(
    ("column", "value", "stored"),
    [
        ("m_at", ZONED, dt.datetime(2024, 2, 29, 23, 30)),
        ("m_instant", ZONED.replace(tzinfo=None), ZONED.replace(tzinfo=dt.UTC)),
        ("m_day", ZONED, dt.date(2024, 2, 29)),
    ],
)
async def test_a_parameter_is_cast_in_utc(tmp_path, column, value, stored):
    async with on_moments(tmp_path) as database:
        await database.execute(f"INSERT INTO moments (m_id, {column}) VALUES (1, ?)", (value,))
        assert await database.fetch(f"SELECT {column} FROM moments") == [(stored,)]


@pytest.mark.parametrize("value", [2.5, Decimal("2.5")])
async def test_a_parameter_that_is_assigned_and_compared_is_rounded_only_in_the_assignment(
    tmp_path, value
):
    async with opened(tmp_path, catalog_of(load_ddl(NUMBERS))) as db:
        await run_all(db, "INSERT INTO n VALUES (1, 0), (2, 0), (3, 0)")
        done = await db.execute("UPDATE n SET v = :x WHERE k < :x RETURNING k, v", {"x": value})
        assert done.statements[0].rows == ((1, 3), (2, 3))


async def test_every_statement_casts_alike(tmp_path):
    async with opened(tmp_path, catalog_of(load_ddl(NUMBERS))) as db:
        await run_all(
            db,
            "INSERT INTO n VALUES (1, 2.5), (2, 7 / 2), (3, CAST(2.5 AS DOUBLE))",
            "INSERT INTO n SELECT k + 10, k * 1.5 FROM n WHERE k = 1",
            "UPDATE n SET v = v * 0.5 WHERE k = 2",
            "INSERT INTO n VALUES (1, 0) ON CONFLICT (k) DO UPDATE SET v = n.v + 0.5",
        )
        assert await db.fetch("SELECT k, v FROM n ORDER BY k") == [(1, 4), (2, 2), (3, 2), (11, 2)]


async def test_a_timestamp_within_a_day_is_not_equal_to_the_day(tmp_path):
    """Only assignments cast: compared with a key, a timestamp within a day does not equal that
    day."""
    days = "CREATE TABLE days (d_day DATE PRIMARY KEY, d_n INTEGER);"
    async with opened(tmp_path, catalog_of(load_ddl(days))) as database:
        await database.execute(f"INSERT INTO days VALUES ({AT}, 1)")
        where = "CAST('2024-02-29 23:30:00' AS TIMESTAMP)"
        missed = await database.execute(f"UPDATE days SET d_n = 2 WHERE d_day = {where}")
        assert missed.statements[0].affected == 0
        hit = await database.execute(f"UPDATE days SET d_n = 3 WHERE d_day = {DAY}")
        assert hit.statements[0].affected == 1


async def test_all_statements_of_a_transaction_have_the_same_current_time(tmp_path):
    """CURRENT_TIMESTAMP and similar functions give one time in all statements of a transaction, and
    in its replay after a dry run."""
    statements = (
        Statement("INSERT INTO m VALUES (?, current_timestamp, now(), current_date)", (1,)),
        Statement("INSERT INTO m SELECT 2, now(), localtimestamp, today()"),
        Statement("UPDATE m SET z = now() WHERE id = :i AND z <= now() RETURNING z", {"i": 1}),
    )
    ddl = """CREATE TABLE m (id INTEGER PRIMARY KEY, z TIMESTAMP WITH TIME ZONE, t TIMESTAMP,
             d DATE);"""
    async with opened(tmp_path, catalog_of(load_ddl(ddl))) as db:
        trial = await db.transact(TransactionRequest(statements, dry_run=True))
        done = await db.transact(TransactionRequest(statements, replay=trial.replay))
        assert done.statements == trial.statements
        ((now,),) = done.statements[2].rows
        rows = await db.fetch("SELECT z, t, d FROM m")
        assert rows == [(now, now.replace(tzinfo=None), now.date())] * 2


async def test_untyped_parameters_have_the_types_that_duckdb_gives_them(tmp_path, monkeypatch):
    """For most texts and integers no evaluation by DuckDB is needed."""
    expressions = ["?", "m_many + ?", "m_many % ?", "m_text || ?", "? || m_text", "upper(?)"]
    values = [7, -7, 1 << 40, "", "é", "7"]
    asked = []

    def evaluate(node, *rest):
        asked.append(node.sql())
        return scalar.evaluate(node, *rest)

    monkeypatch.setattr(write_expressions, "evaluate", evaluate)
    oracle = duckdb.connect()

    async with on_moments(tmp_path) as database:
        await database.execute("INSERT INTO moments (m_id, m_many, m_text) VALUES (1, 9, 'a')")
        for expression in expressions:
            for value in values:
                try:
                    (expected,) = oracle.execute(
                        f"SELECT {expression} FROM (SELECT 9::BIGINT AS m_many, 'a' AS m_text)",
                        [value],
                    ).fetchone()
                except duckdb.Error:
                    continue
                given = f"UPDATE moments SET m_ratio = 1 WHERE m_id = 1 RETURNING {expression}"
                result = await database.execute(given, [value])
                assert result.statements[0].rows == ((expected,),), f"{expression}, {value!r}"

    assert len(asked) < len(expressions) * len(values) / 4


async def test_an_invalid_text_parameter_and_a_division_by_zero_are_refused(tmp_path):
    async with on_moments(tmp_path) as database:
        await database.execute("INSERT INTO moments (m_id) VALUES (1)")
        with pytest.raises(SqlError):
            await database.execute("DELETE FROM moments WHERE m_id = 1 RETURNING ?", ["\ud800"])
        with pytest.raises(SqlError, match="by zero"):
            await database.execute("UPDATE moments SET m_many = m_id % ? WHERE m_id = 1", [0])
