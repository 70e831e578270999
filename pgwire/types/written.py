"""Values in PostgreSQL's text and binary formats."""

from __future__ import annotations

import datetime as dt
import struct
import uuid
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any

from hornbeam import intervals as clients
from hornbeam_server.pgwire.types import oids
from hornbeam_server.pgwire.types.numerics import binary_of_numeric
from hornbeam_server.schema.arrays import text_of_elements
from hornbeam_server.schema.assignment import text_of
from hornbeam_server.schema.intervals import Interval, interval, of_timedelta
from hornbeam_server.schema.reals import text_of_real

Writer = Callable[[Any], bytes | None]
"""The bytes of a value; None is NULL."""
EPOCH = dt.datetime(2000, 1, 1)
EPOCH_DAY = EPOCH.date()
_MICROSECOND = dt.timedelta(microseconds=1)
JSONB_VERSION = b"\x01"


@lru_cache(maxsize=1_024)
def writers(types: tuple[int, ...], formats: tuple[int, ...]) -> tuple[Writer, ...]:
    """The writers of the columns with these types. `formats`: one for each, 1 is binary."""
    return tuple(
        [
            (_binary_writer if format_ else _text_writer)(oid)
            for oid, format_ in zip(types, formats, strict=True)
        ]
    )


def _text_writer(oid: int) -> Writer:
    if oid in oids.VECTORS:
        return lambda value: None if value is None else " ".join(map(str, value)).encode()
    real = oids.ELEMENTS.get(oid, oid) == oids.FLOAT4

    def write(value: Any) -> bytes | None:
        if value is None:
            return None
        if type(value) is str:
            return value.encode()
        return text_value(value, real=real).encode()

    return write


def text_value(value: Any, *, real: bool = False) -> str:
    """The text of a value that is not NULL. `real`: its floats are of 32 bits."""
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, list | tuple):
        return text_of_elements(
            [None if each is None else text_value(each, real=real) for each in value]
        )
    if real and isinstance(value, float):
        return text_of_real(value)
    found = text_of(of_server(value))
    return str(value) if found is None else found


def of_server(value: Any) -> Any:
    """A value of the client's types as one of the server's."""
    if isinstance(value, dt.timedelta):
        return of_timedelta(value)
    if isinstance(value, clients.Interval):
        return Interval(value.months, value.days, value.microseconds)
    return value


def _binary_writer(oid: int) -> Writer:
    if (element := oids.ELEMENTS.get(oid)) is not None:
        write = _array(element)
    elif (element := oids.VECTORS.get(oid)) is not None:
        write = _array(element, first=0)
    else:
        write = _BINARY.get(oid, _text)
    return lambda value: None if value is None else write(value)


def _array(element: int, first: int = 1) -> Callable[[Any], bytes]:
    """Arrays of one dimension: dimensions, has NULLs, type; for each dimension its length and the
    number of its first element; then the elements, each with its length."""
    write = _BINARY.get(element, _text)

    def written(value: Any) -> bytes:
        values = [None if each is None else write(each) for each in value]
        parts = [struct.pack("!iiI", 1 if values else 0, None in values, element)]
        if values:
            parts.append(struct.pack("!ii", len(values), first))
        for each in values:
            parts.append(struct.pack("!i", -1 if each is None else len(each)))
            parts.append(each or b"")
        return b"".join(parts)

    return written


def _text(value: Any) -> bytes:
    return value.encode() if type(value) is str else text_value(value).encode()


def _packed(form: str, of: Callable[[Any], Any]) -> Callable[[Any], bytes]:
    pack = struct.Struct(form).pack
    return lambda value: pack(of(value))


def _ticks(value: dt.datetime) -> int:
    """Microseconds since 2000."""
    moment = value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
    return (moment - EPOCH) // _MICROSECOND


def _midnight(value: dt.date) -> dt.datetime:
    if isinstance(value, dt.datetime):
        return value
    return dt.datetime.combine(value, dt.time())


def _ticks_of_day(value: dt.time) -> int:
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def _interval(value: Any) -> bytes:
    found = interval(value) if isinstance(value, str) else of_server(value)
    return struct.pack("!qii", found.microseconds, found.days, found.months)


def _numeric(value: Any) -> bytes:
    return binary_of_numeric(value if isinstance(value, Decimal) else Decimal(str(value)))


def _uuid(value: Any) -> bytes:
    return (value if isinstance(value, uuid.UUID) else uuid.UUID(str(value))).bytes


_BINARY: dict[int, Callable[[Any], bytes]] = {
    oids.BOOL: _packed("!?", bool),
    oids.BYTEA: bytes,
    oids.INT2: _packed("!h", int),
    oids.INT4: _packed("!i", int),
    oids.INT8: _packed("!q", int),
    oids.OID: _packed("!I", int),
    oids.XID: _packed("!I", int),
    oids.FLOAT4: _packed("!f", float),
    oids.FLOAT8: _packed("!d", float),
    oids.NUMERIC: _numeric,
    oids.DATE: _packed("!i", lambda value: (value - EPOCH_DAY).days),
    oids.TIME: _packed("!q", _ticks_of_day),
    oids.TIMESTAMP: _packed("!q", lambda value: _ticks(_midnight(value))),
    oids.TIMESTAMPTZ: _packed("!q", lambda value: _ticks(_midnight(value))),
    oids.INTERVAL: _interval,
    oids.UUID: _uuid,
    oids.JSONB: lambda value: JSONB_VERSION + _text(value),
}
