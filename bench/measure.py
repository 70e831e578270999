"""The common parts of the benchmarks: rounds and medians, figures with goals, a description of the
machine, a table and a report.

A figure is the median over rounds. Times of a shared machine scatter, so comparable figures of one
run are also given as ratios.
"""

from __future__ import annotations

import cProfile
import json
import pstats
import shutil
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from hornbeam_server.demo.measures import machine, versions

PROFILE_LINES = 4
"""Number of functions that the sentence about a missed goal names."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured number: `value` is the median of `rounds`, in `unit`.

    `at_least` or `at_most` is the goal. `note` describes the measurement. `why` explains a missed
    goal.
    """

    section: str
    name: str
    unit: str
    rounds: tuple[float, ...]
    at_least: float | None = None
    at_most: float | None = None
    note: str = ""
    why: str = ""

    @property
    def value(self) -> float:
        return statistics.median(self.rounds)

    @property
    def met(self) -> bool | None:
        """Whether the value meets the goal; None without a goal."""
        if self.at_least is not None:
            return self.value >= self.at_least
        return None if self.at_most is None else self.value <= self.at_most

    def json(self) -> dict[str, Any]:
        return {
            "section": self.section,
            "name": self.name,
            "value": _significant(self.value),
            "unit": self.unit,
            "rounds": [_significant(value) for value in self.rounds],
            "at_least": self.at_least,
            "at_most": self.at_most,
            "met": self.met,
            "note": self.note,
            "why": self.why,
        }


def _significant(value: float) -> float:
    return float(f"{value:.4g}")


@dataclass(frozen=True, slots=True)
class Taken:
    """Seconds by the clock, and seconds of this process's processor time."""

    clock: float
    processor: float


def in_turns(works: Sequence[Callable[[], object]], rounds: int) -> list[list[Taken]]:
    """Run the works in turn. Returns the times of each work by round, without those of a first
    round, which warms up."""
    taken: list[list[Taken]] = [[] for _ in works]
    for number in range(rounds + 1):
        for work, of_work in zip(works, taken, strict=True):
            clock, processor = time.perf_counter(), time.process_time()
            work()
            turn = Taken(time.perf_counter() - clock, time.process_time() - processor)
            if number:
                of_work.append(turn)
    return taken


def ratios(of: Iterable[float], to: Iterable[float]) -> tuple[float, ...]:
    """The ratio of `of` to `to` in each round."""
    return tuple(a / b for a, b in zip(of, to, strict=True))


async def seconds(work: Callable[[], Awaitable[object]]) -> float:
    """The seconds of one run of `work`."""
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


async def where_time_goes(work: Callable[[], Awaitable[object]]) -> str:
    """A phrase that names the functions in which `work` spends most time, without their callees."""
    profile = cProfile.Profile()
    profile.enable()
    await work()
    profile.disable()
    stats = pstats.Stats(profile)
    own: dict[str, float] = {}
    for (file, _line, function), (_, _, own_s, _, _) in stats.stats.items():  # type: ignore[attr-defined]
        name = _function_name(file, function)
        own[name] = own.get(name, 0.0) + own_s
    total = sum(own.values())
    slowest = sorted(own.items(), key=lambda item: -item[1])[:PROFILE_LINES]
    return "time goes to " + ", ".join(f"{name} {own_s / total:.0%}" for name, own_s in slowest)


def _function_name(file: str, function: str) -> str:
    if file == "~":
        return function.strip("<>{}").removeprefix("built-in method ").replace("builtins.", "")
    return f"{Path(file).stem}.{function}"


def write_report(
    output: Path,
    folder: Path,
    options: Mapping[str, Any],
    figures: Sequence[Figure],
    elapsed_s: float,
) -> None:
    """Write the JSON report of figures that were measured with the data in `folder`."""
    document = {
        "machine": machine(folder.parent),
        "versions": versions(),
        "settings": {key: str(v) if isinstance(v, Path) else v for key, v in options.items()},
        "figures": [figure.json() for figure in figures],
        "missed": [sentence(figure) for figure in figures if figure.met is False],
        "seconds": round(elapsed_s, 1),
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(document, indent=2) + "\n")


def run_in_folder(
    folder: Path,
    output: Path,
    settings: Mapping[str, Any],
    measure: Callable[[], Sequence[Figure]],
    console: Console,
) -> None:
    """Measure with an empty `folder`, which is removed at the end. Print the figures, and write the
    JSON report with the `settings` to `output`."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    began = time.perf_counter()
    figures = measure()
    print_figures(console, figures)
    elapsed_s = time.perf_counter() - began
    write_report(output, folder, settings, figures, elapsed_s)
    shutil.rmtree(folder)
    console.print(f"{elapsed_s:.0f} s. The report is {output}.")


def sentence(figure: Figure) -> str:
    """A sentence about a missed goal."""
    goal = f"at least {figure.at_least:,g}" if figure.at_least else f"at most {figure.at_most:,g}"
    text = f"{figure.section}, {figure.name}: {shown(figure.value)} {figure.unit}, wanted {goal}"
    return f"{text}; {figure.why}." if figure.why else f"{text}."


def shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def print_figures(console: Console, figures: Sequence[Figure]) -> None:
    table = Table(title="Medians of this run")
    for name in ("", "measured", "goal", "spread"):
        table.add_column(name, justify="left" if not name else "right")
    table.add_column("", overflow="fold")
    section = ""
    for figure in figures:
        if figure.section != section:
            table.add_section()
            section = figure.section
        mark = {True: "[green]met[/green]", False: "[red]missed[/red]", None: ""}[figure.met]
        sign, goal = ("≥", figure.at_least) if figure.at_least else ("≤", figure.at_most)
        spread = (
            ""
            if len(figure.rounds) == 1
            else f"{shown(min(figure.rounds))} … {shown(max(figure.rounds))}"
        )
        table.add_row(
            f"{section}: {figure.name}",
            f"{shown(figure.value)} {figure.unit}",
            f"{sign} {goal:,g} {mark}" if goal else "",
            spread,
            figure.note,
        )
    console.print(table)
    for figure in figures:
        if figure.met is False:
            console.print(sentence(figure), highlight=False)
