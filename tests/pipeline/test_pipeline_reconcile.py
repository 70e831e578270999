"""Reconciliation finds exactly the planted damage, and repairs it."""

from dataclasses import replace

import pytest

from hornbeam_server.pipeline.reconcile import job, scans
from hornbeam_server.pipeline.reconcile import report as reports
from hornbeam_server.pipeline.reconcile.report import Fault, Kind
from hornbeam_server.schema.errors import NotFound
from hornbeam_server.schema.model import Check
from hornbeam_server.storage.ports import TOMBSTONE
from hornbeam_server.storage.rocks import store as rocks
from tests.api.api_world import DDL, PLAN, WORKLOAD, world
from tests.pipeline.reconcile_world import (
    KINDS,
    ORDERS,
    cells,
    damaged,
    plant,
    served_shop,
    transport_to,
    url_of,
)
from tests.pipeline.spark_here import Here


@pytest.fixture
def shop(tmp_path):
    with served_shop(tmp_path / "shop") as served:
        yield served


def reconcile(shop, *names, context=None, **options):
    transport = transport_to(shop)
    try:
        report, _ = job.reconcile(context or Here(), transport, url_of(shop), names, **options)
        return report
    finally:
        transport.close()


def differing(report):
    return {
        item.name: {str(f): item.count(f) for f in Fault}
        for item in report.checked
        if item.differences
    }


def stored(shop):
    """Return the names of all views and indexes that hold rows."""
    catalog = shop.database.catalog
    return [name for name in (*catalog.view, *catalog.index) if cells(shop, name)]


def test_a_sound_database_has_no_differences(shop):
    report = reconcile(shop)
    assert differing(report) == {}
    names = [item.name for item in report.checked]
    catalog = shop.database.catalog
    assert set(names) >= {*catalog.view, *catalog.index, "line.line_l_p_id_fkey", "gift"}
    rows = {item.name: item.rows for item in report.checked}
    assert rows["orders__line"] == rows["line.line_l_p_id_fkey"] == 2 * ORDERS
    assert all(rows[name] == len(cells(shop, name)) for name in stored(shop))


@pytest.mark.parametrize("split_bytes", [rocks.SPLIT_BYTES, 6_000])
def test_all_kinds_of_damage_are_found_and_repaired(shop, monkeypatch, split_bytes):
    monkeypatch.setattr(rocks, "SPLIT_BYTES", split_bytes)
    planted = {name: damaged(shop, name, KINDS) for name in stored(shop)}
    assert len(planted) > 12
    report = reconcile(shop)
    assert differing(report) == planted
    rows = {item.name: item.rows for item in report.checked}
    assert all(rows[name] == len(cells(shop, name)) for name in planted)
    if split_bytes == 6_000:
        assert max(len(item.ranges) for item in report.checked) > 2
    mended = reconcile(shop, repair=True)
    assert mended.differences == 0
    repaired = {item.name: item.repaired for item in mended.checked if item.repaired}
    assert repaired == {name: sum(found.values()) for name, found in planted.items()}
    assert shop.verify() == 0


def test_one_view_is_checked_with_its_indexes_and_nothing_else(shop):
    planted = {
        name: damaged(shop, name, ["missing"])
        for name in ("customer__orders", "customer__orders.by.c_name", "orders__line")
    }
    report = reconcile(shop, "customer__orders")
    del planted["orders__line"]
    assert differing(report) == planted
    assert [item.name for item in report.checked if item.kind is Kind.VIEW] == ["customer__orders"]
    only = reconcile(shop, "customer__orders.by.c_name", repair=True)
    assert only.differences == 0
    assert differing(reconcile(shop, "customer__orders")) == {
        "customer__orders": planted["customer__orders"]
    }


def test_a_name_that_is_no_view_is_refused(shop):
    with pytest.raises(NotFound, match="no readable view or index customer"):
        reconcile(shop, "customer")


def test_orphans_are_found_and_not_repaired(shop):
    (pen, *_) = cells(shop, "product")
    plant(shop, "product", {pen.key: TOMBSTONE})
    report = reconcile(shop, repair=True)
    name = "line.line_l_p_id_fkey"
    assert {key: found["missing"] for key, found in differing(report).items()} == {name: 40}
    (item,) = [item for item in report.checked if item.name == name]
    assert next(item.samples).stored[2] == 0


def checked(shop, *checks):
    """Let `product` have these CHECKs, which are not validated."""

    async def made(current):
        relations = tuple(
            replace(relation, checks=checks) if relation.name == "product" else relation
            for relation in current.schema.relations
        )
        schema = replace(current.schema, relations=relations)
        return replace(current, version=current.version + 1, schema=schema)

    shop.run(shop.database.keeper.change(made))


def test_rows_that_break_a_check_are_found_and_not_repaired(shop):
    checked(shop, Check("few", "p_stock < 100"), Check("real", "p_stock / (p_stock + 7) >= 0"))
    codec = shop.database.manager.state.codecs("product")
    first, second, *_ = cells(shop, "product")
    planted = {first: 500, second: -7}  # the second one divides by 0
    for cell, stock in planted.items():
        number, name, _ = codec.decode(cell.value)
        plant(shop, "product", {cell.key: codec.encode((number, name, stock))})
    report = reconcile(shop, repair=True)
    found = {item.name: item for item in report.checked if item.kind is Kind.CHECK}
    assert {name: item.differences for name, item in found.items()} == {
        "product.few": 1,
        "product.real": 1,
    }
    assert [sample.stored[2] for sample in found["product.few"].samples] == [500]
    for cell in planted:
        plant(shop, "product", {cell.key: cell.value})
    assert all(item.differences == 0 for item in reconcile(shop).checked if item.kind is Kind.CHECK)
    checked(shop)


def test_views_above_unreadable_base_rows_are_not_repaired(shop):
    orders = cells(shop, "orders")
    undecodable, moved = orders[21], orders[42]
    plant(shop, "orders", {moved.key: orders[43].value})
    assert [item.name for item in reconcile(shop).checked if item.differences] == ["orders"]
    plant(shop, "orders", {undecodable.key: b"\x01\xc1"})
    report = reconcile(shop, repair=True)
    assert differing(report) == {
        "orders": dict.fromkeys(map(str, Fault), 0) | {"undecodable": 1, "misplaced": 1}
    }
    left = {item.name: item.left_out for item in report.checked if item.left_out}
    assert left["orders__line"] == 4
    assert left["customer__orders"] == left["customer__orders.by.c_name"] == 2
    assert all(item.repaired == 0 for item in report.checked)
    plant(shop, "orders", {undecodable.key: undecodable.value, moved.key: moved.value})
    assert reconcile(shop).differences == 0


def test_more_keys_than_a_range_keeps_are_repaired_in_rounds(shop, monkeypatch):
    monkeypatch.setattr(reports, "KEPT_KEYS", 50)
    for name in ("customer__orders", "orders.by.o_c_id"):
        plant(shop, name, {cell.key: TOMBSTONE for cell in cells(shop, name)})
    report = reconcile(shop)
    view, index = (
        next(item for item in report.checked if item.name == name)
        for name in ("customer__orders", "orders.by.o_c_id")
    )
    assert view.differences == ORDERS - len(range(0, ORDERS, 11))
    assert index.differences == ORDERS
    assert [len(part.keys) for part in (*view.ranges, *index.ranges)] == [50, 50]
    assert reconcile(shop, repair=True).differences == 0
    assert shop.verify() == 0


def test_repair_ends_if_the_damage_stays(shop, monkeypatch):
    planted = damaged(shop, "customer__orders", ["missing", "extra"])
    monkeypatch.setattr(job, "_write", lambda *_: 0)
    report = reconcile(shop, "customer__orders", repair=True)
    assert differing(report) == {"customer__orders": planted}


def test_small_batches_and_small_caches_find_the_same_damage(shop, monkeypatch):
    from hornbeam_server.pipeline.reconcile import expected

    monkeypatch.setattr(rocks, "FIRST_BATCH", 5)
    monkeypatch.setattr(rocks, "LARGEST_BATCH", 7)
    monkeypatch.setattr(scans, "BATCH", 7)
    monkeypatch.setattr(expected, "REMEMBERED", 3)
    planted = {name: damaged(shop, name, KINDS) for name in stored(shop)}
    assert differing(reconcile(shop)) == planted


def test_other_bytes_of_the_same_row_are_no_difference(shop):
    """The stored decimal has another trailing zero."""
    name = "customer__orders"
    codec = shop.database.manager.state.codecs(name)
    cell = cells(shop, name)[3]
    row = codec.decode(cell.value)
    longer = tuple(type(v)(f"{v}0") if str(v).endswith(".00") else v for v in row)
    plant(shop, name, {cell.key: codec.encode(longer)})
    assert cells(shop, name)[3].value != cell.value
    assert reconcile(shop, name).differences == 0


def test_base_rows_of_an_older_schema_are_no_difference(tmp_path):
    with world(tmp_path) as shop:
        assert shop.apply(**PLAN).is_success
        assert shop.transact("INSERT INTO customer (c_id, c_name) VALUES (1, 'ann')").is_success
        assert shop.transact("INSERT INTO orders VALUES (1, 1, 5), (2, NULL, 6)").is_success
        later = DDL.replace(
            "o_total DECIMAL(15,2)", "o_total DECIMAL(15,2), o_note TEXT DEFAULT 'x'"
        )
        later = later.replace(
            "c_email TEXT UNIQUE", "c_email TEXT UNIQUE, c_rank INTEGER DEFAULT 3"
        )
        assert shop.apply(ddl=later, workload=WORKLOAD, roots=None).is_success
        assert shop.transact("INSERT INTO orders VALUES (3, 1, 7, 'y')").is_success
        report = reconcile(shop)
        assert differing(report) == {}
        rows = {item.name: item.rows for item in report.checked}
        assert (rows["orders"], rows["customer__orders"]) == (3, 2)
        planted = damaged(shop, "customer__orders", ["missing"], skip=0)
        assert differing(reconcile(shop)) == {"customer__orders": planted}
        assert reconcile(shop, repair=True).differences == 0


def test_a_snapshot_that_is_no_longer_kept_is_an_error(shop, monkeypatch):
    from hornbeam_server.pipeline.spark.export import Export
    from hornbeam_server.schema.errors import SnapshotTooOld

    def gone(self, margin_ms=0):
        raise SnapshotTooOld("It is older than what is kept.")

    monkeypatch.setattr(Export, "require_kept", gone)
    with pytest.raises(SnapshotTooOld):
        reconcile(shop)


def test_exports_are_removed_afterwards(shop):
    reconcile(shop)
    folder = shop.database.settings.data / "exports"
    assert not list(folder.iterdir())


def test_spark_finds_and_repairs_the_same_damage(shop, spark):
    names = ("customer__orders", "customer__orders.by.c_name")
    planted = {name: damaged(shop, name, KINDS) for name in names}
    seen = []
    report = reconcile(
        shop,
        names[0],
        context=spark.sparkContext,
        repair=True,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert report.differences == 0
    repaired = {item.name: item.repaired for item in report.checked if item.repaired}
    assert repaired == {name: sum(found.values()) for name, found in planted.items()}
    assert seen[-1][0] == seen[-1][1] > 0
