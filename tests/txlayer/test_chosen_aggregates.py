"""Aggregate views that plans choose, in an embedded database: built, kept, used, and dropped."""

from __future__ import annotations

from contextlib import asynccontextmanager

from hornbeam_server.node.database import Database
from hornbeam_server.node.schema_plans import PlanRequest
from hornbeam_server.schema.catalog import State
from tests.txlayer.database_world import settings
from tests.txlayer.test_immediate_views import run

TABLES = """
CREATE TABLE customer (c_id INTEGER PRIMARY KEY, city TEXT);
CREATE TABLE orders (o_id INTEGER PRIMARY KEY, o_c_id INTEGER NOT NULL REFERENCES customer (c_id),
  state TEXT, total DECIMAL(10,2));
"""
WORKLOAD = """
-- name: by_city
SELECT city, sum(total) FROM orders JOIN customer ON o_c_id = c_id GROUP BY city;
-- name: of_city
SELECT count(*) FROM customer c, orders o WHERE o.o_c_id = c.c_id AND c.city = ?;
-- name: add_order
INSERT INTO orders (o_id, o_c_id, state, total) VALUES (?, ?, ?, ?);
"""
OTHER = "SELECT state, count(*) FROM orders GROUP BY state;"
ROWS = {"customer": 5_000, "orders": 50_000}
CHOSEN = "orders__customer__by_city"


@asynccontextmanager
async def opened(folder):
    async with await Database.open(settings(folder)) as database:
        yield database


async def apply(database, ddl=TABLES, workload=WORKLOAD, **options):
    request = PlanRequest(ddl, workload, row_counts=ROWS, **options)
    planned = database.plan_schema(request)
    await database.apply_schema(request, planned.plan_id, allow_drop=True)
    await database.keeper.wait_built()
    return planned


async def fill(database):
    await run(database, "INSERT INTO customer VALUES (1, 'Bern'), (2, 'Bern'), (3, 'Basel')")
    await run(
        database,
        "INSERT INTO orders VALUES (10, 1, 'new', 1.50), (11, 2, 'new', 2), (12, 3, 'old', 4)",
    )


def names(database):
    return [view.name for view in database.catalog.immediate]


async def test_a_chosen_view_answers_the_workload_and_is_kept(tmp_path):
    async with opened(tmp_path) as database:
        await fill_and_apply(database)
        by_city, of_city = (
            "SELECT city, sum(total) FROM orders JOIN customer ON o_c_id = c_id GROUP BY city",
            "SELECT count(*) FROM customer c, orders o WHERE o.o_c_id = c.c_id AND c.city = ?",
        )
        assert names(database) == [CHOSEN]
        assert database.catalog.immediate[0].chosen
        await run(database, "UPDATE customer SET city = 'Basel' WHERE c_id = 2")
        await run(database, "INSERT INTO orders VALUES (13, 2, NULL, 8)")
        for sql, values in ((by_city, ()), (of_city, ("Basel",))):
            assert database.prepare(sql).served_by == (CHOSEN,)
            found = await database.fetch(sql, values)
            expected = await database.fetch(sql, values, use_views=False)
            assert sorted(map(repr, found)) == sorted(map(repr, expected))
        assert (await database.verify()).differences == 0


async def fill_and_apply(database):
    await apply(database, workload="")
    await fill(database)
    return await apply(database)


async def test_a_later_workload_drops_what_no_longer_pays(tmp_path):
    async with opened(tmp_path) as database:
        await fill_and_apply(database)
        await apply(database, workload=OTHER)
        assert names(database) == ["orders__grouped_by_state"]
        assert CHOSEN not in database.catalog.state
        await apply(database, workload="")
        assert names(database) == []
        assert (await database.verify()).differences == 0


async def test_a_view_that_stays_chosen_keeps_its_rows(tmp_path):
    async with opened(tmp_path) as database:
        await fill_and_apply(database)
        table = database.catalog.layout(CHOSEN).table
        planned = await apply(database, workload=WORKLOAD + OTHER)
        assert set(names(database)) == {CHOSEN, "orders__grouped_by_state"}
        assert planned.rebuilt == ()
        assert database.catalog.layout(CHOSEN).table == table


async def test_a_declared_view_that_answers_is_used_and_stays(tmp_path):
    declared = (
        "CREATE MATERIALIZED VIEW mine WITH (refresh = 'immediate') AS"
        " SELECT city, count(*) AS n, sum(total) AS total"
        " FROM orders JOIN customer ON o_c_id = c_id GROUP BY city;"
    )
    async with opened(tmp_path) as database:
        planned = await apply(database, TABLES + declared)
        assert names(database) == ["mine"]
        assert not database.catalog.immediate[0].chosen
        (by_city, of_city) = planned.plan.explanation.queries
        assert by_city.views == of_city.views == ("mine",)
        assert by_city.base_cost == by_city.cost
        await apply(database, TABLES + declared, OTHER)
        assert set(names(database)) == {"mine", "orders__grouped_by_state"}


async def test_declaring_a_chosen_view_keeps_its_rows(tmp_path):
    async with opened(tmp_path) as database:
        await fill_and_apply(database)
        view, table = database.catalog.immediate[0], database.catalog.layout(CHOSEN).table
        declared = (
            f"CREATE MATERIALIZED VIEW {CHOSEN} WITH (refresh = 'immediate') AS"
            f" {view.declared.sql};"
        )
        await apply(database, TABLES + declared)
        assert [(v.name, v.chosen) for v in database.catalog.immediate] == [(CHOSEN, False)]
        assert database.catalog.layout(CHOSEN).table == table
        await apply(database, TABLES + declared, workload="")
        assert names(database) == [CHOSEN]


async def test_aggregates_are_not_chosen_without_leave(tmp_path):
    async with opened(tmp_path) as database:
        await apply(database, aggregates=False)
        assert names(database) == []
        assert not database.catalog.aggregates
        await apply(database, budget=0.0)
        assert names(database) == []


async def test_a_chosen_view_outlives_a_restart(tmp_path):
    async with opened(tmp_path) as database:
        await fill_and_apply(database)
    async with opened(tmp_path) as database:
        assert [(v.name, v.chosen) for v in database.catalog.immediate] == [(CHOSEN, True)]
        assert database.catalog.state[CHOSEN] is State.READABLE
        assert (await database.verify()).differences == 0
