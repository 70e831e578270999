"""A served database that clients of PostgreSQL's protocol reach, in its own thread."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import psycopg
import uvloop
from fastapi import FastAPI

from hornbeam_server.api.rest.app import create_app
from hornbeam_server.api.rest.wire_gate import listener_of
from hornbeam_server.node.database import Database
from hornbeam_server.node.settings import Settings
from hornbeam_server.pgwire.server.listener import Listener
from hornbeam_server.storage.tracing import Tracer


class WireWorld:
    """The port of the protocol, and the server's own objects."""

    def __init__(
        self, port: int, app: FastAPI, listener: Listener, loop: asyncio.AbstractEventLoop
    ):
        self.port = port
        self.app = app
        self.listener = listener
        self.loop = loop

    @property
    def database(self) -> Database:
        return self.app.state.serving.require()

    def dsn(self, user: str = "ann", **more: str) -> str:
        words = {"host": "127.0.0.1", "port": self.port, "dbname": "hornbeam", "user": user, **more}
        return " ".join(f"{name}={value}" for name, value in words.items())

    def connect(self, user: str = "ann", **options: object) -> psycopg.Connection:
        """A connection of psycopg, in autocommit unless the options say otherwise."""
        return psycopg.connect(self.dsn(user), **{"autocommit": True, **options})

    def run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def leaks(self) -> dict[str, int]:
        """Counts of resources that every session must release."""
        database = self.database
        return {
            "readers": sum(database.keeper.readers._inside.values()),
            "locks": database.locks.held_count,
            "inside": database.manager.gate.inside,
            "unfinished": len(database.manager.unfinished),
        }


@contextmanager
def wire_world(
    folder: Path,
    tls: ssl.SSLContext | None = None,
    tracer: Tracer | None = None,
    **options: object,
) -> Iterator[WireWorld]:
    settings = Settings(data=folder / "data", **options)
    ready, ended = threading.Event(), asyncio.Event()
    made: dict[str, object] = {}

    @asynccontextmanager
    async def listening() -> AsyncIterator[None]:
        async with await Database.open(settings) as database:
            app = create_app(settings, database, tracer)
            listener, loop = listener_of(app, settings, tls), asyncio.get_running_loop()
            server = await loop.create_server(listener.protocol, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            made["world"] = WireWorld(port, app, listener, loop)
            ready.set()
            yield
            server.close()
            await listener.close(5)

    async def serve() -> None:
        async with listening():
            await ended.wait()

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(serve())
        finally:
            ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert ready.wait(20)
        yield made["world"]
    finally:
        if "world" in made:
            made["world"].loop.call_soon_threadsafe(ended.set)
        thread.join()
