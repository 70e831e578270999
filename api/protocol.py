"""Connections of HTTP with bounds: what a stranger may make the server hold before it knows him.

uvicorn reads a head whatever its length, waits for it for ever, and accepts every connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

HEAD_BYTES = 64 * 1024
"""Bytes of a request line and its headers."""
HEAD_S = 10.0
"""A connection has so long to send a whole head, its TLS handshake before that as long again."""
_TOO_LARGE = STATUS_LINE[431] + b"content-length: 0\r\nconnection: close\r\n\r\n"


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which closes connections whose request's head is too long (431) or does
    not come, and those that reach `limit_concurrency`.

    Between requests a connection may be idle for uvicorn's `timeout_keep_alive`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._unread = 0
        """Bytes since a head or a piece of a body was whole: those of a head or a trailer."""
        self._head_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
            self.connections.discard(self)
            transport.abort()
        else:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._head_due is None and self._idle():
            self._await_head()
        room = HEAD_BYTES - self._unread
        self._unread += len(data)
        super().data_received(data[:room])
        if self._unread > HEAD_BYTES:
            self._refuse()
        elif len(data) > room and not self.transport.is_closing():
            super().data_received(data[room:])

    def on_headers_complete(self) -> None:
        self._unread = 0
        self._head_came()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unread = 0
        super().on_message_complete()

    def _idle(self) -> bool:
        """Is no answer under way?"""
        return self.cycle is None or self.cycle.response_complete

    def _await_head(self) -> None:
        self._head_due = self.loop.call_later(HEAD_S, self.timeout_keep_alive_handler)

    def _head_came(self) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
            self._head_due = None

    def _refuse(self) -> None:
        if self._idle() and not self.transport.is_closing():
            self.transport.write(_TOO_LARGE)
        self.transport.close()


def room_for(connections: int) -> int:
    """How many of so many connections there is room for: at most half of the descriptors that this
    process may have, which are made as many as the system lets it. The rest is the database's."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # some systems name a limit that they refuse
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return connections if soft == resource.RLIM_INFINITY else min(connections, soft // 2)
