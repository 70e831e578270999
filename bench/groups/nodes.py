"""Measures what a total of a hot group costs its writers, and what it saves its readers, on a real
HBase (`make bench-groups-nodes`).

Nodes are processes, and clients reach them over REST: writers are spread over the nodes. All ways
are measured in turn. HBase, HDFS, ZooKeeper, the nodes and the clients share one machine in one
run, so ratios say more than figures. Needs Java 17 and Maven. Prints a table and writes a JSON
report.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import hornbeam
from bench import remote
from bench.connections import Connection, at_once
from bench.groups.ways import (
    ADD,
    INSERT,
    KEPT,
    NOTHING,
    RATIOS,
    ROWS,
    TABLES,
    WAYS,
    Way,
    compare,
    measured_writes,
)
from bench.measure import Figure, ratios
from bench.nodes import NodeProcesses, run_on_cluster
from bench.options import EMPTIED, REPORT, ROUNDS, Numbers, parse
from bench.peers.design import Source
from bench.serving import post
from hornbeam_server.cluster import Cluster
from hornbeam_server.demo.ending import ended_by_sigterm
from hornbeam_server.demo.measures import percentile

NODES, WRITERS = Numbers((1, 3)), Numbers((8, 32))
DURABLE = "each answer waits for hsync of the log in HDFS; transactions that wait share it"


@dataclass(frozen=True, slots=True)
class Options:
    """The options that `--help` explains."""

    nodes: Annotated[Numbers, "numbers of nodes"] = NODES
    writers: Annotated[Numbers, "numbers of writers at a time"] = WRITERS
    writes: Annotated[int, "transactions per round and number of writers"] = 400
    warm_up: Annotated[int, "inserts before the rounds, to warm Java up"] = 4_000
    reads: Annotated[int, "reads of one group, and of one row, per round"] = 300
    rounds: Annotated[int, ROUNDS] = 3
    folder: Annotated[Path, EMPTIED] = Path("var/bench-groups-nodes")
    output: Annotated[Path, REPORT] = Path("bench/reports/groups-nodes.json")


class NodeWriters:
    """Writers of one way over REST. The entries of way number `number` are in a relation of their
    own."""

    def __init__(self, nodes: NodeProcesses, number: int, way: Way) -> None:
        self.name = way.name
        self.entry, self.view = f"entry{number}", f"total{number}"
        self._nodes = nodes
        self._way = way
        self._numbers = itertools.count(1)
        self._count = 0
        self._bookmark = 0

    @property
    def ddl(self) -> str:
        return self._way.ddl(self.entry, self.view)

    async def rate(self, writers: int, transactions: int) -> float:
        left = iter(range(transactions))

        async def writer(_number: int, connection: Connection) -> None:
            for _ in left:
                answer = json.loads(await connection.ask(self._request()))
                self._bookmark = max(self._bookmark, answer["commit_ts"])

        began = time.perf_counter()
        await at_once([node.port for node in self._nodes.nodes], writers, writer)
        elapsed_s = time.perf_counter() - began
        self._count += transactions
        return transactions / elapsed_s

    def _request(self) -> bytes:
        sql = INSERT.format(entry=self.entry)
        statements: list[dict[str, object]] = [{"sql": sql, "parameters": [next(self._numbers)]}]
        if self._way.adds:
            statements.append({"sql": ADD})
        return post("/v1/transactions", {"statements": statements})

    async def check(self) -> None:
        compare(self.name, await asyncio.to_thread(self._total), self._count)

    def _total(self) -> Decimal | None:
        with closing(hornbeam.connect(self._nodes.client_url, autocommit=True)) as db:
            # A read without a bookmark may lack the last answered writes: watermarks follow them.
            db.bookmark = self._bookmark
            cursor = db.cursor()
            cursor.execute(self._way.amount(self.entry, self.view))
            total: Decimal | None = cursor.fetchall()[0][0]
            return total


def _fill(url: str, ddl: str) -> None:
    source = Source(ddl, "", (), {}, tuple(ROWS), lambda relation: iter(ROWS[relation]))
    with closing(hornbeam.connect(url, autocommit=True, timeout_s=600)) as db:
        remote.apply(db, source)
        for relation in source.relations:
            remote.load(db, relation, source.rows(relation))


async def point_reads(
    ports: Sequence[int], view: str, count: int, rounds: int, prefix: str
) -> list[Figure]:
    """Reads of a group and of a base row by one client at a time, in turn, at all nodes. The first
    round warms up."""
    requests = [
        post("/v1/query", {"sql": sql, "parameters": [1]})
        for sql in (
            f"SELECT entries, amount FROM {view} WHERE e_a_id = ?",
            "SELECT a_r_id, a_total FROM account WHERE a_id = ?",
        )
    ]
    whole: tuple[list[float], list[float]] = ([], [])
    own: tuple[list[float], list[float]] = ([], [])
    for turn in range(rounds + 1):
        times = await _read(ports, requests, count)
        for of, (in_all, in_node) in enumerate(times):
            if turn:
                whole[of].append(in_all)
                own[of].append(in_node)
    section = f"{prefix}point reads"
    figures = []
    for name, (groups, rows) in (("p50 of the client", whole), ("p50 of the node", own)):
        figures += [
            Figure(section, f"a group of a view, {name}", "ms", tuple(groups)),
            Figure(section, f"a base row by its key, {name}", "ms", tuple(rows)),
            Figure(section, f"group / row, {name}", "×", ratios(groups, rows), at_most=2),
        ]
    return figures


async def _read(
    ports: Sequence[int], requests: Sequence[bytes], count: int
) -> list[tuple[float, float]]:
    """For each request, the medians of the client's and of the node's own milliseconds. The
    requests take turns."""
    times: list[tuple[list[float], list[float]]] = [([], []) for _ in requests]

    async def read(_number: int, connection: Connection) -> None:
        for _ in range(count // len(ports)):
            for request, (whole, own) in zip(requests, times, strict=True):
                began = time.perf_counter()
                body = await connection.ask(request)
                whole.append((time.perf_counter() - began) * 1000)
                own.append(json.loads(body)["elapsed_ms"])

    for port in ports:
        await at_once([port], 1, read)
    return [(percentile(whole, 0.5), percentile(own, 0.5)) for whole, own in times]


async def _measured(
    nodes: NodeProcesses, options: Options, on_round: Callable[[str], None]
) -> list[Figure]:
    count = len(nodes.nodes)
    prefix = f"{count} node{'s' if count > 1 else ''}, "
    ways = [NodeWriters(nodes, number, way) for number, way in enumerate(WAYS)]
    await asyncio.to_thread(_fill, nodes.client_url, TABLES + "".join(way.ddl for way in ways))
    on_round(f"{prefix}warming up")
    await ways[WAYS.index(NOTHING)].rate(32, options.warm_up)
    figures = await measured_writes(
        ways,
        RATIOS,
        options.writers,
        options.writes,
        options.rounds,
        prefix=prefix,
        on_round=on_round,
    )
    kept = ways[WAYS.index(KEPT)]
    ports = [node.port for node in nodes.nodes]
    return figures + await point_reads(ports, kept.view, options.reads, options.rounds, prefix)


def measure(cluster: Cluster, options: Options, on_round: Callable[[str], None]) -> list[Figure]:
    figures = []
    name = f"groups{time.time_ns() // 1_000_000:x}"
    for count in options.nodes:
        folder = options.folder / f"nodes{count}"
        with NodeProcesses(cluster, folder, count, f"{name}n{count}") as nodes:
            figures += asyncio.run(_measured(nodes, options, on_round))
    return figures


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(Options, "bench.groups.nodes", __doc__, arguments)
    settings = asdict(options) | {"hornbeam": DURABLE}
    run_on_cluster(
        options.folder,
        options.output,
        settings,
        lambda cluster, on_round: measure(cluster, options, on_round),
    )


if __name__ == "__main__":
    with ended_by_sigterm():
        main()
