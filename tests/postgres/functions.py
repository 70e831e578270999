"""Expressions of further functions of numbers, times and arrays, and forms of the grammar."""

# ruff: noqa: E501 (a case is one line)

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

ANGLES = ("0", "30", "45", "60", "90", "135", "180", "270", "-45", "400", "12.5", "NULL")
TURNS = ("sind", "cosd", "tand", "cotd")
SINES = ("-1", "-0.5", "0", "0.3", "1", "2", "NULL")
INVERSES = ("asind", "acosd", "atand", "sinh", "cosh", "tanh", "asinh")
PERIODS = (
    "(DATE '2024-01-01', DATE '2024-01-03')", "(DATE '2024-01-03', DATE '2024-01-02')",
    "(DATE '2024-01-02', DATE '2024-01-02')", "(DATE '2024-01-01', INTERVAL '36 hours')",
    "(DATE '2024-01-02', NULL::DATE)",
)  # fmt: skip
QUOTIENTS = ("7, 2", "-7.5, 2", "1e10, 3", "5, 0", "0.5, 0.2", "NULL, 1")
OTHERS = """
gcd(2.5, 7.5)
gcd(-1.25, 0.5)
lcm(1.5, 0.4)
lcm(0, 1.5)
lcm(2 * 0.5, 7)
gcd(abs(-2.5), 5)
tand(180)::TEXT
cotd(270)::TEXT
width_bucket(5, 0, 10, 5)
width_bucket(10, 0, 10, 5)
width_bucket(-1, 0, 10, 5)
width_bucket(3, 10, 0, 5)
width_bucket(10.0::DOUBLE PRECISION, 10, 0, 5)
width_bucket(1, 1, 1, 5)
width_bucket(1, 0, 10, 0)
scale(8.4100)
min_scale(8.4100)
trim_scale(8.4100)
scale(5)
scale(NULL)
factorial(5)
factorial(0)
atan2d(1, 1)
num_nulls(NULL, 1, NULL)
num_nonnulls(NULL, 1, NULL)
1 << 33
-1 << 31
1::BIGINT << 40
1::BIGINT << 63
1::SMALLINT << 3
-8 >> 1
NULL << 1
make_interval()
make_interval(1, 2, 3, 4, 5, 6, 7.5)
make_interval(weeks => 2, secs => 0.25)
make_interval(mins => -90)
make_interval(days => NULL)
make_date(2024, 2, 30)
make_time(25, 0, 0)
(TIME '10:00', TIME '12:00') OVERLAPS (TIME '11:00', INTERVAL '1 hour')
TIMESTAMPTZ '2024-02-29 12:00Z' AT TIME ZONE '-05'
TIMESTAMP '2024-02-29 12:00' AT TIME ZONE '+02'
TIMESTAMPTZ '2024-02-29 12:00Z' AT TIME ZONE '+00'
date_trunc('month', TIMESTAMPTZ '2024-02-29 23:30Z', 'UTC')
age(current_date)::TEXT
age(DATE '2024-01-31', DATE '2024-02-29')::TEXT
now()::TIME = localtimestamp::TIME
clock_timestamp() >= now()
isfinite(TIMESTAMP '2024-02-29')
isfinite(INTERVAL '1 day')
(1, 2) IS NOT NULL
(NULL, NULL) IS NOT NULL
NOT ((1, NULL) IS NULL)
NOT (1, NULL) IS NULL
ROW(1, NULL) IS NOT NULL
array_fill(7, ARRAY[3])
array_fill('x'::TEXT, ARRAY[0])
trim_array(ARRAY[1, 2, 3], 2)
trim_array(ARRAY[1, 2, 3], 4)
array_position(ARRAY['a', 'b', 'a'], 'a', 2)
array_position(ARRAY[1, 2], 1, 2)
array_position(ARRAY[1, NULL, 2], NULL, 1)
U&'d!0061t' UESCAPE '!'
U&'\\0441\\+01F600'
U&'a''b'
U&'a\\\\b'
substring('foobar' SIMILAR '%#"o(o|x)b#"%' ESCAPE '#')
substring('abc' SIMILAR 'x#"%#"' ESCAPE '#')
SELECT id, div(n, 2), scale(n) FROM t ORDER BY id
SELECT id, gcd(n, 0.5) FROM t ORDER BY id
SELECT id, (day, ts) IS NOT NULL FROM t ORDER BY id
SELECT id, (day, INTERVAL '1 day') OVERLAPS (DATE '2024-01-01', DATE '2024-12-31') FROM t ORDER BY id
SELECT k FROM t ORDER BY k FETCH FIRST 1 ROW WITH TIES
SELECT count(*) AS c FROM t GROUP BY k ORDER BY c DESC FETCH FIRST 1 ROWS WITH TIES
SELECT k FROM t ORDER BY 1 OFFSET 1 FETCH NEXT 2 ROWS WITH TIES
SELECT s.k FROM (SELECT k FROM t ORDER BY k DESC FETCH FIRST 2 ROWS WITH TIES) AS s ORDER BY 1
SELECT id FROM t FETCH FIRST 1 ROW WITH TIES
""".strip().splitlines()


def functions() -> Iterator[str]:
    yield from (f"{name}({angle})" for name, angle in product(TURNS, ANGLES))
    yield from (f"{name}({value})" for name, value in product(INVERSES, SINES))
    yield from (f"{one} OVERLAPS {other}" for one, other in product(PERIODS, PERIODS))
    yield from (f"div({numbers})" for numbers in QUOTIENTS)
    yield from OTHERS
