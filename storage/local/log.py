"""The log in local files: written and synced by one thread, in call order.

After a failed write or sync the log refuses everything: what the file holds is unknown, and to
sync again could report success for pages the kernel has given up (the caller reopens under a new
epoch and reads what is there).
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from schema.errors import Corruption, DiskFull, Unavailable
from storage.log.format import (
    SEAL,
    Header,
    Scanned,
    encode_append,
    scan_segment,
    segment_name,
)
from storage.ports import Position, Segment

T = TypeVar("T")
SEGMENT_BYTES = 64 << 20
_NAME = re.compile(r"(\d{10})-(\d{10})\.log")


class LocalLog:
    """A `Log` in a folder. Open with `LocalLog.open`, under an epoch that was never used before."""

    def __init__(
        self, folder: Path, slave: str, epoch: int, catalog_version: int, segment_bytes: int
    ) -> None:
        self._folder = folder
        self._slave = slave
        self._epoch = epoch
        self._catalog_version = catalog_version
        self._segment_bytes = segment_bytes
        self._sequence = 0
        self._file = -1
        self._size = 0
        self._failed = False
        self._closing = False
        self._closed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="log")
        self.torn_bytes = 0
        """Bytes of torn tails that `read` has dropped."""

    @classmethod
    def open(
        cls,
        folder: Path,
        slave: str,
        epoch: int,
        *,
        catalog_version: int = 0,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> LocalLog:
        """Open or create the log of `slave`. Raises Corruption when the epoch was used before."""
        folder = folder / slave
        folder.mkdir(parents=True, exist_ok=True)
        if any(used >= epoch for used, _ in _names(folder)):
            raise Corruption(f"The log in {folder} has segments of epoch {epoch} or later.")
        return cls(folder, slave, epoch, catalog_version, segment_bytes)

    async def append(self, payloads: Sequence[bytes]) -> Position:
        data = encode_append(payloads)
        self._require_working()
        return await self._in_thread(self._append, data)

    async def roll(self) -> None:
        self._require_working()
        await self._in_thread(self._seal)

    async def read(self, start: Position) -> AsyncIterator[tuple[Position, bytes]]:
        names = [name for name in _names(self._folder) if name >= (start.epoch, start.sequence)]
        begin = [(start.epoch, start.sequence)] if start.sequence else []
        _require_no_gap([*begin, *names])
        last = dict(names)  # epoch → its last sequence
        for epoch, sequence in names:
            scanned = await self._in_thread(self._scan, epoch, sequence)
            if not scanned.sealed and sequence != last[epoch]:
                name = segment_name(epoch, sequence)
                raise Corruption(
                    f"Log segment {name} has no seal, but another follows.",
                    position=f"{name}:end",
                )
            self.torn_bytes += scanned.torn_bytes
            for payload, offset in scanned.frames:
                position = Position(epoch, sequence, offset)
                if position > start:
                    yield position, payload

    async def segments(self) -> list[Segment]:
        return await self._in_thread(self._segments)

    async def drop_before(self, position: Position) -> int:
        return await self._in_thread(self._drop_before, position)

    async def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        try:
            await self._in_thread(self._finish)
        finally:
            self._thread.shutdown()

    # ------------------------------------------------------------ in the thread

    async def _in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """All file work happens in one thread, in call order."""
        if self._closed:
            raise Unavailable("The log is closed.")
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, work, *arguments)
        except OSError as error:
            raise _mapped(error, self._folder) from error

    def _append(self, data: bytes) -> Position:
        # Again here: an append that waited behind a failed one must not write behind its remains.
        self._require_working()
        try:
            if self._file < 0:
                self._begin()
            _write_all(self._file, data)
            os.fdatasync(self._file)
        except OSError:
            self._failed = True
            raise
        self._size += len(data)
        position = Position(self._epoch, self._sequence, self._size)
        if self._size >= self._segment_bytes:
            self._seal()
        return position

    def _begin(self) -> None:
        self._sequence += 1
        path = self._folder / segment_name(self._epoch, self._sequence)
        header = Header(self._epoch, self._sequence, self._catalog_version, self._slave).encode()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        _write_all(self._file, header)
        os.fsync(self._file)
        _sync_folder(self._folder)
        self._size = len(header)

    def _seal(self) -> None:
        if self._file < 0:
            return
        try:
            _write_all(self._file, SEAL)
            os.fsync(self._file)
        except OSError:
            self._failed = True
            raise
        finally:
            self._release()

    def _finish(self) -> None:
        try:
            if not self._failed:
                self._seal()
        finally:
            self._closed = True
            self._release()

    def _release(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _drop_before(self, position: Position) -> int:
        """Front to back, so that a crash in between leaves no gap."""
        dropped = 0
        for segment in self._segments():
            own = (segment.epoch, segment.sequence) == (self._epoch, self._sequence)
            if (own and self._file >= 0) or not _ends_before(segment, position):
                break
            (self._folder / segment_name(segment.epoch, segment.sequence)).unlink()
            dropped += 1
        if dropped:
            _sync_folder(self._folder)
        return dropped

    def _scan(self, epoch: int, sequence: int) -> Scanned:
        name = segment_name(epoch, sequence)
        return scan_segment((self._folder / name).read_bytes(), name)

    def _segments(self) -> list[Segment]:
        found = []
        for epoch, sequence in _names(self._folder):
            path = self._folder / segment_name(epoch, sequence)
            with path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(size - len(SEAL), 0))
                found.append(Segment(epoch, sequence, file.read() == SEAL, size))
        return found

    def _require_working(self) -> None:
        if self._failed or self._closed:
            raise Unavailable(
                "The log is closed after a failed write." if self._failed else "The log is closed.",
                cure="Restart; recovery reads what the log holds.",
            )


def _ends_before(segment: Segment, position: Position) -> bool:
    """An unsealed segment of an earlier owner is finished too: nobody can append to it."""
    if (segment.epoch, segment.sequence) == (position.epoch, position.sequence):
        return segment.sealed and segment.bytes - len(SEAL) <= position.offset
    return (segment.epoch, segment.sequence) < (position.epoch, position.sequence)


def _require_no_gap(names: Sequence[tuple[int, int]]) -> None:
    """Segments are dropped from the front only, so those of one epoch follow each other."""
    for (epoch, sequence), (next_epoch, next_sequence) in pairwise(names):
        if epoch == next_epoch and next_sequence > sequence + 1:
            missing = segment_name(epoch, sequence + 1)
            raise Corruption(f"Log segment {missing} is missing.", position=f"{missing}:0")


def _names(folder: Path) -> list[tuple[int, int]]:
    """(epoch, sequence) of all segments, in order."""
    matches = (_NAME.fullmatch(path.name) for path in folder.iterdir())
    return sorted((int(match[1]), int(match[2])) for match in matches if match is not None)


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _sync_folder(folder: Path) -> None:
    """A new file's name is durable only once its folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _mapped(error: OSError, folder: Path) -> Unavailable:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return DiskFull(
            f"The log in {folder} cannot grow: the disk is full.", cure="Free space and restart."
        )
    return Unavailable(f"The log in {folder} cannot be used: {error}")
