"""Literals in a syntax tree: their values, and nodes for values that DuckDB reads identically.

A node for a typed constant holds the type and the value in its meta under `CONSTANT`, so that its
text is not parsed again.
"""

from __future__ import annotations

import datetime as dt
import math
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlglot import exp

from hornbeam_server.query.dialect.enumerations import name_of
from hornbeam_server.query.typing.comparands import exact_number
from hornbeam_server.query.typing.constants import CONSTANT
from hornbeam_server.schema.enumerations import Label
from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.intervals import Interval, of_timedelta
from hornbeam_server.schema.spelling import hexadecimal
from hornbeam_server.schema.types import (
    MAX_DECIMAL_PRECISION,
    ColumnType,
    Kind,
    Value,
    enumeration_of,
)

_DOUBLE_DIGITS = 15
_DOUBLE_PLACES = 22
"""A decimal with at most this many digits and places converts to the same double everywhere."""


@dataclass(frozen=True, slots=True)
class Written:
    """A constant's value. Text is untyped; a number has the exact value of its digits."""

    value: Any


def written(node: exp.Expr) -> Written | None:
    """The constant that a node spells; None for other nodes. Also None for NULL, and for finite
    doubles, because numbers compared with them become doubles."""
    node = node.unnest()
    if CONSTANT in node.meta:
        type_, value = node.meta[CONSTANT]
        finite_double = type_.kind is Kind.DOUBLE and math.isfinite(value)
        return None if finite_double else Written(value)
    match node:
        case exp.Literal():
            return Written(node.name) if node.is_string else _number(node.name)
        case exp.ByteString() | exp.RawString():  # E'…'
            return Written(str(node.this))
        case exp.Neg():
            inner = written(node.this)
            number = None if inner is None else exact_number(inner.value)
            if number is None:
                return None
            return Written(-number if isinstance(number, int) else number.copy_negate())
        case exp.Boolean():
            return Written(bool(node.this))
        case _:
            return None


def _number(text: str) -> Written | None:
    try:
        return Written(int(text) if text.isdecimal() else Decimal(text))
    except (ValueError, ArithmeticError):
        return None


def literal(value: Any) -> exp.Expr:
    """The literal of a value. Text is untyped; a float has the exact value of its digits. Raises
    TypeMismatch for a value of an unsupported Python type."""
    if isinstance(value, list | tuple):
        return exp.Array(expressions=[exp.Null() if e is None else literal(e) for e in value])
    number = exact_number(value)
    if number is None:
        if isinstance(value, dt.timedelta):
            value = of_timedelta(value)
        return exp.Literal.string(value) if isinstance(value, str) else typed(_type(value), value)
    if isinstance(number, Decimal) and not number.is_finite():
        return typed(ColumnType(Kind.DOUBLE), float(number))
    return _digits(number)


def _type(value: Any) -> ColumnType:
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return ColumnType(Kind.TIMESTAMPTZ)
    for class_ in type(value).__mro__:
        if class_ in _TYPES:
            return _TYPES[class_]
    raise TypeMismatch(
        f"A value of the Python type {type(value).__name__} is no parameter.",
        cure="Give a number, text, bytes, a truth value, a date, a time, an interval, a UUID, or a"
        " list of these.",
    )


_TYPES: dict[type, ColumnType] = {
    bool: ColumnType(Kind.BOOLEAN),
    bytes: ColumnType(Kind.BYTES),
    dt.date: ColumnType(Kind.DATE),
    dt.datetime: ColumnType(Kind.TIMESTAMP),
    dt.time: ColumnType(Kind.TIME),
    dt.timedelta: ColumnType(Kind.INTERVAL),
    Interval: ColumnType(Kind.INTERVAL),
    uuid.UUID: ColumnType(Kind.UUID),
}


def typed(type_: ColumnType, value: Value) -> exp.Expr:
    """A constant node of type `type_` for `value`, which is a value of that type."""
    match value:
        case None:
            return exp.Null()
        case float() if math.isfinite(value):
            text = repr(abs(value))
            node = _signed(text if "e" in text else f"{text}e0", value < 0)
        case int() | Decimal() if not isinstance(value, bool):
            node = _digits(value)
        case bool():
            node = exp.Boolean(this=value)
        case Label():
            node = exp.Cast(this=exp.Literal.string(str(value)), to=name_of(type_))
        case str() if type_.kind is Kind.TEXT:
            return exp.Literal.string(value)
        case tuple():
            node = _array(type_, value)
        case _:
            node = exp.cast(exp.Literal.string(_text(value)), type_.sql(), dialect="duckdb")
    node.meta[CONSTANT] = (type_, value)
    return node


def _array(type_: ColumnType, value: tuple[Any, ...]) -> exp.Expr:
    elements = [typed(type_.element_type, each) for each in value]
    if enumeration_of(type_) is not None and value:
        return exp.Array(expressions=elements)
    if enumeration_of(type_) is not None:
        return exp.Cast(this=exp.Array(), to=name_of(type_))
    return exp.cast(exp.Array(expressions=elements), type_.sql(), dialect="duckdb")


def _text(value: Value) -> str:
    match value:
        case dt.datetime():
            return value.isoformat(" ")
        case bytes():
            return hexadecimal(value)
        case Interval():
            return value.plain()
        case _:
            return str(value)


def _digits(number: Any) -> exp.Expr:
    """A number as plain digits; with an exponent if DuckDB has no exact number so wide."""
    size = Decimal(number).copy_abs()
    exponent = int(size.as_tuple().exponent)
    width = max(size.adjusted() + 1, 1) + max(-exponent, 0)
    text = f"{size:f}" if width <= MAX_DECIMAL_PRECISION else f"{size:e}"
    return _signed(text, number < 0)


def _signed(text: str, negative: bool) -> exp.Expr:
    node = exp.Literal.number(text)
    return exp.Neg(this=node) if negative else node


def without_exponent(node: exp.Expr) -> exp.Expr:
    """A number to compare with an operand of an unknown type. DuckDB reads the result as the exact
    value next to exact numbers, and as the same double next to doubles."""
    found = written(node)
    number = None if found is None else exact_number(found.value)
    if not isinstance(number, Decimal) or not number.is_finite():
        return node
    if -(1 << 63) < number < 1 << 63 and number == number.to_integral_value():
        return _digits(int(number))
    _, digits, exponent = number.as_tuple()
    exact = len(digits) <= _DOUBLE_DIGITS and -_DOUBLE_PLACES <= int(exponent) < 0
    return _digits(number) if exact else node
