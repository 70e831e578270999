"""`hornbeam cluster`, with a running cluster and without a cluster."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hornbeam.cli import main
from hornbeam_server.cluster import artefacts, control, processes
from hornbeam_server.cluster.health import Health
from hornbeam_server.cluster.layout import Versions
from tests.cluster import fake_java

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """A function that runs a command line; it returns exit code, output and error output."""

    def run_(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["hornbeam", "cluster", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        return int(ended.value.code or 0), out, err

    return run_


def test_a_cluster_starts_reports_its_status_and_stops(run, tmp_path, monkeypatch):
    """The processes are stand-ins for Java's, and count as healthy while they run."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    artefacts.jars_folder().mkdir(parents=True)
    fake_java.install(tmp_path / "java")
    monkeypatch.setattr(control, "examine", lambda process, layout: Health(True, "well"))
    where = ("--dir", str(tmp_path / "c"))

    code, out, _ = run("up", *where, "--gateways", "2", "--port", "thrift=15999", "--json")
    assert code == 0
    document = json.loads(out)
    assert document["healthy"]
    by_name = {each["name"]: each for each in document["processes"]}
    assert {"thrift", "thrift-2"} <= by_name.keys()
    assert by_name["thrift"] | {"pid": 0, "ports": {}} == {
        "name": "thrift",
        "role": "thrift",
        "host": "127.0.0.1",
        "port": 15_999,
        "ports": {},
        "pid": 0,
        "state": "up",
        "healthy": True,
        "note": "well",
    }
    pids = processes.running(tmp_path / "c")
    assert {name: each["pid"] for name, each in by_name.items()} == pids

    code, out, _ = run("up", *where)
    assert code == 0
    assert "127.0.0.1:15999" in out
    assert str(tmp_path / "c" / "logs") in out
    assert processes.running(tmp_path / "c") == pids

    assert run("status", *where)[0] == 0
    control.Cluster.at(tmp_path / "c").kill("master")
    code, out, _ = run("status", *where, "--json")
    assert code == 1
    assert not json.loads(out)["healthy"]

    code, out, _ = run("down", *where, "--json")
    assert (code, json.loads(out)["stopped"]) == (0, sorted(pids.keys() - {"master"}))
    assert processes.running(tmp_path / "c") == {}
    assert run("down", *where)[1] == "Nothing was running.\n"


def test_a_cluster_of_other_versions_keeps_them(run, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    jars = artefacts.jars_folder(versions=Versions("2.5.8", "3.3.6"))
    jars.mkdir(parents=True)
    fake_java.install(tmp_path / "java")
    monkeypatch.setattr(control, "examine", lambda process, layout: Health(True, "well"))
    where = ("--dir", str(tmp_path / "c"))

    def uses_the_jars(name: str) -> bool:
        pid = processes.running(tmp_path / "c")[name]
        return f":{jars}/*" in Path(f"/proc/{pid}/cmdline").read_text()

    assert run("up", *where, "--hbase", "2.5.8", "--hadoop", "3.3.6")[0] == 0
    assert uses_the_jars("master")
    control.Cluster.at(tmp_path / "c").kill("master")
    assert run("up", *where)[0] == 0
    assert uses_the_jars("master")
    control.Cluster.at(tmp_path / "c").restart("master")
    assert uses_the_jars("master")
    code, _, err = run("up", *where, "--hadoop", "3.4.2")
    assert code == 3
    assert "has HBase 2.5.8 with Hadoop 3.3.6, not HBase 2.5.8 with Hadoop 3.4.2." in err
    assert run("down", *where, "--now")[0] == 0


def test_status_reports_a_real_cluster(run, real_cluster):
    code, out, _ = run("status", "--dir", str(real_cluster.folder), "--json")
    assert code == 0
    assert {each["state"] for each in json.loads(out)["processes"]} == {"up"}


def test_wrong_usage_is_refused(run, tmp_path):
    where = ("--dir", str(tmp_path / "c"))
    assert run("up", *where, "--port", "thrift")[0] == 2
    assert run("up", *where, "--port", "thrift=70000")[0] == 2
    assert run("up", *where, "--region-servers", "0")[0] == 2
    assert not (tmp_path / "c").exists()


def test_without_a_cluster_status_is_an_error(run, tmp_path):
    code, _, err = run("status", "--dir", str(tmp_path / "c"))
    assert code == 3
    assert "There is no cluster in" in err
    assert "hornbeam cluster up" in err
    assert run("down", "--dir", str(tmp_path / "c"))[0] == 0
    assert not (tmp_path / "c").exists()


def test_without_java_up_is_an_error(run, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    code, _, err = run("up", "--dir", str(tmp_path / "c"))
    assert code == 3
    assert err.splitlines()[0] == "error: A cluster needs Java 17 to 23; there is none."
    assert "apt install openjdk-17-jdk-headless" in err
    assert not (tmp_path / "c").exists()
