"""`hornbeam sql` and `hornbeam explain`: run statements and scripts, or an interactive prompt."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from hornbeam.cli.common import (
    DEFAULT_URL,
    ERR,
    OUT,
    AsJson,
    Parameter,
    Url,
    fail,
    opened,
    parameters,
    print_json,
    read_text,
    report,
    table,
    until_enough,
)
from hornbeam.cli.csvtext import csv_line
from hornbeam.connection import Connection
from hornbeam.cursor import Cursor
from hornbeam.errors import Error
from hornbeam.namespaces import Names, parted, read_name
from hornbeam.statements import Kind, is_complete, kind, split, tokens

_HISTORY = Path.home() / ".hornbeam_history"
_HISTORY_LINES = 1_000
_HELP = r"""Statements end with ;
  \d         list relations and views      \d NAME   describe one
  \dt        list relations                \dn       list schemas
  \begin     begin a transaction           \commit   \rollback
  \q         quit"""


def register(app: typer.Typer) -> None:
    app.command("sql")(sql)
    app.command("explain")(explain)


def sql(
    statement: Annotated[
        str | None, typer.Argument(help="SQL statements, separated by semicolons.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Run a script; - for standard input.")
    ] = None,
    param: Parameter = [],  # noqa: B006 (a list default makes the option repeatable)
    as_csv: Annotated[bool, typer.Option("--csv", help="Print results as CSV.")] = False,
    single: Annotated[
        bool, typer.Option("--single-transaction", help="Run all writes as one transaction.")
    ] = False,
    url: Url = DEFAULT_URL,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON document for each statement.")
    ] = False,
) -> None:
    """Run statements, or open a prompt when no statement is given."""
    if statement is not None and file is not None:
        fail("Give a statement or --file, not both.")
    if as_csv and as_json:
        fail("Give --csv or --json, not both.")
    show = _show_csv if as_csv else _show_json if as_json else _show_table
    with opened(url) as db:
        if statement is None and file is None and sys.stdin.isatty():
            _Prompt(db).loop()
            return
        script = statement if statement is not None else read_text(file or Path("-"))
        db.autocommit = not single
        statements, given = split(script), parameters(param)
        _require_values(statements, len(given))
        values = iter(given)
        for text in statements:
            with _located(script, statements, text, file):
                cursor, seconds = _run(db, text, list(islice(values, _placeholders(text))))
            with until_enough():
                show(cursor, seconds)
        if single:
            db.commit()


@contextlib.contextmanager
def _located(
    script: str, statements: Sequence[str], text: str, file: Path | None
) -> Iterator[None]:
    """Print which of several statements failed. The places in an error are relative to its
    statement."""
    try:
        yield
    except Error:
        if len(statements) > 1 or file is not None:
            number, at = next(i for i, s in enumerate(statements, 1) if s is text), 0
            for before in statements[:number]:
                at = script.index(before, at) + len(before)
            line = script.count("\n", 0, at - len(text)) + 1
            name = "the text" if file is None else str(file)
            ERR.print(f"Statement {number}, which begins in line {line} of {name}:", soft_wrap=True)
        raise


def explain(
    statement: Annotated[str, typer.Argument(help="A SELECT.")],
    param: Parameter = [],  # noqa: B006 (a list default makes the option repeatable)
    views: Annotated[bool, typer.Option(help="Use views (default), or only relations.")] = True,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Explain how the database would answer a SELECT, from which views, and why."""
    with opened(url) as db:
        db.use_views = views
        document = db.explain(_only(split(statement)), parameters(param))
    if as_json:
        print_json(document)
    else:
        OUT.print(document["text"], soft_wrap=True)


def _only(statements: list[str]) -> str:
    if len(statements) != 1:
        fail(f"{len(statements)} statements were given.", "Give one SELECT.")
    return statements[0]


def _placeholders(text: str) -> int:
    """The number of values that the statement takes. The statements of a script take the values in
    order."""
    return sum(token.text == "?" for token in tokens(text))


def _require_values(statements: list[str], given: int) -> None:
    """Check the number of values before the first statement runs. EXPLAIN needs no values. Raises
    InterfaceError."""
    maximum = sum(map(_placeholders, statements))
    minimum = sum(_placeholders(text) for text in statements if kind(text) is not Kind.EXPLAIN)
    if given > maximum:
        fail(f"{given - maximum} values of --param are left over.", "Give one for each `?`.")
    if given < minimum:
        fail(f"{minimum - given} values for `?` are missing.", "Give each with --param, in order.")


def _run(db: Connection, text: str, values: list[Any]) -> tuple[Cursor, float]:
    """The statement's cursor, and its duration in seconds."""
    began = time.perf_counter()
    cursor = db.cursor().execute(text, values)
    return cursor, time.perf_counter() - began


def _names(cursor: Cursor) -> list[str]:
    return [column[0] for column in cursor.description or ()]


def _show_table(cursor: Cursor, seconds: float) -> None:
    count = cursor.rowcount
    if cursor.description is not None:
        OUT.print(table(_names(cursor), cursor.fetchall()))
    if count >= 0:
        served = f", served by {', '.join(cursor.served_by)}" if cursor.served_by else ""
        rows = "row" if count == 1 else "rows"
        ERR.print(f"{count} {rows}, {seconds * 1000:.1f} ms{served}", style="dim", soft_wrap=True)
    else:
        if cursor.notice:
            ERR.print(cursor.notice, style="dim", soft_wrap=True)
        ERR.print(f"done, {seconds * 1000:.1f} ms", style="dim")


def _show_json(cursor: Cursor, _: float) -> None:
    document: dict[str, Any] = {"affected": cursor.rowcount}
    if cursor.description is not None:
        columns = [{"name": name, "type": type_} for name, type_, *_ in cursor.description]
        document = {"columns": columns, "rows": _finite(cursor), "served_by": cursor.served_by}
    print_json(document)


def _finite(rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
    """The rows. Infinities and NaN, which JSON lacks, become text, as in the REST interface."""
    return [
        [json.dumps(v) if isinstance(v, float) and not math.isfinite(v) else v for v in row]
        for row in rows
    ]


def _show_csv(cursor: Cursor, _: float) -> None:
    if cursor.description is not None:
        typer.echo(csv_line(_names(cursor)), nl=False)
        for row in cursor:
            typer.echo(csv_line(row), nl=False)


class _Prompt:
    """The interactive prompt. Errors and Ctrl-C end a statement, not the prompt."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def loop(self) -> None:
        OUT.print(r"Hornbeam. Statements end with ; — \? shows help, \q quits.")
        with _history():
            for text in iter(self._read, None):
                if text.startswith("\\"):
                    self._command(text)
                else:
                    for statement in split(text):
                        self._attempt(statement)
        self._db.rollback()  # leaving the prompt does not commit

    def _read(self) -> str | None:
        """A command or complete statements; None at the end of the input."""
        lines: list[str] = []
        while True:
            state = "*" if not self._db.autocommit else ""
            try:
                lines.append(input("  ...> " if lines else f"hornbeam{state}> "))
            except EOFError:
                return None
            except KeyboardInterrupt:
                OUT.print()
                lines = []
                continue
            text = "\n".join(lines).strip()
            if text.rstrip("; ") == r"\q":
                return None
            if text.startswith("\\") or is_complete(text):
                return text
            if not text:
                lines = []

    def _command(self, text: str) -> None:
        command, _, name = text.rstrip("; ").partition(" ")
        match command:
            case r"\d" if name.strip():
                self._guarded(lambda: _describe(self._db, name))
            case r"\d":
                self._guarded(lambda: _list(self._db, ("relations", "views", "plain_views")))
            case r"\dt":
                self._guarded(lambda: _list(self._db, ("relations",)))
            case r"\dn":
                self._guarded(lambda: _list_schemas(self._db))
            case r"\begin":
                self._db.autocommit = False
            case r"\commit":
                self._guarded(self._end)
            case r"\rollback":
                self._db.rollback()
                self._db.autocommit = True
            case _:
                OUT.print(_HELP)

    def _end(self) -> None:
        try:
            self._db.commit()
        finally:
            self._db.autocommit = True

    def _attempt(self, statement: str) -> None:
        self._guarded(lambda: _show_table(*_run(self._db, statement, [])))

    def _guarded(self, work: Any) -> None:
        try:
            work()
        except Error as error:
            report(error)
        except KeyboardInterrupt:
            ERR.print("Interrupted. A commit that was under way may have succeeded.")


def _describe(db: Connection, name: str) -> None:
    """Print the relation or view of this name, which is found as in SQL."""
    document = db.schema_document()
    things = [*document["relations"], *document["views"], *document["plain_views"]]
    names = Names(document["schemas"], {("", thing["name"]) for thing in things}, db.search_path)
    full = names.old("", read_name(list(tokens(name)), 0)[0])
    for thing in things:
        if thing["name"] == full:
            rows_ = [
                (c["name"], c["type"], c.get("nullable"), _default(c)) for c in thing["columns"]
            ]
            OUT.print(table(("column", "type", "nullable", "default"), rows_, full))
            checks = [(check["name"], check["sql"]) for check in thing.get("checks", [])]
            if checks:
                OUT.print(table(("CHECK", "condition"), checks))
            return
    fail(f"There is no relation or view {full}.")


def _list(db: Connection, kinds: Sequence[str]) -> None:
    """Print the relations and views of these members of the schema's document."""
    document = db.schema_document()
    rows = [
        (
            *parted(thing["name"], document["schemas"]),
            "relation" if "primary_key" in thing else "view",
        )
        for kind_ in kinds
        for thing in document[kind_]
    ]
    OUT.print(table(("schema", "name", "kind"), rows))


def _list_schemas(db: Connection) -> None:
    OUT.print(table(("schema",), [(name,) for name in db.schema_document()["schemas"]]))


def _default(column: dict[str, Any]) -> str:
    """The default of a column, or the expression that generates it, for display."""
    if column.get("generated"):
        return f"generated always as ({column['generated']})"
    return column.get("default_sql") or column.get("default") or ""


@contextlib.contextmanager
def _history() -> Iterator[None]:
    """Enable line editing with a persistent history, if Python has readline."""
    try:
        import readline
    except ModuleNotFoundError:
        yield
        return
    with contextlib.suppress(OSError):
        readline.read_history_file(_HISTORY)
    readline.set_history_length(_HISTORY_LINES)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            readline.write_history_file(_HISTORY)
