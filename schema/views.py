"""The views of a catalog, as they are stored."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cached_property

from hornbeam_server.schema.model import Column, DeclaredView, ForeignKey, KeyPart


@dataclass(frozen=True)
class ViewColumn:
    """A view's column and its origin. `name` is the bare column name if that is unique on the
    path, and `relation_column` otherwise (with `_` appended while that is taken)."""

    name: str
    relation: str
    column: str


@dataclass(frozen=True)
class JoinView:
    """A key/foreign-key join along a path of a rooted tree (Synergy, definition 5).

    `path` runs from the ancestor to the last relation; `edges[i]` is the foreign key of
    `path[i + 1]` that references `path[i]`. Its rows are the concatenated rows of the path, in
    path order; its key is the last relation's key.
    """

    name: str
    path: tuple[str, ...]
    edges: tuple[ForeignKey, ...]
    columns: tuple[ViewColumn, ...]

    @property
    def last(self) -> str:
        return self.path[-1]

    @cached_property
    def names(self) -> dict[tuple[str, str], str]:
        """(relation, column) → the view's column name."""
        return {(c.relation, c.column): c.name for c in self.columns}

    @cached_property
    def equal_columns(self) -> dict[str, str]:
        """View column → the topmost view column of the path that always has the same value."""
        equal = {column.name: column.name for column in self.columns}
        for child, edge in zip(self.path[1:], self.edges, strict=True):
            for column, parent_column in zip(edge.columns, edge.parent_columns, strict=True):
                equal[self.names[child, column]] = equal[self.names[edge.parent, parent_column]]
        return equal


CLOCK_STATE = "clock"
"""The beginning of the name of a state that has the current time."""


@dataclass(frozen=True)
class StateLayout:
    """An internal table of a deferred view, such as the counts and sums of its groups."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[KeyPart, ...]


@dataclass(frozen=True)
class PartialAggregate:
    """A partial aggregate that a deferred view keeps (`maintain/deltas/partials`). It is over the
    FROM items at the positions `items`, below the aggregate number `aggregate` of the view's
    SELECT. `rows` and `groups` were expected of it when it was chosen."""

    aggregate: int
    items: tuple[int, ...]
    rows: int
    groups: int


@dataclass(frozen=True)
class DeferredView:
    """A declared view and its storage (which `maintain/deltas` derives from its SELECT).

    Its rows are tuples of `columns`, which queries can read, and `hidden`, which they cannot.
    `partials` were chosen when the view was planned, and stay as long as its rows do.
    """

    declared: DeclaredView
    relations: tuple[str, ...]
    columns: tuple[Column, ...]
    hidden: tuple[Column, ...]
    key: tuple[KeyPart, ...]
    states: tuple[StateLayout, ...]
    partials: tuple[PartialAggregate, ...] = ()

    @property
    def name(self) -> str:
        return self.declared.name

    @property
    def timed(self) -> bool:
        """Do rows of the view enter and leave by time, without a commit? Then its state has the
        time of the last batch."""
        return any(state.name.startswith(CLOCK_STATE) for state in self.states)

    @cached_property
    def stored(self) -> tuple[str, ...]:
        """Names of all layouts of the view: its own rows first, then its states."""
        return (self.name, *(f"{self.name}.{state.name}" for state in self.states))


class Folding(enum.StrEnum):
    """How a column of an immediate view follows from the sums of a group's cells."""

    GROUP = "group"
    """A grouping column."""
    COUNT = "count"
    """A count."""
    SUM = "sum"
    """A sum, or NULL if the count of its values is 0."""
    AVG = "avg"
    """A sum divided by the count of its values, or NULL if the count is 0: a quotient of NUMERIC,
    or a DOUBLE in a column of that type."""
    MIN = "min"
    MAX = "max"
    """The first or last value of the group in a layout of values, or NULL if there is none."""
    DISTINCT = "distinct"
    """The number of values of the group in a layout of values."""
    COMPUTED = "computed"
    """The value of an expression over aggregates (`Computed`)."""


@dataclass(frozen=True)
class FoldedColumn:
    """The origin of a column of an immediate view. `position` is a position in the columns of the
    cells; for MIN, MAX and DISTINCT it is the number of the layout of values; for COMPUTED it is
    the number of the column."""

    folding: Folding
    position: int
    count: int = 0
    """Position of the count of values, for SUM and AVG."""


@dataclass(frozen=True)
class Computed:
    """What is computed from a group of an immediate view when it is read. `terms` are the grouping
    columns and the aggregates that the SELECT names, with their origins in `folded`. `expressions`
    are SQL over the terms, one for each column of the view. Only a group for which `having` is true
    has a row; "" is true."""

    terms: tuple[Column, ...]
    folded: tuple[FoldedColumn, ...]
    expressions: tuple[str, ...]
    having: str = ""


@dataclass(frozen=True)
class ImmediateView:
    """An aggregate view that transactions maintain. The schema declares it, or a plan has `chosen`
    it for the workload; then `declared` is what the schema would say.

    A group is stored as *cells*, one per lane that has changed it. The columns of `cells` are the
    grouping columns, the lane, the number of rows, and the sums; its key is the grouping columns
    and the lane. A group has the sums over its cells, and exists while its number of rows is
    above 0; without GROUP BY the only group always exists. Each layout in `values` has the values
    of one argument of MIN, MAX or COUNT(DISTINCT): cells of the grouping columns, the value, the
    lane, and the number of rows with that value. Readers see rows of `columns` and `hidden`, under
    `key`; `folded` has the origin of each column. `computed`: the SELECT has HAVING or expressions
    over aggregates.
    """

    declared: DeclaredView
    relations: tuple[str, ...]
    columns: tuple[Column, ...]
    hidden: tuple[Column, ...]
    key: tuple[KeyPart, ...]
    cells: StateLayout
    folded: tuple[FoldedColumn, ...]
    grouped: bool = True
    values: tuple[StateLayout, ...] = ()
    computed: Computed | None = None
    chosen: bool = False

    @property
    def name(self) -> str:
        return self.declared.name

    @property
    def cells_name(self) -> str:
        """The name of the layout of the cells."""
        return f"{self.name}.{self.cells.name}"

    @cached_property
    def values_names(self) -> tuple[str, ...]:
        """The names of the layouts of values."""
        return tuple(f"{self.name}.{state.name}" for state in self.values)

    @property
    def stored(self) -> tuple[str, ...]:
        """Names of the layouts of the view that have a table of their own."""
        return (self.name, *self.values_names)


@dataclass(frozen=True)
class ProjectedView:
    """A declared view without aggregates that transactions maintain: a filtered and projected join
    of a relation, the *fact*, with parents. It has at most one row for each row of the fact. Its
    rows are tuples of `columns`, which queries can read, and `hidden`, which they cannot, under the
    primary key of the fact: `key`.
    """

    declared: DeclaredView
    relations: tuple[str, ...]
    columns: tuple[Column, ...]
    hidden: tuple[Column, ...]
    key: tuple[KeyPart, ...]

    @property
    def name(self) -> str:
        return self.declared.name

    @property
    def stored(self) -> tuple[str, ...]:
        """Names of the layouts of the view that have a table of their own."""
        return (self.name,)


@dataclass(frozen=True)
class PlainView:
    """A name for a SELECT, which is not stored: a query that names it is planned as if its SELECT
    stood there. `sources` are the relations and views that its SELECT names."""

    declared: DeclaredView
    sources: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def name(self) -> str:
        return self.declared.name


TransactionalView = ImmediateView | ProjectedView
"""A declared view that transactions maintain."""
