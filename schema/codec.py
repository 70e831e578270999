"""The catalog as JSON bytes, for the system table and for display.

`format` comes first; an unknown format is refused as Corruption, never guessed. All other data is
written as msgspec writes dataclasses, except literal defaults: the value of a default is a number,
a boolean or text, and `ColumnType.coerce` of its column restores the exact value.
"""

from __future__ import annotations

import base64
import datetime as dt
import enum
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace

import msgspec

from hornbeam_server.schema.assignment import text_of
from hornbeam_server.schema.catalog import Catalog, Forest, Index, Load, State, WorkloadStatement
from hornbeam_server.schema.copies import Copy
from hornbeam_server.schema.counters import Beginning
from hornbeam_server.schema.errors import Corruption, TypeMismatch
from hornbeam_server.schema.model import (
    Action,
    Check,
    Column,
    DeclaredIndex,
    DeclaredSequence,
    DeclaredView,
    Default,
    DefaultKind,
    ForeignKey,
    Identity,
    KeyPart,
    Refresh,
    Relation,
    Schema,
)
from hornbeam_server.schema.sequences import sequences_in
from hornbeam_server.schema.types import MOMENTS, REAL, ColumnType, Declared, Kind, Value
from hornbeam_server.schema.views import (
    Computed,
    DeferredView,
    FoldedColumn,
    ImmediateView,
    JoinView,
    PlainView,
    ProjectedView,
    StateLayout,
)


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


class _DefaultForm(msgspec.Struct, omit_defaults=True):
    kind: DefaultKind
    value: bool | int | str | None = None
    identity: Identity = Identity()
    sql: str = ""


class _TypeForm(msgspec.Struct):
    kind: Kind
    precision: int | None = None
    scale: int | None = None
    length: int | None = None
    declared: Declared | None = None
    element: _TypeForm | msgspec.UnsetType = msgspec.UNSET
    """Only arrays have it, so that catalogs without them have the bytes of older formats."""


class _ColumnForm(msgspec.Struct, omit_defaults=True):
    name: str
    type: _TypeForm
    nullable: bool
    default: _DefaultForm | None = None
    hidden: bool = False
    dropped: bool = False
    missing: _DefaultForm | None = None


class _RelationForm(msgspec.Struct, omit_defaults=True):
    name: str
    columns: tuple[_ColumnForm, ...]
    primary_key: tuple[str, ...]
    foreign_keys: tuple[ForeignKey, ...]
    checks: tuple[Check, ...] = ()


class _StateForm(msgspec.Struct):
    name: str
    columns: tuple[_ColumnForm, ...]
    key: tuple[KeyPart, ...]


class _DeclaredForm(msgspec.Struct):
    name: str
    sql: str
    interval_s: float
    group: str
    refresh: Refresh = Refresh.DEFERRED


class _DeferredForm(msgspec.Struct):
    declared: _DeclaredForm
    relations: tuple[str, ...]
    columns: tuple[_ColumnForm, ...]
    hidden: tuple[_ColumnForm, ...]
    key: tuple[KeyPart, ...]
    states: tuple[_StateForm, ...]


class _ComputedForm(msgspec.Struct, omit_defaults=True):
    terms: tuple[_ColumnForm, ...]
    folded: tuple[FoldedColumn, ...]
    expressions: tuple[str, ...]
    having: str = ""


class _ImmediateForm(msgspec.Struct, omit_defaults=True):
    declared: _DeclaredForm
    relations: tuple[str, ...]
    columns: tuple[_ColumnForm, ...]
    hidden: tuple[_ColumnForm, ...]
    key: tuple[KeyPart, ...]
    cells: _StateForm
    folded: tuple[FoldedColumn, ...]
    grouped: bool = True
    values: tuple[_StateForm, ...] = ()
    computed: _ComputedForm | None = None
    chosen: bool = False


class _ProjectedForm(msgspec.Struct):
    declared: _DeclaredForm
    relations: tuple[str, ...]
    columns: tuple[_ColumnForm, ...]
    hidden: tuple[_ColumnForm, ...]
    key: tuple[KeyPart, ...]


class _PlainForm(msgspec.Struct):
    declared: _DeclaredForm
    sources: tuple[str, ...]
    columns: tuple[_ColumnForm, ...]


class _CopyForm(msgspec.Struct):
    target: _RelationForm
    conversions: tuple[tuple[str, str], ...]


class _SequenceForm(msgspec.Struct, omit_defaults=True):
    name: str
    type: _TypeForm
    start: int
    increment: int
    least: int
    most: int
    cycle: bool = False
    owner: tuple[str, str] | None = None


class _CatalogForm(msgspec.Struct, omit_defaults=True):
    format: Format
    version: int
    relations: tuple[_RelationForm, ...]
    declared_indexes: tuple[DeclaredIndex, ...]
    forest: Forest
    views: tuple[JoinView, ...]
    indexes: tuple[Index, ...]
    states: tuple[tuple[str, State], ...]
    incarnations: tuple[tuple[str, int], ...]
    workload: tuple[WorkloadStatement, ...]
    row_counts: tuple[tuple[str, int], ...]
    since: int = 0
    """0 in catalogs written before this field existed."""
    declared_views: tuple[_DeclaredForm, ...] = ()
    deferred: tuple[_DeferredForm, ...] = ()
    load: Load | None = None
    method: str = "optimal"
    budget: float | None = None
    """An older server drops `method` and `budget`."""
    beginnings: tuple[Beginning, ...] = ()
    immediate: tuple[_ImmediateForm, ...] = ()
    aggregates: bool = True
    projected: tuple[_ProjectedForm, ...] = ()
    plain: tuple[_PlainForm, ...] = ()
    stored_as: tuple[tuple[str, str], ...] = ()
    copies: tuple[_CopyForm, ...] = ()
    sequences: tuple[_SequenceForm, ...] = ()
    spaces: tuple[str, ...] = ()


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_CatalogForm)


def encode_catalog(catalog: Catalog) -> bytes:
    """The catalog as bytes. Equal catalogs give equal bytes."""
    return _encoder.encode(
        _CatalogForm(
            _format(catalog),
            catalog.version,
            tuple(_relation_form(relation) for relation in catalog.schema.relations),
            catalog.schema.indexes,
            catalog.forest,
            catalog.views,
            catalog.indexes,
            catalog.states,
            catalog.incarnations,
            catalog.workload,
            catalog.row_counts,
            catalog.since,
            tuple(map(_declared_form, catalog.schema.views)),
            tuple(_deferred_form(view) for view in catalog.deferred),
            catalog.load,
            catalog.method,
            catalog.budget,
            catalog.beginnings,
            tuple(_immediate_form(view) for view in catalog.immediate),
            catalog.aggregates,
            tuple(_projected_form(view) for view in catalog.projected),
            tuple(_plain_form(view) for view in catalog.plain),
            catalog.stored_as,
            tuple(_copy_form(copy) for copy in catalog.copies),
            tuple(map(_sequence_form, catalog.schema.sequences)),
            catalog.schema.spaces,
        )
    )


def meaning_of(catalog: Catalog) -> int:
    """A hash of 48 bits of all that statements mean under a catalog: the objects that they name,
    and where their rows are. The progress of builds, estimates and counters do not count."""
    bare = replace(
        catalog, version=0, since=0, states=(), row_counts=(), workload=(), load=None, beginnings=()
    )
    return int.from_bytes(hashlib.blake2b(encode_catalog(bare), digest_size=6).digest())


def _format(catalog: Catalog) -> Format:
    if (recent := _recent_format(catalog)) is not None:
        return recent
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


def _recent_format(catalog: Catalog) -> Format | None:
    if any(view.refresh is Refresh.LIVE for view in catalog.schema.views):
        return Format.FOURTEENTH
    if any(_is_of_thirteenth(column.type) for column in _all_columns(catalog)):
        return Format.THIRTEENTH
    return None


def _all_columns(catalog: Catalog) -> Iterator[Column]:
    """The columns of relations and of all views that compute values."""
    for relation in catalog.schema.relations:
        yield from relation.columns
    for deferred in catalog.deferred:
        yield from (*deferred.columns, *deferred.hidden)
    for view in catalog.transactional_view.values():
        yield from (*view.columns, *view.hidden)


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


def decode_catalog(data: bytes) -> Catalog:
    """The catalog encoded in `data`. Raises Corruption."""
    try:
        form = _decoder.decode(data)
        relations = tuple(_relation(relation) for relation in form.relations)
        deferred = tuple(_deferred(view) for view in form.deferred)
        immediate = tuple(_immediate(view) for view in form.immediate)
        projected = tuple(_projected(view) for view in form.projected)
        plain = tuple(_plain_view(view) for view in form.plain)
        stored = [
            view.declared for views in (deferred, immediate, projected, plain) for view in views
        ]
        named = {view.name: view for view in stored}
        views = tuple(named.get(view.name) or _declared(view) for view in form.declared_views)
        copies = tuple(Copy(_relation(each.target), each.conversions) for each in form.copies)
    except (msgspec.DecodeError, TypeMismatch, UnicodeDecodeError) as error:
        raise Corruption(
            f"The stored catalog cannot be read: {error}",
            cure="Open it with the version of Hornbeam that wrote it, or restore a backup.",
        ) from error
    return Catalog(
        form.version,
        Schema(
            relations,
            form.declared_indexes,
            views,
            tuple(map(_sequence, form.sequences)),
            form.spaces,
        ),
        form.forest,
        form.views,
        form.indexes,
        form.states,
        form.incarnations,
        form.workload,
        form.row_counts,
        form.since,
        deferred,
        form.load,
        form.method,
        form.budget,
        form.beginnings,
        immediate,
        form.aggregates,
        projected,
        plain,
        form.stored_as,
        copies,
    )


def _sequence_form(sequence: DeclaredSequence) -> _SequenceForm:
    return _SequenceForm(
        sequence.name,
        _type_form(sequence.type),
        sequence.start,
        sequence.increment,
        sequence.least,
        sequence.most,
        sequence.cycle,
        sequence.owner,
    )


def _sequence(form: _SequenceForm) -> DeclaredSequence:
    return DeclaredSequence(
        form.name,
        _type(form.type),
        form.start,
        form.increment,
        form.least,
        form.most,
        form.cycle,
        form.owner,
    )


def _copy_form(copy: Copy) -> _CopyForm:
    return _CopyForm(_relation_form(copy.target), copy.conversions)


def _relation_form(relation: Relation) -> _RelationForm:
    columns = _column_forms(relation.columns)
    return _RelationForm(
        relation.name, columns, relation.primary_key, relation.foreign_keys, relation.checks
    )


def _deferred_form(view: DeferredView) -> _DeferredForm:
    return _DeferredForm(
        _declared_form(view.declared),
        view.relations,
        _column_forms(view.columns),
        _column_forms(view.hidden),
        view.key,
        tuple(map(_state_form, view.states)),
    )


def _immediate_form(view: ImmediateView) -> _ImmediateForm:
    return _ImmediateForm(
        _declared_form(view.declared),
        view.relations,
        _column_forms(view.columns),
        _column_forms(view.hidden),
        view.key,
        _state_form(view.cells),
        view.folded,
        view.grouped,
        tuple(map(_state_form, view.values)),
        None if view.computed is None else _computed_form(view.computed),
        view.chosen,
    )


def _projected_form(view: ProjectedView) -> _ProjectedForm:
    columns, hidden = _column_forms(view.columns), _column_forms(view.hidden)
    declared = _declared_form(view.declared)
    return _ProjectedForm(declared, view.relations, columns, hidden, view.key)


def _plain_form(view: PlainView) -> _PlainForm:
    return _PlainForm(_declared_form(view.declared), view.sources, _column_forms(view.columns))


def _declared_form(view: DeclaredView) -> _DeclaredForm:
    return _DeclaredForm(view.name, view.sql, view.interval_s, view.group, view.refresh)


def _computed_form(computed: Computed) -> _ComputedForm:
    terms = _column_forms(computed.terms)
    return _ComputedForm(terms, computed.folded, computed.expressions, computed.having)


def _state_form(state: StateLayout) -> _StateForm:
    return _StateForm(state.name, _column_forms(state.columns), state.key)


def _column_forms(columns: Iterable[Column]) -> tuple[_ColumnForm, ...]:
    return tuple(
        _ColumnForm(
            c.name,
            _type_form(c.type),
            c.nullable,
            _default_form(c.default),
            c.hidden,
            c.dropped,
            _default_form(c.missing),
        )
        for c in columns
    )


def _type_form(type_: ColumnType) -> _TypeForm:
    element = msgspec.UNSET if type_.element is None else _type_form(type_.element)
    return _TypeForm(
        type_.kind, type_.precision, type_.scale, type_.length, type_.declared, element
    )


def _type(form: _TypeForm) -> ColumnType:
    element = None if isinstance(form.element, msgspec.UnsetType) else _type(form.element)
    return ColumnType(form.kind, form.precision, form.scale, form.length, form.declared, element)


def _default_form(default: Default | None) -> _DefaultForm | None:
    if default is None:
        return None
    return _DefaultForm(default.kind, _plain(default.value), default.identity, default.sql)


def _plain(value: Value) -> bool | int | str | None:
    """The value in a form that `ColumnType.coerce` reads back, even doubles that JSON lacks."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, tuple):
        return text_of(value)
    return str(value)


def _relation(form: _RelationForm) -> Relation:
    columns = _columns(form.columns)
    return Relation(form.name, columns, form.primary_key, form.foreign_keys, form.checks)


def _deferred(form: _DeferredForm) -> DeferredView:
    return DeferredView(
        _declared(form.declared, form.columns),
        form.relations,
        _columns(form.columns),
        _columns(form.hidden),
        form.key,
        tuple(map(_state, form.states)),
    )


def _immediate(form: _ImmediateForm) -> ImmediateView:
    return ImmediateView(
        _declared(form.declared, form.columns),
        form.relations,
        _columns(form.columns),
        _columns(form.hidden),
        form.key,
        _state(form.cells),
        form.folded,
        form.grouped,
        tuple(map(_state, form.values)),
        None if form.computed is None else _computed(form.computed),
        form.chosen,
    )


def _projected(form: _ProjectedForm) -> ProjectedView:
    columns, hidden = _columns(form.columns), _columns(form.hidden)
    declared = _declared(form.declared, form.columns)
    return ProjectedView(declared, form.relations, columns, hidden, form.key)


def _plain_view(form: _PlainForm) -> PlainView:
    declared = _declared(form.declared, form.columns)
    return PlainView(declared, form.sources, _columns(form.columns))


def _declared(form: _DeclaredForm, columns: Iterable[_ColumnForm] = ()) -> DeclaredView:
    """A declared view with the names of its stored `columns`."""
    names = tuple(column.name for column in columns)
    return DeclaredView(form.name, form.sql, form.interval_s, form.group, form.refresh, names)


def _computed(form: _ComputedForm) -> Computed:
    return Computed(_columns(form.terms), form.folded, form.expressions, form.having)


def _state(form: _StateForm) -> StateLayout:
    return StateLayout(form.name, _columns(form.columns), form.key)


def _columns(forms: Iterable[_ColumnForm]) -> tuple[Column, ...]:
    return tuple(map(_column, forms))


def _column(form: _ColumnForm) -> Column:
    type_ = _type(form.type)
    return Column(
        form.name,
        type_,
        form.nullable,
        _default(form.default, type_),
        form.hidden,
        form.dropped,
        _default(form.missing, type_),
    )


def _default(form: _DefaultForm | None, type_: ColumnType) -> Default | None:
    if form is None:
        return None
    return Default(form.kind, type_.coerce(form.value), form.identity, form.sql)
