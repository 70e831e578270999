"""PostgreSQL's text of an INTERVAL: `1 year 2 days 04:05:06`, `1-2`, `P1Y2D`, `90 min ago`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal

_MONTHS = {
    **dict.fromkeys(("y", "yr", "yrs", "year", "years"), 12),
    **dict.fromkeys(("mon", "mons", "month", "months"), 1),
    **dict.fromkeys(("dec", "decs", "decade", "decades"), 120),
    **dict.fromkeys(("c", "cent", "century", "centuries"), 1_200),
    **dict.fromkeys(("mil", "mils", "millennium", "millennia"), 12_000),
}
_DAYS = {
    **dict.fromkeys(("d", "day", "days"), 1),
    **dict.fromkeys(("w", "week", "weeks"), 7),
}
_MICROSECONDS = {
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3_600_000_000),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000_000),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000_000),
    **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds"), 1_000),
    **dict.fromkeys(("us", "usec", "usecs", "microsecond", "microseconds"), 1),
}
_DAY = 86_400_000_000
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
_PART = re.compile(
    rf"""\s*(?:
    (?P<years>[+-]?[0-9]+)-(?P<months>[0-9]+)(?=\s|$)
    |(?P<sign>[+-])?(?P<hours>[0-9]+):(?P<minutes>[0-9]+)(?::(?P<seconds>[0-9]+(?:\.[0-9]*)?))?
    |(?P<number>{_NUMBER})\s*(?P<unit>[a-z]+)?
    )\s*""",
    re.VERBOSE,
)
_ISO = re.compile(r"P((?:-?[0-9.]+[YMWD])*)(?:T((?:-?[0-9.]+[HMS])+))?")
_ISO_PART = re.compile(r"(-?[0-9.]+)([YMWDHS])")
_ISO_UNITS = {"Y": "year", "M": "month", "W": "week", "D": "day", "H": "hour", "S": "second"}


@dataclass(frozen=True, slots=True)
class Span:
    """An interval in whole months, days and microseconds."""

    months: int = 0
    days: int = 0
    microseconds: int = 0

    def __add__(self, other: Span) -> Span:
        return Span(
            self.months + other.months,
            self.days + other.days,
            self.microseconds + other.microseconds,
        )

    def __neg__(self) -> Span:
        return Span(-self.months, -self.days, -self.microseconds)

    def text(self) -> str:
        """The text that DuckDB reads."""
        return f"{self.months} months {self.days} days {self.microseconds} microseconds"


def interval(text: str) -> Span:
    """The interval that PostgreSQL reads. Raises ValueError."""
    found = _ISO.fullmatch(text.strip())
    parts = _of_iso(found) if found and text.strip() != "P" else _of_words(text)
    total = sum(parts, start=Span())
    if max(abs(total.months), abs(total.days)) >= 1 << 31 or abs(total.microseconds) >= 1 << 63:
        raise ValueError("out of range")
    return total


def _of_iso(found: re.Match[str]) -> Iterator[Span]:
    day, time = found[1], (found[2] or "").replace("M", "m")
    for number, unit in _ISO_PART.findall(day):
        yield _amount(Decimal(number), _ISO_UNITS[unit])
    for number, unit in re.findall(r"(-?[0-9.]+)([HmS])", time):
        yield _amount(Decimal(number), _ISO_UNITS.get(unit, "minute"))


def _of_words(text: str) -> Iterator[Span]:
    words = text.strip().lower()
    ago = words.endswith(" ago")
    words = words.removesuffix(" ago").removeprefix("@").strip()
    at = 0
    while at < len(words) or not words:
        found = _PART.match(words, at)
        if found is None:
            raise ValueError("intervals are written 1 year 2 days 04:05:06")
        span = _of_part(found, last=found.end() == len(words), words=words)
        yield -span if ago else span
        at = found.end()


def _of_part(found: re.Match[str], *, last: bool, words: str) -> Span:
    if found["years"] is not None:
        months = int(found["years"]) * 12
        more = int(found["months"])
        return Span(months - more if found["years"].startswith("-") else months + more)
    if found["hours"] is not None:
        return _clock(found)
    unit = found["unit"]
    if unit is None:  # `5` is 5 seconds, `3 4:05:06` is 3 days and a time
        unit = "second" if last else "day" if _PART.match(words, found.end()) else ""
    return _amount(Decimal(found["number"]), unit)


def _clock(found: re.Match[str]) -> Span:
    seconds = Decimal(found["seconds"] or 0)
    if int(found["minutes"]) > 59 or seconds >= 60:
        raise ValueError("there is no such time of day")
    total = int(found["hours"]) * 3_600 + int(found["minutes"]) * 60 + seconds
    ticks = _rounded(total * 1_000_000)
    return Span(microseconds=-ticks if found["sign"] == "-" else ticks)


def _amount(number: Decimal, unit: str) -> Span:
    """A number of a unit. A fraction of years becomes months, a fraction of months days (of which
    30 are a month), and a fraction of days microseconds."""
    if unit in _MONTHS:
        months = number * _MONTHS[unit]
        whole = int(months) if _MONTHS[unit] == 1 else _rounded(months)
        rest = (months - whole) * 30 if _MONTHS[unit] == 1 else Decimal(0)
        return Span(months=whole) + _amount(rest, "day")
    if unit in _DAYS:
        days = number * _DAYS[unit]
        return Span(days=int(days), microseconds=_rounded((days - int(days)) * _DAY))
    if unit in _MICROSECONDS:
        return Span(microseconds=_rounded(number * _MICROSECONDS[unit]))
    raise ValueError(f"{unit} is no unit of time")


def _rounded(number: Decimal) -> int:
    return int(number.to_integral_value(ROUND_HALF_EVEN))
