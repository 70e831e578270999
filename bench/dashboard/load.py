"""Load generators, and the search for the highest load whose transactions take less than 100 ms.

As in the thesis (6.3), a generator sends a transaction, and waits about a second before the next.
So the number of generators is the load. A transaction that the database refuses for contention or
overload is sent again, and its time includes that. The thesis does not say which share of the
transactions must meet the 100 ms; here it is 99 %.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from bench.connections import Connection, at_once
from bench.dashboard.data import UPDATE, cost
from bench.serving import post
from hornbeam_server.demo.measures import percentile

LIMIT_MS = 100.0
SHARE = 0.99
WAIT_S = 1.0
"""Seconds that a generator waits between two transactions."""
UP, DOWN = 1.6, 2.0
"""The factors between loads until one holds and one does not: upwards, and downwards."""
CLOSE = 1.1
"""The factor between a load that holds and one that does not, at which the search ends."""
CONNECTIONS = 8
"""Concurrent transactions of the estimate from which the search begins."""
BEGIN_AT = 0.7
"""The share of the estimated rate at which the search begins."""


@dataclass(frozen=True, slots=True)
class Updates:
    """Draws transactions that set the cost of `size` events each, out of `events`."""

    events: int
    size: int

    def request(self, rng: random.Random) -> bytes:
        chosen = sorted(rng.sample(range(self.events), self.size))
        statements = [{"sql": UPDATE, "parameters": [str(cost(rng)), number]} for number in chosen]
        return post("/v1/transactions", {"statements": statements})


@dataclass(frozen=True, slots=True)
class Trial:
    """A run of `generators`: transactions a second, and the time in which `SHARE` of them were
    answered."""

    generators: int
    rate: float
    time_ms: float

    @property
    def holds(self) -> bool:
        return self.time_ms <= LIMIT_MS


async def trial(ports: Sequence[int], updates: Updates, generators: int, seconds: float) -> Trial:
    """Run generators for `seconds`, after `WAIT_S` in which they begin. Transactions that are
    answered later than that count, also those that are answered after the end."""
    began = time.monotonic()
    counted_from, until = began + WAIT_S, began + WAIT_S + seconds
    times: list[float] = []
    done = 0

    async def generate(number: int, connection: Connection) -> None:
        nonlocal done
        rng = random.Random(f"{generators}/{number}/{began}")
        await asyncio.sleep(rng.random() * WAIT_S)
        while time.monotonic() < until:
            request = updates.request(rng)
            start = time.monotonic()
            await connection.ask(request)
            end = time.monotonic()
            if end >= counted_from:
                times.append((end - start) * 1000)
                done += end <= until
            await asyncio.sleep(WAIT_S)

    await at_once(ports, generators, generate)
    return Trial(generators, done / seconds, percentile(times, SHARE))


async def estimate(ports: Sequence[int], updates: Updates, seconds: float) -> int:
    """A number of generators to begin the search at, from a run without waiting."""
    until, count = time.monotonic() + seconds, 0

    async def transact(number: int, connection: Connection) -> None:
        nonlocal count
        rng = random.Random(number)
        while time.monotonic() < until:
            await connection.ask(updates.request(rng))
            count += 1

    await at_once(ports, CONNECTIONS, transact)
    return max(round(count / seconds * WAIT_S * BEGIN_AT), 1)


async def highest(
    attempt: Callable[[int], Awaitable[Trial]], first: int, tries: int
) -> tuple[Trial | None, list[Trial]]:
    """The trial with the highest rate that holds, and all trials.

    The number of generators rises from `first` by `UP` or falls by `DOWN`. Then it lies between the
    highest that holds and the lowest that does not, until both are `CLOSE`. The search ends after
    `tries`. None if no trial holds.
    """
    trials: list[Trial] = []
    holding, failing = 0, 0
    generators = first
    while len(trials) < tries:
        found = await attempt(generators)
        trials.append(found)
        if found.holds:
            holding = max(holding, generators)
        else:
            failing = min(failing or generators, generators)
        generators = _next(holding, failing)
        if generators in {each.generators for each in trials} or generators < 1:
            break
    held = [each for each in trials if each.holds]
    return max(held, key=lambda each: each.rate, default=None), trials


def _next(holding: int, failing: int) -> int:
    """The next number of generators, given the highest that holds and the lowest that does not
    (0: none yet). The highest that holds again, if the search is over."""
    if not failing:
        return round(holding * UP) + 1
    if not holding:
        return int(failing / DOWN)
    if failing <= holding * CLOSE:
        return holding
    return round(math.sqrt(holding * failing))
