"""The event loop of a simulation: virtual time, and processes that crash, freeze and thaw.

The loop never waits. When no callback is ready, time jumps to the next timer. Callbacks run in the
order in which they became ready, as on any asyncio loop, so a run is a function of the decisions
that are made in it.

A `Process` is everything that runs in its context: tasks, their children, timers, callbacks. The
loop checks the process of each callback before it runs the callback. Callbacks of a dead process do
not run (a crash: no `except` or `finally` runs before `bury`). Callbacks of a frozen process are
kept until it thaws (SIGSTOP: it then gets all missed events at once). So a crash or a freeze can
happen at every `await`.

Threads do not exist: `run_in_executor` runs its work at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Executor, Future
from contextvars import Context, ContextVar, copy_context
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
_PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


class Stuck(Exception):
    """Nothing is ready, nothing is due, and the main task is not done."""


class Process:
    """A simulated process, which can crash and freeze. `SimulatedLoop.process` creates it."""

    def __init__(self, loop: SimulatedLoop, name: str) -> None:
        self.name = name
        self.dead = False
        self.frozen = False
        self.asks = False
        """The loop must call `admits` before it runs a callback of this process. False while
        every callback may run."""
        self._burying = False
        self._loop = loop
        self._context = copy_context()
        self._context.run(_PROCESS.set, self)
        self._held: list[_Call] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._steps_left: int | None = None

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run `work` as part of this process."""
        return self._loop.create_task(work, context=self._context.copy())

    def crash(self) -> None:
        """End this process: none of its callbacks runs any more. Idempotent."""
        self.dead = self.asks = True

    def crash_after(self, steps: int | None) -> None:
        """Crash when `steps` more callbacks of this process have run, so between two callbacks, at
        any `await`. None cancels an earlier call.
        """
        self._steps_left = steps
        self.asks = True

    def freeze(self) -> None:
        """Run no callback until `thaw`."""
        self.frozen = self.asks = True

    def thaw(self) -> None:
        if self.frozen:
            self.frozen = False
            self._run_held()

    def _run_held(self) -> None:
        held, self._held = self._held, []
        self._loop.resume(held)

    def admits(self, call: _Call) -> bool:
        """True if `call` may run now; else it is held. The loop asks just before it runs a
        callback, if `asks` is set."""
        if self._burying:
            return True
        if self._steps_left is not None and not self.frozen:
            self._steps_left -= 1
            self.dead = self.dead or self._steps_left < 0
        if self.dead or self.frozen:
            self._held.append(call)
            return False
        self.asks = self._steps_left is not None
        return True

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Keep a reference to a task until it is done: a task of a dead process may have no
        other."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard, context=self._context)

    async def bury(self) -> None:
        """Cancel the tasks of a dead process, so that no task is pending when the loop closes.

        Their `finally` clauses run now. Services that these clauses call must refuse a dead
        process.
        """
        self._burying = True
        while tasks := [task for task in self._tasks if not task.done()]:
            for task in tasks:
                task.cancel()
            self._run_held()
            await asyncio.wait(tasks, timeout=1)


def current_process() -> Process | None:
    """The process whose code runs now; None outside of every process."""
    return _PROCESS.get()


class _Call:
    """A scheduled callback. It replaces asyncio's Handle and TimerHandle, and is faster."""

    __slots__ = ("args", "callback", "context", "process", "stopped", "time")

    def __init__(
        self,
        callback: Callable[..., object],
        args: Sequence[Any],
        context: Context,
        process: Process | None,
        time: float,
    ) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self.process = process
        self.stopped = False
        self.time = time

    def when(self) -> float:
        return self.time

    def cancelled(self) -> bool:
        return self.stopped

    def cancel(self) -> None:
        """Cancel the call. Its callback and arguments are released at once, since a cancelled
        timer may stay in the heap for long."""
        self.stopped = True
        self.callback, self.args = _nothing, ()


def _nothing() -> None:
    """Replaces the callback of a cancelled call."""


class SimulatedLoop(asyncio.AbstractEventLoop):
    """An event loop without I/O, threads or real time."""

    def __init__(self) -> None:
        self._now = 0.0
        self._ready: deque[_Call] = deque()
        self._timers: list[tuple[float, int, _Call]] = []
        self._numbers = itertools.count()
        self._closed = False
        self._running = False
        self._world = copy_context()
        self.uncaught: list[dict[str, Any]] = []
        """Errors that the exception handler received. A run must end with none."""

    # ------------------------------------------------------------ processes

    def process(self, name: str) -> Process:
        """A new process. `Process.start` starts work in it."""
        return self._world.copy().run(Process, self, name)

    def resume(self, missed: Iterable[_Call]) -> None:
        """Schedule the calls that a process held back."""
        self._ready.extend(missed)

    def in_world(self, delay: float, callback: Callable[..., object], *args: Any) -> None:
        """Call `callback` after `delay` seconds, outside of every process."""
        when = self._now + delay
        call = _Call(callback, args, self._world, None, when)
        heapq.heappush(self._timers, (when, next(self._numbers), call))

    # ------------------------------------------------------------ running

    def run_until_complete(self, future: Any) -> Any:
        """Run until `future`, a coroutine or future, is done. Raises Stuck."""
        task = asyncio.ensure_future(future, loop=self)
        asyncio._set_running_loop(self)
        self._running = True
        try:
            while not task.done():
                self._turn()
        finally:
            self._running = False
            asyncio._set_running_loop(None)
        return task.result()

    def _turn(self) -> None:
        """Run all callbacks that are ready. If there are none, first jump to the next timer."""
        ready = self._ready
        if not ready:
            self._jump()
        for _ in range(len(ready)):
            call = ready.popleft()
            process = call.process
            if call.stopped or (process is not None and process.asks and not process.admits(call)):
                continue
            try:
                call.context.run(call.callback, *call.args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                message = f"Exception in callback {call.callback!r}"
                self.call_exception_handler({"message": message, "exception": error})

    def _jump(self) -> None:
        timers, pop, ready = self._timers, heapq.heappop, self._ready
        while timers and timers[0][2].stopped:
            pop(timers)
        if not timers:
            raise Stuck("nothing is ready and nothing is due")
        now = self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= now:
            ready.append(pop(timers)[2])

    def time(self) -> float:
        """Seconds since the simulation began."""
        return self._now

    # ------------------------------------------------------------ scheduling

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> _Call:
        context = context if context is not None else copy_context()
        call = _Call(callback, args, context, context.get(_PROCESS), self._now)
        self._ready.append(call)
        return call

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> _Call:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> _Call:
        context = context if context is not None else copy_context()
        call = _Call(callback, args, context, context.get(_PROCESS), when)
        heapq.heappush(self._timers, (when, next(self._numbers), call))
        return call

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: object = None, context: Context | None = None
    ) -> asyncio.Task[T]:
        task = asyncio.Task(coro, loop=self, name=None if name is None else str(name),
                            context=context)  # fmt: skip
        process = (context if context is not None else copy_context()).get(_PROCESS)
        if process is not None:
            process.adopt(task)
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    # ------------------------------------------------------------ the rest of asyncio's interface

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        """There is no debug mode."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.uncaught.append(context)

    async def shutdown_asyncgens(self) -> None:
        """The code that uses a generator closes it."""

    async def shutdown_default_executor(self) -> None:
        """There are no threads."""

    def close(self) -> None:
        self._closed = True
        self._ready.clear()
        self._timers.clear()


class InlineExecutor(Executor):
    """Runs work when it is submitted. It replaces the thread pool of a library: the requested
    number of threads is ignored, and there are none."""

    def __init__(self, _threads: int) -> None:
        super().__init__()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def run_simulated(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` under virtual time."""
    loop = SimulatedLoop()  # type: ignore[abstract]  # methods that need I/O are not implemented
    with contextlib.closing(loop):
        result: T = loop.run_until_complete(main)
        return result
