"""The guarantees of every connection between members (`storage.ports.Peers`)."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from hornbeam_server.schema.errors import LimitExceeded, Unavailable
from hornbeam_server.storage.ports import MESSAGE_BYTES, Caller
from tests.contract.contract_adapters import PEERS, on_loop_of_adapter, opened, over

every = over(PEERS)


class Listener:
    """Begins messages, answers each once it is released, and records both."""

    def __init__(self):
        self.begun = []
        self.done = []
        self._waiting = {}
        self._changed = asyncio.Condition()

    async def answer(self, caller, message):
        self.begun.append((caller, message))
        release = self._waiting[caller, message] = asyncio.Event()
        async with self._changed:
            self._changed.notify_all()
        await release.wait()
        self.done.append((caller, message))
        async with self._changed:
            self._changed.notify_all()
        return b"answer to " + message

    async def until(self, what):
        async with self._changed:
            await self._changed.wait_for(what)

    def release(self, caller, message):
        self._waiting[caller, message].set()


async def echo(caller, message):
    return f"{caller.name} {caller.connection} ".encode() + message


@asynccontextmanager
async def members(adapter, folder, count):
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(opened(adapter, folder)) for _ in range(count)]


def numbered(count):
    return [f"{n}".encode() for n in range(count)]


@every
@on_loop_of_adapter
async def test_answers_come_from_the_member_and_connection_asked(adapter, tmp_path):
    async with members(adapter, tmp_path, 2) as (a, b):
        address = await b.listen(echo)
        link = await a.connect("a", address, 7)
        assert not link.broken
        assert await link.ask(b"x") == b"a 7 x"
        assert await link.ask(b"") == b"a 7 "
        assert await asyncio.gather(*map(link.ask, (b"y", b"z"))) == [b"a 7 y", b"a 7 z"]


@every
@on_loop_of_adapter
async def test_members_ask_each_other_and_themselves(adapter, tmp_path):
    async with members(adapter, tmp_path, 2) as (a, b):
        to_a, to_b = await a.listen(echo), await b.listen(echo)
        assert to_a != to_b
        links = [
            await a.connect("a", to_b, 1),
            await b.connect("b", to_a, 1),
            await a.connect("a", to_a, 1),
        ]
        answers = await asyncio.gather(*(link.ask(b"x") for link in links))
        assert answers == [b"a 1 x", b"b 1 x", b"a 1 x"]


@every
@on_loop_of_adapter
async def test_messages_begin_in_order_and_may_be_answered_in_any_order(adapter, tmp_path):
    async with members(adapter, tmp_path, 2) as (a, b):
        listener = Listener()
        link = await a.connect("a", await b.listen(listener.answer), 1)
        messages, caller = numbered(100), Caller("a", 1)
        replies = [link.ask(message) for message in messages]
        await listener.until(lambda: len(listener.begun) == 100)
        assert listener.begun == [(caller, message) for message in messages]
        for message, reply in reversed(list(zip(messages, replies, strict=True))):
            assert not reply.done()
            listener.release(caller, message)
            assert await reply == b"answer to " + message
        assert len(listener.begun) == 100


@every
@on_loop_of_adapter
async def test_a_cancelled_request_does_not_disturb_others(adapter, tmp_path):
    async with members(adapter, tmp_path, 2) as (a, b):
        listener = Listener()
        link = await a.connect("a", await b.listen(listener.answer), 1)
        first, second = link.ask(b"1"), link.ask(b"2")
        first.cancel()
        await listener.until(lambda: len(listener.begun) == 2)
        for message in (b"1", b"2"):
            listener.release(Caller("a", 1), message)
        assert await second == b"answer to 2"
        assert not link.broken


@every
@on_loop_of_adapter
async def test_a_newer_connection_cuts_the_earlier_one_and_its_later_messages(adapter, tmp_path):
    async with members(adapter, tmp_path, 2) as (a, b):
        listener = Listener()
        address = await b.listen(listener.answer)
        earlier = await a.connect("a", address, 1)
        kept = earlier.ask(b"begun before")
        await listener.until(lambda: listener.begun)
        connecting = asyncio.ensure_future(a.connect("a", address, 2))
        unknown = []
        while not connecting.done():
            unknown.append(earlier.ask(b"at the same time"))
            await asyncio.sleep(0.0001)  # otherwise virtual time would stand still
        newer = await connecting
        before = list(listener.begun)
        unknown.append(earlier.ask(b"after"))
        reply = newer.ask(b"on the newer")
        for lost in (kept, *unknown):
            with pytest.raises(Unavailable):
                await lost
        assert earlier.broken
        await listener.until(lambda: (Caller("a", 2), b"on the newer") in listener.begun)
        assert listener.begun == [*before, (Caller("a", 2), b"on the newer")]
        listener.release(Caller("a", 2), b"on the newer")
        assert await reply == b"answer to on the newer"
        listener.release(Caller("a", 1), b"begun before")  # it was not cancelled
        await listener.until(lambda: (Caller("a", 1), b"begun before") in listener.done)


@every
@on_loop_of_adapter
async def test_a_connection_with_an_older_number_is_refused(adapter, tmp_path):
    async with members(adapter, tmp_path, 3) as (a, b, c):
        address = await b.listen(echo)
        link = await a.connect("a", address, 5)
        for number in (5, 4, 0):
            with pytest.raises(Unavailable, match="newer"):
                await a.connect("a", address, number)
        assert await (await c.connect("c", address, 1)).ask(b"x") == b"c 1 x"
        assert await link.ask(b"x") == b"a 5 x"
        await link.close()
        with pytest.raises(Unavailable, match="newer"):
            await a.connect("a", address, 5)
        assert await (await a.connect("a", address, 6)).ask(b"x") == b"a 6 x"


@every
@on_loop_of_adapter
async def test_closing_a_link_fails_unanswered_requests(adapter, tmp_path):
    async with members(adapter, tmp_path, 2) as (a, b):
        listener = Listener()
        link = await a.connect("a", await b.listen(listener.answer), 1)
        replies = [link.ask(message) for message in numbered(3)]
        await listener.until(lambda: len(listener.begun) == 3)
        await link.close()
        await link.close()
        assert link.broken
        for reply in (*replies, link.ask(b"behind it")):
            with pytest.raises(Unavailable):
                await reply
        assert len(listener.begun) == 3


@every
@pytest.mark.parametrize("closed", [0, 1], ids=["caller", "listener"])
@on_loop_of_adapter
async def test_closing_either_side_breaks_its_links(adapter, closed, tmp_path):
    async with members(adapter, tmp_path, 2) as (a, b):
        listener = Listener()
        address = await b.listen(listener.answer)
        link = await a.connect("a", address, 1)
        replies = [link.ask(message) for message in numbered(3)]
        await listener.until(lambda: len(listener.begun) == 3)
        await (a, b)[closed].close()
        await (a, b)[closed].close()
        for reply in replies:
            with pytest.raises(Unavailable):
                await reply
        assert link.broken
        with pytest.raises(Unavailable):
            await a.connect("a", address, 2)


@every
@on_loop_of_adapter
async def test_connecting_to_an_address_without_listener_fails(adapter, tmp_path):
    async with members(adapter, tmp_path, 2) as (a, b):
        address = await b.listen(echo)
        await b.close()
        for unknown in (address, "nowhere", "", ":", "127.0.0.1:0", "a..b:80"):
            with pytest.raises(Unavailable):
                await a.connect("a", unknown, 1)


@every
@on_loop_of_adapter
async def test_a_failing_answer_breaks_the_link(adapter, tmp_path):
    async with members(adapter, tmp_path, 2) as (a, b):
        begun = []

        async def answer(_, message):
            begun.append(message)
            if message == b"fails":
                raise Unavailable("The session has ended.")
            await asyncio.Event().wait()

        link = await a.connect("a", await b.listen(answer), 1)
        replies = [link.ask(b"waits"), link.ask(b"fails"), link.ask(b"behind it")]
        for reply in replies:
            with pytest.raises(Unavailable):
                await reply
        assert link.broken
        assert begun[:2] == [b"waits", b"fails"]


@every
@on_loop_of_adapter
async def test_the_longest_message_arrives_and_a_longer_one_is_refused(adapter, tmp_path):
    async with members(adapter, tmp_path, 2) as (a, b):

        async def answer(_, message):
            return message

        link = await a.connect("a", await b.listen(answer), 1)
        longest = bytes(MESSAGE_BYTES)
        with pytest.raises(LimitExceeded):
            link.ask(longest + b"x")
        assert await link.ask(longest) == longest
        assert not link.broken


@every
@on_loop_of_adapter
async def test_too_long_an_answer_breaks_the_link(adapter, tmp_path):
    async with members(adapter, tmp_path, 2) as (a, b):

        async def answer(_, message):
            return bytes(MESSAGE_BYTES + 1)

        link = await a.connect("a", await b.listen(answer), 1)
        with pytest.raises(Unavailable):
            await link.ask(b"x")
        assert link.broken
