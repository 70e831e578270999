"""The algebra of bound queries: the parts of SQL that Hornbeam itself interprets.

sqlglot parses SQL, and native execution or DuckDB answers it in full. Planning needs only a summary
of each SELECT block: the relations that foreign keys join, and the filters that can become key
ranges. This summary is a `Block`. View selection reads blocks of the workload; rewriting and access
paths read blocks of the current query.
"""

from __future__ import annotations

import enum
from collections.abc import Set
from dataclasses import dataclass, field, replace
from typing import Any

from hornbeam_server.query.parsing.placeholders import Parameter
from hornbeam_server.schema.model import ForeignKey


class Comparison(enum.StrEnum):
    """Operators that key ranges can serve. IN is several equalities; PREFIX is LIKE 'abc%'."""

    EQ = "="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IN = "in"
    PREFIX = "like"
    IS_NULL = "is null"


@dataclass(frozen=True, slots=True)
class Source:
    """One occurrence of a relation (or readable view) in a FROM clause, under `alias`."""

    alias: str
    relation: str


@dataclass(frozen=True, slots=True)
class EquiJoin:
    """`left.left_columns = right.right_columns`, all of them conjuncts of an inner join."""

    left: str
    left_columns: tuple[str, ...]
    right: str
    right_columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ForeignKeyJoin:
    """An equi-join that follows a foreign key completely: `child` and `parent` are aliases.

    `implied`: the statement does not contain the join, but it follows from other equalities."""

    child: str
    parent: str
    foreign_key: ForeignKey
    implied: bool = False


@dataclass(frozen=True, slots=True)
class Filter:
    """A conjunct of WHERE (or of an inner ON) that compares one column with constants.

    `values` are constants or `Parameter`s: one value for every comparison except IN and IS_NULL. IN
    may have one `ParameterList` instead. The value of PREFIX is the whole LIKE pattern: `abc%`, or
    a parameter with any pattern.
    """

    alias: str
    column: str
    comparison: Comparison
    values: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class ParameterList:
    """All values of the subquery `name`; `rows` is their estimated number."""

    name: str
    rows: float


@dataclass(frozen=True, slots=True)
class Order:
    """One plain column of ORDER BY. A block lists them only if all terms are plain columns."""

    alias: str
    column: str
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True)
class Block:
    """One SELECT with its own FROM clause.

    `inner_only`: every join is an inner (or comma/cross) join, so that replacing joined relations
    by a view does not change the result. `columns` holds the used columns of each alias.
    `conjunctive`: WHERE is a conjunction of filters and joins only. `computed` are filters whose
    column is an expression of an index, which no row has (`IndexExpression`).
    """

    sources: tuple[Source, ...]
    equi_joins: tuple[EquiJoin, ...] = ()
    fk_joins: tuple[ForeignKeyJoin, ...] = ()
    filters: tuple[Filter, ...] = ()
    order: tuple[Order, ...] = ()
    limit: bool = False
    inner_only: bool = True
    conjunctive: bool = True
    columns: dict[str, frozenset[str]] = field(default_factory=dict, hash=False)
    computed: tuple[Filter, ...] = ()

    def filters_of(self, alias: str) -> list[Filter]:
        """The filters of the source `alias`."""
        return [each for each in self.filters if each.alias == alias]

    def key_filters_of(self, alias: str) -> list[Filter]:
        """The filters of the source `alias`, also those on expressions of indexes."""
        return [each for each in (*self.filters, *self.computed) if each.alias == alias]

    def without(self, aliases: Set[str]) -> Block:
        """The block without some of its sources."""
        if not aliases:
            return self
        return replace(
            self,
            sources=tuple(each for each in self.sources if each.alias not in aliases),
            equi_joins=tuple(j for j in self.equi_joins if aliases.isdisjoint((j.left, j.right))),
            fk_joins=tuple(j for j in self.fk_joins if aliases.isdisjoint((j.child, j.parent))),
            filters=tuple(each for each in self.filters if each.alias not in aliases),
            computed=tuple(each for each in self.computed if each.alias not in aliases),
        )

    def relation(self, alias: str) -> str:
        """The relation of the source `alias`. Raises KeyError."""
        for source in self.sources:
            if source.alias == alias:
                return source.relation
        raise KeyError(alias)


class StatementKind(enum.StrEnum):
    SELECT = "select"
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True)
class BoundStatement:
    """A statement with its SELECT blocks, outermost first; for writes also the target.

    `written` has the columns that an UPDATE assigns. A write's WHERE is a block over its target.
    """

    kind: StatementKind
    sql: str
    blocks: tuple[Block, ...]
    target: str | None = None
    written: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()

    @property
    def reads(self) -> set[tuple[str, str]]:
        """The columns of relations that the statement reads, as (relation, column)."""
        return {
            (block.relation(alias), column)
            for block in self.blocks
            for alias, columns in block.columns.items()
            for column in columns
        }
