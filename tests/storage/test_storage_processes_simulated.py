"""The simulation's own laws: crashed, frozen and thawed processes, and calls that fail."""

import asyncio

import pytest

from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.schema.turns import ROWS_A_TURN, turn
from hornbeam_server.storage.ports import NEWEST, Put
from hornbeam_server.storage.simulated.chaos import Chaos, Fault, Profile
from hornbeam_server.storage.simulated.coordination import (
    SESSION_S,
    SimulatedCoordination,
    SimulatedRegistry,
)
from hornbeam_server.storage.simulated.loop import Stuck, current_process, run_simulated
from hornbeam_server.storage.simulated.network import Outage, RemoteCalls
from hornbeam_server.storage.simulated.store import SimulatedStore, SimulatedTables
from tests.virtual_time import in_virtual_time


async def tick(seen, name):
    try:
        while True:
            await asyncio.sleep(1)
            seen.append((name, asyncio.get_running_loop().time()))
    finally:
        seen.append((name, "unwound"))


@in_virtual_time
async def test_nothing_of_a_crashed_process_runs_until_it_is_buried():
    loop, seen = asyncio.get_running_loop(), []
    process = loop.process("p")
    process.start(tick(seen, "p"))
    await asyncio.sleep(2.5)
    process.crash()
    await asyncio.sleep(5)
    assert seen == [("p", 1.0), ("p", 2.0)]
    await process.bury()
    assert seen[2:] == [("p", "unwound")]


@in_virtual_time
async def test_all_timers_of_a_thawed_process_are_due():
    loop, seen = asyncio.get_running_loop(), []
    process = loop.process("p")
    process.start(tick(seen, "p"))
    process.start(tick(seen, "q"))
    await asyncio.sleep(0.5)
    process.freeze()
    await asyncio.sleep(10)
    assert seen == []
    process.thaw()
    await asyncio.sleep(1.1)
    assert seen == [("p", 10.5), ("q", 10.5), ("p", 11.5), ("q", 11.5)]
    process.crash()
    await process.bury()


@pytest.mark.parametrize("steps", range(13))
@in_virtual_time
async def test_a_process_can_crash_at_each_of_its_steps(steps):
    loop, seen = asyncio.get_running_loop(), []
    process = loop.process("p")

    async def count():
        for n in range(10):
            seen.append(n)
            await asyncio.sleep(0)

    process.start(count())
    process.crash_after(steps)
    await asyncio.sleep(1)
    assert seen == list(range(min(steps, 10)))
    # The eleventh step ends the loop, the twelfth completes the task.
    assert process.dead is (steps < 12)
    await process.bury()


@in_virtual_time
async def test_children_and_callbacks_belong_to_their_process():
    process, seen = asyncio.get_running_loop().process("p"), []

    async def child():
        seen.append(current_process())

    async def parent():
        asyncio.get_running_loop().call_later(1, lambda: seen.append(current_process()))
        await asyncio.gather(child(), child())

    await process.start(parent())
    await asyncio.sleep(2)
    assert seen == [process] * 3
    assert current_process() is None


def test_a_simulation_that_cannot_go_on_raises_stuck():
    async def scenario():
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Stuck):
        run_simulated(scenario())


def calls(process, rates, **options):
    chaos = Chaos(1, Profile(rate=rates))
    chaos.unleash()
    loop = asyncio.get_running_loop()
    return RemoteCalls(
        loop, chaos, process, "store", refused=Fault.STORE_REFUSED, unknown=Fault.STORE_UNKNOWN,
        **options,
    )  # fmt: skip


@in_virtual_time
async def test_a_refused_call_has_no_effect_and_a_call_without_answer_has():
    process, seen = asyncio.get_running_loop().process("p"), []
    with pytest.raises(Unavailable, match="refused"):
        await calls(process, {Fault.STORE_REFUSED: 1}).one("x", lambda: seen.append("refused"))
    with pytest.raises(Unavailable, match="has not answered"):
        await calls(process, {Fault.STORE_UNKNOWN: 1}).one("x", lambda: seen.append("unknown"))
    assert await calls(process, {}).one("x", lambda: 7) == 7
    assert seen == ["unknown"]


@in_virtual_time
async def test_a_call_sent_before_the_process_died_still_arrives():
    process, seen = asyncio.get_running_loop().process("p"), []
    process.start(calls(process, {}).one("x", lambda: seen.append(1)))
    await asyncio.sleep(0)
    process.crash()
    assert seen == []
    await asyncio.sleep(1)
    assert seen == [1]
    with pytest.raises(asyncio.CancelledError):
        await calls(process, {}).one("x", lambda: seen.append(2))
    await process.bury()
    assert seen == [1]


@in_virtual_time
async def test_a_service_that_is_away_refuses_every_call():
    outage = Outage()
    reach = calls(asyncio.get_running_loop().process("p"), {}, outage=outage)
    outage.away = True
    with pytest.raises(Unavailable):
        await reach.one("x", lambda: 1)
    outage.away = False
    assert await reach.one("x", lambda: 1) == 1


@in_virtual_time
async def test_a_failed_put_may_have_written_a_part():
    process, tables, parts = asyncio.get_running_loop().process("p"), SimulatedTables(), set()
    store = SimulatedStore(tables, calls(process, {Fault.STORE_REFUSED: 0.5}))
    for table in ("a", "b"):
        tables.create_table(table)
    for ts in range(1, 30):
        try:
            await store.put({"a": [Put(b"k", b"v")], "b": [Put(b"k", b"v")]}, ts)
        except Unavailable:
            await asyncio.sleep(1)
            cells = (tables.get(t, [b"k"], NEWEST, None)[0] for t in ("a", "b"))
            parts.add(tuple(cell is not None and cell.ts == ts for cell in cells))
    assert parts == {(False, False), (True, False), (False, True)}


@in_virtual_time
async def test_a_frozen_process_loses_its_session_and_notices_when_it_thaws():
    loop = asyncio.get_running_loop()
    registry, process = SimulatedRegistry(loop.time), loop.process("p")
    session = await process.start(SimulatedCoordination.open(registry))
    await process.start(session.join("a", b"data"))
    await asyncio.sleep(10)
    assert session.alive()
    assert registry.members() == {"a": b"data"}
    process.freeze()
    await asyncio.sleep(SESSION_S + 1)
    assert registry.members() == {}
    assert not session.alive()
    process.thaw()
    await asyncio.sleep(10)
    assert not session.alive()
    process.crash()
    await process.bury()


@in_virtual_time
async def test_no_news_arrives_during_a_lag_or_a_cut():
    loop = asyncio.get_running_loop()
    registry, process = SimulatedRegistry(loop.time), loop.process("p")
    way = calls(process, {})
    session = await process.start(SimulatedCoordination.open(registry, way))
    await process.start(session.join("a"))
    known = session.news
    way.lag_s = 1.0
    registry.write("/x", b"1", 0)
    assert session.news == known
    way.lag_s = 0.0
    assert session.news != known
    known = session.news
    registry.cut_off("a")
    registry.write("/x", b"2", 1)
    assert session.news == known
    await asyncio.sleep(SESSION_S)
    assert session.news != known  # the session is over: ask
    process.crash()
    await process.bury()


@in_virtual_time
async def test_a_session_that_is_cut_off_ends_although_its_process_lives():
    loop = asyncio.get_running_loop()
    registry, process = SimulatedRegistry(loop.time), loop.process("p")
    session = await process.start(SimulatedCoordination.open(registry))
    await process.start(session.join("a"))
    assert registry.cut_off("a")
    assert not registry.cut_off("a")
    for _ in range(100):
        assert session.alive() <= ("a" in registry.members())  # the process gives up first
        await asyncio.sleep(SESSION_S / 50)
    assert not session.alive()
    assert registry.members() == {}
    with pytest.raises(Unavailable):
        await session.join("a")
    process.crash()
    await process.bury()


def test_the_seed_determines_all_decisions():
    profile = Profile(rate={Fault.SLOW: 0.5})

    def drawn(seed):
        chaos = Chaos(seed, profile)
        chaos.unleash()
        return [chaos.latency() for _ in range(100)], chaos.trace_hash

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


@pytest.mark.parametrize("ends", ["crash", "freeze"])
@in_virtual_time
async def test_a_process_that_ends_in_the_queue_for_a_turn_delays_no_other(ends):
    """All processes share one loop, and so one queue for turns."""
    loop = asyncio.get_running_loop()
    first, second = loop.process("first"), loop.process("second")
    first.start(turn(range(ROWS_A_TURN)))
    task = second.start(turn(range(ROWS_A_TURN)))
    await asyncio.sleep(0)
    getattr(first, ends)()
    async with asyncio.timeout(1):
        await task
    first.crash()
    await first.bury()
