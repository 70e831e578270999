"""The messages that clients send, as frozen data.

`request_of` reads all of them but passwords, whose meaning depends on the authentication under way.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from hornbeam_server.pgwire.codec.frames import Frame, ProtocolViolation

PROTOCOL = 3
CANCEL, SSL, GSS = 80877102, 80877103, 80877104
"""Codes in the place of a version of the protocol."""
_INT = struct.Struct("!i")
_SHORT = struct.Struct("!H")


@dataclass(frozen=True, slots=True)
class Encrypt:
    """SSLRequest, or with `gss` GSSENCRequest."""

    gss: bool


@dataclass(frozen=True, slots=True)
class Cancel:
    """CancelRequest for the connection that has got these numbers."""

    process: int
    secret: bytes


@dataclass(frozen=True, slots=True)
class Start:
    """StartupMessage: the version of the protocol, and parameters by their names."""

    major: int
    minor: int
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Query:
    sql: str


@dataclass(frozen=True, slots=True)
class Parse:
    """`oids` has the types of the first parameters; 0 is a type that the client leaves open."""

    name: str
    sql: str
    oids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bind:
    """`formats` and `result_formats`: none (text), one for all, or one for each; 1 is binary."""

    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    result_formats: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Describe:
    """`portal`: is it about a portal? Else about a statement. `Close` has the same fields."""

    portal: bool
    name: str


@dataclass(frozen=True, slots=True)
class Close:
    portal: bool
    name: str


@dataclass(frozen=True, slots=True)
class Execute:
    """`max_rows` 0: all."""

    portal: str
    max_rows: int


@dataclass(frozen=True, slots=True)
class Sync: ...


@dataclass(frozen=True, slots=True)
class Flush: ...


@dataclass(frozen=True, slots=True)
class Terminate: ...


@dataclass(frozen=True, slots=True)
class Password:
    """PasswordMessage, SASLInitialResponse or SASLResponse."""

    body: bytes


@dataclass(frozen=True, slots=True)
class CopyData:
    data: bytes


@dataclass(frozen=True, slots=True)
class CopyDone: ...


@dataclass(frozen=True, slots=True)
class CopyFail:
    reason: str


Opening = Encrypt | Cancel | Start
Request = (
    Query | Parse | Bind | Describe | Close | Execute | Sync | Flush | Terminate | Password
    | CopyData | CopyDone | CopyFail
)  # fmt: skip


class Reader:
    """Reads the parts of a body. Raises ProtocolViolation for a body that ends too early, or that
    has more than `end` expects."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def int32(self) -> int:
        found: int = _INT.unpack(self.take(4))[0]
        return found

    def uint16(self) -> int:
        found: int = _SHORT.unpack(self.take(2))[0]
        return found

    def uint16s(self) -> tuple[int, ...]:
        """Numbers behind their number."""
        count = self.uint16()
        return struct.unpack(f"!{count}H", self.take(2 * count)) if count else ()

    def take(self, count: int) -> bytes:
        end = self._at + count
        if count < 0 or end > len(self._body):
            raise ProtocolViolation("A message ends within one of its fields.")
        found = self._body[self._at : end]
        self._at = end
        return found

    def text(self) -> str:
        """Text that a zero byte ends."""
        end = self._body.find(b"\0", self._at)
        if end < 0:
            raise ProtocolViolation("A text in a message has no end.")
        found = self.take(end - self._at)
        self._at = end + 1
        return decoded(found)

    def rest(self) -> bytes:
        return self.take(len(self._body) - self._at)

    def end(self) -> None:
        if self._at != len(self._body):
            raise ProtocolViolation("A message has more bytes than its fields.")


def decoded(text: bytes) -> str:
    """Text in UTF-8. Raises ProtocolViolation."""
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise ProtocolViolation(f"A text is not in UTF-8: {error.reason}.") from None


def opening_of(body: bytes) -> Opening:
    """The meaning of a message without a type. Raises ProtocolViolation."""
    reader = Reader(body)
    code = reader.int32()
    if code in {SSL, GSS}:
        reader.end()
        return Encrypt(code == GSS)
    if code == CANCEL:
        return Cancel(reader.int32(), reader.rest())
    parameters = {}
    while name := reader.text():
        parameters[name] = reader.text()
    reader.end()
    return Start(code >> 16, code & 0xFFFF, parameters)


def request_of(frame: Frame) -> Request:
    """The meaning of a message with a type. Raises ProtocolViolation."""
    if frame.type in _REPEATED and len(frame.body) <= _REPEATED_BYTES:
        return _known(frame)
    return _read(frame)


def _read(frame: Frame) -> Request:
    read = _READERS.get(frame.type)
    if read is None:
        raise ProtocolViolation(f"There is no message of the type {frame.type!r}.")
    reader = Reader(frame.body)
    found = read(reader)
    reader.end()
    return found


def _parse(reader: Reader) -> Parse:
    name, sql, count = reader.text(), reader.text(), reader.uint16()
    return Parse(name, sql, tuple([reader.int32() for _ in range(count)]))


def _bind(reader: Reader) -> Bind:
    portal, statement, formats = reader.text(), reader.text(), _formats(reader)
    values = tuple([_value(reader) for _ in range(reader.uint16())])
    if len(formats) > 1 and len(formats) != len(values):
        raise ProtocolViolation("Bind has another number of formats than of values.")
    return Bind(portal, statement, formats, values, _formats(reader))


def _formats(reader: Reader) -> tuple[int, ...]:
    found = reader.uint16s()
    if found and max(found) > 1:
        raise ProtocolViolation("A format is 0 or 1.")
    return found


def _value(reader: Reader) -> bytes | None:
    length = reader.int32()
    return None if length == -1 else reader.take(length)


def _is_portal(reader: Reader) -> bool:
    kind = reader.take(1)
    if kind not in {b"P", b"S"}:
        raise ProtocolViolation("Describe and Close are about a statement or a portal.")
    return kind == b"P"


_REPEATED, _REPEATED_BYTES = frozenset({b"D", b"E", b"S", b"H"}), 64
"""Types of messages that clients send with the same few bytes again and again."""
_known = lru_cache(maxsize=1_024)(_read)
_READERS: dict[bytes, Callable[[Reader], Request]] = {
    b"Q": lambda reader: Query(reader.text()),
    b"P": _parse,
    b"B": _bind,
    b"D": lambda reader: Describe(_is_portal(reader), reader.text()),
    b"C": lambda reader: Close(_is_portal(reader), reader.text()),
    b"E": lambda reader: Execute(reader.text(), reader.int32()),
    b"S": lambda _: Sync(),
    b"H": lambda _: Flush(),
    b"X": lambda _: Terminate(),
    b"p": lambda reader: Password(reader.rest()),
    b"d": lambda reader: CopyData(reader.rest()),
    b"c": lambda _: CopyDone(),
    b"f": lambda reader: CopyFail(reader.text()),
}
