"""Every query shape over the real store: snapshots, codecs and RocksDB."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path

import pytest

from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.schema.types import Row
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.storage.ports import Put
from hornbeam_server.storage.rocks.store import RocksStore
from hornbeam_server.storage.snapshot import Overlay, ReadItem, RowReader, Snapshot
from tests.query.query_world import ask, assert_answered, derive, make_catalog, oracle, sample
from tests.query.test_engine_law import NATIVE, RESIDUAL

CATALOG = make_catalog()
BASE = sample()
PARAMETERS = [
    {"k": 3, "j": 5, "s": "art", "d": dt.date(2020, 1, 2), "p": "title 1%", "n": 3},
    {"k": 90, "j": 95, "s": "x'y%", "d": dt.date(2020, 1, 3), "p": "%5", "n": 0},
    {"k": None, "j": 0, "s": None, "d": None, "p": None, "n": 1},
]


async def _load(store: RocksStore, codecs: Codecs) -> None:
    for name, rows in derive(CATALOG, BASE).items():
        codec = codecs(name)
        table = codec.layout.table
        await store.create_table(table)
        await store.put({table: [Put(codec.key(row), codec.encode(row)) for row in rows]}, 5)


async def assert_every_shape_answered(
    engine: QueryEngine, reader: RowReader, *, use_views: bool = True
) -> None:
    """Run every shape over `reader`, which reads BASE; assert that the answers equal DuckDB's."""
    database = oracle(BASE)
    for sql in [*NATIVE, *RESIDUAL]:
        query = engine.prepare(sql, reader.catalog, use_views=use_views)
        for parameters in PARAMETERS:
            used = {n: value for n, value in parameters.items() if f":{n}" in sql}
            wanted = ask(database, sql.replace(":", "$"), used)
            found = await (await query.run(reader, used)).all()
            assert_answered(sql, found, wanted, query.explain().text)


@pytest.mark.parametrize("use_views", [True, False])
async def test_every_shape_answers_like_duckdb_over_the_store(tmp_path: Path, use_views: bool):
    store, codecs = RocksStore.open(tmp_path / "db"), Codecs(CATALOG)
    engine = QueryEngine()
    await _load(store, codecs)
    reader = Snapshot(store, codecs, 5)
    await assert_every_shape_answered(engine, reader, use_views=use_views)
    engine.close()
    await store.close()


@dataclass(frozen=True)
class Written:
    layout: str
    key: bytes
    new: Row | None


async def test_uncommitted_rows_are_read_and_reads_are_traced(tmp_path: Path):
    store, codecs = RocksStore.open(tmp_path / "db"), Codecs(CATALOG)
    engine = QueryEngine()
    await _load(store, codecs)
    key = codecs("line").key_of
    changed = Overlay(
        [
            Written("line", key((1, 0)), None),
            Written("line", key((1, 9)), (1, 9, None, 70, 0.0)),
        ]
    )
    trace: list[ReadItem] = []
    reader = Snapshot(store, codecs, 5, mutations=changed, trace=trace)
    plain = engine.prepare("SELECT l_no FROM line WHERE l_o_id = 1", CATALOG)
    total = engine.prepare("SELECT DISTINCT SUM(l_qty) FROM line WHERE l_o_id = 1", CATALOG)
    rows = await (await plain.run(reader)).all()
    sums = await (await total.run(reader)).all()
    engine.close()
    await store.close()
    assert rows == [(1,), (2,), (3,), (9,)]
    assert sums == [(5 + 6 + 7 + 70,)]
    assert [(item.layout, item.ts) for item in trace] == [("line", 5)] * 6
