"""The log in local files: written and synced by one thread, in call order."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from hornbeam_server.schema.errors import DiskFull, Unavailable
from hornbeam_server.storage.local.private import FILE, make_private
from hornbeam_server.storage.log.files import NoRoom
from hornbeam_server.storage.log.format import segment_name
from hornbeam_server.storage.log.segments import SEGMENT_BYTES, SegmentedLog, sorted_segments

T = TypeVar("T")

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
JOINED_BYTES = 1 << 20
"""The pieces of an append with more bytes in all are written one by one."""
DESCRIPTOR_S, PAUSE_S = 30.0, 0.05
"""While no file descriptor is free, an open is repeated for DESCRIPTOR_S, after pauses of PAUSE_S:
connections soon free descriptors, but a log that has failed stays failed."""


class LocalLog:
    """Opens the log in a folder."""

    @staticmethod
    async def open(
        folder: Path,
        slave: str,
        epoch: int,
        *,
        catalog_version: int = 0,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> SegmentedLog:
        """Open or create the log of `slave`. Raises Corruption when the epoch was used before."""
        return await SegmentedLog.open(
            LocalFiles(folder / slave),
            slave,
            epoch,
            catalog_version=catalog_version,
            segment_bytes=segment_bytes,
        )


class LocalLogs:
    """A `LogReader` over the logs in a folder, each in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def segments(self, name: str) -> list[tuple[int, int]]:
        def names() -> list[str]:
            try:
                return os.listdir(self._folder / name)
            except FileNotFoundError:
                return []

        return sorted_segments(await self._in_thread(names))

    async def read(self, name: str, epoch: int, sequence: int) -> bytes | None:
        def content() -> bytes | None:
            try:
                return (self._folder / name / segment_name(epoch, sequence)).read_bytes()
            except FileNotFoundError:
                return None

        return await self._in_thread(content)

    async def close(self) -> None:
        """There is nothing to release."""

    async def _in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        try:
            return await asyncio.to_thread(work, *arguments)
        except OSError as error:
            raise _mapped(error, self._folder) from error


class LocalFiles:
    """`LogFiles` in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, int] = {}
        self._closed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="log")

    async def fence(self, epoch: int) -> None:
        """Make all files durable. This keeps no process out, whatever the `epoch`: the lock on the
        database's folder (`storage/local/coordination.py`) does, and a dead process writes nothing
        more. A dead owner leaves unsynced only the end of the last file, or that file's name."""
        await self._in_thread(self._make_durable)

    async def names(self) -> list[str]:
        return await self._in_thread(os.listdir, self._folder)

    async def create(self, name: str, data: bytes) -> None:
        await self._in_thread(self._create, name, data)

    async def append(self, name: str, pieces: Sequence[bytes]) -> None:
        await self._in_thread(self._append, name, pieces)

    async def finish(self, name: str, data: bytes) -> None:
        await self._in_thread(self._finish, name, data)

    async def read(self, name: str) -> bytes:
        return await self._in_thread((self._folder / name).read_bytes)

    async def tail(self, name: str, count: int) -> tuple[int, bytes]:
        return await self._in_thread(self._tail, name, count)

    async def delete(self, names: Sequence[str]) -> None:
        await self._in_thread(self._delete, names)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            loop = asyncio.get_running_loop()
            try:
                await loop.run_in_executor(self._thread, self._release)
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

    def _make_durable(self) -> None:
        make_private(self._folder.parent)
        make_private(self._folder)
        last = sorted(self._folder.glob("*.log"))[-1:]
        for path in (*last, self._folder, self._folder.parent, self._folder.parent.parent):
            _sync(path)

    def _create(self, name: str, data: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            file = _opened(self._folder / name, flags)
        except OSError as error:
            if error.errno in _FULL:
                raise self._no_room() from error
            raise
        self._open[name] = file
        try:
            self._write(file, [data])
        except NoRoom:
            os.close(self._open.pop(name))
            (self._folder / name).unlink()
            raise
        os.fsync(file)
        _sync(self._folder)

    def _append(self, name: str, pieces: Sequence[bytes]) -> None:
        file = self._open[name]
        self._write(file, pieces)
        os.fdatasync(file)

    def _finish(self, name: str, data: bytes) -> None:
        self._write(self._open[name], [data])
        file = self._open.pop(name)
        try:
            os.fsync(file)
        finally:
            os.close(file)

    def _write(self, file: int, pieces: Sequence[bytes]) -> None:
        """Write at the end, all or nothing: if a part finds no room, the other parts are cut off
        again. Raises NoRoom. A full disk may also show only when the file is synced; then the
        content of the file on disk is unknown."""
        size = os.fstat(file).st_size
        try:
            for data in _writes(pieces):
                _write_all(file, data)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            os.ftruncate(file, size)
            os.lseek(file, size, os.SEEK_SET)
            raise self._no_room() from error

    def _no_room(self) -> NoRoom:
        return NoRoom(
            f"The log in {self._folder} cannot grow: the disk is full.",
            cure="Free space; writes then go on.",
        )

    def _tail(self, name: str, count: int) -> tuple[int, bytes]:
        with (self._folder / name).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - count, 0))
            return size, file.read()

    def _delete(self, names: Sequence[str]) -> None:
        for name in names:
            (self._folder / name).unlink()
        _sync(self._folder)

    def _release(self) -> None:
        while self._open:
            os.close(self._open.popitem()[1])


def _writes(pieces: Sequence[bytes]) -> Sequence[bytes]:
    """The data of each write call: all `pieces` joined, unless that copies many bytes."""
    return [b"".join(pieces)] if sum(map(len, pieces)) <= JOINED_BYTES else pieces


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _sync(path: Path) -> None:
    """Sync the content of a file, or the names in a folder."""
    handle = _opened(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _opened(path: Path, flags: int) -> int:
    """Open `path`; returns the descriptor. Waits up to DESCRIPTOR_S for a free one. Raises
    OSError."""
    until = time.monotonic() + DESCRIPTOR_S
    while True:
        try:
            return os.open(path, flags, FILE)
        except OSError as error:
            if error.errno not in {errno.EMFILE, errno.ENFILE} or time.monotonic() > until:
                raise
        time.sleep(PAUSE_S)


def _mapped(error: OSError, folder: Path) -> Unavailable:
    if error.errno in _FULL:
        return DiskFull(
            f"The log in {folder} cannot grow: the disk is full.", cure="Free space and restart."
        )
    return Unavailable(f"The log in {folder} cannot be used: {error}")
