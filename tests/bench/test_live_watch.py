"""The demo compares a live view with its SELECT at each snapshot that it reads."""

import asyncio

import pytest

import hornbeam
from bench.tpcw import LIVE, SCHEMA, live
from bench.tpcw.live import watch


@pytest.fixture
def shop(tmp_path, monkeypatch):
    monkeypatch.setenv("HORNBEAM_RESIDENT_REFRESH", "true")
    monkeypatch.setattr(live, "PAUSE_S", 0.02)
    url = f"hornbeam:///{tmp_path / 'shop'}"
    with hornbeam.connect(url, autocommit=True) as db:
        body = {"ddl": SCHEMA.read_text() + LIVE.read_text()}
        plan = db.transport.json("POST", "/v1/schema/plan", body)
        db.transport.json("POST", "/v1/schema/apply", body | {"plan_id": plan["plan_id"]})
        run(db, "INSERT INTO item (i_id, i_subject) VALUES (1, 'ART'), (2, 'COOKING')")
        run(db, "INSERT INTO orders (o_id) VALUES (1)")
        run(db, f"REFRESH MATERIALIZED VIEW {live.VIEW}")
        yield url, db


def run(db, sql, parameters=()):
    return db.cursor().execute(sql, parameters)


async def ordering(db, lines=20):
    sql = "INSERT INTO order_line (ol_o_id, ol_id, ol_i_id, ol_qty) VALUES (1, ?, ?, 3)"
    for number in range(lines):
        await asyncio.to_thread(run, db, sql, (number, number % 2 + 1))
        await asyncio.sleep(0.02)
    await asyncio.to_thread(run, db, f"REFRESH MATERIALIZED VIEW {live.VIEW}")


async def test_a_view_is_watched_while_orders_come(shop):
    url, db = shop
    watched = await watch(url, asyncio.ensure_future(ordering(db)))
    assert watched.snapshots > 1
    assert watched.differing == 0
    assert watched.half_s is not None
    assert f"{watched.snapshots} snapshots compared, 0 differ; commits shown" in watched.text()
    assert run(db, f"SELECT * FROM {live.VIEW} ORDER BY i_subject").fetchall() == [
        ("ART", 10, 30),
        ("COOKING", 10, 30),
    ]


async def test_a_view_that_differs_is_found(shop, monkeypatch):
    url, db = shop
    await ordering(db, 2)
    monkeypatch.setattr(live, "SELECT", live.SELECT.replace("sum(ol_qty)", "sum(ol_qty) + 1"))
    watched = await watch(url, asyncio.ensure_future(asyncio.sleep(0.1)))
    assert watched.differing == watched.snapshots > 0
