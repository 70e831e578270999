"""How many locks a minute are granted in each slot, and rows applied to its views."""

import asyncio

from hornbeam_server.storage.simulated.clock import SimulatedClock
from hornbeam_server.txlayer.cluster.membership_view import slot_of
from hornbeam_server.txlayer.cluster.slot_rates import MEASURED_S, SlotRates
from hornbeam_server.txlayer.locking.locks import LockOwner, LockTable, Mode
from tests.virtual_time import in_virtual_time

HOT, COLD = ("root", "r", b"hot"), ("root", "r", b"cold")


def count(rates, name, times):
    for _ in range(times):
        rates.count(name)


@in_virtual_time
async def test_no_rates_are_reported_before_they_are_measured_long_enough():
    rates = SlotRates(SimulatedClock())
    count(rates, HOT, 50)
    await asyncio.sleep(MEASURED_S / 2)
    assert rates.newest() is None
    await asyncio.sleep(MEASURED_S / 2)
    assert rates.newest() == {slot_of(HOT): 600}


@in_virtual_time
async def test_a_late_query_returns_the_rate_since_the_query_before():
    rates = SlotRates(SimulatedClock())
    count(rates, HOT, 100)
    await asyncio.sleep(2 * MEASURED_S)
    assert rates.newest() == {slot_of(HOT): 600}
    assert rates.newest() == {slot_of(HOT): 600}


@in_virtual_time
async def test_old_grants_fade_and_steady_rates_stay():
    rates = SlotRates(SimulatedClock())
    count(rates, COLD, 50)
    seen = []
    for _ in range(12):
        count(rates, HOT, 50)
        await asyncio.sleep(MEASURED_S)
        seen.append(rates.newest())
    assert {found[slot_of(HOT)] for found in seen} == {600}
    assert [found.get(slot_of(COLD)) for found in seen[:3]] == [600, 300, 150]
    assert slot_of(COLD) not in seen[-1]


@in_virtual_time
async def test_new_owners_restart_the_measurement():
    rates = SlotRates(SimulatedClock())
    count(rates, HOT, 50)
    await asyncio.sleep(MEASURED_S)
    assert rates.newest() is not None
    count(rates, HOT, 50)
    rates.restart()
    assert rates.newest() is None
    await asyncio.sleep(MEASURED_S)
    assert rates.newest() == {}


@in_virtual_time
async def test_each_lock_counts_once_when_it_is_granted():
    counted = []
    locks, holder, waiter = LockTable(counted.append), LockOwner(1), LockOwner(2)
    await locks.acquire(holder, [HOT, HOT], Mode.EXCLUSIVE)
    assert counted == [HOT]
    waiting = asyncio.ensure_future(locks.acquire(waiter, [HOT], Mode.EXCLUSIVE))
    await asyncio.sleep(0)
    assert counted == [HOT]
    locks.release_all(holder)
    await waiting
    assert counted == [HOT, HOT]
