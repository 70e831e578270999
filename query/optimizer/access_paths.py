"""Access paths: enumerate the paths to the rows of one source and choose the cheapest. Pure.

A source (relation or view) is stored under its key and under the keys of its indexes. Filters and
join columns that fix leading key parts turn a scan into point reads, prefix reads or a range read.
Invariant: an access path uses *necessary conditions* only. Execution checks the whole WHERE again
on the returned rows, so a path may deliver too many rows but never too few.

The unit of cost is one scanned row; the constants below are ratios measured on the embedded store.
Cardinalities come from `Catalog.row_counts`; unknown ones are `DEFAULT_ROWS`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from hornbeam_server.query.binding.algebra import (
    Block,
    Comparison,
    EquiJoin,
    Filter,
    ParameterList,
)
from hornbeam_server.query.optimizer.partial_indexes import implies
from hornbeam_server.query.parsing.placeholders import Parameter
from hornbeam_server.schema.catalog import Catalog, Index, Layout
from hornbeam_server.schema.views import ProjectedView

DEFAULT_ROWS = 1000
SEEK_COST = 4.0
"""Cost of opening one prefix or range, in scanned rows."""
GET_COST = 1.5
"""Cost of reading one row by its full key, in scanned rows."""
ORDERED_SHARE = 0.1
"""Fraction of a path's cost that remains when its order lets LIMIT stop the read early."""

Parameters = Mapping[int | str, Any]
NullsApart = Literal["first", "last"] | None
"""Coerced values by parameter: number (from 0) or name."""


class Reach(enum.StrEnum):
    """The kind of read, by how much of the key is fixed; best first."""

    POINT = "point"
    PREFIX = "prefix"
    RANGE = "range"
    SCAN = "scan"


@dataclass(frozen=True, slots=True)
class JoinColumn:
    """A value from rows that an earlier join step has fetched: `column` of `alias`."""

    alias: str
    column: str


@dataclass(frozen=True, slots=True)
class Equality:
    """A key column equals one of `operands`: constants and `Parameter`s, `JoinColumn`s, or one
    `ParameterList`.

    `null` means IS NULL, the only condition that matches NULLs in a key.
    """

    column: str
    operands: tuple[Any, ...] = ()
    null: bool = False

    @property
    def single(self) -> bool:
        """Whether there is exactly one value."""
        one = len(self.operands) == 1 and not isinstance(self.operands[0], ParameterList)
        return self.null or one

    @property
    def expected(self) -> float:
        """The estimated number of values."""
        known = (o.rows if isinstance(o, ParameterList) else 1.0 for o in self.operands)
        return max(1.0, sum(known))


@dataclass(frozen=True, slots=True)
class Hint:
    """A one-directional condition: columns of other sources narrow `alias`, not vice versa."""

    alias: str
    equality: Equality


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range."""

    operand: Any
    inclusive: bool


@dataclass(frozen=True, slots=True)
class Term:
    """One plain column of ORDER BY, with its direction and NULL placement."""

    column: str
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class Access:
    """An access path to `source` through `layout` (the source itself or one of its indexes).

    `equalities` fix the first key parts; `low`, `high` or `like` restrict the next part. A path
    that is not `covering` reads index rows and then the source's rows by key. The path delivers
    the first `ordered` terms of the requested order, with a backward scan if `reverse`.
    `nulls_apart` reads the NULLs of the first free key part before ("first") or after ("last") its
    other values. `rows` and `cost` are estimates.
    """

    alias: str
    source: Layout
    layout: Layout
    reach: Reach
    equalities: tuple[Equality, ...] = ()
    low: Bound | None = None
    high: Bound | None = None
    like: Any = None
    covering: bool = True
    ordered: int = 0
    reverse: bool = False
    nulls_apart: NullsApart = None
    rows: float = DEFAULT_ROWS
    cost: float = DEFAULT_ROWS

    @property
    def output(self) -> Layout:
        """The layout of the rows that the path returns."""
        return self.layout if self.covering else self.source

    @property
    def join_columns(self) -> tuple[JoinColumn, ...]:
        """The columns of other sources whose values this path needs."""
        return tuple(
            operand
            for equality in self.equalities
            for operand in equality.operands
            if isinstance(operand, JoinColumn)
        )

    @property
    def single(self) -> bool:
        """Whether each equality has one value, so that the path reads one key or prefix."""
        return all(equality.single for equality in self.equalities)

    @property
    def next_part(self) -> str:
        """The key column after the equalities. Raises IndexError for a point read."""
        return self.layout.key[len(self.equalities)].column


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions on one source's columns that are known before the source is read."""

    equal: Mapping[str, Equality]
    filters: Mapping[str, tuple[Filter, ...]]
    lookups: float = 1.0
    """How often the path runs: the estimated number of rows joined to the source."""


# --- enumeration and choice ------------------------------------------------------------------

C = TypeVar("C", Filter, Equality)


def choose(
    catalog: Catalog,
    block: Block,
    alias: str,
    *,
    fetched: Mapping[str, float] | None = None,
    order: Sequence[Term] = (),
    limited: bool = False,
    joined: bool = False,
    hints: Sequence[Hint] = (),
) -> Access:
    """The cheapest path to the source `alias` of `block`.

    `fetched` are the sources that were read before, with their estimated rows. Equi-joins and
    `hints` may use their columns as join values; with `joined`, a path that does so takes
    precedence. With `limited`, a path that delivers the whole `order` costs less (`ORDERED_SHARE`).
    """
    paths = Paths(catalog, block, alias, hints)
    return paths.cheapest(fetched or {}, order=order, limited=limited, joined=joined)


class Paths:
    """The paths to one source of a block. The search for the join order chooses from them many
    times. `partners` are the sources whose columns may serve as join values."""

    def __init__(
        self, catalog: Catalog, block: Block, alias: str, hints: Sequence[Hint] = ()
    ) -> None:
        self.alias = alias
        self.catalog = catalog
        self.source = catalog.layout(block.relation(alias))
        columns = block.columns.get(alias, frozenset(self.source.column_names))
        same = equal_columns(catalog, self.source)
        filters = _on_all(block.key_filters_of(alias), same)
        self.layouts = tuple(_layouts(catalog, self.source, columns, filters))
        self.joins = tuple(_on_all(list(_join_equalities(block, hints, alias)), same))
        self.partners = tuple(
            dict.fromkeys(o.alias for equality in self.joins for o in equality.operands)
        )
        self.fixed = dict(_fixed(filters))
        self.filters: dict[str, tuple[Filter, ...]] = {}
        for item in filters:
            self.filters[item.column] = (*self.filters.get(item.column, ()), item)
        self._found: dict[tuple[Any, ...], Access] = {}

    def cheapest(
        self,
        fetched: Mapping[str, float],
        *,
        order: Sequence[Term] = (),
        limited: bool = False,
        joined: bool = False,
    ) -> Access:
        """The cheapest path, with the arguments of `choose`. Results are cached."""
        key = (
            joined,
            limited,
            tuple(order),
            tuple(fetched.get(partner) for partner in self.partners),
        )
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._cheapest(fetched, order, limited, joined)
        return found

    def _cheapest(
        self, fetched: Mapping[str, float], order: Sequence[Term], limited: bool, joined: bool
    ) -> Access:
        conditions = self._conditions(fetched)
        priced = (
            (path, ordering, *_price(self.catalog, path, conditions, limited, ordering))
            for layout, covering in self.layouts
            for path in (_path(self.alias, self.source, layout, conditions, covering),)
            for ordering in _orderings(path, order, self.fixed)
        )
        path, ordering, rows, cost = min(
            priced, key=lambda entry: (joined and not entry[0].join_columns, entry[3])
        )
        return replace(
            path,
            rows=rows,
            cost=cost,
            ordered=ordering.terms,
            reverse=ordering.reverse,
            nulls_apart=ordering.nulls_apart,
        )

    def _conditions(self, fetched: Mapping[str, float]) -> Conditions:
        """The conditions that apply once `fetched` is read. Constants take precedence over join
        values; among join values, those from the source with the fewest rows."""
        found = [
            (max(fetched[operand.alias] for operand in equality.operands), equality)
            for equality in self.joins
            if all(operand.alias in fetched for operand in equality.operands)
        ]
        equal: dict[str, Equality] = {}
        for _, equality in sorted(found, key=lambda entry: entry[0]):
            equal.setdefault(equality.column, equality)
        lookups = max((rows for rows, _ in found), default=1.0)
        return Conditions(equal | self.fixed, self.filters, max(1.0, lookups))


def equal_columns(catalog: Catalog, source: Layout) -> Mapping[str, str]:
    """Column of a join view → the topmost column that its joins make equal, if both have one type.
    A condition on one of them is a condition on all."""
    view = catalog.view.get(source.name)
    types = {column.name: column.type.stored() for column in source.columns}
    equal = {} if view is None else view.equal_columns
    return {name: top for name, top in equal.items() if types[name] == types[top]}


def _on_all(conditions: Sequence[C], same: Mapping[str, str]) -> list[C]:
    """The conditions, each also on the columns that are equal to its own."""
    found = list(conditions)
    for item in conditions:
        top = same.get(item.column)
        others = [name for name, of in same.items() if of == top and name != item.column]
        found += [replace(item, column=name) for name in others]
    return list(dict.fromkeys(found))


def _fixed(filters: Sequence[Filter]) -> Iterator[tuple[str, Equality]]:
    """Yield the columns that filters fix. Of two entries for a column, the later has fewer
    values."""
    for item in sorted(filters, key=lambda f: len(f.values), reverse=True):
        if item.comparison in (Comparison.EQ, Comparison.IN):
            yield item.column, Equality(item.column, item.values)
        elif item.comparison is Comparison.IS_NULL:
            yield item.column, Equality(item.column, null=True)


def _join_equalities(block: Block, hints: Sequence[Hint], alias: str) -> Iterator[Equality]:
    """Yield the equalities between columns of `alias` and columns of other sources."""
    exchanged = (swapped(join) for join in block.equi_joins)
    for join in (*block.equi_joins, *exchanged):
        if join.right == alias != join.left:
            for theirs, own in zip(join.left_columns, join.right_columns, strict=True):
                yield Equality(own, (JoinColumn(join.left, theirs),))
    yield from (hint.equality for hint in hints if hint.alias == alias)


def swapped(join: EquiJoin) -> EquiJoin:
    """The same join with left and right exchanged."""
    return EquiJoin(join.right, join.right_columns, join.left, join.left_columns)


def _layouts(
    catalog: Catalog, source: Layout, columns: Iterable[str], filters: Sequence[Filter]
) -> Iterator[tuple[Layout, bool]]:
    """Yield the source and its readable indexes, and whether each holds all `columns`. A partial
    index counts only if `filters` imply its condition."""
    yield source, True
    for index in catalog.indexes_on(source.name):
        if catalog.readable(index.name) and (not index.where or implies(filters, index, catalog)):
            layout = catalog.layout(index.name)
            yield layout, all(column in layout.positions for column in columns)


def _path(
    alias: str, source: Layout, layout: Layout, conditions: Conditions, covering: bool
) -> Access:
    """The path through `layout` on which the conditions fix as many key parts as possible."""
    equalities: list[Equality] = []
    for part in layout.key:
        if part.column not in conditions.equal:
            break
        equalities.append(conditions.equal[part.column])
    fixed = tuple(equalities)
    if len(fixed) == len(layout.key):
        return Access(alias, source, layout, Reach.POINT, fixed, covering=covering)
    low, high, like = _bounds(conditions.filters.get(layout.key[len(fixed)].column, ()))
    if low or high or like is not None:
        return Access(alias, source, layout, Reach.RANGE, fixed, low, high, like, covering)
    reach = Reach.PREFIX if fixed else Reach.SCAN
    return Access(alias, source, layout, reach, fixed, covering=covering)


_LOW = {Comparison.GT: False, Comparison.GE: True}
_HIGH = {Comparison.LT: False, Comparison.LE: True}


def _bounds(filters: Iterable[Filter]) -> tuple[Bound | None, Bound | None, Any]:
    """(lower bound, upper bound, LIKE pattern); execution checks any further conditions."""
    low = high = like = None
    for item in filters:
        if item.comparison in _LOW:
            low = low or Bound(item.values[0], _LOW[item.comparison])
        elif item.comparison in _HIGH:
            high = high or Bound(item.values[0], _HIGH[item.comparison])
        elif item.comparison is Comparison.PREFIX and like is None:
            like = item.values[0]
    return (low, high, None) if low or high else (None, None, like)


def exact(access: Access, block: Block) -> bool:
    """Whether the path's rows satisfy the whole WHERE, so that no check remains.

    True only for a block over one source. LIKE always needs the check, because its pattern may
    continue after the first wildcard.
    """
    if len(block.sources) != 1 or not block.conjunctive or access.like is not None:
        return False
    used = [f for f in block.filters if _used(access, f)]
    return len({(f.column, f.comparison) for f in used}) == len(used) == len(block.filters)


def _used(access: Access, item: Filter) -> bool:
    for equality in access.equalities:
        if equality.column == item.column:
            if equality.null:
                return item.comparison is Comparison.IS_NULL
            equal = item.comparison in (Comparison.EQ, Comparison.IN)
            return equal and equality.operands == item.values
    if access.reach is not Reach.RANGE or item.column != access.next_part:
        return False
    bound = access.low if item.comparison in _LOW else access.high
    return item.comparison in (*_LOW, *_HIGH) and (
        bound is not None
        and bound.operand == item.values[0]
        and bound.inclusive is (item.comparison in (Comparison.GE, Comparison.LE))
    )


# --- order -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ordering:
    """How many terms of the requested order a scan in one direction delivers."""

    terms: int = 0
    reverse: bool = False
    nulls_apart: NullsApart = None
    complete: bool = False


def _orderings(
    path: Access, order: Sequence[Term], fixed: Mapping[str, Equality]
) -> Iterator[Ordering]:
    """Yield the orderings to consider: none, a forward scan and a backward scan. Filters fix the
    columns `fixed`, also where the path does not use them."""
    yield Ordering(complete=not order)
    if order and path.single and not path.join_columns:
        constant = frozenset(column for column, equality in fixed.items() if equality.single)
        for reverse in (False, True):
            found = _delivered(path, order, reverse, constant)
            if found.terms:
                yield found


def _delivered(
    path: Access, order: Sequence[Term], reverse: bool, filtered: frozenset[str]
) -> Ordering:
    """Match ORDER BY's terms with key parts, skipping columns that have one value.

    Keys sort NULL before all values, or after them in a descending part. The requested NULL
    placement matters only for nullable columns. For the first free part, a separate read of its
    NULLs can deliver the other placement.
    """
    constant = {*filtered, *(equality.column for equality in path.equalities)}
    parts = iter(path.layout.key[len(path.equalities) :])
    nullable = {column.name for column in path.layout.columns if column.nullable}
    if path.reach is Reach.RANGE:
        nullable.discard(path.next_part)
    first = True
    nulls_apart: NullsApart = None
    for count, term in enumerate(order):
        if term.column in constant:
            continue
        part = next(parts, None)
        if part is None:
            break  # all key parts are used: the key is unique, so later terms change nothing
        if part.column != term.column or part.descending ^ reverse is not term.descending:
            return Ordering(count, reverse, nulls_apart)
        if part.column in nullable and term.nulls_first is term.descending:
            if not first:
                return Ordering(count, reverse, nulls_apart)
            nulls_apart = "first" if term.nulls_first else "last"
        constant.add(part.column)
        first = False
    return Ordering(len(order), reverse, nulls_apart, complete=True)


# --- estimates -------------------------------------------------------------------------------


def _price(
    catalog: Catalog, path: Access, conditions: Conditions, limited: bool, ordering: Ordering
) -> tuple[float, float]:
    """(estimated rows, cost) of the path with `ordering`."""
    total = estimated_rows(catalog, path.source.name)
    keys = conditions.lookups if path.join_columns else 1.0
    for equality in path.equalities:
        keys *= equality.expected
    rows = min(total, keys * _rows_per_key(catalog, path, total))
    cost = keys * GET_COST if path.reach is Reach.POINT else keys * SEEK_COST + rows
    if not path.covering:
        cost += rows * GET_COST
    if path.covering and len(path.layout.columns) < len(path.source.columns):
        cost *= 0.9  # index rows are shorter
    if limited and ordering.complete:
        cost *= ORDERED_SHARE
    elif ordering.terms:
        cost *= 0.95 if not limited else 0.5  # sorted in small groups
    return rows, cost


def _rows_per_key(catalog: Catalog, path: Access, total: float) -> float:
    if path.reach is Reach.POINT or _fixes_unique(catalog, path):
        return 1.0
    rows = total
    fixed = tuple(equality.column for equality in path.equalities)
    if fixed:
        rows = total / distinct_values(catalog, path.source, fixed, total)
    if path.low and path.high:
        rows /= 10
    elif path.reach is Reach.RANGE:
        rows /= 4 if path.like is None else 10
    return max(1.0, rows)


def _fixes_unique(catalog: Catalog, path: Access) -> bool:
    index: Index | None = catalog.index.get(path.layout.name)
    fixed = {equality.column for equality in path.equalities if not equality.null}
    if index is not None and index.unique and fixed >= {part.column for part in index.columns}:
        return True
    return fixed >= {part.column for part in path.source.key}


def fewest_rows(accesses: Iterable[Access]) -> float:
    """The estimated rows of a query: those of its smallest source."""
    return min((access.rows for access in accesses), default=1.0)


def estimated_rows(catalog: Catalog, name: str) -> float:
    """The estimated rows of a relation or view. A join view has as many rows as its last relation.
    Each grouping column of an immediate view has the square root of its rows as values."""
    found = catalog.row_count.get(name)
    if found is None and name in catalog.view:
        found = catalog.row_count.get(catalog.view[name].last)
    declared = catalog.declared_view.get(name)
    if found is None and isinstance(declared, ProjectedView):
        return estimated_rows(catalog, declared.relations[0])
    if found is None and name in catalog.immediate_view:
        view = catalog.immediate_view[name]
        rows = estimated_rows(catalog, view.relations[0])
        return float(min(rows, rows ** (len(view.key) / 2))) if view.grouped else 1.0
    return float(max(1, DEFAULT_ROWS if found is None else found))


def distinct_values(
    catalog: Catalog, source: Layout, columns: tuple[str, ...], total: float
) -> float:
    """The estimated number of distinct values of `columns`: the parent's rows for a foreign key,
    the square root of the rows for any other column.
    """
    distinct = 1.0
    left = set(columns)
    for names, parent in _references(catalog, source):
        if names <= left:
            left -= names
            distinct *= estimated_rows(catalog, parent)
    distinct *= float(total**0.5) ** len(left)
    return min(distinct, total)


def _references(catalog: Catalog, source: Layout) -> Iterator[tuple[set[str], str]]:
    """Yield (columns, relation): columns of the source that hold the key of a relation."""
    if source.name in catalog.schema:
        for foreign_key in catalog.schema.relation(source.name).foreign_keys:
            yield set(foreign_key.columns), foreign_key.parent
        return
    view = catalog.view.get(source.name)
    if view is None:  # a declared view
        return
    for name in view.path:
        relation = catalog.schema.relation(name)
        if name != view.last:
            yield {view.names[name, column] for column in relation.primary_key}, name
        for foreign_key in relation.foreign_keys:
            yield {view.names[name, column] for column in foreign_key.columns}, foreign_key.parent


# --- words -----------------------------------------------------------------------------------


def shown(operand: Any) -> str:
    """The operand as SQL text."""
    match operand:
        case Parameter(int()):
            return "?"
        case Parameter(str() as name):
            return f":{name}" if name.isidentifier() else "(the subquery's answer)"
        case ParameterList():
            return "the subquery's answers"
        case JoinColumn(alias, column):
            return f"{alias}.{column}"
        case str():
            return "'" + operand.replace("'", "''") + "'"
        case None:
            return "NULL"
        case _:
            return str(operand)


def describe_keys(access: Access) -> str:
    """The conditions that the path uses, as SQL text."""
    words = []
    for equality in access.equalities:
        if equality.null:
            words.append(f"{equality.column} IS NULL")
        elif equality.single:
            words.append(f"{equality.column} = {shown(equality.operands[0])}")
        else:
            words.append(f"{equality.column} IN ({', '.join(map(shown, equality.operands))})")
    if access.low:
        sign = ">=" if access.low.inclusive else ">"
        words.append(f"{access.next_part} {sign} {shown(access.low.operand)}")
    if access.high:
        sign = "<=" if access.high.inclusive else "<"
        words.append(f"{access.next_part} {sign} {shown(access.high.operand)}")
    if access.like is not None:
        words.append(f"{access.next_part} LIKE {shown(access.like)}")
    return " AND ".join(words)
