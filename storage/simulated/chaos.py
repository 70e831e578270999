"""Which faults happen, how often, and when: one seeded generator decides.

`Chaos` makes every decision. It counts the faults and folds them into a trace: two runs whose
traces have the same hash took the same course.
"""

from __future__ import annotations

import enum
import hashlib
import math
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


class Fault(enum.StrEnum):
    """The faults that a simulation can inject."""

    SLOW = "slow"
    """A call takes far longer than the others."""
    REQUEST_LOST = "request lost"
    """A client's request never arrives; the client waits in vain."""
    REQUEST_TWICE = "request twice"
    """A client's request arrives twice, the second time perhaps long after the first."""
    REPLY_LOST = "reply lost"
    """A request took effect, and its answer never arrives."""
    STORE_REFUSED = "store refused"
    """A call to the table store fails without effect."""
    STORE_UNKNOWN = "store unknown"
    """A call to the table store takes effect, wholly or in part, and reports failure."""
    STORE_AWAY = "store away"
    """The table store answers nothing but errors for a while."""
    LOG_REFUSED = "log refused"
    """An append fails with nothing written."""
    LOG_UNKNOWN = "log unknown"
    """An append is written and synced, and reports failure."""
    LOG_TORN = "log torn"
    """An append fails half way: part of its bytes are written."""
    FENCE_SLOW = "fence slow"
    """A log is fenced seconds late: its files wait for their last writer."""
    DISK_FULL = "disk full"
    """Appends fail for a while, after a part of their bytes is written."""
    BIT_FLIP = "bit flip"
    """A bit of the log's unsealed tail or of a sealed segment changes unnoticed."""
    COORDINATION_REFUSED = "coordination refused"
    """A call to the coordination service fails without effect."""
    SESSION_EXPIRED = "session expired"
    """The coordination service hears no heartbeat of a live process, and ends its session."""
    LINK_BROKEN = "link broken"
    """A connection between members ends, with or without what is on its way."""
    PARTITION = "partition"
    """Two members cannot reach each other for a while; all other processes reach both."""
    CLOCK_SKEW = "clock skew"
    """A process begins with a wall clock that is wrong."""
    CLOCK_JUMP = "clock jump"
    """The wall clock of a process is set forwards or backwards."""
    CRASH = "crash"
    """A process ends between two steps; its machine lives."""
    MACHINE_CRASH = "machine crash"
    """A process and its machine end: what was not synced is lost in part."""
    FREEZE = "freeze"
    """A process stands still, and goes on later as if nothing had happened."""
    LAG = "lag"
    """One or several services answer one process late for a while, and other processes as always.
    Heartbeats and their answers are in time, so the session of the process stays alive."""

    __hash__ = str.__hash__  # Enum's is written in Python, and every call looks up a rate


@dataclass(frozen=True)
class Profile:
    """A fault workload. Latencies in milliseconds; `rate` is a probability per call; `every_s` is
    the mean time between faults that strike by themselves."""

    latency_ms: tuple[float, float] = (0.05, 1.0)
    slow_ms: tuple[float, float] = (20.0, 400.0)
    skew_ms: int = 200
    jump_ms: int = 2_000
    away_s: tuple[float, float] = (0.1, 3.0)
    frozen_s: tuple[float, float] = (0.05, 8.0)
    lag_s: tuple[float, float] = (0.2, 5.0)
    lagging: tuple[str, ...] = ()
    """Services that may lag, by name; empty: all."""
    apart_s: tuple[float, float] = (0.2, 8.0)
    fence_s: tuple[float, float] = (0.5, 8.0)
    down_s: tuple[float, float] = (0.0, 1.0)
    stops_s: float | None = None
    """With several nodes, one is stopped in good order about every so many seconds; None: the
    simulation draws the interval."""
    rate: Mapping[Fault, float] = field(default_factory=dict)
    every_s: Mapping[Fault, float] = field(default_factory=dict)

    @property
    def faults(self) -> frozenset[Fault]:
        """The faults that may happen under this profile."""
        return frozenset(self.rate) | frozenset(self.every_s)


class Chaos:
    """The decisions of one run. Faults begin with `unleash` and end with `calm`; latencies stay."""

    def __init__(self, seed: int, profile: Profile) -> None:
        self.random = random.Random(seed)
        self.profile = profile
        self.fired: Counter[Fault] = Counter()
        self._rate: dict[Fault, float] = {}
        self._trace = hashlib.blake2b(digest_size=8)

    def unleash(self) -> None:
        """From now on calls fail as often as the profile says."""
        self._rate = dict(self.profile.rate)

    def calm(self) -> None:
        """From now on no call fails."""
        self._rate.clear()

    @property
    def fails(self) -> bool:
        """True if any call may fail."""
        return bool(self._rate)

    def strikes(self, fault: Fault) -> bool:
        """Decide whether `fault` happens to this call."""
        rate = self._rate.get(fault)
        if rate is None or self.random.random() >= rate:
            return False
        self.strike(fault)
        return True

    def strike(self, fault: Fault) -> None:
        """Count `fault`, and note it in the trace."""
        self.fired[fault] += 1
        self.note(fault)

    def latency(self) -> float:
        """Seconds that a message takes one way."""
        low, high = self.profile.latency_ms
        if self.strikes(Fault.SLOW):
            low, high = self.profile.slow_ms
        return (low + (high - low) * self.random.random()) / 1000

    def between(self, bounds: tuple[float, float]) -> float:
        """A random duration within `bounds`, in their unit, 0.001 at least: orders of magnitude are
        equally likely, so short durations are more frequent."""
        low, high = max(bounds[0], 1e-3), max(bounds[1], 1e-3)
        return math.exp(self.random.uniform(math.log(low), math.log(high)))

    def until_next(self, fault: Fault) -> float | None:
        """Seconds until a fault that strikes by itself does so again; None: never."""
        mean = self.profile.every_s.get(fault)
        return None if mean is None else self.random.expovariate(1 / mean)

    def note(self, what: str) -> None:
        """Fold a decision or an event into the trace."""
        self._trace.update(f"{what}\n".encode())

    @property
    def trace_hash(self) -> str:
        """16 hexadecimal digits, equal for runs that took the same course."""
        return self._trace.hexdigest()
