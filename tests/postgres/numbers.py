"""Expressions over numbers: operators between all types, functions, rounding, casts, literals."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

OPERANDS = (
    "7::SMALLINT", "7", "-2", "2147483647", "7::BIGINT", "9223372036854775807", "7.5", "-2.25",
    "7::NUMERIC", "7.5::DOUBLE PRECISION", "2.5::REAL", "1e3", "NULL::INTEGER",
)  # fmt: skip
OPERATORS = ("+", "-", "*", "/", "%")
ZEROS = ("0", "0::BIGINT", "0.0", "0::DOUBLE PRECISION")
SMALL = ("2", "-3", "2::BIGINT", "2.5", "-2.5", "0.5", "2.5::DOUBLE PRECISION", "0", "9", "NULL")
FUNCTIONS = (
    "abs", "ceil", "ceiling", "floor", "round", "trunc", "sign", "sqrt", "cbrt", "exp", "ln",
    "log", "log10", "degrees", "radians", "sin", "cos", "tan", "atan", "-", "+", "@ ",
)  # fmt: skip
PAIRS = ("power", "mod", "div", "log", "atan2", "gcd", "lcm")
ROUNDED = (
    "2.5", "-2.5", "3.5", "0.5", "-0.5", "1.005", "2.345", "-2.345", "1234.5678", "0.049",
    "2.5::DOUBLE PRECISION", "3.5::DOUBLE PRECISION", "-2.5::DOUBLE PRECISION",
    "0.5::DOUBLE PRECISION", "0.49999999999999994::DOUBLE PRECISION", "1250", "1350", "-1250",
    "15::BIGINT", "2.675::NUMERIC(10,3)",
)  # fmt: skip
CAST_VALUES = (
    "0", "1", "-1", "42", "40000", "3000000000", "9223372036854775807", "1.5", "2.5", "-2.5",
    "-0.4", "123456.789", "1e3", "1e20", "1.5::DOUBLE PRECISION", "2.5::DOUBLE PRECISION",
    "-3.5::DOUBLE PRECISION", "1e15::DOUBLE PRECISION", "1e-7::DOUBLE PRECISION",
    "123456789.125::DOUBLE PRECISION", "0.1::REAL", "1e6::REAL", "12345678.9::REAL",
    "TRUE", "FALSE", "NULL",
    "'12'", "' 12 '", "'1.5'", "'-0'", "'1e3'", "'abc'", "''", "'NaN'", "'Infinity'", "'t'",
    "'off'", "'yes'", "'2'", "'2024-02-29'", "'2024-02-29 12:30:45.678'",
    "'2024-02-29 12:30:45+02'",
    "'12'::TEXT", "'1.50'::TEXT", "'abc  '::CHAR(5)", "'true'::TEXT", "'2024-02-29'::TEXT",
    "'550e8400-e29b-41d4-a716-446655440000'", "'\\x6162'", "'{\"a\": 1}'",
    "DATE '2024-02-29'", "TIMESTAMP '2024-02-29 12:30:45.678'",
    "TIMESTAMPTZ '2024-02-29 12:30:45+02'", "'\\x6162'::BYTEA", "INTERVAL '1 day 2 hours'",
)  # fmt: skip
CAST_TYPES = (
    "SMALLINT", "INTEGER", "BIGINT", "NUMERIC", "NUMERIC(6,2)", "REAL", "DOUBLE PRECISION",
    "BOOLEAN", "TEXT", "VARCHAR(3)", "CHAR(4)", "DATE", "TIMESTAMP", "TIMESTAMPTZ", "BYTEA", "UUID",
    "JSON",
)  # fmt: skip
OTHERS = """
1.50
.5
5.
1e3
1.5e-3
1E2
10000000000
99999999999999999999
0.1 + 0.2
0.1 + 0.2 = 0.3
0.1::DOUBLE PRECISION + 0.2::DOUBLE PRECISION
1 / 3.0
2 / 3
-7 / 2
7 / -2
-7 % 3
7 % -3
-7.5 % 2
mod(-7, 3)
mod(7.5, -2)
1 + 2 * 3 - 4
2 ^ 3 ^ 2
-2 ^ 2
2 ^ -1
2 ^ 0.5
2.0 ^ 3
2::BIGINT ^ 62
(-8) ^ 2
0 ^ 0
0 ^ -1
(-8.0) ^ 0.5
5 & 3
5 | 3
5 # 3
~5
~5::BIGINT
1 << 4
256 >> 4
-1 >> 1
1::BIGINT << 40
|/ 25.0
||/ 27.0
@ -5.5
@ 3.7
@ 3.7::DOUBLE PRECISION
- - 5
2147483647 + 1
-2147483648 - 1
2147483647 * 2
32767::SMALLINT + 1::SMALLINT
300::SMALLINT * 300::SMALLINT
9223372036854775807 + 1
-9223372036854775808
-2147483648
abs(-2147483648)
1e308::DOUBLE PRECISION * 10
1e-308::DOUBLE PRECISION / 1e10
'NaN'::DOUBLE PRECISION = 'NaN'::DOUBLE PRECISION
'NaN'::DOUBLE PRECISION > 'Infinity'::DOUBLE PRECISION
'Infinity'::DOUBLE PRECISION - 'Infinity'::DOUBLE PRECISION
1e20
1e20 + 1
123456789012345678901234567890 * 2
0.00000000000000000001 * 0.00000000000000000001
1.10 + 1.1
1.5 * 1.50
3.0
3.0::TEXT
(1.50)::TEXT
(1.5 * 2)::TEXT
(10 / 4.0)::NUMERIC(10,2)
0.5::TEXT
-0.5::TEXT
1e3::TEXT
1e20::TEXT
(1e20::DOUBLE PRECISION)::TEXT
(1e15::DOUBLE PRECISION)::TEXT
(1e14::DOUBLE PRECISION)::TEXT
(0.0001::DOUBLE PRECISION)::TEXT
(0.00001::DOUBLE PRECISION)::TEXT
(100::DOUBLE PRECISION)::TEXT
(0.1::REAL)::TEXT
0.1::REAL::DOUBLE PRECISION
0.1::REAL = 0.1
0.1::REAL = 0.1::DOUBLE PRECISION
1.0::REAL / 3
16777217::REAL
16777217::REAL + 1
40000::SMALLINT
-32769::SMALLINT
3.7::INTEGER
-3.7::INTEGER
2.5::INTEGER
3.5::INTEGER
(-2.5)::INTEGER
(2.5::DOUBLE PRECISION)::INTEGER
(3.5::DOUBLE PRECISION)::INTEGER
(0.5::DOUBLE PRECISION)::BIGINT
(-0.5::DOUBLE PRECISION)::INTEGER
1e10::INTEGER
'1_000'::INTEGER
'0x10'::INTEGER
12345.678::NUMERIC(7,2)
12345.678::NUMERIC(6,2)
12345.678::NUMERIC(5)
99.995::NUMERIC(4,2)
1.005::NUMERIC(3,2)
TRUE::INTEGER
5::BOOLEAN
0::BOOLEAN
5::BIGINT::BOOLEAN
1.0::BOOLEAN
TRUE + 1
TRUE = 1
'5' + 3
'5' || 3
3 || '5'
3 || 5
TRUE || 'x'
1.50 || 'x'
5 + '3'
5 = '5'
5 > '4.5'
'abc' > 5
1 = 1.0
1 = TRUE
width_bucket(5.35, 0.024, 10.06, 5)
width_bucket(5, 0, 10, 5)
factorial(5)
factorial(20)
gcd(12, 18)
lcm(4, 6)
div(7, 2)
div(-7.5, 2)
trim_scale(1.500)
scale(1.500)
min_scale(1.500)
pi()
sqrt(2)
sqrt(-1)
ln(0)
ln(-1)
log(100)
log(2, 8)
log(2.0, 8.0)
exp(1)
exp(1.0)
power(2, 10)
power(2.0, 0.5)
power(9, 0.5)
sign(-3)
sign(-3.5)
sign(0::DOUBLE PRECISION)
cbrt(27)
asin(2)
acos(0.5)
cot(1)
sinh(1)
random() < 1
round(7)
round(7::BIGINT)
round(7.25, 1)
round(7.25::DOUBLE PRECISION, 1)
trunc(-7.89)
trunc(-7.89, 1)
trunc(1789, -2)
trunc(-7.89::DOUBLE PRECISION)
ceil(-7.5)
ceil(7)
floor(-7.5)
floor(7)
floor(7::BIGINT)
ceil(7.0001::DOUBLE PRECISION)
to_hex(255)
to_hex(-1)
greatest(1, 2.5)
greatest(1, 2::BIGINT)
least(1, 2.5::DOUBLE PRECISION)
numeric '1.5'
float8 '1.5'
int4 '15'
float4 '1.5'
CAST('12' AS int2)
CAST(1.5 AS FLOAT)
CAST(1.5 AS FLOAT(10))
CAST(1.5 AS FLOAT(40))
CAST(15 AS DEC(5,1))
pg_typeof(1)::TEXT
pg_typeof(1.5)::TEXT
pg_typeof(1e3)::TEXT
pg_typeof('a')::TEXT
pg_typeof(NULL)::TEXT
pg_typeof(10000000000)::TEXT
pg_typeof(1 / 2.0)::TEXT
pg_typeof(1::SMALLINT)::TEXT
pg_typeof(1::VARCHAR(5))::TEXT
pg_typeof('x'::BYTEA)::TEXT
pg_typeof(TRUE)::TEXT
32767::SMALLINT + 1
-32768::SMALLINT - 1::SMALLINT
(-32768)::SMALLINT / (-1)::SMALLINT
-((-32768)::SMALLINT)
abs((-32768)::SMALLINT)
7::SMALLINT % 0::SMALLINT
1::SMALLINT << 15
1::SMALLINT << 17
(-1)::SMALLINT >> 1
coalesce(30000::SMALLINT, 1::SMALLINT) + 30000::SMALLINT
coalesce(30000::SMALLINT, 1) + 30000::SMALLINT
CASE WHEN true THEN 30000::SMALLINT END * 2::SMALLINT
'{1,2}'::SMALLINT[]
'{1,40000}'::SMALLINT[]
('{32767,2}'::SMALLINT[])[1] + 1
ARRAY[1::SMALLINT, 40000::SMALLINT]
round(2147483647, -1)
trunc(2147483647::BIGINT, -1)
round(9223372036854775807, -1)
ceil(7) / 2
round(7) / 2
round(7, 0) / 2
floor(-7) / 2
nullif(1::SMALLINT, 2.5)
nullif('4', 2.567)
nullif(1, NULL)
nullif(0.1::REAL, 2.5::DOUBLE PRECISION)
(10 / 4.0) % 99999999999999999999
mod(10 / 4.0, -99999999999999999999)
12345678901234567890123456789012345678 % (22 / 7.0)
(10 / 4.0) % (99999999999999999999 - 99999999999999999999)
mod(NULL::NUMERIC(5,2), 99999999999999999999)
'1234567890123456789012345678901234567890.5'::numeric
12345678901234567890123456789012345678901234567890
12345678901234567890123456789012345678901234567890::TEXT
1::NUMERIC(50,2)
1e300::NUMERIC
1e20::NUMERIC
'1e20'::NUMERIC
'12345678901234567890123456789012345678'::NUMERIC
'x'::NUMERIC
0.000000000000000000000000000000000000001::NUMERIC
CAST('1.5' AS NUMERIC(38,2))
-1e300::NUMERIC
width_bucket(1234567890123456789012345678901.5, 1234567890123456789012345678901, 1e31, 3)
""".strip().splitlines()


def numbers() -> Iterator[str]:
    yield from (f"{a} {sign} {b}" for sign in OPERATORS for a, b in product(OPERANDS, OPERANDS))
    yield from (f"{a} {sign} {zero}" for a, sign in product(OPERANDS, "/%") for zero in ZEROS)
    for function in FUNCTIONS:
        yield from (f"{function}({value})" for value in SMALL)
    for function in PAIRS:
        yield from (f"{function}({a}, {b})" for a, b in product(SMALL[:6], SMALL[:4]))
    for value in ROUNDED:
        yield from (f"round({value}, {places})" for places in (0, 1, 2, -1, -2))
        yield from (f"{function}({value})" for function in ("round", "trunc", "ceil", "floor"))
        yield f"trunc({value}, 1)"
        yield f"CAST({value} AS INTEGER)"
    for type_ in CAST_TYPES:
        yield from (f"CAST({value} AS {type_})" for value in CAST_VALUES)
    yield from OTHERS
