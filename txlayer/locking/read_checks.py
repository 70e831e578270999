"""Checks at the commit of a serializable transaction: what it has read is unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import InvalidRequest, ReadConflict, TransactionAborted
from hornbeam_server.schema.turns import chunks, turn
from hornbeam_server.storage.ports import NEWEST, TableReader
from hornbeam_server.storage.read_ranges import NotingStore, ReadRange
from hornbeam_server.storage.together import read_together
from hornbeam_server.txlayer.locking.guards import Guarded


def noting_store(
    store: TableReader, catalog: Catalog, ranges: list[ReadRange] | None
) -> TableReader:
    """`store`, which adds what is read to `ranges`; without them, `store` itself. Deferred views
    are data as of their snapshot, as a materialised view of PostgreSQL is, and are not noted."""
    if ranges is None:
        return store
    deferred = (name for view in catalog.deferred for name in view.stored)
    return NotingStore(store, ranges, frozenset(catalog.layout(n).table for n in deferred))


def require_current(catalog: Catalog, ranges: Sequence[ReadRange]) -> None:
    """Raises ReadConflict unless all ranges were read under `catalog`, and InvalidRequest for one
    that ends before it begins."""
    tables = {catalog.layout(name).table for name in catalog.stored} if ranges else set()
    for read in ranges:
        if read.end is not None and read.end < read.start:
            raise InvalidRequest(
                f"A range of {read.table} ends before it begins.",
                cure="Send ranges as a query returned them.",
            )
        if read.table not in tables or read.at < catalog.since:
            raise ReadConflict(
                "The schema has changed since this transaction began.", cure="Begin again."
            )


async def require_unchanged(
    store: TableReader,
    guarded: Guarded,
    by_client: Sequence[ReadRange],
    by_statements: Sequence[ReadRange],
) -> None:
    """Raises ReadConflict if rows have changed in a range that the client has read, and
    TransactionAborted if they have in one that the statements have read. All are guarded."""
    if await changed_range(store, by_client, guarded) is not None:
        raise ReadConflict(
            "Rows that match a query of this transaction have changed since.",
            cure="Begin again and read them again.",
        )
    if await changed_range(store, by_statements, guarded) is not None:
        raise TransactionAborted(
            "Rows that match a search of this transaction have changed since.",
            cure="Try again.",
            reason="searched rows changed",
        )


async def changed_range(
    store: TableReader, reads: Sequence[ReadRange], guarded: Guarded
) -> ReadRange | None:
    """A range in which rows were changed after it was read; None if there is none. All ranges must
    be guarded. Tables without a newer commit are not read again."""
    left = [read for read in reads if not guarded.is_unchanged(read.table, read.at)]
    by_table: dict[str, list[ReadRange]] = {}
    for read in left:
        if read.is_one_key:
            by_table.setdefault(read.table, []).append(read)
    for table, keys in by_table.items():
        for some in chunks(keys):
            cells = await store.get(table, [read.start for read in some], NEWEST)
            for read, cell in zip(some, cells, strict=True):
                if int(cell is not None) != read.rows or (cell is not None and cell.ts > read.at):
                    return read
            await turn(some)
    scanned = [read for read in left if not read.is_one_key]
    for some in chunks(scanned):
        checks = [_Check(store, read) for read in some]
        unchanged = await read_together(store, [check.is_unchanged for check in checks])
        for read, same in zip(some, unchanged, strict=True):
            if not same:
                return read
        await turn(some)
    return None


@dataclass(frozen=True, slots=True)
class _Check:
    store: TableReader
    read: ReadRange

    async def is_unchanged(self) -> bool:
        """Has the range the rows now that were read? It has if none of its rows is newer than the
        snapshot, and no row is missing."""
        read, rows = self.read, 0
        scan = self.store.scan(read.table, read.start, read.end, NEWEST, limit=read.rows + 1)
        async for cells in scan:
            rows += len(cells)
            if rows > read.rows or max(cell.ts for cell in cells) > read.at:
                return False
            await turn(cells)
        return rows == read.rows
