"""A published file in PostgreSQL. Files of other dialects are loaded through the schema that
Hornbeam makes of them; their rows come from the file, not from Hornbeam's store."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.peers.postgres import Server, binaries
from hornbeam_server.schema.ddl import dumps
from hornbeam_server.schema.ddl.load import Reading
from hornbeam_server.schema.ddl.sources import Source
from hornbeam_server.schema.identifiers import identifier
from hornbeam_server.schema.model import Action, ForeignKey, Relation, Schema
from hornbeam_server.schema.render import render_ddl
from tests.published.files import Published

BLANK_PADDED = 1042
"""PostgreSQL's number of the type CHAR(n)."""
_TYPES = ((r"\bDOUBLE\b", "DOUBLE PRECISION"), (r"\bBLOB\b", "BYTEA"))
_NAME = "published"
_FAST = {"PGCLIENTENCODING": "UTF8", "PGOPTIONS": "-c synchronous_commit=off"}
_DATABASE = f"CREATE DATABASE {_NAME} LC_COLLATE 'C' LC_CTYPE 'C.UTF-8' TEMPLATE template0"
_OWN_DATABASE = re.compile(rb"^(?:(?:DROP|CREATE) DATABASE|\\c) .*$", re.MULTILINE)
_PARTS = """
SELECT p.relname, c.relname FROM pg_inherits JOIN pg_class p ON p.oid = inhparent
JOIN pg_class c ON c.oid = inhrelid WHERE p.relkind = 'r'
AND p.relnamespace = 'public'::regnamespace
"""
_WITHOUT_REST = """
SELECT relname FROM pg_partitioned_table JOIN pg_class ON pg_class.oid = partrelid
WHERE partdefid = 0 AND partstrat <> 'h' AND relnamespace = 'public'::regnamespace
"""
"""Tables in partitions that do not take all rows."""
_RULES = """
SELECT rulename, tablename FROM pg_rules WHERE schemaname = 'public'
"""
_OF_PARTS = """
SELECT conrelid::regclass::text, conname FROM pg_constraint JOIN pg_inherits ON inhrelid = conrelid
JOIN pg_class p ON p.oid = inhparent WHERE p.relkind = 'p' AND coninhcount = 0
"""
_RANGES = ("int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange")
_TABLES = """
SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace
"""


@contextmanager
def loaded(
    server: Server, published: Published, files: Sequence[Path], readings: Sequence[Reading]
) -> Iterator[Any]:
    """A connection to a database with the rows of the files."""
    _execute(server, _DATABASE)
    if published.source is Source.POSTGRES:
        for file in files:
            _run(server, file)
    with server.connect(_NAME) as db:
        db.execute("SET synchronous_commit = off")
        if published.source is Source.POSTGRES:
            _plain(db)
        else:
            with db.transaction():
                _fill(db, readings)
        yield db
    _execute(server, f"DROP DATABASE {_NAME}")


def _execute(server: Server, statement: str) -> None:
    with server.connect() as db:
        db.execute(statement)


def _run(server: Server, file: Path) -> None:
    """Run a file, and those that it includes, in our database instead of one that the file creates.
    Errors about roles that do not exist and the like do not end it."""
    command = [str(binaries() / "psql"), "--quiet", "--no-psqlrc"]
    environment = os.environ | server.environment(_NAME) | _FAST
    text = _OWN_DATABASE.sub(b"", file.read_bytes())
    where = file.parent.resolve()
    subprocess.run(command, env=environment, input=text, cwd=where, capture_output=True, check=True)


def _plain(db: Any) -> None:
    """Make the database one of tables alone: without triggers and rules, with all rows of a table
    in the table, and without what is declared for its parts, which is what Hornbeam makes of the
    file."""
    from psycopg.types.string import TextLoader

    for kept_as_text in _RANGES:
        db.adapters.register_loader(kept_as_text, TextLoader)
    db.execute("SET search_path TO public")
    for part, constraint in db.execute(_OF_PARTS).fetchall():
        db.execute(f"ALTER TABLE {part} DROP CONSTRAINT {identifier(constraint)}")
    for (table,) in db.execute(_WITHOUT_REST).fetchall():
        rest = identifier(f"{table}_rest")
        db.execute(f"CREATE TABLE {rest} PARTITION OF {identifier(table)} DEFAULT")
    for rule, table in db.execute(_RULES).fetchall():
        if rule != "_RETURN":
            db.execute(f"DROP RULE {identifier(rule)} ON {identifier(table)}")
    for (table,) in db.execute(_TABLES).fetchall():
        db.execute(f"ALTER TABLE {identifier(table)} DISABLE TRIGGER USER")
    for parent, part in db.execute(_PARTS).fetchall():
        whole, piece = identifier(parent), identifier(part)
        db.execute(
            f"WITH moved AS (DELETE FROM {piece} RETURNING *) INSERT INTO {whole}"
            " SELECT * FROM moved"
        )
        db.execute(f"DROP TABLE {piece} CASCADE")


def _fill(db: Any, readings: Sequence[Reading]) -> None:
    schema = next(each.schema for each in readings if each.schema.relations)
    for statement in render_ddl(_without_references(schema)).split(";\n"):
        if statement:
            db.execute(_translated(statement))
    for part in dumps.parts(readings, schema):
        for unit in part.units():
            for row in unit:
                marks = ", ".join(f"${i}" for i in range(1, len(row.values) + 1))
                columns = ", ".join(map(identifier, row.columns))
                insert = f"INSERT INTO {identifier(row.relation)} ({columns}) VALUES ({marks})"
                db.execute(insert, row.values)
    for relation in schema.relations:
        for key in relation.foreign_keys:
            db.execute(_reference(relation, key))


def _without_references(schema: Schema) -> Schema:
    relations = tuple(replace(each, foreign_keys=()) for each in schema.relations)
    return replace(schema, relations=relations, views=())


def _translated(ddl: str) -> str:
    for type_, other in _TYPES:
        ddl = re.sub(type_, other, ddl)
    return ddl


def _reference(relation: Relation, key: ForeignKey) -> str:
    columns = ", ".join(map(identifier, key.columns))
    parents = ", ".join(map(identifier, key.parent_columns))
    actions = "".join(
        f" ON {event} {action.value}"
        for event, action in (("DELETE", key.on_delete), ("UPDATE", key.on_update))
        if action is not Action.RESTRICT
    )
    return (
        f"ALTER TABLE {identifier(relation.name)} ADD FOREIGN KEY ({columns})"
        f" REFERENCES {identifier(key.parent)} ({parents}){actions}"
    )


def answer(db: Any, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query; blanks at the end of a CHAR(n) do not count."""
    import psycopg

    try:
        result = db.execute(sql)
    except psycopg.Error as error:
        raise RuntimeError(f"PostgreSQL refuses a query: {error}\n{sql}") from error
    padded = [column.type_code == BLANK_PADDED for column in result.description]
    return [
        tuple(
            value.rstrip(" ") if blanks and value is not None else value
            for value, blanks in zip(row, padded, strict=True)
        )
        for row in result.fetchall()
    ]


def write(db: Any, sql: str) -> str:
    """Execute a write; return the SQLSTATE of its error, or nothing."""
    import psycopg

    try:
        db.execute(sql)
    except psycopg.Error as error:
        return error.sqlstate or "unknown"
    return ""
