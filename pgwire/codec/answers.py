"""The messages that a server sends, as bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

_HEAD = struct.Struct("!ci")
_INT = struct.Struct("!i")
_SHORT = struct.Struct("!h")
_USHORT = struct.Struct("!H")
_FIELD = struct.Struct("!IhIhih")
_KEY = struct.Struct("!i")
NULL = b"\xff\xff\xff\xff"
"""The length that stands for NULL."""
SSL_YES, SSL_NO = b"S", b"N"


def message(type_: bytes, body: bytes = b"") -> bytes:
    return _HEAD.pack(type_, len(body) + 4) + body


def text(value: str) -> bytes:
    """Text that a zero byte ends. Zero bytes in it are left out."""
    return value.replace("\0", "").encode("utf-8", "replace") + b"\0"


PARSE_COMPLETE = message(b"1")
BIND_COMPLETE = message(b"2")
CLOSE_COMPLETE = message(b"3")
NO_DATA = message(b"n")
EMPTY_QUERY = message(b"I")
SUSPENDED = message(b"s")
COPY_DONE = message(b"c")
AUTHENTICATED = message(b"R", _INT.pack(0))
ASK_PASSWORD = message(b"R", _INT.pack(3))


class Field(NamedTuple):
    """A column of a result: its name, type, size of values in bytes (-1: it varies), and the
    modifier of the type (-1: none)."""

    name: str
    oid: int
    size: int
    modifier: int


def ask_sasl(mechanisms: Iterable[str]) -> bytes:
    return message(b"R", _INT.pack(10) + b"".join(map(text, mechanisms)) + b"\0")


def sasl_continue(data: bytes) -> bytes:
    return message(b"R", _INT.pack(11) + data)


def sasl_final(data: bytes) -> bytes:
    return message(b"R", _INT.pack(12) + data)


def negotiate(minor: int, unknown: Sequence[str]) -> bytes:
    """NegotiateProtocolVersion: the newest minor version, and options that are not known."""
    head = _INT.pack(minor) + _INT.pack(len(unknown))
    return message(b"v", head + b"".join(map(text, unknown)))


def parameter_status(name: str, value: str) -> bytes:
    return message(b"S", text(name) + text(value))


def backend_key(process: int, secret: bytes) -> bytes:
    return message(b"K", _KEY.pack(process) + secret)


def ready(status: bytes) -> bytes:
    """ReadyForQuery. `status`: I outside of a transaction, T inside, E in an aborted one."""
    return message(b"Z", status)


@lru_cache(maxsize=1_024)
def row_description(fields: tuple[Field, ...], formats: tuple[int, ...]) -> bytes:
    """RowDescription. `formats`: one for each field."""
    body = _USHORT.pack(len(fields)) + b"".join(
        text(each.name) + _FIELD.pack(0, 0, each.oid, each.size, each.modifier, format_)
        for each, format_ in zip(fields, formats, strict=True)
    )
    return message(b"T", body)


def parameter_description(oids: Sequence[int]) -> bytes:
    return message(b"t", _USHORT.pack(len(oids)) + b"".join(struct.pack("!I", o) for o in oids))


def data_row(values: Sequence[bytes | None]) -> bytes:
    """DataRow. None is NULL."""
    parts = [_USHORT.pack(len(values))]
    for value in values:
        if value is None:
            parts.append(NULL)
        else:
            parts += (_INT.pack(len(value)), value)
    return message(b"D", b"".join(parts))


def complete(tag: str) -> bytes:
    return message(b"C", text(tag))


def copy_out(columns: int, *, binary: bool) -> bytes:
    """CopyOutResponse."""
    return message(b"H", _copied(columns, binary=binary))


def copy_in(columns: int, *, binary: bool) -> bytes:
    """CopyInResponse."""
    return message(b"G", _copied(columns, binary=binary))


def _copied(columns: int, *, binary: bool) -> bytes:
    """The format of the whole, the number of columns, and the format of each."""
    return bytes([binary]) + _SHORT.pack(columns) + _SHORT.pack(binary) * columns


def copy_data(data: bytes) -> bytes:
    return message(b"d", data)


def error(fields: Mapping[str, str]) -> bytes:
    """ErrorResponse. `fields` by their codes: S severity, C SQLSTATE, M message, D detail, H hint,
    P position, and of an object that a row breaks s schema, t table, c column, d domain,
    n constraint."""
    return message(b"E", _fields(fields))


def notice(fields: Mapping[str, str]) -> bytes:
    return message(b"N", _fields(fields))


def _fields(fields: Mapping[str, str]) -> bytes:
    parts = [code.encode() + text(value) for code, value in fields.items() if value]
    return b"".join(parts) + b"\0"
