"""Cases of COPY with what PostgreSQL answers, which `tests/pgwire/copy_answers.json` records.

python -m tests.pgwire.copy_cases "host=… dbname=…"   # records the answers of a PostgreSQL
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import psycopg

ANSWERS = Path(__file__).with_name("copy_answers.json")
TABLES = (
    "CREATE TABLE c (id INTEGER PRIMARY KEY, n VARCHAR(5), d DATE, p NUMERIC(10,2), f BOOLEAN,"
    " b BYTEA, a INTEGER[], t TIMESTAMP, u TEXT DEFAULT 'new')",
    'CREATE TABLE "Odd" (k INTEGER PRIMARY KEY, "A b" TEXT, s SMALLINT NOT NULL DEFAULT 7)',
    "CREATE TABLE made (i INTEGER GENERATED ALWAYS AS IDENTITY PRIMARY KEY, x INTEGER,"
    " y INTEGER GENERATED ALWAYS AS (x + 1) STORED)",
)
CSV = "WITH (FORMAT csv)"
IN: list[tuple[str, bytes]] = [
    ("COPY c (id, n) FROM STDIN", b"1\ta\n2\t\\N\n3\t\n"),
    ("COPY c (id, n) FROM STDIN", b"1\ta\r\n2\tb\r\n"),
    ("COPY c (id, n) FROM STDIN", b"1\ta\r2\tb\r"),
    ("COPY c (id, n) FROM STDIN", b"1\ta\n2\tb\n\\.\n"),
    ("COPY c (id, n) FROM STDIN", b"1\ta\n2\tb\r\n"),
    ("COPY c (id, n) FROM STDIN", b"1\ta\r\n2\tb\n"),
    ("COPY c (id, n) FROM STDIN", b""),
    ("COPY c (id, u) FROM STDIN", b"1\ta\\tb\\nc\\\\d\\x41\\101\\q\n2\tx\\\ny\n3\te\\\tf"),
    ("COPY c (id, u) FROM STDIN", "1\t\\xc3\\xa9é\n".encode()),
    ("COPY c (id, u) FROM STDIN", b"1\t\\xff\n"),
    ("COPY c (id, u) FROM STDIN", b"1\tok\n2\t\xff\n"),
    ("COPY c (id, u) FROM STDIN", b"1\t\\0\n"),
    (
        "COPY c FROM STDIN",
        b"1\tabc\t2024-02-29\t1.239\tt\t\\\\xff00\t{1,NULL}\t2024-01-01 01:02\tz\n",
    ),
    ("COPY c FROM STDIN", b"1\tabc\n"),
    ("COPY c (id, n) FROM STDIN", b"1\ta\tb\n"),
    ("COPY c (id, n) FROM STDIN", b"1\ta\nx\tb\n"),
    ("COPY c (id, d) FROM STDIN", b"1\t2024-02-30\n"),
    ("COPY c (id, b) FROM STDIN", b"1\t\\\\xf\n"),
    ("COPY c (id, f) FROM STDIN", b"1\tyes\n2\tmaybe\n"),
    ("COPY c (id, n) FROM STDIN", b"1\ttoolong\n"),
    ("COPY c (id, p) FROM STDIN", b"1\t123456789.00\n"),
    ("COPY c (id, n) FROM STDIN", b"1\ta\n2\tb\n1\tc\n"),
    ("COPY c (n) FROM STDIN", b"a\n"),
    ('COPY "Odd" (k, s) FROM STDIN', b"1\t\\N\n"),
    ('COPY "Odd" (k, s) FROM STDIN', b"1\t99999\n"),
    ("COPY \"Odd\" FROM STDIN (DELIMITER ';', NULL '-')", b"1;-;3\n2;x\\;y;4\n"),
    ("COPY \"Odd\" FROM STDIN WITH DELIMITER AS E'\\x01' NULL AS ''", b"1\x01\x013\n"),
    (f"COPY c (id, n) FROM STDIN {CSV}", b'1,"a""b"\n2,""\n3,\n'),
    (f"COPY c (id, u) FROM STDIN {CSV}", b'1,"a\nb,c"\n2,x"y z"w\n'),
    (f"COPY c (id, u) FROM STDIN {CSV}", b'1,"a\r\nb"\r\n2,c\r\n'),
    (f"COPY c (id, u) FROM STDIN {CSV}", b'1,"a\n'),
    (f"COPY c (id, u) FROM STDIN {CSV}", b"1,a\n2,b\rc\n"),
    (f"COPY c (id, u) FROM STDIN {CSV}", b"1,a,b\n"),
    (f"COPY c (id, u) FROM STDIN {CSV}", b"1\n"),
    ("COPY c (id, u) FROM STDIN (FORMAT csv, HEADER)", b"what,ever\n1,a\n"),
    ("COPY c (id, u) FROM STDIN (FORMAT csv, HEADER match)", b"id,u\n1,a\n"),
    ("COPY c (id, u) FROM STDIN (FORMAT csv, HEADER match)", b"id,v\n1,a\n"),
    ("COPY c (id, u) FROM STDIN (FORMAT csv, HEADER match)", b"id\n1,a\n"),
    ("COPY c (id, u) FROM STDIN (HEADER)", b"id\tu\n1\ta\n"),
    ("COPY c (id, n, u) FROM STDIN (FORMAT csv, FORCE_NULL (n), FORCE_NOT_NULL (u))", b'1,"",\n'),
    ("COPY c (id, u) FROM STDIN CSV QUOTE '''' ESCAPE '\\'", b"1,'a\\'b\\\\c\\d'\n"),
    ("COPY c (id, u) FROM STDIN CSV FORCE NOT NULL u", b"1,\n"),
    ("COPY c (id, u) FROM STDIN CSV NULL 'NULL'", b'1,NULL\n2,"NULL"\n'),
    ("COPY made FROM STDIN", b"5\t1\n"),
    ("COPY made (x) FROM STDIN", b"1\n2\n"),
    ("COPY made (y) FROM STDIN", b"1\n"),
    ("COPY c (id, nothing) FROM STDIN", b""),
    ("COPY c (id, id) FROM STDIN", b""),
    ("COPY nothing FROM STDIN", b""),
    ("COPY c FROM STDIN (FORMAT nothing)", b""),
    ("COPY c FROM STDIN (nothing 1)", b""),
    ("COPY c FROM STDIN (DELIMITER 'ab')", b""),
    ("COPY c FROM STDIN (DELIMITER 'a')", b""),
    ("COPY c FROM STDIN (DELIMITER ',', FORMAT binary)", b""),
    ("COPY c FROM STDIN (QUOTE ',')", b""),
    ("COPY c FROM STDIN (FORMAT csv, FORCE_QUOTE *)", b""),
    ("COPY c FROM STDIN (FORMAT csv, FORCE_NULL (zz))", b""),
    ("COPY c (id) FROM STDIN (FORMAT csv, FORCE_NULL (n))", b""),
    ("COPY c FROM STDIN (FORMAT csv, FORMAT csv)", b""),
    ("COPY c (id, n) FROM STDIN WHERE id > 1", b"1\ta\n2\tb\n3\t\\N\n"),
    ("COPY c (id, n) FROM STDIN WHERE n LIKE 'b%' OR (c.n IS NULL)", b"1\ta\n2\tb\n3\t\\N\n"),
    ("COPY c (id, u) FROM STDIN (FORMAT csv, HEADER) WHERE u <> ''", b'id,u\n1,a\n2,""\n3,\n'),
    ("COPY c (id, n) FROM STDIN CSV WHERE id > 5", b"1,a\n"),
    ("COPY c (id) FROM STDIN WHERE u = 'new' AND n IS NULL AND id <> 2", b"1\n2\n3\n"),
    (
        "COPY c (id, d, p, f, b, t) FROM STDIN WHERE d > '2024-01-01' AND p < 2 AND f"
        " AND b = '\\x6162' AND t::date = d",
        b"1\t2024-02-29\t1.239\tt\tab\t2024-02-29 10:00\n2\t2023-02-28\t1\tt\tab\t2023-02-28\n"
        b"3\t2024-02-29\t1\tt\t\\N\t2024-02-29 10:00\n",
    ),
    ('COPY "Odd" FROM STDIN WHERE "A b" = \'x\' AND "Odd".k > 1', b"1\tx\t1\n2\tx\t2\n3\ty\t3\n"),
    ("COPY c (id, n) FROM STDIN WHERE id = 1 OR id > 10", b"1\ta\n2\tb\n1\tc\n"),
    ("COPY c (id, n) FROM STDIN WHERE id > 1", b"1\ta\nx\tb\n"),
    ("COPY c (id, n) FROM STDIN WHERE 1 / (id - 2) > 0", b"1\ta\n2\tb\n"),
    ("COPY c (id, n) FROM STDIN WHERE id > 1", b""),
    ("COPY c (id, n) FROM STDIN WHERE TRUE", b"1\ta\n"),
    ("COPY c (id, n) FROM STDIN WHERE NULL", b"1\ta\n"),
    ("COPY c (id, n) FROM STDIN WHERE nothing > 1", b""),
    ("COPY c (id, n) FROM STDIN WHERE id > (SELECT 1)", b""),
    ("COPY c (id, n) FROM STDIN WHERE", b""),
    ("COPY c (id, n) FROM STDIN WHERE id > 1 LIMIT 1", b""),
    ("COPY made (x) FROM STDIN WHERE y > 1", b""),
    ("COPY made (x) FROM STDIN WHERE x > 1", b"2\n"),
    ("COPY c (id, n) FROM STDIN WHERE (id > 1) OR (id < 0)", b"1\ta\n2\tb\n"),
    ("COPY c (id, n) FROM STDIN WHERE id > 1) OR (id < 0", b""),
    ("COPY c FROM STDIN (FREEZE off)", b""),
    ("COPY c FROM STDIN (FREEZE nothing)", b""),
    ("COPY c FROM", b""),
    ("COPY c (id FROM STDIN", b""),
    ("COPY (SELECT 1) FROM STDIN", b""),
]
"""Statements and the data that is sent; the rows of the table are the answer, or the error."""
ROWS = (
    "INSERT INTO c (id, n, d, p, f, b, a, t, u) VALUES"
    " (1, 'a', '2024-02-29', 1.5, TRUE, '\\xff00', '{1,NULL}', '2024-01-01 01:02:03.5',"
    " E'x\\ty\\\\'), (2, NULL, NULL, NULL, FALSE, NULL, '{}', NULL, ''),"
    " (3, 'b,c', NULL, -2, NULL, NULL, NULL, NULL, E'q\"r\\ns'),"
    " (4, '\\N', NULL, NULL, NULL, NULL, NULL, NULL, '\\.')",
    "INSERT INTO \"Odd\" VALUES (1, 'x', 2)",
    "INSERT INTO made (x) VALUES (10)",
)
OUT = (
    "COPY (SELECT * FROM c ORDER BY id) TO STDOUT",
    "COPY (SELECT * FROM c ORDER BY id) TO STDOUT (FORMAT csv)",
    "COPY (SELECT * FROM c ORDER BY id) TO STDOUT (FORMAT csv, HEADER, FORCE_QUOTE (n, u))",
    "COPY (SELECT * FROM c ORDER BY id) TO STDOUT (FORMAT csv, FORCE_QUOTE *, NULL 'nil')",
    "COPY (SELECT * FROM c ORDER BY id) TO STDOUT (FORMAT binary)",
    "COPY (SELECT id, u FROM c ORDER BY id) TO STDOUT WITH DELIMITER '|' NULL '?'",
    "COPY (SELECT u FROM c ORDER BY id) TO STDOUT CSV",
    "COPY (SELECT id, u FROM c ORDER BY id) TO STDOUT CSV QUOTE '''' ESCAPE '\\'",
    "COPY (SELECT id, u FROM c WHERE id < 0) TO STDOUT (FORMAT binary)",
    "COPY (SELECT id, u FROM c WHERE id < 0) TO STDOUT (HEADER)",
    'COPY "Odd" TO STDOUT',
    'COPY public."Odd" ("A b", k) TO STDOUT (FORMAT csv, HEADER)',
    "COPY made TO STDOUT",
    'COPY (UPDATE "Odd" SET s = s + 1 RETURNING k, s) TO STDOUT',
    "COPY (DELETE FROM made) TO STDOUT",
    "COPY made (y) TO STDOUT",
    "COPY c TO STDOUT (FORMAT csv, FORCE_NULL (u))",
    "COPY c TO STDOUT (FORMAT csv, FORCE_QUOTE (zz))",
    "COPY c TO STDOUT (HEADER match)",
    "COPY (SELECT nothing FROM c) TO STDOUT",
    'COPY "Odd" TO STDOUT WHERE k = 1',
    'COPY "Odd" TO STDOUT (FREEZE off)',
    'COPY "Odd" TO STDOUT (FREEZE)',
)


def answers(connection: psycopg.Connection[Any]) -> dict[str, list[Any]]:
    """What a server answers to each case, as JSON."""
    for sql in TABLES:
        connection.execute(sql)
    found = {}
    for sql, data in IN:
        found[f"{sql} < {data!r}"] = _answer(_taken, connection, sql, data)
    for sql in ROWS:
        connection.execute(sql)
    for sql in OUT:
        found[sql] = _answer(_given, connection, sql)
    return json.loads(json.dumps(found))


def _answer(run: Any, *arguments: Any) -> list[Any]:
    try:
        return run(*arguments)
    except psycopg.Error as error:
        return ["error", error.sqlstate, error.diag.context]


def _taken(connection: psycopg.Connection[Any], sql: str, data: bytes) -> list[Any]:
    cursor = connection.cursor()
    with cursor.copy(sql) as copy:
        copy.write(data)
    name = sql.split()[1]
    rows = connection.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall()
    if rows:
        connection.execute(f"DELETE FROM {name}")
    shown = [row[1:] if name == "made" else row for row in rows]
    return [cursor.statusmessage, [[None if v is None else str(v) for v in row] for row in shown]]


def _given(connection: psycopg.Connection[Any], sql: str) -> list[Any]:
    cursor = connection.cursor()
    with cursor.copy(sql) as copy:
        data = [bytes(each).decode("latin-1") for each in copy]
    return [cursor.statusmessage, data]


if __name__ == "__main__":
    with psycopg.connect(sys.argv[1], autocommit=True) as server:
        recorded = answers(server)
    ANSWERS.write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n")
