"""Stages over rows: what they take over from DuckDB, and its conversions of numbers."""

import asyncio
import datetime as dt
import math
from decimal import Context
from decimal import Decimal as D
from fractions import Fraction
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam_server.maintain.changes import Change
from hornbeam_server.maintain.deltas.keys import between, stored_keys
from hornbeam_server.maintain.deltas.program import refresh
from hornbeam_server.maintain.deltas.relations import Field, evaluate, from_rows
from hornbeam_server.maintain.deltas.rows import inputs
from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.types import ColumnType, Kind
from tests.depth import depth
from tests.duckdb_oracle import without_tables
from tests.maintain.deltas.deltas_world import DUCKDB, LOOPS, World, catalog_of

DDL = """
CREATE TABLE a (i INTEGER PRIMARY KEY, j INTEGER, x INTEGER, g BIGINT, d DECIMAL(38,2), f DOUBLE,
    s DATE);
CREATE TABLE b (i INTEGER PRIMARY KEY, j INTEGER, x INTEGER, g BIGINT, d DECIMAL(38,2), f DOUBLE,
    s DATE);
CREATE INDEX a_j ON a (j); CREATE INDEX b_j ON b (j); CREATE INDEX a_x ON a (x);
CREATE INDEX a_d ON a (d); CREATE INDEX a_f ON a (f);
"""
INTEGER, BIGINT, DOUBLE = (ColumnType(kind) for kind in (Kind.INTEGER, Kind.BIGINT, Kind.DOUBLE))


def decimal(precision, scale):
    return ColumnType(Kind.DECIMAL, precision, scale)


def draw_row(random, i):
    values = [
        random.randint(0, 3), random.choice([-7, 0, 2, 2**31 - 1]),
        random.choice([2**63 - 1, -(2**63), 4]), random.choice([D("-1.50"), D("0.00"), D("7.25")]),
        random.choice([0.0, -2.5, 1e300, math.inf]), dt.date(random.choice([1994, 1995]), 1, 1),
    ]  # fmt: skip
    return (i, *[None if random.random() < 0.1 else value for value in values])


BY_DUCKDB = {
    "mapped": "SELECT i, d / 4 AS q, EXTRACT(decade FROM s) AS y FROM a WHERE x / 2 < 9",
    "joined": "SELECT a.i, b.i AS other FROM a LEFT JOIN b ON a.j = b.j AND a.d / 2 < b.d",
    "found": "SELECT a.i, s.y FROM a LEFT JOIN (SELECT j, EXTRACT(decade FROM s) AS y FROM b) AS s"
    " ON s.j = a.j",
    "huge": "SELECT j, SUM(g) + 1 AS more FROM a GROUP BY j",
    "small": "SELECT q FROM (SELECT DISTINCT CAST(x AS SMALLINT) AS q FROM a WHERE x < 9) AS s"
    " WHERE q + q > 0",
    "root": "SELECT j, SQRT(COUNT(*)) AS root, SUM(x) / 3 AS third FROM a GROUP BY j",
}


def test_what_is_not_compiled_is_left_to_duckdb():
    world = World(catalog_of(DDL), BY_DUCKDB)
    left = {
        name: sum(inputs.row_input(part).map is None for stage in p.stages for part in stage.inputs)
        for name, p in world.programs.items()
    }
    assert left == {"mapped": 1, "joined": 0, "found": 1, "huge": 1, "small": 0, "root": 1}
    random = Random(4)
    for _ in range(4):
        rows = [(name, draw_row(random, random.randint(0, 9))) for name in "aabb"]
        world.commit(*rows, ("a", (random.randint(0, 9),), None))
        world.check()
    world.check_anew()


def test_not_a_number_is_a_value_like_others():
    views = {
        "v": "SELECT i, f - f AS n FROM a WHERE f - f = f - f",
        "w": "SELECT a.i, s.n, b.i AS o FROM (SELECT i, j, f - f AS n FROM a) AS s JOIN a ON a.i = "
        "s.i JOIN b ON b.j = s.j AND s.n > b.f",
    }
    world = World(catalog_of(DDL), views)
    for f in (math.inf, 1.5, -math.inf):
        world.commit(("a", (1, 1, 1, 1, None, f, None)), ("b", (1, 1, 1, 1, None, 3.0, None)))
        world.check()
    assert {math.isnan(row[1]) for row in world.store.rows["v"].values()} == {True}


def test_groups_whose_key_has_another_order_than_group_by():
    """The join looks groups up by `g`, so the key of the state begins with it."""
    grouped = "SELECT x, j AS g, MIN(i) AS m, SUM(d) AS s FROM b GROUP BY x, j"
    sql = f"SELECT a.i, s.x, s.m, s.s FROM a LEFT JOIN ({grouped}) AS s ON a.i = s.g"
    world = World(catalog_of(DDL), {"v": sql, "all": grouped})
    assert [part.column for part in world.programs["v"].states[0].key] == ["g0", "g1"]
    random = Random(5)
    for _ in range(3):
        rows = [(name, draw_row(random, random.randint(0, 3))) for name in "abbb"]
        world.commit(*rows)
        world.check()


def test_a_sum_beyond_its_type_is_reported():
    world = World(catalog_of(DDL), {"v": "SELECT SUM(d) AS s FROM a"})
    most = D("9" * 36 + ".99")
    world.commit(("a", (1, 1, 1, 1, most, None, None)))
    world.check()
    more = {"a": world.zset("a", [Change("a", None, (2, 1, 1, 1, D("0.01"), None, None))])}
    for few in (DUCKDB, LOOPS):
        with pytest.raises(TypeMismatch, match="Overflow"):
            asyncio.run(refresh(world.programs["v"], more, world.store, few))


def test_bounds_beyond_the_numbers_of_a_column():
    """The rows between the last number of the column's type and the other bound change, too."""
    views = {
        "above": "SELECT i FROM a WHERE x > (SELECT SUM(g) FROM b)",
        "below": "SELECT i FROM a WHERE x <= (SELECT SUM(g) FROM b)",
        "double": "SELECT i FROM a WHERE x < (SELECT AVG(g) FROM b)",
        "of_double": "SELECT i FROM a WHERE f >= (SELECT MAX(g) FROM b)",
        "decimal": "SELECT i FROM a WHERE d < (SELECT MIN(f) FROM b)",
    }
    world = World(catalog_of(DDL), views)
    rows = [(i, 1, x, 1, D(x).quantize(D("0.01")), float(x), None) for i, x in enumerate(
        [-(2**31), -5, 0, 5, 2**31 - 1])]  # fmt: skip
    world.commit(*(("a", row) for row in rows))
    for g, f in ((0, 0.0), (-(2**40), -1e300), (2, 1.5), (2**40, math.inf), (-(2**50), -math.inf)):
        world.commit(("b", (1, 1, 1, g, None, f, None)))
        world.check()


# -- numbers

NUMBERS = st.one_of(
    st.integers(-(2**40), 2**40).map(D),
    st.decimals(-(10**12), 10**12, allow_nan=False, allow_infinity=False, places=3),
    st.sampled_from([D(2**31 - 1), D(2**31), D(-(2**31)), D("0.5"), D("-0.5"), D("9999999.99")]),
).map(lambda number: number.quantize(D("0.001")))
TARGETS = [INTEGER, BIGINT, decimal(9, 2), decimal(12, 0), decimal(5, 3), decimal(38, 3)]


@settings(max_examples=depth(20, long=60))
@given(st.lists(NUMBERS, max_size=20), st.sampled_from(TARGETS))
def test_keys_are_what_try_cast_makes_of_them(numbers, target):
    given_type = decimal(38, 3)
    keys = [(number,) for number in numbers]
    fields = (Field("k", given_type.sql(), given_type),)
    to = (Field("t", target.sql(), target),)
    cast = f"TRY_CAST(k AS {target.sql()})"
    sql = f"SELECT DISTINCT {cast} FROM keys WHERE {cast} = k"
    expected = evaluate(sql, {"keys": from_rows(fields, keys)}, to).rows()
    assert sorted(map(repr, stored_keys(keys, fields, to))) == sorted(map(repr, expected))


@given(st.lists(NUMBERS | st.none(), min_size=1, max_size=2), st.sampled_from(TARGETS))
def test_no_value_between_two_bounds_is_skipped(bounds, target):
    found = between(bounds, decimal(38, 3), target, above=True)
    present = [bound for bound in bounds if bound is not None]
    if found is None:
        assert not present
        return
    low, high = found
    unit = Fraction(1, 10 ** (target.scale or 0))
    least, most = ends(target)
    assert low == least or low <= min(present)
    assert low == most or Fraction(low) + unit > min(present)
    if len(present) == 1:
        assert high is None
    else:
        assert high == most or high >= max(present)
        assert high == least or Fraction(high) - unit < max(present)
    assert repr(target.coerce(low)) == repr(low)


def ends(type_):
    if type_.kind is not Kind.DECIMAL:
        return type_.integers[0], type_.integers[-1]
    most = D("9" * type_.precision).scaleb(-type_.scale, Context(prec=99))
    return -most, most


def test_bounds_of_doubles_are_spread():
    low, high = between([1.0, 1.0], DOUBLE, DOUBLE, above=True)
    assert low < 1.0 < high
    assert between([1e300, math.nan], DOUBLE, INTEGER, above=True) == (2**31 - 1, 2**31 - 1)
    assert between([-math.inf, 2.5], DOUBLE, decimal(5, 1), above=True) == (D("-9999.9"), D("2.6"))


SCALES = [0, 2, 9, 38]


@settings(max_examples=depth(12, long=30))
@given(st.integers(0, 1 << 32), st.sampled_from(SCALES))
def test_sums_become_the_same_doubles(seed, scale):
    random, unit = Random(seed), 10**scale
    digits = [random.randint(1, 38) for _ in range(200)]
    numbers = [random.randint(1 - 10**n, 10**n - 1) for n in digits]
    ties = [(random.getrandbits(54) | 1) << random.randint(0, 60) for _ in range(200)]
    numbers += [n * sign for n in ties for sign in (1, -1)]
    numbers += [n * unit for n in numbers]
    exact = Context(prec=99)
    sums = [D(n).scaleb(-scale, exact) for n in numbers if abs(n) < 10**38]
    table = pa.table({"x": pa.array(sums, pa.decimal128(38, scale))})
    for duck in (f"DECIMAL(38,{scale})", *(["HUGEINT"] if not scale else [])):
        with without_tables() as database:
            database.register("sums", table)
            found = database.execute(f"SELECT x::{duck}::DOUBLE FROM sums").fetchall()
        assert [float(total) for total in sums] == [double for (double,) in found]


WITHOUT_KEYS = """
CREATE TABLE p (x INTEGER, n INTEGER);
CREATE TABLE q (x INTEGER, m INTEGER);
CREATE INDEX p_x ON p (x); CREATE INDEX q_x ON q (x);
"""


def test_relations_without_a_primary_key():
    """Equal rows come and go one by one, and no star or NATURAL JOIN sees their identities."""
    world = World(
        catalog_of(WITHOUT_KEYS),
        {
            "every": "SELECT * FROM p",
            "joined": "SELECT * FROM p NATURAL JOIN q",
            "left_": "SELECT p.*, m FROM p LEFT JOIN q ON p.x = q.x AND n < m",
            "summed": "SELECT x, COUNT(*) AS c, SUM(n) AS s FROM p GROUP BY x",
            "distinct_": "SELECT DISTINCT x FROM p WHERE EXISTS (SELECT 1 FROM q WHERE q.x = p.x)",
        },
    )
    world.commit(("p", (10, 1, 1)), ("p", (11, 1, 1)), ("p", (12, 2, None)), ("q", (10, 1, 5)))
    world.check()
    world.commit(("q", (11, 1, 5)), ("q", (12, 2, 0)), ("p", (10,), None))
    world.check()
    world.commit(("p", (11, 2, 3)), ("q", (10,), None), ("p", (13, 2, 3)))
    world.check()
    world.check_anew()
