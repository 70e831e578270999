"""Creation of many tables at the same time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from hornbeam_server.storage.ports import TableStore
from hornbeam_server.storage.together import some_at_once

AT_ONCE = 8
"""Maximum number of tables that are being created. HBase's master makes them no faster when more
are asked for, and the others would wait in the store's queue, which gives up after seconds."""


async def create_tables(
    store: TableStore,
    tables: Iterable[str],
    splits: Mapping[str, Sequence[bytes]] = MappingProxyType({}),
) -> None:
    """Create missing tables, `AT_ONCE` at a time: a remote store takes seconds for each. `splits`:
    keys by table at which to split it. Raises Unavailable; no creation is under way then."""
    created = [partial(store.create_table, table, splits.get(table, ())) for table in tables]
    await some_at_once(created, AT_ONCE)
