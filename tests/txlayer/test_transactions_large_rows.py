"""Rows may have megabytes: no statement collects more of them than fits in memory."""

import tracemalloc
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from hornbeam_server.node.schema_plans import PlanRequest
from hornbeam_server.query import duckdb_plan
from hornbeam_server.query.execution import loops
from hornbeam_server.schema.errors import LimitExceeded
from hornbeam_server.txlayer.transactions import byte_limits
from tests.txlayer.database_world import opened

DDL = """
CREATE TABLE doc (id INTEGER PRIMARY KEY, g INTEGER, body TEXT);
CREATE TABLE link (id INTEGER PRIMARY KEY, doc INTEGER);
CREATE TABLE part (g INTEGER, id INTEGER, body TEXT, PRIMARY KEY (g, id));
CREATE TABLE copy (id INTEGER PRIMARY KEY, g INTEGER, body TEXT);
CREATE TABLE par (id INTEGER PRIMARY KEY);
CREATE TABLE kid (
  par INTEGER REFERENCES par (id) ON DELETE CASCADE, id INTEGER, body TEXT, PRIMARY KEY (par, id));
CREATE INDEX doc_by_g ON doc (g);
"""
ROWS, BYTES = 60, 600_000
MOST = 14 << 20
"""The maximum that Python allocates in a query: less than half of a relation's rows."""


@asynccontextmanager
async def filled(tmp_path, *relations):
    async with opened(tmp_path) as database:
        request = PlanRequest(DDL)
        await database.apply_schema(request, database.plan_schema(request).plan_id)
        await database.keeper.wait_built()
        for start in range(0, ROWS, 10):
            for i in range(start, start + 10):
                body = chr(97 + i % 26) * BYTES
                for relation in relations:
                    await database.execute(*INSERTS[relation](i, body))
        yield database


INSERTS = {
    "doc": lambda i, body: ("INSERT INTO doc VALUES (?, ?, ?)", (i, i % 3, body)),
    "link": lambda i, _: ("INSERT INTO link VALUES (?, ?)", (i, ROWS - 1 - i)),
    "part": lambda i, body: ("INSERT INTO part VALUES (?, ?, ?)", (i % 2, i, body)),
    "par": lambda i, _: ("INSERT INTO par VALUES (?)", (i,)),
    "kid": lambda i, body: ("INSERT INTO kid VALUES (0, ?, ?)", (i, body)),
}


async def counted(database, sql, columnar):
    """The number of rows of a query; each part is dropped once counted."""
    async with database.query(sql, columnar=columnar, timeout_s=300) as result:
        parts = result.stream.arrow() if columnar else result.stream.batches()
        return sum([len(part) async for part in parts])


READS = {
    "SELECT count(*) FROM doc": 1,
    "SELECT * FROM doc": ROWS,
    "SELECT * FROM doc ORDER BY id DESC": ROWS,
    "SELECT id FROM doc WHERE body LIKE 'zz%'": 2,
    "SELECT id, body FROM doc ORDER BY g, body LIMIT 4": 4,
    "SELECT count(*) FROM doc WHERE body > 'a'": 1,
    "SELECT body FROM doc WHERE g IN (0, 1)": ROWS * 2 // 3,
    f"SELECT body FROM doc WHERE id IN ({', '.join(map(str, range(ROWS)))})": ROWS,
    "SELECT body FROM part WHERE g IN (0, 1)": ROWS,
    "SELECT link.id, body FROM link, doc WHERE doc.id = link.doc": ROWS,
    "SELECT count(*) FROM link, doc WHERE doc.id = link.doc AND body > 'a'": 1,
    "SELECT par.id, p.id, q.id, p.body, q.body FROM par, part p, part q"
    " WHERE p.g = par.id AND q.g = p.g LIMIT 40": 40,
    "SELECT sum(length(body) + 1) OVER () FROM doc LIMIT 1": 1,
}


async def test_a_query_over_large_rows_takes_little_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(loops, "KEPT_BYTES", 5 << 20)
    monkeypatch.setattr(duckdb_plan, "BUFFER_BYTES", 3 << 20)
    peaks = {}
    async with filled(tmp_path, "doc", "link", "part", "par") as database:
        for sql, wanted in READS.items():
            for columnar in (False, True):
                tracemalloc.start()
                try:
                    assert await counted(database, sql, columnar) == wanted, sql
                    peaks[sql, columnar] = tracemalloc.get_traced_memory()[1]
                finally:
                    tracemalloc.stop()
    assert {key: peak for key, peak in peaks.items() if peak > MOST} == {}


WRITES = [
    "UPDATE doc SET g = g + 1",
    "UPDATE doc SET body = repeat('x', 600000) WHERE id < 30",
    "INSERT INTO copy SELECT * FROM doc",
    "INSERT INTO copy SELECT id, g, repeat('x', 600000) FROM doc",
    "INSERT INTO copy VALUES " + ", ".join(f"({i}, 0, repeat('x', 600000))" for i in range(30)),
    "DELETE FROM doc",
    "DELETE FROM par WHERE id = 0",
]


@pytest.mark.parametrize("sql", WRITES)
async def test_a_write_of_more_than_fits_in_memory_is_refused_and_leaves_nothing(
    tmp_path, monkeypatch, sql
):
    async with filled(tmp_path, "doc", "par", "kid") as database:
        for name in ("READ", "WRITTEN"):
            limit = replace(getattr(byte_limits, name), most=6 << 20)
            monkeypatch.setattr(byte_limits, name, limit)
        tracemalloc.start()
        try:
            with pytest.raises(LimitExceeded, match="more than 6291456 bytes"):
                await database.execute(sql)
            assert tracemalloc.get_traced_memory()[1] < 3 * MOST // 2
        finally:
            tracemalloc.stop()
        assert database.locks.held_count == 0
        counts = "SELECT (SELECT count(*) FROM doc WHERE body = 'x'), count(*) FROM copy"
        assert await database.fetch(counts) == [(0, 0)]
        for relation in ("doc", "par", "kid"):
            assert await database.fetch(f"SELECT count(*) FROM {relation}") == [(ROWS,)]


async def test_a_too_large_result_of_returning_is_refused(tmp_path):
    async with filled(tmp_path, "par") as database:
        with pytest.raises(LimitExceeded, match="RETURNING"):
            await database.execute("UPDATE par SET id = id + 100 RETURNING repeat('x', 400000)")
        found = await database.execute("DELETE FROM par WHERE id < 9 RETURNING repeat('x', 9)")
        assert found.statements[0].rows == (("x" * 9,),) * 9


async def test_the_limit_counts_every_repetition_of_a_value_in_a_view(tmp_path, monkeypatch):
    async with opened(tmp_path) as database:
        ddl = """
            CREATE TABLE a (id INTEGER PRIMARY KEY, text TEXT);
            CREATE TABLE b (id INTEGER PRIMARY KEY, a INTEGER REFERENCES a (id));"""
        workload = "SELECT text, b.id FROM a, b WHERE a.id = b.a AND a.id = ?;"
        request = PlanRequest(ddl, workload, roots=("a",))
        await database.apply_schema(request, database.plan_schema(request).plan_id)
        await database.keeper.wait_built()
        assert database.catalog.view
        await database.execute("INSERT INTO a VALUES (1, 'short')")
        values = ", ".join(f"({i}, 1)" for i in range(30))
        await database.execute(f"INSERT INTO b VALUES {values}")
        limit = replace(byte_limits.STORED, most=6 << 20)
        monkeypatch.setattr(byte_limits, "STORED", limit)
        with pytest.raises(LimitExceeded, match="views and indexes"):
            await database.execute("UPDATE a SET text = ?", ("x" * BYTES,))
        await database.execute("UPDATE a SET text = ?", ("x" * 1000,))


async def test_verify_takes_little_memory(tmp_path):
    async with filled(tmp_path, "doc") as database:
        tracemalloc.start()
        try:
            report = await database.verify()
            assert tracemalloc.get_traced_memory()[1] < 3 * MOST // 2
        finally:
            tracemalloc.stop()
        assert report.differences == 0
        assert [item.rows for item in report.checked if item.name == "doc_by_g"] == [ROWS]
