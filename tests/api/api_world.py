"""A served database for tests of the REST interface: a real uvicorn in its own thread."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from pathlib import Path
from typing import Any, Protocol

import httpx
import uvicorn
import uvloop
from fastapi import FastAPI

from hornbeam_server.api.rest.app import create_app
from hornbeam_server.api.rest.http_protocol import BoundedProtocol
from hornbeam_server.api.rest.occupancy import Occupancy
from hornbeam_server.node.database import Database
from hornbeam_server.node.settings import Settings
from hornbeam_server.txlayer.locking.locks import LockOwner, Mode

DDL = """
CREATE TABLE customer (
  c_id INTEGER PRIMARY KEY, c_name TEXT NOT NULL, c_balance DECIMAL(15,2) DEFAULT 0,
  c_email TEXT UNIQUE);
CREATE TABLE orders (
  o_id INTEGER PRIMARY KEY, o_c_id INTEGER REFERENCES customer (c_id), o_total DECIMAL(15,2));
CREATE TABLE kinds (
  k_id BIGINT PRIMARY KEY, k_decimal DECIMAL(38,10), k_double DOUBLE, k_flag BOOLEAN, k_bytes BYTEA,
  k_date DATE, k_at TIMESTAMP, k_instant TIMESTAMP WITH TIME ZONE, k_uuid UUID, k_json JSON,
  k_text VARCHAR(5));
"""
WORKLOAD = """
-- name: orders_of_a_customer
SELECT c_name, o_id, o_total FROM customer, orders WHERE c_id = o_c_id AND c_name = ?;
"""
PLAN = {"ddl": DDL, "workload": WORKLOAD, "roots": None}


class Served(Protocol):
    def run(self, work: Coroutine[Any, Any, object]) -> object:
        """The result of `work` in the server's loop."""


class World:
    """A client, with access to the server's own objects."""

    def __init__(self, client: httpx.Client, app: FastAPI, loop: asyncio.AbstractEventLoop):
        self.client = client
        self.app = app
        self.loop = loop

    @property
    def database(self) -> Database:
        return self.app.state.serving.require()

    def post(self, path: str, body: object = None, **options: object) -> httpx.Response:
        return self.client.post(path, json=body, **options)

    def transact(self, sql: str, *parameters: object) -> httpx.Response:
        statement = {"sql": sql, "parameters": list(parameters)}
        return self.post("/v1/transactions", {"statements": [statement]})

    def rows(self, sql: str, *parameters: object, **options: object) -> list[list[object]]:
        response = self.post("/v1/query", {"sql": sql, "parameters": list(parameters), **options})
        assert response.status_code == 200, response.text
        return response.json()["rows"]

    def apply(self, **plan: object) -> httpx.Response:
        planned = self.post("/v1/schema/plan", plan)
        assert planned.status_code == 200, planned.text
        applied = self.post("/v1/schema/apply", plan | {"plan_id": planned.json()["plan_id"]})
        if applied.is_success:
            self.run(self.database.keeper.wait_built())
        return applied

    def verify(self) -> int:
        lines = self.post("/v1/verify", {}).text.splitlines()
        return httpx.Response(200, text=lines[-1]).json()["report"]["differences"]

    def run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    @contextmanager
    def holding_root(self, relation: str, *key: object) -> Iterator[None]:
        """Another transaction holds the lock of a root."""
        database, owner = self.database, LockOwner(0)
        name = ("root", relation, database.manager.state.codecs(relation).key_of(key))

        async def release() -> None:
            database.locks.release_all(owner)

        self.run(database.locks.acquire(owner, [name], Mode.EXCLUSIVE))
        try:
            yield
        finally:
            self.run(release())

    def leaks(self) -> dict[str, int]:
        """Counts of resources that every request must release."""
        database = self.database
        return {
            "readers": sum(database.keeper.readers._inside.values()),
            "locks": database.locks.held_count,
            "waiting": database.locks.waiting_count,
            "inside": database.manager.gate.inside,
            "unfinished": len(database.manager.unfinished),
        }


@contextmanager
def occupied(served: Served, inside: Occupancy, name: str = "") -> Iterator[None]:
    """As many requests as `inside` allows are under way. They are counted in the server's loop,
    like all others: a count in the test's thread can be lost."""

    async def fill(requests: ExitStack) -> None:
        for _ in range(inside.limit):
            requests.enter_context(inside.entered(name))

    async def leave(requests: ExitStack) -> None:
        requests.close()

    requests = ExitStack()
    served.run(fill(requests))
    try:
        yield
    finally:
        served.run(leave(requests))


@contextmanager
def world(folder: Path, **options: object) -> Iterator[World]:
    settings = Settings(data=folder / "data", **options)

    @asynccontextmanager
    async def application() -> AsyncIterator[FastAPI]:
        async with await Database.open(settings) as database:
            yield create_app(settings, database)

    with serving(application) as served:
        yield served


@contextmanager
def serving(application: Callable[[], AbstractAsyncContextManager[FastAPI]]) -> Iterator[World]:
    """Serve the result of `application` on uvloop, as `hornbeam serve` does."""
    ready = threading.Event()
    made: dict[str, object] = {}

    async def serve() -> None:
        async with application() as app:
            config = uvicorn.Config(app, http=BoundedProtocol, ws="none", log_level="critical")
            server = uvicorn.Server(config)
            made.update(server=server, app=app, loop=asyncio.get_running_loop())
            ready.set()
            await server.serve(sockets=[listening])

    def run() -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve())

    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        thread = threading.Thread(target=run)
        thread.start()
        try:
            assert ready.wait(20)
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
                yield World(client, made["app"], made["loop"])
        finally:
            made["server"].should_exit = True
            thread.join()
