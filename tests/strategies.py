"""Hypothesis strategies that the property tests of all areas share: types, values, schemas, rows.

Schemas contain the difficult cases of the product: trees and DAGs of relations, composite keys,
keys of foreign keys, nullable foreign keys, two foreign keys to the same parent, self-references,
every column type. Rows of `rows_for` satisfy all constraints of their schema.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from hornbeam_server.schema import types
from hornbeam_server.schema.enumerations import Enumeration
from hornbeam_server.schema.intervals import Interval
from hornbeam_server.schema.model import (
    Action,
    Column,
    DeclaredIndex,
    Default,
    DefaultKind,
    ForeignKey,
    Identity,
    KeyPart,
    Relation,
    Schema,
)
from hornbeam_server.schema.row_identity import row_identity
from hornbeam_server.schema.types import (
    ColumnType,
    Kind,
    Row,
    Value,
    array_of,
    enum_of,
    enumeration_of,
)

KEY_KINDS = tuple(kind for kind in Kind if kind not in types.UNORDERED)
SIMPLE_KINDS = (Kind.INTEGER, Kind.BIGINT, Kind.DECIMAL, Kind.TEXT, Kind.DATE, Kind.BOOLEAN)
CLOCK_KINDS = {Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ}
SIZE = enum_of(Enumeration.of("", "size_type", ["S", "XL", "L", "a'b"]))
"""The only ENUM of these schemas. Its labels have another order than their texts."""
SOME = st.integers(-(1 << 31) + 1, (1 << 31) - 1)
FEW = 6  # values of one type in `few_values`: they differ often and recur often

MOMENTS = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 12, 31)).map(
    lambda moment: moment.replace(fold=0)
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


@st.composite
def column_types(draw: st.DrawFn, kinds: Sequence[Kind] = tuple(Kind)) -> ColumnType:
    """Draw a type of one of `kinds`, with parameters where the kind has them."""
    kind = draw(st.sampled_from(kinds))
    if kind is Kind.DECIMAL:
        precision = draw(st.integers(1, 38))
        return ColumnType(kind, precision, draw(st.integers(0, precision)))
    if kind is Kind.TEXT:
        return ColumnType(kind, length=draw(st.none() | st.integers(8, 40)))
    if kind in types.MOMENTS:
        return ColumnType(kind, precision=draw(st.none() | st.integers(0, 5)))
    if kind is Kind.DOUBLE:
        return draw(st.sampled_from([ColumnType(kind), types.REAL]))
    if kind is Kind.ARRAY:
        return array_of(draw(column_types(KEY_KINDS)))
    if kind is Kind.ENUM:
        return SIZE
    return ColumnType(kind)


def values(type_: ColumnType) -> st.SearchStrategy[Any]:  # noqa: PLR0912 (one branch per kind)
    """Return a strategy for values of a type except NULL, including the largest numbers."""
    match type_.kind:
        case Kind.INTEGER:
            return st.integers(-(1 << 31), (1 << 31) - 1)
        case Kind.BIGINT:
            return st.integers(-(1 << 63), (1 << 63) - 1)
        case Kind.DECIMAL:
            precision, scale = type_.precision or 38, type_.scale or 0
            limit = 10**precision - 1
            return st.integers(-limit, limit).map(lambda number: _decimal(number, scale))
        case Kind.DOUBLE:
            bits = 32 if type_ == types.REAL else 64
            return st.floats(allow_nan=False, width=bits).map(lambda number: number + 0.0)
        case Kind.BOOLEAN:
            return st.booleans()
        case Kind.TEXT:
            return TEXTS
        case Kind.BYTES:
            return st.binary(max_size=8)
        case Kind.DATE:
            return st.dates(dt.date(1900, 1, 1), dt.date(2100, 12, 31))
        case Kind.TIME:
            return st.times().map(lambda time: _cut(time.replace(fold=0), type_))
        case Kind.TIMESTAMP:
            return MOMENTS.map(lambda moment: _cut(moment, type_))
        case Kind.TIMESTAMPTZ:
            return MOMENTS.map(lambda moment: _cut(moment.replace(tzinfo=dt.UTC), type_))
        case Kind.INTERVAL:
            return st.builds(Interval, SOME, SOME, st.integers(-(10**15), 10**15))
        case Kind.UUID:
            return st.uuids()
        case Kind.ENUM:
            return st.sampled_from(list(type_.labels.by_position.values()))
        case Kind.ARRAY:
            elements = st.none() | values(type_.element_type)
            return st.lists(elements, max_size=4).map(tuple)
        case Kind.JSON:
            return st.sampled_from(
                ['{"a": [1, null]}', "[]", '"text"', "1.50", "null", '{"é": {}}']
            )


def _cut(value: Any, type_: ColumnType) -> Any:
    """The time without the decimals of a second that the type lacks."""
    unit = 10 ** (6 - (6 if type_.precision is None else type_.precision))
    return value.replace(microsecond=value.microsecond // unit * unit)


def _decimal(number: int, scale: int) -> Decimal:
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


def few_values(type_: ColumnType) -> st.SearchStrategy[Any]:
    """Return a strategy with few values of a type, so that rows share values and joins match."""
    match type_.kind:
        case Kind.INTEGER | Kind.BIGINT:
            return st.integers(-1, FEW - 2)
        case Kind.DECIMAL:
            scale = type_.scale or 0
            return st.integers(-3, FEW - 4).map(lambda number: _decimal(number, scale))
        case Kind.DOUBLE:
            return st.integers(-1, FEW - 2).map(lambda number: number / 2)
        case Kind.TEXT:
            return st.sampled_from(["", "a", "A", "ab", "b%", "é"])
        case Kind.BYTES:
            return st.sampled_from([b"", b"\0", b"\0\xff", b"a", b"\xff", b"\xff\xff"])
        case Kind.DATE:
            return st.integers(0, FEW - 1).map(lambda day: dt.date(2024, 2, 27) + dt.timedelta(day))
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            zone = dt.UTC if type_.kind is Kind.TIMESTAMPTZ else None
            start = _cut(dt.datetime(2024, 2, 28, 23, 59, 59, 999_999, zone), type_)
            return st.integers(0, FEW - 1).map(lambda second: start + dt.timedelta(0, second))
        case Kind.TIME:
            times = [dt.time(hour, 59, 59, hour) for hour in range(0, 24, 4)]
            return st.sampled_from([_cut(time, type_) for time in times])
        case Kind.INTERVAL:
            return st.builds(Interval, st.integers(-1, 1), st.sampled_from([-30, 0, 30]))
        case Kind.UUID:
            return st.integers(0, FEW - 1).map(_uuid)
        case Kind.ARRAY:
            elements = st.none() | few_values(type_.element_type)
            return st.lists(elements, max_size=2).map(tuple)
        case _:
            return values(type_)


def _uuid(number: int) -> Any:
    import uuid

    return uuid.UUID(int=number << 120 | 1)


@st.composite
def defaults(draw: st.DrawFn, type_: ColumnType) -> Default | None:
    """Draw no default, a literal or, where the type allows it, the time or an identity."""
    kinds: list[DefaultKind | None] = [None, None, DefaultKind.LITERAL]
    if type_.kind in CLOCK_KINDS:
        kinds.append(DefaultKind.NOW)
    if type_.kind in {Kind.INTEGER, Kind.BIGINT}:
        kinds.append(DefaultKind.IDENTITY)
    kind = draw(st.sampled_from(kinds))
    if kind is DefaultKind.LITERAL:
        return Default(kind, draw(values(type_)))
    if kind is DefaultKind.IDENTITY:
        return Default(kind, identity=draw(identities()))
    return Default(kind) if kind else None


@st.composite
def identities(draw: st.DrawFn) -> Identity:
    start, increment = draw(st.integers(-50, 50)), draw(st.sampled_from([1, 1, 7, -1, -3]))
    last = draw(st.none() | st.integers(start, 99).map(lambda n: n if increment > 0 else -n))
    if last is not None and increment < 0:
        last = min(last, start)
    return Identity(start, increment, last, draw(st.booleans()))


@st.composite
def schemas(
    draw: st.DrawFn,
    *,
    min_relations: int = 1,
    max_relations: int = 5,
    tree: bool | None = None,
    kinds: Sequence[Kind] = tuple(Kind),
    with_defaults: bool = False,
    with_indexes: bool = True,
    self_references: bool = True,
    on_delete: Sequence[Action] = tuple(Action),
    on_update: Sequence[Action] = (Action.RESTRICT,),
    to_unique: bool = False,
    keyless: bool = False,
    circles: bool = False,
    max_columns: int = 3,
) -> Schema:
    """Draw a valid schema; parents are declared before children.

    `tree` True: at most one foreign key per relation to another relation; False: up to two (a
    DAG); None: either. Names are plain and unique in the whole schema, so that tests can write SQL
    with them: relation `r2`, key `r2_k0`, value `r2_v0`, foreign key column `r2_f0_r1_k0`.
    `to_unique`: some foreign keys reference UNIQUE columns, which may be NULL. `keyless`: some
    relations have a row identity instead of a primary key. `circles`: some relations reference
    later ones, by columns that may be NULL.
    """
    as_tree = draw(st.booleans()) if tree is None else tree
    relations: list[Relation] = []
    for number in range(draw(st.integers(min_relations, max_relations))):
        maker = _RelationMaker(draw, f"r{number}", kinds, with_defaults, (on_delete, on_update))
        for _ in range(draw(st.integers(0, 1 if as_tree else 2)) if relations else 0):
            parent = draw(st.sampled_from(relations))
            unique = draw(_unique_key(parent)) if to_unique else None
            if unique or parent.declared_key:
                maker.reference(parent, unique)
        maker.own_columns(max_columns)
        if keyless and draw(st.integers(0, 2)) == 0:
            relations.append(maker.relation_without_key())
            continue
        if self_references and draw(st.integers(0, 3)) == 0:
            maker.reference_itself()
        relations.append(maker.relation())
    if circles:
        relations = [draw(_closing(relations, n, on_delete)) for n in range(len(relations))]
    indexes = [draw(_indexes(relation)) for relation in relations] if with_indexes else []
    unique = {
        (fk.parent, fk.parent_columns) for r in relations for fk in r.foreign_keys if fk.to_unique
    }
    indexes.append(
        [
            DeclaredIndex(f"{name}_u{i}", name, tuple(map(KeyPart, columns)), unique=True)
            for i, (name, columns) in enumerate(sorted(unique))
        ]
    )
    columns = (column for relation in relations for column in relation.columns)
    labels = dict.fromkeys(enumeration_of(column.type) for column in columns)
    return Schema(
        tuple(relations),
        tuple(index for found in indexes for index in found),
        enumerations=tuple(each for each in labels if each is not None),
    )


@st.composite
def _closing(
    draw: st.DrawFn, relations: Sequence[Relation], number: int, on_delete: Sequence[Action]
) -> Relation:
    """Draw the relation with this number, perhaps with a reference to a later relation."""
    relation = relations[number]
    later = [each for each in relations[number + 1 :] if each.declared_key]
    if not later or draw(st.integers(0, 2)) == 0:
        return relation
    parent = draw(st.sampled_from(later))
    columns = [
        Column(f"{relation.name}_b_{key}", parent.column(key).type) for key in parent.primary_key
    ]
    names = tuple(column.name for column in columns)
    action = draw(st.sampled_from(on_delete))
    key = ForeignKey(f"{relation.name}_b_fkey", names, parent.name, parent.primary_key, action)
    return replace(
        relation,
        columns=(*relation.columns, *columns),
        foreign_keys=(*relation.foreign_keys, key),
    )


@st.composite
def _unique_key(draw: st.DrawFn, parent: Relation) -> tuple[str, ...] | None:
    """Draw columns to declare UNIQUE and to reference; None: the primary key is referenced."""
    usable = [c.name for c in parent.visible if c.type.kind in KEY_KINDS]
    names = draw(st.lists(st.sampled_from(usable), max_size=2, unique=True))
    return tuple(names) if names and set(names) != set(parent.primary_key) else None


class _RelationMaker:
    """Collects the columns and foreign keys of one relation."""

    def __init__(
        self,
        draw: st.DrawFn,
        name: str,
        kinds: Sequence[Kind],
        with_defaults: bool,
        actions: tuple[Sequence[Action], Sequence[Action]],
    ) -> None:
        self.draw, self.name, self.kinds = draw, name, kinds
        self.with_defaults, self.actions = with_defaults, actions
        self.columns: list[Column] = []
        self.key: list[str] = []
        self.foreign_keys: list[ForeignKey] = []

    def reference(self, parent: Relation, unique: tuple[str, ...] | None = None) -> None:
        """Add a foreign key to the primary key of `parent`, or to its columns `unique`; it is part
        of the primary key in one of three cases."""
        in_key = self.draw(st.integers(0, 2)) == 0
        nullable = not in_key and self.draw(st.booleans())
        columns = self._reference(
            parent.name, parent.columns, unique or parent.primary_key, nullable, unique is not None
        )
        if in_key:
            self.key += columns

    def reference_itself(self) -> None:
        self._reference(self.name, tuple(self.columns), tuple(self.key), nullable=True)

    def _reference(
        self,
        parent: str,
        columns: Sequence[Column],
        key: Sequence[str],
        nullable: bool,
        to_unique: bool = False,
    ) -> list[str]:
        by_name = {column.name: column for column in columns}
        prefix = f"{self.name}_f{len(self.foreign_keys)}"
        names = [f"{prefix}_{column}" for column in key]
        has_default = self.draw(st.booleans())
        for name, column in zip(names, key, strict=True):
            type_ = by_name[column].type
            value = Default(DefaultKind.LITERAL, self.draw(few_values(type_)))
            self.columns.append(Column(name, type_, nullable, value if has_default else None))
        lacking = set() if nullable else {Action.SET_NULL}
        lacking |= set() if nullable or has_default else {Action.SET_DEFAULT}
        how = [
            self.draw(st.sampled_from([each for each in actions if each not in lacking]))
            for actions in self.actions
        ]
        self.foreign_keys.append(
            ForeignKey(f"{prefix}_fkey", tuple(names), parent, tuple(key), *how, to_unique)
        )
        return names

    def own_columns(self, max_columns: int) -> None:
        """Add key columns (at least one if no foreign key is in the key) and values."""
        key_kinds = [kind for kind in self.kinds if kind in KEY_KINDS]
        for number in range(self.draw(st.integers(0 if self.key else 1, 2))):
            name = f"{self.name}_k{number}"
            self.columns.append(Column(name, self.draw(column_types(key_kinds)), False))
            self.key.append(name)
        for number in range(self.draw(st.integers(0, max_columns))):
            type_ = self.draw(column_types(self.kinds))
            default = self.draw(defaults(type_)) if self.with_defaults else None
            identity = default is not None and default.kind is DefaultKind.IDENTITY
            nullable = not identity and self.draw(st.booleans())
            self.columns.append(Column(f"{self.name}_v{number}", type_, nullable, default))

    def relation(self) -> Relation:
        """Return the relation, with columns and key in independent random orders."""
        columns = self.draw(st.permutations(self.columns))
        key = self.draw(st.permutations(self.key))
        return Relation(self.name, tuple(columns), tuple(key), tuple(self._ordered(key)))

    def relation_without_key(self) -> Relation:
        """Return the relation with a row identity as its key."""
        identity = row_identity([column.name for column in self.columns])
        columns = (identity, *self.draw(st.permutations(self.columns)))
        return Relation(self.name, columns, (identity.name,), tuple(self.foreign_keys))

    def _ordered(self, key: Sequence[str]) -> list[ForeignKey]:
        """Put self-references into the final order of the key, because they are added before it."""
        return [_in_order(fk, key) if fk.parent == self.name else fk for fk in self.foreign_keys]


def _in_order(foreign_key: ForeignKey, key: Sequence[str]) -> ForeignKey:
    by_parent = dict(zip(foreign_key.parent_columns, foreign_key.columns, strict=True))
    columns = tuple(by_parent[column] for column in key)
    return replace(foreign_key, columns=columns, parent_columns=tuple(key))


@st.composite
def _indexes(draw: st.DrawFn, relation: Relation) -> list[DeclaredIndex]:
    usable = [c.name for c in relation.visible if c.type.kind in KEY_KINDS]
    found = []
    for number in range(draw(st.integers(0, 2))):
        names = draw(st.lists(st.sampled_from(usable), min_size=1, max_size=2, unique=True))
        parts = tuple(KeyPart(name, draw(st.booleans())) for name in names)
        others = [name for name in relation.visible_names if name not in names]
        include = draw(st.lists(st.sampled_from(others), max_size=1)) if others else []
        unique = draw(st.integers(0, 3)) == 0
        found.append(
            DeclaredIndex(
                f"{relation.name}_i{number}", relation.name, parts, tuple(include), unique
            )
        )
    return found


@st.composite
def rows_for(
    draw: st.DrawFn, schema: Schema, *, max_rows: int = 5, few: bool = True
) -> dict[str, list[Row]]:
    """Draw relation → rows that satisfy primary keys, foreign keys, NOT NULL and UNIQUE. A relation
    may have the empty primary key: its rows may be equal.

    Inserts in the order of the relations and rows violate no constraint at any step. `few` draws
    values that recur. `schema` must declare parents before children.
    """
    data: dict[str, list[Row]] = {}
    for relation in schema.relations:
        rows = data[relation.name] = []
        unique = [i for i in schema.indexes if i.relation == relation.name and i.unique]
        keys = [tuple(p.column for p in i.columns) for i in unique]
        if relation.primary_key:
            keys.append(relation.primary_key)
        seen: list[set[Row]] = [set() for _ in keys]
        for _ in range(draw(st.integers(0, max_rows))):
            row = _row(draw, schema, relation, data, few)
            if row is not None and _is_new(relation, row, keys, seen):
                rows.append(row)
    return data


def _is_new(
    relation: Relation, row: Row, keys: Sequence[tuple[str, ...]], seen: Sequence[set[Row]]
) -> bool:
    """Return whether `row` repeats no key, and add its keys if so. A key with NULL repeats none."""
    found = [tuple(row[relation.positions[name]] for name in key) for key in keys]
    if any(key in before for key, before in zip(found, seen, strict=True)):
        return False
    for key, before in zip(found, seen, strict=True):
        if None not in key:
            before.add(key)
    return True


def _row(
    draw: st.DrawFn,
    schema: Schema,
    relation: Relation,
    data: dict[str, list[Row]],
    few: bool,
) -> Row | None:
    """Draw a row whose foreign keys hold; None if a mandatory parent has no rows."""
    found: dict[str, Value] = {}
    for foreign_key in relation.foreign_keys:
        parent = schema.relation(foreign_key.parent)
        nullable = all(relation.column(name).nullable for name in foreign_key.columns)
        positions = [parent.positions[name] for name in foreign_key.parent_columns]
        rows = data.get(parent.name, ())  # none yet: it is declared later
        keys = [tuple(row[position] for position in positions) for row in rows]
        if nullable:
            keys.append((None,) * len(positions))
        else:
            keys = [key for key in keys if None not in key]
        if not keys:
            return None
        found |= zip(foreign_key.columns, draw(st.sampled_from(keys)), strict=True)
    for column in relation.columns:
        if column.name not in found:
            any_value = few_values(column.type) if few else values(column.type)
            found[column.name] = draw(st.none() | any_value if column.nullable else any_value)
    return tuple(found[name] for name in relation.column_names)
