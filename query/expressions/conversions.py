"""Casts of the values of a column that gets another type.

A cast in a query is compiled only if its result certainly equals DuckDB's. The values of a column
are converted once, by our own loops alone. So the outer casts of a conversion may be any that the
readers of text and the assignment casts know (`schema/types.py`, `schema/assignment.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from hornbeam_server.query.expressions import casts
from hornbeam_server.query.expressions.compiler import CompiledExpression, compile_expression
from hornbeam_server.query.expressions.operands import NotNativeError, Parameters, Scope
from hornbeam_server.schema.assignment import assign
from hornbeam_server.schema.types import SMALLINT, ColumnType, Kind, Row, Value

_INTEGERS = {Kind.INTEGER, Kind.BIGINT}


def compile_with_casts(node: exp.Expr, scope: Scope) -> CompiledExpression | None:
    """Compile `node` as `compile_expression` does, and else its outer casts one by one. None if the
    expression inside of them has no compiled form, or a target is no type of a column."""
    compiled = compile_expression(node, scope)
    inner = node.unnest()
    if compiled is not None or type(inner) is not exp.Cast:
        return compiled
    before = compile_with_casts(inner.this, scope)
    to = _target(inner.args["to"])
    if before is None or to is None or before.type is None:
        return None
    return CompiledExpression(to, _cast(before, to))


def _target(to: exp.DataType) -> ColumnType | None:
    if to.this is exp.DataType.Type.JSON:
        return ColumnType(Kind.JSON)
    if to.this is exp.DataType.Type.SMALLINT:
        return SMALLINT
    try:
        return casts.target_type(to)
    except NotNativeError:
        return None


def _cast(before: CompiledExpression, to: ColumnType) -> Callable[[Row, Parameters], Any]:
    evaluate = before.evaluate
    assert before.type is not None
    # PostgreSQL rounds a double to an integer with halves to even, and a decimal away from zero.
    even = before.type.kind is Kind.DOUBLE and to.kind in _INTEGERS

    def cast(row: Row, parameters: Parameters) -> Value:
        value: Any = evaluate(row, parameters)
        if even and isinstance(value, float) and abs(value) < 1 << 62:
            value = round(value)
        return assign(to, value)

    return cast
