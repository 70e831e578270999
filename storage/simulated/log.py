"""A log in memory. Its segments outlive it in a `SimulatedDisk`, as files outlive a process.

Fault model: an append that fails may leave any number of its frames behind, decided by `fault`;
frames are never torn, since readers drop a torn one (`storage/log/format.py` is tested for that).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from schema.errors import Corruption, Unavailable
from storage.log.format import SEAL, Header, encode_frame
from storage.ports import Position, Segment

SEGMENT_BYTES = 1 << 20


@dataclass
class _File:
    """A segment; `frames` are payloads with the offset behind each."""

    epoch: int
    sequence: int
    size: int
    frames: list[tuple[int, bytes]] = field(default_factory=list)
    sealed: bool = False

    def append(self, payload: bytes) -> None:
        self.size += len(encode_frame(payload))
        self.frames.append((self.size, payload))

    def seal(self) -> None:
        self.sealed = True
        self.size += len(SEAL)

    def ends_before(self, position: Position) -> bool:
        if (self.epoch, self.sequence) == (position.epoch, position.sequence):
            return self.sealed and (not self.frames or self.frames[-1][0] <= position.offset)
        return (self.epoch, self.sequence) < (position.epoch, position.sequence)


@dataclass
class SimulatedDisk:
    """Segments of all slaves, by slave, in order."""

    segments: dict[str, list[_File]] = field(default_factory=dict)


def _no_fault(payloads: Sequence[bytes]) -> int:
    return len(payloads)


class SimulatedLog:
    """A `Log` in memory. Open with `SimulatedLog.open`, under an epoch never used before."""

    def __init__(
        self,
        files: list[_File],
        slave: str,
        epoch: int,
        catalog_version: int,
        segment_bytes: int,
    ) -> None:
        self._files = files
        self._epoch = epoch
        self._header_bytes = len(Header(epoch, 1, catalog_version, slave).encode())
        self._segment_bytes = segment_bytes
        self._sequence = 0
        self._open: _File | None = None
        self._failed = False
        self._closed = False
        self._turn = asyncio.Lock()
        self.fault: Callable[[Sequence[bytes]], int] = _no_fault
        """Asked before each append: how many of the frames reach the disk. Fewer than all, or an
        Unavailable raised, fail the append."""

    @classmethod
    def open(
        cls,
        disk: SimulatedDisk,
        slave: str,
        epoch: int,
        *,
        catalog_version: int = 0,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> SimulatedLog:
        """Open or create the log of `slave`. Raises Corruption when the epoch was used before."""
        files = disk.segments.setdefault(slave, [])
        if any(file.epoch >= epoch for file in files):
            raise Corruption(f"The log of {slave} has segments of epoch {epoch} or later.")
        return cls(files, slave, epoch, catalog_version, segment_bytes)

    async def append(self, payloads: Sequence[bytes]) -> Position:
        for payload in payloads:
            encode_frame(payload)  # refuses what is no frame before anything is written
        self._require_working()
        async with self._turn:  # asyncio wakes waiters in the order in which they came
            await asyncio.sleep(0)
            return self._append(payloads)

    def _append(self, payloads: Sequence[bytes]) -> Position:
        self._require_working()
        file = self._begun()
        try:
            kept = self.fault(payloads)
        except Unavailable:
            self._failed = True
            raise
        for payload in payloads[:kept]:
            file.append(payload)
        if kept < len(payloads):
            self._failed = True
            raise Unavailable("The log cannot be written.")
        position = Position(file.epoch, file.sequence, file.size)
        if file.size >= self._segment_bytes:
            self._seal()
        return position

    def _begun(self) -> _File:
        if self._open is None:
            self._sequence += 1
            self._open = _File(self._epoch, self._sequence, self._header_bytes)
            self._files.append(self._open)
        return self._open

    def _seal(self) -> None:
        if self._open is not None:
            self._open.seal()
            self._open = None

    async def read(self, start: Position) -> AsyncIterator[tuple[Position, bytes]]:
        for file in list(self._files):
            for offset, payload in list(file.frames):
                position = Position(file.epoch, file.sequence, offset)
                if position > start:
                    yield position, payload
            await asyncio.sleep(0)

    async def roll(self) -> None:
        self._require_working()
        async with self._turn:
            self._seal()

    async def segments(self) -> list[Segment]:
        return [Segment(f.epoch, f.sequence, f.sealed, f.size) for f in self._files]

    async def drop_before(self, position: Position) -> int:
        dropped = 0
        while self._files and self._files[0] is not self._open:
            if not self._files[0].ends_before(position):
                break
            del self._files[0]
            dropped += 1
        return dropped

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            async with self._turn:
                if not self._failed:
                    self._seal()

    def _require_working(self) -> None:
        if self._failed or self._closed:
            raise Unavailable(
                "The log is closed after a failed write." if self._failed else "The log is closed.",
                cure="Restart; recovery reads what the log holds.",
            )
