"""Changes of a schema in two stages: first the columns of a new primary key, then the key.

A copy whose rows move under another key finds their keys in the stored rows (`schema/copies.py`).
So the columns that the same change adds must be stored first: `ADD COLUMN id SERIAL PRIMARY KEY`,
and the row identity of a relation that has no key any more. The first stage adds them as hidden
columns, which no client sees. The second stage shows them, together with the key. If there is no
second stage, they are dropped (`undone`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from hornbeam_server.schema.altered import without_columns
from hornbeam_server.schema.counters import SEQUENCE
from hornbeam_server.schema.model import Column, Relation, Schema
from hornbeam_server.schema.row_identity import shared_identity_name
from hornbeam_server.schema.sequences import sequences_in


@dataclass(frozen=True, slots=True)
class FirstStage:
    """What comes before the rest of a change: the schema `base`, and the columns that some of its
    relations have besides, hidden."""

    base: Schema
    columns: tuple[tuple[str, Column], ...]


def first_stage(old: Schema, new: Schema) -> FirstStage | None:
    """The first stage from `old` to `new`: `old`, with the sequences of the columns that relations
    get together with a key of such columns. None if no relation gets such a key."""
    columns = tuple(
        (relation.name, column)
        for relation in new.relations
        if relation.name in old and _lacks_key(old.relation(relation.name), relation)
        for column in _added(old.relation(relation.name), relation)
    )
    if not columns:
        return None
    defaults = (column.default for _, column in columns)
    drawn = {name for each in defaults if each is not None for name in sequences_in(each.sql)}
    known = {sequence.name for sequence in old.sequences}
    added = (each for each in new.sequences if each.name in drawn - known)
    return FirstStage(replace(old, sequences=(*old.sequences, *added)), columns)


def with_hidden(schema: Schema, columns: tuple[tuple[str, Column], ...]) -> Schema:
    """The schema, whose relations have hidden columns besides."""

    def extended(relation: Relation) -> Relation:
        more = (column for name, column in columns if name == relation.name)
        return replace(relation, columns=(*relation.columns, *more))

    return replace(schema, relations=tuple(map(extended, schema.relations)))


def added_names(old: Schema, new: Schema) -> tuple[tuple[str, str], ...]:
    """The hidden columns that relations of `old` get in `new`, and the new sequences, as keys of
    counters (`schema/counters.py`)."""
    columns = (
        (relation.name, column.name)
        for relation in new.relations
        for column in relation.columns
        if relation.name in old
        and column.hidden
        and not column.dropped
        and column.name not in old.relation(relation.name).stored_names
    )
    known = {sequence.name for sequence in old.sequences}
    sequences = ((SEQUENCE, each.name) for each in new.sequences if each.name not in known)
    return (*columns, *sequences)


def undone(schema: Schema, added: Collection[tuple[str, str]]) -> Schema:
    """The schema without what a first stage has `added`."""
    relations = (
        without_columns(relation, {column for name, column in added if name == relation.name})
        for relation in schema.relations
    )
    sequences = (each for each in schema.sequences if (SEQUENCE, each.name) not in added)
    return replace(schema, relations=tuple(relations), sequences=tuple(sequences))


def _lacks_key(old: Relation, new: Relation) -> bool:
    """Gets the relation a key of columns that `old` does not have?"""
    moves = old.declared_key != new.declared_key and not shared_identity_name(old, new)
    return moves and not old.stored_names.issuperset(new.primary_key)


def _added(old: Relation, new: Relation) -> Iterator[Column]:
    """The columns that only `new` has, hidden."""
    for column in new.columns:
        if column.name not in old.stored_names:
            yield replace(column, hidden=True, domain=None)
