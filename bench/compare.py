"""Finds what is slower in a newer report: `python -m bench.compare OLD NEW`.

Both are reports of `make bench-peers`, or both are reports of `make bench`. Each median is divided
by the geometric mean of the same run's floors: HBase's bare operations (a put, a get, a scan), or
sqlite3's reads and a bare ASGI server's answers. So a slower or busier machine does not look like
slower code. A statement is slower when its quotient grew by more than the tolerance, or when it ran
before and fails now. Statements and systems that only one of the reports has are named and not
compared. Of `make bench`, times and rates are compared; a rate counts as the time of one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import geometric_mean, median

import msgspec
from rich.console import Console
from rich.table import Table

from bench import short_reads
from bench.peers import report
from bench.peers.findings import number, p50
from bench.peers.results import HORNBEAM, OtherFormat, Results

TOLERANCE = 1.2


@dataclass(frozen=True, slots=True)
class Change:
    """The change of a statement on a system. `old` and `new` are in units of the run's floors;
    `new` is None if the statement fails now."""

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


Key = tuple[str, str]
"""A system, and a statement or a figure of it."""


@dataclass(frozen=True, slots=True)
class Run:
    """What a report says of each statement: its time in units of the run's floors, None if it
    failed."""

    quotients: dict[Key, float | None]


def compare(old: Run, new: Run, systems: Sequence[str] = (HORNBEAM,)) -> Comparison:
    before = {key: time for key, time in old.quotients.items() if key[0] in systems}
    after = {key: time for key, time in new.quotients.items() if key[0] in systems}
    return Comparison(
        tuple(
            Change(*key, time, after[key])
            for key, time in before.items()
            if time is not None and key in after
        ),
        tuple(" ".join(key) for key, time in before.items() if time and key not in after),
        tuple(" ".join(key) for key in sorted(after) if key not in before),
    )


def read(document: bytes) -> Run:
    """The run of a report. Raises OtherFormat when it is neither of the two reports, or has no
    floors."""
    try:
        figures = msgspec.json.decode(document, type=_Figures).figures
    except msgspec.DecodeError:
        return of_peers(report.decode(document).results)
    return of_figures(figures)


# ---------------------------------------------------------------- reports of `make bench`


class _Figure(msgspec.Struct):
    section: str
    name: str
    value: float
    unit: str

    @property
    def time(self) -> float | None:
        """The time of one, in a unit that is the same in every report. None for other figures, and
        for a step that took no time because it does not occur."""
        if not self.value:
            return None
        if self.unit in _TIMES:
            return self.value
        return 1 / self.value if self.unit in _RATES else None


class _Figures(msgspec.Struct):
    figures: list[_Figure]


_TIMES, _RATES = {"s", "ms", "µs"}, {"reads/s", "tx/s", "rows/s"}
_FLOORS = (f": {short_reads.SQLITE}", f": {short_reads.BARE}")
_OF_OTHERS = (
    *_FLOORS,
    *(f": {name}" for name in (short_reads.DUCKDB, short_reads.PSYCOPG, short_reads.BACKEND)),
)


def of_figures(figures: Sequence[_Figure]) -> Run:
    """The run of a report of `make bench`. Raises OtherFormat when it has no floors."""
    timed = [(each, time) for each in figures if (time := each.time) is not None]
    floors = [time for each, time in timed if each.name.endswith(_FLOORS)]
    if not floors:
        raise OtherFormat("A run without sqlite3 and a bare ASGI server cannot be compared.")
    unit = geometric_mean(floors)
    return Run(
        {
            (HORNBEAM, f"{each.section}: {each.name}"): time / unit
            for each, time in timed
            if not each.name.endswith(_OF_OTHERS)
        }
    )


# ---------------------------------------------------------------- reports of `make bench-peers`


def of_peers(results: Results) -> Run:
    """The run of a report on several systems. Raises OtherFormat when it has no bare operations."""
    unit = bare(results)
    times = {key: p50(results, *key) for key in _statements(results)}
    return Run({key: None if time is None else time / unit for key, time in times.items()})


def bare(results: Results) -> float:
    """The run's unit in milliseconds: the geometric mean of its bare operations."""
    medians = [median(timing.times_ms) for timing in results.bare.values() if timing.times_ms]
    if not medians:
        raise OtherFormat("A run without bare operations of HBase cannot be compared.")
    return geometric_mean(medians)


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
        old, new = (read(path.read_bytes()) for path in (given.old, given.new))
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
        table = Table(title=f"Slower by more than {tolerance:g} ×, in floors of the run")
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
