"""One node among others: its parts, what it answers them, and what it does when it leads.

Every node is a member: it runs transactions in its own log and grants locks of its slots. One of
them leads: it is the master, who writes the assignment and recovers the logs of the dead, and it
alone changes the catalog. Which one, the election says (txlayer/election.py).
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Set
from contextlib import asynccontextmanager, suppress
from typing import Any

import structlog

from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.storage.ports import Caller, Clock, Coordination, TableStore
from hornbeam_server.txlayer import assignment
from hornbeam_server.txlayer.assignment import Word
from hornbeam_server.txlayer.catalog_keeper import CatalogKeeper, Claim
from hornbeam_server.txlayer.committer import Committer
from hornbeam_server.txlayer.election import Candidate, Election
from hornbeam_server.txlayer.hlc import HybridClock
from hornbeam_server.txlayer.links import Links
from hornbeam_server.txlayer.lockservice import Guests
from hornbeam_server.txlayer.manager import TransactionManager
from hornbeam_server.txlayer.master import Master
from hornbeam_server.txlayer.membership import POLL_S, WORD_S, Membership
from hornbeam_server.txlayer.messages import (
    Lock,
    Owned,
    Reach,
    Refused,
    Release,
    Response,
    Seal,
    Sealed,
    Unfinished,
    decode_request,
    encode,
)
from hornbeam_server.txlayer.rates import SlotRates
from hornbeam_server.txlayer.readers import Readers
from hornbeam_server.txlayer.snapshots import MembersSnapshots
from hornbeam_server.txlayer.view import View

HOT_SLOTS = 5
"""So many are told of."""
ASK_S = 1.0
"""The coordination service is waited for so long by who only wants to tell something."""
LEAVE_S = 5.0
"""A node that is stopped waits so long for others to take over its slots."""

_LOG = structlog.get_logger(__name__)


class Answering:
    """What a member answers to the others."""

    def __init__(
        self,
        view: View,
        guests: Guests,
        snapshots: MembersSnapshots,
        manager: TransactionManager,
        hlc: HybridClock,
        committer: Committer,
    ) -> None:
        self._committer = committer
        self._view = view
        self._guests = guests
        self._snapshots = snapshots
        self._manager = manager
        self._hlc = hlc

    async def answer(self, caller: Caller, message: bytes) -> bytes:
        """Locks are queued for, and freed, before this suspends: in the order of the messages."""
        return encode(await self._answer(caller.name, message))

    async def _answer(self, caller: str, message: bytes) -> Response:
        request = decode_request(message)
        match request:
            case Lock():
                return await self._guests.lock(caller, request)
            case Release():
                return self._guests.release(caller, request)
            case Reach() if caller not in self._view.members:
                # It may have been replaced, and reads by an older catalog then.
                return Refused("The node is no member.", "not a member")
            case Reach():
                self._hlc.follow(request.least)
                return await self._snapshots.reach(request.least)
            case Unfinished():
                return Owned(self._manager.unfinished.get(request.transaction_id))
            case Seal():
                upto = await self._committer.seal()
                return Sealed(self._view.name, upto.epoch, upto.sequence)


class MembersBarrier:
    """The leader's way to change the catalog under all members (`catalog_keeper.Barrier`)."""

    def __init__(
        self,
        master: Master,
        hlc: HybridClock,
        readers: Readers,
        committer: Committer,
        snapshots: MembersSnapshots,
    ) -> None:
        self._master = master
        self._hlc = hlc
        self._readers = readers
        self._committer = committer
        self._snapshots = snapshots

    @asynccontextmanager
    async def closed(self) -> AsyncIterator[None]:
        async with self._master.gate_closed() as clock:
            self._hlc.follow(clock)
            yield

    def announce(self, version: int) -> None:
        self._master.catalog = version
        self._master.raise_clock(self._hlc.last)

    async def past(self, version: int) -> None:
        await self._readers.wait_until_past(version)
        await self._master.everybody_reads(version)

    async def moment(self) -> int:
        at = await self._committer.reserve()
        await self._snapshots.read_point(at)
        return at


class Member:
    """The life of one member: from `start` until `close`, or until its session is over."""

    def __init__(
        self,
        *,
        coordination: Coordination,
        store: TableStore,
        clock: Clock,
        view: View,
        membership: Membership,
        links: Links,
        manager: TransactionManager,
        keeper: CatalogKeeper,
        committer: Committer,
        snapshots: MembersSnapshots,
        hlc: HybridClock,
        rates: SlotRates,
        recover: Callable[[assignment.Member, int], Awaitable[int]],
        address: str,
        idle_rate: int,
        before: tuple[assignment.Member, ...],
    ) -> None:
        """`recover` replays the log of a dead member under an epoch; the highest timestamp in it.
        `address` is where clients reach this node; `idle_rate` is what a slot weighs by itself,
        when this node leads (txlayer/balance.py). `before` are those who served the database
        before it had several nodes: the first that leads recovers their logs."""
        self._coordination = coordination
        self._store = store
        self._clock = clock
        self._view = view
        self._membership = membership
        self._links = links
        self._manager = manager
        self._keeper = keeper
        self._committer = committer
        self._snapshots = snapshots
        self._hlc = hlc
        self.rates = rates
        self._recover = recover
        self._address = address
        self._idle_rate = idle_rate
        self._before = before
        self._tasks: list[asyncio.Task[None]] = []
        self._master: Master | None = None

    async def start(self) -> None:
        """Return when this node may commit. Raises Unavailable, Corruption."""
        await self._membership.join()
        self._tasks = [
            asyncio.ensure_future(self._membership.run()),
            asyncio.ensure_future(self._lead()),
        ]
        while not self._manager.gate.is_open:
            await self._clock.sleep(POLL_S)
            self._require_running()
            self._committer.require_working()

    @property
    def serves(self) -> bool:
        """May this node commit, and will it go on?"""
        return self._view.may_commit and not any(task.done() for task in self._tasks)

    def require_serving(self) -> None:
        """Raises Unavailable when this node may not commit, or will not for long."""
        if not self.serves:
            raise Unavailable(
                "This node is none of those that serve any more.",
                cure="Send it to another node, or again in a moment.",
                standby=True,
            )

    async def words(self) -> Mapping[str, Word]:
        """What members say of themselves; nothing while nobody tells."""
        try:
            async with asyncio.timeout(ASK_S):
                shown = await self._coordination.members()
        except (Unavailable, TimeoutError):
            return {}
        words = {name: Word.decode(data) for name, data in shown.items()}
        return {name: word for name, word in words.items() if word is not None}

    def status(self, words: Mapping[str, Word] | None = None) -> Mapping[str, Any]:
        """The assignment as this node has seen it, and what members say, for operators."""
        words = words or {}
        view, assignment = self._view, self._view.assignment
        return {
            "name": view.name,
            "leads": self._keeper.leads,
            "assignment": view.version,
            "members": [
                {
                    "name": member.name,
                    "address": member.address,
                    "commits": member.commits,
                    "slots": assignment.slots.count(member.name),
                    "locks_per_minute": _total(words.get(member.name)),
                }
                for member in assignment.members
            ],
            "hot_slots": [
                {"slot": slot, "owner": name, "locks_per_minute": rate}
                for rate, slot, name in _hottest(words, HOT_SLOTS)
            ],
            "dead": [member.address for member in assignment.dead],
            "moving_slots": len(assignment.leaving),
            "gate_closed": assignment.gate_closed,
        }

    @property
    def strangers(self) -> Set[str]:
        """For whom this node holds locks though they are neither members nor dead: nobody, ever, as
        nothing would free these locks."""
        return self._membership.guests.callers - self._view.assignment.names

    @property
    def slots(self) -> int:
        """How many this node owns."""
        return self._view.assignment.slots.count(self._view.name)

    def owns(self, slot: int) -> bool:
        """Does this node grant the locks of `slot`?"""
        return self._view.is_mine(slot)

    @property
    def may_purge(self) -> bool:
        """Has every member said, since this node leads, what its queries read and its recovery
        would put again, and is there nobody else whose recovery puts anything?"""
        return (
            self._master is not None
            and self._view.members <= self._master.words.keys()
            and not self._view.assignment.dead
        )

    @property
    def replays_above(self) -> int:
        """Recovery of no member puts anything again that was committed at or below this. To be
        asked when the leader `may_purge`."""
        words = self._master.words if self._master is not None else {}
        return min((words[name].replays_above for name in self._view.members), default=0)

    @property
    def newest(self) -> int:
        """No member begins to read at an older snapshot, as the leader knows, unless it is asked
        for one within the retention. To be asked when the leader `may_purge`."""
        words = self._master.words if self._master is not None else {}
        return min((words[name].newest for name in self._view.members), default=0)

    @property
    def holding(self) -> int:
        """The oldest snapshot that queries read at any member, as the leader knows; 0: none."""
        words = self._master.words.values() if self._master is not None else ()
        return min((word.holding for word in words if word.holding), default=0)

    async def unfinished(self, transaction_id: str) -> str | None:
        """Whose transaction it is that has reached the log at some member, its outcome unknown.

        Raises Unavailable when a member does not answer, or is dead and not recovered.
        """
        if self._view.assignment.dead:
            raise Unavailable("A node has died and is being recovered.", cure="Ask again.")
        question = Unfinished(transaction_id)
        asked = (self._links.ask(name, question) for name in self._view.others)
        for answer in await asyncio.gather(*asked):
            if isinstance(answer, Owned) and answer.owner is not None:
                return answer.owner
        return None

    async def sealed(self) -> dict[str, tuple[int, int]]:
        """Of the log of each member, this one too, a segment (epoch, sequence): every commit at or
        below a snapshot that was read before stands before it, or in the log of nobody. Nobody
        appends before it any more.

        Raises Unavailable when a member does not answer, or is dead and not recovered.
        """
        if self._view.assignment.dead:
            raise Unavailable("A node has died and is being recovered.", cure="Ask again.")
        others = self._view.others
        asked = asyncio.gather(*(self._links.ask(name, Seal()) for name in others))
        own, answers = await asyncio.gather(self._committer.seal(), asked)
        found = {self._view.name: own[:2]}
        for name, answer in zip(others, answers, strict=True):
            if not isinstance(answer, Sealed) or answer.member != name:
                raise Unavailable(f"Node {name} does not say what it has sealed, but {answer!r}.")
            found[name] = (answer.epoch, answer.sequence)
        return found

    async def leave(self) -> None:
        """Let others take over what this node owns. Gives up after a while: they will anyway."""
        self._membership.leave()
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                while self.serves and not self._membership.owns_nothing and self._has_company:
                    await self._clock.sleep(POLL_S)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._links.close()

    # ------------------------------------------------------------ inside

    @property
    def _has_company(self) -> bool:
        return any(
            member.commits
            for member in self._view.assignment.members
            if member.name != self._view.name
        )

    def _require_running(self) -> None:
        """Raises what ended a task."""
        for task in self._tasks:
            if task.done():
                task.result()

    async def _lead(self) -> None:
        """Stand by, then lead until the session is over. Raises Unavailable then."""
        candidate = Candidate(self._view.name, self._address)
        async for leader in Election(self._coordination, self._clock, candidate).standing_by():
            self._keeper.leader = leader.address if leader is not None else ""
        self._keeper.leader = self._address
        claim = await self._claimed()
        _LOG.info("leads", name=self._view.name, catalog=claim.catalog.version)
        master = self._master = Master(
            self._coordination,
            self._clock,
            self._view.name,
            self._recover,
            claim.catalog.version,
            self._idle_rate,
            self._before,
        )
        # What it began at may be known to nobody but the leader before.
        master.raise_clock(claim.catalog.since)
        await _together(master.run(), self._change_catalogs(claim, master), self._listen(master))

    async def _listen(self, master: Master) -> None:
        """To how many rows the others have inserted."""
        growth = self._manager.growth
        while not master.words:
            await self._clock.sleep(POLL_S)
        growth.hear(self._said(master))
        growth.count()  # or the leader before did
        while True:
            await self._clock.sleep(WORD_S)
            growth.hear(self._said(master))

    def _said(self, master: Master) -> dict[str, Mapping[str, int]]:
        others = master.words.keys() - {self._view.name}
        return {name: master.words[name].growth for name in others}

    async def _claimed(self) -> Claim:
        while True:
            try:
                return await Claim.take(self._store, self._coordination, self._clock)
            except Unavailable:
                if not self._coordination.alive():
                    raise
                await self._clock.sleep(POLL_S)

    async def _change_catalogs(self, claim: Claim, master: Master) -> None:
        """Once this node uses the catalog that was in force when it claimed it."""
        while not self._uses(claim.catalog.version):
            await self._clock.sleep(POLL_S)
        barrier = MembersBarrier(
            master, self._hlc, self._keeper.readers, self._committer, self._snapshots
        )
        while True:
            try:
                return await self._keeper.lead(claim, barrier)
            except Unavailable as error:
                _LOG.warning("cannot lead yet", error=str(error))
                await self._clock.sleep(POLL_S)

    def _uses(self, version: int) -> bool:
        return self._view.may_commit and self._manager.state.catalog.version == version


def _total(word: Word | None) -> int | None:
    """None: not measured yet."""
    return None if word is None or word.rates is None else sum(word.rates.values())


def _hottest(words: Mapping[str, Word], n: int) -> list[tuple[int, int, str]]:
    """The `n` slots in which most locks are granted: how many a minute, slot, owner."""
    rates = (
        (rate, slot, name)
        for name, word in words.items()
        for slot, rate in (word.rates or {}).items()
    )
    return heapq.nlargest(n, rates)


async def _together(*works: Coroutine[Any, Any, None]) -> None:
    """Run all until they have ended, or one of them fails; none runs on then."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
