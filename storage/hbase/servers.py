"""Which region server serves which region, as HBase's own table `hbase:meta` says."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from hornbeam_server.storage.hbase.interface import THRIFT

_COLUMNS = [
    THRIFT.TColumn(family=b"info", qualifier=qualifier)
    for qualifier in (b"server", b"serverstartcode", b"state")
]
_SERVED = b"OPEN"
_CLOSED = frozenset({b"CLOSED", b"OFFLINE", b"SPLIT", b"MERGED"})
"""States in which all puts into a region are in its files."""
_BATCH = 500


class Region(NamedTuple):
    """A region of a table. `first` is a row key in it. `server` names the server's process, not
    only its address; None while the region moves."""

    table: bytes
    first: bytes
    server: bytes | None


def regions(client: Any, namespace: str, tables: Collection[bytes]) -> list[Region]:
    """All regions of `tables` (full names) that are served or about to be, in order."""
    # `:` and `;` are neighbours: the tables of the namespace, and nothing else.
    bounds = {"startRow": f"{namespace}:".encode(), "stopRow": f"{namespace};".encode()}
    scanner = client.openScanner(
        b"hbase:meta", THRIFT.TScan(columns=_COLUMNS, caching=_BATCH, **bounds)
    )
    found: list[Region] = []
    try:
        while rows := client.getScannerRows(scanner, _BATCH):
            found += [region for row in rows if (region := _region(row, tables)) is not None]
    finally:
        client.closeScanner(scanner)
    return found


def _region(row: Any, tables: Collection[bytes]) -> Region | None:
    """The region of a row of `hbase:meta`; None for other rows and for closed regions. A region's
    row is named `table,first key,number`, and a first key may contain commas. The table itself
    has a row, too."""
    table, _, rest = row.row.partition(b",")
    if table not in tables or not rest:
        return None
    info = {column.qualifier: column.value for column in row.columnValues}
    if info.get(b"state") in _CLOSED:
        return None
    served = info.get(b"state") == _SERVED and b"server" in info
    server = info[b"server"] + b"," + info[b"serverstartcode"] if served else None
    return Region(table, rest.rpartition(b",")[0] or b"\0", server)
