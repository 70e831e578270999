"""Row keys: tuples of values as bytes whose order is the order of the tuples.

The document of record, with type codes and test vectors, is `KEYS.md` beside this file. Every
part is self-delimiting, so of two full keys of one table neither is a proper prefix of the other,
and the bytes of leading parts are a prefix of exactly the keys that begin with these values.
A descending part is the complement of the ascending one; NULL is then last.
"""

from __future__ import annotations

import datetime as dt
import enum
import struct
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from hornbeam_server.schema.enumerations import Label, position_of
from hornbeam_server.schema.errors import Corruption
from hornbeam_server.schema.intervals import Interval, of_length
from hornbeam_server.schema.seconds import ticks_of, time_at
from hornbeam_server.schema.types import Kind, Value


class Code(enum.IntEnum):
    """First byte of a part. Codes order the types; a column holds only NULL and one type."""

    NULL = 0x01
    FALSE = 0x05
    TRUE = 0x06
    INTEGER = 0x14
    """0x14 is zero; 0x0c–0x13 and 0x15–0x1c are 8 to 1 bytes below and 1 to 8 bytes above it;
    0x0b and 0x1d are longer ones with a length byte."""
    DECIMAL = 0x21
    DOUBLE = 0x22
    TEXT = 0x30
    BYTES = 0x31
    DATE = 0x40
    TIMESTAMP = 0x41
    TIMESTAMPTZ = 0x42
    TIME = 0x43
    INTERVAL = 0x44
    UUID = 0x50


_NULL = bytes([Code.NULL])
_COMPLEMENT = bytes(255 - i for i in range(256))
_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_TIME_BYTES = 5
_DAYS = struct.Struct(">I")
_MICROS = struct.Struct(">Q")
_DOUBLE = struct.Struct(">d")
_BIAS32, _BIAS64 = 1 << 31, 1 << 63
_LARGEST_INTEGER = (1 << 64) - 1

Encode = Callable[[Any], bytes]
Decode = Callable[[bytes, int], tuple[Value, int]]
"""Takes bytes and the offset behind a type code (for an integer, see `_decode_integer`); returns
the value and the offset behind it."""


def _integer(value: int) -> bytes:
    if -128 <= value < 1024:
        return _SMALL_INTEGERS[value + 128]
    if 0 < value <= _LARGEST_INTEGER:  # most keys: the form of `_any_integer`, without its cases
        size = (value.bit_length() + 7) >> 3
        return _POSITIVE[size] + value.to_bytes(size)
    return _any_integer(value)


def _any_integer(value: int) -> bytes:
    magnitude = abs(value)
    size = (magnitude.bit_length() + 7) >> 3
    if size > 255:
        raise ValueError("an integer of more than 255 bytes cannot be a key")
    if value >= 0:
        head = _POSITIVE[size] if size <= 8 else bytes([Code.INTEGER + 9, size])
        return head + value.to_bytes(size)
    head = bytes([Code.INTEGER - size]) if size <= 8 else bytes([Code.INTEGER - 9, 255 - size])
    return head + ((1 << 8 * size) - 1 - magnitude).to_bytes(size)


_POSITIVE = [bytes([Code.INTEGER + size]) for size in range(9)]
_SMALL_INTEGERS = [_any_integer(value) for value in range(-128, 1024)]


def _decode_integer(data: bytes, offset: int) -> tuple[int, int]:
    """`offset` points at the code byte."""
    size = data[offset] - Code.INTEGER
    offset += 1
    if abs(size) == 9:
        size = data[offset] if size > 0 else data[offset] - 255
        offset += 1
    end = offset + abs(size)
    if end > len(data):
        raise ValueError("an integer is cut off")
    magnitude = int.from_bytes(data[offset:end])
    if size < 0:
        magnitude -= (1 << -8 * size) - 1
    return magnitude, end


def _decimal(value: Decimal) -> bytes:
    """Sign, exponent of the first digit, two digits per byte, a zero byte: the bytes have the order
    of the numbers."""
    sign, digits, exponent = value.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    stripped = text.rstrip("0")
    if not stripped:
        return _DECIMAL_ZERO
    assert isinstance(exponent, int)
    magnitude = len(text) + exponent  # value = 0.digits × 10^magnitude
    even = stripped + "0" * (len(stripped) % 2)
    body = _any_integer(magnitude)
    body += bytes(int(even[i : i + 2]) + 1 for i in range(0, len(even), 2)) + b"\0"
    return b"\x21\x01" + body.translate(_COMPLEMENT) if sign else b"\x21\x03" + body


_DECIMAL_ZERO = b"\x21\x02"


def _decode_decimal(data: bytes, offset: int) -> tuple[Decimal, int]:
    sign = data[offset]
    offset += 1
    if sign == 2:
        return Decimal(0), offset
    negative = sign == 1
    source = data[offset:].translate(_COMPLEMENT) if negative else data[offset:]
    magnitude, start = _decode_integer(source, 0)
    end = source.index(b"\0", start)
    pairs = source[start:end]
    if max(pairs, default=0) > 100:
        raise ValueError("a decimal digit pair above 99")
    digits = "".join([f"{byte - 1:02d}" for byte in pairs])
    number = Decimal((int(negative), tuple(map(int, digits)), magnitude - len(digits)))
    return number, offset + end + 1


def _double(value: float) -> bytes:
    (bits,) = _MICROS.unpack(_DOUBLE.pack(value + 0.0))  # -0.0 + 0.0 is 0.0
    bits = bits ^ (1 << 64) - 1 if bits >> 63 else bits | _BIAS64
    return b"\x22" + _MICROS.pack(bits)


def _decode_double(data: bytes, offset: int) -> tuple[float, int]:
    (bits,) = _MICROS.unpack_from(data, offset)
    bits = bits ^ _BIAS64 if bits >> 63 else bits ^ (1 << 64) - 1
    (value,) = _DOUBLE.unpack(_MICROS.pack(bits))
    return value, offset + 8


def _escaped(data: bytes) -> bytes:
    return data.replace(b"\0", b"\0\xff") + b"\0\x01" if b"\0" in data else data + b"\0\x01"


def _decode_escaped(data: bytes, offset: int) -> tuple[bytes, int]:
    end = offset
    while True:
        end = data.index(b"\0", end)
        if data[end + 1] == 1:
            return data[offset:end].replace(b"\0\xff", b"\0"), end + 2
        end += 2


def _text(value: str) -> bytes:
    return b"\x30" + _escaped(value.encode())


def _label(value: Label | str) -> bytes:
    """A value of an ENUM: its position as text, which may also be given."""
    return _text(position_of(value))


def _bytes(value: bytes) -> bytes:
    return b"\x31" + _escaped(value)


def _decode_text(data: bytes, offset: int) -> tuple[str, int]:
    raw, end = _decode_escaped(data, offset)
    return raw.decode(), end


def _boolean(value: bool) -> bytes:
    return b"\x06" if value else b"\x05"


def _date(value: dt.date) -> bytes:
    return b"\x40" + _DAYS.pack(value.toordinal() - _EPOCH_DAY + _BIAS32)


def _decode_date(data: bytes, offset: int) -> tuple[dt.date, int]:
    (days,) = _DAYS.unpack_from(data, offset)
    return dt.date.fromordinal(days - _BIAS32 + _EPOCH_DAY), offset + 4


def _timestamp(value: dt.datetime) -> bytes:
    return b"\x41" + _MICROS.pack((value - _EPOCH) // _MICROSECOND + _BIAS64)


def _timestamptz(value: dt.datetime) -> bytes:
    return b"\x42" + _MICROS.pack((value - _EPOCH_UTC) // _MICROSECOND + _BIAS64)


def _decode_timestamp(data: bytes, offset: int) -> tuple[dt.datetime, int]:
    (micros,) = _MICROS.unpack_from(data, offset)
    return _EPOCH + dt.timedelta(microseconds=micros - _BIAS64), offset + 8


def _decode_timestamptz(data: bytes, offset: int) -> tuple[dt.datetime, int]:
    (micros,) = _MICROS.unpack_from(data, offset)
    return _EPOCH_UTC + dt.timedelta(microseconds=micros - _BIAS64), offset + 8


def _time(value: dt.time) -> bytes:
    return b"\x43" + ticks_of(value).to_bytes(_TIME_BYTES)


def _decode_time(data: bytes, offset: int) -> tuple[dt.time, int]:
    end = offset + _TIME_BYTES
    if end > len(data):
        raise ValueError("a time is cut off")
    return time_at(int.from_bytes(data[offset:end])), end


def _interval(value: Interval) -> bytes:
    return b"\x44" + _any_integer(value.length)


def _decode_interval(data: bytes, offset: int) -> tuple[Interval, int]:
    length, end = _decode_integer(data, offset)
    return of_length(length), end


def _uuid(value: uuid.UUID) -> bytes:
    return b"\x50" + value.bytes


def _decode_uuid(data: bytes, offset: int) -> tuple[uuid.UUID, int]:
    return uuid.UUID(bytes=data[offset : offset + 16]), offset + 16


ENCODERS: dict[Kind, Encode] = {
    Kind.INTEGER: _integer,
    Kind.BIGINT: _integer,
    Kind.DECIMAL: _decimal,
    Kind.DOUBLE: _double,
    Kind.BOOLEAN: _boolean,
    Kind.TEXT: _text,
    Kind.BYTES: _bytes,
    Kind.DATE: _date,
    Kind.TIME: _time,
    Kind.TIMESTAMP: _timestamp,
    Kind.TIMESTAMPTZ: _timestamptz,
    Kind.INTERVAL: _interval,
    Kind.UUID: _uuid,
    Kind.JSON: _text,
    Kind.ENUM: _label,
}

_DECODERS: dict[int, Decode] = {
    Code.DECIMAL: _decode_decimal,
    Code.DOUBLE: _decode_double,
    Code.TEXT: _decode_text,
    Code.BYTES: _decode_escaped,
    Code.DATE: _decode_date,
    Code.TIME: _decode_time,
    Code.TIMESTAMP: _decode_timestamp,
    Code.TIMESTAMPTZ: _decode_timestamptz,
    Code.INTERVAL: _decode_interval,
    Code.UUID: _decode_uuid,
}


def part_encoder(kind: Kind, descending: bool = False, nullable: bool = True) -> Encode:
    """Encoder of one key part; takes None as well, unless the part is not `nullable`."""
    encode = ENCODERS[kind]
    if not descending:
        return (lambda value: _NULL if value is None else encode(value)) if nullable else encode
    return lambda value: (_NULL if value is None else encode(value)).translate(_COMPLEMENT)


def decode_parts(data: bytes, descending: Sequence[bool]) -> tuple[Value, ...]:
    """Values of a full key. Raises Corruption."""
    values: list[Value] = []
    offset = 0
    complement = data.translate(_COMPLEMENT) if any(descending) else data
    try:
        for down in descending:
            value, offset = _decode_part(complement if down else data, offset)
            values.append(value)
    except (IndexError, ValueError, KeyError, struct.error, OverflowError) as error:
        raise Corruption(f"A row key cannot be decoded: {data.hex()}: {error}") from None
    if offset != len(data):
        raise Corruption(f"A row key has {len(data) - offset} bytes too many: {data.hex()}")
    return tuple(values)


def _decode_part(data: bytes, offset: int) -> tuple[Value, int]:
    code = data[offset]
    if code == Code.NULL:
        return None, offset + 1
    if Code.FALSE <= code <= Code.TRUE:
        return code == Code.TRUE, offset + 1
    if abs(code - Code.INTEGER) <= 9:
        return _decode_integer(data, offset)
    return _DECODERS[code](data, offset + 1)


def successor(prefix: bytes) -> bytes | None:
    """The minimum bytes greater than all bytes that start with `prefix`; None if there are none."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None
