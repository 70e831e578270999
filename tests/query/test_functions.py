"""Law: a function is evaluated with all its arguments, or refused by name.

The tests check every function of DuckDB's catalogue with each number of arguments, and every name
that the parser's library knows. DuckDB's answer to the original text equals its answer to the
generated text, and the value in a write; or all of them refuse the call.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from hornbeam_server.query.dialect.arrays import NAMES
from hornbeam_server.query.dialect.catalogue import VOLATILE
from hornbeam_server.query.dialect.duckdb_sql import duckdb_sql
from hornbeam_server.query.dialect.duckdb_types import column_type, from_record_batch
from hornbeam_server.query.dialect.functions import makes_or_takes_rows
from hornbeam_server.query.dialect.session import SESSION
from hornbeam_server.query.dialect.templates import RENAMED, TEMPLATES
from hornbeam_server.query.dialect.value_functions import CALLED
from hornbeam_server.query.expressions import compile_expression
from hornbeam_server.query.parsing.parse import OF_SERVER, parse
from hornbeam_server.schema.errors import HornbeamError, SqlError, Unsupported
from hornbeam_server.schema.model import Column
from hornbeam_server.schema.types import ColumnType, Kind
from tests.duckdb_oracle import connect
from tests.query.query_world import evaluated, evaluated_all

VALUES = {
    "ANY": "7", "T": "7", "ANY[]": "[3, 1, 2]", "T[]": "[3, 1, 2]", "VARCHAR": "'2 b'",
    "VARCHAR[]": "['b', 'a']", "BIGINT": "3", "INTEGER": "2", "SMALLINT": "2::SMALLINT",
    "TINYINT": "2::TINYINT", "HUGEINT": "3::HUGEINT", "DOUBLE": "0.5::DOUBLE", "FLOAT": "0.5",
    "DECIMAL": "1.5", "BOOLEAN": "true", "DATE": "DATE '2024-05-06'",
    "TIMESTAMP": "TIMESTAMP '2024-05-06 07:08:09.123'", "TIME": "TIME '07:08:09'",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ '2024-05-06 07:08:09+00'",
    "INTERVAL": "INTERVAL '1' DAY", "BLOB": "'ab'::BLOB", "BIT": "'101'::BIT",
    "JSON": """'{"a": [1, 2]}'::JSON""", "UUID": "'00000000-0000-0000-0000-000000000001'::UUID",
    "LAMBDA": "lambda x: x", "MAP": "MAP {'a': 1}", "STRUCT": "{'a': 1}", "DOUBLE[]": "[0.5, 1]",
    "MAP(K, V)": "MAP {'a': 1}", "K": "'a'", "V": "1",
}  # fmt: skip
GENERIC = (("'2 b'", "2", "3"), ("7", "3"))
TRANSLATED = {
    *({name for name, _ in TEMPLATES} - {"date_trunc"}), *RENAMED, *SESSION, *CALLED,
    *(name for name, _ in NAMES), "array_to_string", "generate_series", "make_interval",
    "normalize", "date_part", "format", "json_extract_path", "json_extract_path_text",
    "json_object",
    "regexp_matches", "regexp_replace", "regexp_split_to_table", "sum", "to_hex", "to_number",
    "to_timestamp", "current_localtime", "current_localtimestamp", "current_schema",
    "pg_conf_load_time", "pg_postmaster_start_time",
}  # fmt: skip
"""Names with PostgreSQL's meaning instead of DuckDB's (tested separately below), and clocks."""
KEYWORDS = re.compile(
    r"(apply|case|cast|try_cast|extract|trim|map|columns|position|overlay|any|all|some|exists|not|unnest"
    r"|list|array|struct|row|union|enum|null|interval|substring|grouping|.*glob)"
)
"""Names that are not parsed as plain calls."""


NAMED = {"alias"}
"""Functions whose value is the name of an expression."""


def _catalogue() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield every function with the arguments of its signatures, and with generic arguments."""
    with connect() as database:
        rows = database.sql(
            "SELECT DISTINCT function_name, function_type, parameter_types, parameters, varargs"
            " FROM duckdb_functions() WHERE function_type IN ('scalar', 'macro', 'aggregate')"
            " AND regexp_full_match(function_name, '[a-z][a-z0-9_]*')"
            " AND NOT regexp_matches(function_name, '^(icu_|collate_|hornbeam_)')"
            " ORDER BY ALL"
        ).fetchall()
    for name, _, types, parameters, varargs in rows:
        known = types or ["ANY"] * len(parameters)
        if all(type_ is None for type_ in known):
            known = ["VARCHAR"] * len(known)
        arguments = tuple(VALUES.get(type_ or "ANY", "7") for type_ in known)
        yield name, arguments
        if varargs:
            more = VALUES.get(varargs, "7")
            yield name, (*arguments, more)
            yield name, (*arguments, more, more)
    for name in sorted({name for name, *_ in rows}):
        for generic in GENERIC:
            for count in range(len(generic) + 1):
                yield name, generic[:count]


def _calls() -> list[str]:
    kept = (
        f"{name}({', '.join(arguments)})"
        for name, arguments in _catalogue()
        if name not in {*TRANSLATED, *NAMED}
        and name not in VOLATILE
        and not OF_SERVER.fullmatch(name)
        and not KEYWORDS.fullmatch(name)
    )
    return list(dict.fromkeys(kept))


def _answer(database: duckdb.DuckDBPyConnection, sql: str) -> str | None:
    """Return types and rows as one text; None if DuckDB refuses the query."""
    try:
        relation = database.sql(sql)
        return f"{relation.types} {relation.fetchall()!r}"
    except (duckdb.Error, OverflowError, ValueError):
        return None


def _with_integers(answer: str | None) -> str | None:
    """An answer in which SMALLINT is INTEGER, as a cast to SMALLINT is, and as clients see it."""
    if answer is None:
        return None
    types, bracket, rows = answer.partition("] ")
    return types.replace("SMALLINT", "INTEGER") + bracket + rows


def _written(sql: str) -> str | None:
    try:
        return duckdb_sql(parse(sql))
    except SqlError:
        return None


@pytest.fixture(scope="module")
def database():
    with connect(threads=1) as database:
        yield database


def test_every_function_of_the_catalogue_is_evaluated_as_it_is_written(database):
    wrong, answered = [], 0
    for call in _calls():
        raw = _answer(database, f"SELECT {call}")
        written = _written(f"SELECT {call}")
        ours = None if written is None else _answer(database, written)
        answered += ours is not None
        if _with_integers(ours) != _with_integers(raw):
            wrong.append((call, raw, written, ours))
    assert not wrong
    assert answered > 1500


def _value(database: duckdb.DuckDBPyConnection, call: str) -> Any:
    """Return DuckDB's value, converted to ours; raises an error if it has no equivalent."""
    relation = database.sql(f"SELECT {call}")
    types = [column_type(type_) for type_ in relation.types]
    (batch,) = relation.to_arrow_table().to_batches()
    return from_record_batch(batch, types)[0][0]


class _NoNames:
    def resolve(self, column: exp.Column) -> Any:
        raise AssertionError(column)

    def parameter_type(self, name: int | str) -> None:
        return None


def test_a_value_of_a_write_equals_the_functions_result(database):
    """Our loops, where they support the call, and DuckDB compute the value."""
    wanted: dict[str, Any] = {}
    for call in _calls():
        if not makes_or_takes_rows(exp.Anonymous(this=call.partition("(")[0])):
            with contextlib.suppress(duckdb.Error, HornbeamError, OverflowError, ValueError):
                wanted[call] = _value(database, call)
    nodes = {call: parse(f"SELECT {call}").expressions[0].unalias() for call in wanted}

    values = evaluated_all([(node, (), [()]) for node in nodes.values()])
    found = {call: value for call, (value,) in zip(nodes, values, strict=True)}
    assert {call: repr(v) for call, v in found.items()} == {c: repr(v) for c, v in wanted.items()}
    loops = {call: compile_expression(node, _NoNames()) for call, node in nodes.items()}
    computed = {call: each((), ()) for call, each in loops.items() if each is not None}
    assert {call: repr(value) for call, value in computed.items()} == {
        call: repr(wanted[call]) for call in computed
    }
    assert len(found) > 800
    assert len(computed) > 20


def _names() -> list[str]:
    """Return every name under which the parser's library knows a function."""
    parser: Any = DuckDB.Parser
    names = {*parser.FUNCTIONS, *parser.FUNCTION_PARSERS, *exp.FUNCTION_BY_NAME}
    known = (name.lower() for name in names)
    no_call = re.compile(f"{KEYWORDS.pattern}|{OF_SERVER.pattern}")
    return sorted(name for name in known if not no_call.fullmatch(name) and name not in TRANSLATED)


ALIASES = {"substr": "substring", "today": "current_date"}
NO_CALLS = {"and", "or", "read_csv", "read_parquet"}


def test_every_known_name_keeps_its_arguments_in_order():
    for name, count in itertools.product(_names(), range(6)):
        if (name, count) == ("date_trunc", 3):
            continue  # with a zone, which DuckDB does not take
        arguments = ", ".join(["'k'", "12", "13", "14", "15"][:count])
        sql = f"SELECT {name}({arguments})"
        if name in NO_CALLS:
            assert _written(sql) is None
            continue
        (call,) = parse(sql).expressions
        shown = call.unalias().sql("duckdb", normalize_functions="lower").lower()
        written = {f"{name}({arguments})", f"{ALIASES.get(name, name)}({arguments})"}
        assert shown.removesuffix("()") in {text.removesuffix("()") for text in written}


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("to_char(timestamp '2024-05-06 07:08', 'YYYY-MM')", "2024-05"),
        ("to_char(date '2024-05-06', 'Dy, DD Mon YYYY')", "Mon, 06 May 2024"),
        ("to_char(date '2024-05-06', 'FMDay FMDD. FMMonth yyyy')", "Monday 6. May 2024"),
        ("to_char(timestamp '2024-05-06 17:08:09.12', 'HH12:MI:SS.MS PM')", "05:08:09.120 PM"),
        ("to_char(timestamp '2024-05-06 17:08:09.12', 'YYYYMMDD\"T\"HH24MISS.US')",
         "20240506T170809.120000"),
        ("to_char(date '2024-12-30', 'IYYY-IW-ID DDD 100%')", "2025-01-1 365 100%"),
        ("to_char(date '2024-12-30', 'IYYY-IW-ID, DDD %')", "2025-01-1, 365 %"),
        ("to_char(5, '999')", "   5"),
        ("to_char(date '2024-05-06', 'Month') || '|'", "May      |"),
        ("to_char(date '2024-05-06', 'DDTHH24')", "06THH24"),
        ("CAST(to_date('06.05.2024', 'DD.MM.YYYY') AS TEXT)", "2024-05-06"),
        ("CAST(to_timestamp('2024', 'YYYY') AS TEXT)", "2024-01-01 00:00:00+00"),
        ("CAST(to_number('12', '99') AS TEXT)", "12"),
        ("format('Hello %I', 'X')", 'Hello "X"'),
        ("CAST('a%' SIMILAR TO 'a!%' ESCAPE '!' AS TEXT)", "true"),
        ("""json_extract_path_text('{"a":{"b":2}}', 'a', 'b')""", "2"),
        ("""json_extract_path_text('{"a":[1,{"$.c":2}]}', 'a', '1', '$.c')""", "2"),
        ("""json_extract_path('{"a.b":1,"a":{"b":2}}', 'a.b')""", "1"),
        ("""'{"a":{"b":[5,6]}}'::json #>> '{a,b,1}'""", "6"),
        ("""'{"a,b":{"":[5,6]}}'::json #> '{"a,b",""}'""", "[5,6]"),
        ("""'{"a":{"b":[5,6]}}'::json #>> ARRAY['a', 'b']""", "[5,6]"),
        ("""'{"a":1}'::json #>> '{}'""", '{"a":1}'),
        ("'[10,20,30]'::json -> 0 + 1", "20"),
        ("to_hex(255)", "ff"),
        ("format('%s: %s%%', 'a', 5)", "a: 5%"),
        ("substring('abcdef', -1, 4)", "ab"),
        ("substring('foobar' FROM 'o(.)b')", "o"),
        ("CAST(extract(second FROM timestamp '2024-05-06 07:08:09.25') AS TEXT)", "9.250000"),
        ("CAST(date_part('milliseconds', timestamp '2024-05-06 07:08:09.25') AS TEXT)", "9250"),
        ("CAST(INTERVAL '1 year 2 mons 3 days 04:05:06.7' AS TEXT)",
         "1 year 2 mons 3 days 04:05:06.7"),
        ("CAST(INTERVAL 'P1Y2M3DT4H5M6S' AS TEXT)", "1 year 2 mons 3 days 04:05:06"),
        ("CAST(- INTERVAL '1 day' AS TEXT)", "-1 days"),
        ("CAST(1e15 * 1.5 AS TEXT)", "1500000000000000.0"),
        ("CAST(1e15::DOUBLE PRECISION * 1.5 AS TEXT)", "1.5e+15"),
        ("CAST(1e2 AS TEXT)", "100"),
        ("CAST('a%c' LIKE 'a\\%c' AND 'abc' NOT LIKE 'a\\%c' AS TEXT)", "true"),
        ("DATE '2024-02-29'::TEXT", "2024-02-29"),
        ("initcap('hello wORLD-x')", "Hello World-X"),
        ("CAST((NULL, 1) IS NULL OR (NULL, NULL) IS NULL AS TEXT)", "true"),
        ("CAST(date_trunc('century', DATE '2000-12-31') AS TEXT)", "1901-01-01 00:00:00"),
        ("CAST(E'a\\nb' ~ 'a.b' AS TEXT)", "true"),
        ("E'\\u00e4\\t\\U0001f600\\uD83D\\uDE00\\'\\\\u'", "ä\t😀😀'\\u"),
        ("to_hex(-1)", "ffffffff"),
        ("to_hex(-1::bigint)", "ffffffffffffffff"),
        ("CAST('abc' SIMILAR TO 'a%' AS TEXT)", "true"),
        ("CAST('a.c' SIMILAR TO 'a.c' AND 'abc' NOT SIMILAR TO 'a.c' AS TEXT)", "true"),
        ("CAST('xaby' SIMILAR TO '%(a|b)+_' AS TEXT)", "true"),
        ("CAST('xyz' SIMILAR TO '[^x]%' AS TEXT)", "false"),
        ("CAST(extract(dow FROM date '2024-05-05') AS TEXT)", "0"),
    ],
)  # fmt: skip
def test_translated_functions_have_postgresqls_meaning(database, value, wanted):
    written = _written(f"SELECT {value}")
    if wanted is None:
        assert written is None
        return
    assert written is not None
    assert database.sql(written).fetchall() == [(wanted,)]
    assert evaluated(parse(f"SELECT {value}").expressions[0].unalias(), (), [()]) == [wanted]


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("json_extract_path_text('{}')", "json_extract_path_text"),
        ("json_extract_path_text('{}', lower('A'))", "json_extract_path_text"),
        ("string_agg('a') WITHIN GROUP (ORDER BY 1)", "WITHIN GROUP"),
        ("(SELECT 1 FOR UPDATE NOWAIT)", "NOWAIT"),
        ("(SELECT DISTINCT 1 ORDER BY 1 FETCH FIRST 1 ROWS WITH TIES)", "WITH TIES"),
        ("array_agg(1 IGNORE NULLS)", "IGNORE"),
        ("CAST('a' AS DATE FORMAT 'YYYY')", "FORMAT"),
        ("(SELECT 1 LIMIT 10%)", "%"),
    ],
)
def test_functions_without_an_exact_translation_are_refused_by_name(value, name):
    with pytest.raises(Unsupported) as raised:
        parse(f"SELECT {value}")
    assert name in str(raised.value)
    assert raised.value.cure


@pytest.mark.parametrize(
    ("sql", "left"),
    [
        ("SELECT a FROM t LIMIT 1 FOR UPDATE", "SELECT a FROM t LIMIT 1"),
        ("SELECT a FROM t x, u FOR NO KEY UPDATE OF x, u", "SELECT a FROM t AS x, u"),
        ("SELECT a FROM t FOR SHARE FOR KEY SHARE OF t", "SELECT a FROM t"),
        ("SELECT a FROM t WHERE substring(a FOR 3) = 'x'", None),
        ("SELECT * FROM (SELECT a FROM t FOR UPDATE) s", "SELECT * FROM (SELECT a FROM t) AS s"),
    ],
)
def test_locking_clauses_are_taken_out(sql, left):
    tree = parse(sql)
    assert bool(tree.meta.get("locking")) == (left is not None)
    assert left is None or tree.sql("duckdb") == left


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("SELECT a FROM t FOR UPDATE SKIP LOCKED", "SKIP LOCKED"),
        ("SELECT DISTINCT a FROM t FOR UPDATE", "DISTINCT"),
        ("SELECT a FROM t GROUP BY a FOR UPDATE", "GROUP BY"),
        ("SELECT max(a) FROM t FOR UPDATE", "aggregates"),
        ("SELECT row_number() OVER () FROM t FOR SHARE", "window functions"),
        ("SELECT a FROM t UNION SELECT 1 FOR UPDATE", "UNION"),
        ("SELECT a FROM t FOR UPDATE OF other", "other"),
        ("DELETE FROM t WHERE a IN (SELECT a FROM t FOR UPDATE)", "writes"),
    ],
)
def test_locking_clauses_without_a_meaning_are_refused_by_name(sql, name):
    with pytest.raises(SqlError, match=name) as raised:
        parse(sql)
    assert raised.value.cure


@pytest.mark.parametrize("call", ["regexp_replace('a-b-c', '-', '+', 1, 0, 'g', 2)",
                                  "round(1.5, 1, 2)", "current_timestamp(0)", "length('a', 'b', 1)",
                                  "encode('a', 'hex', 1)", "count(1, 2)"])  # fmt: skip
def test_too_many_arguments_are_refused_by_name(database, call):
    written = _written(f"SELECT {call}")
    assert written is not None
    with pytest.raises(duckdb.Error, match=call.partition("(")[0]):
        database.sql(written).fetchall()


CLAUSES = """
SELECT x FROM t ORDER BY x DESC FETCH FIRST 2 ROWS ONLY
SELECT x FROM t ORDER BY y NULLS FIRST, x LIMIT 3 OFFSET 1
SELECT x FROM t ORDER BY x LIMIT 50 PERCENT
SELECT DISTINCT ON (y) y, x FROM t ORDER BY y, x DESC
SELECT y, count(*) FROM t GROUP BY GROUPING SETS ((y), ()) ORDER BY ALL
SELECT y, x % 2, count(*) FROM t GROUP BY ROLLUP (y, x % 2) ORDER BY ALL
SELECT sum(x) OVER (ORDER BY y ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE TIES) FROM t
SELECT sum(x) OVER (ORDER BY y GROUPS 1 PRECEDING) FROM t ORDER BY 1
SELECT first_value(y IGNORE NULLS) OVER (ORDER BY x) FROM t ORDER BY x
SELECT last_value(y RESPECT NULLS) OVER w FROM t WINDOW w AS (ORDER BY x) ORDER BY x
SELECT lag(x, 2, -1) OVER (ORDER BY x), nth_value(x, 2) OVER (ORDER BY x) FROM t ORDER BY x
SELECT count(*) FILTER (WHERE x > 2), count(DISTINCT y), sum(DISTINCT x) FROM t
SELECT string_agg(DISTINCT s, '+' ORDER BY s DESC), string_agg(s, '-' ORDER BY x DESC) FROM t
SELECT array_agg(x ORDER BY y DESC NULLS FIRST, x), list(DISTINCT x ORDER BY x) FROM t
SELECT percentile_cont(0.25) WITHIN GROUP (ORDER BY x DESC) FROM t
SELECT percentile_disc(0.25) WITHIN GROUP (ORDER BY x), mode() WITHIN GROUP (ORDER BY y) FROM t
SELECT x BETWEEN SYMMETRIC 3 AND 1, x NOT BETWEEN 1 AND 3 FROM t ORDER BY x
SELECT s COLLATE "C" = 'A', s LIKE 'a!%' ESCAPE '!', s NOT ILIKE 'A%' FROM t ORDER BY x
SELECT s ~ 'B', s ~* 'B', s !~ 'b', s !~* 'B', s ^@ 'a', s GLOB 'a*' FROM t ORDER BY x
SELECT y IS DISTINCT FROM 1, y IS NOT DISTINCT FROM NULL, y ISNULL, y NOTNULL FROM t ORDER BY x
SELECT position('b' IN s), substring(s FROM 2 FOR 1), substring(s FOR 1) FROM t ORDER BY x
SELECT trim(LEADING 'a' FROM s), trim(TRAILING FROM s), trim(BOTH 'a' FROM s) FROM t ORDER BY x
SELECT overlay(s PLACING 'xx' FROM 2 FOR 1), s || s, s[1:1], s[1] FROM t ORDER BY x
SELECT extract(month FROM date '2024-05-06'), extract('doy' FROM timestamp '2024-05-06')
SELECT extract(isodow FROM date '2024-05-06'), date_part('week', date '2024-05-06')
SELECT interval '1 day 2 hours' = interval '26 hours', interval 3 month + interval '1' year
SELECT timestamp '2024-05-06 07:08' AT TIME ZONE 'UTC' = timestamptz '2024-05-06 07:08+00'
SELECT 7 // 2, 7 % 4, 2 ** 3, 2 ^ 3, 5 & 3, 5 | 3, 1 << 3, ~5, -x, +x FROM t ORDER BY x
SELECT x::text, CAST(x AS DECIMAL(5, 2)), TRY_CAST(s AS INTEGER) FROM t ORDER BY x
SELECT x = ANY (SELECT 2), x > ALL (SELECT 1), x IN (1, 2), EXISTS (SELECT 1) FROM t ORDER BY x
SELECT [v + 1 FOR v IN [1, 2] IF v > 1], list_transform([1, 2], lambda v: v * x) FROM t ORDER BY x
SELECT struct_pack(a := x, b := s), {'a': x}, MAP {'k': x}, row(x, s) FROM t ORDER BY x
SELECT CASE x WHEN 1 THEN 'a' ELSE 'b' END, if(x > 1, 1, 2), ifnull(y, 0) FROM t ORDER BY x
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT * FROM r
WITH c AS MATERIALIZED (SELECT x FROM t) SELECT sum(x) FROM c
SELECT x FROM t EXCEPT ALL SELECT y FROM t ORDER BY 1
SELECT x FROM t QUALIFY row_number() OVER (ORDER BY x DESC) = 1
SELECT * EXCLUDE (s) REPLACE (x + 1 AS x) FROM t ORDER BY x
"""


@pytest.mark.parametrize("sql", CLAUSES.strip().splitlines())
def test_clauses_survive_generation(database, sql):
    database.execute(
        "CREATE OR REPLACE TABLE t AS SELECT * FROM (VALUES (1, 1, 'ab'), (2, NULL, 'a'), (3, 1,"
        " 'Ab'), (4, 2, 'b'), (5, 2, NULL)) v(x, y, s)"
    )
    written = _written(sql)
    assert written is not None
    wanted = sql.replace(" SYMMETRIC 3 AND 1", " 1 AND 3")
    assert sorted(map(repr, database.sql(written).fetchall())) == sorted(
        map(repr, database.sql(wanted).fetchall())
    )


# --- JSON ------------------------------------------------------------------------------------

KEYS = ["a.b", "a", "$", "$.a", "*", "", "/a", 'x"y', "x'y", "0", "-1", "b[0]", "c\\d", "é", "~",
        "~1", "#", "line\nend", " a", "{a}", "a,b", "null", "NULL", "01", "%"]  # fmt: skip
DOCUMENT = {key: number for number, key in enumerate(KEYS)}
NESTED = {"a.b": [10, [20, 30], {"0": 40}], "a": {"b": 50}}


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@pytest.mark.parametrize("key", [*KEYS, "missing", "x"])
def test_a_text_after_the_json_arrow_is_a_key(database, key):
    wanted = str(DOCUMENT[key]) if key in DOCUMENT else None
    document = _quoted(json.dumps(DOCUMENT)) + "::JSON"
    operands = (_quoted(key), f"({_quoted(key)})", f"concat({_quoted(key)}, '')")
    trees = [
        parse(f"SELECT {document} {arrow} {operand}")
        for operand in operands
        for arrow in ("->", "->>")
    ]
    for tree in trees:
        assert database.sql(duckdb_sql(tree)).fetchall() == [(wanted,)], tree.sql()
    written = evaluated_all([(tree.expressions[0], (), [()]) for tree in trees])
    assert written == [[wanted]] * len(trees)
    node = parse("SELECT d ->> k, d ->> ?").expressions
    columns = [Column("d", ColumnType(Kind.JSON)), Column("k", ColumnType(Kind.TEXT))]
    rows = [(json.dumps(DOCUMENT), key)]
    assert evaluated(node[0], columns, rows) == [wanted]
    assert evaluated(node[1], columns, rows, (key,)) == [wanted]


def test_no_column_has_the_name_of_a_variable_of_a_template():
    lists = [names for text in TEMPLATES.values() for names in re.findall(r"lambda (.+?):", text)]
    assert lists
    assert all(name.startswith("hornbeam_") for names in lists for name in names.split(", "))


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("d -> 'a.b' -> 0", "10"), ("d -> 'a.b' -> -1 ->> '0'", "40"),
        ("d -> 'a.b' -> 1 -> i", "30"),
        ("d -> 'a.b' -> '0'", None), ("d -> 0", None), ("d -> 'a' -> 'b'", "50"),
        ("d -> NULL", None),
        ("d -> 'a.b' -> n", '{"0":40}'), ("d -> 'a.b' -> 7", None), ("d -> 'a.b' -> 1 ->> ?", "30"),
        ("coalesce(d -> 'none', d -> 'a')", '{"b":50}'), ("lower(d -> 'a' ->> 'b')", "50"),
        ("CAST(d -> 'a' ->> 'b' = '50' AS TEXT)", "true"), ("d -> 'a' ->> 'b' || 'x'", "50x"),
    ],
)  # fmt: skip
def test_an_integer_after_the_json_arrow_is_a_position(expression, wanted):
    columns = [Column("d", ColumnType(Kind.JSON)), Column("i", ColumnType(Kind.INTEGER)),
               Column("n", ColumnType(Kind.BIGINT))]  # fmt: skip
    node = parse(f"SELECT {expression}").expressions[0].unalias()
    assert evaluated(node, columns, [(json.dumps(NESTED), 1, -1)], (1,)) == [wanted]
