"""Scripts of enumerations (`scripts.py`)."""

# ruff: noqa: E501 (a statement is one line)

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_TABLES = """
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')
CREATE TYPE size AS ENUM ('ok', 'xl')
CREATE TABLE t (id INT PRIMARY KEY, m mood, s size, a mood[], x TEXT)
CREATE INDEX tm ON t (m DESC, id)
CREATE TABLE k (m mood PRIMARY KEY, w INT)
INSERT INTO t VALUES (1, 'sad', 'ok', '{sad,ok}', 'ok'), (2, 'happy', 'xl', NULL, 'happy'), (3, 'ok', 'ok', ARRAY['happy']::mood[], 'zz'), (4, NULL, NULL, '{}', NULL)
INSERT INTO k VALUES ('happy', 10), ('sad', 30)"""

STATEMENTS: Mapping[str, str] = MappingProxyType(
    {
        "the order of an enum": f"""{_TABLES}
SELECT id, m FROM t ORDER BY m
SELECT id, m FROM t ORDER BY m DESC
SELECT id, m FROM t ORDER BY m DESC NULLS LAST, id
SELECT id FROM t WHERE m > 'sad' ORDER BY id
SELECT id FROM t WHERE 'ok' >= m ORDER BY id
SELECT id FROM t WHERE m BETWEEN 'ok' AND 'happy' ORDER BY id
SELECT id FROM t WHERE m <> 'ok' ORDER BY id
SELECT id FROM t WHERE m IN ('sad', 'happy') ORDER BY id
SELECT id FROM t WHERE m NOT IN ('sad', NULL) ORDER BY id
SELECT id FROM t WHERE m IS DISTINCT FROM 'sad' ORDER BY id
SELECT id FROM t WHERE (m, id) > ('ok', 1) ORDER BY id
SELECT id FROM t WHERE (m, id) IN (('sad', 1), ('ok', 3)) ORDER BY id
SELECT max(m), min(m), count(m), count(DISTINCT m) FROM t
SELECT s, max(m) FROM t GROUP BY s HAVING max(m) >= 'ok' ORDER BY s
SELECT m, count(*) FROM t GROUP BY m ORDER BY m DESC
SELECT m, count(*) FROM t GROUP BY ROLLUP (m) ORDER BY grouping(m), m
SELECT DISTINCT m FROM t ORDER BY m
SELECT id, rank() OVER (ORDER BY m), lag(m) OVER (ORDER BY m), lead(m, 1, 'sad') OVER (ORDER BY id) FROM t ORDER BY id
SELECT first_value(m) OVER (ORDER BY m DESC NULLS LAST) FROM t
SELECT id, row_number() OVER (PARTITION BY s ORDER BY m DESC) FROM t ORDER BY id
SELECT mode() WITHIN GROUP (ORDER BY m), percentile_disc(0.5) WITHIN GROUP (ORDER BY m) FROM t
SELECT array_agg(m ORDER BY m DESC NULLS LAST) FROM t
SELECT greatest(m, 'ok'), least(m, 'ok'), nullif(m, 'sad'), coalesce(m, 'happy') FROM t ORDER BY id
SELECT m FROM t WHERE id < 4 UNION SELECT 'ok' ORDER BY 1
SELECT m FROM t EXCEPT SELECT m FROM k ORDER BY 1
SELECT m FROM t INTERSECT SELECT m FROM k ORDER BY 1
WITH c AS (SELECT m AS q FROM t) SELECT q FROM c WHERE q > 'sad' ORDER BY q
SELECT * FROM (VALUES ('sad'::mood), ('happy')) AS v(e) ORDER BY e
SELECT e FROM unnest(enum_range(NULL::mood)) AS e ORDER BY e DESC
SELECT t.id, k.w FROM t JOIN k ON t.m = k.m ORDER BY k.m
SELECT id, w FROM t JOIN k USING (m) ORDER BY m
SELECT id FROM t WHERE m = (SELECT min(m) FROM k)
SELECT id FROM t WHERE m IN (SELECT m FROM k) ORDER BY id
SELECT id FROM t WHERE m > ALL (SELECT m FROM k WHERE w = 30) ORDER BY id
SELECT (SELECT max(m) FROM t) > 'ok'
SELECT CASE WHEN id = 1 THEN 'happy' ELSE m END FROM t ORDER BY id
SELECT CASE m WHEN 'sad' THEN 1 WHEN 'ok' THEN 2 ELSE 0 END FROM t ORDER BY id
""",
        "casts of an enum": f"""{_TABLES}
SELECT m::text, m || '!', '<' || m, m::text || s::text FROM t ORDER BY id
SELECT m || m FROM t
SELECT upper(m::text), length(m::text) FROM t ORDER BY id
SELECT m::varchar(2) FROM t ORDER BY id
SELECT 'happy'::mood, CAST('ok' AS size), NULL::mood
SELECT 'glum'::mood
SELECT ''::mood
SELECT x::mood FROM t WHERE id < 3 ORDER BY id
SELECT x::mood FROM t
SELECT id FROM t WHERE x = m
SELECT id FROM t WHERE x = m::text ORDER BY id
SELECT id FROM t WHERE m = 'glum'
SELECT id FROM t WHERE m = s
SELECT m::size FROM t
SELECT m::text::size FROM t WHERE m = 'ok'
SELECT m::int FROM t
SELECT 1::mood
SELECT lower(m) FROM t
SELECT m LIKE 's%' FROM t
SELECT m + 1 FROM t
SELECT sum(m) FROM t
SELECT string_agg(m, ',') FROM t
SELECT string_agg(m::text, ',' ORDER BY m) FROM t
SELECT concat(m, '-', s), concat_ws('/', m, id) FROM t ORDER BY id
SELECT format('%s is %s', id, m) FROM t ORDER BY id
SELECT quote_literal(m) FROM t ORDER BY id
SELECT pg_typeof(m)::text FROM t WHERE id = 1
SELECT to_json(m), to_jsonb(m) FROM t ORDER BY id
SELECT json_build_object('m', m), jsonb_build_array(m, s) FROM t ORDER BY id
SELECT jsonb_agg(m ORDER BY m) FROM t
SELECT m FROM t UNION ALL SELECT x FROM t
SELECT m FROM t UNION ALL SELECT s FROM t
SELECT * FROM t JOIN k ON t.s = k.m
SELECT id FROM t WHERE x IN (SELECT m FROM k)
SELECT enum_first(NULL::mood), enum_last(NULL::mood), enum_first('happy'::mood)
SELECT enum_range(NULL::mood), enum_range('ok'::mood, NULL), enum_range(NULL, 'ok'::mood), enum_range('sad'::mood, 'ok'::mood)
SELECT enum_range(NULL::text)
""",
        "arrays of an enum": f"""{_TABLES}
SELECT id, a[1], a[2], cardinality(a), array_length(a, 1) FROM t ORDER BY id
SELECT id, a::text, array_to_string(a, '-') FROM t ORDER BY id
SELECT id FROM t WHERE m = ANY (a)
SELECT id FROM t WHERE 'happy' = ANY (a)
SELECT id FROM t WHERE m = ANY ('{{sad,ok}}') ORDER BY id
SELECT id FROM t WHERE m = ANY (ARRAY['happy']::mood[])
SELECT id FROM t WHERE m = ANY ('{{glum}}')
SELECT id FROM t WHERE a @> ARRAY['ok']::mood[]
SELECT id FROM t WHERE a = '{{sad,ok}}'
SELECT id FROM t WHERE 'ok' = ALL (a) ORDER BY id
SELECT id, a || 'sad'::mood FROM t ORDER BY id
SELECT id, array_append(a, 'happy'), array_remove(a, 'ok'), array_position(a, 'ok') FROM t ORDER BY id
SELECT array_append(a, 'glum') FROM t
SELECT id, unnest(a) FROM t ORDER BY 1, 2
SELECT ARRAY[m, 'ok'] FROM t ORDER BY id
SELECT '{{ok,happy}}'::mood[], ARRAY['sad', 'ok']::mood[], '{{}}'::mood[]
SELECT '{{ok,glum}}'::mood[]
SELECT a::text[] FROM t ORDER BY id
UPDATE t SET a = ARRAY[m, m] WHERE id < 3 RETURNING a
INSERT INTO t (id, a) VALUES (9, '{{happy,NULL}}')
INSERT INTO t (id, a) VALUES (10, '{{glum}}')
""",
        "writes of an enum": f"""{_TABLES}
INSERT INTO t (id, m) VALUES (5, 'glum')
INSERT INTO t (id, m) VALUES (5, lower('OK'))
INSERT INTO t (id, m) VALUES (5, lower('OK')::mood)
INSERT INTO t (id, m) SELECT 6, x FROM t WHERE id = 1
INSERT INTO t (id, m) SELECT 6, x::mood FROM t WHERE id = 1
INSERT INTO t (id, m) SELECT 7, 'happy'
INSERT INTO t (id, m) SELECT 8, m FROM k WHERE w = 30
INSERT INTO t (id, m) SELECT 9, s FROM t WHERE id = 1
UPDATE t SET m = 'happy' WHERE m = 'sad' RETURNING id, m
UPDATE t SET m = s
UPDATE t SET m = x
UPDATE t SET x = m WHERE id = 1 RETURNING x
UPDATE t SET m = CASE WHEN id = 1 THEN 'ok' ELSE m END
UPDATE t SET m = NULL WHERE m < 'ok'
UPDATE t SET m = (SELECT max(m) FROM k) WHERE id = 3
DELETE FROM t WHERE m >= 'happy' AND id < 4 RETURNING m
INSERT INTO k VALUES ('happy', 1)
INSERT INTO k VALUES ('happy', 1), ('ok', 2) ON CONFLICT (m) DO UPDATE SET w = k.w + excluded.w
SELECT m, w FROM k ORDER BY m
UPDATE k SET m = 'sad' WHERE m = 'ok'
DELETE FROM k WHERE m = 'happy'
MERGE INTO k USING (VALUES ('ok'::mood, 5), ('happy', 6)) AS v(m, w) ON k.m = v.m WHEN MATCHED THEN UPDATE SET w = v.w WHEN NOT MATCHED THEN INSERT VALUES (v.m, v.w)
SELECT m, w FROM k ORDER BY m
""",
        "types and their labels": f"""{_TABLES}
CREATE TYPE mood AS ENUM ('x')
CREATE TYPE twice AS ENUM ('x', 'x')
CREATE TYPE blank AS ENUM ()
CREATE TABLE n (a INT PRIMARY KEY, b blank)
INSERT INTO n VALUES (1, NULL)
INSERT INTO n VALUES (2, 'x')
ALTER TYPE blank ADD VALUE 'x'
INSERT INTO n VALUES (2, 'x')
ALTER TYPE mood ADD VALUE 'so so' BEFORE 'ok'
ALTER TYPE mood ADD VALUE 'furious' BEFORE 'sad'
ALTER TYPE mood ADD VALUE 'glad' AFTER 'ok'
ALTER TYPE mood ADD VALUE 'ecstatic'
ALTER TYPE mood ADD VALUE 'ok'
ALTER TYPE mood ADD VALUE IF NOT EXISTS 'ok'
ALTER TYPE mood ADD VALUE 'x' BEFORE 'nothing'
SELECT enum_range(NULL::mood)::text
SELECT id, m FROM t ORDER BY m
INSERT INTO t (id, m) VALUES (5, 'so so'), (6, 'furious'), (7, 'glad'), (8, 'ecstatic')
SELECT id, m FROM t ORDER BY m
SELECT id FROM t WHERE m > 'so so' ORDER BY id
SELECT max(m), min(m) FROM t
ALTER TYPE mood RENAME VALUE 'so so' TO 'middling'
ALTER TYPE mood RENAME VALUE 'so so' TO 'middling'
ALTER TYPE mood RENAME VALUE 'sad' TO 'ok'
SELECT id, m FROM t ORDER BY m
SELECT id FROM t WHERE m = 'so so'
UPDATE t SET m = 'middling' WHERE m = 'glad'
ALTER TABLE t ADD COLUMN y mood NOT NULL DEFAULT 'middling'
SELECT id, y FROM t ORDER BY id
ALTER TABLE t ADD CHECK (y < 'glad')
UPDATE t SET y = 'ecstatic' WHERE id = 1
ALTER TABLE t ALTER COLUMN y SET DEFAULT 'furious'
INSERT INTO t (id) VALUES (20)
SELECT y FROM t WHERE id = 20
ALTER TABLE t ALTER COLUMN x TYPE mood USING 'ok'::mood
SELECT id, x FROM t ORDER BY id
ALTER TABLE t ALTER COLUMN x TYPE TEXT
SELECT id, x || '!' FROM t ORDER BY id
ALTER TYPE mood RENAME TO feeling
SELECT 'ok'::mood
SELECT m FROM t WHERE m >= 'ok'::feeling ORDER BY m, id
CREATE SCHEMA shop
ALTER TYPE feeling SET SCHEMA shop
SELECT 'ok'::shop.feeling, m FROM t WHERE id = 1
SELECT 'ok'::feeling
DROP TYPE shop.feeling
DROP TYPE nothing
DROP TYPE IF EXISTS nothing
DROP TYPE size CASCADE
SELECT id, m, x FROM t WHERE id = 1
DROP TABLE t, k
DROP TYPE shop.feeling
CREATE TYPE feeling AS ENUM ('b', 'a')
CREATE TABLE u (f feeling PRIMARY KEY)
INSERT INTO u VALUES ('a'), ('b')
SELECT f FROM u ORDER BY f
""",
        "expressions of a schema with an enum": """
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')
CREATE TABLE d (id INT PRIMARY KEY, m mood DEFAULT lower('OK')::mood, x TEXT, CHECK (m <> 'sad'))
INSERT INTO d (id) VALUES (1)
INSERT INTO d (id, m) VALUES (2, 'sad')
CREATE TABLE g (id INT PRIMARY KEY, m mood GENERATED ALWAYS AS (CASE WHEN id > 1 THEN 'ok'::mood ELSE 'sad'::mood END) STORED)
INSERT INTO g (id) VALUES (1), (2)
CREATE INDEX gi ON g ((coalesce(m, 'ok')))
SELECT id FROM g WHERE coalesce(m, 'ok') = 'sad'
CREATE INDEX gp ON g (id) WHERE m > 'sad'
SELECT id FROM g WHERE m > 'sad' AND id = 2
SELECT max(m) OVER (ORDER BY id) FROM g
SELECT m FROM g GROUP BY ROLLUP (m) ORDER BY m
SELECT count(*) FILTER (WHERE m = 'ok') FROM g
SELECT x FROM (SELECT m AS x FROM g UNION ALL SELECT m FROM d) AS u WHERE x > 'sad' ORDER BY x
WITH RECURSIVE r AS (SELECT m, 1 AS n FROM d UNION ALL SELECT m, n + 1 FROM r WHERE n < 3) SELECT * FROM r ORDER BY n
SELECT id FROM g WHERE EXISTS (SELECT 1 FROM d WHERE d.m = g.m)
SELECT coalesce(d.m, g.m) FROM d FULL JOIN g ON d.m = g.m ORDER BY 1
SELECT array_agg(DISTINCT m ORDER BY m DESC)::text FROM g
SELECT m FROM g ORDER BY CASE WHEN m = 'ok' THEN 1 ELSE 2 END, m
SELECT least(m, x) FROM d
SELECT m IN ('ok', x) FROM d
SELECT CASE WHEN true THEN m ELSE x END FROM d
SELECT coalesce(m, x) FROM d
SELECT ARRAY[m, x] FROM d
SELECT m = 1 FROM d
SELECT m BETWEEN SYMMETRIC 'ok' AND 'sad' FROM d
SELECT nullif('ok', m) FROM d
SELECT string_to_array('sad,ok', ',')::mood[]::text
SELECT to_char(m, 'x') FROM d
DELETE FROM d USING g WHERE d.m = g.m RETURNING d.m
ALTER TYPE mood RENAME VALUE 'happy' TO 'glad'
SELECT * FROM g ORDER BY m
""",
        "views of an enum": f"""{_TABLES}
CREATE VIEW v AS SELECT id, m, m::text AS l FROM t WHERE m >= 'ok'::mood
SELECT * FROM v ORDER BY m
ALTER TYPE mood ADD VALUE 'glad' BEFORE 'happy'
UPDATE t SET m = 'glad' WHERE id = 3
SELECT * FROM v ORDER BY m DESC
SELECT table_name, column_name, data_type, udt_schema, udt_name FROM information_schema.columns WHERE table_schema = 'public' AND column_name IN ('m', 'a') ORDER BY 1, 2
DROP TYPE mood
""",
    }
)
