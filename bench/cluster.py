"""The benchmark on a real HBase: costs and gains of several nodes (`make bench-nodes`).

It measures members in this process next to bare calls of the gateway, then nodes as processes over
REST, some of which it kills and stops. The services, the nodes and the clients share one machine in
one run, so ratios say more than figures. Needs Java 17 and Maven. `--help` lists the options.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import random
import shutil
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import structlog
import uvloop
from rich.console import Console

import hornbeam
from bench import microdata
from bench.measure import Figure, print_figures, write_report
from bench.microdata import INSERT, V1
from bench.nodes import NodeProcess, NodeProcesses
from bench.options import EMPTIED, REPORT, ROUNDS, parse
from bench.served import client_url
from bench.serving import Client, get, post
from hornbeam_server.cluster import Cluster
from hornbeam_server.demo.ending import ended_by_sigterm
from hornbeam_server.demo.measures import percentile
from hornbeam_server.demo.tpcw.data import TODAY
from hornbeam_server.node.adapters import cluster_ports, session
from hornbeam_server.node.database import Database
from hornbeam_server.node.settings import Settings
from hornbeam_server.schema.collector import settle_collector
from hornbeam_server.storage.ports import NEWEST, Put
from hornbeam_server.txlayer.cluster.membership_view import slot_of
from hornbeam_server.txlayer.statements.requests import Statement, TransactionRequest

CUSTOMERS = 2_000
CLIENTS = 64
WARM_UP = 4
"""Rounds of concurrent inserts that are not counted. A fresh cluster needs ten thousand inserts
until Java has compiled its hot code; until then each takes twice the time."""
ORDER = "SELECT c_uname, o_total FROM customer, orders WHERE c_id = o_c_id AND o_id = ?"
UPDATE = "UPDATE customer SET c_discount = c_discount + 0.01 WHERE c_id = ?"
BARE = "b.bare"
"""A table of plain cells. A cell is as large as an order's row."""
CELL = b"x" * 100


@dataclass(frozen=True, slots=True)
class Options:
    """The options that `--help` explains."""

    requests: Annotated[int, "requests per round, one after the other"] = 300
    rounds: Annotated[int, ROUNDS] = 3
    kills: Annotated[int, "number of kills, and number of stops, of nodes"] = 5
    folder: Annotated[Path, EMPTIED] = Path("var/bench-cluster")
    output: Annotated[Path, REPORT] = Path("bench/reports/cluster.json")


def parse_options(arguments: Sequence[str] | None = None) -> Options:
    return parse(Options, "bench.cluster", __doc__, arguments)


# ---------------------------------------------------------------- members in this process


def _settings(cluster: Cluster, folder: Path, database: str) -> Settings:
    return Settings(
        store="hbase",
        database=database,
        gateways=str(cluster.thrift),
        zookeeper=str(cluster.zookeeper),
        hdfs=cluster.hdfs_url,
        data=folder,
    )


@contextlib.asynccontextmanager
async def member(settings: Settings) -> AsyncIterator[Database]:
    """A node without REST."""
    coordination = await session(settings)
    ports = cluster_ports(settings, coordination, None)
    database = await Database.join(settings, ports, "http://bench")
    try:
        yield database
    finally:
        await database.leave()
        await database.close()


class Keys:
    """Draws random customers, and new orders of them."""

    def __init__(self, first: int = 1) -> None:
        self._orders = itertools.count(first)
        self._chance = random.Random(1)

    def customer(self) -> int:
        return self._chance.randint(1, CUSTOMERS)

    def order(self) -> tuple[object, ...]:
        return next(self._orders), self.customer(), TODAY, "10.00", "0.80", "10.80"


async def in_process(settings: Settings, options: Options) -> list[Figure]:
    keys = Keys()
    async with member(settings) as one:
        await _fill(one)
        for _ in range(WARM_UP):
            await _concurrent_inserts(one, keys, options)
        put = await _rounds(options, partial(_bare_put, one, itertools.count()))
        get = await _rounds(options, partial(_bare_get, one))
        insert = await _rounds(options, lambda: one.execute(INSERT, keys.order()))
        rates = [await _concurrent_inserts(one, keys, options) for _ in range(options.rounds)]
        async with member(settings) as other:
            await _until(lambda: _is_shared(one) and _is_shared(other))
            split = {node: _owned(node) for node in (one, other)}
            rng = random.Random(2)
            own = await _rounds(options, lambda: one.transact(_pair(*rng.sample(split[one], 2))))
            both = await _rounds(
                options,
                lambda: one.transact(_pair(rng.choice(split[one]), rng.choice(split[other]))),
            )
    note = "keeps a join view, its view-index and a foreign-key index"
    return [
        Figure("bare", "put of one cell, p50", "ms", put),
        Figure("bare", "get of one cell, p50", "ms", get),
        Figure("one node", "insert, p50", "ms", insert, note=note),
        _ratio("one node", "insert / bare put", insert, put, at_most=4),
        Figure("one node", f"inserts by {CLIENTS} clients", "/s", tuple(rates), at_least=4_000),
        Figure("two nodes", "two roots of its own, p50", "ms", own),
        Figure("two nodes", "one root of each, p50", "ms", both),
        _ratio("two nodes", "one root of each / two of its own", both, own, at_most=2.5),
    ]


async def _fill(database: Database) -> None:
    await _until(lambda: database.keeper.leads)
    counts = microdata.row_counts(CUSTOMERS)
    await database.keeper.apply(microdata.micro_catalog(1, (V1,), counts))
    await database.keeper.wait_built()
    columns = database.catalog.schema.relation("customer").column_names
    await database.load("customer", columns, list(microdata.rows("customer", CUSTOMERS)))
    await database.store.create_table(BARE)


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 (there is no event to wait for)
        await asyncio.sleep(0.1)


async def _bare_put(database: Database, numbers: Iterator[int]) -> None:
    put = Put(next(numbers).to_bytes(8), CELL)
    await database.store.put({BARE: [put]}, database.clock.wall_ms())


async def _bare_get(database: Database) -> None:
    await database.store.get(BARE, [(1).to_bytes(8)], NEWEST)


def _pair(first: int, second: int) -> TransactionRequest:
    return TransactionRequest((Statement(UPDATE, (first,)), Statement(UPDATE, (second,))))


def _is_shared(database: Database) -> bool:
    """Whether two nodes own slots, and no slot is moving."""
    assert database.member is not None
    status = database.member.status()
    owning = [member for member in status["members"] if member["slots"]]
    return len(owning) == 2 and not status["moving_slots"]


def _owned(database: Database) -> list[int]:
    """The customers whose roots the node owns."""
    assert database.member is not None
    roots, owns = database.manager.state.roots, database.member.owns
    customers = range(1, CUSTOMERS + 1)
    return [c for c in customers if owns(slot_of(roots.name("customer", (c,))))]


async def _rounds(options: Options, work: Callable[[], Awaitable[object]]) -> tuple[float, ...]:
    """The median of each round, in milliseconds. Calls run one after the other."""
    found = []
    for _ in range(options.rounds):
        times = []
        for _ in range(options.requests):
            began = time.perf_counter()
            await work()
            times.append((time.perf_counter() - began) * 1000)
        found.append(percentile(times, 0.5))
    return tuple(found)


async def _concurrent_inserts(database: Database, keys: Keys, options: Options) -> float:
    """Insert orders by `CLIENTS` concurrent clients. Returns transactions per second."""
    count = 10 * options.requests
    remaining = iter(range(count))

    async def client() -> None:
        for _ in remaining:
            await database.execute(INSERT, keys.order())

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return count / (time.perf_counter() - began)


def _ratio(
    section: str, name: str, of: Sequence[float], to: Sequence[float], *, at_most: float
) -> Figure:
    return Figure(
        section, name, "×", tuple(a / b for a, b in zip(of, to, strict=True)), at_most=at_most
    )


# ---------------------------------------------------------------- nodes as processes


def over_rest(cluster: Cluster, options: Options, database: str) -> list[Figure]:
    """The figures over REST: of a single node, then of three nodes that are killed and stopped."""
    folder = options.folder / "nodes"
    with NodeProcesses(cluster, folder / "one", 1, database=database) as nodes:
        one = nodes.nodes[0]
        figures = _single(one, options)
    with NodeProcesses(cluster, folder / "three", 3, database=database) as nodes:
        killed = [_killed(nodes, number) for number in range(options.kills)]
        stalls = [_stopped(nodes, number) for number in range(options.kills)]
    return [
        *figures,
        Figure(
            "three nodes",
            "killed until its roots have owners, longest",
            "s",
            (max(killed),),
            at_most=10,
            note=f"of {len(killed)}, median {percentile(killed, 0.5):.1f} s",
        ),
        Figure(
            "three nodes",
            "longest request while a node is stopped",
            "s",
            (max(stalls),),
            at_most=2,
            note=f"of {len(stalls)} nodes that moved all their slots away",
        ),
    ]


def _single(node: NodeProcess, options: Options) -> list[Figure]:
    keys = Keys(first=1_000_000)
    with Client(node.port) as client:
        live = [client.times_ms(get("/livez"), options.requests) for _ in range(options.rounds)]
    with hornbeam.connect(client_url([node.address]), autocommit=True) as db:
        cursor = db.cursor()
        cursor.execute(INSERT, (10**9, 1, TODAY.isoformat(), "10.00", "0.80", "10.80"))

        def read() -> None:
            cursor.execute(ORDER, [10**9])
            cursor.fetchall()

        reads = [_times_ms(read, options.requests) for _ in range(options.rounds)]
    rates = [_concurrent_inserts_over_rest(node, keys, options) for _ in range(options.rounds)]
    return [
        Figure("REST", "/livez, p50", "ms", tuple(percentile(times, 0.5) for times in live)),
        Figure(
            "REST",
            "view point read through the client, p50",
            "ms",
            tuple(percentile(times, 0.5) for times in reads),
        ),
        Figure("REST", f"inserts by {CLIENTS} clients", "/s", tuple(rates), at_least=3_000),
    ]


def _times_ms(work: Callable[[], None], count: int) -> list[float]:
    found = []
    for _ in range(count):
        began = time.perf_counter()
        work()
        found.append((time.perf_counter() - began) * 1000)
    return found


def _concurrent_inserts_over_rest(node: NodeProcess, keys: Keys, options: Options) -> float:
    """Insert orders over REST by `CLIENTS` threads of this process, which mostly wait. Returns
    transactions per second."""
    count, lock = 5 * options.requests, threading.Lock()
    orders = (keys.order() for _ in range(count))

    def client() -> None:
        with Client(node.port) as connection:
            while True:
                with lock:
                    order = next(orders, None)
                if order is None:
                    return
                number, customer, _, *money = order
                parameters = [number, customer, TODAY.isoformat(), *money]
                statement = {"sql": INSERT, "parameters": parameters}
                connection.ask(post("/v1/transactions", {"statements": [statement]}))

    began = time.perf_counter()
    _in_threads([client] * CLIENTS)
    return count / (time.perf_counter() - began)


def _in_threads(works: Sequence[Callable[[], None]]) -> None:
    """Run all works in threads. Raises the first error among them."""
    with ThreadPoolExecutor(len(works)) as pool:
        for future in [pool.submit(work) for work in works]:
            future.result()


def _killed(nodes: NodeProcesses, number: int) -> float:
    """Kill a node, and start it again. Returns the seconds from kill -9 until the other nodes own
    all roots."""
    victim = nodes.nodes[number % len(nodes.nodes)]
    began = time.monotonic()
    victim.kill()
    nodes.settled()
    elapsed_s = time.monotonic() - began
    victim.start()
    nodes.settled()
    return elapsed_s


def _stopped(nodes: NodeProcesses, number: int) -> float:
    """Stop a node, which moves all its slots away, and start it again. Returns the seconds of the
    longest transaction at the other nodes until then."""
    victim = nodes.nodes[number % len(nodes.nodes)]
    others = [node for node in nodes.nodes if node is not victim]
    longest, over = [0.0], threading.Event()

    def client(node: NodeProcess, seed: int) -> None:
        rng = random.Random(seed)
        with hornbeam.connect(client_url([node.address]), autocommit=True) as db:
            while not over.is_set():
                began = time.monotonic()
                db.cursor().execute(UPDATE, [rng.randint(1, CUSTOMERS)])
                longest[0] = max(longest[0], time.monotonic() - began)

    def stop() -> None:
        time.sleep(1)
        victim.stop()
        time.sleep(1)
        over.set()

    _in_threads([stop, *(partial(client, node, seed) for seed, node in enumerate(others * 2))])
    victim.start()
    nodes.settled()
    return longest[0]


# ---------------------------------------------------------------- the run


def measure(cluster: Cluster, options: Options) -> list[Figure]:
    database = f"bench{time.time_ns() // 1_000_000:x}"
    settings = _settings(cluster, options.folder / "data", database)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures = runner.run(in_process(settings, options))
    figures += over_rest(cluster, options, database)
    value = {(figure.section, figure.name): figure.value for figure in figures}
    floor = 3 * value["bare", "get of one cell, p50"] + value["REST", "/livez, p50"]
    read = value["REST", "view point read through the client, p50"]
    goal = "(3 × bare get + /livez)"
    return [*figures, Figure("REST", f"view point read / {goal}", "×", (read / floor,), at_most=1)]


def main(arguments: Sequence[str] | None = None) -> None:
    options, console = parse_options(arguments), Console()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    shutil.rmtree(options.folder, ignore_errors=True)
    began = time.perf_counter()
    with Cluster.start(
        options.folder / "cluster", on_change=lambda name, state: console.print(f"{name}: {state}")
    ) as cluster:
        figures = measure(cluster, options)
    print_figures(console, figures)
    elapsed_s = time.perf_counter() - began
    write_report(options.output, options.folder, asdict(options), figures, elapsed_s)
    console.print(f"{elapsed_s:.1f} s; written: {options.output}")


if __name__ == "__main__":
    settle_collector()  # as the server does
    with ended_by_sigterm():
        main()
