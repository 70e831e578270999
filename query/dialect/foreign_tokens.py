"""Tokens that are refused before the parser meets them: quotes without a name, and literals and
operators of PostgreSQL whose types Hornbeam does not have. These are bit strings (`B'101'`,
`X'1F'`), and `>>=` and `<<=` of networks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sqlglot.tokenizer_core import Token, TokenType

from hornbeam_server.schema.errors import SqlError, Unsupported

_CONTAINMENTS = frozenset({(TokenType.GT, TokenType.GTE), (TokenType.LT, TokenType.LTE)})


def check_tokens(tokens: Sequence[Token]) -> None:
    """Raise Unsupported for such a literal or operator, and SqlError for quotes without a name."""
    for token in tokens:
        if token.token_type is TokenType.IDENTIFIER and not token.text:
            raise SqlError(
                f"A name in quotes is empty (line {token.line}, column {token.col - 1}).",
                cure="Write a name between the quotes, or a text in single quotes.",
            )
    for first, second in pairwise(tokens):
        if second.start != first.end + 1:
            continue
        kinds = first.token_type, second.token_type
        if kinds in _CONTAINMENTS:
            raise Unsupported(
                f"Operator {first.text}{second.text} is not supported: there is no type INET.",
                cure="Keep the first and the last address of a network in columns, and compare.",
            )
        if second.token_type is TokenType.STRING and first.text.lower() in ("b", "x"):
            raise Unsupported(
                f"The bit string {first.text}'{second.text[:20]}' is not supported.",
                cure="Write a text of digits 0 and 1, or bytes as '\\x6162'.",
            )
