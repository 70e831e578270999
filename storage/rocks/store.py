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
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    Checkpoint,
    DbClosedError,
    DBCompressionType,
    Options,
    Rdict,
    WriteBatch,
)

from schema.errors import Corruption, DiskFull, HornbeamError, Unavailable
from storage.codec.keys import successor
from storage.ports import TOMBSTONE, Cell, Put

T = TypeVar("T")
_NUMBER = struct.Struct(">I")
_STAMP = struct.Struct(">Q")
_LARGEST = (1 << 64) - 1
_NAMES = _NUMBER.pack(0)
"""Under it: table name → number; under the empty name the highest number ever given."""
BLOCK_CACHE_BYTES = 64 << 20
WRITE_BUFFER_BYTES = 32 << 20
FIRST_BATCH, LARGEST_BATCH = 256, 2_048
"""A scan's first batch is read at once; later ones are larger, and read in a thread."""
INLINE_PUTS = 1_000
"""Larger batches are written in a thread: RocksDB may stall a writer that outruns its flushes."""
PURGE_BATCH = 10_000
SPLIT_BYTES = 8 << 20
"""Of a file, compressed: what one reader takes some seconds for."""


class RocksStore:
    """A `TableStore` in a folder. Open with `RocksStore.open`."""

    remote = False

    def __init__(self, db: Rdict, *, writes: bool = True) -> None:
        self._db = db
        self._writes = writes
        self._tables = {
            key[4:].decode(): int(_NUMBER.unpack(value)[0])
            for key, value in _entries(db, _NAMES, _NUMBER.pack(1))
        }
        self._last_number = self._tables.pop("", 0)
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="rocks")
        self._closed = False
        self._bytes: dict[str, int] = {}

    @classmethod
    def open(cls, path: Path) -> RocksStore:
        """Open or create. Raises Unavailable when it is open already, Corruption, DiskFull."""
        path.mkdir(parents=True, exist_ok=True)
        with _Mapped(f"The store in {path} cannot be opened"):
            db = Rdict(str(path), _options())
            try:
                return cls(db)
            except BaseException:
                db.close()  # else its lock stays
                raise

    @classmethod
    def open_checkpoint(cls, path: Path) -> RocksStore:
        """Open what `checkpoint` has made, for reading; several processes may at a time. Raises
        Unavailable when it is not there, Corruption."""
        with _Mapped(f"The checkpoint in {path} cannot be opened"):
            db = Rdict(str(path), _options(), access_type=AccessType.read_only())
            return cls(db, writes=False)

    async def checkpoint(self, path: Path) -> None:
        """Make the folder `path`, which is not there yet, with all that is in the store now. On
        the same disk it takes hardly any space while the store lives: files are linked."""
        await self._in_thread(
            f"A checkpoint cannot be made in {path}",
            lambda: Checkpoint(self._db).create_checkpoint(str(path)),
        )

    # ------------------------------------------------------------ tables

    async def create_table(self, table: str, splits: Sequence[bytes] = ()) -> None:
        del splits  # it is all in one place
        if table in self._tables:
            return
        number = self._last_number + 1
        batch = WriteBatch(raw_mode=True)
        batch.put(_NAMES + table.encode(), _NUMBER.pack(number))
        batch.put(_NAMES, _NUMBER.pack(number))
        self._write(batch)
        self._last_number = self._tables[table] = number

    async def drop_table(self, table: str) -> None:
        number = self._tables.pop(table, None)
        if number is None:
            return
        batch = WriteBatch(raw_mode=True)
        batch.delete(_NAMES + table.encode())
        batch.delete_range(_NUMBER.pack(number), _NUMBER.pack(number + 1))
        self._write(batch)
        self._bytes.pop(table, None)

    async def tables(self) -> list[str]:
        return sorted(self._tables)

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
        with _Mapped(f"Table {table} cannot be read"):
            iterator = self._db.iter()
            found = []
            for key in keys:
                cell = _seek_row(iterator, prefix + key, stamp)
                found.append(cell if cell is not None and cell.value != TOMBSTONE else None)
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
        rows = islice(self._rows(table, start, end, at, reverse), limit)
        what = f"Table {table} cannot be read"
        with _Mapped(what):
            batch = list(islice(rows, FIRST_BATCH))
        if batch:
            yield batch
        if len(batch) < FIRST_BATCH:
            return
        while batch := await self._in_thread(what, lambda: list(islice(rows, LARGEST_BATCH))):
            yield batch

    async def scan_prefixes(
        self, table: str, prefixes: Sequence[bytes], at: int
    ) -> list[list[Cell]]:
        number, newest, what = self._prefix(table), _LARGEST - at, f"Table {table} cannot be read"
        found: list[list[Cell]] = []
        with _Mapped(what):
            iterator = self._db.iter()
            groups = (_newest(_under(iterator, number + prefix), newest) for prefix in prefixes)
            left = LARGEST_BATCH
            for group in groups:
                found.append(list(islice(group, left)))
                left -= len(found[-1]) + 1
                if left <= 0:
                    break
            else:
                return found
        # Many rows: the rest is read in a thread, the rest of the last group first.
        found[-1] += await self._in_thread(what, lambda: list(group))
        return found + await self._in_thread(what, lambda: [list(group) for group in groups])

    def _rows(
        self, table: str, start: bytes, end: bytes | None, at: int, reverse: bool
    ) -> Iterator[Cell]:
        number = self._prefix(table)
        low = number + start
        high = number + end if end is not None else _after(number)
        if low >= high:
            return iter(())
        if reverse:
            return _oldest_last(_entries_backwards(self._db, low, high), at)
        return _newest(_entries(self._db, low, high), _LARGEST - at)

    # ------------------------------------------------------------ writes

    async def put(self, writes: Mapping[str, Sequence[Put]], ts: int) -> None:
        stamp = _STAMP.pack(_LARGEST - ts)
        batch = WriteBatch(raw_mode=True)
        for table, puts in writes.items():
            prefix = self._prefix(table)
            for key, value in puts:
                batch.put(prefix + key + stamp, value)
            self._count(table, sum([len(key) + len(value) for key, value in puts]))
        if len(batch) <= INLINE_PUTS:
            self._write(batch)
        else:
            await self._in_thread("The store cannot be written", lambda: self._db.write(batch))

    async def check_and_put(
        self, table: str, key: bytes, expected: bytes | None, value: bytes, ts: int
    ) -> bool:
        physical = self._prefix(table) + key
        with _Mapped(f"Table {table} cannot be read"):
            newest = _seek_row(self._db.iter(), physical, b"")
        present = newest.value if newest is not None and newest.value != TOMBSTONE else None
        if present != expected:
            return False
        # No await between the check and the write: one process, one event loop.
        after = ts if newest is None else max(ts, newest.ts + 1)
        batch = WriteBatch(raw_mode=True)
        batch.put(physical + _STAMP.pack(_LARGEST - after), value)
        self._write(batch)
        return True

    def _write(self, batch: WriteBatch) -> None:
        with _Mapped("The store cannot be written"):
            self._db.write(batch)

    async def flush(self) -> None:
        await self._in_thread("The store cannot be synced", lambda: self._db.flush_wal(True))

    async def _in_thread(self, what: str, work: Callable[[], T]) -> T:
        if self._closed:
            raise Unavailable(f"{what}: it is closed.")
        with _Mapped(what):
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    # ------------------------------------------------------------ upkeep

    async def purge(self, table: str, horizon: int) -> int:
        number = self._prefix(table)
        dropped, freed = await self._in_thread(
            f"Table {table} cannot be purged", lambda: self._purge(number, horizon)
        )
        self._count(table, -freed)
        return dropped

    def _purge(self, number: bytes, horizon: int) -> tuple[int, int]:
        """Versions and bytes dropped.

        A batch never ends inside a row: a tombstone must not go before the versions it hides.
        """
        dropped = freed = 0
        batch, row = WriteBatch(raw_mode=True), b""
        for physical, size in _invisible(_entries(self._db, number, _after(number)), horizon):
            if len(batch) >= PURGE_BATCH and physical[:-8] != row:
                self._db.write(batch)
                batch = WriteBatch(raw_mode=True)
            batch.delete(physical)
            row = physical[:-8]
            dropped += 1
            freed += size
        self._db.write(batch)
        return dropped, freed

    async def size(self, table: str) -> int:
        """Counted once, then kept up to date: uncompressed bytes of keys and values."""
        number = self._prefix(table)
        if table not in self._bytes:
            counted = await self._in_thread(
                f"Table {table} cannot be read", lambda: self._count_bytes(number)
            )
            self._bytes[table] = counted
        return self._bytes[table]

    def _count_bytes(self, number: bytes) -> int:
        entries = _entries(self._db, number, _after(number))
        return sum(len(key) - 12 + len(value) for key, value in entries)

    def _count(self, table: str, change: int) -> None:
        if table in self._bytes:
            self._bytes[table] = max(self._bytes[table] + change, 0)

    async def splits(self, table: str) -> list[bytes]:
        """About every `SPLIT_BYTES` of a table's files."""
        number = self._prefix(table)
        return await self._in_thread(
            f"Table {table} cannot be read", lambda: self._split(number, _after(number))
        )

    def _split(self, low: bytes, high: bytes) -> list[bytes]:
        """Between the first and the last key that a file can have, as far as the table goes."""
        iterator = self._db.iter()
        found = set()
        for file in self._db.live_files():
            iterator.seek(max(file["start_key"], low))
            first = iterator.key() if iterator.valid() else high
            iterator.seek_for_prev(min(file["end_key"], high))
            last = iterator.key() if iterator.valid() else low
            for wanted in between(first, last, file["size"] // SPLIT_BYTES):
                iterator.seek(wanted)
                if iterator.valid() and first < iterator.key() < high:
                    found.add(iterator.key()[len(low) : -_STAMP.size])
        iterator.status()
        return sorted(found)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._threads.shutdown()
        with _Mapped("The store cannot be closed"):
            if self._writes:
                self._db.flush_wal(True)
            self._db.close()


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_max_write_buffer_number(2)
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


def between(low: bytes, high: bytes, count: int) -> list[bytes]:
    """At most `count` byte strings that cut the range from `low` to `high` evenly, as if they were
    numbers; none if there is nothing between."""
    if low >= high:
        return []
    same = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low))
    size = max(len(low), len(high)) - same
    first = int.from_bytes(low[same:].ljust(size, b"\0"))
    width = int.from_bytes(high[same:].ljust(size, b"\0")) - first
    numbers = sorted({first + width * i // (count + 1) for i in range(1, count + 1)})
    return [low[:same] + number.to_bytes(size) for number in numbers]


def _after(number: bytes) -> bytes:
    """Where the table behind table `number` begins."""
    after = successor(number)
    assert after is not None, "numbers are given from 1"
    return after


def _entries(db: Rdict, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Entries with start ≤ key < end, as one consistent view.

    rocksdict's `items()` would be shorter, but it takes a damaged block for the end of the data:
    only `status` of its low iterator tells the two apart.
    """
    iterator = db.iter()
    iterator.seek(start)
    while iterator.valid():
        key = iterator.key()
        if key >= end:
            return
        yield key, iterator.value()
        iterator.next()
    iterator.status()


def _entries_backwards(db: Rdict, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
    """As `_entries`, from the last to the first."""
    iterator = db.iter()
    iterator.seek_for_prev(end)
    while iterator.valid():
        key = iterator.key()
        if key < start:
            return
        if key < end:
            yield key, iterator.value()
        iterator.prev()
    iterator.status()


def _under(iterator: Any, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Entries that start with `prefix`."""
    iterator.seek(prefix)
    while iterator.valid():
        key = iterator.key()
        if not key.startswith(prefix):
            return
        yield key, iterator.value()
        iterator.next()
    iterator.status()


def _seek_row(iterator: Any, physical: bytes, stamp: bytes) -> Cell | None:
    """First version of the row `physical` at or behind `stamp`, tombstones too."""
    iterator.seek(physical + stamp)
    if not iterator.valid():
        iterator.status()
        return None
    found = iterator.key()
    if len(found) != len(physical) + 8 or not found.startswith(physical):
        return None
    return Cell(physical[4:], _timestamp(found), iterator.value())


def _timestamp(physical: bytes) -> int:
    return _LARGEST - int.from_bytes(physical[-8:])


def _newest(entries: Iterator[tuple[bytes, bytes]], newest: int) -> Iterator[Cell]:
    """Per row the first version from `newest`, a complemented timestamp, on."""
    done, least = b"", _STAMP.pack(newest)
    last, ts = b"", 0
    for physical, value in entries:
        row, stamp = physical[:-8], physical[-8:]
        if stamp < least or row == done:
            continue
        done = row
        if value != TOMBSTONE:
            if stamp != last:  # rows that were written together have one timestamp
                last, ts = stamp, _timestamp(physical)
            yield Cell(row[4:], ts, value)


def _oldest_last(entries: Iterator[tuple[bytes, bytes]], at: int) -> Iterator[Cell]:
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


def _invisible(entries: Iterator[tuple[bytes, bytes]], horizon: int) -> Iterator[tuple[bytes, int]]:
    """Keys and sizes of the versions that no snapshot ≥ `horizon` sees.

    The newest version ≤ horizon is what such snapshots see, until a newer one. If it is a
    tombstone it says "absent", as does nothing at all: it goes with everything below it.
    """
    row, covered = b"", False
    for physical, value in entries:
        if physical[:-8] != row:
            row, covered = physical[:-8], False
        if _timestamp(physical) > horizon:
            continue
        if covered or value == TOMBSTONE:
            yield physical, len(physical) - 12 + len(value)
        covered = True


class _Mapped:
    """Turns what rocksdict raises (plain Exceptions with RocksDB's status as text) into ours."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None: ...

    def __exit__(
        self,
        _type: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        # Exactly Exception: a TypeError is a mistake of ours and must show as one.
        if error is not None and (type(error) is Exception or isinstance(error, DbClosedError)):
            raise _mapped(str(error), self._what) from error


def _mapped(status: str, what: str) -> HornbeamError:
    if "No space" in status or "quota" in status:
        return DiskFull(f"{what}: the disk is full.", cure="Free space; writes then go on.")
    if status.startswith("Corruption"):
        return Corruption(f"{what}: {status}", cure="Restore the folder from a backup.")
    if "lock" in status.lower() and status.startswith("IO error"):
        return Unavailable(
            f"{what}: it is open already, here or in another process.",
            cure="Stop that process, or use its server.",
        )
    return Unavailable(f"{what}: {status}")
