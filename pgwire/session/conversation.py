"""A session of the protocol: requests of a client, in their order, and the answers to them.

The simple protocol is `Query`, a text of statements. In the extended protocol `Parse` keeps a
statement, `Bind` gives it values and makes a portal, `Execute` runs the portal, and `Sync` ends the
series. After an error, everything up to `Sync` is skipped.

The statements of one text, and those between two `Sync`, are one transaction outside of BEGIN. A
statement that is alone is its own transaction. Otherwise the first one opens a *series*, which
`Sync` commits. In a series, and inside BEGIN, writes whose results need not come one by one are
kept together (`Session.begin_pipeline`); the answers behind them wait for theirs.

`send` gets the bytes for the client. Nothing else here has to do with a network.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

import structlog

from hornbeam.errors import Error
from hornbeam.isolation import Action, control_of
from hornbeam.prepared import deallocated
from hornbeam.statements import Kind, split
from hornbeam_server.pgwire.codec import answers
from hornbeam_server.pgwire.codec import requests as asked
from hornbeam_server.pgwire.codec.frames import ProtocolViolation
from hornbeam_server.pgwire.session.copying import Copying, Sink
from hornbeam_server.pgwire.session.cursor_runs import Cursors
from hornbeam_server.pgwire.session.execution import Described, Execution, Outcome, one_statement
from hornbeam_server.pgwire.session.failures import (
    Failure,
    failure_of,
    notice_fields,
    warning_fields,
)
from hornbeam_server.pgwire.session.incoming import Incoming
from hornbeam_server.pgwire.session.placeholders import Statement, statement_of
from hornbeam_server.pgwire.session.portals import Portal, Portals, Prepared
from hornbeam_server.pgwire.session.rows import Row
from hornbeam_server.pgwire.types.written import Writer, writers

_LOG = structlog.get_logger(__name__)
Send = Callable[[bytes], Awaitable[None]]
Reported = Callable[[], Mapping[str, str]]
"""The settings whose changes the client hears of, and their values."""
SENT_AT_ONCE = 1 << 16
"""Bytes of answers that are collected before they are sent."""
_EXECUTE, _SYNC, _FLUSH = b"E", b"S", b"H"
_ENDS = frozenset({Action.COMMIT, Action.ROLLBACK})
_IN_SERIES = frozenset({Kind.READ, Kind.WRITE, Kind.EXECUTE, Kind.COPY, Kind.CURSOR})
_SETTING = frozenset({Kind.SET, Kind.CONTROL, Kind.DISCARD})
"""Statements that may change settings."""
_ALONE = frozenset({Kind.DDL, Kind.UPKEEP, Kind.DISCARD})
"""Statements that are no part of a transaction. A series commits before them."""


class Conversation:
    """The session of one client after its start."""

    def __init__(
        self, execution: Execution, send: Send, reported: Reported, max_copy_bytes: int
    ) -> None:
        """`max_copy_bytes`: maximum bytes of the data of one COPY FROM."""
        self._execution = execution
        self._session = execution.session
        self._send = send
        self._reported = reported
        self._known: Mapping[str, str] = {}
        """The settings as the client knows them."""
        self._may_differ = True
        self._portals = Portals()
        self._cursors = Cursors(execution, self._portals)
        sink = Sink(self._put, self._flush, self._flush_if_many)
        self._copying = Copying(execution, sink, max_copy_bytes)
        self._out: list[bytes | Portal] = []
        """Answers to send. A portal stands for the answer of its write, which is kept."""
        self._size = 0
        self._kept: list[Portal] = []
        self._series = self._skips = False
        self._current: Prepared | None = None
        """The statement that an error is about."""

    @property
    def status(self) -> bytes:
        """That of ReadyForQuery."""
        if not self._session.in_block:
            return b"I"
        return b"E" if self._session.is_aborted else b"T"

    @property
    def sql(self) -> str:
        """The statement that ran last; "" before the first."""
        return "" if self._current is None else self._current.statement.sql

    def warn(self, text: str) -> None:
        """Send a warning, before the next answer."""
        self._put(answers.notice(warning_fields(text)))

    async def begin(self) -> None:
        """Say that the session is ready."""
        self._put_ready()
        await self._flush()

    async def end(self) -> None:
        """End the session, whose client has gone."""
        await self._portals.clear()
        self._session.close()

    async def handle(self, request: asked.Request, incoming: Incoming) -> None:
        """Answer a request. Raises nothing but what `send` and `incoming` raise."""
        match request:
            case asked.Query():
                await self._portals.close(portal=True, name="")
                await self._unless_failed(self._script(request.sql, incoming))
                await self._sync()
            case asked.Sync():
                await self._sync()
            case _ if self._skips:
                return
            case asked.Flush():
                await self._unless_failed(self._give_kept())
                await self._flush()
            case _:
                await self._unless_failed(self._extended(request, incoming))

    # ------------------------------------------------------------ simple protocol

    async def _script(self, text: str, incoming: Incoming) -> None:
        statements = split(text)
        if not statements:
            self._put(answers.EMPTY_QUERY)
        at = 0
        for number, sql in enumerate(statements, 1):
            at = text.index(sql, at)
            last = number == len(statements)
            portal = Portal(Prepared(statement_of(sql), before=at), (), (), described=False)
            at += len(sql)
            await self._run(portal, incoming, alone=len(statements) == 1, keep=not last)
            await self._give(portal, 0)

    # ------------------------------------------------------------ extended protocol

    async def _extended(self, request: asked.Request, incoming: Incoming) -> None:
        match request:
            case asked.Parse():
                statement, before = one_statement(request.sql)
                prepared = Prepared(statement, request.oids, before=before)
                self._portals.prepare(request.name, prepared)
                self._put(answers.PARSE_COMPLETE)
            case asked.Bind():
                await self._bind(request)
            case asked.Describe(portal=True):
                await self._describe_portal(self._portals.portal(request.name), incoming)
            case asked.Describe():
                await self._describe(self._portals.statement(request.name))
            case asked.Execute():
                await self._execute(
                    self._portals.portal(request.portal), request.max_rows, incoming
                )
            case asked.Close():
                await self._portals.close(portal=request.portal, name=request.name)
                self._put(answers.CLOSE_COMPLETE)
            case _:
                pass  # the rest of the data of a COPY that has failed

    async def _bind(self, request: asked.Bind) -> None:
        prepared = self._portals.statement(request.statement)
        prepared.require_count(len(request.values))
        if prepared.needs_types(request.formats):
            await self._described(prepared)
        portal = prepared.bound(request)
        portal.depth = self._session.savepoints
        await self._portals.bind(request.portal, portal)
        self._put(answers.BIND_COMPLETE)

    async def _describe(self, prepared: Prepared) -> None:
        described = await self._described(prepared)
        self._put(answers.parameter_description(described.parameters))
        prepared.fields = described.fields
        self._put_fields(described.fields, (0,) * len(described.fields or ()))

    async def _described(self, prepared: Prepared) -> Described:
        """The types of a prepared statement, as they are now."""
        self._current = prepared
        describing = self._cursors if prepared.statement.kind is Kind.CURSOR else self._execution
        described = await describing.describe(prepared.statement, prepared.given)
        prepared.types = described.parameters
        return described

    async def _describe_portal(self, portal: Portal, incoming: Incoming) -> None:
        """The columns of a portal. A query begins to run for it: with its values, all of its types
        are known."""
        if portal.prepared.statement.kind is Kind.READ and portal.outcome is None:
            following = await incoming.ahead(1)
            alone = following == _SYNC or (
                following == _EXECUTE and await incoming.ahead(2) == _SYNC
            )
            await self._run(portal, incoming, alone=alone, keep=False)
        if portal.outcome is not None:
            portal.fields = portal.outcome.fields
        elif not portal.prepared.statement.returns_no_rows:
            portal.fields = (await self._described(portal.prepared)).fields
        fields = portal.fields
        self._put_fields(fields, () if fields is None else portal.formats(len(fields)))

    async def _execute(self, portal: Portal, max_rows: int, incoming: Incoming) -> None:
        if portal.outcome is None and portal.results is None:
            # A client may wait for the answer to COPY before it sends anything else.
            copies = portal.prepared.statement.kind is Kind.COPY
            following = _FLUSH if copies else await incoming.ahead(1)
            keep = following not in {_SYNC, _FLUSH}
            await self._run(portal, incoming, alone=following == _SYNC, keep=keep)
        await self._give(portal, max(max_rows, 0))

    async def _sync(self) -> None:
        await self._unless_failed(self._end_series())
        self._skips = False
        if not self._session.in_block:
            await self._unless_failed(self._portals.clear())
        self._put_ready()
        await self._flush()

    # ------------------------------------------------------------ running

    async def _run(self, portal: Portal, incoming: Incoming, *, alone: bool, keep: bool) -> None:
        """Run the statement of a portal. `alone`: nothing else is in its series. `keep`: its
        results are not needed before others."""
        self._current, statement = portal.prepared, portal.prepared.statement
        if not statement.sql:
            portal.outcome = Outcome.without_rows("")
            return
        await self._prepare_transaction(statement, alone=alone and not self._series)
        if statement.kind is Kind.WRITE and (keep or self._kept) and self._session.in_block:
            if not self._kept:
                self._session.begin_pipeline()
            self._kept.append(portal)
            portal.results = await self._execution.begin_write(statement, portal.values)
            return
        await self._give_kept()
        self._current = portal.prepared
        portal.outcome = await self._outcome(portal, incoming)

    async def _outcome(self, portal: Portal, incoming: Incoming) -> Outcome:
        """Run the statement of a portal alone."""
        statement = portal.prepared.statement
        self._may_differ = self._may_differ or statement.kind in _SETTING
        match statement.kind:
            case Kind.COPY:
                return await self._copying.run(statement, incoming)
            case Kind.CURSOR:
                return await self._cursors.run(portal)
            case Kind.CONTROL:
                return await self._control(statement)
            case Kind.DEALLOCATE if self._forgotten(statement.sql):
                return Outcome.without_rows("DEALLOCATE")
        outcome = await self._execution.run(statement, portal.values)
        if statement.kind is Kind.DISCARD and outcome.tag == "DISCARD ALL":
            await self._portals.close_cursors()
        return outcome

    async def _control(self, statement: Statement) -> Outcome:
        """Run a statement about the transaction. Its portals end with it: before it commits, so
        that it notes what their queries have read."""
        action = control_of(statement.sql).action
        if action is Action.COMMIT and not self._session.is_aborted:
            await self._keep_cursors()
        elif action in _ENDS:
            await self._portals.clear()
        outcome = await self._execution.run(statement, ())
        match action:
            case Action.COMMIT:
                self._portals.committed()
            case Action.ROLLBACK_TO:
                await self._portals.clear(self._session.savepoints)
            case Action.RELEASE:
                self._portals.released(self._session.savepoints)
        return outcome

    async def _keep_cursors(self) -> None:
        """Prepare the portals for a commit. The transaction ends if that fails."""
        try:
            await self._portals.keep()
        except BaseException:
            self._session.rollback()
            raise

    async def _prepare_transaction(self, statement: Statement, *, alone: bool) -> None:
        """Open or end a series before a statement."""
        if statement.kind is Kind.CONTROL:
            await self._give_kept()
            action = control_of(statement.sql).action
            self._series = self._series and action not in _ENDS | {Action.BEGIN}
        elif statement.kind in _ALONE:
            await self._end_series()
        elif statement.kind in _IN_SERIES and not alone and not self._session.in_block:
            await self._session.control("BEGIN")
            self._series = True

    async def _end_series(self) -> None:
        """Commit the transaction that a series has opened."""
        await self._give_kept()
        if self._series:
            self._series = False
            await self._keep_cursors()
            await self._session.control("COMMIT")
            self._portals.committed()

    def _forgotten(self, sql: str) -> bool:
        """Forget prepared statements of the protocol that DEALLOCATE names. Returns whether that
        was all: there is none of SQL's PREPARE to forget."""
        name = deallocated(sql)
        return self._portals.forget(name) and bool(name)

    async def _give_kept(self) -> None:
        """Run the writes that are kept, and put their answers into the places of their portals."""
        if not self._kept:
            return
        self._kept = []
        await self._session.end_pipeline(failed=False)
        waiting, self._out = self._out, []
        for each in waiting:
            if isinstance(each, Portal):
                assert each.results is not None
                each.outcome = await self._execution.settled(each.results)
                each.results = None
                await self._give(each, 0)
            else:
                self._out.append(each)

    # ------------------------------------------------------------ answers

    async def _give(self, portal: Portal, max_rows: int) -> None:
        """Answer with the rows of a portal, at most `max_rows`, 0: all."""
        if portal.results is not None:
            self._out.append(portal)
            return
        outcome = portal.outcome
        assert outcome is not None
        if outcome.notice:
            self._put(answers.notice(notice_fields(outcome.notice)))
        if outcome.fields is None:
            self._put(answers.complete(outcome.tag) if outcome.tag else answers.EMPTY_QUERY)
            return
        if not portal.described:
            self._put_fields(outcome.fields, portal.formats(len(outcome.fields)))
        write = _row_writers(portal, outcome)
        count = 0
        while rows := await outcome.rows.take(max_rows - count if max_rows else 0):
            await self._put_rows(rows, write)
            count += len(rows)
            if count == max_rows:
                self._put(answers.SUSPENDED)
                return
        self._put(answers.complete(outcome.tag or f"{outcome.verb} {count}"))

    async def _put_rows(self, rows: Sequence[Row], write: Sequence[Writer]) -> None:
        for row in rows:
            values = [writer(value) for writer, value in zip(write, row, strict=True)]
            self._put(answers.data_row(values))
            await self._flush_if_many()

    def _put_fields(
        self, fields: tuple[answers.Field, ...] | None, formats: tuple[int, ...]
    ) -> None:
        self._put(answers.NO_DATA if fields is None else answers.row_description(fields, formats))

    def _put(self, answer: bytes) -> None:
        self._out.append(answer)
        self._size += len(answer)

    def _put_ready(self) -> None:
        """Say that the session is ready, and before it which settings have changed."""
        if self._may_differ:
            self._may_differ, reported = False, self._reported()
            for name, value in reported.items():
                if self._known.get(name) != value:
                    self._put(answers.parameter_status(name, value))
            self._known = reported
        self._put(answers.ready(self.status))

    async def _flush_if_many(self) -> None:
        if self._size > SENT_AT_ONCE and not self._kept:
            await self._flush()

    async def _flush(self) -> None:
        out, self._out, self._size = self._out, [], 0
        await self._send(b"".join([each for each in out if isinstance(each, bytes)]))

    # ------------------------------------------------------------ errors

    async def _unless_failed(self, work: Awaitable[None]) -> None:
        """Await `work`. An error of it becomes an answer, and what follows up to Sync is
        skipped."""
        try:
            await work
        except (Failure, Error) as error:
            await self._fail(error)
        except (ConnectionError, TimeoutError, ProtocolViolation):
            raise
        except Exception as error:
            _LOG.error("unexpected error", exc_info=error)
            await self._fail(error)

    async def _fail(self, error: Exception) -> None:
        self._skips = True
        if self._kept:
            self._kept = []
            await self._session.end_pipeline(failed=True)
        places = [place for place, each in enumerate(self._out) if isinstance(each, Portal)]
        del self._out[min(places, default=len(self._out)) :]
        self._session.abort(error)
        self._may_differ = True
        await self._portals.clear(self._session.savepoints)
        if self._series:
            self._series = False
            self._session.rollback()
        current = self._current
        statement, before = (None, 0) if current is None else (current.statement, current.before)
        self._put(answers.error(failure_of(error, statement, before).fields()))


def _row_writers(portal: Portal, outcome: Outcome) -> Sequence[Writer]:
    """The writers of the columns, in the types that the client knows. Raises Failure if
    the result has got other columns since."""
    fields = outcome.fields or ()
    described = portal.fields or portal.prepared.fields or fields
    if len(described) != len(fields):
        raise Failure(
            "0A000",
            "The result has other columns than when the statement was described.",
            "Prepare it again.",
        )
    types = tuple([each.oid for each in described])
    return writers(types, portal.formats(len(described)))
