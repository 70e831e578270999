"""Look-ups of rows of any operator at S0, by some of its columns.

A look-up takes key values and returns every row at S0 that has one of them, with its multiplicity.
It may return other rows too (a key that covers only some of the columns finds more), so the caller
must compare again. Every look-up reads through one `RowReader`, as of S0:

* a relation by its primary key, a prefix of it, or a readable index whose key begins with some of
  the columns (a second read then gets the row by its primary key);
* a projection or filter by the columns that it passes on;
* a join by one side, then the other side by the join columns of the rows found;
* an aggregate by its grouping columns, or by one of its results, from its state.

An operator that cannot be looked up is refused when the view is declared; no look-up silently
falls back to a full scan.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from hornbeam_server.maintain.deltas.algebra import (
    Aggregate,
    Bound,
    Join,
    JoinKind,
    Map,
    Node,
    Scan,
    Union,
)
from hornbeam_server.maintain.deltas.keys import between, stored_keys
from hornbeam_server.maintain.deltas.planned import Planned
from hornbeam_server.maintain.deltas.relations import (
    Field,
    Fields,
    Typed,
    columns_sql,
    concat,
    evaluate,
    from_rows,
    nothing,
    stored_fields,
)
from hornbeam_server.query.dialect.duckdb_types import quoted
from hornbeam_server.schema.catalog import Catalog, Layout
from hornbeam_server.schema.errors import Unsupported
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


@dataclass(frozen=True)
class Ways:
    """The context in which look-ups are planned. `state` returns the state of an aggregate. With
    `bound`, the look-up finds the rows between the old and the new value of the bound, instead of
    the rows with single values of the only column."""

    catalog: Catalog
    state: Callable[[Aggregate], State]
    bound: Bound | None = None


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
        return _finished(self, from_rows(self.source.fields, found))

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
        return _finished(self, from_rows(self.source.fields, rows))

    def range(self, keys: Sequence[Row], given: Fields) -> tuple[Value, Value] | None:
        """The range to read for the values of a bound, whose column is `given`."""
        values = (key[0] for key in keys)
        return between(values, given[0].type, self.target.type, above=self.above)

    def words(self) -> str:
        return f"{self.source.words()} by {self.target.name}, between the old and the new bound"


def _finished(lookup: Stored | Between, stored: Typed) -> Typed:
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
        to_other = [pair[0] if self.from_left else pair[1] for pair in self.join.keys]
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


def find_lookup(node: Node, columns: Sequence[str], ways: Ways) -> Lookup:
    """The look-up of rows of `node` at S0 by `columns` (or some of them: see `Lookup.columns`).

    Raises Unsupported, with the index that would help as its cure.
    """
    wanted = tuple(dict.fromkeys(columns))
    match node:
        case Scan():
            return _scan(node, wanted, ways)
        case Map():
            return _mapped(node, wanted, ways)
        case Join():
            return _joined(node, wanted, ways)
        case Union():
            return _united(node, wanted, ways)
        case Aggregate():
            return _aggregate(node, wanted, ways)
    raise AssertionError(node)


def _scan(node: Scan, wanted: Sequence[str], ways: Ways) -> Lookup:
    catalog = ways.catalog
    base = catalog.layout(node.relation)
    by_column = {node.column[name]: name for name in wanted}
    indexes = [i.name for i in catalog.indexes_on(node.relation) if catalog.readable(i.name)]
    layouts = [base, *(catalog.layout(name) for name in indexes)]
    # The longest key prefix wins. Among equals the relation wins, since it needs no second read.
    best = max(layouts, key=lambda layout: len(_leading(layout, by_column)))
    leading = _leading(best, by_column)
    if not leading:
        names = ", ".join(by_column)
        raise Unsupported(
            f"Rows of {node.relation} are looked up by {names or 'nothing'} when what they are "
            "joined with changes, and no access path serves that.",
            cure=f"CREATE INDEX ON {node.relation} ({names})"
            if names
            else "Join on a column, or compare one with the subquery: column > (SELECT …).",
        )
    targets = stored_fields(best.columns[best.positions[column]] for column in leading)
    stored = tuple(
        Field(column, field.duck, field.type)
        for column, field in zip(node.columns, node.fields, strict=True)
    )
    rows = LayoutRows(best, None if best is base else base, stored)
    columns = tuple(by_column[column] for column in leading)
    if ways.bound is not None:
        return Between(node.fields, columns, rows, targets[0], ways.bound.above)
    return Stored(node.fields, columns, rows, targets)


def _leading(layout: Layout, wanted: Mapping[str, str] | Sequence[str]) -> list[str]:
    """The longest prefix of the layout's key that consists of columns of `wanted`."""
    leading: list[str] = []
    for part in layout.key:
        if part.column not in wanted:
            break
        leading.append(part.column)
    return leading


def _mapped(node: Map, wanted: Sequence[str], ways: Ways) -> Lookup:
    if node.nulls.intersection(wanted):
        return Never(node.fields, tuple(wanted))
    passed = {node.passes[name]: name for name in wanted if name in node.passes}
    if wanted and not passed:
        raise _computed(wanted)
    inner = find_lookup(node.input, list(passed), ways)
    return Mapped(node.fields, tuple(passed[c] for c in inner.columns), node, inner)


def _joined(node: Join, wanted: Sequence[str], ways: Ways) -> Lookup:
    """Look up the side whose look-up uses more of the columns; among equals, the left side."""
    found: list[Lookup] = []
    errors: list[Unsupported] = []
    sides = [True] if node.kind in (JoinKind.SEMI, JoinKind.ANTI) else [True, False]
    for from_left in sides:
        try:
            found.append(_from_side(node, wanted, from_left, ways))
        except Unsupported as error:
            errors.append(error)
    if not found:
        raise errors[0]
    return max(found, key=lambda lookup: len(lookup.columns))


def _from_side(node: Join, wanted: Sequence[str], from_left: bool, ways: Ways) -> Lookup:
    side, other = (node.left, node.right) if from_left else (node.right, node.left)
    here = _on_side(node, wanted, from_left)
    if wanted and not here:
        raise _computed(wanted)
    first = find_lookup(side, list(here), ways)
    to_other = [pair[1] if from_left else pair[0] for pair in node.keys]
    second = Narrowed.over(find_lookup(other, to_other, replace(ways, bound=None)), to_other)
    columns = tuple(here[column] for column in first.columns)
    return Joined(node.fields, columns, node, first, second, from_left)


def _on_side(node: Join, wanted: Sequence[str], left: bool) -> dict[str, str]:
    """Column of one side → wanted column: the wanted column itself if it is on this side, or the
    column that the join equates with it."""
    side = node.left if left else node.right
    equal = dict((b, a) if left else (a, b) for a, b in node.keys)
    here: dict[str, str] = {}
    for name in wanted:
        mine = name if name in side.field else equal.get(name)
        if mine is not None:
            here.setdefault(mine, name)
    return here


def _asked(nodes: Sequence[Node]) -> Iterator[tuple[Aggregate, list[str]]]:
    """The aggregates below joins, with the columns by which the join looks them up. The result
    depends on the operators only, never on indexes: the layout of a state must not change when
    another index becomes readable."""

    def visit(node: Node, wanted: Sequence[str]) -> Iterator[tuple[Aggregate, list[str]]]:
        match node:
            case Map():
                passed = [node.passes[name] for name in wanted if name in node.passes]
                yield from visit(node.input, passed)
            case Union():
                for part in node.parts:
                    yield from visit(part, wanted)
            case Join():
                for left in (True, False):
                    side = node.left if left else node.right
                    yield from visit(side, list(_on_side(node, wanted, left)))
            case Aggregate():
                yield node, list(wanted)

    for node in nodes:
        if isinstance(node, Join):
            for i, side in enumerate(node.inputs):
                yield from visit(side, list(dict.fromkeys(pair[i] for pair in node.keys)))
            if node.bound is not None:
                yield from visit(node.left, [node.bound.left])


def group_orders(nodes: Sequence[Node]) -> dict[int, tuple[str, ...]]:
    """The order of the grouping columns in the keys of states, by the aggregate's id: the columns
    by which the first join above looks up the aggregate come first."""
    orders: dict[int, tuple[str, ...]] = {}
    for node, wanted in _asked(nodes):
        names = [group.name for group in node.groups]
        first = [name for name in wanted if name in names]
        if first:
            rest = (name for name in names if name not in first)
            orders.setdefault(id(node), (*first, *rest))
    return orders


def ranked_calls(nodes: Sequence[Node]) -> dict[int, tuple[str, ...]]:
    """The calls by which groups are looked up, by the aggregate's id: the first wanted column of
    each look-up that has no grouping column."""
    ranked: dict[int, dict[str, None]] = {}
    for node, wanted in _asked(nodes):
        if wanted and node.groups and not node.unique.intersection(wanted):
            ranked.setdefault(id(node), {})[wanted[0]] = None
    return {id_: tuple(names) for id_, names in ranked.items()}


def _united(node: Union, wanted: Sequence[str], ways: Ways) -> Lookup:
    parts = (find_lookup(part, wanted, ways) for part in node.parts)
    columns = tuple(wanted)
    return United(node.fields, columns, tuple(Narrowed.over(part, columns) for part in parts))


def _aggregate(node: Aggregate, wanted: Sequence[str], ways: Ways) -> Lookup:
    state = ways.state(node)
    rows = LayoutRows(state.layout, None, state.fields)
    if ways.bound is None and not node.groups:
        return Stored(node.fields, (), rows, (), state, constant=(1,))
    columns = list(itertools.takewhile(lambda name: name in wanted, state.order))
    if not columns:
        columns = [name for name in wanted if name in state.ranks][:1]
        if columns:
            rows = LayoutRows(state.ranks[columns[0]], state.layout, state.fields)
        elif not wanted:
            raise Unsupported(
                "All groups would have to be read when what they are compared with changes.",
                cure="Compare an aggregate or a grouping column itself: SUM(x) > (SELECT …).",
            )
        elif not set(wanted) & set(state.order):
            raise _computed(wanted)
        else:
            raise Unsupported(
                f"Groups are looked up by {', '.join(wanted)}, and other look-ups use"
                f" {state.order[0]}.",
                cure="Write the subquery twice, in two WITH queries.",
            )
    targets = tuple(node.field[column] for column in columns)
    if ways.bound is not None:
        above = ways.bound.above
        return Between(node.fields, tuple(columns), rows, targets[0], above, state)
    return Stored(node.fields, tuple(columns), rows, targets, state)


def _computed(wanted: Iterable[str]) -> Unsupported:
    names = ", ".join(wanted)
    return Unsupported(
        f"Rows are looked up by {names}, which is computed from columns and not one.",
        cure="Join on plain columns.",
    )


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
