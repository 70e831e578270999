"""Expressions in DDL: CHECK (…), and GENERATED ALWAYS AS (…) STORED.

The parser of DDL does not read them, because the binder of queries defines what they mean. Their
tokens are cut out, and the parser reads the number of the expression in their place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

from sqlglot.dialects.dialect import Dialect
from sqlglot.tokenizer_core import Token, TokenType

from hornbeam_server.schema.ddl.sources import Source
from hornbeam_server.schema.drafts import Expression, Place
from hornbeam_server.schema.identifiers import identifier
from hornbeam_server.schema.sqltext import quoted, tokenize

_DIALECT = Dialect.get_or_raise("postgres")
_TEXTS = {TokenType.STRING, TokenType.NATIONAL_STRING}
_NO_NAMES = _TEXTS | {TokenType.NUMBER}
_CHARACTER_SET = TokenType.INTRODUCER
"""MySQL's character set before a text: _utf8mb4'abc'."""
_STATEMENTS = (["CREATE", "TABLE"], ["ALTER", "TABLE"])
_BEHIND = frozenset(
    {
        *("NOT", "NULL", "CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "REFERENCES", "COLLATE"),
        *("GENERATED", "DEFERRABLE", "INITIALLY", "COMMENT", "ON", "AS"),
    }
)
"""Words behind the expression of a default."""
NO_TYPES: Mapping[str, str] = MappingProxyType({})
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
    closings = _closings(tokens)
    depth = 0
    for i, token in enumerate(tokens):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if i + 1 not in closings or (found and i < found[-1].closing):
            continue
        generated = depth > 0 and is_word(token, "AS")
        if is_word(token, "CHECK") or generated:
            found.append(Part(i + 1, closings[i + 1], generated))
    return found


def _closings(tokens: Sequence[Token]) -> dict[int, int]:
    """The positions of opening parentheses, and of the parentheses that close them."""
    found: dict[int, int] = {}
    opened: list[int] = []
    for i, token in enumerate(tokens):
        if token.token_type is TokenType.L_PAREN:
            opened.append(i)
        elif token.token_type is TokenType.R_PAREN and opened:
            found[opened.pop()] = i
    return found


def is_word(token: Token, word: str) -> bool:
    """Is the token this word, and no name in quotes?"""
    quoted = token.token_type in {TokenType.IDENTIFIER, TokenType.STRING}
    return token.text.upper() == word and not quoted


def without(tokens: Sequence[Token], parts: Sequence[Part]) -> Iterator[Token]:
    """The tokens for the parser, with numbers in place of the expressions."""
    begin = 0
    for number, part in enumerate(parts):
        check = part.opening - 1
        yield from tokens[begin:check]
        if is_word(tokens[check], "CHECK") and is_word(tokens[check - 1], "ADD"):
            yield token_like(TokenType.CONSTRAINT, "CONSTRAINT", tokens[check])
            yield token_like(TokenType.IDENTIFIER, UNNAMED, tokens[check])
        yield from tokens[check : part.opening + 1]
        yield token_like(TokenType.NUMBER, str(number), tokens[part.opening])
        begin = part.closing
    yield from tokens[begin:]


def default_of(tokens: Sequence[Token]) -> Sequence[Token]:
    """The tokens of the expression with which `tokens`, behind DEFAULT, begin. As in PostgreSQL, no
    word of a constraint can stand in it outside of parentheses."""
    depth = 0
    for i, token in enumerate(tokens):
        plain = token.token_type not in {TokenType.IDENTIFIER, TokenType.STRING}
        word = token.text.upper().partition(" ")[0]  # PRIMARY KEY is one token
        ends = token.token_type is TokenType.COMMA or (plain and word in _BEHIND)
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth < 0 or (ends and not depth and i):
            return tokens[:i]
    return tokens


def element_of(tokens: Sequence[Token], number: int) -> Sequence[Token]:
    """The tokens of the element `number` of the first list in parentheses, without the class of
    operators and the order that CREATE INDEX may have behind it."""
    closings = _closings(tokens)
    opening = min(closings)
    at = begin = opening + 1
    while at < closings[opening]:
        if tokens[at].token_type is TokenType.COMMA:
            if not number:
                break
            number, begin = number - 1, at + 1
        at = closings.get(at, at) + 1
    return _without_order(tokens[begin:at])


def _without_order(tokens: Sequence[Token]) -> Sequence[Token]:
    """The tokens of an element of an index without [COLLATE name] [class] [ASC | DESC]
    [NULLS FIRST | LAST]."""
    words = [token.text.upper() for token in tokens]
    if words[-2:-1] == ["NULLS"]:
        words = words[:-2]
    if words[-1:] in (["ASC"], ["DESC"]):
        words.pop()
    if words[-1].endswith("_OPS") and len(words) > 1:
        words.pop()
    if "COLLATE" in words[-4:-1] and words[-2] in {"COLLATE", "."}:
        words = words[: len(words) - 1 - words[::-1].index("COLLATE")]
    return tokens[: len(words)]


def _unenclosed(tokens: Sequence[Token]) -> Sequence[Token]:
    """The tokens without parentheses around all of them."""
    closings, outer = _closings(tokens), 0
    while 2 * outer + 2 < len(tokens) and closings.get(outer) == len(tokens) - 1 - outer:
        outer += 1
    return tokens[outer : len(tokens) - outer]


def token_like(kind: TokenType, text: str, like: Token) -> Token:
    """A token that is not in the text, with the place of `like`."""
    return Token(kind, text, like.line, like.col, like.start, like.end, [])


def expression(
    tokens: Sequence[Token],
    text: str,
    place: Place,
    source: Source = Source.POSTGRES,
    types: Mapping[str, str] = NO_TYPES,
) -> Expression:
    """The expression that consists of `tokens` of `text`, without parentheses around it. Names and
    texts of `source` are in PostgreSQL's quotes. `types` are the types of domains."""
    tokens = [token for token in _unenclosed(tokens) if token.token_type is not _CHARACTER_SET]
    named = {at: (end, type_) for at, end, type_ in domain_casts(tokens, types)}
    if source is Source.MYSQL:
        named |= {at: (at + 1, sql) for at, sql in _concatenations(tokens)}
    parts = list[tuple[int, int, str]]()
    at = 0
    while at < len(tokens):
        end, written = named.get(at) or (at + 1, _written(tokens[at], text, source))
        parts.append((tokens[at].start, tokens[end - 1].end, written))
        at = end
    pieces = [written for _, _, written in parts]
    blanks = ["" if a[1] + 1 == b[0] else " " for a, b in pairwise(parts)]
    sql = "".join(piece + blank for piece, blank in zip(pieces, [*blanks, ""], strict=True))
    words = [
        token.text if _keeps_case(token, source) else token.text.lower()
        for before, token in zip([None, *tokens], tokens, strict=False)
        if token.token_type not in _NO_NAMES and not _is_type(before)
    ]
    return Expression(sql, tuple(words), place)


def _concatenations(tokens: Sequence[Token]) -> Iterator[tuple[int, str]]:
    """The words and the commas of MySQL's CONCAT, and what replaces them: it is NULL if a part is
    NULL, as `||` is and PostgreSQL's CONCAT is not."""
    closings = _closings(tokens)
    for word, token in enumerate(tokens):
        if token.text.upper() != "CONCAT" or word + 1 not in closings:
            continue
        yield word, ""
        at = word + 2
        while at < closings[word + 1]:
            if tokens[at].token_type is TokenType.COMMA:
                yield at, "||"
            at = closings.get(at, at) + 1


def domain_casts(
    tokens: Sequence[Token], types: Mapping[str, str]
) -> Iterator[tuple[int, int, str]]:
    """The names of domains behind `::`, and in CAST (… AS domain): the positions of their first
    token and behind their last one, and the type of the domain."""
    for at, token in enumerate(tokens if types else ()):
        behind = at + 1
        while [each.text for each in tokens[behind + 1 : behind + 2]] == ["."]:
            behind += 2
        if behind >= len(tokens) or token.token_type not in {TokenType.DCOLON, TokenType.ALIAS}:
            continue
        last = tokens[behind]
        name = last.text if last.token_type is TokenType.IDENTIFIER else last.text.lower()
        closed = [each.token_type for each in tokens[behind + 1 : behind + 2]]
        cast = token.token_type is TokenType.DCOLON or closed == [TokenType.R_PAREN]
        if cast and name in types:
            yield at + 1, behind + 1, types[name]


def _keeps_case(token: Token, source: Source) -> bool:
    return token.token_type is TokenType.IDENTIFIER and not source.folds_quoted


def _written(token: Token, text: str, source: Source) -> str:
    """A token of a file of `source`, as PostgreSQL writes it."""
    if source is not Source.POSTGRES and token.token_type is TokenType.IDENTIFIER:
        return identifier(token.text.lower())
    if source is not Source.POSTGRES and token.token_type in _TEXTS:
        return quoted(token.text)
    return text[token.start : token.end + 1]


def read_expression(sql: str, place: Place) -> Expression:
    """The expression in `sql`, of any database. Raises SchemaError at `place`."""
    tokens = tokenize(_DIALECT, f"({sql})", place)
    if _closings(tokens).get(0) != len(tokens) - 1 or len(tokens) == 2:
        raise place.error(f"{sql!r} is not one expression.", cure="Write a DDL file.")
    return expression(tokens[1:-1], f"({sql})", place)


def renamed(old: Expression, word: str, name: str) -> Expression:
    """The expression with the column `name` for each `word`, in any case but not quoted."""
    tokens = list(_DIALECT.tokenize(old.sql))
    column = identifier(name)
    pieces, end = [], 0
    for token in tokens:
        if token.token_type in _NO_NAMES | {TokenType.IDENTIFIER} or token.text.lower() != word:
            continue
        pieces += [old.sql[end : token.start], column]
        end = token.end + 1
    words = tuple(name if each == word else each for each in old.words)
    return Expression("".join([*pieces, old.sql[end:]]), words, old.place)


def until_closed(sql: str) -> str:
    """The beginning of `sql`, before the first parenthesis that `sql` closes but does not open."""
    opened = f"({sql})"
    tokens = tokenize(_DIALECT, opened, Place())
    closing = _closings(tokens).get(0)
    return sql if closing is None else opened[1 : tokens[closing].start]


def _is_type(before: Token | None) -> bool:
    """Does the name of a type follow the token `before`?"""
    return before is not None and before.token_type is TokenType.DCOLON
