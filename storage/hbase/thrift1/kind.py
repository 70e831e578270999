"""Thrift 1 gateways, for the parts that both HBase adapters share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hornbeam_server.storage.hbase import names
from hornbeam_server.storage.hbase.kinds import META_COLUMNS, Call, MetaRow
from hornbeam_server.storage.hbase.ranges import Range, after_timestamp, bounds_backwards
from hornbeam_server.storage.hbase.thrift1 import messages, tables
from hornbeam_server.storage.hbase.thrift1.interface import THRIFT
from hornbeam_server.storage.hbase.thrift1.messages import COLUMN, Client
from hornbeam_server.storage.ports import Cell

_META, _META_ROWS = b"hbase:meta", 500


class Thrift1:
    """As `Kind` says. A `name` is namespace:table."""

    number = THRIFT.TThriftServerType.ONE
    start = "bin/hbase thrift start -p 9090"
    refusals: tuple[type[Exception], ...] = (
        THRIFT.IOError,
        THRIFT.IllegalArgument,
        THRIFT.AlreadyExists,
    )
    ranges_per_call = 8

    def client(self, stream: Any) -> Any:
        return Client(stream)

    def answer_to(self, name: str, data: bytes) -> Any:
        return messages.answer_to(name, data)

    def name(self, namespace: str, table: str) -> Any:
        return namespace.encode() + b":" + names.encode(table)

    def difference(self, client: Any, name: Any) -> str:
        return tables.difference(client.getColumnDescriptors(name))

    def calls_of_puts(
        self, table: bytes, versions: Sequence[tuple[bytes, bytes, int]], *, forced: bool
    ) -> list[Call]:
        """A call has one timestamp. It cannot ask for a forced log (`promises`)."""
        del forced
        by_time: dict[int, list[tuple[bytes, bytes]]] = {}
        for row, value, ts in versions:
            by_time.setdefault(ts, []).append((row, value))
        return [messages.call_of_puts(table, puts, ts) for ts, puts in by_time.items()]

    def call_of_gets(self, table: bytes, rows: Sequence[bytes], behind: int) -> Call:
        return messages.call_of_gets(table, rows, behind)

    def in_order(self, rows: Sequence[bytes], found: list[Any]) -> list[Cell | None]:
        by_row = {cell.key: cell for cell in found}
        return [by_row.get(row) for row in rows]

    def scan(self, parts: Sequence[Range], rows: int, at: int) -> Any:
        return [scan_of(part, rows, at) for part in parts]

    def reverse_scan(self, whole: Range, rows: int, at: int) -> Any:
        first, stop = bounds_backwards(whole)
        return [scan_of(Range(first, stop), rows + 1, at, reversed=True)]

    def call_of_scan(self, table: bytes, scan: Any, count: int) -> None:
        return None

    def meta_rows(self, client: Any, start: bytes, stop: bytes) -> list[MetaRow]:
        columns = {b"info:" + name: name for name in META_COLUMNS}
        found: list[MetaRow] = []
        while True:
            wanted = THRIFT.TScan(
                startRow=start, stopRow=stop, columns=list(columns), caching=_META_ROWS
            )
            (rows,) = client.scanned_rows(_META, [wanted], _META_ROWS)
            found += [
                (row.row, {columns[name]: cell.value for name, cell in row.columns.items()})
                for row in rows
            ]
            if len(rows) < _META_ROWS:
                return found
            start = rows[-1].row + b"\0"


def scan_of(part: Range, rows: int, at: int, **options: Any) -> Any:
    """A scan of `part` as of `at`, that reads `rows` rows at one time. Its range is from a first
    key, included, to a last key, excluded; empty is no bound."""
    return THRIFT.TScan(
        startRow=part.start,
        stopRow=part.end,
        timestamp=after_timestamp(at),
        columns=[COLUMN],
        caching=rows,
        **options,
    )


THRIFT_1 = Thrift1()
