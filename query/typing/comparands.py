"""Exact conversion of a comparison's constant to the type that it is compared with.

Comparisons are decided by value: 2.5 lies between the integers 2 and 3, 1e300 lies beyond all of
them, a time of day lies between two dates. `meant` locates a constant among the values of a type.
Numbers are compared with DOUBLE as doubles, as PostgreSQL does. Text takes the type of the other
operand (`query/typing/spellings.py`). Pairs of kinds that PostgreSQL does not compare are refused.
"""

from __future__ import annotations

import datetime as dt
import math
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any, TypeVar

from hornbeam_server.query.typing.spellings import Beyond, read_text
from hornbeam_server.schema import arrays
from hornbeam_server.schema.enumerations import Label
from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.intervals import Interval, of_timedelta
from hornbeam_server.schema.types import (
    MAX_DECIMAL_PRECISION,
    ColumnType,
    Kind,
    Value,
    without_padding,
)

INTEGER_BITS = {Kind.INTEGER: 32, Kind.BIGINT: 64}
_EXACT = Context(prec=2 * MAX_DECIMAL_PRECISION, rounding=ROUND_FLOOR)
_NAN = Decimal("NaN")
"""NaN, which is greater than all numbers and equal to itself, as in PostgreSQL."""
_DAY = dt.timedelta(days=1)
_FIRST = {
    Kind.DATE: dt.date.min,
    Kind.TIMESTAMP: dt.datetime.min,
    Kind.TIMESTAMPTZ: dt.datetime.min.replace(tzinfo=dt.UTC),
}
_LAST = {
    Kind.DATE: dt.date.max,
    Kind.TIMESTAMP: dt.datetime.max,
    Kind.TIMESTAMPTZ: dt.datetime.max.replace(tzinfo=dt.UTC),
}


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Gap:
    """A constant that equals no value of the type: its neighbouring values, None if there is no
    neighbour on that side."""

    below: Value
    above: Value


def meant(type_: ColumnType, value: Any) -> Value | Gap:
    """The value of `type_` that equals the constant `value`, or the gap that contains it.

    Text is an untyped literal. Raises TypeMismatch for text that is not a value of the type, and
    for kinds that cannot be compared with the type.
    """
    if value is None:
        return None
    given = read_text(type_, value) if isinstance(value, str) else value
    if isinstance(given, str):
        given = without_padding(type_, given)
    found = _MEANT[type_.kind](type_, given)
    if found is None:
        raise TypeMismatch(
            f"{_KIND_NAMES.get(type(value), 'A value of another type')} is not compared with"
            f" {type_.sql()}.",
            cure="CAST one of the two to the type of the other.",
            type=type_.sql(),
        )
    return found


def given(type_: ColumnType, value: Any) -> Value | Gap:
    """`meant` for a parameter's value: text for BYTES is base64, the JSON encoding of bytes."""
    if type_.kind is Kind.BYTES and isinstance(value, str):
        return type_.coerce(value)
    return meant(type_, value)


def own(type_: ColumnType) -> Callable[[Any], bool]:
    """A fast check that a value already has the type. A false negative only costs time."""
    kind, bits = type_.kind, INTEGER_BITS.get(type_.kind)
    if bits is not None:
        limit = 1 << bits - 1
        return lambda value: type(value) is int and -limit <= value < limit
    if kind is Kind.TEXT:
        return lambda value: type(value) is str and value.isascii() and value[-1:] != " "
    if kind is Kind.DECIMAL:
        unit, digits = _unit(type_), (type_.precision or MAX_DECIMAL_PRECISION) - (type_.scale or 0)
        return lambda value: (
            type(value) is Decimal
            and value.same_quantum(unit)
            and bool(value)
            and value.adjusted() < digits
        )
    if kind is Kind.DOUBLE:
        return lambda value: type(value) is float and bool(value) and value - value == 0.0
    if kind is Kind.TIMESTAMP:
        return lambda value: type(value) is dt.datetime and value.tzinfo is None and not value.fold
    if kind is Kind.TIME:
        return lambda value: type(value) is dt.time and value.tzinfo is None and not value.fold
    found = _OWN.get(kind)
    return (lambda value: False) if found is None else (lambda value: type(value) is found)


_OWN: dict[Kind, type] = {
    Kind.BOOLEAN: bool,
    Kind.BYTES: bytes,
    Kind.DATE: dt.date,
    Kind.INTERVAL: Interval,
    Kind.UUID: uuid.UUID,
}
_KIND_NAMES: dict[type, str] = {
    bool: "A truth value",
    int: "A number",
    float: "A number",
    Decimal: "A number",
    str: "Text",
    bytes: "A value of bytes",
    dt.date: "A date",
    dt.datetime: "A timestamp",
    dt.time: "A time",
    Interval: "An interval",
    Label: "A label",
    uuid.UUID: "A UUID",
    tuple: "An array",
    list: "An array",
}


def lowest(type_: ColumnType) -> Value:
    """The smallest value of the type; only for types whose constants may lie in gaps."""
    match type_.kind:
        case Kind.INTEGER | Kind.BIGINT:
            return -(1 << INTEGER_BITS[type_.kind] - 1)
        case Kind.DECIMAL:
            return _largest(type_).copy_negate()
        case Kind.DOUBLE:
            return -math.inf
        case _:
            return _FIRST[type_.kind]


def exact_number(value: Any) -> int | Decimal | None:
    """The exact value of a number; a float has the value of its shortest decimal form. None for
    values that are not numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    if isinstance(value, Decimal) and value.is_nan():
        return _NAN
    if isinstance(value, float):
        return _NAN if math.isnan(value) else Decimal(repr(float(value)))
    return value


def _integer(type_: ColumnType, value: Any) -> Value | Gap:
    number = exact_number(value)
    if number is None:
        return None
    last = (1 << INTEGER_BITS[type_.kind] - 1) - 1
    if number is _NAN or number > last:
        return Gap(last, None)
    if number < -last - 1:
        return Gap(None, -last - 1)
    below = math.floor(number)
    return below if below == number else Gap(below, below + 1)


def _decimal(type_: ColumnType, value: Any) -> Value | Gap:
    number = exact_number(value)
    if number is None:
        return None
    last = _largest(type_)
    if number is _NAN or number > last:
        return Gap(last, None)
    if number < (first := last.copy_negate()):
        return Gap(None, first)
    unit = _unit(type_)
    below = _EXACT.quantize(Decimal(number), unit)
    if below == number:
        return below if below else abs(below)  # no negative zero
    return Gap(below, _EXACT.add(below, unit))


def _unit(type_: ColumnType) -> Decimal:
    return Decimal((0, (1,), -(type_.scale or 0)))


def _largest(type_: ColumnType) -> Decimal:
    digits = type_.precision or MAX_DECIMAL_PRECISION
    return Decimal((0, (9,) * digits, -(type_.scale or 0)))


def _double(_: ColumnType, value: Any) -> Value | Gap:
    exact = exact_number(value)
    if exact is None:
        return None
    if exact is _NAN:
        return Gap(math.inf, None)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    if math.isinf(number) and Decimal(exact).is_finite():
        last = sys.float_info.max
        return Gap(last, math.inf) if number > 0 else Gap(-math.inf, -last)
    return number + 0.0  # no negative zero


def _moment(type_: ColumnType, value: Any) -> Value | Gap:
    """`meant` for dates and timestamps. A date is its midnight; a timestamp without a zone is in
    UTC, the session's zone."""
    kind = type_.kind
    if kind is Kind.DATE and type(value) is dt.date:
        return value
    if not isinstance(value, dt.date):
        return _beyond(kind, value.before) if isinstance(value, Beyond) else None
    if not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day)
    if value.tzinfo is not None:
        try:
            value = value.astimezone(dt.UTC).replace(tzinfo=None)
        except OverflowError:
            return _beyond(kind, before=value.year == dt.MINYEAR)
    if kind is not Kind.DATE:
        moment: dt.datetime = value.replace(
            tzinfo=dt.UTC if kind is Kind.TIMESTAMPTZ else None, fold=0
        )
        return moment
    day: dt.date = value.date()
    if value.time() == dt.time():
        return day
    return Gap(day, None if day == dt.date.max else day + _DAY)


def _beyond(kind: Kind, before: bool) -> Gap:
    return Gap(None, _FIRST[kind]) if before else Gap(_LAST[kind], None)


def _time(_: ColumnType, value: Any) -> dt.time | None:
    plain = isinstance(value, dt.time) and value.tzinfo is None
    return value.replace(fold=0) if plain else None


def _interval(_: ColumnType, value: Any) -> Interval | None:
    found = of_timedelta(value) if isinstance(value, dt.timedelta) else value
    return found if isinstance(found, Interval) else None


def _array(type_: ColumnType, value: Any) -> tuple[Any, ...] | None:
    """An array whose elements are values of the element's type. Raises TypeMismatch for an element
    between two values of it."""
    if not isinstance(value, list | tuple):
        return None
    element = type_.element_type

    def exact(each: Any) -> Value:
        found = meant(element, each)
        if isinstance(found, Gap):
            raise TypeMismatch(
                f"The element {each} is not a value of type {element.sql()}.",
                cure=f"CAST both arrays to one type that has all elements of {type_.sql()}.",
                type=type_.sql(),
            )
        return found

    return arrays.values_of(value, exact)


def _of_class(class_: type[T]) -> Callable[[ColumnType, Any], T | None]:
    return lambda _, value: value if isinstance(value, class_) else None


_MEANT: dict[Kind, Callable[[ColumnType, Any], Value | Gap]] = {
    Kind.INTEGER: _integer,
    Kind.BIGINT: _integer,
    Kind.DECIMAL: _decimal,
    Kind.DOUBLE: _double,
    Kind.BOOLEAN: _of_class(bool),
    Kind.TEXT: _of_class(str),
    Kind.BYTES: lambda _, v: bytes(v) if isinstance(v, bytes | bytearray | memoryview) else None,
    Kind.DATE: _moment,
    Kind.TIME: _time,
    Kind.TIMESTAMP: _moment,
    Kind.TIMESTAMPTZ: _moment,
    Kind.INTERVAL: _interval,
    Kind.UUID: _of_class(uuid.UUID),
    Kind.JSON: _of_class(str),
    Kind.ARRAY: _array,
    Kind.ENUM: lambda type_, value: type_.coerce(value) if isinstance(value, Label) else None,
}
