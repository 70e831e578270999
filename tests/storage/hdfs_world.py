"""HDFS as a client observes it, in memory: one NameNode, files by inode, leases, unsynced bytes.

Every request may be lost, refused, answered late or never; it may take effect long after its sender
has given it up. A part of the unsynced bytes is lost when a lease is recovered, and the rest when
the machines lose power.

`Hdfs.fault(kind)` gives the fault of each request.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto


class Panic(BaseException):
    """A panic as the client library raises it: it is no Exception."""


Panic.__name__ = "PanicException"


class Fault(Enum):
    REFUSED = auto()
    """No effect, and an error."""
    ANSWER_LOST = auto()
    """The effect, and an error."""
    SILENCE = auto()
    """No effect, and no answer."""
    ANSWER_SILENT = auto()
    """The effect, and no answer."""
    LATE = auto()
    """No answer, and the effect comes later."""


@dataclass
class Inode:
    data: bytearray = field(default_factory=bytearray)
    synced: int = 0
    writer: object = None
    """The writer that has the file open, or None."""
    linked: bool = True


@dataclass(frozen=True)
class Status:
    path: str
    replication: int = 3
    modification_time: int = 1_000


class Hdfs:
    def __init__(self, random, fault=lambda _: None):
        self.random = random
        self.fault = fault
        self.files = {}  # path → Inode
        self.folders = {"/"}
        self.coming = set()
        """Effects that are late."""

    def client(self):
        return Client(self)

    async def request(self, kind, effect):
        fault = self.fault(kind)
        await asyncio.sleep(self.random.random() * 0.01)
        if fault is None:
            return effect()
        match fault:
            case Fault.REFUSED:
                raise OSError("connection refused")
            case Fault.ANSWER_LOST:
                effect()
                raise OSError("connection reset")
            case Fault.ANSWER_SILENT:
                effect()
            case Fault.LATE:
                self._later(effect)
        return await asyncio.Event().wait()

    def _later(self, effect):
        async def arrive():
            await asyncio.sleep(self.random.random() ** 3 * 60)
            with suppress(OSError, RuntimeError):
                effect()

        task = asyncio.ensure_future(arrive())
        self.coming.add(task)
        task.add_done_callback(self.coming.discard)

    def lose_power(self):
        """All machines lose power at once and come back; no file is open any more."""
        for file in self.files.values():
            del file.data[file.synced :]
            file.writer = None

    # ------------------------------------------------------------ effects

    def mkdirs(self, path):
        parts = path.split("/")[1:]
        self.folders |= {"/" + "/".join(parts[: n + 1]) for n in range(len(parts))}

    def create(self, path, writer):
        if path.rpartition("/")[0] not in self.folders:
            raise FileNotFoundError(f"Parent directory doesn't exist: {path}")
        if path in self.files:
            raise FileExistsError(path)
        self.files[path] = Inode(writer=writer)
        return self.files[path]

    def rename(self, source, target, overwrite):
        if source not in self.folders and source not in self.files:
            raise FileNotFoundError(f"rename source {source} is not found.")
        if target.rpartition("/")[0] not in self.folders:
            raise FileNotFoundError(f"rename destination parent of {target} not found.")
        if target in self.folders or (target in self.files and not overwrite):
            raise FileExistsError(target)
        if target in self.files:
            self.files.pop(target).linked = False
        moved = {p for p in self.folders if p == source or p.startswith(f"{source}/")}
        self.folders = self.folders - moved | {target + p[len(source) :] for p in moved}
        for path in [p for p in self.files if p == source or p.startswith(f"{source}/")]:
            self.files[target + path[len(source) :]] = self.files.pop(path)

    def delete(self, path):
        gone = [p for p in self.files if p == path or p.startswith(f"{path}/")]
        for name in gone:
            self.files.pop(name).linked = False
        folders = {p for p in self.folders if p == path or p.startswith(f"{path}/")}
        self.folders -= folders
        return bool(gone or folders)

    def recover_lease(self, path):
        file = self.file(path)
        if file.writer is not None:
            if self.random.random() < 0.5:
                return False  # under way
            file.writer = None
            del file.data[self.random.randint(file.synced, len(file.data)) :]
        return True

    def file(self, path):
        if path not in self.files:
            raise FileNotFoundError(f"File does not exist: {path}")
        return self.files[path]

    def statuses(self, folder):
        if folder not in self.folders:
            raise FileNotFoundError(folder)
        children = [*self.files, *self.folders]
        return [Status(p) for p in children if p.rpartition("/")[0] == folder and p != "/"]


class Client:
    """A client like `storage.hdfs.client.HdfsClient`."""

    def __init__(self, hdfs):
        self._hdfs = hdfs

    async def mkdirs(self, path):
        await self._hdfs.request("mkdirs", lambda: self._hdfs.mkdirs(path))

    async def create(self, path, options):
        assert not options.create_parent
        writer = Writer(self._hdfs)
        writer.file = await self._hdfs.request("create", lambda: self._hdfs.create(path, writer))
        return writer

    async def rename(self, source, target, overwrite=False):
        effect = lambda: self._hdfs.rename(source, target, overwrite)  # noqa: E731
        await self._hdfs.request("rename", effect)

    async def delete(self, path, recursive=False):
        return await self._hdfs.request("delete", lambda: self._hdfs.delete(path))

    async def recover_lease(self, path):
        return await self._hdfs.request("recover", lambda: self._hdfs.recover_lease(path))

    async def list_status(self, path):
        return await self._hdfs.request("list", lambda: self._hdfs.statuses(path))

    def close(self):
        pass

    async def get_file_info(self, path):
        def effect():
            self._hdfs.file(path)
            return Status(path)

        return await self._hdfs.request("info", effect)

    async def set_replication(self, path, copies):
        return await self._hdfs.request("copies", lambda: bool(self._hdfs.file(path)))

    async def read(self, path):
        file = await self._hdfs.request("open", lambda: self._hdfs.file(path))
        return Reader(self._hdfs, b"" if file.writer is not None else bytes(file.data))


class Writer:
    def __init__(self, hdfs):
        self._hdfs = hdfs
        self.file = None

    def _require_lease(self):
        if not self.file.linked:
            raise FileNotFoundError("does not have any open files")
        if self.file.writer is not self:
            raise RuntimeError('RPCError("org.apache.hadoop.hdfs.server.namenode.LeaseExpired")')

    async def write(self, data):
        """Write, then sync; between the two, unsynced bytes may be lost."""

        def effect():
            self._require_lease()
            self.file.data += data

        await self._hdfs.request("write", effect)
        await self._sync()

    async def _sync(self):
        def effect():
            self._require_lease()
            self.file.synced = len(self.file.data)

        await self._hdfs.request("sync", effect)

    async def close(self):
        def effect():
            self._require_lease()
            self.file.writer = None

        await self._hdfs.request("close", effect)


class Reader:
    def __init__(self, hdfs, data):
        self._hdfs = hdfs
        self._data = data
        self.size = len(data)

    async def read_range(self, offset, count):
        if offset + count > self.size:
            raise Panic("Cannot read past end of the file")
        return await self._hdfs.request("read", lambda: self._data[offset : offset + count])
