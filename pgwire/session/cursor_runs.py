"""Statements about cursors of one session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hornbeam_server.pgwire.session.cursors import (
    Close,
    Declare,
    Fetch,
    Paused,
    cursor_statement,
    part_of,
    passed,
)
from hornbeam_server.pgwire.session.execution import Described, Execution, Outcome
from hornbeam_server.pgwire.session.failures import Failure
from hornbeam_server.pgwire.session.placeholders import Statement
from hornbeam_server.pgwire.session.portals import Portal, Portals, Prepared


class Cursors:
    """Runs DECLARE, FETCH, MOVE and CLOSE."""

    def __init__(self, execution: Execution, portals: Portals) -> None:
        self._execution = execution
        self._session = execution.session
        self._portals = portals

    async def run(self, portal: Portal) -> Outcome:
        """Run the statement of a portal. Raises Failure, and hornbeam's errors."""
        with self._session.statement():
            match cursor_statement(portal.prepared.statement):
                case Declare() as declare:
                    await self._declare(declare, portal.values)
                    return Outcome.without_rows("DECLARE CURSOR")
                case Fetch() as fetch:
                    return await self._fetch(fetch, portal)
                case Close(name):
                    return await self._close(name)

    async def describe(self, statement: Statement, oids: Sequence[int]) -> Described:
        """The parameters of DECLARE, and the columns of FETCH. Raises Failure, and hornbeam's
        errors."""
        match cursor_statement(statement):
            case Declare(query=query):
                found = await self._execution.describe(query, oids)
                return Described(found.parameters, None)
            case Fetch(name=name, moves=False):
                outcome = self._portals.cursor(name).outcome
                return Described((), None if outcome is None else outcome.fields)
            case _:
                return Described((), None)

    async def _declare(self, declare: Declare, values: Sequence[object]) -> None:
        in_block = self._session.in_block
        if not (declare.hold or in_block):
            raise Failure(
                "25P01",
                "DECLARE CURSOR can only be used in transaction blocks.",
                "BEGIN before, or declare the cursor WITH HOLD.",
            )
        found = Portal(Prepared(declare.query), values, (), depth=self._session.savepoints)
        await self._portals.bind(declare.name, found)
        outcome = await self._execution.run(declare.query, values)
        rows = Paused(outcome.rows, hold=declare.hold, binary=declare.binary)
        found.outcome = replace(outcome, rows=rows)
        found.fields = outcome.fields
        if not in_block:
            await rows.keep(self._portals.room)
            rows.held = True

    async def _fetch(self, fetch: Fetch, portal: Portal) -> Outcome:
        declared = self._portals.cursor(fetch.name)
        cursor, outcome = declared.cursor, declared.outcome
        assert cursor is not None
        assert outcome is not None
        part = await part_of(cursor, fetch)
        if fetch.moves:
            return Outcome.without_rows(f"MOVE {await passed(part)}")
        if cursor.binary and not portal.described:
            portal.result_formats = (1,)
        return Outcome(outcome.fields, part, "", verb="FETCH")

    async def _close(self, name: str) -> Outcome:
        if not name:
            await self._portals.close_cursors()
            return Outcome.without_rows("CLOSE CURSOR ALL")
        self._portals.cursor(name)
        await self._portals.close(portal=True, name=name)
        return Outcome.without_rows("CLOSE CURSOR")
