"""Reads that several computations at one snapshot share."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence

from hornbeam_server.schema.sizes import kept_sizes_of_rows
from hornbeam_server.schema.types import Row, Value
from hornbeam_server.storage.codec.keyrange import KeyRange
from hornbeam_server.storage.snapshot import RowReader, RowVersion, unknown

MOST_ROWS, MOST_BYTES = 100_000, 64 << 20
"""The most that is remembered, exceeded by one read at most: rows with keys and prefixes, and the
bytes of their texts, bytes and arrays."""

_Key = tuple[Value, ...]


class SharedReads(RowReader):
    """Remembers the answers of another reader to `get` and `prefixes`, for programs that look up
    the same rows one after the other. It forgets everything when it is full. Scans, and reads with
    a `room`, are passed on."""

    def __init__(self, reader: RowReader) -> None:
        self.catalog = reader.catalog
        self._reader = reader
        self._rows: dict[str, dict[_Key, RowVersion | None]] = {}
        self._prefixes: dict[str, dict[_Key, list[RowVersion]]] = {}
        self._sizes: dict[str, Callable[[Sequence[Row]], int]] = {}
        self._left_rows, self._left_bytes = MOST_ROWS, MOST_BYTES

    async def get(
        self, layout: str, keys: Sequence[_Key], *, room: int | None = None
    ) -> list[RowVersion | None]:
        if room is not None:
            return await self._reader.get(layout, keys, room=room)
        known = self._rows.setdefault(layout, {})
        if missing := unknown(keys, known):
            found = await self._reader.get(layout, missing)
            known.update(zip(missing, found, strict=True))
            self._count(layout, len(missing), [v.row for v in found if v is not None])
        return [known[key] for key in keys]

    async def prefixes(
        self, layout: str, prefixes: Sequence[_Key], *, room: int | None = None
    ) -> list[list[RowVersion]]:
        if room is not None:
            return await self._reader.prefixes(layout, prefixes, room=room)
        known = self._prefixes.setdefault(layout, {})
        if missing := unknown(prefixes, known):
            found = await self._reader.prefixes(layout, missing)
            known.update(zip(missing, found, strict=True))
            rows = [version.row for versions in found for version in versions]
            self._count(layout, len(missing) + len(rows), rows)
        return [known[prefix] for prefix in prefixes]

    def scan(
        self,
        layout: str,
        key_range: KeyRange = KeyRange(),
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncGenerator[list[Row], None]:
        return self._reader.scan(layout, key_range, reverse=reverse, limit=limit)

    def _count(self, layout: str, entries: int, rows: Sequence[Row]) -> None:
        """Count what was read, and forget everything if it is too much."""
        size = self._sizes.get(layout)
        if size is None:
            types = [column.type for column in self.catalog.layout(layout).columns]
            size = self._sizes[layout] = kept_sizes_of_rows(types)
        self._left_rows -= entries
        self._left_bytes -= size(rows)
        if self._left_rows < 0 or self._left_bytes < 0:
            self._rows, self._prefixes = {}, {}
            self._left_rows, self._left_bytes = MOST_ROWS, MOST_BYTES
