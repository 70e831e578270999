"""JSONB in transactions: stored canonically, changed, checked, computed, grouped and viewed."""

import json

import pytest

from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import CheckViolation, TypeMismatch
from tests.txlayer.database_world import catalog_of, check, opened, run_all
from tests.txlayer.test_immediate_views import opened as immediate_world
from tests.txlayer.test_immediate_views import require_right

DDL = """
CREATE TABLE event (
  e_id INTEGER PRIMARY KEY,
  e_body JSONB NOT NULL DEFAULT '{"b":1, "a":2}' CHECK (jsonb_typeof(e_body) = 'object'),
  e_kind TEXT GENERATED ALWAYS AS (e_body ->> 'kind') STORED,
  e_size INTEGER GENERATED ALWAYS AS ((e_body -> 'size')::INTEGER) STORED,
  e_text JSON
);
CREATE INDEX by_kind ON event (e_kind);
CREATE TABLE tag (t_id INTEGER PRIMARY KEY, t_e_id INTEGER NOT NULL REFERENCES event, t_more JSONB);
"""


@pytest.fixture
def events():
    return catalog_of(load_ddl(DDL))


async def _rows(database, sql, parameters=()):
    async with database.reads.query(sql, parameters) as result:
        return await result.stream.all()


async def test_values_are_stored_canonically_and_changed(events, tmp_path):
    async with opened(tmp_path, events) as database:
        await run_all(
            database,
            "INSERT INTO event (e_id) VALUES (1)",
            "INSERT INTO event (e_id, e_body)"
            """ VALUES (2, '{"size": 7.0, "kind": "x", "a": [1]}')""",
            """INSERT INTO tag VALUES (1, 2, '[ 1,1.0, "a" ]'), (2, 1, NULL)""",
        )
        body = {"kind": "y", "n": 1.50}
        sql = "INSERT INTO event (e_id, e_body, e_text) VALUES (?, ?, ?)"
        await database.execute(sql, (3, json.dumps(body), json.dumps(body)))
        assert await _rows(database, "SELECT * FROM event ORDER BY e_id") == [
            (1, '{"a": 2, "b": 1}', None, None, None),
            (2, '{"a": [1], "kind": "x", "size": 7}', "x", 7, None),
            (3, '{"n": 1.5, "kind": "y"}', "y", None, '{"kind": "y", "n": 1.5}'),
        ]
        assert await _rows(database, "SELECT t_more FROM tag WHERE t_id = 1") == [('[1, 1, "a"]',)]
        await run_all(
            database,
            "UPDATE event SET e_body = jsonb_set(e_body, '{kind}', '\"z\"') WHERE e_kind = 'x'",
            "UPDATE event SET e_body = e_body - 'a' || jsonb_build_object('n', e_id)"
            " WHERE e_body ? 'n'",
            "UPDATE event SET e_body = (SELECT jsonb_object_agg(t_id, t_more) FROM tag)"
            " WHERE e_body @> '{\"a\": 2}'",
        )
        found = await _rows(database, "SELECT e_body, e_kind FROM event ORDER BY e_id")
        assert found == [
            ('{"1": [1, 1, "a"], "2": null}', None),
            ('{"a": [1], "kind": "z", "size": 7}', "z"),
            ('{"n": 3, "kind": "y"}', "y"),
        ]
        await check(database)


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("INSERT INTO event (e_id, e_body) VALUES (9, '[]')", CheckViolation),
        ("INSERT INTO event (e_id, e_body) VALUES (9, '{')", TypeMismatch),
        ("UPDATE event SET e_body = e_body -> 'a' WHERE e_id = 1", CheckViolation),
        ("UPDATE event SET e_body = jsonb_set(e_body, '{size}', '\"x\"')", TypeMismatch),
        ("UPDATE event SET e_body = e_body || e_id", TypeMismatch),
    ],
)
async def test_a_value_that_is_none_is_refused(events, tmp_path, sql, error):
    async with opened(tmp_path, events) as database:
        await run_all(database, "INSERT INTO event (e_id) VALUES (1)")
        with pytest.raises(error):
            await database.execute(sql)


QUERIES = (
    ('e_id FROM event WHERE e_body = \'{"a": 2, "b": 1.0}\'', [(1,), (3,)]),
    ("e_id FROM event WHERE e_body = :body", [(1,), (3,)]),
    ("e_id FROM event WHERE e_body ->> 'kind' = :kind", [(2,)]),
    ("e_id FROM event WHERE e_body @> :part AND e_body ? :key", [(2,)]),
    ("e_id FROM event JOIN tag ON t_e_id = e_id WHERE t_more = e_body -> 'tags'", [(2,)]),
    ("e_body, count(*) FROM event WHERE e_id <> 2 GROUP BY e_body", [('{"a": 2, "b": 1}', 2)]),
    ("count(DISTINCT e_body) FROM event", [(2,)]),
    ("e.value ->> 'x' FROM event, jsonb_array_elements(e_body -> 'tags') AS e", [("5",), (None,)]),
    ("key FROM event, jsonb_each(e_body) WHERE value = '[{\"x\": 5}, {}]'", [("tags",)]),
    ("jsonb_agg(t_more ORDER BY t_id) FROM tag", [('[[{"x": 5}, {}], null]',)]),
    ("(e_body -> 'tags' -> 0 ->> :member)::INTEGER + 1 FROM event WHERE e_id = 2", [(6,)]),
)
PARAMETERS = {
    "body": '{"b":1,"a":2}', "kind": "x", "part": '{"tags":[{}]}', "key": "kind", "member": "x",
}  # fmt: skip


@pytest.mark.parametrize(("sql", "wanted"), QUERIES)
async def test_queries_in_our_loops_and_in_duckdb(events, tmp_path, sql, wanted):
    """A window function needs DuckDB."""
    given = {name: value for name, value in PARAMETERS.items() if f":{name}" in sql}
    inner = f"SELECT {sql}"
    outer = f"SELECT * EXCLUDE (w) FROM (SELECT *, row_number() OVER () AS w FROM ({inner}))"
    async with opened(tmp_path, events) as database:
        await run_all(
            database,
            "INSERT INTO event (e_id) VALUES (1), (3)",
            "INSERT INTO event (e_id, e_body)"
            """ VALUES (2, '{"tags": [{"x": 5}, {}], "kind": "x"}')""",
            """INSERT INTO tag VALUES (1, 2, '[{"x":5},{}]'), (2, 1, NULL)""",
        )
        for each in (inner, outer):
            assert sorted(map(repr, await _rows(database, each, given))) == sorted(
                map(repr, wanted)
            )


VIEWS = """
CREATE MATERIALIZED VIEW kinds WITH (refresh = 'immediate') AS
  SELECT e_kind, count(*) AS n, sum(e_size) AS size FROM event GROUP BY e_kind;
CREATE MATERIALIZED VIEW bodies WITH (refresh = 'immediate') AS
  SELECT e_id, e_body FROM event WHERE e_kind = 'x';
"""


async def test_views_hold_documents(tmp_path):
    async with immediate_world(tmp_path, DDL + VIEWS) as database:
        await run_all(
            database,
            """INSERT INTO event (e_id, e_body) VALUES (1, '{"kind":"x","size":2}')""",
            """INSERT INTO event (e_id, e_body) VALUES (2, '{"size":3,"kind":"x"}')""",
            "INSERT INTO tag VALUES (1, 1, '{}')",
            "UPDATE event SET e_body = jsonb_set(e_body, '{size}', '9') WHERE e_id = 2",
        )
        assert await _rows(database, "SELECT n, size FROM kinds") == [(2, 11)]
        found = await _rows(database, "SELECT e_body ->> 'size' FROM bodies WHERE e_id = 2")
        assert found == [("9",)]
        await require_right(database)
