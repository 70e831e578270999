"""INTERVAL: its values, and PostgreSQL's text of them: `1 year 2 days 04:05:06`, `1-2`, `P1Y2D`,
`90 min ago`."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from functools import total_ordering

_WORDS = {
    "year": ("y", "yr", "yrs", "years"),
    "month": ("mon", "mons", "months"),
    "decade": ("dec", "decs", "decades"),
    "century": ("c", "cent", "centuries"),
    "millennium": ("mil", "mils", "millennia"),
    "day": ("d", "days"),
    "week": ("w", "weeks"),
    "hour": ("h", "hr", "hrs", "hours"),
    "minute": ("m", "min", "mins", "minutes"),
    "second": ("s", "sec", "secs", "seconds"),
    "millisecond": ("ms", "msec", "msecs", "milliseconds"),
    "microsecond": ("us", "usec", "usecs", "microseconds"),
}
"""The fields, each of which a text has at most once, with other words for them."""
_FIELDS = {word: field for field, words in _WORDS.items() for word in (field, *words)}
_MONTHS = {"year": 12, "month": 1, "decade": 120, "century": 1_200, "millennium": 12_000}
_DAYS = {"day": 1, "week": 7}
_MICROSECONDS = {
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
_CLOCK = frozenset({"hour", "minute", "second"})
_DAY = 86_400_000_000
LONGEST = ((1 << 63) - 1) // 1_000
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
    if max(abs(value.months), abs(value.days)) >= 1 << 31 or abs(value.microseconds) > LONGEST:
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
        field = _field(found, words)
        new = _fields(found, field)
        if new & fields:
            raise ValueError(f"it has {min(new & fields)} twice")
        fields |= new
        part = _of_part(found, field)
        yield -part if ago else part
        at = found.end()


def _field(found: re.Match[str], words: str) -> str:
    """The field of a number: `5` is 5 seconds, `3 4:05:06` and `3 4 hours` begin with 3 days. ""
    for other parts. Raises ValueError."""
    if found["number"] is None or found["unit"] is not None:
        return _named(found)
    if found.end() == len(words):
        return "second"
    following = _PART.match(words, found.end())
    if following is not None and "hour" in _fields(following, _named(following)):
        return "day"
    raise ValueError(f"{found['number']} has no unit of time")


def _named(found: re.Match[str]) -> str:
    """The field that the word behind a number names, or the word itself; "" if there is none."""
    unit = found["unit"] or ""
    return _FIELDS.get(unit, unit)


def _fields(found: re.Match[str], field: str) -> frozenset[str]:
    """The fields that a part sets."""
    if found["years"] is not None:
        return frozenset({"month"})
    return _CLOCK if found["hours"] is not None else frozenset({field})


def _of_part(found: re.Match[str], field: str) -> Interval:
    if found["years"] is not None:
        months = int("".join(found["years"].split())) * 12
        more = int(found["months"])
        return Interval(months - more if found["years"].startswith("-") else months + more)
    if found["hours"] is not None:
        return _clock(found)
    return _amount(Decimal("".join(found["number"].split())), field)


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


def _amount(number: Decimal, field: str) -> Interval:
    """A number of a field. A fraction of years becomes months, a fraction of months days (of which
    30 are a month), and a fraction of days microseconds."""
    if field in _MONTHS:
        months = number * _MONTHS[field]
        whole = int(months) if _MONTHS[field] == 1 else _rounded(months)
        rest = (months - whole) * 30 if _MONTHS[field] == 1 else Decimal(0)
        return Interval(months=whole) + _amount(rest, "day")
    if field in _DAYS:
        days = number * _DAYS[field]
        return Interval(days=int(days), microseconds=_rounded((days - int(days)) * _DAY))
    if field in _MICROSECONDS:
        return Interval(microseconds=_rounded(number * _MICROSECONDS[field]))
    raise ValueError(f"{field} is no unit of time")


def _rounded(number: Decimal) -> int:
    return int(number.to_integral_value(ROUND_HALF_EVEN))
