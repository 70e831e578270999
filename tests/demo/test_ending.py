"""SIGTERM ends a command of benchmarks, demos and tests in good order."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hornbeam_server.demo.ending import TERMINATED

COMMAND = "from hornbeam.cli import main; main()"
ROOT = Path(__file__).resolve().parents[2]
BEGIN = """
import asyncio, os, signal, subprocess, sys, time
from pathlib import Path
from hornbeam_server.demo.ending import ended_by_sigterm

def begun():
    print("begun", flush=True)
"""
# Python looks for signals between bytecodes. A signal that arrives just before a call that blocks
# is handled after this call, so the scripts block for a short time only.
BLOCKED = """
with ended_by_sigterm():
    try:
        begun()
        for _ in range(600):
            time.sleep(0.1)
    finally:
        print("stopped", flush=True)
"""
TWICE = """
with ended_by_sigterm():
    try:
        begun()
        for _ in range(600):
            time.sleep(0.1)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)
        print("stopped", flush=True)
"""
LOOP = """
async def main():
    try:
        begun()
        for _ in range(600):
            await asyncio.sleep(0.1)
    finally:
        await asyncio.sleep(0)
        print("stopped", flush=True)

with ended_by_sigterm():
    asyncio.run(main())
"""
UVLOOP = LOOP.replace("asyncio.run(main())", "uvloop.run(main())").replace(
    "async", "import uvloop\nasync", 1
)
IMPORTS = """
from types import SimpleNamespace
from bench.peers.jdbc import start_java
"""
STAND_IN = """
import signal

def isJVMStarted():
    return False

def startJVM(library, *options, **settings):
    if "-Xrs" not in options:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
"""
IGNORED = "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
"""As a shell that is not interactive does for a command in its background."""


@contextlib.contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[str]]:
    """A Python process in a session of its own, whose processes are killed at the end."""
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def others_of_session(pid: int) -> list[str]:
    """The command lines of the processes in the session of `pid`, without `pid` itself."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if int(entry.name) != pid and os.getsid(int(entry.name)) == pid:
                found.append((entry / "cmdline").read_text().replace("\0", " "))
    return found


@pytest.mark.parametrize(
    "script",
    [BLOCKED, TWICE, LOOP, UVLOOP, IGNORED + BLOCKED, IGNORED + LOOP],
    ids=["blocked", "twice", "loop", "uvloop", "SIGINT ignored", "SIGINT ignored, loop"],
)
def test_a_command_stops_what_it_has_started(script: str) -> None:
    with running("-c", BEGIN + script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.terminate()
        output, _ = process.communicate(timeout=30)
    assert (process.returncode, output) == (TERMINATED, "stopped\n")


def test_the_demo_leaves_no_process(tmp_path: Path) -> None:
    """It is terminated while emulated browsers, in their process, use a server in its process."""
    tiny = ("--customers=20", "--items=20", "--rounds=1", "--seconds=60", "--sessions=2")
    with running("-c", COMMAND, "demo", *tiny, f"--data={tmp_path / 'demo'}") as process:
        give_up = time.monotonic() + 100
        while not any(
            "hornbeam_server.demo.tpcw.sessions" in line for line in others_of_session(process.pid)
        ):
            assert process.poll() is None
            assert time.monotonic() < give_up
            time.sleep(0.05)
        process.terminate()
        output, _ = process.communicate(timeout=60)
        assert process.returncode == TERMINATED, output
        assert "Traceback" not in output
        assert not others_of_session(process.pid)


def test_java_in_the_process_leaves_sigterm_to_python(tmp_path: Path) -> None:
    """With JPype if it is installed; else with a module that does with SIGTERM what Java does."""
    (tmp_path / "jpype").mkdir()
    (tmp_path / "jpype" / "__init__.py").write_text(STAND_IN)
    (tmp_path / "jpype" / "config.py").touch()
    path = f"sys.path.append({str(tmp_path)!r})  # behind the installed modules\n"
    begin = LOOP.replace(
        "    try:\n", "    start_java(SimpleNamespace(class_path=()))\n    try:\n", 1
    )
    with running("-c", BEGIN + path + IMPORTS + begin) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.terminate()
        output, _ = process.communicate(timeout=60)
    assert (process.returncode, output) == (TERMINATED, "stopped\n")


def test_every_command_that_starts_processes_ends_so() -> None:
    """A module with a `main` that runs a cluster, nodes, servers or databases."""
    starts = re.compile(
        r"\b(Cluster\.start|phoenix_cluster|NodeProcesses|Database\.open|measure_at_sites|Server)\("
        r"|\bimport world\b|\bimport started\b"
    )
    tests = ("nemesis", "hostile", "published", "postgres")
    folders = ("bench", *(f"tests/{name}" for name in tests))
    commands = [
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if 'if __name__ == "__main__":' in (text := path.read_text()) and starts.search(text)
    ]
    assert len(commands) > 5
    assert [path for path in commands if "ended_by_sigterm" not in path.read_text()] == []
