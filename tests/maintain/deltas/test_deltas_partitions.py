"""Windows, DISTINCT ON, LATERAL, set operations, values of subqueries, and aggregates without a
delta rule: incremental = recomputed = DuckDB."""

import asyncio
import pickle
from decimal import Decimal as D
from random import Random

import pytest

from hornbeam_server.maintain.changes import Change
from hornbeam_server.maintain.deltas.program import compile_view, outline, refresh
from hornbeam_server.maintain.immediate.definition import define
from hornbeam_server.query.optimizer.aggregate_blocks import NotAnswered
from hornbeam_server.query.optimizer.aggregate_shapes import aggregate_view
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.model import DeclaredView, Refresh
from tests.maintain.deltas.deltas_world import World, catalog_of

DDL = """
CREATE TABLE a (i INTEGER PRIMARY KEY, j INTEGER, x INTEGER, d DECIMAL(9,2), f DOUBLE, t TEXT);
CREATE TABLE b (j INTEGER, t TEXT, x INTEGER);
CREATE INDEX a_j ON a (j); CREATE INDEX a_t ON a (t); CREATE INDEX b_x ON b (x);
CREATE INDEX b_j ON b (j);
"""
CATALOG = catalog_of(DDL)

AGGREGATES = {
    "texts": "SELECT j, string_agg(t, ',') AS s, string_agg(t, '-' ORDER BY x DESC) AS o,"
    " array_agg(x ORDER BY t) FILTER (WHERE x > 0) AS r, COUNT(*) AS n FROM a GROUP BY j"
    " HAVING COUNT(*) > 1",
    "spreads": "SELECT t, stddev(x) AS s, var_pop(f) AS v, stddev_pop(d) AS d, corr(f, x) AS c"
    " FROM a GROUP BY t",
    "middles": "SELECT j % 2 AS k, percentile_cont(0.5) WITHIN GROUP (ORDER BY x) AS p,"
    " percentile_disc(0.5) WITHIN GROUP (ORDER BY d) AS q, mode() WITHIN GROUP (ORDER BY t) AS m"
    " FROM a GROUP BY j % 2",
    "doubles": "SELECT j, SUM(f) AS s, AVG(f) AS m, AVG(x) AS mx, SUM(DISTINCT x) AS sx,"
    " COUNT(DISTINCT x) AS dx, MIN(f) AS l FROM a GROUP BY j",
    "chosen": "SELECT j, max_by(t, x) AS m, min_by(t, d) AS n, any_value(t) AS a,"
    " COUNT(DISTINCT (x, t)) AS p FROM b JOIN (SELECT j AS k, d FROM a) AS s ON s.k = b.j"
    " GROUP BY j",
    "joined": "SELECT b.t, string_agg(a.t, '' ORDER BY b.x) AS s FROM a LEFT JOIN b ON b.j = a.j"
    " GROUP BY b.t",
    "above": "SELECT n, COUNT(*) AS c FROM (SELECT j, median(x) AS n FROM b GROUP BY j) AS s"
    " GROUP BY n",
    "below": "SELECT a.i, s.m FROM a LEFT JOIN (SELECT t, j, max_by(t, x) AS m FROM b GROUP BY t,"
    " j) AS s ON s.j = a.j",
}
RULED = {
    "bools": "SELECT j, bool_and(x > 1) AS a, bool_or(x > 2) FILTER (WHERE t = 'u') AS o,"
    " NOT every(DISTINCT x > 0) AS e FROM a GROUP BY j",
    "spread": "SELECT t, stddev(x) AS s, variance(x + 1) FILTER (WHERE j > 0) AS v,"
    " round(stddev_pop(d), 2) AS d, COUNT(*) AS n FROM a GROUP BY t",
    "all": "SELECT var_pop(x) AS v, stddev(d) AS s FROM a",
    "whole": "SELECT bool_and(x > -5) AS a, bool_or(t = 'v') AS o FROM a",
}
WINDOWS = {
    "best": "SELECT * FROM (SELECT i, j, x, row_number() OVER (PARTITION BY j ORDER BY x DESC) AS r"
    " FROM a) AS s WHERE r <= 2",
    "starred": "SELECT * FROM (SELECT *, row_number() OVER w AS r FROM b WINDOW w AS"
    " (PARTITION BY j ORDER BY x)) AS s WHERE r < 3",
    "firsts": "SELECT DISTINCT ON (j) j, t FROM a ORDER BY j, x DESC",
    "hidden": "SELECT DISTINCT ON (x % 2, t) f, d FROM a ORDER BY x % 2, t, d DESC",
    "counted": "SELECT DISTINCT ON (t) t, j, COUNT(*) AS n FROM b GROUP BY t, j ORDER BY t, 3 DESC",
    "several": "SELECT i, rank() OVER (PARTITION BY j ORDER BY x) AS r, SUM(x) OVER (PARTITION BY"
    " j, t) AS s, lag(x) OVER (PARTITION BY j ORDER BY x) AS l, AVG(x) OVER (PARTITION BY j ORDER"
    " BY t ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS m FROM a",
    "hottest": "SELECT t, j, n FROM (SELECT t, j, COUNT(*) AS n, rank() OVER (PARTITION BY t ORDER"
    " BY COUNT(*) DESC) AS r FROM a GROUP BY t, j) AS s WHERE r = 1",
    "partners": "SELECT a.i, s.t, s.r FROM a JOIN (SELECT j, t, dense_rank() OVER (PARTITION BY j"
    " ORDER BY t) AS r FROM b) AS s ON s.j = a.j WHERE s.r = 1",
}
SETS = {
    "except_": "SELECT j, t FROM a EXCEPT SELECT j, t FROM b",
    "both": "SELECT j FROM a INTERSECT SELECT j FROM b WHERE x > -1",
    "except_all": "SELECT t FROM a EXCEPT ALL SELECT t FROM b",
    "both_all": "(SELECT j AS k FROM a INTERSECT ALL SELECT x FROM a) INTERSECT ALL"
    " SELECT j FROM b",
    "inside": "SELECT s.k, a.i FROM (SELECT j AS k FROM b EXCEPT SELECT x FROM a) AS s JOIN a ON"
    " a.j = s.k WHERE a.t IN (SELECT t FROM a EXCEPT ALL SELECT t FROM b)",
}

VALUES = {
    "looked": "SELECT i, (SELECT MAX(x) FROM b WHERE b.j = a.j) AS m FROM a",
    "counted": "SELECT i, (SELECT COUNT(*) FROM b WHERE b.j = a.j AND x > 0) AS n,"
    " (SELECT COALESCE(SUM(b.x), 0) + 1 FROM b WHERE b.j = a.j) AS s FROM a WHERE i > 1",
    "named": "SELECT b.j, (SELECT t FROM a WHERE a.i = b.x) || '!' AS t FROM b",
    "none": "SELECT i FROM a WHERE 0 = (SELECT COUNT(*) FROM b WHERE b.j = a.j)",
    "unknown": "SELECT i FROM a WHERE ((SELECT MAX(x) FROM b WHERE b.j = a.j) > 1) IS NULL",
    "either": "SELECT i FROM a WHERE x = 1 OR x > (SELECT MIN(x) FROM b WHERE b.j = a.j)",
    "two": "SELECT i FROM a WHERE (SELECT MIN(x) FROM b WHERE b.j = a.j)"
    " < (SELECT COUNT(*) FROM b WHERE b.j = a.i)",
}


def draw_writes(random, count):
    """Draw puts and deletes of rows of both relations; some write the same row again."""
    for _ in range(count):
        small, text = random.choice([None, -1, 0, 1, 2, 3]), random.choice([None, "u", "v", "w"])
        key, j = random.randint(0, 9), random.choice([None, 0, 1, 2])
        if random.random() < 0.3:
            yield (random.choice("ab"), (key,), None)
        elif random.random() < 0.6:
            f = random.choice([None, 0.1, 0.2, 0.3, 1e17, -1e17])
            yield ("a", (key, j, small, random.choice([None, D("1.50"), D("2.25")]), f, text))
        else:
            yield ("b", (key, j, text, small))


GROUPING_SETS = {
    "rolled": "SELECT j, t, COUNT(*) AS n, SUM(x) AS s, GROUPING(j, t) AS g FROM a"
    " GROUP BY ROLLUP (j, t)",
    "sets": "SELECT COALESCE(t, '-') AS t, x % 2 AS k, COUNT(*) AS n FROM a WHERE i > 0"
    " GROUP BY GROUPING SETS ((t, x % 2), (t), ()) HAVING COUNT(*) > 1 OR GROUPING(t) = 1",
    "cubed": "SELECT j, t, string_agg(t, '') AS s, AVG(x) AS m FROM b GROUP BY j, CUBE (t)",
}
LATERAL = {
    "lateral": "SELECT a.i, s.x, s.t FROM a CROSS JOIN LATERAL (SELECT b.x, b.t FROM b"
    " WHERE b.j = a.j ORDER BY b.x DESC LIMIT 2) AS s",
    "outer_": "SELECT a.i, s.t FROM a LEFT JOIN LATERAL (SELECT t FROM b WHERE b.j = a.j AND x > 0"
    " ORDER BY x LIMIT 1) AS s ON true",
    "extremes": "SELECT a.i, s.lo, s.hi FROM a, LATERAL (SELECT MIN(b.x) AS lo, MAX(b.t) AS hi"
    " FROM b WHERE b.j = a.j) AS s WHERE a.i > 1",
}
KINDS = {
    "calls": AGGREGATES,
    "ruled": RULED,
    "rows": WINDOWS,
    "sets": SETS,
    "values": VALUES,
    "grouping sets": GROUPING_SETS,
    "lateral": LATERAL,
}


@pytest.mark.parametrize("kind", KINDS)
def test_views_equal_duckdbs_answers_after_every_batch(kind):
    views = KINDS[kind]
    world, random, seen = World(CATALOG, views), Random(7), set()
    for count in (20, 5):
        world.commit(*draw_writes(random, count))
        world.check()
        seen |= {name for name in views if world.store.rows[name]}
    world.check_anew()
    assert seen == views.keys(), "a view without rows shows little"
    pickle.dumps([*world.programs.values()])


def compiled(sql):
    return compile_view(DeclaredView("v", sql), CATALOG)


def test_only_the_partitions_of_changed_rows_are_read():
    world = World(CATALOG, {"v": WINDOWS["best"]})
    rows = [("a", (i, i % 5, i, None, None, None)) for i in range(20)]
    world.commit(*rows)
    change = Change("a", rows[18][1], (18, 4, 18, None, None, None))
    world.store.reads.clear()
    found = asyncio.run(refresh(world.programs["v"], {"a": world.zset("a", [change])}, world.store))
    assert world.store.reads == {("prefixes", "v.rows0"): 2}
    assert {m.layout for m in found} == {"v.rows0", "v"}


def test_a_program_says_by_which_rule_a_view_is_kept():
    lines = [*compiled(AGGREGATES["texts"]).explain()]
    assert lines[0] == "kept by delta rules, partition recompute by (group.a.j)"
    assert lines[1].startswith("0. partition recompute by (group.a.j)")
    assert any(line.startswith("   state v.rows0: ") for line in lines)
    counts = [*compiled(RULED["bools"]).explain()]
    assert counts[0] == "kept by delta rules"
    declared = DeclaredView("v", "SELECT i FROM a LIMIT 3", refresh=Refresh.RECOMPUTE)
    assert compile_view(declared, CATALOG).rule == "the whole SELECT, in each batch"


def test_rows_that_are_equal_but_for_the_order_of_sql_are_told_apart():
    """Each SELECT has one result: what decides between equal rows is added to ORDER BY."""
    assert "ORDER BY x DESC, i, j)" in compiled(WINDOWS["best"]).sql_at(0)
    assert "ORDER BY x DESC, t, ',')" not in compiled(AGGREGATES["texts"]).sql_at(0)
    assert "SUM(f ORDER BY f)" in compiled(AGGREGATES["doubles"]).sql_at(0)
    frame = "SELECT i, SUM(x) OVER (PARTITION BY j ORDER BY t) AS s FROM a"
    assert "ORDER BY t)" in compiled(frame).sql_at(0), "rows that are equal are in one frame"


def test_a_transaction_does_not_maintain_a_partition():
    for sql in (AGGREGATES["texts"], WINDOWS["firsts"]):
        declared = DeclaredView("v", sql, refresh=Refresh.IMMEDIATE)
        with pytest.raises(Unsupported, match="cannot be maintained by transactions") as refused:
            define(declared, CATALOG)
        assert "live" in refused.value.cure


def test_groups_of_several_sets_answer_no_queries():
    """A row is in a group of each set: the sum of all groups would count it several times."""
    declared = DeclaredView("v", GROUPING_SETS["rolled"])
    with pytest.raises(NotAnswered, match="grouping sets"):
        aggregate_view(outline(declared, CATALOG), CATALOG)


def test_hidden_keys_decide_between_rows_that_look_equal():
    """The rows of a view, with the hidden columns of its key, do not depend on the order of
    batches."""
    views = {
        "numbered": "SELECT j, row_number() OVER (PARTITION BY j ORDER BY x) AS r FROM a",
        "chosen": "SELECT s.t FROM b CROSS JOIN LATERAL (SELECT t FROM a WHERE a.j = b.j LIMIT 2)"
        " AS s",
    }
    world = World(CATALOG, views)
    world.commit(*(("a", (i, 1, 2, None, None, "u")) for i in (5, 7, 3)), ("b", (1, 1, "u", 1)))
    world.commit(*(("a", (i, 1, 2, None, None, "u")) for i in (1, 6)), ("a", (5,), None))
    world.check()
    assert {(row[-1], row[1]) for row in world.store.rows["numbered"].values()} == {
        (1, 1), (3, 2), (6, 3), (7, 4),
    }  # fmt: skip
    world.check_anew()
