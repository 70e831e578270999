"""The bulk port for writing: rows with a given timestamp, put beside the transactions.

    sink = open_sink(export, url)
    await sink.put({"v.customer__orders.7": [Put(key, value)]}, export.snapshot)
    await sink.flush()

Only tables that no commit reads (of a view or index that is being built, of a deferred view) may
be written so. On HBase the rows go straight to the gateways, through the adapter that nodes use.
An embedded store belongs to one process: they go through its node, `POST /v1/puts`.

**Late puts.** Whoever writes may be dead to everybody else: an executor that was frozen, given up,
and replaced. What it puts was true at its timestamp T, and every commit above T that changes the
row carries a newer cell; so as long as all newer cells are there, a late put is hidden, or right.
Purging takes newer cells away: when all snapshots that are kept lie above a row's deletion, the
tombstone goes, and a cell at T that arrived afterwards would bring the row back. Hence the rule:
*nothing is put at T when versions above T may have been purged.*

- The node purges nothing above the snapshots that it keeps, which an export's is until `until_ms`.
  `Export.require_kept` is asked before every single request, with `MARGIN_MS` for the request's
  own time and for clocks that differ. What HBase's gateways still do with a request that was given
  up is hidden for a day by the markers of the purge (`storage.hbase.tables`).
- The node of an embedded store, which purges itself, looks at its own horizon while it holds the
  snapshot (`Database.put`), whatever the clocks say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

import msgspec

from hornbeam.transport import Transport, open_transport, parse_url, persistently
from pipeline.export import Export
from schema.errors import InvalidRequest
from storage.limits import require_storable
from storage.ports import Put, TableStore
from storage.source import CheckpointSource

MARGIN_MS = 60_000
TIMEOUT_S = 15.0
"""Of one request to a node."""
REQUEST_BYTES = 8 << 20
"""Of rows in one request to a node, or a row more."""
_BYTES = {"Content-Type": "application/octet-stream"}
Writes = Mapping[str, Sequence[Put]]


class Sink(Protocol):
    """Of one export. Calls come one at a time, from one event loop."""

    async def put(self, writes: Writes, ts: int) -> None:
        """As `TableStore.put`, by physical table; `ts` is at or below the export's snapshot.

        Raises LimitExceeded for a row that cannot be stored, SnapshotTooOld when it is too late to
        put anything, InvalidRequest, Corruption for a table that is gone, Unavailable, and what the
        client raises.
        """

    async def flush(self) -> None:
        """On return all that was put survives a crash of any machine."""

    async def close(self) -> None:
        """Idempotent."""


def open_sink(export: Export, url: str) -> Sink:
    """`url` is that of a node, with an administrator's key if keys are asked for."""
    if isinstance(export.source, CheckpointSource):
        return _NodeSink(export, open_transport(parse_url(url), TIMEOUT_S))
    return _StoreSink(export, export.open())


class _StoreSink:
    """Straight into the store."""

    def __init__(self, export: Export, store: TableStore) -> None:
        self._export = export
        self._store = store

    async def put(self, writes: Writes, ts: int) -> None:
        _require_puttable(self._export, writes, ts)
        await self._store.put(writes, ts)

    async def flush(self) -> None:
        await self._store.flush()

    async def close(self) -> None:
        await self._store.close()


class _NodeSink:
    """Through the process that owns the store, which syncs it."""

    def __init__(self, export: Export, node: Transport) -> None:
        self._export = export
        self._node = node

    async def put(self, writes: Writes, ts: int) -> None:
        for part in _parts(writes):
            body = msgspec.msgpack.encode({"ts": ts, "writes": part})
            await asyncio.to_thread(persistently, partial(self._send, part, ts, body))

    async def flush(self) -> None:
        at = self._export.snapshot
        body = msgspec.msgpack.encode({"ts": at, "writes": {}, "flush": True})
        await asyncio.to_thread(persistently, partial(self._send, {}, at, body))

    def _send(self, part: Writes, ts: int, body: bytes) -> None:
        _require_puttable(self._export, part, ts)
        self._node.post("/v1/puts", body, _BYTES)

    async def close(self) -> None:
        self._node.close()


def _require_puttable(export: Export, writes: Writes, ts: int) -> None:
    """Raises SnapshotTooOld, LimitExceeded, InvalidRequest."""
    if ts > export.snapshot:
        raise InvalidRequest(f"{ts} is newer than the snapshot {export.snapshot}.")
    require_storable(writes)
    export.require_kept(MARGIN_MS)


def _parts(writes: Writes) -> Iterator[dict[str, list[Put]]]:
    """`writes` in requests of a bounded size; rows of one table with one key stay in order."""
    part: dict[str, list[Put]] = {}
    size = 0
    for table, puts in writes.items():
        for put in puts:
            part.setdefault(table, []).append(put)
            size += len(put.key) + len(put.value)
            if size >= REQUEST_BYTES:
                yield part
                part, size = {}, 0
    if part:
        yield part
