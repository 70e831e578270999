"""The demo compares a subscriber of a live view with the view's SELECT, moment by moment."""

import asyncio

import pytest

import hornbeam
from hornbeam.subscriptions import Change, Changes
from hornbeam_server.demo.tpcw import LIVE, SCHEMA, live
from hornbeam_server.demo.tpcw.live import Subscriber, lags_s, watch


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


def metrics(db):
    return db.transport.text("/metrics")


async def both_subscribe(db):
    """Until the subscribers of the view and of the order lines have begun, which no event tells."""
    while "hornbeam_subscriptions 2.0" not in await asyncio.to_thread(metrics, db):  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def ordering_while_watched(db, lines=20):
    await both_subscribe(db)
    await ordering(db, lines)


async def ordering(db, lines=20):
    sql = "INSERT INTO order_line (ol_o_id, ol_id, ol_i_id, ol_qty) VALUES (1, ?, ?, 3)"
    for number in range(lines):
        await asyncio.to_thread(run, db, sql, (number, number % 2 + 1))
        await asyncio.sleep(0.02)
    await asyncio.to_thread(run, db, f"REFRESH MATERIALIZED VIEW {live.VIEW}")


async def test_a_view_is_watched_while_orders_come(shop):
    url, db = shop
    watched = await watch(url, asyncio.ensure_future(ordering_while_watched(db)))
    assert watched.compared > 2
    assert watched.differing == 0
    assert watched.moments > 1
    assert watched.changes >= watched.moments
    assert len(watched.lags_s) == 20
    assert 0 < watched.json()["lag_p50_s"] <= watched.json()["lag_max_s"] < 5
    assert watched.half_s is not None
    assert f"{watched.compared} compared with the query, 0 differ" in watched.text()
    assert run(db, f"SELECT * FROM {live.VIEW} ORDER BY i_subject").fetchall() == [
        ("ART", 10, 30),
        ("COOKING", 10, 30),
    ]


async def test_a_view_that_differs_is_found(shop, monkeypatch):
    url, db = shop
    await ordering(db, 2)
    monkeypatch.setattr(live, "LAST_S", 0.1)
    monkeypatch.setattr(live, "SELECT", live.SELECT.replace("sum(ol_qty)", "sum(ol_qty) + 1"))
    compared, all_equal = asyncio.Event(), live._all_equal
    loop = asyncio.get_running_loop()

    def noted(*asked):
        found = all_equal(*asked)
        loop.call_soon_threadsafe(compared.set)
        return found

    monkeypatch.setattr(live, "_all_equal", noted)
    watched = await watch(url, asyncio.ensure_future(compared.wait()))
    assert watched.differing == watched.compared > 1


async def test_a_subscriber_that_misses_a_change_is_found(shop, monkeypatch):
    url, db = shop
    take, missed = Subscriber.take, []

    def forgetful(self, changes, now_ms):
        if not changes.begins and not missed:
            missed.append(changes.pop())
        take(self, changes, now_ms)

    monkeypatch.setattr(live, "LAST_S", 0.1)
    monkeypatch.setattr(Subscriber, "take", forgetful)
    watched = await watch(url, asyncio.ensure_future(ordering_while_watched(db, 5)))
    assert missed
    assert watched.differing > 0


async def test_an_error_of_a_subscriber_ends_the_watch(shop, monkeypatch):
    url, _ = shop
    monkeypatch.setattr(live, "RELATION", "absent")
    with pytest.raises(hornbeam.Error, match="absent"):
        await watch(url, asyncio.ensure_future(asyncio.sleep(30)))


def test_a_subscriber_holds_the_rows_of_its_moment():
    subscriber = Subscriber(live.VIEW)
    begins = [Change("insert", None, ("ART", 1)), Change("insert", None, ("ART", 1))]
    subscriber.take(Changes(None, begins, begins=True), 1.0)
    assert subscriber.moment is None
    subscriber.take(Changes(5, [], begins=True), 1.0)
    subscriber.take(Changes(7, [Change("update", ("ART", 1), ("ART", 2))]), 9.0)
    assert (subscriber.moment, subscriber.changes, subscriber.arrivals) == (7, 1, [(7, 9.0)])
    assert subscriber.rows == {("ART", 1): 1, ("ART", 2): 1}


def test_a_commit_has_come_with_the_first_moment_that_shows_it():
    assert lags_s([3, 5, 6, 11], [(5, 1005.0), (10, 2006.0)]) == [1.002, 1.0, 2.0]
