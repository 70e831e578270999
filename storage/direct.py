"""Direct reads: rows of a store in this process, read before any other task runs.

A point read takes some microseconds; the coroutines, generators and timers of `storage.snapshot`
take thirty times as long. So short reads of a local store skip them. Since no other task runs
during a direct read, neither the catalog nor the purged versions can change under it.
"""

from __future__ import annotations

from hornbeam_server.schema.types import Row, Value
from hornbeam_server.storage.codec.keyrange import KeyRange
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.storage.ports import BATCH_BYTES, DirectReader

MOST_ROWS = 256
"""Maximum rows of a direct read. The event loop reads as many at once in any case."""


class DirectSnapshot:
    """The rows of relations, join views and indexes at timestamp `at`, in one part."""

    def __init__(self, store: DirectReader, codecs: Codecs, at: int) -> None:
        self._store = store
        self._codecs = codecs
        self._at = at
        self._left = BATCH_BYTES
        self.rows_read = 0

    def get(self, layout: str, key: tuple[Value, ...]) -> Row | None:
        """The row with this key. Raises KeyError for an unknown layout."""
        codec = self._codecs(layout)
        cell = self._store.get_directly(codec.layout.table, codec.key_of(key), self._at)
        if cell is None:
            return None
        self._left -= len(cell.value)
        self.rows_read += 1
        return codec.decode(cell.value)

    def scan(
        self, layout: str, key_range: KeyRange, *, reverse: bool, limit: int | None
    ) -> list[Row] | None:
        """The rows of a range, in order. None if they are too many for a direct read."""
        codec = self._codecs(layout)
        start, end = codec.range(key_range)
        most = MOST_ROWS + 1 if limit is None else min(limit, MOST_ROWS + 1)
        values = self._store.scan_directly(
            codec.layout.table, start, end, self._at, reverse=reverse, most=most
        )
        self._left -= sum(map(len, values))
        self.rows_read += len(values)
        if len(values) > MOST_ROWS or self.is_full:
            return None
        return codec.decode_all(values) if values else []

    @property
    def is_full(self) -> bool:
        """Were more bytes read than a direct read may keep?"""
        return self._left <= 0
