"""Spark reads immediate views: each group once and whole, however the store splits its cells."""

import pytest

from hornbeam_server.pipeline.sources.reader import Hornbeam
from hornbeam_server.storage.codec.folds import BASE_LANE
from hornbeam_server.storage.ports import NEWEST, Put
from tests.api.api_world import world
from tests.pipeline.immediate_world import BY_CITY, SHOPS, TABLES, WHOLE
from tests.pipeline.reconcile_world import url_of

VIEWS = ("by_city", "whole")
SALES = 240


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Groups with cells in several lanes: of the build, of this node, and planted ones."""
    with world(tmp_path_factory.mktemp("immediate")) as opened:
        assert opened.apply(ddl=TABLES, workload="", roots=None).status_code == 200
        cities = ["'Bern'", "'Zürich'", "NULL", "''", "'a''b'"]
        days = [f"DATE '2026-01-{n + 1:02}'" for n in range(28)]
        shops = ", ".join(f"({n}, {cities[n % 5]}, {n % 4}.5)" for n in range(SHOPS))
        sales = ", ".join(
            f"({n}, {n % SHOPS if n % 7 else 'NULL'},"
            f" {days[n % 28] if n % 5 else 'NULL'}, {f'{n}.25' if n % 3 else 'NULL'})"
            for n in range(SALES)
        )
        for sql in (f"INSERT INTO shop VALUES {shops}", f"INSERT INTO sale VALUES {sales}"):
            assert opened.transact(sql).is_success
        applied = opened.apply(ddl=TABLES + BY_CITY + WHOLE, workload="", roots=None)
        assert applied.status_code == 200, applied.text
        for sql in (
            "UPDATE sale SET price = price + 1, day = DATE '2026-02-01' WHERE id % 2 = 0",
            "DELETE FROM sale WHERE id % 11 = 0",
            "UPDATE shop SET city = 'Thun' WHERE s_id = 3",
        ):
            assert opened.transact(sql).is_success
        for name in VIEWS:
            _spread(opened, name)
        yield opened


def _spread(shop, name):
    """Give every group two more lanes whose amounts add up to nothing."""
    view = shop.database.catalog.immediate_view[name]
    for layout in (view.cells_name, *view.values_names):
        codec = shop.database.manager.state.codecs(layout)
        at = codec.layout.key_positions[-1]
        found = {row[:at]: row[at + 1 :] for row in _stored(shop, layout) if row[at] == BASE_LANE}
        puts = [
            Put(codec.key_of((*group, lane)), codec.encode((*group, lane, *moved)))
            for group, amounts in found.items()
            for lane, moved in ((2, amounts), (3, tuple(-amount for amount in amounts)))
        ]
        shop.run(shop.database.store.put({codec.layout.table: puts}, shop.database.watermark()))


def _stored(shop, layout):
    codec, store = shop.database.manager.state.codecs(layout), shop.database.store

    async def read():
        cells = store.scan(codec.layout.table, b"", None, NEWEST)
        return [codec.decode(cell.value) async for batch in cells for cell in batch]

    return shop.run(read())


def expected(shop, name, where="TRUE", **options):
    """The rows of the view's SELECT, computed from the relations."""

    async def fetch():
        select = shop.database.catalog.immediate_view[name].declared.sql
        sql = f"SELECT * FROM ({select}) AS v WHERE {where}"
        return await shop.database.fetch(sql, use_views=False, **options)

    return sorted(map(repr, shop.run(fetch())))


def frame(spark, shop, name, **options):
    return spark.read.format("hornbeam").options(url=url_of(shop), view=name, **options).load()


def rows_of(frame):
    return sorted(repr(tuple(row)) for row in frame.collect())


def reader_of(shop, name, **options):
    source = Hornbeam({"url": url_of(shop), "view": name, **options})
    return source.reader(source.schema())


def read(reader, part):
    return [tuple(row.values()) for batch in reader.read(part) for row in batch.to_pylist()]


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_in_spark_is_the_answer_to_its_select(spark, shop, name):
    found = rows_of(frame(spark, shop, name))
    assert found == expected(shop, name)
    assert len(found) == (1 if name == "whole" else 21)


@pytest.mark.parametrize("name", VIEWS)
def test_a_store_that_splits_at_every_cell_divides_no_group(shop, name, monkeypatch):
    layout = shop.database.catalog.immediate_view[name].cells_name
    codec = shop.database.manager.state.codecs(layout)
    splits = sorted(codec.key(row) for row in _stored(shop, layout))
    reader = reader_of(shop, name)

    async def everywhere(_):
        return [*splits[:2], b"\xff no cell", *splits[2:]]

    monkeypatch.setattr(reader, "_splits", everywhere)
    parts = reader.partitions()
    assert len(splits) > 3 * len(parts) / 2, "groups have several cells"
    found = [read(reader, part) for part in parts]
    assert sorted(repr(row) for rows in found for row in rows) == expected(shop, name)
    assert max(map(len, found)) == 1, "a part for each group"


@pytest.mark.parametrize(
    "where",
    [
        "city = 'Bern'",
        "city = 'Bern' AND tier = 1.5",
        "city = 'Zürich' AND tier > 0.5 AND tier <= 2.5",
        "city > 'Bern' AND total > 100",
        "city IS NULL",
        "city >= '' AND city < 'B'",
        "tier = 0.5",
        "n > 9",
        "city = 'nowhere'",
    ],
)
def test_filters_are_pushed_down_and_give_the_same_groups(spark, shop, where):
    found = rows_of(frame(spark, shop, "by_city").where(where))
    assert found == expected(shop, "by_city", where)


def test_filters_do_not_hide_the_row_of_a_view_without_groups(spark, shop):
    whole = frame(spark, shop, "whole")
    assert whole.where("n > 0").count() == 1
    assert whole.where("n < 0").count() == 0


def test_columns_are_read_in_the_requested_order(spark, shop):
    some = frame(spark, shop, "by_city", columns="days,low,city")
    assert some.columns == ["days", "low", "city"]
    assert rows_of(some) == sorted(
        repr((row[7], row[5], row[0])) for row in frame(spark, shop, "by_city").collect()
    )


def test_groups_stay_at_their_snapshot(spark, shop):
    frames = {name: frame(spark, shop, name) for name in VIEWS}
    before = {name: rows_of(found) for name, found in frames.items()}
    moved = shop.transact("UPDATE sale SET price = 7, s_id = 5 WHERE id < 20")
    assert moved.is_success
    at = moved.json()["commit_ts"]
    for name in VIEWS:
        now = expected(shop, name)
        assert now != before[name]
        assert rows_of(frames[name]) == before[name]
        assert rows_of(frame(spark, shop, name, asOf=str(at - 1))) == before[name]
        assert rows_of(frame(spark, shop, name, asOf=str(at))) == now
