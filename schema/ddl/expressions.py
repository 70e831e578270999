"""Expressions in DDL: CHECK (…), and GENERATED ALWAYS AS (…) STORED.

The parser of DDL does not read them, because the binder of queries defines what they mean. Their
tokens are cut out, and the parser reads the number of the expression in their place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sqlglot.dialects.dialect import Dialect
from sqlglot.tokenizer_core import Token, TokenType

from hornbeam_server.schema.build import Expression, Place
from hornbeam_server.schema.sqltext import tokenize

_DIALECT = Dialect.get_or_raise("postgres")
_NO_NAMES = {TokenType.STRING, TokenType.NUMBER}
_STATEMENTS = (["CREATE", "TABLE"], ["ALTER", "TABLE"])
UNNAMED = ""
"""The name that the parser reads for ADD CHECK: it only knows ADD CONSTRAINT name CHECK."""


@dataclass(frozen=True, slots=True)
class Part:
    """An expression between the parentheses at the positions `opening` and `closing` of a
    statement's tokens."""

    opening: int
    closing: int
    generated: bool
    """The expression is that of a generated column."""


def parts_of(tokens: Sequence[Token]) -> list[Part]:
    """The expressions of a statement, in order. A parenthesis that is not closed is left to the
    parser."""
    if [token.text.upper() for token in tokens[:2]] not in _STATEMENTS:
        return []
    found: list[Part] = []
    depth = 0
    for i, (token, following) in enumerate(pairwise(tokens)):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if following.token_type is not TokenType.L_PAREN or (found and i < found[-1].closing):
            continue
        generated = depth > 0 and _is(token, "AS")
        closing = _closing(tokens, i + 1) if _is(token, "CHECK") or generated else None
        if closing is not None:
            found.append(Part(i + 1, closing, generated))
    return found


def _is(token: Token, word: str) -> bool:
    quoted = token.token_type in {TokenType.IDENTIFIER, TokenType.STRING}
    return token.text.upper() == word and not quoted


def _closing(tokens: Sequence[Token], opening: int) -> int | None:
    depth = 0
    for i, token in enumerate(tokens[opening:], opening):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if not depth:
            return i
    return None


def without(tokens: Sequence[Token], parts: Sequence[Part]) -> Iterator[Token]:
    """The tokens for the parser, with numbers in place of the expressions."""
    begin = 0
    for number, part in enumerate(parts):
        check = part.opening - 1
        yield from tokens[begin:check]
        if _is(tokens[check], "CHECK") and _is(tokens[check - 1], "ADD"):
            yield _token(TokenType.CONSTRAINT, "CONSTRAINT", tokens[check])
            yield _token(TokenType.IDENTIFIER, UNNAMED, tokens[check])
        yield from tokens[check : part.opening + 1]
        yield _token(TokenType.NUMBER, str(number), tokens[part.opening])
        begin = part.closing
    yield from tokens[begin:]


def _token(kind: TokenType, text: str, like: Token) -> Token:
    return Token(kind, text, like.line, like.col, like.start, like.end, [])


def expression(tokens: Sequence[Token], text: str, place: Place) -> Expression:
    """The expression that consists of `tokens` of `text`."""
    pieces = [text[token.start : token.end + 1] for token in tokens]
    blanks = ["" if a.end + 1 == b.start else " " for a, b in pairwise(tokens)]
    sql = "".join(piece + blank for piece, blank in zip(pieces, [*blanks, ""], strict=True))
    words = [
        token.text if token.token_type is TokenType.IDENTIFIER else token.text.lower()
        for before, token in zip([None, *tokens], tokens, strict=False)
        if token.token_type not in _NO_NAMES and not _is_type(before)
    ]
    return Expression(sql, tuple(words), place)


def read_expression(sql: str, place: Place) -> Expression:
    """The expression in `sql`, of any database. Raises SchemaError at `place`."""
    tokens = tokenize(_DIALECT, f"({sql})", place.file)
    if _closing(tokens, 0) != len(tokens) - 1 or len(tokens) == 2:
        raise place.error(f"{sql!r} is not one expression.", cure="Write a DDL file.")
    return expression(tokens[1:-1], f"({sql})", place)


def until_closed(sql: str) -> str:
    """The beginning of `sql`, before the first parenthesis that `sql` closes but does not open."""
    opened = f"({sql})"
    tokens = tokenize(_DIALECT, opened, "")
    closing = _closing(tokens, 0)
    return sql if closing is None else opened[1 : tokens[closing].start]


def _is_type(before: Token | None) -> bool:
    """Does the name of a type follow the token `before`?"""
    return before is not None and before.token_type is TokenType.DCOLON
