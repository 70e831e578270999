"""The processes and ports of a cluster, and the file that stores them."""

import pytest

from hornbeam_server.cluster import layout
from hornbeam_server.cluster.layout import (
    EMPTY,
    PORTS,
    STOP_ORDER,
    Layout,
    Role,
    Versions,
    grown,
    with_versions,
)
from hornbeam_server.schema.errors import Corruption, InvalidRequest


def ports_from(first: int):
    return lambda count: list(range(first, first + count))


def made(region_servers: int = 1, data_nodes: int = 1, **given: int) -> Layout:
    counts = {Role.REGION_SERVER: region_servers, Role.DATA_NODE: data_nodes}
    return grown(EMPTY, counts, given, ports_from(20_000))


def test_every_role_has_one_process_by_default():
    names = [process.name for process in grown(EMPTY, {}, {}, ports_from(20_000)).processes]
    assert names == [
        *("zookeeper", "name-node", "data-node-1", "master", "region-server-1"),
        *("thrift", "thrift1"),
    ]
    assert [process.name for process in made(3, 2).of(Role.REGION_SERVER)] == [
        *("region-server-1", "region-server-2", "region-server-3")
    ]


def test_further_gateways_are_numbered():
    large = grown(made(), {Role.THRIFT: 2}, {}, ports_from(30_000))
    assert [process.name for process in large.of(Role.THRIFT)] == ["thrift", "thrift-2"]
    assert large.of(Role.THRIFT1) == made().of(Role.THRIFT1)


def test_no_port_is_given_twice():
    ports = [port for process in made(3, 3).processes for port in process.ports.values()]
    assert len(ports) == len(set(ports)) == 22


def test_growing_keeps_existing_processes():
    small = made()
    large = grown(small, {Role.REGION_SERVER: 2}, {}, ports_from(30_000))
    added = [process for process in large.processes if process not in small.processes]
    assert [process.name for process in added] == ["region-server-2"]
    assert len(large.processes) == len(small.processes) + 1
    assert grown(large, {}, {}, ports_from(30_000)) == large


def test_ports_of_stopped_processes_and_given_ports_are_not_assigned():
    large = grown(made(), {Role.REGION_SERVER: 2}, {"region-server-2": 20_020}, ports_from(20_000))
    ports = [port for process in large.processes for port in process.ports.values()]
    assert len(ports) == len(set(ports))


def test_a_cluster_does_not_shrink():
    with pytest.raises(InvalidRequest, match="has 3 data-node processes"):
        grown(made(data_nodes=3), {Role.DATA_NODE: 1}, {}, ports_from(30_000))


def test_main_ports_can_be_given():
    assert str(made(thrift=9091).named("thrift").address) == "127.0.0.1:9091"
    assert grown(made(thrift=9091), {}, {"thrift": 9091}, ports_from(1)) == made(thrift=9091)
    with pytest.raises(InvalidRequest, match="has port 9091 in this cluster, not 9090"):
        grown(made(thrift=9091), {}, {"thrift": 9090}, ports_from(30_000))
    with pytest.raises(InvalidRequest, match="no process thrift3"):
        made(thrift3=9091)


def test_replication_is_three_when_there_are_enough_nodes():
    assert [made(data_nodes=count).replication for count in (1, 2, 3, 4)] == [1, 2, 3, 3]


def test_an_error_for_an_unknown_name_lists_the_known_ones():
    with pytest.raises(InvalidRequest, match="no process hmaster") as raised:
        made().named("hmaster")
    assert "region-server-1" in raised.value.cure


def test_the_state_file_stores_the_whole_layout(tmp_path):
    assert layout.load(tmp_path) is None
    layout.save(tmp_path, made(2, 3))
    assert layout.load(tmp_path) == made(2, 3)
    assert [path.name for path in tmp_path.iterdir()] == [layout.STATE_FILE]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"format": 2, "processes": []}',
        '{"format": 3, "versions": {}, "processes": []}',
        '{"format": 1, "processes": [{"name": "x", "role": "y", "ports": {}}]}',
        '{"format": 1, "processes": [{"name": "master", "role": "master", "ports": {"rpc": 1}}]}',
    ],
)
def test_a_damaged_state_file_is_refused(tmp_path, text):
    (tmp_path / layout.STATE_FILE).write_text(text)
    with pytest.raises(Corruption, match=r"cluster\.json"):
        layout.load(tmp_path)


def test_the_state_file_stores_the_versions_which_stay(tmp_path):
    old = with_versions(EMPTY, "2.5.8", "3.3.6")
    layout.save(tmp_path, grown(old, {}, {}, ports_from(20_000)))
    loaded = layout.load(tmp_path)
    assert loaded is not None
    assert loaded.versions == Versions("2.5.8", "3.3.6")
    assert with_versions(loaded, None, None) == with_versions(loaded, "2.5.8", None) == loaded
    assert grown(loaded, {Role.DATA_NODE: 2}, {}, ports_from(30_000)).versions == loaded.versions
    with pytest.raises(
        InvalidRequest, match=r"has HBase 2\.5\.8 with Hadoop 3\.3\.6, not HBase 2\.6"
    ):
        with_versions(loaded, "2.6.1", None)


def test_a_state_file_without_versions_has_the_default_ones(tmp_path):
    master = '{"name": "master", "role": "master", "ports": {"rpc": 20000, "http": 20001}}'
    text = f'{{"format": 1, "host": "127.0.0.1", "processes": [{master}]}}'
    (tmp_path / layout.STATE_FILE).write_text(text)
    loaded = layout.load(tmp_path)
    assert loaded is not None
    assert loaded.named("master").ports == {"rpc": 20000, "http": 20001}
    assert loaded.versions == Versions()


def test_every_role_has_ports_and_stops_once():
    assert set(PORTS) == set(Role)
    assert sorted(role for stage in STOP_ORDER for role in stage) == sorted(Role)
