"""Comparison of two reports: which statements became slower."""

import json
from dataclasses import replace

import pytest

from bench.compare import compare, main, of_peers, read
from bench.peers.report import Report, write
from bench.peers.results import HORNBEAM, PHOENIX, OtherFormat, Results, Statement, Timing


def run(ms, **given):
    return of_peers(results(ms, **given))


def results(ms, *, bare=1.0, systems=(HORNBEAM,)):
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
        of_peers(replace(results({"a": 1}), bare={}))


def test_the_command_reports_slower_statements_with_its_exit_code(tmp_path, capsys):
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    write(Report(results({"a": 2, "b": 4})), old)
    write(Report(results({"a": 3, "b": 4})), new)
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


def figures(*named):
    """A report of `make bench`."""
    keys = ("section", "name", "value", "unit")
    return json.dumps({"figures": [dict(zip(keys, each, strict=True)) for each in named]}).encode()


def micro(point, rate, *, floor=1.0, joins=6.0):
    return figures(
        ("short reads", "point: sqlite3", 4 * floor, "µs"),
        ("short reads", "point: bare ASGI server", 25 * floor, "µs"),
        ("short reads", "point: psycopg", 30, "µs"),
        ("short reads", "point: REST server", point, "µs"),
        ("writes", "16 writers", rate, "tx/s"),
        ("joins", "Q1", joins, "×"),
        ("memory", "server, idle", 100, "MB"),
    )


def test_figures_are_compared_in_units_of_the_floors_of_their_run():
    found = compare(read(micro(100, 2_000)), read(micro(200, 1_000, floor=2, joins=2)))
    assert [each.statement for each in found.changes] == [
        "short reads: point: REST server",
        "writes: 16 writers",
    ]
    assert [each.ratio for each in found.changes] == pytest.approx([1, 1])


def test_a_lower_rate_is_slower():
    found = compare(read(micro(100, 2_000)), read(micro(100, 1_000)))
    assert [each.statement for each in found.slower(1.2)] == ["writes: 16 writers"]


def test_a_step_that_does_not_occur_is_not_compared():
    found = compare(read(micro(100, 2_000)), read(micro(0, 0)))
    assert found.changes == ()
    assert found.only_old == (
        "Hornbeam short reads: point: REST server",
        "Hornbeam writes: 16 writers",
    )


def test_figures_without_floors_cannot_be_compared():
    with pytest.raises(OtherFormat, match="sqlite3"):
        read(figures(("reads", "point", 1, "reads/s")))


def test_another_document_is_no_report():
    with pytest.raises(OtherFormat):
        read(b"{}")
