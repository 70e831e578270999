"""Live views with WITH RECURSIVE, as a node keeps them."""

from contextlib import asynccontextmanager

from tests.node.live_world import apply, opened, reached, require_equal, state_of, until, view
from tests.node.test_tentative import require_tentative, settled

TABLES = """
CREATE TABLE edge (e_id INT PRIMARY KEY, source INT, target INT);
CREATE INDEX edge_source ON edge (source);
"""
REACHABLE = (
    "WITH RECURSIVE r (origin, node) AS (SELECT source, target FROM edge UNION"
    " SELECT r.origin, e.target FROM r JOIN edge e ON e.source = r.node) SELECT origin, node FROM r"
)
TREE = (
    "WITH RECURSIVE r (node, depth, path) AS (SELECT target, 1, ARRAY[target] FROM edge WHERE"
    " source IS NULL UNION ALL SELECT e.target, depth + 1, path || e.target FROM r JOIN edge e ON"
    " e.source = r.node WHERE depth < 5) SELECT node, depth, array_to_string(path, '/') AS path"
    " FROM r"
)
ENDLESS = REACHABLE.replace("UNION", "UNION ALL")


@asynccontextmanager
async def with_edges(folder, *views, **options):
    """A database whose edges are a path from 1 to 4, and a cycle of 3 and 4."""
    async with opened(folder, resident_refresh=True, **options) as db:
        await apply(db, *views, tables=TABLES)
        for edge in enumerate([(None, 1), (1, 2), (2, 3), (3, 4), (4, 3)]):
            done = await db.execute("INSERT INTO edge VALUES (?, ?, ?)", (edge[0], *edge[1]))
        yield db, done.commit_ts


async def test_live_views_follow_recursions_through_inserts_updates_and_deletes(tmp_path):
    views = {"reachable": REACHABLE, "tree": TREE}
    declared = [view(name, sql) for name, sql in views.items()]
    async with with_edges(tmp_path, *declared) as (db, at):
        await reached(db, at)
        assert (1, 4) in await require_equal(db, "reachable")
        assert (4, 4, "1/2/3/4") in await require_equal(db, "tree")
        done = await db.execute("UPDATE edge SET source = 5 WHERE e_id = 2")
        await reached(db, done.commit_ts)
        assert {row for row in await require_equal(db, "reachable") if row[0] == 1} == {(1, 2)}
        done = await db.execute("DELETE FROM edge WHERE e_id = 2")
        await reached(db, done.commit_ts)
        assert (3, 3) in await require_equal(db, "reachable")
        assert await require_equal(db, "tree")
        report = await db.verify(list(views))
        assert len(report.checked) == len(views)
        assert not report.differences
    async with opened(tmp_path, resident_refresh=True) as db:  # the stored rows go on
        done = await db.execute("DELETE FROM edge WHERE e_id = 4")
        await reached(db, done.commit_ts)
        assert (3, 3) not in await require_equal(db, "reachable")


async def test_a_tentative_read_follows_a_recursion(tmp_path):
    async with with_edges(tmp_path, view("reachable", REACHABLE, interval="1 h")) as (db, _):
        await settled(db)
        await db.execute("DELETE FROM edge WHERE e_id = 3")
        rows, at, as_of = await require_tentative(db, "reachable")
        assert (1, 3) in rows
        assert (1, 4) not in rows
        assert at > as_of


async def test_a_recursion_without_an_end_stops_its_group_alone(tmp_path):
    endless = view("endless", ENDLESS, group="bad")
    async with with_edges(tmp_path, endless, view("reachable", REACHABLE)) as (db, at):

        async def stopped():
            return (await state_of(db, "bad")).problem

        problem = await until(stopped)
        assert "View endless cannot be refreshed" in problem.message
        assert "it may have no end" in problem.message
        await reached(db, at)
        assert await require_equal(db, "reachable")
