"""Locks on names: shared and exclusive, first in first out, deadlock-free by wait-die.

The table is one slave's memory. A lock protects the named object until the transaction that holds
the lock is applied. The table is plain state and futures: no I/O, no clock of its own. Only `guard`
waits for the committer.

Why there is no deadlock. "First locks", of the kinds in `FIRST`, are taken before all others, in
that order. An owner that holds any other lock may wait only if it is older than *every* other
holder of the lock and *every* waiter ahead, compatible or not; else it dies and is retried with the
same age. An owner that holds at most first locks may always wait. Suppose a cycle of owners that
wait for one another. An owner can wait for an owner X of first locks only in two cases. Either it
waits behind X in a queue, and so for all owners ahead of both. Or it waits for one of X's first
locks; then it holds at most earlier first locks, like X, and such owners form no cycle, because
first locks have one order. Leave these owners out. Each owner that is left waits for an owner that
it compared itself with, so the older waits for the younger all the way round, which is impossible.
The comparison stays true during the wait: locks are handed on in the order of the queue, so every
owner that gets the lock earlier was a holder or ahead in the queue at the start.

An owner that was handed to the committer (`committing`) waits for no lock any more, so it is in no
cycle, and is not compared. Since clients are answered before it is applied, the next transaction of
the same client often meets its locks.

Why no owner starves. The oldest owner never dies, queues are first in first out, and a retry keeps
its age, so each owner becomes the oldest in time.
"""

from __future__ import annotations

import asyncio
import enum
import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import length_hint
from typing import NamedTuple, Protocol

from hornbeam_server.schema.errors import StatementTimeout, TransactionAborted
from hornbeam_server.storage.tracing import part
from hornbeam_server.txlayer.commit.batches import Prepared
from hornbeam_server.txlayer.commit.committer import Committer
from hornbeam_server.txlayer.locking.guards import Guarded, Ranges, applied_under

LockName = tuple[str | bytes, ...]
"""The name of a locked object: its kind, then its identity (txlayer/transactions/attempt.py)."""
Age = tuple[int, int, str]
"""The start of a transaction in milliseconds, then its number and its node as tie-breakers."""


class KnownReleases(NamedTuple):
    """The releases of locks known at one point; the argument of a later `undisturbed`."""

    assignment: int
    """The version of the assignment known then; 0 in a database of one process."""
    releases: Mapping[str, int]
    """The number of the last release in each lock table, by the name of its member."""


FIRST = ("slow lane", "request")
"""Kinds of locks that are taken before all others, in this order."""
RELEASED_A_TURN = 1_024
"""Maximum number of locks that are freed before other tasks have a turn."""
REMEMBERED = 16_384
"""Maximum number of names whose last release a table remembers."""
REMEMBERED_BYTES = 4 << 20
"""Maximum size of the remembered names together: a key may have 32 kB."""
SHOWN = 100
"""Maximum number of locks whose kinds and relations a span lists."""


class Mode(enum.Enum):
    """SHARED is compatible with SHARED; EXCLUSIVE is compatible with nothing."""

    SHARED = "shared"
    EXCLUSIVE = "exclusive"


class LockOwner:
    """One attempt of one transaction. Retries keep the `age`; a smaller age is older.

    An owner asks for one lock at a time. `held` maps names to modes, in the order taken.
    `holds_remote`: the owner also holds or awaits locks in other tables that are not `FIRST`.
    `committing`: the owner was handed to the committer, and waits for no lock any more. `asking`:
    the other member whose answer it awaits, and the locks that it asked for.
    """

    __slots__ = ("age", "asking", "committing", "held", "holds_remote", "waiting")

    def __init__(self, age: Age | int) -> None:
        self.age = age if isinstance(age, tuple) else (0, age, "")
        self.held: dict[LockName, Mode] = {}
        self.holds_remote = False
        self.committing = False
        self.asking: tuple[str, Sequence[LockName]] | None = None
        self.waiting: tuple[LockName, _Waiter] | None = None

    @property
    def must_compare(self) -> bool:
        """Does the owner hold a lock, in any table, that is not `FIRST`?"""
        return self.holds_remote or not only_first(self.held)


def only_first(names: Iterable[LockName]) -> bool:
    return all(name[0] in FIRST for name in names)


class Locks(Protocol):
    """All locks that transactions take, in the lock tables of all members."""

    def take(self, owner: LockOwner, name: LockName, mode: Mode) -> bool:
        """`acquire` without waiting. False if the lock needs, or may need, a wait."""

    async def acquire(
        self, owner: LockOwner, names: Iterable[LockName], mode: Mode, deadline: float | None = None
    ) -> None:
        """Take all of `names`. Raises TransactionAborted, StatementTimeout at the deadline."""

    def require_in_force(self, owner: LockOwner) -> None:
        """Raises TransactionAborted if a lock that `owner` was granted is no longer in force."""

    def clock(self, owner: LockOwner) -> int:
        """A timestamp at or above all earlier commits under the locks that other processes granted
        to `owner`; 0 if they granted none."""

    def known_releases(self) -> KnownReleases:
        """The releases known now."""

    def undisturbed(
        self, owner: LockOwner, names: Iterable[LockName], since: KnownReleases
    ) -> bool:
        """Was none of `names`, which `owner` holds now, released after `since`? If so, rows under
        these locks that were read after `since` are still current. False if it is not known."""

    async def guard(
        self, owner: LockOwner, ranges: Ranges, committer: Committer, deadline: float | None = None
    ) -> Guarded:
        """Let no other transaction commit rows into `ranges` until `release_all`, and wait until
        earlier ones are applied. `committer` is that of this member. Raises TransactionAborted,
        Unavailable, StatementTimeout at the deadline."""

    def is_guarded(self, owner: LockOwner, prepared: Prepared) -> bool:
        """Does `prepared` change a row in a range that another transaction guards at this
        member?"""

    def release_all(self, owner: LockOwner, commit_ts: int = 0) -> None:
        """Free all locks and guards of `owner`. `commit_ts`: timestamp of the commit under them;
        0: none."""


async def take_all(
    locks: Locks,
    owner: LockOwner,
    names: Sequence[LockName],
    mode: Mode,
    deadline: float | None,
) -> None:
    """Take locks. Does not suspend while they are free and in this process. Raises
    TransactionAborted, StatementTimeout."""
    with part("lock", lock_attributes, names, mode):
        for number, name in enumerate(names):
            if not locks.take(owner, name, mode):
                await locks.acquire(owner, names[number:], mode, deadline)
                return


def lock_attributes(names: Sequence[LockName], mode: Mode) -> dict[str, str | int | float]:
    """The attributes of a span: kinds and relations, without the keys."""
    shown = {" ".join(part for part in name[:2] if isinstance(part, str)) for name in names[:SHOWN]}
    return {
        "hornbeam.lock.count": len(names),
        "hornbeam.lock.mode": mode.value,
        "hornbeam.lock.names": ", ".join(sorted(shown)),
    }


def _new_future() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


@dataclass(eq=False, slots=True)
class _Waiter:
    owner: LockOwner
    mode: Mode
    granted: asyncio.Future[None] = field(default_factory=_new_future)


def waited_too_long() -> StatementTimeout:
    """The error at the end of a wait for a lock, or for commits in a range to be guarded."""
    return StatementTimeout(
        "The transaction waited for others until its time limit; nothing was written.",
        cure="Raise timeout_ms, or do less in the transactions that hold its locks.",
    )


class LockTable:
    """All locks and guards of one slave. `_queues` has an entry only for names with waiters."""

    def __init__(self, granted: Callable[[LockName], object] | None = None) -> None:
        """`granted` is called with the name of each granted lock."""
        self._granted = granted
        self._holders: dict[LockName, dict[LockOwner, Mode]] = {}
        self._queues: dict[LockName, deque[_Waiter]] = {}
        self._released: OrderedDict[LockName, int] = OrderedDict()
        """The number of each name's last release, oldest first."""
        self._released_bytes = 0
        """Size of the names in `_released`."""
        self._unknown_until = 0
        self._guards: dict[LockOwner, Ranges] = {}
        self.releases = 0
        """The number of releases so far."""

    async def acquire(
        self, owner: LockOwner, names: Iterable[LockName], mode: Mode, deadline: float | None = None
    ) -> None:
        """Take `names`, one after the other; does not suspend while they are free.

        Re-entrant. A request for EXCLUSIVE by a holder of SHARED is an upgrade, ahead of the queue.
        `deadline` is in seconds of the event loop's clock (that of `Clock.monotonic`).

        Raises TransactionAborted (reason "wait-die") when waiting could close a cycle,
        StatementTimeout at the deadline. The owner keeps the locks that it held before.
        """
        for name in names:
            if not self.take(owner, name, mode):
                self._die_if_younger(owner, name)
                await self._wait(owner, name, mode, deadline)

    def take(self, owner: LockOwner, name: LockName, mode: Mode) -> bool:
        """Take a lock that is free; False if it is not."""
        held = owner.held.get(name)
        if held is mode or held is Mode.EXCLUSIVE:
            return True
        if self._is_free(name, mode, owner):
            self._grant(name, mode, owner)
            return True
        return False

    def require_in_force(self, owner: LockOwner) -> None:
        """Do nothing: locks of a process's own table are in force as long as the process runs."""

    def clock(self, owner: LockOwner) -> int:
        return 0

    def known_releases(self) -> KnownReleases:
        return KnownReleases(0, {"": self.releases})

    def undisturbed(
        self, owner: LockOwner, names: Iterable[LockName], since: KnownReleases
    ) -> bool:
        return self.last_release(names) <= since.releases[""]

    def last_release(self, names: Iterable[LockName]) -> int:
        """The number of the last release of any of `names`, or a higher number if forgotten."""
        released, newest = self._released, 0
        for name in names:
            newest = max(newest, released.get(name, self._unknown_until))
        return newest

    async def guard(
        self, owner: LockOwner, ranges: Ranges, committer: Committer, deadline: float | None = None
    ) -> Guarded:
        self._guards[owner] = ranges
        try:
            async with asyncio.timeout_at(deadline):
                return await applied_under(committer, ranges)
        except TimeoutError:
            raise waited_too_long() from None

    def is_guarded(self, owner: LockOwner, prepared: Prepared) -> bool:
        return bool(self._guards) and any(
            ranges.have_any(prepared)
            for other, ranges in self._guards.items()
            if other is not owner
        )

    def release_all(self, owner: LockOwner, commit_ts: int = 0) -> None:
        """Free all locks and guards of `owner`, hand the locks on, and refuse its pending request.
        Idempotent."""
        self._guards.pop(owner, None)
        self.refuse(owner, "The transaction was given up meanwhile.", "given up")
        names, owner.held = owner.held, {}
        self._release(owner, iter(names))

    def _release(self, owner: LockOwner, names: Iterator[LockName]) -> None:
        """Free the next `RELEASED_A_TURN` of `names`, and the others in later turns."""
        for name in islice(names, RELEASED_A_TURN):
            holders = self._holders[name]
            del holders[owner]
            if not holders:
                del self._holders[name]
            self._note_release(name)
            if name in self._queues:
                self._hand_on(name)
        if length_hint(names):
            asyncio.get_running_loop().call_soon(self._release, owner, names)

    def refuse(self, owner: LockOwner, why: str, reason: str) -> None:
        """Refuse the pending request of `owner`, if there is one."""
        if owner.waiting is not None:
            self._refuse(*owner.waiting, why, reason)

    def refuse_waiting(self, concerned: Callable[[LockName], bool], why: str, reason: str) -> None:
        """Refuse all pending requests for locks whose names are `concerned`."""
        for name in [name for name in self._queues if concerned(name)]:
            # From the end: else a refusal would grant the lock to the waiters behind it.
            for waiter in reversed(list(self._queues.get(name, ()))):
                self._refuse(name, waiter, why, reason)

    def holds_any(self, concerned: Callable[[LockName], bool]) -> bool:
        """Is any lock held whose name is `concerned`?"""
        return any(concerned(name) for name in self._holders)

    @property
    def held_count(self) -> int:
        """The number of locked names."""
        return len(self._holders)

    @property
    def guard_count(self) -> int:
        """The number of guards."""
        return len(self._guards)

    @property
    def waiting_count(self) -> int:
        """The number of waiting owners."""
        return sum(map(len, self._queues.values()))

    def hot(self, n: int) -> list[tuple[LockName, int]]:
        """The `n` names with the most waiting owners, each with the number of its waiters."""
        lengths = ((name, len(queue)) for name, queue in self._queues.items())
        return heapq.nlargest(n, lengths, key=lambda item: item[1])

    # ------------------------------------------------------------ inside

    def _is_free(self, name: LockName, mode: Mode, owner: LockOwner) -> bool:
        """May `owner` have the lock at once? An upgrade passes the queue, which waits for it."""
        if owner.held.get(name) is None and name in self._queues:
            return False
        return self._is_compatible(name, mode, owner)

    def _is_compatible(self, name: LockName, mode: Mode, owner: LockOwner) -> bool:
        holders = self._holders.get(name)
        if not holders:
            return True
        if mode is Mode.EXCLUSIVE:
            return len(holders) == 1 and owner in holders
        return Mode.EXCLUSIVE not in holders.values()

    def _grant(self, name: LockName, mode: Mode, owner: LockOwner) -> None:
        self._holders.setdefault(name, {})[owner] = mode
        owner.held[name] = mode
        if self._granted is not None:
            self._granted(name)

    def _note_release(self, name: LockName) -> None:
        """Record a release, also of a shared lock: its holder's work excludes exclusive locks."""
        self.releases += 1
        if self._released.pop(name, None) is None:
            self._released_bytes += sum(map(len, name))
        self._released[name] = self.releases
        while len(self._released) > REMEMBERED or self._released_bytes > REMEMBERED_BYTES:
            forgotten, self._unknown_until = self._released.popitem(last=False)
            self._released_bytes -= sum(map(len, forgotten))

    def _die_if_younger(self, owner: LockOwner, name: LockName) -> None:
        if owner.must_compare and any(other.age <= owner.age for other in self._ahead(owner, name)):
            raise TransactionAborted(
                "An older transaction holds or awaits a lock that this one needs.",
                cure="Try again; the transaction keeps its place by age.",
                reason="wait-die",
            )

    def _ahead(self, owner: LockOwner, name: LockName) -> Iterator[LockOwner]:
        """All owners that `owner` would wait for, directly or through others in the queue, and that
        may wait for locks themselves."""
        holders = self._holders.get(name, ())
        yield from (holder for holder in holders if not (holder is owner or holder.committing))
        if name not in owner.held:
            yield from (waiter.owner for waiter in self._queues.get(name, ()))

    async def _wait(
        self, owner: LockOwner, name: LockName, mode: Mode, deadline: float | None
    ) -> None:
        waiter = _Waiter(owner, mode)
        queue = self._queues.setdefault(name, deque())
        if name in owner.held:
            # Only one upgrade can wait: a second, younger one dies.
            queue.appendleft(waiter)
        else:
            queue.append(waiter)
        owner.waiting = (name, waiter)
        try:
            async with asyncio.timeout_at(deadline):
                await waiter.granted
        except TimeoutError:
            raise waited_too_long() from None
        finally:
            owner.waiting = None
            self._leave(name, waiter)

    def _refuse(self, name: LockName, waiter: _Waiter, why: str, reason: str) -> None:
        self._leave(name, waiter)
        waiter.owner.waiting = None
        if not waiter.granted.done():
            waiter.granted.set_exception(TransactionAborted(why, cure="Try again.", reason=reason))

    def _leave(self, name: LockName, waiter: _Waiter) -> None:
        """Remove a waiter that gave up from the queue. A granted waiter has left it already."""
        queue = self._queues.get(name)
        if queue is not None and waiter in queue:
            queue.remove(waiter)
            self._hand_on(name)

    def _hand_on(self, name: LockName) -> None:
        """Grant the lock to the waiters at the head of the queue, while modes are compatible."""
        queue = self._queues[name]
        while queue and self._is_compatible(name, queue[0].mode, queue[0].owner):
            waiter = queue.popleft()
            self._grant(name, waiter.mode, waiter.owner)
            if not waiter.granted.done():
                waiter.granted.set_result(None)
        if not queue:
            del self._queues[name]
