"""COPY FROM STDIN and COPY TO STDOUT of one session.

COPY FROM collects the rows that the client sends, and inserts them by one statement with as many
sets of parameters; a condition behind WHERE is a query that finds the rows to insert. So it is one
transaction, or a part of the open one, within the limits of both.
COPY TO runs a query, and writes its rows as they come.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from hornbeam.errors import DatabaseError
from hornbeam.settings import quoted_text
from hornbeam.statements import Kind
from hornbeam.types import to_wire
from hornbeam.writes import Write
from hornbeam_server.pgwire.codec import answers
from hornbeam_server.pgwire.codec import requests as asked
from hornbeam_server.pgwire.copy.binary import BinaryRows
from hornbeam_server.pgwire.copy.condition import Condition, TableColumn, condition_of
from hornbeam_server.pgwire.copy.options import BINARY, BadCopy, Options
from hornbeam_server.pgwire.copy.records import BadData, Records
from hornbeam_server.pgwire.copy.statement import Copy, copy_of, listed
from hornbeam_server.pgwire.copy.words import with_blanks
from hornbeam_server.pgwire.copy.written import Written
from hornbeam_server.pgwire.session.execution import Execution, Outcome
from hornbeam_server.pgwire.session.failures import PROTOCOL_VIOLATION, Failure, failure_of
from hornbeam_server.pgwire.session.incoming import Incoming
from hornbeam_server.pgwire.session.placeholders import Statement, statement_of
from hornbeam_server.pgwire.types import oids
from hornbeam_server.pgwire.types.read import BadValue, value_of
from hornbeam_server.pgwire.types.written import writers
from hornbeam_server.schema.errors import capitalised
from hornbeam_server.schema.turns import pause

_PIECE = 1 << 16
"""Bytes that are read before others have a turn."""
_BYTES = frozenset({oids.BYTEA, oids.OF_OID[oids.BYTEA].array})
"""Types whose text in COPY is not the text of a parameter."""
_COLUMNS = (
    "SELECT attname, atttypid, attgenerated, attidentity, format_type(atttypid, atttypmod),"
    " pg_get_expr(adbin, adrelid) FROM pg_attribute LEFT JOIN pg_attrdef"
    " ON adrelid = attrelid AND adnum = attnum"
    " WHERE attrelid = {}::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
)
_CANCELLED, _TOO_MUCH, _BAD_BINARY, _BAD_TEXT = "57014", "54000", "22P03", "22P02"
_MORE = "Send less at a time, or load files by hornbeam load and dumps by hornbeam import."


class Column(NamedTuple):
    """A column of the table, and the number of its type."""

    name: str
    oid: int
    of_table: TableColumn


class Sink(NamedTuple):
    """Where answers go: `put` collects them, `flush` sends them, `flush_if_many` when they are
    many."""

    put: Callable[[bytes], None]
    flush: Callable[[], Awaitable[None]]
    flush_if_many: Callable[[], Awaitable[None]]


class Copying:
    """Runs COPY statements."""

    def __init__(self, execution: Execution, sink: Sink, max_bytes: int) -> None:
        """`max_bytes`: maximum bytes of the data of one COPY FROM."""
        self._execution = execution
        self._session = execution.session
        self._sink = sink
        self._max_bytes = max_bytes

    async def run(self, statement: Statement, incoming: Incoming) -> Outcome:
        """Raises Failure, and hornbeam's errors."""
        try:
            copy = copy_of(statement.sql)
            with self._session.statement():
                if copy.reads:
                    count = await self._take_in(copy, statement.sql, incoming)
                else:
                    count = await self._give_out(copy, statement.sql)
        except BadCopy as error:
            more = {"D": error.detail}
            raise Failure(error.sqlstate, error.message, error.hint, more=more) from None
        return Outcome.without_rows(f"COPY {count}")

    # ------------------------------------------------------------ COPY TO

    async def _give_out(self, copy: Copy, sql: str) -> int:
        """Send the rows of a query or a table. Returns their number."""
        outcome = await self._execution.run(await self._query(copy, sql), ())
        fields = outcome.fields
        if fields is None:
            raise BadCopy("0A000", "The query of COPY has no RETURNING clause.")
        names = [each.name for each in fields]
        if copy.query != (0, 0):
            _require_known(copy.options.force_quote or (), names, names, "FORCE_QUOTE")
        binary = copy.options.format == BINARY
        types = tuple([each.oid for each in fields])
        write = writers(types, (int(binary),) * len(fields))
        data = Written(copy.options, names)
        self._sink.put(answers.copy_out(len(fields), binary=binary))
        self._put(data.header())
        count = 0
        try:
            while rows := await outcome.rows.take(0):
                for row in rows:
                    values = [each(value) for each, value in zip(write, row, strict=True)]
                    self._put(data.row(values))
                    await self._sink.flush_if_many()
                count += len(rows)
        finally:
            await outcome.rows.close()
        self._put(data.end())
        self._sink.put(answers.COPY_DONE)
        return count

    async def _query(self, copy: Copy, sql: str) -> Statement:
        if copy.table:
            known = await self._known(copy)
            names = listed([each.name for each in _chosen(copy, known)])
            return statement_of(f"SELECT {names} FROM {copy.table}")
        found = statement_of(with_blanks(sql, *copy.query))
        if found.kind not in {Kind.READ, Kind.WRITE}:
            raise BadCopy("42601", "The query of COPY is a SELECT, or a write with RETURNING.")
        return found

    def _put(self, data: bytes) -> None:
        if data:
            self._sink.put(answers.copy_data(data))

    # ------------------------------------------------------------ COPY FROM

    async def _take_in(self, copy: Copy, sql: str, incoming: Incoming) -> int:
        """Insert the rows that the client sends. Returns their number."""
        if self._session.own_settings["transaction_read_only"] == "on":
            raise BadCopy("25006", "Cannot execute COPY FROM in a read-only transaction.")
        known = await self._known(copy)
        columns = _chosen(copy, known)
        names = [each.name for each in columns]
        insert = _insert(copy.table, names)
        await self._execution.describe(statement_of(insert), ())  # its errors come before the data
        condition = await self._condition(copy, sql, names, known)
        binary = copy.options.format == BINARY
        self._sink.put(answers.copy_in(len(columns), binary=binary))
        await self._sink.flush()
        rows = _Rows(columns, copy.options)
        try:
            await self._receive(rows, incoming)
        except BadData as error:
            raise _failed(error, copy.name) from None
        try:
            if condition is not None and rows.sets:
                found = await self._execution.aside(condition.sql, condition.parameters(rows.sets))
                rows.keep([int(number) for (number,) in found])
            return await self._insert(insert, rows)
        except DatabaseError as error:
            raise rows.located(error, copy.name) from error

    async def _insert(self, insert: str, rows: _Rows) -> int:
        if not rows.sets:
            return 0
        body = {"sql": insert, "parameter_sets": rows.sets, **self._session.path_member}
        await self._session.write([write := Write(body)])
        assert write.result is not None
        return int(write.result["affected"])

    async def _condition(
        self, copy: Copy, sql: str, names: Sequence[str], known: Mapping[str, Column]
    ) -> Condition | None:
        """The condition of WHERE. Raises Failure, whose place is none in the text of COPY."""
        if copy.where == (0, 0):
            return None
        columns = {name: each.of_table for name, each in known.items()}
        text = sql[slice(*copy.where)]
        condition = condition_of(text, copy.name, names, columns)
        try:
            await self._execution.aside(condition.sql, condition.parameters([]))  # of no rows
        except DatabaseError as error:
            failure = failure_of(error)
            failure.more = {name: value for name, value in failure.more.items() if name != "P"}
            raise failure from None
        return condition

    async def _receive(self, rows: _Rows, incoming: Incoming) -> None:
        """Take the data up to its end. Raises BadData, Failure."""
        limit = self._session.statement_limit_s
        try:
            async with asyncio.timeout(limit):
                await self._execution.unless_cancelled(self._received(rows, incoming))
        except TimeoutError:
            message = f"COPY has not got all of its data within {limit:g} s."
            raise Failure(_CANCELLED, message, "SET statement_timeout.") from None

    async def _received(self, rows: _Rows, incoming: Incoming) -> None:
        size = 0
        while True:
            match await incoming.next():
                case asked.CopyData(data):
                    size += len(data)
                    if size > self._max_bytes:
                        message = f"COPY FROM takes at most {self._max_bytes} bytes."
                        raise Failure(_TOO_MUCH, message, _MORE)
                    for start in range(0, len(data), _PIECE):
                        rows.feed(data[start : start + _PIECE])
                        await pause()
                case asked.CopyDone():
                    rows.end()
                    return
                case asked.CopyFail(reason):
                    raise Failure(_CANCELLED, f"COPY from stdin failed: {reason}")
                case asked.Flush() | asked.Sync():
                    pass  # libpq sends them before it knows that data is wanted
                case request:
                    name = type(request).__name__
                    message = f"Unexpected message {name} during COPY from stdin."
                    raise Failure(PROTOCOL_VIOLATION, message)

    # ------------------------------------------------------------ columns

    async def _known(self, copy: Copy) -> Mapping[str, Column]:
        """The columns of the table."""
        found = await self._execution.aside(_COLUMNS.format(quoted_text(copy.table)))
        return {
            name: Column(
                name,
                int(oid),
                TableColumn(
                    name,
                    type_,
                    default or "",
                    bool(generated),
                    bool(identity) or "nextval(" in (default or ""),
                ),
            )
            for name, oid, generated, identity, type_, default in found
        }


def _chosen(copy: Copy, known: Mapping[str, Column]) -> list[Column]:
    """The columns that COPY names, or else all that are not generated. Raises BadCopy."""
    columns = _named(copy, known)
    names, options = [each.name for each in columns], copy.options
    for option, given in (
        ("FORCE_QUOTE", options.force_quote),
        ("FORCE_NOT_NULL", options.force_not_null),
        ("FORCE_NULL", options.force_null),
    ):
        _require_known(given or (), names, known, option)
    return columns


def _named(copy: Copy, known: Mapping[str, Column]) -> list[Column]:
    if not copy.columns:
        return [column for column in known.values() if not column.of_table.generated]
    for number, name in enumerate(copy.columns):
        if name not in known:
            message = f'Column "{name}" of relation "{copy.name}" does not exist.'
            raise BadCopy("42703", message)
        if known[name].of_table.generated:
            detail = "Generated columns cannot be used in COPY."
            raise BadCopy("42P10", f'Column "{name}" is a generated column.', detail)
        if name in copy.columns[:number]:
            raise BadCopy("42701", f'Column "{name}" is given more than once.')
    return [known[name] for name in copy.columns]


class _Rows:
    """The rows of a COPY FROM as sets of parameters, and their lines in the data. Raises
    BadData."""

    def __init__(self, columns: Sequence[Column], options: Options) -> None:
        self._columns = columns
        self._binary = options.format == BINARY
        names = tuple([each.name for each in columns])
        self._source = BinaryRows(len(names)) if self._binary else Records(options, names)
        self._of_bytes = [n for n, each in enumerate(columns) if each.oid in _BYTES]
        self.sets: list[list[Any]] = []
        self._lines = array("Q")

    def feed(self, data: bytes) -> None:
        self._add(self._source.feed(data))

    def end(self) -> None:
        self._add(self._source.end())

    def keep(self, numbers: Sequence[int]) -> None:
        """Leave out all rows but those with these numbers, from 0, in ascending order."""
        self.sets = [self.sets[number] for number in numbers]
        self._lines = array("Q", [self._lines[number] for number in numbers])

    def _add(self, found: Sequence[Any]) -> None:
        if self._binary:
            for fields in found:
                self._lines.append(len(self._lines) + 1)
                self.sets.append(self._of_binary(fields))
            return
        for line, fields in found:
            for number in self._of_bytes:
                fields[number] = self._wire(line, number, fields[number])
            self._lines.append(line)
            self.sets.append(fields)

    def _of_binary(self, fields: Sequence[bytes | None]) -> list[Any]:
        found = []
        for column, data in zip(self._columns, fields, strict=True):
            try:
                found.append(to_wire(value_of(data, column.oid, 1)))
            except BadValue as error:
                message = f"Incorrect binary data format: {error}."
                line = len(self._lines)
                raise BadData(_BAD_BINARY, message, line, column.name, of_binary=True) from None
        return found

    def _wire(self, line: int, number: int, text: str | None) -> Any:
        """A text as the parameter of a column. Raises BadData."""
        if text is None:
            return None
        name, oid, _ = self._columns[number]
        try:
            return to_wire(value_of(text.encode(), oid, 0))
        except BadValue as error:
            type_ = oids.name_of(oid)
            message = f'Invalid input syntax for type {type_}: "{text}".'
            hint = capitalised(f"{error}.")
            raise BadData(_BAD_TEXT, message, line, name, text, hint=hint) from None

    def located(self, error: DatabaseError, table: str) -> Failure:
        """The failure of the insert, with the line and the column of the row that it is about."""
        if error.code == "sql-type-mismatch" and not self._binary:
            try:
                self._require_values()
            except BadData as bad:
                return _failed(bad, table)
        found = failure_of(error)
        found.more = {name: value for name, value in found.more.items() if name != "P"}
        number = error.problem.get("row", 1 if len(self.sets) == 1 else 0)
        if isinstance(number, int) and 0 < number <= len(self._lines):
            mismatch = error.code == "sql-type-mismatch"
            column = error.problem.get("column") if mismatch else None
            found.more |= {"W": self._place(number - 1, column).context(table)}
        return found

    def _place(self, number: int, column: object) -> BadData:
        """The place of a row, or of one of its values."""
        line = self._lines[number]
        for at, each in enumerate(self._columns):
            if each.name == column:
                value = self.sets[number][at]
                text = value if isinstance(value, str) else None
                binary = self._binary or (text is None and value is not None)
                return BadData("", "", line, each.name, text, of_binary=binary)
        return BadData("", "", line)

    def _require_values(self) -> None:
        """Raise BadData for the first text that is no value of the type of its column."""
        for line, fields in zip(self._lines, self.sets, strict=True):
            for number, value in enumerate(fields):
                if isinstance(value, str):
                    self._wire(line, number, value)


def _insert(table: str, names: Sequence[str]) -> str:
    """The INSERT of a row. As in PostgreSQL, identity columns take the values that are given."""
    if not names:
        raise BadCopy("0A000", "COPY needs a column that is not generated.")
    places = ", ".join("?" * len(names))
    return f"INSERT INTO {table} ({listed(names)}) OVERRIDING SYSTEM VALUE VALUES ({places})"


def _require_known(
    given: Iterable[str], names: Sequence[str], known: Collection[str], option: str
) -> None:
    for name in given:
        if name not in known:
            raise BadCopy("42703", f'Column "{name}" does not exist.')
        if name not in names:
            raise BadCopy("42P10", f'{option} column "{name}" is not referenced by COPY.')


def _failed(error: BadData, table: str) -> Failure:
    more = {"W": error.context(table)} if error.line else {}
    return Failure(error.sqlstate, error.message, error.hint, more=more)
