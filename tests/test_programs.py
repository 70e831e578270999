"""Missing programs are installed, or named all at once before a test runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests import programs


@pytest.fixture
def machine(monkeypatch):
    """A machine that lacks spin and Go; what is run there is noted, and installs it if it works."""
    state = {"there": {"gcc", "Java 17", "Maven"}, "run": [], "works": True}

    def run(command):
        state["run"].append(list(command))
        if state["works"] and "install" in command:
            state["there"] |= {"spin", "Go"}

    lacking = [
        replace(each, is_there=lambda name=each.name: name in state["there"])
        for each in programs.PROGRAMS
    ]
    monkeypatch.setattr(programs, "PROGRAMS", lacking)
    monkeypatch.setattr(programs, "go_program", lambda: "go" if "Go" in state["there"] else None)
    monkeypatch.setattr(programs, "_run", run)
    monkeypatch.setattr(programs, "_as_root", lambda: ())
    return state


def test_nothing_is_run_where_nothing_is_missing(machine):
    machine["there"] |= {"spin", "Go"}
    assert programs.main() == 0
    assert machine["run"] == []


def test_only_missing_programs_are_installed(machine):
    assert programs.main() == 0
    assert machine["run"][1] == ["apt-get", "install", "-y", "-qq", "spin"]
    assert machine["run"][2][-1] == programs.GO_PACKAGE


def test_sudo_is_used_where_the_user_is_not_root(machine, monkeypatch):
    monkeypatch.setattr(programs, "_as_root", lambda: ("sudo", "-n"))
    assert programs.main() == 0
    assert machine["run"][0] == ["sudo", "-n", "apt-get", "update", "-qq"]


def test_a_user_who_may_not_install_is_told_of_all_at_once(machine, monkeypatch, capsys):
    monkeypatch.setattr(programs, "_as_root", lambda: None)
    machine["there"] = {"gcc"}
    machine["works"] = False
    assert programs.main() == 1
    told = capsys.readouterr().err
    for name in ("spin", "Java 17", "Maven", "Go 1.22"):
        assert name in told
    assert "sudo apt-get install spin openjdk-17-jdk-headless maven" in told
    assert "gcc" not in told


def test_an_installation_that_fails_is_told(machine, capsys):
    machine["works"] = False
    assert programs.main() == 1
    assert "spin" in capsys.readouterr().err


def test_an_old_go_is_not_taken(tmp_path, monkeypatch):
    old = tmp_path / "go"
    old.write_text("#!/bin/sh\necho go version go1.19.8 linux/amd64\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(programs.sys, "executable", str(tmp_path / "python"))
    assert programs.go_program() is None
    old.write_text("#!/bin/sh\necho go version go1.22.0 linux/amd64\n")
    assert programs.go_program() == str(old)
