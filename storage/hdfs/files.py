"""`LogFiles` on HDFS.

All files of a slave's log lie in one folder, `<log>/<slave>/<epoch>`, named after the epoch of its
owner. An owner takes the log over by renaming that folder. The NameNode does this atomically: of
several processes that try, one succeeds. Requests of the former owner by path (to create, rename or
delete a file) fail from then on, since its folder is gone. Lease recovery stops its appends to a
file that it has open.

A write without an answer in time (the client library waits without end when a DataNode of the
pipeline dies) does not end the log. The owner knows the content of its open file, so it writes that
content again, under another name and over other DataNodes, and moves the copy to the file's place.
A rename without an answer ends the log, however: it might still move the older copy in later.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar
from uuid import uuid4

from hdfs_native import FileStatus, WriteOptions

from hornbeam_server.schema.errors import DiskFull, Unavailable
from hornbeam_server.storage.hdfs.client import HdfsClient, Writer

T = TypeVar("T")

CALL_S = 10.0
SYNC_S = 2.0
CLOSE_S = 5.0
PATIENCE_S = 30.0
"""Seconds for which HDFS may be out of reach before a change fails."""
RECOVERY_S = 120.0
"""Seconds that HDFS may take to close a file. It first waits for DataNodes that do not answer."""
RETRY_S = 0.2
BYTES_PER_S = 16 << 20
"""A slower transfer is given up."""
BLOCK_BYTES = 128 << 20
FEWEST_COPIES = 2
DRAFT = ".new"
"""Suffix of the names of files that are not yet in their place."""


@dataclass(slots=True)
class _Unclosed:
    """A file that this owner has not closed; only the owner knows its content."""

    name: str
    writer: Writer
    content: bytearray


class HdfsFiles:
    """`LogFiles` in the folder `home` of the HDFS at `url`, through a client of its own."""

    def __init__(
        self,
        client: HdfsClient,
        home: str,
        *,
        url: str = "",
        patience_s: float = PATIENCE_S,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        self._client = client
        self._home = home
        self._url = url
        self._patience_s = patience_s
        self._block_bytes = block_bytes
        self._epoch = 0
        self._unclosed: dict[str, _Unclosed] = {}
        self._closings: set[asyncio.Task[None]] = set()
        self._closed = False

    async def fence(self, epoch: int) -> None:
        self._require_open()
        self._epoch = epoch
        try:
            await self._take_over()
            await self._make_durable()
        except (FileNotFoundError, FileExistsError) as error:
            raise await self._gone(error) from error

    async def names(self) -> list[str]:
        self._require_open()
        try:
            return [name for name in await self._listed() if not name.endswith(DRAFT)]
        except FileNotFoundError as error:
            raise await self._gone(error) from error

    async def create(self, name: str, data: bytes) -> None:
        self._require_open()
        try:
            writer = await self._put(name, data, overwrite=False)
        except (FileNotFoundError, FileExistsError) as error:
            raise await self._gone(error) from error
        self._unclosed[name] = _Unclosed(name, writer, bytearray(data))

    async def append(self, name: str, pieces: Sequence[bytes]) -> None:
        data = b"".join(pieces)
        self._require_open()
        file = self._unclosed[name]
        try:
            await self._extend(file, data)
        except FileNotFoundError as error:
            raise await self._gone(error) from error
        file.content += data

    async def finish(self, name: str, data: bytes) -> None:
        await self.append(name, [data])
        self._close_later(self._unclosed[name])

    async def read(self, name: str) -> bytes:
        _, data = await self._ending(name, None)
        return data

    async def tail(self, name: str, count: int) -> tuple[int, bytes]:
        return await self._ending(name, count)

    async def delete(self, names: Sequence[str]) -> None:
        self._require_open()
        for name in names:
            if not await self._call(self._client.delete(self._path(name))):
                raise await self._gone(FileNotFoundError(name))
            self._unclosed.pop(name, None)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._closings:
            await asyncio.wait(self._closings, timeout=CLOSE_S)
        for closing in self._closings:
            closing.cancel()
        self._unclosed.clear()
        self._client.close()

    # ------------------------------------------------------------ taking over

    async def _take_over(self) -> None:
        """Rename the folder to this epoch, and create the home first if there is none. Raises
        Unavailable when a higher epoch holds the folder."""
        while True:
            holder = await self._holder()
            if holder is None:
                await self._found()
            elif holder > self._epoch:
                raise _fenced(holder)
            elif holder == self._epoch:
                return
            else:
                with suppress(FileNotFoundError):  # another process was quicker
                    await self._rename(self._folder(holder), self._folder(self._epoch))
                    return

    async def _holder(self) -> int | None:
        """The epoch that the folder is named after; None before the log's first owner."""
        try:
            names = [
                _name(status) for status in await self._call(self._client.list_status(self._home))
            ]
        except FileNotFoundError:
            return None
        if len(names) != 1 or not names[0].isdigit():
            held = ", ".join(names) or "nothing"
            raise Unavailable(
                f"{self._url}{self._home} is no log: it holds {held}.",
                cure="Move everything out of this folder that Hornbeam has not written.",
            )
        return int(names[0])

    async def _found(self) -> None:
        """Create the home with a folder of no owner in it, both in one step. Otherwise a process
        that began earlier could create that folder again after it has been renamed."""
        draft = f"{self._home}.{uuid4().hex}{DRAFT}"
        folder = f"{draft}/{_epoch_name(0)}"
        await self._call(self._client.mkdirs(folder))
        try:
            await self._rename(draft, self._home)
        except FileExistsError:
            await self._call(self._client.delete(draft, recursive=True))

    async def _make_durable(self) -> None:
        """Stop all appends and make all content durable. The file that was written last is written
        again, since lease recovery keeps bytes that DataNodes have not synced. Each other file was
        finished, or written again, before the next one was created."""
        names = sorted(await self._listed())
        for name in names:
            if name.endswith(DRAFT):
                await self._call(self._client.delete(self._path(name)))
            else:
                await self._recover_lease(name)
        for name in [name for name in names if not name.endswith(DRAFT)][-1:]:
            content = await self.read(name)
            writer = await self._put(name, content, overwrite=True)
            self._close_later(_Unclosed(name, writer, bytearray(content)))

    async def _recover_lease(self, name: str) -> None:
        """Close a file that another writer may have open, or that this owner failed to close."""
        deadline = _now() + RECOVERY_S
        while True:
            try:
                if await self._call(self._client.recover_lease(self._path(name))):
                    return
            except (FileExistsError, Unavailable):  # exists: the last block is being replicated
                if _now() > deadline:
                    raise
            if _now() > deadline:
                raise Unavailable(
                    f"HDFS does not close {self._path(name)}.",
                    cure="Look at HDFS: the blocks of this file need a data node that works.",
                )
            await asyncio.sleep(RETRY_S)

    # ------------------------------------------------------------ writing

    async def _extend(self, file: _Unclosed, data: bytes) -> None:
        """Append to the file, or to a copy that is moved to its place."""
        try:
            await self._write(file.writer, len(file.content), data)
        except DiskFull:
            raise
        except (Unavailable, FileNotFoundError):
            file.writer = await self._put(file.name, bytes(file.content) + data, overwrite=True)

    async def _put(self, name: str, content: bytes, *, overwrite: bool) -> Writer:
        """Create a file with `content`, all of it or none; returns the writer, which can append."""
        draft, writer = await self._drafted(name, content)
        await self._rename(draft, self._path(name), overwrite=overwrite)
        return writer

    async def _drafted(self, name: str, content: bytes) -> tuple[str, Writer]:
        """Write a draft with `content`; returns its path and writer. The NameNode goes on offering
        a DataNode that has died, for seconds or, if it has no other, for minutes. So the next
        attempt asks for one copy less."""
        deadline = _now() + self._patience_s
        wanted = copies = None
        while True:
            # A fresh name: late calls of an earlier attempt touch no other draft.
            draft = self._path(f"{name}.{uuid4().hex}{DRAFT}")
            try:
                writer = await self._create(draft, copies)
                await self._write(writer, 0, content)
            except DiskFull:
                raise
            except Unavailable:
                if _now() > deadline:
                    raise
                with suppress(Unavailable, FileNotFoundError):
                    wanted = wanted or await self._copies(draft)
                    copies = max(wanted - 1, min(wanted, FEWEST_COPIES))
                    await self._call(self._client.delete(draft))
                await asyncio.sleep(RETRY_S)
            else:
                if wanted is not None and copies != wanted:
                    with suppress(Unavailable):
                        await self._call(self._client.set_replication(draft, wanted))
                return draft, writer

    async def _create(self, path: str, copies: int | None) -> Writer:
        """Create a file. A missing folder is not created: this is the fence."""
        options = WriteOptions(self._block_bytes, copies, overwrite=False, create_parent=False)
        return await self._call(self._client.create(path, options))

    async def _copies(self, path: str) -> int:
        return (await self._call(self._client.get_file_info(path))).replication or 1

    async def _write(self, writer: Writer, size: int, data: bytes) -> None:
        """Write `data` durably behind the `size` bytes that the writer has written. Each block is
        written by itself, since a sync reaches no block before the current one."""
        begin = 0
        while begin < len(data):
            room = self._block_bytes - (size + begin) % self._block_bytes
            piece = data[begin : begin + room]
            await self._call(writer.write(piece), SYNC_S + len(piece) / BYTES_PER_S)
            begin += len(piece)

    def _close_later(self, file: _Unclosed) -> None:
        """Close the file in the background, which takes half a second. Its content is durable
        already, and is read from memory until then."""
        self._unclosed[file.name] = file
        closing = asyncio.create_task(self._close_file(file))
        self._closings.add(closing)
        closing.add_done_callback(self._closings.discard)

    async def _close_file(self, file: _Unclosed) -> None:
        """Close the file. If that fails, the next owner will close it."""
        with suppress(Unavailable, FileNotFoundError):
            try:
                await self._call(file.writer.close(), CLOSE_S)
            except Unavailable:
                await self._recover_lease(file.name)
            self._unclosed.pop(file.name, None)

    async def _rename(self, source: str, target: str, *, overwrite: bool = False) -> None:
        await self._call(self._client.rename(source, target, overwrite))

    # ------------------------------------------------------------ reading

    async def _ending(self, name: str, count: int | None) -> tuple[int, bytes]:
        """Size of a file and its last `count` bytes; None for all."""
        self._require_open()
        file = self._unclosed.get(name)
        if file is not None:
            size = len(file.content)
            count = size if count is None else min(count, size)
            return size, bytes(file.content[size - count :])
        try:
            reader = await self._call(self._client.read(self._path(name)))
            size = reader.size
            count = size if count is None else min(count, size)
            data = await self._call(
                reader.read_range(size - count, count), CALL_S + count / BYTES_PER_S
            )
        except FileNotFoundError as error:
            raise await self._gone(error) from error
        return size, data

    async def _listed(self) -> list[str]:
        return [
            _name(file)
            for file in await self._call(self._client.list_status(self._folder(self._epoch)))
        ]

    # ------------------------------------------------------------ calls

    async def _call(self, work: Awaitable[T], seconds: float = CALL_S) -> T:
        """The result of `work` within `seconds`. Raises FileNotFoundError, FileExistsError,
        DiskFull, or Unavailable for all else."""
        try:
            async with asyncio.timeout(seconds):
                return await work
        except (FileNotFoundError, FileExistsError):
            raise
        except TimeoutError:
            raise self._mapped(f"no answer in {seconds:g} s") from None
        except Exception as error:
            raise self._mapped(_line(error)) from error
        except BaseException as error:
            if type(error).__name__ == "PanicException":  # of the client library; no Exception
                raise self._mapped(_line(error)) from error
            raise

    def _mapped(self, said: str) -> Unavailable:
        if "QuotaExceededException" in said or _no_room(said):
            return DiskFull(
                f"The log in {self._url}{self._home} cannot grow: {said}",
                cure="Free space or raise the quota, and restart.",
            )
        return Unavailable(f"The log in {self._url}{self._home} cannot be used: {said}")

    async def _gone(self, error: OSError) -> Unavailable:
        """The error to raise for a file that is missing, or exists, against expectation."""
        holder = await self._holder()
        if holder is not None and holder != self._epoch:
            return _fenced(holder)
        return self._mapped(_line(error))

    def _folder(self, epoch: int) -> str:
        return f"{self._home}/{_epoch_name(epoch)}"

    def _path(self, name: str) -> str:
        return f"{self._folder(self._epoch)}/{name}"

    def _require_open(self) -> None:
        if self._closed:
            raise Unavailable("The log is closed.")


def _now() -> float:
    return asyncio.get_running_loop().time()


def _name(status: FileStatus) -> str:
    return status.path.rsplit("/", 1)[-1]


def _epoch_name(epoch: int) -> str:
    return f"{epoch:010d}"


def _fenced(holder: int) -> Unavailable:
    return Unavailable(f"The log is fenced: epoch {holder} has taken over.")


def _no_room(said: str) -> bool:
    """True if DataNodes run and none of them accepts a block. If some were excluded, as those that
    do not answer are, the others may just not have reported their disks yet to a NameNode that came
    back."""
    refused = "could only be written to 0 of" in said
    all_asked = re.search(r" (no|0) node\(s\) are excluded", said) is not None
    return refused and all_asked and "There are 0 datanode(s) running" not in said


def _line(error: BaseException) -> str:
    """The message of an error of HDFS, without its stack trace."""
    return str(error).replace("\\n", "\n").partition("\n")[0]
