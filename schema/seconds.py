"""Rounding of times to fewer decimals of a second: TIMESTAMP(3), TIME(0)."""

from __future__ import annotations

import datetime as dt
from typing import Any

SECOND_DIGITS = 6
"""Times of all types have microseconds."""
_ZERO = dt.datetime(2000, 1, 1)
"""PostgreSQL counts microseconds from here, and rounds halves away from it."""
_MICROSECOND = dt.timedelta(microseconds=1)
_DAY_US = 86_400_000_000


def rounded(value: dt.datetime, digits: int) -> dt.datetime:
    """`value` rounded to `digits` decimals of a second, as PostgreSQL does. Raises ValueError.

    >>> rounded(dt.datetime(2024, 2, 29, 23, 59, 59, 500_000), 0)
    datetime.datetime(2024, 3, 1, 0, 0)
    """
    unit = 10 ** (SECOND_DIGITS - digits)
    if value.microsecond % unit == 0:
        return value
    zero = _ZERO if value.tzinfo is None else _ZERO.replace(tzinfo=dt.UTC)
    ticks = (value - zero) // _MICROSECOND
    near = (abs(ticks) + unit // 2) // unit * unit
    try:
        return value + dt.timedelta(microseconds=(near if ticks >= 0 else -near) - ticks)
    except OverflowError:
        raise ValueError("years are 1 to 9999") from None


def rounded_time(value: dt.time, digits: int) -> dt.time:
    """A time of day rounded to `digits` decimals of a second. Raises ValueError for 24:00:00."""
    unit = 10 ** (SECOND_DIGITS - digits)
    return time_at((ticks_of(value) + unit // 2) // unit * unit)


def ticks_of(value: dt.time) -> int:
    """The microseconds since midnight."""
    seconds = value.hour * 3_600 + value.minute * 60 + value.second
    return seconds * 1_000_000 + value.microsecond


def time_at(ticks: int) -> dt.time:
    """The time of day `ticks` microseconds after midnight. Raises ValueError for 24:00:00."""
    if ticks >= _DAY_US:
        raise ValueError("there is no 24:00:00; the last time of a day is 23:59:59.999999")
    seconds, microsecond = divmod(ticks, 1_000_000)
    return dt.time(seconds // 3_600, seconds // 60 % 60, seconds % 60, microsecond)


def round_to(digits: int | None, value: Any) -> Any:
    """A timestamp or a time of day rounded to `digits` decimals of a second; None: as it is."""
    if digits is None:
        return value
    return rounded_time(value, digits) if isinstance(value, dt.time) else rounded(value, digits)
