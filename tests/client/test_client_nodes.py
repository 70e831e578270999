"""A client of several nodes, of which one serves."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import hornbeam
from hornbeam import aio
from hornbeam.exchange import Answer, Request
from hornbeam.nodes import Nodes
from hornbeam.transport import Transport
from tests.client.client_world import apply, served

STANDBY = {"detail": "This node stands by.", "code": "unavailable", "retryable": True,
           "outcome": "none", "standby": True}  # fmt: skip


@contextmanager
def standing_by() -> Iterator[tuple[str, list[str]]]:
    """A node on standby: yields its address, and the list of requested paths."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            body = json.dumps(STANDBY).encode()
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(503)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def nowhere() -> str:
    """Return an address where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


def test_the_client_finds_the_serving_node_and_stays_with_it(tmp_path):
    with served(tmp_path) as url, standing_by() as (standby, asked):
        apply(url)
        serving = url.removeprefix("hornbeam://")
        with hornbeam.connect(f"hornbeam://{standby}?also={nowhere()},{serving}") as db:
            db.ping()
            rows = db.cursor().execute("SELECT count(*) FROM book").fetchall()
            assert rows == [(0,)]
            assert asked == ["/livez"]
            stream = db.cursor()
            stream.execute("SELECT b_id FROM book")
            assert stream.fetchall() == []
        assert asked == ["/livez"]


async def test_an_event_loop_finds_the_serving_node_too(tmp_path):
    with served(tmp_path) as url, standing_by() as (standby, asked):
        await asyncio.to_thread(apply, url)
        serving = url.removeprefix("hornbeam://")
        async with aio.connect(f"hornbeam://{nowhere()}?also={standby},{serving}") as db:
            await db.ping()
            cursor = await db.cursor().execute("SELECT count(*) FROM book")
            assert await cursor.fetchall() == [(0,)]
            assert asked == ["/livez"]
        async with aio.connect(f"hornbeam://{nowhere()}?also={nowhere()}") as db:
            with pytest.raises(hornbeam.OperationalError, match="does not answer") as failed:
                await db.ping()
            assert (failed.value.code, failed.value.outcome) == ("unreachable", "none")


def test_a_transaction_waits_until_a_node_serves(tmp_path):
    with standing_by() as (standby, asked):
        url = f"hornbeam://{standby}?also={(late := nowhere())}"
        done: list[int] = []

        def write() -> None:
            with hornbeam.connect(url, autocommit=True) as db:
                db.cursor().execute("INSERT INTO author (a_id, a_name) VALUES (1, 'ann')")
                done.append(1)

        with served(tmp_path) as first:
            apply(first)
        writer = threading.Thread(target=write)
        writer.start()
        time.sleep(0.3)
        assert len(asked) > 1
        assert not done
        with served(tmp_path, port=int(late.split(":")[1])):
            writer.join(20)
        assert done


def test_a_frozen_node_is_skipped(tmp_path):
    """The kernel of a frozen node still accepts connections, but no process reads from them."""
    with served(tmp_path) as url, socket.create_server(("127.0.0.1", 0)) as frozen:
        apply(url)
        first = f"127.0.0.1:{frozen.getsockname()[1]}"
        with hornbeam.connect(
            f"hornbeam://{first}?also={url.removeprefix('hornbeam://')}",
            autocommit=True,
            timeout_s=0.5,
        ) as db:
            db.cursor().execute("INSERT INTO author (a_id, a_name) VALUES (1, 'ann')")
            assert db.cursor().execute("SELECT a_id FROM author").fetchall() == [(1,)]


def test_after_an_answer_of_a_lagging_node_the_next_node_is_used(tmp_path):
    asked: list[str] = []

    class Node:
        def __init__(self, name: str, headers: dict[str, str]) -> None:
            self.name, self.headers = name, headers

        def send(self, request: Request) -> Answer:
            asked.append(self.name)
            return Answer(200, self.headers, [b"{}"])

    nodes = Nodes([Node("lost", {"hornbeam-behind-s": "2.5"}), Node("found", {})])
    transport = Transport(nodes, "here")
    behind = []
    for _ in range(3):
        transport.json("GET", "/v1/schema")
        behind.append(transport.behind_s)
    assert asked == ["lost", "found", "found"]
    assert behind == [2.5, 0, 0]


def test_an_error_states_that_no_node_answers():
    first = nowhere()
    with (
        hornbeam.connect(f"hornbeam://{first}?also={nowhere()}") as db,
        pytest.raises(hornbeam.OperationalError, match="does not answer"),
    ):
        db.ping()
