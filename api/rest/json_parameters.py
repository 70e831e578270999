"""Parameters in a request's JSON: plain values, or a value together with its type.

A column or a CAST beside a parameter determines its type, and the value is read as that type. In
other places (`SELECT ?`, `coalesce(?, c)`, `c * ?`) text would stay text, because JSON has no
bytes, dates or exact decimals. There a client may give the type: `{"type": "BLOB", "value":
"aGk="}`.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from hornbeam_server.schema.arrays import ONE_DIMENSION
from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.types import (
    MAX_DECIMAL_PRECISION,
    MAX_TEXT,
    REAL,
    ColumnType,
    Kind,
    Value,
)
from hornbeam_server.txlayer.transactions.manager import TransactionLimits

Values = list[Any] | dict[str, Any]
MAX_SETS = TransactionLimits().parameter_sets

_UNNAMED = {Kind.DECIMAL, Kind.ARRAY, Kind.ENUM}
_NAMED = (*(ColumnType(kind) for kind in Kind if kind not in _UNNAMED), REAL)
_TYPES = {type_.sql(): type_ for type_ in _NAMED}
_NAMES = ", ".join(sorted([*_TYPES, "DECIMAL"]))


def values_of(given: Values) -> Values:
    """The Python values of parameters. Raises ValueError for a value that is no parameter."""
    if isinstance(given, dict):
        return {name: _value(value) for name, value in given.items()}
    return [_value(value) for value in given]


def _value(given: Any) -> Any:
    if isinstance(given, dict) and given.keys() == {"type", "value"}:
        return _typed(given["type"], given["value"])
    if isinstance(given, list):
        return _array(given)
    if isinstance(given, dict):  # JSON columns take text
        raise ValueError(
            "a parameter is a number, text, true, false, null or a list of these, or an object of"
            " type and value"
        )
    return given


def _array(given: list[Any]) -> tuple[Any, ...]:
    if any(isinstance(each, list) for each in given):
        raise ValueError(ONE_DIMENSION)
    return tuple(map(_value, given))


def _typed(name: Any, value: Any) -> Value:
    try:
        type_ = _decimal_of(value) if name == "DECIMAL" else _TYPES[name]
        return type_.coerce(value)
    except (KeyError, TypeError):
        raise ValueError(f"{name!r} is not the type of a parameter; there are {_NAMES}") from None
    except TypeMismatch as error:
        raise ValueError(error.message) from None


def _decimal_of(value: Any) -> ColumnType:
    """The DECIMAL type with as many decimal places as `value` has."""
    try:
        short = isinstance(value, str) and len(value) <= MAX_TEXT
        exponent = Decimal(value).as_tuple().exponent if short else 0
    except InvalidOperation:
        exponent = 0  # the coercion reports the error
    scale = max(0, -exponent) if isinstance(exponent, int) else 0
    return ColumnType(Kind.DECIMAL, MAX_DECIMAL_PRECISION, min(scale, MAX_DECIMAL_PRECISION))


StatementParameters = Annotated[
    Values,
    AfterValidator(values_of),
    Field(
        description="A list for `?`, an object for `:name`. Exact values go as text, which is read"
        " as the type of the column or CAST beside the parameter. Where there is none, give the"
        ' type as well: `{"type": "DECIMAL", "value": "1.10"}`.'
    ),
]
ParameterSets = Annotated[
    list[Values],
    Field(
        min_length=1,
        max_length=MAX_SETS,
        fail_fast=True,
        description="Instead of `parameters`: the statement runs once for each of these lists or"
        " objects, and its result is that of all runs.",
    ),
    AfterValidator(lambda sets: [values_of(each) for each in sets]),
]
KeyValues = Annotated[list[Any], AfterValidator(values_of)]
