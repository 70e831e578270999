"""An embedded database whose node keeps live views."""

import asyncio
import time
from collections import Counter
from contextlib import asynccontextmanager

from hornbeam_server.node.database import Database
from hornbeam_server.node.schema_plans import PlanRequest
from hornbeam_server.txlayer.views.refresh_groups import views_of
from tests.txlayer.database_world import settings

TABLES = """
CREATE TABLE customer (c_id INT PRIMARY KEY, c_name TEXT);
CREATE TABLE orders (
    o_id INT PRIMARY KEY, o_c_id INT REFERENCES customer (c_id), o_total BIGINT, o_note TEXT
);
"""
TOTALS = (
    "SELECT c_name, count(*) AS n, sum(o_total) AS total FROM orders JOIN customer ON o_c_id = c_id"
    " GROUP BY c_name"
)


def view(name="totals", select=TOTALS, refresh="live", **options):
    """The declaration of a view."""
    options = {"refresh": refresh, "interval": "50 ms"} | options
    listed = ", ".join(f"\"{name}\" = '{value}'" for name, value in options.items())
    return f"CREATE MATERIALIZED VIEW {name} WITH ({listed}) AS {select};\n"


@asynccontextmanager
async def opened(folder, *views, **options):
    """The database in `folder`, with these views if any are given."""
    async with await Database.open(settings(folder, **options)) as db:
        if views:
            await apply(db, *views)
        yield db


async def apply(db, *views, tables=TABLES):
    request = PlanRequest(ddl=tables + "".join(views))
    plan = db.plan_schema(request)
    await db.apply_schema(request, plan.plan_id, allow_drop=True)
    await db.keeper.wait_built()


async def fill(db, customers=3, orders=10):
    for number in range(customers):
        await db.execute("INSERT INTO customer VALUES (?, ?)", (number, f"c{number % 2}"))
    for number in range(orders):
        await order(db, number, number % customers, number)


async def order(db, number, customer, total, note=None):
    """Insert an order. Returns the timestamp of the commit."""
    sql = "INSERT INTO orders VALUES (?, ?, ?, ?)"
    return (await db.execute(sql, (number, customer, total, note))).commit_ts


async def until(condition, seconds=60.0):
    """Wait until an asynchronous condition holds; its last value."""
    end = time.monotonic() + seconds
    while not (found := await condition()):
        assert time.monotonic() < end, "it has not happened in time"
        await asyncio.sleep(0.005)
    return found


async def state_of(db, group="live"):
    return await db.deferred.state(group)


async def reached(db, ts, group="live", seconds=60.0):
    """Wait until all views of the group show a snapshot at or above `ts`."""

    async def shown():
        state = await state_of(db, group)
        readable = all(
            db.catalog.readable(view.name) and state.holds(db.catalog, view.name)
            for view in views_of(db.catalog, group)
        )
        return state if readable and state.as_of >= ts and state.batch is None else None

    return await until(shown, seconds)


async def require_equal(db, name="totals"):
    """Check that a view has the rows that its SELECT has at the view's snapshot."""
    select = db.catalog.deferred_view[name].declared.sql
    async with db.query(f"SELECT * FROM {name}") as result:
        kept, at = await result.stream.all(), result.snapshot
    assert Counter(kept) == Counter(await db.fetch(select, snapshot=at, use_views=False))
    return kept
