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
import shutil
import struct
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import structlog
from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    Checkpoint,
    DBCompressionType,
    Options,
    Rdict,
    WriteBatch,
)

from hornbeam_server.schema.errors import Corruption, DiskFull, Unavailable
from hornbeam_server.storage.local.private import make_private
from hornbeam_server.storage.ports import TOMBSTONE, Cell, Put
from hornbeam_server.storage.rocks import forks  # noqa: F401 (a forked process can end)
from hornbeam_server.storage.rocks.errors import BetweenTwo, Mapped, closed_db, is_full, is_stuck
from hornbeam_server.storage.rocks.scans import PythonScan, Scan, reverse_scan_of, scan_of
from hornbeam_server.storage.rocks.versions import (
    LARGEST,
    LARGEST_BATCH,
    STAMP,
    collect,
    entries_between,
    invisible_versions,
    newest_versions,
    seek_row,
    seek_rows,
    table_end,
)

_LOG = structlog.get_logger(__name__)
T = TypeVar("T")
_NUMBER = struct.Struct(">I")
_NAMES = _NUMBER.pack(0)
"""Prefix of the entries table name → number; the empty name has the highest number ever assigned.
"""
BLOCK_CACHE_BYTES = 64 << 20
WRITE_BUFFER_BYTES = 32 << 20
FIRST_BATCH = 256
UNLIMITED = 1 << 62
INLINE_PUTS = 256
INLINE_BYTES = 1 << 20
"""Larger batches are written in a thread: RocksDB may stall a writer that outruns its flushes."""
ROOM_BYTES = 16 << 20
"""Disk space that opening the store needs besides the space for its log."""
PURGE_BATCH = 10_000
BLOB_BYTES = 4 << 10
"""Larger values are kept in files of their own, to which table files refer. A look-up of a missing
key reads a block of each level: if the blocks hold values of 1 MB, 256 look-ups take 100 ms."""
SPLIT_BYTES = 8 << 20
"""Size of a part of a table, in compressed bytes of a file: one reader takes some seconds for it.
"""
SAMPLES = 8
"""Rows of a file from which `splits` estimates the bytes of its large values."""


class RocksStore:
    """A `TableStore` in a folder. Open with `RocksStore.open`."""

    remote = False

    @property
    def direct(self) -> RocksStore:
        return self

    def __init__(self, db: Rdict, path: Path, *, writes: bool = True) -> None:
        self._db: Any = db  # rocksdict has no types
        self._path = path
        self._full = False
        """True if a write found no room and no write has succeeded since."""
        self._stuck = False
        """True if, after that, RocksDB refused a write because an earlier one had failed."""
        self._reopening = threading.Lock()
        self._writes = writes
        self._tables = {
            key[4:].decode(): int(_NUMBER.unpack(value)[0])
            for key, value in entries_between(db, _NAMES, _NUMBER.pack(1))
        }
        self._last_number = self._tables.pop("", 0)
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="rocks")
        self._closed = False
        self._bytes: dict[str, int] = {}

    @classmethod
    def open(cls, path: Path) -> RocksStore:
        """Open or create the store in `path`. Raises Unavailable when it is open already,
        Corruption, DiskFull."""
        make_private(path)
        with Mapped(f"The store in {path} cannot be opened"):
            db = _opened(path)
            try:
                return cls(db, path)
            except BaseException:
                db.close()  # else its lock stays
                raise

    @classmethod
    def open_checkpoint(cls, path: Path) -> RocksStore:
        """Open a folder that `checkpoint` has created, for reading; several processes may open it
        at one time. Raises Unavailable when it does not exist, Corruption."""
        with Mapped(f"The checkpoint in {path} cannot be opened"):
            db = _opened(path, AccessType.read_only())
            return cls(db, path, writes=False)

    async def checkpoint(self, path: Path) -> None:
        """Create the folder `path`, which must not exist, with the present content of the store.
        On the same disk it takes hardly any space while the store keeps its files, which are
        linked."""
        await self._in_thread(
            f"A checkpoint cannot be made in {path}",
            lambda: Checkpoint(self._db).create_checkpoint(str(path)),
        )

    # ------------------------------------------------------------ tables

    async def create_table(self, table: str, splits: Sequence[bytes] = ()) -> None:
        del splits  # the table is not divided
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

    async def get(
        self, table: str, keys: Sequence[bytes], at: int, *, room: int | None = None
    ) -> list[Cell | None]:
        if not keys:
            return []
        left = UNLIMITED if room is None else room
        prefix, stamp = self._prefix(table), STAMP.pack(LARGEST - at)
        with Mapped(f"Table {table} cannot be read"):
            if len(keys) == 1:
                cell = seek_row(self._db, prefix + keys[0], stamp)
                return [None if cell is None or cell.value == TOMBSTONE else cell]
            found: list[Cell | None] = []
            for cell in seek_rows(self._db, prefix, keys, stamp):
                if cell is None or cell.value == TOMBSTONE:
                    found.append(None)
                    continue
                found.append(cell)
                left -= len(cell.value)
                if left <= 0:
                    break
        return found

    def scan(
        self,
        table: str,
        start: bytes,
        end: bytes | None,
        at: int,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[list[Cell]]:
        return self._batches(lambda scan: scan.cells, table, start, end, at, reverse, limit)

    def scan_values(
        self,
        table: str,
        start: bytes,
        end: bytes | None,
        at: int,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[list[bytes]]:
        return self._batches(lambda scan: scan.values, table, start, end, at, reverse, limit)

    async def _batches(
        self,
        form: Callable[[Scan], Callable[[int], tuple[list[T], bool]]],
        table: str,
        start: bytes,
        end: bytes | None,
        at: int,
        reverse: bool,
        limit: int | None,
    ) -> AsyncIterator[list[T]]:
        """The batches of a scan, each read by the method of it that `form` returns."""
        left = UNLIMITED if limit is None else limit
        what = f"Table {table} cannot be read"
        with Mapped(what):
            read = form(self._scan(table, start, end, at, reverse))
            if left == 0:
                return
            batch, ended = read(min(FIRST_BATCH, left))
        while True:
            if batch:
                yield batch
            left -= len(batch)
            if ended or left == 0:
                return
            batch, ended = await self._in_thread(what, partial(read, min(LARGEST_BATCH, left)))

    async def scan_prefixes(
        self, table: str, prefixes: Sequence[bytes], at: int, *, room: int | None = None
    ) -> list[list[Cell]]:
        number, newest, what = self._prefix(table), LARGEST - at, f"Table {table} cannot be read"
        found: list[list[Cell]] = []
        with Mapped(what):
            groups = (
                newest_versions(self._db, number + prefix, table_end(number + prefix), newest)
                for prefix in prefixes
            )
            pauses = collect(groups, found, UNLIMITED if room is None else room)
            more = next(pauses, False)
        while more:  # many rows: the rest is read in a thread
            more = await self._in_thread(what, lambda: next(pauses, False))
        return found

    def _scan(self, table: str, start: bytes, end: bytes | None, at: int, reverse: bool) -> Scan:
        number = self._prefix(table)
        low = number + start
        high = number + end if end is not None else table_end(number)
        if low >= high:
            return PythonScan(iter(()))
        if reverse:
            return reverse_scan_of(self._db, low, high, at)
        return scan_of(self._db, low, high, LARGEST - at)

    def get_directly(self, table: str, key: bytes, at: int) -> Cell | None:
        with Mapped(f"Table {table} cannot be read"):
            cell = seek_row(self._db, self._prefix(table) + key, STAMP.pack(LARGEST - at))
        return None if cell is None or cell.value == TOMBSTONE else cell

    def scan_directly(
        self, table: str, start: bytes, end: bytes | None, at: int, *, reverse: bool, most: int
    ) -> list[bytes]:
        with Mapped(f"Table {table} cannot be read"):
            values, _ = self._scan(table, start, end, at, reverse).values(most)
        return values

    # ------------------------------------------------------------ writes

    async def put(
        self, writes: Mapping[str, Sequence[Put]], ts: int, *, forced: bool = False
    ) -> None:
        prefixes = {table: self._prefix(table) for table in writes}

        def write() -> dict[str, int]:
            batch, sizes = _batch(writes, prefixes, STAMP.pack(LARGEST - ts))
            self._write_batch(batch)
            return sizes

        what = "The store cannot be written"
        if _is_small(writes) and not self._full:
            with Mapped(what):
                sizes = write()
        else:
            sizes = await self._in_thread(what, write)
        for table, size in sizes.items():
            self._count(table, size)
        if forced:
            await self.flush()

    async def check_and_put(
        self, table: str, key: bytes, expected: bytes | None, value: bytes, ts: int
    ) -> bool:
        physical = self._prefix(table) + key
        with Mapped(f"Table {table} cannot be read"):
            newest = seek_row(self._db, physical, b"")
        present = newest.value if newest is not None and newest.value != TOMBSTONE else None
        if present != expected:
            return False
        # No await between the check and the write: one process, one event loop.
        after = ts if newest is None else max(ts, newest.ts + 1)
        batch = WriteBatch(raw_mode=True)
        batch.put(physical + STAMP.pack(LARGEST - after), value)
        self._write(batch)
        return True

    def _write(self, batch: WriteBatch) -> None:
        with Mapped("The store cannot be written"):
            self._write_batch(batch)

    def _write_batch(self, batch: WriteBatch) -> None:
        """Write `batch`; if RocksDB is stuck, open it again first. When a table file could not be
        written, RocksDB goes on by itself once there is room again. When its own log could not be
        written, it refuses all writes until it is opened again."""
        if self._full:
            with self._reopening:
                self._free_from_failure()
        try:
            self._db.write(batch)
        except Exception as error:
            self._full = self._full or is_full(str(error))
            self._stuck = self._stuck or (self._full and is_stuck(str(error)))
            raise
        self._full = self._stuck = False

    def _free_from_failure(self) -> None:
        """Open RocksDB again if its own log has failed and there is room. No put is lost: the log
        holds all of them, and drops the part of a failed write. Concurrent reads fail; they can be
        repeated. Raises DiskFull."""
        if not (self._stuck or self._refuses_to_sync()):
            return
        needed = ROOM_BYTES + sum(log.stat().st_size for log in self._path.glob("*.log"))
        if shutil.disk_usage(self._path).free < needed:
            raise DiskFull(
                f"The store in {self._path} cannot be written: the disk is full.",
                cure=f"Free {needed >> 20} MiB; writes then go on.",
            )
        self._stuck = True
        failed, self._db = self._db, BetweenTwo()
        closed_db(failed)
        self._db = _opened(self._path)
        self._full = self._stuck = False
        _LOG.warning("the store has been opened again, since there is room", path=str(self._path))

    def _refuses_to_sync(self) -> bool:
        try:
            self._db.flush_wal(True)
        except Exception as error:
            return is_stuck(str(error))
        return False

    async def flush(self) -> None:
        await self._in_thread("The store cannot be synced", lambda: self._db.flush_wal(True))

    async def _in_thread(self, what: str, work: Callable[[], T]) -> T:
        if self._closed:
            raise Unavailable(f"{what}: it is closed.")
        with Mapped(what):
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
        """Drop the versions that no snapshot ≥ `horizon` reads; returns their number and bytes.

        A batch never ends inside a row: a tombstone must not go before the versions that it hides.
        """
        dropped = freed = 0
        batch, row = WriteBatch(raw_mode=True), b""
        for physical, size in invisible_versions(
            entries_between(self._db, number, table_end(number)), horizon
        ):
            if len(batch) >= PURGE_BATCH and physical[:-8] != row:
                self._write_batch(batch)
                batch = WriteBatch(raw_mode=True)
            batch.delete(physical)
            row = physical[:-8]
            dropped += 1
            freed += size
        self._write_batch(batch)
        return dropped, freed

    async def size(self, table: str) -> int:
        """As the port says. The bytes are counted once, and then kept up to date."""
        number = self._prefix(table)
        if table not in self._bytes:
            counted = await self._in_thread(
                f"Table {table} cannot be read", lambda: self._count_bytes(number)
            )
            self._bytes[table] = counted
        return self._bytes[table]

    def _count_bytes(self, number: bytes) -> int:
        entries = entries_between(self._db, number, table_end(number))
        return sum(len(key) - 12 + len(value) for key, value in entries)

    def _count(self, table: str, change: int) -> None:
        if table in self._bytes:
            self._bytes[table] = max(self._bytes[table] + change, 0)

    async def splits(self, table: str) -> list[bytes]:
        """A key for about every `SPLIT_BYTES` of a table's files."""
        number = self._prefix(table)
        return await self._in_thread(
            f"Table {table} cannot be read", lambda: self._split(number, table_end(number))
        )

    def _split(self, low: bytes, high: bytes) -> list[bytes]:
        """Keys that cut each file between its first and its last key within the table, evenly."""
        iterator = self._db.iter()
        found = set()
        for file in self._db.live_files():
            iterator.seek(max(file["start_key"], low))
            first = iterator.key() if iterator.valid() else high
            iterator.seek_for_prev(min(file["end_key"], high))
            last = iterator.key() if iterator.valid() else low
            size = file["size"] + file["num_entries"] * _mean_blob(iterator, first, last)
            for wanted in between(first, last, size // SPLIT_BYTES):
                iterator.seek(wanted)
                if iterator.valid() and first < iterator.key() < high:
                    found.add(iterator.key()[len(low) : -STAMP.size])
        iterator.status()
        return sorted(found)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._threads.shutdown()
        with Mapped("The store cannot be closed"):
            try:
                if self._writes:
                    self._db.flush_wal(True)
            finally:
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
    options.set_enable_blob_files(True)
    options.set_min_blob_size(BLOB_BYTES)
    options.set_blob_compression_type(DBCompressionType.lz4())
    options.set_enable_blob_gc(True)
    options.set_blob_gc_age_cutoff(1.0)  # a compaction frees dropped values, as without blob files
    return options


def _opened(path: Path, access: AccessType | None = None) -> Rdict:
    """The database, for reading and writing unless `access` says otherwise.

    The options are also given for the one column family: otherwise rocksdict opens an existing
    folder with the options with which its column family was created.
    """
    options = _options()
    return Rdict(str(path), options, {"default": options}, access or AccessType.read_write())


def between(low: bytes, high: bytes, count: int) -> list[bytes]:
    """At most `count` byte strings that cut the range from `low` to `high` evenly, taken as
    numbers; empty if `low` is not less than `high`."""
    if low >= high:
        return []
    same = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low))
    size = max(len(low), len(high)) - same
    first = int.from_bytes(low[same:].ljust(size, b"\0"))
    width = int.from_bytes(high[same:].ljust(size, b"\0")) - first
    numbers = sorted({first + width * i // (count + 1) for i in range(1, count + 1)})
    return [low[:same] + number.to_bytes(size) for number in numbers]


def _mean_blob(iterator: Any, first: bytes, last: bytes) -> int:
    """The mean bytes in blob files per entry between these keys, estimated from a sample."""
    sampled = []
    for wanted in between(first, last, SAMPLES):
        iterator.seek(wanted)
        if iterator.valid():
            sampled.append(len(iterator.value()))
    return sum(size for size in sampled if size >= BLOB_BYTES) // max(len(sampled), 1)


def _is_small(writes: Mapping[str, Sequence[Put]]) -> bool:
    """True if writing takes no longer than handing the work to a thread."""
    if sum(map(len, writes.values())) > INLINE_PUTS:
        return False
    return sum([len(put.value) for puts in writes.values() for put in puts]) <= INLINE_BYTES


def _batch(
    writes: Mapping[str, Sequence[Put]], prefixes: Mapping[str, bytes], stamp: bytes
) -> tuple[WriteBatch, dict[str, int]]:
    """The RocksDB batch that writes these rows, and the bytes of each table's rows."""
    batch, sizes = WriteBatch(raw_mode=True), {}
    for table, puts in writes.items():
        prefix, size = prefixes[table], 0
        for key, value in puts:
            batch.put(prefix + key + stamp, value)
            size += len(key) + len(value)
        sizes[table] = size
    return batch, sizes
