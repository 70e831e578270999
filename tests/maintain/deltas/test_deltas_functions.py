"""Law: views over PostgreSQL's functions that are Python (decision 69) equal DuckDB's answers, kept
by loops, by DuckDB, and built again."""

import datetime as dt
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam_server.maintain.immediate.projected import define_any, projected_program
from hornbeam_server.query.dialect.value_functions import CALLED
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.model import DeclaredView, Refresh
from tests.depth import depth
from tests.maintain.deltas.deltas_world import World, catalog_of

DDL = """CREATE TABLE p (i INT PRIMARY KEY, t TEXT, n INT, d DECIMAL(12,3), f DOUBLE, y BYTEA,
  s DATE, c TIME, m TIMESTAMP, z TIMESTAMPTZ, o BOOLEAN);"""
CATALOG = catalog_of(DDL)

CALLS = {
    "to_char": ["to_char(d, 'FM9990.00')", "to_char(m, 'YYYY-MM-DD HH24:MI')", "to_char(n, '999')"],
    "to_date": ["to_date(to_char(s, 'YYYYMMDD'), 'YYYYMMDD')"],
    "chr": ["chr(abs(n) + 64)"],
    "normalize": ["normalize(t)", "normalize(t, NFD)"],
    "parse_ident": ["parse_ident(quote_ident('x' || t))"],
    "quote_ident": ["quote_ident(t)"],
    "quote_literal": ["quote_literal(t)", "quote_literal(d)", "quote_literal(s)"],
    "quote_nullable": ["quote_nullable(t)", "quote_nullable(n)"],
    "split_part": ["split_part(t, 'a', 1)", "split_part(t, ' ', -1)"],
    "unistr": ["unistr(replace(t, '\\', ''))"],
    "convert": ["convert(convert_to(t, 'UTF8'), 'UTF8', 'UTF8')"],
    "convert_from": ["convert_from(convert_to(t, 'UTF8'), 'UTF8')"],
    "convert_to": ["convert_to(t, 'UTF8')"],
    "decode": ["decode(encode(y, 'hex'), 'hex')", "decode(encode(y, 'base64'), 'base64')"],
    "encode": ["encode(y, 'hex')", "encode(y, 'escape')"],
    "get_bit": ["get_bit(sha256(y), 3)"],
    "get_byte": ["get_byte(sha256(y), 0)"],
    "length": ["length(convert_to(t, 'UTF8'), 'UTF8')"],
    "set_bit": ["set_bit(sha256(y), 3, 1)"],
    "set_byte": ["set_byte(sha256(y), 0, 7)"],
    "sha224": ["sha224(y)"],
    "sha256": ["sha256(y)"],
    "sha384": ["sha384(y)"],
    "sha512": ["sha512(y)"],
    "acosd": ["acosd(f / 100)"],
    "asind": ["asind(f / 100)"],
    "atan2d": ["atan2d(f, 2)"],
    "atand": ["atand(f)"],
    "cosd": ["cosd(f)"],
    "cotd": ["cotd(f + 1)"],
    "sind": ["sind(f)"],
    "tand": ["tand(f)"],
    "div": ["div(d, 0.7)", "div(n, 3)"],
    "min_scale": ["min_scale(d)"],
    "scale": ["scale(d)"],
    "width_bucket": ["width_bucket(d, 0, 10, 5)", "width_bucket(f, -1, 1, 3)"],
    "regexp_count": ["regexp_count(t, 'a')"],
    "regexp_instr": ["regexp_instr(t, 'a')"],
    "regexp_like": ["regexp_like(t, 'a.')"],
    "regexp_match": ["regexp_match(t, '(a)(.)')"],
    "regexp_split_to_array": ["regexp_split_to_array(t, ' ')"],
    "regexp_substr": ["regexp_substr(t, 'a.')"],
    "similar_to_escape": ["similar_to_escape(t)"],
}
"""Calls by the function's name. None of them fails for a row that `ROWS` draws."""
IN_LOOPS = [call for name, calls in CALLS.items() if CALLED[name].loops for call in calls]
MATCHES = [call for name, calls in CALLS.items() if not CALLED[name].loops for call in calls]
OUTER = ["{}", "length({}::TEXT)", "coalesce({}::TEXT, '-')", "quote_nullable({}::TEXT)"]


def test_every_function_has_a_call():
    assert CALLS.keys() == CALLED.keys()


def optional(*values):
    return st.sampled_from([None, *values])


ROWS = st.tuples(
    st.integers(1, 5),
    optional("", "a", "ab a", "Ä'b\\ c", "é"),
    optional(-3, 0, 7),
    optional(*map(Decimal, ("0.000", "-1.500", "9.999", "10.250"))),
    optional(0.0, 0.5, -1.25, 45.0),
    optional(b"", b"\x00\xff", b"ab"),
    optional(dt.date(1999, 12, 31), dt.date(2026, 2, 28)),
    optional(dt.time(0, 0), dt.time(23, 59, 59, 999_999)),
    optional(dt.datetime(2026, 1, 31, 10, 0, 0, 5)),
    optional(dt.datetime(2026, 1, 31, 10, tzinfo=dt.UTC)),
    optional(True, False),
)


@st.composite
def views(draw, calls):
    """SELECTs over random calls: projections, filters, groups, minima and DISTINCT."""
    call = st.builds(str.format, st.sampled_from(OUTER), st.sampled_from(calls))
    plain, *more = draw(st.lists(call, min_size=4, max_size=4))
    by, least, condition = more
    return {
        "rows": f"SELECT i, {plain} AS v, {by} AS w FROM p",
        "some": f"SELECT i, {plain} AS v FROM p WHERE {condition} IS NOT NULL",
        "sums": f"SELECT ({by})::TEXT AS g, count(*) AS rows, count({condition}) AS n,"
        f" min(({least})::TEXT) AS low, count(DISTINCT ({plain})::TEXT) AS different, sum(n) AS s"
        f" FROM p GROUP BY ({by})::TEXT",
        "distinct": f"SELECT DISTINCT ({least})::TEXT AS v FROM p",
    }


@settings(max_examples=depth(8, long=15))
@given(st.data())
def test_views_over_functions_equal_duckdb(data):
    require_kept(data, IN_LOOPS)


@settings(max_examples=depth(3, long=5))
@given(st.data())
def test_views_over_regular_expressions_equal_duckdb(data):
    require_kept(data, MATCHES)


def require_kept(data, calls):
    world = World(CATALOG, data.draw(views(calls)))
    for _ in range(2):
        rows = data.draw(st.lists(ROWS, min_size=1, max_size=6))
        gone = data.draw(st.integers(1, 5))
        world.commit(*(("p", row) for row in rows), ("p", (gone,), None))
        world.check()
    world.check_anew()


@pytest.mark.parametrize("call", IN_LOOPS)
def test_immediate_views_evaluate_the_functions_of_loops(call):
    projected_program(immediate(call), CATALOG)


@pytest.mark.parametrize("call", MATCHES)
def test_immediate_views_refuse_regular_expressions(call):
    with pytest.raises(Unsupported, match="cannot be evaluated in a transaction"):
        projected_program(immediate(call), CATALOG)


def immediate(call):
    declared = DeclaredView("v", f"SELECT i, {call} AS v FROM p", refresh=Refresh.IMMEDIATE)
    return define_any(declared, CATALOG)
