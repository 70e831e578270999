"""Subscribers while nodes crash, freeze and are replaced (`workload_followed.py`)."""

import pytest

from tests.sim.test_simulation import simulated


@pytest.mark.parametrize("workload", ["followed", "followed live"])
def test_subscribers_get_each_change_once(workload):
    totals = simulated(
        *("--seeds", 2, "--transactions", 60, "--workload", workload),
        *("--first-seed", 21, "--nodes", 2),
    )
    assert totals["failures"] == []
    assert totals["committed"]
