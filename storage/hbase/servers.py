"""Which region server serves which region, as HBase's own table `hbase:meta` says."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import NamedTuple

from hornbeam_server.schema.errors import Corruption
from hornbeam_server.storage.hbase.calls import ATTEMPT, Calls
from hornbeam_server.storage.hbase.cells import key_of
from hornbeam_server.storage.hbase.kinds import MetaRow

_SERVED = b"OPEN"
_CLOSED = frozenset({b"CLOSED", b"OFFLINE", b"SPLIT", b"MERGED"})
"""States in which all puts into a region are in its files."""


class Region(NamedTuple):
    """A region of a table. `first` is a row key in it. `server` names the server's process, not
    only its address: host:port, a comma, its start code in 8 bytes. None while the region moves."""

    table: bytes
    first: bytes
    server: bytes | None


async def regions(calls: Calls, tables: Collection[str] | None = None) -> list[Region]:
    """All regions of `tables` (None: of all tables of the namespace) that are served or about to
    be, in order."""
    # `:` and `;` are neighbours: the tables of the namespace, and nothing else.
    start, stop = f"{calls.namespace}:".encode(), f"{calls.namespace};".encode()
    rows: Sequence[MetaRow] = await calls.in_thread(
        partial(
            calls.repeat,
            "The list of regions",
            lambda client: calls.kind.meta_rows(client, start, stop),
            calls.timeout_s,
            calls.timeout_s * ATTEMPT,
        )
    )
    wanted = None if tables is None else {calls.full_name(table) for table in tables}
    return [region for row in rows if (region := _region(*row, wanted)) is not None]


async def splits(calls: Calls, table: str) -> list[bytes]:
    """The first keys of the table's regions, without that of the first region. Raises Corruption
    if there is no such table."""
    found = await regions(calls, {table})
    if not found:
        raise Corruption(f"Table {table} does not exist in the store.")
    return sorted(key for region in found if (key := key_of(region.first)))


def _region(
    key: bytes, info: dict[bytes, bytes], tables: Collection[bytes] | None
) -> Region | None:
    """The region of a row of `hbase:meta`; None for rows of other tables and for closed regions. A
    region's row is named `table,first key,number`, and a first key may contain commas. The table
    itself has a row, too."""
    table, _, rest = key.partition(b",")
    wanted = tables is None or table in tables
    if not wanted or not rest or info.get(b"state") in _CLOSED:
        return None
    served = info.get(b"state") == _SERVED and b"server" in info
    server = info[b"server"] + b"," + info[b"serverstartcode"] if served else None
    return Region(table, rest.rpartition(b",")[0] or b"\0", server)
