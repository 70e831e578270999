"""A type, or a label of an enumeration, with another name: in the types of columns, and in the
texts of SQL that name the type in a cast.

A text that spells a label is not changed: what it means follows from its place. A view, CHECK or
statement that spells the old label is refused, with what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from hornbeam_server.query.binding.binder import bind
from hornbeam_server.schema.catalog import Catalog, Index, alone
from hornbeam_server.schema.domains import (
    domain_names,
    renamed_in_relation,
    with_renamed_domains,
)
from hornbeam_server.schema.enumerated import with_labels
from hornbeam_server.schema.errors import SchemaError, SqlError
from hornbeam_server.schema.model import Column, DeclaredIndex, DeclaredView, Domain, Relation
from hornbeam_server.schema.renames import Rename
from hornbeam_server.schema.trees import unlink
from hornbeam_server.schema.type_names import with_renamed_type as renamed_in
from hornbeam_server.schema.views import DeferredView, ImmediateView, PlainView, ProjectedView

_View = TypeVar("_View", DeferredView, ImmediateView, ProjectedView, PlainView)
_Index = TypeVar("_Index", Index, DeclaredIndex)


def with_renamed_type(catalog: Catalog, rename: Rename) -> Catalog:
    """The catalog after the rename of a type or of a label. Raises SchemaError for a text that
    spells the old label."""
    spaces = catalog.schema.spaces
    if rename.relation in domain_names(catalog.schema):
        return _with_renamed_domain(catalog, {rename.relation: rename.new})
    changed = {
        each.full: rename.changed_enumeration(each, spaces)
        for each in catalog.schema.enumerations
        if each.full == rename.relation
    }
    renamed = with_labels(catalog, changed)
    if rename.column:
        _require_readable(renamed, rename)
        return renamed
    (enumeration,) = changed.values()
    return _Texts(rename.relation, enumeration.sql).catalog(renamed)


def _with_renamed_domain(catalog: Catalog, names: Mapping[str, str]) -> Catalog:
    """Texts of SQL in a catalog have the type of a domain in place of its name."""
    return replace(
        catalog,
        schema=with_renamed_domains(catalog.schema, names),
        copies=tuple(
            replace(copy, target=renamed_in_relation(copy.target, names)) for copy in catalog.copies
        ),
    )


class _Texts:
    """Changes the name of a type in texts of SQL."""

    def __init__(self, old: str, new: str) -> None:
        self._old, self._new = old, new

    def catalog(self, catalog: Catalog) -> Catalog:
        schema = catalog.schema
        return replace(
            catalog,
            schema=replace(
                schema,
                relations=tuple(map(self._relation, schema.relations)),
                indexes=tuple(map(self._index, schema.indexes)),
                views=tuple(map(self._declared, schema.views)),
                domains=tuple(map(self._domain, schema.domains)),
            ),
            indexes=tuple(map(self._index, catalog.indexes)),
            deferred=self._views(catalog.deferred),
            immediate=self._views(catalog.immediate),
            projected=self._views(catalog.projected),
            plain=self._views(catalog.plain),
            workload=tuple(replace(each, sql=self._text(each.sql)) for each in catalog.workload),
        )

    def _text(self, sql: str) -> str:
        return renamed_in(sql, self._old, self._new)

    def _views(self, views: Iterable[_View]) -> tuple[_View, ...]:
        return tuple(replace(view, declared=self._declared(view.declared)) for view in views)

    def _declared(self, view: DeclaredView) -> DeclaredView:
        return replace(view, sql=self._text(view.sql))

    def _relation(self, relation: Relation) -> Relation:
        return replace(
            relation,
            columns=tuple(map(self._column, relation.columns)),
            checks=tuple(replace(each, sql=self._text(each.sql)) for each in relation.checks),
        )

    def _domain(self, domain: Domain) -> Domain:
        checks = tuple(replace(each, sql=self._text(each.sql)) for each in domain.checks)
        return replace(domain, value=self._column(domain.value), checks=checks)

    def _column(self, column: Column) -> Column:
        default = column.default
        if default is None or not default.sql:
            return column
        return replace(column, default=replace(default, sql=self._text(default.sql)))

    def _index(self, index: _Index) -> _Index:
        if not index.expressions:
            return replace(index, where=self._text(index.where))
        texts = {each.column: self._text(each.sql) for each in index.expressions}
        return replace(
            index,
            where=self._text(index.where),
            columns=tuple(
                replace(part, column=f"({texts[part.column]})") if part.column in texts else part
                for part in index.columns
            ),
            expressions=tuple(
                replace(each, column=f"({texts[each.column]})", sql=texts[each.column])
                for each in index.expressions
            ),
        )


def _require_readable(catalog: Catalog, rename: Rename) -> None:
    """Raises SchemaError if a text of the catalog spells a label that is gone."""
    schema = catalog.schema
    texts = [(f"View {view.name}", view.sql, catalog) for view in schema.views]
    texts += [(f"Statement {each.name}", each.sql, catalog) for each in catalog.workload]
    for relation in schema.relations:
        where = [index.where for index in schema.indexes if index.relation == relation.name]
        checks = [check.sql for check in relation.checks]
        generated = [c.default.sql for c in relation.columns if c.default is not None]
        for sql in filter(None, (*where, *checks, *generated)):
            text = f'SELECT ({sql}) FROM "{relation.name}"'
            texts.append((f"An expression of {relation.name}", text, alone(relation)))
    for what, sql, known in texts:
        try:
            unlink(bind(sql, known).ast)
        except SqlError as error:
            raise SchemaError(
                f"{what} cannot follow {rename}: {error.message}",
                cure="Drop or change it first, and create it again with the new label.",
            ) from None
