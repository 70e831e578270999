"""Outcomes of transactions. Each is a row of `s.transactions`, put in the transaction's own batch.

Idempotency keys and the question whether a transaction has committed use one mechanism. A
transaction's id is derived from its key, so a retry looks up the same id, finds the row, and gets
the first answer again. The commit timestamp is the timestamp of the cell; the row holds the rest.

Values in an answer are MessagePack; types that MessagePack lacks are extensions: 1 DECIMAL,
2 DATE, 3 TIMESTAMP with or without zone (all as ISO or decimal text), 4 UUID (16 bytes).
"""

from __future__ import annotations

import datetime as dt
import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec.msgpack import Ext

from hornbeam_server.schema.enumerations import Label
from hornbeam_server.schema.errors import Corruption, IdempotencyMismatch, InvalidRequest
from hornbeam_server.schema.intervals import Interval, interval
from hornbeam_server.schema.turns import made
from hornbeam_server.storage.ports import NEWEST, Cell, TableReader
from hornbeam_server.txlayer.statements.requests import (
    SqlWork,
    StatementResult,
    TransactionRequest,
    TransactionResult,
    Work,
)

TABLE = "s.transactions"
_HASH_BYTES = 16
NO_HASH = b""
"""The hash of a request without an idempotency key, which nothing repeats."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A transaction that was committed."""

    transaction_id: str
    commit_ts: int
    request_hash: bytes
    answer: TransactionResult
    """The answer that the client got the first time, without timings."""
    owner: str = ""
    """The owner of the transaction."""

    def answer_to(self, request: TransactionRequest) -> TransactionResult:
        """The recorded answer. Raises IdempotencyMismatch if it answered another request."""
        if request_hash(request) != self.request_hash:
            raise IdempotencyMismatch(
                "This idempotency key was used for another request.",
                cure="Use a new key for each transaction; repeat a request unchanged.",
                transaction_id=self.transaction_id,
            )
        return self.answer


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    """The form of a row. Fields are only ever appended."""

    request_hash: bytes
    statements: list[tuple[int, tuple[str, ...], tuple[str, ...], list[tuple[Any, ...]]]]
    affected: dict[str, int]
    owner: str = ""
    drawn: dict[str, int] = {}


def transaction_id_for(idempotency_key: str, owner: str = "") -> str:
    """The transaction id: 32 hexadecimal digits, derived from the key and its owner. So no owner
    can find or replace another owner's answer by use of the same key. `owner` has at most 16
    bytes."""
    named = hashlib.blake2b(idempotency_key.encode(), digest_size=16, person=owner.encode())
    return named.hexdigest()


def request_hash(request: TransactionRequest) -> bytes:
    """A hash of 16 bytes, which differs between requests with different effects.

    The bookmark and the time limit do not count: a client's retry may have a newer bookmark. Raises
    InvalidRequest for parameters that are no values.
    """
    body: tuple[Any, ...] = (
        [(type(work).__name__, _hashed(work)) for work in request.statements],
        request.preconditions,
        request.reads,
    )
    if request.serializable or request.ranges:  # hashes of others are stored without them
        body += (request.serializable, request.ranges)
    try:
        encoded = _canonical.encode(body)
    except (TypeError, OverflowError, UnicodeEncodeError) as error:
        raise InvalidRequest(
            f"A parameter cannot be encoded: {error}.",
            cure="Give a value of an SQL type, in its range.",
        ) from None
    return hashlib.blake2b(encoded, digest_size=_HASH_BYTES).digest()


def _hashed(work: Work) -> Any:
    """The members of a statement that count. Hashes of those without a session are stored without
    it."""
    if not isinstance(work, SqlWork):
        return work
    members = {each.name: getattr(work, each.name) for each in fields(work)}
    if not work.session:
        del members["session"]
    return members


async def encode_outcome(
    hash_of_request: bytes,
    results: Sequence[StatementResult],
    affected: Mapping[str, int],
    owner: str = "",
    drawn: Mapping[str, int] = MappingProxyType({}),
) -> bytes:
    """The value of the row for a transaction that is about to commit."""
    statements = [
        (
            result.affected,
            result.columns,
            result.types,
            await made(map(_packed, result.rows)) if result.rows else [],
        )
        for result in results
    ]
    return _encoder.encode(_Stored(hash_of_request, statements, dict(affected), owner, dict(drawn)))


async def find_outcome(store: TableReader, transaction_id: str) -> Outcome | None:
    """The recorded outcome. None: no commit of this transaction is recorded, or not any more.
    Raises InvalidRequest for a malformed id, Corruption."""
    (cell,) = await store.get(TABLE, [_key(transaction_id)], NEWEST)
    return None if cell is None else _decoded(transaction_id, cell)


def _key(transaction_id: str) -> bytes:
    try:
        return bytes.fromhex(transaction_id)
    except ValueError:
        raise InvalidRequest(
            f"{transaction_id!r} is no transaction id.", cure="It has 32 hexadecimal digits."
        ) from None


def _decoded(transaction_id: str, cell: Cell) -> Outcome:
    try:
        stored = _decoder.decode(cell.value)
    except (msgspec.MsgspecError, ValueError, ArithmeticError) as error:
        raise Corruption(f"{TABLE} {transaction_id} cannot be read: {error}.") from None
    statements = tuple(
        StatementResult(affected, columns, types, tuple(rows))
        for affected, columns, types, rows in stored.statements
    )
    answer = TransactionResult(
        transaction_id, cell.ts, statements, stored.affected, drawn=stored.drawn
    )
    return Outcome(transaction_id, cell.ts, stored.request_hash, answer, stored.owner)


_EXTENSIONS: dict[type, tuple[int, Callable[[Any], bytes]]] = {
    Decimal: (1, lambda value: str(value).encode()),
    dt.date: (2, lambda value: value.isoformat().encode()),
    dt.datetime: (3, lambda value: value.isoformat().encode()),
    uuid.UUID: (4, lambda value: value.bytes),
    dt.time: (5, lambda value: value.isoformat().encode()),
    Interval: (6, lambda value: str(value).encode()),
}
_FROM_EXTENSION: dict[int, Callable[[bytes], Any]] = {
    1: lambda data: Decimal(data.decode()),
    2: lambda data: dt.date.fromisoformat(data.decode()),
    3: lambda data: dt.datetime.fromisoformat(data.decode()),
    4: lambda data: uuid.UUID(bytes=data),
    5: lambda data: dt.time.fromisoformat(data.decode()),
    6: lambda data: interval(data.decode()),
}


def _packed(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_extended(value) for value in row)


def _extended(value: Any) -> Any:
    if type(value) is tuple:
        return _packed(value)
    if isinstance(value, Label):
        return str(value)
    extension = _EXTENSIONS.get(type(value))
    return value if extension is None else Ext(extension[0], extension[1](value))


def _from_extension(code: int, data: memoryview) -> Any:
    make = _FROM_EXTENSION.get(code)
    if make is None:
        raise msgspec.ValidationError(f"unknown extension {code}")
    return make(bytes(data))


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Stored, ext_hook=_from_extension)
_canonical = msgspec.msgpack.Encoder(order="sorted")
