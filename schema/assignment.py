"""Assignment of values to columns, with PostgreSQL's assignment casts.

A value that a column takes as it is (`ColumnType.coerce`) is not changed. Any other value is cast
first: numbers are rounded to integers, values of all types become text, dates and timestamps become
each other in UTC, and text loses the blanks that are too many for its column. A float means its
shortest decimal form. Comparisons never do this: a value that is compared is not rounded or cut.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
import uuid
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from hornbeam_server.schema import arrays
from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.intervals import Interval
from hornbeam_server.schema.types import ColumnType, Kind, Value

_WHOLE = Decimal(1)
_DIGITS = 20
"""No integer type has more decimal digits."""


def assign(type_: ColumnType, value: Any) -> Value:
    """`value` as a column of `type_` takes it. Raises TypeMismatch."""
    try:
        return type_.coerce(value)
    except TypeMismatch:
        cast = _CASTS.get(type_.kind)
        found = value if cast is None else cast(type_, value)
        if found is value:
            raise
    return type_.coerce(found)


_WITH_ZEROS = re.compile(r"\s*([+-]?\d+)\.0*\s*")
_INTEGERS = {Kind.INTEGER, Kind.BIGINT}


def assign_of_file(type_: ColumnType, value: Any) -> Value:
    """`assign` for a value that is read from a file: the text 20.0, as which programs write a whole
    number beside missing ones, is the integer 20, and an array may be a list of JSON. Raises
    TypeMismatch."""
    if isinstance(value, str) and type_.element is not None and value[:1] == "[":
        value = _listed(value)
    if isinstance(value, str) and type_.kind in _INTEGERS:
        found = _WITH_ZEROS.fullmatch(value)
        value = value if found is None else found[1]
    return assign(type_, value)


def _listed(text: str) -> Any:
    """The elements in a list of JSON; other text unchanged, which is refused as an array."""
    try:
        return json.loads(text, parse_float=Decimal)
    except ValueError:
        return text


def assign_all_of_file(type_: ColumnType, values: Sequence[Any]) -> Sequence[Value]:
    """`assign_of_file` for a whole column. Raises TypeMismatch."""
    try:
        return type_.coerce_all(values)
    except TypeMismatch:
        return [assign_of_file(type_, value) for value in values]


def _integer(_: ColumnType, value: Any) -> Any:
    """A number rounded to an integer, halves away from zero."""
    exact = Decimal(repr(value)) if isinstance(value, float) else value
    if isinstance(exact, Decimal) and exact.is_finite() and exact.adjusted() < _DIGITS:
        return int(exact.quantize(_WHOLE, ROUND_HALF_UP))
    return value


def _text(type_: ColumnType, value: Any) -> Any:
    text = value if isinstance(value, str) else text_of(value)
    if text is None or type_.length is None:
        return value if text is None else text
    kept, rest = text[: type_.length], text[type_.length :]
    return kept if rest and not rest.strip(" ") else text


def _time(_: ColumnType, value: Any) -> Any:
    """The time of day of a timestamp, in UTC."""
    if not isinstance(value, dt.datetime):
        return value
    return (value if value.tzinfo is None else value.astimezone(dt.UTC)).time()


def _moment(type_: ColumnType, value: Any) -> Any:
    """A date or timestamp as one in UTC of another kind."""
    if not isinstance(value, dt.date):
        return value
    if not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day)
    instant = value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)
    if type_.kind is Kind.DATE:
        return instant.date()
    return instant if type_.kind is Kind.TIMESTAMPTZ else instant.replace(tzinfo=None)


def _array(type_: ColumnType, value: Any) -> Any:
    """An array whose elements are cast."""
    element = type_.element_type
    if not isinstance(value, list | tuple) or any(isinstance(e, list | tuple) for e in value):
        return value
    return arrays.values_of(value, lambda each: assign(element, each))


_CASTS: dict[Kind, Callable[[ColumnType, Any], Any]] = {
    Kind.INTEGER: _integer,
    Kind.BIGINT: _integer,
    Kind.TEXT: _text,
    Kind.DATE: _moment,
    Kind.TIME: _time,
    Kind.TIMESTAMP: _moment,
    Kind.TIMESTAMPTZ: _moment,
    Kind.ARRAY: _array,
}


def text_of(value: Any) -> str | None:
    """The text as which PostgreSQL writes a value; None for a value that has none here.

    >>> text_of(1e15), text_of(5.0), text_of(True)
    ('1e+15', '5', 'true')
    """
    match value:
        case bool():
            return "true" if value else "false"
        case int() | uuid.UUID() | Interval():
            return str(value)
        case Decimal():
            return format(value, "f")
        case float():
            return text_of_double(value)
        case dt.datetime():
            return _text_of_timestamp(value)
        case dt.date():
            return value.isoformat()
        case dt.time():
            return text_of_time(value)
        case bytes():
            return f"\\x{value.hex()}"
        case tuple():
            return arrays.text_of_elements(map(_text_of_element, value))
    return None


def _text_of_element(value: Any) -> str | None:
    if isinstance(value, bool):
        return "t" if value else "f"
    return value if isinstance(value, str) else text_of(value)


_EXPONENT_FROM, _EXPONENT_OF_PYTHON = 1e15, 1e16


def text_of_double(value: float) -> str:
    """A double as PostgreSQL prints it: with an exponent from 1e15 on, and without `.0`."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if not _EXPONENT_FROM <= abs(value) < _EXPONENT_OF_PYTHON:
        return repr(value).removesuffix(".0")
    sign, digits = "-" if value < 0 else "", repr(abs(value)).replace(".", "").rstrip("0")
    point = "." if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{point}{digits[1:]}e+15"


def text_of_time(value: dt.time) -> str:
    """ISO 8601, without zeros at the end of the fraction."""
    return _without_zeros(value.isoformat())


def _text_of_timestamp(value: dt.datetime) -> str:
    """ISO 8601 with a blank, without zeros at the end of the fraction; an instant in UTC."""
    zone = "" if value.tzinfo is None else "+00"
    moment = value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
    return f"{_without_zeros(moment.isoformat(' '))}{zone}"


def _without_zeros(text: str) -> str:
    return text.rstrip("0") if "." in text else text
