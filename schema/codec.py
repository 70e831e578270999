"""The catalog as JSON bytes, for the system table and for display.

`format` comes first; an unknown format is refused as Corruption, never guessed. All other data is
written as msgspec writes dataclasses, except literal defaults: the value of a default is a number,
a boolean or text, and `ColumnType.coerce` of its column restores the exact value.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
from collections.abc import Iterable
from dataclasses import replace

import msgspec

from hornbeam_server.schema.assignment import text_of
from hornbeam_server.schema.catalog import (
    Catalog,
    Forest,
    Index,
    IndexExpression,
    Load,
    Purpose,
    State,
    WorkloadStatement,
)
from hornbeam_server.schema.catalog_formats import Format, format_of
from hornbeam_server.schema.comments import Comment
from hornbeam_server.schema.copies import Copy
from hornbeam_server.schema.counters import Beginning
from hornbeam_server.schema.cross_joins import with_cross_joins
from hornbeam_server.schema.enumerations import Enumeration
from hornbeam_server.schema.errors import Corruption, TypeMismatch
from hornbeam_server.schema.model import (
    Check,
    Column,
    DeclaredIndex,
    DeclaredSequence,
    DeclaredView,
    Default,
    DefaultKind,
    Domain,
    DomainCheck,
    ForeignKey,
    Identity,
    KeyPart,
    OfDomain,
    Refresh,
    Relation,
    Schema,
)
from hornbeam_server.schema.types import ColumnType, Declared, Kind, Value
from hornbeam_server.schema.views import (
    Computed,
    DeferredView,
    FoldedColumn,
    ImmediateView,
    JoinView,
    PartialAggregate,
    PlainView,
    ProjectedView,
    StateLayout,
)


class _DefaultForm(msgspec.Struct, omit_defaults=True):
    kind: DefaultKind
    value: bool | int | str | None = None
    identity: Identity = Identity()
    sql: str = ""


class _EnumerationForm(msgspec.Struct):
    space: str
    name: str
    labels: tuple[str, ...]
    positions: tuple[str, ...]


class _TypeForm(msgspec.Struct):
    kind: Kind
    precision: int | None = None
    scale: int | None = None
    length: int | None = None
    declared: Declared | None = None
    element: _TypeForm | msgspec.UnsetType = msgspec.UNSET
    """Only arrays have it, so that catalogs without them have the bytes of older formats."""
    enumeration: _EnumerationForm | msgspec.UnsetType = msgspec.UNSET
    """Only an ENUM has it, also one whose type is dropped since."""


class _ExpressionTypeForm(msgspec.Struct):
    """The type of an expression of an index, which always has the member `element`."""

    kind: Kind
    precision: int | None = None
    scale: int | None = None
    length: int | None = None
    declared: Declared | None = None
    element: _ExpressionTypeForm | None = None
    enumeration: _EnumerationForm | msgspec.UnsetType = msgspec.UNSET


class _ExpressionForm(msgspec.Struct):
    column: str
    sql: str
    type: _ExpressionTypeForm


class _IndexForm(msgspec.Struct):
    name: str
    on: str
    columns: tuple[KeyPart, ...]
    include: tuple[str, ...] = ()
    unique: bool = False
    purpose: Purpose = Purpose.DECLARED
    reason: str = ""
    where: str = ""
    expressions: tuple[_ExpressionForm, ...] = ()
    nulls_distinct: bool = True


class _ColumnForm(msgspec.Struct, omit_defaults=True):
    name: str
    type: _TypeForm
    nullable: bool
    default: _DefaultForm | None = None
    hidden: bool = False
    dropped: bool = False
    missing: _DefaultForm | None = None
    domain: OfDomain | None = None


class _CheckForm(msgspec.Struct, omit_defaults=True):
    name: str
    sql: str
    origin: DomainCheck | None = None


class _DomainForm(msgspec.Struct):
    name: str
    value: _ColumnForm
    checks: tuple[_CheckForm, ...]


class _RelationForm(msgspec.Struct, omit_defaults=True):
    name: str
    columns: tuple[_ColumnForm, ...]
    primary_key: tuple[str, ...]
    foreign_keys: tuple[ForeignKey, ...]
    checks: tuple[_CheckForm, ...] = ()
    key_name: str = ""


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
    partials: tuple[PartialAggregate, ...] | msgspec.UnsetType = msgspec.UNSET
    """Only views that keep some have it, so that catalogs without them have the bytes of older
    formats."""


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


class _SequenceForm(msgspec.Struct, omit_defaults=True):
    name: str
    type: _TypeForm
    start: int
    increment: int
    least: int
    most: int
    cycle: bool = False
    owner: tuple[str, str] | None = None


class _CopyForm(msgspec.Struct, omit_defaults=True):
    target: _RelationForm
    conversions: tuple[tuple[str, str], ...]
    draws: tuple[str, ...] = ()
    sequences: tuple[_SequenceForm, ...] = ()


class _CatalogForm(msgspec.Struct, omit_defaults=True):
    format: Format
    version: int
    relations: tuple[_RelationForm, ...]
    declared_indexes: tuple[DeclaredIndex, ...]
    forest: Forest
    views: tuple[JoinView, ...]
    indexes: tuple[_IndexForm, ...]
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
    enumerations: tuple[_EnumerationForm, ...] = ()
    domains: tuple[_DomainForm, ...] = ()
    staged: tuple[tuple[str, str], ...] = ()
    comments: tuple[Comment, ...] = ()


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_CatalogForm)


def encode_catalog(catalog: Catalog) -> bytes:
    """The catalog as bytes. Equal catalogs give equal bytes."""
    return _encoder.encode(
        _CatalogForm(
            format_of(catalog),
            catalog.version,
            tuple(_relation_form(relation) for relation in catalog.schema.relations),
            catalog.schema.indexes,
            catalog.forest,
            catalog.views,
            tuple(map(_index_form, catalog.indexes)),
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
            tuple(map(_enumeration_form, catalog.schema.enumerations)),
            tuple(map(_domain_form, catalog.schema.domains)),
            catalog.staged,
            catalog.comments,
        )
    )


def meaning_of(catalog: Catalog) -> int:
    """A hash of 48 bits of all that statements mean under a catalog: the objects that they name,
    and where their rows are. The progress of builds, estimates, counters and comments do not
    count."""
    bare = replace(
        catalog,
        version=0,
        since=0,
        states=(),
        row_counts=(),
        workload=(),
        load=None,
        beginnings=(),
        comments=(),
    )
    return int.from_bytes(hashlib.blake2b(encode_catalog(bare), digest_size=6).digest())


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
        copies = tuple(map(_copy, form.copies))
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
            tuple(map(_enumeration, form.enumerations)),
            tuple(map(_domain, form.domains)),
        ),
        form.forest,
        form.views,
        tuple(map(_index, form.indexes)),
        form.states,
        form.incarnations,
        tuple(replace(each, sql=with_cross_joins(each.sql)) for each in form.workload),
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
        form.staged,
        form.comments,
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


def _index_form(index: Index) -> _IndexForm:
    return _IndexForm(
        index.name,
        index.on,
        index.columns,
        index.include,
        index.unique,
        index.purpose,
        index.reason,
        index.where,
        tuple(
            _ExpressionForm(each.column, each.sql, _expression_type_form(each.type))
            for each in index.expressions
        ),
        index.nulls_distinct,
    )


def _index(form: _IndexForm) -> Index:
    return Index(
        form.name,
        form.on,
        form.columns,
        form.include,
        form.unique,
        form.purpose,
        form.reason,
        form.where,
        tuple(
            IndexExpression(each.column, each.sql, _type(each.type)) for each in form.expressions
        ),
        form.nulls_distinct,
    )


def _expression_type_form(type_: ColumnType) -> _ExpressionTypeForm:
    form = _type_form(type_)
    element = None if type_.element is None else _expression_type_form(type_.element)
    return _ExpressionTypeForm(
        form.kind,
        form.precision,
        form.scale,
        form.length,
        form.declared,
        element,
        form.enumeration,
    )


def _copy_form(copy: Copy) -> _CopyForm:
    sequences = tuple(map(_sequence_form, copy.sequences))
    return _CopyForm(_relation_form(copy.target), copy.conversions, copy.draws, sequences)


def _copy(form: _CopyForm) -> Copy:
    sequences = tuple(map(_sequence, form.sequences))
    return Copy(_relation(form.target), form.conversions, form.draws, sequences)


def _relation_form(relation: Relation) -> _RelationForm:
    columns = _column_forms(relation.columns)
    checks = tuple(map(_check_form, relation.checks))
    keys = relation.primary_key, relation.foreign_keys
    return _RelationForm(relation.name, columns, *keys, checks, relation.key_name)


def _check_form(check: Check) -> _CheckForm:
    return _CheckForm(check.name, check.sql, check.origin)


def _check(form: _CheckForm) -> Check:
    return Check(form.name, form.sql, form.origin)


def _domain_form(domain: Domain) -> _DomainForm:
    (value,) = _column_forms([domain.value])
    return _DomainForm(domain.name, value, tuple(map(_check_form, domain.checks)))


def _domain(form: _DomainForm) -> Domain:
    (value,) = _columns([form.value])
    return Domain(form.name, value, tuple(map(_check, form.checks)))


def _deferred_form(view: DeferredView) -> _DeferredForm:
    return _DeferredForm(
        _declared_form(view.declared),
        view.relations,
        _column_forms(view.columns),
        _column_forms(view.hidden),
        view.key,
        tuple(map(_state_form, view.states)),
        view.partials or msgspec.UNSET,
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
            c.domain,
        )
        for c in columns
    )


def _type_form(type_: ColumnType) -> _TypeForm:
    element = msgspec.UNSET if type_.element is None else _type_form(type_.element)
    labels = type_.enumeration
    enumeration = msgspec.UNSET if labels is None else _enumeration_form(labels)
    return _TypeForm(
        type_.kind,
        type_.precision,
        type_.scale,
        type_.length,
        type_.declared,
        element,
        enumeration,
    )


def _type(form: _TypeForm | _ExpressionTypeForm) -> ColumnType:
    element = _type(form.element) if isinstance(form.element, msgspec.Struct) else None
    labels = form.enumeration
    enumeration = None if isinstance(labels, msgspec.UnsetType) else _enumeration(labels)
    return ColumnType(
        form.kind, form.precision, form.scale, form.length, form.declared, element, enumeration
    )


def _enumeration_form(labels: Enumeration) -> _EnumerationForm:
    return _EnumerationForm(labels.space, labels.name, labels.labels, labels.positions)


def _enumeration(form: _EnumerationForm) -> Enumeration:
    return Enumeration(form.space, form.name, form.labels, form.positions)


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
    checks = tuple(map(_check, form.checks))
    keys = form.primary_key, form.foreign_keys
    return Relation(form.name, columns, *keys, checks, form.key_name)


def _deferred(form: _DeferredForm) -> DeferredView:
    return DeferredView(
        _declared(form.declared, form.columns),
        form.relations,
        _columns(form.columns),
        _columns(form.hidden),
        form.key,
        tuple(map(_state, form.states)),
        form.partials or (),
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
    sql = with_cross_joins(form.sql)
    return DeclaredView(form.name, sql, form.interval_s, form.group, form.refresh, names)


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
        form.domain,
    )


def _default(form: _DefaultForm | None, type_: ColumnType) -> Default | None:
    if form is None:
        return None
    return Default(form.kind, type_.coerce(form.value), form.identity, form.sql)
