"""CREATE TABLE t (LIKE u INCLUDING …): the columns of a table that is declared above."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from hornbeam_server.schema.ddl.drafts import Drafts
from hornbeam_server.schema.ddl.statement import Statement
from hornbeam_server.schema.drafts import ColumnDraft, Name, RelationDraft
from hornbeam_server.schema.model import Default, DefaultKind

_PARTS = frozenset({"COMMENTS", "DEFAULTS", "CONSTRAINTS", "INDEXES", "IDENTITY", "GENERATED"})
_WITHOUT_ROWS = frozenset({"STATISTICS", "STORAGE", "COMPRESSION"})
"""Parts that PostgreSQL has, and that have no effect here."""
_CURE = f"Write INCLUDING ALL, or one of {', '.join(sorted(_PARTS))}."


def read_like(
    statement: Statement, node: exp.LikeProperty, draft: RelationDraft, drafts: Drafts
) -> None:
    """Add the columns of another table, with NOT NULL, and the parts that INCLUDING names. Raises
    SchemaError."""
    named = statement.table(node.this)
    source = drafts.relations.get(named.text)
    if source is None:
        raise named.place.error(
            f"LIKE {named.text}: there is no such table above.",
            cure="Put its CREATE TABLE first.",
            name=named.text,
        )
    parts = _parts(statement, node, named)
    key = {name.text for each in source.primary_keys for name in each.columns}
    draft.columns += [_column(column, named, parts, key) for column in source.columns]
    if "COMMENTS" in parts:
        drafts.commented_copies.append((named.text, draft.name.text))
    if "CONSTRAINTS" in parts:
        draft.checks += source.checks
    if "INDEXES" in parts:
        draft.primary_keys += (replace(key, name=None) for key in source.primary_keys)
        drafts.indexes += [
            replace(index, name=None, relation=draft.name)
            for index in drafts.indexes
            if index.relation.text == named.text
        ]


def _parts(statement: Statement, node: exp.LikeProperty, named: Name) -> frozenset[str]:
    """The parts that are copied."""
    found: frozenset[str] = frozenset()
    for option in node.expressions:
        part = option.args["value"].name.upper()
        if part != "ALL" and part not in _PARTS | _WITHOUT_ROWS:
            offset = statement.keyword(part, statement.offset(node.this))
            statement.refuse(f"{option.name} {part}", offset, _CURE)
        these = _PARTS if part == "ALL" else frozenset({part})
        found = found | these if option.name.upper() == "INCLUDING" else found - these
    return found


def _column(column: ColumnDraft, named: Name, parts: frozenset[str], key: set[str]) -> ColumnDraft:
    place, name = named.place, column.name.text
    copied = replace(column, name=Name(name, place), nullable=column.nullable and name not in key)
    if _copies(column.default, parts):
        return copied
    return replace(copied, default=None, expression=None, has_default=False)


def _copies(default: Default | None, parts: frozenset[str]) -> bool:
    """Is the default among the copied parts?"""
    if default is None:
        return True
    by_kind = {DefaultKind.IDENTITY: "IDENTITY", DefaultKind.GENERATED: "GENERATED"}
    return by_kind.get(default.kind, "DEFAULTS") in parts
