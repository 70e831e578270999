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
    }
)
"""The scripts, by name: one statement a line."""
