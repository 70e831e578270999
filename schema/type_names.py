"""Types that the text of an expression or a SELECT names in its casts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from hornbeam_server.schema.model import PUBLIC
from hornbeam_server.schema.namespaces import joined
from hornbeam_server.schema.qualifying import Edit, edited

_DIALECT = Dialect.get_or_raise("postgres")


@dataclass(frozen=True, slots=True)
class NamedType:
    """The name of a type behind `::`, or in CAST (… AS name): its full name, and where it begins
    and ends in the text."""

    full: str
    start: int
    end: int


def named_types(sql: str) -> Iterator[NamedType]:
    """The types that casts in `sql` name, also built-in ones."""
    try:
        tokens = _DIALECT.tokenize(sql)
    except TokenError:
        return
    for at, token in enumerate(tokens):
        if token.token_type not in {TokenType.DCOLON, TokenType.ALIAS}:
            continue
        last = at + 1
        while [each.text for each in tokens[last + 1 : last + 2]] == ["."] and tokens[last + 2 :]:
            last += 2
        behind = [each.text for each in tokens[last + 1 : last + 2]]
        cast = token.token_type is TokenType.DCOLON or behind in ([")"], ["["])
        if cast and last < len(tokens):
            parts = [_name(each) for each in tokens[at + 1 : last + 1 : 2]]
            full = joined(parts[-2] if parts[1:] else PUBLIC, parts[-1])
            yield NamedType(full, tokens[at + 1].start, tokens[last].end + 1)


def parts_of_name(type_: exp.DataType) -> list[str]:
    """The name of a type that is not built in, in its parts: ["mood"], or ["public", "mood"]. Empty
    for other types."""
    named = type_.args.get("kind")
    if isinstance(named, str):
        return named.split(".")
    parts = named.flatten() if isinstance(named, exp.Dot) else [named]
    found = [part for part in parts if isinstance(part, exp.Identifier)]
    return [part.name if part.args.get("quoted") else part.name.lower() for part in found]


def full_name(type_: exp.DataType) -> str:
    """The full name of a type that is not built in; "" for other types."""
    *spaces, name = parts_of_name(type_) or [""]
    return joined(spaces[-1] if spaces else PUBLIC, name)


def with_renamed_type(sql: str, old: str, new: str) -> str:
    """The text with `new`, a name in SQL, for the type with the full name `old`."""
    found = (each for each in named_types(sql) if each.full == old)
    return edited(sql, [Edit(each.start, each.end, new) for each in found])


def is_built_in(name: str) -> bool:
    """Is a name without a schema that of a type which is no type of the database's own?"""
    if not name.isidentifier() or name != name.lower():
        return False
    return exp.DataType.build(name, dialect="postgres", udt=True).this is not exp.DType.USERDEFINED


def _name(token: Token) -> str:
    return token.text if token.token_type is TokenType.IDENTIFIER else token.text.lower()
