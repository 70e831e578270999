"""Rows that foreign keys reference, at one timestamp."""

from __future__ import annotations

from collections.abc import Sequence

from hornbeam_server.schema.model import ForeignKey
from hornbeam_server.schema.types import Row
from hornbeam_server.storage.snapshot import RowReader


async def absent_keys(reader: RowReader, foreign_key: ForeignKey, keys: Sequence[Row]) -> set[Row]:
    """Those of `keys`, which have no NULL, that no row of the parent has."""
    if not keys:
        return set()
    if foreign_key.to_unique:
        index = reader.catalog.unique_index(foreign_key)
        entries = await reader.prefixes(index.name, keys)
        return {key for key, found in zip(keys, entries, strict=True) if not found}
    rows = await reader.get(foreign_key.parent, keys)
    return {key for key, row in zip(keys, rows, strict=True) if row is None}
