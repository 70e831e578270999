"""The group benchmark on a real HBase, at its smallest size."""

import math
from pathlib import Path

import pytest

from bench.groups.nodes import Options, measure
from bench.groups.ways import WAYS
from bench.options import Numbers
from hornbeam_server.cluster import Cluster


@pytest.fixture(scope="module")
def figures(real_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> dict:
    folder: Path = tmp_path_factory.mktemp("groups")
    options = Options(
        nodes=Numbers((1, 2)), writers=Numbers((3,)), writes=6, warm_up=4, reads=4, rounds=1,
        folder=folder,
    )  # fmt: skip
    found = measure(real_cluster, options, lambda _: None)
    return {(figure.section, figure.name): figure for figure in found}


@pytest.mark.parametrize("nodes", ["1 node", "2 nodes"])
def test_every_way_is_measured_at_every_number_of_nodes(figures: dict, nodes: str) -> None:
    for way in WAYS:
        assert figures[f"{nodes}, 3 writers of one group", way.name].value > 0
    assert all(math.isfinite(figure.value) for figure in figures.values())


def test_a_group_is_compared_with_a_row_at_the_node_and_at_the_client(figures: dict) -> None:
    section = "2 nodes, point reads"
    for where in ("client", "node"):
        ratio = figures[section, f"group / row, p50 of the {where}"]
        group = figures[section, f"a group of a view, p50 of the {where}"]
        row = figures[section, f"a base row by its key, p50 of the {where}"]
        assert ratio.value == pytest.approx(group.value / row.value)
        assert ratio.at_most == 2
