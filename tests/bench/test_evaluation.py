"""The page and the tables of CloudTPS's evaluation, from reports of made-up figures."""

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from bench import evaluation
from bench.groups.ways import KEPT, NOTHING, OWN
from bench.measure import Figure, write_report


def _write(folder: Path, name: str, figures: list[Figure], **settings: object) -> None:
    write_report(folder / f"{name}.json", folder, settings, figures, 12.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    def rates(site: str, *values: tuple[float, float, float]) -> list[Figure]:
        sections = (f"{site}1 writer", f"{site}32 writers of one group")
        return [
            Figure(section, way.name, "transactions/s", (rate,))
            for section, of in zip(sections, values, strict=True)
            for way, rate in zip((NOTHING, KEPT, OWN), of, strict=True)
        ]

    goal = Figure("32 writers of one group", "view / application", "×", (4.0,), at_least=10)
    ours = rates("", (700, 690, 600), (2_000, 1_900, 475))
    _write(tmp_path, "groups", [*ours, goal], hornbeam="synced <before> it answers")
    on_nodes = rates("3 nodes, ", (70, 69, 60), (500, 450, 40))
    _write(tmp_path, "groups-nodes", on_nodes)
    unit = "transactions/s under 100 ms"
    modes = {"no view": 300, "immediate": 200, "deferred, 50 ms": 100, "deferred, 500 ms": 250}
    _write(
        tmp_path,
        "dashboard",
        [
            Figure(
                f"{size} event{'s' if size > 1 else ''} a transaction", name, unit, (rate / size,)
            )
            for size in (1, 150)
            for name, rate in modes.items()
        ],
    )
    totals = Figure("shopping mix", "immediate totals / no totals", "×", (0.97,))
    _write(tmp_path, "totals", [totals], nodes=3)
    return tmp_path


def test_rates_are_found_by_site_way_and_number_of_writers(folder: Path) -> None:
    reports = evaluation.read(folder)
    assert evaluation.writers(reports["groups"])[""][OWN.name] == {1: 600, 32: 475}
    assert list(evaluation.writers(reports["groups-nodes"])) == ["3 nodes"]
    assert evaluation.dashboard(reports["dashboard"])["immediate"] == {1: 200, 150: 1.333}


def test_what_the_thesis_says_stands_beside_ratios_at_the_largest_update(folder: Path) -> None:
    lines = evaluation.dashboard(evaluation.read(folder)["dashboard"])
    found = dict(evaluation.said_of_dashboard(lines))
    assert found["Batches every 50 ms are as slow as immediate"] == (
        "deferred, 50 ms / immediate: 0.5 ×, 150 events a transaction"
    )
    assert not any("5 000 ms are close" in sentence for sentence in found)  # it was not measured


def test_a_mode_that_holds_no_load_gives_no_ratio() -> None:
    lines = {"deferred, 50 ms": {1: 0.0, 2: 0.0}, "immediate": {1: 5.0, 2: 5.0}}
    assert not list(evaluation.said_of_dashboard(lines))
    assert not list(evaluation.said_of_dashboard({}))


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, _attributes: list) -> None:
        self.found.append(tag)


def test_the_page_has_a_section_for_each_report_and_fetches_nothing(folder: Path) -> None:
    text = evaluation.page(evaluation.read(folder))
    tags = _Tags()
    tags.feed(text)
    assert tags.found.count("section") == 4
    assert tags.found.count("svg") == 3
    assert not {"script", "link", "img"} & set(tags.found)
    assert "✗ missed" in text
    assert "synced &lt;before&gt; it answers" in text


def test_the_tables_have_a_row_for_each_way_and_a_column_for_each_number(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluation.main([str(folder)])
    printed = capsys.readouterr().out
    assert "| writers of one group | 1 | 32 |" in printed
    assert f"| {KEPT.name} | 690 | 1 900 |" in printed
    assert "| writers of one group, 3 nodes | 1 | 32 |" in printed
    assert "| events a transaction | 1 | 150 |" in printed
    assert (folder / evaluation.PAGE).read_text().startswith("<!doctype html>")


def test_a_folder_without_reports_is_an_error_that_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="make bench-groups"):
        evaluation.main([str(tmp_path)])


def test_reports_that_are_missing_are_left_out(folder: Path) -> None:
    (folder / "totals.json").unlink()
    reports = evaluation.read(folder)
    assert json.loads((folder / "groups.json").read_text())["seconds"] == 12.0
    assert "TPC-W" not in evaluation.page(reports)
