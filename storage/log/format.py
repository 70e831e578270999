"""Segments and frames as bytes. Pure; the document of record is `FORMAT.md`."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from crc32c import crc32c

from schema.errors import Corruption

MAGIC = b"HBLOG\r\n\x1a"
VERSION = 1
MAX_PAYLOAD = 1 << 30
_HEADER = struct.Struct(">8sBQQQB")
_FRAME = struct.Struct(">II")
_CRC = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Header:
    """First bytes of a segment."""

    epoch: int
    sequence: int
    catalog_version: int
    slave: str

    def encode(self) -> bytes:
        name = self.slave.encode()
        head = _HEADER.pack(
            MAGIC, VERSION, self.epoch, self.sequence, self.catalog_version, len(name)
        )
        return head + name + _CRC.pack(crc32c(head + name))


def encode_frame(payload: bytes) -> bytes:
    """Raises ValueError for a payload that is empty or too long."""
    if not 0 < len(payload) <= MAX_PAYLOAD:
        raise ValueError(f"a payload of {len(payload)} bytes")
    return _frame(payload)


def _frame(payload: bytes) -> bytes:
    length = len(payload).to_bytes(4)
    return length + _CRC.pack(crc32c(payload, crc32c(length))) + payload


SEAL = _frame(b"")


@dataclass(frozen=True, slots=True)
class Scanned:
    """Frames of a segment: (payload, offset behind it), whether it is sealed, bytes dropped."""

    header: Header | None
    frames: tuple[tuple[bytes, int], ...]
    sealed: bool
    torn_bytes: int


def scan_segment(data: bytes, name: str) -> Scanned:
    """All whole frames. Raises Corruption when damage is not a torn tail."""
    parsed = _parse_header(data)
    if parsed is None:
        if _first_frame_after(data, 0, name) is not None:
            raise Corruption(f"The header of log segment {name} is damaged.", position=f"{name}:0")
        return Scanned(None, (), False, len(data))
    header, offset = parsed
    frames: list[tuple[bytes, int]] = []
    while offset < len(data):
        payload = _frame_at(data, offset)
        if payload is None:
            _require_torn_tail(data, offset, name)
            return Scanned(header, tuple(frames), False, len(data) - offset)
        offset += _FRAME.size + len(payload)
        if not payload:
            if offset != len(data):
                raise Corruption(
                    f"Log segment {name} goes on behind its seal.", position=f"{name}:{offset}"
                )
            return Scanned(header, tuple(frames), True, 0)
        frames.append((payload, offset))
    return Scanned(header, tuple(frames), False, 0)


def _parse_header(data: bytes) -> tuple[Header, int] | None:
    if len(data) < _HEADER.size:
        return None
    magic, version, epoch, sequence, catalog, length = _HEADER.unpack_from(data)
    end = _HEADER.size + length
    if magic != MAGIC or len(data) < end + 4:
        return None
    if crc32c(data[:end]) != _CRC.unpack_from(data, end)[0]:
        return None
    if version != VERSION:
        raise Corruption(
            f"A log segment has format version {version}; this program reads {VERSION}.",
            cure="Use the version of Hornbeam that wrote it.",
        )
    return Header(epoch, sequence, catalog, data[_HEADER.size : end].decode()), end + 4


def _frame_at(data: bytes, offset: int) -> bytes | None:
    """Payload of the frame at `offset`, if it is whole."""
    if offset + _FRAME.size > len(data):
        return None
    length, checksum = _FRAME.unpack_from(data, offset)
    end = offset + _FRAME.size + length
    if length > MAX_PAYLOAD or end > len(data):
        return None
    payload = data[offset + _FRAME.size : end]
    good = crc32c(payload, crc32c(data[offset : offset + 4])) == checksum
    return payload if good else None


def _require_torn_tail(data: bytes, offset: int, name: str) -> None:
    found = _first_frame_after(data, offset + 1, name)
    if found is not None:
        raise Corruption(
            f"Log segment {name} is damaged at byte {offset}: a whole frame follows at {found}.",
            cure="Restore the segment from a replica; do not start over it.",
            position=f"{name}:{offset}",
        )


def _first_frame_after(data: bytes, offset: int, _name: str) -> int | None:
    """Offset of the first whole frame at or behind `offset`.

    Lengths are tried only where they fit, so this is quick on a short tail, which is the rule.
    """
    for start in _candidates(data, offset):
        if _frame_at(data, start) is not None:
            return start
    return None


def _candidates(data: bytes, offset: int) -> Iterator[int]:
    for start in range(offset, len(data) - _FRAME.size + 1):
        length = int.from_bytes(data[start : start + 4])
        if start + _FRAME.size + length <= len(data):
            yield start
