"""Measures whole joins, with all rows of two and of three relations, by scans of views and by joins
(Synergy, IX-B).

A time ends when all rows are in this process, in the driver's form for many rows. Hornbeam's rows
are Arrow, with all values. Phoenix's rows keep the driver's form and their values are not read,
since converting a value to Python takes 4 µs. So Phoenix has the advantage.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Protocol

from bench.peers.answers import same
from bench.peers.measuring import Measured, OnStep, rotated
from bench.peers.port import Cannot, Session, Task


class Reader(Session, Protocol):
    """A session that answers either from views or from base relations."""

    def drain(self, task: Task) -> int:
        """Bring all rows of a statement into this process. Returns their number. Raises Cannot."""


def drained(
    readers: Mapping[str, Reader],
    task: Task,
    rounds: int,
    *,
    compare: bool,
    on_step: OnStep = lambda _: None,
) -> dict[str, Measured]:
    """The measurements of each reader. The readers run in turn, after a round that is not counted.
    The answers of the first are the reference. `compare`: compare all values, not only the numbers
    of rows."""
    found = {way: Measured() for way in readers}
    for number in range(1 + rounds):
        for way in rotated(list(readers), number):
            _drain(readers[way], task, found[way], counts=number > 0)
            on_step(f"{task.name}, {way}")
    ran = [way for way, measured in found.items() if measured.error is None]
    answers = {way: readers[way].run(task, ()) for way in ran if compare}
    for way in ran:
        if compare:
            found[way].equal = same(task.name, answers[ran[0]], answers[way])
        else:
            found[way].equal = found[way].rows == found[ran[0]].rows
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
