"""A table store in memory.

What a crash would leave is kept apart from what is there: a put belongs to the process's machine
at once (a crash of the process keeps it) and to the disk after `flush`. `crashed` gives the store
that the next process finds.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, insort
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import islice

from schema.errors import Corruption, Unavailable
from storage.codec.keys import successor
from storage.ports import NEWEST, TOMBSTONE, Cell, Put

BATCH = 256


@dataclass
class _Table:
    """Versions by key; `keys` holds the same keys in order."""

    keys: list[bytes] = field(default_factory=list)
    versions: dict[bytes, dict[int, bytes]] = field(default_factory=dict)

    def put(self, key: bytes, value: bytes, ts: int) -> None:
        if key not in self.versions:
            insort(self.keys, key)
            self.versions[key] = {}
        self.versions[key][ts] = value

    def newest(self, key: bytes, at: int) -> Cell | None:
        """Newest version with ts ≤ `at`, tombstones too."""
        versions = self.versions.get(key, {})
        ts = max((ts for ts in versions if ts <= at), default=None)
        return Cell(key, ts, versions[ts]) if ts is not None else None

    def between(self, start: bytes, end: bytes | None) -> list[bytes]:
        """Keys with start ≤ key < end, in order."""
        last = len(self.keys) if end is None else bisect_left(self.keys, end)
        return self.keys[bisect_left(self.keys, start) : last]

    def rows(self, keys: Sequence[bytes], at: int) -> Iterator[Cell]:
        for key in keys:
            cell = self.newest(key, at)
            if cell is not None and cell.value != TOMBSTONE:
                yield cell

    def purge(self, horizon: int) -> int:
        dropped = 0
        for key, versions in self.versions.items():
            seen = self.newest(key, horizon)
            if seen is None:
                continue
            kept = seen.ts if seen.value != TOMBSTONE else seen.ts + 1
            gone = [ts for ts in versions if ts < kept]
            for ts in gone:
                del versions[ts]
            dropped += len(gone)
        self.keys = [key for key in self.keys if self.versions[key]]
        self.versions = {key: self.versions[key] for key in self.keys}
        return dropped


class SimulatedStore:
    """A `TableStore` in memory. Every call lets other tasks run before it takes effect."""

    def __init__(self) -> None:
        self._tables: dict[str, _Table] = {}
        self._flushed: dict[str, _Table] = {}
        self._unflushed: list[tuple[str, Put, int]] = []
        self._closed = False

    def crashed(self, keep: Callable[[], bool] | None = None) -> SimulatedStore:
        """The store as the next process finds it.

        Without `keep` only the process has crashed (or closed the store). With it the machine
        has: every put since the last flush is kept if `keep` says so.
        """
        found = SimulatedStore()
        found._flushed = deepcopy(self._flushed)
        if keep is None:
            found._tables, found._unflushed = deepcopy(self._tables), list(self._unflushed)
            return found
        for table, (key, value), ts in self._unflushed:
            if keep():
                found._flushed[table].put(key, value, ts)
        found._tables = deepcopy(found._flushed)
        return found

    # ------------------------------------------------------------ tables

    async def create_table(self, table: str) -> None:
        await self._turn()
        if table not in self._tables:
            self._tables[table] = _Table()
            self._flushed[table] = _Table()

    async def drop_table(self, table: str) -> None:
        await self._turn()
        self._tables.pop(table, None)
        self._flushed.pop(table, None)
        self._unflushed = [item for item in self._unflushed if item[0] != table]

    async def tables(self) -> list[str]:
        await self._turn()
        return sorted(self._tables)

    def _table(self, table: str) -> _Table:
        found = self._tables.get(table)
        if found is None:
            raise Corruption(f"Table {table} does not exist in the store.")
        return found

    # ------------------------------------------------------------ reads

    async def get(self, table: str, keys: Sequence[bytes], at: int) -> list[Cell | None]:
        await self._turn()
        found = self._table(table)
        return [next(found.rows([key], at), None) for key in keys]

    async def scan(
        self,
        table: str,
        start: bytes,
        end: bytes | None,
        at: int,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[list[Cell]]:
        await self._turn()
        found = self._table(table)
        keys = found.between(start, end)
        rows = islice(found.rows(keys[::-1] if reverse else keys, at), limit)
        while batch := list(islice(rows, BATCH)):
            yield batch
            await self._turn()

    async def scan_prefixes(
        self, table: str, prefixes: Sequence[bytes], at: int
    ) -> list[list[Cell]]:
        await self._turn()
        found = self._table(table)
        return [
            list(found.rows(found.between(prefix, successor(prefix)), at)) for prefix in prefixes
        ]

    # ------------------------------------------------------------ writes

    async def put(self, writes: Mapping[str, Sequence[Put]], ts: int) -> None:
        await self._turn()
        for table in writes:
            self._table(table)
        for table, puts in writes.items():
            for put in puts:
                self._write(table, put, ts)

    async def check_and_put(
        self, table: str, key: bytes, expected: bytes | None, value: bytes, ts: int
    ) -> bool:
        await self._turn()
        newest = self._table(table).newest(key, NEWEST)
        present = newest.value if newest is not None and newest.value != TOMBSTONE else None
        if present != expected:
            return False
        self._write(table, Put(key, value), max(ts, newest.ts + 1) if newest is not None else ts)
        return True

    def _write(self, table: str, put: Put, ts: int) -> None:
        self._tables[table].put(put.key, put.value, ts)
        self._unflushed.append((table, put, ts))

    async def flush(self) -> None:
        await self._turn()
        for table, (key, value), ts in self._unflushed:
            self._flushed[table].put(key, value, ts)
        self._unflushed.clear()

    # ------------------------------------------------------------ upkeep

    async def purge(self, table: str, horizon: int) -> int:
        # A crash may undo it: what it dropped shows in no snapshot that is still allowed.
        await self._turn()
        return self._table(table).purge(horizon)

    async def size(self, table: str) -> int:
        await self._turn()
        return sum(
            len(key) + len(value)
            for key, versions in self._table(table).versions.items()
            for value in versions.values()
        )

    async def close(self) -> None:
        if not self._closed:
            await self.flush()
            self._closed = True

    async def _turn(self) -> None:
        if self._closed:
            raise Unavailable("The store is closed.")
        await asyncio.sleep(0)
