import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.schema.errors import InvalidRequest
from hornbeam_server.txlayer.commit.hlc import MAX_AHEAD_MS, HybridClock
from tests.txlayer.txlayer_world import VirtualClock


@given(
    st.lists(st.tuples(st.sampled_from(["tick", "observe"]), st.integers(0, 2_000)), max_size=50)
)
def test_every_tick_exceeds_earlier_timestamps_whatever_the_wall_clock_shows(steps):
    wall = VirtualClock()
    clock = HybridClock(wall, last=900)
    highest = clock.last
    for call, wall_ms in steps:
        wall.base_ms = wall_ms
        given_out = getattr(clock, call)()
        assert given_out > highest if call == "tick" else given_out >= highest
        assert given_out >= wall_ms
        highest = given_out


def test_ticks_follow_the_wall_clock_and_go_on_when_it_falls_back():
    wall = VirtualClock(5_000)
    clock = HybridClock(wall)
    assert [clock.tick(), clock.tick()] == [5_000, 5_001]
    wall.base_ms = 9_000
    assert clock.tick() == 9_000
    wall.base_ms = 10
    assert clock.tick() == 9_001


def test_a_commit_after_a_published_watermark_lies_above_it():
    clock = HybridClock(VirtualClock(5_000))
    watermark = clock.observe()
    assert clock.tick() == watermark + 1


def test_merge_accepts_the_near_future_and_refuses_the_far_future():
    clock = HybridClock(VirtualClock(5_000))
    clock.merge(5_000 + MAX_AHEAD_MS)
    assert clock.tick() == 5_001 + MAX_AHEAD_MS
    with pytest.raises(InvalidRequest, match="future") as refused:
        clock.merge(5_000 + MAX_AHEAD_MS + 2)
    assert refused.value.details["ahead_ms"] == MAX_AHEAD_MS + 2


def test_merging_the_past_changes_nothing():
    clock = HybridClock(VirtualClock(5_000), last=7_000)
    clock.merge(6_999)
    assert clock.last == 7_000


def test_repeated_reservations_do_not_add_up():
    wall = VirtualClock(5_000)
    clock = HybridClock(wall)
    assert clock.ahead(3_000) == 8_000
    assert HybridClock(wall, last=8_000).ahead(3_000) == 8_000
    assert HybridClock(wall, last=8_001).ahead(3_000) == 8_001


def test_follow_accepts_any_lead_of_another_node():
    wall = VirtualClock(5_000)
    clock = HybridClock(wall)
    clock.follow(9_000_000)
    assert (clock.last, clock.tick(), clock.observe()) == (9_000_000, 9_000_001, 9_000_001)
    clock.merge(8_999_999)  # a timestamp below its own is no future
    wall.base_ms = 10_000_000
    assert clock.tick() == 10_000_000


def test_following_the_past_changes_nothing():
    clock = HybridClock(VirtualClock(5_000), last=7_000)
    clock.follow(6_999)
    assert clock.last == 7_000
