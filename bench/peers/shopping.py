"""Runs the same emulated browsers on every system. Each browser uses the system's own driver in a
thread of this process. All browsers and drivers share the process and the machine.

An interaction counts if all its statements end in time. A refusal (a conflict, a statement that the
system cannot run) ends the interaction, which is not repeated.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, count
from typing import Any, TypeVar

from bench.peers.contention import OPEN_S
from bench.peers.cores import HBASE, Cores, of_cluster
from bench.peers.measuring import OnStep
from bench.peers.port import Cannot, Row, Session, System, Task
from bench.peers.results import Throughput
from bench.peers.throughput import APART
from hornbeam_server.cluster import Cluster
from hornbeam_server.demo.measures import percentile
from hornbeam_server.demo.tpcw.data import Size
from hornbeam_server.demo.tpcw.sessions import (
    Counter,
    EmulatedBrowser,
    Measured,
    Parameters,
    StatementFailed,
)

DRIVERS = "emulated browsers and drivers"
REST = "nodes, PostgreSQL, others"

T = TypeVar("T")


class SessionStore:
    """A `Store` over a session of a system. Its calls block, so every browser has a thread."""

    def __init__(self, session: Session, tasks: Mapping[str, Task], measured: Measured) -> None:
        self._session = session
        self._tasks = tasks
        self._measured = measured

    async def read(self, name: str, *parameters: Any) -> Sequence[Row]:
        return self._timed(name, lambda: self._session.run(self._tasks[name], parameters))

    async def write(self, *statements: tuple[str, Parameters]) -> None:
        writes = [(self._tasks[name], values) for name, values in statements]
        names = dict.fromkeys(name for name, _ in statements)
        self._timed(" + ".join(names), lambda: self._session.transact(writes))

    def _timed(self, name: str, work: Callable[[], T]) -> T:
        began = time.perf_counter()
        try:
            found = work()
        except Cannot as error:
            raise StatementFailed(f"{name}: {error}") from error
        self._measured.latencies[name].append((time.perf_counter() - began) * 1000)
        return found


@dataclass(frozen=True, slots=True)
class SystemRun:
    """A run of `clients` emulated browsers on a system. `skip`: the number of new keys that earlier
    runs have taken."""

    system: System
    tasks: Mapping[str, Task]
    size: Size
    clients: int
    seconds: float
    mix: str
    skip: int

    def run(self) -> list[Measured]:
        """Run the browsers. Returns the measurements of each."""
        counter = Counter(self.size, self.skip)
        ready = threading.Barrier(self.clients, timeout=OPEN_S)

        def client(number: int) -> Measured:
            measured = Measured()
            with closing(self.system.session()) as session:
                store = SessionStore(session, self.tasks, measured)
                browser = EmulatedBrowser(store, self.size, counter, f"{self.skip}/{number}")
                ready.wait()
                until = time.monotonic() + self.seconds
                asyncio.run(browser.run(until, self.mix, measured))
            return measured

        with ThreadPoolExecutor(self.clients) as pool:
            return list(pool.map(client, range(self.clients)))


def shopping(
    systems: Mapping[str, System],
    cluster: Cluster,
    tasks: Mapping[str, Task],
    size: Size,
    mixes: Sequence[str],
    clients: Sequence[int],
    seconds: float,
    on_step: OnStep = lambda _: None,
) -> dict[str, tuple[Throughput, ...]]:
    """The throughput by system. Each mix with each number of clients runs on all systems in turn,
    one system at a time."""
    found: dict[str, list[Throughput]] = {name: [] for name in systems}
    skips = count(APART, APART)
    groups = {HBASE: lambda: of_cluster(cluster), DRIVERS: lambda: [os.getpid()]}
    for mix in mixes:
        for number in clients:
            skip = next(skips)
            for name, system in systems.items():
                run = SystemRun(system, tasks, size, number, seconds, mix, skip)
                cores = Cores(groups, REST)
                found[name].append(_point(run, run.run(), cores.busy()))
                on_step(f"{mix}, {number} clients, {name}")
    return {name: tuple(points) for name, points in found.items()}


def _point(run: SystemRun, measured: Sequence[Measured], cores: Mapping[str, float]) -> Throughput:
    times = list(chain.from_iterable(chain.from_iterable(m.latencies.values()) for m in measured))
    errors = list(chain.from_iterable(each.errors for each in measured))
    return Throughput(
        run.mix,
        1,
        run.clients,
        run.seconds,
        sum(each.interactions for each in measured),
        len(errors),
        statistics.median(times) if times else 0.0,
        percentile(times, 0.99) if times else 0.0,
        cores,
        errors[-1] if errors else None,
    )
