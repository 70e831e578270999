"""The catalog: what the database holds at one version, and where it is stored.

One immutable `Catalog` per version. Writers plan against a version; a write planned on an old
one is refused and replanned. Logical names map to physical tables here and nowhere else:
`Layout.table` is the only thing that a store is ever given.

Everything stored has the same shape, a `Layout`: a table whose rows are tuples of `columns`,
under a key made of `key`. Relations, join views and indexes differ in who writes them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from functools import cached_property

from schema.model import Column, DeclaredView, ForeignKey, KeyPart, Schema


class Purpose(enum.StrEnum):
    """Why an index exists."""

    DECLARED = "declared"
    """CREATE INDEX or UNIQUE."""
    FOREIGN_KEY = "foreign key"
    """Finds the children of a row: RESTRICT, CASCADE, and the way down a tree."""
    FILTER = "filter"
    """A workload filter on a base relation."""
    VIEW = "view-index"
    """A workload filter on a view (seed 002, VI-C)."""
    MAINTENANCE = "maintenance"
    """From an ancestor's key to the view rows that hold it (seed 002, VII-C)."""


class State(enum.StrEnum):
    """Life cycle of a view or index; the transitions are in `maintain/lifecycle.py`."""

    BUILDING = "building"
    CATCHING_UP = "catching up"
    READABLE = "readable"
    QUARANTINED = "quarantined"
    DROPPING = "dropping"


@dataclass(frozen=True)
class Layout:
    """How one stored thing looks. `key` identifies a row; the columns of `key` are in `columns`.

    Rows of a layout are tuples in the order of `columns`. `source` is the relation or view that
    an index is made from, and the name itself otherwise.
    """

    name: str
    table: str
    columns: tuple[Column, ...]
    key: tuple[KeyPart, ...]
    source: str

    @cached_property
    def positions(self) -> dict[str, int]:
        return {column.name: i for i, column in enumerate(self.columns)}

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @cached_property
    def key_positions(self) -> tuple[int, ...]:
        return tuple(self.positions[part.column] for part in self.key)


@dataclass(frozen=True)
class ViewColumn:
    """Where a view's column comes from. `name` is the bare column name where that is unique on
    the path, and `relation_column` otherwise (longer still if even that is taken)."""

    name: str
    relation: str
    column: str


@dataclass(frozen=True)
class JoinView:
    """A key/foreign-key join along a path of a rooted tree (seed 002, definition 5).

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


@dataclass(frozen=True)
class StateLayout:
    """Rows that a deferred view keeps for itself, such as the counts and sums of its groups."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[KeyPart, ...]


@dataclass(frozen=True)
class DeferredView:
    """A declared view, and how it is stored (`maintain/deltas` says so of its SELECT).

    Its rows are tuples of `columns`, which queries see, and `hidden`, which they do not.
    """

    declared: DeclaredView
    relations: tuple[str, ...]
    columns: tuple[Column, ...]
    hidden: tuple[Column, ...]
    key: tuple[KeyPart, ...]
    states: tuple[StateLayout, ...]

    @property
    def name(self) -> str:
        return self.declared.name

    @cached_property
    def stored(self) -> tuple[str, ...]:
        """Names of all its layouts: its own rows first, then what it keeps for itself."""
        return (self.name, *(f"{self.name}.{state.name}" for state in self.states))


@dataclass(frozen=True)
class Index:
    """A covered index over a relation or a view: `columns`, then the source's key, then `include`.

    `purposes` and `reason` are for people. A unique index holds at most one entry per `columns`
    value without NULLs.
    """

    name: str
    on: str
    columns: tuple[KeyPart, ...]
    include: tuple[str, ...] = ()
    unique: bool = False
    purpose: Purpose = Purpose.DECLARED
    reason: str = ""


@dataclass(frozen=True)
class Forest:
    """At most one parent edge per relation: the trees that locks and views follow.

    `parents` maps a relation to its tree edge. A relation without one is a root (a relation
    outside every tree is its own root).
    """

    roots: tuple[str, ...]
    parents: tuple[tuple[str, ForeignKey], ...] = ()

    @cached_property
    def parent(self) -> dict[str, ForeignKey]:
        return dict(self.parents)

    def path(self, relation: str) -> tuple[str, ...]:
        """Relations from the root down to `relation`, both included."""
        steps = [relation]
        while (edge := self.parent.get(steps[-1])) is not None:
            steps.append(edge.parent)
        return tuple(reversed(steps))

    def root(self, relation: str) -> str:
        return self.path(relation)[0]


@dataclass(frozen=True)
class WorkloadStatement:
    """A statement of the application; `weight` is its relative frequency."""

    name: str
    sql: str
    weight: float = 1.0


@dataclass(frozen=True)
class Load:
    """Relations that were empty when their load began, and are filled beside the transactions in
    tables that nobody reads, with all that is made of them; `Catalog.loaded` reads those.

    `number` is the incarnation of these tables; `identity` tells what is loaded.
    """

    relations: tuple[str, ...]
    identity: str
    number: int


@dataclass(frozen=True)
class Catalog:
    """One version of everything. `states` covers views (deferred ones too) and indexes by name.

    `incarnations` gives the number that goes into a thing's physical table name: a thing that is
    dropped and made again gets a new table, so old cells never shine through. When a catalog is
    put into force, what is new gets the number of the owner's claim (`txlayer/catalog_keeper.py`).
    Columns are only ever appended to a relation; a row written before has fewer values, and the
    missing ones read as the column's default (`storage/codec/rows.py`). `since` is the timestamp
    from which on snapshots can be read by it: another catalog was in force before. `method` and
    `budget`: how its views were chosen.
    """

    version: int
    schema: Schema
    forest: Forest
    views: tuple[JoinView, ...] = ()
    indexes: tuple[Index, ...] = ()
    states: tuple[tuple[str, State], ...] = ()
    incarnations: tuple[tuple[str, int], ...] = ()
    workload: tuple[WorkloadStatement, ...] = ()
    row_counts: tuple[tuple[str, int], ...] = ()
    since: int = 0
    deferred: tuple[DeferredView, ...] = ()
    load: Load | None = None
    method: str = "optimal"
    budget: float | None = None
    _cache: dict[str, Layout] = field(
        init=False, repr=False, compare=False, hash=False, default_factory=dict
    )

    def __contains__(self, name: object) -> bool:
        """Is there a relation, view or index of this name?"""
        return (
            name in self.schema
            or name in self.view
            or name in self.index
            or name in self.deferred_view
        )

    @cached_property
    def stored(self) -> tuple[str, ...]:
        """Names of all layouts, each of which has a table of its own."""
        kept = (name for view in self.deferred for name in view.stored)
        return (*self.schema.names, *self.view, *self.index, *kept)

    @cached_property
    def state(self) -> dict[str, State]:
        return dict(self.states)

    @cached_property
    def row_count(self) -> dict[str, int]:
        """Estimated rows per relation or view; missing means unknown."""
        return dict(self.row_counts)

    @cached_property
    def view(self) -> dict[str, JoinView]:
        return {view.name: view for view in self.views}

    @cached_property
    def deferred_view(self) -> dict[str, DeferredView]:
        return {view.name: view for view in self.deferred}

    @cached_property
    def index(self) -> dict[str, Index]:
        return {index.name: index for index in self.indexes}

    def relations_of(self, name: str) -> tuple[str, ...]:
        """The relations that view `name` is made of; none if there is no such view."""
        if name in self.view:
            return self.view[name].path
        return self.deferred_view[name].relations if name in self.deferred_view else ()

    def visible(self, name: str) -> tuple[Column, ...]:
        """Columns of a relation or view that queries see, in order; the first of its layout."""
        deferred = self.deferred_view.get(name)
        return deferred.columns if deferred is not None else self.layout(name).columns

    def indexes_on(self, name: str) -> tuple[Index, ...]:
        """Indexes over relation or view `name`, in any state."""
        return self._indexes_by_source.get(name, ())

    @cached_property
    def _indexes_by_source(self) -> dict[str, tuple[Index, ...]]:
        by_source: dict[str, tuple[Index, ...]] = {}
        for index in self.indexes:
            by_source[index.on] = (*by_source.get(index.on, ()), index)
        return by_source

    @cached_property
    def loading(self) -> tuple[str, ...]:
        """The relations that are being loaded, their views, and the indexes on both."""
        if self.load is None:
            return ()
        relations = set(self.load.relations)
        views = [view.name for view in self.views if not relations.isdisjoint(view.path)]
        sources = (*self.load.relations, *views)
        indexes = (index.name for source in sources for index in self.indexes_on(source))
        return (*sources, *indexes)

    @cached_property
    def loaded(self) -> Catalog:
        """As it is once the load is over: what is being loaded is readable, in its new tables."""
        if self.load is None:
            return self
        numbers = dict(self.incarnations) | dict.fromkeys(self.loading, self.load.number)
        names = set(self.loading)
        states = ((name, State.READABLE if name in names else was) for name, was in self.states)
        return replace(self, load=None, incarnations=tuple(numbers.items()), states=tuple(states))

    @cached_property
    def frozen(self) -> frozenset[str]:
        """Relations that no transaction may write while a load is under way: those that are loaded,
        whatever they reference (its rows are checked and joined), and what references them (it
        could not tell which of them are there)."""
        if self.load is None:
            return frozenset()
        found, below = set(self.load.relations), list(self.load.relations)
        while below:
            above = {key.parent for key in self.schema.relation(below.pop()).foreign_keys} - found
            found |= above
            below += above
        children = {c.name for name in self.load.relations for c, _ in self.schema.children(name)}
        return frozenset(found | children)

    def readable(self, name: str) -> bool:
        """May a query use this view or index?"""
        return self.state.get(name) is State.READABLE

    def maintained(self, name: str) -> bool:
        """Must a commit keep this (not deferred) view or index up to date?"""
        return self.state.get(name) in {State.BUILDING, State.CATCHING_UP, State.READABLE}

    def layout(self, name: str) -> Layout:
        """Layout of a relation, view, index or deferred view's state. Raises KeyError."""
        found = self._cache.get(name)
        if found is None:
            found = self._cache[name] = self._make_layout(name)
        return found

    def _make_layout(self, name: str) -> Layout:
        number = dict(self.incarnations).get(name, 0)
        if name in self.schema:
            relation = self.schema.relation(name)
            return Layout(
                name,
                f"r.{name}.{number}",
                relation.columns,
                tuple(KeyPart(column) for column in relation.primary_key),
                name,
            )
        if name in self.view:
            return self._view_layout(self.view[name], number)
        if name in self.index:
            return self._index_layout(self.index[name], number)
        return self._kept[name]

    @cached_property
    def _kept(self) -> dict[str, Layout]:
        """Of deferred views; a view's states live and die with it, and bear its number."""
        numbers = dict(self.incarnations)
        made: dict[str, Layout] = {}
        for view in self.deferred:
            number = numbers.get(view.name, 0)
            rows = StateLayout("", (*view.columns, *view.hidden), view.key)
            for name, state in zip(view.stored, (rows, *view.states), strict=True):
                table = f"d.{name}.{number}"
                made[name] = Layout(name, table, state.columns, state.key, name)
        return made

    def _view_layout(self, view: JoinView, number: int) -> Layout:
        columns = tuple(
            _renamed(self.schema.relation(c.relation).column(c.column), c.name)
            for c in view.columns
        )
        key = self.schema.relation(view.last).primary_key
        names = view.names
        return Layout(
            view.name,
            f"v.{view.name}.{number}",
            columns,
            tuple(KeyPart(names[view.last, column]) for column in key),
            view.name,
        )

    def _index_layout(self, index: Index, number: int) -> Layout:
        source = self.layout(index.on)
        named = {part.column for part in index.columns}
        suffix = tuple(part for part in source.key if part.column not in named)
        key = (*index.columns, *suffix)
        in_key = {part.column for part in key}
        names = [part.column for part in key]
        names += [column for column in index.include if column not in in_key]
        columns = tuple(source.columns[source.positions[column]] for column in names)
        return Layout(index.name, f"i.{index.name}.{number}", columns, key, index.on)


def _renamed(column: Column, name: str) -> Column:
    return Column(name, column.type, column.nullable, column.default)
