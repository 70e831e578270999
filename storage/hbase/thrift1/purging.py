"""Purges of old versions in HBase, and the size of tables, through Thrift 1 gateways.

A scan of Thrift 1 gives one version of a row, and has no beginning in time. So a purge scans the
keys of the whole table, and asks for the versions of each row that has changed since the last
purge. The horizon of that purge is kept in the table itself, so that a node that starts, or another
node, goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from hornbeam_server.storage.hbase import purging
from hornbeam_server.storage.hbase.calls import Calls
from hornbeam_server.storage.hbase.cells import FAMILY, stored_key
from hornbeam_server.storage.hbase.purging import invisible
from hornbeam_server.storage.hbase.ranges import (
    ALL_VERSIONS,
    Range,
    after_timestamp,
    stored_range,
)
from hornbeam_server.storage.hbase.thrift1.claims import Claims
from hornbeam_server.storage.hbase.thrift1.interface import THRIFT
from hornbeam_server.storage.hbase.thrift1.kind import scan_of
from hornbeam_server.storage.hbase.thrift1.messages import COLUMN, PUTS, REGISTER
from hornbeam_server.storage.ports import NEWEST

SCANNED_ROWS = 1_000
"""Rows of one call of a scan over a whole table. Python decodes so many in some milliseconds."""
ROWS_TOGETHER = 50
"""Calls for single rows that are sent at one time, at most."""
BYTES_TOGETHER = 1 << 14
"""Their keys have so few bytes that they wait in the buffers of sockets until they are read."""
EVERY_ROW, SAMPLE = 1_000, 64
"""The versions that newer ones hide are counted for the first EVERY_ROW rows of a table, and for
one of SAMPLE rows behind them."""
_HORIZON_ROW, _HORIZON = stored_key(b""), FAMILY + b":p"
"""The cell that keeps the horizon of the last purge, in a row that may have no other cell."""


class Purging(purging.Purging):
    """Drops old versions."""

    def __init__(self, calls: Calls, claims: Claims) -> None:
        super().__init__(calls)
        self._claims = claims

    async def _purge_since(self, table: str, since: int, horizon: int) -> int:
        """Drop versions of rows whose newest version ≤ `horizon` is later than the last purge. No
        other row has new versions to drop."""
        if since < 0:
            since = await self._calls.in_thread(partial(self._last_horizon, table))
        if since >= horizon:
            return 0
        dropped = 0
        left: Range | None = stored_range(b"", None)
        while left is not None:
            cells, left = await self._calls.in_thread(partial(self._keys, table, horizon, left))
            changed = [row for row, ts in cells if ts > since]
            for some in _chunks(changed):
                dropped += await self._calls.in_thread(partial(self._purge, table, some, horizon))
        await self._calls.in_thread(partial(self._note_horizon, table, horizon))
        self._purged[table] = horizon
        return dropped

    def _keys(
        self, table: str, at: int, left: Range
    ) -> tuple[list[tuple[bytes, int]], Range | None]:
        """The next keys of rows as of `at`, with the timestamps of their versions, and the range
        behind them; None if none is left."""
        rows, left_behind = _scanned(self._calls, table, left, at, b"KeyOnlyFilter()")
        return [(row.row, row.columns[COLUMN].timestamp) for row in rows], left_behind

    def _last_horizon(self, table: str) -> int:
        """The horizon of the last purge; -1 if there was none."""
        cells = self._calls.call(
            table, lambda client, name: client.get(name, _HORIZON_ROW, _HORIZON, {})
        )
        return int.from_bytes(cells[0].value) if cells else -1

    def _note_horizon(self, table: str, horizon: int) -> None:
        """Keep the horizon of a purge that is complete. Its cell always has one timestamp, so the
        cell that is written last replaces the others."""
        noted = [THRIFT.Mutation(column=_HORIZON, value=horizon.to_bytes(8))]
        self._calls.call(
            table, lambda client, name: client.mutateRowTs(name, _HORIZON_ROW, noted, 0, {})
        )

    def _purge(self, table: str, rows: Sequence[bytes], horizon: int) -> int:
        """Drop the versions of `rows` that no snapshot ≥ `horizon` reads; returns how many."""
        registers = self._calls.call(
            table, lambda client, name: client.getRowsWithColumns(name, rows, [REGISTER], {})
        )
        claimed = [row.row for row in registers]
        waiting = {row for row in claimed if not self._claims.settled(table, row)}
        free = [row for row in rows if row not in waiting]
        found = versions(self._calls, table, free, horizon)
        hidden = {row: cells for row in free if (cells := invisible(found[row]))}
        self._delete(table, {row: cells[0].timestamp for row, cells in hidden.items()})
        return sum(map(len, hidden.values()))

    def _delete(self, table: str, until: Mapping[bytes, int]) -> None:
        """Write a delete marker for each row, over all versions up to its timestamp in `until`. One
        call has the rows of one timestamp."""
        drop = THRIFT.Mutation(isDelete=True, column=COLUMN)
        rows: dict[int, list[Any]] = {}
        for row, ts in until.items():
            rows.setdefault(ts, []).append(THRIFT.BatchMutation(row=row, mutations=[drop]))
        deletes = [
            {
                "tableName": self._calls.full_name(table),
                "rowBatches": batches,
                "timestamp": ts,
                "attributes": {},
            }
            for ts, batches in rows.items()
        ]
        self._calls.call(table, lambda client, _: client.together(PUTS, deletes))


async def size_of(calls: Calls, table: str) -> int:
    """Bytes of keys and values of all versions of a table. The newest version of each row is
    counted. Older ones are counted for the first rows, and estimated for the others."""
    total, number = 0, 0
    left: Range | None = stored_range(b"", None)
    while left is not None:
        rows, left = await calls.in_thread(
            partial(_scanned, calls, table, left, NEWEST, b"KeyOnlyFilter(true)")
        )
        total += sum(len(row.row) + int.from_bytes(row.columns[COLUMN].value) for row in rows)
        step = 1 if number < EVERY_ROW else SAMPLE
        for some in _chunks([row.row for row in rows[::step]]):
            found = await calls.in_thread(partial(versions, calls, table, some, NEWEST))
            older = [(row, cell) for row, cells in found.items() for cell in cells[1:]]
            total += step * sum(len(row) + len(cell.value) for row, cell in older)
        number += len(rows)
    return total


def versions(
    calls: Calls, table: str, rows: Sequence[bytes], at: int
) -> Mapping[bytes, Sequence[Any]]:
    """All versions ≤ `at` of each of `rows`, newest first."""
    wanted = [
        {
            "tableName": calls.full_name(table),
            "row": row,
            "column": COLUMN,
            "timestamp": after_timestamp(at),
            "numVersions": ALL_VERSIONS,
            "attributes": {},
        }
        for row in rows
    ]
    found = calls.call(table, lambda client, _: client.together("getVerTs", wanted))
    return dict(zip(rows, found, strict=True))


def _scanned(
    calls: Calls, table: str, left: Range, at: int, only: bytes
) -> tuple[Sequence[Any], Range | None]:
    """The first rows in `left` as of `at`, as much of them as the filter `only` leaves, and the
    range behind them; None if none is left."""
    wanted = scan_of(left, SCANNED_ROWS, at, filterString=only, cacheBlocks=False)
    ((rows),) = calls.call(
        table,
        lambda client, name: list(client.scanned_rows(name, [wanted], SCANNED_ROWS)),
        search=True,
    )
    if len(rows) < SCANNED_ROWS:
        return rows, None
    return rows, left._replace(start=rows[-1].row + b"\0")


def _chunks(rows: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Split `rows` into parts whose calls may be sent together."""
    begin = size = 0
    for i, row in enumerate(rows):
        size += len(row)
        if i - begin == ROWS_TOGETHER - 1 or size >= BYTES_TOGETHER:
            yield rows[begin : i + 1]
            begin, size = i + 1, 0
    if begin < len(rows):
        yield rows[begin:]
