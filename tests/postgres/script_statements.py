"""Scripts of schemas, sequences and other statements that applications send (`scripts.py`)."""

# ruff: noqa: E501 (a statement is one line)

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

STATEMENTS: Mapping[str, str] = MappingProxyType(
    {
        "aborted transactions": """
CREATE TABLE t (a INT PRIMARY KEY, b INT)
INSERT INTO t VALUES (1, 1)
BEGIN
INSERT INTO t VALUES (2, 2)
INSERT INTO t VALUES (1, 9)
INSERT INTO t VALUES (3, 3)
SELECT 1
SAVEPOINT s
RELEASE s
COMMIT
SELECT * FROM t
BEGIN
INSERT INTO t VALUES (4, 4)
SAVEPOINT s
SELECT 1 / (b - b) FROM t
DELETE FROM t
SHOW search_path
ROLLBACK TO s
INSERT INTO t VALUES (5, 5)
SAVEPOINT r
INSERT INTO t VALUES (6, NULL), (5, 7)
ROLLBACK TO nosuch
SELECT 1
ROLLBACK TO s
INSERT INTO t VALUES (7, 7)
COMMIT
SELECT * FROM t ORDER BY a
BEGIN
UPDATE t SET b = 1 / (b - 4)
PREPARE p AS SELECT 1
ROLLBACK
EXECUTE p
SELECT * FROM t ORDER BY a
START TRANSACTION
ROLLBACK TO nosuch
SELECT 1
END
SELECT nosuch
SELECT 1
""",
        "names of the catalog": """
CREATE SCHEMA s
CREATE SCHEMA other
SET search_path TO s, public
CREATE TABLE t (a INT PRIMARY KEY, b INT)
CREATE TABLE other.t (a INT PRIMARY KEY)
CREATE TABLE public.u (a INT PRIMARY KEY)
CREATE TYPE mood AS ENUM ('ok', 'sad')
CREATE VIEW v AS SELECT a FROM t
CREATE INDEX ti ON t (b)
CREATE SEQUENCE q
INSERT INTO t VALUES (1, 2)
INSERT INTO public.u VALUES (1)
SELECT 'ok'::mood, CAST('sad' AS mood), '{ok}'::mood[]
SELECT 't'::regclass = 's.t'::regclass, 't'::regclass::oid = 's.t'::regclass::oid, to_regclass('t') IS NULL, to_regclass('nosuch')
SELECT 'mood'::regtype = 's.mood'::regtype, 'mood[]'::regtype = 's.mood[]'::regtype, 'int[]'::regtype, to_regtype('nosuch')
SELECT pg_get_viewdef('v') = pg_get_viewdef('s.v'), pg_get_viewdef('v'::regclass) = pg_get_viewdef('s.v')
SELECT relname FROM pg_class WHERE oid IN ('t'::regclass, 'ti'::regclass, 'q'::regclass, 'u'::regclass) ORDER BY relname
SELECT nextval('q'), nextval('q'::regclass)
SELECT pg_table_is_visible('s.t'::regclass), pg_table_is_visible('public.u'::regclass), pg_table_is_visible('other.t'::regclass), pg_type_is_visible('mood'::regtype)
SELECT 'nosuch'::regclass
SELECT 'nosuch'::regtype
SET search_path TO other
SELECT 'u'::regclass
SELECT to_regclass('u'), to_regtype('mood')
SELECT 't'::regclass = 'other.t'::regclass, pg_table_is_visible('s.t'::regclass), pg_table_is_visible('public.u'::regclass)
SELECT 'ok'::mood
RESET search_path
SELECT tableoid::regclass, * FROM s.t
SELECT tableoid = 's.t'::regclass, tableoid = 'u'::regclass FROM s.t
SELECT x.tableoid::regclass, u.tableoid::regclass::text FROM s.t x JOIN u USING (a) WHERE x.tableoid <> u.tableoid
SELECT tableoid::regclass, count(*) FROM u GROUP BY tableoid
SELECT (SELECT tableoid::regclass) FROM u
SELECT r.tableoid::regclass FROM (SELECT tableoid FROM u) r
UPDATE u SET a = 2 WHERE tableoid = 'u'::regclass RETURNING tableoid::regclass, a
INSERT INTO u VALUES (7) RETURNING u.tableoid::regclass
SELECT tableoid FROM u, s.t
SELECT tableoid FROM s.v
WITH u AS (SELECT 1 AS a) SELECT tableoid FROM u
CREATE VIEW w AS SELECT tableoid::regclass AS r, a FROM u
SELECT * FROM w ORDER BY a
DELETE FROM u WHERE tableoid <> 'u'::regclass
""",
        "settings": """
SELECT set_config('search_path', 'public', false)
SELECT current_setting('search_path'), current_setting('TIMEZONE'), current_setting('nosuch', true)
SELECT current_setting('nosuch')
SET application_name = 'me'
SELECT current_setting('application_name') || '!', current_setting('application_name', true)
BEGIN
SET LOCAL application_name = 'local'
SHOW application_name
COMMIT
SHOW application_name
BEGIN READ ONLY
SET application_name TO 'gone'
SELECT current_setting('application_name'), current_setting('transaction_read_only')
ROLLBACK
SHOW application_name
SET statement_timeout = 5000
SHOW statement_timeout
SET statement_timeout TO '60min'
SHOW statement_timeout
RESET statement_timeout
SHOW statement_timeout
SELECT pg_catalog.set_config('application_name', 'it''s', false)
SHOW application_name
SET standard_conforming_strings = on
SET client_encoding = 'UTF8'
SET check_function_bodies = false
SET client_min_messages = warning
SHOW client_min_messages
SET row_security = off
CREATE SCHEMA x
CREATE SEQUENCE x.q
SET search_path TO x
SELECT setval('q'::regclass, 9)
SELECT nextval('q'::regclass), current_setting('search_path')
CREATE TABLE t (id INT PRIMARY KEY, name TEXT DEFAULT 'a')
INSERT INTO t VALUES (1, current_setting('application_name'))
UPDATE t SET name = name || current_setting('search_path') RETURNING *
COMMENT ON TABLE t IS 'rows'
COMMENT ON COLUMN t.name IS NULL
COMMENT ON TABLE nosuch IS 'x'
REINDEX TABLE t
ANALYZE t (id), t
VACUUM t
VACUUM nosuch
RESET ALL
SHOW application_name
RESET search_path
COMMENT ON TABLE x.t IS 'rows'
REINDEX TABLE t
""",
        "numbers of blocks": """
CREATE SEQUENCE s
CREATE TABLE t (a INT PRIMARY KEY, b INT, c TEXT)
INSERT INTO t VALUES (1, 1, 'x'), (2, 1, 'y'), (3, 2, 'z')
WITH q AS (SELECT a, nextval('s') AS n FROM t ORDER BY a) SELECT n, a FROM q ORDER BY n
WITH q AS (SELECT nextval('s') AS n FROM t) SELECT count(*), sum(n), max(n) FROM q
WITH q AS (SELECT nextval('s') AS n FROM t), r AS (SELECT n + 1 AS m FROM q) SELECT q.n, r.m FROM q JOIN r ON r.m = q.n ORDER BY 1
WITH q AS (SELECT nextval('s') AS n) SELECT 1
SELECT currval('s')
SELECT (SELECT nextval('s'))
SELECT a, (SELECT nextval('s')) FROM t ORDER BY a
SELECT a FROM t WHERE a + 10 > (SELECT nextval('s')) ORDER BY a
SELECT sum(n) FROM (SELECT nextval('s') AS n FROM t) q
SELECT q.n, t.a FROM t, (SELECT nextval('s') AS n) q ORDER BY t.a
SELECT DISTINCT n > 0 FROM (SELECT nextval('s') AS n FROM t) q
SELECT DISTINCT nextval('s') > 0, b FROM t ORDER BY b
WITH q AS (SELECT DISTINCT nextval('s') * 0 AS z FROM t) SELECT * FROM q
SELECT count(*) FROM (SELECT DISTINCT nextval('s') % 2 AS z FROM t) q
SELECT currval('s')
SELECT a FROM (SELECT a, nextval('s') AS n FROM t ORDER BY a DESC) q WHERE n % 2 = 0 ORDER BY a
SELECT nextval('s'), 'a' UNION ALL SELECT nextval('s'), 'b' ORDER BY 1
SELECT a FROM t WHERE a IN (SELECT nextval('s') - 30 FROM t) ORDER BY a
SELECT x, nextval('s') FROM (SELECT nextval('s') AS x) q
SELECT count(*), nextval('s') FROM t
SELECT b, count(*), nextval('s') FROM t GROUP BY b ORDER BY b
SELECT * FROM (SELECT nextval('s') AS n, c, NULL::INT AS z FROM t WHERE b = 1 ORDER BY a) q JOIN t ON t.c = q.c ORDER BY t.a
SELECT n FROM (SELECT n FROM (SELECT nextval('s') AS n FROM t) p WHERE n > 0) q ORDER BY n DESC LIMIT 1
SELECT a, n FROM t LEFT JOIN (SELECT nextval('s') * 0 + 2 AS n) q (n) ON q.n = t.a ORDER BY a
SELECT currval('s')
SELECT n, c FROM (SELECT nextval('s') AS n, currval('s') AS c FROM t) q ORDER BY n
SELECT nextval('nosuch') FROM (SELECT nextval('s') AS n) q
""",
        "numbers in branches": """
CREATE SEQUENCE s
CREATE TABLE t (id INT PRIMARY KEY, x INT)
INSERT INTO t VALUES (1, 10), (2, 20), (3, 30), (4, 40)
SELECT id, CASE WHEN id > 2 THEN nextval('s') END FROM t ORDER BY id
SELECT id, CASE WHEN id > 2 THEN nextval('s') ELSE id END FROM t ORDER BY id
SELECT id, CASE id WHEN 1 THEN nextval('s') WHEN 3 THEN 0 ELSE nextval('s') * 10 END FROM t ORDER BY id
SELECT id, coalesce(nullif(id, 2), nextval('s'), nextval('s')) FROM t ORDER BY id
SELECT currval('s')
SELECT CASE WHEN false THEN nextval('s') ELSE 0 END
SELECT currval('s')
SELECT id, id > 2 AND nextval('s') > 0, id > 2 OR nextval('s') > 0, id = 3 FROM t ORDER BY id
SELECT currval('s')
UPDATE t SET x = CASE WHEN id = 3 THEN nextval('s') ELSE x END RETURNING id, x
SELECT currval('s')
UPDATE t SET x = coalesce(x, nextval('s')), id = CASE WHEN id < 3 THEN id ELSE nextval('s') + 100 END RETURNING id, x
SELECT currval('s')
INSERT INTO t VALUES (CASE WHEN 1 > 2 THEN nextval('s') ELSE 900 END, coalesce(7, nextval('s'))) RETURNING *
SELECT currval('s')
INSERT INTO t SELECT id + 500, CASE WHEN id < 3 THEN nextval('s') END FROM t WHERE id < 4 ORDER BY id RETURNING *
INSERT INTO t VALUES (1, 5), (2, 6) ON CONFLICT (id) DO UPDATE SET x = CASE WHEN t.id = 1 THEN nextval('s') ELSE excluded.x END RETURNING *
DELETE FROM t WHERE id < 3 RETURNING id, CASE WHEN id = 2 THEN nextval('s') END
MERGE INTO t USING (VALUES (501), (777)) AS v(i) ON t.id = v.i WHEN MATCHED THEN UPDATE SET x = CASE WHEN x IS NULL THEN 1 ELSE nextval('s') END WHEN NOT MATCHED THEN INSERT VALUES (v.i, CASE v.i WHEN 777 THEN nextval('s') END)
SELECT * FROM t ORDER BY id
SELECT currval('s')
SELECT CASE WHEN (SELECT count(*) FROM t) > 2 THEN nextval('s') END
UPDATE t SET x = CASE WHEN (SELECT count(*) FROM t) < 2 THEN nextval('s') ELSE -1 END WHERE id = 501 RETURNING x
SELECT currval('s')
""",
        "sequences of the session": """
CREATE SEQUENCE s
SELECT setval('s', 7)
SELECT lastval()
SELECT currval('s')
SELECT nextval('s')
SELECT setval('s', 20, false)
SELECT currval('s')
SELECT lastval()
CREATE SEQUENCE r
SELECT setval('r', 100)
SELECT lastval()
SELECT nextval('r')
SELECT setval('s', 5)
SELECT lastval(), currval('s')
CREATE TABLE t (id SERIAL PRIMARY KEY, b BIGSERIAL, c INT GENERATED ALWAYS AS IDENTITY, d INT)
SELECT pg_get_serial_sequence('t', 'id')
SELECT pg_get_serial_sequence('t', 'b'), pg_get_serial_sequence('t', 'c'), pg_get_serial_sequence('t', 'd')
SELECT pg_get_serial_sequence('public.t', 'id')
SELECT pg_get_serial_sequence('nosuch', 'id')
SELECT pg_get_serial_sequence('t', 'nosuch')
SELECT nextval(pg_get_serial_sequence('t', 'id'))
SELECT setval(pg_get_serial_sequence('"t"','id'), coalesce(max(id), 1), max(id) IS NOT null) FROM t
INSERT INTO t (d) VALUES (1) RETURNING *
SELECT currval('t_id_seq'), lastval()
SELECT sequence_schema, sequence_name, data_type, numeric_precision, numeric_precision_radix, numeric_scale, start_value, minimum_value, maximum_value, increment, cycle_option FROM information_schema.sequences WHERE sequence_name <> 't_c_seq' ORDER BY 2
CREATE SCHEMA shop
CREATE TABLE shop.t (id SERIAL PRIMARY KEY, d INT)
CREATE SEQUENCE shop.q OWNED BY shop.t.d
SELECT pg_get_serial_sequence('shop.t', 'id'), pg_get_serial_sequence('shop.t', 'd')
SET search_path TO shop
SELECT pg_get_serial_sequence('t', 'id')
SELECT nextval(pg_get_serial_sequence('t', 'd'))
INSERT INTO t (d) VALUES (nextval('q')) RETURNING *
""",
        "row types in views": """
CREATE TABLE t (a INT PRIMARY KEY, b TEXT, z TEXT)
CREATE TABLE d (id INT PRIMARY KEY, j JSONB)
INSERT INTO d VALUES (1, '{"a": 5, "b": "x", "c": "y"}')
CREATE VIEW v AS SELECT d.id, r.b FROM d, jsonb_populate_record(NULL::t, d.j) AS r
CREATE VIEW w AS SELECT d.id, r.a, k FROM d, jsonb_populate_record(CAST(NULL AS public.t), d.j) AS r (a, k)
ALTER TABLE t RENAME COLUMN b TO c
ALTER TABLE t DROP COLUMN z
SELECT * FROM v
SELECT * FROM w
ALTER TABLE t RENAME TO u
SELECT * FROM v
SELECT * FROM w
DROP TABLE u
SELECT * FROM v
ALTER TABLE u DROP COLUMN c
ALTER TABLE u DROP COLUMN c CASCADE
SELECT * FROM v
SELECT * FROM w
CREATE VIEW v AS SELECT d.id, r.a FROM d, jsonb_populate_record(NULL::u, d.j) AS r
DROP TABLE u CASCADE
SELECT * FROM v
SELECT * FROM d
CREATE SCHEMA shop
SET search_path TO shop, public
CREATE TABLE item (x INT PRIMARY KEY)
SELECT * FROM jsonb_populate_record(NULL::item, '{"x": 4}')
CREATE VIEW v AS SELECT r.x FROM jsonb_populate_record(NULL::item, '{"x": 4}') AS r
SET search_path TO public
SELECT * FROM shop.v
ALTER TABLE shop.item RENAME TO thing
SELECT * FROM shop.v
""",
        "implied conditions": """
CREATE TABLE t (id INT PRIMARY KEY, c INT, n INT, d TEXT, e DATE)
CREATE UNIQUE INDEX over ON t (c) WHERE n > 3
CREATE UNIQUE INDEX three ON t (n) WHERE d IN ('a', 'b', 'c')
CREATE UNIQUE INDEX known ON t (c, n) WHERE d IS NOT NULL AND e < '2026-01-01'
CREATE UNIQUE INDEX either ON t (e) WHERE n = 1 OR d = 'z'
INSERT INTO t VALUES (1, 1, 5, 'a', '2025-01-01')
INSERT INTO t VALUES (2, 1, 9, 'q', NULL) ON CONFLICT (c) WHERE n > 5 DO UPDATE SET id = t.id + 10 RETURNING *
INSERT INTO t VALUES (3, 1, 9, 'q', NULL) ON CONFLICT (c) WHERE n >= 4 DO NOTHING
INSERT INTO t VALUES (3, 1, 9, 'q', NULL) ON CONFLICT (c) WHERE n >= 3 DO NOTHING
INSERT INTO t VALUES (3, 1, 9, 'q', NULL) ON CONFLICT (c) WHERE n > 3 DO NOTHING
INSERT INTO t VALUES (3, 1, 9, 'q', NULL) ON CONFLICT (c) WHERE n > 2 DO NOTHING
INSERT INTO t VALUES (3, 1, 9, 'q', NULL) ON CONFLICT (c) WHERE n = 7 DO NOTHING
INSERT INTO t VALUES (3, 1, 9, 'q', NULL) ON CONFLICT (c) WHERE n = 3 DO NOTHING
INSERT INTO t VALUES (3, 1, 9, 'q', NULL) ON CONFLICT (c) WHERE n IN (4, 8) DO NOTHING
INSERT INTO t VALUES (3, 1, 9, 'q', NULL) ON CONFLICT (c) WHERE n IN (3, 8) DO NOTHING
INSERT INTO t VALUES (3, 1, 9, 'q', NULL) ON CONFLICT (c) WHERE n BETWEEN 4 AND 8 DO NOTHING
INSERT INTO t VALUES (3, 1, 9, 'q', NULL) ON CONFLICT (c) WHERE n < 10 DO NOTHING
INSERT INTO t VALUES (3, 1, 9, 'q', NULL) ON CONFLICT (c) WHERE n > 5 AND d LIKE '%x%' DO NOTHING
INSERT INTO t VALUES (3, 1, 9, 'q', NULL) ON CONFLICT (c) WHERE n > 5 OR n = 4 DO NOTHING
INSERT INTO t VALUES (3, 1, 9, 'q', NULL) ON CONFLICT (c) WHERE n > 5 OR d = 'x' DO NOTHING
INSERT INTO t VALUES (4, 7, 5, 'b', NULL) ON CONFLICT (n) WHERE d = 'b' DO UPDATE SET d = excluded.d RETURNING *
INSERT INTO t VALUES (4, 7, 5, 'c', NULL) ON CONFLICT (n) WHERE d IN ('c', 'a') DO NOTHING
INSERT INTO t VALUES (4, 7, 5, 'c', NULL) ON CONFLICT (n) WHERE d IN ('c', 'd') DO NOTHING
INSERT INTO t VALUES (4, 7, 5, 'c', NULL) ON CONFLICT (n) WHERE d IS NOT NULL DO NOTHING
INSERT INTO t VALUES (5, 1, 5, 'b', '2025-05-05') ON CONFLICT (c, n) WHERE d = 'b' AND e <= '2025-12-30' DO NOTHING
INSERT INTO t VALUES (5, 1, 5, 'b', '2025-05-05') ON CONFLICT (c, n) WHERE d > 'a' AND e = DATE '2025-12-30' DO NOTHING
INSERT INTO t VALUES (5, 1, 5, 'b', '2025-05-05') ON CONFLICT (c, n) WHERE e < '2025-12-30' DO NOTHING
INSERT INTO t VALUES (6, 8, 1, 'y', '2025-02-02') ON CONFLICT (e) WHERE n = 1 DO NOTHING
INSERT INTO t VALUES (6, 9, 1, 'y', '2025-02-02') ON CONFLICT (e) WHERE d = 'z' DO NOTHING
INSERT INTO t VALUES (6, 9, 1, 'y', '2025-02-02') ON CONFLICT (e) WHERE n = 1 OR d = 'z' DO NOTHING
INSERT INTO t VALUES (6, 9, 1, 'y', '2025-02-02') ON CONFLICT (e) WHERE d = 'z' OR n = 1 DO NOTHING
INSERT INTO t VALUES (6, 9, 1, 'y', '2025-02-02') ON CONFLICT (e) WHERE n = 2 DO NOTHING
SELECT * FROM t ORDER BY id
""",
        "numbers of a subquery": """
CREATE SEQUENCE s
CREATE TABLE u (x INT PRIMARY KEY, y INT)
INSERT INTO u VALUES (1, 3), (2, 2), (3, 1)
CREATE TABLE t (id INT PRIMARY KEY, x INT)
INSERT INTO t SELECT * FROM (SELECT nextval('s'), x FROM u ORDER BY y) AS q RETURNING *
INSERT INTO t (id, x) SELECT q.n, q.x FROM (SELECT x, nextval('s') AS n FROM u ORDER BY y) AS q RETURNING *
INSERT INTO t (x, id) SELECT x, n FROM (SELECT x, n FROM (SELECT nextval('s') AS n, x + 10 AS x FROM u ORDER BY x DESC) p) AS q
SELECT id, x FROM (SELECT nextval('s') AS id, x FROM u ORDER BY y LIMIT 2) q
SELECT x, id FROM (SELECT nextval('s') * 10 AS id, x FROM u GROUP BY x ORDER BY x DESC) q
SELECT * FROM (SELECT x, nextval('s') FROM u ORDER BY 1 DESC) q
SELECT currval('s')
INSERT INTO t SELECT nextval('s') + 50, x FROM (SELECT DISTINCT x + 100 AS x FROM u ORDER BY x) AS q RETURNING *
SELECT * FROM t ORDER BY id
""",
        "targets of on conflict": """
CREATE TABLE t (id INT PRIMARY KEY, c INT, d TEXT, CONSTRAINT tc UNIQUE (c, d))
CREATE UNIQUE INDEX t_part ON t (c) WHERE d IS NULL
CREATE UNIQUE INDEX t_big ON t (c) WHERE c > 100
INSERT INTO t VALUES (1, 1, NULL)
INSERT INTO t VALUES (2, 1, NULL)
INSERT INTO t VALUES (2, 1, NULL) ON CONFLICT (c) WHERE d IS NULL DO NOTHING
INSERT INTO t VALUES (2, 1, NULL) ON CONFLICT (c) WHERE d IS NULL DO UPDATE SET id = 10 + excluded.id
SELECT * FROM t ORDER BY id
INSERT INTO t VALUES (2, 1, NULL) ON CONFLICT (c) DO NOTHING
INSERT INTO t VALUES (2, 1, NULL) ON CONFLICT (c) WHERE d = 'x' DO NOTHING
INSERT INTO t VALUES (3, 1, 'q') ON CONFLICT (c) WHERE d IS NULL DO NOTHING
INSERT INTO t VALUES (4, 200, NULL) ON CONFLICT (c) WHERE d IS NULL AND c > 100 DO NOTHING
SELECT * FROM t ORDER BY id
INSERT INTO t VALUES (6, 200, 'y') ON CONFLICT (c) WHERE c > 100 DO UPDATE SET d = excluded.d || 'u' RETURNING *
INSERT INTO t VALUES (7, 1, 'q') ON CONFLICT ON CONSTRAINT tc DO UPDATE SET d = 'changed' RETURNING *
INSERT INTO t VALUES (12, 1, 'q') ON CONFLICT ON CONSTRAINT t_pkey DO UPDATE SET d = 'again' RETURNING *
INSERT INTO t VALUES (12, 1, 'q') ON CONFLICT ON CONSTRAINT nosuch DO NOTHING
INSERT INTO t VALUES (12, 1, 'q') ON CONFLICT ON CONSTRAINT t_part DO NOTHING
INSERT INTO t VALUES (12, 1, 'q') ON CONFLICT (id) WHERE d IS NULL DO NOTHING
INSERT INTO t VALUES (14, 50, 'n') ON CONFLICT (c, d) WHERE c > 3 DO UPDATE SET id = t.id + 100 WHERE excluded.c < 3 RETURNING *
SELECT * FROM t ORDER BY id
""",
        "columns with defaults": """
CREATE TABLE t (id INT PRIMARY KEY)
INSERT INTO t VALUES (1), (2)
ALTER TABLE t ADD COLUMN at TIMESTAMPTZ DEFAULT now()
SELECT id, at IS NOT NULL, at <= now(), at > now() - interval '1 hour' FROM t ORDER BY id
SELECT count(DISTINCT at) FROM t
ALTER TABLE t ADD COLUMN d DATE NOT NULL DEFAULT current_date
SELECT d = current_date FROM t
ALTER TABLE t ADD COLUMN e INT DEFAULT 2 + 3
SELECT id, e FROM t ORDER BY id
ALTER TABLE t ALTER COLUMN e SET DEFAULT 7
INSERT INTO t (id) VALUES (3) RETURNING id
SELECT id, e FROM t ORDER BY id
ALTER TABLE t ADD COLUMN l TIMESTAMP DEFAULT now() + interval '1 day'
SELECT count(l), min(l) > localtimestamp FROM t
ALTER TABLE t ALTER COLUMN at DROP DEFAULT
ALTER TABLE t RENAME COLUMN e TO f
SELECT count(at), count(DISTINCT at), min(f) FROM t
ALTER TABLE t ADD COLUMN x TEXT NOT NULL DEFAULT lower('ABC')
SELECT id, x FROM t ORDER BY id
ALTER TABLE t ADD COLUMN y TEXT NOT NULL DEFAULT nullif(1, 1)
ALTER TABLE t ADD COLUMN c VARCHAR(2) DEFAULT lower('ABC')
ALTER TABLE t ADD COLUMN g INT GENERATED ALWAYS AS (id * 2) STORED
SELECT id, g FROM t ORDER BY id
CREATE TABLE empty (id INT PRIMARY KEY)
CREATE SEQUENCE s
ALTER TABLE empty ADD COLUMN n INT NOT NULL DEFAULT nextval('s')
ALTER TABLE empty ADD COLUMN u UUID NOT NULL DEFAULT gen_random_uuid()
ALTER TABLE empty ADD COLUMN k SERIAL
INSERT INTO empty (id) VALUES (5), (6) RETURNING id
SELECT id, n, k, u IS NOT NULL FROM empty ORDER BY id
""",
        "records of json": """
CREATE TABLE j (id INT PRIMARY KEY, v JSONB, w JSON)
INSERT INTO j VALUES (1, '{"a": 1, "b": "x", "c": [1, 2, {"d": null}], "e": {"f": true}}', '{"a": 1, "b": "x"}'), (2, '[1, 2, 3]', '[{"a": 1, "b": "q"}, {"a": 2}]'), (3, NULL, NULL)
SELECT * FROM jsonb_to_record('{"a": 1, "b": "x", "z": 5}') AS r (a int, b text, c boolean)
SELECT * FROM json_to_record('{"a": 1, "b": {"q": 1}}') AS r (a int, b text)
SELECT * FROM jsonb_to_recordset('[{"a": 1, "b": "x"}, {"a": 2.5, "b": null}]') AS r (a numeric, b text)
SELECT * FROM json_to_recordset('[{"a": 1, "b": "x"}, {"a": 2}]') AS r (a int, b text)
SELECT j.id, r.a, r.b FROM j, LATERAL json_to_recordset(j.w) AS r (a int, b text) WHERE j.id = 2 ORDER BY 2
SELECT j.id, r.a, r.b FROM j, jsonb_to_record(j.v) AS r (a int, b text) WHERE j.id = 1
SELECT * FROM jsonb_to_record('{"a": [1, 2], "b": {"x": 1}}') AS r (a int[], b jsonb)
SELECT * FROM jsonb_to_record('{"a": "2024-01-05", "b": "1.25"}') AS r (a date, b numeric(5,1))
SELECT * FROM jsonb_populate_record(NULL::j, '{"id": 5, "v": [1]}')
SELECT * FROM json_populate_record(NULL::j, '{"id": 5, "v": [1]}')
SELECT * FROM jsonb_populate_recordset(NULL::j, '[{"id": 5, "v": [1]}, {"id": 6}]')
SELECT * FROM jsonb_to_record(NULL) AS r (a int, b text)
SELECT * FROM jsonb_to_recordset(NULL) AS r (a int, b text)
SELECT * FROM jsonb_to_recordset('[]') AS r (a int, b text)
SELECT * FROM jsonb_to_record('[1]') AS r (a int, b text)
SELECT * FROM jsonb_to_recordset('[1]') AS r (a int, b text)
SELECT * FROM jsonb_to_recordset('{"a": 1}') AS r (a int, b text)
SELECT * FROM jsonb_to_record('{"a": "x"}') AS r (a int)
SELECT * FROM jsonb_to_record('{"A": 1, "b": true}') AS r ("A" int, b boolean)
SELECT r.a + 1, upper(b) FROM jsonb_to_recordset('[{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]') AS r (a int, b text) WHERE a > 1
SELECT * FROM json_to_recordset('[{"a":[1,null,"3"]},{"a":"{4,5}"}]') AS r (a int[])
SELECT * FROM json_to_recordset('[{"a":["x\\"y","b c",null]}]') AS r (a text[])
SELECT sum(r.a) FROM jsonb_to_recordset('[{"a": 1}, {"a": 2.5}]') AS r (a numeric(5,2))
INSERT INTO j (id, v) SELECT r.id, r.v FROM jsonb_to_recordset('[{"id": 10, "v": {"q": [1]}}, {"id": 11}]') AS r (id int, v jsonb) RETURNING id
SELECT id, v FROM j ORDER BY id
SELECT j.id, r.q FROM j LEFT JOIN LATERAL jsonb_to_record(j.v) AS r (q jsonb) ON true WHERE j.id IN (3, 10, 11) ORDER BY 1
SELECT * FROM jsonb_to_record('{"a": 1}') AS r
SELECT * FROM jsonb_to_record('{"a": 1}') AS r (a)
SELECT * FROM jsonb_to_recordset('[{"a": "2024-02-03", "b": "12:30"}]') AS r (a date, b time)
SELECT id FROM jsonb_populate_record(NULL::j, '{"id": 5, "v": [1]}') AS r
SELECT q, v FROM jsonb_populate_record(NULL::j, '{"id": 5, "v": [1]}') AS r (q)
SELECT * FROM jsonb_populate_record(NULL::nosuch, '{"id": 5}')
INSERT INTO j SELECT * FROM jsonb_populate_recordset(NULL::j, '[{"id": 50}, {"id": 51, "v": {"a": 1}}]') RETURNING id
SELECT id, v FROM j WHERE id >= 50 ORDER BY id
""",
        "parts of json": """
CREATE TABLE j (id INT PRIMARY KEY, w JSON, v JSONB)
INSERT INTO j VALUES (1, '{"b":1,  "a" : {"q":2,"p" :[ 1 ]}, "b": "x\\u00e9"}', '{"a": 1}'), (2, ' [1, "x", null, {"a":  1}, 1.50, true] ', '[1]'), (3, NULL, NULL)
SELECT key, value FROM j, json_each(w) WHERE id = 1
SELECT * FROM json_each('{"a":1,"b":"x","c":null}')
SELECT * FROM json_each_text('{"a":1,"b":"x","c":null,"d":{"q":1}}')
SELECT id, k FROM j, json_object_keys(w) AS k WHERE id = 1
SELECT json_object_keys('{"b":1,"a":2}')
SELECT * FROM json_array_elements('[1,"x",null,{"a":1},[ 2]]')
SELECT * FROM json_array_elements_text('[1,"x",null,{"a":1},[ 2]]')
SELECT e.value FROM j, json_array_elements(j.w) AS e WHERE id = 2
SELECT id, json_array_elements_text(w) FROM j WHERE id = 2
SELECT e ->> 'a' FROM j, json_array_elements(j.w) AS e WHERE id = 2 AND json_typeof(e) = 'object'
SELECT * FROM json_array_elements('{"a":1}')
SELECT * FROM json_each('[1]')
SELECT * FROM json_array_elements('[]')
SELECT * FROM json_each('{}')
SELECT * FROM json_each(NULL)
SELECT count(*) FROM j, json_array_elements(w) WHERE id = 3
SELECT * FROM json_array_elements('[1,2]') WITH ORDINALITY AS t (v, n)
SELECT * FROM json_array_elements('[1,')
SELECT value::int + 1 FROM json_array_elements_text('[1,2]')
SELECT string_agg(value, '-' ORDER BY value) FROM json_array_elements_text('["b","a"]')
SELECT * FROM json_each_text('{"x\\"y":"q\\\\n"}')
SELECT jsonb_agg(value) FROM jsonb_each('{"a": 1, "b": "x"}')
SELECT key, count(*) FROM j, jsonb_each(v) WHERE jsonb_typeof(v) = 'object' GROUP BY key
SELECT e FROM jsonb_array_elements('[1, {"a": 2}]') AS e
SELECT e -> 'a', e.value FROM jsonb_array_elements('[{"a": 2}]') AS e
SELECT x FROM j, jsonb_array_elements(v) x WHERE jsonb_typeof(v) = 'array'
SELECT x || '!' FROM string_to_table('a,b', ',') AS x
SELECT id FROM j WHERE EXISTS (SELECT 1 FROM jsonb_array_elements_text(j.v) AS e WHERE e = '1' AND j.id = 2) AND id = 2
""",
        "schemas": """
CREATE SCHEMA shop
CREATE SCHEMA shop
CREATE SCHEMA IF NOT EXISTS shop
CREATE TABLE shop.item (id INT PRIMARY KEY, name TEXT)
CREATE TABLE item (id INT PRIMARY KEY, label TEXT)
INSERT INTO shop.item VALUES (1, 'in shop')
INSERT INTO item VALUES (1, 'in public'), (2, 'two')
SELECT * FROM item ORDER BY id
SELECT * FROM shop.item
SELECT shop.item.name FROM shop.item
SELECT item.name FROM shop.item
SELECT i.name, item.label FROM shop.item i JOIN item ON i.id = item.id
SELECT current_schema
SELECT current_schema()
SELECT current_schemas(false)
SELECT current_schemas(true)
SET search_path = shop, public
SELECT current_schema()
SELECT current_schemas(false)
SELECT * FROM item
SELECT * FROM public.item ORDER BY id
CREATE TABLE box (id INT PRIMARY KEY, item_id INT REFERENCES item (id))
INSERT INTO box VALUES (1, 1)
INSERT INTO box VALUES (2, 2)
SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema IN ('shop', 'public') ORDER BY 1, 2
SET search_path TO nosuch
SELECT current_schema()
SELECT * FROM item
CREATE TABLE nowhere (id INT PRIMARY KEY)
SET search_path TO "$user", public
SELECT current_schemas(false)
RESET search_path
SELECT * FROM box
SELECT * FROM shop.box
DROP SCHEMA shop
SELECT * FROM shop.item
SELECT * FROM shop.item
SELECT * FROM box
SELECT b.id, i.name FROM box b JOIN shop.item i ON i.id = b.item_id
CREATE SEQUENCE shop.n
SELECT nextval('shop.n')
SELECT nextval('n')
CREATE VIEW shop.v AS SELECT name FROM shop.item
SELECT * FROM shop.v
CREATE INDEX item_name ON shop.item (name)
DROP INDEX item_name
DROP INDEX shop.item_name
DROP SCHEMA nosuch
DROP SCHEMA IF EXISTS nosuch
DROP SCHEMA shop RESTRICT
DROP SCHEMA shop CASCADE
SELECT * FROM shop.item
SELECT * FROM box
INSERT INTO box VALUES (5, 99)
SELECT * FROM a.t
SELECT * FROM a.w
CREATE TABLE b.t (id INT PRIMARY KEY, n INT)
INSERT INTO b.t SELECT id, 1 FROM a.t
UPDATE b.t SET n = 2 WHERE b.t.id = 1
DELETE FROM b.t WHERE t.id = 1
SELECT nosuch.t.id FROM b.t
SELECT a.t.id FROM b.t
SELECT schema_name FROM information_schema.schemata WHERE schema_name NOT LIKE 'pg%' ORDER BY 1
CREATE SCHEMA pg_x
SELECT * FROM t
""",
        "prepared statements": """
CREATE TABLE t (id INT PRIMARY KEY, x TEXT, n NUMERIC(8,2))
INSERT INTO t VALUES (1, 'a', 1.5), (2, 'b', 2.5), (3, 'c', NULL)
PREPARE q AS SELECT x FROM t WHERE id = $1
EXECUTE q(2)
EXECUTE q
EXECUTE q(1, 2)
EXECUTE q('x')
EXECUTE q('3')
EXECUTE nosuch(1)
PREPARE q AS SELECT 1
PREPARE r (int, text) AS INSERT INTO t (id, x) VALUES ($1, $2) RETURNING *
EXECUTE r(4, 'd')
EXECUTE r(4, 'd')
EXECUTE r(2 + 3, upper('e') || 'f')
PREPARE u (numeric) AS UPDATE t SET n = coalesce(n, 0) + $1 WHERE id < 3
EXECUTE u(1.25)
SELECT * FROM t ORDER BY id
PREPARE d AS DELETE FROM t WHERE id = ANY($1::int[])
EXECUTE d(ARRAY[4, 5])
EXECUTE d('{1,9}')
SELECT id FROM t ORDER BY id
PREPARE z2 AS SELECT nosuch FROM t
PREPARE i (int) AS SELECT id, $1 * id FROM t WHERE id > $1 ORDER BY id LIMIT $1
EXECUTE i(1)
EXECUTE i(NULL)
DEALLOCATE q
EXECUTE q(2)
DEALLOCATE nosuch
DEALLOCATE PREPARE r
DEALLOCATE ALL
EXECUTE u(1)
PREPARE v AS VALUES ($1::int, $2::text)
EXECUTE v(1, 'x')
PREPARE w AS WITH c AS (SELECT * FROM t WHERE id = $1) SELECT x FROM c
EXECUTE w(3)
DISCARD PLANS
EXECUTE w(3)
DISCARD ALL
EXECUTE w(3)
CREATE SEQUENCE s
SELECT nextval('s')
DISCARD SEQUENCES
SELECT currval('s')
SELECT lastval()
BEGIN
DISCARD ALL
ROLLBACK
DISCARD nosuch
""",
        "select into and like": """
CREATE TABLE t (id INT PRIMARY KEY, x TEXT NOT NULL, n NUMERIC(8,2) DEFAULT 3 CHECK (n > 0), UNIQUE (x))
CREATE INDEX t_n ON t (n)
INSERT INTO t VALUES (1, 'a', 1.5), (2, 'b', 2.5), (3, 'c', NULL)
SELECT id, x INTO s FROM t WHERE id < 3
SELECT * FROM s ORDER BY id
SELECT * INTO TABLE s2 FROM t ORDER BY id
SELECT * FROM s2 ORDER BY id
INSERT INTO s2 VALUES (NULL, NULL, -5)
SELECT count(*) FROM s2
SELECT 1 AS a INTO s FROM t
SELECT id, id FROM t
SELECT id, id INTO s3 FROM t
SELECT count(*), max(n) AS m INTO s4 FROM t
SELECT * FROM s4
CREATE TABLE l (LIKE t)
INSERT INTO l VALUES (1, 'a', -1)
INSERT INTO l VALUES (1, 'a', NULL)
INSERT INTO l VALUES (1, NULL, 3)
INSERT INTO l (id, x) VALUES (2, 'x')
SELECT * FROM l ORDER BY n
CREATE TABLE l2 (LIKE t INCLUDING ALL)
INSERT INTO l2 VALUES (1, 'a', -1)
INSERT INTO l2 (id, x) VALUES (1, 'a')
INSERT INTO l2 (id, x) VALUES (1, 'b')
INSERT INTO l2 (id, x) VALUES (2, 'a')
SELECT * FROM l2
CREATE TABLE l3 (LIKE t INCLUDING DEFAULTS, more INT)
INSERT INTO l3 (id, x, more) VALUES (1, 'q', 9)
SELECT * FROM l3
CREATE TABLE l4 (LIKE t INCLUDING ALL EXCLUDING CONSTRAINTS, PRIMARY KEY (id, x))
CREATE TABLE l4 (LIKE t INCLUDING CONSTRAINTS, PRIMARY KEY (id, x))
INSERT INTO l4 VALUES (1, 'a', -1)
INSERT INTO l4 VALUES (1, 'a', 1), (1, 'b', 1)
CREATE TABLE l5 (LIKE nosuch)
CREATE TABLE l6 (LIKE t, x TEXT)
CREATE TABLE g (id INT PRIMARY KEY GENERATED ALWAYS AS IDENTITY, a INT, b INT GENERATED ALWAYS AS (a * 2) STORED)
CREATE TABLE g2 (LIKE g INCLUDING IDENTITY INCLUDING GENERATED)
INSERT INTO g2 (a) VALUES (5), (6)
SELECT * FROM g2 ORDER BY id
CREATE TABLE g3 (LIKE g)
INSERT INTO g3 (a) VALUES (5)
INSERT INTO g3 VALUES (1, 2, 3)
SELECT * FROM g3
""",
        "renames": """
CREATE TABLE t (id INT PRIMARY KEY, x TEXT CONSTRAINT xc CHECK (x <> ''), CONSTRAINT ux UNIQUE (x))
CREATE TABLE c (id INT PRIMARY KEY, t_id INT CONSTRAINT fk REFERENCES t (id))
CREATE VIEW v AS SELECT t.id, x FROM t
INSERT INTO t VALUES (1, 'a')
INSERT INTO c VALUES (1, 1)
ALTER TABLE t RENAME TO u
SELECT * FROM u
SELECT * FROM t
SELECT * FROM v
INSERT INTO c VALUES (2, 5)
INSERT INTO u VALUES (2, '')
ALTER TABLE u RENAME COLUMN x TO y
SELECT * FROM v
SELECT y FROM u
SELECT x FROM u
ALTER TABLE u RENAME y TO z
INSERT INTO u VALUES (2, '')
INSERT INTO u VALUES (2, 'a')
ALTER TABLE u RENAME CONSTRAINT ux TO uz
ALTER TABLE u DROP CONSTRAINT uz
INSERT INTO u VALUES (2, 'a')
ALTER TABLE u RENAME TO c
ALTER TABLE nosuch RENAME TO x
ALTER TABLE IF EXISTS nosuch RENAME TO x
ALTER TABLE u RENAME nosuch TO x
ALTER TABLE u RENAME id TO z
ALTER VIEW v RENAME TO w
SELECT * FROM w ORDER BY id
CREATE INDEX i ON u (z)
ALTER INDEX i RENAME TO j
DROP INDEX i
DROP INDEX j
CREATE TABLE t (id INT PRIMARY KEY)
INSERT INTO c VALUES (3, 2)
INSERT INTO t VALUES (7)
INSERT INTO c VALUES (4, 7)
SELECT * FROM t
SELECT * FROM c ORDER BY id
ALTER TABLE w RENAME TO ww
SELECT * FROM ww ORDER BY id
ALTER SEQUENCE nosuch RENAME TO x
""",
        "search paths without schemas": """
CREATE TABLE t (id INT PRIMARY KEY)
CREATE SCHEMA a
SET search_path TO nosuch
CREATE TABLE n (id INT PRIMARY KEY)
DROP TABLE t
ALTER TABLE t ADD COLUMN x INT
CREATE INDEX i ON t (id)
CREATE SEQUENCE s
CREATE VIEW v AS SELECT 1 AS a
SELECT * FROM t
INSERT INTO t VALUES (1)
CREATE TABLE public.n (id INT PRIMARY KEY)
CREATE TABLE a.n (id INT PRIMARY KEY)
ALTER TABLE public.t ADD COLUMN x INT
CREATE INDEX i ON public.t (x)
DROP INDEX i
SET search_path TO ''
CREATE TABLE m (id INT PRIMARY KEY)
ALTER SEQUENCE s RESTART
SELECT nextval('s')
CREATE TABLE public.r (id INT PRIMARY KEY REFERENCES public.t (id))
SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema IN ('a', 'public') ORDER BY 1, 2
""",
        "a day of statements": """
CREATE TABLE dept (id INT PRIMARY KEY, name TEXT NOT NULL UNIQUE, budget NUMERIC(10,2) DEFAULT 0)
CREATE TABLE emp (id INT PRIMARY KEY, name TEXT NOT NULL, dept_id INT REFERENCES dept (id) ON DELETE SET NULL, salary NUMERIC(8,2) CHECK (salary > 0), hired DATE, boss INT REFERENCES emp (id), tags TEXT[], info JSONB)
INSERT INTO dept VALUES (1, 'eng', 1000), (2, 'ops', 500.5), (3, 'hr', DEFAULT), (4, 'law', NULL)
INSERT INTO emp VALUES (1, 'ann', 1, 100, '2020-01-15', NULL, '{a,b}', '{"lvl": 3, "k": [1,2]}'), (2, 'bob', 1, 80.50, '2021-03-01', 1, '{b}', '{"lvl": 2}'), (3, 'cyd', 2, 70, '2019-07-30', 1, NULL, NULL), (4, 'dan', 2, 70, '2022-12-31', 3, '{}', '{"lvl": null}'), (5, 'eve', NULL, 55.25, NULL, 3, '{c,NULL}', '[]')
SELECT d.name, count(e.id), coalesce(sum(e.salary), 0), avg(e.salary)::numeric(10,3) FROM dept d LEFT JOIN emp e ON e.dept_id = d.id GROUP BY d.id, d.name ORDER BY d.name
SELECT name, salary, rank() OVER (PARTITION BY dept_id ORDER BY salary DESC), sum(salary) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM emp ORDER BY id
SELECT name, lag(salary, 1, 0) OVER w, lead(name) OVER w, first_value(name) OVER w, ntile(2) OVER w FROM emp WINDOW w AS (ORDER BY id) ORDER BY id
SELECT name, percent_rank() OVER (ORDER BY salary), cume_dist() OVER (ORDER BY salary), nth_value(name, 2) OVER (ORDER BY salary, id) FROM emp ORDER BY salary, id
SELECT d.name, t.name, t.salary FROM dept d CROSS JOIN LATERAL (SELECT name, salary FROM emp e WHERE e.dept_id = d.id ORDER BY salary DESC, id LIMIT 1) t ORDER BY 1
WITH RECURSIVE chain AS (SELECT id, name, 1 AS lvl, name AS path FROM emp WHERE boss IS NULL UNION ALL SELECT e.id, e.name, c.lvl + 1, c.path || '>' || e.name FROM emp e JOIN chain c ON e.boss = c.id) SELECT * FROM chain ORDER BY path
WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT sum(i), array_agg(i ORDER BY i DESC) FROM n
SELECT dept_id, string_agg(name, ', ' ORDER BY name DESC) FROM emp GROUP BY dept_id ORDER BY dept_id NULLS FIRST
SELECT dept_id, extract(year FROM hired) AS y, count(*) FROM emp GROUP BY ROLLUP (dept_id, extract(year FROM hired)) ORDER BY 1 NULLS LAST, 2 NULLS LAST, 3
SELECT dept_id, boss, count(*), grouping(dept_id, boss) FROM emp GROUP BY GROUPING SETS ((dept_id), (boss), ()) ORDER BY 4, 1, 2
SELECT dept_id, boss, count(*) FROM emp GROUP BY CUBE (dept_id, boss) ORDER BY 1 NULLS FIRST, 2 NULLS FIRST, 3
SELECT name FROM emp WHERE 'b' = ANY (tags) ORDER BY 1
SELECT name FROM emp WHERE tags @> ARRAY['a'] OR tags && ARRAY['c'] ORDER BY 1
SELECT name, tags[1], array_length(tags, 1), cardinality(tags), array_to_string(tags, '-', '?') FROM emp ORDER BY id
SELECT unnest(tags) AS t, count(*) FROM emp GROUP BY 1 ORDER BY 1 NULLS LAST
SELECT e.name, u.t, u.n FROM emp e, unnest(e.tags) WITH ORDINALITY AS u(t, n) ORDER BY 1, 3
SELECT array_agg(DISTINCT dept_id ORDER BY dept_id) FROM emp
SELECT array_append(tags, 'z'), array_prepend('y', tags), array_cat(tags, '{q}'), array_remove(tags, 'b'), array_position(tags, 'b') FROM emp WHERE id <= 2 ORDER BY id
SELECT info ->> 'lvl', info -> 'k' -> 0, info #>> '{k,1}', jsonb_typeof(info) FROM emp ORDER BY id
SELECT name FROM emp WHERE info @> '{"lvl": 3}'
SELECT jsonb_agg(jsonb_build_object('id', id) ORDER BY id) FROM emp WHERE dept_id = 1
SELECT CASE WHEN salary >= 80 THEN 'high' WHEN salary >= 60 THEN 'mid' ELSE 'low' END AS band, count(*) FROM emp GROUP BY band ORDER BY band
SELECT count(*) FILTER (WHERE salary > 70), count(DISTINCT dept_id), bool_and(salary > 50), every(boss IS NOT NULL), bit_or(id) FROM emp
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY salary), percentile_disc(0.5) WITHIN GROUP (ORDER BY salary), mode() WITHIN GROUP (ORDER BY dept_id) FROM emp
SELECT DISTINCT ON (dept_id) dept_id, name, salary FROM emp ORDER BY dept_id, salary DESC, id
SELECT name FROM emp e WHERE EXISTS (SELECT 1 FROM emp x WHERE x.boss = e.id) ORDER BY 1
SELECT name FROM emp WHERE dept_id IN (SELECT id FROM dept WHERE budget > 600) OR dept_id IS NULL ORDER BY 1
SELECT name FROM emp WHERE salary > ALL (SELECT salary FROM emp WHERE dept_id = 2) ORDER BY 1
SELECT name FROM emp WHERE (dept_id, salary) = (2, 70) ORDER BY 1
SELECT name FROM emp WHERE (dept_id, salary) IN ((1, 100), (2, 70)) ORDER BY 1
SELECT name, (SELECT count(*) FROM emp x WHERE x.boss = e.id) AS reports FROM emp e ORDER BY 2 DESC, 1
SELECT name FROM emp WHERE hired BETWEEN '2020-01-01' AND '2021-12-31' ORDER BY hired
SELECT to_char(hired, 'DD Mon YYYY'), extract(dow FROM hired), date_part('week', hired), extract(epoch FROM hired) FROM emp WHERE hired IS NOT NULL ORDER BY id
SELECT to_char(salary, 'FM9990.00'), to_char(1234567.891, '9,999,999.99'), to_char(-5, 'S99'), to_char(0.5, '90.9%')
SELECT name FROM emp UNION SELECT name FROM dept ORDER BY 1 LIMIT 3 OFFSET 1
SELECT dept_id FROM emp EXCEPT SELECT id FROM dept
SELECT dept_id FROM emp INTERSECT SELECT id FROM dept ORDER BY 1
SELECT dept_id FROM emp EXCEPT ALL SELECT 1 ORDER BY 1
(SELECT id FROM emp ORDER BY id LIMIT 1) UNION ALL (SELECT id FROM emp ORDER BY id DESC LIMIT 1)
VALUES (1, 'a'), (2, 'b') ORDER BY 1 DESC
TABLE dept ORDER BY id
SELECT * FROM (VALUES (1, 'x'), (2, NULL)) AS v (a, b) WHERE b IS NULL
SELECT * FROM dept NATURAL JOIN (SELECT 1 AS id) q
SELECT * FROM emp JOIN dept USING (name)
SELECT d.id, e.id FROM dept d FULL JOIN emp e ON e.dept_id = d.id AND e.salary > 75 ORDER BY 1 NULLS LAST, 2 NULLS LAST
SELECT a.id, b.id FROM dept a, dept b WHERE a.id < b.id AND a.budget IS NOT NULL ORDER BY 1, 2
UPDATE emp SET salary = salary * 1.1 WHERE dept_id = 1 RETURNING id, salary
UPDATE emp SET (name, salary) = ('bobby', 81) WHERE id = 2 RETURNING name, salary
UPDATE emp SET (name, hired) = (SELECT upper(d.name), DATE '2000-01-01' FROM dept d WHERE d.id = 2) WHERE id = 5 RETURNING name, hired
UPDATE emp e SET salary = e.salary + d.budget / 100 FROM dept d WHERE d.id = e.dept_id AND d.name = 'ops' RETURNING e.id, e.salary, d.name
UPDATE emp SET salary = -1 WHERE id = 1
UPDATE emp SET dept_id = 99 WHERE id = 1
UPDATE emp SET tags = array_replace(tags, 'b', 'bb') WHERE id = 2 RETURNING tags
UPDATE emp SET info = info || '{"new": true}', tags = tags || 'more' WHERE id = 1 RETURNING info, tags
UPDATE emp SET info = jsonb_set(info, '{lvl}', '9') WHERE info ? 'lvl' AND id = 2 RETURNING info
DELETE FROM emp USING dept WHERE emp.dept_id = dept.id AND dept.name = 'zzz' RETURNING emp.id
DELETE FROM dept WHERE id = 2
SELECT id, dept_id FROM emp ORDER BY id
DELETE FROM emp WHERE id = 1
INSERT INTO dept (id, name) SELECT id + 10, name || '2' FROM dept WHERE id < 3 RETURNING *
INSERT INTO dept VALUES (1, 'dup') ON CONFLICT DO NOTHING RETURNING id
INSERT INTO dept VALUES (9, 'eng') ON CONFLICT (name) DO UPDATE SET budget = coalesce(dept.budget, 0) + 1 RETURNING *
INSERT INTO dept VALUES (9, 'eng')
INSERT INTO dept DEFAULT VALUES
INSERT INTO dept (name) VALUES ('x')
WITH gone AS (DELETE FROM dept WHERE id > 10 RETURNING *), added AS (INSERT INTO dept SELECT id + 100, name || '!', budget FROM gone RETURNING id, name) SELECT * FROM added ORDER BY id
MERGE INTO dept d USING (VALUES (1, 'eng', 5), (50, 'new', 7)) AS s (id, name, b) ON d.id = s.id WHEN MATCHED THEN UPDATE SET budget = d.budget + s.b WHEN NOT MATCHED THEN INSERT (id, name, budget) VALUES (s.id, s.name, s.b)
SELECT * FROM dept ORDER BY id
BEGIN
SAVEPOINT a
INSERT INTO dept VALUES (60, 'sp')
ROLLBACK TO a
SELECT count(*) FROM dept WHERE id = 60
INSERT INTO dept VALUES (61, 'sp2')
SAVEPOINT b
insert INTO dept VALUES (61, 'dup')
ROLLBACK TO SAVEPOINT b
RELEASE SAVEPOINT a
COMMIT
SELECT id FROM dept WHERE id >= 60 ORDER BY id
START TRANSACTION READ ONLY
insert INTO dept VALUES (70, 'ro')
ROLLBACK
BEGIN ISOLATION LEVEL SERIALIZABLE
SELECT count(*) FROM emp
ROLLBACK
TRUNCATE emp
SELECT count(*) FROM emp
TRUNCATE dept
TRUNCATE dept CASCADE
SELECT count(*) FROM dept
""",
        "similar to": """
SELECT p, 'a' SIMILAR TO p ESCAPE '!', 'a!' SIMILAR TO p ESCAPE '!' FROM (VALUES (1, 'a!'), (2, 'a!!'), (3, '!')) AS v(i, p) ORDER BY i
""",
        "definitions and expressions": """
CREATE TABLE a (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, code CHAR(3) UNIQUE, v NUMERIC(6,2) NOT NULL DEFAULT 1.5, ts TIMESTAMPTZ DEFAULT now(), CONSTRAINT pos CHECK (v >= 0))
INSERT INTO a (code, v) VALUES ('xxx', 1), ('yyy', 2.345), ('zzz', 3) RETURNING id, code, v
insert INTO a (id, code) VALUES (10, 'www')
INSERT INTO a (id, code) OVERRIDING SYSTEM VALUE VALUES (10, 'www') RETURNING id, v
ALTER TABLE a ADD CONSTRAINT small CHECK (v < 100)
insert INTO a (code, v) VALUES ('big', 500)
ALTER TABLE a DROP CONSTRAINT small, ADD COLUMN note TEXT DEFAULT 'n/a'
ALTER TABLE a ALTER COLUMN note SET NOT NULL, ALTER COLUMN note DROP DEFAULT
insert INTO a (code) VALUES ('qqq')
ALTER TABLE a RENAME CONSTRAINT pos TO positive
ALTER TABLE a ADD UNIQUE (note, code)
ALTER TABLE a ADD PRIMARY KEY (code)
ALTER TABLE a DROP COLUMN nosuch
ALTER TABLE a DROP COLUMN IF EXISTS nosuch
CREATE TABLE b (a_id BIGINT REFERENCES a ON DELETE CASCADE ON UPDATE CASCADE, n INT, PRIMARY KEY (a_id, n))
insert INTO b SELECT id, 1 FROM a
DELETE FROM a WHERE code = 'xxx'
SELECT count(*) FROM b
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS b_n ON b (n, a_id)
CREATE OR REPLACE VIEW vb AS SELECT count(*) AS c FROM a
SELECT * FROM vb
SELECT id FROM a WHERE v = 3 FOR UPDATE
SELECT pg_typeof(1), pg_typeof('a'::text), pg_typeof(now())
SELECT version() LIKE '%'
SELECT 'a' || 1 || NULL, concat('a', 1, NULL), concat_ws('-', 'a', NULL, 'b')
SELECT format('%s %I %L', 'a', 'B c', 'it''s'), quote_literal('x'), quote_ident('A')
SELECT split_part('a,b,c', ',', 2), reverse('abc'), initcap('hello world'), translate('abc', 'ab', 'xy'), strpos('abc', 'c')
SELECT substring('hello' FROM 2 FOR 3), overlay('hello' PLACING 'XX' FROM 2 FOR 2), position('l' IN 'hello'), trim(BOTH 'x' FROM 'xxaxx')
SELECT regexp_replace('abc123', '\\d+', '#'), regexp_match('abc123', '(\\w)(\\d)'), 'abc' ~* 'B', 'abc' ILIKE 'A%'
SELECT greatest(1, NULL, 3), least(2, 1), nullif(1, 1), coalesce(NULL, 2)
SELECT round(2.5), round(-2.567, 2), trunc(2.9), ceil(2.1), floor(-2.1), mod(7, -3), power(2, 10), sqrt(16), abs(-3), sign(-2), div(7, 2)
SELECT 7 / 2, -7 / 2, 7 % 3, 7.0 / 2, 2 ^ 3, |/ 25.0, 5 & 3, 5 | 3, 5 # 3, 1 << 4, ~5
SELECT DATE '2024-02-29' + INTERVAL '1 year', extract(quarter FROM DATE '2024-05-01'), isfinite(DATE '2024-01-01'), DATE '2024-01-01' - 1
SELECT generate_series(1, 3), generate_series(1, 2)
SELECT * FROM generate_series('2024-01-01'::timestamp, '2024-01-03', '1 day')
SELECT array_agg(x ORDER BY x DESC) FILTER (WHERE x > 1) FROM generate_series(1, 4) x
SELECT (ARRAY[1,2,3])[2:3], array_upper(ARRAY[5,6], 1), ARRAY[1,2] <@ ARRAY[1,2,3], array_to_string(ARRAY[1,NULL,3], ',')
SELECT ROW(1, 'a') = ROW(1, 'a'), (1, 2) < (1, 3)
SELECT 1 IS DISTINCT FROM NULL, NULL IS NOT DISTINCT FROM NULL, true IS NOT FALSE, NULL IS UNKNOWN
SELECT md5('a'), encode('abc'::bytea, 'hex'), decode('616263', 'hex'), length('äö'), octet_length('äö'), sha256('a'::bytea)
SELECT 'x' LIKE 'X' COLLATE "C"
SELECT CAST('1' AS INT), '1'::numeric(5,2), 'yes'::boolean, 't'::bool, '2024-01-01'::date, '{"a":1}'::jsonb -> 'a'
SELECT 'abc'::int
SELECT 1/0
SELECT nosuch(1)
SELECT * FROM a WHERE nosuch = 1
SELECT a.id FROM a JOIN b ON b.a_id = a.id GROUP BY a.id HAVING count(*) > 0 ORDER BY a.id
SELECT id, v FROM a GROUP BY id ORDER BY id
SELECT v, id FROM a GROUP BY v ORDER BY v
DROP TABLE a
DROP TABLE a CASCADE
SELECT count(*) FROM b
DROP TABLE IF EXISTS nosuch, b
""",
        "functions of defaults, and integers that reference": """
CREATE TABLE p (id BIGINT PRIMARY KEY, u INTEGER UNIQUE)
INSERT INTO p VALUES (5000000000, 1), (2, 2)
CREATE TABLE c (id INT PRIMARY KEY, p INTEGER REFERENCES p)
INSERT INTO c VALUES (1, 2)
INSERT INTO c VALUES (2, 3)
CREATE TABLE d (id INT PRIMARY KEY, p INTEGER)
INSERT INTO d VALUES (1, NULL), (2, 2)
ALTER TABLE d ADD FOREIGN KEY (p) REFERENCES p
INSERT INTO d VALUES (3, 3)
ALTER TABLE d ADD COLUMN q BIGINT REFERENCES p (u)
UPDATE d SET q = 1 WHERE id = 2
UPDATE d SET q = 9 WHERE id = 2
CREATE TABLE e (id INT PRIMARY KEY, x INT DEFAULT nonexist())
CREATE TABLE e (id INT PRIMARY KEY, x TEXT DEFAULT 'a' || nonexist(1))
CREATE TABLE e (id INT PRIMARY KEY, x TEXT DEFAULT repeat('a'))
CREATE TABLE e (id INT PRIMARY KEY, x TEXT DEFAULT regexp_replace('ab', 'a', 'c'))
INSERT INTO e (id) VALUES (1)
ALTER TABLE e ALTER COLUMN x SET DEFAULT nonexist(3)
ALTER TABLE e ADD COLUMN y TEXT DEFAULT nonexist()
CREATE DOMAIN w AS TEXT DEFAULT nonexist()
INSERT INTO e (id) VALUES (2)
""",
        "elements that are assigned": """
CREATE TABLE t (id INT PRIMARY KEY, a INT[], b TEXT[], c BIGINT[], d DATE[], j JSONB, n NUMERIC(8,2)[])
INSERT INTO t VALUES (1, '{1,2,3}', '{x}', '{}', NULL, '{"k": 1, "l": [1]}', '{1.5}'), (2, NULL, '{}', '{7}', '{2024-01-01}', NULL, NULL)
UPDATE t SET a[2] = 20 WHERE id = 1
UPDATE t SET a[1] = id, b[1] = 'y' || id, c[1] = 5, d[1] = '2024-02-29', n[1] = 2
UPDATE t SET a[5] = 50, a[2] = a[1] + 1 WHERE id = 1
UPDATE t SET b[id + 1] = upper(b[1])
UPDATE t SET a[3] = 21 WHERE id = 1
UPDATE t SET a[2] = 22 WHERE id = 1
UPDATE t SET b[1] = regexp_replace(b[1], 'y', 'z'), b[5] = regexp_replace('abc', 'b', 'x') WHERE id = 1
UPDATE t SET b[NULL] = regexp_replace('abc', 'b', 'x')
UPDATE t SET a[NULL] = 1
UPDATE t SET a[1] = NULL WHERE id = 2
UPDATE t SET a[1] = 'x'
UPDATE t SET id[1] = 2
UPDATE t SET a[1] = 1, a = '{}'
UPDATE t SET j['k'] = '5'
UPDATE t SET j['m'] = to_jsonb(id), j['k'] = '"v"' WHERE id = 1
UPDATE t SET j['k'] = 'v'
UPDATE t SET j['l'] = j -> 'k' WHERE id = 1
UPDATE t AS u SET a[1] = u.a[2], j['z'] = u.j WHERE u.id = 1
INSERT INTO t (id, a) VALUES (1, '{9}') ON CONFLICT (id) DO UPDATE SET a[1] = excluded.a[1], j['n'] = '1'
MERGE INTO t USING (VALUES (1, 77), (3, 88)) AS s (id, v) ON t.id = s.id WHEN MATCHED THEN UPDATE SET a[2] = s.v
""",
        "rows that writes return": """
CREATE TABLE t (id INT PRIMARY KEY, a TEXT, k BOOLEAN)
INSERT INTO t VALUES (1, 'x y', TRUE), (2, NULL, NULL) RETURNING t, ROW(a, k)::TEXT, t::TEXT
UPDATE t SET a = 'z' WHERE id = 2 RETURNING t, row_to_json(t), t IS NOT NULL
DELETE FROM t WHERE id = 2 RETURNING to_jsonb(t), t
INSERT INTO t VALUES (1, 'w', FALSE) ON CONFLICT (id) DO UPDATE SET a = excluded.a RETURNING t, id
UPDATE t SET a = (SELECT max(v) AS a FROM (VALUES ('b'), ('c')) AS s (v) WHERE v > a OR a = 'w') RETURNING a
UPDATE t SET k = EXISTS (SELECT v AS a FROM (VALUES ('b')) AS s (v) WHERE v > a)
SELECT * FROM t
DELETE FROM t WHERE EXISTS (SELECT v AS id FROM (VALUES (5)) AS s (v) WHERE v < id)
SELECT count(*) FROM t
""",
        "rows that parts of WITH return": """
CREATE TABLE t (id INT PRIMARY KEY, a TEXT, k NUMERIC(6,2))
INSERT INTO t VALUES (1, 'x y', 1.50), (2, NULL, NULL)
WITH w AS (INSERT INTO t VALUES (3, 'q', 2) RETURNING t) SELECT * FROM w
WITH w AS (UPDATE t SET a = 'z' WHERE id < 3 RETURNING t AS r, t, id) SELECT (r).a, (w.r).k, t, id, row_to_json(r) FROM w ORDER BY id
WITH w AS (UPDATE t AS i SET k = 1 RETURNING *, i) SELECT count(*), count(i), max((i).id) FROM w
WITH w AS (DELETE FROM t WHERE id = 3 RETURNING t.*, t) SELECT * FROM w
WITH w AS (DELETE FROM t WHERE id = 2 RETURNING t) INSERT INTO t SELECT (t).id + 10, (t).a, 5 FROM w RETURNING t
WITH w AS (INSERT INTO t VALUES (4, NULL, NULL) RETURNING t) SELECT (w.t).*, t IS NULL FROM w
WITH w AS (UPDATE t SET k = v.n FROM (VALUES (1, 'x', 1.5), (4, 'y', 2.25)) AS v (i, s, n) WHERE t.id = v.i RETURNING v.i, v.s, t, v.i + 1 AS j) SELECT * FROM w ORDER BY i
WITH w AS (DELETE FROM t USING (VALUES (1), (4)) AS v (i) WHERE v.i = t.id RETURNING v.i, t) SELECT (t).a, i FROM w ORDER BY i
SELECT * FROM t
WITH q AS (SELECT t AS r, 1 AS z FROM t) SELECT * FROM q
WITH q AS (SELECT t AS r, 1 AS z FROM t) SELECT q.*, (r).*, (q.r).id FROM q ORDER BY r
WITH q AS (SELECT t AS r, 1 AS z FROM t) SELECT x.* FROM (SELECT (r).*, z FROM q) AS x
WITH q AS (SELECT t AS r, 1 AS z FROM t) SELECT * FROM q JOIN q AS p USING (z)
SELECT DISTINCT * FROM (SELECT t FROM t) AS q
""",
    }
)
"""The scripts, by name: one statement a line."""
