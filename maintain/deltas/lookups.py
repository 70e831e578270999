"""Look-ups of rows of any operator at S0, by some of its columns.

A look-up takes key values and returns every row at S0 that has one of them, with its multiplicity.
It may return other rows too (a key that covers only some of the columns finds more), so the caller
must compare again. Every look-up reads through one `RowReader`, as of S0. `access.py` chooses the
look-up of an operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from hornbeam_server.maintain.deltas.algebra import Join, JoinKind, Map, Partition, Recursion
from hornbeam_server.maintain.deltas.keys import between, stored_keys
from hornbeam_server.maintain.deltas.planned import Planned
from hornbeam_server.maintain.deltas.recursion_rows import RecursionRows
from hornbeam_server.maintain.deltas.relations import (
    Field,
    Fields,
    Typed,
    columns_sql,
    concat,
    evaluate,
    from_rows,
    nothing,
)
from hornbeam_server.maintain.deltas.stored_rows import StoredRows
from hornbeam_server.query.dialect.duckdb_types import quoted
from hornbeam_server.schema.catalog import Layout
from hornbeam_server.schema.rows import Projection, projection
from hornbeam_server.schema.types import ColumnType, Kind, Row, Value
from hornbeam_server.storage.codec.keyrange import KeyRange
from hornbeam_server.storage.snapshot import RowReader


class State(Protocol):
    """The state of an aggregate: one row of `fields` per group, with the groups in `order` as its
    key. `ranks` are indexes on the groups by the results of calls."""

    @property
    def layout(self) -> Layout: ...
    @property
    def fields(self) -> Fields: ...
    @property
    def order(self) -> tuple[str, ...]: ...
    @property
    def ranks(self) -> Mapping[str, Layout]: ...
    def finish(self, stored: Typed) -> Typed:
        """Rows of the aggregate, from rows of its state."""


class Lookup(Protocol):
    """`fields` are the operator's fields, `columns` are the columns of the look-up keys."""

    @property
    def fields(self) -> Fields: ...
    @property
    def columns(self) -> tuple[str, ...]: ...

    async def rows(self, reader: RowReader, keys: Typed) -> Typed:
        """Rows that have one of `keys`. `keys` has one column for each of `columns`, in order."""

    def words(self) -> str:
        """The access path as text, for `DeltaProgram.explain`."""


@dataclass(frozen=True)
class LayoutRows(Planned):
    """Rows of a layout. With `base`, the layout is an index, and the rows are those of `base`, read
    by their key. `fields` are the columns to return."""

    layout: Layout
    base: Layout | None
    fields: Fields

    async def by_prefix(self, reader: RowReader, prefixes: Sequence[Row]) -> list[Row]:
        """Rows by values of the leading key columns."""
        if len(prefixes[0]) == len(self.layout.key):
            versions = await reader.get(self.layout.name, prefixes)
            return await self._kept(reader, [v.row for v in versions if v is not None])
        found = await reader.prefixes(self.layout.name, prefixes)
        return await self._kept(reader, [v.row for versions in found for v in versions])

    async def between(self, reader: RowReader, low: Value, high: Value) -> list[Row]:
        """Rows by a range of the first key column, both ends included; None: unbounded."""
        batches = reader.scan(self.layout.name, KeyRange((), low, True, high, True))
        return await self._kept(reader, [row async for batch in batches for row in batch])

    async def _kept(self, reader: RowReader, found: list[Row]) -> list[Row]:
        if self.base is not None and found:
            versions = await reader.get(self.base.name, [self._base_key(row) for row in found])
            found = [version.row for version in versions if version is not None]
        return list(map(self._pick, found))

    @cached_property
    def _base_key(self) -> Projection:
        """The key of the base row from an index entry."""
        assert self.base is not None
        return projection([self.layout.positions[part.column] for part in self.base.key])

    @cached_property
    def _pick(self) -> Projection:
        positions = (self.base or self.layout).positions
        return projection([positions[field.name] for field in self.fields])

    def words(self) -> str:
        through = f" through {self.layout.name}" if self.base is not None else ""
        return f"{(self.base or self.layout).name}{through}"


@dataclass(frozen=True)
class Stored:
    """Look-up in a layout by values of its leading key columns, whose types are `targets`.
    `constant` is the key of an only row. `state`: the stored rows are those of an aggregate."""

    fields: Fields
    columns: tuple[str, ...]
    source: LayoutRows
    targets: Fields
    state: State | None = None
    constant: Row | None = None

    async def rows(self, reader: RowReader, keys: Typed) -> Typed:
        prefixes = self.prefixes(keys.rows(), keys.fields)
        if not prefixes:
            return nothing(self.fields)
        found = await self.source.by_prefix(reader, prefixes)
        return finished(self, from_rows(self.source.fields, found))

    def prefixes(self, keys: Sequence[Row], given: Fields) -> list[Row]:
        """The keys to read for look-up keys whose columns are `given`."""
        if self.constant is not None:
            return [self.constant] if keys else []
        return stored_keys(keys, given, self.targets)

    def words(self) -> str:
        by = ", ".join(field.name for field in self.targets)
        return f"{self.source.words()} by {by or 'its only key'}"


@dataclass(frozen=True)
class Between:
    """Look-up of rows whose column lies between the old and the new value of a bound: only for
    these rows the comparison can have changed. The keys are the two values. If one of them is NULL
    or missing, the look-up returns all rows beyond the other."""

    fields: Fields
    columns: tuple[str, ...]
    source: LayoutRows
    target: Field
    above: bool
    state: State | None = None

    async def rows(self, reader: RowReader, keys: Typed) -> Typed:
        found = self.range(keys.rows(), keys.fields)
        if found is None:
            return nothing(self.fields)
        rows = await self.source.between(reader, *found)
        return finished(self, from_rows(self.source.fields, rows))

    def range(self, keys: Sequence[Row], given: Fields) -> tuple[Value, Value] | None:
        """The range to read for the values of a bound, whose column is `given`."""
        values = (key[0] for key in keys)
        return between(values, given[0].type, self.target.type, above=self.above)

    def words(self) -> str:
        return f"{self.source.words()} by {self.target.name}, between the old and the new bound"


class OfState(Protocol):
    """A look-up of stored rows, maybe of those of an aggregate."""

    @property
    def fields(self) -> Fields: ...
    @property
    def state(self) -> State | None: ...


def finished(lookup: OfState, stored: Typed) -> Typed:
    """Rows of the operator from stored rows."""
    if lookup.state is None:
        return stored.renamed(lookup.fields)
    return lookup.state.finish(stored)


@dataclass(frozen=True)
class Never:
    """Look-up by a column that is always NULL: no key equals it."""

    fields: Fields
    columns: tuple[str, ...]

    async def rows(self, reader: RowReader, keys: Typed) -> Typed:
        return nothing(self.fields)

    def words(self) -> str:
        return "none (they have no partner)"


@dataclass(frozen=True)
class Mapped:
    """Look-up through a filter or projection."""

    fields: Fields
    columns: tuple[str, ...]
    map: Map
    inner: Lookup

    async def rows(self, reader: RowReader, keys: Typed) -> Typed:
        found = await self.inner.rows(reader, keys)
        if found.empty:
            return nothing(self.fields)
        return evaluate(self.map.select("found"), {"found": found}, self.fields)

    def words(self) -> str:
        return self.inner.words()


@dataclass(frozen=True)
class Joined:
    """Look-up in one side of a join, then in the other side by the join columns.

    From the right side only pairs are found: a left row without a partner has no right columns.
    """

    fields: Fields
    columns: tuple[str, ...]
    join: Join
    first: Lookup
    second: Lookup
    from_left: bool

    async def rows(self, reader: RowReader, keys: Typed) -> Typed:
        first = await self.first.rows(reader, keys)
        if first.empty:
            return nothing(self.fields)
        to_other = self.join.compared(0 if self.from_left else 1)
        second = await self.second.rows(reader, keys_of(first, to_other))
        left, right = (first, second) if self.from_left else (second, first)
        kind = self.join.kind if self.from_left else JoinKind.INNER
        return evaluate(
            join_sql(self.join, kind, self.fields), {"l": left, "r": right}, self.fields
        )

    def words(self) -> str:
        return f"{self.first.words()}, then {self.second.words()}"


@dataclass(frozen=True)
class United:
    """Look-up in all parts of a union."""

    fields: Fields
    columns: tuple[str, ...]
    parts: tuple[Lookup, ...]

    async def rows(self, reader: RowReader, keys: Typed) -> Typed:
        return concat(self.fields, [await part.rows(reader, keys) for part in self.parts])

    def words(self) -> str:
        return " and ".join(part.words() for part in self.parts)


@dataclass(frozen=True)
class Partitioned:
    """Look-up of the rows of partitions, by the first of the columns `kept.order`. Without columns:
    of all partitions, if there are any keys."""

    fields: Fields
    columns: tuple[str, ...]
    node: Partition
    kept: StoredRows

    async def rows(self, reader: RowReader, keys: Typed) -> Typed:
        found = await self.inputs(reader, keys.rows(), keys.fields)
        return self.computed(found) if found else nothing(self.fields)

    async def inputs(self, reader: RowReader, keys: Sequence[Row], given: Fields) -> Sequence[Row]:
        """The rows of the operator's input for look-up keys whose columns are `given`."""
        if not self.columns:
            return await self.kept.whole(reader) if keys else ()
        targets = tuple(self.node.field[name] for name in self.columns)
        return await self.kept.by_prefix(reader, stored_keys(keys, given, targets))

    def computed(self, rows: Sequence[Row]) -> Typed:
        """The rows of the operator from those of its input."""
        found = from_rows(self.kept.columns, rows)
        sql = f"SELECT {columns_sql(self.fields)} FROM {self.node.select('found')}"
        return evaluate(sql, {"found": found}, self.fields)

    def words(self) -> str:
        by = ", ".join(self.columns)
        return f"{self.kept.name} by {by}" if by else f"all rows of {self.kept.name}"


@dataclass(frozen=True)
class Recursive:
    """Look-up of the rows of a recursion, by the first of the columns `kept.orders[order]`. Without
    columns: of all rows, if there are any keys."""

    fields: Fields
    columns: tuple[str, ...]
    node: Recursion
    kept: RecursionRows
    order: int

    async def rows(self, reader: RowReader, keys: Typed) -> Typed:
        found = await self.listed(reader, keys.rows(), keys.fields)
        return from_rows(self.fields, found) if found else nothing(self.fields)

    async def listed(self, reader: RowReader, keys: Sequence[Row], given: Fields) -> list[Row]:
        """The rows for look-up keys whose columns are `given`."""
        if self.columns:
            by_name = {field.name: field for field in self.fields}
            targets = tuple(by_name[name] for name in self.columns)
            prefixes = stored_keys(keys, given, targets)
            found = await self.kept.by_prefix(reader, prefixes, self.order)
        else:
            found = await self.kept.whole(reader) if keys else {}
        return [row for row, n in found.items() for _ in range(1 if self.node.distinct else n)]

    def words(self) -> str:
        name, by = self.kept.names[self.order], ", ".join(self.columns)
        return f"{name} by {by}" if by else f"all rows of {name}"


@dataclass(frozen=True)
class Narrowed:
    """A look-up whose keys have more columns than the inner look-up uses; `positions` are the
    columns that it uses."""

    fields: Fields
    columns: tuple[str, ...]
    inner: Lookup
    positions: tuple[int, ...]

    @staticmethod
    def over(inner: Lookup, columns: Sequence[str]) -> Lookup:
        """`inner` as a look-up that takes keys of `columns`."""
        if inner.columns == tuple(columns):
            return inner
        positions = tuple(list(columns).index(column) for column in inner.columns)
        return Narrowed(inner.fields, tuple(columns), inner, positions)

    async def rows(self, reader: RowReader, keys: Typed) -> Typed:
        fields = tuple(keys.fields[i] for i in self.positions)
        return await self.inner.rows(reader, Typed(fields, keys.table.select(list(self.positions))))

    def words(self) -> str:
        return self.inner.words()


def join_sql(join: Join, kind: JoinKind, fields: Fields, *, more: str = "") -> str:
    """SQL that joins `l` and `r`, with `more` columns appended."""
    words = {JoinKind.INNER: "JOIN", JoinKind.LEFT: "LEFT JOIN"}.get(kind, f"{kind.upper()} JOIN")
    return f"SELECT {columns_sql(fields)}{more} FROM l {words} r ON {join.on()}"


def keys_of(rows: Typed, columns: Sequence[str]) -> Typed:
    """The distinct values of `columns` in `rows`, without NULLs: NULL joins nothing.

    Without columns: one row with a constant if there are any rows.
    """
    if not columns:
        one = Field("one", "INTEGER", ColumnType(Kind.INTEGER))
        return evaluate("SELECT 1 FROM rows LIMIT 1", {"rows": rows}, (one,))
    by_name = {field.name: field for field in rows.fields}
    fields = tuple(by_name[column] for column in columns)
    if rows.empty:
        return nothing(fields)
    present = " AND ".join(f"{quoted(column)} IS NOT NULL" for column in columns)
    select = f"SELECT DISTINCT {columns_sql(fields)} FROM rows WHERE {present}"
    return evaluate(select, {"rows": rows}, fields)
