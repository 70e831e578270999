"""The benchmark of live views on a real HBase, at its smallest size: it completes, its views are
right, and regions split."""

from bench.live_views.nodes import Options, measure
from bench.options import Numbers
from hornbeam_server.cluster import Cluster


def test_views_are_kept_while_regions_split(real_cluster: Cluster, tmp_path) -> None:
    options = Options(
        nodes=Numbers((2,)), groups=2, views=2, rate=20, seconds=2.0, warm_up=1.0, folder=tmp_path
    )  # fmt: skip
    figures = measure(real_cluster, options, lambda _: None)
    found = {(figure.section, figure.name): figure.value for figure in figures}
    assert found["2 nodes", "processor time of a transaction without views"] > 0
    assert 0 < found["2 nodes", "lag, median"] <= found["2 nodes", "lag, longest"]
    (split,) = {section for section, _ in found if section.endswith("regions split")}
    assert split.startswith("2 nodes, ")
    assert int(split.split()[2]) > 0
    assert found[split, "lag, longest"] > 0
