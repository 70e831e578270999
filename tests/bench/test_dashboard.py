"""CloudTPS's Dashboard at its smallest size, and the search for the highest load."""

import json
import random
from decimal import Decimal
from functools import partial
from pathlib import Path

import msgspec
import pytest

from bench.dashboard import data
from bench.dashboard.__main__ import NotRight, main, right
from bench.dashboard.load import LIMIT_MS, Trial, Updates, highest
from bench.dashboard.refreshing import Batch, reached_s, refreshing
from bench.options import Numbers
from hornbeam_server.schema.errors import Unavailable

pytestmark = pytest.mark.timeout(900)
"""Spark, which keeps the deferred view, starts slowly on a busy machine."""

TINY = ["--sizes=2", "--intervals=300", "--events=50", "--seconds=1", "--tries=1"]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict:
    folder: Path = tmp_path_factory.mktemp("dashboard")
    output = folder / "dashboard.json"
    main([*TINY, f"--folder={folder / 'var'}", f"--output={output}"])
    assert not (folder / "var").exists()
    return json.loads(output.read_text())


@pytest.mark.alone
def test_every_mode_is_measured_next_to_no_view(report: dict) -> None:
    names = [figure["name"] for figure in report["figures"]]
    assert names[:3] == ["no view", "immediate", "deferred, 300 ms"]
    assert {figure["section"] for figure in report["figures"]} == {"2 events a transaction"}
    assert len(report["figures"][0]["rounds"]) == 2


@pytest.mark.alone
def test_a_deferred_mode_reports_the_interval_that_it_reached(report: dict) -> None:
    notes = {figure["name"]: figure["note"] for figure in report["figures"]}
    assert "batches: " in notes["deferred, 300 ms"]
    assert "batches" not in notes["immediate"]


# ---------------------------------------------------------------- the search


async def _search(capacity: int, first: int, tries: int) -> tuple[Trial | None, list[Trial]]:
    """Search on a database that answers in time up to `capacity` generators."""

    async def attempt(generators: int) -> Trial:
        return Trial(generators, generators, LIMIT_MS * generators / capacity)

    return await highest(attempt, first, tries)


@pytest.mark.parametrize("first", [1, 40, 100, 400, 5_000])
async def test_the_search_finds_the_capacity_from_any_beginning(first: int) -> None:
    best, trials = await _search(100, first, 30)
    assert best is not None
    assert 100 / 1.11 <= best.generators <= 100
    assert len({each.generators for each in trials}) == len(trials)


async def test_the_search_ends_with_its_tries() -> None:
    best, trials = await _search(1_000, 10, 2)
    assert [each.generators for each in trials] == [10, 17]
    assert best == trials[1]


async def test_a_database_that_is_too_slow_for_one_generator_holds_no_load() -> None:
    best, trials = await _search(0.5, 4, 10)  # type: ignore[arg-type]
    assert best is None
    assert trials[-1].generators == 1


# ---------------------------------------------------------------- parts


def test_updates_change_distinct_events_in_key_order() -> None:
    _, _, body = Updates(50, 20).request(random.Random(1)).partition(b"\r\n\r\n")
    statements = msgspec.json.decode(body)["statements"]
    numbers = [each["parameters"][1] for each in statements]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 20
    assert all(Decimal(each["parameters"][0]) % data.DIVISOR == 0 for each in statements)


def test_the_rows_reference_rows_that_exist() -> None:
    rows = {relation: list(data.rows(relation, 100)) for relation in data.RELATIONS}
    products = {row[0]: row for row in rows["products"]}
    assert len(rows["events"]) == 100
    assert rows["events"] == list(data.rows("events", 100))
    for _, _, product, shop, _, cost in rows["events"]:
        assert products[product][1] == shop < len(rows["shops"])
        assert cost % data.DIVISOR == 0


def test_the_interval_reached_is_between_snapshots() -> None:
    batch = partial(Batch, changes=1, seconds=0.1)
    assert reached_s([batch(0.0, 1_000), batch(1.0, 1_500), batch(2.0, 2_600)]) == 0.8
    assert reached_s([batch(0.0, 1_000)]) is None


def test_a_view_that_is_wrong_ends_the_benchmark() -> None:
    right({"differences": 0}, [Decimal(10), Decimal(0)])
    for differences, sums in ((1, [Decimal(10)]), (0, [Decimal(7)]), (0, [])):
        with pytest.raises(NotRight):
            right({"differences": differences}, sums)


def test_numbers_of_a_command_line() -> None:
    assert Numbers("1,20") == Numbers((1, 20)) == (1, 20)
    assert Numbers("") == ()
    with pytest.raises(ValueError, match="invalid literal"):
        Numbers("1,x")


def test_a_refresh_that_cannot_begin_says_why(tmp_path: Path) -> None:
    log = tmp_path / "refresh.log"
    with (
        pytest.raises(Unavailable, match=r"hornbeam refresh has ended:\n(.|\n)*error: "),
        refreshing("hornbeam://127.0.0.1:9", log),
    ):
        pass
    assert log.read_text()
