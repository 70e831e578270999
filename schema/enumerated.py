"""Schemas and catalogs whose enumerations get other labels or another name.

A column has its enumeration in its type. Stored values are positions, so all rows stay as they are
when a label is added or renamed (`schema/enumerations.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from hornbeam_server.schema.catalog import Catalog, Index
from hornbeam_server.schema.enumerations import Enumeration, Label
from hornbeam_server.schema.model import Column, Default, Relation, Schema
from hornbeam_server.schema.types import ColumnType, Value
from hornbeam_server.schema.views import (
    Computed,
    DeferredView,
    ImmediateView,
    PlainView,
    ProjectedView,
    StateLayout,
)

Changes = Mapping[str, Enumeration]
"""Enumerations by the full names that they have before the change."""
_View = TypeVar("_View", DeferredView, ImmediateView, ProjectedView)


def in_positions(declared: Schema, base: Schema) -> Schema:
    """The schema `declared`, in which labels have the positions under which rows are stored under
    `base`, and new labels have positions between them."""
    before = {enumeration.full: enumeration for enumeration in base.enumerations}
    used = used_enumerations(base)
    placed = {
        enumeration.full: enumeration.following(before[enumeration.full])
        for enumeration in declared.enumerations
        if enumeration.full in used
        and enumeration.full in before
        and enumeration.keeps_order_of(before[enumeration.full])
    }
    return with_enumerations(declared, placed)


def used_enumerations(schema: Schema) -> frozenset[str]:
    """The full names of the enumerations that columns have, also arrays of them."""
    types = (column.type for relation in schema.relations for column in relation.visible)
    found = (type_.enumeration for each in types for type_ in (each, each.element) if type_)
    return frozenset(enumeration.full for enumeration in found if enumeration is not None)


def with_enumerations(schema: Schema, changes: Changes) -> Schema:
    """The schema with other enumerations, also in the types of its columns."""
    if not changes:
        return schema
    return replace(
        schema,
        relations=tuple(_relation(relation, changes) for relation in schema.relations),
        enumerations=tuple(changes.get(each.full, each) for each in schema.enumerations),
        domains=tuple(
            replace(domain, value=_column(domain.value, changes)) for domain in schema.domains
        ),
    )


def with_labels(catalog: Catalog, changes: Changes) -> Catalog:
    """The catalog, whose relations and views have columns of other enumerations."""
    if not changes:
        return catalog
    return replace(
        catalog,
        schema=with_enumerations(catalog.schema, changes),
        deferred=tuple(
            replace(_view(v, changes), states=tuple(_state(s, changes) for s in v.states))
            for v in catalog.deferred
        ),
        immediate=tuple(_immediate(view, changes) for view in catalog.immediate),
        projected=tuple(_view(view, changes) for view in catalog.projected),
        plain=tuple(_plain(view, changes) for view in catalog.plain),
        indexes=tuple(_index(index, changes) for index in catalog.indexes),
        copies=tuple(
            replace(copy, target=_relation(copy.target, changes)) for copy in catalog.copies
        ),
    )


def _index(index: Index, changes: Changes) -> Index:
    expressions = tuple(
        replace(each, type=retyped(each.type, changes)) for each in index.expressions
    )
    return replace(index, expressions=expressions)


def _relation(relation: Relation, changes: Changes) -> Relation:
    columns = _columns(relation.columns, changes)
    return relation if columns == relation.columns else replace(relation, columns=columns)


def _columns(columns: Iterable[Column], changes: Changes) -> tuple[Column, ...]:
    return tuple(_column(column, changes) for column in columns)


def _column(column: Column, changes: Changes) -> Column:
    type_ = retyped(column.type, changes)
    if type_ is column.type:
        return column
    default, missing = _default(column.default, type_), _default(column.missing, type_)
    return replace(column, type=type_, default=default, missing=missing)


def retyped(type_: ColumnType, changes: Changes) -> ColumnType:
    """The type with the other enumeration; the same object if it has none of them."""
    if type_.element is not None:
        element = retyped(type_.element, changes)
        return type_ if element is type_.element else replace(type_, element=element)
    found = None if type_.enumeration is None else changes.get(type_.enumeration.full)
    return type_ if found is None else replace(type_, enumeration=found)


def _default(default: Default | None, type_: ColumnType) -> Default | None:
    if default is None or not default.is_literal:
        return default
    return replace(default, value=_value(default.value, type_))


def _value(value: Value, type_: ColumnType) -> Value:
    if isinstance(value, tuple):
        return tuple(_value(each, type_.element_type) for each in value)  # type: ignore[misc]
    if not isinstance(value, Label):
        return value
    labels = type_.labels
    if labels.positions == value.enumeration.positions:  # a label is renamed
        return labels.by_position[value.position]
    return labels.by_label[str(value)]


def _view(view: _View, changes: Changes) -> _View:
    columns, hidden = _columns(view.columns, changes), _columns(view.hidden, changes)
    return replace(view, columns=columns, hidden=hidden)


def _immediate(view: ImmediateView, changes: Changes) -> ImmediateView:
    return replace(
        _view(view, changes),
        cells=_state(view.cells, changes),
        values=tuple(_state(state, changes) for state in view.values),
        computed=None if view.computed is None else _computed(view.computed, changes),
    )


def _computed(computed: Computed, changes: Changes) -> Computed:
    return replace(computed, terms=_columns(computed.terms, changes))


def _state(state: StateLayout, changes: Changes) -> StateLayout:
    return replace(state, columns=_columns(state.columns, changes))


def _plain(view: PlainView, changes: Changes) -> PlainView:
    return replace(view, columns=_columns(view.columns, changes))
