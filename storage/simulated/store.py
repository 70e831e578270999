"""A table store in memory: the service `SimulatedTables`, and its client `SimulatedStore`.

The service keeps the present rows and, apart from them, the rows that a crash would leave. A put is
in the memory of the service's machine at once, so that a crash of a client process keeps it. It is
on disk after `flush`. `lose` crashes the machine.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from hornbeam_server.schema.errors import Corruption, Unavailable
from hornbeam_server.storage.batches import bytes_of_values, fitting, groups_within
from hornbeam_server.storage.codec.keys import successor
from hornbeam_server.storage.ports import BATCH_BYTES, NEWEST, TOMBSTONE, Cell, Put, TableStore
from hornbeam_server.storage.simulated.network import AtOnce, Calls

SCAN_ROWS = 256
SPLIT_ROWS = 1_000


@dataclass
class _Row:
    """Values by timestamp; `order` holds the timestamps from old to new."""

    order: list[int] = field(default_factory=list)
    values: dict[int, bytes] = field(default_factory=dict)


@dataclass
class _Table:
    """Rows by key; `keys` holds the same keys in order, `purgeable` those that have more than one
    version or a tombstone."""

    keys: list[bytes] = field(default_factory=list)
    row: dict[bytes, _Row] = field(default_factory=dict)
    purgeable: set[bytes] = field(default_factory=set)

    def copy(self) -> _Table:
        rows = {key: _Row(row.order[:], row.values.copy()) for key, row in self.row.items()}
        return _Table(self.keys[:], rows, self.purgeable.copy())

    def put(self, key: bytes, value: bytes, ts: int) -> None:
        row = self.row.get(key)
        if row is None:
            insort(self.keys, key)
            row = self.row[key] = _Row()
        if ts not in row.values:
            insort(row.order, ts)
        row.values[ts] = value
        if len(row.order) > 1 or value == TOMBSTONE:
            self.purgeable.add(key)

    def newest(self, key: bytes, at: int) -> Cell | None:
        """The newest version of a row with ts ≤ `at`, also if it is a tombstone."""
        row = self.row.get(key)
        place = bisect_right(row.order, at) if row is not None else 0
        if row is None or not place:
            return None
        ts = row.order[place - 1]
        return Cell(key, ts, row.values[ts])

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
        for key in list(self.purgeable):
            row = self.row[key]
            gone = bisect_right(row.order, horizon) - 1
            if gone < 0:
                continue
            if row.values[row.order[gone]] == TOMBSTONE:
                gone += 1
            for ts in row.order[:gone]:
                del row.values[ts]
            del row.order[:gone]
            dropped += gone
            if not row.order:
                del self.row[key]
                del self.keys[bisect_left(self.keys, key)]
            if not row.order or (len(row.order) == 1 and TOMBSTONE not in row.values.values()):
                self.purgeable.remove(key)
        return dropped


class SimulatedTables:
    """The table store as a service. Every method takes effect at once."""

    def __init__(self) -> None:
        self._tables: dict[str, _Table] = {}
        self._flushed: dict[str, _Table] = {}
        self._unflushed: list[tuple[str, Put, int]] = []

    def lose(self, keep: Callable[[], bool]) -> None:
        """Crash the machine. Of the puts since the last flush, those stay for which `keep` returns
        true."""
        for table, (key, value), ts in self._unflushed:
            if keep():
                self._flushed[table].put(key, value, ts)
        self._unflushed.clear()
        self._tables = {name: table.copy() for name, table in self._flushed.items()}

    def create_table(self, table: str) -> None:
        if table not in self._tables:
            self._tables[table] = _Table()
            self._flushed[table] = _Table()

    def drop_table(self, table: str) -> None:
        self._tables.pop(table, None)
        self._flushed.pop(table, None)
        self._unflushed = [item for item in self._unflushed if item[0] != table]

    def tables(self) -> list[str]:
        return sorted(self._tables)

    def table(self, name: str) -> _Table:
        """The table `name`. Raises Corruption if it does not exist: the catalog says it does."""
        found = self._tables.get(name)
        if found is None:
            raise Corruption(f"Table {name} does not exist in the store.")
        return found

    def get(
        self, table: str, keys: Sequence[bytes], at: int, room: int | None
    ) -> list[Cell | None]:
        found = self.table(table)
        cells = [next(found.rows([key], at), None) for key in keys]
        return cells if room is None else cells[: fitting(cells, room)]

    def chunk(
        self, table: str, start: bytes, end: bytes | None, at: int, reverse: bool, count: int
    ) -> list[Cell]:
        """The first rows of a scan: `count` rows, or fewer if those reach BATCH_BYTES."""
        found = self.table(table)
        keys = found.between(start, end)
        cells = list(islice(found.rows(keys[::-1] if reverse else keys, at), count))
        return cells[: fitting(cells, BATCH_BYTES)]

    def prefixes(
        self, table: str, prefixes: Sequence[bytes], at: int, room: int | None
    ) -> list[list[Cell]]:
        found = self.table(table)
        groups = [
            list(found.rows(found.between(prefix, successor(prefix)), at)) for prefix in prefixes
        ]
        return groups if room is None else groups_within(groups, room)

    def put(self, table: str, put: Put, ts: int, *, forced: bool = False) -> None:
        self.table(table).put(put.key, put.value, ts)
        if forced:
            self._flushed[table].put(put.key, put.value, ts)
        else:
            self._unflushed.append((table, put, ts))

    def check_and_put(
        self, table: str, key: bytes, expected: bytes | None, value: bytes, ts: int
    ) -> bool:
        newest = self.table(table).newest(key, NEWEST)
        present = newest.value if newest is not None and newest.value != TOMBSTONE else None
        if present != expected:
            return False
        at = max(ts, newest.ts + 1) if newest is not None else ts
        self.put(table, Put(key, value), at)
        return True

    def flush(self) -> None:
        for table, (key, value), ts in self._unflushed:
            self._flushed[table].put(key, value, ts)
        self._unflushed.clear()

    def purge(self, table: str, horizon: int) -> int:
        """Drop invisible versions; returns how many. A crash may undo this: no snapshot that is
        still allowed reads the dropped versions."""
        return self.table(table).purge(horizon)

    def size(self, table: str) -> int:
        return sum(
            len(key) + len(value)
            for key, row in self.table(table).row.items()
            for value in row.values.values()
        )

    def splits(self, table: str) -> list[bytes]:
        """The key after every `SPLIT_ROWS` rows."""
        return self.table(table).keys[SPLIT_ROWS::SPLIT_ROWS]


class SimulatedStore(TableStore):
    """A `TableStore`: one process's client of `tables`. Each call of a scan reads up to
    `scan_rows` rows."""

    remote = True
    direct = None

    def __init__(
        self,
        tables: SimulatedTables | None = None,
        calls: Calls | None = None,
        *,
        scan_rows: int = SCAN_ROWS,
    ) -> None:
        self.service = tables or SimulatedTables()
        self._calls = calls or AtOnce()
        self._scan_rows = scan_rows
        self._closed = False

    def crashed(self, keep: Callable[[], bool] | None = None) -> SimulatedStore:
        """A copy of the store as the next process finds it, after a crash of this process or, with
        `keep`, of the machine."""
        found = deepcopy(self.service)
        if keep is not None:
            found.lose(keep)
        return SimulatedStore(found)

    # ------------------------------------------------------------ tables

    async def create_table(self, table: str, splits: Sequence[bytes] = ()) -> None:
        del splits  # the table is not divided
        await self._reach().one("create_table", lambda: self.service.create_table(table))

    async def drop_table(self, table: str) -> None:
        await self._reach().one("drop_table", lambda: self.service.drop_table(table))

    async def tables(self) -> list[str]:
        return await self._reach().one("tables", self.service.tables)

    # ------------------------------------------------------------ reads

    async def get(
        self, table: str, keys: Sequence[bytes], at: int, *, room: int | None = None
    ) -> list[Cell | None]:
        return await self._reach().one("get", lambda: self.service.get(table, keys, at, room))

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
        left = limit
        while left is None or left > 0:
            count = self._scan_rows if left is None else min(self._scan_rows, left)
            chunk = partial(self.service.chunk, table, start, end, at, reverse, count)
            batch = await self._reach().one("scan", chunk)
            if not batch:
                return
            yield batch
            if len(batch) < count and bytes_of_values(batch) < BATCH_BYTES:
                return
            left = None if left is None else left - len(batch)
            if reverse:
                end = batch[-1].key
            else:
                start = batch[-1].key + b"\0"

    async def scan_prefixes(
        self, table: str, prefixes: Sequence[bytes], at: int, *, room: int | None = None
    ) -> list[list[Cell]]:
        return await self._reach().one(
            "scan_prefixes", lambda: self.service.prefixes(table, prefixes, at, room)
        )

    # ------------------------------------------------------------ writes

    async def put(
        self, writes: Mapping[str, Sequence[Put]], ts: int, *, forced: bool = False
    ) -> None:
        calls = self._reach()
        for table in writes:
            self.service.table(table)
        effects = [
            partial(self.service.put, table, put, ts, forced=forced)
            for table, puts in writes.items()
            for put in puts
        ]
        await calls.many("put", effects)

    async def check_and_put(
        self, table: str, key: bytes, expected: bytes | None, value: bytes, ts: int
    ) -> bool:
        return await self._reach().one(
            "check_and_put",
            lambda: self.service.check_and_put(table, key, expected, value, ts),
        )

    async def flush(self) -> None:
        await self._reach().one("flush", self.service.flush)

    # ------------------------------------------------------------ upkeep

    async def purge(self, table: str, horizon: int) -> int:
        return await self._reach().one("purge", lambda: self.service.purge(table, horizon))

    async def size(self, table: str) -> int:
        return await self._reach().one("size", lambda: self.service.size(table))

    async def splits(self, table: str) -> list[bytes]:
        return await self._reach().one("splits", lambda: self.service.splits(table))

    async def close(self) -> None:
        if not self._closed:
            await self.flush()
            self._closed = True

    def _reach(self) -> Calls:
        if self._closed:
            raise Unavailable("The store is closed.")
        return self._calls
