"""Parameters in expressions (`balance + ?`) take the types of their values: the answers are those
of DuckDB, which infers the types in the same way, and native code gives them."""

import datetime as dt
import itertools
import random
import uuid
from contextlib import asynccontextmanager
from decimal import Decimal
from unittest.mock import patch

import pytest

from hornbeam_server.query import engine
from hornbeam_server.query.execution.loops import NativePlan
from hornbeam_server.query.workers.pool import Workers
from hornbeam_server.schema.errors import SqlError, TypeMismatch
from hornbeam_server.schema.intervals import Interval
from hornbeam_server.txlayer.statements.requests import RepeatedStatement, TransactionRequest
from tests.node.live_world import apply
from tests.node.live_world import opened as empty

COLUMNS = {
    "s": ("SMALLINT", 3),
    "i": ("INTEGER", 7),
    "g": ("BIGINT", -9),
    "n": ("NUMERIC(12,2)", Decimal("-2.50")),
    "w": ("NUMERIC(30,4)", Decimal("7.1250")),
    "d": ("DOUBLE PRECISION", 2.5),
    "r": ("REAL", 0.5),
    "t": ("TEXT", "ab "),
    "v": ("VARCHAR(5)", "abc"),
    "day": ("DATE", dt.date(2024, 2, 29)),
    "ts": ("TIMESTAMP", dt.datetime(2024, 1, 31, 1, 2, 3)),
    "tz": ("TIMESTAMPTZ", dt.datetime(2024, 3, 31, 1, tzinfo=dt.UTC)),
    "tm": ("TIME", dt.time(23, 2)),
    "iv": ("INTERVAL", Interval(0, 3, -7_200_000_000)),
    "b": ("BOOLEAN", True),
    "u": ("UUID", uuid.UUID(int=5)),
}
GIVEN = [
    *(0, 1, -3, 1 << 31, 1 << 40, 1.5, 0.1, float("inf"), "x", "", "2024-01-01", "1.5", True),
    *(Decimal("0.05"), Decimal("-1E+3"), Decimal("12345678901234567890.5"), None, b"ab"),
    *(dt.date(2024, 1, 31), dt.datetime(2023, 1, 1, 2), dt.datetime(2023, 1, 1, tzinfo=dt.UTC)),
    *(dt.timedelta(days=2, hours=1), dt.time(3), uuid.UUID(int=5)),
]
EXPRESSIONS = [
    *("{0} + ?", "? - {0}", "{0} * ?", "{0} % ?", "coalesce(?, {0})", "greatest({0}, ?)"),
    *("nullif(?, {0})", "{0} || ?", "-({0} + ?)", "({0} + ?) = {0}", "CASE WHEN b THEN ? END"),
    "{0} BETWEEN ? AND {0}",
]


@asynccontextmanager
async def one_row(folder):
    declared = ", ".join(f"{name} {type_}" for name, (type_, _) in COLUMNS.items())
    marks = ", ".join("?" * (1 + len(COLUMNS)))
    values = [1, *(value for _, value in COLUMNS.values())]
    async with empty(folder) as db:
        await apply(db, tables=f"CREATE TABLE a (id INT PRIMARY KEY, {declared});")
        await db.execute(f"INSERT INTO a VALUES ({marks})", values)
        yield db


async def answer(db, sql, given):
    """The value and its type; for an error, its class."""
    try:
        async with db.query(sql, [given] * sql.count("?")) as result:
            ((value,),) = await result.stream.all()
            (column,) = result.stream.columns
            return repr(value), column.name, column.type and column.type.kind
    except SqlError as error:
        return type(error)


def untyped():
    """No plan for the types of values: DuckDB infers them."""
    return patch.object(engine, "types_of", lambda *_: None)


async def test_queries_have_the_answers_of_duckdb(tmp_path):
    every = list(itertools.product(EXPRESSIONS, COLUMNS, GIVEN))
    asked = [
        (f"SELECT {expression.format(column)} FROM a WHERE id = 1", given)
        for expression, column, given in random.Random(5).sample(every, 400)
    ]
    async with one_row(tmp_path) as db:
        found = [await answer(db, sql, given) for sql, given in asked]
        with untyped():
            expected = [await answer(db, sql, given) for sql, given in asked]
    triples = zip(asked, found, expected, strict=True)
    assert not [triple for triple in triples if triple[1] != triple[2]]
    assert sum(not isinstance(each, type) for each in found) > 150


@pytest.mark.parametrize(
    ("expression", "given", "expected"),
    [
        ("i / ?", 2, 3),
        ("i / ?", Decimal(2), Decimal("3.50000000000000000000")),
        ("? / i", Decimal(7), Decimal("1.00000000000000000000")),
        ("round(i * ?, 1)", 2, Decimal(14)),
        ("n * ?", Decimal("1.5"), Decimal("-3.750")),
        ("d + ?", Decimal("1.5"), 4.0),
        ("day + ?", 1, dt.date(2024, 3, 1)),
        ("? + day", 366, dt.date(2025, 3, 1)),
        ("day - ?", dt.date(2024, 2, 1), 28),
        ("ts + ?", dt.timedelta(hours=23), dt.datetime(2024, 2, 1, 0, 2, 3)),
        ("ts - ?", dt.datetime(2024, 1, 30, 2, 2, 3), "23:00:00"),
        ("? - tz", dt.datetime(2024, 4, 2, 2, tzinfo=dt.UTC), "2 days 01:00:00"),
        ("tm - ?", dt.timedelta(days=3, hours=24), dt.time(23, 2)),
        ("iv + ?", dt.timedelta(days=1), "4 days -02:00:00"),
        ("iv * ?", 3, "9 days -06:00:00"),
        ("-iv", None, "-3 days +02:00:00"),
        ("coalesce(?, n)", None, Decimal("-2.50")),
        ("greatest(day, ?)", dt.date(2024, 3, 1), dt.date(2024, 3, 1)),
        ("t || ?", "c", "ab c"),
        ("b AND ?", False, False),
        ("?", None, None),
    ],
)
async def test_native_code_answers_and_writes(tmp_path, expression, given, expected):
    """The values are PostgreSQL's. No DuckDB is started."""
    sql = f"SELECT {expression} FROM a WHERE id = 1"
    parameters = [given] * sql.count("?")
    with patch.object(Workers, "take", side_effect=AssertionError("DuckDB is asked")):
        async with one_row(tmp_path) as db:
            async with db.query(sql, parameters) as result:
                ((value,),) = await result.stream.all()
            assert (str(value) if isinstance(expected, str) else value) == expected
            if parameters:
                assert db.reads.directly(sql, parameters).rows == [(value,)]
            column = {Decimal: "w", int: "g", float: "d", dt.date: "day"}.get(type(expected), "t")
            if isinstance(expected, Decimal | int | float) and not isinstance(expected, bool):
                await db.execute(f"UPDATE a SET {column} = {expression} WHERE id = 1", parameters)
                assert await db.fetch(f"SELECT {column} FROM a WHERE id = 1") == [(expected,)]


async def test_a_text_may_be_a_literal_of_another_type(tmp_path):
    """As PostgreSQL takes a text without a type. DuckDB answers then."""
    async with one_row(tmp_path) as db:
        await db.execute("UPDATE a SET day = coalesce(?, day) WHERE id = 1", ["2025-05-05"])
        await db.execute("UPDATE a SET n = greatest(n, ?) WHERE id = 1", ["1.5"])
        assert await db.fetch("SELECT day, n FROM a") == [(dt.date(2025, 5, 5), Decimal("1.50"))]


async def test_a_value_out_of_range_is_an_error_and_writes_nothing(tmp_path):
    async with one_row(tmp_path) as db:
        for value, given in (
            ("day = day + ?", 1 << 30),
            ("ts = ts + ?", dt.timedelta(days=3_000_000)),
            ("iv = iv * ?", (1 << 31) - 1),
        ):
            with pytest.raises(TypeMismatch, match=r"of range|years 1 to 9999"):
                await db.execute(f"UPDATE a SET {value} WHERE id = 1", [given])
        assert await db.fetch("SELECT day FROM a") == [(COLUMNS["day"][1],)]


async def test_each_set_of_parameters_has_its_types(tmp_path):
    """Also in one request, where each row of an INSERT is computed."""
    async with one_row(tmp_path) as db:
        sets = [(Decimal("0.25"),), (1,), (Decimal("1.125"),), (None,), (2,)]
        await many(db, "UPDATE a SET w = coalesce(w + ?, w) WHERE id = 1", sets)
        assert await db.fetch("SELECT w FROM a") == [(Decimal("11.5000"),)]
        inserted = [(2, Decimal("0.5")), (3, 1), (4, Decimal("0.25"))]
        await many(db, "INSERT INTO a (id, n) VALUES (?, ? * 2)", inserted)
        rows = await db.fetch("SELECT n FROM a WHERE id > 1 ORDER BY id")
        assert rows == [(Decimal("1.00"),), (Decimal("2.00"),), (Decimal("0.50"),)]


async def many(db, sql, sets):
    await db.transact(TransactionRequest((RepeatedStatement(sql, tuple(sets)),)))


async def test_plans_for_types_are_cached_within_the_bounds_of_plans(tmp_path):
    async with one_row(tmp_path) as db:
        sql = "SELECT n + ? FROM a WHERE id = 1"
        for number in range(40):
            given = Decimal(10 ** (number % 8)).scaleb(-(number // 8))
            assert await db.fetch(sql, [given]) == [(Decimal("-2.50") + given,)]
        prepared, known = db.reads.prepare(sql), db.reads._engine.typed_plans
        typed = prepared.typed([given])
        assert typed is prepared.typed([given])
        assert isinstance(typed.plan, NativePlan)
        assert 30 < len(known) <= engine.PREPARED
        long = sql.replace("n + ?", "n + ? + 0" + " " * engine.SHORT)
        assert db.reads.prepare(long).typed([given]) is db.reads.prepare(long)
