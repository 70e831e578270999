"""Decodes segments for readers that follow the log: timestamps of commits, and changed rows.

Pure functions of the bytes of a segment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from hornbeam_server.schema.errors import Corruption
from hornbeam_server.storage.log.format import scan_segment, segment_name
from hornbeam_server.storage.log.records import Batch, decode


class Changed(msgspec.Struct, frozen=True, array_like=True):
    """The part of a `storage.log.records.Commit` that followers need: `writes` is not decoded."""

    transaction_id: bytes
    catalog_version: int
    writes: msgspec.Raw
    changes: list[tuple[str, bytes | None, bytes | None]]


@dataclass(frozen=True, slots=True)
class Span:
    """Timestamps of the first and last commit in a segment."""

    first: int
    last: int


_changed = msgspec.msgpack.Decoder(Changed)


def batches(data: bytes, epoch: int, sequence: int) -> Iterator[Batch]:
    """The batches of a segment to which no process appends any more, in the order of their
    timestamps. A torn tail that a dead owner left is skipped: it was never acknowledged, and
    recovery skips it, too. Raises Corruption with the position."""
    for payload, _ in scan_segment(data, segment_name(epoch, sequence)).frames:
        record = decode(payload)
        if isinstance(record, Batch):
            yield record


def span(data: bytes, epoch: int, sequence: int) -> Span | None:
    """The timestamps of the commits in a segment; None if it holds no commit. Raises Corruption."""
    stamps = [batch.ts for batch in batches(data, epoch, sequence)]
    return Span(stamps[0], stamps[-1]) if stamps else None


def changes(batch: Batch) -> list[Changed]:
    """The changes of all commits of a batch. Raises Corruption."""
    try:
        return [_changed.decode(raw) for raw in batch.commits]
    except msgspec.MsgspecError as error:
        raise Corruption(f"A commit of the batch at {batch.ts} cannot be read: {error}.") from None
