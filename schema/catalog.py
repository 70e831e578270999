"""The catalog: the contents of the database at one version, and their physical tables.

There is one immutable `Catalog` per version. Writers plan against a version; a write planned on an
old version is refused and replanned. Only the catalog maps logical names to physical tables: a
store only gets `Layout.table`.

All stored data has the same shape, a `Layout`: a table whose rows are tuples of `columns`, under
the key columns `key`. Relations, join views and indexes differ only in how they are written.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from hornbeam_server.schema.comments import Comment, Key
from hornbeam_server.schema.copies import Copy
from hornbeam_server.schema.counters import Beginning, Counter, counters_of
from hornbeam_server.schema.model import (
    Column,
    ForeignKey,
    KeyPart,
    Relation,
    Schema,
    enumerations_of,
)
from hornbeam_server.schema.types import ColumnType
from hornbeam_server.schema.views import (
    DeferredView,
    Folding,
    ImmediateView,
    JoinView,
    PlainView,
    ProjectedView,
    StateLayout,
    TransactionalView,
)

RELATIONS = 1_000
"""Maximum number of relations that are cached with what is compiled for them: most changes of the
catalog leave nearly all relations as they are."""


class Purpose(enum.StrEnum):
    """The purpose of an index."""

    DECLARED = "declared"
    """The schema declares it by CREATE INDEX or UNIQUE."""
    FOREIGN_KEY = "foreign key"
    """Finds the children of a row, for RESTRICT, CASCADE, and descents in a tree."""
    FILTER = "filter"
    """Serves a filter of the workload on a base relation."""
    VIEW = "view-index"
    """Serves a filter of the workload on a view (Synergy, VI-C)."""
    MAINTENANCE = "maintenance"
    """Leads from an ancestor's key to the view rows that hold it (Synergy, VII-C)."""


class State(enum.StrEnum):
    """Life cycle of a view or index; the transitions are in `maintain/lifecycle.py`."""

    BUILDING = "building"
    CATCHING_UP = "catching up"
    READABLE = "readable"
    QUARANTINED = "quarantined"
    DROPPING = "dropping"


@dataclass(frozen=True)
class Layout:
    """The layout of one table. `key` identifies a row; the columns of `key` are in `columns`.

    Rows of a layout are tuples in the order of `columns`. `source` is the relation or view of an
    index, and the layout's own name otherwise.
    """

    name: str
    table: str
    columns: tuple[Column, ...]
    key: tuple[KeyPart, ...]
    source: str

    @cached_property
    def stored_name(self) -> str:
        """The name of a relation in the logs, which stays when the relation gets another one."""
        return self.table.partition(".")[2].rpartition(".")[0]

    @cached_property
    def positions(self) -> dict[str, int]:
        return {column.name: i for i, column in enumerate(self.columns)}

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @cached_property
    def key_positions(self) -> tuple[int, ...]:
        return tuple(self.positions[part.column] for part in self.key)


@dataclass(frozen=True, slots=True)
class IndexExpression:
    """An expression over a row of a relation that is a part of an index, and the type of its value.
    The index knows the value as `column`, which is the name of no column of the relation."""

    column: str
    sql: str
    type: ColumnType


@dataclass(frozen=True)
class Index:
    """A covered index over a relation or a view: `columns`, then the source's key, then `include`.

    `purpose` and `reason` are explanations only. A unique index has at most one entry per value of
    `columns`; unless `nulls_distinct`, NULLs are equal values, and otherwise any number of entries
    may have one. A partial index has the rows of a relation for which `where` is true.
    `expressions` are those among `columns`, over the rows of a relation.
    """

    name: str
    on: str
    columns: tuple[KeyPart, ...]
    include: tuple[str, ...] = ()
    unique: bool = False
    purpose: Purpose = Purpose.DECLARED
    reason: str = ""
    where: str = ""
    expressions: tuple[IndexExpression, ...] = ()
    nulls_distinct: bool = True

    @property
    def is_whole(self) -> bool:
        """Whether it has all rows of its source, under columns alone."""
        return not self.where and not self.expressions


@dataclass(frozen=True)
class Forest:
    """At most one parent edge per relation: the trees that locks and views follow.

    `parents` maps a relation to its tree edge. A relation without tree edge is a root (a relation
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
    """An initial load of relations that were empty when it began. It bypasses transactions and
    fills new tables that no query reads, also for the relations' views and indexes;
    `Catalog.loaded` reads these tables.

    `number` is the incarnation of these tables; `identity` identifies the input of the load.
    """

    relations: tuple[str, ...]
    identity: str
    number: int


@dataclass(frozen=True)
class Catalog:
    """One version of the catalog. `states` has all views, indexes and copies by name.

    `incarnations` gives the number in the name of a physical table: a relation, view or index that
    is dropped and created again gets a new table, so old cells never reappear. When a catalog takes
    effect, new tables get the number of the owner's claim (`txlayer/ddl/catalog_keeper.py`).
    The places of a relation's columns never change (`schema/altered.py`); a row written before a
    column was appended has fewer values (`storage/codec/rows.py`). `since` is the minimum
    timestamp of snapshots that this catalog can read: before it, another catalog was in effect.
    `method`, `budget` and `aggregates` are the options that chose its views. `beginnings` (of
    counters) have numbers like tables. `stored_as` has the stored names of relations,
    views and indexes, if they are not their own: of those that were renamed, and of those whose
    name is the stored name of another one. Tables, logs and grants of API keys have stored names.
    `copies` are relations whose rows are being written again, in a second table each
    (`txlayer/ddl/relation_copies.py`). `staged` is what the first stage of a change has added
    (`schema/stages.py`), by keys of counters, until the second stage is in force. `comments` are
    those of COMMENT ON, of objects that there are (`schema/commented.py`).
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
    beginnings: tuple[Beginning, ...] = ()
    immediate: tuple[ImmediateView, ...] = ()
    aggregates: bool = True
    projected: tuple[ProjectedView, ...] = ()
    plain: tuple[PlainView, ...] = ()
    stored_as: tuple[tuple[str, str], ...] = ()
    copies: tuple[Copy, ...] = ()
    staged: tuple[tuple[str, str], ...] = ()
    comments: tuple[Comment, ...] = ()
    part: Part | None = field(default=None, repr=False, compare=False)
    """The part that the system catalog shows to a statement under this catalog; None: all of it.
    It is not stored."""
    derived: dict[str, object] = field(
        init=False, repr=False, compare=False, hash=False, default_factory=dict
    )
    """What other layers have computed from this catalog and keep with it, by name."""
    _cache: dict[str, Layout] = field(
        init=False, repr=False, compare=False, hash=False, default_factory=dict
    )

    def __contains__(self, name: object) -> bool:
        """Is there a relation, view, index or copy of this name?"""
        return (
            name in self.schema
            or name in self.view
            or name in self.index
            or name in self.declared_view
            or name in self.copy
        )

    def stored_name(self, name: str) -> str:
        """The name of a relation, view or index in the name of its table, which stays when it gets
        another one. No two have the same."""
        return self._stored_as.get(name, name)

    @property
    def described(self) -> Catalog:
        """The catalog that the system catalog describes."""
        return self if self.part is None else self.part.catalog

    @cached_property
    def _stored_as(self) -> dict[str, str]:
        return dict(self.stored_as)

    @cached_property
    def named(self) -> dict[str, str]:
        """The names of relations and views, by their stored names."""
        names = (*self.schema.names, *self.all_views, *self.plain_view)
        return {self.stored_name(name): name for name in names}

    @cached_property
    def stored(self) -> tuple[str, ...]:
        """Names of all layouts that have a table of their own."""
        declared = (name for view in self.declared_view.values() for name in view.stored)
        return (*self.schema.names, *self.view, *self.index, *declared, *self.copy)

    @cached_property
    def begun(self) -> tuple[Beginning, ...]:
        """The beginnings of all counters, also of those without an entry."""
        return tuple(
            Beginning(c.relation, c.column, c.number, c.at, c.cell) for c in self.counters.values()
        )

    @cached_property
    def counters(self) -> dict[tuple[str, str], Counter]:
        """The counters of identity columns and sequences, by relation and column."""
        return counters_of(self.schema, self.beginnings, self.copies)

    @cached_property
    def sequences(self) -> dict[str, Counter]:
        """The counters that SQL can name, by name. A declared sequence hides an identity column's
        sequence of the same name."""
        return {each.sequence: each for each in self.counters.values() if each.sequence}

    @cached_property
    def comment(self) -> dict[Key, str]:
        """The texts of the comments, by their objects."""
        return {comment.on: comment.text for comment in self.comments}

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
    def immediate_view(self) -> dict[str, ImmediateView]:
        return {view.name: view for view in self.immediate}

    @cached_property
    def transactional_view(self) -> dict[str, TransactionalView]:
        """The declared views that transactions maintain, by name."""
        views: tuple[TransactionalView, ...] = (*self.immediate, *self.projected)
        return {view.name: view for view in views}

    @cached_property
    def declared_view(self) -> dict[str, DeferredView | TransactionalView]:
        """All views that the schema declares, and chosen aggregate views, by name."""
        return {**self.deferred_view, **self.transactional_view}

    @cached_property
    def copy(self) -> dict[str, Copy]:
        """The copies of relations, by the names of their layouts."""
        return {copy.name: copy for copy in self.copies}

    @cached_property
    def plain_view(self) -> dict[str, PlainView]:
        return {view.name: view for view in self.plain}

    @cached_property
    def all_views(self) -> tuple[str, ...]:
        """Names of the views that are stored: join views and declared views."""
        return (*self.view, *self.declared_view)

    @cached_property
    def index(self) -> dict[str, Index]:
        return {index.name: index for index in self.indexes}

    def relations_of(self, name: str) -> tuple[str, ...]:
        """The relations that view `name` reads; empty if there is no such view."""
        if name in self.view:
            return self.view[name].path
        return self.declared_view[name].relations if name in self.declared_view else ()

    def visible(self, name: str) -> tuple[Column, ...]:
        """Columns of a relation or view that queries show."""
        declared = self.declared_view.get(name)
        if declared is not None:
            return declared.columns
        return tuple(column for column in self.layout(name).columns if not column.hidden)

    def identities(self, name: str) -> tuple[Column, ...]:
        """Columns of a relation or view that queries can name, and do not show (row_identity)."""
        if name in self.declared_view:
            return ()
        columns = self.layout(name).columns
        return tuple(column for column in columns if column.hidden and not column.dropped)

    def indexes_on(self, name: str) -> tuple[Index, ...]:
        """Indexes over relation or view `name`, in any state."""
        return self._indexes_by_source.get(name, ())

    def whole_indexes_on(self, name: str) -> tuple[Index, ...]:
        """Indexes with all rows of relation or view `name` under columns alone, in any state: those
        that are not partial and have no expressions."""
        return tuple(index for index in self.indexes_on(name) if index.is_whole)

    @cached_property
    def index_expressions(self) -> dict[str, tuple[IndexExpression, ...]]:
        """The distinct expressions of readable indexes, by relation."""
        found: dict[str, dict[str, IndexExpression]] = {}
        for index in self.indexes:
            if index.expressions and self.readable(index.name):
                named = found.setdefault(index.on, {})
                named.update((each.column, each) for each in index.expressions)
        return {relation: tuple(named.values()) for relation, named in found.items()}

    @cached_property
    def _indexes_by_source(self) -> dict[str, tuple[Index, ...]]:
        by_source: dict[str, tuple[Index, ...]] = {}
        for index in self.indexes:
            by_source[index.on] = (*by_source.get(index.on, ()), index)
        return by_source

    def unique_index(self, key: ForeignKey) -> Index:
        """The UNIQUE index on the columns that `key` references, which are no primary key."""
        for index in self.whole_indexes_on(key.parent):
            columns = tuple(part.column for part in index.columns)
            if index.unique and columns == key.parent_columns:
                return index
        raise AssertionError(f"{key.name} references columns that are not UNIQUE")

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
        """The catalog after the load: the loaded relations, views and indexes are readable, in
        their new tables. Immediate views over them are to be built again."""
        if self.load is None:
            return self
        relations, made = set(self.load.relations), set(self.loading)
        views = self.transactional_view.values()
        again = {v.name for v in views if not relations.isdisjoint(v.relations)}
        again |= {index.name for index in self.indexes if index.on in again}
        numbers = dict(self.incarnations) | dict.fromkeys([*made, *again], self.load.number)
        states = dict(self.states) | dict.fromkeys(made & self.state.keys(), State.READABLE)
        states |= dict.fromkeys(again, State.BUILDING)
        return replace(
            self,
            load=None,
            incarnations=tuple(numbers.items()),
            states=tuple(states.items()),
        )

    @cached_property
    def frozen(self) -> frozenset[str]:
        """Relations that no transaction may write during a load: the loaded relations, all their
        ancestors (the load checks and joins ancestor rows), and their children (whose foreign keys
        could not be checked)."""
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
        """Must commits maintain this index or (not deferred) view?"""
        return self.state.get(name) in {State.BUILDING, State.CATCHING_UP, State.READABLE}

    def layout(self, name: str) -> Layout:
        """Layout of a relation, view, index or deferred view's state. Raises KeyError."""
        found = self._cache.get(name)
        if found is None:
            found = self._cache[name] = self._make_layout(name)
        return found

    def keep_layouts(self, layouts: Iterable[Layout]) -> None:
        """Keep the layouts of views, for a part of a catalog: their columns may come from relations
        that the part does not have."""
        self._cache.update((layout.name, layout) for layout in layouts)

    def _make_layout(self, name: str) -> Layout:
        number = dict(self.incarnations).get(name, 0)
        if name in self.schema or name in self.copy:
            copied = name in self.copy
            relation = self.copy[name].target if copied else self.schema.relation(name)
            return Layout(
                name,
                f"r.{self.stored_name(relation.name)}.{number}",
                relation.columns,
                tuple(KeyPart(column) for column in relation.primary_key),
                relation.name,
            )
        if name in self.view:
            return self._view_layout(self.view[name], number)
        if name in self.index and self.index[name].on not in self.immediate_view:
            return self._index_layout(self.index[name], number)
        return self._kept[name]

    @cached_property
    def _kept(self) -> dict[str, Layout]:
        """The layouts of declared views. A view's states have its incarnation, and are created and
        dropped with it. The rows and the cells of an immediate view are in one table."""
        numbers = dict(self.incarnations)
        made: dict[str, Layout] = {}
        for view in self.deferred:
            number = numbers.get(view.name, 0)
            rows = StateLayout("", (*view.columns, *view.hidden), view.key)
            for name, state in zip(view.stored, (rows, *view.states), strict=True):
                table = f"d.{self._stored_part(view.name, name)}.{number}"
                made[name] = Layout(name, table, state.columns, state.key, name)
        for plain in self.projected:
            table = f"p.{self.stored_name(plain.name)}.{numbers.get(plain.name, 0)}"
            columns = plain.columns
            stored = (*columns, *plain.hidden)
            made[plain.name] = Layout(plain.name, table, stored, plain.key, plain.name)
        for folded in self.immediate:
            table = f"a.{self.stored_name(folded.name)}.{numbers.get(folded.name, 0)}"
            columns = (*folded.columns, *folded.hidden)
            made[folded.name] = Layout(folded.name, table, columns, folded.key, folded.name)
            cells = folded.cells
            made[folded.cells_name] = Layout(
                folded.cells_name, table, cells.columns, cells.key, folded.name
            )
            for name, state in zip(folded.values_names, folded.values, strict=True):
                part = self._stored_part(folded.name, name)
                table = f"a.{part}.{numbers.get(folded.name, 0)}"
                made[name] = Layout(name, table, state.columns, state.key, folded.name)
            for index in self.indexes_on(folded.name):
                table = f"i.{self.stored_name(index.name)}.{numbers.get(index.name, 0)}"
                made |= _folded_index(index, folded, table, made[folded.name])
        return made

    def _stored_part(self, view: str, name: str) -> str:
        """The stored name of a layout of a view, whose name begins with that of the view."""
        return self.stored_name(view) + name.removeprefix(view)

    def _view_layout(self, view: JoinView, number: int) -> Layout:
        columns = tuple(
            _renamed(self.schema.relation(c.relation).column(c.column), c.name)
            for c in view.columns
        )
        key = self.schema.relation(view.last).primary_key
        names = view.names
        return Layout(
            view.name,
            f"v.{self.stored_name(view.name)}.{number}",
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
        computed = {each.column: Column(each.column, each.type) for each in index.expressions}
        columns = tuple(
            computed.get(column) or source.columns[source.positions[column]] for column in names
        )
        table = f"i.{self.stored_name(index.name)}.{number}"
        return Layout(index.name, table, columns, key, index.on)


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a catalog that has the relations, views and sequences `names`
    (`schema/parts.py`)."""

    names: frozenset[str]
    catalog: Catalog


@lru_cache(RELATIONS)
def alone(relation: Relation) -> Catalog:
    """A catalog of just this relation, for the expressions over its rows."""
    bare = replace(relation, foreign_keys=(), checks=())
    schema = Schema((bare,), enumerations=enumerations_of((bare,)))
    return Catalog(0, schema, Forest((relation.name,)))


def cells_of_index(index: str) -> str:
    """The name of the layout of the cells of an index on an immediate view."""
    return f"{index}.cells"


def _folded_index(index: Index, view: ImmediateView, table: str, rows: Layout) -> dict[str, Layout]:
    """The layouts of an index on an immediate view, by name. It is a second copy of the cells, in
    the order of the index's columns."""
    names = zip(rows.column_names, view.folded, strict=True)
    group = {name: f.position for name, f in names if f.folding is Folding.GROUP}
    first = [group[part.column] for part in index.columns]
    rest = [part for part in view.key if group[part.column] not in first]
    parts, columns = (*index.columns, *rest), view.cells.columns
    key = [KeyPart(columns[group[p.column]].name, p.descending) for p in parts]
    name = cells_of_index(index.name)
    return {
        index.name: Layout(index.name, table, rows.columns, parts, view.name),
        name: Layout(name, table, columns, (*key, view.cells.key[-1]), view.name),
    }


def _renamed(column: Column, name: str) -> Column:
    return replace(column, name=name)
