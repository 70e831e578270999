"""CloudTPS's evaluation with TPC-W (Nikolov 2011, 6.4): emulated browsers with totals of carts and
orders as immediate views, next to the same database without them (`make bench-totals`).

Both databases have the join views and indexes that Hornbeam chooses. The databases are servers
over RocksDB, or several nodes on a real HBase (`--nodes`, needs Java and Maven). Emulated browsers
run on both in turn, in a process of their own; all share one machine. At the end, the views are
verified. Prints a table and writes a JSON report.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

from rich.console import Console

import hornbeam
from bench import remote
from bench.measure import Figure, ratios
from bench.options import REPORT, ROUNDS, parse
from bench.peers.design import Source, tpcw
from bench.sites import Serve, Site, measure_at_sites
from bench.tpcw import CART_AND_ORDER_TOTALS
from hornbeam_server.demo.ending import ended_by_sigterm
from hornbeam_server.demo.measures import percentile
from hornbeam_server.demo.tpcw.data import Size
from hornbeam_server.demo.tpcw.sessions import BrowserRun, Measured, run_in_process

MIXES = ("shopping", "ordering")
WITHOUT, WITH = "no totals", "immediate totals"
APART = 1_000_000
"""The distance between the new keys of a run and those of the next run."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options that `--help` explains."""

    customers: Annotated[int, "customers of TPC-W; they determine addresses and orders"] = 1_000
    items: Annotated[int, "items of TPC-W"] = 1_000
    sessions: Annotated[int, "number of emulated browsers"] = 16
    seconds: Annotated[float, "how long the browsers run in a round"] = 8.0
    rounds: Annotated[int, ROUNDS] = 3
    nodes: Annotated[int, "nodes on a real HBase; 0: a server over RocksDB"] = 0
    folder: Annotated[Path, "folder of the databases; it is emptied"] = Path("var/bench-totals")
    output: Annotated[Path, REPORT] = Path("bench/reports/totals.json")


class Failed(AssertionError):
    """A browser got an error, or a view is wrong, so the rates mean nothing."""


def _fill(site: Site, source: Source) -> None:
    with closing(hornbeam.connect(site.url, autocommit=True, timeout_s=600)) as db:
        remote.apply(db, source)
        for relation in source.relations:
            remote.load(db, relation, source.rows(relation))
        remote.wait_built(db)


def _check(site: Site) -> None:
    """Raises Failed if a view is wrong."""
    with closing(hornbeam.connect(site.url, autocommit=True, timeout_s=600)) as db:
        report = remote.verify(db)
    if report["differences"]:
        raise Failed(f"Views are wrong: {report}")


def measure(options: Options, serve: Serve, on_step: Callable[[str], None]) -> list[Figure]:
    plain = tpcw(Size(options.customers, options.items))
    totals = replace(plain, ddl=plain.ddl + CART_AND_ORDER_TOTALS.read_text())
    with ExitStack() as stack:
        databases = {}
        for name, source in ((WITHOUT, plain), (WITH, totals)):
            on_step(f"loading {name}")
            databases[name] = stack.enter_context(serve(name.replace(" ", "_")))
            _fill(databases[name], source)
        skips = itertools.count(0, APART)
        figures = []
        for mix in MIXES:
            figures += _mix(databases, mix, options, skips, on_step)
        _check(databases[WITH])
    return figures


def _mix(
    databases: dict[str, Site],
    mix: str,
    options: Options,
    skips: Iterator[int],
    on_step: Callable[[str], None],
) -> list[Figure]:
    """The figures of a mix: rounds on both databases in turn. A first round warms up."""
    found: dict[str, list[Measured]] = {name: [] for name in databases}
    for number in range(options.rounds + 1):
        skip = next(skips)
        for name, site in databases.items():
            on_step(f"{mix} mix, {name}, round {number} of {options.rounds}")
            measured = _browsed(site, mix, options, skip)
            if number:
                found[name].append(measured)
    section = f"{mix} mix"
    rates = {
        name: [each.interactions / options.seconds for each in of] for name, of in found.items()
    }
    writes = {name: [write_ms(each) for each in of] for name, of in found.items()}
    return [
        *(Figure(section, name, "interactions/s", tuple(of)) for name, of in rates.items()),
        Figure(section, f"{WITH} / {WITHOUT}", "×", ratios(rates[WITH], rates[WITHOUT])),
        *(
            Figure(section, f"transaction, p50, {name}", "ms", tuple(map(statistics.median, of)))
            for name, of in writes.items()
        ),
        *(
            Figure(
                section,
                f"transaction, p99, {name}",
                "ms",
                tuple(percentile(each, 0.99) for each in of),
            )
            for name, of in writes.items()
        ),
    ]


def _browsed(site: Site, mix: str, options: Options, skip: int) -> Measured:
    run = BrowserRun(
        options.customers,
        options.items,
        options.sessions,
        options.seconds,
        mix,
        skip,
        seed=skip + 1,
    )
    measured = asyncio.run(run_in_process(site.url, run))
    if measured.errors:
        raise Failed(f"{len(measured.errors)} errors, the first: {measured.errors[0]}")
    return measured


def write_ms(measured: Measured) -> list[float]:
    """The milliseconds of all transactions that write. The node reports the parts of their
    time."""
    return [
        time
        for name, times in measured.latencies.items()
        if any("log" in parts for parts in measured.pieces[name])
        for time in times
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    options, console = parse(Options, "bench.tpcw.totals", __doc__, arguments), Console()
    folder, nodes, output = options.folder, options.nodes, options.output
    measure_at_sites(folder, nodes, output, asdict(options), partial(measure, options), console)


if __name__ == "__main__":
    with ended_by_sigterm():
        main()
