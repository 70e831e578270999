"""Flushes: HBase's logs are forced to disk."""

from __future__ import annotations

import asyncio
import time
from functools import partial

from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.storage.hbase import servers
from hornbeam_server.storage.hbase.calls import ATTEMPT, PAUSES_S, Calls
from hornbeam_server.storage.hbase.cells import FAMILY, FLUSHED
from hornbeam_server.storage.hbase.interface import THRIFT


class Flushing:
    """Forces the logs of HBase's servers to disk."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self.unflushed: set[str] = set()
        """Tables with puts that have returned, or failed, since the last flush."""
        self._running = asyncio.Lock()

    async def flush(self) -> None:
        """Force the logs of written tables to disk.

        A mutation with FSYNC_WAL forces everything that its region server has logged to disk. So
        one mutation on each server is enough, if its region is still on that server afterwards. A
        region with puts that has left its server, meanwhile or earlier, was written to files when
        it left. If a region is about to leave its server, this method waits for it.
        """
        async with self._running:
            self._calls.require_open()
            written, self.unflushed = self.unflushed, set()
            try:
                if written:
                    await self._force_logs(written)
            except BaseException:
                self.unflushed |= written
                raise

    async def _force_logs(self, written: set[str]) -> None:
        deadline = time.monotonic() + self._calls.timeout_s
        while True:
            chosen = {
                region.server: region for region in await servers.regions(self._calls, written)
            }
            if None not in chosen:
                await self._calls.all(
                    [partial(self._force_log, region) for region in chosen.values()]
                )
                if set(chosen.values()) <= set(await servers.regions(self._calls, written)):
                    return
            if time.monotonic() > deadline:
                raise Unavailable(
                    "HBase's logs cannot be forced to disk: regions are moving.",
                    cure="Try again when HBase has no regions in transition.",
                )
            await asyncio.sleep(PAUSES_S[0])

    def _force_log(self, region: servers.Region) -> None:
        """Put a cell with FSYNC_WAL into `region`. It is always the same cell, in a column that no
        read of this store asks for."""
        mark = THRIFT.TPut(
            row=region.first,
            columnValues=[THRIFT.TColumnValue(family=FAMILY, qualifier=FLUSHED, value=b"")],
            timestamp=0,
            durability=THRIFT.TDurability.FSYNC_WAL,
        )
        self._calls.repeat(
            "HBase's log",
            lambda client: client.put(region.table, mark),
            self._calls.timeout_s,
            self._calls.timeout_s * ATTEMPT,
        )
