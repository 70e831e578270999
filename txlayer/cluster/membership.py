"""A member's part in the assignment: it observes versions, carries them out, and acknowledges them.

To acknowledge a version is to report that all its demands are met (decision 21, table of steps):

- a member has died: all transactions that this member had handed to its log by then are applied,
  and all later ones check their grantors again;
- a slot leaves this member: no lock of the slot is held, and none is granted;
- the gate is closed: no transaction is inside, and all are applied;
- a member is new: its watermark is counted.

A node that observes its own removal stops: the other nodes have declared it dead.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec
import structlog

from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.storage.ports import Clock, Coordination
from hornbeam_server.txlayer.cluster.assignment import PATH, Assignment, Word, clock_skews
from hornbeam_server.txlayer.cluster.change_poller import Lookout
from hornbeam_server.txlayer.cluster.links import Links
from hornbeam_server.txlayer.cluster.membership_view import View
from hornbeam_server.txlayer.cluster.remote_locks import Guests
from hornbeam_server.txlayer.cluster.slot_rates import SlotRates
from hornbeam_server.txlayer.cluster.snapshots import MembersSnapshots
from hornbeam_server.txlayer.commit.committer import Committer
from hornbeam_server.txlayer.commit.hlc import HybridClock
from hornbeam_server.txlayer.commit.read_holds import Readers
from hornbeam_server.txlayer.transactions.manager import TransactionManager

POLL_S = 0.05
"""Interval at which a member looks for a new version, and for what it can acknowledge."""
WORD_S = 1.0
"""Interval of a member's reports (`Word`) when it has nothing new to acknowledge."""

_LOG = structlog.get_logger(__name__)


class Membership:
    """The membership of one node, within one session with the coordination service."""

    def __init__(
        self,
        *,
        coordination: Coordination,
        clock: Clock,
        view: View,
        word: Word,
        hlc: HybridClock,
        committer: Committer,
        manager: TransactionManager,
        guests: Guests,
        links: Links,
        snapshots: MembersSnapshots,
        readers: Readers,
        rates: SlotRates,
        load: Callable[[int], Awaitable[Catalog]],
        max_skew_s: float,
    ) -> None:
        """`word` has the addresses of this node; `load` reads a version of the catalog;
        `max_skew_s` is the maximum difference between the clocks of nodes, in seconds."""
        self._coordination = coordination
        self._clock = clock
        self._lookout = Lookout(coordination, clock)
        self._view = view
        self._word = word
        self._hlc = hlc
        self._committer = committer
        self._manager = manager
        self.guests = guests
        self._links = links
        self._snapshots = snapshots
        self._load = load
        self._max_skew_s = max_skew_s
        self._readers = readers
        self._rates = rates
        self._to_apply = 0
        self._say_again_at = 0.0
        self._leaves = False
        self._taken_for_dead = False

    async def join(self) -> None:
        """Ask to be a member. Raises Unavailable, also when this node's clock is wrong."""
        self._manager.gate.close()
        await self._require_clock()
        await self._coordination.join(self._view.name, self._word.encode())

    async def _require_clock(self) -> None:
        """Raises Unavailable when this node's clock differs too much from the clocks of all
        members. A difference from only some of them is logged.

        A clock that is far ahead would raise all timestamps for good: they never go back, and
        retention is measured by them. With a clock that is far behind, this node would refuse the
        bookmarks of all other nodes.
        """
        known = await self._coordination.read(PATH)
        shown = await self._coordination.members()
        if known is None:
            return
        words = {name: word for name, data in shown.items() if (word := Word.decode(data))}
        now, wall_ms = Assignment.decode(known.value), self._clock.wall_ms()
        skews = clock_skews(now, words, self._word.address, wall_ms)
        far = {who: ms / 1000 for who, ms in skews.items() if abs(ms) > 1000 * self._max_skew_s}
        if far and len(far) == len(skews):
            skewed = ", ".join(f"{_ahead(seconds)} that of {who}" for who, seconds in far.items())
            raise Unavailable(
                f"This node's clock is wrong, or all others are: it is {skewed}.",
                cure="Synchronise the clocks; the node then joins by itself. max_clock_skew_s says"
                " what is borne.",
            )
        for who, seconds in far.items():
            _LOG.warning("another node's clock is wrong", address=who, behind_s=seconds)

    async def run(self) -> None:
        """Take part until this node is no longer a member. Raises Unavailable then."""
        while self._coordination.alive() and not self._taken_for_dead:
            with suppress(Unavailable):  # a service does not answer; repeated at the next look
                await self._look()
            await self._clock.sleep(POLL_S)
        why = "others have taken this node for dead" if self._taken_for_dead else "it has ended"
        raise Unavailable(f"The session with the coordination service is over: {why}.")

    async def _look(self) -> None:
        await self._lookout.look(self._read)
        await self._follow_catalog()
        await self._say()

    async def _read(self) -> bool:
        known = await self._coordination.read(PATH)
        if known is not None and known.version > self._view.version:
            self._see(known.version, Assignment.decode(known.value))
        return known is not None

    def _see(self, version: int, assignment: Assignment) -> None:
        """Apply a new version in one step: its clock is merged before any use of the version."""
        view, before = self._view, self._view.members
        self._hlc.follow(assignment.clock)
        if assignment.slots != view.assignment.slots:
            self._rates.restart()
        view.see(version, assignment)
        self._taken_for_dead = view.name in before and view.name not in view.members
        if before - view.members:
            self._to_apply = self._committer.begun
        if assignment.gate_closed:
            self._manager.gate.close()
        self.guests.see()
        self._links.forget_strangers()
        self._snapshots.see()

    async def _follow_catalog(self) -> None:
        """Use the catalog in force, then admit transactions. The leader, which changed the catalog,
        may use a later version than the assignment names."""
        view, assignment = self._view, self._view.assignment
        if not view.version:
            return
        if self._manager.state.catalog.version < assignment.catalog:
            before = self._manager.state.catalog.row_counts
            self._manager.use(await self._load(assignment.catalog))
            if self._manager.state.catalog.row_counts != before:
                self._manager.growth.count()  # the counts lack at most the last second
        if view.may_commit and not assignment.gate_closed:
            self._manager.gate.open()

    async def _say(self) -> None:
        """Acknowledge the newest version when its demands are met. Without news, repeat the report
        of what queries read and of the rates of slots every `WORD_S`."""
        view, now = self._view, self._clock.monotonic()
        version = view.version if self._is_done() else self._word.version
        if version == self._word.version and now < self._say_again_at:
            return
        newest = self._manager.state.catalog.version
        word = msgspec.structs.replace(
            self._word,
            version=version,
            clock=self._hlc.last,
            reading=self._readers.oldest_version(newest),
            holding=self._readers.oldest_snapshot(),
            newest=self._snapshots.newest(),
            leaves=self._leaves,
            rates=self._rates.newest(),
            wall_ms=self._clock.wall_ms(),
            replays_above=self._committer.replays_above,
            growth=dict(self._manager.growth.own),
        )
        await self._coordination.join(view.name, word.encode())
        self._word = word  # not set after an error: the next look sends the report again
        self._say_again_at = now + WORD_S

    def _is_done(self) -> bool:
        """Are all demands of the newest version on this member met?"""
        view, assignment = self._view, self._view.assignment
        if view.name not in view.members or self._committer.finished < self._to_apply:
            return False
        if assignment.gate_closed and (self._manager.gate.inside or not self._committer.idle):
            return False
        leaving = {slot for slot in assignment.leaving if view.owner(slot) == view.name}
        return not leaving or not self.guests.holds(leaving)

    def leave(self) -> None:
        """Report at the next look that this node is stopping."""
        self._leaves, self._say_again_at = True, 0.0

    @property
    def owns_nothing(self) -> bool:
        return self._view.name not in self._view.assignment.slots


def _ahead(seconds: float) -> str:
    return f"{abs(seconds):.1f} s {'ahead of' if seconds > 0 else 'behind'}"
