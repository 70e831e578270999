"""The table store over HBase, through its Thrift 2 gateways.

Versions are HBase's own: a read at timestamp `at` takes the newest cell of the time range [0, at],
so a scan needs no state in a server. Each batch of a scan is a call of its own that begins behind
the last key. Any gateway answers it, whatever regions and servers have done since.

A put is in its region server's log when it returns, in the memory of all data nodes that keep a
copy (SYNC_WAL); `flush` forces these logs to disk. The files that HBase writes from then on are
on disk once they are closed if HDFS's `dfs.datanode.synconclose` is true, as it should be.

Concurrent gets of one table at one timestamp share calls, and so do concurrent puts into one table
(`sharing`).

A call that failed, or was given up at its deadline, may take effect later: gateways and region
servers repeat it for as long as they are configured to. So all calls but `check_and_put` must be
repeatable; this store repeats them within the deadline. A late put writes the same version as its
repetition; versions that `purge` has hidden stay hidden (see `storage.hbase.tables`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from hornbeam_server.schema.errors import Corruption
from hornbeam_server.storage.hbase import ranges
from hornbeam_server.storage.hbase.calls import TIMEOUT_S, Calls
from hornbeam_server.storage.hbase.cells import (
    FAMILY,
    QUALIFIER,
    get_of,
    is_signed,
    key_of,
    signed,
    stored_key,
    stored_value,
    value_of,
)
from hornbeam_server.storage.hbase.definitions import Definitions
from hornbeam_server.storage.hbase.flushing import Flushing
from hornbeam_server.storage.hbase.interface import THRIFT
from hornbeam_server.storage.hbase.messages import call_of_puts
from hornbeam_server.storage.hbase.purging import Purging
from hornbeam_server.storage.hbase.reads import CALL_BYTES, LARGEST_BATCH, Reads, route_of
from hornbeam_server.storage.hbase.sharing import SharedCalls
from hornbeam_server.storage.ports import NEWEST, TOMBSTONE, Put
from hornbeam_server.storage.together import all_settled

PUTS = 1_000
"""Maximum number of puts in one call."""
_Version = tuple[Put, int]
"""A put and its timestamp."""


class HBaseStore:
    """A `TableStore` in one namespace of HBase."""

    remote = True
    direct = None

    def __init__(
        self,
        gateways: Sequence[tuple[str, int]],
        *,
        namespace: str = "hornbeam",
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._calls = Calls(gateways, namespace, timeout_s)
        self._definitions = Definitions(self._calls)
        self._reads = Reads(self._calls)
        self._flushing = Flushing(self._calls)
        self._purging = Purging(self._calls)
        self._puts = SharedCalls(self._put_all, timeout_s)
        # Operations of the parts are operations of the store.
        self.create_table, self.tables = self._definitions.create, self._definitions.names
        self.get, self.scan = self._reads.get, self._reads.scan
        self.scan_prefixes, self.scan_values = self._reads.scan_prefixes, self._reads.scan_values
        self.flush = self._flushing.flush
        self.purge = self._purging.purge

    async def drop_table(self, table: str) -> None:
        await self._definitions.drop(table)
        self._purging.forget(table)

    async def put(self, writes: Mapping[str, Sequence[Put]], ts: int) -> None:
        try:
            await all_settled(
                [
                    self._puts.ask((table, route_of(puts)), [(put, ts) for put in puts])
                    for table, puts in writes.items()
                ]
            )
        finally:
            self._flushing.unflushed.update(writes)

    async def _put_all(self, route: tuple[str, object], versions: Sequence[_Version]) -> list[None]:
        table, _ = route
        self._calls.require_open()
        await all_settled([self._put(table, chunk) for chunk in _chunks(versions)])
        return [None] * len(versions)

    async def _put(self, table: str, versions: Sequence[_Version]) -> None:
        stored = [(stored_key(key), stored_value(value), ts) for (key, value), ts in versions]
        await self._calls.call_at_once(table, *call_of_puts(self._calls.full_name(table), stored))

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
            if _present(stored) != expected:
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

    async def splits(self, table: str) -> list[bytes]:
        """The first keys of the table's regions, without that of the first region."""
        regions = await self._flushing.regions({self._calls.full_name(table)})
        if not regions:
            raise Corruption(f"Table {table} does not exist in the store.")
        return sorted(key for region in regions if (key := key_of(region.first)))

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

    async def close(self) -> None:
        """As the port says. Waits for running calls, each until its deadline at most, and aborts
        searches."""
        if self._calls.closed:
            return
        try:
            await self.flush()
        finally:
            self._calls.refuse()
            await self._reads.shared.finish()
            await self._puts.finish()
            await self._calls.close()


def _put(row: bytes, stored: bytes, ts: int) -> Any:
    column = THRIFT.TColumnValue(family=FAMILY, qualifier=QUALIFIER, value=stored)
    return THRIFT.TPut(row=row, columnValues=[column], timestamp=ts)


def _present(stored: bytes | None) -> bytes | None:
    """The value of a cell; None: there is none, or a tombstone."""
    value = value_of(stored) if stored is not None else TOMBSTONE
    return value if value != TOMBSTONE else None


def _chunks(versions: Sequence[_Version]) -> Iterator[Sequence[_Version]]:
    """Split `versions` into parts of a bounded size. Of several puts of one version of a row the
    last one stays."""
    if len({key for (key, _), _ in versions}) < len(versions):
        versions = list({(put.key, ts): (put, ts) for put, ts in versions}.values())
    begin = size = 0
    for i, ((key, value), _) in enumerate(versions):
        size += len(key) + len(value)
        if i - begin == PUTS - 1 or size >= CALL_BYTES:
            yield versions[begin : i + 1]
            begin, size = i + 1, 0
    if begin < len(versions):
        yield versions[begin:]
