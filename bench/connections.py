"""Many clients in one event loop: each has a keep-alive connection, and sends one request at a
time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, Self

from bench.serving import HttpError

AGAIN_S = 0.01
"""Seconds until a refused request is sent again."""
PATIENCE_S = 30.0
"""Seconds for which a refused request is sent again."""


class Connection:
    """A keep-alive connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def ask(self, request: bytes) -> bytes:
        """Send a request, and return the body of its answer. A request that is refused for
        contention or overload is sent again. Raises HttpError."""
        give_up = time.monotonic() + PATIENCE_S
        while True:
            self._writer.write(request)
            head = await self._reader.readuntil(b"\r\n\r\n")
            size = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            body = await self._reader.readexactly(int(size))
            if head.startswith(b"HTTP/1.1 200"):
                return body
            refusal: dict[str, Any] = json.loads(body)
            if not refusal.get("retryable") or time.monotonic() > give_up:
                raise HttpError(body.decode(errors="replace"))
            await asyncio.sleep(AGAIN_S)


async def at_once(
    ports: Sequence[int], count: int, work: Callable[[int, Connection], Awaitable[None]]
) -> None:
    """Run `work` with the numbers below `count` at the same time, each with a connection of its
    own. The connections are spread over the ports."""
    async with AsyncExitStack() as stack:
        connections = [
            await stack.enter_async_context(await Connection.open(ports[n % len(ports)]))
            for n in range(count)
        ]
        await asyncio.gather(*(work(n, each) for n, each in enumerate(connections)))
