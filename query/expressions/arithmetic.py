"""Arithmetic, ABS, ROUND, FLOOR, CEIL and TRUNC on numbers, with DuckDB's result types and
overflows."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from hornbeam_server.query.expressions import moments
from hornbeam_server.query.expressions.casts import cast
from hornbeam_server.query.expressions.literals import in_range
from hornbeam_server.query.expressions.operands import (
    BIGINT,
    DOUBLE,
    EXACT,
    INT64_DIGITS,
    INTEGER,
    INTEGERS,
    NUMBERS,
    NotNativeError,
    Operand,
    as_decimal,
    binary,
    common_type,
    constant,
    convert,
    require,
    scaler,
    unary,
)
from hornbeam_server.query.values.numbers import to_real
from hornbeam_server.schema import quotients
from hornbeam_server.schema.errors import DivisionByZero, TypeMismatch
from hornbeam_server.schema.types import MAX_DECIMAL_PRECISION, REAL, SMALLINT, ColumnType, Kind

Binary = Callable[[Any, Any], Any]

_EXACT_POWER = 22
"""10 to this power is a double."""
_HALF = 0.5
_SMALL = SMALLINT.declared_integers
_LIMITS = {Kind.INTEGER: 1 << 31, Kind.BIGINT: 1 << 63}
_NAMES = {operator.add: "addition", operator.sub: "subtraction", operator.mul: "multiplication"}
_EXACT: dict[Binary, Binary] = {
    operator.add: EXACT.add,
    operator.sub: EXACT.subtract,
    operator.mul: EXACT.multiply,
}


def arithmetic(function: Binary, left: Operand, right: Operand) -> Operand:
    """Addition, subtraction or multiplication: `function` is `operator.add`, `sub` or `mul`. At run
    time, an overflow raises TypeMismatch."""
    if left.text is not None or right.text is not None:
        raise NotNativeError
    kinds = {left.kind, right.kind}
    if kinds == {Kind.DATE} and function is operator.sub:
        return binary(left, right, BIGINT, lambda a, b: (a - b).days)
    if not kinds <= NUMBERS:
        return moments.arithmetic(function, left, right)
    if Kind.DOUBLE in kinds:
        return _double(function, left, right)
    if kinds <= INTEGERS:
        return _integer(function, left, right)
    return _decimal(function, left, right)


def _double(function: Binary, left: Operand, right: Operand) -> Operand:
    """`function` of doubles. The result of two REALs is rounded to a REAL, as if computed so: a
    double has more than twice its digits."""
    real = left.type == right.type == REAL
    checked = _within_range(function, real=real)
    result = binary(convert(left, DOUBLE), convert(right, DOUBLE), DOUBLE, checked)
    found = unary(result, REAL, to_real) if real else result
    return Operand(found.type, found.evaluate, may_be_nan=True)


def _within_range(function: Binary, *, real: bool) -> Binary:
    """`function` of doubles, which raises TypeMismatch for an overflow or an underflow: an Infinity
    that no operand is, and a product or quotient that is 0 though no operand is. The range of a
    REAL is checked when it is rounded."""
    if real:
        return function
    added = function in (operator.add, operator.sub)

    def checked(a: float, b: float) -> float:
        found: float = function(a, b)
        if (
            (math.isinf(found) or (not found and not added and a and b))
            and math.isfinite(a)
            and math.isfinite(b)
        ):
            raise TypeMismatch("The result is out of range for type double precision.")
        return found

    return checked


def _integer(function: Binary, left: Operand, right: Operand) -> Operand:
    kind = Kind.BIGINT if Kind.BIGINT in (left.kind, right.kind) else Kind.INTEGER
    limit = _LIMITS[kind]
    name = _NAMES[function]

    def checked(a: int, b: int) -> int:
        result: int = function(a, b)
        if -limit <= result < limit:
            return result
        raise TypeMismatch(f"Overflow in {name} of {kind.upper()}: {a} and {b}.")

    return binary(left, right, ColumnType(kind), checked)


def quotient(left: Operand, right: Operand) -> Operand:
    """/ of integers is an integer, towards zero; of other numbers it is a double, as in DuckDB. At
    run time, a division by zero raises DivisionByZero."""
    kinds = {left.kind, right.kind}
    if kinds <= INTEGERS:
        return whole_quotient(left, right)
    if left.text is not None or right.text is not None or not kinds <= NUMBERS:
        raise NotNativeError
    return _double(_divided, left, right)


def numeric_quotient(left: Operand, right: Operand) -> Operand:
    """/ of NUMERIC. At run time, a division by zero raises DivisionByZero, an overflow
    TypeMismatch."""
    return _numeric(quotients.quotient, left, right)


def long_product(left: Operand, right: Operand) -> Operand:
    """* of NUMERIC with the places of a quotient. At run time, an overflow raises TypeMismatch."""
    return _numeric(quotients.product, left, right)


def _numeric(function: Binary, left: Operand, right: Operand) -> Operand:
    for side in (left, right):
        require(side, *INTEGERS, Kind.DECIMAL)
    return binary(left, right, quotients.QUOTIENT, function)


def _divided(a: float, b: float) -> float:
    if not b:
        raise DivisionByZero.of(f"{a} / {b}")
    return a / b


def whole_quotient(left: Operand, right: Operand) -> Operand:
    """/ and // of integers, towards zero."""
    return _whole(
        left, right, "/", lambda a, b: abs(a) // abs(b) * (1 if (a < 0) is (b < 0) else -1)
    )


def modulo(left: Operand, right: Operand) -> Operand:
    """% of integers and decimals; the result has the sign of the dividend. At run time, a division
    by zero raises DivisionByZero."""
    plain = left.type and right.type and left.text is right.text is None
    if plain and {left.kind, right.kind} - INTEGERS == {Kind.DECIMAL}:
        return remainder(common_type([left, right]), left, right)
    return _whole(left, right, "%", lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1))


def remainder(type_: ColumnType, left: Operand, right: Operand) -> Operand:
    """% of decimals, also with integers, as a value of `type_`."""
    for side in (left, right):
        require(side, *INTEGERS, Kind.DECIMAL)
    scaled = scaler(type_)

    def rest(a: int | Decimal, b: int | Decimal) -> Decimal:
        if not b:
            raise DivisionByZero.of(f"{a} % {b}")
        return scaled(EXACT.remainder(Decimal(a), Decimal(b)))

    return binary(left, right, type_, rest)


def wide_remainder(left: Operand, right: Operand) -> Operand:
    """% of decimals with more digits together than a DECIMAL has. The remainder is less than both,
    and has the places of both."""
    if left.type is None or right.type is None:
        raise NotNativeError
    (width_a, scale_a), (width_b, scale_b) = as_decimal(left.type), as_decimal(right.type)
    scale = max(scale_a, scale_b)
    whole = min(width_a - scale_a, width_b - scale_b)
    return remainder(ColumnType(Kind.DECIMAL, whole + scale, scale), left, right)


def _whole(
    left: Operand, right: Operand, sign: str, function: Callable[[int, int], int]
) -> Operand:
    """A division of integers. Only DuckDB handles other numbers. At run time, a division by zero
    raises DivisionByZero, an overflow TypeMismatch."""
    if left.text is not None or right.text is not None or not {left.kind, right.kind} <= INTEGERS:
        raise NotNativeError
    kind = Kind.BIGINT if Kind.BIGINT in (left.kind, right.kind) else Kind.INTEGER
    least = -_LIMITS[kind]

    def divided(a: int, b: int) -> int:
        if b == 0:
            raise DivisionByZero.of(f"{a} {sign} {b}")
        if a == least and b == -1:
            raise TypeMismatch(f"Overflow in division of {kind.upper()}: {a} and {b}.")
        return function(a, b)

    return binary(left, right, ColumnType(kind), divided)


def _decimal(function: Binary, left: Operand, right: Operand) -> Operand:
    assert left.type is not None
    assert right.type is not None
    type_ = decimal_result(function, left.type, right.type)
    if function is not operator.mul:
        left, right = cast(left, type_), cast(right, type_)
    limit = Decimal(10) ** ((type_.precision or 0) - (type_.scale or 0))
    exact, name = _EXACT[function], _NAMES[function]

    def checked(a: Any, b: Any) -> Decimal:
        result: Decimal = exact(a, b)
        if not result:
            return abs(result)  # no negative zero
        if -limit < result < limit:
            return result
        raise TypeMismatch(f"Overflow in {name} of {type_.sql()}: {a} and {b}.")

    return binary(left, right, type_, checked)


def decimal_result(function: Binary, left: ColumnType, right: ColumnType) -> ColumnType:
    """DuckDB's type of a sum, difference or product of decimals (and integers)."""
    (width_a, scale_a), (width_b, scale_b) = as_decimal(left), as_decimal(right)
    if function is not operator.mul:
        scale = max(scale_a, scale_b)
        width = max(width_a - scale_a, width_b - scale_b) + scale + 1
        return ColumnType(Kind.DECIMAL, min(width, MAX_DECIMAL_PRECISION), scale)
    width, scale = width_a + width_b, scale_a + scale_b
    if scale > MAX_DECIMAL_PRECISION:
        raise NotNativeError
    if width > INT64_DIGITS >= max(width_a, width_b) and scale < INT64_DIGITS:
        width = INT64_DIGITS
    return ColumnType(Kind.DECIMAL, min(width, MAX_DECIMAL_PRECISION), scale)


def minus(operand: Operand) -> Operand:
    """Unary minus. A negated literal stays a literal."""
    type_ = require(operand, *NUMBERS, Kind.INTERVAL).type
    if type_ is None or operand.text is not None:
        raise NotNativeError
    if type_.kind is Kind.INTERVAL:
        return unary(operand, type_, operator.neg)
    if operand.constant and operand.value is not None:
        return _negative_constant(type_, operand.value)
    if type_.kind in INTEGERS:
        return unary(operand, type_, _checked_integer(type_.kind, operator.neg, "negation"))
    if type_.kind is Kind.DECIMAL:
        return unary(operand, type_, EXACT.minus)
    return unary(operand, type_, operator.neg, may_be_nan=operand.may_be_nan)


def _negative_constant(type_: ColumnType, value: Any) -> Operand:
    """A negated constant. -2147483648 is INTEGER although 2147483648 is BIGINT."""
    if type_.kind in INTEGERS:
        number = -value
        if not in_range(number, Kind.BIGINT):
            raise NotNativeError
        if type_.kind is Kind.BIGINT and number == -_LIMITS[Kind.INTEGER]:
            raise NotNativeError  # INTEGER or BIGINT depends on the spelling
        return constant(type_, number)
    return constant(type_, EXACT.minus(value) if isinstance(value, Decimal) else -value)


def _checked_integer(kind: Kind, function: Callable[[int], int], name: str) -> Callable[[int], int]:
    limit = _LIMITS[kind]

    def checked(value: int) -> int:
        result = function(value)
        if result < limit:
            return result
        raise TypeMismatch(f"Overflow in {name} of {kind.upper()}: {value}.")

    return checked


def absolute(operand: Operand) -> Operand:
    """ABS."""
    type_ = require(operand, *NUMBERS).type
    if type_ is None or operand.text is not None:
        raise NotNativeError
    if type_.kind in INTEGERS:
        return unary(operand, type_, _checked_integer(type_.kind, abs, "absolute value"))
    function = EXACT.abs if type_.kind is Kind.DECIMAL else abs
    return unary(operand, type_, function, may_be_nan=operand.may_be_nan)


def smallint(operand: Operand) -> Operand:
    """An integer, if it is a SMALLINT. At run time, other integers raise TypeMismatch."""

    def checked(value: int) -> int:
        if value in _SMALL:
            return value
        raise TypeMismatch(
            f"{value} is out of range for SMALLINT.", cure="CAST an operand to INTEGER."
        )

    found = require(operand, Kind.INTEGER)
    if found.type is None:
        return convert(found, INTEGER)
    if found.constant and found.value in _SMALL:
        return found
    return unary(found, INTEGER, checked)


def as_kind(operand: Operand, kind: Kind) -> Operand:
    """A number as a DOUBLE, or an integer as a DECIMAL."""
    type_ = require(operand, *NUMBERS).type
    if kind is Kind.DOUBLE or type_ is None:
        return cast(operand, DOUBLE)
    return cast(operand, ColumnType(Kind.DECIMAL, *as_decimal(type_)))


def rounded(operand: Operand, digits: int, *, even: bool = False) -> Operand:
    """ROUND to `digits` >= 0 places, half away from zero, or a DOUBLE to the `even` whole number.
    Binding makes integers doubles or decimals."""
    type_ = require(operand, Kind.DECIMAL, Kind.DOUBLE).type
    if type_ is None:
        raise NotNativeError
    if type_.kind is Kind.DOUBLE and even:
        return unary(operand, DOUBLE, _whole_double(round), may_be_nan=operand.may_be_nan)
    if type_.kind is Kind.DOUBLE:
        if digits > _EXACT_POWER:
            raise NotNativeError
        return unary(operand, DOUBLE, _double_rounder(10.0**digits), may_be_nan=operand.may_be_nan)
    assert type_.scale is not None
    if digits >= type_.scale:
        return operand
    result = ColumnType(Kind.DECIMAL, type_.precision, digits)
    return unary(operand, result, scaler(result))


def _double_rounder(unit: float) -> Callable[[float], float]:
    def round_(value: float) -> float:
        scaled = value * unit
        if not math.isfinite(scaled):
            return value
        whole = float(math.trunc(scaled))
        if abs(scaled - whole) >= _HALF:
            whole += math.copysign(1, scaled)
        return math.copysign(whole, scaled) / unit

    return round_


def whole(function: Callable[[Any], int], operand: Operand) -> Operand:
    """FLOOR, CEIL or TRUNC of decimals and doubles: `function` is `math.floor`, `ceil` or
    `trunc`."""
    if operand.type is None or operand.text is not None:
        raise NotNativeError
    if operand.kind is Kind.DOUBLE:
        return unary(operand, DOUBLE, _whole_double(function), may_be_nan=operand.may_be_nan)
    if operand.kind is not Kind.DECIMAL or not operand.type.scale:
        raise NotNativeError
    result = ColumnType(Kind.DECIMAL, operand.type.precision, 0)
    return unary(operand, result, lambda value: Decimal(function(value)))


def _whole_double(function: Callable[[Any], int]) -> Callable[[float], float]:
    """Infinities and NaN stay; the sign stays, that of a zero, too."""

    def double(value: float) -> float:
        if not math.isfinite(value):
            return value
        return math.copysign(float(function(value)), value)

    return double
