"""Plans that read columns: which queries have them, and that they give the rows of other plans."""

import pytest

from hornbeam_server.query.dialect.duckdb_types import from_record_batch
from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.query.execution.loops import NativePlan
from hornbeam_server.query.execution.measures import Measures, Measuring
from hornbeam_server.query.workers.control import Options
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.storage.ports import NEWEST, Put
from hornbeam_server.storage.simulated.store import SimulatedStore
from hornbeam_server.storage.snapshot import Snapshot
from tests.query.query_world import derive, make_catalog, sample

CATALOG = make_catalog()
COLUMNS = [
    "SELECT * FROM item",
    "SELECT i_title, i_id, i_title FROM item",
    "SELECT * FROM item ORDER BY i_id",
    "SELECT i_id FROM item ORDER BY i_id DESC LIMIT 7",
    "SELECT * FROM line LIMIT 10 OFFSET 95",
    "SELECT * FROM line LIMIT 0",
    "SELECT l_no, l_qty FROM line WHERE l_o_id = 3",
    "SELECT l_no FROM line WHERE l_o_id = 3 AND l_no > 1",
    "SELECT * FROM author, item WHERE a_id = i_a_id",
]
ROWS = [
    "SELECT i_id + 1 FROM item",
    "SELECT * FROM item WHERE i_title LIKE '%a%'",
    "SELECT * FROM item ORDER BY i_title",
    "SELECT * FROM item WHERE i_id = 3",
    "SELECT l_no FROM line WHERE l_o_id IN (1, 3)",
    "SELECT i_id FROM item WHERE i_a_id = (SELECT MIN(a_id) FROM author)",
    "SELECT max(i_id) FROM item",
    "SELECT count(*) FROM item",
]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory):
    engine = QueryEngine(Options(memory_mb=64, spill_folder=tmp_path_factory.mktemp("spill")))
    yield engine
    engine.close()


async def stored():
    """A snapshot of the sample in a store."""
    store, codecs = SimulatedStore(), Codecs(CATALOG)
    for name, rows in derive(CATALOG, sample()).items():
        codec = codecs(name)
        await store.create_table(codec.layout.table)
        puts = [Put(codec.key(row), codec.encode(row)) for row in rows]
        await store.put({codec.layout.table: puts}, 1)
    return Snapshot(store, codecs, NEWEST)


def reads_columns(query):
    return isinstance(query.plan, NativePlan) and query.plan.columns is not None


async def arrow(query, reader):
    stream = await query.run(reader)
    rows = []
    async for batch in stream.arrow():
        assert batch.schema == stream.schema
        rows += from_record_batch(batch)
    return rows


@pytest.mark.parametrize("sql", COLUMNS)
async def test_a_query_of_stored_columns_reads_columns(engine, sql):
    columnar = engine.prepare(sql, CATALOG, columnar=True)
    assert reads_columns(columnar)
    reader = await stored()
    plain = engine.prepare(sql, CATALOG)
    assert not reads_columns(plain)
    expected = await (await plain.run(reader)).all()
    assert await arrow(columnar, reader) == expected
    assert await (await columnar.run(reader)).all() == expected


@pytest.mark.parametrize("sql", ROWS)
async def test_other_queries_read_rows(engine, sql):
    columnar = engine.prepare(sql, CATALOG, columnar=True)
    assert not reads_columns(columnar)
    reader = await stored()
    expected = await (await engine.prepare(sql, CATALOG).run(reader)).all()
    assert sorted(await arrow(columnar, reader), key=str) == sorted(expected, key=str)


async def test_reads_of_columns_are_measured(engine):
    query = engine.prepare("SELECT i_id FROM item", CATALOG, columnar=True)
    measures = Measures(lambda: 0.0)
    found = await arrow(query, Measuring(await stored(), measures))
    assert measures.of(query.plan.first).rows == len(found) > 0


class RecordingSnapshot(Snapshot):
    """A snapshot that notes which layouts are scanned as columns, and which as rows."""

    def noting(self):
        self.columns, self.rows = [], []
        return self

    def scan_columns(self, layout, *args, **options):
        self.columns.append(layout)
        return super().scan_columns(layout, *args, **options)

    def scan(self, layout, *args, **options):
        self.rows.append(layout)
        return super().scan(layout, *args, **options)


async def recording():
    plain = await stored()
    return RecordingSnapshot(plain._store, plain._codecs, NEWEST).noting()


async def test_duckdb_gets_columns_of_what_it_reads_whole(engine):
    query = engine.prepare("SELECT i_title, i_price FROM item GROUP BY ALL HAVING 1 = 1", CATALOG)
    assert not isinstance(query.plan, NativePlan)
    reader = await recording()
    found = await (await query.run(reader)).all()
    assert sorted(found, key=str) == sorted({(r[2], r[4]) for r in sample()["item"]}, key=str)
    assert (reader.columns, reader.rows) == (["item"], [])


async def test_duckdb_gets_rows_of_a_source_whose_values_are_looked_up(engine):
    sql = (
        "SELECT a_name, sum(l_qty) OVER () FROM author, item, line"
        " WHERE a_id = i_a_id AND i_id = l_i_id AND l_o_id = 3"
    )
    query = engine.prepare(sql, CATALOG, use_views=False)
    reader = await recording()
    found = await (await query.run(reader)).all()
    data = sample()
    items, authors = ({row[0]: row for row in data[name]} for name in ("item", "author"))
    lines = [r for r in data["line"] if r[0] == 3 and r[2] in items and items[r[2]][1] in authors]
    assert len(found) == len(lines) > 0
    assert {name for name, _ in found} == {authors[items[r[2]][1]][1] for r in lines}
    assert reader.columns == []
