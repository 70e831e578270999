"""Transactions encoded for the log and the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from hornbeam_server.maintain.changes import Change, Mutation
from hornbeam_server.maintain.inserts import StoredRow
from hornbeam_server.schema.turns import chunks, turn, worked_off
from hornbeam_server.storage.codec.rows import Codecs, LayoutCodec
from hornbeam_server.storage.limits import MAX_KEY_BYTES, require_storable
from hornbeam_server.storage.log.records import Commit, KeyedCommit, encode_commit
from hornbeam_server.storage.ports import TOMBSTONE, Put, make_put
from hornbeam_server.txlayer.commit.batches import Prepared
from hornbeam_server.txlayer.commit.lanes import LaneAddition

_Logged = tuple[str, bytes | None, bytes | None]
"""A change of a base row as the log holds it."""


async def encoded(
    transaction_id: str,
    catalog_version: int,
    mutations: Sequence[Mutation],
    changes: Sequence[Change],
    extra_puts: Mapping[str, Sequence[Put]],
    codecs: Codecs,
    not_before: int = 0,
    additions: Sequence[LaneAddition] = (),
    idempotency_key: str | None = None,
) -> Prepared:
    """Encode a transaction for the log and the store, each row once. Raises LimitExceeded.

    `mutations` are all stored rows that change, `changes` the base rows among them, `extra_puts`
    encoded system rows by physical table, `additions` the changes of immediate views; `codecs` are
    those of the catalog's version. The log keeps the `idempotency_key` of the request, if any.
    """
    require_storable(extra_puts)
    encoding = _Encoding(codecs)
    await worked_off(map(encoding.put, mutations))
    await worked_off(map(encoding.log, changes))
    writes = encoding.writes
    for table, extra in extra_puts.items():
        writes.setdefault(table, []).extend(extra)
        encoding.size += sum([len(key) + len(value) for key, value in extra])
    commit = _commit(transaction_id, catalog_version, writes, encoding.logged, idempotency_key)
    payload = await encode_commit(commit, encoding.size)
    return Prepared(transaction_id, catalog_version, writes, payload, not_before, additions)


async def encoded_insert(
    transaction_id: str,
    catalog_version: int,
    stored: Sequence[StoredRow],
    relation: str,
    outcome: tuple[str, Put],
    not_before: int = 0,
    idempotency_key: str | None = None,
) -> Prepared:
    """`encoded` for a transaction that inserts one row: `stored` are the rows that it stores, first
    the row itself. `relation` is the stored name of its relation, `outcome` the physical table and
    the put of its outcome. Raises LimitExceeded."""
    writes: dict[str, list[Put]] = {}
    value = stored[0].put.value
    size = len(value)
    for table, put in [*[(each.target.table, each.put) for each in stored], outcome]:
        bytes_of_put = len(put.key) + len(put.value)
        if bytes_of_put > MAX_KEY_BYTES:  # else neither the key nor the row is too large
            require_storable({table: [put]})
        size += bytes_of_put
        writes.setdefault(table, []).append(put)
    logged: list[_Logged] = [(relation, None, value)]
    commit = _commit(transaction_id, catalog_version, writes, logged, idempotency_key)
    payload = await encode_commit(commit, size)
    return Prepared(transaction_id, catalog_version, writes, payload, not_before)


async def encoded_inserts(
    transaction_id: str,
    catalog_version: int,
    stored: Sequence[tuple[str, Sequence[Put]]],
    relation: str,
    outcome: tuple[str, Put],
    not_before: int = 0,
    idempotency_key: str | None = None,
) -> Prepared:
    """`encoded_insert` for many rows: `stored` are the puts by physical table, first those of the
    relation."""
    writes: dict[str, list[Put]] = {}
    size = 0
    for table, puts in [*stored, (outcome[0], [outcome[1]])]:
        for some in chunks(puts):
            sizes = list(map(len, chain.from_iterable(some)))
            if max(sizes) > MAX_KEY_BYTES:  # else neither a key nor a row is too large
                require_storable({table: some})
            size += sum(sizes)
            await turn(some)
        writes.setdefault(table, []).extend(puts)
    logged: list[_Logged] = [(relation, None, put.value) for put in stored[0][1]]
    size += sum([len(value) for _, _, value in logged if value is not None])
    commit = _commit(transaction_id, catalog_version, writes, logged, idempotency_key)
    payload = await encode_commit(commit, size)
    return Prepared(transaction_id, catalog_version, writes, payload, not_before)


def _commit(
    transaction_id: str,
    catalog_version: int,
    writes: dict[str, list[Put]],
    logged: list[_Logged],
    idempotency_key: str | None,
) -> Commit:
    id_ = bytes.fromhex(transaction_id)
    if idempotency_key is None:
        return Commit(id_, catalog_version, writes, logged)
    return KeyedCommit(id_, catalog_version, writes, logged, idempotency_key)


class _Encoding:
    """The encoded rows of one transaction. A changed row and the row of its mutation are the same
    object, which is encoded once."""

    def __init__(self, codecs: Codecs) -> None:
        self._codecs = codecs
        self._layouts: dict[str, tuple[LayoutCodec, list[Put], dict[int, bytes]]] = {}
        """Codec, puts, and encoded rows by object identity, for each layout."""
        self.size = 0
        """Size of the puts and changes in bytes."""
        self.writes: dict[str, list[Put]] = {}
        """Puts by physical table."""
        self.logged: list[tuple[str, bytes | None, bytes | None]] = []
        """Changes of base rows as the log holds them."""

    def put(self, mutation: Mutation) -> int:
        """Add a put to `writes`. Returns its size in bytes. Raises LimitExceeded."""
        name, key, _, new = mutation
        codec, puts, known = self._layouts.get(name) or self._opened(name)
        value = TOMBSTONE
        if new is not None:
            value = known[id(new)] = codec.encode(new)
        put = make_put((key, value))
        size = len(key) + len(value)
        if size > MAX_KEY_BYTES:  # else neither the key nor the row is too large
            require_storable({codec.layout.table: [put]})
        puts.append(put)
        self.size += size
        return size

    def log(self, change: Change) -> int:
        """Add `change` to `logged`. Returns the size of the old row in bytes."""
        name, old, new = change.relation, change.old, change.new
        codec, _, known = self._layouts.get(name) or self._opened(name)
        before = None if old is None else known.get(id(old)) or codec.encode(old)
        after = None if new is None else known.get(id(new)) or codec.encode(new)
        self.logged.append((codec.layout.stored_name, before, after))
        copied = 0 if before is None else len(before)
        self.size += copied + (0 if after is None else len(after))
        return copied

    def _opened(self, name: str) -> tuple[LayoutCodec, list[Put], dict[int, bytes]]:
        codec = self._codecs(name)
        puts = self.writes.setdefault(codec.layout.table, [])
        found = self._layouts[name] = (codec, puts, {})
        return found
