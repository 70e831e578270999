"""Connections in an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType, TracebackType
from typing import Any, ParamSpec, TypeVar

from hornbeam.aio.cursor import Cursor
from hornbeam.aio.subscriptions import Subscription
from hornbeam.aio.transport import AsyncTransport, open_async_transport
from hornbeam.base import BaseConnection
from hornbeam.connection import MAX_ATTEMPTS
from hornbeam.errors import InterfaceError
from hornbeam.isolation import DEFAULT_LEVEL
from hornbeam.namespaces import Setting
from hornbeam.options import DEFAULT_TIMEOUT_S, DEFAULTS, Options, target_and_options
from hornbeam.session import Session
from hornbeam.settings import SNAPSHOT
from hornbeam.types import Parameters

T = TypeVar("T")
P = ParamSpec("P")


def connect(
    url: str,
    *,
    autocommit: bool = False,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    use_views: bool = True,
    max_staleness_s: float | None = None,
    isolation: str = DEFAULT_LEVEL,
    search_path: Sequence[str] | None = None,
    consistency: str = SNAPSHOT,
) -> Opening:
    """A connection, which is opened by `await`, or by `async with`. The arguments and errors are
    those of `hornbeam.connect`."""
    given = Options(
        autocommit, timeout_s, use_views, max_staleness_s, isolation, search_path, consistency
    )
    target, options = target_and_options(url, given)

    async def opened() -> Connection:
        return Connection(await open_async_transport(target, options.timeout_s), options)

    return Opening(opened)


class Opening:
    """A connection that is opened when it is awaited, or entered."""

    def __init__(self, opened: Callable[[], Awaitable[Connection]]) -> None:
        self._opened = opened
        self._connection: Connection | None = None

    def __await__(self) -> Generator[Any, None, Connection]:
        return self._opened().__await__()

    async def __aenter__(self) -> Connection:
        self._connection = await self._opened()
        return self._connection

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._connection is not None
        await self._connection.__aexit__(kind, error, traceback)


class Connection(BaseConnection):
    """The twin of `hornbeam.Connection`: what may wait for the database is awaited. Statements of
    several tasks run one after the other; tasks that need transactions of their own have
    connections of their own.

    `release` runs at the end, instead of closing the transport.
    """

    def __init__(
        self,
        transport: AsyncTransport,
        options: Options = DEFAULTS,
        release: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__(Session(transport, options))
        self.transport = transport
        self._release = release or transport.close
        self._lock = asyncio.Lock()

    async def alone(
        self, work: Callable[P, Awaitable[T]], *arguments: P.args, **named: P.kwargs
    ) -> T:
        """Call `work` when no other statement of this connection runs."""
        async with self._lock:
            return await work(*arguments, **named)

    def cursor(self) -> Cursor:
        """A new cursor."""
        self._session.check_open()
        return Cursor(self, self._session)

    async def commit(self) -> None:
        """Make the transaction's writes durable, all or none (`hornbeam.Connection.commit`)."""
        await self.alone(self._session.commit)

    async def rollback(self) -> None:
        """Discard the transaction. The server holds no state of it."""
        async with self._lock:
            self._session.rollback()

    async def close(self) -> None:
        """Roll back, and release the transport. Idempotent."""
        if self._session.close():
            await self._release()

    @property
    def search_path(self) -> tuple[str, ...]:
        """The schemas in which names without a schema are searched for, in their order."""
        return self._session.search_path

    async def set_search_path(self, path: Sequence[str]) -> None:
        """Set the search path of later statements."""
        await self.alone(self._session.set_path, Setting(tuple(path), local=False))

    @asynccontextmanager
    async def pipeline(self) -> AsyncIterator[None]:
        """Collect the writes of the block, and send them together at the end of the block, before a
        read, or when a result of a write is fetched (`hornbeam.Connection.pipeline`)."""
        self._session.begin_pipeline()
        try:
            yield
        except BaseException:
            await self._session.end_pipeline(failed=True)
            raise
        await self.alone(self._session.end_pipeline, failed=False)

    async def savepoint(self, name: str) -> None:
        """Set a savepoint. It replaces an older savepoint with the same name. Raises InterfaceError
        in autocommit, as `rollback_to` and `release` do."""
        await self.alone(self._session.savepoint, name)

    async def rollback_to(self, name: str) -> None:
        """Discard the writes since a savepoint. The savepoint stays."""
        async with self._lock:
            self._session.rollback_to(name)

    async def release(self, name: str) -> None:
        """Remove a savepoint and the later ones. The writes stay."""
        async with self._lock:
            self._session.release(name)

    async def schema_document(self) -> dict[str, Any]:
        """The schema in force: the document of /v1/schema."""
        return await self.alone(self._session.schema_document)

    def subscribe(
        self,
        name: str,
        *,
        wanted: Mapping[str, Any] = MappingProxyType({}),
        moment: int | None = None,
        rows: bool = True,
    ) -> Subscription:
        """Follow the changes of a relation or view (`hornbeam.subscriptions`): of the rows whose
        columns have the values in `wanted`.

        The subscription goes on after `moment`, which an earlier one has given. Without it, it
        begins with all rows, or with `rows` False with the next change. It is independent of
        transactions of this connection. It begins when it is entered.
        """
        return Subscription(self.transport, self._follower(name, wanted, moment, rows=rows))

    async def explain(
        self, sql: str, parameters: Parameters, flags: Mapping[str, bool] = MappingProxyType({})
    ) -> dict[str, Any]:
        """The plan of a SELECT: the document of /v1/explain."""
        return await self.alone(self._session.explain, sql, parameters, flags)

    async def ping(self) -> None:
        """Check the connection. Raises OperationalError when the database cannot be reached."""
        await self.alone(self._session.ping)

    async def run(
        self, work: Callable[[Connection], Awaitable[T]], *, attempts: int = MAX_ATTEMPTS
    ) -> T:
        """Await `work` and commit. On a retryable abort roll back and retry, up to `attempts` times
        (`hornbeam.Connection.run`)."""
        if attempts < 1:
            raise InterfaceError("attempts must be at least 1.")
        for attempt in range(attempts):
            try:
                result = await work(self)
                await self.commit()
            except BaseException as error:
                pause_s = self._session.retry_pause_s(error, attempt, attempts)
                if pause_s is None:
                    raise
                await asyncio.sleep(pause_s)
            else:
                return result
        raise AssertionError("the last attempt returns or raises")

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Commit if the block raised no exception, else roll back. Close in both cases."""
        try:
            if kind is None and not self.closed:
                await self.commit()
        finally:
            await self.close()
