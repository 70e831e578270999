"""HTTP connections with bounds on the resources that an unauthenticated client can make the server
hold.

uvicorn has no bounds: it reads a head of any length, waits for it without a time limit, accepts
every connection, and keeps data that a client does not read.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import resource
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from hornbeam_server.api.rest import at_once
from hornbeam_server.api.rest.at_once import AtOnce, Head
from hornbeam_server.api.rest.joined_writes import JoinedWrites
from hornbeam_server.api.rest.short_requests import DECLINED, JSON

HEAD_BYTES = 64 * 1024
"""Maximum bytes of a request line and its headers."""
HEAD_S = 10.0
"""Maximum seconds until a connection has sent a whole head, and before that for its TLS
handshake."""
STALL_S = 30.0
"""Interval in seconds of the checks for clients that do not read. A client that reads nothing for
one to two intervals is disconnected."""
_END = b"\r\n\r\n"
"""The end of a head."""
_LAST = b"content-type: %s\r\n\r\n" % JSON
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
        self._at_once = at_once.of(self.config.app)
        self._completed = 0
        """Messages that were completed by the data received last."""
        self._is_declined = False
        """Has `_at_once` declined to answer the message that is parsed?"""
        self._idle_since = -math.inf
        """Time of the loop of the last answer at once."""
        self._default_headers: list[tuple[bytes, bytes]] | None = None
        self._first = b""
        """The first lines of an answer at once with these headers."""

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
        known = self._at_once
        if known is None or not self._is_between_messages():
            self._parse(data)
            return
        end = data.find(_END) + len(_END)
        head, body = known.head(data[:end]), data[end:]
        if head is None or len(body) != head.length:
            self._completed = 0
            self._parse(data)
            if self._has_parsed(body):
                known.learn(data[:end], dict(self.scope), len(body))
        elif not (self._may_answer() and known.admits(head)):
            self._parse(data)
        elif not self._answer(known, head, body):
            self._parse(data)
            self._is_declined = False

    def _is_between_messages(self) -> bool:
        """Is everything parsed and answered that has come so far?"""
        cycle = self.cycle
        return self._unread == 0 and (
            cycle is None or (cycle.response_complete and not cycle.more_body)
        )

    def _has_parsed(self, body: bytes) -> bool:
        """Has the parser read one message from the data received last, which has this body and lets
        the connection go on?"""
        return (
            self._completed == 1
            and self._unread == 0
            and self.cycle.scope is self.scope
            and self.cycle.keep_alive
            and not self.cycle.more_body
            and self.cycle.body == body
            and not self.parser.should_upgrade()
        )

    def _may_answer(self) -> bool:
        """Can the client take an answer, below the limit of uvicorn?"""
        limit = self.limit_concurrency
        return not (
            self.flow.write_paused
            or self.transport.is_closing()
            or self.parser.should_upgrade()
            or (limit is not None and len(self.tasks) >= limit)
        )

    def _answer(self, known: AtOnce, head: Head, body: bytes) -> bool:
        """Answer a whole request at once. Returns whether it is answered."""
        try:
            answer = known.answer(head, body)
        except Exception:
            return False  # the application meets the error again, and reports it
        if answer is None:
            self._is_declined = True
            return False
        self._head_came()
        self.transport.write_out(  # type: ignore[attr-defined]
            b"%scontent-length: %d\r\n%s%s" % (self._first_lines(), len(answer), _LAST, answer)
        )
        self.server_state.total_requests += 1
        self._idle_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._close_when_idle(self.timeout_keep_alive)
        return True

    def _first_lines(self) -> bytes:
        """The beginning of the head of an answer at once. uvicorn replaces its list of headers each
        second, since one is the date."""
        headers = self.server_state.default_headers
        if headers is not self._default_headers:
            self._default_headers = headers
            self._first = STATUS_LINE[200] + b"".join([b"%s: %s\r\n" % each for each in headers])
        return self._first

    def _close_when_idle(self, seconds: float) -> None:
        handler = self.timeout_keep_alive_handler
        self.timeout_keep_alive_task = self.loop.call_later(seconds, handler)

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection if nothing was answered at once since the timer was set. Otherwise
        set it for the rest of the time: to set it at each answer costs more than to look here."""
        rest = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if rest > 0:
            self._close_when_idle(rest)
        else:
            super().timeout_keep_alive_handler()

    def _parse(self, data: bytes) -> None:
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
        if self._is_declined:
            self.scope[DECLINED] = True  # type: ignore[literal-required]

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unread = 0
        self._completed += 1
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
        self._head_due = self.loop.call_later(HEAD_S, super().timeout_keep_alive_handler)

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
