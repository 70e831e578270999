"""Reads of immediate views: the cells of each group are read together and folded to one row.

The cells of a group are neighbours in the table, so a group is a short prefix scan, and a range of
groups is a range of cells. So are the values of a group, from which its MIN, MAX and
COUNT(DISTINCT) follow. Cells of an open transaction are in a lane of their own, so they never
replace stored cells. Reads of groups are not traced: they have the guarantees of the snapshot, not
those of a validated read (docs/transactions.md).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from itertools import groupby, islice
from typing import NamedTuple

from hornbeam_server.schema.turns import chunks, turn
from hornbeam_server.schema.types import Row, Value
from hornbeam_server.schema.views import Folding
from hornbeam_server.storage.codec.folds import NO_VALUES, Fold, Values
from hornbeam_server.storage.codec.keyrange import KeyRange
from hornbeam_server.storage.codec.keys import successor
from hornbeam_server.storage.codec.rows import Codecs, LayoutCodec
from hornbeam_server.storage.ports import Cell, TableReader

FEW_CELLS = 64
"""Cells that a look-up of a minimum or maximum reads at first."""
FEW_GROUPS = 8
"""Up to so many groups, the values of each group are looked up by themselves."""


class Group(NamedTuple):
    """A row of an immediate view, with the encoded key and the newest timestamp of its cells."""

    key: bytes
    ts: int
    row: Row


class OwnCells(NamedTuple):
    """The cells of an open transaction, by layout: `between` returns the encoded keys in a range of
    keys, in order, and `rows` has the cells."""

    between: Callable[[str, bytes, bytes | None], list[bytes]]
    rows: Callable[[str], dict[bytes, Row | None]]


class _Cells:
    """The cells of one layout at one timestamp, with those of an open transaction."""

    def __init__(self, store: TableReader, codec: LayoutCodec, at: int, own: OwnCells | None):
        self._store = store
        self._codec = codec
        self._at = at
        self._own = own
        self.decode = codec.decode_all

    async def prefixes(self, prefixes: Sequence[bytes], room: int | None) -> list[list[Cell]]:
        """The cells under each prefix, in key order. `room` is as in `RowReader.prefixes`."""
        table = self._codec.layout.table
        stored = await self._store.scan_prefixes(table, prefixes, self._at, room=room)
        if self._own is None:
            return stored
        return [
            sorted([*cells, *own], key=_key) if (own := self._between(p, successor(p))) else cells
            for p, cells in zip(prefixes, stored, strict=False)
        ]

    async def scan(
        self, start: bytes, end: bytes | None, *, reverse: bool = False, limit: int | None = None
    ) -> AsyncGenerator[list[Cell], None]:
        """Batches of cells in key order, up to the last of the first `limit` stored cells."""
        table = self._codec.layout.table
        own = self._between(start, end)
        waiting = own[::-1] if reverse else own
        stored = self._store.scan(table, start, end, self._at, reverse=reverse, limit=limit)
        left = limit
        async for cells in stored:
            left = None if left is None else left - len(cells)
            last = cells[-1].key
            due = [c for c in waiting if (c.key > last if reverse else c.key < last)]
            waiting = waiting[len(due) :]
            yield sorted([*cells, *due], key=_key, reverse=reverse) if due else cells
        if waiting and (left is None or left > 0):
            yield waiting

    def _between(self, start: bytes, end: bytes | None) -> list[Cell]:
        """The transaction's cells from `start` (included) to `end` (excluded)."""
        if self._own is None:
            return []
        name = self._codec.layout.name
        rows = self._own.rows(name)
        keys = self._own.between(name, start, end)
        return [Cell(key, 0, self._codec.encode(row)) for key in keys if (row := rows[key])]


class FoldedReads:
    """Reads one immediate view at one timestamp."""

    def __init__(
        self, store: TableReader, codecs: Codecs, fold: Fold, at: int, own: OwnCells | None
    ) -> None:
        self._fold = fold
        self._groups: LayoutCodec = codecs(fold.name)
        self._cells = _Cells(store, codecs(fold.cells), at, own)
        self._values = [_Cells(store, codecs(name), at, own) for name in fold.values]
        self._indexed = codecs(fold.indexed) if fold.indexed is not None else None

    async def get(self, keys: Sequence[tuple[Value, ...]]) -> list[Group | None]:
        """The groups with these keys, in order; None for absent groups."""
        found: list[Group | None] = []
        for some in chunks(keys):
            encoded = [self._groups.key_of(key) for key in some]
            cells = await self._cells.prefixes(encoded, None)
            for key, of_group in zip(encoded, cells, strict=True):
                groups = await self._folded([(key, of_group)])
                found.append(groups[0] if groups else None)
            await turn(some)
        return found

    async def prefixes(
        self, prefixes: Sequence[tuple[Value, ...]], room: int | None
    ) -> list[list[Group]]:
        """For each tuple of leading key values, the groups under it in key order. `room` is as in
        `RowReader.prefixes`."""
        if not self._fold.grouped:
            return [await self._only() for _ in prefixes]
        encoded = [self._groups.prefix(prefix) for prefix in prefixes]
        found = []
        for cells in await self._cells.prefixes(encoded, room):
            found.append(await self._folded(self._by_group(cells)))
            await turn(cells)
        return found

    async def scan(
        self, key_range: KeyRange, *, reverse: bool, limit: int | None
    ) -> AsyncGenerator[list[Group], None]:
        """Batches of groups in key order."""
        start, end = self._groups.range(key_range)
        async for groups in self.between(start, end, reverse=reverse, limit=limit):
            yield groups

    async def between(
        self, start: bytes, end: bytes | None, *, reverse: bool = False, limit: int | None = None
    ) -> AsyncGenerator[list[Group], None]:
        """Batches of groups in the order of their encoded keys, from `start` (included) to `end`
        (excluded; None: to the last). Both are at the beginning of a group."""
        if not self._fold.grouped:
            yield await self._only()
            return
        left = limit
        last: list[Cell] = []
        """The cells of the last group so far, which may have more cells in the next batch."""
        async with aclosing(self._cells.scan(start, end, reverse=reverse)) as batches:
            async for batch in batches:
                cells = [*last, *batch]
                whole = self._last_group(cells)
                last = cells[whole:]
                groups = (await self._folded(self._by_group(cells[:whole]), left))[:left]
                if groups:
                    yield groups
                if left is not None and (left := left - len(groups)) <= 0:
                    return
        if rest := (await self._folded(self._by_group(last)))[:left]:
            yield rest

    async def _only(self) -> list[Group]:
        """The only group of a view without GROUP BY."""
        return [group for group in await self.get([(1,)]) if group is not None]

    def _last_group(self, cells: Sequence[Cell]) -> int:
        """The position of the first cell of the last group."""
        group_key, at = self._fold.group_key, len(cells) - 1
        last = group_key(cells[at].key)
        while at and group_key(cells[at - 1].key) == last:
            at -= 1
        return at

    def _by_group(self, cells: Sequence[Cell]) -> Iterator[tuple[bytes, list[Cell]]]:
        group_key = self._fold.group_key
        for key, of_group in groupby(cells, lambda cell: group_key(cell.key)):
            yield key, list(of_group)

    async def _folded(
        self, groups: Iterable[tuple[bytes, list[Cell]]], most: int | None = None
    ) -> list[Group]:
        """The first `most` rows of `groups`, in their order."""
        if not self._values:
            return list(islice(self._summed(groups), most))
        left, made = iter(groups), list[Group]()
        while found := self._existing(left, None if most is None else most - len(made)):
            values = await self._values_of([self._own_key(key, rows) for key, rows, _ in found])
            for (key, rows, ts), of_group in zip(found, values, strict=True):
                row = self._fold.row(rows, of_group)
                if row is not None:
                    made.append(Group(key, ts, row))
            if most is None:
                break
        return made

    def _summed(self, groups: Iterable[tuple[bytes, list[Cell]]]) -> Iterator[Group]:
        """Yield the groups that exist, of a view whose columns all follow from sums."""
        decode, row_of = self._cells.decode, self._fold.row
        for key, cells in groups:
            row = row_of(decode([cell.value for cell in cells]))
            if row is not None:
                yield Group(key, max([cell.ts for cell in cells], default=0), row)

    def _existing(
        self, groups: Iterator[tuple[bytes, list[Cell]]], most: int | None
    ) -> list[tuple[bytes, list[Row], int]]:
        """The next groups that exist, at most `most`: their keys, cells, and newest timestamps."""
        found: list[tuple[bytes, list[Row], int]] = []
        if most == 0:
            return found
        for key, cells in groups:
            rows = self._cells.decode([cell.value for cell in cells])
            if self._fold.exists(rows):
                found.append((key, rows, max([cell.ts for cell in cells], default=0)))
            if len(found) == most:
                break
        return found

    def _own_key(self, key: bytes, cells: Sequence[Row]) -> bytes:
        """The key under which the view has a group. `key` is that of the layout that is read."""
        if self._indexed is None or not cells:
            return key
        return self._indexed.prefix(self._fold.group(cells[0]))

    async def _values_of(self, keys: Sequence[bytes]) -> list[tuple[Values, ...]]:
        """The values of groups, for each layout of values. Groups that are read in the order of an
        index are not neighbours in these layouts."""
        if not self._values or not keys:
            return [()] * len(keys)
        if len(keys) > FEW_GROUPS and self._indexed is None:
            columns = [await self._values_in_range(cells, keys) for cells in self._values]
        else:
            columns = [
                [await self._values_of_one(number, key) for key in keys]
                for number in range(len(self._values))
            ]
        return list(zip(*columns, strict=True))

    async def _values_in_range(self, cells: _Cells, keys: Sequence[bytes]) -> list[Values]:
        """The values of groups from one scan over all of them."""
        found = dict.fromkeys(keys, NO_VALUES)
        start, last = min(keys), max(keys)
        waiting = iter(sorted(keys))
        key = next(waiting)
        async for values in _present(self._fold, cells, start, successor(last)):
            for encoded, value in values:
                while not encoded.startswith(key) and key < encoded:
                    following = next(waiting, None)
                    if following is None:
                        break
                    key = following
                if encoded.startswith(key):
                    first, _, number = found[key]
                    found[key] = Values(value if not number else first, value, number + 1)
        return [found[key] for key in keys]

    async def _values_of_one(self, number: int, key: bytes) -> Values:
        """The values of one group. Only those that its columns need are read."""
        cells, needed = self._values[number], self._fold.needed[number]
        end = successor(key)
        if Folding.DISTINCT in needed:
            found = [
                value
                async for values in _present(self._fold, cells, key, end)
                for _, value in values
            ]
            return Values(found[0], found[-1], len(found)) if found else NO_VALUES
        first = last = None
        if Folding.MIN in needed:
            first = await _first(self._fold, cells, key, end, reverse=False)
        if Folding.MAX in needed:
            last = await _first(self._fold, cells, key, end, reverse=True)
        return Values(first, last)


async def _present(
    fold: Fold,
    cells: _Cells,
    start: bytes,
    end: bytes | None,
    *,
    reverse: bool = False,
    limit: int | None = None,
) -> AsyncGenerator[list[tuple[bytes, Value]], None]:
    """Batches of the values that some row has, with their encoded keys. With `limit`, the values
    whose cells are certainly among the first `limit` stored cells."""
    rest: list[Cell] = []
    read = 0
    async with aclosing(cells.scan(start, end, reverse=reverse, limit=limit)) as batches:
        async for batch in batches:
            read += len(batch)
            rest += batch
            whole = len(rest) - 1
            last = fold.group_key(rest[-1].key)
            while whole and fold.group_key(rest[whole - 1].key) == last:
                whole -= 1
            yield _counted(fold, cells, rest[:whole])
            rest = rest[whole:]
    if limit is None or read < limit:
        yield _counted(fold, cells, rest)


def _counted(fold: Fold, cells: _Cells, some: Sequence[Cell]) -> list[tuple[bytes, Value]]:
    found = []
    rows = cells.decode([cell.value for cell in some])
    pairs = zip(some, rows, strict=True)
    for key, of_value in groupby(pairs, lambda pair: fold.group_key(pair[0].key)):
        with_value = [row for _, row in of_value]
        if sum([row[-1] for row in with_value]) > 0:  # type: ignore[misc]
            found.append((key, with_value[0][-3]))
    return found


async def _first(
    fold: Fold, cells: _Cells, start: bytes, end: bytes | None, *, reverse: bool
) -> Value:
    """The first value in a range, from its start or from its end; None if there is none."""
    for limit in (FEW_CELLS, None):
        found = _present(fold, cells, start, end, reverse=reverse, limit=limit)
        async with aclosing(found) as batches:
            async for values in batches:
                if values:
                    return values[0][1]
    return None


def _key(cell: Cell) -> bytes:
    return cell.key
