"""The changes from one schema to the next, and the changes among them that are refused.

A schema change never rewrites rows. Relations, indexes and foreign keys can be added and dropped,
columns can be appended (rows written before read the literal default, or NULL), and a column can
be relaxed (NULL, longer text). Changes that would give stored rows another meaning are refused,
with the reason and a cure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hornbeam_server.schema.model import (
    Action,
    Check,
    Column,
    DeclaredIndex,
    DeclaredView,
    DefaultKind,
    ForeignKey,
    Refresh,
    Relation,
    Schema,
)
from hornbeam_server.schema.render import render_identity
from hornbeam_server.schema.types import Kind


@dataclass(frozen=True, slots=True)
class Refusal:
    """A change that cannot be made; `name` is the column or the relation's own name."""

    relation: str
    name: str
    change: str
    reason: str
    cure: str


@dataclass(frozen=True, slots=True)
class DiffRow:
    """One line for display: ("add", "column", "item.i_weight", "DOUBLE")."""

    action: str
    kind: str
    name: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SchemaDiff:
    """The changes between two schemas. Pairs are (relation, object). A changed foreign key, CHECK,
    index or view is dropped and added.

    `relaxed_columns` now accept NULL or longer text, as given; `renumbered_columns` have new
    options for their next numbers. The indexes and constraints of a dropped relation are dropped
    with it and not listed. Nor are the constraints of an added relation; its indexes are listed.
    """

    added_relations: tuple[Relation, ...] = ()
    dropped_relations: tuple[Relation, ...] = ()
    appended_columns: tuple[tuple[str, Column], ...] = ()
    relaxed_columns: tuple[tuple[str, Column], ...] = ()
    renumbered_columns: tuple[tuple[str, Column], ...] = ()
    added_indexes: tuple[DeclaredIndex, ...] = ()
    dropped_indexes: tuple[DeclaredIndex, ...] = ()
    added_foreign_keys: tuple[tuple[str, ForeignKey], ...] = ()
    dropped_foreign_keys: tuple[tuple[str, ForeignKey], ...] = ()
    added_checks: tuple[tuple[str, Check], ...] = ()
    dropped_checks: tuple[tuple[str, Check], ...] = ()
    added_views: tuple[DeclaredView, ...] = ()
    dropped_views: tuple[DeclaredView, ...] = ()
    refused: tuple[Refusal, ...] = ()

    def __bool__(self) -> bool:
        return any(True for _ in self.rows())

    def rows(self) -> Iterator[DiffRow]:
        """All changes in a fixed order; refused changes come last."""
        for relation in self.dropped_relations:
            yield DiffRow("drop", "relation", relation.name)
        for relation in self.added_relations:
            yield DiffRow("add", "relation", relation.name, f"{len(relation.visible)} columns")
        for owner, column in self.appended_columns:
            yield DiffRow("add", "column", f"{owner}.{column.name}", _described(column))
        for owner, column in self.relaxed_columns:
            yield DiffRow("relax", "column", f"{owner}.{column.name}", _described(column))
        for owner, column in self.renumbered_columns:
            assert column.default is not None
            detail = render_identity(column.default.identity)
            yield DiffRow("change", "identity", f"{owner}.{column.name}", detail)
        yield from self._constraint_rows()
        for action, indexes in (("drop", self.dropped_indexes), ("add", self.added_indexes)):
            for index in indexes:
                yield DiffRow(action, "index", index.name, _indexed(index))
        for action, views in (("drop", self.dropped_views), ("add", self.added_views)):
            for view in views:
                yield DiffRow(action, "view", view.name, refreshed(view))
        for refusal in self.refused:
            name = refusal.name if refusal.name == refusal.relation else _qualified(refusal)
            yield DiffRow("refuse", refusal.change, name, f"{refusal.reason}; {refusal.cure}")

    def _constraint_rows(self) -> Iterator[DiffRow]:
        for action, keys in (("drop", self.dropped_foreign_keys), ("add", self.added_foreign_keys)):
            for owner, key in keys:
                yield DiffRow(action, "foreign key", f"{owner}.{key.name}", _target(key))
        for action, checks in (("drop", self.dropped_checks), ("add", self.added_checks)):
            for owner, check in checks:
                yield DiffRow(action, "check", f"{owner}.{check.name}", check.sql)


def _qualified(refusal: Refusal) -> str:
    return f"{refusal.relation}.{refusal.name}"


def _described(column: Column) -> str:
    return column.type.ddl() + ("" if column.nullable else " NOT NULL")


def _target(key: ForeignKey) -> str:
    columns, to = ", ".join(key.columns), key.parent
    if key.to_unique:
        to += f" ({', '.join(key.parent_columns)})"
    text = f"({columns}) references {to}, on delete {key.on_delete.value}"
    if key.on_update is Action.RESTRICT:
        return text
    return f"{text}, on update {key.on_update.value}"


def _indexed(index: DeclaredIndex) -> str:
    columns = ", ".join(p.column + (" desc" if p.descending else "") for p in index.columns)
    unique = "unique " if index.unique else ""
    include = f" include ({', '.join(index.include)})" if index.include else ""
    return f"{unique}on {index.relation} ({columns}){include}"


def refreshed(view: DeclaredView) -> str:
    """How a declared view is kept, for display."""
    if view.refresh is Refresh.IMMEDIATE:
        return "immediate"
    if view.refresh is Refresh.PLAIN:
        return "a name for a SELECT"
    if view.refresh is Refresh.RECOMPUTE:
        return f"recomputed, every {view.interval_s:g} s, group {view.group}"
    return f"deferred, every {view.interval_s:g} s, group {view.group}"


def diff(old: Schema, new: Schema) -> SchemaDiff:
    """All changes from `old` to `new`, both valid. Relations and columns are matched by name."""
    kept = [(old.relation(r.name), r) for r in new.relations if r.name in old]
    added_keys = [(n.name, key) for o, n in kept for key in n.foreign_keys]
    dropped_keys = [(o.name, key) for o, n in kept for key in o.foreign_keys]
    added_checks = [(n.name, check) for o, n in kept for check in n.checks]
    dropped_checks = [(o.name, check) for o, n in kept for check in o.checks]
    relaxed = [(n.name, c) for o, n in kept for c in _relaxed(o, n)]
    renumbered = [(n.name, c) for o, n in kept for c in _renumbered(o, n)]
    stay = {relation.name for _, relation in kept}
    stay |= {view.name for view in new.views} & {view.name for view in old.views}
    return SchemaDiff(
        added_relations=tuple(r for r in new.relations if r.name not in old),
        dropped_relations=tuple(r for r in old.relations if r.name not in new),
        appended_columns=tuple(
            (n.name, c) for o, n in kept for c in n.visible if c.name not in o.visible_names
        ),
        relaxed_columns=tuple(relaxed),
        renumbered_columns=tuple(renumbered),
        added_indexes=tuple(i for i in new.indexes if i not in old.indexes),
        dropped_indexes=tuple(
            i for i in old.indexes if i not in new.indexes and i.relation in stay
        ),
        added_foreign_keys=tuple(pair for pair in added_keys if pair not in dropped_keys),
        dropped_foreign_keys=tuple(pair for pair in dropped_keys if pair not in added_keys),
        added_checks=tuple(pair for pair in added_checks if pair not in dropped_checks),
        dropped_checks=tuple(pair for pair in dropped_checks if pair not in added_checks),
        added_views=tuple(view for view in new.views if view not in old.views),
        dropped_views=tuple(view for view in old.views if view not in new.views),
        refused=tuple(refusal for o, n in kept for refusal in _refusals(o, n)),
    )


def _both(old: Relation, new: Relation) -> Iterator[tuple[Column, Column]]:
    for column in new.visible:
        if column.name in old.visible_names:
            yield old.column(column.name), column


def _widens(before: Column, after: Column) -> bool:
    """Is the new type the same text type with a greater length?"""
    if before.type.kind is not Kind.TEXT or after.type.kind is not Kind.TEXT:
        return False
    shorter, longer = before.type.length, after.type.length
    return shorter is not None and (longer is None or longer > shorter)


def _relaxed(old: Relation, new: Relation) -> Iterable[Column]:
    for before, after in _both(old, new):
        if _widens(before, after) or (after.nullable and not before.nullable):
            yield after


def _renumbered(old: Relation, new: Relation) -> Iterable[Column]:
    for before, after in _both(old, new):
        if before.default != after.default and _are_identities(before, after):
            yield after


def _are_identities(*columns: Column) -> bool:
    return all(column.default_kind is DefaultKind.IDENTITY for column in columns)


def _is_generated(*columns: Column) -> bool:
    """Is one of the columns generated?"""
    return any(column.default_kind is DefaultKind.GENERATED for column in columns)


def _refusals(old: Relation, new: Relation) -> Iterator[Refusal]:
    yield from _refused_order(old, new)
    yield from _refused_key(old, new)
    for before, after in _both(old, new):
        yield from _refused_column(new.name, before, after)
    for column in new.visible:
        if column.name not in old.visible_names:
            yield from _refused_append(new.name, column)


def _refused_key(old: Relation, new: Relation) -> Iterator[Refusal]:
    """Refuse another primary key, and a column that has the name of the row identity."""
    if old.declared_key != new.declared_key:
        under = "their primary key" if old.declared_key else "a hidden number of their own"
        yield Refusal(
            new.name,
            new.name,
            "primary key",
            f"rows are stored under {under}",
            "make a relation with the new key under another name and copy the rows",
        )
    elif old.primary_key != new.primary_key:
        (name,) = old.primary_key
        yield Refusal(
            new.name,
            name,
            "new column",
            "the hidden number of the rows has this name",
            "choose another name",
        )


def _refused_order(old: Relation, new: Relation) -> Iterator[Refusal]:
    """Refuse an order of columns unless all old columns come first, in the old order."""
    lost = [name for name in old.visible_names if name not in new.visible_names]
    for name in lost:
        yield Refusal(
            new.name,
            name,
            "drop or rename of a column",
            "stored rows keep all their columns, in order",
            "keep the column; select what you need, or copy the rows to a new relation",
        )
    kept = [name for name in old.visible_names if name not in lost]
    if list(new.visible_names[: len(kept)]) != kept:
        yield Refusal(
            new.name,
            new.name,
            "order of columns",
            "columns are only ever appended; rows are stored in this order",
            f"begin with {', '.join(old.visible_names)}",
        )


def _refused_column(relation: str, before: Column, after: Column) -> Iterator[Refusal]:
    if before.type != after.type and not _widens(before, after):
        yield Refusal(
            relation,
            after.name,
            "type",
            f"stored values are {before.type.ddl()}, not {after.type.ddl()}",
            f"write {before.type.ddl()}, or append a column of the new type and fill it by UPDATE",
        )
    if before.nullable and not after.nullable:
        yield Refusal(
            relation,
            after.name,
            "not null",
            "stored rows may hold NULL",
            "append a NOT NULL column with a default, or check in the application",
        )
    if before.default != after.default and _is_generated(before, after):
        yield Refusal(
            relation,
            after.name,
            "generated column",
            "stored rows have the values that they were written with",
            "keep the expression, or make a relation with another one and copy the rows",
        )
    elif before.default != after.default and not _are_identities(before, after):
        yield Refusal(
            relation,
            after.name,
            "default",
            "rows older than the column read its default",
            "keep the default and give the value in INSERT",
        )


def _refused_append(relation: str, column: Column) -> Iterator[Refusal]:
    if _is_generated(column):
        yield Refusal(
            relation,
            column.name,
            "new column",
            "it is generated, and stored rows have no value for it",
            "append a plain column and fill it by UPDATE, or make a new relation and copy the rows",
        )
        return
    if not column.nullable and column.default_kind is not DefaultKind.LITERAL:
        yield Refusal(
            relation,
            column.name,
            "new column",
            "it is NOT NULL and stored rows have no value for it",
            "allow NULL, or give it a literal default",
        )
