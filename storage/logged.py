"""Reads of a store, over which rows are laid that are in the log and perhaps not in the store yet.

`LoggedRows` has the rows of each such batch, as a layer with the batch's timestamp. `LoggedStore`
reads the store and these rows together. A read takes the layers first, and then asks the store: a
row that is put in between, and whose layer is gone by the end of the read, is in both. Where both
have a row, the newer version counts; equal timestamps mean equal bytes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from functools import cached_property

from hornbeam_server.storage.batches import fitting, groups_within
from hornbeam_server.storage.codec.keys import successor
from hornbeam_server.storage.ports import BATCH_BYTES, TOMBSTONE, Cell, Put, TableReader

MERGED = 1_024
"""Maximum rows of a batch of a scan that may contain logged rows."""


class Layer:
    """The rows that one batch writes. They are sorted at the first read that needs them."""

    def __init__(self, ts: int, writes: Mapping[str, Sequence[Put]]) -> None:
        self.ts = ts
        self._writes = writes
        self.rows = sum(map(len, writes.values()))
        self.bytes = sum(len(p.key) + len(p.value) for puts in writes.values() for p in puts)

    @cached_property
    def _values(self) -> dict[str, dict[bytes, bytes]]:
        return {table: dict(puts) for table, puts in self._writes.items()}

    @cached_property
    def _keys(self) -> dict[str, list[bytes]]:
        return {table: sorted(values) for table, values in self._values.items()}

    def has(self, table: str) -> bool:
        return table in self._writes

    def cell(self, table: str, key: bytes) -> Cell | None:
        """The row as the batch leaves it, also a tombstone; None: the batch does not write it."""
        value = self._values[table].get(key)
        return None if value is None else Cell(key, self.ts, value)

    def between(self, table: str, start: bytes, end: bytes | None) -> list[Cell]:
        """The rows with start ≤ key < end, in key order, tombstones included."""
        keys, values = self._keys[table], self._values[table]
        last = len(keys) if end is None else bisect_left(keys, end)
        found = keys[bisect_left(keys, start) : last]
        return [Cell(key, self.ts, values[key]) for key in found]


class LoggedRows:
    """The layers of the batches that are logged and not applied, in the order of the log."""

    def __init__(self) -> None:
        self._layers: tuple[Layer, ...] = ()
        self.rows = self.bytes = 0

    def add(self, layer: Layer) -> None:
        """Lay the rows of a batch over the store. The batch is the newest."""
        self._layers += (layer,)
        self.rows += layer.rows
        self.bytes += layer.bytes

    def drop(self, layer: Layer) -> None:
        """Lay the rows of a batch over the store no more: the store has them."""
        self._layers = tuple([other for other in self._layers if other is not layer])
        self.rows -= layer.rows
        self.bytes -= layer.bytes

    def layers(self, table: str, at: int) -> list[Layer]:
        """The layers that write to `table` at or below `at`, in the order of the log."""
        return [layer for layer in self._layers if layer.ts <= at and layer.has(table)]


class LoggedStore(TableReader):
    """`store` with `logged` laid over it."""

    def __init__(self, store: TableReader, logged: LoggedRows) -> None:
        self._store = store
        self._logged = logged

    @property
    def remote(self) -> bool:
        return self._store.remote

    def get(
        self, table: str, keys: Sequence[bytes], at: int, *, room: int | None = None
    ) -> Awaitable[list[Cell | None]]:
        layers = self._logged.layers(table, at)
        stored = self._store.get(table, keys, at, room=room)
        mine = {key: cell for layer in layers for key in keys if (cell := layer.cell(table, key))}
        return _got(stored, keys, mine, room) if mine else stored

    async def scan_prefixes(
        self, table: str, prefixes: Sequence[bytes], at: int, *, room: int | None = None
    ) -> list[list[Cell]]:
        layers = self._logged.layers(table, at)
        mine = [_between(layers, table, prefix, successor(prefix)) for prefix in prefixes]
        groups = await self._store.scan_prefixes(table, prefixes, at, room=room)
        if not any(mine):
            return groups
        pairs = zip(groups, mine, strict=False)  # the store may answer the first prefixes only
        merged = [_merged(cells, rows) if rows else cells for cells, rows in pairs]
        return merged if room is None else groups_within(merged, room)

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
        layers = self._logged.layers(table, at)
        mine = _between(layers, table, start, end)
        # Logged rows may hide stored rows, so the scan asks for as many more.
        wanted = None if limit is None else limit + len(mine)
        stored = self._store.scan(table, start, end, at, reverse=reverse, limit=wanted)
        if not mine:
            async for cells in stored:
                yield cells
            return
        merge, left = _Merge(mine, reverse), limit
        async for cells in stored:
            live = _live(merge.add(cells))[:left]
            for some in _parts(live):
                yield some
            if left is not None and (left := left - len(live)) <= 0:
                return
        for some in _parts(_live(merge.rest())[:left]):
            yield some

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
        layers = self._logged.layers(table, at)
        logged = any(layer.between(table, start, end) for layer in layers)
        scan = super().scan_values if logged else self._store.scan_values
        return scan(table, start, end, at, reverse=reverse, limit=limit)


async def _got(
    stored: Awaitable[list[Cell | None]],
    keys: Sequence[bytes],
    mine: Mapping[bytes, Cell],
    room: int | None,
) -> list[Cell | None]:
    """The newer of the stored and the logged version of each key."""
    merged = [_newer(cell, mine.get(key)) for key, cell in zip(keys, await stored, strict=False)]
    return merged if room is None else merged[: fitting(merged, room)]


def _newer(stored: Cell | None, logged: Cell | None) -> Cell | None:
    if logged is None or (stored is not None and stored.ts >= logged.ts):
        return stored
    return None if logged.value == TOMBSTONE else logged


def _between(
    layers: Iterable[Layer], table: str, start: bytes, end: bytes | None
) -> dict[bytes, Cell]:
    """The newest logged row of each key with start ≤ key < end, tombstones included."""
    return {cell.key: cell for layer in layers for cell in layer.between(table, start, end)}


def _merged(stored: Sequence[Cell], mine: Mapping[bytes, Cell]) -> list[Cell]:
    """The present rows of a range, in key order."""
    return _live(_laid_over(stored, mine))


def _laid_over(
    stored: Sequence[Cell], mine: Mapping[bytes, Cell], *, reverse: bool = False
) -> list[Cell]:
    found = {cell.key: cell for cell in stored}
    for key, cell in mine.items():
        if key not in found or found[key].ts < cell.ts:
            found[key] = cell
    return [found[key] for key in sorted(found, reverse=reverse)]


def _live(cells: Iterable[Cell]) -> list[Cell]:
    return [cell for cell in cells if cell.value != TOMBSTONE]


class _Merge:
    """Lays the logged rows of a range over the batches of a scan, in its order."""

    def __init__(self, mine: Mapping[bytes, Cell], reverse: bool) -> None:
        self._mine = mine
        self._reverse = reverse
        self._waiting = sorted(mine, reverse=not reverse)
        """The keys that no batch has passed yet; the next one is the last."""

    def add(self, stored: Sequence[Cell]) -> list[Cell]:
        """The rows of a batch and the logged rows up to its last key."""
        waiting, last, due = self._waiting, stored[-1].key, {}
        while waiting and (waiting[-1] >= last if self._reverse else waiting[-1] <= last):
            key = waiting.pop()
            due[key] = self._mine[key]
        return _laid_over(stored, due, reverse=self._reverse) if due else list(stored)

    def rest(self) -> list[Cell]:
        """The logged rows behind the last batch."""
        return [self._mine[key] for key in reversed(self._waiting)]


def _parts(cells: list[Cell]) -> Iterable[list[Cell]]:
    """`cells` in batches as the port bounds them."""
    begin = 0
    while begin < len(cells):
        some = cells[begin : begin + MERGED]
        some = some[: fitting(some, BATCH_BYTES)]
        yield some
        begin += len(some)
