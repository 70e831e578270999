"""Calls of a gateway and its answers as bytes: Thrift's binary protocol, without a socket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from thriftpy2.protocol import TCyBinaryProtocolFactory
from thriftpy2.thrift import TClient
from thriftpy2.transport import TCyBufferedTransport

from storage.hbase.answers import FUNCTION, Rows, Unfamiliar
from storage.hbase.cells import FAMILY, QUALIFIER
from storage.hbase.interface import THRIFT
from storage.ports import Cell

BUFFER_BYTES = 1 << 16
"""Most calls and answers are one write and one read."""
READ_BYTES = 1 << 20
"""Of a scan's answer, at most at a time."""


class Incomplete(Exception):
    """The answer goes on behind these bytes."""


class Client(TClient):
    """Of `THBaseService`, which writes to `stream` and reads from it."""

    def __init__(self, stream: Any) -> None:
        transport = TCyBufferedTransport(stream, BUFFER_BYTES)
        protocol = TCyBinaryProtocolFactory().get_protocol(transport)  # type: ignore[no-untyped-call]
        super().__init__(THRIFT.THBaseService, protocol)
        self._stream = stream

    def scanned(self, table: bytes, scan: Any, count: int) -> list[Cell]:
        """What `getScannerResults` answers, as it is stored."""
        self._send(FUNCTION, table=table, tscan=scan, numRows=count)
        rows, pieces = Rows(), []
        try:
            complete = False
            while not complete:
                pieces.append(self._stream.read(READ_BYTES))
                complete = rows.take(pieces[-1])
        except Unfamiliar:
            self._stream.received = b"".join(pieces)
            return [
                Cell(row.row, column.timestamp, column.value)
                for row in self._recv(FUNCTION)
                for column in row.columnValues
            ]
        return rows.cells

    def ask(self, name: str, call: bytes) -> Any:
        """What function `name` answers to a call that has been encoded."""
        self._stream.write(call)
        return self._recv(name)


def call_of(name: str, arguments: Mapping[str, Any]) -> bytes:
    """The call of function `name`."""
    memory = _Memory(b"")
    Client(memory)._send(name, **arguments)
    return bytes(memory.written)


def call_of_puts(table: bytes, versions: Sequence[tuple[bytes, bytes, int]]) -> bytes:
    """The call of `putMultiple` for rows, as they are stored, with timestamps: the same bytes that
    thriftpy2 makes of two objects for each."""
    column = _string(1, FAMILY) + _string(2, QUALIFIER) + b"\x0b\0\3"
    column = b"\x0f\0\2\x0c\0\0\0\1" + column
    rows = [
        b"\x0b\0\1%b%b%b%b%b\0\x0a\0\3%b\0"
        % (len(row).to_bytes(4), row, column, len(value).to_bytes(4), value, ts.to_bytes(8))
        for row, value, ts in versions
    ]
    name = b"putMultiple"
    head = b"\x80\1\0\1%b%b\0\0\0\0" % (len(name).to_bytes(4), name)
    head += _string(1, table) + b"\x0f\0\2\x0c" + len(rows).to_bytes(4)
    return b"".join([head, *rows, b"\0"])


def _string(field: int, content: bytes) -> bytes:
    return b"\x0b" + field.to_bytes(2) + len(content).to_bytes(4) + content


def answer_to(name: str, data: bytes) -> Any:
    """What function `name` returns by the answer `data`, or raises. Raises Incomplete, and what
    thriftpy2 raises when the bytes make no sense."""
    if not data.endswith(b"\0"):  # which is the end of every answer
        raise Incomplete
    return Client(_Memory(data))._recv(name)


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
