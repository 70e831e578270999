"""Tables made side by side, since a store over a network takes a second for each; and those that
others than transactions write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from hornbeam_server.schema.catalog import Catalog, State
from hornbeam_server.storage.ports import TableStore
from hornbeam_server.storage.together import all_settled
from hornbeam_server.txlayer import loads


async def create_tables(
    store: TableStore,
    tables: Iterable[str],
    splits: Mapping[str, Sequence[bytes]] = MappingProxyType({}),
) -> None:
    """Create those that are not there. When it fails, none is under way any more."""
    created = [store.create_table(table, splits.get(table, ())) for table in tables]
    await all_settled(created)


def bulk_tables(catalog: Catalog) -> frozenset[str]:
    """Tables that may be written beside the transactions, as Spark does: no commit reads them."""
    built = [name for name, state in catalog.states if state is State.BUILDING]
    deferred = [name for view in catalog.deferred for name in view.stored]
    written = {catalog.layout(name).table for name in (*built, *deferred)}
    return frozenset(written | set(loads.tables(catalog).values()))
