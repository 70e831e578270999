"""Tokens that are refused before the parser meets them: quotes without a name, and forms of
PostgreSQL that Hornbeam does not have. These are bit strings (`B'101'`, `X'1F'`), `>>=` and `<<=`
of networks, FOR READ ONLY and COLLATION FOR."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from hornbeam_server.schema.errors import SqlError, Unsupported

_CONTAINMENTS = frozenset({(TokenType.GT, TokenType.GTE), (TokenType.LT, TokenType.LTE)})
_CHECKED = {
    *(TokenType.IDENTIFIER, TokenType.FOR, TokenType.STRING),
    *(second for _, second in _CONTAINMENTS),
}
"""The tokens that may be such a form, or its end."""


def check_tokens(tokens: Sequence[Token]) -> None:
    """Raise Unsupported for such a form, and SqlError for quotes without a name."""
    for i, token in enumerate(tokens):
        kind = token.token_type
        if kind not in _CHECKED:
            continue
        if kind is TokenType.FOR:
            _check_for(tokens, i)
        elif kind is not TokenType.IDENTIFIER:
            _check_pair(tokens[max(i - 1, 0)], token)
        elif not token.text:
            raise SqlError(
                f"A name in quotes is empty (line {token.line}, column {token.col - 1}).",
                cure="Write a name between the quotes, or a text in single quotes.",
            )


def _check_pair(first: Token, second: Token) -> None:
    """Check two tokens with nothing between them."""
    if second.start != first.end + 1:
        return
    if (first.token_type, second.token_type) in _CONTAINMENTS:
        raise Unsupported(
            f"Operator {first.text}{second.text} is not supported: there is no type INET.",
            cure="Keep the first and the last address of a network in columns, and compare.",
        )
    if second.token_type is TokenType.STRING and first.text.lower() in ("b", "x"):
        raise Unsupported(
            f"The bit string {first.text}'{second.text[:20]}' is not supported.",
            cure="Write a text of digits 0 and 1, or bytes as '\\x6162'.",
        )


def _check_for(tokens: Sequence[Token], i: int) -> None:
    """Check what is around the word FOR."""
    before, behind = tokens[max(i - 1, 0)].text, [token.text for token in tokens[i + 1 : i + 3]]
    if [text.upper() for text in behind] == ["READ", "ONLY"]:
        raise Unsupported("FOR READ ONLY is not supported.", cure="Leave it out.")
    if before.upper() == "COLLATION" and behind[:1] == ["("]:
        raise Unsupported(
            "COLLATION FOR is not supported.", cure="All text is ordered by code point."
        )
