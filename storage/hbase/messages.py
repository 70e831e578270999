"""Calls of a gateway and its answers as bytes: Thrift's binary protocol, without a socket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thriftpy2.protocol import TCyBinaryProtocolFactory
from thriftpy2.thrift import TClient
from thriftpy2.transport import TCyBufferedTransport

from storage.hbase.interface import THRIFT

BUFFER_BYTES = 1 << 16
"""Most calls and answers are one write and one read."""


class Incomplete(Exception):
    """The answer goes on behind these bytes."""


def client_over(stream: Any) -> Any:
    """A client of `THBaseService` that writes to `stream` and reads from it."""
    transport = TCyBufferedTransport(stream, BUFFER_BYTES)
    protocol = TCyBinaryProtocolFactory().get_protocol(transport)  # type: ignore[no-untyped-call]
    return TClient(THRIFT.THBaseService, protocol)


def call_of(name: str, arguments: Mapping[str, Any]) -> bytes:
    """The call of function `name`."""
    memory = _Memory(b"")
    client_over(memory)._send(name, **arguments)
    return bytes(memory.written)


def answer_to(name: str, data: bytes) -> Any:
    """What function `name` returns by the answer `data`, or raises. Raises Incomplete, and what
    thriftpy2 raises when the bytes make no sense."""
    if not data.endswith(b"\0"):  # which is the end of every answer
        raise Incomplete
    return client_over(_Memory(data))._recv(name)


class _Memory:
    """Bytes to read, and those written, as thriftpy2's buffered transport wants them."""

    def __init__(self, data: bytes) -> None:
        self._left = memoryview(data)
        self.written = bytearray()

    def read(self, size: int) -> bytes:
        data, self._left = bytes(self._left[:size]), self._left[size:]
        if not data:
            raise Incomplete
        return data

    def write(self, data: bytes) -> None:
        self.written += data

    def flush(self) -> None: ...
