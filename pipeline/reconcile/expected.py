"""The expected rows of views and indexes, computed from base rows only.

This module shares the codecs with the transaction layer, but none of the programs that maintain
views: it follows a view's path by the foreign keys alone.

A view row is the concatenation of the columns of its path's rows, and the MessagePack of a row is
the concatenation of that of its columns. So the concatenated bytes of the stored base rows are the
expected bytes of the view row: nothing is encoded, and correct rows are compared without decoding.
Base rows of an older schema are encoded again.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from hornbeam_server.maintain.indexes import condition_of, projection_of
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import Corruption
from hornbeam_server.schema.model import ForeignKey
from hornbeam_server.schema.rows import Projection, projection
from hornbeam_server.schema.types import Row, Value
from hornbeam_server.schema.views import JoinView
from hornbeam_server.storage.codec.rows import Codecs, LayoutCodec
from hornbeam_server.storage.ports import Cell, TableStore

REMEMBERED = 50_000
"""Maximum number of cached parent rows of a relation. Beyond it the cache is emptied, except for
the keys that are asked for."""
Key = tuple[Value, ...]


Joined = tuple[Row, bytes]
"""The rows of a path, concatenated from the root to the last relation, and their columns' bytes."""


class Broken(enum.Enum):
    """The reason why there is no row."""

    ABSENT = "absent"
    """No row is stored, so no view row derives from it."""
    UNREADABLE = "unreadable"
    """The stored value is no row, or belongs under another key, so the rows that derive from it are
    unknown."""


Found = Joined | Broken


class BaseCodec:
    """Reads rows of a relation with their columns' bytes."""

    def __init__(self, codec: LayoutCodec) -> None:
        self._codec = codec

    def read(self, cell: Cell) -> Found:
        try:
            row = self._codec.decode(cell.value)
        except Corruption:
            return Broken.UNREADABLE
        if self._codec.key(row) != cell.key:
            return Broken.UNREADABLE
        begin = self._codec.begin
        value = cell.value if cell.value.startswith(begin) else self._codec.encode(row)
        return row, value[len(begin) :]

    def read_all(self, cells: Sequence[Cell]) -> list[Found]:
        """The same as `read` for many cells, in a third of the time."""
        rows = self._codec.decode_keyed([(cell.key, cell.value) for cell in cells])
        if rows is None:
            return [self.read(cell) for cell in cells]
        at = len(self._codec.begin)
        return list(zip(rows, [cell.value[at:] for cell in cells], strict=True))


class Parents:
    """A cache of the rows of relations by their keys, as of one snapshot."""

    def __init__(self, codecs: Codecs, store: TableStore, at: int) -> None:
        self._codecs, self._store, self._at = codecs, store, at
        self._known: dict[str, dict[Key, Found]] = {}
        self._readers: dict[str, BaseCodec] = {}

    def known(self, relation: str) -> dict[Key, Found]:
        """The rows of a relation that are in the cache."""
        return self._known.setdefault(relation, {})

    async def fetch(self, relation: str, keys: Sequence[Key]) -> dict[Key, Found]:
        """A mapping with at least the rows of `keys`."""
        known = self.known(relation)
        missing = [key for key in dict.fromkeys(keys) if key not in known]
        if not missing:
            return known
        if len(known) + len(missing) > REMEMBERED:
            wanted = set(keys)
            known = self._known[relation] = {k: v for k, v in known.items() if k in wanted}
        codec = self._codecs(relation)
        if relation not in self._readers:
            self._readers[relation] = BaseCodec(codec)
        read = self._readers[relation].read
        encoded = [codec.key_of(key) for key in missing]
        cells = await self._store.get(codec.layout.table, encoded, self._at)
        for key, cell in zip(missing, cells, strict=True):
            known[key] = Broken.ABSENT if cell is None else read(cell)
        return known


class ViewProgram:
    """Computes the rows of one view from rows of its last relation."""

    def __init__(self, catalog: Catalog, view: JoinView, begin: bytes) -> None:
        """`begin` is the prefix of the view's stored rows."""
        self._path = view.path
        self._references = [
            reference(catalog, relation, edge)
            for relation, edge in zip(view.path[1:], view.edges, strict=True)
        ]
        self._begin = begin

    async def join(self, rows: Sequence[Found], parents: Parents) -> list[Found]:
        """The view row of each row of the last relation. ABSENT: the row has none."""
        return await self._join(rows, len(self._path) - 1, parents)

    async def _join(self, rows: Sequence[Found], level: int, parents: Parents) -> list[Found]:
        if level == 0:
            return list(rows)
        refer, above = self._references[level - 1], self._path[level - 1]
        keys = [refer(found[0]) if isinstance(found, tuple) else _NO_KEY for found in rows]
        wanted = [key for key in dict.fromkeys(keys) if None not in key]
        known = await parents.fetch(above, wanted)
        joined = await self._join([known[key] for key in wanted], level - 1, parents)
        by_key = dict(zip(wanted, joined, strict=True))
        return [
            _under(by_key.get(key, Broken.ABSENT), found)
            for key, found in zip(keys, rows, strict=True)
        ]

    def value(self, joined: Joined) -> bytes:
        """The expected stored value of a view row."""
        return self._begin + joined[1]


_NO_KEY: Key = (None,)


def _under(parent: Found, child: Found) -> Found:
    if isinstance(child, tuple) and isinstance(parent, tuple):
        return parent[0] + child[0], parent[1] + child[1]
    return parent if isinstance(child, tuple) else child


def reference(catalog: Catalog, relation: str, foreign_key: ForeignKey) -> Projection:
    """A function from a row to its parent's key. A key with a NULL references nothing (MATCH
    SIMPLE)."""
    positions = catalog.schema.relation(relation).positions
    return projection([positions[column] for column in foreign_key.columns])


class IndexProgram:
    """Computes the rows of one index from rows of its source."""

    def __init__(self, catalog: Catalog, codecs: Codecs, name: str) -> None:
        codec = codecs(name)
        self._project = projection_of(catalog, name)
        self._codec = codec
        self._holds = condition_of(catalog, name)

    def cell(self, row: Row) -> tuple[bytes, bytes] | None:
        """The expected key and value of the index row of a source row; None if a partial index does
        not have it."""
        if self._holds is not None and not self._holds(row):
            return None
        projected = self._project(row)
        return self._codec.key(projected), self._codec.encode(projected)
