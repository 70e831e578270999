"""All system relations by name, and their rows as Arrow tables."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

import pyarrow as pa

from hornbeam_server.query.system import (
    activity,
    information_schema,
    pg_catalog,
    privileges,
    sizes,
)
from hornbeam_server.query.system.asking import Facts
from hornbeam_server.query.system.shapes import SystemRelation
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.model import INFORMATION_SCHEMA
from hornbeam_server.schema.namespaces import SYSTEM_CATALOG
from hornbeam_server.storage.codec.arrow import to_record_batch

_INTERNAL = "hornbeam "
"""How names of relations begin that PostgreSQL does not have: functions look values up there."""
_RELATIONS = MappingProxyType({
    each.full: each
    for module in (information_schema, pg_catalog, privileges, activity, sizes)
    for each in module.RELATIONS
})  # fmt: skip


def relation(space: str, name: str) -> SystemRelation | None:
    """The relation `name` of the system schema `space`; None if there is none."""
    return _RELATIONS.get(f"{space}.{name}")


def in_catalog(name: str) -> bool:
    """Is there a relation of this name in `pg_catalog`, which each search path begins with?"""
    return f"{SYSTEM_CATALOG}.{name}" in _RELATIONS


def in_information_schema(name: str) -> bool:
    return f"{INFORMATION_SCHEMA}.{name}" in _RELATIONS


def known(space: str) -> tuple[str, ...]:
    """The names with their schema of all relations of a system schema."""
    return tuple(each.full for each in _RELATIONS.values() if each.space == space)


def is_internal(name: str) -> bool:
    """Is it the name of a relation that only functions look into?"""
    return name.startswith(_INTERNAL)


def is_live(full: str) -> bool:
    """Do the rows of the relation `full` depend on more than the catalog?"""
    return _RELATIONS[full].live is not None


def live_table(full: str, catalog: Catalog, facts: Facts) -> pa.Table:
    """The rows of the live relation `full`, about the part of the catalog that is described."""
    relation = _RELATIONS[full]
    assert relation.live is not None
    rows = list(relation.live(catalog.described, facts))
    return pa.Table.from_batches([to_record_batch(relation.columns, rows)])


def table(full: str, catalog: Catalog, wanted: Iterable[str] | None = None) -> pa.Table:
    """The rows of the relation `full` about the part of the catalog that is described, with the
    columns `wanted` (None: all); at least one."""
    catalog = catalog.described
    found = catalog.derived.get(full)
    if not isinstance(found, pa.Table):
        described = _RELATIONS[full]
        batch = to_record_batch(described.columns, list(described.rows(catalog)))
        found = catalog.derived[full] = pa.Table.from_batches([batch])
    if wanted is None:
        return found
    names = set(wanted)
    return found.select([each for each in found.column_names if each in names] or [0])
