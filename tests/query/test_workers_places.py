"""Fair sharing of places: pure logic, with a clock that the test sets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from hornbeam_server.query.workers.places import Place, Places


class Clock:
    """A clock that the test advances, which fires its timers."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._timers: list[Clock.Timer] = []

    class Timer:
        def __init__(self, at: float, work: Callable[[], None]) -> None:
            self.at, self.work, self.cancelled = at, work, False

        def cancel(self) -> None:
            self.cancelled = True

    def call_later(self, delay_s: float, work: Callable[[], None]) -> Clock.Timer:
        timer = Clock.Timer(self.now_s + delay_s, work)
        self._timers.append(timer)
        return timer

    def advance(self, seconds: float) -> None:
        self.now_s += seconds
        due = [t for t in self._timers if t.at <= self.now_s and not t.cancelled]
        self._timers = [t for t in self._timers if t not in due]
        for timer in due:
            timer.work()


class World:
    def __init__(self, number: int = 4) -> None:
        self.clock = Clock()
        self.places = Places(number, lambda: self.clock.now_s, self.clock.call_later)
        self.stopped: list[Place] = []

    async def hold(self, client: str, *, long: bool = False, stoppable: bool = True) -> Place:
        place = await self.places.take(client, long=long)
        if stoppable:
            place.stop = lambda: self.stopped.append(place)
        return place

    async def waiting(self, client: str, *, long: bool = False) -> asyncio.Task[Place]:
        task = asyncio.ensure_future(self.hold(client, long=long))
        await settle()
        return task


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_free_place_is_taken_at_once():
    world = World()
    held = [await world.hold("a") for _ in range(4)]
    waiting = await world.waiting("a")
    assert not waiting.done()
    world.places.give_back(held[0])
    await settle()
    assert waiting.done()


async def test_the_client_with_the_fewest_places_is_next():
    world = World()
    held = [await world.hold("a") for _ in range(4)]
    second = [await world.waiting("a") for _ in range(3)]
    other = await world.waiting("b")
    world.places.give_back(held[0])
    await settle()
    assert other.done()
    assert not any(task.done() for task in second)
    world.places.give_back(held[1])
    await settle()
    assert [task.done() for task in second] == [True, False, False]
    for task in second:
        task.cancel()


async def test_long_statements_leave_a_place_for_a_short_one():
    world = World()
    held = []
    for client in "aaab":
        held.append(await world.hold(client))
        world.clock.advance(0.01)
    world.clock.advance(1)
    short = await world.waiting("c")
    assert world.stopped == [
        held[2]
    ]  # the newest statement of the client with the largest number of places
    assert held[2].preempted
    world.places.give_back(held[2])
    await settle()
    assert short.done()


async def test_a_statement_is_stopped_only_once_it_is_long():
    world = World()
    for _ in range(4):
        await world.hold("a")
    short = await world.waiting("b")
    world.clock.advance(0.4)
    assert not world.stopped
    world.clock.advance(0.2)
    assert len(world.stopped) == 1
    world.clock.advance(5)
    assert len(world.stopped) == 1  # the stopped statement still holds its place
    world.places.give_back(world.stopped[0])
    await settle()
    assert short.done()


async def test_a_stopped_statement_waits_until_fewer_long_ones_run():
    world = World()
    held = [await world.hold("a") for _ in range(4)]
    world.clock.advance(1)
    short = await world.waiting("b")
    world.places.give_back(world.stopped[0])
    again = await world.waiting("a", long=True)
    assert short.done()
    world.places.give_back(short.result())
    await settle()
    assert not again.done()  # three long statements run: the fourth place is for short ones
    left = next(place for place in held if place not in world.stopped)
    world.places.give_back(left)
    await settle()
    assert again.done()


async def test_statements_that_cannot_start_again_are_not_stopped():
    world = World()
    for _ in range(4):
        await world.hold("a", stoppable=False)
    world.clock.advance(1)
    short = await world.waiting("b")
    world.clock.advance(10)
    assert not world.stopped
    assert not short.done()
    short.cancel()


async def test_a_cancelled_caller_takes_no_place():
    world = World(2)
    held = [await world.hold("a") for _ in range(2)]
    gone = await world.waiting("b")
    stays = await world.waiting("c")
    gone.cancel()
    await settle()
    world.places.give_back(held[0])
    await settle()
    assert stays.done()
    # Cancelled at the same time as the place is assigned:
    late = await world.waiting("d")
    world.places.give_back(held[1])
    late.cancel()
    await settle()
    assert (await world.hold("e")).client == "e"


async def test_a_place_freed_after_a_cancellation_goes_to_another_caller():
    world = World(2)
    held = [await world.hold("a") for _ in range(2)]
    gone, stays = await world.waiting("b"), await world.waiting("c")
    gone.cancel()
    world.places.give_back(held[0])
    await settle()
    assert gone.cancelled()
    assert stays.done()
    world.places.give_back(held[1])
    world.places.give_back(stays.result())
    assert [(await world.hold(client)).client for client in "de"] == ["d", "e"]


@pytest.mark.parametrize("clients", [["a"] * 8, list("abcdefgh"), list("aaaaabbc")])
async def test_every_waiting_statement_is_served(clients: list[str]):
    world = World(2)
    tasks = [await world.waiting(client) for client in clients]
    for _ in clients:
        done = [task for task in tasks if task.done()]
        assert done
        tasks.remove(done[0])
        world.places.give_back(done[0].result())
        await settle()
    assert not tasks
