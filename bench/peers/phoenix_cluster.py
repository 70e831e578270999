"""The cluster of all systems over HBase. It has Phoenix's jars and settings, and Omid's oracle,
which gives Phoenix's transactions their timestamps and finds their conflicts.

HBase has the settings of Phoenix's manual. Secondary Indexing: the codec of the write-ahead log;
separate handlers for index updates and metadata, which would otherwise wait for each other. Tuning
Guide: a server keeps the rows that a join has sent for as long as the join takes. The settings do
not affect clients that do not use Phoenix. Omid has the settings of its manual (timestamps and
commits in HBase), except for a smaller conflict map: 1 M rows in 16 MB instead of 100 M rows in
1.6 GB.

The oracle's process has the cluster's mark, so stopping the cluster stops the oracle first.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from hornbeam_server.cluster import Cluster, artefacts, processes
from hornbeam_server.cluster.configuration import java_flags
from hornbeam_server.cluster.control import OnChange
from hornbeam_server.cluster.layout import HOST, Address
from hornbeam_server.cluster.ports import free_ports
from hornbeam_server.cluster.processes import Mark
from hornbeam_server.schema.errors import Unavailable

_HERE = Path(__file__).parent
PHOENIX_POM = _HERE / "pom.xml"
OMID_POM = _HERE / "omid" / "pom.xml"
PHOENIX_VERSIONS = MappingProxyType({"hbase": "2.6.1", "phoenix": "5.2.1", "omid": "1.1.2"})
_ORACLE = "omid-oracle"
_TIMEOUT_S = 60.0
_POLL_S = 0.2

_IPC = "org.apache.hadoop.hbase.ipc"
HBASE_SETTINGS = MappingProxyType(
    {
        "hbase.regionserver.wal.codec": (
            "org.apache.hadoop.hbase.regionserver.wal.IndexedWALEditCodec"
        ),
        "hbase.region.server.rpc.scheduler.factory.class": f"{_IPC}.PhoenixRpcSchedulerFactory",
        "hbase.rpc.controllerfactory.class": f"{_IPC}.controller.ServerRpcControllerFactory",
        "phoenix.transactions.enabled": "true",
        "phoenix.coprocessor.maxServerCacheTimeToLiveMs": "600000",
    }
)

_SERVER = """\
networkIfaceName: lo
port: {port}
conflictMapSize: 1000000
timestampStoreModule: !!org.apache.omid.timestamp.storage.DefaultHBaseTimestampStorageModule [ ]
commitTableStoreModule: !!org.apache.omid.committable.hbase.DefaultHBaseCommitTableStorageModule [ ]
"""
_CLIENT = """\
omidClientConfiguration: !!org.apache.omid.tso.client.OmidClientConfiguration
  connectionString: "{address}"
"""
_LOG4J = """\
log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.FileAppender
log4j.appender.out.file={folder}/logs/phoenix.log
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{{ISO8601}} %-5p [%t] %c{{2}}: %m%n
"""


@dataclass(frozen=True, slots=True)
class PhoenixCluster:
    """A cluster with Omid's oracle. `class_path` is the class path of Phoenix's clients: their
    settings, and the cluster's jars."""

    cluster: Cluster
    oracle: Address
    class_path: tuple[str, ...]


@contextlib.contextmanager
def phoenix_cluster(
    folder: Path, *, region_heap_mb: int, on_change: OnChange = lambda name, state: None
) -> Iterator[PhoenixCluster]:
    """Start the cluster in `folder`, which is created if missing. Stops it at the end. Raises
    Unavailable."""
    jars, oracle_jars = artefacts.resolve(PHOENIX_POM), artefacts.resolve(OMID_POM)
    with Cluster.start(
        folder,
        region_options=[f"-Xmx{region_heap_mb}m"],
        pom=PHOENIX_POM,
        hbase=HBASE_SETTINGS,
        on_change=on_change,
    ) as cluster:
        address = Address(HOST, free_ports(1)[0])
        on_change(_ORACLE, "starting")
        _start_oracle(cluster, oracle_jars, address)
        on_change(_ORACLE, "healthy")
        settings = _write(
            cluster.folder / "phoenix",
            {
                "hbase-omid-client-config.yml": _CLIENT.format(address=address),
                "log4j.properties": _LOG4J.format(folder=cluster.folder),
            },
        )
        site = cluster.folder / "conf"
        yield PhoenixCluster(cluster, address, (str(settings), str(site), f"{jars}/*"))


def _start_oracle(cluster: Cluster, jars: Path, address: Address) -> None:
    settings = _write(
        cluster.folder / "omid",
        {"omid-server-configuration.yml": _SERVER.format(port=address.port)},
    )
    mark = Mark(cluster.folder, _ORACLE)
    java = [
        str(artefacts.java()),
        *mark.arguments,
        "-Xmx384m",
        "-XX:+UseSerialGC",
        *java_flags(),
        *("-cp", f"{settings}:{cluster.folder / 'conf'}:{jars}/*"),
    ]
    log = cluster.log(_ORACLE)
    for table in (("commit-table", "-numRegions", "1"), ("timestamp-table",)):
        _run([*java, "org.apache.omid.tools.hbase.OmidTableManager", *table], log)
    processes.spawn(mark, [*java, "org.apache.omid.tso.TSOServer"], log)
    _await(cluster, address, log)


def _run(command: list[str], log: Path) -> None:
    """Create a table of Omid if it is missing. Raises Unavailable."""
    with log.open("ab") as output:
        done = subprocess.run(
            command, stdout=output, stderr=output, timeout=_TIMEOUT_S, check=False
        )
    if done.returncode:
        raise Unavailable(f"Omid's tables could not be created; see {log}.")


def _await(cluster: Cluster, address: Address, log: Path) -> None:
    give_up = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < give_up and _ORACLE in processes.running(cluster.folder):
        with contextlib.suppress(OSError):
            socket.create_connection(address, 1.0).close()
            return
        time.sleep(_POLL_S)
    raise Unavailable(f"Omid's oracle does not answer on {address}; see {log}.")


def _write(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder
