"""Relations that are altered while they have rows, indexes and views, in an embedded database."""

from __future__ import annotations

from contextlib import asynccontextmanager
from decimal import Decimal

import pytest

from hornbeam_server.node.database import Database
from hornbeam_server.node.schema_plans import PlanRequest
from hornbeam_server.node.settings import load_settings
from hornbeam_server.schema.catalog import State
from hornbeam_server.schema.errors import (
    InvalidRequest,
    NotNullViolation,
    SchemaError,
    TypeMismatch,
    UnknownName,
)
from hornbeam_server.txlayer.statements.requests import Statement, TransactionRequest
from tests.txlayer.test_immediate_views import run

TABLES = """
CREATE TABLE customer (
  c_id INTEGER PRIMARY KEY, c_old TEXT, c_city VARCHAR(8), c_tier INTEGER DEFAULT 1);
CREATE TABLE orders (
  o_id INTEGER PRIMARY KEY, o_note TEXT, o_c_id INTEGER REFERENCES customer (c_id),
  o_total DECIMAL(9,2));
CREATE INDEX by_city ON customer (c_city) INCLUDE (c_tier);
CREATE MATERIALIZED VIEW city_totals WITH (refresh = 'immediate') AS
  SELECT c_city, count(*) AS n, sum(o_total) AS total
  FROM orders JOIN customer ON o_c_id = c_id GROUP BY c_city;
CREATE MATERIALIZED VIEW tiers WITH (refresh = 'immediate') AS
  SELECT c_id, c_tier FROM customer WHERE c_tier > 0;
"""
WORKLOAD = """
-- name: orders_of
SELECT * FROM customer JOIN orders ON o_c_id = c_id WHERE c_id = ?;
-- name: in_city
SELECT o_id FROM customer JOIN orders ON o_c_id = c_id WHERE c_city = ?;
"""
WIDE = {"c_id INTEGER": "c_id BIGINT"}
"""The key of customers, and the column that references it."""


def edited(ddl, changes):
    for old, new in changes.items():
        assert old in ddl
        ddl = ddl.replace(old, new)
    return ddl


@asynccontextmanager
async def opened(folder):
    async with await Database.open(load_settings(data=folder)) as database:
        await apply(database, TABLES)
        await run(
            database,
            "INSERT INTO customer VALUES (1, 'x', 'Bern', 1), (2, 'y', 'Thun', 2)",
            "INSERT INTO customer VALUES (3, NULL, NULL, 3)",
            "INSERT INTO orders VALUES (10, 'a', 1, 1.50), (11, 'b', 2, 2), (12, NULL, NULL, 3)",
        )
        await apply(database, TABLES)  # with the row counts that later plans use
        yield database


async def apply(database, ddl, *, allow_drop=True, roots=("customer",), workload=WORKLOAD):
    request = PlanRequest(ddl, workload, roots)
    plan = database.plan_schema(request)
    await database.apply_schema(request, plan.plan_id, allow_drop=allow_drop)
    await database.keeper.wait_built()
    return plan


async def write(database):
    """Change rows that are older than the alteration, and insert others."""
    await run(
        database,
        "UPDATE orders SET o_total = 5 WHERE o_id = 10",
        "UPDATE customer SET c_city = 'Genf' WHERE c_id = 2",
        "INSERT INTO customer (c_id, c_city) VALUES (4, 'Bern')",
        "INSERT INTO orders (o_id, o_c_id, o_total) VALUES (13, 4, 7)",
        "DELETE FROM orders WHERE o_id = 11",
    )


async def require_right(database):
    report = await database.verify()
    assert report.differences == 0, report


def tables(database):
    catalog = database.catalog
    return {name: catalog.layout(name).table for name in catalog.stored}


async def test_a_dropped_column_is_gone_and_no_row_is_rewritten(tmp_path):
    async with opened(tmp_path) as database:
        before = tables(database)
        assert before.keys() > {"customer__orders", "city_totals", "by_city"}
        plan = await apply(database, edited(TABLES, {"c_old TEXT, ": "", "o_note TEXT, ": ""}))
        assert [(r.action, r.name) for r in plan.changes.rows()] == [
            ("drop", "customer.c_old"),
            ("drop", "orders.o_note"),
        ]
        assert tables(database) == before
        assert all(state is State.READABLE for _, state in database.catalog.states)
        await write(database)
        assert await database.fetch("SELECT * FROM customer ORDER BY c_id") == [
            (1, "Bern", 1),
            (2, "Genf", 2),
            (3, None, 3),
            (4, "Bern", 1),
        ]
        found = await database.fetch(
            "SELECT * FROM customer JOIN orders ON o_c_id = c_id WHERE c_id = ?", (1,)
        )
        assert found == [(1, "Bern", 1, 10, 1, Decimal("5.00"))]
        with pytest.raises(UnknownName):
            await database.fetch('SELECT "..dropped.1.." FROM customer')
        with pytest.raises(UnknownName):
            await run(database, "UPDATE customer SET c_old = 'z'")
        await require_right(database)
        without = {"c_old TEXT, ": "", "o_note TEXT, ": ""}
        await apply(database, edited(TABLES, without | {"DEFAULT 1": "DEFAULT 1, c_old INT"}))
        assert await database.fetch("SELECT c_old FROM customer WHERE c_id = 1") == [(None,)]
        await require_right(database)


async def test_a_view_agrees_with_rows_that_are_older_than_a_dropped_column(tmp_path):
    """The row of customer 1 is older than the column, whose default its view row has copied."""
    with_bonus = {"c_tier INTEGER DEFAULT 1": "c_tier INTEGER DEFAULT 1, c_bonus INT DEFAULT 8"}
    async with opened(tmp_path) as database:
        await apply(database, edited(TABLES, with_bonus))
        await run(database, "INSERT INTO orders VALUES (20, 'copied', 1, 3)")
        await apply(database, TABLES)
        await require_right(database)
        await run(database, "INSERT INTO orders VALUES (21, 'later', 1, 3)")
        await require_right(database)
        await apply(database, edited(TABLES, with_bonus))
        assert await database.fetch("SELECT c_bonus FROM customer WHERE c_id = 1") == [(8,)]
        await require_right(database)


async def test_values_are_dropped_only_if_that_is_allowed(tmp_path):
    async with opened(tmp_path) as database:
        with pytest.raises(InvalidRequest, match=r"columns customer\.c_old"):
            await apply(database, edited(TABLES, {"c_old TEXT, ": ""}), allow_drop=False)


async def test_an_altered_relation_is_read_after_a_restart(tmp_path):
    async with opened(tmp_path) as database:
        await apply(database, edited(TABLES, {"c_old TEXT, ": "", "DEFAULT 1": "DEFAULT 7"}))
        await write(database)
    async with await Database.open(load_settings(data=tmp_path)) as database:
        assert await database.fetch("SELECT * FROM customer WHERE c_id <> 3 ORDER BY c_id") == [
            (1, "Bern", 1),
            (2, "Genf", 2),
            (4, "Bern", 7),
        ]
        await require_right(database)


async def test_rows_older_than_a_column_keep_the_default_that_it_had(tmp_path):
    async with opened(tmp_path) as database:
        more = edited(TABLES, {"DEFAULT 1": "DEFAULT 1, c_more INTEGER NOT NULL DEFAULT 5"})
        await apply(database, more)
        for default in ("DEFAULT 6", "", "DEFAULT (1 + 1)"):
            await apply(database, more.replace("DEFAULT 5", default))
            assert await database.fetch("SELECT DISTINCT c_more FROM customer") == [(5,)]
        await run(database, "INSERT INTO customer (c_id) VALUES (5)")
        await run(database, "UPDATE customer SET c_tier = 9 WHERE c_id = 1")
        found = await database.fetch("SELECT c_id, c_more FROM customer WHERE c_id IN (1, 2, 5)")
        assert sorted(found) == [(1, 5), (2, 5), (5, 2)]
        await require_right(database)


async def test_keys_and_their_references_become_wider_in_place(tmp_path):
    async with opened(tmp_path) as database:
        before = tables(database)
        plan = await apply(database, edited(TABLES, WIDE))
        assert [(r.action, r.name, r.detail) for r in plan.changes.rows()] == [
            ("relax", "customer.c_id", "BIGINT NOT NULL"),
            ("relax", "orders.o_c_id", "BIGINT"),
        ]
        after = tables(database)
        assert after["customer"] == before["customer"]
        assert after["customer__orders"] == before["customer__orders"]
        large = 1 << 40
        await run(
            database,
            f"INSERT INTO customer (c_id, c_city) VALUES ({large}, 'Bern')",
            f"INSERT INTO orders VALUES (14, NULL, {large}, 1)",
        )
        await write(database)
        assert await database.fetch(f"SELECT o_id FROM orders WHERE o_c_id = {large}") == [(14,)]
        await require_right(database)
        with pytest.raises(TypeMismatch, match="1 stored value is not of this type"):
            await apply(database, TABLES)


async def test_stored_rows_are_checked_before_a_column_takes_fewer_values(tmp_path):
    async with opened(tmp_path) as database:
        version = database.catalog.version
        for changes, error, message in (
            ({"c_city VARCHAR(8)": "c_city VARCHAR(3)"}, TypeMismatch, "2 stored values are not"),
            ({"c_city VARCHAR(8)": "c_city VARCHAR(8) NOT NULL"}, NotNullViolation, "1 stored row"),
            ({"c_tier INTEGER": "c_tier SMALLINT NOT NULL"}, None, ""),
            ({"o_total DECIMAL(9,2)": "o_total DECIMAL(2,2)"}, TypeMismatch, "3 stored values"),
        ):
            if error is None:
                await apply(database, edited(TABLES, changes))
                version = database.catalog.version
                continue
            with pytest.raises(error, match=message):
                await apply(database, edited(TABLES, changes))
            assert database.catalog.version == version
        with pytest.raises(NotNullViolation):
            await run(database, "INSERT INTO customer (c_id, c_tier) VALUES (9, NULL)")
        with pytest.raises(TypeMismatch):
            await run(database, "INSERT INTO customer (c_id, c_tier) VALUES (9, 40000)")
        await write(database)
        await require_right(database)


TIERS = "SELECT c_id, c_tier FROM customer WHERE c_tier > 0 AND c_id <> 9"
SPELLINGS = [
    "select c_id, c_tier -- both\nfrom  public.customer where c_tier > 0 and c_id <> 9",
    'SELECT x.c_id, x."c_tier" FROM customer AS x WHERE x.c_id <> 9 AND x.c_tier > 0',
    "SELECT c_id AS c_id, customer.c_tier FROM customer WHERE (c_tier > 0) AND c_id <> 9",
]
JOINED = """SELECT c_city, count(*) AS n, sum(o_total) AS total
  FROM orders JOIN customer ON o_c_id = c_id GROUP BY c_city"""
JOINED_OTHERWISE = """SELECT c.c_city, COUNT(*) n, SUM(o.o_total) AS total
  FROM orders o JOIN public.customer c ON o.o_c_id = c.c_id GROUP BY c.c_city"""
OTHERS = [
    "SELECT c_id, c_tier FROM customer WHERE c_tier > 0 AND c_id <> 8",
    "SELECT c_id, c_tier FROM customer WHERE c_tier > 0 OR c_id <> 9",
    "SELECT c_id, c_tier AS tier FROM customer WHERE c_tier > 0 AND c_id <> 9",
]


async def test_a_view_that_is_spelled_otherwise_keeps_its_rows(tmp_path):
    totals = edited(TABLES, {"SELECT c_id, c_tier FROM customer WHERE c_tier > 0": TIERS})
    joined = {JOINED: JOINED_OTHERWISE}
    async with opened(tmp_path) as database:
        await apply(database, totals)
        before = tables(database)
        for text in SPELLINGS:
            plan = await apply(database, edited(totals, {TIERS: text, **joined}))
            assert plan.rebuilt == ()
            assert tables(database) == before, text
        await write(database)
        await require_right(database)
        for text in OTHERS:
            request = PlanRequest(edited(totals, {TIERS: text, **joined}), WORKLOAD, ("customer",))
            assert database.plan_schema(request).rebuilt == ("tiers",), text


async def test_what_stored_rows_cannot_follow_is_refused(tmp_path):
    async with opened(tmp_path) as database:
        for changes, reason in (
            (
                {"c_old TEXT, c_city VARCHAR(8)": "c_city VARCHAR(8), c_old TEXT"},
                "new columns are appended",
            ),
        ):
            with pytest.raises(SchemaError, match=reason):
                await apply(database, edited(TABLES, changes))


async def test_a_transaction_searches_beside_an_index_under_construction(tmp_path):
    """The snapshot of the search lacks the entries of the index, and no query reads them."""
    async with opened(tmp_path) as database:
        request = PlanRequest(f"{TABLES}CREATE INDEX slow ON orders (o_note);", WORKLOAD, None)
        plan = database.plan_schema(request)
        await database.apply_schema(request, plan.plan_id, build_externally=True)
        assert database.catalog.state["slow"] is State.BUILDING
        result = await database.transact(
            TransactionRequest(
                (
                    Statement("UPDATE orders SET o_note = 'z' WHERE o_id = 10"),
                    Statement("DELETE FROM orders WHERE o_note = 'z' OR o_total > 100"),
                )
            )
        )
        assert [statement.affected for statement in result.statements] == [1, 1]
        assert await database.fetch("SELECT o_id FROM orders ORDER BY o_id") == [(11,), (12,)]
