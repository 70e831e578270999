"""The files of a log on simulated machines, as bytes.

Fault model. A process that dies leaves its files as they are. An operation of the process that is
still on its way takes effect wholly, in part, or not at all. When the machine dies, unsynced bytes
are torn: any of their sectors may be lost, and their end. A change may fail before it begins, when
any part of it is written (the disk may be full), when all is written but not synced, or only in the
answer. A read may fail as well. Files are created and deleted in order. Any stored bit may flip. A
fenced owner changes nothing more, however late its changes arrive; its deletes are not fenced.

This module has no randomness and no delays: a simulation decides which operations fail
(`SimulatedDisk.fault`) and how operations travel (`SimulatedFiles(…, carry=…)`). The whole effect
of an operation is one call of `Operation.apply`, at its arrival, if it arrives.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum, auto
from typing import Any

from hornbeam_server.schema.errors import HornbeamError, Unavailable
from hornbeam_server.storage.log.files import NoRoom
from hornbeam_server.storage.log.format import segment_name
from hornbeam_server.storage.log.segments import sorted_segments
from hornbeam_server.storage.simulated.clock import START_MS

SECTOR_BYTES = 512
ALL = sys.maxsize


class Kind(StrEnum):
    """Kinds of operations: the methods of `storage.log.files.LogFiles`, then two of `Logs`."""

    FENCE = auto()
    NAMES = auto()
    CREATE = auto()
    APPEND = auto()
    FINISH = auto()
    READ = auto()
    TAIL = auto()
    DELETE = auto()
    LIST = auto()
    """This and the next one belong to `storage.ports.Logs`."""
    REMOVE = auto()


@dataclass(frozen=True, slots=True)
class Fault:
    """Makes an operation raise `error` after a part of its effect.

    `done` counts the bytes that a create, append or finish writes, or the files that a delete
    removes. ALL is the whole effect. None is no effect; a create then makes not even an empty file.
    The written bytes survive a crash of the machine if `synced`.
    """

    error: HornbeamError
    done: int | None = None
    synced: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """One call on its way to the disk, sent by the owner of `epoch`."""

    disk: SimulatedDisk
    kind: Kind
    folder: str
    epoch: int
    names: tuple[str, ...] = ()
    data: bytes = b""
    count: int = 0
    """Number of bytes, for TAIL."""

    def apply(self, fault: Fault | None = None) -> Any:
        """Take the whole effect now; returns the answer, or raises the error of the fault. To be
        called once.

        Without a `fault`, the disk decides on one.
        """
        fault = fault if fault is not None else self.disk.fault(self)
        if fault is None:
            return self.disk.perform(self, ALL, synced=True)
        if fault.done is not None:
            self.disk.perform(self, fault.done, synced=fault.synced)
        raise fault.error


@dataclass(slots=True)
class SimulatedFile:
    """A file. Processes read `data`. The bytes behind the offset `synced` are only in the memory of
    the machine; so is the file's name, unless it is `named`."""

    data: bytearray = field(default_factory=bytearray)
    synced: int = 0
    named: bool = False

    def sync(self) -> None:
        self.synced, self.named = len(self.data), True


@dataclass(frozen=True, slots=True)
class Unsynced:
    """The end of a file, from `offset` on, that its machine may lose when it dies."""

    folder: str
    name: str
    offset: int
    data: bytes
    named: bool

    def without_sectors(self, lost: Callable[[int], bool]) -> bytes:
        """`data` with zeros in place of the lost sectors. `lost` takes the number of a sector in
        the file. The synced bytes of the first sector stay."""
        found = bytearray(self.data)
        end = self.offset + len(found)
        for number in range(self.offset // SECTOR_BYTES, -(-end // SECTOR_BYTES)):
            if lost(number):
                first = max(number * SECTOR_BYTES, self.offset)
                behind = min((number + 1) * SECTOR_BYTES, end)
                found[first - self.offset : behind - self.offset] = bytes(behind - first)
        return bytes(found)


@dataclass(slots=True)
class _Folder:
    files: dict[str, SimulatedFile] = field(default_factory=dict)
    fence: int = 0
    fenced_s: float | None = None
    """Time of the last fence, in seconds of the loop; None if the folder does not exist."""

    def file(self, name: str) -> SimulatedFile:
        if name not in self.files:
            raise Unavailable(f"There is no file {name}.")
        return self.files[name]

    def require_unfenced(self, epoch: int) -> None:
        if self.fenced_s is None:
            raise Unavailable("There is no such log.")
        if epoch < self.fence:
            raise Unavailable(f"The log is fenced: epoch {self.fence} has taken over.")


class SimulatedDisk:
    """Folders of files. They outlive the processes that open them, and a crash of the machine."""

    def __init__(self) -> None:
        self._folders: dict[str, _Folder] = {}
        self.fault: Callable[[Operation], Fault | None] = lambda _: None
        """Returns the fault of an operation, or None. Called when the operation takes effect."""

    def files(self, folder: str) -> dict[str, SimulatedFile]:
        """The files of a folder, by name. A simulation may change them unnoticed by any process."""
        return self._folders.setdefault(folder, _Folder()).files

    def flip(self, folder: str, name: str, offset: int, mask: int = 1) -> None:
        """Invert the bits of `mask` in one stored byte."""
        self.files(folder)[name].data[offset] ^= mask

    def crash(self, remains: Callable[[Unsynced], bytes | None]) -> None:
        """Crash the machine. `remains` returns the bytes that are left of each unsynced end, or
        None to lose the file, which is allowed only if the file is not `named`."""
        for end in list(self._unsynced()):
            left = remains(end)
            file = self.files(end.folder)[end.name]
            if left is None:
                assert not end.named, f"{end.name} was synced and cannot vanish"
                del self.files(end.folder)[end.name]
            else:
                file.data[end.offset :] = left
                file.sync()

    def _unsynced(self) -> Iterator[Unsynced]:
        for folder, inside in self._folders.items():
            for name, file in inside.files.items():
                if file.synced < len(file.data) or not file.named:
                    rest = bytes(file.data[file.synced :])
                    yield Unsynced(folder, name, file.synced, rest, file.named)

    # ------------------------------------------------------------ effects

    def perform(self, operation: Operation, done: int, *, synced: bool) -> Any:
        """Take the effect of `operation`, as far as `done` and `synced` say; returns the
        answer."""
        folder = self._folders.setdefault(operation.folder, _Folder())
        match operation.kind:
            case Kind.FENCE:
                _fence(folder, operation.epoch)
            case Kind.NAMES:
                return list(folder.files)
            case Kind.CREATE | Kind.APPEND | Kind.FINISH:
                _write(folder, operation, done, synced)
            case Kind.READ:
                return bytes(folder.file(operation.names[0]).data)
            case Kind.TAIL:
                data = folder.file(operation.names[0]).data
                return len(data), bytes(data[max(len(data) - operation.count, 0) :])
            case Kind.DELETE:
                for name in operation.names[:done]:
                    folder.file(name)
                    del folder.files[name]
            case Kind.LIST:
                folders = self._folders.items()
                return {name: f.fenced_s for name, f in folders if f.fenced_s is not None}
            case Kind.REMOVE:
                self._folders[operation.folder] = _Folder()
        return None


def _fence(folder: _Folder, epoch: int) -> None:
    if folder.fenced_s is not None:
        folder.require_unfenced(epoch)
    folder.fence, folder.fenced_s = epoch, asyncio.get_running_loop().time()
    for file in folder.files.values():
        file.sync()


def _write(folder: _Folder, operation: Operation, done: int, synced: bool) -> None:
    folder.require_unfenced(operation.epoch)
    (name,) = operation.names
    if operation.kind is Kind.CREATE:
        if name in folder.files:
            raise Unavailable(f"There is a file {name} already.")
        folder.files[name] = SimulatedFile()
    file = folder.file(name)
    file.data += operation.data[:done]
    if synced:
        file.sync()


async def directly(operation: Operation) -> Any:
    """Carry an operation to the disk at once; other tasks run before and after it."""
    await asyncio.sleep(0)
    try:
        return operation.apply()
    finally:
        await asyncio.sleep(0)


class SimulatedLogs:
    """`Logs` over the folders of a simulated disk. Its times are those of a `SimulatedClock`
    without skew."""

    def __init__(
        self, disk: SimulatedDisk, *, carry: Callable[[Operation], Awaitable[Any]] = directly
    ) -> None:
        self._disk = disk
        self._carry = carry

    async def touched(self) -> Mapping[str, int]:
        found = await self._carry(Operation(self._disk, Kind.LIST, "", 0))
        return {name: START_MS + int(1000 * seconds) for name, seconds in found.items()}

    async def segments(self, name: str) -> list[tuple[int, int]]:
        return sorted_segments(await self._carry(Operation(self._disk, Kind.NAMES, name, 0)))

    async def read(self, name: str, epoch: int, sequence: int) -> bytes | None:
        if (epoch, sequence) not in await self.segments(name):
            return None
        file = segment_name(epoch, sequence)
        data: bytes = await self._carry(Operation(self._disk, Kind.READ, name, 0, (file,)))
        return data

    async def remove(self, name: str) -> None:
        await self._carry(Operation(self._disk, Kind.REMOVE, name, 0))

    async def close(self) -> None:
        """There is nothing to release."""


class SimulatedFiles:
    """`LogFiles` in a folder of a simulated disk, opened by one process.

    `carry` brings an operation to the disk and returns its answer. It decides how long each
    direction takes and whether the message arrives at all; a cancelled caller waits for neither.
    """

    def __init__(
        self,
        disk: SimulatedDisk,
        folder: str,
        *,
        carry: Callable[[Operation], Awaitable[Any]] = directly,
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._carry = carry
        self._epoch = 0
        self._open = ""
        self._closed = False

    async def fence(self, epoch: int) -> None:
        self._epoch = epoch
        await self._send(Kind.FENCE)

    async def names(self) -> list[str]:
        found: list[str] = await self._send(Kind.NAMES)
        return found

    async def create(self, name: str, data: bytes) -> None:
        self._open = name
        await self._send(Kind.CREATE, name, data=data)

    async def append(self, name: str, pieces: Sequence[bytes]) -> None:
        assert name == self._open, f"{name} is not open"
        await self._send(Kind.APPEND, name, data=b"".join(pieces))

    async def finish(self, name: str, data: bytes) -> None:
        assert name == self._open, f"{name} is not open"
        self._open = ""
        try:
            await self._send(Kind.FINISH, name, data=data)
        except NoRoom:  # everything is as before
            self._open = name
            raise

    async def read(self, name: str) -> bytes:
        found: bytes = await self._send(Kind.READ, name)
        return found

    async def tail(self, name: str, count: int) -> tuple[int, bytes]:
        found: tuple[int, bytes] = await self._send(Kind.TAIL, name, count=count)
        return found

    async def delete(self, names: Sequence[str]) -> None:
        await self._send(Kind.DELETE, *names)

    async def close(self) -> None:
        self._closed = True

    async def _send(self, kind: Kind, *names: str, data: bytes = b"", count: int = 0) -> Any:
        if self._closed:
            raise Unavailable("The log is closed.")
        operation = Operation(self._disk, kind, self._folder, self._epoch, names, data, count)
        return await self._carry(operation)
