"""The executor's part of a build: compute the rows of views and indexes for a range of keys, within
a time limit.

A range is a range of keys of the scanned relation (`maintain.recompute.scanned_relation`). Each row
of that relation gives at most one row of a view, and at most one of each index, whose key contains
the key of the scanned row. So every built row belongs to exactly one range.

**Why each range may be built as of its own snapshot**, later than that of the ranges before: let
the view be in the catalog since the timestamp S. Let a range be built as of T ≥ S, with timestamp
T. Let C be any timestamp after all ranges are finished. Then a reader at C finds the right row
under a key K of the range:

1. Every commit above S maintains the view itself (`State.BUILDING`): with its own timestamp, it
   writes each row that it changes, and a tombstone for each row that it removes.
2. If commits above T and at or below C have changed K's row, the last of them wrote the newest cell
   at or below C, which is the row as of C.
3. If no such commit exists, K's row as of C is that as of T. If there is a row as of T, the build
   has put it at T. Cells of commits between S and T are older, or at T the same. If there is no row
   as of T, the build has put nothing. Then either a commit in (S, T] removed the row and left a
   tombstone as the newest cell; or there was no row at S either, and the table, which was new then,
   has no cell of K.

The proof does not depend on other ranges, on the number of times a range is built, or on the number
of snapshots. An interrupted or repeated build puts at each T' rows that are correct as of T'. So 2
and 3 hold with the largest T', and the rows put at the others are older. A schema change does not
break the proof either, as long as the view keeps its table: then commits maintain it as before
(`viewselect.plan` gives a new table to any view that changes). `pipeline.spark.sink` treats late
puts.

A snapshot lies at or above S when the catalog that came with it has the table as being built: a
node reads no snapshot under a catalog that is newer than the snapshot (`Database.export`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field

from hornbeam.errors import Error
from hornbeam_server.maintain.recompute import BuiltBatch, build_batches, scanned_relation
from hornbeam_server.pipeline.spark.export import Export
from hornbeam_server.pipeline.spark.sink import Sink, Writes, open_sink
from hornbeam_server.schema.collector import settle_collector
from hornbeam_server.schema.errors import HornbeamError
from hornbeam_server.schema.types import Row
from hornbeam_server.storage.codec.keys import successor
from hornbeam_server.storage.codec.rows import Codecs, LayoutCodec
from hornbeam_server.storage.ports import Cell, Put, TableStore
from hornbeam_server.storage.snapshot import RememberingSnapshot

REMEMBERED = 50_000
"""Scanned rows after which the cache of parent rows is emptied. Neighbouring rows often have the
same parents."""


@dataclass(frozen=True, slots=True)
class Task:
    """Build `names`, which have one source, for keys from `start` to before `end` (None: to the
    last), for at most `seconds`, reading at most `rows_per_s`. `url` is that of a node."""

    export: Export
    url: str = field(repr=False)  # it may hold a key
    names: tuple[str, ...]
    start: bytes
    end: bytes | None
    seconds: float
    rows_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """All rows for keys from the task's start to before `end` are stored durably. `rows` is their
    number by table, `scanned` that of the scanned rows."""

    end: bytes | None
    rows: dict[str, int]
    scanned: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The task has failed, and can be retried."""

    message: str


def attempt(task: Task) -> Done | Failed:
    """Run a task in an executor. Errors are returned, since Spark would return exceptions as pages
    of text."""
    settle_collector()
    try:
        return asyncio.run(_build(task))
    except (HornbeamError, Error) as error:
        return Failed(str(error))


async def _build(task: Task) -> Done:
    store = task.export.open()
    try:
        sink = open_sink(task.export, task.url)
        try:
            return await _built(task, store, sink)
        finally:
            await sink.close()
    finally:
        await store.close()


async def _built(task: Task, store: TableStore, sink: Sink) -> Done:
    codecs, at = task.export.codecs(), task.export.snapshot
    codec = codecs(scanned_relation(codecs.catalog, task.names[0]))
    # The limit is what the rate allows in the task's time, so the rate also holds across tasks.
    rate = task.rows_per_s
    limit = None if rate is None else max(int(rate * task.seconds), 1)
    cells = store.scan(codec.layout.table, task.start, task.end, at, limit=limit)
    reader = RememberingSnapshot(store, codecs, at)
    rows = dict.fromkeys((codecs(name).layout.table for name in task.names), 0)
    scanned, remembered, end, began = 0, 0, task.end, time.monotonic()
    async with aclosing(_decoded(codec, cells)) as batches:
        async for batch in build_batches(codecs.catalog, codecs, task.names, reader, batches):
            writes = stored(codecs, batch)
            await sink.put(writes, at)
            scanned += batch.scanned
            if scanned - remembered > REMEMBERED:
                reader.forget()
                remembered = scanned
            for table, puts in writes.items():
                rows[table] += len(puts)
            if rate is not None:
                await pause(scanned / rate - (time.monotonic() - began))
            if scanned == limit or time.monotonic() - began > task.seconds:
                # No key is a prefix of another, so this is the first key after the last row.
                end = successor(batch.last)
                break
    task.export.require_kept()
    await sink.flush()
    return Done(end, rows, scanned)


async def pause(seconds: float) -> None:
    """Sleep. A function of its own, so that tests can replace it."""
    await asyncio.sleep(max(seconds, 0))


async def _decoded(
    codec: LayoutCodec, cells: AsyncIterator[list[Cell]]
) -> AsyncGenerator[list[Row], None]:
    async for batch in cells:
        yield codec.decode_all([cell.value for cell in batch])


def stored(codecs: Codecs, batch: BuiltBatch) -> Writes:
    """The puts, by table, that store the rows of a batch."""
    return {
        codec.layout.table: [Put(key, codec.encode(row)) for key, row in rows]
        for codec, rows in ((codecs(name), rows) for name, rows in batch.rows.items())
    }
