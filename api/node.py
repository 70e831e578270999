"""One node of a cluster: it joins the others, serves until its term is over, and joins again.

    connect ─▶ join ─▶ serve ─ session or log lost ─▶ retire ─▶ connect …

A term begins with a new session with the coordination service and ends with it; its member's name
is new, and so is its log. What a term leaves behind is in the store and the log: the other nodes
recover it, or this one in its next term. Until that begins, whatever keeps it from beginning, reads
go on at the last snapshot of the term before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from hornbeam_server.api.database import Database
from hornbeam_server.schema.errors import HornbeamError, Unavailable
from hornbeam_server.storage.ports import Clock

WATCH_S = 0.1
"""How often a node looks whether it still may serve."""
PAUSE_S, LONGEST_PAUSE_S = 0.25, 2.0
"""Between terms that could not begin, so that a service that is down is not stormed."""

_LOG = structlog.get_logger(__name__)


@dataclass
class Serving:
    """What requests are answered from."""

    database: Database | None = None
    """Of the term that runs; None between terms."""
    retired: Database | None = None
    """Of the term before, between terms: reads go on at its last snapshot."""

    def require(self) -> Database:
        """Raises Unavailable while this node does not serve."""
        if self.database is None:
            raise Unavailable(
                "This node is not one of those that serve, yet or again.",
                cure="Send it to another node, or again in a moment.",
                standby=True,
            )
        return self.database

    def require_readable(self) -> Database:
        """Raises Unavailable while this node has never served."""
        if self.database is None and self.retired is not None:
            return self.retired
        return self.require()


class Node:
    """Runs terms, one after the other, until it is cancelled."""

    def __init__(
        self, serving: Serving, join: Callable[[], Awaitable[Database]], clock: Clock
    ) -> None:
        """`join` begins a session, and gives a database that ends with it."""
        self._serving = serving
        self._join = join
        self._clock = clock

    async def run(self) -> None:
        """Join and serve in turn. Raises Corruption, and what else no further term cures."""
        try:
            while True:
                await self._serve(await self._joined())
        finally:
            await self._forget()

    async def _joined(self) -> Database:
        """A new term's database, however many tries that takes."""
        pause_s, told = PAUSE_S, ""
        while True:
            try:
                return await self._join()
            except Unavailable as error:
                if str(error) != told:  # once, however long it lasts
                    _LOG.warning("cannot serve; trying again", error=(told := str(error)))
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
        """Requests that are under way are answered as far as they can be; new ones go elsewhere,
        but for reads."""
        with contextlib.suppress(HornbeamError):
            await database.leave()
        self._serving.database, self._serving.retired = None, database
        with contextlib.suppress(HornbeamError):
            await database.retire()

    async def _forget(self) -> None:
        """Nothing is read from the term before any more."""
        database, self._serving.retired = self._serving.retired, None
        if database is not None:
            with contextlib.suppress(HornbeamError):
                await database.close()
