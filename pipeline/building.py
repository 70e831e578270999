"""What an executor does of a build: the rows of views and indexes for a range of keys, for a while.

A range is a range of keys of the relation that is scanned (`maintain.recompute.scanned_relation`):
each of its rows makes at most one row of a view, and at most one of each index, and the key of that
holds the key of this. So every row that is built belongs to exactly one range.

**Why each range may be built as of a snapshot of its own**, later than that of the ranges before:
let the view have been in the catalog since the timestamp S, let a range be built as of T ≥ S, with
timestamp T, and let C be any timestamp from the moment on when all ranges are finished. What a
reader at C finds under a key K of the range is right:

1. Every commit above S keeps the view itself (`State.BUILDING`): it writes, with its own timestamp,
   each row that it changes, and a tombstone for each that goes.
2. If commits above T and at or below C have changed K's row, the last of them wrote the newest cell
   at or below C, which is the row as of C.
3. If none has, K's row as of C is that as of T. If there is one, the build has put it at T. Cells
   of commits between S and T are older, or at T the same. If there is none as of T, the build has
   put nothing, and either a commit in (S, T] removed it, and left a tombstone as the newest cell,
   or there was none at S either and the table, which was new then, has no cell of it.

Nothing there depends on other ranges, on how often a range is built, or at how many snapshots: what
a build that was cut short, or done twice, has put at T' is true as of T', so 2 and 3 hold with the
largest of them, and what was put at the others is older. Nor does a schema change disturb it, as
long as the table stays the view's: then all of it is kept as before (`viewselect.plan` gives a new
table to what is not). Puts that arrive late are the business of `pipeline.sink`.

A snapshot lies at or above S when the catalog that came with it says that the table is being built:
a node reads no snapshot under a catalog that is younger (`Database.export`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field

from hornbeam.errors import Error
from maintain.recompute import BuiltBatch, build_batches, scanned_relation
from pipeline.export import Export
from pipeline.sink import Sink, Writes, open_sink
from schema.collector import settle_collector
from schema.errors import HornbeamError
from schema.types import Row
from storage.codec.keys import successor
from storage.codec.rows import Codecs, LayoutCodec
from storage.ports import Cell, Put, TableStore
from storage.snapshot import RememberingSnapshot

REMEMBERED = 50_000
"""Rows whose parents, at each level, are kept at most: neighbours often have the same."""


@dataclass(frozen=True, slots=True)
class Task:
    """Build `names`, which show one source, for keys from `start` to before `end` (None: to the
    last), for `seconds` at most, reading at most `rows_per_s`. `url` is that of a node."""

    export: Export
    url: str = field(repr=False)  # it may hold a key
    names: tuple[str, ...]
    start: bytes
    end: bytes | None
    seconds: float
    rows_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """All rows for keys from the task's start to before `end` are stored, and on disk: so many by
    table, of `scanned` rows."""

    end: bytes | None
    rows: dict[str, int]
    scanned: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The task can be done again."""

    message: str


def attempt(task: Task) -> Done | Failed:
    """In an executor, whose exceptions would come back as pages of text."""
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
    # No more than may be read in that time: a rate is kept across tasks, too.
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
                # No key begins with another, so this is just behind the last.
                end = successor(batch.last)
                break
    task.export.require_kept()
    await sink.flush()
    return Done(end, rows, scanned)


async def pause(seconds: float) -> None:
    """Tests know how long without waiting."""
    await asyncio.sleep(max(seconds, 0))


async def _decoded(
    codec: LayoutCodec, cells: AsyncIterator[list[Cell]]
) -> AsyncGenerator[list[Row], None]:
    async for batch in cells:
        yield codec.decode_all([cell.value for cell in batch])


def stored(codecs: Codecs, batch: BuiltBatch) -> Writes:
    """What stores the rows of a batch."""
    return {
        codec.layout.table: [Put(key, codec.encode(row)) for key, row in rows]
        for codec, rows in ((codecs(name), rows) for name, rows in batch.rows.items())
    }
