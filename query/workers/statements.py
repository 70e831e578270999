"""Execution of a worker's requests by DuckDB, for one session at a time."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from hornbeam_server.query.dialect.definitions import Definitions
from hornbeam_server.query.dialect.duckdb_types import bound, column_type, connect, quoted
from hornbeam_server.query.dialect.macros import bounded_interval
from hornbeam_server.query.workers.control import Options
from hornbeam_server.query.workers.messages import (
    Append,
    Describe,
    Described,
    Done,
    End,
    Failed,
    Next,
    Query,
    Register,
    Reply,
    Request,
    Rows,
    failed,
)
from hornbeam_server.schema.errors import (
    CheckViolation,
    DivisionByZero,
    HornbeamError,
    LimitExceeded,
    MemoryExceeded,
    NotNullViolation,
    SqlError,
    TypeMismatch,
    UnknownName,
    Unsupported,
)
from hornbeam_server.schema.spelling import NO_FOREVER
from hornbeam_server.schema.types import ColumnType, Kind

FIRST_ROWS = 2_048
"""Maximum rows of a result's first batch: one DuckDB vector, so that the first rows arrive soon."""
RESULT_ROWS = 32_768
"""Maximum rows of a later batch; large, so that communication between processes costs little."""
RESULT_BYTES = 4 << 20
"""A batch ends at about this size in bytes."""
MAX_VALUE_BYTES = 64 << 20
"""Maximum size of one result row in bytes. It is checked after DuckDB has produced the row."""
_ROWS_AT_ONCE = 256
_OURS = "Python exception occurred while executing the UDF: "
"""How an error of a function of ours begins (`query/dialect/jsonb.py`, `numerics.py`)."""
_RAISES: dict[str, type[HornbeamError]] = {
    each.__name__: each
    for each in (TypeMismatch, UnknownName, Unsupported, CheckViolation, NotNullViolation)
}
_RAISED = re.compile(rf"{_OURS}(?P<error>{'|'.join(_RAISES)}): (?P<message>.*)")
_BEYOND = re.compile(r"(?:The result|An interval) is out of range")
"""How errors of our macros begin that are those of a value."""
_INTERVAL = ColumnType(Kind.INTERVAL)
_NOT_SUPPORTED = re.compile(r"\bnot (?:yet )?(?:supported|implemented)\b", re.IGNORECASE)
"""How DuckDB says that it lacks something, in errors of several kinds."""
_DIVIDED = re.compile(
    rf"(?:{_OURS}DivisionByZero: )?Division by zero in expression"
    r" \(?(?P<expression>.*?)\)?\.(?: Use TRY|$)"
)

_UNKNOWN_FUNCTION = re.compile(r"\w+ Function with name \S+ does not exist|No function matches")
_TYPE_NAMES = {
    "INT8": "TINYINT",
    "INT16": "SMALLINT",
    "INT32": "INTEGER",
    "INT64": "BIGINT",
    "INT128": "DECIMAL(38,0)",
    "FLOAT": "REAL",
}
"""SQL's names of types, by those in DuckDB's errors."""
_OVERFLOW = re.compile(
    r"Overflow in (?P<name>\w+) of (?P<type>\w+)(?:\(\d+\))? \((?P<a>.+?) [-+*/%] (?P<b>.+)\)[!.]"
)
_FOREVER = re.compile(
    r'invalid (?P<type>date|timestamp) field format: ""(?P<value>\s*[+-]?infinity\s*)""',
    re.IGNORECASE,
)
_RANGE = re.compile(
    r"(?:Type .+? with value|Failed to cast decimal value) (?P<value>.+?)"
    r" (?:can't be cast because the value is out of range for the destination|to) type"
    r" (?P<type>\w+)"
)


class Statements:
    """One DuckDB database and the current session on it."""

    def __init__(self, options: Options) -> None:
        self._database = connect(
            memory_limit_mb=options.memory_mb,
            threads=options.threads,
            spill_folder=options.spill_folder,
        )
        self._definitions = Definitions()
        self._session: duckdb.DuckDBPyConnection | None = None
        self._result: _Result | None = None

    def answer(self, request: Request) -> Reply | None:
        """Run `request` and return its reply; None if it has no reply. Raises HornbeamError."""
        try:
            return self._answer(request)
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise translated(error) from None
        except MemoryError:
            raise _out_of_memory() from None

    def close(self) -> None:
        self._end()
        self._database.close()

    def _answer(self, request: Request) -> Reply | None:
        match request:
            case Register(name, table):
                self._cursor.register(name, table)
                return None
            case Append(name, table, first):
                self._append(name, table, first)
                return Done()
            case Query(sql, parameters):
                self._result = self._begin(sql, parameters)
                return self._rows()
            case Next():
                return self._rows()
            case Describe(sql):
                relation = self._defined_for(sql).sql(sql)
                duck = [str(type_) for type_ in relation.types]
                return Described(relation.columns, duck, [column_type(t) for t in relation.types])
            case End():
                self._end()
                return None

    @property
    def _cursor(self) -> duckdb.DuckDBPyConnection:
        """The session's cursor. Closing it drops the session's relations and temporary tables."""
        if self._session is None:
            self._session = self._database.cursor()
        return self._session

    def _defined_for(self, sql: str) -> duckdb.DuckDBPyConnection:
        """The session's cursor, in whose database all is defined that `sql` calls. DuckDB frees a
        function of Python with the connection that created it, so it is none of a session."""
        self._definitions.create_for(sql, self._database)
        return self._cursor

    def _end(self) -> None:
        self._result = None
        if self._session is not None:
            self._session.close()
            self._session = None

    def _append(self, name: str, table: pa.Table | None, first: bool) -> None:
        head = f"CREATE OR REPLACE TEMP TABLE {quoted(name)} AS"
        self._cursor.register("incoming", table)
        self._cursor.execute(
            f"{head if first else f'INSERT INTO {quoted(name)}'} SELECT * FROM incoming"
        )
        self._cursor.unregister("incoming")

    def _begin(self, sql: str, parameters: Mapping[str, Any]) -> _Result:
        given = {name: bound(value) for name, value in parameters.items()}
        relation = self._defined_for(sql).sql(sql, params=given)
        if relation is None:  # DDL has no result
            return _Result([], [], None)
        names, types = relation.columns, [column_type(type_) for type_ in relation.types]
        bounded = relation.project(_bounded(types)) if _INTERVAL in types else relation
        return _Result(names, types, bounded.to_arrow_reader(_ROWS_AT_ONCE))

    def _rows(self) -> Rows:
        assert self._result is not None  # a query has begun
        batch = self._result.next()
        return Rows(self._result.names, self._result.types, self._result.ended, batch)


def _bounded(types: Sequence[ColumnType]) -> str:
    """The columns of a result, with an error for an interval whose time of day is too long for
    Arrow, which would wrap it around."""
    return ", ".join(
        bounded_interval(f"#{place}") if type_ == _INTERVAL else f"#{place}"
        for place, type_ in enumerate(types, start=1)
    )


class _Result:
    """A running query's result, in batches bounded by rows and bytes."""

    def __init__(
        self, names: list[str], types: list[ColumnType], reader: pa.RecordBatchReader | None
    ) -> None:
        self.names = names
        self.types = types
        self._reader = reader
        self._rest: pa.RecordBatch | None = None
        self._most = FIRST_ROWS

    @property
    def ended(self) -> bool:
        return self._reader is None and self._rest is None

    def next(self) -> pa.RecordBatch | None:
        """The next batch; None if there are no more rows."""
        parts: list[pa.RecordBatch] = []
        rows = size = 0
        while rows < self._most and size < RESULT_BYTES:
            part = self._part()
            if part is None:
                break
            part, self._rest = _cut(part, RESULT_BYTES - size)
            parts.append(part)
            rows, size = rows + part.num_rows, size + part.nbytes
        self._most = RESULT_ROWS
        if len(parts) < 2:
            return parts[0] if parts else None
        return pa.concat_batches(parts)

    def _part(self) -> pa.RecordBatch | None:
        if self._rest is not None:
            part, self._rest = self._rest, None
            return part
        while self._reader is not None:
            try:
                batch = self._reader.read_next_batch()
            except StopIteration:
                self._reader = None
                break
            if batch.num_rows:
                return batch
        return None


def _cut(batch: pa.RecordBatch, size: int) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
    """(leading rows of at most `size` bytes, but at least one row; the remaining rows).

    Raises LimitExceeded for a first row that exceeds `MAX_VALUE_BYTES`.
    """
    rows = batch.num_rows
    while rows > 1 and batch.slice(0, rows).nbytes > size:
        rows //= 2
    front = batch.slice(0, rows)
    if front.nbytes > MAX_VALUE_BYTES:
        raise LimitExceeded(
            f"A row of the result has {front.nbytes} bytes; {MAX_VALUE_BYTES} are allowed.",
            cure="Take a part of its values.",
        )
    return front, batch.slice(rows) if rows < batch.num_rows else None


def translated(error: Exception) -> HornbeamError:
    """DuckDB's error as a HornbeamError: its first line, without its kind.

    Arrow wraps errors that occur while rows are read, so the kind is parsed from the text.
    """
    first = str(error).partition("\n")[0]
    kind, _, rest = first.partition("Error: ")
    message = rest or kind
    if kind.strip() == "Out of Memory" or isinstance(error, pa.ArrowMemoryError):
        return _out_of_memory()
    if divided := _DIVIDED.match(message):
        # DuckDB divides integers by //.
        return DivisionByZero.of(divided["expression"].replace("//", "/"))
    if (raised := _RAISED.match(message)) is not None:
        return _RAISES[raised["error"]](raised["message"])
    if found := _OVERFLOW.match(message):
        name, type_ = found["name"], _type_name(found["type"])
        return TypeMismatch(f"Overflow in {name} of {type_}: {found['a']} and {found['b']}.")
    if found := _RANGE.match(message):
        return TypeMismatch(f"{found['value']} is out of range for {_type_name(found['type'])}.")
    if found := _FOREVER.match(message):
        type_ = _type_name(found["type"].upper())
        return TypeMismatch(f"{found['value']!r} is not a value of type {type_}: {NO_FOREVER}.")
    if kind.strip() in ("Conversion", "Out of Range") or _BEYOND.match(message):
        return TypeMismatch(message)
    if _UNKNOWN_FUNCTION.match(message):
        return UnknownName(message)
    if kind.strip() == "Not implemented" or _NOT_SUPPORTED.search(message):
        return Unsupported(message)
    return SqlError(message)


def _type_name(name: str) -> str:
    return _TYPE_NAMES.get(name, name)


def _out_of_memory() -> MemoryExceeded:
    return MemoryExceeded(
        "The statement needs more memory than it may use.",
        cure="Narrow it, or ask the administrator to raise query_memory_mb or query_headroom_mb.",
    )


def failure(error: BaseException) -> Failed:
    """The reply that reports `error`."""
    if isinstance(error, HornbeamError):
        return failed(error)
    if isinstance(error, MemoryError):
        return failed(_out_of_memory())
    logging.getLogger(__name__).error("a statement failed unexpectedly", exc_info=error)
    return Failed("internal", f"{type(error).__name__}: {error}")
