"""Frames of the members' protocol, and what they carry (PROTOCOL.md). No I/O.

Whatever the other side sends either decodes or raises `Refused`.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import struct
from typing import NamedTuple

from hornbeam_server.storage.ports import MESSAGE_BYTES

VERSION = 1
MAGIC = b"HBPEER"
NONCE_BYTES = 32
PROOF_BYTES = hashlib.sha256().digest_size

_LENGTH = struct.Struct(">I")
_HEAD = struct.Struct(">IB")
_NUMBER = struct.Struct(">Q")
_HELLO = struct.Struct(f">6sH{NONCE_BYTES}sQ")
_TEXT = struct.Struct(">H")

FRAME_BYTES = 1 + _NUMBER.size + MESSAGE_BYTES
"""Of kind and body; nothing longer is read."""
HANDSHAKE_BYTES = 4096
"""The same before the other side has proved who it is."""


class Refused(Exception):
    """What came is not what a member of this database would send. Says why."""


class Kind(enum.IntEnum):
    """What a frame is. The caller is who has connected, the listener the other one."""

    HELLO = 1
    """Caller: which database, who it is, its nonce."""
    CHALLENGE = 2
    """Listener: its nonce and its proof."""
    PROOF = 3
    """Caller: its proof."""
    WELCOME = 4
    """Listener: from now on messages are heard."""
    REFUSED = 5
    """Either: why it ends the connection."""
    MESSAGE = 6
    """Caller: a number and a message."""
    ANSWER = 7
    """Listener: the number of a message and the answer to it."""
    PING = 8
    """Either: nothing, but that it lives."""


class Side(bytes, enum.Enum):
    """Whose proof it is: neither can be used for the other."""

    CALLER = b"hornbeam peer caller\0"
    LISTENER = b"hornbeam peer listener\0"


def frame(kind: Kind, body: bytes = b"") -> bytes:
    return _HEAD.pack(1 + len(body), kind) + body


def numbered(kind: Kind, number: int, content: bytes) -> bytes:
    """The frame of a message or of an answer."""
    return _HEAD.pack(1 + _NUMBER.size + len(content), kind) + _NUMBER.pack(number) + content


def split_numbered(body: bytes) -> tuple[int, bytes]:
    """Raises Refused."""
    if len(body) < _NUMBER.size:
        raise Refused("a message without its number")
    return _NUMBER.unpack_from(body)[0], body[_NUMBER.size :]


class Frames:
    """Cuts what arrives into frames."""

    def __init__(self) -> None:
        self.longest = HANDSHAKE_BYTES
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> tuple[int, bytes] | None:
        """Kind and body; None until all of it is here. Raises Refused."""
        buffer = self._buffer
        if len(buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(buffer)
        if not 1 <= length <= self.longest:
            raise Refused(f"a frame of {length} bytes; 1 to {self.longest} are allowed")
        end = _LENGTH.size + length
        if len(buffer) < end:
            return None
        body = bytes(buffer[_HEAD.size : end])
        kind = buffer[_LENGTH.size]
        del buffer[:end]
        return kind, body


class Hello(NamedTuple):
    """How a caller introduces itself."""

    nonce: bytes
    number: int
    database: str
    name: str

    def encode(self) -> bytes:
        database, name = self.database.encode(), self.name.encode()
        fixed = _HELLO.pack(MAGIC, VERSION, self.nonce, self.number)
        return b"".join(
            (fixed, _TEXT.pack(len(database)), database, _TEXT.pack(len(name)), name)
        )  # fmt: skip

    @classmethod
    def decode(cls, body: bytes) -> Hello:
        """Raises Refused. Magic and version stand at the same place in every version."""
        if not body.startswith(MAGIC):
            raise Refused("it is no member")
        version = int.from_bytes(body[len(MAGIC) : len(MAGIC) + 2], "big")
        if version != VERSION:
            raise Refused(f"it speaks version {version} of the protocol, this member {VERSION}")
        try:
            _, _, nonce, number = _HELLO.unpack_from(body)
            database, at = _text(body, _HELLO.size)
            name, at = _text(body, at)
        except (struct.error, UnicodeDecodeError):
            raise Refused("its hello is damaged") from None
        if at != len(body):
            raise Refused("its hello is damaged")
        return cls(nonce, number, database, name)


def _text(body: bytes, at: int) -> tuple[str, int]:
    """A text and where it ends. Raises struct.error, UnicodeDecodeError."""
    (length,) = _TEXT.unpack_from(body, at)
    at += _TEXT.size
    return body[at : at + length].decode(), at + length


def proof(secret: bytes, side: Side, hello: bytes, nonce: bytes) -> bytes:
    """That `side` knows the secret, in this handshake: of this hello and the listener's nonce."""
    return hmac.digest(secret, side.value + hello + nonce, "sha256")


def require_proof(secret: bytes, side: Side, hello: bytes, nonce: bytes, given: bytes) -> None:
    """Raises Refused."""
    if not hmac.compare_digest(given, proof(secret, side, hello, nonce)):
        raise Refused("the node_secret of the two members is not the same")
