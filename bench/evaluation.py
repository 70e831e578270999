"""The page of CloudTPS's evaluation (Nikolov 2011, 6.3 and 6.4) and of the hot group, from the
reports of their benchmarks (`make bench-evaluation`).

    python -m bench.evaluation [FOLDER]

reads those of the reports that are in the folder (`REPORTS`), writes evaluation.html into it,
and prints the tables of README.md and docs/performance.md. The figures of the thesis are drawn, and
its text gives no numbers. So the page compares what the thesis says of them with ratios of ours.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import matplotlib as mpl
import msgspec

from bench.dashboard.data import IMMEDIATE, NOTHING, deferred
from bench.options import Numbers
from bench.peers.findings import number
from bench.peers.page import html_document, html_pairs, html_section, html_table
from bench.peers.plots import SETTINGS, as_svg, draw_line, logarithmic, side_by_side
from bench.tpcw.totals import WITH, WITHOUT

FOLDER = Path("bench/reports")
GROUPS, NODES, DASHBOARD, TOTALS = "groups", "groups-nodes", "dashboard", "totals"
REPORTS = {
    GROUPS: "One hot group, next to PostgreSQL",
    NODES: "One hot group on HBase",
    DASHBOARD: "The Dashboard",
    TOTALS: "TPC-W with totals of carts and orders",
}
PAGE = "evaluation.html"
LINES = (
    *(("#22302a", "o"), ("#1b7f4b", "D"), ("#8fc9a8", "s"), ("#c0392b", "^")),
    *(("#9a9a9a", "P"), ("#0b5394", "v"), ("#56a8e0", "<"), ("#b5498f", "X")),
)
"""Colours and markers of lines, in order."""
_WRITERS = re.compile(r"^(?P<site>.*?)(?P<writers>\d+) writers?\b")
_SIZE = re.compile(r"^(?P<size>\d+) events? a transaction$")


@dataclass(frozen=True, slots=True)
class Measured:
    """A figure of a report."""

    section: str
    name: str
    value: float
    unit: str
    note: str = ""
    at_least: float | None = None
    at_most: float | None = None
    met: bool | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A report, as `bench.measure.write_report` writes it."""

    machine: dict[str, Any]
    versions: dict[str, str]
    settings: dict[str, Any]
    figures: tuple[Measured, ...]
    seconds: float
    missed: tuple[str, ...] = field(default=())


Lines = Mapping[str, Mapping[int, float]]
"""Values by the name of a line and by their place on the axis."""


def read(folder: Path) -> dict[str, Document]:
    """The reports in a folder, by their names in `REPORTS`."""
    paths = {name: folder / f"{name}.json" for name in REPORTS}
    return {
        name: msgspec.json.decode(path.read_bytes(), type=Document)
        for name, path in paths.items()
        if path.exists()
    }


def writers(report: Document) -> dict[str, Lines]:
    """Transactions a second by site (empty for one process, or the nodes), way, and number of
    writers."""
    found: dict[str, dict[str, dict[int, float]]] = {}
    for figure in report.figures:
        if figure.unit == "transactions/s" and (at := _WRITERS.match(figure.section)):
            site = found.setdefault(at["site"].rstrip(", "), {})
            site.setdefault(figure.name, {})[int(at["writers"])] = figure.value
    return dict(found)


def dashboard(report: Document) -> Lines:
    """Transactions a second by mode and number of events."""
    found: dict[str, dict[int, float]] = {}
    for figure in report.figures:
        if figure.unit != "×" and (at := _SIZE.match(figure.section)):
            found.setdefault(figure.name, {})[int(at["size"])] = figure.value
    return dict(found)


# ---------------------------------------------------------------- what the thesis says


def said_of_dashboard(lines: Lines) -> Iterator[tuple[str, str]]:
    """Sentences of 6.3, and the ratios here at the largest number of events with both rates."""
    fast, middle, slow = (deferred(each).name for each in (50, 500, 5_000))
    for sentence, of, to in (
        ("Immediate is considerably slower than deferred", IMMEDIATE.name, slow),
        ("Batches every 50 ms are as slow as immediate", fast, IMMEDIATE.name),
        ("Batches every 500 ms are considerably faster", middle, fast),
        ("Batches every 5 000 ms are close to the writes alone", slow, NOTHING.name),
        ("(not in the thesis) immediate next to the writes alone", IMMEDIATE.name, NOTHING.name),
    ):
        both = lines.get(of, {}).keys() & lines.get(to, {}).keys()
        sizes = [each for each in both if lines[of][each] and lines[to][each]]
        if sizes:
            size = max(sizes)
            ratio = lines[of][size] / lines[to][size]
            yield sentence, f"{of} / {to}: {number(ratio)} ×, {size} events a transaction"


def said_of_totals(report: Document) -> Iterator[tuple[str, str]]:
    for figure in report.figures:
        if figure.name == f"{WITH} / {WITHOUT}":
            nodes = report.settings.get("nodes") or "none: one process"
            ours = f"{figure.section}: {number(figure.value)} × the rate without totals ({nodes})"
            yield "The rate with totals grows linearly with the nodes, up to 20 of them", ours


# ---------------------------------------------------------------- the page


def page(reports: Mapping[str, Document]) -> str:
    title = "Totals, kept by the writing transaction"
    header = (
        f"<h1>{title}</h1><p>One hot group, and CloudTPS’s evaluation (Nikolov 2011, 6.3 and 6.4). "
        "Medians of rounds. Database and clients share one machine, so ratios say more than "
        "figures.</p>"
    )
    parts = [_part(name, report) for name, report in reports.items()]
    return html_document(title, header, "".join(parts))


def _part(name: str, report: Document) -> str:
    """The section of a report: plot, what the thesis says, goals, all figures, the run."""
    content = ""
    if name in {GROUPS, NODES}:
        content += _writers_plot(writers(report))
    if name == DASHBOARD:
        lines = dashboard(report)
        content += _dashboard_plot(lines) + _said(said_of_dashboard(lines))
    if name == TOTALS:
        content += _said(said_of_totals(report))
    return html_section(
        REPORTS[name],
        f"{report.seconds:.0f} s in all.",
        content + _goals(report) + _all_figures(report) + _run(report),
    )


def _said(rows: Iterable[tuple[str, str]]) -> str:
    return html_table(("the thesis says", "here"), [tuple(map(escape, row)) for row in rows])


def _goals(report: Document) -> str:
    rows = [
        (
            escape(f"{figure.section}, {figure.name}"),
            escape(f"{number(figure.value)} {figure.unit}"),
            escape(_goal(figure)),
        )
        for figure in report.figures
        if figure.met is not None
    ]
    return html_table(("goal of", "measured", "goal"), rows) if rows else ""


def _goal(figure: Measured) -> str:
    sign, goal = ("≥", figure.at_least) if figure.at_least is not None else ("≤", figure.at_most)
    mark = "✓ met" if figure.met else "✗ missed"
    return "" if goal is None else f"{sign} {number(goal)} {mark}"


def _all_figures(report: Document) -> str:
    rows = [
        tuple(map(escape, (f"{f.section}, {f.name}", f"{number(f.value)} {f.unit}", f.note)))
        for f in report.figures
    ]
    table = html_table(("", "measured", ""), rows)
    return f"<details><summary>All figures</summary>{table}</details>"


def _run(report: Document) -> str:
    about = html_pairs({**report.machine, **report.settings, **report.versions})
    return f"<details><summary>Machine, options and versions</summary>{about}</details>"


@mpl.rc_context(SETTINGS)
def _writers_plot(by_site: Mapping[str, Lines]) -> str:
    """Transactions a second against writers, a panel per site."""
    canvas, axes = side_by_side(len(by_site))
    for axis, (site, lines) in zip(axes, by_site.items(), strict=True):
        _draw(axis, lines)
        axis.set_title(site or "in one process")
        axis.set_xlabel("writers of one group")
    if axes:
        axes[0].set_ylabel("transactions per second")
        canvas.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return as_svg(canvas)


@mpl.rc_context(SETTINGS)
def _dashboard_plot(lines: Lines) -> str:
    """Transactions a second against the size of the update (figures 6.2 and 6.3 in one)."""
    canvas, (axis,) = side_by_side(1)
    _draw(axis, lines)
    axis.set_xlabel("events that a transaction updates")
    axis.set_ylabel("transactions per second under 100 ms")
    axis.legend()
    return as_svg(canvas)


def _draw(axis: Any, lines: Lines) -> None:
    for (name, values), (colour, marker) in zip(lines.items(), LINES, strict=False):
        draw_line(axis, sorted(values.items()), label=name, color=colour, marker=marker)
    logarithmic(axis, sorted({place for values in lines.values() for place in values}))
    axis.set_ylim(bottom=0)


# ---------------------------------------------------------------- tables of the documentation


def markdown(reports: Mapping[str, Document]) -> str:
    """The tables of rates, by report."""
    tables = []
    for name in (GROUPS, NODES):
        if name in reports:
            for site, lines in writers(reports[name]).items():
                head = f"writers of one group{f', {site}' if site else ''}"
                tables.append(_markdown_table(head, lines))
    if DASHBOARD in reports:
        tables.append(_markdown_table("events a transaction", dashboard(reports[DASHBOARD])))
    return "\n".join(tables)


def _markdown_table(head: str, lines: Lines) -> str:
    """A row per line, a column per place."""
    places = Numbers(sorted({place for values in lines.values() for place in values}))
    rows = [
        (head, *map(str, places)),
        ("---", *("---:" for _ in places)),
        *(
            (name, *(number(values[each]) if each in values else "" for each in places))
            for name, values in lines.items()
        ),
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.evaluation", description=__doc__)
    parser.add_argument(
        "folder", type=Path, nargs="?", default=FOLDER, help="where the reports are"
    )
    folder: Path = parser.parse_args(arguments).folder
    reports = read(folder)
    if not reports:
        sys.exit(f"There is no report in {folder}; run make bench-groups or make bench-dashboard.")
    (folder / PAGE).write_text(page(reports))
    print(markdown(reports))


if __name__ == "__main__":
    main()
