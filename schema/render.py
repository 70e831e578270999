"""The schema as DDL text, which `ddl` reads back to an equal schema.

DuckDB reads it too, except ON DELETE, ON UPDATE, INCLUDE, IDENTITY and OWNED BY, which it lacks,
and defaults of bytes, which have PostgreSQL's form.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType

from hornbeam_server.schema.domains import own_of
from hornbeam_server.schema.enumerations import Enumeration
from hornbeam_server.schema.identifiers import identifier
from hornbeam_server.schema.model import (
    PUBLIC,
    Action,
    Check,
    Column,
    DeclaredIndex,
    DeclaredSequence,
    DeclaredView,
    Default,
    DefaultKind,
    Domain,
    ForeignKey,
    Identity,
    KeyPart,
    Refresh,
    Relation,
    Schema,
)
from hornbeam_server.schema.namespaces import bare, parted
from hornbeam_server.schema.problems import Subject
from hornbeam_server.schema.sequences import default_bounds
from hornbeam_server.schema.sqltext import RANDOM_UUID, literal_sql
from hornbeam_server.schema.type_names import is_built_in


def render_ddl(
    schema: Schema, remarks: Mapping[Subject, Sequence[str]] = MappingProxyType({})
) -> str:
    """DDL that `load_ddl` reads back to an equal schema. Names are quoted if they need quotes.
    `remarks` become comments before the relation or the column."""
    spaces = schema.spaces
    made = [f"CREATE SCHEMA {identifier(space)}" for space in spaces]
    types = [render_enumeration(enumeration) for enumeration in schema.enumerations]
    types += [render_domain(domain, spaces) for domain in schema.domains]
    tables = [render_relation(relation, spaces, remarks) for relation in schema.relations]
    indexes = [_render_index(index, spaces) for index in schema.indexes]
    views = [_render_view(view, spaces) for view in schema.views]
    sequences = [render_sequence(sequence, spaces) for sequence in schema.sequences]
    return "".join(f"{s};\n" for s in (*made, *types, *sequences, *tables, *indexes, *views))


def render_enumeration(enumeration: Enumeration) -> str:
    """CREATE TYPE … AS ENUM."""
    labels = ", ".join(map(literal_sql, enumeration.labels))
    return f"CREATE TYPE {enumeration.sql} AS ENUM ({labels})"


def render_relation(
    relation: Relation,
    spaces: Collection[str],
    remarks: Mapping[Subject, Sequence[str]] = MappingProxyType({}),
) -> str:
    """CREATE TABLE. `spaces` are the schemas besides `public`."""
    lines = [
        _remarks(remarks, (relation.name, column.name), "  ") + _render_column(column, spaces)
        for column in relation.visible
    ]
    if relation.declared_key:
        named = f"CONSTRAINT {identifier(relation.key_name)} " if relation.key_name else ""
        lines.append(f"{named}PRIMARY KEY {_listed(relation.declared_key)}")
    lines += [_render_foreign_key(foreign_key, spaces) for foreign_key in relation.foreign_keys]
    lines += [_render_check(check) for check in relation.own_checks]
    name = spelled(relation.name, spaces)
    head = f"{_remarks(remarks, (relation.name, ''), '')}CREATE TABLE {name}"
    return f"{head} (\n  " + ",\n  ".join(lines) + "\n)"


def _remarks(remarks: Mapping[Subject, Sequence[str]], subject: Subject, indent: str) -> str:
    return "".join(f"-- {remark}\n{indent}" for remark in remarks.get(subject, ()))


def render_domain(domain: Domain, spaces: Collection[str]) -> str:
    """CREATE DOMAIN. `spaces` are the schemas besides `public`."""
    words = [f"CREATE DOMAIN {spelled_type(domain.name, spaces)} AS"]
    words += _rendered_type(domain.value, spaces)
    words += [_render_check(check) for check in domain.checks]
    return " ".join(words)


def _render_column(column: Column, spaces: Collection[str]) -> str:
    return " ".join([identifier(column.name), *_rendered_type(column, spaces)])


def _rendered_type(column: Column, spaces: Collection[str]) -> list[str]:
    """The type or domain of a column, and what it declares itself: NOT NULL and its default."""
    own, domain = own_of(column), column.domain
    words = [column.type.ddl() if domain is None else spelled_type(domain.name, spaces)]
    if not own.nullable:
        words.append("NOT NULL")
    match own.default:
        case None:
            if domain is not None and domain.default:
                words.append("DEFAULT NULL")
        case Default(DefaultKind.IDENTITY, identity=identity):
            words.append(render_identity(identity))
        case Default(DefaultKind.EXPRESSION, sql=sql):
            words.append(f"DEFAULT ({sql})")
        case Default(DefaultKind.GENERATED, sql=sql):
            words.append(f"GENERATED ALWAYS AS ({sql}) STORED")
        case default:
            words.append(f"DEFAULT {render_default(default)}")
    return words


def render_default(default: Default) -> str | None:
    """The expression of a default; None for identity columns and generated columns."""
    match default.kind:
        case DefaultKind.LITERAL:
            return literal_sql(default.value)
        case DefaultKind.NOW:
            return "CURRENT_TIMESTAMP"
        case DefaultKind.UUID:
            return RANDOM_UUID
        case DefaultKind.EXPRESSION:
            return default.sql
        case DefaultKind.IDENTITY | DefaultKind.GENERATED:
            return None


def render_identity(identity: Identity) -> str:
    options = []
    if identity.start != (1 if identity.increment > 0 else -1):
        options.append(f"START WITH {identity.start}")
    if identity.increment != 1:
        options.append(f"INCREMENT BY {identity.increment}")
    if identity.last is not None:
        bound = "MAXVALUE" if identity.increment > 0 else "MINVALUE"
        options.append(f"{bound} {identity.last}")
    when = "ALWAYS" if identity.always else "BY DEFAULT"
    return f"GENERATED {when} AS IDENTITY" + (f" ({' '.join(options)})" if options else "")


def _render_foreign_key(foreign_key: ForeignKey, spaces: Collection[str]) -> str:
    text = (
        f"CONSTRAINT {identifier(foreign_key.name)} FOREIGN KEY {_listed(foreign_key.columns)} "
        f"REFERENCES {spelled(foreign_key.parent, spaces)} {_listed(foreign_key.parent_columns)}"
    )
    for event, action in (("DELETE", foreign_key.on_delete), ("UPDATE", foreign_key.on_update)):
        if action is not Action.RESTRICT:
            text += f" ON {event} {action.value.upper()}"
    return text


def _render_check(check: Check) -> str:
    return f"CONSTRAINT {identifier(check.name)} CHECK ({check.sql})"


def _render_index(index: DeclaredIndex, spaces: Collection[str]) -> str:
    """CREATE INDEX. An index is in the schema of its relation, so its name is written without."""
    unique = "UNIQUE " if index.unique else ""
    expressions = {each.column for each in index.expressions}
    columns = ", ".join(_render_part(part, part.column in expressions) for part in index.columns)
    name, relation = identifier(bare(index.name, spaces)), spelled(index.relation, spaces)
    text = f"CREATE {unique}INDEX {name} ON {relation} ({columns})"
    if index.include:
        text += f" INCLUDE {_listed(index.include)}"
    if not index.nulls_distinct:
        text += " NULLS NOT DISTINCT"
    return f"{text} WHERE ({index.where})" if index.where else text


def _render_view(view: DeclaredView, spaces: Collection[str]) -> str:
    name = spelled(view.name, spaces)
    if view.refresh is Refresh.PLAIN:
        return f"CREATE VIEW {name} AS\n{view.sql}"
    options = {"refresh": view.refresh.value}
    if view.refresh is not Refresh.IMMEDIATE:
        options["interval"] = f"{Decimal(repr(view.interval_s)):f} s"
        options["group"] = view.group
    listed = ", ".join(f"{option} = {literal_sql(value)}" for option, value in options.items())
    return f"CREATE MATERIALIZED VIEW {name} WITH ({listed}) AS\n{view.sql}"


def _render_part(part: KeyPart, is_expression: bool) -> str:
    """A part of an index. An expression is named by its text in parentheses."""
    name = part.column if is_expression else identifier(part.column)
    return name + (" DESC" if part.descending else "")


def render_sequence(sequence: DeclaredSequence, spaces: Collection[str]) -> str:
    """CREATE SEQUENCE. `spaces` are the schemas besides `public`."""
    name, options = spelled(sequence.name, spaces), render_options(sequence, spaces)
    return f"CREATE SEQUENCE {name} {options}".rstrip()


def render_options(sequence: DeclaredSequence, spaces: Collection[str]) -> str:
    """The options of a sequence that are not the default."""
    least, most = default_bounds(sequence.type, sequence.increment)
    first = sequence.least if sequence.increment > 0 else sequence.most
    words = []
    type_ = sequence.type.ddl()
    if type_ != "BIGINT":
        words.append(f"AS {type_}")
    for name, number, default in (
        ("INCREMENT BY", sequence.increment, 1),
        ("MINVALUE", sequence.least, least),
        ("MAXVALUE", sequence.most, most),
        ("START WITH", sequence.start, first),
    ):
        if number != default:
            words.append(f"{name} {number}")
    if sequence.cycle:
        words.append("CYCLE")
    if sequence.owner is not None:
        relation, column = sequence.owner
        words.append(f"OWNED BY {spelled(relation, spaces)}.{identifier(column)}")
    return " ".join(words)


def _listed(names: Sequence[str]) -> str:
    return f"({', '.join(identifier(name) for name in names)})"


def spelled(full: str, spaces: Collection[str]) -> str:
    """A full name in SQL (`namespaces.py`). `spaces` are the schemas besides `public`."""
    space, name = parted(full, spaces)
    return identifier(name) if space == PUBLIC else f"{identifier(space)}.{identifier(name)}"


def spelled_type(full: str, spaces: Collection[str]) -> str:
    """The full name of a domain in SQL. Without its schema, the name of a built-in type is that
    type."""
    return f"{PUBLIC}.{full}" if is_built_in(full) else spelled(full, spaces)
