"""Literals of intervals with fields: `INTERVAL '1:30' MINUTE TO SECOND`, `INTERVAL(1) '1.25'`, and
casts to them: `'1:30'::INTERVAL MINUTE TO SECOND`.

The last field is the unit of a number without one, and smaller parts are dropped, as in PostgreSQL.
The text of a literal is read here and written again without fields, since neither the library's
parser nor DuckDB has them. The fields of a cast become one word for the parser; the cast is a call
of a function of Python (`query/values/interval_fields.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from hornbeam_server.query.dialect.grammar import fields_word, token_like
from hornbeam_server.query.values.interval_fields import FIELDS, is_number, with_fields
from hornbeam_server.schema.errors import SqlError
from hornbeam_server.schema.intervals import Interval
from hornbeam_server.schema.seconds import SECOND_DIGITS

_RANGES = {
    ("YEAR", "MONTH"),
    *(("DAY", last) for last in ("HOUR", "MINUTE", "SECOND")),
    *(("HOUR", last) for last in ("MINUTE", "SECOND")),
    ("MINUTE", "SECOND"),
}


def with_intervals(tokens: Sequence[Token]) -> Sequence[Token]:
    """The tokens with INTERVAL and a text for each literal with fields that DuckDB has not. Raises
    SqlError and TypeMismatch."""
    if TokenType.INTERVAL not in {token.token_type for token in tokens}:
        return tokens
    return list(_written(tokens))


def _written(tokens: Sequence[Token]) -> Iterator[Token]:
    i = 0
    while i < len(tokens):
        yield tokens[i]
        i += 1
        if tokens[i - 1].token_type is not TokenType.INTERVAL:
            continue
        if i > 1 and tokens[i - 2].token_type in (TokenType.DCOLON, TokenType.ALIAS):
            first, last, digits, at = _fields(tokens, i)
            if at > i:
                word = fields_word(first or "", last or "", _digits_or_all(digits))
                yield token_like(TokenType.VAR, word, tokens[i])
                i = at
        elif (found := _literal(tokens, i - 1)) is not None:
            text, value, i = found
            yield token_like(TokenType.STRING, str(value), text)


def _fields(tokens: Sequence[Token], i: int) -> tuple[str | None, str | None, int | None, int]:
    """The first and the last field and the number of decimals of a cast at `i`, and the place
    behind them. Raises SqlError."""
    digits, at = _digits(tokens, i)
    first = last = _field(tokens, at)
    if first is None:
        return None, None, digits, at
    at += 1
    if _word(tokens, at) == "TO" and _field(tokens, at + 1) is not None:
        last = _field(tokens, at + 1)
        at += 2
    _check_range(first, last)
    if last == "SECOND" and digits is None:
        digits, at = _digits(tokens, at)
    return first, last, digits, at


def is_cast_with_fields(node: exp.Expr) -> bool:
    """Is the node a cast to INTERVAL with fields or a number of decimals?"""
    return isinstance(node, exp.Cast) and isinstance(node.args["to"].this, exp.Interval)


def fields_of_cast(node: exp.Expr) -> tuple[str, str, int]:
    """The first and the last field of a cast, "" without them, and the number of decimals."""
    _, first, last, digits = node.args["to"].this.args["unit"].name.split("_")
    return first, last, int(digits)


def _digits_or_all(digits: int | None) -> int:
    return SECOND_DIGITS if digits is None else digits


def _literal(tokens: Sequence[Token], i: int) -> tuple[Token, Interval, int] | None:
    """The text, the value and the end of a literal with fields at `i`; None for other intervals."""
    before, at = _digits(tokens, i + 1)
    if at >= len(tokens) or tokens[at].token_type is not TokenType.STRING:
        return None
    text = tokens[at]
    first, last, digits, at = _fields(tokens, at + 1)
    digits = digits if before is None else before
    if first == last and digits is None and (first is None or is_number(text.text)):
        return None
    value = with_fields(text.text, first or "", last or "", _digits_or_all(digits))
    return text, value, at


def _check_range(first: str, last: str | None) -> None:
    if first != last and (first, last) not in _RANGES:
        raise SqlError(
            f"There are no intervals {first} TO {last}.",
            cure="Write DAY TO SECOND, YEAR TO MONTH, or no fields.",
        )


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
