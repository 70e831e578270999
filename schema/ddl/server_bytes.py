"""Values in SQL Server's scripts that are written as bytes: CAST(0x… AS DateTime).

The bytes are those in which SQL Server stores a value of the type (MS-TDS, sections 2.2.5.5.1.7
and 2.2.5.5.1.8).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal
from types import MappingProxyType

_FIRST_DAY = dt.datetime(1900, 1, 1)
_TICKS_A_SECOND = 300
_DAY_BYTES, _ZONE_BYTES = 3, 2


def _datetime(data: bytes) -> str:
    """Days from 1900 and three-hundredths of a second, shown in milliseconds."""
    days = int.from_bytes(data[:4], "big", signed=True)
    ticks = int.from_bytes(data[4:], "big")
    milliseconds = round(Decimal(ticks * 1000) / _TICKS_A_SECOND)
    return str(_FIRST_DAY + dt.timedelta(days=days, milliseconds=milliseconds))


def _smalldatetime(data: bytes) -> str:
    """Days from 1900, and minutes."""
    days, minutes = int.from_bytes(data[:2], "big"), int.from_bytes(data[2:], "big")
    return str(_FIRST_DAY + dt.timedelta(days=days, minutes=minutes))


def _date(data: bytes) -> str:
    """Days from the year 1."""
    return str(dt.date.fromordinal(int.from_bytes(data, "little") + 1))


def _time(data: bytes) -> str:
    """The number of decimals of a second, and these units from midnight. Less than a microsecond
    is cut off."""
    microseconds = int.from_bytes(data[1:], "little") * 10**6 // 10 ** data[0]
    return str((dt.datetime.min + dt.timedelta(microseconds=microseconds)).time())


def _datetime2(data: bytes) -> str:
    return f"{_date(data[-_DAY_BYTES:])} {_time(data[:-_DAY_BYTES])}"


def _datetimeoffset(data: bytes) -> str:
    """A time in UTC, and the minutes of its zone."""
    return f"{_datetime2(data[:-_ZONE_BYTES])}+00:00"


def _decimal(data: bytes) -> str:
    """Precision, scale, a byte without meaning, sign, digits."""
    number = int.from_bytes(data[4:], "little")
    return str(Decimal(f"{'' if data[3] else '-'}{number}E-{data[1]}"))  # with all its digits


_TYPES: Mapping[str, Callable[[bytes], str]] = MappingProxyType(
    {
        "DATETIME": _datetime,
        "SMALLDATETIME": _smalldatetime,
        "DATE": _date,
        "TIME": _time,
        "DATETIME2": _datetime2,
        "DATETIMEOFFSET": _datetimeoffset,
        "DECIMAL": _decimal,
        "NUMERIC": _decimal,
    }
)


def value_of(data: bytes, type_: str) -> str | bytes:
    """The value of `data` cast to the type of this name, as text; the bytes for another type.
    Raises ValueError for bytes that are no value."""
    read = _TYPES.get(type_.upper())
    try:
        return data if read is None else read(data)
    except (IndexError, OverflowError) as error:
        raise ValueError(f"0x{data.hex()} is no {type_}") from error
