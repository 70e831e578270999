"""Parsing of text literals as values of the type that they are compared with.

A text compared with a column takes the column's type, as an untyped literal does in PostgreSQL.
Spellings that `schema.spelling` parses mean the same here. A comparison accepts more of
PostgreSQL's spellings of dates and times than an assignment, since no inexact value is stored: it
ignores the time after a date and the zone after a timestamp, rounds fractions of a second to six
digits, and accepts times beyond Python's range. Spellings that depend on a setting or on the clock
are refused: month names, `1/2/2024`, `now`, `today`.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hornbeam_server.schema import spelling
from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.intervals import interval
from hornbeam_server.schema.types import LONG, MAX_TEXT, REAL, UNORDERED, ColumnType, Kind

_MOMENT = re.compile(
    r"\s*(?P<year>\d{4,6})(?P<sign>[-/])(?P<month>\d{1,2})(?P=sign)(?P<day>\d{1,2})"
    r"(?:(?:T|\s+)(?P<hour>\d{1,2}):(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?P<part>\.\d*)?)?"
    rf"\s*(?P<zone>{spelling.ZONE})?)?\s*",
    re.ASCII | re.IGNORECASE,
)
_RUN_OF_DATE = re.compile(r"^(\s*\d{4,6})(\d\d)(\d\d)(?!\d)", re.ASCII)
_RUN_OF_TIME = re.compile(r"([T\s])(\d\d)(\d\d)(\d\d)(?!\d)", re.ASCII | re.IGNORECASE)
_FOREVER = re.compile(r"\s*(?P<sign>[+-]?)infinity\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Beyond:
    """A date or time outside Python's range: before all values, or after them."""

    before: bool


def read_text(type_: ColumnType, text: str) -> Any:
    """`text` as a value of the type's kind. A number is not limited to the type's precision and
    scale; a date or time may be `Beyond`. Raises TypeMismatch."""
    try:
        if len(text) > MAX_TEXT and type_.kind not in LONG:
            raise ValueError
        if type_ == REAL:
            return spelling.real(text)
        return type_.coerce(text) if type_.kind in _COERCED else _READERS[type_.kind](text)
    except (ValueError, ArithmeticError) as error:
        reason = f": {error}" if isinstance(error, ValueError) and str(error) else ""
        shown = text if len(text) <= 60 else text[:57] + "..."
        raise TypeMismatch(
            f"The text {shown!r} is not a value of type {type_.sql()}{reason}.",
            cure=_CURES.get(type_.kind, ""),
            type=type_.sql(),
        ) from None


def _whole(text: str, bits: int) -> int:
    number = spelling.integer(text)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError
    return number


def _parts(text: str) -> tuple[dt.datetime | Beyond, dt.timedelta, dt.timedelta]:
    """(day, time of day, offset of the zone from UTC; positive is ahead of UTC)."""
    if match := _FOREVER.fullmatch(text):
        return Beyond(match["sign"] == "-"), dt.timedelta(), dt.timedelta()
    parted = _RUN_OF_TIME.sub(r"\1\2:\3:\4", _RUN_OF_DATE.sub(r"\1-\2-\3", text))
    match = _MOMENT.fullmatch(parted)
    if match is None:
        raise ValueError
    year = int(match["year"])
    within = year if year <= dt.MAXYEAR else 2000 + year % 400  # a year of the same length
    day = dt.datetime(within, int(match["month"]), int(match["day"]))
    after, ahead = _time_of_day(match), spelling.offset(match["zone"] or "Z")
    return (day if year <= dt.MAXYEAR else Beyond(before=False)), after, ahead


def _time_of_day(match: re.Match[str]) -> dt.timedelta:
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    part = match["part"] or "."
    micros = round(Decimal(f"0{part}0") * 1_000_000)
    if minute > 59 or second > 60 or hour > 24 or (hour == 24 and (minute or second or micros)):
        raise ValueError
    return dt.timedelta(hours=hour, minutes=minute, seconds=second, microseconds=micros)


def _date(text: str) -> dt.date | Beyond:
    """The date in `text`; like PostgreSQL, ignore the time after it."""
    with suppress(ValueError):
        return spelling.date(text)
    day, _, _ = _parts(text)
    return day if isinstance(day, Beyond) else day.date()


def _timestamp(text: str) -> dt.datetime | Beyond:
    """The timestamp in `text`; like PostgreSQL, ignore its zone."""
    with suppress(ValueError):
        return spelling.timestamp(text)
    day, after, _ = _parts(text)
    return _moved(day, after)


def _timestamptz(text: str) -> dt.datetime | Beyond:
    """The instant in `text`; without a zone it is in UTC, the session's zone."""
    with suppress(ValueError, OverflowError):
        return spelling.timestamptz(text)
    day, after, ahead = _parts(text)
    found = _moved(day, after - ahead)
    return found if isinstance(found, Beyond) else found.replace(tzinfo=dt.UTC)


def _moved(day: dt.datetime | Beyond, by: dt.timedelta) -> dt.datetime | Beyond:
    if isinstance(day, Beyond):
        return day
    try:
        return day + by
    except OverflowError:
        return Beyond(before=by < dt.timedelta())


_COERCED = UNORDERED | {Kind.ENUM}
_READERS: dict[Kind, Callable[[str], Any]] = {
    Kind.INTEGER: lambda text: _whole(text, 32),
    Kind.BIGINT: lambda text: _whole(text, 64),
    Kind.DECIMAL: spelling.number,
    Kind.DOUBLE: spelling.double,
    Kind.BOOLEAN: spelling.boolean,
    Kind.TEXT: ColumnType(Kind.TEXT).coerce,
    Kind.BYTES: spelling.sql_bytes,
    Kind.DATE: _date,
    Kind.TIME: spelling.time,
    Kind.TIMESTAMP: _timestamp,
    Kind.TIMESTAMPTZ: _timestamptz,
    Kind.INTERVAL: interval,
    Kind.UUID: spelling.uuid_of,
}
_CURES = {
    Kind.INTEGER: "Write a whole number in range; other numbers without quotes.",
    Kind.BIGINT: "Write a whole number in range; other numbers without quotes.",
    Kind.BOOLEAN: "Write true or false.",
    Kind.BYTES: r"Write bytes as '\x6162'.",
    Kind.DATE: "Write a date as 2024-01-31.",
    Kind.TIME: "Write a time as 12:00:00.",
    Kind.TIMESTAMP: "Write a timestamp as 2024-01-31 12:00:00.",
    Kind.TIMESTAMPTZ: "Write a timestamp as 2024-01-31 12:00:00+00.",
    Kind.INTERVAL: "Write an interval as 1 day 02:30:00.",
}
