"""Ways down: from the keys of rows to the rows below them, in the committed state.

A way is a prefix scan of something whose key begins with the foreign key (in any order of its
columns), or, when there is none that may be read, a scan of the child relation. Only READABLE
views and indexes are ever ways: one that is still being built may lack rows. Base relations and
their own keys always may be read.

Inside a view row columns that an edge joins are equal, so a view keyed by
`(order_line.o_id, order_line.no)` is found from `orders.id` by its own key, without any index.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from maintain.paths import Key
from schema.catalog import Catalog, JoinView, Layout
from schema.model import ForeignKey
from schema.rows import Projection, projection
from schema.types import Row
from storage.snapshot import RowReader


class Way(Protocol):
    """`layout` is what `rows` gives rows of, `key` projects the wanted key out of such a row."""

    @property
    def layout(self) -> str: ...

    @property
    def key(self) -> Projection: ...

    async def rows(self, reader: RowReader, above: Sequence[Key]) -> list[Row]:
        """All rows below the rows with the keys `above`. One read."""


@dataclass(frozen=True, slots=True)
class PrefixWay:
    """`prefix` reorders a key from above into the leading key columns of `layout`."""

    layout: str
    prefix: Projection
    key: Projection

    async def rows(self, reader: RowReader, above: Sequence[Key]) -> list[Row]:
        found = await reader.prefixes(self.layout, [self.prefix(key) for key in above])
        return [version.row for versions in found for version in versions]


@dataclass(frozen=True, slots=True)
class ScanWay:
    """The last resort: read the whole child relation and keep the rows that `parent_key` names."""

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
    """From keys of `edge.parent` to the rows of `child` that reference them."""
    relation = catalog.layout(child)
    key = [part.column for part in relation.key]
    for layout in (relation, *_readable_indexes(catalog, child)):
        order = _leading([part.column for part in layout.key], edge.columns)
        if order is not None:
            return PrefixWay(layout.name, projection(order), _columns(layout, key))
    return ScanWay(child, _columns(relation, edge.columns), _columns(relation, key))


def way_into_view(catalog: Catalog, view: JoinView, level: int) -> Way | None:
    """From keys of `view.path[level]` to the view rows that hold them; None: not directly.

    Finds the rows of the view, so whatever has no view row before the transaction stays unfound.
    """
    if not catalog.readable(view.name):
        return None
    relation = catalog.schema.relation(view.path[level])
    equal = _equal_columns(view)
    wanted = [equal[view.names[relation.name, column]] for column in relation.primary_key]
    own = catalog.layout(view.name)
    key = [part.column for part in own.key]
    for layout in (own, *_readable_indexes(catalog, view.name)):
        order = _leading([equal[part.column] for part in layout.key], wanted)
        if order is not None:
            return PrefixWay(layout.name, projection(order), _columns(layout, key))
    return None


def _readable_indexes(catalog: Catalog, source: str) -> Iterable[Layout]:
    names = (index.name for index in catalog.indexes_on(source))
    return (catalog.layout(name) for name in names if catalog.readable(name))


def _columns(layout: Layout, columns: Iterable[str]) -> Projection:
    return projection([layout.positions[column] for column in columns])


def _leading(key: Sequence[str], wanted: Sequence[str]) -> list[int] | None:
    """How to reorder values of `wanted` so that they are the first columns of `key`, if they are.

    None as well when `wanted` repeats a column: then no prefix says all that must be equal.
    """
    first = key[: len(wanted)]
    if len(set(wanted)) < len(wanted) or sorted(first) != sorted(wanted):
        return None
    return [wanted.index(column) for column in first]


def _equal_columns(view: JoinView) -> dict[str, str]:
    """View column → the topmost view column of the path that always has the same value."""
    equal = {column.name: column.name for column in view.columns}
    for child, edge in zip(view.path[1:], view.edges, strict=True):
        for column, parent_column in zip(edge.columns, edge.parent_columns, strict=True):
            equal[view.names[child, column]] = equal[view.names[edge.parent, parent_column]]
    return equal
