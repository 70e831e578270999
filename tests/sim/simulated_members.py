"""A simulated cluster whose database several nodes serve at the same time.

There is a fixed number of places, and a process at each: a member, or a node that joins. The
members alone decide which of them owns a slot. When a process has failed, or its term has ended,
another starts in its place. Some replaced processes live on for a while as zombies; some zombies
know that their term is over and answer only the requests that they still may. At intervals a node
is stopped in order, so that its slots move to the others, and some back to its successor.

A fault may strike the process at any place. Clients send requests to any node, also to zombies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from hornbeam_server.node.adapters import Ports
from hornbeam_server.node.database import Database
from hornbeam_server.schema.errors import HornbeamError, Unavailable
from hornbeam_server.storage.ports import Peers
from hornbeam_server.storage.simulated.peers import SimulatedNetwork, SimulatedPeers
from hornbeam_server.txlayer.cluster.assignment import PATH, Assignment
from tests.sim.simulated_cluster import SUPERVISION_S, Cluster, Node

ZOMBIE_S = 10.0
"""A process that was replaced is killed after this time."""
TRIES = 40
"""Attempts to find the node that leads; there may be none for a while."""
STOP_S = 30.0


class MembersCluster(Cluster):
    """`places` nodes serve. One is stopped in order about every `stops_s`; None: never."""

    several = True

    def __init__(
        self, *arguments: Any, places: int, stops_s: float | None = None, **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self.network = SimulatedNetwork(self.loop, self.chaos)
        self._places: list[Node] = []
        self._count = places
        self._stops_s = stops_s

    # ------------------------------------------------------------ life

    async def start(self) -> None:
        self._places = [self._launch() for _ in range(self._count)]
        for place in range(self._count):
            self._world.append(asyncio.ensure_future(self._keep(place)))
        await self._until("not all serve", self._is_whole)

    def unleash(self) -> None:
        super().unleash()
        if self._stops_s is not None:
            self._world.append(asyncio.ensure_future(self._stop_in_turn(self._stops_s)))

    async def heal(self) -> Database:
        self.network.join_all()
        return await super().heal()

    @property
    def serving(self) -> list[Node]:
        return self._places

    def assignment(self) -> Assignment:
        """The newest assignment of the coordination service."""
        known = self.registry.read(PATH)
        return Assignment.decode(known.value) if known is not None else Assignment.founded("", 0)

    def _is_whole(self) -> bool:
        """Whether exactly these nodes are members and healthy, none is dead, all slots have owners,
        and nothing moves."""
        known = self.assignment()
        return (
            all(node.healthy for node in self._places)
            and {member.name for member in known.members} == {node.log for node in self._places}
            and all(member.commits for member in known.members)
            and not known.dead
            and "" not in known.slots
            and not known.leaving
            and not known.gate_closed
            and any(node.database.keeper.leads for node in self._places)
        )

    def _reported(self) -> str:
        known = self.assignment()
        return (
            f"{[(node.process.name, node.healthy, node.failure) for node in self._places]},"
            f" members {[m.name for m in known.members]}, dead {[m.name for m in known.dead]},"
            f" {len(known.leaving)} slots leave, {known.slots.count('')} have no owner"
        )

    # ------------------------------------------------------------ clients

    async def ask_leader(self, work: Callable[[Database], Awaitable[Any]]) -> Any:
        """Ask one node after another, until the answer is not that another node leads."""
        for _ in range(TRIES):
            try:
                return await self.ask(work)
            except Unavailable as error:
                if not error.details.get("standby"):
                    raise
                standby = error
                await asyncio.sleep(SUPERVISION_S)
        raise standby

    def _addressed(self) -> Node:
        living = [node for node in self.nodes if not node.process.dead]
        return self.chaos.random.choice(living or self.nodes)

    # ------------------------------------------------------------ processes

    async def _open(self, node: Node, ports: Ports) -> Database:
        return await Database.join(self.settings, ports, f"http://{node.process.name}")

    def _peers(self, node: Node) -> Peers:
        return SimulatedPeers(self.network, node.process)

    async def _keep(self, place: int) -> None:
        """Keep a node running at this place."""
        while True:
            await asyncio.sleep(SUPERVISION_S)
            node = self._places[place]
            self._look_for_strangers(node)
            if not self._is_over(node):
                continue
            if node.process.frozen or (not self.healed and self.chaos.random.random() < 0.3):
                self.loop.in_world(ZOMBIE_S, node.process.crash)
                if node.database is not None and len(self.nodes) % 2:
                    node.process.start(_retire(node.database))
            else:
                node.process.crash()
            await asyncio.sleep(self.chaos.between(self.chaos.profile.down_s))
            self._places[place] = self._launch()

    def _look_for_strangers(self, node: Node) -> None:
        """Report locks held for unknown members; clients may not notice, as the next version frees
        them."""
        if node.healthy and (strangers := node.database.member.strangers):
            self._unexplained.append(f"{node.log} has locks held for {sorted(strangers)}")

    def _is_over(self, node: Node) -> bool:
        """Whether it has failed, its term has ended, or the coordination service has given it
        up."""
        if node.process.dead or node.failure is not None:
            return True
        if node.database is None or node.stopping:
            return False
        shown = self.registry.shows(node.log)
        return not shown or not (node.process.frozen or node.database.ready())

    async def _stop_in_turn(self, every_s: float) -> None:
        while True:
            await asyncio.sleep(self.chaos.random.expovariate(1 / every_s))
            if self.healed:
                return
            node = self.chaos.random.choice(self._places)
            if node.healthy and sum(other.healthy for other in self._places) > 1:
                await self._stop_one(node)

    async def _stop_one(self, node: Node) -> None:
        """Stop a node in order, if no fault strikes it meanwhile: requests under way are
        finished."""
        node.stopping = True
        self.chaos.note(f"{self.loop.time():.6f} stop {node.process.name}")
        closing = node.process.start(_close(node))
        await asyncio.wait({closing}, timeout=STOP_S)
        assert closing.done() or self.chaos.profile.faults, f"{node.process.name} does not stop"
        node.process.crash()
        self.stopped += 1

    # ------------------------------------------------------------ faults

    def _victim(self) -> Node:
        return self.chaos.random.choice(self._places)

    async def _part(self, node: Node) -> bool:
        """Part the node from another that serves."""
        other = self.chaos.random.choice([place for place in self._places if place is not node])
        if self.network.are_parted(node.process, other.process):
            return False
        self.network.part(node.process, other.process)
        lasts_s = self.chaos.between(self.chaos.profile.apart_s)
        self.loop.in_world(lasts_s, self.network.join, node.process, other.process)
        return True

    async def _flip(self, node: Node) -> bool:
        """Flip a bit; a flipped bit that no process will read any more does not prevent another."""
        if self._flipped is not None:
            read = {other.log for other in self._places}
            read |= {member.name for member in self.assignment().dead}
            if self._flipped[0] not in read:
                self._restore_bit()
        return await super()._flip(node)


async def _retire(database: Database) -> None:
    with suppress(HornbeamError):  # its log is fenced, or a service was away
        await database.retire()


async def _close(node: Node) -> None:
    await node.database.leave()
    node.refuses = True
    await node.idle.wait()
    with suppress(HornbeamError):  # a service was away: recovery finishes the rest
        await node.database.close()
