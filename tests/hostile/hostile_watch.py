"""Memory, threads, descriptors and children of the server, read from /proc during the attack."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

EVERY_S = 0.2
PAGE = os.sysconf("SC_PAGE_SIZE")
PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """Fields of /proc/PID/stat. `since` distinguishes it from a later process with the same id."""

    pid: int
    parent: int
    threads: int
    since: int
    rss: int


@dataclass(frozen=True)
class Sample:
    at: float
    rss: int
    """Memory of the server alone, in bytes."""
    all_rss: int
    """Memory with all its children; shared memory counts in each process."""
    threads: int
    descriptors: int
    children: int


def process(pid: int) -> Process | None:
    """Read a process; None if there is none with this id, or it has ended and is not yet reaped."""
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *fields = text.rpartition(")")[2].split()
    if state in "ZX":
        return None
    numbers = [int(word) for word in fields]
    return Process(pid, numbers[0], numbers[16], numbers[18], numbers[20] * PAGE)


def family_of(pid: int) -> list[Process]:
    """Return the process and all its descendants; an empty list if it has ended."""
    found = [process(int(each.name)) for each in PROC.iterdir() if each.name.isdigit()]
    running = [each for each in found if each is not None]
    family = [each for each in running if each.pid == pid]
    for parent in family:  # the list grows during the loop
        family += [each for each in running if each.parent == parent.pid]
    return family


class Watch(threading.Thread):
    """Takes samples until `stop`. Calls `too_much` once, when all processes together hold more than
    `most` bytes, so that the machine does not run out of memory."""

    def __init__(self, pid: int, most: int, too_much: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.samples: list[Sample] = []
        self.most = most
        self.exceeded = False
        self._too_much = too_much
        self._children: set[tuple[int, int]] = set()
        self._over = threading.Event()
        self._since = first.since if (first := process(pid)) else 0
        with contextlib.suppress(OSError):  # reset the peak, so that it is that of the attack
            (PROC / str(pid) / "clear_refs").write_text("5")

    def run(self) -> None:
        while not self._over.wait(EVERY_S):
            family = family_of(self.pid)
            if family:
                self._sample(family)

    def _sample(self, family: list[Process]) -> None:
        server, *children = family
        self._children |= {(each.pid, each.since) for each in children}
        total = sum(each.rss for each in family)
        descriptors = 0
        with contextlib.suppress(OSError):
            descriptors = len(os.listdir(PROC / str(self.pid) / "fd"))
        self.samples.append(
            Sample(time.monotonic(), server.rss, total, server.threads, descriptors, len(children))
        )
        if total > self.most and not self.exceeded:
            self.exceeded = True
            self._too_much()

    def stop(self) -> None:
        self._over.set()
        self.join()

    @property
    def same(self) -> bool:
        """Whether the process is still the one that the watch began with."""
        now = process(self.pid)
        return now is not None and now.since == self._since

    def peak(self) -> int:
        """Maximum memory of the server alone, in bytes, from the kernel and the samples."""
        most = max((sample.rss for sample in self.samples), default=0)
        with contextlib.suppress(OSError):
            for line in (PROC / str(self.pid) / "status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    return max(most, int(line.split()[1]) * 1024)
        return most

    def left_over(self) -> list[int]:
        """Return the observed children that still run; call this when the server has ended."""
        return [pid for pid, since in self._children if (p := process(pid)) and p.since == since]
