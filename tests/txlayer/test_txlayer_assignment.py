"""The assignment: its encoding, and the rules of decision 21 for the next version."""

import json
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from hornbeam_server.schema.errors import Corruption
from hornbeam_server.txlayer.cluster.assignment import (
    IDLE_RATE,
    SLOTS,
    Assignment,
    Known,
    Member,
    Word,
    clock_skews,
    highest_clock,
    is_shut,
    next_version,
)
from hornbeam_server.txlayer.cluster.balance import MOST_AT_ONCE, NO_OWNER, PAYS
from tests.depth import depth
from tests.txlayer.assignment_laws import check_clock, check_step

A = Member("a", "http://a", "a:1", commits=True)
B = Member("b", "http://b", "b:1")


def test_an_assignment_is_readable_and_decodes_to_itself():
    slots = ("a",) * 128 + (NO_OWNER,) + ("b",) * (SLOTS - 130) + ("a",)
    leaving = {4: "b", 6: "b", 5: "b", 255: NO_OWNER}
    assignment = Assignment("a", (A, B), (Member("c", "x", "y"),), slots, leaving, 7, True, 3)
    encoded = assignment.encode()
    assert Assignment.decode(encoded) == assignment
    assert json.loads(encoded)["slots"] == {"": "128", "a": "0-127 255", "b": "129-254"}
    assert json.loads(encoded)["leaving"] == {"": "255", "b": "4-6"}


def test_members_and_owners_of_slots_are_found():
    slots = ("b",) * (SLOTS - 1) + (NO_OWNER,)
    assignment = Assignment("a", (A, B), (Member("c", "x", "y"),), slots, {}, 0, False, 0)
    assert assignment.is_member("a")
    assert not assignment.is_member("c")
    assert assignment.member("b") == B
    assert assignment.member("c") is None
    assert assignment.owner(0) == B
    assert assignment.owner(SLOTS - 1) is None


def test_the_first_assignment_has_neither_members_nor_owners():
    first = Assignment.founded("a", 3)
    assert Assignment.decode(first.encode()) == first
    assert set(first.slots) == {NO_OWNER}
    assert (first.members, first.dead, first.catalog) == ((), (), 3)


def encoded(**changed):
    return json.dumps({**json.loads(Assignment.founded("a", 0).encode()), **changed}).encode()


@pytest.mark.parametrize(
    "value",
    [b"", b"{}", encoded(slots={"a": "0-254"}), encoded(slots={"a": "0-x"}), encoded(members=3)],
)
def test_an_invalid_assignment_raises_corruption(value):
    with pytest.raises(Corruption, match="assignment"):
        Assignment.decode(value)


def test_a_word_decodes_to_itself_and_an_invalid_word_to_none():
    word = Word("http://a", "a:1", 3, 4, 5, 6, True, {0: 12, 255: 1}, 7)
    assert Word.decode(word.encode()) == word
    assert Word.decode(Word("x", "y").encode()) == Word("x", "y", 0, 0, 0, 0, False)
    for data in (b"", b"{}", b"\xff", b'{"address": 1, "peer": ""}'):
        assert Word.decode(data) is None


# ---------------------------------------------------------------- successive versions


class World:
    """The assignment, and the master's knowledge of all members."""

    def __init__(self, *names, close=False):
        self.assignment, self.version = Assignment.founded("m", 0), 1
        self.words, self.recovered = {}, {}
        self.catalog = self.floor = 0
        self.close, self.held = False, False
        self.used = {}  # locks granted a minute, by slot
        for name in names:
            self.arrive(name)
        self.settle()
        self.close = close

    @property
    def known(self):
        return Known(
            self.version, self.words, self.recovered, self.catalog, self.floor, self.close,
            self.held,
        )  # fmt: skip

    def step(self):
        """One step of the master. Returns whether it changed the assignment."""
        if self.close and is_shut(self.assignment, self.known):
            self.held = True
        before = self.assignment
        self.assignment = next_version(before, self.known)
        if self.assignment == before:
            return False
        self.version += 1
        self.held = self.held and self.assignment.gate_closed
        if self.assignment.slots != before.slots:
            self.words = {name: replace(word, rates=None) for name, word in self.words.items()}
        return True

    def measure(self, *names):
        """Let these members, or all, say how many locks they grant in their slots."""
        slots = self.assignment.slots
        for name in names or [member.name for member in self.assignment.members]:
            mine = {slot: rate for slot, rate in self.used.items() if slots[slot] == name}
            self.say(name, rates=mine)

    def loads(self):
        """The load of each owner of slots."""
        loads = Counter()
        for slot, owner in enumerate(self.assignment.slots):
            loads[owner] += IDLE_RATE + self.used.get(slot, 0)
        return loads

    def say(self, name, **changed):
        self.words[name] = replace(self.words[name], **changed)

    def arrive(self, name, **changed):
        self.words[name] = Word(f"http://{name}", f"{name}:1", **changed)

    def acknowledge(self, *names, clock=0):
        for name in names or [member.name for member in self.assignment.members]:
            self.say(name, version=self.version, clock=max(clock, self.words[name].clock))

    def recover(self, ts=0):
        self.recovered |= {member.name: ts for member in self.assignment.dead}

    def settle(self):
        """All members acknowledge and all dead members are recovered, until the assignment no
        longer changes."""
        for _ in range(30):
            self.recover()
            if not self.step() and not self.all_acknowledge():
                return
        raise AssertionError("it never ends")

    def all_acknowledge(self):
        before = dict(self.words)
        self.acknowledge(*[m.name for m in self.assignment.members if m.name in self.words])
        return before != self.words

    def owned(self):
        return Counter(self.assignment.slots)

    def members(self):
        """The names of the members, in capitals if they may commit."""
        return "".join(m.name.upper() if m.commits else m.name for m in self.assignment.members)

    def dead(self):
        return "".join(member.name for member in self.assignment.dead)


def test_the_first_member_gets_all_slots_once_it_may_commit():
    world = World()
    world.arrive("a")
    assert world.step()
    assert (world.members(), world.owned()) == ("a", {NO_OWNER: SLOTS})
    assert not world.step()
    world.acknowledge()
    assert world.step()
    assert (world.members(), world.owned()) == ("A", {"a": SLOTS})
    world.acknowledge()
    assert not world.step()


def test_a_new_member_commits_once_all_acknowledge_it_and_then_gets_slots():
    world = World("a")
    world.arrive("b")
    assert world.step()
    assert (world.members(), world.owned()) == ("Ab", {"a": SLOTS})
    for name in "ab":
        assert not world.step()
        world.acknowledge(name)
    assert world.step()
    assert (world.members(), world.assignment.leaving) == ("AB", {})
    world.acknowledge()
    assert world.step()
    assert set(world.assignment.leaving.values()) == {"b"}
    assert world.owned() == {"a": SLOTS}
    world.acknowledge("b")
    assert not world.step()
    world.acknowledge("a")
    assert world.step()
    assert (world.owned(), world.assignment.leaving) == ({"a": SLOTS // 2, "b": SLOTS // 2}, {})


def test_a_death_is_written_before_the_version_before_is_acknowledged():
    world = World("a", "b")
    world.arrive("c")
    assert world.step()
    del world.words["b"]
    assert world.step()
    assert (world.members(), world.dead()) == ("Ac", "b")
    assert world.owned() == {"a": SLOTS // 2, NO_OWNER: SLOTS // 2}


@pytest.mark.parametrize("recovered_first", [True, False])
def test_slots_of_dead_members_get_owners_after_acknowledgement_and_recovery(
    recovered_first,
):
    world = World("a", "b", "c", "d")
    for name in "cd":
        del world.words[name]
        assert world.step()
    world.recovered = {"c": 5}
    if recovered_first:
        world.recovered["d"] = 7
    world.acknowledge("a")
    assert not world.step()
    world.acknowledge("b")
    if not recovered_first:
        assert not world.step()
        world.recovered["d"] = 7
    assert world.step()
    assert (world.members(), world.dead(), world.assignment.clock) == ("AB", "", 7)
    assert world.owned() == {"a": SLOTS // 2, "b": SLOTS // 2}


def test_acknowledging_one_death_does_not_acknowledge_the_next():
    world = World("a", "b", "c")
    del world.words["c"]
    world.step()
    world.acknowledge("a")
    del world.words["b"]
    world.step()
    world.recover()
    assert not world.step()
    world.acknowledge("a")
    assert world.step()
    assert world.owned() == {"a": SLOTS}


def test_a_new_member_commits_once_the_dead_are_recovered():
    world = World("a", "b")
    del world.words["b"]
    world.step()
    world.arrive("c")
    world.acknowledge()
    assert world.step()
    world.acknowledge()
    assert not world.step()
    assert world.members() == "Ac"
    world.recover()
    assert world.step()
    assert (world.members(), world.dead()) == ("AC", "")


def test_the_next_member_gets_all_slots_once_all_dead_are_recovered():
    world = World("a", "b")
    world.words.clear()
    assert world.step()
    world.recover()
    assert not world.step()
    world.arrive("c")
    assert world.step()
    world.acknowledge()
    assert world.step()
    assert (world.members(), world.dead(), world.owned()) == ("C", "", {"c": SLOTS})


def test_a_zombie_is_not_let_in_again():
    world = World("a", "b")
    word = world.words.pop("b")
    world.settle()
    world.words["b"] = word
    assert not world.step()
    assert world.members() == "A"


def test_a_dead_node_does_not_join_before_it_is_recovered():
    world = World("a")
    world.arrive("b")
    world.step()
    word = world.words.pop("b")
    world.step()
    world.words["b"] = word
    world.acknowledge()
    assert not world.step()
    assert (world.members(), world.dead()) == ("A", "b")


def test_a_death_withdraws_a_move():
    world = World("a", "b")
    world.arrive("c")
    while not world.assignment.leaving:
        assert world.step()
        world.acknowledge()
    slots = world.assignment.slots
    del world.words["c"]
    assert world.step()
    assert (world.assignment.leaving, world.assignment.slots) == ({}, slots)


def test_a_leaving_member_hands_over_its_slots_and_then_dies_like_any_other():
    world = World("a", "b")
    world.say("b", leaves=True)
    assert world.step()
    assert set(world.assignment.leaving.values()) == {"a"}
    world.settle()
    assert world.owned() == {"a": SLOTS}
    assert world.members() == "AB"
    del world.words["b"]
    assert world.step()
    assert world.dead() == "b"
    assert world.owned() == {"a": SLOTS}


def test_if_all_leave_the_next_member_gets_all_slots():
    world = World("a", "b")
    for name in "ab":
        world.say(name, leaves=True)
    world.settle()
    assert world.owned() == {NO_OWNER: SLOTS}
    world.arrive("c", leaves=True)
    assert not world.step()
    world.arrive("c")
    world.settle()
    assert (world.members(), world.owned()) == ("ABC", {"c": SLOTS})


def test_the_gate_is_shut_once_all_acknowledge_and_opens_with_the_new_catalog():
    world = World("a", "b", close=True)
    assert world.step()
    assert world.assignment.gate_closed
    world.acknowledge("a", clock=9)
    assert not world.step()
    assert not world.held
    world.acknowledge("b")
    assert not world.step()
    assert world.held
    assert highest_clock(world.assignment, world.known) == 9
    world.close, world.catalog, world.floor = False, 1, 12
    assert world.step()
    assert not world.assignment.gate_closed
    assert (world.assignment.catalog, world.assignment.clock) == (1, 12)


def test_no_slot_leaves_while_the_gate_is_closed():
    """A transaction that waits at the gate may hold a lock, and the slot would wait for it."""
    world = World("a", "b", close=True)
    world.step()
    world.acknowledge()
    world.say("b", leaves=True)
    assert not world.step()
    world.close = False
    assert world.step()
    assert not world.assignment.gate_closed
    world.acknowledge()
    assert world.step()
    assert set(world.assignment.leaving.values()) == {"a"}


def test_a_death_opens_an_unshut_gate_which_closes_again_after_recovery():
    world = World("a", "b", close=True)
    world.step()
    del world.words["b"]
    assert world.step()
    assert not world.assignment.gate_closed
    world.acknowledge()
    assert not world.step()
    world.recover()
    assert world.step()
    assert (world.dead(), world.assignment.gate_closed) == ("", False)
    world.acknowledge()
    assert world.step()
    assert world.assignment.gate_closed


def test_a_death_leaves_a_shut_gate_closed_until_recovery():
    world = World("a", "b", close=True)
    world.settle()
    assert world.held
    del world.words["b"]
    world.close, world.catalog = False, 1
    assert world.step()
    assert (world.dead(), world.assignment.gate_closed) == ("b", True)
    world.acknowledge()
    assert not world.step()
    world.settle()
    assert (world.assignment.gate_closed, world.assignment.catalog) == (False, 1)


def test_a_version_carries_the_highest_acknowledged_clock():
    world = World("a", "b", "c")
    world.acknowledge("b", clock=7)
    del world.words["c"]
    world.step()
    assert world.assignment.clock == 7
    world.acknowledge("a", clock=5)
    world.acknowledge("b")
    world.recover(6)
    world.step()
    assert world.assignment.clock == 7
    world.acknowledge("a", clock=9)
    world.floor = 11
    world.arrive("d", clock=100)
    world.acknowledge("b")
    world.step()
    assert world.members() == "ABd"
    assert world.assignment.clock == 11  # a node that is no member yet has acknowledged nothing


def test_clocks_are_compared_with_those_of_other_members():
    world = World("a", "b", "c")
    world.say("a", wall_ms=1_000)
    world.say("b", wall_ms=9_000)
    world.arrive("d", wall_ms=1)
    skews = clock_skews(world.assignment, world.words, "http://d", 5_000)
    assert skews == {"http://a": 4_000, "http://b": -4_000}  # c has not said its time
    assert clock_skews(world.assignment, world.words, "http://a", 5_000) == {"http://b": -4_000}


# ---------------------------------------------------------------- slots move by load


def test_slots_move_by_load_once_all_owners_have_measured_and_idle_slots_stay():
    world = World("a", "b")
    world.used = dict.fromkeys(range(0, 128, 2), 600)
    assert {world.assignment.slots[slot] for slot in world.used} == {"a"}
    world.measure("a")
    assert not world.step()
    world.measure("b")
    highest = max(world.loads().values())
    assert world.step()
    assert set(world.assignment.leaving.values()) == {"b"}
    assert len(world.assignment.leaving) == MOST_AT_ONCE
    assert world.assignment.leaving.keys() <= world.used.keys()
    world.acknowledge()
    assert world.step()
    assert max(world.loads().values()) < highest
    world.acknowledge()
    assert not world.step()  # measurements under other owners count for nothing


def test_no_slot_moves_by_load_during_a_recovery_or_behind_a_closed_gate():
    world = World("a", "b", "c")
    world.used = {slot: 600 for slot, owner in enumerate(world.assignment.slots) if owner == "a"}
    del world.words["c"]
    world.step()
    world.measure()
    world.acknowledge()
    assert not world.step()
    world.close = True
    world.settle()
    assert world.held
    world.measure()
    assert not world.step()
    world.close = False
    assert world.step()
    world.acknowledge()
    assert world.step()
    assert set(world.assignment.leaving.values()) == {"b"}


def test_a_new_member_gets_a_share_before_loads_are_measured():
    world = World("a", "b")
    world.used = {0: 60_000}
    hot = world.assignment.slots[0]
    for _ in range(10):
        world.measure()
        world.settle()
    owned = world.owned()[hot]
    assert owned < SLOTS // 4
    for name in "ab":
        world.say(name, rates=None)
    world.arrive("c")
    world.settle()
    assert world.owned()[hot] == owned
    assert world.owned()["c"] > SLOTS // 3


# ---------------------------------------------------------------- every sequence of events


class Everything(RuleBasedStateMachine):
    """Members read versions and acknowledge them late and one at a time, and die at any time."""

    def __init__(self):
        super().__init__()
        self.world = World()
        self.names = iter(f"n{number:02}" for number in range(1000))
        self.seen = {}  # the newest version that each member with a session has read
        self.died = {}  # former members, with the number of the version that says so
        self.clock = 0

    def pick(self, data, names):
        return data.draw(st.sampled_from(sorted(names)))

    @rule()
    def somebody_comes(self):
        if len(self.world.words) < 6:
            self.world.arrive(next(self.names))

    @precondition(lambda self: self.world.words)
    @rule(data=st.data())
    def somebody_dies(self, data):
        name = self.pick(data, self.world.words)
        del self.world.words[name]
        self.seen.pop(name, None)

    @precondition(lambda self: self.died)
    @rule(data=st.data())
    def a_zombie_still_shows_its_word(self, data):
        name = self.pick(data, self.died)
        if name not in {m.name for m in self.world.assignment.dead}:
            self.world.arrive(name, version=1, clock=10_000)

    def members(self):
        return {name for name in self.world.words if self.world.assignment.is_member(name)}

    @precondition(lambda self: self.members())
    @rule(data=st.data())
    def a_member_sees_the_newest(self, data):
        name = self.pick(data, self.members())
        self.seen[name] = (self.world.version, self.world.assignment)

    @precondition(lambda self: self.seen)
    @rule(data=st.data(), passed=st.integers(0, 5))
    def a_member_acknowledges_what_it_has_seen(self, data, passed):
        name = self.pick(data, self.seen)
        number, assignment = self.seen[name]
        self.clock = max(self.clock, assignment.clock) + passed
        self.world.say(name, version=number, clock=self.clock)

    @rule(used=st.dictionaries(st.integers(0, SLOTS - 1), st.integers(1, 10_000), max_size=8))
    def locks_are_granted(self, used):
        self.world.used = used

    @precondition(lambda self: self.seen)
    @rule(data=st.data())
    def a_member_measures(self, data):
        """A member measures if it has read the owners that are in force."""
        name = self.pick(data, self.seen)
        _, assignment = self.seen[name]
        if assignment.slots == self.world.assignment.slots:
            self.world.measure(name)

    @precondition(lambda self: self.world.assignment.dead)
    @rule(data=st.data(), ts=st.integers(0, 100))
    def somebody_is_recovered(self, data, ts):
        self.world.recovered[self.pick(data, {m.name for m in self.world.assignment.dead})] = ts

    @precondition(lambda self: self.world.words)
    @rule(data=st.data())
    def somebody_is_to_stop(self, data):
        self.world.say(self.pick(data, self.world.words), leaves=True)

    @rule(close=st.booleans())
    def the_gate_is_to_be(self, close):
        if not close and self.world.held:
            self.world.catalog += 1
        self.world.close = close

    @rule()
    def another_master_takes_over(self):
        world = self.world
        world.close = world.held = False
        world.recovered = {}
        world.catalog = max(world.catalog, world.assignment.catalog)
        world.assignment = replace(
            world.assignment, gate_closed=False, catalog=world.catalog, master="other"
        )
        world.version += 1

    @rule(times=st.integers(1, 3))
    def the_master_steps(self, times):
        world = self.world
        for _ in range(times):
            old, number, words = world.assignment, world.version, dict(world.words)
            recovered, held = dict(world.recovered), world.held
            if not world.step():
                return
            new = world.assignment
            check_step(old, number, new, words, recovered, set(self.died))
            check_clock(old, new, words)
            self.died |= {m.name: world.version for m in new.dead[len(old.dead) :]}
            if len(new.dead) > len(old.dead):
                assert new.gate_closed == (old.gate_closed and held)

    @rule()
    def all_see_and_acknowledge(self):
        for name in self.members():
            self.seen[name] = (self.world.version, self.world.assignment)
            self.world.say(name, version=self.world.version, clock=self.world.assignment.clock)

    @invariant()
    def no_two_who_live_grant_locks_of_one_slot(self):
        granted = Counter()
        for name, (number, assignment) in self.seen.items():
            emptied = self.world.words[name].version >= number
            granted.update(
                slot
                for slot, owner in enumerate(assignment.slots)
                if owner == name and not (slot in assignment.leaving and emptied)
            )
        assert not granted or max(granted.values()) == 1

    @invariant()
    def a_change_of_the_schema_is_alone(self):
        """While a change runs behind the gate, no member has read that the gate is open again."""
        if self.world.held:
            assert self.world.assignment.gate_closed
            assert all(seen.gate_closed for _, seen in self.seen.values())

    @rule()
    def all_ends_well_if_everybody_acknowledges(self):
        world = self.world
        world.settle()
        for name in self.members():
            self.seen[name] = (world.version, world.assignment)
        assert {m.name for m in world.assignment.members} == {
            name for name, word in world.words.items()
            if name not in self.died and (word.version > 0 or not word.leaves)
        }  # fmt: skip
        if not self.members():
            return  # the dead wait for a member to join
        assert world.members() == world.members().upper()
        assert world.dead() == ""
        assert world.assignment.leaving == {}
        assert world.assignment.gate_closed == world.held == world.close
        assert world.assignment.catalog == world.catalog or world.close
        if world.assignment.gate_closed:
            return  # nothing moves
        staying = [name for name in self.members() if not world.words[name].leaves]
        assert set(world.assignment.slots) <= set(staying or [NO_OWNER])
        assert set(staying) <= set(world.assignment.slots)

    def loads_settle(self):
        """While the same locks are granted, slots move a limited number of times."""
        world = self.world
        staying = [name for name in self.members() if not world.words[name].leaves]
        for _ in range(SLOTS):
            world.measure(*self.members())
            before = world.assignment.slots
            world.settle()
            if world.assignment.slots == before:
                break
        else:
            raise AssertionError("slots move for ever")
        for name in self.members():
            self.seen[name] = (world.version, world.assignment)
        loads = world.loads()
        share = sum(loads.values()) / (len(staying) or 1)
        hottest = max(world.used.values(), default=0) + IDLE_RATE
        assert not staying or max(loads.values()) <= share * (1 + 1 / PAYS) + hottest

    def teardown(self):
        self.all_ends_well_if_everybody_acknowledges()
        if not self.world.close:
            self.loads_settle()


TestEverything = Everything.TestCase
TestEverything.settings = settings(max_examples=depth(50, long=150), stateful_step_count=60)
