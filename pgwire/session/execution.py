"""Statements of one client, over a session of `hornbeam`, which keeps its transaction."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, TypeVar

from hornbeam.results import Results
from hornbeam.session import Session
from hornbeam.statements import Kind, may_show, split
from hornbeam.transport import Requests, encode, repeated
from hornbeam_server.pgwire.codec.answers import Field
from hornbeam_server.pgwire.ports import Handed, NamedType, WholeRows
from hornbeam_server.pgwire.session.failures import Failure
from hornbeam_server.pgwire.session.placeholders import Statement, statement_of
from hornbeam_server.pgwire.session.rows import Listed, Row, RowSource
from hornbeam_server.pgwire.session.signals import Signalling, Signals, signals_in
from hornbeam_server.pgwire.types.oids import TEXT, field_of, type_of

T = TypeVar("T")
_WITHOUT_ROWS = frozenset(
    {Kind.CONTROL, Kind.PREPARE, Kind.DEALLOCATE, Kind.DISCARD, Kind.UPKEEP, Kind.DDL, Kind.COPY}
)
_EXPLANATION = (field_of("explanation", "TEXT"),)


class Queries(Requests, Protocol):
    """Requests, and queries whose rows are handed over."""

    async def whole(self, body: bytes) -> WholeRows | None:
        """The rows of `POST /v1/query` with this body; None: `rows` gives them, or the error."""

    async def rows(self, body: bytes) -> Handed:
        """The rows of `POST /v1/query` with this body. Raises DatabaseError."""

    async def unless_cancelled(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work`, which is no request. Raises DatabaseError if the client cancels its
        statement."""


@dataclass(frozen=True)
class Outcome:
    """What a statement has done: its columns (None: it returns no rows), its rows, its command tag
    ("": `verb` and the number of the rows that are taken), and a notice or ""."""

    fields: tuple[Field, ...] | None
    rows: RowSource
    tag: str
    notice: str = ""
    verb: str = "SELECT"

    @classmethod
    def without_rows(cls, tag: str) -> Outcome:
        return cls(None, Listed(()), tag)


@dataclass(frozen=True)
class Described:
    """The types of a statement's parameters, and the columns of its result. None: no rows."""

    parameters: tuple[int, ...]
    fields: tuple[Field, ...] | None


class Execution:
    """Runs statements. The session is in autocommit: BEGIN opens transactions."""

    def __init__(self, session: Session, queries: Queries) -> None:
        self.session = session
        self._queries = queries
        self.signals: Signals | None = None
        """Ends sessions for the client; None: no session can be ended."""

    async def run(self, statement: Statement, values: Sequence[Any]) -> Outcome:
        """Run a statement. Raises hornbeam's errors. The rows of a query are read when they are
        taken."""
        if statement.kind is Kind.READ and not may_show(statement.sql):
            return await self._read(statement, values)
        return _outcome(await self._executed(statement, values))

    async def aside(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """All rows of a short query that is no part of the transaction. Raises hornbeam's
        errors."""
        session, queries = self.session, self._queries
        asked = {"sql": sql, "parameters": parameters, "bookmark": session.bookmark}
        body = encode(asked | session.path_member)
        handed = await repeated(lambda: queries.rows(body), queries.pause)
        return [row async for batch in handed.batches for row in batch]

    async def unless_cancelled(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work`. Raises OperationalError if the client cancels the statement."""
        return await self._queries.unless_cancelled(work)

    async def begin_write(self, statement: Statement, values: Sequence[Any]) -> Results:
        """Keep a write in the pipeline that is open. `settled` gives its outcome after its end."""
        return await self._executed(statement, values)

    async def settled(self, results: Results) -> Outcome:
        """The outcome of a write that was kept."""
        await results.settle()
        return _outcome(results)

    async def describe(self, statement: Statement, oids: Sequence[int]) -> Described:
        """The types of a statement, without running it. `oids`: those that the client gives; 0 is
        none. Raises hornbeam's errors."""
        sql, kind = statement.to_describe(), statement.kind
        if kind is Kind.EXECUTE or (kind is Kind.DDL and statement.highest):
            return Described(_given({}, statement.highest, oids), None)
        if kind in _WITHOUT_ROWS:
            return Described((), None)
        if kind is Kind.EXPLAIN:
            return Described(_given({}, statement.highest, oids), _EXPLANATION)
        if may_show(sql) or kind is Kind.SET:
            return Described((), await self._shown(statement))
        if kind is Kind.WRITE and sql.lstrip()[:8].lower() == "truncate":
            return Described((), None)
        with self.session.statement():
            answer = await self.session.explain(sql, ())
        columns = answer["columns"]
        fields = tuple([field_of(each["name"], each["type"]) for each in columns])
        given = answer["parameters"]
        types = {each["name"]: type_of(each["type"])[0] for each in given if each["type"]}
        known = fields if kind is Kind.READ or fields else None
        return Described(_given(types, statement.highest, oids), known)

    async def _shown(self, statement: Statement) -> tuple[Field, ...] | None:
        """The columns of SHOW and of set_config, which change nothing that lasts when they are
        asked for."""
        if statement.kind is Kind.SET:
            selects = statement.sql.lstrip()[:6].lower() == "select"
            return (field_of("set_config", "TEXT"),) if selects else None
        results = await self._executed(statement, ())
        return _outcome(results).fields

    async def _executed(self, statement: Statement, values: Sequence[Any]) -> Results:
        results = Results(self.session)
        await results.execute(*statement.asked(values))
        return results

    async def _read(self, statement: Statement, values: Sequence[Any]) -> Outcome:
        session, queries = self.session, self._queries
        with session.statement():
            body = await session.query_body(*statement.asked(values), trace=True)
            whole = await queries.whole(body)
            if whole is not None:
                session.note_answer(whole.tail)
                return self._outcome(whole.columns, Listed(whole.rows))
            handed = await repeated(lambda: queries.rows(body), queries.pause)
        return self._outcome(handed.columns, _Query(session, handed))

    def _outcome(self, columns: tuple[NamedType, ...], rows: RowSource) -> Outcome:
        signals = signals_in(columns)
        if signals:
            if self.signals is None:
                raise Failure("0A000", "Sessions cannot be ended here.")
            rows = Signalling(rows, signals, self.signals)
        return Outcome(_fields(columns), rows, "")


class _Query:
    """The rows of a query under way. The transaction notes what was read when they end."""

    def __init__(self, session: Session, handed: Handed) -> None:
        self._session = session
        self._handed: Handed | None = handed
        self._rest: Sequence[Row] = ()

    async def take(self, limit: int) -> Sequence[Row]:
        rows = self._rest or await self._next()
        if limit and len(rows) > limit:
            self._rest = rows[limit:]
            return rows[:limit]
        self._rest = ()
        return rows

    async def _next(self) -> Sequence[Row]:
        if self._handed is None:
            return ()
        with self._session.statement():
            rows = await anext(self._handed.batches, None)
        if not rows:
            self._session.note_answer(self._handed.tail())
            self._handed = None
            return ()
        return rows

    async def close(self) -> None:
        """Note what was read, and end the query if only a part was taken."""
        handed, self._handed = self._handed, None
        if handed is not None:
            self._session.note_answer(handed.tail())
            await handed.close()


@lru_cache(maxsize=1_024)
def _fields(columns: tuple[NamedType, ...]) -> tuple[Field, ...]:
    return tuple([field_of(each.name, each.type) for each in columns])


def _outcome(results: Results) -> Outcome:
    fields = results.description
    tag = results.tag or ""
    if fields is None:
        return Outcome(None, Listed(()), tag, results.notice)
    found = tuple([field_of(each[0], each[1]) for each in fields])
    return Outcome(found, Listed(results.fetchall()), tag, results.notice)


def _given(types: dict[str, int], count: int, oids: Sequence[int]) -> tuple[int, ...]:
    """The types of the parameters: those that the client gives, or else those that the statement
    needs, or else text."""
    return tuple(
        [
            (oids[number] if number < len(oids) else 0) or types.get(f"p{number + 1}", TEXT)
            for number in range(max(count, len(oids)))
        ]
    )


def one_statement(sql: str) -> tuple[Statement, int]:
    """The statement in a text that has at most one, and where it begins. Raises Failure for
    several."""
    found = split(sql)
    if len(found) > 1:
        raise Failure("42601", "A prepared statement has one statement, not several.")
    return (statement_of(found[0]), sql.index(found[0])) if found else (statement_of(""), 0)
