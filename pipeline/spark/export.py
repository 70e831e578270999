"""Exports: the input of a job. The driver requests an export from a node; the executors use it.

An export is a snapshot, its catalog, and the location of the rows. It is sent to the executors,
which read without the nodes.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from hornbeam.errors import DatabaseError
from hornbeam.transport import Transport, open_transport, parse_url, persistently
from hornbeam_server.maintain.immediate.reading import codecs_of
from hornbeam_server.schema.codec import decode_catalog
from hornbeam_server.schema.errors import InvalidRequest, SnapshotTooOld, Unavailable
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.storage.ports import TableStore
from hornbeam_server.storage.source import CheckpointSource, Source, open_source

POLL_S, PATIENCE_S = 0.2, 30.0


class Export(msgspec.Struct, frozen=True):
    """An export, as `POST /v1/exports` answers it."""

    name: str
    snapshot: int
    catalog: str
    source: Source
    until_ms: int

    def codecs(self) -> Codecs:
        """The codecs of the catalog, decoded again at every call. `codecs().catalog` is the
        catalog."""
        return codecs_of(decode_catalog(self.catalog.encode()))

    def open(self) -> TableStore:
        """Open the store that holds the rows, within an event loop. Raises Unavailable,
        Corruption."""
        return open_source(self.source)

    def require_kept(self, margin_ms: int = 0) -> None:
        """Check that no row of the snapshot has been purged, or will be within `margin_ms`. Raises
        SnapshotTooOld."""
        if time.time() * 1000 + margin_ms > self.until_ms:
            raise SnapshotTooOld(
                f"Snapshot {self.snapshot} is older than what is kept.",
                cure="Set snapshot_retention_s higher at the nodes, or do less at a time.",
            )


def beside(url: str, timeout_s: float) -> Transport:
    """A transport to a node, for a job that runs outside of it. Raises InvalidRequest for a folder,
    and the client's errors."""
    target = parse_url(url)
    if target.folder:
        raise InvalidRequest(
            "Spark works beside a node, and this is an embedded database's folder.",
            cure="Start one: hornbeam serve --data FOLDER, and name it with --url.",
        )
    return open_transport(target, timeout_s)


def begin(transport: Transport, snapshot: int | None = None, view: str | None = None) -> Export:
    """Request an export. The default snapshot includes all acknowledged commits; with a deferred
    `view` it is that of the view's group. Raises DatabaseError."""
    answer = transport.json("POST", "/v1/exports", {"snapshot": snapshot, "view": view})
    return msgspec.convert(answer, Export)


def begin_when(
    transport: Transport, is_current: Callable[[Export], bool], require_wanted: Callable[[], object]
) -> Export:
    """The first export for which `is_current` is true. A node may not have received the catalog in
    force yet, so this waits up to PATIENCE_S, and calls `require_wanted` after each other export,
    which raises an error if no export is needed any more. Raises Unavailable after PATIENCE_S, and
    the errors of both functions."""
    give_up = time.monotonic() + PATIENCE_S
    while True:
        export = persistently(lambda: begin(transport))
        if is_current(export):
            return export
        end(transport, export)
        require_wanted()
        if time.monotonic() > give_up:
            raise Unavailable(
                "A node has not heard of the catalog in force for too long.",
                cure="Look which node's catalog_version in hornbeam status is behind, and"
                " restart it.",
            )
        time.sleep(POLL_S)


def end(transport: Transport, export: Export) -> None:
    """Release an export that nothing reads any more. On failure it expires by itself."""
    if not isinstance(export.source, CheckpointSource):
        return
    try:
        transport.json("DELETE", f"/v1/exports/{export.name}")
    except DatabaseError:
        return
