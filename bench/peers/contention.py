"""Measures contention: concurrent clients update rows of one relation, some rows more often than
others. The result has throughput, refusals and latencies."""

from __future__ import annotations

import bisect
import itertools
import random
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field

from bench.peers.measuring import OnStep
from bench.peers.port import Cannot, System, Task
from bench.peers.results import Contention
from bench.peers.script import Values
from hornbeam_server.demo.measures import percentile

OPEN_S = 60.0
"""Maximum time until all clients have their sessions."""


class Zipf:
    """Draws numbers from 1 to `count`. The weight of n is 1 / n to the power `skew`. With 0, all
    weights are equal."""

    def __init__(self, count: int, skew: float) -> None:
        self._sums = list(itertools.accumulate(n**-skew for n in range(1, count + 1)))

    def draw(self, rng: random.Random) -> int:
        return bisect.bisect(self._sums, rng.random() * self._sums[-1]) + 1


@dataclass(frozen=True, slots=True)
class ContendedUpdates:
    """`clients` concurrent clients run `task` for `seconds`. `values` gives the parameters for a
    row. Zipf's law draws the row from 1 to `rows`, with each of the `skews`."""

    task: Task
    values: Callable[[int], Values]
    rows: int
    skews: Sequence[float]
    clients: int
    seconds: float
    seed: int = 7


@dataclass
class _Measured:
    times_ms: list[float] = field(default_factory=list)
    refused: int = 0
    error: str | None = None


def contention(
    systems: Mapping[str, System], updates: ContendedUpdates, on_step: OnStep = lambda _: None
) -> dict[str, tuple[Contention, ...]]:
    """The results by system. Each skew runs on all systems in turn, one system at a time."""
    found: dict[str, list[Contention]] = {name: [] for name in systems}
    for skew in updates.skews:
        for name, system in systems.items():
            found[name].append(_point(system, updates, skew))
            on_step(f"skew {skew:g}, {name}")
    return {name: tuple(points) for name, points in found.items()}


def _point(system: System, updates: ContendedUpdates, skew: float) -> Contention:
    zipf, measured = Zipf(updates.rows, skew), [_Measured() for _ in range(updates.clients)]
    ready = threading.Barrier(updates.clients, timeout=OPEN_S)

    def client(number: int) -> None:
        rng = random.Random(f"{updates.seed}/{skew}/{number}")
        with closing(system.session()) as session:
            ready.wait()
            until = time.perf_counter() + updates.seconds
            while (began := time.perf_counter()) < until:
                try:
                    session.run(updates.task, updates.values(zipf.draw(rng)))
                except Cannot as error:
                    measured[number].refused += 1
                    measured[number].error = str(error)
                else:
                    measured[number].times_ms.append((time.perf_counter() - began) * 1000)

    with ThreadPoolExecutor(updates.clients) as pool:
        for future in [pool.submit(client, number) for number in range(updates.clients)]:
            future.result()
    times = list(itertools.chain.from_iterable(each.times_ms for each in measured))
    return Contention(
        skew,
        updates.clients,
        updates.seconds,
        len(times),
        sum(each.refused for each in measured),
        statistics.median(times) if times else 0.0,
        percentile(times, 0.99) if times else 0.0,
        next((each.error for each in measured if each.error is not None), None),
    )
