"""The times of the batches of each group of deferred views, by a clock that the test sets."""

from dataclasses import replace
from itertools import pairwise

import pytest

from hornbeam.errors import OperationalError
from hornbeam_server.maintain.deltas.catalog_programs import programs_of
from hornbeam_server.node.schema_plans import PlanRequest, plan_schema
from hornbeam_server.pipeline.refresh import command
from hornbeam_server.pipeline.refresh.command import MAX_PAUSE_S, PAUSE_S, Rounds
from hornbeam_server.schema.catalog import Catalog, Forest, State
from hornbeam_server.schema.codec import encode_catalog
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.model import Schema


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
        self.unlisted = False
        self.begun = {}
        self.reported = []
        self.wanted = ()

    def listed(self):
        if self.unlisted:
            raise OperationalError("No node answers.")
        return dict(self.intervals)

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
        command.each_once(world.intervals, world.refresh, world.reported.append)
    assert list(world.begun) == ["bad", "good", "worse"]
    assert world.reported[0] == "good"
    assert str(world.reported[1]).startswith("bad fails")
    world.fails = set()
    command.each_once(world.intervals, world.refresh, world.reported.append)
    assert world.reported[2:] == ["bad", "good", "worse"]


DDL = """
CREATE TABLE a (i INTEGER PRIMARY KEY, x INTEGER); CREATE INDEX a_x ON a (x);
CREATE MATERIALIZED VIEW v WITH (refresh = 'deferred') AS
  SELECT b.i, a.i AS other FROM a JOIN a AS b ON a.x = b.x;
"""


def test_batches_of_one_catalog_share_its_programs():
    planned = plan_schema(PlanRequest(DDL), Catalog(0, Schema(()), Forest(())))
    names = frozenset(name for name, _ in planned.catalog.states)
    states = tuple((name, State.READABLE) for name in names)
    encoded = encode_catalog(replace(planned.catalog, states=states)).decode()
    program = programs_of(encoded, names)["v"]
    assert programs_of(str(encoded), frozenset(names))["v"] is program
    with pytest.raises(Unsupported, match="no access path"):
        programs_of(encoded, names - {"a_x"})["v"]
    assert programs_of(encoded, names - {"a_x"}, frozenset({"v"}))["v"].columns == program.columns
