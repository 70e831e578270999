"""Nodes keep live views while they crash, freeze and are replaced (`workload_live.py`)."""

from tests.depth import depth
from tests.sim.test_simulation import simulated


def test_live_views_have_the_rows_of_every_snapshot_that_they_show():
    runs = ("--seeds", 1, "--transactions", depth(40, long=100), "--workload", "live")
    for nodes, seed in ((1, 10), (2, 15), (3, 30)):  # two of the seeds have timed views
        totals = simulated(*runs, "--first-seed", seed, "--nodes", nodes)
        assert totals["failures"] == []
        assert totals["committed"]
