"""Comparison of answers with the results in sqllogictest files.

A file writes a result as text, in the style of its engine: a row a line, or a value a line; `t` or
`true` or `1`; `2.5` or `2.500`. Both sides are brought into one canonical text for each kind of
value. Numbers with a fraction are equal if they agree to six digits; all other values are equal if
their texts are.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from itertools import zip_longest
from typing import Any

from hornbeam.intervals import Interval, interval_text
from hornbeam_server.schema.intervals import interval, of_timedelta

Row = Sequence[Any]
NULL, EMPTY = "NULL", "(empty)"
WORDS = {"words", "cockroach"}
"""The styles in which a row is a line of words, as many as its values have."""
DIGITS = 6
_HASH = re.compile(r"(\d+) values hashing to ([0-9a-f]{32})")
_ELEMENT = re.compile(r"'([^']*)'|(?<![^\[,])[^\[\],']+")
"""An element of a list, in quotes or not."""
_TRUE, _FALSE = {"true", "t", "1"}, {"false", "f", "0"}


def kind_of(values: Iterable[Any]) -> str:
    """The kind of a column, by its values."""
    kinds = {_KINDS.get(type(value), "text") for value in values if value is not None}
    return kinds.pop() if len(kinds) == 1 else "text"


_KINDS: Mapping[type, str] = {
    bool: "boolean",
    int: "number",
    float: "number",
    Decimal: "number",
    dt.datetime: "moment",
    dt.time: "moment",
    dt.timedelta: "interval",
    Interval: "interval",
    bytes: "bytes",
    list: "list",
}


def canonical(value: Any) -> str:
    """The canonical text of a value of ours."""
    match value:
        case None:
            return NULL
        case bool():
            return "true" if value else "false"
        case int() | float() | Decimal():
            return _number(str(value))
        case dt.datetime() | dt.time():
            return _moment(str(value))
        case dt.timedelta() | Interval():
            return _interval(interval_text(value))
        case bytes():
            return value.hex()
        case list():
            return _list(f"[{', '.join(map(canonical, value))}]")
    return str(value) or EMPTY


def read(text: str, kind: str) -> str:
    """The canonical text of a value in a file, whose column is of `kind`."""
    if text == NULL:
        return NULL
    match kind:
        case "boolean":
            low = text.lower()
            return "true" if low in _TRUE else "false" if low in _FALSE else text
        case "number":
            return _number(text)
        case "moment":
            return _moment(text)
        case "interval":
            return _interval(text)
        case "bytes":
            return _bytes(text)
        case "list":
            return _list(text)
    return text


def _number(text: str) -> str:
    try:
        found = Decimal(text)
    except InvalidOperation:
        return {"true": "1", "false": "0"}.get(text, text)
    if not found.is_finite():
        return str(found).lower().replace("infinity", "inf")
    if found == found.to_integral_value() and abs(found) < 10**40:
        return str(int(found))
    return format(found.normalize(), "f") if abs(found) > Decimal("1e-20") else str(found)


def _moment(text: str) -> str:
    text = text.replace("T", " ")
    text = re.sub(r"(\.\d*?)0+(?=$|[+-])", r"\1", text)
    text = re.sub(r"\.(?=$|[+-])", "", text)
    return re.sub(r"([+-]\d\d):?00$", r"\1", text)


def _interval(text: str) -> str:
    """An interval as PostgreSQL writes it; without months it is a timedelta, whose days and times
    are one length. One that is beyond our range stays as it is."""
    try:
        found = interval(text)
        if not found.months:
            length = dt.timedelta(found.days, microseconds=found.microseconds)
            found = of_timedelta(length)
    except (ValueError, OverflowError):
        return text
    return str(found)


def _bytes(text: str) -> str:
    if text == EMPTY:
        return ""
    if re.fullmatch(r"\\x(?:[0-9a-f]{2})+", text):
        return text[2:]
    plain = re.sub(r"\\x([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), text)
    return plain.encode("latin-1", "replace").hex()


def _list(text: str) -> str:
    text = text.replace("{", "[").replace("}", "]").replace(", ", ",")
    return _ELEMENT.sub(lambda found: _moment(_number(found[1] or found[0])), text)


def equal(ours: str, theirs: str) -> bool:
    """Whether two canonical texts are the same value."""
    if ours == theirs:
        return True
    if ours[:1] == theirs[:1] == "[":
        pairs = zip_longest(ours[1:-1].split(","), theirs[1:-1].split(","), fillvalue="")
        return all(equal(first, second) for first, second in pairs)
    try:
        first, second = float(ours), float(theirs)
    except ValueError:
        return False
    whole = not ({".", "e"} & {*ours, *theirs})
    return not whole and math.isclose(first, second, rel_tol=10**-DIGITS, abs_tol=1e-12)


def agree(rows: Sequence[Row], types: str, sort: str, result: Sequence[str], style: str) -> bool:
    """Whether an answer is the result in the file. `style`: how the file writes values
    ("sqlite", "duckdb", "words", "cockroach", "psql")."""
    if style == "cockroach":
        result, style = [*map(_of_cockroach, result)], "words"
        rows = [[*map(_of_a_day, row)] for row in rows]
    width = len(rows[0]) if rows else max(len(types), 1)
    if found := hashed(result):
        return int(found[1]) == len(rows) * width and found[2] in _hashes(rows, types, sort, style)
    if style == "sqlite":
        return _agree_texts(rows, types, sort, result)
    if style == "psql":
        return _agree_tables(rows, sort, result)
    kinds = [kind_of(row[i] for row in rows) for i in range(width)]
    ours = [[canonical(value) for value in row] for row in rows]
    theirs = _rows_of(result, width, len(rows), style)
    if theirs is None:
        return style == "words" and _agree_words(ours, sort, result)
    read_ = [[read(v, k) for v, k in zip(row, kinds, strict=True)] for row in theirs]
    first, second = _sorted(ours, sort), _sorted(read_, sort)
    return len(first) == len(second) and all(map(equal, first, second))


def _agree_tables(rows: Sequence[Row], sort: str, result: Sequence[str]) -> bool:
    """Whether the rows are those of a table of psql, which shows NULL as an empty text."""
    width = len(rows[0]) if rows else 1
    kinds = [kind_of(row[i] for row in rows) for i in range(width)]
    cells = [line.split("\t") for line in result]
    if any(len(row) != width for row in cells if rows) or len(cells) != len(rows):
        return False
    ours = [[_shown(value) for value in row] for row in rows]
    theirs = [[_of_psql(v, k) for v, k in zip(row, kinds, strict=True)] for row in cells if rows]
    return all(map(equal, _sorted(ours, sort), _sorted(theirs, sort)))


def _shown(value: Any) -> str:
    return "" if value in (None, "") else canonical(_of_a_day(value)).strip()


_QUOTED = re.compile(r'(,?)"((?:[^"\\]|\\.)*)"')
"""An element of an array in quotes, with the comma before it."""


def _of_psql(text: str, kind: str) -> str:
    """The canonical text of a value in a table of psql, whose session writes dates as PostgreSQL
    did at first: 02-16-1997, and Sun Feb 16 20:32:01 1997 PST."""
    if found := re.fullmatch(r"(\d\d)-(\d\d)-(\d{4})", text):
        return f"{found[3]}-{found[1]}-{found[2]}"
    if found := re.fullmatch(r"\w{3} (\w{3} \d\d [\d:]{8})(\.\d+)? (\d{4})(?: \w+)?", text):
        day = dt.datetime.strptime(f"{found[1]} {found[3]}", "%b %d %H:%M:%S %Y")
        return _moment(canonical(_of_a_day(day)) + (found[2] or ""))
    if kind == "list":
        text = _QUOTED.sub(_element, text)
    return read(text.removeprefix("@ "), kind) if text else ""


def _element(found: re.Match[str]) -> str:
    """An element without its quotes. A blank behind the comma is not one of the element."""
    plain = re.sub(r"\\(.)", r"\1", found[2]) or EMPTY
    return f"{found[1]} {plain}" if found[1] else plain


def _of_cockroach(line: str) -> str:
    """A line of CockroachDB's files, in which an empty text is a dot, and dates and times are
    timestamps with a zone."""
    line = re.sub(r" \+0000 (?:\+0000|UTC)", "", line).replace("0000-01-01 ", "")
    return re.sub(r"(\d{4}-\d\d-\d\d) 00:00:00(?![.:])", r"\1", line).replace("·", EMPTY)


def _of_a_day(value: Any) -> Any:
    """A timestamp at midnight as its date; any other value as it is."""
    midnight = isinstance(value, dt.datetime) and value.time() == dt.time()
    return value.date() if midnight else value


def hashed(result: Sequence[str]) -> re.Match[str] | None:
    """The number of values and their hash, if the file has them instead of values."""
    return _HASH.fullmatch(result[0].strip()) if len(result) == 1 else None


def _rows_of(result: Sequence[str], width: int, height: int, style: str) -> list[list[str]] | None:
    """The rows of a result, a row or a value a line; None if the lines have other numbers of
    values."""
    rows = [_cells(line, width) if style == "duckdb" else line.split() for line in result]
    if all(len(row) == width for row in rows):
        return rows
    if width > 1 and len(result) == width * height:
        lines = [line if style == "duckdb" else line.strip() for line in result]
        return [lines[at : at + width] for at in range(0, len(lines), width)]
    if width == 1:
        return [[line.strip()] for line in result]
    return None


def _cells(line: str, width: int) -> list[str]:
    """The values of a row. Some files have several tabs between two values, or one at the end."""
    cells = line.split("\t")
    return cells if len(cells) <= width else [cell for cell in cells if cell]


def _sorted(rows: Sequence[Sequence[str]], sort: str) -> list[str]:
    """All values, in the order of the rows, or in one that depends on the values alone."""
    if sort == "rowsort":
        rows = sorted(rows, key=lambda row: [*map(_rounded, row)])
    flat = [value for row in rows for value in row]
    return sorted(flat, key=_rounded) if sort == "valuesort" else flat


def _rounded(text: str) -> str:
    """A key for sorting that is the same for numbers that are equal."""
    try:
        return f"{float(text):.5g}" if "." in text or "e" in text else text
    except ValueError:
        return text


def _agree_words(rows: Sequence[Sequence[str]], sort: str, result: Sequence[str]) -> bool:
    ours = [" ".join(row).split() for row in rows]
    theirs = [line.split() for line in result]
    if sort == "rowsort":
        ours, theirs = sorted(ours), sorted(theirs)
    return len(ours) == len(theirs) and all(
        len(a) == len(b) and all(map(_equal_words, a, b)) for a, b in zip(ours, theirs, strict=True)
    )


def _equal_words(ours: str, theirs: str) -> bool:
    same = {ours, theirs} in ({"true", "t"}, {"false", "f"}, {"mon", "month"}, {"mons", "months"})
    return same or equal(_moment(ours), _moment(theirs))


def _agree_texts(rows: Sequence[Row], types: str, sort: str, result: Sequence[str]) -> bool:
    ours, theirs = _texts(rows, types, sort), [line.strip() for line in result]
    if sort != "nosort":
        theirs = _in_order(theirs, max(len(types), 1), sort)
    return ours == theirs


def _texts(rows: Sequence[Row], types: str, sort: str) -> list[str]:
    """All values as SQLite's own runner writes them: by the letters of the types."""
    flat = [sqlite_text(v, types[i : i + 1]) for row in rows for i, v in enumerate(row)]
    return _in_order(flat, max(len(types), 1), sort)


def _in_order(flat: list[str], width: int, sort: str) -> list[str]:
    if sort == "rowsort":
        rows = sorted(flat[at : at + width] for at in range(0, len(flat), width))
        return [value for row in rows for value in row]
    return sorted(flat) if sort == "valuesort" else flat


def sqlite_text(value: Any, letter: str) -> str:
    """A value by the letter of its column: I (an integer), R (three decimals) or T (text)."""
    if value is None:
        return NULL
    if letter == "I":
        try:
            return str(int(value))
        except ValueError:
            return "0"
    if letter == "R":
        return f"{float(value):.3f}"
    text = str(int(value) if isinstance(value, bool) else value)
    return "".join(c if " " <= c <= "~" else "@" for c in text) or EMPTY


def _hashes(rows: Sequence[Row], types: str, sort: str, style: str) -> set[str]:
    """MD5 of all values, each with a line end; of several spellings where engines differ."""
    if style == "sqlite":
        return {_md5(_texts(rows, types, sort))}
    texts = [[str(v) if isinstance(v, Decimal) else canonical(v) for v in row] for row in rows]
    return {_md5(_sorted_texts(texts, sort))}


def _sorted_texts(rows: Sequence[Sequence[str]], sort: str) -> list[str]:
    rows = sorted(rows) if sort == "rowsort" else rows
    flat = [value for row in rows for value in row]
    return sorted(flat) if sort == "valuesort" else flat


def _md5(values: Iterable[str]) -> str:
    return hashlib.md5(
        "".join(f"{v}\n" for v in values).encode(), usedforsecurity=False
    ).hexdigest()
