"""The ports: everything that the rest of Hornbeam may ask of the world outside the process.

Every adapter (RocksDB, local files, simulated, HBase, HDFS, ZooKeeper) passes the contract suite
of its port in `tests/contract/`. All methods are called from one event loop. An adapter that
blocks for longer than some microseconds does so in its own threads.

Errors: `Unavailable` when the outcome is unknown or the service cannot be reached (puts are
idempotent, so the caller repeats them), `DiskFull`, `Corruption`, and those that a method names.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

TOMBSTONE = b""
"""The value of a deleted row. Store deletes are never used on live data: a delete marker would
hide older versions from the snapshots that still need them."""

BATCH_BYTES = 1 << 20
"""A batch of rows ends with the row at which its values reach so many bytes: a row may be large,
and a thousand large rows must not be in memory at one time."""

NEWEST = (1 << 63) - 1
"""Read timestamp at which every version is visible."""


class Cell(NamedTuple):
    """One version of one row."""

    key: bytes
    ts: int
    value: bytes


make_cell: Callable[[tuple[bytes, int, bytes]], Cell] = partial(tuple.__new__, Cell)
"""Makes a `Cell` from a tuple, in half the time of `Cell(…)`: scans make one for each row."""


class Put(NamedTuple):
    """One row to write; `value` TOMBSTONE deletes."""

    key: bytes
    value: bytes


make_put: Callable[[tuple[bytes, bytes]], Put] = partial(tuple.__new__, Put)
"""Makes a `Put` from a tuple, in half the time of `Put(…)`."""


class TableReader(Protocol):
    """The reads of a `TableStore`."""

    @property
    def remote(self) -> bool:
        """True if each read waits for another machine. A caller that needs several reads then
        sends all of them at once."""

    def get(
        self, table: str, keys: Sequence[bytes], at: int, *, room: int | None = None
    ) -> Awaitable[list[Cell | None]]:
        """Newest version with ts ≤ `at` of each key, in order; None if absent or a tombstone.

        With `room` the answer covers only the first keys, at least one: it ends at the latest
        with the row at which the values reach `room` bytes.

        A remote store sends the request at the call, before the result is awaited; the simulated
        store sends it when the result is awaited.
        """

    def scan(
        self,
        table: str,
        start: bytes,
        end: bytes | None,
        at: int,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[list[Cell]]:
        """Rows with start ≤ key < end (None: to the last) as of `at`, in key order, in batches.

        Tombstones are left out and do not count towards `limit`. All batches belong to `at`;
        a put with ts > `at` or a purge with a horizon ≤ `at` during the scan changes nothing.
        Batches are never empty, hold some thousands of rows at most, and end at the latest with
        the row at which their values reach BATCH_BYTES.
        """

    async def scan_values(
        self,
        table: str,
        start: bytes,
        end: bytes | None,
        at: int,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[list[bytes]]:
        """The values of the rows of `scan`, in the same batches. A store overrides this method if
        it can read values without keys and timestamps."""
        async for cells in self.scan(table, start, end, at, reverse=reverse, limit=limit):
            yield [cell.value for cell in cells]

    async def scan_prefixes(
        self, table: str, prefixes: Sequence[bytes], at: int, *, room: int | None = None
    ) -> list[list[Cell]]:
        """For each prefix all rows that start with it, in key order. For short ranges.

        With `room` the answer covers only the first prefixes, whose values have at most `room`
        bytes in all. It is empty if the first prefix alone has more: `scan` reads that prefix.
        """


class DirectReader(Protocol):
    """Reads of a store in this process that end before any other task runs. They see the rows that
    the reads of `TableReader` see, and raise the same errors."""

    def get_directly(self, table: str, key: bytes, at: int) -> Cell | None:
        """Newest version with ts ≤ `at` of a key; None if absent or a tombstone."""

    def scan_directly(
        self, table: str, start: bytes, end: bytes | None, at: int, *, reverse: bool, most: int
    ) -> list[bytes]:
        """The values of the first rows with start ≤ key < end as of `at`, in key order or its
        reverse: at most `most` of them, up to the row at which they reach BATCH_BYTES."""


class TableStore(TableReader, Protocol):
    """Sorted tables of versioned rows, one cell per row. Timestamps are milliseconds.

    Precondition: within one table no row key is a proper prefix of another (the key encoding
    guarantees it). All but `create_table`, `drop_table` and `tables` raise Corruption for a table
    that does not exist: the catalog says it does. A closed store raises Unavailable.
    """

    @property
    def direct(self) -> DirectReader | None:
        """The direct reads; None if every read may wait."""

    async def create_table(self, table: str, splits: Sequence[bytes] = ()) -> None:
        """Create if absent. Idempotent. A store that divides its tables divides a new one at the
        keys `splits`, so that a client that fills it writes to all parts at once."""

    async def drop_table(self, table: str) -> None:
        """Remove with all content. Idempotent."""

    async def tables(self) -> list[str]:
        """Names of all tables, sorted."""

    async def put(
        self, writes: Mapping[str, Sequence[Put]], ts: int, *, forced: bool = False
    ) -> None:
        """Write all with timestamp `ts`. Atomic per row, not across rows; idempotent.

        Of several versions of a row with one `ts` the last written stays.
        Every read that begins after the return observes the put. It survives a crash of the
        process at once. It survives a crash of the machine after `flush`, or at once if it is
        `forced`.
        """

    async def check_and_put(
        self, table: str, key: bytes, expected: bytes | None, value: bytes, ts: int
    ) -> bool:
        """Write if the newest value equals `expected` (None: absent or a tombstone). Atomic.

        The version is `ts`, or a later one if the newest version is not older than `ts`: the
        written version always hides the compared one. A `value` TOMBSTONE deletes the row.
        """

    async def flush(self) -> None:
        """On return every earlier put survives a crash of the machine."""

    async def purge(self, table: str, horizon: int) -> int:
        """Drop versions that no snapshot ≥ `horizon` can read, tombstones included; returns how
        many.

        Precondition: no put with ts ≤ `horizon` takes place any more.
        """

    async def size(self, table: str) -> int:
        """Bytes of keys and values of all versions, roughly, before compression."""

    async def splits(self, table: str) -> list[bytes]:
        """Keys at which a scan of the table may be cut into concurrent scans, in order, without
        duplicates. They follow the present layout of the store; empty for a small table."""

    async def close(self) -> None:
        """Flush and release. Idempotent."""


Payload = bytes | Sequence[bytes]
"""The payload of a frame, or its consecutive pieces."""


class Position(NamedTuple):
    """A position in a slave's log at which a record begins or ends; ordered."""

    epoch: int
    sequence: int
    offset: int


START = Position(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of the log. The timestamps of its records are known only to a reader of it."""

    epoch: int
    sequence: int
    sealed: bool
    bytes: int


class Log(Protocol):
    """One slave's write-ahead log: checksummed frames in rolled segments."""

    async def append(self, payloads: Sequence[Payload]) -> Position:
        """Append all frames in order; on return they survive a crash of the machine.

        Returns the position just after them. Callers are serialized in call order. After
        Unavailable, or when the caller is cancelled, the frames may or may not be there; the log
        refuses further appends until it is reopened under a new epoch. After NoRoom (a DiskFull,
        `storage/log/files.py`) none of them is there, and the log may be appended to later.
        """

    def read(self, start: Position) -> AsyncIterator[tuple[Position, bytes]]:
        """Durable records from `start` on, with the position just after each.

        Drops (and counts) a torn tail of an epoch's last segment, if that segment is unsealed.
        Raises Corruption with the position when damage lies before a whole later append or in a
        sealed segment, or when a segment is missing, also the segment of `start`. START reads from
        the first segment that has not been dropped. The reader gets all frames of a concurrent
        append, or none.
        """

    async def roll(self) -> Position:
        """Seal the open segment, if there is one. Returns the position at which the next segment
        will begin. Every earlier segment is sealed or belongs to an earlier epoch, and no process
        appends to it any more."""

    async def segments(self) -> list[Segment]:
        """All segments, in order."""

    async def drop_before(self, position: Position) -> int:
        """Delete all segments before the segment of `position`, but never the open one; returns
        how many. The segment of `position` stays, so that a reader from there on notices a missing
        segment."""

    async def close(self) -> None:
        """Seal and release. Idempotent."""


class LogReader(Protocol):
    """Reads the logs of a database from outside, to follow committed transactions. Reading takes
    over no log, and the owner of a log does not notice it."""

    async def segments(self, name: str) -> list[tuple[int, int]]:
        """Epoch and sequence of each segment of the log `name`, in order; empty if there is no
        such log."""

    async def read(self, name: str, epoch: int, sequence: int) -> bytes | None:
        """All bytes of a segment, if no process appends to it any more; else perhaps only the
        first part. None if the segment has been dropped. Raises Unavailable."""

    async def close(self) -> None:
        """Release the logs. Idempotent."""


class Logs(LogReader, Protocol):
    """All logs of a database, for clean-up. `Log` is one of them, for its owner."""

    async def touched(self) -> Mapping[str, int]:
        """For each log the time when it was founded or last taken over, in milliseconds since
        1970."""

    async def remove(self, name: str) -> None:
        """Delete the log `name` with all its segments, all or nothing. Idempotent.

        The former owner cannot write to the log any more: a late write finds no log and creates
        none. A process that opens the name again founds another log.
        """


class Clock(Protocol):
    """Wall time, monotonic time and waiting."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970. May jump."""

    def monotonic(self) -> float:
        """Seconds; never goes back."""

    async def sleep(self, seconds: float) -> None: ...


class Ids(Protocol):
    """Fresh identifiers."""

    def new(self) -> str:
        """32 hexadecimal digits, never returned before."""


class Versioned(NamedTuple):
    """A coordination value; `version` counts its writes from 1."""

    value: bytes
    version: int


class Coordination(Protocol):
    """Small shared state with compare-and-set, and membership, as ZooKeeper provides them."""

    async def read(self, path: str) -> Versioned | None: ...

    async def write(self, path: str, value: bytes, expected: int) -> int:
        """Write if the current version is `expected` (0: absent); returns the new version.

        Raises StalePlan when the current version is another one.
        """

    async def join(self, member: str, data: bytes = b"") -> None:
        """Appear in `members` with `data` until `leave`, `close` or the end of the process.

        A second call replaces the data.
        """

    async def leave(self, member: str) -> None: ...

    async def members(self) -> dict[str, bytes]:
        """All members with their data, sorted by name.

        The data of a member is as new as the call, or newer; the data of two members need not be
        of the same time. If several processes join under one name, the data is that of any of them.
        """

    @property
    def news(self) -> int:
        """A number that changes when anything changes that was read here before: a present value,
        or the members. It changes as soon as the service notifies this process, and also when a
        notification may be lost.

        A hint that saves requests: it may come late. A caller that must know asks the service, at
        least now and then.
        """

    def alive(self) -> bool:
        """True while it is certain that the service has reported to no process that this one is
        gone.

        Judged without a request, by the time since the last sign of the service. A process that
        continues after a stop longer than its session finds False.
        """

    async def close(self) -> None: ...


class Caller(NamedTuple):
    """The sender of a message: the member `name`, over its connection number `connection`."""

    name: str
    connection: int


MESSAGE_BYTES = 16 * 1024 * 1024
"""No message and no answer between members is longer."""

Answer = Callable[[Caller, bytes], Awaitable[bytes]]
"""Handles one message of a member and returns the answer to it."""


class Link(Protocol):
    """One connection to a member, from the side that asks."""

    def ask(self, message: bytes) -> asyncio.Future[bytes]:
        """Send `message` now, after all earlier messages; returns a future of the answer.

        The future fails with Unavailable when the connection is broken, or breaks before the answer
        arrives: it is then unknown whether the message was handled. Cancelling the future only
        stops the wait. Raises only LimitExceeded, for a message longer than MESSAGE_BYTES.
        """

    @property
    def broken(self) -> bool:
        """True once the connection is broken. A broken link never recovers: it sends no message
        and receives no answer."""

    async def close(self) -> None:
        """Break the connection: messages without an answer fail. Idempotent."""


class Peers(Protocol):
    """Messages between members. Every member asks and answers.

    Messages of one connection are *begun*, that is, `answer` runs up to its first suspension, in
    the order in which they were sent, without gaps, and once at most. Answers come in any order.
    After a connection broke at the receiver, none of its messages is begun. For each name, the
    receiver serves only the connection with the highest number. When it accepts a connection, it
    cuts the earlier ones and begins none of their messages any more. It refuses a number that is
    not higher. So a member that numbers its connections in order knows that no message of an
    earlier connection is begun after one of a later connection.
    """

    async def listen(self, answer: Answer) -> str:
        """Accept connections of other members from now on; returns the address (host:port) at
        which they reach this process. Called once at most.

        When `answer` raises, the connection breaks: for the other side the outcome is unknown.
        A call of `answer` that runs when its connection breaks is not cancelled.
        """

    async def connect(self, name: str, address: str, number: int) -> Link:
        """Connect to the member at `address` under the name `name`, as connection `number`. Raises
        Unavailable when no member listens there, or when it refuses this caller.
        """

    async def close(self) -> None:
        """Stop listening and break all connections, incoming and outgoing. Idempotent."""
