"""Foreign keys to UNIQUE columns, ON UPDATE, and ON DELETE SET DEFAULT."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import (
    ForeignKeyViolation,
    LimitExceeded,
    NotNullViolation,
    StatementTimeout,
    UniqueViolation,
)
from hornbeam_server.txlayer.transactions import workspace
from tests.txlayer.database_world import catalog_of, check, opened, run_all
from tests.txlayer.nodes_world import nodes
from tests.txlayer.test_transactions_schema import next_version
from tests.txlayer.test_transactions_statements import statements
from tests.virtual_time import in_virtual_time

DDL = """
CREATE TABLE country (id INTEGER PRIMARY KEY, code TEXT UNIQUE, zone INTEGER, no INTEGER,
  UNIQUE (zone, no));
CREATE TABLE city (
  name TEXT PRIMARY KEY, code TEXT REFERENCES country (code){code}, zone INTEGER, no INTEGER,
  FOREIGN KEY (no, zone) REFERENCES country (no, zone){pair});
CREATE TABLE street (s_id INTEGER PRIMARY KEY, city TEXT REFERENCES city{city});
"""
FILL = (
    "INSERT INTO country VALUES (1, 'ch', 1, 1), (2, 'de', 1, 2), (3, NULL, NULL, 3)",
    "INSERT INTO city VALUES ('Bern', 'ch', 1, 1), ('Thun', 'ch', 1, 2), ('Bonn', 'de', 1, 2),"
    " ('Atlantis', NULL, 9, NULL)",
    "INSERT INTO street VALUES (1, 'Bern'), (2, 'Bern'), (3, 'Bonn'), (4, NULL)",
)
CODES = "SELECT name, code FROM city ORDER BY name"


def geography(code="", pair="", city=""):
    return catalog_of(load_ddl(DDL.format(code=code, pair=pair, city=city)))


@asynccontextmanager
async def on(tmp_path, **actions):
    async with opened(tmp_path, geography(**actions)) as database:
        await run_all(database, *FILL)
        yield database
        await check(database)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO city VALUES ('x', 'fr', NULL, NULL)",
        "INSERT INTO city VALUES ('x', NULL, 2, 1)",
        "UPDATE city SET code = 'fr' WHERE name = 'Bern'",
        "DELETE FROM country WHERE id = 1",
        "UPDATE country SET code = 'fr' WHERE id = 1",
        "UPDATE country SET code = NULL WHERE id = 2",
        "UPDATE country SET zone = 2 WHERE id = 1",
        "UPDATE city SET name = 'Berne' WHERE name = 'Bern'",
    ],
)
async def test_a_referenced_value_must_exist(tmp_path, sql):
    async with on(tmp_path) as database:
        with pytest.raises(ForeignKeyViolation) as refused:
            await database.execute(sql)
        assert refused.value.cure


async def test_only_the_net_change_of_a_request_is_checked(tmp_path):
    async with on(tmp_path) as database:
        await run_all(
            database,
            "UPDATE country SET code = CASE code WHEN 'ch' THEN 'de' ELSE 'ch' END WHERE id < 3",
            "UPDATE country SET no = 3 - no WHERE id < 3",
        )
        await database.transact(
            statements(
                "INSERT INTO city VALUES ('Nice', 'fr', 3, 3)",
                "UPDATE city SET code = 'fr', zone = 3, no = 3 WHERE name = 'Bern'",
                "UPDATE country SET code = 'fr', zone = 3 WHERE id = 3",
                "DELETE FROM street WHERE city = 'Bonn'",
                "DELETE FROM city WHERE zone = 1 AND no = 2",
                "DELETE FROM country WHERE id = 1",
            )
        )
        await database.transact(
            statements(
                "DELETE FROM country WHERE id = 3",
                "INSERT INTO country VALUES (4, 'fr', 3, 3)",
            )
        )
        assert await database.fetch(CODES) == [("Atlantis", None), ("Bern", "fr"), ("Nice", "fr")]


ACTIONS = [
    (" ON DELETE CASCADE", "DELETE FROM country WHERE id = 1", ["Atlantis", "Bonn"]),
    (" ON DELETE SET NULL", "DELETE FROM country WHERE id = 1", [None, None, "de", None]),
    (
        " ON UPDATE CASCADE",
        "UPDATE country SET code = CASE code WHEN 'ch' THEN 'de' ELSE 'fr' END WHERE id < 3",
        [None, "de", "fr", "de"],
    ),
    (" ON UPDATE CASCADE", "UPDATE country SET code = NULL WHERE id = 1", [None, None, "de", None]),
    (" ON UPDATE SET NULL", "UPDATE country SET code = 'x'||code", [None, None, None, None]),
    (
        " ON UPDATE CASCADE",
        "INSERT INTO country (id, code) VALUES (1, 'x')"
        " ON CONFLICT (id) DO UPDATE SET code = excluded.code",
        [None, "x", "de", "x"],
    ),
]


@pytest.mark.parametrize(("action", "sql", "codes"), ACTIONS)
async def test_actions_follow_unique_values(tmp_path, action, sql, codes):
    async with on(
        tmp_path, code=action, pair=" ON DELETE CASCADE", city=" ON DELETE CASCADE"
    ) as db:
        await db.execute("UPDATE city SET zone = NULL")
        await db.execute(sql)
        found = await db.fetch(CODES)
        assert [code for _, code in found] == codes or [name for name, _ in found] == codes


DEFAULTS = """
CREATE TABLE p (k INTEGER PRIMARY KEY, u INTEGER UNIQUE);
CREATE TABLE c (
  i INTEGER PRIMARY KEY, k INTEGER NOT NULL DEFAULT 0 REFERENCES p{action},
  u INTEGER DEFAULT 0 REFERENCES p (u){action});
CREATE TABLE g (i INTEGER PRIMARY KEY, c INTEGER REFERENCES c ON DELETE CASCADE);
"""
FILL_DEFAULTS = (
    "INSERT INTO p VALUES (0, 0), (1, 1), (2, 2)",
    "INSERT INTO c VALUES (1, 1, 2), (2, 2, 1), (3, 1, NULL)",
    "INSERT INTO g VALUES (1, 1), (2, 2)",
)


async def test_set_default_on_delete_and_on_update(tmp_path):
    ddl = DEFAULTS.format(action=" ON DELETE SET DEFAULT ON UPDATE SET DEFAULT")
    async with opened(tmp_path, catalog_of(load_ddl(ddl))) as database:
        await run_all(database, *FILL_DEFAULTS, "DELETE FROM p WHERE k = 1")
        rows = "SELECT i, k, u FROM c ORDER BY i"
        assert await database.fetch(rows) == [(1, 0, 2), (2, 2, 0), (3, 0, None)]
        await database.execute("UPDATE p SET k = k * 10, u = u * 10")
        assert await database.fetch(rows) == [(1, 0, 0), (2, 0, 0), (3, 0, None)]
        # The default itself goes: nothing is left that the rows could reference.
        with pytest.raises(ForeignKeyViolation):
            await database.execute("DELETE FROM p WHERE k = 0")
        with pytest.raises(ForeignKeyViolation):
            await database.execute("UPDATE p SET u = 7 WHERE k = 0")
        await check(database)


KEYS = """
CREATE TABLE a (x INTEGER, y INTEGER, name TEXT, PRIMARY KEY (x, y));
CREATE TABLE b (x INTEGER, y INTEGER, no INTEGER, note TEXT, PRIMARY KEY (no, x, y),
  FOREIGN KEY (y, x) REFERENCES a (y, x) ON UPDATE CASCADE ON DELETE CASCADE);
CREATE TABLE c (i INTEGER PRIMARY KEY, no INTEGER, x INTEGER, y INTEGER,
  FOREIGN KEY (no, x, y) REFERENCES b ON UPDATE CASCADE ON DELETE SET NULL);
"""


@pytest.mark.parametrize("views", [None, []])
async def test_a_changed_key_cascades_through_a_tree(tmp_path, views):
    """The tree's roots, views and indexes follow, at any depth; keys may shift by one."""
    async with opened(tmp_path, catalog_of(load_ddl(KEYS), views=views)) as database:
        await run_all(
            database,
            "INSERT INTO a VALUES (1, 1, 'p'), (2, 1, 'q'), (3, 1, 'r')",
            "INSERT INTO b VALUES (1, 1, 7, 'b1'), (1, 1, 8, 'b2'), (2, 1, 7, 'b3')",
            "INSERT INTO c VALUES (1, 7, 1, 1), (2, 7, 2, 1), (3, NULL, 1, 1)",
            "UPDATE a SET x = x + 1",
        )
        assert await database.fetch("SELECT x, no, note FROM b ORDER BY note") == [
            (2, 7, "b1"),
            (2, 8, "b2"),
            (3, 7, "b3"),
        ]
        assert await database.fetch("SELECT i, x FROM c ORDER BY i") == [(1, 2), (2, 3), (3, 1)]
        await check(database)
        with pytest.raises(UniqueViolation):
            await database.execute("UPDATE a SET x = 3 WHERE x = 2")
        done = await database.execute("UPDATE a SET x = 9, y = 5 WHERE x = 3 RETURNING *")
        assert done.statements[0].rows == ((9, 5, "q"),)
        assert await database.fetch("SELECT x, y FROM c WHERE i = 2") == [(9, 5)]
        await check(database)


LIST = """
CREATE TABLE node (k INTEGER PRIMARY KEY, u INTEGER UNIQUE,
  up INTEGER REFERENCES node ON UPDATE CASCADE ON DELETE SET DEFAULT,
  at INTEGER DEFAULT 1 REFERENCES node (u) ON UPDATE CASCADE ON DELETE CASCADE);
"""


async def test_references_of_a_relation_to_itself(tmp_path):
    async with opened(tmp_path, catalog_of(load_ddl(LIST))) as database:
        await run_all(
            database,
            "INSERT INTO node VALUES (1, 1, 1, 1), (2, 2, 1, 1), (3, 3, 2, 2), (4, NULL, 4, NULL)",
            "UPDATE node SET k = k + 10, u = u + 1",
        )
        rows = "SELECT * FROM node ORDER BY k"
        assert await database.fetch(rows) == [
            (11, 2, 11, 2),
            (12, 3, 11, 2),
            (13, 4, 12, 3),
            (14, None, 14, None),
        ]
        await database.execute("DELETE FROM node WHERE k = 12")  # 13 references its u
        await database.execute("UPDATE node SET k = 5 WHERE k = 14")
        assert await database.fetch(rows) == [(5, None, 5, None), (11, 2, 11, 2)]
        await check(database)


PARTS = """
CREATE TABLE part (whole INTEGER, no INTEGER, up INTEGER, PRIMARY KEY (whole, no),
  FOREIGN KEY (whole, up) REFERENCES part (whole, no) ON UPDATE CASCADE ON DELETE CASCADE);
"""


async def test_a_change_cascades_to_any_depth(tmp_path):
    async with opened(tmp_path, catalog_of(load_ddl(PARTS))) as database:
        chain = [(1, n, n - 1 if n else None) for n in range(400)]
        await database.load("part", ["whole", "no", "up"], chain)
        await database.execute("UPDATE part SET whole = 2 WHERE no = 0")
        assert await database.fetch("SELECT count(*), min(whole) FROM part") == [(400, 2)]
        await check(database)


async def test_changes_without_end_are_ended(tmp_path):
    """Every row references itself by the column that it exchanges with another row."""
    ddl = "CREATE TABLE t (k INTEGER PRIMARY KEY REFERENCES t ON UPDATE CASCADE);"
    async with opened(tmp_path, catalog_of(load_ddl(ddl))) as database:
        await run_all(database, "INSERT INTO t VALUES (1), (2)", "UPDATE t SET k = k + 5")
        with pytest.raises(StatementTimeout):
            await database.transact(replace(statements("UPDATE t SET k = 13 - k"), timeout_s=0.3))
        assert await database.fetch("SELECT * FROM t ORDER BY k") == [(6,), (7,)]
        await check(database)


async def test_a_cascade_is_refused_as_a_whole(tmp_path, monkeypatch):
    ddl = DEFAULTS.format(action=" ON UPDATE CASCADE")
    async with opened(tmp_path, catalog_of(load_ddl(ddl))) as database:
        await run_all(database, *FILL_DEFAULTS)
        monkeypatch.setattr(workspace, "MAX_CHANGES", 1)
        with pytest.raises(LimitExceeded):
            await database.execute("UPDATE p SET k = 5 WHERE k = 1")
        monkeypatch.undo()
        with pytest.raises(ForeignKeyViolation):
            await database.transact(
                statements("UPDATE p SET k = 5 WHERE k = 1", "INSERT INTO g VALUES (9, 9)")
            )
        assert await database.fetch("SELECT k FROM p ORDER BY k") == [(0,), (1,), (2,)]
        await check(database)


async def test_a_cascade_of_null_into_a_column_that_is_not_null(tmp_path):
    ddl = "CREATE TABLE p (k INTEGER PRIMARY KEY, u INTEGER UNIQUE);"
    ddl += "CREATE TABLE c (u INTEGER NOT NULL REFERENCES p (u) ON UPDATE CASCADE);"
    async with opened(tmp_path, catalog_of(load_ddl(ddl))) as database:
        await run_all(database, "INSERT INTO p VALUES (1, 1)", "INSERT INTO c VALUES (1), (1)")
        with pytest.raises(NotNullViolation):
            await database.execute("UPDATE p SET u = NULL")
        await database.execute("UPDATE p SET u = 2")
        assert await database.fetch("SELECT u FROM c") == [(2,), (2,)]
        await check(database)


async def test_concurrent_references_and_changes_of_the_referenced_value(tmp_path):
    """Either the row comes first, and its value follows; or it finds no value to reference."""
    async with on(tmp_path, code=" ON UPDATE CASCADE ON DELETE CASCADE") as database:
        refused = 0
        for n in range(20):
            before, after = ("ch", "fr") if n % 2 == 0 else ("fr", "ch")
            done = await asyncio.gather(
                database.execute(f"INSERT INTO city (name, code) VALUES ('n{n}', '{before}')"),
                database.execute(f"UPDATE country SET code = '{after}' WHERE id = 1"),
                return_exceptions=True,
            )
            assert isinstance(done[0], ForeignKeyViolation) or not isinstance(done[0], Exception)
            refused += isinstance(done[0], Exception)
            assert not isinstance(done[1], Exception)
        (count,) = await database.fetch("SELECT count(*) FROM city WHERE name LIKE 'n%'")
        assert count == (20 - refused,)
        assert await database.fetch("SELECT DISTINCT code FROM city WHERE name LIKE 'n%'") in (
            [("ch",)],
            [],
        )


async def test_constraints_are_added_over_stored_rows(tmp_path):
    bare = "CREATE TABLE p (k INTEGER PRIMARY KEY, u INTEGER); CREATE TABLE c (u INTEGER);"
    whole = "CREATE TABLE p (k INTEGER PRIMARY KEY, u INTEGER UNIQUE);"
    whole += "CREATE TABLE c (u INTEGER REFERENCES p (u) ON UPDATE CASCADE);"
    async with opened(tmp_path, catalog_of(load_ddl(bare))) as database:
        await run_all(
            database, "INSERT INTO p VALUES (1, 1), (2, 2)", "INSERT INTO c VALUES (1), (3)"
        )
        with pytest.raises(ForeignKeyViolation):
            await database.keeper.apply(next_version(database, catalog_of(load_ddl(whole))))
        await database.execute("DELETE FROM c WHERE u = 3")
        await database.keeper.apply(next_version(database, catalog_of(load_ddl(whole))))
        await database.keeper.wait_built()
        await database.execute("UPDATE p SET u = 5 WHERE k = 1")
        assert await database.fetch("SELECT u FROM c") == [(5,)]
        await check(database)


@in_virtual_time
async def test_nodes_agree_about_a_referenced_value():
    """A row begins to reference a value at one node while another node changes the value."""
    world = await nodes(0, 0, catalog=geography(code=" ON UPDATE CASCADE"))
    one, two = world.all
    for sql in FILL:
        await one.transact(sql)
    for n in range(6):
        await asyncio.gather(
            one.transact(f"INSERT INTO city (name, code) VALUES ('n{n}', 'ch')"),
            two.transact(f"UPDATE country SET code = 'x{n}' WHERE id = 1"),
            return_exceptions=True,
        )
        await two.transact("UPDATE country SET code = 'ch' WHERE id = 1")
    await world.settled()
    found = await one.do(one.database.fetch(CODES, strong=True))
    assert {code for name, code in found if name.startswith(("n", "Bern"))} == {"ch"}
    await world.end()


async def test_set_null_in_a_not_null_column_refuses_the_statement(tmp_path):
    ddl = (
        "CREATE TABLE a (id INTEGER PRIMARY KEY);"
        "CREATE TABLE b (id INTEGER PRIMARY KEY,"
        " a INTEGER NOT NULL REFERENCES a ON DELETE SET NULL ON UPDATE SET DEFAULT);"
    )
    async with opened(tmp_path, catalog_of(load_ddl(ddl))) as database:
        await run_all(database, "INSERT INTO a VALUES (1), (2)", "INSERT INTO b VALUES (1, 1)")
        for sql in ("DELETE FROM a WHERE id = 1", "UPDATE a SET id = 3 WHERE id = 1"):
            with pytest.raises(NotNullViolation):
                await database.execute(sql)
        await run_all(database, "DELETE FROM a WHERE id = 2")
        assert await database.fetch("SELECT a FROM b") == [(1,)]
        await check(database)
