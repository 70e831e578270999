"""Connections of the simulation: crashed and frozen members, and order under every fault."""

import asyncio
from collections import defaultdict

import pytest

from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.storage.simulated.chaos import Chaos, Fault, Profile
from hornbeam_server.storage.simulated.loop import run_simulated
from hornbeam_server.storage.simulated.peers import SILENCE_S, SimulatedNetwork, SimulatedPeers
from tests.depth import depth
from tests.virtual_time import in_virtual_time

FAULTS = Profile(
    rate={Fault.LINK_BROKEN: 0.02, Fault.SLOW: 0.05},
    every_s={Fault.FREEZE: 0.5, Fault.CRASH: 2.0},
)


class Member:
    """A process that listens, and records the messages that it has begun."""

    def __init__(self, network, name):
        self.process = network.loop.process(name)
        self.peers = SimulatedPeers(network, self.process)
        self.begun = []
        self.address = ""

    async def listen(self, seconds=0.0):
        """Listen, and answer each message after `seconds`."""

        async def answer(caller, message):
            self.begun.append((caller, message))
            await asyncio.sleep(seconds)
            return message

        self.address = await self.process.start(self.peers.listen(answer))


def two_members():
    network = SimulatedNetwork(asyncio.get_running_loop(), Chaos(1, Profile()))
    return Member(network, "a"), Member(network, "b")


async def connected(a, b, number=1):
    return await a.process.start(a.peers.connect("a", b.address, number))


@in_virtual_time
async def test_a_dead_listener_breaks_the_link_and_cannot_be_reached():
    a, b = two_members()
    await b.listen(seconds=100)
    link = await connected(a, b)
    reply = link.ask(b"x")
    await asyncio.sleep(1)
    b.process.crash()
    with pytest.raises(Unavailable, match="silent"):
        await reply
    assert link.broken
    with pytest.raises(Unavailable, match="no member listens"):
        await connected(a, b, 2)
    await b.process.bury()


@in_virtual_time
async def test_messages_of_a_dead_caller_still_arrive():
    a, b = two_members()
    await b.listen()
    link = await connected(a, b)
    replies = [link.ask(b"1"), link.ask(b"2")]
    a.process.crash()
    await asyncio.sleep(1)
    assert [message for _, message in b.begun] == [b"1", b"2"]
    with pytest.raises(asyncio.CancelledError):
        link.ask(b"3")
    assert all(reply.done() for reply in replies)  # no caller is left to read it


@in_virtual_time
async def test_messages_wait_at_a_frozen_listener():
    a, b = two_members()
    await b.listen()
    link = await connected(a, b)
    b.process.freeze()
    replies = [link.ask(b"1"), link.ask(b"2")]
    await asyncio.sleep(SILENCE_S / 2)
    assert b.begun == []
    b.process.thaw()
    assert await asyncio.gather(*replies) == [b"1", b"2"]
    assert not link.broken


@in_virtual_time
async def test_a_listener_frozen_for_long_is_given_up_and_begins_waiting_messages_later():
    a, b = two_members()
    await b.listen()
    link = await connected(a, b)
    b.process.freeze()
    reply = link.ask(b"1")
    with pytest.raises(Unavailable, match="silent"):
        await reply
    with pytest.raises(Unavailable):
        await link.ask(b"2")
    with pytest.raises(Unavailable, match="has not answered"):
        await connected(a, b, 2)
    b.process.thaw()
    await asyncio.sleep(1)
    assert b.begun == [(("a", 1), b"1")]


@in_virtual_time
async def test_a_frozen_caller_is_given_up_and_finds_its_link_broken():
    a, b = two_members()
    await b.listen()
    link = await connected(a, b)
    a.process.freeze()
    await asyncio.sleep(2 * SILENCE_S)
    a.process.thaw()
    assert link.broken
    assert await (await connected(a, b, 2)).ask(b"x") == b"x"


@in_virtual_time
async def test_messages_between_parted_members_arrive_once_they_are_joined():
    a, b = two_members()
    await b.listen()
    link = await connected(a, b)
    a.peers._network.part(a.process, b.process)
    replies = [link.ask(b"1"), link.ask(b"2")]
    await asyncio.sleep(SILENCE_S / 2)
    assert b.begun == []
    a.peers._network.join(b.process, a.process)
    assert await asyncio.gather(*replies) == [b"1", b"2"]
    assert not link.broken


@in_virtual_time
async def test_members_parted_for_long_give_each_other_up_but_others_do_not():
    a, b = two_members()
    await b.listen()
    c = Member(a.peers._network, "c")
    link = await connected(a, b)
    a.peers._network.part(a.process, b.process)
    reply = link.ask(b"1")
    with pytest.raises(Unavailable, match="silent"):
        await reply
    with pytest.raises(Unavailable, match="has not answered"):
        await connected(a, b, 2)
    assert await (await c.process.start(c.peers.connect("c", b.address, 1))).ask(b"x") == b"x"
    a.peers._network.join_all()
    assert await (await connected(a, b, 3)).ask(b"y") == b"y"
    await asyncio.sleep(1)
    assert b.begun == [(("c", 1), b"x"), (("a", 3), b"y")]


@in_virtual_time
async def test_an_idle_link_stays():
    a, b = two_members()
    await b.listen()
    link = await connected(a, b)
    await asyncio.sleep(3_600)
    assert await link.ask(b"x") == b"x"


# ---------------------------------------------------------------- random faults


class World:
    """Members that send messages while processes freeze, crash and are replaced."""

    def __init__(self, seed):
        self.loop = asyncio.get_running_loop()
        self.chaos = Chaos(seed, FAULTS)
        self.random = self.chaos.random
        self.network = SimulatedNetwork(self.loop, self.chaos)
        self.listeners = []
        self.sent = defaultdict(int)
        """The number of messages by listener, name and connection."""
        self.replies = []
        self.answered = []
        self.dead = []

    async def run(self):
        await self.follow("listener 0")
        self.chaos.unleash()
        work = [asyncio.ensure_future(self.keep_calling(f"caller {n}")) for n in range(3)]
        work.append(asyncio.ensure_future(self.strike()))
        await asyncio.sleep(20)
        for task in work:
            task.cancel()
        self.chaos.calm()
        for member in (*self.listeners, *self.dead):
            member.process.thaw()
        await asyncio.sleep(10)
        for member in self.dead:
            await member.process.bury()
        for task in work:
            with pytest.raises(asyncio.CancelledError):
                await task

    async def follow(self, name):
        """Start a new listener in place of the last one."""
        listener = Member(self.network, name)
        self.listeners.append(listener)
        await listener.listen(seconds=0.01)

    async def strike(self):
        while True:
            await asyncio.sleep(self.chaos.until_next(Fault.FREEZE))
            last = self.listeners[-1]
            if self.random.random() < 0.3:
                last.process.crash_after(self.random.randint(0, 20))
                await asyncio.sleep(0.1)
                self.dead.append(self.listeners[-1])
                last.process.crash()
                await self.follow(f"listener {len(self.listeners)}")
            else:
                last.process.freeze()
                await asyncio.sleep(self.chaos.between((0.05, 4.0)))
                last.process.thaw()

    async def keep_calling(self, name):
        """Open connections one after the other, some while the last one is still open."""
        caller, number = Member(self.network, name), 0
        while True:
            number += 1
            listener = self.listeners[-1]
            try:
                connecting = caller.peers.connect(name, listener.address, number)
                link = await caller.process.start(connecting)
            except Unavailable:
                await asyncio.sleep(0.05)
                continue
            for _ in range(self.random.randint(1, 20)):
                for _ in range(self.random.randint(1, 5)):
                    self.ask(link, listener, name, number)
                if link.broken:
                    break
                await asyncio.sleep(self.random.random() * 0.02)
            if self.random.random() < 0.3:
                await link.close()

    def ask(self, link, listener, name, number):
        key = (listener.process.name, name, number)
        index, self.sent[key] = self.sent[key], self.sent[key] + 1
        reply = link.ask(str(index).encode())
        self.replies.append((reply, key, index))

    def begun(self):
        """Indexes of messages in the order of their beginning, by listener, name and connection."""
        found = defaultdict(list)
        for listener in self.listeners:
            for (name, number), message in listener.begun:
                found[listener.process.name, name, number].append(int(message))
        return found


@pytest.mark.parametrize("seed", range(depth(10, long=30)))
def test_messages_begin_in_order_and_only_a_tail_is_lost(seed):
    async def scenario():
        world = World(seed)
        await world.run()
        begun = world.begun()
        for key, indexes in begun.items():
            assert indexes == list(range(len(indexes))), key
            assert len(indexes) <= world.sent[key]
        for reply, key, index in world.replies:
            assert reply.done(), "a call never ends"
            if reply.exception() is None:
                assert reply.result() == str(index).encode()
                assert index < len(begun[key])
            else:
                assert isinstance(reply.exception(), Unavailable)
        for listener in world.listeners:
            by_name = defaultdict(list)
            for (name, number), _ in listener.begun:
                by_name[name].append(number)
            assert all(numbers == sorted(numbers) for numbers in by_name.values())
        # Without faults all of this would be trivially true.
        assert world.chaos.fired[Fault.LINK_BROKEN]
        assert any(len(indexes) < world.sent[key] for key, indexes in begun.items())
        assert any(reply.exception() is None for reply, *_ in world.replies)
        assert world.loop.uncaught == []
        return world.chaos.trace_hash

    assert run_simulated(scenario()) == run_simulated(scenario())
