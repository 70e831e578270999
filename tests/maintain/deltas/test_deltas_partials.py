"""Partial aggregates: views that keep them equal views that do not, and a change of a dimension's
row looks up groups instead of facts."""

import asyncio
import datetime as dt
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam_server.maintain.changes import Change
from hornbeam_server.maintain.deltas.algebra import walk
from hornbeam_server.maintain.deltas.partials.graphs import graph_of
from hornbeam_server.maintain.deltas.partials.rewriting import numbered, sharing
from hornbeam_server.maintain.deltas.partials.texts import (
    columns_in,
    never_fails,
    plain_column,
    with_columns,
)
from hornbeam_server.maintain.deltas.program import (
    compile_view,
    explained,
    planned_program,
    refresh,
    stored_program,
    translated,
)
from hornbeam_server.schema.errors import SqlError, Unsupported
from hornbeam_server.schema.model import DeclaredView
from hornbeam_server.schema.views import DeferredView, PartialAggregate
from tests.maintain.deltas.deltas_draw import Queries, draw_catalog, draw_writes
from tests.maintain.deltas.deltas_world import World, catalog_of
from tests.maintain.deltas.test_deltas_tpch import DDL, QUERIES, SCALE_1

CATALOG = replace(catalog_of(DDL), row_counts=tuple(SCALE_1.items()))
LINES = "sum(l_extendedprice * (1 - l_discount)) AS revenue, count(*) AS lines"
BY_NATION = f"""SELECT n_name, {LINES} FROM customer, orders, lineitem, nation
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND c_nationkey = n_nationkey
GROUP BY n_name"""
BY_REGION = f"""SELECT r_name, l_returnflag, {LINES}
FROM lineitem JOIN orders ON l_orderkey = o_orderkey JOIN customer ON c_custkey = o_custkey
JOIN nation ON c_nationkey = n_nationkey JOIN region ON n_regionkey = r_regionkey
GROUP BY r_name, l_returnflag"""


def partial(*items, aggregate=0):
    return PartialAggregate(aggregate, items, 0, 0)


NEST = (partial(0, 1, 2), partial(0, 1, 2, 3))
"""Of BY_REGION: the lines of each nation, and of each region."""


# -- the law


def draw_partials(random, sql, catalog):
    """Draw partial aggregates over random FROM items of each aggregate, one or two below each
    other. There may be none."""
    found = []
    declared = DeclaredView("v", sql)
    result = translated(declared, catalog).result
    shared, numbers = sharing(result), numbered(result)
    for node in [node for node in walk(result) if id(node) in numbers]:
        try:
            count = len(graph_of(node, shared).items)
        except Unsupported:
            continue
        items = random.sample(range(count), count)
        sizes = random.sample(range(1, count), min(count - 1, random.randint(1, 2)))
        number = numbers[id(node)]
        chain = [partial(*sorted(items[:size]), aggregate=number) for size in sizes]
        try:
            compile_view(declared, catalog, partials=[*found, *chain])
        except Unsupported:  # these items have no equality, or cannot be looked up
            continue
        found += chain
    return tuple(found)


def draw_view(random, catalog):
    """Draw a SELECT with partial aggregates."""
    for _ in range(200):
        sql = Queries(random).draw()
        try:
            found = draw_partials(random, sql, catalog)
        except SqlError:  # refused, or invalid
            continue
        if found:
            return sql, found
    raise AssertionError("hardly any SELECT has partial aggregates")


@settings(max_examples=3)
@given(seed=st.integers(0, 1 << 32))
def test_views_with_random_partial_aggregates_equal_duckdbs_answers_after_every_batch(seed):
    random = Random(seed)
    catalog = draw_catalog(random)
    sql, partials = draw_view(random, catalog)
    world = World(catalog, {"v": sql}, {"v": partials})
    for _ in range(3):
        world.commit(*draw_writes(random, catalog, world.store))
        world.check()
    world.check_anew()


SMALL = """
CREATE TABLE d (id INTEGER PRIMARY KEY, name TEXT, y INTEGER, up INTEGER);
CREATE INDEX d_up ON d (up);
CREATE TABLE u (id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE f (id INTEGER PRIMARY KEY, d INTEGER, x INTEGER, m DECIMAL(7,2), t TEXT, b BOOLEAN);
CREATE INDEX f_d ON f (d);
"""
CALLS = [
    *("count(*)", "count(x)", "sum(x)", "avg(x)", "min(m)", "max(t)", "avg(m)", "sum(m)"),
    *("sum(y)", "count(y)", "avg(y)", "min(y)", "sum(x + y)", "count(*) FILTER (WHERE y > x)"),
    *("bool_and(b)", "bool_or(b)", "var_pop(x)", "stddev(m)", "count(*) FILTER (WHERE t = 'a')"),
]
DISTINCT = ["count(DISTINCT x)", "count(DISTINCT y)", "sum(b::INT * y)", "sum(x) FILTER (WHERE b)"]
WHOLE = ["count(*)", "count(y)", "sum(x)", "avg(y)", "count(DISTINCT y)"]


def fact(random, number):
    money = random.choice([None, Decimal("-1.50"), Decimal("3.00")])
    x, flag = random.choice([None, 0, 1, 2]), random.choice([None, True, False])
    return number, random.choice([0, 1, 1, 2, 7, None]), x, money, random.choice("ab"), flag


def dimension(random, number):
    y, up = random.choice([None, 2, 3, 5]), random.choice([0, 1, 1, None])
    return number, random.choice("ab"), y, up


def dense(random):
    """Several facts for most rows of `d`, and several of these for each row of `u`."""
    yield from (("u", (number, f"u{number}")) for number in range(2))
    yield from (("d", dimension(random, number)) for number in range(4))
    yield from (("f", fact(random, number)) for number in range(20))


def small_writes(random):
    """Facts come, go and change; dimensions change their values and parents; groups are renamed."""
    for number in random.sample(range(24), 4):
        yield "f", fact(random, number)
    yield "f", (random.randrange(20),), None
    yield "d", dimension(random, 1)
    yield "d", (random.choice([0, 2]),), None
    yield "u", (1, random.choice(["u0", "other", None]))


def test_all_aggregates_follow_from_partial_ones():
    """Dimensions change their groups, facts have no partner or NULL, and groups come and go."""
    base = "FROM f LEFT JOIN d ON f.d = d.id LEFT JOIN u ON d.up = u.id"
    sqls = {}
    for name, calls in (("groups", CALLS), ("distinct", DISTINCT), ("whole", WHOLE)):
        named = ", ".join(f"{call} AS c{i}" for i, call in enumerate(calls))
        sqls[name] = f"SELECT {named} {base}"
        if name != "whole":
            sqls[name] = f"SELECT u.name, {named} {base} GROUP BY u.name"
    world = World(catalog_of(SMALL), sqls, dict.fromkeys(sqls, (partial(0), partial(0, 1))))
    random = Random(5)
    for writes in (dense(random), small_writes(random)):
        world.commit(*dict.fromkeys(writes))
        world.check()
    world.check_anew()


# -- the rows that a change touches


def nest(lines):
    """Two regions of two nations, each with three customers of two orders with `lines` lines, some
    of them returned."""
    day = dt.date(1995, 1, 1)
    for r in range(2):
        yield "region", (r, f"R{r}")
    for n in range(4):
        yield "nation", (n, f"N{n}", n // 2)
    for c in range(12):
        yield "customer", customer(c, c // 3)
    for o in range(24):
        yield "orders", (o, o // 2, day, "O", Decimal(1), "", 0, "")
        for i in range(lines):
            value = Decimal(o + i)
            line = (0, 0, Decimal(1), value, Decimal("0.05"), Decimal(0), "AR"[i % 2], "O")
            yield "lineitem", (o, i, *line, day, day, day, "", "")


def customer(number, nation):
    return (number, "c", "", nation, "", Decimal(1), "", "")


def touched(world, name, relation, old, new):
    """The number of stored rows that a view reads and writes for one change."""
    zset = world.zset(relation, [Change(relation, old, new)])
    world.store.found = Counter()
    mutations = asyncio.run(refresh(world.programs[name], {relation: zset}, world.store))
    return sum(world.store.found.values()) + len(mutations)


def test_a_nation_that_changes_its_name_touches_a_row_of_its_group_and_no_lines():
    _, chosen = planned_program(DeclaredView("v", BY_NATION), CATALOG)
    assert [each.items for each in chosen] == [(0, 1, 2)]  # customer, orders, lineitem
    found = {}
    for lines in (2, 8):
        world = World(CATALOG, {"plain": BY_NATION, "eager": BY_NATION}, {"eager": chosen})
        world.commit(*nest(lines))
        old, new = (3, "N3", 1), (3, "Ny", 1)
        found[lines] = [touched(world, name, "nation", old, new) for name in world.programs]
    world.commit(("nation", new))
    world.check()
    world.commit(("nation", (3,), None))
    world.check()
    for lines, (plain, eager) in found.items():
        assert plain > 6 * lines  # all lines of six orders
        # The group of the nation and one of the view are read; two groups and two rows are written.
        assert eager == 6
    assert found[8][0] >= found[2][0] + 6 * 6


def test_a_change_in_a_nest_touches_rows_for_distinct_pairs_of_dimension_and_group():
    found = {}
    changes = {
        "region": ((1, "R1"), (1, "Ry")),
        "nation": ((3, "N3", 1), (3, "N3", 0)),
        "customer": (customer(11, 3), customer(11, 0)),
    }
    for lines in (2, 8):
        world = World(CATALOG, {"plain": BY_REGION, "eager": BY_REGION}, {"eager": NEST})
        world.commit(*nest(lines))
        for relation, (old, new) in changes.items():
            for name in world.programs:
                found[relation, name, lines] = touched(world, name, relation, old, new)
    world.commit(*((relation, new) for relation, (_, new) in changes.items()))
    world.check()
    flags = 2  # values of l_returnflag: a pair of each with a region or nation
    for relation in ("region", "nation"):
        assert found[relation, "eager", 2] == found[relation, "eager", 8]
        assert found[relation, "plain", 8] >= found[relation, "plain", 2] + 6 * 6
    assert found["region", "eager", 2] == 6 * flags
    # a customer that moves: its own lines, and the pairs
    lines_more = found["customer", "eager", 8] - found["customer", "eager", 2]
    assert lines_more == 2 * 6


# -- the choice


def chosen(sql, catalog=CATALOG):
    _, partials = planned_program(DeclaredView("v", sql), catalog)
    return [(each.items, each.groups) for each in partials]


def test_partial_aggregates_are_chosen_by_row_counts():
    assert chosen(BY_NATION) == [((0, 1, 2), 25)]
    assert chosen(BY_NATION, replace(CATALOG, row_counts=())) == []
    without = tuple((n, rows) for n, rows in SCALE_1.items() if n != "nation")
    assert chosen(BY_NATION, replace(CATALOG, row_counts=without)) == []
    small = SCALE_1 | {"lineitem": 6_000, "orders": 1_500, "customer": 150}
    assert chosen(BY_NATION, replace(CATALOG, row_counts=tuple(small.items()))) == []


def test_six_of_tpchs_queries_keep_partial_aggregates_at_scale_factor_1():
    found = {name: chosen(sql) for name, sql in QUERIES.items()}
    kept = {name: groups for name, partials in found.items() for _, groups in partials}
    assert sorted(kept) == ["q10", "q11", "q21", "q5", "q8", "q9"]
    assert kept["q5"] == 25  # nations
    assert kept["q21"] == SCALE_1["supplier"]


def test_a_star_gets_a_partial_aggregate_for_each_dimension_below_each_other():
    names = ("a", "b", "c")
    tables = (f"CREATE TABLE {n} (id INTEGER PRIMARY KEY, name TEXT);" for n in names)
    columns = ", ".join(f"{n} INTEGER REFERENCES {n} (id)" for n in names)
    facts = f"CREATE TABLE f (id INTEGER PRIMARY KEY, x INTEGER, {columns});"
    indexes = (f"CREATE INDEX ON f ({n});" for n in names)
    counts = (("f", 10_000_000), ("a", 10), ("b", 20), ("c", 5_000_000))
    star = replace(catalog_of("".join([*tables, facts, *indexes])), row_counts=counts)
    joins = " ".join(f"JOIN {n} ON f.{n} = {n}.id" for n in names)
    sql = f"SELECT a.name, sum(x) AS s FROM f {joins} GROUP BY a.name"
    # of f and c by a and b, and above it of f, c and b by a; a row of c has two facts only
    assert chosen(sql, star) == [((0, 3), 10 * 20), ((0, 2, 3), 10)]


def test_no_state_with_as_many_groups_as_facts_is_chosen():
    """A column of a key, or one that leads an index, may have a value for each row."""
    by_part = BY_NATION.replace("n_name", "n_name, l_partkey")
    assert chosen(by_part) == []
    by_line = BY_NATION.replace("n_name", "n_name, l_orderkey, l_linenumber")
    assert chosen(by_line) == []


def test_what_may_fail_is_not_computed_for_rows_without_a_partner():
    """`l_shipmode` of a line that no order has may be no number."""
    sql = BY_NATION.replace("count(*)", "sum(CAST(l_shipmode AS INTEGER))")
    world = World(CATALOG, {"v": sql}, {"v": (partial(0, 1, 2), partial(2))})
    rows = [
        (relation, (*row[:-2], "7", "") if relation == "lineitem" else row)
        for relation, row in nest(2)
    ]
    world.commit(*rows)
    day = dt.date(1995, 1, 1)
    lost = (99, 0, 0, 0, *([Decimal(1)] * 4), "A", "O", day, day, day, "no number", "")
    world.commit(("lineitem", lost))
    world.check()


def test_a_condition_that_may_fail_is_not_moved_below_other_joins():
    sql = BY_NATION.replace("GROUP BY", "AND l_quantity > CAST(o_comment AS INTEGER) GROUP BY")
    with pytest.raises(Unsupported, match="may fail for rows that another join drops"):
        compile_view(DeclaredView("v", sql), CATALOG, partials=[partial(1, 2)])
    compile_view(DeclaredView("v", sql), CATALOG, partials=[partial(2)])
    assert all(items == (2,) for items, _ in chosen(sql))


def test_joins_that_other_operators_read_have_no_partial_aggregate():
    sets = BY_NATION.replace("GROUP BY n_name", "GROUP BY ROLLUP (n_name)")
    assert chosen(sets) == []
    with pytest.raises(Unsupported, match="Another operator reads the same joins"):
        compile_view(DeclaredView("v", sets), CATALOG, partials=[partial(0, 1, 2)])


@pytest.mark.parametrize("items", [(), (0, 1, 2, 3), (7,)])
def test_items_that_are_not_some_of_from_are_refused(items):
    with pytest.raises(Unsupported, match="some items of FROM, not over all"):
        compile_view(DeclaredView("v", BY_NATION), CATALOG, partials=[partial(*items)])


def test_the_stored_choice_decides_the_program_and_row_counts_do_not():
    declared = DeclaredView("v", BY_NATION)
    for catalog in (CATALOG, replace(CATALOG, row_counts=())):
        program, partials = planned_program(declared, catalog)
        made = (program.relations, program.columns, program.hidden, program.key, program.states)
        view = DeferredView(declared, *made, partials)
        for counts in ((), tuple(SCALE_1.items())):
            found = stored_program(view, replace(CATALOG, row_counts=counts))
            assert found is not None
            assert list(found.explain()) == list(program.explain())
            assert found.states == view.states


def test_a_program_says_which_partial_aggregates_it_keeps_and_why():
    program, _ = planned_program(DeclaredView("v", BY_NATION), CATALOG)
    lines = [line.strip() for line in program.explain()]
    assert (
        "partial aggregate of customer, orders, lineitem, about 25 groups of 6000000 rows: a change"
        " of nation looks up groups instead of rows"
    ) in lines


def reason(sql, catalog):
    program, partials = planned_program(DeclaredView("v", sql), catalog)
    made = (program.relations, program.columns, program.hidden, program.key, program.states)
    view = DeferredView(DeclaredView("v", sql), *made, partials)
    lines = [*explained(view, program, catalog)]
    return [line for line in lines if "no partial aggregate" in line]


def test_a_view_without_a_partial_aggregate_says_why():
    uncounted = tuple((n, rows) for n, rows in SCALE_1.items() if n != "nation")
    small = SCALE_1 | {"lineitem": 6_000, "orders": 1_500, "customer": 150}
    assert (
        "the rows of nation are not counted"
        in reason(BY_NATION, replace(CATALOG, row_counts=uncounted))[0]
    )
    assert (
        "too many groups" in reason(BY_NATION, replace(CATALOG, row_counts=tuple(small.items())))[0]
    )
    assert reason("SELECT count(*) AS n FROM nation", CATALOG) == []
    assert reason(BY_NATION, CATALOG) == []  # it keeps one


def test_a_view_that_was_built_before_its_relations_grew_says_so():
    declared = DeclaredView("v", BY_NATION)
    program, _ = planned_program(declared, replace(CATALOG, row_counts=()))
    made = (program.relations, program.columns, program.hidden, program.key, program.states)
    (line,) = [
        line
        for line in explained(DeferredView(declared, *made), program, CATALOG)
        if "no partial aggregate" in line
    ]
    assert "refresh --rebuild" in line


# -- expressions


def test_columns_of_an_expression_are_found_and_replaced():
    text = """CASE WHEN "a.t" = 'it''s "a.x"' THEN "a.x" ELSE "b""c.y" END"""
    known = {"a.t", "a.x", 'b"c.y', "z"}
    assert columns_in(text, known) == known - {"z"}
    replaced = with_columns(text, {"a.x": '"q.x"', 'b"c.y': "1 + 2"})
    assert replaced == """CASE WHEN "a.t" = 'it''s "a.x"' THEN "q.x" ELSE (1 + 2) END"""
    assert plain_column('"b""c.y"') == 'b"c.y'
    assert plain_column('"a" + "b"') is None
    assert plain_column("'a'") is None


@pytest.mark.parametrize(
    ("text", "never"),
    [
        ('CAST("n" * (1 - "n") AS DECIMAL(18,4))', True),
        ('CASE WHEN "t" LIKE \'P%\' THEN "n" ELSE 0 END', True),
        ("date_part('year', \"n\")", True),
        ('CAST(CAST("n" AS BIGINT) AS BIGINT)', True),
        ('CAST(CAST("t" AS INTEGER) AS INTEGER)', False),
        ('CAST(1 / "n" AS DOUBLE)', False),
        ('sqrt("n")', False),
    ],
)
def test_expressions_that_never_fail_are_recognised(text, never):
    assert never_fails(text, {"n"}) is never
