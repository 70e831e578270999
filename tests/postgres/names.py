"""Queries, and the names that PostgreSQL gives to their columns.

`python -m tests.postgres.ask` records the answers, each of them names or a SQLSTATE.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

FIXTURE = Path(__file__).parent / "fixtures" / "names.json"
EXPRESSIONS = """
a
t.a
(a)
a + 1
-a
1
1.5
'x'
NULL
TRUE
count(*)
count(a)
count(*) FILTER (WHERE a > 1)
sum(a) OVER ()
max(a) - min(a)
rank() OVER (ORDER BY a)
percentile_cont(0.5) WITHIN GROUP (ORDER BY a)
every(a > 1)
lower(x)
UPPER(x)
substr(x, 1)
substring(x, 1, 2)
substring(x FROM 1 FOR 2)
trim(x)
trim(leading 'x' from x)
trim(trailing 'x' from x)
ltrim(x)
position('a' in x)
strpos(x, 'a')
overlay(x placing 'b' from 1 for 2)
left(x, 1)
length(x)
char_length(x)
concat(x, 'x')
x || 'x'
extract(year FROM ts)
date_part('year', ts)
date_trunc('month', ts)
ts + INTERVAL '1 day'
interval '1 day' * 2
ts AT TIME ZONE 'UTC'
coalesce(a, 1)
coalesce(a, 1)::text
nullif(a, 1)
greatest(a, 1)
least(a, 1)
CASE WHEN a > 1 THEN 1 END
CASE WHEN a > 1 THEN 1 ELSE a END
CASE a WHEN 1 THEN 'x' ELSE lower(x) END
(CASE WHEN a > 1 THEN 1 END)::text
a::text
CAST(a AS bigint)
lower(x)::text
1::bigint
'1'::int
'1'::bool
1::real
1::smallint
1::decimal
1::float
'x'::char(3)
(a + 1)::text
(a + 1)::double precision
(a + 1)::numeric(5,2)
(a + 1)::varchar(3)
cast('{}' as jsonb)
DATE '2024-01-01'
INTERVAL '1 day'
TIMESTAMP '2024-01-01'
now()
now()::timestamptz
current_date
current_timestamp
localtimestamp
current_user
user
current_catalog
version()
pg_catalog.lower(x)
(SELECT max(a) FROM t)
(SELECT a + 1 FROM t LIMIT 1)
(SELECT 1 AS z)
(VALUES (5))
EXISTS (SELECT 1)
a IN (1,2)
a IN (SELECT p_id FROM p)
a = 1
a BETWEEN 1 AND 2
x LIKE 'x'
x ~ 'x'
a IS NULL
NOT (a = 1)
a IS DISTINCT FROM 1
k IS TRUE
a % 2
mod(a, 2)
power(a, 2)
pow(a, 2)
ceil(1.5)
ceiling(1.5)
round(a::numeric, 1)
abs(a)
jsonb_build_object('a', 1)
'{"a": 1}'::jsonb -> 'a'
'{"a": 1}'::jsonb ->> 'a'
"""
QUERIES = """
SELECT count FROM (SELECT count(*) FROM t) x
SELECT * FROM (SELECT count(*), count(a) FROM t) x
SELECT x.count FROM (SELECT count(*), count(a) FROM t) x
SELECT x.max - x.min, max FROM (SELECT max(a), min(a) FROM t) x
WITH c AS (SELECT max(a) FROM t) SELECT max FROM c
WITH c (m) AS (SELECT max(a) FROM t) SELECT m, * FROM c
SELECT k, count(*) FROM t GROUP BY k ORDER BY count
SELECT lower(x) FROM t GROUP BY lower
SELECT lower(x) FROM t WHERE lower = 'x'
SELECT k, count(*) FROM t GROUP BY k HAVING count > 1
SELECT count(*), count(a) FROM t GROUP BY k ORDER BY count
SELECT a AS b, b AS b FROM t ORDER BY b
SELECT -a AS a FROM t ORDER BY a
SELECT DISTINCT ON (lower(x)) lower(x) FROM t ORDER BY lower
SELECT a + 1 FROM t UNION SELECT 9 ORDER BY "?column?"
SELECT count(*) FROM t UNION ALL SELECT 9 ORDER BY count
SELECT 1 AS one UNION SELECT count(*) FROM t
VALUES (1, 'x')
VALUES (2, 'x'), (1, 'y') ORDER BY column1
SELECT column2 FROM (VALUES (1, 'x')) v
SELECT * FROM (VALUES (1, 'x')) v (n)
WITH v AS (VALUES (1, 'x')) SELECT column1 FROM v
SELECT "A", a FROM (SELECT 1 AS a, 2 AS "A") x
SELECT * FROM (SELECT t.a, p.p_id AS a FROM t, p) x
SELECT x.a FROM (SELECT t.a, p.p_id AS a FROM t, p) x
SELECT * FROM generate_series(1, 2)
INSERT INTO p VALUES (9, 'x') RETURNING p_id + 1, upper(p_name), p_name, 'x' || p_name
UPDATE p SET p_name = 'y' WHERE p_id = 9 RETURNING p_name::varchar(3), p_id::text || 'x', *
DELETE FROM p WHERE p_id = 9 RETURNING coalesce(p_name, ''), (p_id)
"""


def named() -> Iterator[str]:
    """The statements whose columns are asked."""
    for expression in EXPRESSIONS.strip().splitlines():
        yield f"SELECT {expression} FROM t"
    yield from QUERIES.strip().splitlines()


def recorded_names() -> dict[str, list[str] | str]:
    """The names of the columns of each statement, or the SQLSTATE of its error."""
    found: dict[str, list[str] | str] = json.loads(FIXTURE.read_text())
    return found


def record_names(answers: dict[str, list[str] | str]) -> None:
    lines = (f"{json.dumps(sql)}: {json.dumps(names)}" for sql, names in answers.items())
    FIXTURE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
