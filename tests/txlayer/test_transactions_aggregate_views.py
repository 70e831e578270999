"""Aggregates that immediate views answer, inside transactions and beside them."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import asynccontextmanager

import pytest

from hornbeam_server.node.database import Database
from hornbeam_server.node.schema_plans import PlanRequest
from hornbeam_server.txlayer.statements.requests import Statement
from tests.txlayer.database_world import settings

DDL = """
CREATE TABLE customer (c_id INTEGER PRIMARY KEY, c_name TEXT);
CREATE TABLE sale (s_id INTEGER PRIMARY KEY, s_c INTEGER NOT NULL REFERENCES customer (c_id),
  s_kind TEXT, s_qty INTEGER, s_price DECIMAL(9,2));
CREATE TABLE total (t_id INTEGER PRIMARY KEY, t_qty BIGINT);
CREATE MATERIALIZED VIEW by_customer WITH (refresh = 'immediate') AS
  SELECT s_c, c_name, count(*) AS n, sum(s_qty) AS q, sum(s_price) AS price
  FROM sale JOIN customer ON s_c = c_id GROUP BY s_c, c_name;
CREATE MATERIALIZED VIEW by_kind WITH (refresh = 'immediate') AS
  SELECT s_kind, count(*) AS n, count(s_qty) AS nq, sum(s_qty) AS q FROM sale GROUP BY s_kind;
CREATE MATERIALIZED VIEW everything WITH (refresh = 'immediate') AS
  SELECT count(*) AS n, sum(s_qty) AS q FROM sale;
"""
QUERIES = [
    "SELECT count(*), sum(s_qty) FROM sale",
    "SELECT sum(s_qty), count(*) FROM sale WHERE s_c = 1",
    "SELECT sum(s_qty), count(*) FROM sale WHERE s_c = 9",
    "SELECT s_kind, count(*), count(s_qty), sum(s_qty) FROM sale GROUP BY s_kind",
    "SELECT sum(s_qty) FROM sale WHERE s_kind IS NULL",
    "SELECT c_name, sum(s_price), count(*) FROM sale JOIN customer ON c_id = s_c GROUP BY c_name",
    "SELECT s_c, count(*) FROM sale GROUP BY s_c ORDER BY s_c DESC LIMIT 2",
    "SELECT s_c, sum(s_price) FROM sale WHERE s_c IN (1, 3, 9) GROUP BY s_c",
    "SELECT s_c, sum(s_qty) AS q FROM sale WHERE s_c > 1 GROUP BY s_c HAVING count(*) > 1",
]
ROWS = [(i, i % 3 + 1, (None, "a", "b")[i % 3], (None, i)[i % 2], f"{i}.25") for i in range(12)]
PENDING = {
    "nothing": [],
    "an insert": ["INSERT INTO sale VALUES (90, 1, 'c', 5, 1.5)"],
    "a new parent": [
        "INSERT INTO customer VALUES (9, 'new')",
        "INSERT INTO sale VALUES (90, 9, NULL, 5, 1)",
    ],
    "a move": ["UPDATE sale SET s_c = 2, s_kind = NULL WHERE s_id = 1"],
    "a change of a parent": ["UPDATE customer SET c_name = 'z' WHERE c_id = 1"],
    "the end of a group": ["DELETE FROM sale WHERE s_c = 1"],
    "the end of all": ["DELETE FROM sale WHERE s_id >= 0"],
    "several": [
        "UPDATE sale SET s_qty = 7 WHERE s_c = 2",
        "DELETE FROM sale WHERE s_id = 2",
        "INSERT INTO sale VALUES (2, 3, 'b', NULL, NULL)",
    ],
}


@asynccontextmanager
async def shop(folder):
    async with await Database.open(settings(folder)) as database:
        request = PlanRequest(DDL)
        await database.apply_schema(request, database.plan_schema(request).plan_id)
        await database.keeper.wait_built()
        await database.load("customer", ["c_id", "c_name"], [(1, "a"), (2, None), (3, "a")])
        columns = ["s_id", "s_c", "s_kind", "s_qty", "s_price"]
        await database.load("sale", columns, ROWS)
        yield database


async def answer(database, sql, statements=(), **options):
    """The rows of a query on top of pending statements, and the views and relations that serve."""
    pending = [Statement(each) for each in statements]
    async with database.query(sql, pending=pending, **options) as result:
        return Counter(await result.stream.all()), set(result.served_by)


VIEWS = {"by_customer", "by_kind", "everything"}


@pytest.mark.parametrize("pending", PENDING.values(), ids=PENDING)
async def test_a_transaction_reads_its_own_writes_in_views(tmp_path, pending):
    async with shop(tmp_path) as database:
        for sql in QUERIES:
            found, served = await answer(database, sql, pending)
            wanted, _ = await answer(database, sql, pending, use_views=False)
            assert served <= VIEWS, sql
            assert found == wanted, sql
        for statement in pending:
            await database.execute(statement)
        for sql in QUERIES:
            found, _ = await answer(database, sql)
            assert found == (await answer(database, sql, use_views=False))[0], sql


async def test_a_traced_query_reads_rows_that_can_be_validated(tmp_path):
    """A group of a view is not validated at commit, so that a transaction which read it could
    commit although the rows below have changed."""
    async with shop(tmp_path) as database:
        for sql in QUERIES:
            async with database.query(sql, trace=True) as result:
                rows = Counter(await result.stream.all())
                assert not set(result.served_by) & VIEWS
                assert result.reads is not None
            assert rows == (await answer(database, sql))[0]


async def test_a_write_computes_with_views(tmp_path):
    async with shop(tmp_path) as database:
        insert = "INSERT INTO total SELECT s_c, sum(s_qty) FROM sale GROUP BY s_c"
        await database.execute(insert)
        wanted = Counter(await database.fetch(insert.partition("total ")[2], use_views=False))
        assert Counter(await database.fetch("SELECT * FROM total")) == wanted
        statements = ["INSERT INTO sale VALUES (90, 1, 'a', 1000, 0)", "DELETE FROM total", insert]
        found, _ = await answer(database, "SELECT max(t_qty) FROM total", statements)
        assert max(found)[0] > 1000


async def test_random_changes_keep_every_answer(tmp_path):
    choose = random.Random(7)
    async with shop(tmp_path) as database:
        for _ in range(60):
            number, kind = choose.randrange(20), choose.choice(["'a'", "'b'", "NULL"])
            qty = choose.choice(["NULL", "1", "-4"])
            await database.execute(
                choose.choice([
                    f"INSERT INTO sale VALUES ({number}, {choose.randint(1, 3)}, {kind}, {qty}, 1)"
                    f" ON CONFLICT (s_id) DO UPDATE SET s_qty = {qty}, s_kind = {kind}",
                    f"DELETE FROM sale WHERE s_id = {number}",
                    f"UPDATE customer SET c_name = {kind} WHERE c_id = {choose.randint(1, 3)}",
                ])
            )  # fmt: skip
            sql = choose.choice(QUERIES)
            found, served = await answer(database, sql)
            assert served <= VIEWS
            assert found == (await answer(database, sql, use_views=False))[0], sql
