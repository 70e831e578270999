"""Comparison of two reports: which statements became slower."""

import json
from dataclasses import replace

import pytest

from bench.compare import compare, main
from bench.peers.report import Report, write
from bench.peers.results import HORNBEAM, PHOENIX, OtherFormat, Results, Statement, Timing


def run(ms, *, bare=1.0, systems=(HORNBEAM,)):
    """Results of a run; `ms` gives the median of each statement, None for a failed one."""
    timings = {
        name: Timing((time, time, 9 * time)) if time is not None else Timing(error="lost")
        for name, time in ms.items()
    }
    return Results(
        began="2026-01-02T03:04:05+00:00",
        command="",
        options={},
        machine={},
        versions_by_system={},
        systems=systems,
        statements=tuple(Statement(name, "SELECT 1", "read") for name in ms),
        timings=dict.fromkeys(systems, timings),
        storage={},
        bare={"put": Timing((2 * bare,)), "get": Timing((bare / 2,))},
    )


def test_a_slower_machine_is_not_reported_as_slower_statements():
    found = compare(run({"a": 2, "b": 4}), run({"a": 6, "b": 12}, bare=3))
    assert [each.ratio for each in found.changes] == pytest.approx([1, 1])
    assert found.slower(1.2) == []


def test_slower_statements_are_listed_worst_first():
    found = compare(run({"a": 2, "b": 4, "c": 1, "d": 5}), run({"a": 3, "b": 4, "c": 3, "d": None}))
    assert [each.statement for each in found.slower(1.2)] == ["d", "c", "a"]
    assert [each.statement for each in found.slower(2)] == ["d", "c"]


def test_statements_of_only_one_report_are_named():
    found = compare(run({"a": 2, "b": 4}), run({"a": 2, "c": 4}))
    assert [each.statement for each in found.changes] == ["a"]
    assert (found.only_old, found.only_new) == ((f"{HORNBEAM} b",), (f"{HORNBEAM} c",))


def test_statements_that_failed_before_are_not_compared():
    found = compare(run({"a": None}), run({"a": 2}))
    assert found.changes == ()
    assert (found.only_old, found.only_new) == ((), ())


def test_other_systems_are_compared_on_request():
    both = (HORNBEAM, PHOENIX)
    old, new = run({"a": 2}, systems=both), run({"a": 5}, systems=both)
    assert [each.system for each in compare(old, new).changes] == [HORNBEAM]
    assert [each.system for each in compare(old, new, both).changes] == list(both)


def test_a_run_without_bare_operations_cannot_be_compared():
    with pytest.raises(OtherFormat, match="bare"):
        compare(run({"a": 1}), replace(run({"a": 1}), bare={}))


def test_the_command_reports_slower_statements_with_its_exit_code(tmp_path, capsys):
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    write(Report(run({"a": 2, "b": 4})), old)
    write(Report(run({"a": 3, "b": 4})), new)
    assert _exit_code(str(old), str(old)) == 0
    assert "0 of 2 statements are slower" in capsys.readouterr().out
    assert _exit_code(str(old), str(new)) == 1
    assert "1.5 ×" in capsys.readouterr().out
    assert _exit_code(str(old), str(new), "--tolerance", "1.6") == 0
    capsys.readouterr()
    assert _exit_code(str(old), str(new), "--json") == 1
    (slower,) = json.loads(capsys.readouterr().out)["slower"]
    assert slower["statement"] == "a"


def test_a_file_that_is_no_report_is_an_error(tmp_path, capsys):
    (tmp_path / "no.json").write_text("{}")
    assert _exit_code(str(tmp_path / "no.json"), str(tmp_path / "no.json")) == 2
    assert "not a report" in capsys.readouterr().err


def _exit_code(*arguments):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return ended.value.code
