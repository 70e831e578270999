"""Measures emulated browsers at one node and at several, and the parts of their requests' time.

The browsers, the nodes and HBase share the machine's cores. Every point includes the busy cores of
each group of processes.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

import hornbeam
from bench import remote
from bench.nodes import NodeProcesses
from bench.peers.cores import HBASE, Cores, of_cluster
from bench.peers.design import Source
from bench.peers.measuring import OnStep
from bench.peers.results import Throughput, Timing
from hornbeam_server.cluster import Cluster
from hornbeam_server.demo.measures import percentile
from hornbeam_server.demo.tpcw.data import Size
from hornbeam_server.demo.tpcw.sessions import BrowserRun, Measured, run_in_process

APART = 1_000_000
"""The distance between the new keys of a point and those of the next point."""
WARM_UP_CLIENTS = 8
START_S = 1.5
"""Seconds until the browsers' process begins. They are not counted as busy."""
PIECES_MIX = "ordering"
"""The mix of the pieces. It runs all statements often enough, above all the writes."""

_NAMES = {"lock": "lock and read"}
"""Names of pieces that differ from the node's names."""
REST = "emulated browsers and others"


@dataclass(frozen=True, slots=True)
class Points:
    """The points to measure: each mix with each number of nodes and clients, for `seconds` (more
    than `START_S`)."""

    nodes: Sequence[int]
    clients: Sequence[int]
    mixes: Sequence[str]
    seconds: float

    @property
    def count(self) -> int:
        return len(self.nodes) * len(self.clients) * len(self.mixes)


def throughput(
    cluster: Cluster,
    folder: Path,
    database: str,
    source: Source,
    size: Size,
    points: Points,
    on_step: OnStep,
) -> tuple[tuple[Throughput, ...], dict[str, dict[str, Timing]]]:
    """The throughput of all points, over one database that is loaded once, and the pieces of a
    single client's requests at the first number of nodes."""
    found: list[Throughput] = []
    pieces: dict[str, dict[str, Timing]] = {}
    skips = count(0, APART)
    for number in points.nodes:
        with NodeProcesses(cluster, folder / f"nodes{number}", number, database) as nodes:
            if not found:
                _load(nodes.client_url, source)
            run = _Run(cluster, nodes, size, points.seconds, skips)
            asyncio.run(run.browse(WARM_UP_CLIENTS, PIECES_MIX))
            if not pieces:
                pieces = pieces_of(asyncio.run(run.browse(1, PIECES_MIX)))
            for mix in points.mixes:
                for clients in points.clients:
                    found.append(asyncio.run(run.point(mix, clients)))
                    on_step(f"{mix}, {number} nodes, {clients} clients")
    return tuple(found), pieces


def _load(url: str, source: Source) -> None:
    with closing(hornbeam.connect(url, autocommit=True)) as db:
        remote.apply(db, source)
        for relation in source.relations:
            remote.load(db, relation, source.rows(relation))
        remote.wait_built(db)


@dataclass(frozen=True, slots=True)
class _Run:
    """Runs emulated browsers at `nodes`."""

    cluster: Cluster
    nodes: NodeProcesses
    size: Size
    seconds: float
    skips: Iterator[int]

    async def browse(self, clients: int, mix: str) -> Measured:
        skip, size = next(self.skips), self.size
        run = BrowserRun(
            size.customers, size.items, clients, self.seconds, mix, skip, seed=skip + 1
        )
        return await run_in_process(self.nodes.client_url, run)

    async def point(self, mix: str, clients: int) -> Throughput:
        browsers = asyncio.ensure_future(self.browse(clients, mix))
        cores = await self._cores()
        measured = await browsers
        times = list(chain.from_iterable(measured.latencies.values()))
        return Throughput(
            mix,
            len(self.nodes.nodes),
            clients,
            self.seconds,
            measured.interactions,
            len(measured.errors),
            statistics.median(times),
            percentile(times, 0.99),
            cores,
        )

    async def _cores(self) -> dict[str, float]:
        """Busy cores by group, from the start of the browsers until their end."""
        await asyncio.sleep(START_S)
        cores = Cores({"nodes": self._pids, HBASE: lambda: of_cluster(self.cluster)}, REST)
        await asyncio.sleep(self.seconds - START_S)
        return cores.busy()

    def _pids(self) -> list[int]:
        return [node.process.pid for node in self.nodes.nodes if node.process is not None]


def pieces_of(measured: Measured) -> dict[str, dict[str, Timing]]:
    """The times by statement and piece. The piece `way` is the client's time beyond the node's own
    time."""
    return {
        statement: _pieces(times, measured.pieces[statement])
        for statement, times in measured.latencies.items()
    }


def _pieces(times: Sequence[float], own: Sequence[Mapping[str, float]]) -> dict[str, Timing]:
    ways = [time - sum(parts.values()) for time, parts in zip(times, own, strict=True)]
    by_piece = {
        _NAMES.get(name, name): Timing(tuple(parts[name] for parts in own)) for name in own[0]
    }
    return by_piece | {"way": Timing(tuple(ways))}
