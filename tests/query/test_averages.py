"""AVG has one meaning: the sum divided by the count, as a quotient of NUMERIC, in every plan."""

from __future__ import annotations

from decimal import Context, Decimal
from functools import reduce

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam_server.query.binding.binder import bind
from hornbeam_server.query.dialect.duckdb_sql import duckdb_sql
from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.query.execution.loops import NativePlan
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import SqlError
from hornbeam_server.schema.quotients import quotient
from tests.depth import depth
from tests.duckdb_oracle import connect
from tests.query.aggregate_world import World, catalog_with

SCHEMA = load_ddl(
    "CREATE TABLE t (k INTEGER PRIMARY KEY, g INTEGER, h INTEGER, i INTEGER, b BIGINT,"
    " d DECIMAL(18,4), w DECIMAL(38,12), day DATE, f DOUBLE PRECISION, flag BOOLEAN)"
)
COLUMNS = ("i", "b", "d", "w")
_AMOUNTS = ", ".join(f"sum({c}) AS s{c}, count({c}) AS n{c}" for c in COLUMNS)
_AVERAGES = ", ".join(f"avg({c}) AS a{c}" for c in COLUMNS)
VIEWS = {
    "amounts": f"SELECT g, h, {_AMOUNTS} FROM t GROUP BY g, h",
    "averages": f"SELECT g, {_AVERAGES} FROM t GROUP BY g",
}
ONE, OTHER = (
    catalog_with(SCHEMA, {name: sql}, version=i) for i, (name, sql) in enumerate(VIEWS.items(), 1)
)
ORACLE = connect()


def _halfway(most: int) -> st.SearchStrategy[int]:
    """Numbers, many of them near a power of two."""
    near = st.builds(
        lambda power, step, sign: sign * ((1 << power) + step),
        st.integers(0, most),
        st.integers(-3, 3),
        st.sampled_from([-1, 1]),
    )
    return st.one_of(st.integers(-5, 5), near)


VALUES = st.tuples(
    st.none() | _halfway(30),
    st.none() | _halfway(59),
    st.none() | _halfway(56).map(lambda n: Decimal(n).scaleb(-4)),
    st.none() | _halfway(99).map(lambda n: Decimal(n).scaleb(-12, Context(prec=60))),
)
ROWS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), VALUES), max_size=9)


@pytest.fixture(scope="module")
def engine():
    engine = QueryEngine()
    yield engine
    engine.close()


def _average(column: str, values: list[int | Decimal]) -> Decimal | None:
    """The definition."""
    if not values:
        return None
    exact = Context(prec=80)
    total = reduce(exact.add, map(Decimal, values), Decimal(0))
    places = {"d": 4, "w": 12}.get(column, 0)
    return quotient(exact.quantize(total, Decimal(1).scaleb(-places)), len(values))


@settings(max_examples=depth(20, long=60))
@given(rows=ROWS)
def test_averages_are_equal_to_the_bit_whoever_computes_them(rows, engine):
    data = {"t": [(k, g, h, *v, None, None, None) for k, (g, h, v) in enumerate(rows)]}
    calls = ", ".join(f"avg({column})" for column in COLUMNS)
    grouped = f"SELECT g, {calls} FROM t GROUP BY g"
    wanted = {
        repr(
            (
                g,
                *(
                    _average(c, [v[i] for at, _, v in rows if at == g and v[i] is not None])
                    for i, c in enumerate(COLUMNS)
                ),
            )
        )
        for g in {g for g, _, _ in rows}
    }
    added, kept = World(engine, ONE, data, ORACLE), World(engine, OTHER, data, ORACLE)
    found = {
        "our loops": added.ask(grouped, use_views=False),
        "DuckDB": added.ask(f"SELECT * FROM ({grouped}) AS q", use_views=False),
        "sums and counts": added.ask(grouped),
        "sums and counts in DuckDB": added.ask(f"SELECT * FROM ({grouped}) AS q"),
        "a column of the view": kept.ask(grouped),
    }
    for way, answer in found.items():
        assert set(map(repr, answer.rows)) == wanted, way
    for g in (0, 1):
        point = f"SELECT {calls} FROM t WHERE g = {g} AND h = 1"
        here, there = added.ask(point), added.ask(point, use_views=False)
        assert repr(here.rows) == repr(there.rows)


def test_the_law_compares_different_plans(engine):
    grouped = "SELECT g, avg(b) FROM t GROUP BY g"
    assert isinstance(engine.prepare(grouped, ONE, use_views=False).plan, NativePlan)
    assert not isinstance(engine.prepare(f"SELECT * FROM ({grouped}) q", ONE).plan, NativePlan)
    for catalog, view in ((ONE, "amounts"), (OTHER, "averages")):
        query = engine.prepare(grouped, catalog)
        assert query.explain().views == (view,)
        assert isinstance(query.plan, NativePlan)


@pytest.mark.parametrize(
    ("sql", "part"),
    [
        ("avg(i)", "HORNBEAM_QUOTIENT(SUM(i), COUNT(i))"),
        ("avg(DISTINCT b)", "HORNBEAM_QUOTIENT(SUM(DISTINCT b), COUNT(DISTINCT b))"),
        ("avg(d ORDER BY k)", "HORNBEAM_QUOTIENT(SUM(d), COUNT(d))"),
        ("avg(d + 1)", "HORNBEAM_QUOTIENT(SUM(d + 1), COUNT(d + 1))"),
        (
            "avg(d) FILTER (WHERE CAST(k AS TEXT) > '1') OVER (PARTITION BY CAST(g AS VARCHAR))",
            "COUNT(d) FILTER(WHERE CAST(k AS TEXT) > '1') OVER (PARTITION BY CAST(g AS TEXT))",
        ),
        ("2 * avg(i)", "2 * HORNBEAM_QUOTIENT(SUM(i), COUNT(i))"),
        ("avg(g // 2)", "HORNBEAM_AVERAGE(g // 2)"),
        ("avg(g // 2) FILTER (WHERE g > 1)", "AVERAGE(CASE WHEN g > 1 THEN"),
        ("avg(g // 2) OVER ()", "AVG(g // 2) OVER ()"),
        ("avg(f)", "AVG(f)"),
    ],
)
def test_an_average_is_written_for_duckdb_as_a_quotient(sql, part):
    written = duckdb_sql(bind(f"SELECT {sql} FROM t", ONE).ast)
    assert part in written
    name = "avg" if sql.startswith("avg") else '"?column?"'
    assert f"AS {name} FROM" in written


@pytest.mark.parametrize(
    ("sql", "row"),
    [
        ("avg(day)", "2026-01-02 00:00:00"),
        ("avg(round(i / 2.0, 0))", "1.50000000000000000000"),
        ("avg(round(i / 2.0, 0)) FILTER (WHERE i > 1)", "2.00000000000000000000"),
        ("avg(f)", 0.75),
        ("avg(CAST(day AS TIMESTAMP) - TIMESTAMP '2026-01-01')::TEXT", "1 day"),
    ],
)
def test_averages_of_other_types_are_duckdbs(sql, row, engine):
    days = [f"2026-01-0{n}" for n in (1, 3)]
    rows = [
        (k, 1, 1, k * 2 + 1, None, None, None, day, f, True)
        for k, (day, f) in enumerate(zip(days, (0.5, 1.0), strict=True))
    ]
    relation = SCHEMA.relation("t")
    typed = [
        tuple(
            value if value is None else column.type.coerce(value)
            for column, value in zip(relation.columns, each, strict=True)
        )
        for each in rows
    ]
    world = World(engine, ONE, {"t": typed}, ORACLE)
    ((found,),) = world.ask(f"SELECT {sql} FROM t").rows
    assert str(found) == str(row)


def test_an_average_of_truths_is_refused(engine):
    world = World(engine, ONE, {"t": []}, ORACLE)
    with pytest.raises(SqlError, match="AVG takes numbers"):
        world.ask("SELECT avg(flag) FROM t")
