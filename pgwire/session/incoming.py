"""The messages of a client behind the one that is being answered."""

from __future__ import annotations

from typing import Protocol

from hornbeam_server.pgwire.codec.requests import Request


class Incoming(Protocol):
    """The next messages. Both methods wait until a message arrives."""

    async def ahead(self, number: int) -> bytes:
        """The type of the next message (1), or of the one behind it (2). Raises Gone."""

    async def next(self) -> Request:
        """Take the next message. Raises Gone, ProtocolViolation."""
