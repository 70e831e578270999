"""Reads of rows from HBase: gets, scans, and scans of prefixes."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from hornbeam_server.storage.batches import bytes_of_values, fitting, groups_within, values_of
from hornbeam_server.storage.codec.keys import successor
from hornbeam_server.storage.hbase import ranges
from hornbeam_server.storage.hbase.calls import Calls
from hornbeam_server.storage.hbase.cells import is_plain, key_of, stored_key, value_of
from hornbeam_server.storage.hbase.messages import AnswerTooLong, call_of_gets, call_of_scan
from hornbeam_server.storage.hbase.sharing import SharedCalls
from hornbeam_server.storage.ports import BATCH_BYTES, TOMBSTONE, Cell
from hornbeam_server.storage.together import all_settled

FIRST_BATCH, LARGEST_BATCH = 256, 2_048
"""Maximum rows of the first call of a scan, and of any call."""
CALL_BYTES = 4 << 20
"""Intended maximum bytes of an answer with rows, as far as its size can be foreseen. A call with
puts exceeds it by one row at most."""
UNKNOWN_ROW_BYTES = BATCH_BYTES // FIRST_BATCH
"""Assumed size of a row of a table that has not been read yet."""
FEWER = 8
"""A call whose answer is too long is repeated for the number of rows divided by this."""
UNREAD = Cell(b"", -1, b"")
"""Stands for a requested row that was not read, since the rows before it had too many bytes."""
GETS, PREFIXES = 500, 200
"""Maximum numbers in one call."""
SHARED = 100
"""A request of more gets or puts shares no call with other requests: it would gain nothing and
delay the others."""


class Reads:
    """Gets and scans. Concurrent gets of one table at one timestamp share calls."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self.shared = SharedCalls(self._get_all, calls.timeout_s)
        self._row_bytes: dict[str, int] = {}
        """Per table the mean value size of the rows that were read last."""

    def get(
        self, table: str, keys: Sequence[bytes], at: int, *, room: int | None = None
    ) -> Awaitable[list[Cell | None]]:
        if room is None:
            return self.shared.ask((table, at, False, route_of(keys)), keys)
        some = keys[: self._expected_rows(table, room)]
        return self._first_ones(table, some, at, room, self._ask_for_some(table, some, at))

    def _ask_for_some(
        self, table: str, keys: Sequence[bytes], at: int
    ) -> asyncio.Future[list[Cell | None]]:
        return self.shared.ask((table, at, True, route_of(keys)), keys)

    async def _first_ones(
        self,
        table: str,
        keys: Sequence[bytes],
        at: int,
        room: int,
        asked: asyncio.Future[list[Cell | None]],
    ) -> list[Cell | None]:
        """The answer to `asked`, the request for `keys`, as far as it fits in `room`."""
        cells = await asked
        while cells and cells[0] is UNREAD:  # requests that shared the call took the room
            cells = await self._ask_for_some(table, keys, at)
        self._note_row_bytes(table, [cell for cell in cells if cell is not None])
        if UNREAD in cells:
            cells = cells[: cells.index(UNREAD)]
        return cells[: fitting(cells, room)]

    async def _get_all(
        self, route: tuple[str, int, bool, object], keys: Sequence[bytes]
    ) -> list[Cell | None]:
        table, at, first_ones, _ = route
        self._calls.require_open()
        chunks = [keys[i : i + GETS] for i in range(0, len(keys), GETS)]
        found = await all_settled([self._get(table, chunk, at, first_ones) for chunk in chunks])
        return [cell for cells in found for cell in cells]

    async def _get(
        self, table: str, keys: Sequence[bytes], at: int, first_ones: bool
    ) -> list[Cell | None]:
        """The cells of `keys` at timestamp `at`. If they have too many bytes for one call, the
        others are UNREAD with `first_ones`, and read by further calls without."""
        rows = [stored_key(key) for key in keys]
        call = call_of_gets(self._calls.full_name(table), rows, ranges.after_timestamp(at))
        try:
            stored = await self._calls.call_at_once(table, *call)
        except AnswerTooLong:
            some = _fewer(len(keys))
            found = await self._get(table, keys[:some], at, first_ones)
            if first_ones:
                return [*found, *[UNREAD] * (len(keys) - len(found))]
            return [*found, *await self._get(table, keys[some:], at, first_ones)]
        return [_visible_cell(key, cell) for key, cell in zip(keys, stored, strict=True)]

    def _expected_rows(self, table: str, room: int) -> int:
        """The estimated number of rows of a table that have `room` bytes, at least 1."""
        return max(room // self._row_bytes.get(table, UNKNOWN_ROW_BYTES), 1)

    def _note_row_bytes(self, table: str, cells: Sequence[Cell]) -> None:
        if cells:
            self._row_bytes[table] = bytes_of_values(cells) // len(cells) + 1

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
        left = ranges.stored_range(start, end)
        count = min(FIRST_BATCH, self._expected_rows(table, CALL_BYTES))
        count = count if limit is None else min(count, limit)
        read = self._last_rows if reverse else self._first_rows
        batch: asyncio.Future[tuple[list[Cell], int]] | None = None
        batches = 0

        def begun() -> asyncio.Future[tuple[list[Cell], int]] | None:
            """Begin to read the next batch; None if no row is left."""
            if count == 0 or (left.end and left.start >= left.end):
                return None
            return self._calls.begin(partial(read, table, left, count, at))

        try:
            while (batch := batch or begun()) is not None:
                rows, count = await batch
                batch, batches = None, batches + 1
                cells = _visible(rows)[:limit]
                limit = None if limit is None else limit - len(cells)
                if len(rows) == count:
                    last = rows[-1].key
                    left = left._replace(end=last) if reverse else left._replace(start=last + b"\0")
                    count = _next_batch(rows, limit)
                else:
                    count = 0
                if batches > 1:  # a caller that asked for a second batch will ask for more
                    batch = begun()
                while cells:
                    whole = fitting(cells, BATCH_BYTES)
                    yield cells[:whole]
                    cells = cells[whole:]
        finally:
            if batch is not None:
                batch.cancel()

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
        return values_of(self.scan(table, start, end, at, reverse=reverse, limit=limit))

    def _first_rows(
        self, table: str, part: ranges.Range, count: int, at: int
    ) -> tuple[list[Cell], int]:
        return self._scanned(table, [part], count, at)

    def _last_rows(
        self, table: str, part: ranges.Range, count: int, at: int
    ) -> tuple[list[Cell], int]:
        def wanted(count: int) -> Any:
            return ranges.reverse_scan(part, count, timeRange=ranges.time_range(0, at))

        rows, count = self._few_enough(table, wanted, count, more=1)
        inside = [row for row in rows if row.key != part.end and row.key >= part.start]
        self._note_row_bytes(table, inside)
        return inside[:count], count

    def _scanned(
        self, table: str, parts: Sequence[ranges.Range], count: int, at: int
    ) -> tuple[list[Cell], int]:
        """The first rows in `parts`, as they are stored, and the number of rows that was asked
        for: `count`, or fewer if they are large."""

        def wanted(count: int) -> Any:
            return ranges.scan(parts, count, timeRange=ranges.time_range(0, at))

        rows, count = self._few_enough(table, wanted, count)
        self._note_row_bytes(table, rows)
        return rows, count

    def _few_enough(
        self, table: str, wanted: Callable[[int], Any], count: int, *, more: int = 0
    ) -> tuple[list[Cell], int]:
        """The first `count + more` rows of the scan `wanted(count)`, and `count`, which is lowered
        until the answer is not too long."""
        while True:
            scan = wanted(count)
            try:
                rows = self._calls.call(
                    table,
                    lambda client, name: client.scanned(name, scan, count + more),  # noqa: B023
                )
            except AnswerTooLong:
                count = _fewer(count)
            else:
                return rows, count

    async def _scanned_at_once(
        self, table: str, parts: Sequence[ranges.Range], count: int, at: int
    ) -> tuple[list[Cell], int]:
        """`_scanned`, by the event loop itself if it can, and in a thread if the answer is too
        long."""
        scan = ranges.scan(parts, count, timeRange=ranges.time_range(0, at))
        call = call_of_scan(self._calls.full_name(table), scan, count)
        try:
            rows: list[Cell] = await self._calls.call_at_once(table, *call)
        except AnswerTooLong:
            fewer = partial(self._scanned, table, parts, _fewer(count), at)
            return await self._calls.in_thread(fewer)
        self._note_row_bytes(table, rows)
        return rows, count

    async def scan_prefixes(
        self, table: str, prefixes: Sequence[bytes], at: int, *, room: int | None = None
    ) -> list[list[Cell]]:
        while prefixes:
            try:
                groups = await self._all_under(table, prefixes, at, room)
            except _NoRoom:
                prefixes = prefixes[: len(prefixes) // 2]
            else:
                return groups if room is None else groups_within(groups, room)
        return []

    async def _all_under(
        self, table: str, prefixes: Sequence[bytes], at: int, room: int | None
    ) -> list[list[Cell]]:
        """The rows under each of `prefixes`. Raises _NoRoom when they clearly have more than
        `room` bytes."""
        wanted = ranges.of_prefixes(prefixes)
        chunks = [wanted[i : i + PREFIXES] for i in range(0, len(wanted), PREFIXES)]
        self._calls.require_open()
        found = await all_settled([self._under(table, chunk, at, room) for chunk in chunks])
        cells = [cell for part in found for cell in part]
        keys = [cell.key for cell in cells]
        groups = []
        for prefix in prefixes:
            end = successor(prefix)
            last = len(keys) if end is None else bisect_left(keys, end)
            groups.append(cells[bisect_left(keys, prefix) : last])
        return groups

    async def _under(
        self, table: str, left: list[ranges.Range], at: int, room: int | None
    ) -> list[Cell]:
        """All rows in the ranges `left`. Raises _NoRoom when they have more than `room` bytes."""
        cells: list[Cell] = []
        count = min(LARGEST_BATCH, self._expected_rows(table, CALL_BYTES))
        while left:
            rows, count = await self._scanned_at_once(table, left, count, at)
            cells += _visible(rows)
            if room is not None and (room := room - bytes_of_values(rows)) < 0:
                raise _NoRoom
            if len(rows) < count:
                break
            left = ranges.behind(left, rows[-1].key)
            count = _next_batch(rows, None)
        return cells


class _NoRoom(Exception):
    """The rows have more bytes than the caller has room for."""


def _fewer(rows: int) -> int:
    """The number of rows to ask for after the answer with `rows` rows was too long. An answer with
    two rows never is."""
    return max(rows // FEWER, 1)


def route_of(items: Sequence[object]) -> object:
    """Part of the route of a request for `items`: equal for all requests that may share a call."""
    return None if len(items) <= SHARED else object()


def _visible_cell(key: bytes, stored: Cell | None) -> Cell | None:
    if stored is None:
        return None
    value = value_of(stored.value)
    return Cell(key, stored.ts, value) if value != TOMBSTONE else None


def _visible(rows: Sequence[Cell]) -> list[Cell]:
    """The rows that readers get from stored rows; nearly all are the same."""
    found = [row if is_plain(row.key, row.value) else _seen(row) for row in rows]
    return [cell for cell in found if cell.value != TOMBSTONE]


def _seen(row: Cell) -> Cell:
    return Cell(key_of(row.key), row.ts, value_of(row.value))


def _next_batch(rows: Sequence[Cell], limit: int | None) -> int:
    """The number of rows to ask for after the full batch `rows`: as many as fit in CALL_BYTES if
    they are as large as `rows`. It may exceed `limit`, lest tombstones are read one by one."""
    if limit == 0:
        return 0
    size = sum([len(key) + len(value) for key, _, value in rows])
    room = max(CALL_BYTES * len(rows) // size, 1)
    return min(LARGEST_BATCH, room, max(4 * len(rows), limit or LARGEST_BATCH))
