"""Long chains of one operator and deep nests have bounded depth and keep their meaning."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from typing import Any

import pytest
from sqlglot import exp

from hornbeam_server.query.binding.binder import bind
from hornbeam_server.query.dialect.text_arrays import texts_in
from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.query.parsing.nesting import MAX_NESTING, WIDTH
from hornbeam_server.query.parsing.parse import parse
from hornbeam_server.schema.errors import LimitExceeded, SqlError
from tests.query.query_world import MemoryReader, make_catalog, sample

CATALOG = make_catalog()
READER = MemoryReader(CATALOG, sample())


def depth(tree: exp.Expr) -> int:
    level, found = [tree], 0
    while level:
        level = [child for node in level for child in node.iter_expressions()]
        found += 1
    return found


def terms(n: int, pattern: str, joint: str) -> str:
    return joint.join(pattern.format(i) for i in range(n))


TERMS = 3_000
"""More than Python may recurse."""
CHAINS = {
    "OR": "SELECT i_id FROM item WHERE " + terms(TERMS, "i_id = {}", " OR "),
    "AND": "SELECT i_id FROM item WHERE " + terms(TERMS, "i_id <> {}", " AND "),
    "AND of ORs": "SELECT i_id FROM item WHERE "
    + terms(TERMS, "(i_id = {0} OR i_id <> {0})", " AND "),
    "IN": f"SELECT i_id FROM item WHERE i_id IN ({terms(TERMS, '{}', ', ')})",
    "NOT IN": f"SELECT i_id FROM item WHERE i_id NOT IN ({terms(TERMS, '{}', ', ')})",
    "||": "SELECT " + terms(TERMS, "i_title", " || ") + " FROM item",
    "+": "SELECT " + terms(TERMS, "i_id", " + ") + " FROM item",
    "+ -": "SELECT i_id + " + terms(TERMS // 2, "{0} - {0}", " + ") + " FROM item",
    "*": "SELECT " + terms(TERMS, "1", " * ") + " FROM item",
    "UNION ALL": terms(TERMS, "SELECT {}", " UNION ALL "),
    "CASE": "SELECT CASE i_id " + terms(TERMS, "WHEN {0} THEN {0}", " ") + " END FROM item",
    "COALESCE": f"SELECT COALESCE({terms(TERMS, 'i_a_id', ', ')}, 1) FROM item",
    "VALUES": f"SELECT * FROM (VALUES {terms(TERMS, '({})', ', ')}) AS v(x)",
    "UPDATE": "UPDATE item SET i_a_id = 1 WHERE " + terms(TERMS, "i_id = {}", " OR "),
    "DELETE": "DELETE FROM item WHERE " + terms(TERMS, "i_id = {}", " OR "),
    "INSERT": f"INSERT INTO author (a_id) VALUES {terms(TERMS, '({})', ', ')}",
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_of_many_terms_is_a_shallow_tree(name):
    assert depth(parse(CHAINS[name])) < 4 * WIDTH


def items() -> list[tuple[Any, ...]]:
    return list(READER.data["item"])


def answer(sql: str) -> list[tuple[Any, ...]]:
    engine = QueryEngine()

    async def run() -> list[tuple[Any, ...]]:
        stream = await engine.prepare(sql, CATALOG).run(READER)
        return await stream.all()

    try:
        return asyncio.run(run())
    finally:
        engine.close()


COUNTS = [WIDTH - 1, WIDTH, WIDTH + 1, 2 * WIDTH + 1, WIDTH * WIDTH + 3]


@pytest.mark.parametrize("count", COUNTS)
def test_or_and_and_keep_the_meaning_of_the_chain(count):
    some = terms(count, "i_id = {}", " OR ")
    none = terms(count, "i_id <> {}", " AND ")
    inside = sorted(i for i, *_ in items() if i < count)
    assert answer(f"SELECT i_id FROM item WHERE {some} ORDER BY 1") == [(i,) for i in inside]
    left = sorted(i for i, *_ in items() if i >= count)
    assert answer(f"SELECT i_id FROM item WHERE {none} ORDER BY 1") == [(i,) for i in left]


def test_equalities_of_a_chain_become_one_list_per_column_and_constant_type():
    numbers = terms(WIDTH, "i_id = {}", " OR ")
    texts = terms(WIDTH, "i_title = '{}'", " OR ")
    tree = parse(f"SELECT i_id FROM item WHERE {numbers} OR i_price > 3 OR {texts} OR i_id = 1.5")
    lists = [len(node.expressions) for node in tree.find_all(exp.In)]
    assert lists == [WIDTH, WIDTH]
    assert tree.find(exp.GT)
    assert len(list(tree.find_all(exp.EQ))) == 1


def test_null_is_unknown_in_a_list_as_in_a_chain():
    some = terms(2 * WIDTH, "i_a_id <> {}", " AND ")
    authors = [author for _, author, *_ in items() if author is not None]
    wanted = len([author for author in authors if author >= 2 * WIDTH])
    assert answer(f"SELECT count(*) FROM item WHERE {some}") == [(wanted,)]
    unknown = answer(f"SELECT count(*) FROM item WHERE ({some}) IS NULL")
    assert unknown == [(len(items()) - len(authors),)]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    "frame", ["SELECT i_id, {} FROM item", "SELECT i_id, abs(sqrt(4) * 0 + {}) FROM item"]
)
def test_sums_and_differences_keep_their_signs(count, frame):
    """The frames run in our own loops and in DuckDB."""
    signs = [1 if random.Random(number).random() < 0.5 else -1 for number in range(count)]
    chain = "i_id" + "".join(
        f" {'+' if sign > 0 else '-'} {number}" for number, sign in enumerate(signs)
    )
    change = sum(sign * number for number, sign in enumerate(signs))
    whole = "sqrt" not in frame
    wanted = [(i, i + change if whole else abs(i + change)) for i, *_ in items()]
    assert sorted(answer(frame.format(chain))) == sorted(wanted)


@pytest.mark.parametrize("count", COUNTS)
def test_concatenation_keeps_the_order(count):
    chain = terms(count, "'{}.'", " || ")
    (row, *_) = answer(f"SELECT i_id || {chain} FROM item ORDER BY i_id")
    first = min(i for i, *_ in items())
    assert row == (f"{first}" + "".join(f"{number}." for number in range(count)),)


@pytest.mark.parametrize("count", [WIDTH - 1, WIDTH, 2 * WIDTH + 1, 300])
def test_unions_keep_or_drop_duplicates(count):
    every = terms(count, "SELECT {} % 7 AS x", " UNION ALL ")
    each = terms(count, "SELECT {} % 7 AS x", " UNION ")
    numbers = [number % 7 for number in range(count)]
    assert answer(f"SELECT count(*), sum(x) FROM ({every}) AS u") == [(count, sum(numbers))]
    assert answer(f"SELECT count(*), sum(x) FROM ({each}) AS u") == [(7, 21)]
    ordered = answer(f"{every} ORDER BY x DESC LIMIT 5 OFFSET 1")
    assert ordered == [(x,) for x in sorted(numbers, reverse=True)[1:6]]
    assert answer(f"WITH u AS (SELECT 9 AS x) {each} UNION FROM u ORDER BY 1") == [
        (x,) for x in (*range(7), 9)
    ]


def test_a_recursive_cte_keeps_its_last_part():
    parts = terms(WIDTH + 3, "SELECT {}", " UNION ALL ")
    sql = f"WITH RECURSIVE r(x) AS ({parts} UNION ALL SELECT x + 1000 FROM r WHERE x < 1000) "
    assert answer(sql + "SELECT count(*) FROM r") == [(2 * (WIDTH + 3),)]


NESTS = {
    "brackets": ("SELECT ", "(", "1", ")"),
    "NOT": ("SELECT ", "NOT ", "true", ""),
    "minus": ("SELECT ", "- ", "1", ""),
    "CASE": ("SELECT ", "CASE WHEN true THEN ", "1", " END"),
    "calls": ("SELECT ", "abs(", "1", ")"),
    "subqueries": ("SELECT ", "(SELECT ", "1", ")"),
    "FROM": ("SELECT * FROM ", "(SELECT * FROM ", "item", ")"),
    "lists": ("SELECT ", "[", "1", "]"),
    "structs": ("SELECT ", "{'a': ", "1", "}"),
    "EXISTS": ("SELECT ", "EXISTS (SELECT 1 WHERE ", "true", ")"),
    "casts": ("SELECT ", "CAST(", "1", " AS INT)"),
    "::": ("SELECT ", "", "1", "::INT"),
    "subscripts": ("SELECT ", "", "x", "[1]"),
    "IS NULL": ("SELECT ", "", "1", " IS NULL"),
    "=": ("SELECT ", "", "1", " = 1"),
    "/": ("SELECT ", "", "1", " / 2"),
    "INTERVAL": ("SELECT ", "INTERVAL ", "'1' DAY", ""),
    "joins": ("SELECT * FROM ", "item JOIN ", "item", " ON true"),
    "EXCEPT": ("", "", "SELECT 1", " EXCEPT SELECT 2"),
}


@pytest.mark.parametrize("count", [1_200, 20_000])
@pytest.mark.parametrize("name", NESTS)
def test_deep_nests_are_refused_with_a_cure(name, count):
    head, left, inner, right = NESTS[name]
    text = head + left * count + inner + right * count
    began = time.process_time()
    with pytest.raises((SqlError, LimitExceeded)) as raised:
        bind(text, CATALOG)
    assert raised.value.cure or "characters" in raised.value.message
    assert time.process_time() - began < 10


LONG = {
    "SHOW": "SHOW a" + " " * 4_000 + "b",
    "FOR UPDATE": "SELECT i_id FROM item WHERE i_id IN (" + "1, " * 10_000 + "1) FOR UPDATE",
}
"""Statements whose parts could be looked through again and again."""


@pytest.mark.parametrize("name", LONG)
def test_long_statements_are_read_in_linear_time(name: str) -> None:
    began = time.process_time()
    with contextlib.suppress(SqlError, LimitExceeded):
        bind(LONG[name], CATALOG)
    assert time.process_time() - began < 5


def test_a_long_array_of_texts_is_read_in_linear_time() -> None:
    began = time.process_time()
    assert texts_in("{a" + " " * 100_000 + "{}") is None
    found = texts_in("{" + "a, " * 200_000 + "b}")
    assert found is not None
    assert len(found) == 200_001
    assert time.process_time() - began < 5


@pytest.mark.parametrize("name", ["brackets", "NOT", "minus", "CASE", "calls", "casts"])
def test_nests_within_the_limit_are_answered_from_a_deep_stack(name):
    head, left, inner, right = NESTS[name]
    text = head + left * MAX_NESTING + inner + right * MAX_NESTING

    def deep(levels: int) -> None:
        if levels:
            deep(levels - 1)
        else:
            answer(text)

    deep(400)
