"""Scripts of schemas, sequences and other statements that applications send (`scripts.py`)."""

# ruff: noqa: E501 (a statement is one line)

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

STATEMENTS: Mapping[str, str] = MappingProxyType(
    {
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
    }
)
"""The scripts, by name: one statement a line."""
