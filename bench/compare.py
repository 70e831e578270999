"""Finds statements that are slower in a newer report: `python -m bench.compare OLD NEW`.

Each median is divided by the geometric mean of the same run's bare operations of HBase (a put, a
get, a scan). So a slower or busier machine does not look like slower code. A statement is slower
when its quotient grew by more than the tolerance, or when it ran before and fails now. Statements
and systems that only one of the reports has are named and not compared.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import geometric_mean, median

from rich.console import Console
from rich.table import Table

from bench.peers import report
from bench.peers.findings import number, p50
from bench.peers.results import HORNBEAM, OtherFormat, Results

TOLERANCE = 1.2


@dataclass(frozen=True, slots=True)
class Change:
    """The change of a statement on a system. `old` and `new` are in units of bare operations; `new`
    is None if the statement fails now."""

    system: str
    statement: str
    old: float
    new: float | None

    @property
    def ratio(self) -> float | None:
        return None if self.new is None else self.new / self.old


@dataclass(frozen=True, slots=True)
class Comparison:
    changes: tuple[Change, ...]
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]

    def slower(self, tolerance: float) -> list[Change]:
        """The changes above `tolerance`, the worst first."""
        found = [each for each in self.changes if each.ratio is None or each.ratio > tolerance]
        return sorted(found, key=lambda each: -(each.ratio or float("inf")))


def compare(old: Results, new: Results, systems: Sequence[str] = (HORNBEAM,)) -> Comparison:
    """Compare two runs. Raises OtherFormat when a run has no bare operations."""
    before, after = _quotients(old, bare(old)), _quotients(new, bare(new))
    wanted = [key for key in before if key[0] in systems]
    present = {key for key in _statements(new) if key[0] in systems}
    return Comparison(
        tuple(Change(*key, before[key], after.get(key)) for key in wanted if key in present),
        tuple(" ".join(key) for key in wanted if key not in present),
        tuple(" ".join(key) for key in sorted(present - set(_statements(old)))),
    )


def bare(results: Results) -> float:
    """The run's unit in milliseconds: the geometric mean of its bare operations."""
    medians = [median(timing.times_ms) for timing in results.bare.values() if timing.times_ms]
    if not medians:
        raise OtherFormat("A run without bare operations of HBase cannot be compared.")
    return geometric_mean(medians)


def _quotients(results: Results, unit: float) -> dict[tuple[str, str], float]:
    return {
        key: time / unit for key in _statements(results) if (time := p50(results, *key)) is not None
    }


def _statements(results: Results) -> Iterator[tuple[str, str]]:
    for system, statements in results.timings.items():
        for statement in statements:
            yield system, statement


# ---------------------------------------------------------------- command line


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__)
    add = parser.add_argument
    add("old", type=Path)
    add("new", type=Path)
    add("--tolerance", type=float, default=TOLERANCE, help="the largest ratio that is not slower")
    add("--system", action="append", help="a system instead of Hornbeam; repeat for several")
    add("--json", action="store_true", help="print all comparisons as JSON")
    given = parser.parse_args(arguments)
    try:
        old, new = (report.decode(path.read_bytes()).results for path in (given.old, given.new))
        found = compare(old, new, given.system or (HORNBEAM,))
    except (OSError, OtherFormat) as error:
        parser.error(str(error))
    slower = found.slower(given.tolerance)
    if given.json:
        document = asdict(found) | {"slower": [asdict(each) for each in slower]}
        print(json.dumps(document, indent=2))
    else:
        _print(Console(), found, slower, given.tolerance)
    sys.exit(1 if slower else 0)


def _print(console: Console, found: Comparison, slower: list[Change], tolerance: float) -> None:
    if slower:
        table = Table(title=f"Slower by more than {tolerance:g} ×, in bare operations of the run")
        for name in ("system", "statement", "before", "now", "ratio"):
            table.add_column(name, justify="left" if name in {"system", "statement"} else "right")
        for each in slower:
            now = "fails" if each.new is None else number(each.new)
            ratio = "" if each.ratio is None else f"{number(each.ratio)} ×"
            table.add_row(each.system, each.statement, number(each.old), now, ratio)
        console.print(table)
    ratios = [each.ratio for each in found.changes if each.ratio is not None]
    mean = f", {number(geometric_mean(ratios))} × in the geometric mean" if ratios else ""
    console.print(
        f"{len(slower)} of {len(found.changes)} statements are slower{mean}.", highlight=False
    )
    for names, where in ((found.only_old, "before"), (found.only_new, "now")):
        if names:
            console.print(f"Only {where}: {', '.join(names)}", highlight=False)


if __name__ == "__main__":
    main()
