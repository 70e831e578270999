"""The protocol between a server process and its workers. Version 1; both ends are one release.

A message is a frame::

    ┌──────────────┬──────────────┬───────────────────┬──────────────────────┐
    │ head_bytes   │ body_bytes   │ head              │ body                 │
    │ u32, little  │ u64, little  │ head_bytes bytes  │ Arrow IPC stream, or │
    │ endian       │ endian       │                   │ nothing              │
    └──────────────┴──────────────┴───────────────────┴──────────────────────┘

Requests go to the worker; their head is a pickle, because parameters are any Python values. The
worker trusts the process that started it. Replies come from a process that runs untrusted SQL:
their head is MessagePack of a closed set of types, and their size is limited.

    request      reply
    Register     none; a failure is reported by the next reply
    Append       Done
    Query        Rows (the first batch of the result)
    Next         Rows
    Describe     Described
    End          none; drops the session's relations and tables
    any          Failed instead
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import msgspec
import pyarrow as pa

from hornbeam_server.schema.errors import (
    ConstraintViolation,
    HornbeamError,
    LimitExceeded,
    SqlError,
)
from hornbeam_server.schema.types import ColumnType

HEADER = struct.Struct("<IQ")
MAX_HEAD_BYTES = 1 << 20
MAX_BODY_BYTES = 256 << 20
"""Maximum body of a reply; `statements.MAX_VALUE_BYTES` keeps results well below it."""


@dataclass(frozen=True, slots=True)
class Register:
    """Make `table` visible as relation `name`."""

    name: str
    table: pa.Table | None


@dataclass(frozen=True, slots=True)
class Append:
    """Add `table` to the temporary table `name`. The `first` call creates or replaces the table."""

    name: str
    table: pa.Table | None
    first: bool


@dataclass(frozen=True, slots=True)
class Query:
    """Run one or more statements; the reply is the result of the last one."""

    sql: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Next:
    """Ask for the next batch of the running query."""


@dataclass(frozen=True, slots=True)
class Describe:
    """Ask for the result columns of a query without running it."""

    sql: str


@dataclass(frozen=True, slots=True)
class End:
    """End the session."""


Request = Register | Append | Query | Next | Describe | End
UNANSWERED = (Register, End)


class Rows(msgspec.Struct, frozen=True, tag=True):
    """A batch of a result. `batch` is sent as the frame's body; None if there are no rows."""

    names: list[str]
    types: list[ColumnType]
    last: bool
    batch: Any = None


class Described(msgspec.Struct, frozen=True, tag=True):
    """Column names, DuckDB's names of their types (`duck`), and the same types as ColumnTypes."""

    names: list[str]
    duck: list[str]
    types: list[ColumnType]


class Done(msgspec.Struct, frozen=True, tag=True):
    """The request was carried out."""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The request failed. `code` is a HornbeamError's code, or "internal" for a bug."""

    code: str
    message: str
    cure: str = ""
    details: dict[str, str | int] = {}


Reply = Rows | Described | Done | Failed


class Envelope(msgspec.Struct, frozen=True, array_like=True):
    """A reply, and the worker's resident memory in bytes after it."""

    reply: Reply
    resident: int


_ENVELOPES = msgspec.msgpack.Decoder(Envelope)


Frame = list[bytes | memoryview]
"""Pieces to send in sequence; a large body is its own piece, so that it is not copied."""
_SMALL = 65_536


def encode_request(request: Request) -> Frame:
    body: bytes | memoryview = b""
    if isinstance(request, Register | Append):
        assert request.table is not None
        body = _stream(request.table.schema, request.table.to_batches())
        request = replace(request, table=None)
    return _frame(pickle.dumps(request, pickle.HIGHEST_PROTOCOL), body)


def decode_request(head: bytes | memoryview, body: memoryview) -> Request:
    request: Request = pickle.loads(head)
    if isinstance(request, Register | Append):
        with pa.ipc.open_stream(pa.py_buffer(body)) as stream:
            return replace(request, table=stream.read_all())
    return request


def encode_reply(reply: Reply, resident: int) -> Frame:
    body: bytes | memoryview = b""
    if isinstance(reply, Rows) and reply.batch is not None:
        body = _stream(reply.batch.schema, [reply.batch])
        reply = msgspec.structs.replace(reply, batch=None)
    return _frame(msgspec.msgpack.encode(Envelope(reply, resident)), body)


def decode_reply(head: bytes | memoryview, body: memoryview) -> Envelope:
    """Raises msgspec's and Arrow's errors for a reply that breaks the protocol."""
    envelope = _ENVELOPES.decode(head)
    if not isinstance(envelope.reply, Rows) or not len(body):
        return envelope
    with pa.ipc.open_stream(pa.py_buffer(body)) as stream:
        batch = stream.read_next_batch()
    return Envelope(msgspec.structs.replace(envelope.reply, batch=batch), envelope.resident)


def failed(error: HornbeamError) -> Failed:
    details = {k: v for k, v in error.details.items() if isinstance(v, str | int)}
    return Failed(error.code, error.message, error.cure, details)


def raised(failure: Failed) -> Exception:
    """The exception that `failure` describes, for the caller to raise."""
    kind = _BY_CODE.get(failure.code)
    if kind is None:
        return RuntimeError(f"A worker process failed: {failure.message}")
    return kind(failure.message, cure=failure.cure, **failure.details)


def _frame(head: bytes, body: bytes | memoryview) -> Frame:
    front = HEADER.pack(len(head), len(body)) + head
    return [front + body] if len(body) <= _SMALL else [front, body]


def buffer(size: int) -> memoryview:
    """An uninitialised receive buffer of `size` bytes."""
    return memoryview(pa.allocate_buffer(size))


class Receiving(Protocol):
    """A blocking socket."""

    def recv_into(self, content: memoryview, /) -> int: ...


def receive(connection: Receiving, size: int) -> memoryview:
    """Exactly `size` bytes. Raises ConnectionError when the other end has closed."""
    content = buffer(size)
    received = 0
    while received < size:
        count = connection.recv_into(content[received:])
        if not count:
            raise ConnectionError
        received += count
    return content


def _stream(schema: pa.Schema, batches: list[pa.RecordBatch]) -> memoryview:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return memoryview(sink.getvalue())


def _kinds(kind: type[HornbeamError]) -> Iterator[type[HornbeamError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _kinds(each)


_ROOTS = (SqlError, LimitExceeded, ConstraintViolation)
_BY_CODE = {kind.code: kind for root in _ROOTS for kind in _kinds(root)}
"""The errors that a statement may have in a worker, by code."""
