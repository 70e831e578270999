"""The election of the leader: a value of the coordination service names it.

A candidate joins as a member (an existing entry keeps its data), waits until the named leader is no
longer a member, and puts its own name there by compare-and-set. Every candidate's name is new with
each session, so a leader whose session has ended does not find itself named in its next session.

Leading entitles a node to nothing: two nodes may both believe for a short time that they lead. The
catalog's claim and the log's fence prevent writes of the replaced node.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import msgspec

from hornbeam_server.schema.errors import StalePlan, Unavailable
from hornbeam_server.storage.ports import Clock, Coordination

PATH = "leader"
POLL_S = 0.25


class Candidate(msgspec.Struct, frozen=True):
    """A leader or candidate. `name` is its name as a member; `address` is its URL for clients."""

    name: str
    address: str


class Election:
    """One node's candidacy, within one session with the coordination service."""

    def __init__(self, coordination: Coordination, clock: Clock, candidate: Candidate) -> None:
        self._coordination = coordination
        self._clock = clock
        self._candidate = candidate

    async def standing_by(self) -> AsyncIterator[Candidate | None]:
        """Wait to lead. Yields the named leader, or None if unknown, at each look; ends when this
        node leads.

        Refused calls are repeated. Raises Unavailable when the session has ended.
        """
        joined = False
        while self._coordination.alive():
            leader = None
            with contextlib.suppress(Unavailable):
                if not joined:
                    await self._appear()
                    joined = True
                leader = await self._named()
                if leader == self._candidate:
                    return
            yield leader
            await self._clock.sleep(POLL_S)
        raise Unavailable("The session with the coordination service has ended.")

    async def _appear(self) -> None:
        name = self._candidate.name
        if name not in await self._coordination.members():
            await self._coordination.join(name)

    async def _named(self) -> Candidate:
        """The named leader. If that is no longer a member, this node names itself first."""
        while True:
            known, version = await self._coordination.read(PATH), 0
            if known is not None:
                version = known.version
                leader = _decoder.decode(known.value)
                # The members are read after the name: the named node has joined before.
                if leader.name in await self._coordination.members():
                    return leader
            with contextlib.suppress(StalePlan):  # another node was faster
                encoded = msgspec.json.encode(self._candidate)
                await self._coordination.write(PATH, encoded, version)


_decoder = msgspec.json.Decoder(Candidate)
