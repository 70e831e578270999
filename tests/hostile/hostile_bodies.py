"""Hostile texts, bodies and schemas: long, deep, wide, or of wrong types.

Each item has its label in the report, and a function that generates it from random numbers.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.hostile.hostile_requests import (
    ARROW,
    CSV,
    JSON,
    LOAD,
    PLAN,
    QUERY,
    TRANSACT,
    VERIFY,
    as_json,
    size,
)

Text = tuple[str, Callable[[random.Random], str]]

Body = tuple[str, str, Callable[[random.Random], bytes], str]
"""Label, route, generator and content type."""


def _in_list(rng: random.Random, column: str) -> str:
    numbers = ",".join(map(str, range(size(rng, 1_000, 140_000))))
    return f"select count(*) from player where {column} in ({numbers})"


def _chain(rng: random.Random, operator: str, term: str) -> str:
    return f"select count(*) from player where {operator.join([term] * size(rng, 100, 40_000))}"


def _nested(rng: random.Random, before: str, inmost: str, after: str) -> str:
    depth = rng.choice([400, 10_000, size(rng, 100, 100_000)])
    depth = min(depth, 950_000 // len(before + after))
    return "select " + before * depth + inmost + after * depth


def _subqueries(rng: random.Random) -> str:
    depth = size(rng, 10, 30_000)
    return "select * from (" * depth + "select 1 as x" + ")" * depth


def _unions(rng: random.Random) -> str:
    return " union all ".join(["select p_id from player"] * size(rng, 10, 20_000))


def _withs(rng: random.Random) -> str:
    """Each CTE reads the previous one twice, so that the expanded text doubles with each CTE."""
    depth = size(rng, 10, 2_000)
    parts = [f"a{n} as (select * from a{n - 1} union all select * from a{n - 1})"
             for n in range(1, depth)]  # fmt: skip
    return "with " + ", ".join(["a0 as (select 1 as x)", *parts]) + f" select * from a{depth - 1}"


def _relations(rng: random.Random, least: int, most: int) -> str:
    return ", ".join(f"player p{n}" for n in range(size(rng, least, most)))


def _joins(rng: random.Random) -> str:
    count = size(rng, 4, 60)
    on = " and ".join(f"p{n}.p_id = p{n - 1}.p_g_id" for n in range(1, count))
    return f"select count(*) from {', '.join(f'player p{n}' for n in range(count))} where {on}"


def _exists(rng: random.Random) -> str:
    depth = size(rng, 5, 3_000)
    inner = "exists (select 1 from game where m_id = 1 and " * depth
    return f"select count(*) from player where {inner}true{')' * depth}"


def _windows(rng: random.Random) -> str:
    columns = ", ".join(
        f"sum(p_points) over (order by p_id rows {n} preceding)"
        for n in range(size(rng, 10, 10_000))
    )
    return f"select {columns} from player"


def _cube(rng: random.Random) -> str:
    columns = ", ".join(f"p_id % {n}" for n in range(2, 2 + size(rng, 2, 24)))
    return f"select count(*) from player group by cube ({columns})"


TEXTS: tuple[Text, ...] = (
    ("select 1, 1, 1, …", lambda r: "select " + "1," * size(r, 1_000, 490_000) + "1"),
    ("where p_id in (1, 2, 3, …)", lambda r: _in_list(r, "p_id")),
    ("where p_points in (1, 2, 3, …)", lambda r: _in_list(r, "p_points")),
    ("where a or a or …", lambda r: _chain(r, " or ", "p_id = 7")),
    ("where a and a and …", lambda r: _chain(r, " and ", "p_name <> 'x'")),
    ("select 1 + 1 + …", lambda r: "select " + "+".join(["1"] * size(r, 100, 100_000))),
    ("select 'x' || 'x' || …", lambda r: "select " + "||".join(["'x'"] * size(r, 100, 100_000))),
    ("select ((((…1…))))", lambda r: _nested(r, "(", "1", ")")),
    ("select not not … true", lambda r: _nested(r, "not ", "true", "")),
    ("select - - … 1", lambda r: _nested(r, "- ", "1", "")),
    ("select case when … end", lambda r: _nested(r, "case when true then ", "1", " end")),
    ("select abs(abs(…))", lambda r: _nested(r, "abs(", "1", ")")),
    ("select [[[…]]]", lambda r: _nested(r, "[", "1", "]")),
    ("select * from (select * from (…))", _subqueries),
    ("select 1 union all select 1 …", _unions),
    ("with a0 as (…), a1 as (…) …", _withs),
    ("an identifier of a megabyte", lambda r: f'select 1 as "{"é" * size(r, 100, 400_000)}"'),
    ("a name of many parts", lambda r: "select " + "a." * size(r, 10, 300_000) + "a from player"),
    ("a text of a megabyte", lambda r: f"select '{'x' * size(r, 1_000, 900_000)}'"),
    ("a comment of a megabyte", lambda r: "select 1 /* " + "/* " * size(r, 1_000, 300_000)),
    ("an open quote", lambda r: "select '" + "''" * size(r, 1_000, 400_000)),
    ("a number of many digits", lambda r: "select " + "9" * size(r, 100, 900_000)),
    ("1e999999999", lambda r: f"select 1e{size(r, 300, 10**9)}::decimal(38, 0)"),
    ("many question marks", lambda r: "select " + "?," * size(r, 1_000, 300_000) + "?"),
    ("many relations", lambda r: "select count(*) from " + _relations(r, 2, 300)),
    ("a join of many", _joins),
    ("exists (… exists (…))", _exists),
    ("many windows", _windows),
    ("semicolons", lambda r: "select 1" + ";" * size(r, 1_000, 900_000)),
    ("grouping sets", _cube),
)


def _many(rng: random.Random, before: str, each: str, after: str, most: int) -> bytes:
    return (before + ",".join([each] * size(rng, 1_000, most)) + after).encode()


QUERY_MEMBERS = (
    *("sql", "parameters", "bookmark", "consistency", "snapshot", "max_rows", "timeout_ms"),
    *("replay", "pending", "trace", "use_views", "max_staleness_ms"),
)
WRITE_MEMBERS = (
    *("statements", "preconditions", "reads", "bookmark", "replay", "dry_run", "timeout_ms"),
)
PLAN_MEMBERS = ("ddl", "workload", "roots", "method", "budget", "row_counts", "query_log")


def _members(rng: random.Random) -> bytes:
    members = (f'"m{n}": {n}' for n in range(size(rng, 1_000, 500_000)))
    return ('{"sql": "select 1", ' + ", ".join(members) + "}").encode()


def _row_counts(rng: random.Random) -> bytes:
    counts = {f"r{n}": -1 for n in range(size(rng, 1_000, 300_000))}
    return as_json({"ddl": "create table t (a integer primary key)", "row_counts": counts})


def _deep(rng: random.Random) -> bytes:
    depth = size(rng, 100, 1_000_000)
    return b'{"sql": "select ?", "parameters": [' + b"[" * depth + b"]" * depth + b"]}"


def _wrong(rng: random.Random, members: Sequence[str]) -> dict[str, Any]:
    values = (
        *(None, True, -1, 0, 1.5, 2**63, 10**400, "", "x", "x" * 100_000),
        *([], {}, [[]], [{}] * 1_000, {"sql": 7}, [{"sql": "x", "parameters": {"a": []}}] * 100),
        *({str(n): n for n in range(10_000)}, [None] * 100_000),
    )
    return {name: rng.choice(values) for name in members}


BODIES: tuple[Body, ...] = (
    ("pending: {}, {}, …", QUERY,
     lambda r: _many(r, '{"sql": "select 1", "pending": [', "{}", "]}", 2_000_000), JSON),
    ("statements: {}, {}, …", TRANSACT,
     lambda r: _many(r, '{"statements": [', "{}", "]}", 2_000_000), JSON),
    ("statements: 7, 7, …", TRANSACT,
     lambda r: _many(r, '{"statements": [', "7", "]}", 3_000_000), JSON),
    ("statements that are right, many", TRANSACT,
     lambda r: _many(r, '{"statements": [', '{"sql": "delete from scratch where s_id = -1"}',
                     "]}", 50_000), JSON),
    ("pending that is right, many", QUERY,
     lambda r: _many(r, '{"sql": "select * from scratch where s_id = 7", "pending": [',
                     '{"sql": "delete from scratch where s_id = -1"}', "]}", 50_000), JSON),
    ("parameters: 1, 1, …", QUERY,
     lambda r: _many(r, '{"sql": "select 1", "parameters": [', "1", "]}", 5_000_000), JSON),
    ("parameters: [], [], …", QUERY,
     lambda r: _many(r, '{"sql": "select 1", "parameters": [', "[]", "]}", 2_000_000), JSON),
    ("reads: [], [], …", TRANSACT,
     lambda r: _many(r, '{"statements": [{"sql": "x"}], "reads": [', "[]", "]}", 2_000_000), JSON),
    ("preconditions: {}, …", TRANSACT,
     lambda r: _many(r, '{"statements": [{"sql": "x"}], "preconditions": [', "{}", "]}",
                     2_000_000), JSON),
    ("replay: numbers that are none", TRANSACT,
     lambda r: _many(r, '{"statements": [{"sql": "x"}], "replay": {"now": 1, "numbers": [',
                     "[1]", "]}}", 1_000_000), JSON),
    ("unknown members, many", QUERY, _members, JSON),
    ("one member many times", QUERY, lambda r: _many(r, "{", '"sql": "x"', "}", 1_000_000), JSON),
    ("[[[[…", QUERY, lambda r: b"[" * size(r, 1_000, 10_000_000), JSON),
    ('{"a":{"a":…', QUERY, lambda r: b'{"a":' * size(r, 1_000, 2_000_000), JSON),
    ("a deep parameter", QUERY, _deep, JSON),
    ("a number of many digits", QUERY,
     lambda r: b'{"sql": "select ?", "parameters": [' + b"9" * size(r, 100, 10_000_000) + b"]}",
     JSON),
    ("1e999999", QUERY, lambda r: b'{"sql": "select 1", "timeout_ms": 1e999999}', JSON),
    ("invalid UTF-8", QUERY, lambda r: b'{"sql": "' + b"\xff\xfe" * size(r, 10, 400_000) + b'"}',
     JSON),
    ("half surrogates", QUERY, lambda r: b'{"sql": "' + b"\\ud800" * size(r, 10, 100_000) + b'"}',
     JSON),
    ("zero bytes", QUERY, lambda r: bytes(size(r, 10, 10_000_000)), JSON),
    ("noise", QUERY, lambda r: r.randbytes(size(r, 10, 2_000_000)), JSON),
    ("wrong types", QUERY, lambda r: as_json(_wrong(r, QUERY_MEMBERS)), JSON),
    ("wrong types", TRANSACT, lambda r: as_json(_wrong(r, WRITE_MEMBERS)), JSON),
    ("wrong types", PLAN, lambda r: as_json(_wrong(r, PLAN_MEMBERS)), JSON),
    ("names: 7, 7, …", VERIFY, lambda r: _many(r, '{"names": [', "7", "]}", 2_000_000), JSON),
    ("names that are unknown, many", VERIFY,
     lambda r: _many(r, '{"names": [', '"unknown"', "]}", 500_000), JSON),
    ("row_counts, many", PLAN, _row_counts, JSON),
    ("keys of another form, many", "/v1/repair/player_name",
     lambda r: _many(r, '{"keys": [', "7", "]}", 2_000_000), JSON),
    ("JSON as CSV", QUERY, lambda r: b'{"sql": "select 1"}', CSV),
    ("JSON as nothing", TRANSACT, lambda r: b'{"statements": []}' * 1_000, "x/" + "y" * 1_000),
    ("CSV with many columns", LOAD,
     lambda r: b"s_id" + b",s_text" * size(r, 100, 1_000_000) + b"\n1\n", CSV),
    ("CSV with a long field", LOAD,
     lambda r: b's_id,s_text\n1,"' + b"x" * size(r, 1_000, 20_000_000), CSV),
    ("CSV with many bad rows", LOAD,
     lambda r: b"s_id,s_number\n" + b"x,y\n" * size(r, 1_000, 3_000_000), CSV),
    ("CSV with many empty lines", LOAD,
     lambda r: b"s_id\n" + b"\n" * size(r, 1_000, 10_000_000), CSV),
    ("noise as Arrow", LOAD, lambda r: b"\xff\xff\xff\xff\xff\xff\xff\x7f" + r.randbytes(100_000),
     ARROW),
)  # fmt: skip

TABLE = "create table t{n} (a{n} integer primary key, b{n} integer references t{m} (a{m}), c text);"


def tables(count: int) -> str:
    first = "create table t0 (a0 integer primary key, b0 integer, c text);\n"
    return first + "\n".join(TABLE.format(n=n, m=(n - 1) // 2) for n in range(1, count))


def plan_of(ddl: str, workload: str = "") -> dict[str, Any]:
    return {"ddl": ddl, "workload": workload, "roots": None}


def _chain_of_joins(rng: random.Random) -> dict[str, Any]:
    count = size(rng, 4, 17)
    queries = []
    for _ in range(size(rng, 1, 30)):
        last = rng.randrange(1, count)
        path = [last]
        while path[-1]:
            path.append((path[-1] - 1) // 2)
        names = ", ".join(f"t{n}" for n in path)
        joins = [f"b{n} = a{m}" for n, m in itertools.pairwise(path)]
        queries.append(f"select * from {names} where {' and '.join([*joins, f'a{last} = ?'])}")
    return plan_of(tables(count), ";\n".join(queries) + ";")


def _star_of_joins(rng: random.Random) -> dict[str, Any]:
    count = size(rng, 4, 17)
    columns = ", ".join(f"r{n} integer references d{n} (k{n})" for n in range(count))
    ddl = "\n".join(f"create table d{n} (k{n} integer primary key, v{n} text);"
                    for n in range(count))  # fmt: skip
    ddl += f"\ncreate table fact (f integer primary key, {columns});"
    names = ", ".join(f"d{n}" for n in range(count))
    joins = " and ".join(f"r{n} = k{n}" for n in range(count))
    return plan_of(ddl, f"select * from fact, {names} where {joins} and v0 = ?;")


SCHEMAS: tuple[tuple[str, Callable[[random.Random], dict[str, Any]]], ...] = (
    ("chains of joins", _chain_of_joins),
    ("a star of joins", _star_of_joins),
    ("many tables", lambda r: plan_of(tables(size(r, 10, 3_000)))),
    ("many columns", lambda r: plan_of(
        "create table t (k integer primary key, "
        + ", ".join(f"c{n} text" for n in range(size(r, 100, 20_000))) + ");")),
    ("a table that references all", lambda r: plan_of(
        tables(50) + "create table w (k integer primary key, "
        + ", ".join(f"r{n} integer references t{n % 50} (a{n % 50})"
                    for n in range(size(r, 10, 500))) + ");")),
    ("CHECK", lambda r: plan_of(
        f"create table t (k integer primary key, c text check (length(repeat(c, {10**9})) > 1));")),
    ("DEFAULT", lambda r: plan_of(
        "create table t (k integer primary key,"
        f" c text default repeat('x', {size(r, 10**6, 10**9)}));")),
    ("DEFAULT ((((…))))", lambda r: plan_of(
        f"create table t (k integer primary key, c integer default {_nested(r, '(', '1', ')')[7:]}"
        ");")),
    ("a workload of a text that is deep", lambda r: plan_of(
        tables(3), _nested(r, "(", "1", ")") + " from t0;")),
    ("a workload of many statements", lambda r: plan_of(
        tables(5), "select c from t1 where a1 = ?;\n" * size(r, 10, 5_000))),
    ("a query log of many lines", lambda r: plan_of(tables(3)) | {
        "query_log": "select c from t1 where a1 = 1\n" * size(r, 10, 30_000)}),
    ("an index on all columns, many times", lambda r: plan_of(
        tables(2) + "\n".join(f"create index i{n} on t1 (c, b1, a1);"
                               for n in range(size(r, 10, 3_000))))),
    ("a cycle of foreign keys", lambda r: plan_of(
        "create table x (a integer primary key, b integer references y (a));"
        "create table y (a integer primary key, b integer references x (a));")),
    ("noise", lambda r: plan_of("create table " + "((,;'\"" * size(r, 10, 100_000))),
)  # fmt: skip
