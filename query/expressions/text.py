"""Text functions by code points, as in DuckDB: LIKE, ILIKE, ||, CONCAT, LOWER, UPPER, LENGTH,
SUBSTRING, LEFT, RIGHT, TRIM, REPLACE, STRPOS, STARTS_WITH, CONTAINS."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Sequence

from hornbeam_server.query.dialect.duckdb_types import connect
from hornbeam_server.query.expressions.operands import (
    BIGINT,
    BOOLEAN,
    TEXT,
    NotNativeError,
    Operand,
    binary,
    constant,
    require,
    strict,
    unary,
)
from hornbeam_server.schema.caches import cached
from hornbeam_server.schema.errors import SqlError
from hornbeam_server.schema.types import ColumnType, Kind

BACKSLASH = "\\"
"""The escape character of LIKE without an ESCAPE clause."""
_ESCAPES = frozenset(map(chr, range(33, 127))) - {"%", "_"}
"""Escape characters that an ESCAPE clause may name; only DuckDB knows others."""
PATTERNS = 256
"""Maximum number of cached compiled patterns per LIKE whose pattern differs from row to row."""
SPACES = " \u00a0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u202f\u205f\u3000"
"""Characters that TRIM removes: Unicode's space separators, but not tabs and line ends."""

Matcher = Callable[[str], bool]


def text(operand: Operand) -> Operand:
    if operand.type is None:
        raise NotNativeError
    return require(operand, Kind.TEXT)


def concatenate(left: Operand, right: Operand) -> Operand:
    """|| of two texts or two byte strings."""
    if left.kind is not right.kind or left.kind not in (Kind.TEXT, Kind.BYTES):
        raise NotNativeError
    return binary(left, right, ColumnType(left.kind), operator.add)


def length(operand: Operand) -> Operand:
    return unary(text(operand), BIGINT, len)


def substring(operand: Operand, start: int, count: int | None) -> Operand:
    """SUBSTRING; `start` counts from 1. Only DuckDB handles smaller numbers."""
    if start < 1 or (count is not None and count < 0):
        raise NotNativeError
    part = slice(start - 1, None if count is None else start - 1 + count)
    return unary(text(operand), TEXT, operator.itemgetter(part))


def trim(operand: Operand, position: str, characters: str | None) -> Operand:
    strip = {"LEADING": str.lstrip, "TRAILING": str.rstrip}.get(position, str.strip)
    removed = SPACES if characters is None else characters
    return unary(text(operand), TEXT, lambda value: strip(value, removed))


def concat(operands: Sequence[Operand]) -> Operand:
    """CONCAT, which skips NULLs."""
    parts = [text(operand).evaluate for operand in operands]
    return Operand(TEXT, lambda row, p: "".join([part(row, p) or "" for part in parts]))


def left(operand: Operand, count: Operand) -> Operand:
    """LEFT. Only DuckDB handles numbers below zero."""
    return unary(text(operand), TEXT, operator.itemgetter(slice(0, _length(count))))


def right(operand: Operand, count: Operand) -> Operand:
    """RIGHT. Only DuckDB handles numbers below zero."""
    number = _length(count)
    return unary(text(operand), TEXT, lambda value: value[max(0, len(value) - number) :])


def _length(count: Operand) -> int:
    """A number of code points, which must be a literal."""
    if not count.constant or not isinstance(count.value, int) or count.value < 0:
        raise NotNativeError
    return count.value


def replace(operand: Operand, wanted: Operand, other: Operand) -> Operand:
    """REPLACE. An empty text occurs nowhere."""

    def replaced(value: str, old: str, new: str) -> str:
        return value.replace(old, new) if old else value

    return strict(TEXT, replaced, text(operand), text(wanted), text(other))


def position(operand: Operand, wanted: Operand) -> Operand:
    """STRPOS: the position from 1; 0 if it does not occur."""
    return binary(text(operand), text(wanted), BIGINT, lambda value, part: value.find(part) + 1)


def starts_with(operand: Operand, prefix: Operand) -> Operand:
    return binary(text(operand), text(prefix), BOOLEAN, str.startswith)


def contains(operand: Operand, part: Operand) -> Operand:
    return binary(text(operand), text(part), BOOLEAN, operator.contains)


# --- case ------------------------------------------------------------------------------------


def lower(value: str) -> str:
    return value.lower() if value.isascii() else value.translate(case_table("lower"))


def upper(value: str) -> str:
    return value.upper() if value.isascii() else value.translate(case_table("upper"))


def change_case(operand: Operand, function: Callable[[str], str]) -> Operand:
    return unary(text(operand), TEXT, function)


@functools.cache
def case_table(function: str) -> dict[int, str]:
    """The mapping of DuckDB's lower or upper, for each code point that changes.

    DuckDB maps each code point separately, by the Unicode version of its build. Python maps by
    context and by its own Unicode version. So the table is queried from DuckDB once, on first use.
    """
    with connect(threads=1) as connection:
        rows = connection.execute(
            f"SELECT code, {function}(chr(code)) AS changed FROM ("
            " SELECT unnest(range(1, 55296) || range(57344, 1114112))::INTEGER AS code)"
            " WHERE changed <> chr(code)"
        ).fetchall()
    return dict(rows)


# --- patterns --------------------------------------------------------------------------------


def like(value: Operand, pattern: Operand, *, insensitive: bool, escape: str | None) -> Operand:
    """LIKE and ILIKE; `escape` None: the pattern has no escape character."""
    text(value)
    text(pattern)
    if escape is not None and escape not in (BACKSLASH if insensitive else _ESCAPES):
        raise NotNativeError
    if not pattern.constant:
        return _dynamic_like(value, pattern, insensitive, escape)
    if pattern.value is None:
        return constant(BOOLEAN, None)
    matches = matcher(lower(pattern.value) if insensitive else pattern.value, escape)
    return unary(value, BOOLEAN, _folded(matches) if insensitive else matches)


def _folded(matches: Matcher) -> Matcher:
    return lambda value: matches(lower(value))


def _dynamic_like(
    value: Operand, pattern: Operand, insensitive: bool, escape: str | None
) -> Operand:
    matcher_of = cached(functools.partial(matcher, escape=escape), PATTERNS)

    def test(subject: str, pattern: str) -> bool:
        if insensitive:
            subject, pattern = lower(subject), lower(pattern)
        return matcher_of(pattern)(subject)

    return binary(value, pattern, BOOLEAN, test)


def matcher(pattern: str, escape: str | None) -> Matcher:
    """A test for a LIKE pattern. It takes linear time in the subject, except with `_`."""
    segments = _segments(pattern, escape)
    if segments is None:
        return _cut_short(matcher(pattern[:-1] + "_%", escape))
    plain = ["".join(segment) for segment in segments if None not in segment]  # type: ignore[arg-type]
    if len(plain) == len(segments):
        return _plain_matcher(plain)
    return _general_matcher([_regex(segment) for segment in segments], len(segments[-1]))


def _cut_short(reaches: Matcher) -> Matcher:
    """A test for a pattern that ends with its escape character. It raises SqlError for a text that
    `reaches` this character, as DuckDB and PostgreSQL do, and is false for any other text."""

    def matches(value: str) -> bool:
        if reaches(value):
            raise SqlError(
                "A LIKE pattern must not end with its escape character.",
                cure="Write the character twice, or ESCAPE '' behind the pattern.",
            )
        return False

    return matches


def _segments(pattern: str, escape: str | None) -> list[list[str | None]] | None:
    """The segments between the % signs; None in a segment stands for `_`. None if the pattern is
    malformed."""
    segments: list[list[str | None]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, None)
            if escaped is None:
                return None
            segments[-1].append(escaped)
        elif character == "%":
            segments.append([])
        else:
            segments[-1].append(None if character == "_" else character)
    return segments


def _plain_matcher(segments: Sequence[str]) -> Matcher:
    """A test for a pattern without `_`. Common patterns are one call of a string method."""
    if len(segments) == 1:
        return functools.partial(operator.eq, segments[0])
    first, *middle, last = segments
    middle = [segment for segment in middle if segment]
    if not middle and not last:
        return lambda value: value.startswith(first)
    if not middle and not first:
        return lambda value: value.endswith(last)
    if not first and not last and len(middle) == 1:
        return lambda value: middle[0] in value
    return functools.partial(_find_all, first, middle, last)


def _find_all(first: str, middle: Sequence[str], last: str, value: str) -> bool:
    """Whether the segments occur in order. Leftmost matches suffice: they leave the most room for
    later segments."""
    if not value.startswith(first):
        return False
    at = len(first)
    for segment in middle:
        found = value.find(segment, at)
        if found < 0:
            return False
        at = found + len(segment)
    return len(value) - len(last) >= at and value.endswith(last)


def _regex(segment: Sequence[str | None]) -> re.Pattern[str]:
    """The regular expression of a segment. It has no repetition, so it cannot backtrack."""
    return re.compile("".join("." if c is None else re.escape(c) for c in segment), re.DOTALL)


def _general_matcher(segments: Sequence[re.Pattern[str]], tail: int) -> Matcher:
    first, *rest = segments
    if not rest:
        return lambda value: first.fullmatch(value) is not None
    *middle, last = rest

    def matches(value: str) -> bool:
        found = first.match(value)
        for segment in middle:
            if found is None:
                return False
            found = segment.search(value, found.end())
        start = len(value) - tail
        return found is not None and start >= found.end() and last.match(value, start) is not None

    return matches
