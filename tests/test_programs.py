"""Missing programs are installed, or one message names all of them before a test runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests import programs


@pytest.fixture
def machine(monkeypatch):
    """A machine without spin and Go. It records commands; `install` adds both if `works`."""
    state = {"there": {"gcc", "Java 17", "Maven", "psql", "Chromium"}, "run": [], "works": True}

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


def test_no_command_runs_if_no_program_is_missing(machine):
    machine["there"] |= {"spin", "Go"}
    assert programs.main() == 0
    assert machine["run"] == []


def test_only_missing_programs_are_installed(machine):
    assert programs.main() == 0
    assert machine["run"][1] == ["apt-get", "install", "-y", "-qq", "spin"]
    assert machine["run"][2][-1] == programs.GO_PACKAGE


def test_sudo_is_used_if_the_user_is_not_root(machine, monkeypatch):
    monkeypatch.setattr(programs, "_as_root", lambda: ("sudo", "-n"))
    assert programs.main() == 0
    assert machine["run"][0] == ["sudo", "-n", "apt-get", "update", "-qq"]


def test_one_message_names_all_programs_that_the_user_may_not_install(machine, monkeypatch, capsys):
    monkeypatch.setattr(programs, "_as_root", lambda: None)
    machine["there"] = {"gcc"}
    machine["works"] = False
    assert programs.main() == 1
    reported = capsys.readouterr().err
    for name in ("spin", "Java 17", "Maven", "Go 1.22"):
        assert name in reported
    assert "sudo apt-get install spin openjdk-17-jdk-headless maven" in reported
    assert "gcc" not in reported


def test_each_program_is_installed_by_itself(machine):
    """A distribution may lack one of the packages, such as chromium on Ubuntu."""
    machine["there"] -= {"Chromium"}
    assert programs.main() == 1
    installed = [words[-1] for words in machine["run"] if "apt-get" in words]
    assert installed == ["-qq", "spin", "chromium"]


def test_a_failed_installation_is_reported(machine, capsys):
    machine["works"] = False
    assert programs.main() == 1
    assert "spin" in capsys.readouterr().err


def test_an_old_go_is_ignored(tmp_path, monkeypatch):
    old = tmp_path / "go"
    old.write_text("#!/bin/sh\necho go version go1.19.8 linux/amd64\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(programs.sys, "executable", str(tmp_path / "python"))
    assert programs.go_program() is None
    old.write_text("#!/bin/sh\necho go version go1.22.0 linux/amd64\n")
    assert programs.go_program() == str(old)
