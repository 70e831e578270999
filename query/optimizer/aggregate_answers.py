"""Rewriting of aggregate blocks over immediate and deferred views.

The block keeps its shape: its FROM and WHERE, grouping expressions and aggregates are replaced by
those over the view's rows, in one of three ways (`Way`).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from sqlglot import exp

from hornbeam_server.query.binding.algebra import Block, Comparison
from hornbeam_server.query.binding.blocks import split
from hornbeam_server.query.dialect.aggregates import Function
from hornbeam_server.query.dialect.grammar import NAME, identifier
from hornbeam_server.query.dialect.sums import WIDE, parts, quotient
from hornbeam_server.query.optimizer.access_paths import estimated_rows
from hornbeam_server.query.optimizer.aggregate_blocks import (
    AggregateBlock,
    Call,
    NotAnswered,
    aggregate_block,
    aggregates,
    call_of,
    is_call,
    own_nodes,
    text_of,
)
from hornbeam_server.query.optimizer.aggregate_shapes import AggregateView, aggregate_view
from hornbeam_server.query.optimizer.aggregate_views import Match, call_text, column_text, match
from hornbeam_server.query.optimizer.select_trees import (
    Namer,
    conjunction,
    free_names,
    view_table,
)
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.trees import nodes_of, unlink, written
from hornbeam_server.schema.types import Kind
from hornbeam_server.schema.views import DeferredView, ImmediateView

MAX_VIEWS = 64
"""Maximum number of views that are compared with a block."""
_COUNTS = (Function.ROWS, Function.COUNT, Function.DISTINCT)


class Way(enum.Enum):
    """How groups of the block follow from rows of the view."""

    ROWS = "each row of the view is a group"
    ONE = "at most one row of the view is the only group"
    UNION = "a group is the union of rows of the view"


@dataclass(frozen=True)
class Names:
    """The names of the statement: of its CTEs, and those that no view may have as its alias.
    `stale` are the deferred views that may answer the statement."""

    namer: Namer
    ctes: frozenset[str]
    stale: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Answer:
    """The SELECT over `view`, called `alias`, that replaces the SELECT over the sources
    `aliases`."""

    view: str
    alias: str
    aliases: tuple[str, ...]
    select: exp.Select
    cost: float


def answer(
    number: int, block: Block, select: exp.Select, catalog: Catalog, names: Names
) -> tuple[Answer | None, list[str]]:
    """The answer over the view with the fewest rows to read, and the reasons why no view answers
    the block, one for each view that aggregates one of its relations. A deferred view answers only
    if no immediate view does."""
    relations = {source.relation for source in block.sources}
    near = list(islice(_near(relations, catalog, names), MAX_VIEWS))
    if not near or not aggregates(select):
        return None, []
    try:
        found = aggregate_block(number, block, select, catalog)
    except NotAnswered as reason:
        return None, [f"no view answers the aggregates: {reason}"]
    notes: list[str] = []
    try:
        for kind in (ImmediateView, DeferredView):
            views = [view for view in near if isinstance(view, kind)]
            best = _best(views, found, catalog, names, notes)
            if best is not None:
                names.namer.alias(best.view)
                return best, []
    finally:
        unlink(found.select)
    return None, notes


def _near(
    relations: set[str], catalog: Catalog, names: Names
) -> Iterator[ImmediateView | DeferredView]:
    """Yield the views that aggregate one of the relations, and may answer."""
    yield from (view for view in catalog.immediate if view.relations[0] in relations)
    for view in catalog.deferred:
        kept = view.declared.refresh.follows_changes and view.name in names.stale
        if kept and not relations.isdisjoint(view.relations):
            yield view


def _best(
    views: Iterable[ImmediateView | DeferredView],
    block: AggregateBlock,
    catalog: Catalog,
    names: Names,
    notes: list[str],
) -> Answer | None:
    """The answer over the view with the fewest rows to read. Adds the reasons of all others that do
    not answer to `notes`."""
    answers: list[Answer] = []
    for view in views:
        try:
            answers.append(_answer(view, block, catalog, names))
        except NotAnswered as reason:
            notes.append(f"view {view.name}: {reason}")
    best = min(answers, key=lambda each: each.cost, default=None)
    for other in answers:
        if other is not best:
            unlink(other.select)
    return best


def _answer(
    declared: ImmediateView | DeferredView, block: AggregateBlock, catalog: Catalog, names: Names
) -> Answer:
    if not catalog.readable(declared.name):
        state = catalog.state.get(declared.name)
        raise NotAnswered(f"it is {state.value if state else 'not built'}")
    free = free_names(block.select)
    own = {column.name for column in declared.columns}
    if free is None or free & own or declared.name in names.ctes:
        raise NotAnswered("an alias or a CTE of the statement has one of its names")
    view = aggregate_view(declared, catalog)
    if (fact := _point_read(view, block, catalog)) is not None:
        raise NotAnswered(f"the statement reads one row of {fact} by its key")
    if block.keys and not view.grouped:
        raise NotAnswered("it has no groups")  # and a row over nothing, which GROUP BY has not
    found = match(view, block)
    alias = names.namer.free(view.name)
    built = _Answering(found, block, catalog, alias)
    select = built.select()
    replaced = (s.alias for s in block.block.sources if s.alias not in found.beside)
    return Answer(view.name, alias, tuple(replaced), select, built.cost())


def _point_read(view: AggregateView, block: AggregateBlock, catalog: Catalog) -> str | None:
    """The relation whose rows the view aggregates, and of which the block reads one row."""
    fixed = {(f.alias, f.column) for f in block.block.filters if f.comparison is Comparison.EQ}
    for source in block.block.sources:
        if source.relation in view.facts:
            key = catalog.schema.relation(source.relation).primary_key
            if fixed >= {(source.alias, column) for column in key}:
                return source.relation
    return None


class _Answering:
    """Builds the SELECT over a view that matches a block."""

    def __init__(self, found: Match, block: AggregateBlock, catalog: Catalog, alias: str) -> None:
        self.found = found
        self.block = block
        self.catalog = catalog
        self.alias = alias
        self.types = found.view.types
        self.fixed = set(self._fixed())
        self.way = self._way()

    # -- the way

    def _way(self) -> Way:
        view = self.found.view
        keys = {self._text(key) for key in self.block.keys}
        one = self.found.determined(self.fixed | keys)
        if self.found.beside:
            return Way.UNION
        if view.grouped and not set(view.key) <= one:
            return Way.UNION
        if self.block.keys or (not view.grouped and not self.found.rest):
            return Way.ROWS
        return Way.ONE

    def _fixed(self) -> Iterator[str]:
        """Yield the columns that equal one constant, or NULL. Other equalities may hold for several
        values: `text = 5` holds for '5' and '05'."""
        for each in self.block.block.filters:
            if each.comparison in (Comparison.EQ, Comparison.IS_NULL):
                yield column_text(self.found.name((each.alias, each.column)))

    def cost(self) -> float:
        """The estimated number of rows of the view that are read."""
        view = self.found.view
        rows = estimated_rows(self.catalog, view.name)
        columns = [self.found.groups.get(text) for text in self.fixed]
        free = [number for number, column in enumerate(view.key) if column not in columns]
        return float(rows ** (1 - (free[0] if free else len(view.key)) / len(view.key)))

    # -- the SELECT

    def select(self) -> exp.Select:
        """The block over the view. Raises NotAnswered."""
        select = self.block.select.copy()
        try:
            self._replace(select)
        except BaseException:
            unlink(select)
            raise
        return select

    def _replace(self, select: exp.Select) -> None:
        where = [self._over(node.copy()) for node in self.found.rest]
        group, having = select.args.get("group"), select.args.get("having")
        order = select.args.get("order")
        keys = [self._over(node) for node in group.expressions] if group is not None else []
        for node in select.expressions:
            node.set("this", self._over(node.this))
        if having is not None:
            having.set("this", self._over(having.this))
        for ordered in order.expressions if order is not None else ():
            ordered.set("this", self._over(ordered.this))
        if self.way is Way.ROWS:
            where += split(having.this if having is not None else None)
            select.set("group", None)
            select.set("having", None)
        elif group is not None:
            group.set("expressions", keys)
        view = self.found.view.name
        beside = [table.copy() for table in nodes_of(select, exp.Table) if self._is_beside(table)]
        select.set("from_", exp.From(this=view_table(view, self.alias)))
        select.set("joins", [exp.Join(this=table) for table in beside])
        select.set("where", exp.Where(this=conjunction(where)) if where else None)

    def _is_beside(self, table: exp.Table) -> bool:
        number, alias = table.meta.get("source", (None, ""))
        return number == self.block.number and alias in self.found.beside

    def _text(self, node: exp.Expr) -> str:
        return text_of(node, self.block, self.found.name)

    def _over(self, node: exp.Expr) -> exp.Expr:
        """An expression of the block, over the view's row. May change `node`. Raises
        NotAnswered."""
        if is_call(node):
            return self._aggregate(node)
        if not self.block.reads(node) and not any(map(is_call, own_nodes(node))):
            return node
        column = self.found.groups.get(self._text(node))
        if column is not None:
            return self._column(column)
        if isinstance(node, exp.Column):
            place = self.block.place(node)
            if place is not None and place[0] in self.found.beside:
                return node
            raise NotAnswered(f"{written(node, NAME)} is no grouping column of it")
        for child in list(node.iter_expressions()):
            new = self._over(child)
            if new is not child:
                child.replace(new)
        return node

    def _column(self, name: str) -> exp.Column:
        return exp.Column(this=identifier(name), table=identifier(self.alias))

    def _aggregate(self, node: exp.Expr) -> exp.Expr:
        call = call_of(node, self.block, self.catalog)
        text = call_text(node, self.block, self.catalog, self.found.name)
        shown = written(node, NAME, normalize_functions="lower")
        if call is None or text is None:
            raise NotAnswered(f"{shown} does not follow from its columns")
        column = self.found.calls.get(text)
        if call.function is Function.AVG and (column is None or self.way is Way.UNION):
            return self._average(node, shown)
        if column is None:
            return self._over_groups(call, shown)
        if self.way is Way.UNION and call.function is Function.DISTINCT:
            raise NotAnswered(f"{shown} follows from equal groups only")
        return self._kept(call.function, column)

    def _kept(self, function: Function, name: str) -> exp.Expr:
        """An aggregate that the view has in a column."""
        column, counts = self._column(name), function in _COUNTS
        if self.way is Way.ROWS:
            return column
        if self.way is Way.ONE:
            return self._count(exp.Max(this=column)) if counts else exp.Max(this=column)
        if function in (Function.MIN, Function.MAX):
            return exp.Min(this=column) if function is Function.MIN else exp.Max(this=column)
        total = exp.Sum(this=column)
        if counts:
            return self._count(total)
        return _bigint(total) if self.types[name].kind is Kind.BIGINT else total

    def _average(self, node: exp.Expr, shown: str) -> exp.Expr:
        """An average, from the sum and the count that the view has in columns."""
        total, count = map(self._column_of, parts(node))
        if total is None or count is None:
            raise NotAnswered(f"it has no {shown} of these groups, and not both its SUM and COUNT")
        return quotient(self._added(self._column(total)), self._added(self._column(count)))

    def _column_of(self, node: exp.Expr) -> str | None:
        """The view's column that holds an aggregate of the block."""
        text = call_text(node, self.block, self.catalog, self.found.name)
        return None if text is None else self.found.calls.get(text)

    def _added(self, column: exp.Expr) -> exp.Expr:
        """The sum of a column over the rows of a group, of DuckDB's own type."""
        if self.way is Way.ROWS:
            return column
        added: exp.Expr = exp.Max(this=column)
        if self.way is Way.UNION:
            added = exp.Sum(this=column)
            added.meta[WIDE] = True
        return added

    def _count(self, value: exp.Expr) -> exp.Expr:
        """A count of rows, which is 0 over nothing. A group of GROUP BY always has rows."""
        if self.block.keys:
            return _bigint(value)
        return _bigint(exp.Coalesce(this=value, expressions=[exp.Literal.number(0)]))

    def _over_groups(self, call: Call, shown: str) -> exp.Expr:
        """An aggregate over grouping columns for which equal values count once."""
        extreme = call.function in (Function.MIN, Function.MAX)
        if call.argument is None or call.condition is not None:
            raise NotAnswered(f"it has no {shown}")
        if not extreme and call.function is not Function.DISTINCT:
            raise NotAnswered(f"it has no {shown}")
        try:
            argument = self._over(call.argument.copy())
        except NotAnswered:
            raise NotAnswered(f"it has no {shown}") from None
        if extreme and self.way is Way.ROWS:
            return exp.Paren(this=argument)
        if extreme:
            return (exp.Min if call.function is Function.MIN else exp.Max)(this=argument)
        if self.way is Way.ROWS:
            present = exp.Not(this=exp.Is(this=exp.Paren(this=argument), expression=exp.Null()))
            return _bigint(exp.Paren(this=present))
        return exp.Count(this=exp.Distinct(expressions=[argument]))


def _bigint(value: exp.Expr) -> exp.Expr:
    return exp.Cast(this=value, to=exp.DataType(this=exp.DType.BIGINT))
