"""How long each file of tests takes: `durations.tsv`, with seconds in two processes on two cores.

`make test` measures all files and corrects the record. Runs in several processes start with the
longest file. `make test-quick` takes the shortest files, as many as fit into `QUICK_S`. If it takes
longer than `QUICK_S` all the same, its last lines name the files that the record does not know, or
knows as shorter.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

RECORD = Path(__file__).with_name("durations.tsv")
QUICK_S = 120
"""Maximum seconds of the quick loop, from its start to its end."""
START_S = 25
"""Seconds in which the processes of the quick loop start and collect tests."""
SHORT_S = 1.0
"""Shorter files are not recorded."""
CHANGED = 2.0
"""A file's record is corrected if the file takes this many times as long, or as short. Without such
a bound every run would change every line."""

NAMED = 20
"""Maximum number of files that a quick loop names if it is not quick."""


def read(record: Path = RECORD) -> dict[str, float]:
    """Return seconds by file, relative to the root of the project."""
    lines = (line.split("\t") for line in record.read_text(encoding="utf-8").splitlines())
    return {file: float(seconds) for seconds, file in lines}


def write(durations: Mapping[str, float], record: Path = RECORD) -> None:
    """Write the record, the longest file first."""
    ordered = sorted(durations.items(), key=lambda each: (-each[1], each[0]))
    text = "".join(f"{seconds:.1f}\t{file}\n" for file, seconds in ordered)
    record.write_text(text, encoding="utf-8")


def corrected(recorded: Mapping[str, float], measured: Mapping[str, float]) -> dict[str, float]:
    """Return the record after a run of all files. A file that the run lacks does not exist."""
    kept = {}
    for file, seconds in measured.items():
        before = recorded.get(file, 0.0)
        kept[file] = before if before / CHANGED <= seconds <= before * CHANGED else seconds
    return {file: seconds for file, seconds in kept.items() if seconds >= SHORT_S}


def fitting(files: Iterable[str], recorded: Mapping[str, float], budget_s: float) -> set[str]:
    """Return the shortest of the files, as many as take `budget_s` together. A file without a
    record is one of them."""
    fit, total = set(), 0.0
    for file in sorted(files, key=lambda file: (recorded.get(file, 0.0), file)):
        total += recorded.get(file, 0.0)
        if total > budget_s:
            break
        fit.add(file)
    return fit


def longer(recorded: Mapping[str, float], measured: Mapping[str, float]) -> list[str]:
    """Return the files that take longer than the record says, the one with most of it first."""
    excess = {
        file: seconds - max(recorded.get(file, 0.0), SHORT_S)
        for file, seconds in measured.items()
        if seconds > CHANGED * max(recorded.get(file, 0.0), SHORT_S)
    }
    return sorted(excess, key=lambda file: (-excess[file], file))


class Stopwatch:
    """A plugin of pytest that measures files, in the process that hears of all tests.

    If it `corrects`, a run that was not interrupted corrects the record. A run that takes longer
    than `quick_s` reports the files that take longer than the record says.
    """

    def __init__(self, quick_s: float, *, corrects: bool, record: Path = RECORD) -> None:
        self._quick_s, self._corrects, self._record = quick_s, corrects, record
        self._began = time.monotonic()
        self._measured = Counter[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._measured[report.nodeid.split("::", maxsplit=1)[0]] += report.duration

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, exitstatus: int
    ) -> None:
        if self._corrects and exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
            self._correct(terminalreporter)
        elapsed_s = time.monotonic() - self._began
        if elapsed_s > self._quick_s:
            self._name_longer_files(terminalreporter, elapsed_s)

    def _correct(self, terminal: pytest.TerminalReporter) -> None:
        before = read(self._record)
        after = corrected(before, self._measured)
        if after != before:
            write(after, self._record)
            terminal.section("the durations of files have changed")
            terminal.line(f"{self._record.name} is corrected. Commit it.")

    def _name_longer_files(self, terminal: pytest.TerminalReporter, elapsed_s: float) -> None:
        recorded = read(self._record)
        terminal.section("the quick loop is not quick")
        terminal.line(
            f"It took {elapsed_s:.0f} s instead of {self._quick_s:.0f} s. `make test` corrects"
            f" {self._record.name}. These files take longer than it says:"
        )
        for file in longer(recorded, self._measured)[:NAMED]:
            terminal.line(f"{self._measured[file]:.1f} s, not {recorded.get(file, 0):.1f}: {file}")
