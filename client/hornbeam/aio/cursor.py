"""Cursors in an event loop: execute, fetch, Arrow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from hornbeam.base import BaseCursor
from hornbeam.cursor import PieceFile
from hornbeam.errors import InterfaceError
from hornbeam.results import Results, Row
from hornbeam.session import Session
from hornbeam.transport import ARROW
from hornbeam.types import Parameters

if TYPE_CHECKING:
    from hornbeam.aio.connection import Connection


class Cursor(BaseCursor):
    """The twin of `hornbeam.Cursor`: what may wait for the database is awaited. `description` and
    `rowcount` of a write that a pipeline has collected exist after its end, or after `settle`."""

    def __init__(self, connection: Connection, session: Session) -> None:
        super().__init__(session)
        self.connection = connection

    async def execute(self, operation: str, parameters: Parameters = ()) -> Cursor:
        """Run a statement with `?` (a sequence) or `:name` (a mapping) parameters. A mapping may
        contain further names."""
        await self.connection.alone(self._results.execute, operation, parameters)
        return self

    async def executemany(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> Cursor:
        """Run a write once for each set of parameters, in their order, as one statement of one
        request. All runs succeed, or none. `rowcount` and the rows of RETURNING are those of all
        runs."""
        await self.connection.alone(self._results.executemany, operation, seq_of_parameters)
        return self

    async def settle(self) -> None:
        """Run the writes that a pipeline has collected."""
        if self._results.must_wait:
            await self.connection.alone(self._results.settle)
        self._results.collect()

    async def fetchone(self) -> Row | None:
        await self.settle()
        return self._results.fetchone()

    async def fetchmany(self, size: int | None = None) -> list[Row]:
        await self.settle()
        return self._results.fetchmany(size)

    async def fetchall(self) -> list[Row]:
        await self.settle()
        return self._results.fetchall()

    async def close(self) -> None:
        """Close the cursor. Idempotent. The cursor's writes stay part of the transaction, and
        `rowcount` stays valid."""
        self._results.close()

    def __aiter__(self) -> Cursor:
        return self

    async def __anext__(self) -> Row:
        row = await self.fetchone()
        if row is None:
            raise StopAsyncIteration
        return row

    async def __aenter__(self) -> Cursor:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def arrow(self, operation: str, parameters: Parameters = ()) -> Any:
        """Run a SELECT and return a `pyarrow.Table` (needs `hornbeam[arrow]`).

        A transaction that calls `arrow` can only read: Arrow answers do not list the rows that were
        read, so the commit of a write could not be validated.
        """
        import pyarrow as pa

        async with self._streamed(operation, parameters) as pieces:
            content = b"".join([piece async for piece in pieces])
        return pa.ipc.open_stream(content).read_all()

    async def arrow_batches(
        self, operation: str, parameters: Parameters = ()
    ) -> AsyncIterator[Any]:
        """Run a SELECT and yield `pyarrow.RecordBatch`es as they arrive; the result may be larger
        than memory. Read to the end, or close the iterator. See `arrow` about transactions.

        pyarrow decodes in a thread, since it reads from files that block.
        """
        import pyarrow as pa

        async with self._streamed(operation, parameters) as pieces:
            chunks = _for_thread(pieces, asyncio.get_running_loop())
            with pa.PythonFile(PieceFile(chunks), mode="r") as file:
                batches = await asyncio.to_thread(pa.ipc.open_stream, file)
                while (batch := await asyncio.to_thread(next, batches, None)) is not None:
                    yield batch

    @asynccontextmanager
    async def _streamed(
        self, sql: str, parameters: Parameters
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The pieces of a SELECT's Arrow answer."""
        self._results.begin()
        session = self._results.session
        with session.statement():
            body = await self.connection.alone(session.streamed_body, sql, parameters)
            stream = self.connection.transport.stream("/v1/query", body, {"Accept": ARROW})
            async with stream as answer:
                session.note_streamed(answer.headers)
                yield aiter(answer.pieces)

    def results(self) -> Results:
        if self._results.must_wait:
            raise InterfaceError(
                "The write has not run yet.\n  End the pipeline, or await cursor.settle()."
            )
        self._results.collect()
        return self._results


def _for_thread(pieces: AsyncIterator[bytes], loop: asyncio.AbstractEventLoop) -> Iterator[bytes]:
    """The pieces that arrive in `loop`, for another thread."""

    async def following() -> bytes | None:
        return await anext(pieces, None)

    while (piece := asyncio.run_coroutine_threadsafe(following(), loop).result()) is not None:
        yield piece
