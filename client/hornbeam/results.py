"""Statements of a cursor and their results, for cursors of both kinds (`waiting.py`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from hornbeam.errors import InterfaceError, NotSupportedError
from hornbeam.explaining import explained_of
from hornbeam.namespaces import setting_of_path
from hornbeam.notebooks import table_html, text_html
from hornbeam.prepared import execute_of
from hornbeam.session import Session
from hornbeam.settings import WITHOUT_EFFECT, resets_all, set_by_function, sets_constraints
from hornbeam.statements import Kind, kind, may_show, setting_of
from hornbeam.tags import tag_of
from hornbeam.types import Parameters, row_reader
from hornbeam.upkeep import notice_of
from hornbeam.writes import Write

Row = tuple[Any, ...]
Description = tuple[str, str, None, None, None, None, None]
_EXPLAIN_COLUMNS = [{"name": "explanation", "type": "TEXT"}]
_EXPLAIN_JSON = [{"name": "explanation", "type": "JSON"}]


class Tentative(NamedTuple):
    """A tentative answer is as of `snapshot`. The live and deferred views in it are stored as of
    `as_of`; the node has added in memory what was committed since. `reason`: why it has not, so
    that the answer is as of `as_of`; "": it has."""

    snapshot: int
    as_of: int
    reason: str


class Results:
    """Runs the statements of one cursor, and keeps the results of the last one. Before results are
    read, `settle` takes those of writes that a pipeline has collected."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.arraysize = 1
        self.served_by: list[str] = []
        """Views, indexes and relations that answered the last SELECT."""
        self.tentative: Tentative | None = None
        """What the answer to the last SELECT says of itself; None: it was not tentative."""
        self.notice = ""
        """A remark about the last statement: VACUUM has nothing to do, or COMMIT has rolled back
        an aborted transaction."""
        self.tag: str | None = None
        """PostgreSQL's command tag of the last statement; None before it has run."""
        self._closed = False
        self._description: list[Description] | None
        self._rows: list[Row] | None
        self._rowcount: int
        self._next: int
        self._waiting: list[Write]
        self._clear()

    @property
    def description(self) -> list[Description] | None:
        """(name, SQL type, None …) for each column of the result; None without a result."""
        return self._description

    @property
    def rowcount(self) -> int:
        """Number of rows of the result, or of rows that the write changed; -1 before the first
        statement."""
        return self._rowcount

    @property
    def rownumber(self) -> int | None:
        """Index of the next row to fetch; None without a result."""
        return None if self._rows is None else self._next

    @property
    def must_wait(self) -> bool:
        """Whether a pipeline has collected writes of this cursor, which have not run yet."""
        return any(write.result is None for write in self._waiting)

    async def execute(self, operation: str, parameters: Parameters = ()) -> None:
        """Run a statement with `?` (a sequence) or `:name` (a mapping) parameters. A mapping may
        contain further names."""
        self.begin()
        meaning = kind(operation)
        with self.session.statement(ignored=meaning is not Kind.CONTROL):
            await self._execute(meaning, operation, parameters)
            if self.tag is None and meaning not in {Kind.WRITE, Kind.EXECUTE}:
                self.tag = tag_of(meaning, operation)

    async def executemany(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> None:
        """Run a write once for each set of parameters, in their order, as one statement of one
        request. All runs succeed, or none. `rowcount` and the rows of RETURNING are those of all
        runs."""
        self.begin()
        with self.session.statement():
            if kind(operation) is not Kind.WRITE:
                raise InterfaceError("executemany is for INSERT, UPDATE and DELETE.")
            write = Write.repeated(operation, seq_of_parameters, self.session.path_member)
            await self._write([] if write is None else [write])

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

    def html(self) -> str | None:
        """The last result for a notebook; nothing is fetched by it. None without one, and for
        writes that have not run yet."""
        if self._closed or self.must_wait:
            return None
        self.collect()
        if self._rows is None or self._description is None:
            return None if self.tag is None else text_html(self.tag)
        columns = [(each[0], each[1]) for each in self._description]
        if columns == [("explanation", "TEXT")]:
            return text_html("\n".join(str(line) for (line,) in self._rows))
        note = f"from {', '.join(self.served_by)}" if self.served_by else ""
        return table_html(columns, self._rows, note)

    def close(self) -> None:
        """Close the cursor. Idempotent. The cursor's writes stay part of the transaction, and
        `rowcount` stays valid."""
        self._closed = True
        self._rows = None

    def begin(self) -> None:
        """Forget the results before. Raises InterfaceError if the cursor is closed."""
        if self._closed:
            raise InterfaceError("The cursor is closed.")
        self._clear()

    # ------------------------------------------------------------ inside

    def _clear(self) -> None:
        self._description = None
        self._rows = None
        self._rowcount = -1
        self.notice = ""
        self.tag = None
        self._next = 0
        self._waiting = []

    def _result(self) -> list[Row]:
        if self._closed:
            raise InterfaceError("The cursor is closed.")
        if self._rows is None:
            raise InterfaceError("There are no rows: the last statement returned none.")
        return self._rows

    async def _execute(self, meaning: Kind, operation: str, parameters: Parameters) -> None:
        match meaning:
            case Kind.WRITE:
                await self._write([Write.of(operation, parameters, self.session.path_member)])
            case Kind.DDL:
                await self._change(operation, parameters)
            case Kind.EXPLAIN:
                await self._explain(operation, parameters)
            case Kind.SET:
                await self._set(operation)
            case Kind.CONTROL:
                self.notice = await self.session.control(operation)
                self.tag = "ROLLBACK" if self.notice else None
            case Kind.PREPARE:
                await self.session.prepare(operation)
            case Kind.EXECUTE:
                await self.execute(*await self._executed(operation, parameters))
            case Kind.DEALLOCATE:
                self.session.deallocate(operation)
            case Kind.DISCARD:
                self.session.discard(operation)
            case Kind.UPKEEP:
                document = await self.session.schema_document()
                self.notice = notice_of(operation, document, self.session.search_path)
            case Kind.READ | Kind.COPY | Kind.CURSOR:  # the server says what to do instead
                await self._read(operation, parameters)

    async def _change(self, sql: str, parameters: Parameters) -> None:
        """Change the schema, or a sequence."""
        answer = await self.session.ddl(sql, parameters)
        self.notice = answer.get("notice", "")
        if "value" in answer:
            self._rowcount = 1
            self._take([{"name": "setval", "type": "BIGINT"}], [[answer["value"]]])
            self.tag = "SELECT 1"
        elif "affected" in answer:
            self.tag = f"SELECT {answer['affected']}"

    async def _read(self, sql: str, parameters: Parameters) -> None:
        answer = await self.session.query(sql, parameters)
        self.served_by = answer["served_by"]
        label = answer.get("tentative")
        self.tentative = (
            None
            if label is None
            else Tentative(answer["snapshot"], label["as_of"], label["reason"])
        )
        self._rowcount = len(answer["rows"])
        self.tag = "SHOW" if may_show(sql) else f"SELECT {self._rowcount}"
        self._take(answer["columns"], answer["rows"])

    async def _explain(self, sql: str, parameters: Parameters) -> None:
        asked = explained_of(sql)
        statement = asked.statement
        if kind(statement) is Kind.EXECUTE:
            statement, parameters = await self._executed(statement, parameters)
        allowed = {Kind.READ} if asked.flags.get("analyze") else {Kind.READ, Kind.WRITE}
        if kind(statement) not in allowed:
            raise NotSupportedError(
                "EXPLAIN takes a query or a write, and EXPLAIN ANALYZE a query.\n"
                "  Analyze the SELECT that finds the rows of a write."
            )
        found = await self.session.explain(statement, parameters, asked.flags)
        if asked.format == "json":
            self._rowcount = 1
            self._take(_EXPLAIN_JSON, [[json.dumps([found])]])
            return
        lines = found["text"].splitlines()
        self._rowcount = len(lines)
        self._take(_EXPLAIN_COLUMNS, [[line] for line in lines])

    async def _executed(self, operation: str, parameters: Parameters) -> tuple[str, list[Any]]:
        """The statement of EXECUTE, and its values."""
        asked = execute_of(operation)
        statement = self.session.prepared(asked.name)
        values: Row = ()
        if select := statement.select(asked.name, asked.arguments):
            await self._read(select, parameters)
            (values,) = self.fetchall()
            self.begin()
        return statement.sql, [values[number] for number in statement.order]

    async def _set(self, operation: str) -> None:
        """SET of a setting that the session keeps, or of another one to the value that it has.
        Raises NotSupportedError for another value."""
        if (by_function := set_by_function(operation)) is not None:
            statement, value = by_function
            await self._set(statement)
            self._take([{"name": "set_config", "type": "TEXT"}], [[value]])
            self._rowcount, self.tag = 1, "SELECT 1"
            return
        if sets_constraints(operation):
            await self.session.settle()
            return
        if resets_all(operation):
            self.session.reset_kept()
        if (path := setting_of_path(operation)) is not None:
            await self.session.set_path(path)
            return
        name, wanted, local = setting_of(operation)
        if await self.session.set_mode(name, wanted):
            return
        if self.session.set_kept(name, wanted, local=local):
            without_effect = name.lower() in WITHOUT_EFFECT
            self.notice = f"{name} has no effect: SHOW gives its value." if without_effect else ""
            return
        await self._read(f"SHOW {name}", ())
        ((value,),) = self.fetchall()
        self.begin()
        if wanted.lower() not in (str(value).lower(), "default"):
            raise NotSupportedError(
                f"{name} is {value}, and cannot be set to {wanted}.\n  Leave the statement out."
            )

    async def _write(self, writes: list[Write]) -> None:
        if not writes:
            self._rowcount = 0
            return
        await self.session.write(writes)
        self._waiting = writes
        if not self.must_wait:
            self.collect()

    async def settle(self) -> None:
        """Run the last writes, if they have not run, and take their results."""
        if self.must_wait:
            writes, self._waiting = self._waiting, []
            await self.session.settle()
            self._waiting = writes
        self.collect()

    def collect(self) -> None:
        """Take the results of the last writes."""
        writes, self._waiting = self._waiting, []
        if not writes:
            return
        results = [write.result for write in writes if write.result is not None]
        if len(results) < len(writes):
            raise InterfaceError("The write has no result, since it was rolled back.")
        self._rowcount = sum(result["affected"] for result in results)
        self.tag = results[-1]["tag"]
        if results[0]["columns"]:
            rows = [row for result in results for row in result["rows"]]
            self._take(results[0]["columns"], rows)

    def _take(self, columns: list[dict[str, str]], rows: list[list[Any]]) -> None:
        description, read = _shape(tuple((column["name"], column["type"]) for column in columns))
        self._description = list(description)
        self._rows = [read(row) for row in rows]
        self._next = 0


@lru_cache(maxsize=512)
def _shape(
    columns: tuple[tuple[str, str], ...],
) -> tuple[tuple[Description, ...], Callable[[list[Any]], Row]]:
    """The description of columns, each a name and a type, and the reader of their rows."""
    description = tuple((name, type_, None, None, None, None, None) for name, type_ in columns)
    return description, row_reader([type_ for _, type_ in columns])
