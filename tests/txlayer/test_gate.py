"""The gate between transactions and changes of the schema."""

import asyncio

import pytest

from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.txlayer.locking.schema_gate import Gate
from tests.virtual_time import in_virtual_time


@in_virtual_time
async def test_a_transaction_at_a_closed_gate_waits_until_it_opens_or_its_deadline():
    gate, now = Gate(), asyncio.get_running_loop().time
    gate.close()
    patient = asyncio.ensure_future(gate.enter(now() + 10))
    with pytest.raises(Unavailable, match="being changed"):
        await gate.enter(now() + 1)
    assert (now(), gate.inside) == (1, 0)
    gate.open()
    await patient
    assert gate.inside == 1


@in_virtual_time
async def test_closing_waits_for_transactions_inside_and_keeps_others_out():
    gate = Gate()
    await gate.enter(1)
    order = []

    async def change():
        async with gate.closed():
            order.append(gate.inside)

    async def enter():
        await gate.enter(10)
        order.append("entered")

    tasks = [asyncio.ensure_future(change()), asyncio.ensure_future(enter())]
    await asyncio.sleep(1)
    assert order == []
    gate.leave()
    await asyncio.gather(*tasks)
    assert order == [0, "entered"]


@in_virtual_time
async def test_an_ended_gate_refuses_waiting_and_new_transactions():
    gate = Gate()
    gate.close()
    waiting = asyncio.ensure_future(gate.enter(10))
    await asyncio.sleep(0)
    gate.end()
    for entering in (waiting, gate.enter(10)):
        with pytest.raises(Unavailable, match="has ended"):
            await entering
    assert asyncio.get_running_loop().time() == 0
