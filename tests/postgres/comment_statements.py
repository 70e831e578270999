"""Scripts of COMMENT ON, and of changes that comments follow (`scripts.py`)."""

# ruff: noqa: E501 (a statement is one line)

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

SHOWN = "SELECT CASE WHEN classoid = 'pg_class'::regclass THEN (SELECT relname FROM pg_class WHERE oid = objoid) WHEN classoid = 'pg_constraint'::regclass THEN (SELECT conname FROM pg_constraint WHERE oid = objoid) WHEN classoid = 'pg_type'::regclass THEN (SELECT typname FROM pg_type WHERE oid = objoid) ELSE (SELECT nspname FROM pg_namespace WHERE oid = objoid) END AS name, (SELECT attname FROM pg_attribute WHERE attrelid = objoid AND attnum = objsubid AND objsubid > 0) AS part, description FROM pg_description WHERE objoid > 16383 ORDER BY 1, 2, 3"

STATEMENTS: Mapping[str, str] = MappingProxyType(
    {
        "forms of comments": """
CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER, "C d" TEXT)
COMMENT ON TABLE t IS 'it''s'
SELECT obj_description('t'::regclass), obj_description('t'::regclass, 'pg_class'), obj_description('t'::regclass, 'pg_type'), obj_description('t'::regclass, 'nothing')
COMMENT ON TABLE t IS E'a\\\\n\\\\x41\\\\u00e4'
SELECT obj_description('t'::regclass)
COMMENT ON TABLE t IS $$it's$$
SELECT obj_description('t'::regclass)
COMMENT ON TABLE public.t IS U&'d\\0061t!'
SELECT obj_description('t'::regclass)
COMMENT ON TABLE t IS U&'d!0061t' UESCAPE '!'
SELECT obj_description('t'::regclass)
COMMENT ON TABLE t IS ''
SELECT obj_description('t'::regclass)
COMMENT ON TABLE t IS 'x'
COMMENT ON TABLE t IS NULL
SELECT obj_description('t'::regclass)
COMMENT ON COLUMN t."C d" IS 'c'
COMMENT ON COLUMN public.t.b IS 'b'
SELECT col_description('t'::regclass, 1), col_description('t'::regclass, 2), col_description('t'::regclass, 3), col_description('t'::regclass, 9), col_description(NULL, 1)
SELECT a.attname, col_description(a.attrelid, a.attnum) FROM pg_attribute a WHERE a.attrelid = 't'::regclass AND a.attnum > 0 ORDER BY a.attnum
SELECT c.relname, obj_description(c.oid, 'pg_class') FROM pg_class c WHERE c.relname = 't'
COMMENT ON TABLE t IS 5
COMMENT ON TABLE t IS 'a' || 'b'
COMMENT ON TABLE t
COMMENT ON COLUMN b IS 'x'
COMMENT ON TABLE nothing IS 'x'
COMMENT ON TABLE nothing.t IS 'x'
COMMENT ON VIEW t IS 'x'
COMMENT ON INDEX t IS 'x'
COMMENT ON TABLE t_pkey IS 'x'
COMMENT ON COLUMN t.nothing IS 'x'
COMMENT ON COLUMN nothing.a IS 'x'
COMMENT ON CONSTRAINT nothing ON t IS 'x'
COMMENT ON CONSTRAINT t_pkey ON nothing IS 'x'
COMMENT ON TYPE nothing IS 'x'
COMMENT ON DOMAIN nothing IS 'x'
COMMENT ON SCHEMA nothing IS 'x'
COMMENT ON DATABASE nothing IS 'x'
""",
        "comments follow": f"""
CREATE SCHEMA s
CREATE TYPE mood AS ENUM ('sad', 'ok')
CREATE DOMAIN small AS INTEGER CONSTRAINT few CHECK (value < 9)
CREATE TABLE p (k INTEGER PRIMARY KEY)
CREATE TABLE t (a INTEGER CONSTRAINT pk PRIMARY KEY, b INTEGER CONSTRAINT once UNIQUE, c small, m mood, p INTEGER CONSTRAINT r REFERENCES p, CONSTRAINT more CHECK (b > 0))
CREATE INDEX i ON t (c)
CREATE VIEW v AS SELECT a, b FROM t
CREATE SEQUENCE n
COMMENT ON SCHEMA s IS 'the schema'
COMMENT ON TYPE mood IS 'the mood'
COMMENT ON TYPE small IS 'the domain'
COMMENT ON DOMAIN small IS 'the small domain'
COMMENT ON CONSTRAINT few ON DOMAIN small IS 'the few'
COMMENT ON TABLE t IS 'the table'
COMMENT ON COLUMN t.a IS 'the a'
COMMENT ON COLUMN t.b IS 'the b'
COMMENT ON COLUMN v.b IS 'the b of v'
COMMENT ON CONSTRAINT pk ON t IS 'the key'
COMMENT ON INDEX pk IS 'the index of the key'
COMMENT ON CONSTRAINT once ON t IS 'only once'
COMMENT ON INDEX once IS 'the index of once'
COMMENT ON CONSTRAINT r ON t IS 'the reference'
COMMENT ON CONSTRAINT more ON t IS 'the check'
COMMENT ON INDEX i IS 'the index'
COMMENT ON VIEW v IS 'the view'
COMMENT ON SEQUENCE n IS 'the sequence'
{SHOWN}
ALTER TABLE t RENAME TO tt
ALTER TABLE tt RENAME COLUMN a TO aa
ALTER TABLE tt RENAME CONSTRAINT pk TO key
ALTER TABLE tt RENAME CONSTRAINT once TO twice
ALTER TABLE tt RENAME CONSTRAINT r TO rr
ALTER TABLE tt RENAME CONSTRAINT more TO most
ALTER INDEX i RENAME TO ii
ALTER VIEW v RENAME TO vv
ALTER SEQUENCE n RENAME TO nn
ALTER TYPE mood RENAME TO moods
ALTER DOMAIN small RENAME TO smaller
{SHOWN}
ALTER TABLE tt SET SCHEMA s
ALTER SCHEMA s RENAME TO ss
ALTER TABLE ss.tt ADD COLUMN z INTEGER
ALTER TABLE ss.tt ALTER COLUMN p SET DEFAULT 3
CREATE OR REPLACE VIEW vv AS SELECT aa AS a, b, p FROM ss.tt
{SHOWN}
CREATE TABLE l (LIKE ss.tt INCLUDING COMMENTS INCLUDING CONSTRAINTS)
{SHOWN}
DROP TABLE l
DROP VIEW vv
ALTER TABLE ss.tt DROP CONSTRAINT most
ALTER TABLE ss.tt DROP CONSTRAINT twice
ALTER TABLE ss.tt DROP COLUMN b
ALTER TABLE ss.tt DROP COLUMN c
{SHOWN}
DROP TABLE p CASCADE
DROP SEQUENCE nn
{SHOWN}
DROP TABLE ss.tt
{SHOWN}
""",
    }
)
