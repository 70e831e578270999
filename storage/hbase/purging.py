"""Purges of old versions in HBase."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from hornbeam_server.storage.hbase import ranges
from hornbeam_server.storage.hbase.calls import Calls
from hornbeam_server.storage.hbase.cells import FAMILY, QUALIFIER, get_of, value_of
from hornbeam_server.storage.hbase.interface import THRIFT
from hornbeam_server.storage.ports import TOMBSTONE

LONG_PURGE_S, RESTS = 1.0, 20
"""After a purge that took longer than LONG_PURGE_S, the table is not purged for RESTS times that
duration: HBase has other work."""


PURGED_ROWS = 500
"""Maximum number of rows in one call."""


class Purging:
    """Drops old versions."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._purged: dict[str, int] = {}
        """Per table the horizon of the last purge."""
        self._rests_until: dict[str, float] = {}
        """Per table the monotonic time until which it is not purged again."""

    def forget(self, table: str) -> None:
        """Forget a table that was dropped."""
        self._purged.pop(table, None)

    async def purge(self, table: str, horizon: int) -> int:
        """Drop versions that no snapshot at or above `horizon` reads; returns how many.

        Only rows with a version in (last horizon, `horizon`] can have new versions to drop; HBase
        skips files without such rows. Dropped versions are hidden at once, by a delete marker per
        row for all versions up to a timestamp. Compactions remove them from the disks.

        In a file with such rows HBase reads everything for the few rows, and does not answer before
        it has found them. So a search has a deadline of its own, and a table with a long purge is
        not purged again for a multiple of that time; the purge then returns 0.
        """
        await self._calls.in_thread(partial(self._calls.call, table, lambda client, name: None))
        if (began := time.monotonic()) < self._rests_until.get(table, began):
            return 0
        try:
            return await self._purge_since(table, self._purged.get(table, -1), horizon)
        finally:
            if (took_s := time.monotonic() - began) > LONG_PURGE_S:
                self._rests_until[table] = time.monotonic() + RESTS * took_s

    async def _purge_since(self, table: str, since: int, horizon: int) -> int:
        dropped, left = 0, ranges.stored_range(b"", None)
        while since < horizon:
            wanted = ranges.scan(
                [left],
                PURGED_ROWS,
                timeRange=ranges.time_range(since + 1, horizon),
                filterString=b"KeyOnlyFilter()",
            )
            rows = await self._calls.in_thread(partial(self._found, table, wanted, PURGED_ROWS))
            keys = [row.row for row in rows]
            if keys:
                dropped += await self._calls.in_thread(partial(self._purge, table, keys, horizon))
            if len(rows) < PURGED_ROWS:
                self._purged[table] = horizon
                break
            left = left._replace(start=keys[-1] + b"\0")
        return dropped

    def _found(self, table: str, wanted: Any, count: int) -> list[Any]:
        """The first rows of a scan that may read many rows to find a few."""
        return self._calls.call(
            table, lambda client, name: client.getScannerResults(name, wanted, count), search=True
        )

    def _purge(self, table: str, rows: Sequence[bytes], horizon: int) -> int:
        """Drop the versions of `rows` that no snapshot ≥ `horizon` reads; returns how many."""
        when = ranges.time_range(0, horizon)
        gets = [get_of(row, when, ranges.ALL_VERSIONS) for row in rows]
        results = self._calls.call(table, lambda client, name: client.getMultiple(name, gets))
        dropped, deletes = 0, []
        for result in results:
            hidden = invisible(result.columnValues)
            if hidden:
                dropped += len(hidden)
                deletes.append(_delete(result.row, hidden[0].timestamp))
        if deletes:
            self._calls.call(table, lambda client, name: client.deleteMultiple(name, deletes))
        return dropped


def _delete(row: bytes, ts: int) -> Any:
    """A delete of all versions ≤ `ts`. A crash may undo it, as it may undo any purge."""
    return THRIFT.TDelete(
        row=row,
        columns=[THRIFT.TColumn(family=FAMILY, qualifier=QUALIFIER, timestamp=ts)],
        deleteType=THRIFT.TDeleteType.DELETE_COLUMNS,
        durability=THRIFT.TDurability.ASYNC_WAL,
    )


def invisible(columns: Sequence[Any]) -> Sequence[Any]:
    """The versions that no snapshot ≥ a horizon reads. `columns` are all versions of a row ≤ that
    horizon, newest first; each has a `value` and a `timestamp`.

    Such snapshots read the newest one, unless it is a tombstone: without it the row is absent, too.
    """
    if not columns or value_of(columns[0].value) == TOMBSTONE:
        return columns
    return columns[1:]
