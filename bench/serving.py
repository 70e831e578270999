"""A server process of its own to measure against, and a client that is not the bottleneck.

The client writes requests that were encoded before the clock starts to one keep-alive socket and
reads the answer with blocking calls: some twenty microseconds of its own per request. What it
measures is the server and the loopback. `/livez` goes the same way, so its time is the floor.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import msgspec

from hornbeam_server.api.serve import serve
from hornbeam_server.cluster.ports import free_ports

START_TIMEOUT_S = 60.0
RECEIVE_BYTES = 1 << 20


class HttpError(Exception):
    """The server gave another answer than 200."""


@contextmanager
def server(folder: Path, **settings: str) -> Iterator[tuple[int, int]]:
    """Serve the database in `folder` in a fresh process; yields (port, process id)."""
    (port,) = free_ports(1)
    given = json.dumps(settings)
    command = [sys.executable, "-m", "bench.serving", str(folder), str(port), given]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        _wait_until_up(port, process)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait()


def _wait_until_up(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"The server on port {port} has not come up.")


def get(path: str) -> bytes:
    """An encoded request."""
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def post(path: str, document: object, *headers: str) -> bytes:
    """An encoded request with a JSON body."""
    body = msgspec.json.encode(document)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n"
    )
    return (head + "".join(f"{header}\r\n" for header in headers) + "\r\n").encode() + body


class Client:
    """One keep-alive connection."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, request: bytes) -> int:
        """Send, receive the whole answer and forget it; returns its bytes. Raises HttpError."""
        self._socket.sendall(request)
        data = self._received()
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._received()
        head = data[:end].lower()
        if not head.startswith(b"http/1.1 200"):
            raise HttpError(data.decode(errors="replace"))
        size = end + 4 + int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        have = len(data)
        while have < size:
            have += len(self._received())
        return have

    def _received(self) -> bytes:
        data = self._socket.recv(RECEIVE_BYTES)
        if not data:
            raise HttpError("The server closed the connection.")
        return data

    def times_ms(self, request: bytes, count: int) -> list[float]:
        """Milliseconds of `count` requests, one after the other."""
        found = []
        for _ in range(count):
            began = time.perf_counter()
            self.ask(request)
            found.append((time.perf_counter() - began) * 1000)
        return found


def drain(port: int, request: bytes) -> int:
    """Ask on a connection of its own and forget a streamed answer; returns its bytes.

    The request must say `Connection: close`. Raises HttpError.
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


def peak_memory_mb(process: int) -> float:
    """The most memory that a process has had resident so far (VmHWM)."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"The system does not tell the memory of process {process}.")


if __name__ == "__main__":
    more = json.loads(sys.argv[3])
    serve(data=Path(sys.argv[1]), port=int(sys.argv[2]), statement_timeout_s=600, **more)
