"""The report of a run: a JSON document, its page, and the tables of docs/performance.md.

The document includes the findings for its readers. This module does not read them, but derives them
again from the results, so that both cannot disagree. A person finds the reason of a missed goal,
with a profile:

    python -m bench.peers.report bench/reports/peers.json --reason "slower=the gateway's round trip"

rewrites document and page with the reason, and prints the tables. `--joins OTHER` adds the whole
joins of another report. Whole joins of many customers need more time and disk than all other
measurements.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from bench.peers.findings import (
    EMPTY,
    Finding,
    findings,
    joins_by_views,
    megabytes,
    number,
    quantity,
    stored_bytes,
    total_ms,
    writes,
)
from bench.peers.page import page
from bench.peers.results import FORMAT, OtherFormat, Results


@dataclass(frozen=True, slots=True)
class Report:
    """A run's results, and reasons for missed goals by the findings' keys."""

    results: Results
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def findings(self) -> tuple[Finding, ...]:
        return findings(self.results, self.reasons)


@dataclass(frozen=True, slots=True)
class _Document:
    """The parts of a report's document that are read."""

    format: int
    reasons: dict[str, str]
    results: Results


# ---------------------------------------------------------------- the document


def encode(report: Report) -> bytes:
    document = {
        "format": FORMAT,
        "findings": [_finding(each) for each in report.findings],
        "reasons": report.reasons,
        "results": report.results,
    }
    return msgspec.json.format(msgspec.json.encode(document)) + b"\n"


def _finding(found: Finding) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(found)
    return {**document, "met": found.met}


def decode(document: bytes) -> Report:
    """Parse a document. Raises OtherFormat."""
    try:
        found = msgspec.json.decode(document, type=_Document)
    except msgspec.DecodeError as error:
        raise OtherFormat(f"This is not a report on several systems: {error}.") from error
    if found.format != FORMAT:
        raise OtherFormat(f"Format {found.format} is not {FORMAT}; run the benchmark again.")
    return Report(found.results, found.reasons)


def with_joins(report: Report, other: Report) -> Report:
    """`report` with the whole joins of `other`, and with the command that measured them."""
    ours, theirs = report.results, other.results
    added = f"whole joins of {_listed(theirs.joins)} customers: {theirs.command}"
    results = replace(
        ours, joins={**ours.joins, **theirs.joins}, command=f"{ours.command}; {added}"
    )
    return Report(results, report.reasons)


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(number, sorted(numbers)))


def write(report: Report, output: Path) -> None:
    """Write the document to `output`, and the page to a file next to it with the suffix .html."""
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_bytes(encode(report))
    output.with_suffix(".html").write_text(page(report.results, report.findings))


# ---------------------------------------------------------------- tables


def markdown(report: Report) -> str:
    """The tables of docs/performance.md: the goals, and the sums of each system."""
    return f"{_goals(report.findings)}\n{_sums(report.results)}"


def _goals(found: Iterable[Finding]) -> str:
    rows = [
        (
            each.name,
            quantity(each.value, each.unit),
            quantity(each.geometric, each.unit),
            quantity(each.paper, each.unit),
            _goal(each),
        )
        for each in found
    ]
    return _table(("what", "measured", "geometric mean", "paper", "goal"), rows)


def _sums(results: Results) -> str:
    groups = (
        ("joins served by views", joins_by_views(results)),
        ("writes", writes(results)),
        ("all statements", list(results.statements)),
    )
    rows = [
        (
            system,
            *(_total(*total_ms(results, system, group), len(group)) for _, group in groups),
            EMPTY if (size := stored_bytes(results, system)) is None else megabytes(size),
        )
        for system in results.systems
    ]
    return _table(("sum of medians", *(f"{name}, ms" for name, _ in groups), "storage"), rows)


def _total(total: float, ran: int, of: int) -> str:
    if not ran:
        return EMPTY
    return number(total) + ("" if ran == of else f" ({ran} of {of})")


def _goal(finding: Finding) -> str:
    goal = finding.at_most if finding.at_least is None else finding.at_least
    if goal is None:
        return ""
    text = f"{'≤' if finding.at_least is None else '≥'} {number(goal)} {finding.unit}"
    return f"**{text}, missed**" if finding.met is False else text


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rule = ("---", *("---:" for _ in head[1:]))
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, rule, *rows))


# ---------------------------------------------------------------- command line


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.peers.report", description=__doc__)
    parser.add_argument("report", type=Path)
    parser.add_argument(
        "--reason",
        action="append",
        default=[],
        metavar="KEY=TEXT",
        help="the reason why a goal is missed",
    )
    parser.add_argument(
        "--joins", type=Path, metavar="OTHER", help="a report whose whole joins are added"
    )
    given = parser.parse_args(arguments)
    try:
        read = decode(given.report.read_bytes())
        if given.joins is not None:
            read = with_joins(read, decode(given.joins.read_bytes()))
    except (OSError, OtherFormat) as error:
        parser.error(str(error))
    new = dict(each.partition("=")[::2] for each in given.reason)
    unknown = new.keys() - {each.key for each in read.findings}
    if unknown:
        known = ", ".join(each.key for each in read.findings)
        parser.error(f"There is no finding {', '.join(sorted(unknown))}; there are {known}.")
    report = Report(read.results, {**read.reasons, **new})
    write(report, given.report)
    print(markdown(report))


if __name__ == "__main__":
    main()
