"""Relations that reference each other in a circle: planned, written, deleted, loaded, verified."""

from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from hornbeam_server.node.database import Database
from hornbeam_server.node.schema_plans import PlanRequest
from hornbeam_server.schema.errors import ForeignKeyViolation
from hornbeam_server.txlayer.statements.requests import InsertRows
from tests.txlayer.database_world import check, run_all, settings
from tests.txlayer.test_transactions_statements import statements

DDL = """
CREATE TABLE staff (
  s_id INTEGER PRIMARY KEY, s_name TEXT, s_store INTEGER NOT NULL REFERENCES store (t_id){staff});
CREATE TABLE store (t_id INTEGER PRIMARY KEY, t_manager INTEGER NOT NULL, t_city TEXT);
CREATE TABLE rental (
  r_id INTEGER PRIMARY KEY, r_staff INTEGER REFERENCES staff (s_id) ON DELETE SET NULL
    ON UPDATE CASCADE,
  r_days INTEGER);
ALTER TABLE store ADD FOREIGN KEY (t_manager) REFERENCES staff (s_id){store}
  DEFERRABLE INITIALLY DEFERRED;
CREATE MATERIALIZED VIEW days WITH (refresh = 'immediate') AS
  SELECT t_city, sum(r_days) AS days FROM rental JOIN staff ON r_staff = s_id
  JOIN store ON s_store = t_id GROUP BY t_city;
CREATE MATERIALIZED VIEW managers WITH (refresh = 'immediate') AS
  SELECT s_name, count(*) AS n FROM store JOIN staff ON t_manager = s_id GROUP BY s_name;
"""
WORKLOAD = """
SELECT s_name, t_city, r_days FROM rental, staff, store
  WHERE r_staff = s_id AND s_store = t_id AND r_id = ?;
"""
FILL = (
    "INSERT INTO store VALUES (1, 10, 'Bern'), (2, 20, 'Thun')",
    "INSERT INTO staff VALUES (10, 'Ann', 1), (11, 'Bob', 1), (20, 'Cy', 2)",
)
RENTALS = "INSERT INTO rental VALUES (1, 10, 3), (2, 11, 4), (3, 20, 5), (4, NULL, 6)"
STAFF = "SELECT s_id FROM staff ORDER BY 1"


@asynccontextmanager
async def on(tmp_path, staff="", store=""):
    """A database with the circle and its rows. At the end `verify` finds no difference."""
    async with await Database.open(settings(tmp_path)) as database:
        request = PlanRequest(DDL.format(staff=staff, store=store), WORKLOAD)
        planned = database.plan_schema(request)
        await database.apply_schema(request, planned.plan_id)
        await database.keeper.wait_built()
        await database.transact(statements(*FILL))
        await run_all(database, RENTALS)
        yield database
        await check(database)


async def test_views_follow_the_edges_of_a_circle_in_both_directions(tmp_path):
    async with on(tmp_path) as database:
        paths = [view.path for view in database.catalog.views]
        assert ("store", "staff", "rental") in paths
        await run_all(
            database,
            "UPDATE staff SET s_store = 2 WHERE s_id = 11",
            "UPDATE store SET t_manager = 11, t_city = 'Biel' WHERE t_id = 2",
            "UPDATE staff SET s_name = 'Bo' WHERE s_id = 11",
        )
        totals = await database.fetch("SELECT t_city, days FROM days ORDER BY 1")
        assert totals == [("Bern", 3), ("Biel", 9)]
        assert await database.fetch("SELECT s_name, n FROM managers ORDER BY 1") == [
            ("Ann", 1),
            ("Bo", 1),
        ]
        for use_views in (True, False):
            found = await database.fetch(
                "SELECT s_name, t_city, r_days FROM rental, staff, store"
                " WHERE r_staff = s_id AND s_store = t_id AND r_id = 2",
                use_views=use_views,
            )
            assert found == [("Bo", "Biel", 4)]


async def test_both_rows_of_a_circle_are_inserted_by_one_transaction_only(tmp_path):
    async with on(tmp_path) as database:
        for alone in (
            "INSERT INTO store VALUES (3, 30, 'Olten')",
            "INSERT INTO staff VALUES (30, 'Di', 3)",
            "UPDATE store SET t_manager = 30 WHERE t_id = 1",
            "DELETE FROM staff WHERE s_id = 10",
            "DELETE FROM store WHERE t_id = 2",
        ):
            with pytest.raises(ForeignKeyViolation):
                await database.execute(alone)
        await database.load_together(
            [
                InsertRows("staff", ("s_id", "s_store"), [(30, 3), (31, 3)]),
                InsertRows("store", ("t_id", "t_manager"), [(3, 30)]),
            ]
        )
        await database.transact(
            statements(
                "DELETE FROM store WHERE t_id = 2",
                "DELETE FROM staff WHERE s_store IN (2, 3)",
                "DELETE FROM store WHERE t_id = 3",
            )
        )
        assert await database.fetch(STAFF) == [(10,), (11,)]


@pytest.mark.parametrize(
    "parts",
    [
        ("INSERT INTO staff VALUES (30, 'Di', 3)", "INSERT INTO store VALUES (3, 30, 'Olten')"),
        ("INSERT INTO store VALUES (3, 30, 'Olten')", "INSERT INTO staff VALUES (30, 'Di', 3)"),
        ("UPDATE staff SET s_store = 9 WHERE s_id = 10", "UPDATE staff SET s_store = 2"),
        (
            "DELETE FROM store WHERE t_id = 2",
            "DELETE FROM staff WHERE s_id = 20",
        ),
        (
            "DELETE FROM staff WHERE s_id = 20",
            "DELETE FROM store WHERE t_id = 2",
        ),
    ],
)
async def test_a_trial_leaves_the_foreign_keys_of_a_circle_to_the_commit(tmp_path, parts):
    async with on(tmp_path) as database:
        first = statements(parts[0])
        await database.transact(replace(first, dry_run=True))
        with pytest.raises(ForeignKeyViolation):
            await database.transact(first)
        await database.transact(replace(statements(*parts), dry_run=True))
        await database.transact(statements(*parts))


async def test_deletes_through_a_circle_end(tmp_path):
    async with on(tmp_path, " ON DELETE CASCADE", " ON DELETE CASCADE") as database:
        await database.execute("UPDATE store SET t_manager = 11 WHERE t_id = 2")
        await database.execute("DELETE FROM staff WHERE s_id = 11")
        # staff 11 → store 2, which it manages → staff 20, which works there
        assert await database.fetch(STAFF) == [(10,)]
        assert await database.fetch("SELECT t_id FROM store") == [(1,)]
        rentals = await database.fetch("SELECT r_id, r_staff FROM rental ORDER BY 1")
        assert rentals == [(1, 10), (2, None), (3, None), (4, None)]


async def test_changed_keys_are_followed_around_a_circle(tmp_path):
    async with on(tmp_path, " ON UPDATE CASCADE", " ON UPDATE CASCADE") as database:
        await database.execute("UPDATE staff SET s_id = s_id + 1 WHERE s_id IN (10, 11, 20)"
                               " AND s_store = 2")  # fmt: skip
        await database.execute("UPDATE store SET t_id = 3 - t_id")
        found = await database.fetch("SELECT t_id, t_manager FROM store ORDER BY 1")
        assert found == [(1, 21), (2, 10)]
        found = await database.fetch("SELECT s_id, s_store FROM staff ORDER BY 1")
        assert found == [(10, 2), (11, 2), (21, 1)]


async def test_all_rows_of_a_circle_are_truncated(tmp_path):
    async with on(tmp_path) as database:
        await database.execute("TRUNCATE staff CASCADE")
        for name in ("staff", "store", "rental"):
            assert await database.fetch(f"SELECT count(*) FROM {name}") == [(0,)]
