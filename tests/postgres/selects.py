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


def selects() -> Iterator[str]:
    yield from IN_FROM
