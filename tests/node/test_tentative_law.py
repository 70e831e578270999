"""A tentative answer is the answer of the view's SELECT at its snapshot, and what the next batch up
to there stores: over generated schemas, SELECTs and changes."""

import asyncio
import tempfile
from collections import Counter
from pathlib import Path
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam_server.maintain.deltas.program import compile_view
from hornbeam_server.schema.errors import SqlError
from hornbeam_server.schema.model import DeclaredView
from hornbeam_server.txlayer.statements.requests import Statement, TransactionRequest
from tests.maintain.deltas.deltas_draw import Queries, draw_ddl, draw_row
from tests.maintain.deltas.deltas_world import catalog_of
from tests.node.live_world import apply, opened, view
from tests.node.test_tentative import LIVE, require_tentative, settled, stored

VIEWS, ROUNDS = 3, 3


class Changes:
    """Draws transactions: rows are put and deleted, so that keys recur and groups become empty."""

    def __init__(self, random, catalog):
        self.random = random
        self.relations = catalog.schema.relations
        self.keys = {relation.name: {} for relation in self.relations}

    def transaction(self):
        changed = [self.change(relation) for relation in self.relations for _ in range(2)]
        return TransactionRequest(tuple(each for some in changed for each in some))

    def change(self, relation):
        """The statements that put a drawn row, or delete the one under its key."""
        row, known = draw_row(self.random, relation), self.keys[relation.name]
        positions = [relation.positions[name] for name in relation.primary_key]
        key = tuple(row[i] for i in positions)
        where = " AND ".join(f"{name} = ?" for name in relation.primary_key)
        if known.pop(key, False):
            yield Statement(f"DELETE FROM {relation.name} WHERE {where}", key)
            if self.random.random() < 0.4:
                return
        known[key] = True
        marks = ", ".join("?" * len(row))
        yield Statement(f"INSERT INTO {relation.name} VALUES ({marks})", row)


def draw_views(random, catalog):
    """SELECTs that can be kept over relations whose rows were not counted, by name."""
    sqls = {}
    while len(sqls) < VIEWS:
        sql = Queries(random).draw()
        try:
            compile_view(DeclaredView("v", sql), catalog, small=frozenset())
        except SqlError:
            continue
        sqls[f"v{len(sqls)}"] = sql
    return sqls


@settings(max_examples=4)
@given(seed=st.integers(0, 1 << 32))
def test_a_tentative_answer_is_that_of_the_select_and_of_the_next_batch(seed):
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(law(Random(seed), Path(folder)))


async def law(random, folder):
    ddl = draw_ddl(random)
    catalog = catalog_of(ddl)
    changes = Changes(random, catalog)
    sqls = draw_views(random, catalog)
    views = [view(name, sql, interval="1 h") for name, sql in sqls.items()]
    async with opened(folder, **LIVE) as db:
        await apply(db, *views, tables=ddl)
        for _ in range(3):
            await db.transact(changes.transaction())
        await settled(db)
        for _ in range(ROUNDS):
            for _ in range(random.randint(1, 3)):
                await db.transact(changes.transaction())
            everything, as_of = await stored(db), (await db.deferred.state("live")).as_of
            tentative = {name: await require_tentative(db, name) for name in sqls}
            assert await stored(db) == everything
            assert {each[2] for each in tentative.values()} == {as_of}
            await db.live.refresh("live")
            for name, (rows, *_) in tentative.items():
                assert Counter(await db.fetch(f"SELECT * FROM {name}")) == Counter(rows), sqls[name]
