"""INTERVAL in Python: a `datetime.timedelta`, or an `Interval` if it has months."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass

_PART = re.compile(
    r"([+-]?\d+) (year|mon|day)s?|([+-]?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?", re.ASCII
)


@dataclass(frozen=True, slots=True)
class Interval:
    """A length of time with months, which have no fixed number of days. Each part may be negative.

    >>> str(Interval(months=14, days=3))
    '14 mons 3 days +00:00:00.000000'
    """

    months: int = 0
    days: int = 0
    microseconds: int = 0

    def __str__(self) -> str:
        """Text that the server reads."""
        seconds, fraction = divmod(abs(self.microseconds), 1_000_000)
        clock = f"{seconds // 3_600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"
        sign = "-" if self.microseconds < 0 else "+"
        return f"{self.months} mons {self.days} days {sign}{clock}"


def read_interval(text: str) -> dt.timedelta | Interval:
    """The value of the server's text, such as `1 year 2 mons -3 days +04:05:06.789`. A length that
    a timedelta cannot have is an Interval, too."""
    months = days = ticks = 0
    for number, unit, sign, hours, minutes, seconds, fraction in _PART.findall(text):
        if unit == "day":
            days += int(number)
        elif unit:
            months += int(number) * (12 if unit == "year" else 1)
        else:
            whole = int(hours) * 3_600 + int(minutes) * 60 + int(seconds)
            size = whole * 1_000_000 + int(fraction.ljust(6, "0") or 0)
            ticks = -size if sign == "-" else size
    try:
        return Interval(months, days, ticks) if months else dt.timedelta(days, microseconds=ticks)
    except OverflowError:
        return Interval(months, days, ticks)


def interval_text(value: dt.timedelta | Interval) -> str:
    """The text of a value for the server."""
    if isinstance(value, Interval):
        return str(value)
    return str(Interval(0, value.days, value.seconds * 1_000_000 + value.microseconds))
