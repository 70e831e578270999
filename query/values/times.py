"""PostgreSQL's functions of dates, times and intervals that DuckDB lacks."""

from __future__ import annotations

import calendar
import datetime as dt
from typing import Any

from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.intervals import Interval, within_range

_DAY = dt.date(2000, 1, 1)
INTERVAL_PARTS = ("years", "months", "weeks", "days", "hours", "mins", "secs")
"""The names of the arguments of make_interval, in their order."""


def make_interval(
    years: int, months: int, weeks: int, days: int, hours: int, minutes: int, seconds: float
) -> Interval:
    """Raises TypeMismatch for parts that are too large."""
    try:
        ticks = round(seconds * 1_000_000) + (hours * 60 + minutes) * 60_000_000
        return within_range(Interval(years * 12 + months, weeks * 7 + days, ticks))
    except (ValueError, OverflowError):
        raise TypeMismatch("The parts of an interval are out of range.") from None


def overlap(begin: Any, end: Any, other_begin: Any, other_end: Any) -> bool | None:
    """`(begin, end) OVERLAPS (other_begin, other_end)` of dates, times and timestamps. An end may
    be an interval from the begin. The end of a period is not in it, unless it is its begin."""
    one, other = _period(begin, end), _period(other_begin, other_end)
    if one is None or other is None:
        return None
    (first, end_of_first), (second, end_of_second) = sorted((one, other), key=lambda each: each[0])
    if end_of_first is None:
        return None
    if first == second:
        return None if end_of_second is None else True
    if second < end_of_first:
        return True
    return None if end_of_second is None else False


def _period(begin: Any, end: Any) -> tuple[Any, Any] | None:
    """A period whose begin is not behind its end; None without both of them. An unknown end is
    None."""
    first, last = _moment(begin), _end(begin, end)
    if first is None and last is None:
        return None
    if first is None or last is None:
        return (last if first is None else first), None
    return min(first, last), max(first, last)


def _moment(value: Any) -> dt.datetime | None:
    if value is None or isinstance(value, dt.datetime):
        return value if value is None else value.replace(tzinfo=None)
    if isinstance(value, dt.date):
        return dt.datetime(value.year, value.month, value.day)
    if isinstance(value, dt.time):
        return dt.datetime.combine(_DAY, value)
    raise TypeMismatch("OVERLAPS takes dates, times and timestamps.")


def _end(begin: Any, end: Any) -> dt.datetime | None:
    if not isinstance(end, Interval):
        return _moment(end)
    first = _moment(begin)
    return None if first is None else moved(first, end)


def moved(moment: dt.datetime, by: Interval) -> dt.datetime:
    """The timestamp plus an interval. Raises TypeMismatch beyond the years 1 to 9999."""
    year, month = divmod(moment.year * 12 + moment.month - 1 + by.months, 12)
    try:
        day = min(moment.day, calendar.monthrange(year, month + 1)[1])
        whole = moment.replace(year=year, month=month + 1, day=day)
        return whole + dt.timedelta(days=by.days, microseconds=by.microseconds)
    except (ValueError, OverflowError, calendar.IllegalMonthError):
        raise TypeMismatch("A timestamp is outside of the years 1 to 9999.") from None
