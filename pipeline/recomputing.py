"""Views that a batch answers anew (`refresh = 'recompute'`), in the driver.

The whole SELECT is answered as of the batch's end, and what is stored as of its beginning becomes
that: rows that differ are put, and tombstones for those that are gone. All rows of the result pass
through this process, and through its memory.

**Done twice, it is the same.** Which rows are put for a batch is agreed on before the first of them
(`POST /v1/groups/…/results`), by their digest. Who does the batch again, be it that the first one
died or that it lives on unnoticed, gets the same answer from the same snapshot and puts the same
rows; a SELECT that answers otherwise the next time is told so, and puts nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from maintain.deltas.program import DeltaProgram
from pipeline.export import Export
from pipeline.sink import open_sink
from query.engine import QueryEngine
from schema.catalog import Catalog
from schema.types import Row
from storage.codec.rows import Codecs, LayoutCodec
from storage.limits import require_storable
from storage.ports import TOMBSTONE, Put, TableStore
from storage.snapshot import Snapshot

MEMORY_MB = 1_024
PUT_ROWS = 5_000
Agree = Callable[[str], None]
"""Called with the digest of the rows. Raises DatabaseError when they are not those agreed on."""


async def recompute(
    export: Export,
    url: str,
    catalog: Catalog,
    program: DeltaProgram,
    as_of: int | None,
    agree: Agree,
) -> int:
    """Make a view what its SELECT answers at the export's snapshot; returns the rows put.

    `as_of`: the snapshot at which the view is stored by now; None: it is not. What `catalog` calls
    readable was so all the time since. Raises HornbeamError, and what the client raises.
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
    """What should be stored of a view at the export's snapshot, as keys and values, by its base
    relations alone. Raises HornbeamError."""
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
    """Rows of the SELECT, with the types of the view's columns."""
    with tempfile.TemporaryDirectory(prefix="hornbeam-recompute-") as spill:
        engine = QueryEngine(memory_limit_mb=MEMORY_MB, spill_folder=Path(spill))
        try:
            query = engine.prepare(program.sql, catalog, use_views=use_views)
            stream = await query.run(reader)
            found = await stream.all()
        finally:
            engine.close()
    coerce = [column.type.coerce for column in program.columns]
    return [tuple(to(value) for to, value in zip(coerce, row, strict=True)) for row in found]


def _stored(codec: LayoutCodec, program: DeltaProgram, rows: list[Row]) -> dict[bytes, bytes]:
    """As keys and values; equal rows are numbered from 1."""
    copies = ((*row, n) for row, count in Counter(rows).items() for n in range(1, count + 1))
    return {codec.key(copy): codec.encode(copy) for copy in copies}


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
