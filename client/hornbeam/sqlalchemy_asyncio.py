"""The SQLAlchemy dialect for `create_async_engine`: `hornbeam://…` or `hornbeam+asyncio://…`.

The driver is synchronous. Each call that may wait for the database runs in a thread, so the event
loop does not wait. A connection has one lock: a call that its caller has given up on still ends
before the next one begins. Needs greenlet, as all asynchronous dialects do
(`pip install 'hornbeam[asyncio]'`).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sqlalchemy import pool
from sqlalchemy.engine import AdaptedConnection
from sqlalchemy.util.concurrency import await_

import hornbeam
from hornbeam.connection import Connection
from hornbeam.cursor import Cursor
from hornbeam.sqlalchemy import HornbeamDialect

T = TypeVar("T")

__all__ = ["HornbeamAsyncDialect"]


class _AsyncCursor:
    """A cursor whose statements run in a thread. Its rows are in memory, so fetching them does not
    wait."""

    def __init__(self, connection: _AsyncConnection, cursor: Cursor) -> None:
        self._connection = connection
        self._cursor = cursor

    def execute(self, operation: str, parameters: Any = ()) -> Any:
        return self._connection.apart(self._cursor.execute, operation, parameters)

    def executemany(self, operation: str, parameters: Sequence[Any]) -> Any:
        return self._connection.apart(self._cursor.executemany, operation, parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)

    async def _async_soft_close(self) -> None:
        """Do nothing: the rows are in memory."""


class _AsyncConnection(AdaptedConnection):
    """A connection that looks synchronous to SQLAlchemy. `driver_connection` is the driver's."""

    __slots__ = ("_lock",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection  # type: ignore[assignment]
        self._lock = threading.Lock()

    def apart(self, call: Callable[..., T], *arguments: Any) -> T:
        """Run a call of the driver in a thread, behind the calls before it."""

        def run() -> T:
            with self._lock:
                return call(*arguments)

        return await_(asyncio.to_thread(run))

    def cursor(self) -> _AsyncCursor:
        return _AsyncCursor(self, self._driver.cursor())

    def commit(self) -> None:
        self.apart(self._driver.commit)

    def rollback(self) -> None:
        self.apart(self._driver.rollback)

    def close(self) -> None:
        self.apart(self._driver.close)

    def ping(self) -> None:
        self.apart(self._driver.ping)

    def schema_document(self) -> dict[str, Any]:
        return self.apart(self._driver.schema_document)

    def savepoint(self, name: str) -> None:
        self.apart(self._driver.savepoint, name)

    @property
    def autocommit(self) -> bool:
        return self._driver.autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        self._driver.autocommit = value

    @property
    def isolation(self) -> str:
        return self._driver.isolation

    @isolation.setter
    def isolation(self, value: str) -> None:
        self._driver.isolation = value

    @property
    def _driver(self) -> Connection:
        return self._connection  # type: ignore[return-value]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)


class _AsyncModule:
    """The driver's module, whose connections are asynchronous ones."""

    def connect(self, url: str, **options: Any) -> _AsyncConnection:
        return _AsyncConnection(await_(asyncio.to_thread(hornbeam.connect, url, **options)))

    def __getattr__(self, name: str) -> Any:
        return getattr(hornbeam, name)


class HornbeamAsyncDialect(HornbeamDialect):
    """The dialect over an event loop."""

    driver = "asyncio"
    is_async = True
    supports_statement_cache = True

    @classmethod
    def import_dbapi(cls) -> Any:
        return _AsyncModule()

    @classmethod
    def get_pool_class(cls, url: Any) -> type[pool.Pool]:
        return pool.AsyncAdaptedQueuePool

    def get_driver_connection(self, connection: Any) -> Any:
        return connection.driver_connection
