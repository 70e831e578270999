"""The head of an answer and the beginning of its body are one write to the transport."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.api.rest.joined_writes import JOINED_BYTES, JoinedWrites
from tests.api.test_api_connections import GET, connected, served


class Transport:
    """Notes the writes until it is closed, as asyncio's transports ignore later ones."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.written.append(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 7

    def get_extra_info(self, name: str) -> str:
        return f"info about {name}"


@pytest.fixture
def transport() -> Transport:
    return Transport()


async def test_a_head_goes_out_with_its_body(transport):
    joined = JoinedWrites(transport, asyncio.get_running_loop())
    joined.write(b"head ")
    joined.write(b"body")
    assert transport.written == [b"head body"]
    await asyncio.sleep(0)
    assert transport.written == [b"head body"]


async def test_a_head_without_a_body_goes_out_in_the_same_turn(transport):
    """A client waits for the head of a stream whose first rows take long."""
    joined = JoinedWrites(transport, asyncio.get_running_loop())
    joined.write(b"head")
    assert (transport.written, joined.get_write_buffer_size()) == ([], 11)
    await asyncio.sleep(0)
    assert (transport.written, joined.get_write_buffer_size()) == ([b"head"], 7)


async def test_closing_sends_what_is_held(transport):
    joined = JoinedWrites(transport, asyncio.get_running_loop())
    joined.write(b"431")
    joined.close()
    await asyncio.sleep(0)
    assert (transport.written, transport.closed) == ([b"431"], True)


async def test_what_is_held_is_dropped_when_the_connection_is_lost(transport):
    joined = JoinedWrites(transport, asyncio.get_running_loop())
    joined.write(b"head")
    transport.closed = True
    await asyncio.sleep(0)
    assert transport.written == []


async def test_long_bodies_are_not_copied(transport):
    joined = JoinedWrites(transport, asyncio.get_running_loop())
    body = b"x" * JOINED_BYTES
    joined.write(b"head")
    joined.write(body)
    assert transport.written == [b"head", body]
    assert transport.written[1] is body


async def test_the_rest_is_the_transports(transport):
    joined = JoinedWrites(transport, asyncio.get_running_loop())
    assert joined.get_extra_info("peername") == "info about peername"


@given(st.lists(st.one_of(st.integers(0, 3 * JOINED_BYTES // 2), st.just(None)), max_size=12))
def test_all_bytes_arrive_in_order(sizes):
    """None lets the other callbacks of the loop run."""
    transport = Transport()

    async def write() -> bytes:
        joined, sent = JoinedWrites(transport, asyncio.get_running_loop()), b""
        for number, size in enumerate(sizes):
            if size is None:
                await asyncio.sleep(0)
            else:
                data = bytes([number]) * size
                joined.write(data)
                sent += data
        joined.close()
        return sent

    assert asyncio.run(write()) == b"".join(transport.written)


async def test_a_client_gets_an_answer_in_one_piece(tmp_path):
    async with served(tmp_path) as port, connected(port) as (reader, writer):
        for _ in range(20):
            writer.write(GET + b"\r\n")
            answer = await reader.read(1 << 16)
            assert answer.startswith(b"HTTP/1.1 200")
            assert answer.endswith(b"}")
