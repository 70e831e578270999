"""Indexes: from a source row before and after to the index rows before and after.

An index row is a projection of one source row, a base row or a view row, and its key holds the
source's key. So an index follows from (old source row, new source row) alone, without a read, and
two source rows never share an index row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from maintain.changes import Mutation
from schema.catalog import Catalog
from schema.rows import Projection, projection
from schema.types import Row
from storage.codec.rows import Codecs


@dataclass(frozen=True, slots=True)
class IndexProgram:
    """Keeps one index. `key` encodes the key of an index row."""

    name: str
    project: Projection
    key: Callable[[Row], bytes]

    def mutations(self, old: Row | None, new: Row | None) -> list[Mutation]:
        """What changes in the index when a source row goes from `old` to `new`.

        Two mutations when the index key moves: a tombstone and a new row.
        """
        before = None if old is None else self.project(old)
        after = None if new is None else self.project(new)
        if before == after:
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
    """Compile the upkeep of index `name`. Raises KeyError."""
    layout = catalog.layout(name)
    source = catalog.layout(layout.source)
    positions = [source.positions[column] for column in layout.column_names]
    return IndexProgram(name, projection(positions), codecs(name).key)
