"""The worker pool of one query engine: idle workers, and the places that limit how many run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

from hornbeam_server.query.workers.control import Options
from hornbeam_server.query.workers.messages import End
from hornbeam_server.query.workers.places import CLIENT, Place, Places, Timer
from hornbeam_server.query.workers.processes import FORK_SERVER, Worker, WorkerProcess, fork_worker

W = TypeVar("W", bound=Worker)
PLACES = 4
"""Maximum number of statements that run at the same time."""
PROCESSES = 16
"""Maximum number of started statements, whether they run or wait for their readers."""


def new_threads(number: int) -> Executor:
    """A thread pool for work that may take long."""
    return ThreadPoolExecutor(number, thread_name_prefix="query")


class Workers:
    """A worker pool. It starts workers on demand and replaces workers that were killed."""

    def __init__(
        self,
        options: Options,
        *,
        new_worker: Callable[[Options], Awaitable[Worker]] = fork_worker,
        new_threads: Callable[[int], Executor] = new_threads,
        places: int = PLACES,
        processes: int = PROCESSES,
    ) -> None:
        self._options = options
        self._new_worker = new_worker
        self._new_threads = new_threads
        self._number = places
        self._idle: list[Worker] = []
        self._used: set[Worker] = set()
        self._processes = asyncio.Semaphore(processes)
        self._places = Places(places, _now, _call_later)
        self._threads: Executor | None = None
        self._closed = False

    @property
    def threads(self) -> Executor:
        """Threads for work that talks to a worker and must not block the event loop."""
        if self._threads is None:
            self._threads = self._new_threads(self._number)
        return self._threads

    @asynccontextmanager
    async def place(self, *, long: bool) -> AsyncIterator[Place]:
        """A place for the current client's statement."""
        place = await self._places.take(CLIENT.get(), long=long)
        try:
            yield place
        finally:
            self._places.give_back(place)

    async def take(self, *, beyond: bool = False) -> Worker:
        """A worker for exclusive use; the caller gives it back. With `beyond`, ignore the limit on
        processes: the caller already holds a worker and could wait for itself. Raises
        Unavailable."""
        if not beyond:
            await self._processes.acquire()
        try:
            worker = _usable(self._idle) or await self._new_worker(self._options)
        except BaseException:
            if not beyond:
                self._processes.release()
            raise
        self._used.add(worker)
        return worker

    def give_back(self, worker: Worker, *, beyond: bool = False) -> None:
        """Return `worker` after its session has ended or the worker was killed."""
        self._used.discard(worker)
        if not beyond:
            self._processes.release()
        if worker.spent or self._closed or len(self._idle) >= self._number:
            worker.discard()
        else:
            worker.post(End())
            self._idle.append(worker)

    def close(self) -> None:
        """End all workers. Idempotent."""
        self._closed = True
        for worker in self._used:
            worker.kill()
        while self._idle:
            self._idle.pop().discard()
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None


class ThreadWorkers:
    """Workers for callers that block in their own threads."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._idle: list[WorkerProcess] = []  # thread-safe: append and pop are atomic

    @contextmanager
    def worker(self) -> Iterator[Worker]:
        """A worker for exclusive use within the context."""
        worker = _usable(self._idle) or FORK_SERVER.fork(self._options)
        try:
            yield worker
        finally:
            if worker.spent:
                worker.discard()
            else:
                worker.post(End())
                self._idle.append(worker)

    def forget(self) -> None:
        """Drop all workers after a fork: they belong to the parent process."""
        self._idle.clear()


def _usable(idle: list[W]) -> W | None:
    """A usable worker taken from `idle`, or None. Discards workers that are spent."""
    while True:
        try:
            worker = idle.pop()
        except IndexError:
            return None
        if not worker.spent:
            return worker
        worker.discard()


def _now() -> float:
    return asyncio.get_running_loop().time()


def _call_later(delay_s: float, work: Callable[[], None]) -> Timer:
    return asyncio.get_running_loop().call_later(delay_s, work)
