"""Sums and differences of dates, times, timestamps and intervals, with PostgreSQL's types."""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable
from typing import Any

from hornbeam_server.query.expressions.operands import INTEGERS, NotNativeError, Operand, binary
from hornbeam_server.query.values.times import moved
from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.intervals import Interval, divided, within_range
from hornbeam_server.schema.types import ColumnType, Kind

Binary = Callable[[Any, Any], Any]

_DAY = 86_400_000_000
"""In microseconds."""
_MICROSECOND = dt.timedelta(microseconds=1)
_TIMESTAMPS = {Kind.DATE, Kind.TIMESTAMP}
_INTERVAL = ColumnType(Kind.INTERVAL)


def arithmetic(function: Binary, left: Operand, right: Operand) -> Operand:
    """`function` (`operator.add`, `sub` or `mul`) of operands one of which is a date, a time, a
    timestamp or an interval. At run time, a value out of range raises TypeMismatch."""
    swapped = right.kind not in (Kind.INTERVAL, *INTEGERS)
    if function is not operator.sub and (swapped or left.kind in INTEGERS):
        left, right = right, left
    kinds = left.kind, right.kind
    sign = -1 if function is operator.sub else 1
    if function is operator.mul:
        if left.kind is Kind.INTERVAL and right.kind in INTEGERS:
            return binary(left, right, _INTERVAL, _multiplied)
    elif kinds == (Kind.DATE, Kind.INTEGER):
        return binary(left, right, ColumnType(Kind.DATE), _days_later(sign))
    elif right.kind is Kind.INTERVAL:
        return _with_interval(left, right, sign)
    elif function is operator.sub:
        return _difference(left, right)
    raise NotNativeError


def _with_interval(left: Operand, right: Operand, sign: int) -> Operand:
    match left.kind:
        case Kind.INTERVAL:
            return binary(left, right, _INTERVAL, lambda a, b: _checked(a + _signed(b, sign)))
        case Kind.TIME:
            return binary(left, right, ColumnType(Kind.TIME), _time_later(sign))
        case Kind.DATE:
            type_ = ColumnType(Kind.TIMESTAMP)
            return binary(left, right, type_, lambda a, b: moved(_midnight(a), _signed(b, sign)))
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ as kind:
            return binary(left, right, ColumnType(kind), lambda a, b: moved(a, _signed(b, sign)))
    raise NotNativeError


def _difference(left: Operand, right: Operand) -> Operand:
    kinds = {left.kind, right.kind}
    if kinds == {Kind.TIME}:
        return binary(left, right, _INTERVAL, lambda a, b: Interval(0, 0, _ticks(a) - _ticks(b)))
    if kinds == {Kind.TIMESTAMPTZ}:
        return binary(left, right, _INTERVAL, _between)
    if kinds <= _TIMESTAMPS and kinds != {Kind.DATE}:
        return binary(left, right, _INTERVAL, lambda a, b: _between(_midnight(a), _midnight(b)))
    raise NotNativeError


def _signed(by: Interval, sign: int) -> Interval:
    return by if sign > 0 else -by


def _checked(found: Interval) -> Interval:
    try:
        return within_range(found)
    except ValueError:
        raise TypeMismatch("An interval is out of range.") from None


def _multiplied(interval: Interval, by: int) -> Interval:
    return _checked(Interval(*(part * by for part in interval.parts)))


def _days_later(sign: int) -> Binary:
    def later(day: dt.date, days: int) -> dt.date:
        try:
            return day + dt.timedelta(days=sign * days)
        except OverflowError:
            raise TypeMismatch("A date is outside of the years 1 to 9999.") from None

    return later


def _time_later(sign: int) -> Binary:
    def later(time: dt.time, by: Interval) -> dt.time:
        ticks = (_ticks(time) + sign * by.microseconds) % _DAY
        return (dt.datetime.min + ticks * _MICROSECOND).time()

    return later


def _ticks(time: dt.time) -> int:
    """The microseconds since midnight."""
    seconds = (time.hour * 60 + time.minute) * 60 + time.second
    return seconds * 1_000_000 + time.microsecond


def _midnight(value: dt.date) -> dt.datetime:
    """A timestamp; a date as its midnight."""
    if isinstance(value, dt.datetime):
        return value
    return dt.datetime(value.year, value.month, value.day)


def _between(later: dt.datetime, earlier: dt.datetime) -> Interval:
    """The time between two timestamps, in days and a time of day of the same sign."""
    return Interval(0, *divided((later - earlier) // _MICROSECOND, _DAY))
