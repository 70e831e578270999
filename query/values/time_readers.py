"""`to_date` and `to_timestamp` of PostgreSQL: a date or a timestamp in a text, by a template."""

from __future__ import annotations

import calendar
import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from hornbeam_server.query.values.ordinals import ROMAN_MONTHS
from hornbeam_server.query.values.time_words import (
    DAYS,
    JULIAN,
    MONTHS,
    Node,
    Sort,
    is_separator,
    nodes_of,
)
from hornbeam_server.schema.errors import TypeMismatch

_INTEGER = re.compile(r"[ \t\n\v\f\r]*[+-]?[0-9]+")
_ISO_PATTERNS = frozenset({"IYYY", "IYY", "IY", "I", "IDDD", "ID", "IW"})
_GREGORIAN_PATTERNS = frozenset(
    {"Y,YYY", "YYYY", "YYY", "YY", "Y", "MONTH", "MON", "MM", "DDD", "DD", "D", "WW", "W", "CC"}
    | {"RM", "DAY", "DY", "Q"}
)


def to_timestamp(text: str, template: str) -> dt.datetime:
    """The timestamp with a zone in `text`; without one it is in UTC. Raises TypeMismatch."""
    read = _read(text, template)
    found = _timestamp(read).replace(tzinfo=dt.UTC)
    try:
        return found - dt.timedelta(minutes=read.ahead)
    except OverflowError:
        raise TypeMismatch(f"{text!r} is no timestamp in the years 1 to 9999.") from None


def to_date(text: str, template: str) -> dt.date:
    """The date in `text`. Raises TypeMismatch."""
    return _timestamp(_read(text, template)).date()


@dataclass(slots=True)
class _Read:
    """What has been read of a text. A number is 0 if its pattern did not occur. `skipped`: how many
    more blanks and signs of the text than of the template have been passed over. `exact`: the
    template has FX, which passes over no blanks."""

    text: str
    at: int = 0
    numbers: dict[str, int] = field(default_factory=dict)
    year_digits: int = 0
    twelve: bool = False
    late: bool = False
    before_christ: bool = False
    iso: bool | None = None
    sign: int = 0
    skipped: int = 0
    exact: bool = False

    def number(self, name: str) -> int:
        return self.numbers.get(name, 0)

    @property
    def ahead(self) -> int:
        """Minutes ahead of UTC."""
        return self.sign * (self.number("zone hour") * 60 + self.number("zone minute"))


# ---------------------------------------------------------------- reading


def _read(text: str, template: str) -> _Read:
    read = _Read(text)
    nodes = nodes_of(template)
    for i, node in enumerate(nodes):
        if read.at >= len(text):
            break
        if not read.exact and (node.sort is Sort.PATTERN or i == 0):
            _skip_blanks(read)
        if node.sort is not Sort.PATTERN:
            _skip_character(read, node)
            continue
        _note_calendar(read, node)
        _read_pattern(read, node, wide=node.fill or _ends(nodes, i))
        if not read.exact:
            read.skipped = 0
            _skip_blanks(read)
    return read


def _skip_blanks(read: _Read) -> None:
    while read.text[read.at : read.at + 1].isspace():
        read.at += 1
        read.skipped += 1


def _skip_character(read: _Read, node: Node) -> None:
    """Pass over what stands for a character of the template. A blank or a sign of the template
    stands for one blank or sign, or for nothing."""
    if read.exact:
        read.at += 1
    elif node.sort is Sort.CHARACTER:
        read.at += read.skipped <= 0
        read.skipped -= read.skipped > 0
    else:
        here = read.text[read.at : read.at + 1]
        found = here.isspace() or (here != "" and is_separator(here))
        read.at += found
        read.skipped += -1 + found


def _ends(nodes: Sequence[Node], i: int) -> bool:
    """Does a number end where the next part of the template begins, which is no digit?"""
    if nodes[i].ending or i + 1 == len(nodes):
        return True
    following = nodes[i + 1]
    if following.sort is Sort.PATTERN:
        return not following.is_number
    return not (following.text.isascii() and following.text.isdigit())


def _note_calendar(read: _Read, node: Node) -> None:
    iso = node.text in _ISO_PATTERNS
    if not iso and node.text not in _GREGORIAN_PATTERNS:
        return
    if read.iso not in (None, iso):
        raise TypeMismatch(
            "A template has parts of a date and of an ISO week.",
            cure="Write IYYY, IW and ID, or YYYY, MM and DD.",
        )
    read.iso = iso


_NUMBERS = {
    "HH": "hour", "HH12": "hour", "HH24": "hour", "MI": "minute", "SS": "second", "SSSS": "seconds",
    "SSSSS": "seconds", "MM": "month", "DDD": "day of year", "IDDD": "day of year", "DD": "day",
    "W": "week of month", "WW": "week", "IW": "week", "CC": "century", "J": "julian",
}  # fmt: skip
_YEARS = {"YYYY", "YYY", "YY", "Y", "IYYY", "IYY", "IY", "I"}


def _read_pattern(read: _Read, node: Node, *, wide: bool) -> None:
    pattern = node.text
    if pattern in _NUMBERS:
        _note(read, _NUMBERS[pattern], _integer(read, node, wide=wide)[0], node)
        read.twelve = read.twelve or pattern in ("HH", "HH12")
    elif pattern in _YEARS:
        _read_year(read, node, wide=wide)
    elif pattern in ("MS", "US") or pattern.startswith("FF"):
        _read_fraction(read, node, wide=wide)
    elif pattern in ("MONTH", "MON"):
        names = _names(MONTHS, whole=pattern == "MONTH")
        _note(read, "month", _word(read, node, names) + 1, node)
    elif pattern in ("DAY", "DY"):
        names = _names(DAYS, whole=pattern == "DAY")
        _note(read, "day of week", _word(read, node, names) + 1, node)
    else:
        _read_other(read, node, wide=wide)
    if node.ending:
        read.at += 2


def _names(names: Sequence[str], *, whole: bool) -> Sequence[str]:
    return names if whole else [name[:3] for name in names]


def _read_other(read: _Read, node: Node, *, wide: bool) -> None:
    match node.text:
        case "FX":
            read.exact = True
        case "Q":
            _integer(read, node, wide=wide)
        case "D" | "ID":
            number, _ = _integer(read, node, wide=wide)
            _note(read, "day of week", number if node.text == "D" else number % 7 + 1, node)
        case "Y,YYY":
            _read_thousands(read, node)
        case "RM":
            numerals = ROMAN_MONTHS[::-1]
            _note(read, "month", 12 - _word(read, node, numerals), node)
        case "AM" | "PM" | "A.M." | "P.M.":
            words = ("A.M.", "P.M.") if "." in node.text else ("AM", "PM")
            read.late, read.twelve = bool(_word(read, node, words)), True
        case "AD" | "BC" | "A.D." | "B.C.":
            words = ("A.D.", "B.C.") if "." in node.text else ("AD", "BC")
            read.before_christ = bool(_word(read, node, words))
        case "TZH":
            _read_zone_sign(read)
            _note(read, "zone hour", _integer(read, node, wide=wide, digits=2)[0], node)
        case "TZM":
            read.sign = read.sign or 1
            _note(read, "zone minute", _integer(read, node, wide=wide, digits=2)[0], node)
        case _:
            raise TypeMismatch(
                f"{node.written} is for to_char only.", cure="Leave it out, or write TZH."
            )


def _note(read: _Read, name: str, number: int, node: Node) -> None:
    """Raises TypeMismatch for two numbers of one part of a date."""
    if read.number(name) not in (0, number):
        raise TypeMismatch(
            f"{read.text!r} has two values for {name}, at {node.written}.",
            cure="Write each part of a date once in the template.",
        )
    read.numbers[name] = number


def _integer(read: _Read, node: Node, *, wide: bool, digits: int | None = None) -> tuple[int, int]:
    """The number at the place that is read, and how many characters it has. `wide`: it has any
    number of digits. Raises TypeMismatch."""
    begin, count = read.at, digits or node.digits
    if not wide:
        while read.text[read.at : read.at + 1].isspace():
            read.at += 1
        part = read.text[read.at : read.at + count]
        found = _INTEGER.match(part)
        if len(part) < count or (found is not None and found.end() < count):
            raise TypeMismatch(
                f"{part!r} is too short for {node.written}, which has {count} digits.",
                cure="Write FM before the pattern, or a sign behind it.",
            )
    else:
        found = _INTEGER.match(read.text, read.at)
    if found is None:
        rest = read.text[read.at : read.at + count]
        raise TypeMismatch(f"{rest!r} is no number for {node.written}.")
    read.at = found.end() if wide else read.at + found.end()
    number = int(found[0])
    if not -(1 << 31) <= number < 1 << 31:
        raise TypeMismatch(f"{number} is too large for {node.written}.")
    return number, read.at - begin


def _read_fraction(read: _Read, node: Node, *, wide: bool) -> None:
    """Read decimals of a second: 5, 50 and 500 mean half a second, and 005 means 5 ms."""
    number, length = _integer(read, node, wide=wide)
    name, places = ("milliseconds", 3) if node.text == "MS" else ("microseconds", 6)
    _note(read, name, number * 10 ** max(places - length, 0), node)


def _read_year(read: _Read, node: Node, *, wide: bool) -> None:
    number, length = _integer(read, node, wide=wide)
    digits = node.digits
    if digits < 4 and length < 4:
        number = _full_year(number)
    _note(read, "year", number, node)
    read.year_digits = digits


def _full_year(year: int) -> int:
    """The year nearest to 2020 with these last digits."""
    for before, first in ((70, 2000), (100, 1900), (520, 2000), (1000, 1000)):
        if year < before:
            return year + first
    return year


def _read_thousands(read: _Read, node: Node) -> None:
    found = re.compile(r"\s*([+-]?[0-9]+),\s*([0-9]{1,3})").match(read.text, read.at)
    if found is None:
        raise TypeMismatch(f"{read.text[read.at :]!r} is no year of the form Y,YYY.")
    _note(read, "year", int(found[1]) * 1000 + int(found[2]), node)
    read.year_digits = 4
    read.at = found.end()


def _word(read: _Read, node: Node, words: Sequence[str]) -> int:
    """The place of the word, among `words`, that the text has here. Raises TypeMismatch."""
    rest = read.text[read.at :].lower()
    for i, word in enumerate(words):
        if rest.startswith(word.lower()):
            read.at += len(word)
            return i
    raise TypeMismatch(f"{read.text[read.at :]!r} does not begin with a word for {node.written}.")


def _read_zone_sign(read: _Read) -> None:
    here = read.text[read.at : read.at + 1]
    if here and here in "+- ":
        read.sign = -1 if here == "-" else 1
        read.at += 1
    else:
        before = read.text[read.at - 1 : read.at] if read.at else ""
        read.sign = -1 if read.skipped > 0 and before == "-" else 1


# ---------------------------------------------------------------- the timestamp


def _timestamp(read: _Read) -> dt.datetime:
    """Raises TypeMismatch for a part that is out of range."""
    try:
        hour, minute, second = _clock(read)
        fraction = read.number("milliseconds") * 1000 + read.number("microseconds")
        clock = dt.time(hour, minute, second, fraction)
        if abs(read.number("zone hour")) > 15 or not 0 <= read.number("zone minute") < 60:
            raise ValueError
        return dt.datetime.combine(_date(read), clock)
    except (ValueError, OverflowError):
        raise TypeMismatch(
            f"{read.text!r} has a part of a date or time that is out of range.",
            cure="The years are 1 to 9999; write the year, and months, days and hours that exist.",
        ) from None


def _clock(read: _Read) -> tuple[int, int, int]:
    whole = read.number("seconds")
    hour = read.number("hour") or whole // 3600
    minute = read.number("minute") or whole % 3600 // 60
    second = read.number("second") or whole % 60
    if not read.twelve:
        return hour, minute, second
    if not 1 <= hour <= 12:
        raise TypeMismatch(f"{hour} is no hour of a clock of twelve hours.", cure="Write HH24.")
    return hour % 12 + (12 if read.late else 0), minute, second


def _date(read: _Read) -> dt.date:
    year = _year(read)
    if read.number("julian"):
        return dt.date.fromordinal(read.number("julian") - JULIAN)
    month, day = read.number("month") or 1, read.number("day") or 1
    day_of_year = read.number("day of year")
    if read.number("week of month"):
        day = (read.number("week of month") - 1) * 7 + 1
    if read.number("week") and read.iso:
        weekday = (read.number("day of week") - 2) % 7 + 1 if read.number("day of week") else 1
        first = dt.date.fromisocalendar(year, 1, weekday)
        return first + dt.timedelta(weeks=read.number("week") - 1)
    if read.number("week"):
        day_of_year = (read.number("week") - 1) * 7 + 1
    if day_of_year and (month <= 1 or day <= 1):
        if day_of_year > 366:
            raise ValueError
        first = dt.date.fromisocalendar(year, 1, 1) if read.iso else dt.date(year, 1, 1)
        if not read.iso and day_of_year == 366 and not calendar.isleap(year):
            raise ValueError
        return first + dt.timedelta(days=day_of_year - 1)
    return dt.date(year, month, day)


def _year(read: _Read) -> int:
    year, century = read.number("year"), read.number("century")
    if year and century and read.year_digits <= 2:
        last = year % 100
        year = (century - 1) * 100 + last if last else century * 100
    elif not year and century:
        year = (century - 1) * 100 + 1
    if read.before_christ:
        raise ValueError
    return year
