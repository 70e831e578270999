"""Partial aggregates of live views are chosen when a view is built, and stay as long as its rows
do."""

from hornbeam_server.api.rest.serializers import deferred_view_document
from hornbeam_server.node.schema_plans import PlanRequest
from hornbeam_server.schema.views import PartialAggregate
from tests.node.live_world import TABLES, fill, opened, order, reached, require_equal, view

MANY = {"customer": 10, "orders": 1_000_000}
CHOSEN = PartialAggregate(0, (0,), 1_000_000, 10)  # of orders, by customer
DDL = TABLES + view()


async def apply(db, ddl=DDL, row_counts=()):
    """Put a schema into force; returns the views that are built again."""
    request = PlanRequest(ddl=ddl, row_counts=dict(row_counts))
    plan = db.plan_schema(request)
    await db.apply_schema(request, plan.plan_id, allow_drop=True)
    await db.keeper.wait_built()
    return plan.rebuilt


def partials(db, name="totals"):
    return db.catalog.deferred_view[name].partials


async def test_the_choice_stays_until_the_view_is_built_again(tmp_path):
    async with opened(tmp_path, resident_refresh=True) as db:
        await apply(db, row_counts=MANY)
        assert partials(db) == (CHOSEN,)
        await fill(db)
        await reached(db, await order(db, 100, 1, 7))
        done = await db.execute("UPDATE customer SET c_name = 'c9' WHERE c_id = 0")
        await reached(db, done.commit_ts)
        assert ("c9", 4, 18) in await require_equal(db)
        lines = (await deferred_view_document(db, "totals", program=True))["deferred"]["program"]
        kept = "partial aggregate of orders, about 10 groups of 1000000 rows"
        assert any(kept in line for line in lines)
        more = DDL + "CREATE INDEX ON orders (o_total);"
        assert await apply(db, more, {"customer": 10, "orders": 20}) == ()
        assert partials(db) == (CHOSEN,)
    async with opened(tmp_path, resident_refresh=True) as db:
        await reached(db, await order(db, 101, 2, 7))
        await require_equal(db)
        await db.deferred.rebuild(["totals"])  # 12 orders are no reason
        assert partials(db) == ()
        await reached(db, await order(db, 102, 2, 7))
        await require_equal(db)


async def test_a_view_without_partial_aggregates_gets_them_when_it_is_built_again(tmp_path):
    async with opened(tmp_path, view(), resident_refresh=True) as db:
        await fill(db)
        await reached(db, db.watermark())
        assert await apply(db, DDL + "CREATE INDEX ON orders (o_total);", MANY) == ()
        assert partials(db) == ()
        changed = DDL.replace("count(*) AS n", "count(*) AS m")
        assert await apply(db, changed, MANY) == ("totals",)
        assert partials(db) == (CHOSEN,)
        await reached(db, await order(db, 100, 1, 7))
        await require_equal(db)


async def test_a_plan_is_the_same_while_row_counts_choose_the_same(tmp_path):
    async with opened(tmp_path) as db:

        def plan_id(**row_counts):
            return db.plan_schema(PlanRequest(ddl=DDL, row_counts=row_counts)).plan_id

        chosen = plan_id(**MANY)
        assert plan_id(customer=11, orders=1_000_007) == chosen
        assert plan_id(customer=10, orders=20) != chosen
