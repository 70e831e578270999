"""`Logs` on HDFS: one folder holds the homes of all logs, side by side.

Segments are read where they lie, while their owner writes others. Meanwhile another process may
take the log over, which renames the folder of the segments (decision 19); the reader then looks the
folder up again. A file that its writer has not closed, perhaps because the writer died, reads as
shorter than it is. So a segment that does not end with a seal is read again once HDFS reports it as
closed.

The modification time of a home is that of the last rename in it: when the log was founded, or taken
over (decision 19). Removing a home is one step at the NameNode. An unfinished draft of a home looks
like a log, and no process needs it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TypeVar

from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.storage.hdfs.client import HdfsClient
from hornbeam_server.storage.hdfs.files import BYTES_PER_S, RECOVERY_S, RETRY_S
from hornbeam_server.storage.log.format import is_sealed, segment_name
from hornbeam_server.storage.log.segments import sorted_segments

T = TypeVar("T")
CALL_S = 10.0
CLOSING_S = 1.0
"""A writer usually closes the file of a segment within this time after the seal."""


class HdfsLogs:
    """The logs in `folder`, through a client of its own."""

    def __init__(self, client: HdfsClient, folder: str) -> None:
        self._client = client
        self._folder = folder

    async def touched(self) -> Mapping[str, int]:
        try:
            found = await self._call(self._client.list_status(self._folder))
        except FileNotFoundError:
            return {}
        return {status.path.rsplit("/", 1)[-1]: status.modification_time for status in found}

    async def segments(self, name: str) -> list[tuple[int, int]]:
        return sorted_segments(await self._in_holder(name, self._names) or [])

    async def read(self, name: str, epoch: int, sequence: int) -> bytes | None:
        file = segment_name(epoch, sequence)
        data = await self._in_holder(name, partial(self._content, file))
        deadline = _now() + CLOSING_S
        while data is not None and not is_sealed(data, epoch, sequence) and _now() < deadline:
            await asyncio.sleep(RETRY_S)
            data = await self._in_holder(name, partial(self._content, file))
        if data is None or is_sealed(data, epoch, sequence):
            return data
        await self._in_holder(name, partial(self._closed, file))
        return await self._in_holder(name, partial(self._content, file))

    async def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            await self._call(self._client.delete(f"{self._folder}/{name}", recursive=True))

    async def close(self) -> None:
        self._client.close()

    async def _in_holder(self, name: str, work: Callable[[str], Awaitable[T]]) -> T | None:
        """The result of `work` in the folder that holds the files of a log now; None if there is
        no such log or `work` finds no file."""
        home, before = f"{self._folder}/{name}", ""
        while True:
            try:
                (holder,) = await self._names(home)
            except FileNotFoundError:
                return None
            except ValueError:
                raise Unavailable(
                    f"{home} is no log: it does not hold exactly one folder.",
                    cure="Move everything out of it that Hornbeam has not written.",
                ) from None
            if holder == before:
                return None
            with suppress(FileNotFoundError):
                return await work(f"{home}/{holder}")
            before = holder

    async def _names(self, folder: str) -> list[str]:
        found = await self._call(self._client.list_status(folder))
        return [status.path.rsplit("/", 1)[-1] for status in found]

    async def _content(self, file: str, folder: str) -> bytes:
        reader = await self._call(self._client.read(f"{folder}/{file}"))
        seconds = CALL_S + reader.size / BYTES_PER_S
        return await self._call(reader.read_range(0, reader.size), seconds)

    async def _closed(self, file: str, folder: str) -> None:
        """Close a file to which no process appends any more: its writer is gone, or has only to
        close it. Raises Unavailable."""
        deadline = _now() + RECOVERY_S
        while True:
            try:
                if await self._call(self._client.recover_lease(f"{folder}/{file}")):
                    return
            except Unavailable:  # its last block is being replicated
                if _now() > deadline:
                    raise
            if _now() > deadline:
                raise Unavailable(
                    f"HDFS does not close {folder}/{file}.",
                    cure="Look at HDFS: the blocks of this file need a data node that works.",
                )
            await asyncio.sleep(RETRY_S)

    async def _call(self, work: Awaitable[T], seconds: float = CALL_S) -> T:
        """Raises FileNotFoundError, or Unavailable for all else."""
        try:
            async with asyncio.timeout(seconds):
                return await work
        except FileNotFoundError:
            raise
        except Exception as error:
            raise Unavailable(
                f"The logs in {self._folder} cannot be read: {error!r}.",
                cure="Look whether HDFS answers, and whether this process may read the folder.",
            ) from error


def _now() -> float:
    return asyncio.get_running_loop().time()
