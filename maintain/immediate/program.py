"""Programs of immediate views: from the changes of a transaction to additions to groups.

**Algorithm.** A *joined row* is a row of the fact followed by the rows of its parents.

1. *Affected rows* of the fact: its changed rows, and the rows below each changed row of a parent,
   found level by level through foreign keys in the state before. Inserted and deleted parents need
   nothing, because all rows that reference them are changed as well.
2. *Joined rows* of the affected rows before and after, by walking up, one read per level.
3. The contribution of a joined row: nothing if it does not pass the filter, else its group and the
   amounts of each sum. Additions are the contributions after minus the contributions before.

Step 2 is exact for any row, so step 1 must only miss none. Take a row of the fact whose joined row
differs although the row itself does not, and the nearest changed row above it. The rows between are
unchanged, and the changed row is in both states, so the row of the fact is found by descending from
it in the state before. ∎
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, ClassVar

from hornbeam_server.maintain.changes import Addition, Change
from hornbeam_server.maintain.deltas.algebra import Map
from hornbeam_server.maintain.deltas.relations import Field, stored_fields
from hornbeam_server.maintain.deltas.rows.maps import RowMap, compile_maps
from hornbeam_server.maintain.deltas.rows.parsing import NotCompiledError
from hornbeam_server.maintain.immediate.definition import Definition, define_stored
from hornbeam_server.maintain.immediate.stars import LATER, Star
from hornbeam_server.maintain.paths import BaseRows, Key, Side
from hornbeam_server.maintain.ways import Way, way_to_children
from hornbeam_server.schema.catalog import Catalog, Layout, cells_of_index
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.intervals import identical
from hornbeam_server.schema.rows import Projection, projection
from hornbeam_server.schema.turns import chunks, turn
from hornbeam_server.schema.types import ColumnType, Kind, Row, Value
from hornbeam_server.schema.views import ImmediateView, StateLayout
from hornbeam_server.storage.codec.folds import minus, plus
from hornbeam_server.storage.codec.rows import LayoutCodec
from hornbeam_server.storage.snapshot import RowReader

Evaluate = Callable[[Row], Any]
Computed = Sequence[tuple[str, Field]]
"""Expressions over the fields of a star, as SQL, with the fields of their values."""
Reference = tuple[str, Key]
"""A relation, and the key of a row of it."""


@dataclass(frozen=True, slots=True)
class Step:
    """One parent of a star. `foreign` projects its key out of the joined row so far; `width` is its
    number of columns. `same_root`: the row of the fact and this parent are under one root, whose
    lock protects both."""

    relation: str
    foreign: Projection
    width: int
    outer: bool
    same_root: bool


@dataclass(frozen=True, slots=True)
class Descent:
    """From changed rows of one parent down to rows of the fact. `used` projects the columns that
    the view reads; `ways` lead to children, level by level."""

    relation: str
    used: Projection
    ways: tuple[Way, ...]


@dataclass(frozen=True, slots=True)
class Cells:
    """A layout of cells. `zero` are the amounts of nothing; `key` encodes the columns before the
    lane."""

    name: str
    key: Callable[[Row], bytes]
    zero: Row


@dataclass(frozen=True, slots=True)
class Contribution:
    """From a joined row to what it adds to cells: to those of its group, and to those of its values
    in each layout of values. `map` gives the grouping columns, the first `width`, and the
    arguments; `values` has the places of arguments. `indexes` have the same amounts as `cells`."""

    map: RowMap
    width: int
    amounts: tuple[Evaluate, ...]
    cells: Cells
    values: tuple[tuple[Cells, int], ...]
    indexes: tuple[Cells, ...] = ()

    def of(self, row: Row) -> Iterator[tuple[Cells, Row, Row]]:
        """Cells, the columns before the lane, and amounts; nothing if the row does not pass the
        filter."""
        mapped = self.map.row(row)
        if mapped is None:
            return
        group = mapped[: self.width] or _ONLY
        amounts = tuple([amount(mapped) for amount in self.amounts])
        yield self.cells, group, amounts
        for index in self.indexes:
            yield index, group, amounts
        for cells, place in self.values:
            if (value := mapped[place]) is not None:
                yield cells, (*group, value), _ONE_ROW

    def all_cells(self) -> tuple[Cells, ...]:
        return (self.cells, *self.indexes, *(cells for cells, _ in self.values))

    def only(self, layout: str) -> Contribution:
        """The contribution to the cells of one index, or of the view without its indexes."""
        for index in self.indexes:
            if index.name == layout:
                return replace(self, cells=index, values=(), indexes=())
        return replace(self, indexes=())


Sums = dict[tuple[str, bytes], tuple[Row, list[Any]]]
"""Amounts by layout and encoded key, with the columns before the lane. The key is encoded because
equal values may have several forms."""
_ONE_ROW: Row = (1,)
_ONLY: Row = (1,)
"""The key of the only group of a view without GROUP BY."""


@dataclass(frozen=True, slots=True, eq=False)
class StarProgram:
    """Finds the joined rows of one immediate view that change; steps 1 and 2 of the module's
    algorithm."""

    effect: ClassVar[str]
    """The change of the view for each changed row of the fact, as text."""

    name: str
    fact: str
    used: Projection
    steps: tuple[Step, ...]
    descents: tuple[Descent, ...]

    @property
    def relations(self) -> frozenset[str]:
        return frozenset([self.fact, *(step.relation for step in self.steps)])

    def explain(self) -> Iterator[str]:
        """How the view is maintained, in lines of text."""
        yield f"for each changed row of {self.fact}: {self.effect}"
        for step, descent in zip(self.steps, self.descents, strict=True):
            lock = "under the same root" if step.same_root else "its existence is locked, shared"
            yield f"   joined to {step.relation} by its key ({lock})"
            ways = ", ".join(way.layout for way in reversed(descent.ways))
            yield f"   for a changed row of {step.relation}: the rows below it, through {ways}"

    async def joined(self, base: BaseRows) -> Joined:
        """The joined rows of all affected rows before and after."""
        found = Joined(self)
        for keys in chunks(await self._affected(base)):
            found.before |= await self.rows(base, keys, BaseRows.before, found.kept)
            found.after |= await self.rows(base, keys, BaseRows.after, found.kept)
            await turn(keys)
        for step, descent in zip(self.steps, self.descents, strict=True):
            if not step.same_root:
                updated = _updated(base.changes(descent.relation), descent.used)
                found.changed.update((descent.relation, key) for key in updated)
        return found

    async def _affected(self, base: BaseRows) -> list[Key]:
        """Keys of the rows of the fact whose contribution may differ."""
        changes = base.changes(self.fact).items()
        keys = dict.fromkeys([key for key, change in changes if _differs(change, self.used)])
        for descent in self.descents:
            below = list(_updated(base.changes(descent.relation), descent.used))
            for way in descent.ways:
                if not below:
                    break
                rows = await way.rows(base.reader, below)
                below = list(dict.fromkeys(map(way.key, rows)))
                await turn(rows)
            keys.update(dict.fromkeys(below))
        return list(keys)

    async def rows(
        self, base: BaseRows, keys: Sequence[Key], side: Side, kept: set[Reference] | None = None
    ) -> dict[Key, Row]:
        """The joined rows of rows of the fact, by their keys; one read per level. The parents that
        were looked up outside of the fact's root are added to `kept`."""
        await base.fetch(self.fact, keys)
        look_up = side(base, self.fact)
        rows = {key: row for key in keys if (row := look_up(key)) is not None}
        for step in self.steps:
            if not rows:
                break
            above = {key: step.foreign(row) for key, row in rows.items()}
            wanted = {parent for parent in above.values() if None not in parent}
            await base.fetch(step.relation, wanted)
            if kept is not None and not step.same_root:
                kept.update((step.relation, parent) for parent in wanted)
            rows = dict(_stepped(step, rows, above, side(base, step.relation)))
        return rows

    async def joined_to(
        self, rows: Sequence[Row], key_of: Callable[[Row], Key], reader: RowReader
    ) -> list[Row]:
        """The joined rows of stored rows of the fact, whose keys `key_of` gives."""
        base = BaseRows(reader)
        keys = [key_of(row) for row in rows]
        for key, row in zip(keys, rows, strict=True):
            base.remember(self.fact, key, row)
        return list((await self.rows(base, keys, BaseRows.before)).values())


@dataclass(frozen=True, slots=True, eq=False)
class ImmediateProgram(StarProgram):
    """Maintains the groups of one immediate view; see the module's algorithm."""

    effect = "add to its group, without a lock on the group"

    contribution: Contribution

    def add(self, rows: Iterable[Row], sign: int, sums: Sums) -> None:
        """Add the contributions of joined rows, times `sign`, to the amounts by group."""
        combine = plus if sign > 0 else minus
        for row in rows:
            for cells, group, amounts in self.contribution.of(row):
                place = (cells.name, cells.key(group))
                known = sums.get(place)
                if known is None:
                    known = sums[place] = (group, list(cells.zero))
                known[1][:] = map(combine, known[1], amounts)


@dataclass(slots=True)
class Joined:
    """What a transaction changes in an immediate view: joined rows before and after by the key of
    the fact, the parents that must not change until the commit, and the parents that the
    transaction changes. Parents under the root of the fact are left out."""

    program: StarProgram
    before: dict[Key, Row] = field(default_factory=dict)
    after: dict[Key, Row] = field(default_factory=dict)
    kept: set[Reference] = field(default_factory=set)
    changed: set[Reference] = field(default_factory=set)

    @property
    def adds(self) -> bool:
        """Does the view consist of groups?"""
        return isinstance(self.program, ImmediateProgram)

    async def additions(self) -> list[Addition]:
        """The amounts to add to each group whose sums change."""
        if not isinstance(self.program, ImmediateProgram):
            return []
        sums: Sums = {}
        for rows, sign in ((self.before, -1), (self.after, 1)):
            for some in chunks(list(rows.values())):
                self.program.add(some, sign, sums)
                await turn(some)
        return [
            Addition(name, group, tuple(amounts))
            for (name, _), (group, amounts) in sums.items()
            if any(amounts)
        ]


def _stepped(
    step: Step,
    rows: Mapping[Key, Row],
    above: Mapping[Key, Key],
    look_up: Callable[[Key], Row | None],
) -> Iterator[tuple[Key, Row]]:
    """The joined rows with the rows of one more parent."""
    for key, row in rows.items():
        parent = None if None in above[key] else look_up(above[key])
        if parent is not None:
            yield key, row + parent
        elif step.outer:
            yield key, row + (None,) * step.width


def _differs(change: Change, used: Projection) -> bool:
    if change.old is None or change.new is None:
        return True
    return not identical(used(change.old), used(change.new))


def _updated(changes: Mapping[Key, Change], used: Projection) -> Iterator[Key]:
    """The keys of updated rows that differ in the columns that the view reads."""
    for key, change in changes.items():
        if change.old is not None and change.new is not None and _differs(change, used):
            yield key


def compile_immediate(view: ImmediateView, catalog: Catalog) -> ImmediateProgram:
    """The program of a stored view. Raises the errors of `define`, and Unsupported for an
    expression whose value only DuckDB knows."""
    return program_of(define_stored(view, catalog), catalog)


def program_of(definition: Definition, catalog: Catalog) -> ImmediateProgram:
    """The program of a defined view. Raises Unsupported for an expression whose value only DuckDB
    knows."""
    view = definition.view
    types = [column.type for column in view.cells.columns[-len(definition.parts) :]]
    parts = walk_of(view.name, definition.star, catalog)
    return ImmediateProgram(*parts, _contribution(definition, catalog, types))


Walk = tuple[str, str, Projection, tuple[Step, ...], tuple[Descent, ...]]
"""The fields of a `StarProgram`."""


def walk_of(name: str, star: Star, catalog: Catalog) -> Walk:
    """How the joined rows of view `name` are found."""
    relations = [catalog.schema.relation(scan.relation) for scan in star.scans]
    starts = [sum(len(r.columns) for r in relations[:i]) for i in range(len(relations))]
    used = [
        projection([relation.positions[column] for column in scan.columns])
        for relation, scan in zip(relations, star.scans, strict=True)
    ]
    descents = tuple(
        Descent(scan.relation, used[i], tuple(_ways(star, i, catalog)))
        for i, scan in enumerate(star.scans)
        if i
    )
    steps = tuple(_steps(star, catalog, starts))
    return name, star.scans[0].relation, used[0], steps, descents


def _steps(star: Star, catalog: Catalog, starts: Sequence[int]) -> Iterator[Step]:
    same_root = {0}
    for number, edge in enumerate(star.edges, start=1):
        child = catalog.schema.relation(star.scans[edge.child].relation)
        parent = catalog.schema.relation(edge.key.parent)
        if edge.child in same_root and catalog.forest.parent.get(child.name) == edge.key:
            same_root.add(number)
        positions = [starts[edge.child] + child.positions[column] for column in edge.key.columns]
        order = [edge.key.parent_columns.index(column) for column in parent.primary_key]
        yield Step(
            parent.name,
            projection([positions[i] for i in order]),
            len(parent.columns),
            edge.outer,
            number in same_root,
        )


def _ways(star: Star, number: int, catalog: Catalog) -> Iterator[Way]:
    """The ways from scan `number` down to the fact."""
    while number:
        edge = star.edges[number - 1]
        yield way_to_children(catalog, star.scans[edge.child].relation, edge.key)
        number = edge.child


def _contribution(
    definition: Definition, catalog: Catalog, types: Sequence[ColumnType]
) -> Contribution:
    view, width = definition.view, len(definition.groups)
    names = {field.name: width + i for i, (_, field) in enumerate(definition.arguments)}
    return Contribution(
        row_map(
            definition.star,
            (*definition.groups, *definition.arguments),
            definition.where,
            catalog,
        ),
        width,
        tuple(
            _amount(part.kind, type_, names.get(part.argument))
            for part, type_ in zip(definition.parts, types, strict=True)
        ),
        _cells(view.cells_name, view.cells, tuple(map(_zero, types))),
        tuple(
            (_cells(name, state, (0,)), width + number)
            for name, state, number in zip(
                view.values_names, view.values, definition.valued, strict=True
            )
        ),
        tuple(
            _index_cells(catalog.layout(cells_of_index(index.name)), types)
            for index in catalog.indexes_on(view.name)
            if catalog.maintained(index.name)
        ),
    )


def _index_cells(layout: Layout, types: Sequence[ColumnType]) -> Cells:
    prefix, order = LayoutCodec(layout).prefix, projection(layout.key_positions[:-1])
    return Cells(layout.name, lambda group: prefix(order(group)), tuple(map(_zero, types)))


def row_map(star: Star, computed: Computed, where: Sequence[str], catalog: Catalog) -> RowMap:
    """The filter over joined rows, and the projection to computed fields. Raises Unsupported for
    an expression whose value only DuckDB knows."""
    condition = " AND ".join(f"({sql})" for sql in where)
    fields, expressions = tuple(f for _, f in computed), tuple(sql for sql, _ in computed)
    map_ = Map(star.scans[0], fields, expressions, condition, {}, None)
    try:
        return compile_maps((map_,), tuple(_joined_fields(star, catalog)), stored=True)
    except NotCompiledError as error:
        raise Unsupported(
            f"The expression {error.expression} cannot be evaluated in a transaction.", cure=LATER
        ) from None


def _joined_fields(star: Star, catalog: Catalog) -> Iterator[Field]:
    """The fields of joined rows. Columns that the view does not read have names of no field."""
    for number, scan in enumerate(star.scans):
        known = dict(zip(scan.columns, scan.fields, strict=True))
        for stored in stored_fields(catalog.schema.relation(scan.relation).columns):
            yield known.get(stored.name) or replace(stored, name=f"{number} {stored.name}")


def _cells(name: str, state: StateLayout, zero: Row) -> Cells:
    return Cells(name, LayoutCodec(Layout(name, "", state.columns, state.key, "")).prefix, zero)


def _amount(kind: str, type_: ColumnType, place: int | None) -> Evaluate:
    """The amount that a row of groups and arguments adds to one sum of its group, which has the
    type `type_`. `place` is the place of its argument; None: it counts rows."""
    if place is None:
        return lambda _: 1
    if kind == "count":
        return lambda row: 0 if row[place] is None else 1
    zero = _zero(type_)
    if isinstance(zero, Decimal):
        return lambda row: zero if (value := row[place]) is None else Decimal(value)  # type: ignore[arg-type]
    return lambda row: zero if (value := row[place]) is None else int(value)  # type: ignore[arg-type]


def _zero(type_: ColumnType) -> Value:
    return Decimal(0) if type_.kind is Kind.DECIMAL else 0
