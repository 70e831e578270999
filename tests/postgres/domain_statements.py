"""Scripts of domains (`scripts.py`)."""

# ruff: noqa: E501 (a statement is one line)

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_TABLES = """
CREATE DOMAIN posint AS INTEGER CHECK (VALUE > 0)
CREATE DOMAIN word AS TEXT NOT NULL DEFAULT 'x' CONSTRAINT short CHECK (length(VALUE) < 5)
CREATE TABLE t (id INT PRIMARY KEY, n posint, w word, m posint DEFAULT 7 NOT NULL)
INSERT INTO t VALUES (1, 1, 'a', 1), (2, NULL, 'b', 2)
INSERT INTO t (id) VALUES (3)"""

STATEMENTS: Mapping[str, str] = MappingProxyType(
    {
        "columns of domains": f"""{_TABLES}
INSERT INTO t VALUES (4, 0, 'a', 1)
INSERT INTO t VALUES (4, 1, 'longer', 1)
INSERT INTO t VALUES (4, 1, NULL, 1)
INSERT INTO t VALUES (4, 1, 'a', NULL)
INSERT INTO t VALUES (4, 1, 'a', -1)
INSERT INTO t VALUES (4, 1, DEFAULT, DEFAULT)
UPDATE t SET n = n - 1
UPDATE t SET w = NULL WHERE id = 1
UPDATE t SET w = w || 'b' WHERE id < 3
UPDATE t SET n = 5, m = n WHERE id = 1
SELECT n + m, w || 'x' FROM t WHERE w = 'ab'
SELECT max(n), min(w), count(DISTINCT m) FROM t
CREATE DOMAIN posint AS TEXT
CREATE DOMAIN t AS TEXT
CREATE DOMAIN bad AS INTEGER CHECK (VALUE > nothing)
CREATE TABLE u (a posint PRIMARY KEY, b word DEFAULT NULL, c word NOT NULL DEFAULT 'q')
INSERT INTO u (a) VALUES (1)
INSERT INTO u (a, b) VALUES (1, 'b')
INSERT INTO u (a, b) VALUES (-1, 'b')
CREATE TABLE f (a posint REFERENCES u, b INTEGER CHECK (b < 10))
INSERT INTO f VALUES (1, 1)
INSERT INTO f VALUES (1, 11)
CREATE TABLE l (LIKE t)
INSERT INTO l VALUES (1, 0, 'a', 1)
CREATE TABLE g (a INTEGER, b posint GENERATED ALWAYS AS (a - 5) STORED)
INSERT INTO g VALUES (6)
INSERT INTO g VALUES (5)
CREATE INDEX ti ON t (n DESC)
SELECT id FROM t WHERE n >= 1 ORDER BY n
INSERT INTO t (id, n) SELECT id + 10, n FROM t WHERE n IS NOT NULL
INSERT INTO t (id, n) SELECT id + 20, n - 5 FROM t WHERE n IS NOT NULL
INSERT INTO t (id, n, w) VALUES (1, 0, 'c') ON CONFLICT (id) DO UPDATE SET n = excluded.n
INSERT INTO t (id, n, w) VALUES (1, 9, 'c') ON CONFLICT (id) DO UPDATE SET n = excluded.n
MERGE INTO t USING u ON t.id = u.a WHEN MATCHED THEN UPDATE SET n = t.n - 100
DELETE FROM t WHERE n = 9 RETURNING n, w
""",
        "casts to domains": """
CREATE DOMAIN posint AS INTEGER CHECK (VALUE > 0)
CREATE DOMAIN word AS VARCHAR(3) NOT NULL CONSTRAINT short CHECK (length(VALUE) < 3)
ALTER DOMAIN word ADD CHECK (VALUE <> 'no')
CREATE DOMAIN low AS posint CHECK (VALUE < 10)
CREATE TABLE t (id INT PRIMARY KEY, n INT, x TEXT, p posint)
INSERT INTO t VALUES (1, 5, 'a', 50), (2, 0, 'abcdef', 3), (3, NULL, NULL, NULL)
SELECT 5::posint, '7'::posint, NULL::posint, CAST(3 + 4 AS posint)
SELECT 0::posint
SELECT '-1'::posint
SELECT 'x'::posint
SELECT 'ab'::word
SELECT 'abc'::word
SELECT 'no'::word
SELECT NULL::word
SELECT 5::low, '5'::posint::low
SELECT 0::low
SELECT 11::low
SELECT n::posint FROM t WHERE n > 0
SELECT n::posint FROM t ORDER BY id
SELECT p::low FROM t WHERE id = 2
SELECT p::low FROM t
SELECT id FROM t WHERE n::posint = 5 AND id = 1
SELECT sum(n)::posint, count(*)::posint FROM t
SELECT max(p::posint) FROM t
SELECT p::posint + 1, count(*) FROM t GROUP BY p::posint + 1 ORDER BY 1
SELECT CASE WHEN n > 0 THEN n::posint ELSE 1 END FROM t ORDER BY id
SELECT coalesce(n::posint, 9) FROM t WHERE id <> 2 ORDER BY 1
SELECT x::word FROM t WHERE id = 1
SELECT x::word FROM t WHERE id = 3
SELECT (SELECT n FROM t WHERE id = 1)::posint
SELECT (SELECT n FROM t WHERE id = 2)::posint
SELECT t.n::public.posint FROM t WHERE id = 1
INSERT INTO t VALUES (4, 9::posint, 'q', 1)
INSERT INTO t VALUES (5, 0::posint, 'q', 1)
UPDATE t SET n = (n - 4)::posint WHERE id = 1
UPDATE t SET n = (n - 4)::posint WHERE id = 1
INSERT INTO t SELECT id + 10, n::posint FROM t WHERE n > 0
DELETE FROM t WHERE n::posint = 9
SELECT 5::nothing
""",
        "domains of domains": """
CREATE DOMAIN num AS INTEGER DEFAULT 50 CONSTRAINT low CHECK (VALUE >= 0)
CREATE DOMAIN pct AS num CONSTRAINT high CHECK (VALUE <= 100)
CREATE DOMAIN needed AS pct NOT NULL DEFAULT 10
CREATE TABLE t (id INT PRIMARY KEY, a num, b pct, c needed)
INSERT INTO t (id) VALUES (1)
INSERT INTO t (id, b) VALUES (2, -1)
INSERT INTO t (id, b) VALUES (2, 101)
INSERT INTO t (id, c) VALUES (2, 101)
INSERT INTO t (id, c) VALUES (2, NULL)
ALTER DOMAIN num SET DEFAULT 60
INSERT INTO t (id) VALUES (3)
ALTER DOMAIN pct DROP DEFAULT
ALTER DOMAIN needed DROP NOT NULL
INSERT INTO t (id) VALUES (5)
ALTER DOMAIN num DROP DEFAULT
CREATE DOMAIN part AS pct
ALTER DOMAIN pct SET DEFAULT 2
CREATE TABLE q (a INT, b part)
INSERT INTO q (a) VALUES (1)
ALTER DOMAIN num ADD CONSTRAINT even CHECK (VALUE % 2 = 0)
INSERT INTO t (id, c) VALUES (4, 11)
ALTER DOMAIN num ADD CHECK (VALUE < 60)
SELECT domain_schema, domain_name, domain_default, data_type, character_maximum_length, numeric_scale, udt_name FROM information_schema.domains WHERE domain_schema = 'public' ORDER BY 2
SELECT constraint_name, domain_name, is_deferrable FROM information_schema.domain_constraints WHERE domain_schema = 'public' ORDER BY 1
SELECT domain_name, table_name, column_name FROM information_schema.column_domain_usage WHERE domain_schema = 'public' ORDER BY 3
SELECT column_name, column_default, data_type, domain_schema, domain_name, udt_schema, udt_name FROM information_schema.columns WHERE table_name = 't' ORDER BY 1
SELECT constraint_name FROM information_schema.table_constraints WHERE table_name = 't' AND constraint_type = 'CHECK' AND constraint_name NOT LIKE '%_not_null'
SELECT constraint_name FROM information_schema.check_constraints WHERE constraint_schema = 'public' AND constraint_name NOT LIKE '%_not_null' ORDER BY 1
DROP DOMAIN num
DROP DOMAIN pct CASCADE
SELECT * FROM t ORDER BY id
DROP TABLE t
DROP DOMAIN num
DROP DOMAIN num
DROP DOMAIN IF EXISTS num
""",
        "alter domain": f"""{_TABLES}
ALTER DOMAIN posint ADD CONSTRAINT small CHECK (VALUE < 2)
ALTER DOMAIN posint ADD CONSTRAINT small CHECK (VALUE < 10)
INSERT INTO t VALUES (4, 10, 'a', 1)
INSERT INTO t VALUES (4, 1, 'a', 10)
ALTER DOMAIN posint ADD CONSTRAINT small CHECK (VALUE < 100)
ALTER DOMAIN posint VALIDATE CONSTRAINT small
ALTER DOMAIN posint VALIDATE CONSTRAINT nothing
ALTER DOMAIN posint RENAME CONSTRAINT small TO tiny
ALTER DOMAIN posint DROP CONSTRAINT small
ALTER DOMAIN posint DROP CONSTRAINT tiny
INSERT INTO t VALUES (4, 1000, 'a', 1)
ALTER DOMAIN posint DROP CONSTRAINT posint_check RESTRICT
INSERT INTO t VALUES (5, -1000, 'a', -1)
ALTER DOMAIN posint ADD CHECK (VALUE > 0)
ALTER DOMAIN posint ADD CHECK (VALUE > 0)
ALTER DOMAIN posint ADD CHECK (VALUE <> 13)
ALTER DOMAIN posint SET DEFAULT 3
INSERT INTO t (id) VALUES (6)
SELECT * FROM t ORDER BY id
ALTER DOMAIN posint SET DEFAULT 'x'
ALTER DOMAIN posint SET NOT NULL
UPDATE t SET n = 1 WHERE n IS NULL
ALTER DOMAIN posint SET NOT NULL
INSERT INTO t (id, n) VALUES (7, NULL)
ALTER DOMAIN posint DROP NOT NULL
INSERT INTO t (id, n) VALUES (7, NULL)
ALTER DOMAIN posint DROP DEFAULT
INSERT INTO t (id) VALUES (9)
ALTER DOMAIN word DROP DEFAULT
INSERT INTO t (id) VALUES (10)
INSERT INTO t (id) VALUES (10)
ALTER DOMAIN posint RENAME TO natural_number
INSERT INTO t (id, n) VALUES (11, 0)
CREATE TABLE p (a posint)
CREATE TABLE p (a natural_number, z INT)
INSERT INTO p VALUES (0)
ALTER DOMAIN nothing DROP NOT NULL
ALTER DOMAIN natural_number RENAME TO word
CREATE SCHEMA shop
ALTER DOMAIN natural_number SET SCHEMA shop
INSERT INTO p VALUES (0)
ALTER TABLE p RENAME COLUMN a TO b
INSERT INTO p VALUES (0)
ALTER TABLE p ADD COLUMN c shop.natural_number
INSERT INTO p VALUES (3, 0, 0)
DROP SCHEMA shop
DROP DOMAIN shop.natural_number
DROP SCHEMA shop CASCADE
SELECT * FROM t ORDER BY id
""",
        "columns that get a domain": """
CREATE DOMAIN posint AS INTEGER DEFAULT 8 CHECK (VALUE > 0)
CREATE DOMAIN word AS TEXT NOT NULL CHECK (VALUE <> '')
CREATE TABLE t (id INT PRIMARY KEY, a INTEGER, b TEXT, c INTEGER DEFAULT 5)
INSERT INTO t VALUES (1, 0, '12', 1), (2, 5, NULL, 2)
ALTER TABLE t ALTER COLUMN a TYPE posint
UPDATE t SET a = 1 WHERE id = 1
ALTER TABLE t ALTER COLUMN a TYPE posint
INSERT INTO t (id) VALUES (3)
INSERT INTO t (id, a) VALUES (4, 0)
ALTER TABLE t ALTER COLUMN c TYPE posint
INSERT INTO t (id) VALUES (4)
ALTER TABLE t ALTER COLUMN c DROP DEFAULT
INSERT INTO t (id) VALUES (5)
ALTER TABLE t ALTER COLUMN c SET NOT NULL
ALTER DOMAIN posint SET NOT NULL
ALTER DOMAIN posint DROP NOT NULL
ALTER TABLE t ALTER COLUMN c DROP NOT NULL
INSERT INTO t (id, c) VALUES (6, NULL)
ALTER TABLE t ALTER COLUMN b TYPE word
UPDATE t SET b = '7' WHERE b IS NULL
ALTER TABLE t ALTER COLUMN b TYPE word
ALTER TABLE t ALTER COLUMN b TYPE posint USING b::INTEGER
SELECT * FROM t ORDER BY id
INSERT INTO t (id, b) VALUES (7, 0)
ALTER TABLE t ALTER COLUMN b TYPE TEXT
INSERT INTO t (id, b) VALUES (7, '')
ALTER TABLE t ADD COLUMN d posint
SELECT * FROM t ORDER BY id
INSERT INTO t (id, d) VALUES (8, 0)
ALTER TABLE t ADD COLUMN e word DEFAULT 'e'
CREATE TABLE empty (a INT)
ALTER TABLE empty ADD COLUMN b word, ADD COLUMN c INT NOT NULL
INSERT INTO empty VALUES (1, 'b', NULL)
INSERT INTO empty VALUES (1, 'b', 2)
ALTER TABLE t ADD COLUMN f posint DEFAULT NULL CHECK (f < 3)
INSERT INTO t (id, f) VALUES (9, 3)
INSERT INTO t (id, f) VALUES (9, 2)
ALTER TABLE t DROP COLUMN f
DROP DOMAIN posint
DROP DOMAIN posint CASCADE
SELECT * FROM t ORDER BY id
""",
    }
)
