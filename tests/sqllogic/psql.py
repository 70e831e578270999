"""PostgreSQL's regression tests: from a script of psql and its recorded output to records.

The output repeats each line of the script except for empty ones; the answer of a statement follows
its last line: a table, an error, or nothing. Commands of psql are left out, and so are tables with
values of several lines. Statements with variables of psql may end in any way. COPY is an INSERT of
the rows that it reads.

The relations that all scripts share come from `test_setup.sql`, with rows from files (`shared`).
Their columns of type NAME, which is a type of PostgreSQL's catalog, are TEXT.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from hornbeam.statements import tokens
from tests.sqllogic.records import Expected, Malformed, Query, Record, Statement

Read = Callable[[str], str]
_RULE = re.compile(r"-[-+]*")
_COUNT = re.compile(r"\(\d+ rows?\)")
_VARIABLE = re.compile(r"(?<![:\w]):['\"]?[A-Za-z_]")
_COPIED = re.compile(
    r"\s*copy\s+([\w.\"]+\s*(?:\([^)]*\))?)\s*from\s+(stdin|stdout|:'\w+')[^;]*;\s*", re.I
)
_FILE = re.compile(r"\\set filename :abs_srcdir '([^']+)'")
_NULL = re.compile(r"\\pset null '?([^']*)'?")
_MADE = re.compile(
    r"^(?:CREATE TABLE|INSERT INTO) (\w+)[^;]*;"
    r"|^\\set filename :abs_srcdir '([^']+)'\nCOPY (\w+) FROM :'filename';",
    re.M,
)
_SILENT, _LOUD = "\\set ECHO none", "\\set ECHO all"
"""Commands of psql between which the output does not repeat the script."""
_NEAR = 8
"""Maximum number of lines of an error."""
_ROWS = 500
"""Number of rows of a file in one INSERT."""


def read(script: str, output: str, data: Read) -> Iterator[Record]:
    """The records of a script with its output. `data` gives the text of a file with rows. Raises
    Malformed."""
    reader = _Reader(script, output, data)
    while (record := reader.statement()) is not None:
        yield from record


class _Reader:
    """A position in a script, and in its output."""

    def __init__(self, script: str, output: str, data: Read) -> None:
        self._lines = script.split("\n")
        self._shown = _Shown(output.split("\n"))
        self._data = data
        self._at = 0
        self._file = self._null = ""

    def statement(self) -> tuple[Record, ...] | None:
        """The records of the next statement; None at the end."""
        begun, buffer = 0, ""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            self._at += 1
            if not line and not _is_open(buffer):
                continue
            self._shown.echo(line, self._at)
            begun = begun if buffer else self._at
            buffer += f"{line}\n"
            if "\\" in line and _is_command(buffer):
                self._command(line)
                return ()
            if not _has_words(buffer) and not _is_open(buffer):
                buffer = ""
            elif _is_whole(buffer):
                return self._ended(begun, buffer)
        return None

    def _command(self, line: str) -> None:
        if line == _SILENT:
            self._at = self._lines.index(_LOUD, self._at) + 1
        if found := _NULL.match(line):
            self._null = found[1]
        if found := _FILE.match(line):
            self._file = found[1]
        self._answer()

    def _answer(self) -> Sequence[str]:
        return self._shown.answer(self._lines[self._at :])

    def _ended(self, begun: int, sql: str) -> tuple[Record, ...]:
        copied = _COPIED.match(sql)
        if copied and copied[2].startswith(":"):
            self._answer()
            return (*_inserts(begun, copied[1], self._data(self._file)),)
        if copied and not self._shown.is_near(self._lines[self._at :]):
            start, self._at = self._at, self._lines.index("\\.", self._at) + 1
            text = "\n".join(self._lines[start : self._at - 1])
            failed = any(line.startswith("ERROR:") for line in self._answer())
            return () if failed else (*_inserts(begun, copied[1], text),)
        return (_record(begun, sql, self._answer(), self._null),)


class _Shown:
    """A position in the lines of the output."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._at = 0

    def echo(self, line: str, number: int) -> None:
        """Pass the line of the script, which comes next."""
        if self._at >= len(self._lines) or self._lines[self._at] != line:
            raise Malformed(f"line {number}: the output does not repeat it")
        self._at += 1

    def answer(self, following: Sequence[str]) -> Sequence[str]:
        """The lines up to those of the script that follow."""
        near, begin = _first(following), self._at
        while self._at < len(self._lines) and not self._repeats(near):
            self._at += 1
        return self._lines[begin : self._at]

    def is_near(self, following: Sequence[str]) -> bool:
        """Whether the lines of the script come next, or behind an error."""
        return _first(following) in self._lines[self._at : self._at + _NEAR]

    def _repeats(self, line: str | None) -> bool:
        """Whether the line of the script is here. A comment may look like the head of a table
        without columns."""
        here, *after = self._lines[self._at : self._at + 2]
        return here == line and not (here == "--" and after and _COUNT.fullmatch(after[0]))


def _first(lines: Sequence[str]) -> str | None:
    return next((line for line in lines if line), None)


def _is_command(text: str) -> bool:
    """Whether the text ends with a command of psql, outside of strings."""
    return any(token.text == "\\" for token in tokens(text))


def _has_words(text: str) -> bool:
    return any(True for _ in tokens(text))


def _is_open(text: str) -> bool:
    """Whether the text ends inside a string or a comment."""
    return [token.text for token in tokens(f"{text} x")][-1:] != ["x"]


def _is_whole(text: str) -> bool:
    return [(token.text, token.depth) for token in tokens(text)][-1:] == [(";", 0)]


def _record(line: int, sql: str, answer: Sequence[str], null: str) -> Record:
    several = sum(token.text == ";" and not token.depth for token in tokens(sql)) > 1
    if _VARIABLE.search(sql) or several:
        return Statement(line, sql, Expected.MAYBE)
    error = next((text for text in answer if text.startswith("ERROR:")), "")
    if error:
        return Statement(line, sql, Expected.ERROR, error)
    rows = _table(answer)
    if rows is None:
        return Statement(line, sql, Expected.OK)
    cells = ["\t".join("" if cell == null else cell for cell in row) for row in rows]
    return Query(line, sql, "", "nosort", "", tuple(cells))


def _table(answer: Sequence[str]) -> list[list[str]] | None:
    """The rows of a table; None if there is no table, or a value has several lines."""
    rule = next((n for n, text in enumerate(answer) if n and _RULE.fullmatch(text)), 0)
    end = next((n for n, text in enumerate(answer) if n > rule and _COUNT.fullmatch(text)), 0)
    if not rule or not end:
        return None
    rows = answer[rule + 1 : end]
    edges = [n for n, sign in enumerate(answer[rule]) if sign == "+"]
    broken = any(row[n : n + 1] != "|" for row in rows for n in edges)
    if broken or any(row.endswith("+") and len(row) >= len(answer[rule]) for row in rows):
        return None
    return [_cells(row, edges) for row in rows]


def _cells(row: str, edges: Sequence[int]) -> list[str]:
    starts = [0, *(n + 1 for n in edges)]
    return [row[a:b].strip() for a, b in zip(starts, [*edges, len(row)], strict=True)]


def shared(setup: str, script: str, data: Read) -> Iterator[Statement]:
    """The statements of `test_setup.sql` that make the relations which a script names, and their
    rows. `data` gives the text of a file with rows."""
    names = {word.lower() for word in re.findall(r"\w+", script)}
    if "tenk2" in names or "onek2" in names:
        names |= {"tenk1", "onek"}
    for made in _MADE.finditer(setup):
        name = made[1] or made[3]
        if name.lower() not in names:
            continue
        if made[2]:
            yield from _inserts(0, name, data(made[2]))
        else:
            sql = re.sub(r"\bname\b(?=,?\n)", "text", made[0])
            yield Statement(0, sql, Expected.OK)


def _inserts(line: int, relation: str, text: str) -> Iterator[Statement]:
    rows = text.splitlines()
    for start in range(0, len(rows), _ROWS):
        some = [row.split("\t") for row in rows[start : start + _ROWS]]
        values = ", ".join(f"({', '.join(map(_literal, row))})" for row in some)
        yield Statement(line, f"INSERT INTO {relation.strip()} VALUES {values}", Expected.OK)


def _literal(text: str) -> str:
    return "NULL" if text == "\\N" else "'" + text.replace("'", "''") + "'"
