"""Requests that bypass FastAPI (`StrictRoute`) are answered like those that do not."""

from __future__ import annotations

import asyncio
import json
import time

import pytest
from starlette.requests import ClientDisconnect

import hornbeam
from hornbeam_server.api.rest.short_queries import ShortQueries
from hornbeam_server.api.rest.streams import ARROW, unless_gone
from tests.api.api_world import PLAN, world
from tests.client.client_world import embedded

DIRECT, GENERAL = "application/json", "application/json; charset=utf-8"


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    with world(tmp_path_factory.mktemp("direct")) as w:
        assert w.apply(**PLAN).status_code == 200
        yield w


@pytest.mark.parametrize("path", ["/v1/query", "/v1/transactions"])
@pytest.mark.parametrize(
    ("content", "headers"),
    [
        (b'{"sql": "SELECT 1 AS n"}', {}),
        (b'{"statements": []}', {"Idempotency-Key": "a"}),
        (b'{"statements": []}', {"Idempotency-Key": "k" * 256}),
        (b'{"statements": []}', {"Idempotency-Key": ""}),
        (b'{"sql": 1, "statements": 1}', {}),
        (b"[]", {}),
        (b"", {}),
        (b'{"sql": NaN}', {}),
    ],
)
def test_the_direct_and_the_general_path_answer_alike(shop, path, content, headers):
    def answer(media_type):
        given = headers | {"Content-Type": media_type}
        response = shop.client.post(path, content=content, headers=given)
        document = response.json()
        for moving in ("transaction_id", "commit_ts", "bookmark", "timings_ms", "elapsed_ms"):
            document.pop(moving, None)
        document.pop("snapshot", None)
        return response.status_code, response.headers["content-type"], document

    assert answer(DIRECT) == answer(GENERAL)


async def test_a_client_that_goes_away_cancels_the_work():
    cleaned = []

    async def receive():
        return {"type": "http.disconnect"}

    async def work():
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.append(True)

    with pytest.raises(ClientDisconnect):
        await unless_gone(receive, work())
    await asyncio.sleep(0)  # this task itself is not cancelled
    assert cleaned


def test_a_time_limit_around_the_work_is_no_disconnect():
    async def receive():
        await asyncio.sleep(60)

    async def run():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await unless_gone(receive, asyncio.sleep(60))
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


# ------------------------------------------------------------ short queries

NAMES = "SELECT c_name, c_balance FROM customer WHERE c_id = ?"
SHORT, FULL = "*/*", "application/json;q=1"
"""Headers `Accept`: with the second one, FastAPI answers."""


@pytest.fixture(scope="module")
def answered(shop):
    """The number of queries that the short layer has answered, and the shop."""
    count = [0]
    short = ShortQueries._answer

    def noted(self, body, began):
        answer = short(self, body, began)
        count[0] += answer is not None
        return answer

    shop.transact("INSERT INTO customer VALUES (1, 'Ann', 1.5, NULL), (2, 'Bob', 2, NULL)")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ShortQueries, "_answer", noted)
        yield shop, count


def asked(shop, body, accept):
    given = {"Accept": accept, "Content-Type": "application/json"}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = shop.client.post("/v1/query", content=content, headers=given)
    document = response.json()
    if isinstance(body, dict) and body.get("consistency") == "tentative":
        label = document.pop("tentative")
        assert label == {"as_of": document["snapshot"], "reason": ""}
    for moving in ("elapsed_ms", "snapshot"):
        document.pop(moving, None)
    headers = {n: v for n, v in response.headers.items() if n not in {"date", "content-length"}}
    return response.status_code, headers, document


@pytest.mark.parametrize(
    ("body", "short"),
    [
        ({"sql": NAMES, "parameters": [1]}, True),
        ({"sql": NAMES, "parameters": [1], "use_views": False}, True),
        ({"sql": NAMES, "parameters": [{"type": "INTEGER", "value": "2"}]}, True),
        ({"sql": NAMES, "parameters": [None]}, True),
        ({"sql": NAMES.replace("?", ":id"), "parameters": {"id": 2}}, True),
        (b' {"sql" : "SELECT c_name FROM customer WHERE c_id = 1" } ', True),
        ({"sql": "SELECT c_id FROM customer WHERE c_name LIKE 'A%' ORDER BY c_id"}, False),
        ({"sql": NAMES, "parameters": [1], "timeout_ms": 86_400_000}, True),
        ({"sql": NAMES, "parameters": [1], "timeout_ms": None}, True),
        ({"sql": NAMES, "parameters": [1], "timeout_ms": 86_400_001}, False),
        ({"sql": NAMES, "parameters": [1], "timeout_ms": 0}, False),
        ({"sql": NAMES, "parameters": [1], "timeout_ms": True}, False),
        ({"sql": NAMES, "parameters": [1], "timeout_ms": 5.0}, False),
        ({"sql": NAMES, "parameters": [1], "max_rows": 5}, False),
        ({"sql": NAMES, "parameters": [1], "consistency": "strong"}, False),
        ({"sql": NAMES, "parameters": [1], "consistency": "tentative"}, True),
        ({"sql": NAMES, "parameters": [1], "other": 5}, False),
        ({"sql": NAMES, "parameters": [1], "bookmark": 1.0}, False),
        ({"sql": NAMES, "parameters": [1], "bookmark": True}, False),
        ({"sql": NAMES, "parameters": [1], "bookmark": -1}, False),
        ({"sql": NAMES, "parameters": [1], "bookmark": 1 << 63}, False),
        ({"sql": NAMES, "parameters": [1], "use_views": 0}, False),
        ({"sql": NAMES, "parameters": "1"}, False),
        ({"sql": NAMES, "parameters": [[[1]]]}, False),
        ({"sql": NAMES, "parameters": [{"type": "NONE", "value": 1}]}, False),
        ({"sql": NAMES, "parameters": ["one"]}, False),
        ({"sql": NAMES, "parameters": [1, 2]}, False),
        ({"sql": NAMES, "parameters": [1] * 5_001}, False),
        ({"sql": NAMES, "parameters": [1], "pending": []}, False),
        ({"sql": "SELECT count(*) FROM customer"}, False),
        ({"sql": "SELECT 1 / 0 FROM customer WHERE c_id = 1"}, False),
        ({"sql": ""}, False),
        ({"parameters": [1]}, False),
        (b'{"sql": "SELECT c_name FROM customer WHERE c_id = 1", "bookmark": 1e0}', False),
        (b'{"sql": "SELECT c_name FROM customer WHERE c_id = NaN"', False),
        (b'{"sql": "\\ud800"}', False),
        (b'{"sql": "\xff"}', False),
        (b"[" * 5_000, False),
        (b"", False),
    ],
)
def test_short_queries_are_answered_as_fastapi_answers_them(answered, body, short):
    shop, count = answered
    expected = asked(shop, body, FULL)
    before = count[0]
    found = asked(shop, body, SHORT)
    assert found == expected
    assert count[0] - before == short


def test_a_query_of_the_python_client_outside_of_a_transaction_is_short(answered, tmp_path):
    _, count = answered
    with hornbeam.connect(embedded(tmp_path), autocommit=True) as db:
        cursor = db.cursor()
        cursor.execute("CREATE TABLE t (i INTEGER PRIMARY KEY)")
        cursor.execute("INSERT INTO t VALUES (1)")
        read = "SELECT i FROM t WHERE i = ?"
        cursor.execute(read, [1])  # plans it
        before = count[0]
        assert cursor.execute(read, [1]).fetchall() == [(1,)]
        assert count[0] == before + 1


def test_other_headers_and_methods_go_to_fastapi(answered):
    shop, count = answered
    body = json.dumps({"sql": NAMES, "parameters": [1]})
    asked(shop, body.encode(), SHORT)
    before = count[0]
    for headers, status in (
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/json", "Content-Encoding": "gzip"}, 415),
        ({"Content-Type": "application/json", "Accept": ARROW}, 200),
    ):
        response = shop.client.post("/v1/query", content=body, headers=headers)
        assert response.status_code == status, headers
    assert shop.client.get("/v1/query").status_code == 405
    assert count[0] == before


def test_short_queries_count_in_the_metrics(answered):
    shop, _ = answered
    shop.rows(NAMES, 1)

    def counts():
        lines = shop.client.get("/metrics").text.splitlines()
        wanted = (
            'hornbeam_request_seconds_count{method="POST",route="/v1/query",status="200"}',
            "hornbeam_query_seconds_count",
        )
        return [float(line.split()[-1]) for line in lines if line.startswith(wanted)]

    before = counts()
    shop.rows(NAMES, 1)
    assert counts() == [count + 1 for count in before]
    assert len(before) == 2


def test_a_body_in_pieces_goes_to_fastapi(answered):
    shop, count = answered
    body = json.dumps({"sql": NAMES, "parameters": [1]}).encode()
    asked(shop, body, SHORT)
    before = count[0]

    def pieces():
        yield body[:20]
        time.sleep(0.05)  # else both pieces arrive together
        yield body[20:]

    headers = {"Content-Type": "application/json"}
    response = shop.client.post("/v1/query", content=pieces(), headers=headers)
    assert response.json()["rows"] == [["Ann", "1.50"]]
    assert count[0] == before
