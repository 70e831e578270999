"""The committer over store and log in memory: batches, order, watermark, faults."""

import asyncio
from collections import Counter
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam_server.schema.errors import (
    Corruption,
    DiskFull,
    InvalidRequest,
    OutcomeUnknown,
    Overloaded,
    Unavailable,
)
from hornbeam_server.storage.log.files import NoRoom
from hornbeam_server.storage.log.records import Batch, Checkpoint, commits, decode
from hornbeam_server.storage.ports import NEWEST, START
from hornbeam_server.txlayer.commit.batches import Committed
from hornbeam_server.txlayer.commit.committer import MAX_LOGGED, PATIENCE_S
from hornbeam_server.txlayer.commit.recovery import recover
from tests.txlayer.txlayer_world import TABLE, VirtualClock, World, prepared, settle


@asynccontextmanager
async def running(world: World):
    """Start the world's committer, and close it at the end."""
    await world.committer.start()
    try:
        yield
    finally:
        closing = asyncio.ensure_future(world.committer.close())
        while not closing.done():
            await world.clock.advance(1.0)
        await closing
        await settle()


def begin(world: World, number: int, keys: str) -> asyncio.Task[Committed]:
    async def commit():
        return await world.committer.commit(prepared(number, keys))

    return asyncio.ensure_future(commit())


def records(world: World):
    return [decode(frame) for segment in world.log.all for frame in segment.frames]


def batches(world: World) -> list[Batch]:
    return [record for record in records(world) if isinstance(record, Batch)]


async def test_a_commit_is_logged_applied_visible_and_answered():
    world = World()
    async with running(world):
        committed = await world.committer.commit(prepared(1, "ab"))
        assert committed.readable
        assert committed.ts >= world.clock.wall_ms()
        found = await world.store.get(TABLE, [b"a", b"b"], committed.ts)
        assert [cell and (cell.ts, cell.value) for cell in found] == [
            (committed.ts, b"a=1"),
            (committed.ts, b"b=1"),
        ]
        assert await world.store.get(TABLE, [b"a"], committed.ts - 1) == [None]
        assert world.committer.watermark() >= committed.ts
        (batch,) = batches(world)
        (commit,) = commits(batch)
        assert batch.ts == committed.ts
        assert commit.transaction_id == bytes.fromhex(f"{1:032x}")
        assert commit.changes == [("t", None, b"a=1"), ("t", None, b"b=1")]
        assert set(commit.writes) == {TABLE, "s.transactions"}


async def test_a_row_is_encoded_once_for_log_change_stream_and_store():
    world = World()
    async with running(world):
        encoded = Counter()
        await world.committer.commit(prepared(1, "ab", encoded=encoded))
        assert encoded == {("a=1",): 1, ("b=1",): 1}


async def test_waiting_commits_share_one_append_and_one_timestamp():
    world = World()
    async with running(world):
        committed = await asyncio.gather(*(begin(world, n, chr(97 + n)) for n in range(20)))
        assert world.log.appends == [1]
        assert len({one.ts for one in committed}) == 1
        assert world.store.puts == 1
        assert len(commits(batches(world)[0])) == 20


async def test_a_batch_ends_at_its_maximum_size(monkeypatch):
    monkeypatch.setattr("hornbeam_server.txlayer.commit.committer.MAX_BATCH_BYTES", 200)
    world = World()
    async with running(world):
        committed = await asyncio.gather(*(begin(world, n, chr(97 + n)) for n in range(9)))
        sizes = [len(commits(batch)) for batch in batches(world)]
        assert sum(sizes) == 9
        assert len(sizes) > 1
        assert [one.ts for one in committed] == sorted(one.ts for one in committed)


async def test_batches_are_logged_while_one_is_applied_and_keep_their_order():
    world = World()
    slow = asyncio.Event()
    put = world.store.put

    async def slow_put(writes, ts):
        await slow.wait()
        await put(writes, ts)

    world.store.put = slow_put

    async with running(world):
        tasks = []
        for number in range(4):
            tasks.append(begin(world, number, chr(97 + number)))
            await settle()
        assert len(world.log.appends) == 4
        assert world.store.order == []
        assert not any(task.done() for task in tasks)
        slow.set()
        committed = await asyncio.gather(*tasks)
        assert world.store.order == [one.ts for one in committed]
        assert world.store.order == sorted(set(world.store.order))


def held_puts(world: World) -> dict[int, asyncio.Event]:
    """Make each put wait for its event; a put that has begun has its event here, by timestamp."""
    put, begun = world.store.put, {}

    async def held(writes, ts):
        begun[ts] = asyncio.Event()
        await begun[ts].wait()
        await put(writes, ts)

    world.store.put = held
    return begun


async def logged_one_by_one(world: World, count: int) -> list[asyncio.Task[Committed]]:
    tasks = []
    for number in range(count):
        tasks.append(begin(world, number, chr(97 + number)))
        await settle()
    return tasks


async def test_logged_batches_are_applied_in_parallel_and_answered_in_order():
    world = World()
    begun = held_puts(world)
    async with running(world):
        first, *others = await logged_one_by_one(world, 4)
        assert len(begun) == 1
        begun[min(begun)].set()
        await settle()
        assert (await first).readable
        assert len(begun) == 4
        for ts in sorted(begun)[2:]:
            begun[ts].set()
        await settle()
        assert not any(task.done() for task in others)
        assert world.committer.watermark() < sorted(begun)[1]
        begun[sorted(begun)[1]].set()
        committed = await asyncio.gather(*others)
        assert [one.ts for one in committed] == sorted(begun)[1:]
        assert world.committer.watermark() >= max(begun)


async def test_one_refused_batch_keeps_the_committer_degraded():
    world = World()
    begun, refused = held_puts(world), [True]
    async with running(world):
        first, *others = await logged_one_by_one(world, 3)
        begun[min(begun)].set()
        await first
        await settle()
        stuck, taken = sorted(begun)[1:]

        def refuse(ts):
            if ts == stuck and refused[0]:
                raise Unavailable("region moves")

        world.store.fault = refuse
        begun[stuck].set()
        begun[taken].set()
        await settle()
        assert taken in world.store.order
        assert world.committer.degraded
        refused[0] = False
        for _ in range(3):
            await world.clock.advance(0.1)
            begun[stuck].set()
        assert [(await task).ts for task in others] == [stuck, taken]
        assert not world.committer.degraded


async def test_corruption_in_one_batch_ends_parallel_puts():
    world = World()
    begun = held_puts(world)
    async with running(world):
        first, *others = await logged_one_by_one(world, 3)
        begun[min(begun)].set()
        await first
        await settle()

        def damaged(_ts):
            raise Corruption("gone")

        world.store.fault = damaged
        before = world.store.puts
        begun[sorted(begun)[1]].set()
        await settle()
        assert isinstance(world.committer.failed, Unavailable)
        begun[sorted(begun)[2]].set()
        await settle()
        assert world.store.puts == before + 1, "the other put was given up"
        for task in others:
            task.cancel()


async def test_the_watermark_stays_below_transactions_in_flight():
    world = World()
    gate = asyncio.Event()
    put = world.store.put

    async def slow_put(writes, ts):
        await gate.wait()
        await put(writes, ts)

    world.store.put = slow_put

    async with running(world):
        before = world.committer.watermark()
        task = begin(world, 1, "a")
        await settle()
        await world.clock.advance(3)
        (batch,) = batches(world)
        assert before <= world.committer.watermark() == batch.ts - 1
        gate.set()
        committed = await task
        assert world.committer.watermark() == committed.ts


async def test_the_watermark_never_passes_the_reserved_timestamp():
    world = World()
    async with running(world):
        assert world.committer.watermark() == 0  # the log is empty: nothing is reserved yet
        committed = await world.committer.commit(prepared(1, "a"))
        assert world.committer.watermark() == committed.ts
        await world.clock.advance(1.5)  # a checkpoint
        reserved = max(r.hlc for r in records(world) if isinstance(r, Checkpoint))
        assert committed.ts < world.committer.watermark() <= reserved
        await world.clock.advance(3_600)
        assert world.committer.watermark() == reserved
        now = await world.committer.reserve()
        assert now == world.clock.wall_ms() <= world.committer.watermark()


async def test_a_reservation_during_a_checkpoint_does_not_move_it_back():
    world = World()
    async with running(world):
        await world.committer.commit(prepared(1, "a"))
        reserving = []
        append = world.log.append

        async def slow_append(payloads):
            end = await append(payloads)
            if not reserving:  # the checkpoint is in the log, but its append has not returned
                world.clock.base_ms += 10_000
                reserving.append(asyncio.ensure_future(world.committer.reserve()))
                await settle()
            return end

        world.log.append = slow_append
        await world.clock.advance(1.5)
        await reserving[0]
        checkpoints = [r.applied_upto for r in records(world) if isinstance(r, Checkpoint)]
        assert len(checkpoints) == 2
        assert checkpoints == sorted(checkpoints)
        assert checkpoints[-1] == world.committer.checkpointed


@pytest.mark.parametrize("back_ms", [0, 1_000, 1_000_000])
async def test_the_next_owner_commits_above_every_snapshot_ever_read(back_ms):
    world = World()
    async with running(world):
        await world.committer.commit(prepared(1, "a"))
        await world.clock.advance(1.5)
        seen = world.committer.watermark()
        store, log = world.store.after_crash(None), world.log.after_crash(2)
        recovered = await recover(store, log)
        clock = VirtualClock(world.clock.wall_ms() - back_ms)
        fresh = World(store, log, clock=clock, last_ts=recovered.last_ts)
        await fresh.committer.start()
        task = begin(fresh, 2, "a")
        await settle()
        assert (await task).ts > seen
        await fresh.committer.close()


async def test_a_replaced_committer_stops_putting_and_reports_the_commit():
    alive = [True]
    world = World(alive=lambda: alive[0])
    async with running(world):

        def fault(_ts):
            alive[0] = False
            raise Unavailable("away")

        world.store.fault = fault
        task = begin(world, 1, "a")
        await settle()
        await world.clock.advance(2)
        assert not (await task).readable
        assert world.committer.failed is not None
        assert world.store.cells == {}


@settings(max_examples=40)
@given(st.lists(st.sampled_from(["commit", "watermark", "settle", "time", "back", "reserve"])))
async def test_the_watermark_never_falls_nor_passes_a_later_commit(actions):
    world = World()
    async with running(world):
        seen, tasks, number = [0], [], 0
        for action in actions:
            match action:
                case "commit":
                    number += 1
                    # Every watermark published so far must lie below the commit.
                    tasks.append((seen[-1], begin(world, number, str(number))))
                case "watermark":
                    seen.append(world.committer.watermark())
                case "settle":
                    await settle()
                case "time":
                    await world.clock.advance(0.003)
                case "back":
                    world.clock.base_ms -= 2_000
                case "reserve":
                    assert await world.committer.reserve() >= seen[-1]
        seen.append(world.committer.watermark())
        assert seen == sorted(seen)
        for published, task in tasks:
            assert (await task).ts > published


async def test_a_commit_is_later_than_its_bookmark_and_refuses_the_far_future():
    world = World()
    async with running(world):
        bookmark = world.clock.wall_ms() + 400
        committed = await world.committer.commit(prepared(1, "a", not_before=bookmark))
        assert committed.ts > bookmark
        with pytest.raises(InvalidRequest):
            await world.committer.commit(prepared(2, "b", not_before=bookmark + 10_000))


async def test_puts_are_repeated_until_the_store_takes_them():
    world = World()

    def twice(_ts):
        if world.store.puts <= 2:
            raise Unavailable("region moves")

    world.store.fault = twice
    async with running(world):
        task = begin(world, 1, "a")
        await settle()
        assert world.committer.degraded
        assert not task.done()
        await world.clock.advance(0.1)
        committed = await task
        assert committed.readable
        assert committed.apply_ms >= 30
        assert world.store.puts == 3
        assert not world.committer.degraded


async def test_after_five_seconds_the_client_learns_committed_and_later_applied():
    world = World()
    down = [True]

    def fault(_ts):
        if down[0]:
            raise Unavailable("down")

    world.store.fault = fault
    async with running(world):
        first, second = begin(world, 1, "a"), None
        await settle()
        second = begin(world, 2, "b")  # a batch behind it gets the same answer
        await world.clock.advance(PATIENCE_S - 0.1)
        assert not first.done()
        await world.clock.advance(1.0)
        answers = [await first, await second]
        for answer in answers:
            assert not answer.readable
            assert answer.applied_future is not None
            assert not answer.applied_future.done()
            assert world.committer.watermark() < answer.ts
        down[0] = False
        await world.clock.advance(2.0)
        assert all(answer.applied_future.done() for answer in answers)
        assert world.committer.watermark() >= answers[1].ts


async def test_a_failing_store_blocks_the_log_and_then_the_clients():
    world = World(max_waiting=3)
    down = [True]

    def fault(_ts):
        if down[0]:
            raise Unavailable("down")

    world.store.fault = fault
    async with running(world):
        tasks = []
        for number in range(MAX_LOGGED + 2):
            tasks.append(begin(world, number, f"{number:02}"))
            await settle()
        logged = len(world.log.appends)
        tasks += [begin(world, 100 + n, chr(97 + n)) for n in range(3)]
        await settle()
        with pytest.raises(Overloaded) as refused:
            await world.committer.commit(prepared(200, "z"))
        assert refused.value.retryable
        assert len(world.log.appends) == logged
        down[0] = False
        await world.clock.advance(2.0)
        assert all([(await task).ts for task in tasks])


@pytest.mark.parametrize("error", [Unavailable("gone"), DiskFull("no space")])
async def test_when_the_log_fails_outcomes_are_unknown_and_commits_refused(error):
    world = World()
    async with running(world):
        await world.committer.commit(prepared(1, "a"))

        def fault(_payloads):
            raise error

        world.log.fault = fault
        doubtful = begin(world, 2, "b")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        waiting = begin(world, 3, "c")
        with pytest.raises(OutcomeUnknown) as unknown:
            await doubtful
        assert unknown.value.details["transaction_id"] == f"{2:032x}"
        for refused in (waiting, begin(world, 4, "d")):
            with pytest.raises(type(error)) as refusal:
                await refused
            assert refusal.value.outcome == "none"
        assert world.committer.failed is error
        with pytest.raises(Unavailable):
            await world.committer.drain()


async def test_a_commit_without_room_in_the_log_has_no_effect_and_later_ones_succeed():
    world = World()
    async with running(world):
        await world.committer.commit(prepared(1, "a"))
        full = [True]

        def fault(_payloads):
            if full[0]:
                raise NoRoom("no space", cure="Free space.")

        world.log.fault = fault
        for number in (2, 3):
            with pytest.raises(DiskFull) as refused:
                await begin(world, number, "b")
            assert refused.value.outcome == "none"
            assert refused.value.retryable
            assert refused.value.cure == "Free space."
            with pytest.raises(DiskFull):
                await world.committer.reserve()
        assert world.committer.failed is None
        assert world.committer.without_room
        assert world.committer.idle
        await world.committer.drain()
        before = world.committer.watermark()
        full[0] = False
        committed = await world.committer.commit(prepared(4, "c"))
        assert committed.ts > before
        assert world.committer.watermark() >= committed.ts
        assert not world.committer.without_room
        await world.committer.reserve()


async def test_the_watermark_never_passes_a_commit_of_unknown_outcome():
    world = World()
    async with running(world):
        before = world.committer.watermark()

        def fault(_payloads):
            raise Unavailable("gone")

        world.log.fault = fault
        with pytest.raises(OutcomeUnknown):
            await world.committer.commit(prepared(1, "a"))
        doubtful = world.hlc.last
        await world.clock.advance(60)
        assert before <= world.committer.watermark() < doubtful


async def test_corruption_in_the_store_stops_the_committer():
    world = World()

    def fault(_ts):
        raise Corruption("bad block")

    world.store.fault = fault
    async with running(world):
        task = begin(world, 1, "a")
        await settle()
        assert isinstance(world.committer.failed, Unavailable)
        with pytest.raises(Unavailable, match="bad block"):
            await world.committer.commit(prepared(2, "b"))
        await world.clock.advance(PATIENCE_S + 1)
        assert not (await task).readable  # it is in the log, so it is committed


async def test_drain_waits_for_commits_that_began_before_it():
    world = World()
    async with running(world):
        tasks = [begin(world, n, chr(97 + n)) for n in range(3)]
        await asyncio.sleep(0)
        await world.committer.drain()
        assert [len(world.store.cells[TABLE])] == [3]
        await asyncio.gather(*tasks)
        await world.committer.drain()


async def test_a_checkpoint_follows_new_commits_within_a_second():
    world = World()
    async with running(world):
        assert world.committer.checkpointed == START
        committed = await world.committer.commit(prepared(1, "a"))
        await world.clock.advance(1.0)
        (checkpoint,) = [r for r in records(world) if isinstance(r, Checkpoint)]
        assert checkpoint.applied_upto == world.committer.checkpointed > START
        assert checkpoint.hlc >= committed.ts
        assert checkpoint.catalog_version == 7
        assert world.store.durable[TABLE] == {(b"a", committed.ts): b"a=1"}
        await world.clock.advance(10.0)
        assert len(records(world)) == 2


async def test_no_checkpoint_is_written_unless_the_store_has_flushed():
    world = World()
    down = [True]

    def fault():
        if down[0]:
            raise Unavailable("down")

    world.store.flush_fault = fault
    async with running(world):
        committed = await world.committer.commit(prepared(1, "a"))
        await world.clock.advance(3.0)
        assert world.committer.checkpointed == START
        assert world.committer.replays_above < committed.ts
        assert world.committer.failed is None
        down[0] = False
        await world.clock.advance(1.0)
        assert world.committer.checkpointed > START
        before = world.committer.replays_above
        assert before >= committed.ts
        await world.clock.advance(2.0)
        world.committer.watermark()
        await world.clock.advance(1.0)
        assert world.committer.replays_above > before  # there is nothing to replay


async def test_close_finishes_commits_writes_a_checkpoint_and_refuses_new_ones():
    world = World()
    tasks = []

    async with running(world):
        tasks.extend(begin(world, n, chr(97 + n)) for n in range(3))
        await asyncio.sleep(0)

    assert all(task.result().readable for task in tasks)
    assert isinstance(records(world)[-1], Checkpoint)
    assert len(world.store.durable[TABLE]) == 3
    with pytest.raises(Unavailable, match="closed"):
        await world.committer.commit(prepared(9, "z"))
    await world.committer.close()


async def test_close_gives_up_waiting_for_a_failing_store():
    world = World()

    def fault(_ts):
        raise Unavailable("down")

    world.store.fault = fault
    tasks = []

    async with running(world):
        tasks.append(begin(world, 1, "a"))
        await settle()

    assert not tasks[0].result().readable
    assert len(records(world)) == 1
    assert world.clock.monotonic() < 30


async def test_the_virtual_clock_wakes_sleepers_in_order():
    """These tests rely on the virtual clock, so it has its own test."""
    clock, woken = VirtualClock(), []

    async def sleeper(seconds):
        await clock.sleep(seconds)
        woken.append((seconds, clock.monotonic()))

    tasks = [asyncio.ensure_future(sleeper(s)) for s in (3, 1, 2)]
    await clock.advance(2.5)
    assert woken == [(1, 1), (2, 2)]
    await clock.advance(0.5)
    await asyncio.gather(*tasks)
    assert clock.wall_ms() == 1_003_000


async def test_reads_return_the_newest_version():
    world = World()
    async with running(world):
        await world.committer.commit(prepared(1, "a"))
        last = await world.committer.commit(prepared(2, "a"))
        (cell,) = await world.store.get(TABLE, [b"a"], NEWEST)
        assert (cell.ts, cell.value) == (last.ts, b"a=2")
