"""Names of constraints and indexes in a schema, for `node/alterations.py`."""

from __future__ import annotations

from dataclasses import replace

from hornbeam_server.schema.model import Schema
from hornbeam_server.schema.namespaces import bare, beside, key_name


def constraints(schema: Schema, table: str) -> list[str]:
    """The names of the constraints of a relation, except that of its key."""
    relation = schema.relation(table)
    keys = (key.name for key in relation.foreign_keys)
    checks = (check.name for check in relation.own_checks)
    unique = (
        bare(i.name, schema.spaces) for i in schema.indexes if i.unique and i.relation == table
    )
    return [*keys, *checks, *unique]


def with_constraint_name(schema: Schema, table: str, old: str, new: str) -> Schema:
    """The schema, in which a constraint of a relation has another name."""
    relation = schema.relation(table)
    changed = replace(
        relation,
        foreign_keys=tuple(
            replace(key, name=new) if key.name == old else key for key in relation.foreign_keys
        ),
        checks=tuple(
            replace(check, name=new) if check.name == old else check for check in relation.checks
        ),
        key_name=new if key_name(relation, schema.spaces) == old else relation.key_name,
    )
    relations = tuple(changed if each is relation else each for each in schema.relations)
    before, after = (beside(table, name, schema.spaces) for name in (old, new))
    return with_index_name(replace(schema, relations=relations), before, after, table)


def with_index_name(schema: Schema, old: str, new: str, relation: str) -> Schema:
    """The schema, in which an index of a relation has another name."""
    return replace(
        schema,
        indexes=tuple(
            replace(index, name=new) if (index.name, index.relation) == (old, relation) else index
            for index in schema.indexes
        ),
    )
