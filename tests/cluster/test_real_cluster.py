"""The cluster as its users see it: up, disturbed, down. Slow: real processes."""

import os
import signal

import pytest

from cluster import Cluster, Role, processes
from schema.errors import InvalidRequest

pytestmark = pytest.mark.timeout(600)


def pids(cluster: Cluster) -> dict[str, int | None]:
    return {process.name: process.pid for process in cluster.status()}


def test_everything_is_healthy(real_cluster):
    status = {process.name: process for process in real_cluster.status()}
    assert {name for name, process in status.items() if process.health.ok} == status.keys()
    assert status["name-node"].health.note == "1 of 1 data nodes"
    assert status["master"].health.note == "1 of 1 region servers"
    assert {process.role for process in status.values()} == set(Role)


def test_a_second_start_starts_nothing(real_cluster):
    before = pids(real_cluster)
    again = Cluster.start(real_cluster.folder)
    assert pids(again) == before
    assert again.layout == real_cluster.layout


@pytest.mark.parametrize("name", ["thrift", "region-server-1", "data-node-1"])
def test_a_killed_process_comes_back_on_its_port(real_cluster, name):
    before = pids(real_cluster)
    real_cluster.kill(name)
    (down,) = (process for process in real_cluster.status() if process.name == name)
    assert (down.pid, down.health.note) == (None, "down")
    with pytest.raises(InvalidRequest, match="does not run"):
        real_cluster.kill(name)
    real_cluster.restart(name)
    after = pids(real_cluster)
    assert after[name] not in {None, before[name]}
    assert after | {name: None} == before | {name: None}
    assert all(process.health.ok for process in real_cluster.status())


def test_a_paused_process_is_told_from_one_that_is_down(real_cluster):
    real_cluster.pause("thrift1")
    try:
        (paused,) = (process for process in real_cluster.status() if process.name == "thrift1")
        assert (paused.paused, paused.health.ok) == (True, False)
        assert paused.pid is not None
    finally:
        real_cluster.resume("thrift1")
    assert all(process.health.ok for process in real_cluster.status())


def test_another_folders_processes_are_strangers(real_cluster, tmp_path):
    pid = processes.running(real_cluster.folder)["thrift1"]
    stranger = processes.Mark(tmp_path, "thrift1")
    assert not processes.send(stranger, pid, signal.SIGKILL)
    assert os.getpgid(pid) == pid
