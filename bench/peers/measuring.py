"""Runs the statements on all systems, interleaved, so that a disturbance of the machine affects all
systems."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import TypeVar

from bench.peers.answers import same
from bench.peers.port import Cannot, Row, Session, System, Task
from bench.peers.script import Step, Values

T = TypeVar("T")
OnStep = Callable[[str], None]
"""A callback. It gets the name of a step."""


@dataclass
class Measured:
    """The measurements of a statement on a system. `equal`: whether every answer equals the
    reference's; None without a reference."""

    times_ms: list[float] = field(default_factory=list)
    rows: int = 0
    error: str | None = None
    equal: bool | None = None


def measure(
    systems: Mapping[str, System],
    steps: Sequence[Step],
    tasks: Mapping[str, Task],
    *,
    warm_up: int,
    on_step: OnStep = lambda _: None,
) -> dict[str, dict[str, Measured]]:
    """The measurements by system (its name in `systems`) and statement. The answers of the first
    system are the reference for the others.

    Every run of a statement takes place on all systems in turn, each time with another system
    first. The first `warm_up` runs are not counted. A statement that fails on a system is not run
    there again.
    """
    with ExitStack() as stack:
        sessions = {
            name: stack.enter_context(closing(system.session())) for name, system in systems.items()
        }
        return _turned(
            [_step(step, tasks[step.name], sessions, warm_up, on_step) for step in steps]
        )


def _step(
    step: Step, task: Task, sessions: Mapping[str, Session], warm_up: int, on_step: OnStep
) -> tuple[str, dict[str, Measured]]:
    on_step(step.name)
    found = {name: Measured() for name in sessions}
    for number, values in enumerate(step.runs):
        answers = {
            name: rows
            for name in rotated(list(sessions), number)
            if (rows := _run(sessions[name], task, values, found[name], number >= warm_up))
            is not None
        }
        if task.reads:
            _compare(task.name, list(sessions), answers, found)
    return step.name, found


def _run(
    session: Session, task: Task, values: Values, measured: Measured, counts: bool
) -> list[Row] | None:
    """Run a statement, and return its rows; None if it fails or failed before."""
    if measured.error is not None:
        return None
    began = time.perf_counter()
    try:
        rows = session.run(task, values)
    except Cannot as error:
        measured.error = str(error)
        return None
    if counts:
        measured.times_ms.append((time.perf_counter() - began) * 1000)
        measured.rows += len(rows)
    return rows


def _compare(
    name: str,
    systems: Sequence[str],
    answers: Mapping[str, list[Row]],
    found: Mapping[str, Measured],
) -> None:
    reference = answers.get(systems[0])
    if reference is None:
        return
    for system, rows in answers.items():
        equal = same(name, reference, rows)
        found[system].equal = equal and found[system].equal is not False


def rotated(items: Sequence[T], by: int) -> list[T]:
    """The items, rotated by `by` places."""
    by %= len(items)
    return [*items[by:], *items[:by]]


def _turned(
    by_statement: Sequence[tuple[str, dict[str, Measured]]],
) -> dict[str, dict[str, Measured]]:
    """The measurements by system and statement."""
    turned: dict[str, dict[str, Measured]] = {}
    for name, found in by_statement:
        for system, measured in found.items():
            turned.setdefault(system, {})[name] = measured
    return turned
