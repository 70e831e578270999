"""Limits on the connections and request heads of clients that are not authenticated."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from hornbeam_server.api.rest import http_protocol
from hornbeam_server.api.rest.http_protocol import HEAD_BYTES, room_for
from hornbeam_server.api.serve import GRACE_S, run
from hornbeam_server.node.settings import Settings

GET = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"


@asynccontextmanager
async def served(folder, **given) -> AsyncIterator[int]:
    """Run a server like `hornbeam serve`; yield its port."""
    reported: asyncio.Queue[str] = asyncio.Queue()
    server = asyncio.ensure_future(run(Settings(data=folder, port=0, **given), reported.put_nowait))
    try:
        yield int((await reported.get()).rsplit(":", 1)[1])
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        await server


@asynccontextmanager
async def connected(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def answered(port, *pieces) -> bytes:
    """Send the pieces; return all bytes that arrive until the server closes the connection."""
    async with connected(port) as (reader, writer):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        with suppress(ConnectionError):
            return await asyncio.wait_for(reader.read(), 8)
        return b""


async def head(reader) -> bytes:
    return await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 8)


@pytest.fixture
def hurried(monkeypatch):
    monkeypatch.setattr(http_protocol, "HEAD_S", 0.3)


async def test_a_head_beyond_the_limit_is_refused_before_it_is_complete(tmp_path):
    async with served(tmp_path) as port:
        filler = b"X-Filler: " + b"a" * (HEAD_BYTES - len(GET) - 10)
        assert (await answered(port, GET + filler + b"a")).startswith(b"HTTP/1.1 431 ")
        many = b"".join(b"X-%d: a\r\n" % number for number in range(20_000))
        assert (await answered(port, GET, many[:HEAD_BYTES])).startswith(b"HTTP/1.1 431 ")
        fits = GET + filler[:-23] + b"\r\nConnection: close\r\n\r\n"
        assert (await answered(port, fits)).startswith(b"HTTP/1.1 200 ")


async def test_bodies_may_be_longer_than_heads_but_their_trailers_may_not(tmp_path):
    chunked = b"POST /v1/query HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with served(tmp_path) as port:
        size = 3 * HEAD_BYTES
        whole = b"%x\r\n" % size + b" " * size + b"\r\n0\r\n\r\n"
        async with connected(port) as (reader, writer):
            writer.write(chunked + whole)
            assert (await head(reader)).startswith(b"HTTP/1.1 4")
        endless = b"0\r\nX-Trailer: " + b"a" * 8 * HEAD_BYTES
        assert b" 200 " not in await answered(port, chunked, endless)


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("begun", [b"", b"\r\n", GET])
async def test_a_connection_closes_when_its_head_does_not_arrive_in_time(tmp_path, begun):
    async with served(tmp_path) as port:
        assert await answered(port, begun) == b""


@pytest.mark.usefixtures("hurried")
async def test_a_connection_stays_open_while_its_heads_arrive_in_time(tmp_path):
    async with served(tmp_path) as port, connected(port) as (reader, writer):
        for _ in range(3):
            writer.write(GET)
            await asyncio.sleep(0.2)
            writer.write(b"\r\n")
            assert (await head(reader)).startswith(b"HTTP/1.1 200 ")
            assert await reader.readexactly(len(b'{"status":"live"}'))
        writer.write(GET)
        assert await asyncio.wait_for(reader.read(), 8) == b""


async def test_connections_beyond_the_limit_are_closed_at_once(tmp_path):
    async with served(tmp_path, max_connections=2) as port:
        async with connected(port) as (reader, writer), connected(port):
            assert await answered(port, GET + b"\r\n") == b""
            writer.write(GET + b"\r\n")
            assert (await head(reader)).startswith(b"HTTP/1.1 200 ")
        await asyncio.sleep(0.2)
        async with connected(port) as (reader, writer):
            writer.write(GET + b"\r\n")
            assert (await head(reader)).startswith(b"HTTP/1.1 200 ")


def test_connections_take_at_most_half_of_the_descriptors():
    soft, hard = limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
        assert room_for(1) == 1
        assert room_for(10 * hard) == hard // 2
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


async def test_a_connection_whose_requests_are_answered_at_once_does_not_delay_the_end(tmp_path):
    clock = asyncio.get_running_loop()
    async with served(tmp_path) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(3):
            writer.write(GET + b"\r\n")
            assert (await head(reader)).startswith(b"HTTP/1.1 200 ")
            await reader.readexactly(len(b'{"status":"live"}'))
        began = clock.time()
    assert await asyncio.wait_for(reader.read(), 8) == b""
    assert clock.time() - began < GRACE_S / 2
    writer.close()
