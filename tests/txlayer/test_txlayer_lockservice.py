"""Travelling locks: grants of owners to other members, and when a grant is in force (decision
21)."""

import asyncio

import msgspec
import pytest

from hornbeam_server.schema.errors import StatementTimeout, TransactionAborted, Unavailable
from hornbeam_server.txlayer.cluster.membership_view import slot_of
from hornbeam_server.txlayer.cluster.messages import (
    Freed,
    Granted,
    Lock,
    Refused,
    Release,
    decode_response,
)
from hornbeam_server.txlayer.locking.locks import LockOwner, Mode
from tests.txlayer.members_world import attempts, members, refusal, soon, until
from tests.virtual_time import in_virtual_time

S, X = Mode.SHARED, Mode.EXCLUSIVE


def asking(attempt, *names, age=(1, 1, "b"), must_compare=False, exclusive=True, timeout_s=60.0):
    return Lock(attempt, age, must_compare, exclusive, list(names), timeout_s)


def held(party):
    return party.table.held_count


async def guest(party, caller, *names, attempt=1, **options):
    """Let `caller` hold these locks."""
    granted = await party.guests.lock(caller, asking(attempt, *names, **options))
    assert isinstance(granted, Granted)


def free(party, caller, *numbers, commit_ts=0):
    assert party.guests.release(caller, Release(dict.fromkeys(numbers, commit_ts))) == Freed()


# ---------------------------------------------------------------- the owner: grants


@in_virtual_time
async def test_an_owner_grants_its_locks_with_its_clock():
    world, (a, _) = await members("a", "b")
    (name,) = world.names("a", 1)
    a.hlc.follow(77)
    granted = await a.guests.lock("b", asking(1, name))
    assert (granted.owner, granted.clock) == ("a", 77)
    assert a.guests.holds({slot_of(name)})
    assert held(a) == 1
    await world.end()


@in_virtual_time
async def test_a_grant_carries_the_clock_at_the_end_of_the_wait():
    world, (a, *_) = await members("a", "b", "c")
    (name,) = world.names("a", 1)
    await guest(a, "b", name)
    waits = asyncio.ensure_future(a.guests.lock("c", asking(1, name)))
    await soon()
    free(a, "b", 1, commit_ts=5_000)
    granted = await waits
    assert (granted.owner, granted.clock) == ("a", 5_000)
    await world.end()


@in_virtual_time
async def test_the_clock_is_merged_before_a_lock_is_free():
    """Otherwise the next holder might commit below the commits made under the lock."""
    world, (a, _) = await members("a", "b")
    (name,) = world.names("a", 1)
    await guest(a, "b", name)
    clocks = []
    release_all = a.table.release_all
    a.table.release_all = lambda owner: (clocks.append(a.hlc.last), release_all(owner))
    free(a, "b", 1, commit_ts=9_000)
    assert clocks == [9_000]
    assert held(a) == 0
    await world.end()


@in_virtual_time
async def test_an_owner_refuses_locks_of_other_owners():
    world, (a, _) = await members("a", "b")
    (mine,), (theirs,) = world.names("a", 1), world.names("b", 1)
    refused = await a.guests.lock("b", asking(1, mine, theirs))
    assert (type(refused), refused.reason) == (Refused, "not the owner")
    assert held(a) == 0
    await world.end()


@in_virtual_time
async def test_no_lock_is_granted_to_a_non_member():
    world, (a, _) = await members("a", "b")
    (name,) = world.names("a", 1)
    refused = await a.guests.lock("z", asking(1, name))
    assert (type(refused), refused.reason) == (Refused, "not a member")
    world.bury("b")
    world.show(a)
    refused = await a.guests.lock("b", asking(1, name))
    assert (type(refused), refused.reason) == (Refused, "not a member")
    assert held(a) == 0
    await world.end()


@in_virtual_time
async def test_no_lock_of_a_leaving_slot_is_granted():
    world, (a, _) = await members("a", "b")
    name, other = world.names("a", 2)
    world.leave(name, "b")
    world.show()
    refused = await a.guests.lock("b", asking(1, name))
    assert (type(refused), refused.reason) == (Refused, "not the owner")
    assert (await refusal(a.locks.acquire(LockOwner(1), [name], X))).details == {
        "reason": "leaving"
    }
    assert not a.locks.take(LockOwner(1), name, X)
    assert a.locks.take(LockOwner(1), other, X)
    await world.end()


@in_virtual_time
async def test_a_withdrawn_move_leaves_the_slot_with_its_owner():
    world, (a, *_) = await members("a", "b", "c")
    (name,) = world.names("a", 1)
    world.leave(name, "b")
    world.show()
    world.bury("c")
    world.show()
    await guest(a, "b", name)
    await world.end()


@in_virtual_time
async def test_waiters_are_refused_when_the_slot_begins_to_leave():
    world, (a, *_) = await members("a", "b", "c")
    name, other = world.names("a", 2)
    await guest(a, "b", name, other)
    guest_waits = asyncio.ensure_future(a.guests.lock("c", asking(1, name)))
    own_waits = asyncio.ensure_future(a.locks.acquire(LockOwner(1), [name], X))
    unconcerned = asyncio.ensure_future(a.guests.lock("c", asking(2, other)))
    await soon()
    world.leave(name, "b")
    world.show()
    assert (await guest_waits).reason == "leaving"
    assert (await refusal(own_waits)).details == {"reason": "leaving"}
    assert a.guests.holds({slot_of(name)})  # its earlier holder
    free(a, "b", 1)
    assert not a.guests.holds({slot_of(name)})
    assert isinstance(await unconcerned, Granted)
    await world.end()


@in_virtual_time
async def test_a_slot_does_not_leave_while_the_owner_holds_a_lock_of_it():
    world, (a, _) = await members("a", "b")
    (name,) = world.names("a", 1)
    owner = LockOwner(1)
    await a.locks.acquire(owner, [name], S)
    assert a.guests.holds({slot_of(name)})
    a.locks.release_all(owner)
    assert not a.guests.holds({slot_of(name)})
    await world.end()


@in_virtual_time
async def test_a_lock_of_a_slot_that_moves_during_a_wait_is_not_granted_to_a_guest():
    """The slot had this owner at the request and has another by now: two owners would grant the
    lock."""
    world, (a, *_) = await members("a", "b", "c")
    taken, moved = world.names("a", 2)
    await guest(a, "b", taken)
    waits = asyncio.ensure_future(a.guests.lock("c", asking(1, taken, moved)))
    await soon()
    world.leave(moved, "b")
    world.show()
    assert not a.guests.holds({slot_of(moved)})
    world.move()
    world.show()
    free(a, "b", 1)
    assert (await waits).reason == "not the owner"
    assert not a.guests.holds({slot_of(moved)})
    await world.end()


@in_virtual_time
async def test_the_owner_does_not_take_a_lock_of_a_slot_that_moves_during_a_wait():
    world, (a, *_) = await members("a", "b", "c")
    taken, moved = world.names("a", 2)
    await guest(a, "b", taken)
    waits = asyncio.ensure_future(a.locks.acquire(LockOwner(1), [taken, moved], X))
    await soon()
    world.leave(moved, "b")
    world.show()
    world.move()
    world.show()
    free(a, "b", 1)
    assert (await refusal(waits)).details == {"reason": "not the owner"}
    assert not a.guests.holds({slot_of(moved)})
    await world.end()


@in_virtual_time
async def test_the_owner_does_not_take_a_lock_of_a_slot_that_moves_during_a_request():
    world, (a, b, _) = await members("a", "b", "c")
    (theirs,), (moved,) = world.names("b", 1), world.names("a", 1)
    await guest(b, "c", theirs)
    waits = a.begin(a.locks.acquire(LockOwner(1), [theirs, moved], X))
    await soon()
    world.leave(moved, "b")
    world.show()
    world.move()
    world.show()
    free(b, "c", 1)
    assert (await refusal(waits)).details == {"reason": "not the owner"}
    assert not a.guests.holds({slot_of(moved)})
    await world.end()


# ---------------------------------------------------------------- the owner: releases


@in_virtual_time
async def test_a_release_frees_its_attempts_and_no_others():
    world, (a, *_) = await members("a", "b", "c")
    names = world.names("a", 4)
    await guest(a, "b", names[0], attempt=1)
    await guest(a, "b", names[1], attempt=2)
    await guest(a, "b", names[2], attempt=3)
    await guest(a, "c", names[3], attempt=1)
    free(a, "b", 1, 3)
    assert not a.guests.holds({slot_of(names[0]), slot_of(names[2])})
    assert held(a) == 2
    await world.end()


@in_virtual_time
async def test_repeated_and_unknown_releases_change_nothing():
    world, (a, *_) = await members("a", "b", "c")
    (name,) = world.names("a", 1)
    await guest(a, "b", name)
    free(a, "b", 1)
    await guest(a, "c", name)
    free(a, "b", 1)  # sent again
    free(a, "b", 9)
    free(a, "c", 9)
    assert held(a) == 1
    await world.end()


@in_virtual_time
async def test_a_release_ends_the_wait_of_its_attempt():
    world, (a, *_) = await members("a", "b", "c")
    (name,) = world.names("a", 1)
    await guest(a, "b", name)
    waits = asyncio.ensure_future(a.guests.lock("c", asking(1, name)))
    await soon()
    free(a, "c", 1)
    assert (await waits).reason == "given up"
    assert (held(a), a.table.waiting_count) == (1, 0)
    free(a, "b", 1)
    assert held(a) == 0
    await world.end()


@in_virtual_time
async def test_a_release_at_the_time_of_a_grant_leaves_no_lock():
    """The guest has its first lock, and has not gone on to request its second."""
    world, (a, *_) = await members("a", "b", "c")
    first, second = world.names("a", 2)
    await guest(a, "b", first)
    waits = asyncio.ensure_future(a.guests.lock("c", asking(1, first, second)))
    await soon()
    free(a, "b", 1)
    free(a, "c", 1)
    assert (await waits).reason == "given up"
    assert held(a) == 0
    await world.end()


@in_virtual_time
async def test_a_dead_member_is_granted_nothing_more_and_keeps_its_locks():
    world, (a, *_) = await members("a", "b", "c")
    mine, other = world.names("a", 2)
    await guest(a, "b", mine)
    await guest(a, "c", other)
    waits = asyncio.ensure_future(a.guests.lock("b", asking(2, other)))
    await soon()
    world.bury("b")
    world.show(a)
    assert (await waits).reason == "not a member"
    free(a, "c", 1)
    assert a.guests.holds({slot_of(mine)})
    assert not a.guests.holds({slot_of(other)})
    await world.end()


@in_virtual_time
async def test_a_member_that_dies_at_the_time_of_a_grant_gets_no_further_lock():
    world, (a, *_) = await members("a", "b", "c")
    first, second = world.names("a", 2)
    await guest(a, "c", first)
    waits = asyncio.ensure_future(a.guests.lock("b", asking(1, first, second)))
    await soon()
    free(a, "c", 1)
    world.bury("b")
    world.show(a)
    assert (await waits).reason == "not a member"
    assert not a.guests.holds({slot_of(second)})
    await world.end()


@in_virtual_time
async def test_releases_of_a_dead_member_free_nothing():
    """A dead member that goes on running believes its commit failed; the log may have it (rule
    4)."""
    world, (a, *_) = await members("a", "b", "c")
    (name,) = world.names("a", 1)
    await guest(a, "b", name)
    world.bury("b")
    world.show(a)
    free(a, "b", 1)
    assert a.guests.holds({slot_of(name)})
    await world.end()


@in_virtual_time
async def test_locks_and_waits_of_a_recovered_member_are_freed():
    world, (a, *_) = await members("a", "b", "c")
    mine, other = world.names("a", 2)
    await guest(a, "b", mine)
    world.bury("b")
    world.show(a)
    waits = asyncio.ensure_future(a.guests.lock("c", asking(1, mine)))
    await soon()
    assert not waits.done()
    world.write(dead=(), clock=8_000_000_000_000)
    world.show(a)
    granted = await waits
    assert (granted.owner, granted.clock) == ("a", 8_000_000_000_000)
    free(a, "c", 1)
    assert held(a) == 0
    await guest(a, "c", other, attempt=2)
    await world.end()


# ---------------------------------------------------------------- the coordinator


@in_virtual_time
async def test_own_locks_are_taken_without_message_or_suspension():
    world, (a, b) = await members("a", "b")
    (mine,), (theirs,) = world.names("a", 1), world.names("b", 1)
    owner = LockOwner(1)
    with pytest.raises(StopIteration):
        a.locks.acquire(owner, [mine], X).send(None)
    assert not a.locks.take(owner, theirs, X)
    assert a.locks.take(owner, mine, X)
    assert a.locks.clock(owner) == 0
    a.locks.release_all(owner)
    await soon()
    assert (held(a), b.received) == (0, [])
    await world.end()


@in_virtual_time
async def test_a_statement_sends_one_message_to_each_owner():
    world, (a, b, c) = await members("a", "b", "c")
    names = [*world.names("b", 3), *world.names("a", 2), *world.names("c", 3)]
    owner = LockOwner((7, 3, "a"))
    await a.do(a.locks.acquire(owner, names, S))
    assert [held(party) for party in (a, b, c)] == [2, 3, 3]
    (to_b,), (to_c,) = b.heard(Lock), c.heard(Lock)
    assert (to_b.names, to_b.age, to_b.exclusive) == (names[:3], (7, 3, "a"), False)
    assert to_c.names == names[5:]
    assert (to_b.must_compare, to_c.must_compare) == (False, True)
    a.begin(release(a, owner, 0))
    await soon()
    assert [held(party) for party in (a, b, c)] == [0, 0, 0]
    assert attempts(b.heard(Release)) == attempts(c.heard(Release)) == [to_b.attempt]
    await world.end()


async def release(party, owner, commit_ts=0):
    party.locks.release_all(owner, commit_ts)


@in_virtual_time
async def test_a_request_says_that_its_owner_holds_local_locks():
    world, (a, b) = await members("a", "b")
    owner = LockOwner(1)
    assert a.locks.take(owner, world.names("a", 1)[0], X)
    await a.do(a.locks.acquire(owner, world.names("b", 1), X))
    (asked,) = b.heard(Lock)
    assert asked.must_compare
    await world.end()


@in_virtual_time
async def test_a_request_lock_at_one_member_causes_no_death_at_another():
    world, (a, b, c) = await members("a", "b", "c")
    request, root = world.names("b", 1, kind="request")[0], world.names("c", 1)[0]
    older, younger = LockOwner((1, 1, "c")), LockOwner((2, 1, "a"))
    await c.do(c.locks.acquire(older, [root], X))
    await a.do(a.locks.acquire(younger, [request], X))
    waits = a.begin(a.locks.acquire(younger, [root], X))
    await soon()
    assert not waits.done()
    assert not c.heard(Lock)[-1].must_compare
    c.begin(release(c, older))
    await waits
    await a.do(a.locks.acquire(younger, world.names("b", 1), X))
    assert b.heard(Lock)[-1].must_compare
    await world.end()


@in_virtual_time
async def test_clocks_are_merged_on_grant_and_on_release():
    world, (a, b, c) = await members("a", "b", "c")
    owner = LockOwner(1)
    b.hlc.follow(a.hlc.last + 9_000_000_000_000)
    c.hlc.follow(5)
    await a.do(a.locks.acquire(owner, [*world.names("b", 1), *world.names("c", 1)], X))
    assert a.locks.clock(owner) == b.hlc.last == a.hlc.last
    a.begin(release(a, owner, commit_ts := a.hlc.tick()))
    await soon()
    assert b.hlc.last == c.hlc.last == commit_ts
    assert a.locks.clock(owner) == 0
    await world.end()


@in_virtual_time
async def test_two_attempts_of_the_same_age_are_kept_apart():
    world, (a, b) = await members("a", "b")
    (name,) = world.names("b", 1)
    first, second = LockOwner((5, 1, "a")), LockOwner((5, 1, "a"))
    await a.do(a.locks.acquire(first, [name], X))
    waits = a.begin(a.locks.acquire(second, [name], X))
    await soon()
    assert not waits.done()
    a.begin(release(a, first))
    await waits
    assert held(b) == 1
    await world.end()


@in_virtual_time
async def test_wait_die_considers_locks_at_other_members():
    """Neither table alone shows that these two wait for each other."""
    world, (_, b, c) = await members("a", "b", "c")
    (at_a,), (at_b,) = world.names("a", 1), world.names("b", 1)
    older, younger = LockOwner((1, 1, "c")), LockOwner((2, 1, "b"))
    await c.do(c.locks.acquire(older, [at_a], X))
    await b.do(b.locks.acquire(younger, [at_b], X))
    waits = c.begin(c.locks.acquire(older, [at_b], X))
    await soon()
    died = await refusal(b.do(b.locks.acquire(younger, [at_a], X)))
    assert died.details == {"reason": "wait-die"}
    b.begin(release(b, younger))
    await waits
    await world.end()


@in_virtual_time
async def test_wait_die_on_a_local_lock_considers_locks_at_other_members():
    world, (a, b) = await members("a", "b")
    (mine,), (theirs,) = world.names("a", 1), world.names("b", 1)
    older, younger = LockOwner((1, 1, "b")), LockOwner((2, 1, "a"))
    await b.do(b.locks.acquire(older, [mine], X))
    await a.do(a.locks.acquire(younger, [theirs], X))
    assert (await refusal(a.locks.acquire(younger, [mine], X))).details == {"reason": "wait-die"}
    await world.end()


@in_virtual_time
async def test_the_time_limit_ends_a_wait_at_another_member():
    world, (a, b) = await members("a", "b")
    (name,) = world.names("b", 1)
    assert b.locks.take(LockOwner((1, 1, "b")), name, X)
    owner = LockOwner((2, 1, "a"))
    deadline = a.clock.monotonic() + 1.5
    error = await refusal(a.do(a.locks.acquire(owner, [name], X, deadline)))
    assert isinstance(error, StatementTimeout)
    assert a.clock.monotonic() == pytest.approx(deadline, abs=0.01)
    a.begin(release(a, owner))
    await soon()
    assert (held(b), b.table.waiting_count) == (1, 0)
    await world.end()


@in_virtual_time
async def test_the_owner_of_a_lock_ends_a_wait_at_the_time_limit():
    """All monotonic clocks run alike; a coordinator that stands still would end the wait late."""
    world, (_, b) = await members("a", "b")
    (name,) = world.names("b", 1)
    assert b.locks.take(LockOwner((1, 1, "b")), name, X)
    began = b.clock.monotonic()
    refused = await b.guests.lock("a", asking(1, name, timeout_s=2.0))
    assert refused.reason == "timeout"
    assert b.clock.monotonic() == began + 2.0
    await world.end()


@in_virtual_time
async def test_a_passed_time_limit_leaves_no_wait_at_the_owner():
    world, (a, b) = await members("a", "b")
    (name,) = world.names("b", 1)
    assert b.locks.take(LockOwner((1, 1, "b")), name, X)
    error = await refusal(a.do(a.locks.acquire(LockOwner(1), [name], X, a.clock.monotonic() - 1)))
    assert isinstance(error, StatementTimeout)
    await soon()
    assert b.table.waiting_count == 0
    await world.end()


@in_virtual_time
async def test_a_cancelled_wait_at_another_member_frees_its_grants():
    world, (a, b) = await members("a", "b")
    free_one, taken = world.names("b", 2)
    assert b.locks.take(LockOwner((1, 1, "b")), taken, X)
    owner = LockOwner((0, 1, "a"))
    await a.do(a.locks.acquire(owner, [free_one], X))
    waits = a.begin(a.locks.acquire(owner, [taken], X))
    await soon()
    assert b.table.waiting_count == 1
    waits.cancel()
    a.begin(release(a, owner))
    await soon()
    assert (held(b), b.table.waiting_count) == (1, 0)
    await world.end()


@in_virtual_time
async def test_no_lock_of_an_orphaned_or_leaving_slot_is_requested():
    world, (a, b, c) = await members("a", "b", "c")
    (orphaned,), (leaving,) = world.names("c", 1), world.names("b", 1)
    world.bury("c")
    world.show()
    reasons = [await refusal(a.do(a.locks.acquire(LockOwner(1), [orphaned], X)))]
    world.write(dead=())
    world.leave(leaving, "a")
    world.show()
    reasons.append(await refusal(a.do(a.locks.acquire(LockOwner(1), [leaving], X))))
    assert [error.details["reason"] for error in reasons] == ["no owner", "leaving"]
    assert all(error.retryable for error in reasons)
    assert (b.received, c.received) == ([], [])
    await world.end()


@in_virtual_time
async def test_an_owner_with_an_older_assignment_refuses_and_is_asked_again():
    """The coordinator knows of a move that the new owner does not know yet."""
    world, (a, b, c) = await members("a", "b", "c")
    (name,) = world.names("b", 1)
    world.leave(name, "c")
    world.show()
    world.move()
    world.show(a)
    error = await refusal(a.do(a.locks.acquire(LockOwner(1), [name], X)))
    assert error.details == {"reason": "not the owner"}
    world.show(b, c)
    await a.do(a.locks.acquire(LockOwner(1), [name], X))
    assert held(c) == 1
    await world.end()


# ---------------------------------------------------------------- grants in force


@in_virtual_time
async def test_grants_of_a_former_member_are_not_in_force():
    world, (a, *_) = await members("a", "b", "c")
    rests, does_not = LockOwner(1), LockOwner(2)
    await a.do(a.locks.acquire(rests, [*world.names("b", 1), *world.names("c", 1)], X))
    await a.do(a.locks.acquire(does_not, world.names("c", 1), X))
    a.locks.require_in_force(rests)
    world.bury("b")
    world.show(a)
    with pytest.raises(TransactionAborted) as gone:
        a.locks.require_in_force(rests)
    assert gone.value.details == {"reason": "grantor gone"}
    a.locks.require_in_force(does_not)
    world.write(dead=())
    world.show(a)
    with pytest.raises(TransactionAborted):
        a.locks.require_in_force(rests)  # names are new with each session: b does not come back
    await world.end()


@in_virtual_time
async def test_no_locks_of_a_node_that_may_not_commit_are_in_force():
    world, (a, b) = await members("a", "b")
    owner = LockOwner(1)
    assert a.locks.take(owner, world.names("a", 1)[0], X)
    a.locks.require_in_force(owner)
    world.bury("a")
    world.show(a)
    with pytest.raises(Unavailable):
        a.locks.require_in_force(owner)
    joining = await world.party("j")
    world.change(dead=(), members=(*world.assignment.members, joining.member))
    with pytest.raises(Unavailable):
        joining.locks.require_in_force(LockOwner(1))
    b.locks.require_in_force(LockOwner(1))
    await world.end()


@in_virtual_time
async def test_a_new_attempt_asks_the_new_owner_after_its_grantor_is_gone():
    world, (a, _, c) = await members("a", "b", "c")
    (name,) = world.names("b", 1)
    first = LockOwner((1, 1, "a"))
    await a.do(a.locks.acquire(first, [name], X))
    world.bury("b")
    world.parties["b"].die()
    world.show()
    a.begin(release(a, first))
    slots = tuple(owner or "c" for owner in world.assignment.slots)
    world.change(dead=(), slots=slots)
    again = LockOwner((1, 1, "a"))
    await a.do(a.locks.acquire(again, [name], X))
    a.locks.require_in_force(again)
    assert c.guests.holds({slot_of(name)})
    await world.end()


# ---------------------------------------------------------------- broken connections


@in_virtual_time
async def test_a_lock_requested_on_a_broken_connection_is_freed_on_the_next_one():
    world, (a, b) = await members("a", "b")
    name, taken = world.names("b", 2)
    assert b.locks.take(LockOwner((1, 1, "b")), taken, X)
    owner = LockOwner((0, 1, "a"))
    await a.do(a.locks.acquire(owner, [name], X))
    waits = a.begin(a.locks.acquire(owner, [taken], X))
    await soon()
    a.peers.cut()
    error = await refusal(waits)
    assert isinstance(error, TransactionAborted)
    assert error.details == {"reason": "no answer"}
    assert (held(b), b.table.waiting_count) == (2, 1)
    a.begin(release(a, owner))
    await soon()
    assert (held(b), b.table.waiting_count) == (1, 0)
    assert [number for _, number in a.peers.connected] == [1, 2]
    await world.end()


@in_virtual_time
async def test_a_lock_is_never_taken_after_the_release_of_its_attempt():
    """Connections break at any time, and each attempt is given up at once."""
    world, (a, b) = await members("a", "b", seed=5)
    names = world.names("b", 3)
    for number in range(200):
        owner = LockOwner((number, 1, "a"))
        asks = a.begin(a.locks.acquire(owner, names, X))
        await asyncio.sleep(world.chaos.random.uniform(0, 0.004))
        if world.chaos.random.random() < 0.5:
            a.peers.cut()
        asks.cancel()
        a.begin(release(a, owner))
    await until(lambda: held(b) == 0, 2.0)
    seen = {attempt: kind for kind, attempt in reported(b)}
    assert len(seen) > 50
    freed = set()
    for kind, attempt in reported(b):
        if kind is Release:
            freed.add(attempt)
        else:
            assert attempt not in freed
    await world.end()


def reported(party):
    """The kind and the attempt of each message, in order."""
    for _, request in party.received:
        for attempt in attempts([request]):
            yield type(request), attempt


# ---------------------------------------------------------------- locks that others had meanwhile


async def taken(party, *names):
    owner = LockOwner(1)
    await party.do(party.locks.acquire(owner, names, X))
    return owner


async def used(party, *names):
    """Take these locks and release them again."""
    owner = await taken(party, *names)
    party.locks.release_all(owner)
    await soon()


@in_virtual_time
async def test_guests_disturb_the_owners_own_locks():
    world, (a, _) = await members("a", "b")
    mine, other = world.names("a", 2)
    before = a.locks.known_releases()
    await guest(a, "b", mine)
    assert a.locks.undisturbed(LockOwner(1), [mine, other], before)
    free(a, "b", 1)
    owner = await taken(a, mine, other)
    assert not a.locks.undisturbed(owner, [other, mine], before)
    assert a.locks.undisturbed(owner, [other], before)
    assert a.locks.undisturbed(owner, [mine], a.locks.known_releases())
    await world.end()


@in_virtual_time
async def test_a_grant_says_whether_others_had_the_lock():
    world, (a, b) = await members("a", "b")
    first, quiet, busy = world.names("b", 3)
    unknown = a.locks.known_releases()
    owner = await taken(a, first)
    assert not a.locks.undisturbed(owner, [first], unknown)
    # From this grant on a knows how far b has counted.
    before = a.locks.known_releases()
    await used(b, busy)
    await a.do(a.locks.acquire(owner, [quiet], X))
    assert a.locks.undisturbed(owner, [quiet], before)
    await a.do(a.locks.acquire(owner, [busy], X))
    assert not a.locks.undisturbed(owner, [busy], before)
    assert not a.locks.undisturbed(owner, [quiet, busy], before)
    assert a.locks.undisturbed(owner, [quiet, busy], a.locks.known_releases())
    await world.end()


@in_virtual_time
async def test_a_holder_that_the_owner_serves_first_disturbs_the_lock():
    world, (a, b) = await members("a", "b")
    (name,) = world.names("b", 1)
    await used(a, name)
    await used(a, name)
    before = a.locks.known_releases()
    waiting_for = await taken(b, name)
    wait = asyncio.ensure_future(taken(a, name))
    await soon()
    assert not wait.done()
    b.locks.release_all(waiting_for)
    owner = await wait
    assert not a.locks.undisturbed(owner, [name], before)
    assert a.locks.undisturbed(owner, [name], a.locks.known_releases())
    await world.end()


@in_virtual_time
async def test_a_grant_by_an_older_version_of_the_code_counts_as_disturbed():
    """Its answer ends with the clock."""
    world, (a, b) = await members("a", "b")
    (name,) = world.names("b", 1)
    await used(a, name)
    before, lock = a.locks.known_releases(), b.guests.lock

    async def older(caller, request):
        granted = await lock(caller, request)
        return decode_response(msgspec.msgpack.encode(["granted", granted.owner, granted.clock]))

    b.guests.lock = older
    owner = await taken(a, name)
    assert not a.locks.undisturbed(owner, [name], before)
    await world.end()


@in_virtual_time
@pytest.mark.parametrize("grantor", ["a", "b"])
async def test_under_another_assignment_every_lock_counts_as_disturbed(grantor):
    """A slot may have come, or left and come back, and others have granted its locks meanwhile."""
    world, (a, b) = await members("a", "b")
    (name,) = world.names(grantor, 1)
    await used(a, name)
    before = a.locks.known_releases()
    for party in (a, b):
        party.see(party.view.version + 1, party.view.assignment)
    owner = await taken(a, name)
    assert not a.locks.undisturbed(owner, [name], before)
    assert a.locks.undisturbed(owner, [name], a.locks.known_releases())
    await world.end()


@in_virtual_time
async def test_a_grant_under_a_newer_assignment_counts_as_disturbed():
    """The owner has read an assignment that the coordinator has not: for all that the coordinator
    knows, its count of releases started again."""
    world, (a, b) = await members("a", "b")
    (name,) = world.names("b", 1)
    await used(a, name)
    before = a.locks.known_releases()
    b.see(b.view.version + 1, b.view.assignment)
    owner = await taken(a, name)
    assert not a.locks.undisturbed(owner, [name], before)
    assert not a.locks.undisturbed(owner, [name], a.locks.known_releases())
    await world.end()
