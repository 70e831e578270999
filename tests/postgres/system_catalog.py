"""The part of PostgreSQL's system catalog that is the same in each database, written as
`query/system/postgresql.json`: `python -m tests.postgres.system_catalog DSN`.

It has the columns of all relations of `pg_catalog`, and rows of types, operator classes and the
like for the types that Hornbeam has.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg

OUT = Path(__file__).parents[2] / "query/system/postgresql.json"
TYPES = (
    *("bool", "bytea", "char", "name", "int8", "int2", "int2vector", "int4", "regproc", "text"),
    *("oid", "tid", "xid", "cid", "oidvector", "json", "pg_node_tree", "float4", "float8"),
    *("unknown", "aclitem", "bpchar", "varchar", "date", "time", "timestamp", "timestamptz"),
    *("interval", "numeric", "regclass", "regtype", "regrole", "regnamespace", "uuid", "jsonb"),
    *("record", "cstring", "void", "anyarray", "anyelement", "internal", "trigger"),
)
_OURS = [
    *("bool", "bytea", "int8", "int2", "int4", "text", "json", "float4", "float8", "bpchar"),
    *("varchar", "date", "time", "timestamp", "timestamptz", "interval", "numeric", "uuid"),
    "jsonb",
]
_COLUMNS = """
SELECT c.relname, c.oid::bigint, c.relkind::text,
  json_agg(json_build_array(a.attname, t.typname, a.attnotnull) ORDER BY a.attnum)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
JOIN pg_type t ON t.oid = a.atttypid
WHERE c.relnamespace = 'pg_catalog'::regnamespace AND c.relkind IN ('r', 'v')
GROUP BY 1, 2, 3 ORDER BY 1
"""
_ROWS = {
    "pg_am": "true",
    "pg_collation": "collname IN ('default', 'C', 'POSIX')",
    "pg_language": "lanname IN ('internal', 'sql')",
    "pg_opclass": "opcmethod = 403 AND opcdefault AND opcintype IN (SELECT oid FROM pg_type"
    " WHERE typname = ANY (%(ours)s))",
    "pg_tablespace": "true",
    "pg_type": "typnamespace = 'pg_catalog'::regnamespace AND (typname = ANY (%(types)s)"
    " OR typelem IN (SELECT oid FROM pg_type WHERE typname = ANY (%(types)s) AND typlen <> 0))",
}
"""The rows to keep of each relation, as a condition. The conditions name what Hornbeam has."""
_VECTORS = {"int2vector", "oidvector"}


def main(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        relations = {
            name: {"oid": oid, "kind": kind, "columns": columns}
            for name, oid, kind, columns in connection.execute(_COLUMNS)
        }
        rows = {
            name: list(_rows(connection, name, relations[name]["columns"], condition))
            for name, condition in _ROWS.items()
        }
    OUT.write_text(_written({"relations": relations, "rows": rows}))


def _rows(
    connection: psycopg.Connection, name: str, columns: Sequence[Sequence[Any]], condition: str
) -> Iterator[list[Any]]:
    values = ", ".join(_value(column, type_) for column, type_, _ in columns)
    given = {"ours": _OURS, "types": list(TYPES)}
    for row in connection.execute(
        f"SELECT {values} FROM pg_catalog.{name} WHERE {condition} ORDER BY oid", given
    ):
        yield list(row)


def _value(column: str, type_: str) -> str:
    if type_ in _VECTORS:
        return f"array_to_json({column}::bigint[])"
    return f"to_json({column}{'::bigint' if type_ in {'oid', 'xid'} else ''})"


def _written(parts: dict[str, dict[str, Any]]) -> str:
    """JSON with a line for each relation and each row."""
    relations = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(found)}" for name, found in parts["relations"].items()
    )
    rows = ",\n".join(
        f"{json.dumps(name)}: [\n" + ",\n".join(map(json.dumps, found)) + "\n]"
        for name, found in parts["rows"].items()
    )
    return f'{{"relations": {{\n{relations}\n}},\n"rows": {{\n{rows}\n}}}}\n'


if __name__ == "__main__":
    main(sys.argv[1])
