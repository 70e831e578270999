"""Long work in parts: waiting tasks proceed in order, one in each round of the event loop."""

import asyncio

import uvloop

from hornbeam_server.schema import turns
from hornbeam_server.schema.turns import (
    BYTES_A_TURN,
    ROWS_A_TURN,
    chunks,
    made,
    selected,
    turn,
    worked_off,
)

MANY = range(3 * ROWS_A_TURN + 1)


def test_chunks_contain_all_items_in_order():
    pieces = list(chunks(MANY))
    assert [len(piece) for piece in pieces] == [ROWS_A_TURN] * 3 + [1]
    assert [item for piece in pieces for item in piece] == list(MANY)
    assert list(chunks([])) == []


def rounds_of(loop_factory, workers, cancelled=()):
    """Return which workers ran in each round of the loop; each worker takes three turns."""
    seen = []

    async def work(name):
        for _ in range(3):
            await turn(MANY)
            seen[-1].append(name)

    async def scenario():
        tasks = [asyncio.ensure_future(work(name)) for name in range(workers)]
        for name in cancelled:
            asyncio.get_running_loop().call_soon(tasks[name].cancel)
        while not all(task.done() for task in tasks):
            seen.append([])
            await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(scenario())
    return [names for names in seen if names]


def test_one_worker_proceeds_in_each_round_in_order():
    for factory in (asyncio.new_event_loop, uvloop.new_event_loop):
        assert rounds_of(factory, 4) == [[name] for _ in range(3) for name in range(4)]


def test_a_cancelled_worker_leaves_the_queue():
    rounds = rounds_of(asyncio.new_event_loop, 3, cancelled=[1])
    assert [name for names in rounds for name in names] == [0, 2] * 3


def test_work_pauses_by_rows_or_by_bytes(monkeypatch):
    pauses = []

    async def pause():
        pauses.append(None)

    def pauses_in(steps):
        pauses.clear()
        asyncio.run(worked_off(steps))
        return len(pauses)

    monkeypatch.setattr(turns, "pause", pause)
    assert pauses_in([0] * (ROWS_A_TURN - 1)) == 0
    assert pauses_in([0] * (3 * ROWS_A_TURN)) == 3
    assert pauses_in([BYTES_A_TURN // 2] * 9) == 4
    assert pauses_in([0, 10 * BYTES_A_TURN, 0]) == 1


async def test_little_work_does_not_wait():
    waited = []
    asyncio.get_running_loop().call_soon(waited.append, True)
    await turn(range(ROWS_A_TURN - 1))
    assert await made(iter(range(5))) == [0, 1, 2, 3, 4]
    assert await selected(range(5), lambda x: x % 2) == [1, 3]
    assert waited == []
    assert await made(iter(MANY)) == list(MANY)
    assert waited == [True]
    assert await selected(MANY, lambda x: x % 2) == list(MANY)[1::2]
