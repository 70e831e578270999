"""Name spaces: schemas in PostgreSQL's sense.

A relation, view or index of the schema `public` is known by its name alone, one of another schema
by its full name `schema.name`. Below the readers of SQL a full name is one string without parts.
The names of schemas hold no dot, so the first dot of a full name ends the schema's name. A name of
`public` may hold dots, but it does not begin with another schema's name and a dot
(`build.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hornbeam_server.schema.model import INFORMATION_SCHEMA, PUBLIC, Relation, Schema

SYSTEM_CATALOG = "pg_catalog"
SYSTEM_SCHEMAS = frozenset({INFORMATION_SCHEMA, SYSTEM_CATALOG})
"""Schemas that a user neither makes nor drops."""


def joined(space: str, name: str) -> str:
    """The full name of `name` in the schema `space`."""
    return name if space == PUBLIC else f"{space}.{name}"


def parted(full: str, spaces: Collection[str]) -> tuple[str, str]:
    """The schema and the name of a full name. `spaces` are the schemas besides `public`."""
    space, dot, name = full.partition(".")
    return (space, name) if dot and space in spaces else (PUBLIC, full)


def bare(full: str, spaces: Collection[str]) -> str:
    """The name without its schema."""
    return parted(full, spaces)[1]


def beside(full: str, name: str, spaces: Collection[str]) -> str:
    """The full name of `name` in the schema of `full`."""
    return joined(parted(full, spaces)[0], name)


def default_key_name(relation: str, spaces: Collection[str]) -> str:
    """The name that PostgreSQL gives to the primary key of a relation, without its schema."""
    return f"{bare(relation, spaces)}_pkey"


def key_name(relation: Relation, spaces: Collection[str]) -> str:
    """The name of the primary key of a relation, without its schema; "" if it has none."""
    if not relation.declared_key:
        return ""
    return relation.key_name or default_key_name(relation.name, spaces)


def relations_by_key(schema: Schema) -> dict[str, str]:
    """The relation of each primary key, by the full name of the key."""
    spaces = schema.spaces
    keyed = (each for each in schema.relations if each.declared_key)
    return {beside(each.name, key_name(each, spaces), spaces): each.name for each in keyed}


def existing(path: Sequence[str], spaces: Collection[str]) -> tuple[str, ...]:
    """The schemas of a search path that exist. As in PostgreSQL, others are passed over."""
    known = {PUBLIC, *SYSTEM_SCHEMAS, *spaces}
    return tuple(dict.fromkeys(space for space in path if space in known))
