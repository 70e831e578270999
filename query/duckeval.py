"""Scalar expressions evaluated by DuckDB: for all that `query.expressions` does not compile.

Slow (about a millisecond per call, whatever the number of rows), and by construction right. What
is computed may take any time, so it is done in a thread of a `DuckSession`, which can be stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from decimal import Decimal
from typing import Any, TypeVar

import duckdb
import pyarrow as pa
from sqlglot import exp

from query.duck import column_type, from_record_batch, to_record_batch
from query.expressions.parameters import number_placeholders, parameter_key
from schema.errors import SqlError, TypeMismatch, UnknownName
from schema.model import Column
from schema.types import MAX_DECIMAL_PRECISION, ColumnType, Kind, Row, Value

_POSITION = "position"
_CURSOR: ContextVar[duckdb.DuckDBPyConnection] = ContextVar("cursor")
Types = Mapping[int | str, ColumnType | None]
T = TypeVar("T")


def evaluating(cursor: duckdb.DuckDBPyConnection, work: Callable[[], T]) -> T:
    """What `work` returns; it may call `evaluate`, which uses `cursor`: who has that can interrupt
    it."""
    token = _CURSOR.set(cursor)
    try:
        return work()
    finally:
        _CURSOR.reset(token)


def evaluate(
    node: exp.Expr,
    columns: Sequence[Column],
    rows: Sequence[Row],
    parameters: Sequence[Any] | Mapping[str, Any] = (),
    parameter_types: Types | None = None,
) -> list[Value]:
    """The value of `node` for each row, in the rows' order.

    A column named "q.c" is what `q.c` means; any other is found by its bare name. Parameters become
    comparands of `parameter_types` where given, and otherwise have the type that DuckDB sees in the
    value. Raises UnknownName, TypeMismatch (a value does not fit), SqlError, and DuckDB's errors.
    Only inside `evaluating`.
    """
    if not rows:
        return []
    number_placeholders(node)
    types = dict(parameter_types or {})
    given = {}
    for key in dict.fromkeys(map(parameter_key, node.find_all(exp.Placeholder))):
        given[key] = _comparand(parameters, key, types)
        types[key] = _unrounded(types.get(key), given[key])
    plan = _plan(node, tuple(columns), types)
    values = {name: given[key] for name, key in plan.parameters}
    batch = to_record_batch(
        [Column(_POSITION, ColumnType(Kind.BIGINT)), *plan.columns],
        [(number, *(row[i] for i in plan.positions)) for number, row in enumerate(rows)],
    )
    found = _run(plan.sql, batch, values)
    if len(found) != len(rows):  # UNLIST and its kin
        raise SqlError(f"{node.sql(dialect='duckdb')} is not one value for each row")
    return found


def _comparand(
    parameters: Sequence[Any] | Mapping[str, Any],
    key: int | str,
    types: Types,
) -> Any:
    try:
        value = parameters[key]  # type: ignore[index]
    except (KeyError, IndexError, TypeError):
        raise SqlError(f"Parameter {key} is missing.") from None
    type_ = types.get(key)
    return value if type_ is None else type_.comparand(value)


def _unrounded(type_: ColumnType | None, value: Any) -> ColumnType | None:
    """`type_`, or one that has its digits and those of `value` too: a cast to it rounds neither."""
    if type_ is None or not isinstance(value, Decimal):
        return type_
    precision, scale = type_.precision or MAX_DECIMAL_PRECISION, type_.scale or 0
    places = max(scale, -int(value.as_tuple().exponent))
    digits = max(precision - scale, value.adjusted() + 1) + places
    if digits > MAX_DECIMAL_PRECISION:
        raise TypeMismatch(
            f"a value compared with {type_.sql()} has too many digits to be compared exactly",
            cure="round the value",
            type=type_.sql(),
        )
    return replace(type_, precision=digits, scale=places)


class _Plan:
    """SQL over columns c0, c1, … and parameters $p0, $p1, …"""

    def __init__(self, node: exp.Expr, columns: Sequence[Column], types: Types) -> None:
        self.positions: list[int] = []
        self.parameters: list[tuple[str, int | str]] = []
        self._types = types
        self._names = {column.name: i for i, column in enumerate(columns)}
        tree = node.copy().transform(self._replace)
        self.columns = [
            Column(f"c{i}", columns[position].type) for i, position in enumerate(self.positions)
        ]
        self.sql = f"SELECT {tree.sql(dialect='duckdb')} FROM input ORDER BY {_POSITION}"

    def _replace(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column):
            return exp.column(f"c{self._slot(node)}")
        if isinstance(node, exp.Placeholder):
            name = f"p{len(self.parameters)}"
            key = parameter_key(node)
            self.parameters.append((name, key))
            type_ = self._types.get(key)
            value = exp.Placeholder(this=name)
            return value if type_ is None else exp.cast(value, type_.sql(), dialect="duckdb")
        return node

    def _slot(self, node: exp.Column) -> int:
        qualified = f"{node.table}.{node.name}"
        position = self._names.get(qualified, self._names.get(node.name))
        if position is None:
            raise UnknownName(f"There is no column {node.name} here.")
        if position not in self.positions:
            self.positions.append(position)
        return self.positions.index(position)


def _plan(node: exp.Expr, columns: tuple[Column, ...], types: Types) -> _Plan:
    """Plans are kept in the node's own meta: they live as long as the statement's plan."""
    kept = node.meta.get("duckeval")
    if kept is None or kept[:2] != (columns, types):
        kept = node.meta["duckeval"] = (columns, types, _Plan(node, columns, types))
    plan: _Plan = kept[2]
    return plan


def _run(sql: str, batch: pa.RecordBatch, parameters: Mapping[str, Any]) -> list[Value]:
    cursor = _CURSOR.get()
    cursor.register("input", batch)
    relation = cursor.sql(sql, params=dict(parameters))
    types = [column_type(type_) for type_ in relation.types]
    batches = relation.to_arrow_table().to_batches()
    return [value for part in batches for (value,) in from_record_batch(part, types)]
