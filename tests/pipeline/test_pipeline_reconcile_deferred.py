"""Deferred views are reconciled as of their group's snapshot, and repaired by a rebuild."""

import random
from contextlib import closing

import pytest

from hornbeam_server.pipeline.reconcile import deferred, job, plan
from hornbeam_server.pipeline.reconcile.deferred import Group
from hornbeam_server.pipeline.reconcile.document import document
from hornbeam_server.pipeline.reconcile.report import Fault, Kind
from hornbeam_server.pipeline.refresh.driver import refresh
from hornbeam_server.schema.errors import NotFound, Unavailable
from hornbeam_server.storage.ports import TOMBSTONE, Put
from tests.api.api_world import DDL, WORKLOAD, world
from tests.pipeline.reconcile_world import cells, transport_to, url_of

VIEWS = """
CREATE MATERIALIZED VIEW by_name WITH (refresh = 'deferred') AS
  SELECT c_name, count(*) AS orders, sum(o_total) AS total, min(o_total) AS least,
    avg(o_total) AS mean
  FROM customer JOIN orders ON c_id = o_c_id GROUP BY c_name;
CREATE MATERIALIZED VIEW in_all WITH (refresh = 'deferred') AS
  SELECT count(*) AS n, max(o_total) AS most FROM orders WHERE o_total > 10;
CREATE MATERIALIZED VIEW names WITH (refresh = 'deferred') AS
  SELECT c_name, o_total FROM customer, orders WHERE c_id = o_c_id;
CREATE MATERIALIZED VIEW ranked WITH (refresh = 'recompute') AS
  SELECT o_id, rank() OVER (ORDER BY o_total) AS place FROM orders;
CREATE MATERIALIZED VIEW apart WITH (refresh = 'deferred', "group" = 'other') AS
  SELECT c_id, c_name FROM customer WHERE c_name <> 'n0';
"""
GROUPED = ("by_name", "in_all", "names", "ranked")
FAULTS = dict.fromkeys(map(str, Fault), 0)


@pytest.fixture(scope="module")
def shop(spark, tmp_path_factory):
    with world(tmp_path_factory.mktemp("deferred")) as opened:
        answer = opened.apply(ddl=DDL + VIEWS, workload=WORKLOAD, roots=None)
        assert answer.status_code == 200, answer.text
        chance = random.Random(7)
        for customer in range(8):
            insert = "INSERT INTO customer (c_id, c_name) VALUES (?, ?)"
            assert opened.transact(insert, customer, f"n{customer % 3}").is_success
        for _ in range(3):
            write(opened, chance, 40)
            refreshed(spark, opened)
        yield opened


def write(shop, chance, count):
    for _ in range(count):
        order, total = chance.randint(1, 60), f"{chance.randint(0, 20)}.50"
        sql, *values = chance.choice(
            [
                ("INSERT INTO orders VALUES (?, ?, ?)", order, chance.randint(0, 7), total),
                ("INSERT INTO orders VALUES (?, ?, ?)", order, chance.randint(0, 7), total),
                ("UPDATE orders SET o_total = ? WHERE o_id = ?", total, order),
                ("UPDATE customer SET c_name = ? WHERE c_id = ?", f"n{order % 3}", order % 8),
                ("DELETE FROM orders WHERE o_id = ?", order),
            ]
        )
        answer = shop.transact(sql, *values)
        assert answer.is_success or answer.status_code == 409, answer.text


def refreshed(spark, shop):
    with closing(transport_to(shop)) as node:
        for group in ("default", "other"):
            refresh(spark.sparkContext, node, url_of(shop), group)


def reconcile(spark, shop, *names, **options):
    with closing(transport_to(shop)) as transport:
        return job.reconcile(spark.sparkContext, transport, url_of(shop), names, **options)


def differing(report):
    return {
        item.name: {str(f): n for f in Fault if (n := item.count(f))}
        for item in report.checked
        if item.differences
    }


def as_of(shop, group="default"):
    (found,) = [g["as_of"] for g in shop.client.get("/v1/groups").json() if g["name"] == group]
    return found


def plant(shop, name, puts, at=None):
    """Write cells directly into the store, by default as of the group's snapshot."""
    database = shop.database
    written = [Put(*item) for item in puts.items()]
    table = database.catalog.layout(name).table
    shop.run(database.store.put({table: written}, at or as_of(shop)))


def test_views_after_many_changes_equal_a_new_build(spark, shop):
    write(shop, random.Random(11), 20)  # the views do not have these changes yet
    report, codecs = reconcile(spark, shop)
    assert differing(report) == {}
    checked = {item.name: item for item in report.checked}
    for name, view in shop.database.catalog.deferred_view.items():
        group = "other" if name == "apart" else "default"
        for stored in view.stored:
            item = checked[stored]
            assert item.kind is (Kind.DEFERRED_VIEW if stored == name else Kind.STATE)
            assert item.as_of == as_of(shop, group) < report.snapshot
            assert item.rows == len(cells(shop, stored)) > 0
    assert len(shop.database.catalog.deferred_view["by_name"].stored) > 1
    (reported,) = [d for d in document(report, codecs)["checked"] if d["name"] == "apart"]
    assert (reported["kind"], reported["as_of"]) == ("deferred view", as_of(shop, "other"))
    refreshed(spark, shop)


def test_damage_is_found_and_repaired_by_a_rebuild(spark, shop):
    planted = {}
    state = shop.database.catalog.deferred_view["by_name"].stored[1]
    for stored in ("names", "ranked", "by_name", state):
        gone, changed, *_ = cells(shop, stored)
        codec = shop.database.manager.state.codecs(stored)
        row = codec.decode(changed.value)
        other = _with_another_value(codec, row)
        puts = {gone.key: TOMBSTONE}
        planted[stored] = {"missing": 1}
        if other is not None:
            puts[changed.key] = codec.encode(other)
            planted[stored]["different"] = 1
        plant(shop, stored, puts)
    plant(shop, "in_all", {b"\x01\xc1": b"\x01\xc1"})
    planted["in_all"] = {"undecodable": 1}
    assert differing(reconcile(spark, shop)[0]) == planted
    only, _ = reconcile(spark, shop, "names")
    assert differing(only) == {"names": planted["names"]}
    stored = shop.database.catalog.deferred_view["names"].stored
    assert {item.name for item in only.checked} == {*stored, "customer", "orders"}
    before = as_of(shop)
    mended, _ = reconcile(spark, shop, repair=True)
    assert differing(mended) == {}
    repaired = {item.name: item.repaired for item in mended.checked if item.repaired}
    assert repaired == {name: sum(found.values()) for name, found in planted.items()}
    assert as_of(shop) > before
    assert differing(reconcile(spark, shop)[0]) == {}


def _with_another_value(codec, row):
    """Return the row with another integer under the same key; None without one outside the key."""
    values = list(row)
    for place in range(len(values)):
        if place not in codec.layout.key_positions and isinstance(values[place], int):
            values[place] += 1
            return tuple(values)
    return None


def test_views_over_unreadable_rows_are_not_compared(spark, shop):
    sound = cells(shop, "customer")[3]
    plant(shop, "customer", {sound.key: b"\x01\xc1"}, shop.database.watermark())
    try:
        report, _ = reconcile(spark, shop)
        only, _ = reconcile(spark, shop, "names")
    finally:
        plant(shop, "customer", {sound.key: sound.value}, shop.database.watermark())
    assert {item.name: item.left_out for item in only.checked if item.left_out} == {
        name: len(cells(shop, name)) for name in shop.database.catalog.deferred_view["names"].stored
    }
    checked = {item.name: item for item in report.checked}
    assert checked["customer"].count(Fault.UNDECODABLE) == 1
    for name in ("by_name", "names", "apart"):
        assert checked[name].left_out == checked[name].rows > 0
        assert not checked[name].differences
    for name in ("in_all", "ranked"):
        assert (checked[name].left_out, checked[name].differences) == (0, 0)


def test_the_relations_of_named_deferred_views_are_scanned(shop):
    """Views over rows that cannot be read are left out, so all these rows are read first."""
    catalog = shop.database.catalog
    for view in ("names", "apart", "in_all"):
        scans = plan.scans(catalog, [], constraints=False, declared=[view])
        assert [scan.relation for scan in scans] == [*catalog.deferred_view[view].relations]


def test_kept_and_deferred_views_can_be_named_together(spark, shop):
    index = next(iter(shop.database.catalog.index))
    report, _ = reconcile(spark, shop, index, "apart")
    assert {item.name for item in report.checked} == {index, "apart", "customer"}


def test_a_missing_view_is_refused(spark, shop):
    with pytest.raises(NotFound, match="nowhere"):
        reconcile(spark, shop, "names", "nowhere")
    with closing(transport_to(shop)) as transport:
        with pytest.raises(NotFound, match="readable deferred view nowhere"):
            deferred.groups(transport, ["names", "nowhere"])
        assert deferred.groups(transport, ["apart"]) == [Group("other", ("apart",))]
        assert deferred.groups(transport, []) == []
        assert [group.name for group in deferred.groups(transport, None)] == ["default", "other"]


def test_the_snapshot_of_an_advancing_group_is_requested_a_limited_number_of_times(
    shop, monkeypatch
):
    asked = []

    def moved(transport, group, snapshot):
        asked.append(snapshot)
        return len(asked) == 3

    monkeypatch.setattr(deferred, "_is_as_of", moved)
    with closing(transport_to(shop)) as transport:
        group = Group("other", ("apart",))
        with deferred.export_as_of(transport, group) as export:
            assert export.snapshot == as_of(shop, "other") == asked[2]
        with (
            pytest.raises(Unavailable, match="all the time"),
            deferred.export_as_of(transport, group),
        ):
            pass
    assert len(asked) == 3 + deferred.ATTEMPTS
