"""Comparisons under three-valued logic: =, <, BETWEEN, IN, IS DISTINCT FROM."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from hornbeam_server.query.expressions.operands import (
    BOOLEAN,
    Evaluate,
    Operand,
    binary,
    comparable,
    constant,
)
from hornbeam_server.schema.arrays import order_of
from hornbeam_server.schema.types import Kind

Test = Callable[[Any, Any], bool]


def compare(test: Test, left: Operand, right: Operand) -> Operand:
    """`left test right`, where `test` is a comparison function of module `operator`."""
    left, right = comparable((left, right))
    return _compare(test, left, right)


def _compare(test: Test, left: Operand, right: Operand) -> Operand:
    if left.constant and not right.constant:
        return _compare(_MIRRORED[test], right, left)  # `binary` is fastest for column and constant
    return binary(left, right, BOOLEAN, _nan_aware(test, left, right))


_MIRRORED: dict[Test, Test] = {
    operator.eq: operator.eq,
    operator.ne: operator.ne,
    operator.lt: operator.gt,
    operator.gt: operator.lt,
    operator.le: operator.ge,
    operator.ge: operator.le,
}


def _nan_aware(test: Test, *operands: Operand) -> Test:
    """`test` with DuckDB's NaN, which equals itself and is greater than all numbers. Only
    arithmetic produces NaN. Arrays are ordered by their elements, of which NULL is the largest."""
    if test not in _EQUALITY and any(_is_array(operand) for operand in operands):
        return lambda a, b: test(order_of(a), order_of(b))
    if not any(operand.may_be_nan for operand in operands):
        return test
    return lambda a, b: test(_total(a), _total(b))


_EQUALITY = (operator.eq, operator.ne)


def _is_array(operand: Operand) -> bool:
    return operand.type is not None and operand.type.kind is Kind.ARRAY


def _total(value: float) -> tuple[bool, float]:
    return (True, 0.0) if value != value else (False, value)  # noqa: PLR0124


def between(value: Operand, low: Operand, high: Operand) -> Operand:
    """BETWEEN: low <= value AND value <= high. The result is also false when one side is false and
    the other is NULL."""
    value, low, high = comparable((value, low, high))
    above = _compare(operator.ge, value, low)
    below = _compare(operator.le, value, high)
    plain = value.position is not None and low.constant and high.constant and not _is_array(value)
    if plain and low.value is not None and high.value is not None:
        return _column_between(value, low.value, high.value)
    return both(above, below)


def _column_between(column: Operand, low: Any, high: Any) -> Operand:
    i = column.position
    assert i is not None
    return Operand(
        BOOLEAN, lambda row, _: None if (value := row[i]) is None else low <= value <= high
    )


def both(left: Operand, right: Operand) -> Operand:
    """AND of two operands."""
    f, g = left.evaluate, right.evaluate

    def evaluate(row: Any, parameters: Any) -> bool | None:
        first = f(row, parameters)
        if first is False:
            return False
        second = g(row, parameters)
        if second is False:
            return False
        return None if first is None or second is None else True

    return Operand(BOOLEAN, evaluate)


def member(value: Operand, items: Sequence[Operand]) -> Operand:
    """Value IN (items). The result is NULL if no item equals the value and an item is NULL."""
    value, *items = comparable((value, *items))
    if all(item.constant for item in items) and not value.may_be_nan:
        return _constant_member(value, [item.value for item in items])
    test = _nan_aware(operator.eq, value, *items)
    return Operand(BOOLEAN, _any_equal(test, value.evaluate, [item.evaluate for item in items]))


def _constant_member(value: Operand, items: Sequence[Any]) -> Operand:
    found = frozenset(item for item in items if item is not None)
    absent = None if None in items else False
    evaluate = value.evaluate
    if (i := value.position) is not None:
        return Operand(
            BOOLEAN,
            lambda row, _: None if (v := row[i]) is None else (True if v in found else absent),
        )
    return Operand(
        BOOLEAN,
        lambda row, p: (
            None if (v := evaluate(row, p)) is None else (True if v in found else absent)
        ),
    )


def _any_equal(test: Test, value: Evaluate, items: Sequence[Evaluate]) -> Evaluate:
    def evaluate(row: Any, parameters: Any) -> bool | None:
        wanted = value(row, parameters)
        if wanted is None:
            return None
        result: bool | None = False
        for item in items:
            candidate = item(row, parameters)
            if candidate is None:
                result = None
            elif test(wanted, candidate):
                return True
        return result

    return evaluate


def distinct(left: Operand, right: Operand) -> Operand:
    """Left IS DISTINCT FROM right; the result is never NULL."""
    if left.type is None and right.type is None:
        return constant(BOOLEAN, False)
    left, right = comparable((left, right))
    test = _nan_aware(operator.ne, left, right)
    f, g = left.evaluate, right.evaluate

    def evaluate(row: Any, parameters: Any) -> bool:
        a, b = f(row, parameters), g(row, parameters)
        if a is None or b is None:
            return a is not b
        return test(a, b)

    return Operand(BOOLEAN, evaluate)
