"""Access paths down: from the keys of rows to the rows below them, in the committed state.

An access path is a prefix scan of a relation, view or index whose key begins with the foreign key
(in any order of its columns), or, if no such layout is readable, a scan of the child relation. Only
READABLE views and indexes are access paths, since one that is being built may lack rows. Base
relations are always readable by their own keys.

Inside a view row, the columns that an edge joins are equal, so a view keyed by
`(order_line.o_id, order_line.no)` is found from `orders.id` by its own key, without any index.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from hornbeam_server.maintain.paths import Key
from hornbeam_server.schema.catalog import Catalog, Layout
from hornbeam_server.schema.model import ForeignKey
from hornbeam_server.schema.rows import Projection, projection
from hornbeam_server.schema.types import Row
from hornbeam_server.schema.views import JoinView
from hornbeam_server.storage.snapshot import RowReader


class Way(Protocol):
    """An access path. `rows` returns rows of `layout`; `key` projects a row to the wanted key."""

    @property
    def layout(self) -> str: ...

    @property
    def key(self) -> Projection: ...

    async def rows(self, reader: RowReader, above: Sequence[Key]) -> list[Row]:
        """All rows below the rows with the keys `above`. One read."""


@dataclass(frozen=True, slots=True)
class PrefixWay:
    """A prefix scan. `prefix` reorders a key from above into leading key columns of `layout`."""

    layout: str
    prefix: Projection
    key: Projection

    async def rows(self, reader: RowReader, above: Sequence[Key]) -> list[Row]:
        found = await reader.prefixes(self.layout, [self.prefix(key) for key in above])
        return [version.row for versions in found for version in versions]


@dataclass(frozen=True, slots=True)
class ScanWay:
    """The last resort: read the whole child relation and filter the rows by `parent_key`."""

    layout: str
    parent_key: Projection
    key: Projection

    async def rows(self, reader: RowReader, above: Sequence[Key]) -> list[Row]:
        wanted = frozenset(above)
        return [
            row
            async for batch in reader.scan(self.layout)
            for row in batch
            if self.parent_key(row) in wanted
        ]


def way_to_children(catalog: Catalog, child: str, edge: ForeignKey) -> Way:
    """The access path from keys of `edge.parent` to the rows of `child` that reference them."""
    relation = catalog.layout(child)
    key = [part.column for part in relation.key]
    for layout in (relation, *_readable_indexes(catalog, child)):
        order = _leading([part.column for part in layout.key], edge.columns)
        if order is not None:
            return PrefixWay(layout.name, projection(order), _columns(layout, key))
    return ScanWay(child, _columns(relation, edge.columns), _columns(relation, key))


def way_into_view(catalog: Catalog, view: JoinView, level: int) -> Way | None:
    """The access path from keys of `view.path[level]` to the view rows that hold them; None if
    there is none.

    It reads the view, so it does not find rows that have no view row before the transaction.
    """
    if not catalog.readable(view.name):
        return None
    relation = catalog.schema.relation(view.path[level])
    equal = view.equal_columns
    wanted = [equal[view.names[relation.name, column]] for column in relation.primary_key]
    own = catalog.layout(view.name)
    key = [part.column for part in own.key]
    for layout in (own, *_readable_indexes(catalog, view.name)):
        order = _leading([equal[part.column] for part in layout.key], wanted)
        if order is not None:
            return PrefixWay(layout.name, projection(order), _columns(layout, key))
    return None


def _readable_indexes(catalog: Catalog, source: str) -> Iterable[Layout]:
    names = (index.name for index in catalog.whole_indexes_on(source))
    return (catalog.layout(name) for name in names if catalog.readable(name))


def _columns(layout: Layout, columns: Iterable[str]) -> Projection:
    return projection([layout.positions[column] for column in columns])


def _leading(key: Sequence[str], wanted: Sequence[str]) -> list[int] | None:
    """How to reorder values of `wanted` into the first columns of `key`; None if these differ.

    Also None when `wanted` repeats a column: then no prefix expresses all equalities.
    """
    first = key[: len(wanted)]
    if len(set(wanted)) < len(wanted) or sorted(first) != sorted(wanted):
        return None
    return [wanted.index(column) for column in first]
