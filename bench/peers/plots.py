"""The page's plots, as SVG for an HTML document: without XML prologue, addresses and metadata.

A system has the same colour and marker in all plots. Times are points on a logarithmic scale, since
bars would have no zero to begin at. Sums are bars.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas

from bench.peers.findings import (
    RELATIONS,
    Finding,
    number,
    p50,
    rate,
    refused_share,
    stored_bytes,
    summary,
    total_ms,
)
from bench.peers.results import (
    BASELINE,
    HORNBEAM,
    LOCKS,
    MVCC_A,
    PAPER,
    PHOENIX,
    PIECES,
    POSTGRES,
    POSTGRES_VIEWS,
    Results,
    Statement,
    Throughput,
)

KINDS = {"join": "joins", "read": "reads of one relation", "write": "writes"}
STYLES = {
    HORNBEAM: ("#1b7f4b", "o"),
    PHOENIX: ("#56a8e0", "s"),
    BASELINE: ("#0b5394", "D"),
    MVCC_A: ("#b5498f", "^"),
    PAPER: ("#e08a00", "v"),
    POSTGRES: ("#9a9a9a", "P"),
    POSTGRES_VIEWS: ("#4a4a4a", "X"),
}
OTHERS = (("#8c6d46", "<"), ("#6a51a3", ">"), ("#c0392b", "p"), ("#17a2a2", "h"))
"""Styles of systems that STYLES does not name, in order."""

LINE_COLOURS = ("#1b7f4b", "#0b5394", "#e08a00", "#b5498f")
PIECE_COLOURS = ("#c9d6ce", "#56a8e0", "#8fc9a8", "#e0b15a", "#1b7f4b", "#6a51a3", "#9a9a9a")
INK, FAINT, GRID = "#22302a", "#6b7a72", "#e4eae6"
KIND_COLOURS = {"join": "#1b7f4b", "read": "#8fc9a8", "write": "#e0b15a"}
MET = {True: "#1b7f4b", False: "#c0392b", None: "#9aa7a0"}
SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "hornbeam",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": FAINT,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "xtick.color": FAINT,
    "ytick.color": INK,
    "xtick.major.size": 0,
    "xtick.minor.size": 0,
    "ytick.major.size": 0,
    "ytick.minor.size": 0,
    "grid.color": GRID,
    "legend.frameon": False,
}
WIDTH = 11.0
"""The width of a plot, in inches of 72 points."""
ROW = 0.3
"""The height of a row, in inches."""


def style(results: Results, system: str) -> tuple[str, str]:
    """The colour and marker of a system."""
    others = [each for each in results.systems if each not in STYLES]
    if system in STYLES or system not in others:
        return STYLES.get(system, OTHERS[0])
    return OTHERS[others.index(system) % len(OTHERS)]


# ---------------------------------------------------------------- plots


@mpl.rc_context(SETTINGS)
def statements_plot(results: Results) -> str:
    """Every statement's median on every system. A failure is a cross at the edge."""
    kinds = {kind: _of_kind(results, kind) for kind in KINDS}
    shown = {kind: found for kind, found in kinds.items() if found}
    canvas, axes = _panels([len(found) for found in shown.values()])
    for axis, (kind, found) in zip(axes, shown.items(), strict=True):
        _statements(axis, results, found)
        axis.set_title(KINDS[kind])
    if axes:
        axes[-1].set_xlabel("ms, median")
        _legend(canvas, results)
    return as_svg(canvas)


def _statements(axis: Any, results: Results, found: Sequence[Statement]) -> None:
    for row, statement in enumerate(found):
        times = [p50(results, system, statement.name) for system in results.systems]
        known = [time for time in times if time is not None]
        if known:
            axis.plot([min(known), max(known)], [row, row], color=GRID, lw=4, zorder=1)
    for system in results.systems:
        colour, marker = style(results, system)
        points = [
            (time, row)
            for row, statement in enumerate(found)
            if (time := p50(results, system, statement.name)) is not None
        ]
        size, above = (52, 4) if system == HORNBEAM else (30, 3)
        axis.scatter(
            [x for x, _ in points],
            [y for _, y in points],
            s=size,
            c=colour,
            marker=marker,
            linewidths=0.6,
            edgecolors="white",
            zorder=above,
        )
        _failures(axis, results, system, found)
    axis.set_xscale("log")
    axis.set_ylim(len(found) - 0.4, -0.6)
    axis.set_yticks(range(len(found)), [_label(each) for each in found])
    axis.xaxis.set_major_formatter(lambda value, _: number(value))
    axis.grid(axis="x")


def _failures(axis: Any, results: Results, system: str, found: Sequence[Statement]) -> None:
    """Draw a cross for each failed statement, beyond the right edge, at the system's place."""
    colour, _ = style(results, system)
    place = 1.012 + 0.014 * results.systems.index(system)
    for row, statement in enumerate(found):
        timing = results.timings.get(system, {}).get(statement.name)
        if timing is not None and timing.error is not None:
            axis.plot(
                [place],
                [row],
                marker="x",
                ms=5,
                mew=1.6,
                color=colour,
                clip_on=False,
                transform=axis.get_yaxis_transform(),
            )


@mpl.rc_context(SETTINGS)
def ratios_plot(found: Sequence[Finding]) -> str:
    """Ratios as bars, coloured by whether the goal is met, with marks for the paper's figure and
    the geometric mean."""
    shown = [each for each in found if each.unit == "×" and each.value]
    canvas, axes = _panels([len(shown)] if shown else [])
    for axis in axes:
        for row, each in enumerate(shown):
            _ratio(axis, row, each)
        axis.set_xscale("log")
        axis.axvline(1, color=FAINT, lw=0.8)
        axis.set_ylim(len(shown) - 0.4, -0.6)
        axis.set_yticks(range(len(shown)), [each.name for each in shown])
        axis.xaxis.set_major_formatter(lambda value, _: number(value))
        axis.grid(axis="x")
    return as_svg(canvas)


def _ratio(axis: Any, row: int, found: Finding) -> None:
    value = found.value or 1.0
    axis.barh(row, value - 1, left=1, height=0.5, color=MET[found.met])
    _beside(axis, max(value, 1.0), row, f"{number(value)} ×", weight="bold")
    if found.paper is not None:
        axis.plot([found.paper] * 2, [row - 0.36, row + 0.36], color=INK, lw=2.2)
        _beside(axis, found.paper, row, f"{number(found.paper)} × in the paper", color=FAINT)
    if found.geometric is not None:
        axis.plot([found.geometric], [row], marker="o", ms=6, mfc="white", mec=INK, mew=1.2)


def _beside(axis: Any, value: float, row: int, text: str, **style: str) -> None:
    place = {"xytext": (8, 0), "textcoords": "offset points"}
    axis.annotate(text, (value, row), va="center", **place, **style)


@mpl.rc_context(SETTINGS)
def sums_plot(results: Results) -> str:
    """The sums of the medians of all statements, by kind."""
    rows = {system: _by_kind(results, system) for system in results.systems}
    totals = {system: sum(of.values()) for system, of in rows.items()}
    canvas, axes = _panels([len(rows)] if any(totals.values()) else [])
    for axis in axes:
        for row, (system, of) in enumerate(rows.items()):
            left = 0.0
            for kind, time in of.items():
                label = KINDS[kind] if row == 0 else None
                axis.barh(row, time, left=left, height=0.6, color=KIND_COLOURS[kind], label=label)
                left += time
            axis.annotate(
                _sum_label(results, system, totals[system]),
                (left, row),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
            )
        _bars(axis, list(rows), max(totals.values()))
        axis.set_xlabel("ms")
        axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0)
    return as_svg(canvas)


def _by_kind(results: Results, system: str) -> Mapping[str, float]:
    return {kind: total_ms(results, system, _of_kind(results, kind))[0] for kind in KINDS}


def _sum_label(results: Results, system: str, total: float) -> str:
    ran = total_ms(results, system, results.statements)[1]
    of = len(results.statements)
    return f"{number(total)} ms" + ("" if ran == of else f", {ran} of {of} statements only")


@mpl.rc_context(SETTINGS)
def storage_plot(results: Results) -> str:
    sizes = {
        system: size
        for system in results.systems
        if (size := stored_bytes(results, system)) is not None
    }
    base = sizes.get(BASELINE)
    canvas, axes = _panels([len(sizes)] if sizes else [])
    for axis in axes:
        for row, (system, size) in enumerate(sizes.items()):
            axis.barh(row, size / 1e6, height=0.6, color=style(results, system)[0])
            ratio = f", {number(size / base)} × {BASELINE}" if base else ""
            axis.annotate(
                f"{number(size / 1e6)} MB{ratio}",
                (size / 1e6, row),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
            )
        _bars(axis, list(sizes), max(sizes.values()) / 1e6)
        axis.set_xlabel("MB")
    return as_svg(canvas)


@mpl.rc_context(SETTINGS)
def joins_plot(results: Results) -> str:
    """The times of whole joins against customers, a panel per query. View scans are solid lines,
    joins dashed."""
    queries = [query for query in RELATIONS if any(query in of for of in results.joins.values())]
    canvas, axes = side_by_side(len(queries))
    for axis, query in zip(axes, queries, strict=True):
        for name in dict.fromkeys(
            each for of in results.joins.values() for each in of.get(query, {})
        ):
            _line(axis, results, query, name)
        _medians(axis, sorted(results.joins))
        axis.set_title(f"{query}: {RELATIONS[query]} relations")
        axis.set_xlabel("customers")
    return as_svg(canvas)


def _line(axis: Any, results: Results, query: str, name: str) -> None:
    system, _, path = name.rpartition(", ")
    points = [
        (customers, found.p50)
        for customers, of in sorted(results.joins.items())
        if (found := summary(of.get(query, {}).get(name))) is not None
    ]
    colour, marker = style(results, system)
    line = "-" if path == "view" else "--"
    draw_line(axis, points, color=colour, marker=marker, ls=line, label=name)


@mpl.rc_context(SETTINGS)
def locks_plot(results: Results) -> str:
    """Medians against the number of locks or rows."""
    canvas, (axis,) = side_by_side(1)
    for kind, marker, colour in zip(LOCKS, "o^v", LINE_COLOURS, strict=False):
        points = [
            (number_of, found.p50)
            for number_of, timing in sorted(results.locks.get(kind, {}).items())
            if (found := summary(timing)) is not None
        ]
        draw_line(axis, points, label=kind, color=colour, marker=marker)
    numbers = sorted({each for of in results.locks.values() for each in of})
    _medians(axis, numbers)
    axis.set_xlabel("rows, or locks")
    return as_svg(canvas)


@mpl.rc_context(SETTINGS)
def contention_plot(results: Results) -> str:
    """Successful updates per second, and the share of refusals, against skew."""
    canvas, (done, refused) = side_by_side(2)
    for system, points in results.contention.items():
        colour, marker = style(results, system)
        look = {"label": system, "color": colour, "marker": marker}
        draw_line(done, [(each.skew, each.done / each.seconds) for each in points], **look)
        shares = [(each.skew, 100 * refused_share(each)) for each in points]
        draw_line(refused, shares, **look)
    for axis, title in ((done, "done per second"), (refused, "refused, %")):
        axis.set_title(title)
        axis.set_xlabel("skew")
        axis.set_xticks(sorted({each.skew for of in results.contention.values() for each in of}))
        axis.set_ylim(bottom=0)
        axis.grid()
    canvas.legend(*done.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return as_svg(canvas)


@mpl.rc_context(SETTINGS)
def throughput_plot(results: Results) -> str:
    """Interactions per second against clients, a panel per mix and a line per number of nodes."""
    counts = sorted({point.nodes for point in results.throughput})
    canvas, axes = _rates(
        {
            f"{nodes} node{'s' if nodes > 1 else ''}": (
                LINE_COLOURS[place % len(LINE_COLOURS)],
                "o",
                [point for point in results.throughput if point.nodes == nodes],
            )
            for place, nodes in enumerate(counts)
        }
    )
    for axis in axes:
        axis.legend(fontsize=9)
    return as_svg(canvas)


@mpl.rc_context(SETTINGS)
def shopping_plot(results: Results) -> str:
    """Interactions per second against clients, a panel per mix and a line per system."""
    canvas, axes = _rates(
        {system: (*style(results, system), points) for system, points in results.shopping.items()}
    )
    canvas.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return as_svg(canvas)


def _rates(lines: Mapping[str, tuple[str, str, Sequence[Throughput]]]) -> tuple[Canvas, list[Any]]:
    """Panels of rates against clients, a panel per mix. `lines` has colour, marker and points by
    label."""
    points = list(chain.from_iterable(of_line for _, _, of_line in lines.values()))
    mixes = list(dict.fromkeys(point.mix for point in points))
    canvas, axes = side_by_side(len(mixes))
    for axis, mix in zip(axes, mixes, strict=True):
        for label, (colour, marker, of_line) in lines.items():
            rates = sorted((each.clients, rate(each)) for each in of_line if each.mix == mix)
            draw_line(axis, rates, label=label, color=colour, marker=marker)
        logarithmic(axis, sorted({point.clients for point in points if point.mix == mix}))
        axis.set_title(mix)
        axis.set_xlabel("clients")
        axis.set_ylim(bottom=0)
    axes[0].set_ylabel("interactions per second")
    return canvas, axes


@mpl.rc_context(SETTINGS)
def pieces_plot(results: Results) -> str:
    """The medians of the pieces of writes, as stacked bars."""
    rows = {name: of for name, of in results.pieces.items() if "log" in of}
    canvas, axes = _panels([len(rows)] if rows else [])
    for axis in axes:
        longest = 0.0
        for row, of in enumerate(rows.values()):
            left = 0.0
            for piece, colour in zip(PIECES, PIECE_COLOURS, strict=True):
                time = found.p50 if (found := summary(of.get(piece))) is not None else 0.0
                label = piece if row == 0 and piece in of else None
                axis.barh(row, time, left=left, height=0.6, color=colour, label=label)
                left += time
            longest = max(longest, left)
        _bars(axis, list(rows), longest)
        axis.set_xlabel("ms, median of each piece")
        axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=6, borderaxespad=0)
    return as_svg(canvas)


# ---------------------------------------------------------------- parts


def side_by_side(count: int) -> tuple[Canvas, list[Any]]:
    """A canvas with panels side by side."""
    canvas = Canvas(figsize=(WIDTH, 3.6), layout="constrained")
    return canvas, [canvas.add_subplot(1, count, place + 1) for place in range(count)]


def draw_line(axis: Any, points: Sequence[tuple[float, float]], **style: Any) -> None:
    axis.plot([x for x, _ in points], [y for _, y in points], **style)


def _medians(axis: Any, places: Sequence[int]) -> None:
    """Set the axes for lines of medians over `places`, both logarithmic."""
    if any(len(line.get_ydata()) for line in axis.get_lines()):  # no data have no log scale
        logarithmic(axis, places)
        axis.set_yscale("log")
    axis.yaxis.set_major_formatter(lambda value, _: number(value))
    axis.set_ylabel("ms, median")
    axis.legend(fontsize=9)


def logarithmic(axis: Any, places: Sequence[int]) -> None:
    """Set a logarithmic x axis with labels at `places`."""
    axis.set_xscale("log")
    axis.set_xticks(places, [number(each) for each in places])
    axis.minorticks_off()
    axis.grid()


def _of_kind(results: Results, kind: str) -> list[Statement]:
    return [each for each in results.statements if each.kind == kind]


def _label(statement: Statement) -> str:
    return f"{statement.name} ◆" if statement.view else statement.name


def _panels(rows: Sequence[int]) -> tuple[Canvas, list[Any]]:
    """A canvas with panels one above the other. `rows` has the number of rows of each."""
    if not rows:
        return Canvas(figsize=(WIDTH, 0.1)), []
    height = ROW * sum(rows) + 0.5 * len(rows) + 0.7
    canvas = Canvas(figsize=(WIDTH, height), layout="constrained")
    panels = canvas.subplots(len(rows), 1, sharex=True, height_ratios=rows, squeeze=False)
    return canvas, [axis for (axis,) in panels]


def _bars(axis: Any, names: Sequence[str], longest: float) -> None:
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.set_xlim(0, longest * 1.3)  # with room for the labels at the ends
    axis.xaxis.set_major_formatter(lambda value, _: number(value))
    axis.grid(axis="x")


def _legend(canvas: Canvas, results: Results) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], ls="", color=colour, marker=marker, ms=7, mec="white", label=system)
        for system in results.systems
        for colour, marker in [style(results, system)]
    ]
    canvas.legend(handles=handles, loc="outside upper center", ncols=len(handles), fontsize=9)


def as_svg(canvas: Canvas) -> str:
    """The canvas as SVG, without the parts that an HTML document does not need: prologue, metadata,
    names of groups."""
    written = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    canvas.savefig(written, format="svg", transparent=True, metadata=nothing)
    text = written.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r'<g id="[^"]*">', "<g>", text)
    text = re.sub(r' (xmlns(:xlink)?|version)="[^"]*"', "", text, flags=re.DOTALL)
    text = text.replace("xlink:href", "href")
    return re.sub(r'<svg [^>]*viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1" role="img">', text)
