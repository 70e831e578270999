"""Statistics of the data: rows of relations and bytes of rows, counted, given or assumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from hornbeam_server.schema.graph import topological_order
from hornbeam_server.schema.model import Column, Relation, Schema
from hornbeam_server.schema.types import Kind

ROOT_ROWS = 1_000
"""Assumed rows of a relation that references nothing."""
FAN_OUT = 10
"""Assumed rows of a relation per row of its largest parent (1 if the foreign key is the primary
key)."""

_BYTES = {
    Kind.INTEGER: 5, Kind.BIGINT: 9, Kind.DECIMAL: 8, Kind.DOUBLE: 9, Kind.BOOLEAN: 1,
    Kind.BYTES: 64, Kind.DATE: 6, Kind.TIME: 9, Kind.TIMESTAMP: 10, Kind.TIMESTAMPTZ: 10,
    Kind.INTERVAL: 40, Kind.UUID: 17, Kind.ENUM: 4, Kind.JSON: 128, Kind.ARRAY: 64,
}  # fmt: skip
ROW_OVERHEAD = 24
"""Format byte, array header, timestamp, table id: bytes per stored row."""


@dataclass(frozen=True)
class Statistics:
    """Statistics of the data. Missing row counts default to ROOT_ROWS, or FAN_OUT × the rows of the
    largest parent. Missing bytes follow from the column types; a text counts as half its maximum
    length (at most 64 bytes). `expected`: relations whose row counts the caller has given."""

    row_counts: Mapping[str, int] = field(default_factory=dict)
    row_bytes: Mapping[str, float] = field(default_factory=dict)
    expected: frozenset[str] = frozenset()

    def rows(self, schema: Schema) -> dict[str, int]:
        """Rows of every relation."""
        found: dict[str, int] = {}
        for name in topological_order(schema):
            guess = _guessed_rows(schema.relation(name), found)
            found[name] = max(1, self.row_counts.get(name, guess))
        return found

    def origin(self, name: str) -> Literal["counted", "given", "assumed"]:
        """The origin of a relation's row count."""
        if name in self.expected:
            return "given"
        return "counted" if name in self.row_counts else "assumed"

    def bytes_of(self, schema: Schema, relation: str) -> float:
        """Average bytes of a stored row."""
        guess = ROW_OVERHEAD + sum(map(column_bytes, schema.relation(relation).columns))
        return float(self.row_bytes.get(relation, guess))


def _guessed_rows(relation: Relation, known: Mapping[str, int]) -> int:
    keys = [key for key in relation.foreign_keys if key.parent in known]
    if not keys:
        return ROOT_ROWS
    whole = [key for key in keys if set(key.columns) >= set(relation.primary_key)]
    if whole:
        return min(known[key.parent] for key in whole)
    return FAN_OUT * max(known[key.parent] for key in keys)


def column_bytes(column: Column) -> float:
    """Average bytes of a value, by type."""
    if column.type.kind is Kind.TEXT:
        return 2 + min(64.0, (column.type.length or 40) / 2)
    return _BYTES[column.type.kind]
