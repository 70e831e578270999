"""The expressions of native plans: over a joined row, for grouping, and over a group's row.

When the statement is prepared, each expression is compiled into a closure over a row and the
parameters.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from sqlglot import exp

from hornbeam_server.query.binding.algebra import ParameterList
from hornbeam_server.query.dialect.functions import is_aggregate
from hornbeam_server.query.dialect.grammar import NAME
from hornbeam_server.query.dialect.sums import QUOTIENT, WIDE, sum_type
from hornbeam_server.query.execution.lookups import getter
from hornbeam_server.query.execution.loops import Aggregate, Grouping
from hornbeam_server.query.expressions import CompiledExpression, SortTerm, compile_expression
from hornbeam_server.query.optimizer.access_paths import Access
from hornbeam_server.query.parsing.placeholders import parameter_key
from hornbeam_server.schema.arrays import order_of
from hornbeam_server.schema.trees import nodes_of, supersede, unlink, written
from hornbeam_server.schema.types import ColumnType, Kind, Row, Value

_AGGREGATES = (exp.Count, exp.Sum, exp.Min, exp.Max)

N = TypeVar("N", bound=exp.Expr)


class NotNative(Exception):
    """The query has a part that only DuckDB runs. The message names the part."""


class NeedsTypes(NotNative):
    """The part has parameters whose types are those of their values. It may be native for them."""


class RowScope:
    """The columns of the joined row, with their positions and types."""

    def __init__(self, types: Mapping[Any, ColumnType | None]) -> None:
        self._types = types
        self._columns: dict[str, dict[str, tuple[int, ColumnType]]] = {}
        self.width = 0

    def add(self, access: Access) -> None:
        """Append a source's columns to the joined row."""
        self._columns[access.alias] = {
            column.name: (self.width + i, column.type.stored())
            for i, column in enumerate(access.output.columns)
        }
        self.width += len(access.output.columns)

    def position(self, alias: str, column: str) -> int:
        return self._columns[alias][column][0]

    def resolve(self, column: exp.Column) -> tuple[int, ColumnType]:
        """(position, type) of a column. Raises NotNative if no source of this block has it."""
        return self.place(column)

    def place(self, column: exp.Expr) -> tuple[int, ColumnType]:
        """`resolve` for a node that is known to be a column."""
        _, alias, name = column.meta.get("column", (None, None, None))
        found = self._columns.get(alias, {}).get(name)
        if found is None:
            raise NotNative(f"{written(column, NAME)} is not a plain column")
        return found

    def has_all(self, node: exp.Expr) -> bool:
        """Does the joined row have all columns of an expression?"""
        places = (column.meta.get("column") for column in nodes_of(node, exp.Column))
        return all(place is not None and place[1] in self._columns for place in places)

    def parameter_type(self, name: int | str) -> ColumnType | None:
        return self._types.get(name)


@dataclass(frozen=True)
class Groups:
    """GROUP BY, or aggregates over all rows (no `keys`). The other expressions are evaluated on a
    group's row, where each of the `aggregates` is a column named by its number.
    """

    keys: Sequence[exp.Expr]
    aggregates: Sequence[exp.Expr]
    projections: Sequence[exp.Expr]
    order: Sequence[exp.Ordered]
    conditions: Sequence[exp.Expr]

    @classmethod
    def of(
        cls,
        keys: Sequence[exp.Expr],
        projections: Sequence[exp.Expr],
        order: Sequence[exp.Ordered] = (),
        conditions: Sequence[exp.Expr] = (),
    ) -> Groups:
        """Groups with the aggregates found in the expressions. Raises NotNative for aggregates that
        only DuckDB computes."""
        aggregates = list(_aggregate_nodes([*projections, *order, *conditions]))
        numbers = {id(node): number for number, node in enumerate(aggregates)}
        return cls(
            keys,
            aggregates,
            [_over_aggregates(node, numbers) for node in projections],
            [_over_aggregates(node, numbers) for node in order],
            [_over_aggregates(node, numbers) for node in conditions],
        )


class GroupScope:
    """The columns of a group's row: its key, then its aggregates, named by number."""

    def __init__(self, groups: Groups, rows: RowScope) -> None:
        self._keys = [key.meta["column"][1:3] for key in groups.keys]
        self._aggregates = groups.aggregates
        self._types = [
            *(_key_type(key, rows) for key in groups.keys),
            *(_aggregate_type(node, rows) for node in groups.aggregates),
        ]
        self._rows = rows
        self.width = len(self._types)

    def place(self, column: exp.Expr) -> tuple[int, ColumnType]:
        """(position, type) of a key column or aggregate. Raises NotNative for other columns."""
        number = column.meta.get("aggregate")
        if number is not None:
            position = len(self._keys) + number
        elif column.meta.get("column", ())[1:3] in self._keys:
            position = self._keys.index(column.meta["column"][1:3])
        else:
            raise NotNative("a column beside aggregates")
        return position, self._types[position]

    def resolve(self, column: exp.Column) -> tuple[int, ColumnType]:
        """`place` for a column inside an expression. Raises NotNative for a SUM, unless it is
        divided to an average."""
        number = column.meta.get("aggregate")
        summed = number is not None and isinstance(self._aggregates[number], exp.Sum)
        if summed and not column.meta.get("divided"):
            raise NotNative("arithmetic with a sum")  # wider than any column
        return self.place(column)

    def parameter_type(self, name: int | str) -> ColumnType | None:
        return self._rows.parameter_type(name)


# --- of a row or a group


Projection = tuple[Callable[[Sequence[Row], Any], list[Row]], tuple[ColumnType | None, ...]]
"""(function from rows to result rows, types of the result)."""


def projection(nodes: Sequence[exp.Expr], scope: RowScope | GroupScope) -> Projection:
    """Compile a SELECT list. Raises NotNative."""
    if all(isinstance(node, exp.Column) for node in nodes):
        found = [scope.place(node) for node in nodes]
        pick = _pick([position for position, _ in found], scope.width)
        return pick, tuple(type_ for _, type_ in found)
    outputs = [_output(node, scope) for node in nodes]
    return _values([value for value, _ in outputs]), tuple(type_ for _, type_ in outputs)


def plain_columns(nodes: Sequence[exp.Expr], scope: RowScope) -> tuple[int, ...] | None:
    """The positions of a SELECT list of columns; None if it has an expression."""
    if not all(isinstance(node, exp.Column) for node in nodes):
        return None
    return tuple(scope.place(node)[0] for node in nodes)


def _output(
    node: exp.Expr, scope: RowScope | GroupScope
) -> tuple[Callable[[Row, Any], Value], ColumnType | None]:
    if isinstance(node, exp.Column):
        position, type_ = scope.place(node)
        return _position(position), type_
    compiled = _compile(node, scope)
    return compiled, compiled.type or ColumnType(Kind.TEXT)  # NULL is text, as in PostgreSQL


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


def _position(position: int) -> Callable[[Row, Any], Value]:
    return lambda row, _parameters: row[position]


def _compile(node: Any, scope: Any) -> CompiledExpression:
    compiled = compile_expression(node, scope)
    if compiled is None:
        raise _not_native("expression", node, scope)
    return compiled


def _not_native(part: str, node: exp.Expr, scope: RowScope | GroupScope) -> NotNative:
    """The error for an expression that is not compiled."""
    parameters = map(parameter_key, nodes_of(node, exp.Placeholder))
    untyped = any(scope.parameter_type(parameter) is None for parameter in parameters)
    return (NeedsTypes if untyped else NotNative)(f"{part} {written(node, NAME)}")


def _condition(node: Any, scope: RowScope | GroupScope) -> Callable[[Row, Any], Value]:
    given = [value.meta.get("parameter") for value in node.expressions]
    if isinstance(node, exp.In) and given and isinstance(given[0], ParameterList):
        name, (position, _) = given[0].name, scope.place(node.this)
        return lambda row, parameters: row[position] in parameters[name]
    compiled = compile_expression(node, scope)
    if compiled is None or compiled.type is None or compiled.type.kind is not Kind.BOOLEAN:
        raise _not_native("condition", node, scope)
    return compiled


def conjunction(
    nodes: Sequence[exp.Expr], scope: RowScope | GroupScope
) -> Callable[[Row, Any], Value] | None:
    """Compile the conjunction of `nodes`; None if there are none. Raises NotNative."""
    checks = [_condition(node, scope) for node in nodes]
    if len(checks) <= 1:
        return checks[0] if checks else None

    def check_all(row: Row, parameters: Any) -> bool:
        return all(check(row, parameters) is True for check in checks)

    return check_all


def sort_term(node: exp.Ordered, scope: RowScope | GroupScope) -> SortTerm:
    """Compile a term of ORDER BY. Raises NotNative."""
    if isinstance(node.this, exp.Column):
        position, type_ = scope.place(node.this)
        return SortTerm(_ordered(_position(position), type_), *direction(node))
    compiled = compile_expression(node.this, scope)
    if compiled is None or compiled.type is None or compiled.type.kind is Kind.DOUBLE:
        # A computed double may be NaN, which DuckDB sorts differently.
        raise _not_native("ORDER BY", node.this, scope)
    return SortTerm(_ordered(compiled, compiled.type), *direction(node))


def _ordered(value: Callable[[Row, Any], Value], type_: ColumnType) -> Callable[[Row, Any], Any]:
    """The key by which values of a type are ordered: the value itself, unless it is an array."""
    if type_.kind is not Kind.ARRAY:
        return value

    def key(row: Row, parameters: Any) -> Any:
        found = value(row, parameters)
        return order_of(found) if isinstance(found, tuple) else found

    return key


def direction(node: exp.Ordered) -> tuple[bool, bool]:
    """(descending, NULLs first)."""
    return bool(node.args.get("desc")), bool(node.args.get("nulls_first"))


# --- groups


def grouping(groups: Groups, rows: RowScope, scope: GroupScope) -> Grouping:
    """Compile GROUP BY and HAVING. Raises NotNative."""
    return Grouping(
        key=getter([rows.place(node)[0] for node in groups.keys]),
        aggregates=tuple(_aggregate(node, rows) for node in groups.aggregates),
        whole=not groups.keys,
        having=conjunction(groups.conditions, scope),
    )


def _key_type(node: exp.Expr, rows: RowScope) -> ColumnType:
    """The type of a GROUP BY column. Raises NotNative for types whose equal values may differ."""
    _, type_ = rows.place(node)
    if type_.kind in (Kind.DOUBLE, Kind.JSON):
        raise NotNative(f"GROUP BY a column of type {type_.sql()}")
    return type_


def _aggregate_nodes(nodes: Iterable[exp.Expr]) -> Iterator[exp.Expr]:
    """The aggregates in expressions. A total is one aggregate, with its cast."""
    inside: set[int] = set()
    for node in itertools.chain.from_iterable(node.walk() for node in nodes):
        total = _total(node)
        if total is not None:
            inside.add(id(total.sum))
            yield node
        if not is_aggregate(node) or id(node) in inside:
            continue
        plain = not isinstance(node.this, exp.Distinct) and not node.expressions
        if not isinstance(node, _AGGREGATES) or not plain:
            raise NotNative(f"aggregate {written(node, NAME)}")
        if node.find_ancestor(exp.Window, exp.Filter, exp.WithinGroup, exp.AggFunc):
            raise NotNative(f"aggregate {written(node, NAME)} within another, or over a part")
        yield node


def _over_aggregates(node: N, numbers: Mapping[int, int]) -> N:
    """A copy of `node` in which each aggregate is replaced by a column for its result."""
    places = [numbers.get(id(part)) for part in node.walk(bfs=False)]
    root = exp.Paren(this=node.copy())  # a parent, so that `node` itself can be replaced
    for part, number in list(zip(root.this.walk(bfs=False), places, strict=True)):
        if number is not None:
            column = exp.column(f"aggregate_{number}")
            column.meta["aggregate"] = number
            column.meta["divided"] = _is_divided(part)
            supersede(part, column)
    copy: N = root.this
    unlink(root)
    return copy


def _is_divided(node: exp.Expr) -> bool:
    """Is this an operand of a quotient that is an average?"""
    return node.parent is not None and QUOTIENT in node.parent.meta


class _Total(NamedTuple):
    """CAST(SUM(x) AS BIGINT), or CAST(COALESCE(SUM(x), 0) AS BIGINT): a sum of counts."""

    sum: exp.Sum
    empty: Value


def _total(node: exp.Expr) -> _Total | None:
    """The total that a node is; None for any other node."""
    if not isinstance(node, exp.Cast) or node.args["to"].this is not exp.DType.BIGINT:
        return None
    value, empty = node.this, None
    if isinstance(value, exp.Coalesce) and value.expressions == [exp.Literal.number(0)]:
        value, empty = value.this, 0
    plain = isinstance(value, exp.Sum) and not isinstance(value.this, exp.Distinct)
    if not plain or isinstance(node, exp.TryCast):
        return None
    return None if node.find_ancestor(exp.Window, exp.Filter, exp.AggFunc) else _Total(value, empty)


def _aggregate(node: exp.Expr, scope: RowScope) -> Aggregate:
    total = _total(node)
    if total is not None:
        return Aggregate(exp.Sum, _compile(total.sum.this, scope), whole=True, empty=total.empty)
    if node.this is None or isinstance(node.this, exp.Star):
        return Aggregate(type(node), None)
    argument = _compile(node.this, scope)
    narrow = isinstance(node, exp.Sum) and not node.meta.get(WIDE)
    integers = argument.type is not None and argument.type.kind is Kind.INTEGER
    return Aggregate(type(node), argument, narrow and integers)


def _aggregate_type(node: exp.Expr, scope: RowScope) -> ColumnType:
    """The aggregate's type. Raises NotNative for sums of doubles, which depend on the order of the
    rows, and for computed doubles."""
    cast = _total(node)
    if cast is not None:
        argument = _compile(cast.sum.this, scope).type
        if argument is None or argument.kind not in (Kind.INTEGER, Kind.BIGINT):
            raise NotNative(f"the sum {written(node, NAME)}")
    if isinstance(node, exp.Count) or cast is not None:
        return ColumnType(Kind.BIGINT)
    type_ = _compile(node.this, scope).type
    if type_ is not None and type_.kind is Kind.ARRAY:
        raise NotNative(f"aggregate {written(node, NAME)} of arrays")
    if type_ is None or (type_.kind is Kind.DOUBLE and "column" not in node.this.meta):
        raise NotNative(f"aggregate {written(node, NAME)}")
    if not isinstance(node, exp.Sum):
        return type_
    total = sum_type(type_)
    if total is None or total.kind in (Kind.DOUBLE, Kind.INTERVAL):
        raise NotNative(f"the sum {written(node, NAME)}")
    return total
