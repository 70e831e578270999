"""The benchmark of live views at its smallest size: it completes, and its views are right."""

import json

import pytest

from bench.live_views import batches, load
from bench.live_views.__main__ import main
from hornbeam_server.node.database import Database


def test_figures_at_the_smallest_size(tmp_path, monkeypatch):
    """With two of TPC-H's views: planning all of them takes most of the time."""
    first, second = load.VIEWS.read_text().split("\n\n")[:2]
    (tmp_path / "views.sql").write_text(f"{first}\n{second}\n")
    monkeypatch.setattr(load, "VIEWS", tmp_path / "views.sql")
    output = tmp_path / "report.json"
    main(
        [
            *("--facts=400", "--changes=80", "--rounds=1", "--rates=40", "--seconds=0.5"),
            "--tpch-rates=40",
            *("--scale=0.001", f"--folder={tmp_path / 'var'}", f"--output={output}"),
        ]
    )
    figures = json.loads(output.read_text())["figures"]
    by_name = {(figure["section"], figure["name"]): figure["value"] for figure in figures}
    assert {name for section, name in by_name if section == "batches"} == {*batches.KINDS}
    for section in ("lag, sum over a join", "lag, TPC-H's 22 views"):
        half, most = (by_name[section, f"40 changes/s, {part}"] for part in ("median", "99 %"))
        assert 0 < half <= most
    assert by_name["cost to writers", "most transactions, with it each 50 ms"] > 0
    assert all(value > 0 for value in by_name.values())
    assert not (tmp_path / "var").exists()


async def test_a_wrong_view_fails_the_benchmark(tmp_path, monkeypatch):
    wrong = dict(batches.KINDS)
    title = "sum, 100 groups"
    monkeypatch.setattr(batches, "KINDS", {title: wrong[title]})
    refreshed = batches._refreshed

    async def and_change(database: Database) -> dict[str, float]:
        monkeypatch.setitem(batches.KINDS, title, wrong["count, 100 groups"])
        return await refreshed(database)

    monkeypatch.setattr(batches, "_refreshed", and_change)
    monkeypatch.setattr(batches, "VIEWS", {title: batches.VIEWS[title]})
    with pytest.raises(batches.Wrong, match="sum, 100 groups"):
        await batches.batches(tmp_path, facts=50, changes=8, rounds=1)
