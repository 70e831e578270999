"""Functions in FROM, whole rows as values, and other parts of SELECT."""

# ruff: noqa: E501 (a case is one line)

from __future__ import annotations

from collections.abc import Iterator

IN_FROM = """
SELECT * FROM ROWS FROM (generate_series(1, 3), generate_series(5, 6)) AS t (a, b)
SELECT * FROM ROWS FROM (generate_series(1, 3), unnest(ARRAY['x'])) WITH ORDINALITY AS t (a, b, n)
SELECT * FROM ROWS FROM (abs(-3), unnest(ARRAY[1,2]))
SELECT * FROM ROWS FROM (unnest(ARRAY[1, 2, 3], ARRAY['a', 'b']), upper('x')) WITH ORDINALITY
SELECT t.* FROM ROWS FROM (jsonb_each('{"a": 1, "b": 2}'), generate_series(1, 3)) AS t
SELECT * FROM ROWS FROM (json_to_recordset('[{"a":1,"b":"x"},{"a":2}]') AS (a int, b text), generate_series(1, 3)) AS t (x, y, z) ORDER BY z
SELECT * FROM ROWS FROM (json_to_recordset('[{"a":1},{"a":2}]') AS (a int)) WITH ORDINALITY
SELECT id, g.* FROM t CROSS JOIN LATERAL ROWS FROM (generate_series(1, id)) AS g WHERE id < 3 ORDER BY id, g
SELECT p_id, n FROM p LEFT JOIN ROWS FROM (generate_series(3, p_id)) AS g (n) ON TRUE ORDER BY p_id, n
SELECT n FROM ROWS FROM (unnest(ARRAY[]::int[]), unnest(ARRAY[]::int[])) AS g (n, m)
SELECT * FROM ROWS FROM (unnest(NULL::int[]), upper('a')) AS g
SELECT * FROM ROWS FROM (generate_subscripts(ARRAY[7, 8], 1), generate_subscripts(ARRAY[7, 8], 1, true)) WITH ORDINALITY
SELECT * FROM ROWS FROM (p) AS t
SELECT * FROM ROWS FROM (sum(1)) AS t
SELECT * FROM ROWS FROM (generate_series(1, 2)) AS t (a, b)
SELECT * FROM ROWS FROM (generate_series(1, 2) AS x)
SELECT t.a + 1 FROM ROWS FROM (regexp_split_to_table('1,2', ','), string_to_table('a,b', ',')) AS t (a, b)
SELECT a || b FROM ROWS FROM (regexp_split_to_table('1,2', ','), string_to_table('a,b', ',')) AS t (a, b)
SELECT * FROM unnest(ARRAY(SELECT upper(p_name) FROM public.p WHERE p_id < 3 ORDER BY p_id), ARRAY[1, 2, 3])
SELECT g FROM ROWS FROM (upper('a')) AS g
SELECT count(*) FROM ROWS FROM (generate_series(1, 3), generate_series(1, 5)) AS t WHERE t.generate_series IS NULL
SELECT a FROM ROWS FROM (generate_series(1, 3), now()) AS t (a, b) WHERE b IS NOT NULL
SELECT x FROM ROWS FROM (jsonb_array_elements('[1,2]'), jsonb_array_elements_text('["a"]')) AS t (x, y)
SELECT * FROM jsonb_array_elements('[1,2]') WITH ORDINALITY AS t (v, n)
SELECT * FROM jsonb_populate_recordset(NULL::p, '[{"p_id": 1}]') WITH ORDINALITY
SELECT g, pg_typeof(g)::TEXT FROM generate_series(1, 2) g
SELECT g, pg_typeof(g)::TEXT FROM generate_series(1, 2::BIGINT) g
SELECT g, pg_typeof(g)::TEXT FROM generate_series(1, 3000000000, 1000000000) g
SELECT g, pg_typeof(g)::TEXT FROM generate_series(1, 2.5) g
SELECT g FROM generate_series(1.5, 2.75, 0.25) g
SELECT g FROM generate_series(3, -1.5, -1.25) WITH ORDINALITY g (g, n) ORDER BY n
SELECT * FROM generate_series(3, -1.5, -1.25) WITH ORDINALITY g (g, n) ORDER BY n
SELECT g FROM generate_series(3.5, 1.5) g
SELECT g FROM generate_series(1, 2.5, 0) g
SELECT g FROM generate_series(1, 2, 0) g
SELECT g FROM generate_series(1.5, NULL) g
SELECT g FROM generate_series(1, NULL) g
SELECT g FROM generate_series(1::NUMERIC, 3) g
SELECT g FROM generate_series(1, '3') g
SELECT id, g FROM t, generate_series(n, n + 1, 0.5) g WHERE id IN (1, 3) ORDER BY id, g
SELECT id, g FROM t, generate_series(1, s) g WHERE id IN (1, 3) ORDER BY id, g
SELECT id, generate_series(n, n + 1, 0.5) FROM t WHERE id = 1
SELECT generate_series(1.5, 3)
SELECT pg_typeof(g)::TEXT, g FROM generate_series(DATE '2024-01-01', DATE '2024-01-03', INTERVAL '1 day') g
SELECT pg_typeof(g)::TEXT, g FROM generate_series(TIMESTAMP '2024-01-01', DATE '2024-01-03', INTERVAL '1 day') g
SELECT pg_typeof(g)::TEXT, g FROM generate_series(DATE '2024-01-01', TIMESTAMPTZ '2024-01-03 00:00:00+01', '1 day') g
SELECT pg_typeof(g)::TEXT, g FROM generate_series('2024-01-01', TIMESTAMP '2024-01-03', '1 day') g
SELECT pg_typeof(g)::TEXT, g FROM generate_series('2024-01-01'::DATE, '2024-01-03', '36 hours') g
SELECT pg_typeof(g)::TEXT FROM generate_series(TIMESTAMP '2024-01-01', TIMESTAMPTZ '2024-01-03 00:00:00+00', '1 day') g
SELECT generate_series(DATE '2024-01-01', DATE '2024-03-01', INTERVAL '1 month')
SELECT generate_series(DATE '2024-01-01', DATE '2024-03-01', INTERVAL '1 month')::DATE
SELECT generate_series FROM generate_series(1, 2)
SELECT g.g FROM generate_series(1, 2) g
SELECT g FROM generate_series(1, 2) g (n)
SELECT g.n FROM generate_series(1, 2) g (n)
SELECT g FROM unnest(ARRAY[1, 2]) g (n)
SELECT * FROM generate_series(1, 2) WITH ORDINALITY
SELECT sum(g), avg(g), max(g) FROM generate_series(1, 4) g
SELECT sum(g), avg(g) FROM generate_series(1, 4.5) g
SELECT g * 1000000000 FROM generate_series(1, 4) g
SELECT g / 2 FROM generate_series(1, 4) g
SELECT count(*) FROM generate_series(1, 100000) g
SELECT id FROM t JOIN generate_series(1, 3) g ON g = id ORDER BY id
SELECT id, g FROM t LEFT JOIN generate_series(2, 3) g ON g = id ORDER BY id
SELECT id, (SELECT sum(g) FROM generate_series(1, id) g) FROM t ORDER BY id
SELECT ARRAY(SELECT generate_series(1, 3))
SELECT id FROM t WHERE id IN (SELECT generate_series(1, 3)) ORDER BY id
SELECT generate_series(1, 2), generate_series(1, 3)
SELECT d::DATE FROM generate_series(DATE '2024-01-30', DATE '2024-02-02', INTERVAL '1 day') AS d
SELECT to_char(d, 'YYYY-MM') FROM generate_series(DATE '2024-01-30', DATE '2024-03-02', INTERVAL '1 month') AS d
SELECT id, n FROM t RIGHT JOIN generate_series(DATE '2024-01-31', DATE '2024-02-01', '1 day') AS d ON d = day ORDER BY d
WITH s AS (SELECT generate_series(1, 3) AS n) SELECT n, pg_typeof(n)::TEXT FROM s
WITH RECURSIVE r (n) AS (SELECT g FROM generate_series(1, 2) g UNION ALL SELECT n + 2 FROM r WHERE n < 4) SELECT n FROM r ORDER BY n
SELECT 1.5 UNION ALL SELECT generate_series(1, 2)
SELECT g FROM generate_series(1, 3) g WHERE g > '1'
SELECT g FROM generate_series(-2, 2, 2) AS g ORDER BY g DESC
SELECT generate_series(1, 10) + 1 LIMIT 2
SELECT id, g.* FROM t, ROWS FROM (generate_series(1, id), unnest(ARRAY[x])) AS g (n1, v1) WHERE id < 3 ORDER BY id, n1
SELECT g FROM generate_series(1.5, 2.5, -1) g
SELECT g FROM generate_series(1, 12345678901234567890, 6000000000000000000) g
SELECT pg_typeof(n)::TEXT FROM jsonb_array_elements('[1,2]') WITH ORDINALITY AS t (v, n)
""".strip().splitlines()


WHOLE_ROWS = r"""
SELECT p::TEXT, count(*) FROM p GROUP BY p ORDER BY p
SELECT p, count(*) FROM p GROUP BY p ORDER BY p DESC
SELECT row_to_json(p) FROM p
SELECT row_to_json(p)::TEXT FROM p ORDER BY p_id
SELECT to_jsonb(p) FROM p ORDER BY p_id
SELECT to_json(p) FROM p ORDER BY p_id
SELECT row_to_json(t) FROM t ORDER BY id
SELECT to_jsonb(t) FROM t ORDER BY id
SELECT json_agg(p ORDER BY p_id DESC) FROM p
SELECT jsonb_agg(p ORDER BY p_id) FROM p
SELECT jsonb_agg(p ORDER BY p_id) FILTER (WHERE p_id < 3) FROM p
SELECT jsonb_agg(to_jsonb(p) - 'p_name' ORDER BY p_id) FROM p
SELECT p_group, json_agg(p ORDER BY p_id) FROM p GROUP BY p_group ORDER BY p_group
SELECT json_build_object('p', p, 'n', 1) FROM p ORDER BY p_id
SELECT jsonb_build_object('p', p, 'n', 1) FROM p ORDER BY p_id
SELECT json_build_array(p, q) FROM p JOIN q ON p_id = q_p_id ORDER BY q_id
SELECT jsonb_object_agg(p_id, p) FROM p
SELECT json_object_agg(p_id, p) FROM p
SELECT p_id, row_to_json(q) FROM p LEFT JOIN q ON p_id = q_p_id ORDER BY p_id, q_id
SELECT p_id, to_jsonb(q) FROM p LEFT JOIN q ON p_id = q_p_id ORDER BY p_id, q_id
SELECT p_id, json_agg(q ORDER BY q_id) FROM p LEFT JOIN q ON p_id = q_p_id GROUP BY p_id ORDER BY p_id
SELECT p_id, count(q), count(*), count(p) FROM p LEFT JOIN q ON p_id = q_p_id GROUP BY p_id ORDER BY p_id
SELECT count(p), count(p.*) FROM p
SELECT count(DISTINCT p) FROM p
SELECT count(DISTINCT s) FROM (SELECT p_group FROM p) AS s
SELECT row_to_json(s) FROM (SELECT p_id AS i, upper(p_name) AS "a ""b" FROM p) AS s ORDER BY i
SELECT row_to_json(s.*) FROM (SELECT p_id AS i FROM p) AS s ORDER BY i
SELECT row_to_json(s) FROM (SELECT p_id, (SELECT json_agg(q ORDER BY q_id) FROM q WHERE q_p_id = p_id) AS qs FROM p) AS s ORDER BY p_id
SELECT p_id, row_to_json(s) FROM p LEFT JOIN LATERAL (SELECT q_id, q_kind FROM q WHERE q_p_id = p_id ORDER BY q_id LIMIT 1) AS s ON TRUE ORDER BY p_id
SELECT (SELECT row_to_json(p) FROM q WHERE q_id = 1) FROM p ORDER BY p_id
WITH c AS (SELECT p_id, p_name FROM p) SELECT json_agg(c ORDER BY p_id) FROM c
SELECT json_agg(v) FROM (VALUES (1, 'a'), (2, NULL)) AS v (n, s)
SELECT coalesce(json_agg(p), '[]'::json) FROM p WHERE p_id > 9
SELECT p FROM p ORDER BY p_id
SELECT t FROM t ORDER BY id
SELECT p.* FROM p ORDER BY p
SELECT p FROM p ORDER BY p DESC
SELECT p AS x FROM p ORDER BY x DESC
SELECT p, p_id FROM p ORDER BY 1 DESC
SELECT p_id, q FROM p LEFT JOIN q ON p_id = q_p_id ORDER BY p_id, q
SELECT p_group, p FROM p GROUP BY p, p_group ORDER BY p
SELECT s, count(*) FROM (SELECT p_group FROM p) AS s GROUP BY s ORDER BY s
SELECT DISTINCT s FROM (SELECT p_group FROM p) AS s
SELECT (p).p_name FROM p ORDER BY (p).p_id
SELECT (p).* FROM p ORDER BY p_id
SELECT (p).p_id + 1 AS n FROM p ORDER BY n
SELECT (p).nothing FROM p
SELECT p_id FROM p WHERE (p).p_group = 10 ORDER BY p_id
SELECT p_id, p IS NULL, p IS NOT NULL FROM p ORDER BY p_id
SELECT p_id, q_id, q IS NULL, q IS NOT NULL FROM p LEFT JOIN q ON p_id = q_p_id ORDER BY p_id, q_id
SELECT p_id FROM p LEFT JOIN q ON p_id = q_p_id WHERE q IS NULL
SELECT p_id FROM p WHERE p = ROW(1, 'one', 10)
SELECT p_id FROM p WHERE p <> ROW(3, NULL, 20) ORDER BY p_id
SELECT p_id, p < ROW(3, 'x', 20), p >= ROW(3, 'x', 20), p > ROW(3, 'x', 20), p <= ROW(3, NULL, 20) FROM p ORDER BY p_id
SELECT a.p_id, b.p_id FROM p a JOIN p b ON a < b ORDER BY 1, 2
SELECT a.p_id FROM p a JOIN p b ON a = b ORDER BY 1
SELECT a.p_id, a = b, a IS DISTINCT FROM b FROM p a LEFT JOIN p b ON a.p_id = b.p_id AND b.p_id < 3 ORDER BY 1
SELECT p_id FROM p WHERE p = ROW(1, 2)
SELECT p::TEXT FROM p ORDER BY p_id
SELECT md5(p::TEXT) FROM p ORDER BY p_id
SELECT CAST(t AS TEXT) FROM t ORDER BY id
SELECT ROW(1, 'a b', NULL, '', TRUE, 'x"y\z')
SELECT ROW(id, x, k, n, ts) FROM t ORDER BY id
SELECT (id, x)::TEXT FROM t ORDER BY id
SELECT (ROW(a, b) < ROW(2, 3)) FROM t ORDER BY id
SELECT p_id FROM p WHERE EXISTS (SELECT q FROM q WHERE q_p_id = p_id)
SELECT array_agg(p) FROM p
SELECT max(p) FROM p
SELECT coalesce(p, p) FROM p
SELECT to_jsonb(x) FROM (SELECT p FROM p) AS x
SELECT p_name AS p FROM p ORDER BY p
SELECT p, p.p_id FROM (SELECT 1 AS p, 2 AS p_id) AS p
SELECT json_agg(g) FROM generate_series(1, 2) g
SELECT row_to_json(g) FROM generate_series(1, 2) g
SELECT row_to_json(ROW(p_id, p_name)) FROM p ORDER BY 1::TEXT
SELECT jsonb_agg(e ORDER BY e.k) FROM jsonb_each('{"a": 1}') AS e (k, v)
SELECT p_id FROM p WHERE p = ROW(1, 'one'::TEXT, 10)
SELECT p_id FROM p WHERE p = ROW(3, NULL::TEXT, 20)
SELECT p_id FROM p WHERE p <> ROW(3, NULL::TEXT, 20) ORDER BY p_id
SELECT p_id, p < ROW(3, 'x'::TEXT, 20), p >= ROW(3, 'x'::TEXT, 20), p > ROW(3, 'x'::TEXT, 20), p <= ROW(3, NULL::TEXT, 20) FROM p ORDER BY p_id
SELECT row_to_json(s) FROM p LEFT JOIN (SELECT NULL AS a, q_id FROM q) AS s ON p_id = q_id ORDER BY p_id
SELECT row_to_json(s) FROM p LEFT JOIN (SELECT 1 AS i, NULL AS a FROM q WHERE q_id = 1) AS s ON p_id = 1 ORDER BY p_id
SELECT row_to_json(s) FROM p LEFT JOIN (SELECT p_name AS a FROM p WHERE p_id = 3) AS s ON p_id = 1 ORDER BY p_id
SELECT to_json(r), to_jsonb(r), row_to_json(r) FROM (SELECT p_id, ROW(p_id, p_name) AS r FROM p) AS s ORDER BY p_id
SELECT to_json(s), to_jsonb(s) FROM (SELECT p_id, ROW(p_id, ROW(p_name)) AS r FROM p) AS s ORDER BY p_id
SELECT jsonb_agg(r ORDER BY r) FROM (SELECT ROW(p_id, p_name) AS r FROM p) AS s
SELECT jsonb_agg(ROW(p_id, p_name) ORDER BY p_id), to_json(array_agg(ROW(p_id, p_name) ORDER BY p_id)) FROM p
SELECT json_build_array(r), json_build_object('r', r), jsonb_build_object('r', r) FROM (SELECT ROW(1, 'x') AS r) AS s
SELECT jsonb_build_object('r', ROW(1, 'x')), json_build_object('r', ROW(1, 'x')), to_json(ARRAY[ROW(1, 'x')])
SELECT to_json((SELECT ROW(p_id, p_name) FROM p WHERE p_id = 1)), row_to_json((SELECT ROW(1, 2)))
WITH c AS (SELECT ROW(p_id, p_name) AS r FROM p) SELECT to_jsonb(r) -> 'f2' FROM c ORDER BY r
SELECT to_jsonb(s.r) ->> 'f1' FROM p CROSS JOIN LATERAL (SELECT ROW(p_id, p_name) AS r) AS s ORDER BY p_id
SELECT to_json(coalesce(r, ROW(1, 'x'))), to_json(CASE WHEN TRUE THEN ROW(1, 2) END) FROM (SELECT ROW(2, 'y') AS r) AS s
SELECT (r).f1, (r).f2 FROM (SELECT ROW(p_id, p_name) AS r FROM p) AS s ORDER BY 1
SELECT r = ROW(1, 'one'::TEXT), r < ROW(2, 'x'::TEXT), r IN (ROW(2, 'two'::TEXT), ROW(4, 'four'::TEXT)) FROM (SELECT ROW(p_id, p_name) AS r FROM p) AS s ORDER BY r
SELECT to_json(ROW(TIMESTAMP '2024-01-02 03:04:05', 1.50, ROW(1.10, NULL), INTERVAL '1 month'))
SELECT ROW(1)::TEXT, ROW(1, ROW(2, 'a b', NULL, TRUE))::TEXT, ROW(1, ROW(ROW('x"y')))::TEXT
SELECT ROW(p_id), ROW(p_id, ROW(p_name)) FROM p ORDER BY p_id
SELECT p.*, count(*) FROM p GROUP BY p.p_id ORDER BY p_id
SELECT *, count(*) FROM p GROUP BY p_id ORDER BY p_id
SELECT *, count(*) FROM p JOIN q ON p_id = q_p_id GROUP BY p_id
SELECT x.*, count(*) FROM p AS x (a, b, c) GROUP BY a ORDER BY a
SELECT p.*, max(p.p_name || 'x') FROM p GROUP BY p_id HAVING p_name IS NOT NULL ORDER BY p_group, p_name
SELECT p.*, count(q_id) FROM p LEFT JOIN q ON p_id = q_p_id GROUP BY p_id ORDER BY count(q_id), p_id
SELECT s, s::TEXT, s IS NULL, s IS NOT NULL FROM (VALUES (ROW(1, 'a b'::TEXT)), (ROW(NULL, NULL)), (NULL), (ROW(2, NULL))) AS v (s)
SELECT v, v IS NULL, v IS NOT NULL FROM (VALUES (1, ROW(1, 2)), (1, ROW(NULL, NULL)), (1, NULL), (NULL, ROW(1, 2)), (NULL, NULL)) AS v (a, b)
WITH r (a, b) AS MATERIALIZED (VALUES (1, ROW(1, 2)), (NULL, ROW(NULL, NULL)), (NULL, NULL)) SELECT r, r IS NULL, b IS NULL FROM r
SELECT s FROM (SELECT ROW(1, TRUE, NULL, ROW(2, 'x y')) AS s) AS v
SELECT s::TEXT, v::TEXT FROM (SELECT ROW(1, TRUE, NULL, ROW(2, 'x y')) AS s) AS v
SELECT s FROM (SELECT ROW(p_id, p_name) AS s FROM p UNION ALL SELECT ROW(0, NULL)) AS v ORDER BY s
SELECT s, count(*) FROM (SELECT ROW(p_group, p_group > 10) AS s FROM p) AS v GROUP BY s ORDER BY s
SELECT count(s), count(*) FROM (VALUES (ROW(1, 2)), (NULL), (ROW(3, 4))) AS v (s)
SELECT json_agg(s) FROM (VALUES (ROW(1, 2)), (ROW(0, NULL))) AS v (s)
SELECT ROW(s, 3) FROM (VALUES (ROW(1, 2)), (ROW(0, NULL))) AS v (s)
SELECT s || 'x' FROM (VALUES (ROW(1, 2))) AS v (s)
SELECT concat(s, 'x') FROM (VALUES (ROW(1, 2))) AS v (s)
SELECT max(s) FROM (VALUES (ROW(1, 2))) AS v (s)
SELECT coalesce(s, NULL)::TEXT FROM (VALUES (ROW(1, 2))) AS v (s)
SELECT (SELECT ROW(p_id, p_name))::TEXT FROM p
SELECT s = s, s = ROW(1, 'one'::TEXT) FROM (SELECT ROW(p_id, p_name) AS s FROM p) AS v ORDER BY s
SELECT ROW(a, b) = ANY (SELECT s FROM (VALUES (1, ROW(1, NULL::INT))) AS w (k, s) WHERE k = v.a) FROM (VALUES (1, 1)) AS v (a, b)
SELECT ROW(a, b) IN (SELECT s FROM (VALUES (1, ROW(1, NULL::INT))) AS w (k, s) WHERE k = v.a) FROM (VALUES (1, 1)) AS v (a, b)
SELECT s FROM (SELECT p AS s FROM p) AS v ORDER BY s
SELECT p FROM (SELECT p FROM p) AS v ORDER BY p DESC
SELECT s::TEXT, v::TEXT FROM (SELECT p AS s, p_id FROM p) AS v ORDER BY p_id
SELECT row_to_json(s), (s).p_name FROM (SELECT p AS s FROM p) AS v ORDER BY (s).p_id
SELECT json_agg(s ORDER BY (s).p_id) FROM (SELECT p AS s FROM p) AS v
SELECT p_id, s, s IS NULL FROM (SELECT p_id, q AS s FROM p LEFT JOIN q ON p_id = q_p_id) AS v ORDER BY p_id, s
SELECT count(s) FROM (SELECT q AS s FROM p LEFT JOIN q ON p_id = q_p_id) AS v
WITH c AS (SELECT p AS s, count(*) AS n FROM p JOIN q ON p_id = q_p_id GROUP BY p) SELECT s, n FROM c ORDER BY s
WITH c AS (SELECT q AS s FROM p LEFT JOIN q ON p_id = q_p_id) SELECT s, count(*) FROM c GROUP BY s ORDER BY s
SELECT count(*) FROM (SELECT p AS s FROM p) AS a JOIN (SELECT p AS r FROM p) AS b ON s = r
SELECT s FROM (SELECT NULL OFFSET 0) AS s
SELECT s, s::TEXT FROM (SELECT 'xyzzy', 1, NULL OFFSET 0) AS s
SELECT row_to_json(s) FROM (SELECT 1, 'x') AS s
SELECT s FROM (SELECT TRUE AS a, '\x01'::BYTEA AS b, NULL AS c, 1.50 AS d) AS s
SELECT row_to_json(x), x FROM p AS x (a, b) WHERE a = 1
SELECT row_to_json(x) FROM (SELECT p_id, p_name FROM p) AS x (a, b) WHERE a = 1
SELECT row_to_json(ROW(1.50, 'x', TRUE)), json_build_array(INTERVAL '2 months -3 days'), to_jsonb(INTERVAL '1 year 1 month')
""".strip().splitlines()


SEARCHES = """
WITH RECURSIVE r (id, up) AS (SELECT 1, 0 UNION ALL SELECT e.b, e.a FROM r, (VALUES (1, 2), (1, 3), (2, 4), (3, 5)) AS e (a, b) WHERE e.a = r.id) SEARCH DEPTH FIRST BY id SET o SELECT id, up FROM r ORDER BY o
WITH RECURSIVE r (id, up) AS (SELECT 1, 0 UNION ALL SELECT e.b, e.a FROM r, (VALUES (1, 2), (1, 3), (2, 4), (3, 5)) AS e (a, b) WHERE e.a = r.id) SEARCH BREADTH FIRST BY id SET o SELECT id, up FROM r ORDER BY o
WITH RECURSIVE r (id, up) AS (SELECT 1, 0 UNION ALL SELECT e.b, e.a FROM r, (VALUES (1, 2), (1, 3), (2, 4), (3, 5)) AS e (a, b) WHERE e.a = r.id) SEARCH BREADTH FIRST BY up, id SET o SELECT id, up FROM r ORDER BY o DESC
WITH RECURSIVE r (id) AS (SELECT 1 UNION ALL SELECT e.b FROM r JOIN (VALUES (1, 2), (2, 3), (3, 1)) AS e (a, b) ON e.a = r.id) CYCLE id SET c USING path SELECT id, c, path::TEXT FROM r ORDER BY c, id
WITH RECURSIVE r (id) AS (SELECT 1 UNION ALL SELECT e.b FROM r JOIN (VALUES (1, 2), (2, 3), (3, 1)) AS e (a, b) ON e.a = r.id) CYCLE id SET c TO 'Y' DEFAULT 'N' USING path SELECT id, c FROM r ORDER BY c, id
WITH RECURSIVE r (id, x) AS (SELECT 1, 'a,b' UNION ALL SELECT e.b, x FROM r AS k JOIN (VALUES (1, 2), (2, 3), (3, 1)) AS e (a, b) ON e.a = k.id) CYCLE id, x SET c USING path SELECT id, x, c, path::TEXT FROM r ORDER BY c, id
WITH RECURSIVE r (id) AS (SELECT 1 UNION ALL SELECT e.b FROM r JOIN (VALUES (1, 2), (2, 3), (3, 1)) AS e (a, b) ON e.a = r.id) SEARCH DEPTH FIRST BY id SET o CYCLE id SET c USING path SELECT id, c FROM r ORDER BY o
WITH RECURSIVE r AS (SELECT p_id AS i FROM p WHERE p_id = 1 UNION SELECT i + 1 FROM r WHERE i < 3) SEARCH DEPTH FIRST BY i SET o SELECT i FROM r ORDER BY o
WITH RECURSIVE r AS (SELECT p_id AS i FROM p WHERE p_id = 1 UNION SELECT i + 1 FROM r WHERE i < 3) CYCLE i SET c USING w SELECT * FROM r ORDER BY i
WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 3) SEARCH DEPTH FIRST BY nope SET o SELECT i FROM r
WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 3) SEARCH DEPTH FIRST BY i SET i SELECT i FROM r
WITH RECURSIVE r AS (SELECT 1 AS i) SEARCH DEPTH FIRST BY i SET o SELECT i FROM r
WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i % 3 + 1 FROM r) CYCLE i SET c USING w SELECT count(*), count(*) FILTER (WHERE c) FROM r
WITH RECURSIVE r (i, j) AS (VALUES (1, 2) UNION ALL SELECT j, i FROM r) CYCLE i, j SET c USING w SELECT i, j, c, w::TEXT FROM r
WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 3) SEARCH DEPTH FIRST BY i SET o SELECT * FROM r ORDER BY o
WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 3) SEARCH DEPTH FIRST BY SET o SELECT * FROM r ORDER BY o
WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 3) CYCLE i SET c TO 1 DEFAULT USING w SELECT * FROM r
SELECT search FROM (SELECT 1 AS search, 2 AS cycle) AS s
""".strip().splitlines()


HYPOTHETICAL = """
SELECT rank(2) WITHIN GROUP (ORDER BY a) FROM t
SELECT dense_rank(7) WITHIN GROUP (ORDER BY a) FROM t
SELECT percent_rank(2) WITHIN GROUP (ORDER BY a) FROM t
SELECT cume_dist(2) WITHIN GROUP (ORDER BY a) FROM t
SELECT rank(2) WITHIN GROUP (ORDER BY a DESC), dense_rank(2) WITHIN GROUP (ORDER BY a DESC), percent_rank(2) WITHIN GROUP (ORDER BY a DESC), cume_dist(2) WITHIN GROUP (ORDER BY a DESC) FROM t
SELECT rank(NULL) WITHIN GROUP (ORDER BY a), dense_rank(NULL) WITHIN GROUP (ORDER BY a), percent_rank(NULL) WITHIN GROUP (ORDER BY a), cume_dist(NULL) WITHIN GROUP (ORDER BY a) FROM t
SELECT rank(NULL) WITHIN GROUP (ORDER BY a DESC), dense_rank(2) WITHIN GROUP (ORDER BY a NULLS FIRST), cume_dist(2) WITHIN GROUP (ORDER BY a NULLS FIRST), rank(2) WITHIN GROUP (ORDER BY a DESC NULLS LAST) FROM t
SELECT k, rank(2) WITHIN GROUP (ORDER BY a), cume_dist(2) WITHIN GROUP (ORDER BY a) FROM t GROUP BY k ORDER BY k
SELECT rank(2) WITHIN GROUP (ORDER BY a) FILTER (WHERE k), percent_rank(2) WITHIN GROUP (ORDER BY a) FILTER (WHERE k), cume_dist(2) WITHIN GROUP (ORDER BY a) FILTER (WHERE NOT k) FROM t
SELECT rank(2, 3.0) WITHIN GROUP (ORDER BY a, n DESC), dense_rank(2, 3.0) WITHIN GROUP (ORDER BY a, n DESC), cume_dist(2, 2.5) WITHIN GROUP (ORDER BY a, n) FROM t
SELECT rank('b') WITHIN GROUP (ORDER BY x), dense_rank('b') WITHIN GROUP (ORDER BY x DESC) FROM t
SELECT rank(1) WITHIN GROUP (ORDER BY a), percent_rank(1) WITHIN GROUP (ORDER BY a), cume_dist(1) WITHIN GROUP (ORDER BY a) FROM t WHERE FALSE
SELECT rank(a) WITHIN GROUP (ORDER BY a) FROM t
SELECT k, rank(k::INTEGER) WITHIN GROUP (ORDER BY a) FROM t GROUP BY k ORDER BY k
SELECT rank(1, 2) WITHIN GROUP (ORDER BY a) FROM t
SELECT k FROM t GROUP BY k HAVING rank(2) WITHIN GROUP (ORDER BY a) > 1 ORDER BY k
SELECT rank(2.5) WITHIN GROUP (ORDER BY a), rank(1 + 1) WITHIN GROUP (ORDER BY -a) + 1 FROM t
SELECT rank('2024-02-01') WITHIN GROUP (ORDER BY day) FROM t
SELECT rank(2) WITHIN GROUP (ORDER BY a) OVER () FROM t
SELECT a, rank(a) WITHIN GROUP (ORDER BY b), rank(a) WITHIN GROUP (ORDER BY b NULLS FIRST) FROM (VALUES (1, 1), (1, 4), (1, 5), (3, 1), (3, 2)) AS v (a, b) GROUP BY ROLLUP (a) ORDER BY a
SELECT a, dense_rank(a) WITHIN GROUP (ORDER BY b DESC), percent_rank(v.a) WITHIN GROUP (ORDER BY b), cume_dist(a) WITHIN GROUP (ORDER BY b) FROM (VALUES (1, 1), (1, 4), (1, 5), (3, 1), (3, 2)) AS v (a, b) GROUP BY GROUPING SETS ((a), ()) ORDER BY a
SELECT a, c, rank(a + c) WITHIN GROUP (ORDER BY b), rank(a, c) WITHIN GROUP (ORDER BY b, a) FROM (VALUES (1, 1, 0), (1, 4, 1), (1, 5, 0), (3, 1, 1), (3, 2, 0)) AS v (a, b, c) GROUP BY CUBE (a, c) ORDER BY a, c
SELECT a, cume_dist(a) WITHIN GROUP (ORDER BY b) FILTER (WHERE b > 1), percent_rank(a) WITHIN GROUP (ORDER BY b) FILTER (WHERE b > 9) FROM (VALUES (1, 1), (1, 4), (3, 2)) AS v (a, b) GROUP BY ROLLUP (a) ORDER BY a
SELECT a + 1, rank(a + 1) WITHIN GROUP (ORDER BY b) FROM (VALUES (1, 1), (1, 4), (3, 2)) AS v (a, b) GROUP BY CUBE (a + 1) ORDER BY 1
SELECT a, rank(b) WITHIN GROUP (ORDER BY b) FROM (VALUES (1, 1), (1, 4)) AS v (a, b) GROUP BY ROLLUP (a)
SELECT (SELECT rank(p_id) WITHIN GROUP (ORDER BY z) FROM (VALUES (1), (2)) AS x (z)) FROM p ORDER BY p_id
""".strip().splitlines()

PATHS = """
WITH RECURSIVE r (id, path) AS (SELECT 1, ARRAY[1] UNION ALL SELECT e.b, path || e.b FROM r, (VALUES (1, 2), (2, 3), (3, 1)) AS e (a, b) WHERE e.a = r.id AND e.b <> ALL (path)) SELECT id, path FROM r ORDER BY id
WITH RECURSIVE r (id, path) AS (SELECT 1, ARRAY[1] UNION ALL SELECT e.b, e.b || path FROM r, (VALUES (1, 2), (2, 3), (3, 1)) AS e (a, b) WHERE e.a = r.id AND NOT e.b = ANY (path)) SELECT id, path, array_length(path, 1) FROM r ORDER BY id
WITH RECURSIVE r (id, path) AS (SELECT p_id, ARRAY[p_name] FROM p WHERE p_id = 1 UNION ALL SELECT p.p_id, r.path || p.p_name FROM r JOIN p ON p.p_id = r.id + 1) SELECT id, path, array_to_string(path, '/', '-') FROM r ORDER BY id
WITH RECURSIVE r AS (SELECT 1 AS id, '{}'::INTEGER[] AS path UNION ALL SELECT id + 1, path || ARRAY[id, id * 2] FROM r WHERE id < 3) SELECT path, path[2], cardinality(path) FROM r ORDER BY id
WITH RECURSIVE r AS (SELECT 1 AS id, ARRAY[1] AS path UNION ALL SELECT id + 1, array_append(path, id + 1) FROM r WHERE id < 3) SELECT id, path = ARRAY[1, 2], path @> ARRAY[3] FROM r ORDER BY path DESC
WITH RECURSIVE r AS (SELECT 1 AS id, ARRAY[1.5] AS path UNION ALL SELECT id + 1, path || 2.25 FROM r WHERE id < 3) SELECT id, path FROM r ORDER BY id
WITH RECURSIVE r AS (SELECT 1 AS id, ARRAY['a'] AS path UNION ALL SELECT id + 1, path || 'b'::TEXT FROM r WHERE id < 3) SELECT id, path || 'z'::TEXT FROM r ORDER BY id
WITH RECURSIVE r AS (SELECT 1 AS id, ARRAY[1] AS path UNION ALL SELECT id + 1, path || 5::BIGINT FROM r WHERE id < 3) SELECT id, path FROM r ORDER BY id
WITH RECURSIVE r AS (SELECT 1 AS id, ARRAY[1] AS path UNION ALL SELECT id + 1, ARRAY[id] FROM r WHERE id < 3) SELECT id, path FROM r ORDER BY id
WITH RECURSIVE r (v) AS (SELECT ARRAY['b'::VARCHAR(3)] UNION ALL SELECT v || 'c'::VARCHAR(3) FROM r WHERE cardinality(v) < 2) SELECT v FROM r ORDER BY v
SELECT v || 'z'::TEXT FROM (SELECT ARRAY['a'] || 'b'::TEXT AS v) AS s
""".strip().splitlines()


ORDERS = """
SELECT p.* FROM p JOIN q ON p_id = q_p_id JOIN p AS o ON o.p_id = p.p_id ORDER BY p_name DESC, q_id
SELECT p.* FROM p JOIN p AS o ON o.p_id = p.p_id ORDER BY p_id
SELECT o.p_name FROM p JOIN p AS o ON o.p_id = p.p_group / 10 ORDER BY p_name
SELECT p.*, p.p_id FROM p JOIN p AS o ON o.p_id = p.p_id ORDER BY p_id DESC
SELECT p.p_id, p.* FROM p JOIN p AS o ON o.p_id = p.p_id ORDER BY p_id DESC
SELECT p.*, p.* FROM p JOIN p AS o ON o.p_id = p.p_id ORDER BY p_id DESC
SELECT p.*, o.* FROM p JOIN p AS o ON o.p_id = p.p_id ORDER BY p_id
SELECT p.*, o.p_id FROM p JOIN p AS o ON o.p_id = p.p_id ORDER BY p_id
SELECT p.*, 1 AS p_id FROM p ORDER BY p_id
SELECT * FROM p, p AS o ORDER BY p_id
SELECT p.* FROM p JOIN p AS o ON o.p_id = p.p_id ORDER BY p_id + 1
SELECT p.* FROM p JOIN p AS o ON o.p_id = p.p_id GROUP BY p_id
SELECT p.*, count(*) FROM p JOIN p AS o ON o.p_id = p.p_id GROUP BY p.p_id ORDER BY p_id DESC
SELECT DISTINCT ON (p_group) p.* FROM p JOIN p AS o ON o.p_id = p.p_id ORDER BY p_group, p_id DESC
SELECT DISTINCT p.p_group FROM p JOIN p AS o ON o.p_id = p.p_id ORDER BY p_group DESC
SELECT s.* FROM p RIGHT JOIN (VALUES (0, 'a'), (2, 'b')) AS s (p_id, x) USING (p_id) ORDER BY p_id DESC
SELECT p.* FROM p RIGHT JOIN (VALUES (0, 'a'), (2, 'b')) AS s (p_id, x) USING (p_id) ORDER BY p_id DESC
SELECT p.p_id FROM p FULL JOIN (VALUES (0, 'a'), (2, 'b')) AS s (p_id, x) USING (p_id) ORDER BY p_id DESC
SELECT p_id FROM p FULL JOIN (VALUES (0, 'a'), (2, 'b')) AS s (p_id, x) USING (p_id) ORDER BY p_id DESC
SELECT p.p_id, s.p_id FROM p FULL JOIN (VALUES (0, 'a'), (2, 'b')) AS s (p_id, x) USING (p_id) ORDER BY p_id
SELECT q.* FROM p LEFT JOIN (SELECT q_id AS p_id, q_kind FROM q) AS q USING (p_id) ORDER BY p_id DESC, q_kind
SELECT count(*) FROM p JOIN q
SELECT count(*) FROM p JOIN q WHERE p_id = q_p_id
SELECT count(*) FROM p LEFT JOIN q
SELECT count(*) FROM p JOIN (q JOIN p AS o ON TRUE)
SELECT count(*) FROM p JOIN LATERAL (SELECT 1) AS s
SELECT count(*) FROM p JOIN q JOIN p AS o ON o.p_id = q_p_id ON p.p_id = q_p_id
SELECT count(*) FROM p CROSS JOIN q, p AS o NATURAL JOIN (SELECT 1 AS p_id) AS s
""".strip().splitlines()
"""Names of output columns in ORDER BY and DISTINCT ON that also mean columns of other relations."""


RECURSIVE = """
WITH RECURSIVE r (i, a) AS (SELECT 1, ARRAY[1.5] UNION ALL SELECT i + 1, array_append(a, i + 0.25) FROM r WHERE i < 3) SELECT * FROM r ORDER BY i
WITH RECURSIVE r (i, a) AS (SELECT 1, ARRAY[1.5] UNION ALL SELECT i + 1, array_prepend(i + 0.25, a) FROM r WHERE i < 3) SELECT * FROM r ORDER BY i
WITH RECURSIVE r (i, a) AS (SELECT 1, ARRAY[1.5] UNION ALL SELECT i + 1, a || (i + 0.25) FROM r WHERE i < 3) SELECT * FROM r ORDER BY i
WITH RECURSIVE r (i, a) AS (SELECT 1, ARRAY[1.5] UNION ALL SELECT i + 1, a || ARRAY[i + 0.25] FROM r WHERE i < 3) SELECT * FROM r ORDER BY i
WITH RECURSIVE r (i, a) AS (SELECT 1, ARRAY[1.5]::NUMERIC[] UNION ALL SELECT i + 1, array_cat(a, ARRAY[0.125]) FROM r WHERE i < 3) SELECT * FROM r ORDER BY i
WITH RECURSIVE r (i, a) AS (SELECT 1, ARRAY[2] UNION ALL SELECT i + 1, array_append(a, i) FROM r WHERE i < 3) SELECT * FROM r ORDER BY i
WITH RECURSIVE r (i, a) AS (SELECT 1, ARRAY[2] UNION ALL SELECT i + 1, ARRAY[0.5] FROM r WHERE i < 3) SELECT * FROM r ORDER BY i
""".strip().splitlines()
"""Arrays that grow in a recursive CTE."""


NAMES = """
SELECT * FROM generate_series(1::NUMERIC, 3::NUMERIC) AS i, generate_series(i, 3) AS j
SELECT * FROM generate_series(1::NUMERIC, 3::NUMERIC) AS i, generate_series(1, 5, i) AS j
SELECT array_fill(i, ARRAY[2]) FROM (VALUES (5)) AS v (i)
SELECT array_to_string(ARRAY['a', NULL], ',', element) FROM (VALUES ('b')) AS v (element)
SELECT string_agg(row, sign ORDER BY row) FROM (VALUES ('a', '-'), ('b', '+')) AS v (row, sign)
SELECT initcap(word) FROM (VALUES ('ab cd')) AS v (word)
SELECT array_replace(ARRAY[1, 2, 5], 5, x), array_remove(ARRAY[1, 7], x), array_positions(ARRAY[7], x) FROM (VALUES (7)) AS v (x)
SELECT string_to_array('a,b', ',', e) FROM (VALUES ('b')) AS v (e)
SELECT j.* FROM (VALUES ('{"a": 1, "b": 2}'::JSONB)) AS v (value), jsonb_each(value) AS j ORDER BY 1
SELECT j.* FROM (VALUES ('{"a": 1, "b": 2}'::JSON)) AS v (key), json_each(key) AS j ORDER BY 1
SELECT j.* FROM (VALUES (1, 3)) AS v (value, place), generate_series(value, place) WITH ORDINALITY AS j (a, b) ORDER BY 1
SELECT * FROM (VALUES (1)) AS v (a), LATERAL (SELECT a + 1 AS a, a * 2 AS b) AS w
SELECT * FROM (VALUES (1)) AS v (a), LATERAL (SELECT a * 2 AS b, a + 1 AS a) AS w
SELECT (SELECT max(b) FROM (SELECT a + 1 AS a, a * 2 AS b) AS x) FROM (VALUES (1)) AS v (a)
SELECT EXISTS (SELECT a + 1 AS a WHERE a = 2), EXISTS (SELECT a + 1 AS a WHERE a = 1) FROM (VALUES (1)) AS v (a)
SELECT a FROM (VALUES (-1), (8)) AS v (a) WHERE EXISTS (SELECT z AS a FROM (VALUES (7), (9)) AS x (z) WHERE a > 0)
SELECT v.a, (SELECT count(*) AS a FROM (VALUES (7), (9)) AS x (z) WHERE z > a) FROM (VALUES (1), (8)) AS v (a) ORDER BY 1
SELECT v.a, (SELECT max(z) AS a FROM (VALUES (7), (9)) AS x (z) HAVING max(z) > a) FROM (VALUES (1), (10)) AS v (a) ORDER BY 1
SELECT v.a, (SELECT max(z) AS a FROM (VALUES (7), (9)) AS x (z) GROUP BY z + a HAVING max(z) > a ORDER BY 1 LIMIT 1) FROM (VALUES (7), (8)) AS v (a) ORDER BY 1
SELECT v.a, (SELECT z AS a FROM (VALUES (7), (9)) AS x (z) ORDER BY z * a DESC LIMIT 1) FROM (VALUES (-1), (8)) AS v (a) ORDER BY 1
SELECT v.a, (SELECT sum(z) OVER (ORDER BY z * a) AS a FROM (VALUES (7), (9)) AS x (z) LIMIT 1) FROM (VALUES (-1), (8)) AS v (a) ORDER BY 1
SELECT v.a, ARRAY(SELECT z AS a FROM (VALUES (7), (9)) AS x (z) WHERE a > 0 ORDER BY z) FROM (VALUES (-1), (8)) AS v (a) ORDER BY 1
SELECT (SELECT max(z) FILTER (WHERE z > a) AS a FROM (VALUES (7), (9)) AS x (z)) FROM (VALUES (-1), (10)) AS v (a) ORDER BY 1
SELECT v.a, x.a FROM (VALUES (-1), (8)) AS v (a) LEFT JOIN LATERAL (SELECT z AS a FROM (VALUES (7), (9)) AS x (z) WHERE z < a + 8) AS x ON TRUE ORDER BY 1, 2
SELECT p_id, (SELECT count(*) AS p_id FROM q WHERE q_p_id = p_id) FROM p ORDER BY 1
SELECT p_id FROM p WHERE EXISTS (SELECT q_id AS p_id FROM q WHERE q_p_id = p_id) ORDER BY 1
SELECT p_id FROM p WHERE p_id IN (SELECT q_p_id AS p_name FROM q WHERE q_kind = 'x' AND p_name = 'one')
SELECT p_id, (SELECT max(q_amount) AS p_group FROM q WHERE q_p_id = p_id HAVING max(q_amount) > p_group) FROM p ORDER BY 1
SELECT p_id, (SELECT (SELECT count(*) AS p_id FROM q AS r WHERE r.q_p_id = p_id AND r.q_id <= q.q_id) AS p_name FROM q WHERE q_p_id = p_id ORDER BY q_id DESC LIMIT 1) FROM p ORDER BY 1
SELECT p_id, (SELECT p_id + q_p_id AS p_id FROM q JOIN p AS o USING (p_id) LIMIT 1) FROM p
SELECT p_id FROM p JOIN (VALUES (1, 'a'), (2, 'b')) AS v (p_id, z) USING (p_id) WHERE EXISTS (SELECT q_id AS p_id FROM q WHERE q_p_id = p_id) ORDER BY 1
""".strip().splitlines()
"""Names of columns that also name what DuckDB's form of a statement adds, or an output column of an
inner SELECT."""


PLACES = """
SELECT round(2.555, n), trunc(2.555, n) FROM (VALUES (1), (2), (-1), (7), (NULL)) AS v (n)
SELECT round(1234.5678, n), trunc(1234.5678, n) FROM (VALUES (1), (2), (0), (-2), (-4), (-5)) AS v (n)
SELECT round(m, n), trunc(m, n) FROM (VALUES (15, 1), (15, -1), (951, -2), (99, -2), (NULL, -3), (5, NULL), (-5, -1)) AS v (m, n)
SELECT round(n, a), round(n * 2, a + 1), trunc(-n, s) FROM t ORDER BY id
SELECT round(99.99, n) + 1 FROM (VALUES (1), (0), (-2)) AS v (n)
SELECT sum(round(n, id - 1)), count(*) FILTER (WHERE round(n, id) > 1) FROM t
SELECT round((-2.5 * 10 ^ i)::NUMERIC, -i), round((0.5 * 10 ^ i)::NUMERIC, -i) FROM generate_series(-5, 5) AS s (i)
SELECT round(n, (SELECT max(p_id) FROM p)) FROM t ORDER BY id
SELECT round(1.25, 2 - 1), trunc(1.29, 2 - 1)
""".strip().splitlines()
"""Numbers of places that are computed for each row."""


def selects() -> Iterator[str]:
    yield from PLACES
    yield from NAMES
    yield from ORDERS
    yield from RECURSIVE
    yield from IN_FROM
    yield from WHOLE_ROWS
    yield from SEARCHES
    yield from HYPOTHETICAL
    yield from PATHS
