"""Immediate views: what transactions add, folded, is the answer of DuckDB, over generated schemas,
stars and transactions."""

import asyncio
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from maintain_world import World, catalog, index
from test_maintain_law import Transaction, changed_rows, draw_schema

from hornbeam_server.maintain.immediate.build import base_cells
from hornbeam_server.maintain.immediate.definition import define
from hornbeam_server.maintain.immediate.program import program_of
from hornbeam_server.maintain.paths import BaseRows
from hornbeam_server.schema.model import DeclaredView, Refresh
from hornbeam_server.storage.codec.folds import BASE_LANE, Fold, added
from hornbeam_server.storage.codec.rows import LayoutCodec
from hornbeam_server.storage.ports import TOMBSTONE

AGGREGATES = ["count(*)", "count({})", "sum({})", "avg({})", "sum({} * {})", "sum({} + 1)"]
CONDITIONS = ["{} > 0", "{} IS NULL OR {} <> 1", "{} = {}"]


def draw_star(random, schema):
    """Draw a SELECT over a star: a relation, parents along its foreign keys at any depth, filters,
    grouping columns and aggregates. The last relations have most parents."""
    fact = random.choice(schema.relations[-2:])
    joined, joins, outer = [("a0", fact)], [], False
    for _ in range(random.choice([0, 1, 1, 2, 3])):
        child, relation = random.choice(joined)
        if not relation.foreign_keys:
            continue
        edge = random.choice(relation.foreign_keys)
        alias, parent = f"a{len(joined)}", schema.relation(edge.parent)
        on = " AND ".join(
            f"{child}.{a} = {alias}.{b}"
            for a, b in zip(edge.columns, edge.parent_columns, strict=True)
        )
        outer = outer or random.random() < 0.2
        joins.append(f" {'LEFT ' * outer}JOIN {parent.name} {alias} ON {on}")
        joined.append((alias, parent))

    def column():
        alias, relation = random.choice(joined)
        return f"{alias}.{random.choice(relation.columns).name}"

    groups = list(dict.fromkeys(column() for _ in range(random.choice([0, 1, 1, 2]))))
    shown = random.sample(groups, random.randint(0, len(groups)))
    aggregates = [
        f"{random.choice(AGGREGATES).format(column(), column())} AS x{i}"
        for i in range(random.randint(1, 3))
    ]
    outputs = [*(f"{name} AS g{i}" for i, name in enumerate(shown)), *aggregates]
    sql = f"SELECT {', '.join(outputs)} FROM {fact.name} a0{''.join(joins)}"
    if random.random() < 0.4:
        sql += f" WHERE {random.choice(CONDITIONS).format(column(), column())}"
    return sql + (f" GROUP BY {', '.join(groups)}" if groups else "")


class Kept:
    """The cells of a view, kept by additions, or built and then kept."""

    def __init__(self, world, sql, name="star"):
        declared = DeclaredView(name, sql, refresh=Refresh.IMMEDIATE)
        self.world = world
        self.definition = define(declared, world.catalog)
        self.program = program_of(self.definition, world.catalog)
        view = self.definition.view
        self.fold = Fold(view)
        self.width = len(view.cells.key) - 1
        self.cells = {}

    async def add(self, changes, lane):
        by_relation = {}
        for change in changes:
            key = self.world.key(change.relation, change.new or change.old)
            by_relation.setdefault(change.relation, {})[key] = change
        joined = await self.program.joined(BaseRows(self.world, by_relation))
        for addition in joined.additions():
            key = (self.program.group_key(addition.group), lane)
            row = self.cells.get(key)
            amounts = addition.amounts
            if row is not None:
                amounts = added([row[self.width + 1 :], amounts])
            self.cells[key] = (*addition.group, lane, *amounts)

    def check(self):
        groups = {}
        for (group, _), row in self.cells.items():
            groups.setdefault(group, []).append(row)
        rows = [row for cells in groups.values() if (row := self.fold.row(cells)) is not None]
        if not groups and (row := self.fold.row([])) is not None:
            rows = [row]
        visible = len(self.definition.view.columns)
        expected = self.world.duck.execute(self.definition.sql).fetchall()
        assert Counter(repr(row[:visible]) for row in rows) == Counter(map(repr, expected))


@settings(max_examples=150)
@given(st.randoms(use_true_random=True))
def test_additions_equal_the_answer_of_duckdb(random):
    schema = draw_schema(random)
    indexes = [
        index(relation.name, " ".join(edge.columns))
        for relation in schema.relations
        for edge in relation.foreign_keys
        if random.random() < 0.5
    ]
    indexes = [type(i)(f"i{n}", i.on, i.columns) for n, i in enumerate(indexes)]
    world = World(catalog(schema, (), indexes))
    views = [Kept(world, draw_star(random, schema), f"star{i}") for i in range(2)]
    for number in range(8):
        rows = changed_rows(world, Transaction(world, random).run())
        changes = world.changes(rows)
        for view in views:
            asyncio.run(view.add(changes, lane=1 + number % 3))
        world.commit(rows)
        for view in views:
            view.check()


class Building(World):
    """A world whose cells are readable, for builds."""

    def __init__(self, catalog, kept):
        super().__init__(catalog)
        self.kept_view = kept

    async def scan(self, layout, *arguments, **options):
        if layout == self.kept_view.program.cells:
            yield list(self.kept_view.cells.values())
            return
        async for rows in super().scan(layout, *arguments, **options):
            yield rows


@settings(max_examples=80)
@given(st.randoms(use_true_random=True), st.sampled_from([1, 2, 1_000]))
def test_a_base_lane_completes_the_additions_since(random, most):
    schema = draw_schema(random)
    world = World(catalog(schema))
    view = Kept(world, draw_star(random, schema))
    for _ in range(4):
        world.commit(changed_rows(world, Transaction(world, random).run()))
    for _ in range(random.randint(1, 2)):
        rows = changed_rows(world, Transaction(world, random).run())
        asyncio.run(view.add(world.changes(rows), lane=1))
        world.commit(rows)
        build(world, view, most)
        view.check()


def build(world, view, most):
    definition = view.definition.view
    codec = LayoutCodec(_layout(definition))
    reading = Building(world.catalog, view)
    reading.rows = world.rows

    def codecs(name):
        return codec if name == definition.cells_name else world.codecs(name)

    async def run():
        async for puts in base_cells(view.program, codecs, reading, most):
            for put in puts:
                *_, lane = codec.decode_key(put.key)
                assert lane == BASE_LANE
                key = (view.fold.group_key(put.key), BASE_LANE)
                view.cells.pop(key, None)
                if put.value != TOMBSTONE:
                    view.cells[key] = codec.decode(put.value)

    asyncio.run(run())


def _layout(view):
    from hornbeam_server.schema.catalog import Layout

    return Layout(view.cells_name, "", view.cells.columns, view.cells.key, view.name)
