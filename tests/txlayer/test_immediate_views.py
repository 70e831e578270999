"""Immediate views in an embedded database: kept, read, refused, built, verified and repaired."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from decimal import Decimal
from functools import partial

import pytest

from hornbeam_server.maintain.immediate import build as building
from hornbeam_server.maintain.immediate.build import base_cells
from hornbeam_server.maintain.immediate.projected import define_any
from hornbeam_server.node.database import Database
from hornbeam_server.node.schema_plans import PlanRequest
from hornbeam_server.node.settings import load_settings
from hornbeam_server.schema.catalog import State
from hornbeam_server.schema.errors import (
    InvalidRequest,
    LimitExceeded,
    NotFound,
    SchemaError,
    SqlError,
    Unsupported,
)
from hornbeam_server.storage.ports import NEWEST, TOMBSTONE, Put
from hornbeam_server.storage.rocks import versions
from hornbeam_server.txlayer.statements.requests import Statement, TransactionRequest
from hornbeam_server.txlayer.transactions.searches import Searches
from tests.txlayer.database_world import fill_load
from tests.txlayer.test_transactions_loads import finish

TABLES = """
CREATE TABLE customer (c_id INTEGER PRIMARY KEY, city TEXT, tier INTEGER);
CREATE TABLE orders (
  o_id INTEGER PRIMARY KEY, c_id INTEGER REFERENCES customer (c_id), day DATE,
  total DECIMAL(10,2));
"""
BY_CITY = """
SELECT city, count(*) AS n, sum(total) AS total, avg(total) AS average, min(total) AS low,
  max(day) AS latest, count(DISTINCT day) AS days
FROM orders o JOIN customer c ON o.c_id = c.c_id
WHERE tier < 5 AND (day IS NULL OR day > DATE '2020-01-01') GROUP BY city
"""


def view(sql, name="v"):
    return f"CREATE MATERIALIZED VIEW {name} WITH (refresh = 'immediate') AS {sql};"


@asynccontextmanager
async def opened(folder, ddl=None):
    async with await Database.open(load_settings(data=folder)) as database:
        await apply(database, TABLES + view(BY_CITY) if ddl is None else ddl)
        yield database


async def apply(database, ddl):
    request = PlanRequest(ddl)
    plan = database.plan_schema(request)
    await database.apply_schema(request, plan.plan_id, allow_drop=True)
    await database.keeper.wait_built()


async def run(database, *statements):
    return await database.transact(TransactionRequest(tuple(map(Statement, statements))))


async def require_right(database):
    """Check each immediate view against DuckDB's answer to its SELECT, without views."""
    for each in database.catalog.transactional_view.values():
        expected = await database.fetch(
            define_any(each.declared, database.catalog).sql, use_views=False
        )
        found = await database.fetch(f"SELECT * FROM {each.name}")
        assert sorted(map(repr, found)) == sorted(map(repr, expected)), each.name
    report = await database.verify()
    assert report.differences == 0, report


CUSTOMERS = "INSERT INTO customer VALUES (1, 'Bern', 0), (2, 'Bern', 1), (3, NULL, 0), (4, 'x', 9)"
ORDERS = (
    "INSERT INTO orders VALUES (10, 1, DATE '2024-01-01', 1.50), (11, 2, DATE '2024-01-02', 2),"
    " (12, 3, NULL, NULL), (13, NULL, DATE '2024-01-01', 4), (14, 4, DATE '2024-01-03', 8)"
)


async def test_statements_maintain_groups(tmp_path):
    async with opened(tmp_path) as database:
        await run(database, CUSTOMERS, ORDERS)
        two = Decimal("3.50")
        assert await database.fetch("SELECT city, n, total, days FROM v ORDER BY city") == [
            ("Bern", 2, two, 2),
            (None, 1, None, 0),
        ]
        for sql in (
            "UPDATE orders SET total = 7 WHERE o_id = 10",
            "UPDATE orders SET c_id = 3 WHERE o_id = 11",
            "UPDATE customer SET city = 'Thun' WHERE c_id = 3",
            "UPDATE customer SET tier = 1 WHERE c_id = 4",
            "UPDATE customer SET tier = 7 WHERE c_id = 1",
            "DELETE FROM orders WHERE o_id = 12",
            "UPDATE orders SET c_id = NULL",
            "UPDATE orders SET c_id = 1 WHERE o_id > 11",
            "DELETE FROM orders",
        ):
            await run(database, sql)
            await require_right(database)
        assert await database.fetch("SELECT * FROM v") == []


async def test_groups_are_read_by_key_by_prefix_and_in_ranges(tmp_path):
    sql = "SELECT day, c_id, count(*) AS n FROM orders GROUP BY day, c_id"
    async with opened(tmp_path, TABLES + view(sql)) as database:
        rows = [(n, n % 3, n % 5) for n in range(60)]
        await run(database, "INSERT INTO customer VALUES (0, 'a', 0), (1, 'b', 0), (2, 'c', 0)")
        for n, customer, day in rows:
            await run(
                database,
                f"INSERT INTO orders VALUES ({n}, {customer}, DATE '2024-01-0{day + 1}', 1)",
            )
        for where in (
            "day = DATE '2024-01-02' AND c_id = 1",
            "day = DATE '2024-01-02'",
            "day >= DATE '2024-01-02' AND day < DATE '2024-01-04'",
            "n > 3",
        ):
            found = await database.fetch(f"SELECT * FROM v WHERE {where} ORDER BY day, c_id")
            expected = await database.fetch(
                f"SELECT * FROM ({sql}) WHERE {where} ORDER BY day, c_id", use_views=False
            )
            assert found == expected
        backwards = "SELECT day, c_id FROM v ORDER BY day DESC, c_id DESC LIMIT 2"
        assert [row[1] for row in await database.fetch(backwards)] == [2, 1]


async def test_a_view_without_groups_always_has_a_row(tmp_path):
    sql = "SELECT count(*) AS n, sum(total) AS total, min(day) AS first FROM orders"
    async with opened(tmp_path, TABLES + view(sql)) as database:
        assert await database.fetch("SELECT * FROM v") == [(0, None, None)]
        await run(database, CUSTOMERS, ORDERS)
        await require_right(database)
        await run(database, "DELETE FROM orders")
        assert await database.fetch("SELECT n, total FROM v") == [(0, None)]


async def test_a_month_can_be_a_group(tmp_path):
    monthly = """SELECT date_trunc('month', day) AS month, extract(dow FROM day) AS weekday,
      count(*) AS n, sum(floor(total)) AS total FROM orders GROUP BY 1, 2"""
    async with opened(tmp_path, TABLES + view(monthly)) as database:
        await run(database, "INSERT INTO customer VALUES (1, 'a', 1)")
        days = [f"DATE '2021-0{1 + i % 3}-0{1 + i % 7}'" for i in range(30)]
        inserts = [f"INSERT INTO orders VALUES ({i}, 1, {day}, 1.5)" for i, day in enumerate(days)]
        await run(database, *inserts)
        await require_right(database)
        sql = "SELECT count(*) AS n FROM orders WHERE date_trunc('month', day) = DATE '2021-02-01'"
        assert database.explain(sql).views == ("v",)
        assert await database.fetch(sql) == [(10,)]


async def test_a_transaction_reads_groups_behind_its_own_writes(tmp_path):
    async with opened(tmp_path) as database:
        await run(database, CUSTOMERS, ORDERS)
        await run(
            database,
            "INSERT INTO orders VALUES (20, 1, DATE '2023-01-01', 0.25)",
            "INSERT INTO customer SELECT 100 + n, city || '!', days FROM v WHERE city = 'Bern'",
        )
        assert await database.fetch("SELECT * FROM customer WHERE c_id > 99") == [(103, "Bern!", 3)]
        pending = [Statement("DELETE FROM orders WHERE o_id IN (10, 20)")]
        async with database.query("SELECT n, total, low FROM v", pending=pending) as result:
            rows = await result.stream.all()
        assert sorted(rows, key=repr) == [(1, Decimal("2.00"), Decimal("2.00")), (1, None, None)]


MEANS = """
SELECT c_id, count(*) AS n, sum(total) / count(total) AS mean, round(sum(total) * 0.19, 2) AS tax,
  max(day) - min(day) AS days
FROM orders GROUP BY c_id HAVING count(*) > 1
"""


async def test_expressions_and_having_are_computed_when_groups_are_read(tmp_path):
    async with opened(tmp_path, TABLES + view(MEANS)) as database:
        await run(database, CUSTOMERS, ORDERS)
        assert await database.fetch("SELECT * FROM v") == []
        more = "INSERT INTO orders VALUES ({}, {}, DATE '2024-01-05', {})"
        before = await run(database, more.format(20, 1, "2"), more.format(21, 3, "NULL"))
        mean = (1, 2, Decimal("1.75"), Decimal("0.67"), 4)
        for sql in (
            "SELECT * FROM v WHERE c_id = 1",
            "SELECT * FROM v WHERE c_id < 3",
            "SELECT * FROM v ORDER BY c_id LIMIT 1",
            "SELECT * FROM v WHERE mean > 1.5",
            "SELECT v.* FROM customer c JOIN v ON v.c_id = c.c_id WHERE c.c_id = 1",
            "SELECT * FROM (SELECT * FROM v UNION ALL SELECT * FROM v) AS w"
            " WHERE tax > 0 GROUP BY ALL",
        ):
            assert await database.fetch(sql) == [mean], sql
        assert await database.fetch("SELECT * FROM v WHERE c_id = 2") == []
        backwards = "SELECT c_id, mean, days FROM v ORDER BY c_id DESC LIMIT 1"
        assert await database.fetch(backwards) == [(3, None, 0)]
        await require_right(database)
        await run(database, "DELETE FROM orders WHERE o_id = 21")
        assert [row[0] for row in await database.fetch("SELECT * FROM v")] == [1]
        async with database.query("SELECT c_id FROM v", snapshot=before.commit_ts) as result:
            assert await result.stream.all() == [(1,), (3,)]
        pending = [Statement(more.format(22, 2, "9"))]
        async with database.query("SELECT c_id, mean FROM v", pending=pending) as result:
            assert await result.stream.all() == [(1, 1.75), (2, 5.5)]
        await require_right(database)


async def test_an_expression_that_fails_is_an_error_of_its_readers_only(tmp_path):
    sql = "SELECT c_id, count(*) AS n, count(*) % count(total) AS rest FROM orders GROUP BY c_id"
    async with opened(tmp_path, TABLES) as database:
        await run(database, CUSTOMERS, ORDERS)
        await apply(database, TABLES + view(sql))
        assert database.catalog.state["v"] is State.READABLE
        with pytest.raises(SqlError, match=r"Division by zero in expression \(1 % 0\)") as caught:
            await database.fetch("SELECT * FROM v")
        assert "NULLIF" in caught.value.cure
        assert await database.fetch("SELECT rest FROM v WHERE c_id = 1") == [(0,)]
        report = await database.verify()
        assert report.differences == 0
        assert [item.rows for item in report.checked if item.name == "v"] == [5]
        await run(database, "UPDATE orders SET total = 1 WHERE c_id = 3")
        await require_right(database)


async def test_damage_of_a_group_that_having_excludes_is_found(tmp_path):
    async with opened(tmp_path, TABLES + view(MEANS)) as database:
        await run(database, CUSTOMERS, ORDERS)
        layout = database.catalog.layout("v.cells")
        (cells,) = [batch async for batch in database.store.scan(layout.table, b"", None, 1 << 62)]
        await database.store.put({layout.table: [Put(cells[0].key, TOMBSTONE)]}, cells[0].ts)
        report = await database.verify(["v"])
        assert report.differences == 1
        report = await database.verify(["v"], repair=True)
        assert (await database.verify(["v"])).differences == 0


async def test_having_without_groups(tmp_path):
    sql = "SELECT sum(total) AS total FROM orders HAVING count(*) > 5"
    async with opened(tmp_path, TABLES + view(sql)) as database:
        await run(database, CUSTOMERS, ORDERS)
        assert await database.fetch("SELECT * FROM v") == []
        await run(database, "INSERT INTO orders VALUES (20, 1, NULL, 1)")
        await require_right(database)
        assert await database.fetch("SELECT * FROM v") == [(Decimal("16.50"),)]


OPEN = """
SELECT o_id, city, upper(city) AS upper, total * 2 AS twice
FROM orders o LEFT JOIN customer c ON o.c_id = c.c_id
WHERE day IS NULL OR day > DATE '2020-01-01'
"""
CHANGES = (
    "UPDATE orders SET total = 7 WHERE o_id = 10",
    "UPDATE orders SET c_id = 3 WHERE o_id = 11",
    "UPDATE customer SET city = 'Thun' WHERE c_id = 3",
    "UPDATE customer SET tier = 1 WHERE c_id = 4",
    "UPDATE orders SET day = DATE '2019-01-01' WHERE o_id = 13",
    "UPDATE orders SET o_id = 99 WHERE o_id = 12",
    "DELETE FROM orders WHERE o_id = 11",
    "UPDATE orders SET day = NULL, c_id = 2",
    "DELETE FROM orders",
)


@pytest.mark.parametrize(
    "sql",
    [
        OPEN,
        "SELECT city, tier FROM orders o JOIN customer c ON o.c_id = c.c_id WHERE tier < 5",
        "SELECT DISTINCT city, tier FROM orders o JOIN customer c ON o.c_id = c.c_id",
        "SELECT o_id, 1 AS one FROM orders",
    ],
)
async def test_views_without_aggregates_are_maintained_and_built(tmp_path, sql):
    async with opened(tmp_path, TABLES + view(sql)) as database:
        await run(database, CUSTOMERS, ORDERS)
        await require_right(database)
        for change in CHANGES:
            await run(database, change)
            await require_right(database)
        assert await database.fetch("SELECT * FROM v") == []
        await run(database, ORDERS)
        await apply(database, TABLES)
        await apply(database, TABLES + view(sql))
        assert await database.fetch("SELECT * FROM v") != []
        await require_right(database)


async def test_a_row_of_a_view_is_looked_up_by_the_key_of_its_fact(tmp_path):
    async with opened(tmp_path, TABLES + view(OPEN)) as database:
        await run(database, CUSTOMERS, ORDERS)
        sql = "SELECT * FROM v WHERE o_id = 12"
        (step,) = database.explain(sql).steps
        assert step.access == "row by key of"
        assert await database.fetch(sql) == [(12, None, None, None)]
        assert await database.fetch("SELECT o_id FROM v ORDER BY o_id DESC LIMIT 1") == [(14,)]
        more = "INSERT INTO orders VALUES (20, 1, NULL, 3)"
        pending = [Statement(more), Statement("UPDATE customer SET city = 'X' WHERE c_id = 1")]
        async with database.query("SELECT city FROM v WHERE twice > 2", pending=pending) as found:
            assert sorted(await found.stream.all(), key=repr) == [
                ("Bern",),
                ("X",),
                ("X",),
                ("x",),
                (None,),
            ]


async def test_a_moved_parent_and_a_new_child_leave_one_row(tmp_path):
    """A transaction that changes a parent waits for those that insert below it, and finds their
    rows."""
    async with opened(tmp_path, TABLES + view(OPEN)) as database:
        await run(database, CUSTOMERS)
        inserts = (run(database, f"INSERT INTO orders VALUES ({n}, 1, NULL, 1)") for n in range(30))
        moves = (run(database, f"UPDATE customer SET city = '{n}' WHERE c_id = 1") for n in "abc")
        await asyncio.gather(*inserts, *moves)
        assert len(await database.fetch("SELECT * FROM v")) == 30
        await require_right(database)


async def test_damage_of_a_view_without_aggregates_is_found_and_repaired(tmp_path):
    async with opened(tmp_path, TABLES + view(OPEN)) as database:
        await run(database, CUSTOMERS, ORDERS)
        layout = database.catalog.layout("v")
        (cells,) = [batch async for batch in database.store.scan(layout.table, b"", None, 1 << 62)]
        await database.store.put({layout.table: [Put(cells[0].key, TOMBSTONE)]}, cells[0].ts)
        assert (await database.verify(["v"], repair=True)).differences == 1
        await require_right(database)


PAIRS = """
SELECT c_id, day, count(*) AS n, sum(total) / count(*) AS mean, min(total) AS low FROM orders
GROUP BY c_id, day HAVING count(*) < 5
"""
INDEXES = {
    PAIRS: "CREATE INDEX by_day ON v (day DESC, c_id);",
    OPEN: "CREATE INDEX by_day ON v (city);",
}
BY_INDEX = {
    PAIRS: (
        "SELECT * FROM v WHERE day = DATE '2024-01-02'",
        "SELECT * FROM v WHERE day > DATE '2024-01-01' AND day < DATE '2024-01-05'",
        "SELECT * FROM v WHERE day IS NULL",
        "SELECT * FROM v ORDER BY day, c_id DESC NULLS FIRST LIMIT 3",
        "SELECT o_id, v.* FROM orders o JOIN v ON v.day = o.day WHERE o_id = 10",
    ),
    OPEN: (
        "SELECT * FROM v WHERE city = 'Bern'",
        "SELECT * FROM v WHERE city > 'A' AND city < 'Z'",
        "SELECT * FROM v WHERE city IS NULL",
    ),
}


@pytest.mark.parametrize("sql", INDEXES)
async def test_an_index_on_a_view_is_maintained_built_and_chosen(tmp_path, sql):
    ddl = TABLES + view(sql) + INDEXES[sql]
    async with opened(tmp_path, ddl) as database:
        await run(database, CUSTOMERS, ORDERS)
        await run(database, *(f"INSERT INTO orders VALUES ({n}, {n % 4 + 1}, DATE '2023-01-01', 1)"
                              for n in range(100, 140)))  # fmt: skip
        for change in (None, *CHANGES[:-2], "UPDATE orders SET total = 3 WHERE o_id < 120"):
            if change is not None:
                await run(database, change)
            await require_right(database)
            await require_indexed(database, BY_INDEX[sql])
        await apply(database, TABLES + view(sql))
        assert "by_day" not in database.catalog
        await apply(database, ddl)
        assert database.catalog.state["by_day"] is State.READABLE
        await require_right(database)
        await require_indexed(database, BY_INDEX[sql])
        pending = [Statement("INSERT INTO orders VALUES (1, 1, NULL, 3)")]
        condition = "day IS NULL" if sql == PAIRS else "city = 'Bern'"
        read = f"SELECT count(*) FROM v WHERE {condition}"
        ((before,),) = await database.fetch(read)
        async with database.query(read, pending=pending) as result:
            assert await result.stream.all() == [(before + 1,)]
        assert (await database.sizes(["by_day"]))["by_day"] > 0


async def require_indexed(database, queries):
    """Each query reads the index, and finds what a scan of the view finds."""
    for sql in queries:
        assert database.explain(sql).indexes == ("by_day",), database.explain(sql).text
        found = await database.fetch(sql)
        hidden = sql.replace(" v ", " (SELECT * FROM v WHERE random() >= 0) AS v ")
        expected = await database.fetch(hidden)
        assert sorted(map(repr, found)) == sorted(map(repr, expected)), sql


@pytest.mark.parametrize("sql", INDEXES)
async def test_damage_of_an_index_on_a_view_is_found_and_repaired(tmp_path, sql):
    async with opened(tmp_path, TABLES + view(sql) + INDEXES[sql]) as database:
        await run(database, CUSTOMERS, ORDERS)
        layout = database.catalog.layout("by_day")
        (cells,) = [batch async for batch in database.store.scan(layout.table, b"", None, 1 << 62)]
        await database.store.put({layout.table: [Put(cells[0].key, TOMBSTONE)]}, cells[0].ts)
        report = await database.verify(repair=True)
        assert [item.name for item in report.checked if item.differences] == ["by_day"]
        await require_right(database)


@pytest.mark.parametrize(
    ("index", "match"),
    [
        ("CREATE INDEX i ON v (n)", "In index i: Column n of index i is no grouping column"),
        ("CREATE INDEX ON v (nothing)", "names column nothing, which v does not have"),
        ("CREATE INDEX i ON v (day) INCLUDE (n)", "Index i on a view has INCLUDE"),
        ("CREATE INDEX i ON v (day, day)", "twice"),
        ("CREATE INDEX i ON w (day)", "not a relation or view"),
    ],
)
async def test_indexes_that_a_view_cannot_have_are_refused(tmp_path, index, match):
    async with opened(tmp_path, TABLES) as database:
        with pytest.raises((SchemaError, SqlError), match=match) as caught:
            database.plan_schema(PlanRequest(TABLES + view(PAIRS) + "\n" + index + ";"))
        assert caught.value.cure
        assert caught.value.details["line"] == (TABLES + view(PAIRS)).count("\n") + 2


async def test_an_index_on_a_view_that_batches_refresh_is_refused(tmp_path):
    deferred = "CREATE MATERIALIZED VIEW v WITH (refresh = 'deferred') AS SELECT o_id FROM orders;"
    async with opened(tmp_path, TABLES) as database:
        with pytest.raises(SchemaError, match="which batches refresh"):
            database.plan_schema(PlanRequest(TABLES + deferred + "CREATE INDEX i ON v (o_id);"))


async def test_a_view_is_as_old_as_its_snapshot(tmp_path):
    async with opened(tmp_path) as database:
        await run(database, CUSTOMERS, ORDERS)
        before = (await run(database, "UPDATE orders SET total = 5 WHERE o_id = 10")).commit_ts
        await run(database, "UPDATE orders SET total = 6 WHERE o_id = 10")
        sql = "SELECT total FROM v WHERE city = 'Bern'"
        async with database.query(sql, snapshot=before) as result:
            assert await result.stream.all() == [(Decimal("7.00"),)]
        assert await database.fetch(sql) == [(Decimal("8.00"),)]


async def test_a_sum_out_of_range_is_refused_with_its_group(tmp_path):
    ddl = "CREATE TABLE t (k INTEGER PRIMARY KEY, g TEXT, x DECIMAL(38,0));"
    sql = "SELECT g, sum(x) AS total FROM t GROUP BY g"
    async with opened(tmp_path, ddl + view(sql)) as database:
        large = "5" + "0" * 36
        await run(database, f"INSERT INTO t VALUES (1, 'a', {large})")
        with pytest.raises(LimitExceeded, match=r"a sum|A sum of v .*\('a'\)"):
            await run(database, f"INSERT INTO t VALUES (2, 'a', {large})")
        await run(database, f"INSERT INTO t VALUES (3, 'b', {large})")
        assert await database.fetch("SELECT * FROM t WHERE k = 2") == []
        await require_right(database)


async def test_a_group_that_is_too_large_for_a_key_is_refused(tmp_path):
    ddl = "CREATE TABLE t (k INTEGER PRIMARY KEY, g TEXT);"
    async with opened(
        tmp_path, ddl + view("SELECT g, count(*) AS n FROM t GROUP BY g")
    ) as database:
        with pytest.raises(LimitExceeded, match="key"):
            await run(database, f"INSERT INTO t VALUES (1, '{'x' * 40_000}')")
        await run(database, "INSERT INTO t VALUES (1, 'x')")
        await require_right(database)


BIG = "CREATE TABLE t (k INTEGER PRIMARY KEY, x DECIMAL(38,0));"
OF_BIG = "SELECT sum(x) AS total, max(x) AS high FROM t"


async def test_a_build_that_fails_leaves_nothing(tmp_path):
    """The view is quarantined, and built again when the row is corrected."""
    async with opened(tmp_path, BIG) as database:
        await run(database, f"INSERT INTO t VALUES (1, {'9' * 37})")
        await apply(database, BIG + view("SELECT count(*) AS n FROM t", "w") + view(OF_BIG))
        assert "range of its type" in database.keeper.builds["v"].error
        assert database.catalog.state["v"] is State.QUARANTINED
        assert database.catalog.state["w"] is State.READABLE
        with pytest.raises(SqlError, match="v"):
            await database.fetch("SELECT * FROM v")
        await run(database, "INSERT INTO t VALUES (2, 5)")
        assert await stored_in(database, "v") == []
        with pytest.raises(NotFound, match="no readable view"):
            await database.verify(["v"], repair=True)
        assert database.catalog.state["v"] is State.QUARANTINED
        await run(database, "UPDATE t SET x = 7 WHERE k = 1")
        report = await database.verify(repair=True)
        assert report.differences == 0
        assert await database.fetch("SELECT * FROM v") == [(12, 7)]
        await require_right(database)


async def test_a_quarantined_view_stays_so_after_a_restart(tmp_path):
    async with opened(tmp_path, BIG) as database:
        await run(database, f"INSERT INTO t VALUES (1, {'9' * 37})")
        await apply(database, BIG + view(OF_BIG))
    async with await Database.open(load_settings(data=tmp_path)) as database:
        await database.keeper.wait_built()
        assert database.catalog.state["v"] is State.QUARANTINED
        stored = {database.catalog.layout(name).table for name in database.catalog.stored}
        tables = {name for name in await database.store.tables() if not name.startswith("s.")}
        assert tables == stored
        assert await stored_in(database, "v") == []


async def test_an_unreadable_row_fails_the_build(tmp_path):
    async with opened(tmp_path, TABLES) as database:
        await run(database, CUSTOMERS, ORDERS)
        codec = database.manager.state.codecs("customer")
        put = Put(codec.key_of((1,)), b"\x01\xc1")
        await database.store.put({codec.layout.table: [put]}, database.watermark())
        await apply(database, TABLES + view(BY_CITY))
        assert "customer" in database.keeper.builds["v"].error
        assert database.catalog.state["v"] is State.QUARANTINED
        assert await stored_in(database, "v") == []


async def stored_in(database, name):
    """All cells of an immediate view."""
    tables = [
        database.catalog.layout(part).table for part in database.catalog.immediate_view[name].stored
    ]
    return [
        cell
        for table in tables
        async for batch in database.store.scan(table, b"", None, NEWEST)
        for cell in batch
    ]


async def test_a_build_shows_its_progress_and_its_size(tmp_path, monkeypatch):
    sql = "SELECT o_id, count(*) AS n, max(total) AS high FROM orders GROUP BY o_id"
    async with opened(tmp_path, TABLES) as database:
        rows = ", ".join(f"({n}, NULL, NULL, {n})" for n in range(1000))
        await run(database, f"INSERT INTO orders VALUES {rows}")
        monkeypatch.setattr(building, "base_cells", partial(base_cells, most=300))
        shown = []
        put = database.store.put

        async def watched(writes, ts):
            if any(table.startswith("a.v") for table in writes):
                build = database.keeper.builds["v"]
                shown.append((build.scanned, build.total))
            await put(writes, ts)

        monkeypatch.setattr(database.store, "put", watched)
        await apply(database, TABLES + view(sql))
        build = database.keeper.builds["v"]
        assert (build.rows, build.finished) == (1000, True)
        assert len(shown) > 4
        assert shown == sorted(shown)
        assert all(scanned <= total for scanned, total in shown)
        assert shown[-1][0] >= 2 * 1000, "several passes"
        assert build.total == build.scanned
        status = await database.status()
        assert status["views"] == {"v": "readable"}
        sizes = await database.sizes()
        alone = await database.store.size(database.catalog.layout("v").table)
        assert sizes["v"] > alone > 0


async def test_additions_are_not_laid_over_an_older_snapshot(tmp_path):
    """Between two reads of a view by one transaction, another one adds a row below the parent that
    the first one moves to another group."""
    async with opened(tmp_path) as database:
        await run(database, CUSTOMERS, ORDERS)
        read = "INSERT INTO customer SELECT {} + n, 'read', 9 FROM v WHERE city = 'Bern'"
        plain, first = Searches.reader, []

        async def search(self, sources):
            found = await plain(self, sources)
            if not first:
                first.append(self)
                await run(database, "INSERT INTO orders VALUES (30, 2, NULL, 1)")
            return found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Searches, "reader", search)
            await run(
                database,
                read.format(100),
                "UPDATE customer SET city = 'Thun' WHERE c_id = 2",
                read.format(200),
            )
        kept = await database.fetch("SELECT c_id FROM customer WHERE city = 'read'")
        assert sorted(kept) == [(103,), (201,)], "the attempt began again, and read the new row"
        await require_right(database)


async def test_a_hot_group_is_read_past_its_versions(tmp_path, monkeypatch):
    sql = "SELECT c_id, count(*) AS n FROM orders GROUP BY c_id"
    async with opened(tmp_path, TABLES + view(sql)) as database:
        await run(database, "INSERT INTO customer VALUES (1, 'a', 0)")
        for n in range(300):
            await run(database, f"INSERT INTO orders VALUES ({n}, 1, NULL, NULL)")
        steps = []
        plain = versions._timestamp
        monkeypatch.setattr(versions, "_timestamp", lambda key: steps.append(key) or plain(key))
        entries = list(versions.entries_between(database.store._db, b"", b"\xff" * 8))
        assert len(entries) > 600, "the versions are there"
        steps.clear()
        assert await database.fetch("SELECT n FROM v WHERE c_id = 1") == [(300,)]
        assert len(steps) < 20


async def test_groups_survive_a_restart(tmp_path):
    async with opened(tmp_path) as database:
        await run(database, CUSTOMERS, ORDERS)
    async with await Database.open(load_settings(data=tmp_path)) as database:
        await run(database, "INSERT INTO orders VALUES (20, 1, DATE '2023-01-01', 0.25)")
        await require_right(database)


async def test_a_view_is_built_over_rows_and_dropped_without_a_trace(tmp_path):
    async with opened(tmp_path, TABLES) as database:
        await run(database, CUSTOMERS, ORDERS)
        before = set(await database.store.tables())
        await apply(database, TABLES + view(BY_CITY))
        assert database.catalog.state["v"] is State.READABLE
        await require_right(database)
        await run(database, "DELETE FROM orders WHERE o_id = 11")
        await require_right(database)
        await apply(database, TABLES)
        await database.keeper.wait_built()
        assert set(await database.store.tables()) == before


async def test_an_initial_load_builds_the_view_again(tmp_path):
    async with opened(tmp_path) as database:
        await run(database, CUSTOMERS)
        rows = {"orders": [(10, 1, None, Decimal("1.50")), (11, 2, None, Decimal("2.00"))]}
        await database.initial_loads.begin(["orders"], "files", {})
        await fill_load(database, rows)
        await finish(database, rows)
        await database.initial_loads.end(database.catalog.load.number)
        await database.keeper.wait_built()
        assert await database.fetch("SELECT city, n, total FROM v") == [
            ("Bern", 2, Decimal("3.50"))
        ]
        await require_right(database)


@pytest.mark.parametrize("sql", INDEXES)
async def test_an_initial_load_builds_indexes_on_the_view_again(tmp_path, sql):
    async with opened(tmp_path, TABLES + view(sql) + INDEXES[sql]) as database:
        await run(database, CUSTOMERS)
        rows = {"orders": [(n, n % 4 + 1, None, Decimal("1.50")) for n in range(10, 30)]}
        await database.initial_loads.begin(["orders"], "files", {})
        await fill_load(database, rows)
        await finish(database, rows)
        await database.initial_loads.end(database.catalog.load.number)
        await database.keeper.wait_built()
        await require_right(database)
        await require_indexed(database, BY_INDEX[sql])


async def test_an_external_builder_leaves_indexes_on_views_to_the_node(tmp_path):
    ddl = TABLES + view(PAIRS) + INDEXES[PAIRS] + view(OPEN, "plain")
    async with opened(tmp_path, ddl) as database:
        await run(database, CUSTOMERS, ORDERS)
        for name in ("by_day", "plain"):
            with pytest.raises(InvalidRequest, match=f"{name} is built only by the node"):
                await database.keeper.leave_to_external([name], rebuild=True)
        assert await database.keeper.leave_to_external(["v"], rebuild=True) == ["v"]
        assert database.catalog.state["v"] is State.BUILDING
        assert database.catalog.state["by_day"] is State.READABLE
        assert await database.keeper.cancel(["v"]) == ["v", "by_day"]
        assert "v" not in database.catalog
        assert "by_day" not in database.catalog
        await require_right(database)


async def test_a_view_without_aggregates_that_could_not_be_built_is_built_again(tmp_path):
    sql = "SELECT c_id, tier * 1000000000 AS large FROM customer"
    async with opened(tmp_path, TABLES) as database:
        await run(database, "INSERT INTO customer VALUES (1, 'Bern', 1), (2, 'Bern', 3)")
        await apply(database, TABLES + view(sql))
        assert database.catalog.state["v"] is State.QUARANTINED
        await run(database, "UPDATE customer SET tier = 2 WHERE c_id = 2")
        await database.verify(repair=True)
        assert database.catalog.state["v"] is State.READABLE
        await require_right(database)


async def test_damaged_groups_are_found_and_repaired(tmp_path):
    async with opened(tmp_path) as database:
        await run(database, CUSTOMERS, ORDERS)
        cells = database.catalog.layout("v.cells").table
        values = database.catalog.layout(database.catalog.immediate[0].values_names[0]).table
        for table in (cells, values):
            async for batch in database.store.scan(table, b"", None, 1 << 62):
                put = Put(batch[0].key, TOMBSTONE)
                await database.store.put({table: [put]}, database.watermark())
        report = await database.verify()
        assert report.differences
        await database.verify(repair=True)
        await run(database, "INSERT INTO orders VALUES (20, 1, DATE '2023-01-01', 0.25)")
        await require_right(database)


REFUSED = {
    "SELECT c_id FROM orders UNION ALL SELECT tier FROM customer": "UNION",
    "SELECT o_id, strftime(day, '%Y') AS y FROM orders": "cannot be evaluated in a transaction",
    "SELECT a.o_id FROM orders a WHERE EXISTS (SELECT 1 FROM customer c WHERE c.c_id = a.c_id)": (
        "EXISTS"
    ),
    "SELECT city, sum(total) AS t FROM orders o, customer c GROUP BY city": "no equality",
    "SELECT tier, count(*) AS n FROM orders o JOIN customer c ON o.o_id = c.c_id GROUP BY tier": (
        "No single relation"
    ),
    "SELECT c_id FROM orders GROUP BY c_id HAVING sum(total) > (SELECT avg(tier) FROM customer)": (
        "subquery"
    ),
    "SELECT c_id FROM orders GROUP BY c_id HAVING strftime(max(day), '%Y') = '2024'": (
        "HAVING is an expression over aggregates that only DuckDB evaluates"
    ),
    "SELECT c_id, count(*) AS n, sqrt(count(*)) AS root FROM orders GROUP BY c_id": (
        "Column root is an expression over aggregates that only DuckDB evaluates"
    ),
    "SELECT c_id, sum(total::DOUBLE) AS n FROM orders GROUP BY c_id": "of DOUBLE cannot be",
    "SELECT upper(strftime(day, '%Y')) AS y, count(*) AS n FROM orders GROUP BY y": (
        "cannot be evaluated in a transaction"
    ),
    "SELECT c_id, count(*) AS n FROM (SELECT DISTINCT c_id FROM orders) AS s GROUP BY c_id": (
        "DISTINCT"
    ),
    "SELECT tier, count(*) AS n FROM customer c LEFT JOIN orders o ON o.c_id = c.c_id GROUP BY tier": (  # noqa: E501
        "LEFT JOIN"
    ),
}


@pytest.mark.parametrize("sql", REFUSED)
async def test_what_transactions_cannot_maintain_is_refused_with_a_reason(tmp_path, sql):
    async with opened(tmp_path, TABLES) as database:
        with pytest.raises(Unsupported, match=REFUSED[sql]) as caught:
            database.plan_schema(PlanRequest(TABLES + view(sql)))
        assert "deferred" in caught.value.cure or "refresh" in caught.value.cure
        assert caught.value.details["line"], "the error has a place"


@pytest.mark.parametrize("option", ["interval = '5 s'", "\"group\" = 'g'"])
async def test_options_of_batches_are_refused(tmp_path, option):
    async with opened(tmp_path, TABLES) as database:
        ddl = f"CREATE MATERIALIZED VIEW v WITH (refresh = 'immediate', {option}) AS {BY_CITY};"
        with pytest.raises(SchemaError, match="no interval"):
            database.plan_schema(PlanRequest(TABLES + ddl))
