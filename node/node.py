"""A node of a cluster: it joins the other nodes, serves until its term is over, and joins again.

    connect ─▶ join ─▶ serve ─ session or log lost ─▶ retire ─▶ connect …

A term begins and ends with a session with the coordination service. In each term the member has a
new name and a new log. The commits of an ended term are in the store and in its log: other nodes
recover that log, or this node does in its next term. Until the next term begins, reads go on at the
last snapshot of the previous term, whatever the reason for the delay is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from hornbeam_server.node.database import Database
from hornbeam_server.schema.errors import HornbeamError, Unavailable
from hornbeam_server.storage.ports import Clock

WATCH_S = 0.1
"""Seconds between two checks of whether the node may still serve."""
PAUSE_S, LONGEST_PAUSE_S = 0.25, 2.0
"""First and longest pause between two attempts to begin a term; it doubles, so that a service that
is down is not overloaded."""

_LOG = structlog.get_logger(__name__)


@dataclass
class Serving:
    """The database that answers requests."""

    database: Database | None = None
    """The database of the current term; None between terms."""
    retired: Database | None = None
    """The database of the previous term: between terms reads go on at its last snapshot."""

    def require(self) -> Database:
        """The database of the current term. Raises Unavailable while this node does not serve."""
        if self.database is None:
            raise Unavailable(
                "This node is not one of those that serve, yet or again.",
                cure="Send it to another node, or again in a moment.",
                standby=True,
            )
        return self.database

    def end_lasting(self) -> None:
        """End the answers that last until they are ended: the server waits for the others."""
        if self.database is not None:
            self.database.subscriptions.close()

    def require_readable(self) -> Database:
        """The database for reads, also between terms. Raises Unavailable when there is none."""
        if self.database is None and self.retired is not None:
            return self.retired
        return self.require()


class Node:
    """The loop of a node: it runs one term after the other until it is cancelled."""

    def __init__(
        self, serving: Serving, join: Callable[[], Awaitable[Database]], clock: Clock
    ) -> None:
        """`join` begins a session and returns a database that serves until the session ends."""
        self._serving = serving
        self._join = join
        self._clock = clock

    async def run(self) -> None:
        """Join and serve in turn. Raises Corruption, and other errors that a further term does not
        cure."""
        try:
            while True:
                await self._serve(await self._joined())
        finally:
            await self._forget()

    async def _joined(self) -> Database:
        """The database of a new term. Repeats the attempt as long as it raises Unavailable."""
        pause_s, logged = PAUSE_S, ""
        while True:
            try:
                return await self._join()
            except Unavailable as error:
                if str(error) != logged:  # one warning per reason
                    _LOG.warning("cannot serve; trying again", error=(logged := str(error)))
                await self._clock.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _serve(self, database: Database) -> None:
        self._serving.database = database
        _LOG.info("serves")
        try:
            await self._forget()
            while database.ready():
                await self._clock.sleep(WATCH_S)
            _LOG.warning("serves no more")
        finally:
            await self._end(database)

    async def _end(self, database: Database) -> None:
        """End the term. Requests under way are answered as far as possible; this node refuses new
        ones, except reads."""
        with contextlib.suppress(HornbeamError):
            await database.leave()
        self._serving.database, self._serving.retired = None, database
        with contextlib.suppress(HornbeamError):
            await database.retire()

    async def _forget(self) -> None:
        """Close the database of the previous term: reads from it end."""
        database, self._serving.retired = self._serving.retired, None
        if database is not None:
            with contextlib.suppress(HornbeamError):
                await database.close()
