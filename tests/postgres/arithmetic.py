"""Generated cases over numbers: every operator and function between all numeric types, as
constants, over columns of a table, and the types of their results."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

_VALUES = {
    "SMALLINT": ("3::SMALLINT", "-20000::SMALLINT"),
    "INTEGER": ("3", "-123456"),
    "BIGINT": ("3::BIGINT", "-12345678901::BIGINT"),
    "NUMERIC": ("0.30", "-1234.5678"),
    "REAL": ("0.1::REAL", "-1234.5678::REAL"),
    "DOUBLE": ("0.1::DOUBLE PRECISION", "-1234.5678::DOUBLE PRECISION"),
}
_FIRST = [values[0] for values in _VALUES.values()]
_ALL = [value for values in _VALUES.values() for value in values]
_COMPARISONS = ("=", "<", ">=", "IS DISTINCT FROM")
_POSITIVE = ("0.0004", "0.97", "1.03", "7.25", "123456.789", "1234567890.125")
_OF_PAIRS = (
    "corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept", "regr_r2", "regr_avgx",
    "regr_avgy", "regr_sxx", "regr_syy", "regr_sxy", "regr_count",
)  # fmt: skip
_COLUMNS = ("a", "b", "n", "d", "r")
"""Columns of the table `t` of the corpus (`statements.py`)."""


def arithmetic() -> Iterator[str]:
    """Expressions with REAL, and the powers and logarithms of NUMERIC."""
    for a, b in product(_ALL, _FIRST):
        if "REAL" in a or "REAL" in b:
            yield from (f"{a} {sign} {b}" for sign in "+-*/")
            yield from (f"({a}) {sign} ({b})" for sign in _COMPARISONS)
    for value in (*_VALUES["REAL"], "1e6::REAL", "3.4e38::REAL", "NULL::REAL"):
        yield from (f"{name}({value})" for name in ("abs", "-", "sqrt", "round", "floor", "sign"))
        yield from (
            f"({value})::{type_}" for type_ in ("TEXT", "NUMERIC", "NUMERIC(12,3)", "INTEGER")
        )
        yield from (f"coalesce({value}, {other})" for other in ("1", "0.5", "2::DOUBLE PRECISION"))
        yield f"({value})::TEXT || '|'"
    for value in _POSITIVE:
        yield from (f"{name}({value})" for name in ("sqrt", "ln", "log"))
        yield from (f"power({value}, {power})" for power in ("2", "-1", "0.5", "-0.75"))
        yield from (f"{value} ^ {power}" for power in ("2", "0.5"))
        yield from (f"log({base}, {value})" for base in ("2", "10.0"))
    yield from (f"exp({value})" for value in ("0.0", "1.5", "-3.25", "30.125"))


def over_columns() -> Iterator[str]:
    """The same over the columns of a table."""
    for a, b in product(_COLUMNS, _COLUMNS):
        if "r" in (a, b):
            yield from (f"SELECT id, {a} {sign} {b} FROM t ORDER BY id" for sign in "+-*")
            yield f"SELECT id, {a} < {b}, {a} = {b} FROM t ORDER BY id"
    for name in ("min", "max", "avg", "count"):
        yield f"SELECT {name}(r) FROM t"
    yield from _smallints()
    yield from _rounded()
    yield "SELECT id, r::TEXT, r::NUMERIC(12,2) FROM t ORDER BY id"
    yield "SELECT id FROM t WHERE r IN (0.1, 2.5, -0.5) ORDER BY id"
    yield "SELECT id FROM t WHERE r BETWEEN -0.5 AND 2.5 ORDER BY id"
    yield "SELECT id, coalesce(r, 0), CASE WHEN id > 2 THEN r ELSE 0.5 END FROM t ORDER BY id"
    yield "SELECT id, power(abs(n), 0.5), sqrt(abs(n)), exp(n) FROM t ORDER BY id"
    yield "SELECT a.id, c.id FROM t AS a JOIN t AS c ON a.r = c.d ORDER BY a.id, c.id"
    yield "SELECT r, count(*) FROM t GROUP BY r ORDER BY r"
    for rows in ("(1.5, 2)", "(1.5, 2), (2.5, 2)", "(1.5, 2), (1.5, 3)", "(1, 2), (2, 4), (5, 1)"):
        source = f"FROM (VALUES {rows}) AS v (x, y)"
        yield from (f"SELECT {name}(x, y) {source}" for name in _OF_PAIRS)
        yield f"SELECT corr(x, y) FILTER (WHERE x > 1) {source}"
        yield f"SELECT regr_slope(x, y) FILTER (WHERE x > 9) {source}"


def _smallints() -> Iterator[str]:
    """SMALLINT, whose arithmetic overflows, alone and with other integers."""
    yield "SELECT id, s + s, s - s, s * s, -s, abs(s) FROM t ORDER BY id"
    yield "SELECT s * 10000::SMALLINT FROM t WHERE id = 1"
    yield "SELECT s * 20000::SMALLINT FROM t WHERE id = 1"
    yield "SELECT s * 20000 FROM t WHERE id = 1"
    yield "SELECT id FROM t WHERE s * 20000::SMALLINT > 3 ORDER BY id"
    yield "SELECT x * 20000::SMALLINT FROM (SELECT s AS x FROM t) AS v"
    yield "SELECT x * 20000::SMALLINT FROM (SELECT max(s) AS x FROM t) AS v"
    yield "SELECT x * 20000::SMALLINT FROM (SELECT s + 1 AS x FROM t) AS v"
    yield "SELECT sum(s * 20000::SMALLINT) FROM t"
    yield "SELECT sum(s * 20000) FROM t"
    yield "SELECT a::SMALLINT FROM t ORDER BY id"
    yield "SELECT b::SMALLINT FROM t"
    yield "SELECT id FROM t WHERE s = ANY ('{3,2}'::SMALLINT[]) ORDER BY id"
    yield "SELECT ARRAY[a]::SMALLINT[] FROM t WHERE id = 1"


def _rounded() -> Iterator[str]:
    """Functions whose results are no integers, and remainders, over columns."""
    for name in ("round", "ceil", "floor", "trunc", "sign"):
        yield f"SELECT id, {name}(a), {name}(b), {name}(s) FROM t ORDER BY id"
        yield f"SELECT {name}(a) / 2 FROM t WHERE id = 1"
        yield f"SELECT sum({name}(a)), {name}(sum(a)), {name}(count(*)) FROM t"
    for name in ("round", "trunc"):
        yield f"SELECT id, {name}(a, 1), {name}(b, -1), {name}(s, 0) FROM t ORDER BY id"
        yield f"SELECT {name}(a, 1) / 2, sum({name}(b, -2)) OVER () FROM t WHERE id = 1"
    yield "SELECT id FROM t WHERE round(a) = 7"
    columns = ", ".join(f"nullif({a}, {b})" for a in _COLUMNS for b in _COLUMNS)
    yield f"SELECT id, {columns} FROM t ORDER BY id"
    yield "SELECT nullif(a, 2.5), nullif(a, 2), nullif(n, 2.5), nullif(b, 2.0) FROM t ORDER BY id"
    yield "SELECT id, n % 0.7, n % 2, a % 2.5, b % 3.25 FROM t ORDER BY id"
    yield "SELECT id, (n / 3) % 12345678901234567890 FROM t ORDER BY id"
    yield "SELECT mod(n / 3, 12345678901234567890) FROM t WHERE id = 1"
    yield "SELECT 12345678901234567890123456789012345678 % (n / 7) FROM t WHERE id = 1"
    yield "SELECT n % (n - n) FROM t WHERE id = 1"
