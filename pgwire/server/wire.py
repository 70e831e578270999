"""The connection to one client: frames in, bytes out, with bounds."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from hornbeam_server.pgwire.codec.frames import Frame, Frames

STALL_S = 30.0
"""Seconds after which a client that does not read is disconnected."""
HELD_BYTES = 1 << 20
"""Bytes of a client that are kept while its statements run; then the socket is not read."""


ALPN = "postgresql"
"""The name of the protocol in a handshake of TLS."""


class Gone(ConnectionError):
    """The client has ended the connection, or does not read."""


class Wire(asyncio.Protocol):
    """One connection. `made` is called when it begins, `lost` when it ends."""

    def __init__(
        self, max_bytes: int, made: Callable[[Wire], None], lost: Callable[[Wire], None]
    ) -> None:
        self.frames = Frames(max_bytes)
        self._made = made
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._arrived = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._ended = False
        self._paused = False

    # ------------------------------------------------------------ for asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        first = self._transport is None
        self._transport = transport  # type: ignore[assignment]  # TCP's, and after TLS TLS's
        if first:
            self._made(self)

    def data_received(self, data: bytes) -> None:
        self.frames.feed(data)
        self._arrived.set()
        if self.frames.waiting > HELD_BYTES and not self._paused:
            self._paused = True
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        self._end()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        self._lost(self)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # ------------------------------------------------------------ for the session

    @property
    def transport(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    @property
    def peer(self) -> tuple[str, int]:
        """The address of the client."""
        found = self.transport.get_extra_info("peername")
        return (str(found[0]), int(found[1])) if isinstance(found, tuple) else ("", 0)

    async def next(self) -> Frame:
        """The next frame. Raises Gone, ProtocolViolation."""
        while (frame := self.frames.next()) is None:
            await self._more()
        return frame

    async def ahead(self, number: int) -> bytes:
        """The type of the next frame (1), or of the one behind it (2). Raises Gone."""
        while (found := self.frames.ahead(number)) is None:
            await self._more()
        return found

    async def send(self, data: bytes) -> None:
        """Send. Raises Gone if the client is gone, or has not read for `STALL_S`."""
        if self._ended:
            raise Gone("The client has ended the connection.")
        if data:
            self.transport.write(data)
        if not self._writable.is_set():
            try:
                async with asyncio.timeout(STALL_S):
                    await self._writable.wait()
            except TimeoutError:
                self.transport.abort()
                raise Gone("The client does not read.") from None

    async def first(self) -> bytes:
        """The first byte that the client sends. Raises Gone."""
        while not (found := self.frames.first):
            await self._more()
        return found

    async def encrypt(self, context: ssl.SSLContext, limit_s: float) -> None:
        """Go on in TLS. Raises Gone if the client has sent bytes in the clear behind its request:
        they may be those of a third party."""
        if self.frames.waiting:
            raise Gone("The client has sent more than a request for TLS.")
        await self._encrypted(self._handshake(context, limit_s))

    async def encrypt_from_start(self, context: ssl.SSLContext, limit_s: float) -> None:
        """Go on in TLS with a client whose first bytes are those of TLS. Raises Gone unless the
        handshake says that the client wants this protocol: a client of another one may have been
        misled to this port."""
        plain = self.transport
        shaking = asyncio.ensure_future(self._handshake(context, limit_s))
        await asyncio.sleep(0)  # from now on TLS gets what arrives, and nothing is read before
        received = self.frames.take()
        await asyncio.sleep(0)  # TLS has begun
        _feed(plain.get_protocol(), received)
        await self._encrypted(shaking)
        if self.transport.get_extra_info("ssl_object").selected_alpn_protocol() != ALPN:
            raise Gone("The client does not say that it speaks PostgreSQL's protocol.")

    def _handshake(
        self, context: ssl.SSLContext, limit_s: float
    ) -> Coroutine[Any, Any, asyncio.Transport | None]:
        return asyncio.get_running_loop().start_tls(
            self.transport, self, context, server_side=True, ssl_handshake_timeout=limit_s
        )

    async def _encrypted(self, shaking: Awaitable[asyncio.Transport | None]) -> None:
        try:
            transport = await shaking
        except OSError:
            raise Gone("The client has not completed the handshake.") from None
        if transport is None:
            raise Gone("The client has ended the connection.")
        self._transport = transport

    def close(self) -> None:
        """Send what is left, and end the connection."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _more(self) -> None:
        """Wait for more bytes."""
        if self._ended:
            raise Gone("The client has ended the connection.")
        if self._paused:
            self._paused = False
            self.transport.resume_reading()
        self._arrived.clear()
        await self._arrived.wait()

    def _end(self) -> None:
        self._ended = True
        self._arrived.set()
        self._writable.set()


def _feed(protocol: Any, data: bytes) -> None:
    """Hand bytes to a protocol of TLS (`asyncio.BufferedProtocol`), as its transport does."""
    rest = memoryview(data)
    while rest:
        buffer = memoryview(protocol.get_buffer(len(rest)))
        count = min(len(buffer), len(rest))
        buffer[:count] = rest[:count]
        protocol.buffer_updated(count)
        rest = rest[count:]
