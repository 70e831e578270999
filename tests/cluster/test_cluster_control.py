"""Starting and stopping a cluster of stand-ins for Java's processes."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hornbeam_server.cluster import Cluster, Role, artefacts, control, processes
from hornbeam_server.cluster.health import Health
from hornbeam_server.schema.errors import InvalidRequest, NotFound, Unavailable
from tests.cluster import fake_java

FIRST = ["zookeeper", "name-node", "data-node-1"]
ALL = [*FIRST, "master", "region-server-1", "thrift", "thrift1"]


@pytest.fixture
def behaviour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the stand-in for Java; return the file that sets how its processes behave."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    artefacts.jars_folder().mkdir(parents=True)
    return fake_java.install(tmp_path / "java")


@pytest.fixture
def folder(tmp_path: Path, behaviour: Path) -> Iterator[Path]:
    yield tmp_path / "cluster"
    control.stop(tmp_path / "cluster", at_once=True)
    assert processes.running(tmp_path / "cluster") == {}


@pytest.fixture
def all_healthy(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Count each process as healthy once its log contains "ready"."""

    def examine(process, layout):
        log = folder / "logs" / f"{process.name}.log"
        return Health(log.exists() and "ready" in log.read_text(), "not ready")

    monkeypatch.setattr(control, "examine", examine)


@pytest.mark.usefixtures("all_healthy")
def test_a_start_starts_only_missing_processes(folder):
    cluster = Cluster.start(folder)
    first = processes.running(folder)
    assert sorted(first) == sorted(ALL)
    assert (folder / "data" / "name" / "current" / "VERSION").exists()
    cluster.kill("thrift")
    cluster.kill("name-node")
    Cluster.start(folder)
    second = processes.running(folder)
    assert {name for name in ALL if first[name] != second[name]} == {"thrift", "name-node"}


@pytest.mark.usefixtures("all_healthy")
def test_a_cluster_may_have_other_jars_and_settings(folder, tmp_path):
    pom = tmp_path / "pom.xml"
    pom.write_text("<project/>")
    artefacts.jars_folder(pom).mkdir(parents=True)
    Cluster.start(folder, pom=pom, hbase={"hbase.master.port": 1, "peer.setting": "<on>"})
    command = Path(f"/proc/{processes.running(folder)['master']}/cmdline").read_text()
    assert f":{artefacts.jars_folder(pom)}/*" in command
    site = (folder / "conf" / "hbase-site.xml").read_text()
    assert "<name>hbase.master.port</name><value>1</value>" in site
    assert "<name>peer.setting</name><value>&lt;on&gt;</value>" in site


@pytest.mark.usefixtures("all_healthy")
def test_a_cluster_grows_while_it_runs(folder):
    Cluster.start(folder)
    first = processes.running(folder)
    cluster = Cluster.start(folder, region_servers=3, data_nodes=2)
    assert cluster.names(Role.REGION_SERVER) == [f"region-server-{n}" for n in (1, 2, 3)]
    second = processes.running(folder)
    assert first.items() <= second.items()
    assert sorted(second.keys() - first.keys()) == [
        *("data-node-2", "region-server-2", "region-server-3")
    ]
    with pytest.raises(InvalidRequest):
        Cluster.start(folder, region_servers=2)
    assert processes.running(folder) == second


@pytest.mark.usefixtures("all_healthy")
def test_processes_stop_before_the_processes_they_need(folder):
    cluster = Cluster.start(folder, region_servers=2)
    news: list[tuple[str, str]] = []
    cluster.stop(on_change=lambda *change: news.append(change))
    assert [name for name, what in news if what == "stopped"] == [
        *("region-server-1", "region-server-2", "master", "thrift", "thrift1"),
        *("data-node-1", "name-node", "zookeeper"),
    ]
    assert news.index(("master", "stopping")) > news.index(("region-server-2", "stopped"))
    cluster.stop()
    assert Cluster.at(folder).layout == cluster.layout


@pytest.mark.usefixtures("all_healthy")
def test_processes_that_do_not_stop_are_killed(folder, behaviour, monkeypatch):
    behaviour.write_text("master stubborn\n")
    monkeypatch.setattr(control, "_STOP_TIMEOUT_S", 0.3)
    cluster = Cluster.start(folder)
    cluster.pause("thrift")
    cluster.stop()
    assert processes.running(folder) == {}


@pytest.mark.usefixtures("all_healthy")
def test_down_works_without_the_folder(folder):
    cluster = Cluster.start(folder)
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()
    cluster.stop()
    assert processes.running(folder) == {}
    assert not folder.exists()
    with pytest.raises(NotFound, match="no cluster in"):
        Cluster.at(folder)


@pytest.mark.usefixtures("all_healthy")
def test_a_process_that_dies_is_reported_and_the_others_are_stopped(folder, behaviour):
    behaviour.write_text("master die\n")
    with pytest.raises(Unavailable, match="master ended while it started") as raised:
        Cluster.start(folder)
    assert f"{folder}/logs/master.log" in raised.value.cure
    assert raised.value.cure.endswith("  line 1\n  FATAL: no room left")
    assert processes.running(folder) == {}


@pytest.mark.usefixtures("all_healthy")
def test_the_reason_of_an_abort_is_reported_beside_the_end_of_the_log(folder, behaviour):
    behaviour.write_text("region-server-1 abort\n")
    with pytest.raises(Unavailable, match="region-server-1 ended while it started") as raised:
        Cluster.start(folder)
    why, _, end = raised.value.cure.partition("\nand ends with:\n")
    assert "says why it gave up:\n  ERROR ***** ABORTING region server: no session" in why
    assert "  at once\n  line 0\n" in why
    assert end.endswith("  line 98\n  line 99")


@pytest.mark.usefixtures("all_healthy")
def test_a_failed_start_keeps_processes_that_ran_before(folder, behaviour):
    Cluster.start(folder)
    before = processes.running(folder)
    behaviour.write_text("region-server-2 die\n")
    with pytest.raises(Unavailable):
        Cluster.start(folder, region_servers=2)
    assert processes.running(folder) == before


def test_a_process_that_is_not_healthy_in_time_is_named(folder):
    with pytest.raises(Unavailable, match=r"zookeeper is not healthy \(no answer on 127"):
        Cluster.start(folder, timeout_s=1)
    assert processes.running(folder) == {}


@pytest.mark.parametrize("name", ["a:b", "a,b"])
def test_a_folder_that_java_or_hdfs_would_split_is_refused(folder, name):
    with pytest.raises(InvalidRequest, match="cannot have"):
        Cluster.start(folder / name)
    assert not folder.exists()


@pytest.mark.usefixtures("all_healthy")
def test_a_port_that_is_taken_is_named_before_anything_starts(folder):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(Unavailable, match=f"Port {port}, which is to be thrift's, is taken"):
            Cluster.start(folder, ports={"thrift": port})
    assert processes.running(folder) == {}
    assert not (folder / "data" / "name").exists()


def first_processes_of_a_start(folder: Path) -> subprocess.Popen[bytes]:
    """Start a cluster in another process, which waits until its first processes are healthy."""
    code = "import signal, sys; from pathlib import Path; "
    code += "from hornbeam_server.cluster import Cluster; "
    code += "signal.signal(signal.SIGINT, signal.default_int_handler); "  # shells ignore it with &
    code += "Cluster.start(Path(sys.argv[1]))"
    starting = subprocess.Popen([sys.executable, "-c", code, folder], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while len(processes.running(folder)) < len(FIRST) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert sorted(processes.running(folder)) == sorted(FIRST)
    return starting


def test_an_interrupted_start_leaves_no_processes(folder):
    """The interrupt (Ctrl-C) arrives while the first processes start."""
    starting = first_processes_of_a_start(folder)
    starting.send_signal(signal.SIGINT)
    assert starting.wait(30) == -signal.SIGINT
    assert processes.running(folder) == {}


@pytest.mark.usefixtures("all_healthy")
def test_a_killed_start_is_continued_by_the_next(folder):
    """The next start finds the running processes by their marks."""
    starting = first_processes_of_a_start(folder)
    starting.kill()
    starting.wait()
    before = processes.running(folder)
    Cluster.start(folder)
    assert before.items() <= processes.running(folder).items()


@pytest.mark.usefixtures("all_healthy")
def test_processes_of_other_clusters_are_left_alone(folder, tmp_path):
    """The other process has the same name but belongs to another cluster."""
    other = processes.Mark(tmp_path / "other", "thrift")
    (tmp_path / "other").mkdir()
    command = [sys.executable, "-c", "import time; time.sleep(60)", *other.arguments]
    pid = processes.spawn(other, command, tmp_path / "log")
    with Cluster.start(folder):
        pass
    assert processes.running(other.folder) == {"thrift": pid}
    control.stop(other.folder, at_once=True)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.usefixtures("all_healthy")
def test_a_restart_replaces_one_process(folder):
    with Cluster.start(folder) as cluster:
        before = processes.running(folder)
        cluster.restart("master")
        after = processes.running(folder)
        assert {name for name in ALL if before[name] != after[name]} == {"master"}
        with pytest.raises(InvalidRequest, match="no process hmaster"):
            cluster.restart("hmaster")
    assert processes.running(folder) == {}


def test_waiting_for_health_names_unhealthy_processes(folder, monkeypatch):
    unwell = {"master": 2, "thrift": 1}

    def examine(process, layout):
        left = unwell[process.name] = unwell.get(process.name, 0) - 1
        return Health(left < 0, "not yet")

    monkeypatch.setattr(control, "examine", lambda process, layout: Health(True, "well"))
    cluster = Cluster.start(folder)
    monkeypatch.setattr(control, "examine", examine)
    cluster.await_health(timeout_s=10)
    cluster.kill("master")
    with pytest.raises(Unavailable, match=r"not healthy \(master: down\)"):
        cluster.await_health(timeout_s=0)
