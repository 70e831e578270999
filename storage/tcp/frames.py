"""Frames of the members' protocol, and their content (PROTOCOL.md). No I/O.

All bytes that the other side sends are decoded, or raise `Refused`.
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
"""Maximum bytes of kind and body; a longer frame is refused."""
HANDSHAKE_BYTES = 4096
"""The maximum before the other side has proved its identity."""


class Refused(Exception):
    """The other side sent what no member of this database sends. The message is the reason."""


class Kind(enum.IntEnum):
    """Kinds of frames. The caller is the side that connects, the listener the other side."""

    HELLO = 1
    """Caller: the database, the caller's name, the number of the connection, the caller's nonce."""
    CHALLENGE = 2
    """Listener: its nonce and its proof."""
    PROOF = 3
    """Caller: its proof."""
    WELCOME = 4
    """Listener: it accepts messages from now on."""
    REFUSED = 5
    """Either: the reason why it ends the connection."""
    MESSAGE = 6
    """Caller: a number and a message."""
    ANSWER = 7
    """Listener: the number of a message and the answer to it."""
    PING = 8
    """Either: a sign of life, without content."""


class Side(bytes, enum.Enum):
    """The side that gives a proof. The proof of one side is no proof of the other."""

    CALLER = b"hornbeam peer caller\0"
    LISTENER = b"hornbeam peer listener\0"


def frame(kind: Kind, body: bytes = b"") -> bytes:
    return _HEAD.pack(1 + len(body), kind) + body


def numbered(kind: Kind, number: int, content: bytes) -> bytes:
    """The frame of a message or of an answer."""
    return _HEAD.pack(1 + _NUMBER.size + len(content), kind) + _NUMBER.pack(number) + content


def split_numbered(body: bytes) -> tuple[int, bytes]:
    """Number and content in the body of a message or of an answer. Raises Refused."""
    if len(body) < _NUMBER.size:
        raise Refused("a message without its number")
    return _NUMBER.unpack_from(body)[0], body[_NUMBER.size :]


class Frames:
    """Cuts received bytes into frames."""

    def __init__(self) -> None:
        self.longest = HANDSHAKE_BYTES
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> tuple[int, bytes] | None:
        """Kind and body of the next frame; None until it is complete. Raises Refused."""
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
    """The body of a HELLO: a caller introduces itself."""

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
        """Raises Refused. Magic and version are at the same place in every version."""
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
    """The text at `at`, and the offset behind it. Raises struct.error, UnicodeDecodeError."""
    (length,) = _TEXT.unpack_from(body, at)
    at += _TEXT.size
    return body[at : at + length].decode(), at + length


def proof(secret: bytes, side: Side, hello: bytes, nonce: bytes) -> bytes:
    """A proof that `side` knows the secret, valid only for this hello and this nonce of the
    listener."""
    return hmac.digest(secret, side.value + hello + nonce, "sha256")


def require_proof(secret: bytes, side: Side, hello: bytes, nonce: bytes, given: bytes) -> None:
    """Raises Refused unless `given` is the proof of `side`."""
    if not hmac.compare_digest(given, proof(secret, side, hello, nonce)):
        raise Refused("the node_secret of the two members is not the same")
