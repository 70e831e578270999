"""Edge cases of the engine: parameters, limits, time, memory, cancellation, Arrow."""

from __future__ import annotations

import asyncio
import tracemalloc
import uuid
from collections.abc import Coroutine
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pytest

from hornbeam_server.query import duckdb_plan
from hornbeam_server.query.dialect.duckdb_types import from_record_batch
from hornbeam_server.query.duckdb_plan import ResidualPlan
from hornbeam_server.query.engine import PreparedQuery, QueryEngine
from hornbeam_server.query.execution import lookups, loops
from hornbeam_server.query.execution.loops import NativePlan
from hornbeam_server.query.planner import plan_spilling
from hornbeam_server.query.workers.control import Options
from hornbeam_server.schema.errors import (
    LimitExceeded,
    SqlError,
    StatementTimeout,
    TypeMismatch,
    UnknownName,
    Unsupported,
)
from tests.query.query_world import MemoryReader, make_catalog, sample

CATALOG = make_catalog()
FEW = make_catalog(version=2, row_counts={"author": 3, "item": 3, "line": 3})
BASE = sample()
GROUPED = "SELECT i_subject, COUNT(DISTINCT i_id) AS n FROM item WHERE i_id < ? GROUP BY i_subject"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory):
    engine = QueryEngine(Options(memory_mb=64, spill_folder=tmp_path_factory.mktemp("spill")))
    yield engine
    engine.close()


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


async def rows(query: PreparedQuery, parameters: Any = (), **options: Any) -> list[Any]:
    return await (await query.run(MemoryReader(CATALOG, BASE), parameters, **options)).all()


def test_prepared_statements_are_kept_by_text_and_catalog(engine):
    sql = "SELECT a_name FROM author WHERE a_id = 1"
    first = engine.prepare(sql, CATALOG)
    assert engine.prepare(sql, CATALOG) is first
    assert engine.prepare(sql, CATALOG, use_views=False) is not first
    assert engine.prepare(sql, make_catalog(version=2)) is not first


def test_the_cache_drops_the_least_recently_used_statement():
    engine = QueryEngine(prepared=2)
    one, two, three = (f"SELECT {i} AS n FROM author WHERE a_id = 1" for i in range(3))
    kept, lost = engine.prepare(one, CATALOG), engine.prepare(two, CATALOG)
    engine.prepare(one, CATALOG)
    engine.prepare(three, CATALOG)
    assert engine.prepare(one, CATALOG) is kept
    assert engine.prepare(two, CATALOG) is not lost
    engine.close()


@pytest.mark.parametrize("given", [(), (1, 2), {"x": 1}])
def test_missing_and_surplus_parameters_are_refused(engine, given):
    query = engine.prepare("SELECT * FROM item WHERE i_id = ?", CATALOG)
    with pytest.raises(SqlError, match=r"[Pp]arameter"):
        run(rows(query, given))


def test_parameters_take_the_type_of_the_column_they_are_compared_with(engine):
    query = engine.prepare("SELECT i_id FROM item WHERE i_price = :p AND i_pub = :d", CATALOG)
    found = run(rows(query, {"p": "1.75", "d": "2020-01-02"}))
    assert found == run(rows(query, {"p": 1.75, "d": "2020-01-02"})) == [(1,)]
    with pytest.raises(TypeMismatch):
        run(rows(query, {"p": "cheap", "d": None}))


def test_a_parameter_compared_with_two_columns_has_one_type(engine):
    """The parameter has the type of the decimal column and is no key of the integer column."""
    query = engine.prepare("SELECT i_id FROM item WHERE i_price > :x AND i_id = :x", CATALOG)
    found = [run(rows(query, {"x": x})) for x in (1, Decimal("1.00"), 1.5, 2)]
    assert found == [[(1,)], [(1,)], [], run(rows(engine.prepare(
        "SELECT i_id FROM item WHERE i_price > 2 AND i_id = 2", CATALOG)))]  # fmt: skip


def test_a_value_with_more_digits_than_the_column_is_not_rounded(engine):
    literal = engine.prepare("SELECT i_id FROM item WHERE i_price >= 1.755", CATALOG)
    query = engine.prepare("SELECT i_id FROM item WHERE i_price >= ?", CATALOG)
    above = engine.prepare("SELECT i_id FROM item WHERE i_price >= 1.76", CATALOG)
    found = run(rows(query, [Decimal("1.755")]))
    assert found == run(rows(literal)) == run(rows(above)) != []


def test_text_longer_than_the_column_matches_nothing(engine):
    query = engine.prepare("SELECT i_id FROM item WHERE i_title = ?", CATALOG)
    assert run(rows(query, ["x" * 100])) == []


@pytest.mark.parametrize(
    "sql", ["SELECT * FROM item LIMIT ?", "SELECT * FROM item LIMIT 1 OFFSET ?"]
)
def test_limit_and_offset_require_a_count(engine, sql):
    with pytest.raises(SqlError, match="whole number"):
        run(rows(engine.prepare(sql, CATALOG), [-1]))


def test_writes_and_unknown_names_are_refused(engine):
    with pytest.raises(Unsupported, match="DELETE"):
        engine.prepare("DELETE FROM item", CATALOG)
    with pytest.raises(UnknownName):
        engine.prepare("SELECT nothing FROM item", CATALOG)


@pytest.mark.parametrize("sql", ["SELECT * FROM item", "SELECT DISTINCT i_id + 0 FROM item"])
def test_more_rows_than_allowed_are_an_error(engine, sql):
    query = engine.prepare(sql, CATALOG)
    assert len(run(rows(query, max_rows=120))) == 120
    with pytest.raises(LimitExceeded, match="more than 119 rows"):
        run(rows(query, max_rows=119))


def test_errors_of_duckdb_become_hornbeam_errors(engine):
    query = engine.prepare("SELECT DISTINCT CAST(i_title AS INTEGER) FROM item", CATALOG)
    with pytest.raises(TypeMismatch, match="Could not convert"):
        run(rows(query))
    again = engine.prepare("SELECT DISTINCT no_such_function(i_id) FROM item", CATALOG)
    with pytest.raises(SqlError, match="no_such_function"):
        run(rows(again))


ENDLESS = """SELECT COUNT(*) FROM item a, item b, item c, item d, item e
             WHERE a.i_price + b.i_price + c.i_price + d.i_price + e.i_price < 0"""


async def test_duckdb_is_interrupted_at_the_deadline(engine):
    query = engine.prepare(ENDLESS, CATALOG)
    loop = asyncio.get_running_loop()
    start = loop.time()
    with pytest.raises(StatementTimeout):
        await rows(query, deadline=start + 0.2)
    assert loop.time() - start < 5
    assert await rows(engine.prepare("SELECT DISTINCT 1 AS n FROM item", CATALOG)) == [(1,)]


async def test_native_loops_stop_at_the_deadline(engine):
    query = engine.prepare("SELECT COUNT(*) FROM line WHERE l_qty > 100", CATALOG)
    assert isinstance(query.plan, NativePlan)
    with pytest.raises(StatementTimeout):
        await rows(query, deadline=asyncio.get_running_loop().time() - 1)


async def test_a_cancelled_query_leaves_duckdb_usable(engine):
    task = asyncio.create_task(rows(engine.prepare(ENDLESS, CATALOG)))
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    found = await rows(engine.prepare(GROUPED, CATALOG), [3])
    assert sorted(found, key=str) == [("art", 1), ("biography", 1), ("cooking", 1)]


async def test_a_closed_stream_reads_no_further(engine):
    reader = MemoryReader(CATALOG, BASE, batch=10)
    batches = (await engine.prepare("SELECT * FROM line", CATALOG).run(reader)).batches()
    first = await anext(batches)
    await batches.aclose()
    assert (len(first), len(reader.reads)) == (10, 1)


async def test_limit_stops_reading(engine):
    async def work(sql: str) -> int:
        reader = MemoryReader(CATALOG, BASE, batch=5)
        await (await engine.prepare(sql, CATALOG).run(reader)).all()
        return sum(count for _, _, count in reader.reads)

    assert await work("SELECT * FROM line LIMIT 3") == 3
    assert await work("SELECT MAX(l_o_id) FROM line") == 1
    assert await work("SELECT l_o_id FROM line WHERE l_qty = 1 ORDER BY l_o_id LIMIT 1") == 5
    sorted_in_groups = "SELECT l_o_id FROM line ORDER BY l_o_id, l_qty LIMIT 4"
    assert await work(sorted_in_groups) <= 10


def test_a_sort_that_outgrows_memory_goes_to_duckdb(engine, monkeypatch):
    query = engine.prepare("SELECT l_o_id, l_no FROM line ORDER BY l_weight, 1, 2", CATALOG)
    assert isinstance(query.plan, NativePlan)
    wanted = run(rows(query))
    monkeypatch.setattr(loops, "SORT_ROWS", 50)
    assert run(rows(query)) == wanted


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT l_o_id, l_no FROM line WHERE l_o_id < 50 GROUP BY 1, 2",
        "SELECT DISTINCT l_i_id, l_qty FROM line WHERE l_o_id < 50",
        "SELECT l_no FROM line WHERE l_i_id IN (SELECT i_id FROM item) AND l_o_id < 20",
        # DuckDB runs these queries; our loops run their subqueries while they are small.
        "SELECT COUNT(DISTINCT l_no) FROM line WHERE l_i_id IN"
        " (SELECT l_i_id FROM line WHERE l_o_id < 50 GROUP BY l_i_id)",
        "SELECT COUNT(DISTINCT l_no) FROM line WHERE l_i_id > (SELECT MIN(i_id) FROM item"
        " WHERE i_id IN (SELECT i_id FROM item))",
        "SELECT COUNT(DISTINCT l_no) FROM line WHERE l_qty IN (SELECT l_no FROM line)"
        " AND l_i_id IN (SELECT l_i_id FROM line WHERE l_o_id < 50 GROUP BY l_i_id)",
    ],
)
def test_groups_and_values_that_outgrow_memory_go_to_duckdb(engine, monkeypatch, sql):
    query = engine.prepare(sql, FEW)
    wanted = sorted(run(rows(query)), key=str)
    assert wanted
    plan = plan_spilling
    plans = []
    monkeypatch.setattr(
        "hornbeam_server.query.engine.plan_spilling", lambda *a: plans.append(a) or plan(*a)
    )
    monkeypatch.setattr(loops, "SORT_ROWS", 10)
    monkeypatch.setattr(loops, "LIST_VALUES", 10)
    monkeypatch.setattr(duckdb_plan, "BUFFER_ROWS", 100)
    assert sorted(run(rows(query)), key=str) == wanted
    assert len(plans) == 1


@pytest.mark.parametrize("buffer", [7, 399, 400])
def test_sources_larger_than_the_buffer_use_temporary_tables(engine, monkeypatch, buffer):
    sql = """SELECT i_subject, COUNT(DISTINCT l_no), SUM(l_qty) FROM line, item
             WHERE l_i_id = i_id AND l_qty IN (SELECT l_no FROM line) GROUP BY 1"""
    query = engine.prepare(sql, CATALOG)
    assert isinstance(query.plan, ResidualPlan)
    wanted = sorted(run(rows(query)), key=str)
    monkeypatch.setattr(duckdb_plan, "BUFFER_ROWS", buffer)
    assert sorted(run(rows(query)), key=str) == wanted


class EndlessReader(MemoryReader):
    """A reader whose relation `line` has `count` rows, generated while they are read."""

    def __init__(self, count: int) -> None:
        super().__init__(CATALOG, {"author": [], "item": [], "line": []})
        self.count = count

    async def scan(self, layout: str, *_: Any, **__: Any):
        for start in range(0, self.count, 500):
            yield [(i, 0, None, i % 7, 1.0) for i in range(start, start + 500)]


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("SELECT * FROM line", NativePlan),
        ("SELECT l_o_id, ROW_NUMBER() OVER () AS n, l_weight, l_no FROM line", ResidualPlan),
    ],
)
async def test_a_long_result_streams_in_bounded_memory(engine, sql, kind):
    query = engine.prepare(sql, CATALOG)
    assert isinstance(query.plan, kind)
    seen = 0
    tracemalloc.start()
    try:
        stream = await query.run(EndlessReader(60_000))
        async for batch in stream.batches():
            seen += len(batch)
        assert seen == 60_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 12_000_000  # 60 000 rows as tuples are about 15 MB


@pytest.mark.parametrize("sql", ["SELECT * FROM item", "SELECT DISTINCT * FROM item"])
async def test_arrow_and_rows_are_equal(engine, sql):
    query = engine.prepare(sql, CATALOG)
    stream = await query.run(MemoryReader(CATALOG, BASE))
    found: list[Any] = []
    async for batch in stream.arrow():
        assert batch.schema == stream.schema
        found += from_record_batch(batch)
    assert sorted(found, key=str) == sorted(await rows(query), key=str)


async def test_types_of_duckdb_results_are_known(engine):
    sql = f"SELECT DISTINCT CAST('{uuid.UUID(int=5)}' AS UUID) AS u, l_qty + 0.5 AS h FROM line"
    stream = await engine.prepare(sql, CATALOG).run(MemoryReader(CATALOG, BASE))
    types = [column.type.sql() for column in stream.columns]
    batches = [batch async for batch in stream.arrow()]
    assert types == ["UUID", "DECIMAL(12,1)"]
    assert batches[0].column(0)[0].as_py() == uuid.UUID(int=5)


@pytest.mark.parametrize("use_views", [True, False])
def test_equality_of_rows_with_a_null_is_unknown(engine, use_views):
    """DuckDB treats such rows as equal, so their values are compared one by one."""
    pairs = "(VALUES (1, 2, 1, 2), (1, NULL, 1, NULL), (1, NULL, 2, NULL)) AS t (a, b, c, d)"
    query = engine.prepare(f"SELECT (a, b) = (c, d) FROM {pairs}", CATALOG, use_views=use_views)
    assert run(rows(query)) == [(True,), (None,), (False,)]
    query = engine.prepare(f"SELECT a FROM {pairs} WHERE (a, b) = (c, d)", CATALOG)
    assert run(rows(query)) == [(1,)]


def test_served_by_names_the_layouts_that_are_read(engine):
    sql = "SELECT * FROM author, item WHERE i_a_id = a_id AND i_subject = ?"
    assert engine.prepare(sql, CATALOG).served_by == ("author_item_by_subject",)
    assert set(engine.prepare(sql, CATALOG, use_views=False).served_by) == {
        "item_subject",
        "author",
    }


async def test_queries_run_concurrently(engine):
    query = engine.prepare(GROUPED, CATALOG)
    found = await asyncio.gather(*(rows(query, [n % 5]) for n in range(20)))
    assert [sum(n for _, n in answer) for answer in found] == [n % 5 for n in range(20)]


async def test_the_right_side_of_a_left_join_is_looked_up(engine):
    sql = """SELECT l_no, i_title, UPPER(a_name) FROM line LEFT OUTER JOIN item ON i_id = l_i_id
             LEFT JOIN author ON a_id = i_a_id WHERE l_o_id = 7"""
    reader = MemoryReader(CATALOG, BASE)
    await (await engine.prepare(sql, CATALOG).run(reader)).all()
    assert reader.reads == [("scan", "line", 4), ("get", "item", 4), ("get", "author", 4)]


async def test_alternatives_of_a_join_are_looked_up(engine):
    sql = """SELECT i.i_id FROM line l, item i
             WHERE (l.l_i_id = i.i_id OR l.l_qty = i.i_id) AND l.l_o_id = 7 AND l.l_no < 2"""
    assert isinstance(engine.prepare(sql, CATALOG).plan, NativePlan)
    reader = MemoryReader(CATALOG, BASE)
    await (await engine.prepare(sql, CATALOG).run(reader)).all()
    assert reader.reads == [("scan", "line", 2), ("get", "item", 4)]


async def test_a_subquery_narrows_the_rows_that_are_read(engine):
    sql = """SELECT l_no, SUM(l_qty) FROM line
             WHERE l_o_id = (SELECT MAX(i_id) FROM item WHERE i_id < 8)
               AND l_no IN (SELECT l_no FROM line WHERE l_o_id = 3 AND l_no > 1) GROUP BY l_no"""
    query = engine.prepare(sql, CATALOG)
    assert query.sources == {"line", "item"}
    reader = MemoryReader(CATALOG, BASE)
    await (await query.run(reader)).all()
    assert reader.reads == [("scan", "item", 1), ("scan", "line", 2), ("get", "line", 2)]


class MeetingReader(MemoryReader):
    """A reader whose scans wait for one another until `together` of them have begun."""

    def __init__(self, together: int) -> None:
        super().__init__(CATALOG, BASE)
        self.together = asyncio.Barrier(together)
        self.begun = self.most = 0

    async def scan(self, *args: Any, **named: Any):
        self.begun += 1
        self.most = max(self.most, self.begun)
        await self.together.wait()
        async for batch in super().scan(*args, **named):
            yield batch
        self.begun -= 1


async def test_ranges_are_read_concurrently_up_to_a_limit(engine):
    """The query reads 2 × SCANS_AT_ONCE orders, and each order is a separate range."""
    orders = ", ".join(map(str, range(2 * lookups.SCANS_AT_ONCE)))
    sql = f"SELECT l_o_id, l_no FROM line WHERE l_o_id IN ({orders}) AND l_no >= 2"
    wanted = await rows(engine.prepare(sql, CATALOG))
    assert len({order for order, _ in wanted}) == 2 * lookups.SCANS_AT_ONCE
    reader = MeetingReader(lookups.SCANS_AT_ONCE)
    async with asyncio.timeout(10):
        assert await (await engine.prepare(sql, CATALOG).run(reader)).all() == wanted
    assert reader.most == lookups.SCANS_AT_ONCE


MANY = make_catalog(version=3, row_counts={"author": 20_000, "item": 100_000, "line": 5_000})
JOIN = "FROM author, item WHERE a_id = i_a_id"


@pytest.mark.parametrize(
    ("sql", "columnar", "kind"),
    [
        (
            f"SELECT *, * {JOIN}",
            False,
            NativePlan,
        ),  # converting its values costs more than look-ups
        (f"SELECT *, * {JOIN}", True, ResidualPlan),  # Arrow converts no values
        (f"SELECT i_id {JOIN}", False, ResidualPlan),  # few values to convert
        (f"SELECT *, * {JOIN} AND a_name || i_title = 'x'", False, ResidualPlan),  # few rows
        (f"SELECT COUNT(*) {JOIN}", False, ResidualPlan),
        (f"SELECT *, * {JOIN} ORDER BY i_title", False, ResidualPlan),  # too many rows for our sort
        (f"SELECT * {JOIN} AND i_id = 1", True, NativePlan),  # few rows
    ],
)
def test_a_large_join_runs_natively_when_its_result_has_wide_rows(engine, sql, columnar, kind):
    query = engine.prepare(sql, MANY, use_views=False, columnar=columnar)
    assert isinstance(query.plan, kind)


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT 1", [(1,)]),
        ("SELECT 7 / 2 AS x, 'a' || 'b', NULL", [(3, "ab", None)]),
        ("SELECT -5, 1.50", [(-5, Decimal("1.50"))]),
        ("SELECT upper(:t), :t IS NULL", [("A", False)]),
    ],
)
async def test_values_without_a_relation_need_no_duckdb(engine, sql, rows):
    query = engine.prepare(sql, CATALOG)
    parameters = {"t": "a"} if ":t" in sql else {}
    with patch.object(engine.workers, "take", side_effect=AssertionError("DuckDB is asked")):
        found = await (await query.run(MemoryReader(CATALOG, BASE), parameters)).all()
    assert found == rows


@pytest.mark.parametrize("sql", ["SELECT 1 = 1 = TRUE", "SELECT 1 WHERE 1 < 2 <= 3 AND TRUE"])
def test_comparisons_are_not_chained(engine, sql):
    with pytest.raises(SqlError, match="cannot be chained"):
        engine.prepare(sql, CATALOG)
