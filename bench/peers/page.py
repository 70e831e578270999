"""A run's report as a self-contained HTML page. It contains its styles and plots, fetches nothing
and runs no script. All text of the results is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from bench.peers import plots
from bench.peers.findings import (
    EMPTY,
    Finding,
    Summary,
    megabytes,
    number,
    p50,
    quantity,
    rate,
    refused_share,
    stored_bytes,
    summary,
)
from bench.peers.results import HORNBEAM, PIECES, Results, Statement, Throughput, Timing

FASTER, SLOWER = 0.8, 1.25
"""Ratios to Hornbeam's median below and above which a system counts as faster or slower."""
HEADLINES = ("joins/Baseline", "joins/MVCC-A", "writes/Baseline", "sum/Baseline", "storage")

CSS = """
:root { --ink: #22302a; --faint: #6b7a72; --line: #e4eae6; --ground: #f5f8f6; --good: #1b7f4b;
  --bad: #c0392b; --card: #fff; color-scheme: light }
* { box-sizing: border-box }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif }
main, header { max-width: 1180px; margin: 0 auto; padding: 0 24px }
header { padding-top: 40px }
h1 { font-size: 30px; line-height: 1.2; margin: 0 0 6px }
h2 { font-size: 20px; margin: 0 0 4px }
h3 { font-size: 15px; margin: 20px 0 4px }
p { margin: 4px 0 12px; max-width: 80ch }
header p, .about { color: var(--faint) }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 22px 26px; margin: 18px 0 }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(190px, 1fr)); gap: 14px;
  margin: 22px 0 }
.tile { background: var(--card); border: 1px solid var(--line); border-top: 4px solid #9aa7a0;
  border-radius: 10px; padding: 14px 16px }
.tile.met { border-top-color: var(--good) }
.tile.missed { border-top-color: var(--bad) }
.tile b { display: block; font-size: 28px; line-height: 1.2 }
.tile span { display: block; font-size: 13px; color: var(--faint) }
svg { display: block; width: 100%; height: auto; margin: 6px 0;
  font-family: system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif }
.wide { overflow-x: auto }
table { border-collapse: collapse; width: 100%; font-size: 13.5px }
th { text-align: left; color: var(--faint); font-weight: 600; vertical-align: bottom }
th, td { padding: 5px 10px 5px 0; border-bottom: 1px solid var(--line) }
td { vertical-align: top }
.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
.met { color: var(--good) } .missed, .failed { color: var(--bad) }
.tile.met, .tile.missed { color: inherit }
td.faster { background: #fdeceb } td.slower { background: #e9f5ee }
.faint { color: var(--faint) }
.note { color: var(--faint); font-size: 12.5px; display: block }
code, pre { font: 12.5px/1.45 ui-monospace, "DejaVu Sans Mono", monospace }
pre { white-space: pre-wrap; background: var(--ground); padding: 10px 12px; border-radius: 6px;
  margin: 4px 0 }
summary { cursor: pointer; margin: 10px 0 4px; font-weight: 600 }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 18px; margin: 4px 0 }
dt { color: var(--faint) } dd { margin: 0; overflow-wrap: anywhere }
footer { padding-bottom: 40px }
@media print { section { break-inside: avoid } body { background: #fff } }
"""


def page(results: Results, findings: Sequence[Finding]) -> str:
    parts = (
        html_section("Goals and results", _GOALS, _goals(findings)),
        html_section("Comparison with the paper", _RATIOS, plots.ratios_plot(findings)),
        html_section("Every statement", _STATEMENTS, plots.statements_plot(results)),
        html_section("The sum of all statements", _SUMS, plots.sums_plot(results)),
        html_section("Whole joins", _JOINS, plots.joins_plot(results)) if results.joins else "",
        html_section("Locks", _LOCKS, plots.locks_plot(results)) if results.locks else "",
        html_section(
            "Contention", _CONTENTION, plots.contention_plot(results) + _contended(results)
        )
        if any(results.contention.values())
        else "",
        html_section(
            "Emulated browsers",
            _BROWSERS,
            plots.shopping_plot(results) + _browsed(results.shopping),
        )
        if any(results.shopping.values())
        else "",
        html_section(
            "Nodes", _NODES, plots.throughput_plot(results) + _of_nodes(results.throughput)
        )
        if results.throughput
        else "",
        html_section("Pieces of a request", _PIECES, _pieces(results)) if results.pieces else "",
        html_section("Storage", _STORAGE, plots.storage_plot(results) + _tables_stored(results)),
        html_section("Failures and other answers", "", _failures(results)),
        html_section("Times", _TIMES, _times(results) + _spread(results)),
        html_section("Bare operations of HBase, and loads", _BARE, _bare(results)),
        html_section("The run", "", _run(results)),
    )
    header = f"{_head(results)}{_tiles(findings)}"
    return html_document("Hornbeam next to other systems", header, "".join(parts))


def html_document(title: str, header: str, content: str) -> str:
    """A self-contained document. `header` and `content` are HTML."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{CSS}</style></head>\n<body>\n"
        f"<header>{header}</header>\n<main>\n{content}</main>\n"
        "<footer></footer></body></html>\n"
    )


_GOALS = (
    "A ratio is the mean over statements of the ratios of their medians. Beside it is the "
    "geometric mean, on which a single statement has less influence. The paper’s figures are of "
    "eight machines and a million customers; these are of the machine below."
)
_RATIOS = (
    "Bars are this run: green if the goal is met, red if it is missed. The dark stroke is the "
    "paper’s figure, the ring the geometric mean."
)
_STATEMENTS = (
    "Medians, on a logarithmic scale: left is faster. A cross at the right edge is a statement "
    "that the system of that colour could not run. ◆: Hornbeam answers from a view."
)
_SUMS = "The sum of the medians of all statements."
_JOINS = (
    "All rows of a join of two (Q1) and three (Q2) relations. Solid lines scan a view, dashed "
    "lines join."
)
_LOCKS = (
    "A transaction that updates this number of rows: each row of another root, so that it takes "
    "as many locks, or all rows of one root. Beside them are the paper’s locks alone, taken and "
    "released by check-and-put. In the paper a hundred locks cost 1.3 times its slowest write."
)
_CONTENTION = (
    "Concurrent clients update customers, on one system at a time. Skew is the exponent of Zipf’s "
    "law. Refused updates are counted, and not repeated."
)
_BROWSERS = (
    "Emulated browsers without think times, each with a session of the system’s own driver, on "
    "one system at a time. A refused interaction is an error, and is not counted. All processes "
    "share the machine’s cores; the table has the busy cores of each group."
)
_NODES = (
    "The same at one and several nodes of Hornbeam, with the emulated browsers in a separate "
    "process."
)
_PIECES = (
    "Medians in milliseconds of one client’s requests, by the node’s own clock. “way” is the "
    "client’s time beyond the node’s: HTTP, JSON, the system. A read is one piece in the node."
)
_STORAGE = "Relations, indexes and views, as each system reports them."
_TIMES = (
    "Medians in milliseconds. Green: slower than Hornbeam by more than a quarter; red: faster by "
    "as much. ≠: the answer differs from the reference’s."
)
_BARE = "They make the figures of two runs comparable."


# ---------------------------------------------------------------- head


def _head(results: Results) -> str:
    machine = ", ".join(_words(results.machine))
    return (
        "<h1>Hornbeam next to other systems</h1>"
        f"<p>The same data and {len(results.statements)} statements of TPC-W on "
        f"{len(results.systems)} systems of one machine: {escape(', '.join(results.systems))}.<br>"
        f"{escape(results.began)} · {escape(machine)}</p>"
    )


def _words(machine: Mapping[str, Any]) -> list[str]:
    named = (("cores", " cores"), ("processor", ""), ("memory", " of memory"), ("system", ""))
    return [f"{machine[key]}{unit}" for key, unit in named if machine.get(key)]


def _tiles(findings: Sequence[Finding]) -> str:
    shown = [each for each in findings if each.key in HEADLINES]
    return f'<div class="tiles">{"".join(map(_tile, shown))}</div>'


def _tile(found: Finding) -> str:
    return (
        f'<div class="tile {_met(found)}"><b>{quantity(found.value, found.unit)}</b>'
        f"<span>{escape(found.name)}</span><span>{_goal(found)}</span></div>"
    )


def _met(found: Finding) -> str:
    return {True: "met", False: "missed", None: ""}[found.met]


def _goal(found: Finding) -> str:
    """A goal with a mark, since some readers cannot distinguish the colours."""
    mark = {True: " ✓ met", False: " ✗ missed", None: ""}[found.met]
    if found.at_least is not None:
        return f"≥ {number(found.at_least)} {found.unit}{mark}"
    return f"≤ {number(found.at_most)} {found.unit}{mark}" if found.at_most is not None else ""


# ---------------------------------------------------------------- sections


def html_section(title: str, about: str, content: str) -> str:
    intro = f'<p class="about">{escape(about)}</p>' if about else ""
    return f"<section><h2>{escape(title)}</h2>{intro}{content}</section>\n"


def _goals(findings: Sequence[Finding]) -> str:
    rows = [
        (
            f"{escape(each.name)}{_small(each.note)}{_small(each.why)}",
            html_cell(quantity(each.value, each.unit)),
            html_cell(quantity(each.geometric, each.unit)),
            html_cell(quantity(each.paper, each.unit)),
            html_cell(_goal(each), _met(each)),
        )
        for each in findings
    ]
    return html_table(("", "measured", "geometric mean", "the paper", "goal"), rows)


def _contended(results: Results) -> str:
    rows = [
        (
            escape(system),
            html_cell(f"{each.skew:g}"),
            html_cell(number(each.done / each.seconds)),
            html_cell(f"{number(100 * refused_share(each))} %"),
            html_cell(number(each.p50_ms)),
            html_cell(number(each.p99_ms)),
            f"<code>{escape(each.error)}</code>" if each.error else "",
        )
        for system, points in results.contention.items()
        for each in points
    ]
    head = ("system", "skew", "done/s", "refused", "p50 ms", "p99 ms", "the last refusal")
    return html_table(head, rows)


def _browsed(shopping: Mapping[str, Sequence[Throughput]]) -> str:
    rows = [
        (
            escape(each.mix),
            html_cell(str(each.clients)),
            escape(system),
            *_rates(each),
            f"<code>{escape(each.error)}</code>" if each.error else "",
        )
        for points in zip(*shopping.values(), strict=True)
        for system, each in zip(shopping, points, strict=True)
    ]
    head = ("mix", "clients", "system", *_RATES, *_busy(next(iter(shopping.values()))))
    return html_table((*head, "the last error"), rows)


def _of_nodes(points: Sequence[Throughput]) -> str:
    rows = [
        (escape(each.mix), *map(html_cell, (str(each.nodes), str(each.clients))), *_rates(each))
        for each in points
    ]
    return html_table(("mix", "nodes", "clients", *_RATES, *_busy(points)), rows)


_RATES = ("interactions/s", "p50 ms", "p99 ms", "errors")


def _rates(point: Throughput) -> Iterable[str]:
    figures = (rate(point), point.p50_ms, point.p99_ms, point.errors, *point.cores.values())
    return map(html_cell, map(number, figures))


def _busy(points: Sequence[Throughput]) -> Iterable[str]:
    return (f"cores of {name}" for name in points[0].cores)


def _pieces(results: Results) -> str:
    rows = [
        (escape(statement), *(html_cell(_median(of.get(piece))) for piece in PIECES))
        for statement, of in results.pieces.items()
    ]
    return plots.pieces_plot(results) + html_table(("", *PIECES), rows)


def _median(timing: Timing | None) -> str:
    found = summary(timing)
    return EMPTY if found is None else number(found.p50)


def _failures(results: Results) -> str:
    """A table by system and error, since several statements often have the same cause."""
    causes: dict[tuple[str, str], list[str]] = {}
    for system, statement, timing in _all(results):
        if timing.error is not None:
            causes.setdefault((system, timing.error), []).append(statement)
        elif timing.equal is False:
            causes.setdefault((system, "the answer differs from the reference’s"), []).append(
                statement
            )
    if not causes:
        return "<p>None: every system ran every statement, with equal answers.</p>"
    rows = [
        (escape(system), escape(", ".join(names)), f"<code>{escape(error)}</code>")
        for (system, error), names in causes.items()
    ]
    return html_table(("system", "statements", "error"), rows, numbers=False)


def _all(results: Results) -> Iterable[tuple[str, str, Timing]]:
    for system in results.systems:
        for statement, timing in results.timings.get(system, {}).items():
            yield system, statement, timing
        for customers, by_query in results.joins.items():
            for query, by_way in by_query.items():
                for way, timing in by_way.items():
                    if way.rpartition(", ")[0] == system:
                        yield system, f"{query} of {number(customers)} customers", timing


def _times(results: Results) -> str:
    rows = [
        (
            _named(statement),
            *(_time(results, system, statement.name) for system in results.systems),
        )
        for statement in results.statements
    ]
    return html_table(("", *results.systems), rows)


def _named(statement: Statement) -> str:
    mark = " ◆" if statement.view else ""
    return (
        f"<details><summary>{escape(statement.name)}{mark}</summary>"
        f"<pre>{escape(statement.sql.strip())}</pre></details>"
    )


def _time(results: Results, system: str, statement: str) -> str:
    timing = results.timings.get(system, {}).get(statement)
    if timing is not None and timing.error is not None:
        return f'<td class="n failed" title="{escape(timing.error)}">failed</td>'
    time, ours = p50(results, system, statement), p50(results, HORNBEAM, statement)
    if time is None or timing is None:
        return html_cell(EMPTY)
    ratio = time / ours if ours else 1.0
    colour = "faster" if ratio < FASTER else "slower" if ratio > SLOWER else ""
    return html_cell(number(time) + (" ≠" if timing.equal is False else ""), colour)


def _spread(results: Results) -> str:
    """A table of all times, with means, standard errors and percentiles."""
    rows = [
        (escape(statement), escape(system), *map(html_cell, _numbers(summary(timing), timing)))
        for system, statement, timing in _all(results)
    ]
    head = ("", "", "mean", "standard error", "p50", "p99", "runs", "rows")
    table = html_table(head, sorted(rows, key=lambda row: row[0]), numbers_from=2)
    return f"<details><summary>Means, standard errors, percentiles</summary>{table}</details>"


def _numbers(found: Summary | None, timing: Timing) -> Iterable[str]:
    if found is None:
        return (*[EMPTY] * 4, str(len(timing.times_ms)), number(timing.rows))
    times = (found.mean, found.error, found.p50, found.p99)
    return (*map(number, times), str(len(timing.times_ms)), number(timing.rows))


def _tables_stored(results: Results) -> str:
    rows = [
        (escape(system), escape(table), html_cell(megabytes(size)))
        for system in results.systems
        for table, size in sorted(
            results.storage.get(system, {}).items(), key=lambda item: -item[1]
        )
    ]
    table = html_table(("system", "relation, index or view", "size"), rows, numbers_from=2)
    return f"<details><summary>By relation, index and view</summary>{table}</details>"


def _bare(results: Results) -> str:
    operations = [
        (escape(name), *map(html_cell, _numbers(summary(timing), timing)))
        for name, timing in results.bare.items()
    ]
    loads = [
        (escape(system), html_cell(number(rate)), html_cell(_size(results, system)))
        for system, rate in results.load_rows_s.items()
    ]
    head = ("ms", "mean", "standard error", "p50", "p99", "runs", "rows")
    return (
        html_table(head, operations)
        + "<h3>Loads</h3>"
        + html_table(("", "rows/s", "stored"), loads)
    )


def _size(results: Results, system: str) -> str:
    size = stored_bytes(results, system)
    return EMPTY if size is None else megabytes(size)


def _run(results: Results) -> str:
    versions = {
        system: ", ".join(f"{name} {version}" for name, version in of.items())
        for system, of in results.versions_by_system.items()
    }
    return (
        f"<pre>{escape(results.command)}</pre>"
        f"<h3>Machine</h3>{html_pairs(results.machine)}"
        f"<h3>Options</h3>{html_pairs(results.options)}"
        f"<h3>Versions</h3>{html_pairs(versions)}"
    )


# ---------------------------------------------------------------- parts


def _small(text: str) -> str:
    return f'<span class="note">{escape(text)}</span>' if text else ""


def html_pairs(of: Mapping[str, Any]) -> str:
    pairs = (f"<dt>{escape(key)}</dt><dd>{escape(str(value))}</dd>" for key, value in of.items())
    return f"<dl>{''.join(pairs)}</dl>"


def html_cell(text: str, kind: str = "") -> str:
    return f'<td class="{f"n {kind}".strip()}">{escape(text)}</td>'


def html_table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: bool = True,
    numbers_from: int = 1,
) -> str:
    """A table of HTML cells. Other text becomes a cell."""
    heads = "".join(
        f'<th class="n">{escape(each)}</th>'
        if numbers and place >= numbers_from
        else f"<th>{escape(each)}</th>"
        for place, each in enumerate(head)
    )
    lines = "".join(f"<tr>{''.join(map(_as_cell, row))}</tr>\n" for row in rows)
    return f'<div class="wide"><table><tr>{heads}</tr>\n{lines}</table></div>'


def _as_cell(text: str) -> str:
    return text if text.startswith("<td") else f"<td>{text}</td>"
