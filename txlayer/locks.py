"""Locks on names: shared and exclusive, first in first out, deadlock-free by wait-die.

The table is one slave's memory; a lock protects what the name stands for until the transaction
that holds it is applied. It is plain state and futures: no I/O, no clock of its own.

Why there is no deadlock. Locks of the kinds in `FIRST` are taken before all others, in that order.
An owner that holds any other lock may wait only if it is older than *every* other holder of the
lock and *every* waiter ahead, compatible or not; else it dies and is tried again with its age
kept. An owner that holds first locks at most may always wait. Suppose a cycle of owners that wait
for one another. Who waits for an owner of first locks only, waits behind it in a queue, and so for
everybody ahead of both; or for one of its first locks, and then holds earlier first locks at most:
its like, and these go round in no cycle, as their order is one. Leave them out, and each owner that
is left waits for someone that it compared itself with: its elder waits for its younger, all the
way round, which cannot be. The comparison stays true while it waits: locks are handed on in the
order of the queue, so whoever comes to hold the lock before it was a holder or ahead of it at the
start.

Why nobody starves. The oldest owner never dies, queues are first in first out, and a retry keeps
its age, so each becomes the oldest in time.
"""

from __future__ import annotations

import asyncio
import enum
import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from schema.errors import StatementTimeout, TransactionAborted

LockName = tuple[str | bytes, ...]
"""What a lock is on: a kind, then what tells its things apart (txlayer/transaction.py)."""
Age = tuple[int, int, str]
"""When a transaction began, in milliseconds; its number, and its node, to tell two apart."""


class Moment(NamedTuple):
    """How far locks had been released, as far as it was known: to ask `undisturbed` about later."""

    assignment: int
    """The version of it that was known; 0 where there is none."""
    releases: Mapping[str, int]
    """Of each table, by its member's name, the number of its last release."""


FIRST = ("slow lane", "request")
"""Kinds of locks that are taken before all others, in this order."""
REMEMBERED = 16_384
"""Names of which a table knows when they were released last: some MB."""


class Mode(enum.Enum):
    """SHARED goes with SHARED; EXCLUSIVE goes with nothing."""

    SHARED = "shared"
    EXCLUSIVE = "exclusive"


class LockOwner:
    """One attempt of one transaction. `age` is kept over its retries; smaller is older.

    An owner asks for one lock at a time. `held` maps names to modes, in the order taken;
    `elsewhere` says that it holds, or awaits, locks of other tables too, which are not `FIRST`.
    """

    __slots__ = ("age", "elsewhere", "held", "waiting")

    def __init__(self, age: Age | int) -> None:
        self.age = age if isinstance(age, tuple) else (0, age, "")
        self.held: dict[LockName, Mode] = {}
        self.elsewhere = False
        self.waiting: tuple[LockName, _Waiter] | None = None

    @property
    def must_compare(self) -> bool:
        """Does it hold what somebody may wait for who holds something, too?"""
        return self.elsewhere or not only_first(self.held)


def only_first(names: Iterable[LockName]) -> bool:
    return all(name[0] in FIRST for name in names)


class Locks(Protocol):
    """All locks that transactions take, whosoever table they are in."""

    def take(self, owner: LockOwner, name: LockName, mode: Mode) -> bool:
        """`acquire`, if that needs no waiting; False if it does, or may."""

    async def acquire(
        self, owner: LockOwner, names: Iterable[LockName], mode: Mode, deadline: float | None = None
    ) -> None:
        """Take all of `names`. Raises TransactionAborted, StatementTimeout at the deadline."""

    def require_in_force(self, owner: LockOwner) -> None:
        """Raises TransactionAborted if a lock that `owner` was granted is worth nothing by now."""

    def clock(self, owner: LockOwner) -> int:
        """No later than all that was committed before under locks that `owner` was granted by
        other processes; 0 if it was granted none."""

    def moment(self) -> Moment:
        """Now."""

    def undisturbed(self, owner: LockOwner, names: Iterable[LockName], since: Moment) -> bool:
        """Has nobody released one of `names` since then, which `owner` holds now? Whoever has read
        meanwhile what they protect has read what is there still. False if it is not known."""

    def release_all(self, owner: LockOwner, commit_ts: int = 0) -> None:
        """Free everything. `commit_ts`: of what was committed under these locks, if anything."""


def _new_future() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


@dataclass(eq=False, slots=True)
class _Waiter:
    owner: LockOwner
    mode: Mode
    granted: asyncio.Future[None] = field(default_factory=_new_future)


class LockTable:
    """All locks of one slave. `_queues` has an entry only where somebody waits."""

    def __init__(self, granted: Callable[[LockName], object] = lambda _: None) -> None:
        """`granted` is told of each lock that is granted."""
        self._granted = granted
        self._holders: dict[LockName, dict[LockOwner, Mode]] = {}
        self._queues: dict[LockName, deque[_Waiter]] = {}
        self._released: dict[LockName, int] = {}  # number of the last release, oldest first
        self._unknown_until = 0
        self.releases = 0
        """How many there were."""

    async def acquire(
        self, owner: LockOwner, names: Iterable[LockName], mode: Mode, deadline: float | None = None
    ) -> None:
        """Take `names`, one after the other; does not suspend while they are free.

        Re-entrant; asking for EXCLUSIVE while holding SHARED upgrades, ahead of the queue.
        `deadline` is in seconds of the event loop's clock (that of `Clock.monotonic`).

        Raises TransactionAborted (reason "wait-die") when waiting could close a circle,
        StatementTimeout at the deadline. What the owner held before, it holds still.
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
        """Locks of a process's own table are in force as long as the process."""

    def clock(self, owner: LockOwner) -> int:
        return 0

    def moment(self) -> Moment:
        return Moment(0, {"": self.releases})

    def undisturbed(self, owner: LockOwner, names: Iterable[LockName], since: Moment) -> bool:
        return self.last_release(names) <= since.releases[""]

    def last_release(self, names: Iterable[LockName]) -> int:
        """The number of the last release of one of `names`, or a later one."""
        return max([self._released.get(name, self._unknown_until) for name in names], default=0)

    def release_all(self, owner: LockOwner, commit_ts: int = 0) -> None:
        """Free everything `owner` holds and hand it on; what it waits for it is refused.
        Idempotent."""
        self.refuse(owner, "The transaction was given up meanwhile.", "given up")
        names, owner.held = owner.held, {}
        for name in names:
            holders = self._holders[name]
            del holders[owner]
            if not holders:
                del self._holders[name]
            self._note_release(name)
            if name in self._queues:
                self._hand_on(name)

    def refuse(self, owner: LockOwner, why: str, reason: str) -> None:
        """Refuse what `owner` waits for, if it waits."""
        if owner.waiting is not None:
            self._refuse(*owner.waiting, why, reason)

    def refuse_waiting(self, concerned: Callable[[LockName], bool], why: str, reason: str) -> None:
        """Refuse all who wait for a lock whose name is `concerned`."""
        for name in [name for name in self._queues if concerned(name)]:
            # From the end, so that nobody is granted what he waited for behind who is refused.
            for waiter in reversed(list(self._queues.get(name, ()))):
                self._refuse(name, waiter, why, reason)

    def holds_any(self, concerned: Callable[[LockName], bool]) -> bool:
        """Is any lock held whose name is `concerned`?"""
        return any(concerned(name) for name in self._holders)

    @property
    def held_count(self) -> int:
        """Names that are locked."""
        return len(self._holders)

    @property
    def waiting_count(self) -> int:
        """Owners that wait."""
        return sum(map(len, self._queues.values()))

    def hot(self, n: int) -> list[tuple[LockName, int]]:
        """The `n` names that most owners wait for, with their number."""
        lengths = ((name, len(queue)) for name, queue in self._queues.items())
        return heapq.nlargest(n, lengths, key=lambda item: item[1])

    # ------------------------------------------------------------ inside

    def _is_free(self, name: LockName, mode: Mode, owner: LockOwner) -> bool:
        """May `owner` have it at once? An upgrade does not queue: the others wait for it too."""
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
        self._granted(name)

    def _note_release(self, name: LockName) -> None:
        """Shared ones too: what is done under a shared lock is what an exclusive one excludes."""
        self.releases += 1
        self._released.pop(name, None)
        self._released[name] = self.releases
        if len(self._released) > REMEMBERED:
            self._unknown_until = self._released.pop(next(iter(self._released)))

    def _die_if_younger(self, owner: LockOwner, name: LockName) -> None:
        if owner.must_compare and any(other.age <= owner.age for other in self._ahead(owner, name)):
            raise TransactionAborted(
                "An older transaction holds or awaits a lock that this one needs.",
                cure="Try again; the transaction keeps its place by age.",
                reason="wait-die",
            )

    def _ahead(self, owner: LockOwner, name: LockName) -> Iterator[LockOwner]:
        """Everybody whom `owner` would wait for, directly or through others in the queue."""
        yield from (holder for holder in self._holders.get(name, ()) if holder is not owner)
        if name not in owner.held:
            yield from (waiter.owner for waiter in self._queues.get(name, ()))

    async def _wait(
        self, owner: LockOwner, name: LockName, mode: Mode, deadline: float | None
    ) -> None:
        waiter = _Waiter(owner, mode)
        queue = self._queues.setdefault(name, deque())
        if name in owner.held:
            # Only one upgrade can wait: the second is younger than the first, and dies.
            queue.appendleft(waiter)
        else:
            queue.append(waiter)
        owner.waiting = (name, waiter)
        try:
            async with asyncio.timeout_at(deadline):
                await waiter.granted
        except TimeoutError:
            raise StatementTimeout(
                "The transaction waited for a lock until its time limit; nothing was written.",
                cure="Raise timeout_ms, or do less in the transactions that hold this lock.",
            ) from None
        finally:
            owner.waiting = None
            self._leave(name, waiter)

    def _refuse(self, name: LockName, waiter: _Waiter, why: str, reason: str) -> None:
        self._leave(name, waiter)
        waiter.owner.waiting = None
        if not waiter.granted.done():
            waiter.granted.set_exception(TransactionAborted(why, cure="Try again.", reason=reason))

    def _leave(self, name: LockName, waiter: _Waiter) -> None:
        """Take a waiter that gave up out of the queue; one that was granted is out of it."""
        queue = self._queues.get(name)
        if queue is not None and waiter in queue:
            queue.remove(waiter)
            self._hand_on(name)

    def _hand_on(self, name: LockName) -> None:
        """Grant to the head of the queue, and on, as long as the modes go together."""
        queue = self._queues[name]
        while queue and self._is_compatible(name, queue[0].mode, queue[0].owner):
            waiter = queue.popleft()
            self._grant(name, waiter.mode, waiter.owner)
            if not waiter.granted.done():
                waiter.granted.set_result(None)
        if not queue:
            del self._queues[name]
