"""A world for the write path: store, log and clock in memory, with faults on demand.

Fault model. The store keeps what was put after the last flush in the memory of the *machine*: a
crash of the process keeps it, a crash of the machine keeps an arbitrary part. A put may fail
before, after, or half way through its rows. The log keeps whole appends that returned; of an append
that was under way when the machine stopped, it keeps any prefix of the frames. Time passes only in
sleeps.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hornbeam_server.maintain.changes import Change, Mutation
from hornbeam_server.schema.catalog import Layout
from hornbeam_server.schema.errors import StalePlan, Unavailable
from hornbeam_server.schema.model import Column, KeyPart
from hornbeam_server.schema.types import ColumnType, Kind, Row
from hornbeam_server.storage.log.files import NoRoom
from hornbeam_server.storage.ports import (
    TOMBSTONE,
    Cell,
    Payload,
    Position,
    Put,
    Segment,
    Versioned,
)
from hornbeam_server.txlayer.cluster.low_water_mark import LowWater
from hornbeam_server.txlayer.commit.batches import Prepared
from hornbeam_server.txlayer.commit.committer import Committer
from hornbeam_server.txlayer.commit.encoding import encoded as encode_transaction
from hornbeam_server.txlayer.commit.hlc import HybridClock

Cells = dict[str, dict[tuple[bytes, int], bytes]]
TABLE = "r.t.0"
T = TypeVar("T")


class VirtualClock:
    """A clock that moves by sleeps and takes no real time."""

    def __init__(self, wall_ms: int = 1_000_000) -> None:
        self.base_ms = wall_ms
        self.now = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._number = 0

    def wall_ms(self) -> int:
        return self.base_ms + int(self.now * 1000)

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self._number += 1
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.now + seconds, self._number, woken))
        await woken

    async def advance(self, seconds: float) -> None:
        """Let time pass; sleepers wake in order and run."""
        end = self.now + seconds
        await settle()
        while due := [s for s in self._sleepers if s[0] <= end and not s[2].done()]:
            first = min(due)
            self._sleepers.remove(first)
            self.now = max(self.now, first[0])
            first[2].set_result(None)
            await settle()
        self.now = end
        self._sleepers = [s for s in self._sleepers if not s[2].done()]


async def settle() -> None:
    """Let every task run as far as it can without time passing."""
    for _ in range(30):
        await asyncio.sleep(0)


class MemoryStore:
    """The part of a TableStore that the write path uses. It calls `fault` before each put."""

    remote = False

    def __init__(self, cells: Cells | None = None) -> None:
        self.cells: Cells = cells if cells is not None else {}
        self.durable: Cells = {table: dict(rows) for table, rows in self.cells.items()}
        self.puts = 0
        self.fault: Callable[[int], None] = lambda _: None
        self.flush_fault: Callable[[], None] = lambda: None
        self.order: list[int] = []

    async def create_table(self, table: str, splits: Sequence[bytes] = ()) -> None:
        del splits
        self.cells.setdefault(table, {})

    async def put(self, writes: Mapping[str, Sequence[Put]], ts: int) -> None:
        self.puts += 1
        await asyncio.sleep(0)
        self.fault(ts)
        for table, puts in writes.items():
            for put in puts:
                self.cells.setdefault(table, {})[put.key, ts] = put.value
        self.order.append(ts)

    async def get(
        self, table: str, keys: Sequence[bytes], at: int, *, room: int | None = None
    ) -> list[Cell | None]:
        del room
        return [self._newest(table, key, at) for key in keys]

    def _newest(self, table: str, key: bytes, at: int) -> Cell | None:
        versions = [(ts, v) for (k, ts), v in self.cells.get(table, {}).items() if k == key]
        ts, value = max(((ts, v) for ts, v in versions if ts <= at), default=(0, TOMBSTONE))
        return Cell(key, ts, value) if value != TOMBSTONE else None

    async def flush(self) -> None:
        self.flush_fault()
        self.durable = {table: dict(rows) for table, rows in self.cells.items()}

    def after_crash(self, rng: random.Random | None) -> MemoryStore:
        """The store that a new process finds: everything, or (`rng`) what the machine's crash
        left."""
        if rng is None:
            return MemoryStore({table: dict(rows) for table, rows in self.cells.items()})
        kept: Cells = {table: dict(rows) for table, rows in self.durable.items()}
        for table, rows in self.cells.items():
            for place, value in rows.items():
                if rng.random() < 0.5:
                    kept.setdefault(table, {})[place] = value
        return MemoryStore(kept)


@dataclass
class _Segment:
    epoch: int
    sequence: int
    frames: list[bytes] = field(default_factory=list)
    sealed: bool = False


class MemoryLog:
    """A Log whose offsets count frames. It calls `fault` with each append's payloads."""

    def __init__(self, epoch: int = 1, segments: list[_Segment] | None = None) -> None:
        self.all = segments or []
        for segment in self.all:
            segment.sealed = True
        self.all.append(_Segment(epoch, 1))
        self.appends: list[int] = []
        self.broken = False
        self.fault: Callable[[Sequence[bytes]], None] = lambda _: None

    @property
    def _open(self) -> _Segment:
        return self.all[-1]

    async def append(self, payloads: Sequence[Payload]) -> Position:
        if self.broken:
            raise Unavailable("The log is broken.")
        payloads = [b"".join([p] if isinstance(p, bytes) else p) for p in payloads]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        try:
            self.fault(payloads)
        except NoRoom:
            raise
        except Unavailable:
            self.broken = True
            raise
        self._open.frames.extend(payloads)
        self.appends.append(len(payloads))
        return Position(self._open.epoch, self._open.sequence, len(self._open.frames))

    async def read(self, start: Position) -> AsyncIterator[tuple[Position, bytes]]:
        for segment in self.all:
            for number, frame in enumerate(segment.frames, start=1):
                position = Position(segment.epoch, segment.sequence, number)
                if position > start:
                    yield position, frame

    async def roll(self) -> Position:
        self._open.sealed = True
        self.all.append(_Segment(self._open.epoch, self._open.sequence + 1))
        return Position(self._open.epoch, self._open.sequence, 0)

    async def segments(self) -> list[Segment]:
        return [Segment(s.epoch, s.sequence, s.sealed, len(s.frames)) for s in self.all]

    async def drop_before(self, position: Position) -> int:
        gone = [
            s
            for s in self.all
            if s.sealed and Position(s.epoch, s.sequence, len(s.frames)) <= position
        ]
        self.all = [s for s in self.all if s not in gone]
        return len(gone)

    def after_crash(self, epoch: int) -> MemoryLog:
        copies = [_Segment(s.epoch, s.sequence, list(s.frames)) for s in self.all]
        return MemoryLog(epoch, copies)


class Values:
    """The compare-and-set values of a coordination service."""

    def __init__(self) -> None:
        self._values: dict[str, Versioned] = {}

    async def read(self, path: str) -> Versioned | None:
        return self._values.get(path)

    async def write(self, path: str, value: bytes, expected: int) -> int:
        known = self._values.get(path)
        if expected != (known.version if known is not None else 0):
            raise StalePlan("It was written meanwhile.")
        self._values[path] = Versioned(value, expected + 1)
        return expected + 1


class TextCodec:
    """A codec for rows of one text, encoded as the text."""

    layout = Layout("t", TABLE, (Column("k", ColumnType(Kind.TEXT)),), (KeyPart("k"),), "t")

    def __init__(self, encoded: Counter[Row]) -> None:
        self._encoded = encoded

    def encode(self, row: Row) -> bytes:
        self._encoded[row] += 1
        return str(row[0]).encode()


def _tasks() -> set[asyncio.Task[Any]]:
    try:
        return asyncio.all_tasks()
    except RuntimeError:  # no loop runs yet
        return set()


class World:
    """One node's write path over the store and log of a machine that may crash."""

    def __init__(
        self,
        store: MemoryStore | None = None,
        log: MemoryLog | None = None,
        *,
        clock: VirtualClock | None = None,
        steps: Callable[[str], None] = lambda _: None,
        last_ts: int = 0,
        alive: Callable[[], bool] = lambda: True,
        max_waiting: int = 10_000,
    ) -> None:
        self.older_tasks = _tasks()
        self.store = store or MemoryStore()
        self.log = log or MemoryLog()
        self.clock = clock or VirtualClock()
        self.hlc = HybridClock(self.clock, last_ts)
        self.values = Values()
        self.low_water = LowWater(self.values)  # type: ignore[arg-type]
        self.committer = Committer(
            store=self.store,  # type: ignore[arg-type]
            log=self.log,  # type: ignore[arg-type]
            clock=self.clock,
            hlc=self.hlc,
            reserved=last_ts,
            alive=alive,
            steps=steps,
            max_waiting=max_waiting,
        )


def prepared(
    number: int, keys: Sequence[str], *, not_before: int = 0, encoded: Counter[Row] | None = None
) -> Prepared:
    """A transaction that inserts, under each of `keys`, a row that holds its number; `encoded`
    counts how often each row is encoded."""
    codec = TextCodec(Counter() if encoded is None else encoded)
    rows: list[Row] = [(f"{key}={number}",) for key in keys]
    return at_once(
        encode_transaction(
            transaction_id=f"{number:032x}",
            catalog_version=7,
            mutations=[Mutation("t", k.encode(), None, r) for k, r in zip(keys, rows, strict=True)],
            changes=[Change("t", None, row) for row in rows],
            extra_puts={"s.transactions": [Put(number.to_bytes(16), b"done")]},
            codecs=lambda _name: codec,  # type: ignore[arg-type,return-value]
            not_before=not_before,
        )
    )


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Run `work`, which must not wait, and return its result."""
    try:
        work.send(None)
    except StopIteration as ended:
        value: T = ended.value
        return value
    raise AssertionError("It waits.")
