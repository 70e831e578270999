"""A cluster's processes are recognised by their mark."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hornbeam_server.cluster.ports import free_ports, is_free
from hornbeam_server.cluster.processes import (
    Mark,
    is_paused,
    running,
    send,
    spawn,
    wait_until_gone,
    wait_until_paused,
)

SLEEP = "import time; time.sleep(60)"


@pytest.fixture
def mark(tmp_path: Path) -> Mark:
    return Mark(tmp_path, "sleeper")


@pytest.fixture
def pid(mark: Mark) -> Iterator[int]:
    """Start a process with the mark, which prints a line to its log."""
    command = [sys.executable, "-c", f"print('hello', flush=True); {SLEEP}", *mark.arguments]
    started = spawn(mark, command, mark.folder / "log")
    yield started
    send(mark, started, signal.SIGKILL)
    assert wait_until_gone(mark, started, 10)


def test_a_process_is_found_by_its_mark(mark, pid, tmp_path):
    assert running(tmp_path) == {"sleeper": pid}
    assert running(tmp_path / "other") == {}
    assert running(tmp_path.parent) == {}


@pytest.mark.parametrize("stranger", ["folder", "name"])
def test_a_stranger_is_never_signalled(mark, pid, stranger):
    wrong = mark._replace(**{stranger: mark.folder / "x" if stranger == "folder" else "x"})
    assert not send(wrong, pid, signal.SIGKILL)
    assert wait_until_gone(wrong, pid, 0)
    assert not send(mark, os.getpid(), signal.SIGKILL)
    assert running(mark.folder) == {"sleeper": pid}


def test_an_ended_process_is_gone_before_it_is_reaped(mark, pid):
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert running(mark.folder) == {}
    assert not send(mark, pid, signal.SIGTERM)
    assert wait_until_gone(mark, pid, 0)


def test_waiting_ends_with_the_process(mark, pid):
    assert not wait_until_gone(mark, pid, 0.05)
    assert send(mark, pid, signal.SIGTERM)
    assert wait_until_gone(mark, pid, 10)
    assert not send(mark, pid, signal.SIGTERM)
    with pytest.raises(ChildProcessError):  # wait_until_gone has reaped it
        os.waitpid(pid, os.WNOHANG)


def test_a_process_that_lost_its_command_line_is_waited_for(mark, pid, monkeypatch, tmp_path):
    """An ending process loses its command line before it is gone."""
    (tmp_path / str(pid)).mkdir()
    (tmp_path / str(pid) / "cmdline").touch()
    with monkeypatch.context() as patched:
        patched.setattr("hornbeam_server.cluster.processes._PROC", tmp_path)
        assert not wait_until_gone(mark, pid, 0.05)


def test_a_paused_process_is_recognised(mark, pid):
    assert not is_paused(pid)
    assert not wait_until_paused(mark, pid, 0.05)
    send(mark, pid, signal.SIGSTOP)
    assert wait_until_paused(mark, pid, 5)
    assert is_paused(pid)
    send(mark, pid, signal.SIGCONT)
    deadline = time.monotonic() + 5
    while is_paused(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_paused(pid)


def test_a_process_leads_its_own_session_and_writes_to_its_log(mark, pid, tmp_path):
    assert os.getsid(pid) == pid != os.getsid(0)
    deadline = time.monotonic() + 5
    while not (tmp_path / "log").read_text().endswith("\n") and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (tmp_path / "log").read_text() == "hello\n"


def test_free_ports_are_distinct_and_below_the_ephemeral_range():
    ports = free_ports(50)
    assert len(set(ports)) == 50
    outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(ports) < max(outgoing, 32_000)


def test_the_last_port_that_is_tried_counts(monkeypatch):
    from hornbeam_server.cluster import ports
    from hornbeam_server.schema.errors import Unavailable

    monkeypatch.setattr(ports, "_TRIES", 3)
    monkeypatch.setattr(ports, "is_free", lambda _: True)
    assert len(set(free_ports(3))) == 3
    with pytest.raises(Unavailable, match="3 are free, and 4 are needed"):
        free_ports(4)


def test_a_port_with_a_listener_is_not_free():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert not is_free(listener.getsockname()[1])
