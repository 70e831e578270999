"""What a database runs on: the adapters that the settings name.

Embedded: RocksDB, log and coordination in one folder. On a cluster: HBase through its Thrift 2
gateways, the log on HDFS, ZooKeeper.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

import structlog

from hornbeam_server.api.settings import Settings
from hornbeam_server.query.workers.control import Options
from hornbeam_server.query.workers.pool import new_threads
from hornbeam_server.query.workers.processes import Worker, fork_worker
from hornbeam_server.schema.errors import InvalidRequest
from hornbeam_server.storage.local.coordination import LocalCoordination
from hornbeam_server.storage.local.log import LocalLog, LocalLogs
from hornbeam_server.storage.local.private import make_private
from hornbeam_server.storage.local.system import RandomIds, SystemClock
from hornbeam_server.storage.ports import (
    Clock,
    Coordination,
    Ids,
    Log,
    LogReader,
    Logs,
    Peers,
    TableStore,
)
from hornbeam_server.storage.rocks.store import RocksStore
from hornbeam_server.storage.source import (
    CheckpointSource,
    HBaseSource,
    HdfsLogSource,
    LocalLogSource,
    LogSource,
    Source,
)
from hornbeam_server.storage.tcp.peers import TcpPeers, Tls
from hornbeam_server.txlayer.steps import Steps, no_steps

_LOG = structlog.get_logger(__name__)
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
    new_worker: Callable[[Options], Awaitable[Worker]] = fork_worker
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
    folder = _data_folder(settings)
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
    from hornbeam_server.storage.zookeeper.coordination import ZookeeperCoordination

    return await ZookeeperCoordination.open(
        settings.zookeeper, f"/{settings.database}", session_s=settings.session_s
    )


def cluster_ports(settings: Settings, coordination: Coordination, tls: Tls | None) -> Ports:
    """Of the database on the cluster that `settings` name, with `tls` among its nodes; nothing is
    sent yet. Raises InvalidRequest when there can be no folder to spill to."""
    from hornbeam_server.storage.hbase.store import HBaseStore
    from hornbeam_server.storage.hdfs.log import HdfsLog, hdfs_logs

    gateways = [_host_and_port(gateway) for gateway in settings.gateways.split(",")]
    _data_folder(settings)
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


_OURS = frozenset({"coordination", "store", "log", "spill", EXPORTS})


def _data_folder(settings: Settings) -> Path:
    """The folder for the data, with one for spilled queries, for this user only. If other things
    are in it, or it is another user's (as a volume that is mounted may be), only the folders
    inside of it are closed to others. Raises InvalidRequest."""
    folder = settings.data
    if folder.is_dir() and not _is_ours(folder):
        _LOG.info("only the folders in it are for this user only", folder=str(folder))
    else:
        _made(folder)
    _made(folder / "spill")
    return folder


def _is_ours(folder: Path) -> bool:
    try:
        names = {path.name for path in folder.iterdir()}
        return names <= _OURS and folder.stat().st_uid == os.geteuid()
    except OSError:
        return True  # it is said when it is used


def _made(folder: Path) -> Path:
    """`folder`, made if it was not there, and for this user only."""
    try:
        make_private(folder)
    except OSError as error:
        raise InvalidRequest(
            f"The folder {folder} cannot be made: {error.strerror}.",
            cure="Choose another for the data, or make it with the rights it needs.",
        ) from None
    return folder
