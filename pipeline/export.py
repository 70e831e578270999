"""What a job reads: an export, asked of a node once, in the driver; and used in the executors.

An export is a snapshot, the catalog it belongs to, and where the rows lie. It is sent to the
executors as it is; nodes hear no more of it.
"""

from __future__ import annotations

import time

import msgspec

from hornbeam.errors import DatabaseError
from hornbeam.transport import Transport, open_transport, parse_url
from schema.codec import decode_catalog
from schema.errors import InvalidRequest, SnapshotTooOld
from storage.codec.rows import Codecs
from storage.ports import TableStore
from storage.source import CheckpointSource, Source, open_source


class Export(msgspec.Struct, frozen=True):
    """As `POST /v1/exports` answers."""

    name: str
    snapshot: int
    catalog: str
    source: Source
    until_ms: int

    def codecs(self) -> Codecs:
        """Decoded anew at every call; `codecs().catalog` is the catalog."""
        return Codecs(decode_catalog(self.catalog.encode()))

    def open(self) -> TableStore:
        """Where the rows lie, from within an event loop. Raises Unavailable, Corruption."""
        return open_source(self.source)

    def require_kept(self, margin_ms: int = 0) -> None:
        """Nothing of the snapshot has been purged before now, or will be within `margin_ms`."""
        if time.time() * 1000 + margin_ms > self.until_ms:
            raise SnapshotTooOld(
                f"Snapshot {self.snapshot} is older than what is kept.",
                cure="Set snapshot_retention_s higher at the nodes, or do less at a time.",
            )


def beside(url: str, timeout_s: float) -> Transport:
    """A node to work beside. Raises InvalidRequest for a folder, and what the client raises."""
    target = parse_url(url)
    if target.folder:
        raise InvalidRequest(
            "Spark works beside a node, and this is an embedded database's folder.",
            cure="Start one: hornbeam serve --data FOLDER, and name it with --url.",
        )
    return open_transport(target, timeout_s)


def begin(transport: Transport, snapshot: int | None = None, view: str | None = None) -> Export:
    """By default with all that was acknowledged; if a deferred `view` is to be read, as of its
    group's moment. Raises DatabaseError."""
    answer = transport.json("POST", "/v1/exports", {"snapshot": snapshot, "view": view})
    return msgspec.convert(answer, Export)


def end(transport: Transport, export: Export) -> None:
    """Nobody reads it any more. What is left of it goes by itself when its time is over."""
    if not isinstance(export.source, CheckpointSource):
        return
    try:
        transport.json("DELETE", f"/v1/exports/{export.name}")
    except DatabaseError:
        return
