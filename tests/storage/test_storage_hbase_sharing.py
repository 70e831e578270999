"""Requests that share a call (storage/hbase/sharing.py), over a sender that the test controls."""

import asyncio

import pytest

from hornbeam_server.schema.errors import Corruption, Unavailable
from hornbeam_server.storage.hbase import sharing
from hornbeam_server.storage.hbase.gateways import CallFailed
from hornbeam_server.storage.hbase.sharing import SharedCalls


class Sender:
    """Records sent calls. While `free` is clear, no call is answered; `fault` runs before each
    answer."""

    def __init__(self, timeout_s=15.0, patience_s=60.0):
        self.sent = []
        self.free = asyncio.Event()
        self.free.set()
        self.fault = lambda items: None
        self.calls = SharedCalls(self.send, timeout_s, patience_s)

    async def send(self, route, items):
        self.sent.append((route, items))
        await self.free.wait()
        self.fault(items)
        return [f"{item}!" for item in items]

    def ask(self, *items, route="r"):
        return asyncio.ensure_future(self.calls.ask(route, items))


async def settle():
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_single_request_is_sent_at_once_and_so_is_the_next():
    sender = Sender()
    assert await sender.ask("a", "b") == ["a!", "b!"]
    assert await sender.ask("c") == ["c!"]
    assert sender.sent == [("r", ["a", "b"]), ("r", ["c"])]


async def test_requests_of_one_turn_share_a_call_and_get_their_own_answers():
    sender = Sender()
    answers = await asyncio.gather(sender.ask("a"), sender.ask("b", "c"), sender.ask("a"))
    assert answers == [["a!"], ["b!", "c!"], ["a!"]]
    assert sender.sent == [("r", ["a", "b", "c", "a"])]


async def test_a_request_is_sent_before_it_is_awaited():
    sender = Sender()
    asked = [sender.calls.ask(route, ["a"]) for route in "xy"]
    await settle()
    assert sender.sent == [("x", ["a"]), ("y", ["a"])]
    assert [await one for one in asked] == [["a!"], ["a!"]]


async def test_no_request_joins_a_call_that_was_sent_before_it():
    sender = Sender()
    sender.free.clear()
    first = sender.ask("a")
    await settle()
    later = [sender.ask("a"), sender.ask("b")]
    await settle()
    assert sender.sent == [("r", ["a"])]
    sender.free.set()
    await asyncio.gather(first, *later)
    assert sender.sent == [("r", ["a"]), ("r", ["a", "b"])]


async def test_no_request_waits_for_a_slow_call():
    sender = Sender(patience_s=0.0)
    sender.free.clear()
    first = sender.ask("a")
    await settle()
    second = [sender.ask("b"), sender.ask("c")]
    await settle()
    assert sender.sent == [("r", ["a"]), ("r", ["b", "c"])]
    sender.free.set()
    assert await asyncio.gather(first, *second) == [["a!"], ["b!"], ["c!"]]


async def test_routes_do_not_wait_for_each_other():
    sender = Sender()
    sender.free.clear()
    calls = [sender.ask("a", route=route) for route in "xy"]
    await settle()
    assert sender.sent == [("x", ["a"]), ("y", ["a"])]
    sender.free.set()
    await asyncio.gather(*calls)


async def test_a_cancelled_request_does_not_affect_the_others_of_its_call():
    sender = Sender()
    sender.free.clear()
    gone, stays = sender.ask("a"), sender.ask("b")
    await settle()
    unsent, next_one = sender.ask("c"), sender.ask("d")
    await settle()
    gone.cancel()
    unsent.cancel()
    await settle()
    sender.free.set()
    assert await stays == ["b!"]
    assert await next_one == ["d!"]
    assert gone.cancelled()
    assert sender.sent == [("r", ["a", "b"]), ("r", ["d"])], (
        "a key that no caller waits for is not sent"
    )


async def test_a_call_whose_requests_are_all_cancelled_is_not_sent():
    sender = Sender()
    sender.free.clear()
    first = sender.ask("a")
    await settle()
    gone = sender.ask("b")
    await settle()
    gone.cancel()
    sender.free.set()
    await first
    await settle()
    assert await sender.ask("c") == ["c!"]
    assert sender.sent == [("r", ["a"]), ("r", ["c"])]


async def test_a_request_that_hbase_refuses_fails_for_its_own_caller_alone():
    def refuse(items):
        if "bad" in items:
            raise CallFailed("HBase refuses", refused=True)

    sender = Sender()
    sender.fault = refuse
    good, bad, other = await asyncio.gather(
        sender.ask("a"), sender.ask("x", "bad"), sender.ask("b"), return_exceptions=True
    )
    assert (good, other) == (["a!"], ["b!"])
    assert isinstance(bad, CallFailed)
    alone = [("r", ["a"]), ("r", ["x", "bad"]), ("r", ["b"])]
    assert sender.sent == [("r", ["a", "x", "bad", "b"]), *alone]


@pytest.mark.parametrize(
    "error", [CallFailed("The gateway has gone"), Corruption("no table"), AssertionError("a bug")]
)
async def test_any_other_failure_is_shared_and_the_route_goes_on(error):
    def fail(items):
        raise error

    sender = Sender()
    sender.fault = fail
    found = await asyncio.gather(sender.ask("a"), sender.ask("b"), return_exceptions=True)
    assert found == [error, error]
    assert len(sender.sent) == 1
    sender.fault = lambda items: None
    assert await sender.ask("c") == ["c!"]


async def test_a_request_that_has_waited_too_long_is_not_sent(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(sharing.time, "monotonic", lambda: now[0])
    sender = Sender(timeout_s=5.0)
    sender.free.clear()
    first = sender.ask("a")
    await settle()
    late = sender.ask("b")
    await settle()
    now[0] = 3.0
    in_time = sender.ask("c")
    await settle()
    now[0] = 6.0
    sender.free.set()
    with pytest.raises(Unavailable, match="too slow"):
        await late
    assert await first == ["a!"]
    assert await in_time == ["c!"]
    assert sender.sent == [("r", ["a"]), ("r", ["c"])]
