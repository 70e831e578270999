"""Look-ups of a join without an equality: by a range of an index, or of all rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hornbeam_server.maintain.deltas.algebra import Node, Scan, walk
from hornbeam_server.maintain.deltas.keys import merged_ranges
from hornbeam_server.maintain.deltas.lookups import (
    Joined,
    LayoutRows,
    Lookup,
    Mapped,
    Narrowed,
    Partitioned,
    Recursive,
    State,
    United,
    finished,
)
from hornbeam_server.maintain.deltas.relations import Field, Fields, Typed, from_rows, nothing
from hornbeam_server.schema.types import Row, Value
from hornbeam_server.storage.snapshot import RowReader


@dataclass(frozen=True)
class Ranged:
    """Look-up of the rows whose only column of `columns` lies in a range. Each key is the lowest
    and the highest value of a range, both included; None: unbounded."""

    fields: Fields
    columns: tuple[str, ...]
    source: LayoutRows
    target: Field
    state: State | None = None

    async def rows(self, reader: RowReader, keys: Typed) -> Typed:
        found = await self.stored(reader, keys.rows(), keys.fields)
        return finished(self, from_rows(self.source.fields, found))

    async def stored(self, reader: RowReader, keys: Sequence[Row], given: Fields) -> list[Row]:
        """The stored rows for keys whose columns are `given`. Each is read once, though it may be
        in several ranges."""
        low, high = (field.type for field in given)
        ranges = merged_ranges(keys, low, high, self.target.type)
        return [row for each in ranges for row in await self.source.between(reader, *each)]

    def words(self) -> str:
        return f"{self.source.words()} by a range of {self.target.name}"


@dataclass(frozen=True)
class Limited:
    """A look-up by ranges whose keys are values of `columns`, which rows of the other side have.
    `low` and `high` are the places of the two limits in a key; None: there is no such limit."""

    fields: Fields
    columns: tuple[str, ...]
    inner: Lookup
    low: int | None
    high: int | None

    async def rows(self, reader: RowReader, keys: Typed) -> Typed:
        columns = [self._column(keys.table, place) for place in (self.low, self.high)]
        limits = self.limits(keys.fields)
        table = pa.table(columns, names=[field.name for field in limits])
        return await self.inner.rows(reader, Typed(limits, table))

    def _column(self, table: pa.Table, place: int | None) -> Any:
        column = table.column(self._place(place))
        return pa.nulls(len(column), column.type) if place is None else column

    def limits(self, given: Fields) -> Fields:
        """The columns of the ranges, for keys whose columns are `given`."""
        low, high = (given[self._place(place)] for place in (self.low, self.high))
        return Field("low", low.duck, low.type), Field("high", high.duck, high.type)

    def range(self, key: Row) -> tuple[Value, Value]:
        low, high = self.low, self.high
        return None if low is None else key[low], None if high is None else key[high]

    def _place(self, place: int | None) -> int:
        """The place of a limit, or of the other limit."""
        found = place if place is not None else self.low if self.low is not None else self.high
        assert found is not None
        return found

    def words(self) -> str:
        return self.inner.words()


@dataclass(frozen=True)
class Whole:
    """Look-up of all rows, if there are any keys. `about`: their number when they were counted."""

    fields: Fields
    source: LayoutRows
    relations: tuple[str, ...]
    about: int | None = None
    state: State | None = None
    columns: tuple[str, ...] = ()

    async def rows(self, reader: RowReader, keys: Typed) -> Typed:
        if keys.empty:
            return nothing(self.fields)
        found = await self.source.between(reader, None, None)
        return finished(self, from_rows(self.source.fields, found))

    def words(self) -> str:
        counted = "" if self.about is None else f", about {self.about}"
        return f"all rows of {self.source.layout.name}{counted}"


def read_whole(lookup: Lookup) -> Iterator[str]:
    """The relations all of whose rows a look-up may read: itself, or in what is kept of them."""
    match lookup:
        case Whole():
            yield from lookup.relations
        case Partitioned(columns=()) | Recursive(columns=()):
            yield from relations_of(lookup.node)
        case Mapped() | Narrowed() | Limited():
            yield from read_whole(lookup.inner)
        case Joined():
            yield from read_whole(lookup.first)
            yield from read_whole(lookup.second)
        case United():
            for part in lookup.parts:
                yield from read_whole(part)


def relations_of(node: Node) -> tuple[str, ...]:
    """The relations that an operator reads."""
    return tuple(dict.fromkeys(each.relation for each in walk(node) if isinstance(each, Scan)))
