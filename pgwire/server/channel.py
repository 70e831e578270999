"""Rows of a query on their way from the application to the connection, in one process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

from hornbeam.errors import OperationalError, from_problem
from hornbeam_server.pgwire.ports import NamedType, Rows

Head = tuple[Sequence[NamedType], Callable[[], Mapping[str, Any]]]


class Channel:
    """A `RowTaker` that holds one batch. The connection reads `batches`; the application waits
    until it has taken one."""

    def __init__(self) -> None:
        self.head: asyncio.Future[Head] = asyncio.get_running_loop().create_future()
        """Columns and tail, once the query has begun."""
        self._batch: Rows = ()
        self._ended = False
        self._problem: Mapping[str, Any] | None = None
        self._changed = asyncio.Event()

    def begin(self, columns: Sequence[NamedType], tail: Callable[[], Mapping[str, Any]]) -> None:
        if not self.head.done():
            self.head.set_result((columns, tail))

    async def put(self, rows: Rows) -> None:
        self._batch = rows
        self._changed.set()
        while self._batch:
            await self._wait()

    def end(self, problem: Mapping[str, Any] | None = None) -> None:
        self._ended, self._problem = True, problem
        self._changed.set()

    def lose(self) -> None:
        """The application has ended. If it has not ended the rows, they are cut short."""
        if not self._ended:
            self.end({"code": "internal", "detail": "The query was cut short."})

    async def batches(self) -> AsyncGenerator[Rows, None]:
        """Yield the batches. Raises DatabaseError."""
        while True:
            while not (self._batch or self._ended):
                await self._wait()
            batch, self._batch = self._batch, ()
            self._changed.set()
            if batch:
                yield batch
            elif self._problem is not None:
                raise from_problem(self._problem)
            else:
                return

    async def _wait(self) -> None:
        self._changed.clear()
        await self._changed.wait()


def cancelled(code: str) -> OperationalError:
    detail = "The statement was cancelled at the request of the client."
    return OperationalError(detail, {"code": code, "detail": detail})
