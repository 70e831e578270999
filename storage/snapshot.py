"""Reads decoded rows from a store, by a catalog, at a timestamp.

Queries, view maintenance, constraint checks and verification read through `Snapshot`. It can also
read *mutations* of a transaction that is not committed yet, over the rows of the store (read your
own writes, dry runs). A *trace* notes every row version that was read (for optimistic
transactions).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from operator import gt, lt
from typing import NamedTuple, Protocol

import pyarrow as pa

from hornbeam_server.schema.catalog import Catalog, Layout
from hornbeam_server.schema.sizes import Budget
from hornbeam_server.schema.turns import chunks, made, pause, turn
from hornbeam_server.schema.types import Row, Value
from hornbeam_server.storage.batches import bytes_of_values
from hornbeam_server.storage.codec.arrow import picked_batch
from hornbeam_server.storage.codec.keyrange import KeyRange
from hornbeam_server.storage.codec.rows import Codecs, LayoutCodec
from hornbeam_server.storage.folded import FoldedReads, OwnCells
from hornbeam_server.storage.ports import BATCH_BYTES, Cell, TableReader
from hornbeam_server.storage.together import read_together

CATALOG = ""
"""The layout of a read of the catalog. No relation, view or index has this name."""
MERGED = 1_024
"""Maximum rows of a batch that may contain rows of a transaction."""
PREFETCHED_BYTES = 4 << 20
"""Maximum bytes of a layout's rows that are read ahead, exceeded by one row at most."""


class RowVersion(NamedTuple):
    """A row with the commit timestamp of the version read; `ts` is 0 if this transaction wrote
    it."""

    key: bytes
    ts: int
    row: Row


class ReadItem(NamedTuple):
    """An entry of a trace: the row `key` of this layout was read at version `ts`; None: the row
    was absent. In the layout `CATALOG`, `ts` is the meaning of the catalog under which the query
    was planned (`schema.codec.meaning_of`)."""

    layout: str
    key: bytes
    ts: int | None


class RowReader(Protocol):
    """Reads rows of any layout (relation, view, index) by its name, at one timestamp."""

    catalog: Catalog

    async def get(
        self, layout: str, keys: Sequence[tuple[Value, ...]], *, room: int | None = None
    ) -> list[RowVersion | None]:
        """Rows by full key values, in order; None for absent rows. With `room` the answer covers
        only the first keys, at least one, up to the row at which they reach about so many
        bytes."""

    async def prefixes(
        self, layout: str, prefixes: Sequence[tuple[Value, ...]], *, room: int | None = None
    ) -> list[list[RowVersion]]:
        """For each tuple of leading key values, all rows under it in key order. With `room` the
        answer covers only the first prefixes, whose rows have at most about so many bytes. It is
        empty if the first prefix alone has more: `scan` reads that prefix."""

    def scan(
        self,
        layout: str,
        key_range: KeyRange = KeyRange(),
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncGenerator[list[Row], None]:
        """Batches of rows in key order."""

    async def scan_columns(
        self,
        layout: str,
        at: Sequence[int],
        key_range: KeyRange = KeyRange(),
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """The columns at the positions `at`, at least one, of the rows of `scan`."""
        columns = self.catalog.layout(layout).columns
        rows = self.scan(layout, key_range, reverse=reverse, limit=limit)
        async with aclosing(rows) as batches:
            async for batch in batches:
                yield picked_batch(columns, at, batch)


class Written(Protocol):
    """An element of an overlay: a stored row as a transaction leaves it; `new` None: deleted."""

    @property
    def layout(self) -> str: ...
    @property
    def key(self) -> bytes: ...
    @property
    def new(self) -> Row | None: ...


class Overlay:
    """Rows of an uncommitted transaction by layout and key, in key order."""

    def __init__(self, mutations: Iterable[Written]) -> None:
        self._rows: dict[str, dict[bytes, Row | None]] = {}
        for mutation in mutations:
            self._rows.setdefault(mutation.layout, {})[mutation.key] = mutation.new
        self._keys = {layout: sorted(rows) for layout, rows in self._rows.items()}

    def rows(self, layout: str) -> dict[bytes, Row | None]:
        return self._rows.get(layout, {})

    def between(self, layout: str, start: bytes, end: bytes | None) -> list[bytes]:
        """Keys with start ≤ key < end, sorted."""
        keys = self._keys.get(layout, [])
        last = len(keys) if end is None else bisect_left(keys, end)
        return keys[bisect_left(keys, start) : last]

    def cells(self) -> OwnCells:
        """The transaction's cells of immediate views."""
        return OwnCells(self.between, self.rows)


class Snapshot(RowReader):
    """A `RowReader` over a table store at timestamp `at`."""

    def __init__(
        self,
        store: TableReader,
        codecs: Codecs,
        at: int,
        *,
        mutations: Overlay | None = None,
        trace: list[ReadItem] | None = None,
        require_valid: Callable[[], None] = lambda: None,
        budget: Budget | None = None,
    ) -> None:
        """`require_valid` is called before rows that were read are returned; it raises if they may
        be wrong. `get` and `prefixes` take the bytes that they read from `budget`, for callers that
        keep all rows."""
        self.catalog = codecs.catalog
        self.at = at
        self._views = self.catalog.declared_view
        self._store = store
        self._codecs = codecs
        self._overlay = mutations
        self._trace = trace
        self._require_valid = require_valid
        self._budget = budget
        self.rows_read = 0
        """The rows that came from the store so far."""

    def _trace_of(self, layout: str) -> list[ReadItem] | None:
        """The trace; None for declared views, whose reads are not validated."""
        if self._trace is None or self.catalog.layout(layout).source in self._views:
            return None
        return self._trace

    def _folded(self, layout: str) -> FoldedReads | None:
        """Reads of an immediate view; None for any other layout."""
        fold = self._codecs.fold(layout)
        if fold is None:
            return None
        own = self._overlay.cells() if self._overlay is not None else None
        return FoldedReads(self._store, self._codecs, fold, self.at, own)

    async def get(
        self, layout: str, keys: Sequence[tuple[Value, ...]], *, room: int | None = None
    ) -> list[RowVersion | None]:
        if (folded := self._folded(layout)) is not None:
            groups = await folded.get(keys)
            self._require_valid()
            self.rows_read += len(groups) - groups.count(None)
            return [None if group is None else RowVersion(*group) for group in groups]
        codec = self._codecs(layout)
        if room is not None:
            return await self._get(codec, layout, [codec.key_of(key) for key in keys], room)
        found: list[RowVersion | None] = []
        for some in chunks(keys):
            encoded = [codec.key_of(key) for key in some]
            while encoded:
                got = await self._get(codec, layout, encoded, BATCH_BYTES)
                found += got
                encoded = encoded[len(got) :]
                if encoded:  # these rows are large: a few take as long as many small ones
                    await pause()
            await turn(some)
        return found

    async def _get(
        self, codec: LayoutCodec, layout: str, keys: list[bytes], room: int
    ) -> list[RowVersion | None]:
        """The rows of the first of the encoded `keys`, as far as `room` allows."""
        cells = await self._store.get(codec.layout.table, keys, self.at, room=room)
        return self._versions(codec, layout, keys[: len(cells)], cells)

    def _versions(
        self, codec: LayoutCodec, layout: str, keys: list[bytes], cells: list[Cell | None]
    ) -> list[RowVersion | None]:
        """The rows of the encoded `keys`: those of the overlay, else the decoded `cells` of the
        store."""
        self._require_valid()
        self.rows_read += len(cells) - cells.count(None)
        if self._budget is not None:
            self._budget.take(bytes_of_values(cells))
        mine = self._overlay.rows(layout) if self._overlay is not None else {}
        trace, decode = self._trace_of(layout), codec.decode
        if not mine and trace is None:
            return [
                None if cell is None else RowVersion(key, cell.ts, decode(cell.value))
                for key, cell in zip(keys, cells, strict=True)
            ]
        found: list[RowVersion | None] = []
        for key, cell in zip(keys, cells, strict=True):
            if key in mine:
                row = mine[key]
                found.append(None if row is None else RowVersion(key, 0, row))
                continue
            if trace is not None:
                trace.append(ReadItem(layout, key, cell.ts if cell else None))
            found.append(RowVersion(key, cell.ts, decode(cell.value)) if cell else None)
        return found

    async def prefixes(
        self, layout: str, prefixes: Sequence[tuple[Value, ...]], *, room: int | None = None
    ) -> list[list[RowVersion]]:
        if (folded := self._folded(layout)) is not None:
            found_groups = await folded.prefixes(prefixes, room)
            self._require_valid()
            self.rows_read += sum(map(len, found_groups))
            return [[RowVersion(*group) for group in groups] for groups in found_groups]
        if room is not None:
            return await self._prefixes(layout, prefixes, room)
        found: list[list[RowVersion]] = []
        for some in chunks(prefixes):
            found += await self._prefixes(layout, some, None)
            await turn(some)
        return found

    async def _prefixes(
        self, layout: str, prefixes: Sequence[tuple[Value, ...]], room: int | None
    ) -> list[list[RowVersion]]:
        codec = self._codecs(layout)
        encoded = [codec.prefix(prefix) for prefix in prefixes]
        budget = self._budget
        if budget is not None:
            room = budget.left if room is None else min(room, budget.left)
        groups = await self._store.scan_prefixes(codec.layout.table, encoded, self.at, room=room)
        self._require_valid()
        self.rows_read += sum(map(len, groups))
        if budget is not None:
            whole = len(groups) == len(encoded)
            budget.take(sum(map(bytes_of_values, groups)) if whole else budget.left + 1)
        if self._overlay is None or not self._overlay.rows(layout):
            return [await self._decoded(codec, layout, cells) for cells in groups]
        return [
            await self._merged(codec, layout, cells, codec.range(KeyRange(tuple(prefix))))
            for prefix, cells in zip(prefixes, groups, strict=False)
        ]

    async def scan(
        self,
        layout: str,
        key_range: KeyRange = KeyRange(),
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncGenerator[list[Row], None]:
        if (folded := self._folded(layout)) is not None:
            async for groups in folded.scan(key_range, reverse=reverse, limit=limit):
                self._require_valid()
                self.rows_read += len(groups)
                yield [group.row for group in groups]
            self._require_valid()
            return
        codec = self._codecs(layout)
        start, end = codec.range(key_range)
        mine = self._overlay.between(layout, start, end) if self._overlay is not None else []
        if not mine:
            async for values in self._values(codec.layout, start, end, reverse, limit):
                self._require_valid()
                yield codec.decode_all(values)
            self._require_valid()
            return
        assert self._overlay is not None
        # Rows of the overlay may hide stored rows, so the scan asks for as many more.
        wanted = None if limit is None else limit + len(mine)
        stored = self._store.scan(
            codec.layout.table, start, end, self.at, reverse=reverse, limit=wanted
        )
        merge = _Merge(self._overlay.rows(layout), mine, reverse)
        left = limit
        async for cells in stored:
            self._require_valid()
            self.rows_read += len(cells)
            merged = merge.add(cells)[:left]
            if left is not None:
                left -= len(merged)
            for some in chunks(merged, MERGED):
                yield self._rows(codec, some)
            if left == 0:
                return
        self._require_valid()
        for rest in chunks(merge.rest()[:left], MERGED):
            yield self._rows(codec, rest)

    async def scan_columns(
        self,
        layout: str,
        at: Sequence[int],
        key_range: KeyRange = KeyRange(),
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        codec = self._codecs(layout)
        start, end = codec.range(key_range)
        own = self._overlay is not None and self._overlay.between(layout, start, end)
        if own or self._codecs.fold(layout) is not None or self._trace_of(layout) is not None:
            rows = super().scan_columns(layout, at, key_range, reverse=reverse, limit=limit)
            async with aclosing(rows) as batches:
                async for batch in batches:
                    yield batch
            return
        async for values in self._values(codec.layout, start, end, reverse, limit):
            self._require_valid()
            yield codec.many.to_arrow(values, at)
        self._require_valid()

    async def _values(
        self, layout: Layout, start: bytes, end: bytes | None, reverse: bool, limit: int | None
    ) -> AsyncGenerator[list[bytes], None]:
        """The stored rows of a range. They are noted in the trace."""
        store, trace = self._store, self._trace_of(layout.name)
        if trace is None:
            async for values in store.scan_values(
                layout.table, start, end, self.at, reverse=reverse, limit=limit
            ):
                self.rows_read += len(values)
                yield values
            return
        async for cells in store.scan(
            layout.table, start, end, self.at, reverse=reverse, limit=limit
        ):
            trace += [ReadItem(layout.name, cell.key, cell.ts) for cell in cells]
            self.rows_read += len(cells)
            yield [cell.value for cell in cells]

    def _rows(self, codec: LayoutCodec, found: Sequence[Cell | RowVersion]) -> list[Row]:
        """The rows of merged cells and overlay rows. The cells are noted in the trace."""
        decode, name = codec.decode, codec.layout.name
        if (trace := self._trace_of(name)) is not None:
            trace += [ReadItem(name, c.key, c.ts) for c in found if isinstance(c, Cell)]
        return [decode(c.value) if isinstance(c, Cell) else c.row for c in found]

    async def _decoded(
        self, codec: LayoutCodec, layout: str, cells: Sequence[Cell]
    ) -> list[RowVersion]:
        if (trace := self._trace_of(layout)) is not None:
            trace += [ReadItem(layout, cell.key, cell.ts) for cell in cells]
        decode = codec.decode
        return await made(RowVersion(cell.key, cell.ts, decode(cell.value)) for cell in cells)

    async def _merged(
        self,
        codec: LayoutCodec,
        layout: str,
        cells: Sequence[Cell],
        bounds: tuple[bytes, bytes | None],
    ) -> list[RowVersion]:
        """Stored rows of one short range, replaced by rows of the overlay where it has them."""
        assert self._overlay is not None
        mine = self._overlay.rows(layout)
        rows = await self._decoded(codec, layout, [cell for cell in cells if cell.key not in mine])
        for key in self._overlay.between(layout, *bounds):
            row = mine[key]
            if row is not None:
                rows.append(RowVersion(key, 0, row))
        rows.sort(key=lambda version: version.key)
        return rows


class BoundedSnapshot(Snapshot):
    """Takes the bytes of all reads from a budget, also those of scans."""

    def __init__(self, store: TableReader, codecs: Codecs, at: int, budget: Budget) -> None:
        super().__init__(store, codecs, at, budget=budget)
        self._left = budget

    async def _values(
        self, layout: Layout, start: bytes, end: bytes | None, reverse: bool, limit: int | None
    ) -> AsyncGenerator[list[bytes], None]:
        async for values in super()._values(layout, start, end, reverse, limit):
            self._left.take(sum(map(len, values)))
            yield values


class RememberingSnapshot(Snapshot):
    """Reads each row by its key once, and remembers it until `forget`."""

    def __init__(
        self, store: TableReader, codecs: Codecs, at: int, budget: Budget | None = None
    ) -> None:
        super().__init__(store, codecs, at, budget=budget)
        self._known: dict[str, dict[tuple[Value, ...], RowVersion | None]] = {}
        """Rows by layout and key values: equal values also have the same encoded key."""

    def forget(self) -> None:
        self._known = {}
        if self._budget is not None:
            self._budget.refill()

    async def prefetch(self, wanted: Mapping[str, Sequence[tuple[Value, ...]]]) -> None:
        """Read rows of several layouts and remember them. Of large rows only the first ones are
        read."""
        parts = []
        for layout, keys in wanted.items():
            known, codec = self._known.setdefault(layout, {}), self._codecs(layout)
            missing = unknown(keys, known)
            if missing:
                parts.append((layout, known, codec, missing, [codec.key_of(k) for k in missing]))
        get, at = self._store.get, self.at
        gets = [
            partial(get, codec.layout.table, encoded, at, room=PREFETCHED_BYTES)
            for _, _, codec, _, encoded in parts
        ]
        found = await read_together(self._store, gets)
        for (layout, known, codec, missing, encoded), cells in zip(parts, found, strict=True):
            versions = self._versions(codec, layout, encoded[: len(cells)], cells)
            known.update(zip(missing, versions, strict=False))

    async def get(
        self, layout: str, keys: Sequence[tuple[Value, ...]], *, room: int | None = None
    ) -> list[RowVersion | None]:
        """The rows of all keys, whatever `room`: all of them stay in memory anyway."""
        known = self._known.setdefault(layout, {})
        if missing := unknown(keys, known):
            found = await super().get(layout, missing)
            known.update(zip(missing, found, strict=True))
        return [known[key] for key in keys]


def unknown(
    keys: Sequence[tuple[Value, ...]], known: Mapping[tuple[Value, ...], object]
) -> list[tuple[Value, ...]]:
    """The `keys` that are not in `known`, without duplicates."""
    missing = [key for key in keys if key not in known]
    return missing if len(missing) < 2 else list(dict.fromkeys(missing))


class _Merge:
    """Merges stored cells in key order with the overlay's rows of the same range.

    If both have a key, the overlay wins; its deletions hide stored rows.
    """

    def __init__(self, changed: dict[bytes, Row | None], keys: list[bytes], reverse: bool) -> None:
        self._changed = changed
        self._waiting = keys if reverse else keys[::-1]  # the next one is last
        self._comes_before = gt if reverse else lt

    def add(self, cells: Sequence[Cell]) -> list[Cell | RowVersion]:
        merged: list[Cell | RowVersion] = []
        for cell in cells:
            while self._waiting and self._comes_before(self._waiting[-1], cell.key):
                merged += self._next()
            if cell.key not in self._changed:
                merged.append(cell)
        return merged

    def rest(self) -> list[RowVersion]:
        """The rows of the overlay behind the last cell."""
        merged: list[RowVersion] = []
        while self._waiting:
            merged += self._next()
        return merged

    def _next(self) -> list[RowVersion]:
        key = self._waiting.pop()
        row = self._changed[key]
        return [] if row is None else [RowVersion(key, 0, row)]
