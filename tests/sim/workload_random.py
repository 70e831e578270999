"""Random schemas and transactions, and views that come and go under them.

The seed draws two to four relations (trees and DAGs, composite keys, foreign keys in keys and to
UNIQUE columns, nullable foreign keys with every ON DELETE and ON UPDATE, self-references, UNIQUE),
the forest, views and view-indexes.
Clients insert, update (keys and foreign keys as well) and delete rows that have few different
values, so that they conflict; they add and drop views and indexes while others write, and builds
run during faults.

Readers check at every snapshot: each view is the join of the base rows, whether it is stored or
not. At the end every wanted view is built, and neither `verify` nor the reference implementation
finds a difference. Where writes find rows by key alone, acknowledged transactions have the effects
that they have on a model, one after another in the order of their timestamps.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from hornbeam_server.maintain.recompute import recompute
from hornbeam_server.node.database import Database
from hornbeam_server.schema.catalog import Catalog, Forest
from hornbeam_server.schema.errors import ConstraintViolation
from hornbeam_server.schema.model import (
    Action,
    Column,
    DeclaredIndex,
    Default,
    DefaultKind,
    ForeignKey,
    KeyPart,
    Relation,
    Schema,
)
from hornbeam_server.schema.types import ColumnType, Kind, Row, Value
from hornbeam_server.schema.views import JoinView
from tests.sim.builds import require_built
from tests.sim.interactive import next_key
from tests.sim.simulation import Client, Journal
from tests.txlayer.database_world import all_paths, catalog_of, join_view
from tests.txlayer.transactions_model import Delete, Insert, Operation, State, Update, apply

TYPES = (
    ColumnType(Kind.INTEGER),
    ColumnType(Kind.DECIMAL, 9, 2),
    ColumnType(Kind.TEXT),
    ColumnType(Kind.TIMESTAMP),
)
FEW = {
    Kind.INTEGER: (-1, 0, 1, 2, 3),
    Kind.DECIMAL: tuple(Decimal(text) for text in ("-0.01", "0.00", "1.50", "2.00", "20.00")),
    Kind.TEXT: ("", "a", "A", "b%", "é"),
    Kind.TIMESTAMP: tuple(
        dt.datetime(2024, 2, 28, 23, 59, 59, n) for n in (0, 1, 2, 500_000, 999_999)
    ),
}


class Random:
    oracle = False
    """The log does not contain the rows that builds write."""

    def __init__(self, rng: random.Random) -> None:
        self.views: list[JoinView] = []
        while not self.views:
            self.schema = _draw_schema(rng)
            self.forest = _draw_forest(rng, self.schema)
            paths = all_paths(self.schema, self.forest)
            self.views = [join_view(self.schema, self.forest, path) for path in paths]
        self.by_key = rng.random() < 0.5
        self.change_rate = rng.choice([0.0, 0.01, 0.03])
        self._first = _Wanted.draw(rng, self.schema, self.views)
        self._asked: dict[str, tuple[Operation, ...]] = {}

    def catalog(self) -> Catalog:
        return self._first.catalog(self, None)

    async def set_up(self, database: Database) -> None:
        """Transactions insert all rows."""

    # ------------------------------------------------------------ transactions

    async def step(self, client: Client) -> None:
        chance = client.random.random()
        if chance < self.change_rate:
            await self._change(client)
        elif chance < 0.25:
            await self._read(client)
        else:
            await self._write(client)

    async def _write(self, client: Client) -> None:
        operations = tuple(
            self._operation(client.random) for _ in range(client.random.choice([1, 1, 1, 2, 3]))
        )
        self._asked[next_key(client)] = operations
        try:
            await client.transact(*(operation.sql(self.schema) for operation in operations))
        except ConstraintViolation as error:
            client.journal.counts[type(error).__name__] += 1

    def _operation(self, rng: random.Random) -> Operation:
        relation = rng.choice(self.schema.relations)
        kind = rng.choices(["insert", "update", "delete"], [40, 35, 25])[0]
        if kind == "insert":
            return Insert(relation.name, tuple(_value(rng, c) for c in relation.columns))
        key = [relation.column(name) for name in relation.primary_key]
        if not self.by_key and rng.random() < 0.4:
            key = rng.sample(relation.columns, rng.randint(1, min(2, len(relation.columns))))
        where = tuple((c.name, _value(rng, replace(c, nullable=False))) for c in key)
        if kind == "delete":
            return Delete(relation.name, where)
        changed = rng.sample(relation.columns, rng.randint(1, min(3, len(relation.columns))))
        return Update(relation.name, tuple((c.name, _value(rng, c)) for c in changed), where)

    # ------------------------------------------------------------ schema changes

    async def _change(self, client: Client) -> None:
        rng = random.Random(client.random.random())

        async def work(database: Database) -> None:
            async def other(current: Catalog) -> Catalog:
                wanted = _Wanted.of(current, self.views).changed(rng, self.schema, self.views)
                return wanted.catalog(self, current)

            await database.keeper.change(other)

        await client.change(client._cluster.ask_leader(work))

    # ------------------------------------------------------------ invariants

    async def _read(self, client: Client) -> None:
        view = client.random.choice(self.views)
        column = client.random.choice(view.columns)
        value = client.random.choice(FEW[self._type(column.relation, column.column).kind])
        joined = _join_of(view)
        found = await client.read(
            *(_all_of(self.schema.relation(name)) for name in view.path),
            joined,
            (f"{joined} AND {column.relation}.{column.column} = ?", (value,)),
        )
        if found is None:
            return
        *base, shown, selected = found
        rows = dict(zip(view.path, base, strict=True))
        expected = self._recomputed(view, rows)
        assert Counter(shown) == Counter(expected), f"{view.name} is not the join"
        position = view.columns.index(column)
        matching = [row for row in expected if row[position] == value]
        assert Counter(selected) == Counter(matching), f"{view.name} where {column} = {value!r}"

    def _type(self, relation: str, column: str) -> ColumnType:
        return self.schema.relation(relation).column(column).type

    def _recomputed(self, view: JoinView, rows: State) -> list[Row]:
        every = {name: rows.get(name, []) for name in self.schema.names}
        return recompute(Catalog(1, self.schema, self.forest, (view,)), every, view.name)

    async def check(self, database: Database, journal: Journal) -> None:
        await require_built(database)
        if self.by_key:
            await self._check_model(database, journal)

    async def _check_model(self, database: Database, journal: Journal) -> None:
        """Apply each acknowledged transaction to the model; the rows must agree. Raises Refused
        when the model refuses one."""
        state: State = {name: [] for name in self.schema.names}
        answers = sorted(journal.acknowledged.items(), key=lambda item: item[1].commit_ts)
        for key, _ in answers:
            state = apply(self.schema, state, self._asked[key])
        for relation in self.schema.relations:
            stored = await database.fetch(_all_of(relation))
            assert Counter(stored) == Counter(state[relation.name]), relation.name


# ---- random values and schemas


def _value(rng: random.Random, column: Column) -> Value:
    if column.nullable and rng.random() < 0.3:
        return None
    return rng.choice(FEW[column.type.kind])


def _draw_forest(rng: random.Random, schema: Schema) -> Forest:
    parents: dict[str, ForeignKey] = {}
    for relation in schema.relations:
        edges = [fk for fk in relation.key_edges if fk.parent != relation.name]
        if edges and rng.random() < 0.8:
            parents[relation.name] = rng.choice(edges)
    roots = tuple(name for name in schema.names if name not in parents)
    return Forest(roots, tuple(parents.items()))


def _draw_schema(rng: random.Random) -> Schema:
    """Two to four relations, parents before children; names are unique in the whole schema."""
    relations: list[Relation] = []
    for number in range(rng.randint(2, 4)):
        drawn = _Drawn(rng, f"r{number}")
        for _ in range(rng.choice([0, 1, 1, 1, 2]) if relations else 0):
            drawn.reference(rng.choice(relations))
        drawn.own_columns()
        relations.append(drawn.relation())
    indexes = [index for relation in relations for index in _draw_indexes(rng, relation)]
    keys = {
        (key.parent, key.parent_columns)
        for r in relations
        for key in r.foreign_keys
        if key.to_unique
    }
    for number, (name, columns) in enumerate(sorted(keys)):
        parts = tuple(map(KeyPart, columns))
        indexes.append(DeclaredIndex(f"{name}_referenced{number}", name, parts, unique=True))
    return Schema(tuple(relations), tuple(indexes))


class _Drawn:
    """Collects columns, key and foreign keys of one relation."""

    def __init__(self, rng: random.Random, name: str) -> None:
        self.rng, self.name = rng, name
        self.columns: list[Column] = []
        self.key: list[str] = []
        self.foreign_keys: list[ForeignKey] = []

    def reference(self, parent: Relation) -> None:
        """Add a foreign key to `parent`, in one case of three as part of the key, and in one case
        of three to columns that this makes UNIQUE."""
        in_key = self.rng.random() < 1 / 3
        nullable = not in_key and self.rng.random() < 0.5
        columns = parent.primary_key
        if self.rng.random() < 1 / 3:
            most = min(2, len(parent.columns))
            columns = tuple(self.rng.sample(parent.column_names, self.rng.randint(1, most)))
        to_unique = set(columns) != set(parent.primary_key)
        columns = columns if to_unique else parent.primary_key
        referenced = [parent.column(name) for name in columns]
        names = self._reference(parent.name, referenced, nullable, to_unique)
        if in_key:
            self.key += names

    def _reference(
        self, parent: str, referenced: Sequence[Column], nullable: bool, to_unique: bool = False
    ) -> tuple[str, ...]:
        prefix = f"{self.name}_f{len(self.foreign_keys)}"
        names = tuple(f"{prefix}_{column.name}" for column in referenced)
        has_default = self.rng.random() < 0.5
        for name, column in zip(names, referenced, strict=True):
            value = Default(DefaultKind.LITERAL, self.rng.choice(FEW[column.type.kind]))
            self.columns.append(Column(name, column.type, nullable, value if has_default else None))
        lacking = set() if nullable else {Action.SET_NULL}
        lacking |= set() if nullable or has_default else {Action.SET_DEFAULT}
        how = [self.rng.choice([each for each in Action if each not in lacking]) for _ in range(2)]
        parent_key = tuple(column.name for column in referenced)
        self.foreign_keys.append(
            ForeignKey(f"{prefix}_fkey", names, parent, parent_key, *how, to_unique)
        )
        return names

    def own_columns(self) -> None:
        for number in range(self.rng.randint(0 if self.key else 1, 2)):
            name = f"{self.name}_k{number}"
            self.columns.append(Column(name, self.rng.choice(TYPES), False))
            self.key.append(name)
        if self.rng.random() < 0.2:
            by_name = {column.name: column for column in self.columns}
            self._reference(self.name, [by_name[name] for name in self.key], nullable=True)
        for number in range(self.rng.randint(1, 2)):
            type_, nullable = self.rng.choice(TYPES), self.rng.random() < 0.5
            self.columns.append(Column(f"{self.name}_v{number}", type_, nullable))

    def relation(self) -> Relation:
        columns = tuple(self.rng.sample(self.columns, len(self.columns)))
        return Relation(self.name, columns, tuple(self.key), tuple(self.foreign_keys))


def _draw_indexes(rng: random.Random, relation: Relation) -> list[DeclaredIndex]:
    found = []
    for unique, chance in ((True, 0.4), (False, 0.4)):
        if rng.random() < chance:
            names = rng.sample(relation.column_names, rng.randint(1, 2))
            parts = tuple(KeyPart(name, rng.random() < 0.5) for name in names)
            name = f"{relation.name}_{'u' if unique else 'i'}"
            found.append(DeclaredIndex(name, relation.name, parts, (), unique))
    return found


@dataclass(frozen=True)
class _Wanted:
    """The optional views and indexes of one version of the catalog."""

    paths: frozenset[tuple[str, ...]] = frozenset()
    view_indexes: frozenset[tuple[str, str]] = frozenset()
    plain: frozenset[str] = field(default=frozenset())
    """The names of declared indexes that are not UNIQUE."""

    @classmethod
    def draw(cls, rng: random.Random, schema: Schema, views: Sequence[JoinView]) -> _Wanted:
        wanted = cls()
        for _ in range(rng.randint(0, 4)):
            wanted = wanted.changed(rng, schema, views)
        return wanted

    @classmethod
    def of(cls, catalog: Catalog, views: Sequence[JoinView]) -> _Wanted:
        """The optional views and indexes that a catalog has."""
        indexed = {
            (view.name, column.name)
            for view in views
            for column in view.columns
            if f"{view.name}.by.{column.name}" in catalog.index
        }
        plain = {index.name for index in catalog.schema.indexes if not index.unique}
        paths = {view.path for view in catalog.views}
        return cls(frozenset(paths), frozenset(indexed), frozenset(plain))

    def changed(self, rng: random.Random, schema: Schema, views: Sequence[JoinView]) -> _Wanted:
        """Add or remove one view or index. The indexes of a removed view go with it."""
        things: list[tuple[str, Any]] = [("paths", view.path) for view in views]
        there = [view for view in views if view.path in self.paths]
        things += [
            ("view_indexes", (view.name, rng.choice(view.columns).name))
            for view in there
            for _ in range(2)
        ]
        things += [("view_indexes", pair) for pair in sorted(self.view_indexes)]
        things += [("plain", index.name) for index in schema.indexes if not index.unique]
        if not things:
            return self
        what, thing = rng.choice(things)
        after = replace(self, **{what: getattr(self, what) ^ {thing}})
        names = {view.name for view in views if view.path in after.paths}
        kept = {pair for pair in after.view_indexes if pair[0] in names}
        return replace(after, view_indexes=frozenset(kept))

    def catalog(self, world: Random, base: Catalog | None) -> Catalog:
        indexes = [i for i in world.schema.indexes if i.unique or i.name in self.plain]
        made = catalog_of(
            replace(world.schema, indexes=tuple(indexes)),
            forest=world.forest,
            views=[view.path for view in world.views if view.path in self.paths],
            view_indexes=sorted(self.view_indexes),
            base=base,
        )
        return made if base is None else _incarnated(made, base)


def _incarnated(made: Catalog, base: Catalog) -> Catalog:
    """Give a new table to everything that comes back after it was dropped."""
    numbers = dict(base.incarnations)
    for name, _ in made.states:
        if name not in base.state:
            numbers[name] = numbers.get(name, -1) + 1
    for name, _ in base.states:
        numbers.setdefault(name, 0)
    return replace(made, incarnations=tuple(numbers.items()), row_counts=base.row_counts)


def _all_of(relation: Relation) -> str:
    return f"SELECT {', '.join(relation.column_names)} FROM {relation.name}"


def _join_of(view: JoinView) -> str:
    columns = ", ".join(f"{c.relation}.{c.column}" for c in view.columns)
    conditions = [
        f"{edge.parent}.{parent} = {child}.{column}"
        for child, edge in zip(view.path[1:], view.edges, strict=True)
        for parent, column in zip(edge.parent_columns, edge.columns, strict=True)
    ]
    return f"SELECT {columns} FROM {', '.join(view.path)} WHERE {' AND '.join(conditions)}"
