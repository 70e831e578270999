"""The rows of a view or index, as the node that leads builds them at one snapshot."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing

from hornbeam_server.maintain.copies import Draw, compile_copy
from hornbeam_server.maintain.immediate.build import built_puts
from hornbeam_server.maintain.recompute import build_batches, scanned_relation
from hornbeam_server.schema.catalog import Catalog, Purpose
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.storage.ports import Put
from hornbeam_server.storage.snapshot import Snapshot
from hornbeam_server.txlayer.ddl.build_records import Build

Puts = Mapping[str, Sequence[Put]]
"""Puts by table."""


async def built_rows(
    catalog: Catalog, codecs: Codecs, reader: Snapshot, build: Build, draw: Draw
) -> AsyncGenerator[Puts, None]:
    """The puts of a build as of `reader`, in parts. Counts the rows in `build`: those of a view,
    not those of its internal tables. `draw` takes the numbers of rows of copies. Raises the
    reader's errors, LimitExceeded and SqlError."""
    build.rows = build.scanned = 0
    if build.name in catalog.copy:
        parts = _copied(catalog, codecs, reader, build, draw)
    elif catalog.layout(build.name).source in catalog.transactional_view:
        parts = _immediate(catalog, codecs, reader, build)
    else:
        parts = _rows(catalog, codecs, reader, build)
    table = codecs(build.name).layout.table
    async with aclosing(parts):
        async for puts in parts:
            yield puts
            build.rows += len(puts.get(table, ()))


async def _rows(
    catalog: Catalog, codecs: Codecs, reader: Snapshot, build: Build
) -> AsyncGenerator[Puts, None]:
    codec = codecs(build.name)
    async with aclosing(reader.scan(scanned_relation(catalog, build.name))) as scanned:
        async for batch in build_batches(catalog, codecs, [build.name], reader, scanned):
            rows = batch.rows[build.name]
            build.scanned += batch.scanned
            yield {codec.layout.table: [Put(key, codec.encode(row)) for key, row in rows]}


async def _copied(
    catalog: Catalog, codecs: Codecs, reader: Snapshot, build: Build, draw: Draw
) -> AsyncGenerator[Puts, None]:
    """The rows of a copy."""
    copy, codec = catalog.copy[build.name], codecs(build.name)
    program = compile_copy(catalog, codecs, copy)
    async with aclosing(reader.scan(copy.relation)) as scanned:
        async for batch in scanned:
            rows = await program.rows(batch, draw)
            build.scanned += len(batch)
            yield {codec.layout.table: [Put(codec.key(row), codec.encode(row)) for row in rows]}


async def _immediate(
    catalog: Catalog, codecs: Codecs, reader: Snapshot, build: Build
) -> AsyncGenerator[Puts, None]:
    """The rows or cells of an immediate view, or of an index on one."""
    rows = build.total

    def scanned(count: int, passes: int) -> None:
        build.scanned = count
        build.total = None if rows is None else rows * passes

    async with aclosing(built_puts(catalog, codecs, reader, build.name, scanned)) as parts:
        async for puts in parts:
            yield puts


def build_order(catalog: Catalog, names: Iterable[str]) -> list[str]:
    """`names` in the order of their builds: copies of relations, for which a client waits;
    foreign-key indexes, because they speed up the other builds; then views, then other indexes."""

    def rank(name: str) -> int:
        if name in catalog.copy:
            return -1
        if name in catalog.all_views:
            return 1
        return 0 if catalog.index[name].purpose is Purpose.FOREIGN_KEY else 2

    return sorted(names, key=rank)
