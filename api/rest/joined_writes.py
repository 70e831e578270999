"""Joins the head of an answer with the beginning of its body, so that both go out in one call."""

from __future__ import annotations

import asyncio
from typing import Any

JOINED_BYTES = 64 * 1024
"""Maximum bytes that are copied to be sent with what was written before."""


class JoinedWrites:
    """A transport that holds a short write until the next one, at most until the other callbacks of
    this turn of the event loop have run. Everything else is the transport's."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held = b""

    def write(self, data: bytes) -> None:
        held = self._held
        if held:
            self._held = b""
            if len(held) + len(data) <= JOINED_BYTES:
                self._transport.write(held + data)
                return
            self._transport.write(held)
            self._transport.write(data)
        elif len(data) <= JOINED_BYTES:
            self._held = data
            self._loop.call_soon(self._flush)
        else:
            self._transport.write(data)

    def write_out(self, data: bytes) -> None:
        """Write `data` now, behind a write that is held."""
        held, self._held = self._held, b""
        self._transport.write(held + data if held else data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size() + len(self._held)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _flush(self) -> None:
        held, self._held = self._held, b""
        if held and not self._transport.is_closing():
            self._transport.write(held)
