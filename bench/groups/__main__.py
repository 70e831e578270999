"""Measures what a total of a hot group costs its writers, and what it saves its readers, in
Hornbeam in one process and in PostgreSQL (`make bench-groups`).

Writers insert entries of one account, each in a durable transaction: without a total, with an
immediate view, with one over a star of three relations, and with a total that the application keeps
in a row; in PostgreSQL without a total, and with one kept by a trigger, by REFRESH and by pg_ivm.
All ways are measured in turn. Readers ask for one group and for all groups of a GROUP BY, from the
view and from the relation. Prints a table and writes a JSON report.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import statistics
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import structlog
from rich.console import Console

from bench.groups import embedded, postgres
from bench.groups.ways import KEPT, NOTHING, RATIOS, WAYS, Ratio, measured_writes
from bench.measure import Figure, print_figures, write_report
from bench.options import REPORT, ROUNDS, Numbers, parse
from hornbeam_server.demo.ending import ended_by_sigterm
from hornbeam_server.schema.collector import settle_collector

WRITERS = Numbers((1, 8, 32, 64))
BUSY = 32
"""The number of writers whose processor time is reported, if it is measured."""
DURABLE = "each answer waits for fdatasync of the log; transactions that wait share it"


@dataclass(frozen=True, slots=True)
class Options:
    """The options that `--help` explains."""

    writers: Annotated[Numbers, "numbers of writers at a time"] = WRITERS
    writes: Annotated[int, "transactions per round and number of writers"] = 1_600
    reads: Annotated[int, "reads of one group per round"] = 1_000
    rows: Annotated[int, "rows of the relation that is grouped"] = 100_000
    rounds: Annotated[int, ROUNDS] = 3
    folder: Annotated[Path, "folder of the databases; it is emptied"] = Path("var/bench-groups")
    output: Annotated[Path, REPORT] = Path("bench/reports/groups.json")


OF_POSTGRES = (
    Ratio("PostgreSQL, trigger / no total", postgres.KEPT_BY_TRIGGER.name, postgres.PLAIN.name),
    Ratio("PostgreSQL, REFRESH / no total", postgres.REFRESHED.name, postgres.PLAIN.name),
    Ratio("view / PostgreSQL, trigger", KEPT.name, postgres.KEPT_BY_TRIGGER.name),
    Ratio("no total / PostgreSQL, no total", NOTHING.name, postgres.PLAIN.name),
)
OF_PG_IVM = (
    Ratio("PostgreSQL, pg_ivm / no total", postgres.BY_PG_IVM.name, postgres.PLAIN.name),
    Ratio("view / PostgreSQL, pg_ivm", KEPT.name, postgres.BY_PG_IVM.name),
)


async def measure(options: Options, console: Console) -> tuple[list[Figure], dict[str, Any]]:
    """All figures, and what the report says about the settings of both systems."""
    shutil.rmtree(options.folder, ignore_errors=True)
    missing: list[str] = []
    async with AsyncExitStack() as stack:
        status = stack.enter_context(console.status("measuring"))
        ours = [
            await stack.enter_async_context(embedded.writing(options.folder / str(number), way))
            for number, way in enumerate(WAYS)
        ]
        theirs, about = stack.enter_context(
            postgres.postgres_writers(options.folder / "postgres", missing.append)
        )
        settle_collector()
        figures = await measured_writes(
            [*ours, *theirs],
            (*RATIOS, *_of(theirs)),
            options.writers,
            options.writes,
            options.rounds,
            on_round=status.update,
        )
        busy = BUSY if BUSY in options.writers else options.writers[-1]
        figures += embedded.processor_times(ours, busy)
        figures += _refreshes(theirs)
        kept = ours[WAYS.index(KEPT)].database
        status.update("point reads")
        figures += await embedded.point_reads(kept, options.reads, options.rounds)
    with console.status("GROUP BY"):
        figures += await embedded.grouped_reads(
            options.folder / "grouped", options.rows, options.reads, options.rounds
        )
    return figures, {"hornbeam": DURABLE, "postgresql": about, "not measured": missing}


def _of(theirs: Sequence[postgres.PostgresWriters]) -> Sequence[Ratio]:
    """The ratios of the ways of PostgreSQL that are measured."""
    names = {way.name for way in theirs}
    return [
        *(OF_POSTGRES if postgres.PLAIN.name in names else ()),
        *(OF_PG_IVM if postgres.BY_PG_IVM.name in names else ()),
    ]


def _refreshes(theirs: Sequence[postgres.PostgresWriters]) -> list[Figure]:
    """The time of a REFRESH."""
    found = [each for way in theirs for each in way.refreshes]
    if not found:
        return []
    entries = statistics.median(count for count, _ in found)
    times = tuple(ms for _, ms in found)
    note = f"{entries:,.0f} entries in the median"
    return [Figure("REFRESH MATERIALIZED VIEW", "one REFRESH", "ms", times, note=note)]


def main(arguments: Sequence[str] | None = None) -> None:
    options, console = parse(Options, "bench.groups", __doc__, arguments), Console()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    began = time.perf_counter()
    figures, about = asyncio.run(measure(options, console))
    print_figures(console, figures)
    for sentence in about["not measured"]:
        console.print(sentence, highlight=False)
    elapsed_s = time.perf_counter() - began
    write_report(options.output, options.folder, asdict(options) | about, figures, elapsed_s)
    shutil.rmtree(options.folder)
    console.print(f"{elapsed_s:.0f} s. The report is {options.output}.")


if __name__ == "__main__":
    with ended_by_sigterm():
        main()
