"""Rows that are too large for a store are refused before they are logged."""

import pytest

from hornbeam_server.node.schema_plans import PlanRequest
from hornbeam_server.schema.errors import LimitExceeded
from hornbeam_server.storage.limits import MAX_KEY_BYTES, MAX_ROW_BYTES
from tests.txlayer.database_world import opened

DDL = """
CREATE TABLE author (a_name TEXT PRIMARY KEY, a_life TEXT);
CREATE TABLE book (b_id INTEGER PRIMARY KEY, b_author TEXT REFERENCES author (a_name), b_text TEXT);
"""
WORKLOAD = "SELECT a_life, b_text FROM author, book WHERE a_name = b_author AND b_id = ?;"
LARGE = "x" * (MAX_ROW_BYTES * 6 // 10)


async def apply(database, workload):
    request = PlanRequest(DDL, workload, roots=("author",))
    await database.apply_schema(request, database.plan_schema(request).plan_id)
    await database.keeper.wait_built()


async def refused(database, sql, *parameters):
    with pytest.raises(LimitExceeded, match="are the most that can be stored"):
        await database.execute(sql, parameters)
    assert database.locks.held_count == 0


async def test_too_large_rows_and_keys_are_refused_and_leave_nothing(tmp_path):
    async with opened(tmp_path) as database:
        await apply(database, "")
        author, book = "INSERT INTO author VALUES (?, ?)", "INSERT INTO book VALUES (?, ?, ?)"
        await refused(database, author, "ann", "x" * MAX_ROW_BYTES)
        await refused(database, author, "x" * MAX_KEY_BYTES, "")
        await database.execute(author, ("ann", LARGE))
        await database.execute(book, (1, "ann", LARGE))
        assert await database.fetch("SELECT count(*) FROM book") == [(1,)]
        returning = "UPDATE book SET b_id = b_id + 1 RETURNING b_text, b_text"
        await refused(database, returning)


async def test_a_view_with_a_too_large_row_is_not_built(tmp_path):
    async with opened(tmp_path) as database:
        await apply(database, "")
        await database.execute("INSERT INTO author VALUES (?, ?)", ("ann", LARGE))
        await database.execute("INSERT INTO book VALUES (?, ?, ?)", (1, "ann", LARGE))
        await apply(database, WORKLOAD)
        (view,) = database.catalog.view
        assert "are the most that can be stored" in database.keeper.builds[view].error
        sql = WORKLOAD.removesuffix(";")
        assert await database.fetch(sql, (1,)) == [(LARGE, LARGE)]
        await refused(database, "INSERT INTO book VALUES (2, 'ann', ?)", LARGE)
        await database.execute("INSERT INTO book VALUES (2, 'ann', 'short')")
