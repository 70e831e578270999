"""Views with conditions on the current time: rows enter and leave without a commit."""

import datetime as dt
from copy import copy
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam_server.maintain.deltas.program import compile_view
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.model import DeclaredView, Refresh
from tests.depth import depth
from tests.maintain.deltas.deltas_world import Rows, World, catalog_of, view_layouts

DDL = """
CREATE TABLE shop (name TEXT PRIMARY KEY, since DATE);
CREATE INDEX shop_since ON shop (since);
CREATE TABLE sale (id BIGINT PRIMARY KEY, shop TEXT, at TIMESTAMPTZ, local TIMESTAMP, day DATE,
    amount INTEGER);
CREATE INDEX sale_shop ON sale (shop);
CREATE INDEX sale_at ON sale (at);
CREATE INDEX sale_local ON sale (local);
CREATE INDEX sale_day ON sale (day);
"""
HOUR = 3_600_000
START = 20_000 * 24 * HOUR
"""A midnight, in milliseconds."""
VIEWS = {
    "rows": "SELECT id, amount FROM sale WHERE at > now() - INTERVAL '1 hour'",
    "future": "SELECT id FROM sale WHERE at > now()",
    "between": "SELECT id, day FROM sale"
    " WHERE at BETWEEN now() - INTERVAL '2 hours' AND current_timestamp",
    "sums": "SELECT shop, count(*) AS n, sum(amount) AS total, max(amount) AS most FROM sale"
    " WHERE at >= now() - INTERVAL '3 hours' GROUP BY shop",
    "total": "SELECT count(*) AS n, sum(amount) AS total FROM sale WHERE at <= now()",
    "joined": "SELECT s.id, p.since FROM sale s JOIN shop p ON p.name = s.shop"
    " WHERE s.at > now() - INTERVAL '1 day' AND p.since <= current_date",
    "wordy": "SELECT id FROM sale WHERE now() - at < INTERVAL '90 minutes'",
    "kept_for": "SELECT id FROM sale WHERE now() <= at + INTERVAL '1 day'",
    "local_time": "SELECT id FROM sale WHERE local > now() - INTERVAL '1 hour'",
    "local_too": "SELECT id FROM sale WHERE localtimestamp < local",
    "today": "SELECT id FROM sale WHERE day = current_date",
    "week": "SELECT day, count(*) AS n FROM sale WHERE day > current_date - 7 GROUP BY day",
    "since_noon": "SELECT id FROM sale WHERE day >= now() - INTERVAL '12 hours'",
    "hour_begun": "SELECT id FROM sale WHERE at >= date_trunc('hour', now())",
    "quiet": "SELECT shop, max(at) AS latest FROM sale GROUP BY shop"
    " HAVING max(at) < now() - INTERVAL '1 hour'",
    "with_sales": "SELECT name FROM shop p WHERE EXISTS"
    " (SELECT 1 FROM sale s WHERE s.shop = p.name AND s.at > now() - INTERVAL '1 hour')",
    "months": "SELECT id FROM sale WHERE at > now() - INTERVAL '1 month'",
    "best": "SELECT shop, id, amount FROM (SELECT shop, id, amount, row_number() OVER"
    " (PARTITION BY shop ORDER BY amount DESC, id) AS place FROM sale"
    " WHERE at > now() - INTERVAL '2 hours') AS ranked WHERE place <= 2",
    "nested": "SELECT total.n FROM total",
}
NEAR = st.integers(-30 * 4, 3 * 4).map(lambda quarters: quarters * HOUR // 4)
MOMENTS = st.none() | NEAR.map(lambda ms: START + ms)


def moment(ms, zone=dt.UTC):
    return None if ms is None else dt.datetime.fromtimestamp(ms / 1000, dt.UTC).replace(tzinfo=zone)


def sale(number, shop, ms, amount):
    local = moment(ms, None)
    return (number, shop, moment(ms), local, None if local is None else local.date(), amount)


SALES = st.builds(
    sale, st.integers(1, 6), st.sampled_from("abc"), MOMENTS, st.none() | st.integers(0, 9)
)
WRITES = st.one_of(
    SALES.map(lambda row: ("sale", row)),
    st.integers(1, 6).map(lambda number: ("sale", (number,), None)),
    st.tuples(st.sampled_from("abc"), MOMENTS.map(lambda ms: ms and moment(ms).date())).map(
        lambda row: ("shop", row)
    ),
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from([0, 1, HOUR // 4, HOUR, 5 * HOUR, 40 * HOUR]),
        st.lists(WRITES, max_size=3),
    ),
    min_size=1,
    max_size=5,
)


@cache
def compiled():
    return World(catalog_of(DDL), VIEWS)


def world(*names):
    """Return a world without rows that has some of the views."""
    made = copy(compiled())
    made.programs = {name: compiled().programs[name] for name in names}
    own = [layout for program in made.programs.values() for layout in view_layouts(program)]
    made.views = [layout.name for layout in own]
    made.store = Rows(made.catalog, made.layouts, whole=made.whole)
    made.now = START
    made.build()
    return made


@settings(max_examples=depth(10, long=200))
@given(st.sets(st.sampled_from(sorted(VIEWS)), min_size=1, max_size=3).map(sorted), STEPS)
def test_rows_enter_and_leave_as_time_passes(names, steps):
    made = world(*names)
    for passed_ms, writes in steps:
        made.now += passed_ms
        made.commit(*writes)
        made.check()
    made.check_anew()


def test_a_batch_reads_only_the_rows_that_enter_or_leave():
    made = world("rows")
    made.commit(*(("sale", sale(n, "a", START + n * HOUR // 100, n)) for n in range(1, 301)))
    made.now = START + HOUR + 10 * HOUR // 100
    before = sum(made.store.found.values())
    made.commit()
    made.check()
    assert len(made.store.rows["rows"]) == 290
    assert sum(made.store.found.values()) - before <= 2 * (2 * 10 + 10)  # both executors


def refusal(sql, *, refresh=Refresh.DEFERRED, ddl=DDL):
    catalog = replace(catalog_of(ddl), row_counts=(("sale", 10**6), ("shop", 10**6)))
    with pytest.raises(Unsupported) as caught:
        compile_view(DeclaredView("v", sql, refresh=refresh), catalog, small=frozenset())
    return caught.value


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, now() AS seen FROM sale",
        "SELECT id FROM sale ORDER BY now()",
        "SELECT count(*) FILTER (WHERE at > now()) AS n FROM sale",
        "SELECT s.id FROM sale s LEFT JOIN shop p ON p.name = s.shop AND s.at > now()",
        "SELECT id FROM sale WHERE amount > (SELECT extract(hour FROM now()))",
    ],
)
def test_the_current_time_stands_in_conditions_of_where_and_having(sql):
    assert "outside WHERE and HAVING" in str(refusal(sql)) or "ORDER BY" in str(refusal(sql))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM sale WHERE extract(year FROM at) = extract(year FROM now())",
        "SELECT id FROM sale WHERE at + amount * INTERVAL '1 hour' > now()",
        "SELECT id FROM sale WHERE amount > 3 OR at > now()",
        "SELECT id FROM sale WHERE at + INTERVAL '1 month' > now()",
    ],
)
def test_a_condition_that_no_index_serves_is_refused(sql):
    error = refusal(sql)
    assert "each would read all rows of sale" in error.message
    assert "at > now()" in error.cure


def test_the_index_that_is_missing_is_named():
    error = refusal(VIEWS["rows"], ddl=DDL.replace("CREATE INDEX sale_at ON sale (at);", ""))
    assert error.cure == "CREATE INDEX ON sale (at)"
