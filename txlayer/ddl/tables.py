"""Creates tables, and names the tables that are written outside of transactions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from hornbeam_server.schema.catalog import Catalog, State
from hornbeam_server.storage.ports import TableStore
from hornbeam_server.storage.together import all_settled
from hornbeam_server.txlayer.ddl import load_records


async def create_tables(
    store: TableStore,
    tables: Iterable[str],
    splits: Mapping[str, Sequence[bytes]] = MappingProxyType({}),
) -> None:
    """Create missing tables, all at once: a remote store takes a second for each. `splits`: keys by
    table at which to split it. Raises Unavailable; no creation is under way then."""
    created = [store.create_table(table, splits.get(table, ())) for table in tables]
    await all_settled(created)


def bulk_tables(catalog: Catalog) -> frozenset[str]:
    """The tables that may be written outside of transactions, for example by Spark: those of
    BUILDING views and indexes, of deferred views, and of the load under way. No commit reads
    them."""
    built = [name for name, state in catalog.states if state is State.BUILDING]
    deferred = [name for view in catalog.deferred for name in view.stored]
    written = {catalog.layout(name).table for name in (*built, *deferred)}
    return frozenset(written | set(load_records.tables(catalog).values()))
