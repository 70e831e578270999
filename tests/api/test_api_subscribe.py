"""Subscriptions over REST: messages, their forms, where they go on, and who may read them."""

import json
import threading
import time

import pytest

from tests.api.api_world import PLAN, world
from tests.api.security_world import secure_world

DDL = (
    PLAN["ddl"]
    + "CREATE MATERIALIZED VIEW owed AS SELECT o_c_id, count(*) AS n, sum(o_total) AS total"
    " FROM orders GROUP BY o_c_id;"
    " CREATE VIEW named AS SELECT c_id FROM customer;"
)
EVENTS = {"Accept": "text/event-stream"}


@pytest.fixture
def shop(tmp_path):
    with world(tmp_path) as w:
        assert w.apply(ddl=DDL, workload="", roots=None).status_code == 200
        w.transact("INSERT INTO customer (c_id, c_name) VALUES (1, 'ann'), (2, 'bob')")
        yield w


def subscribed(shop, name, count=0, headers=None, after=lambda: None, **parameters):
    """The first `count` messages of a subscription. `after` is called when it has begun, in another
    thread, and has returned at the end."""
    given = {"name": name, "heartbeat_s": 20, **parameters}
    thread = threading.Thread(target=after)
    with shop.client.stream("GET", "/v1/subscribe", params=given, headers=headers or {}) as answer:
        assert answer.status_code == 200, answer.read()
        lines, found = answer.iter_lines(), []
        for line in lines:
            found.append(line)
            if len(found) == 1:
                thread.start()
            if len(found) == count:
                break
        thread.join()
    return found


def messages(shop, name, count, **options):
    return [json.loads(line) for line in subscribed(shop, name, count, **options)]


def buy(shop, number, customer=1, total="9.50"):
    done = shop.transact("INSERT INTO orders VALUES (?, ?, ?)", number, customer, total)
    assert done.status_code == 200, done.text
    return done.json()


def test_metrics_count_the_open_subscriptions(shop):
    def shown():
        lines = shop.client.get("/metrics").text.splitlines()
        return next(line for line in lines if line.startswith("hornbeam_subscriptions "))

    while_open = []
    subscribed(shop, "orders", 1, after=lambda: while_open.append(shown()), rows=False)
    assert while_open == ["hornbeam_subscriptions 1.0"]


def test_a_stream_has_the_rows_then_the_changes(shop):
    buy(shop, 1)
    done = []
    begin, rows, reached, changes = messages(
        shop, "orders", 4, after=lambda: done.append(buy(shop, 2))
    )
    assert begin["name"] == "orders"
    assert begin["columns"] == [
        {"name": "o_id", "type": "INTEGER"},
        {"name": "o_c_id", "type": "INTEGER"},
        {"name": "o_total", "type": "DECIMAL(15,2)"},
    ]
    assert (begin["key"], begin["rows"]) == (["o_id"], True)
    assert rows == {"type": "rows", "rows": [[1, 1, "9.50"]]}
    assert reached == {"type": "moment", "moment": begin["moment"]}
    assert changes["moment"] >= done[0]["commit_ts"]
    assert changes["changes"] == [
        {
            "operation": "insert",
            "before": None,
            "after": [2, 1, "9.50"],
            "commit": done[0]["commit_ts"],
            "transaction_id": done[0]["transaction_id"],
        }
    ]


def test_a_view_gives_differences_and_the_stream_goes_on_after_a_moment(shop):
    buy(shop, 1)
    begin, _, _, first = messages(shop, "owed", 4, after=lambda: buy(shop, 2))
    before, after = [1, 1, "9.50"], [1, 2, "19.00"]
    assert first["changes"] == [{"operation": "update", "before": before, "after": after}]
    buy(shop, 3, customer=2)
    _, missed = messages(shop, "owed", 2, moment=first["moment"])
    assert missed["changes"] == [{"operation": "insert", "before": None, "after": [2, 1, "9.50"]}]
    _, all_of_it = messages(shop, "owed", 2, moment=begin["moment"])
    assert len(all_of_it["changes"]) == 2
    event = {"Last-Event-ID": str(first["moment"])}
    _, again = messages(shop, "owed", 2, headers=event)
    assert again["changes"] == missed["changes"]


def test_without_changes_a_message_comes_in_every_interval(shop):
    begin, *beats = messages(shop, "orders", 4, rows=False, heartbeat_s=0.2)
    assert not begin["rows"]
    assert {beat["type"] for beat in beats} == {"moment"}
    assert begin["moment"] <= beats[0]["moment"] <= beats[-1]["moment"]


def test_only_wanted_rows_are_sent(shop):
    def after():
        buy(shop, 1, customer=1)
        buy(shop, 2, customer=2)

    *_, changes = messages(
        shop, "orders", 2, rows=False, wanted='{"o_c_id": 2}', after=after, heartbeat_s=10
    )
    assert [change["after"] for change in changes["changes"]] == [[2, 2, "9.50"]]


def test_an_answer_ends_after_its_time(shop):
    begin, last = subscribed(shop, "orders", rows=False, lasts_s=0.05, heartbeat_s=10)
    assert json.loads(last)["moment"] >= json.loads(begin)["moment"]


def test_server_sent_events_have_a_name_and_an_id(shop):
    lines = subscribed(shop, "orders", 10, headers=EVENTS, after=lambda: buy(shop, 1))
    assert lines[0] == "event: begin"
    begin = json.loads(lines[1].removeprefix("data: "))
    assert lines[2:6] == ["", "event: moment", f"id: {begin['moment']}", lines[5]]
    assert lines[7] == "event: changes"
    changes = json.loads(lines[9].removeprefix("data: "))
    assert lines[8] == f"id: {changes['moment']}"


def test_changes_have_the_idempotency_key_of_their_request(shop):
    def keyed():
        statement = {"sql": "INSERT INTO orders VALUES (2, 1, 5)", "parameters": []}
        headers = {"Idempotency-Key": "cart 7"}
        body = {"statements": [statement]}
        done = shop.client.post("/v1/transactions", json=body, headers=headers)
        assert done.status_code == 200, done.text

    *_, changes = messages(shop, "orders", 2, after=keyed, rows=False)
    assert [change["idempotency_key"] for change in changes["changes"]] == ["cart 7"]
    given = {"moment": changes["changes"][0]["commit"] - 1, "envelope": "debezium"}
    _, envelope = messages(shop, "orders", 2, **given)
    assert envelope["source"]["idempotencyKey"] == "cart 7"


def test_changes_may_have_debeziums_envelope(shop):
    buy(shop, 1)
    _, row, _, change, end = messages(
        shop, "orders", 5, envelope="debezium", after=lambda: buy(shop, 2)
    )
    assert (row["op"], row["source"]["snapshot"]) == ("r", "true")
    assert row["after"] == {"o_id": 1, "o_c_id": 1, "o_total": "9.50"}
    assert (change["op"], change["before"]) == ("c", None)
    assert change["after"] == {"o_id": 2, "o_c_id": 1, "o_total": "9.50"}
    assert change["source"]["table"] == "orders"
    assert change["ts_ms"] <= end["moment"]
    assert change["source"]["idempotencyKey"] is None


@pytest.mark.parametrize(
    ("parameters", "status", "words"),
    [
        ({"name": "nothing"}, 404, "no relation or view nothing"),
        ({"name": "named"}, 422, "plain view"),
        ({"name": "orders", "moment": 5}, 410, "after 5"),
        ({"name": "orders", "moment": -1}, 422, "moment"),
        ({"name": "orders", "wanted": "[]"}, 400, "no JSON object"),
        ({"name": "orders", "wanted": '{"o_id": {"x": 1}}'}, 400, "wanted is wrong"),
        ({"name": "orders", "wanted": '{"o_ix": 1}'}, 422, "no column o_ix"),
        ({"name": "orders", "wanted": '{"o_id": "x"}'}, 422, "type INTEGER"),
        ({"name": "orders", "envelope": "none"}, 422, "envelope"),
        ({}, 422, "name"),
    ],
)
def test_wrong_requests_are_refused(shop, parameters, status, words):
    answer = shop.client.get("/v1/subscribe", params=parameters)
    assert answer.status_code == status, answer.text
    assert words in answer.text


def test_a_subscription_ends_with_an_error_that_says_where_to_go_on(shop):
    lines = subscribed(shop, "owed", after=lambda: shop.run(ended(shop)), heartbeat_s=20)
    *_, last = [json.loads(line) for line in lines]
    assert last["type"] == "error"
    assert last["error"]["code"] == "unavailable"
    assert last["moment"] > 0


async def ended(shop):
    shop.database.subscriptions.close()


def test_subscriptions_are_counted_by_themselves_and_released(tmp_path):
    with world(tmp_path, max_concurrent_requests=1, max_subscriptions=1) as shop:
        assert shop.apply(ddl=DDL, workload="", roots=None).status_code == 200
        begun, read = threading.Event(), threading.Event()

        def subscribe():
            with shop.client.stream("GET", "/v1/subscribe", params={"name": "orders"}) as answer:
                next(answer.iter_lines())
                begun.set()
                read.wait(30)

        thread = threading.Thread(target=subscribe)
        thread.start()
        assert begun.wait(30)
        assert shop.rows("SELECT count(*) FROM orders") == [[0]]
        refused = shop.client.get("/v1/subscribe", params={"name": "orders"})
        assert (refused.status_code, refused.json()["code"]) == (429, "overloaded")
        read.set()
        thread.join()
        until = time.monotonic() + 20
        while shop.database.committer.ring is not None and time.monotonic() < until:
            time.sleep(0.01)
        assert not shop.database.subscriptions.count
        assert shop.database.committer.ring is None


def test_a_subscription_ends_when_its_key_is_revoked_or_loses_the_grant(tmp_path):
    with secure_world(tmp_path) as secured:
        key = secured.made("reader", {"customer": "read"})
        client = secured.world.client
        asked = {"name": "customer", "heartbeat_s": 0.1, "rows": False}
        refused = secured.request(key, "GET", "/v1/subscribe?name=orders")
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        headers = {"Authorization": f"Bearer {key}"}
        with client.stream("GET", "/v1/subscribe", params=asked, headers=headers) as answer:
            lines = answer.iter_lines()
            assert json.loads(next(lines))["type"] == "begin"
            secured.revoke(key)
            *_, last = map(json.loads, lines)
        assert (last["type"], last["error"]["code"]) == ("error", "unauthenticated")
