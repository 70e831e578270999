"""Plain views: files that declare them, grants, and names around them."""

import pytest

from hornbeam_server.api.rest.authorization import named_in
from hornbeam_server.node.database import Database
from hornbeam_server.node.schema_plans import PlanRequest
from hornbeam_server.schema.errors import SqlError, UnknownName
from tests.txlayer.database_world import run_all, settings

TABLES = """
CREATE TABLE customer (c_id INTEGER PRIMARY KEY, c_name TEXT, c_city TEXT);
CREATE TABLE orders (
  o_id INTEGER PRIMARY KEY, o_c_id INTEGER NOT NULL REFERENCES customer, o_total INTEGER);
CREATE INDEX orders_by_total ON orders (o_total);
"""
VIEWS = """
CREATE VIEW named AS SELECT o_id, o_total, c_name AS name, c_city FROM orders, customer
WHERE c_id = o_c_id;
CREATE VIEW large (k, name, double) AS SELECT o_id, name, o_total * 2 FROM named WHERE o_total > 10;
CREATE VIEW totals AS SELECT name, sum(o_total) AS total FROM named GROUP BY name;
"""


async def applied(database, ddl, **options):
    request = PlanRequest(ddl, **options)
    planned = database.plan_schema(request)
    await database.apply_schema(request, planned.plan_id)
    await database.keeper.wait_built()
    return planned


@pytest.fixture
async def database(tmp_path):
    async with await Database.open(settings(tmp_path)) as database:
        await applied(database, TABLES + VIEWS)
        await run_all(
            database,
            "INSERT INTO customer VALUES (1, 'ann', 'Ulm'), (2, 'bob', 'Kiel')",
            "INSERT INTO orders VALUES (1, 1, 5), (2, 1, 20), (3, 2, 30)",
        )
        yield database


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT * FROM named WHERE o_id = 2", [(2, 20, "ann", "Ulm")]),
        ("SELECT n.name FROM named n WHERE n.o_total = 30", [("bob",)]),
        ("SELECT k, double + 1 AS d FROM large ORDER BY double DESC", [(3, 61), (2, 41)]),
        ("SELECT name, total FROM totals ORDER BY name", [("ann", 25), ("bob", 30)]),
        (
            "SELECT c.c_id, l.k FROM customer c LEFT JOIN large l ON l.name = c.c_name AND l.k > 2"
            " ORDER BY c_id",
            [(1, None), (2, 3)],
        ),
        (
            "SELECT l.k, c.c_id FROM large l LEFT JOIN customer c ON c.c_id = l.k ORDER BY k",
            [(2, 2), (3, None)],
        ),
        (
            "SELECT l.k, o.o_id FROM orders o JOIN large l ON l.k = o.o_id + 1 ORDER BY 1",
            [(2, 1), (3, 2)],
        ),
        (  # o_total is ambiguous in the relations, and not in the view
            "SELECT k, o_total FROM large, orders WHERE o_id = 1 AND k = 3",
            [(3, 5)],
        ),
        ("SELECT double, count(*) FROM large GROUP BY double ORDER BY 1", [(40, 1), (60, 1)]),
        ("SELECT a.k, b.k FROM large a, large b WHERE a.double < b.double", [(2, 3)]),
        ("SELECT x FROM large AS q (x, y, z) WHERE z = 40", [(2,)]),
        (
            "SELECT o_id FROM orders o WHERE EXISTS (SELECT 1 FROM large WHERE k = o.o_id) AND"
            " o_id IN (SELECT k FROM large WHERE double > 50)",
            [(3,)],
        ),
        (
            "WITH customer AS (SELECT 7 AS c_id) SELECT count(*) FROM named, customer",
            [(3,)],
        ),
        (
            "WITH named AS (SELECT 7 AS o_id) SELECT o_id FROM named",
            [(7,)],
        ),
        ("SELECT k FROM large UNION ALL SELECT 1 FROM named WHERE o_id = 1", [(1,), (2,), (3,)]),
        ("SELECT max(l.double) FILTER (WHERE l.name = 'ann') FROM large AS l", [(40,)]),
        ("SELECT name FROM large ORDER BY k LIMIT 1", [("ann",)]),
        ("SELECT DISTINCT c_city FROM named ORDER BY c_city", [("Kiel",), ("Ulm",)]),
        ("SELECT EXCLUDED.k FROM large AS excluded WHERE k = ?", [(2,)]),
        ("SELECT o_total AS k FROM named ORDER BY k DESC LIMIT 1", [(30,)]),
        ("SELECT * EXCLUDE (c_city) FROM named WHERE o_id = 1", [(1, 5, "ann")]),
    ],
)  # fmt: skip
async def test_queries_over_views(database, sql, wanted):
    parameters = (2,) if "?" in sql else ()
    for use_views in (True, False):
        found = await database.fetch(sql, parameters, use_views=use_views)
        assert (sorted(found) if "UNION" in sql else found) == wanted


async def test_a_view_of_joins_and_filters_is_read_by_look_ups(database):
    for sql in (
        "SELECT * FROM named WHERE o_id = 2",
        "SELECT name FROM large WHERE k = 2 AND double > 1",
        "SELECT l.name FROM customer JOIN large l ON l.k = c_id WHERE c_id = 2",
    ):
        explained = database.explain(sql)
        assert not explained.duckdb, (sql, explained.reason)
        assert all(step.rows <= 1 for step in explained.steps), sql


async def test_a_view_over_views_is_answered_from_an_immediate_view(database):
    kept = (
        "CREATE MATERIALIZED VIEW kept WITH (refresh = 'immediate') AS"
        " SELECT c_name, count(*) AS n, sum(o_total) AS total FROM orders JOIN customer"
        " ON c_id = o_c_id GROUP BY c_name;"
    )
    await applied(database, TABLES + kept + VIEWS)
    assert "kept" in database.explain("SELECT total FROM totals WHERE name = 'ann'").views
    assert await database.fetch("SELECT total FROM totals WHERE name = 'ann'") == [(25,)]


async def test_a_grant_of_a_view_is_enough_to_read_it(database):
    assert named_in("SELECT * FROM large, totals", database.catalog).reads == {"large", "totals"}
    sql = "SELECT * FROM named WHERE o_id IN (SELECT c_id FROM customer)"
    assert named_in(sql, database.catalog).reads == {"named", "customer"}


async def test_a_view_of_a_file_that_cannot_be_read_is_passed_over(database):
    wrong = "CREATE VIEW odd AS SELECT no_such_function(c_id) FROM customer;"
    planned = await applied(database, TABLES + VIEWS + wrong)
    assert [note for note in planned.plan.schema.notes if "view odd" in note]
    assert set(database.catalog.plain_view) == {"named", "large", "totals"}
    with pytest.raises(SqlError, match="In view odd"):
        database.plan_schema(PlanRequest(TABLES + VIEWS + wrong, ddl_file=""))
    with pytest.raises(SqlError):  # the view is in force: it is not dropped in silence
        database.plan_schema(PlanRequest(VIEWS + "CREATE TABLE other (k INTEGER PRIMARY KEY);"))


async def test_names_of_a_view_mean_what_they_meant_when_it_was_declared(database):
    with pytest.raises(UnknownName, match="o_c_id"):
        await database.fetch("SELECT o_c_id FROM named")
    with pytest.raises(UnknownName, match="customer"):
        await database.fetch("SELECT customer.c_id FROM named")
