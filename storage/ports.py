"""The ports: all that the rest of Hornbeam may ask of the world outside the process.

Every adapter (RocksDB, local files, simulated, HBase, HDFS, ZooKeeper) passes the contract suite
of its port in `tests/contract/`. All methods are called from one event loop; an adapter that
blocks for longer than some microseconds does so in its own threads.

Errors: `Unavailable` when the outcome is unknown or the service cannot be reached (puts are
idempotent, so the caller repeats them), `DiskFull`, `Corruption`. Nothing else escapes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

TOMBSTONE = b""
"""The value of a deleted row. Store deletes are never used on live data: a delete marker would
hide older versions from the snapshots that still need them."""

BATCH_BYTES = 1 << 20
"""A batch of rows ends with the row with which its values reach so many bytes: a row may be large,
and a thousand of them must not be in memory at one time."""

NEWEST = (1 << 63) - 1
"""Read timestamp that sees every version."""


class Cell(NamedTuple):
    """One version of one row."""

    key: bytes
    ts: int
    value: bytes


class Put(NamedTuple):
    """One row to write; `value` TOMBSTONE deletes."""

    key: bytes
    value: bytes


class TableStore(Protocol):
    """Sorted tables of versioned rows, one cell per row. Timestamps are milliseconds.

    Precondition: within one table no row key is a proper prefix of another (our key encoding
    guarantees it). All but `create_table`, `drop_table` and `tables` raise Corruption for a table
    that does not exist: the catalog says it does. A closed store raises Unavailable.
    """

    @property
    def remote(self) -> bool:
        """Does each read wait for another machine? Then who needs several asks for all at once."""

    async def create_table(self, table: str, splits: Sequence[bytes] = ()) -> None:
        """Create if absent. Idempotent. Where a store divides its tables, a new one is divided at
        the keys `splits`: who fills it writes to all parts at once."""

    async def drop_table(self, table: str) -> None:
        """Remove with all content. Idempotent."""

    async def tables(self) -> list[str]:
        """Names of all tables, sorted."""

    def get(
        self, table: str, keys: Sequence[bytes], at: int, *, room: int | None = None
    ) -> Awaitable[list[Cell | None]]:
        """Newest version with ts ≤ `at` of each key, in order; None if absent or a tombstone.

        With `room` the answer is about the first keys only, at least one: it ends at the latest
        with the row with which the values reach so many bytes.

        A remote store asks at once, whether or not it is awaited yet.
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
        the row with which their values reach BATCH_BYTES.
        """

    async def scan_prefixes(
        self, table: str, prefixes: Sequence[bytes], at: int, *, room: int | None = None
    ) -> list[list[Cell]]:
        """For each prefix all rows that start with it, in key order. For short ranges.

        With `room` the answer is about the first prefixes only, whose values have at most so many
        bytes in all; about none if the first prefix has more: that one is for `scan`.
        """

    async def put(self, writes: Mapping[str, Sequence[Put]], ts: int) -> None:
        """Write all with timestamp `ts`. Atomic per row, not across rows; idempotent.

        Of several versions of a row with one `ts` the last written stays.
        On return every later read sees it. Survives a crash of the process; survives a crash of
        the machine only after `flush`.
        """

    async def check_and_put(
        self, table: str, key: bytes, expected: bytes | None, value: bytes, ts: int
    ) -> bool:
        """Write if the newest value equals `expected` (None: absent or a tombstone). Atomic.

        The version is `ts`, or later than the newest version if that is not older: what was
        compared is always hidden by what is written. A tombstone deletes.
        """

    async def flush(self) -> None:
        """On return everything put before survives a crash of the machine."""

    async def purge(self, table: str, horizon: int) -> int:
        """Drop versions no snapshot ≥ `horizon` can see, tombstones included; returns how many.

        Precondition: nothing is put with ts ≤ `horizon` any more.
        """

    async def size(self, table: str) -> int:
        """Bytes of keys and values of all versions, roughly, before compression."""

    async def splits(self, table: str) -> list[bytes]:
        """Keys at which a scan of the table may be cut into scans that go on side by side, in
        order, each once. As the store has it laid out now; none for a small table."""

    async def close(self) -> None:
        """Flush and release. Idempotent."""


class Position(NamedTuple):
    """Where a record begins in a slave's log; ordered."""

    epoch: int
    sequence: int
    offset: int


START = Position(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of the log. `first_ts`/`last_ts` are not known to it; readers look inside."""

    epoch: int
    sequence: int
    sealed: bool
    bytes: int


class Log(Protocol):
    """One slave's write-ahead log: checksummed frames in rolled segments."""

    async def append(self, payloads: Sequence[bytes]) -> Position:
        """Append all frames in order; on return they survive a crash of the machine.

        Returns the position just after them. Callers are serialized in call order. After
        Unavailable, or when the caller is cancelled, the frames may or may not be there; the log
        refuses further appends until it is reopened under a new epoch. After NoRoom (a DiskFull,
        `storage/log/files.py`) none of them is there, and the log may be appended to later.
        """

    def read(self, start: Position) -> AsyncIterator[tuple[Position, bytes]]:
        """Durable records from `start` on, with the position just after each.

        Drops a torn tail of an epoch's last segment, if that is unsealed (and counts it); raises
        Corruption with the position when damage lies before a whole later append, in a sealed
        segment, or a segment is missing: the one of `start` too. START reads from the first that
        has not been dropped. Of the appends under way none or all of their frames are seen.
        """

    async def roll(self) -> Position:
        """Seal the open segment, if one is. Returns where the next will begin: whatever stands
        before is sealed, or of an epoch before, and nobody appends to it any more."""

    async def segments(self) -> list[Segment]:
        """In order."""

    async def drop_before(self, position: Position) -> int:
        """Delete all segments before the one that `position` is in, but never the open one;
        returns how many. Whoever reads from `position` on then notices if any is missing."""

    async def close(self) -> None:
        """Seal and release. Idempotent."""


class LogReader(Protocol):
    """Logs of a database from outside, for who follows what is committed: reading takes no log
    over, and its owner does not notice."""

    async def segments(self, name: str) -> list[tuple[int, int]]:
        """Epoch and sequence of each segment of a log, in order; none: there is no such log."""

    async def read(self, name: str, epoch: int, sequence: int) -> bytes | None:
        """All of a segment to which nobody appends any more (of others it may be a part); None:
        it has been dropped. Raises Unavailable."""

    async def close(self) -> None:
        """Idempotent."""


class Logs(LogReader, Protocol):
    """All logs of a database, for who clears up. `Log` is one of them, for its owner."""

    async def touched(self) -> Mapping[str, int]:
        """Their names; when each was founded or taken over last, in milliseconds since 1970."""

    async def remove(self, name: str) -> None:
        """With all that is in it, and at once or not at all. Idempotent.

        Whoever owned the log cannot write to it any more: what comes late finds no log, and makes
        none. Who opens it, founds another.
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
        """32 hexadecimal digits, never given before."""


class Versioned(NamedTuple):
    """A coordination value; `version` counts its writes from 1."""

    value: bytes
    version: int


class Coordination(Protocol):
    """Small shared state with compare-and-set, and membership. ZooKeeper's shape."""

    async def read(self, path: str) -> Versioned | None: ...

    async def write(self, path: str, value: bytes, expected: int) -> int:
        """Write if the current version is `expected` (0: absent); returns the new version.

        Raises StalePlan when it is not.
        """

    async def join(self, member: str, data: bytes = b"") -> None:
        """Appear in `members` with `data` until `leave`, `close` or the end of the process.

        Again: with other data.
        """

    async def leave(self, member: str) -> None: ...

    async def members(self) -> dict[str, bytes]:
        """Each with its data, sorted by name.

        Each one's data is what it was when it was asked for or later, not of one moment for all.
        Of one name that several processes show, it is that of any of them.
        """

    @property
    def news(self) -> int:
        """Another number once anything has changed that was read here before, a value that was
        there or the members, as soon as this process is told; also when it cannot know.

        A hint, to save questions: it may come late. Who has to know asks, now and then at least.
        """

    def alive(self) -> bool:
        """True as long as it is certain that nobody has been told that this process is gone.

        Judged without asking: by the time since the service was last heard of. A process that
        was stopped and goes on finds False.
        """

    async def close(self) -> None: ...


class Caller(NamedTuple):
    """Whose message it is: the connection of that number, of the member of that name."""

    name: str
    connection: int


MESSAGE_BYTES = 16 * 1024 * 1024
"""No message and no answer between members is longer."""

Answer = Callable[[Caller, bytes], Awaitable[bytes]]
"""Handles one message of a member and returns the answer to it."""


class Link(Protocol):
    """One connection to a member, from the side that asks."""

    def ask(self, message: bytes) -> asyncio.Future[bytes]:
        """Send now, behind all that was sent before; the future becomes the answer.

        It fails with Unavailable when the connection is broken, or breaks before the answer is
        here: whether the message was handled is then unknown. Whoever cancels it only stops
        waiting. Raises only LimitExceeded, for a message longer than MESSAGE_BYTES.
        """

    @property
    def broken(self) -> bool:
        """Is it over? Then it stays so: a broken link answers nothing and sends nothing more."""

    async def close(self) -> None:
        """Break it: what is not answered yet fails. Idempotent."""


class Peers(Protocol):
    """Messages between members, each of which asks and answers.

    Messages of one connection are *begun*, that is, `answer` runs up to its first suspension, in
    the order in which they were sent, without gaps, once at most. Answers come in any order.
    Nothing of a connection is begun after it broke at the receiver. Of each name the receiver
    listens only to the connection with the highest number: when it accepts one, the earlier are
    cut, and nothing of them is begun any more; a number that is not higher is refused. So whoever
    numbers its connections can rely on it that nothing from before comes after.
    """

    async def listen(self, answer: Answer) -> str:
        """From now on others reach this process, at the address returned (host:port). Once.

        When `answer` raises, the connection breaks: to the other side the outcome is unknown.
        What of it is under way when a connection breaks is not cancelled.
        """

    async def connect(self, name: str, address: str, number: int) -> Link:
        """A connection to the member at `address`, as `name`. Raises Unavailable: nobody listens
        there, or it refuses this caller.
        """

    async def close(self) -> None:
        """Listen no more, break every connection, both ways. Idempotent."""
