"""The bulk write port: put rows with a given timestamp, outside of transactions.

    sink = open_sink(export, url)
    await sink.put({"v.customer__orders.7": [Put(key, value)]}, export.snapshot)
    await sink.flush()

Only tables that no commit reads may be written in this way: those of a view or index that is being
built, or of a deferred view. On HBase the rows go directly to the gateways, through the adapter
that nodes use. An embedded store belongs to one process, so the rows go through its node,
`POST /v1/puts`.

**Late puts.** A writer may already be replaced: an executor that was frozen, and given up by the
driver. Its rows were correct at their timestamp T, and every commit above T that changes a row
writes a newer cell. So as long as all newer cells exist, a late put is hidden, or correct. Purging
removes newer cells: when all retained snapshots lie above a row's deletion, its tombstone is
purged, and a cell at T that arrives afterwards would bring the row back. Hence the rule: *nothing
is put at T when versions above T may have been purged.*

- The node purges nothing above the snapshots that it retains, and it retains an export's snapshot
  until `until_ms`. `Export.require_kept` is checked before every request, with `MARGIN_MS` for the
  request's duration and for clock skew. If HBase's gateways execute a request after it was given
  up, the markers of the purge hide its puts for a day (`storage.hbase.tables`).
- The node of an embedded store, which purges the store itself, checks its own horizon while it
  holds the snapshot (`Database.put`), independent of clocks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

import msgspec

from hornbeam.transport import Transport, open_transport, parse_url, persistently
from hornbeam_server.pipeline.spark.export import Export
from hornbeam_server.schema.errors import InvalidRequest
from hornbeam_server.storage.limits import require_storable
from hornbeam_server.storage.ports import Put, TableStore
from hornbeam_server.storage.source import CheckpointSource

MARGIN_MS = 60_000
TIMEOUT_S = 15.0
"""Time limit of one request to a node."""
REQUEST_BYTES = 8 << 20
"""Bytes of rows in one request to a node. The last row may exceed it."""
_BYTES = {"Content-Type": "application/octet-stream"}
Writes = Mapping[str, Sequence[Put]]


class Sink(Protocol):
    """A sink for one export. Calls must not overlap, and come from one event loop."""

    async def put(self, writes: Writes, ts: int) -> None:
        """Put rows, by physical table, as `TableStore.put` does. `ts` is at or below the export's
        snapshot.

        Raises LimitExceeded for a row that cannot be stored, SnapshotTooOld when it is too late to
        put anything, InvalidRequest, Corruption for a table that does not exist any more,
        Unavailable, and the client's errors.
        """

    async def flush(self) -> None:
        """Make all puts durable. On return they survive a crash of any machine."""

    async def close(self) -> None:
        """Release the connections. Idempotent."""


def open_sink(export: Export, url: str) -> Sink:
    """The sink for an export. `url` is that of a node, with an administrator's key if the node
    requires keys."""
    if isinstance(export.source, CheckpointSource):
        return _NodeSink(export, open_transport(parse_url(url), TIMEOUT_S))
    return _StoreSink(export, export.open())


class _StoreSink:
    """Puts rows directly into the store."""

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
    """Puts rows through the process that owns the store, which also syncs it."""

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
    """Check that the rows may be put. Raises SnapshotTooOld, LimitExceeded, InvalidRequest."""
    if ts > export.snapshot:
        raise InvalidRequest(f"{ts} is newer than the snapshot {export.snapshot}.")
    require_storable(writes)
    export.require_kept(MARGIN_MS)


def _parts(writes: Writes) -> Iterator[dict[str, list[Put]]]:
    """`writes` in parts of a bounded size. Puts of one key of a table stay in order."""
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
