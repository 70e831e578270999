"""`make bench` at its smallest size: it completes and reports the documented figures."""

import json
import math
from pathlib import Path

import pytest

from bench import microdata, serving
from bench.measure import Figure, sentence, where_time_goes
from bench.micro import main, parse_options
from hornbeam_server.demo.measures import percentile

TINY = ["--customers=3", "--rounds=1", "--reads=5", "--writes=20", "--requests=5"]
SECTIONS = {"reads", "writes", "one write", "REST", "load", "joins", "memory", "deltas"}
SECTIONS |= {"short reads"}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict:
    folder: Path = tmp_path_factory.mktemp("bench")
    output = folder / "reports" / "latest.json"
    main([*TINY, "--load-customers=2", f"--folder={folder / 'var'}", f"--output={output}"])
    assert not (folder / "var").exists()
    return json.loads(output.read_text())


def test_the_report_states_machine_versions_and_settings(report: dict) -> None:
    assert set(report) == {
        "machine", "versions", "settings", "figures", "missed", "seconds",
    }  # fmt: skip
    assert report["machine"]["cores"] >= 1
    assert "duckdb" in report["versions"]
    assert report["settings"]["customers"] == 3


def test_every_section_has_valid_figures(report: dict) -> None:
    figures = report["figures"]
    assert {figure["section"] for figure in figures} == SECTIONS
    for figure in figures:
        assert set(figure) == {
            "section", "name", "value", "unit", "rounds", "at_least", "at_most", "met", "note",
            "why",
        }  # fmt: skip
        assert math.isfinite(figure["value"])
        assert figure["value"] >= 0


def test_each_goal_is_met_or_explained(report: dict) -> None:
    with_goals = [figure for figure in report["figures"] if figure["met"] is not None]
    missed = [figure for figure in with_goals if not figure["met"]]
    beside_postgresql = any("psycopg" in figure["name"] for figure in report["figures"])
    assert len(with_goals) == 24 + beside_postgresql
    assert len(report["missed"]) == len(missed)


def test_ratios_compare_figures_of_the_same_run(report: dict) -> None:
    value = {figure["name"]: figure["value"] for figure in report["figures"]}
    ratio = value["point read, p50"] / value["/livez, p50"]
    assert value["point read / livez"] == pytest.approx(ratio, rel=0.01)


def test_a_figure_is_the_median_and_has_a_goal() -> None:
    figure = Figure("load", "x", "rows/s", (1.0, 9.0, 2.0), at_least=3, why="reason")
    assert (figure.value, figure.met) == (2.0, False)
    assert sentence(figure) == "load, x: 2 rows/s, wanted at least 3; reason."
    assert Figure("REST", "y", "×", (1.5,), at_most=2).met is True
    assert Figure("reads", "z", "ms", (1.0,)).met is None


def test_percentiles_are_values_that_occurred() -> None:
    values = [float(i) for i in range(1, 101)]
    assert percentile(values, 0.5) == 50
    assert percentile(values, 0.99) == 99
    assert percentile([7.0], 0.99) == 7


async def test_a_profile_names_functions() -> None:
    async def work() -> None:
        sorted(range(10_000), key=lambda value: -value)

    assert "sorted" in await where_time_goes(work)


def test_the_data_has_the_ratios_of_the_paper() -> None:
    counts = {name: len(list(microdata.rows(name, 3))) for name in microdata.RELATIONS}
    assert counts == {"customer": 3, "orders": 30, "order_line": 300}
    assert sum(counts.values()) == 3 * microdata.ROWS_PER_CUSTOMER
    assert list(microdata.rows("orders", 2)) == list(microdata.rows("orders", 2))


def test_options_have_defaults() -> None:
    assert parse_options([]).output == Path("bench/reports/latest.json")


def test_requests_are_encoded_with_length_and_headers() -> None:
    request = serving.post("/v1/query", {"sql": "SELECT 1"}, "Connection: close")
    head, _, body = request.partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert head.endswith(b"Connection: close")
