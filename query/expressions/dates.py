"""Parts of dates and timestamps: DATE_PART (also written EXTRACT), YEAR and the like, DATE_TRUNC.

DuckDB shows a TIMESTAMPTZ in UTC here, and stored values are in UTC, so its parts are those of the
stored value.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from hornbeam_server.query.dialect.macros import EPOCH
from hornbeam_server.query.expressions.operands import (
    BIGINT,
    DOUBLE,
    TIMESTAMP,
    NotNativeError,
    Operand,
    midnight,
    require,
    unary,
)
from hornbeam_server.schema.seconds import ticks_of
from hornbeam_server.schema.types import ColumnType, Kind

Part = Callable[[Any], int]

_INSTANTS = (Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


def _quarter(value: dt.date) -> int:
    return (value.month + 2) // 3


def _microseconds(value: dt.datetime) -> int:
    return value.second * 1_000_000 + value.microsecond


_OF_DAYS: dict[str, Part] = {
    "year": lambda value: int(value.year),
    "quarter": _quarter,
    "month": lambda value: int(value.month),
    "week": lambda value: int(value.isocalendar().week),
    "isoyear": lambda value: int(value.isocalendar().year),
    "day": lambda value: int(value.day),
    "dow": lambda value: int(value.isoweekday() % 7),
    "isodow": lambda value: int(value.isoweekday()),
    "doy": lambda value: int(value.timetuple().tm_yday),
}
_OF_TIMES: dict[str, Part] = {
    "hour": lambda value: int(value.hour),
    "minute": lambda value: int(value.minute),
    "second": lambda value: int(value.second),
    "milliseconds": lambda value: _microseconds(value) // 1_000,
    "microseconds": _microseconds,
}
_SYNONYMS = {
    "dayofmonth": "day",
    "dayofweek": "dow",
    "weekday": "dow",
    "dayofyear": "doy",
    "weekofyear": "week",
    "millisecond": "milliseconds",
    "microsecond": "microseconds",
}
PARTS = (*_OF_DAYS, *_OF_TIMES, *_SYNONYMS)
"""Names of the parts that are whole numbers."""
FUNCTIONS = tuple(
    part for part in PARTS if part not in ("dow", "doy", "milliseconds", "microseconds")
)
"""Parts that are also functions of this name: YEAR(x) is DATE_PART('year', x)."""


def date_part(part: str, operand: Operand) -> Operand:
    """DATE_PART('part', x) of a date, time or timestamp."""
    part = _SYNONYMS.get(part, part)
    kind = _instant(operand)
    if kind is Kind.TIME:
        return _part_of_time(part, operand)
    if part == "epoch":
        return unary(operand, DOUBLE, _epoch_of_day if kind is Kind.DATE else _epoch)
    if part in _OF_DAYS:
        return unary(operand, BIGINT, _OF_DAYS[part])
    if part not in _OF_TIMES:
        raise NotNativeError
    return unary(operand, BIGINT, _zero if kind is Kind.DATE else _OF_TIMES[part])


def exact_epoch(operand: Operand) -> Operand:
    """EXTRACT(epoch FROM x) of a date, time or timestamp."""
    kind = _instant(operand)
    ticks = ticks_of if kind is Kind.TIME else _ticks_of_day if kind is Kind.DATE else _ticks
    return unary(operand, EPOCH, lambda value: Decimal(ticks(value)).scaleb(-6))


def _part_of_time(part: str, operand: Operand) -> Operand:
    if part == "epoch":
        return unary(operand, DOUBLE, lambda value: float(ticks_of(value)) / 1_000_000)
    if part not in _OF_TIMES:
        raise NotNativeError
    return unary(operand, BIGINT, _OF_TIMES[part])


def _instant(operand: Operand) -> Kind:
    """The kind of a date, time or timestamp. Raises NotNativeError for others, and for literals
    without a type."""
    if operand.text is not None or operand.type is None:
        raise NotNativeError
    return require(operand, *_INSTANTS).kind


def _zero(_: dt.date) -> int:
    return 0


def _ticks(value: dt.datetime) -> int:
    """The microseconds since 1970."""
    return (value.replace(tzinfo=dt.UTC) - _EPOCH) // _MICROSECOND


def _ticks_of_day(value: dt.date) -> int:
    return _ticks(midnight(value))


def _epoch(value: dt.datetime) -> float:
    """Seconds since 1970. The microseconds become a double before they are divided, as in
    DuckDB."""
    return float(_ticks(value)) / 1_000_000


def _epoch_of_day(value: dt.date) -> float:
    return _epoch(midnight(value))


def _first_of_quarter(value: dt.datetime) -> dt.datetime:
    return value.replace(month=3 * _quarter(value) - 2, day=1, **_NO_TIME)


def _monday(value: dt.datetime) -> dt.datetime:
    return value.replace(**_NO_TIME) - dt.timedelta(days=value.weekday())


_NO_TIME: dict[str, Any] = {"hour": 0, "minute": 0, "second": 0, "microsecond": 0}
_TRUNCATED: dict[str, Callable[[dt.datetime], dt.datetime]] = {
    "year": lambda value: value.replace(month=1, day=1, **_NO_TIME),
    "quarter": _first_of_quarter,
    "month": lambda value: value.replace(day=1, **_NO_TIME),
    "week": _monday,
    "day": lambda value: value.replace(**_NO_TIME),
    "hour": lambda value: value.replace(minute=0, second=0, microsecond=0),
    "minute": lambda value: value.replace(second=0, microsecond=0),
    "second": lambda value: value.replace(microsecond=0),
    "milliseconds": lambda value: value.replace(microsecond=value.microsecond // 1_000 * 1_000),
    "microseconds": lambda value: value,
}


def date_trunc(part: str, operand: Operand) -> Operand:
    """DATE_TRUNC('part', x) of a date or timestamp; a TIMESTAMP for a date."""
    kind = _instant(operand)
    if kind is Kind.TIME:
        raise NotNativeError
    truncated = _TRUNCATED.get(_SYNONYMS.get(part, part))
    if truncated is None:
        raise NotNativeError
    if kind is Kind.DATE:
        return unary(operand, TIMESTAMP, lambda value: truncated(midnight(value)))
    return unary(operand, ColumnType(kind), truncated)


def part_name(operand: Operand) -> str:
    """The name of a part, which must be a literal."""
    if operand.text is None:
        raise NotNativeError
    return operand.text.lower()
