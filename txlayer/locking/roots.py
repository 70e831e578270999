"""The root of a row, whose lock a write takes (Synergy, VIII-A; docs/protocols/README.md).

The path to the root follows the tree edges upwards. It ends at a row of a root relation, at a row
whose tree foreign key is NULL, or at the key of a parent that does not exist. The first step needs
no read. Later steps read rows; there are none if the first parent's relation is a root.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.rows import projection
from hornbeam_server.schema.types import Row, Value
from hornbeam_server.storage.codec.rows import Codecs

ReadRows = Callable[[str, Sequence[tuple[Value, ...]]], Awaitable[list[Row | None]]]
"""Returns the rows of a relation by their key values, in the state that the caller reads; None for
a row that does not exist."""

RootName = tuple[str, str, bytes]


@dataclass(frozen=True, slots=True)
class _Step:
    """One step upwards: `foreign_key` returns the parent's key from a row."""

    foreign_key: Callable[[Row], tuple[Value, ...]]
    parent: str
    parent_is_root: bool


class Roots:
    """The search for root locks under one catalog version."""

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
        """Does `find` read rows for this relation? If so, it must be repeated under the lock."""
        step = self._steps[relation]
        return step is not None and not step.parent_is_root

    def name(self, relation: str, key: Sequence[Value]) -> RootName:
        return ("root", relation, self._codecs(relation).key_of(key))

    async def find(self, relation: str, rows: Sequence[Row], read: ReadRows) -> list[RootName]:
        """The root locks of rows of `relation`, each once. Makes one batched read per level."""
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
        """The existing rows of `parent`. A key without a row is a root, and is added to `found`."""
        rows = []
        for key, row in zip(keys, await read(parent, keys), strict=True):
            if row is None:
                found[self.name(parent, key)] = None
            else:
                rows.append(row)
        return rows
