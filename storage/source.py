"""Locations of a database's rows and logs, for other processes than its nodes.

Such a process reads all rows of all relations: the grants of API keys do not apply.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from hornbeam_server.storage.local.log import LocalLogs
from hornbeam_server.storage.ports import LogReader, TableStore
from hornbeam_server.storage.rocks.store import RocksStore


class HBaseSource(msgspec.Struct, frozen=True, tag="hbase"):
    """Tables in HBase's namespace `namespace`, through gateways (host:port) of Thrift `thrift`.
    Over Thrift 1, a process that writes reads HBase's settings at `region_server_page_port`; 0: it
    does not."""

    gateways: tuple[str, ...]
    namespace: str
    thrift: int = 2
    region_server_page_port: int = 0


class CheckpointSource(msgspec.Struct, frozen=True, tag="checkpoint"):
    """A checkpoint of an embedded store, in a folder of this machine."""

    folder: str


Source = HBaseSource | CheckpointSource


def open_source(source: Source) -> TableStore:
    """Open the rows at `source` for reading, from within an event loop. Raises Unavailable,
    Corruption."""
    if isinstance(source, CheckpointSource):
        return RocksStore.open_checkpoint(Path(source.folder))
    return open_hbase(source)


def open_hbase(source: HBaseSource) -> TableStore:
    """The store in HBase for reading and writing, from within an event loop. Sends nothing yet."""
    named = [gateway.rpartition(":") for gateway in source.gateways]
    addresses = [(host, int(port)) for host, _, port in named]
    if source.thrift == 1:
        from hornbeam_server.storage.hbase.thrift1.store import HBaseThrift1Store

        return HBaseThrift1Store(
            addresses, namespace=source.namespace, page_port=source.region_server_page_port
        )
    from hornbeam_server.storage.hbase.store import HBaseStore

    return HBaseStore(addresses, namespace=source.namespace)


class LocalLogSource(msgspec.Struct, frozen=True, tag="local"):
    """Logs in a folder of this machine, each in a folder of its own."""

    folder: str


class HdfsLogSource(msgspec.Struct, frozen=True, tag="hdfs"):
    """Logs in a folder of the HDFS at `url`. If `url` names a name service, the reader needs its
    `settings`, or HADOOP_CONF_DIR, as nodes do."""

    url: str
    folder: str
    settings: dict[str, str] = {}


LogSource = LocalLogSource | HdfsLogSource


def open_logs(source: LogSource) -> LogReader:
    """Open the logs at `source` for reading, from within an event loop. Raises InvalidRequest."""
    if isinstance(source, LocalLogSource):
        return LocalLogs(Path(source.folder))
    from hornbeam_server.storage.hdfs.log import hdfs_logs

    return hdfs_logs(source.url, source.folder, settings=source.settings)
