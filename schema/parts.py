"""Parts of a catalog: what a client may know that may read only some relations and views."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from hornbeam_server.schema.catalog import Catalog, Forest, Part
from hornbeam_server.schema.commented import shown_comments
from hornbeam_server.schema.domains import domain_of
from hornbeam_server.schema.model import (
    PUBLIC,
    Column,
    DefaultKind,
    Relation,
    Schema,
    sequence_of_column,
)
from hornbeam_server.schema.namespaces import parted
from hornbeam_server.schema.sequences import sequences_in
from hornbeam_server.schema.types import enumeration_of


def part_of(catalog: Catalog, names: frozenset[str]) -> Part:
    """The part of `catalog` with the relations, views and sequences `names`, and with the keys,
    edges and indexes among them. The part describes, and no statement runs under it: relations of a
    view may be missing. Left out are reasons, because they may name other relations, the workload,
    and defaults that take numbers from other sequences. Of schemas and types, those are left out
    that no name and no column needs; all types stay that are in a schema of the names.
    """
    found = replace(
        catalog,
        schema=_schema_of(catalog, names),
        forest=_forest_of(catalog.forest, catalog.schema, names),
        views=tuple(view for view in catalog.views if view.name in names),
        deferred=tuple(view for view in catalog.deferred if view.name in names),
        immediate=tuple(view for view in catalog.immediate if view.name in names),
        projected=tuple(view for view in catalog.projected if view.name in names),
        plain=tuple(view for view in catalog.plain if view.name in names),
        indexes=tuple(replace(i, reason="") for i in catalog.indexes if i.on in names),
        workload=(),
        copies=(),
        part=None,
    )
    found = replace(found, comments=shown_comments(catalog.comments, found))
    found.keep_layouts(catalog.layout(name) for name in found.view)
    return Part(names, found)


def _forest_of(forest: Forest, schema: Schema, names: frozenset[str]) -> Forest:
    parents = tuple(
        (child, key) for child, key in forest.parents if child in names and key.parent in names
    )
    below = {child for child, _ in parents}
    return Forest(tuple(n for n in schema.names if n in names and n not in below), parents)


def _schema_of(catalog: Catalog, names: frozenset[str]) -> Schema:
    schema = catalog.schema
    sequences = tuple(
        each
        for each in schema.sequences
        if (each.name if each.owner is None else each.owner[0]) in names
    )
    kept = [relation for relation in schema.relations if relation.name in names]
    numbered = {*(each.name for each in sequences), *_identities(kept)}
    views = [name for name in (*catalog.all_views, *catalog.plain_view) if name in names]
    named = [*(each.name for each in kept), *(each.name for each in sequences), *views]
    spaces = {parted(name, schema.spaces)[0] for name in named}
    columns = chain.from_iterable((*(r.visible for r in kept), *_columns_of(views, catalog)))
    types = _types_of(columns, {*spaces, PUBLIC}, schema)
    spaces |= {parted(name, schema.spaces)[0] for name in types}
    return Schema(
        tuple(_without_hidden(relation, names, numbered) for relation in kept),
        tuple(index for index in schema.indexes if index.relation in names),
        tuple(view for view in schema.views if view.name in names),
        sequences,
        tuple(space for space in schema.spaces if space in spaces),
        tuple(each for each in schema.enumerations if each.full in types),
        tuple(each for each in schema.domains if each.name in types),
    )


def _identities(relations: Iterable[Relation]) -> Iterator[str]:
    """The names of the sequences of identity columns."""
    for relation in relations:
        for column in relation.visible:
            if column.default_kind is DefaultKind.IDENTITY:
                yield sequence_of_column(relation.name, column.name)


def _columns_of(views: Iterable[str], catalog: Catalog) -> Iterator[Sequence[Column]]:
    for name in views:
        plain = catalog.plain_view.get(name)
        yield catalog.visible(name) if plain is None else plain.columns


def _types_of(columns: Iterable[Column], spaces: set[str], schema: Schema) -> set[str]:
    """The full names of the types of the schemas `spaces` and of the columns, with the types that
    their domains have."""
    every = (*(e.full for e in schema.enumerations), *(each.name for each in schema.domains))
    found = {name for name in every if parted(name, schema.spaces)[0] in spaces}
    left = [*columns, *(d.value for d in schema.domains if d.name in found)]
    while left:
        column = left.pop()
        enumeration = enumeration_of(column.type)
        if enumeration is not None:
            found.add(enumeration.full)
        if column.domain is not None and column.domain.name not in found:
            found.add(column.domain.name)
            left.append(domain_of(schema, column.domain.name).value)
    return found


def _without_hidden(relation: Relation, names: frozenset[str], sequences: set[str]) -> Relation:
    """The relation without foreign keys to others than `names`, and without defaults that take
    numbers from others than `sequences`."""
    return replace(
        relation,
        columns=tuple(_without_draws(column, sequences) for column in relation.columns),
        foreign_keys=tuple(key for key in relation.foreign_keys if key.parent in names),
    )


def _without_draws(column: Column, sequences: set[str]) -> Column:
    default = column.default
    if default is None or default.kind is not DefaultKind.EXPRESSION:
        return column
    return (
        column if sequences.issuperset(sequences_in(default.sql)) else replace(column, default=None)
    )
