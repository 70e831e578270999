"""The group benchmark at its smallest size: it completes, and its totals are right."""

import json
import math
from decimal import Decimal
from pathlib import Path

import pytest

from bench.groups import embedded
from bench.groups.__main__ import main
from bench.groups.postgres import postgres_writers
from bench.groups.ways import (
    KEPT,
    NOTHING,
    OWN,
    RATIOS,
    WAYS,
    Ratio,
    WrongTotal,
    compare,
    measured_writes,
)

TINY = ["--writers=1,4", "--writes=8", "--reads=3", "--rows=2000", "--rounds=1"]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict:
    folder: Path = tmp_path_factory.mktemp("groups")
    output = folder / "groups.json"
    main([*TINY, f"--folder={folder / 'var'}", f"--output={output}"])
    assert not (folder / "var").exists()
    return json.loads(output.read_text())


def test_every_way_is_measured_with_every_number_of_writers(report: dict) -> None:
    named = {(figure["section"], figure["name"]) for figure in report["figures"]}
    sections = ("1 writer", "4 writers of one group")
    assert named >= {(section, way.name) for section in sections for way in WAYS}
    assert all(math.isfinite(figure["value"]) for figure in report["figures"])


def test_postgresql_is_measured_or_the_report_says_why_not(report: dict) -> None:
    named = {figure["name"] for figure in report["figures"]}
    for name in ("PostgreSQL, total kept by a trigger", "PostgreSQL, pg_ivm"):
        assert (name in named) is not any("not measured" in s for s in _missing(report, name))
    assert report["settings"]["hornbeam"]


def _missing(report: dict, name: str) -> list[str]:
    """The sentences that give a reason to leave the way `name` out."""
    system = name.split(", ")[1] if name.endswith("pg_ivm") else "PostgreSQL"
    found = report["settings"]["not measured"]
    return [each for each in found if each.startswith((system, "PostgreSQL is not"))]


def test_a_group_by_is_compared_with_and_without_its_view(report: dict) -> None:
    sections = {figure["section"] for figure in report["figures"]}
    assert sum(section.startswith("GROUP BY") for section in sections) == len(embedded.COLUMNS)


def test_the_processor_time_of_a_transaction_is_compared(report: dict) -> None:
    section = "processor time, 4 writers"
    found = {f["name"]: f for f in report["figures"] if f["section"] == section}
    assert set(found) == {*(way.name for way in WAYS), "view / no total", "star / no total"}
    ratio = found[KEPT.name]["value"] / found[NOTHING.name]["value"]
    assert found["view / no total"]["value"] == pytest.approx(ratio, rel=0.01)


def test_a_total_that_misses_an_entry_ends_the_benchmark() -> None:
    compare("way", Decimal("2.50"), 2)
    with pytest.raises(WrongTotal, match="the entries are 3"):
        compare("way", Decimal("2.50"), 3)
    with pytest.raises(WrongTotal):
        compare("way", None, 1)


class _Steady:
    """Writers with a given rate, in place of a database."""

    def __init__(self, name: str, rate: float, total: str = "0") -> None:
        self.name, self._rate, self._total = name, rate, Decimal(total)

    async def rate(self, writers: int, transactions: int) -> float:
        return self._rate * writers + transactions

    async def check(self) -> None:
        compare(self.name, self._total, 0)


async def test_ratios_have_their_goals_at_their_number_of_writers() -> None:
    ways = [_Steady(NOTHING.name, 100), _Steady(KEPT.name, 50), _Steady(OWN.name, 10)]
    of = [ratio for ratio in RATIOS if {ratio.of, ratio.to} <= {way.name for way in ways}]
    figures = await measured_writes(ways, of, (8, 32), 0, 2)
    found = {(f.section, f.name): f for f in figures}
    busy = found["32 writers of one group", "view / no total"]
    assert (busy.rounds, busy.at_least, busy.met) == ((0.5, 0.5), 0.9, False)
    assert found["8 writers of one group", "view / no total"].met is None
    assert found["32 writers of one group", "view / application"].value == 5


async def test_a_wrong_total_ends_the_measurement() -> None:
    with pytest.raises(WrongTotal):
        await measured_writes([_Steady("way", 1, "1.25")], (), (1,), 0, 1)


def test_a_ratio_without_a_number_of_writers_has_its_goal_everywhere() -> None:
    assert Ratio("a", "b", "c", 2.0).goal(7) == 2.0
    assert Ratio("a", "b", "c", 2.0, writers=8).goal(7) is None


def test_without_postgresql_its_ways_are_left_out_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.peers.postgres.BINARIES", tmp_path)
    missing: list[str] = []
    with postgres_writers(tmp_path / "data", missing.append) as (ways, about):
        assert (ways, about) == ([], {})
    assert missing[0].startswith("PostgreSQL is not measured: There is no PostgreSQL under")
    assert not (tmp_path / "data").exists()
