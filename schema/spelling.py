"""Conversion of text to values: the only reader of numbers, dates and other types, for all inputs.

It accepts the same text as the input functions of PostgreSQL 15 (16 also reads `0x10` and `1_000`),
in ASCII, with these exceptions:

* Dates are year, month and day as in ISO 8601 (`2024-1-5`, `2024/01/05` and `20240105` as well),
  times have colons, zones are offsets of hours, minutes and seconds (`+2`, `+0230`, `+02:30:15`),
  `Z`, `UTC` or `GMT`. Words (`today`, `infinity`; not `epoch`) and names of months and zones are
  refused.
* Text that would lose information is refused: a time of day for a DATE, a zone for a TIMESTAMP,
  a date for a TIME, more than six decimals of a second. There is no TIME '24:00:00'. A TIMESTAMP
  WITH TIME ZONE without a zone is in UTC, which is the time zone of every session.

DuckDB (with RE2) uses the same patterns for text in rows (`query.dialect.duckdb_sql`).
"""

from __future__ import annotations

import datetime as dt
import math
import re
import uuid
from collections.abc import Callable
from decimal import Decimal

from hornbeam_server.schema.reals import real_of
from hornbeam_server.schema.seconds import time_at


def _alone(pattern: str) -> str:
    """The pattern with optional white space around it, as PostgreSQL allows except for UUIDs."""
    return rf"[ \t\n\v\f\r]*(?:{pattern})[ \t\n\v\f\r]*"


_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_INFINITY = r"[+-]?[iI][nN][fF](?:[iI][nN][iI][tT][yY])?"
_NAN = r"[+-]?[nN][aA][nN]"
_DAY = r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}|[0-9]{4}/[0-9]{1,2}/[0-9]{1,2}|[0-9]{8}"
_CLOCK = r"[0-9]{1,2}:[0-9]{1,2}(?::[0-9]{1,2}(?:\.[0-9]{1,6}0*)?)?"
_EPOCH = "(?i:epoch)"
"""The day or moment 1970-01-01 00:00:00."""
_MIDNIGHT = r"0?0:0?0(?::0?0(?:\.0+)?)?"
UTC = "(?i:z|zulu|utc|gmt)"
_SIXTIETH = "[0-5]?[0-9]"
ZONE = (
    rf"{UTC}|[+-](?:0?[0-9]|1[0-5])(?::{_SIXTIETH}(?::{_SIXTIETH})?|[0-5][0-9])?"  # +2, +230, +2:30
)

INTEGER = _alone(r"[+-]?[0-9]+")
DECIMAL = _alone(_NUMBER)
DOUBLE = _alone(rf"{_NUMBER}|{_INFINITY}|{_NAN}")
TRUE = _alone(r"(?i:t|tr|tru|true|y|ye|yes|on|1)")
FALSE = _alone(r"(?i:f|fa|fal|fals|false|n|no|of|off|0)")
DATE = _alone(rf"({_DAY})(?:[T ] *{_MIDNIGHT})?|{_EPOCH}")
TIME = _alone(_CLOCK)
TIMESTAMP = _alone(rf"({_DAY})(?:[T ] *({_CLOCK}))?|{_EPOCH}")
TIMESTAMPTZ = _alone(rf"({_DAY})(?:[T ] *({_CLOCK}) *({ZONE})?)?|{_EPOCH}")
_DIGITS = r"(?:[0-9a-fA-F]{4}-?){7}[0-9a-fA-F]{4}"
UUID = rf"{_DIGITS}|[{{]{_DIGITS}[}}]"


def _matched(pattern: str, what: str) -> Callable[[str], re.Match[str]]:
    compiled = re.compile(pattern)

    def match(text: str) -> re.Match[str]:
        found = compiled.fullmatch(text)
        if found is None:
            raise ValueError(what)
        return found

    return match


def _of_moment(pattern: str, what: str) -> Callable[[str], re.Match[str]]:
    match = _matched(pattern, what)

    def finite(text: str) -> re.Match[str]:
        if _FOREVER.fullmatch(text):
            raise ValueError(NO_FOREVER)
        return match(text)

    return finite


_FOREVER = re.compile(_alone(r"[+-]?[iI][nN][fF][iI][nN][iI][tT][yY]"))
NO_FOREVER = "no date or timestamp is infinite, since years are 1 to 9999"
"""Why infinity is refused as a date or timestamp."""
_integer = _matched(INTEGER, "whole numbers are written in digits")
_NO_NUMBER = "numbers are written in digits, such as 12.5 or 1e3"
_number = re.compile(DECIMAL)
_double = _matched(DOUBLE, _NO_NUMBER)
_no_number = re.compile(_alone(rf"{_INFINITY}|{_NAN}"))
_uuid = _matched(UUID, "a UUID has 32 hexadecimal digits")
_true, _false = re.compile(TRUE), re.compile(FALSE)
_NO_DAY = "dates are written 2024-12-31"
_date = _of_moment(DATE, f"{_NO_DAY}, without a time of day")
_TIME = "2024-12-31 23:59:59.999999"
_time = _matched(TIME, "times are written 23:59:59.999999, without a date and a zone")
_timestamp = _of_moment(TIMESTAMP, f"timestamps are written {_TIME}, without a time zone")
_timestamptz = _of_moment(TIMESTAMPTZ, f"timestamps are written {_TIME}+00:00")


def integer(text: str) -> int:
    """A whole number. Like all functions of this module, raises ValueError with the reason."""
    written = _integer(text)[0].strip()
    digits = written.lstrip("+-0")
    if len(digits) > 40:
        raise ValueError("out of range")  # Python refuses to read too many digits
    return -int(digits or 0) if written[0] == "-" else int(digits or 0)


def decimal(text: str) -> Decimal:
    found = _number.fullmatch(text)
    if found is None:
        raise ValueError("it is not finite" if _no_number.fullmatch(text) else _NO_NUMBER)
    return Decimal(found[0].strip())


def number(text: str) -> Decimal:
    """A number; infinite or NaN only if the text says so."""
    return Decimal(_double(text)[0].strip())


def double(text: str) -> float:
    """A double; infinite or NaN only if the text says so."""
    written = _double(text)[0].strip()
    number = float(written)
    mantissa = written.lower().partition("e")[0]
    lost = number == 0 and mantissa.strip("+-0.") != ""
    if lost or (abs(number) == float("inf") and "i" not in mantissa):
        raise ValueError("out of range")
    return number


def real(text: str) -> float:
    """A REAL, as a double; infinite or NaN only if the text says so."""
    found = double(text)
    return real_of(Decimal(text.strip())) if math.isfinite(found) else found


def boolean(text: str) -> bool:
    if _true.fullmatch(text):
        return True
    if _false.fullmatch(text):
        return False
    raise ValueError("true or false is wanted")


def date(text: str) -> dt.date:
    return _day(_date(text)[1])


def time(text: str) -> dt.time:
    return time_at(_ticks(_time(text)[0].strip()))


def timestamp(text: str) -> dt.datetime:
    return _at(*_timestamp(text).groups())


def timestamptz(text: str) -> dt.datetime:
    day, clock, zone = _timestamptz(text).groups()
    return (_at(day, clock) - offset(zone or "Z")).replace(tzinfo=dt.UTC)


def _day(text: str | None) -> dt.date:
    """The day that is written; None: the word was `epoch`."""
    if text is None:
        return dt.date(1970, 1, 1)
    if text.isdigit():
        return dt.date(int(text[:4]), int(text[4:6]), int(text[6:]))
    return dt.date(*map(int, re.split("[-/]", text)))


def _at(day: str | None, clock: str | None) -> dt.datetime:
    midnight = dt.datetime.combine(_day(day), dt.time())
    if clock is None:
        return midnight
    try:
        return midnight + dt.timedelta(microseconds=_ticks(clock))
    except OverflowError:
        raise ValueError("years are 1 to 9999") from None


def _ticks(clock: str) -> int:
    """The microseconds since midnight; 24:00:00 is the last of a day."""
    whole, _, fraction = clock.partition(".")
    hours, minutes, seconds = (*map(int, whole.split(":")), 0)[:3]
    ticks = (hours * 3_600 + minutes * 60 + seconds) * 1_000_000
    ticks += int(fraction[:6].ljust(6, "0"))
    if minutes > 59 or seconds > 59 or ticks > 86_400_000_000:
        raise ValueError("there is no such time of day")
    return ticks


def offset(zone: str) -> dt.timedelta:
    """How far the clocks of a zone, which matches `ZONE`, are ahead of UTC."""
    if zone[0] not in "+-":
        return dt.timedelta()
    digits = zone[1:]
    run = ":" not in digits and len(digits) > 2
    fields = [digits[:-2], digits[-2:]] if run else digits.split(":")
    hours, minutes, seconds = (*map(int, fields), 0, 0)[:3]
    ahead = dt.timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return -ahead if zone[0] == "-" else ahead


def uuid_of(text: str) -> uuid.UUID:
    return uuid.UUID(_uuid(text)[0].replace("-", "").strip("{}"))


# ---------------------------------------------------------------- bytes

HEX = r"\\x(?:[ \t\n\v\f\r]*[0-9a-fA-F]{2})*[ \t\n\v\f\r]*"
_hex = _matched(HEX, r"behind \x there are pairs of hexadecimal digits")
_ESCAPE = re.compile(r"\\(?:\\|([0-3][0-7]{2}))")
_BAD_ESCAPE = r"a backslash is written \\ in bytes, and a byte \ooo (octal) or \xhh (all of them)"


def sql_bytes(text: str) -> bytes:
    r"""The bytes of an SQL text: `\xdead`, or text in UTF-8 with the escapes `\\` and `\ooo`."""
    if text.startswith(r"\x"):
        return bytes.fromhex(_hex(text)[0][2:])
    parts, end = [], 0
    for found in _ESCAPE.finditer(text):
        parts += [_plain(text[end : found.start()]), _escaped(found[1])]
        end = found.end()
    return b"".join([*parts, _plain(text[end:])])


def _plain(text: str) -> bytes:
    if "\\" in text:
        raise ValueError(_BAD_ESCAPE)
    return text.encode()


def _escaped(octal: str | None) -> bytes:
    return b"\\" if octal is None else bytes([int(octal, 8)])


def hexadecimal(value: bytes) -> str:
    r"""The bytes as SQL text, such as `\xdead`."""
    return rf"\x{value.hex()}"
