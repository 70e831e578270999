"""The processes of a supervisor: started again when they end, ended with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hornbeam_server.api.supervisor import Supervisor
from tests.api.sleeper import FINAL, Sleeper
from tests.query.test_workers import alive, wait_until

ROOT = Path(__file__).parents[2]


_MAIN = """
import asyncio, sys
from pathlib import Path
from hornbeam_server.api.supervisor import Supervisor
from hornbeam_server.node import logging_setup
from tests.api.sleeper import FINAL, Sleeper
logging_setup.configure("error")
codes = tuple(map(int, sys.argv[2:]))
work = Sleeper(Path(sys.argv[1]), codes=codes)
supervisor = Supervisor(work, 2, final=frozenset({FINAL}))
sys.exit(asyncio.run(supervisor.run(lambda: print("begun", flush=True))))
"""


@pytest.fixture
def start(tmp_path):
    started: list[subprocess.Popen[str]] = []

    def started_with(*codes: int) -> tuple[subprocess.Popen[str], Sleeper]:
        command = [sys.executable, "-c", _MAIN, str(tmp_path), *map(str, codes)]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process, Sleeper(tmp_path)

    yield started_with
    for process in started:
        process.kill()
        process.communicate()


def begun(process: subprocess.Popen[Any]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"


def test_a_killed_worker_is_started_again_and_the_other_goes_on(start):
    supervisor, seen = start()
    begun(supervisor)
    ((first,), (other,)) = seen.processes(1), seen.processes(2)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: len(seen.processes(1)) == 2)
    assert seen.processes(2) == [other]
    assert alive(seen.processes(1)[-1])


def test_workers_count_as_begun_only_when_all_have_said_so(start):
    """The first two processes of worker 1 end before they work."""
    supervisor, seen = start(1, 75)
    begun(supervisor)
    assert len(seen.processes(1)) == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_all(start, number):
    supervisor, seen = start()
    begun(supervisor)
    supervisor.send_signal(number)
    assert supervisor.wait(20) == 0
    assert not any(map(alive, seen.processes(1) + seen.processes(2)))


def test_sighup_reaches_each_and_ends_none(start):
    supervisor, seen = start()
    begun(supervisor)
    supervisor.send_signal(signal.SIGHUP)
    wait_until(lambda: all("renewed" in seen.notes(number) for number in (1, 2)))
    assert supervisor.poll() is None


def test_a_final_code_ends_all_with_that_code(start):
    supervisor, seen = start(FINAL)
    assert supervisor.wait(20) == FINAL
    assert not any(map(alive, seen.processes(1) + seen.processes(2)))


def test_workers_end_when_the_supervisor_is_killed(start):
    supervisor, seen = start()
    begun(supervisor)
    supervisor.kill()
    wait_until(lambda: all("alone" in seen.notes(number) for number in (1, 2)))
    wait_until(lambda: not any(map(alive, seen.processes(1) + seen.processes(2))))


async def test_pauses_grow_while_a_worker_ends_at_once(monkeypatch, tmp_path):
    """Without a pause, a worker that cannot start would take all processor time."""
    waited: list[float] = []
    supervisor = Supervisor(Sleeper(tmp_path), 1)

    async def once(*_: object) -> int:
        return 75

    async def wait(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 8:
            supervisor._ending.set()

    monkeypatch.setattr(supervisor, "_once", once)
    monkeypatch.setattr(supervisor, "_wait", wait)
    began = time.monotonic()
    assert await supervisor.run(lambda: None) == 0
    assert waited == [0.25, 0.5, 1, 2, 4, 8, 10, 10]
    assert time.monotonic() - began < 5
