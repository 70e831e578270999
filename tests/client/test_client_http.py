"""Connections to a node: reused, found closed, closed too early."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
import uvloop

from hornbeam import DatabaseError, OperationalError
from hornbeam.aio.http import AsyncHttp
from hornbeam.embedded import LoopThread
from hornbeam.exchange import Answer, CutShort, Lost, NotSent, Request
from hornbeam.http import Http
from hornbeam.transport import Transport
from tests.api.certificates import Authority

GET = Request("GET", "/", {})
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nName: value\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
Served = Callable[[socket.socket], None]


class Node:
    """A server that runs the next of `scripts` for each connection, each in its own thread."""

    def __init__(self, *scripts: Served) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.connections = 0
        self._scripts = iter(scripts)
        self._listening.settimeout(10)
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        for script in self._scripts:
            connection, _ = self._listening.accept()
            self.connections += 1
            serving = threading.Thread(target=self._serve, args=(script, connection), daemon=True)
            self._threads.append(serving)
            serving.start()

    def _serve(self, script: Served, connection: socket.socket) -> None:
        with connection:
            script(connection)

    def wait_for(self, script: int) -> None:
        """Wait until a script, counted from 1, has ended and its connection is closed."""
        self._threads[script].join(10)

    def close(self) -> None:
        for thread in self._threads:
            thread.join(10)
        self._listening.close()


def answers(*texts: bytes) -> Served:
    """A script that sends one text per request and then closes the connection."""

    def serve(connection: socket.socket) -> None:
        for text in texts:
            assert received(connection)
            connection.sendall(text)

    return serve


def received(connection: socket.socket) -> bytes:
    """Read a request without a body; return b"" when the client has closed the connection."""
    text = b""
    while not text.endswith(b"\r\n\r\n"):
        piece = connection.recv(4096)
        if not piece:
            return b""
        text += piece
    return text


class OnLoop:
    """The carrier of event loops, in a loop of its own, for tests that block."""

    new_loop = staticmethod(asyncio.new_event_loop)

    def __init__(self, address: str, **options: Any) -> None:
        self._loop = LoopThread("test", self.new_loop())
        self._http = AsyncHttp(address, **options)

    def send(self, request: Request) -> Answer:
        answer = self._loop.run(self._http.send(request))
        return Answer(
            answer.status,
            answer.headers,
            self._pieces(aiter(answer.pieces)),
            lambda: self._loop.run(answer.close()),
        )

    def _pieces(self, pieces: AsyncIterator[bytes]) -> Iterator[bytes]:
        async def following() -> bytes | None:
            return await anext(pieces, None)

        while (piece := self._loop.run(following())) is not None:
            yield piece

    def close(self) -> None:
        self._loop.run(self._http.close())
        self._loop.close()


class OnUvloop(OnLoop):
    """The same in the loop that most servers use."""

    new_loop = staticmethod(uvloop.new_event_loop)


HttpTo = Callable[..., Any]


@pytest.fixture(params=[Http, OnLoop, OnUvloop])
def carrier(request: pytest.FixtureRequest) -> Any:
    """The class of a carrier over HTTP."""
    return request.param


@pytest.fixture
def http_to(carrier: Any) -> HttpTo:
    """A function that opens a carrier to a node with the scripts given, and yields both."""

    @contextmanager
    def opened(*scripts: Served, timeout_s: float = 5) -> Iterator[tuple[Any, Node]]:
        node = Node(*scripts)
        http = carrier(node.address, connect_timeout_s=5, timeout_s=timeout_s)
        with closing(node), closing(http):
            yield http, node

    return opened


@pytest.mark.parametrize(("status", "outcome"), [(404, "none"), (500, "unknown"), (502, "unknown")])
def test_a_server_error_without_a_problem_document_has_an_unknown_outcome(http_to, status, outcome):
    answer = f"HTTP/1.1 {status} Oh\r\nContent-Length: 3\r\n\r\nBad".encode()
    with http_to(answers(answer)) as (http, node):
        transport = Transport(http, node.address)
        with pytest.raises(DatabaseError) as failed:
            transport.text("/v1/transactions")
        assert failed.value.outcome == outcome


def test_a_connection_serves_many_requests(http_to):
    with http_to(answers(OK, OK, OK)) as (http, node):
        for _ in range(3):
            answer = http.send(GET)
            assert (answer.status, answer.headers["name"], answer.read()) == (200, "value", b"ok")
            assert answer.read() == b"ok"
        assert node.connections == 1


def test_a_connection_closed_by_the_node_is_replaced(http_to):
    with http_to(answers(OK), answers(OK)) as (http, node):
        assert http.send(GET).read() == b"ok"
        node._threads[1].join(10)  # the node has closed the connection
        assert http.send(GET).read() == b"ok"
        assert node.connections == 2


def test_a_connection_is_not_reused_after_connection_close(http_to):
    closing_answer = OK.replace(b"Name: value", b"Connection: close")
    with http_to(answers(closing_answer), answers(OK)) as (http, node):
        for _ in range(2):
            assert http.send(GET).read() == b"ok"
        assert node.connections == 2


def test_a_request_during_a_stream_uses_another_connection(http_to):
    going_on = threading.Event()

    def stream(connection: socket.socket) -> None:
        received(connection)
        connection.sendall(CHUNKED + b"2\r\na\n\r\n")
        assert going_on.wait(10)
        connection.sendall(b"1\r\nb\r\n0\r\n\r\n")

    with http_to(stream, answers(OK)) as (http, node):
        lines = http.send(GET).lines()
        assert next(lines) == "a"
        assert http.send(GET).read() == b"ok"
        going_on.set()
        assert list(lines) == ["b"]
        assert node.connections == 2


def test_closing_an_unfinished_answer_closes_its_connection(http_to):
    ended = []

    def stream(connection: socket.socket) -> None:
        received(connection)
        connection.sendall(CHUNKED + b"1\r\na\r\n")
        ended.append(received(connection))

    with http_to(stream, answers(OK)) as (http, node):
        http.send(GET).close()
        assert http.send(GET).read() == b"ok"
        assert node.connections == 2
    assert ended == [b""]


def test_closing_an_unread_answer_that_has_arrived_does_not_lose_its_connection(http_to):
    going_on, sent = threading.Event(), threading.Event()
    ended = threading.Event()

    def stream(connection: socket.socket) -> None:
        received(connection)
        connection.sendall(OK[:-2])
        assert going_on.wait(10)
        connection.sendall(OK[-2:])
        sent.set()
        with contextlib.suppress(ConnectionResetError):  # a socket with unread data is reset
            assert received(connection) == b""
        ended.set()

    with http_to(stream, answers(OK)) as (http, _):
        answer = http.send(GET)
        going_on.set()
        assert sent.wait(10)
        assert http.send(GET).read() == b"ok"  # behind it, a loop has taken the other body, too
        answer.close()
    assert ended.is_set()


def test_a_reader_that_stops_after_the_end_has_arrived_leaves_the_connection(http_to):
    """A reader of Arrow streams stops at their own end, in front of that of the answer."""
    going_on = threading.Event()

    def stream(connection: socket.socket) -> None:
        received(connection)
        connection.sendall(CHUNKED + b"1\r\na\r\n")
        assert going_on.wait(10)
        connection.sendall(b"1\r\nb\r\n0\r\n\r\n")
        answers(OK)(connection)

    with http_to(stream) as (http, node):
        answer = http.send(GET)
        pieces = iter(answer.pieces)
        assert next(pieces) == b"a"
        going_on.set()
        assert next(pieces) == b"b"
        answer.close()
        assert http.send(GET).read() == b"ok"
        assert node.connections == 1


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"Good morning\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok",
        CHUNKED + b"2\r\nok\r\n",
        CHUNKED + b"5\r\nok",
        CHUNKED + b"none\r\nok",
    ],
)
def test_an_answer_that_is_cut_off_is_lost(http_to, text):
    with http_to(answers(text), answers(OK)) as (http, node):
        with pytest.raises(Lost):
            http.send(GET).read()
        assert http.send(GET).read() == b"ok"
        assert node.connections == 2


@pytest.mark.parametrize(
    "text", [b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok", CHUNKED + b"2\r\nok\r\n"]
)
def test_an_answer_that_is_cut_off_is_distinct_from_a_missing_one(http_to, text):
    with http_to(answers(text)) as (http, _):
        pieces = []
        with pytest.raises(CutShort, match="after 2 bytes: the node has"):
            pieces.extend(http.send(GET).pieces)
        assert pieces == [b"ok"]
    with http_to(answers(text)) as (http, _):
        transport = Transport(http, "here")
        with pytest.raises(OperationalError, match="at here has not ended its answer: after 2"):
            transport.json("GET", "/")


def test_an_answer_that_times_out_is_lost(http_to):
    over = threading.Event()
    with http_to(lambda _: over.wait(10), timeout_s=0.05) as (http, _):
        with pytest.raises(Lost, match="timed out"):
            http.send(GET)
        over.set()


def test_without_a_connection_nothing_is_sent(carrier):
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    http = carrier(f"http://127.0.0.1:{port}", connect_timeout_s=5, timeout_s=5)
    with closing(http), pytest.raises(NotSent, match="refused"):
        http.send(GET)


def test_a_handshake_that_fails_has_sent_nothing(carrier):
    """The node does not use TLS."""
    node = Node(lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    address = node.address.replace("http:", "https:")
    http = carrier(address, connect_timeout_s=5, timeout_s=5, tls=ssl.create_default_context())
    with closing(node), closing(http), pytest.raises(NotSent):
        http.send(GET)


@pytest.mark.parametrize("late", [False, True])
def test_bytes_behind_an_answer_are_not_read_as_the_next_one(http_to, late):
    answered = threading.Event()

    def serve(connection: socket.socket) -> None:
        received(connection)
        connection.sendall(OK if late else OK + OK.replace(b"ok", b"no"))
        if late:
            assert answered.wait(10)
            connection.sendall(OK.replace(b"ok", b"no"))
            answered.clear()

    with http_to(serve, answers(OK)) as (http, node):
        assert http.send(GET).read() == b"ok"
        answered.set()
        while late and answered.is_set():
            pass
        assert http.send(GET).read() == b"ok"
        assert node.connections == 2


def test_an_answer_that_arrives_byte_by_byte_is_whole(http_to):
    def serve(connection: socket.socket) -> None:
        received(connection)
        for place in range(len(text)):
            connection.sendall(text[place : place + 1])

    text = b"HTTP/1.1 100 Continue\r\n\r\n" + CHUNKED + b"2\r\nok\r\n0\r\nA: b\r\n\r\n"
    with http_to(serve) as (http, _):
        assert http.send(GET).read() == b"ok"


@pytest.mark.parametrize("text", [b"A" * 100_000, b"HTTP/1.1 200 OK\r\nA: " + b"b" * 100_000])
def test_a_head_without_an_end_is_lost(http_to, text):
    with http_to(answers(text)) as (http, _), pytest.raises(Lost, match=r"too long|not HTTP"):
        http.send(GET)


def test_a_node_that_stops_in_a_body_is_given_up(http_to):
    over = threading.Event()

    def serve(connection: socket.socket) -> None:
        received(connection)
        connection.sendall(OK[:-1])
        over.wait(10)

    with http_to(serve, timeout_s=1) as (http, _):  # the head comes within this time
        with pytest.raises(CutShort, match="after 1 bytes: timed out"):
            http.send(GET).read()
        over.set()


def test_an_interrupted_request_leaves_no_answer_behind(http_to):
    """The answer to the interrupted request must not be that of the next one."""

    def serve(connection: socket.socket) -> None:
        received(connection)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        over.wait(10)
        with contextlib.suppress(OSError):
            connection.sendall(OK.replace(b"ok", b"no"))

    over = threading.Event()
    with http_to(serve, answers(OK)) as (http, node):
        with pytest.raises(KeyboardInterrupt):
            http.send(GET)
        over.set()
        assert http.send(GET).read() == b"ok"
        assert node.connections == 2


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.mark.parametrize(("name", "accepted"), [("IP:127.0.0.1", True), ("DNS:other", False)])
def test_requests_go_over_tls_to_the_node_that_the_certificate_names(
    carrier, authority, name, accepted
):
    certificate, key = authority.signed(name.partition(":")[2], name)
    of_node = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    of_node.load_cert_chain(certificate, key)
    large = b"x" * 300_000

    def serve(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), of_node.wrap_socket(connection, server_side=True) as tls:
            for body in (b"ok", large, b"ok"):
                received(tls)
                tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    node = Node(serve)
    address = node.address.replace("http:", "https:")
    tls = ssl.create_default_context(cafile=str(authority.certificate))
    http = carrier(address, connect_timeout_s=5, timeout_s=5, tls=tls)
    with closing(node), closing(http):
        if not accepted:
            with pytest.raises(NotSent, match="certificate"):
                http.send(GET)
            return
        assert [http.send(GET).read() for _ in range(3)] == [b"ok", large, b"ok"]
        assert node.connections == 1


def test_a_slow_reader_stops_a_fast_node(http_to):
    """The answer does not gather in memory while its reader takes nothing."""
    sent = 0

    def serve(connection: socket.socket) -> None:
        nonlocal sent
        received(connection)
        connection.sendall(CHUNKED)
        with contextlib.suppress(OSError):
            while sent < 1 << 28:
                connection.sendall(b"%x\r\n%b\r\n" % (1 << 16, b"x" * (1 << 16)))
                sent += 1 << 16

    with http_to(serve) as (http, _):
        answer = http.send(GET)
        pieces = iter(answer.pieces)
        assert next(pieces)
        before = -1
        while before != sent:
            before = sent
            time.sleep(0.2)
        answer.close()
    assert sent < 1 << 26
