"""The objects of a catalog with their OIDs: what `pg_catalog` is about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hornbeam_server.query.system import postgresql
from hornbeam_server.query.system.oids import INFORMATION, PG_CATALOG, PUBLIC_SPACE, Key, oids
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.counters import sequence_names
from hornbeam_server.schema.domains import domain_of
from hornbeam_server.schema.enumerations import Enumeration
from hornbeam_server.schema.model import (
    INFORMATION_SCHEMA,
    PUBLIC,
    Check,
    Column,
    DeclaredIndex,
    DefaultKind,
    ForeignKey,
    Identity,
    OfDomain,
    Relation,
    sequence_of_column,
)
from hornbeam_server.schema.namespaces import SYSTEM_CATALOG, bare, joined, key_name, parted
from hornbeam_server.schema.sequences import default_bounds
from hornbeam_server.schema.types import (
    MOMENTS,
    REAL,
    ColumnType,
    Declared,
    Kind,
)

_UNKNOWN = ColumnType(Kind.TEXT)
BUILT_IN_SPACES = {
    SYSTEM_CATALOG: PG_CATALOG,
    PUBLIC: PUBLIC_SPACE,
    INFORMATION_SCHEMA: INFORMATION,
}


@dataclass(frozen=True, slots=True)
class Class:
    """A relation ("r"), a view ("v"), a materialised view ("m"), an index ("i") or a sequence
    ("S"). `full` is its full name; `rows` the estimated rows, -1 if unknown."""

    oid: int
    full: str
    kind: str
    columns: tuple[Column, ...] = ()
    rows: int = -1


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an index: a column, or an expression with its text and type."""

    column: str
    type: ColumnType
    descending: bool = False
    sql: str = ""


@dataclass(frozen=True, slots=True)
class Indexed:
    """An index of a relation: one that is declared, or that of a primary key. `include` are the
    columns behind its parts."""

    oid: int
    full: str
    on: str
    parts: tuple[Part, ...]
    include: tuple[str, ...] = ()
    unique: bool = False
    primary: bool = False
    where: str = ""
    nulls_distinct: bool = True

    @property
    def is_constraint(self) -> bool:
        """Is it the index of a primary key or of UNIQUE?"""
        return self.primary or (
            self.unique and not self.where and all(not p.sql for p in self.parts)
        )


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint of the relation `on`, or of the domain `on`: "p", "u", "f" or "c". `index` is
    the full name of its index, or of the index that a foreign key references."""

    oid: int
    name: str
    kind: str
    on: str
    columns: tuple[str, ...] = ()
    index: str = ""
    key: ForeignKey | None = None
    check: str = ""
    of_domain: bool = False


@dataclass(frozen=True, slots=True)
class CountingSequence:
    """A sequence; `owner` is the relation and the column that it belongs to."""

    oid: int
    full: str
    type: ColumnType
    numbers: Identity
    bounds: tuple[int, int]
    cycle: bool
    owner: tuple[str, str] | None
    identity: bool


class Objects:
    """The objects of one catalog. The objects of a part of a catalog have the OIDs of `whole`."""

    def __init__(self, catalog: Catalog, whole: Objects | None = None) -> None:
        self.catalog = catalog
        self.whole = self if whole is None else whole
        self.spaces = catalog.schema.spaces
        self._numbers = dict(catalog.incarnations)
        self._oids: Mapping[Key, int] = oids(self._keys()) if whole is None else whole._oids

    def space_and_name(self, full: str) -> tuple[str, str]:
        return parted(full, self.spaces)

    def oid_of_space(self, space: str) -> int:
        return BUILT_IN_SPACES.get(space) or self._oids["schema", space]

    # -- classes

    @cached_property
    def classes(self) -> tuple[Class, ...]:
        return tuple(self._classes())

    @cached_property
    def names(self) -> frozenset[str]:
        """The full names of relations, views and sequences."""
        catalog = self.catalog
        views = (*catalog.all_views, *catalog.plain_view)
        return frozenset((*catalog.schema.names, *views, *sequence_names(catalog.schema)))

    @cached_property
    def by_name(self) -> Mapping[str, Class]:
        """Everything in `pg_class` by its full name."""
        return {each.full: each for each in self.classes}

    def _classes(self) -> Iterator[Class]:
        counts = self.catalog.row_count
        for relation in self.catalog.schema.relations:
            rows = counts.get(relation.name, -1)
            oid = self._oids[self._key_of(relation.name)]
            yield Class(oid, relation.name, "r", relation.visible, rows)
        for name in filter(self.catalog.readable, self.catalog.all_views):
            columns = tuple(self.catalog.visible(name))
            yield Class(self._oids[self._key_of(name)], name, "m", columns, counts.get(name, -1))
        for view in self.catalog.plain:
            yield Class(self._oids[self._key_of(view.name)], view.name, "v", tuple(view.columns))
        for index in self.indexes:
            parts = tuple(Column(part.column, part.type) for part in index.parts)
            yield Class(index.oid, index.full, "i", parts, counts.get(index.on, -1))
        for sequence in self.sequences:
            yield Class(sequence.oid, sequence.full, "S", (), 1)

    # -- indexes and constraints

    @cached_property
    def indexes(self) -> tuple[Indexed, ...]:
        return tuple(self._indexes())

    def _indexes(self) -> Iterator[Indexed]:
        for relation in self.catalog.schema.relations:
            if relation.declared_key:
                full = self._full_key(relation)
                parts = tuple(
                    Part(name, relation.column(name).type) for name in relation.primary_key
                )
                oid = self._oids["key", *self._key_of(relation.name)]
                yield Indexed(oid, full, relation.name, parts, unique=True, primary=True)
        for index in self.catalog.schema.indexes:
            relation = self.catalog.schema.relation(index.relation)
            expressions = self._expressions_of(index)
            parts = tuple(
                Part(part.column, found[0], part.descending, found[1])
                if (found := expressions.get(part.column)) is not None
                else Part(part.column, relation.column(part.column).type, part.descending)
                for part in index.columns
            )
            yield Indexed(
                self._oids[self._key_of(index.name)], index.name, relation.name, parts,
                index.include, index.unique, False, index.where, index.nulls_distinct,
            )  # fmt: skip

    def _expressions_of(self, index: DeclaredIndex) -> dict[str, tuple[ColumnType, str]]:
        """The types and texts of the expressions of an index. Their types are known when the index
        is in the catalog: not yet while views of a new schema are bound, which need its name."""
        known = self.catalog.index.get(index.name)
        if known is None:
            return {each.column: (_UNKNOWN, each.sql) for each in index.expressions}
        return {each.column: (each.type, each.sql) for each in known.expressions}

    def _full_key(self, relation: Relation) -> str:
        space = self.space_and_name(relation.name)[0]
        return joined(space, key_name(relation, self.spaces))

    @cached_property
    def constraints(self) -> tuple[Constraint, ...]:
        return tuple(self._constraints())

    def _constraints(self) -> Iterator[Constraint]:
        for index in filter(lambda index: index.is_constraint, self.indexes):
            kind, name = "p" if index.primary else "u", bare(index.full, self.spaces)
            columns = tuple(part.column for part in index.parts)
            yield Constraint(
                self._constraint(index.on, name), name, kind, index.on, columns, index.full
            )
        for relation in self.catalog.schema.relations:
            for key in relation.foreign_keys:
                oid, index_ = self._constraint(relation.name, key.name), self._referenced(key)
                yield Constraint(oid, key.name, "f", relation.name, key.columns, index_, key)
            for check in relation.own_checks:
                oid = self._constraint(relation.name, check.name)
                yield Constraint(oid, check.name, "c", relation.name, check=check.sql)
        for domain in self.catalog.schema.domains:
            for check in domain.checks:
                oid = self._constraint(domain.name, check.name)
                yield Constraint(oid, check.name, "c", domain.name, check=check.sql, of_domain=True)

    def _referenced(self, key: ForeignKey) -> str:
        if key.to_unique:
            return self.catalog.unique_index(key).name
        return self._full_key(self.catalog.schema.relation(key.parent))

    def _constraint(self, on: str, name: str) -> int:
        return self._oids["constraint", *self._key_of(on), name]

    # -- sequences

    @cached_property
    def sequences(self) -> tuple[CountingSequence, ...]:
        return tuple(self._sequences())

    def _sequences(self) -> Iterator[CountingSequence]:
        for relation, column in self._identities():
            assert column.default is not None
            numbers, full = column.default.identity, sequence_of_column(relation, column.name)
            first, last = default_bounds(column.type, numbers.increment)
            if numbers.last is not None:
                up = numbers.increment > 0
                first, last = (first, numbers.last) if up else (numbers.last, last)
            oid = self._oids["sequence", *self._key_of(relation), column.name]
            owner = relation, column.name
            yield CountingSequence(
                oid, full, column.type, numbers, (first, last), False, owner, True
            )
        for each in self.catalog.schema.sequences:
            oid, bounds = self._oids[self._key_of(each.name)], (each.least, each.most)
            yield CountingSequence(
                oid, each.name, each.type, each.numbers, bounds, each.cycle, each.owner, False
            )

    def _identities(self) -> Iterator[tuple[str, Column]]:
        for relation in self.catalog.schema.relations:
            for column in relation.visible:
                if column.default_kind is DefaultKind.IDENTITY:
                    yield relation.name, column

    # -- types

    def oid_of_type(self, type_: ColumnType, domain: OfDomain | None = None) -> int:
        """The OID of the type of a column."""
        if domain is not None:
            return self._oids["type", domain.name]
        element = type_.element
        if element is None:
            return self._oid_of_element(type_)
        if element.enumeration is not None:
            return self._oids["array", name_of(element.enumeration)]
        return int(postgresql.types()[f"_{internal_name(element)}"]["oid"])

    def _oid_of_element(self, type_: ColumnType) -> int:
        if type_.enumeration is not None:
            return self._oids["type", name_of(type_.enumeration)]
        return int(postgresql.types()[internal_name(type_)]["oid"])

    def oid_of_named_type(self, full: str, *, array: bool = False) -> int:
        """The OID of an enumeration or a domain, or of the array of an enumeration."""
        return self._oids["array" if array else "type", full]

    def oid_of_label(self, type_: str, label: str) -> int:
        return self._oids["label", type_, label]

    def oid_of_default(self, full: str, column: str) -> int:
        return self._oids["default", *self._key_of(full), column]

    def below(self, domain: OfDomain | None) -> OfDomain | None:
        """The domain of the values of a domain."""
        if domain is None:
            return None
        return domain_of(self.catalog.schema, domain.name).value.domain

    # -- keys

    def _key_of(self, full: str) -> Key:
        return ("object", self.catalog.stored_name(full), str(self._numbers.get(full, 0)))

    def _keys(self) -> Iterator[Key]:
        schema = self.catalog.schema
        yield from (("schema", space) for space in schema.spaces)
        for relation in schema.relations:
            yield self._key_of(relation.name)
            yield "key", *self._key_of(relation.name)
            yield from self._keys_in(relation)
        named = (*self.catalog.all_views, *self.catalog.plain_view)
        yield from map(self._key_of, named)
        yield from (self._key_of(each.name) for each in schema.sequences)
        yield from (
            ("sequence", *self._key_of(name), column.name) for name, column in self._identities()
        )
        for index in schema.indexes:
            yield self._key_of(index.name)
            yield "constraint", *self._key_of(index.relation), bare(index.name, self.spaces)
        for enumeration in schema.enumerations:
            full = name_of(enumeration)
            yield from (("type", full), ("array", full))
            yield from (("label", full, label) for label in enumeration.labels)
        for domain in schema.domains:
            yield "type", domain.name
            yield from self._keys_of(domain.name, domain.checks)

    def _keys_in(self, relation: Relation) -> Iterator[Key]:
        on = self._key_of(relation.name)
        if relation.declared_key:
            yield "constraint", *on, key_name(relation, self.spaces)
        yield from (("constraint", *on, key.name) for key in relation.foreign_keys)
        yield from self._keys_of(relation.name, relation.own_checks)
        yield from (("default", *on, column.name) for column in relation.visible)

    def _keys_of(self, on: str, checks: Sequence[Check]) -> Iterator[Key]:
        yield from (("constraint", *self._key_of(on), check.name) for check in checks)


def objects_of(catalog: Catalog) -> Objects:
    """The objects of a catalog, computed once."""
    found = catalog.derived.get("objects")
    if not isinstance(found, Objects):
        found = catalog.derived["objects"] = Objects(catalog)
    return found


def name_of(enumeration: Enumeration) -> str:
    """The full name of the type."""
    return joined(enumeration.space or PUBLIC, enumeration.name)


def internal_name(type_: ColumnType) -> str:
    """PostgreSQL's internal name of a built-in type that is no array."""
    if type_.declared in _DECLARED:
        return _DECLARED[type_.declared]
    if type_ == REAL:
        return "float4"
    if type_.kind is Kind.TEXT and type_.length is not None:
        return "varchar"
    return _INTERNAL[type_.kind]


_DECLARED: dict[Declared | None, str] = {
    Declared.SMALLINT: "int2",
    Declared.JSONB: "jsonb",
    Declared.CHAR: "bpchar",
}
_INTERNAL = {
    Kind.INTEGER: "int4",
    Kind.BIGINT: "int8",
    Kind.DECIMAL: "numeric",
    Kind.DOUBLE: "float8",
    Kind.BOOLEAN: "bool",
    Kind.TEXT: "text",
    Kind.BYTES: "bytea",
    Kind.DATE: "date",
    Kind.TIME: "time",
    Kind.TIMESTAMP: "timestamp",
    Kind.TIMESTAMPTZ: "timestamptz",
    Kind.INTERVAL: "interval",
    Kind.UUID: "uuid",
    Kind.JSON: "json",
}


def modifier(type_: ColumnType) -> int:
    """PostgreSQL's `typmod`: the parameters of the type as one number, -1 without any."""
    if type_.element is not None:
        return modifier(type_.element)
    if type_.kind is Kind.TEXT and type_.length is not None:
        return type_.length + 4
    if type_.kind is Kind.DECIMAL and type_.declared is not Declared.NUMERIC:
        return ((type_.precision or 0) << 16 | (type_.scale or 0)) + 4
    if type_.kind in MOMENTS and type_.precision is not None:
        return type_.precision
    return -1
