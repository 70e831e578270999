"""Options, output and errors that the commands share."""

from __future__ import annotations

import base64
import datetime as dt
import json
import os
import re
import sys
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from hornbeam.cli.texts import text_and_encoding
from hornbeam.connection import Connection, connect
from hornbeam.errors import Error, InterfaceError

DEFAULT_URL = "hornbeam://127.0.0.1:8780"
_WIDE = 2_000
"""Width, in characters, of output to a file or a pipe."""
_LINE_END = re.compile(r"\r\n?")
_INVISIBLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters except tabs and line ends, and surrogates, which stand for undecodable bytes
of file names."""


def visible(text: str) -> str:
    """`text` with Python escapes instead of characters that would control a terminal."""
    return _INVISIBLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class _Console(Console):
    """Prints text literally: without markup, emoji codes or control characters."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError. Rich would end the process with exit code 1."""
        raise BrokenPipeError


OUT = _Console(
    highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else _WIDE
)
ERR = _Console(stderr=True, highlight=False, markup=False, emoji=False)

Url = Annotated[
    str,
    typer.Option(
        "--url",
        envvar="HORNBEAM_URL",
        help="hornbeam://host:port (with ?tls=true for TLS; HORNBEAM_API_KEY holds the key), or"
        " hornbeam:///folder for an embedded database.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Parameter = Annotated[
    list[str],
    typer.Option("--param", "-p", help="A value for `?`, as JSON or plain text; repeat in order."),
]


@contextmanager
def until_enough() -> Iterator[None]:
    """Treat a closed output pipe as success. When the reader of the output (head, a pager) exits,
    the block ends without an error. Later output is discarded."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def opened(url: str) -> Connection:
    """A connection in autocommit, with a long time limit for schema changes, loads and checks."""
    return connect(url, autocommit=True, timeout_s=600.0)


def print_json(document: Any) -> None:
    """Print `document` on standard output without loss: decimals, dates and times as text, bytes as
    base64."""
    print(json.dumps(document, indent=2, default=json_form, ensure_ascii=False))


def json_form(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, Decimal | uuid.UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "") -> Table:
    """A table for people. Numbers are right-aligned, NULL is dim."""
    rows = list(rows)
    drawn = Table(title=title or None, title_justify="left", title_style="bold")
    for i, column in enumerate(columns):
        values = [row[i] for row in rows if row[i] is not None]
        numbers = bool(values) and all(_is_number(value) for value in values)
        drawn.add_column(column, justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(_cell_text(value) for value in row))
    return drawn


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _cell_text(value: Any) -> str | Text:
    if value is None:
        return Text("NULL", style="dim")
    return f"\\x{value.hex()}" if isinstance(value, bytes) else str(value)


def documents(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """The documents in lines of JSON."""
    for line in lines:
        if line.strip():
            yield json.loads(line)


def progress() -> Progress:
    """A progress bar on standard error. It disappears at the end."""
    return _bars(MofNCompleteColumn(), _NOTE, TimeElapsedColumn())


def long_progress() -> Progress:
    """A progress bar for jobs of hours, with the estimated time left."""
    return _bars(_NOTE, TimeRemainingColumn())


_NOTE = TextColumn("{task.fields[note]}", markup=False)


def _bars(*columns: ProgressColumn) -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *columns,
        console=ERR,
        transient=True,
        disable=not ERR.is_terminal,
    )


def read_text(path: Path, encoding: str | None = None) -> str:
    """The text of a file, which may be compressed, in the encoding that it says; - is standard
    input. Raises InterfaceError."""
    if str(path) != "-":
        return _LINE_END.sub("\n", text_and_encoding(path, encoding)[0])
    try:
        return typer.get_text_stream("stdin").read().removeprefix("\ufeff")
    except (OSError, UnicodeDecodeError) as error:
        raise InterfaceError(f"{path} cannot be read: {error}") from None


def parameters(texts: Sequence[str]) -> list[Any]:
    """The values of --param. Numbers, true, false, null and quoted text are parsed as JSON; other
    text is used unchanged."""
    return [_parameter(text) for text in texts]


def _parameter(text: str) -> Any:
    try:
        value = json.loads(text, parse_float=Decimal)
    except json.JSONDecodeError:
        return text
    return text if isinstance(value, dict | list) else value


def report(error: Error) -> None:
    """Print an error: the problem as a red line, the cure as plain lines."""
    problem, *cure = str(error).split("\n")
    ERR.print("error: ", style="bold red", end="")
    ERR.print(problem, style="red", soft_wrap=True)
    if error.code == "unreachable" and not cure:
        cure = ["Start the server with: hornbeam serve --data FOLDER, or give its URL with --url."]
    for line in cure:
        ERR.print(line, soft_wrap=True)


def exit_code(error: Error) -> int:
    if error.code == "unreachable":
        return 4
    return 2 if isinstance(error, InterfaceError) else 3


def fail(message: str, cure: str = "") -> NoReturn:
    """Report wrong usage: raise InterfaceError."""
    raise InterfaceError(f"{message}\n{cure}" if cure else message)
