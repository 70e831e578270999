"""The dialect for `create_async_engine`: `hornbeam://…` or `hornbeam+asyncio://…`.

SQLAlchemy calls a driver that looks synchronous, in a greenlet; each call that may wait for the
database awaits `hornbeam.aio` there. Needs greenlet, as all asynchronous dialects do
(`pip install 'hornbeam[asyncio]'`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import pool
from sqlalchemy.engine import AdaptedConnection
from sqlalchemy.util.concurrency import await_

import hornbeam
from hornbeam import aio
from hornbeam.sqlalchemy import HornbeamDialect

__all__ = ["HornbeamAsyncDialect"]


class _AsyncCursor:
    """A cursor that looks synchronous. Its rows are in memory, so fetching them does not wait."""

    def __init__(self, cursor: aio.Cursor) -> None:
        self._cursor = cursor

    def execute(self, operation: str, parameters: Any = ()) -> Any:
        return await_(self._cursor.execute(operation, parameters))

    def executemany(self, operation: str, parameters: Sequence[Any]) -> Any:
        return await_(self._cursor.executemany(operation, parameters))

    def fetchone(self) -> Any:
        return self._cursor.results().fetchone()

    def fetchmany(self, size: int | None = None) -> Any:
        return self._cursor.results().fetchmany(size)

    def fetchall(self) -> Any:
        return self._cursor.results().fetchall()

    def close(self) -> None:
        """Do nothing: the cursor holds rows only."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)

    async def _async_soft_close(self) -> None:
        """Do nothing: the rows are in memory."""


class _AsyncConnection(AdaptedConnection):
    """A connection that looks synchronous to SQLAlchemy. `driver_connection` is the driver's."""

    __slots__ = ()

    def __init__(self, connection: aio.Connection) -> None:
        self._connection = connection  # type: ignore[assignment]

    def cursor(self) -> _AsyncCursor:
        return _AsyncCursor(self._driver.cursor())

    def commit(self) -> None:
        await_(self._driver.commit())

    def rollback(self) -> None:
        await_(self._driver.rollback())

    def close(self) -> None:
        await_(self._driver.close())

    def ping(self) -> None:
        await_(self._driver.ping())

    def schema_document(self) -> dict[str, Any]:
        return await_(self._driver.schema_document())

    def savepoint(self, name: str) -> None:
        await_(self._driver.savepoint(name))

    def rollback_to(self, name: str) -> None:
        await_(self._driver.rollback_to(name))

    def release(self, name: str) -> None:
        await_(self._driver.release(name))

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
    def _driver(self) -> aio.Connection:
        return self._connection  # type: ignore[return-value]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)


class _AsyncModule:
    """The driver's module, whose connections are asynchronous ones."""

    def connect(self, url: str, **options: Any) -> _AsyncConnection:
        return _AsyncConnection(await_(aio.connect(url, **options)))

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
