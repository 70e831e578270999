"""Spark builds immediate views beside writers: restarted, cancelled, throttled, failed."""

import asyncio
import json

import pytest
from typer.testing import CliRunner

from hornbeam.cli import app
from hornbeam_server.pipeline.build import driver as job
from hornbeam_server.pipeline.build import immediate, sums
from hornbeam_server.pipeline.build.leader import Leader, begun
from hornbeam_server.schema.errors import Corruption, LimitExceeded, NotFound, Unavailable
from hornbeam_server.storage.codec.folds import BASE_LANE
from hornbeam_server.storage.ports import Put
from tests.api.api_world import world
from tests.pipeline.immediate_world import (
    BY_CITY,
    DDL,
    SALES,
    TABLES,
    VIEWS,
    apply,
    cells,
    fill,
    node_of,
    states,
    writing,
)
from tests.pipeline.reconcile_world import url_of
from tests.pipeline.spark_here import Here


@pytest.fixture
def shop(tmp_path):
    """Rows, and immediate views that are left for Spark to build."""
    with world(tmp_path) as opened:
        apply(opened, TABLES, build="node")
        fill(opened)
        apply(opened, DDL)
        assert states(opened) == dict.fromkeys(VIEWS, "building")
        yield opened


def build(shop, *names, context=None, progress=lambda *_: None, rate=None, **options):
    with node_of(shop) as node:
        asked = begun(node, names, **options)
        return job.build_all(context or Here(), node, url_of(shop), asked, rate, progress)


def test_views_are_built_while_a_writer_writes(shop, monkeypatch):
    """Each view is built at a snapshot between transactions that change its groups."""
    monkeypatch.setattr(sums, "MANY", 10)
    monkeypatch.setattr(immediate, "PUT_ROWS", 7)
    shown = []
    with writing(shop) as commits:
        report = build(shop, progress=lambda *now: shown.append(now))
        assert len(commits) > 3
    assert sorted(report.names) == sorted(VIEWS)
    assert report.scanned > 3 * SALES / 2
    assert [scanned for scanned, _ in shown] == sorted(scanned for scanned, _ in shown)
    assert shown[-1][0] == report.scanned
    assert states(shop) == dict.fromkeys(VIEWS, "readable")
    assert shop.verify() == 0
    assert shop.client.get("/v1/builds").json() == []
    assert list((shop.database.settings.data / "exports").iterdir()) == []
    with writing(shop):
        pass
    assert shop.verify() == 0


def base_lanes(shop):
    codecs = shop.database.manager.state.codecs
    return {
        layout: {
            key: row
            for key, row in found.items()
            if row[codecs(layout).layout.key_positions[-1]] == BASE_LANE
        }
        for name in VIEWS
        for layout, found in cells(shop, name).items()
    }


def test_spark_and_the_node_build_the_same_cells(shop, monkeypatch):
    monkeypatch.setattr(sums, "MANY", 10)
    build(shop)
    by_spark = base_lanes(shop)
    assert len(by_spark) == 7
    assert all(by_spark.values())
    shop.run(shop.database.keeper.rebuild(VIEWS))
    shop.run(shop.database.keeper.wait_built())
    assert base_lanes(shop) == by_spark


def test_a_second_driver_builds_again_what_a_dead_one_has_begun(shop, monkeypatch):
    put, puts = immediate._put, []

    async def dies(*given):
        puts.append(given)
        if len(puts) == 4:
            raise KeyboardInterrupt
        return await put(*given)

    monkeypatch.setattr(immediate, "PUT_ROWS", 7)
    monkeypatch.setattr(immediate, "_put", dies)
    with writing(shop):
        with pytest.raises(KeyboardInterrupt):
            build(shop)
        assert any(base_lanes(shop).values()), "some cells are there already"
        assert "building" in states(shop).values()
        monkeypatch.setattr(immediate, "_put", put)
        build(shop)
    assert states(shop) == dict.fromkeys(VIEWS, "readable")
    assert shop.verify() == 0


def test_two_drivers_may_build_the_same_view(shop, monkeypatch):
    """The second driver builds all views while the first has put some cells of one."""
    put, overtaken = immediate._put, []

    async def overtakes(*given):
        counts = await put(*given)
        if not overtaken:
            overtaken.append(None)
            overtaken.append(await asyncio.to_thread(build, shop))
        return counts

    monkeypatch.setattr(immediate, "_put", overtakes)
    with writing(shop):
        slower = build(shop)
    assert sorted(overtaken[1].names) == sorted(VIEWS)
    assert slower.scanned == 0
    assert states(shop) == dict.fromkeys(VIEWS, "readable")
    assert shop.verify() == 0


def test_a_cancelled_build_ends_its_driver_and_leaves_nothing(shop, monkeypatch):
    put = immediate._put
    stored = tables_of(shop, "by_city")

    async def cancels(*given):
        gone = await asyncio.to_thread(shop.client.delete, "/v1/builds/by_city")
        assert gone.json()["cancelled"] == ["by_city"]
        return await put(*given)

    monkeypatch.setattr(immediate, "_put", cancels)
    with pytest.raises(NotFound, match="not to be built any more"):
        build(shop, "by_city")
    shop.run(shop.database.keeper.wait_built())
    assert not stored & set(shop.run(shop.database.store.tables()))
    assert sorted(states(shop)) == ["by_shop", "whole"]
    assert "by_city" not in shop.client.get("/v1/schema").json()["ddl"]
    monkeypatch.setattr(immediate, "_put", put)
    build(shop)
    apply(shop, DDL)
    build(shop, "by_city")
    assert states(shop) == dict.fromkeys(VIEWS, "readable")
    assert shop.verify() == 0


def tables_of(shop, name):
    catalog = shop.database.catalog
    return {catalog.layout(part).table for part in catalog.immediate_view[name].stored}


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [("sum", LimitExceeded, r"A sum of by_city .*\('.*', \d\.5\)"), ("row", Corruption, "sale")],
)
def test_a_build_that_fails_quarantines_the_view_and_leaves_nothing(
    shop, monkeypatch, fault, error, message
):
    """The rows are corrected, and the view is built again."""
    old = tables_of(shop, "by_city")
    if fault == "sum":
        monkeypatch.setattr("hornbeam_server.storage.codec.folds._share", lambda _: 100)
    else:
        codec = shop.database.manager.state.codecs("sale")
        key = codec.key_of((500,))
        table, store = codec.layout.table, shop.database.store
        at = shop.database.watermark()
        (good,) = shop.run(store.get(table, [key], at))
        shop.run(store.put({table: [Put(key, b"\x01\xc1")]}, at))
    with pytest.raises(error, match=message):
        build(shop, "by_city")
    view = shop.client.get("/v1/views/by_city").json()
    assert view["state"] == "quarantined"
    assert view["bytes"] == 0
    assert fault == "row" or "range of its type" in view["progress"]["error"]
    shop.run(shop.database.keeper.wait_built())
    assert not old & set(shop.run(shop.database.store.tables()))
    refused = shop.post("/v1/query", {"sql": "SELECT * FROM by_city"})
    assert refused.status_code != 200
    assert not any(cells(shop, "by_city").values())
    if fault == "sum":
        monkeypatch.undo()
        assert shop.transact("UPDATE sale SET price = 1 WHERE id = 500").is_success
        assert not any(cells(shop, "by_city").values()), "no transaction maintains it"
    else:
        shop.run(store.put({table: [Put(key, good.value)]}, at))
    build(shop)
    build(shop, "by_city")
    assert states(shop) == dict.fromkeys(VIEWS, "readable")
    assert shop.verify() == 0


def test_a_failed_build_keeps_no_other_from_being_built(shop, monkeypatch):
    limited = immediate.base_put

    def fails(codec, group, amounts):
        if codec.layout.name == "by_city.cells":
            raise LimitExceeded("too much")
        return limited(codec, group, amounts)

    monkeypatch.setattr(immediate, "base_put", fails)
    with pytest.raises(LimitExceeded, match="too much"):
        build(shop)
    assert states(shop) == {"by_city": "quarantined", "by_shop": "readable", "whole": "readable"}


def test_errors_that_pass_are_tried_again_a_limited_number_of_times(shop, monkeypatch):
    put, failures = immediate._put, []

    async def fails(*given):
        failures.append(given[0].snapshot)
        if len(failures) < immediate.ATTEMPTS:
            raise Unavailable("a disk is full")
        return await put(*given)

    async def always(*_):
        raise Unavailable("a disk is full")

    monkeypatch.setattr(immediate, "_put", fails)
    with writing(shop):
        build(shop, "whole")
    assert len(set(failures)) == immediate.ATTEMPTS, "each attempt has a snapshot of its own"
    monkeypatch.setattr(immediate, "_put", always)
    with pytest.raises(Unavailable, match="a disk is full"):
        build(shop, "whole", rebuild=True)
    assert states(shop)["whole"] == "building"
    monkeypatch.setattr(immediate, "_put", put)
    build(shop)
    assert shop.verify() == 0


def test_progress_is_reported_to_the_node(shop, monkeypatch):
    """A slow build reports its rows before it ends."""
    monkeypatch.setattr(immediate, "REPORT_S", 0.0)
    monkeypatch.setattr(immediate, "POLL_S", 0.01)
    waited, shown, known = [], [], []

    async def pause(seconds):
        waited.append(seconds)
        await asyncio.sleep(0.2)

    def show(scanned):
        shown.append(scanned)
        (view,) = [v for v in shop.client.get("/v1/views").json() if v["name"] == "whole"]
        assert view["progress"]["elsewhere"]
        known.append(view["progress"]["scanned"])

    monkeypatch.setattr(sums, "pause", pause)
    with node_of(shop) as node:
        leader, (one,) = Leader(node), begun(node, ["whole"])
        built = immediate.build(Here(), leader, url_of(shop), one, 1e6, show)
        leader.wait_readable({one.table})
    assert built.scanned == SALES
    assert len(waited) >= 4
    assert shown == sorted(shown)
    assert any(0 < scanned < SALES for scanned in shown)
    assert any(0 < scanned < SALES for scanned in known)
    status = shop.client.get("/v1/status").json()
    (progress,) = [b for b in status["builds"] if b["name"] == "whole"]
    assert (progress["scanned"], progress["rows"], progress["finished"]) == (SALES, 1, True)


def test_an_empty_relation_gives_an_empty_view(shop):
    assert shop.transact("DELETE FROM sale").is_success
    build(shop)
    assert states(shop) == dict.fromkeys(VIEWS, "readable")
    assert shop.rows("SELECT * FROM whole") == [[0, None, None, 0]]
    assert shop.verify() == 0


def test_the_leader_builds_views_that_are_taken_from_spark(shop):
    """A schema change does not disturb a build of Spark, and the node leaves it alone."""
    apply(shop, DDL + BY_CITY.replace("by_city", "again"), build="node")
    shop.run(shop.database.keeper.wait_built())
    assert states(shop) == dict.fromkeys(VIEWS, "building") | {"again": "readable"}
    build(shop)
    assert shop.verify() == 0


def test_spark_builds_while_a_writer_writes(spark, shop):
    with writing(shop, pause_s=0.2):
        report = build(shop, "by_city", context=spark.sparkContext)
    assert report.names == ("by_city",)
    assert report.scanned > SALES / 2
    assert states(shop)["by_city"] == "readable"
    assert shop.verify() == 0


def test_spark_reports_the_error_of_a_row(spark, shop):
    statement = "UPDATE sale SET price = 99999999.99 WHERE id = 1"
    assert shop.transact(statement).is_success
    ddl = TABLES + (
        "CREATE TABLE big (k INTEGER PRIMARY KEY, x DECIMAL(38,0));"
        "CREATE MATERIALIZED VIEW large WITH (refresh = 'immediate') AS"
        " SELECT sum(x) AS total FROM big;"
    )
    apply(shop, ddl, build="node", allow_drop=True)
    shop.run(shop.database.keeper.wait_built())
    without = ddl.partition("CREATE MATERIALIZED")[0]
    apply(shop, without, build="node", allow_drop=True)
    assert shop.transact(f"INSERT INTO big VALUES (1, {'9' * 37})").is_success
    apply(shop, ddl)
    with pytest.raises(LimitExceeded, match="A sum of large would leave the range") as caught:
        build(shop, context=spark.sparkContext)
    assert "Write smaller values" in caught.value.cure
    assert states(shop) == {"large": "quarantined"}


def test_the_command_line_builds_cancels_and_rebuilds(spark, shop):
    def run(*arguments):
        return CliRunner().invoke(app, ["materialize", "--url", url_of(shop), *arguments])

    cancelled = run("--cancel", "whole", "--json")
    assert json.loads(cancelled.output) == {"cancelled": ["whole"]}
    built = json.loads(run("by_city", "--json").output)
    assert built["names"] == ["by_city"]
    table = tables_of(shop, "by_city")
    assert "--rebuild" in run("by_city").output
    assert json.loads(run("by_city", "--rebuild", "--json").output)["names"] == ["by_city"]
    assert tables_of(shop, "by_city").isdisjoint(table)
    assert shop.verify() == 0
