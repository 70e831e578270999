"""Figures of a run, compared with the goals and with the paper (Synergy, section IX).

All figures are derived from the results. Times are medians, since a few runs on a shared machine
have outliers. A ratio of two systems is, as in the paper, the mean of the ratios of their medians
over the statements that ran on both. Other statements are named, and not counted.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bench.peers.results import (
    BASELINE,
    HORNBEAM,
    MVCC_A,
    ONE_ROOT,
    PHOENIX,
    ROOTS_EACH,
    Contention,
    Results,
    Statement,
    Throughput,
    Timing,
    way,
)
from hornbeam_server.demo.measures import percentile

JOIN_GOALS = {BASELINE: 28.0, MVCC_A: 6.2}
WRITE_GOALS = {BASELINE: 8.6, MVCC_A: 8.6}
SCAN_GOALS = {"Q1": 6.0, "Q2": 11.7}
SCAN_CUSTOMERS = 50_000
"""The number of customers of the whole joins to which SCAN_GOALS apply."""
LESS_GOAL = 80.5
STORAGE_GOAL = 2.1
SLOWER_GOAL = 1.2

PAPER_JOINS = {BASELINE: 28.2, MVCC_A: 6.2}
PAPER_WRITES = 8.6
"""The minimum of the paper's range for three systems; the maximum is 9."""
PAPER_SUMS_S = {HORNBEAM: 33.7, MVCC_A: 77.4, BASELINE: 173.4}

RELATIONS = {"Q1": "two", "Q2": "three"}
EMPTY = "–"
NOT_MEASURED = "not measured in this run"
SCALING_MIX = "shopping"
NAMED = 4
"""Maximum number of statements that a note names."""

Ratios = dict[str, float]
"""Ratios by statement."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A figure with a goal, or for comparison. `value` None: it was not measured. `paper` is the
    paper's figure. `note` describes the measurements behind the value. `why` is the reason of a
    missed goal."""

    key: str
    name: str
    value: float | None
    unit: str
    paper: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    geometric: float | None = None
    note: str = ""
    why: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the value meets the goal; None without a goal or a value."""
        if self.value is None:
            return None
        if self.at_least is not None:
            return self.value >= self.at_least
        return None if self.at_most is None else self.value <= self.at_most


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary of times, in milliseconds. `error` is the standard error of the mean."""

    mean: float
    error: float
    p50: float
    p99: float


# ---------------------------------------------------------------- figures


def summary(timing: Timing | None) -> Summary | None:
    """The summary of a timing; None if the statement did not run, or a run failed."""
    if timing is None or timing.error is not None or not timing.times_ms:
        return None
    times = timing.times_ms
    error = statistics.stdev(times) / len(times) ** 0.5 if len(times) > 1 else 0.0
    return Summary(
        statistics.fmean(times), error, statistics.median(times), percentile(times, 0.99)
    )


def p50(results: Results, system: str, statement: str) -> float | None:
    found = summary(results.timings.get(system, {}).get(statement))
    return None if found is None else found.p50


def ratios(results: Results, of: str, to: str, statements: Iterable[Statement]) -> Ratios:
    """The medians of `of` divided by those of `to`, for the statements that ran on both systems."""
    both = ((s.name, p50(results, of, s.name), p50(results, to, s.name)) for s in statements)
    return {name: a / b for name, a, b in both if a is not None and b}


def total_ms(results: Results, system: str, statements: Iterable[Statement]) -> tuple[float, int]:
    """The sum of the medians of the statements that ran, and the number of these statements."""
    times = [p50(results, system, each.name) for each in statements]
    ran = [time for time in times if time is not None]
    return sum(ran), len(ran)


def stored_bytes(results: Results, system: str) -> int | None:
    tables = results.storage.get(system)
    return sum(tables.values()) if tables else None


def joins_by_views(results: Results) -> list[Statement]:
    """The joins that Hornbeam answers from views."""
    return [each for each in results.statements if each.kind == "join" and each.view]


def writes(results: Results) -> list[Statement]:
    return [each for each in results.statements if each.kind == "write"]


def number(value: float) -> str:
    """A number as text: three significant digits, or from 100 on a whole number with its digits in
    groups: `0.0123`, `12.3`, `12 345`."""
    if abs(value) >= 100:
        return f"{value:,.0f}".replace(",", " ")
    text = f"{value:.3g}"
    return f"{float(text):f}".rstrip("0").rstrip(".") if "e" in text else text


def quantity(value: float | None, unit: str) -> str:
    return EMPTY if value is None else f"{number(value)} {unit}"


def megabytes(size: int) -> str:
    return f"{number(size / 1e6)} MB"


# ---------------------------------------------------------------- findings


def findings(results: Results, reasons: Mapping[str, str] | None = None) -> tuple[Finding, ...]:
    """The findings of a run, in the order of the goals. `reasons` are by the findings' keys."""
    whys = reasons or {}
    found = (
        *(_joins(results, system) for system in JOIN_GOALS),
        *(_scan(results, query, system) for query in SCAN_GOALS for system in (PHOENIX, HORNBEAM)),
        *(_writes(results, system) for system in WRITE_GOALS),
        replace(_less(results, BASELINE), at_least=LESS_GOAL),
        _less(results, MVCC_A),
        _storage(results),
        _never_slower(results),
        _answers(results),
        _locks(results),
        *(_shopping(results, system) for system in (BASELINE, MVCC_A, PHOENIX)),
        _scaling(results),
    )
    return tuple(replace(each, why=whys.get(each.key, "")) for each in found)


def _joins(results: Results, system: str) -> Finding:
    finding = Finding(
        key=f"joins/{system}",
        name=f"joins served by views: {system} / {HORNBEAM}",
        value=None,
        unit="×",
        paper=PAPER_JOINS[system],
        at_least=JOIN_GOALS[system],
    )
    return _compared(finding, results, system, joins_by_views(results))


def _writes(results: Results, system: str) -> Finding:
    finding = Finding(
        key=f"writes/{system}",
        name=f"writes: {system} / {HORNBEAM}",
        value=None,
        unit="×",
        paper=PAPER_WRITES,
        at_least=WRITE_GOALS[system],
    )
    return _compared(finding, results, system, writes(results))


def _compared(
    finding: Finding, results: Results, system: str, statements: Sequence[Statement]
) -> Finding:
    found = ratios(results, system, HORNBEAM, statements)
    if not found:
        return replace(finding, note=_absent(results, system))
    lowest, highest = min(found, key=found.__getitem__), max(found, key=found.__getitem__)
    return replace(
        finding,
        value=statistics.fmean(found.values()),
        geometric=statistics.geometric_mean(found.values()),
        note=f"{len(found)} statements, from {number(found[lowest])} × ({lowest}) "
        f"to {number(found[highest])} × ({highest}){_without(statements, found)}",
    )


def _scan(results: Results, query: str, system: str) -> Finding:
    """The paper's micro-benchmark, at the largest number of customers that was measured."""
    customers = max(results.joins, default=0)
    by_way = results.joins.get(customers, {}).get(query, {})
    joined = summary(by_way.get(way(system, view=False)))
    viewed = summary(by_way.get(way(HORNBEAM, view=True)))
    whose = "our own" if system == HORNBEAM else f"{system}’s"
    finding = Finding(
        key=f"scan/{query}/{system}",
        name=f"{whose} join of {RELATIONS[query]} whole relations / our view scan",
        value=None,
        unit="×",
        paper=SCAN_GOALS[query],
        at_least=SCAN_GOALS[query],
        note=NOT_MEASURED,
    )
    if joined is None or viewed is None:
        return finding
    return replace(
        finding,
        value=joined.p50 / viewed.p50,
        at_least=SCAN_GOALS[query] if customers >= SCAN_CUSTOMERS else None,
        note=f"{number(customers)} customers, {number(joined.p50)} against {number(viewed.p50)} ms",
    )


def _less(results: Results, system: str) -> Finding:
    both = ratios(results, system, HORNBEAM, results.statements)
    statements = [each for each in results.statements if each.name in both]
    ours, theirs = (total_ms(results, name, statements)[0] for name in (HORNBEAM, system))
    return Finding(
        key=f"sum/{system}",
        name=f"sum of all statements: lower than {system} by",
        value=100 * (1 - ours / theirs) if both else None,
        unit="%",
        paper=round(100 * (1 - PAPER_SUMS_S[HORNBEAM] / PAPER_SUMS_S[system]), 1),
        note=f"{number(ours)} against {number(theirs)} ms{_without(results.statements, both)}"
        if both
        else _absent(results, system),
    )


def _storage(results: Results) -> Finding:
    finding = Finding(
        key="storage",
        name=f"storage: {HORNBEAM} / {BASELINE}",
        value=None,
        unit="×",
        paper=2.1,
        at_most=STORAGE_GOAL,
    )
    ours, theirs = stored_bytes(results, HORNBEAM), stored_bytes(results, BASELINE)
    if ours is None or not theirs:
        return replace(finding, note=_absent(results, BASELINE))
    note = f"{megabytes(ours)} against {megabytes(theirs)}"
    return replace(finding, value=ours / theirs, note=note)


def _never_slower(results: Results) -> Finding:
    finding = Finding(
        key="slower",
        name=f"the slowest statement: {HORNBEAM} / {PHOENIX}",
        value=None,
        unit="×",
        at_most=SLOWER_GOAL,
    )
    found = ratios(results, HORNBEAM, PHOENIX, results.statements)
    if not found:
        return replace(finding, note=_absent(results, PHOENIX))
    slower = sorted(
        (name for name in found if found[name] > SLOWER_GOAL), key=found.__getitem__, reverse=True
    )
    named = [f"{name} {number(found[name])} ×" for name in slower]
    return replace(
        finding,
        value=max(found.values()),
        geometric=statistics.geometric_mean(found.values()),
        note=f"{len(slower)} of {len(found)} slower by more than 20 %{_some(named)}"
        + _without(results.statements, found),
    )


def _answers(results: Results) -> Finding:
    """The share of statements that Hornbeam ran with the reference's answers."""
    of = results.timings.get(HORNBEAM, {})
    names = [each.name for each in results.statements]
    wrong = [each.name for each in results.statements if not _right(each, of.get(each.name))]
    return Finding(
        key="answers",
        name="statements that ran, and answered as the reference does",
        value=100 * (1 - len(wrong) / len(names)) if names else None,
        unit="%",
        at_least=100.0,
        note=f"{len(names) - len(wrong)} of {len(names)}"
        + (f"; not {', '.join(wrong)}" if wrong else ""),
    )


def _locks(results: Results) -> Finding:
    """The cost of locks, at the largest number of rows that was measured."""
    each, one = (results.locks.get(kind, {}) for kind in (ROOTS_EACH, ONE_ROOT))
    largest = max(each.keys() & one.keys(), default=0)
    finding = Finding(
        key="locks",
        name="a transaction over many roots / over as many rows of one",
        value=None,
        unit="×",
        note=NOT_MEASURED,
    )
    roots, rows = summary(each.get(largest)), summary(one.get(largest))
    if roots is None or rows is None:
        return finding
    note = f"{largest} rows, {number(roots.p50)} against {number(rows.p50)} ms"
    return replace(finding, value=roots.p50 / rows.p50, note=note)


def _shopping(results: Results, system: str) -> Finding:
    """The ratio of the best rates of both systems, each with its best number of clients."""
    finding = Finding(
        key=f"shopping/{system}",
        name=f"throughput of the {SCALING_MIX} mix: {HORNBEAM} / {system}",
        value=None,
        unit="×",
        note=NOT_MEASURED,
    )
    ours, theirs = (
        best_rate(results.shopping.get(each, ()), SCALING_MIX) for each in (HORNBEAM, system)
    )
    if ours is None or theirs is None:
        return finding
    return replace(
        finding,
        value=rate(ours) / rate(theirs) if theirs.interactions else None,
        note=f"{number(rate(ours))}/s of {ours.clients} clients,"
        f" {number(rate(theirs))}/s of {theirs.clients}",
    )


def _scaling(results: Results) -> Finding:
    """The ratio of the best rates with the largest and the smallest number of nodes."""
    finding = Finding(
        key="scaling",
        name=f"throughput of the {SCALING_MIX} mix: more nodes / fewer",
        value=None,
        unit="×",
        note=NOT_MEASURED,
    )
    numbers = {point.nodes for point in results.throughput}
    few, many = (
        best_rate([each for each in results.throughput if each.nodes == nodes], SCALING_MIX)
        for nodes in (min(numbers, default=0), max(numbers, default=0))
    )
    if few is None or many is None or few == many:
        return finding
    return replace(
        finding,
        value=rate(many) / rate(few) if few.interactions else None,
        note=f"{many.nodes} nodes {number(rate(many))}/s, {few.nodes} {number(rate(few))}/s;"
        f" busy cores {cores_text(many)}, and {cores_text(few)}",
    )


def best_rate(points: Iterable[Throughput], mix: str) -> Throughput | None:
    """The point of the mix with the most interactions per second."""
    return max((point for point in points if point.mix == mix), key=rate, default=None)


def refused_share(point: Contention) -> float:
    """The share of refusals in all attempts."""
    tried = point.done + point.refused
    return point.refused / tried if tried else 0.0


def rate(point: Throughput) -> float:
    """Interactions per second."""
    return point.interactions / point.seconds


def cores_text(point: Throughput) -> str:
    return ", ".join(f"{group} {number(busy)}" for group, busy in point.cores.items())


def _right(statement: Statement, timing: Timing | None) -> bool:
    ran = summary(timing) is not None
    return ran and (statement.kind == "write" or (timing is not None and timing.equal is True))


def _absent(results: Results, system: str) -> str:
    absent = [each for each in (HORNBEAM, system) if each not in results.systems]
    return f"{' and '.join(absent)} not in this run" if absent else "nothing was measured on both"


def _without(statements: Sequence[Statement], found: Ratios) -> str:
    """A clause that names the statements without a ratio; "" if there are none."""
    names = [each.name for each in statements if each.name not in found]
    return f"; without {', '.join(names)}" if names else ""


def _some(named: Sequence[str]) -> str:
    more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
    return f": {', '.join(named[:NAMED])}{more}" if named else ""
