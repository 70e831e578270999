"""Planning over REST reports progress, blocks no other request, and stops with its client."""

from __future__ import annotations

import json
import threading
import time

import httpx
import pytest

from hornbeam_server.viewselect.watch import Watch
from tests.api.api_world import PLAN, world
from tests.star_world import schema, workload

WIDE = {"ddl": schema(), "workload": workload(113, 0, 17), "roots": None}
LINES = {"Accept": "application/x-ndjson"}


@pytest.fixture
def shop(tmp_path):
    with world(tmp_path, max_timeout_s=20.0) as w:
        yield w


def lines(response: httpx.Response) -> list[dict[str, object]]:
    return [json.loads(line) for line in response.text.splitlines()]


def test_lines_of_progress_end_with_the_plan(shop):
    *progress, last = lines(shop.post("/v1/schema/plan", PLAN, headers=LINES))
    plain = shop.post("/v1/schema/plan", PLAN).json()
    assert last["plan"]["plan_id"] == plain["plan_id"]
    assert last["plan"]["plan"] == plain["plan"]
    assert progress
    assert all(0 <= line["progress"]["done"] <= 100 for line in progress)


def test_errors_before_the_first_line_set_the_http_status(shop):
    refused = shop.post(
        "/v1/schema/plan", PLAN | {"ddl": "CREATE TABLE t (a WRONG)"}, headers=LINES
    )
    assert (refused.status_code, refused.json()["code"]) == (422, "schema-invalid")


@pytest.mark.parametrize("headers", [{}, LINES])
def test_the_search_ends_when_its_client_disconnects(shop, headers, monkeypatch):
    watches: list[Watch] = []
    create = Watch.__init__
    monkeypatch.setattr(
        Watch, "__init__", lambda self, *given: (watches.append(self), create(self, *given))[1]
    )

    def leave() -> None:
        with (
            httpx.Client(base_url=shop.client.base_url, timeout=httpx.Timeout(30.0)) as client,
            client.stream("POST", "/v1/schema/plan", json=WIDE, headers=headers) as answer,
        ):
            next(answer.iter_lines())

    if headers:
        leave()  # after the first line
    else:
        with pytest.raises(httpx.ReadTimeout):
            shop.client.post("/v1/schema/plan", json=WIDE, timeout=4.0)
    (watch,) = watches
    began = time.monotonic()
    while not watch.stopped:
        assert time.monotonic() - began < 5
        time.sleep(0.02)
    left = watch.effort
    time.sleep(0.5)
    assert watch.effort <= left + 20  # the current step may still finish


def test_the_time_limit_ends_a_search(tmp_path):
    with world(tmp_path, max_timeout_s=2.0) as w:
        began = time.monotonic()
        refused = w.client.post("/v1/schema/plan", json=WIDE, timeout=60)
        assert (refused.status_code, refused.json()["code"]) == (504, "statement-timeout")
        assert refused.json()["cure"]
        assert time.monotonic() - began < 10


def test_health_is_answered_beside_a_search(shop):
    slowest = 0.0

    def plan_for_a_while() -> None:
        with pytest.raises(httpx.ReadTimeout):
            shop.client.post("/v1/schema/plan", json=WIDE, timeout=4.0)

    planning = threading.Thread(target=plan_for_a_while)
    planning.start()
    with httpx.Client(base_url=shop.client.base_url) as client:
        while planning.is_alive():
            began = time.monotonic()
            assert client.get("/livez").status_code == 200
            slowest = max(slowest, time.monotonic() - began)
            time.sleep(0.02)
    print("slowest /livez", slowest)
    assert slowest < 1.0
