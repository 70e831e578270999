"""The master of members that only acknowledge: deaths at every step, also of the master itself."""

import asyncio
import itertools
from collections import Counter
from functools import partial, wraps

import pytest

from hornbeam_server.schema.errors import Corruption, Unavailable
from hornbeam_server.storage.simulated.chaos import Chaos, Fault, Profile
from hornbeam_server.storage.simulated.clock import SimulatedClock
from hornbeam_server.storage.simulated.coordination import (
    SESSION_S,
    SimulatedCoordination,
    SimulatedRegistry,
)
from hornbeam_server.storage.simulated.loop import run_simulated
from hornbeam_server.storage.simulated.network import RemoteCalls
from hornbeam_server.txlayer.cluster.assignment import PATH, SLOTS, Assignment, Word
from hornbeam_server.txlayer.cluster.balance import PAYS
from hornbeam_server.txlayer.cluster.election import Candidate, Election
from hornbeam_server.txlayer.cluster.master import FOLLOW_S, RETRY_S, Master, Superseded
from tests.depth import depth
from tests.txlayer.assignment_laws import check_clock, check_step, names

LOOK_S = 0.02
SOON_S = 2.0
"""Within this time the assignment settles unless a test prevents it."""
LONG_S = 60.0
"""The virtual time limit of a test: a wait that would never end fails."""


def run(scenario):
    return run_simulated(asyncio.wait_for(scenario, LONG_S))


def in_limited_virtual_time(test):
    """Run a coroutine test in virtual time, of which it may take `LONG_S`."""

    @wraps(test)
    def plain(**fixtures):
        run(test(**fixtures))

    return plain


class Registry(SimulatedRegistry):
    """A registry that checks every version of the assignment."""

    def __init__(self):
        super().__init__(asyncio.get_running_loop().time)
        self.versions = [Assignment.founded("", 0)]
        self.words, self.recovered, self.were_dead = {}, {}, set()

    def write(self, path, value, expected):
        version = super().write(path, value, expected)
        if path == PATH:
            old, new = self.versions[-1], Assignment.decode(value)
            check_step(old, expected, new, self.words, self.recovered, self.were_dead)
            if self.is_step_of_all(old, new):
                check_clock(old, new, self.words)
            self.were_dead |= names(new.dead)
            self.versions.append(new)
        return version

    def is_step_of_all(self, old, new):
        """Whether the step is neither a death nor a change of master alone: all words are known
        then."""
        return names(old.members) <= names(new.members) and old.master == new.master and old != new

    def join(self, session, member, data=b""):
        super().join(session, member, data)
        self.words[member] = Word.decode(data)

    @property
    def newest(self):
        return self.versions[-1]


class World:
    """The coordination service and the logs: how long a recovery takes, and what it finds."""

    def __init__(self):
        self.registry = Registry()
        self.nodes = {}
        self.tries = []  # (member, epoch, node that recovers)
        self.found = Counter()
        self.fails = Counter()
        self.may_recover = asyncio.Event()
        self.may_recover.set()

    async def node(self, name, chaos=None):
        node = self.nodes[name] = Node(self, name, chaos)
        await node.process.start(node.come())
        return node

    async def recover(self, member, epoch, by):
        self.tries.append((member.name, epoch, by))
        await self.may_recover.wait()
        if self.fails[member.name] > 0:
            self.fails[member.name] -= 1
            raise Unavailable("The log is away.")
        self.registry.recovered[member.name] = self.found[member.name]
        return self.found[member.name]

    async def settled(self, *members, seconds=SOON_S):
        """Check: exactly these are members, all may commit and own about as much, and none is
        dead."""
        await asyncio.sleep(seconds)
        newest = self.registry.newest
        assert names(newest.members) == set(members)
        assert all(member.commits for member in newest.members)
        assert (newest.dead, newest.leaving, newest.gate_closed) == ((), {}, False)
        sizes = Counter(newest.slots).values()
        assert sum(sizes) == SLOTS
        assert len(sizes) == len(members)
        assert max(sizes) <= (1 + 1 / PAYS) * SLOTS / len(members) + 1

    def check_epochs(self):
        """Check that each recovery of a log has a higher epoch than the one before."""
        for name in {name for name, _, _ in self.tries}:
            epochs = [epoch for of, epoch, _ in self.tries if of == name]
            assert epochs == sorted(set(epochs))
        for _, epoch, by in self.tries:
            assert self.registry.versions[epoch].master == by

    async def end(self):
        self.check_epochs()
        for node in self.nodes.values():
            for task in node.tasks:
                assert not task.done() or isinstance(task.exception(), Unavailable | None)
            node.process.crash()
            await node.process.bury()
        assert asyncio.get_running_loop().uncaught == []


class Node:
    """A member that acknowledges each version that it reads, unless it `is_stuck`."""

    def __init__(self, world, name, chaos):
        loop = asyncio.get_running_loop()
        self.world, self.name = world, name
        self.process = loop.process(name)
        self.word = Word(f"http://{name}", f"{name}:1", rates={})
        self.is_stuck = self.reads_old = False
        self.master = self.calls = None
        self.tasks = []
        if chaos is not None:
            self.calls = RemoteCalls(
                loop, chaos, self.process, "coordination service",
                refused=Fault.COORDINATION_REFUSED, unknown=Fault.LOG_UNKNOWN,
            )  # fmt: skip

    async def come(self):
        self.session = await SimulatedCoordination.open(self.world.registry, self.calls)
        self.acting = asyncio.ensure_future(self.act())

    async def act(self):
        said = None
        while self.session.alive():
            try:
                known = await self.session.read(PATH)
                if known is not None:
                    self.see(Assignment.decode(known.value), known.version)
                if self.word != said:
                    await self.session.join(self.name, self.word.encode())
                    said = self.word
            except Unavailable:
                said = None
            await asyncio.sleep(LOOK_S)

    def see(self, assignment, version):
        if not assignment.is_member(self.name) or self.is_stuck:
            return
        if version > self.word.version:
            self.say(version=version, clock=max(self.word.clock, assignment.clock) + 1)
        if not self.reads_old:
            self.say(reading=assignment.catalog)

    def say(self, **changed):
        self.word = Word(**{name: changed.get(name, getattr(self.word, name))
                            for name in Word.__struct_fields__})  # fmt: skip

    def lead(self, catalog=0):
        """Run the master on this node from now on."""
        self.master = Master(self.session, SimulatedClock(), self.name, self.recover, catalog)
        self.leading = self.begin(self.master.run())
        return self.master

    def begin(self, work):
        """Start `work`, which may end with Unavailable."""
        self.tasks.append(self.process.start(work))
        return self.tasks[-1]

    async def recover(self, member, epoch):
        return await self.world.recover(member, epoch, self.name)

    async def stand_by(self):
        """Run the master once this node is elected."""
        election = Election(self.session, SimulatedClock(), Candidate(self.name, ""))
        async for _ in election.standing_by():
            pass
        known = await self.persistently_read()
        catalog = Assignment.decode(known.value).catalog if known is not None else 0
        self.lead(catalog)

    async def persistently_read(self):
        while True:
            try:
                return await self.session.read(PATH)
            except Unavailable:
                await asyncio.sleep(LOOK_S)

    def die(self):
        """Crash the process and end its session."""
        self.process.crash()
        self.world.registry.end(self.session._session)


async def until(condition):
    while not condition():  # noqa: ASYNC110 (in virtual time)
        await asyncio.sleep(LOOK_S)


async def world_of(*names_):
    """A world of these nodes; the first is the master."""
    world = World()
    for name in names_:
        await world.node(name)
    world.nodes[names_[0]].lead()
    await world.settled(*names_)
    return world


@in_limited_virtual_time
async def test_members_join_and_dead_members_are_recovered():
    world = await world_of("a")
    for name in "bcd":
        await world.node(name)
    await world.settled(*"abcd")
    world.found["b"] = 1_000_000
    world.nodes["b"].die()
    await world.settled(*"acd")
    assert world.registry.newest.clock >= 1_000_000
    assert [name for name, _, _ in world.tries] == ["b"]
    await world.end()


@in_limited_virtual_time
async def test_a_member_that_leaves_hands_over_all_its_slots():
    world = await world_of(*"abc")
    world.nodes["b"].say(leaves=True)
    await asyncio.sleep(SOON_S)
    assert set(world.registry.newest.slots) == set("ac")
    assert names(world.registry.newest.members) == set("abc")
    world.nodes["b"].die()
    await world.settled(*"ac")
    await world.end()


@in_limited_virtual_time
async def test_a_failed_recovery_is_repeated_under_a_higher_epoch():
    world = await world_of(*"abc")
    world.fails["c"] = 3
    world.nodes["c"].die()
    begun = asyncio.get_running_loop().time()
    await until(lambda: "c" in world.registry.were_dead and not world.registry.newest.dead)
    assert len(world.tries) == 4
    assert asyncio.get_running_loop().time() - begun > 3 * RETRY_S
    await world.settled("a", "b")
    await world.end()


@in_limited_virtual_time
async def test_dead_members_are_recovered_in_parallel_before_a_new_member_commits():
    world = await world_of(*"abcd")
    world.may_recover.clear()
    world.nodes["c"].die()
    await asyncio.sleep(SOON_S)
    world.nodes["d"].die()
    await world.node("e")
    await asyncio.sleep(SOON_S)
    newest = world.registry.newest
    assert [name for name, _, _ in world.tries] == ["c", "d"]
    assert names(newest.dead) == set("cd")
    assert [member.name for member in newest.members if not member.commits] == ["e"]
    world.may_recover.set()
    await world.settled(*"abe")
    await world.end()


@in_limited_virtual_time
async def test_an_unexpected_error_of_a_recovery_ends_the_master():
    world = await world_of(*"ab")

    async def recover(member, epoch):
        raise Corruption("The log is damaged.")

    world.nodes["a"].master._recover = recover
    world.nodes["b"].die()
    with pytest.raises(Corruption):
        await world.nodes["a"].tasks.pop()
    with pytest.raises(Unavailable, match="not the master"):
        await world.nodes["a"].master.wait_until_all_past(0)
    await world.end()


@in_limited_virtual_time
async def test_recoveries_end_with_the_master():
    world = await world_of(*"abc")
    world.may_recover.clear()
    world.nodes["c"].die()
    await asyncio.sleep(SOON_S)
    assert [by for _, _, by in world.tries] == ["a"]
    world.nodes["b"].lead()
    with pytest.raises(Superseded):
        await world.nodes["a"].leading
    await asyncio.sleep(SOON_S)
    assert [by for _, _, by in world.tries] == ["a", "b"]
    world.may_recover.set()
    await world.settled(*"ab")
    await world.end()


# ---------------------------------------------------------------- changes of the schema


async def change(world, master, log):
    """Put the next catalog into force."""
    async with master.gate_closed() as clock:
        newest, version = world.registry.newest, len(world.registry.versions) - 1
        assert newest.gate_closed
        for member in newest.members:
            if member.name not in world.registry.were_dead:
                word = world.registry.words[member.name]
                closed = world.registry.versions[word.version]
                assert closed.gate_closed
                assert clock >= word.clock or word.version == version
        master.catalog += 1
        master.raise_clock(clock + 100)
        log.append(clock)
        await asyncio.sleep(0.3)
        assert world.registry.newest.gate_closed


@in_limited_virtual_time
async def test_a_schema_change_exceeds_all_clocks_and_every_member_reads_it():
    world = await world_of(*"abc")
    master, log = world.nodes["a"].master, []
    world.nodes["b"].reads_old = True
    await change(world, master, log)
    newest = world.registry.newest
    assert (newest.gate_closed, newest.catalog) == (False, 1)
    assert newest.clock >= log[0] + 100
    reads = asyncio.ensure_future(master.wait_until_all_past(1))
    await asyncio.sleep(SOON_S)
    assert not reads.done()
    world.nodes["b"].reads_old = False
    await reads
    await world.end()


@in_limited_virtual_time
async def test_what_members_read_is_unknown_before_the_take_over():
    world = await world_of(*"ab")
    node = world.nodes["b"]
    successor = Master(node.session, SimulatedClock(), "b", node.recover, catalog=0)
    reads = asyncio.ensure_future(successor.wait_until_all_past(1))
    await asyncio.sleep(SOON_S)
    node.begin(successor.run())
    await asyncio.sleep(SOON_S)
    assert not reads.done()
    async with successor.gate_closed():
        successor.catalog = 1
    await reads
    await world.end()


@in_limited_virtual_time
async def test_the_gate_is_closed_once_every_member_has_acknowledged_it():
    world = await world_of(*"ab")
    world.nodes["b"].is_stuck = True
    log = []
    changing = asyncio.ensure_future(change(world, world.nodes["a"].master, log))
    await asyncio.sleep(SOON_S)
    assert world.registry.newest.gate_closed
    assert log == []
    world.nodes["b"].is_stuck = False
    await changing
    assert log
    await world.end()


@in_limited_virtual_time
@pytest.mark.parametrize("stuck_s", [0.5, 3 * FOLLOW_S])
async def test_a_change_ends_when_every_member_follows_it_or_time_is_up(stuck_s):
    """A client finds its change at every node then. A member that hangs delays it for a while."""
    world = await world_of(*"ab")
    master, slow = world.nodes["a"].master, world.nodes["b"]
    async with master.gate_closed():
        master.catalog += 1
        slow.is_stuck = True
        began = asyncio.get_running_loop().time()
        asyncio.get_running_loop().call_later(stuck_s, setattr, slow, "is_stuck", False)
    took_s = asyncio.get_running_loop().time() - began
    opened = world.registry.newest
    assert (opened.gate_closed, opened.catalog) == (False, 1)
    if stuck_s < FOLLOW_S:
        followed = world.registry.versions[world.registry.words["b"].version]
        assert (followed.gate_closed, followed.catalog) == (False, 1)
        assert stuck_s <= took_s < FOLLOW_S
    else:
        assert FOLLOW_S <= took_s < stuck_s
    await asyncio.sleep(stuck_s)
    await world.end()


@in_limited_virtual_time
async def test_a_change_that_is_in_force_succeeds_although_another_node_becomes_the_master():
    world = await world_of(*"ab")
    master, node = world.nodes["a"].master, world.nodes["b"]
    successor = Master(node.session, SimulatedClock(), "b", node.recover, catalog=1)
    async with master.gate_closed():
        master.catalog += 1
        node.is_stuck = True
        asyncio.get_running_loop().call_later(FOLLOW_S / 2, node.begin, successor.run())
    with pytest.raises(Unavailable, match="not the master"):
        await master.wait_until_all_past(1)
    await world.end()


@in_limited_virtual_time
async def test_concurrent_schema_changes_run_one_after_another():
    world = await world_of(*"ab")
    log = []
    await asyncio.gather(*[change(world, world.nodes["a"].master, log) for _ in range(3)])
    assert [v.catalog for v in world.registry.versions if v.gate_closed] == [0, 1, 2]
    assert world.registry.newest.catalog == 3
    assert log == sorted(log)
    assert log[2] >= log[0] + 200
    await world.end()


@in_limited_virtual_time
async def test_a_death_before_the_gate_is_shut_opens_it_and_delays_the_change():
    world = await world_of(*"abc")
    world.may_recover.clear()
    world.nodes["b"].is_stuck = True
    log = []
    changing = asyncio.ensure_future(change(world, world.nodes["a"].master, log))
    await asyncio.sleep(SOON_S)
    world.nodes["c"].die()
    world.nodes["b"].is_stuck = False
    await asyncio.sleep(SOON_S)
    assert not world.registry.newest.gate_closed
    assert log == []
    world.may_recover.set()
    await changing
    assert world.registry.newest.catalog == 1
    await world.settled(*"ab")
    await world.end()


@in_limited_virtual_time
async def test_a_death_behind_the_shut_gate_keeps_it_closed_until_change_and_recovery_end():
    world = await world_of(*"abc")
    world.may_recover.clear()
    changing = asyncio.ensure_future(change(world, world.nodes["a"].master, log := []))
    await until(lambda: log)
    world.nodes["c"].die()
    await asyncio.sleep(SOON_S)
    assert names(world.registry.newest.dead) == {"c"}
    assert world.registry.newest.gate_closed
    assert not changing.done()
    world.may_recover.set()
    await changing
    assert world.registry.newest.catalog == 1
    await world.settled(*"ab")
    await world.end()


@pytest.mark.parametrize("after_s", [0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0])
@in_limited_virtual_time
async def test_a_cancelled_change_opens_the_gate_for_the_next_change(after_s):
    world = await world_of(*"ab")
    master, log = world.nodes["a"].master, []
    changing = asyncio.ensure_future(change(world, master, log))
    await asyncio.sleep(after_s)
    changing.cancel()
    await asyncio.wait([changing])
    await change(world, master, log)
    await world.settled(*"ab")
    assert world.registry.newest.catalog == len(log) == master.catalog
    await world.end()


@in_limited_virtual_time
async def test_a_change_waits_until_a_cancelled_change_has_opened_the_gate():
    world = await world_of(*"ab")
    node, log = world.nodes["a"], []
    write, may_write, is_asked = node.session.write, asyncio.Event(), asyncio.Event()

    async def slow_write(path, value, expected):
        if log:
            is_asked.set()
            await may_write.wait()
        return await write(path, value, expected)

    node.session.write = slow_write
    first = asyncio.ensure_future(change(world, node.master, log))
    await is_asked.wait()
    first.cancel()
    await asyncio.wait([first])
    second = asyncio.ensure_future(change(world, node.master, log))
    await asyncio.sleep(SESSION_S)
    assert len(log) == 1
    may_write.set()
    await second
    assert [v.catalog for v in world.registry.versions if v.gate_closed] == [0, 1]
    await world.end()


@in_limited_virtual_time
async def test_a_change_that_fails_opens_the_gate():
    world = await world_of(*"ab")
    with pytest.raises(Corruption):
        async with world.nodes["a"].master.gate_closed():
            raise Corruption("So it is.")
    await world.settled(*"ab")
    assert world.registry.newest.catalog == 0
    await world.end()


# ---------------------------------------------------------------- other masters


@in_limited_virtual_time
async def test_only_the_later_of_two_masters_writes():
    world = await world_of(*"ab")
    await world.node("c")
    changing = asyncio.ensure_future(change(world, world.nodes["a"].master, []))
    world.nodes["a"].is_stuck = True
    await asyncio.sleep(SOON_S)
    world.nodes["b"].lead()
    await asyncio.sleep(SOON_S)
    taken = next(n for n, v in enumerate(world.registry.versions) if v.master == "b")
    assert {v.master for v in world.registry.versions[taken:]} == {"b"}
    await world.node("d")
    world.nodes["a"].is_stuck = False
    await world.settled(*"abcd")
    assert {v.master for v in world.registry.versions[taken:]} == {"b"}
    with pytest.raises(Superseded):
        await world.nodes["a"].leading
    with pytest.raises(Unavailable, match="not the master"):
        await changing
    await world.end()


@pytest.mark.parametrize("call", ["read", "members", "write"])
@in_limited_virtual_time
async def test_a_master_without_session_ends_even_if_the_service_does_not_answer(call):
    world = await world_of(*"ab")
    session = world.nodes["a"].session

    async def refused(*_):
        raise Unavailable("The service is away.")

    setattr(session, call, refused)
    await world.node("c")
    await asyncio.sleep(SOON_S)
    assert not world.nodes["a"].leading.done()
    world.registry.cut_off("a")
    await asyncio.sleep(SESSION_S + SOON_S)
    assert world.nodes["a"].leading.done()
    with pytest.raises(Unavailable, match="session"):
        await world.nodes["a"].leading
    await world.end()


@in_limited_virtual_time
async def test_a_master_with_nothing_to_write_notices_its_successor():
    world = await world_of(*"ab")
    reads = asyncio.ensure_future(world.nodes["a"].master.wait_until_all_past(1))
    world.nodes["b"].lead()
    with pytest.raises(Superseded):
        await world.nodes["a"].leading
    with pytest.raises(Unavailable, match="not the master"):
        await reads
    await world.settled(*"ab")
    assert not world.nodes["b"].leading.done()
    await world.end()


@in_limited_virtual_time
async def test_a_successor_opens_the_gate_at_once_with_its_catalog_and_clock():
    world = await world_of(*"abc")
    changing = world.nodes["a"].begin(change(world, world.nodes["a"].master, log := []))
    await until(lambda: log)
    world.nodes["c"].is_stuck = True
    world.nodes["a"].die()
    successor = Master(
        world.nodes["b"].session, SimulatedClock(), "b", world.nodes["b"].recover, catalog=1
    )
    successor.raise_clock(1_000)
    world.nodes["b"].begin(successor.run())
    await asyncio.sleep(SOON_S)
    taken_over = next(v for v in world.registry.versions if v.master == "b")
    assert (taken_over.gate_closed, taken_over.catalog, taken_over.clock) == (False, 1, 1_000)
    world.nodes["c"].is_stuck = False
    await world.settled("b", "c")
    assert not changing.done()
    await world.end()


@in_limited_virtual_time
async def test_of_masters_that_begin_together_one_goes_on():
    world = World()
    for name in "abc":
        await world.node(name)
    for node in world.nodes.values():
        node.lead()
    await world.settled(*"abc")
    leading = [node.leading for node in world.nodes.values() if not node.leading.done()]
    assert len(leading) == 1
    await world.node("d")
    await world.settled(*"abcd")
    await world.end()


@in_limited_virtual_time
async def test_a_frozen_master_notices_that_it_was_replaced():
    world = await world_of(*"abc")
    frozen = world.nodes["a"]
    changing = frozen.begin(change(world, frozen.master, []))
    frozen.process.freeze()
    await asyncio.sleep(SESSION_S)
    world.nodes["b"].lead()
    await world.settled(*"bc")
    written = len(world.registry.versions)
    frozen.process.thaw()
    for task in (frozen.leading, changing):
        with pytest.raises(Unavailable):
            await task
    await world.settled(*"bc")
    assert len(world.registry.versions) == written
    await world.end()


async def busy_world(chaos=None):
    """A world in which a, b or c is elected, a first."""
    world = World()
    for name in "abcd":
        await world.node(name, chaos)
        await asyncio.sleep(0.2)
    for name in "abc":
        world.nodes[name].begin(world.nodes[name].stand_by())
    await asyncio.sleep(2 * SOON_S)
    return world


async def be_busy(world, first):
    """Node d dies and is recovered at the third attempt; e and f join and get the slots of d and
    more; the schema changes."""
    world.fails["d"] = 2
    world.nodes["d"].die()
    for name in "ef":
        await world.node(name)
    if first.master is not None:
        first.begin(change(world, first.master, []))


class Fatal:
    """Counts the visible effects of a master: its writes, and the beginnings and ends of its
    recoveries. The master dies just before or after the effect of this `number`."""

    def __init__(self, world, victim, number, moment):
        self.world, self.victim = world, victim
        self.left = number if moment == "before" else number + 1
        self.moment = moment
        self.seen = []

    def around(self, what, effect):
        self.seen.append(what)
        self.left -= 1
        if self.moment == "before" and self.left < 0:
            self.victim.die()
            raise Unavailable("It is dead.")
        done = effect()
        if self.moment == "after" and self.left == 0:
            self.victim.die()
        return done

    def set_up(self):
        registry, write, recover = (
            self.world.registry,
            self.world.registry.write,
            self.world.recover,
        )

        def fatal_write(path, value, expected):
            effect = partial(write, path, value, expected)
            by_victim = path == PATH and Assignment.decode(value).master == self.victim.name
            return self.around("write", effect) if by_victim else effect()

        async def fatal_recover(member, epoch, by):
            if by == self.victim.name:
                self.around("begin", lambda: None)
                await asyncio.sleep(0)  # a process that has died runs until here
            found = await recover(member, epoch, by)
            if by == self.victim.name:
                self.around("end", lambda: None)
                await asyncio.sleep(0)
            return found

        registry.write, self.world.recover = fatal_write, fatal_recover


@pytest.mark.parametrize("moment", ["before", "after"])
def test_another_master_carries_on_wherever_the_first_one_dies(moment):
    async def scenario(number):
        world = await busy_world()
        first = world.nodes["a"]
        fatal = Fatal(world, first, number, moment)
        fatal.set_up()
        await be_busy(world, first)
        await asyncio.sleep(SOON_S)
        died = first.process.dead
        await world.settled(*("bcef" if died else "abcef"))
        assert died or world.registry.newest.catalog == 1
        await world.end()
        return died, fatal.seen

    for number in itertools.count():
        died, seen = run(scenario(number))
        if not died:
            break
    assert Counter(seen) == {"begin": 3, "end": 1, "write": 10}


@pytest.mark.parametrize("seed", range(depth(5, long=12)))
@in_limited_virtual_time
async def test_failed_calls_to_the_service_change_nothing(seed):
    rates = {Fault.COORDINATION_REFUSED: 0.15, Fault.LOG_UNKNOWN: 0.15, Fault.SLOW: 0.02}
    chaos = Chaos(seed, Profile(rate=rates))
    world = await busy_world(chaos)
    chaos.unleash()
    await be_busy(world, world.nodes["a"])
    await asyncio.sleep(10)
    chaos.calm()
    await asyncio.sleep(SESSION_S + SOON_S)
    there = [n for n in "abcef" if world.nodes[n].session.alive()]
    assert len(there) > 1
    await world.settled(*there)
    assert chaos.fired[Fault.LOG_UNKNOWN] > 10
    await world.end()
