"""Command tags: what a statement has done, in PostgreSQL's words (`INSERT 0 3`)."""

from __future__ import annotations

import re

from sqlglot import TokenType

from hornbeam_server.query.dialect.grammar import tokenize

_INSERTS = {"INSERT", "REPLACE"}
_COUNTED = {"UPDATE", "DELETE", "MERGE"}
_BEHIND_WITH = _INSERTS | _COUNTED | {"SELECT", "VALUES", "TABLE", "FROM"}
_FIRST_WORD = re.compile(r"(?:\s|\(|--[^\n]*|/\*.*?\*/)*(\w*)", re.DOTALL)


def command_tag(sql: str, affected: int, rows: int) -> str:
    """The command tag of a statement that has run. `affected`: the rows that it has changed;
    `rows`: those that it has returned."""
    verb = _verb(sql)
    if verb in _INSERTS:
        return f"INSERT 0 {affected}"
    if verb in _COUNTED:
        return f"{verb} {affected}"
    return "TRUNCATE TABLE" if verb == "TRUNCATE" else f"SELECT {rows}"


def _verb(sql: str) -> str:
    """The word that begins the statement; for a WITH, the word behind its parts."""
    first = _FIRST_WORD.match(sql)
    verb = first[1].upper() if first else ""
    return _verb_behind_with(sql) if verb == "WITH" else verb


def _verb_behind_with(sql: str) -> str:
    depth, closed = 0, False
    for token in tokenize(sql):
        word, kind = token.text.upper(), token.token_type
        if depth == 0 and closed and word in _BEHIND_WITH:
            return word
        closed = kind is TokenType.R_PAREN
        depth += (kind is TokenType.L_PAREN) - closed
    return ""
