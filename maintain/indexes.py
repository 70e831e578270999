"""Index maintenance: from the old and new source row to the mutations of an index.

An index row is a projection of one source row (a base row or a view row), and its key contains the
source row's key. So the index rows follow from (old source row, new source row) without a read,
and two source rows never share an index row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hornbeam_server.maintain.changes import Mutation
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.intervals import identical
from hornbeam_server.schema.rows import Projection, projection
from hornbeam_server.schema.types import Row
from hornbeam_server.storage.codec.rows import Codecs


@dataclass(frozen=True, slots=True)
class IndexProgram:
    """Maintains one index. `key` encodes the key of an index row."""

    name: str
    project: Projection
    key: Callable[[Row], bytes]

    def mutations(self, old: Row | None, new: Row | None) -> list[Mutation]:
        """The mutations of the index when a source row changes from `old` to `new`.

        If the index key changes, there are two: a tombstone and a new row.
        """
        before = None if old is None else self.project(old)
        after = None if new is None else self.project(new)
        if identical(before, after):
            return []
        if before is None or after is None:
            return [self._mutation(before, after)]
        key, new_key = self.key(before), self.key(after)
        if key == new_key:
            return [Mutation(self.name, key, before, after)]
        return [Mutation(self.name, key, before, None), Mutation(self.name, new_key, None, after)]

    def _mutation(self, before: Row | None, after: Row | None) -> Mutation:
        row = before if after is None else after
        assert row is not None
        return Mutation(self.name, self.key(row), before, after)


def compile_index(catalog: Catalog, codecs: Codecs, name: str) -> IndexProgram:
    """Compile the maintenance of index `name`. Raises KeyError."""
    layout = catalog.layout(name)
    source = catalog.layout(layout.source)
    positions = [source.positions[column] for column in layout.column_names]
    return IndexProgram(name, projection(positions), codecs(name).key)
