"""What members say to one another, over `storage.ports.Peers` (docs/protocols/locks.md).

A message is MessagePack: an array whose first element is the kind. Fields are only ever appended.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from hornbeam_server.schema.errors import Corruption
from hornbeam_server.txlayer.locks import Age

T = TypeVar("T")


class Lock(msgspec.Struct, frozen=True, array_like=True, tag="lock"):
    """Take locks for attempt number `attempt` of the sender's. `elsewhere`: it holds others, not of
    the first kinds alone; `timeout_s`: it waits so long."""

    attempt: int
    age: Age
    elsewhere: bool
    exclusive: bool
    names: list[tuple[Any, ...]]
    """Of locks (`LockName`)."""
    timeout_s: float


class Release(msgspec.Struct, frozen=True, array_like=True, tag="release"):
    """Free all that these attempts of the sender's hold or wait for, and remember when they
    committed: attempt → commit timestamp, 0 if it did not."""

    attempts: dict[int, int]


class Reach(msgspec.Struct, frozen=True, array_like=True, tag="reach"):
    """Say a watermark that is not below `least`, as soon as there is one."""

    least: int


class Unfinished(msgspec.Struct, frozen=True, array_like=True, tag="unfinished"):
    """Has this transaction reached the log, its outcome unknown yet?"""

    transaction_id: str


class Seal(msgspec.Struct, frozen=True, array_like=True, tag="seal"):
    """Seal what the log holds, for who reads it from outside."""


Request = Lock | Release | Reach | Unfinished | Seal


class Granted(msgspec.Struct, frozen=True, array_like=True, tag="granted"):
    """The locks, and the owner's clock: nothing that was committed under them is later."""

    owner: str
    clock: int
    assignment: int = 0
    """The version of it by which the owner granted them; 0: an owner that does not say."""
    released: int = 0
    """The number, in that owner's table, of the last release of one of these locks before."""
    releases: int = 0
    """How many of all locks there were."""


class Refused(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """No locks; those granted before are held still."""

    why: str
    reason: str


class Freed(msgspec.Struct, frozen=True, array_like=True, tag="freed"):
    """They are, or will be when their owner, who is taken for dead, is recovered."""


class Reached(msgspec.Struct, frozen=True, array_like=True, tag="reached"):
    """Everything of this member's at or below `watermark` is in the store, and nothing comes there
    any more. `acknowledged` is the latest commit that it has told anybody of; `catalog` the version
    that it uses: no commit at or below the watermark was made under a later one."""

    member: str
    watermark: int
    acknowledged: int
    catalog: int


class Owned(msgspec.Struct, frozen=True, array_like=True, tag="owned"):
    """Whose transaction it is; None: no such one."""

    owner: str | None


class Sealed(msgspec.Struct, frozen=True, array_like=True, tag="sealed"):
    """Every commit at or below a watermark of this member's that it had said before stands in its
    log before this segment, and nobody appends there any more."""

    member: str
    epoch: int
    sequence: int


Response = Granted | Refused | Freed | Reached | Owned | Sealed

_encoder = msgspec.msgpack.Encoder()
_requests: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_responses: msgspec.msgpack.Decoder[Response] = msgspec.msgpack.Decoder(Response)


def encode(message: Request | Response) -> bytes:
    return _encoder.encode(message)


def decode_request(data: bytes) -> Request:
    """Raises Corruption."""
    return _decoded(_requests, data)


def decode_response(data: bytes) -> Response:
    """Raises Corruption."""
    return _decoded(_responses, data)


def _decoded(decoder: msgspec.msgpack.Decoder[T], data: bytes) -> T:
    try:
        decoded: T = decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise Corruption(
            f"A message of another node cannot be read: {error}.",
            cure="Do all nodes run the same version?",
        ) from None
    return decoded
