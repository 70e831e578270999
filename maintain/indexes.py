"""Index maintenance: from the old and new source row to the mutations of an index.

An index row is a projection of one source row (a base row or a view row), and its key contains the
source row's key. So the index rows follow from (old source row, new source row) without a read,
and two source rows never share an index row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from hornbeam_server.maintain.changes import Mutation, make_mutation
from hornbeam_server.query.expressions.declared import row_condition, row_of_index
from hornbeam_server.schema.catalog import Catalog, Index
from hornbeam_server.schema.intervals import identical
from hornbeam_server.schema.rows import Projection, projection
from hornbeam_server.schema.types import Row
from hornbeam_server.storage.codec.rows import Codecs


@dataclass(frozen=True, slots=True)
class IndexProgram:
    """Maintains one index. `key` encodes the key of an index row. `holds`: whether the index has a
    source row; None: it has all of them."""

    name: str
    project: Projection
    key: Callable[[Row], bytes]
    holds: Callable[[Row], bool] | None = None

    def rows(self, source: Iterable[Row]) -> list[Row]:
        """The rows of the index for rows of its source."""
        return [self.project(row) for row in source if self.holds is None or self.holds(row)]

    def mutations(self, old: Row | None, new: Row | None) -> list[Mutation]:
        """The mutations of the index when a source row changes from `old` to `new`.

        If the index key changes, there are two: a tombstone and a new row.
        """
        if self.holds is not None:
            old = old if old is not None and self.holds(old) else None
            new = new if new is not None and self.holds(new) else None
        before = None if old is None else self.project(old)
        after = None if new is None else self.project(new)
        if identical(before, after):
            return []
        if before is None or after is None:
            return [self._mutation(before, after)]
        key, new_key = self.key(before), self.key(after)
        if key == new_key:
            return [make_mutation((self.name, key, before, after))]
        gone = make_mutation((self.name, key, before, None))
        return [gone, make_mutation((self.name, new_key, None, after))]

    def _mutation(self, before: Row | None, after: Row | None) -> Mutation:
        row = before if after is None else after
        assert row is not None
        return make_mutation((self.name, self.key(row), before, after))


def compile_index(catalog: Catalog, codecs: Codecs, name: str) -> IndexProgram:
    """Compile the maintenance of index `name`. Raises KeyError."""
    project = projection_of(catalog, name)
    return IndexProgram(name, project, codecs(name).key, condition_of(catalog, name))


def projection_of(catalog: Catalog, name: str) -> Projection:
    """From a row of the source of index `name`, which the index has, to the row of the index. The
    projection raises the errors of expressions."""
    layout = catalog.layout(name)
    return _projected(catalog, name, layout.column_names)


def key_of(catalog: Catalog, index: Index) -> Projection:
    """From a row of a relation to the values under which `index`, of this relation, has it."""
    return _projected(catalog, index.name, [part.column for part in index.columns])


def _projected(catalog: Catalog, name: str, columns: Sequence[str]) -> Projection:
    index = catalog.index.get(name)
    source = catalog.layout(catalog.layout(name).source)
    if index is None or not index.expressions:
        return projection([source.positions[column] for column in columns])
    relation = catalog.schema.relation(index.on)
    expressions = [(each.column, each.sql) for each in index.expressions]
    places, extended = row_of_index(name, expressions, relation)
    project = projection([places[column] for column in columns])
    return lambda row: project(extended(row))


def condition_of(catalog: Catalog, name: str) -> Callable[[Row], bool] | None:
    """Whether a partial index has a row of its relation; None for an index with all rows."""
    index = catalog.index.get(name)
    if index is None or not index.where:
        return None
    return row_condition(name, index.where, catalog.schema.relation(index.on))
