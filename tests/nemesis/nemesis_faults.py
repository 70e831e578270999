"""What goes wrong: each fault strikes and is healed. `FAULTS` is the registry.

A fault may draw whom it meets; what it met it remembers, to heal it. Both calls block.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from nemesis_proxy import Mode
from nemesis_world import Node, World

from cluster import Role

TAKE_OVER_S = 60.0


class Fault(Protocol):
    hold_s: float
    """From the end of the strike until healing begins."""
    silent: bool
    """No request may fail, as clients see it."""

    def strike(self, world: World, rng: random.Random) -> None: ...

    def heal(self, world: World) -> None:
        """Everything is as before; what has to happen by itself may still be going on."""


# ---------------------------------------------------------------- nodes


@dataclass
class KillNodes:
    """kill -9 of nodes, which are started again."""

    which: Callable[[World], Sequence[Node]]
    hold_s: float = 3.0
    silent: bool = False
    _killed: Sequence[Node] = ()

    def strike(self, world: World, rng: random.Random) -> None:
        self._killed = self.which(world)
        for node in self._killed:
            node.kill()

    def heal(self, world: World) -> None:
        for node in self._killed:
            node.start()


def _serving(world: World) -> Sequence[Node]:
    return [world.serving()]


def _standby(world: World) -> Sequence[Node]:
    return world.standing_by()[:1]


def _all(world: World) -> Sequence[Node]:
    return world.nodes


@dataclass
class RollingRestart:
    """SIGTERM, one node after the other; each is back before the next one goes."""

    hold_s: float = 0.0
    silent: bool = True

    def strike(self, world: World, rng: random.Random) -> None:
        for node in rng.sample(world.nodes, len(world.nodes)):
            node.stop()
            node.start()
            world.await_live(node)
            world.serving()

    def heal(self, world: World) -> None: ...


@dataclass
class FreezeServing:
    """SIGSTOP of the node that serves until another has taken over, then SIGCONT: a zombie."""

    hold_s: float = 3.0
    silent: bool = False
    _frozen: Node | None = None

    def strike(self, world: World, rng: random.Random) -> None:
        self._frozen = world.serving()
        self._frozen.signal(signal.SIGSTOP)
        world.serving(but=self._frozen, seconds=TAKE_OVER_S)

    def heal(self, world: World) -> None:
        assert self._frozen is not None
        self._frozen.signal(signal.SIGCONT)


@dataclass
class Clock:
    """The wall clock of the node that serves jumps, and jumps back."""

    ahead_ms: Sequence[int]
    hold_s: float = 6.0
    silent: bool = False
    _node: Node | None = None

    def strike(self, world: World, rng: random.Random) -> None:
        self._node = world.serving()
        self._node.set_clock(rng.choice(self.ahead_ms))

    def heal(self, world: World) -> None:
        assert self._node is not None
        self._node.set_clock(0)


# ---------------------------------------------------------------- processes of the cluster


@dataclass
class KillProcess:
    """kill -9 of one process of the cluster, which is started again."""

    role: Role
    hold_s: float = 4.0
    silent: bool = False
    _killed: str = ""

    def strike(self, world: World, rng: random.Random) -> None:
        self._killed = rng.choice(world.cluster.names(self.role))
        world.cluster.kill(self._killed)

    def heal(self, world: World) -> None:
        world.cluster.restart(self._killed)


@dataclass
class FreezeProcess:
    """SIGSTOP of one process of the cluster, then SIGCONT."""

    role: Role
    hold_s: float = 8.0
    silent: bool = False
    _frozen: str = ""

    def strike(self, world: World, rng: random.Random) -> None:
        self._frozen = rng.choice(world.cluster.names(self.role))
        world.cluster.pause(self._frozen)

    def heal(self, world: World) -> None:
        world.cluster.resume(self._frozen)


# ---------------------------------------------------------------- network


@dataclass
class Disturb:
    """Links of the node that serves: cut, mute, slow."""

    to: str
    mode: Mode
    hold_s: float = 8.0
    silent: bool = False
    _links: list[str] = field(default_factory=list)

    def strike(self, world: World, rng: random.Random) -> None:
        self._links = world.serving().links[self.to]
        world.set_links(self._links, self.mode)

    def heal(self, world: World) -> None:
        world.set_links(self._links, "pass")


# ---------------------------------------------------------------- HBase and HDFS


@dataclass
class Regions:
    """Every table's region is split, or all regions of a server of each table are moved."""

    verb: str
    hold_s: float = 2.0
    silent: bool = False

    def strike(self, world: World, rng: random.Random) -> None:
        assert world.admin(self.verb, world.database), f"nothing to {self.verb}"

    def heal(self, world: World) -> None: ...


@dataclass
class FullLog:
    """No room for another block in the log's folder. The segments of the nodes are small, so that
    a new one is needed soon."""

    hold_s: float = 10.0
    silent: bool = False

    def strike(self, world: World, rng: random.Random) -> None:
        world.admin("room", f"/{world.database}/log", "1")

    def heal(self, world: World) -> None:
        world.admin("room", f"/{world.database}/log", "any")


FAULTS: dict[str, Callable[[], Fault]] = {
    "kill the serving node": lambda: KillNodes(_serving),
    "kill a standby": lambda: KillNodes(_standby),
    "kill all nodes": lambda: KillNodes(_all),
    "rolling restart": RollingRestart,
    "freeze the serving node": FreezeServing,
    "kill a Thrift gateway": lambda: KillProcess(Role.THRIFT),
    "kill a RegionServer": lambda: KillProcess(Role.REGION_SERVER),
    "kill the HMaster": lambda: KillProcess(Role.MASTER),
    "kill a DataNode": lambda: KillProcess(Role.DATA_NODE),
    "kill the NameNode": lambda: KillProcess(Role.NAME_NODE),
    "kill ZooKeeper": lambda: KillProcess(Role.ZOOKEEPER),
    "freeze a DataNode": lambda: FreezeProcess(Role.DATA_NODE),
    "freeze a RegionServer": lambda: FreezeProcess(Role.REGION_SERVER),
    "cut node from gateways": lambda: Disturb("gateway", "cut"),
    "drop the gateways' replies": lambda: Disturb("gateway", "mute"),
    "slow gateways": lambda: Disturb("gateway", "slow"),
    "cut node from ZooKeeper": lambda: Disturb("zookeeper", "cut"),
    "drop ZooKeeper's replies": lambda: Disturb("zookeeper", "mute"),
    "split regions": lambda: Regions("split"),
    "move regions": lambda: Regions("move"),
    "full disk for the log": FullLog,
    "clock jumps a little": lambda: Clock((-400, 400)),
    "clock jumps far": lambda: Clock((-60_000, 60_000)),
}
