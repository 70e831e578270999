"""The records of the log: batches of commits, and checkpoints. RECORDS.md describes each field.

A record is one frame's payload: a MessagePack array that begins with the record's tag. Fields
are only ever appended, each with a default, so that old logs stay readable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from hornbeam_server.schema.errors import Corruption
from hornbeam_server.storage.ports import Position, Put


class Commit(msgspec.Struct, frozen=True, array_like=True):
    """One transaction, encoded when it is prepared. Its timestamp is that of its batch.

    `changes` is the change stream: relation, encoded old row, encoded new row, with None for an
    absent row. `writes` maps physical tables to encoded puts, and is all that replay needs.
    """

    transaction_id: bytes
    catalog_version: int
    writes: dict[str, list[Put]]
    changes: list[tuple[str, bytes | None, bytes | None]]


class Batch(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Transactions that were committed together at `ts`. `commits` are encoded Commits."""

    ts: int
    commits: list[msgspec.Raw]


class Checkpoint(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """All records before `applied_upto` are applied, and durable in the store.

    Timestamps up to `hlc` are reserved: this owner may have published them, and every commit of a
    later owner has a higher timestamp. `catalog_version` is that of the last applied commit.
    """

    applied_upto: Position
    hlc: int
    catalog_version: int


Record = Batch | Checkpoint

_encoder = msgspec.msgpack.Encoder()
_records: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)
_commits = msgspec.msgpack.Decoder(Commit)


def encode(record: Record | Commit) -> bytes:
    """A record as the payload of a frame, or a commit for a Batch, as `msgspec.Raw`."""
    return _encoder.encode(record)


def decode(payload: bytes) -> Record:
    """The record in a payload. Raises Corruption: the frame's checksum was right, so its writer is
    faulty or newer."""
    try:
        return _records.decode(payload)
    except msgspec.MsgspecError as error:
        raise Corruption(f"A log record cannot be read: {error}.", cure=_CURE) from None


def commits(batch: Batch) -> list[Commit]:
    """The commits of a batch, decoded. Raises Corruption."""
    try:
        return [_commits.decode(raw) for raw in batch.commits]
    except msgspec.MsgspecError as error:
        raise Corruption(
            f"A commit of the batch at {batch.ts} cannot be read: {error}.", cure=_CURE
        ) from None


def merged_writes(writes: Iterable[Mapping[str, Sequence[Put]]]) -> dict[str, list[Put]]:
    """The puts of several transactions by table, for one call of the store."""
    merged: dict[str, list[Put]] = {}
    for by_table in writes:
        for table, puts in by_table.items():
            merged.setdefault(table, []).extend(puts)
    return merged


_CURE = "It was written by a newer version, or the file is damaged; see RECORDS.md."
