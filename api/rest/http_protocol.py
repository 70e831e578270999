"""HTTP connections with bounds on the resources that an unauthenticated client can make the server
hold.

uvicorn has no bounds: it reads a head of any length, waits for it without a time limit, accepts
every connection, and keeps data that a client does not read.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import resource
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from hornbeam_server.api.rest.joined_writes import JoinedWrites

HEAD_BYTES = 64 * 1024
"""Maximum bytes of a request line and its headers."""
HEAD_S = 10.0
"""Maximum seconds until a connection has sent a whole head, and before that for its TLS
handshake."""
STALL_S = 30.0
"""Interval in seconds of the checks for clients that do not read. A client that reads nothing for
one to two intervals is disconnected."""
_TOO_LARGE = STATUS_LINE[431] + b"content-length: 0\r\nconnection: close\r\n\r\n"


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with bounds. It closes a connection whose head is too long (431) or does
    not arrive, whose client does not read, or that reaches `limit_concurrency`.

    Between requests a connection may be idle for uvicorn's `timeout_keep_alive`. The application
    learns of a cut connection as a disconnected client.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._unread = 0
        """Bytes received since the last whole head or piece of a body: those of a head or a
        trailer."""
        self._head_due: asyncio.TimerHandle | None = None
        self._look_due: asyncio.TimerHandle | None = None
        self._untaken = 0
        """Bytes that the client still had to read at the last check."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(JoinedWrites(transport, self.loop))  # type: ignore[arg-type]
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
            self.connections.discard(self)
            transport.abort()
        else:
            self._await_head()
            self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_came()
        if self._look_due is not None:
            self._look_due.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        room = HEAD_BYTES - self._unread
        self._unread += len(data)
        super().data_received(data[:room])
        if self._unread > HEAD_BYTES:
            self._refuse()
        elif len(data) > room and not self.transport.is_closing():
            super().data_received(data[room:])
        if self._unread and self._head_due is None and self._idle():
            self._await_head()

    def on_headers_complete(self) -> None:
        self._unread = 0
        self._head_came()
        if not self.url.startswith(b"/"):
            self._take_host_from_target()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unread = 0
        super().on_message_complete()

    def resume_writing(self) -> None:
        self._untaken = 0
        super().resume_writing()

    def _take_host_from_target(self) -> None:
        """Replace the header `Host` by the host of a target in absolute form (RFC 9112, 3.2.2)."""
        _, found, rest = self.url.partition(b"://")
        if found:
            host = re.split(rb"[/?#]", rest, maxsplit=1)[0]
            self.headers[:] = [(n, host if n == b"host" else v) for n, v in self.headers]

    def _look_later(self) -> None:
        self._look_due = self.loop.call_later(STALL_S, self._look)

    def _look(self) -> None:
        """Disconnect a client that has read nothing since the last check. The number of unread
        bytes decides, because nothing is added to them: the writer waits, or the connection
        closes."""
        waits = self.flow.write_paused or self.transport.is_closing()
        untaken = self.transport.get_write_buffer_size() if waits else 0
        if 0 < self._untaken <= untaken:
            self.transport.abort()
        else:
            self._untaken = untaken
            self._look_later()

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
    """The number of connections to accept, at most `connections` and half of the file descriptors
    of this process, whose limit is raised as far as possible. The database uses the other half."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # some systems name a limit that they refuse
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return connections if soft == resource.RLIM_INFINITY else min(connections, soft // 2)
