"""Expressions of comparison, three-valued logic, and choice."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

TRUTHS = ("TRUE", "FALSE", "NULL")
COMPARED = (
    "1", "1::BIGINT", "1.0", "1.5", "1::DOUBLE PRECISION", "'1'", "'a'", "TRUE", "NULL",
    "DATE '2024-02-29'", "TIMESTAMP '2024-02-29'", "'2024-02-29'", "1::TEXT",
)  # fmt: skip
CHOSEN = (
    "1", "2.50", "3::BIGINT", "1.5::DOUBLE PRECISION", "'4'", "'a'", "NULL", "TRUE",
    "DATE '2024-02-29'",
)  # fmt: skip

OTHERS = """
1 = NULL
NULL = NULL
NULL IS NULL
NOT NULL
1 IN (1, 2)
3 IN (1, 2)
3 IN (1, NULL)
1 IN (1, NULL)
NULL IN (1, 2)
3 NOT IN (1, NULL)
NULL NOT IN (1)
1 IN ('1', '2')
1 = ANY (ARRAY[1, 2])
3 = ANY (ARRAY[1, NULL])
1 <> ALL (ARRAY[2, 3])
1 < ALL (ARRAY[2, 3])
1 > ANY (ARRAY[0, 3])
2 BETWEEN 1 AND 3
2 BETWEEN 3 AND 1
2 BETWEEN SYMMETRIC 3 AND 1
2 NOT BETWEEN 1 AND 3
2 BETWEEN 1 AND NULL
0 BETWEEN 1 AND NULL
1 IS DISTINCT FROM NULL
NULL IS DISTINCT FROM NULL
1 IS NOT DISTINCT FROM 1
1 IS DISTINCT FROM 2
(1, 2) = (1, 2)
(1, 2) < (1, 3)
(1, NULL) = (1, 2)
(1, NULL) = (2, 2)
(1, NULL) < (2, 1)
(2, 1) < (1, NULL)
(1, 2) IN ((1, 2), (3, 4))
(1, 2) IS NULL
(NULL, NULL) IS NULL
(1, NULL) IS NOT NULL
ROW(1, 2) = ROW(1, 2)
(1, 2) = (1, 2, 3)
(1, 2) IS DISTINCT FROM (1, 2)
CASE WHEN TRUE THEN 1 ELSE 2 END
CASE WHEN NULL THEN 1 ELSE 2 END
CASE WHEN FALSE THEN 1 END
CASE 1 WHEN 1 THEN 'a' WHEN 2 THEN 'b' END
CASE NULL WHEN NULL THEN 1 ELSE 2 END
CASE WHEN 1 = 1 THEN 1 ELSE 2.5 END
CASE WHEN 1 = 1 THEN 1 ELSE 2.5::DOUBLE PRECISION END
CASE WHEN 1 = 1 THEN 1 ELSE 'a' END
CASE WHEN 1 = 1 THEN '1' ELSE 2 END
CASE WHEN 1 = 1 THEN 1 ELSE NULL END
CASE WHEN 1 = 1 THEN 1 ELSE 1 / 0 END
CASE WHEN 1 = 2 THEN 1::SMALLINT ELSE 2 END
CASE 1.0 WHEN 1 THEN 'same' END
CASE 'a' WHEN 'A' THEN 1 ELSE 0 END
CASE WHEN 1 THEN 2 END
coalesce(NULL)
coalesce(NULL, NULL)
coalesce(1, 1 / 0)
nullif(1, 1)
nullif(1, 2)
nullif(1, NULL)
nullif(NULL, 1)
nullif(1.0, 1)
nullif('', '')
greatest(1, NULL, 3)
greatest(NULL, NULL)
least(1, NULL, 3)
greatest('a', 'b', NULL)
num_nulls(1, NULL, 2)
num_nonnulls(1, NULL, 2)
TRUE AND 1
1 AND 1
NOT 1
TRUE > FALSE
'yes'::BOOLEAN
'o'::BOOLEAN
'on'::BOOLEAN
TRUE::TEXT
TRUE::INTEGER::BOOLEAN
TRUE = 't'
TRUE = 'yes'
TRUE IN ('t', 'f')
bool 'yes'
(1 = 1) = TRUE
1 = 1 = TRUE
1 < 2 < 3
1 = 2 IS FALSE
NOT 1 = 2
NOT TRUE AND FALSE
1 + 1 = 2 AND 2 > 1
2 > 1 IS NOT NULL
'a' = 'a' IS TRUE
- 2 ^ 2
2 + 2 || 'x'
'x' || 2 + 2
1 IS NULL = FALSE
5 % 3 * 2
10 - 3 - 2
2 * 3 % 4
1 <> 2
1 != 2
1 <=> 2
1 == 1
EXISTS (SELECT 1)
EXISTS (SELECT 1 WHERE FALSE)
NOT EXISTS (SELECT NULL)
(SELECT 1)
(SELECT 1 WHERE FALSE)
(SELECT 1 UNION ALL SELECT 2)
1 IN (SELECT 1)
1 IN (SELECT NULL::INTEGER)
2 NOT IN (SELECT NULL::INTEGER)
1 IN (SELECT 1 WHERE FALSE)
NULL IN (SELECT 1 WHERE FALSE)
1 = ALL (SELECT 1 WHERE FALSE)
1 = ANY (SELECT 1 WHERE FALSE)
1 < ALL (SELECT NULL::INTEGER)
ARRAY[1, 2, 3]
ARRAY[1, 2, 3]::TEXT
ARRAY[1, 2, 3] = ARRAY[1, 2, 3]
(ARRAY[1, 2, 3])[2]
(ARRAY[1, 2, 3])[0]
(ARRAY[1, 2, 3])[2:3]::TEXT
(ARRAY[1, 2, 3])[-1]
ARRAY['a', NULL]::TEXT
ARRAY[1, 2] || 3
(ARRAY[1, 2] || 3)::TEXT
(ARRAY[1, 2] || ARRAY[3])::TEXT
array_length(ARRAY[1, 2, 3], 1)
array_length(ARRAY[]::INTEGER[], 1)
cardinality(ARRAY[1, 2])
array_position(ARRAY['a', 'b'], 'b')
array_append(ARRAY[1], 2)::TEXT
array_prepend(0, ARRAY[1])::TEXT
array_remove(ARRAY[1, 2, 1], 1)::TEXT
ARRAY[1, 2] @> ARRAY[1]
ARRAY[1, 2] && ARRAY[2, 3]
'{1,2}'::INTEGER[]::TEXT
array_to_string('{1,2}'::INTEGER[], '-')
array_upper(ARRAY[1, 2], 1)
current_user = current_user
current_user = session_user AND user = current_role
version() IS NOT NULL
version() LIKE '%PostgreSQL 15%'
current_schema
current_schema()
pg_catalog.current_schema()
current_database() = current_catalog
pg_catalog.lower('ABC')
NOT 1
1 AND TRUE
TRUE OR 0
1 IS TRUE
SELECT a FROM t WHERE a
SELECT a FROM t WHERE 1
SELECT a FROM t WHERE n
SELECT a FROM t WHERE NOT a
SELECT a FROM t WHERE a AND k
SELECT a FROM t WHERE 'true' AND id = 1
SELECT a FROM t WHERE NULL
SELECT CASE WHEN a THEN 1 END FROM t
SELECT a FROM t GROUP BY a HAVING a
SELECT t.a FROM t JOIN p ON p_id
SELECT count(*) FILTER (WHERE a) FROM t
SELECT a FROM t WHERE coalesce(a, 0)
SELECT a FROM t WHERE a + 1
SELECT a FROM t WHERE a IS TRUE
SELECT a FROM t WHERE k IS TRUE AND NOT k IS NULL
SELECT id FROM t WHERE (SELECT k FROM t WHERE id = 1) AND id = 1
TRUE AND length('x')
TRUE AND row_number() OVER ()
TRUE OR random()
NOT upper('t')
TRUE AND coalesce(NULL, 't')
TRUE AND coalesce(TRUE, 't')
TRUE AND CASE WHEN TRUE THEN 't' ELSE 'f' END
TRUE AND (SELECT 't')
TRUE AND '{"a":true}'::JSONB -> 'a'
TRUE AND '{"a":true}'::JSON ->> 'a'
TRUE AND 5 & 1
TRUE AND ~5
TRUE AND 2 ^ 3
TRUE AND sign(-1)
TRUE AND position('a' IN 'b')
TRUE AND starts_with('ab', 'a')
CASE WHEN length('a') THEN 2 END
length('a') IS TRUE
length('a') IS UNKNOWN
1 IS UNKNOWN
NULL IS NOT UNKNOWN
SELECT 1 WHERE 't'
SELECT 1 WHERE 't'::TEXT
SELECT 1 WHERE current_date
SELECT 1 HAVING count(*)
SELECT id FROM t WHERE x
SELECT id FROM t WHERE length(x) % 2
SELECT id FROM t WHERE length(x) % 2 = 1 AND ascii(x) > 0
SELECT count(*) FILTER (WHERE ascii(x)) FROM t
SELECT t.a FROM t JOIN p ON length(x)
SELECT id FROM (SELECT id, length(x) AS l FROM t) s WHERE l
5::SMALLINT & 3::SMALLINT
(5 & 1) / 2
~5 / 2
sign(-3) / 2
sqrt(2) + 1
power(10::DOUBLE PRECISION, 308) * 10
""".strip().splitlines()


def conditions() -> Iterator[str]:
    yield from (f"{a} {word} {b}" for word in ("AND", "OR") for a, b in product(TRUTHS, TRUTHS))
    yield from (f"NOT {a}" for a in TRUTHS)
    for test in ("TRUE", "FALSE", "UNKNOWN", "NULL", "NOT TRUE", "NOT FALSE", "NOT UNKNOWN"):
        yield from (f"{a} IS {test}" for a in TRUTHS)
    yield from (f"{a} = {b}" for a, b in product(COMPARED, COMPARED))
    yield from (f"{a} < {b}" for a, b in product(COMPARED[:8], COMPARED[:8]))
    yield from (f"coalesce({a}, {b})" for a, b in product(CHOSEN, CHOSEN))
    yield from (f"greatest({a}, {b})" for a, b in product(CHOSEN, CHOSEN))
    yield from (f"nullif({a}, {b})" for a, b in product(CHOSEN[:6], CHOSEN[:6]))
    yield from (f"CASE WHEN FALSE THEN {a} ELSE {b} END" for a, b in product(CHOSEN, CHOSEN))
    yield from OTHERS
