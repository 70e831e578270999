"""Functions in FROM, VALUES, subqueries and CTEs: the columns of `*`.

Number, names and rows equal DuckDB's; number and names are known before the query runs. Unnamed
columns have PostgreSQL's names.
"""

from __future__ import annotations

import pytest

from hornbeam_server.query.binding.binder import bind
from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.schema.errors import SqlError, UnknownName, Unsupported
from tests.query.query_world import MemoryReader, ask, make_catalog, oracle, sample

CATALOG = make_catalog()
DATA = sample(5, 6, 8)
QUERIES = """
select * from range(3)
select * from range(3) g
select g from range(3) g
select g.* from range(3) g
select g.g, g from generate_series(1,2) g
select * from generate_series(1,2) g
select generate_series from generate_series(1,2) g
select * from range(3) g(x)
select * from unnest([1,2])
select * from unnest([1,2]) u
select u from unnest([1,2]) u
select * from unnest([1,2]) u(x)
select * from unnest([1,2]) with ordinality
select * from unnest([1,2]) with ordinality u(x,o)
select * from unnest([1,2]) with ordinality u(x)
select * from generate_series(1,2) with ordinality g(x,o)
select * from range(1,2) with ordinality
select * from (values (1,2)) v
select * from (values (1,2)) v(a)
select * from range(timestamp '2020-01-01', timestamp '2020-01-02', interval 6 hour)
select * from lateral unnest([1])
select * from range(2) a, range(2) b
select * from unnest(array['a','b'])
values (1,2)
select * from (select 1 union all select 2)
select * exclude (range) from range(3), (select 1 y)
select * replace (range+1 as range) from range(3)
select * rename (range as z) from range(3)
select range+1 as r, * from range(2)
select * from unnest([1]) u, lateral (select u.u + 1 as w)
select t.x from unnest([1]) t(x)
select unnest from unnest([1]) t
select count(*) from generate_series(1,3)
with c as (select * from range(3) r) select * from c
with c(z) as (select * from range(3)) select *, z+1 as w from c
select * from item i, range(i.i_id) r where i.i_id = 2
select r.*, i_id from item left join range(3) r on r = i_id order by 2
select * from range(3) a join range(2) b on a = b
select * from (select * from range(3) r) s, (values ('x')) v(t)
select * from range(2) r union all select * from range(3)
select * from item join range(2) r(i_id) using (i_id)
select a.*, b.* from range(2) a, range(2) b
select * from range(2) range
select * from (from range(2)) x
select max(r) from range(9) r
select * from item cross join lateral unnest([i_id, i_id + 1]) u(n) where i_id < 2
select unnest([1,2]) as u, * from range(2) r
"""
UNNAMED = {
    "select * from (values (1,2)) v": ["column1", "column2"],
    "select * from (values (1,2)) v(a)": ["a", "column2"],
    "values (1,2)": ["column1", "column2"],
    "select * from (select 1 union all select 2)": ["?column?"],
    "select count(*) from generate_series(1,3)": ["count"],
    "select max(r) from range(9) r": ["max"],
}


@pytest.fixture(scope="module")
def database():
    with oracle(DATA) as database:
        yield database


@pytest.fixture(scope="module")
def engine():
    engine = QueryEngine()
    yield engine
    engine.close()


@pytest.mark.parametrize("sql", QUERIES.strip().splitlines())
async def test_the_star_expands_to_the_columns_of_functions(sql, engine, database):
    query = engine.prepare(sql, CATALOG)
    wanted = database.sql(sql)
    assert [column.name for column in query.columns] == UNNAMED.get(sql, wanted.columns)
    rows = await (await query.run(MemoryReader(CATALOG, DATA))).all()
    assert sorted(map(repr, rows)) == sorted(map(repr, ask(database, sql)))


@pytest.mark.parametrize(
    ("sql", "error", "text"),
    [
        ("SELECT * FROM range(3) g(a, b)", SqlError, "2 names for 1 columns"),
        ("SELECT * FROM unnest([1]) WITH ORDINALITY u(a, b, c)", SqlError, "3 names for 2 columns"),
        ("SELECT g.b FROM range(3) g(a)", UnknownName, "g.b"),
        ("SELECT b FROM range(3) g", UnknownName, "b"),
        ("SELECT * FROM item WITH ORDINALITY", Unsupported, "ORDINALITY"),
        ("SELECT * FROM sum(3)", Unsupported, "sum"),
        ("INSERT INTO author SELECT a.*, a.*, a.*, a.* FROM range(3) a", SqlError,
         "4 values for 3 columns"),
        ("INSERT INTO author (a_id) SELECT * FROM range(3) a, range(3) b", SqlError,
         "2 values for 1 columns"),
        ("SELECT 1 AS a, 2 AS b UNION ALL SELECT * FROM range(3)", SqlError, "2 and 1 columns"),
    ],
)  # fmt: skip
def test_wrong_columns_of_functions_are_refused(sql, error, text):
    with pytest.raises(error, match=text):
        bind(sql, CATALOG)


def test_a_function_of_one_value_gives_one_row_in_from():
    bound = bind("SELECT * FROM repeat('a', 3) AS r, upper(r) AS u", CATALOG)
    assert [column.name for column in bound.columns] == ["r", "u"]
    assert bind("SELECT jsonb_to_record.a FROM jsonb_to_record('{}') AS (a INT)", CATALOG)


async def test_a_function_in_from_has_a_subquery_with_another_one(engine):
    query = engine.prepare("SELECT y FROM abs((SELECT x FROM abs(-2) AS t (x))) AS y", CATALOG)
    assert await (await query.run(MemoryReader(CATALOG, DATA))).all() == [(2,)]
