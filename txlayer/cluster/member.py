"""One of several nodes: its life as a member, its answers to the other members, its work as leader.

Every node is a member: it runs transactions in its own log and grants locks of its slots. One node
leads. It is the master, which writes the assignment and recovers the logs of dead members, and it
alone changes the catalog. The election decides which node leads (txlayer/cluster/election.py).
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
from hornbeam_server.storage.tracing import Entered, Tracer, Untraced, continued
from hornbeam_server.txlayer.cluster import assignment
from hornbeam_server.txlayer.cluster.assignment import Word
from hornbeam_server.txlayer.cluster.election import Candidate, Election
from hornbeam_server.txlayer.cluster.links import Links
from hornbeam_server.txlayer.cluster.master import Master
from hornbeam_server.txlayer.cluster.membership import POLL_S, WORD_S, Membership
from hornbeam_server.txlayer.cluster.membership_view import View
from hornbeam_server.txlayer.cluster.messages import (
    BatchesAfter,
    Compute,
    Guard,
    Later,
    Lock,
    Owned,
    Reach,
    Recent,
    Refused,
    Release,
    Response,
    Seal,
    Sealed,
    Unfinished,
    Unknown,
    decode_request,
    encode,
)
from hornbeam_server.txlayer.cluster.recent import MembersBatches, MembersCommits
from hornbeam_server.txlayer.cluster.remote_locks import Guests
from hornbeam_server.txlayer.cluster.shared_views import SharedViews
from hornbeam_server.txlayer.cluster.slot_rates import SlotRates
from hornbeam_server.txlayer.cluster.snapshots import MembersSnapshots
from hornbeam_server.txlayer.commit.committer import Committer
from hornbeam_server.txlayer.commit.hlc import HybridClock
from hornbeam_server.txlayer.commit.read_holds import Readers
from hornbeam_server.txlayer.ddl.catalog_keeper import CatalogKeeper
from hornbeam_server.txlayer.ddl.claim import Claim
from hornbeam_server.txlayer.transactions.manager import TransactionManager

HOT_SLOTS = 5
"""Maximum number of hot slots that the status lists."""
ASK_S = 1.0
"""Maximum wait for the coordination service when its data is only to be reported."""
LEAVE_S = 5.0
"""Maximum wait of a stopping node until other nodes own its slots."""

_LOG = structlog.get_logger(__name__)


class Answering:
    """Answers the messages of other members."""

    def __init__(
        self,
        view: View,
        guests: Guests,
        snapshots: MembersSnapshots,
        manager: TransactionManager,
        hlc: HybridClock,
        committer: Committer,
        commits: MembersCommits,
        batches: MembersBatches,
        shared_views: SharedViews,
        tracer: Tracer | None = None,
    ) -> None:
        self._tracer = tracer
        self._committer = committer
        self._commits = commits
        self._batches = batches
        self._shared_views = shared_views
        self._view = view
        self._guests = guests
        self._snapshots = snapshots
        self._manager = manager
        self._hlc = hlc

    async def answer(self, caller: Caller, message: bytes) -> bytes:
        """Return the encoded answer to a message. Locks are requested and freed before the first
        suspension, so in the order of the messages. Raises Corruption, Unavailable."""
        return encode(await self._answer(caller.name, message))

    async def _answer(self, caller: str, message: bytes) -> Response:
        request = decode_request(message)
        match request:
            case Lock():
                with self._continued("grant", caller, request):
                    return await self._guests.lock(caller, request)
            case Guard():
                with self._continued("grant guard", caller, request):
                    return await self._guests.guard(caller, request, self._committer)
            case Release():
                return self._guests.release(caller, request)
            case Reach() if caller not in self._view.members:
                # It may have been replaced; it may then read under an older catalog.
                return Refused("The node is no member.", "not a member")
            case Reach():
                self._hlc.follow(request.least)
                return await self._snapshots.reach(request.least)
            case Unfinished():
                return Owned(self._manager.unfinished.get(request.transaction_id))
            case Seal():
                upto = await self._committer.seal()
                return Sealed(self._view.name, upto.epoch, upto.sequence)
            case Later():
                return await self._commits.later(request)
            case Recent():
                return await self._commits.recent(request)
            case BatchesAfter():
                return await self._batches.answer(request)
            case Compute():
                return await self._shared_views.answer(request)
            case Unknown(kind):  # the link carries locks, so it must not break
                return Refused(f"This node does not know the message {kind}.", "unknown message")

    def _continued(self, name: str, caller: str, request: Lock | Guard) -> Entered | Untraced:
        """A context whose work belongs to the trace of the caller's transaction."""
        member = {"hornbeam.member": self._view.name, "hornbeam.caller": caller}
        return continued(self._tracer, name, member, request.traceparent)


class MembersBarrier:
    """The barrier with which the leader changes the catalog of all members
    (`catalog_keeper.Barrier`)."""

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
        await self._master.wait_until_all_past(version)

    async def current_timestamp(self) -> int:
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
        commits: MembersCommits,
        batches: MembersBatches,
        shared_views: SharedViews,
    ) -> None:
        """`recover` replays the log of a dead member under an epoch, and returns the highest
        timestamp in it. `address` is the URL of this node for clients. `idle_rate` is the base
        weight of a slot when this node leads (`assignment.IDLE_RATE`). `before` are the nodes that
        served the database before it had several nodes: the first leader recovers their logs."""
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
        self.address = address
        self._idle_rate = idle_rate
        self._before = before
        self.commits = commits
        self.batches = batches
        self.shared_views = shared_views
        self._tasks: list[asyncio.Task[None]] = []
        self._master: Master | None = None

    async def start(self) -> None:
        """Join; return when this node may commit. Raises Unavailable, Corruption."""
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
        """May this node commit, and do all its tasks still run?"""
        return self._view.may_commit and not any(task.done() for task in self._tasks)

    def require_serving(self) -> None:
        """Raises Unavailable unless the node `serves`."""
        if not self.serves:
            raise Unavailable(
                "This node is none of those that serve any more.",
                cure="Send it to another node, or again in a moment.",
                standby=True,
            )

    async def words(self) -> Mapping[str, Word]:
        """The words of all nodes with a session, by name; empty when the coordination service does
        not answer in time."""
        try:
            async with asyncio.timeout(ASK_S):
                shown = await self._coordination.members()
        except (Unavailable, TimeoutError):
            return {}
        words = {name: Word.decode(data) for name, data in shown.items()}
        return {name: word for name, word in words.items() if word is not None}

    def status(self, words: Mapping[str, Word] | None = None) -> Mapping[str, Any]:
        """The newest assignment that this node has observed, with the members' reports, as a
        document for operators."""
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
                    "work_per_minute": _total(words.get(member.name)),
                }
                for member in assignment.members
            ],
            "hot_slots": [
                {"slot": slot, "owner": name, "work_per_minute": rate}
                for rate, slot, name in _hottest(words, HOT_SLOTS)
            ],
            "dead": [member.address for member in assignment.dead],
            "moving_slots": len(assignment.leaving),
            "gate_closed": assignment.gate_closed,
        }

    @property
    def strangers(self) -> Set[str]:
        """The callers with locks at this node that are neither members nor dead. The set must be
        empty: nothing would free their locks."""
        return self._membership.guests.callers - self._view.assignment.names

    @property
    def slots(self) -> int:
        """The number of slots that this node owns."""
        return self._view.assignment.slots.count(self._view.name)

    def owner(self, slot: int) -> str:
        """The address of the node that grants the locks of `slot`; "": none does now."""
        found = self._view.assignment.owner(slot)
        return "" if found is None else found.address

    def owns(self, slot: int) -> bool:
        """Does this node grant the locks of `slot`?"""
        return self._view.is_mine(slot)

    @property
    def may_purge(self) -> bool:
        """May the leader purge? Every member has reported, since this node leads, what its queries
        read and what its recovery would put again; and no dead member waits for its recovery."""
        return (
            self._master is not None
            and self._view.members <= self._master.words.keys()
            and not self._view.assignment.dead
        )

    @property
    def replays_above(self) -> int:
        """A timestamp such that recovery of no member puts a commit at or below it again. Valid
        when the leader `may_purge`."""
        words = self._master.words if self._master is not None else {}
        return min((words[name].replays_above for name in self._view.members), default=0)

    @property
    def newest(self) -> int:
        """A snapshot, from the members' reports, such that no member begins to read at an older one
        unless a client asks for that within the retention. Valid when the leader `may_purge`."""
        words = self._master.words if self._master is not None else {}
        return min((words[name].newest for name in self._view.members), default=0)

    @property
    def holding(self) -> int:
        """The oldest snapshot that any member reads, from the members' reports; 0: none."""
        words = self._master.words.values() if self._master is not None else ()
        return min((word.holding for word in words if word.holding), default=0)

    async def unfinished(self, transaction_id: str) -> str | None:
        """The owner of a transaction that has reached the log of another member, and whose outcome
        is unknown yet; None if no other member has it.

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
        """Seal the logs of all members, this one included. Returns a segment (epoch, sequence) of
        each log, by member. Every commit at or below a snapshot that was read before the call is in
        an earlier segment, or in a log without an owner. No process appends to earlier segments any
        more.

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
        """Hand all slots of this node over to other members. Gives up after `LEAVE_S`: the others
        take the slots over when the session ends."""
        self._membership.leave()
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                while self.serves and not self._membership.owns_nothing and self._has_company:
                    await self._clock.sleep(POLL_S)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        self.commits.close()
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
        """Raises the error that ended a task."""
        for task in self._tasks:
            if task.done():
                task.result()

    async def _lead(self) -> None:
        """Stand by until elected, then lead until the session is over. Raises Unavailable then."""
        candidate = Candidate(self._view.name, self.address)
        async for leader in Election(self._coordination, self._clock, candidate).standing_by():
            self._keeper.leader = leader.address if leader is not None else ""
        self._keeper.leader = self.address
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
        # Only the previous leader may know the timestamp at which this catalog began.
        master.raise_clock(claim.catalog.since)
        await _together(master.run(), self._change_catalogs(claim, master), self._listen(master))

    async def _listen(self, master: Master) -> None:
        """Take in the other members' reports of inserted and deleted rows, every `WORD_S`."""
        growth = self._manager.growth
        while not master.words:
            await self._clock.sleep(POLL_S)
        growth.hear(self._said(master))
        growth.count()  # the previous leader may have counted this growth
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
        """Begin to change catalogs when this node uses the catalog that `claim` has. Repeats the
        attempt while services do not answer."""
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
    """The locks and rows a minute in all slots of a member. None: not measured yet."""
    return None if word is None or word.rates is None else sum(word.rates.values())


def _hottest(words: Mapping[str, Word], n: int) -> list[tuple[int, int, str]]:
    """The `n` slots with the most work: (locks and rows a minute, slot, owner)."""
    rates = (
        (rate, slot, name)
        for name, word in words.items()
        for slot, rate in (word.rates or {}).items()
    )
    return heapq.nlargest(n, rates)


async def _together(*works: Coroutine[Any, Any, None]) -> None:
    """Run all `works` until they have ended, or one fails; the others are cancelled then."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
