"""One node of a cluster: it stands by until it leads, serves while it does, and stands by again.

    connect ─▶ stand by ─ elected ─▶ recover ─▶ serve ─ session or log lost ─▶ close ─▶ connect …

A term begins with a new session with the coordination service and ends with it. What a term leaves
behind is in the store and the log; the next leader, this node or another, recovers from there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from api.database import Database
from schema.errors import HornbeamError, Unavailable
from storage.ports import Clock, Coordination, Ids
from txlayer.election import Candidate, Election

WATCH_S = 0.1
"""How often a node looks whether it still may serve."""
PAUSE_S, LONGEST_PAUSE_S = 0.25, 2.0
"""Between terms that could not begin, so that a service that is down is not stormed."""

_LOG = structlog.get_logger(__name__)


@dataclass
class Serving:
    """What requests are answered from. While `database` is None they are sent elsewhere."""

    database: Database | None = None
    leader: str = ""
    """Address of whoever serves meanwhile, as far as is known."""

    def require(self) -> Database:
        """Raises Unavailable while this node stands by."""
        if self.database is None:
            raise Unavailable(
                "This node stands by" + (f"; {self.leader} serves." if self.leader else "."),
                cure="Send it to the node that serves, or again in a moment.",
                standby=True,
                leader=self.leader,
            )
        return self.database


class Node:
    """Runs terms, one after the other, until it is cancelled."""

    def __init__(
        self,
        serving: Serving,
        connect: Callable[[], Awaitable[Coordination]],
        start: Callable[[Coordination], Awaitable[Database]],
        clock: Clock,
        ids: Ids,
        address: str,
    ) -> None:
        """`start` recovers a database that owns the session it is given, and closes it."""
        self._serving = serving
        self._connect = connect
        self._start = start
        self._clock = clock
        self._ids = ids
        self._address = address

    async def run(self) -> None:
        """Stand by and serve in turn. Raises Corruption, and what else no further term cures."""
        pause_s, told = PAUSE_S, ""
        while True:
            try:
                database = await self._elected()
            except Unavailable as error:
                if str(error) != told:  # once, however long it lasts
                    _LOG.warning("cannot serve; trying again", error=(told := str(error)))
                await self._clock.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            else:
                pause_s, told = PAUSE_S, ""
                await self._serve(database)

    async def _elected(self) -> Database:
        """Stand by, then recover."""
        coordination = await self._connect()
        candidate = Candidate(self._ids.new(), self._address)
        election = Election(coordination, self._clock, candidate)
        try:
            await self._won(election)
        except BaseException:
            with contextlib.suppress(Unavailable):
                await coordination.close()
            raise
        return await self._start(coordination)

    async def _won(self, election: Election) -> None:
        async for leader in election.standing_by():
            self._serving.leader = leader.address if leader is not None else ""

    async def _serve(self, database: Database) -> None:
        self._serving.database, self._serving.leader = database, self._address
        _LOG.info("serves", address=self._address)
        try:
            while database.ready():
                await self._clock.sleep(WATCH_S)
            _LOG.warning("serves no more", address=self._address)
        finally:
            self._serving.database, self._serving.leader = None, ""
            with contextlib.suppress(HornbeamError):
                await database.close()
