"""Joins without a condition in stored queries.

An earlier version took `a JOIN b` without ON and USING for `a CROSS JOIN b`, and stored the text of
its views as the user wrote it. PostgreSQL refuses that form, and so does this version. Stored texts
are therefore read with CROSS JOIN, which means the same in both versions.
"""

from __future__ import annotations

import re
from functools import lru_cache

from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

_DIALECT = Dialect.get_or_raise("duckdb")
_WORD = re.compile(r"\bjoin\b", re.IGNORECASE)
_CONDITIONS = {TokenType.ON, TokenType.USING}
_WITHOUT = {TokenType.CROSS, TokenType.NATURAL}
"""The words in front of a JOIN that takes no condition."""
_REFUSED = {TokenType.INNER, TokenType.LEFT, TokenType.RIGHT, TokenType.FULL, TokenType.OUTER}
"""The words in front of a JOIN that the earlier version refused without a condition."""


@lru_cache(maxsize=1_000)
def with_cross_joins(sql: str) -> str:
    """The query in `sql`, in which each JOIN without a condition is a CROSS JOIN."""
    if not _WORD.search(sql):
        return sql
    try:
        tokens = _DIALECT.tokenize(sql)
    except TokenError:
        return sql
    for at in reversed(_without_condition(tokens)):
        begin = tokens[at].start
        sql = f"{sql[:begin]}CROSS {sql[begin:]}"
    return sql


def _without_condition(tokens: list[Token]) -> list[int]:
    """The numbers of the words JOIN that have neither ON nor USING. A condition belongs to the
    last join of its parentheses that has none."""
    found: list[int] = []
    waiting: list[list[int]] = [[]]
    for at, token in enumerate(tokens):
        before = tokens[at - 1].token_type if at else None
        if token.token_type is TokenType.L_PAREN:
            waiting.append([])
        elif token.token_type is TokenType.R_PAREN and len(waiting) > 1:
            found += waiting.pop()
        elif token.token_type is TokenType.JOIN and before not in _WITHOUT:
            waiting[-1].append(at)
        elif token.token_type in _CONDITIONS and before is not TokenType.DISTINCT and waiting[-1]:
            waiting[-1].pop()
    for left in waiting:
        found += left
    return sorted(at for at in found if not at or tokens[at - 1].token_type not in _REFUSED)
