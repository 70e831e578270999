"""Hadoop's and HBase's settings, and the command line of each process. Pure.

One folder of settings serves all processes and all clients of the cluster. Settings that differ
between two processes of a role (ports, folders) are on their command lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from xml.sax.saxutils import escape

from hornbeam_server.cluster.layout import HOST, Layout, Process, Role

Settings = Mapping[str, str | int]
NO_SETTINGS: Settings = MappingProxyType({})

ZOOKEEPER_SESSION_MS = 10_000
"""After so long a silence of a region server, its regions are given to other servers."""
ZOOKEEPER_TICK_MS = 1_000
"""Sessions end up to a tick late; the shortest session is two ticks."""
_ZOOKEEPER_LONGEST_SESSION_MS = 120_000
"""The maximum that a client may ask for. HBase asks for `zookeeper.session.timeout`."""

_HEAP_MB = {
    Role.ZOOKEEPER: 128,
    Role.NAME_NODE: 256,
    Role.DATA_NODE: 256,
    Role.MASTER: 384,
    Role.REGION_SERVER: 1024,
    Role.THRIFT: 320,
    Role.THRIFT1: 320,
}

_MAIN_CLASS = {
    Role.ZOOKEEPER: "org.apache.zookeeper.server.ZooKeeperServerMain",
    Role.NAME_NODE: "org.apache.hadoop.hdfs.server.namenode.NameNode",
    Role.DATA_NODE: "org.apache.hadoop.hdfs.server.datanode.DataNode",
    Role.MASTER: "org.apache.hadoop.hbase.master.HMaster",
    Role.REGION_SERVER: "org.apache.hadoop.hbase.regionserver.HRegionServer",
    Role.THRIFT: "org.apache.hadoop.hbase.thrift2.ThriftServer",
    Role.THRIFT1: "org.apache.hadoop.hbase.thrift.ThriftServer",
}

QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
"""Halves the processor time until a process is up, and makes its code slower from then on."""

_ZOOKEEPER_FILE = "zoo.cfg"

_SELDOM_ASKED = frozenset({Role.ZOOKEEPER, Role.NAME_NODE, Role.MASTER})
"""Roles that take no part in a read or a write: the quick compiler is enough."""

_OPENED = (
    *("java.lang", "java.lang.reflect", "java.util", "java.util.concurrent", "java.nio"),
    *("sun.nio.ch", "java.net", "jdk.internal.ref"),
)
"""Packages of java.base that Hadoop and HBase reach into by reflection."""

_LOG4J = """\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.target=System.out
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %-5p [%t] %c{2}: %m%n
log4j.logger.org.apache.hadoop.hdfs.server.namenode.FSNamesystem.audit=WARN
log4j.logger.org.apache.hadoop.hbase.http.requests=WARN
"""


def files(folder: Path, layout: Layout, hbase: Settings = NO_SETTINGS) -> dict[str, str]:
    """All files in the folder of settings, by path. `hbase` adds to the settings of HBase and
    overrides them."""
    return {
        "core-site.xml": _xml(_core(folder, layout)),
        "hdfs-site.xml": _xml(_hdfs(folder, layout)),
        "hbase-site.xml": _xml({**_hbase(folder, layout), **hbase}),
        _ZOOKEEPER_FILE: _zookeeper(folder, layout),
        "log4j.properties": _LOG4J,
        # The NameNode and DataNodes refuse to start when these are not on the class path.
        "webapps/hdfs/.keep": "",
        "webapps/datanode/.keep": "",
    }


def name_folder(folder: Path) -> Path:
    """The folder of the NameNode's image and journal."""
    return folder / "data" / "name"


def hdfs_url(layout: Layout) -> str:
    return f"hdfs://{layout.only(Role.NAME_NODE).address}"


def _zookeeper(folder: Path, layout: Layout) -> str:
    address = layout.only(Role.ZOOKEEPER).address
    settings: Settings = {
        "dataDir": f"{folder}/data/zookeeper",
        "clientPort": address.port,
        "clientPortAddress": address.host,
        "tickTime": ZOOKEEPER_TICK_MS,
        "maxSessionTimeout": _ZOOKEEPER_LONGEST_SESSION_MS,
        "maxClientCnxns": 0,
        "admin.enableServer": "false",
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _core(folder: Path, layout: Layout) -> Settings:
    return {
        "fs.defaultFS": hdfs_url(layout),
        "hadoop.tmp.dir": f"{folder}/data/tmp",
        "ipc.client.connect.timeout": 3_000,
        "ipc.client.connect.max.retries.on.timeouts": 2,
    }


def _hdfs(folder: Path, layout: Layout) -> Settings:
    return {
        "dfs.replication": layout.replication,
        "dfs.namenode.name.dir": name_folder(folder).as_uri(),
        "dfs.namenode.rpc-bind-host": HOST,
        "dfs.namenode.http-address": str(layout.only(Role.NAME_NODE).http),
        "dfs.datanode.hostname": HOST,
        "dfs.permissions.enabled": "false",
        # A silent DataNode is avoided after 5 s (30 by default) and dead after 30 s (630).
        "dfs.heartbeat.interval": 1,
        "dfs.namenode.heartbeat.recheck-interval": 10_000,
        "dfs.namenode.stale.datanode.interval": 5_000,
        "dfs.namenode.avoid.read.stale.datanode": "true",
        "dfs.namenode.avoid.write.stale.datanode": "true",
        "dfs.namenode.safemode.extension": 0,
        # HBase closes its files and logs without a sync to disk (decision 18).
        "dfs.datanode.synconclose": "true",
        # With three DataNodes or fewer, no other one can replace a dead one in a pipeline.
        "dfs.client.block.write.replace-datanode-on-failure.policy": "NEVER",
        # HBase's reference guide, "Having Proper MTTR": time-outs of HDFS below those of HBase.
        "dfs.client.socket-timeout": 10_000,
        "dfs.datanode.socket.write.timeout": 10_000,
    }


def _hbase(folder: Path, layout: Layout) -> Settings:
    zookeeper = layout.only(Role.ZOOKEEPER).address
    return {
        "hbase.cluster.distributed": "true",
        "hbase.rootdir": f"{hdfs_url(layout)}/hbase",
        "hbase.tmp.dir": f"{folder}/data/tmp",
        # The environment may hold secrets, which must not be logged.
        "hbase.envvars.logging.disabled": "true",
        # HBase must not start on a file system without hflush and hsync.
        "hbase.unsafe.stream.capability.enforce": "true",
        # The same server twice. ZooKeeper 3.8 forgets a client that connects in the first
        # milliseconds of its start: the connection stays open and silent. A client waits for the
        # session time-out divided by the number of servers that it knows. With one server the
        # session would be over by then.
        "hbase.zookeeper.quorum": f"{zookeeper.host},{zookeeper.host}",
        "hbase.zookeeper.property.clientPort": zookeeper.port,
        "zookeeper.session.timeout": ZOOKEEPER_SESSION_MS,
        "hbase.master.hostname": HOST,
        "hbase.master.ipc.address": HOST,
        "hbase.master.info.bindAddress": HOST,
        "hbase.master.port": layout.only(Role.MASTER).ports["rpc"],
        "hbase.master.info.port": layout.only(Role.MASTER).ports["http"],
        "hbase.unsafe.regionserver.hostname": HOST,
        "hbase.regionserver.ipc.address": HOST,
        "hbase.regionserver.info.bindAddress": HOST,
        "hbase.regionserver.thrift.ipaddress": HOST,
        "hbase.thrift.info.bindAddress": HOST,
        "hbase.lease.recovery.dfs.timeout": 23_000,
        # By default a gateway repeats for 20 minutes a put that its caller has given up.
        "hbase.client.operation.timeout": 60_000,
        "hbase.client.meta.operation.timeout": 60_000,
        # Each region that was written to keeps a chunk of memory, 2 MB by default: a heap of 1 GB
        # would be full with the tables of a dozen small databases. A chunk must hold the largest
        # cell that is kept in one (256 kB).
        "hbase.hregion.memstore.mslab.chunksize": 262_144,
        # The master goes on as soon as all region servers are there; they ask every second.
        "hbase.master.wait.on.regionservers.mintostart": 1,
        "hbase.master.wait.on.regionservers.maxtostart": len(layout.of(Role.REGION_SERVER)),
        "hbase.regionserver.msginterval": 1_000,
    }


def _xml(settings: Settings) -> str:
    lines = "".join(
        f"  <property><name>{name}</name><value>{escape(str(value))}</value></property>\n"
        for name, value in settings.items()
    )
    return f'<?xml version="1.0"?>\n<configuration>\n{lines}</configuration>\n'


def command(
    java: Path, jars: Path, folder: Path, process: Process, options: Sequence[str]
) -> list[str]:
    """The command line of `process`. `options` are for Java: the mark and any others, perhaps
    another heap size."""
    return [
        *_java(java, jars, folder, process.role, options),
        *_arguments(folder, process),
    ]


def format_command(
    java: Path, jars: Path, folder: Path, into: Path, options: Sequence[str]
) -> list[str]:
    """The command line that creates the image of an empty file system in the folder `into`."""
    return [
        *_java(java, jars, folder, Role.NAME_NODE, options),
        *_definitions({"dfs.namenode.name.dir": into.as_uri()}),
        *("-format", "-force", "-nonInteractive"),
    ]


def _java(java: Path, jars: Path, folder: Path, role: Role, options: Sequence[str]) -> list[str]:
    return [
        str(java),
        *options,
        *([] if any(o.startswith("-Xmx") for o in options) else [f"-Xmx{_HEAP_MB[role]}m"]),
        *([] if role is Role.REGION_SERVER else ["-XX:+UseSerialGC"]),
        *([QUICK_COMPILER] if role in _SELDOM_ASKED else []),
        f"-XX:ErrorFile={folder}/logs/java-error-%p.log",
        f"-Djava.io.tmpdir={folder}/data/tmp",
        *java_flags(),
        *("-cp", f"{folder / 'conf'}:{jars}/*"),
        _MAIN_CLASS[role],
    ]


def java_flags() -> list[str]:
    """The options of every Java process that uses Hadoop or HBase."""
    return [
        "-XX:-UsePerfData",
        "-Djava.net.preferIPv4Stack=true",
        "--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED",
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    ]


def _arguments(folder: Path, process: Process) -> list[str]:
    ports = process.ports
    match process.role:
        case Role.ZOOKEEPER:
            return [str(folder / "conf" / _ZOOKEEPER_FILE)]
        case Role.NAME_NODE:
            return []
        case Role.DATA_NODE:
            return [
                *_definitions(
                    {
                        "dfs.datanode.data.dir": (folder / "data" / process.name).as_uri(),
                        "dfs.datanode.address": f"{HOST}:{ports['data']}",
                        "dfs.datanode.http.address": f"{HOST}:{ports['http']}",
                        "dfs.datanode.ipc.address": f"{HOST}:{ports['ipc']}",
                    }
                )
            ]
        case Role.MASTER:
            return ["start"]
        case Role.REGION_SERVER:
            return [
                *_definitions(
                    {
                        "hbase.regionserver.port": ports["rpc"],
                        "hbase.regionserver.info.port": ports["http"],
                    }
                ),
                "start",
            ]
        case Role.THRIFT | Role.THRIFT1:
            return ["start", "-b", HOST, "-p", str(ports["rpc"]), "--infoport", "-1"]


def _definitions(settings: Settings) -> Iterator[str]:
    for name, value in settings.items():
        yield from ("-D", f"{name}={value}")
