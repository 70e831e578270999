"""Large rows: queries keep a bounded number of bytes, and answer in parts."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any

import pytest

from hornbeam_server.query import duckdb_plan
from hornbeam_server.query import engine as engine_module
from hornbeam_server.query.engine import PreparedQuery, QueryEngine
from hornbeam_server.query.execution import loops
from hornbeam_server.query.execution.loops import NativePlan
from hornbeam_server.query.planner import plan_spilling
from hornbeam_server.query.workers.control import Options
from hornbeam_server.query.workers.processes import inline_worker
from hornbeam_server.schema.errors import MemoryExceeded
from hornbeam_server.schema.sizes import bytes_of, pieces
from tests.query.query_world import MemoryReader, make_catalog
from tests.query.test_engine_store import BASE, assert_every_shape_answered

CATALOG = make_catalog()
FEW = make_catalog(version=2, row_counts={"author": 3, "item": 3, "line": 3})


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory):
    engine = QueryEngine(
        Options(memory_mb=256, spill_folder=tmp_path_factory.mktemp("spill")),
        new_worker=inline_worker,
    )
    yield engine
    engine.close()


@pytest.mark.parametrize("catalog", [CATALOG, FEW], ids=["many", "few"])
@pytest.mark.parametrize(("part", "kept"), [(1, 1), (3, 2)])
def test_every_shape_has_the_same_answer_in_parts(engine, monkeypatch, catalog, part, kept):
    """An answer of the store holds `part` rows; a join keeps `kept` answers."""
    monkeypatch.setattr(loops, "MAX_PARTS", kept)
    monkeypatch.setattr(loops, "JOINED_ROWS", 2)
    monkeypatch.setattr(duckdb_plan, "BUFFER_BYTES", 50)
    reader = MemoryReader(catalog, BASE, part=part)
    asyncio.run(assert_every_shape_answered(engine, reader))


async def rows(query: PreparedQuery) -> list[Any]:
    return await (await query.run(MemoryReader(CATALOG, BASE))).all()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT i_title, i_id FROM item ORDER BY i_title, i_id",
        "SELECT i_title, i_id FROM item ORDER BY i_title, i_id LIMIT 30",
        "SELECT DISTINCT i_title FROM item",
        "SELECT i_id, MIN(i_title) FROM item GROUP BY i_id",
        "SELECT i_id FROM item WHERE i_title IN (SELECT i_title FROM item)",
    ],
)
def test_queries_that_keep_too_many_bytes_go_to_duckdb(engine, monkeypatch, sql):
    query = engine.prepare(sql, CATALOG)
    assert isinstance(query.plan, NativePlan)
    wanted = sorted(asyncio.run(rows(query)), key=str)
    plans = []
    plan = plan_spilling
    monkeypatch.setattr(
        "hornbeam_server.query.engine.plan_spilling", lambda *a: plans.append(a) or plan(*a)
    )
    monkeypatch.setattr(loops, "KEPT_BYTES", 100)
    assert sorted(asyncio.run(rows(query)), key=str) == wanted
    assert len(plans) == 1


def test_a_sort_with_a_limit_drops_large_rows_early(engine, monkeypatch):
    query = engine.prepare("SELECT i_title, i_id FROM item ORDER BY i_title, i_id LIMIT 2", CATALOG)
    wanted = asyncio.run(rows(query))
    monkeypatch.setattr(loops, "KEPT_BYTES", 100)
    monkeypatch.setattr(engine_module, "plan_spilling", None)  # DuckDB is not needed
    assert asyncio.run(rows(query)) == wanted


async def test_a_sort_that_outgrows_memory_after_its_first_rows_is_refused(engine, monkeypatch):
    sql = """SELECT i_pub, i_title, i_id, i_subject FROM item WHERE i_subject = 'art'
             ORDER BY i_pub DESC, i_title, i_id LIMIT 100"""
    query = engine.prepare(sql, CATALOG)
    assert isinstance(query.plan, NativePlan)
    assert 0 < query.plan.delivered < len(query.plan.order)
    titles = ["short", "l" * 200, "l" * 200]
    items = [
        (n, None, title, "art", None, dt.date(2020, 1, 9 - n)) for n, title in enumerate(titles)
    ]
    reader = MemoryReader(CATALOG, {"author": [], "item": items, "line": []})

    assert [row[2] for row in await (await query.run(reader)).all()] == [0, 1, 2]
    monkeypatch.setattr(loops, "KEPT_BYTES", 100)
    with pytest.raises(MemoryExceeded):
        await (await query.run(reader)).all()


def test_pieces_end_with_the_row_that_reaches_the_limit_of_bytes():
    given = [(1, "a" * n, None) for n in (0, 5, 5, 1, 20, 1)]
    assert list(pieces(given, (1, 2), 10)) == [given[:3], given[3:5], given[5:]]
    assert list(pieces(given, (), 10)) == [given]
    assert list(pieces(given, (1,), 100)) == [given]
    assert list(pieces([], (1,), 10)) == [[]]
    assert bytes_of((1, "ab", b"c", None, 2.0)) == 3
