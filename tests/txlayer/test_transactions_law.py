"""Laws of the whole write path, over drawn schemas, forests, views and transactions.

After each of successive transactions base rows equal those of the model, every view and index
equals its recomputation, and queries give the recomputed rows with views and without. After
concurrent transactions every view and index equals its recomputation, also by DuckDB.
"""

import asyncio
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam_server.maintain.recompute import recompute
from hornbeam_server.schema.catalog import Catalog, Forest
from hornbeam_server.schema.errors import ConstraintViolation, SqlError, TransactionAborted
from hornbeam_server.schema.graph import without_circles
from hornbeam_server.schema.model import Action
from hornbeam_server.schema.types import Kind
from hornbeam_server.txlayer.statements.requests import InsertRows, TransactionRequest
from tests.depth import depth
from tests.strategies import SIMPLE_KINDS, few_values, rows_for, schemas
from tests.txlayer.database_world import building, catalog_of, check, opened, settled, stored_rows
from tests.txlayer.transactions_model import (
    Delete,
    DeleteUsing,
    Insert,
    Merge,
    Refused,
    Update,
    UpdateByQuery,
    UpdateFrom,
    apply,
    visible,
)

KINDS = tuple(kind for kind in SIMPLE_KINDS if kind is not Kind.BOOLEAN)


@st.composite
def worlds(draw):
    """(catalog with views and indexes yet to be built, rows that satisfy it)."""
    schema = draw(
        schemas(
            min_relations=2,
            max_relations=4,
            kinds=KINDS,
            max_columns=2,
            on_update=tuple(Action),
            to_unique=draw(st.booleans()),
            keyless=draw(st.booleans()),
            circles=draw(st.booleans()),
        )
    )
    parents = {}
    for relation in schema.relations:
        edges = [fk for fk in relation.key_edges if fk.parent != relation.name]
        if edges and draw(st.integers(0, 4)):
            parents[relation.name] = draw(st.sampled_from(edges))
    found = without_circles(parents.items(), lambda edge: (edge[0], edge[1].parent))
    parents = dict(found)
    roots = tuple(name for name in schema.names if name not in parents)
    forest = Forest(roots, tuple(parents.items()))
    catalog = catalog_of(schema, forest=forest)
    indexed = [
        (view.name, draw(st.sampled_from(view.columns)).name)
        for view in catalog.views
        if draw(st.booleans())
    ]
    rows = draw(rows_for(visible(schema)))
    return catalog_of(schema, forest=forest, view_indexes=indexed), rows


@st.composite
def values_for(draw, schema, state, relation, column):
    """A value for a column, mostly one that its foreign keys allow."""
    for fk in relation.foreign_keys:
        if column.name in fk.columns and state[fk.parent] and draw(st.integers(0, 5)):
            parent = schema.relation(fk.parent)
            there = parent.positions[fk.parent_columns[fk.columns.index(column.name)]]
            return draw(st.sampled_from(state[fk.parent]))[there]
    if column.nullable and draw(st.integers(0, 3)) == 0:
        return None
    return draw(few_values(column.type))


@st.composite
def inserts(draw, schema, state):
    relation = draw(st.sampled_from(schema.relations))
    row = [draw(values_for(schema, state, relation, column)) for column in relation.columns]
    return Insert(relation.name, tuple(row))


@st.composite
def operations(draw, schema, state):
    """A statement over values; most of them are stored already."""
    relation = draw(st.sampled_from(schema.relations))
    rows = state[relation.name]

    def value(column):
        return draw(values_for(schema, state, relation, column))

    def conditions():
        some = st.lists(st.sampled_from(relation.columns), max_size=2, unique=True)
        row = draw(st.sampled_from(rows)) if rows else None
        if row is not None and draw(st.booleans()):
            columns = [relation.column(name) for name in relation.primary_key]
        else:
            columns = draw(some)
        return tuple(
            (c.name, row[relation.positions[c.name]] if row is not None else value(c))
            for c in columns
        )

    kind = draw(st.sampled_from(["insert", "insert", "update", "update", "delete", "other"]))
    if kind == "other" and (found := draw(of_two(schema, relation))) is not None:
        return found
    match kind:
        case "insert":
            return Insert(relation.name, tuple(value(column) for column in relation.columns))
        case "update":
            changed = draw(
                st.lists(st.sampled_from(relation.columns), min_size=1, max_size=3, unique=True)
            )
            assign = tuple((column.name, value(column)) for column in changed)
            return Update(relation.name, assign, conditions())
        case _:
            return Delete(relation.name, conditions())


@st.composite
def of_two(draw, schema, relation):
    """A statement that writes rows of `relation` by rows of another relation, or of the same; None
    if no columns have the same type."""
    source = draw(st.sampled_from(schema.relations))
    pairs = [
        (mine.name, other.name)
        for mine in relation.columns
        for other in source.columns
        if mine.type == other.type
    ]
    of_key = [pair for pair in pairs if (pair[1],) == source.primary_key]
    if not pairs:
        return None
    some = st.lists(st.sampled_from(pairs), min_size=1, max_size=2, unique_by=lambda p: p[0])
    if of_key and draw(st.booleans()):
        on = draw(st.sampled_from(of_key))
        column, value = draw(st.sampled_from(pairs))
        return UpdateByQuery(relation.name, source.name, column, value, (on,))
    if relation.primary_key and draw(st.booleans()):
        on, insert = tuple(draw(some)), tuple(draw(some))
        gone = draw(st.sampled_from(relation.column_names))
        return Merge(relation.name, source.name, on, gone, tuple(draw(some)), insert)
    if draw(st.booleans()):
        return UpdateFrom(relation.name, source.name, tuple(draw(some)), tuple(draw(some)))
    return DeleteUsing(relation.name, source.name, tuple(draw(some)))


async def load(database, rows):
    batches = tuple(
        InsertRows(name, database.catalog.schema.relation(name).visible_names, given)
        for name, given in rows.items()
        if given
    )
    if batches:
        await database.transact(TransactionRequest(batches))


async def begin(database, catalog, rows, built_late):
    """Put the catalog into force and load the rows; views are built before the load, or after
    it."""
    if not built_late:
        await database.keeper.apply(catalog)
        await database.keeper.wait_built()
        return await load(database, rows)
    unique = tuple(index for index in catalog.indexes if index.unique)
    names = {index.name for index in unique}
    states = tuple(pair for pair in catalog.states if pair[0] in names)
    bare = Catalog(1, catalog.schema, catalog.forest, (), unique, states)
    await database.keeper.apply(bare)
    await database.keeper.wait_built()
    await load(database, rows)
    known = database.catalog.state
    states = tuple((name, known.get(name, state)) for name, state in catalog.states)
    version = database.catalog.version + 1
    await database.keeper.apply(replace(catalog, version=version, states=states))
    await database.keeper.wait_built()
    return None


async def transact(database, work):
    """Run the statements as one transaction; whether it commits."""
    schema = database.catalog.schema
    request = TransactionRequest(tuple(operation.sql(schema) for operation in work))
    try:
        await database.transact(request)
    except (ConstraintViolation, SqlError):  # SqlError: MERGE would write a row twice
        return False
    return True


def projection_of(relation):
    """The visible values of a row."""
    positions = [relation.positions[name] for name in relation.visible_names]
    return lambda row: tuple(row[position] for position in positions)


def join_of(catalog, view):
    columns = ", ".join(f"{c.relation}.{c.column}" for c in view.columns)
    conditions = [
        f"{edge.parent}.{parent} = {child}.{column}"
        for child, edge in zip(view.path[1:], view.edges, strict=True)
        for parent, column in zip(edge.parent_columns, edge.columns, strict=True)
    ]
    return f"SELECT {columns} FROM {', '.join(view.path)} WHERE {' AND '.join(conditions)}"


async def check_queries(database, draw):
    catalog, at = database.catalog, database.watermark()
    base = {name: await stored_rows(database, name, at) for name in catalog.schema.names}
    for view in catalog.views:
        expected = recompute(catalog, base, view.name)
        position = draw(st.integers(0, len(view.columns) - 1))
        column = view.columns[position]
        there = [row[position] for row in expected if row[position] is not None]
        wanted = draw(st.sampled_from(there)) if there else None
        found = Counter(row for row in expected if wanted is not None and row[position] == wanted)
        sql = f"{join_of(catalog, view)} AND {column.relation}.{column.column} = ?"
        for use_views in (True, False):
            rows = await database.fetch(sql, (wanted,), use_views=use_views)
            assert Counter(rows) == found, (sql, wanted, use_views)


@settings(max_examples=depth(20, long=60))
@given(st.data())
def test_transactions_one_after_another(data):
    catalog, rows = data.draw(worlds())
    schema = visible(catalog.schema)

    async def run(folder):
        async with opened(folder) as database:
            await begin(database, catalog, rows, data.draw(st.booleans()))
            state = rows
            for _ in range(data.draw(st.integers(1, 6))):
                work = data.draw(st.lists(operations(schema, state), min_size=1, max_size=3))
                try:
                    after = apply(schema, state, work)
                except Refused:
                    after = None
                assert await transact(database, work) is (after is not None), work
                state = after or state
                at = database.watermark()
                for relation in catalog.schema.relations:
                    stored = await stored_rows(database, relation.name, at)
                    shown = map(projection_of(relation), stored)
                    assert Counter(shown) == Counter(state[relation.name])
                await settled(database)
            await check_queries(database, data.draw)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))


@settings(max_examples=depth(5, long=12))
@given(st.data())
def test_concurrent_transactions(data):
    catalog, rows = data.draw(worlds())
    lists = st.lists(operations(visible(catalog.schema), rows), min_size=1, max_size=3)
    work = data.draw(st.lists(lists, min_size=8, max_size=20))

    async def writer(database, mine):
        for operations_ in mine:
            try:
                await transact(database, operations_)
            except TransactionAborted as error:
                raise AssertionError("every conflict is solved by trying again") from error

    async def run(folder):
        async with opened(folder) as database:
            await database.keeper.apply(building(catalog))
            await database.keeper.wait_built()
            await load(database, rows)
            await asyncio.gather(*(writer(database, work[n::5]) for n in range(5)))
            await check(database)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))
