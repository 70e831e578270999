"""Lines and records of COPY FROM in the formats text and CSV, from bytes that come in pieces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from hornbeam_server.pgwire.copy.options import CSV, Options
from hornbeam_server.schema.copy_text import continues, fields_of

BAD_FORMAT, BAD_ENCODING = "22P04", "22021"
_END = "\\."
_SHOWN = 100


@dataclass(eq=False)
class BadData(Exception):
    """Data that is not what the statement says. `line`: its number from 1. `column` and `value`:
    the field, if the error is about one. `text`: the record otherwise."""

    sqlstate: str
    message: str
    line: int = 0
    column: str = ""
    value: str | None = None
    text: str | None = None
    of_binary: bool = False
    hint: str = ""

    def context(self, table: str) -> str:
        """The CONTEXT of the error, as PostgreSQL writes it."""
        place = f"COPY {table}, line {self.line}"
        if self.column:
            place = f"{place}, column {self.column}"
            if self.of_binary:
                return place
            return f"{place}: null input" if self.value is None else f'{place}: "{cut(self.value)}"'
        return place if self.text is None else f'{place}: "{cut(self.text)}"'


def cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


class Record(NamedTuple):
    """The fields of a row, and the number of its last line."""

    line: int
    fields: list[str | None]


class Records:
    """The records in the bytes that `feed` gets, without the header. Afterwards `end` gives the
    last one. It holds at most one record, and what was fed at once. Raises BadData."""

    def __init__(self, options: Options, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._lines = _Lines(options)
        self._fields = _Csv(options, columns).fields if options.format == CSV else self._of_text
        self._header = options.header

    def feed(self, data: bytes) -> list[Record]:
        return list(self._records(self._lines.feed(data)))

    def end(self) -> list[Record]:
        return list(self._records(self._lines.end()))

    def _records(self, lines: Iterator[tuple[int, str]]) -> Iterator[Record]:
        for number, text in lines:
            fields = self._fields(number, text)
            if self._header:
                self._header = False
                self._require_header(number, fields, text)
                continue
            count = len(fields)
            if count != len(self._columns):
                self._wrong_count(number, count, text)
            yield Record(number, fields)

    def _of_text(self, line: int, text: str) -> list[str | None]:
        found = fields_of(text, self._options.delimiter, self._options.null)
        if "\\" in text:
            _require_text("".join([each for each in found if each]), line, text)
        return found

    def _require_header(self, line: int, fields: list[str | None], text: str) -> None:
        if not self._options.matches:
            return
        if len(fields) != len(self._columns):
            message = f"The header line has {len(fields)} fields, not {len(self._columns)}."
            raise BadData(BAD_FORMAT, message, line, text=text)
        for number, (name, wanted) in enumerate(zip(fields, self._columns, strict=True), 1):
            if name != wanted:
                message = f'Field {number} of the header line is "{name}", not "{wanted}".'
                raise BadData(BAD_FORMAT, message, line, text=text)

    def _wrong_count(self, line: int, count: int, text: str) -> None:
        if count > len(self._columns):
            raise BadData(BAD_FORMAT, "Extra data after last expected column.", line, text=text)
        message = f'Missing data for column "{self._columns[count]}".'
        raise BadData(BAD_FORMAT, message, line, text=text)


class _Lines:
    r"""The texts of records, each with the number of its last line. All lines end in the same way
    (\n, \r\n or \r), as the first one does. `\.` ends the data."""

    def __init__(self, options: Options) -> None:
        self._quotes = _Quotes(options) if options.format == CSV else None
        self._kind = "Literal" if self._quotes is None else "Unquoted"
        self._buffer = b""
        self._pieces: list[bytes] = []
        """Bytes behind the buffer, without an end of a line."""
        self._parts: list[str] = []
        """The lines of the record that is not complete."""
        self._number = 0
        self._end = b""
        """The end of lines; empty before the first one is found."""
        self._done = False

    def feed(self, data: bytes) -> Iterator[tuple[int, str]]:
        self._pieces.append(data)
        if self._end and self._end[-1:] not in data:
            return iter(())
        self._buffer, self._pieces = b"".join([self._buffer, *self._pieces]), []
        if not self._end and not self._find_end():
            return iter(())
        *lines, self._buffer = self._buffer.split(b"\n" if self._end != b"\r" else b"\r")
        return self._texts(lines)

    def end(self) -> Iterator[tuple[int, str]]:
        """The record without an end of line at the end of the data."""
        self._buffer, self._pieces = b"".join([self._buffer, *self._pieces]), []
        self._end = self._end or (b"\r" if b"\r" in self._buffer else b"\n")
        last, self._buffer = (
            self._buffer.split(b"\r") if self._end == b"\r" else [self._buffer],
            b"",
        )
        ended = last[-1] == b""
        if ended:
            last.pop()
        yield from self._texts(last, last=True)
        if self._parts and not self._done:
            quoted = self._quotes is not None
            message = "Unterminated CSV quoted field." if quoted else "The data ends in a line."
            text = "\n".join(self._parts) + "\n" * ended
            raise BadData(BAD_FORMAT, message, self._number, text=text)

    def _find_end(self) -> bool:
        """Find how lines end. A carriage return at the end of the buffer may have a line feed
        behind it."""
        found = re.search(rb"[\r\n]", self._buffer)
        if found is None or (found[0] == b"\r" and found.end() == len(self._buffer)):
            return False
        crlf = self._buffer[found.start() : found.start() + 2] == b"\r\n"
        self._end = b"\r\n" if crlf else found[0]
        return True

    def _texts(self, lines: list[bytes], *, last: bool = False) -> Iterator[tuple[int, str]]:
        for line in lines:
            if self._done:
                return
            self._number += 1
            text = self._decoded(line)
            if not self._parts and text.removesuffix("\r") == _END:
                self._done = True
                return
            self._parts.append(text)
            if self._goes_on(text) and not (last and self._quotes is None):
                continue
            parts, self._parts = self._parts, []
            sign = "\r" if self._end == b"\r" else "\n"
            text = sign.join(parts) if len(parts) > 1 else text
            yield self._number, self._without_end(text, last=last)

    def _goes_on(self, line: str) -> bool:
        return continues(line) if self._quotes is None else self._quotes.open_after(line)

    def _without_end(self, text: str, *, last: bool) -> str:
        """The record without the carriage return of its end."""
        if self._end == b"\r\n":
            if text.endswith("\r"):
                text = text[:-1]
            elif not last:
                message = f"{self._kind} newline found in data."
                raise BadData(BAD_FORMAT, message, self._number)
        if self._end != b"\r" and "\r" in text and self._has_return(text):
            message = f"{self._kind} carriage return found in data."
            hint = 'Write "\\r" for a carriage return.' if self._quotes is None else ""
            raise BadData(BAD_FORMAT, message, self._number, hint=hint)
        return text

    def _has_return(self, text: str) -> bool:
        """Is a carriage return neither quoted nor escaped?"""
        if self._quotes is not None:
            return "\r" in self._quotes.outside(text)
        return re.search(r"(?<!\\)(?:\\\\)*\r", text) is not None

    def _decoded(self, line: bytes) -> str:
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            wrong = " ".join(f"0x{byte:02x}" for byte in line[error.start : error.end])
            message = f'Invalid byte sequence for encoding "UTF8": {wrong}.'
            raise BadData(BAD_ENCODING, message, self._number) from None
        if "\0" in text:
            raise _zero(self._number)
        return text


def _require_text(text: str, line: int, record: str) -> None:
    """Raise BadData for escapes that are not UTF-8, or a zero byte."""
    if "\0" in text:
        raise _zero(line, record)
    if not text.isascii() and re.search(r"[\ud800-\udfff]", text):
        message = 'Invalid byte sequence for encoding "UTF8".'
        raise BadData(BAD_ENCODING, message, line, text=record)


def _zero(line: int, record: str | None = None) -> BadData:
    message = 'Invalid byte sequence for encoding "UTF8": 0x00.'
    return BadData(BAD_ENCODING, message, line, text=record)


class _Quotes:
    """Follows quotes of CSV over lines. Quotes may begin and end anywhere in a field."""

    def __init__(self, options: Options) -> None:
        quote, escape = map(re.escape, (options.quote, options.escape))
        self._quote = options.quote
        self._simple = options.quote == options.escape
        self._inside = re.compile(rf"{escape}.|{quote}", re.DOTALL)
        self._open = False
        body = quoted(options)
        self._parts = re.compile(f"{quote}{body}(?:{quote}|\\Z)", re.DOTALL)

    def open_after(self, line: str) -> bool:
        """Is a quote open behind the next line?"""
        if self._simple:
            self._open ^= line.count(self._quote) % 2 == 1
            return self._open
        at = 0
        while True:
            if self._open:
                found = self._inside.search(line, at)
                if found is None:
                    return True
                at = found.end()
                self._open = found[0] != self._quote
            else:
                start = line.find(self._quote, at)
                if start < 0:
                    return False
                at, self._open = start + 1, True

    def outside(self, text: str) -> str:
        """What is not in quotes."""
        return self._parts.sub("", text)


def quoted(options: Options) -> str:
    """An expression for the text between two quotes."""
    quote, escape = map(re.escape, (options.quote, options.escape))
    if quote == escape:
        return f"(?:[^{quote}]++|{quote}{quote})*+"
    return f"(?:[^{quote}{escape}]++|{escape}[{quote}{escape}]|{escape}(?![{quote}{escape}]))*+"


@dataclass
class _Csv:
    """Divides a record of CSV into its fields."""

    options: Options
    columns: tuple[str, ...]
    _never_null: list[bool] = field(init=False)
    _null_in_quotes: list[bool] = field(init=False)

    def __post_init__(self) -> None:
        options = self.options
        sign, quote, escape = map(re.escape, (options.delimiter, options.quote, options.escape))
        part = f"{quote}{quoted(options)}{quote}"
        self._field = re.compile(f"((?:[^{sign}{quote}]++|{part})*+)(?:{sign}|\\Z)", re.DOTALL)
        self._part = re.compile(f"{quote}({quoted(options)}){quote}", re.DOTALL)
        self._escaped = re.compile(f"{escape}([{quote}{escape}])", re.DOTALL)
        names = self.columns
        self._never_null = [name in (options.force_not_null or ()) for name in names]
        self._null_in_quotes = [name in (options.force_null or ()) for name in names]

    def fields(self, line: int, text: str) -> list[str | None]:
        """The fields; None is NULL."""
        quote, null = self.options.quote, self.options.null
        raw = text.split(self.options.delimiter) if quote not in text else self._divided(text)
        found = list[str | None]()
        for number, given in enumerate(raw):
            written = quote in given
            value = self._part.sub(self._unquoted, given) if written else given
            known = number < len(self.columns)
            nullable = self._null_in_quotes[number] if written and known else not written
            if (
                value == null
                and nullable
                and not (known and self._never_null[number] and not written)
            ):
                found.append(None)
            else:
                found.append(value)
        return found

    def _divided(self, text: str) -> list[str]:
        found, at = list[str](), 0
        while match := self._field.match(text, at):
            found.append(match[1])
            at = match.end()
            if at == match.end(1):
                break
        return found

    def _unquoted(self, found: re.Match[str]) -> str:
        return self._escaped.sub(r"\1", found[1])
