"""Sequences: their bounds, and their names in the texts of expressions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from hornbeam_server.schema.model import Column, DefaultKind
from hornbeam_server.schema.namespaces import joined
from hornbeam_server.schema.sqltext import quoted
from hornbeam_server.schema.types import ColumnType

_DIALECT = Dialect.get_or_raise("postgres")
_PART = re.compile(r'"(?:[^"]|"")*"|[^.\s"]+')
_CASTS: tuple[list[str], ...] = ([], ["::", "REGCLASS"], ["::", "TEXT"])
"""What may follow the name of a sequence in a call."""


def default_bounds(type_: ColumnType, increment: int) -> tuple[int, int]:
    """The minimum and the maximum of a sequence that declares none."""
    numbers = type_.declared_integers
    return (1, numbers[-1]) if increment > 0 else (numbers[0], -1)


def named(text: str) -> str:
    """The full name of the sequence that the argument of nextval means: `Name` for
    `public."Name"`, `shop.number` for `Shop.Number`."""
    parts = [
        part[1:-1].replace('""', '"') if part.startswith('"') else part.lower()
        for part in _PART.findall(text)
    ]
    return joined(parts[-2], parts[-1]) if len(parts) > 1 else "".join(parts)


def sequences_in(sql: str) -> tuple[str, ...]:
    """The names of the sequences from which an expression takes numbers, without repetition."""
    return tuple(dict.fromkeys(named(token.text) for token, _ in _drawn(sql)))


def differs_by_row(column: Column) -> bool:
    """Has the default of a column another value for each row?"""
    return column.default_kind is DefaultKind.UUID or takes_numbers(column)


def takes_numbers(column: Column) -> bool:
    """Does the default of a column take a number for each row?"""
    default = column.default
    if default is None or default.kind is not DefaultKind.EXPRESSION:
        return column.default_kind is DefaultKind.IDENTITY
    return bool(sequences_in(default.sql))


def is_draw(sql: str) -> bool:
    """Is the expression nextval('…') alone?"""
    return any(whole for _, whole in _drawn(sql))


def with_renamed_sequence(sql: str, old: str, new: str) -> str:
    """The expression with the name `new` for the sequence `old`."""
    for token, _ in reversed([*_drawn(sql)]):
        if named(token.text) == old:
            sql = f"{sql[: token.start]}{argument_of(new)}{sql[token.end + 1 :]}"
    return sql


def argument_of(name: str) -> str:
    """The argument of nextval for the sequence `name`."""
    plain = re.fullmatch(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?", name)
    return quoted(name if plain else '"' + name.replace('"', '""') + '"')


def _drawn(sql: str) -> Iterator[tuple[Token, bool]]:
    """The names in calls nextval('…'), and whether the call is the whole expression."""
    if "nextval" not in sql.lower():
        return
    try:
        tokens = _DIALECT.tokenize(sql)
    except TokenError:
        return
    for i, token in enumerate(tokens[2:], 2):
        words = [each.text.upper() for each in tokens[i - 2 : i]]
        if words == ["NEXTVAL", "("] and token.token_type is TokenType.STRING:
            behind = [each.text.upper() for each in tokens[i + 1 :]]
            before = [each.text.upper() for each in tokens[: i - 2]]
            whole = behind[-1:] == [")"] and behind[:-1] in _CASTS
            yield token, whole and before in ([], ["PG_CATALOG", "."])
