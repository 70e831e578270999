"""Build a `Block` from the conditions of one SELECT: filters, equi-joins, foreign-key joins.

Invariant: every filter and every equi-join of a block is a *necessary condition* on the rows of its
sources. Reading, for a source, only the rows that satisfy its filters (or that match the rows of
the other side of an equi-join) does not change the block's result. The whole WHERE must still be
evaluated, since the lists may be weaker.

The invariant holds with outer joins for these reasons:

* A conjunct of WHERE (or of an inner ON) that rejects NULL restricts either side. Leaving out a
  row that fails it can turn a match into a NULL-extended row, but that row has NULL in the
  conjunct's column and is rejected too. `IS NULL` does not reject NULL, so it counts only for
  sources which cannot be NULL-extended where the conjunct is evaluated.
* A conjunct of the ON of LEFT or RIGHT JOIN restricts only the nullable side: a row of the other
  side that fails it stays, NULL-extended. A conjunct of a FULL JOIN's ON restricts nothing.
* Equalities in the ON of outer joins are not equi-joins, because they restrict only one direction.
* The right side of an ASOF join is read in full: leaving rows out changes which row is nearest.

Equality is transitive through conjuncts that hold together (WHERE and inner ON), also for
constants: `a.x = b.x AND b.x = 5` filters both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import permutations

from sqlglot import exp

from hornbeam_server.query.binding.algebra import (
    Block,
    Comparison,
    EquiJoin,
    Filter,
    ForeignKeyJoin,
    Order,
    Source,
)
from hornbeam_server.query.dialect.macros import PARAMETER_TYPE
from hornbeam_server.query.parsing.placeholders import Parameter
from hornbeam_server.query.typing.constants import comparand, fold, same_type
from hornbeam_server.schema.model import ForeignKey, Schema
from hornbeam_server.schema.trees import nodes_of
from hornbeam_server.schema.types import ColumnType, Kind

ColumnOf = tuple[str, str]
"""(alias, column of the relation)."""

_COMPARISONS: dict[type[exp.Expr], tuple[Comparison, Comparison]] = {
    exp.EQ: (Comparison.EQ, Comparison.EQ),
    exp.LT: (Comparison.LT, Comparison.GT),
    exp.LTE: (Comparison.LE, Comparison.GE),
    exp.GT: (Comparison.GT, Comparison.LT),
    exp.GTE: (Comparison.GE, Comparison.LE),
}
"""Per node: the comparison as written, and with its sides exchanged."""


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A reference to a column of one of the block's sources."""

    alias: str
    column: str
    type: ColumnType

    @property
    def name(self) -> ColumnOf:
        return self.alias, self.column


@dataclass(frozen=True, slots=True)
class Conjunct:
    """One conjunct. `restricts`: the aliases that it restricts (outer ON); None for every source.
    `nullable`: aliases that may be NULL-extended where the conjunct is evaluated. `where`: the
    conjunct is part of WHERE. `pair`: the two sides of a USING column, instead of a `node`."""

    node: exp.Expr | None
    nullable: frozenset[str] = frozenset()
    restricts: frozenset[str] | None = None
    where: bool = False
    pair: tuple[SourceColumn, SourceColumn] | None = None


@dataclass
class Gathered:
    """The data that the binder collects about one SELECT or write while it resolves names."""

    select: int
    sources: list[Source] = field(default_factory=list)
    nodes: list[exp.Table] = field(default_factory=list)
    conjuncts: list[Conjunct] = field(default_factory=list)
    order: list[Order] = field(default_factory=list)
    used: dict[str, set[str]] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)
    limit: bool = False
    inner_only: bool = True


Resolve = Callable[[exp.Expr], SourceColumn | None]


def plain_prefix(pattern: str) -> str | None:
    """`abc` for the LIKE pattern `abc%`; None for a pattern of any other form."""
    prefix = pattern[:-1]
    plain = pattern.endswith("%") and prefix and not any(c in prefix for c in "%_\\")
    return prefix if plain else None


def split(condition: exp.Expr | None) -> Iterator[exp.Expr]:
    """Yield the conjuncts of a condition, without parentheses."""
    if condition is None:
        return
    node = condition.unnest()
    if isinstance(node, exp.And):
        yield from split(node.this)
        yield from split(node.expression)
    else:
        yield node


def make_block(
    gathered: Gathered, resolve: Resolve, schema: Schema, computed: Resolve | None = None
) -> Block:
    """The block of one SELECT. `resolve` returns None for nodes that are not its columns, and
    `computed` for nodes that are no expression of an index."""
    reader = _Reader(gathered, resolve)
    for conjunct in gathered.conjuncts:
        reader.read(conjunct)
    classes = reader.classes
    relations = {s.alias: s.relation for s in gathered.sources}
    return Block(
        sources=tuple(gathered.sources),
        equi_joins=tuple(_equi_joins(reader.equalities)),
        fk_joins=tuple(_fk_joins(relations, reader.equalities, classes, schema)),
        filters=tuple(f for f in reader.all_filters() if f.alias not in gathered.whole),
        order=tuple(gathered.order),
        limit=gathered.limit,
        inner_only=gathered.inner_only,
        conjunctive=reader.conjunctive,
        columns={s.alias: frozenset(gathered.used.get(s.alias, ())) for s in gathered.sources},
        computed=() if computed is None else tuple(_computed(gathered, computed)),
    )


def _computed(gathered: Gathered, resolve: Resolve) -> Iterator[Filter]:
    """Yield the filters on expressions of indexes. A parameter counts if its type is known: it is
    then that of the expression."""
    reader = _Reader(gathered, resolve)
    for conjunct in gathered.conjuncts:
        if conjunct.node is not None and _typed(conjunct.node):
            reader.read(conjunct)
    return (each for each in reader.all_filters() if each.alias not in gathered.whole)


def _typed(node: exp.Expr) -> bool:
    return all(each.meta.get(PARAMETER_TYPE) for each in nodes_of(node, exp.Placeholder))


class Classes:
    """Equivalence classes of columns (union-find, small enough for plain sets)."""

    def __init__(self) -> None:
        self._class: dict[ColumnOf, set[ColumnOf]] = {}

    def unite(self, left: ColumnOf, right: ColumnOf) -> None:
        merged = self.of(left) | self.of(right)
        for member in merged:
            self._class[member] = merged

    def of(self, column: ColumnOf) -> set[ColumnOf]:
        return self._class.get(column, {column})

    def same(self, left: ColumnOf, right: ColumnOf) -> bool:
        return right in self.of(left)


def joinable(left: ColumnType, right: ColumnType) -> bool:
    """Whether values of one type can be looked up in keys of the other type."""
    whole = {Kind.INTEGER, Kind.BIGINT}
    if left.kind is Kind.DECIMAL:
        return (left.kind, left.scale) == (right.kind, right.scale)
    return left.kind is right.kind or {left.kind, right.kind} <= whole


class _Reader:
    """Collects filters and equalities from conjuncts."""

    def __init__(self, gathered: Gathered, resolve: Resolve) -> None:
        self.gathered = gathered
        self.resolve = resolve
        self.filters: list[Filter] = []
        self.shared: list[tuple[SourceColumn, Filter]] = []
        self.equalities: list[tuple[SourceColumn, SourceColumn]] = []
        self.classes = Classes()
        self.types: dict[ColumnOf, ColumnType] = {}
        self.conjunctive = True

    def read(self, conjunct: Conjunct) -> None:
        if conjunct.pair is not None:
            self._equate(*conjunct.pair)
            return
        assert conjunct.node is not None
        if self._equality(conjunct) or self._filter(conjunct):
            return
        self.conjunctive = self.conjunctive and conjunct.restricts is not None

    def _equality(self, conjunct: Conjunct) -> bool:
        node = conjunct.node
        if not isinstance(node, exp.EQ) or conjunct.restricts is not None:
            return False
        left, right = self.resolve(node.this.unnest()), self.resolve(node.expression.unnest())
        if left is None or right is None or left.alias == right.alias:
            return False
        return self._equate(left, right)

    def _equate(self, left: SourceColumn, right: SourceColumn) -> bool:
        whole = self.gathered.whole
        if not joinable(left.type, right.type) or {left.alias, right.alias} & whole:
            return False
        self.equalities.append((left, right))
        self.classes.unite(left.name, right.name)
        self.types |= {left.name: left.type, right.name: right.type}
        return True

    def _filter(self, conjunct: Conjunct) -> bool:
        assert conjunct.node is not None
        found = list(filters_of(conjunct.node, self.resolve))
        for column, filter_ in found:
            if conjunct.restricts is not None and column.alias not in conjunct.restricts:
                continue
            if filter_.comparison is Comparison.IS_NULL and column.alias in conjunct.nullable:
                self.conjunctive = False
                continue
            self.filters.append(filter_)
            if conjunct.restricts is None and filter_.comparison is not Comparison.IS_NULL:
                self.shared.append((column, filter_))
        return bool(found)

    def all_filters(self) -> Iterator[Filter]:
        """Iterate over the filters and the filters that they imply for equated columns. Filters
        carry over only to columns of the same type: a constant is exact only for its column's
        type."""
        implied = (
            replace(filter_, alias=alias, column=name)
            for column, filter_ in self.shared
            for alias, name in sorted(self.classes.of(column.name))
            if (type_ := self.types.get((alias, name))) and same_type(type_, column.type)
        )
        return iter(dict.fromkeys([*self.filters, *implied]))


def filters_of(node: exp.Expr, resolve: Resolve) -> Iterator[tuple[SourceColumn, Filter]]:
    """Yield the filters that together are equivalent to a conjunct; none if there are none."""
    if (truth := _truth(node, resolve)) is not None:
        yield truth
        return
    match node:
        case exp.EQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            yield from _comparison(node, resolve)
        case exp.Between() if not node.args.get("symmetric"):
            yield from _between(node, resolve)
        case exp.In():
            yield from _in(node, resolve)
        case exp.Like() if not node.args.get("negate"):
            yield from _like(node, resolve)
        case exp.Is() if isinstance(node.expression, exp.Null):
            column = resolve(node.this.unnest())
            if column is not None:
                yield column, Filter(*column.name, Comparison.IS_NULL)


def _comparison(node: exp.Expr, resolve: Resolve) -> Iterator[tuple[SourceColumn, Filter]]:
    as_written, exchanged = _COMPARISONS[type(node)]
    left, right = node.this.unnest(), node.expression.unnest()
    for side, other, comparison in ((left, right, as_written), (right, left, exchanged)):
        column = resolve(side)
        value = comparand(other, column.type) if column is not None else None
        if column is not None and value is not None:
            yield column, Filter(*column.name, comparison, (value,))
            return


def _between(node: exp.Between, resolve: Resolve) -> Iterator[tuple[SourceColumn, Filter]]:
    column = resolve(node.this.unnest())
    if column is None:
        return
    low = comparand(node.args["low"], column.type)
    high = comparand(node.args["high"], column.type)
    if low is not None and high is not None:
        yield column, Filter(*column.name, Comparison.GE, (low,))
        yield column, Filter(*column.name, Comparison.LE, (high,))


def _in(node: exp.In, resolve: Resolve) -> Iterator[tuple[SourceColumn, Filter]]:
    column = resolve(node.this.unnest())
    if column is None or not node.expressions:
        return
    values = [comparand(value, column.type) for value in node.expressions]
    if all(value is not None for value in values):
        yield column, Filter(*column.name, Comparison.IN, tuple(dict.fromkeys(values)))


def _like(node: exp.Like, resolve: Resolve) -> Iterator[tuple[SourceColumn, Filter]]:
    column = resolve(node.this.unnest())
    if column is None or column.type.kind is not Kind.TEXT:
        return
    pattern = fold(node.expression)
    if isinstance(pattern, Parameter) or (isinstance(pattern, str) and plain_prefix(pattern)):
        yield column, Filter(*column.name, Comparison.PREFIX, (pattern,))


def _truth(node: exp.Expr, resolve: Resolve) -> tuple[SourceColumn, Filter] | None:
    """The filter of a bare boolean column or its negation."""
    negated = isinstance(node, exp.Not)
    column = resolve(node.this.unnest() if negated else node)
    if column is None or column.type.kind is not Kind.BOOLEAN:
        return None
    return column, Filter(*column.name, Comparison.EQ, (not negated,))


def _equi_joins(equalities: Iterable[tuple[SourceColumn, SourceColumn]]) -> Iterator[EquiJoin]:
    """Yield one equi-join per pair of aliases, in order of first mention."""
    pairs: dict[tuple[str, str], dict[tuple[str, str], None]] = {}
    for left, right in equalities:
        if (right.alias, left.alias) in pairs:
            left, right = right, left  # noqa: PLW2901  the first mention gives the sides
        pairs.setdefault((left.alias, right.alias), {})[left.column, right.column] = None
    for (left_alias, right_alias), columns in pairs.items():
        lefts, rights = zip(*columns, strict=True)
        yield EquiJoin(left_alias, lefts, right_alias, rights)


def _fk_joins(
    relations: dict[str, str],
    equalities: list[tuple[SourceColumn, SourceColumn]],
    classes: Classes,
    schema: Schema,
) -> Iterator[ForeignKeyJoin]:
    written = {frozenset((left.name, right.name)) for left, right in equalities}
    for child, parent in permutations(relations, 2):
        if relations[child] not in schema:
            continue
        for key in schema.relation(relations[child]).key_edges:
            pairs = list(_edge(key, child, parent))
            if key.parent == relations[parent] and all(classes.same(*pair) for pair in pairs):
                implied = any(frozenset(pair) not in written for pair in pairs)
                yield ForeignKeyJoin(child, parent, key, implied)


def _edge(key: ForeignKey, child: str, parent: str) -> Iterator[tuple[ColumnOf, ColumnOf]]:
    for column, referenced in zip(key.columns, key.parent_columns, strict=True):
        yield (child, column), (parent, referenced)
