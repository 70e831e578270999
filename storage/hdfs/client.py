"""HDFS for coroutines: the client library's blocking calls, each in a thread.

The library's own coroutines are not used, since they can deadlock: threads of the library want
Python's lock while they hold locks of the library, and the event loop, which holds Python's lock,
waits for one of these. When the connection to a NameNode broke at the wrong time, the process hung
for good.

A call that never returns keeps its thread; the program can end nevertheless. Cancelling the wait
for a call does not stop the call.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar, cast

from hdfs_native import Client, FileReader, FileStatus, WriteOptions

if TYPE_CHECKING:
    from hdfs_native._internal import RawFileWriter

T = TypeVar("T")
_Work = Callable[[], None]


class Threads:
    """A pool of as many threads as there are concurrent calls. Idle threads are kept for later
    calls."""

    def __init__(self) -> None:
        self._idle: list[SimpleQueue[_Work | None]] = []
        self._closed = False

    async def run(self, call: Callable[..., T], *arguments: Any) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def work() -> None:
            try:
                result, error = call(*arguments), None
            except BaseException as raised:  # a panic of the library is no Exception
                result, error = None, raised
            with suppress(RuntimeError):  # the loop is gone
                loop.call_soon_threadsafe(_settle, future, result, error)

        self._worker().put(work)
        return await future

    def close(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().put(None)

    def _worker(self) -> SimpleQueue[_Work | None]:
        if self._idle:
            return self._idle.pop()
        queue: SimpleQueue[_Work | None] = SimpleQueue()
        threading.Thread(target=self._serve, args=(queue,), name="hdfs", daemon=True).start()
        return queue

    def _serve(self, queue: SimpleQueue[_Work | None]) -> None:
        while (work := queue.get()) is not None:
            work()
            del work  # it holds what it was called with
            if self._closed:
                return
            self._idle.append(queue)


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return  # the caller was cancelled
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


class HdfsClient:
    """Wraps `hdfs_native.Client`; a method does what its namesake there does."""

    def __init__(self, url: str, settings: Mapping[str, str]) -> None:
        self._client = Client(url, dict(settings))
        self._threads = Threads()

    async def mkdirs(self, path: str) -> None:
        """Create a folder and its missing parents."""
        await self._threads.run(self._client.mkdirs, path, 0o755, True)

    async def create(self, path: str, options: WriteOptions) -> Writer:
        return Writer(self._threads, await self._threads.run(_created, self._client, path, options))

    async def rename(self, source: str, target: str, overwrite: bool = False) -> None:
        await self._threads.run(self._client.rename, source, target, overwrite)

    async def delete(self, path: str, recursive: bool = False) -> bool:
        return await self._threads.run(self._client.delete, path, recursive)

    async def recover_lease(self, path: str) -> bool:
        return await self._threads.run(self._client.recover_lease, path)

    async def list_status(self, path: str) -> list[FileStatus]:
        return await self._threads.run(lambda: list(self._client.list_status(path)))

    async def get_file_info(self, path: str) -> FileStatus:
        return await self._threads.run(self._client.get_file_info, path)

    async def set_replication(self, path: str, copies: int) -> bool:
        return await self._threads.run(self._client.set_replication, path, copies)

    async def read(self, path: str) -> Reader:
        return Reader(self._threads, await self._threads.run(self._client.read, path))

    def close(self) -> None:
        self._threads.close()


class _Nothing:
    """Replaces the raw writer in an object of the library."""

    def close(self) -> None:
        pass


def _created(client: Client, path: str, options: WriteOptions) -> RawFileWriter:
    """Create a file; returns its raw writer, without the library's file object around it.

    Python closes a file object when its last reference goes away, in the thread where that happens.
    This is the event loop's thread if the caller was cancelled, and closing waits for HDFS without
    a limit.
    """
    around = client.create(path, options)
    writer, around.inner = around.inner, cast("RawFileWriter", _Nothing())
    return writer


class Writer:
    def __init__(self, threads: Threads, writer: RawFileWriter) -> None:
        self._threads = threads
        self._writer = writer

    async def write(self, data: bytes) -> None:
        """Append `data`. On return it is on the disks of all DataNodes of the pipeline."""

        def write() -> None:
            self._writer.write(data)
            self._writer.hsync()

        await self._threads.run(write)

    async def close(self) -> None:
        await self._threads.run(self._writer.close)


class Reader:
    def __init__(self, threads: Threads, reader: FileReader) -> None:
        self._threads = threads
        self._reader = reader

    @property
    def size(self) -> int:
        """Bytes of the file; 0 if it is open for writing."""
        return len(self._reader)

    async def read_range(self, offset: int, count: int) -> bytes:
        return await self._threads.run(self._reader.read_range, offset, count)
