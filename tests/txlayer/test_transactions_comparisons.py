"""Law: a comparison with a constant answers as in PostgreSQL, and a parameter compares like the
literal of its value, in every place and on every path."""

import random
from contextlib import asynccontextmanager

import pytest

from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import TypeMismatch
from tests.depth import depth
from tests.txlayer.comparison_cases import CONDITIONS, STORED, VALUES, answers, literal
from tests.txlayer.database_world import catalog_of, opened, run_all

ANSWERS = answers()

PLACES = {
    "loops": "SELECT id FROM plain WHERE {c}",
    "DuckDB": "SELECT DISTINCT id + 0 FROM plain WHERE {c}",
    "index": "SELECT id FROM indexed WHERE {c}",
    "key": "SELECT id FROM keyed WHERE {c}",
    "view": "SELECT id FROM plain JOIN child ON c_id = id WHERE {c}",
    "CASE": "SELECT id FROM plain WHERE CASE WHEN {c} THEN 1 ELSE 0 END = 1",
    "HAVING": "SELECT id FROM plain GROUP BY id, v HAVING {c}",
    "subquery": "SELECT id FROM (SELECT id, v, 1 AS one FROM plain LIMIT 100) s WHERE {c}",
    "UPDATE": "UPDATE plain SET w = 1 WHERE {c} RETURNING id",
    "UPDATE by key": "UPDATE keyed SET w = 1 WHERE {c} RETURNING id",
    "UPDATE by DuckDB": "UPDATE plain SET w = 1 WHERE {c} AND md5(w::TEXT) <> '' RETURNING id",
    "DELETE": "DELETE FROM indexed WHERE id > 0 AND ({c}) RETURNING id",
    "DELETE by key": "DELETE FROM keyed WHERE {c} RETURNING id",
    "DELETE by index": "DELETE FROM indexed WHERE {c} RETURNING id",
    "INSERT": "INSERT INTO sink SELECT id FROM plain WHERE {c} RETURNING id",
    "ON CONFLICT": "INSERT INTO plain AS p (id) SELECT id FROM plain ON CONFLICT (id)"
    " DO UPDATE SET w = 1 WHERE {p} RETURNING id",
}
CONDITIONS_OF_VALUE, PLACES_OF_VALUE = depth(3, long=6), depth(1, long=2)
"""How many are chosen for each value, always the same ones."""
SPELLINGS = ["literal", "?", ":x"]


def ddl(type_):
    return f"""
    CREATE TABLE plain (id INTEGER PRIMARY KEY, v {type_}, w INTEGER DEFAULT 0);
    CREATE TABLE child (c_id INTEGER PRIMARY KEY REFERENCES plain (id));
    CREATE TABLE indexed (id INTEGER PRIMARY KEY, v {type_}, w INTEGER DEFAULT 0);
    CREATE TABLE keyed (v {type_} PRIMARY KEY, id INTEGER, w INTEGER DEFAULT 0);
    CREATE TABLE sink (id INTEGER PRIMARY KEY);
    CREATE INDEX indexed_v ON indexed (v);
    """


@asynccontextmanager
async def on_rows(folder, type_):
    stored = [f"CAST({value} AS {type_})" for value in STORED[type_]]
    async with opened(folder, catalog_of(load_ddl(ddl(type_)))) as database:
        for number, value in enumerate([*stored, "NULL"], 1):
            await run_all(
                database,
                f"INSERT INTO plain (id, v) VALUES ({number}, {value})",
                f"INSERT INTO indexed (id, v) VALUES ({number}, {value})",
                f"INSERT INTO child VALUES ({number})",
            )
            if value != "NULL":
                await run_all(database, f"INSERT INTO keyed (v, id) VALUES ({value}, {number})")
        yield database


def spelled(sql, value, spelling, column="v"):
    """The statement and its parameters; each `{x}` in it stands for the value."""
    count = sql.count("{x}")
    if spelling == "literal":
        return sql.format(v=column, x=literal(value)), ()
    return sql.format(v=column, x=spelling), ([value] * count if spelling == "?" else {"x": value})


def spellings(type_, value):
    """A text parameter for BYTEA is base64, but a text literal is not."""
    return SPELLINGS[:1] if type_ == "BYTEA" and isinstance(value, str) else SPELLINGS


async def rows(database, sql, parameters):
    if sql.startswith("SELECT"):
        return await database.fetch(sql, parameters)
    done = await database.execute(sql, parameters, dry_run=True)
    return done.statements[0].rows


@pytest.mark.parametrize("type_", STORED)
async def test_every_condition_answers_as_in_postgresql(tmp_path, type_):
    async with on_rows(tmp_path, type_) as database:
        for value in VALUES:
            wanted = ANSWERS[type_][literal(value)]
            chance = random.Random(f"{type_} {literal(value)}")
            chosen = sorted(chance.sample(range(len(CONDITIONS)), CONDITIONS_OF_VALUE))
            sql = f"SELECT id, {', '.join(CONDITIONS[i] for i in chosen)} FROM plain"
            for spelling in spellings(type_, value):
                text, given = spelled(sql, value, spelling)
                case = type_, literal(value), spelling
                if wanted is None:
                    with pytest.raises(TypeMismatch):
                        pytest.fail(f"{case}: {await database.fetch(text, given)}")
                    continue
                found = sorted(await database.fetch(text, given))
                for i, column in zip(chosen, [*zip(*found, strict=True)][1:], strict=True):
                    letters = "".join({True: "t", False: "f", None: "n"}[v] for v in column)
                    assert letters == wanted[i], (CONDITIONS[i], *case)


@pytest.mark.parametrize("type_", STORED)
async def test_every_place_finds_the_same_rows(tmp_path, type_):
    async with on_rows(tmp_path, type_) as database:
        for value in VALUES:
            wanted = ANSWERS[type_][literal(value)]
            chance = random.Random(f"{type_} {literal(value)}")
            for place in chance.sample(list(PLACES), PLACES_OF_VALUE):
                sql, number = PLACES[place], chance.randrange(len(CONDITIONS))
                condition = CONDITIONS[number]
                of_target = condition.replace("{v}", "p.v").replace("id", "p.id")
                text = sql.replace("{c}", condition).replace("{p}", of_target)
                for spelling in spellings(type_, value):
                    case = type_, place, spelled(text, value, spelling)
                    if wanted is None:
                        with pytest.raises(TypeMismatch):
                            pytest.fail(f"{case}: {await rows(database, *case[2])}")
                        continue
                    ids = {i for i, letter in enumerate(wanted[number], 1) if letter == "t"}
                    if "keyed" in sql:
                        ids.discard(len(STORED[type_]) + 1)  # NULL is no key
                    assert sorted(await rows(database, *case[2])) == [(i,) for i in sorted(ids)], (
                        case
                    )
