"""INTERVAL: its values, and PostgreSQL's text of them: `1 year 2 days 04:05:06`, `1-2`, `P1Y2D`,
`90 min ago`."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from functools import total_ordering

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
_CLOCK = frozenset({"hour", "minute", "second"})
_FIELDS = {
    **dict.fromkeys(("y", "yr", "yrs", "years"), "year"),
    **dict.fromkeys(("mon", "mons", "months"), "month"),
    **dict.fromkeys(("d", "days"), "day"),
    **dict.fromkeys(("w", "weeks"), "week"),
    **dict.fromkeys(("h", "hr", "hrs", "hours"), "hour"),
    **dict.fromkeys(("m", "min", "mins", "minutes"), "minute"),
    **dict.fromkeys(("s", "sec", "secs", "seconds"), "second"),
    **dict.fromkeys(("ms", "msec", "msecs", "milliseconds"), "millisecond"),
    **dict.fromkeys(("us", "usec", "usecs", "microseconds"), "microsecond"),
    **dict.fromkeys(("dec", "decs", "decades"), "decade"),
    **dict.fromkeys(("c", "cent", "centuries"), "century"),
    **dict.fromkeys(("mil", "mils", "millennia"), "millennium"),
}
"""Other words for the fields, each of which a text has at most once."""
_DAY = 86_400_000_000
_LONGEST = ((1 << 63) - 1) // 1_000
"""The longest time of day, in microseconds, that fits into 64 bits as nanoseconds, as in Arrow."""
_NUMBER = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
_PART = re.compile(
    rf"""\s*(?:
    (?P<years>(?:[+-]\s*)?[0-9]+)-(?P<months>[0-9]+)(?=\s|$)
    |(?P<sign>[+-])?\s*(?P<hours>[0-9]+):(?P<minutes>[0-9]*)
        (?::(?P<seconds>[0-9]+(?:\.[0-9]*)?)|(?P<fraction>\.[0-9]*))?
    |(?P<number>(?:[+-]\s*)?{_NUMBER})\s*(?P<unit>[a-z]+)?
    )\s*""",
    re.VERBOSE,
)
_ISO = re.compile(r"P((?:-?[0-9.]+[YMWD])*)(?:T((?:-?[0-9.]+[HMS])+))?")
_ISO_PART = re.compile(r"(-?[0-9.]+)([YMWDHS])")
_ISO_UNITS = {"Y": "year", "M": "month", "W": "week", "D": "day", "H": "hour", "S": "second"}


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """A length of time: months, days and microseconds, each of which may be negative.

    Intervals are equal, and ordered, by their length with 30 days in a month and 24 hours in a day,
    as in PostgreSQL. So two equal intervals may have other parts (`identical`).
    """

    months: int = 0
    days: int = 0
    microseconds: int = 0

    @property
    def parts(self) -> tuple[int, int, int]:
        return self.months, self.days, self.microseconds

    @property
    def length(self) -> int:
        """In microseconds."""
        return (self.months * 30 + self.days) * _DAY + self.microseconds

    def __eq__(self, other: object) -> bool:
        return self.length == other.length if isinstance(other, Interval) else NotImplemented

    def __lt__(self, other: Interval) -> bool:
        return self.length < other.length

    def __hash__(self) -> int:
        return hash(self.length)

    def __add__(self, other: Interval) -> Interval:
        return Interval(
            self.months + other.months,
            self.days + other.days,
            self.microseconds + other.microseconds,
        )

    def __neg__(self) -> Interval:
        return Interval(-self.months, -self.days, -self.microseconds)

    def __str__(self) -> str:
        """PostgreSQL's text.

        >>> str(Interval(14, -3, 14_706_789_000))
        '1 year 2 mons -3 days +04:05:06.789'
        """
        years, months = divided(self.months, 12)
        words, before = [], False
        for number, unit in ((years, "year"), (months, "mon"), (self.days, "day")):
            if number:
                sign = "+" if before and number > 0 else ""
                words.append(f"{sign}{number} {unit}{'' if number == 1 else 's'}")
                before = number < 0
        if self.microseconds or not words:
            sign = "-" if self.microseconds < 0 else "+" if before else ""
            words.append(sign + _clock_text(abs(self.microseconds)))
        return " ".join(words)

    def plain(self) -> str:
        """The text that DuckDB reads."""
        return f"{self.months} months {self.days} days {self.microseconds} microseconds"


def identical(one: Sequence[object] | None, other: Sequence[object] | None) -> bool:
    """Are rows equal, and all their intervals of the same parts?"""
    if one != other:
        return False
    return (
        one is None
        or other is None
        or not any(
            (isinstance(value, Interval) and value.parts != _parts(same))
            or (isinstance(value, tuple) and not _same_array(value, same))
            for value, same in zip(one, other, strict=True)
        )
    )


def _same_array(one: tuple[object, ...], other: object) -> bool:
    return isinstance(other, tuple) and identical(one, other)


def _parts(value: object) -> tuple[int, int, int] | None:
    return value.parts if isinstance(value, Interval) else None


def of_length(length: int) -> Interval:
    """An interval of `length` microseconds, in as many months and days as possible."""
    days, microseconds = divided(length, _DAY)
    months, days = divided(days, 30)
    return Interval(months, days, microseconds)


def of_timedelta(value: dt.timedelta) -> Interval:
    return Interval(0, value.days, value.seconds * 1_000_000 + value.microseconds)


def within_range(value: Interval) -> Interval:
    """The interval. Raises ValueError for parts that are too large."""
    if max(abs(value.months), abs(value.days)) >= 1 << 31 or abs(value.microseconds) > _LONGEST:
        raise ValueError("out of range")
    return value


def divided(number: int, by: int) -> tuple[int, int]:
    """The quotient, rounded towards zero, and the remainder."""
    quotient = abs(number) // by * (1 if number >= 0 else -1)
    return quotient, number - quotient * by


def _clock_text(ticks: int) -> str:
    seconds, fraction = divmod(ticks, 1_000_000)
    text = f"{seconds // 3_600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:06}".rstrip("0") if fraction else text


def interval(text: str) -> Interval:
    """The interval that PostgreSQL reads. Raises ValueError."""
    found = _ISO.fullmatch(text.strip())
    parts = _of_iso(found) if found and text.strip() != "P" else _of_words(text)
    total = sum(parts, start=Interval())
    return within_range(total)


def _of_iso(found: re.Match[str]) -> Iterator[Interval]:
    day, time = found[1], (found[2] or "").replace("M", "m")
    for number, unit in _ISO_PART.findall(day):
        yield _amount(Decimal(number), _ISO_UNITS[unit])
    for number, unit in re.findall(r"(-?[0-9.]+)([HmS])", time):
        yield _amount(Decimal(number), _ISO_UNITS.get(unit, "minute"))


def _of_words(text: str) -> Iterator[Interval]:
    words = text.strip().lower()
    ago = words.endswith(" ago")
    words = words.removesuffix(" ago").removeprefix("@").strip()
    at, fields = 0, set[str]()
    while at < len(words) or not words:
        found = _PART.match(words, at)
        if found is None:
            raise ValueError("intervals are written 1 year 2 days 04:05:06")
        unit = _unit(found, words)
        new = _fields(found, unit)
        if new & fields:
            raise ValueError(f"it has {min(new & fields)} twice")
        fields |= new
        part = _of_part(found, unit)
        yield -part if ago else part
        at = found.end()


def _unit(found: re.Match[str], words: str) -> str:
    """The unit of a number: `5` is 5 seconds, `3 4:05:06` and `3 4 hours` begin with 3 days. Raises
    ValueError."""
    if found["number"] is None or found["unit"] is not None:
        return found["unit"] or ""
    if found.end() == len(words):
        return "second"
    following = _PART.match(words, found.end())
    if following is not None and _fields(following, following["unit"] or "") & {"hour"}:
        return "day"
    raise ValueError(f"{found['number']} has no unit of time")


def _fields(found: re.Match[str], unit: str) -> frozenset[str]:
    """The fields that a part sets."""
    if found["years"] is not None:
        return frozenset({"month"})
    return _CLOCK if found["hours"] is not None else frozenset({_FIELDS.get(unit, unit)})


def _of_part(found: re.Match[str], unit: str) -> Interval:
    if found["years"] is not None:
        months = int("".join(found["years"].split())) * 12
        more = int(found["months"])
        return Interval(months - more if found["years"].startswith("-") else months + more)
    if found["hours"] is not None:
        return _clock(found)
    return _amount(Decimal("".join(found["number"].split())), unit)


def _clock(found: re.Match[str]) -> Interval:
    """The time of `1:02:03`, and of `1:02.5`, which has minutes and seconds."""
    if found["fraction"] is not None:
        hours, minutes = 0, int(found["hours"])
        seconds = Decimal((found["minutes"] or "0") + found["fraction"])
    else:
        hours, minutes = int(found["hours"]), int(found["minutes"] or 0)
        seconds = Decimal(found["seconds"] or 0)
    if minutes > 59 or seconds >= 60:
        raise ValueError("there is no such time of day")
    total = hours * 3_600 + minutes * 60 + seconds
    ticks = _rounded(total * 1_000_000)
    return Interval(microseconds=-ticks if found["sign"] == "-" else ticks)


def _amount(number: Decimal, unit: str) -> Interval:
    """A number of a unit. A fraction of years becomes months, a fraction of months days (of which
    30 are a month), and a fraction of days microseconds."""
    if unit in _MONTHS:
        months = number * _MONTHS[unit]
        whole = int(months) if _MONTHS[unit] == 1 else _rounded(months)
        rest = (months - whole) * 30 if _MONTHS[unit] == 1 else Decimal(0)
        return Interval(months=whole) + _amount(rest, "day")
    if unit in _DAYS:
        days = number * _DAYS[unit]
        return Interval(days=int(days), microseconds=_rounded((days - int(days)) * _DAY))
    if unit in _MICROSECONDS:
        return Interval(microseconds=_rounded(number * _MICROSECONDS[unit]))
    raise ValueError(f"{unit} is no unit of time")


def _rounded(number: Decimal) -> int:
    return int(number.to_integral_value(ROUND_HALF_EVEN))
