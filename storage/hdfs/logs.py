"""`Logs` on HDFS: the folders beside one another in which slaves have their logs.

A home's time of change is that of the last rename in it: when it was founded, or taken over
(decision 19). Removing it is one step at the NameNode. A draft of a home that was not finished
looks like a log, and is one that nobody needs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from typing import TypeVar

from schema.errors import Unavailable
from storage.hdfs.client import HdfsClient

T = TypeVar("T")
CALL_S = 10.0


class HdfsLogs:
    """In `folder`, through a client of its own."""

    def __init__(self, client: HdfsClient, folder: str) -> None:
        self._client = client
        self._folder = folder

    async def touched(self) -> Mapping[str, int]:
        try:
            found = await self._call(self._client.list_status(self._folder))
        except FileNotFoundError:
            return {}
        return {status.path.rsplit("/", 1)[-1]: status.modification_time for status in found}

    async def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            await self._call(self._client.delete(f"{self._folder}/{name}", recursive=True))

    async def close(self) -> None:
        self._client.close()

    async def _call(self, work: Awaitable[T]) -> T:
        """Raises FileNotFoundError, or Unavailable for all else."""
        try:
            async with asyncio.timeout(CALL_S):
                return await work
        except FileNotFoundError:
            raise
        except Exception as error:
            raise Unavailable(f"The logs in {self._folder} cannot be seen: {error!r}") from error
