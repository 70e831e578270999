"""Immediate views keep the results that functions of numbers have in PostgreSQL."""

from __future__ import annotations

import pytest

from hornbeam_server.schema.errors import TypeMismatch
from tests.txlayer.test_immediate_views import opened, require_right, run, view

TABLE = """
CREATE TABLE t (id INTEGER PRIMARY KEY, g INTEGER, a INTEGER, s SMALLINT, n DECIMAL(10,2),
  w DECIMAL(38,0));
"""
SUMS = """
SELECT g, sum(round(a, 0)) AS r, sum(nullif(a, 2.5)) AS q, sum(n % 3) AS m, sum(s + s) AS twice,
  sum((n / 3) % w) AS wide, max(round(a)) AS high FROM t GROUP BY g
"""
ROWS = (
    "INSERT INTO t VALUES (1, 1, 7, 3, 10.25, 12345678901234567890), (2, 1, 8, 5, -3.5, 3)",
    "INSERT INTO t VALUES (3, 1, NULL, 16383, 1.25, 5), (4, 2, 2, NULL, NULL, NULL)",
    "UPDATE t SET a = a + 1, n = n * 2 WHERE g = 1",
    "DELETE FROM t WHERE id = 2",
)


async def test_views_of_numbers_are_right_after_each_change(tmp_path):
    async with opened(tmp_path, TABLE + view(SUMS)) as database:
        for statement in ROWS:
            await run(database, statement)
            await require_right(database)


async def test_a_row_whose_smallint_overflows_in_a_view_is_not_written(tmp_path):
    async with opened(tmp_path, TABLE + view(SUMS)) as database:
        await run(database, *ROWS)
        with pytest.raises(TypeMismatch, match="out of range for SMALLINT"):
            await run(database, "INSERT INTO t VALUES (9, 1, 1, 16384, 1, 1)")
        await require_right(database)
