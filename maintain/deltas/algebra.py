"""What a view's SELECT means, as a tree of five operators. Pure data.

Every operator knows its columns (`fields`; their names are unique in it and made of a FROM item's
alias and a column), and a set of columns that no two of its rows agree on (`unique`), if there is
one. Expressions are SQL over the names of the input.

Joins come as inner, left, semi and anti only, all *linear in the left input*: what a left row
gives does not depend on other left rows. A right join is a left join with its sides swapped, and
a full join is `A LEFT JOIN B` and, beside it, `B ANTI JOIN A` with NULLs for A. DISTINCT is
aggregation without functions, and UNION is DISTINCT over UNION ALL.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from maintain.deltas.relations import Field, Fields
from query.duck import quoted


class JoinKind(enum.StrEnum):
    INNER = "inner"
    LEFT = "left"
    SEMI = "semi"
    ANTI = "anti"


class Node:
    """An operator."""

    fields: Fields
    unique: frozenset[str] | None
    """Columns that identify a row; the empty set: there is at most one row. None: unknown."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    @cached_property
    def field(self) -> dict[str, Field]:
        return {field.name: field for field in self.fields}


@dataclass(frozen=True, eq=False)
class Scan(Node):
    """A base relation; `columns[i]` of it is `fields[i]`."""

    relation: str
    columns: tuple[str, ...]
    fields: Fields
    unique: frozenset[str]

    @cached_property
    def column(self) -> dict[str, str]:
        """Name here → column of the relation."""
        return {f.name: c for f, c in zip(self.fields, self.columns, strict=True)}


@dataclass(frozen=True, eq=False)
class Map(Node):
    """Filter and projection. `expressions[i]` computes `fields[i]`; `passes` are those that are
    plain columns: name here → name in the input."""

    input: Node
    fields: Fields
    expressions: tuple[str, ...]
    where: str
    passes: dict[str, str]
    unique: frozenset[str] | None

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @cached_property
    def nulls(self) -> frozenset[str]:
        """Columns that are NULL in every row: a full join has them."""
        pairs = zip(self.fields, self.expressions, strict=True)
        return frozenset(field.name for field, sql in pairs if sql == null_of(field))

    def select(self, source: str, *more: str) -> str:
        """As SQL over `source`, with further columns of it."""
        columns = [
            f"{expression} AS {quoted(field.name)}"
            for field, expression in zip(self.fields, self.expressions, strict=True)
        ]
        where = f" WHERE {self.where}" if self.where else ""
        return f"SELECT {', '.join([*columns, *more])} FROM {source}{where}"


@dataclass(frozen=True, slots=True)
class Bound:
    """`left` > or ≥ `right` (`above`), or < or ≤: columns of a join's sides."""

    left: str
    right: str
    above: bool


def null_of(field: Field) -> str:
    return f"CAST(NULL AS {field.duck})"


@dataclass(frozen=True, eq=False)
class Join(Node):
    """`keys` are pairs of equal columns, never empty but for a right side of one row;
    `condition` is what else a pair of rows must meet. The fields of semi and anti joins are those
    of the left. `bound`: the condition only compares a left column with the only row's."""

    kind: JoinKind
    left: Node
    right: Node
    keys: tuple[tuple[str, str], ...]
    condition: str
    fields: Fields
    unique: frozenset[str] | None
    bound: Bound | None = None

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def on(self) -> str:
        """The join condition over tables `l` and `r`."""
        pairs = [f"l.{quoted(a)} = r.{quoted(b)}" for a, b in self.keys]
        return (
            " AND ".join([*pairs, *([f"({self.condition})"] if self.condition else [])]) or "TRUE"
        )


@dataclass(frozen=True, eq=False)
class Union(Node):
    """UNION ALL of inputs with the same fields."""

    parts: tuple[Node, ...]
    fields: Fields
    unique: None = None

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.parts


class Function(enum.StrEnum):
    ROWS = "count(*)"
    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    DISTINCT = "count distinct"


@dataclass(frozen=True, slots=True)
class Call:
    """An aggregate: `function` of the input's column `argument` ("" for COUNT(*)) as `field`."""

    function: Function
    argument: str
    field: Field


@dataclass(frozen=True, eq=False)
class Aggregate(Node):
    """GROUP BY columns of the input. `groups` empty and not `distinct`: always exactly one row."""

    input: Map
    groups: Fields
    calls: tuple[Call, ...]
    sums: tuple[tuple[str, Field], ...]
    """Argument → the field of its sum, for what SUM and AVG need."""

    @cached_property
    def fields(self) -> Fields:  # type: ignore[override]
        return (*self.groups, *(call.field for call in self.calls))

    @property
    def unique(self) -> frozenset[str]:  # type: ignore[override]
        return frozenset(group.name for group in self.groups)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


def walk(node: Node, seen: set[int] | None = None) -> Iterator[Node]:
    """All operators, inputs before what reads them, each once."""
    seen = set() if seen is None else seen
    if id(node) in seen:
        return
    seen.add(id(node))
    for input_ in node.inputs:
        yield from walk(input_, seen)
    yield node
