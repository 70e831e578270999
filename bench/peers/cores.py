"""Counts the cores that groups of processes keep busy, so that a rate can be judged."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from hornbeam_server.cluster import Cluster

HBASE = "HBase, HDFS, ZooKeeper"

Groups = Mapping[str, Callable[[], Iterable[int]]]
"""By name: a function that returns the current process ids of the group."""

_TICKS_S = os.sysconf("SC_CLK_TCK")
_IDLE = (3, 4)
"""Columns of the first line of /proc/stat: the times of idling and of waiting for the disk."""


def of_cluster(cluster: Cluster) -> list[int]:
    """The process ids of a cluster."""
    return [each.pid for each in cluster.status() if each.pid is not None]


class Cores:
    """Counts busy cores since its creation. `rest` names the processes outside `groups`."""

    def __init__(self, groups: Groups, rest: str) -> None:
        self._groups = groups
        self._rest = rest
        self._began, self._before = time.perf_counter(), self._busy_s()

    def busy(self) -> dict[str, float]:
        """By group: the average number of busy cores since the creation."""
        elapsed_s, after = time.perf_counter() - self._began, self._busy_s()
        return {
            group: round((after[group] - self._before[group]) / elapsed_s, 3) for group in after
        }

    def _busy_s(self) -> dict[str, float]:
        """By group: seconds of processor time until now."""
        found = {group: _seconds(pids()) for group, pids in self._groups.items()}
        return {**found, self._rest: _machine_seconds() - sum(found.values())}


def _seconds(pids: Iterable[int]) -> float:
    """Processor time of all threads of the processes."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])  # user and system
    return ticks / _TICKS_S


def _machine_seconds() -> float:
    """Time of all cores together that was not idle."""
    _, *columns = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    busy = sum(int(ticks) for place, ticks in enumerate(columns[:8]) if place not in _IDLE)
    return busy / _TICKS_S
