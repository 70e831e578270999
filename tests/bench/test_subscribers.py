"""The benchmark of subscribers at its smallest size: it completes, and all get all changes."""

import json
import re

import pytest

from bench.subscribers import __main__ as subscribers
from bench.subscribers.__main__ import Failed, main

NAMES = (
    "memory of a subscriber",
    "processor time to begin",
    "processor without them",
    "processor while nothing changes",
    "first subscriber",
    "last subscriber",
    "processor time of a change",
)


def test_figures_of_few_subscribers(tmp_path):
    output = tmp_path / "report.json"
    main(
        [
            *("--subscribers=100", "--seconds=1.2", "--heartbeat-s=0.3", "--changes=2"),
            *(f"--folder={tmp_path / 'var'}", f"--output={output}"),
        ]
    )
    figures = json.loads(output.read_text())["figures"]
    assert {f["section"] for f in figures} == {
        "100 subscribers of all rows",
        "100 subscribers of a row",
    }
    assert {f["name"] for f in figures} == {*NAMES}
    values = {(f["section"][16:], f["name"]): f for f in figures}
    for group in ("of all rows", "of a row"):
        first, last = values[group, "first subscriber"], values[group, "last subscriber"]
        assert 0 < first["value"] <= last["value"]
        beats = values[group, "processor while nothing changes"]["note"]
        assert int(re.search(r"(\d+) heartbeats", beats)[1]) > 200
    assert not (tmp_path / "var").exists()


def test_a_change_that_does_not_come_fails_the_benchmark(monkeypatch):
    monkeypatch.setattr(subscribers, "WAIT_S", 0.05)

    class Silent(subscribers.Subscribers):
        def __init__(self):
            pass

        def counts(self):
            return {"changes": 3, "first": 0.0, "last": 0.0}

    with pytest.raises(Failed, match="4 changes were to come"):
        Silent().until(4)
