"""The options of COPY, with PostgreSQL's rules of which of them go together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hornbeam_server.schema.copy_text import NULL

TEXT, CSV, BINARY = "text", "csv", "binary"
SYNTAX, BAD_VALUE, UNSUPPORTED = "42601", "22023", "0A000"
_NO_DELIMITERS = frozenset("\\.abcdefghijklmnopqrstuvwxyz0123456789")
_ENCODINGS = frozenset({"utf8", "unicode"})
_ONE_BYTE = "must be a single one-byte character"


class BadCopy(Exception):
    """A COPY that cannot be carried out, with its SQLSTATE. `column`: the name of the column that
    the message is about; `detail` and `hint` are further sentences."""

    def __init__(self, sqlstate: str, message: str, detail: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.message = message
        self.detail = detail
        self.hint = hint


Columns = Sequence[str] | None
"""Names of columns; None: all (`*`)."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a COPY, complete. `header` of COPY FROM skips the first line; `matches`: it
    has to name the columns. `delimiter`, `quote` and `escape` are single bytes of ASCII."""

    format: str = TEXT
    delimiter: str = "\t"
    null: str = NULL
    header: bool = False
    matches: bool = False
    quote: str = '"'
    escape: str = '"'
    force_quote: Columns = ()
    force_not_null: Columns = ()
    force_null: Columns = ()


@dataclass(slots=True)
class Given:
    """The options that a statement gives, each by its name, in lower case."""

    values: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, value: Any) -> None:
        """Raises BadCopy for an option that is given twice, or whose value it cannot have."""
        read = _READERS.get(name)
        if read is None:
            raise BadCopy(SYNTAX, f'Option "{name}" is not recognized.')
        if name in self.values:
            raise BadCopy(SYNTAX, f"Conflicting or redundant options: {name} is given twice.")
        self.values[name] = read(name, value)


def options_of(given: Given, *, reads: bool) -> Options:
    """The complete options of COPY FROM (`reads`) or COPY TO. Raises BadCopy."""
    values = given.values
    form = values.get("format", TEXT)
    _require_possible(values, form, reads=reads)
    header = values.get("header", False)
    if header == "match" and not reads:
        raise BadCopy(UNSUPPORTED, 'COPY TO takes no HEADER "match".')
    quote = values.get("quote", '"')
    found = Options(
        form,
        values.get("delimiter", "," if form == CSV else "\t"),
        values.get("null", "" if form == CSV else NULL),
        bool(header),
        header == "match",
        quote,
        values.get("escape", quote),
        values.get("force_quote", ()),
        values.get("force_not_null", ()),
        values.get("force_null", ()),
    )
    _require_distinct(found)
    return found


def _require_possible(values: dict[str, Any], form: str, *, reads: bool) -> None:
    """Raise BadCopy for an option that this format, or this direction, does not have."""
    if form == BINARY:
        for name in values.keys() & {"delimiter", "null", "header"}:
            raise BadCopy(SYNTAX, f"Cannot specify {name.upper()} in BINARY mode.")
    if form != CSV:
        for name in values.keys() & {"quote", "escape", *_OF_COLUMNS}:
            raise BadCopy(UNSUPPORTED, f"COPY {name.upper()} is available only in CSV mode.")
    for name in values.keys() & ({"force_quote"} if reads else {"force_not_null", "force_null"}):
        direction = "TO" if reads else "FROM"
        raise BadCopy(UNSUPPORTED, f"COPY {name.upper()} is available only using COPY {direction}.")


def _require_distinct(options: Options) -> None:
    """Raise BadCopy for signs whose meaning would not be clear."""
    delimiter, null = options.delimiter, options.null
    if delimiter in "\r\n" or "\r" in null or "\n" in null:
        raise BadCopy(BAD_VALUE, "COPY's delimiter and NULL cannot be newline or carriage return.")
    if options.format == TEXT and delimiter in _NO_DELIMITERS:
        raise BadCopy(BAD_VALUE, f'COPY delimiter cannot be "{delimiter}".')
    if options.format != BINARY and delimiter in null:
        raise BadCopy(BAD_VALUE, "COPY delimiter must not appear in the NULL specification.")
    if options.format == CSV:
        if delimiter == options.quote:
            raise BadCopy(BAD_VALUE, "COPY delimiter and quote must be different.")
        if options.quote in null:
            raise BadCopy(
                BAD_VALUE, "CSV quote character must not appear in the NULL specification."
            )


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise BadCopy(SYNTAX, f"{name} requires a parameter.")
    return value


def _sign(name: str, value: Any) -> str:
    text = _text(name, value)
    if len(text) != 1 or not text.isascii():
        raise BadCopy(
            UNSUPPORTED if name == "delimiter" else BAD_VALUE, f"COPY {name} {_ONE_BYTE}."
        )
    return text


def _format(name: str, value: Any) -> str:
    text = _text(name, value).lower()
    if text not in {TEXT, CSV, BINARY}:
        raise BadCopy(BAD_VALUE, f'COPY format "{value}" is not recognized.')
    return text


def _boolean(name: str, value: Any) -> bool:
    if value is None:
        return True
    found = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}.get(
        str(value).lower()
    )
    if found is None:
        raise BadCopy(SYNTAX, f"{name} requires a Boolean value.")
    return found


def _header(name: str, value: Any) -> bool | str:
    if isinstance(value, str) and value.lower() == "match":
        return "match"
    return _boolean(name, value)


def _encoding(name: str, value: Any) -> str:
    text = _text(name, value)
    if text.lower().replace("-", "").replace("_", "") not in _ENCODINGS:
        raise BadCopy(
            UNSUPPORTED, f"COPY's encoding is UTF8, not {text}.", hint="Convert the data."
        )
    return text


def _columns(name: str, value: Any) -> Columns:
    """`value`: a tuple of names, or `*`."""
    if value == "*" and name == "force_quote":
        return None
    if not isinstance(value, tuple):
        raise BadCopy(BAD_VALUE, f'Argument to option "{name}" must be a list of column names.')
    return value


_OF_COLUMNS = ("force_quote", "force_not_null", "force_null")
_READERS: dict[str, Callable[[str, Any], Any]] = {
    "format": _format,
    "delimiter": _sign,
    "null": _text,
    "header": _header,
    "quote": _sign,
    "escape": _sign,
    "encoding": _encoding,
    "freeze": _boolean,
    **dict.fromkeys(_OF_COLUMNS, _columns),
}
