"""Lag of live views under a rate of changes, and their cost to writers, at a server of its own
process over the embedded store.

Requests are due at fixed times, whether or not earlier ones have been answered, and times count
from the moment at which a request was due. The lag of a commit is the time from the commit until
the view's group showed it; the group's state is asked every `LOOK_S` seconds, so the lag is at most
so much too long.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hornbeam
from bench.connections import Connection, at_once
from bench.measure import Figure, ratios
from bench.serving import Process, get, post
from bench.tpch import SCHEMA, VIEWS
from bench.tpch.changes import Changes, Transaction
from bench.tpch.data import files, load
from hornbeam_server.demo.measures import percentile
from hornbeam_server.demo.serving import server
from hornbeam_server.demo.tpcw.live import lags_s

CONNECTIONS = 16
LOOK_S = 0.02
LAST_S = 60.0
"""The group shows the last commit within this time."""
HOPELESS_MS = 2_000
"""A median lag from which higher rates are not tried."""
TICKS = 50
"""Maximum transactions a second on TPC-H: one connection sends them in order, so that all of them
succeed."""
WARM_UP_S = 6.0
"""Seconds of changes of TPC-H that are not counted: programs are compiled when they are first used,
and their expressions when a relation first changes."""
PLACES, REGIONS = 2_000, 50
PLAIN = """
CREATE TABLE place (p_id INTEGER PRIMARY KEY, region INTEGER NOT NULL);
CREATE TABLE sale (id INTEGER PRIMARY KEY, place INTEGER NOT NULL REFERENCES place (p_id),
  v INTEGER NOT NULL);
"""
SELECT = (
    "SELECT region, count(*) AS n, sum(v) AS total"
    " FROM sale JOIN place ON p_id = place GROUP BY region"
)
BY_REGION = f"""
CREATE MATERIALIZED VIEW by_region WITH (refresh = 'live', interval = '{{interval}}') AS {SELECT};
"""
QUICK = BY_REGION.format(interval="50 ms")
WAYS = {
    "without the view": "",
    "with it each 250 ms": BY_REGION.format(interval="250 ms"),
    "with it each 50 ms": QUICK,
}
"""The databases whose writers are compared; the first one is the floor."""


class Failed(AssertionError):
    """A view did not come to show the last commit."""


@dataclass(frozen=True, slots=True)
class Run:
    """The commits of a run, the milliseconds of their answers, and requests a second."""

    commits: Sequence[int]
    times_ms: Sequence[float]
    rate: float


async def paced(
    ports: Sequence[int],
    requests: Iterator[bytes],
    every_s: float,
    seconds: float,
    connections: int,
) -> Run:
    """Send requests for `seconds`, one due each `every_s`; 0: as fast as they are answered. The
    connections are spread over the ports."""
    began = time.monotonic()
    commits: list[int] = []
    times: list[float] = []
    due = itertools.count()

    async def send(_: int, connection: Connection) -> None:
        while True:
            at = began + next(due) * every_s if every_s else time.monotonic()
            if at >= began + seconds:
                return
            await asyncio.sleep(max(at - time.monotonic(), 0))
            answer = await connection.ask(next(requests))
            times.append((time.monotonic() - at) * 1000)
            commits.append(json.loads(answer)["commit_ts"])

    await at_once(ports, connections, send)
    return Run(commits, times, len(times) / (time.monotonic() - began))


Shown = dict[str, list[tuple[int, float]]]
"""By group, the snapshots that it showed, with the times at which it did, in milliseconds of wall
time."""


async def watched(port: int, running: asyncio.Task[Run], groups: Sequence[str]) -> Shown:
    """What the groups showed until the run has ended and all of them show its last commit. Raises
    Failed."""
    shown: Shown = {group: [(0, 0.0)] for group in groups}
    give_up = None
    async with await Connection.open(port) as connection:
        while not running.done() or _oldest(shown) < max(running.result().commits):
            for group in json.loads(await connection.ask(get("/v1/groups"))):
                snapshots, as_of = shown[group["name"]], group["as_of"] or 0
                if as_of > snapshots[-1][0]:
                    snapshots.append((as_of, time.time() * 1000))
            if running.done():
                give_up = give_up or time.monotonic() + LAST_S
                if time.monotonic() > give_up:
                    raise Failed(f"The last commit is not shown after {LAST_S:.0f} seconds.")
            await asyncio.sleep(LOOK_S)
    return shown


def _oldest(shown: Shown) -> int:
    return min(snapshots[-1][0] for snapshots in shown.values())


Served = tuple[hornbeam.Connection, int, Process]
"""A server: a connection, its port, its process."""


@contextmanager
def served(folder: Path, ddl: str) -> Iterator[Served]:
    """A server with the relations and views of `ddl`."""
    settings: dict[str, Any] = {"resident_refresh": True, "resident_rows": 1_000_000}
    with (
        server(folder, **settings) as (port, process),
        hornbeam.connect(f"hornbeam://127.0.0.1:{port}", autocommit=True, timeout_s=LAST_S) as db,
    ):
        apply(db, ddl)
        yield db, port, Process(process)


def apply(db: hornbeam.Connection, ddl: str) -> None:
    """Plan and apply a schema, by the row counts of now."""
    planned = db.transport.json("POST", "/v1/schema/plan", {"ddl": ddl})
    confirmed = {"ddl": ddl, "plan_id": planned["plan_id"]}
    db.transport.json("POST", "/v1/schema/apply", confirmed)


def insertions() -> Iterator[bytes]:
    """Transactions of one sale each."""
    chance = random.Random(1)
    for number in itertools.count():
        row = [number, chance.randrange(PLACES), chance.randrange(1_000)]
        statement = {"sql": "INSERT INTO sale VALUES (?, ?, ?)", "parameters": row}
        yield post("/v1/transactions", {"statements": [statement]})


def fill(db: hornbeam.Connection) -> None:
    places = [(number, number % REGIONS) for number in range(PLACES)]
    db.cursor().executemany("INSERT INTO place VALUES (?, ?)", places)


@dataclass
class Mix:
    """The statements of TPC-H's random transactions in their order, `size` in each request."""

    transactions: Iterator[Transaction]
    size: int = 1
    waiting: list[dict[str, Any]] = field(default_factory=list)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        while len(self.waiting) < self.size:
            self.waiting += (
                {"sql": each.sql, "parameters": each.parameters} for each in next(self.transactions)
            )
        statements, self.waiting = self.waiting[: self.size], self.waiting[self.size :]
        return post("/v1/transactions", {"statements": statements})


async def lags(
    port: int, process: Process, requests: Iterator[bytes], every_s: float, seconds: float, of: int
) -> tuple[Run, list[float], float]:
    """A run over `of` connections; the milliseconds from each of its commits until the group showed
    it; and the share of a core, in per cent, that the server took until it showed all."""
    began, used = time.monotonic(), process.processor_s()
    running = asyncio.ensure_future(paced([port], requests, every_s, seconds, of))
    shown = (await watched(port, running, ["live"]))["live"]
    share = 100 * (process.processor_s() - used) / (time.monotonic() - began)
    run = running.result()
    return run, [lag * 1000 for lag in lags_s(run.commits, shown)], share


def of_a_join(folder: Path, rates: Sequence[int], seconds: float) -> list[Figure]:
    """The lag of a count and a sum over a join, by transactions a second."""
    title, requests, figures = "lag, sum over a join", insertions(), list[Figure]()
    with served(folder, PLAIN + QUICK) as (db, port, process):
        fill(db)
        for rate in rates:
            measured = lags(port, process, requests, 1 / rate, seconds, CONNECTIONS)
            run, found, share = asyncio.run(measured)
            figures += _lag_figures(title, f"{rate:,} changes/s", run.rate, found, share, 100)
    return figures


def of_tpch(folder: Path, rates: Sequence[int], seconds: float, scale: float) -> list[Figure]:
    """The lag of TPC-H's 22 views by changes a second, until a rate is hopeless. The views are
    declared over loaded relations: their look-ups and partial aggregates follow from row counts."""
    title, figures = "lag, TPC-H's 22 views", list[Figure]()
    tables = files(scale)
    views = VIEWS.read_text().replace("'deferred', interval = '5 s'", "'live'")
    mix = Mix(iter(Changes(tables, 1)))
    with served(folder, SCHEMA.read_text()) as (db, port, process):
        load(db, tables)
        apply(db, SCHEMA.read_text() + views)
        db.cursor().execute("REFRESH MATERIALIZED VIEW q1")
        asyncio.run(lags(port, process, mix, 1 / TICKS, WARM_UP_S, 1))
        for rate in rates:
            mix.size = max(rate // TICKS, 1)
            every_s = mix.size / rate
            run, found, share = asyncio.run(lags(port, process, mix, every_s, seconds, 1))
            name = f"{rate:,} changes/s"
            figures += _lag_figures(title, name, run.rate * mix.size, found, share, 250)
            if percentile(found, 0.5) > HOPELESS_MS:
                break
    return figures


def _lag_figures(
    section: str, name: str, rate: float, found: Sequence[float], share: float, half_ms: int
) -> list[Figure]:
    """`half_ms`: the goal of the median. 99 % may take four times as long."""
    note = f"{rate:,.0f} changes/s; the server took {share:.0f} % of a core"
    half, most = percentile(found, 0.5), percentile(found, 0.99)
    return [
        Figure(section, f"{name}, median", "ms", (half,), at_most=half_ms, note=note),
        Figure(section, f"{name}, 99 %", "ms", (most,), at_most=4 * half_ms),
    ]


def cost(folder: Path, rounds: int, seconds: float) -> list[Figure]:
    """What a live view costs the writers of its relation: at most, and at half of the rate that
    they reach without it. The databases take turns."""
    found: dict[str, dict[str, list[float]]] = {}
    with ExitStack() as stack:
        ways = {
            way: stack.enter_context(served(folder / str(number), PLAIN + view))
            for number, (way, view) in enumerate(WAYS.items())
        }
        requests = {way: insertions() for way in ways}
        for db, _, _ in ways.values():
            fill(db)
        half = 0.0
        for _ in range(rounds):
            for way, (_, port, process) in ways.items():
                run = asyncio.run(paced([port], requests[way], 0, seconds, CONNECTIONS))
                half = half or run.rate / 2
                used = process.processor_s()
                calm = asyncio.run(paced([port], requests[way], 1 / half, seconds, CONNECTIONS))
                taken = (process.processor_s() - used) * 1e6 / len(calm.commits)
                figures = found.setdefault(way, {"most": [], "half": [], "taken": []})
                figures["most"].append(run.rate)
                figures["half"].append(percentile(calm.times_ms, 0.5))
                figures["taken"].append(taken)
    return _cost_figures(found, half)


def _cost_figures(found: Mapping[str, Mapping[str, Sequence[float]]], half: float) -> list[Figure]:
    section, note = "cost to writers", f"at {half:,.0f} transactions/s"
    units = {
        "most": ("most transactions", "1/s", ""),
        "half": ("median answer at half of it", "ms", note),
        "taken": ("processor time of a transaction at half of it", "µs", note),
    }
    figures = [
        Figure(section, f"{name}, {way}", unit, tuple(of_way[key]), note=text)
        for key, (name, unit, text) in units.items()
        for way, of_way in found.items()
    ]
    (_, without), *others = found.items()
    for way, of_way in others:
        slower, fewer = (
            ratios(above[key], below[key])
            for key, above, below in (("half", of_way, without), ("most", without, of_way))
        )
        figures += [
            Figure(section, f"answer at half of it, {way} / without", "×", slower, at_most=1.1),
            Figure(section, f"most, without / {way}", "×", fewer),
        ]
    return figures
