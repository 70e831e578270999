"""Databases for client tests: embedded, and served on a free port."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn

Run = Callable[..., tuple[int, str, str]]
"""The type of the fixture `run`."""
DDL = """
CREATE TABLE author (a_id INTEGER PRIMARY KEY, a_name TEXT NOT NULL);
CREATE TABLE book (
  b_id INTEGER PRIMARY KEY, b_a_id INTEGER REFERENCES author (a_id), b_title TEXT,
  b_price DECIMAL(10,2), b_stock INTEGER DEFAULT 0);
CREATE INDEX book_title ON book (b_title);
"""
DEFERRED = """
CREATE MATERIALIZED VIEW stocked WITH (refresh = 'deferred') AS
SELECT b_a_id, sum(b_stock) AS stock FROM book GROUP BY b_a_id;
"""
WORKLOAD = """
-- name: by_author
-- weight: 5
SELECT b_title, a_name FROM book, author WHERE b_a_id = a_id AND b_id = ?;
"""


@contextlib.contextmanager
def served(folder: Path, port: int = 0) -> Iterator[str]:
    """Serve the database in `folder`; yield its hornbeam URL."""
    from hornbeam_server.api.rest.app import create_app
    from hornbeam_server.node.database import Database
    from hornbeam_server.node.settings import load_settings

    settings, servers = load_settings(data=folder), []

    async def serve() -> None:
        async with await Database.open(settings) as database:
            app = create_app(settings, database)
            config = uvicorn.Config(app, log_config=None, access_log=False, ws="none")
            servers.append(uvicorn.Server(config))
            await servers[0].serve(sockets=[listener])

    with socket.create_server(("127.0.0.1", port)) as listener:
        thread = threading.Thread(target=asyncio.run, args=(serve(),))
        thread.start()
        while thread.is_alive() and not (servers and servers[0].started):
            thread.join(0.01)
        try:
            yield f"hornbeam://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            for server in servers:
                server.should_exit = True
            thread.join()


def embedded(folder: Path) -> str:
    return f"hornbeam:///{folder}"


@contextlib.contextmanager
def opened(kind: str, folder: Path) -> Iterator[str]:
    """The URL of a database in `folder` with a schema. `kind`: "embedded", or "http" (served)."""
    import hornbeam

    if kind == "http":
        with served(folder) as url:
            apply(url)
            yield url
        return
    url = embedded(folder)
    with hornbeam.connect(url):  # the folder stays open
        apply(url)
        yield url


def apply(url: str, ddl: str = DDL, workload: str = WORKLOAD) -> None:
    """Apply a schema and wait until its views are built."""
    import time

    import hornbeam

    with hornbeam.connect(url, autocommit=True) as db:
        body = {"ddl": ddl, "workload": workload}
        planned = db.transport.json("POST", "/v1/schema/plan", body)
        body["plan_id"] = planned["plan_id"]
        db.transport.json("POST", "/v1/schema/apply", body)
        while not all(b["finished"] for b in db.transport.json("GET", "/v1/status")["builds"]):
            time.sleep(0.02)
