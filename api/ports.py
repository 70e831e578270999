"""What a database runs on: the adapters that the settings name.

Embedded: RocksDB, log and coordination in one folder. On a cluster: HBase through its Thrift 2
gateways, the log on HDFS, ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from api.settings import Settings
from query.session import new_threads
from schema.errors import InvalidRequest
from storage.local.coordination import LocalCoordination
from storage.local.log import LocalLog, LocalLogs
from storage.local.system import RandomIds, SystemClock
from storage.ports import Clock, Coordination, Ids, Log, LogReader, Logs, Peers, TableStore
from storage.rocks.store import RocksStore
from storage.source import (
    CheckpointSource,
    HBaseSource,
    HdfsLogSource,
    LocalLogSource,
    LogSource,
    Source,
)
from storage.tcp.peers import TcpPeers, Tls
from txlayer.steps import Steps, no_steps

EXPORTS = "exports"
"""The folder, in that of an embedded database, for checkpoints that others read."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Whoever is given them closes them. `open_log` takes a log's name, an epoch, and the catalog's
    version. `peers` are for a member among others; so is `logs`, all that were ever opened."""

    store: TableStore
    coordination: Coordination
    open_log: Callable[[str, int, int], Awaitable[Log]]
    clock: Clock
    ids: Ids
    new_threads: Callable[[int], Executor] = new_threads
    steps: Steps = no_steps
    peers: Peers | None = None
    logs: Logs | None = None
    export: Callable[[str], Awaitable[Source]] | None = None
    """Makes what is in the store readable beside this process, under a name of that export."""
    log_source: LogSource | None = None
    """Where the logs can be read beside this process."""
    log_reader: LogReader | None = None
    """Reads them there."""


async def embedded_ports(settings: Settings, clock: Clock | None, ids: Ids | None) -> Ports:
    """Of the database in the folder `settings.data`. Raises Unavailable when another process has
    it open, Corruption, InvalidRequest when there can be no such folder."""
    folder = _made(settings.data)
    coordination = LocalCoordination.open(folder / "coordination")
    try:
        store = RocksStore.open(folder / "store")
    except BaseException:
        await coordination.close()
        raise

    async def open_log(name: str, epoch: int, catalog_version: int) -> Log:
        return await LocalLog.open(folder / "log", name, epoch, catalog_version=catalog_version)

    async def export(name: str) -> Source:
        checkpoint = _made(folder / EXPORTS) / name
        await store.checkpoint(checkpoint)
        return CheckpointSource(str(checkpoint.resolve()))

    return Ports(
        store,
        coordination,
        open_log,
        clock or SystemClock(),
        ids or RandomIds(),
        export=export,
        log_source=LocalLogSource(str((folder / "log").resolve())),
        log_reader=LocalLogs(folder / "log"),
    )


async def session(settings: Settings) -> Coordination:
    """A session with the cluster's coordination service. Raises Unavailable."""
    from storage.zookeeper.coordination import ZookeeperCoordination

    return await ZookeeperCoordination.open(
        settings.zookeeper, f"/{settings.database}", session_s=settings.session_s
    )


def cluster_ports(settings: Settings, coordination: Coordination, tls: Tls | None) -> Ports:
    """Of the database on the cluster that `settings` name, with `tls` among its nodes; nothing is
    sent yet. Raises InvalidRequest when there can be no folder to spill to."""
    from storage.hbase.store import HBaseStore
    from storage.hdfs.log import HdfsLog, hdfs_logs

    gateways = [_host_and_port(gateway) for gateway in settings.gateways.split(",")]
    _made(settings.data)
    folder = f"/{settings.database}/log"

    async def open_log(name: str, epoch: int, catalog_version: int) -> Log:
        return await HdfsLog.open(
            settings.hdfs,
            folder,
            name,
            epoch,
            catalog_version=catalog_version,
        )

    store = HBaseStore(gateways, namespace=settings.database)
    peers = TcpPeers(
        settings.database,
        bytes.fromhex(settings.node_secret.get_secret_value()),
        host=settings.peer_host,
        port=settings.peer_port,
        address=settings.peer_address,
        tls=tls,
    )
    logs = hdfs_logs(settings.hdfs, folder)
    reachable = tuple(f"{host}:{port}" for host, port in gateways)

    async def export(_: str) -> Source:
        return HBaseSource(reachable, settings.database)

    return Ports(
        store,
        coordination,
        open_log,
        SystemClock(),
        RandomIds(),
        peers=peers,
        logs=logs,
        export=export,
        log_source=HdfsLogSource(settings.hdfs, folder),
        log_reader=logs,
    )


def _host_and_port(text: str) -> tuple[str, int]:
    host, _, port = text.strip().rpartition(":")
    if not host or not port.isdigit():
        raise InvalidRequest(f"{text!r} in gateways is not host:port.", cure="As 127.0.0.1:9091.")
    return host, int(port)


def _made(folder: Path) -> Path:
    """`folder`, made if it was not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidRequest(
            f"The folder {folder} cannot be made: {error.strerror}.",
            cure="Choose another for the data, or make it with the rights it needs.",
        ) from None
    return folder
