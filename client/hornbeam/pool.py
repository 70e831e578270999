"""Pools lend connections to threads (`Pool`) or tasks (`AsyncPool`).

>>> from hornbeam.pool import Pool
>>> with Pool("hornbeam://127.0.0.1:8780", max_size=20) as pool:
...     with pool.connection() as db:
...         db.cursor().execute("SELECT 1")

A pool keeps transports, that is connections to nodes. Each connection that it lends is new, so no
setting, prepared statement or open transaction of one user reaches the next one. Connections of one
pool see one another's commits: each begins with the latest bookmark that was given back. Closing a
connection gives it back.

The transport that was given back last is lent first, so that those which are not needed become old
and are closed. Users who find no connection wait in their order.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from hornbeam import aio
from hornbeam.aio.connection import Opening
from hornbeam.aio.transport import AsyncTransport, open_async_transport
from hornbeam.connection import MAX_ATTEMPTS, Connection
from hornbeam.errors import Error, InterfaceError, OperationalError
from hornbeam.isolation import DEFAULT_LEVEL
from hornbeam.options import DEFAULT_TIMEOUT_S, Options, target_and_options
from hornbeam.settings import SNAPSHOT
from hornbeam.transport import Blocking, Requests, Transport, open_transport
from hornbeam.waiting import finished

T = TypeVar("T")
R = TypeVar("R")
MAX_SIZE = 10
WAIT_S = 30.0
MAX_AGE_S = 3600.0
CHECK_AFTER_S = 30.0


@dataclass(eq=False)
class Lent(Generic[T]):
    """A transport, with the time at which it was opened, and that of its last use."""

    transport: T
    opened_s: float
    used_s: float


class _Waiter(Protocol[T]):
    """A user who waits: a future of threads, or of an event loop."""

    def done(self) -> bool: ...

    def set_result(self, result: Lent[T] | None, /) -> None: ...

    def set_exception(self, exception: BaseException, /) -> None: ...


class Shelf(Generic[T]):
    """The state of a pool, without locks and requests. A lent transport, or the right to open one,
    counts as `used`."""

    def __init__(self, max_size: int, max_age_s: float) -> None:
        if max_size < 1:
            raise InterfaceError("max_size must be at least 1.")
        self.max_size = max_size
        self.max_age_s = max_age_s
        self.used = 0
        self.bookmark = 0
        self.closed = False
        self._idle: list[Lent[T]] = []
        self._waiters: deque[_Waiter[T]] = deque()

    @property
    def idle(self) -> int:
        return len(self._idle)

    def check_open(self) -> None:
        if self.closed:
            raise InterfaceError("The pool is closed.")

    @property
    def has_room(self) -> bool:
        """Whether a user need not wait. Users who came before go first."""
        return self.used < self.max_size and not self._waiters

    def is_outdated(self, lent: Lent[T], now: float) -> bool:
        return now - lent.opened_s > self.max_age_s

    def take(self) -> Lent[T] | None:
        """The idle transport that was used last; None: open one."""
        self.used += 1
        return self._idle.pop() if self._idle else None

    def wait(self, waiter: _Waiter[T]) -> None:
        self._waiters.append(waiter)

    def leave(self, waiter: _Waiter[T]) -> None:
        """A user does not wait any longer."""
        if waiter in self._waiters:
            self._waiters.remove(waiter)

    def give_back(self, lent: Lent[T] | None, now: float) -> list[T]:
        """Take back a transport, or the right to open one. Returns the transports to close."""
        too_old: list[T] = []
        if lent is not None and (self.closed or self.is_outdated(lent, now)):
            too_old.append(lent.transport)
            lent = None
        if lent is not None:
            lent.used_s = now
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():  # else its user has given up
                waiter.set_result(lent)
                return too_old
        self.used -= 1
        if lent is not None:
            self._idle.append(lent)
        return too_old + self._outdated(now)

    def close(self) -> list[T]:
        """Refuse further users. Returns the idle transports, which are to be closed."""
        self.closed = True
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_exception(InterfaceError("The pool is closed."))
        idle, self._idle = self._idle, []
        return [lent.transport for lent in idle]

    def _outdated(self, now: float) -> list[T]:
        outdated = [lent for lent in self._idle if self.is_outdated(lent, now)]
        self._idle = [lent for lent in self._idle if lent not in outdated]
        return [lent.transport for lent in outdated]

    def exhausted(self, waited_s: float) -> OperationalError:
        """The error of a user who has waited in vain."""
        return OperationalError(
            f"No connection of the pool was given back within {waited_s:g} s:"
            f" all {self.max_size} are in use.\n"
            "  Close connections after their use, or give the pool a larger max_size.",
            {"code": "pool-exhausted", "retryable": True, "outcome": "none"},
        )


class _Settings:
    """The settings that pools of both kinds have. The last ones are those of `hornbeam.connect`.

    `max_size` connections are lent at a time. A user waits for one at most `wait_s` seconds, and
    then gets an OperationalError with the code "pool-exhausted". A transport is closed `max_age_s`
    after it was opened. One that nothing has used for `check_after_s` is checked with a request
    before it is lent, and replaced if it fails.
    """

    def __init__(
        self,
        url: str,
        *,
        max_size: int = MAX_SIZE,
        wait_s: float = WAIT_S,
        max_age_s: float = MAX_AGE_S,
        check_after_s: float = CHECK_AFTER_S,
        autocommit: bool = False,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        use_views: bool = True,
        max_staleness_s: float | None = None,
        isolation: str = DEFAULT_LEVEL,
        search_path: Sequence[str] | None = None,
        consistency: str = SNAPSHOT,
    ) -> None:
        given = Options(
            autocommit, timeout_s, use_views, max_staleness_s, isolation, search_path, consistency
        )
        self._target, self._options = target_and_options(url, given)
        self._wait_s = wait_s
        self._check_after_s = check_after_s
        self._shelf: Shelf[Any] = Shelf(max_size, max_age_s)
        self._lock = threading.Lock()  # of the shelf; an event loop needs none

    @property
    def used(self) -> int:
        """The number of connections that are lent."""
        return self._shelf.used

    @property
    def idle(self) -> int:
        """The number of open transports that are not lent."""
        return self._shelf.idle

    def _is_due(self, lent: Lent[Any]) -> bool:
        """Whether a transport is to be checked before it is lent."""
        return time.monotonic() - lent.used_s > self._check_after_s

    def _is_outdated(self, lent: Lent[Any]) -> bool:
        return self._shelf.is_outdated(lent, time.monotonic())


async def _answers(requests: Requests) -> bool:
    try:
        await requests.json("GET", "/livez")
    except Error:
        return False
    return True


class Pool(_Settings):
    """A pool for threads, with the settings of `_Settings`. Nothing is opened before it is
    needed."""

    def connection(self) -> Connection:
        """A connection of the pool; closing it gives it back. Raises OperationalError if none is
        given back in time, InterfaceError if the pool is closed."""
        lent = self._ready(self._taken())
        connection: Connection

        def release() -> None:
            self._give_back(lent, connection.bookmark)

        connection = Connection(lent.transport, self._options, release)
        connection.bookmark = self._shelf.bookmark
        return connection

    def run(self, work: Callable[[Connection], R], *, attempts: int = MAX_ATTEMPTS) -> R:
        """`Connection.run` on a connection of the pool."""
        with self.connection() as connection:
            return connection.run(work, attempts=attempts)

    def close(self) -> None:
        """Lend nothing more, and close the idle transports; the others when they are given back.
        Users who wait get an InterfaceError. Idempotent."""
        with self._lock:
            idle = self._shelf.close()
        for transport in idle:
            transport.close()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _taken(self) -> Lent[Transport] | None:
        waiter: concurrent.futures.Future[Lent[Transport] | None] = concurrent.futures.Future()
        with self._lock:
            self._shelf.check_open()
            if self._shelf.has_room:
                return self._shelf.take()
            self._shelf.wait(waiter)
        try:
            return waiter.result(self._wait_s)
        except TimeoutError:
            with self._lock:
                self._shelf.leave(waiter)
            if waiter.done():  # it came in the last instant
                return waiter.result()
            raise self._shelf.exhausted(self._wait_s) from None
        except BaseException:
            with self._lock:
                self._shelf.leave(waiter)
            if waiter.done() and waiter.exception() is None:
                self._give_back(waiter.result())
            raise

    def _ready(self, lent: Lent[Transport] | None) -> Lent[Transport]:
        """A transport that works, or a new one."""
        try:
            if lent is not None and (
                self._is_outdated(lent)
                or (self._is_due(lent) and not finished(_answers(Blocking(lent.transport))))
            ):
                lent.transport.close()
                lent = None
            if lent is None:
                now = time.monotonic()
                lent = Lent(open_transport(self._target, self._options.timeout_s), now, now)
        except BaseException:
            self._give_back(lent)
            raise
        return lent

    def _give_back(self, lent: Lent[Transport] | None, bookmark: int = 0) -> None:
        with self._lock:
            self._shelf.bookmark = max(self._shelf.bookmark, bookmark)
            outdated = self._shelf.give_back(lent, time.monotonic())
        for transport in outdated:
            transport.close()


class AsyncPool(_Settings):
    """A pool for the tasks of an event loop, with the settings of `_Settings`. Nothing is opened
    before it is needed."""

    def connection(self) -> Opening:
        """A connection of the pool: `async with pool.connection() as db`. Closing it gives it back.
        Raises OperationalError if none is given back in time, InterfaceError if the pool is
        closed."""
        return Opening(self._lend)

    async def run(
        self, work: Callable[[aio.Connection], Awaitable[R]], *, attempts: int = MAX_ATTEMPTS
    ) -> R:
        """`aio.Connection.run` on a connection of the pool."""
        async with self.connection() as connection:
            return await connection.run(work, attempts=attempts)

    async def close(self) -> None:
        """Lend nothing more, and close the idle transports; the others when they are given back.
        Users who wait get an InterfaceError. Idempotent."""
        for transport in self._shelf.close():
            await transport.close()

    async def __aenter__(self) -> AsyncPool:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _lend(self) -> aio.Connection:
        lent = await self._ready(await self._taken())
        connection: aio.Connection

        async def release() -> None:
            await self._give_back(lent, connection.bookmark)

        connection = aio.Connection(lent.transport, self._options, release)
        connection.bookmark = self._shelf.bookmark
        return connection

    async def _taken(self) -> Lent[AsyncTransport] | None:
        self._shelf.check_open()
        if self._shelf.has_room:
            return self._shelf.take()
        waiter: asyncio.Future[Lent[AsyncTransport] | None]
        waiter = asyncio.get_running_loop().create_future()
        self._shelf.wait(waiter)
        try:
            async with asyncio.timeout(self._wait_s):
                return await asyncio.shield(waiter)
        except TimeoutError:
            self._shelf.leave(waiter)
            if waiter.done():  # it came in the last instant
                return waiter.result()
            raise self._shelf.exhausted(self._wait_s) from None
        except asyncio.CancelledError:
            self._shelf.leave(waiter)
            if waiter.done() and waiter.exception() is None:
                await self._give_back(waiter.result())
            raise

    async def _ready(self, lent: Lent[AsyncTransport] | None) -> Lent[AsyncTransport]:
        """A transport that works, or a new one."""
        try:
            if lent is not None and (
                self._is_outdated(lent)
                or (self._is_due(lent) and not await _answers(lent.transport))
            ):
                await lent.transport.close()
                lent = None
            if lent is None:
                transport = await open_async_transport(self._target, self._options.timeout_s)
                lent = Lent(transport, time.monotonic(), time.monotonic())
        except BaseException:
            await self._give_back(lent)
            raise
        return lent

    async def _give_back(self, lent: Lent[AsyncTransport] | None, bookmark: int = 0) -> None:
        self._shelf.bookmark = max(self._shelf.bookmark, bookmark)
        for transport in self._shelf.give_back(lent, time.monotonic()):
            await transport.close()
