"""Operands: compiled parts of an expression, their types, and DuckDB's implicit conversions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Protocol

from sqlglot import exp

from hornbeam_server.query.expressions.literals import parse_text
from hornbeam_server.schema.types import MAX_DECIMAL_PRECISION, REAL, ColumnType, Kind, Row

Parameters = Sequence[Any] | Mapping[str, Any]
Evaluate = Callable[[Row, Parameters], Any]

EXACT = Context(prec=80, rounding=ROUND_HALF_UP)
"""A context wider than any intermediate result. DuckDB rounds decimals half away from zero."""

BOOLEAN = ColumnType(Kind.BOOLEAN)
INTEGER = ColumnType(Kind.INTEGER)
BIGINT = ColumnType(Kind.BIGINT)
DOUBLE = ColumnType(Kind.DOUBLE)
TEXT = ColumnType(Kind.TEXT)
DATE = ColumnType(Kind.DATE)
TIMESTAMP = ColumnType(Kind.TIMESTAMP)

INTEGERS = frozenset({Kind.INTEGER, Kind.BIGINT})
NUMBERS = INTEGERS | {Kind.DECIMAL, Kind.DOUBLE}
INTEGER_DIGITS = {Kind.INTEGER: 10, Kind.BIGINT: 19}
INT64_DIGITS = 18
"""DuckDB stores decimals of at most this many digits as 64-bit integers."""


class NotNativeError(Exception):
    """The expression needs DuckDB. Raised during compilation; it never leaves the package."""


class Scope(Protocol):
    """The columns and parameters that an expression can refer to."""

    def resolve(self, column: exp.Column) -> tuple[int, ColumnType]:
        """(position in the row, type). Raises UnknownName."""
        ...

    def parameter_type(self, name: int | str) -> ColumnType | None:
        """The type of the parameter's coerced value; None if it is not known."""
        ...


@dataclass(frozen=True, slots=True)
class Operand:
    """A compiled part of an expression. `type` is None for a NULL, which takes the type of the
    other operand.

    A `constant` has its value in `value`, a plain column its position in `position`. `text` is the
    content of a string literal, which also takes the type of the other operand.
    """

    type: ColumnType | None
    evaluate: Evaluate
    constant: bool = False
    value: Any = None
    position: int | None = None
    text: str | None = None
    may_be_nan: bool = False

    @property
    def kind(self) -> Kind:
        if self.type is None:
            raise NotNativeError
        return self.type.kind


def constant(type_: ColumnType | None, value: Any, *, text: str | None = None) -> Operand:
    return Operand(type_, lambda _row, _parameters: value, True, value, text=text)


def require(operand: Operand, *kinds: Kind) -> Operand:
    """The operand, if its kind is one of `kinds` or it is NULL. Raises NotNativeError otherwise."""
    if operand.type is not None and operand.type.kind not in kinds:
        raise NotNativeError
    return operand


def column_getter(position: int) -> Evaluate:
    return lambda row, _parameters: row[position]


def unary(
    operand: Operand, type_: ColumnType, function: Callable[[Any], Any], *, may_be_nan: bool = False
) -> Operand:
    """`function` applied to the operand's value; NULL for NULL."""
    evaluate = operand.evaluate
    if operand.position is not None:
        i = operand.position
        return Operand(
            type_,
            lambda row, _: None if (value := row[i]) is None else function(value),
            may_be_nan=may_be_nan,
        )
    return Operand(
        type_,
        lambda row, p: None if (value := evaluate(row, p)) is None else function(value),
        may_be_nan=may_be_nan,
    )


def binary(
    left: Operand, right: Operand, type_: ColumnType, function: Callable[[Any, Any], Any]
) -> Operand:
    """`function` applied to two values; NULL if one is NULL. A column with a constant needs no
    inner calls."""
    if left.position is not None and right.constant and right.value is not None:
        i, k = left.position, right.value
        return Operand(
            type_, lambda row, _: None if (value := row[i]) is None else function(value, k)
        )
    f, g = left.evaluate, right.evaluate

    def evaluate(row: Row, parameters: Parameters) -> Any:
        value, other = f(row, parameters), g(row, parameters)  # evaluate both: each may overflow
        return None if value is None or other is None else function(value, other)

    return Operand(type_, evaluate)


def strict(type_: ColumnType, function: Callable[..., Any], *operands: Operand) -> Operand:
    """`function` applied to any number of values; NULL if one is NULL."""
    parts = [operand.evaluate for operand in operands]

    def evaluate(row: Row, parameters: Parameters) -> Any:
        values = [part(row, parameters) for part in parts]
        return None if None in values else function(*values)

    return Operand(type_, evaluate)


# --- types -----------------------------------------------------------------------------------


def as_decimal(type_: ColumnType) -> tuple[int, int]:
    """(precision, scale) of a decimal, or of an integer converted to one."""
    if type_.kind in INTEGER_DIGITS:
        return INTEGER_DIGITS[type_.kind], 0
    if type_.kind is not Kind.DECIMAL or type_.precision is None or type_.scale is None:
        raise NotNativeError
    return type_.precision, type_.scale


def common_type(operands: Sequence[Operand]) -> ColumnType:
    """The type to which DuckDB converts the operands of a comparison or a CASE."""
    typed = [o.type for o in operands if o.type is not None and o.text is None]
    if not typed:
        if any(o.text is not None for o in operands):
            return TEXT
        raise NotNativeError
    found = typed[0]
    for type_ in typed[1:]:
        found = _wider(found, type_)
    return TEXT if found.kind is Kind.TEXT else found


def _wider(a: ColumnType, b: ColumnType) -> ColumnType:
    kinds = {a.kind, b.kind}
    if a.element is not None and b.element is not None:
        return _wider_array(a, b, a.element, b.element)
    if a != b and REAL in (a, b):
        return _beside_real(a if b == REAL else b)
    if len(kinds) == 1 and a.kind is not Kind.DECIMAL:
        return a
    if kinds == INTEGERS:
        return BIGINT
    if kinds <= NUMBERS:
        return DOUBLE if Kind.DOUBLE in kinds else _wider_decimal(a, b)
    if kinds == {Kind.DATE, Kind.TIMESTAMP}:
        return TIMESTAMP
    raise NotNativeError


def _beside_real(other: ColumnType) -> ColumnType:
    if other.kind is Kind.DOUBLE:
        return other
    raise NotNativeError  # a REAL, to which DuckDB converts the number


def _wider_array(a: ColumnType, b: ColumnType, of_a: ColumnType, of_b: ColumnType) -> ColumnType:
    if of_a == of_b or {of_a.kind, of_b.kind} == {Kind.TEXT}:
        return a
    if {of_a.kind, of_b.kind} <= INTEGERS:
        return a if of_a.kind is Kind.BIGINT else b
    raise NotNativeError  # DuckDB converts the elements


def _wider_decimal(a: ColumnType, b: ColumnType) -> ColumnType:
    (width_a, scale_a), (width_b, scale_b) = as_decimal(a), as_decimal(b)
    scale = max(scale_a, scale_b)
    width = max(width_a - scale_a, width_b - scale_b) + scale
    if width > MAX_DECIMAL_PRECISION:
        raise NotNativeError  # DuckDB drops digits and may fail on values that do not fit
    return ColumnType(Kind.DECIMAL, width, scale)


# --- conversions -----------------------------------------------------------------------------


def comparable(operands: Sequence[Operand]) -> list[Operand]:
    """The operands, converted so that Python compares their values as DuckDB does.

    Both compare integers and decimals exactly; only doubles need rounding first.
    """
    operands = _as_doubles(operands)
    type_ = common_type(operands)
    if type_.kind is not Kind.DECIMAL:
        return [convert(operand, type_) for operand in operands]
    return [
        operand if operand.type is not None and operand.text is None else convert(operand, type_)
        for operand in operands
    ]


def _as_doubles(operands: Sequence[Operand]) -> Sequence[Operand]:
    """The operands, where each REAL is the equal DOUBLE if others are of another type."""
    types = {o.type for o in operands if o.type is not None and o.text is None}
    if REAL not in types or len(types) == 1:
        return operands
    return [replace(o, type=DOUBLE) if o.type == REAL else o for o in operands]


def convert(operand: Operand, type_: ColumnType) -> Operand:
    """The operand converted to a type that is at least as wide."""
    if operand.type is None:
        return constant(type_, None)
    if operand.text is not None and type_.kind is not Kind.TEXT:
        found = parse_text(operand.text, type_)
        if found is None:
            raise NotNativeError
        return constant(type_, found)
    function = _conversion(operand.type, type_)
    if function is None:
        return replace(operand, type=type_)
    if not operand.constant:
        return unary(operand, type_, function)
    return constant(type_, None if operand.value is None else function(operand.value))


def _conversion(from_: ColumnType, to: ColumnType) -> Callable[[Any], Any] | None:
    """The conversion function; None if the values stay the same."""
    if to.kind is Kind.DECIMAL and from_.kind in INTEGERS | {Kind.DECIMAL}:
        return None if from_ == to else scaler(to)
    if from_.kind == to.kind or (from_.kind in INTEGERS and to.kind is Kind.BIGINT):
        return None
    if to.kind is Kind.DOUBLE:
        return double_from(from_)
    if (from_.kind, to.kind) == (Kind.DATE, Kind.TIMESTAMP):
        return midnight
    raise NotNativeError


def scaler(type_: ColumnType) -> Callable[[Any], Decimal]:
    """A function that rounds to the decimal type's scale, half away from zero. The caller checks
    the range."""
    unit = Decimal(1).scaleb(-(type_.scale or 0))
    quantize = EXACT.quantize

    def scaled(value: int | Decimal) -> Decimal:
        number = quantize(Decimal(value), unit)
        return number if number else abs(number)

    return scaled


def double_from(type_: ColumnType) -> Callable[[Any], float]:
    """The conversion to DOUBLE, which is the nearest one."""
    if type_.kind not in NUMBERS:
        raise NotNativeError
    return float


def midnight(day: dt.date) -> dt.datetime:
    return dt.datetime(day.year, day.month, day.day)
