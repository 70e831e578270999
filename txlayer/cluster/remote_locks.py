"""Locks of all members as one table: the member's own, and by messages those of the others.

`TravellingLocks` is the side of the coordinator, the member that runs a transaction; `Guests` is
the side of the owner. Owners grant locks and log nothing (decision 21; docs/protocols/locks.md).
This module keeps the rules that make this safe:

- only the owner of its slot grants a lock, only to members, and not while the slot is leaving, by
  the newest assignment that the owner has observed; after each wait the owner checks this again;
- a grant carries the owner's clock and a release the commit's timestamp, so timestamps rise on each
  root, no matter which members grant its lock and commit;
- before a transaction is handed to the log, or answered without a commit, the coordinator checks
  all its grantors once more: a grant of a node that is no longer a member is void;
- locks and guards of a dead member's transactions are freed when its log is recovered, and not
  before, even if that node runs on and releases them.

Locks in several tables cause no deadlock: an attempt that holds or awaits a lock in another table
is compared like an attempt that holds a lock in this one (txlayer/locking/locks.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field

from hornbeam_server.schema.errors import StatementTimeout, TransactionAborted, Unavailable
from hornbeam_server.storage.ports import Clock
from hornbeam_server.storage.together import all_settled
from hornbeam_server.storage.tracing import traceparent
from hornbeam_server.txlayer.cluster.links import Links
from hornbeam_server.txlayer.cluster.membership_view import View, slot_of
from hornbeam_server.txlayer.cluster.messages import (
    Freed,
    Granted,
    Guard,
    GuardedHere,
    Lock,
    Refused,
    Release,
    Response,
)
from hornbeam_server.txlayer.commit.batches import Prepared
from hornbeam_server.txlayer.commit.committer import Committer
from hornbeam_server.txlayer.commit.hlc import HybridClock
from hornbeam_server.txlayer.locking.guards import Guarded, Ranges
from hornbeam_server.txlayer.locking.locks import (
    KnownReleases,
    LockName,
    LockOwner,
    LockTable,
    Mode,
    only_first,
    waited_too_long,
)

LONGEST_S = 3_600.0
"""Maximum wait for a lock when the request has no deadline."""
LEAVING = "leaving"
TIMEOUT = "timeout"


@dataclass(eq=False, slots=True)
class _Attempt:
    """The locks that one of this member's transactions has at other members. `asked` are all
    members that may hold locks for it, `grantors` those that granted some, `granted` their answer
    for each lock, and `clock` is the highest clock in these answers. `memberships` is
    that of the view when it asked all members to guard what it has read; 0: it has not."""

    number: int
    asked: set[str] = field(default_factory=set)
    grantors: set[str] = field(default_factory=set)
    granted: dict[LockName, Granted] = field(default_factory=dict)
    memberships: int = 0
    clock: int = 0


class TravellingLocks:
    """The `Locks` of the transactions that one member runs."""

    def __init__(
        self, own: LockTable, view: View, links: Links, hlc: HybridClock, clock: Clock
    ) -> None:
        self._own = own
        self._view = view
        self._links = links
        self._hlc = hlc
        self._clock = clock
        self._attempts: dict[LockOwner, _Attempt] = {}
        self._last_granted: dict[str, Granted] = {}
        self._number = 0

    def take(self, owner: LockOwner, name: LockName, mode: Mode) -> bool:
        return self._view.is_mine(slot_of(name)) and self._own.take(owner, name, mode)

    async def acquire(
        self, owner: LockOwner, names: Iterable[LockName], mode: Mode, deadline: float | None = None
    ) -> None:
        for grantor, theirs in self._by_owner(names).items():
            if grantor == self._view.name:
                self._require_mine(theirs)
                await _take_each(self._own, owner, theirs, mode, deadline, self._require_mine)
            else:
                await self._ask(owner, grantor, theirs, mode, deadline)

    def require_in_force(self, owner: LockOwner) -> None:
        """Also raises Unavailable when this node may not commit."""
        attempt = self._attempts.get(owner)
        if attempt is not None and not attempt.grantors <= self._view.members:
            raise _aborted("A node that had granted a lock has gone.", "grantor gone")
        if attempt is not None and attempt.memberships:
            self._require_same_members(attempt)
        if not self._view.may_commit:
            raise Unavailable("This node is no member any more.", cure="Ask another node.")

    def clock(self, owner: LockOwner) -> int:
        attempt = self._attempts.get(owner)
        return attempt.clock if attempt is not None else 0

    def known_releases(self) -> KnownReleases:
        """The releases known now. Those in another member's table are known from its last grant
        under the assignment known here."""
        version, granted = self._view.version, self._last_granted.items()
        known = {name: last.releases for name, last in granted if last.assignment == version}
        return KnownReleases(version, known | {self._view.name: self._own.releases})

    def undisturbed(
        self, owner: LockOwner, names: Iterable[LockName], since: KnownReleases
    ) -> bool:
        """Release numbers are comparable under one assignment only, the same here at `since`, here
        now and at the grantor: under another one, another member may have granted the lock."""
        if since.assignment != self._view.version:
            return False
        attempt = self._attempts.get(owner)
        for name in names:
            granted = attempt.granted.get(name) if attempt is not None else None
            if granted is not None:
                known = since.releases.get(granted.owner, -1)
                if granted.assignment != since.assignment or granted.released > known:
                    return False
            elif self._own.last_release([name]) > since.releases[self._view.name]:
                return False
        return True

    async def guard(
        self, owner: LockOwner, ranges: Ranges, committer: Committer, deadline: float | None = None
    ) -> Guarded:
        """Guard `ranges` at all members. A dead member's commits must be applied before."""
        view, attempt = self._view, self._attempt(owner)
        if view.assignment.dead:
            raise _aborted("A node has died and is being recovered.", "recovering")
        since, attempt.memberships = view.assignment.clock, view.memberships
        attempt.asked.update(view.others)
        asked = [self._guard_at(owner, name, ranges, deadline) for name in view.others]
        own = self._own.guard(owner, ranges, committer, deadline)
        found = Guarded(since)
        for each in await all_settled([own, *asked]):
            found = found.and_also(each)
        self._require_same_members(attempt)
        return found

    def is_guarded(self, owner: LockOwner, prepared: Prepared) -> bool:
        return self._own.is_guarded(owner, prepared)

    def release_all(self, owner: LockOwner, commit_ts: int = 0) -> None:
        self._own.release_all(owner)
        attempt = self._attempts.pop(owner, None)
        if attempt is not None:
            for grantor in sorted(attempt.asked):
                self._links.release(grantor, attempt.number, commit_ts)

    # ------------------------------------------------------------ inside

    def _require_mine(self, names: Sequence[LockName]) -> None:
        _require_owned(self._view, names)

    def _by_owner(self, names: Iterable[LockName]) -> dict[str, list[LockName]]:
        """The names by the member that owns their slot. Raises TransactionAborted where no member
        grants now."""
        found: dict[str, list[LockName]] = {}
        for name in names:
            slot = slot_of(name)
            grantor = self._view.owner(slot)
            if not grantor:
                raise _aborted("The node that owned a lock is being recovered.", "no owner")
            if slot in self._view.assignment.leaving:
                raise _aborted("A lock is moving to another node.", LEAVING)
            found.setdefault(grantor, []).append(name)
        return found

    async def _ask(
        self,
        owner: LockOwner,
        grantor: str,
        names: list[LockName],
        mode: Mode,
        deadline: float | None,
    ) -> None:
        attempt, left_s = self._attempt(owner), self._left_s(deadline)
        compares, exclusive = owner.must_compare, mode is Mode.EXCLUSIVE
        trace = traceparent()
        request = Lock(attempt.number, owner.age, compares, exclusive, names, left_s, trace)
        attempt.asked.add(grantor)
        owner.holds_remote = compares or not only_first(names)
        owner.asking = (grantor, names)
        try:
            answer = await self._answer(grantor, request, deadline)
        finally:
            owner.asking = None
        match answer:
            case Granted(owner=name) if name == grantor:
                self._follow(attempt, grantor, answer.clock)
                attempt.granted.update(dict.fromkeys(names, answer))
                self._last_granted[grantor] = answer
            case _:
                raise _no_grant(answer)

    def _require_same_members(self, attempt: _Attempt) -> None:
        """Raises TransactionAborted if members have come or gone since the attempt asked for
        guards, also one that has done both: it may have committed, without a guard, in between."""
        if attempt.memberships != self._view.memberships:
            raise _aborted("Nodes have come or gone.", "members changed")

    async def _guard_at(
        self, owner: LockOwner, member: str, ranges: Ranges, deadline: float | None
    ) -> Guarded:
        attempt, left_s = self._attempt(owner), self._left_s(deadline)
        request = Guard(attempt.number, owner.age, ranges.by_table, left_s, traceparent())
        answer = await self._answer(member, request, deadline)
        match answer:
            case GuardedHere(member=name) if name == member:
                self._follow(attempt, member, answer.clock)
                return Guarded(0, answer.newest)
        raise _no_grant(answer)

    def _left_s(self, deadline: float | None) -> float:
        """The seconds until the deadline."""
        return LONGEST_S if deadline is None else deadline - self._clock.monotonic()

    def _follow(self, attempt: _Attempt, grantor: str, clock: int) -> None:
        """Note that `grantor`, whose clock stands at `clock`, has granted the attempt something."""
        self._hlc.follow(clock)
        attempt.grantors.add(grantor)
        attempt.clock = max(attempt.clock, clock)

    async def _answer(self, member: str, request: Lock | Guard, deadline: float | None) -> Response:
        """The answer of a member. Raises TransactionAborted, StatementTimeout at the deadline."""
        try:
            async with asyncio.timeout_at(deadline):
                return await self._links.ask(member, request)
        except TimeoutError:
            raise waited_too_long() from None
        except Unavailable as error:
            raise _aborted(f"A node did not answer: {error.message}", "no answer") from error

    def _attempt(self, owner: LockOwner) -> _Attempt:
        attempt = self._attempts.get(owner)
        if attempt is None:
            self._number += 1
            attempt = self._attempts[owner] = _Attempt(self._number)
        return attempt


class Guests:
    """The locks of one member that transactions of other members hold or wait for."""

    def __init__(self, own: LockTable, view: View, hlc: HybridClock, clock: Clock) -> None:
        self._own = own
        self._view = view
        self._hlc = hlc
        self._clock = clock
        self._guests: dict[tuple[str, int], LockOwner] = {}

    async def lock(self, caller: str, request: Lock) -> Granted | Refused:
        """Grant `caller` all of the locks, or return the reason for the refusal."""
        mode = Mode.EXCLUSIVE if request.exclusive else Mode.SHARED
        deadline = self._clock.monotonic() + request.timeout_s
        try:
            self._require_grantable(caller, request.names)
            guest = self._guests.setdefault((caller, request.attempt), LockOwner(request.age))
            guest.holds_remote = request.must_compare

            def require_still(left: Sequence[LockName]) -> None:
                if self._guests.get((caller, request.attempt)) is not guest:
                    raise _aborted("The transaction was given up meanwhile.", "given up")
                self._require_grantable(caller, left)

            await _take_each(self._own, guest, request.names, mode, deadline, require_still)
        except TransactionAborted as error:
            return Refused(error.message, str(error.details.get("reason", "")))
        except StatementTimeout as error:
            return Refused(error.message, TIMEOUT)
        view, own = self._view, self._own
        released = own.last_release(request.names)
        return Granted(view.name, self._hlc.last, view.version, released, own.releases)

    async def guard(
        self, caller: str, request: Guard, committer: Committer
    ) -> GuardedHere | Refused:
        """Guard ranges for `caller`, or return the reason for the refusal. `committer` is that of
        this member."""
        if caller not in self._view.members:
            return Refused("The node is no member.", "not a member")
        guest = self._guests.setdefault((caller, request.attempt), LockOwner(request.age))
        deadline = self._clock.monotonic() + request.timeout_s
        try:
            found = await self._own.guard(guest, Ranges(request.ranges), committer, deadline)
        except StatementTimeout as error:
            return Refused(error.message, TIMEOUT)
        except Unavailable as error:
            return Refused(error.message, "unavailable")
        return GuardedHere(self._view.name, self._hlc.last, dict(found.newest))

    def release(self, caller: str, request: Release) -> Freed:
        """Free the locks and guards of a member's attempts. Releases of dead nodes are ignored:
        they may be wrong about the content of their logs."""
        if caller in self._view.members:
            for attempt, commit_ts in request.attempts.items():
                self._hlc.follow(commit_ts)
                guest = self._guests.pop((caller, attempt), None)
                if guest is not None:
                    self._own.release_all(guest)
        return Freed()

    def see(self) -> None:
        """Apply the newest assignment at once: refuse waiting requests that must not be granted any
        more, and free the locks of recovered nodes."""
        assignment = self._view.assignment
        self._own.refuse_waiting(
            lambda name: slot_of(name) in assignment.leaving,
            "A lock is moving to another node.",
            LEAVING,
        )
        known = self._view.members | {member.name for member in assignment.dead}
        for caller, attempt in list(self._guests):
            guest = self._guests[caller, attempt]
            if caller not in known:
                del self._guests[caller, attempt]
                self._own.release_all(guest)
            elif caller not in self._view.members:
                self._own.refuse(guest, "The node is no member any more.", "not a member")

    @property
    def callers(self) -> Set[str]:
        """The members whose transactions hold locks here, or wait for some."""
        return {caller for caller, _ in self._guests}

    def holds(self, slots: Set[int]) -> bool:
        """Does any transaction of any member hold a lock of these slots?"""
        return self._own.holds_any(lambda name: slot_of(name) in slots)

    def _require_grantable(self, caller: str, names: Sequence[LockName]) -> None:
        """Raises TransactionAborted unless this member may grant the locks `names` to `caller`."""
        if caller not in self._view.members:
            raise _aborted("The node is no member.", "not a member")
        _require_owned(self._view, names)


async def _take_each(
    own: LockTable,
    owner: LockOwner,
    names: Sequence[LockName],
    mode: Mode,
    deadline: float | None,
    require_still: Callable[[Sequence[LockName]], None],
) -> None:
    """Take all of `names`, which may be taken now. After each wait `require_still` checks whether
    the rest still may: a slot without held locks may have moved."""
    for taken, name in enumerate(names, start=1):
        if not own.take(owner, name, mode):
            await own.acquire(owner, [name], mode, deadline)
            require_still(names[taken:])


def _require_owned(view: View, names: Sequence[LockName]) -> None:
    """Raises TransactionAborted unless the member of `view` may grant the locks `names`."""
    if not all(view.is_mine(slot_of(name)) for name in names):
        raise _aborted("The lock is another node's, or will soon be.", "not the owner")


def _no_grant(answer: Response) -> TransactionAborted | StatementTimeout:
    """The error for an answer that grants nothing."""
    match answer:
        case Refused(reason=reason) if reason == TIMEOUT:
            return waited_too_long()
        case Refused():
            return _aborted(answer.why, answer.reason)
    return _aborted(f"A node answered {answer!r}.", "no answer")


def _aborted(why: str, reason: str) -> TransactionAborted:
    return TransactionAborted(why, cure="Try again.", reason=reason)
