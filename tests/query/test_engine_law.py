"""Law: for any data, every query has the answer of DuckDB over the base relations, with views
and without. The shapes cover every access path, nested loops, and queries that DuckDB runs.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.query.execution.loops import NativePlan
from tests.depth import depth
from tests.duckdb_oracle import connect
from tests.query.query_world import Data, MemoryReader, ask, assert_answered, make_catalog, oracle

CATALOG = make_catalog()
FEW = make_catalog(version=2, row_counts={"author": 3, "item": 3, "line": 3})
ORACLE = connect()

NATIVE = [
    "SELECT * FROM item WHERE i_id = :k",
    "SELECT i_title, i_price FROM item WHERE i_id IN (:k, :j, 3, NULL)",
    "SELECT * FROM line WHERE l_o_id = :k AND l_no = :j",
    "SELECT * FROM line WHERE l_o_id = :k",
    "SELECT * FROM line WHERE l_o_id IN (:k, :j) AND l_qty > 2",
    "SELECT * FROM line WHERE l_o_id > :k AND l_o_id <= :j",
    "SELECT * FROM line WHERE l_o_id BETWEEN :k AND :j AND l_no = 1",
    "SELECT * FROM line WHERE l_o_id = :k AND l_no >= 1 ORDER BY l_no DESC LIMIT 2",
    "SELECT * FROM line WHERE l_i_id IS NULL",
    "SELECT l_o_id, l_no FROM line WHERE l_i_id = :k",
    "SELECT * FROM item WHERE i_subject = :s",
    "SELECT * FROM item WHERE i_subject IS NULL AND i_price > 5",
    "SELECT * FROM item WHERE i_subject = :s AND i_pub = :d AND i_title LIKE 'a%'",
    "SELECT * FROM item WHERE i_subject = :s AND i_pub < :d",
    "SELECT * FROM item WHERE i_title LIKE :p",
    "SELECT i_id FROM item WHERE i_a_id = :k AND NOT (i_price >= 10 OR i_title IS NULL)",
    "SELECT * FROM item ORDER BY i_id",
    "SELECT i_id FROM item ORDER BY i_id DESC LIMIT 3 OFFSET 1",
    "SELECT i_id, i_title FROM item ORDER BY i_title, i_id LIMIT 4",
    "SELECT i_id, i_title FROM item ORDER BY i_title DESC NULLS FIRST, i_id DESC LIMIT :n",
    "SELECT i_id AS x, i_price AS y FROM item ORDER BY y DESC, 1",
    "SELECT i_id FROM item WHERE i_subject = :s ORDER BY i_pub DESC, i_title, i_id LIMIT 3",
    "SELECT i_id FROM item WHERE i_subject = :s ORDER BY i_pub DESC NULLS FIRST, i_id LIMIT 3",
    "SELECT i_id FROM item WHERE i_subject = :s ORDER BY i_pub, i_id DESC LIMIT 3",
    "SELECT i_id FROM item WHERE i_subject = :s ORDER BY i_subject, i_pub, i_title DESC, i_id",
    "SELECT COUNT(*), COUNT(l_i_id), MIN(l_qty), MAX(l_i_id), SUM(l_qty) FROM line",
    "SELECT SUM(i_price), MIN(i_title), MAX(i_pub) FROM item WHERE i_subject = :s",
    "SELECT MAX(l_o_id) FROM line",
    "SELECT MIN(l_o_id) FROM line WHERE l_o_id > :k",
    "SELECT MAX(i_pub), COUNT(*) FROM item WHERE i_subject = :s",
    "SELECT MAX(i_pub) FROM item WHERE i_subject = :s",
    "SELECT MIN(i_title) FROM item, author WHERE i_a_id = a_id AND i_subject = :s",
    "SELECT * FROM author, item WHERE i_a_id = a_id AND i_id = :k",
    "SELECT a_name, i_title FROM author, item WHERE i_a_id = a_id AND i_subject = :s"
    " ORDER BY i_title, i_id LIMIT 3",
    "SELECT i_title FROM author JOIN item ON i_a_id = a_id WHERE a_name = :s ORDER BY i_id",
    "SELECT * FROM author, item, line WHERE l_i_id = i_id AND i_a_id = a_id AND l_o_id = :k",
    "SELECT l.*, o.l_qty FROM line l, line o WHERE l.l_i_id = o.l_i_id AND l.l_o_id = :k",
    "SELECT i.i_id, l.l_no FROM line l, item i WHERE (l.l_i_id = i.i_id OR i.i_id = l.l_qty)"
    " AND l.l_o_id = :k",
    "SELECT i.i_id, l.l_no, l.l_qty FROM line l, item i WHERE i.i_id IN (l.l_i_id, l.l_qty, l.l_no)"
    " AND l.l_o_id = :k ORDER BY 1, 2, 3",
    "SELECT l.l_no, o.l_no FROM line l, line o WHERE (o.l_o_id = l.l_qty OR o.l_o_id = l.l_i_id)"
    " AND o.l_no IN (:j, 1) AND l.l_o_id = :k",
    "SELECT a_id, i_id FROM author LEFT JOIN item ON i_a_id = a_id WHERE a_id <= :k",
    "SELECT a_id FROM author LEFT JOIN item ON i_a_id = a_id WHERE i_id IS NULL",
    "SELECT a_id, i_id FROM author LEFT JOIN item ON i_a_id = a_id AND i_subject = :s",
    "SELECT l.l_no, i_title, a_name FROM line l LEFT JOIN item ON l.l_i_id = i_id AND i_price > 2"
    " LEFT JOIN author ON a_id = i_a_id WHERE l_o_id = :k",
    "SELECT a_id FROM author LEFT JOIN item ON i_a_id = a_id AND i_subject IS NULL"
    " WHERE i_id IS NULL",
    "SELECT l_no, a_name FROM line JOIN item ON l_i_id = i_id LEFT JOIN author ON a_id = i_a_id"
    " AND a_id > l_qty WHERE l_o_id = :k ORDER BY a_name NULLS FIRST, l_no",
    "SELECT x.i_id, l_no FROM item x LEFT JOIN author ON a_id = x.i_a_id JOIN line ON"
    " l_i_id = x.i_id AND (l_qty = a_id OR a_id IS NULL) WHERE l_o_id = :k",
    "SELECT l.l_no, o.l_no FROM line l LEFT JOIN line o ON o.l_o_id = l.l_qty AND o.l_no = :j"
    " WHERE l.l_o_id = :k AND (o.l_no IS NULL OR o.l_qty > 1) ORDER BY 1, 2 LIMIT 3",
    "SELECT a_id, i_id FROM author LEFT JOIN item ON i_id = :k AND a_name = :s",
    "SELECT l_i_id, SUM(l_qty) AS q FROM line, item, author WHERE l_i_id = i_id AND i_a_id = a_id"
    " AND l_o_id > (SELECT MAX(l_o_id) - 2 FROM line) AND i_subject = :s GROUP BY l_i_id",
    "SELECT i_id FROM item WHERE i_id < (SELECT MIN(l_i_id) FROM line WHERE l_o_id = :k)",
    "SELECT i_id FROM item WHERE i_price = (SELECT MAX(i_price) FROM item WHERE i_subject = :s)",
    "SELECT * FROM line WHERE l_i_id IN (SELECT i_id FROM item WHERE i_subject = :s)",
    "SELECT l_o_id, l_no FROM line WHERE l_i_id IN (SELECT i_id FROM item, author"
    " WHERE i_a_id = a_id AND a_name = :s"
    " AND i_id >= (SELECT MIN(l_i_id) FROM line WHERE l_no = 0))",
    "SELECT i_id FROM item WHERE i_a_id IN (SELECT l_qty FROM line) AND i_id > :k",
    "SELECT l_qty, COUNT(*) FROM line WHERE l_i_id IN (SELECT i_id FROM item GROUP BY i_id) AND"
    " l_o_id >= (SELECT COUNT(*) FROM author WHERE a_id > :k) GROUP BY l_qty",
    "SELECT MAX(i_id) FROM item WHERE i_a_id IN (SELECT a_id FROM author WHERE a_name LIKE :p)",
]
GROUPED = [
    "SELECT a_id, COUNT(i_id), MAX(i_price) FROM author LEFT JOIN item ON i_a_id = a_id"
    " GROUP BY a_id HAVING COUNT(*) < 3",
    "SELECT DISTINCT i_subject FROM item WHERE i_price > :k",
    "SELECT i_subject, COUNT(*), SUM(l_qty) FROM item, line WHERE l_i_id = i_id AND l_o_id >= :k"
    " GROUP BY i_subject HAVING COUNT(*) > 1",
    "SELECT DISTINCT i_subject, i_a_id FROM item ORDER BY i_a_id DESC, i_subject LIMIT 3",
    "SELECT i_subject FROM item GROUP BY i_subject",
    "SELECT l_i_id, SUM(l_qty) AS q FROM line GROUP BY l_i_id ORDER BY q DESC, l_i_id LIMIT 2",
    "SELECT l_i_id AS i, l_no, COUNT(l_qty) FROM line GROUP BY i, 2 ORDER BY COUNT(*), 2 DESC, i",
    "SELECT MIN(i_title), i_subject, MAX(i_pub), MAX(i_price) + 1 FROM item GROUP BY item.i_subject"
    " ORDER BY i_subject NULLS FIRST",
    "SELECT COUNT(*) * 2 - l_no, UPPER(i_subject) FROM line, item WHERE l_i_id = i_id"
    " GROUP BY l_no, i_subject HAVING l_no > 0 AND MIN(l_qty) < 3 ORDER BY 1, 2 LIMIT 3 OFFSET 1",
    "SELECT COUNT(*), MAX(a_name) FROM author, item WHERE i_a_id = a_id AND a_id <= :k"
    " GROUP BY a_id, a_born HAVING COUNT(*) BETWEEN 1 AND 2",
]
RESIDUAL = [
    "SELECT l_no, MIN(l_qty) FROM line GROUP BY l_no HAVING MIN(l_qty) < :j",
    "SELECT DISTINCT * FROM line WHERE l_i_id = :k",
    "SELECT DISTINCT i_price + 1 FROM item WHERE i_price > :k",
    "SELECT i_subject, COUNT(DISTINCT i_a_id) FROM item GROUP BY i_subject",
    "SELECT l_weight, COUNT(*) FROM line GROUP BY l_weight",
    "SELECT i_subject, SUM(l_qty) * 2 FROM item, line WHERE l_i_id = i_id GROUP BY i_subject"
    " HAVING SUM(l_qty) > :k",
    "SELECT i_subject, l_no, COUNT(*) FROM item, line WHERE l_i_id = i_id GROUP BY"
    " ROLLUP (i_subject, l_no)",
    "SELECT COUNT(*) FROM item HAVING COUNT(*) > :k",
    "SELECT i_id FROM item WHERE i_a_id IN (SELECT a_id + 1 FROM author)",
    "SELECT i_id FROM item WHERE NOT (i_a_id IN (SELECT a_id FROM author WHERE a_name = :s))",
    "SELECT i_id FROM item WHERE i_a_id IN (SELECT a_id FROM author WHERE a_name = :s)"
    " OR i_id = :k",
    "SELECT x.i_id, y.l_no, z.a_id FROM item x LEFT JOIN line y ON x.i_id = y.l_i_id"
    " FULL JOIN author z ON z.a_id = x.i_a_id WHERE x.i_id IS NULL OR x.i_id >= :k",
    "SELECT i.i_id, l.l_no FROM line l LEFT JOIN item i ON i.i_id >= :k"
    " WHERE i.i_id IN (l.l_i_id, l.l_qty, l.l_no)",
    "SELECT COUNT(*), COUNT(*) FILTER (WHERE i_id = l_i_id OR i_id = l_qty) FROM line, item"
    " WHERE l_o_id = :k",
    "SELECT i_id, l_no FROM line, item WHERE l_o_id = :k AND NOT EXISTS (SELECT 1 FROM author"
    " WHERE a_id = i_a_id AND (i_id = l_i_id OR i_id = l_qty))",
    "SELECT i_id FROM item WHERE NOT EXISTS (SELECT 1 FROM author WHERE a_id = :k AND i_id >="
    " (SELECT MIN(l_i_id) FROM line))",
    "SELECT i_id FROM item WHERE NOT EXISTS (SELECT 1 FROM author WHERE a_id = :k AND i_id IN"
    " (SELECT l_i_id FROM line))",
    "SELECT a_id, i_id FROM author FULL JOIN item ON i_a_id = a_id AND a_id > :k",
    "SELECT a_id, i_id, l_no FROM author RIGHT JOIN item ON i_a_id = a_id"
    " JOIN line ON l_i_id = i_id WHERE l_o_id = :k",
    "SELECT * FROM line WHERE l_i_id NOT IN (SELECT i_id FROM item WHERE i_subject = :s)",
    "SELECT l_i_id FROM item, line WHERE i_id = l_i_id AND NOT (l_i_id = :k) AND i_a_id IN"
    " (SELECT i_a_id FROM item, line WHERE i_id = l_i_id AND l_o_id > (SELECT MAX(l_o_id) - 2"
    " FROM line) AND l_i_id = :j) GROUP BY l_i_id",
    "SELECT * FROM item WHERE EXISTS (SELECT 1 FROM line WHERE l_i_id = i_id AND l_qty > :k)",
    "SELECT i_id, (SELECT COUNT(*) FROM line WHERE l_i_id = i_id) FROM item WHERE i_id <= :k",
    "WITH cheap AS (SELECT i_id, i_price FROM item WHERE i_price < :k)"
    " SELECT l_o_id, i_price FROM cheap JOIN line ON l_i_id = i_id",
    "SELECT i_id FROM item WHERE i_subject = :s UNION ALL SELECT l_i_id FROM line WHERE l_no = 0",
    "SELECT i_a_id FROM item EXCEPT SELECT a_id FROM author WHERE a_name = :s",
    "SELECT l_o_id, l_no, ROW_NUMBER() OVER (PARTITION BY l_o_id ORDER BY l_no DESC) FROM line",
    "SELECT i_id, r FROM (SELECT i_id, RANK() OVER (ORDER BY i_price DESC) AS r FROM item) t"
    " WHERE r <= 2",
    "SELECT x.i_id, y.i_id FROM item x, item y WHERE x.i_pub = y.i_pub AND x.i_id < y.i_id"
    " AND x.i_subject = :s",
    "SELECT * FROM item JOIN line ON l_i_id = i_id OR l_qty = i_a_id WHERE l_o_id = :k",
    "SELECT DISTINCT t.b FROM item AS t(a, b) WHERE t.b >= :k",
    "SELECT * EXCLUDE (i_title) FROM item WHERE i_a_id = :k",
    "SELECT AVG(CAST(l_qty AS DOUBLE)), STDDEV(CAST(l_qty AS DOUBLE)) FROM line"
    " WHERE l_o_id IN (:k, :j)",
    "SELECT i_id FROM item WHERE i_title ILIKE :p ORDER BY LENGTH(i_title), i_id LIMIT 2",
    "SELECT upper(i_title) FROM item WHERE i_subject = :s AND length(i_title) = 1",
    "SELECT COUNT(*) FROM line, item",
]

_text = st.sampled_from([None, "a", "ab", "b", "é", "%", "a_b"])
_subject = st.sampled_from([None, "a", "a", "b"])
_day = st.sampled_from([None, dt.date(2020, 1, 1), dt.date(2021, 5, 5), dt.date(1999, 12, 31)])
_number = st.integers(0, 5)
_price = st.one_of(st.none(), st.integers(0, 60).map(lambda n: Decimal(n * 25) / 100))


@st.composite
def _data(draw: st.DrawFn) -> Data:
    some = draw(st.sampled_from([0, 2, 4]))
    authors = draw(st.sets(_number, min_size=some // 2, max_size=4))
    items = draw(st.sets(_number, min_size=some, max_size=6))
    lines = draw(st.sets(st.tuples(_number, st.integers(0, 2)), min_size=some, max_size=10))
    reference = lambda keys: st.sampled_from([None, *sorted(keys)])  # noqa: E731
    return {
        "author": [(i, draw(_text), draw(_day)) for i in sorted(authors)],
        "item": [
            (i, draw(reference(authors)), draw(_text), draw(_subject), draw(_price), draw(_day))
            for i in sorted(items)
        ],
        "line": [
            (o, n, draw(reference(items)), draw(st.one_of(st.none(), _number)), o / 3)
            for o, n in sorted(lines)
        ],
    }


_parameters = st.fixed_dictionaries(
    {
        "k": st.one_of(st.none(), _number),
        "j": _number,
        "s": _subject,
        "d": _day,
        "p": st.sampled_from([None, "a%", "%b", "_b%", "a", "A%"]),
        "n": st.integers(0, 4),
    }
)


def _used(sql: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if f":{name}" in sql}


def _check(sql: str, data: Data, parameters: dict[str, Any], engine: QueryEngine) -> None:
    wanted = ask(oracle(data, ORACLE), sql.replace(":", "$"), _used(sql, parameters))

    async def answers() -> None:
        for catalog in (CATALOG, FEW):
            reader = MemoryReader(catalog, data, batch=2)
            for use_views in (True, False):
                query = engine.prepare(sql, catalog, use_views=use_views)
                found = await (await query.run(reader, _used(sql, parameters))).all()
                reported = (query.explain().text, parameters)
                assert_answered(sql, found, wanted, reported)

    asyncio.run(answers())


@pytest.fixture(scope="module")
def engine():
    engine = QueryEngine()
    yield engine
    engine.close()


@pytest.mark.parametrize("sql", [*NATIVE, *GROUPED])
@settings(max_examples=depth(4, long=8))
@given(data=_data(), parameters=_parameters)
def test_native_shapes_answer_like_duckdb(sql, engine, data, parameters):
    _check(sql, data, parameters, engine)


@pytest.mark.parametrize("sql", RESIDUAL)
@settings(max_examples=depth(2, long=4))
@given(data=_data(), parameters=_parameters)
def test_other_shapes_answer_like_duckdb(sql, engine, data, parameters):
    _check(sql, data, parameters, engine)


@pytest.mark.parametrize("sql", NATIVE)
def test_native_shapes_do_not_need_duckdb(sql, engine):
    plan = engine.prepare(sql, CATALOG).plan
    assert isinstance(plan, NativePlan), plan.reason


@pytest.mark.parametrize("sql", GROUPED)
def test_groups_of_few_rows_do_not_need_duckdb(sql, engine):
    plan = engine.prepare(sql, FEW).plan
    assert isinstance(plan, NativePlan), plan.reason
    assert plan.grouping is not None
