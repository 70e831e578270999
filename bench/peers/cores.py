"""Who keeps how many of the machine's cores busy, so that one sees what a rate stands on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from hornbeam_server.cluster import Cluster

HBASE = "HBase, HDFS, ZooKeeper"

Groups = Mapping[str, Callable[[], Iterable[int]]]
"""By name, the numbers of processes, as they are when it is asked."""

_TICKS_S = os.sysconf("SC_CLK_TCK")
_IDLE = (3, 4)
"""Columns of the first line of /proc/stat that are idling and waiting for the disk."""


def of_cluster(cluster: Cluster) -> list[int]:
    """Its processes."""
    return [each.pid for each in cluster.status() if each.pid is not None]


class Cores:
    """Counts from when it is made; `rest`: what is not of `groups`."""

    def __init__(self, groups: Groups, rest: str) -> None:
        self._groups = groups
        self._rest = rest
        self._began, self._before = time.perf_counter(), self._busy_s()

    def busy(self) -> dict[str, float]:
        """By group, how many since then."""
        took_s, after = time.perf_counter() - self._began, self._busy_s()
        return {who: round((after[who] - self._before[who]) / took_s, 3) for who in after}

    def _busy_s(self) -> dict[str, float]:
        """Seconds of processor time until now."""
        found = {who: _seconds(pids()) for who, pids in self._groups.items()}
        return {**found, self._rest: _machine_seconds() - sum(found.values())}


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
