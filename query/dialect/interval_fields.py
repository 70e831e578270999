"""Literals of intervals with fields: `INTERVAL '1:30' MINUTE TO SECOND`, `INTERVAL(1) '1.25'`.

The last field is the unit of a number without one, and smaller parts are dropped, as in PostgreSQL.
The text is read here and written again without fields, since neither the library's parser nor
DuckDB has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sqlglot.tokenizer_core import Token, TokenType

from hornbeam_server.query.dialect.grammar import token_like
from hornbeam_server.schema.errors import SqlError, TypeMismatch, Unsupported
from hornbeam_server.schema.intervals import Interval, interval
from hornbeam_server.schema.seconds import SECOND_DIGITS

FIELDS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
_RANGES = {
    ("YEAR", "MONTH"),
    *(("DAY", last) for last in ("HOUR", "MINUTE", "SECOND")),
    *(("HOUR", last) for last in ("MINUTE", "SECOND")),
    ("MINUTE", "SECOND"),
}
_NUMBER = re.compile(r"\s*[+-]?\d+(\.\d*)?\s*")
_DAY_AND_HOUR = re.compile(r"\s*([+-]?\d+)\s+([+-]?\d+(?:\.\d*)?)\s*")
_TWO_PARTS = re.compile(r"(?P<before>.*?)(?P<minutes>\d+:\d+(\.\d*)?)\s*", re.DOTALL)
_UNITS = {"HOUR": 3_600_000_000, "MINUTE": 60_000_000}


def with_intervals(tokens: Sequence[Token]) -> Sequence[Token]:
    """The tokens with INTERVAL and a text for each literal with fields that DuckDB has not. Raises
    SqlError and TypeMismatch."""
    if TokenType.INTERVAL not in {token.token_type for token in tokens}:
        return tokens
    return list(_written(tokens))


def _written(tokens: Sequence[Token]) -> Iterator[Token]:
    i = 0
    while i < len(tokens):
        _refuse_cast(tokens, i)
        found = _literal(tokens, i) if tokens[i].token_type is TokenType.INTERVAL else None
        if found is None:
            yield tokens[i]
            i += 1
            continue
        text, value, i_next = found
        yield tokens[i]
        yield token_like(TokenType.STRING, str(value), text)
        i = i_next


def _refuse_cast(tokens: Sequence[Token], i: int) -> None:
    """Raise Unsupported for a cast to INTERVAL with fields or a number of decimals."""
    cast = i > 0 and tokens[i - 1].token_type in (TokenType.DCOLON, TokenType.ALIAS)
    if not cast or tokens[i].token_type is not TokenType.INTERVAL:
        return
    digits, at = _digits(tokens, i + 1)
    if digits is not None or _field(tokens, at) is not None:
        raise Unsupported(
            "A cast to INTERVAL takes no fields and no number of decimals.",
            cure="Cast to INTERVAL; a literal has fields: INTERVAL '1:30' MINUTE TO SECOND.",
        )


def _literal(tokens: Sequence[Token], i: int) -> tuple[Token, Interval, int] | None:
    """The text, the value and the end of a literal with fields at `i`; None for other intervals."""
    digits, at = _digits(tokens, i + 1)
    if at >= len(tokens) or tokens[at].token_type is not TokenType.STRING:
        return None
    text = tokens[at]
    at += 1
    first = last = _field(tokens, at)
    if first is not None:
        at += 1
        if _word(tokens, at) == "TO" and _field(tokens, at + 1) is not None:
            last = _field(tokens, at + 1)
            at += 2
        if last == "SECOND" and digits is None:
            digits, at = _digits(tokens, at)
    plain = first == last and digits is None and (first is None or _NUMBER.fullmatch(text.text))
    if plain:
        return None
    if first != last and (first, last) not in _RANGES:
        raise SqlError(
            f"There are no intervals {first} TO {last}.",
            cure="Write DAY TO SECOND, YEAR TO MONTH, or no fields.",
        )
    try:
        value = _cut(_read(text.text, first, last), last)
        return text, value if digits is None else _rounded(value, digits), at
    except (ValueError, ArithmeticError) as error:
        raise TypeMismatch(
            f"{text.text!r} is not an interval {first or ''}"
            f"{f' TO {last}' if first != last else ''}: {error}."
        ) from None


def _read(text: str, first: str | None, last: str | None) -> Interval:
    """The interval that a text means with these fields. Raises ValueError."""
    if last is not None and _NUMBER.fullmatch(text):
        return interval(f"{text.strip()} {last}")
    days = _DAY_AND_HOUR.fullmatch(text)
    if days is not None and (first, last) == ("DAY", "HOUR"):
        return interval(f"{days[1]} days {days[2]} hours")
    if days is not None and first is not None:
        raise ValueError("its numbers have no units")
    two = _TWO_PARTS.fullmatch(text)
    if two is not None and (first, last) == ("MINUTE", "SECOND") and two["before"][-1:] != ":":
        return interval(f"{two['before']}00:{two['minutes']}")
    return interval(text)


def _cut(value: Interval, last: str | None) -> Interval:
    """The interval without parts that are smaller than its last field."""
    match last:
        case "YEAR":
            return Interval(int(value.months / 12) * 12)
        case "MONTH":
            return Interval(value.months)
        case "DAY":
            return Interval(value.months, value.days)
        case "HOUR" | "MINUTE":
            ticks, unit = value.microseconds, _UNITS[last]
            whole = abs(ticks) // unit * unit
            return Interval(value.months, value.days, -whole if ticks < 0 else whole)
    return value


def _rounded(value: Interval, digits: int) -> Interval:
    """The interval with its seconds rounded to a number of decimals, halves away from zero."""
    unit = 10 ** (SECOND_DIGITS - digits)
    near = (abs(value.microseconds) + unit // 2) // unit * unit
    return Interval(value.months, value.days, -near if value.microseconds < 0 else near)


def _digits(tokens: Sequence[Token], i: int) -> tuple[int | None, int]:
    """The number in parentheses at `i`, and the place behind it. Raises SqlError."""
    kinds = [token.token_type for token in tokens[i : i + 3]]
    if kinds != [TokenType.L_PAREN, TokenType.NUMBER, TokenType.R_PAREN]:
        return None, i
    digits = tokens[i + 1].text
    if digits not in {*"0123456"}:
        raise SqlError(
            f"INTERVAL({digits}) is out of range: seconds have up to six decimals.",
            cure="Write a number from 0 to 6.",
        )
    return int(digits), i + 3


def _field(tokens: Sequence[Token], i: int) -> str | None:
    word = _word(tokens, i)
    return word if word in FIELDS else None


def _word(tokens: Sequence[Token], i: int) -> str:
    quoted = i < len(tokens) and tokens[i].token_type in (TokenType.STRING, TokenType.IDENTIFIER)
    return "" if i >= len(tokens) or quoted else tokens[i].text.upper()
