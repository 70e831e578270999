"""What must hold of a transaction's net changes before it may commit.

Compiled once per catalog version into flat lists of checks. NOT NULL is checked as rows are made;
primary keys as rows are inserted; foreign keys and UNIQUE here, once, over the net changes: SQL's
DEFERRED, which lets a transaction insert child and parent in either order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from schema.catalog import Catalog, Index
from schema.errors import NotNullViolation
from schema.model import ForeignKey, OnDelete, Relation
from schema.rows import projection
from schema.types import Row, Value
from storage.codec.rows import Codecs

Columns = Callable[[Row], tuple[Value, ...]]


@dataclass(frozen=True, slots=True)
class ParentCheck:
    """A row of the relation references a row of `parent`, unless a column of it is NULL."""

    foreign_key: ForeignKey
    values: Columns
    same_root: bool
    """The foreign key is the tree edge: the parent lies under a root that the writer holds."""


@dataclass(frozen=True, slots=True)
class ChildCheck:
    """Rows of `child` may reference a row of the relation that is deleted.

    `path` names the layout that finds them by prefix: the child itself, an index, or None when
    only a scan does. `child_key` takes the child's primary key out of a row of that layout.
    """

    child: Relation
    foreign_key: ForeignKey
    values: Columns
    """The key of a row of the parent, as children hold it."""
    parent_key: Columns
    """The key of its parent that a row of the child holds."""
    nulls: Callable[[Row], Row]
    """The child's row with the foreign key set to NULL."""
    path: str | None
    child_key: Columns

    @property
    def restricts(self) -> bool:
        return self.foreign_key.on_delete is OnDelete.RESTRICT


@dataclass(frozen=True, slots=True)
class UniqueCheck:
    """At most one row per `values` without NULLs."""

    index: Index
    values: Columns
    holder_key: Columns
    """From an index row to the primary key of the row that holds the entry."""


@dataclass(frozen=True, slots=True)
class RelationChecks:
    parents: tuple[ParentCheck, ...]
    children: tuple[ChildCheck, ...]
    unique: tuple[UniqueCheck, ...]
    not_null: tuple[int, ...]
    root_positions: frozenset[int]
    """Columns whose change can move a row: its key and its tree foreign key."""


class Constraints:
    """The checks of every relation under one catalog version."""

    def __init__(self, catalog: Catalog, codecs: Codecs) -> None:
        self._catalog = catalog
        self._codecs = codecs
        self._checks = {r.name: self._compile(r) for r in catalog.schema.relations}

    def __getitem__(self, relation: str) -> RelationChecks:
        return self._checks[relation]

    def require_values(self, relation: Relation, row: Row, number: int | None = None) -> None:
        """Raises NotNullViolation, which names the row by its number among many."""
        for position in self._checks[relation.name].not_null:
            if row[position] is None:
                name = relation.columns[position].name
                raise NotNullViolation(
                    f"{relation.name}.{name} must not be NULL.",
                    cure=f"Give {name} a value.",
                    relation=relation.name,
                    column=name,
                    row=number,
                )

    def _compile(self, relation: Relation) -> RelationChecks:
        catalog = self._catalog
        tree = catalog.forest.parent.get(relation.name)
        key_positions = set(relation.key_positions)
        tree_positions = {relation.positions[c] for c in tree.columns} if tree else set()
        return RelationChecks(
            parents=tuple(
                ParentCheck(fk, _columns(relation, fk.columns), fk == tree)
                for fk in relation.foreign_keys
            ),
            children=tuple(
                self._child_check(relation, child, fk)
                for child, fk in catalog.schema.children(relation.name)
            ),
            unique=tuple(
                self._unique_check(relation, index)
                for index in catalog.indexes_on(relation.name)
                if index.unique and catalog.maintained(index.name)
            ),
            not_null=tuple(i for i, c in enumerate(relation.columns) if not c.nullable),
            root_positions=frozenset(key_positions | tree_positions),
        )

    def _child_check(self, parent: Relation, child: Relation, fk: ForeignKey) -> ChildCheck:
        path = self._path_to(child, fk.columns)
        layout = self._catalog.layout(path or child.name)
        positions = {child.positions[column] for column in fk.columns}
        return ChildCheck(
            child,
            fk,
            _columns(parent, fk.parent_columns),
            _columns(child, fk.columns),
            lambda row: tuple(None if i in positions else v for i, v in enumerate(row)),
            path,
            projection([layout.positions[column] for column in child.primary_key]),
        )

    def _path_to(self, child: Relation, columns: tuple[str, ...]) -> str | None:
        """A layout whose key begins with `columns`, in this order: the child or an index."""
        if child.primary_key[: len(columns)] == columns:
            return child.name
        for index in self._catalog.indexes_on(child.name):
            leading = tuple(part.column for part in index.columns[: len(columns)])
            if leading == columns and self._catalog.readable(index.name):
                return index.name
        return None

    def _unique_check(self, relation: Relation, index: Index) -> UniqueCheck:
        layout = self._catalog.layout(index.name)
        return UniqueCheck(
            index,
            _columns(relation, [part.column for part in index.columns]),
            projection([layout.positions[column] for column in relation.primary_key]),
        )


def _columns(relation: Relation, names: Sequence[str]) -> Columns:
    return projection([relation.positions[name] for name in names])
