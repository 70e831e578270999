"""The bytes of relations, views and indexes."""

from __future__ import annotations

from collections.abc import Iterable

from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.storage.ports import TableStore


def names_with_bytes(catalog: Catalog) -> list[str]:
    """The names of all relations, views and indexes."""
    return [*catalog.schema.names, *catalog.all_views, *catalog.index]


async def sizes_of(store: TableStore, catalog: Catalog, names: Iterable[str]) -> dict[str, int]:
    """Approximate bytes by name of relation, view or index. The bytes of a declared view include
    its states and values. Reads the tables once. Raises Unavailable."""
    return {name: await _size(store, catalog, name) for name in names}


async def _size(store: TableStore, catalog: Catalog, name: str) -> int:
    declared = catalog.declared_view.get(name)
    stored = (name,) if declared is None else declared.stored
    return sum([await store.size(catalog.layout(layout).table) for layout in stored])
