"""CAST between types for which Python's result certainly equals DuckDB's."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from sqlglot.expressions import DataType, Expr, Literal

from hornbeam_server.query.dialect.enumerations import ENUMERATION
from hornbeam_server.query.expressions.literals import in_range, parse_text
from hornbeam_server.query.expressions.operands import (
    INTEGER_DIGITS,
    INTEGERS,
    NUMBERS,
    NotNativeError,
    Operand,
    as_decimal,
    constant,
    double_from,
    midnight,
    scaler,
    unary,
)
from hornbeam_server.query.values.numbers import to_real
from hornbeam_server.schema import arrays
from hornbeam_server.schema.assignment import text_of, text_of_double, text_of_time
from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.reals import text_of_real
from hornbeam_server.schema.seconds import round_to
from hornbeam_server.schema.types import MOMENTS, REAL, ColumnType, Kind, array_of, enum_of

Cast = Callable[[Any], Any]

_KINDS = {
    DataType.Type.INT: Kind.INTEGER,
    DataType.Type.BIGINT: Kind.BIGINT,
    DataType.Type.DOUBLE: Kind.DOUBLE,
    DataType.Type.BOOLEAN: Kind.BOOLEAN,
    DataType.Type.TEXT: Kind.TEXT,
    DataType.Type.VARCHAR: Kind.TEXT,
    DataType.Type.DATE: Kind.DATE,
    DataType.Type.TIME: Kind.TIME,
    DataType.Type.TIMESTAMP: Kind.TIMESTAMP,
    DataType.Type.TIMESTAMPNTZ: Kind.TIMESTAMP,
    DataType.Type.TIMESTAMPTZ: Kind.TIMESTAMPTZ,
    DataType.Type.UUID: Kind.UUID,
    DataType.Type.VARBINARY: Kind.BYTES,
    DataType.Type.INTERVAL: Kind.INTERVAL,
}


def target_type(node: DataType) -> ColumnType:
    """The target type of a CAST. Raises NotNativeError for unsupported types."""
    if node.this is DataType.Type.DECIMAL:
        sizes = [int(parameter.name) for parameter in node.expressions]
        if len(sizes) != 2:
            raise NotNativeError
        precision, scale = sizes
        return ColumnType(Kind.DECIMAL, precision, scale)
    if node.this is DataType.Type.FLOAT:
        return REAL
    if ENUMERATION in node.meta:
        return enum_of(node.meta[ENUMERATION])
    if node.this is DataType.Type.ARRAY:
        return array_of(target_type(node.expressions[0]))
    kind = _KINDS.get(node.this)
    if kind in MOMENTS and len(node.expressions) == 1:
        return ColumnType(kind, precision=int(node.expressions[0].name))
    if kind is None or node.args.get("nested") or node.expressions:
        raise NotNativeError
    return ColumnType(kind)


def is_numeric(node: DataType) -> bool:
    """Is the target NUMERIC without precision?"""
    return node.this is DataType.Type.DECIMAL and not node.expressions


def is_padded(node: DataType) -> bool:
    """Is the target BPCHAR, whose values have no blanks at their end?"""
    return node.this is DataType.Type.BPCHAR and not node.expressions


def numeric(operand: Operand, node: Expr) -> Operand:
    """A cast to NUMERIC, which keeps the digits of the operand `node`."""
    if operand.text is not None or operand.type is None:
        raise NotNativeError
    if isinstance(node, Literal):
        whole, _, fraction = node.this.partition(".")
        if not whole.isdecimal():
            raise NotNativeError
        return cast(operand, ColumnType(Kind.DECIMAL, len(whole + fraction), len(fraction)))
    if operand.type.kind is Kind.DECIMAL:
        return operand
    if operand.type.kind not in INTEGERS:
        raise NotNativeError
    return cast(operand, ColumnType(Kind.DECIMAL, *as_decimal(operand.type)))


def cast(operand: Operand, to: ColumnType) -> Operand:
    if to.kind in MOMENTS and to.precision is not None:
        return _rounded(cast(operand, ColumnType(to.kind)), to.precision)
    if operand.type is None:
        return constant(to, None)
    if to.element is not None:
        return _array(operand, to)
    if operand.text is not None and to.kind is not Kind.TEXT:
        value = parse_text(operand.text, to)
        if value is None:
            raise NotNativeError
        return constant(to, value)
    same = operand.type.kind is to.kind is not Kind.DECIMAL and to != REAL
    if same or _widens(operand.type, to):
        return replace(operand, type=to, text=None)
    return _folded(operand, to, _function(operand.type, to))


def _array(operand: Operand, to: ColumnType) -> Operand:
    """An array whose elements are cast, or the array that a text spells."""
    assert operand.type is not None
    given = operand.type.element
    if operand.type.kind is Kind.TEXT:
        return replace(_folded(operand, to, to.coerce), text=None)
    if given is None:
        raise NotNativeError
    if given == to.element_type:
        return operand
    element = Operand(given, lambda row, _: row)
    cast_element = cast(element, to.element_type).evaluate
    return _folded(
        operand, to, lambda value: arrays.values_of(value, lambda each: cast_element(each, ()))
    )


def _rounded(operand: Operand, digits: int) -> Operand:
    """A timestamp or a time of day rounded to `digits` decimals of a second."""

    def near(value: Any) -> Any:
        try:
            return round_to(digits, value)
        except ValueError as error:
            raise TypeMismatch(f"{value} is not rounded to {digits} decimals: {error}.") from None

    assert operand.type is not None
    return _folded(operand, operand.type, near)


def _widens(from_: ColumnType, to: ColumnType) -> bool:
    return from_ == to or (from_.kind is Kind.INTEGER and to.kind is Kind.BIGINT)


def _folded(operand: Operand, to: ColumnType, function: Cast) -> Operand:
    """The cast operand. A constant is cast at compile time; if that fails, at run time, because the
    statement may never evaluate it."""
    if not operand.constant or operand.value is None:
        return unary(operand, to, function)
    try:
        return constant(to, function(operand.value))
    except TypeMismatch:
        return unary(operand, to, function)


def _function(from_: ColumnType, to: ColumnType) -> Cast:
    if to.kind in INTEGERS:
        return _to_integer(from_, to)
    if to == REAL and from_.kind in NUMBERS:
        return to_real
    if to.kind is Kind.DECIMAL and from_.kind in INTEGERS | {Kind.DECIMAL}:
        return _to_decimal(to)
    if to.kind is Kind.DOUBLE and from_.kind in NUMBERS:
        return double_from(from_)
    if to.kind is Kind.BOOLEAN and from_.kind in INTEGERS:
        return bool
    if to.kind is Kind.TEXT:
        return _to_text(from_)
    if to.kind is Kind.ENUM and from_.kind is Kind.TEXT:
        return to.coerce
    found = _MOMENTS.get((from_.kind, to.kind))
    if found is None:
        raise NotNativeError
    return found


_MOMENTS: dict[tuple[Kind, Kind], Cast] = {
    (Kind.DATE, Kind.TIMESTAMP): midnight,
    (Kind.TIMESTAMP, Kind.DATE): dt.datetime.date,
    (Kind.TIMESTAMP, Kind.TIME): dt.datetime.time,
    (Kind.TIMESTAMPTZ, Kind.TIME): dt.datetime.time,
}


def _to_integer(from_: ColumnType, to: ColumnType) -> Cast:
    if from_.kind is Kind.BOOLEAN:
        return int
    if from_.kind not in INTEGERS | {Kind.DECIMAL}:
        raise NotNativeError
    whole = scaler(ColumnType(Kind.DECIMAL, 38, 0))

    def to_integer(value: int | Decimal) -> int:
        number = value if isinstance(value, int) else int(whole(value))
        if in_range(number, to.kind):
            return number
        raise TypeMismatch(f"{value} is out of range for {to.sql()}.")

    return to_integer


def _to_decimal(to: ColumnType) -> Cast:
    scaled = scaler(to)
    precision, scale = as_decimal(to)
    limit = Decimal(10) ** (precision - scale)

    def to_decimal(value: int | Decimal) -> Decimal:
        number = scaled(value)
        if -limit < number < limit:
            return number
        raise TypeMismatch(f"{value} is out of range for {to.sql()}.")

    return to_decimal


def _to_text(from_: ColumnType) -> Cast:
    if from_.kind is Kind.DECIMAL and from_.precision != from_.scale:  # DuckDB writes .5
        return lambda value: format(value, "f")
    if from_.element == REAL:
        return _text_of_reals
    if from_.element is not None:
        return lambda value: text_of(value) or ""
    found = text_of_real if from_ == REAL else _TEXTS.get(from_.kind)
    if found is None:
        raise NotNativeError
    return found


def _text_of_reals(array: Sequence[float | None]) -> str:
    return arrays.text_of_elements(e if e is None else text_of_real(e) for e in array)


_TEXTS: dict[Kind, Cast] = {
    **dict.fromkeys(INTEGER_DIGITS, str),
    Kind.BOOLEAN: lambda value: "true" if value else "false",
    Kind.DOUBLE: text_of_double,
    Kind.DATE: dt.date.isoformat,
    Kind.TIME: text_of_time,
    Kind.INTERVAL: str,
    Kind.UUID: str,
    Kind.JSON: str,
    Kind.ENUM: str,
}
