"""The statements by their text, and the transactions under way, over HTTP."""

from __future__ import annotations

import threading
import time

import pytest

from hornbeam_server.api.rest import activity
from tests.api.api_world import PLAN, world
from tests.api.security_world import secure_world

BY_ID = "SELECT c_name FROM customer WHERE c_id = ?"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with world(tmp_path_factory.mktemp("activity"), max_statement_texts=20) as served:
        assert served.apply(**PLAN).status_code == 200
        served.transact("INSERT INTO customer VALUES (1, 'Ann', 1, NULL), (2, 'Bob', 2, NULL)")
        served.transact("INSERT INTO orders VALUES (1, 1, 5), (2, 1, 6), (3, 2, 7)")
        yield served


@pytest.fixture
def shop(served):
    assert served.client.delete("/v1/statements").status_code == 200
    return served


def statistics(shop, **parameters):
    answer = shop.client.get("/v1/statements", params=parameters)
    assert answer.status_code == 200, answer.text
    return activity.Statistics.model_validate(answer.json())


def counted(shop, sql):
    (found,) = (each for each in statistics(shop).statements if each.sql == sql)
    return found


def test_a_query_is_counted_with_its_rows_by_both_paths(shop):
    for number in (1, 2, 1):
        shop.rows(BY_ID, number)
    shop.rows(BY_ID, 1, consistency="strong")  # takes the complete path
    found = counted(shop, BY_ID)
    assert (found.kind, found.calls, found.failed) == ("read", 4, 0)
    assert (found.rows, found.rows_read) == (4, 4)
    assert found.served_by == ["customer"]
    assert found.total_ms >= found.max_ms >= found.mean_ms > 0
    assert found.last_ms + 5 >= found.first_ms >= statistics(shop).since_ms


def test_texts_that_differ_in_literals_are_one(shop):
    for number in (1, 2):
        shop.rows(f"SELECT o_id FROM orders WHERE o_c_id = {number} AND o_total > 1.5")
        shop.transact(f"UPDATE customer SET c_name = 'X{number}' WHERE c_id = {number}")
    assert counted(shop, "SELECT o_id FROM orders WHERE o_c_id = ? AND o_total > ?").calls == 2
    assert counted(shop, "UPDATE customer SET c_name = ? WHERE c_id = ?").calls == 2


def test_a_query_that_reads_more_than_it_returns_shows_it(shop):
    sql = "SELECT count(*) FROM orders WHERE o_total < 100"
    assert shop.rows(sql) == [[3]]
    found = counted(shop, sql.replace("100", "?"))
    assert (found.rows, found.rows_read) == (1, 3)


def test_a_write_is_counted_with_the_relations_that_it_changes(shop):
    shop.transact("INSERT INTO orders VALUES (?, 1, 5)", 10)
    shop.transact("DELETE FROM orders WHERE o_id = ?", 10)
    found = counted(shop, "INSERT INTO orders VALUES (?, 1, 5)")
    assert (found.kind, found.calls, found.rows, found.rows_read) == ("write", 1, 1, None)
    assert "orders" in found.served_by


def test_each_statement_of_a_transaction_is_counted_once_it_commits(shop):
    first = "UPDATE customer SET c_balance = ? WHERE c_id = 1"
    second = "UPDATE customer SET c_balance = ? WHERE c_id = 2"
    statements = [{"sql": first, "parameters": [3]}, {"sql": second, "parameters": [4]}]
    shop.post("/v1/transactions", {"statements": statements, "dry_run": True})
    assert not statistics(shop).statements
    assert shop.post("/v1/transactions", {"statements": statements}).status_code == 200
    assert [counted(shop, sql).calls for sql in (first, second)] == [1, 1]
    assert counted(shop, first).total_ms > 0


def test_errors_are_counted(shop):
    assert shop.transact("INSERT INTO customer VALUES (?, 'Eve', 0, NULL)", 1).status_code == 409
    found = counted(shop, "INSERT INTO customer VALUES (?, 'Eve', 0, NULL)")
    assert (found.calls, found.failed, found.rows) == (1, 1, 0)
    sql = "SELECT 1 / (c_id - 1) FROM customer"
    assert shop.post("/v1/query", {"sql": sql}).status_code != 200
    found = counted(shop, "SELECT ? / (c_id - ?) FROM customer")
    assert (found.calls, found.failed) == (1, 1)
    assert shop.post("/v1/query", {"sql": "SELECT nothing FROM customer"}).status_code == 422
    assert len(statistics(shop).statements) == 2  # what cannot be planned is not counted


def test_refused_transactions_of_no_or_several_statements_are_not_counted(shop):
    assert shop.post("/v1/transactions", {"statements": []}).status_code == 422
    sql = "INSERT INTO customer VALUES (1, 'Eve', 0, NULL)"
    statements = [{"sql": sql}, {"sql": sql}]
    assert shop.post("/v1/transactions", {"statements": statements}).status_code == 409
    assert not statistics(shop).statements


def test_the_largest_come_first(shop):
    for calls, number in enumerate((2, 1), 1):
        for _ in range(calls):
            shop.rows(f"SELECT c_name AS n{number} FROM customer WHERE c_id = ?", number)
    shop.rows("SELECT count(*) FROM orders")
    orders = {order: statistics(shop, order=order).statements for order in activity._ORDERS}
    assert orders["calls"][0].calls == 2
    assert orders["rows_read"][0].sql == "SELECT count(*) FROM orders"
    for order, key in (("time", "total_ms"), ("mean", "mean_ms")):
        values = [getattr(each, key) for each in orders[order]]
        assert values == sorted(values, reverse=True)
    assert len(statistics(shop, limit=1).statements) == 1
    assert shop.client.get("/v1/statements", params={"order": "x"}).status_code == 422


def test_the_number_of_texts_is_bounded(shop):
    for _ in range(2):
        shop.rows(BY_ID, 1)
    for number in range(50):
        shop.rows(f"SELECT c_name AS n{number} FROM customer WHERE c_id = ?", 1)
    found = statistics(shop)
    assert found.texts <= found.most == 20
    assert found.statements
    assert counted(shop, BY_ID).calls == 2  # single calls go first


def test_nothing_is_counted_if_no_texts_are_kept(tmp_path):
    with world(tmp_path, max_statement_texts=0) as shop:
        shop.rows("SELECT 1")
        assert not statistics(shop).statements


def test_a_transaction_that_waits_is_shown_with_its_lock(shop):
    assert shop.client.get("/v1/transactions").json() == []
    sql = "UPDATE customer SET c_name = ? WHERE c_id = 1"
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(shop.transact(sql, "Ann")))
    with shop.holding_root("customer", 1):
        waiting.start()
        running = until_some(shop)
        (hot,) = shop.client.get("/v1/status").json()["locks"]["hot"]
    waiting.join()
    assert answers[0].status_code == 200
    found = activity.RunningTransactionAnswer.model_validate(running)
    assert (found.state, found.attempt, found.statements, found.more) == ("waits", 1, [sql], 0)
    assert found.waits_for == activity.Lock(kind="root", name="customer", key=[1])
    assert (found.at, found.owner) == (None, "")
    assert hot == {"lock": "root customer (1)", "waiting": 1}
    assert shop.client.get("/v1/transactions").json() == []


def until_some(shop):
    """The transaction that waits; it has 10 s to come."""
    give_up = time.monotonic() + 10
    while time.monotonic() < give_up:
        found = shop.client.get("/v1/transactions").json()
        if found and found[0]["state"] == "waits":
            return found[0]
    raise AssertionError("no transaction waits")


def test_only_administrators_see_them(tmp_path):
    with secure_world(tmp_path) as secure:
        for path in ("/v1/statements", "/v1/transactions"):
            assert secure.request(secure.root, "GET", path).status_code == 200
            for key in (secure.made("writer"), secure.made("reader", {"orders": "read"})):
                assert secure.request(key, "GET", path).status_code == 403
        key = secure.made("writer")
        assert secure.request(key, "DELETE", "/v1/statements").status_code == 403
