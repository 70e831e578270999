"""Which node leads: a value of the coordination service names it.

A node that would lead appears as a member (with whatever data: if it does so already, it is left as
it is), then waits until the leader that is named is none any more, and puts its own name there by
compare-and-set. Every candidate's name is new with each session, so a leader whose session ended
does not find itself named after it.

Leading decides who tries, not who may: two nodes can both believe that they lead for a moment. That
nobody writes behind the other's back is the business of the catalog's claim and the log's fence.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import msgspec

from schema.errors import StalePlan, Unavailable
from storage.ports import Clock, Coordination

PATH = "leader"
POLL_S = 0.25


class Candidate(msgspec.Struct, frozen=True):
    """A node that leads or would. `name` is its member's; `address` is where it answers."""

    name: str
    address: str


class Election:
    """One node's way to lead, within one session with the coordination service."""

    def __init__(self, coordination: Coordination, clock: Clock, candidate: Candidate) -> None:
        self._coordination = coordination
        self._clock = clock
        self._candidate = candidate

    async def standing_by(self) -> AsyncIterator[Candidate | None]:
        """Ends when this node leads; until then gives whoever is named, each time it looks.

        A call that is refused is made again. Raises Unavailable when the session has ended.
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
        """The leader; this node has put itself there if nobody was left."""
        while True:
            known, version = await self._coordination.read(PATH), 0
            if known is not None:
                version = known.version
                leader = _decoder.decode(known.value)
                # The members are read after the name: whoever is named has joined before.
                if leader.name in await self._coordination.members():
                    return leader
            with contextlib.suppress(StalePlan):  # somebody else was faster
                encoded = msgspec.json.encode(self._candidate)
                await self._coordination.write(PATH, encoded, version)


_decoder = msgspec.json.Decoder(Candidate)
