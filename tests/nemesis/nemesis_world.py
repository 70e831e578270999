"""The world that the nemesis strikes: a real HBase, and Hornbeam's nodes, on this machine.

Each node reaches each gateway, ZooKeeper, the NameNode and each other node through a link of its
own that can be cut (`nemesis_proxy.py`). Everything that is started here ends with the world.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx

from bench.nodes import NodeProcess
from hornbeam_server.cluster import Cluster, Role, processes
from hornbeam_server.cluster.admin import admin
from hornbeam_server.cluster.ports import free_ports
from hornbeam_server.txlayer.cluster.assignment import SLOTS
from tests.nemesis.nemesis_live import LIVE
from tests.nemesis.nemesis_proxy import Mode
from tests.real_cluster import FOR_THRIFT_1, guarded_cluster
from tests.storage.hbase_gateways import make_namespace

T = TypeVar("T")
HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
NODES, REGION_SERVERS, DATA_NODES, GATEWAYS = 3, 2, 3, 2
GATEWAY_ROLES = {1: Role.THRIFT1, 2: Role.THRIFT}
"""The gateways of the nodes, by their Thrift. A cluster has one of Thrift 1."""
START_S, STOP_S = 240.0, 60.0
BATCH_S = 20.0
POLL_S = 0.05


class Stuck(AssertionError):
    """An expected event has not happened in time."""


def wait_for(what: str, look: Callable[[], T | None], seconds: float = START_S) -> T:
    """The result of `look`, once it is not None. Raises Stuck."""
    give_up = time.monotonic() + seconds
    while (found := look()) is None:
        if time.monotonic() > give_up:
            raise Stuck(f"{what}: not within {seconds:g} s")
        time.sleep(POLL_S)
    return found


@dataclass
class Node(NodeProcess):
    """A node with a clock that can be set. `links` has the names of its links by their targets."""

    links: Mapping[str, list[str]] = field(default_factory=dict)

    def start(self) -> None:
        self.set_clock(0)
        super().start()

    def set_clock(self, ahead_ms: int) -> None:
        clock = _clock_of(self.log.parent)
        fresh = clock.with_suffix(".new")
        fresh.write_text(str(ahead_ms))
        fresh.replace(clock)

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def seen(self) -> dict[str, Any] | None:
        """The assignment as this node knows it; None while the node does not serve."""
        try:
            httpx.get(f"{self.url}/readyz", timeout=2, trust_env=False).raise_for_status()
            return self.assignment()
        except httpx.HTTPError:
            return None

    def sees_alone(self, members: Sequence[Node]) -> bool:
        """Whether this node knows exactly `members`, and they own all slots with no change under
        way."""
        seen = self.seen()
        if seen is None or seen["dead"] or seen["moving_slots"] or seen["gate_closed"]:
            return False
        shares = [member["slots"] for member in seen["members"] if member["commits"]]
        addresses = sorted(member["address"] for member in seen["members"])
        return (
            addresses == sorted(member.url for member in members)
            and len(shares) == len(members)
            and all(shares)
            and sum(shares) == SLOTS
        )


def _clock_of(folder: Path) -> Path:
    return folder / "clock"


class World:
    """The cluster, the links, the nodes, whose gateways are of Thrift `thrift`."""

    def __init__(self, cluster: Cluster, folder: Path, thrift: int) -> None:
        self.cluster = cluster
        self.gateway_role = GATEWAY_ROLES[thrift]
        self.folder = folder
        self.database = f"nemesis{time.time_ns() // 1_000_000:x}"
        names = [f"node-{number}" for number in range(1, NODES + 1)]
        if self.gateway_role is Role.THRIFT1:
            make_namespace(cluster, self.database)
        gateways = [process.address for process in cluster.layout.of(self.gateway_role)]
        ports = iter(free_ports(NODES * (len(gateways) + NODES + 3)))
        peers = {name: f"127.0.0.1:{next(ports)}" for name in names}
        self.nodes: list[Node] = []
        links: list[str] = []
        for name in names:
            targets = {f"gateway-{n}": str(each) for n, each in enumerate(gateways, 1)}
            targets |= {"zookeeper": str(cluster.zookeeper), "name-node": str(cluster.name_node)}
            targets |= {other: peers[other] for other in names if other != name}
            ways = {to: f"127.0.0.1:{next(ports)}" for to in targets}
            links += [f"{name}.{to}={ways[to].split(':')[1]}:{targets[to]}" for to in targets]
            self.nodes.append(self._node(name, next(ports), peers, ways))
        self._proxy = subprocess.Popen(
            [sys.executable, str(HERE / "nemesis_proxy.py"), *links],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reported("ready")

    def _node(
        self, name: str, port: int, peers: Mapping[str, str], ways: Mapping[str, str]
    ) -> Node:
        """`peers` has the address at which each node listens for others, `ways` the links of this
        node."""
        folder = self.folder / name
        folder.mkdir(parents=True)
        prefix = "thrift1://" if self.gateway_role is Role.THRIFT1 else ""
        gateways = [prefix + way for to, way in ways.items() if to.startswith("gateway")]
        settings = {
            "store": "hbase",
            "database": self.database,
            "gateways": ",".join(gateways),
            "region_server_page_port": "0",  # each region server of this host has its own
            "zookeeper": ways["zookeeper"],
            "hdfs": f"hdfs://{ways['name-node']}",
            "data": str(folder / "data"),
            "port": str(port),
            "peer_port": peers[name].split(":")[1],
            "log_level": "info",
        }
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HORNBEAM_")}
        environment |= {f"HORNBEAM_{k.upper()}": v for k, v in settings.items()}
        environment["PYTHONPATH"] = f"{ROOT}:{environment.get('PYTHONPATH', '')}"
        to_others = [f"{peers[to]}={way}" for to, way in ways.items() if to in peers]
        program = ("-m", "tests.nemesis.nemesis_node", str(_clock_of(folder)), *to_others)
        links = {
            "gateways": [f"{name}.{to}" for to in ways if to.startswith("gateway")],
            **{to: [f"{name}.{to}"] for to in ways},
        }
        return Node(name, port, folder / "node.log", environment, program, links=links)

    @property
    def addresses(self) -> list[str]:
        """The addresses of the nodes, for the client library."""
        return [node.url.removeprefix("http://") for node in self.nodes]

    def close(self) -> None:
        for node in self.nodes:
            node.kill()
        self._proxy.communicate(timeout=STOP_S)

    # ------------------------------------------------------------ nodes

    def leading(self) -> Node:
        """The node that leads; waits for one. Raises Stuck."""

        def look() -> Node | None:
            return next((n for n in self.nodes if (seen := n.seen()) and seen["leads"]), None)

        return wait_for("a node leads", look)

    def following(self) -> list[Node]:
        leading = self.leading()
        return [node for node in self.nodes if node is not leading]

    def live_group(self) -> dict[str, Any]:
        """The group of live views, as a node that serves describes it. Raises Stuck."""

        def look() -> dict[str, Any] | None:
            for node in self.nodes:
                try:
                    answer = httpx.get(f"{node.url}/v1/groups", timeout=2, trust_env=False)
                    groups = answer.raise_for_status().json()
                except httpx.HTTPError:
                    continue
                return next(group for group in groups if group["name"] == LIVE)
            return None

        return wait_for("a node describes the group of live views", look)

    def keeping(self) -> Node:
        """The node that does the next batch of live views; waits until there is one. Raises
        Stuck."""

        def look() -> Node | None:
            keeper = self.live_group()["node"]
            return next((node for node in self.nodes if node.url == keeper), None)

        return wait_for("a node keeps live views", look)

    def await_batch(self) -> None:
        """Wait until a batch of live views is under way. Raises Stuck."""
        wait_for("a batch of live views", lambda: self.live_group()["under_way"], BATCH_S)

    def but(self, *away: Node) -> list[Node]:
        return [node for node in self.nodes if node not in away]

    def is_settled(self, members: Sequence[Node] | None = None) -> bool:
        """Whether exactly `members` (default: all nodes) serve and own all slots with no change
        under way."""
        expected = self.nodes if members is None else members
        return all(node.sees_alone(expected) for node in expected)

    def settle(self, members: Sequence[Node] | None = None, seconds: float = START_S) -> None:
        """Wait until `is_settled`. Raises Stuck."""
        wait_for("the nodes settle", lambda: self.is_settled(members) or None, seconds)

    def revive(self) -> list[str]:
        """Start processes that have ended by themselves, as an operator would: nodes, and processes
        of the cluster (HBase's processes end when they lose their session with ZooKeeper)."""
        ended = []
        for node in self.nodes:
            if node.process is not None and (code := node.process.poll()) is not None:
                ended.append(f"{node.name} ended with status {code}")
                node.start()
        running = processes.running(self.cluster.folder)
        for process in self.cluster.layout.processes:
            if process.name not in running:
                ended.append(f"{process.name} ended")
                self.cluster.restart(process.name)
        return ended

    # ------------------------------------------------------------ network

    def set_links(self, names: Sequence[str], mode: Mode) -> None:
        assert self._proxy.stdin is not None
        for name in names:
            print(name, mode, file=self._proxy.stdin, flush=True)
            self._reported("ok")

    def _reported(self, expected: str) -> None:
        assert self._proxy.stdout is not None
        line = self._proxy.stdout.readline().strip()
        assert line == expected, f"the proxy says {line!r}"

    # ------------------------------------------------------------ HBase and HDFS

    def admin(self, *words: str) -> int:
        """Do what Thrift cannot. Returns the number of objects that it changed."""
        return admin(self.cluster, *words)


@contextmanager
def world(folder: Path, thrift: int = 2) -> Iterator[World]:
    """A world whose nodes serve an empty database, over gateways of Thrift `thrift`.
    HORNBEAM_CLUSTER names the folder of a running cluster to use instead of a new one."""
    with _cluster(folder) as cluster:
        made = World(cluster, folder / "nodes", thrift)
        try:
            for node in made.nodes:
                node.start()
            made.settle()
            yield made
        finally:
            made.close()


def _cluster(folder: Path) -> AbstractContextManager[Cluster]:
    if running := os.environ.get("HORNBEAM_CLUSTER"):
        return nullcontext(Cluster.at(Path(running)))
    return guarded_cluster(
        folder / "cluster",
        region_servers=REGION_SERVERS,
        data_nodes=DATA_NODES,
        gateways=GATEWAYS,
        hbase=FOR_THRIFT_1,
    )
