"""A WHERE finds the same rows in UPDATE and DELETE as in SELECT, whatever it compares with."""

import asyncio
from decimal import Decimal

import pytest
from database_world import catalog_of, opened, run_all

from schema.ddl import load_ddl

DDL = """
CREATE TABLE t (id INTEGER PRIMARY KEY, d DECIMAL(10,2), n VARCHAR(3));
"""
ROWS = ("INSERT INTO t VALUES (1, 1.00, 'abc')",)


def on_rows(folder, test):
    async def run():
        async with opened(folder, catalog_of(load_ddl(DDL))) as database:
            await run_all(database, *ROWS)
            await test(database)

    asyncio.run(run())


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
def test_a_parameter_is_compared_as_it_is(tmp_path, condition, value, found, left_to_duckdb):
    """It was rounded to the column's scale, or refused for its length, in what we do not compile:
    a DELETE took a row that its WHERE did not mean."""
    where = f"id = 1 AND {condition}" + (" AND md5(n) <> ''" if left_to_duckdb else "")

    async def test(database):
        done = await database.execute(f"DELETE FROM t WHERE {where}", [value])
        assert done.statements[0].affected == found

    on_rows(tmp_path, test)
