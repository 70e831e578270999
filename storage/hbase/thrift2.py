"""Thrift 2 gateways, for the parts that both HBase adapters share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hornbeam_server.storage.hbase import names, ranges, tables
from hornbeam_server.storage.hbase.interface import THRIFT
from hornbeam_server.storage.hbase.kinds import META_COLUMNS, Call, MetaRow
from hornbeam_server.storage.hbase.messages import (
    Client,
    answer_to,
    call_of_gets,
    call_of_puts,
    call_of_scan,
)
from hornbeam_server.storage.ports import Cell

_META_ROWS = 500


class Thrift2:
    """As `Kind` says."""

    number = THRIFT.TThriftServerType.TWO
    start = "bin/hbase thrift2 start -p 9091"
    refusals: tuple[type[Exception], ...] = (THRIFT.TIOError,)
    ranges_per_call = 200

    def client(self, stream: Any) -> Any:
        return Client(stream)

    def answer_to(self, name: str, data: bytes) -> Any:
        return answer_to(name, data)

    def name(self, namespace: str, table: str) -> Any:
        return THRIFT.TTableName(ns=namespace.encode(), qualifier=names.encode(table))

    def difference(self, client: Any, name: Any) -> str:
        return tables.difference(client.getTableDescriptor(name))

    def calls_of_puts(
        self, table: bytes, versions: Sequence[tuple[bytes, bytes, int]], *, forced: bool
    ) -> list[Call]:
        return [call_of_puts(table, versions, forced=forced)]

    def call_of_gets(self, table: bytes, rows: Sequence[bytes], behind: int) -> Call:
        return call_of_gets(table, rows, behind)

    def in_order(self, rows: Sequence[bytes], found: list[Any]) -> list[Cell | None]:
        return found

    def scan(self, parts: Sequence[ranges.Range], rows: int, at: int) -> Any:
        return ranges.scan(parts, rows, timeRange=ranges.time_range(0, at))

    def reverse_scan(self, whole: ranges.Range, rows: int, at: int) -> Any:
        return ranges.reverse_scan(whole, rows, timeRange=ranges.time_range(0, at))

    def call_of_scan(self, table: bytes, scan: Any, count: int) -> Call:
        return call_of_scan(table, scan, count)

    def meta_rows(self, client: Any, start: bytes, stop: bytes) -> list[MetaRow]:
        columns = [THRIFT.TColumn(family=b"info", qualifier=name) for name in META_COLUMNS]
        scan = THRIFT.TScan(startRow=start, stopRow=stop, columns=columns, caching=_META_ROWS)
        scanner = client.openScanner(b"hbase:meta", scan)
        found: list[MetaRow] = []
        try:
            while rows := client.getScannerRows(scanner, _META_ROWS):
                found += [(r.row, {c.qualifier: c.value for c in r.columnValues}) for r in rows]
        finally:
            client.closeScanner(scanner)
        return found


THRIFT_2 = Thrift2()
