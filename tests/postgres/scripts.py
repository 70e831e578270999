"""Scripts of statements that change rows or schemas: after each one PostgreSQL and Hornbeam have the
same rows, or refuse it with the same error.

`make postgres-answers` records PostgreSQL's side. A script begins in an empty database.
"""

# ruff: noqa: E501 (a statement is one line)

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.postgres import (
    alter_statements,
    comment_statements,
    domain_statements,
    enum_statements,
    sequence_statements,
)
from tests.postgres.script_statements import STATEMENTS

FIXTURE = Path(__file__).parent / "fixtures" / "scripts.json"
_SPACES = (
    "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'"
)
_WRITES = re.compile(r"(?:MERGE INTO|INSERT INTO|UPDATE) ([\w.]+)(?!.* RETURNING )")
SCRIPTS: Mapping[str, str] = MappingProxyType(
    {
        **STATEMENTS,
        **enum_statements.STATEMENTS,
        **domain_statements.STATEMENTS,
        **alter_statements.STATEMENTS,
        **sequence_statements.STATEMENTS,
        **comment_statements.STATEMENTS,
        "merge": """
CREATE TABLE stock (id INTEGER PRIMARY KEY, name TEXT NOT NULL, n INTEGER DEFAULT 7 CHECK (n >= 0))
CREATE TABLE news (id INTEGER PRIMARY KEY, name TEXT, n INTEGER)
INSERT INTO stock VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', NULL)
INSERT INTO news VALUES (2, 'b2', 20), (3, NULL, -5), (4, 'd2', NULL), (5, 'e', 50), (6, NULL, 60)
MERGE INTO stock s USING news w ON s.id = w.id WHEN MATCHED AND w.name IS NOT NULL THEN UPDATE SET name = w.name, n = coalesce(s.n, 0) + coalesce(w.n, 0)
MERGE INTO stock s USING news w ON s.id = w.id WHEN NOT MATCHED AND w.name IS NOT NULL THEN INSERT VALUES (w.id, w.name, w.n) WHEN MATCHED AND w.n < 0 THEN DELETE
MERGE INTO stock USING news ON stock.id = news.id WHEN NOT MATCHED THEN INSERT (id, name) VALUES (news.id, news.name)
MERGE INTO stock s USING news w ON s.id = w.id WHEN MATCHED THEN UPDATE SET n = w.n - 100
MERGE INTO stock s USING (SELECT id, sum(n) AS n FROM news GROUP BY id HAVING id < 4) w ON s.id = w.id WHEN MATCHED THEN DO NOTHING WHEN NOT MATCHED THEN INSERT (id, name, n) VALUES (w.id, 'of a group', abs(w.n))
MERGE INTO stock s USING (VALUES (1, 'x'), (1, 'y')) AS w (id, name) ON s.id = w.id WHEN MATCHED THEN UPDATE SET name = w.name
MERGE INTO stock s USING (VALUES (9, 'x'), (9, 'y')) AS w (id, name) ON s.id = w.id WHEN NOT MATCHED THEN INSERT (id, name) VALUES (w.id, w.name)
MERGE INTO stock s USING news w ON s.id = w.id AND w.n > 10 WHEN MATCHED THEN DELETE WHEN NOT MATCHED AND w.id > 5 THEN INSERT (id, name, n) VALUES (w.id + 10, 'new', DEFAULT)
MERGE INTO stock s USING news w ON FALSE WHEN NOT MATCHED AND w.id = 2 THEN INSERT DEFAULT VALUES
MERGE INTO stock s USING stock t ON s.id = t.id + 1 WHEN MATCHED THEN UPDATE SET n = t.id
""",
        "plain views": """
CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT, c NUMERIC(6,2))
INSERT INTO t VALUES (1, 'x', 1.50), (2, 'y', NULL), (3, NULL, 2.25), (4, 'x', 4)
CREATE VIEW v AS SELECT a, upper(b) AS big, c * 2 FROM t WHERE a > 1
SELECT * FROM v ORDER BY a
SELECT count(*), sum("?column?") FROM v
CREATE VIEW w (k, total) AS SELECT big, count(*) FROM v GROUP BY big
SELECT * FROM w ORDER BY k NULLS LAST
SELECT v.a, w.total FROM v LEFT JOIN w ON w.k = v.big ORDER BY v.a
CREATE VIEW v AS SELECT 1
CREATE OR REPLACE VIEW w (k, total) AS SELECT b, count(*) + 1 FROM t GROUP BY b
SELECT * FROM w ORDER BY k NULLS LAST
UPDATE t SET b = 'z' WHERE a IN (SELECT a FROM v WHERE big = 'X')
SELECT * FROM v ORDER BY a
DROP TABLE t
DROP VIEW v
INSERT INTO t SELECT a + 10, big, c FROM (SELECT a, big, a * 1.5 AS c FROM v) AS s
SELECT * FROM t ORDER BY a
CREATE VIEW u AS SELECT nothing FROM t
CREATE VIEW n AS WITH s AS (SELECT a, row_number() OVER (ORDER BY a DESC) AS r FROM t) SELECT * FROM s WHERE r < 3
SELECT * FROM n ORDER BY r
SELECT * FROM n AS m (x, y) WHERE m.y = 1
""",
        "create table as": """
CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR(5) NOT NULL, c NUMERIC(6,2), d DATE)
INSERT INTO t VALUES (1, 'one', 1.50, '2024-02-29'), (2, 'two', NULL, NULL)
CREATE TABLE u AS SELECT a, b, c * 2 AS twice, d + 1 AS next FROM t
SELECT * FROM u ORDER BY a
INSERT INTO u (a, b) VALUES (3, NULL)
CREATE TABLE w (x, y) AS SELECT b, count(*) FROM t GROUP BY b
SELECT x, y FROM w ORDER BY x
CREATE TABLE e AS SELECT * FROM t WITH NO DATA
SELECT * FROM e
CREATE TABLE s AS SELECT a, b FROM t
INSERT INTO s VALUES (9, 'longer than five')
CREATE TABLE u AS SELECT 1 AS a
CREATE TABLE IF NOT EXISTS u AS SELECT 1 AS a
CREATE TABLE l AS VALUES (1, 'a'), (2, 'b')
SELECT * FROM l ORDER BY 1
CREATE TABLE z AS SELECT 1 / (a - 1) AS q FROM t
CREATE TABLE g AS SELECT a, NULL::INTEGER AS none, ARRAY[a, a] AS both FROM t
SELECT * FROM g ORDER BY a
""",
        "alter type": """
CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT, c NUMERIC(8,3) DEFAULT 1.5, d INTEGER, e DATE)
INSERT INTO t VALUES (1, '10', 1.255, 5, '2024-02-29'), (2, '20', -2.5, NULL, NULL), (3, NULL, 100, -7, '1999-12-31')
ALTER TABLE t ALTER COLUMN a TYPE BIGINT
ALTER TABLE t ALTER COLUMN b TYPE INTEGER USING b::INTEGER
SELECT a, b + 1 FROM t ORDER BY a
ALTER TABLE t ALTER COLUMN c TYPE NUMERIC(6,1)
SELECT a, c FROM t ORDER BY a
ALTER TABLE t ALTER COLUMN c TYPE NUMERIC(2,1)
ALTER TABLE t ALTER COLUMN d TYPE TEXT
SELECT a, d || 'x' FROM t ORDER BY a
ALTER TABLE t ALTER COLUMN d TYPE INTEGER
ALTER TABLE t ALTER COLUMN d TYPE SMALLINT USING d::SMALLINT
ALTER TABLE t ALTER COLUMN e TYPE TIMESTAMP
SELECT a, e FROM t ORDER BY a
ALTER TABLE t ALTER COLUMN e SET DATA TYPE TEXT USING lower('ROW')
ALTER TABLE t ALTER COLUMN c TYPE INTEGER, ALTER COLUMN c SET DEFAULT 9
INSERT INTO t (a) VALUES (4)
SELECT a, b, c, d, e FROM t ORDER BY a
ALTER TABLE t ALTER COLUMN b TYPE VARCHAR(1)
ALTER TABLE t ALTER COLUMN b TYPE BOOLEAN USING b > 10
SELECT a, b FROM t ORDER BY a
CREATE TABLE u (a INTEGER PRIMARY KEY, b TEXT)
ALTER TABLE u ALTER COLUMN b TYPE INTEGER USING b::INTEGER * 2
""",
        "indexes on expressions": """
CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT, c INTEGER, d TEXT)
INSERT INTO t VALUES (1, 'One', 1, 'x'), (2, 'two', 1, NULL), (3, NULL, 2, 'x')
CREATE UNIQUE INDEX t_lower ON t (lower(b))
INSERT INTO t VALUES (4, 'ONE', 9, 'y')
INSERT INTO t VALUES (4, NULL, 9, 'y')
UPDATE t SET b = 'TWO' WHERE a = 1
CREATE UNIQUE INDEX t_pair ON t ((c + 1), d)
CREATE UNIQUE INDEX t_sum ON t ((c + a))
INSERT INTO t VALUES (5, 'five', 1, 'x')
CREATE UNIQUE INDEX t_part ON t (c) WHERE d IS NULL
INSERT INTO t VALUES (6, 'six', 1, NULL)
INSERT INTO t VALUES (6, 'six', 3, NULL)
UPDATE t SET d = NULL WHERE a = 1
CREATE UNIQUE INDEX t_bad ON t ((length(d)))
CREATE INDEX t_div ON t ((10 / c))
INSERT INTO t VALUES (7, 'seven', 0, 'q')
SELECT * FROM t WHERE lower(b) = 'one'
SELECT * FROM t WHERE c + 1 = 2 ORDER BY a
SELECT * FROM t WHERE 10 / c > 4 ORDER BY a
INSERT INTO t VALUES (8, 'TWO', 8, 'r') ON CONFLICT (lower(b)) DO UPDATE SET c = 80
INSERT INTO t VALUES (9, 'nine', 3, NULL) ON CONFLICT (c) WHERE d IS NULL DO NOTHING
SELECT * FROM t ORDER BY a
DROP INDEX t_lower
INSERT INTO t VALUES (10, 'ONE', 10, 's')
SELECT count(*) FROM t
""",
    }
)
"""The scripts, by name: one statement a line."""


def lines(name: str) -> Iterator[str]:
    """The statements of a script; behind one that changes rows, a query of all rows."""
    for sql in SCRIPTS[name].strip().splitlines():
        yield sql
        if written := _WRITES.match(sql):
            yield f"SELECT * FROM {written[1]} ORDER BY 1"


def recorded() -> dict[str, dict[str, list[Any]]]:
    found: dict[str, dict[str, list[Any]]] = json.loads(FIXTURE.read_text())
    return found


def record(db: Any) -> None:
    """Record PostgreSQL's outcome of each statement: its rows as texts and its command tag, or a
    SQLSTATE."""
    from psycopg.types.json import set_json_loads

    set_json_loads(lambda text: text if isinstance(text, str) else text.decode(), db)
    db.prepare_threshold = None  # DISCARD ALL would discard what psycopg has prepared
    found = {}
    for name in SCRIPTS:
        outcomes, tags = zip(*_outcomes(db, name), strict=True)
        found[name] = {"statements": list(lines(name)), "outcomes": outcomes, "tags": tags}
    FIXTURE.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def _outcomes(db: Any, name: str) -> Iterator[tuple[Any, str]]:
    """The rows of each statement, or its SQLSTATE; and its command tag, or "" for an error."""
    import psycopg

    _empty(db)
    for sql in lines(name):
        try:
            result = db.execute(sql)
        except psycopg.Error as error:
            yield error.sqlstate or "unknown", ""
        else:
            rows = shown(result.fetchall() if result.description else [])
            yield rows, result.statusmessage or ""


def _empty(db: Any) -> None:
    """Leave nothing of an earlier script, in the database and in the session."""
    found = db.execute(_SPACES).fetchall()
    for command in ("DISCARD ALL", "SET timezone = 'UTC'"):
        db.execute(command)
    for (name,) in found:
        db.execute(f'DROP SCHEMA "{name}" CASCADE')
    db.execute("CREATE SCHEMA public")


def shown(rows: Sequence[Sequence[Any]]) -> list[list[str]]:
    """The rows as texts; numbers without zeros at their end, and NULL as such."""
    return [list(map(_shown, row)) for row in rows]


def _shown(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return "{" + ",".join(map(_shown, value)) + "}"
    text = str(value)
    return text.rstrip("0").rstrip(".") if "." in text and ":" not in text else text
