"""Several nodes that serve one database together, over simulated services; faults occur only on
demand.

Each node is a process of its own; the store, the logs' disk and the coordination service outlive
the nodes. The work of a test at a node runs inside that node's process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from hornbeam_server.node.adapters import Ports
from hornbeam_server.node.database import Database
from hornbeam_server.node.settings import Settings
from hornbeam_server.query.workers.processes import inline_worker
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.storage.log.segments import SegmentedLog
from hornbeam_server.storage.simulated.chaos import Chaos, Profile
from hornbeam_server.storage.simulated.clock import SimulatedClock, SimulatedIds
from hornbeam_server.storage.simulated.coordination import SimulatedCoordination, SimulatedRegistry
from hornbeam_server.storage.simulated.files import (
    Operation,
    SimulatedDisk,
    SimulatedFiles,
    SimulatedLogs,
)
from hornbeam_server.storage.simulated.loop import InlineExecutor
from hornbeam_server.storage.simulated.network import RemoteCalls
from hornbeam_server.storage.simulated.peers import SimulatedNetwork, SimulatedPeers
from hornbeam_server.storage.simulated.store import SimulatedStore, SimulatedTables
from hornbeam_server.storage.source import LocalLogSource
from hornbeam_server.storage.tracing import Tracer
from hornbeam_server.txlayer.cluster.assignment import PATH, Assignment
from hornbeam_server.txlayer.statements.requests import (
    Statement,
    TransactionRequest,
    TransactionResult,
)
from tests.txlayer.members_world import until


class Node:
    """A node in a process of its own; `database` is set once it has joined."""

    database: Database

    def __init__(self, world: Nodes, name: str, skew_ms: int) -> None:
        self.world = world
        self.process = asyncio.get_running_loop().process(name)
        self.skew_ms = skew_ms

    async def join(self) -> None:
        self.database = await Database.join(
            self.world.settings, await self._ports(), f"http://{self.process.name}"
        )

    async def serve_alone(self) -> None:
        """Serve as the database's only process."""
        self.database = await Database.start(self.world.settings, await self._ports())

    async def _ports(self) -> Ports:
        world = self.world
        self.coordination = await SimulatedCoordination.open(
            world.registry, self._calls("coordination")
        )
        logs = SimulatedLogs(world.disk, carry=self._carry_files())
        return Ports(
            store=SimulatedStore(world.tables, self._calls("store")),
            coordination=self.coordination,
            open_log=self._open_log,
            clock=SimulatedClock(skew_ms=self.skew_ms),
            ids=SimulatedIds(world.chaos.random),
            new_threads=InlineExecutor,
            new_worker=inline_worker,
            peers=SimulatedPeers(world.network, self.process),
            logs=logs,
            log_source=LocalLogSource("simulated"),
            log_reader=logs,
            tracer=world.tracer,
        )

    def _calls(self, service: str) -> RemoteCalls:
        world = self.world
        return RemoteCalls(asyncio.get_running_loop(), world.chaos, self.process, service)

    def _carry_files(self) -> Callable[[Operation], Awaitable[Any]]:
        calls = self._calls("log")

        async def carry(operation: Operation) -> Any:
            return await calls.one(operation.kind, operation.apply)

        return carry

    async def _open_log(self, name: str, epoch: int, version: int) -> SegmentedLog:
        files = SimulatedFiles(self.world.disk, name, carry=self._carry_files())
        return await SegmentedLog.open(
            files, name, epoch, catalog_version=version, segment_bytes=1 << 16
        )

    # ------------------------------------------------------------ actions of tests

    async def do(self, work: Awaitable[Any]) -> Any:
        return await self.begin(work)

    def begin(self, work: Awaitable[Any]) -> asyncio.Task[Any]:
        async def run() -> Any:
            return await work

        return self.process.start(run())

    async def transact(self, *statements: str, **options: Any) -> TransactionResult:
        request = TransactionRequest(tuple(Statement(sql) for sql in statements), **options)
        return await self.do(self.database.transact(request))

    async def fetch(self, sql: str, **options: Any) -> list[tuple[Any, ...]]:
        return await self.do(self.database.fetch(sql, **options))

    async def value(self, sql: str, **options: Any) -> Any:
        ((value,),) = await self.fetch(sql, **options)
        return value

    async def apply(self, catalog: Catalog) -> None:
        """Put a catalog into force; this node must lead."""
        await self.do(self.database.keeper.apply(catalog))
        await self.do(self.database.keeper.wait_built())

    async def differences(self) -> int:
        """The number of differences that `verify` finds."""
        report = await self.do(self.database.verify())
        return report.differences

    @property
    def name(self) -> str:
        """The name of this node in the assignment."""
        return self.database.manager._name

    @property
    def slots(self) -> int:
        return self.world.assignment.slots.count(self.name)

    @property
    def seen(self) -> int:
        """The newest version of the assignment that it knows."""
        return self.database.manager._locks._view.version

    def die(self) -> None:
        """Crash the process and end its session."""
        self.process.crash()
        self.world.registry.end(self.coordination._session)

    async def stop(self) -> None:
        """Leave the members, close the database, and end the process."""
        await self.do(self.database.leave())
        await self.do(self.database.close())
        self.process.crash()


class Nodes:
    def __init__(
        self,
        *,
        seed: int = 1,
        profile: Profile | None = None,
        tracer: Tracer | None = None,
        **options: Any,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.settings = Settings(data=Path("simulated"), **options)
        self.chaos = Chaos(seed, profile or Profile())
        self.tables = SimulatedTables()
        self.disk = SimulatedDisk()
        self.registry = SimulatedRegistry(loop.time)
        self.network = SimulatedNetwork(loop, self.chaos)
        self.tracer = tracer
        self.all: list[Node] = []

    def launch(self, skew_ms: int = 0) -> asyncio.Task[Node]:
        node = Node(self, f"node {len(self.all) + 1}", skew_ms)
        self.all.append(node)

        async def join() -> Node:
            await node.join()
            return node

        return node.process.start(join())

    async def alone(self) -> Node:
        """A node that serves the database as its only process."""
        node = Node(self, f"node {len(self.all) + 1}", 0)
        self.all.append(node)
        await node.do(node.serve_alone())
        return node

    @property
    def assignment(self) -> Assignment:
        known = self.registry.read(PATH)
        return Assignment.decode(known.value) if known is not None else Assignment.founded("", 0)

    @property
    def living(self) -> list[Node]:
        return [node for node in self.all if not node.process.dead]

    @property
    def leader(self) -> Node:
        (leader,) = [node for node in self.living if node.database.keeper.leads]
        return leader

    async def settled(self, *, seconds: float = 30.0) -> None:
        """Wait until all living nodes are the members, share the slots, and use one catalog."""
        await until(self._is_settled, seconds)

    def _is_settled(self) -> bool:
        known = self.assignment
        names = {node.name for node in self.living}
        return (
            {member.name for member in known.members} == names == set(known.slots)
            and not (known.dead or known.leaving or known.gate_closed)
            and any(node.database.keeper.leads for node in self.living)
            and all(node.database.ready() for node in self.living)
            and {node.seen for node in self.living} == {self.registry.read(PATH).version}
            and len({node.database.catalog.version for node in self.living}) == 1
        )

    async def applied(self) -> None:
        """Wait until the commits of all living nodes are in the store, where other nodes read."""
        for node in self.living:
            await node.do(node.database.committer.drain())

    async def end(self) -> None:
        for node in self.all:
            node.process.crash()
        for node in self.all:
            await node.process.bury()
        assert asyncio.get_running_loop().uncaught == []


async def nodes(*skews_ms: int, catalog: Catalog | None = None, **options: Any) -> Nodes:
    """One node for each skew of a wall clock; all have joined. If there is a `catalog`, it is in
    force and all its views are built."""
    world = Nodes(**options)
    for joining in [world.launch(skew_ms) for skew_ms in skews_ms]:
        await joining
    await world.settled()
    if catalog is not None:
        await world.leader.apply(catalog)
        await world.settled()
    return world
