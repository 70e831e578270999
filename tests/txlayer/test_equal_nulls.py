"""UNIQUE NULLS NOT DISTINCT: NULLs are equal values."""

import pytest

from hornbeam_server.node.database import Database
from hornbeam_server.schema.errors import UniqueViolation
from tests.txlayer.database_world import check, run_all
from tests.txlayer.database_world import settings as settings_of
from tests.txlayer.test_plain_views import applied

TABLE = "CREATE TABLE t (k INTEGER PRIMARY KEY, a INTEGER, b TEXT, gone DATE);"
INDEXES = """
ALTER TABLE t ADD CONSTRAINT pair UNIQUE NULLS NOT DISTINCT (a, b);
CREATE UNIQUE INDEX present ON t (lower(b)) NULLS NOT DISTINCT WHERE gone IS NULL;
"""


async def test_one_row_may_have_null(tmp_path):
    async with await Database.open(settings_of(tmp_path)) as database:
        await applied(database, TABLE + INDEXES)
        await run_all(
            database,
            "INSERT INTO t VALUES (1, NULL, NULL, NULL), (2, 1, NULL, '2026-01-01')",
            "INSERT INTO t VALUES (3, NULL, 'x', NULL)",
        )
        for wrong in (
            "INSERT INTO t VALUES (4, NULL, NULL, '2026-01-01')",
            "INSERT INTO t VALUES (4, 7, NULL, NULL)",
            "UPDATE t SET gone = NULL WHERE k = 2",
            "UPDATE t SET a = NULL WHERE k = 2",
            "INSERT INTO t VALUES (4, 8, NULL, '2026-01-01'), (5, 8, NULL, '2026-01-01')",
        ):
            with pytest.raises(UniqueViolation):
                await database.execute(wrong)
        await run_all(
            database,
            "INSERT INTO t VALUES (4, NULL, 'x', NULL) ON CONFLICT (a, b) DO UPDATE SET a = 5",
            "INSERT INTO t VALUES (4, 9, NULL, NULL) ON CONFLICT DO NOTHING",
            "UPDATE t SET gone = CASE k WHEN 1 THEN DATE '2026-01-02' END",
            "UPDATE t SET a = CASE k WHEN 2 THEN NULL WHEN 1 THEN 1 ELSE a END",
        )
        found = await database.fetch("SELECT k, a, b FROM t ORDER BY k")
        assert found == [(1, 1, None), (2, None, None), (3, 5, "x")]
        await check(database)


async def test_stored_nulls_are_checked(tmp_path):
    async with await Database.open(settings_of(tmp_path)) as database:
        await applied(database, TABLE)
        await run_all(database, "INSERT INTO t VALUES (1, 1, NULL, NULL), (2, 2, NULL, NULL)")
        with pytest.raises(UniqueViolation, match="cannot be UNIQUE"):
            await applied(database, TABLE + INDEXES)
        await run_all(database, "UPDATE t SET gone = '2026-01-01' WHERE k = 1")
        await applied(database, TABLE + INDEXES)
        await check(database)
