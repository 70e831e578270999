"""Where members read: the minimum watermark of all members, dead ones included (decision 21, rule
9)."""

import asyncio

import pytest

from hornbeam_server.schema.errors import InvalidRequest, Unavailable
from hornbeam_server.txlayer.cluster.messages import Reach
from hornbeam_server.txlayer.cluster.snapshots import FRESH_S, HURRY_S, PATIENCE_S
from hornbeam_server.txlayer.commit.hlc import MAX_AHEAD_MS
from hornbeam_server.txlayer.commit.snapshots import LastSnapshots
from tests.txlayer.members_world import members, refusal, soon
from tests.txlayer.txlayer_world import prepared
from tests.virtual_time import in_virtual_time


async def commit(party, number=1, key="k"):
    """Commit one transaction at this member, and return its timestamp."""
    committed = await party.do(party.committer.commit(prepared(number, [f"{key}{number}"])))
    return committed.ts


async def read_point(party, least=0, **options):
    return await party.do(party.snapshots.read_point(least, **options))


async def newest_of_all(*parties):
    """Let these members learn the watermarks of all others."""
    for party in parties:
        await read_point(party, strong=True)


def stuck(party, hold):
    """Let this member not answer until `hold` is set."""
    answer = party.answer

    async def late(caller, message):
        await hold.wait()
        return await answer(caller, message)

    party.answer = late


# ---------------------------------------------------------------- known watermarks


@in_virtual_time
async def test_watermarks_of_earlier_members_are_unknown_at_first():
    world, (a, b) = await members("a", "b")
    assert a.snapshots.newest() == 0
    at = await read_point(a)
    assert at == a.snapshots.newest()
    assert 0 < at <= min(a.committer.watermark(), b.committer.watermark())
    await world.end()


@in_virtual_time
async def test_the_newest_snapshot_is_the_minimum_watermark():
    world, (a, b, c) = await members("a", "b", "c")
    b.clock.skew_ms = 9_000
    await newest_of_all(a)
    at = a.snapshots.newest()
    watermarks = [party.committer.watermark() for party in (a, b, c)]
    assert at <= min(watermarks)
    assert max(watermarks) - at > 8_000
    await world.end()


@in_virtual_time
async def test_a_new_member_counts_from_the_snapshot_read_last():
    """The new member commits only above it, once this member has acknowledged that it joined."""
    world, (a, _) = await members("a", "b")
    await newest_of_all(a)
    at = a.snapshots.newest()
    world.change(
        clock=at - 100, members=(*world.assignment.members, (await world.party("j")).member)
    )
    assert a.snapshots.newest() == at
    world.write(clock=at + 500)
    world.show(a)
    assert a.snapshots.newest() == at  # it was counted before
    await world.end()


@in_virtual_time
async def test_a_member_that_joined_before_this_node_is_not_new_to_it():
    """It did not wait for this node's acknowledgement: it may have commits below the version's
    clock that are not applied."""
    world, _ = await members("a", "b")
    late = await world.party("late")
    late.see(world.version, world.assignment)
    k = await world.party("k")
    grown = (*world.assignment.members, k.member)
    world.write(members=grown)
    world.write(members=(*grown, late.member), clock=late.hlc.observe())
    stuck(k, asyncio.Event())
    world.show()
    assert await read_point(late) == 0
    world.change(clock=late.hlc.last + 1)
    assert await read_point(late) == 0
    await world.end()


@in_virtual_time
async def test_a_dead_members_watermark_stands_still_until_recovery():
    world, (a, b, c) = await members("a", "b", "c")
    await newest_of_all(a)
    known = a.snapshots.newest()
    world.bury("b")
    world.show(a, c)
    await asyncio.sleep(20)
    at = await read_point(a)
    assert at == a.snapshots.newest()
    assert known <= at <= b.committer.watermark()
    assert b.heard(Reach)[1:] == []
    world.change(dead=())
    assert await read_point(a) > at + 10_000
    await world.end()


@in_virtual_time
async def test_an_answer_of_a_member_recovered_meanwhile_is_ignored():
    world, (a, b, _) = await members("a", "b", "c")
    held = asyncio.Event()
    stuck(b, held)
    reads = a.begin(a.snapshots.read_point())
    await soon()
    world.bury("b")
    world.change(dead=())
    held.set()
    await reads
    assert a.snapshots.newest() > 0
    await world.end()


# ---------------------------------------------------------------- plain reads


@in_virtual_time
async def test_a_read_contains_commits_acknowledged_by_this_node():
    world, (a, b) = await members("a", "b")
    b.clock.skew_ms = -1_000
    ts = await commit(a)
    assert await read_point(a) >= ts
    await world.end()


@in_virtual_time
async def test_old_watermarks_are_requested_again():
    world, (a, b) = await members("a", "b")
    await read_point(a)
    await read_point(a)
    assert len(b.heard(Reach)) == 1
    await asyncio.sleep(FRESH_S)
    await read_point(a)
    assert len(b.heard(Reach)) == 2
    await world.end()


@in_virtual_time
async def test_concurrent_reads_share_their_requests():
    world, (a, b) = await members("a", "b")
    points = await asyncio.gather(*(read_point(a) for _ in range(20)))
    assert len(b.heard(Reach)) == 1
    assert len(set(points)) == 1
    await world.end()


@in_virtual_time
async def test_reads_advance_beside_a_member_that_commits_nothing():
    """The watermark of a member never exceeds the timestamp that its log has reserved."""
    world, (a, b, c) = await members("a", "b", "c")
    for number in range(5):
        ts = await commit(a, number)
        await asyncio.sleep(10)
        assert await read_point(b) >= ts
        assert await read_point(c) >= ts
    assert len(c.log.appends) <= 6  # an idle member reserves once in a while, not at each read
    await world.end()


@in_virtual_time
async def test_a_member_that_does_not_answer_makes_reads_older_but_not_wrong():
    world, (a, b, _) = await members("a", "b", "c")
    await newest_of_all(a)
    known = a.snapshots.newest()
    never = asyncio.Event()
    stuck(b, never)
    await asyncio.sleep(1)
    ts = await commit(a)
    began = a.clock.monotonic()
    at = await read_point(a)
    assert known <= at < ts
    assert a.clock.monotonic() - began == pytest.approx(HURRY_S, abs=0.01)
    never.set()
    await soon()
    assert await read_point(a) >= ts
    await world.end()


@in_virtual_time
async def test_a_cancelled_read_leaves_the_log_usable():
    """Otherwise an append would be cancelled half way, and the log would take no more."""
    world, (a, b) = await members("a", "b")
    for steps in range(1, 300):
        reading = a.begin(a.snapshots.read_point(a.committer.watermark() + 1))
        await soon(steps // 10 / 10_000)
        for _ in range(steps % 10):
            await asyncio.sleep(0)
        reading.cancel()
        await asyncio.sleep(5)
    for party in (a, b):
        assert party.committer.failed is None
        await commit(party, 1 + (party is a))
    await world.end()


# ---------------------------------------------------------------- bookmarks and strong reads


@in_virtual_time
async def test_a_read_with_a_bookmark_waits_until_all_members_have_passed_it():
    world, (a, b, _) = await members("a", "b", "c")
    ts = await commit(b)
    assert await read_point(a, ts) >= ts
    assert await read_point(a, a.clock.wall_ms() + 500) >= a.clock.wall_ms()
    await world.end()


@in_virtual_time
async def test_a_bookmark_in_the_future_is_refused_and_moves_no_clock():
    """A clock that follows a bookmark never goes back."""
    world, (a, b) = await members("a", "b")
    future = a.clock.wall_ms() + 60_000
    assert isinstance(await refusal(read_point(a, future)), InvalidRequest)
    await soon()
    assert max(a.hlc.last, b.hlc.last) < future
    await world.end()


@in_virtual_time
@pytest.mark.parametrize("given", ["commit", "snapshot"])
async def test_a_timestamp_of_a_member_whose_clock_is_ahead_is_accepted(given):
    """Others may not know this timestamp yet: they ask, and their next commits are later."""
    world, (a, b, c) = await members("a", "b", "c")
    b.hlc.follow(a.clock.wall_ms() + 2 * MAX_AHEAD_MS)
    reported = await commit(b) if given == "commit" else b.hlc.observe()
    assert a.hlc.last < reported - MAX_AHEAD_MS
    await a.do(a.snapshots.admit(reported))
    assert await commit(a) > reported
    assert await read_point(c, reported) >= reported
    await world.end()


@in_virtual_time
async def test_a_future_bookmark_is_not_judged_while_a_member_does_not_answer():
    """The error is temporary: after a final refusal the client would give up."""
    world, (a, b) = await members("a", "b")
    b.hlc.follow(a.clock.wall_ms() + 2 * MAX_AHEAD_MS)
    reported = await commit(b)
    b.die()
    assert isinstance(await refusal(a.do(a.snapshots.admit(reported))), Unavailable)
    world.bury("b")
    world.show()
    assert isinstance(await refusal(a.do(a.snapshots.admit(reported))), Unavailable)
    await world.end()


@in_virtual_time
async def test_a_strong_read_contains_every_acknowledged_commit():
    world, (a, b, c) = await members("a", "b", "c")
    await newest_of_all(a)
    for number, party in enumerate([b, c, b, a, c]):
        ts = await commit(party, number)
        assert await read_point(a, strong=True) >= ts
    await world.end()


@in_virtual_time
async def test_a_strong_read_follows_a_clock_that_is_far_ahead():
    """The next owner of a dead member's slots begins above all that the member had reserved."""
    world, (a, b) = await members("a", "b")
    b.hlc.follow(a.clock.wall_ms() + 2 * MAX_AHEAD_MS)
    ts = await commit(b)
    assert await read_point(a, strong=True) >= ts
    await world.end()


@in_virtual_time
async def test_a_strong_read_sends_requests_of_its_own():
    """An answer that is under way may be older than the commit."""
    world, (a, b) = await members("a", "b")
    await newest_of_all(a)
    hold = asyncio.Event()
    answer = b.answer

    async def slow_way_back(caller, message):
        answered = await answer(caller, message)
        if len(b.heard(Reach)) == 2:
            await hold.wait()
        return answered

    b.answer = slow_way_back
    await asyncio.sleep(1)
    weak = a.begin(a.snapshots.read_point())
    await soon()
    b.hlc.follow(a.hlc.observe() + 300)
    ts = await commit(b)
    reading = a.begin(a.snapshots.read_point(strong=True))
    await soon()
    hold.set()
    assert await reading >= ts
    await weak
    await world.end()


@pytest.mark.parametrize("strong", [False, True])
@in_virtual_time
async def test_a_bookmark_or_strong_read_waits_for_a_member_that_does_not_answer(strong):
    world, (a, b, _) = await members("a", "b", "c")
    ts = await commit(a)
    b.peers.cut()
    stuck(b, hold := asyncio.Event())
    reading = a.begin(a.snapshots.read_point(ts, strong=strong))
    await asyncio.sleep(PATIENCE_S / 2)
    assert not reading.done()
    hold.set()
    assert await reading >= ts
    await world.end()


@pytest.mark.parametrize("strong", [False, True])
@in_virtual_time
async def test_a_bookmark_or_strong_read_waits_until_a_stopped_member_is_recovered(strong):
    world, (a, b, c) = await members("a", "b", "c")
    await b.do(b.peers.close())
    reading = a.begin(a.snapshots.read_point(a.clock.wall_ms(), strong=strong))
    await asyncio.sleep(PATIENCE_S / 2)
    world.bury("b")
    world.show(a, c)
    await asyncio.sleep(1)
    assert not reading.done()
    world.write(dead=())
    world.show(a, c)
    await soon(0.5)
    assert reading.done()
    await world.end()


@pytest.mark.parametrize("strong", [False, True])
@in_virtual_time
async def test_a_bookmark_or_strong_read_gives_up_after_its_patience(strong):
    world, (a, b, _) = await members("a", "b", "c")
    await b.do(b.peers.close())
    began = a.clock.monotonic()
    error = await refusal(read_point(a, a.clock.wall_ms(), strong=strong))
    assert isinstance(error, Unavailable)
    assert a.clock.monotonic() - began == pytest.approx(PATIENCE_S, abs=1.0)
    await world.end()


@in_virtual_time
async def test_a_strong_read_waits_for_commits_of_a_dead_member():
    world, (a, b, c) = await members("a", "b", "c")
    await newest_of_all(a)
    ts = await commit(b)
    world.bury("b")
    world.show(a, c)
    reading = a.begin(a.snapshots.read_point(strong=True))
    await asyncio.sleep(2)
    assert not reading.done()
    world.write(dead=(), clock=ts)
    world.show(a, c)
    assert await reading >= ts
    await world.end()


@in_virtual_time
async def test_a_strong_read_contains_recovered_commits():
    """All living members may have acknowledged only earlier timestamps."""
    world, (a, b, c) = await members("a", "b", "c")
    for party in (a, c):
        party.clock.skew_ms = -2_000
    await newest_of_all(a)
    ts = await commit(b)
    world.bury("b")
    world.show(a, c)
    world.write(dead=(), clock=ts)
    world.show(a, c)
    assert await read_point(a, strong=True) >= ts
    await world.end()


# ---------------------------------------------------------------- after the last commit


class SetClock:
    """A monotonic and a wall clock that are set by hand."""

    def __init__(self):
        self.s, self.ms = 100.0, 5_000_000

    def monotonic(self):
        return self.s

    def wall_ms(self):
        return self.ms


def test_the_last_snapshot_is_served_for_half_the_retention_by_the_faster_clock():
    at = SetClock().ms
    for further, back in (("s", "ms"), ("ms", "s")):
        clock = SetClock()
        last = LastSnapshots(at, at, clock, retention_s=60)
        assert asyncio.run(last.read_point(at)) == at
        unit = 1 if further == "s" else 1000
        setattr(clock, further, getattr(clock, further) + 30 * unit)
        setattr(clock, back, 0)
        assert asyncio.run(last.read_point()) == last.newest() == at
        assert last.behind_s == 30
        setattr(clock, further, getattr(clock, further) + unit)
        with pytest.raises(Unavailable) as refused:
            asyncio.run(last.read_point())
        assert refused.value.details["standby"]


def test_an_old_last_snapshot_is_served_for_a_shorter_time():
    clock = SetClock()
    last = LastSnapshots(clock.ms - 20_000, clock.ms - 20_000, clock, retention_s=60)
    assert last.behind_s == 20
    clock.ms += 11_000
    with pytest.raises(Unavailable):
        asyncio.run(last.read_point())


def test_no_read_beyond_the_last_snapshot_is_served():
    last = LastSnapshots(77, 77, SetClock(), retention_s=60)
    for asked in ({"least": 78}, {"strong": True}):
        with pytest.raises(Unavailable):
            asyncio.run(last.read_point(**asked))
