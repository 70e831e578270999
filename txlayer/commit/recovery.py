"""Recovery puts the committed batches of the log into the store again, byte for byte.

All batches before the last checkpoint are in the store already. Each later batch is put with its
own timestamp and bytes, so a row that is there already is replaced by itself. Recovery decides
nothing else, so after a crash it simply begins again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import cast

import structlog

from hornbeam_server.storage.log.records import (
    Batch,
    CellBatch,
    Checkpoint,
    Record,
    commits,
    decode,
    encode,
    merged_writes,
)
from hornbeam_server.storage.ports import START, Log, Position, Segment, TableStore
from hornbeam_server.storage.tables import create_tables
from hornbeam_server.txlayer.commit.failpoints import Step, Steps, no_steps
from hornbeam_server.txlayer.commit.log_end import LostEnd, known_end

_LOG = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Recovered:
    """The result of a recovery. `last_ts` is the highest timestamp that may have been given out;
    the clock starts there. All batches before `position` are applied and durable. `replayed` counts
    transactions. `lost` is set if the log ends before its known end (txlayer/commit/log_end.py)."""

    last_ts: int
    position: Position
    replayed: int
    lost: LostEnd | None = None


async def recover(
    store: TableStore, log: Log, *, log_name: str = "", steps: Steps = no_steps
) -> Recovered:
    """Apply to the store all batches of the log after its last checkpoint. No other process may
    write to either meanwhile. `log_name` is the name of the log in the store's notes of logs' ends;
    empty: no notes.

    Raises Corruption with the position when the log is damaged after the last checkpoint, and
    Unavailable when the store or the log cannot be reached; the call may then be repeated.
    """
    begin = await last_checkpoint(log) or Checkpoint(START, 0, 0)
    replay = _Replay(store, begin, steps)
    async with aclosing(records(log, begin.applied_upto)) as following:
        async for position, record in following:
            await replay.take(position, record)
    steps(Step.REPLAYED)
    known = await known_end(store, log_name) if log_name else None
    last_ts, lost = replay.last_ts, None
    if known is not None:
        last_ts = max(last_ts, known[1])
        if known[0] > replay.position:
            lost = LostEnd(log_name, replay.position, known[0])
            _LOG.error("the end of the log is missing; commits may be lost", **lost.document())
    await store.flush()
    # Unconditionally: the log keeps its last checkpoint, with the clock, when all else is dropped.
    done = Checkpoint(replay.position, last_ts, replay.catalog_version)
    await log.append([encode(done)])
    _LOG.info("recovered", transactions=replay.replayed, last_ts=last_ts)
    steps(Step.RECOVERED)
    return Recovered(last_ts, replay.position, replay.replayed, lost)


async def last_checkpoint(log: Log) -> Checkpoint | None:
    """The newest checkpoint in the log, searched from its end; None: the whole log is to be
    replayed.

    Earlier segments are not read: their batches are durable in the store, so damage is harmless.
    """
    for segment in reversed(await log.segments()):
        found = None
        async with aclosing(segment_records(log, segment)) as inside:
            async for _, record in inside:
                if isinstance(record, Checkpoint):
                    found = record
        if found is not None:
            return found
    return None


async def segment_records(
    log: Log, segment: Segment
) -> AsyncGenerator[tuple[Position, Record], None]:
    """The decoded records of one segment, each with the position after it. Raises Corruption."""
    here = (segment.epoch, segment.sequence)
    async with aclosing(records(log, Position(*here, 0))) as following:
        async for position, record in following:
            if position[:2] > here:
                return
            yield position, record


async def records(log: Log, start: Position) -> AsyncGenerator[tuple[Position, Record], None]:
    """The decoded records from `start` on, each with the position after it. Raises Corruption."""
    reading: AsyncIterator[tuple[Position, bytes]] = log.read(start)
    async with aclosing(cast(AsyncGenerator[tuple[Position, bytes], None], reading)):
        async for position, payload in reading:
            yield position, decode(payload)


class _Replay:
    """The state of one recovery."""

    def __init__(self, store: TableStore, begin: Checkpoint, steps: Steps) -> None:
        self._store = store
        self._steps = steps
        self._tables: set[str] = set()
        self.last_ts = begin.hlc
        self.position = begin.applied_upto
        self.catalog_version = begin.catalog_version
        self.replayed = 0

    async def take(self, position: Position, record: Record) -> None:
        match record:
            case Batch():
                await self._put_again(record)
            case Checkpoint():
                self.last_ts = max(self.last_ts, record.hlc)
        self.position = position

    async def _put_again(self, batch: Batch) -> None:
        self._steps(Step.REPLAYING)
        members = commits(batch)
        cells = batch.cells if isinstance(batch, CellBatch) else {}
        writes = merged_writes([*(commit.writes for commit in members), cells])
        await self._create_missing(set(writes))
        await self._store.put(writes, batch.ts)
        self.last_ts = max(self.last_ts, batch.ts)
        versions = [commit.catalog_version for commit in members]
        self.catalog_version = max(self.catalog_version, *versions)
        self.replayed += len(members)

    async def _create_missing(self, tables: set[str]) -> None:
        """Create missing tables: a table may have been dropped after the batch. A table that is not
        in the catalog is dropped again later, and nothing is lost by that."""
        await create_tables(self._store, sorted(tables - self._tables))
        self._tables |= tables
