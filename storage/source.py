"""Where a database's rows lie, told to processes that read them beside its nodes.

Whoever reads so sees all rows of all relations: what API keys may read does not count here.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from storage.ports import TableStore
from storage.rocks.store import RocksStore


class HBaseSource(msgspec.Struct, frozen=True, tag="hbase"):
    """Tables in HBase's namespace `namespace`, through Thrift 2 gateways (host:port)."""

    gateways: tuple[str, ...]
    namespace: str


class CheckpointSource(msgspec.Struct, frozen=True, tag="checkpoint"):
    """A checkpoint of an embedded store, in a folder of this machine."""

    folder: str


Source = HBaseSource | CheckpointSource


def open_source(source: Source) -> TableStore:
    """For reading, from within an event loop. Raises Unavailable, Corruption."""
    if isinstance(source, CheckpointSource):
        return RocksStore.open_checkpoint(Path(source.folder))
    from storage.hbase.store import HBaseStore

    addresses = [gateway.rpartition(":") for gateway in source.gateways]
    return HBaseStore(
        [(host, int(port)) for host, _, port in addresses], namespace=source.namespace
    )
