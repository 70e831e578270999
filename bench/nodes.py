"""Runs several nodes of Hornbeam (`hornbeam serve`) as processes of this machine, on a cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from hornbeam_server.cluster import Cluster
from hornbeam_server.cluster.ports import free_ports
from hornbeam_server.schema.errors import Unavailable
from hornbeam_server.txlayer.cluster.assignment import SLOTS

START_S = 60.0
POLL_S = 0.05
STOP_S = 60.0


def client_url(addresses: Sequence[str], first: int = 0) -> str:
    """A client's URL of the nodes at `addresses` (`host:port`). The client begins at number
    `first`."""
    first %= len(addresses)
    start, *others = [*addresses[first:], *addresses[:first]]
    return f"hornbeam://{start}" + (f"?also={','.join(others)}" if others else "")


@dataclass
class NodeProcess:
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
        """End the process like a crash (SIGKILL)."""
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
    def ready(self) -> bool:
        """Whether the node serves. Raises Unavailable when its process has ended."""
        if self.process is None:
            return False
        if self.process.poll() is not None:
            last = self.log.read_text(errors="replace").splitlines()[-5:]
            raise Unavailable(f"Node {self.name} has ended:\n  " + "\n  ".join(last))
        try:
            return httpx.get(f"{self.url}/readyz", timeout=2, trust_env=False).is_success
        except httpx.TransportError:
            return False

    def assignment(self) -> dict[str, Any] | None:
        """The nodes and the slots that they own, as this node knows them (`nodes` of its status);
        None while it does not serve. A node that was ready may stop serving before the next
        request. Raises Unavailable when its process has ended."""
        if not self.ready:
            return None
        try:
            status = httpx.get(f"{self.url}/v1/status", timeout=5, trust_env=False)
        except httpx.TransportError:
            return None
        if status.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            return None
        assignment: dict[str, Any] = status.raise_for_status().json()["nodes"]
        return assignment


@dataclass
class NodeProcesses:
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

    def leading(self, timeout_s: float = START_S) -> NodeProcess:
        """Wait until a node leads, and return it. Raises Unavailable."""
        give_up = time.monotonic() + timeout_s
        while time.monotonic() < give_up:
            for node in self.nodes:
                if (known := node.assignment()) and known["leads"]:
                    return node
            time.sleep(POLL_S)
        raise Unavailable(f"No node leads after {timeout_s:g} s; see {self.folder}.")

    def settled(self, timeout_s: float = START_S) -> None:
        """Wait until all running nodes serve, no node is dead, and every slot has an owner and is
        not moving. Raises Unavailable."""
        running = [node for node in self.nodes if node.process is not None]

        def is_settled(node: NodeProcess) -> bool:
            if (known := node.assignment()) is None:
                return False
            owned = sum(member["slots"] for member in known["members"])
            is_complete = len(known["members"]) == len(running)
            return is_complete and owned == SLOTS and not (known["dead"] or known["moving_slots"])

        give_up = time.monotonic() + timeout_s
        while not all(map(is_settled, running)):
            if time.monotonic() > give_up:
                raise Unavailable(
                    f"Nodes are not settled after {timeout_s:g} s; see {self.folder}."
                )
            time.sleep(POLL_S)

    @property
    def urls(self) -> list[str]:
        return [node.url for node in self.nodes]

    @property
    def client_url(self) -> str:
        return client_url([node.address for node in self.nodes])

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
