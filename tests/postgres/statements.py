"""Queries over small tables and VALUES."""

# ruff: noqa: E501 (a case is one line)

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

TABLES = (
    "CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b BIGINT, s SMALLINT, n NUMERIC(10,2),"
    " d DOUBLE PRECISION, r REAL, x TEXT, c CHAR(4), v VARCHAR(10), k BOOLEAN, day DATE,"
    " ts TIMESTAMP, z TIMESTAMPTZ, u UUID, raw BYTEA)",
    "CREATE TABLE p (p_id INTEGER PRIMARY KEY, p_name TEXT, p_group INTEGER)",
    "CREATE TABLE q (q_id INTEGER PRIMARY KEY, q_p_id INTEGER, q_amount NUMERIC(8,2), q_kind TEXT)",
)
ROWS = (
    "INSERT INTO t VALUES"
    " (1, 7, 7000000000, 3, 1.50, 0.5, 0.25, 'apple', 'ab', 'one', TRUE, '2024-01-31',"
    " '2024-01-31 10:00:00', '2024-01-31 10:00:00+00', '00000000-0000-0000-0000-000000000001', '\\x01'),"
    " (2, -7, -5, -3, -2.25, -1.25, -0.5, 'Banana', 'abcd', 'two', FALSE, '2024-02-29',"
    " '2024-02-29 23:59:59.5', '2024-02-29 23:59:59.5+00', '00000000-0000-0000-0000-000000000002', '\\x'),"
    " (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),"
    " (4, 2, 2, 2, 2.50, 2.5, 2.5, '', '', '', TRUE, '1999-12-31', '1999-12-31 00:00:00',"
    " '1999-12-31 00:00:00+00', 'ffffffff-ffff-ffff-ffff-ffffffffffff', '\\xff00'),"
    " (5, 2, 2, 2, 3.50, 2.5, 2.5, 'a%b_c', 'a', 'apple', FALSE, '2024-02-29',"
    " '2024-02-29 00:00:00', '2024-02-29 00:00:00+00', '00000000-0000-0000-0000-000000000001', '\\x01'),"
    " (6, 0, 0, 0, 0.00, 0, 0, 'äpfel', 'ä', 'Zug', NULL, '2023-06-15', '2023-06-15 12:30:45.123456',"
    " '2023-06-15 12:30:45.123456+00', NULL, NULL)",
    "INSERT INTO p VALUES (1, 'one', 10), (2, 'two', 10), (3, NULL, 20), (4, 'four', NULL)",
    "INSERT INTO q VALUES (1, 1, 10.00, 'x'), (2, 1, 20.50, 'y'), (3, 2, NULL, 'x'),"
    " (4, NULL, 5.25, NULL), (5, 2, 10.00, 'z'), (6, 9, 1.00, 'x')",
)

NUMBERS = ("a", "b", "s", "n", "d", "r")
ALL = (*NUMBERS, "x", "c", "v", "k", "day", "ts", "z", "u", "raw")
AGGREGATES = ("count", "min", "max")
OF_NUMBERS = (
    "sum", "avg", "stddev", "stddev_pop", "variance", "var_pop", "bit_and", "bit_or", "bit_xor",
)  # fmt: skip
OF_BOOLEANS = ("bool_and", "bool_or", "every")
WINDOWS = (
    "row_number() OVER (ORDER BY id)", "rank() OVER (ORDER BY a)", "dense_rank() OVER (ORDER BY a)",
    "percent_rank() OVER (ORDER BY id)", "cume_dist() OVER (ORDER BY id)", "ntile(2) OVER (ORDER BY id)",
    "ntile(4) OVER (ORDER BY id DESC)", "lag(a) OVER (ORDER BY id)", "lag(a, 2) OVER (ORDER BY id)",
    "lag(a, 2, -1) OVER (ORDER BY id)", "lead(x) OVER (ORDER BY id)", "lead(a, 0) OVER (ORDER BY id)",
    "first_value(a) OVER (ORDER BY id)", "last_value(a) OVER (ORDER BY id)",
    "last_value(a) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)",
    "nth_value(a, 2) OVER (ORDER BY id)", "sum(a) OVER ()", "sum(a) OVER (ORDER BY id)",
    "sum(a) OVER (PARTITION BY k ORDER BY id)", "sum(n) OVER (ORDER BY a)",
    "avg(a) OVER (ORDER BY id)", "avg(n) OVER (PARTITION BY k)", "count(*) OVER (PARTITION BY day)",
    "count(a) OVER (ORDER BY id)", "min(x) OVER (ORDER BY id)", "max(day) OVER (ORDER BY id)",
    "sum(a) OVER (ORDER BY id ROWS 1 PRECEDING)",
    "sum(a) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
    "sum(a) OVER (ORDER BY id RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)",
    "sum(a) OVER (ORDER BY a RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
    "sum(a) OVER (ORDER BY a GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW)",
    "sum(a) FILTER (WHERE a > 0) OVER (ORDER BY id)", "row_number() OVER (ORDER BY id DESC)",
    "row_number() OVER w", "lag(x, 1, 'none') OVER (PARTITION BY k ORDER BY id)",
    "sum(d) OVER (ORDER BY id)", "count(*) OVER ()", "string_agg(x, ',') OVER (ORDER BY id)",
)  # fmt: skip
SETS = (
    "SELECT a FROM t", "SELECT s FROM t", "SELECT n FROM t", "SELECT p_group FROM p",
    "SELECT NULL",
)  # fmt: skip
ORDERS = (
    "a, id", "a DESC, id", "a NULLS FIRST, id", "a DESC NULLS LAST, id", "x, id", "x DESC, id",
    "k, id", "day DESC, id", "lower(x), id", "c, id", "n + 1 DESC, id", "a % 2, id", "raw, id",
    "u DESC, id", "2, 1", "a IS NULL, id DESC",
)  # fmt: skip
COLUMNS = """
a + b
a + s
a + n
a + d
a * n
a - n
n * n
n + n
n / 2
a / 2
a / NULLIF(s, 0)
d / 2
a % 3
-a
abs(n)
round(n)
round(n, 1)
round(d)
round(n * 1.005, 2)
round((d * 3)::NUMERIC, 2)
trunc(n)
ceil(n)
floor(d)
ceil(d)
sqrt(abs(a))
power(a, 2)
a::NUMERIC
a::TEXT
n::TEXT
d::TEXT
r::TEXT
b::DOUBLE PRECISION
n::INTEGER
d::INTEGER
r::INTEGER
n::DOUBLE PRECISION
d::NUMERIC(10,1)
a::SMALLINT
s::INTEGER
k::TEXT
k::INTEGER
a::BOOLEAN
day::TEXT
ts::TEXT
z::TEXT
ts::DATE
day::TIMESTAMP
ts::TIMESTAMPTZ
z::TIMESTAMP
u::TEXT
raw::TEXT
x || c
x || v
c || '|'
x || a
x || n
x || k
x || day
length(c)
length(v)
length(x)
upper(x)
lower(x)
c = 'ab'
c = 'ab  '
c LIKE 'ab'
c LIKE 'ab%'
v LIKE '%e'
x LIKE 'a\\%b%'
x LIKE '%\\_%'
x LIKE 'a!%%' ESCAPE '!'
x ILIKE 'BA%'
x ILIKE 'Ä%'
x SIMILAR TO '%(pp|na)%'
x ~ '^a'
x ~* '^B'
substring(x, 2, 2)
substring(x FROM 2)
substr(x, -1, 4)
left(x, -1)
right(x, -1)
left(x, 2)
right(x, 2)
trim(c)
rtrim(x, 'e')
replace(x, 'a', 'b')
split_part(x, 'a', 2)
strpos(x, 'a')
position('n' IN x)
lpad(v, 5, '*')
initcap(x)
reverse(x)
concat(x, a, n)
concat_ws('-', x, a, k)
md5(x)
coalesce(a, 0)
coalesce(a, n)
coalesce(x, v, 'none')
nullif(a, 2)
greatest(a, s)
greatest(a, n, d)
least(a, s, 0)
greatest(x, v)
CASE WHEN a > 0 THEN 'pos' WHEN a < 0 THEN 'neg' ELSE 'none' END
CASE a WHEN 2 THEN n ELSE 0 END
CASE WHEN k THEN a ELSE n END
a > 1 AND k
a > 1 OR k
NOT k
k IS NOT TRUE
a IN (2, 7)
a NOT IN (2, NULL)
a BETWEEN 0 AND 5
a = n
n = 2.5
d = 2.5
r = 2.5
a > 1.5
x > 'B'
x = 'apple'
day > '2024-01-31'
day = ts
ts > '2024-02-29'
day + 1
day - 1
day - DATE '2024-01-01'
day + INTERVAL '1 month'
ts + INTERVAL '1 day'
ts - INTERVAL '1 hour'
(ts - TIMESTAMP '2024-01-01')::TEXT
(ts - day)::TEXT
extract(year FROM day)
extract(month FROM ts)
extract(second FROM ts)
extract(dow FROM day)
extract(epoch FROM ts)
date_part('day', ts)
date_part('second', ts)
date_trunc('month', ts)
date_trunc('month', day)
date_trunc('hour', z)
date_trunc('week', day)
to_char(ts, 'YYYY-MM-DD HH24:MI:SS')
to_char(day, 'DD.MM.YYYY')
age(ts, TIMESTAMP '2023-01-01')::TEXT
ts AT TIME ZONE 'UTC'
z AT TIME ZONE 'UTC'
u = '00000000-0000-0000-0000-000000000001'
encode(raw, 'hex')
raw = '\\x01'
length(raw)
octet_length(x)
a IS DISTINCT FROM s
(a, s) < (2, 3)
a & 3
a | 1
a << 1
mod(a, 4)
sign(n)
ln(abs(a) + 1)
exp(d)
a ^ 2
n ^ 2
""".strip().splitlines()

OTHERS = """
SELECT * FROM p ORDER BY p_id
SELECT count(*), count(a), count(DISTINCT a), count(DISTINCT k) FROM t
SELECT sum(a), sum(n), avg(n) FROM t WHERE FALSE
SELECT count(*) FROM t WHERE FALSE
SELECT count(*) FROM t WHERE FALSE GROUP BY a
SELECT k, count(*), sum(a), avg(a) FROM t GROUP BY k ORDER BY k
SELECT k, max(x), min(day) FROM t GROUP BY k ORDER BY 1 DESC
SELECT a, count(*) FROM t GROUP BY a HAVING count(*) > 1
SELECT a % 2 AS odd, count(*) FROM t GROUP BY odd ORDER BY odd
SELECT a % 2, count(*) FROM t GROUP BY 1 ORDER BY 1
SELECT k, day, count(*) FROM t GROUP BY k, day ORDER BY k, day
SELECT k, day, count(*) FROM t GROUP BY ROLLUP (k, day) ORDER BY 1, 2, 3
SELECT k, a, count(*) FROM t GROUP BY CUBE (k, a) ORDER BY 1, 2, 3
SELECT k, a, count(*) FROM t GROUP BY GROUPING SETS ((k), (a), ()) ORDER BY 1, 2, 3
SELECT k, grouping(k), count(*) FROM t GROUP BY ROLLUP (k) ORDER BY 1, 2
SELECT id, a FROM t GROUP BY id ORDER BY id
SELECT a, n FROM t GROUP BY a
SELECT p_id, p_name, count(q_id) FROM p LEFT JOIN q ON p_id = q_p_id GROUP BY p_id ORDER BY p_id
SELECT upper(p.p_name), sum(q_amount) FROM p JOIN q ON p_id = q_p_id GROUP BY p.p_id HAVING p_group = 10 ORDER BY p_name
SELECT p_id AS i, p_name FROM p GROUP BY i ORDER BY p_group, 1
SELECT q_kind, p_name, count(*) FROM p JOIN q ON p_id = q_p_id GROUP BY 1, p_id ORDER BY 1, p_id
SELECT p_id, sum(count(*)) OVER (PARTITION BY p_group) FROM p GROUP BY p_id ORDER BY 1
SELECT p_id, (SELECT max(q_amount) FROM q WHERE q_kind = p_name OR q_p_id = p_id) FROM p GROUP BY p_id ORDER BY 1
SELECT a.p_name, b.p_name FROM p a, p b GROUP BY a.p_id ORDER BY 1
SELECT p_name FROM p GROUP BY ROLLUP (p_id) ORDER BY 1
SELECT s.id, s.a FROM (SELECT id, a FROM t) s GROUP BY s.id
SELECT a AS n, count(*) FROM t GROUP BY n ORDER BY 1, 2
SELECT string_agg(x, ',' ORDER BY x) FROM t
SELECT string_agg(x, ',' ORDER BY id DESC) FROM t
SELECT string_agg(DISTINCT v, '-' ORDER BY v) FROM t
SELECT string_agg(a::TEXT, ',' ORDER BY a DESC) FROM t
SELECT array_agg(a ORDER BY a)::TEXT FROM t
SELECT array_to_string(array_agg(id ORDER BY id), ',') FROM t
SELECT count(*) FILTER (WHERE a > 0), sum(a) FILTER (WHERE k) FROM t
SELECT sum(DISTINCT a), avg(DISTINCT a) FROM t
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a) FROM t
SELECT percentile_cont(0.25) WITHIN GROUP (ORDER BY d) FROM t
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY a) FROM t
SELECT percentile_disc(0.3) WITHIN GROUP (ORDER BY x) FROM t
SELECT mode() WITHIN GROUP (ORDER BY a) FROM t
SELECT corr(a, d), covar_pop(a, d), covar_samp(a, d) FROM t
SELECT regr_slope(a, d), regr_intercept(a, d), regr_r2(a, d), regr_count(a, d) FROM t
SELECT json_agg(id ORDER BY id)::TEXT FROM t
SELECT json_object_agg(id, a)::TEXT FROM t WHERE id < 3
SELECT max(a) - min(a), sum(a) / count(a), sum(a) * 1.0 / count(*) FROM t
SELECT avg(a)::NUMERIC(10,2), round(avg(n), 2), sum(n)::INTEGER FROM t
SELECT k, avg(n) FROM t GROUP BY k HAVING avg(n) > 1 ORDER BY k NULLS LAST
SELECT avg(n) * 2, avg(n) + avg(a), avg(n) / 3, -avg(n), abs(avg(n)), avg(n) * avg(a) FROM t
SELECT avg(x) FROM (SELECT avg(n) AS x FROM t GROUP BY k) s
SELECT avg(a) FILTER (WHERE a > 2), avg(n) FILTER (WHERE FALSE) FROM t
SELECT avg(a % 3), avg(mod(a, 3)), avg(a * n), avg(CASE WHEN k THEN 1 ELSE 0 END) FROM t
SELECT id, n > (SELECT avg(n) FROM t) FROM t ORDER BY id
SELECT k, variance(n), stddev(n) FROM t GROUP BY k ORDER BY k NULLS LAST
SELECT stddev_samp(a), var_samp(s), stddev(DISTINCT a), var_pop(n) FILTER (WHERE n > 0) FROM t
SELECT id, stddev(a) OVER (ORDER BY id), var_pop(n) OVER (PARTITION BY k) FROM t ORDER BY id
SELECT round(stddev(n), 3), variance(n + 1), round(stddev(n / 3), 18), stddev(a) * 2 FROM t
SELECT stddev(a), variance(n) FROM t WHERE id = 1
SELECT sum(extract(month FROM day)), avg(extract(month FROM day)) FROM t
SELECT id, (extract(month FROM day) - 1) / 3, extract(epoch FROM ts) * 1000 FROM t ORDER BY id
SELECT extract(month FROM day) / 2 AS h, count(*) FROM t GROUP BY h ORDER BY h
SELECT y / 3 FROM (SELECT extract(year FROM day) AS y FROM t WHERE id < 3) s
SELECT avg(extract(epoch FROM ts)), max(extract(epoch FROM ts)) FROM t
SELECT max(k::INTEGER), min(c) FROM t
SELECT sum(a) + NULL FROM t
SELECT DISTINCT a FROM t ORDER BY a
SELECT DISTINCT a FROM t ORDER BY a DESC
SELECT DISTINCT ON (k) k, id FROM t ORDER BY k, id DESC
SELECT DISTINCT ON (k) k, id FROM t ORDER BY k NULLS FIRST, id
SELECT id FROM t ORDER BY a LIMIT 3
SELECT id FROM t ORDER BY a DESC, id LIMIT 3
SELECT id FROM t ORDER BY id LIMIT 2 OFFSET 1
SELECT id FROM t ORDER BY id OFFSET 4
SELECT id FROM t ORDER BY id LIMIT 0
SELECT id FROM t ORDER BY id LIMIT NULL
SELECT id FROM t ORDER BY id LIMIT ALL
SELECT id FROM t ORDER BY id LIMIT -1
SELECT id FROM t ORDER BY id LIMIT 1 + 1
SELECT id FROM t ORDER BY id FETCH FIRST 2 ROWS ONLY
SELECT id FROM t ORDER BY id OFFSET 1 ROW FETCH NEXT ROW ONLY
SELECT a FROM t ORDER BY a FETCH FIRST 2 ROWS WITH TIES
SELECT id AS a FROM t ORDER BY a
SELECT -id AS id FROM t ORDER BY id
SELECT id, -id AS m FROM t ORDER BY m + 0
SELECT id FROM t ORDER BY 3
SELECT id FROM t WHERE a = 2 ORDER BY n DESC
SELECT id FROM t WHERE a = NULL
SELECT id FROM t WHERE a IS NULL
SELECT id FROM t WHERE NOT (a = 2) ORDER BY id
SELECT id FROM t WHERE a NOT IN (2, NULL)
SELECT id FROM t WHERE x LIKE 'a%' ORDER BY id
SELECT id FROM t WHERE k ORDER BY id
SELECT id FROM t WHERE k IS NOT TRUE ORDER BY id
SELECT id FROM t WHERE day = '2024-02-29' ORDER BY id
SELECT id FROM t WHERE c = 'ab' ORDER BY id
SELECT id FROM t WHERE c = 'ab  ' ORDER BY id
SELECT id FROM t WHERE v = 'one ' ORDER BY id
SELECT id FROM t WHERE r = 0.25 ORDER BY id
SELECT id FROM t WHERE (a, s) = (2, 2) ORDER BY id
SELECT id FROM t WHERE a > ALL (SELECT s FROM t WHERE s IS NOT NULL) ORDER BY id
SELECT id FROM t WHERE a IN (SELECT p_group / 5 FROM p) ORDER BY id
SELECT id FROM t WHERE a NOT IN (SELECT p_group FROM p) ORDER BY id
SELECT p_name, q_amount FROM p JOIN q ON p_id = q_p_id ORDER BY q_id
SELECT p_name, q_amount FROM p LEFT JOIN q ON p_id = q_p_id ORDER BY p_id, q_id
SELECT p_name, q_amount FROM p RIGHT JOIN q ON p_id = q_p_id ORDER BY q_id
SELECT p_id, q_id FROM p FULL JOIN q ON p_id = q_p_id ORDER BY p_id, q_id
SELECT count(*) FROM p CROSS JOIN q
SELECT count(*) FROM p, q WHERE p_id = q_p_id
SELECT p_id, sum(q_amount), count(q_id) FROM p LEFT JOIN q ON p_id = q_p_id GROUP BY p_id ORDER BY p_id
SELECT a.p_id, b.p_id FROM p a JOIN p b ON a.p_group = b.p_group AND a.p_id < b.p_id
SELECT p_id FROM p WHERE EXISTS (SELECT 1 FROM q WHERE q_p_id = p_id) ORDER BY p_id
SELECT p_id FROM p WHERE NOT EXISTS (SELECT 1 FROM q WHERE q_p_id = p_id) ORDER BY p_id
SELECT p_id, (SELECT max(q_amount) FROM q WHERE q_p_id = p_id) FROM p ORDER BY p_id
SELECT p_id, (SELECT count(*) FROM q WHERE q_p_id = p_id) FROM p ORDER BY p_id
SELECT p_id, (SELECT q_id FROM q WHERE q_p_id = p_id) FROM p ORDER BY p_id
SELECT * FROM p NATURAL JOIN (SELECT 1 AS p_id, 'z' AS extra) s
SELECT * FROM p JOIN (SELECT 1 AS p_id, 'z' AS extra) s USING (p_id)
SELECT p_id, n FROM p, LATERAL (SELECT count(*) AS n FROM q WHERE q_p_id = p_id) s ORDER BY p_id
SELECT p_id, q_id FROM p LEFT JOIN LATERAL (SELECT q_id FROM q WHERE q_p_id = p_id ORDER BY q_id LIMIT 1) s ON TRUE ORDER BY p_id
WITH w AS (SELECT a FROM t WHERE a > 0) SELECT sum(a) FROM w
WITH w (m) AS (SELECT a FROM t) SELECT count(m) FROM w
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT sum(n) FROM r
WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT n % 3 + 1 FROM r) SELECT n FROM r ORDER BY n
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) v (n, s) ORDER BY n
SELECT * FROM (VALUES (1), (2.5)) v (n) ORDER BY n
SELECT * FROM (VALUES (1), (NULL)) v (n)
SELECT * FROM (VALUES ('a'), (NULL)) v (n)
SELECT n + 1 FROM (VALUES (1), (NULL)) v (n) ORDER BY 1
VALUES (1, 'a'), (2, 'b') ORDER BY 1 DESC
VALUES (1, 2), (3)
VALUES (2), (2), (NULL) UNION SELECT a FROM t
SELECT a FROM t EXCEPT VALUES (2), (NULL)
SELECT * FROM generate_series(1, 3) g
SELECT * FROM generate_series(3, 1) g
SELECT * FROM generate_series(3, 1, -1) g
SELECT * FROM generate_series(1, 10, 4) g (n)
SELECT n FROM generate_series(DATE '2024-01-30', DATE '2024-02-02', INTERVAL '1 day') g (n)
SELECT * FROM unnest(ARRAY[1, 2, NULL]) u (n)
SELECT * FROM unnest(ARRAY['a', 'b']) WITH ORDINALITY u (v, i)
SELECT unnest(ARRAY[1, 2])
SELECT generate_series(1, 3)
SELECT 1 AS one, 2 AS two UNION SELECT 3, 4 ORDER BY one
SELECT 1 UNION SELECT 1.0
SELECT 1 UNION ALL SELECT 1.5
SELECT 1 UNION SELECT 'a'
SELECT '1' UNION SELECT 2
SELECT NULL UNION SELECT 1
SELECT 'a' UNION SELECT NULL
SELECT a FROM t UNION SELECT x FROM t
SELECT 1 UNION SELECT 2 INTERSECT SELECT 2
SELECT * FROM ((SELECT 1 UNION SELECT 2) INTERSECT SELECT 2) s
SELECT 1 UNION ALL SELECT 2 EXCEPT SELECT 1
SELECT * FROM ((SELECT a FROM t ORDER BY a LIMIT 1) UNION ALL (SELECT s FROM t ORDER BY s DESC LIMIT 1)) s
SELECT a FROM t UNION SELECT s FROM t ORDER BY a DESC LIMIT 2
SELECT count(*), 'x' FROM t
SELECT a, count(*) FROM t
SELECT sum(count(*)) OVER () FROM t GROUP BY k
SELECT k, sum(sum(a)) OVER (ORDER BY k) FROM t GROUP BY k ORDER BY k
SELECT id FROM (SELECT id, rank() OVER (ORDER BY n DESC) AS place FROM t) s WHERE place <= 2 ORDER BY id
SELECT id, row_number() OVER (ORDER BY a DESC, id) FROM t ORDER BY id
SELECT id, rank() OVER (PARTITION BY k ORDER BY n DESC) FROM t ORDER BY id
SELECT t.* FROM t WHERE FALSE
SELECT "id" FROM "t" WHERE "id" = 1
SELECT ID FROM T WHERE Id = 1
SELECT "ID" FROM t
SELECT nothing FROM t
SELECT 1 WHERE TRUE
SELECT 1 WHERE NULL
SELECT 1 FROM p WHERE 1 = 1 HAVING count(*) > 3
SELECT p_group, count(*) AS n FROM p GROUP BY p_group HAVING n > 1
SELECT p_id FROM p WHERE p_name > 'four' AND p_group IS NOT NULL ORDER BY p_id
SELECT a.id FROM t a, t b WHERE a.a = b.s AND a.id <> b.id ORDER BY 1
SELECT x FROM t WHERE x >= 'a' ORDER BY x
SELECT CAST(x AS INTEGER) FROM t
SELECT id FROM t WHERE CAST(n AS INTEGER) = 2 ORDER BY id
SELECT id / 2 AS half, count(*) FROM t GROUP BY id / 2 ORDER BY half
SELECT k, bool_and(a > 0), bool_or(a > 0) FROM t GROUP BY k ORDER BY k
SELECT DISTINCT c FROM t ORDER BY c
SELECT c, length(c), c || '|' FROM t WHERE id = 1
SELECT max(c) || '|' FROM t
SELECT date_trunc('month', day) AS m, count(*) FROM t GROUP BY m ORDER BY m
SELECT extract(year FROM day) AS y, count(*) FROM t GROUP BY y ORDER BY y
SELECT to_char(day, 'YYYY-MM') AS m, sum(n) FROM t GROUP BY m ORDER BY m
SELECT min(ts), max(z), max(u::TEXT), max(day) - min(day) FROM t
SELECT avg(day - DATE '2024-01-01') FROM t
SELECT sum(d) = sum(d::NUMERIC), sum(r) FROM t
SELECT TABLE_NAME FROM information_schema.tables WHERE table_name = 't'
SELECT sum(b) FROM t UNION ALL SELECT avg(b) FROM t
SELECT avg(b) FROM t UNION SELECT sum(b) FROM t ORDER BY 1
SELECT avg(b) FROM t EXCEPT SELECT sum(b) FROM t
SELECT sum(b) FROM t WHERE a = 2 INTERSECT SELECT avg(b) * 2 FROM t WHERE a = 2
SELECT * FROM (SELECT avg(a) AS x FROM t) y UNION ALL SELECT sum(b) FROM t UNION ALL SELECT 1.25
SELECT max(x) FROM (SELECT sum(b) AS x FROM t UNION ALL SELECT avg(b) FROM t) y
SELECT CASE WHEN count(*) = 6 THEN avg(b) ELSE sum(b) END FROM t
SELECT coalesce(avg(b), sum(b)), coalesce(sum(b) FILTER (WHERE FALSE), avg(a)) FROM t
SELECT greatest(avg(a), sum(b) / 1), least(sum(b), avg(b), 2.5), nullif(sum(b), avg(b)) FROM t
SELECT sum(b) = avg(b), sum(b) > avg(b), avg(a) BETWEEN -0.5 AND sum(b), avg(a) IN (0.8, sum(b)) FROM t
SELECT coalesce(sum(b), '1.5'), coalesce(n, '1.555') FROM t WHERE id = 3 GROUP BY n
SELECT x FROM (VALUES (CAST(3 AS NUMERIC(38,0))), (1.25)) v (x)
SELECT id, lag(b, 1, 2.5) OVER (ORDER BY id) FROM t ORDER BY id
SELECT id, lead(n, 1, 0.125) OVER (ORDER BY id) FROM t ORDER BY id
SELECT id, coalesce(lag(n) OVER (ORDER BY id) / 4, 0.5) FROM t ORDER BY id
SELECT x.s FROM (SELECT sum(b) AS s FROM t WHERE a = 2) x JOIN (SELECT avg(b) * 2 AS s FROM t WHERE a = 2) y ON x.s = y.s
WITH RECURSIVE r (x, i) AS (SELECT 1.0, 1 UNION ALL SELECT x / 4, i + 1 FROM r WHERE i < 3) SELECT x FROM r ORDER BY x
WITH RECURSIVE r (x, i) AS (SELECT 1.00, 1 UNION ALL SELECT x + 0.05, i + 1 FROM r WHERE i < 3) SELECT x FROM r ORDER BY x
WITH RECURSIVE r (x, i) AS (SELECT 1, 1 UNION ALL SELECT x + 0.5, i + 1 FROM r WHERE i < 3) SELECT x FROM r ORDER BY x
SELECT a FROM t FOR UPDATE
TABLE p
SELECT i FROM generate_subscripts(ARRAY[4,5,6], 1) AS i
SELECT i FROM generate_subscripts(ARRAY[4,5,6], 1, true) AS i
SELECT * FROM generate_subscripts(ARRAY[4,5,6], 1) WITH ORDINALITY
SELECT i FROM generate_subscripts(ARRAY[4,5,6], 2) AS i
SELECT id, i FROM t, generate_subscripts(ARRAY[id,id], 1) AS i WHERE id < 3 ORDER BY id, i
SELECT id, g.i FROM t CROSS JOIN LATERAL generate_subscripts(ARRAY[id,id], 1) AS g(i) WHERE id < 3 ORDER BY id, i
SELECT * FROM json_to_record('{"a":1}') AS (a int)
SELECT * FROM json_to_recordset('[{"a":1}]') AS (a int)
SELECT * FROM jsonb_to_record('{"a":1}') AS (a int)
SELECT * FROM jsonb_to_recordset('[{"a":1,"b":"x"}]') AS (a int, b text)
SELECT jsonb_to_recordset.a FROM jsonb_to_recordset('[{"a":1,"b":"x"}]') AS (a int, b text)
SELECT a FROM t, jsonb_to_record(to_jsonb(t.x)) AS (a int) WHERE false
SELECT id, r.b FROM t, jsonb_to_record('{"b":1}') AS r (b int) WHERE id = 1
SELECT * FROM json_extract_path('{"a":1}','a')
SELECT * FROM json_build_array(1,2)
SELECT * FROM jsonb_build_array(1,2)
SELECT * FROM json_build_object('a',2) AS j
SELECT x FROM json_typeof('1') AS x
SELECT * FROM jsonb_set('{"a":1}', '{b}', '2')
SELECT * FROM lower('X')
SELECT * FROM abs(-3) AS n
SELECT n + 1 FROM abs(-3) AS n
SELECT * FROM abs(-3) WITH ORDINALITY AS q (n, o)
SELECT * FROM coalesce(NULL, 5) AS n
SELECT id, u FROM t, upper(x) AS u WHERE id < 3 ORDER BY id
SELECT * FROM sum(1)
SELECT * FROM count(*)
SELECT * FROM abs(-3) AS q (n, o)
SELECT * FROM power(2, 3), upper('a') AS u
SELECT * FROM jsonb_array_length('[1,2]')
SELECT * FROM round(2.5) AS r JOIN t ON t.id = r ORDER BY 1
SELECT count(*) FROM now()
SELECT * FROM array_length(ARRAY[1,2], 1)
SELECT * FROM to_jsonb(5) AS x WHERE x = '5'
SELECT * FROM generate_series(1,2) AS g, generate_subscripts(ARRAY[7], 1) AS i
SELECT * FROM substring('abc', 2) AS s
SELECT 2 UNION SELECT '1'
SELECT '1' UNION ALL SELECT a FROM t WHERE id = 1
SELECT a FROM t WHERE id = 1 UNION ALL SELECT '8'
SELECT '2024-01-31' UNION SELECT day FROM t WHERE id = 1
SELECT '7' INTERSECT SELECT a FROM t
SELECT a FROM t EXCEPT SELECT '7'
SELECT 'x' UNION SELECT 2
SELECT a FROM t WHERE id = 1 UNION SELECT 'x'
SELECT '1' UNION SELECT '2' UNION SELECT 3
SELECT x FROM (SELECT '1' AS x) AS s UNION SELECT 3
SELECT n FROM t WHERE id = 1 UNION SELECT '1.2345' ORDER BY 1
SELECT k FROM t WHERE id = 1 UNION SELECT 'no' ORDER BY 1
SELECT x FROM t WHERE id = 1 UNION SELECT a FROM t WHERE id = 1
SELECT x, 1 FROM t WHERE id = 1 UNION SELECT 'y', '2' ORDER BY 1
SELECT '1' AS q UNION SELECT 2 AS r UNION SELECT '3' ORDER BY q
WITH s AS (SELECT '1' AS q UNION ALL SELECT 2) SELECT q + 1 FROM s ORDER BY 1
SELECT * FROM (SELECT day FROM t WHERE id = 1 UNION SELECT '2020-01-01') AS s (d) WHERE d < '2022-01-01'
SELECT u FROM t WHERE id = 1 UNION SELECT '00000000-0000-0000-0000-000000000002' ORDER BY 1
VALUES ('1'), (2)
VALUES ('2024-01-31'), (DATE '2024-02-01')
VALUES ('a'), (2)
VALUES (NULL, '2024-01-01'), ('x', DATE '2024-01-02')
SELECT x + 1 FROM (VALUES ('1'), (2)) AS v (x)
SELECT a AS zz FROM t WHERE zz > 1
SELECT a AS zz FROM t GROUP BY a HAVING zz > 1
SELECT a AS zz, count(*) OVER (ORDER BY zz) FROM t
SELECT a AS zz FROM t ORDER BY zz
SELECT a + 1 AS zz FROM t ORDER BY zz + 1
SELECT 1 AS zz, zz + 1
SELECT DISTINCT ON (zz) a + 1 AS zz, id FROM t WHERE id < 3 ORDER BY zz, id
SELECT a + 1 AS zz, count(*) FROM t GROUP BY ROLLUP (zz) ORDER BY 1, 2
SELECT a + 1 AS zz, count(*) FROM t GROUP BY zz + 1
""".strip().splitlines()


ROW_FUNCTIONS = (
    "SELECT id FROM t ORDER BY id, generate_series(1, 2)",
    "SELECT id, generate_series(1, 2) FROM t ORDER BY id, generate_series(1, 2) DESC",
    "SELECT p_id, unnest(ARRAY[2, 1]) FROM p ORDER BY p_id, unnest(ARRAY[2, 1])",
    "SELECT generate_series(1, p_id) AS g, count(*) FROM p GROUP BY g ORDER BY g",
    "SELECT generate_series(1, p_id), count(*) FROM p GROUP BY generate_series(1, p_id) ORDER BY 1",
    "VALUES (1, generate_series(1, 2))",
    "SELECT CASE WHEN p_id = 1 THEN unnest(ARRAY[1, 2]) END FROM p",
    "SELECT coalesce(unnest(ARRAY[1, 2]), 3)",
    "SELECT * FROM unnest(ARRAY[1, 2, 3], ARRAY['a', 'b']) AS u (x, y)",
    "SELECT * FROM unnest(ARRAY['a'], ARRAY[TRUE, FALSE]) AS u ORDER BY 2",
    "SELECT y, count(*) FROM unnest(ARRAY['c', 'd', 'c'], ARRAY['a', 'b', 'a']) AS u (x, y) GROUP BY y",
    "SELECT id, u.* FROM t, unnest(ARRAY[x], ARRAY[x, 'z']) AS u (p, q) WHERE id < 3 ORDER BY id, q",
    "SELECT id FROM t ORDER BY a USING >, id USING <",
    "SELECT sum(12 / a) FILTER (WHERE a <> 0), count(12 % a) FILTER (WHERE a > 0) FROM t",
    "SELECT p_id FROM p WHERE EXISTS (SELECT FROM q WHERE q_p_id = p_id) ORDER BY p_id",
    "SELECT a * '2.5' FROM t",
    "SELECT id, day - '2024-01-01', ts - '2024-01-01' FROM t ORDER BY id",
    "SELECT id, '2024-12-31' - day FROM t ORDER BY id",
    "SELECT 2 * '3', 2.5 * '3', '1.5' + 2.5",
    "SELECT INTERVAL '1 day' + '2 hours'",
)


def statements() -> Iterator[str]:
    yield from (f"SELECT id, {item} FROM t ORDER BY id" for item in COLUMNS)
    yield from (f"SELECT {f}({column}) FROM t" for f, column in product(AGGREGATES, ALL))
    yield from (f"SELECT {f}({c}) FROM t" for f, c in product(OF_NUMBERS, (*NUMBERS, "x")))
    yield from (f"SELECT {f}({column}) FROM t" for f, column in product(OF_BOOLEANS, "ka"))
    yield from (
        f"SELECT id, {window} FROM t WINDOW w AS (ORDER BY id) ORDER BY id"
        if window.endswith(" w")
        else f"SELECT id, {window} FROM t ORDER BY id"
        for window in WINDOWS
    )
    for kind in ("UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"):
        yield from (f"{left} {kind} {right}" for left, right in product(SETS, SETS[:4]))
    for order in ORDERS:
        yield f"SELECT id, a FROM t ORDER BY {order}"
        yield f"SELECT id, a FROM t ORDER BY {order} LIMIT 2"
    for column, sign in product(NUMBERS, "+-*/%"):
        if (column, sign) not in (("d", "%"), ("r", "%")):
            yield f"SELECT id, {column} {sign} '2', '7' {sign} ({column} + '8') FROM t ORDER BY id"
    yield from ROW_FUNCTIONS
    yield from OTHERS
