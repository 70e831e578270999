"""Shoppers at one node and at several, and where the time of their requests goes.

The shoppers, the nodes and HBase share the machine's cores; who kept how many of them busy is
counted with every point, so that one sees what a rate stands on.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

import hornbeam
from bench import remote
from bench.measure import percentile
from bench.nodes import NodeProcesses
from bench.peers.design import Source
from bench.peers.measuring import Told
from bench.peers.results import Throughput, Timing
from bench.tpcw.data import Size
from bench.tpcw.sessions import Measured, Shopping, shop_in_process
from cluster import Cluster

APART = 1_000_000
"""New keys of one point, and of the next."""
WARM_UP_CLIENTS = 8
START_S = 1.5
"""Until the shoppers' process shops; not counted as busy."""
PIECES_MIX = "ordering"
"""It has all statements often enough, the writes above all."""

_NAMES = {"lock": "lock and read"}
"""Pieces that the node calls otherwise."""
_TICKS_S = os.sysconf("SC_CLK_TCK")
_IDLE = (3, 4)
"""Columns of the first line of /proc/stat that are idling and waiting for the disk."""


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
        before, began = self._busy(), time.perf_counter()
        await asyncio.sleep(self.seconds - START_S)
        took_s, after = time.perf_counter() - began, self._busy()
        return {who: round((after[who] - before[who]) / took_s, 3) for who in after}

    def _busy(self) -> dict[str, float]:
        """Seconds of processor time until now."""
        nodes = _seconds(node.process.pid for node in self.nodes.nodes if node.process is not None)
        hbase = _seconds(each.pid for each in self.cluster.status() if each.pid is not None)
        return {
            "nodes": nodes,
            "HBase, HDFS, ZooKeeper": hbase,
            "shoppers and others": _machine_seconds() - nodes - hbase,
        }


def _seconds(pids: Iterable[int]) -> float:
    """Of these processes, all threads."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])  # user and system
    return ticks / _TICKS_S


def _machine_seconds() -> float:
    """Of all cores together, what was not idle."""
    _, *columns = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    busy = sum(int(ticks) for place, ticks in enumerate(columns[:8]) if place not in _IDLE)
    return busy / _TICKS_S


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
