"""Parameters of clients, in PostgreSQL's text and binary formats, as values of Python."""

from __future__ import annotations

import datetime as dt
import struct
import uuid
from collections.abc import Callable
from typing import Any

from hornbeam.intervals import Interval
from hornbeam_server.pgwire.types import oids
from hornbeam_server.pgwire.types.numerics import numeric_of_binary
from hornbeam_server.pgwire.types.written import EPOCH, EPOCH_DAY, JSONB_VERSION
from hornbeam_server.schema import spelling
from hornbeam_server.schema.arrays import elements_of
from hornbeam_server.schema.intervals import interval

_LAST_TICK = 86_400_000_000
_MAX_ELEMENTS = 1_000_000
_ENDLESS_DAYS = frozenset({-(1 << 31), (1 << 31) - 1})
_ENDLESS_TICKS = frozenset({-(1 << 63), (1 << 63) - 1})
"""The days and the microseconds that mean infinity."""


class BadValue(Exception):
    """The bytes are no value of the type. The message says why."""


def value_of(data: bytes | None, oid: int, format_: int) -> Any:
    """The value of a parameter. Its type is 0 or not known: text, which is read as the type that
    the statement needs. Raises BadValue."""
    if data is None:
        return None
    element = oids.ELEMENTS.get(oid)
    try:
        if format_:
            return _array(data, element) if element is not None else _binary(oid)(data)
        text = data.decode()
        if "\0" in text:
            raise ValueError("text has no zero byte")
        if element is not None:
            read = _TEXT.get(element, str)
            return [None if each is None else read(each) for each in elements_of(text)]
        return _TEXT.get(oid, str)(text)
    except (ValueError, struct.error, ArithmeticError) as error:
        raise BadValue(str(error)) from None


def _binary(oid: int) -> Callable[[bytes], Any]:
    return _BINARY.get(oid, bytes.decode)


def _array(data: bytes, element: int) -> list[Any]:
    dimensions, _, sent = struct.unpack_from("!iiI", data)
    if sent != element:
        raise ValueError("the elements of an array have another type than the array")
    if not dimensions:
        return []
    if dimensions != 1:
        raise ValueError("an array has one dimension")
    count, _ = struct.unpack_from("!ii", data, 12)
    if not 0 <= count <= _MAX_ELEMENTS:
        raise ValueError(f"an array has at most {_MAX_ELEMENTS} elements")
    read, values, at = _binary(element), list[Any](), 20
    for _ in range(count):
        (length,) = struct.unpack_from("!i", data, at)
        at += 4
        if length == -1:
            values.append(None)
            continue
        if length < 0 or at + length > len(data):
            raise ValueError("an array ends within an element")
        values.append(read(data[at : at + length]))
        at += length
    if at != len(data):
        raise ValueError("an array has more bytes than its elements")
    return values


def _unpacked(form: str, to: Callable[[Any], Any] = lambda value: value) -> Callable[[bytes], Any]:
    unpack = struct.Struct(form).unpack
    return lambda data: to(unpack(data)[0])


def _day(days: int) -> dt.date:
    if days in _ENDLESS_DAYS:
        raise ValueError(spelling.NO_FOREVER)
    return EPOCH_DAY + dt.timedelta(days)


def _moment(ticks: int) -> dt.datetime:
    if ticks in _ENDLESS_TICKS:
        raise ValueError(spelling.NO_FOREVER)
    return EPOCH + dt.timedelta(microseconds=ticks)


def _time(ticks: int) -> dt.time:
    if not 0 <= ticks < _LAST_TICK:
        raise ValueError("there is no such time of day")
    return (EPOCH + dt.timedelta(microseconds=ticks)).time()


def _interval(data: bytes) -> Interval:
    microseconds, days, months = struct.unpack("!qii", data)
    return Interval(months, days, microseconds)


def _interval_of_text(text: str) -> Interval:
    found = interval(text)
    return Interval(found.months, found.days, found.microseconds)


def _jsonb(data: bytes) -> str:
    if data[:1] != JSONB_VERSION:
        raise ValueError("this version of JSONB is not known")
    return data[1:].decode()


_BINARY: dict[int, Callable[[bytes], Any]] = {
    oids.BOOL: _unpacked("!?"),
    oids.BYTEA: bytes,
    oids.INT2: _unpacked("!h"),
    oids.INT4: _unpacked("!i"),
    oids.INT8: _unpacked("!q"),
    oids.OID: _unpacked("!I"),
    oids.FLOAT4: _unpacked("!f"),
    oids.FLOAT8: _unpacked("!d"),
    oids.NUMERIC: numeric_of_binary,
    oids.DATE: _unpacked("!i", _day),
    oids.TIME: _unpacked("!q", _time),
    oids.TIMESTAMP: _unpacked("!q", _moment),
    oids.TIMESTAMPTZ: _unpacked("!q", lambda ticks: _moment(ticks).replace(tzinfo=dt.UTC)),
    oids.INTERVAL: _interval,
    oids.UUID: lambda data: uuid.UUID(bytes=data),
    oids.JSONB: _jsonb,
}
_TEXT: dict[int, Callable[[str], Any]] = {
    oids.BOOL: spelling.boolean,
    oids.BYTEA: spelling.sql_bytes,
    oids.INT2: spelling.integer,
    oids.INT4: spelling.integer,
    oids.INT8: spelling.integer,
    oids.OID: spelling.integer,
    oids.FLOAT4: spelling.real,
    oids.FLOAT8: spelling.double,
    oids.NUMERIC: spelling.number,
    oids.DATE: spelling.date,
    oids.TIME: spelling.time,
    oids.TIMESTAMP: spelling.timestamp,
    oids.TIMESTAMPTZ: spelling.timestamptz,
    oids.INTERVAL: _interval_of_text,
    oids.UUID: spelling.uuid_of,
}
"""Text of other types is the value itself."""
