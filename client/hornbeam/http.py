"""HTTP to one node, over persistent connections of blocking sockets (decision 81)."""

from __future__ import annotations

import os
import select
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar
from urllib.parse import urlsplit

from hornbeam.exchange import Answer, CutShort, Lost, NotSent, Request
from hornbeam.http1 import AnswerReader, Garbled, host_of, request_bytes

PIECE_BYTES = 1 << 16


class Line(Protocol):
    """A connection to a node."""

    def is_idle(self) -> bool:
        """Whether the node has not closed the connection, and has sent no unexpected data."""

    def close(self) -> None: ...


L = TypeVar("L", bound=Line)


class BaseHttp(Generic[L]):
    """The part of a carrier that needs no request, for both kinds: the connections to `address`
    (scheme, host and port) that are idle. `connect_timeout_s` limits the time to connect.
    `timeout_s` limits the time without any data from the node. `tls` is set for https."""

    def __init__(
        self,
        address: str,
        *,
        connect_timeout_s: float,
        timeout_s: float,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        parts = urlsplit(address)
        self._place = parts.hostname or "", parts.port or (443 if tls else 80)
        self._host = host_of(parts)
        self._connect_timeout_s = connect_timeout_s
        self.timeout_s = timeout_s
        self._tls = tls
        self._idle: list[L] = []

    def release(self, line: L, reader: AnswerReader) -> None:
        """Keep the connection for the next request, if its answer is complete and permits that."""
        if reader.keeps:
            self._idle.append(line)
        else:
            line.close()

    def _idle_line(self) -> L | None:
        while self._idle:
            line = self._idle.pop()
            if line.is_idle():
                return line
            line.close()
        return None


class Http(BaseHttp["_Line"]):
    """A carrier to a node over sockets that block."""

    def send(self, request: Request) -> Answer:
        data = request_bytes(request, self._host)
        line = self._idle_line() or self._new_line()
        reader = AnswerReader()
        try:
            line.socket.sendall(data)
            while not reader.status:
                reader.feed(line.socket.recv(PIECE_BYTES))
        except (OSError, Garbled) as error:
            line.close()
            raise Lost(reason_of(error)) from error
        except BaseException:  # the answer would be that of the next request
            line.close()
            raise
        if reader.done:
            self.release(line, reader)
            return Answer(reader.status, reader.headers, reader.pieces)
        body = _Body(self, line, reader)
        return Answer(reader.status, reader.headers, body, body.close)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _new_line(self) -> _Line:
        """A new connection. Raises NotSent."""
        try:
            plain = socket.create_connection(self._place, self._connect_timeout_s)
        except OSError as error:
            raise NotSent(reason_of(error)) from error
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected = plain
            if self._tls is not None:
                connected = self._tls.wrap_socket(plain, server_hostname=self._place[0])
            connected.settimeout(self.timeout_s)
        except OSError as error:
            plain.close()
            raise NotSent(reason_of(error)) from error
        except BaseException:
            plain.close()
            raise
        return _Line(connected)


class _Line:
    __slots__ = ("_is_readable", "socket")

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self._is_readable = glance(connected)

    def is_idle(self) -> bool:
        return not self._is_readable()

    def close(self) -> None:
        self.socket.close()


def glance(connected: socket.socket) -> Callable[[], bool]:
    """A function that says, without waiting, whether a connection has data, or was closed by the
    node."""
    if not hasattr(select, "poll"):
        return lambda: bool(select.select([connected], [], [], 0)[0])
    poll = select.poll()  # `select` supports only descriptors below about a thousand
    poll.register(connected.fileno(), select.POLLIN)
    return lambda: bool(poll.poll(0))


class _Body:
    """The rest of an answer. The connection is reused if the body has arrived completely."""

    def __init__(self, http: Http, line: _Line, reader: AnswerReader) -> None:
        self._http = http
        self._line = line
        self._reader = reader
        self._open = True

    def __iter__(self) -> Iterator[bytes]:
        reader = self._reader
        try:
            yield from reader.take()
            while not reader.done:
                reader.feed(self._line.socket.recv(PIECE_BYTES))
                yield from reader.take()
        except (OSError, Garbled) as error:
            raise CutShort(f"after {reader.count:,} bytes: {reason_of(error)}") from error
        finally:
            self.close()

    def close(self) -> None:
        if self._open:
            self._open = False
            self._http.release(self._line, self._reader)


def reason_of(error: Exception) -> str:
    """The text of an error of a connection."""
    if isinstance(error, ConnectionError) and error.errno:
        return f"[Errno {error.errno}] {os.strerror(error.errno)}"  # asyncio has other texts
    return str(error) or type(error).__name__
