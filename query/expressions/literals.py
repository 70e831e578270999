"""Literals: numbers with DuckDB's types, and strings where a typed value is required.

Strings are parsed only in the canonical spelling of the type. DuckDB accepts more spellings and
evaluates those itself.
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from hornbeam_server.schema.intervals import interval
from hornbeam_server.schema.reals import real_of
from hornbeam_server.schema.spelling import sql_bytes
from hornbeam_server.schema.types import MAX_DECIMAL_PRECISION, REAL, ColumnType, Kind

_DAY = r"\d{4}-\d\d-\d\d"
_CLOCK = r"\d\d:\d\d:\d\d(\.\d{1,6})?"
_MOMENT = _DAY + r"[ T]" + _CLOCK
_SPELLINGS: dict[Kind, re.Pattern[str]] = {
    Kind.INTEGER: re.compile(r"-?\d{1,10}", re.ASCII),
    Kind.BIGINT: re.compile(r"-?\d{1,19}", re.ASCII),
    Kind.DECIMAL: re.compile(r"-?\d{1,38}(\.\d{1,38})?", re.ASCII),
    Kind.DOUBLE: re.compile(r"-?\d{1,15}(\.\d{1,15})?", re.ASCII),
    Kind.BOOLEAN: re.compile(r"true|false"),
    Kind.DATE: re.compile(_DAY, re.ASCII),
    Kind.TIME: re.compile(_CLOCK, re.ASCII),
    Kind.TIMESTAMP: re.compile(_MOMENT, re.ASCII),
    Kind.TIMESTAMPTZ: re.compile(_MOMENT + r"[+-]\d\d(:\d\d)?", re.ASCII),
    Kind.UUID: re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII),
    Kind.BYTES: re.compile(r"\\x([0-9a-f]{2})*"),
    Kind.INTERVAL: re.compile(r"-?\d+ months -?\d+ days -?\d+ microseconds", re.ASCII),
}
_READERS: dict[Kind, Callable[[str], Any]] = {
    Kind.INTEGER: int,
    Kind.BIGINT: int,
    Kind.DECIMAL: Decimal,
    Kind.DOUBLE: float,
    Kind.BOOLEAN: lambda text: text == "true",
    Kind.DATE: dt.date.fromisoformat,
    Kind.TIME: dt.time.fromisoformat,
    Kind.TIMESTAMP: dt.datetime.fromisoformat,
    Kind.TIMESTAMPTZ: lambda text: dt.datetime.fromisoformat(text).astimezone(dt.UTC),
    Kind.UUID: uuid.UUID,
    Kind.BYTES: sql_bytes,
    Kind.INTERVAL: interval,
}
_BITS = {Kind.INTEGER: 32, Kind.BIGINT: 64}


def parse_text(text: str, type_: ColumnType) -> Any:
    """The value of a string literal used as `type_`; None for a spelling that is not canonical."""
    if type_.enumeration is not None:  # of DuckDB's SQL, which has positions
        return type_.enumeration.by_position.get(text)
    spelling = _SPELLINGS.get(type_.kind)
    if spelling is None or not spelling.fullmatch(text):
        return None
    try:
        if type_ == REAL:
            return real_of(Decimal(text))
        value = _READERS[type_.kind](text)
    except (ValueError, OverflowError):
        return None  # like 2021-02-30
    return value if _fits(value, type_) else None


def _fits(value: Any, type_: ColumnType) -> bool:
    if type_.kind in _BITS:
        return in_range(value, type_.kind)
    if type_.kind is not Kind.DECIMAL:
        return True
    scale: int = -value.as_tuple().exponent
    width = (type_.precision or 0) - (type_.scale or 0)
    return scale <= (type_.scale or 0) and bool(abs(value) < Decimal(10) ** width)


def in_range(value: int, kind: Kind) -> bool:
    limit = 1 << _BITS[kind] - 1
    return -limit <= value < limit


_WHOLE = re.compile(r"\d+", re.ASCII)
_FRACTION = re.compile(r"(\d*)\.(\d*)", re.ASCII)
_SCIENTIFIC = re.compile(r"(\d+\.?\d*|\.\d+)[eE][+-]?\d+", re.ASCII)


def parse_number(text: str) -> tuple[ColumnType, int | float | Decimal] | None:
    """(type, value) of a numeric literal, typed as in DuckDB; None for other literals.

    An integer is INTEGER, or BIGINT if it is too large. A number with a point is DECIMAL(digits,
    digits after the point). A number with an exponent is DOUBLE.
    """
    if _WHOLE.fullmatch(text):
        number = int(text)
        for kind in (Kind.INTEGER, Kind.BIGINT):
            if in_range(number, kind):
                return ColumnType(kind), number
        return None
    if match := _FRACTION.fullmatch(text):
        whole, fraction = match.groups()
        width = len(whole) + len(fraction)
        if not 0 < width <= MAX_DECIMAL_PRECISION:
            return None
        return ColumnType(Kind.DECIMAL, width, len(fraction)), Decimal(text)
    if _SCIENTIFIC.fullmatch(text):
        return ColumnType(Kind.DOUBLE), float(text)
    return None
