"""Primary keys that are added or changed while rows are stored: rows move under the new key."""

from __future__ import annotations

import asyncio
import itertools
import random
from contextlib import asynccontextmanager

import pytest

from hornbeam_server.node.alterations import altered
from hornbeam_server.node.database import Database
from hornbeam_server.node.schema_plans import PlanRequest
from hornbeam_server.node.settings import load_settings
from hornbeam_server.schema.ddl import render_ddl
from hornbeam_server.schema.errors import (
    BeingLoaded,
    ForeignKeyViolation,
    HornbeamError,
    NotNullViolation,
    SchemaError,
    Unavailable,
    UniqueViolation,
)
from hornbeam_server.txlayer.ddl.relation_copies import RelationCopies
from tests.txlayer.test_immediate_views import run
from tests.txlayer.test_relation_copies import require_right

TABLES = """
CREATE TABLE person (p_id INTEGER, p_name TEXT, p_team INTEGER, p_gone TEXT);
CREATE INDEX by_team ON person (p_team);
CREATE UNIQUE INDEX by_name ON person (p_name);
CREATE TABLE badge (b_id INTEGER PRIMARY KEY, b_name TEXT REFERENCES person (p_name));
CREATE MATERIALIZED VIEW teams WITH (refresh = 'immediate') AS
  SELECT p_team, count(*) AS many, sum(p_id) AS ids FROM person GROUP BY p_team;
CREATE MATERIALIZED VIEW late WITH (refresh = 'immediate') AS
  SELECT p_id, p_name FROM person WHERE p_id > 2;
"""
ROWS = "INSERT INTO person VALUES (3, 'c', 1), (1, 'a', 1), (2, 'b', 2), (4, 'd', NULL)"


async def apply(database, ddl):
    request = PlanRequest(ddl, None)
    plan = database.plan_schema(request)
    await database.apply_schema(request, plan.plan_id, allow_drop=True)
    await database.keeper.wait_built()
    return plan


async def alter(database, sql):
    return await apply(database, altered(database.catalog, sql).ddl)


@asynccontextmanager
async def opened(folder):
    async with await Database.open(load_settings(data=folder)) as database:
        await apply(database, TABLES)
        await apply(database, TABLES.replace(", p_gone TEXT", ""))
        await run(database, ROWS, "INSERT INTO badge VALUES (1, 'a'), (2, NULL)")
        yield database


def key_of(database, relation="person"):
    return database.catalog.schema.relation(relation).declared_key


async def test_a_key_is_added_and_referenced(tmp_path):
    async with opened(tmp_path) as database:
        before = await database.fetch("SELECT * FROM person ORDER BY p_id")
        plan = await alter(database, "ALTER TABLE person ADD CONSTRAINT pk PRIMARY KEY (p_id)")
        assert [row.name for row in plan.rewritten()] == ["person"]
        assert ("primary key", "person") in [(row.kind, row.name) for row in plan.changes.rows()]
        assert key_of(database) == ("p_id",)
        assert await database.fetch("SELECT * FROM person ORDER BY p_id") == before
        await require_right(database)
        for wrong in ("INSERT INTO person VALUES (3, 'x', 1)", "UPDATE person SET p_id = 1"):
            with pytest.raises(UniqueViolation):
                await run(database, wrong)
        with pytest.raises(NotNullViolation):
            await run(database, "INSERT INTO person VALUES (NULL, 'x', 1)")
        with pytest.raises(ForeignKeyViolation):
            await run(database, "DELETE FROM person WHERE p_name = 'a'")
        child = "CREATE TABLE task (t_id INT PRIMARY KEY, t_p INT REFERENCES person);"
        await apply(database, render_ddl(database.catalog.schema) + child)
        await run(database, "INSERT INTO task VALUES (1, 3)", "UPDATE person SET p_team = 7")
        with pytest.raises(ForeignKeyViolation):
            await run(database, "INSERT INTO task VALUES (2, 30)")
        await require_right(database)


async def test_another_key_takes_the_place_of_a_key(tmp_path):
    """In a changed file, and in one statement. What references the old key must go first."""
    async with opened(tmp_path) as database:
        await run(database, "UPDATE person SET p_team = 2 WHERE p_id = 4")
        text = render_ddl(database.catalog.schema).replace(
            "p_team INTEGER", "p_team INTEGER NOT NULL"
        )
        keyed = text.replace(
            "p_team INTEGER NOT NULL", "p_team INTEGER, PRIMARY KEY (p_team, p_id)"
        )
        await apply(database, keyed)
        assert key_of(database) == ("p_team", "p_id")
        await require_right(database)
        change = "ALTER TABLE person DROP CONSTRAINT person_pkey, ADD PRIMARY KEY (p_name)"
        await alter(database, change)
        assert key_of(database) == ("p_name",)
        found = await database.fetch("SELECT p_name FROM person ORDER BY p_name")
        assert found == [("a",), ("b",), ("c",), ("d",)]
        await run(database, "INSERT INTO badge VALUES (3, 'b')", "UPDATE person SET p_id = 1")
        with pytest.raises(SchemaError, match=r"badge"):
            await alter(database, "ALTER TABLE person DROP CONSTRAINT person_pkey")
        await require_right(database)


REFUSED = [
    ("UPDATE person SET p_id = 2 WHERE p_id > 1", UniqueViolation, r"primary key: 1 value is"),
    ("UPDATE person SET p_id = NULL WHERE p_id > 2", NotNullViolation, "2 stored rows have NULL"),
]


@pytest.mark.parametrize(("sql", "error", "match"), REFUSED)
async def test_rows_that_break_the_key_refuse_it(tmp_path, sql, error, match):
    async with opened(tmp_path) as database:
        await run(database, sql)
        schema, indexes = database.catalog.schema, database.catalog.indexes
        with pytest.raises(error, match=match):
            await alter(database, "ALTER TABLE person ADD PRIMARY KEY (p_id)")
        assert database.catalog.schema == schema
        assert database.catalog.indexes == indexes
        await require_right(database)


async def test_transactions_go_on_while_rows_move(tmp_path, monkeypatch):
    """Rows exchange their keys, and take those of others that leave them. No row takes the key of
    another one or none. A change that is given up leaves nothing behind."""
    async with opened(tmp_path) as database:
        many = [[i, f"n{i}", i % 5] for i in range(10, 500)]
        await database.load("person", ["p_id", "p_name", "p_team"], many)
        filled, steps, found = RelationCopies._filled, random.Random(3), []

        async def write():
            one, other = steps.sample(range(10, 60), 2)
            exchanged = (
                f"UPDATE person SET p_id = CASE p_id WHEN {one} THEN {other} ELSE {one} END"
                f" WHERE p_id IN ({one}, {other})"
            )
            await run(
                database,
                exchanged,
                f"DELETE FROM person WHERE p_id = {one}",
                f"INSERT INTO person VALUES ({one}, 'again {steps.random()}', 9)",
                f"UPDATE person SET p_team = 8 WHERE p_id = {other}",
                f"DELETE FROM person WHERE p_id = {steps.randrange(60, 90)}",
            )

        async def writes():
            for _ in range(6):
                await write()

        async def held(self, names):
            await writes()
            for wrong in ("p_id = 20", "p_id = NULL"):
                with pytest.raises(HornbeamError):
                    await run(database, f"UPDATE person SET {wrong} WHERE p_id = 30")
            await asyncio.gather(filled(self, names), writes())
            found.append(await database.fetch("SELECT * FROM person ORDER BY p_id"))
            if len(found) == 1:
                raise UniqueViolation("This try is given up.")

        monkeypatch.setattr(RelationCopies, "_filled", held)
        schema = database.catalog.schema
        with pytest.raises(UniqueViolation, match="given up"):
            await alter(database, "ALTER TABLE person ADD PRIMARY KEY (p_id)")
        assert database.catalog.schema == schema
        assert "person..key" not in database.catalog.index
        await require_right(database)
        await alter(database, "ALTER TABLE person ADD PRIMARY KEY (p_id)")
        assert await database.fetch("SELECT * FROM person ORDER BY p_id") == found[-1]
        assert key_of(database) == ("p_id",)
        await require_right(database)


async def test_columns_of_a_new_key_come_before_the_key(tmp_path):
    """Every stored row gets a number, and is then stored under it. The plan shows both steps."""
    async with opened(tmp_path) as database:
        before = await database.fetch("SELECT * FROM person ORDER BY p_name")
        text = render_ddl(database.catalog.schema)
        child = "CREATE TABLE task (t_id INT PRIMARY KEY, t_p INT REFERENCES person (p_no));"
        added = "p_team INTEGER,\n  p_at DATE DEFAULT '2026-01-01',\n  p_no SERIAL PRIMARY KEY"
        plan = await apply(database, text.replace("p_team INTEGER", added, 1) + child)
        assert [row.name for row in plan.rewritten()] == ["person", "person"]
        shown = {(row.action, row.kind, row.name) for row in plan.changes.rows()}
        assert ("add", "column", "person.p_no") in shown
        assert ("change", "primary key", "person") in shown
        assert key_of(database) == ("p_no",)
        names = "p_id, p_name, p_team"
        assert await database.fetch(f"SELECT {names} FROM person ORDER BY p_name") == before
        numbers = await database.fetch("SELECT p_no FROM person ORDER BY p_no")
        assert numbers == [(1,), (2,), (3,), (4,)]
        await run(
            database, "INSERT INTO task VALUES (1, 4)", "INSERT INTO person VALUES (9, 'z', 1)"
        )
        assert await database.fetch("SELECT p_no FROM person WHERE p_id = 9") == [(5,)]
        await require_right(database)
        added = "ADD p_u UUID DEFAULT gen_random_uuid() PRIMARY KEY"
        await alter(database, f"ALTER TABLE person DROP CONSTRAINT person_pkey CASCADE, {added}")
        assert key_of(database) == ("p_u",)
        assert await database.fetch("SELECT count(DISTINCT p_u) FROM person") == [(5,)]
        await require_right(database)


NEW_KEY = "ALTER TABLE person ADD p_no SERIAL PRIMARY KEY"
NO_KEY = "ALTER TABLE person DROP CONSTRAINT person_pkey"


async def test_a_key_is_dropped(tmp_path):
    """Rows get a hidden number, also those that transactions write during the change. Then rows may
    be equal, and a key is added again."""
    async with opened(tmp_path) as database:
        await alter(database, "ALTER TABLE person ADD PRIMARY KEY (p_id)")
        before = await database.fetch("SELECT * FROM person ORDER BY p_id")
        plan = await alter(database, NO_KEY)
        assert [row.name for row in plan.rewritten()] == ["person", "person"]
        details = {row.name: row.detail for row in plan.changes.rows() if row.action == "change"}
        assert details["person"].startswith("none; a hidden number")
        assert key_of(database) == ()
        assert "PRIMARY KEY" not in render_ddl(database.catalog.schema).partition("badge")[0]
        assert await database.fetch("SELECT * FROM person ORDER BY p_id") == before
        await require_right(database)
        await run(database, "INSERT INTO person (p_id) VALUES (1), (1), (9)")
        with pytest.raises(NotNullViolation):
            await run(database, "INSERT INTO person (p_name) VALUES ('z')")
        found = await database.fetch("SELECT count(*), count(DISTINCT rowid) FROM person")
        assert found == [(7, 7)]
        with pytest.raises(UniqueViolation, match="primary key: 1 value is"):
            await alter(database, "ALTER TABLE person ADD PRIMARY KEY (p_id)")
        await run(database, "DELETE FROM person WHERE p_id = 1 AND p_name IS NULL")
        await alter(database, "ALTER TABLE person ADD PRIMARY KEY (p_id)")
        assert key_of(database) == ("p_id",)
        await require_right(database)


async def test_transactions_go_on_while_a_key_is_dropped(tmp_path, monkeypatch):
    """Also between the two stages and during both of them. No client sees the hidden column."""
    async with opened(tmp_path) as database:
        await alter(database, "ALTER TABLE person ADD PRIMARY KEY (p_id)")
        many = [[i, f"n{i}", i % 5] for i in range(10, 300)]
        await database.load("person", ["p_id", "p_name", "p_team"], many)
        filled, steps, tries = RelationCopies._filled, random.Random(4), []
        free = itertools.count(1_000)

        async def writes():
            for _ in range(4):
                one, other = steps.sample(range(10, 60), 2)
                await run(
                    database,
                    f"DELETE FROM person WHERE p_id = {one}",
                    f"INSERT INTO person VALUES ({one}, 'again {steps.random()}', 9)",
                    f"UPDATE person SET p_id = {next(free)} WHERE p_id = {other}",
                    f"INSERT OR REPLACE INTO person (p_id, p_team) VALUES ({other}, 4)",
                )

        async def held(self, names):
            await writes()
            shown = await database.fetch("SELECT * FROM person LIMIT 1")
            assert len(shown[0]) == 3
            await asyncio.gather(filled(self, names), writes())
            tries.append(await database.fetch("SELECT * FROM person ORDER BY p_id"))

        monkeypatch.setattr(RelationCopies, "_filled", held)
        await alter(database, NO_KEY)
        assert len(tries) == 2
        assert await database.fetch("SELECT * FROM person ORDER BY p_id") == tries[-1]
        await require_right(database)


async def test_a_second_stage_that_fails_undoes_the_first_one(tmp_path):
    """The new columns and sequences are gone, and another try begins again."""
    async with opened(tmp_path) as database:
        before = render_ddl(database.catalog.schema)
        wrong = "ALTER TABLE person ADD p_no INT DEFAULT 5, ADD PRIMARY KEY (p_no)"
        for _ in range(2):
            with pytest.raises(UniqueViolation, match="primary key"):
                await alter(database, wrong)
            assert render_ddl(database.catalog.schema) == before
            assert database.catalog.staged == ()
            await require_right(database)
        sequence = "CREATE SEQUENCE s; "
        text = before.replace("p_team INTEGER", "p_team INTEGER, p_no INT DEFAULT nextval('s')", 1)
        await apply(database, sequence + text.replace("nextval('s')", "nextval('s') PRIMARY KEY"))
        numbers = await database.fetch("SELECT p_no FROM person ORDER BY p_no")
        assert numbers == [(1,), (2,), (3,), (4,)]
        await require_right(database)


async def test_no_other_change_comes_between_two_stages(tmp_path, monkeypatch):
    async with opened(tmp_path) as database:
        change, refused = RelationCopies._change, []

        async def between(self, *arguments):
            if database.catalog.staged and not refused:
                other = "CREATE TABLE other (k INT PRIMARY KEY);"
                refused.append(True)
                with pytest.raises(BeingLoaded, match="another change of the schema"):
                    await apply(database, render_ddl(database.catalog.schema) + other)
            await change(self, *arguments)

        monkeypatch.setattr(RelationCopies, "_change", between)
        await alter(database, NEW_KEY)
        assert refused
        assert key_of(database) == ("p_no",)
        await require_right(database)


async def test_the_next_leader_undoes_the_first_stage(tmp_path, monkeypatch):
    async with opened(tmp_path) as database:
        before = render_ddl(database.catalog.schema)
        stopped, change = asyncio.Event(), RelationCopies._change

        async def held(self, *arguments):
            if database.catalog.staged:
                stopped.set()
                await asyncio.Event().wait()
            await change(self, *arguments)

        with monkeypatch.context() as patched:
            patched.setattr(RelationCopies, "_change", held)
            asked = asyncio.ensure_future(alter(database, NEW_KEY))
            await stopped.wait()
            await database.close()
            with pytest.raises(Unavailable):
                await asked
        staged = database.catalog.staged
    async with await Database.open(load_settings(data=tmp_path)) as database:
        assert staged
        await database.keeper.wait_built()
        assert database.catalog.staged == ()
        assert database.catalog.copies == ()
        assert render_ddl(database.catalog.schema) == before
        await require_right(database)
        await run(database, "INSERT INTO person VALUES (9, 'z', 1)")
        await alter(database, NEW_KEY)
        assert key_of(database) == ("p_no",)
        assert await database.fetch("SELECT p_no FROM person WHERE p_id = 9") == [(5,)]
        await require_right(database)
