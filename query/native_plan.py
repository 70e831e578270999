"""Making native plans: what of a bound query our own loops can answer, and how.

A query that does not fit is refused with the reason (`NotNative`), which `explain` shows; DuckDB
answers it instead.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from query.access import Access, JoinColumn, Term, choose, exact
from query.algebra import Block
from query.binder import BoundQuery
from query.blocks import split
from query.expressions import CompiledExpression, SortTerm, compile_expression
from query.fetch import getter
from query.joins import nested_loops, order_joins
from query.native import Aggregate, Lookup, NativePlan
from schema.catalog import Catalog
from schema.types import MAX_DECIMAL_PRECISION, ColumnType, Kind, Row, Value

NATIVE_COST = 20_000.0
"""Up to so many scanned rows a join is ours: DuckDB's beginning and its threads cost as much."""
HASH_COST = 1.1
"""One row read and given to DuckDB, in scanned rows; larger joins weigh this against look-ups."""
VALUE_COST = 0.08
"""One value of DuckDB's result made a Python object, in scanned rows (0.2 of 2.4 µs). A join of
whole wide rows costs DuckDB more on the way out than our look-ups cost on the way in; not so as
Arrow, or if few columns or rows come out."""
UNUSED_SHARE = 0.1
"""A guess: the share of rows that a condition keeps which no path uses."""

_SELECT_PARTS = {"expressions", "from_", "joins", "where", "order", "limit", "offset"}
_PART_NAMES = {
    "with_": "WITH",
    "distinct": "DISTINCT",
    "group": "GROUP BY",
    "having": "HAVING",
    "qualify": "QUALIFY",
    "windows": "WINDOW",
    "sample": "a sample",
}
_AGGREGATES = (exp.Count, exp.Sum, exp.Min, exp.Max)


class NotNative(Exception):
    """The query has something that only DuckDB runs; the text says what."""


class RowScope:
    """Columns of the joined row: where they are and what they hold."""

    def __init__(self, types: Mapping[Any, ColumnType | None]) -> None:
        self._types = types
        self._columns: dict[str, dict[str, tuple[int, ColumnType]]] = {}
        self.width = 0

    def add(self, access: Access) -> None:
        """Append a source's columns to the joined row."""
        self._columns[access.alias] = {
            column.name: (self.width + i, column.type)
            for i, column in enumerate(access.output.columns)
        }
        self.width += len(access.output.columns)

    def position(self, alias: str, column: str) -> int:
        return self._columns[alias][column][0]

    def resolve(self, column: exp.Column) -> tuple[int, ColumnType]:
        """Raises NotNative for what is no column of a source of this block."""
        return self.place(column)

    def place(self, column: exp.Expr) -> tuple[int, ColumnType]:
        """`resolve` for a node that is known to be a column."""
        _, alias, name = column.meta.get("column", (None, None, None))
        found = self._columns.get(alias, {}).get(name)
        if found is None:
            raise NotNative(f"{column.sql('duckdb')} is not a plain column")
        return found

    def parameter_type(self, name: int | str) -> ColumnType | None:
        return self._types.get(name)


class AggregateScope:
    """The row of aggregates, as columns named by position."""

    def __init__(
        self, types: Sequence[ColumnType], nodes: Sequence[exp.Expr], outer: RowScope
    ) -> None:
        self._types = types
        self._nodes = nodes
        self._outer = outer

    def resolve(self, column: exp.Column) -> tuple[int, ColumnType]:
        position = column.meta.get("aggregate")
        if position is None:
            raise NotNative("a column beside aggregates")
        if isinstance(self._nodes[position], exp.Sum):
            raise NotNative("arithmetic with a sum")  # wider than any column
        return position, self._types[position]

    def parameter_type(self, name: int | str) -> ColumnType | None:
        return self._outer.parameter_type(name)


def plan_native(
    bound: BoundQuery,
    catalog: Catalog,
    *,
    most_cost: float = NATIVE_COST,
    columnar: bool = False,
) -> NativePlan:
    """Raises NotNative with the reason.

    `most_cost`: what a join may cost in scanned rows, however cheap DuckDB would be. `columnar`:
    the result is wanted as Arrow, not as rows.
    """
    select = bound.ast
    if not isinstance(select, exp.Select):
        raise NotNative("a set operation" if isinstance(select, exp.SetOperation) else "VALUES")
    _check_shape(select)
    block = bound.statement.blocks[_block_index(select)]
    where = select.args.get("where")
    conditions = [join.args.get("on") for join in select.args.get("joins") or ()]
    conditions.append(where.this if where is not None else None)
    conjuncts = [node for condition in conditions for node in split(condition)]
    projections = _projections(select)
    planner = _Planner(bound, catalog, block, select, conjuncts, projections, most_cost, columnar)
    return planner.plan()


def _check_shape(select: exp.Select) -> None:
    for name, part in select.args.items():
        if part and name not in _SELECT_PARTS:
            raise NotNative(_PART_NAMES.get(name, name))
    if not select.args.get("from_"):
        raise NotNative("a SELECT without FROM")
    for join in select.args.get("joins") or ():
        kind = " ".join(str(join.args.get(key) or "") for key in ("method", "side", "kind")).strip()
        if kind not in ("", "INNER", "CROSS") or join.args.get("using"):
            raise NotNative(f"{kind or 'USING'} join")
    for table in _tables(select):
        if not isinstance(table, exp.Table) or "source" not in table.meta:
            raise NotNative("a subquery or function in FROM")


def _tables(select: exp.Select) -> Iterator[exp.Expr]:
    yield select.args["from_"].this
    for join in select.args.get("joins") or ():
        yield join.this


def _block_index(select: exp.Select) -> int:
    indexes = {table.meta["source"][0] for table in _tables(select)}
    if len(indexes) != 1:
        raise NotNative("relations of several blocks")
    index: int = indexes.pop()
    return index


def _projections(select: exp.Select) -> list[exp.Expr]:
    """The SELECT list without aliases, stars written out."""
    found: list[exp.Expr] = []
    for node in select.expressions:
        star = node.this if isinstance(node, exp.Column) else node
        if isinstance(star, exp.Star):
            found += _star(star)
        else:
            found.append(node.unalias())
    return found


def _star(star: exp.Star) -> Iterator[exp.Expr]:
    if star.args.get("replace"):
        raise NotNative("* REPLACE")
    for block, alias, name, *_ in star.meta["columns"]:
        column = exp.column(name, table=alias)
        column.meta["column"] = (block, alias, name)
        yield column


@dataclass
class _Planner:
    """Collects what one plan needs; used once."""

    bound: BoundQuery
    catalog: Catalog
    block: Block
    select: exp.Select
    conjuncts: list[exp.Expr]
    projections: list[exp.Expr]
    most_cost: float
    columnar: bool

    def plan(self) -> NativePlan:
        aggregates = self._aggregate_nodes()
        ordered = [] if aggregates else self._order_nodes()  # one row has one order
        steps, first_row_only = self._steps(ordered, aggregates)
        scope = RowScope(self.bound.parameter_types)
        lookups = []
        for step in steps:
            if scope.width:
                lookups.append(_lookup(step, scope))
            scope.add(step)
        project, types = self._project(scope, aggregates)
        return NativePlan(
            first=steps[0],
            lookups=tuple(lookups),
            predicate=None if exact(steps[0], self.block) else self._predicate(scope),
            order=tuple(_sort_term(node, scope) for node in ordered),
            delivered=steps[0].ordered if ordered else 0,
            aggregates=tuple(_aggregate(node, scope) for node in aggregates),
            project=project,
            types=types,
            limit=_row_operand(self.select.args.get("limit")),
            offset=_row_operand(self.select.args.get("offset")),
            first_row_only=first_row_only,
        )

    def _steps(
        self, ordered: Sequence[exp.Ordered], aggregates: Sequence[exp.Expr]
    ) -> tuple[tuple[Access, ...], bool]:
        ending = self._end_of_key(aggregates)
        if ending is not None:
            return (ending,), True
        order = list(itertools.takewhile(bool, map(_term, ordered)))
        limited = bool(self.select.args.get("limit")) and len(order) == len(ordered)
        steps = order_joins(
            self.catalog,
            self.block,
            order=[term for term in order if term],
            limited=limited,
            looked_up=True,
        )
        if not nested_loops(steps):
            raise NotNative("a join without a key or index to look up")
        streams = steps[0].ordered == len(ordered) and not aggregates
        whole = streams and not self.columnar and not self.select.args.get("limit")
        values = self._values_out(steps) if whole else 0.0
        if len(steps) > 1 and sum(step.cost for step in steps) > self._most(steps, values):
            raise NotNative("a join over many rows")
        return steps, False

    def _most(self, steps: Sequence[Access], values: float) -> float:
        """What our loops may cost: as much as DuckDB, which makes so many Python values."""
        hashed = HASH_COST * sum(step.rows for step in steps)
        return max(self.most_cost, hashed + VALUE_COST * values)

    def _values_out(self, steps: Sequence[Access]) -> float:
        """A guess at rows times columns of the result."""
        used = sum(len(s.equalities) + 3 - (s.low, s.high, s.like).count(None) for s in steps)
        kept = UNUSED_SHARE ** max(len(self.conjuncts) - used, 0)
        return max(step.rows for step in steps) * len(self.projections) * kept

    def _end_of_key(self, aggregates: Sequence[exp.Expr]) -> Access | None:
        """MIN or MAX of a column that a path delivers in order: its first row is the answer."""
        if len(aggregates) != 1 or len(self.block.sources) != 1:
            return None
        node = aggregates[0]
        if not isinstance(node, exp.Min | exp.Max) or "column" not in node.this.meta:
            return None
        term = Term(node.this.meta["column"][2], descending=isinstance(node, exp.Max))
        alias = self.block.sources[0].alias
        access = choose(self.catalog, self.block, alias, order=[term], limited=True)
        found = access.ordered == 1 and exact(access, self.block)
        return replace(access, rows=1.0) if found else None

    def _order_nodes(self) -> list[exp.Ordered]:
        """ORDER BY's terms, with output names and ordinals replaced by what they stand for."""
        order = self.select.args.get("order")
        return [self._order_node(node) for node in order.expressions] if order else []

    def _order_node(self, node: exp.Expr) -> exp.Ordered:
        if not isinstance(node, exp.Ordered) or node.args.get("with_fill"):
            raise NotNative("an unusual ORDER BY")
        value = node.this.unnest()
        if isinstance(value, exp.Literal):
            position = int(value.name) if value.is_int else 0
            if not 0 < position <= len(self.projections):
                raise NotNative("ORDER BY a constant")
            value = self.projections[position - 1]
        elif value.meta.get("alias"):
            value = self._named()[value.name]
        elif any(column.meta.get("alias") for column in value.find_all(exp.Column)):
            raise NotNative("ORDER BY an expression over an output column")
        ordered = node.copy()
        ordered.set("this", value.copy())
        return ordered

    def _named(self) -> dict[str, exp.Expr]:
        aliases = [node for node in self.select.expressions if isinstance(node, exp.Alias)]
        return {node.alias: node.this for node in reversed(aliases)}

    def _aggregate_nodes(self) -> list[exp.Expr]:
        found: list[exp.Expr] = []
        for item in self.projections:
            found += item.find_all(exp.AggFunc)
        for node in found:
            plain = not isinstance(node.this, exp.Distinct) and not node.expressions
            if not isinstance(node, _AGGREGATES) or not plain:
                raise NotNative(f"aggregate {node.sql('duckdb')}")
            if not isinstance(node.parent, exp.Expr | None) or node.find_ancestor(
                exp.Window, exp.Filter, exp.WithinGroup, exp.AggFunc
            ):
                raise NotNative(f"{node.parent.sql('duckdb')}" if node.parent else "a window")
        return found

    def _predicate(self, scope: RowScope) -> Callable[[Row, Any], Value] | None:
        checks = [_condition(node, scope) for node in self.conjuncts]
        if len(checks) <= 1:
            return checks[0] if checks else None

        def predicate(row: Row, parameters: Any) -> bool:
            return all(check(row, parameters) is True for check in checks)

        return predicate

    def _project(self, scope: RowScope, aggregates: Sequence[exp.Expr]) -> Projection:
        if aggregates:
            return self._project_aggregates(scope, aggregates)
        if all("column" in node.meta for node in self.projections):
            found = [scope.place(node) for node in self.projections]
            pick = _pick([position for position, _ in found], scope.width)
            return pick, tuple(type_ for _, type_ in found)
        compiled = [_compile(node, scope) for node in self.projections]
        return _values(compiled), tuple(item.type for item in compiled)

    def _project_aggregates(self, scope: RowScope, aggregates: Sequence[exp.Expr]) -> Projection:
        kinds = [_aggregate_type(node, scope) for node in aggregates]
        inner = AggregateScope(kinds, aggregates, scope)
        numbers = {id(node): i for i, node in enumerate(aggregates)}
        values: list[Callable[[Row, Any], Value]] = []
        types: list[ColumnType | None] = []
        for item in self.projections:
            number = numbers.get(id(item))
            if number is not None:
                values.append(_position(number))
                types.append(kinds[number])
            else:
                compiled = _compile(_over_aggregates(item, numbers), inner)
                values.append(compiled)
                types.append(compiled.type)
        return _values(values), tuple(types)


Projection = tuple[Callable[[Sequence[Row], Any], list[Row]], tuple[ColumnType | None, ...]]
"""Rows to result rows, and the result's types."""


def _over_aggregates(node: exp.Expr, numbers: Mapping[int, int]) -> exp.Expr:
    """A copy in which each aggregate is a column that stands for its result."""
    places = [numbers.get(id(part)) for part in node.walk(bfs=False)]
    copy = node.copy()
    for part, number in list(zip(copy.walk(bfs=False), places, strict=True)):
        if number is not None:
            column = exp.column(f"aggregate_{number}")
            column.meta["aggregate"] = number
            part.replace(column)
    return copy


def _position(position: int) -> Callable[[Row, Any], Value]:
    return lambda row, _parameters: row[position]


def _compile(node: Any, scope: Any) -> CompiledExpression:
    compiled = compile_expression(node, scope)
    if compiled is None:
        raise NotNative(f"expression {node.sql('duckdb')}")
    return compiled


def _condition(node: Any, scope: RowScope) -> Callable[[Row, Any], Value]:
    compiled = compile_expression(node, scope)
    if compiled is None or compiled.type is None or compiled.type.kind is not Kind.BOOLEAN:
        raise NotNative(f"condition {node.sql('duckdb')}")
    return compiled


def _pick(positions: Sequence[int], width: int) -> Callable[[Sequence[Row], Any], list[Row]]:
    if list(positions) == list(range(width)):
        return lambda rows, _parameters: list(rows)
    pick = getter(positions)
    return lambda rows, _parameters: [pick(row) for row in rows]


def _values(
    values: Sequence[Callable[[Row, Any], Value]],
) -> Callable[[Sequence[Row], Any], list[Row]]:
    return lambda rows, parameters: [
        tuple([value(row, parameters) for value in values]) for row in rows
    ]


def _lookup(step: Access, scope: RowScope) -> Lookup:
    parts: list[tuple[int | None, Any]] = []
    for equality in step.equalities:
        operand = None if equality.null else equality.operands[0]
        if isinstance(operand, JoinColumn):
            parts.append((scope.position(operand.alias, operand.column), None))
        else:
            parts.append((None, operand))
    return Lookup(step, tuple(parts))


def _direction(node: exp.Ordered) -> tuple[bool, bool]:
    """(descending, NULLs first); without a word NULLs come last, as in DuckDB."""
    return bool(node.args.get("desc")), bool(node.args.get("nulls_first"))


def _term(node: exp.Ordered) -> tuple[str, Term] | None:
    """A plain column of ORDER BY with its source."""
    _, alias, name = node.this.meta.get("column", (None, None, None))
    return None if alias is None else (alias, Term(name, *_direction(node)))


def _sort_term(node: exp.Ordered, scope: RowScope) -> SortTerm:
    if isinstance(node.this, exp.Column):
        return SortTerm(_position(scope.place(node.this)[0]), *_direction(node))
    compiled = compile_expression(node.this, scope)
    if compiled is None or compiled.type is None or compiled.type.kind is Kind.DOUBLE:
        # A computed double may be NaN, which has its own place in DuckDB's order.
        raise NotNative(f"ORDER BY {node.this.sql('duckdb')}")
    return SortTerm(compiled, *_direction(node))


def _aggregate(node: exp.Expr, scope: RowScope) -> Aggregate:
    if isinstance(node.this, exp.Star):
        return Aggregate(type(node), None)
    if node.this is None:
        return Aggregate(type(node), None)
    return Aggregate(type(node), _compile(node.this, scope))


def _aggregate_type(node: exp.Expr, scope: RowScope) -> ColumnType:
    """The result's type. Raises NotNative for doubles, whose sum depends on the order."""
    if isinstance(node, exp.Count):
        return ColumnType(Kind.BIGINT)
    type_ = _compile(node.this, scope).type
    if type_ is None or (type_.kind is Kind.DOUBLE and "column" not in node.this.meta):
        raise NotNative(f"aggregate {node.sql('duckdb')}")
    if not isinstance(node, exp.Sum):
        return type_
    if type_.kind not in (Kind.INTEGER, Kind.BIGINT, Kind.DECIMAL):
        raise NotNative(f"the sum {node.sql('duckdb')}")
    return ColumnType(Kind.DECIMAL, MAX_DECIMAL_PRECISION, type_.scale or 0)


def _row_operand(node: exp.Expr | None) -> Any:
    """LIMIT's or OFFSET's constant or parameter; None without one."""
    if node is None:
        return None
    value = node.args.get("expression")
    if node.args.get("expressions") or node.args.get("limit_options"):
        raise NotNative("an unusual LIMIT")
    if isinstance(value, exp.Placeholder):
        return value.meta["parameter"]
    if isinstance(value, exp.Literal) and value.is_int:
        return int(value.name)
    raise NotNative("LIMIT by an expression")
