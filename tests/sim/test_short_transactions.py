"""Clients write rows by their keys, in short transactions, while nodes crash and are replaced
(`workload_tallies.py`)."""

from tests.sim.test_simulation import simulated


def test_each_short_transaction_counts_once():
    runs = ("--seeds", 1, "--transactions", 150, "--workload", "tallies")
    for nodes in (1, 3):
        totals = simulated(*runs, "--first-seed", 10 * nodes, "--nodes", nodes)
        assert totals["failures"] == []
        assert totals["committed"]
