"""Shoppers at one node and at several, and where the time of their requests goes.

The shoppers, the nodes and HBase share the machine's cores; who kept how many of them busy is
counted with every point.
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
from bench.measure import percentile
from bench.nodes import NodeProcesses
from bench.peers.cores import HBASE, Cores, of_cluster
from bench.peers.design import Source
from bench.peers.measuring import Told
from bench.peers.results import Throughput, Timing
from bench.tpcw.data import Size
from bench.tpcw.sessions import Measured, Shopping, shop_in_process
from hornbeam_server.cluster import Cluster

APART = 1_000_000
"""New keys of one point, and of the next."""
WARM_UP_CLIENTS = 8
START_S = 1.5
"""Until the shoppers' process shops; not counted as busy."""
PIECES_MIX = "ordering"
"""It has all statements often enough, the writes above all."""

_NAMES = {"lock": "lock and read"}
"""Pieces that the node calls otherwise."""
REST = "shoppers and others"


@dataclass(frozen=True, slots=True)
class Points:
    """Each mix is run with each number of nodes and clients, `seconds` long (more than
    `START_S`)."""

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
    tell: Told,
) -> tuple[tuple[Throughput, ...], dict[str, dict[str, Timing]]]:
    """All points, over one database that is loaded once, and the pieces of one client's requests
    at one node."""
    found: list[Throughput] = []
    pieces: dict[str, dict[str, Timing]] = {}
    skips = count(0, APART)
    for number in points.nodes:
        with NodeProcesses(cluster, folder / f"nodes{number}", number, database) as nodes:
            if not found:
                _load(nodes.client_url, source)
            run = _Run(cluster, nodes, size, points.seconds, skips)
            asyncio.run(run.shop(WARM_UP_CLIENTS, PIECES_MIX))
            if not pieces:
                pieces = pieces_of(asyncio.run(run.shop(1, PIECES_MIX)))
            for mix in points.mixes:
                for clients in points.clients:
                    found.append(asyncio.run(run.point(mix, clients)))
                    tell(f"{mix}, {number} nodes, {clients} clients")
    return tuple(found), pieces


def _load(url: str, source: Source) -> None:
    with closing(hornbeam.connect(url, autocommit=True)) as db:
        remote.apply(db, source)
        for relation in source.relations:
            remote.load(db, relation, source.rows(relation))
        remote.wait_built(db)


@dataclass(frozen=True, slots=True)
class _Run:
    """Shopping at some nodes."""

    cluster: Cluster
    nodes: NodeProcesses
    size: Size
    seconds: float
    skips: Iterator[int]

    async def shop(self, clients: int, mix: str) -> Measured:
        skip, size = next(self.skips), self.size
        how = Shopping(size.customers, size.items, clients, self.seconds, mix, skip, seed=skip + 1)
        return await shop_in_process(self.nodes.urls, how)

    async def point(self, mix: str, clients: int) -> Throughput:
        shopping = asyncio.ensure_future(self.shop(clients, mix))
        cores = await self._cores()
        measured = await shopping
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
        """How many are busy, from when the shoppers' process is there until they end."""
        await asyncio.sleep(START_S)
        cores = Cores({"nodes": self._pids, HBASE: lambda: of_cluster(self.cluster)}, REST)
        await asyncio.sleep(self.seconds - START_S)
        return cores.busy()

    def _pids(self) -> list[int]:
        return [node.process.pid for node in self.nodes.nodes if node.process is not None]


def pieces_of(measured: Measured) -> dict[str, dict[str, Timing]]:
    """By statement and piece; what the client waited beyond the node's own time is the `way`."""
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
