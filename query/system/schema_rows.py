"""The rows of `pg_catalog` about objects of the schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hornbeam_server.query.system import postgresql
from hornbeam_server.query.system.definitions import named_types
from hornbeam_server.query.system.information_schema import columns_in
from hornbeam_server.query.system.objects import (
    BUILT_IN_SPACES,
    Class,
    Constraint,
    Indexed,
    Objects,
    internal_name,
    modifier,
    name_of,
)
from hornbeam_server.query.system.oids import OWNER, PG_CATALOG
from hornbeam_server.query.system.postgresql import Given
from hornbeam_server.schema.domains import own_of
from hornbeam_server.schema.model import Action, Column, DefaultKind
from hornbeam_server.schema.render import render_default

_HEAP, _BTREE = 2, 403
"""The OIDs of the access methods of tables and of indexes."""


def namespaces(objects: Objects) -> Iterator[Given]:
    for name in (*BUILT_IN_SPACES, *objects.spaces):
        yield {"oid": objects.oid_of_space(name), "nspname": name, "nspowner": OWNER}


# ---------------------------------------------------------------- pg_class, pg_attribute


def classes(objects: Objects) -> Iterator[Given]:
    for described in postgresql.relations().values():
        yield {
            **_COMMON,
            "oid": described.oid,
            "relname": described.name,
            "relnamespace": PG_CATALOG,
            "relam": _HEAP if described.kind == "r" else 0,
            "relkind": described.kind,
            "relnatts": len(described.columns),
            "reltuples": -1.0,
        }
    indexed = {index.on for index in objects.indexes}
    checks: dict[str, int] = {}
    for constraint in objects.constraints:
        if constraint.kind == "c":
            checks[constraint.on] = checks.get(constraint.on, 0) + 1
    linked = with_foreign_keys(objects)
    for each in objects.classes:
        space, name = objects.space_and_name(each.full)
        yield {
            **_COMMON,
            "oid": each.oid,
            "relname": name,
            "relnamespace": objects.oid_of_space(space),
            "relam": {"r": _HEAP, "m": _HEAP, "i": _BTREE}.get(each.kind, 0),
            "relfilenode": 0 if each.kind == "v" else each.oid,
            "relkind": each.kind,
            "relnatts": len(each.columns) or 3,
            "relchecks": checks.get(each.full, 0) if each.kind == "r" else 0,
            "relhasindex": each.kind == "r" and each.full in indexed,
            "relhasrules": each.kind in {"v", "m"},
            "relhastriggers": each.kind == "r" and each.full in linked,
            "reltuples": float(each.rows),
            "relreplident": "d" if each.kind in {"r", "m"} else "n",
        }


def with_foreign_keys(objects: Objects) -> set[str]:
    """The relations at either end of a foreign key. PostgreSQL keeps these keys by triggers, so
    psql shows the keys of a relation only if it has triggers."""
    ends = ((each.on, each.key.parent) for each in objects.constraints if each.key is not None)
    return {name for both in ends for name in both}


_ENUM: Given = {
    **postgresql.types()["oid"],
    "oid": 0,
    "typtype": "e",
    "typcategory": "E",
    "typispreferred": False,
    "typinput": "enum_in",
    "typoutput": "enum_out",
    "typreceive": "enum_recv",
    "typsend": "enum_send",
}
"""The row of an enumeration, without its name and its OIDs."""
_COMMON: Given = {
    "relowner": OWNER,
    "relpersistence": "p",
    "relispopulated": True,
    "relreplident": "n",
}


def attributes(objects: Objects) -> Iterator[Given]:
    for described in postgresql.relations().values():
        for number, (name, type_, not_null) in enumerate(described.columns, 1):
            yield {
                **_attribute(described.oid, name, number, postgresql.types().get(type_)),
                "attnotnull": not_null,
            }
    defaults = {(oid, number) for oid, number, _ in _defaults(objects)}
    for each in objects.classes:
        if each.kind == "S":
            yield from _attributes_of_sequence(each.oid)
        for number, column in enumerate(each.columns, 1):
            yield _attribute_of(each, number, column, objects, defaults)


def _attributes_of_sequence(oid: int) -> Iterator[Given]:
    columns = (("last_value", "int8"), ("log_cnt", "int8"), ("is_called", "bool"))
    for number, (name, type_) in enumerate(columns, 1):
        yield {
            **_attribute(oid, name, number, postgresql.types()[type_]),
            "attnotnull": True,
        }


def _attribute_of(
    each: Class, number: int, column: Column, objects: Objects, defaults: set[tuple[int, int]]
) -> Given:
    type_ = objects.oid_of_type(column.type, column.domain)
    own = own_of(column) if each.kind == "r" else Column(column.name, column.type)
    kind = own.default_kind
    found = _attribute(each.oid, column.name, number, _stored_type(column))
    return {
        **found,
        "atttypid": type_,
        "atttypmod": -1 if column.domain is not None else modifier(column.type),
        "attndims": int(column.type.element is not None),
        "attnotnull": not own.nullable,
        "atthasdef": (each.oid, number) in defaults,
        "attidentity": _identity(own) if kind is DefaultKind.IDENTITY else "",
        "attgenerated": "s" if kind is DefaultKind.GENERATED else "",
    }


def _identity(column: Column) -> str:
    assert column.default is not None
    return "a" if column.default.identity.always else "d"


def _stored_type(column: Column) -> Given:
    """The row of `pg_type` from which the values of a column have their form."""
    type_ = column.type
    if type_.element is not None:
        return postgresql.types()["_text"]
    if type_.enumeration is not None:
        return _ENUM
    return postgresql.types()[internal_name(type_)]


def _attribute(relation: int, name: str, number: int, type_: Given | None) -> Given:
    given = type_ or postgresql.types()["text"]
    return {
        "attrelid": relation,
        "attname": name,
        "attnum": number,
        "atttypid": given["oid"],
        "attlen": given["typlen"],
        "attbyval": given["typbyval"],
        "attalign": given["typalign"],
        "attstorage": given["typstorage"],
        "attcollation": given["typcollation"],
        "atttypmod": -1,
        "attstattarget": -1,
        "attcacheoff": -1,
        "attislocal": True,
    }


def defaults(objects: Objects) -> Iterator[Given]:
    names = {each.oid: each for each in objects.classes}
    for relation, number, sql in _defaults(objects):
        column = names[relation].columns[number - 1]
        oid = objects.oid_of_default(names[relation].full, column.name)
        yield {"oid": oid, "adrelid": relation, "adnum": number, "adbin": sql}


def _defaults(objects: Objects) -> Iterator[tuple[int, int, str]]:
    """The OID of the relation, the number of the column, and the expression of each default. A
    column that has its default from its domain has none itself."""
    for each in objects.classes:
        if each.kind != "r":
            continue
        for number, column in enumerate(each.columns, 1):
            default = own_of(column).default
            if default is not None:
                sql = default.sql or render_default(default)
                if sql is not None:
                    yield each.oid, number, sql


# ---------------------------------------------------------------- indexes and constraints


def indexes(objects: Objects) -> Iterator[Given]:
    for index in objects.indexes:
        relation = objects.by_name[index.on]
        numbers = _numbers(relation)
        parts = index.parts
        keys = [0 if part.sql else numbers[part.column] for part in parts]
        keys += [numbers[name] for name in index.include]
        expressions = [part.sql for part in parts if part.sql]
        yield {
            "indexrelid": index.oid,
            "indrelid": relation.oid,
            "indnatts": len(keys),
            "indnkeyatts": len(parts),
            "indisunique": index.unique,
            "indnullsnotdistinct": not index.nulls_distinct,
            "indisprimary": index.primary,
            "indimmediate": True,
            "indisvalid": True,
            "indisready": True,
            "indislive": True,
            "indkey": tuple(keys),
            "indcollation": tuple(_collation(index, i) for i in range(len(parts))),
            "indclass": tuple(_operators(index, i) for i in range(len(parts))),
            "indoption": tuple(3 if part.descending else 0 for part in parts),
            "indexprs": ", ".join(expressions) or None,
            "indpred": index.where or None,
        }


def _collation(index: Indexed, place: int) -> int:
    column = Column("", index.parts[place].type)
    return int(_stored_type(column)["typcollation"])


def _operators(index: Indexed, place: int) -> int:
    """The OID of the operator class: those of PostgreSQL's default for the type, else 0."""
    type_ = _stored_type(Column("", index.parts[place].type))["oid"]
    given = {row["opcintype"]: row["oid"] for row in postgresql.rows("pg_opclass")}
    text = postgresql.types()["text"]["oid"]
    return int(given.get(type_, given[text]))


def _numbers(relation: Class) -> dict[str, int]:
    return {column.name: number for number, column in enumerate(relation.columns, 1)}


_ACTIONS = {
    Action.RESTRICT: "a",
    Action.CASCADE: "c",
    Action.SET_NULL: "n",
    Action.SET_DEFAULT: "d",
}
"""RESTRICT is also NO ACTION, the default, which is checked at commit."""


def constraints(objects: Objects) -> Iterator[Given]:
    for each in objects.constraints:
        space = objects.oid_of_space(objects.space_and_name(each.on)[0])
        found = {
            "oid": each.oid,
            "conname": each.name,
            "connamespace": space,
            "contype": each.kind,
            "convalidated": True,
            "conislocal": True,
            "connoinherit": each.kind != "c",
            "confupdtype": " ",
            "confdeltype": " ",
            "confmatchtype": " ",
            "conbin": each.check or None,
        }
        if each.of_domain:
            yield {**found, "contypid": objects.oid_of_named_type(each.on)}
        else:
            yield {**found, **_of_relation(each, objects)}


def _of_relation(each: Constraint, objects: Objects) -> Given:
    relation = objects.by_name[each.on]
    numbers = _numbers(relation)
    named = each.columns or _columns_of_check(each, relation)
    found: dict[str, object] = {
        "conrelid": relation.oid,
        "conkey": tuple(numbers[name] for name in named) or None,
        "conindid": objects.by_name[each.index].oid if each.index else 0,
    }
    if each.key is not None:
        parent = objects.by_name[each.key.parent]
        at = _numbers(parent)
        found |= {
            "confrelid": parent.oid,
            "confkey": tuple(at[name] for name in each.key.parent_columns),
            "confupdtype": _ACTIONS[each.key.on_update],
            "confdeltype": _ACTIONS[each.key.on_delete],
            "confmatchtype": "s",
        }
    return found


def _columns_of_check(each: Constraint, relation: Class) -> Sequence[str]:
    return columns_in(each.check, [column.name for column in relation.columns])


# ---------------------------------------------------------------- types and sequences


def types(objects: Objects) -> Iterator[Given]:
    """The types of the schema; the built-in ones are recorded."""
    for full, oids in named_types(objects).items():
        space, name = objects.space_and_name(full)
        common = {
            "oid": oids[0],
            "typname": name,
            "typnamespace": objects.oid_of_space(space),
            "typowner": OWNER,
        }
        if len(oids) > 1:
            yield {**_ENUM, **common, "typarray": oids[1]}
            array = {"oid": oids[1], "typname": f"_{name}", "typelem": oids[0], "typarray": 0}
            yield {**postgresql.types()["_text"], **common, **array, "typcollation": 0}
    yield from _domains(objects)


def _domains(objects: Objects) -> Iterator[Given]:
    for domain in objects.catalog.schema.domains:
        space, name = objects.space_and_name(domain.name)
        value, own = domain.value, own_of(domain.value)
        sql = None if own.default is None else own.default.sql or render_default(own.default)
        yield {
            **_stored_type(value),
            "oid": objects.oid_of_named_type(domain.name),
            "typname": name,
            "typnamespace": objects.oid_of_space(space),
            "typowner": OWNER,
            "typtype": "d",
            "typispreferred": False,
            "typarray": 0,
            "typinput": "domain_in",
            "typreceive": "domain_recv",
            "typmodin": "-",
            "typmodout": "-",
            "typbasetype": objects.oid_of_type(value.type, value.domain),
            "typtypmod": -1 if value.domain is not None else modifier(value.type),
            "typnotnull": not own.nullable,
            "typdefault": sql,
            "typdefaultbin": sql,
        }


def labels(objects: Objects) -> Iterator[Given]:
    for enumeration in objects.catalog.schema.enumerations:
        full = name_of(enumeration)
        for number, label in enumerate(enumeration.labels, 1):
            yield {
                "oid": objects.oid_of_label(full, label),
                "enumtypid": objects.oid_of_named_type(full),
                "enumsortorder": float(number),
                "enumlabel": label,
            }


def sequences(objects: Objects) -> Iterator[Given]:
    for each in objects.sequences:
        yield {
            "seqrelid": each.oid,
            "seqtypid": objects.oid_of_type(each.type),
            "seqstart": each.numbers.start,
            "seqincrement": each.numbers.increment,
            "seqmax": each.bounds[1],
            "seqmin": each.bounds[0],
            "seqcache": 1,
            "seqcycle": each.cycle,
        }


def dependencies(objects: Objects) -> Iterator[Given]:
    """The columns that own sequences; other dependencies are not listed."""
    class_ = postgresql.relations()["pg_class"].oid
    for each in objects.sequences:
        if each.owner is not None:
            relation, column = each.owner
            owner = objects.by_name[relation]
            yield {
                "classid": class_,
                "objid": each.oid,
                "refclassid": class_,
                "refobjid": owner.oid,
                "refobjsubid": _numbers(owner)[column],
                "deptype": "i" if each.identity else "a",
            }
