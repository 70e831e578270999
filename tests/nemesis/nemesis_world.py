"""What the nemesis strikes: a real HBase, and Hornbeam's nodes, on this machine.

Between each node and ZooKeeper, and between each node and each gateway, lies a link of its own that
can be cut (`nemesis_proxy.py`). Everything that is started here ends with the world.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import httpx
from nemesis_proxy import Mode
from real_cluster import guarded_cluster

from bench.nodes import NodeProcess
from cluster import Cluster, Role, artefacts, processes
from cluster.ports import free_ports

T = TypeVar("T")
HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
NODES, REGION_SERVERS, DATA_NODES, GATEWAYS = 3, 2, 3, 2
START_S, STOP_S, ADMIN_S = 240.0, 60.0, 180.0


class Stuck(AssertionError):
    """Something that should have happened by now has not."""


def wait_for(what: str, look: Callable[[], T | None], seconds: float = START_S) -> T:
    """What `look` finds, once it finds something. Raises Stuck."""
    give_up = time.monotonic() + seconds
    while (found := look()) is None:
        if time.monotonic() > give_up:
            raise Stuck(f"{what}: not within {seconds:g} s")
        time.sleep(0.1)
    return found


@dataclass
class Node(NodeProcess):
    """A node with a clock that can be set. `links` are the names of its links by what they lead
    to."""

    links: Mapping[str, list[str]] = field(default_factory=dict)

    def start(self) -> None:
        self.set_clock(0)
        super().start()

    def set_clock(self, ahead_ms: int) -> None:
        clock = _clock_of(self.log.parent)
        fresh = clock.with_suffix(".new")
        fresh.write_text(str(ahead_ms))
        fresh.replace(clock)

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def answers(self, path: str) -> bool:
        try:
            return httpx.get(f"{self.url}{path}", timeout=2, trust_env=False).is_success
        except httpx.TransportError:
            return False


def _clock_of(folder: Path) -> Path:
    return folder / "clock"


class World:
    """The cluster, the links, the nodes."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.database = f"nemesis{time.time_ns() // 1_000_000:x}"
        gateways = [process.address for process in cluster.layout.of(Role.THRIFT)]
        ports = iter(free_ports(NODES * (len(gateways) + 2)))
        self.nodes: list[Node] = []
        links: list[str] = []
        for name in (f"node-{number}" for number in range(1, NODES + 1)):
            targets = {f"{name}.gateway-{n}": each for n, each in enumerate(gateways, 1)}
            targets[f"{name}.zookeeper"] = cluster.zookeeper
            listen = {link: next(ports) for link in targets}
            links += [f"{link}={listen[link]}:{target}" for link, target in targets.items()]
            of = {
                "gateway": [link for link in listen if "gateway" in link],
                "zookeeper": [f"{name}.zookeeper"],
            }
            self.nodes.append(self._node(name, next(ports), of, listen))
        self._proxy = subprocess.Popen(
            [sys.executable, str(HERE / "nemesis_proxy.py"), *links],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._told("ready")

    def _node(
        self, name: str, port: int, links: dict[str, list[str]], listen: dict[str, int]
    ) -> Node:
        folder = self.folder / name
        folder.mkdir(parents=True)
        here = [f"127.0.0.1:{listen[link]}" for link in links["gateway"]]
        settings = {
            "store": "hbase",
            "database": self.database,
            "gateways": ",".join(here),
            "zookeeper": f"127.0.0.1:{listen[links['zookeeper'][0]]}",
            "hdfs": self.cluster.hdfs_url,
            "data": str(folder / "data"),
            "port": str(port),
            "log_level": "info",
        }
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HORNBEAM_")}
        environment |= {f"HORNBEAM_{k.upper()}": v for k, v in settings.items()}
        environment["PYTHONPATH"] = f"{ROOT}:{HERE}:{environment.get('PYTHONPATH', '')}"
        program = ("-m", "nemesis_node", str(_clock_of(folder)))
        return Node(name, port, folder / "node.log", environment, program, links=links)

    @property
    def url(self) -> str:
        """For the client library."""
        first, *others = [node.url.removeprefix("http://") for node in self.nodes]
        return f"hornbeam://{first}?also={','.join(others)}"

    def close(self) -> None:
        """Those that stand by first, so that none of them takes over."""
        serving = self.serving_now()
        for node in sorted(self.nodes, key=lambda node: node is serving):
            node.kill()
        self._proxy.communicate(timeout=STOP_S)

    # ------------------------------------------------------------ nodes

    def serving_now(self) -> Node | None:
        running = [node for node in self.nodes if node.process is not None]
        return next((node for node in running if node.answers("/readyz")), None)

    def serving(self, *, but: Node | None = None, seconds: float = START_S) -> Node:
        """The node that serves, another than `but`; waits for one. Raises Stuck."""

        def look() -> Node | None:
            found = self.serving_now()
            return found if found is not but else None

        return wait_for("a node serves", look, seconds)

    def standing_by(self) -> list[Node]:
        serving = self.serving()
        return [node for node in self.nodes if node is not serving]

    def await_live(self, node: Node) -> None:
        wait_for(f"{node.name} answers", lambda: node.answers("/livez") or None)

    def revive(self) -> list[str]:
        """Start what has ended by itself, as whoever looks after it would: nodes, and processes of
        the cluster (HBase's end when they lose their session with ZooKeeper)."""
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

    def set_links(self, names: list[str], mode: Mode) -> None:
        assert self._proxy.stdin is not None
        for name in names:
            print(name, mode, file=self._proxy.stdin, flush=True)
            self._told("ok")

    def _told(self, expected: str) -> None:
        assert self._proxy.stdout is not None
        line = self._proxy.stdout.readline().strip()
        assert line == expected, f"the proxy says {line!r}"

    # ------------------------------------------------------------ HBase and HDFS

    def admin(self, *words: str) -> int:
        """Ask what Thrift cannot (see Admin.java); to how many it was done."""
        run = subprocess.run(
            [
                *(str(artefacts.java()), "-Xmx128m", "-XX:TieredStopAtLevel=1"),
                *("-cp", f"{self.cluster.folder / 'conf'}:{artefacts.resolve()}/*"),
                *(str(HERE / "Admin.java"), *words),
            ],
            capture_output=True,
            text=True,
            timeout=ADMIN_S,
            check=False,
        )
        assert run.returncode == 0, run.stderr[-2_000:]
        (done,) = [line for line in run.stdout.splitlines() if line.startswith("did ")]
        return int(done.removeprefix("did "))


@contextmanager
def world(folder: Path) -> Iterator[World]:
    """Everything up, and one of the nodes serving an empty database. HORNBEAM_CLUSTER names the
    folder of a cluster that is up and is to be used instead of a new one."""
    with _cluster(folder) as cluster:
        made = World(cluster, folder / "nodes")
        try:
            for node in made.nodes:
                node.start()
            made.serving()
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
    )
