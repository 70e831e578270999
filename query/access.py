"""Access paths: how the rows of one source can be reached, and which way is cheapest. Pure.

A source (relation or view) is stored under its key and under the keys of its indexes. Filters and
join columns that fix leading key parts turn a scan into point reads, prefix reads or a range.
Everything chosen here is a *necessary condition* only: whoever runs the query checks the whole
WHERE again on the rows that come back, so a path may deliver too much, never too little.

Cost is counted in rows scanned; the constants below are ratios measured on the embedded store.
Cardinalities come from `Catalog.row_counts`; what is unknown is guessed (`DEFAULT_ROWS`).
"""

from __future__ import annotations

import datetime as dt
import enum
import itertools
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from query.algebra import Block, Comparison, EquiJoin, Filter, Parameter, ParameterList
from schema.catalog import Catalog, Index, Layout
from schema.types import ColumnType, Kind, Value
from storage.codec.keyrange import KeyRange

DEFAULT_ROWS = 1000
SEEK_COST = 4.0
"""One prefix or range, in scanned rows."""
GET_COST = 1.5
"""One row by its full key, in scanned rows."""
ORDERED_SHARE = 0.1
"""Share of a path's cost that remains when its order lets LIMIT stop it early."""

Parameters = Mapping[int | str, Any]
"""Coerced values by parameter: number (from 0) or name."""


class Reach(enum.StrEnum):
    """How much of the key is fixed, best first."""

    POINT = "point"
    PREFIX = "prefix"
    RANGE = "range"
    SCAN = "scan"


@dataclass(frozen=True, slots=True)
class JoinColumn:
    """A value that comes from rows fetched before: `column` of `alias`."""

    alias: str
    column: str


@dataclass(frozen=True, slots=True)
class Equality:
    """A key column equals one of `operands`: constants and `Parameter`s, `JoinColumn`s, or one
    `ParameterList`.

    `null` means IS NULL: the only way in which a key's NULLs are matched.
    """

    column: str
    operands: tuple[Any, ...] = ()
    null: bool = False

    @property
    def single(self) -> bool:
        """Is it one value?"""
        one = len(self.operands) == 1 and not isinstance(self.operands[0], ParameterList)
        return self.null or one

    @property
    def expected(self) -> float:
        """How many values it may be: an estimate."""
        known = (o.rows if isinstance(o, ParameterList) else 1.0 for o in self.operands)
        return max(1.0, sum(known))


@dataclass(frozen=True, slots=True)
class Hint:
    """A condition that narrows `alias` by columns of other sources, but not them by it."""

    alias: str
    equality: Equality


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range."""

    operand: Any
    inclusive: bool


@dataclass(frozen=True, slots=True)
class Term:
    """One plain column of ORDER BY, with the place of its NULLs."""

    column: str
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class Access:
    """A way to read `source`, by reading `layout` (the source itself or one of its indexes).

    `equalities` fix the first key parts; `low`, `high` or `like` restrict the next one. A path
    that is not `covering` reads index rows and then the source's rows by key. `ordered` leading
    terms of the wanted order are delivered by the path (scanned in `reverse`, if so);
    `nulls_last` asks for the NULLs of the first free key part after all others. `rows` and
    `cost` are estimates.
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
    nulls_last: bool = False
    rows: float = DEFAULT_ROWS
    cost: float = DEFAULT_ROWS

    @property
    def output(self) -> Layout:
        """Layout of the rows that come out."""
        return self.layout if self.covering else self.source

    @property
    def join_columns(self) -> tuple[JoinColumn, ...]:
        """What this path needs of other sources."""
        return tuple(
            operand
            for equality in self.equalities
            for operand in equality.operands
            if isinstance(operand, JoinColumn)
        )

    @property
    def single(self) -> bool:
        """Is there one value per equality, so that one key or prefix is read?"""
        return all(equality.single for equality in self.equalities)

    @property
    def next_part(self) -> str:
        """Key column behind the equalities. Raises IndexError for a point."""
        return self.layout.key[len(self.equalities)].column


@dataclass(frozen=True, slots=True)
class Conditions:
    """What is known of one source's columns before it is read."""

    equal: Mapping[str, Equality]
    filters: Mapping[str, tuple[Filter, ...]]
    lookups: float = 1.0
    """How often the path runs: the estimated rows of what it is joined to."""


# --- enumeration and choice ------------------------------------------------------------------


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

    `fetched` are the sources read before, with their estimated rows: their columns may serve as
    join values, through equi-joins and `hints`; with `joined`, a path that uses them is taken
    before any other. With `limited`, a path that delivers the whole `order` is worth a detour.
    """
    source = catalog.layout(block.relation(alias))
    columns = block.columns.get(alias, frozenset(source.column_names))
    conditions = _conditions(block, alias, fetched or {}, hints)
    paths = (
        _price(catalog, replace(path, ordered=0), conditions, limited, ordering)
        for path in _paths(catalog, alias, source, columns, conditions)
        for ordering in _orderings(path, order)
    )
    return min(paths, key=lambda path: (joined and not path.join_columns, path.cost))


def _conditions(
    block: Block, alias: str, fetched: Mapping[str, float], hints: Sequence[Hint]
) -> Conditions:
    filters = [f for f in block.filters if f.alias == alias]
    equal: dict[str, Equality] = {}
    lookups = 1.0
    for rows, equality in _join_values(block, hints, alias, fetched):
        equal.setdefault(equality.column, equality)
        lookups = max(lookups, rows)
    for item in sorted(filters, key=lambda f: len(f.values), reverse=True):
        if item.comparison in (Comparison.EQ, Comparison.IN):
            equal[item.column] = Equality(item.column, item.values)
        elif item.comparison is Comparison.IS_NULL:
            equal[item.column] = Equality(item.column, null=True)
    by_column: dict[str, tuple[Filter, ...]] = {}
    for item in filters:
        by_column[item.column] = (*by_column.get(item.column, ()), item)
    return Conditions(equal, by_column, lookups)


def unbounded(type_: ColumnType) -> ColumnType:
    """The type without its length: a longer text is a fair thing to compare with."""
    return replace(type_, length=None)


def _join_values(
    block: Block, hints: Sequence[Hint], alias: str, fetched: Mapping[str, float]
) -> list[tuple[float, Equality]]:
    """(rows joined to, own column equals their column) where they are fetched, fewest first."""
    exchanged = (swapped(join) for join in block.equi_joins)
    equalities = [
        Equality(own, (JoinColumn(join.left, theirs),))
        for join in (*block.equi_joins, *exchanged)
        if join.right == alias != join.left
        for theirs, own in zip(join.left_columns, join.right_columns, strict=True)
    ]
    equalities += [hint.equality for hint in hints if hint.alias == alias]
    found = [
        (max(fetched[operand.alias] for operand in equality.operands), equality)
        for equality in equalities
        if all(operand.alias in fetched for operand in equality.operands)
    ]
    return sorted(found, key=lambda entry: entry[0])


def swapped(join: EquiJoin) -> EquiJoin:
    """The same join written the other way round."""
    return EquiJoin(join.right, join.right_columns, join.left, join.left_columns)


def _paths(
    catalog: Catalog,
    alias: str,
    source: Layout,
    columns: Iterable[str],
    conditions: Conditions,
) -> Iterator[Access]:
    yield _path(alias, source, source, conditions)
    for index in catalog.indexes_on(source.name):
        if catalog.readable(index.name):
            layout = catalog.layout(index.name)
            covering = all(column in layout.positions for column in columns)
            yield replace(_path(alias, source, layout, conditions), covering=covering)


def _path(alias: str, source: Layout, layout: Layout, conditions: Conditions) -> Access:
    """The most that the conditions fix of `layout`'s key."""
    equalities: list[Equality] = []
    for part in layout.key:
        if part.column not in conditions.equal:
            break
        equalities.append(conditions.equal[part.column])
    fixed = tuple(equalities)
    if len(fixed) == len(layout.key):
        return Access(alias, source, layout, Reach.POINT, fixed)
    low, high, like = _bounds(conditions.filters.get(layout.key[len(fixed)].column, ()))
    if low or high or like is not None:
        return Access(alias, source, layout, Reach.RANGE, fixed, low, high, like)
    return Access(alias, source, layout, Reach.PREFIX if fixed else Reach.SCAN, fixed)


_LOW = {Comparison.GT: False, Comparison.GE: True}
_HIGH = {Comparison.LT: False, Comparison.LE: True}


def _bounds(filters: Iterable[Filter]) -> tuple[Bound | None, Bound | None, Any]:
    """One lower, one upper and one LIKE condition; further ones are left to the check."""
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
    """Do the path's rows satisfy the whole WHERE, so that nothing is left to check?

    Only for a block over one source. A pattern may go on behind its first wildcard, so LIKE needs
    the check.
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
    """How far a scan in one direction delivers the wanted order."""

    terms: int = 0
    reverse: bool = False
    nulls_last: bool = False
    complete: bool = False


def _orderings(path: Access, order: Sequence[Term]) -> Iterator[Ordering]:
    """Without order, or forwards, or backwards."""
    yield Ordering(complete=not order)
    if order and path.single and not path.join_columns:
        for reverse in (False, True):
            found = _delivered(path, order, reverse)
            if found.terms:
                yield found


def _delivered(path: Access, order: Sequence[Term], reverse: bool) -> Ordering:
    """Match ORDER BY's terms with key parts, skipping columns that have one value.

    Keys sort NULL before all values, or after them in a descending part; the wanted place of
    NULLs matters where there can be any. For the first free part they can be had last by
    reading them separately.
    """
    constant = {equality.column for equality in path.equalities}
    parts = iter(path.layout.key[len(path.equalities) :])
    nullable = {column.name for column in path.layout.columns if column.nullable}
    if path.reach is Reach.RANGE:
        nullable.discard(path.next_part)
    first, nulls_last = True, False
    for count, term in enumerate(order):
        if term.column in constant:
            continue
        part = next(parts, None)
        if part is None:
            break  # the whole key is used up: what follows cannot decide anything
        if part.column != term.column or part.descending ^ reverse is not term.descending:
            return Ordering(count, reverse, nulls_last)
        if part.column in nullable and term.nulls_first is term.descending:
            if not first or term.nulls_first:
                return Ordering(count, reverse, nulls_last)
            nulls_last = True
        constant.add(part.column)
        first = False
    return Ordering(len(order), reverse, nulls_last, complete=True)


# --- estimates -------------------------------------------------------------------------------


def _price(
    catalog: Catalog, path: Access, conditions: Conditions, limited: bool, ordering: Ordering
) -> Access:
    total = estimated_rows(catalog, path.source.name)
    keys = conditions.lookups if path.join_columns else 1.0
    for equality in path.equalities:
        keys *= equality.expected
    rows = min(total, keys * _rows_per_key(catalog, path, total))
    cost = keys * GET_COST if path.reach is Reach.POINT else keys * SEEK_COST + rows
    if not path.covering:
        cost += rows * GET_COST
    if path.covering and path.layout is not path.source:
        cost *= 0.9  # index rows are shorter
    if limited and ordering.complete:
        cost *= ORDERED_SHARE
    elif ordering.terms:
        cost *= 0.95 if not limited else 0.5  # sorted in small groups
    return replace(
        path,
        rows=rows,
        cost=cost,
        ordered=ordering.terms,
        reverse=ordering.reverse,
        nulls_last=ordering.nulls_last,
    )


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
    """A guess at the rows of a query: those of its smallest source."""
    return min((access.rows for access in accesses), default=1.0)


def estimated_rows(catalog: Catalog, name: str) -> float:
    """Rows of a relation or view. A view has as many rows as its last relation."""
    found = catalog.row_count.get(name)
    if found is None and name in catalog.view:
        found = catalog.row_count.get(catalog.view[name].last)
    return float(max(1, DEFAULT_ROWS if found is None else found))


def distinct_values(
    catalog: Catalog, source: Layout, columns: tuple[str, ...], total: float
) -> float:
    """How many different values `columns` have: a foreign key as many as its parent has rows,
    anything else the square root of the rows.
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
    """(columns, relation): columns of the source that hold the key of a relation."""
    if source.name in catalog.schema:
        for foreign_key in catalog.schema.relation(source.name).foreign_keys:
            yield set(foreign_key.columns), foreign_key.parent
        return
    view = catalog.view[source.name]
    for name in view.path:
        relation = catalog.schema.relation(name)
        if name != view.last:
            yield {view.names[name, column] for column in relation.primary_key}, name
        for foreign_key in relation.foreign_keys:
            yield {view.names[name, column] for column in foreign_key.columns}, foreign_key.parent


# --- values at run time ----------------------------------------------------------------------


def value_of(operand: Any, parameters: Parameters) -> Value:
    """A constant, or the value of a parameter."""
    if isinstance(operand, Parameter):
        found: Value = parameters[operand.name]
        return found
    constant: Value = operand
    return constant


def values_of(operands: Iterable[Any], parameters: Parameters) -> Iterator[Value]:
    """The values that operands stand for."""
    for operand in operands:
        if isinstance(operand, ParameterList):
            yield from parameters[operand.name]
        else:
            yield value_of(operand, parameters)


def keys(access: Access, parameters: Parameters) -> list[tuple[Value, ...]]:
    """All value tuples of the equalities, each once. NULL equals nothing."""
    choices: list[list[Value]] = []
    for equality in access.equalities:
        if equality.null:
            choices.append([None])
            continue
        choices.append([v for v in values_of(equality.operands, parameters) if v is not None])
    if all(len(values) == 1 for values in choices):
        return [tuple(values[0] for values in choices)]
    return list(dict.fromkeys(itertools.product(*choices)))


def ranges(access: Access, parameters: Parameters) -> list[KeyRange]:
    """Key ranges that hold every row wanted, in the order to read them."""
    bounds = _range_values(access, parameters)
    if bounds is None:
        return []
    found = [replace(bounds, prefix=key) for key in keys(access, parameters)]
    if not access.nulls_last:
        return found
    part = access.layout.columns[access.layout.positions[access.next_part]]
    return [
        piece
        for item in found
        for piece in (
            replace(item, low=LOWEST[part.type.kind]),
            KeyRange((*item.prefix, None)),
        )
    ]


def _range_values(access: Access, parameters: Parameters) -> KeyRange | None:
    """Low and high as values; None when a bound is NULL, which nothing compares with."""
    if access.reach is not Reach.RANGE:
        return KeyRange()
    if access.like is not None:
        pattern = value_of(access.like, parameters)
        return None if pattern is None else _like_range(str(pattern))
    low = value_of(access.low.operand, parameters) if access.low else None
    high = value_of(access.high.operand, parameters) if access.high else None
    if (access.low and low is None) or (access.high and high is None):
        return None
    return KeyRange(
        low=low,
        low_inclusive=access.low is None or access.low.inclusive,
        high=high,
        high_inclusive=access.high is None or access.high.inclusive,
    )


def _like_range(pattern: str) -> KeyRange:
    """All text that begins like the pattern up to its first wildcard."""
    start = "".join(itertools.takewhile(lambda c: c not in "%_", pattern))
    return KeyRange(low=start, high=successor(start), high_inclusive=False)


def successor(text: str) -> str | None:
    """The smallest text greater than all that begin with `text`; None if there is none."""
    while text:
        last = ord(text[-1])
        if last < 0x10FFFF:
            return text[:-1] + chr(0xE000 if last == 0xD7FF else last + 1)  # surrogates are no text
        text = text[:-1]
    return None


LOWEST: dict[Kind, Value] = {
    Kind.INTEGER: -(1 << 31),
    Kind.BIGINT: -(1 << 63),
    Kind.DECIMAL: Decimal("-1e38"),
    Kind.DOUBLE: float("-inf"),
    Kind.BOOLEAN: False,
    Kind.TEXT: "",
    Kind.BYTES: b"",
    Kind.DATE: dt.date.min,
    Kind.TIMESTAMP: dt.datetime.min,
    Kind.TIMESTAMPTZ: dt.datetime.min.replace(tzinfo=dt.UTC),
    Kind.UUID: uuid.UUID(int=0),
    Kind.JSON: "",
}
"""No value of a kind is smaller: a range from here leaves out NULL and nothing else."""


# --- words -----------------------------------------------------------------------------------


def shown(operand: Any) -> str:
    """An operand as in SQL."""
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
    """The conditions that the path uses, as in SQL."""
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
