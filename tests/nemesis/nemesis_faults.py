"""The faults: each strikes and is healed. `FAULTS` is the registry.

A fault may draw its victims; it remembers them, to heal them. Both calls block.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from hornbeam_server.cluster import Role
from tests.nemesis.nemesis_proxy import Mode
from tests.nemesis.nemesis_world import Node, World

TAKE_OVER_S = 60.0


class Fault(Protocol):
    hold_s: float
    """The time from the end of the strike until healing begins."""
    silent: bool
    """No request of a client may fail."""
    taken_over: float | None
    """The time (by the monotonic clock) when every root had an owner again, after a strike that
    takes nodes away. None: it takes none away."""

    def strike(self, world: World, rng: random.Random) -> None: ...

    def heal(self, world: World) -> None:
        """End the fault. Parts that recover by themselves may still be recovering."""


# ---------------------------------------------------------------- nodes


Choice = Callable[[World, random.Random], Sequence[Node]]


def a_follower(world: World, rng: random.Random) -> Sequence[Node]:
    """A node that does not lead."""
    return [rng.choice(world.following())]


def the_leader(world: World, rng: random.Random) -> Sequence[Node]:
    return [world.leading()]


def a_node(world: World, rng: random.Random) -> Sequence[Node]:
    return [rng.choice(world.nodes)]


def a_keeper(world: World, rng: random.Random) -> Sequence[Node]:
    """The node that keeps the live views."""
    return [world.keeping()]


def two_nodes(world: World, rng: random.Random) -> Sequence[Node]:
    return rng.sample(world.nodes, 2)


def all_nodes(world: World, rng: random.Random) -> Sequence[Node]:
    return world.nodes


@dataclass
class TakeAway:
    """Nodes go, the others take over, and the nodes come back: killed or stopped and started again,
    or frozen until the others declare them dead (then they are zombies). They are killed or frozen
    while a batch of live views is under way."""

    which: Choice
    how: Literal["kill", "stop", "freeze"]
    hold_s: float = 2.0
    silent: bool = False
    taken_over: float | None = None
    _away: Sequence[Node] = ()

    def strike(self, world: World, rng: random.Random) -> None:
        self._away = self.which(world, rng)
        if self.how != "stop":
            world.await_batch()
        for node in self._away:
            {"kill": node.kill, "stop": node.stop, "freeze": node.freeze}[self.how]()
        if others := world.but(*self._away):
            self._await(world, others)

    def heal(self, world: World) -> None:
        for node in self._away:
            if self.how == "freeze":
                node.thaw()
            else:
                node.start()
        if self.taken_over is None:  # no other node was left
            self._await(world, self._away)

    def _await(self, world: World, owners: Sequence[Node]) -> None:
        world.settle(owners, TAKE_OVER_S)
        self.taken_over = time.monotonic()


@dataclass
class RollingRestart:
    """SIGTERM, one node after the other; each owns its share again before the next one goes."""

    hold_s: float = 0.0
    silent: bool = True
    taken_over: float | None = None

    def strike(self, world: World, rng: random.Random) -> None:
        for node in rng.sample(world.nodes, len(world.nodes)):
            node.stop()
            node.start()
            world.settle(seconds=TAKE_OVER_S)

    def heal(self, world: World) -> None: ...


@dataclass
class Clock:
    """The wall clock of a node jumps, and jumps back."""

    ahead_ms: Sequence[int]
    hold_s: float = 6.0
    silent: bool = False
    taken_over: float | None = None
    _node: Node | None = None

    def strike(self, world: World, rng: random.Random) -> None:
        self._node = rng.choice(world.nodes)
        self._node.set_clock(rng.choice(self.ahead_ms))

    def heal(self, world: World) -> None:
        assert self._node is not None
        self._node.set_clock(0)


# ---------------------------------------------------------------- processes of the cluster


@dataclass
class KillProcess:
    """kill -9 of one process of the cluster while a batch of live views is under way; it is started
    again. A gateway is one of the kind that the nodes use."""

    role: Role
    hold_s: float = 4.0
    silent: bool = False
    taken_over: float | None = None
    _killed: str = ""

    def strike(self, world: World, rng: random.Random) -> None:
        role = world.gateway_role if self.role is Role.THRIFT else self.role
        self._killed = rng.choice(world.cluster.names(role))
        world.await_batch()
        world.cluster.kill(self._killed)

    def heal(self, world: World) -> None:
        world.cluster.restart(self._killed)


@dataclass
class FreezeProcess:
    """SIGSTOP of one process of the cluster, then SIGCONT."""

    role: Role
    hold_s: float = 8.0
    silent: bool = False
    taken_over: float | None = None
    _frozen: str = ""

    def strike(self, world: World, rng: random.Random) -> None:
        self._frozen = rng.choice(world.cluster.names(self.role))
        world.cluster.pause(self._frozen)

    def heal(self, world: World) -> None:
        world.cluster.resume(self._frozen)


# ---------------------------------------------------------------- network


@dataclass
class Disturb:
    """Links of a node to gateways, ZooKeeper or the NameNode are cut, muted, or slowed."""

    which: Choice
    to: str
    mode: Mode
    hold_s: float = 8.0
    silent: bool = False
    taken_over: float | None = None
    _links: Sequence[str] = ()

    def strike(self, world: World, rng: random.Random) -> None:
        (node,) = self.which(world, rng)
        self._links = node.links[self.to]
        world.set_links(self._links, self.mode)

    def heal(self, world: World) -> None:
        world.set_links(self._links, "pass")


@dataclass
class Part:
    """Links between nodes are disturbed: of two with one another, or of one with all others."""

    which: Choice
    mode: Mode
    hold_s: float = 8.0
    silent: bool = False
    taken_over: float | None = None
    _links: Sequence[str] = ()

    def strike(self, world: World, rng: random.Random) -> None:
        one, *others = self.which(world, rng)
        pairs = [(one, other) for other in others or world.but(one)]
        both = [*pairs, *((b, a) for a, b in pairs)]
        self._links = [link for a, b in both for link in a.links[b.name]]
        world.set_links(self._links, self.mode)

    def heal(self, world: World) -> None:
        world.set_links(self._links, "pass")


# ---------------------------------------------------------------- HBase and HDFS


@dataclass
class Regions:
    """Every table's region is split, or one region of each table is moved."""

    verb: str
    hold_s: float = 2.0
    silent: bool = False
    taken_over: float | None = None

    def strike(self, world: World, rng: random.Random) -> None:
        assert world.admin(self.verb, world.database), f"nothing to {self.verb}"

    def heal(self, world: World) -> None: ...


@dataclass
class FullLog:
    """The log's folder has no room for another block. The segments of the nodes are small, so they
    soon need a new block."""

    hold_s: float = 10.0
    silent: bool = False
    taken_over: float | None = None

    def strike(self, world: World, rng: random.Random) -> None:
        world.admin("room", f"/{world.database}/log", "1")

    def heal(self, world: World) -> None:
        world.admin("room", f"/{world.database}/log", "any")


FAULTS: dict[str, Callable[[], Fault]] = {
    "kill a node": lambda: TakeAway(a_follower, "kill"),
    "kill the leader": lambda: TakeAway(the_leader, "kill"),
    "kill the node that keeps live views": lambda: TakeAway(a_keeper, "kill"),
    "kill all nodes": lambda: TakeAway(all_nodes, "kill"),
    "stop a node": lambda: TakeAway(a_follower, "stop", silent=True),
    "stop the leader": lambda: TakeAway(the_leader, "stop", silent=True),
    "rolling restart": RollingRestart,
    "freeze a node": lambda: TakeAway(a_follower, "freeze"),
    "freeze the node that keeps live views": lambda: TakeAway(a_keeper, "freeze"),
    "freeze the leader": lambda: TakeAway(the_leader, "freeze"),
    "kill a Thrift gateway": lambda: KillProcess(Role.THRIFT),
    "kill a RegionServer": lambda: KillProcess(Role.REGION_SERVER),
    "kill the HMaster": lambda: KillProcess(Role.MASTER),
    "kill a DataNode": lambda: KillProcess(Role.DATA_NODE),
    "kill the NameNode": lambda: KillProcess(Role.NAME_NODE),
    "kill ZooKeeper": lambda: KillProcess(Role.ZOOKEEPER),
    "freeze a DataNode": lambda: FreezeProcess(Role.DATA_NODE),
    "freeze a RegionServer": lambda: FreezeProcess(Role.REGION_SERVER),
    "cut a node from the gateways": lambda: Disturb(a_node, "gateways", "cut"),
    "drop the gateways' replies to a node": lambda: Disturb(a_node, "gateways", "mute"),
    "slow gateways for a node": lambda: Disturb(a_node, "gateways", "slow"),
    "cut a node from ZooKeeper": lambda: Disturb(a_follower, "zookeeper", "cut"),
    "cut the leader from ZooKeeper": lambda: Disturb(the_leader, "zookeeper", "cut"),
    "drop ZooKeeper's replies to a node": lambda: Disturb(a_node, "zookeeper", "mute"),
    "cut a node from the NameNode": lambda: Disturb(a_node, "name-node", "cut"),
    "cut two nodes from each other": lambda: Part(two_nodes, "cut"),
    "cut a node from the others": lambda: Part(a_node, "cut"),
    "drop replies between two nodes": lambda: Part(two_nodes, "mute"),
    "slow links between nodes": lambda: Part(a_node, "slow"),
    "split regions": lambda: Regions("split"),
    "move regions": lambda: Regions("move"),
    "full disk for the log": FullLog,
    "a node's clock jumps a little": lambda: Clock((-400, 400)),
    "a node's clock jumps far": lambda: Clock((-60_000, 60_000)),
}
