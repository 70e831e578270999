"""REAL: rounded when it is assigned or cast, computed and compared as in PostgreSQL, shown with its
own digits, in our own loops and in DuckDB."""

from __future__ import annotations

from decimal import Decimal

import pytest

from hornbeam_server.schema.catalog import State
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import SqlError, TypeMismatch
from hornbeam_server.schema.reals import real_of
from tests.txlayer.database_world import catalog_of, check, opened, run_all
from tests.txlayer.test_immediate_views import apply

TABLES = (
    "CREATE TABLE t (id INTEGER PRIMARY KEY, r REAL, d DOUBLE, n NUMERIC(10,4), i INTEGER, x TEXT,"
    " a REAL[], CHECK (r <> 7), w REAL GENERATED ALWAYS AS (r * r) STORED);"
    "CREATE TABLE line (no INTEGER PRIMARY KEY, t INTEGER REFERENCES t, q FLOAT(24));"
    "CREATE INDEX by_r ON t (r);"
    "CREATE MATERIALIZED VIEW now AS"
    " SELECT i, count(*) AS c, min(r) AS lo, max(r) AS hi FROM t GROUP BY i;"
    "CREATE MATERIALIZED VIEW lines AS SELECT no, q, r, q * r AS p, r::TEXT AS s FROM line"
    " JOIN t ON t = id WHERE r > 0.05;"
)
ROWS = (
    "INSERT INTO t (id, r, d, n, i, x, a) VALUES (1, 0.1, 0.1, 0.1, 1, 'a', '{0.1,2}'),"
    " (2, 12345678.9, 2.5, 2.5, 16777217, 'b', NULL), (3, NULL, NULL, NULL, NULL, NULL, NULL)",
    "INSERT INTO line VALUES (1, 1, 0.3), (2, 2, 1.5), (3, 1, NULL)",
)
TENTH, LARGE = real_of(0.1), 12345679.0
FOUND = [
    ("SELECT r, a FROM t WHERE id = 1", [(TENTH, (TENTH, 2.0))]),
    ("SELECT id FROM t WHERE r = 0.1", []),
    ("SELECT id FROM t WHERE r < 0.1", []),
    ("SELECT id FROM t WHERE r <= 0.1000000015", [(1,)]),
    ("SELECT id FROM t WHERE r = '0.1'", [(1,)]),
    ("SELECT id FROM t WHERE r = 0.1::REAL", [(1,)]),
    ("SELECT id FROM t WHERE r IN (0.1, 12345679)", [(2,)]),
    ("SELECT id FROM t WHERE r BETWEEN 0.1 AND 0.11", [(1,)]),
    ("SELECT id FROM t WHERE r = d", []),
    ("SELECT id FROM t WHERE r > n", [(1,), (2,)]),
    ("SELECT r * r, r * 2, r / 3, -r, w FROM t WHERE id = 1",
     [(real_of(TENTH * TENTH), TENTH * 2, TENTH / 3, -TENTH, real_of(TENTH * TENTH))]),
    ("SELECT r::TEXT, r || 'x', a::TEXT FROM t WHERE id = 1", [("0.1", "0.1x", "{0.1,2}")]),
    ("SELECT r::TEXT, r::NUMERIC(10,2) FROM t WHERE id = 2",
     [("1.2345679e+07", Decimal("12345700.00"))]),
    ("SELECT i::REAL, n::REAL, d::REAL FROM t WHERE id = 2", [(16777216.0, 2.5, 2.5)]),
    ("SELECT sum(r), min(r), max(r) FROM t", [(LARGE, TENTH, LARGE)]),
    ("SELECT q, p, s FROM lines WHERE no = 1",
     [(real_of(0.3), real_of(real_of(0.3) * TENTH), "0.1")]),
    ("SELECT lo, hi FROM now WHERE i = 1", [(TENTH, TENTH)]),
]  # fmt: skip


async def test_a_real_is_computed_compared_and_shown_as_in_postgresql(tmp_path):
    async with opened(tmp_path, None) as database:
        await apply(database, TABLES)
        await run_all(database, *ROWS)
        for sql, wanted in FOUND:
            for asked in (sql, f"SELECT * FROM ({sql}) AS q QUALIFY row_number() OVER () > 0"):
                assert sorted(await database.fetch(asked)) == wanted, asked
        await run_all(
            database, "UPDATE t SET r = r * 2 WHERE id = 1", "DELETE FROM line WHERE no = 2"
        )
        assert await database.fetch("SELECT r, w FROM t WHERE r = 0.2::REAL") == [
            (real_of(0.2), real_of(real_of(0.2) ** 2))
        ]
        assert {*database.catalog.state.values()} <= {State.READABLE}
        await check(database)


async def test_a_number_that_is_out_of_range_is_no_real(tmp_path):
    async with opened(tmp_path, catalog_of(load_ddl(TABLES))) as database:
        await run_all(database, *ROWS)
        for value in ("1e39", "-1e39", "1e-46", "'1e50'", "n * 1e40"):
            with pytest.raises(TypeMismatch, match="out of range"):
                await database.execute(f"UPDATE t SET r = {value} WHERE id = 1")
        for sql in ("SELECT r * 1e38::REAL FROM t", "SELECT (r * 1e-50)::REAL FROM t",
                    "SELECT (n * 1e40)::REAL FROM t"):  # fmt: skip
            for asked in (sql, f"SELECT * FROM ({sql}) AS q QUALIFY row_number() OVER () > 0"):
                with pytest.raises(SqlError, match="out of range"):
                    await database.fetch(asked)


async def test_parameters_are_rounded_when_they_are_assigned_and_not_when_they_are_compared(
    tmp_path,
):
    async with opened(tmp_path, catalog_of(load_ddl(TABLES))) as database:
        await run_all(database, *ROWS)
        await database.execute("UPDATE t SET r = ? WHERE id = ?", [0.7, 3])
        assert await database.fetch("SELECT r FROM t WHERE id = 3") == [(real_of(0.7),)]
        assert await database.fetch("SELECT id FROM t WHERE r = ?", [0.7]) == []
        assert await database.fetch("SELECT id FROM t WHERE r = ?", ["0.7"]) == [(3,)]
        assert await database.fetch("SELECT id FROM t WHERE r = CAST(? AS REAL)", [0.7]) == [(3,)]


async def test_text_gets_the_digits_of_a_real(tmp_path):
    async with opened(tmp_path, catalog_of(load_ddl(TABLES))) as database:
        await run_all(database, *ROWS)
        await run_all(
            database,
            "UPDATE t SET x = r WHERE id = 1",
            "INSERT INTO t (id, x) SELECT 10, r FROM t WHERE id = 1",
            "INSERT INTO t (id, x) VALUES (11, 0.1::REAL)",
            "INSERT INTO t (id, x) VALUES (12, (SELECT r FROM t WHERE id = 1))",
        )
        assert await database.fetch("SELECT DISTINCT x FROM t WHERE id NOT IN (2, 3)") == [("0.1",)]
