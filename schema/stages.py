"""Changes of a schema in two stages: first the columns of a new primary key, then the key.

A copy whose rows move under another key finds their keys in the stored rows (`schema/copies.py`).
So the columns that the same change adds must be stored first: `ADD COLUMN id SERIAL PRIMARY KEY`.
"""

from __future__ import annotations

from dataclasses import replace

from hornbeam_server.schema.model import Relation, Schema
from hornbeam_server.schema.sequences import sequences_in


def first_stage(old: Schema, new: Schema) -> Schema | None:
    """The schema before relations get keys of columns that `old` does not have: `old`, in which
    these relations have the columns that they get. None if no relation gets such a key."""
    stages = {
        relation.name: _extended(old.relation(relation.name), relation)
        for relation in new.relations
        if relation.name in old and _lacks_key(old.relation(relation.name), relation)
    }
    if not stages:
        return None
    relations = tuple(stages.get(relation.name, relation) for relation in old.relations)
    drawn = {
        name
        for relation in stages.values()
        for column in relation.visible
        if column.default is not None
        for name in sequences_in(column.default.sql)
    }
    known = {sequence.name for sequence in old.sequences}
    added = (each for each in new.sequences if each.name in drawn - known)
    return replace(old, relations=relations, sequences=(*old.sequences, *added))


def _lacks_key(old: Relation, new: Relation) -> bool:
    """Gets the relation a key of columns that `old` does not have?"""
    return not set(new.declared_key) <= set(old.visible_names)


def _extended(old: Relation, new: Relation) -> Relation:
    """The relation `old` with the columns that only `new` has."""
    added = (column for column in new.visible if column.name not in old.visible_names)
    return replace(old, columns=(*old.columns, *added))
