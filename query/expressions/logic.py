"""AND, OR, NOT, IS, and conditional expressions: CASE, COALESCE, NULLIF, GREATEST, LEAST."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from hornbeam_server.query.expressions.comparison import both, compare
from hornbeam_server.query.expressions.operands import (
    BOOLEAN,
    Evaluate,
    NotNativeError,
    Operand,
    common_type,
    constant,
    convert,
    require,
    unary,
)
from hornbeam_server.schema.types import Kind


def condition(operand: Operand) -> Operand:
    """A boolean operand for AND, OR, NOT and WHEN."""
    return convert(require(operand, Kind.BOOLEAN), BOOLEAN)


def conjunction(operands: Sequence[Operand]) -> Operand:
    """AND: false takes precedence over NULL, NULL over true."""
    if len(operands) == 2:
        return both(*operands)
    return _first_wins([operand.evaluate for operand in operands], False)


def disjunction(operands: Sequence[Operand]) -> Operand:
    """OR: true takes precedence over NULL, NULL over false."""
    return _first_wins([operand.evaluate for operand in operands], True)


def _first_wins(parts: Sequence[Evaluate], winner: bool) -> Operand:
    def evaluate(row: Any, parameters: Any) -> bool | None:
        result: bool | None = not winner
        for part in parts:
            value: bool | None = part(row, parameters)
            if value is winner:
                return winner
            result = None if value is None else result
        return result

    return Operand(BOOLEAN, evaluate)


def negation(operand: Operand) -> Operand:
    return unary(condition(operand), BOOLEAN, operator.not_)


def is_null(operand: Operand) -> Operand:
    if (i := operand.position) is not None:
        return Operand(BOOLEAN, lambda row, _: row[i] is None)
    evaluate = operand.evaluate
    return Operand(BOOLEAN, lambda row, p: evaluate(row, p) is None)


def is_truth(operand: Operand, wanted: bool) -> Operand:
    """IS TRUE and IS FALSE; the result is never NULL."""
    evaluate = condition(operand).evaluate
    return Operand(BOOLEAN, lambda row, p: evaluate(row, p) is wanted)


def case(branches: Sequence[tuple[Operand, Operand]], default: Operand) -> Operand:
    """CASE: the value after the first condition that is true, or the default."""
    type_ = common_type([*(value for _, value in branches), default])
    pairs = [(condition(test).evaluate, convert(value, type_).evaluate) for test, value in branches]
    otherwise = convert(default, type_).evaluate

    def evaluate(row: Any, parameters: Any) -> Any:
        for test, value in pairs:
            if test(row, parameters) is True:
                return value(row, parameters)
        return otherwise(row, parameters)

    nan = any(value.may_be_nan for _, value in branches) or default.may_be_nan
    return Operand(type_, evaluate, may_be_nan=nan)


def coalesce(operands: Sequence[Operand]) -> Operand:
    type_ = common_type(operands)
    parts = [convert(operand, type_).evaluate for operand in operands]

    def evaluate(row: Any, parameters: Any) -> Any:
        for part in parts:
            value = part(row, parameters)
            if value is not None:
                return value
        return None

    return Operand(type_, evaluate, may_be_nan=any(operand.may_be_nan for operand in operands))


def nullif(value: Operand, other: Operand) -> Operand:
    """NULLIF: `value`, or NULL where both are equal. The result has the type of `value`."""
    if value.type is None or value.text is not None:
        raise NotNativeError
    f, equal = value.evaluate, compare(operator.eq, value, other).evaluate
    return Operand(
        value.type,
        lambda row, p: None if equal(row, p) is True else f(row, p),
        may_be_nan=value.may_be_nan,
    )


def extreme(choose: Callable[[Any], Any], operands: Sequence[Operand]) -> Operand:
    """GREATEST (`max`) and LEAST (`min`), which ignore NULLs.

    Doubles are not supported: the sign of the result shows which of two zeros was chosen. Nor are
    arrays, which Python orders otherwise.
    """
    type_ = common_type(operands)
    if type_.kind in (Kind.DOUBLE, Kind.ARRAY):
        raise NotNativeError
    parts = [convert(operand, type_).evaluate for operand in operands]

    def evaluate(row: Any, parameters: Any) -> Any:
        values = [v for part in parts if (v := part(row, parameters)) is not None]
        return choose(values) if values else None

    return Operand(type_, evaluate)


def truth(value: bool) -> Operand:
    return constant(BOOLEAN, value)
