"""The rows of a dump: INSERT … VALUES and COPY … FROM stdin, as texts by column.

A dump holds literals. They are read by expressions of `re`: the parser makes a tree of each value,
which takes minutes for a dump of some hundred megabytes. Any other expression is a problem.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from hornbeam_server.schema.copy_text import OF_BYTES, continues, fields_of, unescaped_match
from hornbeam_server.schema.ddl.scan import Piece
from hornbeam_server.schema.ddl.server_bytes import value_of
from hornbeam_server.schema.ddl.sources import Source
from hornbeam_server.schema.ddl.spaces import NAME
from hornbeam_server.schema.drafts import Place
from hornbeam_server.schema.errors import SchemaError

Value = str | bytes | None
UTF8 = "utf-8"
_HEAD = re.compile(
    rf"(?:INSERT|REPLACE)\s+(?:(?:LOW_PRIORITY|DELAYED|HIGH_PRIORITY|IGNORE|OR\s+\w+)\s+)*"
    rf"(?:INTO\s+)?(?P<name>{NAME})\s*(?:\((?P<columns>[^)]*)\)\s*)?"
    r"(?:OVERRIDING\s+(?:SYSTEM|USER)\s+VALUE\s+)?VALUES?\b",
    re.IGNORECASE,
)
_COPY = re.compile(
    rf"COPY\s+(?P<name>{NAME})\s*(?:\((?P<columns>[^)]*)\)\s*)?FROM\s+stdin\b(?P<options>.*)",
    re.IGNORECASE | re.DOTALL,
)
_COLUMN = re.compile(NAME)
_ESCAPED = {Source.MYSQL}
"""The dialects whose strings have backslashes as escapes."""
_LITERAL = {
    source: re.compile(
        r"\s+|--[^\n]*|/\*.*?\*/"
        r"|(?P<text>(?P<prefix>[nNeExXbB]|_\w+\s*)?'(?P<inner>"
        + (r"(?:[^'\\]++|\\.|'')*+" if source in _ESCAPED else r"(?:[^']++|'')*+")
        + r")')|(?P<hex>0[xX][0-9a-fA-F]*)|(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
        + (
            r"|(?P<double>\"(?:[^\"\\]++|\\.|\"\")*+\")"
            if source in _ESCAPED
            else r"|(?P<double>(?!))"
        )
        + r"|(?P<cast>::\s*[\w ]+(?:\(\d+(?:,\d+)?\))?(?:\[\])?)"
        r"|(?P<word>\w+)|(?P<sign>.)",
        re.DOTALL,
    )
    for source in Source
}
_SIMPLE = r"(?:N?'[^'\\]*+'|-?\d++(?:\.\d++)?+|NULL)"
_SIMPLE_ROW = re.compile(rf"\(\s*+({_SIMPLE}(?:\s*+,\s*+{_SIMPLE})*+)\s*+\)", re.IGNORECASE)
_SIMPLE_VALUE = re.compile(r"N'([^']*+)'|'([^']*+)'|(-?\d[\d.]*+)|(NULL)", re.IGNORECASE)
"""Rows of plain texts, numbers and NULL, which most rows are. They are read five times faster."""
_IN_MYSQL = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
_BACKSLASH = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_IN_STRING = re.compile(
    rf"\\(?P<code>u[0-9a-fA-F]{{4}}|U[0-9a-fA-F]{{8}})|{OF_BYTES}|\\(?P<other>.)", re.DOTALL
)
_CONSTANTS = {"NULL": None, "TRUE": "true", "FALSE": "false"}
_CASTS = {"CAST", "TRY_CAST"}
_TYPES = {"DATE", "TIMESTAMP", "DATETIME", "TIMESTAMPTZ"}
"""Types before a text: DATE '2026-01-31'."""


@dataclass(frozen=True, slots=True)
class Section:
    """A statement with rows of a relation. `columns` is empty if the statement names none; the
    values of a column "" are left out. `named`: the statement names its columns."""

    relation: str
    columns: tuple[str, ...]
    named: bool
    piece: Piece
    source: Source
    encoding: str = UTF8

    def bytes_of(self, text: str) -> bytes:
        """The bytes of the file that were decoded as `text`."""
        return text.encode(self.encoding, "surrogateescape")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of `relation`: its values in the order of `columns`, its line, and its text."""

    relation: str
    line: int
    columns: tuple[str, ...]
    values: Sequence[Value]
    text: str


def section(piece: Piece, source: Source) -> Section | None:
    """The rows of a statement; None for a table of the system, such as sqlite_sequence. Raises
    SchemaError for a statement that changes rows, or takes them from a query."""
    head = (_COPY if piece.rows is not None else _HEAD).match(piece.text)
    name = piece.spaces.full_name(head["name"]) if head else ""
    if name.startswith("sqlite_") or (head is None and "SQLITE_SEQUENCE" in piece.words):
        return None
    if head is None or (piece.rows is not None and _options(head["options"])):
        what = " ".join(piece.text[:40].split())
        raise piece.place.error(
            f"{what} … is not carried out: only INSERT … VALUES and COPY … FROM stdin are.",
            cure="Export the rows again, for example with pg_dump or mysqldump, or load CSV files.",
            name=what,
        )
    columns = tuple(map(piece.spaces.last_name, _COLUMN.findall(head["columns"] or "")))
    return Section(name, columns, bool(columns), piece, source)


def _options(text: str) -> bool:
    """Does COPY have options, such as a format? `WITH` alone is none."""
    return text.strip().upper() not in {"", "WITH"}


def rows_of(section: Section) -> Iterator[Row]:
    """The rows of a section. Raises SchemaError at the place of a value that is no literal, or of a
    row that has more or fewer values than the section has columns."""
    place = section.piece.place
    short = section.source is Source.POSTGRES and not section.named
    rows = _copied(section) if section.piece.rows is not None else _Inserted(section).rows()
    dropped = {at for at, name in enumerate(section.columns) if not name}
    for line, values, text, defaults in rows:
        # PostgreSQL gives the last columns their defaults if there are no values for them.
        columns = section.columns[: len(values)] if short else section.columns
        if len(values) != len(columns):
            raise Place(place.file, line, 1).error(
                f"A row of {section.relation} has {len(values)} values for {len(columns)} columns.",
                cure="Correct the row or the list of columns.",
                name=section.relation,
            )
        row = Row(section.relation, line, columns, values, text)
        yield _without({*dropped, *defaults}, row) if dropped or defaults else row


def _without(positions: Collection[int], row: Row) -> Row:
    """The row without the columns at the positions."""
    kept = [at for at in range(len(row.values)) if at not in positions]
    columns, values = tuple(row.columns[at] for at in kept), [row.values[at] for at in kept]
    return replace(row, columns=columns, values=values)


_Values = tuple[int, Sequence[Value], str, Collection[int]]
"""The line, the values and the text of a row, and the positions of DEFAULT among the values."""


def _copied(section: Section) -> Iterator[_Values]:
    piece = section.piece
    assert piece.rows is not None
    start, end = piece.rows
    line = piece.place.line + piece.file_text.count("\n", piece.start, start)
    while start < end:
        stop = _line_end(piece.file_text, start, end)
        text = piece.file_text[start:stop].removesuffix("\r")
        yield line, fields_of(text), text, ()
        start, line = stop + 1, line + 1 + text.count("\n")


def _line_end(text: str, start: int, end: int) -> int:
    """The offset of the line feed that ends the row at `start`."""
    stop = text.find("\n", start, end)
    while stop >= 0 and text[stop - 1] == "\\" and continues(text[start:stop]):
        stop = text.find("\n", stop + 1, end)
    return end if stop < 0 else stop


def _unescaped_in_string(found: re.Match[str]) -> str:
    r"""The same in E'…', which also has \u00e9 and \U0001f600."""
    code = found["code"]
    return chr(int(code[1:], 16)) if code else unescaped_match(found)


def _unescaped_in_mysql(found: re.Match[str]) -> str:
    escape = found[1]
    if escape[0] in _IN_MYSQL:
        return _IN_MYSQL[escape[0]] + escape[1:]
    return found[0] if escape in {"%", "_"} else escape


class _Inserted:
    """Reads the rows behind VALUES."""

    def __init__(self, section: Section) -> None:
        self._section = section
        self._text = section.piece.text
        self._literal = _LITERAL[section.source]
        head = _HEAD.match(self._text)
        assert head is not None
        self._at = head.end()
        self._counted, self._line = 0, section.piece.place.line
        self._defaults: set[int] = set()

    def rows(self) -> Iterator[_Values]:
        found = self._next()
        while found is not None:
            if found["sign"] != "(":
                raise self._no_literal(found)
            start = found.start()
            self._defaults = set()
            values = self._simple_values(start) or self._values()
            if values and len(self._defaults) == len(values):
                place = self._section.piece.place
                raise Place(place.file, self._line_of(start), 1).error(
                    f"A row of {self._section.relation} has DEFAULT in all of its columns.",
                    cure="Write the value of one column.",
                )
            yield self._line_of(start), values, self._text[start : self._at], self._defaults
            found = self._next()
            if found is not None and found["sign"] == ",":
                found = self._next()
            elif found is not None:
                raise self._no_literal(found)

    def _next(self) -> re.Match[str] | None:
        """The next word, value or sign."""
        while found := self._literal.match(self._text, self._at):
            self._at = found.end()
            if found.lastgroup is not None:
                return found
        return None

    def _simple_values(self, start: int) -> list[Value]:
        """The values of the row that begins at `start`; empty if a value is not simple."""
        row = _SIMPLE_ROW.match(self._text, start)
        if row is None:
            return []
        self._at = row.end()
        return [
            None if null else number or text or self._national(national)
            for national, text, number, null in _SIMPLE_VALUE.findall(row[1])
        ]

    def _values(self) -> list[Value]:
        """The values up to the closing parenthesis."""
        values: list[Value] = []
        while True:
            found = self._required()
            if found["sign"] == ")" and not values:
                return values
            if (found["word"] or "").upper() == "DEFAULT":
                self._defaults.add(len(values))
                values.append(None)
            else:
                values.append(self._value(found))
            behind = self._behind()
            while (behind["sign"] or "-") in _JOINS.get(self._section.source, ""):
                if behind["sign"] == "|":
                    self._required()
                values[-1] = self._joined(values[-1], self._required())
                behind = self._behind()
            if behind["sign"] == ")":
                return values
            if behind["sign"] != ",":
                raise self._no_literal(behind)

    def _joined(self, value: Value, found: re.Match[str]) -> str:
        try:
            return _text(value) + _text(self._value(found))
        except ValueError:
            raise self._no_literal(found) from None

    def _behind(self) -> re.Match[str]:
        """What stands behind a value and its casts."""
        behind = self._required()
        while behind["cast"]:
            behind = self._required()
        return behind

    def _value(self, found: re.Match[str]) -> Value:
        if found["text"] is not None:
            return self._string(found)
        if found["double"] is not None:
            inner = found["double"][1:-1].replace('""', '"')
            return _BACKSLASH.sub(_unescaped_in_mysql, inner)
        if found["number"] is not None:
            return str(found["number"])
        if found["hex"] is not None:
            return _bytes(found["hex"][2:])
        word = (found["word"] or "").upper()
        if word in _CONSTANTS:
            return _CONSTANTS[word]
        if word in _CASTS and self._required()["sign"] == "(":
            return self._cast()
        call = _CALLS.get(word)
        if call is not None and self._required()["sign"] == "(":
            try:
                return call(*map(_text, self._values()))
            except (TypeError, ValueError):
                raise self._no_literal(found) from None
        if word in _TYPES:
            return self._value(self._required())
        if found["sign"] in {"-", "+", "$"}:
            number = self._required()
            if number["number"] is not None:
                return str(found["sign"].strip("+$") + number["number"])
        raise self._no_literal(found)

    def _string(self, found: re.Match[str]) -> Value:
        prefix, inner = (found["prefix"] or "").strip().lower(), str(found["inner"])
        if prefix == "x":
            return _bytes(inner)
        if prefix == "b":
            of_postgres = self._section.source is Source.POSTGRES
            return inner if of_postgres else str(int(inner or "0", 2))
        inner = inner.replace("''", "'")
        if self._section.source in _ESCAPED and "\\" in inner:
            inner = _BACKSLASH.sub(_unescaped_in_mysql, inner)
        elif prefix == "e" and "\\" in inner:
            inner = _IN_STRING.sub(_unescaped_in_string, inner)
        if prefix == "_binary":
            return self._section.bytes_of(inner)
        return self._national(inner) if prefix == "n" else inner

    def _national(self, text: str) -> str:
        """The value of N'text'. PostgreSQL reads it as a CHAR(n), which has no blanks at its end
        when it becomes a VARCHAR or a TEXT."""
        return text.rstrip(" ") if self._section.source is Source.POSTGRES else text

    def _cast(self) -> Value:
        """The value in CAST(value AS type), behind its parenthesis."""
        found = self._required()
        value, _, type_ = self._value(found), self._required(), self._required()
        self._skip_to_closing()
        if isinstance(value, bytes) and self._section.source is Source.SQLSERVER:
            try:
                return value_of(value, (type_["word"] or type_[0]).strip("[]"))
            except ValueError:
                raise self._no_literal(found) from None
        return value

    def _skip_to_closing(self) -> None:
        """Skip the rest of the type in CAST(value AS type)."""
        depth = 1
        while depth:
            sign = self._required()["sign"]
            depth += (sign == "(") - (sign == ")")

    def _required(self) -> re.Match[str]:
        found = self._next()
        if found is None:
            raise self._error(len(self._text), "The rows end before their last parenthesis.")
        return found

    def _no_literal(self, found: re.Match[str]) -> SchemaError:
        return self._error(found.start(), f"{found[0][:40]} is no literal.")

    def _error(self, offset: int, message: str) -> SchemaError:
        return self._section.piece.place.behind(self._text, offset).error(
            f"INSERT into {self._section.relation}: {message}",
            cure="Rows of a dump hold literals: write the value.",
            name=self._section.relation,
        )

    def _line_of(self, offset: int) -> int:
        self._line += self._text.count("\n", self._counted, offset)
        self._counted = offset
        return self._line


def _text(value: Value) -> str:
    """Raises ValueError for NULL."""
    if value is None:
        raise ValueError("NULL")
    return value.decode() if isinstance(value, bytes) else value


def _unistr(text: str) -> str:
    return _UNICODE.sub(lambda found: chr(int(found[1], 16)) if found[1] else "\\", text)


_UNICODE = re.compile(r"\\(?:u?([0-9A-Fa-f]{4})|\\)")
_CALLS: Mapping[str, Callable[..., str]] = MappingProxyType(
    {
        "REPLACE": lambda text, old, new: text.replace(old, new),
        "CHAR": lambda *codes: "".join(chr(int(code)) for code in codes),
        "NCHAR": lambda code: chr(int(code)),
        "UNISTR": _unistr,
        "CONCAT": lambda *parts: "".join(parts),
    }
)
"""Functions by which dumps write texts with the ends of lines."""
_JOINS = {Source.SQLITE: "|", Source.POSTGRES: "|", Source.SQLSERVER: "+"}
"""The signs of the operators that join texts."""


def _bytes(digits: str) -> bytes:
    return bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits)
