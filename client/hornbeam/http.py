"""HTTP to one node, over persistent connections.

It uses the standard library's HTTP client, since the cost of a request in the client is a large
part of the whole cost of a read by key (decision 31).
"""

from __future__ import annotations

import selectors
import socket
import ssl
from collections.abc import Iterator
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
)
from urllib.parse import urlsplit

from hornbeam.exchange import Answer, CutShort, Lost, NotSent, Request

PIECE_BYTES = 1 << 16
_Selector = getattr(selectors, "PollSelector", selectors.SelectSelector)
"""`select` supports only file descriptors below about a thousand."""


class Http:
    """A carrier to `address` (scheme, host and port). `connect_timeout_s` limits the time to
    connect. `timeout_s` limits the time without any data from the node. `tls` is set for https."""

    def __init__(
        self,
        address: str,
        *,
        connect_timeout_s: float,
        timeout_s: float,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._address = address
        self._connect_timeout_s = connect_timeout_s
        self._timeout_s = timeout_s
        self._tls = tls
        self._idle: list[HTTPConnection] = []

    def send(self, request: Request) -> Answer:
        connection = self._idle_connection() or self._new_connection()
        try:
            connection.request(
                request.method, request.path, request.body or None, dict(request.headers)
            )
            response = connection.getresponse()
            if response.length is None and not response.chunked:
                raise HTTPException("the answer does not say where it ends")
        except (OSError, HTTPException) as error:
            connection.close()
            raise Lost(_reason(error)) from error
        except BaseException:
            connection.close()
            raise
        headers = {name.lower(): value for name, value in response.headers.items()}
        body = _Body(connection, response, self._idle)
        return Answer(response.status, headers, body, body.close)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _idle_connection(self) -> HTTPConnection | None:
        """An idle connection that the node has not closed, and that has no unexpected data."""
        while self._idle:
            connection = self._idle.pop()
            if not _is_readable(connection.sock):
                return connection
            connection.close()
        return None

    def _new_connection(self) -> HTTPConnection:
        """A new connection. Raises NotSent."""
        parts = urlsplit(self._address)
        host, port = parts.hostname or "", parts.port
        connection = (
            HTTPConnection(host, port, timeout=self._connect_timeout_s)
            if self._tls is None
            else HTTPSConnection(host, port, timeout=self._connect_timeout_s, context=self._tls)
        )
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            raise NotSent(_reason(error)) from error
        connection.sock.settimeout(self._timeout_s)
        return connection


class _Body:
    """The unread body of a response. The connection is reused after the body is read to its
    end."""

    def __init__(
        self, connection: HTTPConnection, response: HTTPResponse, idle: list[HTTPConnection]
    ) -> None:
        self._connection = connection
        self._response = response
        self._idle = idle
        self._open = True

    def __iter__(self) -> Iterator[bytes]:
        count = 0
        try:
            while piece := self._response.read1(PIECE_BYTES):
                count += len(piece)
                yield piece
            if self._response.length:  # 0, or None after the last chunk, if the body is complete
                raise HTTPException("the node has closed the connection")
        except (OSError, HTTPException) as error:
            self.close()
            is_cut = isinstance(error, IncompleteRead)
            reason = "the node has closed the connection" if is_cut else _reason(error)
            raise CutShort(f"after {count:,} bytes: {reason}") from error
        except BaseException:
            self.close()
            raise
        if self._open and not self._response.will_close:
            self._open = False
            self._response.close()
            self._idle.append(self._connection)
        self.close()

    def close(self) -> None:
        if self._open:
            self._open = False
            self._connection.close()


def _is_readable(connection: socket.socket) -> bool:
    """Whether the connection has data, or was closed by the node."""
    with _Selector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        return bool(selector.select(0))


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
