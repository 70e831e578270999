"""The elements of a schema that use a column or a relation, and the schema without them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from hornbeam_server.maintain.deltas.nesting import named, written_out
from hornbeam_server.query.binding.binder import bind, bind_tree
from hornbeam_server.query.binding.row_types import columns_of_types, relations_of_types
from hornbeam_server.query.dialect.duckdb_types import quoted
from hornbeam_server.schema.catalog import Catalog, Forest, alone
from hornbeam_server.schema.domains import own_of, with_domain_default, with_own_default
from hornbeam_server.schema.model import (
    Column,
    DeclaredIndex,
    DeclaredView,
    DefaultKind,
    ForeignKey,
    Relation,
    Schema,
    sequence_of_column,
)
from hornbeam_server.schema.row_identity import row_identity
from hornbeam_server.schema.sequences import sequences_in
from hornbeam_server.schema.trees import unlink
from hornbeam_server.schema.type_names import named_types
from hornbeam_server.schema.types import enumeration_of


@dataclass(frozen=True, slots=True)
class Dependent:
    """An element that needs another one. `relation` owns it; "" for a view."""

    kind: str
    relation: str
    name: str

    def __str__(self) -> str:
        where = f" of {self.relation}" if self.relation else ""
        return f"{self.kind} {self.name}{where}"


def users_of_column(schema: Schema, relation: str, column: str) -> Iterator[Dependent]:
    """Everything that uses a column, without the primary key."""
    owner = schema.relation(relation)
    for index in schema.indexes:
        if index.relation == relation and column in _columns_of_index(index, owner):
            yield Dependent("UNIQUE" if index.unique else "index", relation, index.name)
    for key in owner.foreign_keys:
        if column in key.columns:
            yield Dependent("foreign key", relation, key.name)
    for child, key in schema.children(relation):
        if column in key.parent_columns:
            yield Dependent("foreign key", child.name, key.name)
    yield from _expressions_of(owner, column)
    for sequence in _sequences_of(schema, relation, column):
        users = users_of_sequence(schema, sequence)
        yield from (user for user in users if (user.relation, user.name) != (relation, column))
    for view in schema.views:
        if (relation, column) in _columns_of_view(view, schema):
            yield Dependent("view", "", view.name)


def _expressions_of(owner: Relation, column: str) -> Iterator[Dependent]:
    """The CHECKs and generated columns of a relation that read its column."""
    for check in owner.own_checks:
        if column in _columns_of(check.sql, owner):
            yield Dependent("CHECK", owner.name, check.name)
    for generated in owner.generated:
        assert generated.default is not None
        if column in _columns_of(generated.default.sql, owner):
            yield Dependent("generated column", owner.name, generated.name)


def users_of_relation(schema: Schema, relation: str) -> Iterator[Dependent]:
    """The foreign keys of other relations to a relation, and the views that read it."""
    for child, key in schema.children(relation):
        if child.name != relation:
            yield Dependent("foreign key", child.name, key.name)
    for name in _sequences_of(schema, relation):
        yield from (d for d in users_of_sequence(schema, name) if d.relation != relation)
    for view in schema.views:
        if relation in _relations_of_view(view, schema):
            yield Dependent("view", "", view.name)


def users_of_sequence(schema: Schema, sequence: str) -> Iterator[Dependent]:
    """The defaults that take numbers from a sequence."""
    for domain in schema.domains:
        if _draws_from(sequence, own_of(domain.value)):
            yield Dependent("default", "", domain.name)
    for relation in schema.relations:
        for column in relation.visible:
            if _draws_from(sequence, own_of(column)):
                yield Dependent("default", relation.name, column.name)


def _draws_from(sequence: str, column: Column) -> bool:
    return column.default is not None and sequence in sequences_in(column.default.sql)


def users_of_type(schema: Schema, name: str) -> Iterator[Dependent]:
    """The columns of an enumeration, also of arrays of it, and what casts to it; or the columns
    and the domains of a domain."""

    def casts(sql: str) -> bool:
        return any(each.full == name for each in named_types(sql))

    for domain in schema.domains:
        if _is_of_type(domain.value, name) or any(casts(each.sql) for each in domain.checks):
            yield Dependent("domain", "", domain.name)
    for relation in schema.relations:
        for column in relation.visible:
            default = column.default
            if _is_of_type(column, name):
                yield Dependent("column", relation.name, column.name)
            elif default is not None and casts(default.sql):
                generated = default.kind is DefaultKind.GENERATED
                kind = "generated column" if generated else "default"
                yield Dependent(kind, relation.name, column.name)
        for check in relation.own_checks:
            if casts(check.sql):
                yield Dependent("CHECK", relation.name, check.name)
    for index in schema.indexes:
        if any(map(casts, (index.where, *(each.sql for each in index.expressions)))):
            yield Dependent("index", index.relation, index.name)
    for view in schema.views:
        if casts(view.sql):
            yield Dependent("view", "", view.name)


def _is_of_type(column: Column, name: str) -> bool:
    """Is the column of the domain `name`, or of the enumeration itself?"""
    if column.domain is not None:
        return column.domain.name == name
    enumeration = enumeration_of(column.type)
    return enumeration is not None and enumeration.full == name


def _sequences_of(schema: Schema, relation: str, column: str | None = None) -> Iterator[str]:
    """The sequences that end with a relation, or with one of its columns. A declared sequence that
    has the name of an identity column's sequence stays."""
    declared = {sequence.name for sequence in schema.sequences}
    yield from (
        sequence.name
        for sequence in schema.sequences
        if sequence.owner is not None
        and sequence.owner[0] == relation
        and column in (None, sequence.owner[1])
    )
    for each in schema.relation(relation).visible:
        name = sequence_of_column(relation, each.name)
        numbered = each.default_kind is DefaultKind.IDENTITY and column in (None, each.name)
        if numbered and name not in declared:
            yield name


def users_of_unique(schema: Schema, relation: str, columns: tuple[str, ...]) -> Iterator[Dependent]:
    """The foreign keys that reference UNIQUE columns."""
    for child, key in schema.children(relation):
        if key.to_unique and set(key.parent_columns) == set(columns):
            yield Dependent("foreign key", child.name, key.name)


def users_of_key(schema: Schema, relation: str) -> Iterator[Dependent]:
    """The foreign keys that reference the primary key."""
    for child, key in schema.children(relation):
        if not key.to_unique:
            yield Dependent("foreign key", child.name, key.name)


def users_of_view(schema: Schema, view: str) -> Iterator[Dependent]:
    for other in schema.views:
        if other.name != view and view in named(other):
            yield Dependent("view", "", other.name)


def without(schema: Schema, dependent: Dependent) -> Schema:
    """The schema without an element, and without those that need it."""
    kind, name = dependent.kind, dependent.name
    match kind:
        case "view":
            return without_view(schema, name)
        case "index":
            return _without_index(schema, name)
        case "UNIQUE":
            return without_unique(schema, name)
        case "generated column" | "column":
            return without_column(schema, dependent.relation, name)
        case "domain":
            return without_type(schema, name)
        case "default" if not dependent.relation:
            return _without_default_of_domain(schema, name)
        case "default":
            return _with_relation(schema, dependent.relation, lambda r: _without_default(r, name))
    return _with_relation(schema, dependent.relation, lambda r: without_constraint(r, name))


def without_unique(schema: Schema, name: str) -> Schema:
    """The schema without a UNIQUE constraint and the foreign keys to it."""
    (index,) = (each for each in schema.indexes if each.name == name)
    columns = tuple(part.column for part in index.columns)
    for user in list(users_of_unique(schema, index.relation, columns)):
        schema = without(schema, user)
    return _without_index(schema, name)


def without_view(schema: Schema, name: str) -> Schema:
    """The schema without a view, its indexes, and the views that read it."""
    for user in list(users_of_view(schema, name)):
        schema = without_view(schema, user.name)
    return replace(
        schema,
        views=tuple(view for view in schema.views if view.name != name),
        indexes=tuple(index for index in schema.indexes if index.relation != name),
    )


def without_sequence(schema: Schema, name: str) -> Schema:
    """The schema without a sequence and the defaults that take numbers from it."""
    for user in list(users_of_sequence(schema, name)):
        schema = without(schema, user)
    sequences = tuple(each for each in schema.sequences if each.name != name)
    return replace(schema, sequences=sequences)


def without_type(schema: Schema, name: str) -> Schema:
    """The schema without an enumeration or a domain, and everything that uses it."""
    while user := next(users_of_type(schema, name), None):
        schema = without(schema, user)
    enumerations = tuple(each for each in schema.enumerations if each.full != name)
    domains = tuple(each for each in schema.domains if each.name != name)
    return replace(schema, enumerations=enumerations, domains=domains)


def _without_default(relation: Relation, column: str) -> Relation:
    columns = (_undefaulted(c) if c.name == column else c for c in relation.columns)
    return replace(relation, columns=tuple(columns))


def _undefaulted(column: Column) -> Column:
    return with_own_default(column, None, has_default=False)


def _without_default_of_domain(schema: Schema, name: str) -> Schema:
    domains = (
        with_domain_default(each, None) if each.name == name else each for each in schema.domains
    )
    return replace(schema, domains=tuple(domains))


def without_column(schema: Schema, relation: str, column: str) -> Schema:
    """The schema without a column and everything that uses it."""
    while user := next(users_of_column(schema, relation, column), None):
        schema = without(schema, user)
    for sequence in list(_sequences_of(schema, relation, column)):
        schema = without_sequence(schema, sequence)
    return _with_relation(
        schema,
        relation,
        lambda r: replace(
            r,
            columns=tuple(c for c in r.columns if c.name != column),
            checks=tuple(c for c in r.checks if c.origin is None or c.origin.column != column),
        ),
    )


def without_relation(schema: Schema, relation: str) -> Schema:
    """The schema without a relation and everything that uses it."""
    while user := next(users_of_relation(schema, relation), None):
        schema = without(schema, user)
    for sequence in list(_sequences_of(schema, relation)):
        schema = without_sequence(schema, sequence)
    return replace(
        schema,
        relations=tuple(r for r in schema.relations if r.name != relation),
        indexes=tuple(index for index in schema.indexes if index.relation != relation),
    )


def without_constraint(relation: Relation, name: str) -> Relation:
    """The relation without a foreign key or a CHECK."""
    keys: tuple[ForeignKey, ...] = tuple(k for k in relation.foreign_keys if k.name != name)
    checks = tuple(check for check in relation.checks if check.name != name)
    return replace(relation, foreign_keys=keys, checks=checks)


def without_key(relation: Relation) -> Relation:
    """The relation without its primary key, whose columns stay NOT NULL."""
    identity = row_identity(relation.visible_names)
    columns = (identity, *relation.visible)
    return replace(relation, columns=columns, primary_key=(identity.name,), key_name="")


def _without_index(schema: Schema, name: str) -> Schema:
    return replace(schema, indexes=tuple(i for i in schema.indexes if i.name != name))


def _with_relation(schema: Schema, name: str, change: Callable[[Relation], Relation]) -> Schema:
    return replace(
        schema,
        relations=tuple(change(r) if r.name == name else r for r in schema.relations),
    )


def _columns_of(sql: str, relation: Relation) -> set[str]:
    """The columns of its relation that an expression reads."""
    bound = bind(f"SELECT ({sql}) FROM {quoted(relation.name)}", alone(relation))
    unlink(bound.ast)
    return {column for _, column in bound.statement.reads}


def _columns_of_index(index: DeclaredIndex, relation: Relation) -> set[str]:
    texts = [each.sql for each in index.expressions] + ([index.where] if index.where else [])
    read = {column for sql in texts for column in _columns_of(sql, relation)}
    return {*(part.column for part in index.columns), *index.include, *read}


def _columns_of_view(view: DeclaredView, schema: Schema) -> set[tuple[str, str]]:
    tree = written_out(view, schema.views)
    bound = bind_tree(tree, view.sql, Catalog(0, schema, Forest(schema.names)))
    of_types = columns_of_types(bound.ast, schema)
    unlink(bound.ast)
    return bound.statement.reads | of_types


def _relations_of_view(view: DeclaredView, schema: Schema) -> set[str]:
    tree = written_out(view, schema.views)
    bound = bind_tree(tree, view.sql, Catalog(0, schema, Forest(schema.names)))
    of_types = relations_of_types(bound.ast)
    unlink(bound.ast)
    sources = (source.relation for block in bound.statement.blocks for source in block.sources)
    return {*sources, *of_types}
