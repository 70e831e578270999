"""The results of the demo: their report, and their story on a terminal."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from hornbeam_server.demo.measures import percentile, versions
from hornbeam_server.demo.tpcw.compare import Comparison
from hornbeam_server.demo.tpcw.live import Watched
from hornbeam_server.demo.tpcw.sessions import Measured
from hornbeam_server.txlayer.views.verify import VerifyReport
from hornbeam_server.viewselect.plan import SelectionPlan

PLAIN_WIDTH = 140
"""Width, in characters, of output that does not go to a terminal."""
_PLAIN: dict[str, Any] = {"box": None, "title_justify": "left", "padding": (0, 2, 0, 1)}
PRINTED_ERRORS = 10
"""Maximum number of errors that are printed. The report has all errors."""
REPORTS = ("report.txt", "report.json", "trees.svg")


def new_console(*, stderr: bool = False) -> Console:
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=PLAIN_WIDTH)


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
    sessions: int
    seconds: float
    """How many emulated browsers ran, and for how long."""

    @property
    def differences(self) -> int:
        """The number of differing rows of views and indexes, plus the number of statements with
        another answer from views, plus the number of snapshots at which the live view differs."""
        unequal = sum(not row.equal for row in self.compared)
        return self.report.differences + unequal + self.watched.differing

    @property
    def failed(self) -> bool:
        return bool(self.differences or self.measured.errors)

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

    def document(self) -> str:
        """The report as the text of a JSON document."""
        return json.dumps(self.json(), indent=2, default=str)

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


def print_views(console: Console, plan: SelectionPlan) -> None:
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


def print_results(console: Console, result: DemoResult) -> None:
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
    _heading(console, f"4. {result.sessions} emulated browsers over REST, {result.seconds:g} s")
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


def write_reports(
    folder: Path, plan: SelectionPlan, learned: SelectionPlan, result: DemoResult
) -> None:
    """Write the files REPORTS."""
    text, document, drawing = (folder / name for name in REPORTS)
    with text.open("w") as file:
        console = Console(file=file, width=PLAIN_WIDTH)
        for title, about in (
            ("Views chosen for the roots {author, customer, country}", plan.text()),
            ("Views chosen for learned roots", learned.summary()),
        ):
            console.rule(title)
            console.print(about, highlight=False, markup=False, soft_wrap=True)
        console.print(_reads_table(result.compared))
        print_measured(console, result.measured)
        for item in result.report.checked:
            console.print(f"{item}", highlight=False, markup=False)
    document.write_text(result.document() + "\n")
    drawing.write_text(plan.svg())
