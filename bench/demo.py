"""The main job in one command: TPC-W from schema to verified views, on an embedded database.

Uploads schema and workload, loads a population, runs emulated browsers over REST, and verifies
every view. Prints the access paths and the times of all statements, next to the times of the same
statements on base relations. `python -m bench.demo --help` lists the options; `make demo` runs it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import structlog
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench import serving
from bench.ending import ended_by_sigterm
from bench.measure import machine, percentile, versions
from bench.options import parse
from bench.tpcw import LIVE, PAPER_ROOTS, SCHEMA, TOTALS, WORKLOAD
from bench.tpcw.compare import Comparison, compare_statements
from bench.tpcw.data import RELATIONS, Population, Size
from bench.tpcw.live import Watched, watch
from bench.tpcw.sessions import BrowserRun, Measured, run_in_process
from hornbeam_server.node.database import Database
from hornbeam_server.node.schema_plans import PlannedSchema, PlanRequest
from hornbeam_server.node.settings import Settings
from hornbeam_server.schema.workload import load_workload
from hornbeam_server.txlayer.views.verify import VerifyReport
from hornbeam_server.viewselect.plan import SelectionPlan

LOAD_BATCH = 5_000
PLAIN_WIDTH = 140
"""Width, in characters, of output that does not go to a terminal."""
_PLAIN: dict[str, Any] = {"box": None, "title_justify": "left", "padding": (0, 2, 0, 1)}
PRINTED_ERRORS = 10
"""Maximum number of errors that are printed. The report has all errors."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The options that `--help` explains."""

    customers: Annotated[int, "customers of TPC-W; they determine addresses and orders"] = 1_000
    items: Annotated[int, "items of TPC-W"] = 1_000
    seconds: Annotated[float, "how long the emulated browsers run"] = 8.0
    sessions: Annotated[int, "number of emulated browsers"] = 8
    rounds: Annotated[int, "runs of each statement"] = 20
    folder: Annotated[Path, "folder of the database; it is emptied"] = Path("var/demo")


def parse_options(arguments: Sequence[str] | None = None) -> DemoOptions:
    return parse(DemoOptions, "bench.demo", __doc__, arguments)


def new_console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=PLAIN_WIDTH)


async def load(database: Database, size: Size, console: Console) -> float:
    """Load the population with a progress bar. Returns rows per second."""
    population = Population(size)
    began, rows = time.monotonic(), 0
    with Progress(
        TextColumn("{task.description:>12}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    ) as progress:
        for relation in RELATIONS:
            data = list(population.rows(relation))
            columns = database.catalog.schema.relation(relation).column_names
            task = progress.add_task(relation, total=len(data))
            for start in range(0, len(data), LOAD_BATCH):
                batch = data[start : start + LOAD_BATCH]
                await database.load(relation, columns, batch)
                progress.advance(task, len(batch))
            rows += len(data)
    elapsed = time.monotonic() - began
    await database.keeper.refresh_counts()
    return rows / elapsed


@asynccontextmanager
async def _opened(
    folder: Path, request: PlanRequest
) -> AsyncIterator[tuple[Database, PlannedSchema]]:
    """Yields a new database in `folder` with the plan of `request` in force, and the plan."""
    async with await Database.open(Settings(data=folder)) as database:
        planned = database.plan_schema(request)
        await database.apply_schema(request, planned.plan_id)
        await database.keeper.wait_built()
        yield database, planned


async def run(options: DemoOptions, console: Console) -> int:
    """Run the demo. Returns the exit code: 0 without differences and errors."""
    size = Size(options.customers, options.items)
    shutil.rmtree(options.folder, ignore_errors=True)
    request = PlanRequest(
        SCHEMA.read_text() + LIVE.read_text(),
        WORKLOAD.read_text() + TOTALS.read_text(),
        roots=PAPER_ROOTS,
        row_counts=size.row_counts,
        ddl_file="schema.sql",
        workload_file="workload.sql",
    )
    without_views = replace(request, ddl=SCHEMA.read_text(), budget=0.0)
    with_views = options.folder / "database"
    async with (
        _opened(with_views, request) as (database, planned),
        _opened(options.folder / "without-views", without_views) as (baseline, _),
    ):
        learned = database.plan_schema(replace(request, roots=None))
        _print_views(console, planned.plan)
        load_rows_s = [await load(each, size, console) for each in (database, baseline)]
        statements = {s.name: s.sql for s in load_workload(request.workload or "")}
        with console.status("Running every read statement with and without views"):
            compared = await compare_statements(
                database, baseline, statements, size, options.rounds
            )
        baseline_storage = await _storage(baseline)
    with console.status(f"{options.sessions} emulated browsers, {options.seconds:g} s"):
        measured, watched = await _run_browsers(with_views, size, options)
    async with await Database.open(Settings(data=with_views)) as database:
        with console.status("Recomputing every view and index"):
            report = await database.verify()
        storage = [await _storage(database), baseline_storage]
    result = DemoResult(
        machine(options.folder),
        planned.plan.json(),
        learned.plan.json(),
        load_rows_s,
        compared,
        measured,
        watched,
        report,
        storage,
    )
    _print_results(console, result, options)
    _write_reports(options.folder, planned.plan, learned.plan, result)
    console.print(
        f"All tables and the whole plan: {options.folder}/report.txt, report.json, trees.svg\n"
        f"To explore it: make serve DATA={options.folder}/database, then open"
        " http://127.0.0.1:8780/",
        highlight=False,
    )
    return 1 if result.differences or measured.errors else 0


async def _run_browsers(folder: Path, size: Size, options: DemoOptions) -> tuple[Measured, Watched]:
    """Run the browsers against `hornbeam serve`, in a process of its own as they are. Meanwhile
    watch the live view."""
    with serving.server(folder, resident_refresh="true") as (port, _):
        browsers = asyncio.ensure_future(
            run_in_process(
                [f"http://127.0.0.1:{port}"],
                BrowserRun(size.customers, size.items, options.sessions, options.seconds),
            )
        )
        watched = await watch(f"hornbeam://127.0.0.1:{port}", browsers)
        return await browsers, watched


def _write_reports(
    folder: Path, plan: SelectionPlan, learned: SelectionPlan, result: DemoResult
) -> None:
    with (folder / "report.txt").open("w") as file:
        console = Console(file=file, width=PLAIN_WIDTH)
        for title, text in (
            ("Views chosen for the roots {author, customer, country}", plan.text()),
            ("Views chosen for learned roots", learned.summary()),
        ):
            console.rule(title)
            console.print(text, highlight=False, markup=False, soft_wrap=True)
        console.print(_reads_table(result.compared))
        print_measured(console, result.measured)
        for item in result.report.checked:
            console.print(f"{item}", highlight=False, markup=False)
    document = json.dumps(result.json(), indent=2, default=str)
    (folder / "report.json").write_text(document + "\n")
    (folder / "trees.svg").write_text(plan.svg())


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The results of the demo. Lists of two hold values with views, then without views."""

    machine: dict[str, Any]
    plan: dict[str, Any]
    learned: dict[str, Any]
    load_rows_s: list[float]
    compared: list[Comparison]
    measured: Measured
    watched: Watched
    report: VerifyReport
    storage: list[dict[str, int]]

    @property
    def differences(self) -> int:
        """The number of differing rows of views and indexes, plus the number of statements with
        another answer from views, plus the number of snapshots at which the live view differs."""
        unequal = sum(not row.equal for row in self.compared)
        return self.report.differences + unequal + self.watched.differing

    @property
    def aggregates(self) -> dict[str, str]:
        """The SELECTs of the chosen aggregate views, by name."""
        return {view["name"]: view["sql"] for view in self.plan["views"] if view["sql"]}

    @property
    def totals(self) -> list[Comparison]:
        """The reads that aggregate views serve."""
        return [
            row for row in self.compared if not self.aggregates.keys().isdisjoint(row.served_by)
        ]

    def json(self) -> dict[str, Any]:
        return {
            "machine": self.machine,
            "versions": versions(),
            "differences": self.differences,
            "plan": self.plan,
            "learned_roots": self.learned,
            "load_rows_s": [round(rate) for rate in self.load_rows_s],
            "reads": [row.json() for row in self.compared],
            "rest": {
                name: {
                    "count": len(values),
                    "p50_ms": statistics.median(values),
                    "p99_ms": percentile(values, 0.99),
                }
                for name, values in self.measured.latencies.items()
            },
            "errors": self.measured.errors,
            "live_view": self.watched.json(),
            "bytes": self.storage,
        }


def _print_views(console: Console, plan: SelectionPlan) -> None:
    table = Table(title="1. Views, chosen for the roots author, customer and country", **_PLAIN)
    table.add_column("view")
    table.add_column("worth", justify="right")
    table.add_column("upkeep", justify="right")
    table.add_column("serves", overflow="fold")
    for view in plan.explanation.views:
        worth, upkeep = f"{view.value:,.2f}", f"{view.upkeep:,.0f}"
        table.add_row(view.name, worth, upkeep, ", ".join(view.serves))
    console.print(table)
    console.print(
        "   Worth: logarithms of how much faster reads become, less how much slower writes do;"
        f" upkeep in row reads. The other {len(plan.explanation.dropped)} candidates are worth less"
        " than nothing.",
        highlight=False,
    )


def _print_results(console: Console, result: DemoResult, options: DemoOptions) -> None:
    with_views, without = result.load_rows_s
    stored, stored_without = (sum(sizes.values()) / 1e6 for sizes in result.storage)
    _heading(console, "2. Load")
    console.print(
        f"   {with_views:,.0f} rows/s with all views, {without:,.0f} without;"
        f" {stored:.1f} MB stored, {stored_without:.1f} without",
        highlight=False,
    )
    totals = result.totals
    served = [row for row in result.compared if row.views and row not in totals]
    table = Table(title="3. Reads that views serve, median in milliseconds", **_PLAIN)
    for name in ("statement", "with views", "without", "faster"):
        table.add_column(name, justify="left" if name == "statement" else "right")
    for row in sorted(served, key=lambda row: -row.ratio):
        table.add_row(row.name, f"{row.p50_ms:.2f}", f"{row.base_p50_ms:.2f}", f"{row.ratio:.1f} ×")
    console.print(table)
    mean = statistics.geometric_mean(row.ratio for row in served)
    different = sum(not row.equal for row in result.compared)
    console.print(
        f"   {mean:.1f} × faster than the best plan without views (geometric mean);"
        f" {different} of {len(result.compared)} answers differ",
        highlight=False,
    )
    _heading(console, "   Totals that chosen aggregate views answer; each order maintains them")
    for row in totals:
        console.print(
            f"   {row.name}: {row.p50_ms:.2f} ms from {', '.join(row.served_by)},"
            f" {row.base_p50_ms:.2f} ms without ({row.ratio:.0f} ×)",
            highlight=False,
        )
    measured = result.measured
    times = sorted(ms for values in measured.latencies.values() for ms in values)
    _heading(console, f"4. {options.sessions} emulated browsers over REST, {options.seconds:g} s")
    console.print(
        f"   {measured.interactions:,} interactions of {len(times):,} requests, each"
        f" {statistics.median(times):.1f} ms (median), {percentile(times, 0.99):.1f} ms (99 %);"
        f" {len(measured.errors)} errors",
        highlight=False,
    )
    console.print(
        f"   Followed live view of sales by subject: {result.watched.text()}",
        highlight=False,
    )
    for error in measured.errors[:PRINTED_ERRORS]:
        console.print(f"error: {error}", style="red", markup=False, highlight=False)
    checked = result.report.checked
    _heading(console, "5. Verification: every view, index and foreign key, recomputed by DuckDB")
    console.print(
        f"   {len(checked)} of them with {sum(item.rows for item in checked):,} rows:"
        f" [bold]{result.differences} differences[/bold]",
        highlight=False,
    )
    for item in checked:
        if item.differences:
            console.print(f"  {item}", highlight=False)


def _heading(console: Console, text: str) -> None:
    console.print(text, style="italic", highlight=False)


def _reads_table(compared: list[Comparison]) -> Table:
    table = Table(title="Reads, in-process, in milliseconds")
    table.add_column("statement", no_wrap=True)
    table.add_column("served by", overflow="fold")
    for name in ("p50", "p99", "p50 without views", "ratio", "same answer"):
        table.add_column(name, justify="right")
    for row in compared:
        table.add_row(
            row.name,
            ", ".join(row.served_by),
            f"{row.p50_ms:.2f}",
            f"{row.p99_ms:.2f}",
            f"{row.base_p50_ms:.2f}",
            f"{row.ratio:.1f} ×" if row.views else "",
            "yes" if row.equal else "NO",
        )
    return table


def print_measured(console: Console, measured: Measured) -> None:
    """Print the times of requests, and the first errors."""
    console.print(_rest_table(measured))
    for error in measured.errors[:PRINTED_ERRORS]:
        console.print(f"error: {error}", style="red", markup=False, highlight=False)


def _rest_table(measured: Measured) -> Table:
    table = Table(title="Over REST, all emulated browsers at once, in milliseconds")
    table.add_column("statement or transaction", overflow="fold")
    for name in ("count", "p50", "p99"):
        table.add_column(name, justify="right")
    for name, values in sorted(measured.latencies.items()):
        p50, p99 = statistics.median(values), percentile(values, 0.99)
        table.add_row(name, str(len(values)), f"{p50:.2f}", f"{p99:.2f}")
    return table


async def _storage(database: Database) -> dict[str, int]:
    """Bytes of base relations, their indexes, views and view-indexes."""
    catalog = database.catalog
    kinds = {"relations": 0, "indexes": 0, "views": 0, "view-indexes": 0}
    for name, size in (await database.sizes()).items():
        if name in catalog.index:
            kind = "view-indexes" if catalog.index[name].on in catalog.view else "indexes"
        else:
            kind = "relations" if name in catalog.schema else "views"
        kinds[kind] += size
    return kinds


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    sys.exit(asyncio.run(run(parse_options(), new_console())))


if __name__ == "__main__":
    with ended_by_sigterm():
        main()
