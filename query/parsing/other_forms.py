"""Forms of PostgreSQL that the library's parser does not know: they are written in another form
before it reads them, or refused by name.

ORDER BY x USING < is ORDER BY x ASC, USING > is DESC, EXISTS (SELECT FROM …) needs no column, and
ROWS FROM (…) is LATERAL without the word. Behind AS a word such as SELECT may be the name of a
column.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from hornbeam_server.query.dialect.grammar import text_at, token_like
from hornbeam_server.schema.errors import Unsupported

_ORDERS = {
    TokenType.LT: (TokenType.ASC, "ASC"),
    TokenType.GT: (TokenType.DESC, "DESC"),
}
_CHANGED = {TokenType.USING, TokenType.FROM}
_WORDS = {TokenType.SELECT, TokenType.INSERT, TokenType.UPDATE, TokenType.DELETE}
"""Words that begin statements, and that may name a column behind AS."""
_BEHIND_NAME = {",", ")", ";", "FROM", ""}
_ROWS_FROM = ["ROWS", "FROM"]
_FORMS = frozenset({"NFC", "NFD", "NFKC", "NFKD"})
_ENDS = frozenset({",", ")", ";", "."})


def with_known_forms(tokens: Sequence[Token]) -> Sequence[Token]:
    """The tokens with ASC for USING <, DESC for USING >, SELECT 1 for SELECT in EXISTS (SELECT FROM
    …), and ROWS FROM for LATERAL ROWS FROM."""
    if _CHANGED.isdisjoint({token.token_type for token in tokens}):
        return tokens
    found: list[Token] = []
    for i, token in enumerate(tokens):
        order = _ORDERS.get(token.token_type)
        if order is not None and i and tokens[i - 1].token_type is TokenType.USING:
            found[-1] = token_like(*order, token)
            continue
        if token.token_type in _WORDS and _names_column(tokens, i):
            found.append(token_like(TokenType.VAR, token.text, token))
            continue
        if token.token_type is TokenType.LATERAL and _upper(tokens[i + 1 : i + 3]) == _ROWS_FROM:
            continue
        if token.token_type is TokenType.FROM and _is_empty(tokens[max(i - 3, 0) : i]):
            found.append(token_like(TokenType.NUMBER, "1", token))
        found.append(token)
    return found


def _names_column(tokens: Sequence[Token], i: int) -> bool:
    """Is the word at `i` a name behind AS?"""
    named = i > 0 and tokens[i - 1].token_type is TokenType.ALIAS
    return named and text_at(tokens, i + 1).upper() in _BEHIND_NAME


def _is_empty(before: Sequence[Token]) -> bool:
    return _upper(before) == ["EXISTS", "(", "SELECT"]


def _upper(tokens: Sequence[Token]) -> list[str]:
    return [token.text.upper() for token in tokens]


def refuse_forms(tokens: Sequence[Token]) -> None:
    """Raise Unsupported for a form that has no other one here."""
    for i, token in enumerate(tokens):
        match token.text.upper():
            case "DISTINCT" if i and tokens[i - 1].token_type is TokenType.GROUP_BY:
                raise Unsupported(
                    "GROUP BY DISTINCT is not supported.", cure="Name each grouping set once."
                )
            case "VARIADIC" if _begins_argument(tokens, i):
                raise Unsupported(
                    "VARIADIC is not supported.",
                    cure="Write the values one by one, or array_to_string for concat.",
                )
            case "NORMALIZED" if i and _is_asked(tokens, i):
                raise Unsupported("IS NORMALIZED is not supported.", cure="Write normalize(x) = x.")
            case "NAME" if _begins_literal(tokens, i):
                raise Unsupported(
                    "The type name belongs to the system catalog of PostgreSQL.",
                    cure="Write the text alone.",
                )
            case "USING" if _is_named(tokens, i):
                raise Unsupported(
                    "JOIN … USING (…) AS is not supported.", cure="Name the relations of the join."
                )


def _begins_argument(tokens: Sequence[Token], i: int) -> bool:
    before, behind = tokens[max(i - 1, 0)].text, text_at(tokens, i + 1)
    return i > 0 and before in ("(", ",") and bool(behind) and behind not in _ENDS


def _is_asked(tokens: Sequence[Token], i: int) -> bool:
    """Whether IS stands before NORMALIZED, perhaps with NOT and the name of a form."""
    before = [token.text.upper() for token in tokens[max(i - 3, 0) : i]]
    while before and (before[-1] == "NOT" or before[-1] in _FORMS):
        before.pop()
    return before[-1:] == ["IS"]


def _begins_literal(tokens: Sequence[Token], i: int) -> bool:
    """Whether a text follows, and no operand stands before, whose alias the text would be."""
    following = tokens[i + 1] if i + 1 < len(tokens) else None
    if following is None or following.token_type is not TokenType.STRING:
        return False
    return not i or tokens[i - 1].token_type in _BEFORE_OPERAND


_BEFORE_OPERAND = {
    TokenType.SELECT, TokenType.L_PAREN, TokenType.COMMA, TokenType.EQ, TokenType.NEQ,
    TokenType.LT, TokenType.GT, TokenType.LTE, TokenType.GTE, TokenType.WHERE, TokenType.AND,
    TokenType.OR,
}  # fmt: skip


def _is_named(tokens: Sequence[Token], i: int) -> bool:
    """Whether an alias follows the columns of USING (…). USING of DELETE and MERGE has a query."""
    if tokens[i].token_type is not TokenType.USING or text_at(tokens, i + 1) != "(":
        return False
    end = i + 2
    while end < len(tokens) and tokens[end].token_type in _NAMES:
        end += 1
    return text_at(tokens, end) == ")" and text_at(tokens, end + 1).upper() == "AS"


_NAMES = {TokenType.VAR, TokenType.IDENTIFIER, TokenType.COMMA}
