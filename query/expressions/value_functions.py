"""PostgreSQL's functions over Python's values, in our own loops
(`query/dialect/value_functions.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from hornbeam_server.query.dialect.value_functions import ANY, Function
from hornbeam_server.query.expressions.literals import parse_text
from hornbeam_server.query.expressions.operands import (
    INTEGERS,
    NotNativeError,
    Operand,
    constant,
    convert,
    strict,
    unary,
)
from hornbeam_server.schema.types import REAL, ColumnType, Kind

_ANY_DECIMAL = ColumnType(Kind.DECIMAL)


def called(function: Function, operands: Sequence[Operand]) -> Operand:
    """The call of a function. Raises NotNativeError for arguments that only DuckDB casts."""
    if not function.loops or len(operands) not in function.counts:
        raise NotNativeError
    given = [
        _argument(operand, type_)
        for operand, type_ in zip(operands, function.parameters, strict=False)
    ]
    if function.result.kind is Kind.DECIMAL:
        return convert(strict(_ANY_DECIMAL, function.run, *given), function.result)
    if function.strict:
        return strict(function.result, function.run, *given)
    parts, run = [operand.evaluate for operand in given], function.run
    return Operand(function.result, lambda row, p: run(*[part(row, p) for part in parts]))


def _argument(operand: Operand, type_: ColumnType | None) -> Operand:
    if type_ is ANY and operand.type == REAL:
        raise NotNativeError  # the value alone does not show its type
    if operand.type is None or type_ is ANY:
        return operand
    if type_.kind is Kind.DECIMAL and operand.text is None:
        return _decimal(operand)
    if operand.text is not None and type_.kind is Kind.BYTES:
        return constant(type_, parse_text(operand.text, type_))
    return convert(operand, type_)


def _decimal(operand: Operand) -> Operand:
    """An integer or decimal as a decimal, with all its digits."""
    if operand.kind in INTEGERS:
        return unary(operand, _ANY_DECIMAL, Decimal)
    if operand.kind is not Kind.DECIMAL:
        raise NotNativeError
    return operand
