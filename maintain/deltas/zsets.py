"""Changes of rows, as an Arrow table for DuckDB or as Python rows for the row executor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from hornbeam_server.maintain.changes import Change
from hornbeam_server.maintain.deltas.relations import (
    WEIGHT,
    Fields,
    Typed,
    from_rows,
    nothing,
    schema_of,
    stored_fields,
    weighted,
)
from hornbeam_server.schema.model import Column
from hornbeam_server.schema.rows import projection
from hornbeam_server.schema.types import Row

Weighted = tuple[Row, int]
"""A row and its weight: +1 for an inserted row, -1 for a deleted row."""


class ZSet:
    """A change of the rows of `fields`. It holds a table (with `_w` last), or rows, or both: each
    is computed from the other when it is first used."""

    def __init__(
        self,
        fields: Fields,
        *,
        table: pa.Table | None = None,
        rows: Sequence[Weighted] | None = None,
    ) -> None:
        self.fields = fields
        self._table: Any = table
        self._rows = rows if rows is not None or table is not None else ()

    @classmethod
    def of_changes(cls, columns: Sequence[Column], changes: Iterable[Change]) -> ZSet:
        """Changes of a relation: old rows with -1, new rows with +1."""
        rows: list[Weighted] = []
        for change in changes:
            if change.old is not None:
                rows.append((change.old, -1))
            if change.new is not None:
                rows.append((change.new, 1))
        return cls(stored_fields(columns), rows=rows)

    @classmethod
    def concat(cls, fields: Fields, parts: Sequence[ZSet]) -> ZSet:
        """All changes of `parts`, which have the same fields."""
        if len(parts) == 1:
            return parts[0]
        if all(part._rows is not None for part in parts):
            return cls(fields, rows=[row for part in parts for row in part.rows])
        return cls(fields, table=pa.concat_tables([part.table for part in parts]))

    def __len__(self) -> int:
        count: int = len(self._rows) if self._rows is not None else self._table.num_rows
        return count

    @property
    def table(self) -> pa.Table:
        if self._table is None:
            self._table = _as_table(self.fields, self._rows or ())
        return self._table

    @property
    def typed(self) -> Typed:
        return Typed(weighted(self.fields), self.table)

    @property
    def rows(self) -> Sequence[Weighted]:
        if self._rows is None:
            self._rows = _as_rows(self.typed)
        return self._rows

    def select(self, fields: Fields) -> ZSet:
        """The change with only the columns that have the names of `fields`."""
        names = [field.name for field in self.fields]
        wanted = [field.name for field in fields]
        if names == wanted:
            return self
        if self._rows is None:
            return ZSet(fields, table=self._table.select([*wanted, WEIGHT]))
        pick = projection([names.index(name) for name in wanted])
        return ZSet(fields, rows=[(pick(row), weight) for row, weight in self._rows])


def _as_table(fields: Fields, rows: Sequence[Weighted]) -> pa.Table:
    if not rows:
        return nothing(weighted(fields)).table
    flat = [(*row, weight) for row, weight in rows]
    return from_rows(weighted(fields), flat).table.cast(schema_of(weighted(fields)))


def _as_rows(typed: Typed) -> list[Weighted]:
    return [(row[:-1], row[-1]) for row in typed.rows()]  # type: ignore[misc]
