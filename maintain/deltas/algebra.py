"""The meaning of a view's SELECT, as a tree of eight operators. Pure data.

Every operator has columns (`fields`; their names are unique in the operator and consist of a FROM
item's alias and a column) and, if one exists, a set of columns that identifies its rows (`unique`).
Expressions are SQL over the names of the input.

Joins are inner, left, semi or anti, all *linear in the left input*: the output for a left row does
not depend on other left rows. A right join is a left join with its sides swapped, and a full join
is the union of `A LEFT JOIN B` and `B ANTI JOIN A` with NULLs for A. DISTINCT is aggregation
without functions, and UNION is DISTINCT over UNION ALL. What has no rule of its own (windows, other
aggregates) is a `Partition`: SQL over the rows that agree in some columns. WITH RECURSIVE is a
`Recursion`, whose step is a join of the rows found so far (`Working`) with another operator.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from hornbeam_server.maintain.deltas.relations import Field, Fields, duck_type
from hornbeam_server.query.dialect.aggregates import Function
from hornbeam_server.query.dialect.duckdb_types import quoted
from hornbeam_server.query.dialect.macros import macro
from hornbeam_server.schema.types import ColumnType, Kind

_TIMESTAMPTZ = ColumnType(Kind.TIMESTAMPTZ)


class JoinKind(enum.StrEnum):
    INNER = "inner"
    LEFT = "left"
    SEMI = "semi"
    ANTI = "anti"


class Node:
    """An operator."""

    fields: Fields
    unique: frozenset[str] | None
    """Columns that identify a row. The empty set: at most one row. None: no such set is known."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    @cached_property
    def field(self) -> dict[str, Field]:
        return {field.name: field for field in self.fields}


@dataclass(frozen=True, eq=False)
class Scan(Node):
    """A base relation; its column `columns[i]` is `fields[i]`."""

    relation: str
    columns: tuple[str, ...]
    fields: Fields
    unique: frozenset[str]

    @cached_property
    def column(self) -> dict[str, str]:
        """Field name → column of the relation."""
        return {f.name: c for f, c in zip(self.fields, self.columns, strict=True)}


NOW = Field("clock.now", duck_type(_TIMESTAMPTZ), _TIMESTAMPTZ, nullable=False)


@dataclass(frozen=True, eq=False)
class Clock(Node):
    """The current time, as the column `NOW` of one row."""

    fields: Fields = (NOW,)
    unique: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Map(Node):
    """Filter and projection. `expressions[i]` computes `fields[i]`; `passes` has the fields that
    are plain columns: field name → name in the input."""

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
        """Columns that are NULL in every row. Full joins have such columns."""
        pairs = zip(self.fields, self.expressions, strict=True)
        return frozenset(field.name for field, sql in pairs if sql == null_of(field))

    def select(self, source: str, *more: str) -> str:
        """The operator as SQL over `source`, with `more` columns of the source appended."""
        columns = [
            f"{expression} AS {quoted(field.name)}"
            for field, expression in zip(self.fields, self.expressions, strict=True)
        ]
        where = f" WHERE {self.where}" if self.where else ""
        return f"SELECT {', '.join([*columns, *more])} FROM {source}{where}"


@dataclass(frozen=True, slots=True)
class Bound:
    """A comparison of a join's left and right column: > or ≥ (`above`), otherwise < or ≤."""

    left: str
    right: str
    above: bool


def null_of(field: Field) -> str:
    return f"CAST(NULL AS {field.duck})"


@dataclass(frozen=True, eq=False)
class Join(Node):
    """`keys` are pairs of equal columns; `condition` is the rest of the join condition. Semi and
    anti joins have the fields of the left side. `bound`: the condition only compares a left column
    with a column of the only right row. `ranges`: comparisons of a left and a right column that the
    condition of a join without keys implies."""

    kind: JoinKind
    left: Node
    right: Node
    keys: tuple[tuple[str, str], ...]
    condition: str
    fields: Fields
    unique: frozenset[str] | None
    bound: Bound | None = None
    ranges: tuple[Bound, ...] = ()

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    @property
    def one_right(self) -> bool:
        """Has the right side at most one row?"""
        return self.right.unique == frozenset()

    def compared(self, side: int) -> tuple[str, ...]:
        """The columns of the left (0) or the right (1) side by whose values rows of the other side
        are looked up: those of the keys, or else those of the ranges."""
        if self.keys:
            return tuple(pair[side] for pair in self.keys)
        columns = (each.right if side else each.left for each in self.ranges)
        return tuple(dict.fromkeys(columns))

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


@dataclass(frozen=True, slots=True)
class Call:
    """An aggregate: `function` of the input's column `argument` ("" for COUNT(*)) as `field`."""

    function: Function
    argument: str
    field: Field

    def averaged(self, total: str, count: str) -> str:
        """The SQL of an average from that of a sum and of a count."""
        if self.field.type.kind is Kind.DOUBLE:
            return f"CAST({total} AS DOUBLE) / CAST({count} AS DOUBLE)"
        return f"{macro('quotient')}({total}, {count})"


@dataclass(frozen=True, eq=False)
class Aggregate(Node):
    """GROUP BY columns of the input. Without `groups` the result always has exactly one row."""

    input: Map
    groups: Fields
    calls: tuple[Call, ...]
    sums: tuple[tuple[str, Field], ...]
    """Argument → the field of its sum, for the arguments of SUM and AVG."""
    reason: str = ""
    """Of a partial aggregate (`partials`): what it aggregates, and why it is kept."""

    @cached_property
    def fields(self) -> Fields:  # type: ignore[override]
        return (*self.groups, *(call.field for call in self.calls))

    @property
    def unique(self) -> frozenset[str]:  # type: ignore[override]
        return frozenset(group.name for group in self.groups)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclass(frozen=True, eq=False)
class Partition(Node):
    """`sql` is a SELECT over the table `input` whose result for the rows that agree in the columns
    `by` depends on these rows alone. The columns `by` are in its result under the same names.
    `cause`: the part of the view that has no delta rule."""

    input: Map
    by: tuple[str, ...]
    sql: str
    fields: Fields
    unique: frozenset[str] | None
    cause: str

    @property
    def groups(self) -> Fields:
        return tuple(self.input.field[name] for name in self.by)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def select(self, table: str) -> str:
        """The operator as SQL over a table that has the input."""
        return f"(WITH input AS (SELECT * FROM {table}) {self.sql})"


@dataclass(frozen=True, eq=False)
class Working(Node):
    """The rows of a recursion to which a step is applied. Only steps read it."""

    fields: Fields
    unique: None = None


@dataclass(frozen=True, eq=False)
class Recursion(Node):
    """WITH RECURSIVE: the rows of `start`, and those that a step derives from each row, round after
    round. A step applies `before` to the rows, joins them as the right side of `join`, and applies
    `after`. Without a join it applies `after` only. A step is monotone: it derives the more, the
    more rows it reads. `distinct`: UNION, so each row is there once; otherwise it is there as often
    as it is derived. `order` are the columns by whose values `join` finds rows."""

    start: Map
    join: Join | None
    before: tuple[Map, ...]
    after: tuple[Map, ...]
    order: tuple[str, ...]
    distinct: bool
    fields: Fields
    unique: frozenset[str] | None

    @property
    def other(self) -> Fields:
        """The columns of the rows with which a step joins."""
        return self.join.left.fields if self.join is not None else ()

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.start,) if self.join is None else (self.start, self.join.left)


def walk(node: Node, seen: set[int] | None = None) -> Iterator[Node]:
    """All operators in topological order: inputs first, every operator once."""
    seen = set() if seen is None else seen
    if id(node) in seen:
        return
    seen.add(id(node))
    for input_ in node.inputs:
        yield from walk(input_, seen)
    yield node
