"""Immediate views are compared with their SELECT in bulk, reported and built again."""

import json
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from hornbeam.cli import app
from hornbeam_server.pipeline.reconcile import document, job, page
from hornbeam_server.pipeline.reconcile.report import Fault, Kind
from hornbeam_server.schema.errors import NotFound
from hornbeam_server.storage.ports import NEWEST, TOMBSTONE, Put
from hornbeam_server.storage.rocks.store import RocksStore
from tests.api.api_world import world
from tests.pipeline.immediate_world import DDL, TABLES, VIEWS, apply, cells, fill, states, writing
from tests.pipeline.reconcile_world import transport_to, url_of
from tests.pipeline.spark_here import Here


@pytest.fixture
def shop(tmp_path):
    with world(tmp_path) as opened:
        _open(opened)
        yield opened


def _open(shop):
    """Views with cells of the build and of this node."""
    apply(shop, TABLES, build="node")
    fill(shop)
    apply(shop, DDL, build="node")
    shop.run(shop.database.keeper.wait_built())
    for sql in (
        "UPDATE sale SET price = price + 1, day = DATE '2026-02-01' WHERE id % 3 = 0",
        "UPDATE sale SET s_id = s_id + 1 WHERE id % 5 = 0 AND s_id < 20",
        "DELETE FROM sale WHERE id % 11 = 0",
        "UPDATE shop SET city = 'Thun' WHERE s_id = 3",
    ):
        assert shop.transact(sql).is_success


async def divided(store, table):
    """Divide a table at every tenth row."""
    keys = [cell.key async for found in store.scan(table, b"", None, NEWEST) for cell in found]
    return keys[10::10]


def reconcile(shop, *names, context=None, **options):
    transport = transport_to(shop)
    try:
        report, codecs = job.reconcile(context or Here(), transport, url_of(shop), names, **options)
    finally:
        transport.close()
    reconcile.document = document.document(report, codecs)
    return report


def differing(report):
    return {
        item.name: {str(f): item.count(f) for f in Fault if item.count(f)}
        for item in report.checked
        if item.differences
    }


def plant(shop, layout, puts):
    table = shop.database.catalog.layout(layout).table
    shop.run(shop.database.store.put({table: puts}, shop.database.watermark()))


def groups(shop, layout):
    """The keys of the cells of each group with rows, or of each value that a row has."""
    found = {}
    at = shop.database.manager.state.codecs(layout).layout.key_positions[-1]
    for key, row in cells(shop, layout.partition(".")[0])[layout].items():
        found.setdefault(key[:-2], []).append((key, row[at + 1]))
    return [[key for key, _ in some] for some in found.values() if sum(n for _, n in some)]


def test_sound_views_have_no_differences_while_a_writer_writes(shop, monkeypatch):
    monkeypatch.setattr(RocksStore, "splits", divided)
    with writing(shop):
        report = reconcile(shop)
    assert differing(report) == {}
    kinds = {item.name: item.kind for item in report.checked}
    assert {name for name, kind in kinds.items() if kind is Kind.IMMEDIATE_VIEW} == set(VIEWS)
    assert kinds["by_city.values0"] is Kind.STATE
    assert kinds["sale"] is Kind.RELATION
    by_name = {item.name: item for item in report.checked}
    assert len(by_name["by_city"].ranges) > 2
    only = reconcile(shop, "by_shop")
    assert {item.name for item in only.checked} == {"by_shop", "sale", "shop"}
    (item,) = [one for one in only.checked if one.name == "by_shop"]
    assert item.rows == len(cells(shop, "by_shop")["by_shop.cells"])


def test_all_kinds_of_damage_are_found_and_the_views_built_again(shop):
    city, high = groups(shop, "by_city.cells"), groups(shop, "whole.values0")
    codec = shop.database.manager.state.codecs("by_city.cells")
    stored = cells(shop, "by_city")["by_city.cells"]
    other = stored[city[2][0]]
    stranger = ("nowhere", Decimal("9.5"), 3, *other[3:])
    plant(shop, "by_city.cells", [Put(codec.key(stranger), codec.encode(stranger))])
    assert differing(reconcile(shop)) == {"by_city": {"extra": 1}}
    (item,) = [one for one in reconcile.document["checked"] if one["name"] == "by_city"]
    (sample,) = item["samples"]
    assert sample["key"] == ["nowhere", Decimal("9.5"), 0]
    assert sample["stored"] == ["nowhere", Decimal("9.5"), 0, *other[3:]]
    assert sample["expected"] is None
    assert "nowhere" in page.page(reconcile.document)
    puts = [
        *(Put(key, TOMBSTONE) for key in city[0]),
        Put(city[2][0], codec.encode((*other[:3], other[3] + 1, *other[4:]))),
        Put(city[3][0], b"\x01\xc1"),
        Put(b"\xfe" + city[4][0], codec.encode(stored[city[4][0]])),
    ]
    plant(shop, "by_city.cells", puts)
    plant(shop, "whole.values0", [Put(key, TOMBSTONE) for key in high[5]])
    report = reconcile(shop)
    found = differing(report)
    assert found.pop("whole.values0") == {"missing": 1}
    unreadable = found["by_city"]
    different = 2 if len(city[3]) > 1 else 1
    assert unreadable == {
        "missing": 3 - different,
        "extra": 1,
        "different": different,
        "misplaced": 1,
        "undecodable": 1,
    }
    assert list(found) == ["by_city"]
    tables = {name: shop.database.catalog.layout(name).table for name in VIEWS}
    with writing(shop):
        mended = reconcile(shop, repair=True)
    assert mended.differences == 0
    repaired = {item.name: item.repaired for item in mended.checked if item.repaired}
    assert repaired == {"by_city": 6, "whole.values0": 1}
    kept = [name for name in VIEWS if shop.database.catalog.layout(name).table == tables[name]]
    assert kept == ["by_shop"], "a sound view is not built again"
    assert states(shop) == dict.fromkeys(VIEWS, "readable")
    assert shop.verify() == 0


def test_many_differences_are_reported_range_by_range(shop, monkeypatch):
    monkeypatch.setattr(RocksStore, "splits", divided)
    stored = groups(shop, "by_city.values1")
    gone = stored[::2]
    plant(shop, "by_city.values1", [Put(key, TOMBSTONE) for keys in gone for key in keys])
    report = reconcile(shop, "by_city")
    (item,) = [one for one in report.checked if one.differences]
    assert (item.name, item.differences) == ("by_city.values1", len(gone))
    assert sum(bool(part.differences) for part in item.ranges) > 5
    for part in item.ranges:
        assert len(part.samples) == min(part.differences, 5)
        start, end = part.range
        assert all(start <= one.key and (end is None or one.key < end) for one in part.samples)


def test_sums_over_relations_that_cannot_be_read_are_left_out(shop):
    codec = shop.database.manager.state.codecs("shop")
    plant(shop, "shop", [Put(codec.key_of((3,)), b"\x01\xc1")])
    report = reconcile(shop, repair=True)
    assert differing(report) == {"shop": {"undecodable": 1}}
    left_out = {item.name for item in report.checked if item.left_out}
    assert left_out == {"by_city", "by_city.values0", "by_city.values1", "by_shop"}
    assert states(shop) == dict.fromkeys(VIEWS, "readable")


def test_a_view_that_is_not_readable_is_refused(shop):
    apply(shop, DDL.replace("whole", "other"), allow_drop=True)
    with pytest.raises(NotFound, match="other is building"):
        reconcile(shop, "other")
    assert "other" not in {item.name for item in reconcile(shop).checked}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    with world(tmp_path_factory.mktemp("kept")) as opened:
        _open(opened)
        yield opened


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.data())
def test_spark_finds_a_changed_sum_wherever_verify_finds_it(kept, data):
    """Any change of one number of one cell: of a sum, of a count, or of a value."""
    name = data.draw(st.sampled_from(VIEWS))
    layout = data.draw(st.sampled_from(sorted(cells(kept, name))))
    stored = cells(kept, name)[layout]
    key = data.draw(st.sampled_from(sorted(stored)))
    codec = kept.database.manager.state.codecs(layout)
    at = data.draw(st.sampled_from(range(codec.layout.key_positions[-1] + 1, len(stored[key]))))
    by = data.draw(st.integers(1, 9))
    row = (*stored[key][:at], stored[key][at] + by, *stored[key][at + 1 :])
    plant(kept, layout, [Put(key, codec.encode(row))])
    try:
        report = reconcile(kept, name)
        (item,) = [one for one in report.checked if one.differences]
        assert item.differences == 1
        assert item.name == (name if layout.endswith(".cells") else layout)
    finally:
        plant(kept, layout, [Put(key, codec.encode(stored[key]))])
    assert reconcile(kept, name).differences == 0


def test_spark_compares_and_repairs_by_the_command_line(spark, shop):
    def run(*arguments):
        return CliRunner().invoke(app, ["reconcile", "--url", url_of(shop), *arguments, "--json"])

    plant(shop, "by_shop.cells", [Put(key, TOMBSTONE) for key in groups(shop, "by_shop.cells")[1]])
    found = run("by_shop")
    assert found.exit_code == 1
    assert json.loads(found.output)["differences"] == 1
    mended = run("by_shop", "whole", "--repair")
    assert mended.exit_code == 0, mended.output
    assert json.loads(mended.output)["repaired"] == 1
    assert shop.verify() == 0


def test_a_snapshot_is_compared_with_itself(shop):
    """A commit between the export and the tasks changes nothing."""
    parallelize, moved = Here.parallelize, []

    class Later(Here):
        def parallelize(self, items, parts):
            if not moved:
                moved.append(shop.transact("UPDATE sale SET price = 3 WHERE id < 300"))
            return parallelize(self, items, parts)

    report = reconcile(shop, context=Later())
    assert moved[0].is_success
    assert report.snapshot < moved[0].json()["commit_ts"]
    assert report.differences == 0


def test_a_group_that_is_gone_keeps_no_difference(shop):
    """Its lanes hold opposite amounts, which add up to nothing."""
    assert shop.transact("DELETE FROM sale WHERE s_id = 5").is_success
    found = [row for row in cells(shop, "by_shop")["by_shop.cells"].values() if row[0] == 5]
    assert len(found) == 2
    assert reconcile(shop).differences == 0
