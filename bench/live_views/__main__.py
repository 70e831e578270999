"""Live views, after the evaluation of VMS: rows a second by kind of view, number of groups and skew
of keys; lag by rate of changes; cost to writers.

`python -m bench.live_views --help` lists the options.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console

from bench.live_views.batches import batches
from bench.live_views.load import cost, of_a_join, of_tpch
from bench.measure import Figure, run_in_folder
from bench.options import REPORT, ROUNDS, Numbers, parse
from hornbeam_server.demo.ending import ended_by_sigterm

RATES = Numbers((100, 500, 1_000, 2_000))
TPCH_RATES = Numbers((25, 50, 100, 200, 500, 2_000))


@dataclass(frozen=True, slots=True)
class Options:
    """The options that `--help` explains."""

    facts: Annotated[int, "rows of the relation of facts at the beginning"] = 50_000
    changes: Annotated[int, "rows that are changed between two batches"] = 10_000
    rounds: Annotated[int, ROUNDS] = 3
    rates: Annotated[Numbers, "changes a second of a sum over a join"] = RATES
    tpch_rates: Annotated[Numbers, "changes a second of TPC-H's views"] = TPCH_RATES
    seconds: Annotated[float, "seconds for each rate"] = 10.0
    scale: Annotated[float, "scale factor of TPC-H"] = 0.01
    folder: Annotated[Path, "folder of the databases; it is emptied"] = Path("var/bench-live")
    output: Annotated[Path, REPORT] = Path("bench/reports/live.json")


def measure(options: Options) -> list[Figure]:
    folder, seconds = options.folder, options.seconds
    return [
        *asyncio.run(batches(folder / "kinds", options.facts, options.changes, options.rounds)),
        *of_a_join(folder / "join", options.rates, seconds),
        *of_tpch(folder / "tpch", options.tpch_rates, seconds, options.scale),
        *cost(folder / "cost", options.rounds, seconds),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    options, console = parse(Options, "bench.live_views", __doc__, arguments), Console()
    run_in_folder(
        options.folder, options.output, asdict(options), lambda: measure(options), console
    )


if __name__ == "__main__":
    with ended_by_sigterm():
        main()
