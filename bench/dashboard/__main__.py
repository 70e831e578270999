"""CloudTPS's evaluation on its Dashboard schema (Nikolov 2011, 6.3): transactions a second of which
99 % are answered within 100 ms, against the number of events that each updates (`make
bench-dashboard`).

A view has the cost by shop and category. It is immediate, or deferred and kept by `hornbeam
refresh` at an interval, and is compared with no view: for each number of events both are measured
one after the other. The database is a server over RocksDB, or several nodes on a real HBase
(`--nodes`, needs Java and Maven). Servers, Spark and the load generators share one machine.

At the end of each mode the view is verified, and all of its sums are multiples of the number that
divides all costs (6.2). Prints a table and writes a JSON report.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console

import hornbeam
from bench import remote
from bench.dashboard.data import DIVISOR, IMMEDIATE, NOTHING, RELATIONS, VIEW, Mode, deferred, rows
from bench.dashboard.load import LIMIT_MS, SHARE, Trial, Updates, estimate, highest, trial
from bench.dashboard.refreshing import Refreshing, reached_s, refreshing
from bench.measure import Figure, ratios
from bench.options import REPORT, Numbers, parse
from bench.peers.design import Source
from bench.sites import Serve, Site, measure_at_sites
from hornbeam_server.demo.ending import ended_by_sigterm

SIZES = Numbers((1, 10, 50, 150))
INTERVALS = Numbers((50, 500, 5_000))
ESTIMATE_S = 1.0
UNIT = f"transactions/s under {LIMIT_MS:g} ms"


@dataclass(frozen=True, slots=True)
class Options:
    """The options that `--help` explains."""

    sizes: Annotated[Numbers, "numbers of events that a transaction updates"] = SIZES
    intervals: Annotated[Numbers, "milliseconds between batches of a deferred view"] = INTERVALS
    events: Annotated[int, "number of events"] = 5_000
    seconds: Annotated[float, "seconds of a trial; at least the view's interval"] = 2.5
    tries: Annotated[int, "most trials of the search for the highest load"] = 5
    nodes: Annotated[int, "nodes on a real HBase; 0: a server over RocksDB"] = 0
    folder: Annotated[Path, "folder of the databases; it is emptied"] = Path("var/bench-dashboard")
    output: Annotated[Path, REPORT] = Path("bench/reports/dashboard.json")


@dataclass(frozen=True, slots=True)
class Point:
    """A search: the trial with the highest rate that holds, if any, the number of trials, and the
    seconds between the batches of a deferred view during them."""

    size: int
    best: Trial | None
    trials: int
    reached_s: float | None = None

    @property
    def rate(self) -> float:
        return self.best.rate if self.best is not None else 0.0


class NotRight(AssertionError):
    """A view differs from its SELECT, so its rates mean nothing."""


# ---------------------------------------------------------------- databases


def _fill(site: Site, mode: Mode, events: int) -> None:
    source = Source(mode.ddl, "", (), {}, RELATIONS, partial(rows, events=events))
    with closing(hornbeam.connect(site.url, autocommit=True, timeout_s=600)) as db:
        remote.apply(db, source)
        for relation in RELATIONS:
            remote.load(db, relation, source.rows(relation))


def _check(site: Site) -> None:
    """Raises NotRight if the view is wrong."""
    with closing(hornbeam.connect(site.url, autocommit=True, timeout_s=600)) as db:
        report = remote.verify(db)
        cursor = db.cursor()
        cursor.execute(f"SELECT cost FROM {VIEW}")
        right(report, [cost for (cost,) in cursor.fetchall()])


def right(report: Mapping[str, Any], costs: Sequence[Decimal]) -> None:
    """Raise NotRight if the report of a verification has differences, or the costs of the groups
    are not multiples of the divisor of all costs."""
    if report["differences"] or not costs or any(cost % DIVISOR for cost in costs):
        raise NotRight(f"{VIEW} is wrong: {report}, {len(costs)} groups")


# ---------------------------------------------------------------- measuring


def _point(
    site: Site, size: int, options: Options, seconds: float, batches: Refreshing | None = None
) -> Point:
    began = time.monotonic()
    updates = Updates(options.events, size)

    async def search() -> tuple[Trial | None, list[Trial]]:
        first = await estimate(site.ports, updates, ESTIMATE_S)
        attempt = partial(_trial, site, updates, seconds)
        return await highest(attempt, first, options.tries)

    best, trials = asyncio.run(search())
    found = batches.between(began, time.monotonic()) if batches is not None else ()
    return Point(size, best, len(trials), reached_s(found))


async def _trial(site: Site, updates: Updates, seconds: float, generators: int) -> Trial:
    return await trial(site.ports, updates, generators, seconds)


def _mode(
    plain: Site,
    serve: Serve,
    name: str,
    mode: Mode,
    options: Options,
    on_step: Callable[[str], None],
) -> list[tuple[Point, Point]]:
    """The points of no view and of `mode`, by size, in turn."""
    found = []
    with ExitStack() as stack:
        site = stack.enter_context(serve(name))
        _fill(site, mode, options.events)
        batches = None
        if mode.interval_s:
            batches = stack.enter_context(refreshing(site.url, options.folder / f"{name}.log"))
        for size in options.sizes:
            on_step(f"{mode.name}, {size} events a transaction")
            without = _point(plain, size, options, options.seconds)
            seconds = max(options.seconds, mode.interval_s)
            found.append((without, _point(site, size, options, seconds, batches)))
        _check(site)
    return found


def measure(options: Options, serve: Serve, on_step: Callable[[str], None]) -> list[Figure]:
    modes = (IMMEDIATE, *map(deferred, options.intervals))
    with serve("plain") as plain:
        _fill(plain, NOTHING, options.events)
        found = {
            mode: _mode(plain, serve, f"mode{number}", mode, options, on_step)
            for number, mode in enumerate(modes)
        }
    figures = []
    for place, size in enumerate(options.sizes):
        figures += _figures(size, {mode: pairs[place] for mode, pairs in found.items()})
    return figures


def _figures(size: int, pairs: dict[Mode, tuple[Point, Point]]) -> list[Figure]:
    """The figures of one size. `pairs` has the points without and with the view, by mode."""
    section = f"{size} event{'s' if size > 1 else ''} a transaction"
    without = tuple(plain.rate for plain, _ in pairs.values())
    figures = [Figure(section, NOTHING.name, UNIT, without, note="next to each of the modes")]
    for mode, (_, point) in pairs.items():
        figures.append(Figure(section, mode.name, UNIT, (point.rate,), note=_note(mode, point)))
    for mode, (plain, point) in pairs.items():
        if plain.rate:
            ratio = ratios([point.rate], [plain.rate])
            figures.append(Figure(section, f"{mode.name} / {NOTHING.name}", "×", ratio))
    return figures


def _note(mode: Mode, point: Point) -> str:
    parts = []
    if point.best is None:
        parts.append(f"no load holds in {point.trials} trials")
    else:
        parts.append(
            f"{point.best.generators} generators, {SHARE:.0%} in {point.best.time_ms:.0f} ms"
        )
    if mode.interval_s:
        reached = "fewer than two" if point.reached_s is None else f"every {point.reached_s:.2g} s"
        parts.append(f"batches: {reached}")
    return "; ".join(parts)


# ---------------------------------------------------------------- the run


def main(arguments: Sequence[str] | None = None) -> None:
    options, console = parse(Options, "bench.dashboard", __doc__, arguments), Console()
    folder, nodes, output = options.folder, options.nodes, options.output
    measure_at_sites(folder, nodes, output, asdict(options), partial(measure, options), console)


if __name__ == "__main__":
    with ended_by_sigterm():
        main()
