"""`to_char` of PostgreSQL for dates, times and intervals: `FMDay, DD Month YYYY`, `HH24:MI:SS`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass

from hornbeam_server.query.values.ordinals import ROMAN_MONTHS, ending
from hornbeam_server.query.values.time_words import DAYS, JULIAN, MONTHS, Node, Sort, nodes_of
from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.intervals import Interval, divided

_LONGEST_NAME = 9
_LONGEST_ROMAN = 4


@dataclass(frozen=True, slots=True)
class _Moment:
    """The parts of a date, a time or an interval. `day_of_year` of an interval is its number of
    days. `zone` is the name of the zone, empty without one."""

    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    microsecond: int
    day_of_year: int
    date: dt.date | None = None
    zone: str = ""

    @property
    def is_interval(self) -> bool:
        return self.date is None


def time_to_char(value: dt.date | dt.time | Interval, template: str) -> str | None:
    """A date, time or interval in the form of the template. A date is midnight in UTC, and a time
    is an interval. Raises TypeMismatch for a pattern that intervals do not have."""
    if not template:
        return None
    moment = _parts_of_interval(value) if isinstance(value, dt.time | Interval) else _parts(value)
    nodes = nodes_of(template)
    return "".join(
        _written(node, moment) if node.sort is Sort.PATTERN else node.text for node in nodes
    )


def _parts(value: dt.date) -> _Moment:
    time = value if isinstance(value, dt.datetime) else dt.datetime(1, 1, 1, tzinfo=dt.UTC)
    return _Moment(
        *(value.year, value.month, value.day),
        *(time.hour, time.minute, time.second, time.microsecond),
        day_of_year=value.timetuple().tm_yday,
        date=value,
        zone="" if time.tzinfo is None else "UTC",
    )


def _parts_of_interval(value: dt.time | Interval) -> _Moment:
    if isinstance(value, dt.time):
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        value = Interval(microseconds=seconds * 1_000_000 + value.microsecond)
    sign = -1 if value.microseconds < 0 else 1
    seconds, micros = divmod(abs(value.microseconds), 1_000_000)
    years, months = divided(value.months, 12)
    return _Moment(
        *(years, months, value.days),
        *(sign * (seconds // 3_600), sign * (seconds // 60 % 60), sign * (seconds % 60)),
        microsecond=sign * micros,
        day_of_year=value.months * 30 + value.days,
    )


def _written(node: Node, moment: _Moment) -> str:
    number = _NUMBERS.get(node.text)
    if number is not None:
        shown = number(node, moment)
        if not node.ending or not shown:
            return shown
        behind = ending(shown)
        return shown + (behind if node.ending == "th" else behind.upper())
    return _word(node, moment)


# ---------------------------------------------------------------- numbers


def _padded(node: Node, number: int, width: int) -> str:
    """A number with zeros before it; a negative one is wider by its sign."""
    return str(number) if node.fill else f"{number:0{width + (number < 0)}d}"


def _two(value: Callable[[_Moment], int]) -> Callable[[Node, _Moment], str]:
    return lambda node, moment: _padded(node, value(moment), 2)


def _fixed(width: int, value: Callable[[_Moment], int]) -> Callable[[Node, _Moment], str]:
    """A number whose sign counts to its width."""

    def shown(node: Node, moment: _Moment) -> str:
        number = value(moment)
        return str(number) if node.fill else f"{number:0{width}d}"

    return shown


def _fraction(digits: int) -> Callable[[Node, _Moment], str]:
    return lambda _, moment: f"{divided(moment.microsecond, 10 ** (6 - digits))[0]:0{digits}d}"


def _year(digits: int, *, iso: bool = False) -> Callable[[Node, _Moment], str]:
    def shown(node: Node, moment: _Moment) -> str:
        year = moment.year
        if iso:
            year = _day(node, moment).isocalendar().year
        number = year if digits == 4 else divided(year, 10**digits)[1]
        return _padded(node, number, digits)

    return shown


def _day(node: Node, moment: _Moment) -> dt.date:
    """The date. Raises TypeMismatch for an interval."""
    if moment.date is None:
        raise TypeMismatch(
            f"An interval has no {node.written} for to_char.", cure="Leave the pattern out."
        )
    return moment.date


def _twelve(moment: _Moment) -> int:
    return divided(moment.hour, 12)[1] or 12


def _century(node: Node, moment: _Moment) -> str:
    year = moment.year
    return _padded(node, divided(year, 100)[0] if moment.is_interval else (year + 99) // 100, 2)


def _thousands(_: Node, moment: _Moment) -> str:
    thousands, rest = divided(moment.year, 1000)
    return f"{thousands},{rest:03d}"


def _day_of_iso_year(node: Node, moment: _Moment) -> str:
    _, week, day = _day(node, moment).isocalendar()
    return _padded(node, (week - 1) * 7 + day, 3)


def _week(day: int) -> int:
    """The number of the week in which a day is, in a month or year."""
    return divided(day - 1, 7)[0] + 1


def _quarter(_: Node, moment: _Moment) -> str:
    return str((moment.month - 1) // 3 + 1) if moment.month else ""


def _seconds_of_day(_: Node, moment: _Moment) -> str:
    return str((moment.hour * 60 + moment.minute) * 60 + moment.second)


def _julian(node: Node, moment: _Moment) -> str:
    return str(_day(node, moment).toordinal() + JULIAN)


_NUMBERS: dict[str, Callable[[Node, _Moment], str]] = {
    "HH": _two(_twelve),
    "HH12": _two(_twelve),
    "HH24": _two(lambda moment: moment.hour),
    "MI": _two(lambda moment: moment.minute),
    "SS": _two(lambda moment: moment.second),
    "SSSS": _seconds_of_day,
    "SSSSS": _seconds_of_day,
    "MS": _fraction(3),
    "US": _fraction(6),
    **{f"FF{digits}": _fraction(digits) for digits in range(1, 7)},
    "Y,YYY": _thousands,
    **{"Y" * digits: _year(digits) for digits in range(1, 5)},
    **{"IYYY"[:digits]: _year(digits, iso=True) for digits in range(1, 5)},
    "MM": _two(lambda moment: moment.month),
    "DDD": _fixed(3, lambda moment: moment.day_of_year),
    "IDDD": _day_of_iso_year,
    "DD": _fixed(2, lambda moment: moment.day),
    "D": lambda node, moment: str(_day(node, moment).isoweekday() % 7 + 1),
    "ID": lambda node, moment: str(_day(node, moment).isoweekday()),
    "W": lambda _, moment: str(_week(moment.day)),
    "WW": _fixed(2, lambda moment: _week(moment.day_of_year)),
    "IW": lambda node, moment: _padded(node, _day(node, moment).isocalendar().week, 2),
    "CC": _century,
    "J": _julian,
    "Q": _quarter,
}

# ---------------------------------------------------------------- words


def _word(node: Node, moment: _Moment) -> str:
    match node.text:
        case "A.M." | "P.M." | "AM" | "PM":
            late = abs(moment.hour) % 24 >= 12
            return _cased(node, ("P" if late else "A") + node.text[1:])
        case "A.D." | "B.C." | "AD" | "BC":
            _day(node, moment)
            return _cased(node, "A.D." if "." in node.text else "AD")
        case "MONTH" | "MON":
            _day(node, moment)
            return _name(node, MONTHS[moment.month - 1], whole=node.text == "MONTH")
        case "DAY" | "DY":
            name = DAYS[_day(node, moment).isoweekday() % 7]
            return _name(node, name, whole=node.text == "DAY")
        case "RM":
            return _roman_month(node, moment)
        case "FX":
            return ""
    return _zone(node, moment)


def _cased(node: Node, text: str) -> str:
    """The text in the case of the pattern."""
    if node.written.islower():
        return text.lower()
    return text.upper() if node.written.isupper() else text


def _name(node: Node, name: str, *, whole: bool) -> str:
    """A name of nine characters, unless FM or TM leaves the blanks out; or its first three."""
    shown = _cased(node, name if whole else name[:3])
    return shown.ljust(_LONGEST_NAME) if whole and not (node.fill or node.local) else shown


def _roman_month(node: Node, moment: _Moment) -> str:
    """The month as a Roman numeral; the months of whole years of an interval are December."""
    if not moment.month and not moment.year:
        return ""
    number = moment.month or (12 if moment.year >= 0 else 1)
    shown = _cased(node, ROMAN_MONTHS[number - 1 if number > 0 else number + 12])
    return shown if node.fill else shown.ljust(_LONGEST_ROMAN)


def _zone(node: Node, moment: _Moment) -> str:
    """TZ, OF, TZH and TZM, in the only zone UTC."""
    _day(node, moment)
    match node.text:
        case "TZ":
            return _cased(node, moment.zone)
        case "OF":
            return "+0" if node.fill else "+00"
        case "TZH":
            return "+00"
    return "00"
