"""Segments and frames as bytes. Pure; the document of record is `FORMAT.md`."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from crc32c import crc32c

from schema.errors import Corruption

MAGIC = b"HBLOG\r\n\x1a"
VERSION = 1
MAX_PAYLOAD = 1 << 30
_CONTINUES = 1 << 31
"""Set in the length of every frame of an append but the first."""
SEARCHED_PAYLOAD = 1 << 16
"""Behind damage, longer frames are found only if frames lead from them to the end."""
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

    def belongs_to(self, file_name: str) -> bool:
        return file_name == segment_name(self.epoch, self.sequence)


def segment_name(epoch: int, sequence: int) -> str:
    """File name of a segment."""
    return f"{epoch:010d}-{sequence:010d}.log"


def encode_append(payloads: Sequence[bytes]) -> bytes:
    """The frames of one append."""
    return b"".join([encode_frame(payload, i > 0) for i, payload in enumerate(payloads)])


def encode_frame(payload: bytes, continues: bool = False) -> bytes:
    """`continues`: it belongs to the same append as the frame before, synced together with it.

    Raises ValueError for a payload that is empty or too long.
    """
    if not 0 < len(payload) <= MAX_PAYLOAD:
        raise ValueError(f"a payload of {len(payload)} bytes")
    return _frame(payload, continues)


def _frame(payload: bytes, continues: bool = False) -> bytes:
    length = (len(payload) | (_CONTINUES if continues else 0)).to_bytes(4)
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
    parsed = _parse_header(data, name)
    if parsed is None:
        if _frame_behind(data, 0) is not None:
            raise Corruption(f"The header of log segment {name} is damaged.", position=f"{name}:0")
        return Scanned(None, (), False, len(data))
    header, offset = parsed
    if not header.belongs_to(name):
        raise Corruption(
            f"Log segment {name} holds segment {header.sequence} of epoch {header.epoch}.",
            position=f"{name}:0",
        )
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


def _parse_header(data: bytes, name: str) -> tuple[Header, int] | None:
    if len(data) < _HEADER.size:
        return None
    magic, version, epoch, sequence, catalog, length = _HEADER.unpack_from(data)
    end = _HEADER.size + length
    if magic != MAGIC:
        return None
    if version != VERSION:  # before the checksum: a later version may place it elsewhere
        raise Corruption(
            f"Log segment {name} has format version {version}; this program reads {VERSION}.",
            cure="Use the version of Hornbeam that wrote it.",
            position=f"{name}:0",
        )
    if len(data) < end + 4 or crc32c(data[:end]) != _CRC.unpack_from(data, end)[0]:
        return None
    return Header(epoch, sequence, catalog, data[_HEADER.size : end].decode()), end + 4


def _frame_at(data: bytes, offset: int) -> bytes | None:
    """Payload of the frame at `offset`, if it is whole."""
    if offset + _FRAME.size > len(data):
        return None
    length, checksum = _FRAME.unpack_from(data, offset)
    length &= ~_CONTINUES
    end = offset + _FRAME.size + length
    if length > MAX_PAYLOAD or end > len(data):
        return None
    payload = data[offset + _FRAME.size : end]
    good = crc32c(payload, crc32c(data[offset : offset + 4])) == checksum
    return payload if good else None


def _require_torn_tail(data: bytes, offset: int, name: str) -> None:
    found = _frame_behind(data, offset + 1)
    if found is not None:
        raise Corruption(
            f"Log segment {name} is damaged at byte {offset}: a later append follows at {found}.",
            cure="Restore the segment from a replica; do not start over it.",
            position=f"{name}:{offset}",
        )


def _frame_behind(data: bytes, offset: int) -> int | None:
    """Offset of a whole frame at or behind `offset` that begins an append, if there is one.

    An append begins once the one before is synced, so what lies before it was whole. The frames
    that continue one prove nothing: a machine that loses power has written pages in any order.

    Any byte could begin a frame, and checking each to its end would take hours on the torn tail
    of a large batch. So a checksum is computed only for short frames and for chains of frames
    that end where the data end, which is how they lie when nothing but the damage is wrong.
    """
    end = len(data)
    reaching, found = {end}, None
    highest = min(end - offset, MAX_PAYLOAD) >> 24
    # First byte of a length that fits, of both kinds of frames; eight zeros are no frame.
    starts = re.compile(b"(?!\0{8})[\\x00-\\x%02x\\x80-\\x%02x]" % (highest, highest | 0x80))
    candidates = [match.start() for match in starts.finditer(data, offset)]
    for start in reversed(candidates):
        length = int.from_bytes(data[start : start + 4])
        behind = start + _FRAME.size + (length & ~_CONTINUES)
        if behind in reaching:
            reaching.add(start)
        elif length > SEARCHED_PAYLOAD or behind > end:
            continue
        if length < _CONTINUES and _frame_at(data, start) is not None:
            found = start
    return found
