"""`pg_catalog`: the relations of PostgreSQL's system catalog, about the schema in force.

All relations have the columns of PostgreSQL (`postgresql.py`). Those without a function here are
empty: Hornbeam has nothing that they are about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from hornbeam_server.query.dialect.settings import all_settings
from hornbeam_server.query.system import comments, definitions, postgresql, schema_rows
from hornbeam_server.query.system.activity import activity
from hornbeam_server.query.system.asking import Facts
from hornbeam_server.query.system.definitions import index_definition
from hornbeam_server.query.system.objects import Class, Objects, objects_of
from hornbeam_server.query.system.oids import DATABASE_OID, OWNER
from hornbeam_server.query.system.postgresql import Described, Given
from hornbeam_server.query.system.shapes import BIGINT, INTEGER, TEXT, SystemRelation
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.model import DATABASE, Column
from hornbeam_server.schema.namespaces import SYSTEM_CATALOG
from hornbeam_server.schema.types import Row, Value

TEXTS = "hornbeam texts"
"""The relation in which functions such as pg_get_indexdef look up their values."""
_UTF8 = 6


def _databases(_: Objects) -> Iterator[Given]:
    yield {
        "oid": DATABASE_OID,
        "datname": DATABASE,
        "datdba": OWNER,
        "encoding": _UTF8,
        "datlocprovider": "c",
        "datallowconn": True,
        "datconnlimit": -1,
        "datcollate": "C",
        "datctype": "C.UTF-8",
        "dattablespace": 1663,
    }


def _roles(_: Objects) -> Iterator[Given]:
    yield {
        "oid": OWNER,
        "rolname": DATABASE,
        "rolsuper": True,
        "rolinherit": True,
        "rolcreaterole": True,
        "rolcreatedb": True,
        "rolcanlogin": True,
        "rolreplication": False,
        "rolbypassrls": True,
        "rolconnlimit": -1,
    }


def _users(_: Objects) -> Iterator[Given]:
    yield {"usename": DATABASE, "usesysid": OWNER, "usesuper": True, "usecreatedb": True}


def _settings(_: Objects) -> Iterator[Given]:
    for name, value, description in all_settings():
        yield {
            "name": name,
            "setting": value,
            "category": "Hornbeam",
            "short_desc": description,
            "context": "user",
            "vartype": "string",
            "source": "default",
            "boot_val": value,
            "reset_val": value,
            "pending_restart": False,
        }


def _of_kind(objects: Objects, kind: str) -> Iterator[tuple[Class, str, str]]:
    for each in objects.classes:
        if each.kind == kind:
            yield each, *objects.space_and_name(each.full)


def _tables(objects: Objects) -> Iterator[Given]:
    indexed = {index.on for index in objects.indexes}
    linked = schema_rows.with_foreign_keys(objects)
    for each, space, name in _of_kind(objects, "r"):
        yield {
            "schemaname": space,
            "tablename": name,
            "tableowner": DATABASE,
            "hasindexes": each.full in indexed,
            "hasrules": False,
            "hastriggers": each.full in linked,
            "rowsecurity": False,
        }


def _views(objects: Objects) -> Iterator[Given]:
    texts = dict(definitions.view_definitions(objects))
    for each, space, name in _of_kind(objects, "v"):
        yield {
            "schemaname": space,
            "viewname": name,
            "viewowner": DATABASE,
            "definition": texts[each.oid],
        }


def _materialized_views(objects: Objects) -> Iterator[Given]:
    texts = dict(definitions.view_definitions(objects))
    for each, space, name in _of_kind(objects, "m"):
        yield {
            "schemaname": space,
            "matviewname": name,
            "matviewowner": DATABASE,
            "hasindexes": False,
            "ispopulated": True,
            "definition": texts[each.oid],
        }


def _indexes(objects: Objects) -> Iterator[Given]:
    for index in objects.indexes:
        space, name = objects.space_and_name(index.full)
        yield {
            "schemaname": space,
            "tablename": objects.space_and_name(index.on)[1],
            "indexname": name,
            "indexdef": index_definition(index, objects),
        }


def _sequences(objects: Objects) -> Iterator[Given]:
    for each in objects.sequences:
        space, name = objects.space_and_name(each.full)
        yield {
            "schemaname": space,
            "sequencename": name,
            "sequenceowner": DATABASE,
            "data_type": objects.oid_of_type(each.type),
            "start_value": each.numbers.start,
            "min_value": each.bounds[0],
            "max_value": each.bounds[1],
            "increment_by": each.numbers.increment,
            "cycle": each.cycle,
            "cache_size": 1,
        }


_ROWS: dict[str, Callable[[Objects], Iterable[Given]]] = {
    "pg_attrdef": schema_rows.defaults,
    "pg_attribute": schema_rows.attributes,
    "pg_authid": _roles,
    "pg_class": schema_rows.classes,
    "pg_constraint": schema_rows.constraints,
    "pg_database": _databases,
    "pg_depend": schema_rows.dependencies,
    "pg_description": comments.descriptions,
    "pg_enum": schema_rows.labels,
    "pg_index": schema_rows.indexes,
    "pg_indexes": _indexes,
    "pg_matviews": _materialized_views,
    "pg_namespace": schema_rows.namespaces,
    "pg_roles": _roles,
    "pg_sequence": schema_rows.sequences,
    "pg_sequences": _sequences,
    "pg_shdescription": comments.shared_descriptions,
    "pg_settings": _settings,
    "pg_tables": _tables,
    "pg_type": schema_rows.types,
    "pg_user": _users,
    "pg_views": _views,
}
"""The rows of each relation that is about the schema or the server, besides recorded ones."""

_LIVE: dict[str, Callable[[Objects, Facts], Iterable[Given]]] = {"pg_stat_activity": activity}
"""The rows of live relations."""


def _rows(described: Described, catalog: Catalog) -> Iterator[Row]:
    of_schema = _ROWS.get(described.name)
    given = [*postgresql.rows(described.name)]
    if of_schema is not None:
        given += of_schema(objects_of(catalog))
    return _in_order(described, given)


def _live_rows(described: Described, catalog: Catalog, facts: Facts) -> Iterator[Row]:
    return _in_order(described, _LIVE[described.name](objects_of(catalog), facts))


def _in_order(described: Described, given: Iterable[Given]) -> Iterator[Row]:
    """The rows with all columns of the relation."""
    columns = [
        (name, postgresql.zero(type_) if not_null else None)
        for name, type_, not_null in described.columns
    ]
    for row in given:
        yield tuple(_value(row.get(name, missing)) for name, missing in columns)


def _value(value: Any) -> Value:
    return tuple(value) if isinstance(value, list) else value


def _relation(described: Described) -> SystemRelation:
    columns = tuple(
        Column(name, postgresql.column_type(type_)) for name, type_, _ in described.columns
    )
    types = tuple(type_ for _, type_, _ in described.columns)
    rows = partial(_rows, described)
    live = partial(_live_rows, described) if described.name in _LIVE else None
    return SystemRelation(SYSTEM_CATALOG, described.name, columns, types, rows, live)


def _texts(catalog: Catalog) -> Iterator[Row]:
    return definitions.texts(objects_of(catalog))


RELATIONS = (
    *map(_relation, postgresql.relations().values()),
    SystemRelation(
        SYSTEM_CATALOG,
        TEXTS,
        (
            Column("about text", TEXT),
            Column("oid of text", BIGINT),
            Column("part of text", INTEGER),
            Column("found text", TEXT),
        ),
        ("text", "oid", "int4", "text"),
        _texts,
    ),
)
