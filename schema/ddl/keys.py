"""KEY, INDEX and UNIQUE KEY inside CREATE TABLE and ALTER TABLE of MySQL.

A key of MySQL may have expressions, and the beginnings of columns: name(10).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from hornbeam_server.schema.ddl.drafts import Drafts
from hornbeam_server.schema.ddl.sources import Source
from hornbeam_server.schema.ddl.statement import Statement
from hornbeam_server.schema.drafts import Expression, IndexDraft, Name

_WORDS = {"KEY", "INDEX", "UNIQUE"}


@dataclass(frozen=True, slots=True)
class _Key:
    name: exp.Expr | None
    parts: Sequence[exp.Expr]
    unique: bool = False
    kind: str = ""
    """FULLTEXT or SPATIAL."""


def read_keys(
    statement: Statement, nodes: Sequence[exp.Expr], relation: Name, drafts: Drafts
) -> list[exp.Expr]:
    """The `nodes` of a table that are no keys. The keys become indexes of `relation`."""
    kept = []
    for node in nodes:
        line = statement.place(statement.offset(node)).line
        if node.find(exp.ColumnPrefix) is not None:
            note_of_beginnings(line, drafts)
        key = _key(node, statement.source)
        if key is None:
            kept.append(node)
        elif key.kind or not key.parts:
            drafts.notes.append(f"passed over: {key.kind or 'a'} KEY in line {line}")
        else:
            with drafts.problems.collect((relation.text, "")):
                drafts.indexes.append(_index(statement, key, relation))
    return kept


def beginnings(tokens: Sequence[Token]) -> list[int]:
    """The positions of (length) behind columns in the list of a CREATE INDEX."""
    depth, found = 0, list[int]()
    for at, token in enumerate(tokens):
        if depth == 1 and _is_length(tokens[at - 2 : at + 3]):
            found.append(at)
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
    return found


def _is_length(tokens: Sequence[Token]) -> bool:
    """Are the tokens the beginning of an element of a list, a name, and a number in parentheses?"""
    kinds = [token.token_type for token in tokens]
    begins = kinds[:1] in ([TokenType.L_PAREN], [TokenType.COMMA])
    return begins and kinds[2:] == [TokenType.L_PAREN, TokenType.NUMBER, TokenType.R_PAREN]


def note_of_beginnings(line: int, drafts: Drafts) -> None:
    note = f"the KEY in line {line} indexes whole columns, not their beginnings"
    if note not in drafts.notes:
        drafts.notes.append(note)


def column_of(part: exp.Expr) -> exp.Identifier | None:
    """The name in a column, in a part of an index, or in the beginning of a column."""
    while isinstance(part, exp.Ordered | exp.Column | exp.ColumnPrefix):
        part = part.this
    return part if isinstance(part, exp.Identifier) else None


def _key(node: exp.Expr, source: Source) -> _Key | None:
    """The key that a node declares; None for a constraint, also for UNIQUE of columns alone."""
    if isinstance(node, exp.IndexColumnConstraint):
        return _Key(node.this, node.expressions, kind=str(node.args.get("kind") or "").upper())
    label = node.this if isinstance(node, exp.Constraint) else None
    inner = node.expressions[0] if isinstance(node, exp.Constraint) else node
    if source is not Source.MYSQL or not isinstance(inner, exp.UniqueColumnConstraint):
        return None
    columns = inner.this
    if not isinstance(columns, exp.Schema) or all(map(column_of, columns.expressions)):
        return None
    return _Key(label or columns.this, columns.expressions, unique=True)


def _index(statement: Statement, key: _Key, relation: Name) -> IndexDraft:
    name = statement.name(key.name) if key.name else None
    start = statement.keyword_before(_WORDS, min(map(statement.offset, key.parts)))
    parts = tuple(_parts(statement, key.parts, start))
    return IndexDraft(name, relation, parts, unique=key.unique)


def _parts(
    statement: Statement, parts: Sequence[exp.Expr], start: int
) -> Iterator[tuple[Name | Expression, bool]]:
    """The columns and expressions of a key, and whether they descend."""
    for number, part in enumerate(parts):
        descends = bool(isinstance(part, exp.Ordered) and part.args.get("desc"))
        column = column_of(part)
        if column is not None:
            yield statement.name(column), descends
        else:
            yield statement.element(start, number), descends
