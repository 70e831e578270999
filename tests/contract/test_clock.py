"""The guarantees of every clock (`storage.ports.Clock`), and those of the simulated clock."""

import asyncio

from hornbeam_server.storage.local.system import RandomIds
from hornbeam_server.storage.simulated.clock import SimulatedClock
from tests.contract.contract_adapters import CLOCKS, on_loop_of_adapter, over
from tests.virtual_time import in_virtual_time

every = over(CLOCKS)


@every
@on_loop_of_adapter
async def test_sleeping_takes_as_long_as_asked(adapter, tmp_path):
    clock = adapter.open(tmp_path)
    before, wall = clock.monotonic(), clock.wall_ms()
    sleeper = asyncio.create_task(clock.sleep(0.02))
    await asyncio.wait_for(sleeper, 5)
    assert clock.monotonic() - before >= 0.0199
    assert clock.wall_ms() - wall >= 19
    await asyncio.wait_for(clock.sleep(0), 5)


@every
@on_loop_of_adapter
async def test_wall_time_is_milliseconds_since_1970(adapter, tmp_path):
    assert 1_600_000_000_000 < adapter.open(tmp_path).wall_ms() < 4_000_000_000_000


@in_virtual_time
async def test_simulated_time_passes_only_in_sleeps():
    clock = SimulatedClock(start_ms=1_000)
    for _ in range(1_000):
        await asyncio.sleep(0)
    assert (clock.wall_ms(), clock.monotonic()) == (1_000, 0.0)
    await clock.sleep(86_400)
    assert (clock.wall_ms(), clock.monotonic()) == (86_401_000, 86_400.0)


@in_virtual_time
async def test_simulated_sleepers_wake_in_order_at_their_own_times():
    clock, woken = SimulatedClock(start_ms=0), []

    async def every(seconds, name):
        while True:
            await clock.sleep(seconds)
            woken.append((clock.wall_ms(), name))

    tasks = [asyncio.create_task(every(s, n)) for s, n in ((2, "b"), (3, "c"), (2, "a"))]
    await clock.sleep(6.5)
    assert woken == [(2000, "b"), (2000, "a"), (3000, "c"), (4000, "b"), (4000, "a"),
                     (6000, "c"), (6000, "b"), (6000, "a")]  # fmt: skip
    for task in tasks:
        task.cancel()
    await clock.sleep(10)
    assert len(woken) == 8


@in_virtual_time
async def test_simulated_wall_time_may_jump_and_monotonic_time_does_not():
    clock = SimulatedClock(start_ms=10_000, skew_ms=500)
    assert clock.wall_ms() == 10_500
    clock.skew_ms = -3_000
    assert (clock.wall_ms(), clock.monotonic()) == (7_000, 0.0)


def test_ids_are_32_hexadecimal_digits_and_differ():
    ids = {RandomIds().new() for _ in range(1_000)}
    assert len(ids) == 1_000
    assert all(len(id_) == 32 and int(id_, 16) >= 0 for id_ in ids)
