"""`hornbeam refresh`: which batches the nodes do, which Spark does, and when, by a clock that the
test sets."""

from contextlib import contextmanager
from itertools import pairwise

import pytest

from hornbeam.errors import InterfaceError, NotSupportedError, OperationalError, ProgrammingError
from hornbeam.refreshing import (
    MAX_PAUSE_S,
    PAUSE_S,
    SPARK,
    Batches,
    Group,
    Kept,
    Refreshed,
    Rounds,
    each_once,
)


class Over(Exception):
    """The time of the test is over."""


class World:
    """Groups with their intervals. `fails` names groups that fail; `takes_s` has durations."""

    def __init__(self, **intervals):
        self.intervals = intervals
        self.clock = 0.0
        self.end = 100.0
        self.takes_s = {}
        self.fails = set()
        self.kept = set()
        self.unlisted = False
        self.begun = {}
        self.reported = []
        self.wanted = ()

    def listed(self):
        if self.unlisted:
            raise OperationalError("No node answers.")
        return {
            name: Group(interval_s, "" if name in self.kept else "it is large")
            for name, interval_s in self.intervals.items()
        }

    def refresh(self, group):
        self.begun.setdefault(group, []).append(self.clock)
        self.clock += self.takes_s.get(group, 0.0)
        if group in self.fails or group not in self.intervals:
            raise OperationalError(f"{group} fails.")
        return group

    def sleep(self, seconds):
        assert seconds > 0
        self.clock += seconds
        if self.clock > self.end:
            raise Over

    def run(self, until=100.0):
        self.end = until
        rounds = Rounds(
            self.listed,
            self.wanted,
            self.refresh,
            self.reported.append,
            now=lambda: self.clock,
            sleep=self.sleep,
        )
        with pytest.raises(Over):
            rounds.go_on()

    def longest_wait(self, group):
        times = self.begun[group]
        return max(b - a for a, b in pairwise(times))


def test_a_failing_group_does_not_delay_the_others():
    world = World(bad=5.0, good=5.0)
    world.fails = {"bad"}
    world.run(300.0)
    assert world.longest_wait("good") == 5.0
    assert len(world.begun["good"]) == 61


def test_several_failing_groups_do_not_delay_another():
    world = World(**{f"bad{i}": 1.0 for i in range(20)}, good=5.0)
    world.fails = set(world.intervals) - {"good"}
    world.run(300.0)
    assert world.longest_wait("good") == 5.0


def test_the_wait_grows_with_each_failure_until_a_success():
    world = World(bad=5.0, other=3600.0)
    world.fails = {"bad", "other"}
    world.run(60.0)
    waits = [b - a for a, b in pairwise(world.begun["bad"])]
    assert waits == [PAUSE_S * 2**i for i in range(len(waits))]
    assert world.begun["other"] == world.begun["bad"]
    world = World(bad=5.0)
    world.fails = {"bad"}
    refresh = world.refresh

    def mended_later(group):
        if world.clock > 60.0:
            world.fails.clear()
        return refresh(group)

    world.refresh = mended_later
    world.run(100.0)
    assert world.begun["bad"][-3:] == [b + 5.0 for b in world.begun["bad"][-4:-1]]


def test_no_wait_exceeds_the_longest_pause():
    world = World(bad=5.0)
    world.fails = {"bad"}
    world.run(1000.0)
    assert world.longest_wait("bad") == MAX_PAUSE_S


def test_a_group_with_long_failures_leaves_half_of_the_time():
    world = World(slow=1.0, good=1.0)
    world.fails, world.takes_s = {"slow"}, {"slow": 200.0}
    world.run(3999.0)
    assert 200.0 * len(world.begun["slow"]) <= 2000.0
    assert world.longest_wait("good") <= 201.0


def test_a_group_with_a_short_interval_does_not_starve_one_with_a_long_one():
    world = World(often=0.001, seldom=60.0)
    world.takes_s = {"often": 10.0}
    world.end = 600.0

    def ended(group):
        if world.clock > world.end:
            raise Over
        world.reported.append(group)

    rounds = Rounds(
        world.listed, (), world.refresh, ended, now=lambda: world.clock, sleep=world.sleep
    )
    with pytest.raises(Over):
        rounds.go_on()
    assert world.longest_wait("seldom") <= 80.0


def test_a_missing_group_does_not_delay_the_others():
    world = World(good=5.0)
    world.wanted = ("gone", "good")
    world.run(100.0)
    assert world.longest_wait("good") == 5.0
    assert any("gone" in str(one) for one in world.reported if isinstance(one, OperationalError))


def test_groups_keep_their_times_while_no_node_answers():
    world = World(good=50.0)
    listed = world.listed

    def away():
        world.unlisted = 10.0 < world.clock < 30.0
        return listed()

    world.listed = away
    world.run(120.0)
    assert world.begun["good"] == [0.0, 50.0, 100.0]
    assert 2 < sum(isinstance(one, OperationalError) for one in world.reported) < 8


def test_once_tries_each_group_and_then_raises():
    world = World(bad=5.0, good=5.0, worse=5.0)
    world.fails = {"bad", "worse"}
    with pytest.raises(OperationalError, match="worse fails"):
        each_once(world.intervals, world.refresh, world.reported.append)
    assert list(world.begun) == ["bad", "good", "worse"]
    assert world.reported[0] == "good"
    assert str(world.reported[1]).startswith("bad fails")
    world.fails = set()
    each_once(world.intervals, world.refresh, world.reported.append)
    assert world.reported[2:] == ["bad", "good", "worse"]


def test_groups_that_the_nodes_keep_are_left_to_them_until_they_leave_them():
    world = World(live=1.0, large=5.0)
    world.kept = {"live"}
    refresh = world.refresh

    def taken_over(group):
        world.kept = {"live", "large"} if world.clock < 20.0 else set()
        return refresh(group)

    world.refresh = taken_over
    world.run(10.0)
    assert world.begun == {"large": [0.0]}
    assert world.reported == [Kept(("live",)), "large", Kept(("live", "large"))]
    world.kept = set()
    world.reported.clear()
    world.run(30.0)
    assert set(world.begun) == {"live", "large"}
    assert Kept(()) not in world.reported[1:]


class Node:
    """A node that leaves the groups in `left`, for their reasons."""

    def __init__(self, **left):
        self.left = left
        self.asked = []

    def json(self, method, path, body):
        self.asked.append((method, path))
        group = path.split("/")[3]
        if group in self.left:
            raise NotSupportedError("The nodes leave it.", {"left": self.left[group]})
        if group == "bad":
            raise NotSupportedError("It cannot be done.")
        last = {"changes": 3, "rows": 2, "seconds": 0.5, "by": "here"}
        return {"group": group, "as_of": 7, "views": ["v"], "last": last}


class Spark:
    def __init__(self):
        self.begun = self.ended = 0

    @contextmanager
    def session(self):
        self.begun += 1
        yield lambda group: Refreshed(group, 8, ("v",), 1, 1, 9.0, SPARK)
        self.ended += 1


def test_spark_begins_with_the_first_batch_that_the_nodes_leave():
    node, spark, notes = Node(large="it is large"), Spark(), []
    batches = Batches(node, spark.session, notes.append)
    assert batches.refresh("small") == Refreshed("small", 7, ("v",), 3, 2, 0.5, "here")
    assert spark.begun == 0
    assert [batches.refresh("large").by for _ in range(2)] == [SPARK, SPARK]
    assert (spark.begun, spark.ended) == (1, 0)
    batches.close()
    assert (spark.begun, spark.ended) == (1, 1)
    assert notes[:3] == [
        "small: the nodes",
        "large: the nodes",
        "large: Spark, because it is large",
    ]
    with pytest.raises(NotSupportedError, match="cannot be done"):
        batches.refresh("bad")


@pytest.mark.parametrize("error", [InterfaceError, ProgrammingError])
def test_a_batch_that_needs_spark_says_why_where_there_is_none(error):
    def missing():
        raise error("Spark needs Java 17.\n  Install it.")

    batches = Batches(Node(large="it is large"), missing, lambda _: None)
    with pytest.raises(InterfaceError) as raised:
        batches.refresh("large")
    assert str(raised.value) == (
        "The nodes leave group large to Spark: it is large.\nSpark needs Java 17.\n  Install it."
    )
    world = World(large=1.0)
    world.refresh = batches.refresh
    rounds = Rounds(world.listed, (), batches.refresh, world.reported.append)
    with pytest.raises(InterfaceError):  # no later attempt would succeed
        rounds.go_on()
