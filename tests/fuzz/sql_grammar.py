"""Statements for fuzzing: from a grammar, mutated by tokens, and mutated by bytes.

The grammar generates mostly valid statements: every symbol stands for text of one kind, and rarely
for text of another kind. Tests compare answers when DuckDB accepts a statement as well.
"""

from __future__ import annotations

import re

from hypothesis import strategies as st

GRAMMAR = {
    "query": [
        "SELECT {output} FROM customer WHERE {bool_c}",
        "SELECT {output} FROM customer",
        "SELECT {number_c} AS a, {text_c} AS b FROM customer WHERE {bool_c} ORDER BY 1, 2, c_id",
        "SELECT * FROM customer WHERE {bool_c}",
        "SELECT c_id, {number_o} FROM customer, orders WHERE c_id = o_c_id AND {bool_o}",
        "SELECT * FROM customer JOIN orders ON c_id = o_c_id WHERE {bool_c} AND {bool_o}",
        "SELECT c_id, o_id, {bool_o} FROM customer {side} JOIN orders ON c_id = o_c_id"
        " AND {bool_o}",
        "SELECT * FROM customer, orders, line WHERE c_id = o_c_id AND o_id = l_o_id AND {bool_o}",
        "SELECT {text_c}, count(*), {sum_c} FROM customer GROUP BY 1",
        "SELECT {sum_c}, {sum_c} FROM customer WHERE {bool_c}",
        "SELECT {number_c} FROM customer GROUP BY {number_c} HAVING {sum_c} > 0",
        "SELECT DISTINCT {number_k}, {moment_k} FROM kinds WHERE {bool_k}",
        "SELECT k_id, {any_k}, {any_k} FROM kinds WHERE {bool_k} ORDER BY k_id {limit}",
        "SELECT {any_k} FROM kinds",
        "SELECT x.a FROM ({query_ab}) AS x WHERE x.a IS NOT NULL",
        "WITH w AS ({query_ab}) SELECT a, b FROM w",
        "{query_ab} {setop} {query_ab}",
        "SELECT c_id FROM customer WHERE c_id IN (SELECT o_c_id FROM orders WHERE {bool_o})",
        "SELECT c_id FROM customer WHERE EXISTS"
        " (SELECT 1 FROM orders WHERE o_c_id = c_id AND {bool_o})",
        "SELECT o_id, {window_o} FROM orders",
    ],
    "query_ab": [
        "SELECT {number_c} AS a, {text_c} AS b FROM customer WHERE {bool_c}",
        "SELECT {number_o} AS a, 'x' AS b FROM orders",
    ],
    "write": [
        "INSERT INTO customer (c_id, c_fname) VALUES ({number}, {text})",
        "INSERT INTO customer (c_id, c_lname, c_email) VALUES (71, {text}, {text})"
        " RETURNING {any_c}",
        "INSERT INTO orders VALUES (71, 7, {number}), (72, NULL, {number})",
        "INSERT INTO kinds (k_id, {column_k}) VALUES (99, {any})",
        "INSERT INTO orders SELECT {number_o}, o_c_id, {number_o} FROM orders WHERE {bool_o}",
        "INSERT INTO item DEFAULT VALUES",
        "UPDATE customer SET c_fname = {text_c}, c_note = {text_c} WHERE {bool_c}",
        "UPDATE customer SET c_id = {number_c} WHERE c_id = 7",
        "UPDATE kinds SET {column_k} = {any_k} WHERE {bool_k}",
        "UPDATE orders SET o_total = {number_o} WHERE {bool_o} RETURNING {number_o}, o_id",
        "UPDATE item SET i_stock = {number} WHERE i_id = {number}",
        "DELETE FROM orders WHERE {bool_o}",
        "DELETE FROM kinds WHERE {bool_k} RETURNING {any_k}",
        "DELETE FROM line",
        "UPDATE orders SET o_total = {number_c} FROM customer WHERE o_c_id = c_id AND {bool_c}",
        "UPDATE orders SET o_total = (SELECT {number_c} FROM customer WHERE c_id = o_c_id)"
        " WHERE {bool_o}",
        "UPDATE customer SET (c_fname, c_note) = ({text_c}, {text_c}) WHERE {bool_c}"
        " RETURNING (SELECT count(*) FROM orders WHERE o_c_id = c_id AND {bool_o})",
        "INSERT INTO orders VALUES (71, (SELECT max(c_id) FROM customer WHERE {bool_c}), {number})",
        "INSERT OR IGNORE INTO kinds (k_id, {column_k}) VALUES (1, {any})",
        "DELETE FROM orders USING customer WHERE o_c_id = c_id AND {bool_c} RETURNING {text_c}",
        "TRUNCATE line",
    ],
    "output": ["*", "{any_c}", "{number_c}, {text_c}", "c_id, {bool_c}", "customer.*, {any_c}"],
    "side": ["LEFT", "RIGHT", "FULL", "INNER", ""],
    "setop": ["UNION ALL", "UNION", "EXCEPT", "INTERSECT"],
    "limit": ["", "", "LIMIT 3", "LIMIT 2 OFFSET 1", "LIMIT 0"],
    "window_o": [
        "row_number() OVER (ORDER BY o_id)",
        "sum({number_o}) OVER (PARTITION BY o_c_id)",
        "rank() OVER (PARTITION BY {bool_o} ORDER BY o_id DESC)",
    ],
    "sum_c": ["count({any_c})", "min({any_c})", "max({number_c})", "sum({number_c})",
              "count(DISTINCT {text_c})", "avg({number_c})", "max({text_c})"],
    "column_k": ["k_decimal", "k_double", "k_flag", "k_bytes", "k_date", "k_at", "k_instant",
                 "k_uuid", "k_json", "k_text", "k_id"],
    "number": ["0", "1", "42", "7.50", "1e3", "-1", "NULL", "?", "2147483647",
        "99999999999999999999",
               "0.1", "1e308", "'12'"],
    "number_c": ["c_id"],
    "number_o": ["o_id", "o_total", "o_c_id"],
    "number_k": ["k_id", "k_decimal", "k_double"],
    "text": ["''", "'a'", "'Ann'", "'it''s'", "'%'", "NULL", "?", "'é∑🙂'", "'2024-02-29'",
        "'a\x00b'"],
    "text_c": ["c_fname", "c_lname", "c_email", "c_note"],
    "text_o": ["'o'"],
    "text_k": ["k_text", "k_json"],
    "moment": ["DATE '2024-02-29'", "TIMESTAMP '1999-12-31 23:59:59.5'", "NULL", "'2024-01-01'",
               "TIMESTAMPTZ '2024-05-05 10:00:00+02'", "DATE '0001-01-01'", "current_date"],
    "moment_k": ["k_date", "k_at", "k_instant"],
    "moment_c": ["DATE '2000-01-01'"],
    "moment_o": ["DATE '2000-01-01'"],
    "bool": ["true", "false", "NULL", "1 = 1"],
    "bool_c": ["c_id = 7", "c_fname IS NULL"],
    "bool_o": ["o_id > 1", "o_total IS NULL"],
    "bool_k": ["k_flag", "k_id < 4"],
    "any": ["k'x'", "'\\x00'::BLOB", "'6f1c1d0e-7f0b-4c55-8f0e-0b3a1c9d2e44'::UUID",
        "'[1]'::JSON",
            "[1, 2]", "{'a': 1}", "(1, 2)", "INTERVAL 1 DAY"],
    "any_c": ["c_id", "c_note"],
    "any_o": ["o_id", "o_total"],
    "any_k": ["k_id", "k_decimal", "k_double", "k_flag", "k_bytes", "k_date", "k_at", "k_instant",
              "k_uuid", "k_json", "k_text"],
}  # fmt: skip
"""Alternatives of each symbol; `_c`, `_o` and `_k` refer to customer, orders and kinds."""

OPERATORS = {
    "number": [
        "({n} + {n})", "({n} - {n})", "{n} * {n}", "{n} / {n}", "{n} % {n}", "-{n}", "abs({n})",
        "round({n}, 1)", "length({t})", "coalesce({n}, {n})",
        "CASE WHEN {b} THEN {n} ELSE {n} END",
        "CAST({n} AS INTEGER)", "{n}::DECIMAL(10,2)", "CAST({t} AS DOUBLE)", "{n} // {n}",
        "extract(year FROM {m})", "greatest({n}, {n})", "nullif({n}, {n})", "floor({n})",
        "position({t} IN {t})", "date_part('month', {m})", "CAST({b} AS INTEGER)", "sqrt({n})",
        "{n} ** 2", "sign({n})", "ln({n})", "mod({n}, {n})", "CASE {n} WHEN {n} THEN {n} END",
        "{n} & 3", "{n} << 2", "date_diff('day', {m}, {m})",
    ],
    "text": [
        "{t} || {t}", "upper({t})", "lower({t})", "substr({t}, {n}, 2)", "trim({t})",
        "coalesce({t}, {t})",
        "CAST({n} AS VARCHAR)", "replace({t}, {t}, 'z')", "concat({t}, {n})", "left({t}, 2)",
        "CASE WHEN {b} THEN {t} END", "lpad({t}, 3, 'x')", "reverse({t})", "CAST({m} AS VARCHAR)",
        "repeat({t}, 3)", "CAST({b} AS VARCHAR)", "strftime({m}, '%Y-%m')", "md5({t})",
        "substring({t} FROM 2 FOR 1)", "{t}[1]",
    ],
    "moment": [
        "{m} + INTERVAL 1 DAY", "CAST({m} AS DATE)", "CAST({m} AS TIMESTAMP)",
        "{m} - INTERVAL '2' MONTH",
        "date_trunc('month', {m})", "coalesce({m}, {m})", "CAST({t} AS DATE)",
        "CAST({m} AS TIMESTAMP WITH TIME ZONE)",
    ],
    "bool": [
        "({n})", "{n} = {n}", "{n} < {n}", "{n} >= {n}", "{n} <> {n}", "{t} = {t}", "{t} < {t}",
        "{t} LIKE {t}",
        "({b} AND {b})", "({b} OR {b})", "NOT {b}", "{t} IS NULL", "{n} IS NOT NULL", "{m} < {m}",
        "{n} BETWEEN {n} AND {n}", "{n} IN ({n}, {n}, 7)", "{t} IN ('a', {t})",
        "{t} NOT LIKE 'a%'",
        "{n} IS DISTINCT FROM {n}", "{t} ILIKE '%A%'", "starts_with({t}, 'a')", "{b} = {b}",
        "{m} BETWEEN {m} AND {m}", "{n} NOT IN ({n}, 3)", "({n}, {t}) = ({n}, {t})",
        "{t} SIMILAR TO 'a.*'", "{t} LIKE {t} ESCAPE '!'", "{b} IS NOT TRUE",
        "{n} > (SELECT max(o_id) FROM orders)", "{n} = ANY (SELECT i_id FROM item)",
    ],
}  # fmt: skip
"""Compound expressions. n, t, m, b: a number, text, date/time or boolean over the same relation."""
KINDS = {"n": "number", "t": "text", "m": "moment", "b": "bool"}
SYMBOL = re.compile(r"\{([a-z_]+)\}")
DEPTH = 3


def _alternatives(symbol: str, depth: int) -> list[str]:
    kind, _, over = symbol.partition("_")
    found = list(GRAMMAR[symbol])
    if kind in ("query", "write") or kind not in (*OPERATORS, "any"):
        return found
    if over:
        found = found * 2 + GRAMMAR[kind]
    if kind == "any":
        found += [f"{{{other}_{over}}}" if over else f"{{{other}}}" for other in OPERATORS]
    elif depth:
        suffix = f"_{over}" if over else ""
        found += [
            re.sub(r"\{([ntmb])\}", lambda m: f"{{{KINDS[m[1]]}{suffix}}}", operator)
            for operator in OPERATORS[kind]
        ]
    return found


def _expand(draw: st.DrawFn, symbol: str, depth: int) -> str:
    kind, _, over = symbol.partition("_")
    if kind in OPERATORS and draw(st.integers(0, 40)) == 40:
        symbol = f"any_{over}" if over else "any"
    text = draw(st.sampled_from(_alternatives(symbol, depth)))
    deeper = depth if kind in ("query", "write", "output", "any") else max(depth - 1, 0)
    return SYMBOL.sub(lambda match: _expand(draw, match[1], deeper), text)


@st.composite
def queries(draw: st.DrawFn) -> str:
    return _expand(draw, "query", draw(st.integers(0, DEPTH)))


@st.composite
def writes(draw: st.DrawFn) -> str:
    return _expand(draw, "write", draw(st.integers(0, DEPTH)))


# ---------------------------------------------------------------- mutations

TOKEN = re.compile(r"\w+|\s+|'[^']*'|\"[^\"]*\"|[^\w\s]")
ODD = [
    "(", ")", ",", ";", "'",
    '"', "$$", "--", "/*", "*/", "/**/", "\\", "\x00", "\ufeff", "\u202e", "é",
    "🙂", "\ud800", "?", ":a", ":a:", "$1", "@", "::", "::INT[]", "[", "]", "{", "}", "=>",
    "->>", "||",
    "NULL", "DEFAULT", "*", "SELECT", "FROM", "WHERE", "JOIN", "LATERAL", "VALUES",
    "GROUP BY ALL",
    "QUALIFY", "PIVOT", "UNNEST([1])", "GROUPING SETS ((), (1))", "ON CONFLICT DO NOTHING",
    "RETURNING",
    "OVER ()", "FILTER (WHERE true)", "WITH RECURSIVE r AS (SELECT 1)", "customer", "c_id",
    "o_total",
    "9" * 400, "1e999", "-9223372036854775809", "0x1F", "1_000", "'" + "x" * 300 + "'",
    "INTERVAL", "CAST(",
    "AS", "x'00'", "e'\\n'", "U&'\\0041'", "CURRENT_TIMESTAMP", "random()", "USING SAMPLE 1",
    "TRY_CAST(1 AS INT)",
    "COLLATE NOCASE", "AT TIME ZONE 'UTC'", "lambda x: x", "x -> x", "POSITIONAL JOIN",
    "ASOF JOIN", "FOR UPDATE",
]  # fmt: skip
NESTS = [
    ("(", "1", ")"), ("NOT ", "true", ""), ("-", "1", ""), ("[", "1", "]"), ("abs(", "1", ")"),
    ("(SELECT ", "1", ")"), ("1 + ", "1", ""), ("CASE WHEN true THEN ", "1", " END"),
    ("coalesce(", "1", ", 1)"), ("SELECT * FROM (", "SELECT 1 AS a", ") AS x"), ("{'a': ",
    "1", "}"),
    ("true AND ", "true", ""), ("'a' || ", "'b'", ""), ("CAST(", "1", " AS INTEGER)"), ("",
    "1", "::INT"),
]  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn, statements: st.SearchStrategy[str]) -> str:
    """Draw a statement with some tokens dropped, doubled, swapped, replaced, or nested deeply."""
    tokens = TOKEN.findall(draw(statements)) or [""]
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(tokens) - 1))
        other = draw(st.integers(0, len(tokens) - 1))
        match draw(st.sampled_from(["drop", "double", "swap", "odd", "odd", "nest"])):
            case "drop":
                tokens[at] = ""
            case "double":
                tokens[at] = f"{tokens[at]} {tokens[at]}"
            case "swap":
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case "odd":
                tokens[at] = f" {draw(st.sampled_from(ODD))} "
            case "nest":
                before, inside, behind = draw(st.sampled_from(NESTS))
                depth = draw(st.sampled_from([1, 3, 30, 300, 3_000]))
                tokens[at] = f" {before * depth}{inside}{behind * depth} "
    return "".join(tokens)


@st.composite
def garbled_bytes(draw: st.DrawFn, texts: st.SearchStrategy[bytes]) -> bytes:
    """Draw bytes of which some are changed, removed or inserted."""
    data = bytearray(draw(texts))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(data)))
        lost = draw(st.sampled_from([0, 1, 1, 4]))
        data[at : at + lost] = draw(st.binary(max_size=3) | st.binary(min_size=lost, max_size=lost))
    return bytes(data)


def garbled(statements: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Statements with some bytes of their UTF-8 text changed, removed or inserted."""
    texts = statements.map(lambda text: text.encode("utf-8", "surrogatepass"))
    return garbled_bytes(texts).map(lambda data: data.decode("utf-8", "surrogateescape"))
