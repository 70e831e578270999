"""Ranges of stored keys that a transaction has read: its reads, for a serializable commit.

`NotingStore` notes them where rows leave the store, below indexes, views, groups and overlays. So
every reader of rows is covered, our own loops and DuckDB's alike. A range says how many rows the
store had in it. A row that comes into the range, leaves it or changes there is then noticed: the
newest rows of the range are those that were read if there are as many, and none is newer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence, Set
from typing import NamedTuple

from hornbeam_server.storage.codec.keys import successor
from hornbeam_server.storage.ports import Cell, TableReader


class ReadRange(NamedTuple):
    """The keys of a table from `start` (included) to `end` (excluded; None: to the last), in which
    `rows` rows were read at snapshot `at`."""

    table: str
    start: bytes
    end: bytes | None
    rows: int
    at: int

    @property
    def is_one_key(self) -> bool:
        return self.end == after(self.start)


def after(key: bytes) -> bytes:
    """The end of a range that ends with `key`."""
    return key + b"\0"


class NotingStore(TableReader):
    """A reader that adds each range that is read to `ranges`. Tables in `unnoted` are read
    without a note."""

    def __init__(
        self, store: TableReader, ranges: list[ReadRange], unnoted: Set[str] = frozenset()
    ) -> None:
        self._store = store
        self._ranges = ranges
        self._unnoted = unnoted

    @property
    def remote(self) -> bool:
        return self._store.remote

    async def get(
        self, table: str, keys: Sequence[bytes], at: int, *, room: int | None = None
    ) -> list[Cell | None]:
        cells = await self._store.get(table, keys, at, room=room)
        if table not in self._unnoted:
            self._ranges += [
                ReadRange(table, key, after(key), int(cell is not None), at)
                for key, cell in zip(keys, cells, strict=False)
            ]
        return cells

    async def scan_prefixes(
        self, table: str, prefixes: Sequence[bytes], at: int, *, room: int | None = None
    ) -> list[list[Cell]]:
        groups = await self._store.scan_prefixes(table, prefixes, at, room=room)
        if table not in self._unnoted:
            self._ranges += [
                ReadRange(table, prefix, successor(prefix), len(cells), at)
                for prefix, cells in zip(prefixes, groups, strict=False)
            ]
        return groups

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
        """A scan that its caller leaves early has read up to the last row that it got."""
        batches = self._store.scan(table, start, end, at, reverse=reverse, limit=limit)
        if table in self._unnoted:
            async for cells in batches:
                yield cells
            return
        place, rows = len(self._ranges), 0
        self._ranges.append(ReadRange(table, start, start, 0, at))
        async for cells in batches:
            rows += len(cells)
            last = cells[-1].key
            first, behind = (last, end) if reverse else (start, after(last))
            self._ranges[place] = ReadRange(table, first, behind, rows, at)
            yield cells
        if limit is None or rows < limit:
            self._ranges[place] = ReadRange(table, start, end, rows, at)
