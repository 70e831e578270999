"""Requests that are answered while they are received, next to the complete path."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
import pytest
import uvicorn
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hornbeam_server.api.rest.app import create_app
from hornbeam_server.api.rest.at_once import HEADS, AtOnce
from hornbeam_server.api.rest.http_protocol import BoundedProtocol
from hornbeam_server.node.database import Database
from hornbeam_server.node.settings import Settings
from hornbeam_server.schema.errors import Unavailable
from tests.api.api_world import PLAN, occupied, world
from tests.api.security_world import secure_world
from tests.depth import depth

SQL = "SELECT c_name FROM customer WHERE c_id = ?"
ANN, BOB = [["Ann"]], [["Bob"]]
BASE = "http://localhost"
LIVE = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


def query(parameter: object, *lines: str, sql: str = SQL, host: str = "localhost") -> bytes:
    body = json.dumps({"sql": sql, "parameters": [parameter]}).encode()
    usual = [f"Host: {host}", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join(["POST /v1/query HTTP/1.1", *usual, *lines, "", ""]).encode() + body


class Connection:
    """A connection that sends each request by one call."""

    def __init__(self, served) -> None:
        port = urlsplit(str(served.client.base_url)).port
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._left = b""
        """Bytes of answers that are received and not read yet."""

    def ask(self, request: bytes) -> tuple[int, dict[str, str], dict]:
        self.socket.sendall(request)
        return self.answer()

    def answer(self) -> tuple[int, dict[str, str], dict]:
        while b"\r\n\r\n" not in self._left:
            self._left += self._received()
        head, _, self._left = self._left.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        length = int(headers.get("content-length", "0"))
        while len(self._left) < length:
            self._left += self._received()
        body, self._left = self._left[:length], self._left[length:]
        return int(first.split()[1]), headers, json.loads(body or b"{}")

    def require_silent(self, seconds: float) -> None:
        """Nothing comes, and the connection stays open, for so long."""
        self.socket.settimeout(seconds)
        with pytest.raises(TimeoutError):
            self.socket.recv(1)
        self.socket.settimeout(10)

    def _received(self) -> bytes:
        data = self.socket.recv(65_536)
        if not data:
            raise EOFError
        return data


@contextmanager
def connected(served) -> Iterator[Connection]:
    connection = Connection(served)
    with connection.socket:
        yield connection


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    with world(tmp_path_factory.mktemp("at_once"), max_concurrent_requests=3) as served:
        assert served.apply(**PLAN).status_code == 200
        served.transact("INSERT INTO customer VALUES (1, 'Ann', 1, NULL), (2, 'Bob', 2, NULL)")
        served.rows(SQL, 1)  # plans it
        yield served


@pytest.fixture
def counted(monkeypatch):
    """The answers at once."""
    answers: list[bytes] = []
    answer = AtOnce.answer

    def noted(self, head, body):
        found = answer(self, head, body)
        if found is not None:
            answers.append(found)
        return found

    monkeypatch.setattr(AtOnce, "answer", noted)
    return answers


def test_the_second_request_with_a_head_is_answered_at_once_and_alike(shop, counted):
    with connected(shop) as connection:
        for request in (query(1, "X-Case: alike"), LIVE.replace(b"Host", b"host")):
            status, headers, document = connection.ask(request)
            before = len(counted)
            again = connection.ask(request)
            assert len(counted) == before + 1
            for each in (document, again[2]):
                each.pop("elapsed_ms", None), each.pop("snapshot", None)
            headers.pop("date"), again[1].pop("date")
            headers.pop("content-length"), again[1].pop("content-length")
            assert again == (status, headers, document)
        assert connection.ask(query(2, "X-Case: alike"))[2]["rows"] == BOB
        assert len(counted) == 3


def test_the_time_of_an_answer_at_once_is_measured(shop, counted):
    request = query(1, "X-Case: time")
    with connected(shop) as connection:
        times = [connection.ask(request)[2]["elapsed_ms"] for _ in range(3)]
    assert len(counted) == 2
    assert min(times) > 0


def test_a_head_is_known_on_every_connection(shop, counted):
    request = query(1, "X-Case: all connections")
    for _ in range(3):
        with connected(shop) as connection:
            assert connection.ask(request)[2]["rows"] == ANN
    assert len(counted) == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"Host:", b"Connection: close\r\nHost:"),
        (b"Host:", b"Connection: upgrade\r\nUpgrade: h2c\r\nHost:"),
        (b"Host:", b"Expect: 100-continue\r\nHost:"),
        (b"Host:", b"Transfer-Encoding: chunked\r\nHost:"),
        (b"Host:", b"Transfer-Encoding: identity\r\nHost:"),
        (b"Host:", b"Content-Length: 3\r\nHost:"),
        (b"Content-Length:", b"Content-Length: 3\r\nContent-Length:"),
        (b"Host:", b"X-A: 1\r\nX-A: 2\r\nHost:"),
        (b"Host: localhost", b"X-Host: a"),
        (b"Host:", b"X-A: 1\r\n folded\r\nHost:"),
        (b"Host:", b"X-A: \xe9\r\nHost:"),
        (b"Host:", b"X-A: a\x01b\r\nHost:"),
        (b"Host:", b"X-A : 1\r\nHost:"),
        (b"\r\nHost:", b"\nHost:"),
        (b"\r\nHost:", b"\rHost:"),
        (b"/v1/query", b"http://localhost/v1/query"),
        (b"/v1/query", b"/v1/query?a=1"),
        (b"/v1/query", b"/v1/%71uery"),
        (b"/v1/query", b"//v1/query"),
        (b"/v1/query ", b"/v1/query  "),
        (b"HTTP/1.1", b"HTTP/1.0"),
        (b"POST", b"PUT"),
        (b"POST", b"\r\nPOST"),
        (b"application/json", b"text/plain"),
        (b"application/json", b"application/json\r\nContent-Encoding: gzip"),
        (b"application/json", b"application/json\r\nAccept: application/vnd.apache.arrow.stream"),
        (b"application/json", b"application/json\r\nOrigin: http://evil.example"),
        (b"application/json", b"application/json\r\nSec-Fetch-Site: cross-site"),
        (b"Host: localhost", b"Host: evil.example"),
        (b"Host:", b"X-Filler: " + b"a" * 2_048 + b"\r\nHost:"),
    ],
)
def test_unusual_requests_take_the_complete_path(shop, counted, old, new):
    request = query(1)
    assert old in request
    for _ in range(3):
        with connected(shop) as connection:
            connection.socket.sendall(request.replace(old, new, 1))
            connection.socket.shutdown(socket.SHUT_WR)
            while connection.socket.recv(65_536):
                pass
    assert not counted


def test_several_requests_in_one_piece_are_all_answered_in_order(shop, counted):
    with connected(shop) as connection:
        first, second = query(1, "X-Case: pipe"), query(2, "X-Case: pipe")
        connection.ask(first)
        for _ in range(2):
            connection.socket.sendall(first + second + LIVE)
            answers = [connection.answer()[2] for _ in range(3)]
            assert [a.get("rows") for a in answers] == [ANN, BOB, None]
        assert not counted


def test_a_request_in_pieces_takes_the_complete_path_from_its_first_byte(shop, counted):
    request = query(1, "X-Case: pieces")
    with connected(shop) as connection:
        connection.ask(request)
        connection.ask(request)
        del counted[:]
        for cut in (1, 20, request.index(b"{"), len(request) - 1):
            connection.socket.sendall(request[:cut])
            connection.require_silent(0.05)
            assert connection.ask(request[cut:])[2]["rows"] == ANN
            assert not counted
        assert connection.ask(request)[2]["rows"] == ANN
        assert len(counted) == 1


def test_a_request_behind_one_under_way_waits_for_its_answer(shop, counted):
    slow = query(1, sql="SELECT count(*) FROM customer a, customer b WHERE a.c_id >= ?")
    with connected(shop) as connection:
        connection.ask(LIVE), connection.ask(LIVE)
        del counted[:]
        connection.socket.sendall(slow)
        connection.socket.sendall(LIVE)
        assert connection.answer()[2]["rows"]
        assert connection.answer()[2] == {"status": "live"}
        assert not counted


def test_a_query_that_is_not_short_is_declined_once(shop, counted):
    request = query(1, sql="SELECT count(*) FROM customer WHERE c_id > ?")
    with connected(shop) as connection:
        for _ in range(3):
            assert connection.ask(request)[2]["rows"] == [[1]]
    assert not counted


def test_an_error_is_reported_by_the_complete_path(shop, counted, monkeypatch):
    request = query(1, "X-Case: error")
    with connected(shop) as connection:
        connection.ask(request), connection.ask(request)
        broken = RuntimeError("a bug")

        def directly(*_, **__):
            raise broken

        with monkeypatch.context() as patch:
            patch.setattr(shop.database, "directly", directly)
            assert connection.ask(request)[0] == 500
            broken = Unavailable("It is away.", cure="Wait.")
            assert connection.ask(request)[0] == 200
        assert connection.ask(request)[2]["rows"] == ANN
    assert len(counted) == 2


def test_limits_hold(shop, counted):
    request = query(1, "X-Case: limits")
    with connected(shop) as connection:
        connection.ask(request), connection.ask(LIVE)
        with occupied(shop, shop.app.state.at_once._inside):
            del counted[:]
            assert connection.ask(request)[0] == 429
            assert not counted
            assert connection.ask(LIVE)[0] == 200
        assert connection.ask(request)[0] == 200
    assert len(counted) == 2


def test_answers_at_once_count_in_the_metrics(shop, counted):
    request = query(1, "X-Case: metrics")
    wanted = (
        'hornbeam_request_seconds_count{method="POST",route="/v1/query",status="200"}',
        "hornbeam_query_seconds_count",
    )

    def counts():
        lines = shop.client.get("/metrics").text.splitlines()
        return [float(line.split()[-1]) for line in lines if line.startswith(wanted)]

    with connected(shop) as connection:
        connection.ask(request)
        before = counts()
        connection.ask(request)
        assert counts() == [count + 1 for count in before]
    assert len(counted) == 1


def test_few_heads_are_remembered(shop):
    known = shop.app.state.at_once
    with connected(shop) as connection:
        for number in range(HEADS + 10):
            connection.ask(LIVE.replace(b"\r\n\r\n", b"\r\nX-Number: %d\r\n\r\n" % number))
            assert len(known._heads) <= HEADS
        assert 0 < len(known._heads) < HEADS


def test_a_connection_closes_when_it_is_idle_after_its_last_answer(shop, counted, monkeypatch):
    begun = BoundedProtocol.__init__

    def hurried(self, *args, **kwargs):
        begun(self, *args, **kwargs)
        self.timeout_keep_alive = 0.6

    monkeypatch.setattr(BoundedProtocol, "__init__", hurried)
    with connected(shop) as connection:
        connection.ask(LIVE)
        for _ in range(6):  # longer than the limit in all
            connection.require_silent(0.2)
            assert connection.ask(LIVE)[0] == 200
        connection.socket.settimeout(5)
        assert connection.socket.recv(1) == b""
    assert len(counted) >= 6


def test_a_connection_may_begin_with_a_known_head_and_stay_open(shop, counted, monkeypatch):
    monkeypatch.setattr("hornbeam_server.api.rest.http_protocol.HEAD_S", 0.3)
    with connected(shop) as connection:
        connection.ask(LIVE)
    del counted[:]
    with connected(shop) as connection:
        connection.ask(LIVE)
        connection.require_silent(0.8)
        assert connection.ask(LIVE)[0] == 200
    assert len(counted) == 2


# ---------------------------------------------------------------- keys


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    folder = tmp_path_factory.mktemp("at_once_keys")
    with secure_world(folder, max_concurrent_requests_per_key=2, key_refresh_s=60) as served:
        served.query(served.root, SQL, 1)
        yield served


def with_key(key: str) -> bytes:
    return query(1, f"Authorization: Bearer {key}")


def test_a_revoked_key_is_refused_at_once(secure, counted):
    key = secure.made("reader")
    with connected(secure.world) as connection:
        assert [connection.ask(with_key(key))[0] for _ in range(2)] == [200, 200]
        assert len(counted) == 1
        assert secure.revoke(key).status_code == 200
        assert connection.ask(with_key(key))[0] == 401
    assert len(counted) == 1


def test_keys_with_grants_and_unknown_keys_take_the_complete_path(secure, counted):
    granted = secure.made("reader", {"orders": "read"})
    unknown = f"hb_{'0' * 12}_{'0' * 64}"
    with connected(secure.world) as connection:
        for _ in range(3):
            assert connection.ask(with_key(granted))[0] == 403
            assert connection.ask(with_key(unknown))[0] == 401
            assert connection.ask(query(1))[0] == 401
    assert not counted


def test_the_limit_of_a_key_holds(secure, counted):
    key = secure.made("reader")
    with connected(secure.world) as connection:
        connection.ask(with_key(key))
        inside = secure.world.app.state.at_once._inside_by_key
        with occupied(secure.world, inside, key.split("_")[1]):
            assert connection.ask(with_key(key))[0] == 429
        assert not counted
        assert connection.ask(with_key(key))[0] == 200
    assert len(counted) == 1


# ---------------------------------------------------------------- any bytes


MOVING = rb'"elapsed_ms":[0-9.e-]+|content-length: \d+|"snapshot":\d+'


class Received:
    """A transport that keeps the bytes of a server."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.data += data

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.is_closed

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, _: str) -> None:
        return None

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


async def exchanged(config: uvicorn.Config, known: AtOnce | None, pieces: list[bytes]) -> bytes:
    """The bytes with which a server answers the pieces."""
    server = uvicorn.server.ServerState()
    protocol, transport = BoundedProtocol(config, server, {}), Received()
    protocol._at_once = known
    protocol.connection_made(transport)
    for piece in pieces:
        if not transport.is_closed:
            protocol.data_received(piece)
        while server.tasks and not protocol.cycle.more_body:
            await asyncio.wait(server.tasks)
    protocol.connection_lost(None)
    if server.tasks:
        await asyncio.wait(server.tasks)
    moving = re.sub(MOVING, b"", transport.data)
    return moving + (b" closed" if transport.is_closed else b" open")


BASES = [
    LIVE,
    query(1),
    query(2),
    query("x"),
    LIVE.replace(b"livez", b"readyz"),
    query(1, "Connection: keep-alive"),
]
REPLACED = [b"", b"\r\n", b"\n", b" ", b"\r", b":", b"0", b"9", b"\0", b"\r\n ", b"HEAD", LIVE]
REPLACED += [b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n"]


@st.composite
def damaged(draw) -> bytes:
    request = draw(st.sampled_from(BASES))
    start = draw(st.integers(0, len(request)))
    end = min(len(request), start + draw(st.integers(0, 12)))
    return request[:start] + draw(st.sampled_from(REPLACED)) + request[end:]


@st.composite
def conversations(draw) -> list[bytes]:
    """Requests, some of them damaged, cut into pieces or sent together."""
    requests = draw(st.lists(st.one_of(st.sampled_from(BASES), damaged()), min_size=1, max_size=8))
    pieces: list[bytes] = []
    for request in requests:
        form = draw(st.sampled_from(["whole", "whole", "cut", "behind"]))
        if form == "behind" and pieces:
            pieces[-1] += request
        elif form == "cut":
            at = draw(st.integers(0, len(request)))
            pieces += [request[:at], request[at:]]
        else:
            pieces.append(request)
    return [piece for piece in pieces if piece]


async def prepared(app) -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE) as client:
        plan = (await client.post("/v1/schema/plan", json=PLAN)).json()
        apply = PLAN | {"plan_id": plan["plan_id"]}
        insert = {"statements": [{"sql": "INSERT INTO customer (c_id, c_name) VALUES (1, 'Ann')"}]}
        read = {"sql": SQL, "parameters": [1]}
        for path, body in (("schema/apply", apply), ("transactions", insert), ("query", read)):
            assert (await client.post(f"/v1/{path}", json=body)).is_success


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    """A loop, and the application in it."""
    with asyncio.Runner() as loop:
        given = Settings(data=tmp_path_factory.mktemp("law"))
        database = loop.run(Database.open(given))
        app = create_app(given, database)
        loop.run(prepared(app))
        config = uvicorn.Config(app, log_level="critical", lifespan="off")
        config.load()
        yield loop, config, app.state.at_once
        loop.run(database.close())


@settings(
    max_examples=depth(100, long=300),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(conversations())
@example([LIVE, LIVE, LIVE.replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\n") + b"GET /", LIVE])
def test_any_conversation_is_answered_as_by_the_complete_path(runner, pieces):
    loop, config, known = runner
    assert loop.run(exchanged(config, known, pieces)) == loop.run(exchanged(config, None, pieces))
