"""Expressions that convert the values of a column, which gets another type.

An expression of a query is compiled only if its result certainly equals DuckDB's. The values of a
column are converted once, by our own loops alone. So a conversion may also have any cast that the
readers of text and the assignment casts know (`schema/types.py`, `schema/assignment.py`), time
zones, and `to_timestamp` of a number.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from sqlglot import exp

from hornbeam_server.query.dialect.macros import macro
from hornbeam_server.query.expressions import casts
from hornbeam_server.query.expressions.compiler import (
    CompiledExpression,
    Compiler,
    compile_expression,
)
from hornbeam_server.query.expressions.operands import (
    NUMBERS,
    TIMESTAMP,
    NotNativeError,
    Operand,
    Scope,
    require,
    unary,
)
from hornbeam_server.query.values.zones import in_zone
from hornbeam_server.schema.assignment import assign
from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.types import SMALLINT, ColumnType, Kind

_INTEGERS = {Kind.INTEGER, Kind.BIGINT}
_TIMESTAMPTZ = ColumnType(Kind.TIMESTAMPTZ)
_Y2K = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


def compile_conversion_to(
    to: ColumnType, node: exp.Expr, scope: Scope
) -> CompiledExpression | None:
    """Compile the conversion `node` to values of a column of type `to`. None if a part of it has no
    compiled form."""
    return compile_expression(node, scope, lambda scope: _Conversion(scope, to, node.unnest()))


class _Conversion(Compiler):
    """`outermost`, if it is a cast to NUMERIC without precision, casts to the type of the column:
    both keep the digits that the column has room for."""

    def __init__(self, scope: Scope, to: ColumnType, outermost: exp.Expr) -> None:
        super().__init__(scope)
        self._to, self._outermost = to, outermost

    def compile(self, node: Any) -> Operand:
        try:
            return super().compile(node)
        except NotNativeError:
            match node:
                case exp.Cast():
                    return self._cast(node)
                case exp.AtTimeZone(this=time, args={"zone": zone}):
                    return self._in_zone(zone, time)
                case exp.Anonymous(expressions=[zone, time]) if node.name == macro("in_zone"):
                    return self._in_zone(zone, time)
                case exp.Anonymous(expressions=[number]) if node.name.lower() == "to_timestamp":
                    operand = require(self.compile(number), *NUMBERS)
                    return unary(operand, _TIMESTAMPTZ, _instant)
            raise

    def _cast(self, node: exp.Cast) -> Operand:
        numeric = node is self._outermost and casts.is_numeric(node.to)
        to = self._to if numeric and self._to.kind is Kind.DECIMAL else _target(node.to)
        operand = self.compile(node.this)
        if operand.type is None:
            raise NotNativeError
        return unary(operand, to, _caster(operand.type, to))

    def _in_zone(self, zone: exp.Expr, time: exp.Expr) -> Operand:
        if not isinstance(zone, exp.Literal) or not zone.is_string:
            raise NotNativeError
        operand = self.compile(time)
        if operand.kind is Kind.DATE:  # PostgreSQL makes it an instant
            operand = unary(operand, _TIMESTAMPTZ, lambda day: assign(_TIMESTAMPTZ, day))
        require(operand, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
        with_zone = operand.kind is Kind.TIMESTAMPTZ
        return unary(
            operand,
            TIMESTAMP if with_zone else _TIMESTAMPTZ,
            lambda value: in_zone(zone.name, value),
        )


def _target(to: exp.DataType) -> ColumnType:
    if to.this is exp.DataType.Type.JSON:
        return ColumnType(Kind.JSON)
    if to.this is exp.DataType.Type.SMALLINT:
        return SMALLINT
    return casts.target_type(to)


def _caster(from_: ColumnType, to: ColumnType) -> Callable[[Any], Any]:
    # PostgreSQL rounds a double to an integer with halves to even, and a decimal away from zero.
    if from_.kind is not Kind.DOUBLE or to.kind not in _INTEGERS:
        return lambda value: assign(to, value)
    return lambda value: assign(to, round(value) if abs(value) < 1 << 62 else value)


def _instant(seconds: float | Decimal) -> dt.datetime:
    """The timestamp so many seconds after 1970, rounded as PostgreSQL's (`float8_timestamptz`).
    Raises TypeMismatch out of the years."""
    try:
        return _Y2K + round((float(seconds) - _Y2K.timestamp()) * 1_000_000) * _MICROSECOND
    except (ArithmeticError, ValueError):
        raise TypeMismatch(
            f"to_timestamp({seconds}) is outside of the years 1 to 9999.",
            cure="Give seconds since 1970, not milliseconds.",
        ) from None
