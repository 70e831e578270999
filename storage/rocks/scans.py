"""Scans of a range at a snapshot, batch by batch: by Python, or by the module `hornbeam_speedups`.

`PythonScan` is the reference. The module reads the same rows in the same batches. It is worth its
while where rows are read in key order, each with few versions, as whole tables are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from rocksdict import Rdict, ReadOptions

from hornbeam_server.storage.codec.implementation import Native, implementation
from hornbeam_server.storage.ports import BATCH_BYTES, TOMBSTONE, Cell, make_cell
from hornbeam_server.storage.rocks.versions import (
    MOST_STEPS,
    entries_backwards,
    newest_versions,
    oldest_last,
    rows_of_batch,
)


class Scan(Protocol):
    """The rows of a range as of one snapshot."""

    def cells(self, most: int) -> tuple[list[Cell], bool]:
        """The next rows, at most `most`, up to the row at which they reach BATCH_BYTES; and whether
        they are the last ones."""

    def values(self, most: int) -> tuple[list[bytes], bool]:
        """The values of `cells`."""


class PythonScan:
    """The reference."""

    def __init__(self, rows: Iterator[Cell]) -> None:
        self._rows = rows

    def cells(self, most: int) -> tuple[list[Cell], bool]:
        return rows_of_batch(self._rows, most)

    def values(self, most: int) -> tuple[list[bytes], bool]:
        cells, ended = rows_of_batch(self._rows, most)
        return [cell[2] for cell in cells], ended


class NativeScan:
    """A scan by the module."""

    def __init__(self, native: Native, db: Rdict, start: bytes, end: bytes, newest: int) -> None:
        source = _Entries(db, end)
        self._scan = native.Scan(source, start, newest, MOST_STEPS, TOMBSTONE, BATCH_BYTES)

    def cells(self, most: int) -> tuple[list[Cell], bool]:
        return self._scan.cells(most, make_cell)

    def values(self, most: int) -> tuple[list[bytes], bool]:
        return self._scan.values(most)


class _Entries:
    """The entries below `end` of one consistent view of a database, as the module reads them: a
    step of `items` is one call, and a step of an iterator four."""

    def __init__(self, db: Rdict, end: bytes) -> None:
        self._view: Any = db.snapshot()  # its types know no raw mode
        self._options = ReadOptions()
        self._options.set_iterate_upper_bound(end)

    def items(self, start: bytes) -> Any:
        """The entries from `start` on. A damaged block looks like the end of the data."""
        return self._view.items(from_key=start, read_opt=self._options)

    def require_end(self, last: bytes) -> None:
        """Raises an error of RocksDB if the entries cannot be read from `last` to the end."""
        iterator = self._view.iter(self._options)
        iterator.seek(last)
        while iterator.valid():
            iterator.next()
        iterator.status()


def scan_of(db: Rdict, start: bytes, end: bytes, newest: int) -> Scan:
    """The rows with start ≤ key < end, physical keys, in their order, by the implementation of this
    process. `newest` is the complement of the snapshot's timestamp."""
    native = implementation().native
    if native is None:
        return PythonScan(newest_versions(db, start, end, newest))
    return NativeScan(native, db, start, end, newest)


def reverse_scan_of(db: Rdict, start: bytes, end: bytes, at: int) -> Scan:
    """As `scan_of`, from the last row to the first, as of the timestamp `at`."""
    return PythonScan(oldest_last(entries_backwards(db, start, end), at))
