"""What native plans compute: values of a joined row, groups, and what is asked of a group.

Everything becomes a closure over a row and the parameters when the statement is prepared.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlglot import exp

from query.access import Access
from query.algebra import ParameterList
from query.expressions import CompiledExpression, SortTerm, compile_expression
from query.fetch import getter
from query.native import Aggregate, Grouping
from schema.types import MAX_DECIMAL_PRECISION, ColumnType, Kind, Row, Value

_AGGREGATES = (exp.Count, exp.Sum, exp.Min, exp.Max)

N = TypeVar("N", bound=exp.Expr)


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


@dataclass(frozen=True)
class Groups:
    """GROUP BY, or aggregates over all rows (no `keys`). What else is asked is asked of a group's
    row: there each of the `aggregates` is a column, named by its number.
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
        """With the aggregates of all the others found. Raises NotNative for unusual ones."""
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
    """The row of a group: its key, then its aggregates, which are columns named by number."""

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
        """Raises NotNative for what is neither."""
        number = column.meta.get("aggregate")
        if number is not None:
            position = len(self._keys) + number
        elif column.meta.get("column", ())[1:3] in self._keys:
            position = self._keys.index(column.meta["column"][1:3])
        else:
            raise NotNative("a column beside aggregates")
        return position, self._types[position]

    def resolve(self, column: exp.Column) -> tuple[int, ColumnType]:
        """`place` for a part of an expression."""
        number = column.meta.get("aggregate")
        if number is not None and isinstance(self._aggregates[number], exp.Sum):
            raise NotNative("arithmetic with a sum")  # wider than any column
        return self.place(column)

    def parameter_type(self, name: int | str) -> ColumnType | None:
        return self._rows.parameter_type(name)


# --- of a row or a group


Projection = tuple[Callable[[Sequence[Row], Any], list[Row]], tuple[ColumnType | None, ...]]
"""Rows to result rows, and the result's types."""


def projection(nodes: Sequence[exp.Expr], scope: RowScope | GroupScope) -> Projection:
    """Raises NotNative."""
    if all(isinstance(node, exp.Column) for node in nodes):
        found = [scope.place(node) for node in nodes]
        pick = _pick([position for position, _ in found], scope.width)
        return pick, tuple(type_ for _, type_ in found)
    outputs = [_output(node, scope) for node in nodes]
    return _values([value for value, _ in outputs]), tuple(type_ for _, type_ in outputs)


def _output(
    node: exp.Expr, scope: RowScope | GroupScope
) -> tuple[Callable[[Row, Any], Value], ColumnType | None]:
    if isinstance(node, exp.Column):
        position, type_ = scope.place(node)
        return _position(position), type_
    compiled = _compile(node, scope)
    return compiled, compiled.type


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
        raise NotNative(f"expression {node.sql('duckdb')}")
    return compiled


def _condition(node: Any, scope: RowScope | GroupScope) -> Callable[[Row, Any], Value]:
    given = [value.meta.get("parameter") for value in node.expressions]
    if isinstance(node, exp.In) and given and isinstance(given[0], ParameterList):
        name, (position, _) = given[0].name, scope.place(node.this)
        return lambda row, parameters: row[position] in parameters[name]
    compiled = compile_expression(node, scope)
    if compiled is None or compiled.type is None or compiled.type.kind is not Kind.BOOLEAN:
        raise NotNative(f"condition {node.sql('duckdb')}")
    return compiled


def conjunction(
    nodes: Sequence[exp.Expr], scope: RowScope | GroupScope
) -> Callable[[Row, Any], Value] | None:
    """Their conjunction; None if there are none. Raises NotNative."""
    checks = [_condition(node, scope) for node in nodes]
    if len(checks) <= 1:
        return checks[0] if checks else None

    def check_all(row: Row, parameters: Any) -> bool:
        return all(check(row, parameters) is True for check in checks)

    return check_all


def sort_term(node: exp.Ordered, scope: RowScope | GroupScope) -> SortTerm:
    """Raises NotNative."""
    if isinstance(node.this, exp.Column):
        return SortTerm(_position(scope.place(node.this)[0]), *direction(node))
    compiled = compile_expression(node.this, scope)
    if compiled is None or compiled.type is None or compiled.type.kind is Kind.DOUBLE:
        # A computed double may be NaN, which has its own place in DuckDB's order.
        raise NotNative(f"ORDER BY {node.this.sql('duckdb')}")
    return SortTerm(compiled, *direction(node))


def direction(node: exp.Ordered) -> tuple[bool, bool]:
    """(descending, NULLs first); without a word NULLs come last, as in DuckDB."""
    return bool(node.args.get("desc")), bool(node.args.get("nulls_first"))


# --- groups


def grouping(groups: Groups, rows: RowScope, scope: GroupScope) -> Grouping:
    """Raises NotNative."""
    return Grouping(
        key=getter([rows.place(node)[0] for node in groups.keys]),
        aggregates=tuple(_aggregate(node, rows) for node in groups.aggregates),
        whole=not groups.keys,
        having=conjunction(groups.conditions, scope),
    )


def _key_type(node: exp.Expr, rows: RowScope) -> ColumnType:
    """Raises NotNative for what may be equal without being the same."""
    _, type_ = rows.place(node)
    if type_.kind in (Kind.DOUBLE, Kind.JSON):
        raise NotNative(f"GROUP BY a column of type {type_.sql()}")
    return type_


def _aggregate_nodes(nodes: Iterable[exp.Expr]) -> Iterator[exp.Expr]:
    for node in itertools.chain.from_iterable(item.find_all(exp.AggFunc) for item in nodes):
        plain = not isinstance(node.this, exp.Distinct) and not node.expressions
        if not isinstance(node, _AGGREGATES) or not plain:
            raise NotNative(f"aggregate {node.sql('duckdb')}")
        if node.find_ancestor(exp.Window, exp.Filter, exp.WithinGroup, exp.AggFunc):
            raise NotNative(f"aggregate {node.sql('duckdb')} within another, or over a part")
        yield node


def _over_aggregates(node: N, numbers: Mapping[int, int]) -> N:
    """A copy in which each aggregate is a column that stands for its result."""
    places = [numbers.get(id(part)) for part in node.walk(bfs=False)]
    root = exp.Paren(this=node.copy())  # so that an aggregate that is all of it can be replaced
    for part, number in list(zip(root.this.walk(bfs=False), places, strict=True)):
        if number is not None:
            column = exp.column(f"aggregate_{number}")
            column.meta["aggregate"] = number
            part.replace(column)
    copy: N = root.this
    return copy


def _aggregate(node: exp.Expr, scope: RowScope) -> Aggregate:
    if node.this is None or isinstance(node.this, exp.Star):
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
