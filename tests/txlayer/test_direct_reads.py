"""Direct reads (`Reads.directly`) answer as queries do, and leave to them reads that may wait."""

import random
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from hornbeam_server.node.database import Database
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import Corruption, HornbeamError, Unavailable
from hornbeam_server.storage.direct import MOST_ROWS
from hornbeam_server.storage.ports import BATCH_BYTES, TOMBSTONE, Put
from hornbeam_server.storage.rocks.store import RocksStore
from tests.txlayer.database_world import catalog_of, opened
from tests.txlayer.database_world import settings as settings_of
from tests.txlayer.test_plain_views import applied

SCHEMA = load_ddl(
    """
    CREATE TABLE author (a_id INTEGER PRIMARY KEY, a_name TEXT NOT NULL, a_born DATE);
    CREATE TABLE book (
      b_a_id INTEGER NOT NULL REFERENCES author (a_id), b_no INTEGER, b_title TEXT,
      b_price DECIMAL(9,2), b_short BOOLEAN, PRIMARY KEY (b_a_id, b_no));
    CREATE INDEX by_price ON book (b_price DESC);
    CREATE INDEX by_title ON book (b_title) INCLUDE (b_price);
    """
)
DIRECT = [
    ("SELECT * FROM author WHERE a_id = ?", (2,)),
    ("SELECT a_name || '!' FROM author WHERE a_id = ?", (2,)),
    ("SELECT a_name FROM author WHERE a_id = ?", (99,)),
    ("SELECT a_name FROM author WHERE a_id = ?", (None,)),
    ("SELECT a_name FROM author WHERE a_id IN (3, 1, 3, 99)", ()),
    ("SELECT a_id FROM author WHERE a_id IN (3, 1) ORDER BY a_id DESC LIMIT 1", ()),
    ("SELECT * FROM book WHERE b_a_id = ?", (1,)),
    ("SELECT * FROM book WHERE b_a_id = ? AND b_price > 5", (1,)),
    ("SELECT * FROM book WHERE b_a_id = ? AND b_no BETWEEN 3 AND 7", (1,)),
    ("SELECT * FROM book WHERE b_a_id = ? AND b_no > ? ORDER BY b_no", (1, None)),
    ("SELECT b_no FROM book WHERE b_a_id = ? ORDER BY b_no LIMIT 3 OFFSET 2", (1,)),
    ("SELECT b_no FROM book WHERE b_a_id = ? ORDER BY b_no DESC LIMIT 3", (1,)),
    ("SELECT b_no FROM book WHERE b_a_id = ? ORDER BY b_title, b_no OFFSET 2", (1,)),
    ("SELECT b_no FROM book WHERE b_a_id = ? LIMIT 0", (1,)),
    ("SELECT b_no FROM book WHERE b_a_id = ? LIMIT ?", (1, None)),
    ("SELECT * FROM book WHERE b_price = ?", ("3.00",)),
    ("SELECT * FROM book WHERE b_price IS NULL ORDER BY b_a_id, b_no", ()),
    ("SELECT b_price FROM book WHERE b_title LIKE 'title 1%' ORDER BY b_title", ()),
    ("SELECT a_name, b_title FROM author JOIN book ON a_id = b_a_id WHERE b_a_id = ?", (1,)),
    ("SELECT * FROM book ORDER BY b_price LIMIT 4", ()),
    ("SELECT * FROM book ORDER BY b_price DESC NULLS LAST LIMIT 4", ()),
]
NOT_DIRECT = [
    ("SELECT count(*) FROM book WHERE b_a_id = 1", ()),
    ("SELECT DISTINCT b_title FROM book WHERE b_a_id = 1", ()),
    ("SELECT a.a_name, b.a_name FROM author a JOIN author b ON a.a_id = b.a_id", ()),
    ("SELECT a_id FROM author UNION SELECT 1", ()),
    ("SELECT b_no FROM book WHERE b_a_id = (SELECT max(a_id) FROM author)", ()),
]
WRONG = [
    ("SELECT b_no FROM book WHERE b_a_id = 1 LIMIT ?", (-1,)),
    ("SELECT a_name FROM author WHERE a_id = ?", ()),
    ("SELECT a_name FROM author WHERE a_id = ?", ("x",)),
    ("SELECT 1 / (a_id - 2) FROM author WHERE a_id = 2", ()),
]


@asynccontextmanager
async def library(folder, books=20, row_counts=()):
    catalog = replace(catalog_of(SCHEMA), row_counts=tuple(row_counts))
    async with opened(folder, catalog) as database:
        await database.load("author", ["a_id", "a_name"], [(n, f"author {n}") for n in range(5)])
        rows = [
            (n % 5, n // 5, f"title {n % 7}", None if n % 6 == 0 else f"{n % 4}.00", n % 2 == 0)
            for n in range(5 * books)
        ]
        columns = ["b_a_id", "b_no", "b_title", "b_price", "b_short"]
        await database.load("book", columns, rows)
        yield database


async def queried(database, sql, parameters=()):
    async with database.query(sql, parameters) as result:
        return list(await result.stream.all()), result.stream.columns, result.served_by


async def test_short_reads_are_answered_directly_and_as_queries_are(tmp_path):
    async with library(tmp_path) as database:
        for sql, parameters in DIRECT:
            rows, columns, served_by = await queried(database, sql, parameters)
            earliest, direct = database.watermark(), database.directly(sql, parameters)
            assert direct is not None, sql
            assert (direct.rows, direct.columns, direct.served_by) == (rows, columns, served_by)
            assert earliest <= direct.snapshot <= database.watermark()


async def test_a_statement_is_planned_by_a_query_first(tmp_path):
    sql, parameters = DIRECT[0]
    async with library(tmp_path) as database:
        assert database.directly(sql, parameters) is None
        await queried(database, sql, parameters)
        assert database.directly(sql, parameters) is not None


async def test_other_queries_are_not(tmp_path):
    async with library(tmp_path) as database:
        for sql, parameters in NOT_DIRECT:
            await queried(database, sql, parameters)
            assert database.directly(sql, parameters) is None, sql


async def test_errors_are_those_of_queries(tmp_path):
    async with library(tmp_path) as database:
        for sql, parameters in WRONG:
            database.prepare(sql)
            with pytest.raises(HornbeamError) as found:
                await queried(database, sql, parameters)
            with pytest.raises(type(found.value)) as direct:
                database.directly(sql, parameters)
            assert str(direct.value) == str(found.value)


@pytest.mark.parametrize("books", [MOST_ROWS - 1, MOST_ROWS, MOST_ROWS + 1])
async def test_more_rows_than_the_limit_are_left_to_queries(tmp_path, books):
    sql = "SELECT b_no FROM book WHERE b_a_id = 1"
    async with library(tmp_path, books) as database:
        rows, _, _ = await queried(database, sql)
        direct = database.directly(sql)
        assert len(rows) == books
        assert (direct is None) if books > MOST_ROWS else (direct.rows == rows)
        assert await database.fetch(sql) == rows


SPAN = "SELECT a_id FROM author WHERE a_id BETWEEN ? AND ?"


async def test_the_rows_that_a_range_has_decide_and_not_the_estimate(tmp_path):
    async with library(tmp_path, row_counts=[("author", 90_000)]) as database:
        await database.load("author", ["a_id", "a_name"], [(n, "x") for n in range(5, 100)])
        rows, _, _ = await queried(database, SPAN, (10, 59))
        direct = database.directly(SPAN, (10, 59))
        assert database.prepare(SPAN).plan.first.rows > MOST_ROWS
        assert direct.rows == rows == [(n,) for n in range(10, 60)]


async def test_long_ranges_are_tried_directly_less_and_less(tmp_path):
    """A statement whose ranges are long pays for one attempt in 64, and gets direct reads back when
    its ranges become short."""
    async with library(tmp_path) as database:
        await database.load("author", ["a_id", "a_name"], [(n, "x") for n in range(5, 2_000)])
        await queried(database, SPAN, (0, 1_999))
        scans = []
        store = database.store.direct
        scan = store.scan_directly

        def counted(*given, **named):
            scans.append(given)
            return scan(*given, **named)

        store.scan_directly = counted
        for _ in range(1_000):
            assert database.directly(SPAN, (0, 1_999)) is None
        assert 1_000 / 64 < len(scans) < 30
        answered = [database.directly(SPAN, (7, 8)) for _ in range(200)]
        assert None not in answered[64:]


async def test_large_rows_are_left_to_queries(tmp_path):
    sql = "SELECT a_name FROM author WHERE a_id IN (1, 2)"
    async with library(tmp_path) as database:
        assert await database.fetch(sql) == database.directly(sql).rows
        long = f"UPDATE author SET a_name = repeat('x', {BATCH_BYTES}) WHERE a_id = 2"
        await database.execute(long)
        assert database.directly(sql) is None
        assert [len(name) for (name,) in await database.fetch(sql)] == [8, BATCH_BYTES]


async def test_a_parameter_that_needs_another_plan_is_left_to_queries(tmp_path):
    sql = "SELECT a_name FROM author WHERE a_id < ?"
    async with library(tmp_path) as database:
        assert len(await database.fetch(sql, (2,))) == 2
        assert database.directly(sql, (1.5,)) is None
        assert len(await database.fetch(sql, (1.5,))) == 2


async def test_a_bookmark_that_is_not_reached_is_left_to_queries(tmp_path):
    sql = "SELECT a_name FROM author WHERE a_id = 1"
    async with library(tmp_path) as database:
        await database.fetch(sql)
        assert database.directly(sql, bookmark=database.watermark()) is not None
        assert database.directly(sql, bookmark=database.watermark() + 60_000) is None


async def test_the_newest_commit_and_the_schema_in_force_are_read(tmp_path):
    sql = "SELECT a_name FROM author WHERE a_id = 1"
    async with library(tmp_path) as database:
        await database.fetch(sql)
        await database.execute("UPDATE author SET a_name = 'new' WHERE a_id = 1")
        assert database.directly(sql).rows == [("new",)]
        await database.execute("DELETE FROM book WHERE b_a_id = 1")
        await database.execute("DELETE FROM author WHERE a_id = 1")
        assert database.directly(sql).rows == []
        read = "SELECT a_name FROM author WHERE a_id = ?"
        await database.fetch(read, (1,))
        assert database.directly(read, (1,)) is not None
        await database.keeper.apply(catalog_of(SCHEMA, views=[], base=database.catalog))
        assert database.directly(read, (1,)) is None, "the plan is that of an earlier schema"
        assert database.directly(sql).rows == [], "a shared plan is made for the schema in force"


async def test_an_index_entry_without_a_row_is_damage(tmp_path):
    sql = "SELECT b_short FROM book WHERE b_price = 3"
    async with library(tmp_path) as database:
        await database.fetch(sql)
        at, codec = database.watermark(), database.manager.state.codecs("book")
        rows = await database.fetch("SELECT * FROM book WHERE b_price = 3")
        gone = [Put(codec.key(row), TOMBSTONE) for row in rows]
        await database.store.put({codec.layout.table: gone}, at)
        with pytest.raises(Corruption, match="by_price points to a row that book lacks"):
            database.directly(sql)


async def test_a_process_that_may_have_been_replaced_does_not_answer(tmp_path, monkeypatch):
    sql = "SELECT a_name FROM author WHERE a_id = 1"
    async with library(tmp_path) as database:
        await database.fetch(sql)
        alive = iter([True, False])
        monkeypatch.setattr(database._coordination, "alive", lambda: next(alive, False))
        monkeypatch.setattr(database.clock, "wall_ms", lambda: 1 << 50)
        with pytest.raises(Unavailable):  # noticed after the read
            database.directly(sql)
        with pytest.raises(Unavailable):
            database.directly(sql)


CONDITIONS = (
    *("b_a_id = 1", "b_a_id IN (1, 3)", "b_no > 3", "b_no = 2", "b_no BETWEEN 2 AND 5"),
    *("b_price = 2", "b_price >= 1", "b_price IS NULL", "b_title = 'title 3'", "b_short"),
)
ORDERS = [c + how for c in ("b_no", "b_title", "b_price") for how in ("", " DESC", " NULLS FIRST")]


def select(draw):
    """A random SELECT. The key at the end makes its order complete."""
    conditions = " AND ".join(draw.sample(CONDITIONS, draw.randint(1, 3)))
    order = ", ".join([*draw.sample(ORDERS, draw.randint(0, 2)), "b_a_id", "b_no"])
    limit = draw.choice(["", " LIMIT 2", " LIMIT 3 OFFSET 1", " OFFSET 4"])
    columns = draw.choice(["*", "b_title, b_price + 1", "b_no"])
    return f"SELECT {columns} FROM book WHERE {conditions} ORDER BY {order}{limit}"


async def test_random_reads_are_as_queries(tmp_path):
    draw, answered = random.Random(5), 0
    async with library(tmp_path) as database:
        for _ in range(200):
            sql = select(draw)
            rows, _, _ = await queried(database, sql)
            direct = database.directly(sql)
            answered += direct is not None
            assert direct is None or direct.rows == rows, sql
    assert answered > 50


# ------------------------------------------------------------ shared plans

VALUES = {
    "a_id": ("1", "3", "'2'", "2.5", "99999999999", "'x'"),
    "b_a_id": ("1", "3", "'2'", "2.5", "99999999999", "-1", "1e0", "NULL"),
    "b_no": ("0", "7", "7.0", "'x'", "' 4 '", "3.000001"),
    "b_price": ("2", "2.00", "2.005", "'3.0'", "99999999999999999999.5", "'many'"),
    "b_title": ("'title 3'", "'title 3 '", "''", "'it''s'", "5", "'ä'"),
    "a_born": ("'2024-01-02'", "'2024-01-02 00:00'", "'nonsense'", "2024", "DATE '2024-01-02'"),
    "a_name": ("'author 2'", "'author'", "'AUTHOR 2'"),
}
TESTS = ("= {}", "<> {}", "< {}", ">= {}", "IN ({}, {})", "BETWEEN {} AND {}", "NOT IN ({})")


def with_literals(draw):
    """A random SELECT with random literals, some of which have no value of their column's type."""
    table = draw.choice(["author", "book"])
    columns = [name for name in VALUES if name.startswith(table[0])]
    key = "b_a_id" if table == "book" else "a_id"
    conditions = [f"{key} = {draw.randint(0, 5)}"] if draw.random() < 0.7 else []
    for column in draw.sample(columns, draw.randint(1, 2)):
        test = draw.choice(TESTS)
        values = [draw.choice(VALUES[column]) for _ in range(test.count("{}"))]
        conditions.append(f"{column} {test.format(*values)}")
    joined = draw.choice([*[" AND "] * 4, " OR "]).join(conditions)
    key = "b_a_id, b_no" if table == "book" else "a_id"
    limit = draw.choice(["", " LIMIT 2"])
    columns = draw.choice(["*", f"{key}, 7 AS n", f"'5' || {columns[0]}"])
    return f"SELECT {columns} FROM {table} WHERE {joined} ORDER BY {key}{limit}"


async def test_a_shared_plan_answers_as_the_plan_of_the_text_itself(tmp_path):
    draw, shared, refused = random.Random(7), 0, 0
    async with library(tmp_path) as database:
        for _ in range(600):
            sql = with_literals(draw)
            known = database.engine.known(sql, database.catalog) is not None
            direct = database.directly(sql)  # before the text itself is planned
            try:
                rows, columns, _ = await queried(database, sql)
            except HornbeamError:
                refused += 1
                assert direct is None, sql
                continue
            if direct is not None:
                shared += not known
                assert (direct.rows, direct.columns) == (rows, columns), sql
    assert shared > 100
    assert refused > 20


async def test_texts_that_differ_in_literals_are_planned_once(tmp_path, monkeypatch):
    async with library(tmp_path) as database:
        database.directly("SELECT a_name FROM author WHERE a_id = 0")
        planned = []
        prepare = type(database.engine).prepare_bound

        def noted(self, bound, catalog, **options):
            planned.append(bound.statement.sql)
            return prepare(self, bound, catalog, **options)

        monkeypatch.setattr(type(database.engine), "prepare_bound", noted)
        for number in range(5):
            sql = f"SELECT a_name FROM author WHERE a_id = {number}"
            assert (await database.fetch(sql)) == [(f"author {number}",)]
            assert database.directly(sql).rows == [(f"author {number}",)]
        assert planned == []


async def test_no_plan_is_shared_where_literals_choose_an_index(tmp_path):
    async with await Database.open(settings_of(tmp_path)) as database:
        await applied(
            database,
            """
            CREATE TABLE task (id INTEGER PRIMARY KEY, state TEXT, due INTEGER);
            CREATE INDEX by_due ON task (due);
            CREATE INDEX open_tasks ON task (due) WHERE state = 'open';
            """,
        )
        await database.execute("INSERT INTO task VALUES (1, 'open', 5), (2, 'done', 5)")
        for state in ("done", "open"):
            sql = f"SELECT id FROM task WHERE state = '{state}' AND due = 5"
            assert database.directly(sql) is None
            await queried(database, sql)
            assert database.directly(sql) is not None


async def test_queries_of_a_remote_store_share_plans_too(tmp_path, monkeypatch):
    draw, shared = random.Random(9), []
    monkeypatch.setattr(RocksStore, "direct", None)
    async with library(tmp_path) as database:
        engine = type(database.engine)
        share = engine.shared

        def noted(self, sql, catalog, **options):
            found = share(self, sql, catalog, **options)
            shared.append(found is not None)
            return found

        async def outcome(sql):
            try:
                return (await queried(database, sql))[:2]
            except HornbeamError as error:
                return type(error), str(error)

        for _ in range(300):
            sql = with_literals(draw)
            with monkeypatch.context() as patched:
                patched.setattr(engine, "shared", noted)
                found = await outcome(sql)
            with monkeypatch.context() as patched:
                patched.setattr(engine, "shared", lambda *_, **__: None)
                assert await outcome(sql) == found, sql
    assert sum(shared) > 50
