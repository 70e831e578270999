"""The types of parameters that take them from their values, as those of `balance + ?` do."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from hornbeam_server.schema.intervals import Interval
from hornbeam_server.schema.types import MAX_DECIMAL_PRECISION, ColumnType, Kind

_INTEGERS = ((ColumnType(Kind.INTEGER), 1 << 31), (ColumnType(Kind.BIGINT), 1 << 63))
_TYPES: Mapping[type, ColumnType] = {
    bool: ColumnType(Kind.BOOLEAN),
    float: ColumnType(Kind.DOUBLE),
    str: ColumnType(Kind.TEXT),
    bytes: ColumnType(Kind.BYTES),
    dt.date: ColumnType(Kind.DATE),
    dt.timedelta: ColumnType(Kind.INTERVAL),
    Interval: ColumnType(Kind.INTERVAL),
    uuid.UUID: ColumnType(Kind.UUID),
}


class Untyped(Exception):
    """Only its literal tells the type of a value: an array, or a number of forty digits."""


def value_type(value: Any) -> ColumnType:
    """The type of a value that is not None. Raises Untyped."""
    found = _TYPES.get(type(value))
    if found is not None:
        return found
    match value:
        case int():
            for type_, limit in _INTEGERS:
                if -limit <= value < limit:
                    return type_
        case Decimal():
            return _decimal(value)
        case dt.datetime():
            zoned = value.tzinfo is not None
            return ColumnType(Kind.TIMESTAMPTZ if zoned else Kind.TIMESTAMP)
        case dt.time() if value.tzinfo is None:
            return ColumnType(Kind.TIME)
    raise Untyped


def _decimal(value: Decimal) -> ColumnType:
    """The DECIMAL of the value's literal: with its digits before the point and behind it."""
    if not value.is_finite():
        raise Untyped
    scale = max(-int(value.as_tuple().exponent), 0)
    precision = max(value.adjusted() + 1, 0 if scale else 1) + scale
    if precision > MAX_DECIMAL_PRECISION:
        raise Untyped
    return ColumnType(Kind.DECIMAL, precision, scale)
