"""The table store over HBase, through its Thrift 2 gateways.

A put is in its region server's log when it returns, in the memory of all data nodes that keep a
copy (SYNC_WAL); `flush` forces these logs to disk. The files that HBase writes from then on are
on disk once they are closed if HDFS's `dfs.datanode.synconclose` is true, as it should be.

What all stores over gateways have in common is in `storage.hbase.base`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from hornbeam_server.storage.hbase import ranges
from hornbeam_server.storage.hbase.base import GatewayStore, present
from hornbeam_server.storage.hbase.calls import TIMEOUT_S, Calls
from hornbeam_server.storage.hbase.cells import (
    FAMILY,
    QUALIFIER,
    get_of,
    is_signed,
    signed,
    stored_key,
    value_of,
)
from hornbeam_server.storage.hbase.definitions import Definitions
from hornbeam_server.storage.hbase.flushing import Flushing
from hornbeam_server.storage.hbase.interface import THRIFT
from hornbeam_server.storage.hbase.purging import Purging
from hornbeam_server.storage.hbase.reads import LARGEST_BATCH
from hornbeam_server.storage.ports import NEWEST


class HBaseStore(GatewayStore):
    """A `TableStore` in one namespace of HBase."""

    def __init__(
        self,
        gateways: Sequence[tuple[str, int]],
        *,
        namespace: str = "hornbeam",
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        calls = Calls(gateways, namespace, timeout_s)
        super().__init__(calls, Definitions(calls), Flushing(calls), Purging(calls))

    async def check_and_put(
        self, table: str, key: bytes, expected: bytes | None, value: bytes, ts: int
    ) -> bool:
        """As the port says.

        HBase compares the bytes of a row's newest cell and puts at a timestamp that was chosen
        before. If the value that was read went away and has come back, the comparison
        would succeed and the put might lie below the newest version. So the comparison is made
        with bytes that no other version has. This method writes values with a fresh signature. A
        newest version without a signature is first written again with one, at its own timestamp;
        readers get the same value, whatever has happened since. A row without any version needs no
        signature: HBase compares with absence, and a tombstone is not an empty cell.

        The signature also shows whether a put that HBase's client repeated, and then reports as
        refused, was made by this call.
        """
        try:
            return await self._calls.in_thread(
                partial(self._check_and_put, table, stored_key(key), expected, value, ts)
            )
        finally:
            self._flushing.unflushed.add(table)

    def _check_and_put(
        self, table: str, row: bytes, expected: bytes | None, value: bytes, ts: int
    ) -> bool:
        ours = signed(value)
        tried: set[int] = set()
        while True:
            newest = self._newest(table, row, NEWEST)
            stored = newest.value if newest is not None else None
            if any(self._is_at(table, row, ours, version) for version in tried):
                return True
            if present(stored) != expected:
                return False
            if newest is None:
                version = ts
            elif is_signed(newest.value):
                version = max(ts, newest.timestamp + 1)
            else:
                self._swap(table, row, stored, signed(value_of(newest.value)), newest.timestamp)
                continue
            tried.add(version)
            if self._swap(table, row, stored, ours, version):
                return True

    def _newest(self, table: str, row: bytes, at: int) -> Any | None:
        """The newest column with ts ≤ `at`, also if it is a tombstone; None if there is none."""
        wanted = get_of(row, ranges.time_range(0, at), 1)
        result = self._calls.call(table, lambda client, name: client.get(name, wanted))
        return result.columnValues[0] if result.columnValues else None

    def _is_at(self, table: str, row: bytes, stored: bytes, version: int) -> bool:
        found = self._newest(table, row, version)
        return found is not None and found.timestamp == version and found.value == stored

    def _swap(self, table: str, row: bytes, old: bytes | None, new: bytes, ts: int) -> bool:
        """Put `new` at `ts` if the newest cell has the bytes `old` (None: there is none)."""
        swapped: bool = self._calls.call(
            table,
            lambda client, name: client.checkAndPut(
                name, row, FAMILY, QUALIFIER, old, _put(row, new, ts)
            ),
            repeatable=False,
        )
        return swapped

    async def size(self, table: str) -> int:
        """As the port says. A scan over all versions reads lengths instead of values."""
        total, left, count = 0, ranges.stored_range(b"", None), LARGEST_BATCH
        while True:
            wanted = ranges.scan(
                [left],
                count,
                maxVersions=ranges.ALL_VERSIONS,
                filterString=b"KeyOnlyFilter(true)",
                cacheBlocks=False,
            )
            rows = await self._calls.in_thread(partial(self._rows, table, wanted, count))
            for row in rows:
                lengths = [int.from_bytes(cell.value) for cell in row.columnValues]
                total += len(row.row) * len(lengths) + sum(lengths)
            if len(rows) < count:
                return total
            left = left._replace(start=rows[-1].row + b"\0")

    def _rows(self, table: str, wanted: Any, count: int) -> list[Any]:
        return self._calls.call(
            table, lambda client, name: client.getScannerResults(name, wanted, count)
        )


def _put(row: bytes, stored: bytes, ts: int) -> Any:
    column = THRIFT.TColumnValue(family=FAMILY, qualifier=QUALIFIER, value=stored)
    return THRIFT.TPut(row=row, columnValues=[column], timestamp=ts)
