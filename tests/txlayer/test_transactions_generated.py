"""Generated columns: every write computes them, and no statement assigns them."""

from decimal import Decimal

import pytest

from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import (
    CheckViolation,
    NotNullViolation,
    SqlError,
    TypeMismatch,
    UniqueViolation,
)
from tests.txlayer.database_world import catalog_of, check, opened, run_all

ORDERS = """
CREATE TABLE buyer (b_id INTEGER PRIMARY KEY, b_name TEXT NOT NULL,
  b_key TEXT GENERATED ALWAYS AS (lower(trim(b_name))) STORED UNIQUE);
CREATE TABLE item (
  i_id INTEGER PRIMARY KEY,
  i_b_id INTEGER REFERENCES buyer ON DELETE SET NULL,
  i_count INTEGER DEFAULT 1,
  i_price DECIMAL(9,2),
  i_total DECIMAL(12,2) GENERATED ALWAYS AS (i_count * i_price) STORED CHECK (i_total < 1000),
  i_free BOOLEAN NOT NULL GENERATED ALWAYS AS (i_b_id IS NULL) STORED
);
CREATE INDEX by_total ON item (i_total);
CREATE TABLE pair (
  p_a INTEGER, p_b INTEGER, p_sum BIGINT GENERATED ALWAYS AS (p_a + p_b) STORED,
  p_text TEXT, PRIMARY KEY (p_sum));
"""
FILL = (
    "INSERT INTO buyer (b_id, b_name) VALUES (1, ' Ann'), (2, 'BOB ')",
    "INSERT INTO item (i_id, i_b_id, i_count, i_price) VALUES (1, 1, 2, 1.5), (2, NULL, 3, NULL)",
    "INSERT INTO item VALUES (3, 2, DEFAULT, 4.255, DEFAULT, DEFAULT)",
    "INSERT INTO pair (p_a, p_b) VALUES (1, 2), (3, 4)",
)
TOTALS = "SELECT i_id, i_total, i_free FROM item ORDER BY i_id"


async def test_inserts_and_updates_compute_them(tmp_path):
    async with opened(tmp_path, catalog_of(load_ddl(ORDERS))) as database:
        await run_all(database, *FILL)
        assert await database.fetch(TOTALS) == [
            (1, Decimal("3.00"), False),
            (2, None, True),
            (3, Decimal("4.26"), False),
        ]
        changed = await database.execute(
            "UPDATE item SET i_count = i_count + 1, i_total = DEFAULT WHERE i_id = 1"
            " RETURNING i_total"
        )
        assert changed.statements[0].rows == ((Decimal("4.50"),),)
        await run_all(
            database,
            "INSERT INTO item (i_id, i_price) VALUES (1, 7) ON CONFLICT (i_id)"
            " DO UPDATE SET i_price = excluded.i_price + excluded.i_total",
            "INSERT INTO item (i_id, i_price) SELECT i_id + 10, 2 FROM item WHERE i_id < 3",
        )
        assert (await database.fetch(TOTALS))[0] == (1, Decimal("42.00"), False)
        found = await database.fetch("SELECT i_id FROM item WHERE i_total = 2 ORDER BY i_id")
        assert found == [(11,), (12,)]
        await check(database)


async def test_set_null_computes_them(tmp_path):
    async with opened(tmp_path, catalog_of(load_ddl(ORDERS))) as database:
        await run_all(database, *FILL, "DELETE FROM buyer WHERE b_id = 1")
        assert (await database.fetch(TOTALS))[0] == (1, Decimal("3.00"), True)
        await check(database)


async def test_a_generated_key_follows_its_columns(tmp_path):
    async with opened(tmp_path, catalog_of(load_ddl(ORDERS))) as database:
        await run_all(database, *FILL)
        await database.execute("UPDATE pair SET p_b = 10 WHERE p_sum = 3")
        found = await database.fetch("SELECT p_sum, p_a FROM pair ORDER BY p_sum")
        assert found == [(7, 3), (11, 1)]
        with pytest.raises(UniqueViolation):
            await database.execute("UPDATE pair SET p_b = 8 WHERE p_a = 3")
        await run_all(
            database,
            "INSERT INTO pair (p_a, p_b) VALUES (5, 6) ON CONFLICT (p_sum) DO UPDATE SET p_text ="
            " 'again'",
        )
        assert await database.fetch("SELECT p_text FROM pair WHERE p_sum = 11") == [("again",)]
        await check(database)


async def test_constraints_over_generated_columns_hold(tmp_path):
    async with opened(tmp_path, catalog_of(load_ddl(ORDERS))) as database:
        await run_all(database, *FILL)
        with pytest.raises(CheckViolation, match="item_i_total_check"):
            await database.execute("UPDATE item SET i_count = 900 WHERE i_id = 1")
        with pytest.raises(UniqueViolation, match="b_key"):
            await database.execute("INSERT INTO buyer (b_id, b_name) VALUES (3, 'ann  ')")
        await database.execute("UPDATE buyer SET b_name = 'bob' WHERE b_id = 2")
        with pytest.raises(UniqueViolation, match="b_key"):
            await database.execute("UPDATE buyer SET b_name = 'ANN' WHERE b_id = 2")
        await check(database)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO item (i_id, i_total) VALUES (9, 1)",
        "INSERT INTO item (i_id, i_total) VALUES (9, DEFAULT), (10, NULL)",
        "INSERT INTO item VALUES (9, 1, 1, 1, 1, DEFAULT)",
        "INSERT INTO item SELECT * FROM item",
        "INSERT INTO item (i_id, i_total) OVERRIDING SYSTEM VALUE VALUES (9, 1)",
        "UPDATE item SET i_total = 1",
        "INSERT INTO item (i_id) VALUES (1) ON CONFLICT (i_id) DO UPDATE SET i_total = 5",
    ],
)
async def test_they_take_no_values(tmp_path, sql):
    async with opened(tmp_path, catalog_of(load_ddl(ORDERS))) as database:
        await run_all(database, *FILL)
        with pytest.raises(SqlError, match="Column i_total of item takes no value") as caught:
            await database.execute(sql)
        assert "DEFAULT" in caught.value.cure
        assert len(await database.fetch(TOTALS)) == 3


async def test_batches_compute_them(tmp_path):
    async with opened(tmp_path, catalog_of(load_ddl(ORDERS))) as database:
        await run_all(database, *FILL)
        await database.load("item", ["i_id", "i_price"], [(n, n) for n in range(10, 500)])
        found = await database.fetch("SELECT i_total FROM item WHERE i_id = 77")
        assert found == [(Decimal("77.00"),)]
        with pytest.raises(SqlError, match="takes no value"):
            await database.load("item", ["i_id", "i_total"], [(600, 1)])
        await check(database)


async def test_not_null_and_ranges_are_checked(tmp_path):
    ddl = (
        "CREATE TABLE t (a INT PRIMARY KEY, b INT, v VARCHAR(3) GENERATED ALWAYS AS (CAST(a AS"
        " TEXT)) STORED, s SMALLINT NOT NULL GENERATED ALWAYS AS (b * 2) STORED)"
    )
    async with opened(tmp_path, catalog_of(load_ddl(ddl))) as database:
        await database.execute("INSERT INTO t (a, b) VALUES (1, 100)")
        with pytest.raises(NotNullViolation, match=r"t\.s"):
            await database.execute("INSERT INTO t (a) VALUES (2)")
        with pytest.raises(TypeMismatch, match="Column s"):
            await database.execute("UPDATE t SET b = 20000")
        with pytest.raises(TypeMismatch, match="Column v"):
            await database.execute("INSERT INTO t (a, b) VALUES (1234, 1)")
        assert await database.fetch("SELECT * FROM t") == [(1, 100, "1", 200)]
