"""From a row to its root: which lock a write takes (Synergy, VIII-A; docs/protocols/README.md).

The way leads up the tree edges. It ends at a row of a root relation, or at a row whose tree
foreign key is NULL or dangles: such a row is the top of its own little tree. Only steps beyond
the first parent need a read, and none if that parent's relation is a root.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.rows import projection
from hornbeam_server.schema.types import Row, Value
from hornbeam_server.storage.codec.rows import Codecs

ReadRows = Callable[[str, Sequence[tuple[Value, ...]]], Awaitable[list[Row | None]]]
"""Rows of a relation by key values, in the state that the caller sees."""

RootName = tuple[str, str, bytes]


@dataclass(frozen=True, slots=True)
class _Step:
    """From a row of one relation to its parent's key."""

    foreign_key: Callable[[Row], tuple[Value, ...]]
    parent: str
    parent_is_root: bool


class Roots:
    """Finds root locks under one catalog version."""

    def __init__(self, catalog: Catalog, codecs: Codecs) -> None:
        self._codecs = codecs
        self._steps: dict[str, _Step | None] = {}
        for relation in catalog.schema.relations:
            edge = catalog.forest.parent.get(relation.name)
            if edge is None:
                self._steps[relation.name] = None
                continue
            self._steps[relation.name] = _Step(
                projection([relation.positions[column] for column in edge.columns]),
                edge.parent,
                edge.parent not in catalog.forest.parent,
            )

    def needs_reads(self, relation: str) -> bool:
        """May finding the root read rows (and so have to be repeated under the lock)?"""
        step = self._steps[relation]
        return step is not None and not step.parent_is_root

    def name(self, relation: str, key: Sequence[Value]) -> RootName:
        return ("root", relation, self._codecs(relation).key_of(key))

    async def find(self, relation: str, rows: Sequence[Row], read: ReadRows) -> list[RootName]:
        """The root locks of rows of `relation`, each once; one batched read per level."""
        found: dict[RootName, None] = {}
        while rows:
            step, codec = self._steps[relation], self._codecs(relation)
            if step is None:
                found.update((("root", relation, codec.key(row)), None) for row in rows)
                break
            keys: dict[tuple[Value, ...], None] = {}
            for row in rows:
                key = step.foreign_key(row)
                if None in key:
                    found["root", relation, codec.key(row)] = None
                else:
                    keys[key] = None
            relation = step.parent
            if step.parent_is_root:
                found.update((self.name(relation, key), None) for key in keys)
                break
            rows = await self._climb(relation, list(keys), read, found)
        return list(found)

    async def _climb(
        self,
        parent: str,
        keys: Sequence[tuple[Value, ...]],
        read: ReadRows,
        found: dict[RootName, None],
    ) -> list[Row]:
        """The rows of `parent`; one that is not there is a top."""
        rows = []
        for key, row in zip(keys, await read(parent, keys), strict=True):
            if row is None:
                found[self.name(parent, key)] = None
            else:
                rows.append(row)
        return rows
