"""Syntax trees leave no cycles of objects to the garbage collector."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hornbeam_server.api.rest.authorization import named_in
from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.query.workers.processes import inline_worker
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import HornbeamError, Unsupported
from hornbeam_server.schema.workload import load_query_log
from hornbeam_server.txlayer.statements.write_compiler import compile_write
from tests.query.query_world import make_catalog

CATALOG = make_catalog()
TERMS = 1_000
FEW = 250
"""Maximum number of objects in cycles that a statement of any length may leave: fewer than one for
each of its terms."""
NUMBERS = [str(number) for number in range(TERMS)]
QUERIES = {
    "a list": f"SELECT i_id FROM item WHERE i_id IN ({', '.join(NUMBERS)})",
    "comparisons": "SELECT i_id FROM item WHERE "
    + " OR ".join(f"(i_id = {n} AND i_cost < {n})" for n in NUMBERS[:500]),
    "equalities": "SELECT i_id FROM item WHERE " + " OR ".join(f"i_id = {n}" for n in NUMBERS),
    "a sum": f"SELECT {' + '.join(NUMBERS)} FROM item",
    "differences": f"SELECT {' - '.join(NUMBERS)} FROM item",
    "branches": "SELECT CASE "
    + " ".join(f"WHEN i_id = {n} THEN {n}" for n in NUMBERS)
    + " END FROM item",
    "rows": "VALUES " + ", ".join(f"({n}, '{n}')" for n in NUMBERS),
    "casts": "SELECT " + ", ".join(f"'{n}'::INTEGER c{n}" for n in NUMBERS[:400]),
    "unions": " UNION ALL ".join(["SELECT 1"] * 500),
    "subqueries": "SELECT i_id FROM item WHERE "
    + " OR ".join(f"i_id IN (SELECT l_i_id FROM line WHERE l_qty = {n})" for n in NUMBERS[:60]),
    "a view's join": "SELECT i_title FROM author, item WHERE a_id = i_a_id AND i_id IN "
    f"({', '.join(NUMBERS)})",
    "words that are counted": "SELECT i_id FROM item WHERE i_id NOT IN "
    f"({', '.join(NUMBERS)}) AND i_title SIMILAR TO 'a%'",
    "an unknown name": f"SELECT nowhere + {' + '.join(NUMBERS)} FROM item",
    "an unknown function": f"SELECT nowhere({', '.join(NUMBERS)}) FROM item",
    "a syntax error": f"SELECT {' + '.join(NUMBERS)} FROM FROM",
    "a syntax error in a list": f"SELECT i_id FROM item WHERE i_id IN ({', '.join(NUMBERS)},,)",
    "no query": f"DELETE FROM item WHERE i_id IN ({', '.join(NUMBERS)})",
}
WRITES = {
    "rows": "INSERT INTO author (a_id, a_name) VALUES "
    + ", ".join(f"({n}, 'a' || {n})" for n in NUMBERS),
    "a list": f"DELETE FROM item WHERE i_id IN ({', '.join(NUMBERS)})",
    "a query": "INSERT INTO author (a_id) SELECT i_id FROM item WHERE i_id IN "
    f"({','.join(NUMBERS)})",
    "an expression": f"UPDATE item SET i_cost = i_cost + {' + '.join(NUMBERS)}",
    "a clause that is refused": f"DELETE FROM item WHERE i_id IN ({', '.join(NUMBERS)}) LIMIT 1",
    "values in FROM": "UPDATE item SET i_cost = v.c FROM (VALUES "
    + ", ".join(f"({n}, {n})" for n in NUMBERS)
    + ") AS v(k, c) WHERE i_id = v.k RETURNING i_id, v.c + 1",
    "subqueries": "INSERT INTO author (a_id, a_name) VALUES "
    + ", ".join(f"({n}, (SELECT i_title FROM item WHERE i_id = {n}))" for n in NUMBERS[:60]),
    "parts that write": f"WITH gone AS (DELETE FROM item WHERE i_id IN ({', '.join(NUMBERS)})"
    " RETURNING i_id) SELECT i_id FROM gone",
    "no write": QUERIES["a list"],
}


@pytest.fixture(scope="module")
def frozen() -> Iterator[None]:
    """The collector walks none of the objects that exist before the tests of this module."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def collected(frozen: None) -> Iterator[Callable[[Callable[[], object]], int]]:
    """A function that counts the objects which only the collector frees after some work."""
    gc.disable()
    gc.collect()

    def count(work: Callable[[], object]) -> int:
        work()
        return gc.collect()

    yield count
    gc.enable()


def tried(work: Callable[..., Any], *arguments: object) -> None:
    with contextlib.suppress(HornbeamError):
        work(*arguments)


@pytest.mark.parametrize("sql", QUERIES.values(), ids=QUERIES)
def test_a_query_leaves_no_tree_to_the_collector(collected, sql):
    engine = QueryEngine(new_worker=inline_worker)
    assert collected(lambda: tried(engine.prepare, sql, CATALOG)) < FEW
    assert collected(lambda: tried(named_in, sql, CATALOG)) < FEW
    engine.close()


@pytest.mark.parametrize("sql", WRITES.values(), ids=WRITES)
def test_a_write_leaves_no_tree_to_the_collector(collected, sql):
    engine = QueryEngine(new_worker=inline_worker)
    assert collected(lambda: tried(compile_write, sql, CATALOG, engine)) < FEW
    engine.close()


def test_a_schema_and_a_workload_leave_no_tree_to_the_collector(collected):
    columns = ", ".join(f"c{n} INTEGER DEFAULT {n}" for n in NUMBERS[:400])
    ddl = f"CREATE TABLE t (k INTEGER PRIMARY KEY, {columns})"
    assert collected(lambda: tried(load_ddl, ddl)) < FEW
    assert collected(lambda: tried(load_ddl, f"{ddl[:-1]}, ,)")) < FEW
    log = [f"SELECT a FROM t WHERE b = {n} AND c IN (1, 2, 3)" for n in NUMBERS[:250]]
    assert collected(lambda: tried(load_query_log, log)) < FEW
    assert collected(lambda: tried(load_query_log, [f"SELECT {','.join(NUMBERS)} FROM FROM"])) < FEW


TIMES = 10
FEW_EACH = 80
"""Maximum number of objects in cycles that a statement with TIMES expressions may leave."""
EXPRESSIONS = (
    "sum(i_price) over (order by i_id rows <n> preceding)",
    "sum(i_price + <n>)",
    "sum(distinct i_id + <n>) filter (where i_id > <n>)",
    "avg(i_price * <n>)",
    "count(*) filter (where i_id = <n>)",
    "sum(<n>) over ()",
    "i_price::text || '<n>'",
    "cast(i_price as integer) + <n>",
    "(i_id::text)::double precision + <n>",
    "'<n>'::numeric + i_price",
    "i_title::numeric + <n>",
    "i_title::bytea is null and i_id = <n>",
    "i_pub + <n>",
    "i_pub::text || <n>::text",
    "date_trunc('month', i_pub) is null or i_id = <n>",
    "case i_id when <n> then i_price when 2 then 3.5 else 0 end",
    "coalesce(i_price, <n>, nullif(i_id, <n>))",
    "i_id between <n> and <n> + 5",
    "i_title like '%<n>' escape '!'",
    "i_title similar to 'a<n>%'",
    "i_title ~ 'a<n>'",
    "i_id in (<n>, <n>, 7)",
    "(i_id, i_a_id) in ((<n>, 1), (2, 3))",
    "(select max(l_qty) from line where l_no = <n>)",
    "(select max(l_qty) from line where l_i_id = i_id and l_no = <n>)",
    "exists (select 1 from line where l_i_id = i_id and l_no = <n>)",
    "not exists (select 1 from line where l_i_id = <n>)",
    "i_id in (select l_i_id from line where l_no = <n>)",
    "row_number() over (partition by i_a_id order by i_price desc) + <n>",
    "substring(i_title from <n> for 2)",
    "position('<n>' in i_title)",
    "trim(both 'x' from i_title) || <n>",
    "overlay(i_title placing 'x' from <n>)",
    "encode(i_title::bytea, 'hex') || '<n>'",
    "to_char(i_pub, 'YYYY') || '<n>'",
    "- i_id - <n>",
    "not (i_id = <n>)",
    "i_id is distinct from <n>",
    "i_price % <n>",
    "i_price ^ <n>",
    "1e<n> + i_id",
    "date '2020-01-01' + <n>",
    "timestamp '2020-01-01 00:00:00' is null or i_id = <n>",
    "interval '<n> days' + i_pub",
    "string_agg(i_title, '<n>' order by i_id)",
    "current_date + <n>",
    "now() is null or i_id = <n>",
    "random() + <n>",
    "? + <n>",
    "item.i_id + <n>",
    "list_transform([1, 2], lambda x: x + <n>)",
    "struct_pack(a := <n>)",
    "{'a': <n>}",
    "grouping(i_id) + <n>",
    "ntile(<n>) over (order by i_id)",
    "percentile_cont(0.5) within group (order by i_price + <n>)",
    "sum(sum(i_price)) over (order by <n>)",
    "nosuch(<n>)",
    "interval <n> + 7",
    "i_id::nosuch + <n>",
    "i_price::decimal(1000) + <n>",
    "*",
    "item.*",
    "(item < item) IS NULL OR i_id = <n>",
    "row_to_json(item)::text || <n>",
    "to_jsonb(item)->>'i_id' || <n>",
    "i_id + coalesce(?, <n>)",
    "(i_id)::varchar(<n>) is null",
    "i_id::real + <n>",
    "round(i_price, <n>)",
    "i_id & <n>",
    "i_id << <n>",
    "'a' || i_id || <n>",
    'i_title collate "C" || <n>',
    "i_pub at time zone 'UTC' is null or i_id = <n>",
    "'<n>' < i_id",
    "'2020-01-01' < i_pub and i_id = <n>",
    "i_title < <n>",
    "i_price < <n>.5e1",
    "least(i_id, <n>)",
    "sum(i_id order by i_id) + <n>",
    "max(distinct i_id) + <n>",
)
LEFT_BY_THE_PARSER = (
    "extract(year from i_pub) + <n>",
    "array[<n>, i_id]",
    "i_id = any(array[<n>, 2])",
    "i_title[<n>]",
)
"""sqlglot's parser reads these twice and drops the first result, at most 60 objects each."""
PLACES = {
    "select": "SELECT {listed} FROM item",
    "group": "SELECT i_id, {listed} FROM item GROUP BY i_id",
    "where": "SELECT i_id FROM item WHERE {either}",
    "order": "SELECT i_id FROM item ORDER BY {listed}",
    "having": "SELECT i_a_id FROM item GROUP BY i_a_id HAVING {either}",
    "on": "SELECT i_id FROM author JOIN item ON a_id = i_a_id AND ({either})",
    "with": "WITH w AS (SELECT i_id, {named} FROM item) SELECT * FROM w",
}
WRITTEN_PLACES = {
    "values": "INSERT INTO author (a_id) VALUES {rows}",
    "insert select": "INSERT INTO author (a_id) SELECT {listed} FROM item",
    "update": "UPDATE item SET i_price = coalesce({listed})",
    "delete": "DELETE FROM item WHERE {either}",
    "returning": "DELETE FROM item WHERE i_id = 3 RETURNING {listed}",
    "upsert": "INSERT INTO item (i_id, i_a_id, i_title) VALUES (1, 2, 'x')"
    " ON CONFLICT (i_id) DO UPDATE SET i_price = coalesce({listed})",
}


def placed(place: str, expression: str) -> str:
    each = [expression.replace("<n>", number) for number in NUMBERS[1 : TIMES + 1]]
    return place.format(
        listed=", ".join(each),
        either=" OR ".join(f"({one}) IS NULL" for one in each),
        named=", ".join(f"{one} AS c{number}" for number, one in enumerate(each)),
        rows=", ".join(f"({one})" for one in each),
    )


def planned_and_explained(engine: QueryEngine, sql: str) -> None:
    """Prepare and explain a query, also with parameters that need literals."""
    query = engine.prepare(sql, CATALOG)
    query.explain()
    for value in (1, "x"):
        with contextlib.suppress(HornbeamError):
            query.explain([value] * sql.count("?"))


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions_leave_no_trees_to_the_collector(collected, expression):
    left = left_by(expression, collected)
    assert {place: count for place, count in left.items() if count > FEW_EACH} == {}


@pytest.mark.parametrize("expression", LEFT_BY_THE_PARSER)
def test_expressions_parsed_twice_leave_few_objects(collected, expression):
    left = left_by(expression, collected)
    assert {place: count for place, count in left.items() if count > 60 * TIMES} == {}


def left_by(expression, collected) -> dict[str, int]:
    """Count objects left to the collector by statements, for each place of the expression."""
    engine = QueryEngine(new_worker=inline_worker)
    left = {}
    for name, place in PLACES.items():
        sql = placed(place, expression)
        left[name] = collected(lambda sql=sql: tried(planned_and_explained, engine, sql))
    for name, place in WRITTEN_PLACES.items():
        sql = placed(place, expression)
        left[name] = collected(lambda sql=sql: tried(compile_write, sql, CATALOG, engine))
    engine.close()
    return left


@pytest.mark.parametrize("value", ["list_sum([i_id])", "(SELECT 1)", "coalesce(median(i_id), 1)"])
def test_an_error_shows_the_cast_without_a_known_number_of_digits(value):
    """NUMERIC without precision keeps all digits, where the number of digits is known."""
    engine = QueryEngine(new_worker=inline_worker)
    with pytest.raises(Unsupported, match=r"CAST\(.+ AS DECIMAL\) does not say how many digits"):
        engine.prepare(f"SELECT {value}::NUMERIC FROM item", CATALOG)
    engine.close()
