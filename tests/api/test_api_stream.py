"""Large answers: bounded memory, clients that disconnect, late errors; and a busy server."""

from __future__ import annotations

import itertools
import json
import resource
import socket
import threading
import time

import httpx
import pytest
from structlog.testing import capture_logs

from hornbeam_server.api.rest import http_protocol, middleware
from hornbeam_server.api.rest.metrics import Metrics
from hornbeam_server.api.rest.occupancy import Occupancy
from hornbeam_server.node.settings import Settings
from hornbeam_server.schema.errors import Closing, Unavailable
from tests.api.api_world import PLAN, world

ARROW = {"Accept": "application/vnd.apache.arrow.stream"}
LARGE = "SELECT a.range AS a, b.range AS b, 'some text' AS t FROM range(1500) a, range(1000) b"
ENDLESS = "SELECT count(*) FROM range(100000000) a, range(100000000) b"
BREAKS = (
    "SELECT CAST(CASE WHEN i < 2000000 THEN '1' ELSE 'in the middle' END AS INTEGER) AS n"
    " FROM range(2100000) AS r(i)"
)


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    options = {"max_concurrent_requests": 2, "max_json_rows": 3_000_000}
    with world(tmp_path_factory.mktemp("stream"), **options) as w:
        assert w.apply(**PLAN).status_code == 200
        yield w


def quiet(shop, seconds=10):
    """Wait until no request is under way; return whether that happened in time."""
    until = time.monotonic() + seconds
    while any(shop.leaks().values()) and time.monotonic() < until:
        time.sleep(0.02)
    return not any(shop.leaks().values())


@pytest.mark.parametrize("headers", [{}, ARROW])
def test_a_large_result_streams_in_bounded_memory(shop, headers):
    shop.rows("SELECT count(*) FROM range(1000) a, range(1000) b")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    received = 0
    with shop.client.stream("POST", "/v1/query", json={"sql": LARGE}, headers=headers) as answer:
        for chunk in answer.iter_raw():
            received += len(chunk)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert received > 30_000_000
    assert grown_kib < 60_000
    assert quiet(shop)


@pytest.mark.parametrize(("error", "warnings"), [(Closing("closed"), 0), (Unavailable("away"), 1)])
async def test_an_answer_that_the_end_of_the_database_cuts_is_no_warning(error, warnings):
    async def application(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise error

    async def nothing(*_):
        pass

    guard = middleware.Guard(application, Settings(), Metrics(), Occupancy(1), None)
    scope = {"type": "http", "method": "POST", "path": "/v1/query", "headers": []}
    with capture_logs() as logged:
        await guard(scope, nothing, nothing)
    assert [entry["log_level"] for entry in logged].count("warning") == warnings


@pytest.mark.parametrize("headers", [{}, ARROW])
def test_long_values_stream_in_bounded_memory(shop, headers):
    """DuckDB produces 2,048 rows at a time, which take 410 MB; without a bound it is 2,400 MB."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    received = 0
    sql = "SELECT range, repeat('x', 200000) FROM range(4000)"
    with shop.client.stream("POST", "/v1/query", json={"sql": sql}, headers=headers) as answer:
        for chunk in answer.iter_raw():
            received += len(chunk)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert received > 800_000_000
    assert grown_kib < 700_000
    assert quiet(shop)


def test_a_value_that_is_too_long_is_refused(shop):
    response = shop.post("/v1/query", {"sql": "SELECT repeat('x', 70000000)"})
    assert response.status_code == 413
    assert "are allowed" in response.json()["detail"]
    assert quiet(shop)


def test_a_streamed_answer_is_one_document(shop):
    sql = "SELECT range AS n, 1.5 AS d FROM range(30000)"
    document = shop.post("/v1/query", {"sql": sql}).json()
    assert [row[0] for row in document["rows"]] == list(range(30_000))
    assert document["snapshot"] > 0


def test_an_error_in_the_middle_of_json_ends_the_document(shop):
    response = shop.post("/v1/query", {"sql": BREAKS})
    document = response.json()
    assert response.status_code == 200
    assert "in the middle" in document["error"]["detail"]
    assert "snapshot" not in document


def test_an_error_in_the_middle_of_arrow_cuts_the_connection(shop):
    with pytest.raises(httpx.RemoteProtocolError):
        shop.post("/v1/query", {"sql": BREAKS}, headers=ARROW)
    assert quiet(shop)


@pytest.mark.parametrize("headers", [{}, ARROW])
def test_a_disconnect_stops_the_stream(shop, headers):
    sql = "SELECT a.range, b.range FROM range(100000) a, range(100000) b"
    with shop.client.stream("POST", "/v1/query", json={"sql": sql}, headers=headers) as answer:
        next(answer.iter_raw())
        assert shop.leaks()["readers"] == 1
    assert quiet(shop)


def test_a_disconnect_stops_a_query_before_its_answer(shop):
    with pytest.raises(httpx.ReadTimeout):
        shop.post("/v1/query", {"sql": ENDLESS}, timeout=0.5)
    assert quiet(shop)


@pytest.mark.parametrize("headers", [{}, ARROW])
def test_a_client_that_does_not_read_is_cut_off(shop, monkeypatch, headers):
    monkeypatch.setattr(http_protocol, "STALL_S", 0.5)
    with shop.client.stream("POST", "/v1/query", json={"sql": LARGE}, headers=headers) as answer:
        assert quiet(shop)
        with pytest.raises(httpx.HTTPError):
            for _ in answer.iter_raw():
                pass


def test_a_client_that_reads_slowly_is_not_cut_off(shop, monkeypatch):
    monkeypatch.setattr(http_protocol, "STALL_S", 0.5)
    begun, received = time.monotonic(), 0
    with shop.client.stream("POST", "/v1/query", json={"sql": LARGE}) as answer:
        for chunk in answer.iter_raw(4 << 20):
            received += len(chunk)
            time.sleep(0.2)
    assert received > 30_000_000
    assert time.monotonic() - begun > 1.5


def test_a_stalled_body_times_out(shop, monkeypatch):
    monkeypatch.setattr(middleware, "BODY_S", 0.3)
    routes = (("/v1/query", "application/json"), ("/v1/load/customer", "text/csv"))
    for (path, media_type), begin in itertools.product(routes, (b"", b"{")):
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {media_type}\r\n"
        with socket.create_connection((shop.client.base_url.host, shop.client.base_url.port)) as s:
            s.sendall(head.encode() + b"Content-Length: 100\r\n\r\n" + begin)
            s.settimeout(10)
            answer = b"".join(iter(lambda: s.recv(1 << 16), b""))
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"No more of the body came" in answer
    assert quiet(shop)


def test_too_many_requests_are_refused_with_retry_after(shop):
    def occupy():
        with pytest.raises(httpx.ReadTimeout):
            shop.post("/v1/query", {"sql": ENDLESS}, timeout=1.5)

    threads = [threading.Thread(target=occupy) for _ in range(2)]
    for thread in threads:
        thread.start()
    while shop.leaks()["readers"] < 2:
        time.sleep(0.01)
    response = shop.post("/v1/query", {"sql": "SELECT 1"})
    alive = shop.client.get("/livez")
    for thread in threads:
        thread.join()
    assert response.status_code == 429
    assert response.headers["retry-after"] == "1"
    assert response.json()["code"] == "overloaded"
    assert response.json()["retryable"] is True
    assert alive.status_code == 200
    assert quiet(shop)
    assert shop.rows("SELECT 1") == [[1]]


def test_an_internal_error_is_logged_and_not_disclosed(shop, monkeypatch, capsys):
    def mistaken(*_, **__):
        raise KeyError("secret")

    monkeypatch.setattr(shop.database, "explained", mistaken)
    response = shop.post("/v1/explain", {"sql": "SELECT 1"})
    assert response.status_code == 500
    assert response.headers["content-type"] == "application/problem+json"
    assert "secret" not in response.text
    assert json.loads(response.text)["code"] == "internal"
    assert "secret" in capsys.readouterr().err
