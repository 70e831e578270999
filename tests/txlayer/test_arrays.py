"""Columns of arrays, from DDL to views, in all loops."""

from __future__ import annotations

from decimal import Decimal

import pytest

from hornbeam_server.maintain.immediate.projected import define_any
from hornbeam_server.schema.ddl import load_ddl, render_ddl
from hornbeam_server.schema.errors import CheckViolation, TypeMismatch, Unsupported
from hornbeam_server.schema.types import ColumnType, Kind, array_of
from tests.txlayer.database_world import catalog_of, check, opened, run_all
from tests.txlayer.test_immediate_views import opened as immediate_world
from tests.txlayer.test_immediate_views import require_right

DDL = """
CREATE TABLE film (
  f_id INTEGER PRIMARY KEY, f_features TEXT[] NOT NULL DEFAULT '{}', f_years INTEGER ARRAY,
  f_prices NUMERIC(5,2)[], f_codes VARCHAR(3) ARRAY[4] DEFAULT ARRAY['a', NULL]::VARCHAR[],
  f_said TEXT GENERATED ALWAYS AS (f_features::TEXT) STORED,
  CHECK (f_years <> '{0}'));
CREATE TABLE copy (c_id INTEGER PRIMARY KEY, c_f_id INTEGER REFERENCES film (f_id), c_spans INTERVAL[]);
"""  # noqa: E501


async def stocked(database):
    await run_all(
        database,
        "INSERT INTO film (f_id) VALUES (1)",
        "INSERT INTO film VALUES (2, '{Trailers,\"Deleted Scenes\",NULL}', ARRAY[2020, NULL],"
        " '{1.5,2.255}', '{}')",
        "INSERT INTO film (f_id, f_features, f_years) VALUES (3, ARRAY['x'], '{2020,1999}')",
        "INSERT INTO copy VALUES (1, 2, '{1 mon}'), (2, 3, NULL), (3, 2, '{}')",
        "UPDATE copy SET c_spans = '{30 days}' WHERE c_id = 1",
    )


QUERIES = [
    ("SELECT * FROM film WHERE f_id = 1", [(1, (), None, None, ("a", None), "{}")]),
    ("SELECT f_features, f_prices, f_codes, f_said FROM film WHERE f_id = 2",
     [(("Trailers", "Deleted Scenes", None), (Decimal("1.50"), Decimal("2.26")), (),
       '{Trailers,"Deleted Scenes",NULL}')]),
    ("SELECT f_id FROM film WHERE f_years = '{2020,1999}'", [(3,)]),
    ("SELECT f_id FROM film WHERE f_years < ARRAY[2020, 2000]", [(3,)]),
    ("SELECT f_id FROM film WHERE f_years >= '{2020}' ORDER BY 1", [(2,), (3,)]),
    ("SELECT f_id FROM film ORDER BY f_years", [(3,), (2,), (1,)]),
    ("SELECT f_years FROM film ORDER BY f_years DESC NULLS LAST LIMIT 1", [((2020, None),)]),
    ("SELECT f_id FROM film WHERE f_features IN ('{x}', '{y,z}')", [(3,)]),
    ("SELECT f_features, count(*) FROM film GROUP BY f_features ORDER BY 1 LIMIT 1", [((), 1)]),
    ("SELECT min(f_years), max(f_years), count(DISTINCT f_years) FROM film",
     [((2020, 1999), (2020, None), 2)]),
    ("SELECT f_years::TEXT[], f_years::TEXT, f_prices::INTEGER[] FROM film WHERE f_id = 2",
     [(("2020", None), "{2020,NULL}", (2, 2))]),
    ("SELECT ARRAY[f_id, 7], '{1,2}'::BIGINT[], (f_id || ',1')::TEXT FROM film WHERE f_id = 3",
     [((3, 7), (1, 2), "3,1")]),
    ("SELECT ('{' || f_id || ',1}')::INTEGER[] FROM film WHERE f_id = 3", [((3, 1),)]),
    ("SELECT f_id FROM film WHERE 'x' = ANY (f_features)", [(3,)]),
    ("SELECT f_id FROM film WHERE 2020 = ALL (f_years) ORDER BY f_id", []),
    ("SELECT f_id, 2020 <> ALL (f_years), 1 = ANY (f_years) FROM film ORDER BY f_id",
     [(1, None, None), (2, False, None), (3, False, False)]),
    ("SELECT f_id FROM film WHERE f_id = ANY ('{1,3}') ORDER BY f_id", [(1,), (3,)]),
    ("SELECT f_id FROM film WHERE f_features @> '{Trailers}'", [(2,)]),
    ("SELECT f_id FROM film WHERE f_features <@ ARRAY['x', 'y'] ORDER BY f_id", [(1,), (3,)]),
    ("SELECT f_id FROM film WHERE f_years && '{1999,1998}'", [(3,)]),
    ("SELECT f_years || 5, 5 || f_years, f_years || '{5}', f_years[1], f_years[-1], f_years[2:9]"
     " FROM film WHERE f_id = 3",
     [((2020, 1999, 5), (5, 2020, 1999), (2020, 1999, 5), 2020, None, (1999,))]),
    ("SELECT cardinality(f_features), array_length(f_features, 1), array_upper(f_features, 1) FROM"
     " film WHERE f_id < 3 ORDER BY f_id", [(0, None, None), (3, 3, 3)]),
    ("SELECT array_append(f_features, 'z'), array_remove(f_features, NULL),"
     " array_position(f_features, NULL), array_to_string(f_features, '+', '?') FROM film"
     " WHERE f_id = 2",
     [(("Trailers", "Deleted Scenes", None, "z"), ("Trailers", "Deleted Scenes"), 3,
       "Trailers+Deleted Scenes+?")]),
    ("SELECT f_id, e, n FROM film, unnest(f_years) WITH ORDINALITY AS u (e, n) ORDER BY f_id, n",
     [(2, 2020, 1), (2, None, 2), (3, 2020, 1), (3, 1999, 2)]),
    ("SELECT array_agg(f_id ORDER BY f_id DESC) FILTER (WHERE f_id > 1) FROM film", [((3, 2),)]),
    ("SELECT ARRAY(SELECT f_id FROM film ORDER BY f_id)", [((1, 2, 3),)]),
    ("SELECT to_jsonb(f_features) FROM film WHERE f_id = 2",
     [('["Trailers", "Deleted Scenes", null]',)]),
    ("SELECT c_spans::TEXT FROM copy ORDER BY c_id", [('{"30 days"}',), (None,), ("{}",)]),
    ("SELECT c_id, f_features FROM copy JOIN film ON f_id = c_f_id WHERE c_id = 2", [(2, ("x",))]),
]  # fmt: skip


async def test_queries_have_postgresqls_answers(tmp_path):
    async with opened(tmp_path, catalog_of(load_ddl(DDL))) as database:
        await stocked(database)
        for sql, rows in QUERIES:
            assert await database.fetch(sql) == rows, sql
            slow = f"SELECT * FROM ({sql}) AS q, (SELECT 1) AS one"  # DuckDB answers it
            assert [row[:-1] for row in await database.fetch(slow)] == rows, slow
        assert await database.fetch("SELECT f_id FROM film WHERE f_id = ANY (?)", [[1, 3, 9]]) == [
            (1,),
            (3,),
        ]
        assert await database.fetch("SELECT f_id FROM film WHERE f_features = ?", [["x"]]) == [(3,)]
        assert await database.fetch("SELECT f_id FROM film WHERE ? = ANY (f_features)", ["x"]) == [
            (3,)
        ]
        await database.execute("UPDATE film SET f_years[1] = 5 WHERE f_id = 1")
        assert await database.fetch("SELECT f_years[1] FROM film WHERE f_id = 1") == [(5,)]
        for value in ("'x'", "'{{1}}'", "ARRAY['x']", "1", "'{1.5}'"):
            with pytest.raises(TypeMismatch):
                await database.execute(f"UPDATE film SET f_years = {value} WHERE f_id = 1")
        with pytest.raises(TypeMismatch, match="longer than 3"):
            await database.execute("UPDATE film SET f_codes = ARRAY['four'] WHERE f_id = 1")
        with pytest.raises(CheckViolation):
            await database.execute("UPDATE film SET f_years = ARRAY[0] WHERE f_id = 1")
        await check(database)


def test_the_schema_is_rendered_and_read_back():
    schema = load_ddl(DDL)
    assert load_ddl(render_ddl(schema)) == schema
    assert schema.relation("film").column("f_codes").type == array_of(
        ColumnType(Kind.TEXT, length=3)
    )


VIEWS = """
CREATE MATERIALIZED VIEW sizes WITH (refresh = 'immediate') AS
  SELECT f_said, count(*) AS n, sum(f_id) AS ids FROM film WHERE f_features @> '{x}'
  GROUP BY f_said;
CREATE MATERIALIZED VIEW features WITH (refresh = 'immediate') AS
  SELECT c_id, f_id, f_features, f_prices FROM copy JOIN film ON f_id = c_f_id;
"""


async def test_immediate_views_have_arrays(tmp_path):
    async with immediate_world(tmp_path, DDL + VIEWS) as database:
        await stocked(database)
        await database.execute("UPDATE film SET f_features = f_features || '{x}' WHERE f_id = 2")
        await database.execute("UPDATE film SET f_features = '{y}' WHERE f_id = 3")
        assert await database.fetch("SELECT n, ids FROM sizes") == [(1, 2)]
        assert await database.fetch("SELECT f_features, f_prices FROM features WHERE c_id = 3") == [
            (("Trailers", "Deleted Scenes", None, "x"), (Decimal("1.50"), Decimal("2.26")))
        ]
        assert await database.fetch("SELECT c_id FROM features WHERE 'y' = ANY (f_features)") == [
            (2,)
        ]
        await require_right(database)


def test_an_immediate_view_is_not_grouped_by_an_array():
    sql = "SELECT f_features, count(*) AS n FROM film GROUP BY f_features"
    view = f"CREATE MATERIALIZED VIEW v WITH (refresh = 'immediate') AS {sql};"
    with pytest.raises(Unsupported, match=r"TEXT\[\]"):
        define_any(*_declared(view))


def _declared(view):
    schema = load_ddl(DDL + view)
    return schema.views[0], catalog_of(schema, views=[])
