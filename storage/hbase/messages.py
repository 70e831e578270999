"""Calls of a gateway and its answers as bytes: Thrift's binary protocol, without a socket."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from io import BytesIO
from typing import Any, TypeVar

from thriftpy2.protocol import TCyBinaryProtocolFactory
from thriftpy2.protocol.cybin import ProtocolError  # type: ignore[attr-defined]
from thriftpy2.thrift import TClient
from thriftpy2.transport import TCyBufferedTransport

from hornbeam_server.storage.hbase.answers import (
    FUNCTION,
    Unfamiliar,
    answer_begins,
    cells_gotten,
    rows_of_scan,
)
from hornbeam_server.storage.hbase.cells import FAMILY, QUALIFIER
from hornbeam_server.storage.hbase.found import STORED, Form, Found
from hornbeam_server.storage.hbase.interface import THRIFT
from hornbeam_server.storage.ports import Cell

T = TypeVar("T")
BUFFER_BYTES = 1 << 16
"""Most calls and answers are one write and one read."""
READ_BYTES = 1 << 20
"""Maximum bytes of a scan's answer that are read at one time."""


LONGEST_ANSWER = 32 << 20
"""Maximum bytes of an answer with rows: the caller repeats a call with a longer answer, for fewer
rows. Two rows of the maximum size always fit."""


class AnswerTooLong(Exception):
    """An answer with rows has more than LONGEST_ANSWER bytes. Its rest is not read."""


class Incomplete(Exception):
    """The answer goes on behind these bytes."""


class Client(TClient):
    """A client of `THBaseService` that writes to `stream` and reads from it."""

    def __init__(self, stream: Any) -> None:
        transport = TCyBufferedTransport(stream, BUFFER_BYTES)
        protocol = TCyBinaryProtocolFactory().get_protocol(transport)  # type: ignore[no-untyped-call]
        super().__init__(THRIFT.THBaseService, protocol)
        self._stream = stream

    def scanned(self, table: bytes, scan: Any, count: int, form: Form[T]) -> Found[T]:
        """The rows that `getScannerResults` returns. Raises AnswerTooLong."""
        self._stream.room = LONGEST_ANSWER
        self._send(FUNCTION, table=table, tscan=scan, numRows=count)
        rows, pieces = rows_of_scan(form), []
        try:
            complete = False
            while not complete:
                pieces.append(self._stream.read(READ_BYTES))
                complete = rows.take(pieces[-1])
        except Unfamiliar:
            self._stream.received = b"".join(pieces)
            return Found.of(_cells(self._recv(FUNCTION)), form)
        return rows.found

    def ask(self, name: str, call: bytes) -> Any:
        """Send the encoded `call` of function `name`; returns its answer. Raises AnswerTooLong."""
        self._stream.room = LONGEST_ANSWER
        self._stream.write(call)
        return self.answer(name)

    def answer(self, name: str) -> Any:
        """Read the answer of function `name`. For gets and scans it is a list of cells as they are
        stored, of gets with None for absent rows."""
        result = self._recv(name)
        match name:
            case "get":
                return [_cell(result)]
            case "getMultiple":
                return [_cell(one) for one in result]
            case "getScannerResults":
                return _cells(result)
        return result


def _cells(rows: Any) -> list[Cell]:
    if any(row.row is None for row in rows):
        raise ProtocolError("A row of an answer to a scan has no key.")
    return [
        Cell(row.row, column.timestamp, column.value) for row in rows for column in row.columnValues
    ]


def _cell(result: Any) -> Cell | None:
    if not result.columnValues:
        return None
    column = result.columnValues[0]
    return Cell(result.row, column.timestamp, column.value)


def call_of_puts(
    table: bytes, versions: Sequence[tuple[bytes, bytes, int]], *, forced: bool = False
) -> tuple[str, bytes]:
    """Function and encoded call that put `versions`: stored row, stored value, timestamp. The bytes
    are those that thriftpy2 makes from two objects per version. `forced`: with FSYNC_WAL."""
    end = _FORCED if forced else b"\0"
    puts = [
        b"\x0b\0\1%b%b%b\x0b\0\3%b%b\0\x0a\0\3%b%b"
        % (len(row).to_bytes(4), row, _COLUMN, len(value).to_bytes(4), value, ts.to_bytes(8), end)
        for row, value, ts in versions
    ]
    return _call_with("put", table, puts)


def call_of_gets(table: bytes, rows: Sequence[bytes], behind: int) -> tuple[str, bytes]:
    """Function and encoded call that get the newest versions of stored `rows` with timestamps less
    than `behind`."""
    when = b"\0\x0c\0\4\x0a\0\1%b\x0a\0\2%b\0" % (bytes(8), behind.to_bytes(8))
    rest = b"%b%b\x08\0\5\0\0\0\1\0" % (_COLUMN, when)
    gets = [b"\x0b\0\1%b%b%b" % (len(row).to_bytes(4), row, rest) for row in rows]
    return _call_with("get", table, gets)


def call_of_scan(table: bytes, scan: Any, count: int) -> tuple[str, bytes]:
    """Function and encoded call that reads the first `count` rows of `scan`."""
    written = BytesIO()
    Client(written)._send(FUNCTION, table=table, tscan=scan, numRows=count)
    return FUNCTION, written.getvalue()


def _call_with(function: str, table: bytes, structs: Sequence[bytes]) -> tuple[str, bytes]:
    """Name and encoded call of `function` for one struct, or of `<function>Multiple` for
    several."""
    if len(structs) == 1:
        name, given = function, b"\x0c\0\2"
    else:
        name, given = function + "Multiple", b"\x0f\0\2\x0c" + len(structs).to_bytes(4)
    head = b"\x80\1\0\1%b%b\0\0\0\0" % (len(name).to_bytes(4), name.encode())
    return name, b"".join([head, _string(1, table), given, *structs, b"\0"])


def _string(field: int, content: bytes) -> bytes:
    return b"\x0b" + field.to_bytes(2) + len(content).to_bytes(4) + content


_COLUMN = b"\x0f\0\2\x0c\0\0\0\1" + _string(1, FAMILY) + _string(2, QUALIFIER)
"""A list of one column, up to the end of the column's name."""
_FORCED = b"\x08\0\6" + THRIFT.TDurability.FSYNC_WAL.to_bytes(4) + b"\0"
"""The durability of a put, and the end of the put."""
_DONE = {name: answer_begins(name) + bytes(5) for name in ("put", "putMultiple")}
"""Answers without a result."""


def answer_to(name: str, data: bytes) -> Any:
    """The result of function `name` in the answer `data` (see `Client.answer`). Raises the error
    that the answer holds, Incomplete, and errors of thriftpy2 when the bytes make no sense."""
    if not data.endswith(b"\0"):  # the end of every answer
        raise Incomplete
    if data == _DONE.get(name):
        return None
    if name in ("get", "getMultiple"):
        with suppress(Unfamiliar):
            return cells_gotten(data)
    if name == FUNCTION:
        with suppress(Unfamiliar):
            return _whole(data)
    return Client(Memory(data)).answer(name)


def _whole(data: bytes) -> list[Cell]:
    """The rows of a whole answer to a scan. Raises Incomplete, Unfamiliar."""
    rows = rows_of_scan(STORED)
    if not rows.take(data):
        raise Incomplete
    return rows.found.rows


class Memory:
    """A stream over bytes, for thriftpy2's buffered transport."""

    def __init__(self, data: bytes) -> None:
        self._left = memoryview(data)

    def read(self, size: int) -> bytes:
        data, self._left = bytes(self._left[:size]), self._left[size:]
        if not data:
            raise Incomplete
        return data
