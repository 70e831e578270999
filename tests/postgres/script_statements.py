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
    }
)
"""The scripts, by name: one statement a line."""
