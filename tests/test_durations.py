"""The record of durations follows the suite, and the quick loop takes the files that fit."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from tests import durations

RECORD = {"long": 40.0, "middle": 8.0, "short": 2.0}


def test_the_shortest_files_fit_and_those_without_a_record():
    files = [*RECORD, "new"]
    assert durations.fitting(files, RECORD, 1) == {"new"}
    assert durations.fitting(files, RECORD, 10) == {"new", "short", "middle"}
    assert durations.fitting(files, RECORD, 49) == {"new", "short", "middle"}
    assert durations.fitting(files, RECORD, 50) == {"new", *RECORD}


def test_a_record_is_corrected_where_it_is_far_off():
    measured = {"long": 25.0, "middle": 3.0, "short": 4.1, "new": 1.0, "quick": 0.9}
    assert durations.corrected(RECORD, measured) == {
        "long": 40.0,
        "middle": 3.0,
        "short": 4.1,
        "new": 1.0,
    }


def test_a_file_that_became_quick_or_was_removed_has_no_record():
    assert durations.corrected(RECORD, {"long": 40.0, "short": 0.4}) == {"long": 40.0}


def test_longer_files_are_named_the_farthest_off_first():
    measured = {"long": 70.0, "middle": 20.0, "short": 30.0, "new": 2.5, "quick": 1.9}
    assert durations.longer(RECORD, measured) == ["short", "middle", "new"]


def test_the_written_record_is_read(tmp_path):
    durations.write(RECORD, tmp_path / "record")
    assert durations.read(tmp_path / "record") == RECORD


class Terminal:
    """The lines of a terminal."""

    def __init__(self):
        self.lines = []

    def section(self, title):
        self.lines.append(title)

    line = section


def lines_after(stopwatch, seconds_by_file, exitstatus=pytest.ExitCode.OK):
    """Return the closing lines of a run in which each file has two tests."""
    for file, seconds in seconds_by_file.items():
        for name in ("test_a", "test_b[x::y]"):
            report = SimpleNamespace(nodeid=f"{file}::{name}", duration=seconds / 2)
            stopwatch.pytest_runtest_logreport(report)
    terminal = Terminal()
    stopwatch.pytest_terminal_summary(terminal, exitstatus)
    return terminal.lines


@pytest.fixture
def record(tmp_path):
    durations.write(RECORD, tmp_path / "record.tsv")
    return tmp_path / "record.tsv"


def test_a_run_of_all_tests_corrects_the_record(record):
    stopwatch = durations.Stopwatch(math.inf, corrects=True, record=record)
    lines = lines_after(stopwatch, {"long": 12.0, "middle": 8.0, "new": 3.0})
    assert lines[-1] == "record.tsv is corrected. Commit it."
    assert durations.read(record) == {"long": 12.0, "middle": 8.0, "new": 3.0}


def test_an_interrupted_run_and_one_that_measures_the_same_correct_nothing(record):
    def stopwatch():
        return durations.Stopwatch(math.inf, corrects=True, record=record)

    assert lines_after(stopwatch(), {"long": 12.0}, pytest.ExitCode.INTERRUPTED) == []
    assert lines_after(stopwatch(), {"long": 39.0, "middle": 9.0, "short": 2.5, "new": 0.5}) == []
    assert durations.read(record) == RECORD


def test_a_quick_loop_that_is_not_quick_names_the_reasons(record):
    stopwatch = durations.Stopwatch(0, corrects=False, record=record)
    lines = lines_after(stopwatch, {"short": 5.0, "new": 9.0, "middle": 8.0})
    assert lines[0] == "the quick loop is not quick"
    assert lines[2:] == ["9.0 s, not 0.0: new", "5.0 s, not 2.0: short"]
    assert durations.read(record) == RECORD


def test_a_quick_loop_that_is_quick_says_nothing(record):
    stopwatch = durations.Stopwatch(60, corrects=False, record=record)
    assert lines_after(stopwatch, {"new": 9.0}) == []
