"""Joins without an equality: by a range of an index, or of all rows of small relations."""

import datetime as dt
from dataclasses import replace
from decimal import Decimal as D
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam_server.maintain.deltas.access import SMALL
from hornbeam_server.maintain.deltas.keys import between, merged_ranges
from hornbeam_server.maintain.deltas.program import (
    compile_view,
    planned_program,
    stored_program,
)
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.model import DeclaredView
from hornbeam_server.schema.types import ColumnType, Kind
from hornbeam_server.schema.views import DeferredView
from tests.depth import depth
from tests.maintain.deltas.deltas_world import World, catalog_of

DDL = """
CREATE TABLE bid (i INTEGER PRIMARY KEY, price DECIMAL(9,2), x INTEGER, at TIMESTAMP);
CREATE TABLE tier (l INTEGER PRIMARY KEY, low INTEGER, high DOUBLE, since TIMESTAMP,
    pause INTERVAL);
CREATE INDEX bid_price ON bid (price); CREATE INDEX bid_at ON bid (at DESC);
CREATE INDEX bid_x ON bid (x);
"""
CATALOG = catalog_of(DDL)
BETWEEN = "SELECT i, l FROM bid JOIN tier ON price BETWEEN low AND high"
ALL = "SELECT i, l FROM bid CROSS JOIN tier"
VIEWS = {
    "between": BETWEEN,
    "grouped": "SELECT l, COUNT(*) AS n, SUM(price) AS s FROM bid, tier WHERE price > low GROUP BY"
    " l",
    "everything": ALL,
    "outer": "SELECT i, price, l FROM bid LEFT JOIN tier ON price < high AND x <> l",
    "right": "SELECT i, l, low FROM bid RIGHT JOIN tier ON price < low",
    "none": "SELECT i FROM bid WHERE NOT EXISTS (SELECT 1 FROM tier WHERE low < price AND high >="
    " price)",
    "any": "SELECT i FROM bid WHERE EXISTS (SELECT 1 FROM tier WHERE since <= at)",
    "value": "SELECT i, m FROM bid CROSS JOIN (SELECT MAX(low) AS m FROM tier) AS q",
    "ranked": "SELECT l, COUNT(*) AS n FROM (SELECT x, SUM(price) AS s FROM bid GROUP BY x) AS g"
    " JOIN tier ON g.s >= low GROUP BY l",
    "partitions": "SELECT g.i, l FROM (SELECT i, x, rank() OVER (PARTITION BY x ORDER BY price) AS"
    " r FROM bid) AS g CROSS JOIN tier WHERE r = 1",
    "nested": "SELECT a.i, l, b.i AS j FROM bid AS a JOIN tier ON a.price < low JOIN bid AS b ON"
    " b.i = a.x",
    "computed": "SELECT i, l FROM bid JOIN tier ON price + 1 = low",
    "intervals": "SELECT a.l, b.l AS m FROM tier AS a JOIN tier AS b ON a.pause = b.pause",
    "halves": "SELECT u.v, l FROM (SELECT price AS v FROM bid UNION ALL SELECT x AS v FROM bid) AS"
    " u JOIN tier ON u.v < low",
}


def counted(catalog=CATALOG, **rows):
    return replace(catalog, row_counts=tuple(rows.items()))


def words(sql, catalog):
    program, _ = planned_program(DeclaredView("v", sql), catalog)
    return [line.strip() for line in program.explain()]


def draw_writes(random):
    """Draw inserts, updates and deletes of both relations."""
    for _ in range(random.randint(1, 4)):
        key = random.randint(0, 6)
        at = random.choice([None, dt.datetime(2024, 1, random.randint(1, 3))])
        if random.random() < 0.6:
            price = random.choice([None, D("1.00"), D("2.50"), D("7.00")])
            row = (key, price, random.choice([None, 1, 2]), at)
        else:
            pause = random.choice([None, dt.timedelta(days=1)])
            low = random.choice([None, 0, 2, 3])
            row = (key, low, random.choice([None, 2.5, 7.0, float("nan")]), at, pause)
        name = "bid" if len(row) == 4 else "tier"
        yield (name, (key,), None) if random.random() < 0.25 else (name, row)


@pytest.mark.parametrize("names", [[*VIEWS][:7], [*VIEWS][7:]])
def test_views_equal_duckdbs_answers_after_every_batch(names):
    random = Random(len(names[0]))
    world = World(CATALOG, {name: VIEWS[name] for name in names})
    for _ in range(4):
        world.commit(*draw_writes(random))
        world.check()
    world.check_anew()


def test_an_indexed_side_is_read_by_the_range_of_the_changed_rows():
    world = World(CATALOG, {"v": BETWEEN})
    world.commit(*(("bid", (i, D(i), 0, None)) for i in range(50)))
    world.store.found.clear()
    world.commit(("tier", (1, 10, 12.0, None, None)), ("tier", (2, 11, 13.0, None, None)))
    world.check()
    # Both executors read the four bids once, and once again in the entries of the index.
    assert world.store.found["bid_price"] == world.store.found["bid"]
    assert world.store.found["bid"] in (8, 16)


def test_the_plan_says_which_side_is_read_whole():
    found = words(BETWEEN, counted(bid=1_000_000, tier=12))
    assert 'inner join on ("bid.price" BETWEEN "tier.low" AND "tier.high")' in found[1]
    assert found[2:4] == [
        "left rows: bid through bid_price by a range of price",
        "right rows: all rows of tier, about 12",
    ]
    assert "inner join of all pairs" in words(ALL, counted(bid=5, tier=12))[1]


@pytest.mark.parametrize(
    ("sql", "rows", "reason", "cure"),
    [
        (BETWEEN, {"tier": SMALL + 1}, f"it has {SMALL + 1} rows", "CREATE INDEX ON tier (low)"),
        (BETWEEN, {}, "its rows were not counted", "--rows"),
        (ALL, {"tier": 1, "bid": SMALL + 1}, "All rows of bid", "Join on columns"),
        (VIEWS["computed"], {"tier": 1}, "no equality of two columns", "Join on columns"),
        (VIEWS["value"], {"bid": SMALL + 1}, "All rows of bid", "Join on a column"),
    ],
)
def test_a_large_side_without_an_index_is_refused(sql, rows, reason, cure):
    with pytest.raises(Unsupported) as refused:
        planned_program(DeclaredView("v", sql), counted(**rows))
    assert reason in refused.value.message
    assert cure in refused.value.cure


def test_a_view_is_kept_when_its_relations_have_grown():
    declared = DeclaredView("v", BETWEEN)
    program, _ = planned_program(declared, counted(tier=1))
    stored = (program.relations, program.columns, program.hidden, program.key, program.states)
    view = DeferredView(declared, *stored)
    grown = stored_program(view, counted(tier=SMALL + 1))
    assert grown is not None
    assert grown.whole == {"tier"}
    assert compile_view(declared, CATALOG, small=frozenset({"tier"})).whole == {"tier"}


KINDS = st.sampled_from([
    ColumnType(Kind.INTEGER), ColumnType(Kind.DECIMAL, 7, 1), ColumnType(Kind.DOUBLE),
])  # fmt: skip


def values_of(type_):
    match type_.kind:
        case Kind.INTEGER:
            return st.integers(-9, 9)
        case Kind.DECIMAL:
            return st.integers(-90, 90).map(lambda n: D(n) / 10)
    return st.floats(-9, 9) | st.sampled_from([float("nan"), float("inf")])


@settings(max_examples=depth(20, long=60))
@given(data=st.data(), low=KINDS, high=KINDS, target=KINDS)
def test_merged_ranges_have_every_value_between_the_limits_and_do_not_overlap(
    data, low, high, target
):
    limits = st.tuples(st.none() | values_of(low), st.none() | values_of(high))
    keys = data.draw(st.lists(limits, max_size=5))
    value = data.draw(values_of(target))
    found = merged_ranges(keys, low, high, target)
    holding = [each for each in found if is_between(value, *each)]
    assert len(holding) <= 1
    assert holding or not any(is_between(value, *each) for each in keys)


def is_between(value, low, high):
    return (low is None or order(low) <= order(value)) and (
        high is None or order(value) <= order(high)
    )


def order(value):
    return value != value, value  # noqa: PLR0124


def test_a_bound_that_was_nan_is_above_all_numbers():
    double = ColumnType(Kind.DOUBLE)
    low, high = between([float("nan"), 5.0], double, double, above=True)
    assert low == pytest.approx(5.0)
    assert high != high  # noqa: PLR0124
