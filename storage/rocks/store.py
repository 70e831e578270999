"""The embedded table store: RocksDB in one folder of one process.

Physical key: table number (4 bytes), row key, complement of the timestamp (8 bytes), so that the
versions of a row lie together, newest first. Row keys are prefix-free within a table (a
precondition of the port), so versions of different rows never interleave. Table number 0 maps
table names to their numbers.

RocksDB's own log is on but not synced: it survives a crash of the process. `flush` syncs it. What
a crash of the machine takes with it is replayed from Hornbeam's log, which is synced.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    WriteBatch,
)

from schema.errors import Corruption, DiskFull, Unavailable
from storage.codec.keys import successor
from storage.ports import NEWEST, TOMBSTONE, Cell, Put

_NUMBER = struct.Struct(">I")
_STAMP = struct.Struct(">Q")
_LARGEST = (1 << 64) - 1
_NAMES = _NUMBER.pack(0)
BLOCK_CACHE_BYTES = 64 << 20
WRITE_BUFFER_BYTES = 32 << 20
FIRST_BATCH, LARGEST_BATCH = 256, 4_096
"""A scan's first batch is read at once; later ones are larger, and read in a thread."""
PURGE_BATCH = 10_000


class RocksStore:
    """A `TableStore` in a folder. Open with `RocksStore.open`."""

    def __init__(self, db: Rdict) -> None:
        self._db = db
        self._tables = {
            key[4:].decode(): _NUMBER.unpack(value)[0]
            for key, value in _between(db, _NAMES, _NUMBER.pack(1))
        }
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="rocks")
        self._closed = False
        self._sizes: dict[str, tuple[int, int]] = {}

    @classmethod
    def open(cls, path: Path) -> RocksStore:
        """Open or create. Raises Unavailable when another process has it open."""
        path.mkdir(parents=True, exist_ok=True)
        try:
            return cls(Rdict(str(path), _options()))
        except Exception as error:
            raise _mapped(error, f"The store in {path} cannot be opened") from error

    # ------------------------------------------------------------ tables

    async def create_table(self, table: str) -> None:
        if table in self._tables:
            return
        number = max(self._tables.values(), default=self._last_number()) + 1
        batch = WriteBatch(raw_mode=True)
        batch.put(_NAMES + table.encode(), _NUMBER.pack(number))
        batch.put(_NAMES, _NUMBER.pack(number))
        self._write(batch)
        self._tables[table] = number

    def _last_number(self) -> int:
        """The highest number ever given: numbers are never used again."""
        value = self._db.get(_NAMES)
        return int(_NUMBER.unpack(value)[0]) if value is not None else 0

    async def drop_table(self, table: str) -> None:
        number = self._tables.pop(table, None)
        if number is None:
            return
        batch = WriteBatch(raw_mode=True)
        batch.delete(_NAMES + table.encode())
        batch.delete_range(_NUMBER.pack(number), _NUMBER.pack(number + 1))
        self._write(batch)

    async def tables(self) -> list[str]:
        return sorted(name for name in self._tables if name)

    def _prefix(self, table: str) -> bytes:
        number = self._tables.get(table)
        if number is None:
            raise Corruption(f"Table {table} does not exist in the store.")
        return _NUMBER.pack(number)

    # ------------------------------------------------------------ reads

    async def get(self, table: str, keys: Sequence[bytes], at: int) -> list[Cell | None]:
        if not keys:
            return []
        prefix, stamp = self._prefix(table), _STAMP.pack(_LARGEST - at)
        iterator = self._db.iter()
        found: list[Cell | None] = []
        for key in keys:
            physical = prefix + key
            iterator.seek(physical + stamp)
            found.append(_cell_at(iterator, physical, key))
        return found

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
        rows = self._rows(table, start, end, at, reverse)
        size, left = FIRST_BATCH, limit
        batch = _take(rows, size if left is None else min(size, left))
        loop = asyncio.get_running_loop()
        while batch:
            yield batch
            if left is not None:
                left -= len(batch)
                if left == 0:
                    return
            if len(batch) < size:
                return
            size = LARGEST_BATCH
            count = size if left is None else min(size, left)
            batch = await loop.run_in_executor(self._threads, _take, rows, count)

    async def scan_prefixes(
        self, table: str, prefixes: Sequence[bytes], at: int
    ) -> list[list[Cell]]:
        number, newest = self._prefix(table), _LARGEST - at
        iterator = self._db.iter()
        groups = []
        for prefix in prefixes:
            physical = number + prefix
            iterator.seek(physical)
            groups.append(list(_newest_versions(iterator, physical, newest)))
        return groups

    def _rows(
        self, table: str, start: bytes, end: bytes | None, at: int, reverse: bool
    ) -> Iterator[Cell]:
        number = self._prefix(table)
        low = number + start
        high = number + end if end is not None else successor(number)
        assert high is not None
        if low >= high:
            return iter(())
        if reverse:
            return _reversed_rows(_between(self._db, low, high, backwards=True), at)
        return _forward_rows(_between(self._db, low, high), at)

    # ------------------------------------------------------------ writes

    async def put(self, writes: Mapping[str, Sequence[Put]], ts: int) -> None:
        stamp = _STAMP.pack(_LARGEST - ts)
        batch = WriteBatch(raw_mode=True)
        for table, puts in writes.items():
            prefix = self._prefix(table)
            for key, value in puts:
                batch.put(prefix + key + stamp, value)
        self._write(batch)

    async def check_and_put(
        self, table: str, key: bytes, expected: bytes | None, value: bytes, ts: int
    ) -> bool:
        (cell,) = await self.get(table, [key], NEWEST)
        if (cell.value if cell is not None else None) != expected:
            return False
        # No await between the check and the write: one process, one event loop.
        newer = ts if cell is None else max(ts, cell.ts + 1)
        batch = WriteBatch(raw_mode=True)
        batch.put(self._prefix(table) + key + _STAMP.pack(_LARGEST - newer), value)
        self._write(batch)
        return True

    def _write(self, batch: WriteBatch) -> None:
        try:
            self._db.write(batch)
        except Exception as error:
            raise _mapped(error, "The store cannot be written") from error

    async def flush(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._threads, self._db.flush_wal, True)
        except Exception as error:
            raise _mapped(error, "The store cannot be synced") from error

    # ------------------------------------------------------------ upkeep

    async def purge(self, table: str, horizon: int) -> int:
        number = self._prefix(table)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._purge, number, horizon)

    def _purge(self, number: bytes, horizon: int) -> int:
        end = successor(number)
        assert end is not None
        dropped = 0
        batch = WriteBatch(raw_mode=True)
        row, covered = b"", False
        for physical, value in _between(self._db, number, end):
            if physical[:-8] != row:
                row, covered = physical[:-8], False
            if _timestamp(physical) > horizon:
                continue
            # The newest version ≤ horizon is what snapshots see; a tombstone there says "absent",
            # as does nothing at all.
            if covered or value == TOMBSTONE:
                batch.delete(physical)
                dropped += 1
            covered = True
            if batch.len() >= PURGE_BATCH:
                self._write(batch)
                batch = WriteBatch(raw_mode=True)
        if batch.len():
            self._write(batch)
        return dropped

    async def size(self, table: str) -> int:
        number, sequence = self._prefix(table), self._db.latest_sequence_number()
        known = self._sizes.get(table)
        if known is None or known[0] != sequence:
            loop = asyncio.get_running_loop()
            counted = await loop.run_in_executor(self._threads, self._count_bytes, number)
            known = self._sizes[table] = (sequence, counted)
        return known[1]

    def _count_bytes(self, number: bytes) -> int:
        end = successor(number)
        assert end is not None
        return sum(len(key) + len(value) for key, value in _between(self._db, number, end))

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._threads.shutdown()
        self._db.flush_wal(True)
        self._db.close()


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_max_write_buffer_number(3)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_max_open_files(512)
    options.increase_parallelism(2)
    options.set_max_total_wal_size(4 * WRITE_BUFFER_BYTES)
    options.set_keep_log_file_num(3)
    blocks = BlockBasedOptions()
    blocks.set_block_cache(Cache(BLOCK_CACHE_BYTES))
    blocks.set_cache_index_and_filter_blocks(True)
    blocks.set_block_size(16 << 10)
    options.set_block_based_table_factory(blocks)
    return options


def _between(
    db: Rdict, start: bytes, end: bytes, *, backwards: bool = False
) -> Iterator[tuple[bytes, bytes]]:
    """Entries with start ≤ key < end, as one consistent view.

    rocksdict's own iterator bounds do not know raw mode, so the bounds are kept here.
    """
    items: Any = db.items(backwards=backwards, from_key=end if backwards else start)
    if not backwards:
        for entry in items:
            if entry[0] >= end:
                return
            yield entry
        return
    for entry in items:
        if entry[0] < start:
            return
        if entry[0] < end:
            yield entry


def _timestamp(physical: bytes) -> int:
    return _LARGEST - int.from_bytes(physical[-8:])


def _cell_at(iterator: Any, physical: bytes, key: bytes) -> Cell | None:
    """The cell under the iterator, if it is a version of the row `physical`, and not deleted."""
    if not iterator.valid():
        return None
    found = iterator.key()
    if len(found) != len(physical) + 8 or not found.startswith(physical):
        return None
    value = iterator.value()
    return Cell(key, _timestamp(found), value) if value != TOMBSTONE else None


def _newest_versions(iterator: Any, prefix: bytes, newest: int) -> Iterator[Cell]:
    """Rows under `prefix` from where the iterator stands; `newest` is a complemented timestamp."""
    done = b""
    while iterator.valid():
        physical = iterator.key()
        if not physical.startswith(prefix):
            return
        row = physical[:-8]
        if row != done and int.from_bytes(physical[-8:]) >= newest:
            done = row
            value = iterator.value()
            if value != TOMBSTONE:
                yield Cell(row[4:], _timestamp(physical), value)
        iterator.next()


def _forward_rows(entries: Iterator[tuple[bytes, bytes]], at: int) -> Iterator[Cell]:
    newest, done = _LARGEST - at, b""
    for physical, value in entries:
        row = physical[:-8]
        stamp = int.from_bytes(physical[-8:])
        if row != done and stamp >= newest:
            done = row
            if value != TOMBSTONE:
                yield Cell(row[4:], _LARGEST - stamp, value)


def _reversed_rows(entries: Iterator[tuple[bytes, bytes]], at: int) -> Iterator[Cell]:
    """Backwards the versions of a row come oldest first: the last one ≤ `at` counts."""
    best: Cell | None = None
    row = b""
    for physical, value in entries:
        if physical[:-8] != row:
            if best is not None and best.value != TOMBSTONE:
                yield best
            row, best = physical[:-8], None
        ts = _timestamp(physical)
        if ts <= at:
            best = Cell(row[4:], ts, value)
    if best is not None and best.value != TOMBSTONE:
        yield best


def _take(rows: Iterator[Cell], count: int) -> list[Cell]:
    batch = []
    for cell in rows:
        batch.append(cell)
        if len(batch) == count:
            break
    return batch


def _mapped(error: Exception, what: str) -> Exception:
    """Rocksdict raises plain exceptions; their text is RocksDB's status."""
    text = str(error)
    if "No space" in text:
        return DiskFull(f"{what}: the disk is full.", cure="Free space; writes then go on.")
    if "Corruption" in text:
        return Corruption(f"{what}: {text}")
    if "lock" in text.lower():
        return Unavailable(
            f"{what}: another process has it open.", cure="Stop that process, or use its server."
        )
    return Unavailable(f"{what}: {text}")
