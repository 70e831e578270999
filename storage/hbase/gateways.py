"""Connections to HBase's Thrift gateways, for use by threads and by one event loop.

A connection serves one call at a time. After any failure it is closed. A connection that is idle
for long is closed before its gateway closes it. A gateway that fails is set aside for a while, and
the others are tried in turn. When all are set aside, they are tried nevertheless.

A call has a deadline; the socket checks it at every read and write.

Threads may call every method. The event loop makes a call only over an open, free connection
(`call_at_once`): this saves switches between threads at Python's lock, which cost more than the
call.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeVar

from thriftpy2.protocol.cybin import ProtocolError  # type: ignore[attr-defined]
from thriftpy2.thrift import TApplicationException, TException

from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.storage.hbase.kinds import Kind
from hornbeam_server.storage.hbase.messages import (
    BUFFER_BYTES,
    LONGEST_ANSWER,
    AnswerTooLong,
    Incomplete,
)
from hornbeam_server.storage.hbase.thrift2 import THRIFT_2

T = TypeVar("T")
IDLE_S = 30.0
"""Gateways close connections after 60 s without a call."""
ASIDE_S = 2.0
INTRODUCED_S = 15.0
"""A gateway that has not reported its type after so long is given up, whatever the deadline of
the call."""
MOST_IDLE = 32
"""Idle connections that are kept, at most. Threads and the event loop may each use as many."""
SHORT_ANSWER = 4 * BUFFER_BYTES
"""The event loop reads at most so many bytes of an answer itself."""
NO_NAMESPACE = "NamespaceNotFoundException"
"""Part of HBase's refusal of a table in a namespace that does not exist, or not everywhere yet."""
_THRIFT_BINARY = b"\x80\x01"
_BROKEN = (OSError, TException, ProtocolError, MemoryError, RecursionError, SystemError)
"""Errors of a socket, and of thriftpy2 when the bytes end early or make no sense."""


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class CallFailed(Unavailable):
    """A call that did not return. `sent`: it may have taken effect, or may yet do so. `refused`:
    the answer was an error. `lasting`: a repetition would fail again."""

    def __init__(
        self,
        message: str,
        *,
        cure: str = "",
        sent: bool = True,
        refused: bool = False,
        lasting: bool = False,
    ) -> None:
        super().__init__(message, cure=cure)
        self.sent, self.refused, self.lasting = sent, refused, lasting


class Gateways:
    """A pool of connections to `addresses`, gateways of one kind."""

    def __init__(self, addresses: Sequence[Address], kind: Kind = THRIFT_2) -> None:
        if not addresses:
            raise ValueError("no gateway")
        self._kind = kind
        self._addresses = list(addresses)
        self._aside: dict[Address, float] = {}
        self._idle: list[_Connection] = []  # the last used is last
        self._used: set[_Connection] = set()
        self._lock = threading.Lock()
        self._closed = False

    def call(self, work: Callable[[Any], T], deadline: float) -> T:
        """Do `work` with a client of a gateway. Raises CallFailed, AnswerTooLong."""
        self._require_open()
        with self._lent(self._take(deadline) or self._opened(deadline)) as connection:
            return work(connection.client)

    async def call_at_once(self, name: str, call: bytes, deadline: float) -> Any:
        """Send the encoded `call` of function `name`; returns its answer. Raises CallFailed, also
        when no connection is free, and AnswerTooLong."""
        connection = self._take(deadline)
        if connection is None:
            raise CallFailed("No connection to a gateway is free.", sent=False)
        with self._lent(connection):
            return await connection.exchange(name, call)

    def close(self) -> None:
        """Close idle connections now, and connections in use when they are given back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def abort(self) -> None:
        """Close, and make running calls fail."""
        self.close()
        with self._lock:
            for connection in self._used:
                connection.stream.abort()

    @contextmanager
    def _lent(self, connection: _Connection) -> Iterator[_Connection]:
        self._use(connection)
        try:
            yield connection
        except BaseException as error:
            connection.close()
            if isinstance(error, _BROKEN):
                raise self._explained(error, connection.address) from error
            raise
        finally:
            with self._lock:
                self._used.discard(connection)
        self._give_back(connection)

    def _use(self, connection: _Connection) -> None:
        """Note that `connection` is in use. Raises CallFailed once the pool is closed, also for a
        connection that was opened since."""
        with self._lock:
            if not self._closed:
                self._used.add(connection)
                return
        connection.close()
        self._require_open()

    def _require_open(self) -> None:
        if self._closed:
            raise CallFailed("The store is closed.", sent=False, lasting=True)

    def _take(self, deadline: float) -> _Connection | None:
        """The idle connection that was used last and still lives; None if there is none."""
        while True:
            self._close_idle()
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            connection.stream.deadline, connection.stream.room = deadline, None
            if connection.lives():
                return connection
            connection.close()

    def _give_back(self, connection: _Connection) -> None:
        connection.used_at = time.monotonic()
        with self._lock:
            if not self._closed and len(self._idle) < MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _close_idle(self) -> None:
        oldest = time.monotonic() - IDLE_S
        with self._lock:
            if not self._idle or self._idle[0].used_at > oldest:
                return
            fresh = next((i for i, c in enumerate(self._idle) if c.used_at > oldest), None)
            stale, self._idle = self._idle[:fresh], ([] if fresh is None else self._idle[fresh:])
        for connection in stale:
            connection.close()

    # ------------------------------------------------------------ gateways

    def _opened(self, deadline: float) -> _Connection:
        """A connection to the first gateway that answers. Each gateway has its share of the
        time."""
        failures = []
        addresses = self._in_turn()
        for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            now = time.monotonic()
            try:
                share_s = min((deadline - now) / left, INTRODUCED_S)
                return _Connection(address, self._kind, now + share_s, deadline)
            except _BROKEN as error:
                self._set_aside(address)
                failures.append(f"{address} {_why_not(error)}")
        raise CallFailed(
            f"No Thrift {self._kind.number} gateway of HBase can be used: {'; '.join(failures)}.",
            cure=f"Start one ({self._kind.start}), or correct the addresses in the settings: "
            "host:port is of Thrift 2, thrift1://host:port of Thrift 1.",
            sent=False,
        )

    def _in_turn(self) -> list[Address]:
        """All addresses, those that are not set aside first. Every call begins with the next
        address."""
        now = time.monotonic()
        with self._lock:
            self._addresses.append(self._addresses.pop(0))
            return sorted(self._addresses, key=lambda address: self._aside.get(address, 0) > now)

    def _set_aside(self, address: Address) -> None:
        """Avoid a gateway for ASIDE_S. Its idle connections are closed: they are probably dead,
        too."""
        with self._lock:
            self._aside[address] = time.monotonic() + ASIDE_S
            dropped = [c for c in self._idle if c.address == address]
            self._idle = [c for c in self._idle if c.address != address]
        for connection in dropped:
            connection.close()

    def _explained(self, error: BaseException, address: Address) -> CallFailed:
        if isinstance(error, self._kind.refusals):
            reason = _first_line(getattr(error, "message", None))
            # A new namespace is listed shortly before a table can be created in it.
            lasting = getattr(error, "canRetry", None) is False and NO_NAMESPACE not in reason
            return CallFailed(f"HBase refuses: {reason}.", refused=True, lasting=lasting)
        if isinstance(error, TApplicationException):
            reason = _first_line(error.message)
            # Some errors pass: regions cannot be located while one of them splits.
            lasting = error.type != TApplicationException.INTERNAL_ERROR
            text = f"The gateway {address} fails: {reason}."
            return CallFailed(text, refused=True, lasting=lasting)
        self._set_aside(address)
        return CallFailed(f"The gateway {address} {_why_not(error)}.")


class _Connection:
    """A connection to one gateway, which has reported that it is of `kind`."""

    def __init__(self, address: Address, kind: Kind, introduced_by: float, deadline: float) -> None:
        self.address = address
        self.used_at = time.monotonic()
        self.stream = _Stream(address, introduced_by)
        self._kind = kind
        self.client: Any = kind.client(self.stream)
        try:
            if (number := self.client.getThriftServerType()) != kind.number:
                raise _Stranger(f"serves Thrift {number}, not Thrift {kind.number}")
        except TApplicationException as error:
            self.close()
            raise _Stranger("is of an HBase too old for Hornbeam (2.2 at least)") from error
        except BaseException:
            self.close()
            raise
        self.stream.deadline = deadline

    async def exchange(self, name: str, call: bytes) -> Any:
        """Send the encoded `call` of function `name`; returns its answer. A thread reads the rest
        of a long answer."""
        loop, stream = asyncio.get_running_loop(), self.stream
        stream.socket.settimeout(0)
        received = b""
        async with asyncio.timeout(stream.left()):
            await loop.sock_sendall(stream.socket, call)
            while len(received) < SHORT_ANSWER:
                data = await loop.sock_recv(stream.socket, BUFFER_BYTES)
                if not data:
                    raise ConnectionResetError
                received += data
                with suppress(Incomplete):
                    return self._kind.answer_to(name, received)
        stream.received, stream.room = received, LONGEST_ANSWER
        return await asyncio.to_thread(self.client.answer, name)

    def lives(self) -> bool:
        """True if the other side has neither closed the connection nor sent unrequested bytes."""
        self.stream.socket.settimeout(0)
        try:
            self.stream.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def close(self) -> None:
        self.stream.close()


class _Stream:
    """A socket with a deadline, as a stream for thriftpy2's buffered transport."""

    def __init__(self, address: Address, deadline: float) -> None:
        self.deadline = deadline
        self.received = b""
        """Bytes that were received by other means; they are read first."""
        self.room: int | None = None
        """Bytes that may be read until the call is answered; None: any number."""
        self._heard = False
        self.socket = socket.create_connection(address, self.left())
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def left(self) -> float:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def read(self, size: int) -> bytes:
        if self.received:
            data, self.received = self.received[:size], self.received[size:]
            return data
        self.socket.settimeout(self.left())
        data = self.socket.recv(size)
        if not data:
            raise ConnectionResetError
        if self.room is not None:
            self.room -= len(data)
            if self.room < 0:
                raise AnswerTooLong
        if not self._heard:
            self._heard = True
            if not _THRIFT_BINARY.startswith(data[:2]):
                raise _Stranger("speaks something else than Thrift's binary protocol")
        return data

    def write(self, data: bytes) -> None:
        self.socket.settimeout(self.left())
        self.socket.sendall(data)

    def flush(self) -> None: ...

    def abort(self) -> None:
        """Make all reads and writes end as on a closed connection, in every thread."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.socket.close()


class _Stranger(OSError):
    """The other side is no gateway that Hornbeam can use."""


def _why_not(error: BaseException) -> str:
    match error:
        case _Stranger():
            return str(error)
        case TimeoutError():
            return "does not answer in time"
        case ConnectionRefusedError():
            return "refuses connections"
        case ConnectionError():
            return "has closed the connection"
        case OSError():
            return f"cannot be reached ({error.strerror or error})"
        case _:
            return "has sent what cannot be understood"


def _first_line(message: str | None) -> str:
    """The first line of a message of HBase; the other lines are its stack."""
    line = (message or "without a reason").strip().partition("\n")[0]
    return line.strip()[:300].rstrip(".")
