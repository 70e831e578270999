"""Frames: how the bytes of a connection are divided into messages.

A message is a type (1 byte), a length (4 bytes, which counts itself and the body), and the body.
The first messages of a connection, until one starts the session, have no type.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

_LENGTH = struct.Struct("!i")
START = b""
"""The type of messages that have none."""
MAX_START = 10_000
"""Maximum bytes of a message without a type, as in PostgreSQL."""


class ProtocolViolation(Exception):
    """The bytes are no messages of the protocol. The connection cannot go on: nothing says where
    the next message begins."""


class Frame(NamedTuple):
    """A message: its type, `START` for one without a type, and its body."""

    type: bytes
    body: bytes


class Frames:
    """The frames in the bytes that `feed` gets. It holds at most one frame that is not complete,
    and what was fed at once."""

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes`: maximum bytes of a body."""
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._at = 0
        self.started = False
        """Do messages have types now?"""

    def feed(self, data: bytes) -> None:
        if self._at:
            del self._buffer[: self._at]
            self._at = 0
        self._buffer += data

    @property
    def waiting(self) -> int:
        """Number of bytes that no frame has taken."""
        return len(self._buffer) - self._at

    @property
    def first(self) -> bytes:
        """The first byte that no frame has taken; empty if there is none."""
        return bytes(self._buffer[self._at : self._at + 1])

    def take(self) -> bytes:
        """Take all bytes that no frame has taken."""
        taken = bytes(self._buffer[self._at :])
        self._buffer.clear()
        self._at = 0
        return taken

    def ahead(self, number: int) -> bytes | None:
        """The type of the next frame (1), or of the one behind it (2), once the session has
        started; None while it has not arrived."""
        at = self._at
        for _ in range(number - 1):
            if len(self._buffer) < at + 5:
                return None
            at += 1 + _LENGTH.unpack_from(self._buffer, at + 1)[0]
        return bytes(self._buffer[at : at + 1]) or None

    def next(self) -> Frame | None:
        """Take the next frame; None while it is not complete. Raises ProtocolViolation."""
        head = 5 if self.started else 4
        buffer, at = self._buffer, self._at
        if len(buffer) < at + head:
            return None
        (length,) = _LENGTH.unpack_from(buffer, at + head - 4)
        limit = self._max_bytes if self.started else MAX_START
        if not (4 if self.started else 8) <= length <= limit + 4:
            raise ProtocolViolation(f"A message has the length {length}; {limit} are allowed.")
        end = at + head - 4 + length
        if len(buffer) < end:
            return None
        type_, body = bytes(buffer[at : at + head - 4]), bytes(buffer[at + head : end])
        self._at = end
        return Frame(type_, body)
