"""Guards among several members: who guards, when a commit under them is in force, and what several
nodes make of it (docs/protocols/guards.md)."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from hornbeam_server.schema.errors import StatementTimeout, TransactionAborted
from hornbeam_server.storage.ports import Put
from hornbeam_server.txlayer.cluster.messages import Guard, GuardedHere, Refused, Release
from hornbeam_server.txlayer.commit.batches import Prepared
from hornbeam_server.txlayer.locking.guards import Ranges
from hornbeam_server.txlayer.locking.locks import LockOwner
from hornbeam_server.txlayer.statements.requests import Statement, TransactionRequest
from tests.txlayer.database_world import catalog_of
from tests.txlayer.members_world import members, refusal, soon
from tests.txlayer.nodes_world import nodes
from tests.txlayer.test_transactions_serializable import LEAVE, ON_CALL, SCHEMA
from tests.virtual_time import in_virtual_time

TABLE = "r.t.1"
HERE = Ranges({TABLE: [(b"b", b"d")]})
INSIDE = Prepared("0" * 32, 1, {TABLE: [Put(b"c", b"new")]}, [b"record"])
OUTSIDE = Prepared("0" * 32, 1, {TABLE: [Put(b"d", b"new")], "r.u.1": [Put(b"c", b"new")]}, [b""])


def asking(attempt=1, timeout_s=60.0):
    return Guard(attempt, (1, 1, "b"), HERE.by_table, timeout_s)


async def guard(party, owner=None):
    """Let a transaction of this member guard the range. Returns its owner."""
    owner = owner or LockOwner((1, 1, party.name))
    await party.do(party.locks.guard(owner, HERE, party.committer))
    return owner


@in_virtual_time
async def test_every_member_guards_and_frees():
    world, parties = await members("a", "b", "c")
    a, other = parties[0], LockOwner((9, 9, "z"))
    owner = await guard(a)
    for party in parties:
        assert party.locks.is_guarded(other, INSIDE)
        assert not party.locks.is_guarded(other, OUTSIDE)
    assert not a.locks.is_guarded(owner, INSIDE)
    a.locks.require_in_force(owner)
    a.locks.release_all(owner, 7_000)
    await soon()
    for party in parties:
        assert not party.locks.is_guarded(other, INSIDE)
    assert [party.hlc.last >= 7_000 for party in parties[1:]] == [True, True]
    await world.end()


@in_virtual_time
async def test_a_member_answers_when_earlier_commits_into_the_range_are_applied():
    world, (a, b) = await members("a", "b")
    answer = b.committer.commit(INSIDE)
    granted = await b.guests.guard("a", asking(), b.committer)
    committed = answer.result()
    assert granted == GuardedHere("b", b.hlc.last, {TABLE: committed.ts})
    assert b.hlc.last >= committed.ts
    owner = LockOwner((1, 1, "a"))
    guarded = await a.do(a.locks.guard(owner, HERE, a.committer))
    assert a.locks.clock(owner) >= committed.ts
    assert not guarded.is_unchanged(TABLE, committed.ts - 1)
    assert guarded.is_unchanged(TABLE, committed.ts)
    await world.end()


@in_virtual_time
async def test_commits_outside_the_range_are_not_waited_for():
    world, (a, b) = await members("a", "b")
    put, go_on = b.store.put, asyncio.Event()

    async def late(writes, ts):
        await go_on.wait()
        await put(writes, ts)

    b.store.put = late
    answer = b.committer.commit(OUTSIDE)
    assert isinstance(await a.do(b.guests.guard("a", asking(), b.committer)), GuardedHere)
    assert not answer.done()
    go_on.set()
    await answer
    await world.end()


@in_virtual_time
async def test_only_members_get_guards():
    world, (a, b, _) = await members("a", "b", "c")
    world.bury("c")
    world.show(a, b)
    refused = await a.guests.guard("c", asking(), a.committer)
    assert isinstance(refused, Refused)
    assert refused.reason == "not a member"
    await world.end()


@in_virtual_time
async def test_guards_of_the_dead_stay_until_their_logs_are_recovered():
    world, (a, _, c) = await members("a", "b", "c")
    await guard(c)
    world.bury("c")
    world.show(a)
    assert a.locks.is_guarded(LockOwner(9), INSIDE)
    a.guests.release("c", Release({1: 0}))  # a zombie's
    assert a.locks.is_guarded(LockOwner(9), INSIDE)
    world.write(dead=())
    world.show(a)
    assert not a.locks.is_guarded(LockOwner(9), INSIDE)
    await world.end()


@in_virtual_time
async def test_nothing_is_guarded_while_a_log_waits_for_its_recovery():
    world, (a, b, _) = await members("a", "b", "c")
    world.bury("c")
    world.show(a, b)
    refused = await refusal(guard(a))
    assert refused.details["reason"] == "recovering"
    await world.end()


@in_virtual_time
async def test_a_commit_needs_the_guards_of_all_members():
    """A member that has joined knows no guard, and a member that has died may have committed."""
    world, (a, *_) = await members("a", "b", "c")
    joining = await world.party("d")
    owner = await guard(a)
    a.locks.require_in_force(owner)
    world.write(members=(*world.assignment.members, replace(joining.member, commits=False)))
    world.show(a)
    with pytest.raises(TransactionAborted):
        a.locks.require_in_force(owner)
    world.write(members=world.assignment.members[:-1])
    world.show(a)
    with pytest.raises(TransactionAborted):  # it was a member in between
        a.locks.require_in_force(owner)
    another = await guard(a)
    world.bury("c")
    world.show(a)
    with pytest.raises(TransactionAborted):
        a.locks.require_in_force(another)
    await world.end()


@in_virtual_time
async def test_a_member_that_joins_during_the_question_makes_it_void():
    world, (a, *_) = await members("a", "b", "c")
    joining = await world.party("d")
    owner = LockOwner((1, 1, "a"))
    asked = a.begin(a.locks.guard(owner, HERE, a.committer))
    await asyncio.sleep(0)
    world.write(members=(*world.assignment.members, replace(joining.member, commits=False)))
    world.show(a)
    refused = await refusal(asked)
    assert refused.details["reason"] == "members changed"
    await world.end()


@in_virtual_time
async def test_a_member_that_does_not_apply_in_time_refuses():
    world, (a, b) = await members("a", "b")
    b.committer.commit(INSIDE)
    b.process.crash()
    owner = LockOwner((1, 1, "a"))
    deadline = asyncio.get_running_loop().time() + 0.5
    error = await refusal(a.begin(a.locks.guard(owner, HERE, a.committer, deadline)))
    assert isinstance(error, (TransactionAborted, StatementTimeout))
    await world.end()


async def leave(node, doctor, ward):
    request = TransactionRequest((Statement(LEAVE, (doctor, ward)),), serializable=True)
    return (await node.do(node.database.transact(request))).statements[0].affected


@in_virtual_time
async def test_a_condition_holds_over_the_commits_of_all_nodes():
    world = await nodes(0, 300, -300, catalog=catalog_of(SCHEMA))
    rows = ", ".join(f"({n}, {n % 2}, TRUE)" for n in range(12))
    await world.all[0].transact(f"INSERT INTO doctor VALUES {rows}")
    leaving = [leave(world.all[n % 3], n, n % 2) for n in range(12)]
    left = await asyncio.gather(*leaving)
    assert sum(left) == 10
    assert await world.all[1].fetch(ON_CALL, strong=True) == [(0, 1), (1, 1)]
    await world.end()


@in_virtual_time
async def test_a_condition_holds_over_the_death_of_a_node():
    """The node dies while its commits are under way; the others go on during its recovery."""
    for delay in (0.002, 0.005, 0.012):
        world = await nodes(0, 0, 0, catalog=catalog_of(SCHEMA))
        rows = ", ".join(f"({n}, 0, TRUE)" for n in range(6))
        await world.all[0].transact(f"INSERT INTO doctor VALUES {rows}")
        dying = next(node for node in world.all if node is not world.leader)
        lost = [asyncio.ensure_future(leave(dying, n, 0)) for n in (0, 1)]
        await asyncio.sleep(delay)
        others = [node for node in world.all if node is not dying]
        leaving = [asyncio.ensure_future(leave(others[n % 2], n, 0)) for n in range(2, 6)]
        dying.die()
        await asyncio.gather(*leaving)
        assert await others[0].value("SELECT count(*) FROM doctor WHERE d_on_call") > 0
        await asyncio.gather(leave(others[0], 0, 0), leave(others[1], 1, 0))
        assert await others[0].fetch(ON_CALL, strong=True) == [(0, 1)]
        for task in lost:
            task.cancel()
        await world.end()
