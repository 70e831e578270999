"""Privileges of the client that asks: the rows behind functions such as `has_table_privilege`, and
the relations of the information schema about privileges.

Rights are written as in `pg_class.relacl`: a letter for each privilege, with `*` behind it if the
client may also grant it to others (`query/values/privileges.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hornbeam_server.query.system import postgresql
from hornbeam_server.query.system.asking import Asker, Facts
from hornbeam_server.query.system.information_schema import named_relations, placed, texts
from hornbeam_server.query.system.objects import BUILT_IN_SPACES, Class, Objects, objects_of
from hornbeam_server.query.system.oids import DATABASE_OID, OWNER
from hornbeam_server.query.system.shapes import BIGINT, TEXT, SystemRelation
from hornbeam_server.query.values.privileges import TABLE
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.model import DATABASE, INFORMATION_SCHEMA, Column
from hornbeam_server.schema.namespaces import SYSTEM_CATALOG
from hornbeam_server.schema.types import Row

RIGHTS, COLUMN_RIGHTS = "hornbeam rights", "hornbeam column rights"
"""The relations in which functions about privileges look up what the client may do."""
_ALL = "r*a*w*d*D*x*t*"
_OF_SPACE, _OF_DATABASE, _OF_SEQUENCE = ("U", "U*C*"), ("c", "c*C*"), "r*w*U*"
"""The rights of all clients, and of administrators."""
_TYPES = {letter: name for name, letter in TABLE.items() if letter}
_OF_COLUMNS = "rawx"
"""The privileges that there are for columns."""


def rights_of(asker: Asker, name: str, kind: str) -> str:
    """The rights on a relation, a view or an index. `name` is that of the relation or view, `kind`
    as in `pg_class`."""
    if asker.administers:
        return _ALL
    if not asker.reads(name):
        return ""
    return "rawdD" if kind in "ri" and asker.changes(name) else "r"


def _rights(catalog: Catalog, facts: Facts) -> Iterator[Row]:
    objects, asker = objects_of(catalog), facts.asker
    for user in {DATABASE, *asker.names}:
        yield "role", OWNER, user, ""
    on = {index.full: index.on for index in objects.indexes}
    for each in objects.classes:
        if each.kind != "S":
            name = on.get(each.full, each.full)
            yield "relation", each.oid, "", rights_of(asker, name, each.kind)
    for described in postgresql.relations().values():
        yield "relation", described.oid, "", _ALL if asker.administers else "r"
    for sequence in objects.sequences:
        name = sequence.full if sequence.owner is None else sequence.owner[0]
        letters = _of_sequence(asker, name)
        yield "relation", sequence.oid, "", letters
        yield "sequence", sequence.oid, "", letters
    for space in (*BUILT_IN_SPACES, *objects.spaces):
        yield "schema", objects.oid_of_space(space), space, _OF_SPACE[asker.administers]
    yield "database", DATABASE_OID, DATABASE, _OF_DATABASE[asker.administers]


def _of_sequence(asker: Asker, name: str) -> str:
    if asker.administers:
        return _OF_SEQUENCE
    if not asker.reads(name):
        return ""
    return "rU" if asker.changes(name) else "r"


def _column_rights(catalog: Catalog, facts: Facts) -> Iterator[Row]:
    """The rights on each column, by its name and by its number."""
    objects, asker = objects_of(catalog), facts.asker
    for each in objects.classes:
        if each.kind in "rvm":
            yield from _of_columns(each.oid, _names(each), rights_of(asker, each.full, each.kind))
    for described in postgresql.relations().values():
        names = [name for name, _, _ in described.columns]
        yield from _of_columns(described.oid, names, _ALL if asker.administers else "r")


def _names(each: Class) -> Sequence[str]:
    return [column.name for column in each.columns]


def _of_columns(oid: int, names: Sequence[str], letters: str) -> Iterator[Row]:
    for number, name in enumerate(names, 1):
        yield "column", oid, name, letters
        yield "number", oid, str(number), letters


# ---------------------------------------------------------------- information schema


def _granted(letters: str) -> Iterator[tuple[str, str]]:
    """The letter of each privilege, and YES if the client may grant it, else NO."""
    for place, letter in enumerate(letters):
        if letter != "*":
            yield letter, "YES" if letters[place + 1 : place + 2] == "*" else "NO"


def _table_privileges(catalog: Catalog, facts: Facts) -> Iterator[Row]:
    for name, kind, _ in named_relations(catalog):
        letters = rights_of(facts.asker, name, "r" if kind == "BASE TABLE" else "v")
        for letter, grantable in _granted(letters):
            hierarchy = "YES" if letter == "r" else "NO"
            place = placed(name, catalog)
            yield DATABASE, DATABASE, *place, _TYPES[letter], grantable, hierarchy


def _column_privileges(catalog: Catalog, facts: Facts) -> Iterator[Row]:
    for name, kind, columns in named_relations(catalog):
        letters = rights_of(facts.asker, name, "r" if kind == "BASE TABLE" else "v")
        for letter, grantable in _granted(letters):
            if letter in _OF_COLUMNS:
                for column in columns:
                    place = *placed(name, catalog), column.name
                    yield DATABASE, DATABASE, *place, _TYPES[letter], grantable


def _usage_privileges(catalog: Catalog, facts: Facts) -> Iterator[Row]:
    objects: Objects = objects_of(catalog)
    grantable = "YES" if facts.asker.administers else "NO"
    for domain in catalog.schema.domains:
        place = *placed(domain.name, catalog), "DOMAIN"
        yield DATABASE, DATABASE, *place, "USAGE", grantable
    for each in objects.sequences:
        name = each.full if each.owner is None else each.owner[0]
        if "U" in _of_sequence(facts.asker, name):
            place = *placed(each.full, catalog), "SEQUENCE"
            yield DATABASE, DATABASE, *place, "USAGE", grantable


def _roles(_: Catalog, __: Facts) -> Iterator[Row]:
    yield (DATABASE,)


_OF_TABLE = "grantor grantee table_catalog table_schema table_name"
_IN_INFORMATION_SCHEMA: dict[str, tuple[str, Callable[[Catalog, Facts], Iterator[Row]]]] = {
    **dict.fromkeys(
        ("table_privileges", "role_table_grants"),
        (f"{_OF_TABLE} privilege_type is_grantable with_hierarchy", _table_privileges),
    ),
    **dict.fromkeys(
        ("column_privileges", "role_column_grants"),
        (f"{_OF_TABLE} column_name privilege_type is_grantable", _column_privileges),
    ),
    **dict.fromkeys(
        ("usage_privileges", "role_usage_grants"),
        (
            "grantor grantee object_catalog object_schema object_name object_type privilege_type"
            " is_grantable",
            _usage_privileges,
        ),
    ),
    "enabled_roles": ("role_name", _roles),
}


def _internal(name: str, rows: Callable[[Catalog, Facts], Iterator[Row]]) -> SystemRelation:
    columns = (
        Column("about right", TEXT),
        Column("oid of right", BIGINT),
        Column("name of right", TEXT),
        Column("letters of right", TEXT),
    )
    return SystemRelation(SYSTEM_CATALOG, name, columns, ("text", "oid", "text", "text"), live=rows)


RELATIONS = (
    _internal(RIGHTS, _rights),
    _internal(COLUMN_RIGHTS, _column_rights),
    *(
        SystemRelation(
            INFORMATION_SCHEMA, name, texts(names), ("text",) * len(names.split()), live=rows
        )
        for name, (names, rows) in _IN_INFORMATION_SCHEMA.items()
    ),
)
