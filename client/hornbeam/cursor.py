"""Cursors: execute, fetch, Arrow."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hornbeam.errors import InterfaceError, NotSupportedError
from hornbeam.explaining import explained_of
from hornbeam.namespaces import setting_of_path
from hornbeam.prepared import execute_of
from hornbeam.statements import Kind, kind, setting_of
from hornbeam.transport import ARROW
from hornbeam.types import Parameters, row_reader, wire_parameters
from hornbeam.upkeep import notice_of

if TYPE_CHECKING:
    from hornbeam.connection import Connection

Row = tuple[Any, ...]
Description = tuple[str, str, None, None, None, None, None]
_NONE: Mapping[str, Any] = MappingProxyType({})
_EXPLAIN_COLUMNS = [{"name": "explanation", "type": "TEXT"}]
_EXPLAIN_JSON = [{"name": "explanation", "type": "JSON"}]


class Write:
    """An INSERT, UPDATE or DELETE, with one set of parameters or with several, for each of which it
    runs. `result` is None until the server has run the statement."""

    __slots__ = ("body", "result")

    def __init__(self, body: dict[str, Any]) -> None:
        self.body = body
        self.result: dict[str, Any] | None = None

    @classmethod
    def of(cls, sql: str, parameters: Parameters, more: Mapping[str, Any] = _NONE) -> Write:
        """`more`: further members of the body."""
        return cls({"sql": sql, "parameters": wire_parameters(sql, parameters), **more})

    @classmethod
    def repeated(
        cls, sql: str, sets: Iterable[Parameters], more: Mapping[str, Any] = _NONE
    ) -> Write | None:
        """None without any set of parameters."""
        found = [wire_parameters(sql, parameters) for parameters in sets]
        return cls({"sql": sql, "parameter_sets": found, **more}) if found else None


class Cursor:
    """A PEP 249 cursor. `execute` fetches all rows from the server; `arrow_batches` streams."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self.lastrowid: None = None
        self.served_by: list[str] = []
        """Views, indexes and relations that answered the last SELECT."""
        self.notice = ""
        """Why the last statement had nothing to do, as VACUUM has."""
        self._closed = False
        self._description: list[Description] | None
        self._rows: list[Row] | None
        self._rowcount: int
        self._next: int
        self._waiting: list[Write]
        self._clear()

    # ------------------------------------------------------------ PEP 249

    @property
    def description(self) -> list[Description] | None:
        """(name, SQL type, None …) for each column of the result; None without a result."""
        self._settle()
        return self._description

    @property
    def rowcount(self) -> int:
        """Number of rows of the result, or of rows that the write changed; -1 before the first
        statement."""
        self._settle()
        return self._rowcount

    @property
    def rownumber(self) -> int | None:
        """Index of the next row to fetch; None without a result."""
        self._settle()
        return None if self._rows is None else self._next

    def execute(self, operation: str, parameters: Parameters = ()) -> Cursor:
        """Run a statement with `?` (a sequence) or `:name` (a mapping) parameters. A mapping may
        contain further names."""
        self._begin()
        match kind(operation):
            case Kind.WRITE:
                self._write([Write.of(operation, parameters, self.connection.path_member)])
            case Kind.DDL:
                answer = self.connection.ddl(operation, parameters)
                if answer is not None:
                    self._rowcount = 1
                    self._take([{"name": "setval", "type": "BIGINT"}], [[answer["value"]]])
            case Kind.EXPLAIN:
                self._explain(operation, parameters)
            case Kind.SET:
                self._set(operation)
            case Kind.CONTROL:
                self.connection.control(operation)
            case Kind.PREPARE:
                self.connection.prepare(operation)
            case Kind.EXECUTE:
                return self.execute(*self._executed(operation, parameters))
            case Kind.DEALLOCATE:
                self.connection.deallocate(operation)
            case Kind.DISCARD:
                self.connection.discard(operation)
            case Kind.UPKEEP:
                self.notice = notice_of(operation, self.connection.schema_document())
            case Kind.READ:
                self._read(operation, parameters)
        return self

    def executemany(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> Cursor:
        """Run a write once for each set of parameters, in their order, as one statement of one
        request. All runs succeed, or none. `rowcount` and the rows of RETURNING are those of all
        runs."""
        self._begin()
        if kind(operation) is not Kind.WRITE:
            raise InterfaceError("executemany is for INSERT, UPDATE and DELETE.")
        write = Write.repeated(operation, seq_of_parameters, self.connection.path_member)
        self._write([] if write is None else [write])
        return self

    def fetchone(self) -> Row | None:
        rows = self._result()
        if self._next >= len(rows):
            return None
        self._next += 1
        return rows[self._next - 1]

    def fetchmany(self, size: int | None = None) -> list[Row]:
        rows = self._result()
        taken = rows[self._next : self._next + (self.arraysize if size is None else size)]
        self._next += len(taken)
        return taken

    def fetchall(self) -> list[Row]:
        rows = self._result()
        taken = rows[self._next :]
        self._next = len(rows)
        return taken

    def close(self) -> None:
        """Close the cursor. Idempotent. The cursor's writes stay part of the transaction, and
        `rowcount` stays valid."""
        self._closed = True
        self._rows = None

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Do nothing (PEP 249 allows that)."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Do nothing (PEP 249 allows that)."""

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

        self._begin()
        with self.connection.query_stream(operation, parameters, ARROW) as chunks:
            return pa.ipc.open_stream(b"".join(chunks)).read_all()

    def arrow_batches(self, operation: str, parameters: Parameters = ()) -> Iterator[Any]:
        """Run a SELECT and yield `pyarrow.RecordBatch`es as they arrive; the result may be larger
        than memory. Read to the end, or close the iterator. See `arrow` about transactions."""
        import pyarrow as pa

        self._begin()
        with (
            self.connection.query_stream(operation, parameters, ARROW) as chunks,
            pa.PythonFile(_File(chunks), mode="r") as file,
        ):
            yield from pa.ipc.open_stream(file)

    # ------------------------------------------------------------ inside

    def _begin(self) -> None:
        if self._closed:
            raise InterfaceError("The cursor is closed.")
        self._clear()

    def _clear(self) -> None:
        self._description = None
        self._rows = None
        self._rowcount = -1
        self.notice = ""
        self._next = 0
        self._waiting = []

    def _result(self) -> list[Row]:
        if self._closed:
            raise InterfaceError("The cursor is closed.")
        self._settle()
        if self._rows is None:
            raise InterfaceError("There are no rows: the last statement returned none.")
        return self._rows

    def _read(self, sql: str, parameters: Parameters) -> None:
        answer = self.connection.query(sql, parameters)
        self.served_by = answer["served_by"]
        self._rowcount = len(answer["rows"])
        self._take(answer["columns"], answer["rows"])

    def _explain(self, sql: str, parameters: Parameters) -> None:
        asked = explained_of(sql)
        statement = asked.statement
        if kind(statement) is Kind.EXECUTE:
            statement, parameters = self._executed(statement, parameters)
        if kind(statement) is not Kind.READ:
            raise NotSupportedError(
                "EXPLAIN takes a query.\n  Explain the SELECT that finds the rows of a write."
            )
        found = self.connection.explain(statement, parameters, asked.flags)
        if asked.format == "json":
            self._rowcount = 1
            self._take(_EXPLAIN_JSON, [[json.dumps([found])]])
            return
        lines = found["text"].splitlines()
        self._rowcount = len(lines)
        self._take(_EXPLAIN_COLUMNS, [[line] for line in lines])

    def _executed(self, operation: str, parameters: Parameters) -> tuple[str, list[Any]]:
        """The statement of EXECUTE, and its values."""
        asked = execute_of(operation)
        statement = self.connection.prepared(asked.name)
        values: Row = ()
        if select := statement.select(asked.name, asked.arguments):
            self._read(select, parameters)
            (values,) = self.fetchall()
            self._begin()
        return statement.sql, [values[number] for number in statement.order]

    def _set(self, operation: str) -> None:
        """SET of the search path, or of another setting to the value that it has. Raises
        NotSupportedError for another value."""
        if (path := setting_of_path(operation)) is not None:
            self.connection.set_path(path)
            return
        name, wanted = setting_of(operation)
        self._read(f"SHOW {name}", ())
        ((value,),) = self.fetchall()
        self._begin()
        if wanted.lower() not in (str(value).lower(), "default"):
            raise NotSupportedError(
                f"{name} is {value}, and cannot be set to {wanted}.\n  Leave the statement out."
            )

    def _write(self, writes: list[Write]) -> None:
        if not writes:
            self._rowcount = 0
            return
        self.connection.write(writes)
        self._waiting = writes
        if all(write.result is not None for write in writes):
            self._settle()

    def _settle(self) -> None:
        """Take the results of the last writes. Runs them first if they have not run."""
        writes, self._waiting = self._waiting, []
        if not writes:
            return
        if any(write.result is None for write in writes):
            self.connection.settle()
        results = [write.result for write in writes if write.result is not None]
        if len(results) < len(writes):
            raise InterfaceError("The write has no result, since it was rolled back.")
        self._rowcount = sum(result["affected"] for result in results)
        if results[0]["columns"]:
            rows = [row for result in results for row in result["rows"]]
            self._take(results[0]["columns"], rows)

    def _take(self, columns: list[dict[str, str]], rows: list[list[Any]]) -> None:
        read = row_reader([column["type"] for column in columns])
        self._description = [
            (column["name"], column["type"], None, None, None, None, None) for column in columns
        ]
        self._rows = [read(row) for row in rows]
        self._next = 0


class _File:
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
