"""Compiled paths of join views: from rows of the last relation up to whole view rows.

A view row is found by walking up. Every foreign key on the path names one parent row by its primary
key, so one batched look-up per level joins any number of rows. If a foreign key on the path is
NULL, there is no view row (inner join, SQL's MATCH SIMPLE).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from hornbeam_server.maintain.changes import Change
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.rows import Projection, projection
from hornbeam_server.schema.types import Row, Value
from hornbeam_server.schema.views import JoinView
from hornbeam_server.storage.snapshot import RowReader

Key = tuple[Value, ...]
Lookup = Callable[[Key], Row | None]


@dataclass(frozen=True, slots=True)
class Level:
    """One relation of a path. `start`/`end` is its slice of a view row. `key_in_view` projects its
    key out of a view row. `parent_key` projects the foreign key out of a row of the relation itself
    (None at the top of the path)."""

    relation: str
    start: int
    end: int
    key_in_view: Projection
    parent_key: Projection | None

    def in_place(self, change: Change) -> bool:
        """Is `change` an update that leaves the row under the same parent?"""
        if change.old is None or change.new is None:
            return False
        project = self.parent_key
        return project is None or project(change.old) == project(change.new)


class BaseRows:
    """Base rows before and after one transaction.

    `changed` holds the transaction's changes by relation and key. Rows read from the state before
    are cached, so that several views of one transaction share their look-ups.
    """

    def __init__(
        self, reader: RowReader, changed: Mapping[str, Mapping[Key, Change]] | None = None
    ) -> None:
        self.reader = reader
        self.changed = changed or {}
        self._read: dict[str, dict[Key, Row | None]] = {}

    def changes(self, relation: str) -> Mapping[Key, Change]:
        return self.changed.get(relation, {})

    def remember(self, relation: str, key: Key, row: Row) -> None:
        """Cache a row of the state before that another read returned."""
        self._read.setdefault(relation, {})[key] = row

    async def fetch(self, relation: str, keys: Iterable[Key]) -> None:
        """Cache the rows with `keys`, with at most one read."""
        known, changed = self._read.setdefault(relation, {}), self.changes(relation)
        missing = [k for k in dict.fromkeys(keys) if k not in known and k not in changed]
        if missing:
            versions = await self.reader.get(relation, missing)
            known.update(
                (key, None if version is None else version.row)
                for key, version in zip(missing, versions, strict=True)
            )

    def before(self, relation: str) -> Lookup:
        """Look up rows before the transaction; the rows must be changed or fetched."""
        known, changed = self._read.get(relation, {}), self.changes(relation)

        def row(key: Key) -> Row | None:
            change = changed.get(key)
            return known[key] if change is None else change.old

        return row

    def after(self, relation: str) -> Lookup:
        """Look up rows after the transaction; the rows must be changed or fetched."""
        known, changed = self._read.get(relation, {}), self.changes(relation)

        def row(key: Key) -> Row | None:
            change = changed.get(key)
            return known[key] if change is None else change.new

        return row


Side = Callable[[BaseRows, str], Lookup]
"""`BaseRows.before` or `BaseRows.after`."""


@dataclass(frozen=True, slots=True)
class JoinPath:
    """The levels of a view's path, from the ancestor to the last relation."""

    levels: tuple[Level, ...]

    @property
    def last(self) -> Level:
        return self.levels[-1]

    @property
    def relations(self) -> tuple[str, ...]:
        return tuple(level.relation for level in self.levels)

    async def join(self, base: BaseRows, rows: Mapping[Key, Row], side: Side) -> dict[Key, Row]:
        """The view rows for `rows` of the last relation, by its key; one read per level."""
        joined = dict(rows)
        for level, above in zip(self.levels[:0:-1], self.levels[-2::-1], strict=True):
            project = level.parent_key
            assert project is not None, "only the top of a path has no parent"
            # A partial view row begins with the row of `level`, so its positions hold there too.
            parents = {key: project(row) for key, row in joined.items()}
            parents = {key: parent for key, parent in parents.items() if None not in parent}
            await base.fetch(above.relation, parents.values())
            look_up = side(base, above.relation)
            joined = {
                key: parent_row + joined[key]
                for key, parent in parents.items()
                if (parent_row := look_up(parent)) is not None
            }
        return joined


def compile_path(catalog: Catalog, view: JoinView) -> JoinPath:
    """Compile the path of `view`; its columns must be the relations' columns, in path order."""
    levels: list[Level] = []
    start = 0
    for name, edge in zip(view.path, (None, *view.edges), strict=True):
        relation = catalog.schema.relation(name)
        end = start + len(relation.columns)
        in_view = tuple(column.column for column in view.columns[start:end])
        assert in_view == relation.column_names, f"{view.name}: columns are not the path's"
        references = () if edge is None else edge.columns
        parent_key = projection([relation.positions[column] for column in references])
        levels.append(
            Level(
                relation=name,
                start=start,
                end=end,
                key_in_view=projection([start + position for position in relation.key_positions]),
                parent_key=parent_key if references else None,
            )
        )
        start = end
    return JoinPath(tuple(levels))
