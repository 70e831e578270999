"""Reads of rows from HBase: gets, scans, and scans of prefixes."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from hornbeam_server.storage.batches import bytes_of_values, fitting, groups_within, parts_within
from hornbeam_server.storage.codec.keys import successor
from hornbeam_server.storage.hbase import ranges
from hornbeam_server.storage.hbase.calls import Calls
from hornbeam_server.storage.hbase.cells import stored_key, value_of
from hornbeam_server.storage.hbase.found import CELLS, STORED, VALUES, Form, Found
from hornbeam_server.storage.hbase.messages import AnswerTooLong
from hornbeam_server.storage.hbase.sharing import SharedCalls
from hornbeam_server.storage.ports import BATCH_BYTES, TOMBSTONE, Cell
from hornbeam_server.storage.together import all_settled

T = TypeVar("T")
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
GETS = 500
"""Maximum number in one call."""
SHARED = 100
"""A request of more gets or puts shares no call with other requests: it would gain nothing and
delay the others."""


class Reads:
    """Gets and scans. Concurrent gets of one table at one timestamp share calls."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._kind = calls.kind
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
        present = len([cell for cell in cells if cell is not None])
        self._note_row_bytes(table, present, bytes_of_values(cells))
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
        call = self._kind.call_of_gets(
            self._calls.full_name(table), rows, ranges.after_timestamp(at)
        )
        try:
            found = await self._calls.call_at_once(table, *call)
        except AnswerTooLong:
            some = _fewer(len(keys))
            cells = await self._get(table, keys[:some], at, first_ones)
            if first_ones:
                return [*cells, *[UNREAD] * (len(keys) - len(cells))]
            return [*cells, *await self._get(table, keys[some:], at, first_ones)]
        stored = self._kind.in_order(rows, found)
        return [_visible_cell(key, cell) for key, cell in zip(keys, stored, strict=True)]

    def _expected_rows(self, table: str, room: int) -> int:
        """The estimated number of rows of a table that have `room` bytes, at least 1."""
        return max(room // self._row_bytes.get(table, UNKNOWN_ROW_BYTES), 1)

    def _note_row_bytes(self, table: str, rows: int, value_bytes: int) -> None:
        if rows:
            self._row_bytes[table] = value_bytes // rows + 1

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
        return self._batches(CELLS, table, ranges.stored_range(start, end), at, reverse, limit)

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
        return self._batches(VALUES, table, ranges.stored_range(start, end), at, reverse, limit)

    async def _batches(
        self,
        form: Form[T],
        table: str,
        left: ranges.Range,
        at: int,
        reverse: bool,
        limit: int | None,
    ) -> AsyncIterator[list[T]]:
        count = min(FIRST_BATCH, self._expected_rows(table, CALL_BYTES))
        count = count if limit is None else min(count, limit)
        read = self._last_rows if reverse else self._first_rows
        batch: asyncio.Future[tuple[Found[T], int]] | None = None
        batches = 0

        def begun() -> asyncio.Future[tuple[Found[T], int]] | None:
            """Begin to read the next batch; None if no row is left."""
            if count == 0 or (left.end and left.start >= left.end):
                return None
            return self._calls.begin(partial(read, form, table, left, count, at))

        try:
            while (batch := batch or begun()) is not None:
                found, count = await batch
                batch, batches = None, batches + 1
                rows = found.rows[:limit]
                limit = None if limit is None else limit - len(rows)
                if found.count == count:
                    last = found.last
                    left = left._replace(end=last) if reverse else left._replace(start=last + b"\0")
                    count = _next_batch(found, limit)
                else:
                    count = 0
                if batches > 1:  # a caller that asked for a second batch will ask for more
                    batch = begun()
                for part in parts_within(rows, form.values(rows), BATCH_BYTES):
                    yield part
        finally:
            if batch is not None:
                batch.cancel()

    def _first_rows(
        self, form: Form[T], table: str, part: ranges.Range, count: int, at: int
    ) -> tuple[Found[T], int]:
        return self._scanned(form, table, [part], count, at)

    def _last_rows(
        self, form: Form[T], table: str, part: ranges.Range, count: int, at: int
    ) -> tuple[Found[T], int]:
        def wanted(count: int) -> Any:
            return self._kind.reverse_scan(part, count, at)

        rows, count = self._few_enough(STORED, table, wanted, count, more=1)
        inside = [row for row in rows.rows if row.key != part.end and row.key >= part.start]
        found = Found.of(inside[:count], form)
        self._note_row_bytes(table, found.count, found.value_bytes)
        return found, count

    def _scanned(
        self, form: Form[T], table: str, parts: Sequence[ranges.Range], count: int, at: int
    ) -> tuple[Found[T], int]:
        """The first rows in `parts`, and the number of rows that was asked for: `count`, or fewer
        if they are large."""

        def wanted(count: int) -> Any:
            return self._kind.scan(parts, count, at)

        found, count = self._few_enough(form, table, wanted, count)
        self._note_row_bytes(table, found.count, found.value_bytes)
        return found, count

    def _few_enough(
        self,
        form: Form[T],
        table: str,
        wanted: Callable[[int], Any],
        count: int,
        *,
        more: int = 0,
    ) -> tuple[Found[T], int]:
        """The first `count + more` rows of the scan `wanted(count)`, and `count`, which is lowered
        until the answer is not too long."""
        while True:
            scan = wanted(count)
            try:
                found = self._calls.call(
                    table,
                    lambda client, name: client.scanned(name, scan, count + more, form),  # noqa: B023
                )
            except AnswerTooLong:
                count = _fewer(count)
            else:
                return found, count

    async def _scanned_at_once(
        self, table: str, parts: Sequence[ranges.Range], count: int, at: int
    ) -> tuple[Found[Cell], int]:
        """`_scanned`, by the event loop itself if it can, and in a thread if the answer is too
        long."""
        scan = self._kind.scan(parts, count, at)
        call = self._kind.call_of_scan(self._calls.full_name(table), scan, count)
        if call is None:
            return await self._calls.in_thread(
                partial(self._scanned, CELLS, table, parts, count, at)
            )
        try:
            stored: list[Cell] = await self._calls.call_at_once(table, *call)
        except AnswerTooLong:
            fewer = partial(self._scanned, CELLS, table, parts, _fewer(count), at)
            return await self._calls.in_thread(fewer)
        found = Found.of(stored, CELLS)
        self._note_row_bytes(table, found.count, found.value_bytes)
        return found, count

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
        most = self._kind.ranges_per_call
        chunks = [wanted[i : i + most] for i in range(0, len(wanted), most)]
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
            found, count = await self._scanned_at_once(table, left, count, at)
            cells += found.rows
            if room is not None and (room := room - found.value_bytes) < 0:
                raise _NoRoom
            if found.count < count:
                break
            left = ranges.behind(left, found.last)
            count = _next_batch(found, None)
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


def _next_batch(found: Found[Any], limit: int | None) -> int:
    """The number of rows to ask for after the full batch `found`: as many as fit in CALL_BYTES if
    they are as large as its rows. It may exceed `limit`, lest tombstones are read one by one."""
    if limit == 0:
        return 0
    room = max(CALL_BYTES * found.count // (found.key_bytes + found.value_bytes), 1)
    return min(LARGEST_BATCH, room, max(4 * found.count, limit or LARGEST_BATCH))
