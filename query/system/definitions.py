"""The texts that PostgreSQL's catalog functions give: definitions, and names of types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from sqlglot import exp

from hornbeam_server.query.dialect.grammar import read, tokenize
from hornbeam_server.query.system import postgresql
from hornbeam_server.query.system.objects import (
    BUILT_IN_SPACES,
    Constraint,
    Indexed,
    Objects,
    Part,
    internal_name,
    modifier,
    name_of,
)
from hornbeam_server.query.system.oids import OWNER
from hornbeam_server.schema.identifiers import identifier
from hornbeam_server.schema.model import DATABASE, Action, Column, DeclaredView
from hornbeam_server.schema.namespaces import SYSTEM_CATALOG, joined
from hornbeam_server.schema.render import spelled
from hornbeam_server.schema.sequences import named
from hornbeam_server.schema.trees import nodes_of, unlink
from hornbeam_server.schema.types import ColumnType, Declared, Kind

_NAMES = {
    "bool": "boolean",
    "bpchar": "character",
    "char": '"char"',
    "float4": "real",
    "float8": "double precision",
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "time": "time without time zone",
    "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone",
    "varchar": "character varying",
}
"""The names of the SQL standard, by PostgreSQL's internal names."""
_SPELLINGS = {
    "int4": ("int",),
    "bpchar": ("char",),
    "numeric": ("decimal",),
    "float8": ("float",),
}
"""Other names of types."""


def qualified(full: str, objects: Objects) -> str:
    """The name in SQL with its schema, as definitions have it."""
    space, name = objects.space_and_name(full)
    return f"{identifier(space)}.{identifier(name)}"


def built_in_name(internal: str) -> str:
    """The name of a built-in type, as `format_type` gives it."""
    if internal.startswith("_"):
        return f"{built_in_name(internal[1:])}[]"
    return _NAMES.get(internal, internal)


def _spellings(internal: str) -> list[str]:
    """Further names of a built-in type."""
    array = internal.startswith("_")
    others = _SPELLINGS.get(internal.removeprefix("_"), ())
    return [f"{name}[]" if array else name for name in others]


def type_name(column: Column, objects: Objects) -> str:
    """The name of a column's type with its parameters, as `format_type` gives it."""
    if column.domain is not None:
        return spelled(column.domain.name, objects.spaces)
    return _type_name(column.type, objects)


def _type_name(type_: ColumnType, objects: Objects) -> str:
    if type_.element is not None:
        return f"{_type_name(type_.element, objects)}[]"
    if type_.enumeration is not None:
        return spelled(name_of(type_.enumeration), objects.spaces)
    name, number = built_in_name(internal_name(type_)), modifier(type_)
    if number < 0:
        return "bpchar" if type_.declared is Declared.CHAR else name
    if type_.kind is Kind.DECIMAL:
        return f"{name}({type_.precision},{type_.scale or 0})"
    if type_.kind is Kind.TEXT:
        return f"{name}({type_.length})"
    head, blank, zone = name.partition(" ")
    return f"{head}({number}){blank}{zone}"


def index_definition(index: Indexed, objects: Objects, relation: str = "") -> str:
    """CREATE INDEX, as `pg_get_indexdef` gives it. `relation` is the name of the relation; "" for
    that with its schema."""
    unique = "UNIQUE " if index.unique else ""
    name = identifier(objects.space_and_name(index.full)[1])
    parts = ", ".join(part_definition(part) for part in index.parts)
    relation = relation or qualified(index.on, objects)
    text = f"CREATE {unique}INDEX {name} ON {relation} USING btree ({parts})"
    if index.include:
        text += f" INCLUDE ({_listed(index.include)})"
    if not index.nulls_distinct:
        text += " NULLS NOT DISTINCT"
    return f"{text} WHERE ({index.where})" if index.where else text


def part_definition(part: Part, *, order: bool = True) -> str:
    """A column or an expression of an index, with its direction."""
    text = f"({part.sql})" if part.sql else identifier(part.column)
    return f"{text} DESC" if order and part.descending else text


def constraint_definition(constraint: Constraint, objects: Objects) -> str:
    """The constraint behind its name, as `pg_get_constraintdef` gives it."""
    match constraint.kind:
        case "p":
            return f"PRIMARY KEY ({_listed(constraint.columns)})"
        case "u":
            index = next(each for each in objects.indexes if each.full == constraint.index)
            nulls = "" if index.nulls_distinct else " NULLS NOT DISTINCT"
            include = f" INCLUDE ({_listed(index.include)})" if index.include else ""
            return f"UNIQUE{nulls} ({_listed(constraint.columns)}){include}"
        case "f":
            return _foreign_key(constraint, objects)
        case _:
            return f"CHECK (({constraint.check}))"


def _foreign_key(constraint: Constraint, objects: Objects) -> str:
    key = constraint.key
    assert key is not None
    parent = spelled(key.parent, objects.spaces)
    text = (
        f"FOREIGN KEY ({_listed(key.columns)}) REFERENCES {parent}({_listed(key.parent_columns)})"
    )
    for event, action in (("UPDATE", key.on_update), ("DELETE", key.on_delete)):
        if action is not Action.RESTRICT:
            text += f" ON {event} {action.value.upper()}"
    return text


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(identifier, names))


def view_definitions(objects: Objects) -> Iterator[tuple[int, str]]:
    """The OID and the SELECT of each view, with a semicolon at its end as in PostgreSQL."""
    declared = shown_views(objects)
    for each in objects.classes:
        if each.kind in {"v", "m"}:
            sql = declared.get(each.full, "")
            yield each.oid, f" {sql.strip().rstrip(';')};" if sql else ""


def shown_views(objects: Objects) -> Mapping[str, str]:
    """The SELECTs of declared views by their full names. Of a part of a catalog, without those that
    name a relation, a view or a sequence of the rest."""
    hidden = objects.whole.names - objects.names
    views = objects.catalog.schema.views
    return {view.name: view.sql for view in views if not hidden or hidden.isdisjoint(_named(view))}


def _named(view: DeclaredView) -> set[str]:
    """The names of tables in the SELECT of a view, and its texts as names: a text may be cast to
    regclass."""
    found: set[str] = set()
    for tree in filter(None, read(tokenize(view.sql), view.sql)):
        for node in nodes_of(tree):
            if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
                space, name = node.args.get("db"), _folded(node.this)
                found.add(joined(_folded(space), name) if space else name)
            elif isinstance(node, exp.Literal) and node.is_string:
                found.add(named(node.this))
        unlink(tree)
    return found


def _folded(name: exp.Identifier) -> str:
    return str(name.this) if name.args.get("quoted") else name.this.lower()


Text = tuple[str, int, int, str]
"""What it is about, an OID, a part of that object (0: all of it), and the text."""


def texts(objects: Objects) -> Iterator[Text]:
    """Everything that the catalog's functions look up by an OID."""
    yield from _texts_of_classes(objects)
    for constraint in objects.constraints:
        text = constraint_definition(constraint, objects)
        yield "constraint", constraint.oid, 0, text
        short = f"CHECK ({constraint.check})" if constraint.kind == "c" else text
        yield "constraint", constraint.oid, 1, short
    for index in objects.indexes:
        text = index_definition(index, objects)
        yield "index", index.oid, 0, text
        short = index_definition(index, objects, spelled(index.on, objects.spaces))
        yield "short index", index.oid, 0, short
        for number, part in enumerate(index.parts, 1):
            yield "index", index.oid, number, part_definition(part, order=False)
    for oid, sql in view_definitions(objects):
        yield "view", oid, 0, sql
    yield from _texts_of_types(objects)
    for sequence in objects.sequences:
        if sequence.owner is not None:
            relation, column = sequence.owner
            for text in {spelled(relation, objects.spaces), qualified(relation, objects)}:
                about = f"sequence of {text}.{column}"
                yield about, sequence.oid, 0, qualified(sequence.full, objects)


def _texts_of_classes(objects: Objects) -> Iterator[Text]:
    for each in objects.classes:
        space, _ = objects.space_and_name(each.full)
        yield "relation", each.oid, 0, spelled(each.full, objects.spaces)
        yield "space of relation", each.oid, 0, space
        for text in {spelled(each.full, objects.spaces), qualified(each.full, objects)}:
            yield "name of relation", each.oid, 0, text
    for described in postgresql.relations().values():
        yield "relation", described.oid, 0, described.name
        yield "space of relation", described.oid, 0, SYSTEM_CATALOG
        for text in (described.name, f"{SYSTEM_CATALOG}.{described.name}"):
            yield "name of relation", described.oid, 0, text
    for space in (*BUILT_IN_SPACES, *objects.spaces):
        yield "schema", objects.oid_of_space(space), 0, identifier(space)
        yield "name of schema", objects.oid_of_space(space), 0, identifier(space)
    yield "role", OWNER, 0, DATABASE
    yield "name of role", OWNER, 0, DATABASE


def oid_of_name(about: str, name: str, objects: Objects) -> int | None:
    """The OID of the relation, type, schema or role of a name; None if there is none."""
    found = objects.catalog.derived.get("oids of names")
    if not isinstance(found, dict):
        of_names = chain(_texts_of_classes(objects), _texts_of_types(objects))
        named = (each for each in of_names if each[0].startswith("name of "))
        found = {(kind.removeprefix("name of "), text): oid for kind, oid, _, text in named}
        objects.catalog.derived["oids of names"] = found
    return found.get((about, name))


def _texts_of_types(objects: Objects) -> Iterator[Text]:
    for internal, row in postgresql.types().items():
        yield "type", row["oid"], -1, "bpchar" if internal == "bpchar" else built_in_name(internal)
        yield "space of type", row["oid"], 0, SYSTEM_CATALOG
        for text in {internal, built_in_name(internal), *_spellings(internal)}:
            yield "name of type", row["oid"], 0, text
    for full, oids in named_types(objects).items():
        shown = spelled(full, objects.spaces)
        for oid, array in zip(oids, ("", "[]"), strict=False):
            yield "type", oid, -1, f"{shown}{array}"
            yield "space of type", oid, 0, objects.space_and_name(full)[0]
            for text in {shown, qualified(full, objects)}:
                yield "name of type", oid, 0, f"{text}{array}"
    found: dict[tuple[int, int], str] = {}
    for each in objects.classes:
        for column in each.columns:
            number = -1 if column.domain is not None else modifier(column.type)
            if number >= 0:
                oid = objects.oid_of_type(column.type)
                found[oid, number] = type_name(column, objects)
    for domain in objects.catalog.schema.domains:
        value = domain.value
        if value.domain is None and modifier(value.type) >= 0:
            key = objects.oid_of_type(value.type), modifier(value.type)
            found[key] = type_name(value, objects)
    yield from (("type", oid, number, text) for (oid, number), text in found.items())


def named_types(objects: Objects) -> dict[str, tuple[int, ...]]:
    """The OIDs of the types of the schema by full names: of an enumeration and of its array, or of
    a domain."""
    named = objects.oid_of_named_type
    found: dict[str, tuple[int, ...]] = {
        full: (named(full), named(full, array=True))
        for full in map(name_of, objects.catalog.schema.enumerations)
    }
    found |= {domain.name: (named(domain.name),) for domain in objects.catalog.schema.domains}
    return found
