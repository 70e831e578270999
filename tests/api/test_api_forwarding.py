"""Requests that a node sends on to the leader."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from hornbeam_server.api.rest import forwarding, problems
from hornbeam_server.api.rest.forwarding import Forwarding
from hornbeam_server.cluster.ports import free_ports
from hornbeam_server.node.node import Serving
from hornbeam_server.node.settings import Settings
from hornbeam_server.schema.errors import Unavailable
from tests.txlayer.database_world import until

PLAN = {"ddl": "CREATE TABLE t (a BIGINT PRIMARY KEY)"}


@dataclass
class Leader:
    """A server that notes requests and gives one answer."""

    status: int = 201
    catalog: str = ""
    """The header with the version of the catalog, if any."""
    complete: bool = True
    """Whether it sends the whole body of its answer."""
    seen: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    url: str = ""


@pytest.fixture
def leader() -> Iterator[Leader]:
    known = Leader()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            known.seen.append((self.command, self.path, headers, body))
            answer = b'{"answered":"by the leader"}'
            self.send_response(known.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Hornbeam-Noted", "kept")
            if known.catalog:
                self.send_header("Hornbeam-Catalog", known.catalog)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer if known.complete else answer[:3])

        do_DELETE = do_GET = do_POST

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    known.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield known
    server.shutdown()
    thread.join()
    server.server_close()


def refusing(leader: str, *, reads: bool = True) -> ASGIApp:
    """An application that cannot carry out any request itself."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while reads and (await receive()).get("more_body"):
            pass
        error = Unavailable(
            "The catalog can be changed at the leader.", standby=True, leader=leader
        )
        await problems.response(error)(scope, receive, send)

    return app


class Database:
    """A node's database, of which only the version of the catalog counts."""

    def __init__(self, version: int = 1) -> None:
        self.catalog = self
        self.version = version


def layer_over(app: ASGIApp, database: Database | None = None) -> Forwarding:
    serving = Serving(database or Database())  # type: ignore[arg-type]
    return Forwarding(app, serving, Settings(store="hbase"))


async def asked(
    app: ASGIApp,
    method: str = "POST",
    path: str = "/v1/schema/apply",
    *,
    database: Database | None = None,
    **more: Any,
):
    layer = layer_over(app, database)
    transport = httpx.ASGITransport(layer)
    async with httpx.AsyncClient(transport=transport, base_url="http://follower") as client:
        return await client.request(method, path, **more)


async def test_the_leader_gets_the_request_and_the_client_its_answer(leader):
    headers = {"Authorization": "Bearer hb_a_b", "Hornbeam-Key": "k", "Origin": "http://follower"}
    answer = await asked(
        refusing(leader.url), path="/v1/schema/apply?x=%2F&y=1", json=PLAN, headers=headers
    )
    assert (answer.status_code, answer.json()) == (201, {"answered": "by the leader"})
    assert answer.headers["hornbeam-noted"] == "kept"
    ((method, path, sent, body),) = leader.seen
    assert (method, path) == ("POST", "/v1/schema/apply?x=%2F&y=1")
    assert json.loads(body) == PLAN
    assert sent["authorization"] == "Bearer hb_a_b"
    assert sent["hornbeam-key"] == "k"
    assert sent["host"] == leader.url.removeprefix("http://")
    assert "origin" not in sent


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_requests_without_a_body_are_sent_on(leader, method):
    answer = await asked(refusing(leader.url), method, "/v1/builds/7")
    assert answer.status_code == 201
    assert leader.seen[0][:2] == (method, "/v1/builds/7")


async def test_the_leaders_refusal_is_the_answer(leader):
    leader.status = 409
    answer = await asked(refusing(leader.url), json=PLAN)
    assert (answer.status_code, answer.json()) == (409, {"answered": "by the leader"})


async def test_the_answer_waits_until_this_node_uses_the_catalog_of_the_leader(leader):
    """Else the client's next request here would not find the relation that it has created."""
    leader.catalog, database = "7", Database(5)
    task = asyncio.ensure_future(asked(refusing(leader.url), json=PLAN, database=database))
    await until(lambda: leader.seen)
    database.version = 6
    assert not (await asyncio.wait([task], timeout=0.3))[0]
    database.version = 7
    assert (await asyncio.wait_for(task, 5)).status_code == 201


async def test_a_node_that_does_not_follow_passes_the_answer_on(leader, monkeypatch):
    monkeypatch.setattr(forwarding, "CATALOG_S", 0.05)
    leader.catalog = "7"
    assert (await asked(refusing(leader.url), json=PLAN)).status_code == 201


async def test_the_leader_says_its_catalog_to_the_node_that_asks():
    async def app(scope, receive, send):
        await Response("done")(scope, receive, send)

    forwarded = await asked(app, headers={"Hornbeam-Forwarded": "yes"}, database=Database(9))
    assert forwarded.headers["hornbeam-catalog"] == "9"
    assert "hornbeam-catalog" not in (await asked(app, database=Database(9))).headers


async def test_a_request_is_sent_on_once(leader):
    """Two nodes may each take the other for the leader for a moment."""
    answer = await asked(refusing(leader.url), json=PLAN, headers={"Hornbeam-Forwarded": "yes"})
    assert answer.status_code == 503
    assert answer.headers["hornbeam-leader"] == leader.url
    await asked(refusing(leader.url), json=PLAN)
    assert [request[2].get("hornbeam-forwarded") for request in leader.seen] == ["yes"]


async def test_a_leader_that_cannot_be_reached_leaves_the_refusal():
    (port,) = free_ports(1)
    answer = await asked(refusing(f"http://127.0.0.1:{port}"), json=PLAN)
    assert (answer.status_code, answer.json()["standby"]) == (503, True)


async def test_a_lost_answer_of_the_leader_is_an_unknown_outcome(leader):
    leader.complete = False
    answer = await asked(refusing(leader.url), json=PLAN)
    assert (answer.status_code, answer.json()["code"]) == (504, "outcome-unknown")


async def test_an_unknown_leader_leaves_the_refusal(leader):
    answer = await asked(refusing(""), json=PLAN)
    assert (answer.status_code, answer.json()["standby"]) == (503, True)
    assert "hornbeam-leader" not in answer.headers


@pytest.mark.parametrize(
    "path", ["/v1/query", "/v1/transactions", "/v1/load", "/v1/load/shop.item", "/v1/puts"]
)
async def test_what_every_node_serves_is_not_sent_on(leader, path):
    answer = await asked(refusing(leader.url), path=path, json=PLAN)
    assert answer.status_code == 503
    assert not leader.seen


async def test_an_initial_load_is_begun_at_the_leader(leader):
    assert (await asked(refusing(leader.url), path="/v1/loads", json={})).status_code == 201


async def test_certificates_are_read_when_they_are_needed(tmp_path):
    """A renewed certificate counts without a restart. A damaged one is reported."""
    (port,) = free_ports(1)
    settings = Settings(store="hbase", tls_certificate=tmp_path / "c.pem", node_ca=tmp_path / "a")
    layer = Forwarding(refusing(f"https://127.0.0.1:{port}"), Serving(), settings)
    transport = httpx.ASGITransport(layer)
    async with httpx.AsyncClient(transport=transport, base_url="http://follower") as client:
        answer = await client.post("/v1/schema/apply", json=PLAN)
    assert answer.status_code == 422
    assert "certificates of the settings cannot be used" in answer.json()["detail"]


async def test_a_body_too_long_to_keep_is_not_sent_on(leader, monkeypatch):
    monkeypatch.setattr(forwarding, "MAX_BYTES", 1000)
    answer = await asked(refusing(leader.url), content=b"x" * 1001)
    assert answer.status_code == 503
    assert not leader.seen
    assert (await asked(refusing(leader.url), content=b"x" * 1000)).status_code == 201


async def test_a_body_that_the_route_has_not_read_is_not_sent_on_in_part(leader):
    answer = await asked(refusing(leader.url, reads=False), content=b"x" * 100)
    assert (answer.status_code, len(leader.seen)) == (201, 1)
    assert leader.seen[0][3] == b"x" * 100


async def test_a_body_whose_client_has_gone_is_not_sent_on(leader):
    """The part that has come may be valid by itself."""
    messages = [
        {"type": "http.request", "body": b"DELETE FROM t;", "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent: list[Any] = []

    async def receive():
        return messages.pop(0)

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/schema/alter", "headers": []}
    scope |= {"raw_path": b"/v1/schema/alter", "query_string": b""}
    layer = layer_over(refusing(leader.url, reads=False))
    await layer(scope, receive, send)
    assert sent[0]["status"] == 503
    assert not leader.seen
