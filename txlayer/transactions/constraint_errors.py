"""The errors of primary keys, foreign keys and UNIQUE."""

from __future__ import annotations

from collections.abc import Sequence

from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import ForeignKeyViolation, UniqueViolation
from hornbeam_server.schema.identifiers import identifier
from hornbeam_server.schema.model import ForeignKey, Relation
from hornbeam_server.schema.namespaces import key_name
from hornbeam_server.schema.sqltext import literal_sql, shown
from hornbeam_server.schema.types import Value
from hornbeam_server.txlayer.statements.identity_columns import Numbers
from hornbeam_server.txlayer.transactions.constraints import UniqueCheck


def parent_missing(
    relation: str, foreign_key: ForeignKey, key: tuple[Value, ...]
) -> ForeignKeyViolation:
    """The error for a row of `relation` that references a `key` without a row."""
    parent = foreign_key.parent
    return ForeignKeyViolation(
        f"{relation} references {parent} {shown(foreign_key.columns, key)}, which does not exist.",
        cure=f"Insert the row of {parent} first, or in the same transaction.",
        relation=relation,
        constraint=foreign_key.name,
        key=[literal_sql(value) for value in key],
    )


def values_taken(
    catalog: Catalog,
    identity: Numbers,
    relation: str,
    check: UniqueCheck,
    values: tuple[Value, ...],
) -> UniqueViolation:
    """The error for `values` of a unique index that another row has."""
    columns = tuple(part.column for part in check.index.columns)
    return UniqueViolation(
        f"{relation} has a row with {shown(columns, values)} already.",
        cure=numbers_cure(catalog, identity, relation, columns, values)
        or "Use another value, or ON CONFLICT.",
        relation=relation,
        constraint=check.index.name,
    )


def key_taken(
    catalog: Catalog, identity: Numbers, relation: Relation, values: tuple[Value, ...]
) -> UniqueViolation:
    """The error for a primary key that another row has."""
    name, columns = relation.name, relation.primary_key
    return UniqueViolation(
        f"{name} has a row with this primary key already: {shown(columns, values)}.",
        cure=numbers_cure(catalog, identity, name, columns, values)
        or "Use another key, or ON CONFLICT with the primary key as its target.",
        relation=name,
        constraint=key_name(relation, catalog.schema.spaces) or "primary key",
    )


def numbers_cure(
    catalog: Catalog,
    identity: Numbers,
    relation: str,
    columns: Sequence[str],
    values: Sequence[Value],
) -> str | None:
    """The cure for an identity column that has given a number which a row has already. None if
    the statement itself gave the `values`."""
    for column, value in zip(columns, values, strict=True):
        if (relation, column, value) in identity.taken:
            table, name = catalog.counters[relation, column].written, identifier(column)
            return (
                f"Identity column {column} lies behind numbers that rows were given: ALTER"
                f" TABLE {table} ALTER COLUMN {name} RESTART WITH n, where n is free and behind"
                f" (SELECT max({name}) FROM {table})."
            )
    return None
