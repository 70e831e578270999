"""Many clients update rows of one relation at once, some rows more often than others: who waits,
who is refused, and what gets done."""

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

from bench.measure import percentile
from bench.peers.measuring import Told
from bench.peers.port import Cannot, System, Task
from bench.peers.results import Contention
from bench.peers.script import Values

OPEN_S = 60.0
"""Within this all clients have their session."""


class Zipf:
    """Draws 1 to `count`; a number's weight is its inverse to the power `skew`. 0: all alike."""

    def __init__(self, count: int, skew: float) -> None:
        self._sums = list(itertools.accumulate(n**-skew for n in range(1, count + 1)))

    def draw(self, chance: random.Random) -> int:
        return bisect.bisect(self._sums, chance.random() * self._sums[-1]) + 1


@dataclass(frozen=True, slots=True)
class Crowd:
    """`task` is run by `clients` at once for `seconds` with the `values` of a row, of which there
    are `rows`, drawn by Zipf's law with each of the `skews`."""

    task: Task
    values: Callable[[int], Values]
    rows: int
    skews: Sequence[float]
    clients: int
    seconds: float
    seed: int = 7


@dataclass
class _Seen:
    times_ms: list[float] = field(default_factory=list)
    refused: int = 0
    error: str | None = None


def contention(
    systems: Mapping[str, System], crowd: Crowd, tell: Told = lambda _: None
) -> dict[str, tuple[Contention, ...]]:
    """Each skew on all systems in turn, one system at a time."""
    found: dict[str, list[Contention]] = {name: [] for name in systems}
    for skew in crowd.skews:
        for name, system in systems.items():
            found[name].append(_point(system, crowd, skew))
            tell(f"skew {skew:g}, {name}")
    return {name: tuple(points) for name, points in found.items()}


def _point(system: System, crowd: Crowd, skew: float) -> Contention:
    zipf, seen = Zipf(crowd.rows, skew), [_Seen() for _ in range(crowd.clients)]
    ready = threading.Barrier(crowd.clients, timeout=OPEN_S)

    def client(number: int) -> None:
        chance = random.Random(f"{crowd.seed}/{skew}/{number}")
        with closing(system.session()) as session:
            ready.wait()
            until = time.perf_counter() + crowd.seconds
            while (began := time.perf_counter()) < until:
                try:
                    session.run(crowd.task, crowd.values(zipf.draw(chance)))
                except Cannot as error:
                    seen[number].refused += 1
                    seen[number].error = str(error)
                else:
                    seen[number].times_ms.append((time.perf_counter() - began) * 1000)

    with ThreadPoolExecutor(crowd.clients) as pool:
        for future in [pool.submit(client, number) for number in range(crowd.clients)]:
            future.result()
    times = list(itertools.chain.from_iterable(each.times_ms for each in seen))
    return Contention(
        skew,
        crowd.clients,
        crowd.seconds,
        len(times),
        sum(each.refused for each in seen),
        statistics.median(times) if times else 0.0,
        percentile(times, 0.99) if times else 0.0,
        next((each.error for each in seen if each.error is not None), None),
    )
