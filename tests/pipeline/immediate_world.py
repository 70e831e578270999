"""A served shop with immediate views of every kind, and a writer that changes all of them."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from hornbeam.transport import Transport, open_transport, parse_url
from hornbeam_server.storage.ports import NEWEST
from tests.api.api_world import World
from tests.pipeline.reconcile_world import url_of

TABLES = """
CREATE TABLE shop (s_id INTEGER PRIMARY KEY, city TEXT, tier DECIMAL(4,1));
CREATE TABLE sale (
  id INTEGER PRIMARY KEY, s_id INTEGER REFERENCES shop (s_id), day DATE, price DECIMAL(10,2));
"""
BY_CITY = """
CREATE MATERIALIZED VIEW by_city WITH (refresh = 'immediate') AS
SELECT city, tier, count(*) AS n, sum(price) AS total, avg(price) AS average, min(price) AS low,
  max(day) AS latest, count(DISTINCT day) AS days
FROM sale s JOIN shop p ON s.s_id = p.s_id GROUP BY city, tier;
"""
BY_SHOP = """
CREATE MATERIALIZED VIEW by_shop WITH (refresh = 'immediate') AS
SELECT s.s_id, upper(city) AS city, count(*) AS n, sum(price * 2) AS twice,
  count(*) FILTER (WHERE day > DATE '2026-01-10') AS late
FROM sale s LEFT JOIN shop p ON s.s_id = p.s_id WHERE price > 5 GROUP BY s.s_id, upper(city);
"""
WHOLE = """
CREATE MATERIALIZED VIEW whole WITH (refresh = 'immediate') AS
SELECT count(*) AS n, sum(price) AS total, max(price) AS high, count(DISTINCT s_id) AS shops
FROM sale;
"""
VIEWS = ("by_city", "by_shop", "whole")
DDL = TABLES + BY_CITY + BY_SHOP + WHOLE
SHOPS, SALES = 24, 1_200
_new = itertools.count(100_000)


def fill(world: World, sales: int = SALES) -> None:
    """Insert shops, and sales with NULLs in all columns but the key."""
    cities = ["Bern", "Zürich", "", "", "a'b"]
    shops = ["s_id,city,tier", *(f"{n},{cities[n % 5]},{n % 4}.5" for n in range(SHOPS))]
    rows = ["id,s_id,day,price"]
    for n in range(sales):
        day = f"2026-01-{n % 28 + 1:02}" if n % 5 else ""
        rows.append(f"{n},{n % SHOPS if n % 7 else ''},{day},{f'{n % 50}.25' if n % 3 else ''}")
    for relation, lines in (("shop", shops), ("sale", rows)):
        headers = {"Content-Type": "text/csv"}
        path = f"/v1/load/{relation}"
        loaded = world.client.post(path, content="\n".join(lines), headers=headers)
        assert loaded.is_success, loaded.text


def apply(world: World, ddl: str, build: str = "spark", **options: object) -> None:
    plan = {"ddl": ddl, "workload": "", "roots": None}
    planned = world.post("/v1/schema/plan", plan)
    assert planned.status_code == 200, planned.text
    body = plan | {"plan_id": planned.json()["plan_id"], "build": build, **options}
    applied = world.post("/v1/schema/apply", body)
    assert applied.status_code == 200, applied.text


def states(world: World) -> dict[str, str]:
    return {view["name"]: view["state"] for view in world.client.get("/v1/views").json()}


def cells(world: World, name: str) -> dict[str, dict[bytes, tuple[object, ...]]]:
    """The stored cells of an immediate view by layout and key."""
    view, codecs = world.database.catalog.immediate_view[name], world.database.manager.state.codecs

    async def read(layout: str) -> dict[bytes, tuple[object, ...]]:
        codec, store = codecs(layout), world.database.store
        found = store.scan(codec.layout.table, b"", None, NEWEST)
        return {cell.key: codec.decode(cell.value) async for batch in found for cell in batch}

    return {name: world.run(read(name)) for name in (view.cells_name, *view.values_names)}


@contextmanager
def node_of(world: World) -> Iterator[Transport]:
    node = open_transport(parse_url(url_of(world)), 30)
    try:
        yield node
    finally:
        node.close()


@contextmanager
def writing(world: World, pause_s: float = 0.02) -> Iterator[list[int]]:
    """Run a writer that changes groups in every way, in at least 20 transactions. Gives their
    timestamps. Each statement is planned once: the values are parameters."""
    stop = threading.Event()
    failed: list[str] = []
    commits: list[int] = []

    def write() -> None:
        for n in range(100_000):
            day = f"2026-02-{n % 28 + 1:02}"
            work = [
                ("UPDATE sale SET s_id = ? WHERE id = ?", n % SHOPS, n * 7 % SALES),
                ("UPDATE sale SET price = ? WHERE id = ?", f"{n % 60}.5", n * 5 % SALES),
                ("DELETE FROM sale WHERE id = ?", n * 11 % SALES),
                ("INSERT INTO sale VALUES (?, ?, ?, ?)", next(_new), n % SHOPS, day, n % 9),
                ("UPDATE shop SET city = ? WHERE s_id = ?", f"c{n % 6}", n % SHOPS),
                ("UPDATE sale SET s_id = NULL WHERE id = ?", n * 13 % SALES),
            ]
            statements = [{"sql": sql, "parameters": values} for sql, *values in work]
            answer = world.client.post("/v1/transactions", json={"statements": statements})
            if answer.status_code != 200:
                failed.append(answer.text)
            else:
                commits.append(answer.json()["commit_ts"])
            if stop.is_set() and n > 20:
                return
            time.sleep(pause_s)  # leave time for other processes

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield commits
    finally:
        stop.set()
        thread.join()
    assert not failed, failed[0]
