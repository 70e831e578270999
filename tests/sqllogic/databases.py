"""The databases that are asked: Hornbeam through its client, and PostgreSQL."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import hornbeam
from hornbeam.errors import InternalError, NotSupportedError
from hornbeam.intervals import read_interval
from hornbeam.statements import split

TIMEOUT_S = 60.0
"""Time limit of each statement, in seconds."""
_LOCK_TIMEOUT_S = 1
"""Time limit of a wait for another connection of the same file, in seconds."""
_LOCALE = "LC_COLLATE 'C' LC_CTYPE 'C.UTF-8' TEMPLATE template0"
_SCHEMAS = "SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE ALL (ARRAY['pg_%', 'info%'])"
_UNKNOWN_STATES = frozenset({"42601", "42704", "42809", "42883"})
"""PostgreSQL's codes of a syntax error, and of unknown types, functions, operators, aggregates."""
_ABORTED = "failed-transaction"
_REFUSALS = (
    *("Function with name", "No function matches", "no function", "does not have"),
    "is not supported",
)
_SPELLINGS = "spellings"
_NAMES_OF_DUCKDB = (
    f"CREATE SCHEMA {_SPELLINGS}",
    *(
        f"CREATE DOMAIN {_SPELLINGS}.{name} AS {type_}"
        for name, type_ in (
            ("double", "DOUBLE PRECISION"), ("tinyint", "SMALLINT"), ("utinyint", "SMALLINT"),
            ("usmallint", "INTEGER"), ("uinteger", "BIGINT"), ("ubigint", "NUMERIC(20)"),
            ("hugeint", "NUMERIC(38)"), ("string", "TEXT"), ("datetime", "TIMESTAMP"),
            ("blob", "BYTEA"),
        )
    ),
    *(
        f"CREATE FUNCTION {_SPELLINGS}.range({parameters}) RETURNS SETOF BIGINT LANGUAGE sql"
        f" RETURN generate_series({first}, {end} - sign({step})::BIGINT, {step})"
        for parameters, first, end, step in (
            ("BIGINT", "0", "$1", "1::BIGINT"), ("BIGINT, BIGINT", "$1", "$2", "1::BIGINT"),
            ("BIGINT, BIGINT, BIGINT", "$1", "$2", "$3"),
        )
    ),
)  # fmt: skip
"""Statements with which PostgreSQL knows DuckDB's names of types, and range(…)."""
_NAMES_OF_COCKROACHDB = (
    f"CREATE SCHEMA {_SPELLINGS}",
    f"CREATE DOMAIN {_SPELLINGS}.string AS TEXT",
    f"CREATE DOMAIN {_SPELLINGS}.bytes AS BYTEA",
)
_NAMES = {"duckdb": _NAMES_OF_DUCKDB, "cockroach": _NAMES_OF_COCKROACHDB}
_SETTINGS = (
    f"statement_timeout = {int(TIMEOUT_S * 1000)}",
    f"lock_timeout = {_LOCK_TIMEOUT_S * 1000}",
    "timezone = 'UTC'",
    f"search_path = public, {_SPELLINGS}",
)


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows and the number of changed or returned rows, or the error. `unknown`: the database
    does not know the syntax, or a function, an operator or a type of the statement. `aborted`: the
    statement is not run, because the transaction of its connection has failed."""

    rows: tuple[tuple[Any, ...], ...] = ()
    count: int = 0
    error: str = ""
    refused: bool = False
    internal: bool = False
    unknown: bool = False
    aborted: bool = False


class Database(Protocol):
    """A database that runs one statement at a time."""

    def ask(self, sql: str, connection: str = "") -> Answer: ...

    def restart(self) -> None:
        """Close all connections, and open the same data again."""

    def close(self) -> None: ...


class Hornbeam:
    """A new embedded database in `folder`."""

    engines = frozenset({"hornbeam", "postgresql", "postgres"})

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, hornbeam.Connection] = {}

    def ask(self, sql: str, connection: str = "") -> Answer:
        answer = Answer()
        for statement in split(sql):
            answer = self._one(statement, connection)
            if answer.error:
                break
        return answer

    def _one(self, sql: str, name: str) -> Answer:
        try:
            cursor = self._connection(name).cursor().execute(sql)
            rows = cursor.fetchall() if cursor.description else []
        except hornbeam.Error as error:
            refused = (
                isinstance(error, NotSupportedError)
                or error.code == "limit-exceeded"
                or any(text in str(error) for text in _REFUSALS)
            )
            aborted = error.code == _ABORTED
            broken = isinstance(error, InternalError) and not aborted
            return Answer(
                error=f"{error.code}: {error}", refused=refused, internal=broken, aborted=aborted
            )
        except Exception as error:  # what a client does not foresee is a fault to be reported
            return Answer(error=f"{type(error).__name__}: {error}", internal=True)
        return Answer(tuple(rows), cursor.rowcount)

    def _connection(self, name: str) -> hornbeam.Connection:
        if name not in self._open:
            self._open[name] = hornbeam.connect(
                f"hornbeam:///{self._folder}", autocommit=True, timeout_s=TIMEOUT_S
            )
        return self._open[name]

    def restart(self) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def close(self) -> None:
        self.restart()
        shutil.rmtree(self._folder, ignore_errors=True)


class PostgreSQL:
    """A database of a running server, which is emptied in the end and then used again."""

    def __init__(self, server: Any, name: str, values: str) -> None:
        """A new database in `server`. `values`: the style of the files (`Style.values`)."""
        self._server, self._name = server, name
        with server.connect() as db:
            if not db.execute("SELECT FROM pg_database WHERE datname = $1", [name]).fetchall():
                db.execute(f"CREATE DATABASE {name} {_LOCALE}")
        with server.connect(name) as db:
            for statement in _NAMES.get(values, ()):
                db.execute(statement)
        self._open: dict[str, Any] = {}

    def ask(self, sql: str, connection: str = "") -> Answer:
        import psycopg

        answer = Answer()
        try:
            for statement in split(sql):
                cursor = self._connection(connection).execute(statement)
                rows = cursor.fetchall() if cursor.description else []
                answer = Answer(tuple(rows), cursor.rowcount)
        except (psycopg.Error, ValueError, NotImplementedError) as error:
            state = getattr(error, "sqlstate", None)
            message = str(error) or type(error).__name__
            return Answer(error=message, unknown=state in _UNKNOWN_STATES)
        return answer

    def _connection(self, name: str) -> Any:
        if name not in self._open:
            self._open[name] = opened = self._server.connect(self._name)
            _load_as_texts(opened)
            for setting in _SETTINGS:
                opened.execute(f"SET {setting}")
        return self._open[name]

    def restart(self) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def close(self) -> None:
        self.restart()
        with self._server.connect(self._name) as db:
            for (name,) in db.execute(_SCHEMAS).fetchall():
                db.execute(f'DROP SCHEMA "{name}" CASCADE')
            db.execute("CREATE SCHEMA public")


def _load_as_texts(connection: Any) -> None:
    """Read JSON as text and intervals with their months, as our client gives them."""
    from psycopg.adapt import Loader

    class Text(Loader):
        def load(self, data: Any) -> Any:
            return bytes(data).decode()

    class Span(Text):
        def load(self, data: Any) -> Any:
            return read_interval(super().load(data))

    for name, loader in (("json", Text), ("jsonb", Text), ("record", Text), ("interval", Span)):
        connection.adapters.register_loader(name, loader)
