"""The relational schema: relations, columns, keys, foreign keys, declared indexes.

Names are lower case unless quoted in the DDL. All objects are frozen and hashable. The order of
columns is the order of declaration, and the order in stored rows.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from hornbeam_server.schema.enumerations import Enumeration
from hornbeam_server.schema.types import ColumnType, Value, enumeration_of

PUBLIC = "public"
"""The schema, in PostgreSQL's sense of a name space, that always exists (`namespaces.py`)."""
DATABASE = "hornbeam"
"""The name of the database, of its only catalog and of its only user in SQL."""
INFORMATION_SCHEMA = "information_schema"
"""The schema of relations that describe the others (`query/binding/information_schema.py`)."""


class Action(enum.StrEnum):
    """The effect on the referencing rows when a row is deleted (ON DELETE), or when its referenced
    values change (ON UPDATE). NO ACTION in DDL is RESTRICT, checked at commit."""

    RESTRICT = "restrict"
    CASCADE = "cascade"
    SET_NULL = "set null"
    SET_DEFAULT = "set default"


class DefaultKind(enum.StrEnum):
    """The kind of a default. `LITERAL` has a value; the others are computed at the insert.
    `GENERATED` is computed at every write: GENERATED ALWAYS AS (expression) STORED."""

    LITERAL = "literal"
    NOW = "now"
    IDENTITY = "identity"
    UUID = "uuid"
    """A random UUID for each row."""
    EXPRESSION = "expression"
    """An expression without columns, with one value in a transaction unless it calls nextval."""
    GENERATED = "generated"


@dataclass(frozen=True, slots=True)
class Identity:
    """The numbers of an identity column: from `start`, in steps of `increment`, up to `last` (None:
    the limit of the type). `always`: a statement can set another number only with OVERRIDING SYSTEM
    VALUE."""

    start: int = 1
    increment: int = 1
    last: int | None = None
    always: bool = False


@dataclass(frozen=True, slots=True)
class DeclaredSequence:
    """CREATE SEQUENCE: integers of `type` from `start` on, in steps of `increment`, between `least`
    and `most`. `cycle`: behind the last number it begins again at the other bound. `owner`: the
    relation and the column with which it is dropped."""

    name: str
    type: ColumnType
    start: int
    increment: int
    least: int
    most: int
    cycle: bool = False
    owner: tuple[str, str] | None = None

    @property
    def numbers(self) -> Identity:
        return Identity(self.start, self.increment, self.most if self.increment > 0 else self.least)


def sequence_of_column(relation: str, column: str) -> str:
    """The name of the sequence of an identity column."""
    return f"{relation}_{column}_seq"


@dataclass(frozen=True, slots=True)
class Default:
    """A column's default. `value` belongs to the kind `LITERAL`, `identity` to `IDENTITY`, the
    expression `sql` to `EXPRESSION` and `GENERATED`."""

    kind: DefaultKind
    value: Value = None
    identity: Identity = Identity()
    sql: str = ""

    @property
    def is_literal(self) -> bool:
        return self.kind is DefaultKind.LITERAL


@dataclass(frozen=True, slots=True)
class OfDomain:
    """The domain of a column, by its full name. `not_null` and `default` say whether the column
    declares NOT NULL and a default itself."""

    name: str
    not_null: bool = False
    default: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column; `default` None means NULL. `hidden`: it is the row identity (row_identity.py),
    which clients see only if they name it; or it belongs to a change that is under way (stages.py);
    or it is `dropped`: stored rows keep its place, and no client sees it. `missing` is the value in
    rows that are older than the column, a literal; None: that of the default. A column of a
    `domain` has NOT NULL and the default of it, too (`schema/domains.py`)."""

    name: str
    type: ColumnType
    nullable: bool = True
    default: Default | None = None
    hidden: bool = False
    dropped: bool = False
    missing: Default | None = None
    domain: OfDomain | None = None

    @property
    def default_kind(self) -> DefaultKind | None:
        return None if self.default is None else self.default.kind

    @property
    def value_in_older_rows(self) -> Value:
        """The value in rows that were written before the relation had the column."""
        literal = self.default if self.missing is None else self.missing
        return literal.value if literal is not None and literal.is_literal else None


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """`columns` of the owning relation reference `parent_columns`: the primary key of `parent`, in
    the key's order, or with `to_unique` the columns of a UNIQUE index, in the order of the index.

    An edge of the schema graph runs from parent to the owning relation (Synergy, definition 1).
    Trees and join views follow edges to primary keys only. `name` is unique in its relation.
    """

    name: str
    columns: tuple[str, ...]
    parent: str
    parent_columns: tuple[str, ...]
    on_delete: Action = Action.RESTRICT
    on_update: Action = Action.RESTRICT
    to_unique: bool = False


@dataclass(frozen=True, slots=True)
class DomainCheck:
    """The origin of a CHECK: `constraint` of `domain`, which is the domain of `column`."""

    domain: str
    constraint: str
    column: str

    @property
    def name(self) -> str:
        """The name of the CHECK in the relation of the column."""
        return f"{self.constraint} of {self.column}"


@dataclass(frozen=True, slots=True)
class Check:
    """CHECK (`sql`): the expression over a row is true or NULL for each row. `name` is unique among
    the foreign keys and CHECKs of its relation. `origin`: the column has it from its domain."""

    name: str
    sql: str
    origin: DomainCheck | None = None


@dataclass(frozen=True, slots=True)
class Domain:
    """CREATE DOMAIN: a type with NOT NULL, a default and CHECKs. `value` is like a column of the
    domain; its name is VALUE. `checks` are the domain's own, over VALUE. If `value` is of another
    domain, it also meets the CHECKs of that one."""

    name: str
    value: Column
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyPart:
    """One column of a key or an index, with its direction."""

    column: str
    descending: bool = False


@dataclass(frozen=True, slots=True)
class KeyExpression:
    """An expression over a row that is a part of an index. The key parts of the index know its
    value as `column`, which is the name of no column of the relation."""

    column: str
    sql: str


@dataclass(frozen=True, slots=True)
class DeclaredIndex:
    """CREATE [UNIQUE] INDEX … (columns) INCLUDE (include) [WHERE where], or a UNIQUE constraint.
    `expressions` are those among `columns`."""

    name: str
    relation: str
    columns: tuple[KeyPart, ...]
    include: tuple[str, ...] = ()
    unique: bool = False
    where: str = ""
    expressions: tuple[KeyExpression, ...] = ()
    nulls_distinct: bool = True
    """False: UNIQUE holds for NULLs, too, which are then equal."""

    @property
    def is_whole(self) -> bool:
        """Whether it has all rows of its relation, under columns alone."""
        return not self.where and not self.expressions


@dataclass(frozen=True)
class Relation:
    """A base relation. `primary_key` is never empty and its columns are NOT NULL. If the schema
    declares no primary key, it is the row identity: a hidden first column. `key_name` is the name
    of the primary key as a constraint; "" for that of PostgreSQL (`namespaces.key_name`)."""

    name: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    foreign_keys: tuple[ForeignKey, ...] = ()
    checks: tuple[Check, ...] = ()
    key_name: str = ""

    @cached_property
    def positions(self) -> dict[str, int]:
        """Column name → position in a row."""
        return {column.name: i for i, column in enumerate(self.columns)}

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @cached_property
    def key_positions(self) -> tuple[int, ...]:
        return tuple(self.positions[name] for name in self.primary_key)

    @cached_property
    def visible(self) -> tuple[Column, ...]:
        """The declared columns: all except the row identity and dropped columns."""
        return tuple(column for column in self.columns if not column.hidden)

    @cached_property
    def visible_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.visible)

    @cached_property
    def key_edges(self) -> tuple[ForeignKey, ...]:
        """The foreign keys to primary keys, which trees and join views may follow."""
        return tuple(key for key in self.foreign_keys if not key.to_unique)

    @cached_property
    def stored_names(self) -> frozenset[str]:
        """The names of all columns but dropped ones."""
        return frozenset(column.name for column in self.columns if not column.dropped)

    @property
    def identity(self) -> Column | None:
        """The row identity, if it is the primary key."""
        first = self.column(self.primary_key[0])
        return first if first.hidden else None

    @property
    def declared_key(self) -> tuple[str, ...]:
        """The primary key that the schema declares; empty if it declares none."""
        return self.primary_key if self.identity is None else ()

    @cached_property
    def own_checks(self) -> tuple[Check, ...]:
        """The CHECKs that the relation declares itself, without those of domains."""
        return tuple(check for check in self.checks if check.origin is None)

    @cached_property
    def generated(self) -> tuple[Column, ...]:
        """The columns that are GENERATED ALWAYS AS an expression."""
        return tuple(c for c in self.columns if c.default_kind is DefaultKind.GENERATED)

    def column(self, name: str) -> Column:
        """The column `name`. Raises KeyError."""
        return self.columns[self.positions[name]]

    def foreign_key(self, name: str) -> ForeignKey:
        """The foreign key `name`. Raises KeyError."""
        for foreign_key in self.foreign_keys:
            if foreign_key.name == name:
                return foreign_key
        raise KeyError(name)


DEFAULT_GROUP, LIVE_GROUP = "default", "live"
"""The groups of views that name none. `LIVE_GROUP` is that of live views."""
DEFAULT_INTERVAL_S, LIVE_INTERVAL_S = 5.0, 0.25
"""The intervals of views that name none. `LIVE_INTERVAL_S` is that of live views."""
SHORTEST_INTERVAL_S = 0.05
"""The shortest interval of a live view."""


class Refresh(enum.StrEnum):
    """How a declared view is maintained."""

    IMMEDIATE = "immediate"
    """The writing transaction maintains it."""
    DEFERRED = "deferred"
    """The batch applies the changes of the relations."""
    LIVE = "live"
    """The batch applies the changes of the relations. The nodes do the batches themselves."""
    RECOMPUTE = "recompute"
    """The batch evaluates the whole SELECT."""
    PLAIN = "plain"
    """It is not stored: CREATE VIEW gives its SELECT a name."""

    @property
    def follows_changes(self) -> bool:
        """Does the view have a delta program, by which batches apply changes to it?"""
        return self in (Refresh.DEFERRED, Refresh.LIVE)

    @property
    def is_batched(self) -> bool:
        """Do batches maintain the view?"""
        return self.follows_changes or self is Refresh.RECOMPUTE


@dataclass(frozen=True, slots=True)
class DeclaredView:
    """CREATE MATERIALIZED VIEW … WITH (refresh = …, interval = …, group = …) AS `sql`, or a plain
    view: CREATE VIEW … AS `sql`.

    Unless it is immediate or plain, batches refresh it. All views of one `group` are always as of
    one snapshot, and get a new snapshot every `interval_s` (the minimum in the group).
    """

    name: str
    sql: str
    interval_s: float = DEFAULT_INTERVAL_S
    group: str = DEFAULT_GROUP
    refresh: Refresh = Refresh.DEFERRED
    columns: tuple[str, ...] = field(default=(), compare=False)
    """The names of the columns of a view that is stored; empty for a new view. An output column
    that the SELECT does not name keeps its name, also if new views give it another one."""


def enumerations_of(relations: Iterable[Relation]) -> tuple[Enumeration, ...]:
    """The enumerations of the columns that relations have."""
    columns = (column for relation in relations for column in relation.visible)
    found = dict.fromkeys(enumeration_of(column.type) for column in columns)
    return tuple(each for each in found if each is not None)


@dataclass(frozen=True)
class Schema:
    """All relations, declared indexes, views, sequences, enumerations and domains of one database.
    `spaces` are the schemas besides `public` (`namespaces.py`)."""

    relations: tuple[Relation, ...]
    indexes: tuple[DeclaredIndex, ...] = ()
    views: tuple[DeclaredView, ...] = ()
    sequences: tuple[DeclaredSequence, ...] = ()
    spaces: tuple[str, ...] = ()
    enumerations: tuple[Enumeration, ...] = ()
    domains: tuple[Domain, ...] = ()
    """In an order in which each one comes after the domain of its values."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """The columns whose stored type differs from the declared type, with their stored type. The
    loader sets this; it is not stored."""
    _by_name: dict[str, Relation] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {r.name: r for r in self.relations})

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def relation(self, name: str) -> Relation:
        """The relation `name`. Raises KeyError."""
        return self._by_name[name]

    def children(self, name: str) -> list[tuple[Relation, ForeignKey]]:
        """Foreign keys that reference relation `name`, including self-references."""
        return [(r, fk) for r in self.relations for fk in r.foreign_keys if fk.parent == name]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(relation.name for relation in self.relations)
