"""What a member does when it reads a version, and when it acknowledges the version (decision
21)."""

import asyncio
from dataclasses import replace

import pytest
from msgspec.structs import replace as replaced

from hornbeam_server.schema.errors import Corruption, Unavailable
from hornbeam_server.storage.simulated.coordination import SESSION_S
from hornbeam_server.txlayer.cluster.assignment import PATH
from hornbeam_server.txlayer.cluster.membership import POLL_S, WORD_S
from hornbeam_server.txlayer.cluster.membership_view import slot_of
from hornbeam_server.txlayer.cluster.messages import Lock, Release
from hornbeam_server.txlayer.cluster.slot_rates import MEASURED_S
from hornbeam_server.txlayer.locking.locks import LockOwner, Mode
from tests.txlayer.members_world import NOTHING, World, found, members, refusal, soon, until
from tests.txlayer.txlayer_world import prepared
from tests.virtual_time import in_virtual_time

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
    """Like `found`, but each member reads the version at its next look."""
    show, world.show = world.show, lambda: None
    found(world, parties)
    world.show = show


def acknowledges(party):
    """Whether the member acknowledges the newest version."""
    word = party.word()
    return word is not None and word.version == party.world.version


async def looked():
    """Wait until every member has looked again."""
    await asyncio.sleep(LOOK_S)


def catalog(version, **changes):
    return replace(NOTHING, version=version, **changes)


# ---------------------------------------------------------------- joining


@in_virtual_time
async def test_a_node_that_joins_gives_its_addresses_and_acknowledges_nothing():
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
    assert not j.manager.gate.is_open  # the node may not commit yet
    world.write(members=tuple(replaced(m, commits=True) for m in world.assignment.members))
    await looked()
    assert j.manager.gate.is_open
    await world.end()


@in_virtual_time
async def test_a_version_is_acknowledged_with_a_clock_above_its_own():
    world, (a, b) = await living("a", "b")
    clock = a.hlc.observe() + 1_000_000
    world.write(clock=clock)
    await looked()
    assert a.word().clock >= clock
    assert b.word().clock >= clock
    assert a.hlc.tick() > clock
    await world.end()


@in_virtual_time
async def test_the_clock_is_merged_before_a_version_has_any_other_effect():
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


@in_virtual_time
async def test_a_death_is_acknowledged_once_logged_transactions_are_applied():
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


@in_virtual_time
async def test_commits_after_a_death_was_read_do_not_delay_its_acknowledgement():
    world, (a, *_) = await living("a", "b", "c")
    world.bury("b")
    world.show(a)
    hold_puts(world, puts := asyncio.Event())
    a.begin(a.committer.commit(prepared(1, ["x"])))
    await looked()
    assert acknowledges(a)
    puts.set()
    await world.end()


@in_virtual_time
async def test_a_second_death_waits_for_commits_after_the_first():
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


@in_virtual_time
async def test_a_recovery_is_acknowledged_once_the_locks_of_the_dead_are_free():
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


@in_virtual_time
async def test_the_owner_acknowledges_a_move_once_no_lock_of_the_slot_is_held():
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


@in_virtual_time
async def test_only_the_owner_waits_for_the_locks_of_a_leaving_slot():
    world, (a, _) = await living("a", "b")
    (theirs,) = world.names("b", 1)
    a.table.take(LockOwner(1), theirs, Mode.EXCLUSIVE)  # not a's own lock; only its slot matters
    world.leave(theirs, "a")
    await looked()
    assert acknowledges(a)
    await world.end()


@in_virtual_time
async def test_a_member_knows_when_it_owns_no_slots():
    world, (a, _) = await living("a", "b")
    assert not a.membership.owns_nothing
    world.write(slots=("b",) * len(world.assignment.slots))
    await looked()
    assert a.membership.owns_nothing
    await world.end()


# ---------------------------------------------------------------- the gate


@in_virtual_time
async def test_a_closed_gate_is_acknowledged_once_transactions_are_out_and_applied():
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


@in_virtual_time
async def test_a_new_catalog_is_used_before_the_gate_opens():
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


@in_virtual_time
async def test_a_catalog_that_cannot_be_read_is_requested_again():
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


# ---------------------------------------------------------------- reports and news


@in_virtual_time
async def test_a_member_reports_what_its_queries_read():
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


@in_virtual_time
async def test_a_stopping_member_reports_it_at_its_next_look():
    world, (a, _) = await living("a", "b")
    assert not a.word().leaves
    a.membership.leave()
    await looked()
    assert a.word().leaves
    assert acknowledges(a)
    await world.end()


@in_virtual_time
async def test_a_lost_word_is_sent_again_at_the_next_look():
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


@in_virtual_time
async def test_a_member_reads_the_assignment_on_news_and_otherwise_seldom():
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


@in_virtual_time
async def test_an_outage_of_the_service_only_delays_acknowledgements():
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


# ---------------------------------------------------------------- end of a membership


@in_virtual_time
async def test_a_member_that_was_declared_dead_stops():
    world, (a, b) = await living("a", "b")
    world.bury("b")
    error = await refusal(b.living)
    assert isinstance(error, Unavailable)
    assert "taken this node for dead" in str(error)
    assert not b.view.may_commit
    assert not acknowledges(b)
    assert not a.living.done()
    await world.end()


@in_virtual_time
async def test_a_member_that_lost_its_session_stops():
    world, (a, b) = await living("a", "b")
    world.registry.cut_off("b")
    await asyncio.sleep(2 * SESSION_S)
    error = await refusal(b.living)
    assert isinstance(error, Unavailable)
    assert "it has ended" in str(error)
    assert not a.living.done()
    await world.end()


@in_virtual_time
async def test_an_unreadable_assignment_ends_the_membership():
    world, (a,) = await living("a")
    world.registry.write(PATH, b"not an assignment", world.version)
    assert isinstance(await refusal(a.living), Corruption)
    await world.end()


@in_virtual_time
async def test_each_version_is_read_once():
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


@in_virtual_time
async def test_a_member_reports_locks_granted_in_its_slots_under_these_owners_only():
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


@in_virtual_time
async def test_locks_of_other_members_count_at_the_grantor():
    world, (a, b) = await living("a", "b")
    (name,) = world.names("a", 1)
    await b.do(b.locks.acquire(LockOwner(1), [name], Mode.EXCLUSIVE))
    await asyncio.sleep(MEASURED_S + WORD_S)
    assert list(a.word().rates) == [slot_of(name)]
    assert b.word().rates == {}
    await world.end()


# ---------------------------------------------------------------- clocks


@pytest.mark.parametrize(("skew_ms", "reported"), [(60_000, "ahead of"), (-60_000, "behind")])
@in_virtual_time
async def test_a_node_whose_clock_differs_from_all_others_does_not_join(skew_ms, reported):
    world, _ = await living("a", "b")
    j = await world.party("j", skew_ms)
    error = await refusal(j.do(j.membership.join()))
    assert isinstance(error, Unavailable)
    assert f"s {reported} that of http://a" in error.message
    assert f"s {reported} that of http://b" in error.message
    assert j.word() is None
    j.clock.skew_ms = 1_000
    await j.live()
    assert j.word() is not None
    await soon()
    await world.end()


@in_virtual_time
async def test_a_node_whose_clock_agrees_with_one_member_joins():
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


@in_virtual_time
async def test_the_first_node_joins_whatever_its_clock_shows():
    world = World()
    j = await world.party("j", 10**9)
    await j.live()
    assert j.word() is not None
    await soon()
    await world.end()
