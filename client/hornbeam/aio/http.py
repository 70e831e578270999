"""HTTP to one node in an event loop, over persistent connections (decision 81)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

from hornbeam.exchange import AsyncAnswer, CutShort, Lost, NotSent, Request
from hornbeam.http import BaseHttp, glance, reason_of
from hornbeam.http1 import CLOSED, AnswerReader, Garbled, request_bytes

AHEAD_BYTES = 1 << 18
"""Bytes of a body that arrive before their reader takes them."""


class AsyncHttp(BaseHttp["_Line"]):
    """The twin of `hornbeam.http.Http` in an event loop."""

    async def send(self, request: Request) -> AsyncAnswer:
        data = request_bytes(request, self._host)
        line = self._idle_line() or await self._new_line()
        reader = line.ask(data)
        try:
            while not reader.status:
                await line.advance(self.timeout_s)
        except (OSError, Garbled) as error:
            line.close()
            raise Lost(reason_of(error)) from error
        except BaseException:  # the answer would be that of the next request
            line.close()
            raise
        if reader.done:
            self.release(line, reader)
            return AsyncAnswer.whole(reader.status, reader.headers, b"".join(reader.take()))
        body = _Body(self, line, reader)
        return AsyncAnswer(reader.status, reader.headers, body, body.close)

    async def close(self) -> None:
        while self._idle:
            self._idle.pop().close()
        await asyncio.sleep(0)  # the loop closes the sockets in its next turn

    async def _new_line(self) -> _Line:
        """A new connection. Raises NotSent."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                _, line = await loop.create_connection(_Line, *self._place, ssl=self._tls)
        except OSError as error:
            raise NotSent(reason_of(error)) from error
        return line


class _Line(asyncio.Protocol):
    """A connection. What arrives goes to the reader of the answer that is under way."""

    def __init__(self) -> None:
        self._reader: AnswerReader | None = None
        self._fault: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._taken = 0
        """Bytes of the body that had arrived when the reader last waited."""
        self._paused = False

    # ------------------------------------------------------------ for the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are of another class
        self._is_readable = glance(transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        if reader is None or reader.done:
            self._end(Garbled("the node has sent data behind its answer"))
            return
        try:
            reader.feed(data)
        except Garbled as error:
            self._end(error)
            return
        if reader.count - self._taken > AHEAD_BYTES and not reader.done:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self._end(Garbled(CLOSED))

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc or Garbled(CLOSED))

    # ------------------------------------------------------------ for the carrier

    def is_idle(self) -> bool:
        is_open = self._fault is None and not self._transport.is_closing()
        return is_open and not self._is_readable()

    def ask(self, data: bytes) -> AnswerReader:
        """Send a request. Returns the reader of its answer."""
        self._reader = reader = AnswerReader()
        self._taken = 0
        self._transport.write(data)
        return reader

    async def advance(self, timeout_s: float) -> None:
        """Wait for the next data of the answer, or for the end of the connection, whose reason the
        next call raises: OSError, Garbled."""
        if self._fault is not None:
            raise self._fault
        assert self._reader is not None
        self._taken = self._reader.count
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_later(timeout_s, self._end, TimeoutError("timed out"))
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None

    def close(self) -> None:
        self._transport.abort()

    # ------------------------------------------------------------ inside

    def _end(self, fault: Exception) -> None:
        self._fault = self._fault or fault
        self._transport.abort()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class _Body:
    """The rest of an answer. The connection is reused if the body has arrived completely."""

    def __init__(self, http: AsyncHttp, line: _Line, reader: AnswerReader) -> None:
        self._http = http
        self._line = line
        self._reader = reader
        self._open = True

    async def __aiter__(self) -> AsyncIterator[bytes]:
        reader = self._reader
        try:
            while reader.pieces or not reader.done:  # pieces arrive while one of them is used
                if not reader.pieces:
                    await self._line.advance(self._http.timeout_s)
                for piece in reader.take():
                    yield piece
        except (OSError, Garbled) as error:
            raise CutShort(f"after {reader.count:,} bytes: {reason_of(error)}") from error
        finally:
            await self.close()

    async def close(self) -> None:
        if self._open:
            self._open = False
            self._http.release(self._line, self._reader)
