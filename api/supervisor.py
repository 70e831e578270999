"""Processes that do the same work, each started again when it ends. `hornbeam serve --workers`
starts its nodes with it.

The supervisor passes the signals that end or renew a server on to every process. A process is
connected to the supervisor by a pipe: it sends one message when it has begun to work, and finds the
pipe closed when the supervisor has ended, however that came.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

import structlog

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that each process gets, too; the first two end the supervisor."""
SHORT_S = 10.0
"""Seconds after which a process counts as having worked."""
PAUSE_S, LONGEST_PAUSE_S = 0.25, 10.0
"""First and longest pause before a process is started again. The pause doubles while the process
ends within `SHORT_S`."""

_LOG = structlog.get_logger(__name__)

Work = Callable[[int, Connection], None]
"""What a process does, given its number (from 1) and its end of the pipe. It is pickled."""


@dataclass
class _Worker:
    """One process at a time, under one number."""

    number: int
    process: SpawnProcess | None = None
    pause_s: float = PAUSE_S


class Supervisor:
    """Keeps `count` processes at work until a signal ends it, or one of them ends with a code in
    `final`: an error that a new process would meet, too."""

    def __init__(self, work: Work, count: int, *, final: frozenset[int] = frozenset()) -> None:
        self._work = work
        self._workers = [_Worker(number) for number in range(1, count + 1)]
        self._final = final
        self._ending = asyncio.Event()
        self._code = 0

    async def run(self, started: Callable[[], None]) -> int:
        """Run the processes, and call `started` once all of them have begun to work.

        Returns the first exit code in `final`, or 0 after SIGINT or SIGTERM. No process is left.
        """
        loop = asyncio.get_running_loop()
        for number in PASSED_ON:
            loop.add_signal_handler(number, self._pass_on, number)
        begun = [loop.create_future() for _ in self._workers]
        kept = [
            asyncio.ensure_future(self._keep(worker, first))
            for worker, first in zip(self._workers, begun, strict=True)
        ]
        all_begun = asyncio.ensure_future(asyncio.wait(begun))
        all_begun.add_done_callback(lambda done: None if done.cancelled() else started())
        try:
            await asyncio.gather(*kept)
        finally:
            all_begun.cancel()
            for number in PASSED_ON:
                loop.remove_signal_handler(number)
        return self._code

    async def _keep(self, worker: _Worker, first: asyncio.Future[None]) -> None:
        """Run the process of one number again and again."""
        loop = asyncio.get_running_loop()
        while not self._ending.is_set():
            began = loop.time()
            code = await self._once(worker, first)
            if code in self._final:
                self._code = self._code or code
                self._pass_on(signal.SIGTERM)
            if self._ending.is_set():
                return
            if loop.time() - began >= SHORT_S:
                worker.pause_s = PAUSE_S
            _LOG.warning("a worker has ended", worker=worker.number, code=code)
            await self._wait(worker.pause_s)
            worker.pause_s = min(2 * worker.pause_s, LONGEST_PAUSE_S)

    async def _once(self, worker: _Worker, first: asyncio.Future[None]) -> int:
        """Run one process to its end. Returns its exit code."""
        context, loop = get_context("spawn"), asyncio.get_running_loop()
        ours, theirs = context.Pipe()
        process = context.Process(target=_begin, args=(self._work, worker.number, theirs))
        process.start()
        theirs.close()
        worker.process = process
        ended = loop.create_future()
        loop.add_reader(process.sentinel, _set, ended)
        loop.add_reader(ours.fileno(), _heard, loop, ours, first)
        try:
            await ended
        finally:
            loop.remove_reader(process.sentinel)
            loop.remove_reader(ours.fileno())
            ours.close()
        process.join()
        worker.process = None
        assert process.exitcode is not None
        return process.exitcode

    async def _wait(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._ending.wait(), seconds)
        except TimeoutError:
            return

    def _pass_on(self, number: int) -> None:
        if number != signal.SIGHUP:
            self._ending.set()
        for worker in self._workers:
            if worker.process is not None and worker.process.pid is not None:
                os.kill(worker.process.pid, number)


def _begin(work: Work, number: int, pipe: Connection) -> None:
    """The body of a process. It leaves the group of the terminal, because the supervisor passes
    signals on: a server that gets SIGINT twice does not wait for requests under way."""
    os.setsid()
    work(number, pipe)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _heard(loop: asyncio.AbstractEventLoop, pipe: Connection, first: asyncio.Future[None]) -> None:
    """The process has begun to work, or has closed its end."""
    loop.remove_reader(pipe.fileno())
    try:
        pipe.recv()
    except (EOFError, OSError):
        return
    _set(first)
