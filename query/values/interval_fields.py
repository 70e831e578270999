"""Intervals with fields: `'1:30'` as MINUTE TO SECOND, and an interval without the parts that are
smaller than its last field."""

from __future__ import annotations

import re

from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.intervals import Interval, interval
from hornbeam_server.schema.seconds import SECOND_DIGITS

FIELDS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
_NUMBER = re.compile(r"\s*[+-]?\d+(\.\d*)?\s*")
_DAY_AND_HOUR = re.compile(r"\s*([+-]?\d+)\s+([+-]?\d+(?:\.\d*)?)\s*")
_TWO_PARTS = re.compile(r"(?P<before>.*?)(?P<minutes>\d+:\d+(\.\d*)?)\s*", re.DOTALL)
_UNITS = {"HOUR": 3_600_000_000, "MINUTE": 60_000_000}


def is_number(text: str) -> bool:
    """Is the text a number without a unit?"""
    return _NUMBER.fullmatch(text) is not None


def with_fields(value: str | Interval, first: str, last: str, digits: int) -> Interval:
    """The interval that a value means with these fields, "" without them, and with so many decimals
    of a second. Raises TypeMismatch."""
    try:
        if not isinstance(value, str | Interval):
            raise ValueError("only texts and intervals have fields")
        found = _read(value, first, last) if isinstance(value, str) else value
        return _rounded(_cut(found, last), digits)
    except (ValueError, ArithmeticError) as error:
        raise TypeMismatch(
            f"{str(value)!r} is not an interval {first}{f' TO {last}' if first != last else ''}:"
            f" {error}."
        ) from None


def _read(text: str, first: str, last: str) -> Interval:
    """The interval that a text means with these fields. Raises ValueError."""
    if last and _NUMBER.fullmatch(text):
        return interval(f"{text.strip()} {last}")
    days = _DAY_AND_HOUR.fullmatch(text)
    if days is not None and (first, last) == ("DAY", "HOUR"):
        return interval(f"{days[1]} days {days[2]} hours")
    if days is not None and first:
        raise ValueError("its numbers have no units")
    two = _TWO_PARTS.fullmatch(text)
    if two is not None and (first, last) == ("MINUTE", "SECOND") and two["before"][-1:] != ":":
        return interval(f"{two['before']}00:{two['minutes']}")
    return interval(text)


def _cut(value: Interval, last: str) -> Interval:
    """The interval without parts that are smaller than its last field."""
    match last:
        case "YEAR":
            return Interval(int(value.months / 12) * 12)
        case "MONTH":
            return Interval(value.months)
        case "DAY":
            return Interval(value.months, value.days)
        case "HOUR" | "MINUTE":
            ticks, unit = value.microseconds, _UNITS[last]
            whole = abs(ticks) // unit * unit
            return Interval(value.months, value.days, -whole if ticks < 0 else whole)
    return value


def _rounded(value: Interval, digits: int) -> Interval:
    """The interval with its seconds rounded to a number of decimals, halves away from zero."""
    unit = 10 ** (SECOND_DIGITS - digits)
    near = (abs(value.microseconds) + unit // 2) // unit * unit
    return Interval(value.months, value.days, -near if value.microseconds < 0 else near)
