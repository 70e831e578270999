"""WITH RECURSIVE: incremental = recomputed = DuckDB, with cycles, self edges, NULLs, deletions."""

import asyncio
import pickle
from decimal import Decimal as D
from random import Random

import pytest

from hornbeam_server.maintain.changes import Change
from hornbeam_server.maintain.deltas.program import compile_view, refresh
from hornbeam_server.maintain.deltas.rows import recursion
from hornbeam_server.maintain.immediate.definition import define
from hornbeam_server.schema.errors import LimitExceeded, Unsupported
from hornbeam_server.schema.model import DeclaredView, Refresh
from tests.maintain.deltas.deltas_world import World, catalog_of

DDL = """
CREATE TABLE node (n INTEGER PRIMARY KEY, up INTEGER, kind TEXT, worth DECIMAL(9,2));
CREATE TABLE edge (i INTEGER PRIMARY KEY, a INTEGER, b BIGINT, w INTEGER);
CREATE INDEX node_up ON node (up); CREATE INDEX edge_a ON edge (a); CREATE INDEX edge_b ON edge (b);
CREATE INDEX node_kind ON node (kind);
"""
CATALOG = catalog_of(DDL)

CYCLIC = {
    "closure": "WITH RECURSIVE r (a, b) AS (SELECT a, b FROM edge UNION SELECT r.a, e.b FROM r"
    " JOIN edge e ON e.a = r.b) SELECT a, b FROM r",
    "reached": "WITH RECURSIVE r AS (SELECT n, 'x' || n AS t FROM node WHERE kind = 'u' UNION"
    " SELECT e.b, t FROM edge e, r WHERE e.a = r.n AND e.w > 0) SELECT t, COUNT(*) AS c, MAX(n)"
    " AS m FROM r GROUP BY t",
    "named": "WITH RECURSIVE r (s, n) AS (SELECT n, n FROM node UNION SELECT s, b FROM r JOIN edge"
    " ON a = n WHERE s <> b) SELECT r.s, r.n, p.kind, q.worth FROM r JOIN node p ON p.n = r.s"
    " LEFT JOIN node q ON q.n = r.n",
    "bounded": "WITH RECURSIVE r (s, n, d) AS (SELECT n, n, 0 FROM node WHERE up IS NULL UNION ALL"
    " SELECT s, b, d + 1 FROM r JOIN edge ON a = n WHERE d < 3) SELECT s, n, d FROM r",
    "pathed": "WITH RECURSIVE r (n, path) AS (SELECT n, ARRAY[n] FROM node WHERE kind = 'v' UNION"
    " ALL SELECT n.n, path || n.n FROM r JOIN node n ON n.up = r.n WHERE NOT n.n = ANY (path))"
    " SELECT n, array_to_string(path, '/') AS p FROM r",
    "cycled": "WITH RECURSIVE r (n) AS (SELECT n FROM node WHERE kind = 'u' UNION ALL SELECT e.b"
    " FROM r JOIN edge e ON e.a = r.n) CYCLE n SET looped USING p SELECT n, looped, COUNT(*) AS c"
    " FROM r GROUP BY n, looped",
    "two_hops": "WITH RECURSIVE hop AS (SELECT e.a, f.b, COUNT(*) AS ways FROM edge e JOIN edge f"
    " ON f.a = e.b GROUP BY e.a, f.b), r (n) AS (SELECT up FROM node UNION SELECT hop.b FROM hop"
    " JOIN r ON r.n = hop.a WHERE ways < 3) SELECT n FROM r",
    "under": "SELECT n.n FROM node n WHERE NOT EXISTS (WITH RECURSIVE r (m) AS (SELECT b FROM edge"
    " WHERE w = 1 UNION SELECT b FROM edge JOIN r ON a = m) SELECT 1 FROM r WHERE m = n.n)",
    "numbers": "WITH RECURSIVE r (n, i) AS (SELECT n, 1 FROM node UNION ALL SELECT n, i + 1 FROM r"
    " WHERE i < n) SELECT n, COUNT(*) AS c FROM r GROUP BY n",
    "widened": "WITH RECURSIVE r (n, v) AS (SELECT n, worth FROM node UNION SELECT b, v / 2 FROM r"
    " JOIN edge ON a = n AND v > 1 WHERE w = 2) SELECT n, v FROM r",
    "by_duckdb": "WITH RECURSIVE r (n, t) AS (SELECT n, CAST(ascii(kind) AS TEXT) FROM node UNION"
    " ALL SELECT b, translate(t || CAST(a AS TEXT), $$0$$, $$z$$) FROM r JOIN edge ON a = n"
    " WHERE length(t) < 6)"
    " SELECT n, t FROM r",
}
ACYCLIC = {
    "tree": "WITH RECURSIVE r (root, n, depth) AS (SELECT n, n, 0 FROM node WHERE up IS NULL UNION"
    " ALL SELECT r.root, c.n, r.depth + 1 FROM node c JOIN r ON c.up = r.n) SELECT r.root, r.depth,"
    " COUNT(*) AS c, SUM(n.worth) AS s FROM r JOIN node n ON n.n = r.n GROUP BY r.root, r.depth",
    "parts": "WITH RECURSIVE r (top, part, amount) AS (SELECT n, n, 1 FROM node UNION ALL SELECT"
    " top, CAST(e.b AS INTEGER), r.amount * e.w FROM r JOIN edge e ON e.a = r.part JOIN node n ON"
    " n.n = e.b WHERE n.kind IS NOT NULL) SELECT top, part, SUM(amount) AS total FROM r"
    " GROUP BY top, part",
    "paths": "WITH RECURSIVE r (n) AS (SELECT n FROM node WHERE kind = 'u' UNION ALL SELECT e.b"
    " FROM r JOIN edge e ON e.a = r.n) SELECT n FROM r",
}


def draw_writes(random, count, *, cyclic):
    """Draw puts and deletes of nodes and edges. If not `cyclic`, edges go to greater numbers."""
    for _ in range(count):
        key, kind = random.randint(0, 7), random.choice([None, "u", "v"])
        ends = [random.choice([None, *range(8)]) for _ in range(2)]
        a, b = ends if cyclic or None in ends else sorted(ends)
        if not cyclic and a == b:
            b = None
        up = random.choice([None, *range(8 if cyclic else key)])
        chosen = random.random()
        if chosen < 0.3:
            yield (random.choice(["node", "edge"]), (random.randint(0, 11),), None)
        elif chosen < 0.6:
            yield ("node", (key, up, kind, random.choice([None, D("1.50"), D("7.00")])))
        else:
            yield ("edge", (random.randint(0, 11), a, b, random.randint(0, 3)))


@pytest.mark.parametrize("name", [*CYCLIC, *ACYCLIC])
def test_recursions_equal_duckdbs_answers_after_every_batch(name):
    cyclic, seen = name in CYCLIC, 0
    world = World(CATALOG, {name: (CYCLIC | ACYCLIC)[name]})
    random = Random(name)
    for count in (25, 1, 4, 1, 12, 2, 1, 1, 6):
        world.commit(*draw_writes(random, count, cyclic=cyclic))
        world.check()
        seen += len(world.store.rows[name])
    world.check_anew()
    assert seen, "a view without rows shows little"
    world.programs[name] = pickle.loads(pickle.dumps(world.programs[name]))
    world.commit(*draw_writes(random, 6, cyclic=cyclic))
    world.check()


def compiled(sql):
    return compile_view(DeclaredView("v", sql), CATALOG)


def test_a_program_says_that_a_view_follows_a_recursion():
    lines = [*compiled(CYCLIC["named"]).explain()]
    assert lines[0] == "kept by delta rules, recursion from changed rows"
    assert lines[1:5] == [
        "0. recursion (UNION) from changed rows, deletions included (changes of node, edge)",
        "   joined rows: edge through edge_a by a",
        "   state recursion0: all rows with their numbers of derivations, by (r.n)",
        "   state recursion0_1: all rows with their numbers of derivations, by (r.s)",
    ]


def test_a_change_reads_the_rows_that_follow_from_it_and_no_others():
    world = World(CATALOG, {"v": CYCLIC["closure"]})
    chains = [
        ("edge", (10 * c + i, 10 * c + i, 10 * c + i + 1, 1)) for c in range(5) for i in range(5)
    ]
    world.commit(*chains)
    world.store.found.clear()
    world.commit(("edge", (3, 3, 4, 2)))  # no column that the view reads
    assert not world.store.found.total()
    gone = world.zset("edge", [Change("edge", (3, 3, 4, 2), None)])
    found = asyncio.run(refresh(world.programs["v"], {"edge": gone}, world.store))
    assert len(found) == 2 * 4 * 2, "4 origins, 2 ends, and each in the view and in its state"
    assert world.store.found == {"v.recursion0": 3 + 8, "edge_a": 1, "edge": 1}


def test_rows_that_only_derive_each_other_go():
    world = World(CATALOG, {"v": CYCLIC["closure"]})
    world.commit(*(("edge", (i, a, b, 1)) for i, (a, b) in enumerate([(0, 1), (1, 2), (2, 1)])))
    world.commit(("edge", (0,), None))
    world.check()
    assert {row[:2] for row in world.store.rows["v"].values()} == {(1, 2), (2, 1), (1, 1), (2, 2)}


def test_a_path_that_closes_where_its_start_leaves_ends():
    """The rows of the result before are followed without the edges that come, those of the result
    after with them: so both end."""
    world = World(CATALOG, {"v": ACYCLIC["paths"]})
    world.commit(("node", (1, None, "u", None)), ("edge", (1, 1, 2, 1)))
    world.commit(("node", (1,), None), ("edge", (2, 2, 1, 1)), ("edge", (3, 2, 2, 1)))
    world.check()
    assert not world.store.rows["v"]


@pytest.mark.parametrize(
    ("step", "rows"),
    [("SELECT n FROM r", 1), ("SELECT e.b FROM r JOIN edge e ON e.a = r.n", 1)],
    ids=["without", "cycle"],
)
def test_a_recursion_without_an_end_is_an_error_with_a_cure(step, rows):
    sql = f"WITH RECURSIVE r AS (SELECT n FROM node UNION ALL {step}) SELECT n FROM r"
    world = World(CATALOG, {"v": sql})
    with pytest.raises(LimitExceeded, match="may have no end") as error:
        world.commit(("edge", (1, 1, 1, 1)), ("node", (1, None, None, None)))
    assert "UNION instead of UNION ALL" in error.value.cure


def test_a_recursion_of_too_many_rows_is_an_error(monkeypatch):
    monkeypatch.setattr(recursion, "MAX_ROWS", 3)
    world = World(CATALOG, {"v": CYCLIC["closure"]})
    with pytest.raises(LimitExceeded, match="more than 3 rows"):
        world.commit(*(("edge", (i, i, i + 1, 1)) for i in range(4)))


STEPS = {
    "SELECT b FROM r LEFT JOIN edge ON a = n": "with a left join",
    "SELECT b FROM r JOIN edge ON a > n": "without an equality",
    "SELECT b FROM r JOIN edge ON a = n + 1": "without an equality",
    "SELECT b FROM (SELECT n + 1 AS m FROM r) AS s JOIN edge ON a = m": "by a computed value",
    "SELECT b FROM r JOIN edge ON w = n": "Rows of edge are looked up by w",
    "SELECT max(n) FROM r": "groups",
    "SELECT b FROM r JOIN edge ON a = n WHERE EXISTS (SELECT 1 FROM node x WHERE x.n = b)": "semi",
    "SELECT n FROM node WHERE n IN (SELECT n FROM r)": "with a semi join",
    "SELECT s.n FROM r JOIN r AS s ON s.n = r.n": "does not read its own rows once",
    "SELECT (SELECT MAX(b) FROM edge WHERE a = r.n) FROM r": "with a left join",
    "(SELECT b FROM r JOIN edge ON a = n LIMIT 3)": "LIMIT",
}


@pytest.mark.parametrize("step", STEPS)
def test_a_recursive_term_that_has_no_rule_is_refused_by_name(step):
    sql = f"WITH RECURSIVE r AS (SELECT n FROM node UNION {step}) SELECT n FROM r"
    with pytest.raises(Unsupported) as refused:
        compiled(sql)
    assert STEPS[step] in refused.value.message
    assert refused.value.cure
    assert not compile_view(DeclaredView("v", sql, refresh=Refresh.RECOMPUTE), CATALOG).stages


def test_other_columns_and_forms_that_are_refused():
    r = "WITH RECURSIVE r (n, x) AS (SELECT n, {} FROM node UNION SELECT b, x FROM r JOIN edge ON"
    for value, reason in {
        "INTERVAL '1 day'": "INTERVAL column",
        "now()": "The current time",
    }.items():
        with pytest.raises(Unsupported, match=reason):
            compiled(f"{r.format(value)} a = n) SELECT n FROM r")
    with pytest.raises(Unsupported, match="can be no part of a key"):
        compiled(f"{r.format('ARRAY[n]')} a = n) SELECT n, x FROM r")
    immediate = DeclaredView("v", ACYCLIC["tree"], refresh=Refresh.IMMEDIATE)
    with pytest.raises(Unsupported, match="WITH RECURSIVE cannot be maintained by transactions"):
        define(immediate, CATALOG)


def test_with_recursive_without_a_recursion_is_with():
    sql = "WITH RECURSIVE r AS (SELECT n FROM node), s AS (SELECT n FROM r) SELECT n FROM s"
    assert compiled(sql).rule == "delta rules"
    distinct = CYCLIC["closure"].replace("UNION SELECT", "UNION SELECT DISTINCT")
    assert compiled(distinct).rule == "delta rules, recursion from changed rows"
