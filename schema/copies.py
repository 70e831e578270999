"""Copies of relations whose rows must be written again: columns that get values of other bytes.

Rows stay where they are when a relation is altered (`schema/altered.py`), unless the values of a
column change. Then the relation gets a second table. Transactions keep both tables, the second one
is filled with the rows that are stored already, and at the end it is the table of the relation
(`txlayer/ddl/relation_copies.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from hornbeam_server.schema.errors import InvalidRequest
from hornbeam_server.schema.identifiers import identifier
from hornbeam_server.schema.model import (
    Column,
    DeclaredSequence,
    DefaultKind,
    Relation,
    Schema,
)
from hornbeam_server.schema.sequences import sequences_in, takes_numbers
from hornbeam_server.schema.sqltext import literal_sql
from hornbeam_server.schema.types import JSONB, Kind, encoded_alike, takes_all

_ROUNDED = {Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.DOUBLE}
"""The kinds whose values are rounded when their type gets fewer digits."""


@dataclass(frozen=True, slots=True)
class Using:
    """ALTER COLUMN `column` TYPE … USING `sql`, an expression over the rows of `relation`."""

    relation: str
    column: str
    sql: str

    def __str__(self) -> str:
        return f"{self.relation}.{self.column}={self.sql}"


@dataclass(frozen=True)
class Copy:
    """The relation `target` as it becomes. `conversions` has the columns whose values change, and
    those that are appended with a random UUID for each row, each with an expression over the rows
    in force. `draws` are the columns that are appended with a number for each row, and `sequences`
    those among the sequences of these numbers that the schema in force does not have. All generated
    columns are computed again; the other columns keep their values."""

    target: Relation
    conversions: tuple[tuple[str, str], ...] = ()
    draws: tuple[str, ...] = ()
    sequences: tuple[DeclaredSequence, ...] = ()

    @property
    def relation(self) -> str:
        return self.target.name

    @property
    def name(self) -> str:
        """The name of its layout, which no relation, view or index has."""
        return f"{self.target.name}..copy"

    @property
    def key_index(self) -> str:
        """The name of the UNIQUE index of the relation on the new key, while the copy that changes
        the key is under way."""
        return f"{self.target.name}..key"

    def moves_key(self, old: Relation) -> bool:
        """Has the copy another key than the relation `old`?"""
        return old.declared_key != self.target.declared_key

    def may_share_key(self, old: Relation) -> bool:
        """May rows of the relation `old` have the same key in the copy? Row identities differ."""
        return self.moves_key(old) and self.target.identity is None

    @property
    def changed(self) -> frozenset[str]:
        """The columns whose values may change."""
        generated = (column.name for column in self.target.generated)
        return frozenset([*generated, *self.draws, *(name for name, _ in self.conversions)])


def copies_for(old: Schema, new: Schema, usings: Sequence[Using] = ()) -> tuple[Copy, ...]:
    """The copies that lead from `old` to `new`, both valid. Raises InvalidRequest for a USING that
    concerns no column of both."""
    for using in usings:
        _require_known(using, old, new)
    found = (
        _copy(old.relation(relation.name), relation, usings)
        for relation in new.relations
        if relation.name in old
    )
    return tuple(_with_sequences(copy, old, new) for copy in found if copy is not None)


def _copy(old: Relation, new: Relation, usings: Iterable[Using]) -> Copy | None:
    using = {each.column: each.sql for each in usings if each.relation == new.name}
    conversions = tuple(_conversions(old, new, using))
    draws = tuple(
        c.name for c in new.columns if c.name not in old.stored_names and takes_numbers(c)
    )
    computed = any(_is_computed_again(column, old) for column in new.columns)
    copy = Copy(new, conversions, draws)
    return copy if conversions or draws or computed or copy.moves_key(old) else None


def _with_sequences(copy: Copy, old: Schema, new: Schema) -> Copy:
    """The copy with the sequences of its numbers that only `new` has."""
    defaults = (copy.target.column(name).default for name in copy.draws)
    drawn = {name for each in defaults if each is not None for name in sequences_in(each.sql)}
    known = {sequence.name for sequence in old.sequences}
    added = (each for each in new.sequences if each.name in drawn - known)
    return replace(copy, sequences=tuple(added))


def _conversions(old: Relation, new: Relation, using: dict[str, str]) -> Iterator[tuple[str, str]]:
    for column in new.columns:
        if is_generated(column):
            continue
        if column.name not in old.stored_names:
            if column.default_kind is DefaultKind.UUID:
                yield column.name, _uuid_of_row(old, column, "")
        elif column.name in using:
            yield column.name, using[column.name]
        elif needs_conversion(old.column(column.name), column):
            yield column.name, identifier(column.name)


def seeded(copy: Copy, old: Relation, seed: str) -> Copy:
    """The copy of `old` in which the random UUIDs of appended columns follow from `seed`."""
    texts = {
        _uuid_of_row(old, column, ""): _uuid_of_row(old, column, seed)
        for column in copy.target.columns
        if column.default_kind is DefaultKind.UUID
    }
    conversions = tuple((name, texts.get(sql, sql)) for name, sql in copy.conversions)
    return replace(copy, conversions=conversions)


def _uuid_of_row(relation: Relation, column: Column, seed: str) -> str:
    """An expression over the rows of `relation`: a UUID of version 4 for each row. It follows from
    `seed` and the key, so that a row keeps it when a transaction writes the row again."""
    key = " || ".join(f"quote_literal(CAST({identifier(k)} AS TEXT))" for k in relation.primary_key)
    row = f"'{seed}' || {literal_sql(column.name)} || {key}"
    digits = f"encode(sha256(convert_to({row}, 'UTF8')), 'hex')"
    parts = (
        f"left({digits}, 8)",
        f"substring({digits}, 9, 4)",
        f"'4' || substring({digits}, 13, 3)",
        f"'a' || substring({digits}, 16, 3)",
        f"substring({digits}, 19, 12)",
    )
    separated = " || '-' || ".join(parts)
    return f"CAST({separated} AS {column.type.ddl()})"


def needs_conversion(before: Column, after: Column) -> bool:
    """Has the new type other bytes for a value, or rounds it?"""
    if not encoded_alike(before.type, after.type):
        return True
    if after.type.kind is Kind.JSON is not before.type.kind or after.type == JSONB != before.type:
        return True
    return after.type.kind in _ROUNDED and not takes_all(after.type, before.type)


def is_generated(column: Column) -> bool:
    return column.default_kind is DefaultKind.GENERATED


def _is_computed_again(column: Column, old: Relation) -> bool:
    """Is it a generated column with an expression that the stored rows do not know?"""
    if not is_generated(column):
        return False
    if column.name not in old.stored_names:
        return True
    before = old.column(column.name)
    return before.default != column.default or needs_conversion(before, column)


def _require_known(using: Using, old: Schema, new: Schema) -> None:
    for schema in (old, new):
        known = using.relation in schema and using.column in (
            schema.relation(using.relation).visible_names
        )
        if not known:
            raise InvalidRequest(
                f"USING {using}: there is no column {using.relation}.{using.column}, before and"
                " after the change.",
                cure="Name a column that stays.",
            )
    if is_generated(new.relation(using.relation).column(using.column)):
        raise InvalidRequest(
            f"{using.relation}.{using.column} is a generated column, and has no USING.",
            cure="Change its expression.",
        )
