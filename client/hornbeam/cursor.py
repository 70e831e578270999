"""Cursors that block: execute, fetch, Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hornbeam.base import BaseCursor
from hornbeam.results import Results, Row
from hornbeam.session import Session
from hornbeam.transport import ARROW
from hornbeam.types import Parameters
from hornbeam.waiting import finished

if TYPE_CHECKING:
    from hornbeam.connection import Connection


class Cursor(BaseCursor):
    """A PEP 249 cursor. `execute` fetches all rows from the server; `arrow_batches` streams."""

    def __init__(self, connection: Connection, session: Session) -> None:
        super().__init__(session)
        self.connection = connection

    # ------------------------------------------------------------ PEP 249

    def execute(self, operation: str, parameters: Parameters = ()) -> Cursor:
        """Run a statement with `?` (a sequence) or `:name` (a mapping) parameters. A mapping may
        contain further names."""
        finished(self._results.execute(operation, parameters))
        return self

    def executemany(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> Cursor:
        """Run a write once for each set of parameters, in their order, as one statement of one
        request. All runs succeed, or none. `rowcount` and the rows of RETURNING are those of all
        runs."""
        finished(self._results.executemany(operation, seq_of_parameters))
        return self

    def fetchone(self) -> Row | None:
        return self.results().fetchone()

    def fetchmany(self, size: int | None = None) -> list[Row]:
        return self.results().fetchmany(size)

    def fetchall(self) -> list[Row]:
        return self.results().fetchall()

    def close(self) -> None:
        """Close the cursor. Idempotent. The cursor's writes stay part of the transaction, and
        `rowcount` stays valid."""
        self._results.close()

    # ------------------------------------------------------------ beyond PEP 249

    def __iter__(self) -> Cursor:
        return self

    def __next__(self) -> Row:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def arrow(self, operation: str, parameters: Parameters = ()) -> Any:
        """Run a SELECT and return a `pyarrow.Table` (needs `hornbeam[arrow]`).

        A transaction that calls `arrow` can only read: Arrow answers do not list the rows that were
        read, so the commit of a write could not be validated.
        """
        import pyarrow as pa

        with self._streamed(operation, parameters) as chunks:
            return pa.ipc.open_stream(b"".join(chunks)).read_all()

    def arrow_batches(self, operation: str, parameters: Parameters = ()) -> Iterator[Any]:
        """Run a SELECT and yield `pyarrow.RecordBatch`es as they arrive; the result may be larger
        than memory. Read to the end, or close the iterator. See `arrow` about transactions."""
        import pyarrow as pa

        with (
            self._streamed(operation, parameters) as chunks,
            pa.PythonFile(PieceFile(chunks), mode="r") as file,
        ):
            yield from pa.ipc.open_stream(file)

    # ------------------------------------------------------------ inside

    @contextmanager
    def _streamed(self, sql: str, parameters: Parameters) -> Iterator[Iterator[bytes]]:
        """The pieces of a SELECT's Arrow answer."""
        self._results.begin()
        session = self._results.session
        with session.statement():
            body = finished(session.streamed_body(sql, parameters))
            with self.connection.transport.stream("/v1/query", body, {"Accept": ARROW}) as answer:
                session.note_streamed(answer.headers)
                yield iter(answer.pieces)

    def results(self) -> Results:
        if self._results.must_wait:
            finished(self._results.settle())
        self._results.collect()
        return self._results


class PieceFile:
    """Pieces of bytes as a sequential file."""

    closed = False

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._left = b""

    def read(self, size: int) -> bytes:
        """The next `size` bytes; fewer only at the end."""
        parts, missing = [self._left], size - len(self._left)
        while missing > 0 and (chunk := next(self._chunks, None)) is not None:
            parts.append(chunk)
            missing -= len(chunk)
        data = b"".join(parts)
        self._left = data[size:]
        return data[:size]

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        """Do nothing: the owner of the exchange closes the stream."""
