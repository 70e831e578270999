"""The trial of one published file: import, queries, writes, verification."""

from __future__ import annotations

import datetime as dt
import io
import math
import random
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import hornbeam
from bench.peers.postgres import Server
from hornbeam.cli import main as hornbeam_command
from hornbeam.cli.importing import readings_of
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.identifiers import identifier
from hornbeam_server.schema.model import DefaultKind, Refresh, Relation, Schema
from hornbeam_server.schema.sqltext import literal_sql
from tests.client import client_world
from tests.published import reference
from tests.published.files import Published

WRITES = 40
"""The number of random writes to each relation."""
TOLERANCE = 2e-6
"""The relative difference of equal numbers: PostgreSQL computes REAL with six digits or seven."""
_WORDS_OF_TEXT = re.compile(r"(?:'[^' ]+':[\dA-D,]+ ?)+")
STATES = {
    "not-null-violation": "23502",
    "foreign-key-violation": "23503",
    "unique-violation": "23505",
    "check-violation": "23514",
    "failed-transaction": "25P02",
}
"""The errors of constraints and of aborted transactions, and their SQLSTATE."""


@dataclass
class Result:
    """What a trial found. `differences` describes each answer that differs."""

    published: Published
    relations: int = 0
    rows: int = 0
    queries: int = 0
    views: int = 0
    kept: int = 0
    writes: int = 0
    failed: int = 0
    passed_over: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)


def tried(
    published: Published, files: list[Path], server: Server, where: Path, seed: int
) -> Result:
    """Try `files` of a published database; `where` gets the database."""
    result = Result(published)
    url = client_world.embedded(where)
    code, _, errors = command(url, "import", *map(str, files))
    if code != 0:
        result.differences.append(f"not imported: {errors}")
        return result
    result.passed_over = re.findall(r"^passed over: .*", errors, re.MULTILINE)
    with (
        hornbeam.connect(url, autocommit=True) as db,
        reference.loaded(server, published, files, readings_of(files)) as other,
    ):
        try:
            _Trial(published, url, db, other, result, random.Random(seed)).run()
        except hornbeam.Error as error:
            result.differences.append(f"not finished: {error}")
    code, out, errors = command(url, "verify")
    if code != 0 or "0 differences" not in out:
        result.differences.append(f"verify: {out}{errors}")
    return result


def command(url: str, *words: str) -> tuple[int, str, str]:
    """Run the command line; return its exit code, its output and its messages."""
    out, errors = io.StringIO(), io.StringIO()
    with (
        patch.dict("os.environ", {"HORNBEAM_URL": url, "COLUMNS": "1000"}),
        patch.object(sys, "argv", ["hornbeam", *words]),
        redirect_stdout(out),
        redirect_stderr(errors),
    ):
        try:
            hornbeam_command()
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
    return code, out.getvalue(), errors.getvalue()


@dataclass
class _Trial:
    published: Published
    url: str
    db: Any
    other: Any
    result: Result
    choice: random.Random

    def run(self) -> None:
        ddl = self.db.transport.json("GET", "/v1/schema")["ddl"]
        schema = load_ddl(ddl)
        views, queries = self.published.statements()
        self.result.relations = len(schema.relations)
        self.result.queries = len(queries)
        self._compare_rows(schema, "imported")
        self._compare(queries, "without views")
        plain = [view.name for view in schema.views if view.refresh is Refresh.PLAIN]
        self.result.views = len(plain)
        named = [f"SELECT * FROM {identifier(name)}" for name in plain]
        self._compare(named, "plain view")
        workload = "".join(f"-- name: q{i}\n{sql};\n" for i, sql in enumerate(queries))
        declared = ddl + "".join(f"{view};\n" for view in views)
        client_world.apply(self.url, declared, workload)
        self.result.kept = len(self.db.transport.json("GET", "/v1/schema")["views"])
        self._compare(queries, "with views")
        self._write(schema)
        self._compare_rows(schema, "written")
        self._compare([*queries, *named], "with views, after writes")

    def _ask(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.db.cursor().execute(sql).fetchall()]

    def _compare_rows(self, schema: Schema, when: str) -> None:
        for relation in schema.relations:
            columns = ", ".join(identifier(column.name) for column in relation.visible)
            sql = f"SELECT {columns} FROM {identifier(relation.name)}"
            found = self._compare([sql], f"rows, {when}")
            if when == "imported":
                self.result.rows += found

    def _compare(self, queries: Sequence[str], when: str) -> int:
        count = 0
        for sql in queries:
            wanted = [tuple(map(comparable, row)) for row in reference.answer(self.other, sql)]
            try:
                found = [tuple(map(comparable, row)) for row in self._ask(sql)]
            except hornbeam.Error as error:
                self.result.differences.append(f"{when}: {sql}\n    {error}")
                continue
            count += len(found)
            if "ORDER BY" not in sql or sql.startswith("SELECT * FROM"):
                wanted, found = sorted(wanted, key=repr), sorted(found, key=repr)
            if not same(found, wanted):
                self.result.differences.append(f"{when}: {sql}\n    {_first(found, wanted)}")
        return count

    def _write(self, schema: Schema) -> None:
        for relation in schema.relations:
            for sql in statements(relation, self._stored(relation), self.choice):
                wanted = reference.write(self.other, sql)
                found, message = self._written(sql)
                self.result.writes += 1
                self.result.failed += bool(wanted)
                if found != wanted:
                    short = sql if len(sql) < 300 else sql[:300] + "…"
                    self.result.differences.append(
                        f"write: {short}\n    {found or 'done'} {message}; PostgreSQL:"
                        f" {wanted or 'done'}"
                    )

    def _stored(self, relation: Relation) -> list[dict[str, Any]]:
        names = [column.name for column in relation.visible if not _generated(column.default)]
        columns = ", ".join(map(identifier, names))
        rows = self._ask(f"SELECT {columns} FROM {identifier(relation.name)} LIMIT 5000")
        return [dict(zip(names, row, strict=True)) for row in rows]

    def _written(self, sql: str) -> tuple[str, str]:
        try:
            self.db.cursor().execute(sql)
        except hornbeam.Error as error:
            return STATES.get(error.code, error.code), str(error)
        return "", ""


def _generated(default: Any) -> bool:
    return default is not None and default.kind is DefaultKind.GENERATED


def _first(found: list[Any], wanted: list[Any]) -> str:
    """The first rows that differ."""
    for here, there in zip(found, wanted, strict=False):
        if not same(here, there):
            return f"{here}; PostgreSQL: {there}"[:600]
    return f"{len(found)} rows; PostgreSQL: {len(wanted)}"


def comparable(value: Any) -> Any:
    """The value in the form in which both are compared: numbers without zeros at their end,
    instants in UTC, the words of a TSVECTOR in order."""
    match value:
        case bool() | None:
            return value
        case float():
            return value
        case int() | Decimal():
            return Decimal(value).normalize()
        case memoryview() | bytearray():
            return bytes(value)
        case dt.datetime() if value.tzinfo is not None:
            return value.astimezone(dt.UTC)
        case str() if _WORDS_OF_TEXT.fullmatch(value):
            return " ".join(sorted(value.split()))
        case _:
            return value


def same(found: Any, wanted: Any) -> bool:
    """Are values, rows or lists of rows equal? Floats, and decimals beside them, are compared with
    a tolerance."""
    if isinstance(found, list | tuple) and isinstance(wanted, list | tuple):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    numbers = isinstance(found, float | Decimal) and isinstance(wanted, float | Decimal)
    if numbers and float in {type(found), type(wanted)}:
        return math.isclose(found, wanted, rel_tol=TOLERANCE)
    return bool(found == wanted)


def statements(
    relation: Relation, rows: Sequence[dict[str, Any]], choice: random.Random
) -> Iterator[str]:
    """Random writes: rows that are like stored ones, changes of one column, deletions."""
    table = identifier(relation.name)
    for _ in range(WRITES if rows else 0):
        row = choice.choice(rows)
        match choice.randrange(4):
            case 0:
                new = _row_like(relation, row, rows, choice)
                columns = ", ".join(map(identifier, new))
                values = ", ".join(map(_literal, new.values()))
                yield f"INSERT INTO {table} ({columns}) VALUES ({values})"
            case 1:
                yield f"DELETE FROM {table} WHERE {_found(relation, row)}"
            case _:
                column = choice.choice(list(row))
                value = _value(relation, column, rows, choice)
                change = f"{identifier(column)} = {_literal(value)}"
                yield f"UPDATE {table} SET {change} WHERE {_found(relation, row)}"


def _row_like(
    relation: Relation, row: dict[str, Any], rows: Sequence[dict[str, Any]], choice: random.Random
) -> dict[str, Any]:
    new = {
        column: value if choice.random() < 0.5 else _value(relation, column, rows, choice)
        for column, value in row.items()
    }
    if len(relation.declared_key) == 1:
        (key,) = relation.declared_key
        new[key] = _value(relation, key, rows, choice)
    return new


def _value(
    relation: Relation, column: str, rows: Sequence[dict[str, Any]], choice: random.Random
) -> Any:
    """A value of a row, or sometimes NULL, or a number near those of the rows."""
    value = choice.choice(rows)[column]
    key = column in relation.declared_key
    if choice.random() < 0.05:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and (key or choice.random() < 0.3):
        return max(0, value + choice.randint(-3, 30))
    return value


def _found(relation: Relation, row: dict[str, Any]) -> str:
    """The condition that finds the row: by its key, or by all its values."""
    columns = relation.declared_key or tuple(row)
    return " AND ".join(
        f"{identifier(column)} IS NULL"
        if row[column] is None
        else f"{identifier(column)} = {_literal(row[column])}"
        for column in columns
    )


def _literal(value: Any) -> str:
    if isinstance(value, list):
        return literal_sql("{" + ",".join(f'"{each}"' for each in value) + "}")
    return literal_sql(bytes(value) if isinstance(value, memoryview) else value)
