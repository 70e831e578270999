"""The adapters that a database runs on, chosen by the settings.

Embedded: RocksDB, log and coordination in one folder. On a cluster: HBase through its Thrift
gateways, the log on HDFS, coordination by ZooKeeper.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

import structlog

from hornbeam_server.node.settings import Settings, read_gateways
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
    open_hbase,
)
from hornbeam_server.storage.tcp.peers import TcpPeers, Tls
from hornbeam_server.storage.tracing import Tracer
from hornbeam_server.txlayer.commit.failpoints import Steps, no_steps

_LOG = structlog.get_logger(__name__)
COORDINATION = "coordination"
"""Name of the folder, inside that of an embedded database, for the lock of the process that has the
database open, and for what it agrees upon with its successors."""
EXPORTS = "exports"
"""Name of the folder, inside that of an embedded database, for checkpoints that external readers
read."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The adapters of one database. Their receiver closes them. `open_log` takes the name of a log,
    an epoch, and the version of the catalog. Only a member among several nodes has `peers` and
    `logs`, which are the logs of all present and former members."""

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
    """Makes the rows in the store readable for external readers, under the name of the export."""
    log_source: LogSource | None = None
    """Where external readers find the logs."""
    log_reader: LogReader | None = None
    """Reads the segments of these logs."""
    tracer: Tracer | None = None
    """Continues the traces of other nodes; None: nothing is traced."""


async def embedded_ports(settings: Settings, clock: Clock | None, ids: Ids | None) -> Ports:
    """Ports of the embedded database in the folder `settings.data`. Raises Unavailable when another
    process has it open, Corruption, InvalidRequest when the folder cannot be created."""
    folder = _data_folder(settings)
    coordination = LocalCoordination.open(folder / COORDINATION)
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
    """Open a session with the cluster's coordination service. Raises Unavailable."""
    from hornbeam_server.storage.zookeeper.coordination import ZookeeperCoordination

    return await ZookeeperCoordination.open(
        settings.zookeeper, f"/{settings.database}", session_s=settings.session_s
    )


def cluster_ports(
    settings: Settings,
    coordination: Coordination,
    tls: Tls | None,
    tracer: Tracer | None = None,
) -> Ports:
    """Ports of the database on the cluster that `settings` name, with `tls` between its nodes.
    Sends nothing yet. Raises InvalidRequest when the folder to spill to cannot be created."""
    from hornbeam_server.storage.hdfs.log import HdfsLog, hdfs_logs

    gateways = read_gateways(settings.gateways)
    rows = HBaseSource(
        tuple(f"{host}:{port}" for host, port in gateways.addresses),
        settings.database,
        gateways.thrift,
        settings.region_server_page_port,
    )
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

    store = open_hbase(rows)
    peers = TcpPeers(
        settings.database,
        bytes.fromhex(settings.node_secret.get_secret_value()),
        host=settings.peer_host,
        port=settings.peer_port,
        address=settings.peer_address,
        tls=tls,
    )
    logs = hdfs_logs(settings.hdfs, folder)

    async def export(_: str) -> Source:
        return rows

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
        tracer=tracer,
    )


_OURS = frozenset({COORDINATION, "store", "log", "spill", EXPORTS})


def _data_folder(settings: Settings) -> Path:
    """Make the folder for the data, with a folder for spilled rows inside, accessible to this user
    only. If it holds other files, or belongs to another user (a mounted volume may), only the
    folders inside it become private. Raises InvalidRequest."""
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
        return True  # the first use of the folder reports the error


def _made(folder: Path) -> Path:
    """Create `folder` if it is missing, and make it accessible to this user only. Raises
    InvalidRequest."""
    try:
        make_private(folder)
    except OSError as error:
        raise InvalidRequest(
            f"The folder {folder} cannot be made: {error.strerror}.",
            cure="Choose another for the data, or make it with the rights it needs.",
        ) from None
    return folder
