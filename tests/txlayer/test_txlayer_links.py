"""Connections between members: they break, releases must still arrive, and messages keep their
form."""

import asyncio

import pytest

from hornbeam_server.schema.errors import Corruption, Unavailable
from hornbeam_server.storage.ports import Caller, Put
from hornbeam_server.txlayer.cluster import links as links_module
from hornbeam_server.txlayer.cluster.links import RETRY_S
from hornbeam_server.txlayer.cluster.messages import (
    Compute,
    Freed,
    Granted,
    Guard,
    Lock,
    Owned,
    Reach,
    Reached,
    Refused,
    Release,
    RowsComputed,
    Unfinished,
    decode_request,
    decode_response,
    encode,
)
from tests.txlayer.members_world import attempts, members, refusal, soon, until
from tests.virtual_time import in_virtual_time


def ask(party, member, request=None):
    return party.begin(party.links.ask(member, request or Unfinished("t")))


def release(party, member, attempt, commit_ts=0):
    async def work():
        party.links.release(member, attempt, commit_ts)

    return party.begin(work())


def numbers(party):
    return [number for _, number in party.peers.connected]


# ---------------------------------------------------------------- messages


@pytest.mark.parametrize(
    "message",
    [
        Lock(1, (2, 3, "a"), True, False, [("root", "r", b"\x00k"), ("slow lane",)], 1.5),
        Release({1: 0, 70_000: 1 << 60}),
        Reach(5),
        Unfinished("ab"),
        Compute("g", 1, 2, 3, ["i"], ["v", "w"], [(2, b"commit")]),
    ],
)
def test_requests_decode_to_themselves(message):
    assert decode_request(encode(message)) == message


@pytest.mark.parametrize(
    "message",
    [
        Granted("a", 1),
        Refused("why", "leaving"),
        Freed(),
        Reached("a", 1, 2, 3),
        Owned(None),
        Owned("x"),
        RowsComputed({"t": [Put(b"k", b"v")]}),
    ],
)
def test_responses_decode_to_themselves(message):
    assert decode_response(encode(message)) == message


def test_decoded_lock_names_can_be_looked_up():
    """Text stays text, bytes stay bytes, and names are tuples."""
    name = ("row", "r", b"k")
    (found,) = decode_request(encode(Lock(1, (1, 1, "a"), False, True, [name], 1.0))).names
    assert {name: 1}[found] == 1


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x90", b"\x91\x05", encode(Reach(5))[:-1]])
def test_an_invalid_request_is_refused(data):
    with pytest.raises(Corruption, match="same version"):
        decode_request(data)


@pytest.mark.parametrize("data", [b"\x91\xa3new", encode(Freed())])
@in_virtual_time
async def test_a_request_of_an_unknown_kind_is_answered(data):
    """Locks travel over the same connection, so it must not break."""
    world, (a, b) = await members("a", "b")
    answer = decode_response(await b.do(b.answering.answer(Caller(a.name, 1), data)))
    assert isinstance(answer, Refused)
    assert "does not know the message" in answer.why
    await world.end()


def test_fields_of_a_newer_version_are_ignored():
    longer = bytearray(encode(Reach(5)))
    longer[0] += 1  # an array of one element more
    assert decode_request(bytes(longer) + b"\x07") == Reach(5)


def test_requests_for_locks_of_a_version_without_traces_are_read():
    lock = "97a46c6f636b01930101a161c2c39193a4726f6f74a174c4016bcb3ff0000000000000"
    guard = "95a5677561726401930101a16181a1749192c40161c0cb3ff0000000000000"
    age = (1, 1, "a")
    name = ("root", "t", b"k")
    assert decode_request(bytes.fromhex(lock)) == Lock(1, age, False, True, [name], 1.0)
    assert decode_request(bytes.fromhex(guard)) == Guard(1, age, {"t": [(b"a", None)]}, 1.0)


# ---------------------------------------------------------------- connections


@in_virtual_time
async def test_a_connection_is_opened_on_demand_and_shared():
    world, (a, b) = await members("a", "b")
    assert a.peers.connected == []
    answers = await asyncio.gather(*(ask(a, "b") for _ in range(20)))
    assert answers == [Owned(None)] * 20
    assert a.peers.connected == [(b.member.peer, 1)]
    await world.end()


@in_virtual_time
async def test_messages_arrive_in_order_from_the_first_one_on():
    world, (a, b) = await members("a", "b")
    await asyncio.gather(*(ask(a, "b", Unfinished(str(n))) for n in range(50)))
    assert [request.transaction_id for request in b.heard(Unfinished)] == [
        str(n) for n in range(50)
    ]
    await world.end()


@in_virtual_time
async def test_each_connection_has_a_higher_number():
    world, (a, _) = await members("a", "b")
    for _ in range(4):
        await ask(a, "b")
        a.peers.cut()
    assert numbers(a) == [1, 2, 3, 4]
    await world.end()


@in_virtual_time
async def test_requests_unanswered_on_a_broken_connection_fail():
    world, (a, b) = await members("a", "b")
    never = asyncio.Event()
    answer = b.answer

    async def late(caller, message):
        await never.wait()
        return await answer(caller, message)

    b.answer = late
    asked = [ask(a, "b") for _ in range(3)]
    await soon()
    a.peers.cut()
    assert {type(await refusal(one)) for one in asked} == {Unavailable}
    never.set()
    assert await ask(a, "b") == Owned(None)
    await world.end()


@in_virtual_time
async def test_an_unreachable_member_is_tried_again_at_the_next_request():
    world, (a, b) = await members("a", "b")
    address = b.member.peer
    world.network.unlisten(address)
    assert isinstance(await refusal(ask(a, "b")), Unavailable)
    assert a.peers.connected == []
    world.network._listening[address] = b.peers
    assert await ask(a, "b") == Owned(None)
    assert numbers(a) == [2]
    await world.end()


@in_virtual_time
async def test_a_caller_cancelled_during_connect_leaves_the_link_usable():
    world, (a, _) = await members("a", "b")
    first = ask(a, "b")
    await asyncio.sleep(0.0001)
    first.cancel()
    assert await ask(a, "b") == Owned(None)
    await world.end()


@in_virtual_time
async def test_no_message_is_sent_to_a_non_member():
    world, (a, _) = await members("a", "b")
    error = await refusal(ask(a, "stranger"))
    assert isinstance(error, Unavailable)
    release(a, "stranger", 1)
    await soon()
    assert a.peers.connected == []
    await world.end()


@in_virtual_time
async def test_an_invalid_answer_raises_corruption():
    world, (a, b) = await members("a", "b")

    async def nonsense(caller, message):
        return b"\xc1"

    b.answer = nonsense
    assert isinstance(await refusal(ask(a, "b")), Corruption)
    await world.end()


# ---------------------------------------------------------------- releases


@in_virtual_time
async def test_simultaneous_releases_travel_together_with_their_timestamps():
    world, (a, b) = await members("a", "b")
    await asyncio.gather(release(a, "b", 1, 500), release(a, "b", 2), release(a, "b", 3, 700))
    await soon()
    assert b.heard(Release) == [Release({1: 500, 2: 0, 3: 700})]
    assert b.hlc.last >= 700
    await world.end()


@in_virtual_time
async def test_releases_during_a_message_travel_with_the_next():
    world, (a, b) = await members("a", "b")
    release(a, "b", 1)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    release(a, "b", 2)
    release(a, "b", 3)
    await soon()
    assert attempts(b.heard(Release)) == [1, 2, 3]
    await world.end()


@in_virtual_time
async def test_many_releases_are_split():
    world, (a, b) = await members("a", "b")
    for attempt in range(2 * links_module.MAX_RELEASED + 5):
        release(a, "b", attempt)
    await soon(1.0)
    assert [len(one.attempts) for one in b.heard(Release)] == [1_000, 1_000, 5]
    await world.end()


@in_virtual_time
async def test_a_release_is_repeated_until_it_is_answered():
    world, (a, b) = await members("a", "b")
    answer = b.answer

    async def lost(caller, message):
        await answer(caller, message)
        if len(b.heard(Release)) < 4:
            raise Unavailable("the answer is lost")
        return encode(Freed())

    b.answer = lost
    release(a, "b", 1, 9_000)
    await soon(10 * RETRY_S)
    assert b.heard(Release) == [Release({1: 9_000})] * 4
    assert numbers(a) == [1, 2, 3, 4]
    await world.end()


@in_virtual_time
async def test_a_release_is_sent_once_the_receiver_is_reachable_again():
    world, (a, b) = await members("a", "b")
    address = b.member.peer
    world.network.unlisten(address)
    release(a, "b", 7)
    await asyncio.sleep(5)
    release(a, "b", 8)
    world.network._listening[address] = b.peers
    await soon(2 * RETRY_S)
    assert b.heard(Release) == [Release({7: 0, 8: 0})]
    await world.end()


@in_virtual_time
async def test_no_release_is_sent_to_a_former_member():
    world, (a, b) = await members("a", "b")
    address = b.member.peer
    world.network.unlisten(address)
    release(a, "b", 7)
    await asyncio.sleep(1)
    world.bury("b")
    world.show(a)
    await soon()
    world.network._listening[address] = b.peers
    await asyncio.sleep(10 * RETRY_S)
    assert b.received == []
    assert a.peers.connected == []
    await world.end()


# ---------------------------------------------------------------- ends


@in_virtual_time
async def test_the_connection_to_a_former_member_is_broken():
    world, (a, b, c) = await members("a", "b", "c")
    held = ask(a, "b", Lock(1, (1, 1, "a"), False, True, world.names("b", 1), 60.0))
    await held
    waits = ask(a, "b", Lock(2, (2, 1, "a"), False, True, held_names(b), 60.0))
    await ask(a, "c")
    await soon()
    world.bury("b")
    world.show(a)
    assert isinstance(await refusal(waits), Unavailable)
    assert isinstance(await refusal(ask(a, "b")), Unavailable)
    assert [link.broken for link in a.peers.links] == [True, False]
    assert await ask(a, "c") == Owned(None)
    assert len(c.received) == 2
    await world.end()


def held_names(party):
    return [name for owner in party.guests._guests.values() for name in owner.held]


@in_virtual_time
async def test_a_connection_opened_to_a_former_member_is_broken():
    world, (a, b) = await members("a", "b")
    asked = ask(a, "b")
    await asyncio.sleep(0.0001)
    world.bury("b")
    world.show(a)
    assert isinstance(await refusal(asked), Unavailable)
    await soon()
    assert all(link.broken for link in a.peers.links)
    assert b.received == []
    await world.end()


@in_virtual_time
async def test_after_close_no_message_is_sent():
    """Later commits release their locks; the others free them once this member is gone."""
    world, (a, b) = await members("a", "b")
    await ask(a, "b")
    await a.do(a.links.close())
    heard = len(b.received)
    release(a, "b", 1)
    assert isinstance(await refusal(ask(a, "b")), Unavailable)
    await asyncio.sleep(10 * RETRY_S)
    assert len(b.received) == heard
    assert numbers(a) == [1]
    assert all(link.broken for link in a.peers.links)
    await world.end()


@in_virtual_time
async def test_close_does_not_wait_for_releases():
    world, (a, b) = await members("a", "b")
    world.network.unlisten(b.member.peer)
    release(a, "b", 1)
    await soon()
    began = a.clock.monotonic()
    await a.do(a.links.close())
    assert a.clock.monotonic() == began
    await until(lambda: not [t for t in a.process._tasks if "_release" in repr(t)], 5.0)
    await world.end()
