"""Calls of a Thrift 1 gateway and its answers.

A scan takes three calls: one opens it, one reads rows, one closes it. A gateway does the calls of
a connection one after the other, so calls are sent without waiting for the answers before them. So
a scan of some ranges waits twice: for the numbers of the scanners, and for the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from typing import Any, TypeVar

from thriftpy2.protocol import TCyBinaryProtocolFactory
from thriftpy2.thrift import TClient
from thriftpy2.transport import TCyBufferedTransport

from hornbeam_server.storage.hbase import messages
from hornbeam_server.storage.hbase.cells import FAMILY, QUALIFIER
from hornbeam_server.storage.hbase.found import Form, Found
from hornbeam_server.storage.hbase.kinds import Call
from hornbeam_server.storage.hbase.messages import BUFFER_BYTES, Incomplete, Memory
from hornbeam_server.storage.hbase.thrift1.interface import THRIFT
from hornbeam_server.storage.ports import Cell

T = TypeVar("T")
COLUMN = FAMILY + b":" + QUALIFIER
REGISTER = FAMILY + b":c"
"""The column of the claims that `check_and_put` writes; no read of rows asks for it."""
GETS, PUTS = "getRowsWithColumnsTs", "mutateRowsTs"


class Client(TClient):
    """A client of the service `Hbase` that writes to `stream` and reads from it."""

    def __init__(self, stream: Any) -> None:
        transport = TCyBufferedTransport(stream, BUFFER_BYTES)
        protocol = TCyBinaryProtocolFactory().get_protocol(transport)  # type: ignore[no-untyped-call]
        super().__init__(THRIFT.Hbase, protocol)
        self._stream = stream

    def tableExists(self, name: bytes) -> bool:
        return name in self.getTableNames()

    def scanned(self, table: bytes, scans: Sequence[Any], count: int, form: Form[T]) -> Found[T]:
        """The first `count` rows of `scans`, one after the other. Raises AnswerTooLong: then the
        scanners stay until the gateway and the region servers forget them."""
        cells: list[Cell] = []
        for rows in self.scanned_rows(table, scans, count):
            cells += _cells(rows)
        return Found.of(cells[:count], form)

    def scanned_rows(
        self, table: bytes, scans: Sequence[Any], count: int
    ) -> Iterable[Sequence[Any]]:
        """The first `count` rows of each of `scans`."""
        opened = [{"tableName": table, "scan": scan, "attributes": {}} for scan in scans]
        scanners = self.together("scannerOpenWithScan", opened)
        for scanner in scanners:
            self._send("scannerGetList", id=scanner, nbRows=count)
            self._send("scannerClose", id=scanner)
        for _ in scanners:
            self._stream.room = messages.LONGEST_ANSWER
            yield self._recv("scannerGetList")
            self._recv("scannerClose")

    def together(self, function: str, calls: Sequence[Mapping[str, Any]]) -> list[Any]:
        """The results of several calls of `function`, which are sent at once. They must be so few
        that the gateway takes them all before its answers are read."""
        for arguments in calls:
            self._send(function, **arguments)
        return [self._recv(function) for _ in calls]

    def ask(self, name: str, call: bytes) -> Any:
        """Send the encoded `call` of function `name`; returns its answer. Raises AnswerTooLong."""
        self._stream.room = messages.LONGEST_ANSWER
        self._stream.write(call)
        return self.answer(name)

    def answer(self, name: str) -> Any:
        """Read the answer of function `name`. For gets it is a list of the cells that there are, as
        they are stored."""
        result = self._recv(name)
        return _cells(result) if name == GETS else result


def _cells(rows: Iterable[Any]) -> list[Cell]:
    return [
        Cell(row.row, cell.timestamp, cell.value) for row in rows for cell in row.columns.values()
    ]


def answer_to(name: str, data: bytes) -> Any:
    """As `Kind.answer_to` says."""
    if not data.endswith(b"\0"):  # the end of every answer
        raise Incomplete
    return Client(Memory(data)).answer(name)


def call_of_gets(table: bytes, rows: Sequence[bytes], behind: int) -> Call:
    """As `Kind.call_of_gets` says."""
    return call_of(
        GETS,
        tableName=table,
        rows=list(rows),
        columns=[COLUMN],
        timestamp=behind,
        attributes={},
    )


def call_of_puts(table: bytes, versions: Sequence[tuple[bytes, bytes]], ts: int) -> Call:
    """A call that puts stored rows with their stored values at one timestamp. The bytes are those
    that thriftpy2 makes from two objects per row."""
    puts = [
        b"\x0b\0\1%b%b%b%b%b\x02\0\4\1\0\0"
        % (len(row).to_bytes(4), row, _MUTATION, len(value).to_bytes(4), value)
        for row, value in versions
    ]
    head = b"\x80\1\0\1%b%b\0\0\0\0" % (len(PUTS).to_bytes(4), PUTS.encode())
    given = b"\x0b\0\1%b%b\x0f\0\2\x0c%b" % (
        len(table).to_bytes(4),
        table,
        len(puts).to_bytes(4),
    )
    behind = b"\x0a\0\3%b\x0d\0\4\x0b\x0b\0\0\0\0\0" % ts.to_bytes(8)
    return PUTS, b"".join([head, given, *puts, behind])


_MUTATION = b"\x0f\0\2\x0c\0\0\0\1\x02\0\1\0\x0b\0\2%b%b\x0b\0\3" % (
    len(COLUMN).to_bytes(4),
    COLUMN,
)
"""A list of one mutation, up to its value."""


def call_of(function: str, **arguments: Any) -> Call:
    """A function and an encoded call of it."""
    written = BytesIO()
    Client(written)._send(function, **arguments)
    return function, written.getvalue()
