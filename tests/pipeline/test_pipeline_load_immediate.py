"""Bulk loads below immediate views: appended while transactions write, and initial by Spark."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from typer.testing import CliRunner

from hornbeam.cli import app
from tests.api.api_world import world
from tests.pipeline.immediate_world import (
    DDL,
    SHOPS,
    TABLES,
    VIEWS,
    apply,
    cells,
    fill,
    states,
    writing,
)
from tests.pipeline.reconcile_world import url_of
from tests.pipeline.test_pipeline_reconcile_immediate import reconcile


@pytest.fixture
def shop(tmp_path):
    with world(tmp_path) as opened:
        yield opened


def lines(first, count):
    """Sales with NULLs in all columns but the key."""
    for n in range(first, first + count):
        day = f"2026-03-{n % 28 + 1:02}" if n % 5 else ""
        yield f"{n},{n % SHOPS if n % 7 else ''},{day},{f'{n % 40}.75' if n % 3 else ''}"


def load(shop, first, count, key=None, last=()):
    text = "\n".join(["id,s_id,day,price", *lines(first, count), *last])
    headers = {"Content-Type": "text/csv"} | ({"Idempotency-Key": key} if key else {})
    return shop.client.post("/v1/load/sale", content=text, headers=headers)


def test_batches_are_appended_while_transactions_write(shop):
    """Some batches are sent twice, and some are refused: only rows that are stored count."""
    apply(shop, DDL, build="node")
    fill(shop)
    with writing(shop, pause_s=0), ThreadPoolExecutor(3) as pool:
        sent = [
            pool.submit(load, shop, 10_000 + 500 * n, 500, f"batch {n}")
            for n in (0, 1, 2, 3, 1, 4, 0, 5, 6)
        ]
        orphan = [f"30000,{SHOPS},,1"]
        refused = [pool.submit(load, shop, 20_000 + n, 300, last=orphan) for n in (0, 300, 600)]
    assert [one.result().status_code for one in sent] == [200] * len(sent)
    assert [one.result().status_code for one in refused] == [409] * len(refused)
    stored = shop.rows("SELECT count(*) AS n FROM sale WHERE id >= 10000 AND id < 100000")[0][0]
    assert stored == 7 * 500
    assert shop.verify() == 0
    assert reconcile(shop).differences == 0


def test_a_refused_batch_adds_nothing(shop):
    apply(shop, DDL, build="node")
    fill(shop)
    before = {name: cells(shop, name) for name in VIEWS}
    assert load(shop, 1_000, 500).status_code == 409
    text = f"id,s_id,day,price\n5000,1,,1\n5001,{SHOPS},,1"
    orphan = shop.client.post("/v1/load/sale", content=text, headers={"Content-Type": "text/csv"})
    assert orphan.status_code == 409
    assert {name: cells(shop, name) for name in VIEWS} == before
    assert shop.verify() == 0


def test_an_initial_load_builds_the_views_again(spark, shop, tmp_path):
    """Sales are loaded into an empty relation below the views."""
    apply(shop, TABLES, build="node")
    fill(shop, sales=1)
    assert shop.transact("DELETE FROM sale").is_success
    apply(shop, DDL, build="node")
    shop.run(shop.database.keeper.wait_built())
    old = {shop.database.catalog.layout(name).table for name in VIEWS}
    path = tmp_path / "sale.csv"
    path.write_text("\n".join(["id,s_id,day,price", *lines(0, 3_000)]))
    arguments = ["load", f"sale={path}", "--spark", "--url", url_of(shop), "--json"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["rows"] == {"sale": 3_000}
    shop.run(shop.database.keeper.wait_built())
    assert states(shop) == dict.fromkeys(VIEWS, "readable")
    assert old.isdisjoint(shop.run(shop.database.store.tables()))
    assert shop.rows("SELECT n FROM whole") == [[3_000]]
    assert shop.verify() == 0
    with writing(shop):
        pass
    assert shop.verify() == 0
    assert reconcile(shop).differences == 0
