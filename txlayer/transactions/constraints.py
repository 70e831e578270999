"""The constraints that a transaction's net changes must meet before it may commit.

They are compiled once per catalog version into flat lists of checks. NOT NULL and CHECK are checked
when rows are made, primary keys when rows are inserted. Foreign keys and UNIQUE are checked here,
once, over the net changes: SQL's DEFERRED, which lets a transaction insert child and parent in
either order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from hornbeam_server.maintain.changes import Change
from hornbeam_server.maintain.indexes import condition_of, key_of
from hornbeam_server.query.expressions.declared import (
    GeneratedColumn,
    RowCheck,
    generated_columns,
    row_checks,
    with_generated,
)
from hornbeam_server.query.values.domains import domain_is_null
from hornbeam_server.schema.catalog import Catalog, Index
from hornbeam_server.schema.errors import NotNullViolation
from hornbeam_server.schema.graph import in_circles
from hornbeam_server.schema.model import Column, ForeignKey, Relation
from hornbeam_server.schema.rows import has_null, projection
from hornbeam_server.schema.types import Row, Value
from hornbeam_server.storage.codec.rows import Codecs

Columns = Callable[[Row], tuple[Value, ...]]


@dataclass(frozen=True, slots=True)
class ParentCheck:
    """A row of the relation references a row of `parent`, unless a column of it is NULL. `target`
    is the unique index that finds the row; None: it is found by its primary key."""

    foreign_key: ForeignKey
    values: Columns
    target: UniqueCheck | None
    same_root: bool
    """The foreign key is the tree edge: the parent lies under a root that the writer holds."""
    in_circle: bool
    """The relations reference each other in a circle, so a trial cannot require the other row."""

    def newly(self, change: Change) -> tuple[Value, ...] | None:
        """The key of the parent that a row references after `change` only."""
        return _newly(self.values, change)


@dataclass(frozen=True, slots=True)
class ChildCheck:
    """Rows of `child` may reference a row of the relation that is deleted or changed.

    `target` is the unique index on the referenced columns; None: they are the primary key. `path`
    names the layout that finds them by prefix: the child itself, an index, or None when
    only a scan does. `child_key` takes the child's primary key out of a row of that layout.
    """

    child: Relation
    foreign_key: ForeignKey
    target: UniqueCheck | None
    values: Columns
    """The key of a row of the parent, as children hold it."""
    parent_key: Columns
    """The key of its parent that a row of the child holds."""
    referencing: Callable[[Row, Row], Row]
    """The child's row with another key of its parent."""
    path: str | None
    child_key: Columns
    in_circle: bool

    def left(self, change: Change) -> tuple[Value, ...] | None:
        """The key, without NULL, that a row of the parent has before `change` only."""
        return _newly(self.values, Change(change.relation, change.new, change.old))

    def taken(self, change: Change) -> tuple[Value, ...] | None:
        """The key, without NULL, that a row of the parent has after `change` only."""
        return _newly(self.values, change)

    def moved(self, pair: tuple[Row, Row]) -> tuple[Row, Row] | None:
        """The key, without NULL, of a row of the parent, and its key afterwards; None if the key
        stays."""
        before, after = map(self.values, pair)
        return None if before == after or None in before else (before, after)


@dataclass(frozen=True, slots=True)
class UniqueCheck:
    """At most one row has the same `values`."""

    index: Index
    values: Callable[[Row], tuple[Value, ...] | None]
    """The values of a row that no other row may have; None: it has none, because it is not in a
    partial index, or one value is NULL and NULLs are distinct."""
    holder_key: Columns
    """Takes the primary key of the row that holds the entry out of an index row."""

    def freed_and_taken(self, change: Change) -> Iterator[tuple[Value, ...]]:
        """The values that a row has before or after `change` only."""
        both = [None if row is None else self.values(row) for row in (change.old, change.new)]
        if both[0] != both[1]:
            yield from (values for values in both if values is not None)

    def newly(self, change: Change) -> tuple[Value, ...] | None:
        """The values that a row has after `change` only."""
        values = None if change.new is None else self.values(change.new)
        if values is None or (change.old is not None and self.values(change.old) == values):
            return None
        return values


@dataclass(frozen=True, slots=True)
class RelationChecks:
    parents: tuple[ParentCheck, ...]
    children: tuple[ChildCheck, ...]
    unique: tuple[UniqueCheck, ...]
    not_null: tuple[int, ...]
    generated: tuple[GeneratedColumn, ...]
    row_checks: tuple[RowCheck, ...]
    defaults: tuple[tuple[int, Column], ...]
    """The columns with defaults, by position."""
    root_positions: frozenset[int]
    """Columns whose change can move a row: its key and its tree foreign key."""

    @property
    def computes(self) -> bool:
        """Are there expressions over each row?"""
        return bool(self.generated or self.row_checks)


class Constraints:
    """The checks of every relation under one catalog version."""

    def __init__(self, catalog: Catalog, codecs: Codecs) -> None:
        self._catalog = catalog
        self._codecs = codecs
        self._checks: dict[str, RelationChecks] = {}
        self._in_circles = {(child.name, fk.name) for child, fk in in_circles(catalog.schema)}

    def __getitem__(self, relation: str) -> RelationChecks:
        """The checks of a relation, compiled when it is first written. An expression that an older
        server could evaluate, and this one cannot, keeps writers from its relation alone. Raises
        SqlError for such an expression."""
        found = self._checks.get(relation)
        if found is None:
            compiled = self._compile(self._catalog.schema.relation(relation))
            found = self._checks[relation] = compiled
        return found

    def completed(self, relation: Relation, row: Row, number: int | None = None) -> Row:
        """`row` with the values of its generated columns. Raises NotNullViolation for a NULL in it,
        CheckViolation, and the errors of expressions. `number` is the place of the row among
        several."""
        checks = self[relation.name]
        if checks.generated:
            row = with_generated(checks.generated, row)
        if has_null(row):
            _require_values(relation, row, checks.not_null, number)
        for check in checks.row_checks:
            check.require(row, number)
        return row

    def _compile(self, relation: Relation) -> RelationChecks:
        catalog = self._catalog
        tree = catalog.forest.parent.get(relation.name)
        key_positions = set(relation.key_positions)
        tree_positions = {relation.positions[c] for c in tree.columns} if tree else set()
        return RelationChecks(
            parents=tuple(
                ParentCheck(
                    fk,
                    _columns(relation, fk.columns),
                    self._target(fk),
                    fk == tree,
                    (relation.name, fk.name) in self._in_circles,
                )
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
            generated=generated_columns(relation),
            row_checks=row_checks(relation),
            defaults=tuple(
                (i, column)
                for i, column in enumerate(relation.columns)
                if column.default is not None
            ),
            root_positions=frozenset(key_positions | tree_positions),
        )

    def _child_check(self, parent: Relation, child: Relation, fk: ForeignKey) -> ChildCheck:
        path = self._path_to(child, fk.columns)
        layout = self._catalog.layout(path or child.name)
        return ChildCheck(
            child,
            fk,
            self._target(fk),
            _columns(parent, fk.parent_columns),
            _columns(child, fk.columns),
            _referencing(child, fk),
            path,
            projection([layout.positions[column] for column in child.primary_key]),
            (child.name, fk.name) in self._in_circles,
        )

    def _path_to(self, child: Relation, columns: tuple[str, ...]) -> str | None:
        """A layout whose key begins with `columns`, in this order: the child or an index."""
        if child.primary_key[: len(columns)] == columns:
            return child.name
        for index in self._catalog.whole_indexes_on(child.name):
            leading = tuple(part.column for part in index.columns[: len(columns)])
            if leading == columns and self._catalog.readable(index.name):
                return index.name
        return None

    def _target(self, fk: ForeignKey) -> UniqueCheck | None:
        """The unique index on the columns that `fk` references; None: they are a primary key."""
        if not fk.to_unique:
            return None
        index = self._catalog.unique_index(fk)
        return self._unique_check(self._catalog.schema.relation(fk.parent), index)

    def _unique_check(self, relation: Relation, index: Index) -> UniqueCheck:
        layout = self._catalog.layout(index.name)
        columns = key_of(self._catalog, index)
        return UniqueCheck(
            index,
            _taken(columns, condition_of(self._catalog, index.name), index.nulls_distinct),
            projection([layout.positions[column] for column in relation.primary_key]),
        )


def _require_values(
    relation: Relation, row: Row, positions: Iterable[int], number: int | None
) -> None:
    """Raises NotNullViolation if the row has NULL at one of the positions."""
    for position in positions:
        if row[position] is None:
            name, domain = relation.columns[position].name, relation.columns[position].domain
            if domain is not None and not domain.not_null:
                error = domain_is_null(domain.name)
                error.details |= {"relation": relation.name, "row": number}
                raise error
            raise NotNullViolation(
                f"{relation.name}.{name} must not be NULL.",
                cure=f"Give {name} a value.",
                relation=relation.name,
                column=name,
                row=number,
            )


def _taken(
    columns: Columns, holds: Callable[[Row], bool] | None, nulls_distinct: bool
) -> Callable[[Row], tuple[Value, ...] | None]:
    """The values of a row in a unique index that no other row may have."""

    def taken(row: Row) -> tuple[Value, ...] | None:
        if holds is not None and not holds(row):
            return None
        values = columns(row)
        return None if nulls_distinct and None in values else values

    return taken


def _newly(project: Columns, change: Change) -> tuple[Value, ...] | None:
    if change.new is None:
        return None
    values = project(change.new)
    if None in values or (change.old is not None and project(change.old) == values):
        return None
    return values


def _referencing(child: Relation, fk: ForeignKey) -> Callable[[Row, Row], Row]:
    places = {child.positions[column]: i for i, column in enumerate(fk.columns)}

    def referencing(row: Row, key: Row) -> Row:
        return tuple([key[places[i]] if i in places else v for i, v in enumerate(row)])

    return referencing


def _columns(relation: Relation, names: Sequence[str]) -> Columns:
    return projection([relation.positions[name] for name in names])
