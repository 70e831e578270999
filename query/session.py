"""DuckDB for one query at a time: registered sources, temporary tables, streamed results.

DuckDB works in threads of `Duck`; the event loop only awaits. One session has one cursor, used by
one thread at a time. Whatever was registered or made goes away with the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self, TypeVar

import duckdb
import pyarrow as pa

from query.duck import column_type, connect, from_record_batch
from schema.errors import HornbeamError, LimitExceeded, SqlError, TypeMismatch
from schema.types import ColumnType, Row

RESULT_ROWS = 2_048
"""Rows per batch of a result: a vector of DuckDB's."""

T = TypeVar("T")


class Duck:
    """The database that all sessions share, its threads, and cursors at rest.

    Opened with the first query that needs it.
    """

    def __init__(
        self, *, memory_limit_mb: int, spill_folder: Path | None, concurrency: int = 4
    ) -> None:
        self._memory_limit_mb = memory_limit_mb
        self._spill_folder = spill_folder
        self._concurrency = concurrency
        self._threads: ThreadPoolExecutor | None = None
        self._database: duckdb.DuckDBPyConnection | None = None
        self._idle: list[duckdb.DuckDBPyConnection] = []

    def session(self) -> DuckSession:
        """A session with a cursor of its own; close it."""
        return DuckSession(self, self.take())

    def take(self) -> duckdb.DuckDBPyConnection:
        if self._database is None:
            self._database = connect(
                memory_limit_mb=self._memory_limit_mb, spill_folder=self._spill_folder
            )
            self._threads = ThreadPoolExecutor(self._concurrency, thread_name_prefix="duckdb")
        return self._idle.pop() if self._idle else self._database.cursor()

    def give_back(self, cursor: duckdb.DuckDBPyConnection) -> None:
        if self._database is not None and len(self._idle) < self._concurrency:
            self._idle.append(cursor)
        else:
            cursor.close()

    async def run(self, work: Callable[[], T]) -> T:
        """`work` in a thread, DuckDB's errors as ours."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except duckdb.Error as error:
            raise translated(error) from None

    def close(self) -> None:
        """Interrupt nothing: sessions are closed by their owners first. Idempotent."""
        for cursor in self._idle:
            cursor.close()
        self._idle.clear()
        if self._threads is not None:
            self._threads.shutdown()
        if self._database is not None:
            self._database.close()
        self._database = self._threads = None


def translated(error: duckdb.Error) -> HornbeamError:
    """DuckDB's error as ours: its first line, without its kind and our registered names."""
    first = str(error).partition("\n")[0]
    kind, _, rest = first.partition("Error: ")
    message = rest or kind
    if isinstance(error, duckdb.OutOfMemoryException):
        return LimitExceeded(
            "the query needs more memory than it may use",
            cure="narrow it, or raise the memory limit or give a spill folder",
        )
    if isinstance(error, duckdb.ConversionException | duckdb.OutOfRangeException):
        return TypeMismatch(message)
    return SqlError(message)


class DuckSession:
    """One query's view of DuckDB."""

    def __init__(self, duck: Duck, cursor: duckdb.DuckDBPyConnection) -> None:
        self.duck = duck
        self._cursor = cursor
        self._registered: list[str] = []
        self._tables: list[str] = []
        self._closed = False
        self.types: Sequence[ColumnType] = ()
        self.names: Sequence[str] = ()
        """Of the result's columns, once the query has begun."""

    async def _run(self, work: Callable[[], T]) -> T:
        """In a thread. A cancelled caller interrupts DuckDB and waits until the thread is out."""
        task = asyncio.ensure_future(self.duck.run(work))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._cursor.interrupt()
            await asyncio.wait([task])
            if not task.cancelled():
                task.exception()
            raise

    def register(self, name: str, batch: pa.RecordBatch) -> None:
        """Make rows visible as relation `name`."""
        self._registered.append(name)
        self._cursor.register(name, pa.Table.from_batches([batch]))

    async def append(self, name: str, batch: pa.RecordBatch, *, first: bool) -> None:
        """Add rows to the temporary table `name`, which the first call makes."""
        table = pa.Table.from_batches([batch])
        if first:
            self._tables.append(name)
        head = f'CREATE TEMP TABLE "{name}" AS' if first else f'INSERT INTO "{name}"'

        def work() -> None:
            self._cursor.register("incoming", table)
            self._cursor.execute(f"{head} SELECT * FROM incoming")
            self._cursor.unregister("incoming")

        await self._run(work)

    async def query(
        self, sql: str, parameters: Mapping[str, Any]
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """The result in batches; `types` is known from the first one on."""
        reader = await self._run(lambda: self._start(sql, parameters))
        while (batch := await self._run(lambda: _next(reader))) is not None:
            yield batch

    def _start(self, sql: str, parameters: Mapping[str, Any]) -> pa.RecordBatchReader:
        relation = self._cursor.sql(sql, params=dict(parameters))
        self.types = [column_type(type_) for type_ in relation.types]
        self.names = relation.columns
        return relation.to_arrow_reader(RESULT_ROWS)

    def rows(self, batch: pa.RecordBatch) -> list[Row]:
        return from_record_batch(batch, self.types)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Drop everything and give the cursor back. Idempotent."""
        if self._closed:
            return
        self._closed = True
        for name in self._registered:
            self._cursor.unregister(name)
        if self._tables:
            drops = "; ".join(f'DROP TABLE IF EXISTS "{name}"' for name in self._tables)
            await self._run(lambda: self._cursor.execute(drops))
        self.duck.give_back(self._cursor)


def _next(reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
    try:
        return reader.read_next_batch()
    except StopIteration:
        return None
