"""A real HBase for tests: its own cluster on free ports, which ends with the tests.

A guard process holds the other end of a pipe. When the pipe closes, because the tests end or their
process is killed, the guard kills the cluster by the marks of its processes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from hornbeam_server.cluster import Cluster
from hornbeam_server.cluster.configuration import NO_SETTINGS, QUICK_COMPILER, Settings
from hornbeam_server.cluster.control import stop

_STOP_S = 120
HBASE_VARIABLE, HADOOP_VARIABLE = "CLUSTER_HBASE", "CLUSTER_HADOOP"

PATIENT: Settings = {
    "zookeeper.session.timeout": 60_000,
    "zookeeper.recovery.retry": 30,
    "dfs.client.socket-timeout": 60_000,
}
"""HBase's servers end themselves when ZooKeeper or the disk is unavailable for long. In the shared
cluster they outlast a ZooKeeper that a test kills or freezes, and a busy disk."""


FOR_THRIFT_1: Settings = {
    "hbase.wal.hsync": "true",
    "hbase.hstore.time.to.purge.deletes": 24 * 3_600_000,
}
"""What the store needs of region servers when its gateways are of Thrift 1. It costs the shared
cluster little: its disks are in memory."""


@contextlib.contextmanager
def guarded_cluster(
    folder: Path,
    *,
    region_servers: int = 1,
    data_nodes: int = 1,
    gateways: int = 1,
    hbase: Settings = NO_SETTINGS,
) -> Iterator[Cluster]:
    """Run a cluster in `folder`; afterwards its logs remain there. CLUSTER_HBASE and CLUSTER_HADOOP
    are its versions, if they are set."""
    guard = subprocess.Popen(
        [sys.executable, __file__, str(folder)], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        yield Cluster.start(
            folder,
            region_servers=region_servers,
            data_nodes=data_nodes,
            gateways=gateways,
            hbase_version=os.environ.get(HBASE_VARIABLE),
            hadoop_version=os.environ.get(HADOOP_VARIABLE),
            java_options=[QUICK_COMPILER],
            hbase=hbase,
        )
    finally:
        guard.communicate(timeout=_STOP_S)
        if (folder / "data").exists():
            shutil.rmtree(folder / "data")


def main() -> None:
    sys.stdin.read()
    stop(Path(sys.argv[1]), at_once=True)


if __name__ == "__main__":
    main()
