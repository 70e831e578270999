"""The distribution of slots over members: invariants for any owners and any load."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.txlayer.cluster.balance import (
    MOST_AT_ONCE,
    NO_OWNER,
    PAYS,
    handed_over,
    rebalanced,
)

NAMES = ["a", "b", "c", "d"]
weights = st.one_of(st.integers(1, 100), st.sampled_from([1, 1, 1, 10_000]))


@st.composite
def worlds(draw, owners=NAMES):
    """Owners of some slots, and the weights of the slots."""
    slots = draw(st.lists(st.tuples(st.sampled_from(owners), weights), min_size=1, max_size=40))
    return [owner for owner, _ in slots], [weight for _, weight in slots]


def loads(slots, weights, names=NAMES):
    found = dict.fromkeys(names, 0)
    for owner, weight in zip(slots, weights, strict=True):
        found[owner] += weight
    return found


def moved(before, after):
    return [slot for slot, owner in enumerate(before) if owner != after[slot]]


@given(worlds())
def test_moves_by_load_raise_no_maximum_lower_the_spread_and_end(world):
    slots, weights = world
    while (after := rebalanced(slots, NAMES, weights, by_load=True)) != tuple(slots):
        before, now = loads(slots, weights), loads(after, weights)
        assert max(now.values()) <= max(before.values())
        assert sum(load**2 for load in now.values()) < sum(load**2 for load in before.values())
        newcomers = set(NAMES) - set(slots)
        assert newcomers or len(moved(slots, after)) <= MOST_AT_ONCE
        slots = after


@given(worlds())
def test_after_the_last_move_no_slot_would_relieve_a_member_by_much(world):
    slots, weights = world
    while (after := rebalanced(slots, NAMES, weights, by_load=True)) != tuple(slots):
        slots = after
    load = loads(slots, weights)
    share = sum(weights) / len(NAMES)
    least = min(load.values())
    for owner, weight in zip(slots, weights, strict=True):
        if weight <= (load[owner] - least) / 2:
            # It would be moved, alone or with others, if the move paid.
            assert weight < share / PAYS


@given(worlds(owners=[*NAMES, "gone", NO_OWNER]), st.booleans())
def test_every_slot_has_one_remaining_owner(world, by_load):
    slots, weights = world
    after = rebalanced(slots, NAMES, weights, by_load=by_load)
    assert len(after) == len(slots)
    assert set(after) <= set(NAMES)
    assert handed_over(after, NAMES, weights) == after


@given(worlds(owners=[*NAMES, "gone", NO_OWNER]))
def test_handing_over_moves_only_slots_of_former_members(world):
    slots, weights = world
    after = handed_over(slots, NAMES, weights)
    assert all(slots[slot] not in NAMES for slot in moved(slots, after))


@given(worlds())
def test_without_measured_load_only_new_members_get_slots(world):
    slots, weights = world
    newcomers = set(NAMES) - set(slots)
    after = rebalanced(slots, NAMES, weights, by_load=False)
    assert {after[slot] for slot in moved(slots, after)} <= newcomers
    load = loads(after, weights)
    for name in newcomers:
        assert max(load.values()) - load[name] <= max(weights)


def test_slots_that_weigh_the_same_are_divided_by_number():
    slots = handed_over([NO_OWNER] * 256, "ab", [1] * 256)
    assert Counter(slots) == {"a": 128, "b": 128}
    slots = rebalanced(slots, "abc", [1] * 256, by_load=False)
    assert sorted(Counter(slots).values()) == [85, 85, 86]
    slots = rebalanced(slots, "ac", [1] * 256, by_load=False)
    assert Counter(slots) == {"a": 128, "c": 128}


def test_a_slot_hotter_than_all_others_together_stays():
    slots, weights = ("a", "b") * 20, [10_000] + [10] * 39
    hot = []
    while (after := rebalanced(slots, "ab", weights, by_load=True)) != slots:
        hot += [slot for slot in moved(slots, after) if slot == 0]
        slots = after
    assert hot == []
    assert slots[0] == "a"


def test_a_slot_that_hardly_relieves_its_owner_stays():
    """Member a bears 105 of 200 and could give 5 away, 5 % of its share."""
    slots, weights = ("a", "a", "b"), [100, 5, 95]
    assert rebalanced(slots, "ab", weights, by_load=True) == slots
    assert rebalanced(slots, "ab", [100, 30, 70], by_load=True) == ("a", "b", "b")


def test_two_hot_slots_of_one_member_are_separated():
    slots = ("a",) * 4 + ("b",) * 4
    after = rebalanced(slots, "ab", [500, 500, 1, 1, 1, 1, 1, 1], by_load=True)
    assert {after[0], after[1]} == {"a", "b"}


def test_without_names_nobody_owns_anything():
    assert rebalanced(("a", "b"), [], [1, 1], by_load=True) == (NO_OWNER, NO_OWNER)
