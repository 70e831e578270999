"""The catalog as JSON bytes, as it is stored in the system table and shown to people.

`format` comes first; another format is refused as Corruption, never guessed. Everything is
written as msgspec writes dataclasses, but for literal defaults: a default's value is a number,
a boolean or text, and `ColumnType.coerce` of its column makes the exact value of it again.
"""

from __future__ import annotations

import base64
import datetime as dt
import enum

import msgspec

from schema.catalog import (
    Catalog,
    Forest,
    Index,
    JoinView,
    State,
    WorkloadStatement,
)
from schema.errors import Corruption, TypeMismatch
from schema.model import (
    Column,
    DeclaredIndex,
    Default,
    DefaultKind,
    ForeignKey,
    Relation,
    Schema,
)
from schema.types import ColumnType, Value


class Format(enum.IntEnum):
    """Every format ever written; all stay readable."""

    FIRST = 1
    """All fields of `_CatalogForm`."""


class _DefaultForm(msgspec.Struct, omit_defaults=True):
    kind: DefaultKind
    value: bool | int | str | None = None


class _ColumnForm(msgspec.Struct, omit_defaults=True):
    name: str
    type: ColumnType
    nullable: bool
    default: _DefaultForm | None = None


class _RelationForm(msgspec.Struct):
    name: str
    columns: tuple[_ColumnForm, ...]
    primary_key: tuple[str, ...]
    foreign_keys: tuple[ForeignKey, ...]


class _CatalogForm(msgspec.Struct):
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
    """0 in catalogs that were written before there was such a field."""


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_CatalogForm)


def encode_catalog(catalog: Catalog) -> bytes:
    """Equal catalogs give equal bytes."""
    return _encoder.encode(
        _CatalogForm(
            Format.FIRST,
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
        )
    )


def decode_catalog(data: bytes) -> Catalog:
    """The catalog that was encoded. Raises Corruption."""
    try:
        form = _decoder.decode(data)
        relations = tuple(_relation(relation) for relation in form.relations)
    except (msgspec.DecodeError, TypeMismatch, UnicodeDecodeError) as error:
        raise Corruption(
            f"the stored catalog cannot be read: {error}",
            cure="open it with the version of Hornbeam that wrote it, or restore a backup",
        ) from error
    return Catalog(
        form.version,
        Schema(relations, form.declared_indexes),
        form.forest,
        form.views,
        form.indexes,
        form.states,
        form.incarnations,
        form.workload,
        form.row_counts,
        form.since,
    )


def _relation_form(relation: Relation) -> _RelationForm:
    columns = tuple(
        _ColumnForm(column.name, column.type, column.nullable, _default_form(column.default))
        for column in relation.columns
    )
    return _RelationForm(relation.name, columns, relation.primary_key, relation.foreign_keys)


def _default_form(default: Default | None) -> _DefaultForm | None:
    return None if default is None else _DefaultForm(default.kind, _plain(default.value))


def _plain(value: Value) -> bool | int | str | None:
    """A form that `ColumnType.coerce` turns back, also of doubles that JSON has no number for."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dt.date):
        return value.isoformat()
    return str(value)


def _relation(form: _RelationForm) -> Relation:
    columns = tuple(
        Column(column.name, column.type, column.nullable, _default(column))
        for column in form.columns
    )
    return Relation(form.name, columns, form.primary_key, form.foreign_keys)


def _default(column: _ColumnForm) -> Default | None:
    form = column.default
    return None if form is None else Default(form.kind, column.type.coerce(form.value))
