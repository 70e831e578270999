"""The lock table: modes, order, wait-die; and random schedules, each of which must end."""

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam_server.schema.errors import StatementTimeout, TransactionAborted
from hornbeam_server.txlayer.locking.locks import FIRST, LockName, LockOwner, LockTable, Mode
from tests.txlayer.txlayer_world import settle

S, X = Mode.SHARED, Mode.EXCLUSIVE


def begin(awaitable: Awaitable[None]) -> asyncio.Task[None]:
    return asyncio.ensure_future(awaitable)


def test_a_free_lock_is_taken_without_suspending():
    locks, owner = LockTable(), LockOwner(1)
    with pytest.raises(StopIteration):
        locks.acquire(owner, ["a"], X).send(None)
    assert owner.held == {"a": X}
    assert locks.held_count == 1


async def test_shared_locks_are_compatible_and_exclusive_locks_are_not():
    locks, owners = LockTable(), [LockOwner(n) for n in range(4)]
    await locks.acquire(owners[0], ["a"], S)
    await locks.acquire(owners[1], ["a"], S)
    writer = begin(locks.acquire(owners[2], ["a"], X))
    late_reader = begin(locks.acquire(owners[3], ["a"], S))
    await settle()
    assert locks.waiting_count == 2
    locks.release_all(owners[0])
    await settle()
    assert not writer.done()
    locks.release_all(owners[1])
    await settle()
    assert writer.done()
    assert not late_reader.done()  # readers do not pass a writer that waits
    locks.release_all(owners[2])
    await late_reader
    locks.release_all(owners[3])
    assert (locks.held_count, locks.waiting_count) == (0, 0)


async def test_waiters_are_served_in_order_of_arrival():
    locks, served = LockTable(), []

    async def one(number: int):
        owner = LockOwner(100 - number)  # later comers are older: age does not reorder
        await locks.acquire(owner, ["a"], X)
        served.append(number)
        await asyncio.sleep(0)
        locks.release_all(owner)

    await asyncio.gather(*(one(number) for number in range(20)))
    assert served == list(range(20))


async def test_a_release_wakes_only_the_readers_at_the_head():
    locks, writer = LockTable(), LockOwner(0)
    await locks.acquire(writer, ["a"], X)
    waits = [begin(locks.acquire(LockOwner(n), ["a"], m)) for n, m in enumerate([S, S, X, S])]
    await settle()
    locks.release_all(writer)
    await settle()
    assert [wait.done() for wait in waits] == [True, True, False, False]
    for wait in waits:
        wait.cancel()


async def test_a_held_lock_is_granted_again_and_exclusive_covers_shared():
    locks, owner = LockTable(), LockOwner(1)
    for mode in (S, S, X, X, S):
        await locks.acquire(owner, ["a"], mode)
    assert owner.held == {"a": X}
    locks.release_all(owner)
    locks.release_all(owner)
    assert locks.held_count == 0


async def test_an_upgrade_waits_for_other_readers_and_overtakes_the_queue():
    locks = LockTable()
    upgrader, reader, writer = LockOwner(1), LockOwner(2), LockOwner(3)
    await locks.acquire(upgrader, ["a"], S)
    await locks.acquire(reader, ["a"], S)
    waiting = begin(locks.acquire(writer, ["a"], X))
    await settle()
    upgrade = begin(locks.acquire(upgrader, ["a"], X))
    await settle()
    assert not upgrade.done()
    locks.release_all(reader)
    await upgrade
    assert upgrader.held == {"a": X}
    assert not waiting.done()
    locks.release_all(upgrader)
    await waiting


async def test_the_younger_of_two_upgrades_dies():
    locks, older, younger = LockTable(), LockOwner(1), LockOwner(2)
    await locks.acquire(older, ["a"], S)
    await locks.acquire(younger, ["a"], S)
    upgrade = begin(locks.acquire(older, ["a"], X))
    await settle()
    with pytest.raises(TransactionAborted):
        await locks.acquire(younger, ["a"], X)
    locks.release_all(younger)
    await upgrade


async def test_a_younger_owner_that_holds_a_lock_dies_with_reason():
    locks, older, younger = LockTable(), LockOwner((1, 0, "")), LockOwner((1, 0, "b"))
    await locks.acquire(older, ["a"], X)
    await locks.acquire(younger, ["b"], X)
    with pytest.raises(TransactionAborted) as died:
        await locks.acquire(younger, ["a"], X)
    assert died.value.retryable
    assert died.value.details == {"reason": "wait-die"}
    assert younger.held == {"b": X}
    assert locks.waiting_count == 0


async def test_an_older_owner_and_an_owner_without_locks_wait():
    locks, older, younger = LockTable(), LockOwner(1), LockOwner(2)
    await locks.acquire(younger, ["a"], X)
    await locks.acquire(older, ["b"], X)
    waits = begin(locks.acquire(older, ["a"], X))
    newcomer = begin(locks.acquire(LockOwner(9), ["b"], X))
    await settle()
    assert not waits.done()
    locks.release_all(younger)
    await waits
    assert not newcomer.done()
    locks.release_all(older)
    await newcomer


async def test_a_reader_dies_when_an_older_reader_holds_the_lock_it_queues_for():
    """Unless compatible holders count too, elder waits for middle, middle for fresh, fresh for
    elder."""
    locks = LockTable()
    elder, middle, fresh = LockOwner(1), LockOwner(2), LockOwner(3)
    await locks.acquire(elder, ["a"], S)
    await locks.acquire(middle, ["b"], X)
    waits = begin(locks.acquire(fresh, ["a"], X))
    await settle()
    with pytest.raises(TransactionAborted):
        await locks.acquire(middle, ["a"], S)
    locks.release_all(middle)
    await locks.acquire(elder, ["b"], X)
    locks.release_all(elder)
    await waits


async def test_a_deadline_ends_a_wait_and_lets_the_next_waiter_in():
    locks, reader, behind = LockTable(), LockOwner(1), LockOwner(3)
    await locks.acquire(reader, ["a"], S)
    deadline = asyncio.get_running_loop().time() + 0.01
    writer = begin(locks.acquire(LockOwner(2), ["a"], X, deadline))
    await settle()
    follower = begin(locks.acquire(behind, ["a"], S))
    with pytest.raises(StatementTimeout, match="lock"):
        await writer
    await follower
    assert locks.waiting_count == 0
    assert behind.held == {"a": S}


async def test_a_cancelled_wait_leaves_no_trace():
    locks, holder, gone = LockTable(), LockOwner(1), LockOwner(2)
    await locks.acquire(holder, ["a"], X)
    wait = begin(locks.acquire(gone, ["a"], X))
    await settle()
    wait.cancel()
    await settle()
    assert locks.waiting_count == 0
    locks.release_all(holder)
    assert locks.held_count == 0


async def test_a_lock_granted_to_a_cancelled_wait_is_freed_by_its_owner():
    locks, holder, gone = LockTable(), LockOwner(1), LockOwner(2)
    await locks.acquire(holder, ["a"], X)
    wait = begin(locks.acquire(gone, ["a"], X))
    await settle()
    locks.release_all(holder)
    wait.cancel()
    with pytest.raises(asyncio.CancelledError):
        await wait
    assert gone.held == {"a": X}
    locks.release_all(gone)
    assert locks.held_count == 0


async def test_hot_names_have_the_most_waiters():
    locks, holder = LockTable(), LockOwner(0)
    for name in "abc":
        await locks.acquire(holder, [name], X)
    waits = [begin(locks.acquire(LockOwner(n), [name], X)) for n, name in enumerate("bbbcc")]
    await settle()
    assert locks.hot(1) == [("b", 3)]
    assert locks.hot(9) == [("b", 3), ("c", 2)]
    assert (locks.held_count, locks.waiting_count) == (3, 5)
    for wait in waits:
        wait.cancel()


async def test_a_refused_waiter_keeps_the_locks_it_holds():
    locks, holder, waiter, behind = LockTable(), LockOwner(2), LockOwner(1), LockOwner(3)
    await locks.acquire(holder, ["a"], X)
    await locks.acquire(waiter, ["b"], X)
    wait = begin(locks.acquire(waiter, ["a"], X))
    following = begin(locks.acquire(behind, ["a"], X))
    await settle()
    locks.refuse(waiter, "not now", "leaving")
    with pytest.raises(TransactionAborted, match="not now") as refused:
        await wait
    assert refused.value.details == {"reason": "leaving"}
    assert (waiter.held, waiter.waiting) == ({"b": X}, None)
    locks.release_all(holder)
    await following
    assert locks.waiting_count == 0


async def test_refusing_an_owner_that_does_not_wait_changes_nothing():
    locks, holder, waiter = LockTable(), LockOwner(1), LockOwner(2)
    await locks.acquire(holder, ["a"], X)
    locks.refuse(holder, "not now", "leaving")
    locks.refuse(waiter, "not now", "leaving")
    wait = begin(locks.acquire(waiter, ["a"], X))
    await settle()
    locks.release_all(holder)
    locks.refuse(waiter, "not now", "leaving")  # granted, but not resumed yet
    await wait
    assert waiter.held == {"a": X}


async def test_all_waiters_for_some_names_can_be_refused():
    locks, holder = LockTable(), LockOwner(0)
    await locks.acquire(holder, "abc", X)
    waits = {n: begin(locks.acquire(LockOwner(n), ["abcab"[n]], X)) for n in range(5)}
    await settle()
    locks.refuse_waiting(lambda name: name in "ab", "they move", "leaving")
    await settle()
    refused = {n for n, wait in waits.items() if wait.done()}
    assert refused == {0, 1, 3, 4}
    for n in refused:
        with pytest.raises(TransactionAborted, match="they move"):
            await waits[n]
    assert (locks.held_count, locks.waiting_count) == (3, 1)
    locks.release_all(holder)
    await waits[2]


async def test_a_refused_upgrade_keeps_its_lock():
    locks, upgrader, reader = LockTable(), LockOwner(1), LockOwner(2)
    await locks.acquire(upgrader, ["a"], S)
    await locks.acquire(reader, ["a"], S)
    upgrade = begin(locks.acquire(upgrader, ["a"], X))
    await settle()
    locks.refuse_waiting(lambda _: True, "it moves", "leaving")
    with pytest.raises(TransactionAborted):
        await upgrade
    assert upgrader.held == {"a": S}
    locks.release_all(upgrader)
    locks.release_all(reader)
    assert locks.held_count == 0


async def test_releasing_a_waiting_owner_refuses_it():
    locks, holder, waiter = LockTable(), LockOwner(2), LockOwner(1)
    await locks.acquire(holder, ["a"], X)
    await locks.acquire(waiter, ["b"], X)
    wait = begin(locks.acquire(waiter, ["a"], X))
    await settle()
    locks.release_all(waiter)
    with pytest.raises(TransactionAborted) as refused:
        await wait
    assert refused.value.details == {"reason": "given up"}
    assert (locks.held_count, locks.waiting_count) == (1, 0)


async def test_holds_any_says_whether_a_matching_name_is_held():
    locks, owner = LockTable(), LockOwner(1)
    assert not locks.holds_any(lambda _: True)
    await locks.acquire(owner, ["a"], S)
    wait = begin(locks.acquire(LockOwner(2), ["a"], X))
    await settle()
    assert locks.holds_any(lambda name: name == "a")
    assert not locks.holds_any(lambda name: name == "b")
    locks.release_all(owner)
    assert locks.holds_any(lambda name: name == "a")  # the lock was handed on to the waiter
    wait.cancel()
    await settle()


async def test_locks_held_in_another_table_count_for_wait_die():
    locks, older, younger, oldest = LockTable(), LockOwner(2), LockOwner(3), LockOwner(1)
    await locks.acquire(older, ["a"], X)
    younger.holds_remote = oldest.holds_remote = True
    with pytest.raises(TransactionAborted) as died:
        await locks.acquire(younger, ["a"], X)
    assert died.value.details == {"reason": "wait-die"}
    assert locks.take(younger, "b", X)  # a free lock needs no wait
    wait = begin(locks.acquire(oldest, ["a"], X))
    await settle()
    locks.release_all(older)
    await wait


@pytest.mark.parametrize("first", FIRST)
async def test_an_owner_of_first_locks_alone_waits_for_elders(first):
    """Owners of other locks never wait for locks of the first kinds, so no cycle can arise."""
    locks, older, younger = LockTable(), LockOwner(1), LockOwner(2)
    await locks.acquire(older, [("root", "a")], X)
    await locks.acquire(younger, [(first, "of the younger")], X)
    wait = begin(locks.acquire(younger, [("root", "a")], X))
    await settle()
    assert locks.waiting_count == 1
    locks.release_all(older)
    await wait
    await locks.acquire(older, [("root", "b")], X)
    with pytest.raises(TransactionAborted):  # the younger owner holds a root by now
        await locks.acquire(younger, [("root", "b")], X)


async def test_an_attempt_dies_behind_an_earlier_attempt_of_its_age():
    """The release of the earlier attempt may be under way, so the transaction could wait for
    itself."""
    locks, earlier, again = LockTable(), LockOwner(1), LockOwner(1)
    await locks.acquire(earlier, ["a"], X)
    await locks.acquire(again, ["b"], X)
    with pytest.raises(TransactionAborted):
        await locks.acquire(again, ["a"], X)


def test_ages_are_ordered_by_time_number_and_node():
    ages = [LockOwner(age).age for age in (7, (1, 1, "b"), (1, 2, "a"), (1, 1, "a"), (0, 9, "z"))]
    assert sorted(ages) == [(0, 7, ""), (0, 9, "z"), (1, 1, "a"), (1, 1, "b"), (1, 2, "a")]


def test_a_single_process_relies_on_its_own_table():
    locks, owner = LockTable(), LockOwner(1)
    assert locks.take(owner, "a", X)
    locks.require_in_force(owner)
    assert locks.clock(owner) == 0
    locks.release_all(owner, 700)
    assert locks.held_count == 0


@pytest.mark.parametrize("mode", [S, X])
def test_a_lock_released_meanwhile_is_disturbed(mode):
    """A lock that is still held does not count; its owner and mode make no difference."""
    locks, other, mine = LockTable(), LockOwner(1), LockOwner(2)
    before = locks.known_releases()
    assert locks.take(other, "a", mode)
    held = locks.known_releases()
    assert locks.undisturbed(mine, ["a", "b"], before)
    locks.release_all(other)
    after = locks.known_releases()
    assert locks.take(mine, "a", X)
    assert not locks.undisturbed(mine, ["b", "a"], before)
    assert not locks.undisturbed(mine, ["a"], held)
    assert locks.undisturbed(mine, ["a"], after)
    assert locks.undisturbed(mine, ["b"], before)


@pytest.mark.parametrize(("bound", "value"), [("REMEMBERED", 2), ("REMEMBERED_BYTES", 2)])
def test_forgotten_names_count_as_disturbed(monkeypatch, bound, value):
    monkeypatch.setattr(f"hornbeam_server.txlayer.locking.locks.{bound}", value)
    locks, moments = LockTable(), []
    for name in "abac":
        moments.append(locks.known_releases())
        owner = LockOwner(1)
        assert locks.take(owner, name, X)
        locks.release_all(owner)

    def undisturbed(name):
        return [locks.undisturbed(owner, [name], moment) for moment in moments]

    # By now "b", the second name, is forgotten. Nothing before its release is known of any name.
    assert undisturbed("b") == [False, False, True, True]
    assert undisturbed("new") == [False, False, True, True]
    assert undisturbed("a") == [False, False, False, True]
    assert undisturbed("c") == [False, False, False, False]


class Contenders:
    """Transactions that take random locks in random order and start again when they die. Some take
    locks of the first kinds before, as copies of a request and repeated transactions do."""

    def __init__(self, seed: int, names: int) -> None:
        self.random = random.Random(seed)
        self.locks = LockTable()
        self.names = [("root", str(n)) for n in range(names)]
        self.inside: dict[LockName, dict[LockOwner, Mode]] = defaultdict(dict)
        self.deaths: dict[int, int] = {}

    async def transaction(self, age: int) -> None:
        wanted = [
            (self.random.choice(self.names), self.random.choice([S, X]))
            for _ in range(self.random.randint(1, 4))
        ]
        first = [("slow lane",), ("request", str(self.random.randrange(3)))]
        first = first[self.random.choice([0, 1, 2]) :]
        self.deaths[age] = 0
        while not await self._attempt(LockOwner(age), [*((name, X) for name in first), *wanted]):
            self.deaths[age] += 1
            await asyncio.sleep(0)

    async def _attempt(self, owner: LockOwner, wanted: list[tuple[LockName, Mode]]) -> bool:
        try:
            for name, mode in wanted:
                await self.locks.acquire(owner, [name], mode)
                self._enter(owner, name)
                for _ in range(self.random.randint(0, 2)):
                    await asyncio.sleep(0)
        except TransactionAborted:
            return False
        finally:
            for name in owner.held:
                self.inside[name].pop(owner, None)
            self.locks.release_all(owner)
        return True

    def _enter(self, owner: LockOwner, name: LockName) -> None:
        self.inside[name][owner] = owner.held[name]
        modes = list(self.inside[name].values())
        assert len(modes) == 1 or X not in modes


@settings(max_examples=60)
@given(st.integers(0, 1 << 30), st.integers(1, 5), st.integers(2, 40))
async def test_random_schedules_end_without_deadlock_and_keep_exclusion(seed, names, transactions):
    contenders = Contenders(seed, names)
    ages = list(range(transactions))
    contenders.random.shuffle(ages)
    async with asyncio.timeout(10):
        await asyncio.gather(*(contenders.transaction(age) for age in ages))
    assert (contenders.locks.held_count, contenders.locks.waiting_count) == (0, 0)
    assert contenders.deaths[0] == 0  # the oldest never dies


async def test_a_stream_of_newcomers_starves_no_transaction():
    """An old transaction over many hot locks ends while younger ones keep coming."""
    contenders = Contenders(7, 3)
    ages = iter(range(10, 10_000))
    finished = asyncio.Event()

    async def newcomers():
        while not finished.is_set():
            await contenders.transaction(next(ages))

    streams = [asyncio.ensure_future(newcomers()) for _ in range(6)]
    await settle()
    owner = LockOwner(5)
    for name in contenders.names:  # it is older than all newcomers, so it never has to die
        await contenders.locks.acquire(owner, [name], X)
        await settle()
    contenders.locks.release_all(owner)
    finished.set()
    await asyncio.gather(*streams)
    assert next(ages) < 1_000


async def test_refusing_a_writer_lets_no_refused_reader_in():
    """The reader waits behind the writer: refusing the writer alone would grant the reader its
    lock."""
    locks, reader, writer, behind = LockTable(), LockOwner(3), LockOwner(2), LockOwner(1)
    await locks.acquire(reader, ["a"], S)
    waits = [begin(locks.acquire(writer, ["a"], X)), begin(locks.acquire(behind, ["a"], S))]
    await settle()
    locks.refuse_waiting(lambda name: name == "a", "it moves", "leaving")
    for wait in waits:
        with pytest.raises(TransactionAborted, match="it moves"):
            await wait
    assert behind.held == {}
    assert locks.waiting_count == 0
