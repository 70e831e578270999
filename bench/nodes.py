"""Runs several nodes of Hornbeam (`hornbeam serve`) as processes of this machine, on a cluster."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import structlog
from rich.console import Console

from bench.measure import Figure, run_in_folder
from bench.served import Node, Nodes
from hornbeam_server.cluster import Cluster
from hornbeam_server.cluster.ports import free_ports
from hornbeam_server.schema.errors import Unavailable

STOP_S = 60.0


@dataclass
class NodeProcess(Node):
    """The process of a node. `environment` has the settings of `hornbeam serve`. `program` are the
    arguments of Python."""

    name: str
    port: int
    log: Path
    environment: Mapping[str, str]
    program: Sequence[str] = ("-c", "from hornbeam_server.api.serve import serve; serve()")
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *self.program],
                env=self.environment,
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Shut the node down in an orderly way (SIGTERM)."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(STOP_S)
            self.process = None

    @property
    def running(self) -> bool:
        if self.process is None:
            return False
        if self.process.poll() is not None:
            last = self.log.read_text(errors="replace").splitlines()[-5:]
            raise Unavailable(f"Node {self.name} has ended:\n  " + "\n  ".join(last))
        return True


@dataclass
class NodeProcesses(Nodes[NodeProcess]):
    """`count` nodes of the database `database`. They start and stop together."""

    cluster: Cluster
    folder: Path
    count: int
    database: str = "hornbeam"
    settings: Mapping[str, str] = field(default_factory=dict)
    nodes: list[NodeProcess] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        ports = free_ports(self.count)
        self.nodes = [self._node(number, port) for number, port in enumerate(ports, start=1)]
        try:
            for node in self.nodes:
                node.start()
            self.settled()
            self.leading()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()

    @property
    def logs(self) -> str:
        return str(self.folder)

    def _node(self, number: int, port: int) -> NodeProcess:
        name = f"node{number}"
        given = {
            "store": "hbase",
            "database": self.database,
            "gateways": str(self.cluster.thrift),
            "zookeeper": str(self.cluster.zookeeper),
            "hdfs": self.cluster.hdfs_url,
            "data": str(self.folder / name),
            "port": str(port),
            **self.settings,
        }
        environment = {f"HORNBEAM_{key.upper()}": value for key, value in given.items()}
        return NodeProcess(name, port, self.folder / f"{name}.log", os.environ | environment)

    def _stop(self) -> None:
        for node in self.nodes:
            node.stop()


def run_on_cluster(
    folder: Path,
    output: Path,
    settings: Mapping[str, Any],
    measure: Callable[[Cluster, Callable[[str], None]], list[Figure]],
    hbase: Mapping[str, str | int] = MappingProxyType({}),
) -> None:
    """Run a benchmark on a cluster of its own in `folder`, as `run_in_folder` does. `measure` gets
    the cluster and what shows the present step. `hbase` adds to the settings of HBase."""
    console = Console()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))

    def measured() -> list[Figure]:
        with (
            console.status("starting HBase") as status,
            Cluster.start(folder / "cluster", hbase=hbase) as cluster,
        ):
            return measure(cluster, status.update)

    run_in_folder(folder, output, settings, measured, console)
