"""Columns whose values are equal by foreign keys."""

from __future__ import annotations

from collections.abc import Iterator

from hornbeam_server.schema.model import Schema


def connected(schema: Schema, table: str, column: str) -> set[tuple[str, str]]:
    """The columns whose values are equal by foreign keys: the column itself, the columns that it
    references or that reference it, and so on."""
    found, left = {(table, column)}, [(table, column)]
    while left:
        here = left.pop()
        new = {other for one, other in _references(schema) if one == here} - found
        found |= new
        left += new
    return found


def _references(schema: Schema) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    """The pairs of columns that foreign keys connect, in both directions."""
    for relation in schema.relations:
        for key in relation.foreign_keys:
            for column, parent in zip(key.columns, key.parent_columns, strict=True):
                one, other = (relation.name, column), (key.parent, parent)
                yield one, other
                yield other, one
