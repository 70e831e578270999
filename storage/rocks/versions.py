"""Versions of rows in RocksDB: iteration over physical keys, and what a snapshot reads of them."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import lt
from typing import Any

from rocksdict import Rdict, ReadOptions

from hornbeam_server.storage.codec.keys import successor
from hornbeam_server.storage.ports import BATCH_BYTES, TOMBSTONE, Cell, make_cell

STAMP = struct.Struct(">Q")
LARGEST = (1 << 64) - 1
_LAST = b"\xff" * 8 + b"\0"
"""A suffix behind the stamps of all versions of a row."""
LARGEST_BATCH = 2_048
"""Maximum rows of a batch. The event loop reads the first batch of a scan itself; later batches are
larger, and read in a thread."""
MOST_STEPS = 4
"""Versions of a row that a scan passes one by one before it seeks: a seek takes as long as some
four steps."""
MOST_SKIPPED = 1_000
"""Purged entries that a look-up of many rows passes on its way to the next row, in some 0.1 ms.
Behind more of them the rows are looked up one by one, each within bounds of its own."""
_ROW_COST = BATCH_BYTES // LARGEST_BATCH
"""Reading a row takes about as long as reading so many bytes."""


def table_end(number: bytes) -> bytes:
    """The exclusive end of the keys that begin with `number`: a table's number, perhaps with more
    bytes."""
    after = successor(number)
    assert after is not None, "numbers are given from 1"
    return after


def entries_between(db: Rdict, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Entries with start ≤ key < end, as one consistent view.

    rocksdict's `items()` would be shorter, but it takes a damaged block for the end of the data:
    only `status` of its low iterator distinguishes the two.
    """
    iterator = _below(db, end)
    iterator.seek(start)
    while iterator.valid():
        yield iterator.key(), iterator.value()
        iterator.next()
    iterator.status()


def entries_backwards(db: Rdict, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
    """As `entries_between`, from the last to the first."""
    iterator = _below(db, end)
    iterator.seek_to_last()
    while iterator.valid():
        key = iterator.key()
        if key < start:
            return
        yield key, iterator.value()
        iterator.prev()
    iterator.status()


def _below(db: Rdict, end: bytes) -> Any:
    """An iterator over all keys below `end`.

    An iterator without a bound goes on to the next existing entry, past all entries that were
    purged and are not compacted yet. That takes 20 ms for 200 000 such entries, and holds the
    interpreter. There is no lower bound: the method of rocksdict 0.3 for it sets the upper one.
    """
    options = ReadOptions()
    options.set_iterate_upper_bound(end)
    return db.iter(options)


def rows_of_batch(rows: Iterator[Cell], most: int) -> tuple[list[Cell], bool]:
    """The next rows, at most `most`, up to the row at which they reach BATCH_BYTES; and whether
    they are the last ones."""
    batch: list[Cell] = []
    append, left = batch.append, BATCH_BYTES
    for cell in islice(rows, most):
        append(cell)
        left -= len(cell[2])  # the value; access by its name takes twice as long
        if left <= 0:
            return batch, False
    return batch, len(batch) < most


def collect(groups: Iterator[Iterator[Cell]], found: list[list[Cell]], room: int) -> Iterator[bool]:
    """Fill `found` with the first groups, as far as whole groups fit in `room`. Yields True after
    each part of the work."""
    part = BATCH_BYTES
    for group in groups:
        cells: list[Cell] = []
        for cell in group:
            cells.append(cell)
            size = len(cell.value)
            room -= size
            if room < 0:
                return
            part -= size + _ROW_COST
            if part <= 0:
                yield True
                part = BATCH_BYTES
        found.append(cells)
        part -= _ROW_COST


def seek_row(db: Rdict, physical: bytes, stamp: bytes) -> Cell | None:
    """First version of the row `physical` at or behind `stamp`, also if it is a tombstone; None if
    there is none."""
    first = physical + stamp
    iterator = _below(db, physical + _LAST)
    iterator.seek(first)
    if not iterator.valid():
        iterator.status()
        return None
    found = iterator.key()
    if len(found) != len(physical) + 8:  # a row whose key is longer
        return None
    return make_cell((physical[4:], _timestamp(found), iterator.value()))


def seek_rows(
    db: Rdict, prefix: bytes, keys: Sequence[bytes], stamp: bytes
) -> Iterator[Cell | None]:
    """`seek_row` for the rows with these keys, behind `prefix`.

    If the keys ascend, as those of a load do, one iterator reads them all. It stands at the first
    entry behind an earlier key: if that is behind the next key, too, this row is absent.
    """
    done = 0
    if len(keys) > 1 and all(map(lt, keys, keys[1:])):
        for cell in _ascending(db, prefix, keys, stamp):
            done += 1
            yield cell
    for key in keys[done:]:
        yield seek_row(db, prefix + key, stamp)


def _ascending(
    db: Rdict, prefix: bytes, keys: Sequence[bytes], stamp: bytes
) -> Iterator[Cell | None]:
    """The rows of ascending keys. Ends before the row to which too many purged entries lead."""
    options = ReadOptions()
    options.set_iterate_upper_bound(prefix + keys[-1] + _LAST)
    options.set_max_skippable_internal_keys(MOST_SKIPPED)
    iterator = db.iter(options)
    found: bytes | None = b""
    for key in keys:
        physical = prefix + key
        first = physical + stamp
        if found is not None and found < first:
            iterator.seek(first)
            found = iterator.key() if iterator.valid() else None
            if found is None and not _has_ended(iterator):
                return
        if found is not None and found[:-8] == physical:
            yield Cell(key, _timestamp(found), iterator.value())
        else:
            yield None


def _has_ended(iterator: Any) -> bool:
    """Whether an iterator that is not valid is at its end. False: it has given up among purged
    entries."""
    try:
        iterator.status()
    except Exception as error:
        if str(error).startswith("Result incomplete"):
            return False
        raise
    return True


def _timestamp(physical: bytes) -> int:
    return LARGEST - int.from_bytes(physical[-8:])


def newest_versions(db: Rdict, start: bytes, end: bytes, newest: int) -> Iterator[Cell]:
    """Rows with start ≤ key < end: of each the first version at or behind `newest`, a complemented
    timestamp, without tombstones. The keys are physical.

    The other versions of a row are passed one by one, or by one seek if there are many: a cell to
    which all transactions add may have thousands.
    """
    iterator = _below(db, end)
    iterator.seek(start)
    least = STAMP.pack(newest)
    row, done, steps = b"", False, 0
    last, ts = b"", 0
    while iterator.valid():
        physical = iterator.key()
        current, stamp = physical[:-8], physical[-8:]
        if current != row:
            row, done, steps = current, False, 0
        if not done and stamp >= least:
            done, steps = True, 0
            value = iterator.value()
            if value != TOMBSTONE:
                if stamp != last:  # rows that were written together have one timestamp
                    last, ts = stamp, _timestamp(physical)
                yield make_cell((row[4:], ts, value))
        steps += 1
        if steps > MOST_STEPS:
            iterator.seek(row + (_LAST if done else least))
            steps = 0
        else:
            iterator.next()
    iterator.status()


def oldest_last(entries: Iterator[tuple[bytes, bytes]], at: int) -> Iterator[Cell]:
    """As `newest_versions`, for entries in reverse order and a timestamp `at`: the versions of a
    row come oldest first, and the last one ≤ `at` is read."""
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


def invisible_versions(
    entries: Iterator[tuple[bytes, bytes]], horizon: int
) -> Iterator[tuple[bytes, int]]:
    """Keys and sizes of the versions that no snapshot ≥ `horizon` reads.

    Such snapshots read the newest version ≤ `horizon`, unless a newer one hides it. If that version
    is a tombstone, the row is absent without it, too: it goes with everything below it.
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
