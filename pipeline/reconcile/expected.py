"""What should be stored, made of base rows and nothing else.

It shares the codecs with the transaction layer, and none of the programs that keep views: a view's
path is walked here by its foreign keys alone.

A view row holds the columns of its path's rows, one after the other, and MessagePack of a row is
that of its columns, one after the other. So the stored bytes of base rows, put together, are the
bytes that should be stored for the view: nothing is encoded, and what is stored right is compared
without being decoded. Base rows of an older schema are encoded anew.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from schema.catalog import Catalog, JoinView
from schema.errors import Corruption
from schema.model import ForeignKey
from schema.rows import Projection, projection
from schema.types import Row, Value
from storage.codec.rows import Codecs, LayoutCodec
from storage.ports import Cell, TableStore

REMEMBERED = 50_000
"""Rows of a relation that are remembered for their children; then all are forgotten."""
Key = tuple[Value, ...]


Joined = tuple[Row, bytes]
"""A row of the last relation of a path behind all above it, and its columns' bytes."""


class Broken(enum.Enum):
    """Instead of a row."""

    ABSENT = "absent"
    """There is none: no view row comes of it."""
    UNREADABLE = "unreadable"
    """There is something that is no row, or a row that belongs elsewhere: nobody can say what
    comes of it."""


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
        """`read` for many, in a third of the time."""
        rows = self._codec.decode_keyed([(cell.key, cell.value) for cell in cells])
        if rows is None:
            return [self.read(cell) for cell in cells]
        at = len(self._codec.begin)
        return list(zip(rows, [cell.value[at:] for cell in cells], strict=True))


class Parents:
    """Rows of relations by their keys, as of one moment."""

    def __init__(self, codecs: Codecs, store: TableStore, at: int) -> None:
        self._codecs, self._store, self._at = codecs, store, at
        self._known: dict[str, dict[Key, Found]] = {}
        self._readers: dict[str, BaseCodec] = {}

    def known(self, relation: str) -> dict[Key, Found]:
        """All that was fetched and is remembered."""
        return self._known.setdefault(relation, {})

    async def fetch(self, relation: str, keys: Sequence[Key]) -> dict[Key, Found]:
        """At least the rows of `keys`."""
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
    """Rows of one view over rows of its last relation."""

    def __init__(self, catalog: Catalog, view: JoinView, begin: bytes) -> None:
        """`begin` is what stored rows of the view begin with."""
        self._path = view.path
        self._references = [
            reference(catalog, relation, edge)
            for relation, edge in zip(view.path[1:], view.edges, strict=True)
        ]
        self._begin = begin

    async def join(self, rows: Sequence[Found], parents: Parents) -> list[Found]:
        """For each row of the last relation its view row. ABSENT: it has none."""
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
        """As it should be stored."""
        return self._begin + joined[1]


_NO_KEY: Key = (None,)


def _under(parent: Found, child: Found) -> Found:
    if isinstance(child, tuple) and isinstance(parent, tuple):
        return parent[0] + child[0], parent[1] + child[1]
    return parent if isinstance(child, tuple) else child


def reference(catalog: Catalog, relation: str, foreign_key: ForeignKey) -> Projection:
    """From a row to the key of its parent; with a NULL in it there is none (MATCH SIMPLE)."""
    positions = catalog.schema.relation(relation).positions
    return projection([positions[column] for column in foreign_key.columns])


class IndexProgram:
    """Rows of one index over rows of its source."""

    def __init__(self, catalog: Catalog, codecs: Codecs, name: str) -> None:
        codec = codecs(name)
        positions = catalog.layout(codec.layout.source).positions
        self._project = projection([positions[column] for column in codec.layout.column_names])
        self._codec = codec

    def cell(self, row: Row) -> tuple[bytes, bytes]:
        """Key and value, as they should be stored for a row of the source."""
        projected = self._project(row)
        return self._codec.key(projected), self._codec.encode(projected)
