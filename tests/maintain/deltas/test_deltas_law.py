"""Incremental = recomputed = DuckDB, over generated schemas, SELECTs and changes."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam_server.maintain.deltas.program import compile_view
from hornbeam_server.schema.errors import SqlError
from hornbeam_server.schema.model import DeclaredView
from tests.depth import depth
from tests.maintain.deltas.deltas_draw import Queries, draw_catalog, draw_writes
from tests.maintain.deltas.deltas_world import World

VIEWS, BATCHES, TRIES = 2, 4, 40


def draw_views(random, catalog):
    """Draw SELECTs that can be maintained, as most of them can."""
    sqls = {}
    for _ in range(TRIES):
        sql = Queries(random).draw()
        try:
            compile_view(DeclaredView("v", sql), catalog)
        except SqlError:  # refused, or invalid: a date between numbers
            continue
        sqls[f"v{len(sqls)}"] = sql
        if len(sqls) == VIEWS:
            return sqls
    raise AssertionError("hardly any SELECT can be kept")


@settings(max_examples=depth(5, long=12))
@given(seed=st.integers(0, 1 << 32))
def test_views_equal_duckdbs_answers_after_every_batch(seed):
    random = Random(seed)
    catalog = draw_catalog(random)
    world = World(catalog, draw_views(random, catalog))
    for _ in range(BATCHES):
        world.commit(*draw_writes(random, catalog, world.store))
        world.check()
    world.check_anew()
