"""Statements that need too much memory or time, in a server and in the embedded library."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

import hornbeam
from hornbeam_server.query.workers.places import Places
from tests.api.api_world import PLAN, world
from tests.api.security_world import secure_world
from tests.query.query_world import UNINTERRUPTIBLE

MEMORY = "SELECT sum(length(repeat('x', 100000000 + x))) FROM range(1000) t(x)"
SORT = "SELECT list_sort(range(1000000000))[1]"
SLOW = f"SELECT {UNINTERRUPTIBLE}"
SMALL = "SELECT count(*) FROM range(10)"


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    with world(tmp_path_factory.mktemp("workers"), query_places=2) as w:
        assert w.apply(**PLAN).status_code == 200
        yield w


def ask(shop, sql, timeout_ms=10_000):
    return shop.post("/v1/query", {"sql": sql, "timeout_ms": timeout_ms}, timeout=60)


@pytest.mark.parametrize("sql", [MEMORY, SORT])
def test_a_statement_that_needs_too_much_memory_is_refused(shop, sql):
    answer = ask(shop, sql)
    document = answer.json()
    assert answer.status_code in (504, 507), document
    assert document["code"] in ("memory-exceeded", "statement-timeout")
    assert document["cure"]
    assert not document["retryable"]
    assert ask(shop, SMALL).json()["rows"] == [[10]]


def test_a_write_that_needs_too_much_memory_is_refused(shop):
    sql = "INSERT INTO customer (c_id, c_name) VALUES (77, repeat('x', 2000000000))"
    answer = shop.post("/v1/transactions", {"statements": [{"sql": sql}]}, timeout=60)
    assert answer.status_code == 507
    assert answer.json()["outcome"] == "none"
    assert shop.rows("SELECT count(*) FROM customer WHERE c_id = 77") == [[0]]


def test_uninterruptible_statements_do_not_block_others(shop):
    """Four slow statements with a limit of 8 s share two places."""
    with ThreadPoolExecutor(4) as clients:
        slow = [clients.submit(ask, shop, SLOW, 8_000) for _ in range(4)]
        time.sleep(1.5)
        for _ in range(3):
            assert ask(shop, SMALL).json()["rows"] == [[10]]
        assert not any(answer.done() for answer in slow)
        assert {answer.result().status_code for answer in slow} == {504}


def test_a_place_is_free_after_the_time_limit_of_its_statement(shop):
    with ThreadPoolExecutor(8) as clients:
        began = time.monotonic()
        answers = list(clients.map(lambda _: ask(shop, SLOW, 1_000), range(8)))
    assert {answer.status_code for answer in answers} == {504}
    assert ask(shop, SMALL).json()["rows"] == [[10]]
    assert time.monotonic() - began < 15


def test_disconnects_are_not_logged_as_errors(shop, capsys):
    def leave() -> None:
        with pytest.raises(httpx.ReadTimeout):
            shop.post("/v1/query", {"sql": SLOW}, timeout=0.3)

    threads = [threading.Thread(target=leave) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ask(shop, SMALL).json()["rows"] == [[10]]
    assert "unexpected" not in capsys.readouterr().err


def test_point_reads_continue_beside_heavy_statements(shop):
    stop = threading.Event()

    def attack() -> None:
        for sql in (MEMORY, SLOW, SORT) * 20:
            if stop.is_set():
                return
            ask(shop, sql, 2_000)

    with ThreadPoolExecutor(3) as clients:
        for _ in range(3):
            clients.submit(attack)
        times = []
        for _ in range(100):
            began = time.monotonic()
            assert shop.rows("SELECT c_name FROM customer WHERE c_id = 1") is not None
            times.append(time.monotonic() - began)
            time.sleep(0.02)
        stop.set()
    assert sorted(times)[-3] < 1.0


def test_the_embedded_library_has_the_same_limits(tmp_path):
    with hornbeam.connect(f"hornbeam:///{tmp_path}/db", autocommit=True) as connection:
        cursor = connection.cursor()
        with pytest.raises(hornbeam.OperationalError) as caught:
            cursor.execute(SORT)
        assert caught.value.code in ("memory-exceeded", "statement-timeout")
        cursor.execute(SMALL)
        assert cursor.fetchall() == [(10,)]


def test_each_key_is_a_separate_client_for_places(tmp_path, monkeypatch):
    """This holds for two keys from one address."""
    asked = []
    take = Places.take

    async def noted(self, client, *, long=False):
        asked.append(client)
        return await take(self, client, long=long)

    monkeypatch.setattr(Places, "take", noted)
    with secure_world(tmp_path) as secured:
        one, other = (secured.made_document("reader") for _ in range(2))
        asked.clear()
        for key in (one, other, one):
            assert secured.query(key["key"], SMALL).json()["rows"] == [[10]]
    assert asked == [one["id"], other["id"], one["id"]]
