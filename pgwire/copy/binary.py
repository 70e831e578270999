r"""COPY's binary format: a head, then a number of fields and the fields of each row, then -1.

PGCOPY \n \xff \r \n \0 | flags int32 | length of an extension int32 | the extension
number of fields int16 | for each field its length int32 (-1: NULL), and its bytes
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from hornbeam_server.pgwire.copy.records import BAD_FORMAT, BadData

SIGNATURE = b"PGCOPY\n\xff\r\n\0"
HEAD = SIGNATURE + struct.pack("!ii", 0, 0)
TRAILER = struct.pack("!h", -1)
_LENGTH = struct.Struct("!i")
_COUNT = struct.Struct("!h")
_FIXED = len(HEAD)
_CRITICAL = 0xFFFF0000
"""Flags that a reader has to know. None are defined today."""
BinaryRow = list[bytes | None]


class BinaryRows:
    """The rows in the bytes that `feed` gets; `end` checks that they are complete. It holds at most
    one row, and what was fed at once. Raises BadData."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._buffer = b""
        self._pieces: list[bytes] = []
        self._size = 0
        self._wanted = _FIXED
        """Minimum bytes of the buffer that are worth another look."""
        self._began = self._ended = False
        self._line = 0

    def feed(self, data: bytes) -> list[BinaryRow]:
        self._pieces.append(data)
        self._size += len(data)
        if self._size < self._wanted:
            return []
        self._buffer, self._pieces = b"".join([self._buffer, *self._pieces]), []
        at = 0 if self._began else self._head()
        found = list[BinaryRow]()
        while self._began and at < len(self._buffer):
            if self._ended:
                raise self._bad("Received copy data after EOF marker.")
            row = self._row(at)
            if row is None:
                break
            fields, at = row
            if fields is not None:
                found.append(fields)
        self._buffer = self._buffer[at:]
        self._size = len(self._buffer)
        self._wanted = max(self._wanted - at, 1)
        return found

    def end(self) -> list[BinaryRow]:
        if not self._began:
            raise self._bad("COPY file signature not recognized.")
        if self._buffer or self._pieces:
            self._line += 1
            raise self._bad("Unexpected EOF in COPY data.")
        return []

    def _head(self) -> int:
        """The end of the head, once it is there."""
        if not self._buffer.startswith(SIGNATURE):
            raise self._bad("COPY file signature not recognized.")
        flags, length = struct.unpack_from("!Ii", self._buffer, len(SIGNATURE))
        if flags & _CRITICAL:
            raise self._bad("Unrecognized critical flags in COPY file header.")
        if length < 0:
            raise self._bad("Invalid COPY file header (wrong length).")
        self._wanted = _FIXED + length
        self._began = len(self._buffer) >= self._wanted
        return self._wanted if self._began else 0

    def _row(self, start: int) -> tuple[BinaryRow | None, int] | None:
        """The row at an offset, and where it ends; None while it is not complete. The trailer is no
        row."""
        buffer = self._buffer
        if len(buffer) < start + 2:
            self._wanted = start + 2
            return None
        (count,) = _COUNT.unpack_from(buffer, start)
        if count == -1:
            self._ended = True
            return None, start + 2
        if count != self._columns:
            self._line += 1
            raise self._bad(f"Row field count is {count}, expected {self._columns}.")
        at, fields = start + 2, BinaryRow()
        for _ in range(count):
            if len(buffer) < at + 4:
                self._wanted = at + 4
                return None
            (length,) = _LENGTH.unpack_from(buffer, at)
            at += 4
            if length < -1:
                self._line += 1
                raise self._bad("Invalid field size.")
            if length == -1:
                fields.append(None)
                continue
            if len(buffer) < at + length:
                self._wanted = at + length
                return None
            fields.append(buffer[at : at + length])
            at += length
        self._line += 1
        return fields, at

    def _bad(self, message: str) -> BadData:
        return BadData(BAD_FORMAT, message, self._line, of_binary=True)


def binary_row(values: Sequence[bytes | None]) -> bytes:
    parts = [_COUNT.pack(len(values))]
    for value in values:
        if value is None:
            parts.append(b"\xff\xff\xff\xff")
        else:
            parts += (_LENGTH.pack(len(value)), value)
    return b"".join(parts)
