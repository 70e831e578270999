"""Whole joins, all rows of two and of three relations, by scans of views and by joining (Synergy,
IX-B).

Timed is how long it takes until all rows are in this process, in the form that the driver has for
many: of Hornbeam as Arrow, with all values; of Phoenix as its own rows, whose values nobody takes
out, since each takes 4 µs to become Python's. So the advantage is Phoenix's.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Protocol

from bench.peers.answers import same
from bench.peers.measuring import Measured, Told, rotated
from bench.peers.port import Cannot, Session, Task


class Reader(Session, Protocol):
    """A session that answers in one way: from views, or from the base relations."""

    def drain(self, task: Task) -> int:
        """How many rows it gives, all of them brought into this process. Raises Cannot."""


def drained(
    readers: Mapping[str, Reader],
    task: Task,
    rounds: int,
    *,
    compare: bool,
    tell: Told = lambda _: None,
) -> dict[str, Measured]:
    """By way of answering; all in turn, after a round that does not count. The answers of the first
    are the reference: `compare` all their values, or only how many rows they have."""
    found = {way: Measured() for way in readers}
    for number in range(1 + rounds):
        for way in rotated(list(readers), number):
            _drain(readers[way], task, found[way], counts=number > 0)
            tell(f"{task.name}, {way}")
    right = [way for way, measured in found.items() if measured.error is None]
    answers = {way: readers[way].run(task, ()) for way in right if compare}
    for way in right:
        if compare:
            found[way].equal = same(task.name, answers[right[0]], answers[way])
        else:
            found[way].equal = found[way].rows == found[right[0]].rows
    return found


def _drain(reader: Reader, task: Task, measured: Measured, *, counts: bool) -> None:
    if measured.error is not None:
        return
    began = time.perf_counter()
    try:
        rows = reader.drain(task)
    except Cannot as error:
        measured.error = str(error)
        return
    if counts:
        measured.times_ms.append((time.perf_counter() - began) * 1000)
        measured.rows += rows
