"""The records of the log: batches of commits, and checkpoints. RECORDS.md describes each field.

A record is one frame's payload: a MessagePack array that begins with the record's tag. Fields
are only ever appended, each with a default, so that old logs stay readable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType

import msgspec

from hornbeam_server.schema.errors import Corruption
from hornbeam_server.schema.turns import chunks, turn
from hornbeam_server.storage.ports import Position, Put


class Commit(msgspec.Struct, frozen=True, array_like=True):
    """One transaction, encoded when it is prepared. Its timestamp is that of its batch.

    `changes` is the change stream: stored name of the relation, encoded old row, encoded new row,
    with None for an absent row. `writes` maps physical tables to encoded puts, and is all that
    replay needs.
    """

    transaction_id: bytes
    catalog_version: int
    writes: dict[str, list[Put]]
    changes: list[tuple[str, bytes | None, bytes | None]]


class KeyedCommit(Commit, frozen=True, array_like=True):
    """A commit with the idempotency key of its request; "": it has none. A commit without a key is
    written as a `Commit`, and read as this."""

    idempotency_key: str = ""


class Batch(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Transactions that were committed together at `ts`. `commits` are encoded Commits."""

    ts: int
    commits: list[msgspec.Raw]


class CellBatch(Batch, frozen=True, array_like=True, tag=3):
    """A batch that also changes cells of immediate views. `cells` maps physical tables to puts of
    whole cells: what the writer's lane has added up to, with this batch. A version that does not
    know this record cannot replay the log, and says so."""

    cells: dict[str, list[Put]]


class Checkpoint(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """All records before `applied_upto` are applied, and durable in the store.

    Timestamps up to `hlc` are reserved: this owner may have published them, and every commit of a
    later owner has a higher timestamp. `catalog_version` is that of the last applied commit.
    """

    applied_upto: Position
    hlc: int
    catalog_version: int


Record = Batch | CellBatch | Checkpoint
_Item = Put | tuple[str, bytes | None, bytes | None]
"""A put, or a change of a base row."""

PIECE_BYTES = 1 << 16
"""Smaller parts of a record are joined to pieces of this size; larger ones are not copied."""
_HEAD_OF_BYTES = b"\xc6"
"""MessagePack's mark of bytes whose length has 4 bytes, as it has from PIECE_BYTES on."""

_encoder = msgspec.msgpack.Encoder()
_records: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)
_commits = msgspec.msgpack.Decoder(KeyedCommit)


def encode(record: Record | Commit) -> bytes:
    """A record as the payload of a frame, or a commit for a Batch, as `msgspec.Raw`."""
    return _encoder.encode(record)


async def encode_commit(commit: Commit, size: int) -> Sequence[bytes]:
    """`encode(commit)` in consecutive pieces. A large commit is encoded in turns, and its large
    values are not copied: to encode 170 MB in one step takes 0.2 s. `size`: the size of its keys
    and values in bytes."""
    if size < PIECE_BYTES:
        return [encode(commit)]
    pieces = _Pieces()
    fields = len(commit.__struct_fields__)
    pieces.add(_array_header(fields) + _encoder.encode(commit.transaction_id))
    pieces.add(_encoder.encode(commit.catalog_version) + _map_header(len(commit.writes)))
    for table, puts in commit.writes.items():
        pieces.add(_encoder.encode(table))
        await _add_list(pieces, puts)
    await _add_list(pieces, commit.changes)
    if isinstance(commit, KeyedCommit):
        pieces.add(_encoder.encode(commit.idempotency_key))
    return pieces.all()


def encode_batch(
    ts: int,
    commits: Sequence[Sequence[bytes]],
    cells: Mapping[str, Sequence[Put]] = MappingProxyType({}),
) -> Sequence[bytes]:
    """A `Batch` of commits at `ts`, or a `CellBatch` if there are `cells`, in consecutive pieces;
    `commits` are results of `encode_commit`."""
    pieces = _Pieces()
    size, tag = (4, 3) if cells else (3, 1)
    pieces.add(_array_header(size) + _encoder.encode(tag) + _encoder.encode(ts))
    pieces.add(_array_header(len(commits)))
    for piece in chain.from_iterable(commits):
        pieces.add(piece)
    if cells:
        pieces.add(_encoder.encode(cells))
    return pieces.all()


class _Pieces:
    """Consecutive pieces of a record. Small ones are joined."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._small = bytearray()

    def add(self, part: bytes) -> None:
        if len(part) >= PIECE_BYTES:
            self._close()
            self._pieces.append(part)
            return
        self._small += part
        if len(self._small) >= PIECE_BYTES:
            self._close()

    def all(self) -> list[bytes]:
        self._close()
        return self._pieces

    def _close(self) -> None:
        if self._small:
            self._pieces.append(bytes(self._small))
            self._small.clear()


async def _add_list(pieces: _Pieces, items: Sequence[_Item]) -> None:
    """Add `items`, encoded as a list."""
    pieces.add(_array_header(len(items)))
    for some in chunks(items):
        if _have_large(some):
            for item in some:
                pieces.add(_array_header(len(item)))
                _add_values(pieces, item)
        else:
            pieces.add(_encoder.encode(some)[len(_array_header(len(some))) :])
        await turn(some)


def _add_values(pieces: _Pieces, item: _Item) -> None:
    for value in item:
        if isinstance(value, bytes) and len(value) >= PIECE_BYTES:
            pieces.add(_HEAD_OF_BYTES + len(value).to_bytes(4))
            pieces.add(value)
        else:
            pieces.add(_encoder.encode(value))


def _have_large(items: Sequence[_Item]) -> bool:
    """Have some puts or changes a value that is not to be copied?"""
    lengths = map(len, filter(None, chain.from_iterable(items)))
    return max(lengths, default=0) >= PIECE_BYTES


def _array_header(count: int) -> bytes:
    if count < 1 << 4:
        return bytes([0x90 | count])
    return b"\xdc" + count.to_bytes(2) if count < 1 << 16 else b"\xdd" + count.to_bytes(4)


def _map_header(count: int) -> bytes:
    if count < 1 << 4:
        return bytes([0x80 | count])
    return b"\xde" + count.to_bytes(2) if count < 1 << 16 else b"\xdf" + count.to_bytes(4)


def decode(payload: bytes) -> Record:
    """The record in a payload. Raises Corruption: the frame's checksum was right, so its writer is
    faulty or newer."""
    try:
        return _records.decode(payload)
    except msgspec.MsgspecError as error:
        raise Corruption(f"A log record cannot be read: {error}.", cure=_CURE) from None


def commits(batch: Batch) -> list[KeyedCommit]:
    """The commits of a batch, decoded. Raises Corruption."""
    return [decode_commit(batch.ts, raw) for raw in batch.commits]


def decode_commit(ts: int, commit: bytes | msgspec.Raw) -> KeyedCommit:
    """An encoded commit of the batch at `ts`. Raises Corruption."""
    try:
        return _commits.decode(commit)
    except msgspec.MsgspecError as error:
        raise Corruption(
            f"A commit of the batch at {ts} cannot be read: {error}.", cure=_CURE
        ) from None


def merged_writes(writes: Iterable[Mapping[str, Sequence[Put]]]) -> dict[str, list[Put]]:
    """The puts of several transactions by table, for one call of the store."""
    merged: dict[str, list[Put]] = {}
    for by_table in writes:
        for table, puts in by_table.items():
            merged.setdefault(table, []).extend(puts)
    return merged


_CURE = "It was written by a newer version, or the file is damaged; see RECORDS.md."
