"""The formats of the catalog, and which of them a catalog needs."""

from __future__ import annotations

import enum
from collections.abc import Iterator

from hornbeam_server.schema.catalog import Catalog, Index
from hornbeam_server.schema.copies import Copy
from hornbeam_server.schema.model import (
    Action,
    Column,
    DeclaredIndex,
    DefaultKind,
    Identity,
    Refresh,
    Relation,
)
from hornbeam_server.schema.sequences import sequences_in
from hornbeam_server.schema.types import MOMENTS, REAL, ColumnType, Declared, Kind, enumeration_of


class Format(enum.IntEnum):
    """All formats ever written; all remain readable."""

    FIRST = 1
    """Without deferred views."""
    SECOND = 2
    """With deferred views: an older server would drop their tables."""
    THIRD = 3
    """With a load in progress: an older server would write at the same time."""
    FOURTH = 4
    """With views that are recomputed: an older server would maintain them from changes."""
    FIFTH = 5
    """With declared types: an older server would accept other values."""
    SIXTH = 6
    """With identity columns that have a beginning or options: an older server would give numbers
    a second time."""
    SEVENTH = 7
    """With immediate views: an older server would not maintain them."""
    EIGHTH = 8
    """With immediate views that have indexes, have no aggregates, or compute columns when they are
    read (an older server would not maintain them, or would show other rows); or with chosen
    aggregate views, or a choice without them (an older server would forget which are chosen)."""
    NINTH = 9
    """With relations that have no primary key (an older server would show the row identity);
    foreign keys to UNIQUE columns, ON UPDATE or ON DELETE SET DEFAULT (an older server would not
    follow them); or CHECK constraints, generated columns, or defaults that are expressions or
    random UUIDs (an older server would not evaluate them)."""
    TENTH = 10
    """With relations that have been altered: dropped columns (an older server would show them), or
    columns whose value in older rows is not their default (an older server would show another); or
    with columns of type TIME, TIMESTAMP(n), INTERVAL or JSONB (an older server does not know them);
    or with plain views (an older server would take them for views that are stored); or with partial
    indexes (an older server would put all rows into them); or with renamed indexes and identity
    columns (an older server would not find them)."""
    ELEVENTH = 11
    """With columns that are arrays or CHAR(n) (an older server does not know them); or with indexes
    on expressions (an older server would look for their columns), or whose NULLs are equal (an
    older server would not compare them); or with copies of relations (an older server would not
    keep them)."""
    TWELFTH = 12
    """With relations or views that have stored names (an older server would look for their tables
    and their changes under other names); with sequences that are no identity columns', or defaults
    that take numbers from a sequence (an older server does not know them); or with schemas besides
    `public` (an older server would show their relations under other names)."""
    THIRTEENTH = 13
    """With columns of REAL (an older server would not round their values)."""
    FOURTEENTH = 14
    """With live views: an older server would leave them to Spark."""
    FIFTEENTH = 15
    """With enumerations (an older server does not know them)."""
    SIXTEENTH = 16
    """With domains: an older server would forget which columns are of one."""
    SEVENTEENTH = 17
    """With copies of relations that take a number for each row (an older server would leave the
    column empty), or that have another key (an older server would use that of the relation)."""
    EIGHTEENTH = 18
    """With changes in two stages, whose columns are hidden (an older server would take such a
    column for the row identity), or with copies that have no key any more."""
    NINETEENTH = 19
    """With deferred or live views that keep partial aggregates: an older server would find other
    states than its programs have."""
    TWENTIETH = 20
    """With primary keys that have names of their own: an older server would forget them."""
    TWENTY_FIRST = 21
    """With comments: an older server would forget them."""


def format_of(catalog: Catalog) -> Format:
    """The oldest format that can hold the catalog."""
    if catalog.comments:
        return Format.TWENTY_FIRST
    types = [column.type for column in _all_columns(catalog)]
    targets = (copy.target for copy in catalog.copies)
    if any(relation.key_name for relation in (*catalog.schema.relations, *targets)):
        return Format.TWENTIETH
    if any(view.partials for view in catalog.deferred):
        return Format.NINETEENTH
    if catalog.staged or any(_is_of_eighteenth(copy, catalog) for copy in catalog.copies):
        return Format.EIGHTEENTH
    if any(_is_of_seventeenth(copy, catalog) for copy in catalog.copies):
        return Format.SEVENTEENTH
    if catalog.schema.domains:
        return Format.SIXTEENTH
    if catalog.schema.enumerations or any(map(enumeration_of, types)):
        return Format.FIFTEENTH
    if any(view.refresh is Refresh.LIVE for view in catalog.schema.views):
        return Format.FOURTEENTH
    if any(map(_is_of_thirteenth, types)):
        return Format.THIRTEENTH
    return _older_format(catalog)


def _older_format(catalog: Catalog) -> Format:
    drawn = catalog.schema.sequences or any(map(_draws, catalog.schema.relations))
    stored = any(name not in catalog.index for name, _ in catalog.stored_as)
    if drawn or catalog.schema.spaces or stored:
        return Format.TWELFTH
    indexes: tuple[Index | DeclaredIndex, ...] = (*catalog.indexes, *catalog.schema.indexes)
    newer = any(index.expressions or not index.nulls_distinct for index in indexes)
    types = any(_is_of_eleventh(column.type) for column in _all_columns(catalog))
    if catalog.copies or newer or types:
        return Format.ELEVENTH
    partial = any(index.where for index in catalog.indexes)
    partial = partial or any(index.where for index in catalog.schema.indexes)
    renamed = catalog.stored_as or any(begun.cell for begun in catalog.beginnings)
    altered = any(map(_is_altered, catalog.schema.relations))
    if partial or catalog.plain or renamed or altered:
        return Format.TENTH
    if any(_is_of_tenth(column.type) for column in _all_columns(catalog)):
        return Format.TENTH
    if any(map(_is_newer, catalog.schema.relations)):
        return Format.NINTH
    indexed = any(index.on in catalog.transactional_view for index in catalog.indexes)
    newer = any(view.computed is not None or view.chosen for view in catalog.immediate)
    if catalog.projected or indexed or newer or not catalog.aggregates:
        return Format.EIGHTH
    if catalog.immediate:
        return Format.SEVENTH
    counters = catalog.counters.values()
    if catalog.beginnings or any(counter.identity != Identity() for counter in counters):
        return Format.SIXTH
    columns = (column for relation in catalog.schema.relations for column in relation.columns)
    if any(column.type.declared is not None for column in columns):
        return Format.FIFTH
    if any(view.refresh is Refresh.RECOMPUTE for view in catalog.schema.views):
        return Format.FOURTH
    if catalog.load is not None:
        return Format.THIRD
    return Format.SECOND if catalog.deferred else Format.FIRST


def _all_columns(catalog: Catalog) -> Iterator[Column]:
    """The columns of relations and of all views that compute values."""
    for relation in catalog.schema.relations:
        yield from relation.columns
    for deferred in catalog.deferred:
        yield from (*deferred.columns, *deferred.hidden)
    for view in catalog.transactional_view.values():
        yield from (*view.columns, *view.hidden)


def _is_of_eighteenth(copy: Copy, catalog: Catalog) -> bool:
    before, after = catalog.schema.relation(copy.relation), copy.target
    hidden = [column for column in after.columns if column.hidden and column != after.identity]
    return bool(hidden) or (after.identity is not None and before.identity is None)


def _is_of_seventeenth(copy: Copy, catalog: Catalog) -> bool:
    return bool(copy.draws) or copy.moves_key(catalog.schema.relation(copy.relation))


def _is_of_thirteenth(type_: ColumnType) -> bool:
    return type_ == REAL or (type_.element is not None and _is_of_thirteenth(type_.element))


def _is_of_eleventh(type_: ColumnType) -> bool:
    return type_.element is not None or type_.declared is Declared.CHAR


def _is_of_tenth(type_: ColumnType) -> bool:
    rounded = type_.kind in MOMENTS and type_.precision is not None
    newer = type_.kind in {Kind.TIME, Kind.INTERVAL} or type_.declared is Declared.JSONB
    return newer or rounded


def _is_altered(relation: Relation) -> bool:
    """Does the relation need format 10?"""
    return any(
        column.dropped or column.missing is not None or column.type.declared is Declared.JSONB
        for column in relation.columns
    )


def _is_newer(relation: Relation) -> bool:
    """Does the relation need format 9?"""
    followed = any(
        key.to_unique or key.on_update is not Action.RESTRICT or key.on_delete is Action.SET_DEFAULT
        for key in relation.foreign_keys
    )
    return not relation.declared_key or followed or bool(relation.checks) or _computes(relation)


def _draws(relation: Relation) -> bool:
    """Has the relation a default that takes numbers from a sequence?"""
    return any(c.default is not None and sequences_in(c.default.sql) for c in relation.columns)


def _computes(relation: Relation) -> bool:
    """Does a column of the relation have a value that is computed?"""
    kinds = {DefaultKind.UUID, DefaultKind.EXPRESSION, DefaultKind.GENERATED}
    return any(c.default_kind in kinds for c in relation.columns)
