"""Recovery: the part of the log that it reads, its writes, and its refusals; and retention.

Crashes at every step, of commits and of recovery, are in `tests/crash/test_crash_points.py`.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable

import msgspec
import pytest

from hornbeam_server.schema.errors import Corruption, HornbeamError, Unavailable
from hornbeam_server.storage.log.records import Batch, Checkpoint, Commit, commits, decode, encode
from hornbeam_server.storage.ports import START, Position
from hornbeam_server.txlayer.cluster.log_retention import drop_old_segments
from hornbeam_server.txlayer.cluster.low_water_mark import LowWater
from hornbeam_server.txlayer.commit.failpoints import Step
from hornbeam_server.txlayer.commit.recovery import last_checkpoint, recover
from tests.txlayer.txlayer_world import (
    TABLE,
    Cells,
    MemoryLog,
    MemoryStore,
    Values,
    World,
    prepared,
    settle,
)

_EMPTY = Commit(bytes(16), 3, {}, [])


class Crash(Exception):
    """The process ends here."""


def crash_at(step: Step, occurrence: int) -> Callable[[str], None]:
    left = [occurrence]

    def hook(reached: str) -> None:
        left[0] -= reached == step
        if left[0] <= 0:
            raise Crash(reached)

    return hook


def logged(log: MemoryLog) -> Cells:
    """The rows that the store must hold: the writes of all batches in the log."""
    cells: Cells = {}
    for segment in log.all:
        for frame in segment.frames:
            record = decode(frame)
            if isinstance(record, Batch):
                for commit in commits(record):
                    for table, puts in commit.writes.items():
                        for put in puts:
                            cells.setdefault(table, {})[put.key, record.ts] = put.value
    return cells


def present(store: MemoryStore) -> Cells:
    return {table: rows for table, rows in store.cells.items() if rows}


async def live(world: World, transactions: int) -> None:
    """Commit, with checkpoints and new segments in between, until the crash."""

    async def client(number: int) -> None:
        with contextlib.suppress(Crash, HornbeamError):
            await world.committer.commit(prepared(number, [f"{number % 5}", f"x{number}"]))

    await world.committer.start()
    clients = []
    for number in range(transactions):
        clients.append(asyncio.ensure_future(client(number)))
        if number % 3 == 2:
            await settle()
        if number % 7 == 6:
            await world.clock.advance(0.6)
            await world.log.roll()
    await world.clock.advance(1.1)
    kill(world)
    await settle()


def kill(world: World) -> None:
    """Stop the old process: its tasks and the clients inside it."""
    doomed = asyncio.all_tasks() - world.older_tasks - {asyncio.current_task()}
    for task in doomed:
        task.cancel()
    world.log.broken = True


async def restart(world: World, epoch: int, rng: random.Random) -> tuple[World, int]:
    store, log = world.store.after_crash(rng), world.log.after_crash(epoch)
    fresh = World(store, log, clock=world.clock)
    recovered = await recover(store, log)
    fresh.hlc.last = recovered.last_ts
    return fresh, recovered.replayed


async def test_five_recoveries_give_the_same_bytes():
    world = World(steps=crash_at(Step.APPLYING, 3))
    await live(world, 20)
    world.log.all = [s for s in world.log.all if s.frames]
    seen = []
    for epoch in range(2, 7):
        store, log = world.store.after_crash(None), world.log.after_crash(epoch)
        recovered = await recover(store, log)
        seen.append((present(store), recovered.last_ts))
        # The same log again, without the checkpoint that recovery wrote.
        world = World(store, world.log)
    assert seen == [seen[0]] * 5
    assert seen[0][0] == logged(world.log)


async def test_replay_begins_at_the_last_checkpoint():
    world = World()
    await world.committer.start()
    await world.committer.commit(prepared(1, "a"))
    await world.clock.advance(1.0)
    checkpointed = world.committer.checkpointed
    await world.log.roll()
    late = await world.committer.commit(prepared(2, "b"))
    await settle()
    kill(world)
    store, log = world.store.after_crash(None), world.log.after_crash(2)
    found = await last_checkpoint(log)
    assert found is not None
    assert found.applied_upto == checkpointed
    recovered = await recover(store, log)
    assert recovered.replayed == 1
    assert recovered.last_ts == max(late.ts, found.hlc)
    again = await recover(store, log)
    assert (again.replayed, again.last_ts) == (0, recovered.last_ts)


async def test_an_empty_log_recovers_to_nothing_and_leaves_a_checkpoint():
    store, log = MemoryStore(), MemoryLog()
    recovered = await recover(store, log)
    assert (recovered.last_ts, recovered.position, recovered.replayed) == (0, START, 0)
    assert await last_checkpoint(log) == Checkpoint(START, 0, 0)


async def test_the_clock_starts_above_every_timestamp_in_the_log():
    log = MemoryLog()
    await log.append(
        [
            encode(Checkpoint(START, 5_000, 3)),
            encode(Batch(4_000, [msgspec.Raw(encode(_EMPTY))])),
        ]
    )
    assert (await recover(MemoryStore(), log)).last_ts == 5_000


async def test_an_unreadable_record_stops_recovery():
    log = MemoryLog()
    await log.append([b"\x91\x63"])
    with pytest.raises(Corruption):
        await recover(MemoryStore(), log)


# ------------------------------------------------------------ retention


async def written(world: World, batches: int, *, seconds: float = 10.0) -> None:
    """Write one batch and one checkpoint per segment, `seconds` apart; the last segment stays
    open."""
    await world.committer.start()
    for number in range(batches):
        await world.committer.commit(prepared(number, [str(number)]))
        await world.clock.advance(seconds)
        if number < batches - 1:
            await world.log.roll()


async def drop(world: World, checkpointed: Position, retention_s: int) -> int:
    horizon = world.clock.wall_ms() - retention_s * 1000
    return await drop_old_segments(world.log, checkpointed, horizon, world.low_water)


async def test_segments_are_dropped_when_applied_and_older_than_the_retention():
    world = World()
    await written(world, 5)
    position, logged = world.committer.checkpointed, list(world.log.all)
    assert await drop(world, position, 1_000) == 0
    assert await world.low_water.read() is None
    assert await drop(world, position, 25) == 3
    last = [decode(frame).ts for s in logged if isinstance(decode(frame := s.frames[0]), Batch)]
    assert await world.low_water.read() == last[2]
    assert [s.sequence for s in await world.log.segments()] == [4, 5]
    kill(world)


async def test_no_segment_after_the_last_checkpoint_is_dropped():
    world = World()
    await written(world, 5)
    await world.clock.advance(10_000)
    assert await drop(world, START, 0) == 0
    assert await world.low_water.read() is None
    upto = Position(1, 2, 1)  # inside the second segment
    assert await drop(world, upto, 0) == 1
    kill(world)


async def test_a_quiet_log_shrinks_to_its_last_checkpoint_and_still_recovers():
    world = World()
    await written(world, 3)
    await world.clock.advance(10_000)
    for _ in range(3):
        await drop(world, world.committer.checkpointed, 60)
    kept = [s for s in await world.log.segments() if s.bytes]
    assert len(kept) == 1
    assert len(await world.log.segments()) == 2
    kill(world)
    fresh, replayed = await restart(world, 2, random.Random(1))
    assert replayed == 0
    assert fresh.hlc.last >= world.hlc.last
    assert len(present(fresh.store)[TABLE]) == 3


async def test_an_empty_segment_does_not_keep_the_ones_after_it():
    world = World()
    await world.log.roll()
    await written(world, 3)
    await world.clock.advance(1_000)
    assert await drop(world, world.committer.checkpointed, 60) > 2
    kill(world)


async def test_no_segment_is_dropped_before_the_low_water_mark_is_raised():
    world = World()
    await written(world, 5)
    there = len(world.log.all)

    async def refuse(*_):
        raise Unavailable("No answer.")

    world.values.write = refuse
    with pytest.raises(Unavailable):
        await drop(world, world.committer.checkpointed, 25)
    assert len(world.log.all) == there
    kill(world)


async def test_a_low_water_mark_never_falls_under_concurrent_writes():
    values = Values()
    one, two = LowWater(values), LowWater(values)
    assert await one.read() is None
    await one.begin(5)
    await two.begin(7)
    assert await two.read() == 5
    read = values.read

    async def overtaken(path):
        values.read = read
        known = await read(path)
        await two.raise_to(8)
        return known

    values.read = overtaken
    await one.raise_to(9)
    assert await two.read() == 9
    await two.raise_to(6)
    assert await one.read() == 9
