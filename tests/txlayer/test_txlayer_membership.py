"""What a member does when it sees a version, and when it acknowledges it (decision 21's table)."""

import asyncio
from dataclasses import replace

import pytest
from members_world import NOTHING, World, found, members, refusal, simulated, soon, until
from msgspec.structs import replace as replaced
from txlayer_world import prepared

from hornbeam_server.schema.errors import Corruption, Unavailable
from hornbeam_server.storage.simulated.coordination import SESSION_S
from hornbeam_server.txlayer.cluster.assignment import PATH
from hornbeam_server.txlayer.cluster.membership import POLL_S, WORD_S
from hornbeam_server.txlayer.cluster.membership_view import slot_of
from hornbeam_server.txlayer.cluster.messages import Lock, Release
from hornbeam_server.txlayer.cluster.slot_rates import MEASURED_S
from hornbeam_server.txlayer.transactions.locks import LockOwner, Mode

LOOK_S = 2 * POLL_S


async def living(*names):
    """Members that look by themselves; they have acknowledged the newest version."""
    world = World()
    parties = [await world.party(name) for name in names]
    for party in parties:
        await party.live()
    found_by_master(world, parties)
    await until(lambda: all(acknowledges(party) for party in parties))
    return world, parties


def found_by_master(world, parties):
    """As `found`, but each sees it at its next look."""
    show, world.show = world.show, lambda: None
    found(world, parties)
    world.show = show


def acknowledges(party):
    """The newest version?"""
    word = party.word()
    return word is not None and word.version == party.world.version


async def looked():
    """Everybody has looked by now."""
    await asyncio.sleep(LOOK_S)


def catalog(version, **changes):
    return replace(NOTHING, version=version, **changes)


# ---------------------------------------------------------------- joining


@simulated
async def test_who_would_be_a_member_says_where_it_is_and_acknowledges_nothing():
    world, (a,) = await living("a")
    j = await world.party("j")
    await j.live()
    world.write()
    await looked()
    word = j.word()
    assert (word.address, word.peer, word.version) == ("http://j", j.member.peer, 0)
    assert not j.manager.gate.is_open
    world.write(members=(*world.assignment.members, j.member))
    await looked()
    assert acknowledges(j)
    assert acknowledges(a)
    assert not j.manager.gate.is_open  # it may not commit yet
    world.write(members=tuple(replaced(m, commits=True) for m in world.assignment.members))
    await looked()
    assert j.manager.gate.is_open
    await world.end()


@simulated
async def test_a_version_is_acknowledged_with_a_clock_that_has_merged_its_own():
    world, (a, b) = await living("a", "b")
    clock = a.hlc.observe() + 1_000_000
    world.write(clock=clock)
    await looked()
    assert a.word().clock >= clock
    assert b.word().clock >= clock
    assert a.hlc.tick() > clock
    await world.end()


@simulated
async def test_the_clock_is_merged_before_anything_else_is_done_by_a_version():
    world, (a, _) = await living("a", "b")
    clock = a.hlc.observe() + 1_000_000
    seen = []
    for part in (a.view, a.guests, a.snapshots, a.links):
        for name in ("see", "forget_strangers"):
            if hasattr(part, name):
                setattr(part, name, noting(a, seen, getattr(part, name)))
    world.write(clock=clock)
    await looked()
    assert len(seen) == 4
    assert min(seen) >= clock
    await world.end()


def noting(party, seen, call):
    def noted(*arguments):
        seen.append(party.hlc.last)
        return call(*arguments)

    return noted


# ---------------------------------------------------------------- deaths


@simulated
async def test_a_death_is_acknowledged_when_what_was_handed_to_the_log_is_applied():
    world, (a, _, c) = await living("a", "b", "c")
    puts = asyncio.Event()
    hold_puts(world, puts)
    commit = a.begin(a.committer.commit(prepared(1, ["x"])))
    await soon()
    world.bury("b")
    await looked()
    assert acknowledges(c)
    assert not acknowledges(a)
    later = a.begin(a.committer.commit(prepared(2, ["y"])))
    await looked()
    assert not acknowledges(a)
    puts.set()
    await commit
    await looked()
    assert acknowledges(a)
    await later
    await world.end()


@simulated
async def test_what_is_handed_over_after_a_death_was_seen_is_not_waited_for():
    world, (a, *_) = await living("a", "b", "c")
    world.bury("b")
    world.show(a)
    hold_puts(world, puts := asyncio.Event())
    a.begin(a.committer.commit(prepared(1, ["x"])))
    await looked()
    assert acknowledges(a)
    puts.set()
    await world.end()


@simulated
async def test_a_second_death_waits_for_what_was_handed_over_after_the_first():
    world, (a, *_) = await living("a", "b", "c")
    world.bury("b")
    await looked()
    hold_puts(world, puts := asyncio.Event())
    a.begin(a.committer.commit(prepared(1, ["x"])))
    await soon()
    world.write(members=world.assignment.members[:1], dead=(*world.assignment.dead, c_of(world)))
    await looked()
    assert not acknowledges(a)
    puts.set()
    await looked()
    assert acknowledges(a)
    await world.end()


def c_of(world):
    return world.parties["c"].member


def hold_puts(world, until_set):
    put = world.store.put

    async def late(writes, ts):
        await until_set.wait()
        await put(writes, ts)

    world.store.put = late


@simulated
async def test_recovery_is_acknowledged_when_the_locks_of_the_dead_are_free():
    world, (a, b, _) = await living("a", "b", "c")
    names = world.names("a", 2)
    await b.do(b.locks.acquire(LockOwner((1, 1, "b")), names, Mode.EXCLUSIVE))
    world.bury("b")
    await looked()
    assert a.table.held_count == 2
    world.write(dead=())
    await until(lambda: acknowledges(a))
    assert a.table.held_count == 0
    await world.end()


# ---------------------------------------------------------------- moves


@simulated
async def test_a_move_is_acknowledged_by_the_owner_when_no_lock_of_the_slot_is_held():
    world, (a, b) = await living("a", "b")
    name, other = world.names("a", 2)
    mine = LockOwner((1, 1, "a"))
    await a.do(a.locks.acquire(mine, [name, other], Mode.SHARED))
    guest = Lock(1, (2, 2, "b"), False, False, [name], 60.0)
    await a.guests.lock("b", guest)
    world.leave(name, "b")
    await looked()
    assert (acknowledges(a), acknowledges(b)) == (False, True)
    a.guests.release("b", Release({1: 0}))
    await looked()
    assert not acknowledges(a)
    mine.held.pop(other)  # a lock of a slot that stays
    a.locks.release_all(mine)
    await looked()
    assert acknowledges(a)
    assert a.table.held_count == 1
    await world.end()


@simulated
async def test_a_slot_that_leaves_another_member_is_nothing_to_wait_for():
    world, (a, _) = await living("a", "b")
    (theirs,) = world.names("b", 1)
    a.table.take(LockOwner(1), theirs, Mode.EXCLUSIVE)  # left of nothing; only its name counts
    world.leave(theirs, "a")
    await looked()
    assert acknowledges(a)
    await world.end()


@simulated
async def test_a_member_knows_when_it_owns_nothing():
    world, (a, _) = await living("a", "b")
    assert not a.membership.owns_nothing
    world.write(slots=("b",) * len(world.assignment.slots))
    await looked()
    assert a.membership.owns_nothing
    await world.end()


# ---------------------------------------------------------------- the gate


@simulated
async def test_a_closed_gate_is_acknowledged_when_nobody_is_inside_and_all_is_applied():
    world, (a, b) = await living("a", "b")
    await a.manager.gate.enter(1e9)
    hold_puts(world, puts := asyncio.Event())
    commit = a.begin(a.committer.commit(prepared(1, ["x"])))
    await soon()
    world.write(gate_closed=True)
    await looked()
    assert not a.manager.gate.is_open
    assert (acknowledges(a), acknowledges(b)) == (False, True)
    a.manager.gate.leave()
    await looked()
    assert not acknowledges(a)
    puts.set()
    await commit
    await looked()
    assert acknowledges(a)
    assert a.word().clock >= a.committer.acknowledged
    await world.end()


@simulated
async def test_the_catalog_in_force_is_used_before_the_gate_is_opened():
    world, (a, _) = await living("a", "b")
    world.catalogs[3] = catalog(3)
    loads = asyncio.Event()

    async def load(version):
        await loads.wait()
        return world.catalogs[version]

    a.membership._load = load
    world.write(gate_closed=True)
    await looked()
    world.write(gate_closed=False, catalog=3)
    await looked()
    assert not a.manager.gate.is_open
    assert not acknowledges(a)
    loads.set()
    await looked()
    assert a.manager.gate.is_open
    assert a.manager.state.catalog.version == 3
    assert acknowledges(a)
    await world.end()


@simulated
async def test_a_catalog_that_cannot_be_read_is_asked_for_again():
    world, (a, _) = await living("a", "b")
    tries = []

    async def load(version):
        tries.append(version)
        if len(tries) < 3:
            raise Unavailable("The store is away.")
        return catalog(version)

    a.membership._load = load
    world.write(gate_closed=True)
    await looked()
    world.write(gate_closed=False, catalog=3)
    await until(lambda: acknowledges(a), 1.0)
    assert tries == [3, 3, 3]
    assert a.manager.gate.is_open
    await world.end()


# ---------------------------------------------------------------- words


@simulated
async def test_a_member_says_what_its_queries_read():
    world, (a, _) = await living("a", "b")
    world.catalogs[3] = catalog(3)
    async with a.readers.reading(0):
        with a.readers.holding(77), a.readers.holding(99):
            world.write(catalog=3)
            await asyncio.sleep(WORD_S + LOOK_S)
            assert (a.word().reading, a.word().holding) == (0, 77)
    await asyncio.sleep(WORD_S + LOOK_S)
    assert (a.word().reading, a.word().holding) == (3, 0)
    await world.end()


@simulated
async def test_a_member_that_is_stopped_says_so_at_its_next_look():
    world, (a, _) = await living("a", "b")
    assert not a.word().leaves
    a.membership.leave()
    await looked()
    assert a.word().leaves
    assert acknowledges(a)
    await world.end()


@simulated
async def test_a_word_that_did_not_arrive_is_said_again_at_the_next_look():
    world, (a, _) = await living("a", "b")
    join, tries = a.coordination.join, []

    async def lost(name, data):
        tries.append(a.clock.monotonic())
        if len(tries) == 1:
            raise Unavailable("The service does not answer.")
        await join(name, data)

    a.coordination.join = lost
    world.write()
    await until(lambda: acknowledges(a), 1.0)
    assert tries[1] - tries[0] == pytest.approx(POLL_S, abs=0.01)
    await world.end()


@simulated
async def test_a_member_asks_for_the_assignment_when_there_is_news_and_else_seldom():
    world, (a,) = await living("a")
    read, asked = a.coordination.read, []

    def noted(path):
        asked.append(path)
        return read(path)

    a.coordination.read = noted
    await asyncio.sleep(10)
    assert 10 <= len(asked) <= 22, "once a second, and when it has said its own word"
    before = len(asked)
    world.write()
    await until(lambda: acknowledges(a), 2 * POLL_S)
    assert len(asked) > before
    await world.end()


@simulated
async def test_a_service_that_is_away_for_a_while_changes_nothing():
    world, (a, _) = await living("a", "b")
    read, away = a.coordination.read, True

    async def failing(path):
        if away:
            raise Unavailable("The service is away.")
        return await read(path)

    a.coordination.read = failing
    world.write()
    await asyncio.sleep(2)
    assert not acknowledges(a)
    away = False
    await looked()
    assert acknowledges(a)
    await world.end()


# ---------------------------------------------------------------- the end


@simulated
async def test_who_is_taken_for_dead_stops():
    world, (a, b) = await living("a", "b")
    world.bury("b")
    error = await refusal(b.living)
    assert isinstance(error, Unavailable)
    assert "taken this node for dead" in str(error)
    assert not b.view.may_commit
    assert not acknowledges(b)
    assert not a.living.done()
    await world.end()


@simulated
async def test_who_has_lost_its_session_stops():
    world, (a, b) = await living("a", "b")
    world.registry.cut_off("b")
    await asyncio.sleep(2 * SESSION_S)
    error = await refusal(b.living)
    assert isinstance(error, Unavailable)
    assert "it has ended" in str(error)
    assert not a.living.done()
    await world.end()


@simulated
async def test_an_assignment_that_cannot_be_read_ends_the_membership():
    world, (a,) = await living("a")
    world.registry.write(PATH, b"not an assignment", world.version)
    assert isinstance(await refusal(a.living), Corruption)
    await world.end()


@simulated
async def test_a_version_is_seen_once():
    world, (a,) = await members("a")
    await a.live()
    versions = []
    see = a.view.see
    a.view.see = lambda version, assignment: (versions.append(version), see(version, assignment))
    for _ in range(3):
        world.write()
        await asyncio.sleep(5 * POLL_S)
    assert versions == [2, 3, 4]
    await world.end()


# ---------------------------------------------------------------- load


@simulated
async def test_a_member_says_what_is_granted_in_its_slots_and_nothing_of_what_was_under_others():
    world, (a, b) = await living("a", "b")
    (name,) = world.names("a", 1)
    for _ in range(20):
        owner = LockOwner(1)
        await a.do(a.locks.acquire(owner, [name], Mode.EXCLUSIVE))
        a.locks.release_all(owner)
    await asyncio.sleep(MEASURED_S + WORD_S)
    rate = a.word().rates[slot_of(name)]
    assert rate > 0
    assert b.word().rates == {}
    world.write()
    await looked()
    assert acknowledges(a)
    assert a.word().rates[slot_of(name)] == rate
    world.leave(name, "b")
    await looked()
    world.move()
    await looked()
    for party in (a, b):
        assert acknowledges(party)
        assert party.word().rates is None
    await world.end()


@simulated
async def test_locks_granted_to_other_members_count_where_they_are_granted():
    world, (a, b) = await living("a", "b")
    (name,) = world.names("a", 1)
    await b.do(b.locks.acquire(LockOwner(1), [name], Mode.EXCLUSIVE))
    await asyncio.sleep(MEASURED_S + WORD_S)
    assert list(a.word().rates) == [slot_of(name)]
    assert b.word().rates == {}
    await world.end()


# ---------------------------------------------------------------- clocks


@pytest.mark.parametrize(("skew_ms", "told"), [(60_000, "ahead of"), (-60_000, "behind")])
@simulated
async def test_who_differs_from_everybody_in_time_does_not_join_until_its_clock_is_set(
    skew_ms, told
):
    world, _ = await living("a", "b")
    j = await world.party("j", skew_ms)
    error = await refusal(j.do(j.membership.join()))
    assert isinstance(error, Unavailable)
    assert f"s {told} that of http://a" in error.message
    assert f"s {told} that of http://b" in error.message
    assert j.word() is None
    j.clock.skew_ms = 1_000
    await j.live()
    assert j.word() is not None
    await soon()
    await world.end()


@simulated
async def test_who_agrees_with_somebody_in_time_joins():
    world = World()
    a, b = await world.party("a"), await world.party("b", 60_000)
    for party in (a, b):
        await party.live()
    found_by_master(world, [a, b])
    await until(lambda: acknowledges(a) and acknowledges(b))
    j = await world.party("j")
    await j.live()
    assert j.word() is not None
    await soon()
    await world.end()


@simulated
async def test_the_first_node_has_nobody_to_compare_its_clock_with():
    world = World()
    j = await world.party("j", 10**9)
    await j.live()
    assert j.word() is not None
    await soon()
    await world.end()
