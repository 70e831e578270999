"""The master writes the assignment, has the logs of dead members recovered, and closes the gate for
schema changes.

`txlayer.cluster.assignment` decides which version follows; this module writes it. Two nodes may
both assume that they are the master. Each writes by compare-and-set on its own last write, so only
the writes of one of them succeed, and the other finds out at its next look. Facts that a master has
not written are lost with it. Its successor recovers all dead members again, which does no harm, and
opens a closed gate: the schema change behind it was in the process of the previous master.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress

import structlog
from msgspec.structs import replace

from hornbeam_server.schema.errors import StalePlan, Unavailable
from hornbeam_server.storage.ports import Clock, Coordination, Versioned
from hornbeam_server.txlayer.cluster.assignment import (
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
from hornbeam_server.txlayer.cluster.change_poller import Lookout

POLL_S = 0.05
FOLLOW_S = 2.0
"""Maximum seconds that an answered schema change waits for members to use its catalog. Correctness
needs no wait: it lets a client find its change at every node."""
RETRY_S = 0.5
"""Pause between two attempts to recover one log."""

Recover = Callable[[Member, int], Awaitable[int]]
"""Fences the log of a dead member under an epoch, and replays it. The epoch is higher than in all
earlier attempts of any master. Returns the highest timestamp in the log, reservations included.
Raises Unavailable when the attempt is to be repeated."""

_LOG = structlog.get_logger(__name__)


class Superseded(Unavailable):
    """Another node is the master now."""


class Master:
    """The work of a node as the master, within one session with the coordination service.

    `catalog` is the catalog version in force. A schema change sets it behind the closed gate.
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
        """`before` are the nodes that served the database before the first assignment."""
        self._coordination = coordination
        self._clock = clock
        self._lookout = Lookout(coordination, clock)
        self._name = name
        self._recover = recover
        self.catalog = catalog
        self._idle_rate = idle_rate
        self.assignment = Assignment.founded(name, catalog, before)
        """The newest version that this master has written or read."""
        self.words: Mapping[str, Word] = {}
        """The newest known word of each node with a session, by name."""
        self._version = 0
        self._least_clock = 0
        self._recovering: dict[str, asyncio.Task[int | None]] = {}
        self._recovered: dict[str, int] = {}
        self._epochs: dict[str, int] = {}
        """The epoch of the last attempt to recover each dead member, by name."""
        self._one_change = asyncio.Lock()
        self._close = False
        self._held = False
        self._begun = self._ended = False

    async def run(self) -> None:
        """Take over, then write versions until an error ends it.

        Raises Superseded, Unavailable when the session has ended, and other errors of `recover`.
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
        """Keep all transactions out, at every member, while the context lasts. All committed ones
        are applied then. Gives a clock at or above all of them. At the end the gate is opened with
        `catalog`, and every member that reports within `FOLLOW_S` uses it.

        Raises Unavailable when this node is no longer the master. If it raises at the end, only the
        successor knows whether the gate was opened with `catalog`.
        """
        async with self._one_change:
            await self._until(self._is_open)  # an earlier change may not have waited for this
            self._close = True
            try:
                await self._until(lambda: self._held)
                yield highest_clock(self.assignment, self._known())
            finally:
                self._close = False
            await self._until(self._is_open)
            opened, give_up = self._version, self._clock.monotonic() + FOLLOW_S
            with suppress(Unavailable):  # the change is in force also without this master
                await self._until(
                    lambda: self._follow(opened) or self._clock.monotonic() >= give_up
                )

    async def wait_until_all_past(self, version: int) -> None:
        """Return when no query of any member reads a catalog older than `version`. Raises
        Unavailable as `gate_closed` does."""
        await self._until(lambda: self._all_read(version))

    def raise_clock(self, ts: int) -> None:
        """Write `ts` or a higher clock into later versions of the assignment, so that every member
        that observes one ticks above `ts`. After a call before `run`, the version of the take-over
        has it too."""
        self._least_clock = max(self._least_clock, ts)

    def _is_open(self) -> bool:
        return not self.assignment.gate_closed

    def _follow(self, version: int) -> bool:
        """Have all members acknowledged this version of the assignment? They use its catalog
        then."""
        words = [self.words.get(member.name) for member in self.assignment.members]
        return all(word is not None and word.version >= version for word in words)

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
        """Become the master, also while the previous one still writes. Raises Unavailable when the
        session has ended."""
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
        """Read the words of all nodes, and write the version that follows from them."""
        self._require_session()
        try:
            await self._lookout.look(self._read)
        except Superseded:
            raise
        except Unavailable:
            return
        # Checked before the next write: members would have to acknowledge that version first.
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
        """Write a version. A write that was sent once is repeated until its outcome is known.
        Raises Superseded, Unavailable when the session has ended."""
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
        _log_changes(self.assignment, following)
        self.assignment, self._version = following, version
        self._held = self._held and following.gate_closed

    async def _written(self, value: bytes) -> int:
        try:
            return await self._coordination.write(PATH, value, self._version)
        except StalePlan:
            known = await self._coordination.read(PATH)
            if known != Versioned(value, self._version + 1):  # else: our earlier attempt
                raise Superseded("Another node is the master now.") from None
            return known.version

    def _require_session(self) -> None:
        if not self._coordination.alive():
            raise Unavailable("The session with the coordination service has ended.")

    # ------------------------------------------------------------ the dead

    def _see_to_the_dead(self) -> bool:
        """Collect finished recoveries and start missing ones. True if a recovery needs a new
        version of the assignment, for the number alone: the number is its epoch."""
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


def _log_changes(before: Assignment, after: Assignment) -> None:
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
