"""Segments and frames as bytes. Pure; the document of record is `FORMAT.md`."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from crc32c import crc32c

from hornbeam_server.schema.errors import Corruption
from hornbeam_server.storage.ports import Payload

MAGIC = b"HBLOG\r\n\x1a"
VERSION = 2
MAX_PAYLOAD = 1 << 30
_CONTINUES = 1 << 31
"""Set in the length of every frame of an append but the first."""
SEARCHED_PAYLOAD = 1 << 16
"""Behind damage, a longer frame is found only if a chain of frames leads from it to the end."""
_HEADER = struct.Struct(">8sBQQQB")
_FRAME = struct.Struct(">II")
_CRC = struct.Struct(">I")
_PLACE = struct.Struct(">QQQ")
SEAL_BYTES = _FRAME.size
_NAME = re.compile(r"(\d{10})-(\d{10})\.log")


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a segment."""

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


def segment_name(epoch: int, sequence: int) -> str:
    """File name of a segment."""
    return f"{epoch:010d}-{sequence:010d}.log"


def parse_name(file_name: str) -> tuple[int, int] | None:
    """(epoch, sequence) of a segment by its file's name; None for other files."""
    match = _NAME.fullmatch(file_name)
    return (int(match[1]), int(match[2])) if match is not None else None


def require_payloads(payloads: Sequence[Payload]) -> None:
    """Raises ValueError for a payload that is empty or too long for a frame."""
    for payload in payloads:
        size = sum(map(len, _pieces(payload)))
        if not 0 < size <= MAX_PAYLOAD:
            raise ValueError(f"a payload of {size} bytes")


def encode_append(
    payloads: Sequence[Payload], epoch: int, sequence: int, offset: int
) -> list[bytes]:
    """The frames of one append that begins at `offset` of a segment, as consecutive pieces of
    bytes. Payloads are not copied."""
    frames: list[bytes] = []
    for number, payload in enumerate(payloads):
        pieces = _pieces(payload)
        size = sum(map(len, pieces))
        length = size | (_CONTINUES if number > 0 else 0)
        head = _head(length, pieces, (epoch, sequence), offset)
        frames += [head, *pieces]
        offset += len(head) + size
    return frames


def _pieces(payload: Payload) -> Sequence[bytes]:
    return [payload] if isinstance(payload, bytes) else payload


def encode_seal(epoch: int, sequence: int, offset: int) -> bytes:
    """The frame that ends a segment at `offset`."""
    return _head(0, [], (epoch, sequence), offset)


def _head(length: int, pieces: Sequence[bytes], segment: tuple[int, int], offset: int) -> bytes:
    """The bytes before the payload in a frame; `pieces` are the payload."""
    head = length.to_bytes(4)
    return head + _CRC.pack(_checksum(head, pieces, segment, offset))


def _checksum(head: bytes, pieces: Sequence[bytes], segment: tuple[int, int], offset: int) -> int:
    """The checksum of a frame and its place. So a frame is whole only at its place: not in a
    payload that quotes it, not in the remains of another file, not behind a gap in its own file."""
    checksum: int = crc32c(_PLACE.pack(*segment, offset) + head)
    for piece in pieces:
        checksum = crc32c(piece, checksum)
    return checksum


@dataclass(frozen=True, slots=True)
class Scanned:
    """Content of a segment: header, frames as (payload, offset behind the frame), whether it is
    sealed, and the number of bytes dropped as a torn tail."""

    header: Header | None
    frames: tuple[tuple[bytes, int], ...]
    sealed: bool
    torn_bytes: int


def is_sealed(data: bytes, epoch: int, sequence: int) -> bool:
    """True if `data`, the bytes read of a segment, ends with its seal."""
    begin = len(data) - SEAL_BYTES
    return begin >= 0 and data[begin:] == encode_seal(epoch, sequence, begin)


def scan_segment(data: bytes, name: str) -> Scanned:
    """All whole frames of the segment `name`. Raises Corruption when damage is not a torn tail."""
    segment = parse_name(name)
    assert segment is not None, f"{name} is no segment's name"
    parsed = _parse_header(data, name)
    if parsed is None:
        if _frame_behind(data, 0, segment) is not None:
            raise Corruption(f"The header of log segment {name} is damaged.", position=f"{name}:0")
        return Scanned(None, (), False, len(data))
    header, offset = parsed
    if (header.epoch, header.sequence) != segment:
        raise Corruption(
            f"Log segment {name} holds segment {header.sequence} of epoch {header.epoch}.",
            position=f"{name}:0",
        )
    frames: list[tuple[bytes, int]] = []
    while offset < len(data):
        payload = _frame_at(data, offset, segment)
        if payload is None:
            _require_torn_tail(data, offset, segment)
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
    if version != VERSION:  # before the checksum, whose place may differ in a later version
        raise Corruption(
            f"Log segment {name} has format version {version}; this program reads {VERSION}.",
            cure="Use the version of Hornbeam that wrote it.",
            position=f"{name}:0",
        )
    if len(data) < end + 4 or crc32c(data[:end]) != _CRC.unpack_from(data, end)[0]:
        return None
    return Header(epoch, sequence, catalog, data[_HEADER.size : end].decode()), end + 4


def _frame_at(data: bytes, offset: int, segment: tuple[int, int]) -> bytes | None:
    """Payload of the frame at `offset`, if it is whole."""
    if offset + _FRAME.size > len(data):
        return None
    length, checksum = _FRAME.unpack_from(data, offset)
    length &= ~_CONTINUES
    end = offset + _FRAME.size + length
    if length > MAX_PAYLOAD or end > len(data):
        return None
    payload = data[offset + _FRAME.size : end]
    good = _checksum(data[offset : offset + 4], [payload], segment, offset)
    return payload if good == checksum else None


def _require_torn_tail(data: bytes, offset: int, segment: tuple[int, int]) -> None:
    found = _frame_behind(data, offset + 1, segment)
    if found is not None:
        name = segment_name(*segment)
        raise Corruption(
            f"Log segment {name} is damaged at byte {offset}: a later append follows at {found}.",
            cure="Restore the segment from a replica; do not start over it.",
            position=f"{name}:{offset}",
        )


def _frame_behind(data: bytes, offset: int, segment: tuple[int, int]) -> int | None:
    """Offset of a whole frame at or behind `offset` that begins an append; None if there is none.

    An append begins only after the previous one is synced, so the bytes before it were whole.
    Frames that continue an append prove nothing: a machine that loses power has written pages in
    any order.

    Any byte could begin a frame, and checking each candidate to its end would take hours on the
    torn tail of a large batch. So a checksum is computed only for short frames and for chains of
    frames that end where the data ends: frames behind damage form such a chain if nothing else is
    wrong.
    """
    end = len(data)
    reaching, found = {end}, None
    highest = min(end - offset, MAX_PAYLOAD) >> 24
    # First byte of a length that fits, for both kinds of frames. Eight zeros are skipped: blocks
    # that were never written are full of zeros, which are a seal at one place of four billion.
    starts = re.compile(b"(?!\0{8})[\\x00-\\x%02x\\x80-\\x%02x]" % (highest, highest | 0x80))
    candidates = [match.start() for match in starts.finditer(data, offset)]
    for start in reversed(candidates):
        length = int.from_bytes(data[start : start + 4])
        behind = start + _FRAME.size + (length & ~_CONTINUES)
        if behind in reaching:
            reaching.add(start)
        elif length > SEARCHED_PAYLOAD or behind > end:
            continue
        if length < _CONTINUES and _frame_at(data, start, segment) is not None:
            found = start
    return found
