"""The messages between members, over `storage.ports.Peers` (docs/protocols/locks.md).

A message is a MessagePack array whose first element is the kind. Fields are only ever appended.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar, get_args

import msgspec

from hornbeam_server.schema.errors import Corruption
from hornbeam_server.storage.ports import Put
from hornbeam_server.txlayer.locking.locks import Age

T = TypeVar("T")


class Lock(msgspec.Struct, frozen=True, array_like=True, tag="lock"):
    """Take locks for the sender's attempt number `attempt`. `must_compare`: the attempt holds
    locks that are not of the first kinds (`locks.FIRST`). `timeout_s`: the maximum wait in
    seconds."""

    attempt: int
    age: Age
    must_compare: bool
    exclusive: bool
    names: list[tuple[Any, ...]]
    """Names of locks (`LockName`)."""
    timeout_s: float
    traceparent: str = ""
    """Continues the trace of the transaction (`storage/tracing.py`); empty without one."""


class Guard(msgspec.Struct, frozen=True, array_like=True, tag="guard"):
    """Let no other transaction commit rows into these ranges until the sender's attempt number
    `attempt` is released, and answer when earlier ones are applied. `timeout_s`: the maximum wait
    in seconds."""

    attempt: int
    age: Age
    ranges: dict[str, list[tuple[bytes, bytes | None]]]
    """By table: from the first key (included) to the second (excluded; None: to the last)."""
    timeout_s: float
    traceparent: str = ""


class Release(msgspec.Struct, frozen=True, array_like=True, tag="release"):
    """Free all locks and guards that these attempts of the sender hold or wait for. `attempts` has
    a commit timestamp by number, 0 for an attempt without a commit; the receiver's clock follows
    them."""

    attempts: dict[int, int]


class Reach(msgspec.Struct, frozen=True, array_like=True, tag="reach"):
    """Report a watermark at or above `least`, as soon as there is one."""

    least: int


class Unfinished(msgspec.Struct, frozen=True, array_like=True, tag="unfinished"):
    """Has this transaction reached the log, and is its outcome unknown yet?"""

    transaction_id: str


class Seal(msgspec.Struct, frozen=True, array_like=True, tag="seal"):
    """Seal the commits that the log holds, for followers of the log."""


class Later(msgspec.Struct, frozen=True, array_like=True, tag="later"):
    """Answer as soon as a commit above `after` may be applied, at the latest after `timeout_s`."""

    after: int
    timeout_s: float


class Recent(msgspec.Struct, frozen=True, array_like=True, tag="recent"):
    """Report the commits of the receiver above snapshot `after` and at or below `upto`."""

    after: int
    upto: int


class BatchesAfter(msgspec.Struct, frozen=True, array_like=True, tag="batches"):
    """Report the batches of a group of live or deferred views that end above snapshot `after`, as
    soon as one is finished, at the latest after `timeout_s`."""

    group: str
    after: int
    timeout_s: float


class Compute(msgspec.Struct, frozen=True, array_like=True, tag="compute"):
    """Compute rows of live or deferred views at snapshot `upto`, from those at snapshot `after` and
    from all commits between both, and put nothing."""

    group: str
    after: int
    upto: int
    catalog: int
    """The version of the catalog that the sender uses."""
    usable: list[str]
    """The views and indexes that are readable at both snapshots."""
    views: list[str]
    commits: list[tuple[int, bytes]]
    """For each commit its timestamp, and its record as the log has it."""


Request = (
    Lock | Guard | Release | Reach | Unfinished | Seal | Later | Recent | BatchesAfter | Compute
)


class Unknown(NamedTuple):
    """A request of a newer version, of a kind that this one does not know."""

    kind: str


class Granted(msgspec.Struct, frozen=True, array_like=True, tag="granted"):
    """The locks are granted. `clock` is the owner's clock: no earlier commit under these locks has
    a later timestamp."""

    owner: str
    clock: int
    assignment: int = 0
    """The version of the assignment under which the owner granted the locks; 0: not reported."""
    released: int = 0
    """The number of the last earlier release of any of these locks, in the owner's lock table."""
    releases: int = 0
    """The number of releases of all locks so far, in the owner's lock table."""


class GuardedHere(msgspec.Struct, frozen=True, array_like=True, tag="guarded"):
    """The ranges are guarded, and earlier commits into them are applied. `clock` is the member's
    clock, `newest` the newest commit of each of the tables, where there is one."""

    member: str
    clock: int
    newest: dict[str, int]


class Refused(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """The locks are not granted. Locks that were granted before are still held."""

    why: str
    reason: str


class Freed(msgspec.Struct, frozen=True, array_like=True, tag="freed"):
    """The locks are freed. If the sender is no member, they are freed when its log is recovered."""


class Reached(msgspec.Struct, frozen=True, array_like=True, tag="reached"):
    """All commits of this member at or below `watermark` are in the store, and all its later
    commits are above it. `acknowledged` is the latest commit that the member reported to a client.
    `catalog` is the version that it uses: no commit at or below the watermark was made under a
    later one."""

    member: str
    watermark: int
    acknowledged: int
    catalog: int


class Owned(msgspec.Struct, frozen=True, array_like=True, tag="owned"):
    """The owner of the unfinished transaction; None: the member has no such transaction."""

    owner: str | None


class Sealed(msgspec.Struct, frozen=True, array_like=True, tag="sealed"):
    """Every commit of this member at or below a watermark that it reported earlier is in a segment
    of its log before this one. No process appends to those segments any more."""

    member: str
    epoch: int
    sequence: int


class News(msgspec.Struct, frozen=True, array_like=True, tag="news"):
    """`is_later`: this member may have applied a commit above the snapshot of the question."""

    member: str
    is_later: bool


class RecentCommits(msgspec.Struct, frozen=True, array_like=True, tag="commits"):
    """All commits of this member between two snapshots: for each batch its timestamp, the records
    of its commits as the log has them, the puts of cells of immediate views by physical table, and
    its size in bytes. None: they are not all in its memory, or too large."""

    member: str
    batches: list[tuple[int, list[bytes], dict[str, list[Put]], int]] | None


class BatchesDone(msgspec.Struct, frozen=True, array_like=True, tag="done"):
    """Batches of a group: the snapshots at both ends, and the keys of the rows that were put, by
    physical table. Not all of them may be finished."""

    batches: list[tuple[int, int, dict[str, list[bytes]]]]


class RowsComputed(msgspec.Struct, frozen=True, array_like=True, tag="rows"):
    """The rows of the views, and of their hidden state, that differ between both snapshots: puts
    by physical table."""

    puts: dict[str, list[Put]]


Response = (
    Granted
    | GuardedHere
    | Refused
    | Freed
    | Reached
    | Owned
    | Sealed
    | News
    | RecentCommits
    | BatchesDone
    | RowsComputed
)

_encoder = msgspec.msgpack.Encoder()
_requests: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_responses: msgspec.msgpack.Decoder[Response] = msgspec.msgpack.Decoder(Response)
_fields = msgspec.msgpack.Decoder(list[Any])
_KINDS = frozenset(each.__struct_config__.tag for each in get_args(Request))


def encode(message: Request | Response) -> bytes:
    return _encoder.encode(message)


def decode_request(data: bytes) -> Request | Unknown:
    """The request in `data`. Raises Corruption."""
    try:
        return _decoded(_requests, data)
    except Corruption:
        kind = _kind(data)
        if kind is None or kind in _KINDS:
            raise
        return Unknown(kind)


def _kind(data: bytes) -> str | None:
    """The kind of a message whose fields are not known; None: it is no message."""
    try:
        fields = _fields.decode(data)
    except msgspec.MsgspecError:
        return None
    return fields[0] if fields and isinstance(fields[0], str) else None


def decode_response(data: bytes) -> Response:
    """The response in `data`. Raises Corruption."""
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
