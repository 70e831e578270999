"""Creation of many tables at the same time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from hornbeam_server.storage.ports import TableStore
from hornbeam_server.storage.together import all_settled


async def create_tables(
    store: TableStore,
    tables: Iterable[str],
    splits: Mapping[str, Sequence[bytes]] = MappingProxyType({}),
) -> None:
    """Create missing tables, all at once: a remote store takes a second for each. `splits`: keys by
    table at which to split it. Raises Unavailable; no creation is under way then."""
    created = [store.create_table(table, splits.get(table, ())) for table in tables]
    await all_settled(created)
