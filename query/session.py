"""DuckDB for one query at a time: registered sources, temporary tables, streamed results.

DuckDB works in threads of `Duck`; the event loop only awaits. One session has one cursor, used by
one thread at a time; what is registered or made there is the cursor's own and goes away with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self, TypeVar

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from query.duck import THREADS, column_type, connect, from_record_batch
from query.duckeval import evaluating
from schema.errors import HornbeamError, LimitExceeded, SqlError, TypeMismatch
from schema.types import ColumnType, Row

RESULT_ROWS = 2_048
"""Most rows per batch of a result: a vector of DuckDB's."""
RESULT_BYTES = 4 << 20
"""A batch is not added to beyond that."""
_ROWS_AT_ONCE = 256
MAX_VALUE_BYTES = 64 << 20
"""Of one value of a result. Known once DuckDB has made it: its own memory limit is for that."""

T = TypeVar("T")


THREADS_AT_WORK = 4
"""As many queries run in DuckDB at the same time."""


def new_threads(number: int) -> Executor:
    """Threads for what may take long."""
    return ThreadPoolExecutor(number, thread_name_prefix="query")


class Duck:
    """The database that all sessions share, and its threads. Opened with the first session."""

    def __init__(
        self,
        *,
        memory_limit_mb: int,
        spill_folder: Path | None = None,
        threads: int = THREADS,
        new_threads: Callable[[int], Executor] = new_threads,
    ) -> None:
        """`threads` are those that DuckDB uses for one query."""
        self._memory_limit_mb = memory_limit_mb
        self._spill_folder = spill_folder
        self._threads_of_one = threads
        self._new_threads = new_threads
        self._threads: Executor | None = None
        self._database: duckdb.DuckDBPyConnection | None = None

    def session(self) -> DuckSession:
        """A session with a cursor of its own; close it."""
        if self._database is None:
            self._database = connect(
                memory_limit_mb=self._memory_limit_mb,
                threads=self._threads_of_one,
                spill_folder=self._spill_folder,
            )
            self._threads = self._new_threads(THREADS_AT_WORK)
        return DuckSession(self, self._database.cursor())

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Run `work` in a thread, when one is free."""
        assert self._threads is not None  # a session exists
        return self._threads.submit(work)

    def close(self) -> None:
        """Release all. Sessions are closed by their owners first. Idempotent."""
        if self._threads is not None:
            self._threads.shutdown()
        if self._database is not None:
            self._database.close()
        self._database = self._threads = None


def translated(error: Exception) -> HornbeamError:
    """DuckDB's error as ours: its first line, without its kind and our registered names.

    Arrow wraps what fails while rows flow, so the kind is read from the text.
    """
    first = str(error).partition("\n")[0]
    kind, _, rest = first.partition("Error: ")
    message = rest or kind
    if kind.strip() == "Out of Memory":
        return LimitExceeded(
            "the query needs more memory than it may use",
            cure="narrow it, or raise the memory limit or give a spill folder",
        )
    if kind.strip() in ("Conversion", "Out of Range"):
        return TypeMismatch(message)
    return SqlError(message)


class DuckSession:
    """One query's view of DuckDB."""

    def __init__(self, duck: Duck, cursor: duckdb.DuckDBPyConnection) -> None:
        self.duck = duck
        self._cursor = cursor
        self.types: Sequence[ColumnType] = ()
        self.names: Sequence[str] = ()
        """Of the result's columns, once the query has begun."""

    async def _run(self, work: Callable[[], T]) -> T:
        """In a thread. A cancelled caller interrupts DuckDB and waits until the thread is out."""
        future = self.duck.submit(work)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            while not future.done():  # an interrupt before DuckDB has begun is lost: repeat it
                self._cursor.interrupt()
                await asyncio.sleep(0.01)
            raise
        except duckdb.Error as error:
            raise translated(error) from None

    def register(self, name: str, batch: pa.RecordBatch) -> None:
        """Make rows visible as relation `name`."""
        self._cursor.register(name, pa.Table.from_batches([batch]))

    async def append(self, name: str, batch: pa.RecordBatch, *, first: bool) -> None:
        """Add rows to the temporary table `name`, which the first call makes, anew if need be:
        a query may begin again."""
        table = pa.Table.from_batches([batch])
        head = f'CREATE OR REPLACE TEMP TABLE "{name}" AS' if first else f'INSERT INTO "{name}"'

        def work() -> None:
            self._cursor.register("incoming", table)
            self._cursor.execute(f"{head} SELECT * FROM incoming")
            self._cursor.unregister("incoming")

        await self._run(work)

    async def query(
        self, sql: str, parameters: Mapping[str, Any]
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """The result in batches; `types` and `names` are known from the first one on."""
        reader, batch = await self._run(lambda: self._start(sql, parameters))
        while batch is not None:
            yield batch
            batch = await self._run(lambda: _next(reader))

    def _start(
        self, sql: str, parameters: Mapping[str, Any]
    ) -> tuple[pa.RecordBatchReader, pa.RecordBatch | None]:
        relation = self._cursor.sql(sql, params=dict(parameters))
        self.types = [column_type(type_) for type_ in relation.types]
        self.names = relation.columns
        reader = relation.to_arrow_reader(_ROWS_AT_ONCE)
        return reader, _next(reader)

    async def evaluate(self, work: Callable[[], T]) -> T:
        """What `work` returns, which evaluates expressions (`query.duckeval`)."""
        return await self._run(lambda: evaluating(self._cursor, work))

    def rows(self, batch: pa.RecordBatch) -> list[Row]:
        return from_record_batch(batch, self.types)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop everything. Idempotent."""
        self._cursor.close()


def _next(reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
    """A batch of as many rows as there may be, or fewer that are large; None at the end."""
    parts: list[pa.RecordBatch] = []
    rows = size = 0
    while rows < RESULT_ROWS and size < RESULT_BYTES:
        try:
            part = reader.read_next_batch()
        except StopIteration:
            break
        except (OSError, pa.ArrowException) as error:
            raise translated(error) from None
        _require_short_values(part)
        parts.append(part)
        rows, size = rows + part.num_rows, size + part.nbytes
    if len(parts) < 2:
        return parts[0] if parts else None
    return pa.concat_batches(parts)


def _require_short_values(batch: pa.RecordBatch) -> None:
    """Raises LimitExceeded."""
    if batch.nbytes <= MAX_VALUE_BYTES:
        return
    for column in batch.columns:
        plain = column.storage if isinstance(column, pa.ExtensionArray) else column
        if pa.types.is_string(plain.type) or pa.types.is_binary(plain.type):
            longest = pc.max(pc.binary_length(plain)).as_py() or 0
            if longest > MAX_VALUE_BYTES:
                raise LimitExceeded(
                    f"a value of the result has {longest} bytes, {MAX_VALUE_BYTES} are allowed",
                    cure="take a part of it",
                )
