"""The master: writes the assignment, sees to it that the logs of the dead are recovered, and closes
the gate for changes of the schema.

Which version follows is said in `txlayer.assignment`; here it is written. Two nodes may both take
themselves for the master: each writes by compare-and-set on what it has written last, so that only
one's writes land, and the other finds out when it looks. What a master knows and has not written
dies with it. Its successor recovers all the dead anew, which does no harm, and opens a gate that is
closed: whoever had asked for that was in the process of the master before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import structlog
from msgspec.structs import replace

from hornbeam_server.schema.errors import StalePlan, Unavailable
from hornbeam_server.storage.ports import Clock, Coordination, Versioned
from hornbeam_server.txlayer.assignment import (
    IDLE_RATE,
    PATH,
    Assignment,
    Known,
    Member,
    Word,
    highest_clock,
    is_shut,
    next_version,
)
from hornbeam_server.txlayer.lookout import Lookout

POLL_S = 0.05
RETRY_S = 0.5
"""Between two tries to recover one log."""

Recover = Callable[[Member, int], Awaitable[int]]
"""Fences the log of a dead member under an epoch, which is higher than at each try before, of this
master or another; replays it; gives the highest timestamp in it, reservations included. Raises
Unavailable when it is to be tried again."""

_LOG = structlog.get_logger(__name__)


class Superseded(Unavailable):
    """Another node is the master now."""


class Master:
    """What a node does as the master, within one session with the coordination service.

    `catalog` is the version in force; who changes it, behind the closed gate, says so here.
    """

    def __init__(
        self,
        coordination: Coordination,
        clock: Clock,
        name: str,
        recover: Recover,
        catalog: int,
        idle_rate: int = IDLE_RATE,
        before: tuple[Member, ...] = (),
    ) -> None:
        """`before` are those who served the database before there was any assignment."""
        self._coordination = coordination
        self._clock = clock
        self._lookout = Lookout(coordination, clock)
        self._name = name
        self._recover = recover
        self.catalog = catalog
        self._idle_rate = idle_rate
        self.assignment = Assignment.founded(name, catalog, before)
        """The newest; all members see it sooner or later."""
        self.words: Mapping[str, Word] = {}
        """The newest known, of everybody who has a session."""
        self._version = 0
        self._least_clock = 0
        self._recovering: dict[str, asyncio.Task[int | None]] = {}
        self._recovered: dict[str, int] = {}
        self._epochs: dict[str, int] = {}
        """Of each of the dead: that of the last try to recover it."""
        self._one_change = asyncio.Lock()
        self._close = False
        self._held = False
        self._begun = self._ended = False

    async def run(self) -> None:
        """Take over, then go on for ever.

        Raises Superseded; Unavailable when the session has ended; what `recover` raises else.
        """
        try:
            await self._take_over()
            self._begun = True
            while True:
                await self._look()
                await self._clock.sleep(POLL_S)
        finally:
            self._ended = True
            for task in self._recovering.values():
                task.cancel()
            await asyncio.gather(*self._recovering.values(), return_exceptions=True)

    @asynccontextmanager
    async def gate_closed(self) -> AsyncIterator[int]:
        """No transaction is inside, at any member, and all that were committed are applied. Gives
        a clock above all of them. In the end the gate is opened with `catalog`.

        Raises Unavailable when this is the master no more: at the end, too, when nobody but the
        successor knows whether it was opened with that.
        """
        async with self._one_change:
            await self._until(self._is_open)  # whoever was here before may not have waited for it
            self._close = True
            try:
                await self._until(lambda: self._held)
                yield highest_clock(self.assignment, self._known())
            finally:
                self._close = False
            await self._until(self._is_open)

    async def everybody_reads(self, version: int) -> None:
        """Return when no query of any member reads a catalog older than `version`. Raises
        Unavailable as `gate_closed` does."""
        await self._until(lambda: self._all_read(version))

    def raise_clock(self, ts: int) -> None:
        """See to it that whoever sees a later version of the assignment ticks above `ts`; before
        `run`: that of the take-over, too."""
        self._least_clock = max(self._least_clock, ts)

    def _is_open(self) -> bool:
        return not self.assignment.gate_closed

    def _all_read(self, version: int) -> bool:
        words = [self.words.get(member.name) for member in self.assignment.members]
        return all(word is not None and word.reading >= version for word in words)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while True:
            if self._ended:
                raise Unavailable("This node is not the master any more.", cure="Try again.")
            if self._begun and condition():
                return
            await self._clock.sleep(POLL_S)

    # ------------------------------------------------------------ one version after another

    async def _take_over(self) -> None:
        """From whoever it was, also if that one goes on writing for a while."""
        while True:
            self._require_session()
            try:
                known = await self._coordination.read(PATH)
                if known is not None:
                    self.assignment = Assignment.decode(known.value)
                    self._version = known.version
                await self._write(
                    replace(
                        self.assignment,
                        master=self._name,
                        clock=highest_clock(self.assignment, self._known()),
                        gate_closed=False,
                        catalog=self.catalog,
                    )
                )
            except Unavailable:
                await self._clock.sleep(POLL_S)
            else:
                return

    async def _look(self) -> None:
        """At everybody's words; write what follows from them."""
        self._require_session()
        try:
            await self._lookout.look(self._read)
        except Superseded:
            raise
        except Unavailable:
            return
        # Before anything else is written: that would have to be acknowledged first.
        if self._close and is_shut(self.assignment, self._known()):
            self._held = True
        lacks_epoch = self._see_to_the_dead()
        following = next_version(self.assignment, self._known())
        if lacks_epoch or following != self.assignment:
            await self._write(following)

    async def _read(self) -> bool:
        newest = await self._coordination.read(PATH)
        shown = await self._coordination.members()
        if newest is None or newest.version != self._version:
            raise Superseded("Another node is the master now.")
        words = {name: Word.decode(data) for name, data in shown.items()}
        self.words = {name: word for name, word in words.items() if word is not None}
        return True

    def _known(self) -> Known:
        return Known(
            version=self._version,
            words=self.words,
            recovered=self._recovered,
            catalog=self.catalog,
            clock=self._least_clock,
            close=self._close,
            held=self._held,
            idle_rate=self._idle_rate,
        )

    async def _write(self, following: Assignment) -> None:
        """What was sent once is sent until it is known to be written, or never to be."""
        value = following.encode()
        while True:
            self._require_session()
            try:
                version = await self._written(value)
            except Superseded:
                raise
            except Unavailable:
                await self._clock.sleep(POLL_S)
            else:
                break
        _tell(self.assignment, following)
        self.assignment, self._version = following, version
        self._held = self._held and following.gate_closed

    async def _written(self, value: bytes) -> int:
        try:
            return await self._coordination.write(PATH, value, self._version)
        except StalePlan:
            known = await self._coordination.read(PATH)
            if known != Versioned(value, self._version + 1):  # else it was an earlier try
                raise Superseded("Another node is the master now.") from None
            return known.version

    def _require_session(self) -> None:
        if not self._coordination.alive():
            raise Unavailable("The session with the coordination service has ended.")

    # ------------------------------------------------------------ the dead

    def _see_to_the_dead(self) -> bool:
        """Is a version wanted that says nothing new, for its number alone?"""
        lacks_epoch = False
        for member in self.assignment.dead:
            self._take_result(member.name)
            if member.name in self._recovered or member.name in self._recovering:
                continue
            if self._epochs.get(member.name, 0) == self._version:
                lacks_epoch = True
            else:
                self._epochs[member.name] = self._version
                self._recovering[member.name] = asyncio.create_task(
                    self._try_to_recover(member, self._version)
                )
        return lacks_epoch

    def _take_result(self, name: str) -> None:
        if name in self._recovering and self._recovering[name].done():
            ts = self._recovering.pop(name).result()
            if ts is not None:
                self._recovered[name] = ts

    async def _try_to_recover(self, member: Member, epoch: int) -> int | None:
        try:
            return await self._recover(member, epoch)
        except Unavailable as error:
            _LOG.warning("a log is not recovered yet", member=member.name, error=str(error))
            await self._clock.sleep(RETRY_S)
            return None


def _tell(before: Assignment, after: Assignment) -> None:
    for member in after.dead:
        if member not in before.dead:
            _LOG.warning("a member has gone", member=member.name, address=member.address)
    for member in before.dead:
        if member not in after.dead:
            _LOG.info("a member is recovered", member=member.name)
    for member in after.members:
        if not before.is_member(member.name):
            _LOG.info("a member has joined", member=member.name, address=member.address)
    if after.leaving and not before.leaving:
        _LOG.info("slots move", slots=len(after.leaving))
