"""Recompute views whose refresh is `'recompute'`, in the driver of a batch.

The driver runs the whole SELECT as of the batch's end, and compares the result with the rows that
are stored as of the batch's beginning. It puts the rows that differ, and tombstones for those that
no longer exist. The whole result passes through the memory of this process.

**Idempotence.** Before the first put, the driver agrees with the node on the rows of the batch, by
their digest (`POST /v1/groups/…/results`). A driver that repeats the batch, since the first one has
died or seems dead, gets the same result from the same snapshot and puts the same rows. If a
nondeterministic SELECT gives another result, the node refuses its digest and nothing is put.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from hornbeam_server.maintain.deltas.program import DeltaProgram
from hornbeam_server.maintain.deltas.relations import has_spans
from hornbeam_server.pipeline.spark.export import Export
from hornbeam_server.pipeline.spark.sink import open_sink
from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.query.workers.control import Options
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.types import Row
from hornbeam_server.storage.codec.rows import Codecs, LayoutCodec
from hornbeam_server.storage.limits import require_storable
from hornbeam_server.storage.ports import TOMBSTONE, Put, TableStore
from hornbeam_server.storage.snapshot import Snapshot

MEMORY_MB = 1_024
PUT_ROWS = 5_000
Agree = Callable[[str], None]
"""Called with the digest of the rows. Raises DatabaseError when another digest was agreed on."""


async def recompute(
    export: Export,
    url: str,
    catalog: Catalog,
    program: DeltaProgram,
    as_of: int | None,
    agree: Agree,
) -> int:
    """Replace a view's rows by the result of its SELECT at the export's snapshot. Returns the
    number of rows put.

    `as_of`: the snapshot of the stored rows; None: no rows are stored. Views and indexes that are
    readable in `catalog` have been readable all the time since. Raises HornbeamError, and the
    client's errors.
    """
    codecs = Codecs(catalog)
    codec = codecs(program.name)
    store = export.open()
    try:
        rows = await _answer(program, catalog, Snapshot(store, codecs, export.snapshot))
        after = _stored(codec, program, rows)
        require_storable({codec.layout.table: [Put(*each) for each in after.items()]})
        await asyncio.to_thread(agree, _digest(after))
        before = {} if as_of is None else await _before(store, codec, as_of)
        puts = [Put(key, value) for key, value in after.items() if before.get(key) != value]
        puts += [Put(key, TOMBSTONE) for key in before if key not in after]
        sink = open_sink(export, url)
        try:
            for chunk in _chunks(iter(puts)):
                await sink.put({codec.layout.table: chunk}, export.snapshot)
            await sink.flush()
        finally:
            await sink.close()
        export.require_kept()
        return len(puts)
    finally:
        await store.close()


async def answered(export: Export, program: DeltaProgram) -> dict[bytes, bytes]:
    """The keys and values that should be stored for a view at the export's snapshot, computed from
    base relations only. Raises HornbeamError."""
    codecs = export.codecs()
    store = export.open()
    try:
        reader = Snapshot(store, codecs, export.snapshot)
        rows = await _answer(program, codecs.catalog, reader, use_views=False)
        export.require_kept()
        return _stored(codecs(program.name), program, rows)
    finally:
        await store.close()


async def _answer(
    program: DeltaProgram, catalog: Catalog, reader: Snapshot, *, use_views: bool = True
) -> list[Row]:
    """The rows of the SELECT, with the types of the view's columns."""
    with tempfile.TemporaryDirectory(prefix="hornbeam-recompute-") as spill:
        engine = QueryEngine(Options(memory_mb=MEMORY_MB, spill_folder=Path(spill)))
        try:
            query = engine.prepare(program.sql_at(reader.at), catalog, use_views=use_views)
            stream = await query.run(reader)
            found = await stream.all()
        finally:
            engine.close()
    coerce = [column.type.coerce for column in program.columns]
    return [tuple(to(value) for to, value in zip(coerce, row, strict=True)) for row in found]


def _stored(codec: LayoutCodec, program: DeltaProgram, rows: list[Row]) -> dict[bytes, bytes]:
    """Rows as keys and values. Equal rows are numbered from 1; equal intervals may have other
    parts, so these are numbered in the order of their bytes."""
    stored: dict[bytes, bytes] = {}
    counts: Counter[Row] = Counter()
    for row in _ordered(program, codec, rows):
        counts[row] += 1
        copy = (*row, counts[row])
        stored[codec.key(copy)] = codec.encode(copy)
    return stored


def _ordered(program: DeltaProgram, codec: LayoutCodec, rows: list[Row]) -> list[Row]:
    if any(map(has_spans, program.columns)):
        return sorted(rows, key=lambda row: codec.encode((*row, 0)))
    return rows


def _digest(stored: Mapping[bytes, bytes]) -> str:
    digest = hashlib.sha256()
    for key in sorted(stored):
        for part in (key, stored[key]):
            digest.update(len(part).to_bytes(8) + part)
    return digest.hexdigest()


async def _before(store: TableStore, codec: LayoutCodec, as_of: int) -> dict[bytes, bytes]:
    cells = store.scan(codec.layout.table, b"", None, as_of)
    return {cell.key: cell.value async for batch in cells for cell in batch}


def _chunks(puts: Iterator[Put]) -> Iterator[list[Put]]:
    while chunk := list(islice(puts, PUT_ROWS)):
        yield chunk
