"""The connection to one client: frames in, bytes out, with bounds."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from hornbeam_server.pgwire.codec.frames import Frame, Frames

STALL_S = 30.0
"""Seconds after which a client that does not read is disconnected."""
HELD_BYTES = 1 << 20
"""Bytes of a client that are kept while its statements run; then the socket is not read."""


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

    async def encrypt(self, context: ssl.SSLContext, limit_s: float) -> None:
        """Go on in TLS. Raises Gone if the client has sent bytes in the clear behind its request:
        they may be those of a third party."""
        if self.frames.waiting:
            raise Gone("The client has sent more than a request for TLS.")
        loop = asyncio.get_running_loop()
        transport = await loop.start_tls(
            self.transport, self, context, server_side=True, ssl_handshake_timeout=limit_s
        )
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
