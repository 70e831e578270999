"""Immediate views: what transactions add, folded, is the answer of DuckDB, over generated schemas,
stars and transactions."""

import asyncio
from collections import Counter
from dataclasses import replace

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam_server.maintain.immediate.build import base_cells
from hornbeam_server.maintain.immediate.definition import define
from hornbeam_server.maintain.immediate.program import program_of
from hornbeam_server.maintain.immediate.projected import (
    ProjectedDefinition,
    define_any,
    projected_program,
)
from hornbeam_server.maintain.immediate.reading import compiled
from hornbeam_server.maintain.immediate.view_indexes import view_index
from hornbeam_server.maintain.paths import BaseRows
from hornbeam_server.schema.catalog import Layout, State
from hornbeam_server.schema.errors import SqlError
from hornbeam_server.schema.model import DeclaredIndex, DeclaredView, KeyPart, Refresh
from hornbeam_server.schema.views import Folding
from hornbeam_server.storage.codec.folds import Fold, added
from hornbeam_server.storage.codec.rows import LayoutCodec
from hornbeam_server.storage.folded import FoldedReads
from hornbeam_server.storage.ports import TOMBSTONE, Cell, Put
from tests.depth import depth
from tests.maintain.maintain_world import EVERYTHING, World, catalog, index
from tests.maintain.test_maintain_law import Transaction, changed_rows, draw_schema

AGGREGATES = [
    *("count(*)", "count({})", "sum({})", "avg({})", "sum({} * {})", "sum({} + 1)"),
    *(
        "min({})",
        "max({})",
        "min({} + {})",
        "count(DISTINCT {})",
        "count(*) FILTER (WHERE {} > {})",
    ),
]
COMPUTED = [
    *("sum({}) / count(*)", "count(*) * 2 - count({})", "coalesce(max({}), 0) + min({})"),
    "sum({}) * 1.00 / count(*) * (1 / 3.0)",
    *("round(avg({}), 1)", "CASE WHEN count(*) > 1 THEN sum({}) END", "count({}) // count({})"),
]
HAVINGS = ["count(*) > 1", "sum({}) > 1 OR min({}) IS NULL", "count(DISTINCT {}) < count(*)"]
CONDITIONS = ["{} > 0", "{} IS NULL OR {} <> 1", "{} = {}"]


def draw_star(random, schema, plain=False):
    """Draw a SELECT over a star: a relation, parents along its foreign keys at any depth, filters,
    grouping columns and aggregates, or (`plain`) columns and perhaps DISTINCT. The last relations
    have most parents."""
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

    where = ""
    if random.random() < 0.4:
        where = f" WHERE {random.choice(CONDITIONS).format(column(), column())}"
    origin = f" FROM {fact.name} a0{''.join(joins)}{where}"
    if plain:
        values = ["{}", "{}", "{} + 1", "coalesce({}, {})"]
        shown = [
            f"{random.choice(values).format(column(), column())} AS p{i}"
            for i in range(random.randint(1, 4))
        ]
        return f"SELECT {'DISTINCT ' * (random.random() < 0.3)}{', '.join(shown)}{origin}"
    groups = list(dict.fromkeys(column() for _ in range(random.choice([0, 1, 1, 2]))))
    shown = random.sample(groups, random.randint(0, len(groups)))
    calls = AGGREGATES + random.choice([[], COMPUTED])
    aggregates = [
        f"{random.choice(calls).format(column(), column())} AS x{i}"
        for i in range(random.randint(1, 3))
    ]
    outputs = [*(f"{name} AS g{i}" for i, name in enumerate(shown)), *aggregates]
    sql = f"SELECT {', '.join(outputs)}{origin}"
    sql += f" GROUP BY {', '.join(groups)}" if groups else ""
    if random.random() < 0.3:
        sql += f" HAVING {random.choice(HAVINGS).format(column(), column())}"
    return sql


class Store:
    """Cells by table and key, in the way of a table store; all were written at timestamp 1."""

    def __init__(self):
        self.tables = {}

    def put(self, table, puts):
        rows = self.tables.setdefault(table, {})
        for put in puts:
            rows.pop(put.key, None)
            if put.value != TOMBSTONE:
                rows[put.key] = put.value

    def _cells(self, table):
        return [Cell(key, 1, value) for key, value in sorted(self.tables.get(table, {}).items())]

    async def scan_prefixes(self, table, prefixes, at, *, room=None):
        cells = self._cells(table)
        return [[cell for cell in cells if cell.key.startswith(prefix)] for prefix in prefixes]

    async def scan(self, table, start, end, at, *, reverse=False, limit=None):
        cells = [c for c in self._cells(table) if start <= c.key and (end is None or c.key < end)]
        cells = cells[::-1][:limit] if reverse else cells[:limit]
        for i in range(0, len(cells), 3):
            yield cells[i : i + 3]


class Kept:
    """The cells of a view, kept by additions, or built and then kept."""

    def __init__(self, world, sql, name="star"):
        declared = DeclaredView(name, sql, refresh=Refresh.IMMEDIATE)
        self.world = world
        self.definition = define(declared, world.catalog)
        self.program = program_of(self.definition, world.catalog)
        view = self.definition.view
        self.fold = Fold(view, None if view.computed is None else compiled(view))
        self.store = Store()
        states = zip((view.cells_name, *view.values_names), (view.cells, *view.values), strict=True)
        layouts = [Layout(n, f"t.{n}", s.columns, s.key, view.name) for n, s in states]
        columns = (*view.columns, *view.hidden)
        layouts.append(Layout(view.name, layouts[0].table, columns, view.key, view.name))
        self.codecs = {layout.name: LayoutCodec(layout) for layout in layouts}
        self.index = None

    def add_index(self, random):
        """An index on some grouping columns in some order, if any are selected."""
        view = self.definition.view
        columns = {f.position: c.name for c, f in zip(view.columns, view.folded, strict=False)
                   if f.folding is Folding.GROUP}  # fmt: skip
        if not columns or not view.grouped:
            return
        chosen = random.sample(list(columns.values()), random.randint(1, len(columns)))
        parts = tuple(KeyPart(name, random.random() < 0.5) for name in chosen)
        index = view_index(DeclaredIndex("i", view.name, parts), view)
        states = ((view.name, State.READABLE), ("i", State.READABLE))
        catalog = replace(self.world.catalog, immediate=(view,), indexes=(index,), states=states)
        self.program = program_of(self.definition, catalog)
        self.index = Fold(view, None if view.computed is None else compiled(view), "i")
        for name in ("i", "i.cells"):
            self.codecs[name] = LayoutCodec(catalog.layout(name))

    async def add(self, changes, lane):
        by_relation = {}
        for change in changes:
            key = self.world.key(change.relation, change.new or change.old)
            by_relation.setdefault(change.relation, {})[key] = change
        joined = await self.program.joined(BaseRows(self.world, by_relation))
        for addition in await joined.additions():
            codec = self.codecs[addition.layout]
            key = codec.key((*addition.group, lane, *addition.amounts))
            stored = self.store.tables.get(codec.layout.table, {}).get(key)
            amounts = addition.amounts
            if stored is not None:
                amounts = added([codec.decode(stored)[-len(amounts) :], amounts])
            row = codec.encode((*addition.group, lane, *amounts)) if any(amounts) else TOMBSTONE
            self.store.put(codec.layout.table, [Put(key, row)])

    def reads(self, own=None, fold=None):
        return FoldedReads(self.store, self.codecs.__getitem__, fold or self.fold, 1, own)

    def check(self):
        """The rows are those of the SELECT, or both fail; its terms never do."""
        width = len(self.definition.view.columns)
        if self.definition.view.computed is not None:
            groups = self.reads(fold=Fold(self.definition.view))
            terms = asyncio.run(_all(groups.scan(EVERYTHING, reverse=False, limit=None)))
            self._compare(terms, self.world.answer(self.definition.checked_sql))
        try:
            expected = self.world.answer(self.definition.sql)
        except duckdb.Error:
            with pytest.raises(SqlError, match="Division by zero"):
                asyncio.run(_all(self.reads().scan(EVERYTHING, reverse=False, limit=None)))
            return
        rows = asyncio.run(_all(self.reads().scan(EVERYTHING, reverse=False, limit=None)))
        self._compare([row[:width] for row in rows], expected)
        if self.index is not None:
            groups = self.reads(fold=self.index).scan(EVERYTHING, reverse=False, limit=None)
            indexed = asyncio.run(_all(groups))
            self._compare([row[:width] for row in indexed], expected)
            encoded = list(map(self.codecs["i"].key, indexed))
            assert encoded == sorted(encoded), "in the order of the index"
        back = asyncio.run(_all(self.reads().scan(EVERYTHING, reverse=True, limit=None)))
        assert back == rows[::-1]
        some = asyncio.run(_all(self.reads().scan(EVERYTHING, reverse=False, limit=2)))
        assert some == rows[:2]
        keys = [self.codecs[self.fold.name].key_values(row) for row in rows]
        found = asyncio.run(self.reads().get(keys))
        assert [group.row for group in found] == rows

    def _compare(self, rows, expected):
        assert Counter(map(repr, rows)) == Counter(map(repr, expected))


class Projected:
    """The rows of a view without aggregates, kept by transactions, or built."""

    def __init__(self, world, definition):
        self.world = world
        self.definition = definition
        self.program = projected_program(definition, world.catalog)
        view = definition.view
        layout = Layout(view.name, "t", (*view.columns, *view.hidden), view.key, view.name)
        self.key = LayoutCodec(layout).key
        self.rows = {}

    async def add(self, changes, lane):
        by_relation = {}
        for change in changes:
            key = self.world.key(change.relation, change.new or change.old)
            by_relation.setdefault(change.relation, {})[key] = change
        for old, new in await self.program.pairs(BaseRows(self.world, by_relation)):
            for row in filter(None, (old, new)):
                assert self.rows.get(self.key(row)) == old, "the old row is the stored one"
            if old is not None:
                del self.rows[self.key(old)]
            if new is not None:
                self.rows[self.key(new)] = new

    def check(self):
        width = len(self.definition.view.columns)
        expected = Counter(map(repr, self.world.answer(self.definition.sql)))
        assert Counter(repr(row[:width]) for row in self.rows.values()) == expected
        built = asyncio.run(self._built())
        assert sorted(map(repr, built)) == sorted(map(repr, self.rows.values()))

    async def _built(self):
        batches = self.program.all_rows(self.world.codecs, self.world)
        return [row async for batch in batches for row in batch]


def kept(world, sql, name, random):
    definition = define_any(DeclaredView(name, sql, refresh=Refresh.IMMEDIATE), world.catalog)
    if isinstance(definition, ProjectedDefinition):
        return Projected(world, definition)
    view = Kept(world, sql, name)
    view.add_index(random)
    return view


async def _all(batches):
    return [group.row async for batch in batches for group in batch]


@settings(max_examples=depth(30, long=80))
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
    views = [
        kept(world, draw_star(random, schema, plain), f"v{plain}", random)
        for plain in (False, True)
    ]
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

    def __init__(self, catalog, view):
        super().__init__(catalog)
        self.view = view

    async def scan(self, layout, *arguments, **options):
        codec = self.view.codecs.get(layout)
        if codec is not None:
            cells = self.view.store.scan(codec.layout.table, b"", None, 1)
            async for batch in cells:
                yield codec.decode_all([cell.value for cell in batch])
            return
        async for rows in super().scan(layout, *arguments, **options):
            yield rows


@settings(max_examples=depth(30, long=80))
@given(st.randoms(use_true_random=True), st.sampled_from([1, 2, 1_000]))
def test_a_base_lane_completes_the_additions_since(random, most):
    schema = draw_schema(random)
    world = World(catalog(schema))
    view = Kept(world, draw_star(random, schema))
    view.add_index(random)
    for _ in range(4):
        world.commit(changed_rows(world, Transaction(world, random).run()))
    for _ in range(random.randint(1, 2)):
        rows = changed_rows(world, Transaction(world, random).run())
        asyncio.run(view.add(world.changes(rows), lane=1))
        world.commit(rows)
        build(world, view, most)
        view.check()


def build(world, view, most):
    reading = Building(world.catalog, view)
    reading.rows = world.rows

    def codecs(name):
        return view.codecs[name] if name in view.codecs else world.codecs(name)

    async def run():
        async for puts in base_cells(view.program, codecs, reading, most):
            for table, of_table in puts.items():
                view.store.put(table, of_table)

    asyncio.run(run())
