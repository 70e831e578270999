"""TPC-W with totals of carts and orders, at its smallest size."""

import json
from pathlib import Path

import pytest

from bench.tpcw.totals import MIXES, WITH, WITHOUT, main, write_ms
from hornbeam_server.demo.tpcw.sessions import Measured

TINY = ["--customers=20", "--items=20", "--sessions=2", "--seconds=1.5", "--rounds=1"]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict:
    folder: Path = tmp_path_factory.mktemp("totals")
    output = folder / "totals.json"
    main([*TINY, f"--folder={folder / 'var'}", f"--output={output}"])
    assert not (folder / "var").exists()
    return json.loads(output.read_text())


def test_both_databases_are_measured_under_both_mixes(report: dict) -> None:
    values = {(f["section"], f["name"]): f["value"] for f in report["figures"]}
    for mix in MIXES:
        rates = [values[f"{mix} mix", name] for name in (WITHOUT, WITH)]
        assert min(rates) > 0
        ratio = values[f"{mix} mix", f"{WITH} / {WITHOUT}"]
        assert ratio == pytest.approx(rates[1] / rates[0], rel=0.01)


def test_only_transactions_that_write_count_as_transactions() -> None:
    measured = Measured(
        latencies={"get_cart": [1.0], "enter_order": [5.0, 6.0]},
        pieces={"get_cart": [{"answer": 0.5}], "enter_order": [{"plan": 1.0, "log": 2.0}] * 2},
    )
    assert write_ms(measured) == [5.0, 6.0]
