"""What the simulated adapters add to their ports: crashes, failing appends, shared time."""

import asyncio

import pytest

from schema.errors import Corruption, Unavailable
from storage.ports import NEWEST, START, TOMBSTONE, Cell, Put
from storage.simulated.clock import SimulatedClock, VirtualTime
from storage.simulated.log import SimulatedDisk, SimulatedLog
from storage.simulated.store import SimulatedStore


async def written():
    """A store with a flushed and an unflushed version of two rows."""
    store = SimulatedStore()
    await store.create_table("t")
    await store.put({"t": [Put(b"a", b"1"), Put(b"b", b"1")]}, 1)
    await store.flush()
    await store.put({"t": [Put(b"a", b"2"), Put(b"b", TOMBSTONE)]}, 2)
    return store


async def rows(store):
    return [cell async for batch in store.scan("t", b"", None, NEWEST) for cell in batch]


def test_a_crash_of_the_process_keeps_every_put():
    async def scenario():
        store = await written()
        found = store.crashed()
        await store.put({"t": [Put(b"c", b"3")]}, 3)
        assert await rows(found) == [Cell(b"a", 2, b"2")]
        # What the machine had not flushed then, it has not flushed now.
        assert await rows(found.crashed(lambda: False)) == [
            Cell(b"a", 1, b"1"),
            Cell(b"b", 1, b"1"),
        ]

    asyncio.run(scenario())


def test_a_crash_of_the_machine_keeps_what_was_flushed_and_some_of_the_rest():
    async def scenario():
        store = await written()
        flushed = [Cell(b"a", 1, b"1"), Cell(b"b", 1, b"1")]
        assert await rows(store.crashed(lambda: False)) == flushed
        assert await rows(store.crashed(lambda: True)) == [Cell(b"a", 2, b"2")]
        kept = iter([True, False])
        assert await rows(store.crashed(lambda: next(kept))) == [Cell(b"a", 2, b"2"), flushed[1]]

    asyncio.run(scenario())


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_an_append_may_fail_with_any_of_its_frames_written(kept):
    async def scenario():
        disk = SimulatedDisk()
        log = SimulatedLog.open(disk, "a", 1)
        await log.append([b"one"])
        log.fault = lambda payloads: kept
        with pytest.raises(Unavailable):
            await log.append([b"two", b"three", b"four"])
        for call in (log.append([b"five"]), log.roll()):
            with pytest.raises(Unavailable, match="failed write"):
                await call
        await log.close()
        later = SimulatedLog.open(disk, "a", 2)
        assert [segment.sealed for segment in await later.segments()] == [False]
        found = [payload async for _, payload in later.read(START)]
        assert found == [b"one", b"two", b"three"][: kept + 1]

    asyncio.run(scenario())


def test_an_append_that_raises_leaves_nothing():
    def unavailable(payloads):
        raise Unavailable(f"no room for {len(payloads)}")

    async def scenario():
        log = SimulatedLog.open(SimulatedDisk(), "a", 1)
        log.fault = unavailable
        with pytest.raises(Unavailable, match="no room for 2"):
            await log.append([b"one", b"two"])
        with pytest.raises(Unavailable, match="failed write"):
            await log.append([b"three"])
        assert [record async for record in log.read(START)] == []

    asyncio.run(scenario())


def test_an_epoch_of_the_simulated_log_is_used_once():
    async def scenario():
        disk = SimulatedDisk()
        log = SimulatedLog.open(disk, "a", 3)
        await log.append([b"one"])
        for epoch in (1, 3):
            with pytest.raises(Corruption, match=f"epoch {epoch}"):
                SimulatedLog.open(disk, "a", epoch)

    asyncio.run(scenario())


def test_clocks_of_one_cluster_share_their_time_and_not_their_errors():
    async def scenario():
        time, woken = VirtualTime(), []
        ahead, behind = SimulatedClock(time, skew_ms=300), SimulatedClock(time, skew_ms=-200)

        async def sleeper(clock, seconds, name):
            await clock.sleep(seconds)
            woken.append((name, clock.monotonic()))

        tasks = [
            asyncio.create_task(sleeper(ahead, 2, "ahead")),
            asyncio.create_task(sleeper(behind, 1, "behind")),
        ]
        await ahead.advance(5)
        assert woken == [("behind", 1.0), ("ahead", 2.0)]
        assert ahead.wall_ms() - behind.wall_ms() == 500
        assert ahead.monotonic() == behind.monotonic() == 5.0
        await asyncio.gather(*tasks)

    asyncio.run(scenario())
