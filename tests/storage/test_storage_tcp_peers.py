"""Connections over TCP: the format, connections of non-members, and members that fall silent.

tests/contract/test_peers.py has the guarantees for members.
"""

import asyncio
import re
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from pathlib import Path

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

import hornbeam_server.storage.tcp.frames
from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.storage.ports import MESSAGE_BYTES
from hornbeam_server.storage.tcp import peers as tcp_peers
from hornbeam_server.storage.tcp.frames import (
    FRAME_BYTES,
    HANDSHAKE_BYTES,
    NONCE_BYTES,
    Frames,
    Hello,
    Kind,
    Refused,
    Side,
    frame,
    numbered,
    proof,
    split_numbered,
)
from hornbeam_server.storage.tcp.peers import SILENCE_S, TcpPeers, _Answering, _Asking
from tests.virtual_time import in_virtual_time

PROTOCOL_MD = Path(hornbeam_server.storage.tcp.frames.__file__).with_name("PROTOCOL.md").read_text()
SECRET = bytes(range(32))
HELLO = Hello(b"\x11" * NONCE_BYTES, 3, "hornbeam", "a1")
NONCE = b"\x22" * NONCE_BYTES


# ---------------------------------------------------------------- wire format


def test_the_example_of_the_document():
    example = re.search(r"## Example.*```\n(.*?)```", PROTOCOL_MD, re.DOTALL).group(1)
    hello = HELLO.encode()
    frames = [
        frame(Kind.HELLO, hello),
        frame(Kind.CHALLENGE, NONCE + proof(SECRET, Side.LISTENER, hello, NONCE)),
        frame(Kind.PROOF, proof(SECRET, Side.CALLER, hello, NONCE)),
        frame(Kind.WELCOME),
        numbered(Kind.MESSAGE, 1, b"lock"),
        numbered(Kind.ANSWER, 1, b"ok"),
        frame(Kind.PING),
        frame(Kind.REFUSED, b"no"),
    ]
    assert bytes.fromhex(example) == b"".join(frames)


@given(
    st.lists(st.tuples(st.sampled_from(Kind), st.binary(max_size=100)), max_size=10),
    st.lists(st.integers(0, 400)),
)
def test_frames_are_found_in_pieces_of_any_size(sent, cuts):
    data = b"".join(frame(kind, body) for kind, body in sent)
    edges = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    frames, found = Frames(), []
    for start, end in pairwise(edges):
        frames.feed(data[start:end])
        while (next_ := frames.next()) is not None:
            found.append(next_)
    assert found == sent


@pytest.mark.parametrize("longest", [HANDSHAKE_BYTES, FRAME_BYTES])
def test_a_too_long_frame_is_refused_before_its_body_arrives(longest):
    frames = Frames()
    frames.longest = longest
    frames.feed(longest.to_bytes(4, "big"))
    assert frames.next() is None
    for length in (0, longest + 1, (1 << 32) - 1):
        frames = Frames()
        frames.longest = longest
        frames.feed(length.to_bytes(4, "big"))
        with pytest.raises(Refused):
            frames.next()


hellos = st.builds(
    Hello,
    st.binary(min_size=NONCE_BYTES, max_size=NONCE_BYTES),
    st.integers(0, (1 << 64) - 1),
    st.text(max_size=20),
    st.text(max_size=20),
)


@given(hellos)
def test_hellos_decode_to_themselves(hello):
    assert Hello.decode(hello.encode()) == hello


@given(hellos, st.data())
def test_a_damaged_hello_is_refused_or_differs(hello, data):
    body = hello.encode()
    cut = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(Refused):
        Hello.decode(body[:cut])
    with pytest.raises(Refused):
        Hello.decode(body + b"x")
    flipped = bytearray(body)
    flipped[data.draw(st.integers(0, len(body) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with suppress(Refused):
        assert Hello.decode(bytes(flipped)) != hello


def test_a_proof_is_bound_to_side_hello_nonce_and_secret():
    hello, other = HELLO.encode(), HELLO._replace(number=4).encode()
    proofs = {
        proof(SECRET, Side.CALLER, hello, NONCE),
        proof(SECRET, Side.LISTENER, hello, NONCE),
        proof(SECRET, Side.CALLER, other, NONCE),
        proof(SECRET, Side.CALLER, hello, HELLO.nonce),
        proof(b"", Side.CALLER, hello, NONCE),
    }
    assert len(proofs) == 5


# ---------------------------------------------------------------- callers that are not members


async def echo(_, message):
    return message


class Stranger:
    """A connection of a program that knows the format."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self._frames = Frames()

    @classmethod
    async def at(cls, address):
        host, _, port = address.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    def send(self, data):
        self.writer.write(data)

    async def frame(self):
        """The next frame that is not a ping; None at the end."""
        while True:
            found = self._frames.next()
            if found is None:
                data = await self.reader.read(65536)
                if not data:
                    return None
                self._frames.feed(data)
            elif found[0] != Kind.PING:
                return found

    async def until_closed(self):
        """The remaining frames of the other side, until it closes the connection."""
        said = []
        try:
            while (found := await self.frame()) is not None:
                said.append(found)
        except ConnectionError:
            pass
        self.writer.close()
        return said

    async def shake_hands(self, hello=HELLO, secret=SECRET):
        """Shake hands like a member, with a listener whose proof is right; return the caller's
        proof."""
        body = hello.encode()
        self.send(frame(Kind.HELLO, body))
        kind, challenge = await self.frame()
        nonce, given = challenge[:NONCE_BYTES], challenge[NONCE_BYTES:]
        assert (kind, given) == (Kind.CHALLENGE, proof(secret, Side.LISTENER, body, nonce))
        own = proof(secret, Side.CALLER, body, nonce)
        self.send(frame(Kind.PROOF, own))
        assert await self.frame() == (Kind.WELCOME, b"")
        return own


@asynccontextmanager
async def listening(answer=echo):
    """A listener and its address. Fails if a callback has failed."""
    failures = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    peers = TcpPeers("hornbeam", SECRET)
    try:
        yield peers, await peers.listen(answer)
    finally:
        await peers.close()
    assert failures == []


async def reported(logged):
    """The reason in the only line of the log."""
    while not logged:  # noqa: ASYNC110 - no event announces a log line
        await asyncio.sleep(0.001)
    (line,) = logged
    assert line["log_level"] == "warning"
    return line["why"]


@pytest.fixture(autouse=True)
def _whatever_is_logged():
    structlog.reset_defaults()


STRANGERS = {
    "http": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "frame of"),
    "tls": (bytes.fromhex("160301020001000001fc0303") + bytes(200), "frame of"),
    "zeros": (bytes(100), "frame of 0 bytes"),
    "noise": (b"\xff" * 10_000, "frame of"),
    "no hello": (frame(Kind.PROOF, bytes(32)), "instead of HELLO"),
    "no kind": (frame(Kind.HELLO).replace(b"\x01\x01", b"\x01\xc8"), "kind 200"),
    "a message at once": (numbered(Kind.MESSAGE, 1, b"x"), "instead of HELLO"),
    "an empty hello": (frame(Kind.HELLO), "no member"),
    "a short hello": (frame(Kind.HELLO, HELLO.encode()[:20]), "damaged"),
    "a long hello": (frame(Kind.HELLO, HELLO.encode() + b"x"), "damaged"),
    "another magic": (frame(Kind.HELLO, b"HBLOG!" + HELLO.encode()[6:]), "no member"),
    "another version": (
        frame(Kind.HELLO, HELLO.encode()[:6] + b"\x00\x02" + b"whatever comes then"),
        "version 2",
    ),
    "another database": (
        frame(Kind.HELLO, HELLO._replace(database="other").encode()),
        "another database, 'other'",
    ),
    "a wrong proof": (
        frame(Kind.HELLO, HELLO.encode()) + frame(Kind.PROOF, bytes(32)),
        "node_secret",
    ),
    "no proof": (
        frame(Kind.HELLO, HELLO.encode()) + numbered(Kind.MESSAGE, 1, b"x"),
        "instead of PROOF",
    ),
    "a refusal": (frame(Kind.REFUSED, b"not\nyou \xff"), "refused: not?you \ufffd"),
}


@pytest.mark.parametrize("stranger", STRANGERS)
async def test_a_stranger_is_refused_in_one_line(stranger):
    sent, why = STRANGERS[stranger]
    begun = []

    async def answer(caller, message):
        begun.append(message)
        return message

    async with listening(answer) as (_, address):
        with capture_logs() as logged:
            other = await Stranger.at(address)
            other.send(sent)
            said = await other.until_closed()
            assert why in await reported(logged)
        assert all(kind in {Kind.CHALLENGE, Kind.REFUSED} for kind, _ in said)
        assert await works(address)
    assert begun == [b"works"]


async def works(address):
    peers = TcpPeers("hornbeam", SECRET)
    link = await peers.connect("another", address, 1)
    answer = await link.ask(b"works")
    await peers.close()
    return answer == b"works"


@pytest.mark.parametrize("sent", [b"", frame(Kind.HELLO, HELLO.encode()), b"\0\0"])
async def test_a_caller_that_leaves_without_a_proof_is_logged_in_one_line(sent):
    async with listening() as (_, address):
        with capture_logs() as logged:
            other = await Stranger.at(address)
            other.send(sent)
            other.writer.close()
            assert await reported(logged)


async def test_a_caller_without_a_hello_is_cut_off(monkeypatch):
    monkeypatch.setattr(tcp_peers, "CONNECT_S", 0.05)
    monkeypatch.setattr(tcp_peers, "PING_S", 0.01)
    async with listening() as (_, address):
        with capture_logs() as logged:
            other = await Stranger.at(address)
            assert await other.until_closed() == []
            assert "in time" in await reported(logged)


async def test_a_proof_cannot_be_used_again():
    """The listener's nonce differs each time, so not even for the same hello."""
    async with listening() as (_, address):
        first = await Stranger.at(address)
        used = await first.shake_hands()
        for its_own in (False, True):  # the listener's proof, sent back
            with capture_logs() as logged:
                other = await Stranger.at(address)
                other.send(frame(Kind.HELLO, HELLO.encode()))
                _, challenge = await other.frame()
                other.send(frame(Kind.PROOF, challenge[NONCE_BYTES:] if its_own else used))
                await other.until_closed()
                assert "node_secret" in await reported(logged)
        first.send(numbered(Kind.MESSAGE, 1, b"x"))
        assert await first.frame() == (Kind.ANSWER, (1).to_bytes(8, "big") + b"x")
        first.writer.close()


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (frame(Kind.MESSAGE, b"short"), "without its number"),
        (frame(Kind.HELLO, HELLO.encode()), "instead of MESSAGE"),
        ((FRAME_BYTES + 1).to_bytes(4, "big"), "frame of"),
    ],
)
async def test_a_member_that_breaks_the_protocol_is_refused(sent, why):
    async with listening() as (_, address):
        other = await Stranger.at(address)
        await other.shake_hands()
        with capture_logs() as logged:
            other.send(numbered(Kind.MESSAGE, 1, b"before") + sent)
            said = await other.until_closed()
            assert why in await reported(logged)
        assert said[-1][0] == Kind.REFUSED
        assert why in said[-1][1].decode()


@given(st.lists(st.binary(max_size=40), max_size=4), st.booleans())
async def test_no_received_bytes_make_a_callback_fail(chunks, known):
    async with listening() as (_, address):
        with capture_logs():
            other = await Stranger.at(address)
            if known:
                await other.shake_hands()
            for chunk in chunks:
                other.send(chunk)
            if other.writer.can_write_eof():
                other.writer.write_eof()
            await other.until_closed()


# ---------------------------------------------------------------- listeners that are not members


@asynccontextmanager
async def impostor(serve):
    """An address at which `serve` gets each connection."""

    async def accept(reader, writer):
        await serve(Stranger(reader, writer))
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        yield f"{host}:{port}"


async def challenged(stranger, secret=SECRET):
    _, body = await stranger.frame()
    stranger.send(frame(Kind.CHALLENGE, NONCE + proof(secret, Side.LISTENER, body, NONCE)))
    return body


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "frame of"),
        (frame(Kind.WELCOME), "instead of CHALLENGE"),
        (frame(Kind.CHALLENGE), "node_secret"),
        (frame(Kind.CHALLENGE, NONCE + bytes(32)), "node_secret"),
        (frame(Kind.REFUSED, b"I do not like you"), "refused: I do not like you"),
        (b"", "ended it"),
    ],
)
def test_an_impostor_gets_no_proof(said, why):
    heard = []

    async def serve(stranger):
        heard.append(await stranger.frame())
        stranger.send(said)
        if said:
            heard.extend(await stranger.until_closed())

    async def scenario():
        peers = TcpPeers("hornbeam", SECRET)
        async with impostor(serve) as address:
            with pytest.raises(Unavailable, match=re.escape(why)):
                await peers.connect("a", address, 1)
            await peers.close()

    asyncio.run(scenario())
    assert [kind for kind, _ in heard if kind not in {Kind.HELLO, Kind.REFUSED}] == []


async def test_a_listener_that_does_not_answer_the_hello_is_given_up(monkeypatch):
    monkeypatch.setattr(tcp_peers, "CONNECT_S", 0.05)
    gone = asyncio.Event()

    async def serve(stranger):
        await stranger.until_closed()
        gone.set()

    peers = TcpPeers("hornbeam", SECRET)
    async with impostor(serve) as address:
        with pytest.raises(Unavailable, match="has not answered"):
            await peers.connect("a", address, 1)
        await gone.wait()
        await peers.close()


async def test_an_answer_to_no_request_is_refused():
    async def serve(stranger):
        await challenged(stranger)
        await stranger.frame()
        stranger.send(frame(Kind.WELCOME))
        _, body = await stranger.frame()
        number, _ = split_numbered(body)
        stranger.send(numbered(Kind.ANSWER, number, b"yes"))
        stranger.send(numbered(Kind.ANSWER, number, b"and again"))
        await stranger.until_closed()

    peers = TcpPeers("hornbeam", SECRET)
    async with impostor(serve) as address:
        with capture_logs() as logged:
            link = await peers.connect("a", address, 1)
            first, second = link.ask(b"1"), link.ask(b"2")
            assert await first == b"yes"
            with pytest.raises(Unavailable, match="waits for none"):
                await second
            assert "waits for none" in await reported(logged)
        await peers.close()


# ---------------------------------------------------------------- silence, in virtual time


class Wire(asyncio.Transport):
    """One direction between two protocols of this process. `cut`: nothing arrives any more."""

    def __init__(self):
        super().__init__()
        self.protocol = self.other = None
        self.cut = False
        self._open = True

    def set_write_buffer_limits(self, high=None, low=None):
        assert high >= MESSAGE_BYTES

    def write(self, data):
        if not self.cut:
            asyncio.get_running_loop().call_soon(self.other.protocol.data_received, data)

    def abort(self):
        for end in (self, self.other):
            if end._open and not (end is self.other and self.cut):
                end._open = False
                asyncio.get_running_loop().call_soon(end.protocol.connection_lost, None)

    close = abort


async def wired(answer=echo):
    """Both ends of a connection, and their wires."""
    caller, listener = TcpPeers("hornbeam", SECRET), TcpPeers("hornbeam", SECRET)
    listener._answer = answer
    there, back = Wire(), Wire()
    there.other, back.other = back, there
    back.protocol = _Answering(listener, "caller")
    there.protocol = _Asking(caller, "listener", "a", 1)
    back.protocol.connection_made(back)
    there.protocol.connection_made(there)
    await there.protocol.accepted
    return there.protocol, back.protocol, there, back


@in_virtual_time
async def test_an_idle_connection_stays():
    asking, answering, _, _ = await wired()
    await asyncio.sleep(3_600)
    assert await asking.ask(b"x") == b"x"
    assert not answering.broken


@in_virtual_time
async def test_a_connection_without_a_sign_of_life_breaks_at_both_ends():
    end = asyncio.Event()

    async def late(_, message):
        await end.wait()
        return message

    asking, answering, there, back = await wired(late)
    reply = asking.ask(b"x")
    await asyncio.sleep(10)
    assert not reply.done()
    there.cut = back.cut = True
    cut_at = asyncio.get_running_loop().time()
    with pytest.raises(Unavailable, match="silent"):
        await reply
    assert asyncio.get_running_loop().time() - cut_at <= SILENCE_S + 2 * tcp_peers.PING_S
    await asyncio.sleep(1)
    assert asking.broken
    assert answering.broken
    end.set()  # the message ends, and its answer goes nowhere
    await asyncio.sleep(1)


@in_virtual_time
async def test_a_peer_that_does_not_read_is_given_up():
    asking, answering, _, _ = await wired()
    reply = asking.ask(b"x")
    asking.pause_writing()  # asyncio reports that QUEUE_BYTES wait
    with pytest.raises(Unavailable, match="does not read"):
        await reply
    await asyncio.sleep(1)
    assert answering.broken


@in_virtual_time
async def test_messages_that_have_not_begun_by_the_end_are_dropped():
    """The message has arrived, and would begin in the next round of the event loop."""
    begun = []

    async def answer(_, message):
        begun.append(message)
        return message

    asking, answering, _, _ = await wired(answer)
    assert await asking.ask(b"1") == b"1"
    answering.data_received(numbered(Kind.MESSAGE, 2, b"2"))
    answering.hang_up("now")
    answering.data_received(numbered(Kind.MESSAGE, 3, b"3"))
    await asyncio.sleep(1)
    assert begun == [b"1"]
