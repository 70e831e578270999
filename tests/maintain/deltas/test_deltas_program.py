"""Compilation of a view's SELECT, its refusals, and single rules of delta programs."""

import asyncio
import pickle
from dataclasses import replace
from decimal import Decimal as D
from random import Random

import pytest

from hornbeam_server.maintain.changes import Change
from hornbeam_server.maintain.deltas.program import (
    compile_view,
    planned_program,
    refresh,
    stored_program,
)
from hornbeam_server.schema.catalog import State
from hornbeam_server.schema.errors import Corruption, SqlError, UnknownName, Unsupported
from hornbeam_server.schema.model import DeclaredView
from hornbeam_server.schema.quotients import quotient
from hornbeam_server.schema.views import DeferredView
from tests.duckdb_oracle import connect
from tests.maintain.deltas.deltas_world import Rows, World, catalog_of

DDL = """
CREATE TABLE a (i INTEGER PRIMARY KEY, j INTEGER, x INTEGER, d DECIMAL(9,2), f DOUBLE, t TEXT,
    o JSON);
CREATE TABLE b (i INTEGER NOT NULL, n INTEGER NOT NULL, j INTEGER, x INTEGER, t TEXT,
    PRIMARY KEY (i, n));
CREATE INDEX b_j ON b (j);
"""
CATALOG = catalog_of(DDL)


def compiled(sql, catalog=CATALOG):
    return compile_view(DeclaredView("v", sql), catalog)


def names(columns):
    return [column.name for column in columns]


def keys(program):
    return [part.column for part in program.key]


REFUSED = {
    "SELECT x FROM a ORDER BY x": "ORDER BY cannot be kept",
    "SELECT x FROM a LIMIT 3": "LIMIT cannot be kept",
    "SELECT i, row_number() OVER () AS n FROM a": "A window over all rows",
    "SELECT ntile(2) OVER (PARTITION BY j), rank() OVER (PARTITION BY t) FROM a": "Windows have no",
    "SELECT i, SUM(f) OVER (PARTITION BY j) AS s FROM a": "the order in which it adds doubles",
    "SELECT i, last_value(x) OVER (PARTITION BY j ORDER BY t) AS n FROM a": "order of equal rows",
    "SELECT i, entropy(x) OVER (PARTITION BY j) AS n FROM a": "entropy with OVER",
    "SELECT i, random() AS n FROM a": "gives another value each time",
    "SELECT i FROM a WHERE f > random()": "gives another value each time",
    "SELECT i, current_date AS n FROM a": "outside WHERE and HAVING",
    "SELECT SUM(f) AS s FROM a": 'SUM("a.f") of DOUBLE over all rows',
    "SELECT AVG(f) AS s FROM a": "of DOUBLE over all rows",
    "SELECT SUM(m) AS s FROM (SELECT AVG(f) AS m FROM a GROUP BY j) AS g": "of DOUBLE over all",
    "SELECT median(x) AS m FROM a": "MEDIAN(",
    "SELECT string_agg(t, '') AS m FROM a": "over all rows would be computed again",
    "SELECT SUM(DISTINCT x) AS s FROM a": "SUM(DISTINCT",
    "SELECT j, json_group_array(i) AS m FROM a GROUP BY j": "The aggregate json_group_array",
    "SELECT j, jsonb_agg(i) AS m FROM a GROUP BY j": "An aggregate of JSON",
    "SELECT s.n FROM a, LATERAL (SELECT COUNT(*) AS n FROM b WHERE b.i = a.i) AS s": "no rows",
    "SELECT s.x FROM a, LATERAL (SELECT x FROM b LIMIT 2) AS s": "A window over all rows",
    "SELECT s.x FROM a, LATERAL (SELECT x FROM b WHERE b.i < a.i LIMIT 2) AS s": "other than by =",
    "SELECT s.x FROM a, LATERAL (SELECT x FROM b WHERE b.i = a.i OFFSET 2) AS s": "LIMIT cannot",
    "SELECT o FROM a EXCEPT SELECT o FROM a": "EXCEPT cannot use the JSON column",
    "SELECT DISTINCT ON (x) x, rank() OVER (PARTITION BY t) AS r FROM a": "beside a window",
    "SELECT x, rank() OVER (PARTITION BY x) AS r FROM a GROUP BY ROLLUP (x)": "beside a window",
    "SELECT x, SUM(f) AS s FROM a GROUP BY ROLLUP (x)": "over all rows",
    "SELECT x FROM a WHERE i = ?": "A parameter",
    "SELECT a.i FROM a, b": "An inner join has no equality of two columns",
    "SELECT a.i FROM a JOIN b ON a.x < b.x": "no equality of two columns",
    "SELECT a.i FROM a JOIN b ON a.i = b.x": "Rows of b are looked up by x",
    "SELECT a.i FROM a JOIN b ON a.j = b.j": "Rows of a are looked up by j",
    "SELECT a.i FROM a JOIN (SELECT i + 1 AS k FROM b) AS s ON a.i = s.k": "which is computed",
    "SELECT i FROM a WHERE x NOT IN (SELECT x FROM b)": "A value of NOT IN may be NULL",
    "SELECT i FROM a WHERE x = 1 OR EXISTS (SELECT * FROM b WHERE b.i = a.i)": "A subquery here",
    "SELECT i, (SELECT MAX(x) FROM b) AS m FROM a": "All rows of a would be read",
    "SELECT i FROM a WHERE x > (SELECT x FROM b)": "may have several rows",
    "SELECT i FROM a WHERE x > (SELECT x FROM b WHERE b.i = a.i)": "may have several rows",
    "SELECT i FROM a WHERE x > (SELECT MAX(x) FROM b WHERE b.i < a.i)": "other than by =",
    "SELECT i FROM a WHERE x > (SELECT COUNT(*) + a.j FROM b WHERE b.i = a.i)": "where it finds no",
    "SELECT t FROM a GROUP BY t HAVING EXISTS (SELECT * FROM b WHERE b.t = a.t)": "A subquery",
    "SELECT t FROM a GROUP BY t HAVING SUM(x) + 1 > (SELECT MAX(x) FROM b)": "All rows of a",
    "SELECT i FROM a WHERE x + 1 > (SELECT MAX(x) FROM b)": "its rows were not counted",
    "SELECT i FROM a WHERE x > (SELECT MAX(x) FROM b)": "Rows of a are looked up by x",
    "SELECT COUNT(*) AS n FROM a GROUP BY o": "GROUP BY cannot use the JSON column",
    "SELECT o FROM a UNION ALL SELECT o FROM a": "being JSON",
    "SELECT 1 AS x": "reads no relation",
    "SELECT x AS n, i AS n FROM a": "A column and another one are called n",
    "SELECT x AS _w FROM a": "is called _w",
    "SELECT s.x FROM (SELECT x FROM a) AS s, range(3)": "in FROM",
    "SELECT x FROM (SELECT x FROM a)": "has no alias",
    "SELECT a.i FROM a FULL JOIN b USING (i)": "FULL JOIN",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_selects_that_cannot_be_maintained_are_refused_with_a_cure(sql):
    with pytest.raises(Unsupported) as refused:
        planned_program(DeclaredView("v", sql), CATALOG)
    assert REFUSED[sql] in refused.value.message
    assert refused.value.cure


def test_invalid_sql_raises_the_usual_errors():
    with pytest.raises(UnknownName):
        compiled("SELECT y FROM a")
    with pytest.raises(SqlError, match="GROUP BY"):
        compiled("SELECT x, COUNT(*) AS n FROM a GROUP BY t")


def test_a_missing_index_is_the_cure():
    sql = "SELECT a.i FROM a JOIN b ON a.i = b.x"
    with pytest.raises(Unsupported) as refused:
        compiled(sql)
    assert refused.value.cure == "CREATE INDEX ON b (x)"
    with_index = catalog_of(DDL + "CREATE INDEX b_x ON b (x);")
    assert "   right rows: b through b_x by x" in [*compiled(sql, with_index).explain()]
    building = replace(with_index, states=(("b_x", State.BUILDING),))
    with pytest.raises(Unsupported):
        compiled(sql, building)


def test_keys_identify_a_row():
    assert keys(compiled("SELECT t, i FROM a")) == ["i"]
    hidden = compiled("SELECT t FROM a")
    assert (names(hidden.hidden), keys(hidden)) == (["_i"], ["_i"])
    joined = compiled("SELECT b.i, n, a.t FROM b JOIN a ON a.i = b.i")
    assert keys(joined) == ["i", "n"]
    outer = compiled("SELECT b.t FROM a LEFT JOIN b ON b.j = a.i")
    assert names(outer.hidden) == ["_i", "_i_2", "_n"]
    many = compiled("SELECT b.t FROM b JOIN b AS c ON c.j = b.j")
    assert names(many.hidden) == ["_i", "_n", "_i_2", "_n_2"]
    assert keys(compiled("SELECT t, COUNT(*) AS n FROM a GROUP BY t")) == ["t"]
    group = compiled("SELECT COUNT(*) AS n FROM a GROUP BY t")
    assert (names(group.hidden), keys(group)) == (["_t"], ["_t"])
    bag = compiled("SELECT t FROM a UNION ALL SELECT t FROM b")
    assert (names(bag.hidden), keys(bag)) == (["_copy"], ["t", "_copy"])
    one = compiled("SELECT COUNT(*) AS n FROM a")
    assert (names(one.hidden), keys(one)) == (["_one"], ["_one"])


def test_hidden_names_avoid_given_names():
    views = {
        "copy": "SELECT t AS _copy FROM a UNION ALL SELECT t FROM b",
        "one": "SELECT COUNT(*) AS _one, MAX(x) AS _copy FROM a",
        "key": "SELECT t AS _i FROM a",
        "dots": 'SELECT "a.b".i, "a_b".t FROM a AS "a.b" JOIN a AS "a_b" ON "a.b".i = "a_b".i',
    }
    world = World(CATALOG, views)
    assert names(world.programs["copy"].hidden) == ["_copy_2"]
    assert names(world.programs["one"].hidden) == ["_one_2"]
    assert names(world.programs["key"].hidden) == ["_i_2"]
    for writes in ([("a", a_row(i, x=i, t="t")) for i in range(3)], [("a", (1,), None)]):
        world.commit(*writes)
        world.check()


def test_states_depend_on_the_select_alone():
    grouped = "SELECT t, j, MIN(x) AS m FROM b GROUP BY t, j"
    sql = f"SELECT a.i, s.m FROM a JOIN ({grouped}) AS s ON a.i = s.j"
    program = compiled(sql)
    assert [names(state.columns) for state in program.states] == [
        ["g0", "g1", "_count", "min0"],
        ["g0", "g1", "value", "copies"],
    ]
    assert [part.column for part in program.states[1].key] == ["g0", "g1", "value"]
    assert "   right rows: v.groups0 by group.b.j" in [*program.explain()]
    more = catalog_of(DDL + "CREATE INDEX a_x ON a (x);")
    assert compiled(sql, more).states == program.states


VALUES = {
    "correlated": "SELECT i FROM a WHERE x >= (SELECT MAX(x) FROM b WHERE b.i = a.i)",
    "in_sums": "SELECT i FROM a WHERE x < (SELECT 2 * AVG(x) - 1 FROM b WHERE b.i = a.i) + 1",
    "twice": "SELECT i FROM a WHERE x = (SELECT MIN(x) FROM b WHERE b.i = a.i AND b.t = a.t)"
    " AND j <= (SELECT SUM(n) FROM b WHERE b.i = a.i)",
    "between": "SELECT i FROM a WHERE x BETWEEN 0 AND (SELECT SUM(x) FROM b WHERE a.i = b.i)",
    "same": "SELECT i FROM a WHERE x <> (SELECT MAX(x) FROM b WHERE b.i = a.i AND b.i = a.j)",
    "having": "SELECT i, SUM(x) AS s FROM b GROUP BY i HAVING SUM(x) > (SELECT AVG(x) FROM b)"
    " AND COUNT(*) > 0",
    "most": "SELECT i, n FROM (SELECT i, COUNT(*) AS n, AVG(x) AS m FROM b GROUP BY i) AS c"
    " WHERE n = (SELECT MAX(k) FROM (SELECT COUNT(*) AS k FROM b GROUP BY i) AS d)",
    "group": "SELECT i, MIN(x) AS m FROM b GROUP BY i HAVING i >= (SELECT MAX(j) FROM a)",
    "their_own": "SELECT t, SUM(x) AS s FROM b GROUP BY t"
    " HAVING SUM(x) <= (SELECT SUM(x) FROM a WHERE a.t = b.t)",
    "either": "SELECT a.i, b.n FROM a, b WHERE a.x > 1 AND a.i = b.i OR a.i = b.i AND b.x < 2",
}


def test_values_of_subqueries_are_compared():
    more = catalog_of(DDL + "CREATE INDEX a_j ON a (j); CREATE INDEX a_x ON a (x);"
                      "CREATE INDEX a_t ON a (t);")  # fmt: skip
    world = World(more, VALUES)
    states = {name: [s.name for s in p.states] for name, p in world.programs.items()}
    ranked = {name for name, found in states.items() if any("ranks" in state for state in found)}
    assert ranked == {"having", "most"}
    pickle.dumps([compiled(sql, more) for sql in VALUES.values()])
    random, seen = Random(2), set()
    for _ in range(7):
        writes = []
        for _ in range(10):
            i, small = random.randint(0, 4), random.choice([None, -1, 0, 1, 2, 3])
            text = random.choice(["u", "v", None])
            if random.random() < 0.5:
                writes.append(("a", a_row(i, random.randint(0, 4), small, t=text)))
            else:
                writes.append(("b", (i, random.randint(0, 2), None, small, text)))
            if random.random() < 0.3:
                writes[-1] = (*writes[-1][:1], writes[-1][1][: 1 + (writes[-1][0] == "b")], None)
        world.commit(*writes)
        world.check()
        seen |= {name for name in VALUES if world.store.rows[name]}
    world.check_anew()
    assert seen == VALUES.keys(), "a view without rows shows little"


def test_groups_are_looked_up_by_their_aggregates():
    """Only the groups between the old and the new bound are read."""
    sql = "SELECT i, SUM(x) AS s FROM b GROUP BY i HAVING SUM(x) > (SELECT MAX(x) FROM a)"
    world = World(CATALOG, {"v": sql})
    words = "v.groups0 through v.ranks0_0 by call.0, between the old and the new bound"
    assert f"   left rows: {words}" in [*world.programs["v"].explain()]
    world.commit(("a", a_row(1, x=50)), *(("b", (i, 0, None, i, None)) for i in range(100)))
    world.store.reads.clear()
    world.commit(("a", a_row(2, x=52)))
    world.check()
    assert world.store.reads["get", "v.groups0"] == 3  # 50, 51, 52
    assert len(world.store.rows["v"]) == 47


def test_types_are_those_of_postgresql():
    program = compiled(
        "SELECT t, SUM(d) AS s, SUM(x) AS h, AVG(x) AS a, MAX(d) AS m FROM a GROUP BY t"
    )
    types = [column.type.sql() for column in program.columns]
    assert types == ["TEXT", "DECIMAL(38,2)", "BIGINT", "DECIMAL(38,20)", "DECIMAL(9,2)"]


def test_an_older_view_keeps_its_stored_types():
    declared = DeclaredView("v", "SELECT t, SUM(x) + SUM(d) AS both, SUM(x) AS s FROM a GROUP BY t")
    wide = compile_view(declared, CATALOG, wide_sums=True)
    assert [column.type.sql() for column in wide.columns][2] == "DECIMAL(38,0)"
    new = compile_view(declared, CATALOG)
    assert [column.type.sql() for column in new.columns][2] == "BIGINT"
    for program in (wide, new):
        made = (program.relations, program.columns, program.hidden, program.key, program.states)
        found = stored_program(DeferredView(declared, *made), CATALOG)
        assert found is not None
        assert (found.columns, found.asked) == (program.columns, program.asked)
    other = DeferredView(declared, new.relations, new.columns[:2], (), new.key, new.states)
    assert stored_program(other, CATALOG) is None


@pytest.mark.parametrize("mean", ["SUM(d) / COUNT(*)", "AVG(d)", "AVG(x)"])
def test_an_older_view_keeps_its_quotients_and_averages(mean):
    declared = DeclaredView("v", f"SELECT t, {mean} AS mean FROM a GROUP BY t")
    old = compile_view(declared, CATALOG, double_quotients=True)
    new = compile_view(declared, CATALOG)
    for program, type_ in ((old, "DOUBLE"), (new, "DECIMAL(38,20)")):
        assert [column.type.sql() for column in program.columns] == ["TEXT", type_]
        made = (program.relations, program.columns, program.hidden, program.key, program.states)
        found = stored_program(DeferredView(declared, *made), CATALOG)
        assert found is not None
        assert found.asked == program.asked


def test_a_program_can_be_pickled_also_after_it_has_run():
    sql = "SELECT a.t, MIN(b.x) AS m FROM a LEFT JOIN b ON b.j = a.i GROUP BY a.t"
    world = World(CATALOG, {"v": sql})
    world.commit(("a", a_row(1, t="x")), ("b", (1, 1, 1, 1, "y")))
    program = world.programs["v"]
    arrived = pickle.loads(pickle.dumps(program))
    assert [*arrived.explain()] == [*program.explain()]
    world.programs["v"] = arrived
    world.commit(("b", (1, 2, 1, 0, "y")))
    world.check()


def test_nothing_is_read_for_a_first_build():
    world = World(CATALOG, {"v": "SELECT a.i, b.n FROM a JOIN b ON a.i = b.j"})
    changes = {
        "a": world.zset("a", [Change("a", None, a_row(1))]),
        "b": world.zset("b", [Change("b", None, (1, 1, 1, 1, "x"))]),
    }
    mutations = asyncio.run(refresh(world.programs["v"], changes, world.store))
    assert [m.new for m in mutations] == [(1, 1, 1)]


def a_row(i, j=None, x=None, d=None, t=None):
    return (i, j, x, d, None, t, None)


def test_an_update_of_an_unread_column_reads_nothing():
    world = World(CATALOG, {"v": "SELECT t, COUNT(*) AS n FROM a GROUP BY t"})
    world.commit(("a", a_row(1, t="x", x=1)))
    world.store.reads.clear()
    world.commit(("a", a_row(1, t="x", x=2)))
    assert not world.store.reads


def test_only_changed_keys_are_looked_up():
    sql = "SELECT a.i, b.n FROM a LEFT JOIN b ON b.j = a.i"
    world = World(CATALOG, {"v": sql})
    world.commit(*(("a", a_row(i)) for i in range(9)), *(("b", (i, 0, i, 0, "")) for i in range(9)))
    world.store.reads.clear()
    change = Change("b", (3, 0, 3, 0, ""), None)
    changes = {"b": world.zset("b", [change])}
    asyncio.run(refresh(world.programs["v"], changes, world.store))
    assert world.store.reads == {("get", "a"): 1, ("prefixes", "b_j"): 1, ("get", "b"): 1}


def test_an_aggregate_over_no_rows_has_a_row_and_a_group_has_none():
    views = {
        "one": "SELECT COUNT(*) AS n, SUM(x) AS s, MIN(x) AS m FROM a",
        "some": "SELECT x, COUNT(*) AS n FROM a GROUP BY x",
        "none": "SELECT COUNT(*) AS n FROM a HAVING COUNT(*) > 0",
    }
    world = World(CATALOG, views)
    assert [*world.store.rows["one"].values()] == [(0, None, None, 1)]
    world.commit(("a", a_row(1, x=2)))
    assert [*world.store.rows["one"].values()] == [(1, D(2), 2, 1)]
    assert [*world.store.rows["none"].values()] == [(1, 1)]
    world.commit(("a", (1,), None))
    assert [*world.store.rows["one"].values()] == [(0, None, None, 1)]
    for gone in ("some.groups0", "none", "one.values0_0"):
        assert not world.store.rows[gone]


def test_copies_of_a_row_are_numbered_from_one():
    world = World(CATALOG, {"v": "SELECT t FROM a UNION ALL SELECT t FROM b"})
    world.commit(*(("a", a_row(i, t="x")) for i in range(2)), ("b", (1, 1, 1, 1, "x")))
    assert {*world.store.rows["v"].values()} == {("x", 1), ("x", 2), ("x", 3)}
    world.commit(("a", (0,), None), ("b", (1, 1, 1, 1, "y")))
    assert {*world.store.rows["v"].values()} == {("x", 1), ("y", 1)}


def test_a_distinct_row_stays_while_one_of_its_copies_exists():
    union = "SELECT t FROM a UNION SELECT t FROM b"
    world = World(CATALOG, {"v": "SELECT DISTINCT t FROM a", "u": union})
    world.commit(*(("a", a_row(i, t="x")) for i in range(2)), ("b", (1, 1, 1, 1, "x")))
    for gone in (("a", (0,), None), ("a", (1,), None), ("b", (1, 1), None)):
        world.check()
        world.commit(gone)
    assert not world.store.rows["v"]
    assert not world.store.rows["u"]


def test_the_next_minimum_is_read_when_the_minimum_is_deleted():
    world = World(CATALOG, {"v": "SELECT t, MIN(x) AS lo, MAX(x) AS hi FROM a GROUP BY t"})
    world.commit(*(("a", a_row(i, x=x, t="g")) for i, x in enumerate([1, 1, 2, 3, 4, 5, 5])))
    for gone, expected in ((0, (1, 5)), (1, (2, 5)), (6, (2, 5)), (5, (2, 4))):
        world.commit(("a", (gone,), None))
        assert [row[1:] for row in world.store.rows["v"].values()] == [expected]
    world.commit(("a", (2,), None), ("a", (3,), None), ("a", a_row(9, x=0, t="g")))
    assert [row[1:] for row in world.store.rows["v"].values()] == [(0, 4)]
    world.check()
    world.check_anew()


def test_outer_joins_contain_rows_without_a_partner():
    full = "SELECT a.i, a.x, b.n FROM a FULL JOIN b ON b.j = a.i"
    views = {
        "full": full,
        "right": "SELECT a.i, b.n FROM a RIGHT JOIN b ON b.j = a.i",
        "counts": f"SELECT x, COUNT(*) AS c FROM ({full}) AS f GROUP BY x",
    }
    world = World(CATALOG, views)
    world.commit(("a", a_row(1, x=1)), ("a", a_row(2, x=2)), ("b", (5, 5, 3, 1, "")))
    world.check()
    assert len(world.store.rows["full"]) == 3
    for write in (("b", (5, 5, 2, 1, "")), ("b", (6, 6, 2, 1, "")), ("a", (2,), None)):
        world.commit(write)
        world.check()


def test_rows_between_the_old_and_the_new_bound_change():
    """A NULL bound matches no rows, so all rows beyond the next bound appear."""
    rows = "x FROM a WHERE x"
    views = {
        "above": f"SELECT {rows} > (SELECT AVG(x) FROM b)",
        "from": f"SELECT {rows} >= (SELECT MAX(x) FROM b)",
        "below": f"SELECT {rows} < (SELECT AVG(x) FROM b)",
        "mirrored": "SELECT x FROM a WHERE (SELECT MIN(x) FROM b) >= x",
    }
    world = World(catalog_of(DDL + "CREATE INDEX a_x ON a (x);"), views)
    world.commit(*(("a", a_row(i, x=i)) for i in range(6)))
    for x in (2, 3, None, 4, None):
        write = ("b", (1, 1), None) if x is None else ("b", (1, 1, None, x, ""))
        world.commit(write)
        world.check()
    world.commit(("b", (1, 1, None, 3, "")), ("a", a_row(3, x=9)))
    world.check()


def test_joins_of_joins_by_several_columns():
    ddl = """
    CREATE TABLE r (i INTEGER NOT NULL, n INTEGER NOT NULL, x INTEGER, PRIMARY KEY (i, n));
    CREATE TABLE s (n INTEGER NOT NULL, i INTEGER NOT NULL, x INTEGER, PRIMARY KEY (i, n));
    CREATE TABLE t (x INTEGER PRIMARY KEY, y INTEGER);
    CREATE INDEX r_x ON r (x); CREATE INDEX s_x ON s (x);
    """
    views = {
        "left": "SELECT r.i, r.n, t.y FROM r JOIN s ON s.n = r.n AND s.i = r.i JOIN t ON t.x = r.x",
        "right": "SELECT r.i, r.n, t.y FROM r LEFT JOIN s ON s.n = r.n AND s.i = r.i "
        "LEFT JOIN t ON t.x = s.x",
    }
    world = World(catalog_of(ddl), views)
    random = Random(3)
    for _ in range(4):
        pairs = [(random.randint(0, 2), random.randint(0, 2)) for _ in range(4)]
        world.commit(*(("r", (*pair, random.randint(0, 2))) for pair in pairs[:2]))
        world.commit(
            *(("s", (*pair, random.randint(0, 2))) for pair in pairs[2:]),
            ("t", (random.randint(0, 2), random.randint(0, 2))),
            ("r", pairs[0], None),
        )
        world.check()


def test_left_rows_without_a_partner_are_looked_up_from_the_left():
    """A column of the left side finds no left row that has no partner, if it is looked up in the
    equal column of the right side, whatever the costs of both."""
    ddl = """
    CREATE TABLE r (i INTEGER PRIMARY KEY, x INTEGER, y INTEGER);
    CREATE TABLE s (x INTEGER PRIMARY KEY, y INTEGER);
    CREATE TABLE t (x INTEGER PRIMARY KEY, z INTEGER);
    CREATE INDEX r_yx ON r (y, x);
    """
    join = "SELECT r.i, s.y, t.z FROM r LEFT JOIN s ON s.x = r.x AND s.y = r.y JOIN t ON t.x = r.x"
    with pytest.raises(Unsupported, match="Rows of r are looked up by x"):
        compiled(join, catalog_of(ddl))
    world = World(catalog_of(ddl + "CREATE INDEX r_x ON r (x);"), {"v": join})
    world.commit(("r", (1, 1, 1)), ("r", (2, 1, 2)), ("r", (3, 2, 2)), ("s", (1, 1)))
    for write in (("t", (1, 5)), ("t", (1, 6)), ("s", (1, 2)), ("t", (1,), None), ("t", (1, 7))):
        world.commit(write)
        world.check()
    assert len(world.store.rows["v"]) == 2


def test_the_look_up_that_reads_fewer_rows_is_taken():
    """Its order follows from keys, foreign keys and counted rows."""
    ddl = """
    CREATE TABLE shop (s_id INTEGER PRIMARY KEY, kind TEXT);
    CREATE TABLE good (g_id INTEGER PRIMARY KEY, brand TEXT);
    CREATE TABLE sale (id INTEGER PRIMARY KEY, shop INTEGER NOT NULL REFERENCES shop (s_id),
      good INTEGER NOT NULL REFERENCES good (g_id), v INTEGER);
    CREATE TABLE rule (shop INTEGER NOT NULL, brand TEXT NOT NULL, most INTEGER,
      PRIMARY KEY (shop, brand));
    CREATE INDEX sale_shop ON sale (shop); CREATE INDEX sale_good ON sale (good);
    CREATE INDEX good_brand ON good (brand);
    """

    def explained(sql, **counts):
        catalog = replace(catalog_of(ddl), row_counts=tuple(counts.items()))
        return [line.strip() for line in compiled(sql, catalog).explain()]

    filtered = """SELECT id FROM sale JOIN good ON g_id = sale.good AND brand = 'b'
      WHERE v < (SELECT avg(s2.v) FROM sale AS s2 WHERE s2.good = good.g_id)"""
    assert "left rows: good by g_id, then sale through sale_good by good" in explained(filtered)
    limited = """SELECT id FROM sale JOIN good ON g_id = sale.good
      JOIN rule ON rule.shop = sale.shop AND rule.brand = good.brand"""
    rows = {"sale": 100_000, "good": 10_000}
    by_shop = "left rows: sale through sale_shop by shop, then good by g_id"
    by_brand = "left rows: good through good_brand by brand, then sale through sale_good by good"
    assert by_shop in explained(limited, **rows, shop=5_000)  # 20 sales of a shop
    assert by_brand in explained(limited, **rows, shop=10)  # 1 000 sales of a brand


def test_nulls_join_no_rows_and_form_a_group():
    views = {
        "inner": "SELECT a.i, b.n FROM a JOIN b ON a.j = b.i AND b.j = a.i",
        "left": "SELECT a.i, b.n FROM b LEFT JOIN a ON a.i = b.j",
        "group": "SELECT j, COUNT(j) AS n FROM b GROUP BY j",
        "anti": "SELECT b.i FROM b WHERE NOT EXISTS (SELECT * FROM a WHERE a.i = b.j)",
    }
    world = World(CATALOG, views)
    world.commit(("b", (1, 1, None, 1, "")), ("b", (1, 2, 1, 1, "")), ("a", a_row(1, j=1)))
    world.check()
    world.commit(("b", (1, 1, 1, 1, "")), ("b", (1, 2, None, 1, "")), ("a", a_row(1)))
    world.check()


def test_join_columns_of_different_types_meet():
    ddl = """
    CREATE TABLE m (i DECIMAL(5,1) PRIMARY KEY, k BIGINT);
    CREATE TABLE n (i INTEGER PRIMARY KEY, k DECIMAL(20,3));
    CREATE INDEX m_k ON m (k); CREATE INDEX n_k ON n (k);
    """
    views = {
        "v": "SELECT m.i, n.i AS other FROM m JOIN n ON m.i = n.i",
        "w": "SELECT m.i, n.i AS other FROM m LEFT JOIN n ON m.k = n.k",
    }
    world = World(catalog_of(ddl), views)
    world.commit(("m", (D("1.0"), 1 << 62)), ("m", (D("1.5"), 2)), ("n", (1, D("2.500"))))
    world.check()
    world.commit(("n", (2, D(1 << 50).quantize(D("0.001")))), ("m", (D("2.0"), 1 << 50)))
    world.check()
    world.commit(("n", (1, D("2.000"))), ("m", (D("1.5"), None)))
    world.check()


def test_changes_that_do_not_fit_the_state_are_corruption():
    world = World(CATALOG, {"v": "SELECT t, COUNT(*) AS n FROM a GROUP BY t"})
    gone = world.zset("a", [Change("a", a_row(1, t="x"), None)])
    with pytest.raises(Corruption, match="do not fit"):
        asyncio.run(refresh(world.programs["v"], {"a": gone}, Rows(CATALOG, world.layouts)))


def test_avg_is_exactly_the_quotient_of_the_sum_and_the_count():
    """DuckDB's own average agrees up to the last bit of a DOUBLE."""
    ddl = "CREATE TABLE r (i INTEGER PRIMARY KEY, g INTEGER, x BIGINT, d DECIMAL(18,5));"
    world = World(
        catalog_of(ddl),
        {"v": "SELECT g, AVG(x) AS ax, SUM(x) AS sx, AVG(d) AS ad, SUM(d) AS sd FROM r GROUP BY g"},
    )
    random = Random(28)
    rows = [
        (i, i % 97, random.randint(-(10**17), 10**17), D(random.randint(-(10**12), 10**12)) / 10**5)
        for i in range(500)
    ]
    world.commit(*(("r", (*row[:3], row[3].quantize(D("0.00001")))) for row in rows))
    world.commit(*(("r", (i,), None) for i in range(0, 500, 3)))
    world.check()
    database = connect()
    database.execute("CREATE TABLE r (i INTEGER, g INTEGER, x BIGINT, d DECIMAL(18,5))")
    database.executemany("INSERT INTO r VALUES (?, ?, ?, ?)", [*world.store.rows["r"].values()])
    for row in world.store.rows["v"].values():
        counted = database.sql(f"SELECT count(x), count(d) FROM r WHERE g = {row[0]}").fetchall()
        assert row[1] == quotient(row[2], counted[0][0])
        assert row[3] == quotient(row[4], counted[0][1])
    alone = dict(database.sql("SELECT g, AVG(d) FROM r GROUP BY g").fetchall())
    database.close()
    for row in world.store.rows["v"].values():
        assert float(row[3]) == pytest.approx(alone[row[0]], rel=3e-16)
