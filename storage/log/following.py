"""Reads and decodes segments for readers that follow the log: timestamps of commits, and changed
rows.

All functions but `final_segment` are pure functions of the bytes of a segment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from hornbeam_server.schema.errors import Corruption, SnapshotTooOld
from hornbeam_server.storage.log.format import scan_segment, segment_name
from hornbeam_server.storage.log.records import Batch, decode
from hornbeam_server.storage.ports import LogReader


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


def batches_between(
    data: bytes, epoch: int, sequence: int, after: int, upto: int
) -> Iterator[Batch]:
    """The `batches` of a segment above snapshot `after` and at or below snapshot `upto`."""
    return (batch for batch in batches(data, epoch, sequence) if after < batch.ts <= upto)


def span(data: bytes, epoch: int, sequence: int) -> Span | None:
    """The timestamps of the commits in a segment; None if it holds no commit. Raises Corruption."""
    stamps = [batch.ts for batch in batches(data, epoch, sequence)]
    return Span(stamps[0], stamps[-1]) if stamps else None


def changes(batch: Batch) -> list[Changed]:
    """The changes of all commits of a batch. Raises Corruption."""
    return [changed(batch.ts, raw) for raw in batch.commits]


def changed(ts: int, commit: bytes | msgspec.Raw) -> Changed:
    """The changes of an encoded commit of the batch at `ts`. Raises Corruption."""
    try:
        return _changed.decode(commit)
    except msgspec.MsgspecError as error:
        raise Corruption(f"A commit of the batch at {ts} cannot be read: {error}.") from None


async def final_segment(logs: LogReader, log: str, epoch: int, sequence: int, size: int) -> bytes:
    """The `size` bytes of a segment to which no process appends any more.

    Raises SnapshotTooOld if it has been dropped, Corruption if it has another size, Unavailable.
    """
    data = await logs.read(log, epoch, sequence)
    where = f"{log}:{epoch}:{sequence}"
    if data is None:
        raise SnapshotTooOld(
            f"Segment {where} of the log is not kept any more.",
            cure="Set log_retention_s higher at the nodes, or read less at a time.",
        )
    if len(data) != size:
        raise Corruption(
            f"Segment {where} of the log has {len(data)} bytes; it had {size}.",
            position=f"{where}:{len(data)}",
        )
    return data
