"""A server in its own process, and a client that is not the bottleneck of a measurement.

The client encodes requests before the clock starts, writes them to one keep-alive socket, and reads
the answers with blocking calls. It needs some twenty microseconds per request, so it measures the
server and the loopback interface. It requests `/livez` in the same manner, so the time of `/livez`
is the floor.
"""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Self

import msgspec

RECEIVE_BYTES = 1 << 20
TICKS_S = os.sysconf("SC_CLK_TCK")


class HttpError(Exception):
    """The server's answer is incomplete, or its status is not 200."""


def get(path: str) -> bytes:
    """An encoded GET request."""
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def post(path: str, document: object, *headers: str) -> bytes:
    """An encoded POST request with a JSON body."""
    body = msgspec.json.encode(document)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n"
    )
    return (head + "".join(f"{header}\r\n" for header in headers) + "\r\n").encode() + body


class Client:
    """A keep-alive connection."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, request: bytes) -> None:
        """Send a request, and discard its answer. Raises HttpError."""
        self.answer(request)

    def answer(self, request: bytes) -> bytes:
        """Send a request. Returns the body of its answer. Raises HttpError."""
        self._socket.sendall(request)
        data = bytearray(self._received())
        while not is_whole(data):
            data += self._received()
        return bytes(data.partition(b"\r\n\r\n")[2])

    def _received(self) -> bytes:
        data = self._socket.recv(RECEIVE_BYTES)
        if not data:
            raise HttpError("The server closed the connection.")
        return data

    def times_ms(self, request: bytes, count: int) -> list[float]:
        """The times, in milliseconds, of `count` requests, one after the other."""
        found = []
        for _ in range(count):
            began = time.perf_counter()
            self.ask(request)
            found.append((time.perf_counter() - began) * 1000)
        return found


def is_whole(data: bytearray) -> bool:
    """Whether `data` is all of an answer with the status 200. Raises HttpError for another
    status."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return False
    head = data[:end].lower()
    if not head.startswith(b"http/1.1 200"):
        raise HttpError(data.decode(errors="replace"))
    length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return len(data) >= end + 4 + length


def drain(port: int, request: bytes) -> int:
    """Send a request on a new connection, and discard its streamed answer. Returns the answer's
    bytes.

    The request must have the header `Connection: close`. Raises HttpError.
    """
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(request)
        first = tail = connection.recv(RECEIVE_BYTES)
        total = len(first)
        while data := connection.recv(RECEIVE_BYTES):
            total += len(data)
            tail = (tail + data)[-5:]
    if not first.lower().startswith(b"http/1.1 200") or tail != b"0\r\n\r\n":
        raise HttpError(first.decode(errors="replace"))
    return total


class Process:
    """A process, as the system shows it."""

    def __init__(self, process: int) -> None:
        self._folder = Path(f"/proc/{process}")

    def processor_s(self) -> float:
        """The seconds of processor time that it has taken."""
        fields = (self._folder / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_S

    def memory_kb(self) -> int:
        """Its resident memory in units of 1 024 bytes."""
        return self._status("VmRSS")

    def peak_memory_kb(self) -> int:
        """Its peak resident memory so far in units of 1 024 bytes."""
        return self._status("VmHWM")

    def _status(self, name: str) -> int:
        lines = (self._folder / "status").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith(f"{name}:")))

    def share(self, seconds: float) -> float:
        """The share of a core, in per cent, that it takes during the next `seconds`."""
        began, used = time.monotonic(), self.processor_s()
        time.sleep(seconds)
        return 100 * (self.processor_s() - used) / (time.monotonic() - began)
