"""A real cluster: started, disturbed and stopped. The tests are slow because of real processes."""

import os
import signal

import pytest
from thriftpy2.rpc import client_context

from hornbeam_server.cluster import Cluster, Role, processes
from hornbeam_server.schema.errors import InvalidRequest
from hornbeam_server.storage.hbase.interface import THRIFT
from tests.real_cluster import PATIENT, guarded_cluster

pytestmark = pytest.mark.timeout(600)


def pids(cluster: Cluster) -> dict[str, int | None]:
    return {process.name: process.pid for process in cluster.status()}


def test_all_processes_are_healthy(real_cluster):
    status = {process.name: process for process in real_cluster.status()}
    assert {name for name, process in status.items() if process.health.ok} == status.keys()
    assert status["name-node"].health.note == "1 of 1 data nodes"
    assert status["master"].health.note == "1 of 1 region servers"
    assert {process.role for process in status.values()} == set(Role)


def test_a_second_start_starts_no_process(real_cluster):
    before = pids(real_cluster)
    again = Cluster.start(real_cluster.folder, hbase=PATIENT)
    assert pids(again) == before
    assert again.layout == real_cluster.layout


def kill_and_restart(cluster: Cluster, name: str) -> None:
    before = pids(cluster)
    cluster.kill(name)
    (down,) = (process for process in cluster.status() if process.name == name)
    assert (down.pid, down.health.note) == (None, "down")
    with pytest.raises(InvalidRequest, match="does not run"):
        cluster.kill(name)
    cluster.restart(name)
    cluster.await_health()
    after = pids(cluster)
    assert after[name] not in {None, before[name]}
    assert after | {name: None} == before | {name: None}


def test_a_killed_process_comes_back_on_its_port(real_cluster):
    kill_and_restart(real_cluster, "thrift")


def test_a_paused_process_is_distinct_from_a_stopped_one(real_cluster):
    real_cluster.pause("thrift1")
    try:
        (paused,) = (process for process in real_cluster.status() if process.name == "thrift1")
        assert (paused.paused, paused.health.ok) == (True, False)
        assert paused.pid is not None
    finally:
        real_cluster.resume("thrift1")
    real_cluster.await_health()


def test_processes_of_another_folder_are_not_signalled(real_cluster, tmp_path):
    pid = processes.running(real_cluster.folder)["thrift1"]
    stranger = processes.Mark(tmp_path, "thrift1")
    assert not processes.send(stranger, pid, signal.SIGKILL)
    assert os.getpgid(pid) == pid


def test_data_survive_kills_and_a_stop(tmp_path):
    with guarded_cluster(tmp_path, region_servers=2, data_nodes=3) as cluster:
        notes = {process.name: process.health.note for process in cluster.status()}
        assert notes["name-node"] == "3 of 3 data nodes"
        assert notes["master"] == "2 of 2 region servers"
        with client_context(THRIFT.THBaseService, *cluster.thrift, socket_timeout=30_000) as hbase:
            name = THRIFT.TTableName(qualifier=b"kept")
            family = THRIFT.TColumnFamilyDescriptor(name=b"d")
            hbase.createTable(THRIFT.TTableDescriptor(name, [family]), [])
            cell = THRIFT.TColumnValue(family=b"d", qualifier=b"r", value=b"value")
            hbase.put(b"kept", THRIFT.TPut(row=b"row", columnValues=[cell]))
        for name in ("region-server-1", "data-node-1"):
            kill_and_restart(cluster, name)
        cluster.stop()
        assert all(process.pid is None for process in cluster.status())
        again = Cluster.start(cluster.folder, java_options=cluster.java_options)
        with client_context(THRIFT.THBaseService, *again.thrift, socket_timeout=30_000) as hbase:
            found = hbase.get(b"kept", THRIFT.TGet(row=b"row"))
            assert [cell.value for cell in found.columnValues] == [b"value"]
