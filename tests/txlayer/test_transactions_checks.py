"""CHECK in transactions: every written row meets it, and a new CHECK holds for the stored rows."""

import asyncio
from dataclasses import replace

import pytest

from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import (
    CheckViolation,
    NotNullViolation,
    TypeMismatch,
    Unsupported,
)
from hornbeam_server.schema.model import Check
from tests.txlayer.database_world import catalog_of, opened, run_all

SHELF = """
CREATE TABLE shelf (s_id INTEGER PRIMARY KEY, s_room TEXT NOT NULL);
CREATE TABLE book (
  b_id INTEGER PRIMARY KEY,
  b_s_id INTEGER REFERENCES shelf ON DELETE SET NULL,
  b_title TEXT NOT NULL DEFAULT 'x',
  b_price DECIMAL(9,2) CHECK (b_price > 0),
  b_old DECIMAL(9,2),
  CONSTRAINT falls CHECK (b_price < b_old),
  CONSTRAINT placed CHECK (b_s_id IS NOT NULL OR b_title = 'lost')
);
"""
OWN = "book_b_price_check"
BOOKS = "SELECT b_id, b_s_id, b_title, b_price, b_old FROM book ORDER BY b_id"


def shelves():
    return catalog_of(load_ddl(SHELF))


async def filled(database):
    await run_all(
        database,
        "INSERT INTO shelf VALUES (1, 'a'), (2, 'b')",
        "INSERT INTO book VALUES (1, 1, 'one', 5, 6)",
        "INSERT INTO book VALUES (2, 2, 'lost', NULL, 1), (3, 1, 't', 1, NULL)",
    )


@pytest.mark.parametrize(
    ("sql", "constraint", "key"),
    [
        ("INSERT INTO book VALUES (9, 1, 'x', 0, 1)", OWN, "9"),
        ("INSERT INTO book VALUES (8, 1, 'x', 1, 2), (9, 1, 'x', 3, 2)", "falls", "9"),
        ("INSERT INTO book (b_id, b_price) VALUES (9, 1)", "placed", "9"),
        ("INSERT INTO book SELECT s_id + 10, s_id, s_room, -1, 7 FROM shelf", OWN, "11"),
        ("UPDATE book SET b_price = b_price - 5 WHERE b_id = 1", OWN, "1"),
        ("UPDATE book SET b_id = 9, b_old = 0 WHERE b_id = 1", "falls", "9"),
        ("UPDATE book SET b_old = 0.5 WHERE b_s_id = 1", "falls", "1"),
        ("UPDATE book SET b_s_id = NULL WHERE b_id = 3", "placed", "3"),
        (
            "INSERT INTO book VALUES (1, 1, 'x', 1, 2) ON CONFLICT (b_id) DO UPDATE SET b_old = 1",
            "falls",
            "1",
        ),
        ("INSERT INTO book VALUES (1, 1, 'x', 0, 2) ON CONFLICT DO NOTHING", OWN, "1"),
        ("DELETE FROM shelf WHERE s_id = 1", "placed", "1"),
    ],
)
async def test_a_write_that_breaks_a_check_changes_nothing(tmp_path, sql, constraint, key):
    async with opened(tmp_path, shelves()) as database:
        await filled(database)
        before = await database.fetch(BOOKS)
        with pytest.raises(CheckViolation, match=constraint) as caught:
            await database.execute(sql)
        details = caught.value.details
        assert (details["relation"], details["constraint"]) == ("book", constraint)
        assert details["key"] == [key]
        assert await database.fetch(BOOKS) == before
        assert len(await database.fetch("SELECT * FROM shelf")) == 2


async def test_writes_that_meet_the_checks_are_made(tmp_path):
    async with opened(tmp_path, shelves()) as database:
        await filled(database)
        await run_all(
            database,
            "UPDATE book SET b_price = NULL WHERE b_id = 1",
            "UPDATE book SET b_old = 10, b_price = 9 WHERE b_id = 1",
            "DELETE FROM shelf WHERE s_id = 2",
            "INSERT INTO book VALUES (4, 1, 'x', 1, 2) ON CONFLICT (b_id) DO UPDATE SET b_old = 1",
        )
        found = await database.fetch(BOOKS)
        assert [row[:2] for row in found] == [(1, 1), (2, None), (3, 1), (4, 1)]


async def test_not_null_is_reported_before_check(tmp_path):
    async with opened(tmp_path, shelves()) as database:
        with pytest.raises(NotNullViolation):
            await database.execute("INSERT INTO book VALUES (1, NULL, NULL, 0, 1)")


async def test_a_batch_names_the_row_that_breaks_a_check(tmp_path):
    async with opened(tmp_path, shelves()) as database:
        await filled(database)
        columns = ["b_id", "b_s_id", "b_price"]
        with pytest.raises(CheckViolation) as caught:
            await database.load("book", columns, [(10, 1, 1), (11, 1, None), (12, 1, 0)])
        assert (caught.value.details["row"], caught.value.details["key"]) == (3, ["12"])
        await database.load("book", columns, [(10, 1, 1), (11, 1, None)])
        assert await database.fetch("SELECT count(*) FROM book") == [(5,)]


async def test_an_error_of_the_evaluation_is_an_error_of_the_write(tmp_path):
    ddl = "CREATE TABLE t (a INT PRIMARY KEY, b INT, CHECK (a * b < 10))"
    async with opened(tmp_path, catalog_of(load_ddl(ddl))) as database:
        with pytest.raises(TypeMismatch):
            await database.execute("INSERT INTO t VALUES (2000000000, 2000000000)")
        assert await database.fetch("SELECT * FROM t") == []


def with_checks(catalog, *checks):
    """The next version of `catalog`, with other CHECKs of book."""
    relations = tuple(
        replace(relation, checks=checks) if relation.name == "book" else relation
        for relation in catalog.schema.relations
    )
    schema = replace(catalog.schema, relations=relations)
    return replace(catalog, version=catalog.version + 1, schema=schema)


async def test_a_new_check_is_refused_while_stored_rows_break_it(tmp_path):
    cheap, dear = Check("cheap", "b_price <= 4"), "INSERT INTO book VALUES (7, 1, 'x', 7, 8)"
    async with opened(tmp_path, shelves()) as database:
        await filled(database)
        with pytest.raises(CheckViolation, match="1 stored row does not meet") as caught:
            await database.keeper.apply(with_checks(database.catalog, cheap))
        assert caught.value.details == {"relation": "book", "constraint": "cheap", "count": 1}
        query = caught.value.cure.removeprefix("Find them with ").partition(",")[0]
        assert [row[0] for row in await database.fetch(query)] == [1]
        await run_all(database, dear, "DELETE FROM book WHERE b_id IN (1, 7)")
        await database.keeper.apply(with_checks(database.catalog, cheap))
        with pytest.raises(CheckViolation, match="cheap"):
            await database.execute(dear)
    async with opened(tmp_path) as database:
        with pytest.raises(CheckViolation, match="cheap"):
            await database.execute(dear)
        await database.keeper.apply(with_checks(database.catalog))
        await database.execute("INSERT INTO book VALUES (7, NULL, 'x', -7, -8)")


async def test_no_writer_slips_past_a_check_that_is_added(tmp_path):
    cheap = Check("cheap", "b_price <= 3")

    async with opened(tmp_path, shelves()) as database:
        await filled(database)
        await asyncio.gather(_add(database, cheap), *(_write(database, n) for n in (100, 200, 300)))
        (check,) = database.catalog.schema.relation("book").checks
        assert check == cheap
        assert await database.fetch("SELECT * FROM book WHERE b_price > 3") == []


async def _write(database, first):
    for n in range(first, first + 40):
        try:
            await database.execute(f"INSERT INTO book VALUES ({n}, 1, 'x', {1 + n % 7}, 9)")
        except CheckViolation:
            return


async def _add(database, check):
    """Delete the rows that break `check`, and add it, until no writer is faster."""
    for _ in range(200):
        await database.execute("DELETE FROM book WHERE b_price > 3")
        try:
            await database.keeper.apply(with_checks(database.catalog, check))
        except CheckViolation:
            continue
        return


async def test_a_check_that_cannot_be_evaluated_keeps_only_writers_from_its_relation(tmp_path):
    """The catalog may be that of an older server, which could evaluate it."""
    unknown = Check("unknown", "md5(b_title) <> 'x'")
    async with opened(tmp_path, shelves()) as database:
        await database.keeper.apply(with_checks(database.catalog, unknown))
    async with opened(tmp_path) as database:
        await database.execute("INSERT INTO shelf VALUES (1, 'a')")
        assert await database.fetch(BOOKS) == []
        with pytest.raises(Unsupported, match="CHECK unknown of book"):
            await database.execute("INSERT INTO book VALUES (1, 1, 'x', 1, 2)")
        await database.keeper.apply(with_checks(database.catalog))
        await database.execute("INSERT INTO book VALUES (1, 1, 'x', 1, 2)")
