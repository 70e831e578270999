"""Reads of immediate views: the cells of each group are read together and folded to one row.

The cells of a group are neighbours in the table, so a group is a short prefix scan, and a range of
groups is a range of cells. Cells of an open transaction are in a lane of their own, so they never
replace stored cells. Reads of groups are not traced: they have the guarantees of the snapshot, not
those of a validated read (docs/transactions.md).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from itertools import groupby
from typing import NamedTuple

from hornbeam_server.schema.turns import chunks, turn
from hornbeam_server.schema.types import Row, Value
from hornbeam_server.storage.codec.folds import Fold
from hornbeam_server.storage.codec.keyrange import KeyRange
from hornbeam_server.storage.codec.rows import Codecs, LayoutCodec
from hornbeam_server.storage.ports import Cell, TableStore


class Group(NamedTuple):
    """A row of an immediate view, with the encoded key and the newest timestamp of its cells."""

    key: bytes
    ts: int
    row: Row


class OwnCells(NamedTuple):
    """The cells of an open transaction: `between` returns the encoded keys in a range of keys, in
    order, and `rows` has the cells."""

    between: Callable[[str, bytes, bytes | None], list[bytes]]
    rows: Callable[[str], dict[bytes, Row | None]]


class FoldedReads:
    """Reads one immediate view at one timestamp."""

    def __init__(
        self, store: TableStore, codecs: Codecs, fold: Fold, at: int, own: OwnCells | None
    ) -> None:
        self._store = store
        self._fold = fold
        self._groups: LayoutCodec = codecs(fold.name)
        self._cells: LayoutCodec = codecs(fold.cells)
        self._table = self._cells.layout.table
        self._at = at
        self._own = own

    async def get(self, keys: Sequence[tuple[Value, ...]]) -> list[Group | None]:
        """The groups with these keys, in order; None for absent groups."""
        found: list[Group | None] = []
        for some in chunks(keys):
            encoded = [self._groups.key_of(key) for key in some]
            stored = await self._store.scan_prefixes(self._table, encoded, self._at)
            for key, cells in zip(encoded, stored, strict=True):
                found.append(self._folded(key, [*cells, *self._own_cells(key)]))
            await turn(some)
        return found

    async def prefixes(
        self, prefixes: Sequence[tuple[Value, ...]], room: int | None
    ) -> list[list[Group]]:
        """For each tuple of leading key values, the groups under it in key order. `room` is as in
        `RowReader.prefixes`."""
        if not self._fold.grouped:
            return [[g for g in await self.get([(1,)]) if g is not None] for _ in prefixes]
        encoded = [self._groups.prefix(prefix) for prefix in prefixes]
        stored = await self._store.scan_prefixes(self._table, encoded, self._at, room=room)
        found = []
        for prefix, cells in zip(encoded, stored, strict=False):
            own = self._own_cells(prefix)
            found.append(list(self._all_folded(_merged(cells, own) if own else cells)))
            await turn(cells)
        return found

    async def scan(
        self, key_range: KeyRange, *, reverse: bool, limit: int | None
    ) -> AsyncGenerator[list[Group], None]:
        """Batches of groups in key order."""
        if not self._fold.grouped:
            yield [group for group in await self.get([(1,)]) if group is not None]
            return
        start, end = self._groups.range(key_range)
        left = limit
        last: list[Cell] = []
        """The cells of the last group so far, which may have more cells in the next batch."""
        async with aclosing(self._merged_scan(start, end, reverse=reverse)) as batches:
            async for batch in batches:
                cells = [*last, *batch]
                whole = self._last_group(cells)
                last = cells[whole:]
                groups = list(self._all_folded(cells[:whole]))[:left]
                if groups:
                    yield groups
                if left is not None and (left := left - len(groups)) <= 0:
                    return
        if rest := list(self._all_folded(last))[:left]:
            yield rest

    def _last_group(self, cells: Sequence[Cell]) -> int:
        """The position of the first cell of the last group."""
        group_key, at = self._fold.group_key, len(cells) - 1
        last = group_key(cells[at].key)
        while at and group_key(cells[at - 1].key) == last:
            at -= 1
        return at

    async def _merged_scan(
        self, start: bytes, end: bytes | None, *, reverse: bool
    ) -> AsyncGenerator[list[Cell], None]:
        """Batches of stored cells and cells of the transaction, in key order."""
        own = self._own_between(start, end)
        waiting = own if not reverse else own[::-1]
        async for cells in self._store.scan(self._table, start, end, self._at, reverse=reverse):
            if waiting and cells:
                last = cells[-1].key
                due = [c for c in waiting if (c.key > last if reverse else c.key < last)]
                waiting = waiting[len(due) :]
                cells = sorted([*cells, *due], key=_key, reverse=reverse)
            yield cells
        if waiting:
            yield waiting

    def _own_cells(self, prefix: bytes) -> list[Cell]:
        """The transaction's cells under a prefix, in key order."""
        return self._own_between(prefix, None, lambda key: key.startswith(prefix))

    def _own_between(
        self, start: bytes, end: bytes | None, wanted: Callable[[bytes], bool] = lambda _: True
    ) -> list[Cell]:
        """The transaction's `wanted` cells from `start` to before `end`, in key order."""
        if self._own is None:
            return []
        rows = self._own.rows(self._fold.cells)
        keys = filter(wanted, self._own.between(self._fold.cells, start, end))
        return [Cell(key, 0, self._cells.encode(row)) for key in keys if (row := rows[key])]

    def _all_folded(self, cells: Sequence[Cell]) -> Iterator[Group]:
        """The groups of cells in key order."""
        group_key = self._fold.group_key
        for key, of_group in groupby(cells, lambda cell: group_key(cell.key)):
            if (found := self._folded(key, list(of_group))) is not None:
                yield found

    def _folded(self, key: bytes, cells: Sequence[Cell]) -> Group | None:
        row = self._fold.row(self._cells.decode_all([cell.value for cell in cells]))
        if row is None:
            return None
        return Group(key, max([cell.ts for cell in cells], default=0), row)


def _merged(cells: Sequence[Cell], own: Sequence[Cell]) -> list[Cell]:
    return sorted([*cells, *own], key=_key)


def _key(cell: Cell) -> bytes:
    return cell.key
