"""The documents of what a schema declares: relations, indexes, sequences, domains, and their
comments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hornbeam_server.schema.catalog import Catalog, Index
from hornbeam_server.schema.comments import Commented, Key
from hornbeam_server.schema.model import (
    Column,
    DeclaredSequence,
    Default,
    DefaultKind,
    Domain,
    Identity,
    Relation,
)
from hornbeam_server.schema.namespaces import bare, key_name, parted
from hornbeam_server.schema.render import render_default
from hornbeam_server.schema.types import enumeration_of


def comment_document(
    catalog: Catalog, kind: Commented, name: str, member: str = "", field: str = "comment"
) -> dict[str, str]:
    """The comment of an object, if it has one."""
    text = catalog.comment.get(Key(kind, name, member))
    return {} if text is None else {field: text}


def domain_declared(catalog: Catalog, domain: Domain) -> dict[str, Any]:
    """A domain with the names of its CHECKs."""
    kind = Commented.DOMAIN_CONSTRAINT
    checks = (
        {"name": check.name} | comment_document(catalog, kind, domain.name, check.name)
        for check in domain.checks
    )
    document = {"name": domain.name, "checks": list(checks)}
    return document | comment_document(catalog, Commented.DOMAIN, domain.name)


def sequence_document(sequence: DeclaredSequence) -> dict[str, Any]:
    """A sequence with its numbers, and the column that owns it."""
    return {
        "name": sequence.name,
        "type": sequence.type.ddl(),
        "start": sequence.start,
        "increment": sequence.increment,
        "minvalue": sequence.least,
        "maxvalue": sequence.most,
        "cycle": sequence.cycle,
        "owner": None if sequence.owner is None else list(sequence.owner),
    }


def graph_document(catalog: Catalog) -> dict[str, Any]:
    """The relations, their trees, and the views along the trees."""
    return {
        "relations": [relation_document(catalog, r) for r in catalog.schema.relations],
        "trees": trees_document(catalog),
        "views": [{"name": view.name, "path": list(view.path)} for view in catalog.views],
    }


def _identity_document(identity: Identity) -> dict[str, Any]:
    """An identity column, with the member names of SQLAlchemy."""
    least, most = (None, identity.last) if identity.increment > 0 else (identity.last, None)
    said = {"always": identity.always, "start": identity.start, "increment": identity.increment}
    bounds = {"minvalue": least, "maxvalue": most}
    return said | {name: bound for name, bound in bounds.items() if bound is not None}


def _domain_document(column: Column, spaces: Sequence[str]) -> dict[str, Any]:
    """The domain of a column, if it has one."""
    if column.domain is None:
        return {}
    space, name = parted(column.domain.name, spaces)
    return {"domain": {"schema": space, "name": name}}


def _column_document(relation: Relation, column: Column, spaces: Sequence[str]) -> dict[str, Any]:
    default = column.default or Default(DefaultKind.LITERAL)
    kind = column.default_kind
    has_sql = kind not in {None, DefaultKind.NOW}
    labels = enumeration_of(column.type)
    return {
        "name": column.name,
        "type": column.type.sql(),
        "declared": column.type.ddl(),
        **({} if labels is None else {"labels": list(labels.labels)}),
        **_domain_document(column, spaces),
        "nullable": column.nullable,
        "default": None if kind is None else kind.value,
        "default_sql": render_default(default) if has_sql else None,
        "generated": default.sql if column in relation.generated else None,
        "identity": _identity_document(default.identity) if kind is DefaultKind.IDENTITY else None,
    }


def relation_document(catalog: Catalog, relation: Relation) -> dict[str, Any]:
    """A relation with its columns, constraints and comments."""
    key = key_name(relation, catalog.schema.spaces)
    return {
        "name": relation.name,
        "columns": [
            _column_document(relation, column, catalog.schema.spaces)
            | comment_document(catalog, Commented.COLUMN, relation.name, column.name)
            for column in relation.visible
        ],
        "primary_key": list(relation.declared_key),
        "primary_key_name": key or None,
        **comment_document(
            catalog, Commented.CONSTRAINT, relation.name, key, "primary_key_comment"
        ),
        "foreign_keys": [
            {
                "name": fk.name,
                "columns": list(fk.columns),
                "parent": fk.parent,
                "parent_columns": list(fk.parent_columns),
                "on_delete": fk.on_delete.value,
                "on_update": fk.on_update.value,
                **comment_document(catalog, Commented.CONSTRAINT, relation.name, fk.name),
            }
            for fk in relation.foreign_keys
        ],
        "checks": [
            {"name": check.name, "sql": check.sql}
            | comment_document(catalog, Commented.CONSTRAINT, relation.name, check.name)
            for check in relation.own_checks
        ],
        "root": catalog.forest.root(relation.name),
        "rows": catalog.row_count.get(relation.name),
        **comment_document(catalog, Commented.TABLE, relation.name),
    }


def trees_document(catalog: Catalog) -> dict[str, Any]:
    """The edge of each relation to its parent; null for roots."""
    edges = {name: catalog.forest.parent.get(name) for name in catalog.schema.names}
    return {
        name: None if edge is None else {"parent": edge.parent, "foreign_key": edge.name}
        for name, edge in edges.items()
    }


def index_document(catalog: Catalog, index: Index) -> dict[str, Any]:
    """An index with its columns, state and comments."""
    own_name = bare(index.name, catalog.schema.spaces)
    return {
        "name": index.name,
        "on": index.on,
        "columns": [
            {"column": part.column, "descending": part.descending} for part in index.columns
        ],
        "include": list(index.include),
        "unique": index.unique,
        "nulls_distinct": index.nulls_distinct,
        "where": index.where,
        "expressions": [{"column": e.column, "sql": e.sql} for e in index.expressions],
        "purpose": index.purpose.value,
        "reason": index.reason,
        "state": catalog.state[index.name].value,
        **comment_document(catalog, Commented.INDEX, index.name),
        **comment_document(catalog, Commented.CONSTRAINT, index.on, own_name, "constraint_comment"),
    }


def indexes_on(catalog: Catalog, name: str) -> list[dict[str, Any]]:
    """The indexes on a relation or view, in short."""
    return [
        {
            "name": index.name,
            "columns": [part.column for part in index.columns],
            "purpose": index.purpose.value,
            "reason": index.reason,
            "state": catalog.state[index.name].value,
        }
        for index in catalog.indexes_on(name)
    ]
