"""Results of DOUBLE PRECISION and REAL that are out of range, and Infinity as an operand."""

# ruff: noqa: E501 (a case is one line)

from __future__ import annotations

from collections.abc import Iterator

_CASES = """
1e308::float8 * 10
1e308::float8 + 1e308::float8
-1e308::float8 - 1e308::float8
1e308::float8 / 0.1
1e-308::float8 / 1e10
1e-308::float8 * 1e-308::float8
1e-308::float8 / 1e20::float8
'Infinity'::float8 * 10
'Infinity'::float8 - 'Infinity'::float8
'Infinity'::float8 * 0
1 / 'Infinity'::float8
1e308::float8 / 'Infinity'::float8
exp(1000::float8)
exp(-1000::float8)
exp('Infinity'::float8)
exp('-Infinity'::float8)
power(10::float8, 400)
power(10::float8, -400)
power('Infinity'::float8, 2)
power(0::float8, -1)
power(-8::float8, 1.0/3)
10::float8 ^ 400
sqrt(-1::float8)
ln(0::float8)
ln(-1::float8)
log(0::float8)
cbrt(27::float8)
sinh(1000::float8)
cosh(1000::float8)
tan(1.5707963267948966::float8)
sin('Infinity'::float8)
acos(2::float8)
degrees(1e308::float8)
radians(1e-323::float8)
3e38::real * 10
3e38::real + 3e38::real
1e-38::real * 1e-38::real
3e38::real / 0.01::real
1e-38::real / 1e30::real
1e300::float8::real
1e-300::float8::real
'1e-400'::float8
'1e40'::real
'1e-50'::real
-(1e308::float8)
abs('-Infinity'::float8)
sum(1e308::float8)
1e308::float8 * 10 / 'Infinity'::float8
(1e308::float8 * 10) * 0
1 / (1e308::float8 * 10)
1e308::float8 - 1e308::float8 + 1
1e-308::float8 * 1e-10 * 1e-10 + 1
0::float8 * 5
1 / 3 * 2.5::float8
(1 / 3) * 2.5::float8
0.0000001 * 1e-320::float8
5::float8 / 'Infinity'::float8 * 3
power(2, 0.5::float8)
power(0::float8, 5)
power(-8::float8, 3)
power(10, 400)
power('-Infinity'::float8, 3)
power(2::float8, 'Infinity'::float8)
exp(0::float8)
exp(1)
exp(NULL::float8)
radians(0::float8)
degrees(1::float8)
SELECT sum(x) FROM (VALUES (1e308::float8), (1e308::float8)) AS v (x)
SELECT avg(x) FROM (VALUES (1e308::float8), (1e308::float8)) AS v (x)
SELECT var_pop(x) FROM (VALUES (1e308::float8), (-1e308::float8)) AS v (x)
SELECT var_pop(x) FROM (VALUES (1e308::float8), (1e308::float8)) AS v (x)
SELECT stddev(x) FROM (VALUES (1e308::float8), (-1e308::float8)) AS v (x)
SELECT sum(x) FROM (VALUES (3e38::real), (3e38::real)) AS v (x)
SELECT sum(x) FROM (VALUES ('Infinity'::float8), (1e308::float8)) AS v (x)
SELECT var_pop(x) FROM (VALUES ('Infinity'::float8), (1)) AS v (x)
SELECT d * 1e308::float8 * 10 FROM t WHERE id = 4
SELECT sum(d * 1e308::float8) FROM t WHERE id IN (1,6)
SELECT sum(1e308::float8) FROM t
SELECT exp(d * 1000) FROM t WHERE id = 4
SELECT exp(d * 1000) FROM t WHERE id = 2
SELECT exp(a * 1000) FROM t WHERE id = 1
SELECT power(a::float8, 1000) FROM t WHERE id = 1
SELECT corr(x, y) FROM (VALUES (1e308::float8, 1e308::float8), (-1e308, -1e308)) AS v (x, y)
SELECT regr_sxx(x, y) FROM (VALUES (1e308::float8, 1e308::float8), (-1e308, -1e308)) AS v (x, y)
SELECT covar_pop(x, y) FROM (VALUES (1e308::float8, 1e308::float8), (-1e308, -1e308)) AS v (x, y)
SELECT id, d * 2 + r / 3 - a, d * d * d, d / 7.5 + b FROM t ORDER BY id
SELECT id, exp(d), power(d, 2), d ^ 3, power(a, 2) FROM t ORDER BY id
SELECT sum(d), avg(d), sum(d) FILTER (WHERE id > 2), sum(DISTINCT d), sum(r), avg(r) FROM t
SELECT k, sum(d), avg(d * 1.5) FROM t GROUP BY k ORDER BY k
SELECT id, sum(d) OVER (ORDER BY id), avg(d) OVER (PARTITION BY k ORDER BY id ROWS 1 PRECEDING) FROM t ORDER BY id
SELECT sum(d) OVER (ORDER BY id) FROM (SELECT id, 1e308::float8 + d AS d FROM t) s ORDER BY id
SELECT sum(x) FROM (VALUES ('NaN'::float8), (1e308::float8)) AS v (x)
SELECT sum(x) FROM (VALUES (1e308::float8), (1e308), ('-Infinity'::float8)) AS v (x)
SELECT avg(x) FROM (VALUES (1e308::float8), (1e308), ('Infinity'::float8)) AS v (x)
SELECT id FROM t WHERE d * 1e308::float8 * 10 > 0
SELECT id FROM t WHERE d * 2 > 1 ORDER BY id
SELECT id, CASE WHEN d > 0 THEN 1 / d ELSE d * 3 END * 2::float8 FROM t ORDER BY id
SELECT CASE WHEN d = 0 THEN 0::float8 ELSE 1e-300::float8 / d END FROM t ORDER BY id
SELECT sum(d * a) / nullif(sum(d), 0) FROM t
SELECT d * 1e308::float8 FROM t WHERE id IN (1, 4) ORDER BY id
SELECT d + 'Infinity'::float8, d * 'Infinity'::float8 FROM t ORDER BY id
SELECT k, var_pop(d), corr(d, a), covar_pop(d, a), regr_slope(d, a) FROM t GROUP BY k ORDER BY k
SELECT stddev(d) OVER (ORDER BY id), corr(d, a) OVER (ORDER BY id) FROM t ORDER BY id
SELECT var_pop(d) FILTER (WHERE id > 2), stddev(DISTINCT d) FROM t
SELECT corr(x, y) FROM (VALUES (1e200::float8, 1e200::float8), (-1e200, -1e200)) AS v (x, y)
SELECT var_pop(x) FROM (VALUES ('NaN'::float8), (1)) AS v (x)
SELECT var_samp(x) FROM (VALUES (1::float8)) AS v (x)
SELECT var_pop(d), stddev(d), variance(d * 2), var_pop(r) FROM t
SELECT id, abs(d * r) * 2.5::float8 + exp(d * 1.5::float8) FROM t ORDER BY id
SELECT k, abs(sum(d * 2)) * avg(d) FROM t GROUP BY k ORDER BY k
SELECT id, abs(d * 2) * sum(d) OVER (ORDER BY id) FROM t ORDER BY id
SELECT id, abs(d * 1e308::float8) * 10 * (SELECT max(d) FROM t) FROM t WHERE id = 4
SELECT id, abs(d * 2) * (SELECT max(d) FROM t) FROM t ORDER BY id
SELECT id, CASE WHEN d > 0 THEN d * 3 ELSE 1e308::float8 * d END * 2::float8 FROM t WHERE id IN (1, 6) ORDER BY id
""".strip().splitlines()


def ranges() -> Iterator[str]:
    yield from _CASES
