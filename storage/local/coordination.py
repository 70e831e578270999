"""Coordination inside one process: values in a file, membership in memory.

The folder is locked while it is open, so that a second process fails at once instead of writing
into the same database.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from hornbeam_server.schema.errors import (
    Corruption,
    DiskFull,
    HornbeamError,
    InvalidRequest,
    StalePlan,
    Unavailable,
)
from hornbeam_server.storage.local.private import FILE, make_private, open_private
from hornbeam_server.storage.ports import Versioned
from hornbeam_server.storage.together import to_the_end

_LOCK = "lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep all processes from opening the folder while the context lasts. A folder without a lock
    was never opened. Raises Unavailable when another process has it open, OSError."""
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR)
    except FileNotFoundError:
        yield
        return
    _take(lock, folder)
    try:
        yield
    finally:
        os.close(lock)


def _take(lock: int, folder: Path) -> None:
    """Lock an open file; close it if another process has locked it. Raises Unavailable."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise Unavailable(
            f"The database in {folder.parent} is open in another process.",
            cure="Stop that process, or connect to its server.",
        ) from None


class LocalCoordination:
    """A `Coordination` in a folder. Open with `LocalCoordination.open`."""

    def __init__(self, folder: Path, lock: int) -> None:
        self._file = folder / "values.json"
        self._lock = lock
        self._writing = asyncio.Lock()
        self._members: dict[str, bytes] = {}
        self._values: dict[str, Versioned] = {}
        self.news = 0
        if self._file.exists():
            self._values = _decoded(self._file)

    @classmethod
    def open(cls, folder: Path) -> LocalCoordination:
        """Lock and open the folder. Raises Unavailable when another process has it open,
        InvalidRequest when this process may not write in it, Corruption."""
        try:
            make_private(folder)
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, FILE)
        except OSError as error:
            raise _unusable(error, folder) from None
        _take(lock, folder)
        try:
            return cls(folder, lock)
        except HornbeamError:
            os.close(lock)
            raise
        except OSError as error:
            os.close(lock)
            raise _unusable(error, folder) from None

    async def read(self, path: str) -> Versioned | None:
        return self._values.get(path)

    async def write(self, path: str, value: bytes, expected: int) -> int:
        async with self._writing:
            known = self._values.get(path)
            current = known.version if known is not None else 0
            if current != expected:
                raise StalePlan(f"{path} is at version {current}, not {expected}.")
            values = {**self._values, path: Versioned(value, current + 1)}
            try:
                await to_the_end(asyncio.to_thread(self._store, values))
            except OSError as error:
                raise _mapped(error, self._file) from error
        return current + 1

    def _store(self, values: dict[str, Versioned]) -> None:
        """Replace the file, durably, then the values in memory. Two syncs of the disk take
        milliseconds: it runs in a thread."""
        fresh = self._file.with_suffix(".new")
        with open(fresh, "wb", opener=open_private) as file:
            file.write(msgspec.json.encode(values))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._file)
        handle = os.open(self._file.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        self._values = values
        self.news += 1

    async def join(self, member: str, data: bytes = b"") -> None:
        self._members[member] = data
        self.news += 1

    async def leave(self, member: str) -> None:
        self._members.pop(member, None)
        self.news += 1

    async def members(self) -> dict[str, bytes]:
        return dict(sorted(self._members.items()))

    def alive(self) -> bool:
        return self._lock >= 0  # while the folder is locked, no process can take over

    async def close(self) -> None:
        if self._lock >= 0:
            self._members.clear()
            os.close(self._lock)
            self._lock = -1


def _decoded(file: Path) -> dict[str, Versioned]:
    """The values in a file of JSON: each `Versioned` is an array, its bytes in base64. Raises
    Corruption."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Versioned])
    except msgspec.DecodeError as error:
        raise Corruption(
            f"{file} cannot be read: {error}", cure="Restore it from a backup."
        ) from None


def _unusable(error: OSError, folder: Path) -> HornbeamError:
    if error.errno not in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return _mapped(error, folder)
    return InvalidRequest(
        f"The folder {folder} cannot be used: {error.strerror}.",
        cure="Give this user the right to write in it, or choose another for the data.",
    )


def _mapped(error: OSError, file: Path) -> Unavailable:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return DiskFull(f"{file} cannot be written: the disk is full.", cure="Free space.")
    return Unavailable(f"{file} cannot be written: {error}")
